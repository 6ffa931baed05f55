//! The gRPC service through which endpoints take part in jobs.
//!
//! [`Jobs`] keeps the [life](tributary_model::job) of each job, and does what it orders: it changes switches,
//! writes the journal, wakes when time has passed, and tells endpoints. `proto/tributary/jobs/v1/jobs.proto` has
//! what endpoints and the controller say to each other.

mod client;
mod messages;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use tributary_access::{Grant, Role};
use tributary_model::job::{
    Begin, Event, Failure, Handover, Job, News, Order, Rules, Served, Stream,
};
use tributary_model::plan::Placement;
use tributary_model::{Deployment, HostId, JobSpec, worker_index};
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::jobs_server::{Jobs as Service, JobsServer};
use tributary_protocol::Time;
use tributary_wire::channel::Token;
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

use crate::error::Error;
use crate::jobs::Controller;
use crate::scheduler::{Journal, Record};
use crate::server::MESSAGE_LIMIT;
use client::Outbox;

/// How long a client may take to name itself.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// Interval of checks for the end of changes, when the controller ends.
const TICK: Duration = Duration::from_millis(10);

/// The jobs of a controller, and the endpoints that take part in them. Clones share them.
#[derive(Clone, Debug)]
pub struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    controller: Arc<Controller>,
    journal: Arc<dyn Journal>,
    deployment: Arc<Deployment>,
    /// By the names of jobs.
    tokens: BTreeMap<String, Token>,
    state: Mutex<State>,
    begin: Instant,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobId, Entry>,
    clients: HashMap<Stream, Arc<Outbox>>,
    last_stream: u64,
}

/// A job.
#[derive(Debug)]
struct Entry {
    life: Job,
    /// The hosts of all workers, by their indices in the job.
    workers: Vec<HostId>,
    server: Option<HostId>,
    agent: Option<HostId>,
    /// Its place in the deployment: in the network, each thread of a worker has a job of its own.
    at: Range<usize>,
    /// The IDs of these.
    lanes: Vec<JobId>,
    /// What a worker needs to take part, as JSON.
    setup: Option<Arc<Vec<u8>>>,
    /// The numbers of the last runs, one for each lane, by that of the first lane.
    epochs: BTreeMap<Epoch, Vec<Epoch>>,
    /// When the next check of its deadline is due.
    alarm: Option<Time>,
}

impl Entry {
    /// A job whose lanes switches serve.
    fn new(
        at: Range<usize>,
        lanes: &[JobSpec],
        current: &[Placement],
        record: Option<&Record>,
        begun: bool,
    ) -> Self {
        let (job, placement) = (&lanes[0], &current[0]);
        let there = job.workers.iter().enumerate();
        let there = there.filter(|(_, host)| placement.workers.contains(host));
        let rules = Rules {
            name: job.name.clone(),
            workers: u16::try_from(job.workers.len()).unwrap_or(u16::MAX),
            on_death: job.on_death,
        };
        let served = Served {
            epoch: placement.epoch,
            workers: there.map(|(index, _)| worker_index(index)).collect(),
            handover: record.and_then(|record| record.handover),
            begun,
            ended: record.is_some_and(|record| record.ended),
        };
        let epochs = current.iter().map(|placement| placement.epoch).collect();
        Self {
            life: Job::resume(rules, served),
            workers: job.workers.clone(),
            server: job.ps,
            agent: job.agent,
            at,
            lanes: lanes.iter().map(|lane| lane.id).collect(),
            setup: None,
            epochs: BTreeMap::from([(served.epoch, epochs)]),
            alarm: None,
        }
    }

    fn hosts(&self, workers: WorkerSet) -> Vec<HostId> {
        workers.iter().map(|worker| self.workers[usize::from(worker.get())]).collect()
    }
}

/// A client that has named itself.
struct Client {
    jobs: Vec<JobId>,
    stream: Stream,
    outbox: Arc<Outbox>,
    /// How it enters the jobs, when it is ready.
    enters: Option<Event>,
}

impl Jobs {
    /// Serves the jobs of a deployment that a controller has admitted. Runs found in the switches count as begun.
    /// The records are those with which the controller was resumed, and the tokens those of jobs with a
    /// reminder agent, by their names.
    #[must_use]
    pub fn new(
        controller: Arc<Controller>,
        journal: Arc<dyn Journal>,
        deployment: Arc<Deployment>,
        tokens: BTreeMap<String, Token>,
        records: &[Record],
    ) -> Self {
        let scenario = deployment.scenario();
        let entry = |at: Range<usize>| {
            let lanes = &scenario.jobs[at.clone()];
            let placed = lanes.iter().map(|lane| controller.placement(lane.id).map(|(p, _)| p));
            let placed: Vec<Placement> = placed.collect::<Option<_>>()?;
            let record = records.iter().find(|record| record.placement == placed[0]);
            let begun = controller.found(lanes[0].id) == Some(placed[0].epoch);
            Some((lanes[0].id, Entry::new(at, lanes, &placed, record, begun)))
        };
        let whole = scenario.whole_jobs().map(|(job, _)| scenario.lanes(job));
        let jobs = whole.filter_map(entry).collect();
        let state = Mutex::new(State { jobs, ..State::default() });
        let begin = Instant::now();
        Self(Arc::new(Shared { controller, journal, deployment, tokens, state, begin }))
    }

