//! Fills slots so that jobs meet their deadlines.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::instance::{Choice, Instance};
use crate::{Circuits, Schedule, Slot};

use super::Found;
use super::running::Running;
use super::turns::Turns;

/// Circuits and rates by slot.
pub(super) type Slots = Vec<(Vec<u32>, Vec<f64>)>;

pub(super) struct Constructor<'a> {
    instance: &'a Instance<'a>,
    /// Circuits by pair before slot 0, if given.
    initial: Option<Vec<u32>>,
}

/// How slots are filled.
#[derive(Clone, Copy)]
pub(super) enum Style {
    /// All jobs share circuits and bandwidth, in proportion to what they need until their deadlines.
    Share,
    /// Jobs take turns.
    Turns {
        /// A job begins to send if it gets this share of the most that it can use.
        start: f64,
        /// Exponent of the efficiency with which a job uses new circuits, for its priority.
        power: i32,
    },
}

impl<'a> Constructor<'a> {
    pub(super) fn new(instance: &'a Instance<'a>, initial: Option<&Circuits>) -> Self {
        Self { instance, initial: initial.map(|circuits| instance.counts(circuits)) }
    }

    /// Fills slots. `options` has the way and `weights` the importance of each job.
    ///
    /// Errors: the jobs that are late.
    pub(super) fn fill(
        &self,
        time: f64,
        options: &[usize],
        weights: &[f64],
        style: Style,
    ) -> Result<Slots, Vec<usize>> {
        let network = self.instance.network;
        let (slot, penalty) = (network.slot, network.reconfiguration);
        let mut jobs: Vec<Option<Running<'_>>> = Vec::with_capacity(options.len());
        for (job, &option) in self.instance.jobs.iter().zip(options) {
            let choice = &job.options[option];
            let deadline = self.instance.deadline(time, choice.update);
            jobs.push((job.bits > 0.0).then(|| Running {
                choice,
                deadline,
                planned: deadline,
                left: vec![job.bits; choice.pairs.len() + 1],
                rate: 0.0,
                started: false,
            }));
        }
        let mut slots: Slots = Vec::new();
        let mut late = Vec::new();
        while jobs.iter().any(Option::is_some) {
            let now = slots.len();
            for (index, job) in jobs.iter_mut().enumerate() {
                if job.as_ref().is_some_and(|job| job.deadline <= now) {
                    late.push(index);
                    *job = None;
                }
            }
            let admitted = self.admit(now, &mut jobs, weights);
            let before = slots.last().map(|(circuits, _)| circuits).or(self.initial.as_ref());
            let (circuits, rates, grown) = match style {
                Style::Turns { start, power } => {
                    let turns = Turns::new(self.instance, now, &jobs, weights, before);
                    let (mut circuits, mut free, mut rates) = turns.run(&admitted, start, power);
                    if let Some(before) = before {
                        self.keep(before, &mut circuits, &mut free);
                    }
                    let grown = grown(&circuits, before);
                    for &index in &admitted {
                        let job = jobs[index].as_ref().expect("a job with data");
                        rates[index] = rates[index].min(job.finishing(&grown, slot, penalty));
                    }
                    (circuits, rates, grown)
                }
                Style::Share => {
                    let (circuits, sending) = self.connect(now, &jobs, &admitted, weights, before);
                    let grown = grown(&circuits, before);
                    let rates = self.rates(now, &jobs, &sending, weights, &circuits, &grown);
                    (circuits, rates, grown)
                }
            };
            for (job, &rate) in jobs.iter_mut().zip(&rates) {
                if rate > 0.0
                    && let Some(running) = job
                {
                    running.send(rate, &grown, slot, penalty);
                    if running.bits() <= 1e-9 * rate * slot {
                        *job = None;
                    }
                }
            }
            slots.push((circuits, rates));
        }
        if late.is_empty() { Ok(slots) } else { Err(late) }
    }

