//! A scheduler beside the paper's: it searches for the earliest completion time that it can keep.
//!
//! For a given time, `ways` spreads the jobs over their ways, and `construct` fills slot after slot
//! so that each job meets its own deadline. If jobs are late, they get more weight, and the slots are
//! filled again; after some attempts, the jobs are also spread again, with these weights. The search starts at the combinatorial lower bound and ends with a bisection of the
//! times at which a batch can end.

mod construct;
mod turns;
mod ways;

use crate::instance::Instance;
use crate::{Circuits, Error, Job, Network, Schedule, Scheduler, bound};

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
    /// If a job cannot be carried out at all.
    pub fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        let instance = Instance::new(network, jobs)?;
        let mut search = Search {
            instance: &instance,
            constructor: Constructor::new(&instance, self.initial.as_ref()),
            options: vec![0; jobs.len()],
        };
        Ok(search.run().schedule)
    }
}

/// Starts from uniform circuits, as the paper's schedulers do here, unless others are given.
impl Scheduler for Refine {
    fn name(&self) -> &str {
        "INC-Refine"
    }

    fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        let initial = self.initial.clone().unwrap_or_else(|| Circuits::uniform(network));
        Self::schedule(&Self { initial: Some(initial) }, network, jobs)
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
}

impl Search<'_> {
    fn run(&mut self) -> Found {
        let mut failed = bound::quick(self.instance);
        let mut found = self.attempt(failed);
        let mut step = self.instance.network.slot;
        while found.is_none() {
            found = self.attempt(failed + step);
            if found.is_none() {
                failed += step;
                step *= 1.5;
            }
        }
        let mut best = found.expect("the loop ends with a schedule");
        let times = self.instance.times(failed, best.completion);
        let (mut low, mut high) = (0, times.partition_point(|&time| time < best.completion - 1e-9));
        while low < high {
            let middle = (low + high) / 2;
            match self.attempt(times[middle]) {
                Some(found) => {
                    high = times.partition_point(|&time| time < found.completion - 1e-9);
                    best = found;
                }
                None => low = middle + 1,
            }
        }
        best
    }

    /// Tries to complete all jobs by a time.
    fn attempt(&mut self, time: f64) -> Option<Found> {
        let mut weights = vec![1.0; self.instance.jobs.len()];
        for attempt in 0..ATTEMPTS {
            // Resources that late jobs need look fuller, so that others leave them.
            if attempt % ROUND == 0
                && !ways::assign(self.instance, time, &weights, &mut self.options)
            {
                return None;
            }
            match self.constructor.fill(
                time,
                &self.options,
                &weights,
                STYLES[attempt % STYLES.len()],
            ) {
                Ok(slots) => return Some(self.constructor.finish(&self.options, slots)),
                Err(late) => late.into_iter().for_each(|job| weights[job] *= GROWTH),
            }
        }
        None
    }
}
