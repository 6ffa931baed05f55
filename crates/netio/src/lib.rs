//! Ethernet frames in and out.
//!
//! One trait, [`FrameIo`], and back ends for it:
//!
//! - [`memory`]: a bounded lock-free link between two threads of one process;
//! - [`packet`]: a Linux AF_PACKET socket on an interface, with batched system calls;
//! - [`xdp`]: Linux AF_XDP sockets on an interface, with rings that the kernel and we share;
//! - [`device::Device`]: one of these two, whichever the user asks for;
//! - [`faults::Faulty`]: any of them, with frames lost, doubled, reordered and delayed from a seed.
//!
//! A thread that has several of them, or that must also be woken by other threads, sleeps in a
//! [`Poller`]. Nothing here knows what the frames mean: formats are in `tributary-wire`, rules in
//! `tributary-protocol`.
//!
//! A new back end is a module beside these that implements the trait; [`interface`] already answers
//! what any of them asks about a network interface. Start reading at [`FrameIo`].

#![deny(unsafe_code)]

use std::io;
use std::time::Duration;

pub mod device;
pub mod faults;
pub mod interface;
pub mod memory;
pub mod packet;
mod poll;
mod sys;
pub mod xdp;

pub use poll::{Poller, Waker, Watch};

/// A port: whole Ethernet frames (from the destination address to the end of the payload, without
/// the frame check sequence) go in and come out.
///
/// Nothing but [`wait`](Self::wait) blocks. Frames may be lost on the way, as on a cable.
pub trait FrameIo: Send {
    /// Receives up to `max` frames without waiting and calls `sink` for each, in order of arrival.
    /// Returns how many there were.
    ///
    /// # Errors
    /// Those of the operating system, such as [`io::ErrorKind::NetworkDown`]. No frame that `sink`
    /// has not seen is lost by an error.
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Queues a frame; it is on its way at the latest when [`flush`](Self::flush) returns, unless
    /// the medium has no room.
    ///
    /// `Ok(false)` is back-pressure: there is no room, nothing was taken, and what was queued
    /// before has been flushed as far as it goes. A later [`wait`](Self::wait) also ends when there
    /// is room again.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that the medium can never carry (longer than its
    /// MTU allows, or shorter than an Ethernet header); otherwise those of the operating system.
    fn send(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// Sends what is queued, as far as the medium has room; the rest stays queued.
    ///
    /// # Errors
    /// Those of the operating system.
    fn flush(&mut self) -> io::Result<()>;

    /// Adds to `watch` everything that should end a sleep: a frame that arrives, room after
    /// [`send`](Self::send) gave `Ok(false)`, a frame held back that falls due.
    ///
    /// Only needed to write a back end or a wrapper; callers use [`wait`](Self::wait) or a
    /// [`Poller`].
    ///
    /// # Errors
    /// Those of the operating system.
    fn watch(&mut self, watch: &mut Watch) -> io::Result<()>;

    /// Flushes, then blocks until a frame may be there, there is room after back-pressure, or
    /// `timeout` has passed. It may also return for no reason. `None` waits for ever.
    ///
    /// A thread that waits for more than one thing uses a [`Poller`].
    ///
    /// # Errors
    /// Those of the operating system.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.flush()?;
        let mut watch = Watch::new();
        self.watch(&mut watch)?;
        watch.sleep(timeout)
    }
}

impl<T: FrameIo + ?Sized> FrameIo for Box<T> {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        (**self).receive(max, sink)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        (**self).send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        (**self).watch(watch)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        (**self).wait(timeout)
    }
}

/// Length in bytes of an Ethernet header without tags; no frame is shorter.
pub const ETHERNET_HEADER: usize = 14;
