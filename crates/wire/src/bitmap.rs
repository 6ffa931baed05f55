//! Sets of workers or racks, as packets carry them.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

use crate::POSITIONS_MAX;

/// A set of a job's positions, or of the workers of a rack (see [`Rack`](crate::Rack)). In a job of
/// up to 32 workers that have a position each, bit *w* stands for worker *w*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bitmap(pub u32);

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of one: bit `position`, which is less than [`POSITIONS_MAX`].
    pub const fn of(position: u8) -> Self {
        Self(1 << position)
    }

    /// Bits 0 to `count` − 1. All 32 bits if `count` is 32 or more.
    pub const fn first(count: u8) -> Self {
        if count >= POSITIONS_MAX { Self(u32::MAX) } else { Self((1 << count) - 1) }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of bits in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set contains the bit.
    pub const fn contains(self, position: u8) -> bool {
        self.0 & Self::of(position).0 != 0
    }

    /// Whether every bit of `self` is in `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether `self` and `other` have no bit in common.
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }

    /// The bits of `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The lowest bit.
    pub const fn lowest(self) -> Option<u8> {
        if self.is_empty() { None } else { Some(self.0.trailing_zeros() as u8) }
    }

    /// The bits, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let position = rest.lowest()?;
            rest = rest.without(Self::of(position));
            Some(position)
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

impl fmt::Display for Bitmap {
    /// Writes the numbers of the bits: `{0, 3}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, position) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{position}")?;
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
        let all: Vec<u8> = Bitmap(0x8000_0009).iter().collect();
        assert_eq!(all, [0, 3, 31]);
        assert_eq!(Bitmap(0x8000_0009).to_string(), "{0, 3, 31}");
        assert_eq!(Bitmap::EMPTY.lowest(), None);
        assert_eq!(Bitmap::EMPTY.to_string(), "{}");
    }
}
