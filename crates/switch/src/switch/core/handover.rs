//! Packets for other cores.

use tributary_dataplane::{IngressInput, Instance, Verdict};

use super::Core;
use crate::pool::Slot;
use crate::trace::What;

/// Buffers that are kept for frames for other cores.
const MOST_BUFFERS: usize = 4096;

/// A packet that waits for another core.
#[derive(Debug)]
enum Waiting {
    /// A frame that arrived on a port. The core that has its registers also has storage for it,
    /// which is not in this core's cache.
    Frame(Vec<u8>, u16),
    /// A packet on its second pass, with what it keeps.
    Again(Box<Slot>),
}

/// A packet for the core of its registers.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) to: u16,
    what: Waiting,
    /// The program that it is a packet of, by number.
    program: u64,
}

impl Core {
    /// Runs a frame that arrived on a port through parser and ingress.
    pub(super) fn process(&mut self, now_us: u64, port: u16, frame: &[u8]) {
        let Some(active) = &self.active else { return };
        let mut slot = self.pool.take(active.pipeline());
        slot.trace = self.admit(now_us, port, frame);
        let mut input = IngressInput { port, time_us: now_us, instance: Instance::Normal };
        let (mut resubmissions, trace) = (0, slot.trace);
        let verdict = self.ingress(&mut slot.packet, frame, &mut input, &mut resubmissions, trace);
        let Verdict::Elsewhere(to) = verdict else { return self.forward(now_us, slot, verdict) };
        if input.instance == Instance::Normal {
            // That core looks at the frame again.
            self.withdraw(trace);
            slot.trace = None;
        }
        let copy = |mut buffer: Vec<u8>| {
            buffer.clear();
            buffer.extend_from_slice(frame);
            buffer
        };
        if input.instance == Instance::Normal {
            self.pool.put(slot);
            let frame = copy(self.buffers.pop().unwrap_or_default());
            self.hand_over(to, Waiting::Frame(frame, port));
        } else {
            slot.frame = copy(std::mem::take(&mut slot.frame));
            slot.port = port;
            slot.instance = input.instance;
            slot.resubmissions = resubmissions;
            self.hand_over_again(to, slot);
        }
    }

    /// Hands over a packet that has its frame with it.
    pub(super) fn hand_over_again(&mut self, to: u16, mut slot: Box<Slot>) {
        // Recordings do not move between cores.
        let trace = slot.trace.take();
        self.record(trace, || What::Elsewhere(to));
        self.end_trace(trace);
        self.hand_over(to, Waiting::Again(slot));
    }

    fn hand_over(&mut self, to: u16, what: Waiting) {
        self.statistics.handed_over += 1;
        self.outgoing.push_back(Handover { to, what, program: self.programs });
    }

    /// The next packet for another core.
    pub(crate) fn poll_handover(&mut self) -> Option<Handover> {
        self.outgoing.pop_front()
    }

    /// Processes a packet that another core has handed over. Returns the buffer of its frame, for
    /// that core's next ones.
    pub(crate) fn take_over(&mut self, now_us: u64, handover: Handover) -> Option<Vec<u8>> {
        let Handover { what, program, .. } = handover;
        if program != self.programs {
            self.statistics.replaced += 1;
            return None;
        }
        match what {
            Waiting::Frame(frame, port) => {
                self.process(now_us, port, &frame);
                Some(frame)
            }
            Waiting::Again(slot) => {
                let (port, instance) = (slot.port, slot.instance);
                let input = IngressInput { port, time_us: now_us, instance };
                self.ingress_of(now_us, slot, input);
                None
            }
        }
    }

    /// Takes back the buffer of a frame that was handed over.
    pub(crate) fn take_buffer(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < MOST_BUFFERS {
            self.buffers.push(buffer);
        }
    }

    /// Counts a packet for a core that had no room for it.
    pub(crate) fn lose_handover(&mut self) {
        self.statistics.handover_drops += 1;
    }
}
