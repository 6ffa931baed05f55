//! Limits of what is scheduled, so that a typing error costs neither all memory nor hours.

use crate::{Error, Job, Network};

/// The most jobs.
pub const JOBS_MAX: usize = 10_000;

/// The most slots of a schedule, and the last slot in which a job can arrive.
pub const SLOTS_MAX: usize = 10_000;

/// The most unknowns of an exact model that is small, in the sense of `Exact::check_size`.
pub const UNKNOWNS_MAX: usize = 10_000;

/// The most numbers in a schedule: circuits between pairs of units, and rates, which take twice the memory.
const NUMBERS_MAX: usize = 100_000_000;

/// The most slots of a schedule for these jobs.
pub(crate) fn slots(network: &Network, jobs: &[Job]) -> usize {
    let units = network.units.len();
    let each = units * units.saturating_sub(1) / 2 + 2 * jobs.len();
    SLOTS_MAX.min(NUMBERS_MAX / each.max(1))
}

/// Checks that a job can arrive, and send for some slots, before the last slot of a schedule.
pub(crate) fn check(job: &Job, least: usize, slots: usize) -> Result<(), Error> {
    let end = job.arrival.saturating_add(least);
    if end <= slots {
        return Ok(());
    }
    let problem = format!(
        "it arrives in slot {} and sends for at least {least} slots, but a schedule has at most \
         {slots}; choose an earlier arrival, less data or longer slots",
        job.arrival
    );
    Err(Error::job(job.id, problem))
}
