//! The flags of the aggregation header.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// The flags of the aggregation header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Retransmission: each switch on the path removes the partial sum from the matching
    /// aggregator.
    pub const RESEND: Self = Self(0x01);
    /// Another task held the aggregator that the fragment hashes to.
    pub const COLLISION: Self = Self(0x02);
    /// ATP and ESA: the values are `f32` bit patterns, because an integer would have overflowed.
    /// P4INC and SwitchML: the values are meaningless, because an integer would have overflowed on
    /// this rung.
    pub const OVERFLOW: Self = Self(0x04);
    /// Congestion mark: at least one packet of the sum passed a long queue.
    pub const ECN: Self = Self(0x08);

    /// On a gradient: the values are the result, which a worker hands over to a PS that lacks it.
    /// No contribution has both flags, because a retransmission cannot collide.
    pub const RESULT: Self = Self(Self::RESEND.0 | Self::COLLISION.0);
    /// On a query: the PS replaced another PS. A worker that has the result hands it over.
    pub const HAND_OVER: Self = Self::ECN;
    /// ESA, between workers and the PS: the packet bypasses the aggregators, and the priority byte
    /// holds [its purpose](super::Repair). No other packet has both flags, because floats never
    /// reach an aggregator.
    pub const REPAIR: Self = Self(Self::COLLISION.0 | Self::OVERFLOW.0);

    const KNOWN: u8 = 0x0f;

    /// Decodes the header's byte. `None` if an unknown bit is set.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN == 0 { Some(Self(bits)) } else { None }
    }

    /// Encodes the header's byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Flags {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    /// Writes the names: `RESEND | ECN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::RESEND, "RESEND"),
            (Self::COLLISION, "COLLISION"),
            (Self::OVERFLOW, "OVERFLOW"),
            (Self::ECN, "ECN"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        if separator.is_empty() { f.write_str("NONE") } else { Ok(()) }
    }
}
