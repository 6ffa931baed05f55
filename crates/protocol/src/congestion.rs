//! Congestion control: bounds the number of fragments that a worker has in flight.

mod aimd;
mod dctcp;
mod room;

use std::fmt;

use tributary_wire::Sequence;

pub use aimd::Aimd;
pub use dctcp::Dctcp;
pub(crate) use room::Room;

/// Controls the congestion window.
pub trait Controller: fmt::Debug + Send {
    /// The window in packets, at least one. A worker sends a fragment only if its distance from the
    /// lowest fragment without a result is less than the window.
    fn window(&self) -> u32;

    /// A result arrived without a congestion mark.
    fn on_result(&mut self);

    /// A result arrived with a congestion mark.
    fn on_mark(&mut self, sequence: Sequence, next: Sequence) {
        self.on_congestion(sequence, next);
    }

    /// The fragment `sequence` was lost or returned because of congestion. `next` is the next
    /// fragment to be sent for the first time.
    fn on_congestion(&mut self, sequence: Sequence, next: Sequence);

    /// The fragment `sequence` was lost, for whatever reason.
    fn on_loss(&mut self, sequence: Sequence, next: Sequence) {
        self.on_congestion(sequence, next);
    }

    /// The worker uses no larger window than this. What a larger one could hold is not known, so the window
    /// does not grow beyond it (RFC 7661).
    fn limit(&mut self, window: u32);

    /// Clones the controller, for model checkers that explore the worker's states.
    fn boxed_clone(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
