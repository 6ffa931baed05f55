//! The cost of fixed point: how many values are rounded to zero, or to too few digits.

use std::iter::Sum;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::Scale;
use super::loops::{self, Counts, magnitude};

/// Units from which on rounding, by at most half a unit, changes a value by at most 1 %.
const PRECISE: f64 = 50.0;

/// Values that are counted together, of which 32 bits hold the number.
const PART: usize = 1 << 20;

/// The effect of the conversion to integers on `f32` values of one worker.
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
    /// Number of values that did not become zero, but are below 50 units, so that rounding may have
    /// changed them by more than 1 %. It changed all others by less.
    pub imprecise: u64,
    /// The largest magnitude in fragments that were summed at the job's scale.
    pub greatest: f32,
    /// The least magnitude other than zero in these fragments; zero if they have none.
    pub least: f32,
}

impl Rounding {
    /// Counts values that were summed as floats, which are not rounded.
    pub fn count_floats(&mut self, values: &[f32]) {
        self.values += values.iter().map(|value| u64::from(*value != 0.0)).sum::<u64>();
    }

    /// Counts values that were summed at a scale: the job's, or a `coarser` one. They must be
    /// finite.
    ///
    /// A magnitude `m` becomes zero if `m · scale` is at most one half, and is imprecise if that is
    /// below 50. So both tests are comparisons with a bound that is the same for all values.
    /// Magnitudes compare like their bit patterns, so the loop works on integers.
    pub fn count(&mut self, values: &[f32], scale: Scale, coarser: bool) {
        let threshold = Threshold::of(scale);
        for part in values.chunks(PART) {
            *self += Self::of(part, &threshold, coarser);
        }
    }

    /// That of values that were summed at a scale for which the bounds are known.
    pub(crate) fn of(values: &[f32], threshold: &Threshold, coarser: bool) -> Self {
        let Threshold { zeroing, imprecise, .. } = *threshold;
        let Counts { zeros, zeroed, imprecise, greatest, least } =
            loops::count(values, magnitude(zeroing), magnitude(imprecise));
        let count = values.len() as u64 - u64::from(zeros);
        // Zeros are below both bounds, and what becomes zero is below the higher one.
        let (zeroed, imprecise) = (u64::from(zeroed - zeros), u64::from(imprecise - zeroed));
        let all = Self { values: count, zeroed, imprecise, ..Self::default() };
        match coarser {
            true => Self { zeroed_coarser: zeroed, ..all },
            false if count == 0 => all,
            false => {
                Self { greatest: f32::from_bits(greatest), least: f32::from_bits(least), ..all }
            }
        }
    }
}

/// Combines fragments, or workers.
impl AddAssign for Rounding {
    fn add_assign(&mut self, other: Self) {
        // Zero stands for none.
        let least = match (self.least, other.least) {
            (0.0, least) | (least, 0.0) => least,
            (one, another) => one.min(another),
        };
        *self = Self {
            values: self.values + other.values,
            zeroed: self.zeroed + other.zeroed,
            zeroed_coarser: self.zeroed_coarser + other.zeroed_coarser,
            imprecise: self.imprecise + other.imprecise,
            greatest: self.greatest.max(other.greatest),
            least,
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
    /// The largest magnitude that may change by more than 1 %.
    imprecise: f32,
}

impl Threshold {
    pub(crate) fn of(scale: Scale) -> Self {
        Self {
            scale,
            zeroing: largest(scale, 0.5, |units| units <= 0.5),
            imprecise: largest(scale, PRECISE, |units| units < PRECISE),
        }
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }
}

/// The largest magnitude whose product with the scale is `small`, which all are below about so many
/// units.
fn largest(scale: Scale, units: f64, small: impl Fn(f64) -> bool) -> f32 {
    let is_small = |magnitude: f32| small(f64::from(magnitude) * scale.get());
    let mut magnitude = ((units / scale.get()) as f32).min(f32::MAX);
    while !is_small(magnitude) {
        magnitude = magnitude.next_down();
    }
    while magnitude < f32::MAX && is_small(magnitude.next_up()) {
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
                rounding.imprecise += u64::from(integer != 0.0 && exact.abs() < 50.0);
                if !coarser {
                    rounding.greatest = rounding.greatest.max(value.abs());
                    let least = Some(rounding.least).filter(|least| *least > 0.0);
                    rounding.least = least.unwrap_or(f32::MAX).min(value.abs());
                }
            }
        }
        rounding
    }

    #[test]
    fn a_tie_at_one_half_becomes_zero_and_the_next_value_does_not() {
        for factor in [1.0, 0.25, 1_048_576.0, 1e30] {
            let half = Threshold::of(scale(factor)).zeroing;
            let mut rounding = Rounding::default();
            rounding.count(&[half, -half, 0.0, -0.0, half.next_up()], scale(factor), false);
            assert_eq!((rounding.values, rounding.zeroed), (3, 2), "{factor}");
        }
    }

    /// What is not imprecise changes by at most 1 %.
    #[test]
    fn fifty_units_are_precise_and_less_is_not() {
        for factor in [1.0, 0.25, 1_048_576.0, 1e30] {
            let fifty = (50.0 / factor) as f32;
            let below = Threshold::of(scale(factor)).imprecise;
            let mut rounding = Rounding::default();
            rounding.count(&[below, -below, below.next_up()], scale(factor), false);
            assert_eq!((rounding.imprecise, rounding.zeroed), (2, 0), "{factor}");
            assert!((below / fifty - 1.0).abs() < 1e-6, "{factor}");
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
            prop_assert_eq!(rounding, expected(&fragments, factor));
        }
    }
}
