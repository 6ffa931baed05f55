//! Lower bounds on the completion time of a batch (CT-BTI), valid for every schedule.
//!
//! Both bounds drop constraints, for example reconfiguration times. What remains of eqs. 2–11 for a completion time C:
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
//! 3. *Circuits.* In a slot, the traffic between two units takes whole circuits, each with a port of both. So over
//!    some slots, it takes at least its bits divided by what a circuit carries in a slot, rounded up.
//!
//! The combinatorial bound is the least C, among the times at which some job can end, at which each
//! job has a way that satisfies 1, and at which for each resource, and for the circuits of each unit, and
//! all slots from any a to any b, what jobs must take from a to b fits, each in the way that takes least. A job
//! must send from a to b what it cannot send in its slots before a and after b with the rate r(w). If a job sends on both
//! sides, it has circuits in all slots from a to b, because its slots are contiguous. A schedule that ends by C
//! satisfies all this, so each C that does not is excluded by itself. With all a and b, every later C satisfies what one
//! does, so bisection finds the least. If there are many distinct a and b, only some are tried: then it may find a smaller
//! one, which is a bound, too.
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

/// Most distinct slots at which the combinatorial bound's intervals start and end.
const POINTS: usize = 24;

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
    let slot = instance.network.slot;
    let alone = instance.jobs.iter().map(|job| {
        let end = |choice: &Choice| (job.arrival + choice.least) as f64 * slot + choice.update;
        job.options.iter().map(end).fold(f64::INFINITY, f64::min)
    });
    first(instance, alone.fold(0.0, f64::max), |time| fits_each(instance, time))
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
        // Often the answer, and the others cost more steps.
        if times.first().is_some_and(|&first| possible(first)) {
            return times[0];
        }
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

    #[cfg(feature = "exact")]
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

/// Conditions 1 to 3, each resource and interval on its own.
fn fits_each(instance: &Instance<'_>, time: f64) -> bool {
    let usable = usable(instance, time);
    if usable.iter().any(Vec::is_empty) {
        return false;
    }
    let all = breakpoints(instance, &usable);
    let count = all.len().min(POINTS);
    let points: Vec<usize> =
        (0..count).map(|at| all[at * (all.len() - 1) / (count - 1).max(1)]).collect();
    let mut needs = Needs::new(instance, &usable);
    points.iter().enumerate().all(|(at, &end)| {
        points[..at].iter().all(|&start| {
            needs.collect(instance, &usable, (start, end));
            needs.fit(instance, (end - start) as f64)
        })
    })
}

/// What jobs must take in an interval of slots.
struct Needs {
    /// By unit: bits through its ports, bits through its switch, and jobs in slots of its aggregators.
    taken: Vec<f64>,
    capacities: Vec<f64>,
    /// By pair: bits if no job sends in all slots of the interval, and otherwise.
    pairs: Vec<[f64; 2]>,
    /// By unit: circuits in slots.
    circuits: Vec<f64>,
    /// By job: intervals that begin from the first slot on, or end before the second one, have room for it beside them.
    avoided: Vec<(usize, usize)>,
}

impl Needs {
    fn new(instance: &Instance<'_>, usable: &[Vec<(&Choice, usize)>]) -> Self {
        let network = instance.network;
        let resources = Resource::all(network.units.len());
        let capacities: Vec<f64> = resources.map(|resource| resource.capacity(network)).collect();
        let avoided = instance.jobs.iter().zip(usable).map(|(job, options)| {
            let least = options.iter().map(|(choice, _)| choice.least).min().unwrap_or(0);
            let late = options.iter().map(|&(choice, last)| last - choice.least).max().unwrap_or(0);
            (job.arrival + least, late)
        });
        Self {
            avoided: avoided.collect(),
            taken: vec![0.0; capacities.len()],
            capacities,
            pairs: vec![[0.0; 2]; instance.pairs.len()],
            circuits: vec![0.0; network.units.len()],
        }
    }

    /// Adds up what each job takes in the way that takes least of it.
    fn collect(
        &mut self,
        instance: &Instance<'_>,
        usable: &[Vec<(&Choice, usize)>],
        (start, end): (usize, usize),
    ) {
        self.taken.fill(0.0);
        self.pairs.fill([0.0; 2]);
        let slot = instance.network.slot;
        let units = instance.network.units.len();
        for ((job, options), &(early, late)) in instance.jobs.iter().zip(usable).zip(&self.avoided)
        {
            if start >= early || end <= late {
                continue;
            }
            // Slots of the job before and after the interval.
            let before = |last: usize| start.min(last).saturating_sub(job.arrival);
            let after = |last: usize| last.saturating_sub(end.max(job.arrival));
            let aside = |last: usize| before(last).max(after(last));
            let bits = |choice: &Choice, outside: usize| match outside {
                0 => job.bits,
                _ => job.bits * (1.0 - SLACK) - choice.fastest * slot * outside as f64,
            };
            // On one side of the interval, or on both.
            let sides = |choice: &Choice, last: usize| {
                [aside(last), before(last) + after(last)]
                    .map(|outside| bits(choice, outside).max(0.0))
            };
            let ((first, last), others) = (options[0], &options[1..]);
            let first_bits = sides(first, last);
            let least = |of: fn(&Choice) -> &[(usize, f64)], at: usize, factor: f64| {
                let others = others.iter().map(|&(choice, last)| {
                    let factor = of(choice).iter().find(|(other, _)| *other == at);
                    let factor = factor.map_or(0.0, |(_, factor)| *factor);
                    sides(choice, last).map(|bits| factor * bits)
                });
                let first = first_bits.map(|bits| factor * bits);
                others.fold(first, |[a, b], [c, d]| [a.min(c), b.min(d)])
            };
            for &(unit, factor) in &first.ports {
                self.taken[unit] += least(|choice| &choice.ports, unit, factor)[1];
            }
            for &(unit, factor) in &first.load {
                self.taken[units + unit] += least(|choice| &choice.load, unit, factor)[1];
            }
            for &(pair, factor) in &first.pairs {
                let [one, both] = least(|choice| &choice.pairs, pair, factor);
                self.pairs[pair][0] += one;
                self.pairs[pair][1] += both;
            }
            if let Some(unit) = first.inc
                && others.iter().all(|(choice, _)| choice.inc == Some(unit))
            {
                let slots = options.iter().map(|&(choice, last)| choice.least - aside(last));
                let slots = slots.min().unwrap_or(0).min(end - start);
                self.taken[2 * units + unit] += slots as f64;
            }
        }
    }

    /// Whether there is as much in so many slots.
    fn fit(&mut self, instance: &Instance<'_>, slots: f64) -> bool {
        let network = instance.network;
        let fits = |(&taken, &capacity): (&f64, &f64)| taken * (1.0 - SLACK) <= capacity * slots;
        if !self.taken.iter().zip(&self.capacities).all(fits) {
            return false;
        }
        self.circuits.fill(0.0);
        let carried = network.port_rate * network.slot / (1.0 - SLACK);
        for (&(a, b), bits) in instance.pairs.iter().zip(&self.pairs) {
            let [one, both] = bits.map(|bits| (bits / carried).ceil());
            let circuits = one.min(both.max(slots));
            self.circuits[a] += circuits;
            self.circuits[b] += circuits;
        }
        let mut units = self.circuits.iter().zip(&network.units);
        units.all(|(&circuits, unit)| circuits <= f64::from(unit.ports) * slots)
    }
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
