//! The job scheduler: external clients admit, move, step and release jobs (P4INC-AOI §III).
//!
//! [`Scheduler`] knows each job's state and asks the [`Controller`] for changes of the switches. A
//! [`Server`](tributary_access::Server) offers it over gRPC, as
//! `proto/tributary/scheduler/v1/scheduler.proto` describes.
//!
//! A job is moved only between iterations. An iteration begins with [`Scheduler::start`] and ends
//! when every worker has reported that it has all results. Then only late copies are in flight, and
//! after a move these name a service that no longer exists.
//!
//! A job with a lease has no iterations, and is released by itself when no client holds the lease.

mod iteration;
mod journal;
mod leases;
mod refusal;
mod service;
mod tenants;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tonic::service::Routes;
use tributary_access::{Grant, Tenant};
use tributary_model::{Aggregation, Error as Unservable, HostId, Limits, Topology};
use tributary_proto::scheduler::v1::job_scheduler_server::JobSchedulerServer;
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, Rate};
use tributary_wire::{Epoch, JobId, Protocol, Run, WorkerIndex, WorkerSet};

pub use iteration::{Iteration, OutOfTurn};
pub use journal::{Forgetful, Journal, Record};
pub use leases::GRACE;
use leases::Lease;
pub use refusal::Refusal;

use crate::error::Error;
use crate::jobs::{Controller, lock};
use crate::server::MESSAGE_LIMIT;
use tributary_model::memory::Room;
use tributary_model::plan::Placement;

/// The state of a job as watchers receive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its last iteration.
    pub iteration: Iteration,
    /// How switches serve the job, in the current iteration if one runs.
    pub assignment: Assignment,
    /// The rate of each worker; `None` for no limit.
    pub rate: Option<Rate>,
}

/// What a job sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Bits of values that each worker sends in an iteration.
    pub bits: NonZeroU64,
    /// Iterations of the job, if the number is known.
    pub iterations: Option<NonZeroU64>,
    /// Aggregators that it wants where it is summed in the network.
    pub aggregators: u32,
}

/// What a client asks for when it admits a job.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The hosts of the job's endpoints. Its epoch and assignment are not looked at.
    pub placement: Placement,
    /// Whether the scheduler chooses the job's ID.
    pub any_id: bool,
    /// The run that goes on, if the job was admitted before.
    pub continued: Option<Epoch>,
    /// Where the job is summed.
    pub aggregation: Aggregation,
    /// How many aggregators it gets.
    pub size: u32,
    /// What it sends.
    pub demand: Option<Demand>,
    /// Its name, for people.
    pub name: String,
    /// Whether it is released by itself when no client holds its lease.
    pub lease: bool,
    /// Whose job it is.
    pub tenant: Option<Arc<Tenant>>,
}

/// A job as [`Scheduler::list`] gives it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name, for people.
    pub name: String,
    /// Whether somebody holds its lease; `None` if it has none.
    pub held: Option<bool>,
    /// The hosts of its endpoints.
    pub placement: Placement,
    /// Its state.
    pub standing: Standing,
    /// What it sends, if that was said at admission.
    pub demand: Option<Demand>,
    /// Name of the tenant whose job it is.
    pub tenant: Option<String>,
}

/// The job scheduler. Clones share their state.
#[derive(Clone, Debug)]
pub struct Scheduler {
    controller: Arc<Controller>,
    /// Jobs that can be admitted by their ID alone.
    known: Arc<BTreeMap<JobId, Placement>>,
    jobs: Arc<Mutex<Jobs>>,
    journal: Arc<dyn Journal>,
    /// How long a job stays admitted while no client holds its lease.
    grace: Duration,
}

#[derive(Debug, Default)]
struct Jobs {
    entries: BTreeMap<JobId, Entry>,
    closing: bool,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// Whose job it is.
    tenant: Option<String>,
    /// Aggregators that it has in each switch that adds for it, or asks for.
    size: u32,
    /// `None` while the job is being admitted. Dropping it closes the watchers' channels.
    served: Option<Served>,
}

