//! The exact sums that the network's results must equal, bit by bit.
//!
//! This is independent of the endpoints, which must not check themselves: it shares no code with
//! their fixed point, processes whole tensors instead of packets, and adds in 64 bits instead
//! of 32.

/// Largest magnitude that a sum of 32-bit integers may reach.
const MAX_SUM: u32 = i32::MAX as u32;

/// The sum of `n = contributions.len()` tensors of `f32`, one per worker, in worker order.
///
/// Each value `x` counts as the integer nearest to `x · scale`, ties to even. The integers are
/// added exactly, and the sum is divided by `scale` in `f64` and rounded to `f32`.
///
/// The overflow rule (invariant I5): tensors are cut into fragments of `fragment` values. If any
/// integer of any worker in a fragment exceeds `(2^31 − 1) / n` in magnitude, the values of the
/// whole fragment are themselves added in worker order in `f64` and rounded to `f32`. The addition
/// starts from the first worker's value, so that negative zeros alone add up to `-0.0`.
///
/// # Panics
///
/// If there are no contributions, their lengths differ, `fragment` is 0, or `scale` is not positive
/// and finite. These are errors of the caller, not of the network.
pub fn exact_sum(contributions: &[&[f32]], scale: f64, fragment: usize) -> Vec<f32> {
    sum_by_fragments(contributions, fragment, |part, sums| {
        if fits(part, scale) {
            add_scaled(part, scale, sums);
            return;
        }
        sums.extend((0..part[0].len()).map(|i| {
            let column = part.iter().map(|own| f64::from(own[i]));
            column.reduce(|sum, x| sum + x).expect("at least one worker") as f32
        }));
    })
}

/// Powers of two by which the scale is divided, in this order, where switches cannot add floats.
const LADDER: [i32; 8] = [0, 4, 8, 16, 32, 64, 96, 128];

/// Like [`exact_sum`], for protocols in which only switches sum (P4INC, SwitchML). Only the
/// overflow rule differs. A fragment with too large an integer of any worker is summed at the first
/// scale of the ladder at which all fit: the scale divided by 2⁴, 2⁸, 2¹⁶, 2³², 2⁶⁴, 2⁹⁶ or 2¹²⁸.
///
/// # Panics
///
/// As for [`exact_sum`]; and if an integer is too large even at the last scale, at which workers
/// reject the tensor.
pub fn exact_sum_on_ladder(contributions: &[&[f32]], scale: f64, fragment: usize) -> Vec<f32> {
    sum_by_fragments(contributions, fragment, |part, sums| {
        let rungs = LADDER.iter().map(|&exponent| scale * 2_f64.powi(-exponent));
        let mut scales = rungs.map(|scale| scale.max(f64::MIN_POSITIVE));
        let scale = scales.find(|&scale| fits(part, scale));
        add_scaled(part, scale.expect("a scale at which all integers fit"), sums);
    })
}

/// Cuts tensors into fragments and passes each fragment to `sum`, which appends its sums.
fn sum_by_fragments(
    contributions: &[&[f32]],
    fragment: usize,
    sum: impl Fn(&[&[f32]], &mut Vec<f32>),
) -> Vec<f32> {
    assert!(fragment > 0, "fragments hold at least one value");
    let len = common_length(contributions);
    let mut sums = Vec::with_capacity(len);
    for start in (0..len).step_by(fragment) {
        let range = start..len.min(start + fragment);
        let part: Vec<&[f32]> = contributions.iter().map(|own| &own[range.clone()]).collect();
        sum(&part, &mut sums);
    }
    sums
}

fn scaled(x: f32, scale: f64) -> f64 {
    (f64::from(x) * scale).round_ties_even()
}

/// Whether all integers of a fragment are small enough that the sum over all workers fits in 32
/// bits. False for NaN, so that an integer never hides one.
fn fits(part: &[&[f32]], scale: f64) -> bool {
    assert!(scale.is_finite() && scale > 0.0, "scale {scale}");
    let limit = f64::from(MAX_SUM / part.len() as u32);
    part.iter().all(|own| own.iter().all(|x| scaled(*x, scale).abs() <= limit))
}

fn add_scaled(part: &[&[f32]], scale: f64, sums: &mut Vec<f32>) {
    sums.extend((0..part[0].len()).map(|i| {
        let sum: i64 = part.iter().map(|own| scaled(own[i], scale) as i64).sum();
        (sum as f64 / scale) as f32
    }));
}

