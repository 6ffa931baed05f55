//! What decides where jobs go.

use std::ops::Deref;

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::state::{Infeasible, State};
use crate::steady::Network;
use crate::topology::RackIndex;

/// A job that waits to be placed.
#[derive(Clone, PartialEq, Debug)]
pub struct Pending {
    /// The job.
    pub job: Job,
    /// What it is worth by now: its own value, raised for every round in which it was passed over
    /// (NetPack §5.2, step 1).
    pub value: f64,
}

/// Chooses which waiting jobs start, and where.
pub trait Policy {
    /// What the field calls it.
    fn name(&self) -> &'static str;

    /// Places as many of the waiting jobs as it sees fit, through [`Round::start`].
    ///
    /// `waiting` is in the order of submission. Jobs that run are left where they are: nothing
    /// migrates.
    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]);
}

/// One batch period: a cluster as a policy may see and change it.
#[derive(Debug)]
pub struct Round<'s, 'c> {
    state: &'s mut State<'c>,
    started: Vec<JobId>,
}

impl<'s, 'c> Round<'s, 'c> {
    /// A round on a cluster.
    #[must_use]
    pub const fn new(state: &'s mut State<'c>) -> Self {
        Self { state, started: Vec::new() }
    }

    /// Starts a job.
    ///
    /// # Errors
    ///
    /// If the plan cannot be followed; then nothing has changed.
    pub fn start(&mut self, job: &Job, plan: Plan) -> Result<(), Infeasible> {
        self.state.start(job, plan)?;
        self.started.push(job.id);
        Ok(())
    }

    /// Has these racks' switches aggregate for a job of this round, and no others.
    ///
    /// # Panics
    ///
    /// If the job was not started in this round.
    pub fn aggregate_at(&mut self, job: JobId, racks: Vec<RackIndex>) {
        assert!(self.started.contains(&job), "only jobs of this round change");
        self.state.aggregate_at(job, racks);
    }

    /// What the network gives each job that runs, and what it has left ([`State::network`]).
    pub fn network(&mut self) -> &Network {
        self.state.network()
    }

    /// [`network`](Self::network), and the state beside it.
    pub fn with_network(&mut self) -> (&State<'c>, &Network) {
        self.state.with_network()
    }

    /// Jobs started in this round, in order.
    #[must_use]
    pub fn started(&self) -> &[JobId] {
        &self.started
    }
}

impl<'c> Deref for Round<'_, 'c> {
    type Target = State<'c>;

    fn deref(&self) -> &State<'c> {
        self.state
    }
}
