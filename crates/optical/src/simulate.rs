//! Experiments: schedulers over workloads and seeds, on all cores.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::time::{ClockId, clock_gettime};

use crate::{Error, Scheduler, Setting, Shuffle, outcome};

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
    /// Processor time in seconds per slot.
    pub per_slot: f64,
}

/// Runs each scheduler in each case, with seeds from 0. The results are in the order of cases,
/// schedulers and seeds. `progress` gets the number of finished runs and of all runs.
///
/// # Errors
/// If a workload is impossible, or cannot be scheduled.
pub fn simulate(
    cases: &[Case<'_>],
    schedulers: &[Box<dyn Scheduler + Send + Sync>],
    seeds: u64,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Run>, Error> {
    let total = cases.len() * schedulers.len() * seeds as usize;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total {
                break;
            }
            let (rest, seed) = (at / seeds as usize, at as u64 % seeds);
            let (case, scheduler) = (rest / schedulers.len(), rest % schedulers.len());
            let result = one(&cases[case], &*schedulers[scheduler], seed);
            let result = result.map(|run| Run { case, scheduler, ..run });
            results.lock().expect("no run panics with this lock").insert(at, result);
            progress(done.fetch_add(1, Ordering::Relaxed) as u64 + 1, total as u64);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(total);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    results.into_inner().expect("all threads have ended").into_values().collect()
}

fn one(case: &Case<'_>, scheduler: &dyn Scheduler, seed: u64) -> Result<Run, Error> {
    let network = case.setting.network();
    let jobs = match case.load {
        Load::Training => case.setting.training(case.jobs, seed)?,
        Load::MapReduce(trace) => case.setting.map_reduce(trace, case.jobs, seed)?,
    };
    let start = processor_time();
    let schedule = scheduler.schedule(&network, &jobs)?;
    let seconds = processor_time() - start;
    let outcome = outcome(&network, &jobs, &schedule);
    Ok(Run {
        case: 0,
        scheduler: 0,
        seed,
        reconfigurations: outcome.reconfigurations,
        ct_bti: outcome.ct_bti,
        slots: outcome.slots,
        per_slot: seconds / outcome.slots.max(1) as f64,
    })
}

/// Seconds that this thread has used a processor. Unlike the time of day, other processes do not add
/// to it.
fn processor_time() -> f64 {
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
    use crate::schedulers;

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
        let run = || simulate(&cases, &schedulers(), 2, &|_, _| ()).unwrap();
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
