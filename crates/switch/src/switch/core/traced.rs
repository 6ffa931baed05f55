//! Traced packets at a core.

use super::Core;
use crate::multicast::Replica;
use crate::pool::Slot;
use crate::trace::{self, CopyOf, Recording, Traced, Tracing, What};

impl Core {
    pub(crate) fn set_tracing(&mut self, tracing: Option<Tracing>) {
        self.tracing = tracing.map(Box::new);
    }

    /// The next trace that is complete.
    pub(crate) fn poll_trace(&mut self) -> Option<Recording> {
        self.tracing.as_mut()?.poll()
    }

    /// Whether a packet that is being traced is still here.
    pub(crate) fn is_tracing(&self) -> bool {
        self.tracing.as_ref().is_some_and(|tracing| tracing.is_busy())
    }

    /// Decides whether to trace a frame that has arrived.
    #[inline]
    pub(super) fn admit(&mut self, now_us: u64, port: u16, frame: &[u8]) -> Option<Traced> {
        let tracing = self.tracing.as_mut()?;
        tracing.admit(self.active.as_mut()?, now_us, port, frame)
    }

    pub(super) fn withdraw(&mut self, trace: Option<Traced>) {
        if let (Some(of), Some(tracing)) = (trace, &mut self.tracing) {
            tracing.withdraw(of);
        }
    }

    /// Records a step of a traced packet.
    #[inline]
    pub(super) fn record(&mut self, trace: Option<Traced>, what: impl FnOnce() -> What) {
        trace::record(&mut self.tracing, trace, what);
    }

    pub(super) fn record_copy(
        &mut self,
        trace: Option<Traced>,
        why: CopyOf,
        to: Replica,
    ) -> Option<Traced> {
        trace::copied(&mut self.tracing, trace, why, to)
    }

    #[inline]
    pub(super) fn end_trace(&mut self, trace: Option<Traced>) {
        if let (Some(of), Some(tracing)) = (trace, &mut self.tracing) {
            tracing.end(of);
        }
    }

    /// Takes back the storage of a packet that has left the switch, or is dropped.
    #[inline]
    pub(super) fn put(&mut self, slot: Box<Slot>) {
        self.end_trace(slot.trace);
        self.pool.put(slot);
    }
}
