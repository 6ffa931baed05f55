//! A minimal policy.

use tributary_cluster::{Job, Pending, Plan, Policy, Round, ServerIndex};

/// The first server with room. Otherwise the first servers that together have enough GPUs, with the
/// parameter server on the last server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstFit;

fn plan(round: &Round<'_, '_>, job: &Job) -> Option<Plan> {
    let cluster = round.cluster();
    let mut servers = cluster.server_indices();
    if let Some(server) = servers.find(|&server| round.free(server) >= job.gpus) {
        return Some(Plan::on_one(server, job.gpus));
    }
    if round.free_total() < job.gpus {
        return None;
    }
    let mut left = job.gpus;
    let mut shares: Vec<(ServerIndex, u32)> = Vec::new();
    for server in cluster.server_indices() {
        let share = round.free(server).min(left);
        if share > 0 {
            shares.push((server, share));
            left -= share;
        }
    }
    Some(Plan::spread(cluster, &shares, cluster.server_indices().last()?))
}

impl Policy for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        for Pending { job, .. } in waiting {
            if let Some(plan) = plan(round, job) {
                round.start(job, plan).expect("there is room");
            }
        }
    }
}
