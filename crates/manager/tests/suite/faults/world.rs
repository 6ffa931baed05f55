//! A manager, its database, agents with processes, and switches, in one thread and in virtual time.
//!
//! Every component can fail at any point: the manager dies before or after any of its actions, an
//! agent dies with its processes, a connection breaks and loses the messages in flight. After each
//! step the world checks the invariants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_manager::agent::{Effect, Tasks};
use tributary_manager::durable::{Durable, Store};
use tributary_manager::job::{Exit, Outcome, Phase, Record, Request, TaskId};
use tributary_manager::manager::{
    Action, Command, Connection, Event, Manager, ProcessState, Quota, Refusal, Settings,
};
use tributary_manager::site::Site;
use tributary_wire::channel::{TOKEN_LEN, Token};

use crate::first_fit::FirstFit;

pub(crate) const SETTINGS: Settings =
    Settings { period_ms: 100, lease_ms: 1_000, ageing: 1.0, kept: 100, max_value: 1_000.0 };

/// The key of every attempt.
const KEY: Token = Token([7; TOKEN_LEN]);

const NETWORK: &str = "[topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 1\n";

/// Three servers of two GPUs.
pub(crate) fn site() -> Site {
    let servers: String =
        (1..=3).map(|n| format!("[[server]]\nhost = \"w{n}\"\ngpus = 2\n")).collect();
    Site::parse(&format!("network = \"network.toml\"\n{servers}"), NETWORK).unwrap()
}

pub(crate) fn request(key: &str, gpus: u32) -> Request {
    Request {
        key: key.into(),
        name: format!("job-{key}"),
        model: "test".into(),
        gpus,
        value: 1.0,
        iterations: 3,
        compute_us: 10,
        gradient_bytes: 400,
        retries: 0,
        command: Vec::new(),
        directory: String::new(),
        tenant: None,
        max_rate: None,
    }
}

/// An in-memory database that survives the manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct InMemory(pub(crate) Durable);

impl Store for InMemory {
    type Error = std::convert::Infallible;

    fn load(&self) -> Result<Durable, Self::Error> {
        Ok(self.0.clone())
    }

    fn commit(
        &mut self,
        changes: &[tributary_manager::durable::Change],
    ) -> Result<(), Self::Error> {
        changes.iter().for_each(|change| self.0.apply(change));
        Ok(())
    }
}

/// A message in flight to an agent.
#[derive(Clone, Debug)]
enum ToAgent {
    Command(Command),
    /// The connection is broken.
    End,
}

/// A message in flight to the manager.
#[derive(Clone, Debug)]
enum ToManager {
    Register(u64, Vec<ProcessState>),
    Report(ProcessState),
}

#[derive(Debug, Default)]
struct Host {
    alive: bool,
    incarnation: u64,
    tasks: Tasks,
    /// Running processes, and whether they were told to end.
    processes: BTreeMap<TaskId, bool>,
    connection: Option<Connection>,
    /// Whether the manager knows the peer of the connection.
    registered: bool,
    inbox: VecDeque<ToAgent>,
    outbox: VecDeque<ToManager>,
    /// End of the time for which it keeps its processes without contact.
    lease_ms: u64,
    /// End of the time in which it cannot connect.
    isolated_ms: u64,
}

/// A point in the manager's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(pub(crate) usize);

/// A possible next event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// An agent without a connection connects.
    Connect(String),
    /// The manager receives an agent's next message.
    Up(String),
    /// An agent receives the manager's next message.
    Down(String),
    /// The switches carry out the next request.
    Switch,
    /// The manager receives the result.
    Heard,
    /// A process ends.
    End(String, TaskId),
    /// Time advances to the next timeout.
    Time,
}

pub(crate) struct World<S> {
    pub(crate) store: S,
    manager: Option<Manager>,
    now_ms: u64,
    hosts: BTreeMap<String, Host>,
    connections: u64,
    incarnations: u64,
    serving: BTreeMap<u16, Vec<String>>,
    last_epoch: u32,
    /// The job and attempt for which each epoch was assigned.
    epochs: BTreeMap<u32, (u32, u32)>,
    wishes: VecDeque<Action>,
    answers: VecDeque<Event>,
    /// Unanswered requests by ticket, and the answers.
    asked: BTreeMap<u64, Request>,
    pub(crate) answered: BTreeMap<u64, u32>,
    /// Number of times that each process was started.
    started: BTreeMap<TaskId, u32>,
    /// Processes that completed.
    ended_well: BTreeSet<TaskId>,
    gpus: BTreeMap<TaskId, u32>,
    /// Workers of an attempt, by job and attempt.
    attempts: BTreeMap<(u32, u32), BTreeSet<u8>>,
    /// The current point, and the points at which the manager dies.
    pub(crate) moment: Moment,
    pub(crate) crashes: VecDeque<Moment>,
    pub(crate) log: Vec<String>,
}

