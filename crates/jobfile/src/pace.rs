//! Settings for switches that are much slower than the hosts.

use std::time::Duration;

use tributary_protocol::rtt::RttConfig;

use crate::Scenario;

/// Maximum number of gradients that the workers of a file have in flight together. The egress
/// queues of BMv2 hold 64 packets, and no P4Runtime call changes that.
const UNDER_WAY: u32 = 64;

/// Minimum number of slots per job: with fewer, no later results would reveal a loss.
const FEWEST_SLOTS: u32 = 4;

/// Queue length above which BMv2 marks congestion: half the capacity of its queues.
const ECN_THRESHOLD: u32 = 32;

/// BMv2 takes about 100 µs per packet, or several times that if all processes share few cores, and
/// a packet waits for all packets in flight.
const TIMEOUTS: RttConfig = RttConfig {
    initial: Duration::from_millis(50),
    min: Duration::from_millis(10),
    max: Duration::from_millis(200),
};

/// Minimum time after which an aggregator counts as idle: several retransmission timeouts.
const IDLE: Duration = Duration::from_millis(200);

impl Scenario {
    /// Adapts the scenario to BMv2: fewer slots, so that packets in flight fit in its queues;
    /// congestion marks before the queues are full; and timeouts longer than its delays. The
    /// workload and its sums do not change.
    ///
    /// Either all processes of a run must call it, or none.
    pub fn pace_for_bmv2(&mut self) {
        let workers: usize = self.jobs.iter().map(|job| job.workers.len()).sum();
        let share = UNDER_WAY / u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        let slots = (1 << share.max(1).ilog2()).max(FEWEST_SLOTS);
        for job in &mut self.jobs {
            job.slots = job.slots.min(slots);
            job.window = job.window.min(job.slots);
        }
        self.switch.ecn_threshold = self.switch.ecn_threshold.min(ECN_THRESHOLD);
        self.switch.idle_timeout = self.switch.idle_timeout.max(IDLE);
        self.timeouts = TIMEOUTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(text: &str) -> Scenario {
        let mut scenario = crate::parse(text, "job.toml").unwrap_or_else(|error| panic!("{error}"));
        scenario.pace_for_bmv2();
        scenario
    }

    #[test]
    fn packets_in_flight_fit_in_the_queues_of_bmv2() {
        for (workers, slots) in [(1, 64), (2, 32), (3, 16), (4, 16), (5, 8), (16, 4), (32, 4)] {
            let scenario = paced(&format!("[topology]\nworkers = {workers}\n[[job]]\n"));
            let job = &scenario.jobs[0];
            assert_eq!((job.slots, job.window), (slots, slots), "{workers} workers");
        }
        let two = paced("[topology]\nworkers = 4\n[[job]]\nworkers = 2\n[[job]]\nworkers = 2\n");
        assert!(two.jobs.iter().all(|job| job.slots == 16), "jobs share the queues");
    }

    #[test]
    fn settings_that_are_already_slow_are_kept() {
        let text = "[topology]\nworkers = 2\n[protocol]\nslots = 8\nwindow = 3\n\
                    [switch]\necn_threshold = 5\nidle_timeout = \"3s\"\n[[job]]\n";
        let scenario = paced(text);
        assert_eq!((scenario.jobs[0].slots, scenario.jobs[0].window), (8, 3));
        assert_eq!(scenario.switch.ecn_threshold, 5);
        assert_eq!(scenario.switch.idle_timeout, Duration::from_secs(3));
    }

    #[test]
    fn segments_hold_the_slots_that_are_left() {
        for protocol in ["p4inc", "switchml"] {
            let text = format!("protocol = \"{protocol}\"\n[topology]\nworkers = 4\n[[job]]\n");
            let before = crate::parse(&text, "job.toml").unwrap();
            let after = paced(&text);
            assert_eq!(before.jobs[0].segment, after.jobs[0].segment, "aggregators are not slow");
            assert!(after.jobs[0].slots <= after.jobs[0].segment);
        }
    }
}
