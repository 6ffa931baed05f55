//! Table 3 as a mixed-integer program.
//!
//! Its products are of a binary variable (x, y or z) and a bounded rate, for which McCormick's
//! inequalities are exact. The products are on the smaller side of constraints, so that the lower
//! inequalities suffice. d/v is convex and replaced by tangents from below. They are added at the
//! solutions until the true cost of the solution is within a given tolerance of the tangents'
//! bound, which no placement can beat.

use crate::{Plan, RackIndex, ServerIndex};
use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, constraint,
    variable,
};

use super::{Instance, Memory, Optimum, TOLERANCE, Unsolved, first_tangents};

#[cfg(not(feature = "highs"))]
pub(super) use good_lp::microlp as solver;

/// HiGHS, with a tolerance below that of the tangents.
#[cfg(feature = "highs")]
pub(super) fn solver(
    problem: good_lp::variable::UnsolvedProblem,
) -> good_lp::solvers::highs::HighsProblem {
    good_lp::highs(problem).set_mip_rel_gap(1e-7).expect("a gap above zero")
}

/// The best placement and rates (NetPack §5.1).
///
/// # Errors
///
/// If the jobs do not fit, some job cannot get any bandwidth, or the solver fails.
pub fn optimum(instance: &Instance, memory: Memory) -> Result<Optimum, Unsolved> {
    let wanted = instance.jobs.iter().map(|job| job.gpus).sum();
    let there = instance.cluster.gpus();
    if wanted > there {
        return Err(Unsolved::TooMany { wanted, there });
    }
    let fastest_gbps = instance.fastest_gbps();
    let mut tangents = vec![first_tangents(fastest_gbps.max(1.0)); instance.jobs.len()];
    loop {
        let optimum = Program::new(instance, &tangents, memory).solve()?;
        if optimum.rates_gbps.iter().any(|rate| *rate <= fastest_gbps * 1e-6) {
            return Err(Unsolved::Disconnected);
        }
        if optimum.cost_s <= optimum.bound_s * (1.0 + TOLERANCE) {
            return Ok(optimum);
        }
        for (tangents, rate_gbps) in tangents.iter_mut().zip(&optimum.rates_gbps) {
            if rate_gbps.is_finite() {
                tangents.push(*rate_gbps);
            }
        }
    }
}

/// Table 2's variables of one job, by server and rack.
struct OfJob {
    /// `w`: GPUs.
    gpus: Vec<Variable>,
    /// `x`: whether there is a worker.
    worker: Vec<Variable>,
    /// `y`: whether the parameter server is there.
    ps: Vec<Variable>,
    /// `z`: whether the switch aggregates.
    enabled: Vec<Variable>,
    /// `a`.
    aggregated: Variable,
    /// `b`.
    unaggregated: Variable,
    /// At least 1/v if there is a parameter server, else at least 0.
    inverse: Variable,
}

impl OfJob {
    /// `v`.
    fn rate(&self) -> Expression {
        self.aggregated + self.unaggregated
    }

    /// Σ y.
    fn spread(&self) -> Expression {
        self.ps.iter().sum()
    }
}

struct Program<'a> {
    instance: &'a Instance,
    memory: Memory,
    fastest_gbps: f64,
    variables: ProblemVariables,
    constraints: Vec<good_lp::Constraint>,
    jobs: Vec<OfJob>,
}

impl<'a> Program<'a> {
    fn new(instance: &'a Instance, tangents: &[Vec<f64>], memory: Memory) -> Self {
        let mut program = Self {
            instance,
            memory,
            fastest_gbps: instance.fastest_gbps(),
            variables: ProblemVariables::new(),
            constraints: Vec::new(),
            jobs: Vec::new(),
        };
        for (job, tangents) in tangents.iter().enumerate() {
            program.add_job(job, tangents);
        }
        program.bound_servers();
        program.bound_switches();
        program
    }

    /// Adds the variables of a job, and the constraints on it alone.
    fn add_job(&mut self, job: usize, tangents: &[f64]) {
        let cluster = &self.instance.cluster;
        let wanted = self.instance.jobs[job].gpus;
        let (servers, racks) = (cluster.servers().len(), cluster.racks().len());
        let most = self.fastest_gbps;
        let variables = &mut self.variables;
        let rate = || variable().min(0.0).max(most);
        let of_job = OfJob {
            gpus: cluster
                .servers()
                .iter()
                .map(|server| {
                    variables.add(variable().integer().min(0).max(server.gpus.min(wanted)))
                })
                .collect(),
            worker: variables.add_vector(variable().binary(), servers),
            ps: variables.add_vector(variable().binary(), servers),
            enabled: variables.add_vector(variable().binary(), racks),
            aggregated: variables.add(rate()),
            unaggregated: variables.add(rate()),
            inverse: variables.add(variable().min(0.0)),
        };
        let limits = &mut self.constraints;
        // 2, and 5 in linear form.
        limits.push(constraint!(of_job.gpus.iter().sum::<Expression>() == wanted));
        for (gpus, worker) in of_job.gpus.iter().zip(&of_job.worker) {
            limits.push(constraint!(*gpus <= *worker * wanted));
            limits.push(constraint!(*gpus >= *worker));
        }
        // 6: one parameter server if there are several workers.
        let workers: Expression = of_job.worker.iter().sum();
        limits.push(constraint!(of_job.spread() <= 1));
        limits.push(constraint!(workers <= 1 + of_job.spread() * (servers as f64 - 1.0)));
        // 7 and 8.
        limits.push(constraint!(of_job.rate() <= of_job.spread() * most));
        let enabled: Expression = of_job.enabled.iter().sum();
        limits.push(constraint!(of_job.aggregated <= enabled * most));
        // Lower bounds of the objective's 1/v.
        for at in tangents {
            let tangent = of_job.spread() * (2.0 / at) - of_job.rate() / (at * at);
            limits.push(constraint!(of_job.inverse >= tangent));
        }
        if self.memory == Memory::OnTheWay {
            for (rack, enabled) in cluster.racks().iter().zip(&of_job.enabled) {
                let here = rack.servers.clone().map(|server| server as usize);
                let on_the_way: Expression =
                    here.map(|server| of_job.worker[server] + of_job.ps[server]).sum();
                limits.push(constraint!(*enabled <= on_the_way));
            }
        }
        self.jobs.push(of_job);
    }

