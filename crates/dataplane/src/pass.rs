//! A packet's passes through a pipeline: what goes in and what comes out, whatever the architecture.
//!
//! A switch moves packets between passes and needs to know no more of an architecture than what is
//! here: it calls [`crate::Pipeline::ingress`] for a frame, does what [`Ingress`] says, calls
//! [`crate::Pipeline::egress`] for each copy that leaves a queue, and does what [`Egress`] says.

/// The port to which v1model sends dropped packets; no port of a Tofino.
pub const DROP_PORT: u16 = 511;

/// Why a packet is where it is. v1model shows it to programs as `standard_metadata.instance_type`;
/// TNA tells resubmitted packets from all others.
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

/// What the switch knows about a packet that enters the ingress parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngressInput {
    /// Port it came in through.
    pub port: u16,
    /// Microseconds since the switch started.
    pub time_us: u64,
    /// First pass, resubmitted or recirculated. What the program keeps for a second pass is in the
    /// packet's storage, which must be that of the pass before.
    pub instance: Instance,
}

/// What the program decided at the end of ingress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingress {
    /// Where the packet goes, unless it is resubmitted.
    pub verdict: Verdict,
    /// The program asked for another ingress pass of the same frame in the same storage (overrides
    /// the verdict): [`crate::Pipeline::next_pass`] with [`Instance::Resubmitted`].
    pub resubmit: bool,
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
    /// To more than one of these at once (TNA).
    Replicate(Replication),
}

/// All copies that the packet replication engine and the queues make of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replication {
    /// A copy for that port's queue.
    pub unicast: Option<u16>,
    /// Copies for the members of these groups; 0 is no group.
    pub groups: [u16; 2],
    /// A copy for the controller's port.
    pub to_cpu: bool,
    /// Replicas of this replication id …
    pub rid: u16,
    /// … are not made for the ports of this exclusion set; 0 excludes none.
    pub exclusion: u16,
}

/// What the switch knows about a packet that leaves an egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressInput {
    /// Port whose queue it left.
    pub port: u16,
    /// Replication id: the `instance` of the member of a multicast group or a clone session; 0 for
    /// unicast.
    pub rid: u16,
    /// [`Instance::Normal`], [`Instance::Replication`] or one of the clones.
    pub instance: Instance,
    /// Now, in microseconds since the switch started.
    pub time_us: u64,
    /// When it was enqueued, on the same clock.
    pub enq_time_us: u64,
    /// Sum of [`crate::Packet::queue_units`] in the queue when it was enqueued.
    pub enq_qdepth: u32,
    /// The same when it was taken out.
    pub deq_qdepth: u32,
    /// Microseconds that it spent in the queue.
    pub deq_timedelta: u32,
}

/// What the program decided at the end of egress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The packet is dropped; no frame was written.
    pub drop: bool,
    /// The frame goes to the ingress parser again instead of out, in the same storage:
    /// [`crate::Pipeline::next_pass`] with [`Instance::Recirculated`].
    pub recirculate: bool,
}
