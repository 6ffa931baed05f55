//! Exact solutions of Titan's problem for small cases, as a reference for the algorithms.
//!
//! There are two implementations, which check each other: [`solve`] solves equation 1 as a
//! mixed-integer program, and [`search`] tries every placement.

use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, variable,
};

use super::instance::{Instance, Objectives, within};

/// An optimal placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Optimum {
    /// The machine of each rank.
    pub plan: Vec<usize>,
    /// Its objectives.
    pub objectives: Objectives,
}

/// Why a solver found no placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unsolved {
    /// There is no placement.
    Infeasible,
    /// The solver failed, with its message.
    Solver(String),
}

/// Solves equation 1 as a mixed-integer program: minimises O<sub>1</sub>, then O<sub>2</sub>.
///
/// The products x<sub>n</sub><sup>s</sup> · x<sub>n'</sub><sup>s'</sup> of the bandwidth constraint
/// become variables that are at least x<sub>n</sub><sup>s</sup> + x<sub>n'</sub><sup>s'</sup> − 1.
/// One idle machine has a greater weight than all machines together, so one objective suffices.
///
/// # Errors
///
/// If there is no placement, or the solver fails.
pub fn solve(instance: &Instance<'_>) -> Result<Optimum, Unsolved> {
    let mut variables = ProblemVariables::new();
    let machines = instance.machines.len();
    let used: Vec<_> = (0..machines).map(|_| variables.add(variable().binary())).collect();
    let placed: Vec<Vec<_>> = (0..instance.ranks)
        .map(|_| (0..machines).map(|_| variables.add(variable().binary())).collect())
        .collect();
    let congestion = congestion(instance, &mut variables, &placed);
    let weight = |machine: usize| {
        if instance.machines[machine].idle { machines as f64 + 1.0 } else { 1.0 }
    };
    let cost: Expression =
        used.iter().enumerate().map(|(machine, &used)| weight(machine) * used).sum();
    let mut model = variables.minimise(cost).using(solver);
    for on in &placed {
        model = model.with(constraint!(on.iter().sum::<Expression>() == 1.0));
        for (&on, &used) in on.iter().zip(&used) {
            model = model.with(constraint!(on <= used));
        }
    }
    for (machine, &used) in used.iter().enumerate() {
        let ranks: Expression = placed.iter().map(|on| on[machine]).sum();
        let free = f64::from(instance.machines[machine].free);
        model = model.with(constraint!(ranks <= free * used));
    }
    for Congestion { products, paths } in congestion {
        for (product, a, b) in products {
            model = model.with(constraint!(product >= a + b - 1.0));
        }
        for path in paths {
            model = model.with(constraint!(path <= 1.0));
        }
    }
    let solution = model.solve().map_err(|error| match error {
        good_lp::ResolutionError::Infeasible => Unsolved::Infeasible,
        other => Unsolved::Solver(other.to_string()),
    })?;
    let plan: Vec<_> = placed
        .iter()
        .map(|on| {
            let most =
                |&a: &usize, &b: &usize| solution.value(on[a]).total_cmp(&solution.value(on[b]));
            (0..machines).max_by(most).unwrap_or(0)
        })
        .collect();
    let objectives = instance.objectives(&plan);
    Ok(Optimum { plan, objectives })
}

#[cfg(not(feature = "highs"))]
use good_lp::microlp as solver;

#[cfg(feature = "highs")]
use good_lp::highs as solver;

/// The bandwidth constraint in one phase.
#[derive(Default)]
struct Congestion {
    /// Products and their two factors.
    products: Vec<(Variable, Variable, Variable)>,
    /// The traffic between each pair of machines, as a share of the path's capacity.
    paths: Vec<Expression>,
}

fn congestion(
    instance: &Instance<'_>,
    variables: &mut ProblemVariables,
    placed: &[Vec<Variable>],
) -> Vec<Congestion> {
    let mut phases = Vec::new();
    for phase in instance.collective.phases(instance.ranks) {
        let mut congestion = Congestion::default();
        let bytes = phase.share * instance.gradient_bytes;
        for (s, t) in machine_pairs(instance.machines.len()) {
            let limit_bytes = instance.limit_bytes(s, t);
            let most = instance.machines[s].free.min(instance.machines[t].free);
            if within(f64::from(most) * bytes, limit_bytes) {
                continue;
            }
            // A path without capacity allows no product either.
            let share = (bytes / limit_bytes).min(1e3);
            let mut path = Expression::from(0.0);
            for (from, to) in phase.transfers() {
                let product = variables.add(variable().min(0.0).max(1.0));
                let factors = (placed[from as usize][s], placed[to as usize][t]);
                congestion.products.push((product, factors.0, factors.1));
                path += share * product;
            }
            congestion.paths.push(path);
        }
        phases.push(congestion);
    }
    phases
}

fn machine_pairs(machines: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..machines).flat_map(move |s| (0..machines).map(move |t| (s, t))).filter(|(s, t)| s != t)
}

/// Tries every placement: minimises O<sub>1</sub>, then O<sub>2</sub>, then the bytes that cross
/// machines. `None` if there is no placement. The time grows as machines to the power of ranks.
#[must_use]
pub fn search(instance: &Instance<'_>) -> Option<Optimum> {
    let mut tree = Tree {
        instance,
        plan: Vec::new(),
        held: vec![0; instance.machines.len()],
        objectives: Objectives { idle: 0, machines: 0 },
        best: None,
    };
    tree.descend();
    tree.best.map(|(_, optimum)| optimum)
}

struct Tree<'i, 'c> {
    instance: &'i Instance<'c>,
    plan: Vec<usize>,
    /// Number of ranks on each machine.
    held: Vec<u32>,
    objectives: Objectives,
    best: Option<(f64, Optimum)>,
}

impl Tree<'_, '_> {
    fn descend(&mut self) {
        if self.best.as_ref().is_some_and(|(_, best)| self.objectives > best.objectives) {
            return;
        }
        if self.plan.len() == self.instance.ranks as usize {
            self.leaf();
            return;
        }
        for machine in 0..self.held.len() {
            let Some(next) = self.objectives_with(machine) else { continue };
            let before = std::mem::replace(&mut self.objectives, next);
            self.held[machine] += 1;
            self.plan.push(machine);
            self.descend();
            self.plan.pop();
            self.held[machine] -= 1;
            self.objectives = before;
        }
    }

    fn objectives_with(&self, machine: usize) -> Option<Objectives> {
        let what = self.instance.machines[machine];
        let opens = u32::from(self.held[machine] == 0);
        (self.held[machine] < what.free).then(|| Objectives {
            idle: self.objectives.idle + opens * u32::from(what.idle),
            machines: self.objectives.machines + opens,
        })
    }

    fn leaf(&mut self) {
        let traffic = self.instance.cross_machine_bytes(&self.plan);
        let better = self
            .best
            .as_ref()
            .is_none_or(|(least, best)| (self.objectives, traffic) < (best.objectives, *least));
        if better && self.instance.is_feasible(&self.plan) {
            let optimum = Optimum { plan: self.plan.clone(), objectives: self.objectives };
            self.best = Some((traffic, optimum));
        }
    }
}
