//! Sending and receiving Ethernet frames.
//!
//! The trait [`FrameIo`] has these back ends:
//!
//! - [`memory`]: a bounded lock-free link between two threads of one process;
//! - [`packet`]: a Linux AF_PACKET socket on an interface, with batched system calls;
//! - [`xdp`]: Linux AF_XDP sockets on an interface, with rings shared with the kernel;
//! - [`udp`]: an ordinary UDP socket, for hosts, which needs no privileges;
//! - [`udp::Tunnel`]: a cable between two processes, of UDP datagrams that contain frames;
//! - [`device::Device`]: one of the last three, selected by the user;
//! - [`faults::Faulty`]: any of them, with frames lost, duplicated, reordered and delayed from a
//!   seed;
//! - [`Fan`]: several links to the threads of a neighbour, as one port;
//! - [`Counted`]: any of them, with its frames counted for other threads.
//!
//! A thread that has several ports, or that other threads must also wake, sleeps in a [`Poller`].
//! The crate does not interpret frames: formats are in `tributary-wire`, rules in
//! `tributary-protocol`.
//!
//! A new back end is a module next to these that implements the trait; [`interface`] answers the
//! usual queries about a network interface, and [`ethtool`] those that drivers answer. Start
//! reading at [`FrameIo`].

#![deny(unsafe_code)]

use std::io;
use std::time::Duration;

pub mod capture;
mod counted;
pub mod device;
pub mod ethtool;
mod fan;
pub mod faults;
mod filter;
pub mod interface;
pub mod memory;
mod messages;
mod outage;
pub mod packet;
mod poll;
mod port;
mod prefetch;
mod queues;
mod segments;
mod sys;
pub mod udp;
pub mod xdp;

pub use counted::{Counted, FrameCount, Frames};
pub use fan::Fan;
pub use poll::{Poller, Waker, Watch};

/// A port that sends and receives whole Ethernet frames (from the destination address to the end of
/// the payload, without the frame check sequence).
///
/// Only [`wait`](Self::wait) blocks. Frames may be lost on the way, as on a cable.
pub trait FrameIo: Send {
    /// Receives up to `max` frames without waiting and calls `sink` for each, in order of arrival.
    /// Returns their number.
    ///
    /// # Errors
    ///
    /// Errors of the operating system, such as [`io::ErrorKind::NetworkDown`]. An error does not
    /// lose any frame that `sink` has not received.
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Queues a frame. It is sent when [`flush`](Self::flush) returns at the latest, unless the
    /// medium has no room.
    ///
    /// `Ok(false)` is back-pressure: there is no room, the frame was not queued, and earlier frames
    /// have been flushed as far as possible. A later [`wait`](Self::wait) also ends when there is
    /// room again.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a frame that the medium can never carry (longer than its
    /// MTU allows, or shorter than an Ethernet header); otherwise errors of the operating system.
    fn send(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// Sends queued frames as far as the medium has room; the rest stays queued.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn flush(&mut self) -> io::Result<()>;

    /// Adds to `watch` everything that should end a sleep: an arriving frame, room after
    /// [`send`](Self::send) returned `Ok(false)`, a held-back frame that is due.
    ///
    /// Only back ends and wrappers need this; callers use [`wait`](Self::wait) or a [`Poller`].
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn watch(&mut self, watch: &mut Watch) -> io::Result<()>;

    /// Flushes, then blocks until a frame may have arrived, there is room after back-pressure, or
    /// `timeout` has passed. Spurious returns are possible. `None` waits without a timeout.
    ///
    /// A thread that waits for several sources uses a [`Poller`].
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
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

/// Length in bytes of an Ethernet header without tags, the minimum length of a frame.
pub const ETHERNET_HEADER: usize = 14;
