//! A port with fault injection in real time.

use std::io;
use std::time::{Duration, Instant};

use super::{FaultInjector, Line, Statistics};
use crate::{ETHERNET_HEADER, FrameIo, Watch};

/// Maximum number of frames on a line, which bounds the memory that a long delay takes.
const LINE_CAPACITY: usize = 16_384;

/// A port with faults in one or both directions.
///
/// A frame that is held back continues when it is due, in the next call of any method;
/// [`FrameIo::wait`] and [`Poller`](crate::Poller) wake up for it. Frames that are still held back
/// when the port is dropped are lost.
#[derive(Debug)]
pub struct Faulty<Io> {
    inner: Io,
    sends: Option<Line>,
    receives: Option<Line>,
    /// Selects the frames that are subject to faults.
    concerns: fn(&[u8]) -> bool,
    /// Whether `inner` refused a frame that was due.
    refused: bool,
    epoch: Instant,
}

impl<Io: FrameIo> Faulty<Io> {
    /// Wraps `inner`; `None` leaves a direction without faults. Times of the faults count from now.
    pub fn new(inner: Io, sends: Option<FaultInjector>, receives: Option<FaultInjector>) -> Self {
        Self {
            inner,
            sends: sends.map(Line::new),
            receives: receives.map(Line::new),
            concerns: |_| true,
            refused: false,
            epoch: Instant::now(),
        }
    }

    /// Restricts the faults to frames for which `concerns` returns true.
    #[must_use]
    pub fn only(mut self, concerns: fn(&[u8]) -> bool) -> Self {
        self.concerns = concerns;
        self
    }

    /// Faults injected into sent frames.
    #[must_use]
    pub fn send_statistics(&self) -> Statistics {
        self.sends.as_ref().map(Line::statistics).unwrap_or_default()
    }

    /// Faults injected into received frames.
    #[must_use]
    pub fn receive_statistics(&self) -> Statistics {
        self.receives.as_ref().map(Line::statistics).unwrap_or_default()
    }

    /// The wrapped port.
    #[must_use]
    pub fn inner(&self) -> &Io {
        &self.inner
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Passes on the sent frames that are due.
    fn pass_on(&mut self) -> io::Result<()> {
        let now = self.now();
        self.refused = false;
        let Some(line) = &mut self.sends else { return Ok(()) };
        while let Some(frame) = line.front(now) {
            let sent = self.inner.send(frame);
            if matches!(sent, Ok(false)) {
                self.refused = true;
                return Ok(());
            }
            // A frame that cannot be sent must not block the frames after it.
            line.advance();
            sent?;
        }
        Ok(())
    }
}

impl<Io: FrameIo> FrameIo for Faulty<Io> {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.flush()?;
        let now = self.now();
        let Some(line) = &mut self.receives else { return self.inner.receive(max, sink) };
        let room = LINE_CAPACITY.saturating_sub(line.len());
        let concerns = self.concerns;
        let mut received = 0;
        let fetched = self.inner.receive(max.min(room), &mut |frame| {
            if concerns(frame) {
                line.admit(now, frame);
            } else {
                sink(frame);
                received += 1;
            }
        });
        while received < max
            && let Some(frame) = line.front(now)
        {
            sink(frame);
            line.advance();
            received += 1;
        }
        fetched.map(|_| received)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        if self.sends.is_none() || !(self.concerns)(frame) {
            return self.inner.send(frame);
        }
        if frame.len() < ETHERNET_HEADER {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a frame of {} bytes has no Ethernet header", frame.len()),
            ));
        }
        self.pass_on()?;
        let now = self.now();
        let Some(line) = &mut self.sends else { return Ok(false) };
        if self.refused || line.len() >= LINE_CAPACITY {
            self.inner.flush()?;
            return Ok(false);
        }
        line.admit(now, frame);
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.inner.flush()
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        let now = self.now();
        let in_nanos = |due: u64| Duration::from_nanos(due.saturating_sub(now));
        // A frame that the port refused continues when the port has room, not when it is due.
        let send_due = self.sends.as_ref().filter(|_| !self.refused).and_then(Line::next_due);
        let receive_due = self.receives.as_ref().and_then(Line::next_due);
        for due in send_due.into_iter().chain(receive_due) {
            watch.due_in(in_nanos(due));
        }
        let full = self.receives.as_ref().is_some_and(|line| line.len() >= LINE_CAPACITY);
        if full {
            // Arrivals wait in the port until frames have left the line. Watching the port would
            // end each sleep at once.
            return Ok(());
        }
        self.inner.watch(watch)
    }
}
