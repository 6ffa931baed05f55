//! Slots: a plan, and carrying it out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Error;
use tributary_model::{SummedAt, circuits::Circuits};
use tributary_protocol::Rate;
use tributary_wire::JobId;

use crate::orchestrator::planner::{End, JobState, Plan, Planner};

/// What became of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The job is there.
    Done,
    /// The switch has no room for it; it is where it was, or at its server.
    NoRoom,
    /// It failed for this reason.
    Failed(String),
}

/// A network with jobs, to carry plans out on. Nothing that goes wrong may stop the others, so every
/// method says what became of its own part.
#[allow(async_fn_in_trait, reason = "the futures run on one task")]
pub trait Plant {
    /// Time since some beginning.
    fn now(&self) -> Duration;

    /// The jobs that are to be scheduled.
    async fn jobs(&mut self) -> Vec<JobState>;

    /// The circuits that exist, as far as is known, read anew if possible.
    async fn circuits(&mut self) -> Circuits;

    /// Ends a job.
    ///
    /// # Errors
    /// Why it could not be ended; it is tried again in the next slot.
    async fn release(&mut self, job: JobId, end: End) -> Result<(), String>;

    /// Moves a job that is between iterations.
    async fn relocate(&mut self, job: JobId, to: SummedAt, aggregators: u32) -> Moved;

    /// Changes the circuits, and has switches route over them: first over those that stay, then over
    /// all that carry light. Returns the circuits that exist then, and what went wrong.
    async fn change(&mut self, next: &Circuits) -> (Circuits, Result<(), String>);

    /// Changes the rate of a job's workers.
    fn set_rate(&mut self, job: JobId, rate: Rate);

    /// Lets a job's workers begin an iteration at a rate.
    ///
    /// # Errors
    /// Why they could not.
    fn start(&mut self, job: JobId, number: u64, rate: Rate) -> Result<(), String>;
}

/// What was done in a slot.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotReport {
    /// When it began.
    pub at: Duration,
    /// The circuits at its end.
    pub circuits: Circuits,
    /// Circuits that were set up.
    pub new_circuits: usize,
    /// Jobs that were ended.
    pub released: Vec<(JobId, End)>,
    /// Jobs that were moved.
    pub moved: Vec<(JobId, SummedAt)>,
    /// The rate of each job that sends.
    pub rates: BTreeMap<JobId, Rate>,
    /// Iterations that were started.
    pub started: Vec<(JobId, u64)>,
    /// Running jobs that are seen to be late, with the greatest rate that their slowest worker can have kept up with.
    pub late: Vec<(JobId, Rate)>,
    /// What went wrong, one line each.
    pub problems: Vec<String>,
}

/// Plans and carries out the slot that begins now.
///
/// # Errors
/// If the network is impossible, so that nothing can ever be scheduled.
pub async fn slot<P: Plant>(planner: &mut Planner, plant: &mut P) -> Result<SlotReport, Error> {
    let at = plant.now();
    let before = plant.circuits().await;
    let jobs = plant.jobs().await;
    let Plan { releases, moves, circuits, rates, starts, late } =
        planner.plan(at, &jobs, &before)?;
    let mut report = SlotReport {
        at,
        circuits: before.clone(),
        new_circuits: 0,
        released: Vec::new(),
        moved: Vec::new(),
        rates: BTreeMap::new(),
        started: Vec::new(),
        late,
        problems: Vec::new(),
    };
    for (job, end) in releases {
        match plant.release(job, end).await {
            Ok(()) => report.released.push((job, end)),
            Err(problem) => report.problems.push(problem),
        }
    }
    let mut places: BTreeMap<JobId, SummedAt> =
        jobs.iter().map(|job| (job.id, job.place)).collect();
    for (job, to, aggregators) in moves {
        match plant.relocate(job, to, aggregators).await {
            Moved::Done => {
                report.moved.push((job, to));
                places.insert(job, to);
            }
            Moved::NoRoom => {
                planner.found_no_room(at, job, to);
                report.problems.push(format!(
                    "job {job}: the switch that was to sum it has no room; it is scheduled elsewhere for a while"
                ));
            }
            Moved::Failed(problem) => {
                planner.not_started(job);
                report.problems.push(problem);
            }
        }
    }
    if let Some(next) = circuits {
        let (now, outcome) = plant.change(&next).await;
        report.new_circuits = now.len() - before.kept(&now).len();
        report.circuits = now;
        report.problems.extend(outcome.err());
    }
    for (job, rate) in rates {
        plant.set_rate(job, rate);
        report.rates.insert(job, rate);
    }
    for (id, number, rate) in starts {
        let job = jobs.iter().find(|job| job.id == id).expect("only jobs of the list are planned");
        // It was not started if its move failed.
        if !planner.is_under_way(id) {
            continue;
        }
        let needs_light = !job.is_local() || places[&id] != SummedAt::Network;
        if needs_light && !planner.has_light(job, &report.circuits) {
            // The next slot tries again to make its circuits.
            planner.not_started(id);
            continue;
        }
        match plant.start(id, number, rate) {
            Ok(()) => {
                report.rates.insert(id, rate);
                report.started.push((id, number));
            }
            Err(problem) => {
                planner.not_started(id);
                report.problems.push(problem);
            }
        }
    }
    Ok(report)
}
