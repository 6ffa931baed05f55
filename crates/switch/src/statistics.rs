//! What a switch counts by itself; programs count for themselves with counters.

/// One port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Frames that came in.
    pub received: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Packets that found the egress queue full.
    pub queue_drops: u64,
    /// Packets that the program dropped in egress.
    pub egress_drops: u64,
    /// Packets in the egress queue now.
    pub depth: usize,
    /// Most packets that were ever in it.
    pub max_depth: usize,
}

/// The switch as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchStatistics {
    /// Frames that came while no pipeline was set.
    pub no_pipeline: u64,
    /// Packets that the program dropped in ingress.
    pub ingress_drops: u64,
    /// Packets, or copies of them, for a port that does not exist.
    pub no_such_port: u64,
    /// Packets, or copies of them, with a priority that no queue of their port has.
    pub no_such_queue: u64,
    /// Packets for a multicast group that does not exist.
    pub no_such_group: u64,
    /// Copies for a clone session that does not exist.
    pub no_such_session: u64,
    /// Resubmissions.
    pub resubmitted: u64,
    /// Packets that were resubmitted too often.
    pub resubmit_drops: u64,
    /// Recirculations.
    pub recirculated: u64,
    /// Packets that found too many others waiting to be parsed again.
    pub recirculation_drops: u64,
    /// Packets for the controller that found too many others waiting.
    pub packet_in_drops: u64,
    /// Digests for the controller that found too many others waiting.
    pub digest_drops: u64,
    /// Packets under way that were dropped because another pipeline was set.
    pub replaced: u64,
}
