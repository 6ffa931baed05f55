//! The header's flags.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// The header's flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Sent again: on its way it takes the partial sum out of a matching aggregator.
    pub const RESEND: Self = Self(0x01);
    /// The fragment met an aggregator that another task held.
    pub const COLLISION: Self = Self(0x02);
    /// ATP and ESA: the values are `f32` bit patterns, because an integer would have overflowed.
    /// P4INC and SwitchML: the values mean nothing, because an integer would have overflowed on
    /// this rung.
    pub const OVERFLOW: Self = Self(0x04);
    /// A queue was long on the way of one of the packets that are in this one.
    pub const ECN: Self = Self(0x08);

    /// On a gradient: it is no contribution but the result, which a worker hands over to a PS that
    /// lacks it. No contribution has both flags: what is sent again cannot collide.
    pub const RESULT: Self = Self(Self::RESEND.0 | Self::COLLISION.0);
    /// On a query: its PS took the place of another. Who has the result hands it over.
    pub const HAND_OVER: Self = Self::ECN;
    /// ESA, between workers and the PS: this goes around the aggregators, and the byte for priority says
    /// [what it is](super::Repair). No other packet has both flags: floats meet no aggregator.
    pub const REPAIR: Self = Self(Self::COLLISION.0 | Self::OVERFLOW.0);

    const KNOWN: u8 = 0x0f;

    /// From the header's byte; `None` if it has bits that mean nothing.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN == 0 { Some(Self(bits)) } else { None }
    }

    /// The header's byte.
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
    /// The names: `RESEND | ECN`.
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
