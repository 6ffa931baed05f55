//! The iterations and rates of jobs, and those who watch them.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tributary_access::Grant;
use tributary_model::job::{Event, Iteration, Progress, Served, Stream};
use tributary_model::plan::Placement;
use tributary_protocol::Rate;
use tributary_wire::{Epoch, JobId, WorkerIndex};

use super::{Admitted, Demand, Jobs, Refusal, State};

/// A job as [`Jobs::list`] gives it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name, for people.
    pub name: String,
    /// Whether some worker takes part in a job with a lease; `None` if it has none.
    pub held: Option<bool>,
    /// The hosts of its endpoints, its run and its assignment.
    pub placement: Placement,
    /// Its ID, and those of the other threads of its workers.
    pub lanes: Vec<JobId>,
    /// Its last iteration.
    pub iteration: Iteration,
    /// The rate of each worker; `None` for no limit.
    pub rate: Option<Rate>,
    /// Whether a client lets each round begin.
    pub stepped: bool,
    /// What it sends, if that was said at admission.
    pub demand: Option<Demand>,
    /// Name of the tenant whose job it is.
    pub tenant: Option<String>,
}

impl Jobs {
    /// Begins an iteration; `number` as in [`Iteration::start`].
    ///
    /// # Errors
    /// [`Refusal::OutOfTurn`], [`Refusal::Unknown`], [`Refusal::Busy`], [`Refusal::Broken`],
    /// [`Refusal::Unrecorded`].
    pub fn start(&self, job: JobId, number: u64) -> Result<Progress, Refusal> {
        let mut state = self.state();
        let next = state.whole(job)?.life.started(number);
        let next = next.map_err(|blocked| Refusal::blocked(job, blocked))?;
        self.change_progress(&mut state, job, next)
    }

    /// Records that a worker has all results of an iteration, and nothing in flight.
    ///
    /// # Errors
    /// [`Refusal::Worker`], and as of [`start`](Self::start).
    pub fn finish(&self, job: JobId, number: u64, worker: u32) -> Result<Progress, Refusal> {
        self.finish_in(&mut self.state(), job, number, worker)
    }

    fn finish_in(
        &self,
        state: &mut State,
        job: JobId,
        number: u64,
        worker: u32,
    ) -> Result<Progress, Refusal> {
        let admitted = state.whole(job)?;
        let workers = admitted.placement.workers.len();
        let index = u16::try_from(worker).ok().and_then(WorkerIndex::new);
        let index = index.filter(|index| usize::from(index.get()) < workers);
        let index = index.ok_or(Refusal::Worker { job, worker, workers })?;
        let next = admitted.life.finished(number, index);
        let next = next.map_err(|blocked| Refusal::blocked(job, blocked))?;
        self.change_progress(state, job, next)
    }

    /// The same for a worker on a stream, which says it again until it is recorded.
    pub(super) fn finish_on(&self, job: JobId, stream: Stream, run: Epoch, number: u64) {
        let mut state = self.state();
        let worker = state.admitted(job).and_then(|admitted| admitted.life.worker(stream, run));
        let Some(worker) = worker else { return };
        if let Err(refusal) = self.finish_in(&mut state, job, number, worker.get().into()) {
            tracing::debug!("worker {worker} has finished iteration {number}: {refusal}");
        }
    }

    /// Changes the rate of a job's workers, also while an iteration runs. It is at most what the job's limits allow.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::Busy`], [`Refusal::Broken`], [`Refusal::Leased`], [`Refusal::Lanes`],
    /// [`Refusal::Unled`], [`Refusal::Unrecorded`].
    pub fn set_rate(&self, job: JobId, rate: Option<Rate>) -> Result<(), Refusal> {
        let mut state = self.state();
        let admitted = state.whole(job)?;
        if admitted.life.rules().grace.is_some() {
            return Err(Refusal::Leased(job));
        }
        if admitted.lanes.len() > 1 {
            return Err(Refusal::Lanes(job));
        }
        if self.protocol().has_reminder_agent() {
            return Err(Refusal::Unled(job));
        }
        let rate = rate.into_iter().chain(admitted.placement.limits.rate).min();
        let next = admitted.life.paced(rate).map_err(|blocked| Refusal::blocked(job, blocked))?;
        self.change_progress(&mut state, job, next).map(drop)
    }

