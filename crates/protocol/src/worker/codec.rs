//! Encodings of values, and the handling of values that are too large (I5).

use std::ops::Range;

use tributary_wire::{RUNGS, values};

use super::{Scales, SubmitError, Tensor, WorkerConfig};
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

/// The scales of a tensor's fragments, with the bounds of their rounding.
#[derive(Clone, Debug)]
enum Ladders {
    /// The configured one for all: each rung's.
    Same([Threshold; RUNGS as usize]),
    /// One for each fragment, at the first rung.
    Each(Scales),
}

/// The encoding of a tensor's values.
#[derive(Clone, Debug)]
pub(super) struct Codec {
    ladders: Ladders,
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
            ladders: Ladders::Same(rungs(config.scale)),
            limit: fixed::limit(config.job.workers()),
            overflow: match Numbering::of(config.job.protocol) {
                Numbering::Fragments => Overflow::Floats,
                Numbering::Rounds => Overflow::Ladder,
            },
        }
    }

    /// The same encoding at these scales.
    pub(super) fn at(&self, scales: Scales) -> Self {
        Self { ladders: Ladders::Each(scales), ..*self }
    }

    /// That of a fragment of a tensor at a rung.
    fn scale(&self, fragment: usize, rung: u8) -> Scale {
        match &self.ladders {
            Ladders::Same(rungs) => rungs[usize::from(rung.min(COARSEST))].scale(),
            Ladders::Each(scales) => scales.of(fragment).scale().at(rung),
        }
    }

    /// What the values of a fragment lose at a rung.
    fn rounding(&self, values: &[f32], fragment: usize, rung: u8) -> Rounding {
        match &self.ladders {
            Ladders::Same(rungs) => {
                Rounding::of(values, &rungs[usize::from(rung.min(COARSEST))], rung > 0)
            }
            Ladders::Each(scales) => scales.of(fragment).rounding_at(values, rung),
        }
    }

    /// The first value that is too great even for the coarsest rung of its fragment.
    fn first_off_ladder(&self, values: &[f32], greatest: f32, per_packet: usize) -> Option<usize> {
        let too_great = |part: &[f32], fragment| {
            fixed::first_too_great(part, self.scale(fragment, COARSEST), self.limit)
        };
        match &self.ladders {
            Ladders::Same(_) if fixed::fits(greatest, self.scale(0, COARSEST), self.limit) => None,
            Ladders::Same(_) => too_great(values, 0),
            Ladders::Each(_) => {
                let parts = values.chunks(per_packet).enumerate();
                parts.into_iter().find_map(|(fragment, part)| {
                    // The tensor's greatest value may fit, which saves a look at the fragment's.
                    let fits = |most| fixed::fits(most, self.scale(fragment, COARSEST), self.limit);
                    if fits(greatest) || fits(fixed::greatest(part)) {
                        return None;
                    }
                    Some(fragment * per_packet + too_great(part, fragment)?)
                })
            }
        }
    }

    /// Checks that the values can be summed. Their greatest magnitude may be known.
    pub(super) fn check(
        &self,
        tensor: &Tensor,
        greatest: Option<f32>,
        per_packet: usize,
    ) -> Result<(), SubmitError> {
        let limit = self.limit;
        match tensor {
            Tensor::F32(values) => {
                let greatest = greatest.unwrap_or_else(|| fixed::greatest(values));
                if !greatest.is_finite()
                    && let Some(position) = values.iter().position(|v| !v.is_finite())
                {
                    return Err(SubmitError::NotFinite { position, value: values[position] });
                }
                if self.overflow == Overflow::Ladder
                    && let Some(position) = self.first_off_ladder(values, greatest, per_packet)
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

    /// Writes a fragment of a tensor, the elements of `range`, into a payload of its length, in the requested form
    /// if the values fit.
    pub(super) fn encode(
        &self,
        tensor: &Tensor,
        fragment: usize,
        range: Range<usize>,
        form: Form,
        payload: &mut [u8],
    ) -> Result<Encoding, KindMismatch> {
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                let numbers = &numbers[range];
                if fixed::encode(numbers, self.scale(fragment, rung), self.limit, payload) {
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

    /// The rounding of the values of a fragment whose sums are for others.
    pub(super) fn lost(
        &self,
        form: Form,
        tensor: &Tensor,
        fragment: usize,
        range: Range<usize>,
    ) -> Rounding {
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                self.rounding(&numbers[range], fragment, rung)
            }
            _ => Rounding::default(),
        }
    }

    /// Overwrites a fragment of a tensor with its sums. Returns the rounding of the values there.
    pub(super) fn decode(
        &self,
        payload: &[u8],
        form: Form,
        tensor: &mut Tensor,
        fragment: usize,
        range: Range<usize>,
    ) -> Result<Rounding, KindMismatch> {
        let mut rounding = Rounding::default();
        match (tensor, form) {
            (Tensor::F32(numbers), Form::Fixed { rung }) => {
                let numbers = &mut numbers[range];
                rounding = self.rounding(numbers, fragment, rung);
                fixed::decode(payload, self.scale(fragment, rung), numbers);
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
