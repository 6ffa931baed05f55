//! A scheduler beside the paper's: the best schedule that any of them finds.
//!
//! Its own search is for the earliest completion time that it can keep. For a given time, `ways` spreads the
//! jobs over their ways, and `plan` gives job after job a place in all slots until its deadline. Jobs that find none
//! get more weight, and come earlier in the next attempt. `settle` keeps circuits from slot to slot, and checks that no
//! job misses data. The search starts at the combinatorial lower bound and ends with a bisection of the times at
//! which a batch can end.
//!
//! `best` sets the paper's schedulers beside it, and the same with fewer ports. So no scheduler is better,
//! and a port more in every unit is never worse.

mod best;
mod plan;
mod settle;
mod ways;

use crate::instance::Instance;
use crate::{Circuits, Error, Job, Network, Schedule, Scheduler};

use best::{Start, best};
use plan::{EFFORT, Plan};
use settle::settle;

/// Attempts for the times from the lower bound on until one is kept: a schedule that meets the bound ends the search.
const ATTEMPTS: usize = 16;

/// Attempts for each time of the bisection.
const BISECTED: usize = 8;

/// Factor by which the weight of a late job grows from attempt to attempt.
const GROWTH: f64 = 1.5;

/// The refining scheduler.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Refine {
    /// The circuits before slot 0. If there are none given, the scheduler chooses them: eqs. 7 and 9
    /// start at slot 1, so that the circuits of slot 0 are free.
    pub initial: Option<Circuits>,
}

impl Refine {
    /// Schedules jobs. Equal input gives equal schedules.
    ///
    /// # Errors
    /// If a job cannot be carried out at all, or no schedule is short enough.
    pub fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        best(network, jobs, self.initial.as_ref().map_or(Start::Free, Start::Given))
    }
}

/// Starts from uniform circuits, as the paper's schedulers do here, unless others are given.
impl Scheduler for Refine {
    fn name(&self) -> &str {
        "INC-Refine"
    }

    fn schedule_from(
        &self,
        network: &Network,
        jobs: &[Job],
        initial: Circuits,
    ) -> Result<Schedule, Error> {
        best(network, jobs, Start::Given(&initial))
    }

    fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        best(network, jobs, self.initial.as_ref().map_or(Start::Uniform, Start::Given))
    }
}

/// A schedule and the time in seconds at which its last job is complete.
struct Found {
    completion: f64,
    schedule: Schedule,
}

struct Search<'a> {
    instance: &'a Instance<'a>,
    plan: Plan<'a>,
    /// Circuits by pair before slot 0, if given.
    initial: Option<Vec<u32>>,
    /// By job: the index of the way among its usable ones, of the latest attempt.
    options: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(instance: &'a Instance<'a>, initial: Option<&Circuits>) -> Self {
        Self {
            instance,
            plan: Plan::new(instance),
            initial: initial.map(|circuits| instance.counts(circuits)),
            options: vec![0; instance.jobs.len()],
        }
    }

    /// Searches from a lower bound on. `known` is the completion time of the best schedule that is known, which
    /// the answer need not beat.
    fn run(&mut self, bound: f64, known: f64) -> Option<Found> {
        let mut failed = bound;
        let mut best = self.attempt(failed, ATTEMPTS);
        let mut step = self.instance.network.slot;
        let last = known.min(self.instance.longest());
        while best.is_none() && failed < last && self.plan.effort <= EFFORT {
            best = self.attempt(failed + step, ATTEMPTS);
            if best.is_none() {
                failed += step;
                step *= 1.5;
            }
        }
        let until = best.as_ref().map_or(known, |found| found.completion.min(known));
        if until.is_infinite() {
            return None;
        }
        let times = self.instance.times(failed, until);
        let before = |time: f64| times.partition_point(|&other| other < time - 1e-9);
        let (mut low, mut high) = (0, before(until));
        while low < high && self.plan.effort <= EFFORT {
            let middle = (low + high) / 2;
            match self.attempt(times[middle], BISECTED) {
                Some(found) => {
                    high = before(found.completion).min(middle);
                    best = Some(found);
                }
                None => low = middle + 1,
            }
        }
        best
    }

    /// Tries to complete all jobs by a time.
    fn attempt(&mut self, time: f64, attempts: usize) -> Option<Found> {
        // Large plans take memory, and time for each attempt.
        let numbers = self.instance.deadline(time, 0.0).saturating_mul(self.instance.pairs.len());
        if numbers > EFFORT || !ways::assign(self.instance, time, &mut self.options) {
            return None;
        }
        let mut weights = vec![1.0; self.options.len()];
        let mut prepare = vec![true; self.options.len()];
        for attempt in 0..attempts {
            self.plan.effort += numbers / 64;
            match self.plan.fill(time, &self.options, &weights, &prepare, attempt) {
                Ok(()) => {
                    let mut options = self.options.clone();
                    let slots = self.plan.result(&mut options);
                    match settle(self.instance, self.initial.as_deref(), &options, slots) {
                        Ok(found) => return Some(found),
                        Err(missing) => missing.into_iter().for_each(|job| prepare[job] = false),
                    }
                }
                Err(late) => late.into_iter().for_each(|job| weights[job] *= GROWTH),
            }
            if self.plan.effort > EFFORT {
                break;
            }
        }
        None
    }
}