    /// The schedule of filled slots.
    pub(super) fn finish(&self, options: &[usize], slots: Slots) -> Found {
        let instance = self.instance;
        let choices: Vec<&Choice> =
            instance.jobs.iter().zip(options).map(|(job, &option)| &job.options[option]).collect();
        let mut completion = 0.0_f64;
        for (index, choice) in choices.iter().enumerate() {
            let last = slots.iter().rposition(|(_, rates)| rates[index] > 0.0);
            let end = last.map_or(instance.jobs[index].arrival, |last| last + 1);
            completion = completion.max(end as f64 * instance.network.slot + choice.update);
        }
        let none = vec![0; instance.pairs.len()];
        let first = slots.first().map_or(&none, |(circuits, _)| circuits);
        let initial = instance.circuits(self.initial.as_ref().unwrap_or(first));
        let slots = slots
            .into_iter()
            .map(|(circuits, rates)| Slot { circuits: instance.circuits(&circuits), rates });
        let ways = choices.iter().map(|choice| choice.way).collect();
        Found { completion, schedule: Schedule { ways, initial, slots: slots.collect() } }
    }

    /// The jobs that may send in a slot, by urgency: those that send already, then the others. No switch
    /// aggregates more than it can (eq. 3).
    fn admit(&self, now: usize, jobs: &mut [Option<Running<'_>>], weights: &[f64]) -> Vec<usize> {
        let network = self.instance.network;
        let units = network.units.len();
        // By unit: aggregators in use, and jobs that still need one.
        let mut used = vec![0; units];
        let mut waiting = vec![0_usize; units];
        for job in jobs.iter().flatten() {
            if let Some(unit) = job.choice.inc {
                if job.started { used[unit] += 1 } else { waiting[unit] += 1 }
            }
        }
        let slack = |index: usize, job: &Running<'_>| {
            let least = job.bits() / (job.choice.fastest * network.slot);
            ((job.deadline - now) as f64 - least) / weights[index]
        };
        let mut order: Vec<(bool, f64, usize)> = jobs
            .iter()
            .enumerate()
            .filter_map(|(index, job)| job.as_ref().map(|job| (index, job)))
            .filter(|(index, _)| self.instance.jobs[*index].arrival <= now)
            .map(|(index, job)| (!job.started, slack(index, job), index))
            .collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut admitted = Vec::with_capacity(order.len());
        for (new, _, index) in order {
            let job = jobs[index].as_mut().expect("a job with data");
            if let (true, Some(unit)) = (new, job.choice.inc) {
                let capacity = network.units[unit].inc;
                if used[unit] >= capacity {
                    continue;
                }
                used[unit] += 1;
                // If not all fit, they take turns.
                let turns = waiting[unit].max(1);
                let share = (job.deadline - now) * capacity as usize / turns;
                job.planned = job.deadline.min(now + share.max(job.choice.least).max(1));
            }
            admitted.push(index);
        }
        admitted
    }

    /// Keeps circuits that can stay.
    fn keep(&self, before: &[u32], counts: &mut [u32], free: &mut [u32]) {
        for (pair, &was) in before.iter().enumerate() {
            let (a, b) = self.instance.pairs[pair];
            let more = was.saturating_sub(counts[pair]).min(free[a]).min(free[b]);
            counts[pair] += more;
            free[a] -= more;
            free[b] -= more;
        }
    }

    /// What a job wants to send per second in a slot, times its weight.
    fn wanted(&self, now: usize, job: &Running<'_>, weight: f64) -> f64 {
        let slots = job.planned.saturating_sub(now).max(1) as f64;
        weight * job.bits() / (slots * self.instance.network.slot)
    }

