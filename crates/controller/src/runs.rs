//! Runs of jobs whose processes are started separately, and which process is in which run.
//!
//! The workers of a job begin a run together. Each worker asks to join when it starts, and waits
//! until all have asked; then a new run begins with exactly these workers. A worker that is started
//! twice, or again in the middle of a run, does not disturb that run: it waits for the others. The
//! controller sweeps what the previous run left in switches before the new run begins.
//!
//! A job may go on without workers that die ([`OnDeath::Continue`]). When one has, all others stop and say
//! of how many rounds they have the sums. Then the next run begins with them, from the round that the one
//! furthest behind is in:
//!
//! 1. switches change to the new run, whose workers are those that are left;
//! 2. the journal has it, and where it begins ([`Handover`]);
//! 3. workers and servers are told.
//!
//! A controller that is killed before 2 is resumed with the run before, of which nobody was told the end: it
//! decides again. After 2 it tells the same to those that were not told. A worker that dies after 2 has died
//! in the new run. One that was taken for dead is refused until the job's run is over.

mod client;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tributary_access::{Grant, Role};
use tributary_model::{HostId, JobSpec, OnDeath, worker_index};
use tributary_proto::runs::v1;
use tributary_proto::runs::v1::attend_response::News as Answer;
use tributary_proto::runs::v1::join_response::Progress as Told;
use tributary_proto::runs::v1::runs_server::{Runs as Service, RunsServer};
use tributary_wire::{Epoch, JobId, Run, WorkerIndex, WorkerSet};

use crate::attendance::{Attendance, Call, News, Spoken};
use crate::error::Error;
use crate::jobs::Controller;
use crate::scheduler::{Handover, Journal, Record};
use crate::server::MESSAGE_LIMIT;
use tributary_model::plan::Placement;

pub use crate::attendance::{Continuation, Standing, Verdict};
use client::KEEPALIVE;
pub use client::{Attended, Attendee, Begun, ask, attend, over};

/// How long a worker whose call has ended may take to call again, before it is taken for dead.
const RETURN: Duration = Duration::from_secs(1);

/// How long after the first worker of a run the others may take to call: after its begin, or after the restart
/// of this controller.
const ABSENCE: Duration = Duration::from_secs(10);

/// Pause before switches are asked again to change to the next run.
const AGAIN: Duration = Duration::from_secs(1);

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
    teams: BTreeMap<JobId, Team>,
    gatherings: BTreeMap<JobId, Gathering>,
    attendance: Attendance,
    /// No more runs begin.
    closed: bool,
}

/// The workers of a job, and those that take part in its run.
#[derive(Clone, Debug)]
pub struct Team {
    name: String,
    on_death: OnDeath,
    /// The hosts of all workers, by their indices in the job file.
    hosts: Vec<HostId>,
    /// The run that was begun last.
    epoch: Epoch,
    /// Its workers.
    workers: WorkerSet,
    /// How it has begun, if it goes on without some workers.
    handover: Option<Handover>,
}

impl Team {
    /// The workers of a job of the file, whose current run is placed so.
    #[must_use]
    pub fn new(job: &JobSpec, current: &Placement, handover: Option<Handover>) -> Self {
        let hosts = job.workers.iter().enumerate();
        let there = hosts.filter(|(_, host)| current.workers.contains(host));
        Self {
            name: job.name.clone(),
            on_death: job.on_death,
            hosts: job.workers.clone(),
            epoch: current.epoch,
            workers: there.map(|(index, _)| worker_index(index)).collect(),
            handover,
        }
    }

    /// A job that ends when a worker dies.
    fn of(placement: &Placement) -> Self {
        let hosts = placement.workers.clone();
        Self {
            name: placement.job.to_string(),
            on_death: OnDeath::End,
            workers: (0..hosts.len()).map(worker_index).collect(),
            hosts,
            epoch: placement.epoch,
            handover: None,
        }
    }

    fn everyone(&self) -> WorkerSet {
        (0..self.hosts.len()).map(worker_index).collect()
    }

    fn hosts(&self, workers: WorkerSet) -> Vec<HostId> {
        workers.iter().map(|worker| self.hosts[usize::from(worker.get())]).collect()
    }

