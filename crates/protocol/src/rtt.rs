//! Retransmission timeout (RFC 6298).

use std::time::Duration;

/// Bounds of a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct RttConfig {
    /// Timeout before the first sample. RFC 6298 §2.1 specifies one second; a data centre needs
    /// less.
    pub initial: Duration,
    /// Lower bound. ESA §6 sets 1 ms.
    pub min: Duration,
    /// Upper bound, also of a backed-off timeout.
    pub max: Duration,
}

impl Default for RttConfig {
    /// 20 ms initially, at least 1 ms, at most 100 ms.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(20),
            min: Duration::from_millis(1),
            max: Duration::from_millis(100),
        }
    }
}

/// Smoothed round-trip time and variation, and the timeout derived from them.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// Smoothed round-trip time and variation; `None` before the first sample.
    estimate: Option<(Duration, Duration)>,
    /// Number of times that the timeout has been doubled.
    backoff: u32,
}

impl RttEstimator {
    /// Creates an estimator without samples.
    pub const fn new(config: RttConfig) -> Self {
        Self { config, estimate: None, backoff: 0 }
    }

    /// Takes a sample and resets the backoff (RFC 6298 §5.7). By Karn's rule, only measure packets
    /// that were sent once: the answer to a resent packet is ambiguous (§3).
    pub fn sample(&mut self, rtt: Duration) {
        self.backoff = 0;
        // §2.2 and §2.3, with alpha 1/8 and beta 1/4.
        self.estimate = Some(match self.estimate {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => {
                (smoothed * 7 / 8 + rtt / 8, variation * 3 / 4 + smoothed.abs_diff(rtt) / 4)
            }
        });
    }

    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|(smoothed, _)| smoothed)
    }

    /// The timeout without backoff.
    pub fn base_timeout(&self) -> Duration {
        let timeout = match self.estimate {
            None => self.config.initial,
            Some((smoothed, variation)) => smoothed + variation * 4,
        };
        timeout.clamp(self.config.min, self.config.max)
    }

    /// The timeout, with backoff.
    pub fn timeout(&self) -> Duration {
        backed_off(self.base_timeout(), self.backoff, self.config.max)
    }

    /// Doubles the timeout. Call it each time that the timer fires (§5.5).
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Resets the backoff without a sample, because a result arrived and so packets get through.
    ///
    /// RFC 6298 waits for a sample. But each worker's losses delay every task, so few fragments are
    /// sent only once and samples are rare: the timeout would stay backed off although results
    /// arrive. TCP implementations do the same on an acknowledgement of new data.
    pub fn progress(&mut self) {
        self.backoff = 0;
    }

    /// The timeout doubled `times` times, for a caller that counts its own backoff.
    pub fn timeout_after(&self, times: u32) -> Duration {
        backed_off(self.base_timeout(), times, self.config.max)
    }
}

fn backed_off(timeout: Duration, times: u32, max: Duration) -> Duration {
    let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX);
    timeout.saturating_mul(factor).min(max)
}

/// The minimum of a series of times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Least(Option<Duration>);

impl Least {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |least| least.min(time)));
    }

    /// `None` before the first time.
    pub(crate) const fn get(self) -> Option<Duration> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RttConfig = RttConfig { initial: ms(100), min: ms(1), max: ms(1000) };

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn follows_the_worked_formula() {
        let mut rtt = RttEstimator::new(CONFIG);
        assert_eq!(rtt.timeout(), ms(100));
        rtt.sample(ms(8));
        // SRTT 8, RTTVAR 4: 8 + 16.
        assert_eq!(rtt.timeout(), ms(24));
        rtt.sample(ms(16));
        // RTTVAR = 3/4·4 + 1/4·8 = 5, SRTT = 7/8·8 + 1/8·16 = 9: 9 + 20.
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(ms(9)), ms(29)));
    }

    #[test]
    fn backs_off_to_the_cap_and_recovers_by_a_sample() {
        let mut rtt = RttEstimator::new(CONFIG);
        rtt.sample(Duration::from_micros(10));
        let mut seen = vec![];
        for _ in 0..100 {
            seen.push(rtt.timeout());
            rtt.back_off();
        }
        assert_eq!(seen[..4], [ms(1), ms(2), ms(4), ms(8)]);
        assert_eq!(seen[99], CONFIG.max);
        rtt.sample(Duration::from_micros(10));
        assert_eq!(rtt.timeout(), ms(1));
    }

    #[test]
    fn absurd_samples_stay_within_bounds() {
        let mut rtt = RttEstimator::new(CONFIG);
        for _ in 0..10 {
            rtt.sample(Duration::from_nanos(u64::MAX));
            assert_eq!(rtt.timeout(), CONFIG.max);
            rtt.sample(Duration::ZERO);
        }
    }

    #[test]
    fn results_without_samples_undo_the_backing_off() {
        let mut rtt = RttEstimator::new(CONFIG);
        rtt.sample(ms(8));
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(48));
        rtt.progress();
        assert_eq!(rtt.timeout(), ms(24));
    }
}
