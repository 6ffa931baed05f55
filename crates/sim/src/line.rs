//! One direction of a cable in virtual time.

use std::time::Duration;

use tributary_netio::faults::{FaultInjector, Faults, InvalidFaults, Line, Statistics};

/// What a cable is like when nothing goes wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cable {
    /// Bits a second.
    pub bandwidth: f64,
    /// Time that the first bit takes to the other end.
    pub latency: Duration,
}

impl Default for Cable {
    /// 10 Gb/s and 1 µs.
    fn default() -> Self {
        Self { bandwidth: 10e9, latency: Duration::from_micros(1) }
    }
}

/// One direction: at most one frame is being sent, any number is under way.
#[derive(Debug)]
pub(crate) struct Direction {
    cable: Cable,
    line: Line,
    /// The frame being sent, and whether there is one.
    sending: Vec<u8>,
    busy: bool,
    /// The time that an arrival is on the agenda for.
    pub(crate) expected: Option<u64>,
}

/// Bytes of a frame that are on the cable besides those that we see: preamble, check sequence, gap.
const FRAMING: usize = 24;

impl Direction {
    pub(crate) fn new(
        cable: Cable,
        mut faults: Faults,
        seed: u64,
        stream: u64,
    ) -> Result<Self, InvalidFaults> {
        faults.delay.fixed += cable.latency;
        let line = Line::new(FaultInjector::new(faults, seed, stream)?);
        Ok(Self { cable, line, sending: Vec::new(), busy: false, expected: None })
    }

    /// Whether a frame can be sent now.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy
    }

    /// Where the next frame to send goes.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.sending
    }

    /// Begins to send what is in the buffer; returns for how many nanoseconds.
    pub(crate) fn begin(&mut self) -> u64 {
        self.busy = true;
        let bits = 8 * (self.sending.len() + FRAMING);
        (bits as f64 * 1e9 / self.cable.bandwidth).ceil() as u64
    }

    /// The frame has left.
    pub(crate) fn finish(&mut self, now: u64) {
        self.busy = false;
        self.line.admit(now, &self.sending);
    }

    /// The next frame that has arrived, moved into `frame`.
    pub(crate) fn arrive(&mut self, now: u64, frame: &mut Vec<u8>) -> bool {
        let Some(arrived) = self.line.front(now) else { return false };
        frame.clear();
        frame.extend_from_slice(arrived);
        self.line.advance();
        true
    }

    /// When the next frame arrives, if no more is sent.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.line.next_due()
    }

    /// What went wrong so far.
    pub(crate) fn statistics(&self) -> Statistics {
        self.line.statistics()
    }
}
