//! The manager's decisions, without I/O: events and the time go in, actions come out.
//!
//! [`Manager`] is deterministic: it has no clock and no socket, and the same events bring about the
//! same actions. Whoever drives it carries out the actions of a step in their order, and ends the
//! process if one of them cannot be recorded.
//!
//! # What is recorded before what is sent
//!
//! A step has at most one [`Action::Record`], and it is the first. So an answer, a start, a stop or an
//! acknowledgement is only sent when all that led to it is on the disk; and what was recorded but not
//! sent is sent by the manager that is started next, because everything that is sent follows from what
//! is recorded:
//!
//! | sent | follows from | again after a restart | harmless when repeated, as |
//! | --- | --- | --- | --- |
//! | start of a process | the attempt is running, no exit of the process is recorded | yes | agents start a [`TaskId`] once in a life |
//! | stop of a process | the attempt is ending, no exit is recorded | yes | it has ended, or ends |
//! | acknowledgement of an exit | the exit is recorded | when it is reported again | the agent has forgotten it |
//! | admission to the switches | the attempt is running | yes | the number is this attempt's alone |
//! | release from the switches | all processes of an ending attempt have ended | yes | it is not admitted |
//! | answer to a request | the job is recorded | no | requests have a key |
//!
//! `rounds` places jobs, `lives` follows attempts and agents.

mod lives;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};

use tributary_cluster::Policy;

use crate::durable::{Change, Durable};
use crate::job::{Exit, Phase, Record, Request, Role, TaskId};
use crate::site::Site;

/// How the manager is set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Time between two rounds of placement, ms.
    pub period_ms: u64,
    /// How long an agent that nobody hears of keeps its processes, ms.
    pub lease_ms: u64,
    /// Share of its value that a waiting job gains with each round (NetPack §5.2, step 1).
    pub ageing: f64,
    /// Jobs that are over and not forgotten yet, at most.
    pub kept: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { period_ms: 5_000, lease_ms: 60_000, ageing: 1.0, kept: 10_000 }
    }
}

impl Settings {
    /// When an agent that fell silent has certainly ended its processes: its lease began before the
    /// manager noticed, and clocks may differ in speed by a tenth.
    #[must_use]
    pub const fn patience_ms(&self) -> u64 {
        self.lease_ms + self.lease_ms / 10 + 100
    }
}

/// Connects an answer with its question.
pub type Ticket = u64;

/// A connection of an agent; numbers are not used again.
pub type Connection = u64;

/// How a process is, as its agent tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Which.
    pub task: TaskId,
    /// How it ended; `None`: it runs.
    pub exit: Option<Exit>,
}

/// What happens to the manager.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Someone wants a job run.
    Submit(Ticket, Box<Request>),
    /// Someone wants a job not run.
    Cancel(Ticket, u32),
    /// An agent is there.
    Registered {
        /// By which it is reached from now on.
        connection: Connection,
        /// Its server.
        server: String,
        /// Its life: another one after each start of the agent.
        incarnation: u64,
        /// All processes that it runs, and those that ended and whose end was not acknowledged.
        standings: Vec<Standing>,
    },
    /// An agent tells how a process is.
    Reported(Connection, Standing),
    /// Nothing can be sent to an agent any more, nor comes from it.
    Disconnected(Connection),
    /// The switches serve a job.
    Admitted {
        /// The job's number in packets.
        wire: u16,
        /// The run that they serve.
        epoch: u32,
    },
    /// The switches do not serve a job.
    Refused {
        /// The job's number in packets.
        wire: u16,
        /// Why.
        reason: String,
        /// Whether they may later.
        passing: bool,
    },
    /// The switches do not know a job (any more).
    Released(u16),
    /// All jobs that the switches serve.
    Serving(BTreeSet<u16>),
}

/// What the manager wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Record these changes, all or none, before anything else is done.
    Record(Vec<Change>),
    /// Answer a request: the job's number, or why not.
    Answer(Ticket, Result<u32, Refusal>),
    /// Tell an agent something.
    Send(Connection, Command),
    /// Tell an agent that it is not wanted, and why.
    Dismiss(Connection, Dismissal),
    /// Have the switches serve a job.
    Admit(Admission),
    /// Have them forget it.
    Release(u16),
}

