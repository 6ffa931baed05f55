//! A port whose frames are counted for readers in other threads.

use std::io;
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::{FrameIo, Watch};

/// Frames that a port has sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FrameCount {
    /// Frames that it took to send.
    pub sent: u64,
    /// Frames that it passed on.
    pub received: u64,
}

/// Combines the ports at an end of a link.
impl Add for FrameCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { sent: self.sent + other.sent, received: self.received + other.received }
    }
}

impl std::iter::Sum for FrameCount {
    fn sum<I: Iterator<Item = Self>>(ports: I) -> Self {
        ports.fold(Self::default(), Self::add)
    }
}

/// The counters of one port. Only the port changes them.
#[derive(Debug, Default)]
pub struct Frames {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Frames {
    /// What the port has counted so far.
    #[must_use]
    pub fn now(&self) -> FrameCount {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FrameCount { sent: read(&self.sent), received: read(&self.received) }
    }
}

/// With one writer, this takes no locked instruction for each frame.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// A port that counts its frames.
#[derive(Debug)]
pub struct Counted<Io> {
    inner: Io,
    frames: Arc<Frames>,
    /// Selects the frames that count.
    counts: fn(&[u8]) -> bool,
}

impl<Io: FrameIo> Counted<Io> {
    /// Counts the frames of a port here. Two ports cannot share counters.
    pub fn new(inner: Io, frames: Arc<Frames>) -> Self {
        Self { inner, frames, counts: |_| true }
    }

    /// Counts the frames for which `counts` returns true.
    #[must_use]
    pub fn only(mut self, counts: fn(&[u8]) -> bool) -> Self {
        self.counts = counts;
        self
    }
}

impl<Io: FrameIo> FrameIo for Counted<Io> {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Self { inner, frames, counts } = self;
        let mut counted = 0;
        let received = inner.receive(max, &mut |frame| {
            counted += u64::from(counts(frame));
            sink(frame);
        });
        add(&frames.received, counted);
        received
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let sent = self.inner.send(frame)?;
        if sent && (self.counts)(frame) {
            add(&self.frames.sent, 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Waker, memory};

    #[test]
    fn frames_that_were_taken_and_passed_on_count() {
        let (near, mut far) = memory::link(2, &Waker::new(), &Waker::new());
        let frames = Arc::new(Frames::default());
        let mut port = Counted::new(near, Arc::clone(&frames)).only(|frame| frame[0] != 9);
        // The third has no room.
        let sent: Vec<_> = [1, 9, 2].map(|byte| port.send(&[byte; 60]).unwrap()).into();
        assert_eq!(sent, [true, true, false]);
        port.flush().unwrap();
        assert_eq!(frames.now(), FrameCount { sent: 1, received: 0 });
        for byte in [3, 9] {
            assert!(far.send(&[byte; 60]).unwrap());
        }
        far.flush().unwrap();
        let mut seen = Vec::new();
        port.receive(8, &mut |frame| seen.push(frame[0])).unwrap();
        assert_eq!(seen, [3, 9]);
        assert_eq!(frames.now(), FrameCount { sent: 1, received: 1 });
        let both: FrameCount =
            [frames.now(), FrameCount { sent: 4, received: 5 }].into_iter().sum();
        assert_eq!(both, FrameCount { sent: 5, received: 6 });
    }
}
