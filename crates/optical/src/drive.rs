//! Slot after slot until all jobs are done: algorithm 1.

use crate::allocation::{Allocation, Shape};
use crate::limits;
use crate::scheduler::Take;
use crate::transfer::{Transfer, grown};
use crate::{Circuits, Error, Job, Network, Schedule, Slot};

/// What a scheduler may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// Whether switches aggregate.
    pub(crate) inc: bool,
    /// Whether circuits may change.
    pub(crate) reconfigure: bool,
    /// How much bandwidth a job may take.
    pub(crate) take: Take,
}

/// Schedules jobs by a decision for each slot, from the circuits before the first one.
///
/// The paper's schedulers start from uniform circuits, with and without reconfiguration. Table I counts one
/// new circuit for 40 jobs, which is only possible if there are circuits at the start.
pub(crate) fn drive(
    network: &Network,
    jobs: &[Job],
    initial: Circuits,
    rules: Rules,
    decide: impl Fn(&mut Allocation<'_>),
) -> Result<Schedule, Error> {
    network.check()?;
    let most = limits::slots(network, jobs);
    for job in jobs {
        check(network, job)?;
        limits::check(job, 0, most)?;
    }
    let fixed = (!rules.reconfigure).then_some(&initial);
    let shapes = jobs.iter().map(|job| prepare(network, job, rules, fixed));
    let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
    let mut waiting: Vec<usize> = (0..jobs.len()).filter(|&job| jobs[job].bits > 0.0).collect();
    waiting.sort_by_key(|&job| std::cmp::Reverse((jobs[job].arrival, job)));
    let mut active: Vec<usize> = Vec::new();
    let mut transfers: Vec<Option<Transfer>> = vec![None; jobs.len()];
    let mut ways = vec![0; jobs.len()];
    let mut circuits = initial.clone();
    let mut slots = Vec::new();
    while !waiting.is_empty() || !active.is_empty() {
        if slots.len() == most {
            return Err(Error::Long(most));
        }
        let here = |job: &mut usize| jobs[*job].arrival <= slots.len();
        while let Some(job) = waiting.pop_if(here) {
            active.push(job);
        }
        let freedom = (!rules.reconfigure, rules.take);
        let mut slot =
            Allocation::new(network, jobs, &shapes, &active, &transfers, &circuits, &ways, freedom);
        decide(&mut slot);
        let now = slot.circuits();
        let (chosen, rates) = (slot.ways, slot.rates);
        active.retain(|&job| {
            if rates[job] == 0.0 {
                return true;
            }
            ways[job] = chosen[job];
            let transfer =
                transfers[job].get_or_insert_with(|| Transfer::new(&jobs[job], ways[job]));
            let new = |a, b| grown(&circuits, &now, a, b);
            transfer.send(network, &jobs[job], ways[job], rates[job], new);
            !transfer.is_over()
        });
        slots.push(Slot { circuits: now.clone(), rates });
        circuits = now;
    }
    Ok(Schedule { ways, initial, slots })
}

/// The shapes of a job's ways. `fixed` are the circuits if they cannot change.
pub(crate) fn prepare(
    network: &Network,
    job: &Job,
    rules: Rules,
    fixed: Option<&Circuits>,
) -> Result<Vec<Shape>, Error> {
    let shapes: Vec<Shape> = job.ways.iter().map(|way| Shape::new(network, way, fixed)).collect();
    let mut ways = job.ways.iter().zip(&shapes).filter(|(_, shape)| shape.step > 0.0);
    if ways.any(|(way, _)| way.inc.is_none_or(|unit| rules.inc && network.unit(unit).inc > 0)) {
        return Ok(shapes);
    }
    let problem = if rules.reconfigure {
        "its flows need more ports than a unit has; split it, or give units more ports"
    } else {
        "two of its units have no circuit, and circuits cannot change; allow it, or give units more \
         ports"
    };
    Err(Error::job(job.id, problem))
}

/// Checks that a job fits the network's shape.
pub(crate) fn check(network: &Network, job: &Job) -> Result<(), Error> {
    let units = network.units.len();
    let Some(first) = job.ways.first() else {
        return Err(Error::job(job.id, "it has no way; give it one without aggregation"));
    };
    if first.inc.is_some() {
        return Err(Error::job(
            job.id,
            "its first way aggregates; put the one that does not first",
        ));
    }
    for way in &job.ways {
        let ends = way.flows.iter().flat_map(|flow| [flow.from, flow.to]).chain(way.inc);
        if way.load.len() != units || ends.into_iter().any(|unit| unit.0 >= units) {
            let problem = format!("it was made for another network than this one of {units} units");
            return Err(Error::job(job.id, problem));
        }
        if way.flows.is_empty() && job.bits > 0.0 {
            return Err(Error::job(job.id, "a way has no flows; give it at least one"));
        }
    }
    Ok(())
}
