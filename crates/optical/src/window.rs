//! Ideal active windows of virtual ports: algorithm 3.

/// What a job moves through a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Share {
    /// Bits left: *D*(p, j).
    pub(crate) bits: f64,
    /// Seconds of its update after the last transfer: *τ*(j).
    pub(crate) update: f64,
}

/// Width in seconds at which the search stops, as a fraction of the range: *t*(th).
const THRESHOLD: f64 = 1e-6;

/// The end of a port's ideal window, in seconds from now: the earliest time by which all jobs can
/// end together, updates included, if the port carries `capacity` bits per second.
///
/// Line 9 is printed with `t_0`, the lower end of the range, and with one `τ_j`:
///
/// - The search is for the midpoint `t̄`, so the test must be of `t̄`. `t_0` does not change while
///   the test holds, so that the search would end at one of the two ends of the range.
/// - `τ_j` is each job's own update time. With the longest one of line 5, the answer would always be
///   the upper end, `τ̄ + τ_j`, and no search would be needed.
pub(crate) fn window(capacity: f64, shares: &[Share]) -> f64 {
    let total: f64 = shares.iter().map(|share| share.bits).sum();
    let average = total / capacity;
    let longest = shares.iter().map(|share| share.update).fold(0.0, f64::max);
    let rate_until = |end: f64| -> f64 {
        shares
            .iter()
            .filter(|share| share.bits > 0.0)
            .map(|share| {
                let time = end - share.update;
                if time > 0.0 { share.bits / time } else { f64::INFINITY }
            })
            .sum()
    };
    let (mut low, mut high) = (average, average + longest);
    let threshold = THRESHOLD * longest;
    while high - low > threshold {
        let middle = f64::midpoint(low, high);
        if capacity >= rate_until(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(bits: f64, update: f64) -> Share {
        Share { bits, update }
    }

    #[test]
    fn equal_updates_add_to_the_transfer() {
        assert_eq!(window(10.0, &[share(20.0, 0.0), share(10.0, 0.0)]), 3.0);
        let end = window(10.0, &[share(20.0, 0.7), share(10.0, 0.7)]);
        assert!((end - 3.7).abs() < 1e-5, "{end}");
        assert_eq!(window(10.0, &[]), 0.0);
    }

    #[test]
    fn different_updates_agree_with_the_closed_form() {
        // a / t + b / (t - u) = c, so c t² - (c u + a + b) t + a u = 0.
        for (a, b, u, c) in [(20.0, 10.0, 0.7, 10.0), (1.0, 50.0, 3.0, 7.0), (9.0, 1.0, 2.0, 3.0)] {
            let p: f64 = c * u + a + b;
            let root = (p + (p * p - 4.0 * c * a * u).sqrt()) / (2.0 * c);
            let end = window(c, &[share(a, 0.0), share(b, u)]);
            assert!((end - root).abs() < 1e-5, "{end} is not {root}");
            // Line 9 as printed, or with the longest update of line 5, ends at the upper end.
            assert!(end < (a + b) / c + u - 1e-3);
        }
    }
}
