//! Carries out the manager's actions: one thread with its clock, its database, and the queues to
//! other parts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;
use tributary_api::placement::v1;
use tributary_api::placement::v1::manager_message::Message;
use tributary_base::shortened;
use tributary_cluster::Policy;
use tributary_wire::channel::Token;

use crate::durable::{Change, Store};
use crate::job::{Phase, Record, Request, Run, TaskId};
use crate::job_file;
use crate::manager::{
    Action, Command, Connection, Event, Manager, NetworkState, Quota, Refusal, Settings, Ticket,
    Wait,
};
use crate::site::Site;

/// Maximum number of messages queued for an agent. An agent that does not read them is
/// disconnected.
const BACKLOG: usize = 1 << 12;

/// The sending end of the queue to an agent.
pub(crate) type ToAgent = mpsc::Sender<Result<v1::ManagerMessage, Status>>;

/// A key that nobody can guess.
fn draw() -> Token {
    Token(rand::random())
}

/// Both ends of a queue to an agent.
pub(crate) fn agent_channel() -> (ToAgent, mpsc::Receiver<Result<v1::ManagerMessage, Status>>) {
    mpsc::channel(BACKLOG)
}

/// An input of the thread.
#[derive(Debug)]
pub enum Input {
    /// A submission, with the limits of its tenant, and the channel for its answer.
    Submit(Box<Request>, Quota, oneshot::Sender<Result<u32, Refusal>>),
    /// A cancellation, with the channel for its answer.
    Cancel(u32, oneshot::Sender<Result<u32, Refusal>>),
    /// A question why a job is where it is, with the channel for its answer.
    Explain(u32, oneshot::Sender<Result<v1::ExplainResponse, Refusal>>),
    /// A request for what a worker's command has written, with the channel for its answer.
    ReadLog(v1::LogRequest, LogAnswer),
    /// An agent's answer to such a request.
    LogPart(Connection, v1::LogPart),
    /// A new connection of an agent, with the queue to the agent.
    #[doc(hidden)]
    Connected(Connection, ToAgentSender),
    /// A heartbeat of an agent.
    Beat(Connection, u64),
    /// An event for the manager.
    Event(Event),
    /// A question whether the manager takes inputs, with the channel for its answer.
    Look(oneshot::Sender<()>),
    /// The manager's process shall end. Agents and switches continue without it.
    End,
}

/// Most requests for what commands have written that an agent has at a time: its answers must not delay its
/// heartbeats.
const LOGS: usize = 4;

/// Most characters of an agent's reason.
const PROBLEM: usize = 200;

/// Takes the answer to a request for what a command has written.
pub type LogAnswer = oneshot::Sender<Result<v1::LogResponse, Refusal>>;

/// The sending end of the queue to an agent, for [`Input`].
#[derive(Debug)]
pub struct ToAgentSender(pub(crate) ToAgent);

/// A snapshot for clients.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Jobs by number.
    pub jobs: BTreeMap<u32, Arc<Record>>,
    /// Servers, rack by rack.
    pub servers: Vec<ServerView>,
    /// By job that waits: why the last round did not place it.
    pub waits: BTreeMap<u32, Wait>,
    /// What is known of the switches.
    pub network: NetworkState,
}

impl View {
    /// A job as clients see it. A job that waits has a reason to.
    pub(crate) fn describe(&self, record: &Record) -> v1::Job {
        let now = match &record.phase {
            Phase::Waiting => {
                let waits = self.waits.get(&record.id);
                Some(waits.map_or_else(|| NEXT_ROUND.to_owned(), Wait::to_string))
            }
            Phase::Running(run) => self.network.waits(run),
            Phase::Ending(_, cause) => Some(cause.to_string()),
            Phase::Finished(_) => None,
            Phase::Failed(why) => Some(why.clone()),
            Phase::Cancelled => Some("a client cancelled it".to_owned()),
        };
        // Where another attempt has followed, or will.
        let goes_on =
            matches!(record.phase, Phase::Waiting | Phase::Running(_) | Phase::Finished(_));
        let setback = record.setback.as_ref().filter(|_| goes_on);
        let before = setback.map(|why| format!("an attempt before ended: {why}"));
        let reason = now.into_iter().chain(before).collect::<Vec<_>>().join("; ");
        v1::Job { reason, ..v1::Job::from(record) }
    }
}

/// Why a job waits that no round has considered yet.
const NEXT_ROUND: &str = "it waits for the next round of placement";

/// A snapshot of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Number of its GPUs.
    pub gpus: u32,
    /// Whether its agent is connected.
    pub present: bool,
}

/// The manager with its clock, database and queues.
pub struct Shell<S> {
    manager: Manager,
    store: S,
    site: Site,
    settings: Settings,
    clock: Clock,
    agents: BTreeMap<Connection, ToAgent>,
    asked: BTreeMap<Ticket, oneshot::Sender<Result<u32, Refusal>>>,
    /// Requests that agents have not answered yet, with the agent's connection and server.
    logs: BTreeMap<Ticket, (Connection, String, LogAnswer)>,
    tickets: Ticket,
    view: watch::Sender<View>,
    switches: mpsc::UnboundedSender<Action>,
}

