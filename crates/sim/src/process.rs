//! Endpoints on a host.

use tributary_protocol::{Endpoint, ParameterServer, Time, Worker, esa};
use tributary_wire::JobId;

/// An endpoint on a host.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
pub enum Process {
    /// A worker of the job.
    Worker(JobId, Worker),
    /// The job's parameter server, of any protocol but ESA.
    Server(JobId, ParameterServer),
    /// The job's parameter server, its reminder agent, or both (ESA).
    Esa(JobId, esa::Backend),
}

/// The methods of [`Endpoint`] that do not depend on its event type.
pub(crate) trait AnyEndpoint {
    fn handle_frame(&mut self, now: Time, frame: &[u8]);
    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool;
    fn poll_timeout(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
}

impl<E: Endpoint> AnyEndpoint for E {
    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        Endpoint::handle_frame(self, now, frame);
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        Endpoint::poll_transmit(self, now, frame)
    }

    fn poll_timeout(&self) -> Option<Time> {
        Endpoint::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Time) {
        Endpoint::handle_timeout(self, now);
    }
}

impl Process {
    /// Its job.
    pub fn job(&self) -> JobId {
        match self {
            Self::Worker(job, _) | Self::Server(job, _) | Self::Esa(job, _) => *job,
        }
    }

    pub(crate) fn endpoint(&mut self) -> &mut dyn AnyEndpoint {
        match self {
            Self::Worker(_, worker) => worker,
            Self::Server(_, server) => server,
            Self::Esa(_, backend) => backend,
        }
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        match self {
            Self::Worker(_, worker) => Endpoint::poll_timeout(worker),
            Self::Server(_, server) => Endpoint::poll_timeout(server),
            Self::Esa(_, backend) => Endpoint::poll_timeout(backend),
        }
    }

    /// The ESA backend of a job.
    pub(crate) fn backend(&mut self, of: JobId) -> Option<&mut esa::Backend> {
        match self {
            Self::Esa(job, backend) if *job == of => Some(backend),
            _ => None,
        }
    }

    /// Whether it has the reminder agent of its job.
    pub(crate) fn is_agent(&self) -> bool {
        matches!(self, Self::Esa(job, backend) if backend.agent().serves(*job))
    }
}