    /// The gRPC service.
    #[must_use]
    pub fn service(self) -> Routes {
        Routes::new(JobsServer::new(self).max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// The run of a job that was recorded last.
    #[must_use]
    pub fn served(&self, job: JobId) -> Option<Served> {
        self.state().jobs.get(&job).map(|entry| entry.life.served())
    }

    /// The workers of each job that take part in its run, and those of all.
    #[must_use]
    pub fn taking_part(&self) -> Vec<(JobId, u32, u32)> {
        let state = self.state();
        let jobs = state.jobs.iter();
        jobs.map(|(job, Entry { life, .. })| {
            (*job, life.served().workers.len(), u32::from(life.rules().workers))
        })
        .collect()
    }

    /// Begins no more runs, and disconnects endpoints. Returns when no switch is changing.
    pub async fn close(&self) {
        let jobs: Vec<JobId> = self.state().jobs.keys().copied().collect();
        jobs.iter().for_each(|job| self.handle(*job, Event::Close));
        while self.state().jobs.values().any(|entry| entry.life.is_changing()) {
            tokio::time::sleep(TICK).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.0.begin.elapsed()
    }

    /// Something happens to a job.
    fn handle(&self, job: JobId, event: Event) {
        let mut state = self.state();
        let Some(entry) = state.jobs.get_mut(&job) else { return };
        entry.life.handle(self.now(), event);
        self.obey(job, &mut state);
    }

    /// Does what a job's life orders.
    fn obey(&self, job: JobId, state: &mut State) {
        let State { jobs, clients, .. } = state;
        let Some(entry) = jobs.get_mut(&job) else { return };
        while let Some(order) = entry.life.poll() {
            match order {
                Order::Tell(stream, news) => {
                    if let Some(client) = clients.get(&stream) {
                        client.put(entry.message(news));
                    }
                }
                Order::Change(workers) => {
                    tracing::info!(%job, "switches change to a run of {workers}");
                    tokio::spawn(self.clone().change(
                        job,
                        entry.lanes.clone(),
                        entry.hosts(workers),
                    ));
                }
                Order::Record(served) => {
                    let recorded = self.record(entry, served);
                    if recorded.is_ok() {
                        entry.epochs.retain(|epoch, _| {
                            let before = served.handover.map(|handover| handover.before);
                            *epoch == served.epoch || Some(*epoch) == before
                        });
                        entry.log(served);
                    }
                    entry.life.handle(self.now(), Event::Recorded(recorded));
                }
            }
        }
        let Some(deadline) = entry.life.deadline() else { return };
        if entry.alarm.is_none_or(|alarm| deadline < alarm) {
            entry.alarm = Some(deadline);
            let (weak, pause) = (Arc::downgrade(&self.0), deadline - self.now());
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                // It does not keep the controller from ending meanwhile.
                if let Some(shared) = weak.upgrade() {
                    Self(shared).ring(job, deadline);
                }
            });
        }
    }

    /// Time has passed for a job.
    fn ring(&self, job: JobId, alarm: Time) {
        let mut state = self.state();
        let Some(entry) = state.jobs.get_mut(&job) else { return };
        if entry.alarm == Some(alarm) {
            entry.alarm = None;
        }
        entry.life.tick(self.now());
        self.obey(job, &mut state);
    }

    /// Changes the switches to a new run of these workers, for each lane.
    async fn change(self, job: JobId, lanes: Vec<JobId>, workers: Vec<HostId>) {
        let mut epochs = Vec::with_capacity(lanes.len());
        let mut outcome = Ok(());
        for lane in lanes {
            match self.0.controller.renew_with(lane, Some(workers.clone())).await {
                Ok(epoch) => epochs.push(epoch),
                Err(error) => {
                    tracing::warn!("job {job} does not begin another run yet: {error}");
                    outcome = Err(failure(&error));
                    break;
                }
            }
        }
        let first = epochs.first().copied();
        if let (Ok(()), Some(first), Some(entry)) =
            (&outcome, first, self.state().jobs.get_mut(&job))
        {
            entry.epochs.insert(first, epochs);
        }
        let changed = outcome.and_then(|()| first.ok_or_else(|| failure(&Error::UnknownJob(job))));
        self.handle(job, Event::Changed(changed));
    }

    /// Writes a run to the journal.
    fn record(&self, entry: &Entry, Served { handover, ended, .. }: Served) -> Result<(), Failure> {
        let Shared { controller, journal, .. } = &*self.0;
        for lane in &entry.lanes {
            let record = Record::of_file(controller, *lane);
            let record = record.ok_or_else(|| failure(&Error::UnknownJob(*lane)))?;
            let kept = journal.keep(&Record { handover, ended, ..record });
            kept.map_err(|error| failure(&Error::Unrecorded(error)))?;
        }
        Ok(())
    }

    /// A client's stream, from its first message to its end.
    async fn serve(
        self,
        Client { jobs, stream, outbox, mut enters }: Client,
        mut requests: Streaming<v1::TakeRequest>,
        client: mpsc::Sender<Result<v1::TakeResponse, Status>>,
    ) {
        'open: loop {
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => {
                        let ready = messages::is_ready(&request).then(|| enters.take()).flatten();
                        let stood = messages::standing(&request);
                        let stood = stood.map(|(run, standing)| Event::Stand(stream, run, standing));
                        for event in ready.into_iter().chain(stood) {
                            jobs.iter().for_each(|job| self.handle(*job, event.clone()));
                        }
                    }
                    Ok(None) | Err(_) => break,
                },
                () = outbox.filled() => while let Some(news) = outbox.take() {
                    let last = messages::is_last(&news);
                    // The client may have gone.
                    if client.send(news).await.is_err() || last {
                        break 'open;
                    }
                },
            }
        }
        self.state().clients.remove(&stream);
        jobs.iter().for_each(|job| self.handle(*job, Event::Gone(stream)));
    }

    /// A new stream to these jobs, which the client enters at once, or when it has used its set-up.
    fn open(
        &self,
        jobs: Vec<JobId>,
        event: impl FnOnce(Stream) -> Event,
        setup: Option<v1::Setup>,
        requests: Streaming<v1::TakeRequest>,
    ) -> ReceiverStream<Result<v1::TakeResponse, Status>> {
        let (client, answers) = mpsc::channel(1);
        let outbox = Arc::new(Outbox::default());
        let stream = {
            let mut state = self.state();
            state.last_stream += 1;
            let stream = Stream(state.last_stream);
            state.clients.insert(stream, Arc::clone(&outbox));
            stream
        };
        let event = event(stream);
        let enters = match setup {
            Some(setup) => {
                outbox.put(Ok(messages::setup(setup)));
                Some(event)
            }
            None => {
                jobs.iter().for_each(|job| self.handle(*job, event.clone()));
                None
            }
        };
        let opened = Client { jobs, stream, outbox, enters };
        tokio::spawn(self.clone().serve(opened, requests, client));
        ReceiverStream::new(answers)
    }

    /// What a worker of a job needs to take part. All workers of a job get the same.
    fn worker_setup(&self, job: JobId, worker: WorkerIndex) -> v1::Setup {
        let mut state = self.state();
        let entry = state.jobs.get_mut(&job).expect("it is served");
        let at: Vec<usize> = entry.at.clone().collect();
        let encoded = entry.setup.get_or_insert_with(|| Arc::new(self.encoded(&at)));
        let (deployment, tokens) = (encoded.to_vec(), self.tokens(&at));
        v1::Setup { deployment, tokens, worker: worker.get().into() }
    }

    /// What a host needs to serve jobs.
    fn host_setup(&self, jobs: &[JobId]) -> v1::Setup {
        let state = self.state();
        let at = jobs.iter().filter_map(|job| state.jobs.get(job)).flat_map(|job| job.at.clone());
        let at: Vec<usize> = at.collect();
        v1::Setup { deployment: self.encoded(&at), tokens: self.tokens(&at), worker: 0 }
    }

    fn encoded(&self, jobs: &[usize]) -> Vec<u8> {
        serde_json::to_vec(&self.0.deployment.only(jobs)).expect("plain values")
    }

    fn tokens(&self, jobs: &[usize]) -> Vec<Vec<u8>> {
        let name = |job: &usize| self.0.deployment.job(*job).name.as_str();
        let token =
            |job| self.0.tokens.get(name(job)).map_or_else(Vec::new, |token| token.0.to_vec());
        jobs.iter().map(token).collect()
    }

    /// The worker of a job on a host.
    fn worker_on(&self, job: JobId, host: &str) -> Result<WorkerIndex, Status> {
        let at = self.host(host)?;
        let state = self.state();
        let entry = state.jobs.get(&job).expect("it is served");
        let worker = entry.workers.iter().position(|worker| *worker == at);
        worker.map(worker_index).ok_or_else(|| {
            let name = &entry.life.rules().name;
            let known = &self.0.controller.topology.host(at).name;
            Status::invalid_argument(format!("job {name} has no worker on host `{known}`"))
        })
    }

    /// The host with a name or an IP address.
    fn host(&self, name: &str) -> Result<HostId, Status> {
        let topology = &self.0.controller.topology;
        let by_address = || {
            let ip = name.parse::<std::net::Ipv4Addr>().ok()?;
            topology.host_ids().find(|host| topology.host(*host).address.ip == ip)
        };
        let host = topology.host_named(name).or_else(by_address);
        host.ok_or_else(|| Status::invalid_argument(format!("the network has no host `{name}`")))
    }

    /// The job with a name.
    fn named(&self, name: &str) -> Result<JobId, Status> {
        let state = self.state();
        let named = state.jobs.iter().find(|(_, entry)| entry.life.rules().name == name);
        let named = named.map(|(job, _)| *job);
        named.ok_or_else(|| Status::not_found(format!("there is no job `{name}`")))
    }

    /// The jobs of which a host has a part.
    fn at_host(
        &self,
        name: &str,
        part: impl Fn(&Entry) -> Option<HostId>,
    ) -> Result<Vec<JobId>, Status> {
        let host = self.host(name)?;
        let state = self.state();
        let own = state.jobs.iter().filter(|(_, entry)| part(entry) == Some(host));
        Ok(own.map(|(job, _)| *job).collect())
    }
}

