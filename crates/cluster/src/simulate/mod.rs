//! Simulates a trace of jobs on a cluster under a policy, as flow-level discrete events (NetPack
//! §6.1, Titan §V.B).
//!
//! Jobs wait from their submission to a round in which the policy starts them, and then stay where
//! they are. A round is held at every multiple of the batch period or, with a period of zero,
//! whenever a job arrives or ends. Between two events every running job has a constant speed. An
//! iteration takes the computing time plus the time to sum its gradients at the rate that the
//! network gives it, from the steady state or another source of [`Sums`]. At one instant, jobs end
//! first, then jobs arrive, then a round is held. Jobs that end or wait together are processed by
//! time of submission, then by number.

mod engine;
mod meter;
mod observe;
mod queue;
mod sums;

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::collective::Collective;
use crate::job::{Job, JobId};
use crate::occupied::Occupant;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::topology::Cluster;

pub use meter::{Sample, Totals};
pub use observe::Observer;
pub use sums::{SteadyState, Sums};

/// How jobs sum their gradients, and how the duration is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Communication {
    /// Through switches to a parameter server, at the rates of the network's steady state (NetPack
    /// §4).
    InNetwork,
    /// By an all-reduce among the ranks that other jobs do not disturb (Titan §V.B adds its time to
    /// the duration of the trace).
    AllReduce(Collective),
}

/// Options of a simulation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Time between two rounds in seconds. If zero, a round is held whenever a job arrives or ends.
    pub period_s: f64,
    /// Increase of a waiting job's value in every round that passes it over (NetPack §5.2, step 1).
    pub ageing: f64,
    /// How jobs sum their gradients.
    pub communication: Communication,
    /// Minimum time between two samples of the series in seconds; `None` for no series.
    pub sample_s: Option<f64>,
    /// The time that is measured: jobs submitted in it have records, and measurements over time are of
    /// it alone. The run ends when these jobs have ended, so that jobs before and after them only
    /// keep the cluster as busy as it is in between. `None` for the whole run.
    pub window_s: Option<[f64; 2]>,
}

impl Options {
    /// Whether a job is measured.
    #[must_use]
    pub fn measures(&self, job: &Job) -> bool {
        self.measures_at(job.submit_s)
    }

    /// Whether jobs submitted at a time are measured.
    #[must_use]
    pub fn measures_at(&self, submit_s: f64) -> bool {
        self.window_s.is_none_or(|[from_s, to_s]| (from_s..=to_s).contains(&submit_s))
    }
}

impl Default for Options {
    /// Rounds every minute, values that grow by 1, gradients summed in the network, no series, the
    /// whole run measured.
    fn default() -> Self {
        Self {
            period_s: 60.0,
            ageing: 1.0,
            communication: Communication::InNetwork,
            sample_s: None,
            window_s: None,
        }
    }
}

/// A job that finished.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The job.
    pub job: Job,
    /// Where it ran.
    pub plan: Plan,
    /// Start time in seconds from the start of the trace.
    pub start_s: f64,
    /// End time in seconds from the start of the trace.
    pub end_s: f64,
    /// Bytes that it sent between servers per iteration.
    pub traffic_bytes: f64,
}

impl Record {
    /// Job completion time in seconds: from submission to end.
    #[must_use]
    pub fn jct_s(&self) -> f64 {
        self.end_s - self.job.submit_s
    }

    /// Waiting time in seconds.
    #[must_use]
    pub fn wait_s(&self) -> f64 {
        self.start_s - self.job.submit_s
    }

    /// Run time in seconds.
    #[must_use]
    pub fn run_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// Why a job did not finish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// It requests more GPUs than the cluster has.
    TooLarge,
    /// It requests no GPUs, or its time or work is not a positive number.
    Senseless,
    /// It waited until no more events could change anything, and the policy did not place it.
    NotPlaced,
    /// It was placed where the network gives it no bandwidth.
    Stalled,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "larger than the cluster",
            Self::Senseless => "no GPUs, or no valid duration",
            Self::NotPlaced => "never placed by the policy",
            Self::Stalled => "placed where it gets no bandwidth",
        })
    }
}

