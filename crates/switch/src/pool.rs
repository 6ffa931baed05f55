//! Reusable storage for packets in flight.

use tributary_dataplane::{Instance, Packet, Pipeline};

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
}

/// Free slots that are kept; there are never as many without several cores.
const MOST: usize = 4096;

/// Free slots. They belong to one pipeline: another needs another pool.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    // Boxed, because queues move slots and a slot has several cache lines.
    #[allow(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    free: Vec<Box<Slot>>,
}

impl Pool {
    /// A slot with the contents of some other packet.
    pub(crate) fn take(&mut self, pipeline: &Pipeline) -> Box<Slot> {
        self.free.pop().unwrap_or_else(|| {
            let (packet, instance) = (pipeline.new_packet(), Instance::Normal);
            Box::new(Slot { packet, frame: Vec::new(), port: 0, instance })
        })
    }

    pub(crate) fn put(&mut self, slot: Box<Slot>) {
        if self.free.len() < MOST {
            self.free.push(slot);
        }
    }

    /// A free slot, if there is one.
    pub(crate) fn spare(&mut self) -> Option<Box<Slot>> {
        self.free.pop()
    }
}
