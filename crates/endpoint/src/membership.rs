//! An endpoint's part in jobs, as a controller tells it: the stream `Take` of the service `Jobs`.
//!
//! A worker's [`Membership`] is a stream that lasts as long as its part in the job. It has a thread of its own,
//! so that packets never wait for the controller. When it breaks in the middle of a run, the worker calls again
//! at once, because it is soon taken for dead; sums go on meanwhile.
//!
//! [`Runs`] are those of the jobs that a host serves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc as queue, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_access::Remote;
use tributary_model::job::Standing;
use tributary_model::{Deployment, HostId, JobSpec};
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::jobs_client::JobsClient;
use tributary_proto::jobs::v1::part::Role;
use tributary_proto::jobs::v1::take_request::Request;
use tributary_proto::jobs::v1::take_response::News;
use tributary_wire::channel::{TOKEN_LEN, Token};
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

use crate::schedule::reason;
use crate::tokens::Tokens;
use crate::{Args, names, until};

/// The version of the service.
const VERSION: u32 = 1;

/// Timeout of the connection, and of the first answer, which waits while switches change runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval and timeout of the HTTP/2 pings that detect a lost controller.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Longest answer: the description of a network of 2048 hosts and its jobs takes less than half of it.
const LARGEST: usize = 16 << 20;

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

/// A run that has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    /// Its number, for each thread of a worker.
    pub epochs: Vec<Epoch>,
    /// Its workers. Packets name them by their places in this set.
    pub workers: WorkerSet,
    /// The sums of so many rounds stay as they are. Those of later rounds are summed in this run.
    pub rounds: u64,
}

impl Begun {
    fn of(run: v1::Run) -> Result<Self, Status> {
        let epochs: Option<Vec<Epoch>> = run.epochs.into_iter().map(Epoch::new).collect();
        let epochs = epochs.filter(|epochs| !epochs.is_empty());
        let epochs = epochs.ok_or_else(|| Status::internal("its run has no number"))?;
        Ok(Self { epochs, workers: set(&run.workers), rounds: run.rounds })
    }

    /// The number of the first thread's run.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs[0]
    }
}

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
    /// Which of the job's workers.
    pub who: Who,
    /// Whether the process knows nothing of the job yet, and asks for a [`Setup`].
    pub setup: bool,
}

/// A worker of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// The one with this index.
    Index(WorkerIndex),
    /// The one on the host with this name or IP address.
    Host(String),
}

/// All that an endpoint needs to take part in jobs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network, and the jobs of the endpoint: each lane as one.
    pub deployment: Deployment,
    /// The tokens of jobs with a reminder agent.
    pub tokens: Tokens,
    /// Index of the worker, if the endpoint is one.
    pub worker: WorkerIndex,
}

impl Setup {
    fn of(told: v1::Setup) -> Result<Self, Status> {
        let senseless = || {
            Status::internal(
                "its description of the job makes no sense here; use the same version of Tributary everywhere",
            )
        };
        let deployment: Option<Deployment> = serde_json::from_slice(&told.deployment).ok();
        let deployment = deployment.filter(Deployment::is_whole).ok_or_else(senseless)?;
        let token = |(job, token): (&JobSpec, Vec<u8>)| {
            let token = <[u8; TOKEN_LEN]>::try_from(token).ok()?;
            Some((job.name.clone(), Token(token)))
        };
        let tokens = deployment.scenario().jobs.iter().zip(told.tokens).filter_map(token);
        let tokens = tokens.collect();
        let worker = u16::try_from(told.worker).ok().and_then(WorkerIndex::new);
        Ok(Self { deployment, tokens, worker: worker.ok_or_else(senseless)? })
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
    standing: watch::Sender<Option<(Epoch, Standing)>>,
    ready: Arc<Notify>,
    task: Option<JoinHandle<()>>,
    /// Ends the thread when dropped.
    runtime: Option<Runtime>,
}

/// What the stream tells the worker.
#[derive(Debug)]
enum Told {
    Setup(Box<Setup>),
    Waiting(WorkerSet),
    /// The first run.
    Begun(Begun, Seat),
    Ended(Verdict, Seat),
    Failed(String),
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
    fn follow(&self, stop: &Arc<AtomicBool>) {
        let (stop, halt) = (Arc::clone(stop), Arc::clone(&self.halt));
        tokio::spawn(async move {
            until(&stop).await;
            halt.store(true, Ordering::Relaxed);
        });
    }
}

impl Membership {
    /// Takes part in a job at a controller.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn take(controller: Remote, which: Which, stop: &Arc<AtomicBool>) -> Result<Self> {
        let (standing, said) = watch::channel(None);
        let (tell, told) = mpsc::channel();
        let runtime = crate::runtime()?;
        let (seat, ready) = (Seat::new(None), Arc::new(Notify::new()));
        let member = Member {
            controller: controller.with_keepalive(KEEPALIVE),
            which: which.clone(),
            seat: seat.clone(),
            ready: Arc::clone(&ready),
            tell,
            stop: Arc::clone(stop),
        };
        let task = Some(runtime.spawn(member.attend(said)));
        let (stall, runtime) = (Duration::ZERO, Some(runtime));
        Ok(Self { which, seat, stall, told, standing, ready, task, runtime })
    }

