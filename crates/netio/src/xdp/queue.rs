//! One AF_XDP socket: a queue of an interface, with its four rings.
//!
//! A chunk is in one of five places: in the memory's pool, in this socket's `spare` list, in the
//! fill ring or an arriving frame, in the transmit ring or a frame being sent, or in the completion
//! ring. Any chunk in a ring counts as owned by the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::ring::{Consumer, Producer};
use super::sys::memory::{Chunk, Descriptor, DescriptorCell, Ring};
use super::sys::socket::{self, Binding, Rings, Sizes};
use super::umem::Umem;

/// Number of frames that the kernel sends per kick, instead of 32.
pub(super) const KICK: u32 = 64;

/// Number of chunks that a socket takes from the pool at a time. It keeps up to twice as many.
const SPARE: usize = 64;

/// Maximum time that the kernel takes to release a queue.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// A socket.
#[derive(Debug)]
pub(super) struct Queue {
    socket: Socket,
    umem: Arc<Umem>,
    fill: Producer<Ring<AtomicU64>>,
    receive: Consumer<Ring<DescriptorCell>>,
    transmit: Producer<Ring<DescriptorCell>>,
    completion: Consumer<Ring<AtomicU64>>,
    /// Chunks for frames to be sent.
    spare: Vec<Chunk>,
    /// Chunks of received frames for which the fill ring had no room yet.
    waiting: Vec<Chunk>,
    /// The beginning of a frame that uses several chunks.
    partial: Vec<u8>,
    zero_copy: bool,
    /// Number of descriptors that refer to no chunk of ours; zero unless the kernel has a bug.
    pub(super) misplaced: u64,
}

/// The outcome of receiving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) delivered: usize,
    pub(super) oversized: u64,
}

/// The outcome of flushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The kernel has accepted all frames.
    All,
    /// The device accepts no more frames for now.
    Stuck,
}

/// The source of a socket's memory.
pub(super) enum Memory<'a> {
    /// Its own memory, which it registers.
    Own(Arc<Umem>),
    /// The memory of a socket that is already bound.
    Of(&'a Queue),
}

/// Settings of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The interface's index.
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) sizes: Sizes,
    /// Whether to bind in copy mode, without asking the driver for zero-copy.
    pub(super) copy: bool,
    /// Whether frames may use several chunks.
    pub(super) several_chunks: bool,
}

/// A failed step, with its error.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) step: Step,
    pub(super) error: io::Error,
}

impl Failed {
    /// Whether another socket uses the queue.
    pub(super) fn is_taken(&self) -> bool {
        self.step == Step::Bind && self.error.raw_os_error() == Some(libc::EBUSY)
    }

