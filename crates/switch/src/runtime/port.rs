//! A port of a switch's thread.

use std::io;
use std::time::{Duration, Instant};

use tributary_netio::FrameIo;

use super::BATCH;
use super::shaper::Shaper;
use crate::switch::Core;

/// Pause after an error of a port.
pub(super) const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A port, or one core's part of it.
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) io: Box<dyn FrameIo>,
    pub(super) shaper: Shaper,
    /// The next frame to send, if `held`: the port had no room for it.
    frame: Vec<u8>,
    pub(super) held: bool,
    /// When the port's input or output last failed.
    pub(super) failed: Option<Instant>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Port {
    pub(super) fn new(number: u16, io: Box<dyn FrameIo>, bits_per_second: Option<u64>) -> Self {
        let shaper = Shaper::new(bits_per_second);
        Self { number, io, shaper, frame: Vec::new(), held: false, failed: None }
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.failed.is_some_and(|at| now < at + PAUSE_AFTER_ERROR)
    }

    pub(super) fn fail(&mut self, now: Instant, error: &io::Error) {
        tracing::warn!(port = self.number, %error, "port failed");
        self.failed = Some(now);
    }

    /// Sends at most a batch. Returns true if there may be more to send at once.
    pub(super) fn transmit(
        &mut self,
        core: &mut Core,
        now: Instant,
        now_us: u64,
    ) -> io::Result<bool> {
        for _ in 0..BATCH {
            if self.shaper.wait(now).is_some() {
                self.io.flush()?;
                return Ok(false);
            }
            let Self { number, io, frame, held, .. } = self;
            let (length, sent) = if *held {
                (frame.len(), io.send(frame))
            } else {
                let next = core.transmit_with(now_us, *number, frame, |frame| io.send(frame));
                let Some(next) = next else {
                    self.io.flush()?;
                    return Ok(core.queue_depth(self.number) > 0);
                };
                next
            };
            *held = matches!(sent, Ok(false));
            match sent {
                Ok(true) => self.shaper.sent(now, length),
                Ok(false) => return Ok(false),
                // A frame that the medium can never carry is the program's fault, not the port's.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    tracing::debug!(port = self.number, %error, "frame cannot be sent");
                }
                Err(error) => return Err(error),
            }
        }
        self.io.flush()?;
        Ok(true)
    }
}