/// Why an agent is not wanted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Dismissal {
    /// There is no such server.
    #[error("the manager has no server `{0}`; name one of its site file")]
    NoSuchServer(String),
    /// Another agent has registered. It is alive as far as we know; if it is not, that will be noticed
    /// soon.
    #[error("another agent is registered for server `{0}`")]
    Taken(String),
    /// It has registered again.
    #[error("the agent has a newer connection")]
    Newer,
}

/// What an agent is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// It is registered.
    Welcome,
    /// Start a process of this job, unless it was started before.
    Start(TaskId, Box<Record>),
    /// End a process.
    Stop(TaskId),
    /// The end of a process is recorded: forget it.
    Acknowledge(TaskId),
}

/// A job as switches know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Its number in packets.
    pub wire: u16,
    /// Hosts of the workers, by index.
    pub workers: Vec<String>,
    /// Host of the parameter server.
    pub ps: String,
    /// Whether switches add up, or only forward.
    pub in_network: bool,
    /// The run, if it has begun already: its processes are there.
    pub epoch: Option<u32>,
}

/// Why a request is not met. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No such job.
    #[error("there is no job {0}, or it was over long ago")]
    Unknown(u32),
    /// The key is that of another request.
    #[error("job {0} was submitted with the same key and is another one; choose another key")]
    Taken(u32),
    /// The job is over, or as good as.
    #[error("job {0} is {1}")]
    Over(u32, &'static str),
}

/// The manager.
pub struct Manager {
    site: Site,
    settings: Settings,
    policy: Box<dyn Policy>,
    durable: Durable,
    agents: BTreeMap<String, Agent>,
    /// Jobs of ours that the switches serve, as far as we were told.
    admitted: BTreeSet<u16>,
    /// All jobs that the switches serve, as they were last told.
    served: BTreeSet<u16>,
    /// Numbers that the switches served a job of which is not recorded, and what was done about it.
    strangers: BTreeMap<u16, Stranger>,
    next_round_ms: u64,
    changes: Vec<Change>,
    outbox: Vec<Action>,
}

/// A job that the switches serve and that is not recorded. It is released once, as that of a lost
/// database. If it is admitted again, another manager or another client of the scheduler did that:
/// releasing it again and again would keep both busy for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stranger {
    /// Its release was asked for.
    Asked,
    /// It was released.
    Released,
    /// It was admitted again, is reported, and left alone.
    LeftAlone,
}

