//! Jobs that are admitted, moved and released (P4INC-AOI §III).
//!
//! A job is moved only between iterations: then only late copies are in flight, and after a move these name a service
//! that no longer exists.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use rand::RngCore as _;
use tributary_access::{Grant, Tenant};
use tributary_model::job::{Event, Progress, Served};
use tributary_model::jobfile::Place;
use tributary_model::plan::Placement;
use tributary_model::{
    Aggregation, Error as Unservable, HostId, JobSpec, Limits, Protocol, SummedAt,
};
use tributary_protocol::addressing::{Own, Tasks};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, Rate};
use tributary_wire::channel::{TOKEN_LEN, Token};
use tributary_wire::{Epoch, JobId, WorkerSet};

use super::taking::Host;
use super::{Admitted, Carries, Described, Entry, Jobs, Refusal, Stage, State};
use crate::error::Error;

/// How long a host's servers may take to call again.
const CALL: Duration = Duration::from_secs(5);

/// Number of free IDs of which one may have a free place in the pool.
const IDS: usize = 256;

/// Pause between attempts to release a job that another request is changing.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What a job sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Bits of values that each worker sends in an iteration.
    pub bits: NonZeroU64,
    /// Iterations of the job, if the number is known.
    pub iterations: Option<NonZeroU64>,
    /// Aggregators that it wants where it is summed in the network.
    pub aggregators: u32,
    /// What it needs after an iteration before it can begin the next one (P4INC-AOI's *a*).
    pub update: Duration,
}

/// What a client asks for when it admits a job.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The hosts of the job's endpoints. Its epoch and assignment are not looked at. With settings, the parameter server
    /// may be left out.
    pub placement: Placement,
    /// Whether the controller chooses the job's ID.
    pub any_id: bool,
    /// The run that goes on, if the job was admitted before.
    pub continued: Option<Epoch>,
    /// Where the job is summed; `None`: as its settings say.
    pub aggregation: Option<Aggregation>,
    /// How many aggregators it gets; `None`: as its settings say.
    pub size: Option<u32>,
    /// What it sends. Such a job has iterations.
    pub demand: Option<Demand>,
    /// Its name, for people.
    pub name: String,
    /// Whether it is released by itself when no worker takes part.
    pub lease: bool,
    /// Whether a client lets each round begin.
    pub stepped: bool,
    /// The text of its table `[job]`, if workers are to take part in a job that is not in the controller's file.
    pub settings: Option<String>,
    /// What a worker must show then.
    pub key: Vec<u8>,
    /// Whose job it is.
    pub tenant: Option<Arc<Tenant>>,
}

impl Admission {
    /// A job whose workers sum when they like.
    #[must_use]
    pub fn new(placement: Placement, aggregation: Aggregation, size: u32) -> Self {
        Self {
            placement,
            any_id: false,
            continued: None,
            aggregation: Some(aggregation),
            size: Some(size),
            demand: None,
            name: String::new(),
            lease: false,
            stepped: false,
            settings: None,
            key: Vec::new(),
            tenant: None,
        }
    }
}

/// Where a job is summed, and in how many aggregators.
#[derive(Clone, Copy)]
struct Wish {
    aggregation: Aggregation,
    size: u32,
}

impl Jobs {
    /// The placement of a known job.
    #[must_use]
    pub fn known(&self, job: JobId) -> Option<Placement> {
        let jobs = &self.0.known.deployment.scenario().jobs;
        jobs.iter().find(|known| known.id == job).map(Placement::unassigned)
    }

    /// Admits a job, for a new run, or for one that is continued after the controller that admitted it has stopped.
    /// Returns its placement, which has the run that begins. Completes even if the returned future is dropped.
    ///
    /// # Errors
    /// [`Refusal::Admitted`], [`Refusal::NoId`], [`Refusal::Closing`], [`Refusal::Leased`] for a lease and
    /// iterations, [`Refusal::Unled`], [`Refusal::Undescribed`], [`Refusal::Settings`], [`Refusal::Serverless`], [`Refusal::NoSite`], [`Refusal::Lanes`], [`Refusal::Uncarried`],
    /// [`Refusal::Quota`], [`Refusal::Controller`], [`Refusal::Unrecorded`].
    ///
    /// # Panics
    /// If the placement has no worker or more than 32 at a switch, or names a host that the topology does not
    /// have.
    pub async fn admit(&self, admission: Admission) -> Result<Placement, Refusal> {
        let tenant = admission.tenant.as_ref().map(|tenant| tenant.name.clone());
        let outcome = self.admit_uncounted(admission).await;
        if let Err(refusal) = &outcome {
            let kind = (tenant.unwrap_or_default(), refusal.reason());
            *self.state().refused.entry(kind).or_default() += 1;
        }
        outcome
    }

