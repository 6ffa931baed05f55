//! Jobs with several threads per worker.

use std::collections::HashSet;

use tributary_base::document::{Error, Table};
use tributary_wire::JobId;

use super::{Jobs, MAX_JOBS, first_epoch};
use crate::{JobSpec, Lane};

/// Maximum number of threads per worker.
const MAX_THREADS: u32 = 16;

/// Threads per worker.
pub(super) fn threads(table: &Table<'_>) -> Result<u32, Error> {
    table.or("threads", 1, |threads| threads.integer32(1..=MAX_THREADS))
}

impl Jobs<'_> {
    /// Refuses several threads per worker where the control loop moves jobs.
    pub(crate) fn refuse_threads(&self) -> Result<(), Error> {
        for table in &self.tables {
            if threads(table)? > 1 {
                return Err(table.place_of("threads").fault(
                    "the control loop around a cross-connect moves only jobs with one thread per worker",
                    "leave `threads` out",
                ));
            }
        }
        Ok(())
    }

    /// Adds the other lanes of each job behind its first. They get the lowest IDs that no job has.
    pub(super) fn lanes(&self, jobs: Vec<JobSpec>) -> Result<Vec<JobSpec>, Error> {
        let taken: HashSet<JobId> = jobs.iter().map(|job| job.id).collect();
        let mut free = (1..=u16::MAX).filter_map(JobId::new).filter(|free| !taken.contains(free));
        let mut lanes: Vec<JobSpec> = Vec::with_capacity(jobs.len());
        for (job, table) in jobs.into_iter().zip(&self.tables) {
            let count = job.lane.count;
            if lanes.len() + count > MAX_JOBS {
                return Err(table.place_of("threads").fault(
                    format!("the jobs have more than {MAX_JOBS} threads per worker together"),
                    "take fewer threads or jobs",
                ));
            }
            let others = (1..count).map(|index| {
                let id = free.next().expect("there are more IDs than lanes");
                let (name, lane) = (format!("{}/{index}", job.name), Lane { index, count });
                JobSpec { id, epoch: first_epoch(id), name, lane, ..job.clone() }
            });
            let others: Vec<JobSpec> = others.collect();
            lanes.push(job);
            lanes.extend(others);
        }
        Ok(lanes)
    }
}
