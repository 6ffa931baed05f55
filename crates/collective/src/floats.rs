//! The types of elements, and sums of the short ones.

use std::fmt;

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use tributary_protocol::buffer::Buffer;

/// The type of the elements that are summed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElementType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// Single precision with 16 bits less.
    Bf16,
}

impl ElementType {
    /// The type of this name: `float32`, `float16` or `bfloat16`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::F32, Self::F16, Self::Bf16].into_iter().find(|element| element.name() == name)
    }

    /// Its name, as in PyTorch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The values of 16-bit floats, which `f32` holds exactly.
pub(crate) fn widen(bits: &Buffer<u16>, element: ElementType) -> Vec<f32> {
    let mut values = vec![0.0; bits.len()];
    match element {
        ElementType::F16 => bits.reinterpret_cast::<f16>().convert_to_f32_slice(&mut values),
        ElementType::Bf16 => bits.reinterpret_cast::<bf16>().convert_to_f32_slice(&mut values),
        ElementType::F32 => unreachable!("not a 16-bit type"),
    }
    values
}

/// Rounds values to 16-bit floats, ties to even. What is too large becomes infinite.
pub(crate) fn narrow(values: &[f32], element: ElementType, bits: &mut Buffer<u16>) {
    match element {
        ElementType::F16 => bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values),
        ElementType::Bf16 => bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values),
        ElementType::F32 => unreachable!("not a 16-bit type"),
    }
}
