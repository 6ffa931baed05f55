//! The processes of a server.
//!
//! A separate thread starts and monitors each process. Each process has its own process group and
//! dies with its thread: if the agent dies for any reason, the kernel kills its processes. Descendants
//! of a user's command may leave its group; they are found by variables in their environment.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getppid};
use serde::Deserialize;
use tributary_base::FileLimit;
use tributary_base::restarts::is_death;

use super::launch;
use crate::job::{Exit, Outcome};

/// The kind of a process.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A worker or a parameter server, which prints events.
    Endpoint,
    /// A run of a job file with one worker, which writes a report to this file.
    Run(PathBuf),
    /// A user's command.
    Command {
        /// The file for its output.
        log: PathBuf,
        /// Variables by which its descendants are found.
        marks: Vec<String>,
    },
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    /// Whether it died, instead of ending by itself.
    pub(super) died: bool,
}

impl From<Exit> for Ended {
    fn from(exit: Exit) -> Self {
        Self { exit, died: false }
    }
}

/// A process that runs or has run.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Its process group; `None` once it has been reaped, because the number may then be reused.
    group: Arc<Mutex<Option<Pid>>>,
}

impl Process {
    /// Starts a process, and tells `ended` how it ended or why it could not be started. When this
    /// function returns, the process runs or will never run. `name` is for messages.
    pub(super) fn start(
        name: String,
        mut command: Command,
        kind: Kind,
        ended: impl FnOnce(Ended) + Send + 'static,
    ) -> Self {
        let group = Arc::new(Mutex::new(None));
        let own = Arc::clone(&group);
        let (started, is_started) = mpsc::channel::<()>();
        let thread = name.clone();
        let follow = move || {
            let spawned = spawn(&mut command, &kind, &own);
            drop(started);
            let exit = match (spawned, &kind) {
                (Ok(child), Kind::Endpoint | Kind::Run(_)) => follow(&name, child, &kind, &own),
                (Ok(child), Kind::Command { log, marks }) => {
                    let status = reap(child, &own);
                    launch::end_marked(marks);
                    launch::exit(status, log).into()
                }
                (Err(error), _) => {
                    let program = command.get_program().to_string_lossy();
                    Exit::failed(format!("cannot start `{program}`: {error}")).into()
                }
            };
            ended(exit);
        };
        if let Err(error) = thread::Builder::new().name("process".into()).spawn(follow) {
            // `ended` was moved into the thread and is gone, so log the error.
            tracing::error!("cannot start a thread for {thread}: {error}");
        }
        // Nothing is sent: this returns when the other end is dropped.
        let _ = is_started.recv();
        Self { group }
    }

    /// Asks the process to exit.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Kills the process.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = *lock(&self.group) {
            // The process may have exited. It has not been reaped, so the group still belongs to
            // it.
            let _ = killpg(group, signal);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(command: &mut Command, kind: &Kind, group: &Mutex<Option<Pid>>) -> std::io::Result<Child> {
    command.process_group(0).stdin(Stdio::null());
    // The service manager listens to the agent only.
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    match kind {
        Kind::Endpoint | Kind::Run(_) => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        Kind::Command { log, .. } => {
            let log = File::create(log)?;
            command.stdout(log.try_clone()?).stderr(log)
        }
    };
    die_with_parent(command);
    let mut guard = lock(group);
    let child = command.spawn()?;
    *guard = Some(Pid::from_raw(child.id().cast_signed()));
    Ok(child)
}

#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let prepare = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before `prctl`.
        if getppid() == parent { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called. These are two
    // system calls and errors built from numbers, without allocation or locks.
    unsafe { command.pre_exec(prepare) };
}

/// The relevant part of the output of a worker or parameter server with `--json-events`.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told {
    Done {
        #[serde(default)]
        values: u64,
        #[serde(default)]
        verified: u64,
    },
    Failed {
        reason: String,
    },
    #[serde(other)]
    Other,
}

/// Far more than the report of a job takes.
const REPORT: FileLimit = FileLimit::new("report", 4 << 20);

/// The relevant part of the report of `tributary run --json-out` on a job with one worker.
#[derive(Debug, Deserialize)]
struct Report {
    jobs: Vec<Summed>,
}

#[derive(Debug, Deserialize)]
struct Summed {
    bytes: u64,
    verified: u64,
}

/// What a process has said.
#[derive(Debug, Default)]
struct Said {
    /// Values that it summed, and those of them that were compared.
    done: Option<(u64, u64)>,
    failed: Option<String>,
}

impl Said {
    fn events(name: &str, output: impl BufRead) -> Self {
        let mut said = Self::default();
        for line in output.lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Told::Done { values, verified }) => said.done = Some((values, verified)),
                Ok(Told::Failed { reason }) => said.failed = Some(reason),
                Ok(Told::Other) => tracing::debug!("{name}: {line}"),
                Err(_) => tracing::warn!("{name} says: {line}"),
            }
        }
        said
    }

    fn report(path: &Path) -> Self {
        let text = REPORT.read_text(path).ok();
        let report = text.and_then(|text| serde_json::from_str::<Report>(&text).ok());
        let job = report.and_then(|report| report.jobs.into_iter().next());
        Self { done: job.map(|job| (job.bytes / 4, job.verified)), failed: None }
    }
}

/// Reads the output of the process until it ends.
fn follow(name: &str, mut child: Child, kind: &Kind, group: &Mutex<Option<Pid>>) -> Ended {
    // Without a thread, its messages are lost.
    let errors = child
        .stderr
        .take()
        .and_then(|stderr| thread::Builder::new().spawn(move || last_line(stderr)).ok());
    let output = child.stdout.take().map(BufReader::new);
    let events = match kind {
        Kind::Run(_) => {
            // What it prints is for people.
            output.map(|mut output| std::io::copy(&mut output, &mut std::io::sink()));
            None
        }
        _ => output.map(|output| Said::events(name, output)),
    };
    let status = reap(child, group);
    let said = match kind {
        Kind::Run(report) => Said::report(report),
        _ => events.unwrap_or_default(),
    };
    let errors = errors.and_then(|thread| thread.join().ok()).flatten();
    let died = status.as_ref().is_ok_and(|status| is_death(*status));
    let exit = match (status, said.done) {
        (Ok(status), Some((values, verified))) if status.success() => {
            let detail = format!("{values} values summed, {verified} of them compared");
            Exit { outcome: Outcome::Success, detail, values, verified }
        }
        (Ok(status), _) => {
            let reason = said.failed.or(errors);
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            Exit::failed(format!("it ended with {status}{reason}"))
        }
        (Err(error), _) => Exit::failed(format!("it cannot be waited for: {error}")),
    };
    Ended { exit, died }
}

/// Waits for the end of a process, and kills what is left of its group.
fn reap(mut child: Child, group: &Mutex<Option<Pid>>) -> std::io::Result<ExitStatus> {
    // Wait for the end without reaping, so that the number is not reused yet.
    let id = Pid::from_raw(child.id().cast_signed());
    let wait = || waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    while wait() == Err(nix::Error::EINTR) {}
    let mut guard = lock(group);
    if let Some(group) = guard.take() {
        let _ = killpg(group, Signal::SIGKILL);
    }
    child.wait()
}

fn last_line(stderr: ChildStderr) -> Option<String> {
    let lines = BufReader::new(stderr).lines().map_while(Result::ok);
    lines.inspect(|line| tracing::debug!("{line}")).last()
}
