//! The fixed-point scale of each sum: a power of two, as fine as the values permit.
//!
//! All ranks know the greatest magnitude of the values from the agreement, and so choose the same scale,
//! at which no sum overflows.

use std::ops::RangeInclusive;

use tributary_protocol::fixed::{self, Scale};

use crate::agreement::Magnitude;

/// The exponents of scales for which the conversions are exact in `f32`.
const EXPONENTS: RangeInclusive<i32> = -126..=126;

/// The scale for values of so many workers of which this is the greatest magnitude.
///
/// # Panics
/// Never: a power of two in the range is a scale.
#[must_use]
pub fn scale(magnitude: Magnitude, workers: u16) -> Scale {
    // The greatest power of two that each worker may send.
    let limit = i32::try_from(fixed::limit(workers).ilog2()).expect("at most 30");
    let exponent = match magnitude {
        Magnitude::Below(power) => limit - power,
        Magnitude::Zero | Magnitude::NotFinite => 0,
    };
    let exponent = exponent.clamp(*EXPONENTS.start(), *EXPONENTS.end());
    Scale::new(f64::from(exponent).exp2()).expect("a normal power of two")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_fit_and_use_the_range(value in any::<f32>(), workers in 1..=1024_u16) {
            prop_assume!(value.is_finite() && value != 0.0);
            let scale = scale(Magnitude::of(value), workers).get();
            let scaled = f64::from(value.abs()) * scale;
            let limit = f64::from(fixed::limit(workers));
            prop_assert!(scaled.round_ties_even() <= limit);
            // Within a factor of four of the limit, unless the scale is the finest one.
            prop_assert!(scaled * 4.0 > limit || scale == 126_f64.exp2());
        }
    }
}
