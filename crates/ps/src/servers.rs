//! Several parameter servers behind one port.

use tributary_protocol::server::{Event, Stats};
use tributary_protocol::{ConfigError, Endpoint, ParameterServer, PsConfig, Rejected, Time};
use tributary_wire::JobId;
use tributary_wire::agg::Packet;

/// The parameter servers of a host, one a job. As an endpoint it hands each packet to the server of
/// its job, and lets the servers send in turn.
#[derive(Debug, Default)]
pub struct Servers {
    servers: Vec<ParameterServer>,
    /// Whose turn to send it is.
    turn: usize,
    rejected: Rejected,
}

impl Servers {
    /// A host with these servers.
    ///
    /// # Errors
    /// If one of the configurations contradicts itself.
    pub fn new(configs: impl IntoIterator<Item = PsConfig>) -> Result<Self, ConfigError> {
        let servers = configs.into_iter().map(ParameterServer::new).collect::<Result<_, _>>()?;
        Ok(Self { servers, ..Self::default() })
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// What each job's server has counted.
    pub fn stats(&self) -> impl Iterator<Item = (JobId, &Stats)> {
        self.servers.iter().map(|server| (server.config().job.job, server.stats()))
    }

    /// Frames that were for none of the servers.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
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
        match self.servers.iter_mut().find(|server| server.config().job.job == job) {
            Some(server) => server.handle_packet(now, &packet),
            None => self.rejected.other_job += 1,
        }
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        let count = self.servers.len();
        for offset in 0..count {
            let at = (self.turn + offset) % count;
            if self.servers[at].poll_transmit(now, frame) {
                self.turn = (at + 1) % count;
                return true;
            }
        }
        false
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.servers.iter().filter_map(Endpoint::poll_timeout).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for server in &mut self.servers {
            server.handle_timeout(now);
        }
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.servers.iter_mut().find_map(|server| {
            let job = server.config().job.job;
            Some((job, server.poll_event()?))
        })
    }
}
