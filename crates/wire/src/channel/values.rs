//! The values in a message.

use std::fmt;

use bytes::Bytes;

use crate::values::read_i32;

/// The values of one fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct Values {
    /// Whether the words are `f32` bit patterns rather than `i32`.
    pub float: bool,
    /// The encoded values: four bytes each, big-endian, as in a packet.
    pub payload: Bytes,
}

impl Values {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.payload.len() / 4
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The values as integers; meaningful unless [`float`](Self::float) is set.
    pub fn i32s(&self) -> impl ExactSizeIterator<Item = i32> + '_ {
        read_i32(&self.payload)
    }
}

impl fmt::Debug for Values {
    /// Writes number and type: `64 × i32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.len(), if self.float { "f32" } else { "i32" })
    }
}
