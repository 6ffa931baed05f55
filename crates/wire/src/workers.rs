//! Sets of workers of a job.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::{WORKERS_MAX, WorkerIndex};

/// Words of a set.
const WORDS: usize = WORKERS_MAX as usize / 64;

/// A set of workers of one job. What a packet says of them is a [`Bitmap`](crate::Bitmap).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WorkerSet([u64; WORDS]);

impl WorkerSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The set of one worker.
    pub const fn of(worker: WorkerIndex) -> Self {
        let mut set = Self::EMPTY;
        set.0[worker.get() as usize / 64] = 1 << (worker.get() % 64);
        set
    }

    /// Workers 0 to `workers` − 1. All 1024 workers if `workers` is 1024 or more.
    pub fn first(workers: u16) -> Self {
        let word = |at: usize| match usize::from(workers).saturating_sub(64 * at) {
            here @ 0..64 => (1 << here) - 1,
            _ => u64::MAX,
        };
        Self(std::array::from_fn(word))
    }

    /// The workers from `start` to `end` − 1.
    pub fn range(start: u16, end: u16) -> Self {
        Self::first(end).without(Self::first(start))
    }

    /// The set with these bits for workers 0 to 31.
    pub const fn from_low_bits(bits: u32) -> Self {
        let mut set = Self::EMPTY;
        set.0[0] = bits as u64;
        set
    }

    /// The set in 32-bit words, the lowest workers first.
    pub fn words(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
        (0..2 * WORDS).map(|at| (self.0[at / 2] >> (32 * (at % 2))) as u32)
    }

    /// The set of these [`words`](Self::words); missing ones are zero. `None` if there are too many.
    pub fn from_words(words: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut set = Self::EMPTY;
        for (at, word) in words.into_iter().enumerate() {
            *set.0.get_mut(at / 2)? |= u64::from(word) << (32 * (at % 2));
        }
        Some(set)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Number of workers in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the set contains the worker.
    pub const fn contains(&self, worker: WorkerIndex) -> bool {
        self.0[worker.get() as usize / 64] >> (worker.get() % 64) & 1 != 0
    }

    /// Whether every worker of `self` is in `other`.
    pub fn is_subset(&self, other: Self) -> bool {
        self.without(other).is_empty()
    }

    /// Whether `self` and `other` have no worker in common.
    pub fn is_disjoint(&self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(a, b)| a & b == 0)
    }

    /// The workers of `self` that are not in `other`.
    #[must_use]
    pub fn without(&self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// The worker with the lowest index.
    pub fn lowest(&self) -> Option<WorkerIndex> {
        let at = self.0.iter().position(|word| *word != 0)?;
        WorkerIndex::new((64 * at) as u16 + self.0[at].trailing_zeros() as u16)
    }

    /// The workers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = WorkerIndex> + use<> {
        let mut rest = *self;
        std::iter::from_fn(move || {
            let worker = rest.lowest()?;
            rest = rest.without(Self::of(worker));
            Some(worker)
        })
    }
}

impl BitOr for WorkerSet {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self |= other;
        self
    }
}

impl BitOrAssign for WorkerSet {
    fn bitor_assign(&mut self, other: Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }
}

impl From<WorkerIndex> for WorkerSet {
    fn from(worker: WorkerIndex) -> Self {
        Self::of(worker)
    }
}

impl FromIterator<WorkerIndex> for WorkerSet {
    fn from_iter<I: IntoIterator<Item = WorkerIndex>>(workers: I) -> Self {
        workers.into_iter().fold(Self::EMPTY, |all, worker| all | Self::of(worker))
    }
}

impl fmt::Display for WorkerSet {
    /// Writes the indices of the workers: `{0, 3}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(WorkerIndex::get)).finish()
    }
}

impl fmt::Debug for WorkerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(workers: &BTreeSet<u16>) -> WorkerSet {
        workers.iter().map(|&worker| WorkerIndex::new(worker).unwrap()).collect()
    }

    fn list(set: WorkerSet) -> BTreeSet<u16> {
        set.iter().map(WorkerIndex::get).collect()
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets(
            a in proptest::collection::btree_set(0..WORKERS_MAX, 0..40),
            b in proptest::collection::btree_set(0..WORKERS_MAX, 0..40),
            ends in (0..=WORKERS_MAX, 0..=WORKERS_MAX),
        ) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(list(x), a.clone());
            prop_assert_eq!(x.len() as usize, a.len());
            prop_assert_eq!(x.lowest().map(WorkerIndex::get), a.first().copied());
            prop_assert_eq!(list(x | y), a.union(&b).copied().collect());
            prop_assert_eq!(list(x.without(y)), a.difference(&b).copied().collect());
            prop_assert_eq!((x.is_subset(y), x.is_disjoint(y)), (a.is_subset(&b), a.is_disjoint(&b)));
            prop_assert_eq!((x == y, x.is_empty()), (a == b, a.is_empty()));
            prop_assert_eq!(WorkerSet::from_words(x.words()), Some(x));
            prop_assert_eq!(list(WorkerSet::range(ends.0, ends.1)), (ends.0..ends.1).collect());
        }
    }

    #[test]
    fn low_bits_are_the_lowest_workers() {
        let set = WorkerSet::from_low_bits(0x8000_0009);
        assert_eq!(set.to_string(), "{0, 3, 31}");
        assert_eq!(set.words().next(), Some(0x8000_0009));
        assert_eq!(WorkerSet::from_words([0; 33]), None);
        assert_eq!(WorkerSet::EMPTY.lowest(), None);
    }
}
