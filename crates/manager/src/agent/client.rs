//! The agent's connection to the manager.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_access::identity::ROOTS;
use tributary_access::{Identity, Remote, remote};
use tributary_api::placement::v1;
use tributary_api::placement::v1::agent_message::Message;
use tributary_api::placement::v1::manager_message::Message as Told;
use tributary_api::placement::v1::placement_manager_client::PlacementManagerClient;
use tributary_metrics::{Board, Entry, Guest, Metrics};

use super::numbers::{Agents, Numbers};
use super::processes::{Ended, Kind, Process};
use super::server::Server;
use super::{Effect, Tasks, launch};
use crate::job::{Exit, Outcome, TaskId};
use crate::service::SILENCE;

/// Interval between heartbeats.
const BEAT: Duration = Duration::from_millis(500);

/// Pause between attempts to reach the manager.
const PAUSE: Duration = Duration::from_millis(300);

/// Time for a process to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Interval at which the agent checks whether it should stop.
const TICK: Duration = Duration::from_millis(50);

/// Maximum number of messages queued for the manager.
const BACKLOG: usize = 1 << 12;

/// The socket at which the parameter servers serve their metrics.
const SERVER_SOCKET: &str = "ps.sock";

/// Directory of the identity of users' commands.
const IDENTITY: &str = "TRIBUTARY_IDENTITY";

/// Has the address of the controller.
const CONTROLLER: &str = "TRIBUTARY_CONTROLLER";

/// Names the interface of PyTorch's Gloo.
const GLOO_INTERFACE: &str = "GLOO_SOCKET_IFNAME";

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its server: the name of a host in the network file.
    pub server: String,
    /// The manager.
    pub manager: Remote,
    /// Address of the switches' controller, where workers and parameter servers take part in jobs.
    pub controller: String,
    /// Their identity there.
    pub identity: Option<Identity>,
    /// The `tributary` program.
    pub program: PathBuf,
    /// Directory of what its processes write. No other agent may use it.
    pub directory: PathBuf,
    /// Network interface connected to the switch.
    pub interface: String,
    /// Additional arguments of workers and parameter servers.
    pub arguments: Vec<String>,
    /// Whether it runs the commands that users submit.
    pub commands: bool,
    /// Gets the agent's metrics, and those of its workers and parameter servers.
    pub metrics: Metrics,
}

impl Settings {
    /// What workers and parameter servers are started with.
    fn take_part(&self, command: &mut Command) {
        command.args(["--controller", &self.controller, "--interface", &self.interface]);
        command.arg("--json-events").args(&self.arguments);
        // That of the agent's environment is for the commands of users.
        command.env_remove(IDENTITY);
        if let Some(identity) = &self.identity {
            command.arg("--identity").arg(identity.directory());
        }
    }
}

/// Where users' commands take part, as variables in addition to those of the agent's environment, which `names` their
/// identity or not. A controller that wants certificates wants one of their user's: the agent's own is not for them.
fn controller_of_commands(
    identity: Option<&Identity>,
    roots: &Path,
    controller: &str,
    names: bool,
) -> io::Result<Vec<(&'static str, OsString)>> {
    let controller = (CONTROLLER, controller.into());
    Ok(match identity {
        None => vec![controller],
        Some(_) if names => vec![controller],
        Some(own) if own.has_certificate() => Vec::new(),
        Some(own) => {
            // Not the agent's directory, which may get a certificate later.
            link_roots(own, roots)?;
            vec![(IDENTITY, roots.into()), controller]
        }
    })
}

/// Makes a directory whose only file is a link to the roots of an identity.
fn link_roots(identity: &Identity, directory: &Path) -> io::Result<()> {
    let target = std::path::absolute(identity.directory())?.join(ROOTS);
    let link = directory.join(ROOTS);
    if fs::read_link(&link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => std::os::unix::fs::symlink(target, link),
    }
}

