//! The manager's decisions, without I/O: events and the time go in, actions come out.
//!
//! [`Manager`] is deterministic: it has no clock and no socket, and the same events lead to the
//! same actions. The driver carries out the actions of a step in order, and ends the process if an
//! action cannot be recorded.
//!
//! # Recording before sending
//!
//! A step has at most one [`Action::Record`], which comes first. So an answer, a start, a stop or
//! an acknowledgement is sent only when its causes are on disk. Actions that were recorded but not
//! sent are sent by the next manager, because everything that is sent follows from the recorded
//! state:
//!
//! | sent | follows from | repeated after a restart | harmless when repeated, because |
//! | --- | --- | --- | --- |
//! | start of a process | the attempt is running, no exit of the process is recorded | yes | agents start a [`TaskId`] once per life |
//! | stop of a process | the attempt is ending, no exit is recorded | yes | it has ended, or ends |
//! | acknowledgement of an exit | the exit is recorded | when it is reported again | the agent has forgotten it |
//! | admission to the switches | the attempt is running | yes | the number is this attempt's alone |
//! | release from the switches | all processes of an ending attempt have ended | yes | it is not admitted |
//! | answer to a request | the job is recorded | no | requests have a key |
//!
//! `rounds` places jobs, `waits` and `explain` give the reasons, `lives` follows attempts and agents.

mod explain;
mod lives;
mod reason;
mod rounds;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::num::NonZeroU64;

use tributary_api::placement::v1;
use tributary_base::{DECISIONS, counted};
use tributary_cluster::Policy;
use tributary_wire::channel::Token;

use crate::durable::{Change, Durable};
use crate::job::{Exit, Phase, Record, Request, Run, TaskId};
use crate::site::Site;

pub use reason::Wait;

/// Settings of the manager.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Interval between two placement rounds in ms.
    pub period_ms: u64,
    /// Time in ms for which an agent without contact keeps its processes.
    pub lease_ms: u64,
    /// Share of its value that a waiting job gains per round (NetPack §5.2, step 1).
    pub ageing: f64,
    /// Maximum number of kept jobs that are over.
    pub kept: usize,
    /// Highest value of a job whose tenant has no limit of its own. No job is always first: others
    /// reach its value by waiting.
    pub max_value: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { period_ms: 5_000, lease_ms: 60_000, ageing: 1.0, kept: 10_000, max_value: 1_000.0 }
    }
}

impl Settings {
    /// Time after which a silent agent has certainly ended its processes. Its lease began before
    /// the manager noticed the silence, and clock speeds may differ by a tenth.
    #[must_use]
    pub const fn patience_ms(&self) -> u64 {
        self.lease_ms + self.lease_ms / 10 + 100
    }
}

/// Relates an answer to its request.
pub type Ticket = u64;

/// Identifies a connection of an agent; never reused.
pub type Connection = u64;

/// The state of a process, as reported by its agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessState {
    /// The process.
    pub task: TaskId,
    /// How it ended; `None` if it runs.
    pub exit: Option<Exit>,
}

/// The limits of a tenant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Quota {
    /// Most jobs that wait or run.
    pub jobs: Option<u32>,
    /// Highest value of a job; `None` for that of [`Settings::max_value`].
    pub max_value: Option<f64>,
}

/// An event for the manager.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A client submits a job, within the limits of its tenant.
    Submit(Ticket, Box<Request>, Quota),
    /// A client cancels a job.
    Cancel(Ticket, u32),
    /// An agent has registered.
    Registered {
        /// Its current connection.
        connection: Connection,
        /// Its server.
        server: String,
        /// Its life: a new number at each start of the agent.
        incarnation: u64,
        /// All running processes, and those that ended without an acknowledgement.
        processes: Vec<ProcessState>,
    },
    /// An agent reports the state of a process.
    Reported(Connection, ProcessState),
    /// A connection of an agent was closed.
    Disconnected(Connection),
    /// The switches serve a job.
    Admitted {
        /// The job's number in packets.
        wire: u16,
        /// The run that they serve.
        epoch: u32,
        /// The host of the parameter server, if there is one.
        ps: Option<String>,
    },
    /// The switches refused a job.
    Refused {
        /// The job's number in packets.
        wire: u16,
        /// The reason.
        reason: String,
        /// Whether they may accept it later.
        passing: bool,
    },
    /// The switches do not serve this job, or no longer.
    Released(u16),
    /// All jobs that the switches serve.
    Serving(BTreeSet<u16>),
    /// Why the switches' controller does not answer; `None` if it does again.
    Controller(Option<String>),
    /// The switches do not serve a job yet, and are asked again.
    Delayed {
        /// The job's number in packets.
        wire: u16,
        /// The reason.
        reason: String,
    },
}

