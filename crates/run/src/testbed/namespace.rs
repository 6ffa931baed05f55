//! Network namespaces without names, and threads inside them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace. It exists while it is held open here or some process runs in it.
#[derive(Debug)]
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    /// Creates a namespace without any link.
    pub(crate) fn new() -> io::Result<Self> {
        // Threads have namespaces individually, and the caller's must not change.
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
        })
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Moves the calling thread into it permanently.
    pub(crate) fn enter(&self) -> io::Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Runs `work` inside, on a separate thread.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Starts a thread with this name inside.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        // A thread starts in the namespace of the thread that creates it.
        self.run(|| thread::Builder::new().name(name.replace('\0', "")).spawn(work))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
