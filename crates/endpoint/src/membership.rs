//! A worker's part in its job, as a controller tells it.
//!
//! A [`Membership`] is a stream that lasts as long as the worker's part in the job. It has a thread of its own,
//! so that packets never wait for the controller. When it breaks in the middle of a run, the worker calls again
//! at once, because it is soon taken for dead; sums go on meanwhile, and an iteration that runs ends.
//!
//! [`Turns`] are the iterations of a job whose client lets each one begin. Ranks of a group, which sum when they are
//! called, follow their part with [`Membership::next`] and speak with a [`Voice`].

mod member;
mod turns;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tributary_access::Remote;
use tributary_model::job::{Stop, Stopped, Turn};
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

pub use crate::stream::{Begun, Setup};
use crate::until;
use member::Member;
pub use turns::Turns;

/// Interval of checks for the end of the process.
const TICK: Duration = Duration::from_millis(50);

/// Time to tell the controller that a worker has all results.
const FAREWELL: Duration = Duration::from_secs(1);

/// Time for the controller to see that a worker has gone with its host, whose answer to a ping it waits for, and
/// for switches to change to the next run.
const DECISION: Duration = Duration::from_secs(45);

/// How a run ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The job goes on in this run.
    GoOn(Begun),
    /// All workers that are left have all sums.
    Complete,
    /// The job ends, for this reason.
    Over(String),
}

/// Which worker this process is.
#[derive(Clone, Debug)]
pub struct Which {
    /// Name of the job.
    pub job: String,
    /// Its ID, by which a job is known that is not in the controller's file.
    pub id: Option<JobId>,
    /// What the job was admitted with, if it was with a key.
    pub key: Vec<u8>,
    /// Which of the job's workers.
    pub who: Who,
    /// Whether the controller is in the process of another worker, so that its end is a death.
    pub led: bool,
}

/// What happens to a rank of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Occurrence {
    /// The job waits for these workers.
    Waiting(WorkerSet),
    /// A run begins.
    Begun(Begun),
    /// A worker is lost. Text that follows its name.
    Lost(WorkerIndex, String),
    /// A worker has left after fewer rounds than any before it.
    Left(WorkerIndex, u64),
    /// These workers have begun the fewest rounds.
    Behind(WorkerSet, u64),
    /// The controller is gone, which was in the process of another worker.
    Unled(String),
    /// The worker's part is over, for this reason. Nothing follows.
    Over(String),
    /// All that are left have all sums. Nothing follows.
    Complete,
}

/// Speaks for a rank of a group.
#[derive(Clone, Debug)]
pub struct Voice {
    said: watch::Sender<Option<Said>>,
    reached: Arc<AtomicU64>,
}

impl Voice {
    /// The worker has begun so many rounds.
    pub fn reach(&self, rounds: u64) {
        self.reached.store(rounds, Ordering::Relaxed);
    }

    /// The worker has all sums of so many rounds, and of a run, and goes on in the next one.
    pub fn renew(&self, run: Epoch, rounds: u64) {
        self.say(Said::Stopped(run, Stopped { rounds, why: Stop::Renewal }));
    }

    /// The worker leaves after so many rounds, in this run.
    pub fn leave(&self, run: Epoch, rounds: u64) {
        self.say(Said::Stopped(run, Stopped { rounds, why: Stop::Done }));
    }

    /// The worker has failed: text that follows its name.
    pub fn fail(&self, why: String) {
        self.say(Said::Failed(why));
    }

    /// After its failure, a worker says nothing else.
    fn say(&self, what: Said) {
        self.said.send_if_modified(|said| {
            let open = !matches!(said, Some(Said::Failed(_)));
            if open {
                *said = Some(what);
            }
            open
        });
    }
}

/// What a worker says, also again after its stream has broken.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Said {
    /// It has stopped summing in a run.
    Stopped(Epoch, Stopped),
    Failed(String),
}

/// A worker of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// The one with this index.
    Index(WorkerIndex),
    /// The one on the host with this name or IP address.
    Host(String),
}

/// A worker's part in its job.
#[derive(Debug)]
pub struct Membership {
    which: Which,
    seat: Seat,
    /// Workers to which no sum comes stop after this time.
    stall: Duration,
    told: mpsc::Receiver<Told>,
    voice: Voice,
    turns: Turns,
    ready: Arc<Notify>,
    task: Option<JoinHandle<()>>,
    /// Ends the thread when dropped.
    runtime: Option<Runtime>,
}

