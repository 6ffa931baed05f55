//! How many packets may be traced.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits the number of traced packets, in all and per second, for all cores of a switch together.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    per_second: u64,
    /// The current second, and the packets that it has had.
    second: Mutex<(u64, u64)>,
}

impl Budget {
    /// Allows `count` packets, and `per_second` of them each second of the switch's time.
    #[must_use]
    pub fn new(count: u64, per_second: u64) -> Self {
        Self { left: AtomicU64::new(count), per_second, second: Mutex::default() }
    }

    /// One packet.
    #[must_use]
    pub fn one() -> Self {
        Self::new(1, u64::MAX)
    }

    /// Whether no more packets will be traced.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Takes a packet at a time in microseconds; false if none is left, or none in this second.
    pub(super) fn take(&self, now_us: u64) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now_us / 1_000_000;
        // The clocks of two cores differ a little.
        if now > second.0 {
            *second = (now, 0);
        }
        if second.1 >= self.per_second {
            return false;
        }
        let one_less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            return false;
        }
        second.1 += 1;
        true
    }

    /// Gives back a packet that is not traced here.
    pub(super) fn give_back(&self) {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        second.1 = second.1.saturating_sub(1);
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_so_many_per_second_and_in_all() {
        let budget = Budget::new(5, 2);
        let taken = |second: u64| {
            (0..1000).filter(|i| budget.take(second * 1_000_000 + i * 1000)).count()
        };
        assert_eq!([taken(0), taken(1), taken(3), taken(4)], [2, 2, 1, 0]);
        assert!(budget.is_spent());
        budget.give_back();
        assert!(!budget.is_spent());
        assert!(budget.take(9_000_000));
        assert!(!budget.take(20_000_000));
    }
}
