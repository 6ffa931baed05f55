//! Jobs at run time: admitted, counted, removed, swept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::RwLock;
use tracing::{Instrument as _, info_span, instrument};
use tributary_model::circuits::Circuits;
use tributary_model::memory::Memory;
use tributary_model::{Error as Unservable, HostId, SwitchId, Topology};
use tributary_p4runtime::p4::v1::Entity;
use tributary_protocol::{Assignment, Mode};
use tributary_wire::{Bitmap, Epoch, JobId, Segment, Service};

use crate::catalogue::Catalogue;
use crate::client::SwitchConfig;
use crate::entries::{self, JobSlot};
use crate::epochs::Epochs;
use crate::error::Error;
use crate::outcomes::{self, Count, Outcomes};
use crate::ports::PortMap;
use crate::programs::Pipeline;
use crate::session::{Found, Session};
use crate::sweep::sweep;
use tributary_model::plan::{self, JobAtSwitch, Placement};
use tributary_model::services::ServiceAtSwitch;

/// Time limit for a sweep of a switch's aggregators. BMv2 visits about 20 000 per second.
const SWEEP_LIMIT: Duration = Duration::from_secs(30);

/// The switches of a topology and the jobs that they serve.
#[derive(Debug)]
pub struct Controller {
    /// The hosts and their switches. Which circuits there are is in `routes`.
    pub(crate) topology: Topology,
    /// The network with the circuits over which switches forward. A change of a job's entries holds the
    /// read lock, so that the circuits stay the same until it is complete.
    pub(crate) routes: RwLock<Topology>,
    ports: PortMap,
    pub(crate) catalogue: Catalogue,
    /// Indexed by [`SwitchId`].
    switches: Vec<Session>,
    jobs: Mutex<BTreeMap<JobId, Admitted>>,
    epochs: Mutex<Epochs>,
    /// Services and segments, if jobs have aggregators of their own.
    pub(crate) memory: Option<Mutex<Memory>>,
}

/// Progress of connecting to the switches.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'s> {
    /// The controller connects to this switch.
    Connecting(&'s SwitchConfig),
    /// The controller installs the desired state in the switch of this name.
    Installing(&'s str),
    /// The state is installed; contains what the controller found and changed.
    Installed(&'s str, &'s Found),
}

/// A job with a counter slot, whose ID is therefore taken.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub(crate) slot: JobSlot,
    pub(crate) placement: Placement,
    pub(crate) parts: Vec<JobAtSwitch>,
    pub(crate) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Running,
    /// Its entries are being installed or removed, or its aggregators are being swept.
    Changing,
    /// Removing or moving it failed half-way.
    Leaving,
}

/// How far the clock may be behind the last epoch; NTP may step it by a few seconds.
const CLOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Number of aggregators that a sweep freed in each switch.
pub type Freed = BTreeMap<SwitchId, u32>;

impl Controller {
    /// Connects to all switches of a topology (indexed by [`SwitchId`]), pushes the pipeline where
    /// it does not run yet, installs forwarding, and removes what earlier controllers left.
    ///
    /// # Errors
    /// The first error of a switch.
    ///
    /// # Panics
    /// If the number of switches differs from the topology's.
    pub async fn connect(
        topology: &Topology,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
    ) -> Result<Self, Error> {
        Self::connect_ports(topology, &PortMap::default(), switches, pipeline, |_| {}).await
    }

    /// [`connect`](Self::connect) for switches with their own port numbers. Reports progress to
    /// `progress`. Changes no switch before it is primary at all of them.
    ///
    /// # Errors
    /// The first error of a switch.
    ///
    /// # Panics
    /// If the number of switches differs from the topology's.
    pub async fn connect_ports(
        topology: &Topology,
        ports: &PortMap,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
        progress: impl FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        Self::resume(topology, ports, switches, pipeline, &[], progress).await
    }

