//! Experiments: schedulers over workloads and seeds, on all cores.

use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};

use crate::{
    Circuits, Error, Fcfs, Job, Network, Schedule, Scheduler, Setting, Shuffle, Tw, outcome,
};

/// What is scheduled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load<'a> {
    /// Training jobs.
    Training,
    /// MapReduce jobs drawn from a trace.
    MapReduce(&'a [Shuffle]),
}

/// A point of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Case<'a> {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The parameters.
    pub setting: Setting,
    /// Number of jobs.
    pub jobs: usize,
    /// What they are.
    pub load: Load<'a>,
}

/// What one scheduler did in one case with one seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    /// Index of the case.
    pub case: usize,
    /// Index of the scheduler.
    pub scheduler: usize,
    /// The seed.
    pub seed: u64,
    /// Circuits that were set up.
    pub reconfigurations: u32,
    /// Completion time of the batch in seconds.
    pub ct_bti: f64,
    /// Number of slots.
    pub slots: usize,
    /// Processor time of the schedule in seconds.
    pub seconds: f64,
}

impl Case<'_> {
    /// The network, and the jobs of a seed.
    pub(crate) fn instance(&self, seed: u64) -> Result<(Network, Vec<Job>), Error> {
        let jobs = match self.load {
            Load::Training => self.setting.training(self.jobs, seed)?,
            Load::MapReduce(trace) => self.setting.map_reduce(trace, self.jobs, seed)?,
        };
        Ok((self.setting.network(), jobs))
    }
}

/// The paper's schedulers, under its names: four for all figures, and the one of table I that cannot
/// change circuits.
#[must_use]
pub fn schedulers() -> Vec<Box<dyn Scheduler + Send + Sync>> {
    let mut all: Vec<Box<dyn Scheduler + Send + Sync>> = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs::new(inc)));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all.push(Box::new(Tw::new(true, false)));
    all
}

/// Runs each scheduler in each case with each seed. The results are in the order of cases,
/// schedulers and seeds. `progress` gets the number of finished runs and of all runs.
///
/// # Errors
/// If a workload is impossible, or cannot be scheduled.
pub fn simulate(
    cases: &[Case<'_>],
    schedulers: &[Box<dyn Scheduler + Send + Sync>],
    seeds: Range<u64>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Run>, Error> {
    let count = seeds.end.saturating_sub(seeds.start);
    tributary_base::on_all_cores(cases.len() * schedulers.len() * count as usize, progress, |at| {
        let (rest, seed) = (at / count as usize, seeds.start + at as u64 % count);
        let (case, scheduler) = (rest / schedulers.len(), rest % schedulers.len());
        let (network, jobs) = cases[case].instance(seed)?;
        let initial = cases[case].setting.initial();
        let (_, run) = run(&network, &jobs, initial, &*schedulers[scheduler])?;
        Ok(Run { case, scheduler, seed, ..run })
    })
}

/// Runs a scheduler with these circuits before the first slot, or uniform ones. Case, scheduler and seed of the result are 0.
pub(crate) fn run(
    network: &Network,
    jobs: &[Job],
    initial: Option<Circuits>,
    scheduler: &dyn Scheduler,
) -> Result<(Schedule, Run), Error> {
    let start = processor_time();
    let schedule = match initial {
        Some(initial) => scheduler.schedule_from(network, jobs, initial),
        None => scheduler.schedule(network, jobs),
    }?;
    let seconds = processor_time() - start;
    let outcome = outcome(network, jobs, &schedule);
    let run = Run {
        case: 0,
        scheduler: 0,
        seed: 0,
        reconfigurations: outcome.reconfigurations,
        ct_bti: outcome.ct_bti,
        slots: outcome.slots,
        seconds,
    };
    Ok((schedule, run))
}

/// Seconds that this thread has used a processor. Unlike the time of day, other processes do not add
/// to it.
pub(crate) fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The exponent *k* of growth as *xᵏ*: the slope of the regression line of logarithms; `None` with
/// fewer than two different *x*.
#[must_use]
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| logs.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (across > 0.0).then(|| both / across)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let points: Vec<(f64, f64)> = [2.0, 3.0, 7.0_f64].map(|x| (x, 5.0 * x.powf(1.5))).to_vec();
        assert!((exponent(&points).unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(exponent(&[(1.0, 2.0)]), None);
    }

    #[test]
    fn runs_are_in_order_and_repeatable() {
        let case =
            |jobs| Case { x: jobs as f64, setting: Setting::small(), jobs, load: Load::Training };
        let cases = [case(10), case(20)];
        let run = || simulate(&cases, &schedulers(), 0..2, &|_, _| ()).unwrap();
        let (first, second) = (run(), run());
        assert_eq!(first.len(), 2 * 5 * 2);
        let key = |run: &Run| (run.case, run.scheduler, run.seed);
        assert!(first.is_sorted_by_key(key));
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(
                (key(a), a.reconfigurations, a.ct_bti),
                (key(b), b.reconfigurations, b.ct_bti)
            );
        }
    }
}
