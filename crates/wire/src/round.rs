//! Rounds: attempts to sum a fragment.

use std::fmt;

use crate::Sequence;

/// The number of rungs of the scale ladder. A fragment is sent at most once per rung, each time at
/// a coarser scale.
pub const RUNGS: u8 = 8;

/// The largest number of fragments per run of a job. It is one less than the numbers would allow, because a
/// switch stores a round's number plus one.
pub const FRAGMENTS_MAX: u32 = (1 << 29) - 1;

/// The sequence field of P4INC and SwitchML: 8 · fragment + rung.
///
/// If a sum could overflow, all workers resend the fragment at the next rung, which divides the
/// scale further. A switch treats it as a later round: a greater sequence is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Round {
    /// The fragment, counted over a run of the job; less than [`FRAGMENTS_MAX`].
    pub fragment: u32,
    /// The attempt; less than [`RUNGS`].
    pub rung: u8,
}

impl Round {
    /// The first attempt at a fragment.
    pub const fn first(fragment: u32) -> Self {
        Self { fragment, rung: 0 }
    }

    /// Decodes a sequence. Every sequence is a round; fragments from [`FRAGMENTS_MAX`] up are
    /// unused.
    pub const fn of(sequence: Sequence) -> Self {
        let rungs = RUNGS as u32;
        Self { fragment: sequence.0 / rungs, rung: (sequence.0 % rungs) as u8 }
    }

    /// Encodes the round as a sequence.
    pub const fn sequence(self) -> Sequence {
        debug_assert!(self.fragment <= FRAGMENTS_MAX && self.rung < RUNGS);
        Sequence(self.fragment.wrapping_mul(RUNGS as u32).wrapping_add(self.rung as u32))
    }

    /// The next attempt, at the next coarser scale; `None` after the last rung.
    pub const fn coarser(self) -> Option<Self> {
        if self.rung + 1 < RUNGS { Some(Self { rung: self.rung + 1, ..self }) } else { None }
    }
}

impl From<Sequence> for Round {
    fn from(sequence: Sequence) -> Self {
        Self::of(sequence)
    }
}

impl From<Round> for Sequence {
    fn from(round: Round) -> Self {
        round.sequence()
    }
}

impl fmt::Display for Round {
    /// Writes fragment and rung: `17/2`. The rung is omitted if it is the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rung {
            0 => self.fragment.fmt(f),
            rung => write!(f, "{}/{rung}", self.fragment),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sequence_is_a_round_and_back(sequence: u32) {
            let round = Round::of(Sequence(sequence));
            prop_assert_eq!(round.sequence(), Sequence(sequence));
            prop_assert!(round.rung < RUNGS);
        }

        #[test]
        fn later_rounds_are_greater_sequences(a: u32, b: u32) {
            let (a, b) = (Sequence(a), Sequence(b));
            prop_assert_eq!(a.cmp(&b), Round::of(a).cmp(&Round::of(b)));
        }
    }

    #[test]
    fn rungs_follow_each_other_within_a_fragment() {
        let mut round = Round::first(5);
        for rung in 0..RUNGS {
            assert_eq!(round.sequence(), Sequence(40 + u32::from(rung)));
            match round.coarser() {
                Some(next) => round = next,
                None => assert_eq!(rung, RUNGS - 1),
            }
        }
        assert_eq!((Round::first(5).to_string(), round.to_string()), ("5".into(), "5/7".into()));
    }

    #[test]
    fn the_last_round_leaves_room_for_the_number_plus_one() {
        let last = Round { fragment: FRAGMENTS_MAX - 1, rung: RUNGS - 1 };
        assert!(last.sequence().0 < u32::MAX);
        assert_eq!(Round::of(Sequence(u32::MAX)).fragment, FRAGMENTS_MAX);
    }
}