#[derive(Debug)]
struct Served {
    placement: Placement,
    demand: Option<Demand>,
    name: String,
    lease: Option<Lease>,
    standing: watch::Sender<Standing>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Ready for requests.
    Settled,
    /// A request is in progress.
    Changing,
    /// A request failed; the job can only be released.
    Broken,
}

impl Scheduler {
    /// A scheduler for the switches of a controller. Jobs in `known` can be admitted by ID alone.
    #[must_use]
    pub fn new(controller: Controller, known: impl IntoIterator<Item = Placement>) -> Self {
        Self::resume(controller, known, [], Arc::new(Forgetful))
    }

    /// A scheduler that keeps a journal, with the jobs of an earlier one. The controller already serves
    /// these: see [`Controller::resume`].
    #[must_use]
    pub fn resume(
        controller: Controller,
        known: impl IntoIterator<Item = Placement>,
        records: impl IntoIterator<Item = Record>,
        journal: Arc<dyn Journal>,
    ) -> Self {
        let known = known.into_iter().map(|placement| (placement.job, placement)).collect();
        let entries = records.into_iter().map(|record| {
            controller.continue_services(record.placement.job, record.last_service);
            let Record { placement, demand, iteration, rate, name, lease, tenant, .. } = record;
            let standing = Standing { iteration, assignment: placement.assignment, rate };
            let standing = watch::Sender::new(standing);
            let (job, size) = (placement.job, placement.assignment.segment.size);
            let lease = lease.map(Lease::new);
            let served = Some(Served { placement, demand, name, lease, standing });
            (job, Entry { phase: Phase::Settled, tenant, size, served })
        });
        let jobs = Jobs { entries: entries.collect(), closing: false };
        Self {
            controller: Arc::new(controller),
            known: Arc::new(known),
            jobs: Arc::new(Mutex::new(jobs)),
            journal,
            grace: GRACE,
        }
    }

    /// The same with another grace period of leases.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The switches.
    #[must_use]
    pub fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// The gRPC service. The grace periods of leases begin, because only now can they be held.
    ///
    /// # Panics
    /// Outside of a Tokio runtime, if a job has a lease.
    #[must_use]
    pub fn service(&self) -> Routes {
        let leased: Vec<_> = {
            let jobs = self.jobs();
            let served = jobs.entries.values().filter_map(|entry| entry.served.as_ref());
            served.filter_map(Served::leased_run).collect()
        };
        leased.into_iter().for_each(|run| self.begin_grace(run));
        let server = JobSchedulerServer::new(self.clone());
        Routes::new(server.max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// The network of the jobs.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.controller.topology
    }

    /// The protocol of the jobs.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.controller.catalogue.protocol()
    }

    /// The placement of a known job.
    #[must_use]
    pub fn known(&self, job: JobId) -> Option<&Placement> {
        self.known.get(&job)
    }

    /// Admits a job without a name and a lease, for a new run, or for one that is `continued` after the
    /// controller that admitted it has stopped. Completes even if the returned future is dropped.
    ///
    /// # Errors
    /// As of [`admit_as`](Self::admit_as), which also tells when this panics.
    pub async fn admit(
        &self,
        placement: Placement,
        continued: Option<Epoch>,
        aggregation: Aggregation,
        size: u32,
        demand: Option<Demand>,
    ) -> Result<(Epoch, Assignment), Refusal> {
        let (any_id, name, lease, tenant) = (false, String::new(), false, None);
        let admission = Admission {
            placement,
            any_id,
            continued,
            aggregation,
            size,
            demand,
            name,
            lease,
            tenant,
        };
        let admitted = self.admit_as(admission).await?;
        Ok((admitted.epoch, admitted.assignment))
    }

