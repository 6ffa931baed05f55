//! The run of its job that an endpoint takes part in.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tributary_access::Remote;
use tributary_controller::runs::{Attended, Attendee};
use tributary_controller::{Error, runs};
use tributary_model::{Deployment, JobSpec};
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

pub use tributary_controller::runs::{Begun, Continuation, Standing, Verdict};

use crate::{Args, until};

/// An epoch from the command line, for one job of the file or for the only one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    job: Option<String>,
    epoch: Epoch,
}

impl Given {
    /// Whether it names no job.
    pub(crate) fn is_for_all(&self) -> bool {
        self.job.is_none()
    }
}

impl FromStr for Given {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (job, number) = match text.split_once('=') {
            Some((job, number)) => (Some(job.to_owned()), number),
            None => (None, text),
        };
        let epoch = number.parse().ok().and_then(Epoch::new);
        let epoch = epoch.ok_or("write N or JOB=N, with a number from 1 to 4294967295")?;
        Ok(Self { job, epoch })
    }
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.job {
            Some(job) => write!(f, "{job}={}", self.epoch),
            None => self.epoch.fmt(f),
        }
    }
}

/// The run of a job that an endpoint joins: the given one, or the one that the controller names. A
/// worker that asks the controller waits for the other workers, which are passed to `missing`.
///
/// # Errors
/// If neither was given, or the controller does not name one, or `stop` is set while this waits.
pub fn join(
    args: &Args,
    job: &JobSpec,
    worker: Option<WorkerIndex>,
    stop: &AtomicBool,
    missing: impl FnMut(WorkerSet),
) -> Result<Begun> {
    let own = |given: &&Given| given.job.as_ref().is_none_or(|name| *name == job.name);
    if let Some(given) = args.epoch.iter().find(own) {
        return Ok(Begun { epoch: given.epoch, workers: None });
    }
    let Some(controller) = &args.controller else {
        bail!(
            "job {}: which run of it is this? Name the controller with --controller ADDRESS, where \
             `tributary controller` was started with --listen ADDRESS, or the run with --epoch N",
            job.name
        );
    };
    let controller = args.keys.remote("--controller", controller)?;
    let ask = runs::ask(&controller, job.id, worker, missing);
    let begun = crate::runtime()?.block_on(async {
        tokio::select! {
            begun = ask => match begun {
                Err(Error::Without(reason)) => bail!(reason),
                begun => begun.with_context(|| format!("job {}", job.name)),
            },
            () = until(stop) => {
                bail!("job {}: stopped before it had joined a run", job.name)
            }
        }
    })?;
    tracing::info!(job = job.name, epoch = %begun.epoch, "joined a run");
    Ok(begun)
}

/// [`join`]s the runs of all lanes of a job at once: a worker that is started again while others still
/// wait must find a run of each lane in which it can take part. `missing` gets the workers that the
/// first lane waits for.
///
/// # Errors
/// As [`join`].
pub fn join_lanes(
    args: &Args,
    lanes: &[JobSpec],
    worker: WorkerIndex,
    stop: &AtomicBool,
    missing: impl FnMut(WorkerSet),
) -> Result<Vec<Epoch>> {
    let Some((first, others)) = lanes.split_first() else { return Ok(Vec::new()) };
    let epoch = |begun: Result<Begun>| begun.map(|begun| begun.epoch);
    std::thread::scope(|scope| {
        let join_other = |lane| {
            let other = move || join(args, lane, Some(worker), stop, |_| {});
            std::thread::Builder::new().spawn_scoped(scope, other).context("cannot start a thread")
        };
        let others: Vec<_> = others.iter().map(join_other).collect::<Result<_>>()?;
        let first = join(args, first, Some(worker), stop, missing);
        let others = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(first).chain(others).map(epoch).collect()
    })
}

/// [`join`]s the runs of all jobs of a deployment that a process serves, which has the workers of the file.
///
/// # Errors
/// As [`join`].
pub fn join_all(
    args: &Args,
    deployment: &mut Deployment,
    serves: impl Fn(&&JobSpec) -> bool,
    stop: &AtomicBool,
) -> Result<()> {
    for index in 0..deployment.scenario().jobs.len() {
        let job = deployment.job(index);
        if serves(&job) {
            let Begun { epoch, workers } = join(args, job, None, stop, |_| {})?;
            deployment.set_epoch(index, epoch);
            if let Some(workers) = workers {
                deployment.keep(index, workers);
            }
        }
    }
    Ok(())
}

