//! The queue of tensors, and where in it a fragment lies.
//!
//! A tensor's sums overwrite its values, fragment by fragment: once a result is in nobody asks for
//! the values again, so a tensor needs no second buffer.

use std::collections::VecDeque;
use std::ops::Range;

use tributary_wire::values;

use super::Failure;
use crate::config::SLOTS_MAX;
use crate::fixed::{self, Scale};
use crate::priority::Priority;

/// Sequences from here up are never used, so that sums of a sequence and a window cannot wrap.
const SEQUENCE_END: u32 = u32::MAX - 2 * SLOTS_MAX;

/// Numbers that are to be summed over the workers, or have been.
#[derive(Clone, PartialEq, Debug)]
pub enum Tensor {
    /// Finite numbers, summed in fixed point, or in floating point where that would overflow. A sum
    /// beyond the range of `f32` is infinite.
    F32(Vec<f32>),
    /// Integers of at most (2³¹ − 1) / *n* in magnitude, with *n* workers; summed exactly.
    I32(Vec<i32>),
}

impl Tensor {
    /// How many numbers it has.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Names a tensor of one worker: counted from zero in the order of submission, so that it is the same
/// at all workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId(pub u64);

/// Why a tensor was not taken.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// NaN or infinite.
    #[error("value {position} is {value}, which cannot be summed")]
    NotFinite {
        /// Where in the tensor.
        position: usize,
        /// The value.
        value: f32,
    },
    /// The sum of such values over all workers could overflow.
    #[error("value {position} is {value}; with that many workers at most {limit} can be summed")]
    TooGreat {
        /// Where in the tensor.
        position: usize,
        /// The value.
        value: i32,
        /// The greatest magnitude that is allowed.
        limit: i32,
    },
    /// The job has used up its sequence numbers.
    #[error("the tensor needs {needed} sequence numbers, the job has {left} left")]
    SequencesExhausted {
        /// Fragments of the tensor.
        needed: u64,
        /// Sequence numbers left.
        left: u32,
    },
    /// The worker has given up.
    #[error("the worker has given up: {0}")]
    Failed(Failure),
    /// The worker was told to leave.
    #[error("the worker is leaving its job")]
    Leaving,
}

/// How a fragment was written into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    /// As integers.
    Fixed,
    /// As `f32` bit patterns.
    Float,
}

/// A float was asked of a tensor of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KindMismatch;

#[derive(Clone, Debug)]
struct Queued {
    id: TensorId,
    tensor: Tensor,
    priority: Priority,
    /// Sequence of its first fragment.
    first: u32,
    /// Fragments whose results are not in.
    missing: u32,
}