    async fn admit_uncounted(&self, admission: Admission) -> Result<Placement, Refusal> {
        let Admission { demand, lease, stepped, any_id, .. } = admission;
        if (demand.is_some() || stepped) && lease {
            return Err(Refusal::Leased(admission.placement.job));
        }
        if (demand.is_some() || stepped) && self.protocol().has_reminder_agent() {
            return Err(Refusal::Unled(admission.placement.job));
        }
        let (placement, described, wish) = {
            let mut state = self.state();
            let job = match any_id {
                true => self.free_id(&state, &admission)?,
                false => admission.placement.job,
            };
            if self.spec(job).is_some_and(|job| job.lane.count > 1) {
                return Err(Refusal::Lanes(job));
            }
            let described = self.describe(&state, job, &admission)?;
            if lease && described.is_none() {
                return Err(Refusal::Undescribed);
            }
            let own = described.as_ref().filter(|described| !described.of_file);
            let placement = match own.map(Described::spec) {
                Some(spec) => {
                    let placement = Placement::unassigned(spec);
                    Placement { ps: admission.placement.ps.or(placement.ps), ..placement }
                }
                None => Placement { job, ..admission.placement.clone() },
            };
            // The control loop schedules such a job, which waits at its server.
            if demand.is_some() && placement.ps.is_none() {
                return Err(Error::from(Unservable::NoServer(job)).into());
            }
            if let (Some(_), Some(Carries(carries))) = (demand, &self.0.known.carries) {
                carries(&placement).map_err(|why| Refusal::Uncarried(job, why))?;
            }
            let spec = described.as_ref().map(Described::spec);
            let aggregation = admission.aggregation.or(spec.map(|spec| spec.aggregation));
            let size = admission.size.or(spec.map(|spec| spec.segment));
            let wish =
                Wish { aggregation: aggregation.unwrap_or_default(), size: size.unwrap_or(1) };
            // Jobs of ATP have no aggregators of their own.
            let size = if self.0.controller.memory.is_some() { wish.size } else { 0 };
            state.begin_admission(job, admission.tenant.as_deref(), size)?;
            state.last_id = any_id.then_some(job).or(state.last_id);
            (placement, described, wish)
        };
        let tenant = admission.tenant.as_deref().map_or(Limits::NONE, tenants_limits);
        let limits = tenant.and(placement.limits).and(admission.placement.limits);
        let mut described = described;
        described.iter_mut().for_each(|described| described.limit(limits));
        let placement = Placement { limits, ..placement };
        let own = self.clone();
        let admission = Admission { placement, ..admission };
        carry_through(async move { own.begin_serving(admission, described, wish).await }).await
    }

    /// What endpoints need to know of a job that is about to be admitted; `None` if none can take part.
    fn describe(
        &self,
        state: &State,
        job: JobId,
        admission: &Admission,
    ) -> Result<Option<Described>, Refusal> {
        let Admission { settings, placement, name, key, lease, .. } = admission;
        let Some(settings) = settings else {
            return Ok(self.index(job).map(|at| self.0.known.described(at..at + 1)));
        };
        let site = self.0.known.site.as_ref().ok_or(Refusal::NoSite)?;
        let workers = placement.workers.clone();
        // Endpoints tell jobs apart by their names. No name in a file has this character.
        let name = format!("{}#{job}", if name.is_empty() { "job" } else { name });
        let lacks = Cell::new(false);
        let server = || {
            let server = placement.ps.or_else(|| self.server_for(state, admission));
            lacks.set(server.is_none());
            server
        };
        let place = Place { id: job, name, workers: workers.clone(), group: *lease };
        let spec = site.job(place, settings, server);
        let spec = spec.map_err(|error| match lacks.get() {
            true => Refusal::Serverless(error.to_string()),
            false => Refusal::Settings(error.to_string()),
        })?;
        let token = spec.agent.map(|_| {
            // A key stays the same when the job is admitted again for the run that goes on, and who has it gets the token.
            Token(key.as_slice().try_into().unwrap_or_else(|_| {
                let mut token = [0; TOKEN_LEN];
                rand::rng().fill_bytes(&mut token);
                token
            }))
        });
        Ok(Some(Described::new(spec, token, key.clone())))
    }