/// An action requested by the manager.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Record these changes, all or none, before any other action.
    Record(Vec<Change>),
    /// Answer a request: the job's number, or the reason for a refusal.
    Answer(Ticket, Result<u32, Refusal>),
    /// Send a command to an agent.
    Send(Connection, Command),
    /// Dismiss an agent, with the reason.
    Dismiss(Connection, Dismissal),
    /// Let the switches serve a job.
    Admit(Admission),
    /// Let the switches release a job.
    Release(u16),
}

/// Why an agent is dismissed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Dismissal {
    /// There is no such server.
    #[error("the manager has no server `{0}`; name one of its site file")]
    NoSuchServer(String),
    /// Another agent has registered for the server. It is presumed alive; if it is not, that will
    /// be detected soon.
    #[error("another agent is registered for server `{0}`")]
    Taken(String),
    /// The agent has registered again.
    #[error("the agent has a newer connection")]
    Newer,
}

/// A command to an agent.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// The registration was accepted.
    Welcome,
    /// Start a process of this job, unless it was started before.
    Start(TaskId, Box<Record>),
    /// End a process.
    Stop(TaskId),
    /// The end of a process is recorded, so the agent can forget it.
    Acknowledge(TaskId),
}

/// The admission of a job to the switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Its number in packets.
    pub wire: u16,
    /// Its name.
    pub name: String,
    /// Whose job it is.
    pub tenant: Option<String>,
    /// Hosts of the workers, by index.
    pub workers: Vec<String>,
    /// Host of the parameter server; `None` if the job needs none, or the controller chooses one.
    pub ps: Option<String>,
    /// Whether switches only forward.
    pub at_server: bool,
    /// The run, if it has already begun because its processes exist.
    pub epoch: Option<u32>,
    /// Most bits of values per second that each worker sends.
    pub max_rate: Option<NonZeroU64>,
    /// The table `[job]` of a job file: which switches add, and what its workers sum.
    pub settings: String,
    /// What its workers show.
    pub key: Token,
}

/// Why a request is refused. The state is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// There is no such job.
    #[error("there is no job {0}, or it was over long ago")]
    Unknown(u32),
    /// Another request has the same key.
    #[error("job {0} was submitted with the same key and is another one; choose another key")]
    Taken(u32),
    /// The job is over or about to end.
    #[error("job {0} is {1}")]
    Over(u32, &'static str),
    /// A worker's output cannot be read now.
    #[error("{0}")]
    NoLog(String),
    /// The tenant has all jobs that it may have.
    #[error("tenant `{tenant}` has as many jobs that wait or run as it may have: {most}")]
    Quota {
        /// Its name.
        tenant: String,
        /// The most jobs.
        most: u32,
    },
}

/// The manager.
pub struct Manager {
    site: Site,
    settings: Settings,
    policy: Box<dyn Policy>,
    /// Draws a key for an attempt.
    draw: fn() -> Token,
    durable: Durable,
    agents: BTreeMap<String, Agent>,
    network: NetworkState,
    /// All jobs that the switches serve, according to their last report.
    served: BTreeSet<u16>,
    /// Numbers for which the switches served an unrecorded job, and how it was handled.
    strangers: BTreeMap<u16, Stranger>,
    /// By job that waits: why the last round did not place it.
    waits: BTreeMap<u32, Wait>,
    /// By job that a round of this manager has placed: the plans that the policy weighed for it.
    weighed: BTreeMap<u32, Vec<v1::WeighedPlan>>,
    next_round_ms: u64,
    /// The time of the current step.
    now_ms: u64,
    changes: Vec<Change>,
    outbox: Vec<Action>,
}

/// What is known of the switches and their controller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkState {
    /// Numbers in packets of the manager's jobs that the switches serve.
    pub admitted: BTreeSet<u16>,
    /// Why the controller does not answer.
    pub problem: Option<String>,
    /// By number in packets: why the switches do not serve a job yet.
    pub delayed: BTreeMap<u16, String>,
    /// Whether the controller has told which jobs the switches serve, since this manager was started.
    pub heard: bool,
}