    /// A variable that is at least `switch` × `rate`; `rate` is at most `most`.
    fn product(&mut self, switch: Variable, rate: Expression, most: f64) -> Variable {
        let product = self.variables.add(variable().min(0.0).max(most));
        self.constraints.push(constraint!(product >= rate - (1 - switch) * most));
        product
    }

    /// Constraints 1 and 3.
    fn bound_servers(&mut self) {
        let most = self.fastest_gbps;
        let servers = self.instance.cluster.servers().len();
        let mut loads = vec![Expression::from(0.0); servers];
        for job in 0..self.jobs.len() {
            let (rate, unaggregated) = (self.jobs[job].rate(), self.jobs[job].unaggregated);
            let mut arriving = Expression::from(self.jobs[job].aggregated);
            for (server, load) in loads.iter_mut().enumerate() {
                let worker = self.jobs[job].worker[server];
                arriving += self.product(worker, unaggregated.into(), most);
                *load += self.product(worker, rate.clone(), most);
            }
            let most_arriving = most * (servers as f64 + 1.0);
            for (server, load) in loads.iter_mut().enumerate() {
                let ps = self.jobs[job].ps[server];
                *load += self.product(ps, arriving.clone(), most_arriving);
            }
        }
        for (at, (server, load)) in self.instance.cluster.servers().iter().zip(loads).enumerate() {
            let gpus: Expression = self.jobs.iter().map(|job| job.gpus[at]).sum();
            self.constraints.push(constraint!(gpus <= server.gpus));
            self.constraints.push(constraint!(load <= server.link_gbps));
        }
    }

    /// Constraint 4.
    fn bound_switches(&mut self) {
        let most = self.fastest_gbps;
        for (at, rack) in self.instance.cluster.racks().iter().enumerate() {
            let mut load = Expression::from(0.0);
            for job in 0..self.jobs.len() {
                let OfJob { enabled, aggregated, .. } = &self.jobs[job];
                let (enabled, aggregated) = (enabled[at], *aggregated);
                load += self.product(enabled, aggregated.into(), most);
            }
            self.constraints.push(constraint!(load <= rack.pat_gbps));
        }
    }

    fn solve(self) -> Result<Optimum, Unsolved> {
        let weights = (0..self.jobs.len()).map(|job| self.instance.gigabits(job));
        let total: Expression =
            self.jobs.iter().zip(weights).map(|(job, weight)| job.inverse * weight).sum();
        let mut model = self.variables.minimise(total.clone()).using(solver);
        for limit in self.constraints {
            model = model.with(limit);
        }
        let solution = model.solve().map_err(|error| match error {
            ResolutionError::Infeasible => Unsolved::Disconnected,
            error => Unsolved::Solver(error.to_string()),
        })?;
        let (plans, rates_gbps): (Vec<_>, Vec<_>) =
            self.jobs.iter().map(|job| read(&solution, job)).unzip();
        let cost_s = self.instance.cost_s(&rates_gbps);
        Ok(Optimum { plans, rates_gbps, cost_s, bound_s: solution.eval(total) })
    }
}

/// A job's plan and rate in a solution.
fn read(solution: &impl Solution, job: &OfJob) -> (Plan, f64) {
    let on = |variables: &[Variable]| -> Vec<u32> {
        let values = (0..).zip(variables);
        values.filter(|(_, on)| solution.value(**on) > 0.5).map(|(at, _)| at).collect()
    };
    let ranks = (0..)
        .map(ServerIndex)
        .zip(&job.gpus)
        .flat_map(|(server, gpus)| {
            std::iter::repeat_n(server, solution.value(*gpus).round() as usize)
        })
        .collect();
    let Some(&ps) = on(&job.ps).first() else {
        return (Plan { ranks, ..Plan::default() }, f64::INFINITY);
    };
    let aggregating = on(&job.enabled).into_iter().map(RackIndex).collect();
    let plan = Plan { ranks, ps: Some(ServerIndex(ps)), aggregating };
    (plan, solution.eval(job.rate()))
}
