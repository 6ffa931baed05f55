//! Congestion control: how many fragments a worker may have under way.

mod aimd;
mod dctcp;

use std::fmt;

use tributary_wire::Sequence;

pub use aimd::Aimd;
pub use dctcp::Dctcp;

/// Decides the congestion window.
pub trait Controller: fmt::Debug + Send {
    /// The window in packets, at least one. A worker sends a fragment only if it is less than this
    /// far from the lowest one whose result it lacks.
    fn window(&self) -> u32;

    /// A result came in, without a congestion mark.
    fn on_result(&mut self);

    /// A result came in with a congestion mark.
    fn on_mark(&mut self, sequence: Sequence, next: Sequence) {
        self.on_congestion(sequence, next);
    }

    /// The fragment `sequence` was lost, or turned back, by congestion, when `next` was the next one to be
    /// sent for the first time.
    fn on_congestion(&mut self, sequence: Sequence, next: Sequence);

    /// A copy, for who explores what a worker might do.
    fn boxed_clone(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
