//! Congestion control: how many fragments a worker may have under way.

mod aimd;

use std::fmt;

use tributary_wire::Sequence;

pub use aimd::Aimd;

/// Decides the congestion window.
pub trait Controller: fmt::Debug + Send {
    /// The window in packets, at least one. A worker sends a fragment only if it is less than this
    /// far from the lowest one whose result it lacks.
    fn window(&self) -> u32;

    /// A result came in, without a congestion mark.
    fn on_result(&mut self);

    /// The fragment `sequence` was marked, or lost, when `next` was the next one to be sent for the
    /// first time.
    fn on_congestion(&mut self, sequence: Sequence, next: Sequence);

    /// A copy, for who explores what a worker might do.
    fn boxed_clone(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
