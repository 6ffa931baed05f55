//! Several parameter servers behind one port.

use tributary_protocol::esa::{self, AgentJob, Together};
use tributary_protocol::server::{self, Event};
use tributary_protocol::{
    ConfigError, Endpoint, ParameterServer, PsConfig, Rejected, Time, Timing,
};
use tributary_wire::JobId;
use tributary_wire::agg::Packet;

/// A job whose parameter server is on this host.
#[derive(Clone, Debug)]
pub enum Job {
    /// Any protocol but ESA: there is no agent.
    Plain(PsConfig),
    /// ESA, with the agent in this process.
    Together(PsConfig, AgentJob),
    /// ESA, with the agent on another host.
    Apart(PsConfig),
}

/// What a job's server has counted.
#[derive(Clone, Copy, Debug)]
pub enum Stats<'a> {
    /// A server of any protocol but ESA.
    Plain(&'a server::Stats),
    /// An ESA server, and the agent for that job if it is in this process.
    Esa(&'a esa::server::Stats, Option<&'a esa::agent::Stats>),
}

/// The parameter servers of a host, one a job. As an endpoint it hands each packet to the server of
/// its job, and lets the servers send in turn.
#[derive(Debug)]
pub struct Servers {
    plain: Vec<ParameterServer>,
    together: Together,
    apart: Vec<esa::Server>,
    /// Whose turn to send it is.
    turn: usize,
    rejected: Rejected,
}

impl Servers {
    /// A host with the servers of these jobs.
    ///
    /// # Errors
    /// If one of the configurations contradicts itself.
    pub fn new(jobs: impl IntoIterator<Item = Job>) -> Result<Self, ConfigError> {
        let mut servers = Self {
            plain: Vec::new(),
            together: Together::new(Timing::default())?,
            apart: Vec::new(),
            turn: 0,
            rejected: Rejected::default(),
        };
        for job in jobs {
            match job {
                // Nothing tells a first start from one in the middle of a job.
                Job::Plain(config) => servers.plain.push(ParameterServer::successor(config)?),
                Job::Together(config, agent) => servers.together.add_job(config, agent)?,
                Job::Apart(config) => servers.apart.push(esa::Server::new(config)?),
            }
        }
        Ok(servers)
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.together.is_empty() && self.apart.is_empty()
    }

    /// What each job's server has counted.
    pub fn stats(&self) -> impl Iterator<Item = (JobId, Stats<'_>)> {
        let plain =
            self.plain.iter().map(|server| (server.config().job.job, Stats::Plain(server.stats())));
        let together = self.together.servers().iter().map(|server| {
            let job = server.config().job.job;
            let agent = self.together.agent().stats().find(|(its, _)| *its == job);
            (job, Stats::Esa(server.stats(), agent.map(|(_, stats)| stats)))
        });
        let apart = self
            .apart
            .iter()
            .map(|server| (server.config().job.job, Stats::Esa(server.stats(), None)));
        plain.chain(together).chain(apart)
    }

    /// Frames that were for none of the servers.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// The ESA servers whose agent is in this process.
    pub(crate) fn together_mut(&mut self) -> &mut Together {
        &mut self.together
    }

    /// The ESA server of a job whose agent is elsewhere.
    pub(crate) fn apart_mut(&mut self, job: JobId) -> Option<&mut esa::Server> {
        self.apart.iter_mut().find(|server| server.config().job.job == job)
    }

    /// Those that take turns in sending; the agent and its servers have one together.
    fn senders(&self) -> usize {
        self.plain.len() + self.apart.len() + 1
    }

    fn transmit(&mut self, sender: usize, now: Time, frame: &mut Vec<u8>) -> bool {
        if let Some(server) = self.plain.get_mut(sender) {
            return server.poll_transmit(now, frame);
        }
        match self.apart.get_mut(sender - self.plain.len()) {
            Some(server) => server.poll_transmit(now, frame),
            None => self.together.poll_transmit(now, frame),
        }
    }
}

impl Endpoint for Servers {
    type Event = (JobId, Event);

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        let packet = match Packet::new_checked(frame) {
            Ok(packet) => packet,
            Err(error) if error.is_foreign() => {
                self.rejected.foreign += 1;
                return;
            }
            Err(_) => {
                self.rejected.malformed += 1;
                return;
            }
        };
        let job = packet.job();
        if let Some(server) = self.plain.iter_mut().find(|server| server.config().job.job == job) {
            server.handle_packet(now, &packet);
        } else if let Some(server) = self.apart_mut(job) {
            server.handle_packet(now, &packet);
        } else if self.together.servers().iter().any(|server| server.config().job.job == job) {
            self.together.handle_packet(now, &packet);
        } else {
            self.rejected.other_job += 1;
        }
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        let count = self.senders();
        for offset in 0..count {
            let at = (self.turn + offset) % count;
            if self.transmit(at, now, frame) {
                self.turn = (at + 1) % count;
                return true;
            }
        }
        false
    }

    fn poll_timeout(&self) -> Option<Time> {
        let plain = self.plain.iter().filter_map(Endpoint::poll_timeout);
        let apart = self.apart.iter().filter_map(Endpoint::poll_timeout);
        plain.chain(apart).chain(self.together.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.plain.iter_mut().for_each(|server| server.handle_timeout(now));
        self.apart.iter_mut().for_each(|server| server.handle_timeout(now));
        self.together.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        let plain = self.plain.iter_mut().find_map(|server| {
            let job = server.config().job.job;
            Some((job, server.poll_event()?))
        });
        let apart = || {
            self.apart.iter_mut().find_map(|server| {
                let job = server.config().job.job;
                Some((job, server.poll_event()?))
            })
        };
        plain.or_else(apart).or_else(|| self.together.poll_event())
    }
}
