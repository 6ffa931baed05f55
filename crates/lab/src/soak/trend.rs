//! Whether a measure grows.

/// How a measure went on after the start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Trend {
    /// The first value.
    pub(crate) first: u64,
    /// The last value.
    pub(crate) last: u64,
    /// The highest value.
    pub(crate) most: u64,
    /// Slope of the line through all values after the warm-up (least squares).
    pub(crate) per_hour: f64,
    /// Whether it grows: the lowest value of each third is higher than that of the third before, and in the end by
    /// more than the tolerance. Lowest values, because work in progress comes and goes.
    pub(crate) grows: bool,
}

/// Share of the time that processes have to fill their caches and pools.
const WARM_UP: f64 = 0.2;

impl Trend {
    /// The trend of values at times in seconds, in order; `None` if there are too few after the warm-up.
    pub(crate) fn of(points: &[(f64, u64)], tolerance: u64) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let begin = first.0 + WARM_UP * (last.0 - first.0);
        let warm = &points[points.partition_point(|point| point.0 < begin)..];
        if warm.len() < 3 {
            return None;
        }
        let lowest = |part: usize| {
            let part = &warm[warm.len() * part / 3..warm.len() * (part + 1) / 3];
            part.iter().map(|point| point.1).min().unwrap_or_default()
        };
        let [one, two, three] = [0, 1, 2].map(lowest);
        Some(Self {
            first: first.1,
            last: last.1,
            most: points.iter().map(|point| point.1).max()?,
            per_hour: 3600.0 * slope(warm),
            grows: one < two && two < three && three - one > tolerance,
        })
    }
}

/// Slope of the line with the least squares, per second.
fn slope(points: &[(f64, u64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |value: &dyn Fn(&(f64, u64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (time, value) = (mean(&|point| point.0), mean(&|point| point.1 as f64));
    let covariance = mean(&|point| (point.0 - time) * (point.1 as f64 - value));
    let variance = mean(&|point| (point.0 - time).powi(2));
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of an hour.
    fn hour(value: impl Fn(u64) -> u64) -> Vec<(f64, u64)> {
        (0..720).map(|n| (5.0 * n as f64, value(n))).collect()
    }

    #[test]
    fn a_leak_of_a_descriptor_each_minute_grows() {
        let trend = Trend::of(&hour(|n| 20 + n / 12), 0).unwrap();
        assert!(trend.grows && (trend.per_hour - 60.0).abs() < 1.0, "{trend:?}");
        assert_eq!((trend.first, trend.last, trend.most), (20, 79, 79));
    }

    #[test]
    fn work_in_progress_and_a_warm_up_do_not_grow() {
        let trend = Trend::of(&hour(|n| 1000 + n.min(100) + 500 * (n % 7)), 0).unwrap();
        assert!(!trend.grows, "{trend:?}");
        assert!(!Trend::of(&hour(|_| 7), 0).unwrap().grows);
        // One step, as of a buffer that once was larger.
        assert!(!Trend::of(&hour(|n| 100 + 50 * u64::from(n > 400)), 0).unwrap().grows);
    }

    #[test]
    fn less_than_the_tolerance_does_not_grow() {
        assert!(!Trend::of(&hour(|n| 100_000 + n), 1000).unwrap().grows);
        assert!(Trend::of(&hour(|n| 100_000 + 3 * n), 1000).unwrap().grows);
    }

    #[test]
    fn too_few_samples_have_no_trend() {
        assert_eq!(Trend::of(&[(0.0, 1), (5.0, 2)], 0), None);
        assert_eq!(Trend::of(&[], 0), None);
    }
}