    /// Chooses the circuits of a slot, and which jobs send through them.
    fn connect(
        &self,
        now: usize,
        jobs: &[Option<Running<'_>>],
        admitted: &[usize],
        weights: &[f64],
        before: Option<&Vec<u32>>,
    ) -> (Vec<u32>, Vec<usize>) {
        let instance = self.instance;
        let network = instance.network;
        let mut free: Vec<u32> = network.units.iter().map(|unit| unit.ports).collect();
        let mut counts = vec![0_u32; instance.pairs.len()];
        let mut needs = vec![0.0; instance.pairs.len()];
        let mut sending = Vec::with_capacity(admitted.len());
        for &index in admitted {
            let job = jobs[index].as_ref().expect("a job with data");
            // A job sends through all its pairs or not at all.
            let new: Vec<usize> = job
                .choice
                .pairs
                .iter()
                .map(|&(pair, _)| pair)
                .filter(|&p| counts[p] == 0)
                .collect();
            for &pair in &new {
                let (a, b) = instance.pairs[pair];
                counts[pair] = 1;
                free[a] = free[a].wrapping_sub(1);
                free[b] = free[b].wrapping_sub(1);
            }
            // A difference below 0 wraps around.
            let over = new.iter().any(|&pair| {
                let (a, b) = instance.pairs[pair];
                free[a] > network.units[a].ports || free[b] > network.units[b].ports
            });
            if over {
                for &pair in &new {
                    let (a, b) = instance.pairs[pair];
                    counts[pair] = 0;
                    free[a] = free[a].wrapping_add(1);
                    free[b] = free[b].wrapping_add(1);
                }
                continue;
            }
            let wanted = self.wanted(now, job, weights[index]) / network.port_rate;
            for &(pair, factor) in &job.choice.pairs {
                needs[pair] += factor * wanted;
            }
            sending.push(index);
        }
        if let Some(before) = before
            && counts.iter().zip(before).all(|(count, before)| count <= before)
        {
            let mut fresh = counts.clone();
            let mut left = free.clone();
            self.widen(&mut fresh, &mut left, &needs, 1.0);
            let kept = 1.0 - network.reconfiguration / network.slot;
            if served(before, &needs) >= served(&fresh, &needs).min(1.0) * kept {
                return (before.clone(), sending);
            }
        }
        self.widen(&mut counts, &mut free, &needs, 1.0);
        match before {
            Some(before) => self.keep(before, &mut counts, &mut free),
            None => self.widen(&mut counts, &mut free, &needs, f64::INFINITY),
        }
        (counts, sending)
    }

    /// Adds circuits where the fewest of those needed are there, as long as ports are free, until
    /// every pair has `enough` times what it needs.
    fn widen(&self, counts: &mut [u32], free: &mut [u32], needs: &[f64], enough: f64) {
        let entry =
            |pair: usize, count: u32| Widening { share: f64::from(count) / needs[pair], pair };
        let pairs = (0..counts.len()).filter(|&pair| needs[pair] > 0.0);
        let mut heap: BinaryHeap<Widening> = pairs.map(|pair| entry(pair, counts[pair])).collect();
        while let Some(Widening { share, pair }) = heap.pop() {
            let (a, b) = self.instance.pairs[pair];
            if share >= enough {
                break;
            }
            if free[a] == 0 || free[b] == 0 {
                continue;
            }
            free[a] -= 1;
            free[b] -= 1;
            counts[pair] += 1;
            heap.push(entry(pair, counts[pair]));
        }
    }

    /// Rates in a slot: all jobs' rates rise together, as multiples of what they want, until something
    /// stops them.
    fn rates(
        &self,
        now: usize,
        jobs: &[Option<Running<'_>>],
        sending: &[usize],
        weights: &[f64],
        circuits: &[u32],
        grown: &[bool],
    ) -> Vec<f64> {
        let network = self.instance.network;
        let pairs = circuits.len();
        let capacities: Vec<f64> = circuits
            .iter()
            .map(|&count| f64::from(count) * network.port_rate)
            .chain(network.units.iter().map(|unit| unit.bandwidth))
            .collect();
        // By resource: capacity left, and how fast it is taken.
        let mut free = capacities.clone();
        let mut speed = vec![0.0; free.len()];
        let mut rates = vec![0.0; jobs.len()];
        // Jobs whose rates still rise: speed, and the rate at which all data is sent.
        let mut rising: Vec<Option<(f64, f64)>> = vec![None; jobs.len()];
        for &index in sending {
            let job = jobs[index].as_ref().expect("a job with data");
            let wanted = self.wanted(now, job, weights[index]);
            let most = job.finishing(grown, network.slot, network.reconfiguration);
            rising[index] = Some((wanted, most));
            let load = job.choice.load.iter().map(|&(unit, factor)| (pairs + unit, factor));
            for (resource, factor) in job.choice.pairs.iter().copied().chain(load) {
                speed[resource] += factor * wanted;
            }
        }
        let mut level = 0.0;
        let mut left: Vec<usize> = sending.to_vec();
        while !left.is_empty() {
            // The first level at which a resource is full or a job has sent all.
            let until_full = |resource: usize| free[resource].max(0.0) / speed[resource];
            let until_done = |index: usize| {
                let (speed, most) = rising[index].expect("a rising rate");
                (most / speed - level).max(0.0)
            };
            let full = (0..free.len()).filter(|&resource| speed[resource] > 0.0).map(until_full);
            let step =
                full.chain(left.iter().copied().map(until_done)).fold(f64::INFINITY, f64::min);
            let near = step * (1.0 + 1e-9);
            let done: Vec<bool> = left.iter().map(|&index| until_done(index) <= near).collect();
            level += step;
            // Each round stops a job or a resource, so that the loop ends whatever is rounded.
            for resource in 0..free.len() {
                if speed[resource] == 0.0 {
                    continue;
                }
                if free[resource].max(0.0) / speed[resource] <= near {
                    (free[resource], speed[resource]) = (0.0, 0.0);
                } else {
                    free[resource] -= step * speed[resource];
                }
            }
            let mut place = 0;
            left.retain(|&index| {
                let (speed_of, most) = rising[index].expect("a rising rate");
                let choice = jobs[index].as_ref().expect("a job with data").choice;
                let load = choice.load.iter().map(|&(unit, factor)| (pairs + unit, factor));
                let used = choice.pairs.iter().copied().chain(load);
                let done = done[place];
                place += 1;
                if !done && used.clone().all(|(resource, _)| free[resource] > 0.0) {
                    return true;
                }
                rates[index] = if done { most } else { speed_of * level };
                rising[index] = None;
                for (resource, factor) in used {
                    speed[resource] = (speed[resource] - factor * speed_of).max(0.0);
                }
                false
            });
        }
        rates
    }
}

/// The pairs that have more circuits than before.
fn grown(circuits: &[u32], before: Option<&Vec<u32>>) -> Vec<bool> {
    match before {
        Some(before) => circuits.iter().zip(before).map(|(now, was)| now > was).collect(),
        None => vec![false; circuits.len()],
    }
}

/// The least share of the needed circuits that a pair has.
fn served(counts: &[u32], needs: &[f64]) -> f64 {
    let needed = counts.iter().zip(needs).filter(|(_, need)| **need > 0.0);
    needed.map(|(&count, &need)| f64::from(count) / need).fold(f64::INFINITY, f64::min)
}

/// A pair that may get a circuit; the one with the least share of its need is first.
struct Widening {
    share: f64,
    pair: usize,
}

impl PartialEq for Widening {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Widening {}

impl PartialOrd for Widening {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Widening {
    fn cmp(&self, other: &Self) -> Ordering {
        other.share.total_cmp(&self.share).then(other.pair.cmp(&self.pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flow, Job, Network, Unit, UnitId, Way};

    #[test]
    fn weights_of_any_size_leave_a_slot_filled() {
        let network = Network {
            units: vec![Unit { ports: 3, inc: 0, bandwidth: 1e12 }; 3],
            port_rate: 40e9,
            reconfiguration: 0.02,
            slot: 1.0,
        };
        let job = |id: u32| {
            let (from, to) = (UnitId(id as usize % 3), UnitId((id as usize + 1) % 3));
            let weight = f64::from(1 + id % 5);
            let load = vec![weight; 3];
            let way = Way { inc: None, flows: vec![Flow { from, to, weight }], load, update: 0.1 };
            Job {
                id,
                arrival: 0,
                bits: 1e9 * f64::from(7 + id),
                pace: f64::INFINITY,
                ways: vec![way],
            }
        };
        let jobs: Vec<Job> = (0..20).map(job).collect();
        let instance = Instance::new(&network, &jobs).expect("possible jobs");
        let weights: Vec<f64> = (0..20).map(|job| 1.5_f64.powi(job * 4)).collect();
        let slots = Constructor::new(&instance, None)
            .fill(100.0, &[0; 20], &weights, Style::Share)
            .expect("enough time");
        assert!(slots.len() < 20, "{}", slots.len());
    }
}
