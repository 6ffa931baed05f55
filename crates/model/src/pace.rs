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
/// a packet waits for all packets in flight. Each of these is a minimum.
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
        self.network.switch.ecn_threshold = self.network.switch.ecn_threshold.min(ECN_THRESHOLD);
        self.network.switch.idle_timeout = self.network.switch.idle_timeout.max(IDLE);
        let RttConfig { initial, min, max } = self.network.timeouts;
        self.network.timeouts = RttConfig {
            initial: initial.max(TIMEOUTS.initial),
            min: min.max(TIMEOUTS.min),
            max: max.max(TIMEOUTS.max),
        };
    }
}
