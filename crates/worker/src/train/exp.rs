//! The exponential function, from additions and multiplications alone.
//!
//! `f64::exp` calls the platform's mathematical library, whose last bit differs between platforms
//! and versions. Workers on different machines must compute the same gradients, so softmax uses
//! this function.

use std::f64::consts::LN_2;

/// `e^x` for `x <= 0`, within 2 units in the last place; 0 where the result would be subnormal;
/// `NaN` for `NaN`.
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!(x <= 0.0 || x.is_nan(), "softmax subtracts the largest logit");
    if x.is_nan() {
        return x;
    }
    if x < -708.0 {
        return 0.0;
    }
    // x = k ln 2 + r with |r| <= ln 2 / 2. ln 2 is split in two parts. The first part is short
    // enough that k times it is exact, so that r keeps its full precision.
    let k = (x / LN_2).round_ties_even();
    const HIGH: f64 = 0.693_147_180_369_123_8;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    let r = (x - k * HIGH) - k * LOW;
    // Taylor series by Horner's rule: the first omitted term is below 2^-57.
    let mut sum = 1.0;
    let mut n = 14.0;
    while n > 0.0 {
        sum = 1.0 + sum * r / n;
        n -= 1.0;
    }
    sum * f64::from_bits(((1023 + k as i64) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(-1e9), 0.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert!(exp(f64::NAN).is_nan());
        assert!(exp(-708.0) > 0.0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_library(x in -708.0f64..=0.0) {
            let (ours, theirs) = (exp(x), x.exp());
            prop_assert!((ours - theirs).abs() <= 4.0 * f64::EPSILON * theirs, "{x}: {ours} {theirs}");
        }
    }
}
