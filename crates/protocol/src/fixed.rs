//! Fixed point: conversion of `f32` values to the integers that switches add, and back.
//!
//! A value `x` is sent as `round(x · scale)`, ties to even, computed in `f64`. A sum is converted
//! back as `sum / scale`, computed in `f64` and rounded to `f32`. Where the scale is a power of two, as
//! by default, `f32` arithmetic gives the same results in half the time. The loops are compiled for
//! several instruction sets ([`instructions`]); all compute the same.
//!
//! Sums are exact in these integers only: a value below half a unit is sent as zero. [`Rounding`]
//! counts the cost of the conversion.

mod loops;
mod rounding;

use tributary_wire::{RUNGS, WORKERS_MAX};

pub use rounding::Rounding;
pub(crate) use rounding::Threshold;

/// The last rung of the scale ladder.
pub const COARSEST: u8 = RUNGS - 1;

/// The power of two by which each rung divides the scale. The last one brings every `f32` down to
/// the magnitude of the scale.
const LADDER: [u64; RUNGS as usize] = [0, 4, 8, 16, 32, 64, 96, 128];

/// A positive, finite factor: units of the fixed-point integer per 1.0.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Scale(f64);

impl Scale {
    /// `None` unless both the factor and its inverse are positive and normal.
    pub fn new(factor: f64) -> Option<Self> {
        let usable = factor > 0.0 && factor.is_normal() && factor.recip().is_normal();
        usable.then_some(Self(factor))
    }

    /// Two to this power, at least to -126 and at most to 126: conversions are exact in `f32` there.
    pub fn power_of_two(exponent: i8) -> Self {
        let exponent = i64::from(exponent.clamp(-126, 126));
        Self(f64::from_bits(((1023 + exponent) as u64) << 52))
    }

    /// So many bits finer.
    pub(crate) fn finer(self, bits: u8) -> Self {
        Self(self.0 * f64::from_bits((1023 + u64::from(bits)) << 52))
    }

    /// The scale of a rung of the ladder. Scales get coarser by powers of two, so that this adds no
    /// rounding. A rung after the last has the scale of the last. A scale too small for an `f64`
    /// becomes the smallest one, at which every `f32` is zero.
    pub fn at(self, rung: u8) -> Self {
        let exponent = LADDER[usize::from(rung.min(COARSEST))];
        let divisor = f64::from_bits((1023 + exponent) << 52);
        Self((self.0 / divisor).max(f64::MIN_POSITIVE))
    }

    /// The factor as an `f32`, if conversions in `f32` give the same results as in `f64`: it is a
    /// power of two, and both it and its inverse are normal.
    fn single(self) -> Option<f32> {
        let (exponent, fraction) = (self.0.to_bits() >> 52, self.0.to_bits() << 12);
        let normal = (1023 - 126..=1023 + 126).contains(&exponent);
        (normal && fraction == 0).then_some(self.0 as f32)
    }

    /// The factor.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// The largest magnitude of which any `workers` values can be added in an `i32`: `(2³¹ − 1) /
/// workers`, rounded down.
///
/// # Panics
///
/// If `workers` is zero or above [`WORKERS_MAX`].
pub const fn limit(workers: u16) -> i32 {
    assert!(workers > 0 && workers <= WORKERS_MAX);
    i32::MAX / workers as i32
}

/// 1.5 · 2⁵². At this magnitude the unit in the last place of an `f64` is one. Adding it therefore
/// rounds to an integer, ties to even, and leaves that integer in the low bits. The sum is exact
/// for magnitudes below 2⁵¹ and, unlike `round_ties_even`, a plain addition on every machine.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// 2¹²⁵: no quotient by a smaller scale is a subnormal `f32`, as [`loops::decode_double`] requires.
const DECODE_MAX: f64 = f64::from_bits((1023 + 125) << 52);

/// Sums of at least two workers have limits below this, and then [`loops::encode_single`] serves.
const SINGLE_LIMIT: i32 = 1 << 30;

/// Values per step of [`decode`], which repeats a step if it cannot be certain of its results.
const STEP: usize = 1024;

/// The instruction set that the conversions use on this machine.
pub fn instructions() -> &'static str {
    loops::level()
}

