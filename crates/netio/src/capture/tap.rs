//! A port whose frames are captured.

use std::io;
use std::time::Duration;

use crate::{FrameIo, Watch};

use crate::capture::{Direction, Frame, Recorder, now};

/// A port that gives all its frames to a recorder: received ones as inbound, those that it has taken to
/// send as outbound.
#[derive(Debug)]
pub struct Tap<Io> {
    inner: Io,
    recorder: Recorder,
    interface: u32,
}

impl<Io: FrameIo> Tap<Io> {
    /// Captures the frames of a port as those of this interface.
    pub fn new(inner: Io, recorder: Recorder, interface: u32) -> Self {
        Self { inner, recorder, interface }
    }
}

impl<Io: FrameIo> FrameIo for Tap<Io> {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Self { inner, recorder, interface } = self;
        inner.receive(max, &mut |frame| {
            record(recorder, *interface, Direction::Inbound, now(), frame);
            sink(frame);
        })
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        // Before it is sent, so that it does not seem to arrive earlier.
        let time = now();
        let sent = self.inner.send(frame)?;
        if sent {
            record(&self.recorder, self.interface, Direction::Outbound, time, frame);
        }
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.inner.watch(watch)
    }
}

fn record(recorder: &Recorder, interface: u32, direction: Direction, time: Duration, bytes: &[u8]) {
    recorder.frame(&Frame { time, interface, direction, bytes, comment: None });
}
