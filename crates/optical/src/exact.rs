//! The exact model: the mixed-integer program of P4INC-AOI §IV.B in another, equivalent form.
//!
//! # Feasibility instead of a maximum
//!
//! CT-BTI is the end of a slot plus an update (eq. 11), so only a few times are possible: about one per
//! slot and update. [`Exact::solve`] starts with the times from the lower bound of [`bound`] to the
//! completion of a given schedule, and bisects them. Each step asks whether all jobs can be complete by
//! a time C. This has three advantages over one program with the objective of eq. 1. The program has no
//! more slots than C has. Ways that are too late drop out. And the maximum over i·x of eq. 11, whose
//! linear relaxation is weak because fractions of x at early slots lower it, becomes a deadline per way.
//! In most instances the bounds are a few times apart, so that two or three steps decide.
//!
//! # Variables and constraints
//!
//! For each job j, way w in time and slot i from the job's arrival to the way's deadline d(w) =
//! ⌊(C − update(w)) / Δt⌋:
//!
//! | variable | stands for |
//! | --- | --- |
//! | y(j,w), binary | k of eq. 2; the way without aggregation is k = 0 |
//! | r(j,w,i) ≥ 0 | k·B(j,i)·x(j,i): the rate of a flow of weight 1, 0 in all other ways |
//! | x(j,w,i), binary | k·x(j,i), for ways that aggregate in a switch that cannot take all jobs |
//! | P(v,u,i), integer | P, one variable for both directions |
//! | α(v,u,i), binary | α |
//! | g(j,w,v,u,i) ≥ 0 | k·ΔB·β·α without the flow's weight |
//!
//! | equation | here | equivalent because |
//! | --- | --- | --- |
//! | 2 | Σ_w y(j,w) = 1 | the ways are the k that eq. 2 allows |
//! | 3 | Σ x(j,w,i) ≤ N over ways with the unit's switch | k·x is one variable (eq. 12 has four constraints per product) |
//! | 4, 8 | weights of flows, r(j,w,i) ≤ fastest(j,w)·y(j,w) | a way fixes the brackets; a job has rates in its way only, and no job alone can send faster |
//! | 5 | Σ load(w,v)·r(j,w,i) ≤ B(PDP,v) | the bracket is the way's load |
//! | 6 | Σ weight·r ≤ P·B(port), Σ_u P ≤ P(oxc,v) | as printed; the symmetric pair is one variable |
//! | 7 | P(i) − P(i−1) ≤ M·α(i), M = the least ports of both | α may be 1 without an increase, which only costs data, so that some solution has the α of eq. 7 |
//! | 9, 10 | g ≥ r(i) − r(i−1) − fastest·(1 − α), Σ_i (r·Δt − ε·g) ≥ bits·y for each pair of the way | g is at least max(0, ΔB) where α = 1 and at least 0 elsewhere; more g only costs data. All flows of a job have the same r, so that their weights cancel. The sum of eq. 10 over the slots replaces D, whose max(0, ·) only stops the count |
//! | 11 | slots end at d(w); x(i) − x(i−1) ≤ s(i), Σ_i s(i) ≤ y(j,w) | t(j) ≤ C exactly if all slots of τ are below d(w); τ is contiguous if x rises once. Without a limit in eq. 3, τ can be all slots from arrival to d(w): eq. 4 allows B = 0 in them |
//!
//! We read "runs continuously" (§IV.B, notation of *𝒯*) more strictly than eq. 4 does: a job sends in all
//! slots from its first to its last, if ever so little. So it needs circuits for all its flows in them.
//! The program gets x and P ≥ x only for the jobs for which a solution breaks this, and is solved again.
//! Until then it is a relaxation, so that "impossible" is a proof. Where a solution has rate 0 between
//! first and last slots with circuits, the schedule gets 10⁻⁹ of the fastest rate. This, and the solver's
//! tolerance, stay within the checker's; a solution that fails the check counts as undecided.

use std::time::{Duration, Instant};

use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, WithTimeLimit,
    constraint, variable,
};

use crate::check::check;
use crate::instance::{Choice, Instance, Prepared};
use crate::limits::UNKNOWNS_MAX;
use crate::solver::solver;
use crate::{Circuits, Job, Network, Schedule, Slot, Unsolved, bound};