impl Host {
    /// Whether the manager answers its heartbeats, which extends its lease. A connection alone does
    /// not suffice: a manager that has not received the registration counts from an earlier time.
    fn is_heard(&self) -> bool {
        self.connection.is_some()
            && self.registered
            && !matches!(self.inbox.back(), Some(ToAgent::End))
    }
}

impl<S: Store> World<S> {
    pub(crate) fn new(store: S) -> Self {
        let mut world = Self {
            store,
            manager: None,
            now_ms: 1_000_000,
            hosts: BTreeMap::new(),
            connections: 0,
            incarnations: 0,
            serving: BTreeMap::new(),
            last_epoch: 0,
            epochs: BTreeMap::new(),
            wishes: VecDeque::new(),
            answers: VecDeque::new(),
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            started: BTreeMap::new(),
            ended_well: BTreeSet::new(),
            gpus: BTreeMap::new(),
            attempts: BTreeMap::new(),
            moment: Moment(0),
            crashes: VecDeque::new(),
            log: Vec::new(),
        };
        for name in ["w1", "w2", "w3"] {
            world.hosts.insert(name.into(), Host::default());
            world.start_agent(name);
        }
        world
    }

    fn note(&mut self, what: impl Into<String>) {
        self.log.push(format!("{} {}", self.now_ms, what.into()));
    }

    /// Starts the manager if it is not running.
    pub(crate) fn start_manager(&mut self) {
        if self.manager.is_some() {
            return;
        }
        self.note("the manager starts");
        let durable = self.store.load().unwrap();
        let (manager, actions) =
            Manager::start(site(), SETTINGS, Box::new(FirstFit), || KEY, durable, self.now_ms);
        self.manager = Some(manager);
        // The client of the switches first lists the served jobs.
        let serving = Event::Serving(self.serving.keys().copied().collect());
        self.execute(actions);
        self.handle(serving);
    }

    /// Kills the manager, as kill -9 does.
    pub(crate) fn kill_manager(&mut self) {
        if self.manager.take().is_none() {
            return;
        }
        self.note("the manager dies");
        self.wishes.clear();
        self.answers.clear();
        for host in self.hosts.values_mut() {
            if host.connection.is_some() {
                host.inbox.push_back(ToAgent::End);
                host.outbox.clear();
            }
        }
    }

    /// Kills an agent together with its processes.
    pub(crate) fn kill_agent(&mut self, name: &str) {
        self.note(format!("the agent of {name} dies"));
        let host = self.hosts.get_mut(name).unwrap();
        let connection = host.connection;
        let incarnation = host.incarnation;
        *host = Host { incarnation, ..Host::default() };
        if let Some(connection) = connection {
            self.handle(Event::Disconnected(connection));
        }
    }

    pub(crate) fn start_agent(&mut self, name: &str) {
        self.incarnations += 1;
        let host = self.hosts.get_mut(name).unwrap();
        if !host.alive {
            *host = Host { alive: true, incarnation: self.incarnations, ..Host::default() };
        }
    }

    /// Breaks a connection. Messages in flight to the manager are lost, and those to the agent may
    /// still arrive.
    pub(crate) fn cut(&mut self, name: &str) {
        let host = self.hosts.get_mut(name).unwrap();
        let Some(connection) = host.connection else { return };
        host.inbox.push_back(ToAgent::End);
        host.outbox.clear();
        self.note(format!("the connection of {name} breaks"));
        self.handle(Event::Disconnected(connection));
    }

    /// Breaks a connection for longer than a lease.
    pub(crate) fn isolate(&mut self, name: &str) {
        let until_ms = self.now_ms + 2 * SETTINGS.lease_ms;
        self.hosts.get_mut(name).unwrap().isolated_ms = until_ms;
        self.cut(name);
    }

    /// The controller of the switches loses its state.
    pub(crate) fn wipe_switches(&mut self) {
        self.note("the controller starts again");
        self.serving.clear();
        self.answers.push_back(Event::Serving(BTreeSet::new()));
    }