    /// The host whose parameter servers take part, or have done so a moment ago, and have the fewest jobs.
    fn server_for(&self, state: &State, admission: &Admission) -> Option<HostId> {
        let Admission { placement, demand, .. } = admission;
        let workers = &placement.workers;
        let may_share = self.protocol().allows_server_beside_worker();
        let carried = |host: &HostId| match &self.0.known.carries {
            Some(Carries(carries)) if demand.is_some() => {
                carries(&Placement { ps: Some(*host), ..placement.clone() }).is_ok()
            }
            _ => true,
        };
        let here = state.hosts.values().filter_map(|host| match host {
            Host::Server(host) => Some(*host),
            Host::Agent(_) => None,
        });
        let lately = state.called.iter().filter(|(_, told)| told.elapsed() < CALL);
        let there = here.chain(lately.map(|(host, _)| *host));
        let there = there.filter(|host| may_share || !workers.contains(host));
        let there = there.filter(carried);
        let jobs = |host: HostId| {
            let of =
                |entry: &&Entry| entry.admitted().is_some_and(|job| job.placement.ps == Some(host));
            state.jobs.values().filter(of).count()
        };
        there.min_by_key(|host| (jobs(*host), *host))
    }

    /// Makes switches serve a job whose admission has begun.
    async fn begin_serving(
        &self,
        admission: Admission,
        described: Option<Described>,
        wish: Wish,
    ) -> Result<Placement, Refusal> {
        let job = admission.placement.job;
        let tenant = admission.tenant.as_ref().map(|tenant| tenant.name.clone());
        // Whether a job that is not recorded is left in the switches.
        let mut left = false;
        let outcome = match self.serve(admission, described, wish).await {
            Ok(admitted) => match self.record(&admitted, tenant.as_deref(), admitted.life.served())
            {
                Ok(()) => Ok(admitted),
                Err(error) => {
                    if let Err(error) = self.0.controller.remove(job).await {
                        left = true;
                        tracing::warn!("{error}; job {job} can only be released");
                    }
                    Err(Refusal::Unrecorded(error))
                }
            },
            Err(error) => Err(error.into()),
        };
        let answer = outcome.as_ref().map(Admitted::current).map_err(Clone::clone);
        {
            let mut state = self.state();
            match (outcome, state.jobs.get_mut(&job)) {
                (Ok(admitted), Some(entry)) => {
                    entry.size = admitted.life.served().progress.assignment.segment.size;
                    entry.stage = Stage::Admitted(Box::new(admitted));
                    state.last_serial += 1;
                    let serial = state.last_serial;
                    if let Some(admitted) = state.admitted_mut(job) {
                        admitted.serial = serial;
                    }
                    if state.closing {
                        self.handle_in(&mut state, job, Event::Close);
                    }
                    self.tell_hosts(&mut state, job);
                    self.tick(&mut state, job);
                }
                (Err(_), Some(entry)) if left => entry.stage = Stage::Left,
                _ => drop(state.jobs.remove(&job)),
            }
        }
        answer
    }

