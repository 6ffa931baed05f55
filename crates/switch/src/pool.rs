//! Reusable storage for packets in flight.

use tributary_dataplane::{Instance, Memo, Packet, Pipeline};

use crate::trace::Traced;

/// One packet in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) packet: Packet,
    /// The frame, while the packet waits for ingress: for recirculation, or for another core.
    pub(crate) frame: Vec<u8>,
    /// The port by which it left or arrived then.
    pub(crate) port: u16,
    /// Why it waits.
    pub(crate) instance: Instance,
    /// How often it was resubmitted.
    pub(crate) resubmissions: u32,
    /// Its trace, if it is traced.
    pub(crate) trace: Option<Traced>,
}

/// Free slots that are kept. With several cores, packets on their second pass take their slots to other
/// cores, which could have more and more of them.
const MOST: usize = 1 << 16;

/// A packet that waits in an egress queue.
#[derive(Debug)]
pub(crate) enum Held {
    Own(Box<Slot>),
    /// A multicast replica of the shared packet with this number.
    Shared(u32),
}

/// A packet that several multicast replicas share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) slot: Box<Slot>,
    pub(crate) memo: Memo,
    /// Replicas that have not left.
    left: u32,
}

/// Free slots, and shared packets. They belong to one pipeline: another needs another pool.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    shared: Vec<Option<Shared>>,
    /// Free places among them.
    places: Vec<u32>,
    memos: Vec<Memo>,
    // Boxed, because queues move slots and a slot has several cache lines.
    #[allow(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    free: Vec<Box<Slot>>,
}

impl Pool {
    /// A slot with the contents of some other packet.
    pub(crate) fn take(&mut self, pipeline: &Pipeline) -> Box<Slot> {
        self.free.pop().unwrap_or_else(|| {
            let (packet, instance) = (pipeline.new_packet(), Instance::Normal);
            Box::new(Slot {
                packet,
                frame: Vec::new(),
                port: 0,
                instance,
                resubmissions: 0,
                trace: None,
            })
        })
    }

    /// Keeps a slot for other packets.
    pub(crate) fn put(&mut self, mut slot: Box<Slot>) {
        slot.trace = None;
        if self.free.len() < MOST {
            self.free.push(slot);
        }
    }

    /// Keeps a packet for replicas that share it: as many as [`Self::add_replica`] is called.
    pub(crate) fn share(&mut self, mut slot: Box<Slot>) -> u32 {
        slot.packet.become_shared();
        let mut memo = self.memos.pop().unwrap_or_default();
        memo.clear();
        let shared = Some(Shared { slot, memo, left: 0 });
        if let Some(place) = self.places.pop() {
            self.shared[place as usize] = shared;
            return place;
        }
        self.shared.push(shared);
        self.shared.len() as u32 - 1
    }

    /// A shared packet, while it has replicas.
    pub(crate) fn shared_mut(&mut self, place: u32) -> Option<&mut Shared> {
        self.shared.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn add_replica(&mut self, place: u32) {
        if let Some(shared) = self.shared_mut(place) {
            shared.left += 1;
        }
    }

    /// Frees a shared packet when its last replica has left, or if there never was one.
    pub(crate) fn replica_left(&mut self, place: u32) {
        let Some(shared) = self.shared_mut(place) else { return };
        shared.left = shared.left.saturating_sub(1);
        if shared.left == 0
            && let Some(Shared { slot, memo, .. }) = self.shared[place as usize].take()
        {
            self.places.push(place);
            self.memos.push(memo);
            self.put(slot);
        }
    }
}