/// Writes `values`, scaled and rounded, as big-endian `i32` into `payload`. Returns `false` if the
/// magnitude of a scaled value exceeds `limit`, or a value is NaN; the content of the payload is then
/// unspecified.
///
/// `payload` has four bytes per value. If one slice is longer, its rest is ignored.
#[must_use]
pub fn encode(values: &[f32], scale: Scale, limit: i32, payload: &mut [u8]) -> bool {
    let greatest = match scale.single() {
        Some(single) if limit < SINGLE_LIMIT => loops::encode_single(values, single, payload),
        _ => loops::encode_double(values, scale.0, payload),
    };
    fits(f32::from_bits(greatest), scale, limit)
}

/// Whether a value, scaled and rounded, is within the limit. Scaling and rounding keep the order of
/// magnitudes, so values fit if the greatest magnitude does.
pub(crate) fn fits(value: f32, scale: Scale, limit: i32) -> bool {
    // Beyond 2⁵¹ `rounded` is inexact, but still far above any limit.
    let rounded = f64::from(value) * scale.0 + ROUNDER - ROUNDER;
    rounded.abs() <= f64::from(limit)
}

/// The greatest magnitude: NaN if a value is.
#[must_use]
pub fn greatest(values: &[f32]) -> f32 {
    f32::from_bits(loops::greatest(values))
}

/// The least magnitude other than zero, and the greatest, which is NaN if a value is; zeros if there is none.
#[must_use]
pub fn range(values: &[f32]) -> (f32, f32) {
    let loops::Counts { greatest, least, .. } = loops::count(values, 0, 0);
    if greatest == 0 { (0.0, 0.0) } else { (f32::from_bits(least), f32::from_bits(greatest)) }
}

/// Index of the first value whose magnitude, scaled and rounded, exceeds `limit`.
pub fn first_too_great(values: &[f32], scale: Scale, limit: i32) -> Option<usize> {
    values.iter().position(|value| !fits(*value, scale, limit))
}

/// Index of the first integer whose magnitude exceeds `limit`.
pub(crate) fn first_integer_too_great(values: &[i32], limit: i32) -> Option<usize> {
    let limit = limit.unsigned_abs();
    if loops::greatest_integer(values) <= limit {
        return None;
    }
    values.iter().position(|value| value.unsigned_abs() > limit)
}

/// Reads big-endian `i32` sums from `payload` and divides them by the scale.
///
/// `payload` has four bytes per value. If one slice is longer, its rest is ignored.
pub fn decode(payload: &[u8], scale: Scale, values: &mut [f32]) {
    if let Some(single) = scale.single() {
        // Exact, as the scale is a power of two.
        loops::decode_single(payload, single.recip(), values);
        return;
    }
    let inverse = scale.0.recip();
    for (payload, values) in payload.chunks(4 * STEP).zip(values.chunks_mut(STEP)) {
        if scale.0 > DECODE_MAX || !loops::decode_double(payload, inverse, values) {
            divide(payload, scale, values);
        }
    }
}

/// [`decode`] by division, which takes longer.
fn divide(payload: &[u8], scale: Scale, values: &mut [f32]) {
    for (value, word) in values.iter_mut().zip(payload.as_chunks().0) {
        *value = (f64::from(i32::from_be_bytes(*word)) / scale.0) as f32;
    }
}

/// Adds big-endian `i32` values from `payload` to `sums`, with wrapping, as the switch does. If
/// every worker's values are within [`limit`] and added at most once, no sum wraps.
///
/// `payload` has four bytes per value. If one slice is longer, its rest is ignored.
pub fn accumulate(sums: &mut [i32], payload: &[u8]) {
    loops::accumulate(sums, payload);
}

/// Reads big-endian `i32` values. If one slice is longer, its rest is ignored.
pub(crate) fn read(payload: &[u8], values: &mut [i32]) {
    loops::read(payload, values);
}