    /// Admits a job. Returns its placement, which has the run that begins. Completes even if the returned
    /// future is dropped.
    ///
    /// # Errors
    /// [`Refusal::Admitted`], [`Refusal::NoId`], [`Refusal::Closing`], [`Refusal::Leased`] for a demand and
    /// a lease, [`Refusal::Quota`], [`Refusal::Controller`].
    ///
    /// # Panics
    /// If the placement has no worker or more than 32, or names a host that the topology does not
    /// have.
    pub async fn admit_as(&self, admission: Admission) -> Result<Placement, Refusal> {
        let Admission {
            placement,
            any_id,
            continued,
            aggregation,
            size,
            demand,
            name,
            lease,
            tenant,
        } = admission;
        // The control loop schedules such a job, which waits at its server.
        if demand.is_some() && placement.ps.is_none() {
            return Err(Error::from(Unservable::NoServer(placement.job)).into());
        }
        if demand.is_some() && lease {
            return Err(Refusal::Leased(placement.job));
        }
        let job = {
            let mut jobs = self.jobs();
            let job = if any_id { jobs.free_id(&self.known)? } else { placement.job };
            // Jobs of ATP have no aggregators of their own.
            let own = if self.controller.memory.is_some() { size } else { 0 };
            jobs.begin_admission(job, tenant.as_deref(), own)?;
            job
        };
        let limits = tenant.as_deref().map_or(Limits::NONE, tenants_limits).and(placement.limits);
        let placement = Placement { job, limits, ..placement };
        let own = self.clone();
        carry_through(async move {
            let admitted = async {
                let epoch = match continued {
                    Some(epoch) => own.controller.continued(epoch)?,
                    None => own.controller.issue().await?,
                };
                let placement = Placement { epoch, ..placement };
                let admitted = own.controller.admit_sized(placement.clone(), aggregation, size);
                admitted.await.map(|assignment| (placement, assignment))
            };
            let admitted = admitted.await.map_err(Refusal::from);
            let admitted = admitted.map(|(placement, assignment)| {
                let rate = placement.limits.rate;
                let standing = Standing { iteration: Iteration::NONE, assignment, rate };
                let placement = placement.assigned(assignment);
                let lease = lease.then(|| Lease::new(placement.epoch));
                let standing = watch::Sender::new(standing);
                Served { placement, demand, name, lease, standing }
            });
            // Whether a job that is not recorded is left in the switches.
            let mut left = false;
            let recorded = match admitted {
                Ok(served) => {
                    let standing = *served.standing.borrow();
                    let tenant = tenant.as_ref().map(|tenant| tenant.name.clone());
                    let recorded = own.record(&served.placement, &served, tenant, standing);
                    if recorded.is_err()
                        && let Err(error) = own.controller.remove(job).await
                    {
                        left = true;
                        tracing::warn!("{error}; job {job} can only be released");
                    }
                    recorded.map(|()| served)
                }
                Err(error) => Err(error),
            };
            let answer =
                recorded.as_ref().map_err(Clone::clone).map(|served| served.placement.clone());
            let mut jobs = own.jobs();
            match (recorded, jobs.entries.get_mut(&job)) {
                (Ok(served), Some(entry)) => {
                    entry.size = served.placement.assignment.segment.size;
                    entry.served = Some(served);
                    entry.phase = Phase::Settled;
                }
                (Err(_), Some(entry)) if left => entry.phase = Phase::Broken,
                _ => drop(jobs.entries.remove(&job)),
            }
            drop(jobs);
            if let (Ok(placement), true) = (&answer, lease) {
                own.begin_grace(placement.run());
            }
            answer
        })
        .await
    }

    /// Ends a job in any state. Returns how many aggregators were still occupied.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::Busy`], [`Refusal::Controller`]. The job still exists then,
    /// and after the last of these it can only be released again.
    pub async fn release(&self, job: JobId) -> Result<u32, Refusal> {
        self.release_for(&Grant::operator(), job).await
    }

    /// The same for a client.
    ///
    /// # Errors
    /// Also [`Refusal::Foreign`].
    async fn release_for(&self, grant: &Grant, job: JobId) -> Result<u32, Refusal> {
        {
            let mut jobs = self.jobs();
            jobs.check_owner(job, grant)?;
            jobs.begin_release(job)?;
        }
        self.finish_release(job).await
    }

