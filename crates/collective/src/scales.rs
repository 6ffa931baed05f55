//! The fixed-point scale of each fragment: a power of two, as fine as the values of its block permit.
//!
//! All ranks know the magnitudes of the values of all, and so choose the same scales, at which no
//! sum overflows. A block whose values differ so much that one integer each does not hold them is summed in two: the
//! first is small enough for its sum to be exact as an `f32`, and the second has what is below its unit.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tributary_protocol::{Point, Scales, fixed};

use crate::magnitudes::{self, Blocks, Magnitudes};

/// The finest and the coarsest scale for which conversions are exact in `f32`.
const MOST: i32 = 126;

/// Bits of a value that is summed with an error of at most 1 %.
const PRECISE: i32 = 6;

/// Bits of an `f32`.
const SINGLE: i32 = 24;

/// Which values are summed as two integers each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// None.
    Single,
    /// Those of a block with so many small ones that more than one in a thousand would have an error above 1 %.
    #[default]
    Auto,
    /// All: the sums are those of `f32` values, rounded once.
    Double,
}

/// The bits of the number that a worker may send, without its sign: any sum over the workers fits 31.
fn bits(workers: u16) -> i32 {
    i32::try_from(fixed::limit(workers).ilog2()).expect("at most 30")
}

/// Bits of which each worker can fill one value: a value with fewer below the greatest one is precise.
pub(crate) fn precise(workers: u16) -> i32 {
    bits(workers) - PRECISE
}

/// Parts of a call's values.
type Parts = Vec<Range<usize>>;

/// How the values of a call are summed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    points: Vec<Point>,
    /// The power of two whose inverse is the last unit of the blocks that lose most.
    coarsest: i32,
    /// Elements that are summed as two integers each, and of which each is a part with a scale.
    pub(crate) doubled: Vec<(Range<usize>, Point)>,
    /// Elements of which some are NaN or infinite, at some rank.
    pub(crate) not_finite: Parts,
    elements: usize,
}

impl Plan {
    pub(crate) fn new(
        all: &[Magnitudes],
        blocks: &Blocks,
        elements: usize,
        workers: u16,
        precision: Precision,
    ) -> Self {
        let point = |block: &Magnitudes| {
            block.range.map_or(Point::default(), |range| point(range, workers, precision))
        };
        let points: Vec<Point> = all.iter().map(point).collect();
        let place = |at: usize| at * blocks.size()..elements.min((at + 1) * blocks.size());
        let doubled = points.iter().enumerate().filter(|(_, point)| point.rest > 0);
        let doubled = doubled.map(|(at, point)| (place(at), *point)).collect();
        let not_finite = all.iter().enumerate().filter(|(_, block)| !block.finite);
        let not_finite = not_finite.map(|(at, _)| place(at)).collect();
        // Zeros lose nothing.
        let with_values = all.iter().zip(&points).filter(|(block, _)| block.range.is_some());
        let last = with_values.map(|(_, point)| i32::from(point.exponent) + i32::from(point.rest));
        let coarsest = last.min().unwrap_or_default();
        let points = blocks.of_fragments().map(|block| points[block]).collect();
        Self { points, coarsest, doubled, not_finite, elements }
    }

    pub(crate) fn scales(&self) -> Scales {
        Scales::new(self.points.clone())
    }

    /// The scale of each fragment, with its elements.
    pub(crate) fn fragments(
        &self,
        values_per_packet: usize,
    ) -> impl Iterator<Item = (Range<usize>, Point)> {
        let end = self.elements;
        let place = move |at: usize| at * values_per_packet..end.min((at + 1) * values_per_packet);
        self.points.iter().enumerate().map(move |(at, point)| (place(at), *point))
    }

    /// Half a unit at the coarsest scale: values below it become zero.
    pub(crate) fn coarsest_half(&self) -> f64 {
        0.5 * f64::from(-self.coarsest).exp2()
    }
}

/// The scale for values of so many workers.
fn point(range: magnitudes::Range, workers: u16, precision: Precision) -> Point {
    let bits = bits(workers);
    let magnitudes::Range { high, low } = range;
    let doubled = match precision {
        Precision::Single => false,
        Precision::Auto => high - low > precise(workers),
        Precision::Double => true,
    };
    // A sum of as many values as there are workers has so many bits more.
    let more = i32::try_from(workers.next_power_of_two().ilog2()).expect("at most 10");
    let (exponent, rest) = if doubled { (SINGLE - more - high, bits) } else { (bits - high, 0) };
    let exponent = i8::try_from(exponent.clamp(-MOST, MOST)).expect("it is in the range");
    Point { exponent, rest: u8::try_from(rest).expect("at most 30") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range_of(value: f32) -> magnitudes::Range {
        Blocks::new(1, 1, 64).measure(&[value], 20)[0].range.unwrap()
    }

    proptest! {
        #[test]
        fn values_fit_and_use_the_range(value in any::<f32>(), workers in 1..=1024_u16) {
            prop_assume!(value.is_finite() && value != 0.0);
            let range = range_of(value);
            let scaled = |precision| {
                let scale = point(range, workers, precision).scale().get();
                (f64::from(value.abs()) * scale, scale == 126_f64.exp2())
            };
            let (single, finest) = scaled(Precision::Single);
            let limit = f64::from(fixed::limit(workers));
            prop_assert!(single.round_ties_even() <= limit);
            // Within a factor of four of the limit, unless the scale is the finest one.
            prop_assert!(single * 4.0 > limit || finest);
            // The sum of the first integers is exact as an `f32`, and that of the others in 31 bits.
            let (double, _) = scaled(Precision::Double);
            prop_assert!(double.round_ties_even() * f64::from(workers) <= f64::from(1 << 24));
            let rest = point(range, workers, Precision::Double).rest;
            prop_assert!(0.5 * f64::from(rest).exp2() * f64::from(workers) <= f64::from(i32::MAX));
        }
    }

    #[test]
    fn blocks_with_many_small_values_are_doubled() {
        let blocks = Blocks::new(200, 2, 64);
        assert_eq!(blocks.size(), 64);
        let mut values = vec![1.0; 200];
        values[70..80].fill(1e-9);
        values[199] = f32::NAN;
        let all = blocks.measure(&values, precise(2));
        let plan = |precision| Plan::new(&all, &blocks, 200, 2, precision);
        let auto = plan(Precision::Auto);
        assert_eq!(auto.points.iter().map(|point| point.rest).collect::<Vec<_>>(), [0, 29, 0, 0]);
        assert_eq!(auto.doubled, [(64..128, Point { exponent: 22, rest: 29 })]);
        assert_eq!((auto.not_finite.len(), auto.not_finite.first()), (1, Some(&(192..200))));
        assert_eq!(plan(Precision::Single).doubled, []);
        assert_eq!(plan(Precision::Double).doubled.len(), 4);
        assert_eq!(auto.fragments(64).last().unwrap().0, 192..200);
    }
}