/// Writes big-endian `i32` values. If one slice is longer, its rest is ignored.
pub(crate) fn write(values: &[i32], payload: &mut [u8]) {
    loops::write(values, payload);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode_one(value: f32, scale: f64, limit: i32) -> Option<i32> {
        let mut payload = [0; 4];
        let scale = Scale::new(scale).unwrap();
        encode(&[value], scale, limit, &mut payload).then_some(i32::from_be_bytes(payload))
    }

    #[test]
    fn ties_go_to_even() {
        for (value, rounded) in
            [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.75, 1)]
        {
            assert_eq!(encode_one(value, 1.0, i32::MAX), Some(rounded), "{value}");
        }
    }

    #[test]
    fn limit_is_inclusive_and_symmetric() {
        // 2^24 is exact in f32, so scaled values reach the limit exactly.
        for workers in 1..=32 {
            let limit = limit(workers);
            assert!(i64::from(limit) * i64::from(workers) <= i64::from(i32::MAX));
            assert!((i64::from(limit) + 1) * i64::from(workers) > i64::from(i32::MAX));
            let at = f64::from(limit);
            assert_eq!(encode_one(1.0, at, limit), Some(limit));
            assert_eq!(encode_one(-1.0, at, limit), Some(-limit));
            assert_eq!(encode_one(1.0, at + 0.5 + 1e-6, limit), None);
            assert_eq!(encode_one(-1.0, at + 1.0, limit), None);
        }
    }

    #[test]
    fn huge_values_exceed_every_limit() {
        for value in [f32::MAX, f32::MIN, 1e30, 4.5e15, -9.0e15] {
            for scale in [1.0, 1e6, 1e300] {
                assert_eq!(encode_one(value, scale, i32::MAX), None, "{value} {scale}");
            }
        }
    }

    #[test]
    fn scale_is_positive_and_usable() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-310, f64::MAX] {
            assert_eq!(Scale::new(bad), None, "{bad}");
        }
        assert_eq!(Scale::new(1e6).unwrap().get(), 1e6);
    }

    #[test]
    fn rungs_divide_the_scale_by_powers_of_two() {
        let scale = Scale::new(1e6).unwrap();
        let exponents: Vec<f64> = (0..RUNGS).map(|r| (1e6 / scale.at(r).get()).log2()).collect();
        assert_eq!(exponents, [0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 96.0, 128.0]);
        assert_eq!(scale.at(200), scale.at(COARSEST));
        assert_eq!(encode_one(f32::MAX, scale.at(COARSEST).get(), limit(32)), Some(1_000_000));
    }

    #[test]
    fn the_smallest_scales_give_zeros() {
        let scale = Scale::new(1e-300).unwrap().at(COARSEST);
        let mut payload = [0xff; 4];
        assert!(encode(&[f32::MAX], scale, 1, &mut payload));
        let mut values = [1.0];
        decode(&payload, scale, &mut values);
        assert_eq!((payload, values), ([0; 4], [0.0]));
    }

    proptest! {
        #[test]
        fn finds_the_value_that_does_not_fit(
            values in prop::collection::vec(-3.0e9f32..3.0e9, 0..70),
            rung in 0..RUNGS,
            workers in 1..=WORKERS_MAX,
        ) {
            let scale = Scale::new(1e6).unwrap().at(rung);
            let mut payload = vec![0; values.len() * 4];
            let found = first_too_great(&values, scale, limit(workers));
            prop_assert_eq!(encode(&values, scale, limit(workers), &mut payload), found.is_none());
            if let Some(position) = found {
                prop_assert!(encode(&values[..position], scale, limit(workers), &mut payload));
            }
        }

        #[test]
        fn encodes_as_the_library_rounds(
            values in prop::collection::vec(-3.0e9f32..3.0e9, 0..70),
            scale in prop::sample::select(vec![1.0, 0.5, 1024.0, 1e6, 0.001]),
            workers in 1..=WORKERS_MAX,
        ) {
            let limit = limit(workers);
            let expected: Vec<f64> = values.iter().map(|v| (f64::from(*v) * scale).round_ties_even()).collect();
            let fits = expected.iter().all(|v| v.abs() <= f64::from(limit));
            let mut payload = vec![0; values.len() * 4];
            let scale = Scale::new(scale).unwrap();
            prop_assert_eq!(encode(&values, scale, limit, &mut payload), fits);
            if fits {
                let got: Vec<f64> = tributary_wire::values::read_i32(&payload).map(f64::from).collect();
                prop_assert_eq!(&got, &expected);
                let mut back = vec![0.0; values.len()];
                decode(&payload, scale, &mut back);
                for (back, value) in back.iter().zip(&values) {
                    let step = 0.5 / scale.get() + f64::from(value.abs()) * f64::from(f32::EPSILON);
                    prop_assert!((f64::from(*back) - f64::from(*value)).abs() <= step, "{} {}", back, value);
                }
            }
        }

        #[test]
        fn accumulates_modulo_2_32(a: Vec<i32>, b: Vec<i32>) {
            let mut sums = a.clone();
            let payload: Vec<u8> = b.iter().flat_map(|v| v.to_be_bytes()).collect();
            accumulate(&mut sums, &payload);
            for (i, sum) in sums.iter().enumerate() {
                let exact = i64::from(a[i]) + b.get(i).map_or(0, |b| i64::from(*b));
                prop_assert_eq!(*sum, exact as i32);
            }
        }
    }
}