    /// [`connect_ports`](Self::connect_ports) for a controller that takes over the jobs of an earlier
    /// one, in the middle of their iterations: their entries stay or are repaired, and their aggregators
    /// are not touched. The topology has the circuits that exist.
    ///
    /// # Errors
    /// The first error of a switch; [`Error::Model`] if the segments of two jobs overlap.
    ///
    /// # Panics
    /// If the number of switches differs from the topology's, or a job does not fit the topology.
    pub async fn resume(
        topology: &Topology,
        ports: &PortMap,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
        resumed: &[(Placement, JobSlot)],
        mut progress: impl FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        assert_eq!(switches.len(), topology.switches.len(), "one address for each switch");
        let catalogue = Catalogue::new(&pipeline.p4info)?;
        let mut opened = Vec::with_capacity(switches.len());
        for config in switches {
            progress(Progress::Connecting(&config));
            let span = info_span!("switch", name = config.name);
            opened.push(Session::open(config, pipeline.clone()).instrument(span).await?);
        }
        let mut sessions = Vec::with_capacity(opened.len());
        let served = resumed.iter().map(|(placement, slot)| (placement, *slot));
        let entities = entries::network(&catalogue, topology, ports, served);
        for (opened, entities) in opened.into_iter().zip(entities) {
            progress(Progress::Installing(opened.name()));
            let span = info_span!("switch", name = opened.name());
            let session = opened.establish(&entities).instrument(span).await?;
            progress(Progress::Installed(session.name(), session.found()));
            sessions.push(session);
        }
        let mut epochs = Epochs::new();
        let mut memory = catalogue.pool().map(|pool| Memory::new(sessions.len(), pool));
        for (placement, _) in resumed {
            if let Some(memory) = &mut memory {
                memory.claim(topology, placement)?;
            }
        }
        let mut ids = (1..=u16::MAX).rev().filter_map(JobId::new);
        let spare = ids.find(|id| resumed.iter().all(|(placement, _)| placement.job != *id));
        for (switch, session) in topology.switch_ids().zip(&sessions) {
            session.orphans().iter().for_each(|run| epochs.found(*run));
            match &memory {
                Some(memory) => {
                    for gap in memory.gaps(switch) {
                        wipe(session, gap, spare.expect("there are more IDs than jobs")).await?;
                    }
                }
                None => free_orphans(session).await?,
            }
        }
        // A controller that was killed may have begun another run in some switches, and not recorded it.
        resumed.iter().for_each(|(placement, _)| epochs.resumed(placement.run()));
        let jobs = resumed.iter().map(|(placement, slot)| {
            let parts = plan::job(topology, placement).into_iter();
            let parts = parts.map(|part| ports.part(part)).collect();
            let (slot, state) = (*slot, State::Running);
            (placement.job, Admitted { slot, placement: placement.clone(), parts, state })
        });
        Ok(Self {
            topology: topology.clone(),
            routes: RwLock::new(topology.clone()),
            ports: ports.clone(),
            catalogue,
            switches: sessions,
            jobs: Mutex::new(jobs.collect()),
            epochs: Mutex::new(epochs),
            memory: memory.map(Mutex::new),
        })
    }

    /// The switches, indexed by [`SwitchId`].
    #[must_use]
    pub fn switches(&self) -> &[Session] {
        &self.switches
    }

