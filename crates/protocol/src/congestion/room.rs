//! A bound on the packets in flight, for the sake of the switches' memory (ESA).

use std::time::Duration;

use crate::Time;

/// Bounds what a worker of ESA has in flight by what its link carries in two round trips.
///
/// One round trip of packets keeps the link busy, the other one lets workers be ahead of each other. Packets beyond that gain
/// nothing, but each holds an aggregator that others need: marks do not limit them, as a switch without free
/// aggregators has short queues. The round trip is the shortest time to a result, the rate is
/// the most results in such a time. This is not in ESA's paper, which leaves the largest window open.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The bound is never lower.
    least: u32,
    /// Start of the current round trip, and the results since then.
    since: Time,
    results: u32,
    /// The most results in a round trip; it fades.
    most: u32,
}

impl Room {
    /// Allows at least `least` packets.
    pub(crate) fn new(least: u32) -> Self {
        Self { least, since: Time::ZERO, results: 0, most: 0 }
    }

    /// The bound in packets.
    pub(crate) fn window(&self) -> u32 {
        (2 * self.most).max(self.least)
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

    /// The window after this many results, of which each `every`-th was repaired.
    fn after(room: &mut Room, results: u32, every: u32) -> u32 {
        for at in 1..=results {
            let window = room.window();
            room.on_result(at % every == 0, window);
        }
        room.window()
    }

    #[test]
    fn shrinks_above_the_share_of_its_workers_and_grows_below() {
        let mut room = Room::new(1024, 8);
        assert_eq!(after(&mut room, 10_240, 17), 1024, "one in 17 is below one in 16");
        let mut room = Room::new(1024, 8);
        assert_eq!(after(&mut room, 1024, 15), 989);
        assert_eq!(after(&mut room, 100_000, 2), LEAST);
        assert_eq!(after(&mut room, LEAST, 1000), 18);
        assert_eq!(after(&mut room, 100_000, 1000), 1024);
    }

    #[test]
    fn never_leaves_its_bounds() {
        let mut room = Room::new(4, 2);
        assert_eq!(after(&mut room, 1000, 1), 4);
    }
}
