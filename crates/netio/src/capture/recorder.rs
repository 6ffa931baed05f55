//! Recorders, which write captures.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::capture::format::Pcapng;
use crate::capture::queue::{Queue, Thread};
use crate::capture::{Frame, Interface};

/// Bytes that are written to a file at once.
const CHUNK: usize = 1 << 20;

type Out = Box<dyn Write + Send>;

/// Writes a capture. Clones write to the same one.
///
/// The recorder of a run in real time has a thread that writes. Whoever captures never waits for it: if
/// more than 64 MiB of frames wait, further ones are dropped, and counted. That of a run in virtual time
/// writes at once, so it loses nothing.
#[derive(Clone, Debug)]
pub struct Recorder {
    way: Arc<Way>,
}

#[derive(Debug)]
enum Way {
    Queued(Queue, Mutex<Option<Thread>>),
    Direct(Mutex<Direct>),
}

#[derive(Debug)]
struct Direct {
    file: Pcapng<Out>,
    written: u64,
    dropped: u64,
    /// Why nothing is written any more.
    problem: Option<io::Error>,
}

/// What a finished capture contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Frames in the file.
    pub written: u64,
    /// Frames that were captured, but not written.
    pub dropped: u64,
}

impl Recorder {
    /// Creates a file, which must not exist, for a run in real time.
    ///
    /// # Errors
    /// Errors of the operating system, such as [`io::ErrorKind::AlreadyExists`].
    pub fn create(path: &Path, comment: &str, interfaces: &[Interface]) -> io::Result<Self> {
        Self::queued(Box::new(File::create_new(path)?), comment, interfaces)
    }

    /// Creates a file, which must not exist, for a run in virtual time.
    ///
    /// # Errors
    /// Errors of the operating system, such as [`io::ErrorKind::AlreadyExists`].
    pub fn create_direct(path: &Path, comment: &str, interfaces: &[Interface]) -> io::Result<Self> {
        Self::direct(Box::new(File::create_new(path)?), comment, interfaces)
    }

    /// Writes to memory, for a run in virtual time.
    #[must_use]
    pub fn in_memory(comment: &str, interfaces: &[Interface]) -> (Self, Buffer) {
        let buffer = Buffer::default();
        let recorder = Self::direct(Box::new(buffer.clone()), comment, interfaces);
        (recorder.expect("memory can be written to"), buffer)
    }

    /// Writes to an open file, a pipe or a device in real time.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn queued(
        out: Box<dyn Write + Send>,
        comment: &str,
        interfaces: &[Interface],
    ) -> io::Result<Self> {
        let mut file = Pcapng::new(BufWriter::with_capacity(CHUNK, out), comment, interfaces)?;
        // A full disk shows at once, and a reader of a pipe sees the interfaces.
        file.flush()?;
        let (queue, thread) = Queue::start(file)?;
        Ok(Self { way: Arc::new(Way::Queued(queue, Mutex::new(Some(thread)))) })
    }

    fn direct(out: Out, comment: &str, interfaces: &[Interface]) -> io::Result<Self> {
        let out: Out = Box::new(BufWriter::with_capacity(CHUNK, out));
        let mut file = Pcapng::new(out, comment, interfaces)?;
        file.flush()?;
        let direct = Direct { file, written: 0, dropped: 0, problem: None };
        Ok(Self { way: Arc::new(Way::Direct(Mutex::new(direct))) })
    }

    /// Records a frame.
    pub fn frame(&self, frame: &Frame<'_>) {
        match &*self.way {
            Way::Queued(queue, _) => queue.push(frame),
            Way::Direct(direct) => {
                let mut direct = direct.lock().unwrap_or_else(PoisonError::into_inner);
                if direct.problem.is_none() {
                    direct.problem = direct.file.frame(frame).err();
                }
                match direct.problem {
                    None => direct.written += 1,
                    Some(_) => direct.dropped += 1,
                }
            }
        }
    }

    /// Whether nothing is written any more, because of an error that [`finish`](Self::finish) returns.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        match &*self.way {
            Way::Queued(queue, _) => queue.counters.failed.load(Ordering::Relaxed),
            Way::Direct(direct) => {
                direct.lock().unwrap_or_else(PoisonError::into_inner).problem.is_some()
            }
        }
    }

    /// Ends the capture: all frames so far are in the file. The second value is why frames are missing,
    /// apart from those for which there was no room.
    ///
    /// # Panics
    /// If the writing thread has panicked.
    #[must_use = "frames may be missing"]
    pub fn finish(&self) -> (Summary, io::Result<()>) {
        match &*self.way {
            Way::Queued(queue, thread) => {
                let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(thread) = thread else { return (Summary::default(), Ok(())) };
                queue.end();
                let (written, result) = thread.join().expect("the writing thread does not panic");
                let dropped = queue.counters.dropped.load(Ordering::Relaxed);
                (Summary { written, dropped }, result)
            }
            Way::Direct(direct) => {
                let mut direct = direct.lock().unwrap_or_else(PoisonError::into_inner);
                let result = direct.problem.take().map_or_else(|| direct.file.flush(), Err);
                (Summary { written: direct.written, dropped: direct.dropped }, result)
            }
        }
    }
}

/// The time of frames in real time: since 1970.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// A capture in memory.
#[derive(Clone, Debug, Default)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// Takes what was written, after [`Recorder::finish`].
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
