//! Integers of any width for the exchange between control plane and engine.

use std::fmt;

use num_bigint::BigUint;

/// A non-negative integer of any size, independent of the width of the field that holds it. The
/// value of a signed field is its two's complement pattern within the field's width.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Value(BigUint);

impl Value {
    /// Zero.
    #[must_use]
    pub const fn zero() -> Self {
        Self(BigUint::ZERO)
    }

    /// Creates a value from limbs of 64 bits, least significant first.
    #[must_use]
    pub fn from_limbs(limbs: &[u64]) -> Self {
        let digits = limbs.iter().flat_map(|&limb| [limb as u32, (limb >> 32) as u32]);
        Self(BigUint::new(digits.collect()))
    }

    /// Creates a value from bytes, most significant first, as in P4Runtime. No bytes: zero.
    #[must_use]
    pub fn from_be_bytes(bytes: &[u8]) -> Self {
        Self(BigUint::from_bytes_be(bytes))
    }

    /// The shortest big-endian form, at least one byte: P4Runtime's canonical form.
    #[must_use]
    pub fn to_be_bytes(&self) -> Vec<u8> {
        self.0.to_bytes_be()
    }

    /// Limb `index`, counted from the least significant; zero beyond the number's size.
    #[must_use]
    pub fn limb(&self, index: usize) -> u64 {
        self.0.iter_u64_digits().nth(index).unwrap_or(0)
    }

    /// Number of bits up to the highest that is set; 0 for zero.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u32::try_from(self.0.bits()).expect("values are much shorter")
    }

    /// Whether the value fits into a field of `width` bits.
    #[must_use]
    pub fn fits(&self, width: u32) -> bool {
        self.0.bits() <= width.into()
    }

    /// The value as an integer, if it has at most 64 bits.
    #[must_use]
    pub fn to_u64(&self) -> Option<u64> {
        u64::try_from(&self.0).ok()
    }

    /// All ones in the given number of bits.
    #[must_use]
    pub fn ones(width: u32) -> Self {
        Self((BigUint::from(1u8) << width) - 1u8)
    }

    /// `count` limbs, least significant first, truncated or extended with zeros.
    pub(crate) fn limbs(&self, count: usize) -> impl Iterator<Item = u64> + '_ {
        self.0.iter_u64_digits().chain(std::iter::repeat(0)).take(count)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<u128> for Value {
    fn from(value: u128) -> Self {
        Self(value.into())
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
        write!(f, "{:#x}", self.0)
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
