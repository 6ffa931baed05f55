//! The jobs of a network, and the gRPC service for them.
//!
//! [`Jobs`] keeps the [life](tributary_model::job) of each job, and does what it orders: it changes switches,
//! writes the journal, wakes when time has passed, and tells endpoints. Clients admit, step, move and release jobs.
//! `proto/tributary/jobs/v1/jobs.proto` has what clients, endpoints and the controller say to each other.
//!
//! - `admission`: jobs that come, are moved and go;
//! - `progress`: their iterations and rates, and those who watch;
//! - `taking`: endpoints that take part;
//! - `described`: what endpoints need to know of a job;
//! - `tenants`: whose they are;
//! - `journal`: what outlives the controller;
//! - `requests` and `messages`: values as messages, and back.

mod admission;
mod client;
mod described;
mod journal;
mod messages;
mod progress;
mod refusal;
mod requests;
mod taking;
mod tenants;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::service::Routes;
use tributary_api::jobs::v1::jobs_server::JobsServer;
use tributary_model::job::{
    Event, Failure, Handover, Iteration, Job, Notice, Order, Progress, RETURN, Rules, Served,
    Stream,
};
use tributary_model::jobfile::Site;
use tributary_model::memory::Room;
use tributary_model::plan::Placement;
use tributary_model::{Deployment, HostId, JobSpec, OnDeath, Topology, worker_index};
use tributary_protocol::Time;
use tributary_wire::channel::Token;
use tributary_wire::{Epoch, JobId, Protocol, WorkerSet};

pub use admission::{Admission, Demand};
pub use described::Described;
use described::Part;
pub use journal::{Forgetful, Journal, Record};
pub use progress::Listed;
pub use refusal::Refusal;

use crate::error::Error;
use crate::jobs::{Controller, lock};
use crate::server::MESSAGE_LIMIT;
use client::Outbox;
use taking::Host;

/// How long a job with a lease stays admitted while no worker takes part.
pub const GRACE: Duration = Duration::from_secs(10);

/// The jobs of a controller, and the endpoints that take part in them. Clones share them.
#[derive(Clone, Debug)]
pub struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    controller: Arc<Controller>,
    journal: Arc<dyn Journal>,
    known: Known,
    state: Mutex<State>,
    begin: Instant,
}

/// An error is the reason why the network cannot carry a job.
type Check = dyn Fn(&Placement) -> Result<(), String> + Send + Sync;

/// Decides whether the network of a control loop can ever carry a job.
#[derive(Clone)]
pub struct Carries(pub Arc<Check>);

impl fmt::Debug for Carries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carries")
    }
}

/// The jobs whose settings a controller has, so that endpoints can take part in them.
#[derive(Clone, Debug)]
pub struct Known {
    /// They, and their assignments unless clients admit them.
    pub deployment: Deployment,
    /// The tokens of those with a reminder agent, by their names.
    pub tokens: BTreeMap<String, Token>,
    /// Whether the controller has admitted them by itself, so that no client releases them.
    pub own: bool,
    /// For jobs whose settings come with their admission.
    pub site: Option<Arc<Site>>,
    /// The key that workers of the known jobs must show, if there is one.
    pub key: Vec<u8>,
    /// See [`GRACE`].
    pub grace: Duration,
    /// See [`Rules::patience`].
    pub patience: Duration,
    /// Which jobs a control loop can schedule, if there is one.
    pub carries: Option<Carries>,
}