/// The time since the epoch in milliseconds: the system time at the start plus the monotonic time
/// since then, so that it does not jump with the system clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    start_ms: u64,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2);
        Self { start: Instant::now(), start_ms }
    }

    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX / 2);
        self.start_ms + passed
    }
}

impl<S: Store> Shell<S> {
    /// Loads the recorded state. `switches` receives [`Action::Admit`] and [`Action::Release`].
    ///
    /// # Errors
    ///
    /// If the database cannot be read or written.
    pub fn start(
        site: Site,
        settings: Settings,
        policy: Box<dyn Policy>,
        store: S,
        view: watch::Sender<View>,
        switches: mpsc::UnboundedSender<Action>,
    ) -> Result<Self, S::Error> {
        let clock = Clock::start();
        let durable = store.load()?;
        let jobs = durable.jobs.iter().map(|(&id, job)| (id, Arc::new(job.clone()))).collect();
        view.send_replace(View { jobs, ..View::default() });
        let (manager, actions) =
            Manager::start(site.clone(), settings, policy, draw, durable, clock.now_ms());
        let mut shell = Self {
            manager,
            store,
            site,
            settings,
            clock,
            agents: BTreeMap::new(),
            asked: BTreeMap::new(),
            logs: BTreeMap::new(),
            tickets: 0,
            view,
            switches,
        };
        shell.carry_out(actions)?;
        shell.show_servers();
        Ok(shell)
    }

