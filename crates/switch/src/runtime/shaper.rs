//! Limits the rate of a port.

use std::time::{Duration, Instant};

/// Bytes per frame on an Ethernet link outside the frame itself: preamble, check sequence and gap.
const OVERHEAD: usize = 24;

/// When a port may send its next frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaper {
    bits_per_second: Option<u64>,
    free_at: Option<Instant>,
}

impl Shaper {
    /// `None`: as fast as the medium accepts frames.
    pub(super) fn new(bits_per_second: Option<u64>) -> Self {
        Self { bits_per_second: bits_per_second.filter(|&rate| rate > 0), free_at: None }
    }

    /// Time until the port may send; `None` if it may send now.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.free_at.map(|at| at.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Accounts for a sent frame. Unused time is not saved up. A delay of the thread is
    /// compensated, so that the rate holds on average.
    pub(super) fn sent(&mut self, now: Instant, bytes: usize) {
        let Some(rate) = self.bits_per_second else { return };
        let nanos = (bytes + OVERHEAD) as u128 * 8 * 1_000_000_000 / u128::from(rate);
        let takes = Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX));
        let slack = Duration::from_millis(1);
        let start = self.free_at.filter(|&at| at + slack > now).unwrap_or(now);
        self.free_at = Some(start + takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_at_the_rate_and_idle_time_is_not_accumulated() {
        let start = Instant::now();
        let mut shaper = Shaper::new(Some(1_000_000_000));
        assert_eq!(shaper.wait(start), None);
        shaper.sent(start, 1226); // with overhead 10 000 bits: 10 µs
        assert_eq!(shaper.wait(start), Some(Duration::from_micros(10)));
        shaper.sent(start, 1226);
        assert_eq!(shaper.wait(start), Some(Duration::from_micros(20)));
        let later = start + Duration::from_secs(1);
        assert_eq!(shaper.wait(later), None);
        shaper.sent(later, 1226);
        assert_eq!(shaper.wait(later), Some(Duration::from_micros(10)));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut shaper = Shaper::new(None);
        shaper.sent(Instant::now(), 1_000_000);
        assert_eq!(shaper.wait(Instant::now()), None);
    }
}