/// Whether the environment names an identity of users' commands, and not by mistake the agent's own.
fn names_identity(own: Option<&Identity>) -> bool {
    let Some(named) = std::env::var_os(IDENTITY) else { return false };
    let same = |own: &Identity| {
        let real = |path: &Path| path.canonicalize().ok();
        let named = real(Path::new(&named));
        named.is_some() && named == real(own.directory())
    };
    !own.is_some_and(same)
}

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its directory cannot be used.
    #[error("cannot use the directory {path}: {source}")]
    Directory {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another agent uses the directory.
    #[error("another agent uses the directory {0}; end that one, or name another directory")]
    Locked(PathBuf),
    /// The manager rejected the agent.
    #[error("{0}")]
    Unwanted(String),
}

/// The agent of a server.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    incarnation: u64,
    tasks: Tasks,
    processes: BTreeMap<TaskId, Process>,
    starts: BTreeMap<TaskId, v1::Start>,
    /// The GPUs of running commands.
    devices: BTreeMap<TaskId, Vec<u32>>,
    /// Processes killed because the lease expired.
    given_up: BTreeSet<TaskId>,
    server: Server,
    server_guest: Option<Guest>,
    ended: mpsc::UnboundedSender<(TaskId, Ended)>,
    exits: mpsc::UnboundedReceiver<(TaskId, Ended)>,
    /// The lease under which it may keep its processes; `None` before the first registration.
    lease: Option<Lease>,
    /// Processes whose metrics are on the agent's page.
    guests: BTreeMap<TaskId, Guest>,
    numbers: Entry<Numbers>,
    _lock: Flock<File>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    length: Duration,
    until: Instant,
}

/// State of a connection.
struct Talk {
    to_manager: mpsc::Sender<v1::AgentMessage>,
    /// Whether a message could not be sent.
    broken: bool,
    /// The time at which each unanswered heartbeat was sent. Number 0 is the registration.
    beats: BTreeMap<u64, Instant>,
    last: u64,
}

