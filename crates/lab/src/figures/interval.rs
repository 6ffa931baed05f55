//! Means over repetitions with their confidence intervals.

use tributary_cluster::metrics::Spread;

/// 97.5 % quantiles of Student's t for one to ten degrees of freedom: half of the 5 % that a 95 %
/// interval leaves out lies on each side.
const QUANTILES: [f64; 10] =
    [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];

/// The same quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// The 97.5 % quantile of Student's t. Beyond the table it is an expansion around the normal
/// distribution (Abramowitz and Stegun 26.7.5), which is right to 2 in 10 000 there.
///
/// A crate of statistics would bring a dozen packages into `Cargo.lock` for this one number.
fn quantile(freedom: usize) -> f64 {
    if let Some(&known) = freedom.checked_sub(1).and_then(|at| QUANTILES.get(at)) {
        return known;
    }
    let (z, n) = (NORMAL, freedom as f64);
    let terms = [
        z,
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    (0..).zip(terms).map(|(power, term)| term / n.powi(power)).sum()
}

/// A mean over independent repetitions, with its 95 % confidence interval by Student's t.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half of the width of the interval; `None` for a single repetition, which says nothing about
    /// the spread.
    pub half: Option<f64>,
}

impl Interval {
    /// The interval of these values; the mean is NaN if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let Spread { runs, mean, deviation } = Spread::of(values);
        let half = (runs > 1).then(|| quantile(runs - 1) * deviation / (runs as f64).sqrt());
        Self { mean, half }
    }

    /// The lower end; minus infinity for a single repetition.
    #[must_use]
    pub fn low(self) -> f64 {
        self.half.map_or(f64::NEG_INFINITY, |half| self.mean - half)
    }

    /// The upper end; infinity for a single repetition.
    #[must_use]
    pub fn high(self) -> f64 {
        self.half.map_or(f64::INFINITY, |half| self.mean + half)
    }

    /// The mean, and ± half of the width, with this number of decimals.
    #[must_use]
    pub fn shown(self, digits: usize) -> String {
        let mean = self.mean;
        match self.half {
            Some(half) => format!("{mean:.digits$} ± {half:.digits$}"),
            None => format!("{mean:.digits$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        // From the tables of the NIST handbook (section 1.3.6.7.2).
        for (freedom, published) in [
            (1, 12.706),
            (2, 4.303),
            (4, 2.776),
            (9, 2.262),
            (10, 2.228),
            (11, 2.201),
            (19, 2.093),
            (30, 2.042),
            (100, 1.984),
            (999, 1.962),
        ] {
            let error = (quantile(freedom) - published).abs();
            assert!(error < 7e-4, "{freedom}: {} and not {published}", quantile(freedom));
        }
        // No step between the table and the expansion.
        let steps: Vec<f64> = (1..60).map(quantile).collect();
        assert!(steps.is_sorted_by(|a, b| a > b), "{steps:?}");
    }

    #[test]
    fn an_interval_is_that_of_a_known_sample() {
        // Mean 10, deviation 2, four values: 3.1824 · 2 / √4.
        let sample =
            [10.0 - 3f64.sqrt(), 10.0 + 3f64.sqrt(), 10.0 + 3f64.sqrt(), 10.0 - 3f64.sqrt()];
        let interval = Interval::of(&sample);
        assert!((interval.mean - 10.0).abs() < 1e-12);
        assert!((interval.half.unwrap() - 3.1824).abs() < 1e-9, "{interval:?}");
        assert!((interval.low() - 6.8176).abs() < 1e-9 && (interval.high() - 13.1824).abs() < 1e-9);
        assert_eq!(interval.shown(1), "10.0 ± 3.2");
    }

    #[test]
    fn a_single_repetition_has_no_interval() {
        let interval = Interval::of(&[2.5]);
        assert_eq!((interval.mean, interval.half), (2.5, None));
        assert_eq!((interval.low(), interval.high()), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(interval.shown(2), "2.50");
    }
}