    /// Runs until [`Input::End`] arrives.
    ///
    /// # Errors
    ///
    /// If a change could not be recorded. Nothing that depends on it was sent.
    pub fn run(&mut self, inputs: &Receiver<Input>) -> Result<(), S::Error> {
        loop {
            let now_ms = self.clock.now_ms();
            let due_ms = self.manager.poll_timeout();
            if due_ms <= now_ms {
                let actions = self.manager.handle_timeout(now_ms);
                // First, so that no job is seen without its reason.
                self.show_waits();
                self.carry_out(actions)?;
            }
            // Rounds that take longer than their period leave room for inputs.
            match inputs.recv_timeout(Duration::from_millis(due_ms.saturating_sub(now_ms))) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(input) => self.take(input)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn take(&mut self, input: Input) -> Result<(), S::Error> {
        let event = match input {
            Input::Submit(request, quota, answer) => {
                Event::Submit(self.ask(answer), request, quota)
            }
            Input::Cancel(job, answer) => Event::Cancel(self.ask(answer), job),
            Input::Explain(job, answer) => {
                let answered = self.manager.explain(self.clock.now_ms(), job).map(|explained| {
                    let record = self.manager.durable().jobs.get(&job);
                    let job = record.map(|record| self.view.borrow().describe(record));
                    v1::ExplainResponse { job, ..explained }
                });
                // The client may have left.
                let _ = answer.send(answered);
                return Ok(());
            }
            Input::Look(answer) => {
                // The one who asked may have left.
                let _ = answer.send(());
                return Ok(());
            }
            Input::ReadLog(wanted, answer) => {
                self.read_log(wanted, answer);
                return Ok(());
            }
            Input::LogPart(connection, part) => {
                self.pass_log(connection, part);
                return Ok(());
            }
            Input::Connected(connection, ToAgentSender(agent)) => {
                self.agents.insert(connection, agent);
                return Ok(());
            }
            Input::Beat(connection, number) => {
                // The answer renews the agent's lease, so send it only while the manager considers
                // the agent connected.
                self.tell(connection, Message::Beat(v1::Beat { number }));
                return Ok(());
            }
            Input::Event(event) => event,
            Input::End => return Ok(()),
        };
        if let Event::Disconnected(connection) = event {
            self.agents.remove(&connection);
            self.lose_logs(connection);
        }
        let presence = matches!(event, Event::Registered { .. } | Event::Disconnected(_));
        let actions = self.manager.handle(self.clock.now_ms(), event);
        self.show_waits();
        self.carry_out(actions)?;
        if presence {
            self.show_servers();
        }
        Ok(())
    }

    /// Asks the agent of a worker for what its command has written.
    fn read_log(&mut self, wanted: v1::LogRequest, answer: LogAnswer) {
        match self.manager.writer(wanted.job_id, wanted.worker) {
            Err(refusal) => drop(answer.send(Err(refusal))),
            Ok((task, server, connection)) => {
                let of_agent =
                    |(other, ..): &&(Connection, String, LogAnswer)| *other == connection;
                if self.logs.values().filter(of_agent).count() >= LOGS {
                    // Agents that are older programs answer nothing.
                    self.logs.retain(|_, (.., waiting)| !waiting.is_closed());
                    let why = format!("the agent of {server} is busy with other logs; ask again");
                    return drop(answer.send(Err(Refusal::NoLog(why))));
                }
                self.tickets += 1;
                self.logs.insert(self.tickets, (connection, server.to_owned(), answer));
                let (ticket, from) = (self.tickets, wanted.from);
                let read = v1::ReadLog { ticket, id: Some(task.into()), from };
                self.tell(connection, Message::ReadLog(read));
            }
        }
    }

    /// Passes on what an agent has read.
    fn pass_log(&mut self, connection: Connection, part: v1::LogPart) {
        let v1::LogPart { ticket, log, problem } = part;
        if self.logs.get(&ticket).is_none_or(|(other, ..)| *other != connection) {
            return;
        }
        if let Some((_, server, answer)) = self.logs.remove(&ticket) {
            let problem = shortened(&problem, PROBLEM);
            let none = || Refusal::NoLog(format!("the agent of {server}: {problem}"));
            // The client may have left.
            let _ = answer.send(log.ok_or_else(none));
        }
    }

    /// Refuses the requests for logs that an agent cannot answer any more.
    fn lose_logs(&mut self, connection: Connection) {
        let lost = self.logs.extract_if(.., |_, (other, ..)| *other == connection);
        for (_, (_, server, answer)) in lost {
            let why = Refusal::NoLog(format!("the agent of {server} went away"));
            let _ = answer.send(Err(why));
        }
    }

    fn ask(&mut self, answer: oneshot::Sender<Result<u32, Refusal>>) -> Ticket {
        self.tickets += 1;
        self.asked.insert(self.tickets, answer);
        self.tickets
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), S::Error> {
        for action in actions {
            match action {
                Action::Record(changes) => {
                    self.store.commit(&changes)?;
                    self.show(&changes);
                }
                Action::Answer(ticket, answer) => {
                    if let Some(asked) = self.asked.remove(&ticket) {
                        // The client may have left.
                        let _ = asked.send(answer);
                    }
                }
                Action::Send(connection, command) => self.command(connection, command),
                Action::Dismiss(connection, why) => {
                    if let Some(agent) = self.agents.remove(&connection) {
                        let _ = agent.try_send(Err(why.into()));
                    }
                }
                Action::Admit(_) | Action::Release(_) => {
                    // The receiver ends only with the process.
                    let _ = self.switches.send(action);
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, connection: Connection, command: Command) {
        let message = match command {
            Command::Welcome => Message::Welcome(v1::Welcome { lease_ms: self.settings.lease_ms }),
            Command::Start(id, record) => {
                let Some(run) = record.phase.run() else { return };
                Message::Start(self.start_message(id, &record, run))
            }
            Command::Stop(id) => Message::Stop(id.into()),
            Command::Acknowledge(id) => Message::Acknowledge(id.into()),
        };
        self.tell(connection, message);
    }

    fn start_message(&self, id: TaskId, record: &Record, run: &Run) -> v1::Start {
        let Request { name, command, directory, .. } = &record.request;
        let first = run.tasks.first().and_then(|task| self.site.address(&task.server));
        let task = run.tasks.iter().find(|task| task.worker == id.worker);
        let part = run.wire.map(|wire| v1::Part {
            job_id: wire.into(),
            key: run.key.to_hex(),
            server: run.ps.clone().unwrap_or_default(),
        });
        let alone = part.is_none() && command.is_empty();
        v1::Start {
            id: Some(id.into()),
            command: command.clone(),
            directory: directory.clone(),
            gpus: task.map_or(0, |task| task.gpus),
            name: name.clone(),
            workers: run.tasks.iter().map(|task| task.server.clone()).collect(),
            first_address: first.map(|ip| ip.to_string()).unwrap_or_default(),
            part,
            job_file: if alone {
                job_file::alone(record, self.site.values_per_packet())
            } else {
                String::new()
            },
        }
    }

    /// Sends a message to an agent. An agent that does not read its messages is disconnected. It
    /// then registers again and receives the complete current state.
    fn tell(&mut self, connection: Connection, message: Message) {
        let Some(agent) = self.agents.get(&connection) else { return };
        let message = v1::ManagerMessage { message: Some(message) };
        if agent.try_send(Ok(message)).is_err() {
            self.agents.remove(&connection);
            self.lose_logs(connection);
        }
    }

    fn show(&self, changes: &[Change]) {
        self.view.send_modify(|view| {
            for change in changes {
                match change {
                    Change::Job(record) => {
                        view.jobs.insert(record.id, Arc::new((**record).clone()));
                    }
                    Change::Forget(job) => drop(view.jobs.remove(job)),
                    Change::Counters(_) => {}
                }
            }
        });
    }

    /// Shows what jobs wait for, if that has changed.
    fn show_waits(&self) {
        let (waits, network) = (self.manager.waits(), self.manager.network());
        self.view.send_if_modified(|view| {
            let changed = view.waits != *waits || view.network != *network;
            if changed {
                view.waits.clone_from(waits);
                view.network.clone_from(network);
            }
            changed
        });
    }

    fn show_servers(&self) {
        let view = |server: &crate::site::Server| ServerView {
            name: server.name.clone(),
            gpus: server.gpus,
            present: self.manager.is_here(&server.name),
        };
        let servers = self.site.servers().map(view).collect();
        self.view.send_modify(|view| view.servers = servers);
    }
}
