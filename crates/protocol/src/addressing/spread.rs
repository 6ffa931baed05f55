//! ESA: placement of a job's tasks in the shared pool.

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Sequence};

use super::mix;

/// The aggregators of a job's tasks: an arithmetic progression modulo the size of the pool. Its
/// start and step depend on the job.
///
/// The step and the size of the pool are coprime, so tasks less than the size of the pool apart
/// never share an aggregator.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    first: u64,
    step: u64,
    pool: u64,
}

impl Spread {
    /// The spread of a job, in a pool of `pool` aggregators.
    pub fn new(job: JobId, pool: NonZeroU32) -> Self {
        let pool = u64::from(pool.get());
        let first = mix(job.get().into());
        let mut step = mix(first) % pool;
        while common_factor(step, pool) != 1 {
            step += 1;
        }
        Self { first: first % pool, step, pool }
    }

    /// The aggregator of a task.
    pub fn index(&self, sequence: Sequence) -> AggregatorIndex {
        let index = (self.first + u64::from(sequence.0) * self.step) % self.pool;
        AggregatorIndex(index as u32)
    }
}

/// Greatest common divisor.
const fn common_factor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn spread(job: u16, pool: u32) -> Spread {
        Spread::new(JobId::new(job).unwrap(), NonZeroU32::new(pool).unwrap())
    }

    fn places(spread: Spread, first: u32, count: u32) -> impl Iterator<Item = u32> {
        (first..first + count).map(move |at| spread.index(Sequence(at)).0)
    }

    proptest! {
        #[test]
        fn a_window_as_large_as_the_pool_meets_no_aggregator_twice(
            job in 1u16..,
            pool in 1u32..3000,
            first in 0u32..u32::MAX - 3000,
        ) {
            let used: BTreeSet<u32> = places(spread(job, pool), first, pool).collect();
            prop_assert_eq!(used, (0..pool).collect::<BTreeSet<u32>>());
        }

        #[test]
        fn pools_may_be_as_large_as_numbers_go(job in 1u16.., pool in 1u32.., sequence: u32) {
            prop_assert!(spread(job, pool).index(Sequence(sequence)).0 < pool);
        }
    }

    #[test]
    fn two_jobs_meet_as_rarely_as_with_a_hash() {
        // Windows of 256 in 4096 aggregators: with a hash, two windows would share 16.
        let window = |job, first| places(spread(job, 4096), first, 256).collect::<BTreeSet<u32>>();
        let (mut common, mut most) = (0, 0);
        for job in 2..202 {
            let met = window(1, 0).intersection(&window(job, u32::from(job) * 1000)).count();
            common += met;
            most = most.max(met);
        }
        assert!((12..=20).contains(&(common / 200)), "{common}");
        assert!(most <= 64, "{most}");
    }

    #[test]
    fn places_of_the_contract() {
        // A change would make hosts of different versions disagree.
        let at = |job, sequence| spread(job, 4096).index(Sequence(sequence)).0;
        let places = [at(1, 0), at(1, 1), at(1, u32::MAX), at(2, 0), at(2, 1)];
        assert_eq!(places, [3265, 3552, 2978, 1742, 2947]);
    }
}