impl From<Deployment> for Known {
    fn from(deployment: Deployment) -> Self {
        Self {
            deployment,
            tokens: BTreeMap::new(),
            own: false,
            site: None,
            key: Vec::new(),
            grace: GRACE,
            patience: RETURN,
            carries: None,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobId, Entry>,
    clients: HashMap<Stream, Arc<Outbox>>,
    /// Hosts with a stream that stays when they have other jobs.
    hosts: HashMap<Stream, Host>,
    /// When a host's servers were told to call again, because their jobs have changed.
    called: HashMap<HostId, Instant>,
    last_stream: u64,
    last_serial: u64,
    /// The last ID that was chosen for a job.
    last_id: Option<JobId>,
    /// Admissions that were refused, by tenant and reason.
    refused: BTreeMap<(String, &'static str), u64>,
    closing: bool,
}

/// A job whose ID is taken.
#[derive(Debug)]
struct Entry {
    /// Whose job it is.
    tenant: Option<String>,
    /// Aggregators that it has in each switch that adds for it, or asks for.
    size: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is being admitted, or what its admission has left in switches is being removed.
    Coming,
    /// Its admission has failed half-way: it can only be released.
    Left,
    /// Dropping it closes the watchers' channels.
    Admitted(Box<Admitted>),
}

impl Entry {
    fn admitted(&self) -> Option<&Admitted> {
        if let Stage::Admitted(admitted) = &self.stage { Some(admitted) } else { None }
    }

    fn admitted_mut(&mut self) -> Option<&mut Admitted> {
        if let Stage::Admitted(admitted) = &mut self.stage { Some(admitted) } else { None }
    }
}

/// An admitted job.
#[derive(Debug)]
struct Admitted {
    life: Job,
    /// What distinguishes it from jobs that had its ID before.
    serial: u64,
    /// Its name, for people.
    title: String,
    /// With all its workers. Its run and its assignment are those of its life.
    placement: Placement,
    /// What endpoints need to know, if they can take part.
    described: Option<Described>,
    /// In the network, each thread of a worker has a job of its own.
    lanes: Vec<JobId>,
    demand: Option<Demand>,
    watched: watch::Sender<(Epoch, Progress)>,
    /// What a worker needs to take part, as JSON.
    setup: Option<Arc<Vec<u8>>>,
    /// The numbers of the last runs, one for each lane, by that of the first lane.
    epochs: BTreeMap<Epoch, Vec<Epoch>>,
    /// When the next check of its deadline is due.
    alarm: Option<Time>,
}

impl Admitted {
    /// A job whose lanes (at least one) switches serve, in this state.
    fn new(
        placement: Placement,
        mut described: Option<Described>,
        rules: Rules,
        served: Served,
        lanes: &[Placement],
    ) -> Self {
        described.iter_mut().for_each(|described| described.place(&placement, lanes));
        let epochs = lanes.iter().map(|lane| lane.epoch).collect();
        Self {
            serial: 0,
            title: rules.name.clone(),
            life: Job::resume(rules, served),
            placement,
            described,
            lanes: lanes.iter().map(|lane| lane.job).collect(),
            demand: None,
            watched: watch::Sender::new((served.epoch, served.progress)),
            setup: None,
            epochs: BTreeMap::from([(served.epoch, epochs)]),
            alarm: None,
        }
    }

    fn name(&self) -> &str {
        &self.life.rules().name
    }

    fn hosts(&self, workers: WorkerSet) -> Vec<HostId> {
        workers.iter().map(|worker| self.placement.workers[usize::from(worker.get())]).collect()
    }
}

impl Jobs {
    /// The jobs of a controller that keeps no journal. It serves none yet, or those among the known ones that were
    /// admitted by it directly.
    #[must_use]
    pub fn new(controller: impl Into<Arc<Controller>>, known: impl Into<Known>) -> Self {
        Self::resume(controller, known, &[], Arc::new(Forgetful))
    }

    /// The same for one that keeps a journal, with the jobs of an earlier one. The controller already serves these:
    /// see [`Controller::resume`]. A run that was found in switches, and of which the journal knows nothing, counts as
    /// begun.
    #[must_use]
    pub fn resume(
        controller: impl Into<Arc<Controller>>,
        known: impl Into<Known>,
        records: &[Record],
        journal: Arc<dyn Journal>,
    ) -> Self {
        let (controller, known) = (controller.into(), known.into());
        for record in records {
            controller.continue_services(record.placement.job, record.last_service);
        }
        let scenario = known.deployment.scenario();
        let mut jobs = BTreeMap::new();
        for id in controller.job_ids() {
            let at = scenario.jobs.iter().position(|job| job.id == id);
            if at.is_some_and(|at| !scenario.jobs[at].lane.is_first()) {
                continue;
            }
            let at = at.map(|at| scenario.lanes(at));
            let record = records.iter().find(|record| record.placement.job == id);
            if let Some(entry) = resumed(&controller, &known, id, at, record) {
                jobs.insert(id, entry);
            }
        }
        let last_serial = jobs.len() as u64;
        for (admitted, serial) in jobs.values_mut().filter_map(Entry::admitted_mut).zip(1..) {
            admitted.serial = serial;
        }
        let state = Mutex::new(State { jobs, last_serial, ..State::default() });
        Self(Arc::new(Shared { controller, journal, known, state, begin: Instant::now() }))
    }

    /// The gRPC service. The grace periods of leases begin, because only now can endpoints take part.
    ///
    /// # Panics
    /// Outside of a Tokio runtime, if a job has a lease.
    #[must_use]
    pub fn service(&self) -> Routes {
        {
            let mut state = self.state();
            for job in state.jobs.keys().copied().collect::<Vec<_>>() {
                self.tick(&mut state, job);
            }
        }
        let server = JobsServer::new(self.clone());
        Routes::new(server.max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// The switches.
    #[must_use]
    pub fn controller(&self) -> &Arc<Controller> {
        &self.0.controller
    }

    /// The network of the jobs.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.0.controller.topology
    }

    /// The protocol of the jobs.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.0.controller.catalogue.protocol()
    }

    /// Free memory per switch.
    #[must_use]
    pub fn room(&self) -> Vec<Room> {
        self.0.controller.room()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.0.begin.elapsed()
    }

    /// Something happens to a job.
    fn handle(&self, job: JobId, event: Event) {
        self.handle_in(&mut self.state(), job, event);
    }

    fn handle_in(&self, state: &mut State, job: JobId, event: Event) {
        let Some(admitted) = state.admitted_mut(job) else { return };
        admitted.life.handle(self.now(), event);
        self.obey(job, state);
    }

    /// Does what a job's life orders.
    fn obey(&self, job: JobId, state: &mut State) {
        let State { jobs, clients, .. } = state;
        let entry = jobs.get_mut(&job);
        let Some(Entry { tenant, stage: Stage::Admitted(admitted), .. }) = entry else { return };
        while let Some(order) = admitted.life.poll() {
            match order {
                Order::Tell(stream, notice) => match (clients.get(&stream), notice) {
                    (Some(client), Notice::Waiting(missing)) => client.say_missing(missing),
                    (Some(client), notice) => client.put(admitted.message(notice)),
                    (None, _) => {}
                },
                Order::Change(workers) => {
                    tracing::info!(%job, "switches change to a run of {workers}");
                    let (lanes, hosts) = (admitted.lanes.clone(), admitted.hosts(workers));
                    tokio::spawn(self.clone().change(job, lanes, hosts));
                }
                Order::Release => {
                    let serial = admitted.serial;
                    tokio::spawn(self.clone().end(job, serial));
                }
                Order::Record(served) => {
                    // It may have been moved, or have another rate, since the order.
                    let now = admitted.life.served().progress;
                    let progress = now.with(served.progress.iteration);
                    let served = Served { progress, ..served };
                    let recorded = self.record(admitted, tenant.as_deref(), served);
                    if recorded.is_ok() {
                        admitted.epochs.retain(|epoch, _| {
                            let before = served.handover.map(|handover| handover.before);
                            *epoch == served.epoch || Some(*epoch) == before
                        });
                        admitted.log(served);
                    }
                    let recorded = recorded.map_err(|error| failure(&Error::Unrecorded(error)));
                    admitted.life.handle(self.now(), Event::Recorded(recorded));
                }
            }
        }
        let Served { epoch, progress, .. } = admitted.life.served();
        let now = (epoch, progress);
        admitted.watched.send_if_modified(|before| std::mem::replace(before, now) != now);
        let Some(deadline) = admitted.life.deadline() else { return };
        if admitted.alarm.is_none_or(|alarm| deadline < alarm) {
            admitted.alarm = Some(deadline);
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
        let Some(admitted) = state.admitted_mut(job) else { return };
        if admitted.alarm == Some(alarm) {
            admitted.alarm = None;
        }
        self.tick(&mut state, job);
    }

    fn tick(&self, state: &mut State, job: JobId) {
        if let Some(admitted) = state.admitted_mut(job) {
            admitted.life.tick(self.now());
            self.obey(job, state);
        }
    }

    /// Releases a job in which no worker takes part any more.
    async fn end(self, job: JobId, serial: u64) {
        let is_it = |state: &State| state.admitted(job).is_some_and(|own| own.serial == serial);
        if !is_it(&self.state()) {
            return;
        }
        match self.release(job).await {
            Ok(_) => tracing::info!("job {job}: released, because no worker takes part"),
            Err(refusal) => {
                tracing::warn!(
                    "job {job}, in which no worker takes part, is not released yet: {refusal}"
                );
                let mut state = self.state();
                if is_it(&state) {
                    self.handle_in(&mut state, job, Event::Postponed);
                }
            }
        }
    }

    /// Changes the switches to a new run of these workers, for each lane.
    async fn change(self, job: JobId, lanes: Vec<JobId>, workers: Vec<HostId>) {
        let mut epochs = Vec::with_capacity(lanes.len());
        let mut outcome = Ok(());
        for lane in lanes {
            match self.0.controller.renew(lane, workers.clone()).await {
                Ok(epoch) => epochs.push(epoch),
                Err(error) => {
                    tracing::warn!("job {job} does not begin another run yet: {error}");
                    outcome = Err(failure(&error));
                    break;
                }
            }
        }
        let first = epochs.first().copied();
        if let (Ok(()), Some(first), Some(admitted)) =
            (&outcome, first, self.state().admitted_mut(job))
        {
            let Served { epoch, handover, .. } = admitted.life.served();
            let before = handover.map(|handover| handover.before);
            admitted.epochs.retain(|own, _| *own == epoch || Some(*own) == before);
            admitted.epochs.insert(first, epochs);
        }
        let changed = outcome.and_then(|()| first.ok_or_else(|| failure(&Error::UnknownJob(job))));
        self.handle(job, Event::Changed(changed));
    }

    /// Writes the state of a job to the journal: one record for each lane.
    fn record(
        &self,
        admitted: &Admitted,
        tenant: Option<&str>,
        served: Served,
    ) -> Result<(), String> {
        let Shared { controller, journal, .. } = &*self.0;
        let Served { epoch, workers, handover, ended, begun, progress } = served;
        let epochs = admitted.epochs.get(&epoch);
        for (at, lane) in admitted.lanes.iter().enumerate() {
            // A job that a failure left half-way has none: it can only be released.
            let Some((placement, slot)) = controller.placement(*lane) else { continue };
            // The controller may be about to serve another run, of which nobody was told.
            let epoch = epochs.and_then(|epochs| epochs.get(at)).copied();
            let first = at == 0;
            let of_file = admitted.described.as_ref().filter(|described| described.of_file);
            let placement = Placement {
                epoch: epoch.unwrap_or(placement.epoch),
                workers: admitted.hosts(workers),
                assignment: if first { progress.assignment } else { placement.assignment },
                ..placement
            };
            journal.keep(&Record {
                placement,
                all: admitted.placement.workers.clone(),
                slot,
                last_service: controller.last_service(*lane),
                demand: admitted.demand,
                iteration: progress.iteration,
                rate: progress.rate,
                name: admitted.title.clone(),
                lease: admitted.life.rules().grace.is_some(),
                described: admitted.described.clone().filter(|described| !described.of_file),
                token: of_file.and_then(|described| described.lanes.get(at)?.token),
                tenant: tenant.map(str::to_owned),
                handover,
                begun,
                ended,
                stepped: admitted.life.rules().stepped,
            })?;
        }
        Ok(())
    }
}

impl State {
    fn admitted(&self, job: JobId) -> Option<&Admitted> {
        self.jobs.get(&job)?.admitted()
    }

    fn admitted_mut(&mut self, job: JobId) -> Option<&mut Admitted> {
        self.jobs.get_mut(&job)?.admitted_mut()
    }
}

impl Known {
    /// What a job's life depends on; `title` is its name unless it has a description.
    fn rules(
        &self,
        spec: Option<&JobSpec>,
        title: &str,
        workers: usize,
        stepped: bool,
        lease: bool,
    ) -> Rules {
        Rules {
            // Endpoints know it by the name in the file.
            name: spec.map_or_else(|| title.to_owned(), |job| job.name.clone()),
            workers: u16::try_from(workers).unwrap_or(u16::MAX),
            on_death: spec.map_or(OnDeath::End, |job| job.on_death),
            stepped,
            patience: self.patience,
            grace: lease.then_some(self.grace),
        }
    }
}

/// A job that a controller serves when this begins.
fn resumed(
    controller: &Controller,
    known: &Known,
    id: JobId,
    at: Option<Range<usize>>,
    record: Option<&Record>,
) -> Option<Entry> {
    let of_record = record.and_then(|record| record.described.clone());
    let described = of_record.or_else(|| at.map(|at| known.described(at)));
    let lanes = described.as_ref().map_or_else(|| vec![id], Described::ids);
    // Some lanes may be missing after an admission that has failed.
    let lanes = lanes.iter().filter_map(|lane| Some(controller.placement(*lane)?.0));
    let lanes: Vec<Placement> = lanes.collect();
    let current = lanes.first()?;
    let mut described = described;
    described.iter_mut().for_each(|described| described.limit(current.limits));
    let spec = described.as_ref().map(Described::spec);
    // Some of the workers may have died. The journal has all of them; without one, those of the file are all.
    let of_file = spec.map(|job| &job.workers);
    let of_record = record.map(|record| &record.all).filter(|all| !all.is_empty());
    let all = of_record.or(of_file);
    let all = all.filter(|all| current.workers.iter().all(|host| all.contains(host)));
    let all = all.unwrap_or(&current.workers).clone();
    let there = all.iter().enumerate().filter(|(_, host)| current.workers.contains(host));
    let there: WorkerSet = there.map(|(index, _)| worker_index(index)).collect();
    let title = record.map(|record| record.name.clone()).unwrap_or_default();
    let (stepped, lease) = record.map_or((false, false), |record| (record.stepped, record.lease));
    let rules = known.rules(spec, &title, all.len(), stepped, lease);
    let rate = match record {
        Some(record) => record.rate,
        None => spec.and_then(|job| job.rate).into_iter().chain(current.limits.rate).min(),
    };
    let progress = Progress::new(current.assignment, rate);
    let progress = match record {
        Some(Record { iteration: Iteration { number, unfinished }, .. }) => {
            let unfinished = unfinished.without(unfinished.without(there));
            progress.with(Iteration { number: *number, unfinished })
        }
        None => progress,
    };
    let found = controller.found(id) == Some(current.epoch);
    let served = Served {
        epoch: current.epoch,
        workers: there,
        handover: record.and_then(|record| record.handover),
        begun: record.map_or(found, |record| record.begun),
        ended: record.is_some_and(|record| record.ended),
        progress,
    };
    let placement = Placement { workers: all, ..current.clone() };
    let mut admitted = Admitted::new(placement, described, rules, served, &lanes);
    if !title.is_empty() {
        admitted.title = title;
    }
    admitted.demand = record.and_then(|record| record.demand);
    let tenant = record.and_then(|record| record.tenant.clone());
    let size = current.assignment.segment.size;
    Some(Entry { tenant, size, stage: Stage::Admitted(Box::new(admitted)) })
}

impl Admitted {
    /// Tells people of a run that is about to begin or end.
    fn log(&self, Served { epoch, workers, handover, ended, .. }: Served) {
        let name = self.name();
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
