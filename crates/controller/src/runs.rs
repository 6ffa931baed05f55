//! Runs of jobs whose processes are started separately, and which process is in which run.
//!
//! The workers of a job begin a run together. Each worker asks to join when it starts, and waits
//! until all have asked; then a new run begins with exactly these workers. A worker that is started
//! twice, or again in the middle of a run, does not disturb that run: it waits for the others. The
//! controller sweeps what the previous run left in switches before the new run begins.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tributary_access::{Grant, Remote, Role};
use tributary_proto::runs::v1;
use tributary_proto::runs::v1::join_response::Progress as Told;
use tributary_proto::runs::v1::runs_client::RunsClient;
use tributary_proto::runs::v1::runs_server::{Runs as Service, RunsServer};
use tributary_wire::{Epoch, JobId, Run, WorkerIndex, WorkerSet};

use crate::attendance::{Attendance, Call};
use crate::client;
use crate::error::Error;
use crate::jobs::Controller;
use crate::scheduler::{Journal, Record};
use crate::server::MESSAGE_LIMIT;

/// Asks a controller which run of a job a process belongs
/// to. A worker waits for the other workers of its job: `missing` is called with those that have
/// not joined yet, once at first and then after each change. Dropping the future withdraws the
/// worker.
///
/// # Errors
/// [`Error::Joining`].
pub async fn ask(
    controller: &Remote,
    job: JobId,
    worker: Option<WorkerIndex>,
    mut missing: impl FnMut(WorkerSet),
) -> Result<Epoch, Error> {
    let mut answers = Answers::to(controller, job, worker).await?;
    loop {
        match answers.next().await? {
            Told::Waiting(v1::Waiting { missing: indices }) => {
                let index = |index: u32| u16::try_from(index).ok().and_then(WorkerIndex::new);
                let indices = indices.into_iter().filter_map(index);
                missing(indices.collect());
            }
            Told::Epoch(epoch) => return answers.epoch(epoch),
        }
    }
}

/// Returns when a job has another run than `run`, according to a controller.
///
/// # Errors
/// [`Error::Joining`]; it is unknown then whether there is another run.
pub async fn over(controller: &Remote, job: JobId, run: Epoch) -> Result<(), Error> {
    let mut answers = Answers::to(controller, job, None).await?;
    loop {
        if let Told::Epoch(epoch) = answers.next().await?
            && answers.epoch(epoch)? != run
        {
            return Ok(());
        }
    }
}

/// What a worker learns while it takes part in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attended {
    /// It has said that it has all results.
    Done,
    /// Another worker of the run has died.
    Lost(WorkerIndex),
    /// The job has another run now.
    Over,
}

/// Takes part in a run, until the worker is `done`. If the call breaks, call again at once: otherwise the worker
/// is taken for dead.
///
/// # Errors
/// [`Error::Joining`] if the controller does not answer.
pub async fn attend(
    controller: &Remote,
    run: Run,
    worker: WorkerIndex,
    done: &mut watch::Receiver<bool>,
) -> Result<Attended, Error> {
    let failed = |reason: String| failed(controller, reason);
    let channel = controller.clone().with_keepalive(KEEPALIVE).connect().await;
    let channel = channel.map_err(|error| failed(client::root_cause(&error)))?;
    let (requests, outgoing) = mpsc::channel(2);
    let request = |done| v1::AttendRequest {
        job_id: run.job.get().into(),
        worker: worker.get().into(),
        epoch: run.epoch.get(),
        done,
    };
    requests.try_send(request(false)).expect("it has room for two");
    let call = RunsClient::new(channel).attend(ReceiverStream::new(outgoing)).await;
    let mut answers = match call {
        Ok(answers) => answers.into_inner(),
        Err(status) if status.code() == Code::FailedPrecondition => return Ok(Attended::Over),
        Err(status) => return Err(failed(status.message().to_owned())),
    };
    let is_done = async {
        // Without the sender, the worker has ended.
        let _ = done.wait_for(|done| *done).await;
    };
    tokio::select! {
        answer = answers.message() => {
            let answer = answer.map_err(|status| failed(status.message().to_owned()))?;
            let lost = answer.map(|v1::AttendResponse { lost }| lost);
            let lost = lost.and_then(|lost| WorkerIndex::new(u16::try_from(lost).ok()?));
            return lost.map(Attended::Lost).ok_or_else(|| failed("it ended the call".into()));
        }
        () = is_done => {}
    }
    // The call may have ended.
    let _ = requests.try_send(request(true));
    drop(requests);
    // The controller ends the call when it has read this.
    while let Ok(Some(_)) = answers.message().await {}
    Ok(Attended::Done)
}