/// What the stream tells the worker.
#[derive(Debug)]
enum Told {
    Setup(Box<Setup>),
    /// The job is not admitted yet, or the controller does not answer.
    Unadmitted(String),
    Waiting(WorkerSet),
    /// The first run.
    Begun(Begun, Seat),
    Ended(Verdict, Seat),
    Failed(String),
    Lost(WorkerIndex, String),
    Left(WorkerIndex, u64),
    Behind(WorkerSet, u64),
    Unled(String),
}

/// A worker's place in one run.
#[derive(Clone, Debug)]
struct Seat {
    epoch: Option<Epoch>,
    halt: Arc<AtomicBool>,
    lost: Arc<OnceLock<WorkerIndex>>,
}

impl Seat {
    fn new(epoch: Option<Epoch>) -> Self {
        Self { epoch, halt: Arc::default(), lost: Arc::default() }
    }

    fn lose(&self, other: WorkerIndex) {
        self.lost.get_or_init(|| other);
        self.halt.store(true, Ordering::Relaxed);
    }

    /// Halts when the process is to stop.
    fn follow(&self, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        let (stop, halt) = (Arc::clone(stop), Arc::clone(&self.halt));
        tokio::spawn(async move {
            until(&stop).await;
            halt.store(true, Ordering::Relaxed);
        })
    }
}