impl Entry {
    /// Tells people of a run that is about to begin or end.
    fn log(&self, Served { epoch, workers, handover, ended, .. }: Served) {
        let name = &self.life.rules().name;
        let lost = self.life.served().workers.without(workers);
        match handover.map(|Handover { rounds, .. }| rounds.saturating_add(1)) {
            _ if ended => tracing::info!("job {name}: the run is over"),
            None => tracing::info!(%epoch, "job {name}: a new run begins"),
            Some(from) if lost.is_empty() => {
                tracing::warn!(%epoch, "job {name} goes on with all workers from round {from}");
            }
            Some(from) => {
                tracing::warn!(%epoch, "job {name} goes on without {lost} from round {from}");
            }
        }
    }

    fn message(&self, news: News) -> Result<v1::TakeResponse, Status> {
        let run = |Begin { epoch, workers, rounds }: Begin| v1::Run {
            job: self.life.rules().name.clone(),
            epochs: self
                .epochs
                .get(&epoch)
                .into_iter()
                .flatten()
                .map(|epoch| epoch.get())
                .collect(),
            workers: messages::indices(workers),
            rounds,
        };
        messages::response(news, run)
    }
}

fn failure(error: &Error) -> Failure {
    let passes = matches!(
        error,
        Error::JobTaken(..)
            | Error::Unrecorded(_)
            | Error::Lost { .. }
            | Error::Unreachable { .. }
            | Error::NotPrimary { .. }
            | Error::SweepLost { .. }
    );
    Failure { reason: error.to_string(), passes }
}