    /// Ends a job whose release has begun.
    async fn finish_release(&self, job: JobId) -> Result<u32, Refusal> {
        let own = self.clone();
        carry_through(async move {
            let forget = || own.journal.forget(job).map_err(Refusal::Unrecorded);
            let removed = own.controller.remove_recorded(job, forget).await;
            let mut jobs = own.jobs();
            match (&removed, jobs.entries.get_mut(&job)) {
                (Err(_), Some(entry)) => entry.phase = Phase::Broken,
                _ => drop(jobs.entries.remove(&job)),
            }
            Ok(removed?.into_values().sum())
        })
        .await
    }

    /// Moves a job to another place of aggregation, or to a segment of another size, from the next
    /// iteration on. Completes even if the returned future is dropped.
    ///
    /// # Errors
    /// [`Refusal::OutOfTurn`] while an iteration runs; [`Refusal::Leased`], [`Refusal::Unknown`],
    /// [`Refusal::Busy`], [`Refusal::Broken`], [`Refusal::Controller`].
    pub async fn relocate(
        &self,
        job: JobId,
        aggregation: Aggregation,
        size: u32,
    ) -> Result<Assignment, Refusal> {
        self.relocate_for(&Grant::operator(), job, aggregation, size).await
    }

    /// The same for a client.
    ///
    /// # Errors
    /// Also [`Refusal::Foreign`], [`Refusal::Quota`].
    async fn relocate_for(
        &self,
        grant: &Grant,
        job: JobId,
        aggregation: Aggregation,
        size: u32,
    ) -> Result<Assignment, Refusal> {
        let before = {
            let mut jobs = self.jobs();
            jobs.check_owner(job, grant)?;
            jobs.begin_move(job, size, grant.tenant().map(|tenant| &**tenant))?
        };
        let own = self.clone();
        carry_through(async move {
            let record = |placement: &Placement| own.record_move(placement);
            let moved = own.controller.relocate_recorded(job, aggregation, size, record).await;
            let mut jobs = own.jobs();
            if let Some(entry) = jobs.entries.get_mut(&job) {
                let whole = own.controller.serves(job);
                entry.phase = if whole { Phase::Settled } else { Phase::Broken };
                entry.size = before;
                if let (Ok(assignment), Some(served)) = (&moved, &mut entry.served) {
                    served.placement.assignment = *assignment;
                    entry.size = assignment.segment.size;
                    served.standing.send_if_modified(|standing| {
                        let other = standing.assignment != *assignment;
                        standing.assignment = *assignment;
                        other
                    });
                }
            }
            moved
        })
        .await
    }

    /// Records the new place of a job.
    fn record_move(&self, placement: &Placement) -> Result<(), Refusal> {
        let jobs = self.jobs();
        let entry = jobs.entries.get(&placement.job);
        let Some((entry, served)) = entry.and_then(|entry| Some((entry, entry.served.as_ref()?)))
        else {
            return Err(Refusal::Unknown(placement.job));
        };
        let standing = *served.standing.borrow();
        self.record(placement, served, entry.tenant.clone(), standing)
    }

    /// Begins an iteration; `number` as in [`Iteration::start`].
    ///
    /// # Errors
    /// [`Refusal::OutOfTurn`], [`Refusal::Leased`], [`Refusal::Unknown`], [`Refusal::Busy`],
    /// [`Refusal::Broken`].
    pub fn start(&self, job: JobId, number: u64) -> Result<Standing, Refusal> {
        self.step(job, |iteration, workers| {
            let workers = u16::try_from(workers).unwrap_or(u16::MAX);
            let next = iteration.start(number, WorkerSet::first(workers));
            next.map_err(|refusal| Refusal::OutOfTurn(job, refusal))
        })
    }

    /// Records that a worker has all results of an iteration, and nothing in flight.
    ///
    /// # Errors
    /// [`Refusal::Worker`], [`Refusal::OutOfTurn`], [`Refusal::Unknown`], [`Refusal::Busy`],
    /// [`Refusal::Broken`].
    pub fn finish(&self, job: JobId, number: u64, worker: u32) -> Result<Standing, Refusal> {
        self.step(job, |iteration, workers| {
            let index = u16::try_from(worker).ok().and_then(WorkerIndex::new);
            let index = index.filter(|index| usize::from(index.get()) < workers);
            let index = index.ok_or(Refusal::Worker { job, worker, workers })?;
            let next = iteration.finish(number, index);
            next.map_err(|refusal| Refusal::OutOfTurn(job, refusal))
        })
    }