    /// Whether the kernel or the driver does not support the settings.
    pub(super) fn is_unsupported(&self) -> bool {
        self.step == Step::Bind
            && matches!(self.error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Open,
    Register,
    Rings,
    Bind,
}

/// Binds a socket to its queue. The kernel releases the queue of a closed socket with a delay, so
/// retry for a program that was restarted at once.
fn bind(socket: &Socket, setting: Setting, binding: Binding<'_>) -> io::Result<()> {
    let deadline = Instant::now() + RELEASE_TIME;
    loop {
        match socket::bind(socket, setting.interface, setting.queue, binding) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

impl Queue {
    pub(super) fn open(setting: Setting, memory: Memory<'_>) -> Result<Self, Failed> {
        let at = |step| move |error| Failed { step, error };
        let socket = socket::open().map_err(at(Step::Open))?;
        let (umem, binding) = match memory {
            Memory::Own(umem) => {
                socket::register(&socket, &umem.area).map_err(at(Step::Register))?;
                let Setting { copy, several_chunks, .. } = setting;
                (umem, Binding::Own { copy, several_chunks })
            }
            Memory::Of(owner) => (Arc::clone(&owner.umem), Binding::Shared(&owner.socket)),
        };
        let rings = socket::make_rings(&socket, setting.sizes).map_err(at(Step::Rings))?;
        let bytes = setting.sizes.transmit as usize * 2 * umem.area.chunk_size();
        socket::set_send_buffer(&socket, bytes).map_err(at(Step::Rings))?;
        // Kernels before 6.17 always send 32 frames per kick.
        let _ = socket::set_kick(&socket, KICK);
        bind(&socket, setting, binding).map_err(at(Step::Bind))?;
        let zero_copy = socket::is_zero_copy(&socket).map_err(at(Step::Bind))?;
        let mut queue = Self::new(socket, umem, rings, zero_copy);
        queue.stock(setting.sizes.receive);
        Ok(queue)
    }

    fn new(socket: Socket, umem: Arc<Umem>, rings: Rings, zero_copy: bool) -> Self {
        Self {
            socket,
            umem,
            fill: Producer::new(rings.fill),
            receive: Consumer::new(rings.receive),
            transmit: Producer::new(rings.transmit),
            completion: Consumer::new(rings.completion),
            spare: Vec::with_capacity(4 * SPARE),
            waiting: Vec::new(),
            partial: Vec::new(),
            zero_copy,
            misplaced: 0,
        }
    }

    /// Passes chunks for arriving frames to the kernel.
    fn stock(&mut self, count: u32) {
        let mut chunks = Vec::with_capacity(count as usize);
        self.umem.take(count as usize, &mut chunks);
        for chunk in chunks {
            self.fill.push(self.umem.area.lend(chunk));
        }
        self.fill.publish();
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Passes up to `max` frames of up to `longest` bytes to `sink`.
    pub(super) fn receive(
        &mut self,
        max: usize,
        longest: usize,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Received {
        let mut received = Received::default();
        while received.delivered < max {
            let Some(descriptor) = self.receive.pop() else { break };
            let area = &self.umem.area;
            let Some((chunk, offset)) = area.take_back(descriptor.address) else {
                self.misplaced += 1;
                continue;
            };
            let end = (offset + descriptor.length as usize).min(area.chunk_size());
            let bytes = &area.bytes(&chunk)[offset..end];
            let whole = self.partial.is_empty() && !descriptor.continues;
            if !whole {
                self.partial.extend_from_slice(bytes);
            }
            if !descriptor.continues {
                let frame = if whole { bytes } else { &self.partial[..] };
                if frame.len() <= longest {
                    sink(frame);
                    received.delivered += 1;
                } else {
                    received.oversized += 1;
                }
                self.partial.clear();
            }
            // The kernel publishes received frames before it releases the places of their chunks.
            // So the ring may look full for a moment, although there are no more chunks than
            // places.
            if self.fill.has_room(1) {
                self.fill.push(area.lend(chunk));
            } else {
                self.waiting.push(chunk);
            }
        }
        self.receive.release();
        received
    }

    /// Returns the chunks of received frames to the kernel.
    pub(super) fn refill(&mut self) {
        while self.fill.has_room(1)
            && let Some(chunk) = self.waiting.pop()
        {
            self.fill.push(self.umem.area.lend(chunk));
        }
        if self.fill.publish() && wants_kick(&self.fill) {
            // This only triggers the driver; later calls report any error.
            let _ = socket::kick_receive(&self.socket);
        }
    }

    /// Puts a frame into the transmit ring, to be sent by [`flush`](Self::flush). Returns false if
    /// there is no room for it.
    pub(super) fn send(&mut self, frame: &[u8]) -> bool {
        let chunk_size = self.umem.area.chunk_size();
        let needed = frame.len().div_ceil(chunk_size);
        if !self.has_spare(needed) || !self.transmit.has_room(needed as u32) {
            return false;
        }
        for (part, bytes) in frame.chunks(chunk_size).enumerate() {
            let mut chunk = self.spare.pop().expect("found above");
            self.umem.area.bytes_mut(&mut chunk)[..bytes.len()].copy_from_slice(bytes);
            self.transmit.push(Descriptor {
                address: self.umem.area.lend(chunk),
                length: bytes.len() as u32,
                continues: part + 1 < needed,
            });
        }
        true
    }

    fn has_spare(&mut self, needed: usize) -> bool {
        if self.spare.len() < needed {
            self.reap();
        }
        if self.spare.len() < needed {
            self.umem.take(needed.max(SPARE), &mut self.spare);
        }
        self.spare.len() >= needed
    }

    /// Takes back the chunks of sent frames.
    fn reap(&mut self) {
        while let Some(address) = self.completion.pop() {
            match self.umem.area.take_back(address) {
                Some((chunk, _)) => self.spare.push(chunk),
                None => self.misplaced += 1,
            }
        }
        self.completion.release();
        self.umem.give(2 * SPARE, &mut self.spare);
    }

    /// Number of descriptors that wait for a [`flush`](Self::flush).
    pub(super) fn unflushed(&self) -> u32 {
        self.transmit.unpublished()
    }

    /// Publishes the transmit ring to the kernel and triggers sending. `refused` counts frames that
    /// the device dropped.
    pub(super) fn flush(&mut self, refused: &mut u64) -> io::Result<Flushed> {
        self.transmit.publish();
        let flushed = if self.zero_copy { self.kick_driver()? } else { self.kick_all(refused)? };
        self.reap();
        Ok(flushed)
    }

    /// In copy mode the kernel sends during the call, a limited number of frames per call.
    fn kick_all(&mut self, refused: &mut u64) -> io::Result<Flushed> {
        let mut left = self.transmit.unconsumed();
        while left > 0 {
            let result = socket::kick_transmit(&self.socket);
            let before = std::mem::replace(&mut left, self.transmit.unconsumed());
            match result.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) | Err((Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS), _)) => {}
                // The device dropped a frame; the frames after it were not tried.
                Err((Some(libc::EBUSY), _)) => *refused += u64::from(left < before),
                Err((_, error)) => return Err(error),
            }
            if left == before {
                // Either the device is full, or completions have not been taken back for long.
                self.reap();
                return Ok(Flushed::Stuck);
            }
        }
        Ok(Flushed::All)
    }

    /// With zero-copy the driver sends frames by itself once it is awake.
    fn kick_driver(&mut self) -> io::Result<Flushed> {
        if self.transmit.unconsumed() > 0 && wants_kick(&self.transmit) {
            match socket::kick_transmit(&self.socket) {
                Err(error)
                    if !matches!(
                        error.raw_os_error(),
                        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::EBUSY)
                    ) =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(Flushed::All)
    }

    /// Number of frames that the kernel could not put into the receive ring, and number of invalid
    /// entries in the transmit ring.
    pub(super) fn dropped(&self) -> io::Result<(u64, u64)> {
        let counted = socket::statistics(&self.socket)?;
        Ok((counted.rx_dropped + counted.rx_ring_full, counted.tx_invalid_descs))
    }
}

/// Whether the kernel must be notified of published entries.
fn wants_kick<C>(ring: &Producer<Ring<C>>) -> bool
where
    Ring<C>: super::ring::Shared,
{
    // The kernel sets the flag and then reads the counter again; we have set the counter and then
    // read the flag. At least one side sees the other.
    fence(Ordering::SeqCst);
    ring.memory().needs_wakeup()
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
