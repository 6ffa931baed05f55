//! What the passes of v1model know about a program: its blocks, and the slots of standard metadata.

use crate::code::Pc;
use crate::packet::CloneRequest;
use crate::slot::{Item, Slot};

/// Slots that the engine itself writes or reads: standard metadata and requests of the program.
/// Metadata that the program's architecture file lacks has an unused slot.
#[derive(Clone, Debug)]
pub(crate) struct Intrinsics {
    pub(crate) ingress_port: Item,
    pub(crate) egress_spec: Item,
    pub(crate) egress_port: Item,
    pub(crate) instance_type: Item,
    pub(crate) packet_length: Item,
    pub(crate) enq_timestamp: Item,
    pub(crate) enq_qdepth: Item,
    pub(crate) deq_timedelta: Item,
    pub(crate) deq_qdepth: Item,
    pub(crate) ingress_global_timestamp: Item,
    pub(crate) egress_global_timestamp: Item,
    pub(crate) mcast_grp: Item,
    pub(crate) egress_rid: Item,
    pub(crate) checksum_error: Item,
    pub(crate) parser_error: Item,
    pub(crate) priority: Item,
    /// Requested clone session plus one.
    pub(crate) clone: Slot,
    /// The field list that the clone keeps, plus one.
    pub(crate) clone_list: Slot,
    /// Requested field list plus one.
    pub(crate) resubmit: Slot,
    /// Requested field list plus one.
    pub(crate) recirculate: Slot,
    /// Requested length plus one.
    pub(crate) truncate: Slot,
    /// Requested digest plus one.
    pub(crate) digest: Slot,
    /// An assertion failed.
    pub(crate) failed: Slot,
}

impl Intrinsics {
    /// Requests of a program, which a replica starts without.
    pub(crate) fn requests(&self) -> [Slot; 6] {
        let Self { clone, clone_list, resubmit, recirculate, truncate, digest, .. } = *self;
        [clone, clone_list, resubmit, recirculate, truncate, digest]
    }

    /// What is different for each replica of a packet.
    pub(crate) fn of_replicas(&self) -> [Slot; 7] {
        [
            self.egress_port,
            self.egress_rid,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.egress_global_timestamp,
        ]
        .map(|item| item.slot)
    }

    /// The clone that a packet's program requested.
    pub(super) fn clone_request(&self, state: &[u64]) -> Option<CloneRequest> {
        let session = request(state[self.clone as usize])? as u16;
        Some(CloneRequest { session, list: request(state[self.clone_list as usize]) })
    }
}

/// Entries of the blocks of v1model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) parser: Pc,
    pub(crate) verify: Pc,
    pub(crate) ingress: Pc,
    pub(crate) egress: Pc,
    pub(crate) compute: Pc,
    pub(crate) deparser: Pc,
}

/// A request of the program: a number plus one, or zero for none.
pub(super) fn request(word: u64) -> Option<u32> {
    word.checked_sub(1).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
