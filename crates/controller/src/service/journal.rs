//! What a controller must remember over its own restart.

use tributary_model::job::{Handover, Iteration};
use tributary_model::{HostId, Topology};
use tributary_protocol::Rate;
use tributary_wire::channel::Token;
use tributary_wire::{JobId, Service};

use super::{Demand, Described};
use crate::entries::JobSlot;
use tributary_model::plan::Placement;

/// A job, as it was after its last change.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Its hosts, its epoch, and its assignment.
    pub placement: Placement,
    /// The hosts of all its workers, also of those that have died; none in journals of earlier versions.
    pub all: Vec<HostId>,
    /// Its counters in the switches.
    pub slot: JobSlot,
    /// The last service that it was given, also if switches only forward now.
    pub last_service: Service,
    /// What it sends.
    pub demand: Option<Demand>,
    /// Its last iteration.
    pub iteration: Iteration,
    /// The rate of its workers.
    pub rate: Option<Rate>,
    /// Its name, for people.
    pub name: String,
    /// Whether it is released when no worker takes part.
    pub lease: bool,
    /// What endpoints need to know of a job that is not in the controller's file.
    pub described: Option<Described>,
    /// The token of a job of the controller's file (ESA).
    pub token: Option<Token>,
    /// Name of the tenant whose job it is.
    pub tenant: Option<String>,
    /// How its run has begun, if it continues another one.
    pub handover: Option<Handover>,
    /// Whether a worker may take part in its run already.
    pub begun: bool,
    /// Whether its run has ended.
    pub ended: bool,
    /// Whether a client lets each round begin.
    pub stepped: bool,
}

impl Record {
    /// Whether the job fits a topology, which may be another one than when it was recorded.
    #[must_use]
    pub fn fits(&self, topology: &Topology) -> bool {
        let Placement { workers, ps, agent, .. } = &self.placement;
        let mut hosts = workers.iter().chain(&self.all).chain(ps).chain(agent);
        let mut switches = self.placement.adding.iter().flatten();
        // Those that are left of a job keep their indices, which may be beyond their number.
        !workers.is_empty()
            && hosts.all(|host| host.0 < topology.hosts.len())
            && switches.all(|switch| switch.0 < topology.switches.len())
            && self.iteration.unfinished.len() as usize <= workers.len()
            && self
                .described
                .as_ref()
                .is_none_or(|described| described.spec().id == self.placement.job)
    }
}

/// Keeps records. A controller writes one before anyone learns of the change.
///
/// A change that is not recorded has not happened: a controller that dies in the middle of an admission,
/// a move or a release is resumed with the job as it was before. Its switches are then brought to that
/// state, and what else they hold is swept.
pub trait Journal: std::fmt::Debug + Send + Sync {
    /// Keeps a record in place of the job's earlier one.
    ///
    /// # Errors
    /// Why it cannot be kept, in one line.
    fn keep(&self, record: &Record) -> Result<(), String>;

    /// Forgets a job.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    fn forget(&self, job: JobId) -> Result<(), String>;

    /// Whether records outlive the controller, so that a job without one has been released.
    fn lasts(&self) -> bool;
}

/// Remembers nothing: jobs end with the process.
#[derive(Clone, Copy, Debug)]
pub struct Forgetful;

impl Journal for Forgetful {
    fn keep(&self, _: &Record) -> Result<(), String> {
        Ok(())
    }

    fn forget(&self, _: JobId) -> Result<(), String> {
        Ok(())
    }

    fn lasts(&self) -> bool {
        false
    }
}
