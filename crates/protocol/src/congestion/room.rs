//! A bound on the packets in flight, for the sake of the switches' memory (ESA).

use std::time::Duration;

use crate::Time;

/// Bounds what a worker of ESA has in flight by the results that arrive in two round trips.
///
/// One round trip of packets keeps the link busy, the other one lets workers be ahead of each other.
/// Packets beyond that gain nothing, but each holds an aggregator that others need; marks do not limit
/// them, as a switch without free aggregators has short queues. The round trip is the shortest time to a
/// result, the rate is the most results in such a time. The bound is never lower than the initial window, so
/// a larger one lifts it, as for hosts that usually take much longer than the shortest time. This is not
/// in ESA's paper, which leaves the largest window open.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The bound is never lower.
    least: u32,
    /// Fragments this far apart may have the same aggregator.
    span: u32,
    /// Start of the current round trip, and the results since then.
    since: Time,
    results: u32,
    /// The most results in a round trip; it fades.
    most: u32,
}

impl Room {
    /// Allows at least `least` packets.
    pub(crate) fn new(least: u32, span: u32) -> Self {
        Self { least, span, since: Time::ZERO, results: 0, most: 0 }
    }

    /// The bound in packets.
    pub(crate) fn window(&self) -> u32 {
        self.most.saturating_mul(2).max(self.least)
    }

    /// A fragment is not sent before all fragments this far below it are complete, so that a job never
    /// collides with itself.
    pub(crate) fn span(&self) -> u32 {
        self.span
    }

    /// A result arrived. `round_trip` is the shortest time to a result so far.
    pub(crate) fn on_result(&mut self, now: Time, round_trip: Option<Duration>) {
        self.results += 1;
        if round_trip.is_some_and(|it| now - self.since >= it) {
            self.most = self.results.max(self.most - self.most / 16);
            self.results = 0;
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound after results at these intervals in nanoseconds, with a round trip of 1 µs.
    fn after(room: &mut Room, from: &mut u64, interval: u64, results: u32) -> u32 {
        for _ in 0..results {
            *from += interval;
            room.on_result(Time::from_nanos(*from), Some(Duration::from_micros(1)));
        }
        room.window()
    }

    #[test]
    fn allows_two_round_trips_of_the_highest_rate() {
        let (mut room, mut now) = (Room::new(16, 1024), 0);
        assert_eq!(room.window(), 16);
        // Ten in a microsecond, and then forty.
        assert_eq!(after(&mut room, &mut now, 100, 100), 20);
        assert_eq!(after(&mut room, &mut now, 25, 400), 80);
        // A slow phase lowers it step by step.
        let later = after(&mut room, &mut now, 100, 100);
        assert!((40..80).contains(&later), "{later}");
        assert!(after(&mut room, &mut now, 1000, 1000) <= 32);
    }

    #[test]
    fn does_not_change_without_a_known_round_trip() {
        let mut room = Room::new(16, 1024);
        for at in 0..1000 {
            room.on_result(Time::from_nanos(at), None);
        }
        assert_eq!(room.window(), 16);
    }
}
