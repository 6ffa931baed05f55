//! Frames from several threads on their way to a file.

use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::capture::format::Pcapng;
use crate::capture::{Direction, Frame};

/// Most bytes of frames that wait for the file.
const MOST_BYTES: usize = 64 << 20;

/// Most frames that wait for the file.
const MOST_FRAMES: usize = 1 << 18;

/// How long frames are held back so that those of other threads, which were captured before, come
/// first in the file.
const PATIENCE: Duration = Duration::from_millis(20);

/// After this time without a frame, all that were held back are written.
const IDLE: Duration = Duration::from_millis(100);

/// A frame that waits. The order is that of time; of two at the same time, the one that came first is
/// the greater, because a heap takes out the greatest.
#[derive(PartialEq, Eq)]
struct Waiting {
    time: Duration,
    serial: u64,
    interface: u32,
    direction: Direction,
    bytes: Box<[u8]>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.time, other.serial).cmp(&(self.time, self.serial))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

enum Message {
    Frame(Waiting),
    End,
}

/// The thread that writes: it returns the number of written frames, and why others are missing.
pub(crate) type Thread = JoinHandle<(u64, io::Result<()>)>;

/// Counters of a queue.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    waiting_bytes: AtomicUsize,
    serial: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Whether nothing is written any more.
    pub(crate) failed: AtomicBool,
}

/// The end of a queue into which threads put frames.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: SyncSender<Message>,
    pub(crate) counters: Arc<Counters>,
}

impl Queue {
    /// Starts a thread that writes to a file.
    pub(crate) fn start<W: Write + Send + 'static>(file: Pcapng<W>) -> io::Result<(Self, Thread)> {
        let (messages, inbox) = sync_channel(MOST_FRAMES);
        let counters = Arc::new(Counters::default());
        let own = Arc::clone(&counters);
        let writer = Writer {
            file,
            heap: BinaryHeap::new(),
            newest: Duration::ZERO,
            counters: own,
            written: 0,
            problem: None,
        };
        let thread = thread::Builder::new().name("capture".into()).spawn(|| writer.run(inbox))?;
        Ok((Self { messages, counters }, thread))
    }

    /// Puts in a frame, or counts it as dropped if there is no room.
    pub(crate) fn push(&self, frame: &Frame<'_>) {
        let length = frame.bytes.len();
        let waiting = self.counters.waiting_bytes.fetch_add(length, Ordering::Relaxed);
        let message = (waiting + length <= MOST_BYTES).then(|| {
            Message::Frame(Waiting {
                time: frame.time,
                serial: self.counters.serial.fetch_add(1, Ordering::Relaxed),
                interface: frame.interface,
                direction: frame.direction,
                bytes: frame.bytes.into(),
            })
        });
        let sent = message.is_some_and(|message| match self.messages.try_send(message) {
            Ok(()) => true,
            // After the end, frames are no longer part of the capture.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        });
        if !sent {
            self.counters.waiting_bytes.fetch_sub(length, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the thread after it has written what waits.
    pub(crate) fn end(&self) {
        // An error means that it has ended already.
        drop(self.messages.send(Message::End));
    }
}

struct Writer<W: Write> {
    file: Pcapng<W>,
    heap: BinaryHeap<Waiting>,
    /// The latest time of a frame.
    newest: Duration,
    counters: Arc<Counters>,
    written: u64,
    /// Why nothing is written any more.
    problem: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    fn run(mut self, inbox: Receiver<Message>) -> (u64, io::Result<()>) {
        loop {
            match inbox.recv_timeout(IDLE) {
                Ok(Message::Frame(frame)) => {
                    self.newest = self.newest.max(frame.time);
                    self.heap.push(frame);
                    self.write_until(self.newest.saturating_sub(PATIENCE));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.write_until(self.newest);
                    self.flush();
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.write_until(self.newest);
        self.flush();
        (self.written, self.problem.map_or(Ok(()), Err))
    }

    fn flush(&mut self) {
        self.attempt(Pcapng::flush);
    }

    /// Writes, unless it has failed before.
    fn attempt(&mut self, write: impl FnOnce(&mut Pcapng<W>) -> io::Result<()>) {
        if self.problem.is_none() {
            self.problem = write(&mut self.file).err();
            self.counters.failed.store(self.problem.is_some(), Ordering::Relaxed);
        }
    }

    /// Writes the frames up to this time.
    fn write_until(&mut self, time: Duration) {
        while self.heap.peek().is_some_and(|frame| frame.time <= time)
            && let Some(Waiting { time, interface, direction, bytes, .. }) = self.heap.pop()
        {
            self.counters.waiting_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            let frame = Frame { time, interface, direction, bytes: &bytes, comment: None };
            self.attempt(|file| file.frame(&frame));
            match self.problem {
                None => self.written += 1,
                Some(_) => drop(self.counters.dropped.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }
}
