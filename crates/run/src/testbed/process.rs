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
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, getppid};

use crate::testbed::namespace::Namespace;

/// Bytes kept of each output stream: the last ones.
const KEPT: usize = 256 << 10;

/// Time limit for the rest of a dead process's output; other processes may hold the pipe open.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

/// One of a process's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A callback for the lines of a process's output.
pub type LineSink = Arc<dyn Fn(Stream, &str) + Send + Sync>;

/// The use of a process's output.
#[derive(Clone)]
pub enum Output {
    /// This process's output.
    Inherit,
    /// The last 256 KiB of each stream are kept: see [`Process::output`].
    Keep,
    /// The same, and each line is passed on, without its end.
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

/// A process inside a node. Clones refer to the same process; dropping them does not end it.
#[derive(Clone, Debug)]
pub struct Process(Arc<Running>);

#[derive(Debug)]
struct Running {
    node: String,
    program: String,
    id: u32,
    /// Readable once the process has ended, reaped or not.
    ended: OwnedFd,
    state: Mutex<State>,
    out: Kept,
    err: Kept,
}

#[derive(Debug)]
struct State {
    child: Child,
    /// Set when it was reaped: its process ID may be reused from then on.
    status: Option<ExitStatus>,
}

impl Process {
    /// The node it runs in.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// The program and its arguments.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// The name of the program, without its directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.program.rsplit('/').next().unwrap_or_default()
    }

    /// Its process ID, which is also its process group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Whether it has ended and was waited for.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0.state).status.is_some()
    }

    /// Processor time of all its threads so far, in user and kernel mode.
    ///
    /// # Errors
    /// If it has ended and was waited for, or the operating system does not report it.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        // While the lock is held it cannot be reaped, so the ID is still its own.
        let state = lock(&self.0.state);
        if state.status.is_some() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(clock_gettime(clock_getcpuclockid(self.group())?)?.into())
    }

    /// Whether it is stopped, by SIGSTOP or a debugger.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let state = lock(&self.0.state);
        let runs = state.status.is_none();
        runs && self.status_fields().is_ok_and(|fields| fields.trim_start().starts_with(['T', 't']))
    }

    /// The fields of its status after its name. The state must be locked: then the process cannot
    /// be reaped, so the ID is still its own.
    fn status_fields(&self) -> io::Result<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id))?;
        // The name, in parentheses, may contain spaces.
        let (_, fields) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
        Ok(fields.to_owned())
    }

    /// Waits until it has ended, at most for `timeout` (`None`: forever). `Ok(None)`: it still
    /// runs. When it has ended, the rest of its process group is killed.
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

    /// Asks it to end, by SIGTERM to its process group. Has no effect if it has ended.
    pub fn ask_to_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Waits for its end, and kills it after `grace`. Call [`ask_to_end`](Self::ask_to_end) first.
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

    /// The end of its output to a stream, so far or, if it has ended, in total. Empty if the output
    /// was not kept.
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
            // Not reaped, so the group is still this process's. A signal to a zombie has no effect.
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
        // Before the ID can be reused; an error means that the group is empty.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let status = state.child.wait()?;
        state.status = Some(status);
        Ok(status)
    }
}

/// The last bytes of an output stream.
#[derive(Clone, Debug)]
struct Kept(Arc<(Mutex<KeptState>, Condvar)>);

#[derive(Debug)]
struct KeptState {
    text: VecDeque<u8>,
    closed: bool,
}

impl Kept {
    /// Reads `pipe`, if there is one, on a separate thread.
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
        // An error ends the stream like its end. Overlong lines are split.
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

    /// The kept bytes, after waiting at most `patience` for the end.
    fn text(&self, patience: Duration) -> String {
        let (state, closed) = &*self.0;
        let (state, _) = closed
            .wait_timeout_while(lock(state), patience, |state| !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let (front, back) = state.text.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}

/// Starts processes from a thread that lives as long as it does. The kernel kills a process with
/// its parent when the *thread* that started it ends.
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
                // The requester waits for the answer.
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
            // The requester has left, so kill the process.
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
            // The thread only passes requests on; if it panicked, it has also ended.
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
        // The parent may have died before the call.
        if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: these are three
    // system calls, and errors made of numbers, without allocation or locks.
    unsafe { command.pre_exec(prepare) };
}

/// A descriptor that becomes readable when the process ends. The process must not have been reaped.
#[allow(unsafe_code)]
fn process_descriptor(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, id.cast_signed(), 0) };
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits until `descriptor` is readable; false after the timeout or a signal.
fn wait_readable(descriptor: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        // Rounded up, to avoid busy waiting at the end.
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