    /// Changes the rate of a job's workers, at any time. It is at most what the job's limits allow.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::Leased`].
    pub fn set_rate(&self, job: JobId, rate: Option<Rate>) -> Result<(), Refusal> {
        let jobs = self.jobs();
        let entry = jobs.entries.get(&job).ok_or(Refusal::Unknown(job))?;
        let served = entry.served.as_ref().ok_or(Refusal::Unknown(job))?.unleased()?;
        let before = *served.standing.borrow();
        let rate = rate.into_iter().chain(served.placement.limits.rate).min();
        self.change(served, &entry.tenant, before, Standing { rate, ..before })
    }

    /// Records a new standing, and then tells watchers.
    fn change(
        &self,
        served: &Served,
        tenant: &Option<String>,
        before: Standing,
        next: Standing,
    ) -> Result<(), Refusal> {
        if next != before {
            self.record(&served.placement, served, tenant.clone(), next)?;
            served.standing.send_replace(next);
        }
        Ok(())
    }

    fn record(
        &self,
        placement: &Placement,
        served: &Served,
        tenant: Option<String>,
        standing: Standing,
    ) -> Result<(), Refusal> {
        let Served { demand, name, lease, .. } = served;
        // A job that a failure left half-way has none: it can only be released.
        let Some(slot) = self.controller.slot(placement.job) else { return Ok(()) };
        let Standing { iteration, rate, .. } = standing;
        let record = Record {
            placement: placement.clone(),
            slot,
            last_service: self.controller.last_service(placement.job),
            demand: *demand,
            iteration,
            rate,
            name: name.clone(),
            lease: lease.as_ref().map(|lease| lease.epoch),
            tenant,
            handover: None,
            ended: false,
        };
        self.journal.keep(&record).map_err(Refusal::Unrecorded)
    }

    fn step(
        &self,
        job: JobId,
        next: impl FnOnce(Iteration, usize) -> Result<Iteration, Refusal>,
    ) -> Result<Standing, Refusal> {
        let mut jobs = self.jobs();
        let tenant = jobs.tenant(job)?;
        let (_, served) = jobs.settled(job)?;
        let served = served.unleased()?;
        let before = *served.standing.borrow();
        let iteration = next(before.iteration, served.placement.workers.len())?;
        let standing = Standing { iteration, ..before };
        self.change(served, &tenant, before, standing)?;
        Ok(standing)
    }

    /// The epoch of a job's run, and its standing, now and after each change; closed when the job is
    /// released.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn watch(&self, job: JobId) -> Result<(Epoch, watch::Receiver<Standing>), Refusal> {
        let jobs = self.jobs();
        let served = jobs.entries.get(&job).and_then(|entry| entry.served.as_ref());
        let served = served.ok_or(Refusal::Unknown(job))?;
        Ok((served.placement.epoch, served.standing.subscribe()))
    }

    /// Whether a run of a job, which was admitted once, has certainly been released. Without a journal
    /// the job may be about to be admitted again.
    #[must_use]
    pub fn has_released(&self, job: JobId) -> bool {
        self.journal.lasts() && !self.jobs().entries.contains_key(&job)
    }

    /// All admitted jobs, by ID.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let jobs = self.jobs();
        let served =
            jobs.entries.values().filter_map(|entry| Some((entry, entry.served.as_ref()?)));
        let listed = served.map(|(entry, served)| Listed {
            tenant: entry.tenant.clone(),
            placement: served.placement.clone(),
            standing: *served.standing.borrow(),
            demand: served.demand,
            name: served.name.clone(),
            held: served.lease.as_ref().map(Lease::is_held),
        });
        listed.collect()
    }

    /// Free memory per switch.
    #[must_use]
    pub fn room(&self) -> Vec<Room> {
        self.controller.room()
    }

    /// Admits no more jobs and releases all. Returns the jobs that could not be released.
    pub async fn close(&self) -> BTreeMap<JobId, Refusal> {
        self.jobs().closing = true;
        let mut left = BTreeMap::new();
        loop {
            let mut jobs: Vec<JobId> = self.jobs().entries.keys().copied().collect();
            jobs.retain(|job| !left.contains_key(job));
            if jobs.is_empty() {
                return left;
            }
            for job in jobs {
                match self.release(job).await {
                    Ok(_) | Err(Refusal::Unknown(_)) => {}
                    // Wait until the other request is done.
                    Err(Refusal::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
                    Err(refusal) => drop(left.insert(job, refusal)),
                }
            }
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }
}

/// Pause between attempts to release a job that another request is changing.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Served {
    /// The run that names the job's lease.
    fn leased_run(&self) -> Option<Run> {
        self.lease.as_ref().map(|lease| self.placement.job.run(lease.epoch))
    }

    /// The job, if its processes follow the scheduler.
    fn unleased(&self) -> Result<&Self, Refusal> {
        match self.lease {
            Some(_) => Err(Refusal::Leased(self.placement.job)),
            None => Ok(self),
        }
    }
}

