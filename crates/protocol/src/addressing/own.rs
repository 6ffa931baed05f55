//! The aggregators of an ESA job's tasks: one for each slot, in a place of the job's own.

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Sequence};

use super::mix;

/// The aggregators of a job's tasks: a place in the pool, next to that of the job with the ID before.
///
/// The place has an aggregator for each slot, or if the pool is smaller than that, the greatest power of
/// two of aggregators that it has. Tasks less than that apart never share one. Those of different jobs do
/// not either if all places fit in the pool, IDs have no gaps and all jobs have equally many slots.
/// Otherwise places overlap; each job passes through its place in its own order, so that two jobs
/// with one place do not collide at every task.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    first: u64,
    step: u32,
    size: u32,
    pool: u64,
}

impl Own {
    /// The place of a job with this number of slots, a power of two.
    pub fn new(job: JobId, slots: u32, pool: NonZeroU32) -> Self {
        let number = u64::from(job.get()) - 1;
        let size = Self::size(slots, pool);
        // An odd step visits all numbers below a power of two.
        let step = mix(number) as u32 | 1;
        Self { first: number * u64::from(size), step, size, pool: pool.get().into() }
    }

    /// Number of aggregators of a place.
    pub fn size(slots: u32, pool: NonZeroU32) -> u32 {
        slots.min(1 << pool.ilog2())
    }

    /// Whether two places in the same pool have an aggregator in common.
    pub fn meets(&self, other: &Self) -> bool {
        let behind =
            |from: &Self, to: &Self| (to.first + from.pool - from.first % from.pool) % from.pool;
        behind(self, other) < self.size.into() || behind(other, self) < other.size.into()
    }

    /// The aggregator of a task.
    pub fn index(&self, sequence: Sequence) -> AggregatorIndex {
        let place = sequence.0.wrapping_mul(self.step) & (self.size - 1);
        AggregatorIndex(((self.first + u64::from(place)) % self.pool) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn own(job: u16, slots: u32, pool: u32) -> Own {
        Own::new(JobId::new(job).unwrap(), slots, NonZeroU32::new(pool).unwrap())
    }

    fn window(own: Own, first: u32) -> BTreeSet<u32> {
        (0..own.size).map(|at| own.index(Sequence(first.wrapping_add(at))).0).collect()
    }

    proptest! {
        #[test]
        fn a_window_meets_no_aggregator_twice(
            job in 1u16..,
            slots in (0u32..12).prop_map(|bits| 1 << bits),
            pool in 1u32..5000,
            first: u32,
        ) {
            let own = own(job, slots, pool);
            prop_assert!(own.size == slots || 2 * own.size > pool);
            let used = window(own, first);
            prop_assert_eq!(used.len(), own.size as usize);
            prop_assert!(used.iter().all(|index| *index < pool));
        }

        #[test]
        fn jobs_that_fit_do_not_meet(jobs in 2u16..20, first: u32, more in 0u32..100) {
            let pool = u32::from(jobs) * 64 + more;
            let windows = (1..=jobs).map(|job| window(own(job, 64, pool), first ^ u32::from(job)));
            prop_assert_eq!(windows.flatten().collect::<BTreeSet<u32>>().len(), usize::from(jobs) * 64);
        }

        #[test]
        fn places_meet_if_they_share_an_aggregator(
            jobs: [u16; 2],
            bits in [0u32..6, 0u32..6],
            pool in 1u32..200,
        ) {
            let [one, other] = [0, 1].map(|at| own(jobs[at].max(1), 1 << bits[at], pool));
            let shared = !window(one, 0).is_disjoint(&window(other, 0));
            prop_assert_eq!((one.meets(&other), other.meets(&one)), (shared, shared));
        }

        #[test]
        fn pools_may_be_as_large_as_numbers_go(job in 1u16.., pool in 1u32.., sequence: u32) {
            prop_assert!(own(job, 1 << 16, pool).index(Sequence(sequence)).0 < pool);
        }
    }

    #[test]
    fn places_of_the_contract() {
        // A change would make hosts of different versions disagree.
        let at = |job, sequence| own(job, 256, 4096).index(Sequence(sequence)).0;
        let places = [at(1, 0), at(1, 1), at(1, u32::MAX), at(2, 0), at(2, 1), at(40, 3)];
        assert_eq!(places, [0, 175, 81, 256, 449, 1991]);
    }
}
