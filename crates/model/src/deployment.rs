//! A scenario, and its settings for each switch, worker, parameter server and reminder agent.

use std::time::Duration;

use tributary_protocol::esa::{AgentJob, Target};
use tributary_protocol::{Assignment, Mode, PsConfig, WorkerConfig};
use tributary_wire::{Epoch, Host as Address, WorkerIndex, WorkerSet};

use crate::Error;
use crate::circuits::Circuits;
use crate::memory::Memory;
use crate::plan::{self, JobAtSwitch, Placement};
use crate::services;
use crate::{End, Host, HostId, JobSpec, Lane, Scenario, SummedAt, worker_index};

/// A scenario with the assignment of each job.
///
/// Each process computes it once. It follows from the scenario alone, so processes on different
/// hosts that read the same job file agree.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Deployment {
    scenario: Scenario,
    /// `None` if all jobs share the aggregators, or if others assign them.
    #[serde(skip)]
    memory: Option<Memory>,
    /// Per job, in the order of the file.
    assignments: Vec<Assignment>,
}

impl Deployment {
    /// Assigns services and segments to all jobs, in the order of the file.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::Partitions`] if the switches have too few aggregators.
    pub fn new(scenario: Scenario) -> Result<Self, Error> {
        let memory = Memory::of(&scenario.network)?;
        let assignments = vec![Assignment::NONE; scenario.jobs.len()];
        let mut deployment = Self { scenario, memory, assignments };
        for job in 0..deployment.scenario.jobs.len() {
            deployment.assign(job, deployment.scenario.jobs[job].aggregation)?;
        }
        Ok(deployment)
    }

    /// The deployment of jobs that clients admit: no job has an assignment yet.
    #[must_use]
    pub fn unassigned(scenario: Scenario) -> Self {
        let assignments = vec![Assignment::NONE; scenario.jobs.len()];
        Self { scenario, memory: None, assignments }
    }

    /// The deployment of jobs with these assignments, for an endpoint that takes part in them. They do not change.
    ///
    /// # Panics
    /// Unless each job has one.
    #[must_use]
    pub fn assigned(scenario: Scenario, assignments: Vec<Assignment>) -> Self {
        assert_eq!(scenario.jobs.len(), assignments.len());
        Self { scenario, memory: None, assignments }
    }

    /// Whether all that is named exists: otherwise an endpoint that was given it could not use it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let Self { scenario: Scenario { network, jobs, .. }, assignments, .. } = self;
        let topology = &network.topology;
        let (hosts, links) = (topology.hosts.len(), topology.links.len());
        let host = |host: &HostId| host.0 < hosts;
        let end = |end: &End| match end {
            End::Host(at) => host(at),
            End::Switch(switch, _) => switch.0 < topology.switches.len(),
        };
        let joins_a_switch = |host: &Host| {
            let link = topology.links.get(host.link.0);
            link.is_some_and(|link| link.ends.iter().any(|end| matches!(end, End::Switch(..))))
        };
        let lanes = |at: usize, Lane { index, count }: Lane| {
            index < count && at >= index && at - index + count <= jobs.len()
        };
        let fits = |(at, job): (usize, &JobSpec)| {
            let mut all = job.workers.iter().chain(&job.ps).chain(&job.agent);
            !job.workers.is_empty()
                && all.all(host)
                && lanes(at, job.lane)
                && job.slots.is_power_of_two()
                && job.scale.is_finite()
                && job.scale > 0.0
                && topology.racks(&job.workers, job.ps, job.protocol, job.two_levels).is_ok()
        };
        topology.links.iter().all(|link| link.ends.iter().all(end))
            && topology.hosts.iter().all(joins_a_switch)
            && topology.switches.iter().all(|switch| switch.ports.iter().all(|at| at.0 < links))
            && assignments.len() == jobs.len()
            && network.switch.pool > 0
            && jobs.iter().enumerate().all(fits)
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The job at an index of the file.
    ///
    /// # Panics
    /// If the file has no such job; all methods that take an index panic then.
    #[must_use]
    pub fn job(&self, job: usize) -> &JobSpec {
        &self.scenario.jobs[job]
    }

    /// Sets the seed of all random values.
    pub fn set_seed(&mut self, seed: u64) {
        self.scenario.seed = seed;
    }

    /// Sets the time after which a worker to which no sum comes stops.
    pub fn set_worker_timeout(&mut self, timeout: Duration) {
        self.scenario.network.worker_timeout = timeout;
    }

    /// Sets the run that an endpoint has joined.
    pub fn set_epoch(&mut self, job: usize, epoch: Epoch) {
        self.scenario.jobs[job].epoch = epoch;
    }

