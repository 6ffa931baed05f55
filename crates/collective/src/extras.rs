//! What is summed as integers beside a call's values: what is below the unit of some, and which of some are not finite.

use std::ops::Range;

use tributary_protocol::Point;

use crate::scales::Plan;

/// One that is infinite. NaN counts as both, as the sum of both is NaN. Each has its bits of the integer, which hold
/// the number of workers.
const POSITIVE: i32 = 1;
const NEGATIVE: i32 = 1 << 11;
const COUNT: i32 = NEGATIVE - 1;

impl Plan {
    /// The integers of a rank's values. Those that are not finite become zero among the values.
    pub(crate) fn extract(&self, values: &mut [f32]) -> Vec<i32> {
        let mut marks = Vec::new();
        for part in &self.not_finite {
            marks.extend(values[part.clone()].iter_mut().map(take_mark));
        }
        let mut extras = Vec::new();
        for (part, point) in &self.doubled {
            extras.extend(values[part.clone()].iter().map(|value| rest(*value, *point)));
        }
        extras.extend(marks);
        extras
    }

    /// Completes the sums of the values with those of the integers.
    pub(crate) fn complete(&self, sums: &mut [f32], extras: &[i32]) {
        let mut extras = extras.iter();
        let mut each = |part: Range<usize>, complete: &dyn Fn(&mut f32, i32)| {
            sums[part].iter_mut().zip(&mut extras).for_each(|(sum, extra)| complete(sum, *extra));
        };
        for (part, point) in &self.doubled {
            let unit = point.scale().get().recip();
            let finest = unit * f64::from(-i32::from(point.rest)).exp2();
            each(part.clone(), &|sum, rest| {
                *sum = (f64::from(*sum) + f64::from(rest) * finest) as f32;
            });
        }
        for part in &self.not_finite {
            each(part.clone(), &|sum, marks| *sum += of_marks(marks));
        }
    }
}

/// What is below the unit of a value, in units of its own.
fn rest(value: f32, point: Point) -> i32 {
    let scaled = f64::from(value) * point.scale().get();
    let below = scaled - scaled.round_ties_even();
    (below * f64::from(point.rest).exp2()).round_ties_even() as i32
}

fn take_mark(value: &mut f32) -> i32 {
    if value.is_finite() {
        return 0;
    }
    match std::mem::take(value) {
        f32::INFINITY => POSITIVE,
        f32::NEG_INFINITY => NEGATIVE,
        _ => POSITIVE | NEGATIVE,
    }
}

/// The sum of those that are not finite.
fn of_marks(marks: i32) -> f32 {
    match (marks & COUNT > 0, marks > COUNT) {
        (false, false) => 0.0,
        (true, false) => f32::INFINITY,
        (false, true) => f32::NEG_INFINITY,
        (true, true) => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::fixed;

    use super::*;
    use crate::magnitudes::Blocks;
    use crate::scales::{Precision, precise};

    /// The sums as workers and switches compute them.
    fn sums(values: &[Vec<f32>], per_packet: u16, precision: Precision) -> Vec<f32> {
        let (ranks, elements) = (values.len() as u16, values[0].len());
        let blocks = Blocks::new(elements, ranks, per_packet);
        let mut words = vec![0; blocks.words()];
        for (rank, own) in (0..).zip(values) {
            let mut part = Vec::new();
            blocks.append(&mut part, rank, &blocks.measure(own, precise(ranks)));
            words.iter_mut().zip(part).for_each(|(all, own)| *all += own);
        }
        let plan = Plan::new(&blocks.of_all(&words), &blocks, elements, ranks, precision);
        let (mut sums, mut extras) = (vec![0_i32; elements], Vec::new());
        for own in values {
            let mut own = own.clone();
            let more = plan.extract(&mut own);
            extras.resize(more.len(), 0_i32);
            let limit = fixed::limit(ranks);
            assert!(more.iter().all(|extra| extra.abs() <= limit));
            extras.iter_mut().zip(more).for_each(|(sum, extra)| *sum += extra);
            for (place, point) in plan.fragments(per_packet.into()) {
                let mut payload = vec![0; 4 * place.len()];
                assert!(fixed::encode(&own[place.clone()], point.scale(), limit, &mut payload));
                fixed::accumulate(&mut sums[place], &payload);
            }
        }
        let mut floats = vec![0.0; elements];
        for (place, point) in plan.fragments(per_packet.into()) {
            let payload: Vec<u8> =
                sums[place.clone()].iter().flat_map(|sum| sum.to_be_bytes()).collect();
            fixed::decode(&payload, point.scale(), &mut floats[place]);
        }
        plan.complete(&mut floats, &extras);
        floats
    }

    fn exact(values: &[Vec<f32>], at: usize) -> f64 {
        values.iter().map(|own| f64::from(own[at])).sum()
    }

    #[test]
    fn what_is_not_finite_is_as_in_a_sum_of_floats() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let mut values = vec![vec![1.0; 300]; 3];
        for (at, own) in [[nan, 1.0, 2.0], [inf, 1.0, 2.0], [1.0, -inf, -inf], [inf, 0.0, -inf]]
            .iter()
            .enumerate()
        {
            (0..3).for_each(|rank| values[rank][70 + at] = own[rank]);
        }
        for precision in [Precision::Single, Precision::Auto, Precision::Double] {
            let sums = sums(&values, 32, precision);
            assert!(sums[70].is_nan() && sums[73].is_nan());
            assert_eq!((sums[71], sums[72]), (inf, -inf));
            let others = sums.iter().enumerate().filter(|(at, _)| !(70..74).contains(at));
            assert!(others.into_iter().all(|(_, sum)| *sum == 3.0), "{sums:?}");
        }
    }

    /// A rank's values of magnitudes that differ by up to 2^40.
    fn wide() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(
            (-1.0_f32..1.0, -20..20_i32).prop_map(|(v, power)| v * f32::from(power as i8).exp2()),
            200,
        )
    }

    proptest! {
        #[test]
        fn two_integers_hold_values_of_different_magnitudes(
            values in prop::collection::vec(wide(), 2..9),
        ) {
            let ranks = values.len() as u16;
            // Of the second integers, for values below 2^20.
            let bits = f64::from(fixed::limit(ranks).ilog2() + 24);
            let unit = (20.0 - bits).exp2() * f64::from(ranks.next_power_of_two());
            for (at, sum) in sums(&values, 64, Precision::Double).iter().enumerate() {
                let exact = exact(&values, at);
                let bound = exact.abs() * (-24_f64).exp2() + 0.5 * unit * f64::from(ranks);
                prop_assert!((f64::from(*sum) - exact).abs() <= bound, "{} {}", sum, exact);
            }
        }

        #[test]
        fn few_values_have_an_error_of_more_than_a_hundredth(
            values in prop::collection::vec(wide(), 2..9),
        ) {
            for (at, sum) in sums(&values, 64, Precision::Auto).iter().enumerate() {
                let magnitude: f64 = values.iter().map(|own| f64::from(own[at].abs())).sum();
                let error = (f64::from(*sum) - exact(&values, at)).abs();
                prop_assert!(error <= magnitude / 50.0, "{} {}", sum, exact(&values, at));
            }
        }
    }
}
