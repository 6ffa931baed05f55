//! Points in time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since an epoch that the driver chooses.
///
/// Time never goes back: an endpoint may receive the same time twice, but not an earlier one. Sums
/// and differences saturate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// Converts from nanoseconds since the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;

    /// Zero if `earlier` is later than `self`.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    /// Writes seconds, with nine decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturates_at_both_ends() {
        let late = Time::from_nanos(u64::MAX - 1);
        assert_eq!(late + Duration::MAX, Time::from_nanos(u64::MAX));
        assert_eq!(Time::ZERO - late, Duration::ZERO);
        assert_eq!(
            (Time::ZERO + Duration::from_millis(2)) - Time::from_nanos(5),
            Duration::from_nanos(1_999_995)
        );
        assert_eq!(Time::from_nanos(1_000_000_002).to_string(), "1.000000002");
    }
}
