//! One worker of a job, as a daemon.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{self, Membership, Setup, Who};
use tributary_endpoint::{Args, channel, numbers, open_lanes};
use tributary_metrics::{Board, Metrics};
use tributary_wire::{JobId, WorkerIndex, WorkerSet};

use crate::lost::Lost;
use crate::numbers::Workers;
use crate::part::{self, Host};
use crate::rounding::complaint;
use crate::rounds::{Event, Rounds, WorkerReport};
use crate::workload::{Verifier, need};

/// Which worker of which job this process is.
#[derive(Clone, Debug)]
pub struct Which<'a> {
    /// Name of the job in the controller's file, or ID of any job.
    pub job: &'a str,
    /// What the worker shows, if the job wants a key.
    pub key: Vec<u8>,
    /// Index of the worker; `None`: the one on this host.
    pub worker: Option<u16>,
    /// Name of this host, if its interface's address does not tell.
    pub host: Option<&'a str>,
    /// Seed of the values, in place of the job's.
    pub seed: Option<u64>,
}

impl Which<'_> {
    fn part(self, args: &Args) -> Result<membership::Which> {
        let who = match self.worker {
            Some(worker) => {
                let index = WorkerIndex::new(worker);
                Who::Index(index.context("a job has at most 1024 workers")?)
            }
            None => Who::Host(args.host_name(self.host)?),
        };
        let id = match self.job.parse() {
            Ok(number) => Some(JobId::new(number).context("the IDs of jobs begin with 1")?),
            Err(_) => None,
        };
        Ok(membership::Which { job: self.job.into(), id, key: self.key, who, led: false })
    }
}

/// Runs a worker to its end. `tell` gets one event per round, and `metrics` what the worker counts.
///
/// # Errors
/// One line that describes the problem.
pub fn run(
    args: &Args,
    which: Which<'_>,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    tell: &dyn Fn(&Event),
) -> Result<WorkerReport> {
    let seed = which.seed;
    let mut membership = Membership::take(args.controller()?, which.part(args)?, stop)?;
    let unadmitted = |reason| tell(&Event::Unadmitted { reason });
    let Setup { mut deployment, tokens, worker: index, stepped, .. } =
        membership.setup(stop, unadmitted)?;
    if let Some(seed) = seed {
        deployment.set_seed(seed);
    }
    let stepped = !stepped.is_empty();
    let scenario = deployment.scenario().clone();
    // The set-up has this job alone.
    let at = 0;
    let job = &scenario.jobs[at];
    let host = job.workers.get(usize::from(index.get()));
    let host = *host.with_context(|| {
        format!("job {} has workers 0 to {}, not {index}", job.name, job.workers.len() - 1)
    })?;
    need::check_worker(job)?;
    let verifier = Verifier::new(job, scenario.network.switch.values_per_packet, 1);
    let board = Board::default();
    metrics.add(Workers::of(index, board.clone()));
    metrics.add(numbers::Jobs::new(&scenario.jobs));
    let address = |agent| channel::agent_address(&scenario, agent);
    // Report an invalid token before the worker joins the run.
    for lane in &scenario.jobs {
        channel::worker_link(&scenario, lane, index, &tokens, address)?;
    }
    let _claim = claim(&args.interface, "worker", &scenario.jobs)?;
    let ports = open_lanes(&scenario, host, args, at)?;
    let waiting = |missing: WorkerSet| tell(&Event::waiting(missing));
    let begun = membership.begin(scenario.network.worker_timeout, stop, waiting)?;
    if stepped {
        deployment.set_assignment(at, membership.first_turn(stop)?.assignment);
    }
    for (lane, epoch) in scenario.lanes(at).zip(begun.epochs) {
        deployment.set_epoch(lane, epoch);
    }
    let mut rounds = Rounds::new(Arc::new(deployment), at, index, verifier)?;
    if begun.rounds > 0 {
        tell(&rounds.come_back(begun.rounds)?);
    }
    let frames = RefCell::default();
    let host = Host { args, id: host, tokens, stepped, board, frames };
    let report = part::run(&host, rounds, ports, membership, stop, &|event| tell(&event))?;
    if !args.json_events
        && let Some(complaint) =
            complaint(&report.stats.rounding, job, report.stats.rounding.greatest)
    {
        tracing::warn!("job {}: {complaint}", job.name);
    }
    let lost = Lost::new(report.stats.delays, job.lane.count);
    if !args.json_events && lost.is_much() {
        tracing::warn!("job {}: the worker {lost}", job.name);
    }
    Ok(report)
}
