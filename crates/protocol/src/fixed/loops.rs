//! The loops over values, compiled for the instruction sets of the machines that run them.
//!
//! Each loop is written once, without branches, so that the compiler vectorises it. `multiversion`
//! compiles it once for each level below, and chooses the best level of the machine when the loop
//! first runs. NEON is part of every 64-bit Arm processor, so the plain version uses it there.
//!
//! Arithmetic wraps explicitly where a check for overflow would keep the compiler from vectorising.

use multiversion::multiversion;
use multiversion::target::match_target;

use super::ROUNDER;

macro_rules! loops {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {
        /// Without instructions beyond those that the program was compiled for.
        mod plain {
            use super::*;
            $(#[inline(always)] pub(crate) fn $name($($argument: $kind),*) $(-> $result)? $body)*
        }

        /// With AVX2 if the machine has it.
        #[cfg(test)]
        mod avx2 {
            use super::*;
            $(#[multiversion(targets("x86_64+avx2"))]
            pub(crate) fn $name($($argument: $kind),*) $(-> $result)? { plain::$name($($argument),*) })*
        }

        /// One version of each loop.
        #[cfg(test)]
        struct Level {
            $($name: fn($($kind),*) $(-> $result)?,)*
        }

        /// Plain, AVX2 and the best of the machine. Where it has no AVX2, all are plain.
        #[cfg(test)]
        const LEVELS: [Level; 3] = [
            Level { $($name: plain::$name),* },
            Level { $($name: avx2::$name),* },
            Level { $($name),* },
        ];

        $($(#[$attribute])*
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
        pub(crate) fn $name($($argument: $kind),*) $(-> $result)? { plain::$name($($argument),*) })*
    };
}

/// 1.5 · 2³¹ and 1.5 · 2²³. At these magnitudes the unit in the last place of an `f32` is 256 and
/// one: see [`encode_single`].
const COARSE: f32 = 3_221_225_472.0;
const FINE: f32 = 12_582_912.0;

/// Results of [`decode_double`] are certain if the low 29 bits of the quotient, which an `f32` drops,
/// differ from one half of its unit by at least this many units in the last place of the `f64`.
const DOUBT: u32 = 8;

loops! {
    /// Writes `round(value · scale)` as big-endian `i32`. Returns the bits of the greatest magnitude
    /// of the values.
    fn encode_double(values: &[f32], scale: f64, payload: &mut [u8]) -> u32 {
        let mut greatest = 0i32;
        for (word, value) in payload.as_chunks_mut().0.iter_mut().zip(values) {
            greatest = greatest.max(magnitude(*value));
            let shifted = f64::from(*value) * scale + ROUNDER;
            *word = (shifted.to_bits() as i32).to_be_bytes();
        }
        greatest.cast_unsigned()
    }

    /// The same in `f32`, in half the time, for a `scale` that is a power of two, if no magnitude
    /// reaches 2³⁰ in the result.
    ///
    /// The product is exact, or so small that it is rounded to zero anyway. It is rounded in two
    /// steps, as an `f32` holds only 24 bits: adding [`COARSE`] rounds to a multiple of 256. The rest
    /// is exact, because it is at most 128 and a multiple of the product's last place. Adding [`FINE`]
    /// rounds the rest to an integer, ties to even. The multiple of 256 is even, so the sum of both is
    /// the product rounded to an integer, ties to even.
    fn encode_single(values: &[f32], scale: f32, payload: &mut [u8]) -> u32 {
        let bias = (COARSE.to_bits() << 8).wrapping_add(FINE.to_bits());
        let mut greatest = 0i32;
        for (word, value) in payload.as_chunks_mut().0.iter_mut().zip(values) {
            greatest = greatest.max(magnitude(*value));
            let product = *value * scale;
            let coarse = product + COARSE;
            let fine = (product - (coarse - COARSE)) + FINE;
            let integer = (coarse.to_bits() << 8).wrapping_add(fine.to_bits()).wrapping_sub(bias);
            *word = integer.to_be_bytes();
        }
        greatest.cast_unsigned()
    }

    /// Reads big-endian `i32` and multiplies by the inverse of a scale of at most 2¹²⁵, in `f64`.
    /// Returns whether all results are certainly those of a division.
    ///
    /// The inverse and the product are each rounded once, so the product is less than three units in
    /// the last place of an `f64` away from the rounded quotient. Both become the same `f32`, unless
    /// a boundary between two `f32` lies between them. No result but zero is subnormal, so these
    /// boundaries are where the 29 bits that are dropped are one half.
    fn decode_double(payload: &[u8], inverse: f64, values: &mut [f32]) -> bool {
        let mut least = i32::MAX;
        for (value, word) in values.iter_mut().zip(payload.as_chunks().0) {
            let quotient = f64::from(i32::from_be_bytes(*word)) * inverse;
            let above_half = (quotient.to_bits() as u32).wrapping_sub((1 << 28) - DOUBT);
            // Zero for distances from -8 to 7.
            let distance = above_half & ((1 << 29) - 2 * DOUBT);
            least = least.min(distance.cast_signed());
            *value = quotient as f32;
        }
        least != 0
    }

    /// Reads big-endian `i32` and multiplies by the inverse of a scale, in `f32`.
    ///
    /// If the scale is a power of two and no result but zero is subnormal, the product is exact, and
    /// the conversion to `f32` is the only rounding, as in `f64`.
    fn decode_single(payload: &[u8], inverse: f32, values: &mut [f32]) {
        for (value, word) in values.iter_mut().zip(payload.as_chunks().0) {
            *value = i32::from_be_bytes(*word) as f32 * inverse;
        }
    }

    /// Adds big-endian `i32` to `sums`.
    fn accumulate(sums: &mut [i32], payload: &[u8]) {
        for (sum, word) in sums.iter_mut().zip(payload.as_chunks().0) {
            *sum = sum.wrapping_add(i32::from_be_bytes(*word));
        }
    }

    /// Reads big-endian `i32`.
    fn read(payload: &[u8], values: &mut [i32]) {
        for (value, word) in values.iter_mut().zip(payload.as_chunks().0) {
            *value = i32::from_be_bytes(*word);
        }
    }

    /// Writes big-endian `i32`.
    fn write(values: &[i32], payload: &mut [u8]) {
        for (word, value) in payload.as_chunks_mut().0.iter_mut().zip(values) {
            *word = value.to_be_bytes();
        }
    }

    /// Compares magnitudes, given as bits, with two bounds.
    fn count(values: &[f32], zeroing: i32, imprecise: i32) -> Counts {
        let (mut zeros, mut zeroed, mut below) = (0u32, 0u32, 0u32);
        let (mut greatest, mut least) = (0i32, i32::MAX);
        for value in values {
            let magnitude = magnitude(*value);
            zeros = zeros.wrapping_add(u32::from(magnitude == 0));
            zeroed = zeroed.wrapping_add(u32::from(magnitude <= zeroing));
            below = below.wrapping_add(u32::from(magnitude <= imprecise));
            greatest = greatest.max(magnitude);
            least = least.min(if magnitude == 0 { i32::MAX } else { magnitude });
        }
        let [greatest, least] = [greatest, least].map(i32::cast_unsigned);
        Counts { zeros, zeroed, imprecise: below, greatest, least }
    }

    /// The bits of the greatest magnitude; those of a NaN are greater than those of infinity.
    fn greatest(values: &[f32]) -> u32 {
        let magnitudes = values.iter().map(|value| magnitude(*value));
        magnitudes.fold(0, i32::max).cast_unsigned()
    }

    /// The greatest magnitude.
    fn greatest_integer(values: &[i32]) -> u32 {
        values.iter().fold(0, |greatest, value| greatest.max(value.unsigned_abs()))
    }
}

/// The instruction set of the loops.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn level() -> &'static str {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512dq+avx512vl" => "AVX-512",
        "x86_64+avx2" => "AVX2",
        _ => if cfg!(target_arch = "x86_64") {
            "SSE2"
        } else if cfg!(target_arch = "aarch64") {
            "NEON"
        } else {
            "none"
        },
    }
}

