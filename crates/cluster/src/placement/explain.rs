//! Why a job runs where it does: its share of the network, and the distance to the best place.

use super::ways::{count, ways};
use crate::{JobId, Link, Plan, RackIndex, Running, State};

/// The share of a job in the network, in the steady state.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    /// Rate of each worker in Gb/s; infinite if the job does not use the network.
    pub rate_gbps: f64,
    /// The switches that aggregate for it.
    pub switches: Vec<SwitchShare>,
    /// The links that it uses.
    pub links: Vec<LinkShare>,
}

/// The share of a job in a switch.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchShare {
    /// The rack.
    pub rack: RackIndex,
    /// The part of the job's rate that is aggregated there, in Gb/s.
    pub aggregated_gbps: f64,
    /// What all jobs leave of the switch's peak aggregation throughput, in Gb/s.
    pub left_gbps: f64,
    /// The peak aggregation throughput in Gb/s.
    pub pat_gbps: f64,
}

/// The share of a job in a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkShare {
    /// The link.
    pub link: Link,
    /// Number of the job's flows.
    pub flows: u32,
    /// Number of all jobs' flows.
    pub all_flows: u32,
    /// What all jobs leave of the bandwidth, in Gb/s.
    pub left_gbps: f64,
    /// The bandwidth in Gb/s.
    pub link_gbps: f64,
}

/// The share of a running job in the network; `None` if it does not run.
pub fn share(state: &mut State<'_>, job: JobId) -> Option<Share> {
    let (state, network) = state.with_network();
    let cluster = state.cluster();
    let plan = &state.running().get(&job)?.plan;
    let sends = plan.is_distributed() && plan.ps.is_some();
    let aggregating = plan.aggregating.iter().filter(|_| sends);
    let switches = aggregating.map(|&rack| SwitchShare {
        rack,
        aggregated_gbps: network.aggregated_gbps(job, rack),
        left_gbps: network.pat_left_gbps(rack),
        pat_gbps: cluster.rack(rack).pat_gbps,
    });
    let links = network.links(job).into_iter().map(|(link, flows)| {
        let (all_flows, left_gbps, link_gbps) = match link {
            Link::Server(at) => {
                (network.flows(at), network.available_gbps(at), cluster.server(at).link_gbps)
            }
            Link::Uplinks(at) => {
                let uplink_gbps = cluster.rack(at).uplink_gbps;
                (network.rack_flows(at), network.rack_available_gbps(at), uplink_gbps)
            }
        };
        LinkShare { link, flows, all_flows, left_gbps, link_gbps }
    });
    Some(Share {
        rate_gbps: network.rate_gbps(job),
        switches: switches.collect(),
        links: links.collect(),
    })
}

/// Number of places that [`distance`] tries at most.
pub const PLACES_MAX: u64 = 5_000;

/// The distance of a job's place to the best one, whatever the policy or the protocol allows, while all
/// other jobs stay where they are: policies migrate none. The measure is the objective of NetPack's
/// table 3 in the steady state: Σ d/v over all running jobs, the time to sum the gradients of one
/// iteration of each.
#[derive(Clone, PartialEq, Debug)]
pub enum Distance {
    /// There are too many places: about this number.
    Skipped(u64),
    /// All were tried.
    Known {
        /// Σ d/v in seconds.
        cost_s: f64,
        /// The least Σ d/v, with all switches on the paths aggregating for the job, in seconds.
        least_s: f64,
        /// A place with it.
        best: Plan,
    },
}

/// The distance of a running job to its best place; `None` if it does not run.
#[must_use]
pub fn distance(state: &State<'_>, job: JobId) -> Option<Distance> {
    let mut state = state.clone();
    let cost_s = cost_s(&mut state);
    let Running { job, plan } = state.end(job)?;
    let cluster = state.cluster();
    let free: Vec<u32> = cluster.server_indices().map(|server| state.free(server)).collect();
    let places = count(&free, job.gpus);
    if places > PLACES_MAX {
        return Some(Distance::Skipped(places));
    }
    let (mut least_s, mut best) = (cost_s, plan);
    for way in ways(&free, job.gpus) {
        let plan = way.plan(cluster);
        state.start(&job, plan.clone()).expect("a placement takes only what is free");
        let cost_s = self::cost_s(&mut state);
        state.end(job.id);
        // Rounding differs with the order of jobs.
        if cost_s < least_s * (1.0 - 1e-9) {
            (least_s, best) = (cost_s, plan);
        }
    }
    Some(Distance::Known { cost_s, least_s, best })
}

/// Σ d/v of all running jobs, in seconds.
fn cost_s(state: &mut State<'_>) -> f64 {
    let (state, network) = state.with_network();
    let jobs = state.running().values().map(|running| &running.job);
    jobs.map(|job| job.gradient_bytes * 8e-9 / network.rate_gbps(job.id)).sum()
}
