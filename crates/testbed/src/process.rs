//! Processes inside nodes.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};

use crate::namespace::Namespace;

/// Bytes that are kept of each of a process's output streams: the last ones.
const KEPT: usize = 256 << 10;

/// How long to wait for the rest of a dead process's output; others may hold the pipe open.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

/// One of a process's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Takes the lines of a process's output as they come.
pub type LineSink = Arc<dyn Fn(Stream, &str) + Send + Sync>;

/// What becomes of a process's output.
#[derive(Clone)]
pub enum Output {
    /// It goes where this process's output goes.
    Inherit,
    /// The last 256 KiB of each stream are kept: see [`Process::output`].
    Keep,
    /// The same, and each line is handed on as it comes, without its end.
    Lines(LineSink),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Keep => "Keep",
            Self::Lines(_) => "Lines",
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process inside a node. Clones stand for the same process; dropping them does not end it.
#[derive(Clone, Debug)]
pub struct Process(Arc<Running>);

#[derive(Debug)]
struct Running {
    node: String,
    program: String,
    id: u32,
    /// Readable when the process has ended, reaped or not.
    ended: OwnedFd,
    state: Mutex<State>,
    out: Kept,
    err: Kept,
}

#[derive(Debug)]
struct State {
    child: Child,
    /// Set when it was reaped: from then on its number may be somebody else's.
    status: Option<ExitStatus>,
}

impl Process {
    /// The node it runs in.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// The program, as it was called.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// Its process number, which is also its process group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Processor time that it has taken so far, in user and kernel mode, all threads together.
    ///
    /// # Errors
    /// If it has ended and was waited for, or the operating system does not tell.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        // While the lock is held nobody reaps it, so the number is still its own.
        let state = lock(&self.0.state);
        if state.status.is_some() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let untold = || io::Error::other("the process's status does not tell its times");
        // Times are the 14th and 15th field.
        let fields = self.status_fields()?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: Option<u64> = ticks.map(|field| field.parse::<u64>().ok()).sum();
        let ticks = ticks.ok_or_else(untold)?;
        let rate = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100);
        let rate = u64::try_from(rate).map_err(io::Error::other)?.max(1);
        Ok(Duration::from_micros(ticks * 1_000_000 / rate))
    }

    /// Whether it is stopped, by SIGSTOP or a debugger: it lives, and does nothing.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let state = lock(&self.0.state);
        let runs = state.status.is_none();
        runs && self.status_fields().is_ok_and(|fields| fields.trim_start().starts_with(['T', 't']))
    }

    /// The fields of its status behind its name. The state must be locked: then the process is not
    /// reaped, so the number is still its own.
    fn status_fields(&self) -> io::Result<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id))?;
        // The name, in parentheses, may have spaces in it.
        let (_, fields) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
        Ok(fields.to_owned())
    }

    /// Waits until it has ended, at most for `timeout` (`None`: for ever). `Ok(None)`: it still
    /// runs. When it has ended, what is left of its process group is killed.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Option<ExitStatus>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if wait_readable(&self.0.ended, left)? {
                return self.reap().map(Some);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    /// Asks it to end, by SIGTERM to its process group. Does nothing if it has ended.
    pub fn ask_to_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Waits for its end, and forces it after `grace`. Ask first.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn end(&self, grace: Duration) -> io::Result<ExitStatus> {
        if let Some(status) = self.wait(Some(grace))? {
            return Ok(status);
        }
        self.kill()
    }

    /// Ends it at once, by SIGKILL to its process group.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGKILL);
        wait_readable(&self.0.ended, None)?;
        self.reap()
    }

    /// The end of what it wrote to a stream, so far or, if it has ended, in all. Empty if the output
    /// was not to be kept.
    #[must_use]
    pub fn output(&self, stream: Stream) -> String {
        let kept = match stream {
            Stream::Out => &self.0.out,
            Stream::Err => &self.0.err,
        };
        let ended = wait_readable(&self.0.ended, Some(Duration::ZERO)).unwrap_or(true);
        kept.text(if ended { OUTPUT_TIME } else { Duration::ZERO })
    }

    fn signal(&self, signal: Signal) {
        let state = lock(&self.0.state);
        if state.status.is_none() {
            // Not reaped, so the group is still this process's. If it is a zombie, nothing happens.
            let _ = killpg(self.group(), signal);
        }
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id.cast_signed())
    }

    fn reap(&self) -> io::Result<ExitStatus> {
        let mut state = lock(&self.0.state);
        if let Some(status) = state.status {
            return Ok(status);
        }
        // Before the number becomes free; an error means that nobody else is in the group.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let status = state.child.wait()?;
        state.status = Some(status);
        Ok(status)
    }
}

