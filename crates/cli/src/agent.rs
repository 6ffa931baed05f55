//! One worker of a job, from its first tensor to its report: what a thread of the memory fabric and
//! the `tributary worker` process have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tributary_jobfile::{Job, OnUnderflow, Scenario};
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Mode, Tensor};
use tributary_reminder::LinkConfig;
use tributary_wire::WorkerIndex;
use tributary_worker::Node;

use crate::report::RoundingReport;
use crate::settings;
use crate::workload::{self, Pauses, TrainingReport, Verifier};

/// What a worker tells while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The worker waits until the others have joined.
    Waiting {
        /// Indices of workers that have not joined; empty while switches change over to the run.
        missing: Vec<u8>,
    },
    /// A round is over.
    Round {
        /// Rounds over.
        done: u64,
        /// Rounds of the whole job, at most.
        of: u64,
        /// What was reached, where something was.
        note: Option<String>,
    },
    /// All rounds are over.
    Done(Box<WorkerReport>),
    /// The worker failed.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

/// What a worker did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkerReport {
    /// Rounds.
    pub(crate) rounds: u64,
    /// Numbers summed.
    pub(crate) values: u64,
    /// Of them, compared with a sum computed apart and equal.
    pub(crate) verified: u64,
    /// Seconds in all-reduce; computing, pauses and comparing are not in it.
    pub(crate) reduce_seconds: f64,
    /// Packets sent, resends included.
    pub(crate) packets: u64,
    /// Packets sent again.
    pub(crate) resends: u64,
    /// Retransmission timeouts.
    pub(crate) timeouts: u64,
    /// Results whose task met another one's aggregator.
    pub(crate) collisions: u64,
    /// Results with a congestion mark.
    pub(crate) marked: u64,
    /// Fragments that were summed as floats, as an integer would have overflowed.
    pub(crate) overflows: u64,
    /// P4INC, SwitchML: results that made all workers repeat a fragment at a coarser scale.
    pub(crate) coarser: u64,
    /// P4INC: own packets that a switch turned back.
    pub(crate) turned_back: u64,
    /// Fragments: each has one result.
    pub(crate) fragments: u64,
    /// ESA: reminders sent to the reminder agent.
    pub(crate) reminders: u64,
    /// ESA: times that own values went to the parameter server over TCP.
    pub(crate) direct: u64,
    /// ESA: results that came over TCP.
    pub(crate) delivered: u64,
    /// ESA: results given over TCP for workers that missed them.
    pub(crate) lent: u64,
    /// Frames dropped because of what they were.
    pub(crate) rejected: u64,
    /// What fixed point made of its values.
    pub(crate) rounding: RoundingReport,
    /// What the training came to, if it was one.
    pub(crate) training: Option<TrainingReport>,
}

/// How a worker reaches the others.
pub(crate) struct Port<Io> {
    /// Packets.
    pub(crate) io: Io,
    /// The port's, if it is in memory.
    pub(crate) waker: Waker,
    /// The way to the reminder agent (ESA).
    pub(crate) link: Option<LinkConfig>,
    /// Whether the parameter server may be replaced by one that knows nothing. Then the worker stays
    /// until all others have their results.
    pub(crate) may_be_replaced: bool,
}

