//! A packet's passes through a pipeline: inputs and outputs for all architectures.
//!
//! A switch moves packets between passes and needs no other knowledge of an architecture. It calls
//! [`crate::Pipeline::ingress`] for a frame, follows [`Ingress`], calls [`crate::Pipeline::egress`]
//! for each copy that leaves a queue, and follows [`Egress`].

use crate::code::Pc;

/// The port of dropped packets in v1model; not a port of a Tofino.
pub const DROP_PORT: u16 = 511;

/// The origin of a packet. v1model shows it to programs as `standard_metadata.instance_type`, PSA
/// as `packet_path`; TNA distinguishes only resubmitted packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Instance {
    /// Arrived on a port, or forwarded to one port.
    #[default]
    Normal = 0,
    /// A clone made at the end of ingress.
    IngressClone = 1,
    /// A clone made at the end of egress.
    EgressClone = 2,
    /// Reserved by the architecture.
    Coalesced = 3,
    /// Recirculated from the deparser.
    Recirculated = 4,
    /// A replica made by a multicast group.
    Replication = 5,
    /// Resubmitted from the end of ingress.
    Resubmitted = 6,
}

/// The switch's data about a packet that enters the ingress parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngressInput {
    /// The arrival port.
    pub port: u16,
    /// Microseconds since the switch started.
    pub time_us: u64,
    /// First pass, resubmitted or recirculated. Data kept for a second pass is in the packet's
    /// storage, which must be that of the previous pass.
    pub instance: Instance,
}

/// The program's decisions at the end of ingress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingress {
    /// Where the packet goes, unless it is resubmitted.
    pub verdict: Verdict,
    /// The program requested another ingress pass of the same frame in the same storage (overrides
    /// the verdict): [`crate::Pipeline::next_pass`] with [`Instance::Resubmitted`].
    pub resubmit: bool,
}

/// The destination of a packet after ingress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nowhere.
    Drop,
    /// To this core, for its first pass: the packet's registers are there
    /// ([`crate::Pipeline::divide`]).
    Elsewhere(u16),
    /// To the egress queue of that port.
    Unicast(u16),
    /// To the members of that multicast group.
    Multicast(u16),
    /// To several of these at once (TNA).
    Replicate(Replication),
}

/// All copies of a packet by the packet replication engine and the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replication {
    /// A copy for that port's queue.
    pub unicast: Option<u16>,
    /// Copies for the members of these groups; 0 means no group.
    pub groups: [u16; 2],
    /// A copy for the controller's port.
    pub to_cpu: bool,
    /// Replicas of this replication id …
    pub rid: u16,
    /// … are not made for the ports of this exclusion set; 0 excludes none.
    pub exclusion: u16,
}

/// The switch's data about a packet that leaves an egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressInput {
    /// The port of the queue.
    pub port: u16,
    /// Replication id: the `instance` of the member of a multicast group or a clone session; 0 for
    /// unicast.
    pub rid: u16,
    /// [`Instance::Normal`], [`Instance::Replication`] or one of the clones.
    pub instance: Instance,
    /// Current time in microseconds since the switch started.
    pub time_us: u64,
    /// Time of enqueueing, on the same clock.
    pub enq_time_us: u64,
    /// Sum of [`crate::Packet::queue_units`] in the queue when it was enqueued.
    pub enq_qdepth: u32,
    /// The same when it was dequeued.
    pub deq_qdepth: u32,
    /// Microseconds that it spent in the queue.
    pub deq_timedelta: u32,
    /// The first member of its group with its replication id, also if that of another group was sent before (TNA).
    pub first: bool,
    /// Its own queue had no room: this is the queue for such packets (TNA).
    pub deflected: bool,
}

/// The program's decisions at the end of egress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The packet is dropped. In TNA the frame is what would have left, for a mirrored copy; in v1model
    /// no frame was written.
    pub drop: bool,
    /// The frame enters the ingress parser again instead of leaving, in the same storage:
    /// [`crate::Pipeline::next_pass`] with [`Instance::Recirculated`].
    pub recirculate: bool,
}

/// Entries of the blocks of an architecture that parses and deparses in ingress and in egress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) ingress_parser: Pc,
    pub(crate) ingress: Pc,
    pub(crate) ingress_deparser: Pc,
    pub(crate) egress_parser: Pc,
    pub(crate) egress: Pc,
    pub(crate) egress_deparser: Pc,
}
