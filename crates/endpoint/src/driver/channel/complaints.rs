//! Rate-limited log lines about peers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Minimum interval between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes warnings, each kind at most once per [`PAUSE`], with the number of suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// Per kind: when the last line was written, and how many were suppressed since.
    kinds: Mutex<Vec<(&'static str, Instant, u64)>>,
}

impl Complaints {
    /// Logs a fault of a peer, unless its kind was logged less than [`PAUSE`] ago.
    pub(crate) fn say(&self, kind: &'static str, line: impl FnOnce() -> String) {
        let now = Instant::now();
        let Some(left_out) = self.admit(kind, now) else { return };
        let line = line();
        if left_out == 0 {
            tracing::warn!("{line}");
        } else {
            tracing::warn!("{line} (and {left_out} like it before)");
        }
    }

    /// The number of suppressed lines, if this one may be written.
    fn admit(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().expect("nobody panics with it");
        let Some((_, last, left_out)) = kinds.iter_mut().find(|(known, ..)| *known == kind) else {
            kinds.push((kind, now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*last) < PAUSE {
            *left_out += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_per_pause_and_the_rest_is_counted() {
        let complaints = Complaints::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(complaints.admit("garbage", at(0)), Some(0));
        assert_eq!(complaints.admit("token", at(1)), Some(0));
        for millis in 1..=999 {
            assert_eq!(complaints.admit("garbage", at(millis)), None);
        }
        assert_eq!(complaints.admit("garbage", at(1000)), Some(999));
        assert_eq!(complaints.admit("garbage", at(1001)), None);
        assert_eq!(complaints.admit("garbage", at(3000)), Some(1));
        assert_eq!(complaints.admit("token", at(3000)), Some(0));
    }
}
