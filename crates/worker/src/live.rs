//! One worker of a job over a port, in real time: shared by the threads of the memory fabric and
//! the `tributary worker` process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};
use tracing::info_span;
use tributary_endpoint::driver::channel::LinkConfig;
use tributary_endpoint::driver::executor::Executor;
use tributary_endpoint::membership::Turns;
use tributary_metrics::Board;
use tributary_model::Deployment;
use tributary_model::job::Turn;
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::worker::Stats;
use tributary_wire::WorkerIndex;

use crate::node::{Error, Lane, Node};
use crate::numbers::Numbers;
use crate::rounds::{Event, Rounds, WorkerReport};
use crate::waits::CoreWaits;
use crate::workload::Verifier;

/// A worker's connections.
pub struct WorkerPort {
    /// Those of each lane of the job.
    pub lanes: Vec<LanePort>,
    /// Whether a replacement without state may take over the parameter server. Then the worker
    /// stays until all others have their results.
    pub may_be_replaced: bool,
    /// Whether the worker has this process for itself.
    pub own_process: bool,
    /// The iterations and the rate of the job, if a controller tells them, and whether rounds wait for iterations.
    pub turns: Option<(Turns, bool)>,
    /// Where the worker publishes its numbers.
    pub board: Board<Numbers>,
}

/// The connections of a worker's lane.
pub struct LanePort {
    /// Packets.
    pub io: Box<dyn FrameIo>,
    /// Runs the lane's endpoint, beside others. Without one, a single lane without a channel runs in the
    /// thread of the worker, and every other one in a thread of its own.
    pub executor: Option<Arc<Executor>>,
    /// The channel to the reminder agent (ESA).
    pub link: Option<LinkConfig>,
}

/// Runs a worker of the job whose first lane has this index in the file. `tell` gets one event per
/// round.
///
/// # Errors
/// One line that describes the problem.
pub fn work(
    deployment: &Arc<Deployment>,
    job: usize,
    index: WorkerIndex,
    port: WorkerPort,
    verifier: Verifier,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(Event),
) -> Result<WorkerReport> {
    let mut rounds = Rounds::new(Arc::clone(deployment), job, index, verifier)?;
    let (worked, stats) = work_on(&mut rounds, port, stop, tell);
    worked.map(|()| rounds.report(&stats))
}

/// Runs the rounds of a worker that are left in a run. Returns its counters in this run, too. `tell` gets
/// one event per round.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn work_on(
    rounds: &mut Rounds,
    port: WorkerPort,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(Event),
) -> (Result<()>, Stats) {
    let (deployment, job, index) = rounds.part();
    let deployment = Arc::clone(deployment);
    let _span = info_span!("worker", job = deployment.job(job).name, %index).entered();
    let WorkerPort { lanes, may_be_replaced, own_process, turns, board } = port;
    let mut node = match node(&deployment, job, index, lanes, stop, &board) {
        Ok(node) => node,
        Err(error) => return (Err(error), Stats::default()),
    };
    let has_runner =
        deployment.scenario().lanes(job).len() == 1 && turns.is_some() && !node.has_executor();
    let (node_turns, steps) = match turns {
        Some((turns, stepped)) if has_runner => (Some(turns.clone()), stepped.then_some(turns)),
        _ => (None, None),
    };
    if let Some(turns) = node_turns {
        node = node.keeping(turns);
    }
    let turns = steps.as_ref();
    let worked = carry_out(rounds, &mut node, own_process, turns, stop, tell).and_then(|()| {
        if let Some(turns) = turns {
            return leave(&mut node, turns, rounds);
        }
        // Others may lack results that this worker has.
        let patience = rounds.patience();
        if !node.leave(patience, may_be_replaced)? {
            tracing::warn!(
                "worker {index} of job {} leaves, though not all others were heard to have their results \
                 within {patience:?}",
                deployment.job(job).name
            );
        }
        Ok(())
    });
    (worked, node.stats())
}