/// The outcome of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The measured jobs that finished, by time of submission, then by number.
    pub records: Vec<Record>,
    /// Those that did not finish, in the same order, with reasons.
    pub unfinished: Vec<(Job, Reason)>,
    /// Measurements over the measured time.
    pub totals: Totals,
    /// Periodic samples, if requested.
    pub series: Vec<Sample>,
}

/// The input of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, J> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Jobs that hold GPUs from the first submission on.
    pub occupants: &'a [Occupant],
    /// The jobs, in the order of submission.
    pub jobs: J,
    /// Number of jobs that [the options measure](Options::measures).
    pub measured: usize,
}

/// Receives the result of each measured job once it is known.
pub trait Results {
    /// A job finished. Jobs finish in the order of time.
    fn finished(&mut self, record: Record);

    /// A job did not finish.
    fn unfinished(&mut self, job: Job, reason: Reason);
}

/// Keeps all results.
#[derive(Debug, Default)]
struct Kept {
    records: Vec<Record>,
    unfinished: Vec<(Job, Reason)>,
}

impl Results for Kept {
    fn finished(&mut self, record: Record) {
        self.records.push(record);
    }

    fn unfinished(&mut self, job: Job, reason: Reason) {
        self.unfinished.push((job, reason));
    }
}

/// Simulates the jobs.
///
/// The order of `jobs` does not matter: times of submission and numbers determine the run.
///
/// # Panics
///
/// If two jobs have the same number, if an option is negative or NaN, or if the policy starts a job
/// that does not wait.
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

/// [`simulate`] with another source of the time to sum gradients in the network. Policies still use
/// the steady state. Jobs that sum by all-reduce do not use the source.
///
/// # Errors
///
/// If the source fails.
///
/// # Panics
///
/// As for [`simulate`].
pub fn simulate_by<S: Sums>(
    cluster: &Cluster,
    jobs: &[Job],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
    sums: &mut S,
) -> Result<Outcome, S::Error> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(by_submission);
    let numbers: HashSet<JobId> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(numbers.len(), jobs.len(), "every job has a number of its own");
    let measured = jobs.iter().filter(|job| options.measures(job)).count();
    let input = Input { cluster, occupants: &[], jobs: jobs.into_iter(), measured };
    let mut kept = Kept::default();
    let (totals, series) = simulate_each(input, policy, options, observer, sums, &mut kept)?;
    let Kept { mut records, mut unfinished } = kept;
    records.sort_by(|a, b| by_submission(&a.job, &b.job));
    unfinished.sort_by(|(a, _), (b, _)| by_submission(a, b));
    Ok(Outcome { records, unfinished, totals, series })
}

/// [`simulate_by`] for a cluster that may be occupied, with jobs that are made and results that are
/// used one by one. Memory holds only the jobs that wait or run, so a trace may have any length.
///
/// # Errors
///
/// If the source of sums fails.
///
/// # Panics
///
/// If the jobs are not in the order of submission, if two jobs that wait or run have the same
/// number, if the occupants do not fit the cluster, if an option is negative or NaN, or if the
/// policy starts a job that does not wait.
pub fn simulate_each<S: Sums>(
    input: Input<'_, impl Iterator<Item = Job>>,
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
    sums: &mut S,
    results: &mut dyn Results,
) -> Result<(Totals, Vec<Sample>), S::Error> {
    engine::Engine::new(input, options, results).run(policy, observer, sums)
}

fn by_submission(a: &Job, b: &Job) -> Ordering {
    a.submit_s.total_cmp(&b.submit_s).then(a.id.cmp(&b.id))
}

#[cfg(test)]
mod tests;