    /// The answer to a worker without which the job goes on.
    fn without(&self, worker: WorkerIndex) -> String {
        format!(
            "job {} goes on without worker {worker}, which was not heard from; start it again when that run \
             is over",
            self.name
        )
    }
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

    fn team(&self, job: JobId) -> Result<&Team, Error> {
        self.teams.get(&job).ok_or(Error::UnknownJob(job))
    }

    /// The workers that are left of a job's run, if it goes on without others at the moment.
    fn under_way(&self, job: JobId) -> Option<WorkerSet> {
        let team = self.teams.get(&job)?;
        self.attendance.under_way(job.run(team.epoch))
    }

    /// Refuses waiting workers without which the job's run goes on.
    fn turn_away(&mut self, job: JobId) {
        let Some(left) = self.under_way(job) else { return };
        let Self { teams, gatherings, .. } = self;
        let Some((team, gathering)) = teams.get(&job).zip(gatherings.get_mut(&job)) else { return };
        for (worker, waiting) in
            gathering.waiting.extract_if(.., |worker, _| !left.contains(*worker))
        {
            waiting.send_replace(Progress::Failed(Error::Without(team.without(worker))));
        }
    }

    /// Takes note of the runs of a job whose workers may call.
    fn open(&mut self, job: JobId) {
        let Some(Team { epoch, workers, handover, .. }) = self.teams.get(&job).cloned() else {
            return;
        };
        self.attendance.open(job.run(epoch), workers);
        if let Some(Handover { before, rounds }) = handover {
            let verdict = Verdict::GoOn(Continuation { epoch, workers, rounds });
            self.attendance.decide(job.run(before), verdict);
        }
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
        Self::with_teams(controller, journal, BTreeMap::new())
    }

    /// The same with jobs that go on without workers that die. A journal must have the handover of each team
    /// that has one.
    #[must_use]
    pub fn with_teams(
        controller: Arc<Controller>,
        journal: Arc<dyn Journal>,
        mut teams: BTreeMap<JobId, Team>,
    ) -> Self {
        let jobs = controller.admitted();
        for (run, _) in &jobs {
            if let Some((placement, _)) = controller.placement(run.job) {
                teams.entry(run.job).or_insert_with(|| Team::of(&placement));
            }
        }
        let gathering = |job| Gathering {
            begun: watch::Sender::new(controller.found(job)),
            ..Gathering::default()
        };
        let gatherings = jobs.into_iter().map(|(run, _)| (run.job, gathering(run.job))).collect();
        let attendance = Attendance::default();
        let mut state = State { teams, gatherings, attendance, closed: false };
        for job in state.teams.keys().copied().collect::<Vec<_>>() {
            if state.teams[&job].on_death.goes_on() {
                state.open(job);
            }
        }
        Self(Arc::new(Shared { controller, journal, state: Mutex::new(state) }))
    }