fn carry_out(
    rounds: &mut Rounds,
    node: &mut Node<Box<dyn FrameIo>>,
    own_process: bool,
    turns: Option<&Turns>,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(Event),
) -> Result<()> {
    let begin = Instant::now();
    let (deployment, job, _) = rounds.part();
    let run = deployment.job(job).epoch;
    let mut waits = CoreWaits::of_this_thread();
    while let Some((pause, tensors)) = rounds.begin()? {
        let number = rounds.stopped().rounds + 1;
        if let Some(turns) = turns {
            let turn = node.wait(|| due(turns, number).transpose())??;
            node.reassign(turn.assignment)?;
            rounds.reassign(turn.assignment);
            tell(Event::iteration(number, turn.assignment));
        }
        sleep(pause, stop)?;
        let tensors = rounds.prioritize(tensors, begin.elapsed());
        let before = own_process.then(processor_time).transpose()?;
        rounds.count_core_wait(waits.more());
        let start = Instant::now();
        let sums = node.all_reduce(tensors).map_err(|error| match error {
            Error::Stalled { .. } => Silence(rounds.explain_stall(&error)).into(),
            error => anyhow::Error::from(error),
        })?;
        let reduce = start.elapsed();
        waits.more();
        if let Some(before) = before {
            rounds.count_processor(processor_time()?.saturating_sub(before));
        }
        // Before the sums are verified: the iteration ends with the last report.
        turns.inspect(|turns| turns.finish(run, number));
        tell(rounds.end(sums, reduce, &node.stats())?);
        if let Some(turns) = turns {
            let reported = |turn: Turn| turn.number > number || turn.reported || !turn.running;
            match node.wait(|| turns.now().is_some_and(reported).then_some(())) {
                // The job was released after its last iteration, while nobody could tell this worker.
                Err(Error::Stopped) if rounds.stopped().is_done() => {}
                waited => waited?,
            }
        }
    }
    Ok(())
}

/// The turn with which an iteration begins; `None` until it runs.
fn due(turns: &Turns, number: u64) -> Result<Option<Turn>> {
    match turns.now() {
        Some(turn) if turn.number == number && turn.running && !turn.reported => Ok(Some(turn)),
        // No iteration ends without a report of this worker.
        Some(turn) if turn.number >= number => bail!(
            "iteration {} of the job has begun, and this worker is due in iteration {number}: another process \
             was the same worker; start all workers of the job again",
            turn.number
        ),
        _ => Ok(None),
    }
}

/// Stays until all workers have reported the last iteration, so that none lacks a result.
fn leave(node: &mut Node<Box<dyn FrameIo>>, turns: &Turns, rounds: &Rounds) -> Result<()> {
    let (last, patience) = (rounds.stopped().rounds, rounds.patience());
    let deadline = Instant::now() + patience;
    let left = node.wait(|| {
        let runs = turns.now().is_some_and(|turn| turn.number == last && turn.running);
        (!runs || Instant::now() >= deadline).then_some(runs)
    });
    match left {
        Ok(true) => tracing::warn!(
            "the worker leaves, though not all others have reported the end of iteration {last} within {patience:?}"
        ),
        // A release after the last iteration is the normal end of a job.
        Ok(false) | Err(Error::Stopped) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// No results came, for these possible causes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Silence(anyhow::Error);

/// The worker's endpoints, in this thread or in others.
fn node(
    deployment: &Deployment,
    job: usize,
    index: WorkerIndex,
    ports: Vec<LanePort>,
    stop: &Arc<AtomicBool>,
    board: &Board<Numbers>,
) -> Result<Node<Box<dyn FrameIo>>> {
    let ports = match <[LanePort; 1]>::try_from(ports) {
        Ok([LanePort { io, executor: None, link: None }]) => {
            return Ok(Node::new(deployment.worker(job, index), io, Arc::clone(stop), board)?);
        }
        Ok(port) => port.into(),
        Err(ports) => ports,
    };
    Ok(Node::on(lanes(deployment, job, index, ports)?, stop, board)?)
}

/// The lanes of a worker of the job whose first lane has this index in the file, each on its executor or
/// a new one.
///
/// # Errors
/// If a thread cannot be started.
pub fn lanes(
    deployment: &Deployment,
    job: usize,
    index: WorkerIndex,
    ports: Vec<LanePort>,
) -> Result<Vec<Lane<Box<dyn FrameIo>>>> {
    let lanes = deployment.scenario().lanes(job).zip(ports).map(|(lane, port)| {
        let LanePort { io, executor, link: channel } = port;
        let executor = match executor {
            Some(executor) => executor,
            None => {
                let name = format!("worker {index} lane {}", lane - job);
                Arc::new(Executor::start(name, Waker::new()).context("cannot start a thread")?)
            }
        };
        Ok(Lane { executor, config: deployment.worker(lane, index), io, channel })
    });
    lanes.collect()
}

/// Processor time of all threads of this process so far, in user and kernel mode.
fn processor_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    Ok(time.context("cannot read the processor time of this process")?.into())
}

/// Sleeps, but at most until `stop` is raised.
pub(crate) fn sleep(pause: Duration, stop: &AtomicBool) -> Result<()> {
    let end = Instant::now() + pause;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped.into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