/// Runs a worker to its end. `tell` gets an event a round.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn work(
    scenario: &Scenario,
    job: &Job,
    index: WorkerIndex,
    port: Port<impl FrameIo + 'static>,
    verifier: &Verifier,
    stop: &Arc<AtomicBool>,
    mut tell: impl FnMut(Event),
) -> Result<WorkerReport> {
    let mut workload = workload::of(job, index.get().into())?;
    let config = scenario.worker_config(job, settings::assignment(scenario, job)?, index);
    let Port { io, waker, link, may_be_replaced } = port;
    let mut node = match link {
        None => Node::new(config, io, Arc::clone(stop))?,
        Some(link) => Node::with_channel(config, io, waker, link, Arc::clone(stop))?,
    };
    let begin = Instant::now();
    let mut pauses = Pauses::new(scenario, job, index);
    let mut report = WorkerReport::default();
    while let Some(tensors) = workload.next()? {
        sleep(pauses.next(), stop)?;
        let place = (report.rounds, workload.rounds());
        let tensors = prioritize(job, tensors, place, begin.elapsed());
        let start = Instant::now();
        let sums =
            node.all_reduce(tensors).map_err(|error| explain(scenario, job, index, error))?;
        report.reduce_seconds += start.elapsed().as_secs_f64();
        report.values += sums.iter().map(|tensor| tensor.len() as u64).sum::<u64>();
        refuse_infinite(&sums)?;
        report.rounding = node.stats().rounding.into();
        if job.on_underflow == OnUnderflow::Fail
            && let Some(complaint) = report.rounding.complaint(job, report.rounding.greatest)
        {
            bail!(complaint);
        }
        report.verified += verifier.check(report.rounds, workload.as_mut(), &sums)?;
        workload.finish(sums).context("cannot use the sums")?;
        report.rounds += 1;
        tell(Event::Round { done: report.rounds, of: workload.rounds(), note: workload.note() });
    }
    // Others may lack results that this worker has.
    let patience = 2 * scenario.worker_timeout;
    if !node.leave(patience, may_be_replaced)? {
        tracing::warn!(
            "worker {index} of job {} leaves, though not all others were heard to have their \
             results within {patience:?}",
            job.name
        );
    }
    let stats = node.stats();
    report.packets = stats.sent;
    report.resends = stats.resent;
    report.timeouts = stats.timeouts;
    report.collisions = stats.collisions;
    report.marked = stats.marked;
    report.overflows = stats.overflow_results;
    report.coarser = stats.coarser;
    report.turned_back = stats.asynchronous;
    report.fragments = stats.results;
    report.reminders = stats.reminders;
    report.direct = stats.direct;
    report.delivered = stats.delivered;
    report.lent = stats.lent;
    report.rejected = stats.rejected.total() - stats.rejected.foreign - stats.rejected.other_job;
    report.training = workload.training();
    Ok(report)
}

/// What may be wrong if no results come: a worker sees no more than that.
fn explain(
    scenario: &Scenario,
    job: &Job,
    index: WorkerIndex,
    error: tributary_worker::Error,
) -> anyhow::Error {
    let stalled = matches!(error, tributary_worker::Error::Stalled { .. });
    let error = anyhow::Error::from(error);
    if !stalled {
        return error;
    }
    let switch = settings::switch_of(scenario, job.workers[usize::from(index.get())]);
    let local = settings::assignment(scenario, job).is_ok_and(|assignment| {
        job.ps.is_none() || assignment.service.is_aggregated() && assignment.mode == Mode::Local
    });
    match job.ps.filter(|_| !local) {
        None => anyhow!(
            "{error}; are switch {switch} and the job's other workers up, and is the \
                         job admitted there?"
        ),
        Some(ps) => {
            let ps = &scenario.topology.host(ps).name;
            anyhow!(
                "{error}; are switch {switch}, the parameter server on {ps} and the job's other \
                     workers up, and is the job admitted at the switch?"
            )
        }
    }
}

/// Gives tensors their priorities (ESA §5.4): front to back, over the tensors of a round, or over the
/// rounds if each has one tensor.
fn prioritize(
    job: &Job,
    tensors: Vec<Tensor>,
    (round, rounds): (u64, u64),
    elapsed: Duration,
) -> Vec<(Tensor, Priority)> {
    let of = tensors.len();
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let priority = |tensor: usize| match of {
        1 if round < rounds => job.profile.priority(size(round), size(rounds), elapsed),
        _ => job.profile.priority(tensor, of, elapsed),
    };
    tensors.into_iter().enumerate().map(|(at, tensor)| (tensor, priority(at))).collect()
}

/// The inputs are finite, so an infinite sum is one that no `f32` can hold (I5: never silently).
fn refuse_infinite(sums: &[Tensor]) -> Result<()> {
    for (tensor, sum) in sums.iter().enumerate() {
        if let Tensor::F32(values) = sum
            && let Some(at) = values.iter().position(|value| !value.is_finite())
        {
            bail!("tensor {tensor}, value {at}: the sum is beyond the range of f32");
        }
    }
    Ok(())
}

/// Sleeps, but not past the stop flag.
fn sleep(pause: Duration, stop: &AtomicBool) -> Result<()> {
    let end = Instant::now() + pause;
    loop {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