impl Jobs {
    /// The lowest ID that no job has. Those of `known` jobs are theirs.
    fn free_id(&self, known: &BTreeMap<JobId, Placement>) -> Result<JobId, Refusal> {
        let mut ids = (1..=u16::MAX).filter_map(JobId::new);
        let free = ids.find(|id| !self.entries.contains_key(id) && !known.contains_key(id));
        free.ok_or(Refusal::NoId)
    }

    fn begin_admission(
        &mut self,
        job: JobId,
        tenant: Option<&Tenant>,
        size: u32,
    ) -> Result<(), Refusal> {
        if self.closing {
            return Err(Refusal::Closing);
        }
        if self.entries.contains_key(&job) {
            return Err(Refusal::Admitted(job));
        }
        tenant.map_or(Ok(()), |tenant| self.check_quota(tenant, size, None))?;
        let tenant = tenant.map(|tenant| tenant.name.clone());
        self.entries.insert(job, Entry { phase: Phase::Changing, tenant, size, served: None });
        Ok(())
    }

    fn begin_release(&mut self, job: JobId) -> Result<(), Refusal> {
        let entry = self.entries.get_mut(&job).ok_or(Refusal::Unknown(job))?;
        if entry.phase == Phase::Changing {
            return Err(Refusal::Busy(job));
        }
        entry.phase = Phase::Changing;
        Ok(())
    }

    /// Returns how many aggregators the job has. Until it is moved, it counts with the larger number.
    fn begin_move(
        &mut self,
        job: JobId,
        size: u32,
        tenant: Option<&Tenant>,
    ) -> Result<u32, Refusal> {
        tenant.map_or(Ok(()), |tenant| self.check_quota(tenant, size, Some(job)))?;
        let (phase, served) = self.settled(job)?;
        served.unleased()?;
        let Iteration { number, unfinished } = served.standing.borrow().iteration;
        if !unfinished.is_empty() {
            return Err(Refusal::OutOfTurn(job, OutOfTurn::Running(number, Box::new(unfinished))));
        }
        *phase = Phase::Changing;
        let before = served.placement.assignment.segment.size;
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.size = before.max(size);
        }
        Ok(before)
    }

    /// A job that is ready for requests.
    fn settled(&mut self, job: JobId) -> Result<(&mut Phase, &mut Served), Refusal> {
        let entry = self.entries.get_mut(&job).ok_or(Refusal::Unknown(job))?;
        let Entry { phase, served, .. } = entry;
        match (*phase, served) {
            (Phase::Settled, Some(served)) => Ok((phase, served)),
            (Phase::Broken, _) => Err(Refusal::Broken(job)),
            _ => Err(Refusal::Busy(job)),
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

/// Host names of a placement, for clients, which do not know host numbers.
fn names<'t>(topology: &'t Topology, hosts: &'t [HostId]) -> impl Iterator<Item = String> + 't {
    hosts.iter().map(|&host| topology.host(host).name.clone())
}
