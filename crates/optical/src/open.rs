//! Schedules that other programs can read and check: circuits, rates and data by slot, and when each job ends.
//!
//! The JSON is documented in docs/evaluation/optical.md. `examples/optical/check.py` reads it.

use serde::Serialize;

use crate::check::check;
use crate::transfer::{Transfer, grown};
use crate::{Circuits, Job, Network, Schedule, Slot, UnitId, Violation};

const MEGABYTE: f64 = 8e6;
const GIGABIT: f64 = 1e9;

/// A valid schedule with all that follows from it. Megabytes are 10⁶ bytes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Open {
    /// What made the schedule.
    pub scheduler: String,
    /// Seconds from the start of slot 0 to the end of the last job: CT-BTI.
    pub completion_s: f64,
    /// Circuits that are set up over all slots.
    pub new_circuits: u32,
    /// Circuits before slot 0: two units, the lower number first, and their number, which is not 0.
    pub initial: Vec<(usize, usize, u32)>,
    /// By job.
    pub jobs: Vec<OpenJob>,
    /// The slots, from 0 on.
    pub slots: Vec<OpenSlot>,
}

/// What a schedule decides for a job, and when it ends.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OpenJob {
    /// Its number.
    pub job: u32,
    /// The unit whose switch aggregates, if one does.
    pub switch: Option<usize>,
    /// The first slot in which it sends, if it sends.
    pub first_slot: Option<usize>,
    /// The last slot in which it sends, if it sends.
    pub last_slot: Option<usize>,
    /// Seconds from the start of slot 0 to its end, with its update.
    pub completion_s: f64,
}

/// A slot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OpenSlot {
    /// Its number.
    pub slot: usize,
    /// Circuits, as [`Open::initial`].
    pub circuits: Vec<(usize, usize, u32)>,
    /// Two units, the lower number first, and by how much their number of circuits differs from the slot before.
    /// Only pairs whose number changes.
    pub moves: Vec<(usize, usize, i64)>,
    /// The jobs that send.
    pub sends: Vec<OpenSend>,
}

/// What a job sends in a slot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OpenSend {
    /// Its number.
    pub job: u32,
    /// The rate in Gb/s of a worker, or of a coflow's largest demand.
    pub rate_gbps: f64,
    /// By flow.
    pub flows: Vec<OpenFlow>,
}

/// What a flow sends in a slot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OpenFlow {
    /// The unit in which it starts.
    pub from: usize,
    /// The unit in which it ends, which may be the same.
    pub to: usize,
    /// Megabytes that arrive in the slot.
    pub sent_megabytes: f64,
    /// Megabytes that are left after the slot.
    pub left_megabytes: f64,
}

impl Open {
    /// Opens a schedule of a scheduler.
    ///
    /// # Errors
    /// A rule that the schedule breaks.
    ///
    /// # Panics
    /// As [`check`](fn@check).
    pub fn new(
        scheduler: &str,
        network: &Network,
        jobs: &[Job],
        schedule: &Schedule,
    ) -> Result<Self, Violation> {
        let checked = check(network, jobs, schedule);
        let checked = checked.map_err(|mut violations| violations.swap_remove(0))?;
        let slots = &schedule.slots;
        let open = |(at, job): (usize, &Job)| {
            let sends = |slot: &Slot| slot.rates[at] > 0.0;
            OpenJob {
                job: job.id,
                switch: job.ways[schedule.ways[at]].inc.map(|unit| unit.0),
                first_slot: slots.iter().position(sends),
                last_slot: slots.iter().rposition(sends),
                completion_s: checked.completions[at],
            }
        };
        Ok(Self {
            scheduler: scheduler.to_owned(),
            completion_s: checked.completion,
            new_circuits: checked.reconfigured,
            initial: pairs(&schedule.initial),
            jobs: jobs.iter().enumerate().map(open).collect(),
            slots: open_slots(network, jobs, schedule),
        })
    }
}

fn open_slots(network: &Network, jobs: &[Job], schedule: &Schedule) -> Vec<OpenSlot> {
    let ways = jobs.iter().zip(&schedule.ways);
    let mut transfers: Vec<Transfer> = ways.map(|(job, &way)| Transfer::new(job, way)).collect();
    let mut before = &schedule.initial;
    let mut open = Vec::with_capacity(schedule.slots.len());
    for (slot, Slot { circuits, rates }) in schedule.slots.iter().enumerate() {
        let mut sends = Vec::new();
        for (at, (job, &rate)) in jobs.iter().zip(rates).enumerate() {
            let (transfer, way) = (&mut transfers[at], schedule.ways[at]);
            let was = transfer.left.clone();
            transfer.send(network, job, way, rate, |a, b| grown(before, circuits, a, b));
            if rate > 0.0 {
                let flows = job.ways[way].flows.iter().zip(was.iter().zip(&transfer.left));
                let flows = flows.map(|(flow, (was, left))| OpenFlow {
                    from: flow.from.0,
                    to: flow.to.0,
                    sent_megabytes: (was - left) / MEGABYTE,
                    left_megabytes: left / MEGABYTE,
                });
                let rate_gbps = rate / GIGABIT;
                sends.push(OpenSend { job: job.id, rate_gbps, flows: flows.collect() });
            }
        }
        open.push(OpenSlot {
            slot,
            circuits: pairs(circuits),
            moves: moves(before, circuits),
            sends,
        });
        before = circuits;
    }
    open
}

/// The pairs of units that have circuits.
fn pairs(circuits: &Circuits) -> Vec<(usize, usize, u32)> {
    let all = circuits.pairs().filter(|&(_, _, count)| count > 0);
    all.map(|(UnitId(a), UnitId(b), count)| (a, b, count)).collect()
}

/// The pairs of units whose number of circuits changes.
fn moves(before: &Circuits, now: &Circuits) -> Vec<(usize, usize, i64)> {
    let both = before.pairs().zip(now.pairs());
    let change = both.map(|((UnitId(a), UnitId(b), was), (_, _, count))| {
        (a, b, i64::from(count) - i64::from(was))
    });
    change.filter(|&(_, _, change)| change != 0).collect()
}
