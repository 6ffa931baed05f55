//! First come, first served (§VII.A).

use crate::allocation::Allocation;
use crate::drive::{Rules, drive};
use crate::online::decide;
use crate::scheduler::Take;
use crate::{Begun, Circuits, Decision, Error, Job, Network, Online, Schedule, Scheduler};

/// Jobs in the order of their arrivals, each with everything it can get.
///
/// The paper says that FCFS allocates resources to each job "greedily". We read that a job takes all
/// bandwidth that is free. A job that gets nothing waits, and later ones may pass it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fcfs {
    /// Whether switches aggregate.
    pub inc: bool,
    /// How much bandwidth a job may take.
    pub take: Take,
}

impl Fcfs {
    /// The scheduler of the paper. Jobs take everything.
    #[must_use]
    pub fn new(inc: bool) -> Self {
        Self { inc, take: Take::All }
    }
}

impl Scheduler for Fcfs {
    fn name(&self) -> &str {
        match (self.inc, self.take) {
            (false, Take::All) => "noINC-FCFS",
            (true, Take::All) => "INC-FCFS",
            (false, Take::Enough) => "noINC-FCFS, what it needs",
            (true, Take::Enough) => "INC-FCFS, what it needs",
        }
    }

    fn schedule(&self, network: &Network, jobs: &[Job]) -> Result<Schedule, Error> {
        self.schedule_from(network, jobs, Circuits::uniform(network))
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
    /// Schedules jobs, with these circuits before the first slot.
    pub(crate) fn schedule_from(
        &self,
        network: &Network,
        jobs: &[Job],
        initial: Circuits,
    ) -> Result<Schedule, Error> {
        drive(network, jobs, initial, self.rules(), |slot| self.fill(slot))
    }

    fn rules(&self) -> Rules {
        Rules { inc: self.inc, reconfigure: true, take: self.take }
    }

    fn fill(&self, slot: &mut Allocation<'_>) {
        for &job in slot.active {
            self.serve(slot, job);
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
