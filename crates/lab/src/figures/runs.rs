//! Parallel simulations on the available cores.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::studies::testbed::Packets;
use tributary_base::on_all_cores;
use tributary_cluster::placement::{Rules, create};
use tributary_cluster::simulate::{
    Communication, Observer, Options, Outcome, simulate, simulate_by,
};
use tributary_cluster::validate::{Validator, Violation};
use tributary_cluster::{Cluster, Collective, Job, JobId, Plan, Policy, State};

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The jobs.
    pub jobs: &'a [Job],
    /// The policy's name.
    pub policy: &'a str,
    /// The options.
    pub options: Options,
    /// Packet-level timing of sums in the network; `None` for the steady state.
    pub packets: Option<&'a Packets>,
}

/// Progress callback: number of completed jobs and total number of jobs over all simulations.
/// Called from several threads.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Why a comparison failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The policy is unknown.
    #[error("{0}")]
    Policy(String),
    /// A policy violated a rule of the cluster: a bug in this program.
    #[error("{policy}: {count} plans or rates cannot be; the first: {first}")]
    Infeasible {
        /// The policy.
        policy: String,
        /// Number of violations.
        count: usize,
        /// The first violation.
        first: String,
    },
    /// The testbed failed: a bug in this program.
    #[error("the testbed in virtual time: {0}")]
    Testbed(String),
}

impl From<crate::studies::testbed::Error> for RunError {
    fn from(error: crate::studies::testbed::Error) -> Self {
        Self::Testbed(error.to_string())
    }
}

/// Creates the policy with this name. A policy for all-reduce gets the collective of the jobs.
///
/// # Errors
///
/// If the policy or a rule is unknown.
pub fn policy(name: &str, communication: Communication) -> Result<Box<dyn Policy>, RunError> {
    let collective = match communication {
        Communication::AllReduce(collective) => collective,
        Communication::InNetwork => Collective::default(),
    };
    create(name, Rules::default(), collective).map_err(RunError::Policy)
}

/// Runs simulations. The validator, which shares no code with the simulator, checks every plan and
/// every rate.
///
/// # Errors
///
/// If a policy is unknown, or a plan or a rate is invalid.
pub fn run(runs: &[Run<'_>], progress: Progress<'_>) -> Result<Vec<Outcome>, RunError> {
    for run in runs {
        policy(run.policy, run.options.communication)?;
    }
    let measured = |run: &Run<'_>| run.jobs.iter().filter(|job| run.options.measures(job)).count();
    let total = runs.iter().map(|run| measured(run) as u64).sum();
    let done = AtomicU64::new(0);
    on_all_cores(runs.len(), &|_, _| (), |at| {
        let run = &runs[at];
        let in_network = run.options.communication == Communication::InNetwork;
        let tell = |more| progress(done.fetch_add(more, Ordering::Relaxed) + more, total);
        one(run, &mut Watch::new(run.cluster, in_network, &tell))
    })
}

fn one(run: &Run<'_>, watch: &mut Watch<'_>) -> Result<Outcome, RunError> {
    let mut policy = policy(run.policy, run.options.communication)?;
    let outcome = match run.packets {
        None => simulate(run.cluster, run.jobs, &mut *policy, &run.options, watch),
        Some(mut packets) => {
            let sums = &mut packets;
            simulate_by(run.cluster, run.jobs, &mut *policy, &run.options, watch, sums)?
        }
    };
    watch.check(run.policy)?;
    Ok(outcome)
}

/// Validates a simulation and reports its progress.
pub(super) struct Watch<'a> {
    validator: Validator<'a>,
    settled: usize,
    tell: &'a dyn Fn(u64),
}

impl<'a> Watch<'a> {
    /// Calls `tell` with the number of jobs whose result has become known.
    pub(super) fn new(cluster: &'a Cluster, in_network: bool, tell: &'a dyn Fn(u64)) -> Self {
        Self { validator: Validator::new(cluster, in_network), settled: 0, tell }
    }

    /// The error for a policy that violated a rule.
    pub(super) fn check(&self, policy: &str) -> Result<(), RunError> {
        let violations = self.validator.violations();
        let infeasible = |first: &Violation| RunError::Infeasible {
            policy: policy.to_owned(),
            count: violations.len(),
            first: first.to_string(),
        };
        violations.first().map_or(Ok(()), |first| Err(infeasible(first)))
    }
}

impl Observer for Watch<'_> {
    fn progress(&mut self, _: f64, settled: usize, total: usize) {
        // Not at every event, because there are too many.
        if settled - self.settled >= 256 || settled == total {
            (self.tell)((settled - self.settled) as u64);
            self.settled = settled;
        }
    }

    fn started(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        self.validator.started(now_s, job, plan);
    }

    fn ended(&mut self, now_s: f64, job: JobId) {
        self.validator.ended(now_s, job);
    }

    fn network(&mut self, now_s: f64, state: &mut State<'_>) {
        self.validator.network(now_s, state);
    }
}
