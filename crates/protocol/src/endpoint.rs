//! The interface of every endpoint.

use crate::Time;

/// A protocol state machine without I/O.
///
/// The driver passes in frames and the time. After each call, it does the following in this order:
///
/// 1. It sends the frames of [`poll_transmit`](Self::poll_transmit) until there are none or the
///    link is full.
/// 2. It takes the events of [`poll_event`](Self::poll_event).
/// 3. It arranges for [`handle_timeout`](Self::handle_timeout) to be called at the time that
///    [`poll_timeout`](Self::poll_timeout) returns.
///
/// Calls that are too frequent or late are harmless: every method uses the time that it is given.
pub trait Endpoint {
    /// Event for the driver's owner.
    type Event;

    /// Handles a frame with arbitrary content. Never panics; dropped frames are counted.
    fn handle_frame(&mut self, now: Time, frame: &[u8]);

    /// Clears `frame` and writes the next frame to send. Returns `false` if there is none. Does not
    /// allocate if the capacity of `frame` suffices.
    ///
    /// The endpoint counts the frame as sent.
    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool;

    /// The time at which [`handle_timeout`](Self::handle_timeout) must be called; `None` if no
    /// timer is set.
    fn poll_timeout(&self) -> Option<Time>;

    /// Handles all timers that have expired by `now`.
    fn handle_timeout(&mut self, now: Time);

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
