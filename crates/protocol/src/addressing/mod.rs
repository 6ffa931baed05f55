//! Mapping of tasks to aggregators.
//!
//! # ESA
//!
//! The paper hashes job and sequence. With a hash, the tasks of a job take each other's aggregators
//! even if the job is alone: with 256 tasks in flight in 4096 aggregators, one in sixteen collides.
//! Here each job has its [`Own`] place in the pool: its tasks never collide with each other, and with
//! those of other jobs only where places overlap. Nothing is reserved: tasks of other
//! jobs may take the aggregators of an idle one. A [`Spread`] over the whole pool also keeps the tasks
//! of a job apart, but jobs collide as often as with a hash.
//!
//! # ATP
//!
//! ATP also hashes job and sequence. We hash job and slot with a salt per slot, so that a slot
//! keeps its aggregator until one of its tasks collides; then the salt is incremented. The PS
//! decides whether a task collided and announces it to all workers in the result, so workers and PS
//! agree on the salt of every slot at every task: see [`crate`] for the argument. Gradients and
//! results carry the salt, too. A replacement PS learns it from gradients, and workers that
//! received results from different PSs agree again after the next result.
//!
//! # P4INC
//!
//! A job has its own segment, within which a [`Permutation`] gives the fragments of a window
//! distinct aggregators.
//!
//! # SwitchML
//!
//! Each slot has two aggregators, its versions, and its rounds alternate between them.

mod own;
mod permutation;
mod places;
mod spread;

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Sequence};

pub use own::Own;
pub use permutation::Permutation;
pub(crate) use places::Places;
pub use spread::Spread;

/// How the tasks of a job of ATP or ESA are spread over the pool.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Addressing {
    /// ATP: settled slots. ESA: a place of the job's own.
    #[default]
    Default,
    /// The papers' `hash(job, sequence) mod pool`: a job collides with itself, too.
    Hashed,
    /// An arithmetic progression in both protocols.
    Spread,
}

impl Addressing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::Hashed, Self::Spread];

    /// The name in job files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Hashed => "hashed",
            Self::Spread => "spread",
        }
    }
}

/// The aggregators of the tasks of a job whose addressing keeps no state.
#[derive(Clone, Copy, Debug)]
pub enum Tasks {
    /// As [`Addressing::Default`] in ESA.
    Own(Own),
    /// As [`Addressing::Spread`].
    Spread(Spread),
    /// As [`Addressing::Hashed`].
    Hashed {
        /// The job.
        job: JobId,
        /// Number of aggregators.
        pool: NonZeroU32,
    },
}

impl Tasks {
    /// The tasks of an ESA job, or of an ATP job without settled slots.
    pub fn new(job: JobId, slots: u32, pool: NonZeroU32, addressing: Addressing) -> Self {
        match addressing {
            Addressing::Hashed => Self::Hashed { job, pool },
            Addressing::Default => Self::Own(Own::new(job, slots, pool)),
            Addressing::Spread => Self::Spread(Spread::new(job, pool)),
        }
    }

    /// The aggregator of a task.
    pub fn index(&self, sequence: Sequence) -> AggregatorIndex {
        match *self {
            Self::Own(own) => own.index(sequence),
            Self::Spread(spread) => spread.index(sequence),
            Self::Hashed { job, pool } => {
                let key = u64::from(job.get()) << 32 | u64::from(sequence.0);
                let index = mix(key) % u64::from(pool.get());
                AggregatorIndex(index as u32)
            }
        }
    }
}

/// The aggregator of a slot of an ATP job, in a pool of `pool` aggregators.
pub fn index(job: JobId, slot: u32, salt: u32, pool: NonZeroU32) -> AggregatorIndex {
    // Slots are below 2^16, so all keys differ.
    let key = u64::from(job.get()) << 48 | u64::from(slot) << 32 | u64::from(salt);
    let index = mix(key) % u64::from(pool.get());
    AggregatorIndex(index as u32)
}

/// A bijection in which every output bit depends on every input bit (the finaliser of SplitMix64).
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_the_pool_and_spreads() {
        let job = JobId::new(7).unwrap();
        let pool = NonZeroU32::new(64).unwrap();
        let mut used = [0u32; 64];
        for slot in 0..256 {
            for salt in 0..16 {
                used[index(job, slot, salt, pool).0 as usize] += 1;
            }
        }
        // The expected count is 64 each; a deviation of five sigma is 40.
        assert!(used.iter().all(|n| (24..=104).contains(n)), "{used:?}");
    }

    #[test]
    fn is_the_same_everywhere() {
        // Workers and PS of different builds must agree, so the function must never change.
        let at = |job, slot, salt| {
            index(JobId::new(job).unwrap(), slot, salt, NonZeroU32::new(4096).unwrap()).0
        };
        assert_eq!(
            [at(1, 0, 0), at(1, 1, 0), at(1, 0, 1), at(0xffff, 0xffff, u32::MAX)],
            [1872, 1351, 3305, 3104]
        );
    }
}
