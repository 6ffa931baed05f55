//! What sequences count.

use tributary_wire::{FRAGMENTS_MAX, Protocol, Round, Sequence};

use crate::config::SLOTS_MAX;

/// What the sequences of a protocol count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    /// ATP and ESA: fragments. Each is at the first rung for ever.
    Fragments,
    /// P4INC and SwitchML: rounds.
    Rounds,
}

impl Numbering {
    pub(crate) const fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Atp | Protocol::Esa => Self::Fragments,
            Protocol::P4inc | Protocol::SwitchMl => Self::Rounds,
        }
    }

    /// What a sequence means.
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

    /// Fragments from here up are never used, so that sums of a fragment and a window can neither
    /// wrap nor have no sequence.
    pub(crate) const fn fragments(self) -> u32 {
        match self {
            Self::Fragments => u32::MAX - 2 * SLOTS_MAX,
            Self::Rounds => FRAGMENTS_MAX - 2 * SLOTS_MAX,
        }
    }
}