/// The sum of `n = contributions.len()` tensors of `i32`, one per worker.
///
/// # Errors
///
/// The first value, in worker order, whose magnitude exceeds `(2^31 − 1) / n`. Workers reject such
/// tensors, because their sum might overflow.
///
/// # Panics
///
/// If there are no contributions or their lengths differ.
pub fn exact_sum_i32(contributions: &[&[i32]]) -> Result<Vec<i32>, TooLarge> {
    let len = common_length(contributions);
    let limit = MAX_SUM / contributions.len() as u32;
    for (worker, own) in contributions.iter().enumerate() {
        if let Some(index) = own.iter().position(|x| x.unsigned_abs() > limit) {
            return Err(TooLarge { worker, index, value: own[index], limit });
        }
    }
    let column_sum = |i: usize| contributions.iter().map(|own| i64::from(own[i])).sum::<i64>();
    Ok((0..len)
        .map(|i| i32::try_from(column_sum(i)).expect("n values up to (2^31 - 1) / n"))
        .collect())
}

/// An integer that might make a sum overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {worker}, value {index}: {value} is beyond ±{limit}")]
pub struct TooLarge {
    /// The worker of the tensor.
    pub worker: usize,
    /// Flat index in the tensor.
    pub index: usize,
    /// The integer.
    pub value: i32,
    /// Largest magnitude allowed, `(2^31 − 1) / n`.
    pub limit: u32,
}

/// A value that differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The results have different lengths.
    #[error("{got} values instead of {expected}")]
    Length {
        /// Expected number of values.
        expected: usize,
        /// Actual number of values.
        got: usize,
    },
    /// A value differs in at least one bit.
    #[error(
        "value {index} is {} ({got:#010x}) instead of {} ({expected:#010x})",
        f32::from_bits(*got),
        f32::from_bits(*expected)
    )]
    Float {
        /// Flat index.
        index: usize,
        /// Expected bits.
        expected: u32,
        /// Actual bits.
        got: u32,
    },
    /// An integer differs.
    #[error("value {index} is {got} instead of {expected}")]
    Integer {
        /// Flat index.
        index: usize,
        /// Expected value.
        expected: i32,
        /// Actual value.
        got: i32,
    },
}

/// Compares two results bit by bit: `0.0` is not `-0.0`, and a `NaN` equals itself.
///
/// # Errors
/// The first difference.
pub fn same_bits(expected: &[f32], got: &[f32]) -> Result<(), Difference> {
    let same = |e: f32, g: f32| e.to_bits() == g.to_bits();
    first_difference(expected, got, same, |index, e, g| Difference::Float {
        index,
        expected: e.to_bits(),
        got: g.to_bits(),
    })
}

/// Compares two integer results.
///
/// # Errors
///
/// The first difference.
pub fn same_integers(expected: &[i32], got: &[i32]) -> Result<(), Difference> {
    let same = |e, g| e == g;
    first_difference(expected, got, same, |index, e, g| Difference::Integer {
        index,
        expected: e,
        got: g,
    })
}

/// Values that are compared without an early end, which the compiler vectorises.
const BLOCK: usize = 1024;

fn first_difference<T: Copy>(
    expected: &[T],
    got: &[T],
    same: impl Fn(T, T) -> bool,
    difference: impl Fn(usize, T, T) -> Difference,
) -> Result<(), Difference> {
    if expected.len() != got.len() {
        return Err(Difference::Length { expected: expected.len(), got: got.len() });
    }
    let blocks = expected.chunks(BLOCK).zip(got.chunks(BLOCK));
    for (number, (expected, got)) in blocks.enumerate() {
        let pairs = || expected.iter().zip(got);
        if pairs().fold(true, |all, (e, g)| all & same(*e, *g)) {
            continue;
        }
        if let Some((at, (e, g))) = pairs().enumerate().find(|(_, (e, g))| !same(**e, **g)) {
            return Err(difference(number * BLOCK + at, *e, *g));
        }
    }
    Ok(())
}

