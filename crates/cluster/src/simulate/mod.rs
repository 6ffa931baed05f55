//! How a trace of jobs unfolds on a cluster under a policy: a flow-level discrete-event simulation
//! (NetPack §6.1, Titan §V.B).
//!
//! Jobs wait from their submission to a round in which the policy starts them, and then stay where
//! they are. A round is held at every multiple of the batch period, or, with a period of zero,
//! whenever a job arrives or ends. Between two events every running job goes on at a steady speed:
//! one iteration in its time of computing plus the time of summing its gradients at the rate that
//! the network gives it, by the steady state or by other [`Sums`]. What happens at one instant happens in this order: jobs end, jobs arrive,
//! a round is held; jobs that end or wait together are taken by time of submission, then by number.

mod engine;
mod meter;
mod observe;
mod queue;
mod sums;

use crate::collective::Collective;
use crate::job::Job;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::topology::Cluster;

pub use meter::{Sample, Totals};
pub use observe::Observer;
pub use sums::{SteadyState, Sums};

/// How jobs sum their gradients, and how long that takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Communication {
    /// Through switches to a parameter server, at the rates of the network's steady state (NetPack
    /// §4).
    InNetwork,
    /// By an all-reduce among the ranks that nobody else disturbs (Titan §V.B adds its time to the
    /// duration of the trace).
    AllReduce(Collective),
}

/// How to simulate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Time between two rounds, seconds; zero: a round whenever a job arrives or ends.
    pub period_s: f64,
    /// What a waiting job's value grows by in every round that passes it over (NetPack §5.2, step
    /// 1).
    pub ageing: f64,
    /// How jobs sum their gradients.
    pub communication: Communication,
    /// Least time between two samples of the series, seconds; none: no series.
    pub sample_s: Option<f64>,
}

impl Default for Options {
    /// Rounds every minute, values that grow by 1, gradients summed in the network, no series.
    fn default() -> Self {
        Self {
            period_s: 60.0,
            ageing: 1.0,
            communication: Communication::InNetwork,
            sample_s: None,
        }
    }
}

/// A job that ran to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The job.
    pub job: Job,
    /// Where it ran.
    pub plan: Plan,
    /// When it started, seconds from the start of the trace.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// What it sent between servers in an iteration, bytes.
    pub traffic_bytes: f64,
}

impl Record {
    /// Job completion time: from submission to end, seconds.
    #[must_use]
    pub fn jct_s(&self) -> f64 {
        self.end_s - self.job.submit_s
    }

    /// Time that it waited, seconds.
    #[must_use]
    pub fn wait_s(&self) -> f64 {
        self.start_s - self.job.submit_s
    }

    /// Time that it ran, seconds.
    #[must_use]
    pub fn run_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// Why a job did not run to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// It wants more GPUs than the cluster has.
    TooLarge,
    /// It has no GPUs, or its time or work is not a number above zero.
    Senseless,
    /// It waited until nothing could change any more, and the policy did not place it.
    NotPlaced,
    /// It was placed where the network gives it no bandwidth at all.
    Stalled,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "larger than the cluster",
            Self::Senseless => "no GPUs, or no time that makes sense",
            Self::NotPlaced => "never placed by the policy",
            Self::Stalled => "placed where it gets no bandwidth",
        })
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The jobs that ended, by time of submission, then by number.
    pub records: Vec<Record>,
    /// The jobs that did not, in the same order, and why.
    pub unfinished: Vec<(Job, Reason)>,
    /// What was measured over the whole time.
    pub totals: Totals,
    /// What was measured from time to time, if that was asked for.
    pub series: Vec<Sample>,
}

/// Runs the jobs.
///
/// The order of `jobs` does not matter, only their times of submission and their numbers.
///
/// # Panics
///
/// If two jobs have one number, if an option is negative or not a number, or if the policy starts a
/// job that does not wait.
pub fn simulate(
    cluster: &Cluster,
    jobs: &[Job],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
) -> Outcome {
    let Ok(outcome) = simulate_by(cluster, jobs, policy, options, observer, &mut SteadyState);
    outcome
}

/// [`simulate`] with another source of the time that sums take in the network; policies go by the steady
/// state all the same. Jobs that sum by all-reduce do not ask it.
///
/// # Errors
///
/// If the source does not know.
///
/// # Panics
///
/// As [`simulate`].
pub fn simulate_by<S: Sums>(
    cluster: &Cluster,
    jobs: &[Job],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
    sums: &mut S,
) -> Result<Outcome, S::Error> {
    engine::Engine::new(cluster, jobs, options).run(policy, observer, sums)
}

#[cfg(test)]
mod tests;
