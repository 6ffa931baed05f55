//! The best rates of jobs with given placements, by linear programming.

use crate::{RackIndex, ServerIndex};
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, constraint, variable};

use super::{Instance, TOLERANCE, Unsolved, first_tangents};

/// The placement of a job that uses the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spread {
    /// Index of the job in the instance.
    pub(super) job: usize,
    /// Servers with workers.
    pub(super) workers: Vec<ServerIndex>,
    /// The parameter server.
    pub(super) ps: ServerIndex,
    /// The rack whose switch aggregates.
    pub(super) rack: RackIndex,
}

/// The rates with minimal Σ d/v in Gb/s, in the order of `jobs`; `None` if some job gets no
/// bandwidth.
pub(super) fn best(instance: &Instance, jobs: &[Spread]) -> Result<Option<Vec<f64>>, Unsolved> {
    // HiGHS rejects a program without variables.
    if jobs.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let fastest_gbps = instance.fastest_gbps();
    let mut tangents = vec![first_tangents(fastest_gbps); jobs.len()];
    loop {
        let (rates_gbps, bound_s) = solve(instance, jobs, &tangents, fastest_gbps)?;
        if rates_gbps.iter().any(|rate| *rate <= fastest_gbps * 1e-6) {
            return Ok(None);
        }
        let costs_s =
            jobs.iter().zip(&rates_gbps).map(|(at, rate)| instance.gigabits(at.job) / rate);
        if costs_s.sum::<f64>() <= bound_s * (1.0 + TOLERANCE) {
            return Ok(Some(rates_gbps));
        }
        for (tangents, rate_gbps) in tangents.iter_mut().zip(rates_gbps) {
            tangents.push(rate_gbps);
        }
    }
}

/// The optimal rates for the tangents, and their cost according to the tangents.
fn solve(
    instance: &Instance,
    jobs: &[Spread],
    tangents: &[Vec<f64>],
    fastest_gbps: f64,
) -> Result<(Vec<f64>, f64), Unsolved> {
    let mut variables = ProblemVariables::new();
    let rate = || variable().min(0.0).max(fastest_gbps);
    let rates = variables.add_vector(rate(), jobs.len());
    let aggregated = variables.add_vector(rate(), jobs.len());
    let inverse = variables.add_vector(variable().min(0.0), jobs.len());
    let total: Expression =
        jobs.iter().zip(&inverse).map(|(at, inverse)| *inverse * instance.gigabits(at.job)).sum();
    let mut model = variables.minimise(total.clone()).using(super::program::solver);
    for (job, tangents) in tangents.iter().enumerate() {
        model = model.with(constraint!(aggregated[job] <= rates[job]));
        for at in tangents {
            let tangent = 2.0 / at - rates[job] / (at * at);
            model = model.with(constraint!(inverse[job] >= tangent));
        }
    }
    for server in instance.cluster.server_indices() {
        let mut load = Expression::from(0.0);
        for (job, at) in jobs.iter().enumerate() {
            if at.workers.contains(&server) {
                load += rates[job];
            }
            if at.ps == server {
                load += aggregated[job] + (rates[job] - aggregated[job]) * at.workers.len() as f64;
            }
        }
        model = model.with(constraint!(load <= instance.cluster.server(server).link_gbps));
    }
    for (rack, index) in instance.cluster.racks().iter().zip((0..).map(RackIndex)) {
        let of_rack = jobs.iter().zip(&aggregated).filter(|(at, _)| at.rack == index);
        let load: Expression = of_rack.map(|(_, aggregated)| aggregated).sum();
        model = model.with(constraint!(load <= rack.pat_gbps));
    }
    let solution = model.solve().map_err(|error| Unsolved::Solver(error.to_string()))?;
    let rates_gbps = rates.iter().map(|rate| solution.value(*rate)).collect();
    Ok((rates_gbps, solution.eval(total)))
}