#[tonic::async_trait]
impl Service for Jobs {
    type TakeStream = ReceiverStream<Result<v1::TakeResponse, Status>>;

    async fn take(
        &self,
        request: Request<Streaming<v1::TakeRequest>>,
    ) -> Result<Response<Self::TakeStream>, Status> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        // All jobs of the file are the operator's.
        if !grant.covers(None) {
            let what = "the controller's jobs are the operator's, and no tenant's";
            return Err(Status::permission_denied(what));
        }
        let mut requests = request.into_inner();
        let first = tokio::time::timeout(FIRST_MESSAGE, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no endpoint was named"))??;
        let (role, wants_setup) = messages::role(first)?;
        let of_host = |jobs: &[JobId]| wants_setup.then(|| self.host_setup(jobs));
        let stream = match role {
            messages::Role::Worker { job, which, run } => {
                let job = self.named(&job)?;
                let worker = match which {
                    messages::Which::Index(worker) => worker,
                    messages::Which::Host(host) => self.worker_on(job, &host)?,
                };
                let setup = wants_setup.then(|| self.worker_setup(job, worker));
                self.open(vec![job], |stream| Event::Take(stream, worker, run), setup, requests)
            }
            messages::Role::Server(host) => {
                let jobs = self.at_host(&host, |entry| entry.server)?;
                let setup = of_host(&jobs);
                self.open(jobs, Event::Follow, setup, requests)
            }
            messages::Role::Agent(host) => {
                let apart =
                    |entry: &Entry| entry.agent.filter(|agent| entry.server != Some(*agent));
                let jobs = self.at_host(&host, apart)?;
                let setup = of_host(&jobs);
                self.open(jobs, Event::Follow, setup, requests)
            }
        };
        Ok(Response::new(stream))
    }
}