    /// The current run of a job, for its parameter server and reminder agent. Waits while switches
    /// change to another run.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub async fn current(&self, job: JobId) -> Result<Begun, Error> {
        self.0.controller.run(job)?;
        let changing = self.state().changing(job);
        let _changed = changing.lock().await;
        let (run, _) = self.0.controller.run(job)?;
        let state = self.state();
        let team = state.team(job)?;
        // A run that no worker was told of has all workers.
        let some = team.epoch == run.epoch && team.workers != team.everyone();
        Ok(Begun { epoch: run.epoch, workers: some.then_some(team.workers) })
    }

    /// Whether a run of a job has begun, so that the job may go on without a worker that has died.
    #[must_use]
    pub fn has_begun(&self, job: JobId) -> bool {
        self.state().gathering(job).begun.borrow().is_some()
    }

    /// Registers a worker for the next run of its job. It stays registered until the returned
    /// receiver is dropped or gets the last [`Progress`]. The channel closes when
    /// [`close`](Self::close) is called.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::NoWorker`], [`Error::Without`].
    pub fn join(
        &self,
        job: JobId,
        worker: WorkerIndex,
    ) -> Result<watch::Receiver<Progress>, Error> {
        self.0.controller.run(job)?;
        let mut state = self.state();
        let team = state.team(job)?;
        let workers = team.everyone();
        if !workers.contains(worker) {
            return Err(Error::NoWorker { job, workers: workers.len() });
        }
        if state.under_way(job).is_some_and(|left| !left.contains(worker)) {
            return Err(Error::Without(team.without(worker)));
        }
        let (sender, receiver) = watch::channel(Progress::Waiting { missing: workers });
        if let Some(displaced) = state.gathering(job).waiting.insert(worker, sender) {
            displaced.send_replace(Progress::Displaced);
        }
        self.go_on(job, &mut state);
        Ok(receiver)
    }

    /// Begins a run if all workers of the job wait.
    fn go_on(&self, job: JobId, state: &mut State) {
        let known = self.0.controller.run(job).is_ok() && !state.closed;
        let workers = state.team(job).ok().filter(|_| known).map(Team::everyone);
        let Some(workers) = workers else { return state.gathering(job).waiting.clear() };
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

    /// A run of all workers of the job that none has begun, and that is recorded.
    async fn fresh(&self, job: JobId) -> Result<Epoch, Error> {
        let Shared { controller, journal, .. } = &*self.0;
        let (run, _) = controller.run(job)?;
        let (team, begun) = {
            let mut state = self.state();
            (state.team(job)?.clone(), *state.gathering(job).begun.borrow())
        };
        let placed = controller.placement(job).map(|(placement, _)| placement.workers);
        let begins = begun == Some(run.epoch) || placed.as_ref() != Some(&team.hosts);
        let epoch = match begins || !controller.serves(job) {
            true => controller.renew_with(job, Some(team.hosts.clone())).await?,
            false => run.epoch,
        };
        let record = Record::of_file(controller, job).ok_or(Error::UnknownJob(job))?;
        journal.keep(&record).map_err(Error::Unrecorded)?;
        let mut state = self.state();
        let workers = team.everyone();
        state.teams.insert(job, Team { epoch, workers, handover: None, ..team.clone() });
        if team.on_death.goes_on() {
            state.attendance.supersede(job);
            state.open(job);
        }
        Ok(epoch)
    }

    /// Ends a run in which no worker that is left sums any more, and tells them how they go on.
    async fn settle(self, run: Run) {
        let changing = self.state().changing(run.job);
        let _changing = changing.lock().await;
        loop {
            let (spoken, team) = {
                let state = self.state();
                let (Some(spoken), Ok(team)) = (state.attendance.spoken(run), state.team(run.job))
                else {
                    return;
                };
                if state.closed {
                    return;
                }
                (spoken, team.clone())
            };
            let verdict = match team.on_death {
                _ if spoken.done => Verdict::Complete,
                _ if spoken.lost.is_empty() => Verdict::Over(format!(
                    "job {}: no results come, and no worker has died",
                    team.name
                )),
                OnDeath::Continue { least } if spoken.left.len() >= least => {
                    match self.next_run(run, &team, spoken).await {
                        Ok(Some(next)) => Verdict::GoOn(next),
                        // Another worker has died meanwhile.
                        Ok(None) => continue,
                        Err(error) if comes_back(&error) => {
                            tracing::warn!("job {} does not go on yet: {error}", team.name);
                            tokio::time::sleep(AGAIN).await;
                            continue;
                        }
                        Err(error) => Verdict::Over(error.to_string()),
                    }
                }
                OnDeath::Continue { least } => Verdict::Over(format!(
                    "{}, and min_workers is {least}; start all workers of the job again",
                    left(&team.name, spoken)
                )),
                OnDeath::End => return,
            };
            self.decide(run, &team, spoken, verdict);
            return;
        }
    }

    /// Changes switches to the next run, and records it. Returns nothing if another worker has died meanwhile.
    async fn next_run(
        &self,
        run: Run,
        team: &Team,
        spoken: Spoken,
    ) -> Result<Option<Continuation>, Error> {
        let Shared { controller, journal, .. } = &*self.0;
        let Spoken { left: workers, rounds, .. } = spoken;
        let epoch = controller.renew_with(run.job, Some(team.hosts(workers))).await?;
        if self.state().attendance.spoken(run) != Some(spoken) {
            return Ok(None);
        }
        let record = Record::of_file(controller, run.job).ok_or(Error::UnknownJob(run.job))?;
        let handover = Some(Handover { before: run.epoch, rounds });
        journal.keep(&Record { handover, ..record }).map_err(Error::Unrecorded)?;
        Ok(Some(Continuation { epoch, workers, rounds }))
    }

    fn decide(&self, run: Run, team: &Team, spoken: Spoken, verdict: Verdict) {
        let mut state = self.state();
        let name = &team.name;
        match &verdict {
            Verdict::GoOn(Continuation { epoch, workers, rounds }) => {
                let (lost, from) = (spoken.lost, rounds.saturating_add(1));
                tracing::warn!(%epoch, "job {name} goes on without {lost} from round {from}");
                let handover = Some(Handover { before: run.epoch, rounds: *rounds });
                let (epoch, workers) = (*epoch, *workers);
                state.teams.insert(run.job, Team { epoch, workers, handover, ..team.clone() });
                state.attendance.keep(run.job, [run.epoch, epoch]);
                state.gathering(run.job).begun.send_replace(Some(epoch));
            }
            Verdict::Over(reason) => tracing::warn!("job {name} ends: {reason}"),
            Verdict::Complete => tracing::info!("job {name}: all workers have all sums"),
        }
        state.attendance.decide(run, verdict);
        state.turn_away(run.job);
        drop(state);
        // A worker may have died after the others had spoken.
        self.look(run.job);
    }

    /// After a change among the workers of a job: ends its run if none sums any more.
    fn look(&self, job: JobId) {
        let mut state = self.state();
        state.turn_away(job);
        let run = state.teams.get(&job).map(|team| job.run(team.epoch));
        if let Some(run) = run.filter(|run| state.attendance.spoken(*run).is_some()) {
            tokio::spawn(self.clone().settle(run));
        }
    }

    /// The workers of each job that take part in its run, and those of all.
    #[must_use]
    pub fn taking_part(&self) -> Vec<(JobId, u32, u32)> {
        let state = self.state();
        let teams = state.teams.iter();
        teams.map(|(job, team)| (*job, team.workers.len(), team.everyone().len())).collect()
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

    /// Listens to a worker that takes part in a run, and tells it how others fare.
    async fn listen(
        self,
        call: Call,
        mut requests: Streaming<v1::AttendRequest>,
        mut news: watch::Receiver<News>,
        goes_on: bool,
        client: mpsc::Sender<Result<v1::AttendResponse, Status>>,
    ) {
        let mut told = News::default();
        let done = loop {
            let more = async {
                let news = news.wait_for(|news| *news != told).await;
                news.map(|news| news.clone()).ok()
            };
            let now = tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(v1::AttendRequest { done, rounds, .. })) => {
                        match rounds.filter(|_| goes_on) {
                            Some(rounds) => {
                                self.state().attendance.speak(call, Standing { rounds, done });
                                self.look(call.run.job);
                            }
                            None if done => break true,
                            None => {}
                        }
                        continue;
                    }
                    Ok(None) | Err(_) => break false,
                },
                Some(now) = more => now,
            };
            let lost = now.lost.filter(|_| told.lost.is_none());
            let lost = lost.map(|lost| Answer::Lost(lost.get().into()));
            let verdict = now.verdict.clone().map(answer_of);
            let over = verdict.is_some() || !goes_on;
            for news in lost.into_iter().chain(verdict) {
                // The worker may have left.
                drop(client.send(Ok(v1::AttendResponse { news: Some(news) })).await);
            }
            if over {
                // In a job that ends, it ends for that, and did not die itself. In one that goes on, it calls
                // for the next run.
                break !goes_on;
            }
            told = now;
        };
        drop(client);
        if done {
            self.state().attendance.done(call);
            return;
        }
        let Some(runs) = self.after(RETURN).await else { return };
        let lost = runs.state().attendance.gone(call);
        if let Some(run) = lost {
            tracing::warn!("{call}: the worker has ended in the middle of the run");
            runs.look(run.job);
        }
    }

    /// Waits, and does not keep the controller from ending meanwhile.
    async fn after(self, pause: Duration) -> Option<Self> {
        let shared = Arc::downgrade(&self.0);
        drop(self);
        tokio::time::sleep(pause).await;
        shared.upgrade().map(Self)
    }

    /// Takes workers for dead that do not call in time after the first one of their run.
    async fn miss(self, run: Run) {
        let Some(runs) = self.after(ABSENCE).await else { return };
        let missing = runs.state().attendance.miss(run);
        if missing {
            tracing::warn!("{run}: workers have not called in {ABSENCE:?}, as others have");
            runs.look(run.job);
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
            let told = epoch.map(|epoch| v1::JoinResponse {
                progress: Some(Told::Epoch(epoch.get())),
                // It is asked for by another call.
                workers: Vec::new(),
            });
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
        Progress::Waiting { missing } => Told::Waiting(v1::Waiting { missing: indices(missing) }),
        Progress::Begun(epoch) => Told::Epoch(epoch.get()),
        Progress::Displaced => {
            let reason = format!("another process has joined job {job} as the same worker");
            return Err(Status::already_exists(reason));
        }
        Progress::Failed(error) => return Err(status(&error)),
    };
    Ok(v1::JoinResponse { progress: Some(progress), workers: Vec::new() })
}

