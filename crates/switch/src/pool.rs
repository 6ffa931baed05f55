//! Reusable storage for packets in flight.

use tributary_dataplane::{Packet, Pipeline};

/// One packet in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) packet: Packet,
    /// The deparser's output, while the packet waits for recirculation.
    pub(crate) frame: Vec<u8>,
    /// The port by which it left then.
    pub(crate) port: u16,
}

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
            Box::new(Slot { packet: pipeline.new_packet(), frame: Vec::new(), port: 0 })
        })
    }

    pub(crate) fn put(&mut self, slot: Box<Slot>) {
        self.free.push(slot);
    }
}