    /// Issues the epoch of a new run. Waits until the clock has advanced since the last one.
    ///
    /// # Errors
    /// [`Error::Clock`].
    pub async fn issue(&self) -> Result<Epoch, Error> {
        loop {
            // A separate statement, so that the lock is not held during the wait.
            let issued = lock(&self.epochs).issue();
            match issued {
                Ok(epoch) => return Ok(epoch),
                Err(wait) if wait > CLOCK_PATIENCE => {
                    return Err(Error::Clock { seconds: wait.as_secs() });
                }
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Checks an epoch that a client names to continue a run.
    ///
    /// # Errors
    /// [`Error::FutureEpoch`] if it cannot have been issued.
    pub(crate) fn continued(&self, epoch: Epoch) -> Result<Epoch, Error> {
        match Epochs::ahead(epoch) {
            None => Ok(epoch),
            Some(ahead) => Err(Error::FutureEpoch { epoch, seconds: ahead.as_secs() + 1 }),
        }
    }

    /// How an admitted job is placed, and the slot of its counters.
    #[must_use]
    pub fn placement(&self, job: JobId) -> Option<(Placement, JobSlot)> {
        self.jobs().get(&job).map(|admitted| (admitted.placement.clone(), admitted.slot))
    }

    /// The epoch of a job's run that switches already served when this controller connected, if
    /// they agree: workers may be in the middle of that run.
    #[must_use]
    pub fn found(&self, job: JobId) -> Option<Epoch> {
        lock(&self.epochs).of(job)
    }

    /// Admits a job: switches sum the packets of its run from now on. If jobs have aggregators of
    /// their own, the placement's assignment names them.
    ///
    /// # Errors
    /// [`Error::JobTaken`], [`Error::EpochTaken`], [`Error::Full`], [`Error::Model`],
    /// [`Error::Assignment`], [`Error::Model`], or the error of a switch. No
    /// switch serves the job then.
    ///
    /// # Panics
    /// If the placement has no worker or more than 32, or names a host that the topology does not
    /// have.
    pub async fn admit(&self, placement: &Placement) -> Result<JobSlot, Error> {
        self.check(placement)?;
        self.admit_assigned(placement.clone(), || {
            self.claim(placement).map(|()| placement.assignment)
        })
        .await
        .map(|(slot, _)| slot)
    }

    /// [`admit`](Self::admit) with an assignment that is computed after the job's ID is reserved.
    #[instrument(name = "admission", skip_all, fields(run = %placement.run()))]
    pub(crate) async fn admit_assigned(
        &self,
        placement: Placement,
        assign: impl FnOnce() -> Result<Assignment, Error>,
    ) -> Result<(JobSlot, Assignment), Error> {
        let job = placement.job;
        let routes = self.routes.read().await;
        let slot = self.reserve(&placement)?;
        let outcome = match assign() {
            Ok(assignment) => {
                let placement = placement.assigned(assignment);
                let served = self.serve(&routes, &placement, slot, &[]).await;
                if served.is_err() {
                    self.free(job, assignment);
                }
                served.map(|()| (slot, assignment))
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(_) => self.set_state(job, State::Running),
            Err(_) => drop(self.jobs().remove(&job)),
        }
        outcome
    }

    /// Makes all switches serve a job, or none. Counters continue where the job had a part
    /// `before`.
    pub(crate) async fn serve(
        &self,
        routes: &Topology,
        placement: &Placement,
        slot: JobSlot,
        before: &[JobAtSwitch],
    ) -> Result<(), Error> {
        let parts = plan::job(routes, placement);
        let parts: Vec<JobAtSwitch> = parts.into_iter().map(|p| self.ports.part(p)).collect();
        if let Some(admitted) = self.jobs().get_mut(&placement.job) {
            admitted.placement = placement.clone();
            admitted.parts = parts.clone();
        }
        for (done, part) in parts.iter().enumerate() {
            let session = &self.switches[part.switch.0];
            let counted = before.iter().any(|before| before.switch == part.switch);
            let reset = entries::reset_counters(&self.catalogue, slot);
            let reset = if counted { &[][..] } else { &reset };
            let entities = self.entities(part, placement, slot);
            let span = info_span!("switch", name = session.name());
            if let Err(error) = session.install(reset, &entities).instrument(span).await {
                for part in &parts[..done] {
                    let entities = self.entities(part, placement, slot);
                    if let Err(error) = self.switches[part.switch.0].remove(&entities).await {
                        // The session removes them when the switch is back.
                        tracing::warn!("{error}");
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Begins a new run of a job with these workers, some or all of those of its placement: stops admitting packets of the
    /// previous run, sweeps its aggregators, and makes the switches serve the new run. Workers of the previous run get no
    /// more results.
    ///
    /// # Errors
    /// [`Error::Clock`]; [`Error::UnknownJob`]; [`Error::JobTaken`] if the job is being changed; or
    /// the error of a switch: no switch serves the job then, and it can be renewed again or
    /// removed.
    #[instrument(name = "renewal", skip_all, fields(%job))]
    pub(crate) async fn renew(&self, job: JobId, workers: Vec<HostId>) -> Result<Epoch, Error> {
        let epoch = self.issue().await?;
        let routes = self.routes.read().await;
        let before = self.begin_change(job)?;
        let placement = Placement { epoch, workers, ..before.placement.clone() };
        let renewed = match self.clear(&before).await {
            Ok(_) => self.serve(&routes, &placement, before.slot, &before.parts).await,
            Err(error) => Err(error),
        };
        self.set_state(job, if renewed.is_ok() { State::Running } else { State::Leaving });
        renewed.map(|()| epoch)
    }

    /// Removes a job: first its entries, so that no packet of it is served any more, then its
    /// aggregators. Its ID, slot and segment are then free. Returns the number of freed
    /// aggregators.
    ///
    /// # Errors
    /// [`Error::UnknownJob`]; [`Error::JobTaken`] if the job is being admitted, moved or removed;
    /// or the error of a switch. The ID then stays taken, and the removal can be repeated.
    pub async fn remove(&self, job: JobId) -> Result<Freed, Error> {
        self.remove_recorded(job, || Ok(())).await
    }

    /// [`remove`](Self::remove) for a caller that remembers jobs over its own restart. `forget` is called
    /// when no switch has anything of the job, and before others can have what it had.
    ///
    /// # Errors
    /// As of `remove`, or the error of `forget`; the removal can then be repeated, too.
    #[instrument(name = "removal", skip_all, fields(%job))]
    pub(crate) async fn remove_recorded<E: From<Error>>(
        &self,
        job: JobId,
        forget: impl FnOnce() -> Result<(), E>,
    ) -> Result<Freed, E> {
        let _routes = self.routes.read().await;
        let admitted = self.begin_change(job)?;
        let cleared = self.clear(&admitted).await.map_err(E::from);
        let removed = cleared.and_then(|freed| forget().map(|()| freed));
        match removed {
            Ok(_) => {
                self.free_all(job);
                self.jobs().remove(&job);
            }
            Err(_) => self.set_state(job, State::Leaving),
        }
        removed
    }

    /// Removes a job from the switches. The entries that admit its packets go first. The entry with
    /// its segment goes last, because the sweep is limited to that segment.
    pub(crate) async fn clear(&self, admitted: &Admitted) -> Result<Freed, Error> {
        let Admitted { slot, ref placement, ref parts, state } = *admitted;
        let job = placement.job;
        for part in parts {
            let entities = entries::memberships(&self.catalogue, part, placement.run(), slot);
            self.switches[part.switch.0].remove(&entities).await?;
        }
        let mut freed = Freed::new();
        for part in parts {
            let session = &self.switches[part.switch.0];
            let service = entries::service(&self.catalogue, part, job);
            if service.is_some() && part.segment().is_none() {
                continue;
            }
            if let (Some(service), State::Leaving) = (&service, state) {
                // An earlier attempt may have removed the entry.
                session.install(&[], std::slice::from_ref(service)).await?;
            }
            let count = sweep(session, placement.run(), placement.assignment, SWEEP_LIMIT).await?;
            freed.insert(part.switch, count);
        }
        for part in parts {
            let service = entries::service(&self.catalogue, part, job);
            self.switches[part.switch.0].remove(service.as_slice()).await?;
        }
        Ok(freed)
    }

    /// Makes all switches forward over these circuits of the cross-connect, plain frames and those of
    /// all jobs, also in the middle of an iteration. Sums that switches hold are not touched.
    ///
    /// Before a circuit is parted, route over those that stay: otherwise frames take it until the
    /// switches know, and enter another unit.
    ///
    /// # Errors
    /// [`Error::Model`]: nothing has changed then. Otherwise the first error of a switch, after all
    /// others have changed: it changes when it is back.
    pub async fn route(&self, circuits: &Circuits) -> Result<(), Error> {
        let mut routes = self.routes.write().await;
        let next = routes.patched(circuits).map_err(Unservable::from)?;
        let jobs: Vec<Admitted> = self.jobs().values().cloned().collect();
        // A job that was not removed entirely keeps what is left of it until it is.
        let served = jobs.iter().filter(|job| job.state == State::Running);
        let served: Vec<_> = served.map(|job| (&job.placement, job.slot)).collect();
        let [before, after] = [&*routes, &next].map(|topology| {
            entries::network(&self.catalogue, topology, &self.ports, served.iter().copied())
        });
        let switches = self.switches.iter().zip(before.iter().zip(&after));
        let changes = switches.map(|(session, (before, after))| async move {
            let span = info_span!("switch", name = session.name());
            session.replace(before, after).instrument(span).await
        });
        let outcomes = join_all(changes).await;
        for (placement, _) in served {
            let parts = plan::job(&next, placement).into_iter();
            if let Some(admitted) = self.jobs().get_mut(&placement.job) {
                admitted.parts = parts.map(|part| self.ports.part(part)).collect();
            }
        }
        *routes = next;
        outcomes.into_iter().collect()
    }

    /// The circuits over which the switches forward.
    pub async fn circuits(&self) -> Circuits {
        let routes = self.routes.read().await;
        routes.optical.as_ref().map_or(Circuits::DARK, |optical| optical.circuits().clone())
    }

    /// The admitted jobs.
    #[must_use]
    pub fn job_ids(&self) -> Vec<JobId> {
        self.jobs().keys().copied().collect()
    }

    /// The name of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    #[must_use]
    pub fn switch(&self, switch: SwitchId) -> &str {
        &self.topology.switch(switch).name
    }

    /// Outcomes of a job's packets in each switch on its tree, since it was admitted.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::Request`], [`Error::Lost`].
    pub async fn outcomes(&self, job: JobId) -> Result<BTreeMap<SwitchId, Outcomes>, Error> {
        let admitted = self.jobs().get(&job).cloned().ok_or(Error::UnknownJob(job))?;
        let mut all = BTreeMap::new();
        for part in &admitted.parts {
            let counts = self.counts(part.switch, Some(admitted.slot)).await?;
            all.insert(part.switch, counts);
        }
        Ok(all)
    }

    /// [`outcomes`](Self::outcomes) in those of the job's switches that are connected.
    ///
    /// # Errors
    /// As of `outcomes`.
    pub async fn present_outcomes(
        &self,
        job: JobId,
    ) -> Result<BTreeMap<SwitchId, Outcomes>, Error> {
        let admitted = self.jobs().get(&job).cloned().ok_or(Error::UnknownJob(job))?;
        let mut all = BTreeMap::new();
        for part in &admitted.parts {
            if self.switches[part.switch.0].health().is_ok() {
                all.insert(part.switch, self.counts(part.switch, Some(admitted.slot)).await?);
            }
        }
        Ok(all)
    }

    /// Number of a job's evicted partial sums in each switch on its tree, since it was admitted;
    /// empty for programs that do not evict.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::Request`], [`Error::Lost`].
    pub async fn evictions(&self, job: JobId) -> Result<BTreeMap<SwitchId, Count>, Error> {
        let admitted = self.jobs().get(&job).cloned().ok_or(Error::UnknownJob(job))?;
        let request = outcomes::evictions_request(&self.catalogue);
        let mut all = BTreeMap::new();
        if request.is_empty() {
            return Ok(all);
        }
        for part in &admitted.parts {
            let answer = self.switches[part.switch.0].read(request.clone()).await?;
            all.insert(
                part.switch,
                outcomes::evictions(&self.catalogue, admitted.placement.epoch, &answer),
            );
        }
        Ok(all)
    }

    /// Outcomes of packets that belong to no job, in each switch, since its pipeline was pushed.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn traffic(&self) -> Result<BTreeMap<SwitchId, Outcomes>, Error> {
        let mut all = BTreeMap::new();
        for switch in self.topology.switch_ids() {
            all.insert(switch, self.counts(switch, None).await?);
        }
        Ok(all)
    }

    async fn counts(&self, switch: SwitchId, slot: Option<JobSlot>) -> Result<Outcomes, Error> {
        let request = Outcomes::request(&self.catalogue, slot);
        let answer = self.switches[switch.0].read(request).await?;
        Ok(Outcomes::of(&self.catalogue, slot, &answer))
    }

    fn entities(&self, part: &JobAtSwitch, placement: &Placement, slot: JobSlot) -> Vec<Entity> {
        entries::job(&self.catalogue, part, placement.run(), slot)
    }

    pub(crate) fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, Admitted>> {
        lock(&self.jobs)
    }

    pub(crate) fn set_state(&self, job: JobId, state: State) {
        if let Some(admitted) = self.jobs().get_mut(&job) {
            admitted.state = state;
        }
    }

    /// Takes the lowest free slot.
    fn reserve(&self, placement: &Placement) -> Result<JobSlot, Error> {
        let job = placement.job;
        let mut jobs = self.jobs();
        if let Some(other) = jobs.get(&job) {
            let state = match other.state {
                State::Running => "running",
                State::Changing => CHANGING,
                State::Leaving => LEAVING,
            };
            return Err(Error::JobTaken(job, state));
        }
        if let Some(other) = jobs.values().find(|other| other.placement.epoch == placement.epoch) {
            return Err(Error::EpochTaken(placement.run(), other.placement.job));
        }
        let taken: BTreeSet<JobSlot> = jobs.values().map(|admitted| admitted.slot).collect();
        let slot = (1..=u8::MAX)
            .take(self.catalogue.slots)
            .filter_map(JobSlot::new)
            .find(|slot| !taken.contains(slot))
            .ok_or(Error::Full(self.catalogue.slots))?;
        let (placement, parts) = (placement.clone(), Vec::new());
        jobs.insert(job, Admitted { slot, placement, parts, state: State::Changing });
        Ok(slot)
    }

    /// Returns the job and marks it as being changed.
    pub(crate) fn begin_change(&self, job: JobId) -> Result<Admitted, Error> {
        let mut jobs = self.jobs();
        let admitted = jobs.get_mut(&job).ok_or(Error::UnknownJob(job))?;
        if admitted.state == State::Changing {
            return Err(Error::JobTaken(job, CHANGING));
        }
        let before = admitted.clone();
        admitted.state = State::Changing;
        Ok(before)
    }
}

impl Admitted {
    /// # Errors
    /// [`Error::JobTaken`] if the job can only be removed.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        match self.state {
            State::Leaving => Err(Error::JobTaken(self.placement.job, LEAVING)),
            _ => Ok(()),
        }
    }
}

const CHANGING: &str = "being admitted, moved or removed";
const LEAVING: &str = "not swept yet";

/// Frees the aggregators of earlier jobs in a switch whose aggregators name their job.
async fn free_orphans(session: &Session) -> Result<(), Error> {
    for &run in session.orphans() {
        tracing::warn!(switch = session.name(), %run, "freeing aggregators of an earlier run");
        sweep(session, run, Assignment::NONE, SWEEP_LIMIT).await?;
    }
    Ok(())
}

/// Frees aggregators of a switch whose aggregators do not name their job. Until that is done, a
/// placeholder job, with an ID that no other has, holds them.
async fn wipe(session: &Session, segment: Segment, somebody: JobId) -> Result<(), Error> {
    if !session.was_running() {
        return Ok(());
    }
    let assignment = Assignment { service: Service::new(1), segment, mode: Mode::Local };
    let all = ServiceAtSwitch::Aggregate { segment, everyone: Bitmap::EMPTY, total: Bitmap::EMPTY };
    let service = entries::serve(session.catalogue(), somebody, assignment.service, all);
    session.install(&[], service.as_slice()).await?;
    let freed = sweep(session, somebody.run(Epoch::FIRST), assignment, SWEEP_LIMIT).await;
    session.remove(service.as_slice()).await?;
    let unfinished = freed?;
    if unfinished > 0 {
        tracing::warn!(switch = session.name(), unfinished, "freed aggregators of an earlier run");
    }
    Ok(())
}

/// Ignores poisoning: no holder of these locks can panic half-way through a change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
