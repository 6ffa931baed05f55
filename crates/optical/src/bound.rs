//! Lower bounds on the completion time of a batch (CT-BTI), valid for every schedule.
//!
//! Both bounds drop constraints: contiguous slots, whole circuits and reconfiguration times. What remains
//! of eqs. 2–11 for a completion time C:
//!
//! 1. *Jobs.* A job in way w can send from its arrival a to the slot d(w) = ⌊(C − update(w)) / Δt⌋
//!    (eq. 11). With a rate r it takes ⌈w·r/B⌉ circuits for traffic of weight w, so that ports and
//!    switches limit r (eqs. 5 and 6) to some r(w). Hence d(w) − a ≥ ⌈bits / (r(w)·Δt)⌉. The penalty
//!    of eq. 10 only takes data away.
//! 2. *Resources.* All traffic of a unit's optical ports together is at most P·B, because eq. 6 bounds
//!    it by the unit's circuits times B, and those by its ports. Its switch carries at most B(PDP)
//!    (eq. 5). In a slot, a job of rate r takes a fixed multiple of r of each of these resources, so
//!    over all slots it takes that multiple of its bits, or more. Aggregators are a resource of jobs in
//!    slots: N of them in each slot (eq. 3), of which a job takes one in each slot in which it sends.
//!
//! The combinatorial bound is the least C, among the times at which some job can end, at which each
//! job has a way that satisfies 1, and at which for each resource and all slots from any a to any b,
//! the jobs whose slots lie from a to b in every such way fit, each in the way that takes least of that
//! resource. A schedule that ends by C satisfies both, and every later C does, so that bisection is
//! allowed: more ways satisfy 1, and slots only grow.
//!
//! The linear bound lets every job split its data between the ways that satisfy 1 and between slots,
//! under all resources at once. A schedule that ends by C is such a split (all of it in one way), so
//! that a C without a split is below all schedules. With a rate of at most r(w), a share s of the data
//! takes at least s·bits / (r(w)·Δt) slots of an aggregator, and at least one.
//!
//! Times below these bounds are excluded with a relative slack that covers the checker's tolerances.

#[cfg(feature = "exact")]
use good_lp::{
    Expression, IntoAffineExpression, ProblemVariables, Solution, SolverModel, Variable,
    constraint, variable,
};

use crate::instance::{Choice, Instance, Prepared, SLACK};
use crate::{Error, Job, Network};

/// The combinatorial lower bound on CT-BTI in seconds: much faster than [`bound`].
///
/// # Errors
/// If a job cannot be carried out at all, or no schedule is short enough.
pub fn quick_bound(network: &Network, jobs: &[Job]) -> Result<f64, Error> {
    let instance = Instance::new(network, jobs)?;
    let bound = quick(&instance);
    if bound > instance.longest() {
        return Err(Error::Long(instance.slots));
    }
    Ok(bound)
}

#[cfg(feature = "exact")]
/// The linear lower bound on CT-BTI in seconds: never less than the combinatorial one.
///
/// # Errors
/// If a job cannot be carried out at all.
pub fn bound(network: &Network, jobs: &[Job]) -> Result<f64, Error> {
    let instance = Instance::new(network, jobs)?;
    Ok(linear(&instance, quick(&instance)))
}

/// The combinatorial bound.
pub(crate) fn quick(instance: &Instance<'_>) -> f64 {
    first(instance, 0.0, |time| fits_each(instance, time))
}

#[cfg(feature = "exact")]
/// The linear bound, given the combinatorial one.
pub(crate) fn linear(instance: &Instance<'_>, quick: f64) -> f64 {
    first(instance, quick, |time| fits_together(instance, time))
}

/// The first time from `from` on at which a job can end and `possible` holds; `possible` is monotone. If
/// that is later than the longest schedule ends, an earlier time from there on.
fn first(instance: &Instance<'_>, from: f64, possible: impl Fn(f64) -> bool) -> f64 {
    if instance.jobs.is_empty() {
        return 0.0;
    }
    let slot = instance.network.slot;
    let mut start = from;
    let mut step = slot;
    // Times of windows of doubling width, until the window's last time is possible.
    let times = loop {
        let times = instance.times(start, start + step);
        if times.last().is_some_and(|&last| possible(last)) {
            break times;
        }
        start += step;
        step *= 2.0;
        if start > instance.longest() {
            return start;
        }
    };
    let at = times.partition_point(|&time| !possible(time));
    times[at]
}

/// A resource: the optical ports of a unit, its switch, or the aggregators in the switch.
#[derive(Clone, Copy)]
pub(crate) enum Resource {
    Ports(usize),
    Switch(usize),
    Aggregators(usize),
}

impl Resource {
    /// All of them.
    pub(crate) fn all(units: usize) -> impl Iterator<Item = Self> {
        let units = 0..units;
        let of = |kind: fn(usize) -> Self| units.clone().map(kind);
        of(Self::Ports).chain(of(Self::Switch)).chain(of(Self::Aggregators))
    }

    /// Its capacity in a slot: bits, or jobs.
    pub(crate) fn capacity(self, network: &Network) -> f64 {
        match self {
            Self::Ports(unit) => {
                f64::from(network.units[unit].ports) * network.port_rate * network.slot
            }
            Self::Switch(unit) => network.units[unit].bandwidth * network.slot,
            Self::Aggregators(unit) => f64::from(network.units[unit].inc),
        }
    }

