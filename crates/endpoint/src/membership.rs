//! A worker's part in its job, as a controller tells it.
//!
//! A [`Membership`] is a stream that lasts as long as the worker's part in the job. It has a thread of its own,
//! so that packets never wait for the controller. When it breaks in the middle of a run, the worker calls again
//! at once, because it is soon taken for dead; sums go on meanwhile, and an iteration that runs ends.
//!
//! [`Turns`] are the iterations of a job whose client lets each one begin. Ranks of a group, which sum when they are
//! called, follow their part with [`Membership::next`] and speak with a [`Voice`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use tributary_access::Remote;
use tributary_model::job::{BEHIND, Standing, Stop, Turn};
use tributary_netio::Waker;
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::part::Role;
use tributary_proto::jobs::v1::take_request::Request;
use tributary_proto::jobs::v1::take_response::News;
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

pub use crate::stream::{Begun, Setup};
use crate::stream::{Broken, KEEPALIVE, PATIENCE, Stream, set, turn};
use crate::until;

/// Pause before a controller that has not admitted the job is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Pause before a worker in a run, which is soon taken for dead, calls again.
const SOON: Duration = Duration::from_millis(200);

/// Pause before a worker says again that it has finished an iteration.
const REPEAT: Duration = Duration::from_secs(1);

/// How long a controller may not know a job in which the worker takes part, before the worker takes it for released.
/// A controller that was started again admits its jobs again sooner.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Interval and timeout of the pings that detect that another worker, in whose process the controller is, is gone.
const LED: Duration = Duration::from_secs(5);

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
    /// The ID of a job that is not in the controller's file, and what it was admitted with.
    pub admitted: Option<(JobId, Vec<u8>)>,
    /// Which of the job's workers.
    pub who: Who,
    /// Whether the controller is in the process of another worker, so that its end is a death.
    pub led: bool,
}

impl Which {
    /// A worker of a job of the controller's file.
    #[must_use]
    pub fn of_file(job: String, who: Who) -> Self {
        Self { job, admitted: None, who, led: false }
    }
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
        self.say(Said::Standing(run, Standing { rounds, why: Stop::Renewal }));
    }

    /// The worker leaves after so many rounds, in this run.
    pub fn leave(&self, run: Epoch, rounds: u64) {
        self.say(Said::Standing(run, Standing { rounds, why: Stop::Done }));
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
    Standing(Epoch, Standing),
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

/// The iterations of a worker's job, for the thread that sums. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// In which run.
    now: Mutex<Option<(Epoch, Turn)>>,
    /// The last iteration that the worker has finished, and in which run.
    finished: watch::Sender<Option<(Epoch, u64)>>,
    waker: Waker,
}

impl Turns {
    fn new() -> Self {
        let finished = watch::Sender::new(None);
        Self(Arc::new(Shared { now: Mutex::default(), finished, waker: Waker::new() }))
    }

    /// The iteration as last told; `None` before that.
    #[must_use]
    pub fn now(&self) -> Option<Turn> {
        self.lock().map(|(_, turn)| turn)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Epoch, Turn)>> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that the worker has all sums of an iteration of a run, and sends nothing more of it, until the controller
    /// has recorded that.
    pub fn finish(&self, run: Epoch, number: u64) {
        self.0.finished.send_replace(Some((run, number)));
    }

