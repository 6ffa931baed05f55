//! An agent and servers in one process.

use std::collections::VecDeque;

use tributary_wire::agg::Packet;
use tributary_wire::channel::{FromWorker, ToWorker};
use tributary_wire::{Flags, JobId, Kind, WorkerIndex};

use super::agent::{Agent, AgentJob, ToPeer};
use super::server::Server;
use crate::server::{Event, PsConfig};
use crate::stats::Rejected;
use crate::{ConfigError, Endpoint, Time, Timing};

/// A reminder agent and the servers of its jobs, wired to each other: what is left outside is the
/// port, and the channel to the workers.
#[derive(Clone, Debug)]
pub struct Together {
    agent: Agent,
    servers: Vec<Server>,
    /// Whose turn to send it is.
    turn: usize,
    messages: VecDeque<(JobId, WorkerIndex, ToWorker)>,
    rejected: Rejected,
}

impl Together {
    /// Without jobs.
    ///
    /// # Errors
    ///
    /// If the timing contradicts itself.
    pub fn new(timing: Timing) -> Result<Self, ConfigError> {
        Ok(Self {
            agent: Agent::new(timing)?,
            servers: Vec::new(),
            turn: 0,
            messages: VecDeque::new(),
            rejected: Rejected::default(),
        })
    }

    /// Takes a job on.
    ///
    /// # Errors
    ///
    /// If its configuration contradicts itself.
    pub fn add_job(&mut self, server: PsConfig, agent: AgentJob) -> Result<(), ConfigError> {
        let server = Server::new(server)?;
        self.agent.add_job(agent)?;
        self.servers.push(server);
        Ok(())
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Frames that were for none of the jobs.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// Takes a message of a worker.
    pub fn handle_worker(
        &mut self,
        now: Time,
        job: JobId,
        worker: WorkerIndex,
        message: FromWorker,
    ) {
        self.agent.handle_worker(now, job, worker, message);
        self.exchange(now);
    }

    /// The next message for a worker.
    pub fn poll_message(&mut self) -> Option<(JobId, WorkerIndex, ToWorker)> {
        self.messages.pop_front()
    }

    /// [`Endpoint::handle_frame`] for a driver that has checked the frame already.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let answer = packet.kind() == Kind::Absent || packet.flags().contains(Flags::RESEND);
        let server = self.servers.iter_mut().find(|s| s.config().job.job == packet.job());
        match server {
            None => self.rejected.other_job += 1,
            Some(_) if answer => self.agent.handle_packet(now, packet),
            Some(server) => server.handle_packet(now, packet),
        }
        self.exchange(now);
    }

    /// Carries messages between agent and servers until there are none.
    fn exchange(&mut self, now: Time) {
        loop {
            let mut quiet = true;
            for server in &mut self.servers {
                while let Some(message) = server.poll_message() {
                    quiet = false;
                    self.agent.handle_server(now, server.config().job.job, message);
                }
            }
            while let Some(message) = self.agent.poll_message() {
                match message {
                    ToPeer::Worker { job, worker, message } => {
                        self.messages.push_back((job, worker, message));
                    }
                    ToPeer::Server { job, message } => {
                        quiet = false;
                        let server = self.servers.iter_mut().find(|s| s.config().job.job == job);
                        if let Some(server) = server {
                            server.handle_message(now, message);
                        }
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }
}

impl Endpoint for Together {
    type Event = (JobId, Event);

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        match Packet::new_checked(frame) {
            Ok(packet) => self.handle_packet(now, &packet),
            Err(error) => self.rejected.count(&error),
        }
    }

    /// Results first, as workers wait for them.
    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        let count = self.servers.len();
        for offset in 0..count {
            let at = (self.turn + offset) % count;
            if self.servers[at].poll_transmit(now, frame) {
                self.turn = (at + 1) % count;
                return true;
            }
        }
        self.agent.poll_transmit(now, frame)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let servers = self.servers.iter().filter_map(Endpoint::poll_timeout).min();
        self.agent.poll_timeout().into_iter().chain(servers).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for server in &mut self.servers {
            server.handle_timeout(now);
        }
        self.agent.handle_timeout(now);
        self.exchange(now);
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.servers.iter_mut().find_map(|server| {
            let job = server.config().job.job;
            Some((job, server.poll_event()?))
        })
    }
}
