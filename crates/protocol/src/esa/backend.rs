//! The parameter servers and the reminder agent of one process.

use std::collections::VecDeque;

use tributary_wire::agg::Packet;
use tributary_wire::channel::{FromServer, FromWorker, ToServer};
use tributary_wire::{Flags, JobId, Kind, WorkerIndex};

use super::agent::{self, Agent, AgentJob, ToPeer};
use super::server::{self, Server};
use crate::server::{Event, PsConfig};
use crate::stats::Rejected;
use crate::{ConfigError, Endpoint, Time};

/// Parameter servers and a reminder agent that share a port.
///
/// Each job has its server here, its agent, or both. A server and the agent of the same job exchange
/// messages inside; everything else goes through the reliable channels:
/// [`poll_message`](Self::poll_message) and [`poll_to_agent`](Self::poll_to_agent).
#[derive(Clone, Debug, Default)]
pub struct Backend {
    agent: Agent,
    servers: Vec<Server>,
    /// The server that may send next.
    turn: usize,
    messages: VecDeque<ToPeer>,
    rejected: Rejected,
}

impl Backend {
    /// Adds the parameter server of a job.
    ///
    /// # Errors
    ///
    /// If its configuration contradicts itself.
    pub fn add_server(&mut self, config: PsConfig) -> Result<(), ConfigError> {
        self.servers.push(Server::new(config)?);
        Ok(())
    }

    /// Adds a job to the agent.
    ///
    /// # Errors
    ///
    /// If its configuration contradicts itself.
    pub fn add_agent(&mut self, config: AgentJob) -> Result<(), ConfigError> {
        self.agent.add_job(config)
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.agent.stats().next().is_none()
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server of a job.
    pub fn server(&self, job: JobId) -> Option<&Server> {
        self.servers.iter().find(|server| server.config().job.job == job)
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The jobs, and what their server and their agent have counted, as far as they are here.
    pub fn stats(
        &self,
    ) -> impl Iterator<Item = (JobId, Option<&server::Stats>, Option<&agent::Stats>)> {
        let served = self.servers.iter().map(|server| {
            let job = server.config().job.job;
            (job, Some(server.stats()), self.agent.stats_of(job))
        });
        let apart = self.agent.stats().filter(|(job, _)| self.server(*job).is_none());
        served.chain(apart.map(|(job, stats)| (job, None, Some(stats))))
    }

    /// Frames that were for none of the jobs.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// Takes a message of a worker to the agent.
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

    /// Takes a message of a server in another process to the agent.
    pub fn handle_server(&mut self, now: Time, job: JobId, message: FromServer) {
        self.agent.handle_server(now, job, message);
        self.exchange(now);
    }

    /// Takes a message of an agent in another process to the server of the job.
    pub fn handle_agent(&mut self, now: Time, job: JobId, message: ToServer) {
        if let Some(server) = self.server_mut(job) {
            server.handle_message(now, message);
        }
    }

    /// The channel from the agent to a server in another process was opened, for the first time or
    /// again.
    pub fn server_opened(&mut self, job: JobId) {
        self.agent.server_opened(job);
    }

    /// The channel from the server of a job to its agent in another process was opened, for the first
    /// time or again.
    pub fn agent_opened(&mut self, job: JobId) {
        if let Some(server) = self.server_mut(job) {
            server.channel_opened();
        }
    }

    /// The agent's next message for a worker, or for a server in another process.
    pub fn poll_message(&mut self) -> Option<ToPeer> {
        self.messages.pop_front()
    }

    /// The next message of a job's server for its agent in another process.
    pub fn poll_to_agent(&mut self, job: JobId) -> Option<FromServer> {
        if self.agent.serves(job) {
            return None;
        }
        self.server_mut(job)?.poll_message()
    }

    /// [`Endpoint::handle_frame`] for a driver that has checked the frame already.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let job = packet.job();
        let answer = packet.kind() == Kind::Absent || packet.flags().contains(Flags::RESEND);
        let for_agent = self.agent.serves(job);
        match self.server_mut(job) {
            Some(server) if !(answer && for_agent) => server.handle_packet(now, packet),
            _ if for_agent => self.agent.handle_packet(now, packet),
            _ => self.rejected.other_job += 1,
        }
        self.exchange(now);
    }

    fn server_mut(&mut self, job: JobId) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.config().job.job == job)
    }

    /// Carries messages between the agent and the servers until there are none left.
    fn exchange(&mut self, now: Time) {
        loop {
            let mut quiet = true;
            for server in &mut self.servers {
                let job = server.config().job.job;
                if !self.agent.serves(job) {
                    continue;
                }
                while let Some(message) = server.poll_message() {
                    quiet = false;
                    self.agent.handle_server(now, job, message);
                }
            }
            while let Some(message) = self.agent.poll_message() {
                match message {
                    ToPeer::Server { job, message } if self.server(job).is_some() => {
                        quiet = false;
                        self.handle_agent(now, job, message);
                    }
                    message => self.messages.push_back(message),
                }
            }
            if quiet {
                return;
            }
        }
    }
}

impl Endpoint for Backend {
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