    async fn serve(
        &self,
        admission: Admission,
        described: Option<Described>,
        Wish { aggregation, size }: Wish,
    ) -> Result<Admitted, Error> {
        let Admission { placement, continued, demand, name, lease, stepped, .. } = admission;
        let controller = &self.0.controller;
        let epoch = match continued {
            Some(epoch) => controller.continued(epoch)?,
            None => controller.issue().await?,
        };
        let placement = Placement { epoch, ..placement };
        let assignment = controller.admit_sized(placement.clone(), aggregation, size).await?;
        let lanes = [placement.assigned(assignment)];
        let [placement] = &lanes;
        let spec = described.as_ref().map(Described::spec);
        let all = placement.workers.len();
        let rules = self.0.known.rules(spec, &name, all, stepped || demand.is_some(), lease);
        let served = Served {
            epoch,
            workers: WorkerSet::first(rules.workers),
            handover: None,
            // Its workers may be in the middle of it.
            begun: continued.is_some(),
            ended: false,
            progress: Progress::new(
                assignment,
                spec.and_then(|job| job.rate).into_iter().chain(placement.limits.rate).min(),
            ),
        };
        let mut admitted = Admitted::new(placement.clone(), described, rules, served, &lanes);
        if !name.is_empty() {
            admitted.title = name;
        }
        admitted.demand = demand;
        Ok(admitted)
    }

    /// Ends a job in any state. Returns how many aggregators were still occupied.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::Busy`], [`Refusal::Controller`], [`Refusal::Unrecorded`]. The job still
    /// exists then, and after the last two it can only be released again.
    pub async fn release(&self, job: JobId) -> Result<u32, Refusal> {
        self.state().begin_release(job)?;
        self.finish_release(job).await
    }

    /// The same for a client.
    ///
    /// # Errors
    /// Also [`Refusal::Foreign`], [`Refusal::OfFile`].
    pub(super) async fn release_for(&self, grant: &Grant, job: JobId) -> Result<u32, Refusal> {
        self.check_owner(job, grant)?;
        if self.0.known.own && self.index(job).is_some() {
            return Err(Refusal::OfFile(job));
        }
        self.release(job).await
    }

    /// Ends a job whose release has begun.
    pub(super) async fn finish_release(&self, job: JobId) -> Result<u32, Refusal> {
        let own = self.clone();
        carry_through(async move {
            let admitted = |state: &State| state.admitted(job).map(|job| job.lanes.clone());
            let lanes = admitted(&own.state()).unwrap_or_else(|| vec![job]);
            let (mut freed, several) = (0, lanes.len() > 1);
            for lane in lanes {
                let forget = || own.0.journal.forget(lane).map_err(Refusal::Unrecorded);
                match own.0.controller.remove_recorded(lane, forget).await {
                    Ok(switches) => freed += switches.into_values().sum::<u32>(),
                    // An earlier attempt has come so far.
                    Err(Refusal::Controller(Error::UnknownJob(_))) if several => {}
                    Err(refusal) => {
                        let mut state = own.state();
                        own.handle_in(&mut state, job, Event::Unreleased);
                        if let Some(Entry { stage: stage @ Stage::Coming, .. }) =
                            state.jobs.get_mut(&job)
                        {
                            *stage = Stage::Left;
                        }
                        return Err(refusal);
                    }
                }
            }
            let mut state = own.state();
            own.handle_in(&mut state, job, Event::Released);
            own.tell_hosts(&mut state, job);
            state.jobs.remove(&job);
            Ok(freed)
        })
        .await
    }

    /// Moves a job to another place of aggregation, or to a segment of another size, from the next
    /// iteration on. Completes even if the returned future is dropped.
    ///
    /// # Errors
    /// [`Refusal::OutOfTurn`] while an iteration runs, or for a job without iterations; [`Refusal::Unknown`],
    /// [`Refusal::Busy`], [`Refusal::Broken`], [`Refusal::Controller`].
    pub async fn relocate(
        &self,
        job: JobId,
        at: impl Into<SummedAt>,
        size: u32,
    ) -> Result<Assignment, Refusal> {
        self.relocate_for(&Grant::operator(), job, at.into(), size).await
    }

