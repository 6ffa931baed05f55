//! P4INC: the order in which a job's fragments use the aggregators of its segment.

use std::sync::Arc;

use tributary_wire::{AggregatorIndex, JobId, Segment};

use super::mix;

/// Maps fragments to aggregators of the segment (P4INC-AOI §VI.B).
///
/// The paper hashes job and fragment, and a worker that finds the aggregator in use by another of
/// its fragments moves to a different one. All workers must move in the same way, although they
/// have different fragments in flight. We therefore decide it in advance. Fragments 0, 1, … up to
/// the size of the segment are hashed in this order. If an earlier fragment has the aggregator, the
/// fragment takes the next free one. The outcome is a permutation π, and fragment *f* uses offset +
/// π(*f* mod size). Fragments less than the size of the segment apart never share an aggregator.
#[derive(Clone, Debug)]
pub struct Permutation {
    offset: u32,
    /// π. Immutable, so clones share it.
    places: Arc<[u32]>,
}

impl Permutation {
    /// The permutation of a job in a segment.
    ///
    /// # Panics
    ///
    /// If the segment is empty.
    pub fn new(job: JobId, segment: Segment) -> Self {
        let size = segment.size;
        assert!(size > 0, "a segment has aggregators");
        let mut free = Free::new(size);
        let place = |x: u32| {
            let key = u64::from(job.get()) << 32 | u64::from(x);
            free.take_from((mix(key) % u64::from(size)) as u32)
        };
        Self { offset: segment.offset.0, places: (0..size).map(place).collect() }
    }

    /// The aggregator of a fragment.
    pub fn index(&self, fragment: u32) -> AggregatorIndex {
        AggregatorIndex(self.offset + self.places[(fragment % self.size()) as usize])
    }

    /// Number of aggregators: the distance between two fragments with the same aggregator.
    pub fn size(&self) -> u32 {
        self.places.len() as u32
    }
}

/// The free places of a ring. Finding one takes almost constant time however full the ring is: each
/// taken place holds a hint where to look next, and each search shortens the hints that it follows.
struct Free(Vec<u32>);

impl Free {
    fn new(size: u32) -> Self {
        Self((0..size).collect())
    }

    /// Takes the first free place at or after `at`. At least one place must be free.
    fn take_from(&mut self, at: u32) -> u32 {
        let mut found = at;
        while self.0[found as usize] != found {
            let hint = self.0[found as usize];
            self.0[found as usize] = self.0[hint as usize];
            found = hint;
        }
        self.0[found as usize] = (found + 1) % self.0.len() as u32;
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn permutation(job: u16, offset: u32, size: u32) -> Permutation {
        let segment = Segment { offset: AggregatorIndex(offset), size };
        Permutation::new(JobId::new(job).unwrap(), segment)
    }

    proptest! {
        #[test]
        fn a_window_as_large_as_the_segment_meets_no_aggregator_twice(
            job in 1u16..,
            offset in 0u32..1000,
            size in 1u32..200,
            first in 0u32..1 << 29,
        ) {
            let permutation = permutation(job, offset, size);
            let used: BTreeSet<u32> = (first..first + size).map(|f| permutation.index(f).0).collect();
            prop_assert_eq!(used, (offset..offset + size).collect::<BTreeSet<u32>>());
            prop_assert_eq!(permutation.index(first), permutation.index(first + size));
        }

        #[test]
        fn each_avoids_those_before_it_by_going_on_to_the_next_free_one(job in 1u16.., size in 1u32..100) {
            // The rule as documented, one place after the other.
            let permutation = permutation(job, 0, size);
            let mut taken = vec![false; size as usize];
            for x in 0..size {
                let mut place = mix(u64::from(job) << 32 | u64::from(x)) % u64::from(size);
                while taken[place as usize] {
                    place = (place + 1) % u64::from(size);
                }
                taken[place as usize] = true;
                prop_assert_eq!(u64::from(permutation.index(x).0), place);
            }
        }
    }

    #[test]
    fn places_of_the_contract() {
        // A change would make workers of different versions disagree.
        let permutation = permutation(263, 512, 8);
        let places: Vec<u32> = (0..9).map(|f| permutation.index(f).0 - 512).collect();
        assert_eq!(places, [3, 5, 0, 1, 4, 2, 6, 7, 3]);
    }

    #[test]
    fn jobs_go_in_different_orders() {
        let order = |job| (0..64).map(|f| permutation(job, 0, 64).index(f)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn large_segments_are_fast() {
        let permutation = permutation(1, 0, 1 << 20);
        assert_eq!(permutation.index(5), permutation.index((1 << 20) + 5));
    }
}
