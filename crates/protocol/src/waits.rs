//! How often and how long an endpoint waited.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// Waits of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Their sum. Serialised in seconds.
    #[serde(rename = "seconds", with = "seconds")]
    pub total: Duration,
    /// The longest of them. Serialised in seconds.
    #[serde(rename = "longest_seconds", with = "seconds")]
    pub longest: Duration,
}

impl Waits {
    /// Adds a wait.
    pub fn add(&mut self, wait: Duration) {
        *self += Self { count: 1, total: wait, longest: wait };
    }

    /// Adds a wait from `since` to now, if it has begun.
    pub(crate) fn add_since(&mut self, now: Time, since: Option<Time>) {
        if let Some(since) = since {
            self.add(now - since);
        }
    }
}

/// Combines the waits of several endpoints, or of one endpoint in several runs.
impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// A duration as a number of seconds, as reports have it.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, into: S) -> Result<S::Ok, S::Error> {
        into.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_the_longest_wait_stays() {
        let (mut one, mut other) = (Waits::default(), Waits::default());
        one.add(Duration::from_millis(3));
        one.add(Duration::from_millis(5));
        other.add(Duration::from_millis(4));
        one += other;
        let [total, longest] = [12, 5].map(Duration::from_millis);
        assert_eq!(one, Waits { count: 3, total, longest });
    }
}