impl Membership {
    /// Takes part in a job at a controller.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn take(controller: Remote, which: Which, stop: &Arc<AtomicBool>) -> Result<Self> {
        let (said, saying) = watch::channel(None);
        let voice = Voice { said, reached: Arc::default() };
        let (tell, told) = mpsc::channel();
        let runtime = crate::runtime()?;
        let (seat, ready, turns) = (Seat::new(None), Arc::new(Notify::new()), Turns::new());
        let member = Member {
            controller: member::watched(controller, which.led),
            which: which.clone(),
            seat: seat.clone(),
            ready: Arc::clone(&ready),
            tell,
            turns: turns.clone(),
            reached: Arc::clone(&voice.reached),
            told: None,
            is_ready: false,
            lease: false,
            unled: false,
            away: None,
            stop: Arc::clone(stop),
            stops: None,
        };
        let task = Some(runtime.spawn(member.attend(saying)));
        let (stall, runtime) = (Duration::ZERO, Some(runtime));
        Ok(Self { which, seat, stall, told, voice, turns, ready, task, runtime })
    }

    /// Speaks for a rank of a group.
    #[must_use]
    pub fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// A rank of a group is ready: its runs begin with [`next`](Self::next).
    pub fn ready(&self) {
        self.ready.notify_one();
    }

    /// What happens next to a rank of a group, if something does within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Occurrence> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let over = |reason: &str| Occurrence::Over(reason.to_owned());
            return Some(match self.told.recv_timeout(left) {
                Ok(Told::Begun(begun, _)) | Ok(Told::Ended(Verdict::GoOn(begun), _)) => {
                    Occurrence::Begun(begun)
                }
                Ok(Told::Ended(Verdict::Complete, _)) => Occurrence::Complete,
                Ok(Told::Ended(Verdict::Over(why), _) | Told::Failed(why)) => Occurrence::Over(why),
                Ok(Told::Waiting(missing)) => Occurrence::Waiting(missing),
                Ok(Told::Lost(worker, why)) => Occurrence::Lost(worker, why),
                Ok(Told::Left(worker, rounds)) => Occurrence::Left(worker, rounds),
                Ok(Told::Behind(workers, rounds)) => Occurrence::Behind(workers, rounds),
                Ok(Told::Unled(why)) => Occurrence::Unled(why),
                // It waits until the job is admitted.
                Ok(Told::Setup(_) | Told::Unadmitted(_)) => continue,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    over("the stream to the controller has ended")
                }
            });
        }
    }

    /// What the process needs to take part. `unadmitted` gets the reasons why it must wait until the job is admitted.
    ///
    /// # Errors
    /// If the controller does not answer or refuses the worker, or `stop` is raised.
    pub fn setup(
        &mut self,
        stop: &AtomicBool,
        mut unadmitted: impl FnMut(String),
    ) -> Result<Setup> {
        let job = &self.which.job;
        let mut before = None;
        loop {
            match self.told.recv_timeout(TICK) {
                Ok(Told::Setup(setup)) => return Ok(*setup),
                Ok(Told::Unadmitted(reason)) => {
                    if before.as_ref() != Some(&reason) {
                        before = Some(reason.clone());
                        unadmitted(reason);
                    }
                }
                Ok(Told::Failed(reason)) => bail!(reason),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    bail!("job {job}: stopped before it had joined a run")
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    bail!("job {job}: the controller does not say what the worker needs")
                }
            }
        }
    }

    /// Waits until a run begins: the process is ready. `missing` gets the workers that it waits for, at first and
    /// after each change. Workers to which no sum comes stop after `stall`.
    ///
    /// # Errors
    /// If the controller does not answer or refuses the worker, or `stop` is raised.
    pub fn begin(
        &mut self,
        stall: Duration,
        stop: &AtomicBool,
        mut missing: impl FnMut(WorkerSet),
    ) -> Result<Begun> {
        self.stall = stall;
        self.ready.notify_one();
        let job = &self.which.job;
        loop {
            match self.told.recv_timeout(TICK) {
                Ok(Told::Waiting(workers)) => missing(workers),
                Ok(Told::Begun(begun, seat)) => {
                    tracing::info!(job, epoch = %begun.epoch(), "joined a run");
                    self.seat = seat;
                    return Ok(begun);
                }
                Ok(Told::Ended(Verdict::Over(reason), _) | Told::Failed(reason)) => bail!(reason),
                Ok(Told::Unadmitted(reason)) => tracing::warn!("job {job}: {reason}"),
                Ok(Told::Setup(_) | Told::Ended(..) | Told::Unled(_)) => {
                    bail!("job {job}: the controller makes no sense")
                }
                Ok(Told::Lost(..) | Told::Left(..) | Told::Behind(..)) => {}
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    bail!("job {job}: stopped before it had joined a run")
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("job {job}: the stream has ended"),
            }
        }
    }

    /// The job's iterations, and its rate if that is limited.
    #[must_use]
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Waits for the first turn of a job with iterations, which is told when its run has begun.
    ///
    /// # Errors
    /// If `stop` is raised, or the worker is to stop.
    pub fn first_turn(&self, stop: &AtomicBool) -> Result<Turn> {
        loop {
            if let Some(turn) = self.turns.now() {
                return Ok(turn);
            }
            if stop.load(Ordering::Relaxed) || self.seat.halt.load(Ordering::Relaxed) {
                bail!("job {}: stopped before its first iteration", self.which.job);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Why the run is over, if the controller has said so.
    #[must_use]
    pub fn why_over(&self) -> Option<String> {
        self.told.try_iter().find_map(|told| match told {
            Told::Ended(Verdict::Over(reason), _) | Told::Failed(reason) => Some(reason),
            _ => None,
        })
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

    /// The worker of a job that ends with its first death has all results: its end is not its death.
    pub fn leave(mut self, rounds: u64) {
        self.say(Stopped { rounds, why: Stop::Done });
        if let (Some(runtime), Some(task)) = (&self.runtime, self.task.take()) {
            // A controller that does not answer now takes the worker for dead, when all others have their
            // results, too.
            let _ = runtime.block_on(async { tokio::time::timeout(FAREWELL, task).await });
        }
    }

    /// In a job that goes on: tells the controller that the worker has stopped summing, and waits for what it
    /// decides. `missing` gets the workers for which the job waits.
    ///
    /// # Errors
    /// If no decision comes in time, or `stop` is raised.
    pub fn settle(
        &mut self,
        stopped: Stopped,
        stop: &AtomicBool,
        mut missing: impl FnMut(WorkerSet),
    ) -> Result<Verdict> {
        self.say(stopped);
        let patience = DECISION + 2 * self.stall;
        let mut deadline = Some(Instant::now() + patience);
        loop {
            match self.told.recv_timeout(TICK) {
                Ok(Told::Ended(verdict, seat)) => {
                    if matches!(verdict, Verdict::GoOn(_)) {
                        self.seat = seat;
                    }
                    return Ok(verdict);
                }
                Ok(Told::Failed(reason)) => return Ok(Verdict::Over(reason)),
                // They are to be started again, however long that takes.
                Ok(Told::Waiting(workers)) => {
                    deadline = None;
                    missing(workers);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => bail!("stopped"),
                Err(RecvTimeoutError::Timeout)
                    if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
                Err(_) => bail!(
                    "the controller has not decided within {patience:?} how the job goes on; see whether it \
                     runs"
                ),
            }
        }
    }

    fn say(&self, stopped: Stopped) {
        if let Some(epoch) = self.seat.epoch {
            self.voice.say(Said::Stopped(epoch, stopped));
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