    /// The same for a client.
    ///
    /// # Errors
    /// Also [`Refusal::Foreign`], [`Refusal::Quota`].
    pub(super) async fn relocate_for(
        &self,
        grant: &Grant,
        job: JobId,
        at: SummedAt,
        size: u32,
    ) -> Result<Assignment, Refusal> {
        let before = {
            let mut state = self.state();
            state.check_owner(job, grant)?;
            state.begin_move(job, size, grant.tenant().map(|tenant| &**tenant))?
        };
        let own = self.clone();
        carry_through(async move {
            let record = |placement: &Placement| own.record_move(placement);
            let moved = own.0.controller.relocate_recorded(job, at, size, record).await;
            let mut state = own.state();
            let whole = own.0.controller.serves(job);
            let placement = own.0.controller.placement(job);
            let mut now = None;
            if let Some(entry) = state.jobs.get_mut(&job) {
                entry.size = before;
                if let (Ok(assignment), Some(admitted)) = (&moved, entry.admitted_mut()) {
                    admitted.placement.adding = placement.and_then(|(its, _)| its.adding);
                    let progress = admitted.life.served().progress;
                    now = Some(Progress { assignment: *assignment, ..progress });
                    entry.size = assignment.segment.size;
                }
            }
            own.handle_in(&mut state, job, Event::Moved { now, whole });
            moved
        })
        .await
    }

    /// Records the new place of a job, which the controller has already.
    fn record_move(&self, placement: &Placement) -> Result<(), Refusal> {
        let state = self.state();
        let entry = state.jobs.get(&placement.job);
        let entry = entry.and_then(|entry| Some((entry, entry.admitted()?)));
        let (entry, admitted) = entry.ok_or(Refusal::Unknown(placement.job))?;
        let served = admitted.life.served();
        let progress = Progress { assignment: placement.assignment, ..served.progress };
        let served = Served { progress, ..served };
        let recorded = self.record(admitted, entry.tenant.as_deref(), served);
        recorded.map_err(Refusal::Unrecorded)
    }

