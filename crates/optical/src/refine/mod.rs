//! A scheduler beside the paper's: the best schedule that any of them finds.
//!
//! Its own search is for the earliest completion time that it can keep. For a given time, `ways` spreads the
//! jobs over their ways, and `construct` fills slot after slot so that each job meets its own deadline. If
//! jobs are late, they get more weight, and the slots are filled again; after some attempts, the jobs are also
//! spread again, with these weights. The search starts at the combinatorial lower bound and ends with a
//! bisection of the times at which a batch can end.
//!
//! `best` sets the paper's schedulers beside it, and the same with fewer ports. So no scheduler is better,
//! and a port more in every unit is never worse.

mod best;
mod construct;
mod running;
mod turns;
mod ways;

use crate::instance::Instance;
use crate::{Circuits, Error, Job, Network, Schedule, Scheduler};

use best::{Start, best};
use construct::{Constructor, Style};

/// Attempts with new weights for each time.
const ATTEMPTS: usize = 16;

/// Number of attempts with the same ways.
const ROUND: usize = 4;

/// How the slots are filled in the attempts, in turn. No style is best for all instances.
const STYLES: [Style; 4] = [
    Style::Turns { start: 0.4, power: 1 },
    Style::Share,
    Style::Turns { start: 0.05, power: 1 },
    Style::Turns { start: 0.2, power: 2 },
];

/// Factor by which the weight of a late job grows from attempt to attempt.
const GROWTH: f64 = 1.5;

/// Most jobs in slots that a search may fill. The instances of table I need a twentieth of it.
const EFFORT: usize = 4_000_000;

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
    constructor: Constructor<'a>,
    /// By job: the index of the way among its usable ones, of the latest attempt.
    options: Vec<usize>,
    /// Jobs in slots that may still be filled.
    effort: usize,
}

impl<'a> Search<'a> {
    fn new(instance: &'a Instance<'a>, initial: Option<&Circuits>) -> Self {
        Self {
            instance,
            constructor: Constructor::new(instance, initial),
            options: vec![0; instance.jobs.len()],
            effort: EFFORT,
        }
    }

    /// Searches from a lower bound on. `known` is the completion time of the best schedule that is known, which
    /// the answer need not beat.
    fn run(&mut self, bound: f64, known: f64) -> Option<Found> {
        let mut failed = bound;
        let mut best = self.attempt(failed);
        let mut step = self.instance.network.slot;
        let last = known.min(self.instance.longest());
        while best.is_none() && failed < last && self.effort > 0 {
            best = self.attempt(failed + step);
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
        while low < high && self.effort > 0 {
            let middle = (low + high) / 2;
            match self.attempt(times[middle]) {
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
    fn attempt(&mut self, time: f64) -> Option<Found> {
        let mut weights = vec![1.0; self.instance.jobs.len()];
        let slots = self.instance.deadline(time, 0.0);
        for attempt in 0..ATTEMPTS {
            // Resources that late jobs need look fuller, so that others leave them.
            if attempt % ROUND == 0
                && !ways::assign(self.instance, time, &weights, &mut self.options)
            {
                return None;
            }
            self.effort = self.effort.saturating_sub(slots.saturating_mul(self.options.len()));
            match self.constructor.fill(
                time,
                &self.options,
                &weights,
                STYLES[attempt % STYLES.len()],
            ) {
                Ok(slots) => return Some(self.constructor.finish(&self.options, slots)),
                Err(late) => late.into_iter().for_each(|job| weights[job] *= GROWTH),
            }
            if self.effort == 0 {
                break;
            }
        }
        None
    }
}
