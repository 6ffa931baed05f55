//! Random clusters and batches.

use proptest::prelude::*;
use tributary_cluster::{
    Cluster, Job, JobId, Pending, Policy, Rack, RackIndex, Round, Server, State,
};

/// A job with default properties.
pub(crate) fn job(id: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        submit_s: 0.0,
        gpus,
        iterations: 100.0,
        compute_s: 0.1,
        gradient_bytes: 1e8,
        value: 1.0,
    }
}

/// Waiting jobs with their own values.
pub(crate) fn waiting(jobs: impl IntoIterator<Item = Job>) -> Vec<Pending> {
    jobs.into_iter().map(|job| Pending { value: job.value, job }).collect()
}

/// Lets a policy place jobs, and returns those that it placed.
pub(crate) fn place(
    policy: &mut dyn Policy,
    state: &mut State<'_>,
    waiting: &[Pending],
) -> Vec<JobId> {
    let mut round = Round::new(state);
    policy.place(&mut round, waiting);
    round.started().to_vec()
}

/// A cluster of racks of any sizes: servers with and without GPUs, slow links and none,
/// oversubscribed uplinks and none, switches with much memory, little and none.
pub(crate) fn any_cluster() -> impl Strategy<Value = Cluster> {
    let link = prop_oneof![8 => Just(100.0), 2 => Just(25.0), 1 => Just(0.0)];
    let server = (prop_oneof![6 => Just(4_u32), 3 => 1_u32..8, 1 => Just(0)], link);
    let uplink =
        prop_oneof![4 => Just(None), 2 => (20.0..400.0).prop_map(Some), 1 => Just(Some(0.0))];
    let pat = prop_oneof![3 => Just(1000.0), 2 => 10.0..200.0, 1 => Just(0.0)];
    let rack = (prop::collection::vec(server, 1..6), uplink, pat);
    prop::collection::vec(rack, 1..5).prop_map(|shapes| {
        let mut servers: Vec<Server> = Vec::new();
        let mut racks = Vec::new();
        for ((of_rack, uplink, pat_gbps), rack) in shapes.into_iter().zip((0..).map(RackIndex)) {
            let first = servers.len() as u32;
            let links: f64 = of_rack.iter().map(|(_, link_gbps)| link_gbps).sum();
            servers.extend(of_rack.into_iter().map(|(gpus, link_gbps)| Server {
                rack,
                gpus,
                link_gbps,
            }));
            let uplink_gbps = uplink.unwrap_or(links);
            racks.push(Rack {
                servers: first..servers.len() as u32,
                pod: None,
                uplink_gbps,
                pat_gbps,
            });
        }
        Cluster::new(servers, racks, Vec::new())
    })
}

/// GPUs and values of the jobs of some batches.
pub(crate) fn any_batches() -> impl Strategy<Value = Vec<Vec<(u32, f64)>>> {
    let gpus = prop_oneof![4 => 1_u32..5, 3 => 5_u32..12, 1 => 12_u32..40];
    let value = (0_u32..5).prop_map(|quarters| f64::from(quarters) / 4.0);
    prop::collection::vec(prop::collection::vec((gpus, value), 1..12), 1..5)
}