/// The controller's answers to a request to join.
struct Answers<'a> {
    controller: &'a Remote,
    answers: Streaming<v1::JoinResponse>,
}

impl<'a> Answers<'a> {
    async fn to(
        controller: &'a Remote,
        job: JobId,
        worker: Option<WorkerIndex>,
    ) -> Result<Self, Error> {
        let failed = |reason: String| failed(controller, reason);
        let channel = controller.clone().with_keepalive(KEEPALIVE).connect().await;
        let channel = channel.map_err(|error| failed(client::root_cause(&error)))?;
        let worker = worker.map(|worker| worker.get().into());
        let request = v1::JoinRequest { job_id: job.get().into(), worker };
        let mut client = RunsClient::new(channel);
        let joining = tokio::time::timeout(PATIENCE, client.join(request)).await;
        let joining =
            joining.map_err(|_| failed(format!("no answer came in {} s", PATIENCE.as_secs())))?;
        let answers = joining.map_err(|status| failed(status.message().to_owned()))?.into_inner();
        Ok(Self { controller, answers })
    }

    async fn next(&mut self) -> Result<Told, Error> {
        let answer = self.answers.message().await;
        let answer =
            answer.map_err(|status| failed(self.controller, status.message().to_owned()))?;
        answer
            .and_then(|answer| answer.progress)
            .ok_or_else(|| failed(self.controller, "it ended without naming a run".into()))
    }

    fn epoch(&self, number: u32) -> Result<Epoch, Error> {
        Epoch::new(number).ok_or_else(|| failed(self.controller, "its run has no number".into()))
    }
}

fn failed(controller: &Remote, reason: String) -> Error {
    Error::Joining { address: controller.to_string(), reason }
}

/// Timeout of the connection, and of the first answer, which waits while switches change runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval and timeout of the HTTP/2 pings that detect a lost controller.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long a worker whose call has ended may take to call again, before it is taken for dead.
const RETURN: Duration = Duration::from_secs(1);

/// The workers that wait for runs to begin. Clones share them.
#[derive(Clone, Debug)]
pub struct Runs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    controller: Arc<Controller>,
    journal: Arc<dyn Journal>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    gatherings: BTreeMap<JobId, Gathering>,
    attendance: Attendance,
    /// No more runs begin.
    closed: bool,
}

/// Workers of a job that wait for its next run.
#[derive(Debug, Default)]
struct Gathering {
    waiting: Crew,
    /// The last run that workers have begun.
    begun: watch::Sender<Option<Epoch>>,
    /// Held while switches change to another run.
    changing: Arc<tokio::sync::Mutex<()>>,
}

/// State of a worker that joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It waits for others.
    Waiting {
        /// Workers that have not joined yet. Empty while switches change to the new run.
        missing: WorkerSet,
    },
    /// The run has begun.
    Begun(Epoch),
    /// Another process has joined as the same worker and replaced this one.
    Displaced,
    /// The run could not begin.
    Failed(Error),
}

impl State {
    fn gathering(&mut self, job: JobId) -> &mut Gathering {
        self.gatherings.entry(job).or_default()
    }

    fn changing(&mut self, job: JobId) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.gathering(job).changing)
    }
}