impl Agent {
    /// Creates an agent without processes.
    ///
    /// # Errors
    ///
    /// [`AgentError::Directory`], [`AgentError::Locked`].
    pub fn new(mut settings: Settings) -> Result<Self, AgentError> {
        let path = settings.directory.clone();
        let failed = |source| AgentError::Directory { path: path.clone(), source };
        fs::create_dir_all(&path).map_err(failed)?;
        // Commands have working directories of their own.
        settings.directory = fs::canonicalize(&path).map_err(failed)?;
        let directory = &settings.directory;
        let lock = File::create(directory.join("agent.lock")).map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| AgentError::Locked(directory.clone()))?;
        remove_job_files(directory).map_err(failed)?;
        // A command's descendants may have outlived an agent that was killed. The manager takes it
        // for granted that they have ended once this agent registers.
        launch::end_marked(&[launch::agent_mark(directory)]);
        let (ended, exits) = mpsc::unbounded_channel();
        let board = Board::default();
        let numbers = board.post(Numbers::default());
        settings.metrics.add(Agents(board));
        Ok(Self {
            settings,
            incarnation: rand::random(),
            tasks: Tasks::default(),
            processes: BTreeMap::new(),
            starts: BTreeMap::new(),
            devices: BTreeMap::new(),
            given_up: BTreeSet::new(),
            server: Server::default(),
            server_guest: None,
            ended,
            exits,
            lease: None,
            guests: BTreeMap::new(),
            numbers,
            _lock: lock,
        })
    }

    /// Carries out the manager's commands until `stop` is set, and then ends all processes. Calls
    /// `say` when it is registered.
    ///
    /// # Errors
    ///
    /// [`AgentError::Unwanted`] if the manager has no such server, or it may not be this one's agent.
    pub async fn run(
        &mut self,
        stop: &AtomicBool,
        mut say: impl FnMut(&str),
    ) -> Result<(), AgentError> {
        let mut silent = false;
        while !stop.load(Ordering::Relaxed) {
            let talked = self.talk(stop, &mut say).await;
            self.numbers.update(|numbers| numbers.connected = false);
            match talked {
                Ok(()) => silent = false,
                Err(status)
                    if matches!(status.code(), Code::NotFound | Code::PermissionDenied)
                        && self.lease.is_none() =>
                {
                    return Err(AgentError::Unwanted(status.message().to_owned()));
                }
                Err(status) if !silent => {
                    tracing::warn!("the manager: {}", remote::reason(&status));
                    silent = true;
                }
                Err(_) => {}
            }
            self.wait(PAUSE, stop).await;
        }
        // The manager sees the closed connection before any process ends, so it does not count the
        // ends as failures of the jobs.
        self.end_all().await;
        Ok(())
    }

    /// Runs one connection from start to end.
    async fn talk(&mut self, stop: &AtomicBool, say: &mut impl FnMut(&str)) -> Result<(), Status> {
        let (to_manager, messages) = mpsc::channel(BACKLOG);
        let register = v1::Register {
            server: self.settings.server.clone(),
            incarnation: self.incarnation,
            processes: self.tasks.processes().into_iter().map(Into::into).collect(),
        };
        let mut talk = Talk {
            to_manager,
            broken: false,
            beats: BTreeMap::from([(0, Instant::now())]),
            last: 0,
        };
        talk.send(Message::Register(register));
        let late = |_| Status::deadline_exceeded("no answer");
        let opened = timeout(SILENCE, async {
            let channel = self.settings.manager.connect().await;
            let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut client = PlacementManagerClient::new(channel);
            client.agent(ReceiverStream::new(messages)).await
        });
        let mut incoming = opened.await.map_err(late)??.into_inner();
        self.converse(&mut talk, &mut incoming, stop, say).await
    }

    async fn converse(
        &mut self,
        talk: &mut Talk,
        incoming: &mut Streaming<v1::ManagerMessage>,
        stop: &AtomicBool,
        say: &mut impl FnMut(&str),
    ) -> Result<(), Status> {
        let mut beat = tokio::time::interval(BEAT);
        let mut tick = tokio::time::interval(TICK);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                message = incoming.message() => match message? {
                    None => return Err(Status::unavailable("it has ended")),
                    Some(v1::ManagerMessage { message }) => {
                        heard = Instant::now();
                        self.hear(talk, message, say);
                    }
                },
                Some((task, ended)) = self.exits.recv() => self.on_exit(task, ended.exit, Some(talk)),
                _ = beat.tick() => talk.beat(),
                _ = tick.tick() => {
                    self.check_lease();
                    self.tend_server();
                    if stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    if talk.broken || heard.elapsed() > SILENCE {
                        return Err(Status::unavailable("it does not answer any more"));
                    }
                }
            }
        }
    }

    fn hear(&mut self, talk: &mut Talk, message: Option<Told>, say: &mut impl FnMut(&str)) {
        let effects = match message {
            Some(Told::Welcome(v1::Welcome { lease_ms })) => {
                let length = Duration::from_millis(lease_ms);
                let until = talk.beats.remove(&0).unwrap_or_else(Instant::now) + length;
                self.lease = Some(Lease { length, until });
                self.numbers.update(|numbers| numbers.connected = true);
                say("registered");
                return;
            }
            Some(Told::Beat(v1::Beat { number })) => {
                if let (Some(sent), Some(lease)) = (talk.beats.get(&number), &mut self.lease) {
                    lease.until = lease.until.max(*sent + lease.length);
                }
                talk.beats.retain(|&other, _| other > number);
                return;
            }
            // The command waited too long to be carried out. The manager repeats everything on the
            // next connection.
            Some(Told::Start(_)) if self.lease_is_over() => {
                talk.broken = true;
                return;
            }
            Some(Told::Start(start)) => match TaskId::try_from(start.id) {
                Ok(task) => {
                    let effects = self.tasks.start(task);
                    if effects.contains(&Effect::Spawn(task)) {
                        self.starts.insert(task, start);
                    }
                    effects
                }
                Err(error) => return tracing::warn!("invalid start order: {error}"),
            },
            Some(Told::Stop(id)) => match TaskId::try_from(Some(id)) {
                Ok(task) => self.tasks.stop(task),
                Err(error) => return tracing::warn!("invalid stop order: {error}"),
            },
            Some(Told::ReadLog(wanted)) => {
                let (directory, to_manager) =
                    (self.settings.directory.clone(), talk.to_manager.clone());
                // A file system may be slow. The manager asks for few logs at a time.
                tokio::task::spawn_blocking(move || {
                    let part = Message::LogPart(launch::log_part(&directory, wanted));
                    // If it cannot be sent, the manager asks again or has gone.
                    let _ = to_manager.try_send(v1::AgentMessage { message: Some(part) });
                });
                return;
            }
            Some(Told::Acknowledge(id)) => {
                if let Ok(task) = TaskId::try_from(Some(id)) {
                    self.forget(task);
                }
                return;
            }
            None => return,
        };
        self.carry_out(effects, Some(talk));
    }

    fn carry_out(&mut self, effects: Vec<Effect>, mut talk: Option<&mut Talk>) {
        for effect in effects {
            match effect {
                Effect::Spawn(task) => self.spawn(task),
                Effect::Terminate(task) => self.terminate(task),
                Effect::Report(process) => {
                    if let Some(talk) = &mut talk {
                        talk.send(Message::Report(process.into()));
                    }
                }
            }
        }
    }

    /// Keeps the parameter servers running.
    fn tend_server(&mut self) {
        let Settings { program, server, metrics, directory, .. } = &self.settings;
        let (guest, process) = (&mut self.server_guest, &mut self.server);
        process.tend(|| {
            let mut command = Command::new(program);
            command.arg("ps").arg(format!("--host={server}"));
            self.settings.take_part(&mut command);
            let socket = directory.join(SERVER_SOCKET);
            let address = format!("unix:{}", socket.display());
            *guest = metrics.add_process("parameter servers".to_owned(), socket);
            if guest.is_some() {
                command.args(["--metrics", &address]);
            }
            command
        });
    }

    fn on_exit(&mut self, task: TaskId, exit: Exit, talk: Option<&mut Talk>) {
        let exit = match self.given_up.remove(&task) {
            true => Exit::lost("the manager was silent for longer than a lease"),
            false => exit,
        };
        tracing::info!("{task}: {}", exit.detail);
        self.processes.remove(&task);
        self.guests.remove(&task);
        self.numbers.update(|numbers| {
            numbers.processes = self.processes.len();
            numbers.failed += u64::from(exit.outcome != Outcome::Success);
        });
        self.devices.remove(&task);
        let effects = self.tasks.exited(task, exit);
        self.carry_out(effects, talk);
    }

    fn forget(&mut self, task: TaskId) {
        self.tasks.acknowledge(task);
        self.starts.remove(&task);
        // A process that was killed has left it.
        let _ = fs::remove_file(self.settings.directory.join(launch::socket_name(task)));
        // If this fails, the agent removes the file when it starts again.
        for kind in ["toml", "json"] {
            let _ = fs::remove_file(self.file(task, kind));
        }
    }

    /// The job file of a job on one server, or its report.
    fn file(&self, task: TaskId, kind: &str) -> PathBuf {
        self.settings.directory.join(format!("job-{}-{}.{kind}", task.job, task.attempt))
    }

    fn spawn(&mut self, task: TaskId) {
        let Some(start) = self.starts.get(&task) else { return };
        if !start.command.is_empty() {
            return self.spawn_command(task);
        }
        let mut command = Command::new(&self.settings.program);
        let kind = match &start.part {
            Some(part) => {
                command.arg("worker").arg(format!("--job={}", part.job_id));
                command.arg(format!("--host={}", self.settings.server));
                command.env(launch::JOB_KEY, &part.key);
                self.settings.take_part(&mut command);
                Kind::Endpoint
            }
            None => {
                let [path, report] = ["toml", "json"].map(|kind| self.file(task, kind));
                if let Err(error) = tributary_base::write_whole(&path, &start.job_file) {
                    let exit = Exit::failed(format!("cannot write {}: {error}", path.display()));
                    let _ = self.ended.send((task, exit.into()));
                    return;
                }
                command.arg("run").arg(&path).arg("--json-out").arg(&report);
                Kind::Run(report)
            }
        };
        let guest = self.measure(task, &start.name, &mut command);
        self.guests.extend(guest.map(|guest| (task, guest)));
        self.start(task, command, kind);
    }

    /// Has a process serve its metrics to this one, if metrics are on.
    fn measure(&self, task: TaskId, job: &str, command: &mut Command) -> Option<Guest> {
        let socket = self.settings.directory.join(launch::socket_name(task));
        let address = format!("unix:{}", socket.display());
        let name = format!("worker {} of job {} ({job})", task.worker, task.job);
        let guest = self.settings.metrics.add_process(name, socket)?;
        command.args(["--metrics", &address]);
        Some(guest)
    }

    /// Starts a user's command with its GPUs.
    fn spawn_command(&mut self, task: TaskId) {
        let start = &self.starts[&task];
        let log = self.settings.directory.join(launch::log_name(task));
        // That of another job, if the manager has lost its database: numbers begin again.
        let _ = fs::remove_file(&log);
        let refused = |what: String| {
            let _ = self.ended.send((task, Exit::failed(what).into()));
        };
        if !self.settings.commands {
            let server = &self.settings.server;
            return refused(format!(
                "the agent of {server} runs no commands; start it with --commands"
            ));
        }
        if let Err(what) = launch::enter(Path::new(&start.directory)) {
            let server = &self.settings.server;
            return refused(format!("the working directory of the command on {server}: {what}"));
        }
        let used: BTreeSet<u32> = self.devices.values().flatten().copied().collect();
        let free = (0..).filter(|device| !used.contains(device));
        let devices: Vec<u32> = free.take(start.gpus as usize).collect();
        let variables = launch::variables(start, task, &devices);
        let Some((program, arguments)) = start.command.split_first() else { return };
        let mut command = Command::new(program);
        let identity = self.settings.identity.as_ref();
        let names = names_identity(identity);
        if !names {
            command.env_remove(IDENTITY);
        }
        let roots = self.settings.directory.join("roots");
        let part = controller_of_commands(identity, &roots, &self.settings.controller, names);
        let part = part.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}; commands get no controller", roots.display());
            Vec::new()
        });
        let marks = [launch::agent_mark(&self.settings.directory), launch::task_mark(task)];
        command
            .args(arguments)
            .current_dir(&start.directory)
            .envs(variables)
            .envs(marks.iter().filter_map(|mark| mark.split_once('=')))
            .env("TRIBUTARY_INTERFACE", &self.settings.interface)
            .env_remove(CONTROLLER)
            .envs(part);
        // PyTorch's Gloo would use the address of the host's name, which is often a loopback address.
        if start.part.is_some() && std::env::var_os(GLOO_INTERFACE).is_none() {
            command.env(GLOO_INTERFACE, &self.settings.interface);
        }
        self.devices.insert(task, devices);
        self.start(task, command, Kind::Command { log, marks: marks.into() });
    }

    fn start(&mut self, task: TaskId, command: Command, kind: Kind) {
        let ended = self.ended.clone();
        tracing::info!("starting {task}");
        let process = Process::start(task.to_string(), command, kind, move |how| {
            // The agent may have ended.
            let _ = ended.send((task, how));
        });
        self.processes.insert(task, process);
        self.numbers.update(|numbers| {
            numbers.processes = self.processes.len();
            numbers.started += 1;
        });
    }

    fn terminate(&self, task: TaskId) {
        let Some(process) = self.processes.get(&task).cloned() else { return };
        process.ask_to_end();
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            process.kill();
        });
    }

    fn lease_is_over(&self) -> bool {
        self.lease.is_some_and(|lease| lease.until <= Instant::now())
    }

    /// Once the lease has expired, the manager may run the processes elsewhere, so they are killed
    /// at once.
    fn check_lease(&mut self) {
        if self.lease_is_over() && !self.processes.is_empty() {
            tracing::warn!(
                "the manager was silent for longer than a lease; all processes are ended"
            );
            self.given_up.extend(self.processes.keys());
            self.processes.values().for_each(Process::kill);
        }
    }

    /// Waits without a connection.
    async fn wait(&mut self, pause: Duration, stop: &AtomicBool) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            tokio::select! {
                () = sleep_until(end.min(Instant::now() + TICK)) => {
                    self.check_lease();
                    self.tend_server();
                }
                Some((task, ended)) = self.exits.recv() => self.on_exit(task, ended.exit, None),
            }
        }
    }

    /// Ends all processes and waits for their end.
    async fn end_all(&mut self) {
        let end = Instant::now() + GRACE;
        self.processes.values().for_each(Process::ask_to_end);
        // Workers may need the parameter servers to end.
        let mut asked = false;
        while !self.processes.is_empty() || !self.server.has_ended() {
            if self.processes.is_empty() && !std::mem::replace(&mut asked, true) {
                self.server.ask_to_end();
            }
            tokio::select! {
                () = tokio::time::sleep(TICK) => {
                    if Instant::now() >= end {
                        self.processes.values().for_each(Process::kill);
                        self.server.kill();
                    }
                }
                Some((task, ended)) = self.exits.recv() => self.on_exit(task, ended.exit, None),
            }
        }
    }
}

