//! A tensor, and how it is summed.

use crate::buffer::Buffer;
use crate::fixed::Scale;
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

/// How a tensor is summed. All workers must submit a tensor on the same terms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// For the aggregators (ESA §5.4). ATP ignores it. An aggregator uses the last one that it received.
    pub priority: Priority,
    /// Fixed-point units per 1.0; `None` for the [configured](crate::WorkerConfig::scale) ones. Integers have
    /// none.
    pub scale: Option<Scale>,
    /// The [greatest magnitude](crate::fixed::greatest) of the elements, if it is known: it is not computed
    /// again then.
    pub greatest: Option<f32>,
}

impl From<Priority> for Terms {
    fn from(priority: Priority) -> Self {
        Self { priority, scale: None, greatest: None }
    }
}

/// Identifies a tensor: counted from zero in the order of submission, so that it is the same at all
/// workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId(pub u64);