/// The exact scheduler.
#[derive(Clone, PartialEq, Debug)]
pub struct Exact {
    /// The circuits before slot 0. If there are none given, the circuits of slot 0 are free, as in
    /// eqs. 7 and 9, which start at slot 1.
    pub initial: Option<Circuits>,
    /// Time for all steps of the bisection together.
    pub limit: Duration,
}

/// The answer of the exact scheduler.
#[derive(Clone, PartialEq, Debug)]
pub struct Solved {
    /// The best known schedule.
    pub schedule: Schedule,
    /// Its CT-BTI in seconds.
    pub completion: f64,
    /// The greatest proven lower bound on CT-BTI in seconds.
    pub bound: f64,
}

impl Solved {
    /// The relative gap between the schedule and the bound; 0 for an optimum.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.completion > self.bound { self.completion / self.bound - 1.0 } else { 0.0 }
    }
}

/// Whether all jobs can be complete by a time.
enum Answer {
    Yes(Schedule, f64),
    No,
    Undecided,
}

impl Exact {
    /// Checks that an instance is small, given a schedule to start from. [`solve`](Self::solve) tries larger ones,
    /// too, but its limit does not hold inside a linear program.
    ///
    /// # Errors
    /// If it has more than [`UNKNOWNS_MAX`] unknowns.
    pub fn check_size(jobs: &[Job], start: &Schedule) -> Result<(), Unsolved> {
        // Circuits and α by pair; a rate by way, and g by flow.
        let units = start.initial.units();
        let ways = jobs.iter().flat_map(|job| &job.ways).map(|way| 1 + way.flows.len());
        let each = units * units.saturating_sub(1) + ways.sum::<usize>();
        let (slots, unknowns) = (start.slots.len(), start.slots.len() * each);
        if unknowns <= UNKNOWNS_MAX { Ok(()) } else { Err(Unsolved::Large { unknowns, slots }) }
    }

    /// Finds a schedule with the least CT-BTI, starting from the schedule of a heuristic.
    ///
    /// # Errors
    /// If a job cannot be carried out, or the given schedule is invalid.
    pub fn solve(
        &self,
        network: &Network,
        jobs: &[Job],
        start: Schedule,
    ) -> Result<Solved, Unsolved> {
        let until = Instant::now() + self.limit;
        let instance = Instance::new(network, jobs)?;
        let mut completion = match check(network, jobs, &start) {
            Ok(checked) => checked.completion,
            Err(mut violations) => return Err(Unsolved::Start(violations.swap_remove(0))),
        };
        let mut schedule = start;
        let lower = bound::linear(&instance, bound::quick(&instance));
        let mut times = instance.times(lower, completion);
        times.retain(|&time| time < completion - 1e-7 * network.slot);
        // All times before `proven` are impossible, and all before `low` impossible or undecided.
        let (mut proven, mut low, mut high) = (0, 0, times.len());
        while low < high {
            let middle = (low + high) / 2;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // An undecided step leaves time for later times, which are easier to keep.
            let limit = if middle + 1 < high { left / 2 } else { left };
            match self.step(&instance, jobs, times[middle], limit) {
                Answer::Yes(better, at) => {
                    (schedule, completion) = (better, at);
                    high = times.partition_point(|&time| time < at - 1e-7 * network.slot);
                }
                Answer::No => (proven, low) = (middle + 1, middle + 1),
                Answer::Undecided => low = middle + 1,
            }
        }
        let bound = times.get(proven).map_or(completion, |&time| time.min(completion));
        Ok(Solved { schedule, completion, bound })
    }

    fn step(&self, instance: &Instance<'_>, jobs: &[Job], time: f64, limit: Duration) -> Answer {
        if instance.jobs.iter().all(|job| job.bits == 0.0) {
            return self.without_data(instance, jobs, time);
        }
        let until = Instant::now() + limit;
        let mut continuous = vec![false; jobs.len()];
        loop {
            let initial = self.initial.as_ref();
            let Some(program) = Program::new(instance, initial, time, &continuous) else {
                return Answer::No;
            };
            let left = until.saturating_duration_since(Instant::now());
            let (schedule, interrupted) = match program.solve(left) {
                Ok(solution) => solution,
                Err(ResolutionError::Infeasible) => return Answer::No,
                Err(_) => return Answer::Undecided,
            };
            let new = interrupted.iter().filter(|&&job| !continuous[job]).count();
            interrupted.into_iter().for_each(|job| continuous[job] = true);
            if new == 0 {
                return match check(instance.network, jobs, &schedule) {
                    Ok(checked) => Answer::Yes(schedule, checked.completion),
                    Err(_) => Answer::Undecided,
                };
            }
        }
    }

