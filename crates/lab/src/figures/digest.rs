//! Simulations of traces of any length: results are added up while they come.

use std::sync::atomic::{AtomicU64, Ordering};

use tributary_base::on_all_cores;
use tributary_cluster::metrics::{Summary, Tally};
use tributary_cluster::model::Profile;
use tributary_cluster::occupied::Occupant;
use tributary_cluster::simulate::{
    Communication, Input, Options, Reason, Record, Results, Sample, SteadyState, simulate_each,
};
use tributary_cluster::trace::Trace;
use tributary_cluster::{Cluster, Job};

use super::runs::{Progress, RunError, Watch, policy};

/// Number of points of a distribution.
const POINTS: usize = 200;

/// One simulation of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Jobs that run there from the start.
    pub occupants: &'a [Occupant],
    /// The trace.
    pub trace: &'a Trace,
    /// The models that jobs train.
    pub profiles: &'a [Profile],
    /// The seed that draws them.
    pub seed: u64,
    /// The policy's name.
    pub policy: &'a str,
    /// The options.
    pub options: Options,
    /// Whether the result of each job is kept. This takes some hundred bytes per job.
    pub keep: bool,
}

/// What is kept of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Digest {
    /// The measures.
    pub summary: Summary,
    /// Periodic samples, if requested.
    pub series: Vec<Sample>,
    /// Points of the distribution of completion times: seconds, and the part of the jobs that take
    /// no longer.
    pub distribution: Vec<(f64, f64)>,
    /// If results are kept, the measured jobs that finished, by time of submission, then by number.
    pub records: Vec<Record>,
    /// If results are kept, the others in the same order, with reasons.
    pub unfinished: Vec<(Job, Reason)>,
}

/// The results so far.
#[derive(Default)]
struct Collected {
    tally: Tally,
    keep: bool,
    records: Vec<Record>,
    unfinished: Vec<(Job, Reason)>,
}

impl Results for Collected {
    fn finished(&mut self, record: Record) {
        self.tally.add(&record);
        if self.keep {
            self.records.push(record);
        }
    }

    fn unfinished(&mut self, job: Job, reason: Reason) {
        self.tally.add_unfinished(reason);
        if self.keep {
            self.unfinished.push((job, reason));
        }
    }
}

/// Runs simulations, checked like those of [`run`](super::run).
///
/// # Errors
///
/// If a policy is unknown, or a plan or a rate is invalid.
pub fn digest(trials: &[Trial<'_>], progress: Progress<'_>) -> Result<Vec<Digest>, RunError> {
    for trial in trials {
        policy(trial.policy, trial.options.communication)?;
    }
    let total = trials.iter().map(|trial| measured(trial) as u64).sum();
    let done = AtomicU64::new(0);
    on_all_cores(trials.len(), &|_, _| (), |at| {
        let tell = |more| progress(done.fetch_add(more, Ordering::Relaxed) + more, total);
        one(&trials[at], &tell)
    })
}

/// Number of jobs that are measured.
fn measured(trial: &Trial<'_>) -> usize {
    let submissions = trial.trace.submissions.iter();
    submissions.filter(|job| trial.options.measures_at(job.submit_s)).count()
}

fn one(trial: &Trial<'_>, tell: &dyn Fn(u64)) -> Result<Digest, RunError> {
    let mut policy = policy(trial.policy, trial.options.communication)?;
    let in_network = trial.options.communication == Communication::InNetwork;
    let mut watch = Watch::new(trial.cluster, in_network, tell);
    let mut results = Collected { keep: trial.keep, ..Collected::default() };
    let input = Input {
        cluster: trial.cluster,
        occupants: trial.occupants,
        jobs: trial.trace.stream(trial.profiles, trial.seed),
        measured: measured(trial),
    };
    let Ok((totals, series)) = simulate_each(
        input,
        &mut *policy,
        &trial.options,
        &mut watch,
        &mut SteadyState,
        &mut results,
    );
    watch.check(trial.policy)?;
    let Collected { mut tally, mut records, mut unfinished, .. } = results;
    // Jobs of a trace are numbered in the order of submission.
    records.sort_unstable_by_key(|record| record.job.id);
    unfinished.sort_unstable_by_key(|(job, _)| job.id);
    let summary = tally.summary(&totals);
    Ok(Digest { summary, series, distribution: distribution(tally.times_s()), records, unfinished })
}

/// Points of the distribution of some ascending times.
fn distribution(times_s: &[f64]) -> Vec<(f64, f64)> {
    let step = times_s.len().div_ceil(POINTS).max(1);
    let part = |at: usize| (at + 1) as f64 / times_s.len() as f64;
    let chosen = times_s.iter().enumerate();
    let chosen = chosen.filter(|(at, _)| at % step == 0 || at + 1 == times_s.len());
    chosen.map(|(at, &time_s)| (time_s, part(at))).collect()
}
