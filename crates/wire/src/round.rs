//! Fragments and the attempts to add them up.

use std::fmt;

use crate::Sequence;

/// The rungs of the scale ladder: how often a fragment can be sent, each time at a coarser scale.
pub const RUNGS: u8 = 8;

/// How many fragments a job can have. One less than there would be numbers for, because a switch
/// keeps a round's number plus one.
pub const FRAGMENTS_MAX: u32 = (1 << 29) - 1;

/// What P4INC and SwitchML carry as the sequence: 8 · fragment + rung.
///
/// If a sum could overflow, all workers send the fragment again at the next rung, which divides the
/// scale further. To a switch that is simply a later round: what is greater is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Round {
    /// The fragment, counted over the whole life of the job, below [`FRAGMENTS_MAX`].
    pub fragment: u32,
    /// Which attempt at it, below [`RUNGS`].
    pub rung: u8,
}

impl Round {
    /// The first attempt at a fragment.
    pub const fn first(fragment: u32) -> Self {
        Self { fragment, rung: 0 }
    }

    /// The round that a sequence means. Every sequence means one; those of fragments from
    /// [`FRAGMENTS_MAX`] up are not used.
    pub const fn of(sequence: Sequence) -> Self {
        let rungs = RUNGS as u32;
        Self { fragment: sequence.0 / rungs, rung: (sequence.0 % rungs) as u8 }
    }

    /// The sequence that means it.
    pub const fn sequence(self) -> Sequence {
        debug_assert!(self.fragment <= FRAGMENTS_MAX && self.rung < RUNGS);
        Sequence(self.fragment.wrapping_mul(RUNGS as u32).wrapping_add(self.rung as u32))
    }

    /// The attempt after it, at the next coarser scale; `None` behind the last rung.
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
    /// Fragment and rung: `17/2`; the rung only if it is not the first.
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
