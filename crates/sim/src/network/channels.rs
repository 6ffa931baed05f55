//! The reliable channels of a network: connections to agents, and their messages.

use tributary_model::HostId;
use tributary_netio::faults::{Faults, InvalidFaults};
use tributary_protocol::esa::{Backend, ToPeer};
use tributary_wire::channel::{FromServer, FromWorker, Role, ToServer, ToWorker};
use tributary_wire::{JobId, WorkerIndex};

use super::{Event, Network};
use crate::channel::{Channel, ConnectionChange, Pace};
use crate::process::Process;
use crate::trace::{Fate, What, Words};
use tributary_endpoint::driver::tcp::Way;

impl Network {
    /// Connects a worker, or a server outside the agent's process, to the agent of its job. The
    /// channel opens when both ends exist and the handshake is complete, and again after it broke.
    ///
    /// # Errors
    /// If the channel's pace is invalid.
    pub fn connect(
        &mut self,
        job: JobId,
        role: Role,
        client: HostId,
        agent: HostId,
        pace: Pace,
    ) -> Result<(), InvalidFaults> {
        Faults { delay: pace.delay(), ..Faults::default() }.check()?;
        let at = self.channels.len();
        let number = at as u64;
        for host in [client, agent] {
            self.hosts[host.0].channels.push(at);
        }
        self.channels.push(Channel::new(job, role, [client, agent], pace, number, self.stretch));
        self.reconnect(self.channels.len() - 1);
        Ok(())
    }

    /// Breaks the channel of a worker or server; it opens again by itself.
    pub fn cut(&mut self, job: JobId, role: Role) {
        if let Some(at) = self.channel(job, role)
            && self.channels[at].is_begun()
        {
            self.close(at);
            self.reconnect(at);
        }
    }

    /// Sends a message to the agent as if the worker sent it; `false` if the channel is not open.
    pub fn inject_message(
        &mut self,
        job: JobId,
        worker: WorkerIndex,
        message: &FromWorker,
    ) -> bool {
        let Some(at) = self.channel(job, Role::Worker(worker)) else { return false };
        let open = self.channels[at].open;
        if open {
            self.channels[at].send(self.now, Way::Up, message);
            self.expect_message(at);
        }
        open
    }

    /// Number of times that a channel was opened.
    pub fn openings(&self, job: JobId, role: Role) -> u64 {
        self.channel(job, role).map_or(0, |at| self.channels[at].openings)
    }

    fn channel(&self, job: JobId, role: Role) -> Option<usize> {
        self.channels.iter().position(|channel| channel.job == job && channel.role == role)
    }

    fn reconnect(&mut self, at: usize) {
        let delay = u64::try_from(self.channels[at].reconnect().as_nanos()).unwrap_or(u64::MAX);
        self.schedule(self.now.saturating_add(delay), Event::Connect(at));
    }

    /// Opens channels that waited for a new process.
    pub(super) fn reconnect_all(&mut self, host: HostId, job: JobId) {
        for at in 0..self.channels.len() {
            let channel = &self.channels[at];
            if !channel.is_begun()
                && channel.job == job
                && (channel.client == host || channel.agent == host)
            {
                self.reconnect(at);
            }
        }
    }

    /// Closes the channels of a process that ended. They open when it comes back.
    pub(super) fn close_all(&mut self, host: HostId, job: JobId) {
        for at in 0..self.channels.len() {
            let channel = &self.channels[at];
            if channel.job == job && (channel.client == host || channel.agent == host) {
                self.close(at);
            }
        }
    }

    fn close(&mut self, at: usize) {
        let Channel { client, agent, .. } = self.channels[at];
        if self.channels[at].open {
            self.note_between(client, agent, "the connection breaks");
        }
        self.channels[at].cut();
    }

    /// Records one place if the client and its agent are on one host.
    fn note_between(&mut self, client: HostId, agent: HostId, text: &str) {
        if let Some(trace) = &mut self.trace {
            let client = &self.topology.host(client).name;
            let text = format!("{text} to {}", self.topology.host(agent).name);
            trace.push(self.now, client, client, What::Event(text), Fate::Arrived);
        }
    }