impl Talk {
    /// Queues a message. If the queue is full, the manager is not reading, and the connection is
    /// dropped. Everything is repeated on the next connection.
    fn send(&mut self, message: Message) {
        let message = v1::AgentMessage { message: Some(message) };
        self.broken |= self.to_manager.try_send(message).is_err();
    }

    fn beat(&mut self) {
        self.last += 1;
        self.beats.insert(self.last, Instant::now());
        self.send(Message::Beat(v1::Beat { number: self.last }));
    }
}

/// Removes job files and sockets of an earlier run of the agent.
fn remove_job_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let ours = ["toml", "json", "sock"].iter().any(|kind| name.ends_with(kind));
        if name == SERVER_SOCKET || name.starts_with("job-") && ours {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_users_do_not_get_the_identity_of_the_agent() {
        let [directory, roots] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (own, roots) = (Identity::new(directory.path()), roots.path().join("roots"));
        let names = |identity: Option<&Identity>, names| {
            let variables = controller_of_commands(identity, &roots, "10.0.0.1:1", names).unwrap();
            variables.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(None, false), [CONTROLLER]);
        // Roots are no secret.
        std::fs::write(directory.path().join("ca.pem"), "").unwrap();
        for _ in 0..2 {
            assert_eq!(names(Some(&own), false), [IDENTITY, CONTROLLER]);
        }
        let handed: Vec<_> = std::fs::read_dir(&roots).unwrap().collect();
        assert_eq!(handed.len(), 1, "{handed:?}");
        assert_eq!(std::fs::read(roots.join("ca.pem")).unwrap(), b"");
        assert_eq!(names(Some(&own), true), [CONTROLLER]);
        // A certificate that is being replaced counts, too, and is never handed over.
        std::os::unix::fs::symlink("/no/such", directory.path().join("cert.pem")).unwrap();
        assert!(!roots.join("cert.pem").exists());
        assert_eq!(names(Some(&own), false), [""; 0]);
        assert_eq!(names(Some(&own), true), [CONTROLLER]);
    }
}