    /// Records new progress, and then tells endpoints and watchers.
    fn change_progress(
        &self,
        state: &mut State,
        job: JobId,
        next: Progress,
    ) -> Result<Progress, Refusal> {
        let entry = state.jobs.get(&job);
        let admitted = entry.and_then(|entry| Some((entry.tenant.as_deref(), entry.admitted()?)));
        let (tenant, admitted) = admitted.ok_or(Refusal::Unknown(job))?;
        let served = admitted.life.served();
        if next != served.progress {
            let next = Served { progress: next, ..served };
            self.record(admitted, tenant, next).map_err(Refusal::Unrecorded)?;
            self.handle_in(state, job, Event::Progressed(next.progress));
        }
        Ok(next)
    }

    /// The run and the progress of a job, now and after each change; closed when the job is released.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn watch(&self, job: JobId) -> Result<watch::Receiver<(Epoch, Progress)>, Refusal> {
        let state = self.state();
        let admitted = state.admitted(job).ok_or(Refusal::Unknown(job))?;
        Ok(admitted.watched.subscribe())
    }

    /// Whether a run of a job, which was admitted once, has certainly been released. Without a journal
    /// the job may be about to be admitted again.
    #[must_use]
    pub fn has_released(&self, job: JobId) -> bool {
        self.0.journal.lasts() && !self.state().jobs.contains_key(&job)
    }

    /// Numbers of admissions that were refused, by tenant and [kind of reason](Refusal::reason).
    #[must_use]
    pub fn refused(&self) -> BTreeMap<(String, &'static str), u64> {
        self.state().refused.clone()
    }

    /// All admitted jobs, by ID.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let state = self.state();
        let entries = state.jobs.values();
        let admitted = entries.filter_map(|entry| Some((entry, entry.admitted()?)));
        let listed = admitted.map(|(entry, admitted)| {
            let Progress { iteration, rate, .. } = admitted.life.served().progress;
            Listed {
                tenant: entry.tenant.clone(),
                placement: admitted.current(),
                lanes: admitted.lanes.clone(),
                iteration,
                rate,
                stepped: admitted.life.rules().stepped,
                demand: admitted.demand,
                name: admitted.title.clone(),
                held: admitted.life.rules().grace.map(|_| admitted.life.is_taken_part_in()),
            }
        });
        listed.collect()
    }

    /// The run of a job that was recorded last.
    #[must_use]
    pub fn served(&self, job: JobId) -> Option<Served> {
        self.state().admitted(job).map(|admitted| admitted.life.served())
    }

    /// Whether some worker takes part in a job.
    #[must_use]
    pub fn is_taken_part_in(&self, job: JobId) -> bool {
        self.state().admitted(job).is_some_and(|admitted| admitted.life.is_taken_part_in())
    }

    /// The workers of each job that take part in its run, and those of all.
    #[must_use]
    pub fn taking_part(&self) -> Vec<(JobId, u32, u32)> {
        let state = self.state();
        let admitted = state.jobs.iter().filter_map(|(job, entry)| Some((job, entry.admitted()?)));
        let counted = admitted.map(|(job, Admitted { life, .. })| {
            (*job, life.served().workers.len(), u32::from(life.rules().workers))
        });
        counted.collect()
    }

    /// Checks that a job is the business of a client.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::Foreign`].
    pub(super) fn check_owner(&self, job: JobId, grant: &Grant) -> Result<(), Refusal> {
        self.state().check_owner(job, grant)
    }
}
