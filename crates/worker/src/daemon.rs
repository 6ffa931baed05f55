//! One worker of a job, as a daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{self, Membership};
use tributary_endpoint::tokens::Tokens;
use tributary_endpoint::{Args, channel, names, numbers, open_lanes};
use tributary_metrics::{Board, Metrics};
use tributary_model::{Deployment, JobSpec};
use tributary_wire::{WorkerIndex, WorkerSet};

use crate::alone;
use crate::numbers::Workers;
use crate::part::{self, Host};
use crate::rounding::complaint;
use crate::rounds::{Event, Rounds, WorkerReport};
use crate::workload::{Verifier, need};

/// Selects a worker of a job.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Name of the job; may be left out if there is a job file, and it has one job.
    pub job: Option<&'a str>,
    /// Index of the worker. Without a job file, the one on this host.
    pub worker: Option<u16>,
    /// Name of this host, if its interface's address does not tell.
    pub host: Option<&'a str>,
    /// Whether the process is also the parameter server of a job that has no other worker.
    pub alone: bool,
}

/// A worker that knows its job.
struct Known {
    deployment: Deployment,
    /// Index of its job, by the first lane.
    at: usize,
    index: WorkerIndex,
    tokens: Tokens,
    /// Its part in the job, if a controller names its runs.
    membership: Option<Membership>,
    /// Whether a client lets each round begin.
    stepped: bool,
}

impl Known {
    fn from_file(args: &Args, which: Which<'_>) -> Result<Self> {
        let deployment = args.load()?;
        let scenario = deployment.scenario();
        let at = names::job(scenario, which.job)?;
        let worker =
            which.worker.context("which worker is this? Name its index with --worker N")?;
        let index = WorkerIndex::new(worker).context("a job has at most 1024 workers")?;
        let tokens = if which.alone { Tokens::default() } else { args.tokens()? };
        Ok(Self { at, index, tokens, membership: None, stepped: false, deployment })
    }

    fn from_controller(
        args: &Args,
        which: Which<'_>,
        stop: &Arc<AtomicBool>,
        tell: &dyn Fn(&Event),
    ) -> Result<Self> {
        let job = which.job.context("which job is this? Name it with --job NAME")?.to_owned();
        let controller = args.controller("")?;
        let who = match which.worker {
            Some(worker) => {
                let index = WorkerIndex::new(worker);
                membership::Who::Index(index.context("a job has at most 1024 workers")?)
            }
            None => membership::Who::Host(args.host_name(which.host)?),
        };
        let which = membership::Which::of_file(job, who);
        let mut membership = Membership::take(controller, which, stop)?;
        let unadmitted = |reason| tell(&Event::Unadmitted { reason });
        let membership::Setup { mut deployment, tokens, worker: index, stepped, .. } =
            membership.setup(stop, unadmitted)?;
        if let Some(seed) = args.seed {
            deployment.set_seed(seed);
        }
        let stepped = !stepped.is_empty();
        Ok(Self { deployment, at: 0, index, tokens, membership: Some(membership), stepped })
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
    let known = match args.job_file {
        Some(_) => Known::from_file(args, which)?,
        None => Known::from_controller(args, which, stop, tell)?,
    };
    let Known { mut deployment, at, index, tokens, membership, stepped } = known;
    let scenario = deployment.scenario().clone();
    let job = &scenario.jobs[at];
    let host = job.workers.get(usize::from(index.get()));
    let host = *host.with_context(|| {
        format!("job {} has workers 0 to {}, not {index}", job.name, job.workers.len() - 1)
    })?;
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
        let deployment = Arc::new(deployment);
        let report =
            alone::work(&deployment, at, verifier, stop, board, &mut |event| tell(&event))?;
        return Ok(warn(job, report));
    }
    let address = |agent| channel::agent_address(&scenario, agent);
    // Report an invalid token before the worker joins the run.
    let lanes = scenario.lanes(at);
    for lane in &scenario.jobs[lanes.clone()] {
        channel::worker_link(&scenario, lane, index, &tokens, address)?;
    }
    let _claim = claim(&args.interface, "worker", &scenario.jobs[lanes.clone()])?;
    let ports = open_lanes(&scenario, host, args, at)?;
    let waiting = |missing: WorkerSet| tell(&Event::waiting(missing));
    let given = args.given(&scenario.jobs[lanes.clone()]);
    let membership = match (membership, &given) {
        (None, None) => {
            let (job, who) = (job.name.clone(), membership::Who::Index(index));
            let controller = args.controller(&job)?;
            let which = membership::Which::of_file(job, who);
            let mut membership = Membership::take(controller, which, stop)?;
            let told = membership.setup(stop, |reason| tell(&Event::Unadmitted { reason }))?;
            ensure!(
                told.stepped.is_empty(),
                "job {}: a client lets its rounds begin, so the controller must say where it is summed; leave the \
                 job file out",
                scenario.jobs[at].name
            );
            Some(membership)
        }
        (membership, _) => membership,
    };
    let stall = scenario.network.worker_timeout;
    let (membership, epochs, from) = match membership {
        Some(mut membership) => {
            let begun = membership.begin(stall, stop, waiting)?;
            (Some(membership), begun.epochs, begun.rounds)
        }
        None => (None, given.unwrap_or_default(), 0),
    };
    if stepped && let Some(membership) = &membership {
        deployment.set_assignment(at, membership.first_turn(stop)?.assignment);
    }
    lanes.clone().zip(epochs).for_each(|(lane, epoch)| deployment.set_epoch(lane, epoch));
    let mut rounds = Rounds::new(Arc::new(deployment), at, index, verifier)?;
    if from > 0 {
        tell(&rounds.come_back(from)?);
    }
    let host = Host { args, id: host, tokens, stepped, board };
    let report = part::run(&host, rounds, ports, membership, stop, &mut |event| tell(&event))?;
    Ok(warn(job, report))
}
