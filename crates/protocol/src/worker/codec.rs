//! Encodings of values, and the handling of values that are too large (I5).

use std::ops::Range;

use tributary_wire::{RUNGS, values};

use super::{SubmitError, Tensor, WorkerConfig};
use crate::fixed::{self, COARSEST, Rounding, Scale, Threshold};
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

/// The encoding of a tensor's values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    /// The scale of each rung, with the bounds of its rounding.
    rungs: [Threshold; RUNGS as usize],
    /// The largest magnitude of an integer.
    limit: i32,
    overflow: Overflow,
}

fn rungs(scale: Scale) -> [Threshold; RUNGS as usize] {
    std::array::from_fn(|rung| Threshold::of(scale.at(rung as u8)))
}

impl Codec {
    pub(super) fn new(config: &WorkerConfig) -> Self {
        Self {
            rungs: rungs(config.scale),
            limit: fixed::limit(config.job.workers()),
            overflow: match Numbering::of(config.job.protocol) {
                Numbering::Fragments => Overflow::Floats,
                Numbering::Rounds => Overflow::Ladder,
            },
        }
    }

    /// The same encoding at another scale.
    pub(super) fn at(self, scale: Scale) -> Self {
        Self { rungs: rungs(scale), ..self }
    }

    fn rung(&self, rung: u8) -> &Threshold {
        &self.rungs[usize::from(rung.min(COARSEST))]
    }

    /// Checks that the values can be summed. Their greatest magnitude may be known.
    pub(super) fn check(&self, tensor: &Tensor, greatest: Option<f32>) -> Result<(), SubmitError> {
        let limit = self.limit;
        match tensor {
            Tensor::F32(values) => {
                let greatest = greatest.unwrap_or_else(|| fixed::greatest(values));
                if !greatest.is_finite()
                    && let Some(position) = values.iter().position(|v| !v.is_finite())
                {
                    return Err(SubmitError::NotFinite { position, value: values[position] });
                }
                let coarsest = self.rung(COARSEST).scale();
                if self.overflow == Overflow::Ladder
                    && !fixed::fits(greatest, coarsest, limit)
                    && let Some(position) = fixed::first_too_great(values, coarsest, limit)
                {
                    return Err(SubmitError::OffLadder { position, value: values[position] });
                }
            }
            Tensor::I32(values) => {
                if let Some(position) = fixed::first_integer_too_great(values, limit) {
                    return Err(SubmitError::TooGreat { position, value: values[position], limit });
                }
            }
        }
        Ok(())
    }

    /// Writes a part of a tensor into a payload of its length, in the requested form if the values
    /// fit.
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
                if fixed::encode(numbers, self.rung(rung).scale(), self.limit, payload) {
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
                fixed::write(&numbers[range], payload);
                Ok(Encoding::Fixed)
            }
            (Tensor::I32(_), _) => Err(KindMismatch),
        }
    }

    /// Overwrites a part of a tensor with its sums. Returns the rounding of the values there.
    pub(super) fn decode(
        &self,
        payload: &[u8],
        form: Form,
        tensor: &mut Tensor,
        range: Range<usize>,
    ) -> Result<Rounding, KindMismatch> {
        let mut rounding = Rounding::default();
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                let (numbers, threshold) = (&mut numbers[range], self.rung(rung));
                rounding = Rounding::of(numbers, threshold, rung > 0);
                fixed::decode(payload, threshold.scale(), numbers);
            }
            (Tensor::F32(numbers), Form::Float) => {
                rounding.count_floats(&numbers[range.clone()]);
                for (number, value) in numbers[range].iter_mut().zip(values::read_f32(payload)) {
                    *number = value;
                }
            }
            (Tensor::I32(numbers), Form::Fixed { rung: 0 }) => {
                fixed::read(payload, &mut numbers[range]);
            }
            (Tensor::I32(_), _) => return Err(KindMismatch),
        }
        Ok(rounding)
    }
}
