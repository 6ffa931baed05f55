//! Links between threads of one process.
//!
//! Each direction has a bounded single-producer, single-consumer ring of frames, and a second ring
//! that returns the empty buffers: after the first frames nothing is allocated. A full ring is
//! back-pressure, so a memory link itself loses no frames.
//!
//! If one end is dropped, the link behaves like an unplugged cable: frames sent into it are lost,
//! and none arrive.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::{ETHERNET_HEADER, FrameIo, Waker, Watch, prefetch};

/// Number of frames that a link made by [`pair`] holds per direction.
pub const DEFAULT_CAPACITY: usize = 256;

/// One end of a link.
#[derive(Debug)]
pub struct MemoryPort {
    outgoing: Outgoing,
    incoming: Incoming,
    own: Waker,
    /// Dropped last, so that the rings are released before the other end is woken.
    peer: Peer,
}

/// The waker of the other end's thread. It is woken when this end is dropped, because that thread
/// may wait for room that will never exist.
#[derive(Debug)]
struct Peer(Waker);

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[derive(Debug)]
struct Outgoing {
    frames: Producer<Vec<u8>>,
    empties: Consumer<Vec<u8>>,
    /// Set by this end when the ring is full, cleared by the other end when it has made room.
    wants_room: Arc<AtomicBool>,
    /// Whether frames were put into the ring since the other end was last woken.
    unannounced: bool,
    /// Whether the last `send` found no room, and no sleep has ended because of new room since.
    blocked: bool,
}

#[derive(Debug)]
struct Incoming {
    frames: Consumer<Vec<u8>>,
    empties: Producer<Vec<u8>>,
    wants_room: Arc<AtomicBool>,
}

fn direction(capacity: usize) -> (Outgoing, Incoming) {
    let (frames_in, frames_out) = RingBuffer::new(capacity);
    // A buffer is in a ring or held by one of the ends, so this number suffices.
    let (empties_in, empties_out) = RingBuffer::new(capacity + 2);
    let wants_room = Arc::new(AtomicBool::new(false));
    let outgoing = Outgoing {
        frames: frames_in,
        empties: empties_out,
        wants_room: Arc::clone(&wants_room),
        unannounced: false,
        blocked: false,
    };
    (outgoing, Incoming { frames: frames_out, empties: empties_in, wants_room })
}

/// A link of [`DEFAULT_CAPACITY`] with a separate waker for each end.
#[must_use]
pub fn pair() -> (MemoryPort, MemoryPort) {
    link(DEFAULT_CAPACITY, &Waker::new(), &Waker::new())
}

/// A link that holds `capacity` frames (at least one) per direction.
///
/// `first` and `second` wake the threads that use the two ends. Ends used by one thread may share
/// its [`Poller`](crate::Poller)'s waker, which makes its sleep cheaper.
#[must_use]
pub fn link(capacity: usize, first: &Waker, second: &Waker) -> (MemoryPort, MemoryPort) {
    let capacity = capacity.max(1);
    let (first_outgoing, second_incoming) = direction(capacity);
    let (second_outgoing, first_incoming) = direction(capacity);
    let end = |outgoing, incoming, own: &Waker, peer: &Waker| MemoryPort {
        outgoing,
        incoming,
        own: own.clone(),
        peer: Peer(peer.clone()),
    };
    (
        end(first_outgoing, first_incoming, first, second),
        end(second_outgoing, second_incoming, second, first),
    )
}

impl MemoryPort {
    /// Whether the other end still exists.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.outgoing.frames.is_abandoned()
    }
}

impl FrameIo for MemoryPort {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let incoming = &mut self.incoming;
        let mut received = 0;
        while received < max {
            let Ok(mut frame) = incoming.frames.pop() else {
                break;
            };
            received += 1;
            if let Ok(next) = incoming.frames.peek() {
                prefetch::to_read(next);
            }
            sink(&frame);
            frame.clear();
            // The ring is full only if the other end was dropped and takes no buffers back; then
            // the buffer is freed.
            drop(incoming.empties.push(frame));
        }
        if received > 0 {
            // Pairs with the fence in `send`: either this thread sees the request, or the sender
            // sees the room.
            fence(Ordering::SeqCst);
            if incoming.wants_room.load(Ordering::Relaxed)
                && incoming.wants_room.swap(false, Ordering::SeqCst)
            {
                self.peer.0.wake();
            }
        }
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        if frame.len() < ETHERNET_HEADER {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a frame of {} bytes has no Ethernet header", frame.len()),
            ));
        }
        let outgoing = &mut self.outgoing;
        if outgoing.frames.is_full() {
            if outgoing.frames.is_abandoned() {
                return Ok(true);
            }
            outgoing.wants_room.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if outgoing.frames.is_full() {
                outgoing.blocked = true;
                self.flush()?;
                return Ok(false);
            }
        }
        let mut buffer = outgoing.empties.pop().unwrap_or_default();
        if let Ok(next) = outgoing.empties.peek() {
            prefetch::to_append(next, frame.len());
        }
        buffer.extend_from_slice(frame);
        let pushed = outgoing.frames.push(buffer);
        debug_assert!(pushed.is_ok(), "only this end fills the ring");
        outgoing.unannounced = true;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.outgoing.unannounced {
            self.outgoing.unannounced = false;
            self.peer.0.wake_if_watching();
        }
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        watch.waker(&self.own);
        let outgoing = &mut self.outgoing;
        if outgoing.blocked && (!outgoing.frames.is_full() || outgoing.frames.is_abandoned()) {
            outgoing.blocked = false;
            watch.ready();
        }
        if !self.incoming.frames.is_empty() {
            watch.ready();
        }
        Ok(())
    }
}
