//! A tensor, and how it is summed.

use std::sync::Arc;

use tributary_wire::{Audience, WorkerIndex};

use crate::buffer::Buffer;
use crate::fixed::{Rounding, Scale, Threshold};
use crate::priority::Priority;

/// Numbers to be summed over the workers, or their sums.
#[derive(Clone, PartialEq, Debug)]
pub enum Tensor {
    /// Finite numbers, summed in fixed point. Numbers below half a unit become zero; [`Rounding`](crate::fixed::Rounding)
    /// counts them. Where fixed point would overflow, ATP and ESA sum in floating point, and P4INC
    /// and SwitchML at a coarser scale. A sum beyond the range of `f32` is infinite.
    F32(Buffer<f32>),
    /// Integers of magnitude at most (2³¹ − 1) / *n*, with *n* workers; summed exactly.
    I32(Buffer<i32>),
}

impl Tensor {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Splits off the elements from `at` on, which stay in place.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::F32(values) => Self::F32(values.split_off(at)),
            Self::I32(values) => Self::I32(values.split_off(at)),
        }
    }

    /// Appends elements of the same type: without a copy if they were split off here.
    ///
    /// # Panics
    /// If the types differ.
    pub fn join(&mut self, next: Self) {
        match (self, next) {
            (Self::F32(values), Self::F32(next)) => values.join(next),
            (Self::I32(values), Self::I32(next)) => values.join(next),
            _ => panic!("tensors of different types"),
        }
    }
}

impl From<Vec<f32>> for Tensor {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values.into())
    }
}

impl From<Vec<i32>> for Tensor {
    fn from(values: Vec<i32>) -> Self {
        Self::I32(values.into())
    }
}

/// The fixed-point scale of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Point {
    /// Two to this power, from -126 to 126, is the number of units per 1.0.
    pub exponent: i8,
    /// Bits below the unit that are summed as well, in another tensor: they are not lost.
    pub rest: u8,
}

impl Point {
    /// Its scale.
    pub fn scale(self) -> Scale {
        Scale::power_of_two(self.exponent)
    }

    /// What finite values lose.
    pub fn rounding(self, values: &[f32]) -> Rounding {
        self.rounding_at(values, 0)
    }

    /// What they lose at a rung of the ladder.
    pub(super) fn rounding_at(self, values: &[f32], rung: u8) -> Rounding {
        let finest = self.scale().at(rung).finer(self.rest);
        Rounding::of(values, &Threshold::of(finest), rung > 0)
    }
}

/// The scale of each fragment of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scales {
    points: Arc<[Point]>,
    /// The fragment with which the tensor begins, if parts before it were cut off.
    first: usize,
}

impl Scales {
    /// Those of all fragments, in order.
    #[must_use]
    pub fn new(points: Vec<Point>) -> Self {
        Self { points: points.into(), first: 0 }
    }

    /// Those from a fragment on.
    #[must_use]
    pub fn after(&self, fragments: usize) -> Self {
        Self { points: Arc::clone(&self.points), first: self.first + fragments }
    }

    /// That of a fragment; one unit per 1.0 after the last one.
    pub fn of(&self, fragment: usize) -> Point {
        self.points.get(self.first + fragment).copied().unwrap_or_default()
    }
}

/// A tensor that consists of parts, one for each worker. Its fragments belong to the workers in turns, so that all links
/// are used at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    exchange: Exchange,
    /// The fragment with which the tensor begins, if those before it were cut off.
    first: u32,
}

/// What workers do with the parts of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// A worker gets the sums of its part. It keeps its own values of the others.
    ReduceScatter,
    /// A worker gives its part, and gets those of the others, bit by bit: what it has there does not matter.
    /// For integers, of any magnitude.
    AllGather,
}

/// A worker's role in a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Role {
    /// Who needs the values of the result.
    pub(super) audience: Audience,
    /// Whether this worker has values to add.
    pub(super) gives: bool,
    /// Whether it needs the values of the result.
    pub(super) takes: bool,
}

impl Role {
    /// In a tensor without parts.
    pub(super) const ALL: Self = Self { audience: Audience::ALL, gives: true, takes: true };
}

impl Parts {
    /// The parts of a whole tensor.
    #[must_use]
    pub const fn new(exchange: Exchange) -> Self {
        Self { exchange, first: 0 }
    }

    /// The same for a tensor without its first fragments.
    #[must_use]
    pub const fn after(self, fragments: u32) -> Self {
        Self { first: self.first + fragments, ..self }
    }

    /// What the workers do.
    pub const fn exchange(&self) -> Exchange {
        self.exchange
    }

    /// The role of a worker in a fragment, in a job of so many workers that have a position each.
    pub(super) fn role(&self, fragment: u32, (worker, workers): (WorkerIndex, u16)) -> Role {
        let owner = (u64::from(self.first) + u64::from(fragment)) % u64::from(workers);
        let is_own = owner == u64::from(worker.get());
        // There are at most as many workers as positions.
        let owner = owner as u8;
        match self.exchange {
            Exchange::ReduceScatter => {
                Role { audience: Audience::only(owner), gives: true, takes: is_own }
            }
            Exchange::AllGather => {
                Role { audience: Audience::all_but(owner), gives: is_own, takes: !is_own }
            }
        }
    }
}

/// How a tensor is summed. All workers must submit a tensor on the same terms.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    /// For the aggregators (ESA §5.4). ATP ignores it. An aggregator uses the last one that it received.
    pub priority: Priority,
    /// The fixed-point scales; `None` for the [configured](crate::WorkerConfig::scale) one. Integers have
    /// none.
    pub scales: Option<Scales>,
    /// Its parts, if not all workers give and get all of it: with P4INC and SwitchML, in jobs that one switch serves.
    pub parts: Option<Parts>,
    /// The [greatest magnitude](crate::fixed::greatest) of the elements, if it is known: it is not computed
    /// again then.
    pub greatest: Option<f32>,
}

impl From<Priority> for Terms {
    fn from(priority: Priority) -> Self {
        Self { priority, scales: None, parts: None, greatest: None }
    }
}

/// Identifies a tensor: counted from zero in the order of submission, so that it is the same at all
/// workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId(pub u64);