/// How many of some values are zero, or at most as great as two bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) zeros: u32,
    pub(crate) zeroed: u32,
    pub(crate) imprecise: u32,
    /// The bits of the greatest magnitude.
    pub(crate) greatest: u32,
    /// Those of the least other than zero; without one, all bits but the sign.
    pub(crate) least: u32,
}

/// The magnitude of a value as an integer with the same order. It is signed, because machines
/// without AVX compare signed integers faster, and never negative.
pub(crate) fn magnitude(value: f32) -> i32 {
    (value.to_bits() & (u32::MAX >> 1)).cast_signed()
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use proptest::prelude::*;

    use super::*;
    use crate::fixed::{self, Scale};

    fn rounded(value: f32, scale: f64) -> f64 {
        (f64::from(value) * scale).round_ties_even()
    }

    fn quotient(sum: i32, scale: f64) -> f32 {
        (f64::from(sum) / scale) as f32
    }

    fn words(integers: &[i32]) -> Vec<u8> {
        integers.iter().flat_map(|integer| integer.to_be_bytes()).collect()
    }

    fn power(exponent: i64) -> f64 {
        f64::from_bits(((1023 + exponent) as u64) << 52)
    }

    /// Numbers of all magnitudes, and those near ties and bounds.
    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |value| value.is_finite()),
            -1e6f32..1e6,
            (-1000i32..1000).prop_map(|halves| halves as f32 / 2.0),
            Just(0.0),
            Just(-0.0),
        ]
    }

    proptest! {
        /// From every alignment, and with every length of the rest that fills no vector.
        #[test]
        fn every_level_computes_the_same(
            numbers in prop::collection::vec(number(), 0..=130),
            integers in prop::collection::vec(any::<i32>(), 130),
            offset in 0usize..8,
            exponent in -126i64..=126,
            factor in 1e-3f64..1e9,
            bounds: [i32; 2],
        ) {
            let len = numbers.len();
            let start = offset.min(len);
            let numbers = &numbers[start..];
            let integers = &integers[start..len];
            let len = len - start;
            let mut room = vec![0xa5; offset + 4 * len + 3];
            for level in &LEVELS {
                let greatest = numbers.iter().fold(0.0f32, |greatest, v| greatest.max(v.abs()));
                prop_assert_eq!(f32::from_bits((level.greatest)(numbers)), greatest);
                let nonzero = numbers.iter().map(|v| v.abs()).filter(|v| *v != 0.0);
                let least = nonzero.reduce(f32::min);
                let counts = Counts {
                    zeros: numbers.iter().filter(|v| **v == 0.0).count() as u32,
                    zeroed: numbers.iter().filter(|v| magnitude(**v) <= bounds[0]).count() as u32,
                    imprecise: numbers.iter().filter(|v| magnitude(**v) <= bounds[1]).count() as u32,
                    greatest: greatest.to_bits(),
                    least: least.map_or(u32::MAX >> 1, f32::to_bits),
                };
                prop_assert_eq!((level.count)(numbers, bounds[0], bounds[1]), counts);
                let most = integers.iter().map(|v| v.unsigned_abs()).max().unwrap_or(0);
                prop_assert_eq!((level.greatest_integer)(integers), most);

                // Encoding writes each word, and nothing beyond.
                for single in [true, false] {
                    let scale = if single { power(exponent) } else { factor };
                    room.fill(0xa5);
                    let payload = &mut room[offset..offset + 4 * len];
                    let bits = match single {
                        true => (level.encode_single)(numbers, scale as f32, payload),
                        false => (level.encode_double)(numbers, scale, payload),
                    };
                    prop_assert_eq!(f32::from_bits(bits), greatest);
                    for (word, value) in payload.as_chunks().0.iter().zip(numbers) {
                        let rounded = rounded(*value, scale);
                        if rounded.abs() < f64::from(1 << 30) {
                            prop_assert_eq!(f64::from(i32::from_be_bytes(*word)), rounded);
                        }
                    }
                    let around = room[..offset].iter().chain(&room[offset + 4 * len..]);
                    prop_assert!(around.copied().all(|byte| byte == 0xa5));
                }

                room[offset..offset + 4 * len].copy_from_slice(&words(integers));
                let payload = &room[offset..offset + 4 * len];
                let mut back = vec![0.0; len];
                (level.decode_single)(payload, 1.0 / power(exponent) as f32, &mut back);
                for (back, sum) in back.iter().zip(integers) {
                    prop_assert_eq!(back.to_bits(), quotient(*sum, power(exponent)).to_bits());
                }
                if (level.decode_double)(payload, factor.recip(), &mut back) {
                    for (back, sum) in back.iter().zip(integers) {
                        prop_assert_eq!(back.to_bits(), quotient(*sum, factor).to_bits());
                    }
                }
                let mut sums = integers.to_vec();
                (level.accumulate)(&mut sums, payload);
                let twice: Vec<i32> = integers.iter().map(|v| v.wrapping_mul(2)).collect();
                prop_assert_eq!(&sums, &twice);
                (level.read)(payload, &mut sums);
                prop_assert_eq!(&sums, integers);
                let mut written = vec![0; 4 * len];
                (level.write)(integers, &mut written);
                prop_assert_eq!(&written[..], payload);
            }
        }

        /// Also with scales for which conversion in `f32` is not exact, or quotients are ties.
        #[test]
        fn decodes_as_division_does(
            sums in prop::collection::vec(any::<i32>(), 0..=130),
            factor in prop_oneof![
                prop::sample::select(vec![3.0, 10.0, 1e6, 1e-300, 1e300, 5e37, 4.3e37, 3e38]),
                (-1021i64..=1021).prop_map(power),
                1e-9f64..1e9,
            ],
        ) {
            let scale = Scale::new(factor).unwrap();
            let mut back = vec![0.0; sums.len()];
            fixed::decode(&words(&sums), scale, &mut back);
            for (back, sum) in back.iter().zip(sums) {
                prop_assert_eq!(back.to_bits(), quotient(sum, factor).to_bits(), "{} {}", sum, factor);
            }
        }
    }

    #[test]
    fn values_that_are_not_finite_fit_no_limit() {
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for factor in [1e6, 1_048_576.0] {
                let scale = Scale::new(factor).unwrap();
                assert!(!fixed::encode(&[0.0, value, 1.0], scale, 1 << 20, &mut [0; 12]));
            }
            for level in &LEVELS {
                assert!((level.greatest)(&[1.0, value]) >= f32::INFINITY.to_bits());
            }
        }
    }

    #[test]
    fn doubtful_quotients_are_found() {
        // 3 · (2²⁴ + 1) / 3 lies between two f32.
        let tie = 3 * ((1 << 24) + 1);
        for level in &LEVELS {
            for at in 0..100 {
                let mut sums = [7; 100];
                let decode = |sums: &[i32]| {
                    (level.decode_double)(&words(sums), 3f64.recip(), &mut [0.0; 100])
                };
                assert!(decode(&sums));
                sums[at] = tie;
                assert!(!decode(&sums));
            }
        }
    }

    /// Compares conversions in `f32` with the definition for `f32` of these bit patterns, and `i32`.
    fn compare(patterns: RangeInclusive<u32>, step: usize, exponents: &[i64]) {
        let mut patterns = patterns.step_by(step);
        loop {
            let block: Vec<u32> = patterns.by_ref().take(1 << 14).collect();
            if block.is_empty() {
                return;
            }
            let numbers: Vec<f32> = block.iter().map(|bits| f32::from_bits(*bits)).collect();
            let payload = words(&block.iter().map(|bits| bits.cast_signed()).collect::<Vec<_>>());
            let (mut encoded, mut back) = (payload.clone(), numbers.clone());
            for exponent in exponents {
                let scale = power(*exponent);
                encode_single(&numbers, scale as f32, &mut encoded);
                for (value, word) in numbers.iter().zip(encoded.as_chunks().0) {
                    let rounded = rounded(*value, scale);
                    let integer = i32::from_be_bytes(*word);
                    if rounded.abs() < f64::from(1 << 30) {
                        assert_eq!(f64::from(integer), rounded, "{value:e} {exponent}");
                    }
                }
                decode_single(&payload, scale.recip() as f32, &mut back);
                for (bits, back) in block.iter().zip(&back) {
                    let quotient = quotient(bits.cast_signed(), scale);
                    assert_eq!(back.to_bits(), quotient.to_bits(), "{bits:#x} {exponent}");
                }
            }
            for factor in [1e6, 3.0] {
                fixed::decode(&payload, Scale::new(factor).unwrap(), &mut back);
                for (bits, back) in block.iter().zip(&back) {
                    let quotient = quotient(bits.cast_signed(), factor);
                    assert_eq!(back.to_bits(), quotient.to_bits(), "{bits:#x} {factor}");
                }
            }
        }
    }

    #[test]
    fn conversion_in_f32_is_exact_for_samples() {
        let exponents: Vec<i64> = (-126..=126).step_by(6).collect();
        compare(0..=u32::MAX, 65_521, &exponents);
    }

    /// `cargo nextest run --workspace --lib --run-ignored only conversion_in_f32` takes minutes.
    #[test]
    #[ignore = "minutes"]
    fn conversion_in_f32_is_exact_for_all_values() {
        compare(0..=u32::MAX, 1, &[20, 0, -60, 126]);
    }
}