/// The end of an output stream.
#[derive(Clone, Debug)]
struct Kept(Arc<(Mutex<KeptState>, Condvar)>);

#[derive(Debug)]
struct KeptState {
    text: VecDeque<u8>,
    closed: bool,
}

impl Kept {
    /// Follows `pipe`, if there is one, on a thread of its own.
    fn follow(
        pipe: Option<impl Read + Send + 'static>,
        stream: Stream,
        output: &Output,
    ) -> io::Result<Self> {
        let closed = pipe.is_none();
        let kept = Self(Arc::new((
            Mutex::new(KeptState { text: VecDeque::new(), closed }),
            Condvar::new(),
        )));
        if let Some(pipe) = pipe {
            let (output, reader) = (output.clone(), kept.clone());
            thread::Builder::new().name("output".to_owned()).spawn(move || {
                reader.read(pipe, |line| {
                    if let Output::Lines(sink) = &output {
                        sink(stream, line);
                    }
                });
            })?;
        }
        Ok(kept)
    }

    fn read(&self, pipe: impl Read, mut sink: impl FnMut(&str)) {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        // An error ends the stream, as its end does. A program that writes no line ends is cut.
        while lines.by_ref().take(KEPT as u64).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            {
                let mut state = lock(&self.0.0);
                state.text.extend(&line);
                let surplus = state.text.len().saturating_sub(KEPT);
                state.text.drain(..surplus);
            }
            let text = String::from_utf8_lossy(&line);
            sink(text.strip_suffix('\n').unwrap_or(&text));
            line.clear();
        }
        lock(&self.0.0).closed = true;
        self.0.1.notify_all();
    }

    /// What there is, waiting a little for the rest.
    fn text(&self, patience: Duration) -> String {
        let (state, closed) = &*self.0;
        let (state, _) = closed
            .wait_timeout_while(lock(state), patience, |state| !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let (front, back) = state.text.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}

/// Starts processes from a thread that lives as long as it does: the kernel kills a process when
/// the *thread* that started it ends, if it was told to kill it with its parent.
#[derive(Debug)]
pub(crate) struct Spawner {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Request {
    command: Command,
    reply: mpsc::SyncSender<io::Result<Child>>,
}

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, incoming) = mpsc::channel::<Request>();
        let thread = thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for mut request in incoming {
                // Who asked waits for the answer.
                let _ = request.reply.send(request.command.spawn());
            }
        })?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    pub(crate) fn spawn(
        &self,
        node: &str,
        namespace: Namespace,
        mut command: Command,
        output: Output,
    ) -> io::Result<Process> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).stdin(Stdio::null());
        if !matches!(output, Output::Inherit) {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        enter_and_die_with_parent(&mut command, namespace);
        let (reply, answer) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().expect("taken only when dropped");
        requests.send(Request { command, reply }).map_err(io::Error::other)?;
        let mut child = answer.recv().map_err(io::Error::other)??;
        let id = child.id();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let hold = || -> io::Result<(OwnedFd, Kept, Kept)> {
            Ok((
                process_descriptor(id)?,
                Kept::follow(out, Stream::Out, &output)?,
                Kept::follow(err, Stream::Err, &output)?,
            ))
        };
        let (ended, out, err) = hold().inspect_err(|_| {
            // Nobody would know of it.
            let _ = child.kill().and_then(|()| child.wait());
        })?;
        let state = Mutex::new(State { child, status: None });
        let node = node.to_owned();
        Ok(Process(Arc::new(Running { node, program, id, ended, state, out, err })))
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // It only passes requests on; if it panicked, it has ended too.
            let _ = thread.join();
        }
    }
}

#[allow(unsafe_code)]
fn enter_and_die_with_parent(command: &mut Command, namespace: Namespace) {
    let parent = Pid::this();
    let prepare = move || {
        namespace.enter()?;
        set_pdeathsig(Signal::SIGKILL)?;
        // It may have died before we said so.
        if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only what is safe in a signal handler may be called: these are
    // three system calls, and errors made of numbers, without allocation or locks.
    unsafe { command.pre_exec(prepare) };
}

/// A descriptor that becomes readable when the process, which must not have been reaped, ends.
#[allow(unsafe_code)]
fn process_descriptor(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, id.cast_signed(), 0) };
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits until `descriptor` is readable; false if it is not by then, or a signal came.
fn wait_readable(descriptor: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        // Rounded up, so that a short rest is not spent spinning.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, timeout) {
        Ok(count) => Ok(count > 0),
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
