//! The values of a call.

use std::borrow::Cow;

use tributary_protocol::buffer::Buffer;

use crate::ElementType;
use crate::floats::widen;

/// Numbers that are summed in place.
#[derive(Debug)]
pub enum Values {
    /// Of type [`ElementType::F32`].
    Single(Buffer<f32>),
    /// Of a 16-bit type, as bits. They are summed as `f32`, and the sum is rounded.
    Short(Buffer<u16>, ElementType),
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Short(values, _) => values.len(),
        }
    }

    pub(crate) fn floats(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Single(values) => Cow::Borrowed(values),
            Self::Short(bits, element) => Cow::Owned(widen(bits, *element)),
        }
    }

    pub(crate) fn element(&self) -> ElementType {
        match self {
            Self::Single(_) => ElementType::F32,
            Self::Short(_, element) => *element,
        }
    }
}