    /// The answer for jobs that send nothing: each in a way that is in time. Their program would have no slots.
    fn without_data(&self, instance: &Instance<'_>, jobs: &[Job], time: f64) -> Answer {
        let way = |(index, job): (usize, &Prepared)| {
            let in_time = |choice: &&Choice| instance.in_time(index, choice, time);
            job.options.iter().find(in_time).map(|choice| choice.way)
        };
        let Some(ways) = instance.jobs.iter().enumerate().map(way).collect() else {
            return Answer::No;
        };
        let none = || Circuits::none(instance.network.units.len());
        let initial = self.initial.clone().unwrap_or_else(none);
        let schedule = Schedule { ways, initial, slots: Vec::new() };
        match check(instance.network, jobs, &schedule) {
            Ok(checked) => Answer::Yes(schedule, checked.completion),
            Err(_) => Answer::Undecided,
        }
    }
}

/// The variables of a job's way.
struct Alternative<'a> {
    choice: &'a Choice,
    /// 1 if the job has no other way.
    chosen: Expression,
    /// From the job's arrival on, in multiples of a port's rate.
    rates: Vec<Variable>,
    /// Whether the way is used in a slot, where that is limited.
    on: Vec<Variable>,
}

struct Program<'a> {
    instance: &'a Instance<'a>,
    initial: Option<&'a Circuits>,
    time: f64,
    slots: usize,
    variables: ProblemVariables,
    constraints: Vec<good_lp::Constraint>,
    /// By job.
    options: Vec<Vec<Alternative<'a>>>,
    /// By slot and pair; none for a pair that no job can use.
    circuits: Vec<Vec<Option<Variable>>>,
    /// By slot and pair, where they can increase.
    increases: Vec<Vec<Option<Variable>>>,
}

impl<'a> Program<'a> {
    /// None if some job has no way that is in time.
    fn new(
        instance: &'a Instance<'a>,
        initial: Option<&'a Circuits>,
        time: f64,
        continuous: &[bool],
    ) -> Option<Self> {
        let mut program = Self {
            instance,
            initial,
            time,
            slots: 0,
            variables: ProblemVariables::new(),
            constraints: Vec::new(),
            options: Vec::new(),
            circuits: Vec::new(),
            increases: Vec::new(),
        };
        program.add_jobs()?;
        program.add_circuits();
        program.limit_aggregation(continuous);
        program.limit_bandwidth();
        program.send_all();
        Some(program)
    }

    /// Eq. 2, and the bounds on rates.
    fn add_jobs(&mut self) -> Option<()> {
        let unit = self.instance.network.port_rate;
        for (index, job) in self.instance.jobs.iter().enumerate() {
            let in_time = |choice: &&Choice| self.instance.in_time(index, choice, self.time);
            let usable: Vec<&Choice> = job.options.iter().filter(in_time).collect();
            let alone = usable.len() == 1;
            let mut chosen_once = Expression::from(0.0);
            let mut options = Vec::new();
            for choice in usable {
                let deadline = self.instance.deadline(self.time, choice.update);
                let fastest = choice.fastest / unit;
                let chosen = if alone {
                    Expression::from(1.0)
                } else {
                    self.variables.add(variable().binary()).into()
                };
                chosen_once += chosen.clone();
                let rates: Vec<Variable> = (job.arrival..deadline)
                    .map(|_| self.variables.add(variable().min(0.0).max(fastest)))
                    .collect();
                if !alone {
                    for &rate in &rates {
                        self.constraints.push(constraint!(rate <= fastest * chosen.clone()));
                    }
                }
                self.slots = self.slots.max(deadline);
                options.push(Alternative { choice, chosen, rates, on: Vec::new() });
            }
            if options.is_empty() {
                return None;
            }
            if !alone {
                self.constraints.push(constraint!(chosen_once == 1.0));
            }
            self.options.push(options);
        }
        Some(())
    }

