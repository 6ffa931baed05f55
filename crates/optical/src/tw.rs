//! Time windows: algorithms 2 and 3, one slot after the other (algorithm 1).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::allocation::Allocation;
use crate::drive::{Rules, drive};
use crate::matching::heaviest;
use crate::online::decide;
use crate::scheduler::Take;
use crate::window::{Share, window};
use crate::{Begun, Circuits, Decision, Error, Job, Network, Online, Schedule, Scheduler};

/// The paper's scheduler, "TW".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tw {
    /// Whether switches aggregate.
    pub inc: bool,
    /// Whether circuits change; otherwise they are uniform between all pairs.
    pub reconfigure: bool,
    /// How much bandwidth a job may take.
    pub take: Take,
}

impl Tw {
    /// The scheduler of the paper. Jobs take what ends their transfers.
    #[must_use]
    pub fn new(inc: bool, reconfigure: bool) -> Self {
        Self { inc, reconfigure, take: Take::Enough }
    }
}

impl Scheduler for Tw {
    fn name(&self) -> &str {
        match (self.inc, self.reconfigure, self.take) {
            (false, true, Take::Enough) => "noINC-TW",
            (true, true, Take::Enough) => "INC-TW",
            (false, false, Take::Enough) => "noINC-TW-NoRecon",
            (true, false, Take::Enough) => "INC-TW-NoRecon",
            (false, true, Take::All) => "noINC-TW, all bandwidth",
            (true, true, Take::All) => "INC-TW, all bandwidth",
            (false, false, Take::All) => "noINC-TW-NoRecon, all bandwidth",
            (true, false, Take::All) => "INC-TW-NoRecon, all bandwidth",
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

impl Online for Tw {
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

impl Tw {
    fn rules(&self) -> Rules {
        Rules { inc: self.inc, reconfigure: self.reconfigure, take: self.take }
    }

    fn fill(&self, slot: &mut Allocation<'_>) {
        if self.inc {
            assign(slot);
        }
        for port in by_window(slot) {
            fill(slot, port.jobs);
        }
        // New circuits for later ports can cost earlier jobs data (eq. 10).
        fill(slot, slot.active.to_vec());
    }
}

/// Assigns switches to jobs that have not begun (algorithm 2, lines 1 to 14).
///
/// The weight of a unit and a job is the traffic that needs no circuit any more, as the text has it
/// ("jobs with more inter-unit traffic"). Jobs that save nothing still get free capacity, because
/// aggregation saves their update: an edge weighs one bit more than its traffic.
fn assign(slot: &mut Allocation<'_>) {
    let units = slot.network.units.len();
    let jobs = slot.active.iter().copied().filter(|&job| !slot.has_begun(job));
    let mut jobs: Vec<usize> = jobs.filter(|&job| slot.inc_ways(job).next().is_some()).collect();
    let rounds = slot.inc.iter().copied().max().unwrap_or(0);
    for _ in 0..rounds {
        let mut weights = vec![0.0; units * jobs.len()];
        for (column, &job) in jobs.iter().enumerate() {
            for way in slot.inc_ways(job) {
                let unit = slot.jobs[job].ways[way].inc.expect("a way with aggregation");
                if slot.inc[unit.0] > 0 {
                    weights[unit.0 * jobs.len() + column] = slot.jobs[job].saved(way) + 1.0;
                }
            }
        }
        let matched = heaviest(units, jobs.len(), &weights);
        if matched.iter().all(Option::is_none) {
            break;
        }
        for (unit, column) in matched.iter().enumerate() {
            let Some(job) = column.map(|column| jobs[column]) else { continue };
            let at = |way: &usize| slot.jobs[job].ways[*way].inc == Some(crate::UnitId(unit));
            let way = slot.inc_ways(job).find(at).expect("an edge is a way");
            slot.ways[job] = way;
            slot.inc[unit] -= 1;
        }
        let mut column = 0;
        jobs.retain(|_| {
            column += 1;
            !matched.contains(&Some(column - 1))
        });
    }
}

/// A virtual port: a unit's server pool, or its side of the cross-connect.
struct Port {
    end: f64,
    jobs: Vec<usize>,
}

/// The virtual ports by the ends of their ideal windows, latest first (algorithm 2, line 16).
fn by_window(slot: &Allocation<'_>) -> Vec<Port> {
    let network = slot.network;
    let units = network.units.len();
    let mut shares: Vec<Vec<(usize, Share)>> = vec![Vec::new(); 2 * units];
    let mut crossing = vec![0.0; units];
    for &job in slot.active.iter().filter(|&&job| slot.can_send(job)) {
        let way = &slot.jobs[job].ways[slot.ways[job]];
        let update = way.update;
        let mut rest: f64 = 0.0;
        for (at, flow) in way.flows.iter().enumerate() {
            let left = slot.left(job, at);
            rest = rest.max(left / flow.weight);
            if flow.from != flow.to {
                crossing[flow.from.0] += left;
                crossing[flow.to.0] += left;
            }
        }
        for unit in 0..units {
            if way.load[unit] > 0.0 {
                shares[unit].push((job, Share { bits: way.load[unit] * rest, update }));
            }
            let bits = std::mem::take(&mut crossing[unit]);
            if bits > 0.0 {
                shares[units + unit].push((job, Share { bits, update }));
            }
        }
    }
    let capacity = |port: usize| match port.checked_sub(units) {
        None => network.units[port].bandwidth,
        Some(unit) => f64::from(network.units[unit].ports) * network.port_rate,
    };
    let port = |(port, shares): (usize, Vec<(usize, Share)>)| {
        let (jobs, shares): (Vec<_>, Vec<_>) = shares.into_iter().unzip();
        Port { end: window(capacity(port), &shares), jobs }
    };
    let mut ports: Vec<Port> = shares.into_iter().enumerate().map(port).collect();
    ports.sort_by(|a, b| b.end.total_cmp(&a.end));
    ports
}

/// Gives bandwidth to a port's jobs, step by step, always to the one that would end last (algorithm
/// 2, lines 17 to 32).
///
/// The printed loop tries a step for each job in each turn. Bandwidth only shrinks within a slot, so
/// a job whose step does not fit now never fits: it is enough to try the job that would end last.
fn fill(slot: &mut Allocation<'_>, jobs: Vec<usize>) {
    let candidate = |slot: &Allocation<'_>, job: usize| {
        let step = slot.step(job)?;
        let end = Seconds(slot.completion(job, slot.rates[job] + step));
        Some(Candidate { end, job: Reverse(job), step: Seconds(step), growths: slot.growths })
    };
    let mut queue: BinaryHeap<Candidate> =
        jobs.into_iter().filter_map(|job| candidate(slot, job)).collect();
    while let Some(found) = queue.pop() {
        let Reverse(job) = found.job;
        // Another job's new circuits change this one's step and end.
        if found.growths == slot.growths && !slot.raise(job, found.step.0) {
            continue;
        }
        queue.extend(candidate(slot, job));
    }
}

/// A job's next step, and the end of its iteration after it. The latest end is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    end: Seconds,
    job: Reverse<usize>,
    step: Seconds,
    growths: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Seconds(f64);

impl Eq for Seconds {}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seconds {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
