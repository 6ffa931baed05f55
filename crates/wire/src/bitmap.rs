//! Sets of workers.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

use crate::{WORKERS_MAX, WorkerIndex};

/// A set of workers: bit *w* stands for worker *w*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bitmap(pub u32);

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of one worker.
    pub const fn of(worker: WorkerIndex) -> Self {
        Self(1 << worker.get())
    }

    /// Workers 0 to `workers` − 1. All 32 workers if `workers` is 32 or more.
    pub const fn first(workers: u8) -> Self {
        if workers >= WORKERS_MAX { Self(u32::MAX) } else { Self((1 << workers) - 1) }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of workers in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set contains the worker.
    pub const fn contains(self, worker: WorkerIndex) -> bool {
        self.0 & Self::of(worker).0 != 0
    }

    /// Whether every worker of `self` is in `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether `self` and `other` have no worker in common.
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }

    /// The workers of `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The worker with the lowest index.
    pub const fn lowest(self) -> Option<WorkerIndex> {
        // An empty set has 32 trailing zeros, which is not a valid index.
        WorkerIndex::new(self.0.trailing_zeros() as u8)
    }

    /// The workers, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = WorkerIndex> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let worker = rest.lowest()?;
            rest = rest.without(Self::of(worker));
            Some(worker)
        })
    }
}

impl BitOr for Bitmap {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Bitmap {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Bitmap {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl From<WorkerIndex> for Bitmap {
    fn from(worker: WorkerIndex) -> Self {
        Self::of(worker)
    }
}

impl fmt::Display for Bitmap {
    /// Writes the indices of the workers: `{0, 3}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, worker) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{worker}")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_has_that_many_workers() {
        for n in 0..=u8::MAX {
            assert_eq!(Bitmap::first(n).len(), u32::from(n.min(32)));
            assert!(Bitmap::first(n).is_subset(Bitmap::first(n.saturating_add(1))));
        }
    }

    #[test]
    fn iterates_in_ascending_order() {
        let all: Vec<u8> = Bitmap(0x8000_0009).iter().map(WorkerIndex::get).collect();
        assert_eq!(all, [0, 3, 31]);
        assert_eq!(Bitmap(0x8000_0009).to_string(), "{0, 3, 31}");
        assert_eq!(Bitmap::EMPTY.lowest(), None);
        assert_eq!(Bitmap::EMPTY.to_string(), "{}");
    }
}