/// Watches for new runs of a process's jobs, on a separate thread. A new run, or `stop`, raises
/// [`over`](Self::over).
#[derive(Debug)]
pub struct Follower {
    over: Arc<AtomicBool>,
    /// Ends the thread when dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Follower {
    /// Follows these jobs. Runs from `--epoch` last until `stop`.
    pub fn start<'a>(
        args: &Args,
        jobs: impl IntoIterator<Item = &'a JobSpec>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let Some(controller) = &args.controller else {
            return Ok(Self { over: Arc::clone(stop), runtime: None });
        };
        let controller = args.keys.remote("--controller", controller)?;
        let over = Arc::new(AtomicBool::new(false));
        let runtime = crate::runtime()?;
        let raise = |over: &Arc<AtomicBool>| over.store(true, Ordering::Relaxed);
        for job in jobs {
            let (address, id, epoch) = (controller.clone(), job.id, job.epoch);
            let over = Arc::clone(&over);
            runtime.spawn(async move {
                while let Err(error) = runs::over(&address, id, epoch).await {
                    tracing::debug!("{error}");
                    tokio::time::sleep(AGAIN).await;
                }
                raise(&over);
            });
        }
        let (stop, both) = (Arc::clone(stop), Arc::clone(&over));
        runtime.spawn(async move {
            until(&stop).await;
            raise(&both);
        });
        Ok(Self { over, runtime: Some(runtime) })
    }

    /// Raised when one of the runs is over.
    pub fn over(&self) -> &AtomicBool {
        &self.over
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Pause before a controller that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// The same for a worker in a run, which is soon taken for dead.
const SOON: Duration = Duration::from_millis(200);

/// Interval of checks for the end of the process.
const TICK: Duration = Duration::from_millis(50);

/// Time to tell the controller that a worker has all results.
const FAREWELL: Duration = Duration::from_secs(1);

/// Time for the controller to see that a worker has gone with its host, whose answer to a ping it waits for, and
/// for switches to change to the next run.
const DECISION: Duration = Duration::from_secs(45);

/// A worker's part in a run, on a separate thread: the controller learns when this process dies, and this
/// process when another worker of the run does.
#[derive(Debug)]
pub struct Attendant {
    seat: Seat,
    /// What the controller has decided about the run, and the place in the next one.
    verdicts: mpsc::Receiver<(Verdict, Seat)>,
    standing: watch::Sender<Option<(Epoch, Standing)>>,
    /// How long it waits for a decision.
    patience: Duration,
    /// What talks to the controller.
    task: Option<JoinHandle<()>>,
    /// Ends the thread when dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

/// A worker's place in one run.
#[derive(Clone, Debug)]
struct Seat {
    epoch: Epoch,
    halt: Arc<AtomicBool>,
    lost: Arc<OnceLock<WorkerIndex>>,
}

impl Seat {
    fn new(epoch: Epoch) -> Self {
        Self { epoch, halt: Arc::default(), lost: Arc::default() }
    }

    fn lose(&self, other: WorkerIndex) {
        self.lost.get_or_init(|| other);
        self.halt.store(true, Ordering::Relaxed);
    }

    /// Halts when the process is to stop.
    fn follow(&self, stop: &Arc<AtomicBool>) {
        let (stop, halt) = (Arc::clone(stop), Arc::clone(&self.halt));
        tokio::spawn(async move {
            until(&stop).await;
            halt.store(true, Ordering::Relaxed);
        });
    }
}

impl Attendant {
    /// Attends the run of a job, unless no controller was named: then no worker learns of another's death.
    /// Workers to which no result comes stop after twice the `timeout`.
    ///
    /// # Errors
    /// If the controller's address or the keys are unusable, or no thread can be started.
    pub fn start(
        args: &Args,
        job: &JobSpec,
        worker: WorkerIndex,
        timeout: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let patience = DECISION + 2 * timeout;
        let (standing, said) = watch::channel(None);
        let (decided, verdicts) = mpsc::channel();
        let mut seat = Seat::new(job.epoch);
        let Some(controller) = &args.controller else {
            seat.halt = Arc::clone(stop);
            return Ok(Self { seat, verdicts, standing, patience, task: None, runtime: None });
        };
        let controller = args.keys.remote("--controller", controller)?;
        let runtime = crate::runtime()?;
        let attendee = Attendee { run: job.run(), worker, goes_on: job.on_death.goes_on() };
        let attending = attend(controller, attendee, seat.clone(), said, decided, Arc::clone(stop));
        let task = runtime.spawn(attending);
        let (task, runtime) = (Some(task), Some(runtime));
        Ok(Self { seat, verdicts, standing, patience, task, runtime })
    }

    /// Whether there is a controller to ask.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.task.is_some()
    }

    /// Raised when the worker is to stop, because another one has died or for another reason.
    #[must_use]
    pub fn halt(&self) -> &Arc<AtomicBool> {
        &self.seat.halt
    }

    /// The worker that has died.
    #[must_use]
    pub fn lost(&self) -> Option<WorkerIndex> {
        self.seat.lost.get().copied()
    }

    /// The worker has all results: its end is not its death.
    pub fn leave(mut self) {
        self.say(Standing { rounds: 0, done: true });
        if let (Some(runtime), Some(task)) = (&self.runtime, self.task.take()) {
            // A controller that does not answer now takes the worker for dead, when all others have their
            // results, too.
            let _ = runtime.block_on(async { tokio::time::timeout(FAREWELL, task).await });
        }
    }

    /// In a job that goes on without workers that die: tells the controller that this one has stopped summing, and waits
    /// for what it decides.
    ///
    /// # Errors
    /// If no decision comes in time, or `stop` is raised.
    pub fn settle(&mut self, standing: Standing, stop: &AtomicBool) -> Result<Verdict> {
        self.say(standing);
        let patience = self.patience;
        let deadline = Instant::now() + patience;
        loop {
            match self.verdicts.recv_timeout(TICK) {
                Ok((verdict, seat)) => {
                    if matches!(verdict, Verdict::GoOn(_)) {
                        self.seat = seat;
                    }
                    return Ok(verdict);
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => bail!("stopped"),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => bail!(
                    "the controller has not decided within {patience:?} how the job goes on; see whether it \
                     runs"
                ),
            }
        }
    }

    fn say(&self, standing: Standing) {
        self.standing.send_replace(Some((self.seat.epoch, standing)));
    }
}

/// Attends a run, and then those in which the job goes on.
async fn attend(
    controller: Remote,
    mut attendee: Attendee,
    mut seat: Seat,
    mut said: watch::Receiver<Option<(Epoch, Standing)>>,
    decided: mpsc::Sender<(Verdict, Seat)>,
    stop: Arc<AtomicBool>,
) {
    seat.follow(&stop);
    loop {
        match runs::attend(&controller, attendee, &mut said, |lost| seat.lose(lost)).await {
            Ok(Attended::Done | Attended::Over | Attended::Lost) => return,
            Ok(Attended::Decided(verdict)) => {
                let next = match &verdict {
                    Verdict::GoOn(next) => Some(next.epoch),
                    Verdict::Complete | Verdict::Over(_) => None,
                };
                let before =
                    std::mem::replace(&mut seat, Seat::new(next.unwrap_or(attendee.run.epoch)));
                // The worker may have gone.
                drop(decided.send((verdict, seat.clone())));
                // It may not know of any loss yet.
                before.halt.store(true, Ordering::Relaxed);
                let Some(epoch) = next else { return };
                attendee.run = attendee.run.job.run(epoch);
                seat.follow(&stop);
            }
            Err(error) => {
                tracing::debug!("{error}");
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_given_for_one_job_or_all() {
        for (text, job, epoch) in [("7", None, 7), ("a=9", Some("a"), 9)] {
            let given: Given = text.parse().unwrap();
            assert_eq!((given.job.as_deref(), given.epoch.get()), (job, epoch));
            assert_eq!(given.to_string(), text);
        }
        for text in ["", "0", "a=0", "a=", "=", "a", "4294967296", "-1", "1=2=3"] {
            assert!(text.parse::<Given>().is_err(), "{text}");
        }
    }
}