    pub(crate) fn submit(&mut self, ticket: u64, request: Request) {
        self.asked.insert(ticket, request.clone());
        self.handle(Event::Submit(ticket, Box::new(request), Quota::default()));
    }

    pub(crate) fn cancel(&mut self, job: u32) {
        self.handle(Event::Cancel(0, job));
    }

    fn handle(&mut self, event: Event) {
        let Some(manager) = &mut self.manager else { return };
        let now_ms = self.now_ms;
        let actions = manager.handle(now_ms, event);
        self.execute(actions);
    }

    /// Carries out a step's actions, up to the point at which the manager dies.
    fn execute(&mut self, actions: Vec<Action>) {
        for action in actions {
            if self.dies_here() {
                return;
            }
            self.perform(action);
            if self.dies_here() {
                return;
            }
        }
        if let Some(manager) = &self.manager {
            assert_eq!(self.store.load().unwrap(), *manager.durable(), "{:#?}", self.log);
        }
    }

    fn dies_here(&mut self) -> bool {
        self.moment.0 += 1;
        if self.crashes.front() != Some(&self.moment) {
            return false;
        }
        self.crashes.pop_front();
        self.kill_manager();
        true
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Record(changes) => self.store.commit(&changes).unwrap(),
            Action::Answer(ticket, Ok(job)) => {
                if self.asked.remove(&ticket).is_some() {
                    self.answered.insert(ticket, job);
                }
            }
            Action::Answer(_, Err(Refusal::Over(..) | Refusal::Unknown(_))) => {}
            Action::Answer(_, Err(refusal)) => panic!("{refusal}"),
            Action::Send(connection, command) => {
                self.note(format!("to {connection}: {command:.60?}"));
                if let Some(host) = self.on(connection) {
                    host.inbox.push_back(ToAgent::Command(command));
                }
            }
            Action::Dismiss(connection, _) => {
                if let Some(host) = self.on(connection) {
                    host.inbox.push_back(ToAgent::End);
                    host.outbox.clear();
                }
            }
            Action::Admit(_) | Action::Release(_) => self.wishes.push_back(action),
        }
    }

    fn on(&mut self, connection: Connection) -> Option<&mut Host> {
        self.hosts.values_mut().find(|host| host.connection == Some(connection))
    }

    /// All events that are possible without a fault; time comes last.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (name, host) in &self.hosts {
            let connects = host.alive && host.isolated_ms <= self.now_ms;
            if connects && host.connection.is_none() && self.manager.is_some() {
                choices.push(Choice::Connect(name.clone()));
            }
            if !host.outbox.is_empty() {
                choices.push(Choice::Up(name.clone()));
            }
            if !host.inbox.is_empty() {
                choices.push(Choice::Down(name.clone()));
            }
            for (&task, &told) in &host.processes {
                if told || self.can_finish(task) {
                    choices.push(Choice::End(name.clone(), task));
                }
            }
        }
        if !self.wishes.is_empty() {
            choices.push(Choice::Switch);
        }
        if !self.answers.is_empty() {
            choices.push(Choice::Heard);
        }
        choices.push(Choice::Time);
        choices
    }

    /// A worker has all its sums only if all others have taken part.
    fn can_finish(&self, task: TaskId) -> bool {
        let Some(workers) = self.attempts.get(&(task.job, task.attempt)) else { return false };
        let there = |&worker: &u8| {
            let id = TaskId { worker, ..task };
            let runs = self.hosts.values().any(|host| host.processes.contains_key(&id));
            runs || self.ended_well.contains(&id)
        };
        workers.iter().all(there)
    }

    pub(crate) fn step(&mut self, choice: Choice) {
        match choice {
            Choice::Connect(name) => self.connect(&name),
            Choice::Up(name) => self.up(&name),
            Choice::Down(name) => self.down(&name),
            Choice::Switch => self.switch(),
            Choice::Heard => {
                if let Some(event) = self.answers.pop_front() {
                    self.handle(event);
                }
            }
            Choice::End(name, task) => self.end(&name, task),
            Choice::Time => self.time(),
        }
        self.check();
    }

    fn connect(&mut self, name: &str) {
        self.connections += 1;
        let host = self.hosts.get_mut(name).unwrap();
        host.connection = Some(self.connections);
        host.registered = false;
        host.outbox = [ToManager::Register(host.incarnation, host.tasks.processes())].into();
    }

    fn up(&mut self, name: &str) {
        let host = self.hosts.get_mut(name).unwrap();
        let (Some(message), Some(connection)) = (host.outbox.pop_front(), host.connection) else {
            return;
        };
        let event = match message {
            ToManager::Register(incarnation, processes) => {
                host.registered = true;
                host.lease_ms = self.now_ms + SETTINGS.lease_ms;
                Event::Registered { connection, server: name.into(), incarnation, processes }
            }
            ToManager::Report(process) => Event::Reported(connection, process),
        };
        self.handle(event);
    }

    fn down(&mut self, name: &str) {
        let host = self.hosts.get_mut(name).unwrap();
        let effects = match host.inbox.pop_front() {
            None => return,
            Some(ToAgent::End) => {
                host.connection = None;
                host.outbox.clear();
                host.inbox.clear();
                return;
            }
            Some(ToAgent::Command(command)) => match command {
                Command::Welcome => Vec::new(),
                Command::Start(..) if host.lease_ms <= self.now_ms => {
                    // The message is too old: the agent breaks the connection and receives the
                    // state again.
                    host.inbox = [ToAgent::End].into();
                    let connection = host.connection.expect("it is told something");
                    return self.handle(Event::Disconnected(connection));
                }
                Command::Start(task, record) => {
                    let effects = host.tasks.start(task);
                    self.attempt(task, &record);
                    effects
                }
                Command::Stop(task) => host.tasks.stop(task),
                Command::Acknowledge(task) => {
                    host.tasks.acknowledge(task);
                    Vec::new()
                }
            },
        };
        self.carry_out(name, effects);
    }

    fn attempt(&mut self, task: TaskId, record: &Record) {
        let run = record.phase.run().expect("it is started because it runs");
        assert_eq!(run.attempt, task.attempt);
        if run.wire.is_some() {
            let epoch = run.epoch.expect("the switches serve it");
            let other = self.epochs.insert(epoch, (task.job, task.attempt));
            assert!(other.is_none_or(|other| other == (task.job, task.attempt)), "epoch {epoch}");
        }
        let mine = run.tasks.iter().find(|known| known.worker == task.worker).unwrap();
        self.gpus.insert(task, mine.gpus);
        let workers = run.tasks.iter().map(|task| task.worker).collect();
        self.attempts.insert((task.job, task.attempt), workers);
    }

    fn carry_out(&mut self, name: &str, effects: Vec<Effect>) {
        for effect in effects {
            let host = self.hosts.get_mut(name).unwrap();
            match effect {
                Effect::Spawn(task) => {
                    host.processes.insert(task, false);
                    *self.started.entry(task).or_default() += 1;
                    self.note(format!("{name} starts {task}"));
                }
                Effect::Terminate(task) => {
                    if let Some(told) = host.processes.get_mut(&task) {
                        *told = true;
                    }
                }
                Effect::Report(process) if host.connection.is_some() => {
                    host.outbox.push_back(ToManager::Report(process));
                }
                Effect::Report(_) => {}
            }
        }
    }

    fn end(&mut self, name: &str, task: TaskId) {
        let good = self.can_finish(task);
        let host = self.hosts.get_mut(name).unwrap();
        let Some(told) = host.processes.remove(&task) else { return };
        let success = good && !told;
        let failed = Exit::failed("it was told to end");
        let exit = match success {
            true => Exit { outcome: Outcome::Success, ..failed },
            false => failed,
        };
        if success {
            self.ended_well.insert(task);
        }
        let effects = host.tasks.exited(task, exit);
        self.note(format!("{name}: {task} ends, {success}"));
        self.carry_out(name, effects);
    }

    fn switch(&mut self) {
        match self.wishes.pop_front() {
            Some(Action::Admit(admission)) => {
                let mut hosts = admission.workers;
                hosts.extend(admission.ps);
                let known = self.serving.insert(admission.wire, hosts.clone());
                assert!(known.is_none_or(|known| known == hosts), "{:#?}", self.log);
                let epoch = admission.epoch.unwrap_or_else(|| {
                    self.last_epoch += 1;
                    self.last_epoch
                });
                let ps = Some("w3".to_owned());
                self.answers.push_back(Event::Admitted { wire: admission.wire, epoch, ps });
            }
            Some(Action::Release(wire)) => {
                self.serving.remove(&wire);
                self.answers.push_back(Event::Released(wire));
            }
            _ => {}
        }
    }

    /// The manager is down for longer than a lease.
    pub(crate) fn long_night(&mut self) {
        self.kill_manager();
        for _ in 0..64 {
            for name in ["w1", "w2", "w3"] {
                while !self.hosts[name].inbox.is_empty() {
                    self.down(name);
                }
            }
            self.time();
            self.check();
        }
        self.now_ms += 10 * SETTINGS.lease_ms;
    }

    /// Advances to the next timeout.
    fn time(&mut self) {
        let manager = self.manager.as_ref().map(Manager::poll_timeout);
        let silent = |host: &&Host| !host.is_heard() && !host.processes.is_empty();
        let leases = self.hosts.values().filter(silent).map(|host| host.lease_ms);
        let now_ms = self.now_ms;
        let isolated = self.hosts.values().map(|host| host.isolated_ms).filter(|at| *at > now_ms);
        let Some(next) = leases.chain(manager).chain(isolated).min() else { return };
        self.now_ms = self.now_ms.max(next);
        // Agents send heartbeats and receive answers as long as both sides are alive.
        let now_ms = self.now_ms;
        let mut told = Vec::new();
        for (name, host) in &mut self.hosts {
            if host.is_heard() {
                host.lease_ms = now_ms + SETTINGS.lease_ms;
            } else if host.lease_ms <= now_ms {
                for (task, _) in std::mem::take(&mut host.processes) {
                    let lost = Exit::lost("the manager was silent");
                    told.push((name.clone(), host.tasks.exited(task, lost)));
                }
            }
        }
        for (name, effects) in told {
            self.carry_out(&name, effects);
        }
        if let Some(manager) = &mut self.manager
            && manager.poll_timeout() <= now_ms
        {
            let actions = manager.handle_timeout(now_ms);
            self.execute(actions);
        }
    }

    /// Invariants that hold at any time.
    fn check(&self) {
        for (task, &times) in &self.started {
            assert_eq!(times, 1, "{task} was started {times} times: {:#?}", self.log);
        }
        let mut attempts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (name, host) in &self.hosts {
            let used: u32 = host.processes.keys().map(|task| self.gpus[task]).sum();
            assert!(used <= 2, "{used} GPUs of {name} are in use: {:#?}", self.log);
            for task in host.processes.keys() {
                attempts.entry(task.job).or_default().insert(task.attempt);
            }
        }
        for (job, attempts) in attempts {
            assert!(attempts.len() <= 1, "two attempts at job {job}: {:#?}", self.log);
        }
        let stored = self.store.load().unwrap();
        for job in self.answered.values() {
            assert!(stored.jobs.contains_key(job), "job {job} is lost: {:#?}", self.log);
        }
    }

    /// Processes all possible events without further faults, and repeats unanswered requests.
    pub(crate) fn drain(&mut self) {
        for _ in 0..3_000 {
            self.start_manager();
            for name in ["w1", "w2", "w3"] {
                self.start_agent(name);
            }
            for (ticket, request) in self.asked.clone() {
                self.submit(ticket, request);
            }
            let choices = self.choices();
            match choices.iter().find(|choice| **choice != Choice::Time) {
                Some(choice) => self.step(choice.clone()),
                None if self.is_over() => return,
                None => self.step(Choice::Time),
            }
        }
        panic!("it does not come to an end: {:#?}\n{:#?}", self.log, self.manager);
    }

    fn is_over(&self) -> bool {
        let settled = |host: &Host| host.connection.is_some() && host.tasks.processes().is_empty();
        self.asked.is_empty()
            && self.hosts.values().all(settled)
            && self.manager.as_ref().is_some_and(|manager| {
                manager.durable().jobs.values().all(|record| record.phase.is_over())
            })
    }

    /// Invariants at the end: jobs leave nothing but their records.
    pub(crate) fn check_over(&self) {
        assert!(self.serving.is_empty(), "{:?}: {:#?}", self.serving, self.log);
        for host in self.hosts.values() {
            assert!(host.processes.is_empty() && host.tasks.processes().is_empty());
        }
    }

    /// How each job ended, by number.
    pub(crate) fn ends(&self) -> Vec<&'static str> {
        let end = |record: &Record| match record.phase {
            Phase::Finished(_) => "finished",
            Phase::Failed(_) => "failed",
            Phase::Cancelled => "cancelled",
            _ => "not over",
        };
        let manager = self.manager.as_ref().expect("it runs when all is over");
        manager.durable().jobs.values().map(end).collect()
    }

    pub(crate) fn attempts(&self) -> Vec<u32> {
        let manager = self.manager.as_ref().expect("it runs when all is over");
        manager.durable().jobs.values().map(|record| record.attempts).collect()
    }
}
