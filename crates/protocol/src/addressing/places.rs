//! One interface to the addressing of all protocols.

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Protocol, Sequence};

use super::{Addressing, Permutation, Tasks, index};
use crate::JobConfig;
use crate::bits::SlotSet;

/// The salt of a slot and the aggregator derived from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    salt: u8,
    index: AggregatorIndex,
}

/// The aggregator of the current task of each slot.
///
/// All endpoints of a job that report the outcome of each slot's tasks in order agree on it.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// ATP: a slot keeps its aggregator until a task of it collides.
    Salted { job: JobId, pool: NonZeroU32, slots: Box<[Address]> },
    /// ESA, and ATP if so configured: each task has its own aggregator.
    Tasks(Tasks),
    /// P4INC: fragments use the segment in a fixed order.
    Permuted(Permutation),
    /// SwitchML: the rounds of a slot alternate between two aggregators.
    Alternating { offset: u32, slots: u32, odd: SlotSet },
    /// No switch aggregates, so the index is irrelevant.
    Nowhere,
}

impl Places {
    /// The state before the first task. The configuration must have been validated.
    pub(crate) fn new(config: &JobConfig) -> Self {
        let JobConfig { job, pool, slots, addressing, .. } = *config;
        let segment = config.assignment.segment;
        match config.protocol {
            Protocol::Atp if addressing == Addressing::Default => {
                let slot = |slot| Address { salt: 0, index: index(job, slot, 0, pool) };
                Self::Salted { job, pool, slots: (0..slots).map(slot).collect() }
            }
            Protocol::Atp | Protocol::Esa => Self::Tasks(config.tasks()),
            Protocol::P4inc if segment.size == 0 => Self::Nowhere,
            Protocol::P4inc => Self::Permuted(Permutation::new(job, segment)),
            Protocol::SwitchMl => {
                Self::Alternating { offset: segment.offset.0, slots, odd: SlotSet::new(slots) }
            }
        }
    }

    /// The aggregator of the current task of the fragment's slot.
    pub(crate) fn index(&self, fragment: u32) -> AggregatorIndex {
        match self {
            Self::Salted { slots, .. } => slots[slot(fragment, slots.len() as u32) as usize].index,
            Self::Tasks(tasks) => tasks.index(Sequence(fragment)),
            Self::Permuted(permutation) => permutation.index(fragment),
            Self::Alternating { offset, slots, odd } => {
                let version = u32::from(odd.contains(fragment));
                AggregatorIndex(offset + 2 * slot(fragment, *slots) + version)
            }
            Self::Nowhere => AggregatorIndex(0),
        }
    }

    /// The current salt of the fragment's slot; zero for protocols without salts.
    pub(crate) fn salt(&self, fragment: u32) -> u8 {
        match self {
            Self::Salted { slots, .. } => slots[slot(fragment, slots.len() as u32) as usize].salt,
            _ => 0,
        }
    }

    /// The aggregator of a fragment at another endpoint, given that endpoint's salt for the slot.
    pub(crate) fn index_at(&self, fragment: u32, salt: u8) -> AggregatorIndex {
        match self {
            Self::Salted { job, pool, slots } if salt != self.salt(fragment) => {
                index(*job, slot(fragment, slots.len() as u32), salt.into(), *pool)
            }
            _ => self.index(fragment),
        }
    }

    /// Adopts another endpoint's salt for the slot of a fragment.
    pub(crate) fn set_salt(&mut self, fragment: u32, salt: u8) {
        let index = self.index_at(fragment, salt);
        if let Self::Salted { slots, .. } = self {
            slots[slot(fragment, slots.len() as u32) as usize] = Address { salt, index };
        }
    }

    /// Ends the current task of the fragment's slot and moves to the slot's next task.
    pub(crate) fn over(&mut self, fragment: u32, collided: bool) {
        match self {
            Self::Salted { .. } if collided => {
                self.set_salt(fragment, self.salt(fragment).wrapping_add(1));
            }
            Self::Alternating { odd, .. } => match odd.contains(fragment) {
                true => odd.remove(fragment),
                false => odd.insert(fragment),
            },
            _ => {}
        }
    }

    /// The distance between two fragments with the same aggregator, if it is fixed.
    pub(crate) fn period(&self) -> Option<u32> {
        match self {
            Self::Permuted(permutation) => Some(permutation.size()),
            _ => None,
        }
    }
}

/// The slot of a fragment. `slots` is a power of two.
const fn slot(fragment: u32, slots: u32) -> u32 {
    fragment & (slots - 1)
}

#[cfg(test)]
mod tests {
    use tributary_wire::{Epoch, Segment, Service};

    use super::*;
    use crate::{Assignment, Mode};

    fn places(protocol: Protocol, size: u32) -> Places {
        let pool = NonZeroU32::new(1 << 20).unwrap();
        let segment = Segment { offset: AggregatorIndex(100), size };
        Places::new(&JobConfig {
            protocol,
            slots: 8,
            assignment: Assignment { service: Service::new(1), segment, mode: Mode::Local },
            ..JobConfig::new(JobId::new(1).unwrap().run(Epoch::FIRST), 2, pool)
        })
    }

    #[test]
    fn a_collision_moves_only_its_slot() {
        let mut places = places(Protocol::Atp, 0);
        let (before, other) = (places.index(13), places.index(6));
        let mut seen = vec![before];
        for _ in 0..20 {
            places.over(13, false);
            assert_eq!(Some(&places.index(13)), seen.last());
            places.over(13, true);
            assert_eq!(places.index(13), places.index(5));
            assert!(!seen.contains(&places.index(13)));
            seen.push(places.index(13));
        }
        assert_eq!(places.index(6), other);
    }

    #[test]
    fn endpoints_agree_again_after_adopting_a_salt() {
        let (mut ahead, mut behind) = (places(Protocol::Atp, 0), places(Protocol::Atp, 0));
        for _ in 0..300 {
            ahead.over(13, true);
        }
        assert_eq!(ahead.salt(13), 44, "a salt has eight bits");
        assert_ne!(ahead.index(13), behind.index(13));
        assert_eq!(behind.index_at(13, ahead.salt(13)), ahead.index(13));
        behind.set_salt(13, ahead.salt(13));
        ahead.over(13, true);
        behind.over(13, true);
        assert_eq!((ahead.index(13), ahead.salt(13)), (behind.index(13), 45));
        // In protocols without salts, the salt argument has no effect.
        let mut permuted = places(Protocol::P4inc, 16);
        let at = permuted.index(3);
        permuted.set_salt(3, 9);
        assert_eq!((permuted.index_at(3, 7), permuted.index(3), permuted.salt(3)), (at, at, 0));
    }

    #[test]
    fn rounds_of_switchml_alternate_between_the_versions_of_their_slot() {
        let mut places = places(Protocol::SwitchMl, 16);
        let all: Vec<u32> = (0..9).map(|f| places.index(f).0).collect();
        assert_eq!(all, [100, 102, 104, 106, 108, 110, 112, 114, 100]);
        for expected in [107, 106, 107] {
            places.over(3, false);
            assert_eq!((places.index(3).0, places.index(11).0), (expected, expected));
        }
        assert_eq!(places.index(4).0, 108);
    }

    #[test]
    fn rounds_of_p4inc_stay_where_their_fragment_is() {
        let mut places = places(Protocol::P4inc, 16);
        let at = places.index(3);
        places.over(3, true);
        assert_eq!((places.index(3), places.index(19), places.period()), (at, at, Some(16)));
    }
}