    /// Eqs. 6 (ports) and 7.
    fn add_circuits(&mut self) {
        let network = self.instance.network;
        let pairs = &self.instance.pairs;
        let mut used = vec![false; pairs.len()];
        for &(pair, _) in self.options.iter().flatten().flat_map(|option| &option.choice.pairs) {
            used[pair] = true;
        }
        let most = |pair: usize| {
            let (a, b) = pairs[pair];
            network.units[a].ports.min(network.units[b].ports)
        };
        let before = self.initial.map(|initial| self.instance.counts(initial));
        for slot in 0..self.slots {
            let circuits: Vec<Option<Variable>> = (0..pairs.len())
                .map(|pair| {
                    let count = variable().integer().min(0).max(most(pair));
                    used[pair].then(|| self.variables.add(count))
                })
                .collect();
            let mut ports = vec![Expression::from(0.0); network.units.len()];
            for (&(a, b), &count) in pairs.iter().zip(&circuits) {
                if let Some(count) = count {
                    ports[a] += count;
                    ports[b] += count;
                }
            }
            for (ports, unit) in ports.into_iter().zip(&network.units) {
                self.constraints.push(constraint!(ports <= unit.ports));
            }
            let mut increases = vec![None; pairs.len()];
            for pair in 0..pairs.len() {
                let Some(count) = circuits[pair] else { continue };
                let was: Expression = match (slot, &before) {
                    _ if network.reconfiguration == 0.0 => continue,
                    (0, None) => continue,
                    (0, Some(before)) => f64::from(before[pair]).into(),
                    _ => self.circuits[slot - 1][pair].expect("the same pairs").into(),
                };
                let increase = self.variables.add(variable().binary());
                self.constraints.push(constraint!(count - was <= f64::from(most(pair)) * increase));
                increases[pair] = Some(increase);
            }
            self.circuits.push(circuits);
            self.increases.push(increases);
        }
    }

