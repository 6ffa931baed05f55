//! Sets of workers of a job.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::{WORKERS_MAX, WorkerIndex};

/// Most ranges that are written out.
const RANGES_SHOWN: usize = 16;

/// Ascending numbers as text for messages, with ranges: `0–3`, `7`, `9`. After 16 ranges it ends with an
/// ellipsis and how many numbers there are.
#[must_use]
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let count: u64 = ranges.iter().map(|(first, last)| last - first + 1).sum();
    let text = |&(first, last): &(u64, u64)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first}–{last}")],
    };
    let mut shown: Vec<String> = ranges.iter().take(RANGES_SHOWN).flat_map(text).collect();
    if ranges.len() > RANGES_SHOWN {
        shown.push(format!("… ({count} in all)"));
    }
    shown
}

/// Workers with these ascending indices, in words: `worker 3`, or `workers 0–3, 7`.
#[must_use]
pub fn name_workers(indices: impl IntoIterator<Item = u16>) -> String {
    let indices: Vec<u64> = indices.into_iter().map(u64::from).collect();
    let plural = if indices.len() == 1 { "" } else { "s" };
    format!("worker{plural} {}", ranges(indices).join(", "))
}

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
    /// Writes what [`name_workers`] does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_workers(self.iter().map(WorkerIndex::get)))
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
    fn neighbours_are_named_as_ranges() {
        for (workers, name) in [
            (&[3][..], "worker 3"),
            (&[0, 1], "workers 0, 1"),
            (&[0, 1, 2, 7, 9, 10], "workers 0–2, 7, 9, 10"),
        ] {
            assert_eq!(name_workers(workers.iter().copied()), name);
        }
        assert_eq!(WorkerSet::range(80, 256).to_string(), "workers 80–255");
        let even = ranges((0..128).map(|number| 2 * number));
        assert_eq!((even.len(), &even[15][..], &even[16][..]), (17, "30", "… (128 in all)"));
    }

    #[test]
    fn low_bits_are_the_lowest_workers() {
        let set = WorkerSet::from_low_bits(0x8000_0009);
        assert_eq!(set.to_string(), "workers 0, 3, 31");
        assert_eq!(set.words().next(), Some(0x8000_0009));
        assert_eq!(WorkerSet::from_words([0; 33]), None);
        assert_eq!(WorkerSet::EMPTY.lowest(), None);
    }
}
