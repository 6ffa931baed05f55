//! Clusters and jobs for the tests of Titan and its baselines.

use crate::{Cluster, Job, JobId, Pending, Plan, Policy, Round, Shape, State};

pub(crate) fn cluster(servers: u32, gpus: u32) -> Cluster {
    let shape =
        Shape { racks: 1, servers_per_rack: servers, gpus_per_server: gpus, ..Shape::default() };
    Cluster::uniform(&shape)
}

pub(crate) fn job(id: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        submit_s: 0.0,
        gpus,
        iterations: 1.0,
        compute_s: 1.0,
        gradient_bytes: 1e9,
        value: 1.0,
    }
}

/// A cluster in which other jobs leave these numbers of GPUs of each server free.
pub(crate) fn occupied<'c>(cluster: &'c Cluster, free: &[u32]) -> State<'c> {
    let mut state = State::new(cluster);
    for (server, &free) in cluster.server_indices().zip(free) {
        let taken = cluster.server(server).gpus - free;
        if taken > 0 {
            let job = job(1_000_000 + server.0, taken);
            state.start(&job, Plan::on_one(server, taken)).unwrap();
        }
    }
    state
}

pub(crate) fn free(state: &State<'_>) -> Vec<u32> {
    state.cluster().server_indices().map(|server| state.free(server)).collect()
}

/// Lets a policy place one job, and removes the job.
pub(crate) fn place_one(policy: &mut dyn Policy, state: &mut State<'_>, gpus: u32) -> Option<Plan> {
    let job = job(0, gpus);
    let pending = Pending { job: job.clone(), value: job.value };
    policy.place(&mut Round::new(state), &[pending]);
    state.end(job.id).map(|running| running.plan)
}
