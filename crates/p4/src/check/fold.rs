//! Constant folding.

use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, ToPrimitive, Zero};

use crate::ir::BinaryOp;

/// Width and sign of an integer type; `None` is the unbounded `int`.
pub(crate) type Width = Option<(u32, bool)>;

/// The value modulo the width, in two's complement for signed types.
pub(crate) fn wrap(value: BigInt, width: Width) -> BigInt {
    let Some((bits, signed)) = width else { return value };
    let modulus = BigInt::from(1) << bits;
    let mut value = value % &modulus;
    if value.is_negative() {
        value += &modulus;
    }
    if signed && value.bit(u64::from(bits) - 1) {
        value -= modulus;
    }
    value
}

/// Minimum and maximum of a type.
pub(crate) fn bounds(bits: u32, signed: bool) -> (BigInt, BigInt) {
    let one = BigInt::from(1);
    if signed {
        (-(one.clone() << (bits - 1)), (one.clone() << (bits - 1)) - one)
    } else {
        (BigInt::zero(), (one.clone() << bits) - one)
    }
}

/// Larger shifts are not evaluated for `int`.
const MAX_SHIFT: u64 = 1 << 16;

/// An arithmetic or bitwise operation on two constants of a type. `None` if there is no value
/// (division by zero, negative shift).
pub(crate) fn arithmetic(op: BinaryOp, a: &BigInt, b: &BigInt, width: Width) -> Option<BigInt> {
    let saturate = |value: BigInt| match width {
        Some((bits, signed)) => {
            let (low, high) = bounds(bits, signed);
            value.clamp(low, high)
        }
        None => value,
    };
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div if !b.is_zero() => a / b,
        BinaryOp::Mod if !b.is_zero() => a % b,
        BinaryOp::AddSat => saturate(a + b),
        BinaryOp::SubSat => saturate(a - b),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => match (b.to_u64(), width) {
            (Some(n), Some((bits, _))) if n >= u64::from(bits) => BigInt::zero(),
            (Some(n), _) if n <= MAX_SHIFT => a << n,
            (None, Some(_)) if b.is_positive() => BigInt::zero(),
            _ => return None,
        },
        BinaryOp::Shr => match b.to_u64() {
            Some(n) => a >> n.min(MAX_SHIFT),
            None if b.is_positive() => a >> MAX_SHIFT,
            None => return None,
        },
        _ => return None,
    };
    Some(wrap(value, width))
}

/// A comparison of two constants.
pub(crate) fn compare<T: Ord>(op: BinaryOp, a: &T, b: &T) -> Option<bool> {
    Some(match op {
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        _ => return None,
    })
}

/// The limbs of a value of `bits` bits.
pub(crate) fn limbs(value: &BigInt, bits: u32) -> Box<[u64]> {
    let value = wrap(value.clone(), Some((bits, false)));
    let mut limbs: Vec<u64> = value.iter_u64_digits().collect();
    limbs.resize(bits.div_ceil(64) as usize, 0);
    limbs.into()
}

/// The value of limbs.
pub(crate) fn from_limbs(limbs: &[u64], bits: u32, signed: bool) -> BigInt {
    let halves = limbs.iter().flat_map(|limb| [*limb as u32, (limb >> 32) as u32]);
    let value = BigInt::from(BigUint::new(halves.collect()));
    wrap(value, Some((bits, signed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_into_the_type() {
        assert_eq!(wrap(BigInt::from(-1), Some((8, false))), BigInt::from(255));
        assert_eq!(wrap(BigInt::from(128), Some((8, true))), BigInt::from(-128));
        assert_eq!(wrap(BigInt::from(-129), Some((8, true))), BigInt::from(127));
    }

    #[test]
    fn saturates_at_both_ends() {
        let int8 = Some((8, true));
        let f = |op, a, b, w| arithmetic(op, &BigInt::from(a), &BigInt::from(b), w).unwrap();
        assert_eq!(f(BinaryOp::AddSat, 100, 100, int8), BigInt::from(127));
        assert_eq!(f(BinaryOp::SubSat, -100, 100, int8), BigInt::from(-128));
        assert_eq!(f(BinaryOp::SubSat, 1, 2, Some((8, false))), BigInt::zero());
    }

    #[test]
    fn limbs_and_back() {
        for (v, bits, signed) in
            [(-1i64, 65, true), (0, 1, false), (1 << 40, 64, false), (-(1 << 40), 200, true)]
        {
            let value = BigInt::from(v);
            let l = limbs(&value, bits);
            assert_eq!(l.len(), bits.div_ceil(64) as usize);
            assert_eq!(from_limbs(&l, bits, signed), value);
        }
    }

    #[test]
    fn no_value_without_a_divisor() {
        assert_eq!(arithmetic(BinaryOp::Div, &BigInt::from(1), &BigInt::zero(), None), None);
        assert_eq!(arithmetic(BinaryOp::Shl, &BigInt::from(1), &BigInt::from(-1), None), None);
    }
}