/// What is known of a server's agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Agent {
    /// It can be talked to.
    Here { connection: Connection, incarnation: u64 },
    /// It cannot, since then.
    Away { since_ms: u64 },
    /// It cannot, and whatever it ran has ended.
    Gone,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("durable", &self.durable)
            .field("agents", &self.agents)
            .field("admitted", &self.admitted)
            .field("strangers", &self.strangers)
            .field("next_round_ms", &self.next_round_ms)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager that goes on where the last one ended. Its first actions are what that one may not
    /// have come to.
    #[must_use]
    pub fn start(
        site: Site,
        settings: Settings,
        policy: Box<dyn Policy>,
        durable: Durable,
        now_ms: u64,
    ) -> (Self, Vec<Action>) {
        // Whoever is still there comes back within its lease.
        let away = |name: &str| (name.to_owned(), Agent::Away { since_ms: now_ms });
        let mut agents: BTreeMap<_, _> = site.servers().map(|server| away(&server.name)).collect();
        for run in durable.jobs.values().filter_map(|record| record.phase.run()) {
            agents.extend(run.tasks.iter().map(|task| away(&task.server)));
        }
        let mut manager = Self {
            site,
            settings,
            policy,
            durable,
            agents,
            admitted: BTreeSet::new(),
            served: BTreeSet::new(),
            strangers: BTreeMap::new(),
            next_round_ms: now_ms + settings.period_ms,
            changes: Vec::new(),
            outbox: Vec::new(),
        };
        manager.resume();
        let actions = manager.actions();
        (manager, actions)
    }

    /// All that is recorded, or is about to be by the actions of the last step.
    #[must_use]
    pub const fn durable(&self) -> &Durable {
        &self.durable
    }

    /// The servers.
    #[must_use]
    pub const fn site(&self) -> &Site {
        &self.site
    }

    /// Whether a server's agent can be talked to.
    #[must_use]
    pub fn is_here(&self, server: &str) -> bool {
        matches!(self.agents.get(server), Some(Agent::Here { .. }))
    }

    /// What follows from something that happened.
    pub fn handle(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        match event {
            Event::Submit(ticket, request) => {
                let answer = self.submit(now_ms, *request);
                self.outbox.push(Action::Answer(ticket, answer));
            }
            Event::Cancel(ticket, job) => {
                let answer = self.cancel(job);
                self.outbox.push(Action::Answer(ticket, answer));
            }
            Event::Registered { connection, server, incarnation, standings } => {
                self.registered(connection, &server, incarnation, standings);
            }
            Event::Reported(connection, standing) => self.reported(connection, standing),
            Event::Disconnected(connection) => self.disconnected(now_ms, connection),
            Event::Admitted { wire, epoch } => self.on_admitted(wire, epoch),
            Event::Refused { wire, reason, passing } => {
                self.on_refused(wire, reason, passing);
            }
            Event::Released(wire) => self.on_released(wire),
            Event::Serving(wires) => self.on_serving(wires),
        }
        self.actions()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> u64 {
        let patience = self.settings.patience_ms();
        let leases = self.agents.values().filter_map(|agent| match agent {
            Agent::Away { since_ms } => Some(since_ms + patience),
            _ => None,
        });
        leases.chain([self.next_round_ms]).min().expect("there is always a next round")
    }

    /// What follows from the time that it is.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Vec<Action> {
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

    fn submit(&mut self, now_ms: u64, request: Request) -> Result<u32, Refusal> {
        let same_key =
            |record: &&Record| !request.key.is_empty() && record.request.key == request.key;
        if let Some(known) = self.durable.jobs.values().find(same_key) {
            let same = known.request == request;
            return if same { Ok(known.id) } else { Err(Refusal::Taken(known.id)) };
        }
        self.site.check(&request).map_err(Refusal::Invalid)?;
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

    /// Notes a change: it is recorded before anything of this step is sent.
    fn change(&mut self, change: Change) {
        self.durable.apply(&change);
        self.changes.push(change);
    }

    fn put(&mut self, record: Record) {
        self.change(Change::Job(Box::new(record)));
    }

    /// Forgets the oldest of the jobs that are over, if there are too many.
    fn forget_old(&mut self) {
        let over = self.durable.jobs.values().filter(|record| record.phase.is_over());
        let over: Vec<u32> = over.map(|record| record.id).collect();
        let surplus = over.len().saturating_sub(self.settings.kept);
        for &job in &over[..surplus] {
            self.change(Change::Forget(job));
        }
    }

    /// Tells a server's agent something, if it is there in that life.
    fn send(&mut self, server: &str, life: u64, command: Command) {
        if let Some(&Agent::Here { connection, incarnation }) = self.agents.get(server)
            && incarnation == life
        {
            self.outbox.push(Action::Send(connection, command));
        }
    }

    /// What this step came to.
    fn actions(&mut self) -> Vec<Action> {
        let changes = std::mem::take(&mut self.changes);
        let record = (!changes.is_empty()).then_some(Action::Record(changes));
        record.into_iter().chain(std::mem::take(&mut self.outbox)).collect()
    }
}

/// The roles of a job's processes, so many workers and their parameter server.
fn roles(workers: usize, has_ps: bool) -> impl Iterator<Item = Role> {
    let index = |worker| u8::try_from(worker).expect("a job has at most 32 workers");
    let workers = (0..workers).map(move |worker| match has_ps {
        true => Role::Worker(index(worker)),
        false => Role::Alone,
    });
    workers.chain(has_ps.then_some(Role::ParameterServer))
}