impl Gathering {
    /// Tells all waiting workers which workers are missing, and returns the crew if none is.
    fn look(&mut self, workers: WorkerSet) -> Option<Crew> {
        self.waiting.retain(|_, worker| !worker.is_closed());
        let there = self.waiting.keys().copied().collect();
        let missing = workers.without(there);
        for worker in self.waiting.values() {
            let now = Progress::Waiting { missing };
            worker.send_if_modified(|before| {
                let changed = *before != now;
                *before = now;
                changed
            });
        }
        missing.is_empty().then(|| std::mem::take(&mut self.waiting))
    }
}

/// All workers of a job.
type Crew = BTreeMap<WorkerIndex, watch::Sender<Progress>>;

impl Runs {
    /// Serves the jobs that a controller has admitted. Runs found in the switches count as begun.
    ///
    /// The journal has each run before a worker learns of it. So a controller that is killed while a run
    /// begins is resumed with that run or with the one before, and then begins another.
    #[must_use]
    pub fn new(controller: Arc<Controller>, journal: Arc<dyn Journal>) -> Self {
        let jobs = controller.admitted();
        let gathering = |job| Gathering {
            begun: watch::Sender::new(controller.found(job)),
            ..Gathering::default()
        };
        let gatherings = jobs.into_iter().map(|(run, _)| (run.job, gathering(run.job))).collect();
        let attendance = Attendance::default();
        let state = Mutex::new(State { gatherings, attendance, closed: false });
        Self(Arc::new(Shared { controller, journal, state }))
    }

