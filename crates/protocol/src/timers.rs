//! A table of timers: an enum names them, and an array holds their times.

use crate::Time;

/// `N` timers, numbered by the discriminants of the endpoint's `Timer` enum.
#[derive(Clone, Debug)]
pub(crate) struct Timers<const N: usize>([Option<Time>; N]);

impl<const N: usize> Timers<N> {
    pub(crate) const fn new() -> Self {
        Self([None; N])
    }

    pub(crate) fn set(&mut self, timer: impl Into<usize>, at: Time) {
        self.0[timer.into()] = Some(at);
    }

    /// Sets the timer unless it is set.
    pub(crate) fn set_if_unset(&mut self, timer: impl Into<usize>, at: Time) {
        self.0[timer.into()].get_or_insert(at);
    }

    pub(crate) fn is_set(&self, timer: impl Into<usize>) -> bool {
        self.0[timer.into()].is_some()
    }

    /// Clears the timer if it is due, and returns the time for which it was set.
    pub(crate) fn expire(&mut self, timer: impl Into<usize>, now: Time) -> Option<Time> {
        self.0[timer.into()].take_if(|at| *at <= now)
    }

    pub(crate) fn stop_all(&mut self) {
        self.0 = [None; N];
    }

    /// The earliest time at which a timer is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_expires_once() {
        let mut timers = Timers::<2>::new();
        assert_eq!(timers.next(), None);
        timers.set(1usize, Time::from_nanos(5));
        timers.set_if_unset(1usize, Time::from_nanos(1));
        timers.set_if_unset(0usize, Time::from_nanos(7));
        assert_eq!(timers.next(), Some(Time::from_nanos(5)));
        assert_eq!(timers.expire(1usize, Time::from_nanos(4)), None);
        assert!(timers.is_set(1usize));
        assert_eq!(timers.expire(1usize, Time::from_nanos(6)), Some(Time::from_nanos(5)));
        assert_eq!(timers.expire(1usize, Time::from_nanos(6)), None);
        assert_eq!(timers.next(), Some(Time::from_nanos(7)));
        timers.stop_all();
        assert_eq!(timers.next(), None);
    }
}