    /// Ends the sleep of the thread that sums after each change.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.0.waker
    }

    fn clear(&self) {
        *self.lock() = None;
    }

    fn tell(&self, run: Epoch, turn: Turn) {
        *self.lock() = Some((run, turn));
        self.0.waker.wake();
    }

    /// The iteration whose end the controller does not know yet.
    fn due(&self) -> Option<(Epoch, u64)> {
        let (of, finished) = (*self.0.finished.borrow())?;
        let (run, now) = (*self.lock())?;
        // A controller that has forgotten the job's iterations may count them again.
        let open = run == of && now.number <= finished && now.running && !now.reported;
        open.then_some((run, now.number))
    }
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
    /// The job is not admitted yet, or the controller does not answer any more.
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
            // The end of another worker is noticed as soon as that of this one.
            controller: controller.with_keepalive(if which.led { LED } else { KEEPALIVE }),
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
        self.say(Standing { rounds, why: Stop::Done });
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
        standing: Standing,
        stop: &AtomicBool,
        mut missing: impl FnMut(WorkerSet),
    ) -> Result<Verdict> {
        self.say(standing);
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

    fn say(&self, standing: Standing) {
        if let Some(epoch) = self.seat.epoch {
            self.voice.say(Said::Standing(epoch, standing));
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

/// The stream of a worker.
struct Member {
    controller: Remote,
    which: Which,
    seat: Seat,
    /// Raised when the worker is ready to begin.
    ready: Arc<Notify>,
    tell: mpsc::Sender<Told>,
    turns: Turns,
    /// Rounds that the worker has begun, if it tells.
    reached: Arc<AtomicU64>,
    /// The set-up as it was told, and whether the worker has used it.
    told: Option<v1::Setup>,
    is_ready: bool,
    /// Whether a controller that does not know the job has released it.
    lease: bool,
    /// Whether the controller in another worker's process has not answered since the stream broke.
    unled: bool,
    /// Since when no stream leads to the controller, in a run, and since when it does not know the job.
    away: Option<Away>,
    stop: Arc<AtomicBool>,
    /// Halts the worker in its run when the process is to stop.
    stops: Option<JoinHandle<()>>,
}

/// A time without a stream.
struct Away {
    unknown_since: Option<Instant>,
}

impl Member {
    /// Takes part until the last news.
    async fn attend(mut self, mut said: watch::Receiver<Option<Said>>) {
        loop {
            let broken = match self.once(&mut said).await {
                Ok(()) => return,
                Err(broken) => broken,
            };
            let in_a_run = self.seat.epoch.is_some();
            let code = match &broken {
                Broken::Refused(status) => Some(status.code()),
                Broken::Lost(_) => None,
            };
            match code {
                // It may be this worker that was not heard from.
                None if self.which.led && in_a_run && !std::mem::replace(&mut self.unled, true) => {
                }
                None if self.which.led && self.told.is_some() => {
                    let _ = self.tell.send(Told::Unled(broken.reason().to_owned()));
                    return;
                }
                Some(Code::NotFound) if in_a_run && self.lease => {
                    let (job, controller) = (&self.which.job, &self.controller);
                    return self.end(Verdict::Over(format!(
                        "job {job}: the controller at {controller} does not know it any more: it was released, or the \
                         controller was started again without its --journal"
                    )));
                }
                Some(Code::FailedPrecondition | Code::PermissionDenied) if in_a_run => {
                    return self.end(Verdict::Over(broken.reason().to_owned()));
                }
                Some(Code::FailedPrecondition) => return self.fail(broken.reason().to_owned()),
                // It waits for a job of the file, or for a controller that was there before.
                Some(Code::Aborted) if !in_a_run && self.which.admitted.is_none() => {
                    self.wait(&broken).await;
                }
                None if !in_a_run && self.told.is_some() => self.wait(&broken).await,
                _ if !in_a_run => {
                    let (job, controller) = (&self.which.job, &self.controller);
                    return self.fail(match &self.which.admitted {
                        Some(_) => {
                            format!("{job}: the controller at {controller}: {}", broken.reason())
                        }
                        None => format!("job {job}: {}", broken.explained(controller)),
                    });
                }
                _ => {
                    let unknown = matches!(code, Some(Code::NotFound | Code::Aborted));
                    if self.is_forgotten(unknown, broken.reason()) {
                        return self.end(Verdict::Over(format!(
                            "job {}: the controller at {} has not known the job for {FORGOTTEN:?}, so it was released",
                            self.which.job, self.controller
                        )));
                    }
                    tokio::time::sleep(SOON).await;
                }
            }
        }
    }

    /// Says why the worker waits, and pauses.
    async fn wait(&self, broken: &Broken) {
        let reason = format!("{}: {}", self.controller, broken.reason());
        let _ = self.tell.send(Told::Unadmitted(reason));
        tokio::time::sleep(AGAIN).await;
    }

    /// Notes that there is no stream, and why. Returns whether the controller has not known the job for too long.
    fn is_forgotten(&mut self, unknown: bool, reason: &str) -> bool {
        let (job, controller) = (&self.which.job, &self.controller);
        let away = self.away.get_or_insert_with(|| {
            tracing::warn!(
                "job {job}: no news from the controller at {controller} ({reason}); the run goes on"
            );
            Away { unknown_since: None }
        });
        // A connection that breaks tells nothing of the job.
        if unknown {
            away.unknown_since.get_or_insert_with(Instant::now);
        }
        unknown && away.unknown_since.is_some_and(|since| since.elapsed() >= FORGOTTEN)
    }

    fn end(&mut self, verdict: Verdict) {
        let next = match &verdict {
            Verdict::GoOn(begun) => Some(begun.epoch()),
            Verdict::Complete | Verdict::Over(_) => None,
        };
        let before = self.sit(Seat::new(next));
        // The worker may have gone.
        let _ = self.tell.send(Told::Ended(verdict, self.seat.clone()));
        // It may not know of any loss yet.
        before.halt.store(true, Ordering::Relaxed);
    }

    /// Takes the place in the next run. Returns the one before.
    fn sit(&mut self, seat: Seat) -> Seat {
        if let Some(before) = self.stops.replace(seat.follow(&self.stop)) {
            before.abort();
        }
        std::mem::replace(&mut self.seat, seat)
    }

    fn fail(&self, reason: String) {
        let _ = self.tell.send(Told::Failed(reason));
    }

    async fn once(&mut self, said: &mut watch::Receiver<Option<Said>>) -> Result<(), Broken> {
        let which = match &self.which.who {
            Who::Index(index) => v1::worker::Which::Worker(index.get().into()),
            Who::Host(host) => v1::worker::Which::Host(host.clone()),
        };
        let (job_id, key) = match &self.which.admitted {
            Some((job, key)) => (job.get().into(), key.clone()),
            None => (0, Vec::new()),
        };
        let worker = v1::Worker {
            job: self.which.job.clone(),
            job_id,
            key,
            which: Some(which),
            epoch: self.seat.epoch.map_or(0, Epoch::get),
        };
        let mut unready = false;
        let mut looks = tokio::time::interval(BEHIND);
        let mut reached = 0;
        let mut finished = self.turns.0.finished.subscribe();
        let waits = !self.which.led || self.seat.epoch.is_none();
        let patience = if waits { PATIENCE } else { LED };
        let mut stream = Stream::open(&self.controller, Role::Worker(worker), patience).await?;
        if self.seat.epoch.is_some() {
            // What the worker has said on an earlier stream, it says again.
            said.mark_changed();
            finished.mark_changed();
        }
        loop {
            let news = tokio::select! {
                news = stream.news() => news?,
                () = self.ready.notified(), if unready => {
                    (unready, self.is_ready) = (false, true);
                    stream.ready().await;
                    continue;
                }
                (epoch, number) = next_report(&self.turns, &mut finished) => {
                    let finished = v1::Finished { epoch: epoch.get(), number };
                    stream.say(Request::Finished(finished)).await;
                    continue;
                }
                changed = said.changed() => {
                    if changed.is_err() {
                        // The worker has gone, and this task with it.
                        return std::future::pending().await;
                    }
                    let now = said.borrow_and_update().clone();
                    match now {
                        Some(Said::Standing(epoch, Standing { rounds, why })) => {
                            let why = match why {
                                Stop::Stuck => v1::Stop::Unspecified,
                                Stop::Done => v1::Stop::Done,
                                Stop::Renewal => v1::Stop::Renewal,
                            };
                            let standing =
                                v1::Standing { epoch: epoch.get(), rounds, why: why.into() };
                            stream.say(Request::Standing(standing)).await;
                        }
                        Some(Said::Failed(why)) => {
                            stream.end(Request::Failed(why)).await;
                            return Ok(());
                        }
                        None => {}
                    }
                    continue;
                }
                _ = looks.tick() => {
                    let now = self.reached.load(Ordering::Relaxed);
                    if std::mem::replace(&mut reached, now) != now {
                        stream.say(Request::Reached(now)).await;
                    }
                    continue;
                }
            };
            self.unled = false;
            if self.away.take().is_some() {
                let (job, controller) = (&self.which.job, &self.controller);
                tracing::info!("job {job}: the controller at {controller} answers again");
            }
            match news {
                News::Setup(told) if self.told.is_none() => {
                    unready = true;
                    let setup = Setup::of(told.clone()).map_err(Broken::Refused)?;
                    self.lease = setup.lease;
                    self.told = Some(told);
                    self.which.who = Who::Index(setup.worker);
                    let _ = self.tell.send(Told::Setup(Box::new(setup)));
                }
                // Another controller, for which the worker waited.
                News::Setup(told) if self.told.as_ref() == Some(&told) => match self.is_ready {
                    true => stream.ready().await,
                    false => unready = true,
                },
                News::Setup(_) => {
                    let why = format!(
                        "job {} is another one now; start the worker again",
                        self.which.job
                    );
                    return Err(Broken::Refused(Status::failed_precondition(why)));
                }
                News::Turn(told) => {
                    let turn = turn(&told).map_err(Broken::Refused)?;
                    if let Some(run) = self.seat.epoch {
                        self.turns.tell(run, turn);
                    }
                }
                News::Changed(v1::Changed {}) => {}
                News::Waiting(v1::Waiting { missing }) => {
                    let _ = self.tell.send(Told::Waiting(set(&missing)));
                }
                News::Run(run) => {
                    self.begun(Begun::of(run).map_err(Broken::Refused)?);
                    // What was said before was of no run, or of another one.
                    reached = 0;
                }
                News::Lost(v1::Lost { worker, reason }) => {
                    for lost in set(&[worker]).iter() {
                        self.seat.lose(lost);
                        let _ = self.tell.send(Told::Lost(lost, reason.clone()));
                    }
                }
                News::Left(v1::Left { worker, rounds }) => {
                    for left in set(&[worker]).iter() {
                        let _ = self.tell.send(Told::Left(left, rounds));
                    }
                }
                News::Behind(v1::Behind { workers, rounds }) => {
                    let _ = self.tell.send(Told::Behind(set(&workers), rounds));
                }
                News::Complete(v1::Complete {}) => {
                    self.end(Verdict::Complete);
                    return Ok(());
                }
                News::Over(reason) => {
                    self.end(Verdict::Over(reason));
                    return Ok(());
                }
            }
        }
    }

    fn begun(&mut self, begun: Begun) {
        if self.seat.epoch != Some(begun.epoch()) {
            // Another turn follows.
            self.turns.clear();
        }
        match self.seat.epoch {
            // It is told again after another loss of the stream.
            Some(epoch) if epoch == begun.epoch() => {}
            Some(_) => self.end(Verdict::GoOn(begun)),
            None => {
                self.sit(Seat::new(Some(begun.epoch())));
                let _ = self.tell.send(Told::Begun(begun, self.seat.clone()));
            }
        }
    }
}

/// The next iteration whose end is to be reported: at once, and again if that is not recorded.
async fn next_report(
    turns: &Turns,
    finished: &mut watch::Receiver<Option<(Epoch, u64)>>,
) -> (Epoch, u64) {
    loop {
        let pause = if turns.due().is_some() { REPEAT } else { Duration::MAX };
        match tokio::time::timeout(pause, finished.changed()).await {
            Ok(Ok(())) => {
                finished.borrow_and_update();
            }
            // It lives as long as this task.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => {}
        }
        if let Some(due) = turns.due() {
            return due;
        }
    }
}