/// A verdict as a message.
fn answer_of(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::GoOn(Continuation { epoch, workers, rounds }) => {
            Answer::GoOn(v1::GoOn { epoch: epoch.get(), workers: indices(workers), rounds })
        }
        Verdict::Complete => Answer::Complete(v1::Complete {}),
        Verdict::Over(reason) => Answer::Over(reason),
    }
}

fn indices(workers: WorkerSet) -> Vec<u32> {
    workers.iter().map(|worker| worker.get().into()).collect()
}

/// The workers with these indices. What is no index is left out.
fn set(indices: &[u32]) -> WorkerSet {
    let index = |&index: &u32| u16::try_from(index).ok().and_then(WorkerIndex::new);
    indices.iter().filter_map(index).collect()
}

/// How many workers are left of a job.
fn left(name: &str, spoken: Spoken) -> String {
    let left = spoken.left.len();
    let workers = if left == 1 { "worker" } else { "workers" };
    format!("job {name} has {left} {workers} left, without {}", spoken.lost)
}

/// Whether an error may go by itself: a switch is away, or is being changed, or the journal cannot be written.
fn comes_back(error: &Error) -> bool {
    matches!(status(error).code(), Code::Unavailable | Code::Aborted)
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
            let Begun { epoch, workers } =
                self.current(job).await.map_err(|error| status(&error))?;
            let answer = answer(job, Progress::Begun(epoch)).map(|answer| v1::JoinResponse {
                workers: workers.map_or_else(Vec::new, indices),
                ..answer
            });
            client.try_send(answer).expect("it has room for one");
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
        let (run, _) = self.0.controller.run(job).map_err(|error| status(&error))?;
        let mut state = self.state();
        let team = state.team(job).map_err(|error| status(&error))?.clone();
        let goes_on = team.on_death.goes_on();
        let index = u16::try_from(worker).ok().and_then(WorkerIndex::new);
        let index = index.filter(|index| team.everyone().contains(*index));
        let index = index.ok_or_else(|| Status::invalid_argument("the job has no such worker"))?;
        let epoch = Epoch::new(epoch);
        let before = team.handover.map(|handover| handover.before);
        // While switches change, workers attend the run before.
        let now = if goes_on { team.epoch } else { run.epoch };
        let epoch = epoch.filter(|epoch| *epoch == now || Some(*epoch) == before);
        let over = || Status::failed_precondition(format!("job {job} has another run now"));
        let run = job.run(epoch.ok_or_else(over)?);
        let (client, answers) = mpsc::channel(2);
        let begun = state.attendance.begin(run, index);
        let without = || Status::failed_precondition(team.without(index));
        let (call, first, news) = begun.ok_or_else(without)?;
        state.turn_away(job);
        drop(state);
        if first && goes_on {
            tokio::spawn(self.clone().miss(run));
        }
        tokio::spawn(self.clone().listen(call, requests, news, goes_on, client));
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
        Error::Without(_) => Code::FailedPrecondition,
        Error::Unrecorded(_)
        | Error::Lost { .. }
        | Error::Unreachable { .. }
        | Error::NotPrimary { .. }
        | Error::SweepLost { .. } => Code::Unavailable,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}