impl NetworkState {
    fn forget(&mut self, wire: u16) {
        self.admitted.remove(&wire);
        self.delayed.remove(&wire);
    }

    /// What an attempt waits for; `None` for nothing.
    pub(crate) fn waits(&self, run: &Run) -> Option<String> {
        let wire = run.wire.filter(|wire| !self.admitted.contains(wire))?;
        let begun = run.epoch.is_some();
        match (&self.problem, self.delayed.get(&wire)) {
            // Its processes may run.
            (Some(why), _) if begun => Some(format!("the switches' controller: {why}")),
            (Some(why), _) => {
                Some(format!("the switches do not serve it yet; their controller: {why}"))
            }
            (None, Some(why)) => Some(format!("the switches do not serve it yet: {why}")),
            (None, None) if begun && !self.heard => None,
            (None, None) if begun => Some("the switches no longer serve it".to_owned()),
            (None, None) => Some("the switches do not serve it yet".to_owned()),
        }
    }
}

/// A job that the switches serve and that is not recorded. It is released once, because it may stem
/// from a lost database. If it is admitted again, another manager or client of the controller did
/// that; repeated releases would keep both busy forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stranger {
    /// Its release was requested.
    Asked,
    /// It was released.
    Released,
    /// It was admitted again, was reported, and is ignored.
    LeftAlone,
}

