//! Integers of any width for the exchange between control plane and engine.

use std::fmt;

/// A non-negative integer of any size.
///
/// Stored as 64-bit limbs, least significant first, without zero limbs at the top: two values are
/// equal if and only if the numbers are, independent of their original width. The value of a signed
/// field is its two's complement pattern within the field's width.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Value {
    low: u64,
    /// Limbs above the lowest; the last one is not zero.
    high: Vec<u64>,
}

impl Value {
    /// Zero.
    #[must_use]
    pub const fn zero() -> Self {
        Self { low: 0, high: Vec::new() }
    }

    /// Creates a value from limbs, least significant first.
    #[must_use]
    pub fn from_limbs(limbs: &[u64]) -> Self {
        let Some((&low, high)) = limbs.split_first() else { return Self::zero() };
        let used = high.iter().rposition(|&limb| limb != 0).map_or(0, |last| last + 1);
        Self { low, high: high[..used].to_vec() }
    }

    /// Creates a value from bytes, most significant first, as in P4Runtime. No bytes: zero.
    #[must_use]
    pub fn from_be_bytes(bytes: &[u8]) -> Self {
        let limbs: Vec<u64> = bytes
            .rchunks(8)
            .map(|chunk| chunk.iter().fold(0, |limb, &byte| limb << 8 | u64::from(byte)))
            .collect();
        Self::from_limbs(&limbs)
    }

    /// The shortest big-endian form, at least one byte: P4Runtime's canonical form.
    #[must_use]
    pub fn to_be_bytes(&self) -> Vec<u8> {
        let length = (self.bits().div_ceil(8) as usize).max(1);
        (0..length).rev().map(|i| (self.limb(i / 8) >> (8 * (i % 8))) as u8).collect()
    }

    /// Limb `index`, counted from the least significant; zero beyond the number's size.
    #[must_use]
    pub fn limb(&self, index: usize) -> u64 {
        match index {
            0 => self.low,
            _ => self.high.get(index - 1).copied().unwrap_or(0),
        }
    }

    /// Number of bits up to the highest that is set; 0 for zero.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match self.high.last() {
            None => 64 - self.low.leading_zeros(),
            Some(top) => 64 * self.high.len() as u32 + 64 - top.leading_zeros(),
        }
    }

    /// Whether the value fits into a field of `width` bits.
    #[must_use]
    pub fn fits(&self, width: u32) -> bool {
        self.bits() <= width
    }

    /// The value as an integer, if it has at most 64 bits.
    #[must_use]
    pub fn to_u64(&self) -> Option<u64> {
        self.high.is_empty().then_some(self.low)
    }

    /// All ones in the given number of bits.
    #[must_use]
    pub fn ones(width: u32) -> Self {
        let limbs: Vec<u64> =
            (0..width.div_ceil(64)).map(|i| crate::bits::mask((width - 64 * i).min(64))).collect();
        Self::from_limbs(&limbs)
    }

    /// `count` limbs, least significant first, truncated or extended with zeros.
    pub(crate) fn limbs(&self, count: usize) -> impl Iterator<Item = u64> + '_ {
        (0..count).map(|i| self.limb(i))
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.high
            .len()
            .cmp(&other.high.len())
            .then_with(|| self.high.iter().rev().cmp(other.high.iter().rev()))
            .then_with(|| self.low.cmp(&other.low))
    }
}

impl From<u64> for Value {
    fn from(low: u64) -> Self {
        Self { low, high: Vec::new() }
    }
}

impl From<u128> for Value {
    fn from(value: u128) -> Self {
        Self::from_limbs(&[value as u64, (value >> 64) as u64])
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hexadecimal, with `0x`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.high.split_last() {
            None => write!(f, "{:#x}", self.low),
            Some((top, rest)) => {
                write!(f, "{top:#x}")?;
                for limb in rest.iter().rev() {
                    write!(f, "{limb:016x}")?;
                }
                write!(f, "{:016x}", self.low)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shortest_form_has_at_least_one_byte() {
        assert_eq!(Value::zero().to_be_bytes(), [0]);
        assert_eq!(Value::from(255u64).to_be_bytes(), [255]);
        assert_eq!(Value::from(256u64).to_be_bytes(), [1, 0]);
        assert_eq!(Value::from_be_bytes(&[]), Value::zero());
    }

    #[test]
    fn ones_fill_the_width_exactly() {
        for width in 1..=200 {
            let ones = Value::ones(width);
            assert_eq!(ones.bits(), width);
            assert!(ones.to_be_bytes()[1..].iter().all(|&byte| byte == 255));
        }
    }

    proptest! {
        #[test]
        fn bytes_make_the_round_trip_and_order_is_numeric(
            a in proptest::collection::vec(any::<u8>(), 0..20),
            b in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let (va, vb) = (Value::from_be_bytes(&a), Value::from_be_bytes(&b));
            let stripped: Vec<u8> = a.iter().copied().skip_while(|&byte| byte == 0).collect();
            prop_assert_eq!(va.bits() == 0, stripped.is_empty());
            if !stripped.is_empty() {
                prop_assert_eq!(va.to_be_bytes(), stripped);
            }
            let (na, nb) =
                (num_bigint::BigUint::from_bytes_be(&a), num_bigint::BigUint::from_bytes_be(&b));
            prop_assert_eq!(va.cmp(&vb), na.cmp(&nb));
            prop_assert_eq!(va.to_string(), format!("{na:#x}"));
        }
    }
}
