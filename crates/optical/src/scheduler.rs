//! What all schedulers have in common.

use crate::{Error, Fcfs, Job, Network, Schedule, Tw};

/// The step in which a job's rate grows, in bits per second for each worker: *δB* (§VII.B).
pub(crate) const STEP: f64 = 10e9;

/// Decides ways, circuits and rates for a batch of jobs.
pub trait Scheduler {
    /// Its name in tables, as in the paper.
    fn name(&self) -> &str;

    /// Schedules all jobs.
    ///
    /// # Errors
    /// If the network or a job is impossible, or a job can never be carried out.
    fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error>;
}

/// How much bandwidth a job may take in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// As much as ends its transfer in the slot.
    Enough,
    /// Everything that is free.
    All,
}

/// The paper's schedulers, under its names: four for all figures, and the one of table I that cannot
/// change circuits.
#[must_use]
pub fn schedulers() -> Vec<Box<dyn Scheduler + Send + Sync>> {
    let mut all: Vec<Box<dyn Scheduler + Send + Sync>> = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs::new(inc)));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all.push(Box::new(Tw::new(true, false)));
    all
}
