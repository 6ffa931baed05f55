//! First come, first served (§VII.A).

use crate::allocation::Allocation;
use crate::drive::{Rules, drive};
use crate::online::decide;
use crate::scheduler::Take;
use crate::{Begun, Circuits, Decision, Error, Job, Network, Online, Schedule, Scheduler};

/// Jobs in the order of their arrivals, each with everything it can get.
///
/// The paper says that FCFS allocates resources to each job "greedily". We read that a job takes all
/// bandwidth that is free. A job that gets nothing waits, and later ones may pass it, unless they are
/// [`ordered`](Self::ordered).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fcfs {
    /// Whether switches aggregate.
    pub inc: bool,
    /// How much bandwidth a job may take.
    pub take: Take,
    /// Whether no job passes one that gets nothing: "one by one in the sequence of their arrivals"
    /// (§VII.A), read literally.
    pub ordered: bool,
}

impl Fcfs {
    /// The scheduler of the paper. Jobs take everything.
    #[must_use]
    pub fn new(inc: bool) -> Self {
        Self { inc, take: Take::All, ordered: false }
    }
}

impl Scheduler for Fcfs {
    fn name(&self) -> &str {
        match (self.inc, self.take, self.ordered) {
            (false, Take::All, false) => "noINC-FCFS",
            (true, Take::All, false) => "INC-FCFS",
            (false, Take::Enough, false) => "noINC-FCFS, what it needs",
            (true, Take::Enough, false) => "INC-FCFS, what it needs",
            (false, Take::All, true) => "noINC-FCFS, in order",
            (true, Take::All, true) => "INC-FCFS, in order",
            (false, Take::Enough, true) => "noINC-FCFS, what it needs, in order",
            (true, Take::Enough, true) => "INC-FCFS, what it needs, in order",
        }
    }

    fn schedule_from(
        &self,
        network: &Network,
        jobs: &[Job],
        initial: Circuits,
    ) -> Result<Schedule, Error> {
        drive(network, jobs, initial, self.rules(), |slot| self.fill(slot))
    }
}

impl Online for Fcfs {
    fn decide(
        &self,
        network: &Network,
        jobs: &[Job],
        begun: &[Option<Begun>],
        before: &Circuits,
    ) -> Result<Decision, Error> {
        decide(network, jobs, begun, before, self.rules(), |slot| self.fill(slot))
    }
}

impl Fcfs {
    fn rules(&self) -> Rules {
        Rules { inc: self.inc, reconfigure: true, take: self.take }
    }

    fn fill(&self, slot: &mut Allocation<'_>) {
        for &job in slot.active {
            self.serve(slot, job);
            if self.ordered && slot.rates[job] == 0.0 {
                break;
            }
        }
    }

    fn serve(&self, slot: &mut Allocation<'_>, job: usize) {
        let begun = slot.has_begun(job);
        if !begun {
            let unit = |way: usize| slot.jobs[job].ways[way].inc.expect("a way with aggregation");
            let free = slot.inc_ways(job).filter(|&way| self.inc && slot.inc[unit(way).0] > 0);
            let saved = |way: usize| slot.jobs[job].saved(way);
            // The first one of those that save most.
            let best = free.reduce(|best, way| if saved(way) > saved(best) { way } else { best });
            slot.ways[job] = best.unwrap_or(0);
        }
        while let Some(step) = slot.step(job) {
            if !slot.raise(job, step) {
                break;
            }
        }
        if !begun
            && slot.rates[job] > 0.0
            && let Some(unit) = slot.jobs[job].ways[slot.ways[job]].inc
        {
            slot.inc[unit.0] -= 1;
        }
    }
}
