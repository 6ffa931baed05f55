//! Exhaustive search over the placements of tiny cases.

use crate::placement::ways::{Way, ways};
use crate::{Plan, RackIndex, State};

use super::rates::{Spread, best};
use super::{Instance, Optimum, Unsolved};

/// The best placement, with the best rates for each placement.
///
/// # Errors
///
/// If the jobs do not fit, or the solver fails.
pub fn exhaustive(instance: &Instance) -> Result<Optimum, Unsolved> {
    let mut optimum: Option<Optimum> = None;
    let mut failed = None;
    every_placement(instance, &mut |ways| {
        let least_s = optimum.as_ref().map_or(f64::INFINITY, |best| best.cost_s);
        if least_cost_s(instance, ways) >= least_s || failed.is_some() {
            return;
        }
        match with_best_rates(instance, ways) {
            Ok(Some(found)) if found.cost_s < least_s => optimum = Some(found),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    });
    failed.map_or_else(|| optimum.ok_or_else(|| why_none(instance)), Err)
}

/// The best placement if rates settle fairly instead of being chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct Fair {
    /// The plan of each job, with all switches on the path aggregating.
    pub plans: Vec<Plan>,
    /// Σ d/v, in seconds per iteration.
    pub cost_s: f64,
}

/// The best placement in the steady state: the optimum for a policy.
///
/// # Errors
///
/// If the jobs do not fit.
pub fn fairest(instance: &Instance) -> Result<Fair, Unsolved> {
    let mut fair: Option<Fair> = None;
    every_placement(instance, &mut |ways| {
        let least_s = fair.as_ref().map_or(f64::INFINITY, |best| best.cost_s);
        if least_cost_s(instance, ways) >= least_s {
            return;
        }
        let plans: Vec<_> = ways.iter().map(|way| way.plan(&instance.cluster)).collect();
        let cost_s = settled_cost_s(instance, &plans);
        if cost_s < least_s {
            fair = Some(Fair { plans, cost_s });
        }
    });
    fair.ok_or_else(|| why_none(instance))
}

/// Σ d/v of plans in the steady state, in seconds per iteration.
pub(super) fn settled_cost_s(instance: &Instance, plans: &[Plan]) -> f64 {
    let mut state = State::new(&instance.cluster);
    for (job, plan) in instance.jobs.iter().zip(plans) {
        state.start(job, plan.clone()).expect("a placement takes only what is free");
    }
    let network = state.network();
    let rates_gbps: Vec<_> = instance.jobs.iter().map(|job| network.rate_gbps(job.id)).collect();
    instance.cost_s(&rates_gbps)
}

fn why_none(instance: &Instance) -> Unsolved {
    let wanted = instance.jobs.iter().map(|job| job.gpus).sum();
    let there = instance.cluster.gpus();
    if wanted > there { Unsolved::TooMany { wanted, there } } else { Unsolved::Disconnected }
}

/// A lower bound: the cost of a placement if each job had the fastest link to itself.
fn least_cost_s(instance: &Instance, ways: &[Way]) -> f64 {
    let spread = ways.iter().enumerate().filter(|(_, way)| way.ps.is_some());
    spread.map(|(job, _)| instance.gigabits(job) / instance.fastest_gbps()).sum()
}

/// Calls `visit` with each placement of all jobs.
fn every_placement(instance: &Instance, visit: &mut impl FnMut(&[Way])) {
    let mut free: Vec<_> = instance.cluster.servers().iter().map(|server| server.gpus).collect();
    let ways: Vec<_> = instance.jobs.iter().map(|job| ways(&free, job.gpus)).collect();
    let mut chosen = Vec::new();
    choose(&ways, &mut free, &mut chosen, visit);
}

fn choose(
    ways: &[Vec<Way>],
    free: &mut [u32],
    chosen: &mut Vec<Way>,
    visit: &mut impl FnMut(&[Way]),
) {
    let Some(of_job) = ways.get(chosen.len()) else {
        visit(chosen);
        return;
    };
    for way in of_job {
        if way.shares.iter().any(|&(server, gpus)| free[server.at()] < gpus) {
            continue;
        }
        for &(server, gpus) in &way.shares {
            free[server.at()] -= gpus;
        }
        chosen.push(way.clone());
        choose(ways, free, chosen, visit);
        chosen.pop();
        for &(server, gpus) in &way.shares {
            free[server.at()] += gpus;
        }
    }
}

/// A placement with its best rates, over all choices of the rack that aggregates each job. `None`
/// if some job gets no bandwidth.
fn with_best_rates(instance: &Instance, ways: &[Way]) -> Result<Option<Optimum>, Unsolved> {
    let plans: Vec<_> = ways.iter().map(|way| way.plan(&instance.cluster)).collect();
    let mut choices = vec![Vec::new()];
    for (job, (way, plan)) in ways.iter().zip(&plans).enumerate() {
        let Some(ps) = way.ps else { continue };
        let workers: Vec<_> = way.shares.iter().map(|(server, _)| *server).collect();
        let racks = plan.racks(&instance.cluster);
        let spread = |rack: &RackIndex| Spread { job, workers: workers.clone(), ps, rack: *rack };
        choices = choices
            .iter()
            .flat_map(|choice: &Vec<Spread>| {
                racks.iter().map(|rack| choice.iter().cloned().chain([spread(rack)]).collect())
            })
            .collect();
    }
    let mut optimum: Option<Optimum> = None;
    for choice in choices {
        let Some(rates) = best(instance, &choice)? else { continue };
        let mut rates_gbps = vec![f64::INFINITY; ways.len()];
        let mut plans = plans.clone();
        for (at, rate_gbps) in choice.iter().zip(rates) {
            rates_gbps[at.job] = rate_gbps;
            plans[at.job].aggregating = vec![at.rack];
        }
        let cost_s = instance.cost_s(&rates_gbps);
        if optimum.as_ref().is_none_or(|best| cost_s < best.cost_s) {
            let bound_s = cost_s / (1.0 + super::TOLERANCE);
            optimum = Some(Optimum { plans, rates_gbps, cost_s, bound_s });
        }
    }
    Ok(optimum)
}
