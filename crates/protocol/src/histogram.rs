//! Times, counted by magnitude.

use std::ops::AddAssign;
use std::time::Duration;

/// Number of bounded buckets: the last bound is 2^20 µs, about a second.
const BOUNDED: usize = 21;

/// How often times of each magnitude have occurred. The bounds of its buckets are one microsecond and its
/// doubles, up to about a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u64; BOUNDED + 1],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BOUNDED + 1], sum: Duration::ZERO }
    }
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The number of doublings of a microsecond that hold it.
        let doublings = u64::BITS - (nanos.saturating_sub(1) / 1_000).leading_zeros();
        self.counts[(doublings as usize).min(BOUNDED)] += 1;
        self.sum = self.sum.saturating_add(time);
    }

    /// The buckets: their upper bounds, which belong to them, and how many times they have. The last one
    /// has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bound = |at: usize| (at < BOUNDED).then(|| Duration::from_micros(1 << at));
        self.counts.iter().enumerate().map(move |(at, &count)| (bound(at), count))
    }

    /// The sum of all times.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

impl AddAssign for Histogram {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_with_the_next_bound() {
        let cases = [
            (0, Some(1)),
            (1_000, Some(1)),
            (1_001, Some(2)),
            (2_000, Some(2)),
            (4_001, Some(8)),
            ((1 << 20) * 1_000, Some(1 << 20)),
            (1 << 30, None),
            ((1 << 20) * 1_000 + 1, None),
            (u64::MAX, None),
        ];
        for (nanos, bound) in cases {
            let mut histogram = Histogram::default();
            let time = Duration::from_nanos(nanos);
            histogram.add(time);
            let mut filled = histogram.buckets().filter(|(_, count)| *count > 0);
            let expected = (bound.map(Duration::from_micros), 1);
            assert_eq!((filled.next(), filled.next()), (Some(expected), None), "{nanos} ns");
            assert_eq!(histogram.sum(), time);
        }
    }
}
