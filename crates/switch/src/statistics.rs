//! Counters of the switch itself; programs have their own counters.

/// Counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Packets that found the egress queue full.
    pub queue_drops: u64,
    /// Packets that the program dropped in egress.
    pub egress_drops: u64,
    /// Packets in the egress queue.
    pub depth: usize,
    /// Most packets in the egress queue at any time.
    pub max_depth: usize,
}

/// Counters of the whole switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchStatistics {
    /// Frames received while no pipeline was set.
    pub no_pipeline: u64,
    /// Packets that the program dropped in ingress.
    pub ingress_drops: u64,
    /// Packets, or copies, for an unknown port.
    pub no_such_port: u64,
    /// Packets, or copies, for a missing priority queue of their port.
    pub no_such_queue: u64,
    /// Packets for an unknown multicast group.
    pub no_such_group: u64,
    /// Copies for an unknown clone session.
    pub no_such_session: u64,
    /// Resubmissions.
    pub resubmitted: u64,
    /// Packets that were resubmitted too often.
    pub resubmit_drops: u64,
    /// Recirculations.
    pub recirculated: u64,
    /// Packets dropped because too many others waited for recirculation.
    pub recirculation_drops: u64,
    /// Packets dropped because too many others waited for the controller.
    pub packet_in_drops: u64,
    /// Digests dropped because too many others waited for the controller.
    pub digest_drops: u64,
    /// Packets in flight that were dropped because another pipeline was set.
    pub replaced: u64,
}
