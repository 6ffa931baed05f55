//! The meaning of sequences.

use tributary_wire::{FRAGMENTS_MAX, Protocol, Round, Sequence};

use crate::config::SLOTS_MAX;

/// The number of fragments of a run, after which no sequence number is left.
#[must_use]
pub const fn fragments(protocol: Protocol) -> u32 {
    Numbering::of(protocol).fragments()
}

/// The unit that a protocol's sequences count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    /// ATP and ESA: fragments, which always are at the first rung.
    Fragments,
    /// P4INC and SwitchML: rounds.
    Rounds,
}

impl Numbering {
    pub(crate) const fn of(protocol: Protocol) -> Self {
        if protocol.has_rounds() { Self::Rounds } else { Self::Fragments }
    }

    /// Decodes a sequence.
    pub(crate) const fn round(self, sequence: Sequence) -> Round {
        match self {
            Self::Fragments => Round::first(sequence.0),
            Self::Rounds => Round::of(sequence),
        }
    }

    /// The sequence of a round.
    pub(crate) const fn sequence(self, round: Round) -> Sequence {
        match self {
            Self::Fragments => Sequence(round.fragment),
            Self::Rounds => round.sequence(),
        }
    }

    /// Fragments from here up are never used, so that a fragment plus a window neither wraps nor
    /// lacks a sequence.
    pub(crate) const fn fragments(self) -> u32 {
        match self {
            Self::Fragments => u32::MAX - 2 * SLOTS_MAX,
            Self::Rounds => FRAGMENTS_MAX - 2 * SLOTS_MAX,
        }
    }
}