    /// The current run of a job, for its parameter server and reminder agent. Waits while switches
    /// change to another run.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub async fn current(&self, job: JobId) -> Result<Epoch, Error> {
        self.0.controller.run(job)?;
        let changing = self.state().changing(job);
        let _changed = changing.lock().await;
        self.0.controller.run(job).map(|(run, _)| run.epoch)
    }

    /// Registers a worker for the next run of its job. It stays registered until the returned
    /// receiver is dropped or gets the last [`Progress`]. The channel closes when
    /// [`close`](Self::close) is called.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::NoWorker`].
    pub fn join(
        &self,
        job: JobId,
        worker: WorkerIndex,
    ) -> Result<watch::Receiver<Progress>, Error> {
        let (_, workers) = self.0.controller.run(job)?;
        if !workers.contains(worker) {
            return Err(Error::NoWorker { job, workers: workers.len() });
        }
        let (sender, receiver) = watch::channel(Progress::Waiting { missing: workers });
        let mut state = self.state();
        if let Some(displaced) = state.gathering(job).waiting.insert(worker, sender) {
            displaced.send_replace(Progress::Displaced);
        }
        self.go_on(job, &mut state);
        Ok(receiver)
    }

    /// Begins a run if all workers of the job wait.
    fn go_on(&self, job: JobId, state: &mut State) {
        let workers = self.0.controller.run(job).ok().filter(|_| !state.closed);
        let Some((_, workers)) = workers else { return state.gathering(job).waiting.clear() };
        if let Some(crew) = state.gathering(job).look(workers) {
            // A separate task, so that a leaving worker does not interrupt the switches' change.
            tokio::spawn(self.clone().begin(job, crew));
        }
    }

    /// Changes the switches to a new run, unless the current one has not begun.
    async fn begin(self, job: JobId, crew: Crew) {
        let changing = self.state().changing(job);
        let _changing = changing.lock().await;
        if self.state().closed {
            return;
        }
        let fresh = self.fresh(job).await;
        let mut state = self.state();
        let gathering = state.gathering(job);
        let tell_all = |crew: Crew, progress: Progress| {
            for worker in crew.into_values() {
                worker.send_replace(progress.clone());
            }
        };
        match fresh {
            Err(error) => tell_all(crew, Progress::Failed(error)),
            Ok(epoch) if !crew.values().any(watch::Sender::is_closed) => {
                gathering.begun.send_replace(Some(epoch));
                tracing::info!(%job, %epoch, "a new run begins");
                tell_all(crew, Progress::Begun(epoch));
            }
            // A worker has left in the meantime: the others wait until it or its replacement joins.
            Ok(_) => {
                for (index, worker) in crew {
                    match gathering.waiting.entry(index) {
                        Entry::Vacant(place) => drop(place.insert(worker)),
                        Entry::Occupied(_) => drop(worker.send_replace(Progress::Displaced)),
                    }
                }
                self.go_on(job, &mut state);
            }
        }
    }

    /// A run that no worker has begun, and that is recorded.
    async fn fresh(&self, job: JobId) -> Result<Epoch, Error> {
        let Shared { controller, journal, .. } = &*self.0;
        let (run, _) = controller.run(job)?;
        let begun = *self.state().gathering(job).begun.borrow();
        let epoch = match begun == Some(run.epoch) || !controller.serves(job) {
            true => controller.renew(job).await?,
            false => run.epoch,
        };
        let record = Record::of_file(controller, job).ok_or(Error::UnknownJob(job))?;
        journal.keep(&record).map_err(Error::Unrecorded)?;
        Ok(epoch)
    }

    /// Stops beginning runs and disconnects waiting workers. Returns when no switch is changing.
    pub async fn close(&self) {
        let gatherings = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.gatherings)
        };
        let changing = gatherings.into_values().map(|gathering| gathering.changing);
        for job in changing.collect::<Vec<_>>() {
            drop(job.lock().await);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gRPC service.
    #[must_use]
    pub fn service(self) -> Routes {
        Routes::new(RunsServer::new(self).max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// Listens to a worker that takes part in a run, and tells it if another one dies.
    async fn listen(
        self,
        call: Call,
        mut requests: Streaming<v1::AttendRequest>,
        mut lost: watch::Receiver<Option<WorkerIndex>>,
        client: mpsc::Sender<Result<v1::AttendResponse, Status>>,
    ) {
        let done = loop {
            let other = async { lost.wait_for(Option::is_some).await.ok().and_then(|lost| *lost) };
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) if request.done => break true,
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break false,
                },
                Some(lost) = other => {
                    let lost = lost.get().into();
                    // The worker may have left.
                    drop(client.send(Ok(v1::AttendResponse { lost })).await);
                    // It ends for that, and did not die itself.
                    break true;
                }
            }
        };
        drop(client);
        if done {
            self.state().attendance.done(call);
            return;
        }
        tokio::time::sleep(RETURN).await;
        if self.state().attendance.gone(call) {
            tracing::warn!("{call}: the worker has ended in the middle of the run");
        }
    }

    /// Sends a client each new run of a job.
    async fn tell_runs(mut begun: watch::Receiver<Option<Epoch>>, client: Client) {
        loop {
            tokio::select! {
                changed = begun.changed() => if changed.is_err() { break },
                () = client.closed() => break,
            }
            let epoch = *begun.borrow_and_update();
            let told =
                epoch.map(|epoch| v1::JoinResponse { progress: Some(Told::Epoch(epoch.get())) });
            if let Some(told) = told
                && client.send(Ok(told)).await.is_err()
            {
                break;
            }
        }
    }

    /// Sends a client the progress of its worker until the last message or the client leaves.
    async fn tell(self, job: JobId, mut progress: watch::Receiver<Progress>, client: Client) {
        loop {
            let now = progress.borrow_and_update().clone();
            let last = !matches!(now, Progress::Waiting { .. });
            if client.send(answer(job, now)).await.is_err() || last {
                break;
            }
            tokio::select! {
                changed = progress.changed() => if changed.is_err() {
                    // An error means that the client has left.
                    let _ = client.send(Err(Status::unavailable("the controller ends"))).await;
                    return;
                },
                () = client.closed() => break,
            }
        }
        drop(progress);
        self.go_on(job, &mut self.state());
    }
}

