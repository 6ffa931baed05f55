//! Captures of the links' frames.
//!
//! Each end of a link is an interface of the capture. A frame is captured as outbound when its last
//! byte has left one end, and as inbound when its last byte has arrived at the other. Messages of
//! reliable channels are not captured: their TCP segments have no frames in the simulation.

use std::time::Duration;

use tributary_netio::capture::{Direction, Frame, Recorder};

use crate::trace::Fate;

/// The recorder of a network, and the last frame that has arrived: its comment is known when the switch
/// has handled it.
#[derive(Debug)]
pub(crate) struct Capture {
    recorder: Recorder,
    arrived: Option<Arrived>,
    /// Buffers for arrivals.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct Arrived {
    time: u64,
    interface: usize,
    frame: Vec<u8>,
}

impl Capture {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { recorder, arrived: None, spare: Vec::new() }
    }

    /// Captures a frame that has left the start of a direction. If it is lost, a comment says so,
    /// because it never arrives.
    pub(crate) fn sent(&mut self, time: u64, interface: usize, frame: &[u8], fate: Fate) {
        self.complete(None);
        let comment = (fate == Fate::Lost).then_some("lost on the link");
        self.write(time, interface, Direction::Outbound, frame, comment);
    }

    /// Captures a frame that has arrived where this direction begins.
    pub(crate) fn arrived(&mut self, time: u64, interface: usize, frame: &[u8]) {
        self.complete(None);
        let mut copy = std::mem::take(&mut self.spare);
        copy.clear();
        copy.extend_from_slice(frame);
        self.arrived = Some(Arrived { time, interface, frame: copy });
    }

    /// Writes the last arrival, with the outcome under which a switch has counted it.
    pub(crate) fn complete(&mut self, outcome: Option<&str>) {
        if let Some(Arrived { time, interface, frame }) = self.arrived.take() {
            self.write(time, interface, Direction::Inbound, &frame, outcome);
            self.spare = frame;
        }
    }

    fn write(
        &self,
        time: u64,
        interface: usize,
        direction: Direction,
        bytes: &[u8],
        comment: Option<&str>,
    ) {
        let interface = u32::try_from(interface).expect("fewer links than 2^31");
        let time = Duration::from_nanos(time);
        self.recorder.frame(&Frame { time, interface, direction, bytes, comment });
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.complete(None);
    }
}