    /// What the process needs to take part, if it has asked for that.
    ///
    /// # Errors
    /// If the controller does not answer or refuses the worker, or `stop` is raised.
    pub fn setup(&mut self, stop: &AtomicBool) -> Result<Setup> {
        let job = &self.which.job;
        loop {
            match self.told.recv_timeout(TICK) {
                Ok(Told::Setup(setup)) => return Ok(*setup),
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
                Ok(Told::Setup(_) | Told::Ended(..)) => {
                    bail!("job {job}: the controller makes no sense")
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    bail!("job {job}: stopped before it had joined a run")
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("job {job}: the stream has ended"),
            }
        }
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
    pub fn leave(mut self) {
        self.say(Standing { rounds: 0, done: true });
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
                Ok(Told::Setup(_) | Told::Begun(..)) => {}
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
            self.standing.send_replace(Some((epoch, standing)));
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
    stop: Arc<AtomicBool>,
}

/// Why a stream has ended before the last news.
enum Broken {
    /// The controller refuses.
    Refused(Status),
    /// It does not answer, or the connection is broken.
    Lost(String),
}

impl Broken {
    fn explained(&self, controller: &Remote) -> String {
        let named = format!("the controller at {controller} (--controller) names no run");
        match self {
            Self::Refused(status) => format!("{named}: {}", status.message()),
            Self::Lost(reason) => {
                format!("{named}: {reason}; start it with --listen, and the endpoints after it")
            }
        }
    }
}

impl Member {
    /// Takes part until the last news.
    async fn attend(mut self, mut said: watch::Receiver<Option<(Epoch, Standing)>>) {
        loop {
            let broken = match self.once(&mut said).await {
                Ok(()) => return,
                Err(broken) => broken,
            };
            let in_a_run = self.seat.epoch.is_some();
            match broken {
                Broken::Refused(status)
                    if in_a_run && status.code() == Code::FailedPrecondition =>
                {
                    return self.end(Verdict::Over(status.message().to_owned()));
                }
                Broken::Refused(status) if status.code() == Code::FailedPrecondition => {
                    return self.fail(status.message().to_owned());
                }
                broken if !in_a_run => {
                    let reason = broken.explained(&self.controller);
                    return self.fail(format!("job {}: {reason}", self.which.job));
                }
                Broken::Refused(status) => tracing::debug!("{}", status.message()),
                Broken::Lost(reason) => tracing::debug!("{reason}"),
            }
            tokio::time::sleep(SOON).await;
        }
    }

    fn end(&mut self, verdict: Verdict) {
        let next = match &verdict {
            Verdict::GoOn(begun) => Some(begun.epoch()),
            Verdict::Complete | Verdict::Over(_) => None,
        };
        let before = std::mem::replace(&mut self.seat, Seat::new(next));
        self.seat.follow(&self.stop);
        // The worker may have gone.
        let _ = self.tell.send(Told::Ended(verdict, self.seat.clone()));
        // It may not know of any loss yet.
        before.halt.store(true, Ordering::Relaxed);
    }

    fn fail(&self, reason: String) {
        let _ = self.tell.send(Told::Failed(reason));
    }

    async fn once(
        &mut self,
        said: &mut watch::Receiver<Option<(Epoch, Standing)>>,
    ) -> Result<(), Broken> {
        let which = match &self.which.who {
            Who::Index(index) => v1::worker::Which::Worker(index.get().into()),
            Who::Host(host) => v1::worker::Which::Host(host.clone()),
        };
        let worker = v1::Worker {
            job: self.which.job.clone(),
            which: Some(which),
            epoch: self.seat.epoch.map_or(0, Epoch::get),
        };
        // A worker in a run has what it needs.
        let mut unready = self.which.setup && self.seat.epoch.is_none();
        let mut stream = Stream::open(&self.controller, Role::Worker(worker), unready).await?;
        // What the worker has said on an earlier stream, it says again.
        said.mark_changed();
        loop {
            let news = tokio::select! {
                news = stream.news() => news?,
                () = self.ready.notified(), if unready => {
                    unready = false;
                    stream.say(Request::Ready(v1::Ready {})).await;
                    continue;
                }
                changed = said.changed() => {
                    if changed.is_err() {
                        // The worker has gone, and this task with it.
                        return std::future::pending().await;
                    }
                    let now = *said.borrow_and_update();
                    if let Some((epoch, Standing { rounds, done })) = now {
                        let standing = v1::Standing { epoch: epoch.get(), rounds, done };
                        stream.say(Request::Standing(standing)).await;
                    }
                    continue;
                }
            };
            match news {
                News::Setup(setup) => {
                    let setup = Setup::of(setup).map_err(Broken::Refused)?;
                    self.which.who = Who::Index(setup.worker);
                    let _ = self.tell.send(Told::Setup(Box::new(setup)));
                }
                News::Waiting(v1::Waiting { missing }) => {
                    let _ = self.tell.send(Told::Waiting(set(&missing)));
                }
                News::Run(run) => self.begun(Begun::of(run).map_err(Broken::Refused)?),
                News::Lost(index) => set(&[index]).iter().for_each(|lost| self.seat.lose(lost)),
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
        match self.seat.epoch {
            // It is told again after another loss of the stream.
            Some(epoch) if epoch == begun.epoch() => {}
            Some(_) => self.end(Verdict::GoOn(begun)),
            None => {
                self.seat = Seat::new(Some(begun.epoch()));
                self.seat.follow(&self.stop);
                let _ = self.tell.send(Told::Begun(begun, self.seat.clone()));
            }
        }
    }
}

/// A stream to a controller.
struct Stream {
    requests: queue::Sender<v1::TakeRequest>,
    answers: Streaming<v1::TakeResponse>,
}

impl Stream {
    async fn open(controller: &Remote, role: Role, setup: bool) -> Result<Self, Broken> {
        let lost = |error| Broken::Lost(crate::root_cause(&error));
        let channel = controller.connect().await.map_err(lost)?;
        let (requests, outgoing) = queue::channel(2);
        let part = v1::Part { version: VERSION, role: Some(role), setup };
        let first = v1::TakeRequest { request: Some(Request::Part(part)) };
        requests.try_send(first).expect("it has room for two");
        let mut client = JobsClient::new(channel).max_decoding_message_size(LARGEST);
        let call = tokio::time::timeout(PATIENCE, client.take(ReceiverStream::new(outgoing))).await;
        let late = |_| Broken::Lost(format!("no answer came in {} s", PATIENCE.as_secs()));
        let answers = call.map_err(late)?.map_err(broken)?.into_inner();
        Ok(Self { requests, answers })
    }

    async fn news(&mut self) -> Result<News, Broken> {
        let answer = self.answers.message().await.map_err(broken)?;
        let ended = || Broken::Lost("it ended the stream".into());
        answer.and_then(|answer| answer.news).ok_or_else(ended)
    }

    async fn say(&self, request: Request) {
        // The stream may have ended.
        let _ = self.requests.send(v1::TakeRequest { request: Some(request) }).await;
    }
}

fn broken(status: Status) -> Broken {
    match (status.code(), std::error::Error::source(&status)) {
        (_, Some(_)) => Broken::Lost(reason(&status)),
        // Another service listens there, or the call was cut off.
        (Code::Unimplemented, None) if status.message().is_empty() => {
            Broken::Lost("it does not serve jobs".into())
        }
        (Code::Unknown | Code::Cancelled, None) => Broken::Lost(reason(&status)),
        (_, None) => Broken::Refused(status),
    }
}

fn set(indices: &[u32]) -> WorkerSet {
    let index = |&index: &u32| u16::try_from(index).ok().and_then(WorkerIndex::new);
    indices.iter().filter_map(index).collect()
}

/// What a host serves.
#[derive(Clone, Debug)]
pub enum Host {
    /// The parameter servers of the host with this name.
    Servers(String),
    /// Its reminder agent.
    Agent(String),
}

/// The runs of the jobs that a host serves, by the names of the jobs.
#[derive(Debug)]
pub struct Runs {
    now: watch::Receiver<BTreeMap<String, Begun>>,
    failed: Arc<OnceLock<String>>,
    setup: Arc<OnceLock<Setup>>,
    ready: Arc<Notify>,
    /// Whether the controller has other jobs for the host by now.
    outdated: Arc<AtomicBool>,
    /// Ends the thread when dropped.
    runtime: Option<Runtime>,
}

impl Runs {
    /// Follows the runs of a host's jobs at a controller. While that does not answer, the last ones stay. A
    /// process that knows nothing of the jobs yet asks for a [`setup`](Self::setup).
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn follow(controller: Remote, host: Host, needs_setup: bool) -> Result<Self> {
        let controller = controller.with_keepalive(KEEPALIVE);
        let (runs, now) = watch::channel(BTreeMap::new());
        let (failed, setup, ready) = (Arc::new(OnceLock::new()), Arc::default(), Arc::default());
        let outdated = Arc::default();
        let runtime = crate::runtime()?;
        let follower = Follower {
            controller,
            host,
            runs,
            failed: Arc::clone(&failed),
            needs_setup,
            setup: Arc::clone(&setup),
            told: None,
            ready: Arc::clone(&ready),
            outdated: Arc::clone(&outdated),
        };
        runtime.spawn(follower.follow());
        Ok(Self { now, failed, setup, ready, outdated, runtime: Some(runtime) })
    }

    /// What the process needs to serve the jobs, if it has asked for that.
    ///
    /// # Errors
    /// If the controller does not answer or refuses, or `stop` is raised.
    pub fn setup(&self, stop: &AtomicBool) -> Result<Setup> {
        loop {
            if let Some(setup) = self.setup.get() {
                return Ok(setup.clone());
            }
            if let Some(reason) = self.failed.get() {
                return Err(anyhow!("{reason}"));
            }
            ensure!(!stop.load(Ordering::Relaxed), "stopped before the controller had answered");
            std::thread::sleep(TICK);
        }
    }

    /// The process has used its set-up.
    pub fn ready(&self) {
        self.ready.notify_one();
    }

    /// The runs of these jobs, when all are known.
    ///
    /// # Errors
    /// If the controller does not answer or refuses, or `stop` is raised.
    pub fn of(&mut self, jobs: &[&str], stop: &AtomicBool) -> Result<Vec<Begun>> {
        loop {
            {
                let now = self.now.borrow_and_update();
                let all: Option<Vec<Begun>> =
                    jobs.iter().map(|job| now.get(*job).cloned()).collect();
                if let Some(all) = all {
                    return Ok(all);
                }
            }
            if let Some(reason) = self.failed.get() {
                return Err(anyhow!("{reason}"));
            }
            ensure!(
                !self.outdated.load(Ordering::Relaxed),
                "the controller has other jobs for this host now; start this process again"
            );
            if stop.load(Ordering::Relaxed) {
                let job = jobs.first().context("a host serves a job")?;
                bail!("job {job}: stopped before it had joined a run");
            }
            std::thread::sleep(TICK);
        }
    }

    /// Raises a flag when one of these jobs has another run than this, or `stop` is raised.
    #[must_use]
    pub fn over(&self, jobs: Vec<(String, Epoch)>, stop: &Arc<AtomicBool>) -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        let Some(runtime) = &self.runtime else { return over };
        let (raised, mut now, stop) = (Arc::clone(&over), self.now.clone(), Arc::clone(stop));
        let outdated = Arc::clone(&self.outdated);
        runtime.spawn(async move {
            let other = |runs: &BTreeMap<String, Begun>| {
                let now = |job: &str| runs.get(job).map(Begun::epoch);
                outdated.load(Ordering::Relaxed)
                    || jobs.iter().any(|(job, epoch)| now(job).is_some_and(|now| now != *epoch))
            };
            tokio::select! {
                () = until(&stop) => {}
                Ok(_) = now.wait_for(other) => {}
            }
            raised.store(true, Ordering::Relaxed);
        });
        over
    }
}

/// The stream of a host.
struct Follower {
    controller: Remote,
    host: Host,
    runs: watch::Sender<BTreeMap<String, Begun>>,
    failed: Arc<OnceLock<String>>,
    needs_setup: bool,
    setup: Arc<OnceLock<Setup>>,
    /// The set-up as it was told.
    told: Option<v1::Setup>,
    ready: Arc<Notify>,
    outdated: Arc<AtomicBool>,
}

impl Follower {
    async fn follow(mut self) {
        while !self.outdated.load(Ordering::Relaxed) {
            let broken = self.once().await;
            let reason = broken.explained(&self.controller);
            // One that was there may come back.
            if self.runs.borrow().is_empty() && self.setup.get().is_none() {
                self.failed.get_or_init(|| reason);
                return;
            }
            tracing::debug!("{reason}");
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn once(&mut self) -> Broken {
        let role = match self.host.clone() {
            Host::Servers(host) => Role::Server(host),
            Host::Agent(host) => Role::Agent(host),
        };
        let mut unready = false;
        let mut stream = match Stream::open(&self.controller, role, self.needs_setup).await {
            Ok(stream) => stream,
            Err(broken) => return broken,
        };
        loop {
            let news = tokio::select! {
                news = stream.news() => news,
                () = self.ready.notified(), if unready => {
                    unready = false;
                    stream.say(Request::Ready(v1::Ready {})).await;
                    continue;
                }
            };
            let told = match news {
                Ok(News::Setup(told)) => match &self.told {
                    None => {
                        unready = true;
                        self.told = Some(told.clone());
                        Setup::of(told).map(|setup| drop(self.setup.set(setup)))
                    }
                    Some(before) if *before == told => {
                        stream.say(Request::Ready(v1::Ready {})).await;
                        Ok(())
                    }
                    Some(_) => {
                        self.outdated.store(true, Ordering::Relaxed);
                        self.runs.send_modify(|_| {});
                        return Broken::Lost("it has other jobs for this host now".into());
                    }
                },
                Ok(News::Run(run)) => self.begun(run),
                Ok(_) => Ok(()),
                Err(broken) => return broken,
            };
            if let Err(status) = told {
                return Broken::Refused(status);
            }
        }
    }

    fn begun(&self, run: v1::Run) -> Result<(), Status> {
        let job = run.job.clone();
        let begun = Begun::of(run)?;
        self.runs.send_if_modified(|runs| {
            runs.insert(job, begun.clone()).is_none_or(|before| before != begun)
        });
        Ok(())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The jobs that a process of a host serves, and their runs: from the command line, or from the controller.
#[derive(Debug)]
pub struct Serving {
    /// Indices of the first lane of each.
    jobs: Vec<usize>,
    host: Host,
    runs: Option<Runs>,
}

impl Serving {
    /// Serves the jobs of a host that `serves`: those of the job file, or of the controller. Returns what the
    /// process needs for them, and the host.
    ///
    /// # Errors
    /// If the file is invalid, the controller does not answer or refuses, or `stop` is raised.
    pub fn new(
        args: &Args,
        name: Option<&str>,
        host: fn(String) -> Host,
        serves: impl Fn(&JobSpec, HostId) -> bool,
        stop: &AtomicBool,
    ) -> Result<(Self, Setup, HostId)> {
        let file = args.job_file.is_some();
        let name = args.host_name(name)?;
        let (runs, setup) = if file {
            let deployment = args.load()?;
            let first = WorkerIndex::new(0).expect("an index");
            (None, Setup { deployment, tokens: args.tokens()?, worker: first })
        } else {
            let runs = Runs::follow(args.controller("")?, host(name.clone()), true)?;
            let setup = runs.setup(stop)?;
            (Some(runs), setup)
        };
        let scenario = setup.deployment.scenario();
        let id = names::host_at(scenario, &name)?;
        let own = scenario.whole_jobs().filter(|(_, job)| serves(job, id));
        let jobs = own.map(|(index, _)| index).collect();
        let host = host(scenario.network.topology.host(id).name.clone());
        Ok((Self { jobs, host, runs }, setup, id))
    }

    /// Whether the host has no job to serve.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether the controller has other jobs for the host by now.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.runs.as_ref().is_some_and(|runs| runs.outdated.load(Ordering::Relaxed))
    }

    /// Waits until the controller has other jobs for the host, or `stop` is raised.
    pub fn idle(&self, stop: &AtomicBool) {
        if let Some(runs) = &self.runs {
            runs.ready();
        }
        while !self.is_outdated() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
    }

    /// Sets the runs of the jobs, and their workers. Waits until the controller knows them.
    ///
    /// # Errors
    /// If neither the runs nor a controller are given; as of [`Runs::of`].
    pub fn join(
        &mut self,
        args: &Args,
        deployment: &mut Deployment,
        stop: &AtomicBool,
    ) -> Result<()> {
        let scenario = deployment.scenario();
        let asks = |job: &&usize| args.given(&scenario.jobs[scenario.lanes(**job)]).is_none();
        if let (None, Some(job)) = (&self.runs, self.jobs.iter().find(asks)) {
            let controller = args.controller(&scenario.jobs[*job].name)?;
            self.runs = Some(Runs::follow(controller, self.host.clone(), false)?);
        }
        if let Some(runs) = &self.runs {
            runs.ready();
        }
        let names: Vec<String> =
            self.jobs.iter().map(|job| deployment.job(*job).name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let begun = self.runs.as_mut().map(|runs| runs.of(&names, stop)).transpose()?;
        for (at, job) in self.jobs.iter().enumerate() {
            let lanes = deployment.scenario().lanes(*job);
            let epochs = match &begun {
                Some(begun) => begun[at].epochs.clone(),
                None => args.given(&deployment.scenario().jobs[lanes.clone()]).unwrap_or_default(),
            };
            let everyone = deployment.job(*job).workers.len();
            for (lane, epoch) in lanes.zip(epochs) {
                deployment.set_epoch(lane, epoch);
                if let Some(Begun { workers, .. }) = begun.as_ref().map(|begun| &begun[at])
                    && workers.len() as usize != everyone
                {
                    deployment.keep(lane, *workers);
                }
            }
        }
        Ok(())
    }

    /// Raised when one of the jobs that `follows` has another run than the deployment has, or with `stop`.
    #[must_use]
    pub fn over(
        &self,
        deployment: &Deployment,
        follows: impl Fn(&JobSpec) -> bool,
        stop: &Arc<AtomicBool>,
    ) -> Arc<AtomicBool> {
        let Some(runs) = &self.runs else { return Arc::clone(stop) };
        let jobs = self.jobs.iter().map(|job| deployment.job(*job)).filter(|job| follows(job));
        runs.over(jobs.map(|job| (job.name.clone(), job.epoch)).collect(), stop)
    }
}
