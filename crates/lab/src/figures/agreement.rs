//! Agreement of two measurements of the same quantity.

use tributary_cluster::metrics::Spread;

/// Agreement of pairs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Agreement {
    /// Pearson's correlation coefficient; NaN if all values are equal.
    pub(crate) correlation: f64,
    /// Slope and intercept of the linear regression of the second on the first.
    pub(crate) fit: (f64, f64),
    /// Relative deviation of the second from the first, with its sign.
    pub(crate) bias: Spread,
    /// The same without its sign.
    pub(crate) error: Spread,
}

impl Agreement {
    /// Computes the agreement of pairs of positive values.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Self {
        let mean =
            |of: fn(&(f64, f64)) -> f64| Spread::of(&pairs.iter().map(of).collect::<Vec<_>>()).mean;
        let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let sum =
            |of: fn(f64, f64) -> f64| -> f64 { pairs.iter().map(|&(a, b)| of(a - x, b - y)).sum() };
        let (xx, yy, xy) = (sum(|a, _| a * a), sum(|_, b| b * b), sum(|a, b| a * b));
        let slope = xy / xx;
        let off = |of: fn(f64) -> f64| {
            Spread::of(&pairs.iter().map(|&(a, b)| of(b / a - 1.0)).collect::<Vec<_>>())
        };
        Self {
            correlation: xy / (xx * yy).sqrt(),
            fit: (slope, y - slope * x),
            bias: off(|off| off),
            error: off(f64::abs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_slope_correlates() {
        let agreement = Agreement::of(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]);
        assert!((agreement.correlation - 1.0).abs() < 1e-12);
        assert!((agreement.fit.0 - 2.0).abs() < 1e-12 && (agreement.fit.1 - 1.0).abs() < 1e-12);
        assert!((agreement.bias.mean - (2.0 + 1.5 + 1.25) / 3.0).abs() < 1e-12);
    }

    #[test]
    fn falling_values_correlate_negatively_and_errors_do_not_cancel() {
        let agreement = Agreement::of(&[(1.0, 1.1), (1.1, 1.05), (1.2, 0.9)]);
        assert!(agreement.correlation < -0.9, "{agreement:?}");
        assert!(agreement.error.mean > agreement.bias.mean.abs(), "{agreement:?}");
    }
}
