//! The cost of fixed point: how many values are rounded to zero, and the largest relative error.

use std::iter::Sum;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::loops::{self, Counts, magnitude};
use super::{ROUNDER, Scale};

/// The effect of the conversion to integers on the `f32` values of one worker.
///
/// Each value is counted once, when the result of its fragment arrives. Only then is it known at
/// which scale the fragment was summed, or that it was summed as floats.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rounding {
    /// Number of non-zero values, including those summed as floats.
    pub values: u64,
    /// Number of non-zero values that became zero.
    pub zeroed: u64,
    /// Number of values that became zero in fragments summed at a coarser scale than the job's,
    /// because one of their values was too large (P4INC, SwitchML).
    pub zeroed_coarser: u64,
    /// The largest relative error of a value, `|round(x · scale) / scale − x| / |x|`. It is 1 if a
    /// value became zero.
    pub largest_error: f64,
    /// The largest magnitude in fragments that were summed at the job's scale.
    pub greatest: f32,
}

impl Rounding {
    /// Counts values that were summed as floats, which are not rounded.
    pub fn count_floats(&mut self, values: &[f32]) {
        self.values += values.iter().map(|value| u64::from(*value != 0.0)).sum::<u64>();
    }

    /// Counts values that were summed at a scale: the job's, or a `coarser` one. They must be
    /// finite.
    ///
    /// A magnitude `m` becomes zero if `m · scale` is at most one half. Its relative error is at
    /// most half a unit in `m · scale`. So both tests are comparisons with a bound that is the same
    /// for all values. Magnitudes compare like their bit patterns, so the loop works on integers.
    /// Errors are computed only for values that can exceed the largest error so far.
    pub fn count(&mut self, values: &[f32], scale: Scale, coarser: bool) {
        self.count_at(values, &Threshold::of(scale), coarser);
    }

    /// [`count`](Self::count) at a scale for which the bounds are known.
    pub(crate) fn count_at(&mut self, values: &[f32], threshold: &Threshold, coarser: bool) {
        let Threshold { scale, zeroing, half } = *threshold;
        // Rounded up twice, so that it is an upper bound despite its own rounding.
        let bound = ((half / self.largest_error) as f32).next_up().next_up();
        let Counts { zeros, zeroed, suspects, greatest } =
            loops::count(values, magnitude(zeroing), magnitude(bound));
        // Zeros are below both bounds and were counted in both.
        let (zeroed, suspects) = (zeroed - zeros, suspects - zeros);
        self.values += values.len() as u64 - u64::from(zeros);
        self.zeroed += u64::from(zeroed);
        if coarser {
            self.zeroed_coarser += u64::from(zeroed);
        } else {
            self.greatest = self.greatest.max(f32::from_bits(greatest));
        }
        if zeroed > 0 {
            self.largest_error = 1.0;
        } else if suspects > 0 {
            self.compute_errors(values, scale);
        }
    }

    /// Updates the largest error from values of which none becomes zero.
    #[cold]
    fn compute_errors(&mut self, values: &[f32], scale: Scale) {
        for value in values {
            let exact = f64::from(value.abs()) * scale.get();
            let error = (exact + ROUNDER - ROUNDER - exact).abs();
            if error > self.largest_error * exact {
                self.largest_error = error / exact;
            }
        }
    }
}

/// Combines several workers.
impl AddAssign for Rounding {
    fn add_assign(&mut self, other: Self) {
        *self = Self {
            values: self.values + other.values,
            zeroed: self.zeroed + other.zeroed,
            zeroed_coarser: self.zeroed_coarser + other.zeroed_coarser,
            largest_error: self.largest_error.max(other.largest_error),
            greatest: self.greatest.max(other.greatest),
        };
    }
}

impl Sum for Rounding {
    fn sum<I: Iterator<Item = Self>>(workers: I) -> Self {
        workers.fold(Self::default(), |mut all, own| {
            all += own;
            all
        })
    }
}

/// The bounds of [`Rounding::count`] at a scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    scale: Scale,
    /// The largest magnitude that becomes zero.
    zeroing: f32,
    /// Half a unit.
    half: f64,
}