impl Queued {
    /// Which of the tensor's numbers are in a fragment of it: V, but for the last one.
    fn range(&self, sequence: u32, values: usize) -> Range<usize> {
        let start = (sequence - self.first) as usize * values;
        start..self.tensor.len().min(start + values)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tensors {
    queue: VecDeque<Queued>,
    values_per_packet: usize,
    next_id: u64,
    /// One beyond the last sequence of the last tensor.
    end: u32,
}

impl Tensors {
    pub(super) fn new(values_per_packet: u16) -> Self {
        Self {
            queue: VecDeque::new(),
            values_per_packet: values_per_packet.into(),
            next_id: 0,
            end: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// One beyond the last sequence that there are values for.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    pub(super) fn submit(
        &mut self,
        tensor: Tensor,
        priority: Priority,
        limit: i32,
    ) -> Result<TensorId, SubmitError> {
        check(&tensor, limit)?;
        let needed = tensor.len().div_ceil(self.values_per_packet) as u64;
        let left = SEQUENCE_END - self.end;
        let missing = match u32::try_from(needed) {
            Ok(needed) if needed <= left => needed,
            _ => return Err(SubmitError::SequencesExhausted { needed, left }),
        };
        let id = TensorId(self.next_id);
        self.next_id += 1;
        self.queue.push_back(Queued { id, tensor, priority, first: self.end, missing });
        self.end += missing;
        Ok(id)
    }

    /// The priority of a fragment whose result is not in.
    pub(super) fn priority(&self, sequence: u32) -> Priority {
        self.find(sequence).map_or(Priority::LOWEST, |at| self.queue[at].priority)
    }

    /// Writes a fragment's values into a zeroed payload: as integers if `float` is not set and all
    /// of them fit, else as floats.
    pub(super) fn encode(
        &self,
        sequence: u32,
        float: bool,
        scale: Scale,
        limit: i32,
        payload: &mut [u8],
    ) -> Result<Encoding, KindMismatch> {
        let Some(queued) = self.find(sequence).map(|at| &self.queue[at]) else {
            debug_assert!(false, "fragment {sequence} of no tensor");
            return Ok(Encoding::Fixed);
        };
        let range = queued.range(sequence, self.values_per_packet);
        match &queued.tensor {
            Tensor::F32(numbers) => {
                let numbers = &numbers[range];
                if !float && fixed::encode(numbers, scale, limit, payload) {
                    return Ok(Encoding::Fixed);
                }
                values::write_f32(payload, numbers);
                Ok(Encoding::Float)
            }
            Tensor::I32(_) if float => Err(KindMismatch),
            Tensor::I32(numbers) => {
                values::write_i32(payload, &numbers[range]);
                Ok(Encoding::Fixed)
            }
        }
    }

    /// Puts a fragment's sums in the place of its values. Each fragment may be stored once.
    pub(super) fn store(
        &mut self,
        sequence: u32,
        encoding: Encoding,
        scale: Scale,
        payload: &[u8],
    ) -> Result<(), KindMismatch> {
        let Some(at) = self.find(sequence) else {
            debug_assert!(false, "fragment {sequence} of no tensor");
            return Ok(());
        };
        let queued = &mut self.queue[at];
        let range = queued.range(sequence, self.values_per_packet);
        match (&mut queued.tensor, encoding) {
            (Tensor::F32(numbers), Encoding::Fixed) => {
                fixed::decode(payload, scale, &mut numbers[range])
            }
            (Tensor::F32(numbers), Encoding::Float) => {
                copy(&mut numbers[range], values::read_f32(payload))
            }
            (Tensor::I32(numbers), Encoding::Fixed) => {
                copy(&mut numbers[range], values::read_i32(payload))
            }
            (Tensor::I32(_), Encoding::Float) => return Err(KindMismatch),
        }
        queued.missing -= 1;
        Ok(())
    }

    /// Takes the first tensor if its sums are in.
    pub(super) fn pop_done(&mut self) -> Option<(TensorId, Tensor)> {
        let done = self.queue.pop_front_if(|queued| queued.missing == 0)?;
        Some((done.id, done.tensor))
    }

    /// The place in the queue of the tensor that a fragment belongs to.
    fn find(&self, sequence: u32) -> Option<usize> {
        // Empty tensors share their first sequence with the one after them, which comes later.
        let after = self.queue.partition_point(|queued| queued.first <= sequence);
        after.checked_sub(1).filter(|_| sequence < self.end)
    }
}

fn copy<T>(numbers: &mut [T], values: impl Iterator<Item = T>) {
    for (number, value) in numbers.iter_mut().zip(values) {
        *number = value;
    }
}

fn check(tensor: &Tensor, limit: i32) -> Result<(), SubmitError> {
    match tensor {
        Tensor::F32(values) => match values.iter().position(|v| !v.is_finite()) {
            None => Ok(()),
            Some(position) => Err(SubmitError::NotFinite { position, value: values[position] }),
        },
        Tensor::I32(values) => {
            let limit_magnitude = limit.unsigned_abs();
            match values.iter().position(|v| v.unsigned_abs() > limit_magnitude) {
                None => Ok(()),
                Some(position) => {
                    Err(SubmitError::TooGreat { position, value: values[position], limit })
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_be_summed() {
        let mut tensors = Tensors::new(4);
        let mut submit = |tensor| tensors.submit(tensor, Priority::LOWEST, 100);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = submit(Tensor::F32(vec![0.0, 1.0, value])).unwrap_err();
            assert!(matches!(error, SubmitError::NotFinite { position: 2, .. }), "{error}");
        }
        for value in [101, -101, i32::MIN, i32::MAX] {
            let error = submit(Tensor::I32(vec![100, -100, 0, value])).unwrap_err();
            assert_eq!(error, SubmitError::TooGreat { position: 3, value, limit: 100 });
        }
        assert_eq!(submit(Tensor::I32(vec![100, -100])), Ok(TensorId(0)));
    }

    #[test]
    fn fragments_are_counted_over_all_tensors() {
        let mut tensors = Tensors::new(4);
        let mut submit =
            |n| tensors.submit(Tensor::I32(vec![1; n]), Priority::LOWEST, 100).unwrap();
        assert_eq!(
            [submit(0), submit(5), submit(0), submit(4), submit(1)].map(|id| id.0),
            [0, 1, 2, 3, 4]
        );
        assert_eq!(tensors.end(), 4);
        let place = [0, 1, 2, 3, 4].map(|s| tensors.find(s));
        assert_eq!(place, [Some(1), Some(1), Some(3), Some(4), None]);
        assert_eq!(tensors.queue[1].range(1, 4), 4..5);
        assert_eq!(tensors.pop_done(), Some((TensorId(0), Tensor::I32(vec![]))));
        assert_eq!(tensors.pop_done(), None);
    }

    #[test]
    fn sequences_run_out_before_they_wrap() {
        let mut tensors = Tensors::new(1);
        tensors.end = SEQUENCE_END - 3;
        let error = tensors.submit(Tensor::I32(vec![0; 4]), Priority::LOWEST, 1).unwrap_err();
        assert_eq!(error, SubmitError::SequencesExhausted { needed: 4, left: 3 });
        assert!(tensors.submit(Tensor::I32(vec![0; 3]), Priority::LOWEST, 1).is_ok());
    }
}
