//! The gRPC service through which endpoints take part in jobs.
//!
//! [`Jobs`] keeps the [life](tributary_model::job) of each job, and does what it orders: it changes switches,
//! writes the journal, wakes when time has passed, and tells endpoints. `proto/tributary/jobs/v1/jobs.proto` has
//! what endpoints and the controller say to each other.

mod client;
mod messages;

use std::collections::{BTreeMap, HashMap};
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
use tributary_model::{HostId, JobSpec, worker_index};
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::jobs_server::{Jobs as Service, JobsServer};
use tributary_protocol::Time;
use tributary_wire::{Epoch, JobId, WorkerSet};

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
    /// In the network, each thread of a worker has a job of its own.
    lanes: Vec<JobId>,
    /// The numbers of the last runs, one for each lane, by that of the first lane.
    epochs: BTreeMap<Epoch, Vec<Epoch>>,
    /// When the next check of its deadline is due.
    alarm: Option<Time>,
}

impl Entry {
    /// A job whose lanes switches serve.
    fn new(lanes: &[JobSpec], current: &[Placement], record: Option<&Record>, begun: bool) -> Self {
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
            lanes: lanes.iter().map(|lane| lane.id).collect(),
            epochs: BTreeMap::from([(served.epoch, epochs)]),
            alarm: None,
        }
    }

    fn hosts(&self, workers: WorkerSet) -> Vec<HostId> {
        workers.iter().map(|worker| self.workers[usize::from(worker.get())]).collect()
    }
}

impl Jobs {
    /// Serves jobs that a controller has admitted: the lanes of each. Runs found in the switches count as begun.
    /// The records are those with which the controller was resumed.
    #[must_use]
    pub fn new<'a>(
        controller: Arc<Controller>,
        journal: Arc<dyn Journal>,
        jobs: impl IntoIterator<Item = &'a [JobSpec]>,
        records: &[Record],
    ) -> Self {
        let entry = |lanes: &[JobSpec]| {
            let placed = lanes.iter().map(|lane| controller.placement(lane.id).map(|(p, _)| p));
            let placed: Vec<Placement> = placed.collect::<Option<_>>()?;
            let record = records.iter().find(|record| record.placement == placed[0]);
            let begun = controller.found(lanes[0].id) == Some(placed[0].epoch);
            Some((lanes[0].id, Entry::new(lanes, &placed, record, begun)))
        };
        let jobs = jobs.into_iter().filter_map(entry).collect();
        let state = Mutex::new(State { jobs, ..State::default() });
        Self(Arc::new(Shared { controller, journal, state, begin: Instant::now() }))
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
        jobs: Vec<JobId>,
        stream: Stream,
        outbox: Arc<Outbox>,
        mut requests: Streaming<v1::TakeRequest>,
        client: mpsc::Sender<Result<v1::TakeResponse, Status>>,
    ) {
        'open: loop {
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => if let Some((epoch, standing)) = messages::standing(&request) {
                        for job in &jobs {
                            self.handle(*job, Event::Stand(stream, epoch, standing));
                        }
                    },
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

    /// A new stream to these jobs.
    fn open(
        &self,
        jobs: Vec<JobId>,
        event: impl Fn(Stream) -> Event,
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
        jobs.iter().for_each(|job| self.handle(*job, event(stream)));
        tokio::spawn(self.clone().serve(jobs, stream, outbox, requests, client));
        ReceiverStream::new(answers)
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
        let host = self.0.controller.topology.host_named(name);
        let none = || Status::invalid_argument(format!("the network has no host `{name}`"));
        let host = host.ok_or_else(none)?;
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
        let stream = match messages::role(first)? {
            messages::Role::Worker { job, worker, run } => {
                let job = self.named(&job)?;
                self.open(vec![job], |stream| Event::Take(stream, worker, run), requests)
            }
            messages::Role::Server(host) => {
                let jobs = self.at_host(&host, |entry| entry.server)?;
                self.open(jobs, Event::Follow, requests)
            }
            messages::Role::Agent(host) => {
                let apart =
                    |entry: &Entry| entry.agent.filter(|agent| entry.server != Some(*agent));
                let jobs = self.at_host(&host, apart)?;
                self.open(jobs, Event::Follow, requests)
            }
        };
        Ok(Response::new(stream))
    }
}
