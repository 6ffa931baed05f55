//! Which way each job takes: a local search against the resources that are used most.

use crate::bound::Resource;
use crate::instance::{Choice, Instance};

/// The resources' use is compared by a sum of powers, in which the greatest use dominates.
const POWER: i32 = 8;

/// Most passes of the local search.
const PASSES: usize = 4;

/// Most distinct slots at which the measured intervals start and end.
const POINTS: usize = 8;

/// Chooses ways in which all jobs can end by a time. `options` has the choices to start from, by job, and receives the
/// new ones. False if some job has no such way.
pub(super) fn assign(instance: &Instance<'_>, time: f64, options: &mut [usize]) -> bool {
    for (index, job) in instance.jobs.iter().enumerate() {
        let usable = |option: usize| instance.in_time(index, &job.options[option], time);
        if usable(options[index]) {
            continue;
        }
        match (0..job.options.len()).find(|&option| usable(option)) {
            Some(option) => options[index] = option,
            None => return false,
        }
    }
    let mut use_of = Use::new(instance, time);
    for (index, &option) in options.iter().enumerate() {
        use_of.add(index, option, 1.0);
    }
    let mut order: Vec<usize> = (0..options.len()).collect();
    order.sort_by(|&a, &b| instance.jobs[b].bits.total_cmp(&instance.jobs[a].bits));
    for _ in 0..PASSES {
        let mut changed = false;
        for &index in &order {
            let choices = &instance.jobs[index].options;
            if choices.len() == 1 {
                continue;
            }
            use_of.add(index, options[index], -1.0);
            let mut best = (use_of.cost_of_adding(index, options[index]), options[index]);
            for (option, choice) in choices.iter().enumerate() {
                if option != best.1 && instance.in_time(index, choice, time) {
                    let cost = use_of.cost_of_adding(index, option);
                    if cost < best.0 * (1.0 - 1e-9) {
                        best = (cost, option);
                    }
                }
            }
            changed |= best.1 != options[index];
            options[index] = best.1;
            use_of.add(index, best.1, 1.0);
        }
        if !changed {
            break;
        }
    }
    true
}

/// How much of each resource the jobs use in intervals of slots, as shares of what there is.
struct Use<'a> {
    instance: &'a Instance<'a>,
    time: f64,
    /// Starts and ends of intervals.
    points: Vec<usize>,
    /// By resource, start and end.
    shares: Vec<f64>,
    /// By resource: what it has per slot.
    capacities: Vec<f64>,
}

impl<'a> Use<'a> {
    fn new(instance: &'a Instance<'a>, time: f64) -> Self {
        let arrivals = instance.jobs.iter().map(|job| job.arrival);
        let options = instance.jobs.iter().flat_map(|job| &job.options);
        let ends = options.map(|choice| instance.deadline(time, choice.update));
        let mut all: Vec<usize> = arrivals.chain(ends).collect();
        all.sort_unstable();
        all.dedup();
        let count = all.len().min(POINTS);
        let points: Vec<usize> =
            (0..count).map(|at| all[at * (all.len() - 1) / (count - 1).max(1)]).collect();
        let network = instance.network;
        let resources = Resource::all(network.units.len());
        let capacities: Vec<f64> = resources.map(|resource| resource.capacity(network)).collect();
        let shares = vec![0.0; capacities.len() * points.len() * points.len()];
        Self { instance, time, points, shares, capacities }
    }

    /// The intervals that contain all slots in which a job can send, and what it takes of each resource.
    fn visit(&self, index: usize, option: usize, mut f: impl FnMut(usize, f64)) {
        let job = &self.instance.jobs[index];
        let choice = &job.options[option];
        let points = self.points.len();
        let end = self.instance.deadline(self.time, choice.update);
        let starts = self.points.partition_point(|&point| point <= job.arrival);
        let ends = self.points.partition_point(|&point| point < end);
        let mut take = |resource: usize, amount: f64| {
            for start in 0..starts {
                for end in ends.max(start + 1)..points {
                    let length = (self.points[end] - self.points[start]) as f64;
                    let place = (resource * points + start) * points + end;
                    f(place, amount / (self.capacities[resource] * length));
                }
            }
        };
        let units = self.instance.network.units.len();
        for &(unit, factor) in &choice.ports {
            take(unit, factor * job.bits);
        }
        for &(unit, factor) in &choice.load {
            take(units + unit, factor * job.bits);
        }
        if let Some(unit) = choice.inc {
            take(2 * units + unit, holding(choice));
        }
    }

    fn add(&mut self, index: usize, option: usize, sign: f64) {
        let mut shares = std::mem::take(&mut self.shares);
        self.visit(index, option, |place, share| shares[place] += sign * share);
        self.shares = shares;
    }

    fn cost_of_adding(&self, index: usize, option: usize) -> f64 {
        let mut cost = 0.0;
        self.visit(index, option, |place, share| {
            let before = self.shares[place];
            cost += (before + share).powi(POWER) - before.powi(POWER);
        });
        cost
    }
}

/// Estimated number of slots for which a job holds its aggregator: other jobs share the network.
fn holding(choice: &Choice) -> f64 {
    2.0 * choice.least as f64
}
