//! Encodings of values, and the handling of values that are too large (I5).

use std::ops::Range;

use tributary_wire::values;

use super::WorkerConfig;
use super::tensors::{SubmitError, Tensor};
use crate::fixed::{self, COARSEST, Rounding, Scale};
use crate::numbering::Numbering;

/// The form in which values are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As integers, at this rung of the scale ladder.
    Fixed { rung: u8 },
    /// As `f32` bit patterns.
    Float,
}

/// How a fragment was written into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    /// As integers.
    Fixed,
    /// As `f32` bit patterns.
    Float,
    /// As zeros, because some values do not fit the rung.
    TooGreat,
}

/// The form does not suit the tensor: integer tensors are sent as integers only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KindMismatch;

/// The handling of values that are too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Overflow {
    /// ATP and ESA: the fragment is sent as floats.
    Floats,
    /// P4INC and SwitchML: the packet carries the overflow flag, and the fragment is sent again at
    /// the next rung.
    Ladder,
}

/// The encoding of a job's values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    scale: Scale,
    /// The largest magnitude of an integer.
    limit: i32,
    overflow: Overflow,
}

impl Codec {
    pub(super) fn new(config: &WorkerConfig) -> Self {
        Self {
            scale: config.scale,
            limit: fixed::limit(config.job.workers()),
            overflow: match Numbering::of(config.job.protocol) {
                Numbering::Fragments => Overflow::Floats,
                Numbering::Rounds => Overflow::Ladder,
            },
        }
    }

    /// Checks that the values can be summed.
    pub(super) fn check(&self, tensor: &Tensor) -> Result<(), SubmitError> {
        let limit = self.limit;
        match tensor {
            Tensor::F32(values) => {
                if let Some(position) = values.iter().position(|v| !v.is_finite()) {
                    return Err(SubmitError::NotFinite { position, value: values[position] });
                }
                if self.overflow == Overflow::Ladder
                    && let Some(position) =
                        fixed::first_too_great(values, self.scale.at(COARSEST), limit)
                {
                    return Err(SubmitError::OffLadder { position, value: values[position] });
                }
            }
            Tensor::I32(values) => {
                let magnitude = limit.unsigned_abs();
                if let Some(position) = values.iter().position(|v| v.unsigned_abs() > magnitude) {
                    return Err(SubmitError::TooGreat { position, value: values[position], limit });
                }
            }
        }
        Ok(())
    }

    /// Writes a part of a tensor into a zeroed payload, in the requested form if the values fit.
    pub(super) fn encode(
        &self,
        tensor: &Tensor,
        range: Range<usize>,
        form: Form,
        payload: &mut [u8],
    ) -> Result<Encoding, KindMismatch> {
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                let numbers = &numbers[range];
                if fixed::encode(numbers, self.scale.at(rung), self.limit, payload) {
                    return Ok(Encoding::Fixed);
                }
                if self.overflow == Overflow::Ladder {
                    payload.fill(0);
                    return Ok(Encoding::TooGreat);
                }
                values::write_f32(payload, numbers);
                Ok(Encoding::Float)
            }
            (Tensor::F32(numbers), Form::Float) => {
                values::write_f32(payload, &numbers[range]);
                Ok(Encoding::Float)
            }
            (Tensor::I32(numbers), Form::Fixed { rung: 0 }) => {
                values::write_i32(payload, &numbers[range]);
                Ok(Encoding::Fixed)
            }
            (Tensor::I32(_), _) => Err(KindMismatch),
        }
    }

    /// Overwrites a part of a tensor with its sums, and counts the rounding of the values there.
    pub(super) fn decode(
        &self,
        payload: &[u8],
        form: Form,
        tensor: &mut Tensor,
        range: Range<usize>,
        rounding: &mut Rounding,
    ) -> Result<(), KindMismatch> {
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                let (numbers, scale) = (&mut numbers[range], self.scale.at(rung));
                rounding.count(numbers, scale, rung > 0);
                fixed::decode(payload, scale, numbers);
            }
            (Tensor::F32(numbers), Form::Float) => {
                rounding.count_floats(&numbers[range.clone()]);
                copy(&mut numbers[range], values::read_f32(payload));
            }
            (Tensor::I32(numbers), Form::Fixed { rung: 0 }) => {
                copy(&mut numbers[range], values::read_i32(payload));
            }
            (Tensor::I32(_), _) => return Err(KindMismatch),
        }
        Ok(())
    }
}

fn copy<T>(numbers: &mut [T], values: impl Iterator<Item = T>) {
    for (number, value) in numbers.iter_mut().zip(values) {
        *number = value;
    }
}
