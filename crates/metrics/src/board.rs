//! Where parts of a process publish their numbers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Time between two publications of a part: readers look at most once per second.
pub const PERIOD: Duration = Duration::from_millis(250);

/// A place where parts of a process publish numbers, each in an [`Entry`] of its own. Clones are the same
/// board.
#[derive(Debug)]
pub struct Board<T>(Arc<Mutex<Vec<Weak<Mutex<T>>>>>);

impl<T> Clone for Board<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Board<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Board<T> {
    /// A new entry. It stays until it is dropped.
    #[must_use]
    pub fn post(&self, first: T) -> Entry<T> {
        let entry = Arc::new(Mutex::new(first));
        let mut entries = lock(&self.0);
        entries.retain(|entry| entry.strong_count() > 0);
        entries.push(Arc::downgrade(&entry));
        Entry(entry)
    }

    /// What all entries contain now, in the order in which they were posted.
    #[must_use]
    pub fn read(&self) -> Vec<T>
    where
        T: Clone,
    {
        let entries: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        entries.iter().map(|entry| lock(entry).clone()).collect()
    }
}

/// A part's entry on a [`Board`].
#[derive(Debug)]
pub struct Entry<T>(Arc<Mutex<T>>);

impl<T> Entry<T> {
    /// Changes what readers see. They wait meanwhile.
    pub fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut lock(&self.0));
    }
}

/// Tells a part when to publish, by its own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    due: Duration,
}

impl Schedule {
    /// Whether a [`PERIOD`] is over since this last returned true. `now` is the time since some beginning.
    #[inline]
    pub fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.due;
        if due {
            self.due = now + PERIOD;
        }
        due
    }
}

/// An entry stays readable after a panic of its part: it has the last numbers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_until_they_are_dropped() {
        let board = Board::default();
        let (first, second) = (board.clone().post(1), board.post(2));
        first.update(|number| *number += 10);
        assert_eq!(board.read(), [11, 2]);
        drop(first);
        assert_eq!(board.read(), [2]);
        let third = board.post(3);
        assert_eq!((board.read(), lock(&board.0).len()), (vec![2, 3], 2));
        drop((second, third));
    }

    #[test]
    fn a_part_publishes_once_per_period() {
        let mut schedule = Schedule::default();
        let due: Vec<_> =
            (0..10).filter(|tenths| schedule.is_due(Duration::from_millis(tenths * 100))).collect();
        assert_eq!(due, [0, 3, 6, 9]);
    }
}
