//! One worker of a job, as a daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{self, Membership};
use tributary_endpoint::schedule::Scheduler;
use tributary_endpoint::{Args, channel, names, numbers, open_lanes};
use tributary_metrics::{Board, Metrics};
use tributary_model::JobSpec;
use tributary_netio::Waker;
use tributary_wire::{WorkerIndex, WorkerSet};

use crate::numbers::Workers;
use crate::part::{self, Host};
use crate::rounding::complaint;
use crate::rounds::{Event, Rounds, WorkerReport};
use crate::workload::{Verifier, need};
use crate::{alone, scheduled};

/// Selects a worker of a job file.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Name of the job; may be left out if the file has one job.
    pub job: Option<&'a str>,
    /// Index of the worker.
    pub worker: u16,
    /// Whether the process is also the parameter server of a job that has no other worker.
    pub alone: bool,
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
    let mut deployment = args.load()?;
    let scenario = deployment.scenario().clone();
    let at = names::job(&scenario, which.job)?;
    let job = &scenario.jobs[at];
    let Which { worker, .. } = which;
    let Some(&host) = job.workers.get(usize::from(worker)) else {
        bail!("job {} has workers 0 to {}, not {worker}", job.name, job.workers.len() - 1);
    };
    let index = WorkerIndex::new(worker).context("a job has at most 1024 workers")?;
    need::check_worker(job)?;
    let warn = |job: &JobSpec, report: WorkerReport| {
        if !args.json_events
            && let Some(complaint) =
                complaint(&report.stats.rounding, job, report.stats.rounding.greatest)
        {
            tracing::warn!("job {}: {complaint}", job.name);
        }
        report
    };
    let verifier = Verifier::new(job, scenario.network.switch.values_per_packet, 1);
    let board = Board::default();
    metrics.add(Workers::of(index, board.clone()));
    metrics.add(numbers::Jobs::new(&scenario.jobs[scenario.lanes(at)]));
    if which.alone {
        ensure!(
            args.scheduler.is_none(),
            "--alone: no scheduler decides about the job; leave out --scheduler"
        );
        let deployment = Arc::new(deployment);
        let report =
            alone::work(&deployment, at, verifier, stop, board, &mut |event| tell(&event))?;
        return Ok(warn(job, report));
    }
    let tokens = args.tokens()?;
    let address = |agent| channel::agent_address(&scenario, agent);
    // Report an invalid token before the worker joins the run.
    let lanes = scenario.lanes(at);
    for lane in &scenario.jobs[lanes.clone()] {
        channel::worker_link(&scenario, lane, index, &tokens, address)?;
    }
    let _claim = claim(&args.interface, "worker", &scenario.jobs[lanes.clone()])?;
    let mut ports = open_lanes(&scenario, host, args, at)?;
    if let Some(address) = &args.scheduler {
        let scheduler = Scheduler::at(&args.keys.remote("--scheduler", address)?)?;
        let follower = scheduler.follow(job, Some(index), Waker::new());
        let standing = scheduled::admitted(&follower, stop, &mut |event| tell(&event))?;
        deployment.set_epoch(at, standing.epoch);
        deployment.set_assignment(at, standing.assignment);
        let port = scheduled::Port { io: Box::new(ports.remove(0)), board };
        let deployment = Arc::new(deployment);
        let mut tell = |event| tell(&event);
        let which = (at, index);
        let report =
            scheduled::work(&deployment, which, port, &follower, verifier, stop, &mut tell)?;
        return Ok(warn(job, report));
    }
    let waiting = |missing: WorkerSet| tell(&Event::waiting(missing));
    let mut from = 0;
    let (membership, epochs) = match args.given(&scenario.jobs[lanes.clone()]) {
        Some(epochs) => (None, epochs),
        None => {
            let controller = args.controller(&job.name)?;
            let which = membership::Which {
                job: job.name.clone(),
                worker: index,
                goes_on: job.on_death.goes_on(),
                stall: scenario.network.worker_timeout,
            };
            let mut membership = Membership::take(controller, which, stop)?;
            let begun = membership.begin(stop, waiting)?;
            from = begun.rounds;
            (Some(membership), begun.epochs)
        }
    };
    lanes.clone().zip(epochs).for_each(|(lane, epoch)| deployment.set_epoch(lane, epoch));
    let mut rounds = Rounds::new(Arc::new(deployment), at, index, verifier)?;
    if from > 0 {
        tell(&rounds.come_back(from)?);
    }
    let host = Host { args, id: host, tokens, board };
    let report = part::run(&host, rounds, ports, membership, stop, &mut |event| tell(&event))?;
    Ok(warn(job, report))
}
