//! The plans that a policy weighs for a job.

use crate::plan::Plan;

/// A plan that a policy weighed for a job (NetPack §5.2, equation 1).
#[derive(Clone, PartialEq, Debug)]
pub struct Weighed {
    /// The plan.
    pub plan: Plan,
    /// What the policy maximizes, in Gb/s: the sum of the terms that follow.
    pub worth_gbps: f64,
    /// The value of the workers' servers in Gb/s, including those whose GPUs the job got and gave back.
    pub workers_gbps: f64,
    /// The value of the parameter server's server in Gb/s.
    pub ps_gbps: f64,
    /// The last term in Gb/s: the job's share of the busiest server or uplink.
    pub hot_spot_gbps: f64,
}

/// Number of plans that are kept of those that a policy weighs for a job.
pub const WEIGHED_MAX: usize = 10;

/// The best of these plans, best first, each once. Candidates that differ only in what is given back
/// have the same plan.
pub(crate) fn best(mut all: Vec<Weighed>) -> Vec<Weighed> {
    all.sort_by(|a, b| b.worth_gbps.total_cmp(&a.worth_gbps));
    let mut best: Vec<Weighed> = Vec::new();
    for weighed in all {
        if best.len() == WEIGHED_MAX {
            break;
        }
        if best.iter().all(|better| better.plan != weighed.plan) {
            best.push(weighed);
        }
    }
    best
}