    /// Eq. 3, and contiguous slots (eq. 11) where they matter.
    fn limit_aggregation(&mut self, continuous: &[bool]) {
        let units = &self.instance.network.units;
        let unit_rate = self.instance.network.port_rate;
        let limited: Vec<bool> = (0..units.len())
            .map(|unit| {
                let here = |options: &&Vec<Alternative<'_>>| {
                    options.iter().any(|option| option.choice.inc == Some(unit))
                };
                self.options.iter().filter(here).count() > units[unit].inc as usize
            })
            .collect();
        let mut users = vec![Expression::from(0.0); units.len() * self.slots];
        let jobs = self.instance.jobs.iter().zip(continuous).zip(&mut self.options);
        for ((job, &continuous), options) in jobs {
            for option in options {
                let unit = option.choice.inc.filter(|&unit| limited[unit]);
                if unit.is_none() && !continuous {
                    continue;
                }
                let fastest = option.choice.fastest / unit_rate;
                let mut before = Expression::from(0.0);
                let mut starts = Expression::from(0.0);
                for (slot, &rate) in (job.arrival..).zip(&option.rates) {
                    let on = self.variables.add(variable().binary());
                    let start = self.variables.add(variable().min(0.0).max(1.0));
                    self.constraints.push(constraint!(rate <= fastest * on));
                    self.constraints.push(constraint!(on <= option.chosen.clone()));
                    self.constraints.push(constraint!(on - before <= start));
                    before = on.into();
                    starts += start;
                    option.on.push(on);
                    if let Some(unit) = unit {
                        users[unit * self.slots + slot] += on;
                    }
                    for &(pair, _) in option.choice.pairs.iter().filter(|_| continuous) {
                        let count = self.circuits[slot][pair].expect("circuits of a used pair");
                        self.constraints.push(constraint!(on <= count));
                    }
                }
                self.constraints.push(constraint!(starts <= option.chosen.clone()));
            }
        }
        for (unit, users) in users.chunks(self.slots).enumerate().filter(|(unit, _)| limited[*unit])
        {
            for users in users {
                self.constraints.push(constraint!(users.clone() <= units[unit].inc));
            }
        }
    }

    /// Eqs. 5 and 6 (bandwidth).
    fn limit_bandwidth(&mut self) {
        let network = self.instance.network;
        for slot in 0..self.slots {
            let mut loads = vec![Expression::from(0.0); network.units.len()];
            let mut traffic = vec![Expression::from(0.0); self.instance.pairs.len()];
            for (job, options) in self.instance.jobs.iter().zip(&self.options) {
                for option in options.iter().filter(|_| slot >= job.arrival) {
                    let Some(&rate) = option.rates.get(slot - job.arrival) else { continue };
                    for &(unit, factor) in &option.choice.load {
                        loads[unit].add_mul(factor, rate);
                    }
                    for &(pair, factor) in &option.choice.pairs {
                        traffic[pair].add_mul(factor, rate);
                    }
                }
            }
            for (load, unit) in loads.into_iter().zip(&network.units) {
                let capacity = unit.bandwidth / network.port_rate;
                self.constraints.push(constraint!(load <= capacity));
            }
            for (traffic, count) in traffic.into_iter().zip(&self.circuits[slot]) {
                if let Some(count) = *count {
                    self.constraints.push(constraint!(traffic <= count));
                }
            }
        }
    }

    /// Eqs. 9 and 10, in multiples of what a port carries in a slot.
    fn send_all(&mut self) {
        let network = self.instance.network;
        let lost = network.reconfiguration / network.slot;
        // A job without data need not send.
        let jobs = self.instance.jobs.iter().zip(&self.options).filter(|(job, _)| job.bits > 0.0);
        for (job, options) in jobs {
            let data = job.bits / (network.port_rate * network.slot);
            for option in options {
                let fastest = option.choice.fastest / network.port_rate;
                let total: Expression = option.rates.iter().sum();
                if option.choice.pairs.is_empty() {
                    self.constraints.push(constraint!(total >= data * option.chosen.clone()));
                    continue;
                }
                for &(pair, _) in &option.choice.pairs {
                    let mut sent = total.clone();
                    let mut before = Expression::from(0.0);
                    for (slot, &rate) in (job.arrival..).zip(&option.rates) {
                        if let Some(increase) = self.increases[slot][pair] {
                            let penalty = self.variables.add(variable().min(0.0));
                            self.constraints.push(constraint!(
                                penalty >= rate - before - fastest * (1.0 - increase)
                            ));
                            sent.add_mul(-lost, penalty);
                        }
                        before = rate.into();
                    }
                    self.constraints.push(constraint!(sent >= data * option.chosen.clone()));
                }
            }
        }
    }

    /// The schedule, and the jobs that would have to send between their first and last slots without
    /// circuits.
    fn solve(self, limit: Duration) -> Result<(Schedule, Vec<usize>), ResolutionError> {
        let mut model = self.variables.minimise(0.0).using(solver);
        for limit in self.constraints {
            model = model.with(limit);
        }
        let solution = model.with_time_limit(limit.as_secs_f64()).solve()?;
        let network = self.instance.network;
        let counts: Vec<Vec<u32>> = self
            .circuits
            .iter()
            .map(|slot| {
                let count = |count: Variable| solution.value(count).round() as u32;
                slot.iter().map(|variable| variable.map_or(0, count)).collect()
            })
            .collect();
        let mut rates = vec![vec![0.0; self.options.len()]; self.slots];
        let mut ways = Vec::new();
        let mut interrupted = Vec::new();
        for (index, options) in self.options.iter().enumerate() {
            let value = |option: &&Alternative<'_>| solution.eval(option.chosen.clone());
            let option = options
                .iter()
                .max_by(|a, b| value(a).total_cmp(&value(b)))
                .expect("a job has a way");
            ways.push(option.choice.way);
            let arrival = self.instance.jobs[index].arrival;
            let least = option.choice.fastest * 1e-9;
            for (at, &rate) in option.rates.iter().enumerate() {
                let on = option.on.get(at).is_none_or(|&on| solution.value(on) > 0.5);
                let rate = solution.value(rate) * network.port_rate;
                if on && rate > least {
                    rates[arrival + at][index] = rate;
                }
            }
            let first = rates.iter().position(|rates| rates[index] > 0.0).unwrap_or(0);
            let end = rates.iter().rposition(|rates| rates[index] > 0.0).map_or(0, |last| last + 1);
            for slot in first..end {
                rates[slot][index] = rates[slot][index].max(least);
                if option.choice.pairs.iter().any(|&(pair, _)| counts[slot][pair] == 0) {
                    interrupted.push(index);
                    break;
                }
            }
        }
        let circuits: Vec<Circuits> =
            counts.iter().map(|counts| self.instance.circuits(counts)).collect();
        let none = Circuits::none(network.units.len());
        let initial = self.initial.or(circuits.first()).unwrap_or(&none).clone();
        let slots = circuits.into_iter().zip(rates);
        let slots = slots.map(|(circuits, rates)| Slot { circuits, rates }).collect();
        Ok((Schedule { ways, initial, slots }, interrupted))
    }
}