    /// Connects a channel if both ends exist.
    pub(super) fn begin(&mut self, at: usize) {
        let Channel { job, role, client, agent, .. } = self.channels[at];
        let has = |host: HostId, wanted: &dyn Fn(&Process) -> bool| {
            self.hosts[host.0].processes.iter().any(|p| p.job() == job && wanted(p))
        };
        let client_there = has(client, &|process| speaks_as(process, role));
        let begun = self.channels[at].is_begun();
        if begun || !client_there || !has(agent, &Process::is_agent) {
            return;
        }
        let channel = &mut self.channels[at];
        let begun = channel.begin(self.now, &self.topology, &self.down, self.luck);
        begun.expect("the faults of links and channels were checked");
        self.expect_message(at);
    }

    /// Tells both ends that the handshake is complete.
    fn opened(&mut self, at: usize) {
        let Channel { job, role, client, agent, .. } = self.channels[at];
        if self.channels[at].openings > 1 {
            self.note_between(client, agent, "connected again");
        }
        for process in &mut self.hosts[client.0].processes {
            match process {
                Process::Worker(its, worker) if *its == job && speaks(worker, role) => {
                    worker.channel_opened();
                }
                Process::Esa(its, backend) if *its == job && role == Role::Server => {
                    backend.agent_opened(job);
                }
                _ => {}
            }
        }
        if role == Role::Server
            && let Some(backend) = self.backend(agent, job)
        {
            backend.server_opened(job);
        }
        self.serve_host(client.0);
        self.serve_host(agent.0);
    }

    /// Processes a channel's connection: messages may have arrived at its ends.
    pub(super) fn progress(&mut self, at: usize) {
        self.channels[at].expected = None;
        let change = self.channels[at].advance(self.now);
        self.disturbed_at = self.disturbed_at.max(self.channels[at].disturbed_at());
        match change {
            ConnectionChange::Opened => self.opened(at),
            ConnectionChange::Broken => {
                self.close(at);
                self.reconnect(at);
                return;
            }
            ConnectionChange::Unchanged => {}
        }
        for way in Way::BOTH {
            self.arrive(at, way);
        }
        self.expect_message(at);
    }

    /// Passes on the messages that have arrived at one end of a channel.
    fn arrive(&mut self, at: usize, way: Way) {
        let Channel { role, client, agent, .. } = self.channels[at];
        let before = self.messages;
        let host = match (way, role) {
            (Way::Up, Role::Worker(worker)) => {
                while let Some(message) = self.take::<FromWorker>(at, way) {
                    self.tell_agent(at, worker, message);
                }
                agent
            }
            (Way::Up, Role::Server) => {
                while let Some(message) = self.take::<FromServer>(at, way) {
                    self.tell_agent_of_server(at, message);
                }
                agent
            }
            (Way::Down, Role::Worker(_)) => {
                while let Some(message) = self.take::<ToWorker>(at, way) {
                    self.tell_worker(at, message);
                }
                client
            }
            (Way::Down, Role::Server) => {
                while let Some(message) = self.take::<ToServer>(at, way) {
                    self.tell_server(at, message);
                }
                client
            }
        };
        if self.messages > before {
            self.serve_host(host.0);
        }
    }

    /// The next message that has arrived, recorded in the trace.
    fn take<M: tributary_wire::channel::Message + Words>(
        &mut self,
        at: usize,
        way: Way,
    ) -> Option<M> {
        let message = self.channels[at].receive::<M>(way)?;
        self.messages += 1;
        if let Some(trace) = &mut self.trace {
            let Channel { job, client, agent, .. } = self.channels[at];
            let client = &self.topology.host(client).name;
            let agent = &self.topology.host(agent).name;
            let (from, to) = if way == Way::Up { (client, agent) } else { (agent, client) };
            let what = What::Message(job, message.words(job));
            trace.push(self.now, from, to, what, Fate::Arrived);
        }
        Some(message)
    }

    fn backend(&mut self, host: HostId, job: JobId) -> Option<&mut Backend> {
        self.hosts[host.0].processes.iter_mut().find_map(|process| process.backend(job))
    }