    /// Stops admitting jobs and beginning runs, and disconnects endpoints. Returns when no switch is changing to
    /// another run.
    pub async fn close(&self) {
        {
            let mut state = self.state();
            state.closing = true;
            for job in state.jobs.keys().copied().collect::<Vec<_>>() {
                self.handle_in(&mut state, job, Event::Close);
            }
        }
        let is_changing = |entry: &Entry| match &entry.stage {
            Stage::Admitted(admitted) => admitted.life.is_changing(),
            Stage::Coming => true,
            Stage::Left => false,
        };
        while self.state().jobs.values().any(is_changing) {
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// [Closes](Self::close), and releases all jobs. Returns for each its ID, its name, and how many aggregators were
    /// still occupied, or why it is left.
    pub async fn release_all(&self) -> Vec<(JobId, String, Result<u32, Refusal>)> {
        self.close().await;
        let mut done: Vec<(JobId, String, Result<u32, Refusal>)> = Vec::new();
        loop {
            let left = |(job, entry): (&JobId, &Entry)| {
                let name = entry.admitted().map_or("", Admitted::name);
                (*job, name.to_owned())
            };
            let mut jobs: Vec<_> = self.state().jobs.iter().map(left).collect();
            jobs.retain(|(job, _)| done.iter().all(|(other, ..)| other != job));
            if jobs.is_empty() {
                return done;
            }
            for (job, name) in jobs {
                match self.release(job).await {
                    Err(Refusal::Unknown(_)) => {}
                    // Wait until the other request is done.
                    Err(Refusal::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
                    released => done.push((job, name, released)),
                }
            }
        }
    }

    /// Has the journal remember all jobs.
    ///
    /// # Errors
    /// Why it cannot, in one line.
    pub fn keep_all(&self) -> Result<(), String> {
        let state = self.state();
        let entries = state.jobs.values();
        let mut admitted = entries.filter_map(|entry| Some((entry, entry.admitted()?)));
        admitted.try_for_each(|(entry, admitted)| {
            self.record(admitted, entry.tenant.as_deref(), admitted.life.served())
        })
    }

    /// The next ID below the last one that no job has. Those of known jobs are theirs, and other clients count from 1.
    /// None is used again soon, so that what was of the job before it is gone. If the ID decides on a place in the
    /// pool, it is one whose place no other job uses, if one of the next IDs has such a place.
    fn free_id(&self, state: &State, admission: &Admission) -> Result<JobId, Refusal> {
        let last = state.last_id.map_or(0, JobId::get);
        let ids = (1..last).rev().chain((last..=u16::MAX).rev()).filter_map(JobId::new);
        let mut free = ids.filter(|id| !state.jobs.contains_key(id) && self.index(*id).is_none());
        let first = free.next().ok_or(Refusal::NoId)?;
        let Some(described) = self.describe(state, first, admission)? else { return Ok(first) };
        let others = state.jobs.values().filter_map(|entry| entry.admitted()?.described.as_ref());
        let taken: Vec<Own> = others.filter_map(|other| self.place(other.spec())).collect();
        let is_apart = |id: &JobId| {
            let spec = JobSpec { id: *id, ..described.spec().clone() };
            self.place(&spec).is_none_or(|place| !taken.iter().any(|other| place.meets(other)))
        };
        Ok(std::iter::once(first).chain(free).take(IDS).find(is_apart).unwrap_or(first))
    }

    /// The place of a job's tasks in the pool of each switch, if it has one of its own.
    fn place(&self, job: &JobSpec) -> Option<Own> {
        let network = &self.0.known.deployment.scenario().network;
        match network.job_config(job, Assignment::NONE).tasks() {
            Tasks::Own(own) if job.protocol == Protocol::Esa => Some(own),
            _ => None,
        }
    }
}

impl Admitted {
    /// How the job is placed now.
    pub(super) fn current(&self) -> Placement {
        let Served { epoch, progress, .. } = self.life.served();
        Placement { epoch, ..self.placement.clone().assigned(progress.assignment) }
    }
}

impl State {
    fn begin_admission(
        &mut self,
        job: JobId,
        tenant: Option<&Tenant>,
        size: u32,
    ) -> Result<(), Refusal> {
        if self.closing {
            return Err(Refusal::Closing);
        }
        if self.jobs.contains_key(&job) {
            return Err(Refusal::Admitted(job));
        }
        tenant.map_or(Ok(()), |tenant| self.check_quota(tenant, size, None))?;
        let tenant = tenant.map(|tenant| tenant.name.clone());
        self.jobs.insert(job, Entry { tenant, size, stage: Stage::Coming });
        Ok(())
    }

    fn begin_release(&mut self, job: JobId) -> Result<(), Refusal> {
        let entry = self.jobs.get_mut(&job).ok_or(Refusal::Unknown(job))?;
        match &mut entry.stage {
            Stage::Admitted(admitted) => {
                admitted.life.begin_release().map_err(|blocked| Refusal::blocked(job, blocked))
            }
            Stage::Coming => Err(Refusal::Busy(job)),
            left @ Stage::Left => {
                *left = Stage::Coming;
                Ok(())
            }
        }
    }

    /// Returns how many aggregators the job has. Until it is moved, it counts with the larger number.
    fn begin_move(
        &mut self,
        job: JobId,
        size: u32,
        tenant: Option<&Tenant>,
    ) -> Result<u32, Refusal> {
        tenant.map_or(Ok(()), |tenant| self.check_quota(tenant, size, Some(job)))?;
        let admitted = self.whole(job)?;
        admitted.life.begin_move().map_err(|blocked| Refusal::blocked(job, blocked))?;
        let before = admitted.life.served().progress.assignment.segment.size;
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.size = before.max(size);
        }
        Ok(before)
    }

    /// A job whose admission is over.
    pub(super) fn whole(&mut self, job: JobId) -> Result<&mut Admitted, Refusal> {
        match &mut self.jobs.get_mut(&job).ok_or(Refusal::Unknown(job))?.stage {
            Stage::Admitted(admitted) => Ok(admitted),
            Stage::Left => Err(Refusal::Broken(job)),
            Stage::Coming => Err(Refusal::Busy(job)),
        }
    }
}

/// What switches let a tenant's jobs take.
fn tenants_limits(tenant: &Tenant) -> Limits {
    let priority = tenant.max_priority.and_then(|priority| Priority::new(priority.get()));
    let rate = |rate: Option<NonZeroU64>| rate.and_then(|rate| Rate::new(rate.get()));
    Limits {
        rate: rate(tenant.max_rate),
        preemption: rate(tenant.max_preemption),
        priority: priority.unwrap_or(Priority::HIGHEST),
    }
}

/// Runs a change to its end in a separate task: a client that hangs up must not leave it half-way.
async fn carry_through<T: Send + 'static>(
    change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::spawn(change).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(Refusal::Closing),
    }
}
