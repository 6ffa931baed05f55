//! What a packet's values are stored in.

use std::fmt;

use super::{FieldId, HeaderId};

/// A scalar field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Hierarchical name, for example `hdr.ipv4.ttl`.
    pub name: String,
    /// Type.
    pub ty: Scalar,
    /// The object that contains it, which determines when it is reset.
    pub role: FieldRole,
}

/// The object that contains a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldRole {
    /// A field of a header instance.
    Header(HeaderId),
    /// The validity bit of a header instance.
    Validity(HeaderId),
    /// Architecture metadata that is not in a header.
    Intrinsic,
    /// The program's own metadata: zero at the start of each packet.
    Metadata,
    /// A local variable or an inlined parameter: zero at the start of each packet.
    Local,
    /// A run-time parameter of an action, written from the matching entry's action data or by the
    /// caller.
    ActionParam,
}

/// A scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Width in bits, at least 1. For a varbit field, the maximum width.
    pub width: u32,
    /// Whether it is in two's complement (`int<W>`), unlike `bit<W>`, `bool`, enums and errors.
    pub signed: bool,
}

impl Scalar {
    /// `bit<width>`.
    #[must_use]
    pub const fn bit(width: u32) -> Self {
        Self { width, signed: false }
    }

    /// `bool`.
    pub const BOOL: Self = Self::bit(1);

    /// Number of 64-bit limbs of a value.
    #[must_use]
    pub const fn limbs(self) -> usize {
        self.width.div_ceil(64) as usize
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}>", if self.signed { "int" } else { "bit" }, self.width)
    }
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    /// Hierarchical name, for example `hdr.ipv4`.
    pub name: String,
    /// Name of its type.
    pub type_name: String,
    /// Its fields in wire order.
    pub fields: Vec<FieldId>,
    /// One bit: valid or not.
    pub valid: FieldId,
    /// For a header with a varbit field: that field's index in `fields`, and the field that holds
    /// its length in bits.
    pub varbit: Option<(usize, FieldId)>,
}

/// A header stack.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Hierarchical name.
    pub name: String,
    /// Its elements.
    pub elements: Vec<HeaderId>,
    /// The 32-bit field that holds `nextIndex`.
    pub next_index: FieldId,
}
