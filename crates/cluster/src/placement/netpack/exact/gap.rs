//! The distance of policies from the optimum.

use crate::{Cluster, Job, JobId, Pending, Plan, Policy, Round, Shape, State};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exhaustive::{fairest, settled_cost_s};
use super::{Instance, Memory, Unsolved, optimum};

/// Random small instances.
///
/// Two racks of two servers of two GPUs; 100 Gb/s and full bisection bandwidth; switches with
/// memory for 1 Tb/s, 60 Gb/s or none; two or three jobs of one to five GPUs and 50 to 500 MB,
/// which fit together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cases {
    /// Number of instances.
    pub instances: u32,
    /// Seed of the instances.
    pub seed: u64,
}

/// The result of a policy on the instances: Σ d/v with the rates of all its jobs in the steady
/// state.
#[derive(Clone, PartialEq, Debug)]
pub struct Gap {
    /// The policy.
    pub policy: String,
    /// Sum over all instances, in seconds per iteration.
    pub cost_s: f64,
    /// Relative excess over the optimum of table 3.
    pub above_optimum: f64,
    /// Relative excess over the best placement in the steady state.
    pub above_fairest: f64,
    /// Number of instances in which the policy is within 1 % of that best placement.
    pub best_in: u32,
    /// The largest relative excess over that best placement in one instance; infinite if the best
    /// placement sums nothing over the network.
    pub worst: f64,
}

/// A function that creates a policy.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Policy>;

/// The gaps of policies, each created anew for every instance, preceded by the gap of the best
/// placement in the steady state, which is called `best placement`.
///
/// # Errors
///
/// If a solver fails.
pub fn gaps(cases: &Cases, policies: &[(&str, Make<'_>)]) -> Result<Vec<Gap>, Unsolved> {
    let mut random = ChaCha8Rng::seed_from_u64(cases.seed);
    let instances: Vec<_> = (0..cases.instances).map(|_| instance(&mut random)).collect();
    let mut optimum_s = 0.0;
    let mut fairest_s = Vec::new();
    for instance in &instances {
        optimum_s += optimum(instance, Memory::OnTheWay)?.bound_s;
        fairest_s.push(fairest(instance)?.cost_s);
    }
    let best = ("best placement".to_owned(), fairest_s.clone());
    let of_policies = policies.iter().map(|(name, policy)| {
        let costs_s = instances.iter().map(|instance| cost_s(instance, &mut *policy()));
        ((*name).to_owned(), costs_s.collect())
    });
    let all = std::iter::once(best).chain(of_policies);
    Ok(all.map(|(policy, costs_s)| gap(policy, &costs_s, optimum_s, &fairest_s)).collect())
}

fn gap(policy: String, costs_s: &[f64], optimum_s: f64, fairest_s: &[f64]) -> Gap {
    let cost_s: f64 = costs_s.iter().sum();
    let above: Vec<_> = costs_s
        .iter()
        .zip(fairest_s)
        .map(|(cost, fairest)| if cost == fairest { 0.0 } else { cost / fairest - 1.0 })
        .collect();
    Gap {
        policy,
        cost_s,
        above_optimum: cost_s / optimum_s - 1.0,
        above_fairest: cost_s / fairest_s.iter().sum::<f64>() - 1.0,
        best_in: above.iter().filter(|above| **above <= 0.01).count() as u32,
        worst: above.iter().copied().fold(0.0, f64::max),
    }
}

/// Σ d/v of a policy's placement of an instance. Every job must be placed.
fn cost_s(instance: &Instance, policy: &mut dyn Policy) -> f64 {
    let mut state = State::new(&instance.cluster);
    let jobs = instance.jobs.iter();
    let waiting: Vec<_> = jobs.map(|job| Pending { job: job.clone(), value: job.value }).collect();
    policy.place(&mut Round::new(&mut state), &waiting);
    let plans: Vec<Plan> =
        instance.jobs.iter().map(|job| state.running()[&job.id].plan.clone()).collect();
    settled_cost_s(instance, &plans)
}

fn instance(random: &mut ChaCha8Rng) -> Instance {
    let cluster = Cluster::uniform(&Shape {
        racks: 2,
        servers_per_rack: 2,
        gpus_per_server: 2,
        pat_gbps: [1000.0, 60.0, 0.0][random.random_range(0..3)],
        ..Shape::default()
    });
    let mut left = cluster.gpus();
    let mut jobs = Vec::new();
    for id in 0..random.random_range(2..=3) {
        let gpus = random.random_range(1..=5).min(left);
        if gpus > 0 {
            left -= gpus;
            jobs.push(Job {
                id: JobId(id),
                submit_s: 0.0,
                gpus,
                iterations: 1.0,
                compute_s: 0.1,
                gradient_bytes: random.random_range(5e7..5e8),
                value: 1.0,
            });
        }
    }
    Instance { cluster, jobs }
}