impl Threshold {
    pub(crate) fn of(scale: Scale) -> Self {
        Self { scale, zeroing: largest_below_half(scale), half: 0.5 / scale.get() }
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }
}

/// The largest magnitude that becomes zero: its product with the scale is at most one half.
fn largest_below_half(scale: Scale) -> f32 {
    let zeroed = |magnitude: f32| f64::from(magnitude) * scale.get() <= 0.5;
    let mut magnitude = ((0.5 / scale.get()) as f32).min(f32::MAX);
    while !zeroed(magnitude) {
        magnitude = magnitude.next_down();
    }
    while magnitude < f32::MAX && zeroed(magnitude.next_up()) {
        magnitude = magnitude.next_up();
    }
    magnitude
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scale(factor: f64) -> Scale {
        Scale::new(factor).unwrap()
    }

    /// The expected counts, computed value by value with the library's rounding.
    fn expected(fragments: &[(Vec<f32>, bool)], factor: f64) -> Rounding {
        let mut rounding = Rounding::default();
        for (values, coarser) in fragments {
            for value in values.iter().filter(|value| **value != 0.0) {
                let exact = f64::from(*value) * factor;
                let integer = exact.round_ties_even();
                rounding.values += 1;
                rounding.zeroed += u64::from(integer == 0.0);
                rounding.zeroed_coarser += u64::from(integer == 0.0 && *coarser);
                let error = if integer == 0.0 { 1.0 } else { ((integer - exact) / exact).abs() };
                rounding.largest_error = rounding.largest_error.max(error);
            }
            if !coarser {
                rounding.greatest = values.iter().fold(rounding.greatest, |g, v| g.max(v.abs()));
            }
        }
        rounding
    }

    #[test]
    fn a_tie_at_one_half_becomes_zero_and_the_next_value_does_not() {
        for factor in [1.0, 0.25, 1_048_576.0, 1e30] {
            let half = largest_below_half(scale(factor));
            let mut rounding = Rounding::default();
            rounding.count(&[half, -half, 0.0, -0.0, half.next_up()], scale(factor), false);
            assert_eq!((rounding.values, rounding.zeroed), (3, 2), "{factor}");
        }
    }

    #[test]
    fn bounds_beyond_f32_hold() {
        let mut rounding = Rounding::default();
        let coarsest = scale(1e-300).at(super::super::COARSEST);
        rounding.count(&[f32::MAX, f32::from_bits(1)], coarsest, true);
        assert_eq!((rounding.values, rounding.zeroed, rounding.zeroed_coarser), (2, 2, 2));
        let mut rounding = Rounding::default();
        rounding.count(&[f32::from_bits(1)], scale(1e300), false);
        assert_eq!((rounding.values, rounding.zeroed), (1, 0));
    }

    #[test]
    fn floats_are_not_rounded() {
        let mut rounding = Rounding::default();
        rounding.count_floats(&[1e-30, 0.0, 3e37]);
        assert_eq!(rounding, Rounding { values: 2, ..Rounding::default() });
    }

    proptest! {
        #[test]
        fn counts_as_the_library_rounds(
            fragments in prop::collection::vec(
                (prop::collection::vec(
                    prop_oneof![Just(0.0f32), -2.0f32..2.0, -1e6f32..1e6, -1e-6f32..1e-6],
                    0..70,
                ), any::<bool>()),
                0..6,
            ),
            factor in prop::sample::select(vec![1.0, 0.5, 1024.0, 1e6, 0.001, 1e9]),
        ) {
            let mut rounding = Rounding::default();
            for (values, coarser) in &fragments {
                rounding.count(values, scale(factor), *coarser);
            }
            let expected = expected(&fragments, factor);
            prop_assert!((rounding.largest_error - expected.largest_error).abs() <= 1e-12 * expected.largest_error);
            prop_assert_eq!(Rounding { largest_error: 0.0, ..rounding }, Rounding { largest_error: 0.0, ..expected });
        }
    }
}
