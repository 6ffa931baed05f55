//! The processes of a server.
//!
//! A separate thread starts and monitors each process. Each process has its own process group and
//! dies with its thread: if the agent dies for any reason, the kernel kills its processes. Descendants
//! of a user's command may leave its group; they are found by variables in their environment.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getppid};
use serde::Deserialize;
use tributary_limits::restarts::is_death;

use super::launch;
use crate::job::{Exit, Outcome, TaskId};

/// The kind of a process.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A worker or a parameter server, which prints events.
    Own,
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
    /// function returns, the process runs or will never run.
    pub(super) fn start(
        task: TaskId,
        mut command: Command,
        kind: Kind,
        ended: impl FnOnce(TaskId, Ended) + Send + 'static,
    ) -> Self {
        let group = Arc::new(Mutex::new(None));
        let own = Arc::clone(&group);
        let (started, is_started) = mpsc::channel::<()>();
        let follow = move || {
            let spawned = spawn(&mut command, &kind, &own);
            drop(started);
            let exit = match (spawned, &kind) {
                (Ok(child), Kind::Own) => follow(task, child, &own),
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
            ended(task, exit);
        };
        if let Err(error) = thread::Builder::new().name("process".into()).spawn(follow) {
            // `ended` was moved into the thread and is gone, so log the error.
            tracing::error!("cannot start a thread for {task}: {error}");
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
    match kind {
        Kind::Own => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
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

/// Reads the output of the process until it ends.
fn follow(task: TaskId, mut child: Child, group: &Mutex<Option<Pid>>) -> Ended {
    // Without a thread, its messages are lost.
    let errors = child
        .stderr
        .take()
        .and_then(|stderr| thread::Builder::new().spawn(move || last_line(stderr)).ok());
    let (mut done, mut failed) = (None, None);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Told::Done { values, verified }) => done = Some((values, verified)),
                Ok(Told::Failed { reason }) => failed = Some(reason),
                Ok(Told::Other) => tracing::debug!("{task}: {line}"),
                Err(_) => tracing::warn!("{task} says: {line}"),
            }
        }
    }
    let status = reap(child, group);
    let errors = errors.and_then(|thread| thread.join().ok()).flatten();
    let died = status.as_ref().is_ok_and(|status| is_death(*status));
    let exit = match (status, done) {
        (Ok(status), Some((values, verified))) if status.success() => {
            let detail = match task.role.trains() {
                true => format!("{values} values summed, {verified} of them compared"),
                false => "it served".to_owned(),
            };
            Exit { outcome: Outcome::Success, detail, values, verified }
        }
        (Ok(status), _) => {
            let reason = failed.or(errors).map_or(String::new(), |reason| format!(": {reason}"));
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
