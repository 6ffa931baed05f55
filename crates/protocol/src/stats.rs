//! Counters common to all kinds of endpoint.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_wire::{Error, WorkerSet};

use crate::{JobConfig, Time};

/// Adds counters field by field: those of several endpoints. It does not compile if a field is missing.
macro_rules! add_counters {
    ($counters:ty: $($field:ident),+) => {
        impl std::ops::AddAssign for $counters {
            fn add_assign(&mut self, other: Self) {
                let Self { $($field),+ } = other;
                $(self.$field += $field;)+
            }
        }
    };
}

pub(crate) use add_counters;

/// By worker, the longest time since the beginning of a task that lacks its values. Each task has the
/// workers whose values are in, and its beginning.
pub(crate) fn gaps(
    job: &JobConfig,
    tasks: impl Iterator<Item = (WorkerSet, Time)>,
    now: Time,
) -> Vec<Duration> {
    let mut gaps = vec![Duration::ZERO; job.workers().into()];
    for (merged, since) in tasks {
        let waited = now - since;
        for worker in job.everyone().without(merged).iter() {
            let gap = &mut gaps[usize::from(worker.get())];
            *gap = (*gap).max(waited);
        }
    }
    gaps
}

/// Frames that an endpoint dropped whatever its state, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rejected {
    /// Not an aggregation packet: ARP, another port, and the like.
    pub foreign: u64,
    /// A malformed aggregation packet, for any reason in [`Error`].
    pub malformed: u64,
    /// Of another job.
    pub other_job: u64,
    /// Of another run of the job.
    pub other_run: u64,
    /// Of another aggregation protocol.
    pub other_protocol: u64,
    /// Of another service than the job's: sent under an earlier assignment. At a PS also gradients
    /// of a job that needs no PS under its assignment.
    pub other_service: u64,
    /// A kind that this endpoint does not accept.
    pub wrong_kind: u64,
    /// Another number of values than V.
    pub wrong_values: u64,
    /// Workers that are not in the job or that such a packet may not name.
    pub wrong_bitmap: u64,
    /// Another aggregator than the slot's.
    pub wrong_index: u64,
}

add_counters!(Rejected: foreign, malformed, other_job, other_run, other_protocol, other_service, wrong_kind, wrong_values, wrong_bitmap, wrong_index);

impl Rejected {
    pub(crate) fn count(&mut self, error: &Error) {
        if error.is_foreign() {
            self.foreign += 1;
        } else {
            self.malformed += 1;
        }
    }

    /// The sum of all counters.
    pub fn total(&self) -> u64 {
        self.foreign
            + self.malformed
            + self.other_job
            + self.other_run
            + self.other_protocol
            + self.other_service
            + self.wrong_kind
            + self.wrong_values
            + self.wrong_bitmap
            + self.wrong_index
    }
}
