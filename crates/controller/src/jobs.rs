//! Jobs at run time: admitted, counted, removed, swept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tributary_jobfile::{SwitchId, Topology};
use tributary_p4runtime_proto::p4::v1::Entity;
use tributary_wire::{JobId, Protocol};

use crate::catalogue::Catalogue;
use crate::client::SwitchConfig;
use crate::entries::{self, JobSlot};
use crate::error::Error;
use crate::outcomes::{self, Count, Outcomes};
use crate::plan::{self, JobAtSwitch, Placement};
use crate::programs::Pipeline;
use crate::session::Session;
use crate::sweep::sweep;

/// How long a walk through a switch's aggregators may take. BMv2 visits about 20 000 a second.
const SWEEP_LIMIT: Duration = Duration::from_secs(30);

/// The switches of a topology and the jobs that they serve.
#[derive(Debug)]
pub struct Controller {
    topology: Topology,
    catalogue: Catalogue,
    /// By [`SwitchId`].
    switches: Vec<Session>,
    jobs: Mutex<BTreeMap<JobId, Admitted>>,
}

/// A job that has a counter slot, and so an ID that is taken.
#[derive(Clone, Debug)]
struct Admitted {
    slot: JobSlot,
    parts: Vec<JobAtSwitch>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    /// Its entries are being installed or removed, or its aggregators are being swept.
    Changing,
    /// An attempt to remove it failed half-way.
    Leaving,
}

/// What a sweep freed, by switch.
pub type Freed = BTreeMap<SwitchId, u32>;

impl Controller {
    /// Connects to all switches of a topology (given by [`SwitchId`]), pushes the pipeline where it
    /// does not run yet, installs forwarding, and removes what other runs of the controller left.
    ///
    /// # Errors
    /// The first thing that keeps a switch from being as it should be.
    ///
    /// # Panics
    /// If there are not as many switches as the topology has.
    pub async fn connect(
        topology: &Topology,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
    ) -> Result<Self, Error> {
        assert_eq!(switches.len(), topology.switches.len(), "one address for each switch");
        let catalogue = Catalogue::new(&pipeline.p4info)?;
        let mut sessions = Vec::with_capacity(switches.len());
        for (config, forwarding) in switches.into_iter().zip(plan::forwarding(topology)) {
            let entities = entries::forwarding(&catalogue, &forwarding);
            sessions.push(Session::connect(config, pipeline.clone(), &entities).await?);
        }
        for session in &sessions {
            for &job in session.orphans() {
                tracing::warn!(switch = session.name(), %job, "freeing what a former run left");
                sweep(session, job, SWEEP_LIMIT).await?;
            }
        }
        let topology = topology.clone();
        Ok(Self { topology, catalogue, switches: sessions, jobs: Mutex::default() })
    }

    /// The switches, by [`SwitchId`].
    #[must_use]
    pub fn switches(&self) -> &[Session] {
        &self.switches
    }

    /// Admits a job: its packets are summed from now on.
    ///
    /// # Errors
    /// [`Error::JobTaken`], [`Error::Full`], [`Error::AgentAside`], or what kept a switch from taking its part. The job is
    /// then nowhere.
    ///
    /// # Panics
    /// If the placement has more than 32 workers or names a host that the topology does not have.
    pub async fn admit(&self, placement: &Placement) -> Result<JobSlot, Error> {
        if self.catalogue.protocol() == Protocol::Esa {
            plan::targets(&self.topology, placement)?;
        }
        let parts = plan::job(&self.topology, placement);
        let slot = self.reserve(placement.job, &parts)?;
        for (done, part) in parts.iter().enumerate() {
            let session = &self.switches[part.switch.0];
            let reset = entries::reset_counters(&self.catalogue, slot);
            let entities = self.entities(part, placement.job, slot);
            if let Err(error) = session.install(&reset, &entities).await {
                for part in &parts[..done] {
                    let entities = self.entities(part, placement.job, slot);
                    if let Err(error) = self.switches[part.switch.0].remove(&entities).await {
                        // They go as soon as the switch is back.
                        tracing::warn!("{error}");
                    }
                }
                self.jobs().remove(&placement.job);
                return Err(error);
            }
        }
        self.set_state(placement.job, State::Running);
        Ok(slot)
    }

    /// Removes a job: first its entries, so that no packet of it is served any more, then what it
    /// holds. Its ID and slot are free afterwards. Returns how many aggregators were freed.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::JobTaken`] if it is being admitted or removed right now, or
    /// what kept a switch from forgetting it. The ID then stays taken, and the removal can be
    /// repeated.
    pub async fn remove(&self, job: JobId) -> Result<Freed, Error> {
        let Admitted { slot, parts, .. } = self.begin_removal(job)?;
        let outcome = self.clear(job, slot, &parts).await;
        match outcome {
            Ok(_) => {
                self.jobs().remove(&job);
            }
            Err(_) => self.set_state(job, State::Leaving),
        }
        outcome
    }

    async fn clear(
        &self,
        job: JobId,
        slot: JobSlot,
        parts: &[JobAtSwitch],
    ) -> Result<Freed, Error> {
        for part in parts {
            let entities = self.entities(part, job, slot);
            self.switches[part.switch.0].remove(&entities).await?;
        }
        let mut freed = Freed::new();
        for part in parts {
            let session = &self.switches[part.switch.0];
            freed.insert(part.switch, sweep(session, job, SWEEP_LIMIT).await?);
        }
        Ok(freed)
    }

    /// What became of a job's packets in each switch on its tree, since it was admitted.
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

    /// How many partial sums of a job were evicted in each switch on its tree, since it was admitted;
    /// none by programs that do not evict.
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
            all.insert(part.switch, outcomes::evictions(&self.catalogue, job, &answer));
        }
        Ok(all)
    }

    /// What became of packets that belong to no job, in each switch, since its pipeline was pushed.
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

    fn entities(&self, part: &JobAtSwitch, job: JobId, slot: JobSlot) -> Vec<Entity> {
        entries::job(&self.catalogue, part, job, slot)
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, Admitted>> {
        // Nothing panics while it holds the lock.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, job: JobId, state: State) {
        if let Some(admitted) = self.jobs().get_mut(&job) {
            admitted.state = state;
        }
    }

    /// Takes the lowest free slot.
    fn reserve(&self, job: JobId, parts: &[JobAtSwitch]) -> Result<JobSlot, Error> {
        let mut jobs = self.jobs();
        if let Some(other) = jobs.get(&job) {
            let state = match other.state {
                State::Running => "running",
                State::Changing => "being admitted or removed",
                State::Leaving => "not swept yet",
            };
            return Err(Error::JobTaken(job, state));
        }
        let taken: BTreeSet<JobSlot> = jobs.values().map(|admitted| admitted.slot).collect();
        let slot = (1..=u8::MAX)
            .take(self.catalogue.slots)
            .filter_map(JobSlot::new)
            .find(|slot| !taken.contains(slot))
            .ok_or(Error::Full(self.catalogue.slots))?;
        let parts = parts.to_vec();
        jobs.insert(job, Admitted { slot, parts, state: State::Changing });
        Ok(slot)
    }

    fn begin_removal(&self, job: JobId) -> Result<Admitted, Error> {
        let mut jobs = self.jobs();
        let admitted = jobs.get_mut(&job).ok_or(Error::UnknownJob(job))?;
        if admitted.state == State::Changing {
            return Err(Error::JobTaken(job, "being admitted or removed"));
        }
        admitted.state = State::Changing;
        Ok(admitted.clone())
    }
}