fn common_length<T>(contributions: &[&[T]]) -> usize {
    let len = contributions.first().expect("at least one worker").len();
    for (worker, own) in contributions.iter().enumerate() {
        assert_eq!(own.len(), len, "worker {worker} has another number of values");
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_rounded_ties_to_even() {
        // Halves at scale 1: 0.5 → 0, 1.5 → 2, 2.5 → 2, -0.5 → 0, -1.5 → -2.
        let own = [0.5, 1.5, 2.5, -0.5, -1.5];
        assert_eq!(exact_sum(&[&own], 1.0, 64), [0.0, 2.0, 2.0, 0.0, -2.0]);
        assert_eq!(exact_sum(&[&own, &own], 1.0, 64), [0.0, 4.0, 4.0, 0.0, -4.0]);
    }

    /// An integer has one zero; a float keeps the sign that IEEE 754 gives to a sum of zeros.
    #[test]
    fn zeros_keep_their_sign_only_in_the_float_path() {
        let zeros = |a: f32, b: f32, other: f32| {
            let (first, second) = ([a, other], [b, other]);
            exact_sum(&[&first, &second], 1.0, 2)[0].to_bits()
        };
        let (plus, minus) = (0.0f32.to_bits(), (-0.0f32).to_bits());
        assert_eq!(zeros(-0.0, -0.0, 0.3), plus);
        assert_eq!(zeros(-0.0, -0.0, 3e9), minus);
        assert_eq!(zeros(-0.0, 0.0, 3e9), plus);
    }

    /// (2^31 − 1) / 2 = 1 073 741 823: representable, as scaling happens in f64.
    #[test]
    fn the_limit_itself_fits_and_one_more_does_not() {
        let scale = 1_073_741_823.0;
        // At the limit the integer path applies. 1e-10 becomes 0 there, and is kept in the float
        // path.
        let at: [&[f32]; 2] = [&[1.0, 1e-10], &[1.0, 1e-10]];
        assert_eq!(exact_sum(&at, scale, 2), [2.0, 0.0]);
        let above: [&[f32]; 2] = [&[-1.0, 1e-10], &[1.0, 1e-10]];
        assert_eq!(exact_sum(&above, scale + 1.0, 2), [0.0, 2e-10]);
    }

    #[test]
    fn overflow_stays_within_its_fragment() {
        let small = [1e-10f32, 1e-10, 1e-10, 1e-10, 1e-10];
        let mut large = small;
        large[3] = 1e30;
        let sum = exact_sum(&[&small, &large], 1e3, 2);
        assert_eq!(sum, [0.0, 0.0, 2e-10, 1e30, 0.0]);
        // One worker's overflow suffices, whichever worker it is.
        assert_eq!(sum, exact_sum(&[&large, &small], 1e3, 2));
    }

    /// One worker's 3e9 exceeds half of 2³¹; a sixteenth of it fits.
    #[test]
    fn on_the_ladder_a_fragment_is_summed_at_the_first_scale_that_fits() {
        let (small, large): ([f32; 4], [f32; 4]) = ([20.0; 4], [20.0, 20.0, 3e9, 20.0]);
        let sums = exact_sum_on_ladder(&[&small, &large], 1.0, 2);
        // 20/16 is 1.25, so each contributes 16 · 1. The other fragment is unchanged.
        assert_eq!(sums, [40.0, 40.0, 3e9, 32.0]);
        assert_eq!(sums, exact_sum_on_ladder(&[&large, &small], 1.0, 2));
        // One rung further, all small values become zero.
        let larger = [3e10, 20.0];
        assert_eq!(exact_sum_on_ladder(&[&larger, &small[..2]], 1.0, 2), [3e10, 0.0]);
    }

    #[test]
    fn the_ladder_has_a_scale_for_every_float() {
        for value in [3e38, -3e38, f32::MIN_POSITIVE, 0.0, 1e30] {
            let sum = exact_sum_on_ladder(&[&[value], &[0.0]], f64::from(1 << 20), 1)[0];
            assert!(
                (f64::from(sum) - f64::from(value)).abs() <= f64::from(value.abs()) / 1e4 + 1e-6
            );
        }
        assert_eq!(exact_sum_on_ladder(&[&[1.0]], f64::MIN_POSITIVE, 1), [0.0]);
    }

    #[test]
    #[should_panic(expected = "at which all integers fit")]
    fn a_value_for_which_no_scale_is_coarse_enough_is_not_summed() {
        exact_sum_on_ladder(&[&[f32::MAX]], 1e30, 1);
    }

    /// In f64 and in this order, 1e30 + 1 is 1e30, and adding −1e30 leaves the last 1.
    #[test]
    fn floats_are_added_in_worker_order() {
        let orders: [[&[f32]; 4]; 2] =
            [[&[1.0], &[1e30], &[-1e30], &[1.0]], [&[1e30], &[-1e30], &[1.0], &[1.0]]];
        assert_eq!(exact_sum(&orders[0], 1.0, 1), [1.0]);
        assert_eq!(exact_sum(&orders[1], 1.0, 1), [2.0]);
    }

    /// 2^24 + 1 is not an f32: the sum of integers must not be rounded to f32 before the end.
    #[test]
    fn sums_beyond_f32_precision_round_once() {
        let a = [16_777_216.0f32];
        let b = [1.0f32];
        assert_eq!(exact_sum(&[&a, &b, &b, &b], 1.0, 1), [16_777_220.0]);
        // A tie at 25 bits rounds to even.
        assert_eq!(exact_sum(&[&a, &b], 1.0, 1), [16_777_216.0]);
    }

    #[test]
    fn many_workers_at_the_limit_do_not_wrap() {
        let limit = (i32::MAX / 32) as f32; // 67 108 863 is not an f32; this is 67 108 864.
        let own = [limit, 1e-10];
        let all: Vec<&[f32]> = vec![&own; 32];
        assert_eq!(exact_sum(&all, 1.0, 2)[0], 2_147_483_648.0);
        assert!(exact_sum(&all, 1.0, 2)[1] > 0.0, "the float path");
        let below = [67_108_860.0, 1e-10];
        let all: Vec<&[f32]> = vec![&below; 32];
        assert_eq!(exact_sum(&all, 1.0, 2), [2_147_483_520.0, 0.0]);
    }

    #[test]
    fn nan_and_infinity_are_not_hidden() {
        assert!(exact_sum(&[&[f32::NAN]], 1.0, 1)[0].is_nan());
        assert_eq!(exact_sum(&[&[f32::INFINITY]], 1.0, 1), [f32::INFINITY]);
    }

    #[test]
    fn empty_tensors_have_empty_sums() {
        assert!(exact_sum(&[&[], &[]], 1.0, 64).is_empty());
        assert_eq!(exact_sum_i32(&[&[], &[]]), Ok(vec![]));
    }

    #[test]
    fn integers_beyond_the_limit_are_named() {
        let limit = i32::MAX / 3;
        assert_eq!(exact_sum_i32(&[&[limit], &[limit], &[limit]]), Ok(vec![limit * 3]));
        for value in [limit + 1, -limit - 1, i32::MIN] {
            let error = exact_sum_i32(&[&[0, 0], &[0, value], &[0, 0]]).unwrap_err();
            let expected = TooLarge { worker: 1, index: 1, value, limit: limit as u32 };
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn differences_are_reported() {
        assert_eq!(same_bits(&[1.0, f32::NAN], &[1.0, f32::NAN]), Ok(()));
        let error = same_bits(&[1.0, 0.0], &[1.0, -0.0]).unwrap_err();
        assert_eq!(error.to_string(), "value 1 is -0 (0x80000000) instead of 0 (0x00000000)");
        assert_eq!(same_bits(&[1.0], &[]).unwrap_err().to_string(), "0 values instead of 1");
        assert_eq!(
            same_integers(&[1, 2], &[1, 3]).unwrap_err().to_string(),
            "value 1 is 3 instead of 2"
        );
    }

    proptest! {
        /// Against 128-bit integers scaled by a power of two, where x · scale is exact.
        #[test]
        fn equals_exact_rational_arithmetic(
            values in proptest::collection::vec((-1000i32..1000, -1000i32..1000, -1000i32..1000), 1..200),
            shift in 0u32..20,
            fragment in 1usize..70,
        ) {
            // Values are quarters; the limit for 3 workers is never reached: 250 · 2^19 < 2^27.
            let column = |pick: fn(&(i32, i32, i32)) -> i32| -> Vec<f32> {
                values.iter().map(|v| pick(v) as f32 / 4.0).collect()
            };
            let workers = [column(|v| v.0), column(|v| v.1), column(|v| v.2)];
            let views: Vec<&[f32]> = workers.iter().map(Vec::as_slice).collect();
            let got = exact_sum(&views, f64::from(1u32 << shift), fragment);
            let nearest = |quarters: i32| -> i128 {
                let scaled = i128::from(quarters) << shift; // in quarters
                let floor = scaled.div_euclid(4);
                match scaled.rem_euclid(4) {
                    0 | 1 => floor,
                    3 => floor + 1,
                    _ => floor + floor.rem_euclid(2),
                }
            };
            for (index, (a, b, c)) in values.iter().enumerate() {
                let sum = nearest(*a) + nearest(*b) + nearest(*c);
                prop_assert_eq!(f64::from(got[index]), sum as f64 / f64::from(1u32 << shift));
            }
        }

        #[test]
        fn fragment_size_matters_only_with_overflow(
            values in proptest::collection::vec(-1.0f32..1.0, 1..200),
            fragment in 1usize..300,
        ) {
            let doubled: Vec<f32> = values.iter().map(|v| v * 2.0).collect();
            let views = [values.as_slice(), doubled.as_slice()];
            let whole = exact_sum(&views, 1e6, values.len());
            prop_assert_eq!(same_bits(&whole, &exact_sum(&views, 1e6, fragment)), Ok(()));
            prop_assert_eq!(same_bits(&whole, &exact_sum_on_ladder(&views, 1e6, fragment)), Ok(()));
        }
    }
}
