//! The shape of every endpoint.

use crate::Time;

/// A protocol state machine without I/O.
///
/// The driver hands in frames and the time, and after each call, in this order: sends what
/// [`poll_transmit`](Self::poll_transmit) gives until it gives no more or the link has no room,
/// takes what [`poll_event`](Self::poll_event) gives, and sees to it that
/// [`handle_timeout`](Self::handle_timeout) is called when the time of
/// [`poll_timeout`](Self::poll_timeout) has come. Being called too often or too late is harmless:
/// every method looks at the time that it is given.
pub trait Endpoint {
    /// What the driver's owner is told.
    type Event;

    /// Takes a frame from the wire, of any content. It never panics; what it drops it counts.
    fn handle_frame(&mut self, now: Time, frame: &[u8]);

    /// Clears `frame` and fills it with the next frame to send; `false` if there is none now. Does
    /// not allocate once `frame` has the capacity of a frame.
    ///
    /// A frame that was handed out counts as sent.
    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; `None` for not at all.
    fn poll_timeout(&self) -> Option<Time>;

    /// Does what is due by `now`.
    fn handle_timeout(&mut self, now: Time);

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
