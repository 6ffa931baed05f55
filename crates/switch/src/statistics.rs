//! Counters of the switch itself; programs have their own counters.

/// Counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Frames received.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
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
    /// Packets that the packet generator made (TNA).
    pub generated: u64,
    /// Triggers of the packet generator that were lost because too many others waited.
    pub generator_drops: u64,
    /// Packets in flight that were dropped because another pipeline was set.
    pub replaced: u64,
    /// Packets handed over to the core of their registers.
    pub handed_over: u64,
    /// Packets dropped because too many others waited for that core.
    pub handover_drops: u64,
}

impl PortStatistics {
    /// Adds the counters of the same port on another core, which has a queue of its own.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            received,
            received_bytes,
            sent,
            sent_bytes,
            queue_drops,
            egress_drops,
            depth,
            max_depth,
        } = other;
        self.received += received;
        self.received_bytes += received_bytes;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.queue_drops += queue_drops;
        self.egress_drops += egress_drops;
        self.depth += depth;
        self.max_depth = self.max_depth.max(*max_depth);
    }
}

impl SwitchStatistics {
    /// Adds the counters of another core.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            no_pipeline,
            ingress_drops,
            no_such_port,
            no_such_queue,
            no_such_group,
            no_such_session,
            resubmitted,
            resubmit_drops,
            recirculated,
            recirculation_drops,
            packet_in_drops,
            digest_drops,
            generated,
            generator_drops,
            replaced,
            handed_over,
            handover_drops,
        } = other;
        self.no_pipeline += no_pipeline;
        self.ingress_drops += ingress_drops;
        self.no_such_port += no_such_port;
        self.no_such_queue += no_such_queue;
        self.no_such_group += no_such_group;
        self.no_such_session += no_such_session;
        self.resubmitted += resubmitted;
        self.resubmit_drops += resubmit_drops;
        self.recirculated += recirculated;
        self.recirculation_drops += recirculation_drops;
        self.packet_in_drops += packet_in_drops;
        self.digest_drops += digest_drops;
        self.generated += generated;
        self.generator_drops += generator_drops;
        self.replaced += replaced;
        self.handed_over += handed_over;
        self.handover_drops += handover_drops;
    }
}