/// The state of a server's agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Agent {
    /// It is connected.
    Here { connection: Connection, incarnation: u64 },
    /// It has been disconnected since this time.
    Away { since_ms: u64 },
    /// It is disconnected, and its processes have ended.
    Gone,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("durable", &self.durable)
            .field("agents", &self.agents)
            .field("network", &self.network)
            .field("strangers", &self.strangers)
            .field("next_round_ms", &self.next_round_ms)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// Creates a manager that continues from the recorded state. Its first actions are those that
    /// its predecessor may not have carried out. `draw` draws the keys of attempts.
    #[must_use]
    pub fn start(
        site: Site,
        settings: Settings,
        policy: Box<dyn Policy>,
        draw: fn() -> Token,
        durable: Durable,
        now_ms: u64,
    ) -> (Self, Vec<Action>) {
        // Agents that are alive reconnect within their lease.
        let away = |name: &str| (name.to_owned(), Agent::Away { since_ms: now_ms });
        let mut agents: BTreeMap<_, _> = site.servers().map(|server| away(&server.name)).collect();
        for run in durable.jobs.values().filter_map(|record| record.phase.run()) {
            agents.extend(run.tasks.iter().map(|task| away(&task.server)));
        }
        let mut manager = Self {
            site,
            settings,
            policy,
            draw,
            durable,
            agents,
            network: NetworkState::default(),
            served: BTreeSet::new(),
            strangers: BTreeMap::new(),
            waits: BTreeMap::new(),
            weighed: BTreeMap::new(),
            next_round_ms: now_ms + settings.period_ms,
            now_ms,
            changes: Vec::new(),
            outbox: Vec::new(),
        };
        manager.resume();
        let actions = manager.actions();
        (manager, actions)
    }

    /// The persistent state, including changes that the actions of the last step will record.
    #[must_use]
    pub const fn durable(&self) -> &Durable {
        &self.durable
    }

    /// By job that waits: why the last round did not place it.
    #[must_use]
    pub const fn waits(&self) -> &BTreeMap<u32, Wait> {
        &self.waits
    }

    /// What is known of the switches.
    #[must_use]
    pub const fn network(&self) -> &NetworkState {
        &self.network
    }

    /// Whether a server's agent is connected.
    #[must_use]
    pub fn is_here(&self, server: &str) -> bool {
        matches!(self.agents.get(server), Some(Agent::Here { .. }))
    }

    /// The process of a worker in the last attempt of its job, with its server and the connection of that server's
    /// agent, which has what the worker's command has written.
    ///
    /// # Errors
    ///
    /// If there is no such worker, it has no command, the agent is away, or the attempt's processes have not been
    /// started: then the server may have the output of an attempt of the same name, of a database that was lost.
    pub fn writer(&self, job: u32, worker: u32) -> Result<(TaskId, &str, Connection), Refusal> {
        let record = self.durable.jobs.get(&job).ok_or(Refusal::Unknown(job))?;
        if record.request.command.is_empty() {
            let why = "runs no command; its agents log the output of its workers";
            return Err(Refusal::Invalid(format!("job {job} {why}")));
        }
        let not_yet = |why: String| Err(Refusal::NoLog(format!("job {job} {why}")));
        if record.attempts == 0 {
            return not_yet("has not been placed yet".to_owned());
        }
        let place = u8::try_from(worker).ok().and_then(|id| Some((id, record.server(id)?)));
        let Some((id, server)) = place else {
            return Err(Refusal::Invalid(format!("job {job} has no worker {worker}")));
        };
        if record.phase.run().is_some_and(|run| run.wire.is_some() && run.epoch.is_none()) {
            return not_yet("has not started: the switches do not serve it yet".to_owned());
        }
        match self.agents.get(server) {
            Some(&Agent::Here { connection, .. }) => Ok((record.task(id), server, connection)),
            _ => not_yet(format!("has this worker on {server}, whose agent is away")),
        }
    }

    /// Handles an event and returns the resulting actions.
    pub fn handle(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        self.now_ms = now_ms;
        match event {
            Event::Submit(ticket, request, quota) => {
                let answer = self.submit(now_ms, *request, quota);
                if let Err(refusal) = &answer {
                    tracing::info!(target: DECISIONS, "refused a job: {refusal}");
                }
                self.outbox.push(Action::Answer(ticket, answer));
            }
            Event::Cancel(ticket, job) => {
                let answer = self.cancel(job);
                self.outbox.push(Action::Answer(ticket, answer));
            }
            Event::Registered { connection, server, incarnation, processes } => {
                self.registered(connection, &server, incarnation, processes);
            }
            Event::Reported(connection, process) => self.reported(connection, process),
            Event::Disconnected(connection) => self.disconnected(now_ms, connection),
            Event::Admitted { wire, epoch, ps } => self.on_admitted(wire, epoch, ps),
            Event::Refused { wire, reason, passing } => {
                self.on_refused(wire, reason, passing);
            }
            Event::Released(wire) => self.on_released(wire),
            Event::Serving(wires) => self.on_serving(wires),
            Event::Controller(problem) => self.network.problem = problem,
            Event::Delayed { wire, reason } => {
                self.network.delayed.insert(wire, reason);
            }
        }
        self.actions()
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> u64 {
        let patience = self.settings.patience_ms();
        let leases = self.agents.values().filter_map(|agent| match agent {
            Agent::Away { since_ms } => Some(since_ms + patience),
            _ => None,
        });
        leases.chain([self.next_round_ms]).min().expect("there is always a next round")
    }

    /// Handles the passing of time and returns the resulting actions.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Vec<Action> {
        self.now_ms = now_ms;
        let patience = self.settings.patience_ms();
        let over: Vec<String> = self
            .agents
            .iter()
            .filter(|(_, agent)| {
                matches!(agent, Agent::Away { since_ms } if since_ms + patience <= now_ms)
            })
            .map(|(server, _)| server.clone())
            .collect();
        for server in over {
            self.lease_over(&server);
        }
        if now_ms >= self.next_round_ms {
            self.next_round_ms = now_ms + self.settings.period_ms;
            self.round(now_ms);
        }
        self.actions()
    }

    fn submit(&mut self, now_ms: u64, request: Request, quota: Quota) -> Result<u32, Refusal> {
        let is_own = |record: &&Record| record.request.tenant == request.tenant;
        let same_key = |record: &&Record| {
            !request.key.is_empty() && record.request.key == request.key && is_own(record)
        };
        if let Some(known) = self.durable.jobs.values().find(same_key) {
            let same = known.request == request;
            return if same { Ok(known.id) } else { Err(Refusal::Taken(known.id)) };
        }
        self.site.check(&request).map_err(Refusal::Invalid)?;
        let most = quota.max_value.unwrap_or(self.settings.max_value);
        if request.value > most {
            let (value, tenant) = (request.value, request.tenant.as_deref());
            let of = tenant.map(|tenant| format!(" for tenant `{tenant}`")).unwrap_or_default();
            let why = format!("a value of {value:e}: choose at most {most}{of}");
            return Err(Refusal::Invalid(why));
        }
        let alive = |record: &&Record| is_own(record) && !record.phase.is_over();
        let has = self.durable.jobs.values().filter(alive).count();
        if let Some(most) = quota.jobs.filter(|most| has >= *most as usize) {
            let tenant = request.tenant.unwrap_or_default();
            return Err(Refusal::Quota { tenant, most });
        }
        let mut counters = self.durable.counters;
        counters.job += 1;
        self.change(Change::Counters(counters));
        let record = Record {
            id: counters.job,
            request,
            submitted_ms: now_ms,
            attempts: 0,
            failures: 0,
            setback: None,
            phase: Phase::Waiting,
            servers: Vec::new(),
            history: Vec::new(),
        };
        self.put(record);
        Ok(counters.job)
    }

    fn cancel(&mut self, job: u32) -> Result<u32, Refusal> {
        let record = self.durable.jobs.get(&job).ok_or(Refusal::Unknown(job))?;
        match &record.phase {
            Phase::Finished(_) => return Err(Refusal::Over(job, "finished")),
            Phase::Failed(_) => return Err(Refusal::Over(job, "given up")),
            Phase::Cancelled => return Err(Refusal::Over(job, "cancelled already")),
            Phase::Ending(_, crate::job::Cause::Finished) => {
                return Err(Refusal::Over(job, "done with its iterations"));
            }
            Phase::Waiting => {
                let record = Record { phase: Phase::Cancelled, ..record.clone() };
                self.put(record);
                self.forget_old();
            }
            Phase::Running(_) | Phase::Ending(..) => {
                self.end_attempt(job, crate::job::Cause::Cancelled);
            }
        }
        Ok(job)
    }

    /// Applies a change, which is recorded before anything of this step is sent.
    fn change(&mut self, change: Change) {
        self.durable.apply(&change);
        self.changes.push(change);
    }

    /// Replaces a record, and logs a new phase, which becomes a part of the job's history.
    fn put(&mut self, mut record: Record) {
        let before = self.durable.jobs.get(&record.id).map(|record| discriminant(&record.phase));
        if before != Some(discriminant(&record.phase))
            && let Some(progress) = progress(&record)
        {
            let Record { id: job, request: Request { name, tenant, .. }, .. } = &record;
            let tenant = tenant.as_deref();
            tracing::info!(target: DECISIONS, job, name, tenant, "{progress}");
            // The end of an attempt has the reason.
            let what = match record.phase {
                Phase::Waiting if record.attempts > 0 => "waits again",
                Phase::Failed(_) if record.attempts > 0 => "failed",
                _ => &progress,
            };
            record.note(self.now_ms, what);
        }
        self.change(Change::Job(Box::new(record)));
    }

    /// Removes the oldest of the jobs that are over, if there are too many.
    fn forget_old(&mut self) {
        let over = self.durable.jobs.values().filter(|record| record.phase.is_over());
        let over: Vec<u32> = over.map(|record| record.id).collect();
        let surplus = over.len().saturating_sub(self.settings.kept);
        for &job in &over[..surplus] {
            self.change(Change::Forget(job));
        }
    }

    /// Sends a command to a server's agent, if it is connected in that life.
    fn send(&mut self, server: &str, life: u64, command: Command) {
        if let Some(&Agent::Here { connection, incarnation }) = self.agents.get(server)
            && incarnation == life
        {
            self.outbox.push(Action::Send(connection, command));
        }
    }

    /// The actions of this step.
    fn actions(&mut self) -> Vec<Action> {
        let changes = std::mem::take(&mut self.changes);
        let record = (!changes.is_empty()).then_some(Action::Record(changes));
        record.into_iter().chain(std::mem::take(&mut self.outbox)).collect()
    }
}

/// The new phase of a job, for the log. The round that starts an attempt logs it, with what it knows of it.
fn progress(record: &Record) -> Option<String> {
    Some(match &record.phase {
        Phase::Waiting => match &record.setback {
            Some(why) => format!("waits again: {why}"),
            None => {
                let Request { gpus, value, .. } = record.request;
                format!("accepted: {}, value {value}", counted(gpus as usize, "GPU"))
            }
        },
        Phase::Running(_) => return None,
        Phase::Ending(run, cause) => format!("attempt {} ends: {cause}", run.attempt),
        Phase::Finished(_) => "finished".to_owned(),
        Phase::Failed(why) => format!("failed: {why}"),
        Phase::Cancelled => "cancelled".to_owned(),
    })
}