    /// The least that a job takes of it over all slots.
    fn taken(self, job: &Prepared, choice: &Choice) -> f64 {
        let of = |unit: usize, factors: &[(usize, f64)]| {
            let factor = factors.iter().find(|(at, _)| *at == unit);
            factor.map_or(0.0, |(_, factor)| factor * job.bits)
        };
        match self {
            Self::Ports(unit) => of(unit, &choice.ports),
            Self::Switch(unit) => of(unit, &choice.load),
            Self::Aggregators(unit) if choice.inc == Some(unit) => choice.least as f64,
            Self::Aggregators(_) => 0.0,
        }
    }

    #[cfg(feature = "exact")]
    /// The same for a share of a job, in proportion to the share: a share of an aggregator's slots
    /// cannot be rounded up, except to a single slot.
    fn taken_by_share(self, job: &Prepared, choice: &Choice, slot: f64) -> f64 {
        let taken = self.taken(job, choice);
        match self {
            Self::Aggregators(_) => taken.min((job.bits / (choice.fastest * slot)).max(1.0)),
            _ => taken,
        }
    }
}

/// By job: the ways in which it can be completed by a time, with the slots in which they end.
fn usable<'a>(instance: &'a Instance<'_>, time: f64) -> Vec<Vec<(&'a Choice, usize)>> {
    let jobs = instance.jobs.iter().enumerate();
    jobs.map(|(index, job)| {
        let options = job.options.iter().filter(|choice| instance.in_time(index, choice, time));
        options.map(|choice| (choice, instance.deadline(time, choice.update))).collect()
    })
    .collect()
}

/// The distinct slots in which jobs arrive or must end, in ascending order.
fn breakpoints(instance: &Instance<'_>, usable: &[Vec<(&Choice, usize)>]) -> Vec<usize> {
    let arrivals = instance.jobs.iter().map(|job| job.arrival);
    let ends = usable.iter().flatten().map(|(_, end)| *end);
    let mut all: Vec<usize> = arrivals.chain(ends).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Conditions 1 and 2, each resource and interval on its own.
fn fits_each(instance: &Instance<'_>, time: f64) -> bool {
    let usable = usable(instance, time);
    if usable.iter().any(Vec::is_empty) {
        return false;
    }
    let points = breakpoints(instance, &usable);
    let place = |slot: usize| points.partition_point(|&point| point < slot);
    let mut least = vec![0.0; points.len() * points.len()];
    for resource in Resource::all(instance.network.units.len()) {
        least.fill(0.0);
        for (job, options) in instance.jobs.iter().zip(&usable) {
            let taken = options.iter().map(|(choice, _)| resource.taken(job, choice));
            let taken = taken.fold(f64::INFINITY, f64::min);
            let end = options.iter().map(|(_, end)| *end).max().unwrap_or(0);
            least[place(job.arrival) * points.len() + place(end)] += taken;
        }
        let capacity = resource.capacity(instance.network);
        for (last, &end) in points.iter().enumerate() {
            // The jobs that arrive from `start` on and end by `end`.
            let mut taken = 0.0;
            for (from, &start) in points[..last].iter().enumerate().rev() {
                taken +=
                    least[from * points.len()..=from * points.len() + last].iter().sum::<f64>();
                if taken * (1.0 - SLACK) > capacity * (end - start) as f64 {
                    return false;
                }
            }
        }
    }
    true
}

#[cfg(feature = "exact")]
/// Conditions 1 and 2, all resources and intervals together.
fn fits_together(instance: &Instance<'_>, time: f64) -> bool {
    let usable = usable(instance, time);
    if usable.iter().any(Vec::is_empty) {
        return false;
    }
    let points = breakpoints(instance, &usable);
    let epochs: Vec<_> = points.windows(2).map(|ends| (ends[0], ends[1])).collect();
    let mut variables = ProblemVariables::new();
    let overload = variables.add(variable().min(0.0));
    let resources: Vec<_> = Resource::all(instance.network.units.len()).collect();
    let mut loads = vec![Expression::from(0.0); resources.len() * epochs.len()];
    let mut totals = Vec::new();
    for (job, options) in instance.jobs.iter().zip(&usable) {
        let mut total = Expression::from(0.0);
        for (choice, end) in options {
            let epochs = epochs.iter().enumerate();
            let within = epochs.filter(|(_, epoch)| job.arrival <= epoch.0 && epoch.1 <= *end);
            for (at, epoch) in within {
                let length = (epoch.1 - epoch.0) as f64;
                let share: Variable = variables.add(variable().min(0.0));
                total.add_mul(1.0, share);
                for (place, resource) in resources.iter().enumerate() {
                    let taken = resource.taken_by_share(job, choice, instance.network.slot);
                    if taken > 0.0 {
                        let capacity = resource.capacity(instance.network) * length;
                        loads[place * (points.len() - 1) + at].add_mul(taken / capacity, share);
                    }
                }
            }
        }
        totals.push(total);
    }
    let mut model = variables.minimise(overload).using(crate::solver::solver);
    for total in totals.into_iter().filter(|total| total.linear_coefficients().next().is_some()) {
        model = model.with(constraint!(total == 1.0));
    }
    for load in loads.into_iter().filter(|load| load.linear_coefficients().next().is_some()) {
        model = model.with(constraint!(load <= overload));
    }
    // A solver that fails proves nothing.
    model.solve().map_or(true, |solution| solution.value(overload) <= 1.0 + SLACK)
}
