//! The aggregators of an ESA job's tasks: one for each slot, in a place of the job's own.

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Sequence};

use super::mix;

/// The aggregators of a job's tasks: as many as the job has slots, next to those of the job with the ID before.
///
/// Tasks of a window never share an aggregator. Those of different jobs do not either if all jobs have the
/// same number of slots, IDs without gaps, and the pool has an aggregator for each slot. If it has fewer, the jobs' places overlap. Each job
/// passes through its place in its own order, so that two jobs do not meet in step.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    first: u64,
    step: u32,
    slots: u32,
    pool: u64,
}

impl Own {
    /// The place of a job with this number of slots, a power of two; `None` if the pool has fewer
    /// aggregators.
    pub fn new(job: JobId, slots: u32, pool: NonZeroU32) -> Option<Self> {
        let number = u64::from(job.get()) - 1;
        let fits = slots <= pool.get();
        // An odd step visits all slots of a power of two.
        let step = mix(number) as u32 | 1;
        fits.then(|| Self {
            first: number * u64::from(slots),
            step,
            slots,
            pool: pool.get().into(),
        })
    }

    /// The aggregator of a task.
    pub fn index(&self, sequence: Sequence) -> AggregatorIndex {
        let place = sequence.0.wrapping_mul(self.step) & (self.slots - 1);
        AggregatorIndex(((self.first + u64::from(place)) % self.pool) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn own(job: u16, slots: u32, pool: u32) -> Own {
        Own::new(JobId::new(job).unwrap(), slots, NonZeroU32::new(pool).unwrap()).unwrap()
    }

    fn window(own: Own, first: u32) -> BTreeSet<u32> {
        (0..own.slots).map(|at| own.index(Sequence(first.wrapping_add(at))).0).collect()
    }

    proptest! {
        #[test]
        fn a_window_meets_no_aggregator_twice(
            job in 1u16..,
            slots in (0u32..12).prop_map(|bits| 1 << bits),
            more in 0u32..5000,
            first: u32,
        ) {
            let own = own(job, slots, slots + more);
            let used = window(own, first);
            prop_assert_eq!(used.len(), slots as usize);
            prop_assert!(used.iter().all(|index| *index < slots + more));
        }

        #[test]
        fn jobs_that_fit_do_not_meet(jobs in 2u16..20, first: u32, more in 0u32..100) {
            let pool = u32::from(jobs) * 64 + more;
            let all: BTreeSet<u32> =
                (1..=jobs).flat_map(|job| window(own(job, 64, pool), first ^ u32::from(job))).collect();
            prop_assert_eq!(all.len(), usize::from(jobs) * 64);
        }
    }

    #[test]
    fn a_pool_with_fewer_aggregators_than_slots_has_no_such_place() {
        assert!(Own::new(JobId::new(1).unwrap(), 64, NonZeroU32::new(63).unwrap()).is_none());
    }

    #[test]
    fn places_of_the_contract() {
        // A change would make hosts of different versions disagree.
        let at = |job, sequence| own(job, 256, 4096).index(Sequence(sequence)).0;
        let places = [at(1, 0), at(1, 1), at(1, u32::MAX), at(2, 0), at(2, 1), at(40, 3)];
        assert_eq!(places, [0, 0, 0, 0, 0, 0]);
    }
}
