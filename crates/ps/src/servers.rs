//! Several parameter servers behind one port.

use tributary_protocol::esa::{AgentJob, Backend};
use tributary_protocol::server::Event;
use tributary_protocol::{
    Assignment, ConfigError, Endpoint, ParameterServer, PsConfig, Rejected, Time,
};
use tributary_wire::JobId;
use tributary_wire::agg::Packet;

use crate::report::{ServerReport, Stats};

/// A job whose parameter server is on this host.
#[derive(Clone, Debug)]
pub struct ServerJob {
    /// The parameter server.
    pub server: PsConfig,
    /// The reminder agent (ESA), if it is in this process.
    pub agent: Option<AgentJob>,
}

/// The parameter servers of a host, one per job. This endpoint hands each packet to the server of
/// its job, and lets the servers send in turn.
#[derive(Debug)]
pub struct Servers {
    plain: Vec<ParameterServer>,
    esa: Backend,
    /// Index of the server that may send next.
    turn: usize,
    rejected: Rejected,
}

impl Servers {
    /// The servers of these jobs.
    ///
    /// # Errors
    /// If a configuration contradicts itself.
    pub fn new(jobs: impl IntoIterator<Item = ServerJob>) -> Result<Self, ConfigError> {
        let mut servers = Self {
            plain: Vec::new(),
            esa: Backend::default(),
            turn: 0,
            rejected: Rejected::default(),
        };
        for ServerJob { server, agent } in jobs {
            if server.job.protocol.has_reminder_agent() {
                servers.esa.add_server(server)?;
                agent.map_or(Ok(()), |agent| servers.esa.add_agent(agent))?;
            } else {
                servers.put(server)?;
            }
        }
        Ok(servers)
    }

    /// Adds a server of any protocol but ESA, or replaces that of the same job. The server starts
    /// without state: workers have what it lacks.
    ///
    /// # Errors
    /// If the configuration contradicts itself. Nothing has changed then.
    pub fn put(&mut self, config: PsConfig) -> Result<(), ConfigError> {
        let job = config.job.job;
        // A first start cannot be distinguished from a restart in the middle of a job.
        let server = ParameterServer::successor(config)?;
        self.remove(job);
        self.plain.push(server);
        Ok(())
    }

    /// Removes a job's server, and returns its report.
    pub fn remove(&mut self, job: JobId) -> Option<ServerReport> {
        let at = self.plain.iter().position(|server| server.config().job.job == job)?;
        let stats = Stats::Plain(*self.plain.remove(at).stats());
        Some(ServerReport { stats, agent: None })
    }

    /// Changes the assignment of a job between two iterations. Packets under the new assignment that
    /// came earlier were dropped, and workers send them again. Returns whether the job has a server.
    ///
    /// # Errors
    /// If the assignment does not suit the job. Nothing has changed then.
    pub fn reassign(&mut self, job: JobId, assignment: Assignment) -> Result<bool, ConfigError> {
        let server = self.plain.iter_mut().find(|server| server.config().job.job == job);
        server.map_or(Ok(false), |server| server.reassign(assignment).map(|()| true))
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.esa.is_empty()
    }

    /// The report of each job's server.
    pub fn reports(&self) -> impl Iterator<Item = (JobId, ServerReport)> {
        let plain = self.plain.iter().map(|server| {
            let stats = Stats::Plain(*server.stats());
            (server.config().job.job, ServerReport { stats, agent: None })
        });
        let esa = self.esa.stats().filter_map(|(job, server, agent)| {
            let stats = Stats::Esa(*server?);
            Some((job, ServerReport { stats, agent: agent.copied() }))
        });
        plain.chain(esa)
    }

    /// Counters of frames for none of the servers.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// The servers of all protocols but ESA.
    pub(crate) fn plain(&self) -> &[ParameterServer] {
        &self.plain
    }

    /// As [`backend_mut`](Self::backend_mut).
    pub(crate) fn backend(&self) -> &Backend {
        &self.esa
    }

    /// The ESA servers, and the agent of those jobs whose agent is in this process.
    pub(crate) fn backend_mut(&mut self) -> &mut Backend {
        &mut self.esa
    }

    fn transmit(&mut self, sender: usize, now: Time, frame: &mut Vec<u8>) -> bool {
        match self.plain.get_mut(sender) {
            Some(server) => server.poll_transmit(now, frame),
            None => self.esa.poll_transmit(now, frame),
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
        } else if self.esa.server(job).is_some() {
            self.esa.handle_packet(now, &packet);
        } else {
            self.rejected.other_job += 1;
        }
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        // All ESA servers and their agent share one turn.
        let count = self.plain.len() + 1;
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
        plain.chain(self.esa.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.plain.iter_mut().for_each(|server| server.handle_timeout(now));
        self.esa.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        let plain = self.plain.iter_mut().find_map(|server| {
            let job = server.config().job.job;
            Some((job, server.poll_event()?))
        });
        plain.or_else(|| self.esa.poll_event())
    }
}