    /// Keeps only these workers of a job. Their new indices are in the same order; the job's assignment stays.
    ///
    /// # Panics
    /// If there is none.
    pub fn keep(&mut self, job: usize, workers: WorkerSet) {
        let hosts = &mut self.scenario.jobs[job].workers;
        let mut index = 0..;
        hosts.retain(|_| index.next().is_some_and(|at| workers.contains(worker_index(at))));
        assert!(!hosts.is_empty(), "a job has a worker");
    }

    /// Sets the assignment that the controller has given a job.
    pub fn set_assignment(&mut self, job: usize, assignment: Assignment) {
        self.assignments[job] = assignment;
    }

    /// Sets the circuits over which switches forward.
    ///
    /// # Errors
    /// [`Error::Circuits`] if the cross-connect has too few ports.
    pub fn patch(&mut self, circuits: &Circuits) -> Result<(), Error> {
        Ok(self.scenario.network.topology.patch(circuits)?)
    }

    /// Whether jobs have aggregators of their own (P4INC, SwitchML), so that they can be moved.
    #[must_use]
    pub fn has_segments(&self) -> bool {
        self.memory.is_some()
    }

    /// How switches serve a job.
    #[must_use]
    pub fn assignment(&self, job: usize) -> Assignment {
        self.assignments[job]
    }

    /// Gives a job a new service and segment. Its old segment stays occupied until it is
    /// [released](Self::release).
    ///
    /// # Errors
    /// [`Error::Memory`] if the switches have no room; [`Error::NoServer`] or [`Error::NotLocal`]
    /// if the job cannot be aggregated there.
    pub fn assign(&mut self, job: usize, place: impl Into<SummedAt>) -> Result<Assignment, Error> {
        let Self { scenario, memory, assignments } = self;
        let Some(memory) = memory else { return Ok(Assignment::NONE) };
        let (its, place) = (&mut scenario.jobs[job], place.into());
        let topology = &scenario.network.topology;
        let placement = Placement::unassigned(its);
        let mode = services::mode(topology, &placement, its.protocol, place.aggregation())?;
        let adding = place.adding().filter(|_| mode == Mode::Partial);
        let placement = Placement { adding: adding.clone(), ..placement };
        assignments[job] = memory.assign(topology, &placement, mode, its.segment)?;
        its.adding = adding;
        Ok(assignments[job])
    }

    /// Frees a job's segment.
    pub fn release(&mut self, job: usize) {
        let assignment = std::mem::replace(&mut self.assignments[job], Assignment::NONE);
        if let Some(memory) = &mut self.memory {
            memory.release(self.scenario.jobs[job].id, assignment);
        }
    }

    /// The hosts of a job's endpoints, and how switches serve the job.
    #[must_use]
    pub fn placement(&self, job: usize) -> Placement {
        Placement::unassigned(self.job(job)).assigned(self.assignments[job])
    }

    /// The part of each switch in a job.
    #[must_use]
    pub fn parts(&self, job: usize) -> Vec<JobAtSwitch> {
        plan::job(&self.scenario.network.topology, &self.placement(job))
    }

    /// The settings of a job's worker.
    #[must_use]
    pub fn worker(&self, job: usize, index: WorkerIndex) -> WorkerConfig {
        self.scenario.network.worker_config(self.job(job), self.assignments[job], index)
    }

    /// The settings of a job's parameter server; `None` if the job has none.
    #[must_use]
    pub fn server(&self, job: usize) -> Option<PsConfig> {
        let its = self.job(job);
        its.ps.map(|_| self.scenario.network.ps_config(its, self.assignments[job]))
    }

    /// The settings of a job's reminder agent (ESA); `None` if the job has no agent.
    ///
    /// # Errors
    /// [`Error::AgentAside`] if the agent cannot reach a switch that adds for the job.
    pub fn agent(&self, job: usize) -> Result<Option<AgentJob>, Error> {
        let its = self.job(job);
        let Some(agent) = its.agent else { return Ok(None) };
        let targets = plan::targets(&self.scenario.network.topology, &self.placement(job))?;
        let target = |target: plan::Target| Target {
            rack: target.rack,
            members: target.members,
            via: self.address(target.via),
        };
        Ok(Some(AgentJob {
            job: self.scenario.network.job_config(its, self.assignments[job]),
            host: self.address(agent),
            switches: targets.into_iter().map(target).collect(),
            timing: self.scenario.network.timing(self.scenario.network.worker_timeout),
        }))
    }

    fn address(&self, host: HostId) -> Address {
        self.scenario.network.topology.host(host).address
    }
}
