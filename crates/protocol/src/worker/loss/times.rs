//! Quantiles of the time to a result over the latest samples.

use std::time::Duration;

/// Number of samples from which quantiles are taken.
const SAMPLES: usize = 64;

/// Number of samples after which the minimum is taken anew, because paths change.
const LEAST_OF: u32 = 16384;

/// Times from sending a fragment to its result, for fragments that were sent once.
///
/// Some samples include the repair of another worker's loss, or the wait for a slow worker. A mean
/// is distorted by these; a quantile below their share is not.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    ring: [Duration; SAMPLES],
    count: usize,
    /// The minimum of the current period of samples, and that of the preceding period.
    least: [Duration; 2],
    since: u32,
}

impl Times {
    pub(crate) const fn new() -> Self {
        Self { ring: [Duration::ZERO; SAMPLES], count: 0, least: [Duration::MAX; 2], since: 0 }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.ring[self.count % SAMPLES] = time;
        self.count += 1;
        self.least[0] = self.least[0].min(time);
        self.since += 1;
        if self.since == LEAST_OF {
            self.least = [Duration::MAX, self.least[0]];
            self.since = 0;
        }
    }

    /// Whether there is exactly one sample.
    pub(crate) const fn is_first(&self) -> bool {
        self.count == 1
    }

    /// The minimum over at least the last sixteen thousand samples; `None` before the first.
    pub(crate) fn least(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.least[0].min(self.least[1]))
    }

    /// The time that `percent` of the last samples do not exceed; `None` before the first.
    pub(crate) fn quantile(&self, percent: usize) -> Option<Duration> {
        let mut samples = self.ring;
        let samples = &mut samples[..self.count.min(SAMPLES)];
        let at = (samples.len() * percent / 100).min(samples.len().checked_sub(1)?);
        Some(*samples.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn outliers_do_not_move_quantiles_below_their_share() {
        let mut times = Times::new();
        assert_eq!((times.least(), times.quantile(50)), (None, None));
        for at in 0..64 {
            times.add(if at % 8 == 0 { us(100_000) } else { us(10 + at % 3) });
        }
        assert_eq!((times.least(), times.quantile(50)), (Some(us(10)), Some(us(11))));
        assert_eq!((times.quantile(85), times.quantile(95)), (Some(us(12)), Some(us(100_000))));
    }

    #[test]
    fn the_minimum_expires() {
        let mut times = Times::new();
        times.add(us(1));
        for _ in 0..LEAST_OF {
            times.add(us(5));
        }
        assert_eq!(times.least(), Some(us(1)));
        for _ in 0..LEAST_OF {
            times.add(us(5));
        }
        assert_eq!(times.least(), Some(us(5)));
    }
}
