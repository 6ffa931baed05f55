//! The v1model architecture as BMv2's `simple_switch` runs it: what goes into a pass through the
//! pipeline and what comes out of it.

/// The port to which dropped packets are sent.
pub const DROP_PORT: u16 = 511;

/// Why a packet is where it is: `standard_metadata.instance_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Instance {
    /// Came in through a port, or was sent on to one port.
    #[default]
    Normal = 0,
    /// A clone made at the end of ingress.
    IngressClone = 1,
    /// A clone made at the end of egress.
    EgressClone = 2,
    /// Reserved by the architecture.
    Coalesced = 3,
    /// Came back from the deparser.
    Recirculated = 4,
    /// A replica made by a multicast group.
    Replication = 5,
    /// Came back from the end of ingress.
    Resubmitted = 6,
}

/// What the switch knows about a packet that enters the parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngressInput {
    /// Port it came in through.
    pub port: u16,
    /// Microseconds since the switch started.
    pub time_us: u64,
    /// First pass, resubmitted or recirculated.
    pub instance: Instance,
    /// Whether the fields that [`crate::Packet::preserve`] saved last are put back after all others were
    /// reset.
    pub preserved: bool,
}

/// What the program decided at the end of ingress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingress {
    /// Where the packet goes, unless it is resubmitted.
    pub verdict: Verdict,
    /// The program asked for another ingress pass (overrides the verdict), preserving that field
    /// list. The switch then calls [`crate::Packet::preserve`] and [`crate::Pipeline::ingress`] again
    /// with the same frame.
    pub resubmit: Option<u32>,
}

/// Where a packet goes after ingress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nowhere.
    Drop,
    /// To the egress queue of that port.
    Unicast(u16),
    /// To the members of that multicast group.
    Multicast(u16),
}

/// What the switch knows about a packet that leaves an egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressInput {
    /// Port whose queue it left.
    pub port: u16,
    /// Replication id: the `instance` of the multicast group's member; 0 for unicast.
    pub rid: u16,
    /// [`Instance::Normal`] or [`Instance::Replication`].
    pub instance: Instance,
    /// Now, in microseconds since the switch started.
    pub time_us: u64,
    /// When it was enqueued, on the same clock.
    pub enq_time_us: u64,
    /// Packets in the queue when it was enqueued.
    pub enq_qdepth: u32,
    /// Packets in the queue when it was taken out.
    pub deq_qdepth: u32,
    /// Microseconds that it spent in the queue.
    pub deq_timedelta: u32,
}

/// What the program decided at the end of egress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The packet is dropped; no frame was written.
    pub drop: bool,
    /// The frame goes to the parser again instead of out, preserving that field list: the switch
    /// calls [`crate::Packet::preserve`], then [`crate::Pipeline::ingress`] with the frame.
    pub recirculate: Option<u32>,
}
