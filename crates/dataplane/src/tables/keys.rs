//! Keys: matches of entries, and their validation.

use tributary_p4::ir::{self, MatchKind};

use crate::error::TableError;
use crate::value::Value;

/// The match of one key of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KeyMatch {
    /// Equal.
    Exact(Value),
    /// The highest `prefix_len` bits are equal. The value's other bits must be zero.
    Lpm {
        /// Value.
        value: Value,
        /// Bits of the prefix, 0 up to the key's width.
        prefix_len: u32,
    },
    /// Equal under a mask. The value's bits outside the mask must be zero.
    Ternary {
        /// Value.
        value: Value,
        /// Bits that are compared.
        mask: Value,
    },
    /// Within bounds, inclusive.
    Range {
        /// Smallest matching value.
        low: Value,
        /// Largest matching value.
        high: Value,
    },
    /// Equal, or anything.
    Optional(Option<Value>),
}

impl KeyMatch {
    /// The match kind.
    pub(crate) fn kind(&self) -> MatchKind {
        match self {
            Self::Exact(_) => MatchKind::Exact,
            Self::Lpm { .. } => MatchKind::Lpm,
            Self::Ternary { .. } => MatchKind::Ternary,
            Self::Range { .. } => MatchKind::Range,
            Self::Optional(_) => MatchKind::Optional,
        }
    }
}

/// A key: its width in bits and its match kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyShape {
    pub(crate) width: u32,
    pub(crate) kind: MatchKind,
}

/// A key of an entry in the program, as a match of the key's kind.
pub(super) fn program_match(
    key: usize,
    keyset: &ir::Keyset,
    shape: KeyShape,
) -> Result<KeyMatch, TableError> {
    use ir::Keyset;
    let value = |limbs: &[u64]| Value::from_limbs(limbs);
    let ones = || Value::ones(shape.width);
    let bad = |reason| TableError::BadMatch { key, reason };
    Ok(match (shape.kind, keyset) {
        (MatchKind::Exact, Keyset::Value(v)) => KeyMatch::Exact(value(v)),
        (MatchKind::Lpm, Keyset::Any) => KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        (MatchKind::Lpm, Keyset::Value(v)) => {
            KeyMatch::Lpm { value: value(v), prefix_len: shape.width }
        }
        (MatchKind::Lpm, Keyset::Prefix { value: v, len }) => {
            KeyMatch::Lpm { value: value(v), prefix_len: *len }
        }
        (MatchKind::Lpm, Keyset::Masked { value: v, mask }) => {
            let mask = value(mask);
            let prefix_len = (0..=shape.width)
                .find(|&len| prefix_mask(shape.width, len) == mask)
                .ok_or(bad("the mask of an lpm key must be a prefix"))?;
            KeyMatch::Lpm { value: and(&value(v), &mask), prefix_len }
        }
        (MatchKind::Ternary, Keyset::Any) => {
            KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() }
        }
        (MatchKind::Ternary, Keyset::Value(v)) => {
            KeyMatch::Ternary { value: value(v), mask: ones() }
        }
        (MatchKind::Ternary, Keyset::Masked { value: v, mask }) => {
            let mask = value(mask);
            KeyMatch::Ternary { value: and(&value(v), &mask), mask }
        }
        (MatchKind::Range, Keyset::Any) => KeyMatch::Range { low: Value::zero(), high: ones() },
        (MatchKind::Range, Keyset::Value(v)) => KeyMatch::Range { low: value(v), high: value(v) },
        (MatchKind::Range, Keyset::Range { low, high }) => {
            KeyMatch::Range { low: value(low), high: value(high) }
        }
        (MatchKind::Optional, Keyset::Any) => KeyMatch::Optional(None),
        (MatchKind::Optional, Keyset::Value(v)) => KeyMatch::Optional(Some(value(v))),
        _ => return Err(TableError::MatchKind(key)),
    })
}

pub(crate) fn check_match(key: usize, found: &KeyMatch, shape: KeyShape) -> Result<(), TableError> {
    let width = shape.width;
    let fits = |value: &Value| {
        if value.fits(width) { Ok(()) } else { Err(TableError::KeyWidth { key, width }) }
    };
    let bad = |reason| Err(TableError::BadMatch { key, reason });
    match (shape.kind, found) {
        (MatchKind::Exact, KeyMatch::Exact(value)) => fits(value),
        (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
            fits(value)?;
            if *prefix_len > width {
                bad("the prefix is longer than the key")
            } else if and(value, &prefix_mask(width, *prefix_len)) != *value {
                bad("the value has bits outside the prefix")
            } else {
                Ok(())
            }
        }
        (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
            fits(value)?;
            fits(mask)?;
            if and(value, mask) == *value {
                Ok(())
            } else {
                bad("the value has bits outside the mask")
            }
        }
        (MatchKind::Range, KeyMatch::Range { low, high }) => {
            fits(low)?;
            fits(high)?;
            if low <= high { Ok(()) } else { bad("the range is empty") }
        }
        (MatchKind::Optional, KeyMatch::Optional(value)) => value.as_ref().map_or(Ok(()), fits),
        _ => Err(TableError::MatchKind(key)),
    }
}

/// The mask of a prefix.
pub(crate) fn prefix_mask(width: u32, len: u32) -> Value {
    let (ones, low) = (Value::ones(width), Value::ones(width - len.min(width)));
    let limbs = width.div_ceil(64) as usize;
    let mask: Vec<u64> = ones.limbs(limbs).zip(low.limbs(limbs)).map(|(a, b)| a & !b).collect();
    Value::from_limbs(&mask)
}

/// Number of bits from the highest one in which two values differ.
pub(super) fn differing_bits(a: &Value, b: &Value) -> u32 {
    let limbs = a.bits().max(b.bits()).div_ceil(64) as usize;
    let both = (0..).zip(a.limbs(limbs).zip(b.limbs(limbs)));
    both.map(|(at, (a, b))| (a ^ b).checked_ilog2().map_or(0, |bit| 64 * at + bit + 1))
        .max()
        .unwrap_or(0)
}

pub(super) fn and(a: &Value, b: &Value) -> Value {
    let limbs = a.bits().div_ceil(64) as usize;
    let both: Vec<u64> = a.limbs(limbs).zip(b.limbs(limbs)).map(|(a, b)| a & b).collect();
    Value::from_limbs(&both)
}
