//! A window that fits the memory which a job gets in the switches (ESA).

/// The least window in packets: with fewer in flight, a share of results says little.
const LEAST: u32 = 16;

/// Bounds the packets that a worker of ESA has in flight by the aggregators that its job gets.
///
/// Every task that loses its aggregator, or finds none, costs up to a packet of each worker on the link of
/// the parameter server. With *n* workers, this link is half busy if the server completes one task in 2*n*.
/// So the window shrinks when the server completes a larger share of a window's results, by half of this
/// share; otherwise it grows by an eighth. Marks do not tell: they count the packets in queues, and a
/// switch without free aggregators has none. This is not in ESA's paper, which leaves the largest window open.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    window: u32,
    max: u32,
    /// Largest share of results that the server completes before the window shrinks.
    share: f64,
    /// Results in the current window, and how many the server completed.
    results: u32,
    repaired: u32,
}

impl Room {
    /// For windows up to `max` packets.
    pub(crate) fn new(max: u32, workers: u16) -> Self {
        let share = 0.5 / f64::from(workers.max(1));
        Self { window: max, max, share, results: 0, repaired: 0 }
    }

    /// The bound in packets.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// A result arrived; `in_flight` is the window that was used. `repaired` is true if the server completed it because an
    /// aggregator was taken.
    pub(crate) fn on_result(&mut self, repaired: bool, in_flight: u32) {
        self.results += 1;
        self.repaired += u32::from(repaired);
        if self.results < in_flight.clamp(LEAST, self.window) {
            return;
        }
        let share = f64::from(self.repaired) / f64::from(self.results);
        let least = LEAST.min(self.max);
        self.window = if share > self.share {
            let used = f64::from(in_flight.min(self.window));
            ((used * (1.0 - share / 2.0)) as u32).clamp(least, self.max)
        } else {
            (self.window + self.window.div_ceil(8)).min(self.max)
        };
        self.results = 0;
        self.repaired = 0;
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