    fn tell_agent(&mut self, at: usize, worker: WorkerIndex, message: FromWorker) {
        let now = self.now();
        let Channel { job, agent, .. } = self.channels[at];
        if let Some(backend) = self.backend(agent, job) {
            backend.handle_worker(now, job, worker, message);
        }
    }

    fn tell_agent_of_server(&mut self, at: usize, message: FromServer) {
        let now = self.now();
        let Channel { job, agent, .. } = self.channels[at];
        if let Some(backend) = self.backend(agent, job) {
            backend.handle_server(now, job, message);
        }
    }

    fn tell_worker(&mut self, at: usize, message: ToWorker) {
        let now = self.now();
        let Channel { job, role, client, .. } = self.channels[at];
        for process in &mut self.hosts[client.0].processes {
            if let Process::Worker(its, worker) = process
                && *its == job
                && speaks(worker, role)
            {
                return worker.handle_message(now, message);
            }
        }
    }

    fn tell_server(&mut self, at: usize, message: ToServer) {
        let now = self.now();
        let Channel { job, client, .. } = self.channels[at];
        if let Some(backend) = self.backend(client, job) {
            backend.handle_agent(now, job, message);
        }
    }

    /// Sends the messages of a host's endpoints. Messages for disconnected peers are dropped.
    pub(super) fn send_messages(&mut self, host: usize) {
        if self.hosts[host].channels.is_empty() {
            return;
        }
        let now = self.now;
        let node = &mut self.hosts[host];
        let mut ends = Ends { at: &node.channels, channels: &mut self.channels };
        let mut sent = false;
        for process in &mut node.processes {
            match process {
                Process::Worker(job, worker) => {
                    let role = Role::Worker(worker.config().index);
                    let Some(channel) = ends.find_open(*job, role) else { continue };
                    while let Some(message) = worker.poll_message() {
                        channel.send(now, Way::Up, &message);
                        sent = true;
                    }
                }
                Process::Esa(job, backend) => {
                    while let Some(message) = backend.poll_message() {
                        ends.tell_peer(now, &message);
                        sent = true;
                    }
                    let Some(channel) = ends.find_open(*job, Role::Server) else { continue };
                    while let Some(message) = backend.poll_to_agent(*job) {
                        channel.send(now, Way::Up, &message);
                        sent = true;
                    }
                }
                Process::Server(..) => {}
            }
        }
        for at in 0..if sent { self.hosts[host].channels.len() } else { 0 } {
            self.expect_message(self.hosts[host].channels[at]);
        }
    }

    fn expect_message(&mut self, at: usize) {
        self.disturbed_at = self.disturbed_at.max(self.channels[at].disturbed_at());
        let due = self.channels[at].next_due();
        let known = self.channels[at].expected;
        if let Some(due) = due
            && known.is_none_or(|known| due < known)
        {
            self.channels[at].expected = Some(due);
            self.schedule(due.max(self.now), Event::Messages(at));
        }
    }
}

fn speaks_as(process: &Process, role: Role) -> bool {
    match process {
        Process::Worker(_, worker) => speaks(worker, role),
        Process::Esa(job, backend) => role == Role::Server && backend.server(*job).is_some(),
        _ => false,
    }
}

fn speaks(worker: &tributary_protocol::Worker, role: Role) -> bool {
    role == Role::Worker(worker.config().index)
}

/// The channels that end at a host.
struct Ends<'a> {
    at: &'a [usize],
    channels: &'a mut [Channel],
}

impl Ends<'_> {
    /// The channel of an endpoint, if it is open.
    fn find_open(&mut self, job: JobId, role: Role) -> Option<&mut Channel> {
        let is_open =
            |channel: &Channel| channel.open && (channel.job, channel.role) == (job, role);
        let at = self.at.iter().find(|&&at| is_open(&self.channels[at]))?;
        Some(&mut self.channels[*at])
    }

    fn tell_peer(&mut self, now: u64, message: &ToPeer) {
        match message {
            ToPeer::Worker { job, worker, message } => {
                if let Some(channel) = self.find_open(*job, Role::Worker(*worker)) {
                    channel.send(now, Way::Down, message);
                }
            }
            ToPeer::Server { job, message } => {
                if let Some(channel) = self.find_open(*job, Role::Server) {
                    channel.send(now, Way::Down, message);
                }
            }
        }
    }
}
