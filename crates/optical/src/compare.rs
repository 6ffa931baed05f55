//! Schedulers against the exact optimum, as in table I.

use std::time::Duration;

use crate::simulate::{processor_time, run};
use crate::{Case, Circuits, Exact, Run, Scheduler, Unsolved, check, outcome};
use tributary_base::on_all_cores;

/// All schedulers and the exact model on one instance.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Index of the case.
    pub case: usize,
    /// The seed.
    pub seed: u64,
    /// By scheduler: what it did.
    pub runs: Vec<Run>,
    /// The least known CT-BTI in seconds.
    pub completion: f64,
    /// The greatest proven lower bound on CT-BTI in seconds.
    pub bound: f64,
    /// Circuits that the schedule with the least known CT-BTI sets up. The exact model does not
    /// minimise them.
    pub reconfigurations: u32,
    /// Processor time of the exact model in seconds, without the schedule that it starts from.
    pub seconds: f64,
}

impl Comparison {
    /// Whether the least known CT-BTI is proven to be the optimum.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.completion <= self.bound
    }

    /// How far a CT-BTI is above the optimum, as a fraction of it. Without a proof, the bound takes the
    /// place of the optimum, so that the answer is not too small.
    #[must_use]
    pub fn above(&self, ct_bti: f64) -> f64 {
        ct_bti / self.bound.min(self.completion) - 1.0
    }
}

/// Runs each scheduler and then the exact model in each case, with seeds from 0. The results are in the
/// order of cases and seeds.
///
/// All start with uniform circuits. The exact model starts from the best schedule, among equals from
/// the one with the fewest new circuits, and has `limit` for each instance. `progress` gets the number
/// of finished instances and of all instances.
///
/// # Errors
/// If a workload is impossible, a job cannot be scheduled, or a schedule is invalid.
pub fn compare(
    cases: &[Case<'_>],
    schedulers: &[Box<dyn Scheduler + Send + Sync>],
    seeds: u64,
    limit: Duration,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Comparison>, Unsolved> {
    on_all_cores(cases.len() * seeds as usize, progress, |at| {
        let (case, seed) = (at / seeds as usize, at as u64 % seeds);
        let (network, jobs) = cases[case].instance(seed)?;
        let mut runs = Vec::new();
        let mut best = None;
        for (scheduler, one) in schedulers.iter().enumerate() {
            let (schedule, run) = run(&network, &jobs, None, &**one)?;
            check(&network, &jobs, &schedule)
                .map_err(|mut violations| Unsolved::Start(violations.swap_remove(0)))?;
            let rank = (run.ct_bti, run.reconfigurations);
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                best = Some((rank, schedule));
            }
            runs.push(Run { case, scheduler, seed, ..run });
        }
        let (_, start) = best.expect("at least one scheduler");
        let exact = Exact { initial: Some(Circuits::uniform(&network)), limit };
        let before = processor_time();
        let solved = exact.solve(&network, &jobs, start)?;
        let seconds = processor_time() - before;
        let outcome = outcome(&network, &jobs, &solved.schedule);
        Ok(Comparison {
            case,
            seed,
            runs,
            completion: solved.completion,
            bound: solved.bound,
            reconfigurations: outcome.reconfigurations,
            seconds,
        })
    })
}