type Client = mpsc::Sender<Result<v1::JoinResponse, Status>>;

fn answer(job: JobId, progress: Progress) -> Result<v1::JoinResponse, Status> {
    let progress = match progress {
        Progress::Waiting { missing } => {
            let missing = missing.iter().map(|worker| worker.get().into()).collect();
            Told::Waiting(v1::Waiting { missing })
        }
        Progress::Begun(epoch) => Told::Epoch(epoch.get()),
        Progress::Displaced => {
            let reason = format!("another process has joined job {job} as the same worker");
            return Err(Status::already_exists(reason));
        }
        Progress::Failed(error) => return Err(status(&error)),
    };
    Ok(v1::JoinResponse { progress: Some(progress) })
}

#[tonic::async_trait]
impl Service for Runs {
    type JoinStream = ReceiverStream<Result<v1::JoinResponse, Status>>;

    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let v1::JoinRequest { job_id, worker } = request.into_inner();
        let job = self.job(&grant, job_id)?;
        let index = |worker| u16::try_from(worker).ok().and_then(WorkerIndex::new);
        let none = || Status::invalid_argument("a job has at most 1024 workers");
        let worker = worker.map(|worker| index(worker).ok_or_else(none)).transpose()?;
        let (client, answers) = mpsc::channel(1);
        if let Some(worker) = worker {
            let progress = Self::join(self, job, worker).map_err(|error| status(&error))?;
            tokio::spawn(self.clone().tell(job, progress, client));
        } else {
            self.0.controller.run(job).map_err(|error| status(&error))?;
            let begun = self.state().gathering(job).begun.subscribe();
            let epoch = self.current(job).await.map_err(|error| status(&error))?;
            client.try_send(answer(job, Progress::Begun(epoch))).expect("it has room for one");
            tokio::spawn(Self::tell_runs(begun, client));
        }
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    type AttendStream = ReceiverStream<Result<v1::AttendResponse, Status>>;

    async fn attend(
        &self,
        request: Request<Streaming<v1::AttendRequest>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let mut requests = request.into_inner();
        let first = tokio::time::timeout(KEEPALIVE, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no worker was named"))??;
        let first = first.ok_or_else(|| Status::invalid_argument("name a worker"))?;
        let v1::AttendRequest { job_id, worker, epoch, .. } = first;
        let job = self.job(&grant, job_id)?;
        let (run, workers) = self.0.controller.run(job).map_err(|error| status(&error))?;
        let index = u16::try_from(worker).ok().and_then(WorkerIndex::new);
        let index = index.filter(|index| workers.contains(*index));
        let index = index.ok_or_else(|| Status::invalid_argument("the job has no such worker"))?;
        if run.epoch.get() != epoch {
            return Err(Status::failed_precondition(format!("job {job} has another run now")));
        }
        let (client, answers) = mpsc::channel(1);
        let (call, lost) = self.state().attendance.begin(run, index);
        tokio::spawn(self.clone().listen(call, requests, lost, client));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

impl Runs {
    /// The job of a request. All jobs of the file are the operator's.
    fn job(&self, grant: &Grant, job_id: u32) -> Result<JobId, Status> {
        if !grant.covers(None) {
            let what = format!("job {job_id} is the operator's, and no tenant's");
            return Err(Status::permission_denied(what));
        }
        let job = u16::try_from(job_id).ok().and_then(JobId::new);
        job.ok_or_else(|| Status::not_found(format!("there is no job {job_id}")))
    }
}

fn status(error: &Error) -> Status {
    let code = match error {
        Error::UnknownJob(_) => Code::NotFound,
        Error::NoWorker { .. } => Code::InvalidArgument,
        Error::JobTaken(..) => Code::Aborted,
        Error::Lost { .. }
        | Error::Unreachable { .. }
        | Error::NotPrimary { .. }
        | Error::SweepLost { .. } => Code::Unavailable,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}
