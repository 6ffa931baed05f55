//! Storage for packets under way, used again and again.

use tributary_dataplane::{Packet, Pipeline};

/// One packet under way.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) packet: Packet,
    /// Only while the packet waits to be parsed again: what the deparser made of it.
    pub(crate) frame: Vec<u8>,
    /// The port that it left through then.
    pub(crate) port: u16,
}

/// Slots that are free. They belong to one pipeline: another needs another pool.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    // Boxed: queues move slots around, and a slot is several cache lines.
    #[allow(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    free: Vec<Box<Slot>>,
}

impl Pool {
    /// A slot whose contents are left from some other packet.
    pub(crate) fn take(&mut self, pipeline: &Pipeline) -> Box<Slot> {
        self.free.pop().unwrap_or_else(|| {
            Box::new(Slot { packet: pipeline.new_packet(), frame: Vec::new(), port: 0 })
        })
    }

    pub(crate) fn put(&mut self, slot: Box<Slot>) {
        self.free.push(slot);
    }
}
