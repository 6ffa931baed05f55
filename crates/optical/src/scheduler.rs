//! What all schedulers have in common.

use crate::{Circuits, Error, Job, Network, Schedule};

/// The step in which a job's rate grows, in bits per second for each worker: *δB* (§VII.B).
pub(crate) const STEP: f64 = 10e9;

/// Decides ways, circuits and rates for a batch of jobs.
pub trait Scheduler {
    /// Its name in tables, as in the paper.
    fn name(&self) -> &str;

    /// Schedules all jobs, with these circuits before the first slot.
    ///
    /// # Errors
    /// If the network or a job is impossible, or a job can never be carried out.
    fn schedule_from(
        &self,
        network: &Network,
        jobs: &[Job],
        initial: Circuits,
    ) -> Result<Schedule, Error>;

    /// Schedules all jobs, with uniform circuits before the first slot.
    ///
    /// # Errors
    /// As [`schedule_from`](Self::schedule_from).
    fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        self.schedule_from(network, jobs, Circuits::uniform(network))
    }
}

/// How much bandwidth a job may take in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// As much as ends its transfer in the slot.
    Enough,
    /// Everything that is free.
    All,
}
