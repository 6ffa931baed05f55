//! Placement policies.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::state::{Infeasible, State};
use crate::steady::SteadyNetwork;
use crate::topology::{RackIndex, ServerIndex};
use crate::weighed::Weighed;

/// A job that waits for placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Pending {
    /// The job.
    pub job: Job,
    /// Its current value: its own value, raised for every round in which it was passed over
    /// (NetPack §5.2, step 1).
    pub value: f64,
}

/// Chooses which waiting jobs start, and where.
pub trait Policy {
    /// The name in the literature.
    fn name(&self) -> &'static str;

    /// Places any number of the waiting jobs through [`Round::start`].
    ///
    /// `waiting` is in the order of submission. Running jobs stay where they are: there is no
    /// migration.
    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]);
}

/// Chooses the server of a plan's parameter server, in place of the policy.
pub trait Serve: std::fmt::Debug {
    /// The server, for a plan of a distributed job that has not started.
    fn server(&self, state: &State<'_>, network: &SteadyNetwork, plan: &Plan) -> ServerIndex;
}

/// One batch period: the view of the cluster through which a policy acts.
#[derive(Debug)]
pub struct Round<'s, 'c> {
    state: &'s mut State<'c>,
    started: Vec<JobId>,
    in_network: bool,
    serve: Option<Box<dyn Serve>>,
    /// The plans that the policy weighed, if they are kept.
    weighed: Option<BTreeMap<JobId, Vec<Weighed>>>,
}

impl<'s, 'c> Round<'s, 'c> {
    /// A round on a cluster.
    #[must_use]
    pub const fn new(state: &'s mut State<'c>) -> Self {
        Self { state, started: Vec::new(), in_network: false, serve: None, weighed: None }
    }

    /// A round on a cluster whose jobs sum their gradients in the network. If a policy plans a
    /// distributed job without a parameter server, the job gets one [beside a
    /// worker](Plan::with_server).
    #[must_use]
    pub const fn in_network(state: &'s mut State<'c>) -> Self {
        Self { state, started: Vec::new(), in_network: true, serve: None, weighed: None }
    }

    /// Moves the parameter servers of this round's jobs to the servers that a rule chooses, if jobs
    /// sum in the network.
    pub fn serve_by(&mut self, serve: Box<dyn Serve>) {
        self.serve = self.in_network.then_some(serve);
    }

    /// Keeps the plans that the policy weighs, which costs it time.
    pub fn keep_weighed(&mut self) {
        self.weighed.get_or_insert_default();
    }

    /// Whether they are kept.
    #[must_use]
    pub const fn keeps_weighed(&self) -> bool {
        self.weighed.is_some()
    }

    /// The policy has weighed these plans for a job.
    pub fn weighed(&mut self, job: JobId, plans: Vec<Weighed>) {
        if let Some(weighed) = &mut self.weighed {
            weighed.insert(job, plans);
        }
    }

    /// Takes the plans that the policy has weighed for a job, best first; none if it ranks servers
    /// rather than plans, or has placed the job on one server.
    pub fn take_weighed(&mut self, job: JobId) -> Vec<Weighed> {
        self.weighed.as_mut().and_then(|weighed| weighed.remove(&job)).unwrap_or_default()
    }

    /// Starts a job.
    ///
    /// # Errors
    ///
    /// If the plan is infeasible. The state is then unchanged.
    pub fn start(&mut self, job: &Job, plan: Plan) -> Result<(), Infeasible> {
        let served = self.in_network && plan.is_distributed();
        let alone = served && plan.ps.is_none();
        let mut plan = if alone { plan.with_server(self.state.cluster()) } else { plan };
        if let (true, Some(serve)) = (served && plan.ps.is_some(), &self.serve) {
            let (state, network) = self.state.with_network();
            plan.ps = Some(serve.server(state, network, &plan));
            plan.aggregating = plan.summing_racks(state.cluster());
        }
        self.state.start(job, plan)?;
        self.started.push(job.id);
        Ok(())
    }

    /// Sets the racks whose switches aggregate for a job of this round.
    ///
    /// # Panics
    ///
    /// If the job was not started in this round.
    pub fn aggregate_at(&mut self, job: JobId, racks: Vec<RackIndex>) {
        assert!(self.started.contains(&job), "only jobs of this round change");
        self.state.aggregate_at(job, racks);
    }

    /// Moves the parameter server of a job of this round. All switches with something to sum then
    /// aggregate for the job.
    ///
    /// # Panics
    ///
    /// If the job was not started in this round, or has no parameter server.
    pub fn serve_at(&mut self, job: JobId, ps: ServerIndex) {
        assert!(self.started.contains(&job), "only jobs of this round change");
        self.state.serve_at(job, ps);
    }

    /// The state, with the rates of the running jobs and the remaining capacity of the network
    /// ([`State::network`]).
    pub fn with_network(&mut self) -> (&State<'c>, &SteadyNetwork) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Cluster, ServerIndex, Shape};

    #[test]
    fn distributed_jobs_in_the_network_get_a_parameter_server() {
        let shape = Shape { racks: 2, servers_per_rack: 2, gpus_per_server: 4, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let job = |id| Job {
            id: JobId(id),
            submit_s: 0.0,
            gpus: 4,
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: 1.0,
            value: 1.0,
        };
        let ranks = |servers: [u32; 4]| Plan {
            ranks: servers.map(ServerIndex).to_vec(),
            ..Plan::default()
        };
        let mut state = State::new(&cluster);
        let mut round = Round::in_network(&mut state);
        round.start(&job(0), ranks([0, 2, 2, 2])).unwrap();
        round.start(&job(1), ranks([1, 1, 1, 1])).unwrap();
        let mut round = Round::new(&mut state);
        round.start(&job(2), ranks([0, 0, 3, 3])).unwrap();
        let plan = |id| &state.running()[&JobId(id)].plan;
        let racks = vec![RackIndex(0), RackIndex(1)];
        assert_eq!((plan(0).ps, &plan(0).aggregating), (Some(ServerIndex(2)), &racks));
        assert_eq!((plan(1).ps, plan(2).ps), (None, None), "alone on a server; by all-reduce");
        // An infeasible plan is rejected as usual.
        let error = Round::in_network(&mut state).start(&job(3), ranks([0, 9, 9, 9]));
        assert!(matches!(error, Err(Infeasible::Unknown { .. })), "{error:?}");
    }
}
