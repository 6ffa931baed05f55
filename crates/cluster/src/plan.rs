//! Plans: where a job runs.

use std::cmp::Reverse;

use crate::topology::{Cluster, RackIndex, ServerIndex};

/// Where a job runs.
///
/// A server's GPUs of one job are one *worker*: they sum locally before they use the network
/// (NetPack §2.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The server of each GPU of the job, in the order of the job's ranks.
    pub ranks: Vec<ServerIndex>,
    /// The server of the parameter server; `None` if the job sums its gradients without one.
    pub ps: Option<ServerIndex>,
    /// Racks whose switch aggregates for the job, in order.
    pub aggregating: Vec<RackIndex>,
}

impl Plan {
    /// All GPUs on one server, so that the job does not use the network.
    #[must_use]
    pub fn on_one(server: ServerIndex, gpus: u32) -> Self {
        Self { ranks: vec![server; gpus as usize], ..Self::default() }
    }

    /// GPUs on several servers, with a parameter server. Every switch that has something to sum
    /// aggregates.
    #[must_use]
    pub fn spread(cluster: &Cluster, shares: &[(ServerIndex, u32)], ps: ServerIndex) -> Self {
        let ranks = shares
            .iter()
            .flat_map(|&(server, gpus)| std::iter::repeat_n(server, gpus as usize))
            .collect();
        let mut plan = Self { ranks, ps: Some(ps), aggregating: Vec::new() };
        plan.aggregating = plan.summing_racks(cluster);
        plan
    }

    /// The plan with a parameter server on the server with the most GPUs of the job (the first such
    /// server), and every switch on the path aggregating. If the plan names servers that the
    /// cluster does not have, it is returned unchanged, and starting it fails.
    #[must_use]
    pub fn with_server(mut self, cluster: &Cluster) -> Self {
        if self.ranks.iter().any(|server| server.at() >= cluster.servers().len()) {
            return self;
        }
        let most = self.workers().into_iter().min_by_key(|&(_, gpus)| Reverse(gpus));
        self.ps = most.map(|(server, _)| server);
        self.aggregating = self.racks(cluster);
        self
    }

    /// The workers: servers in order, each with its number of GPUs of the job.
    #[must_use]
    pub fn workers(&self) -> Vec<(ServerIndex, u32)> {
        let mut servers = self.ranks.clone();
        servers.sort_unstable();
        servers.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
    }

    /// Whether gradients cross the network.
    #[must_use]
    pub fn is_distributed(&self) -> bool {
        self.ranks.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Racks of workers and parameter server, in order.
    #[must_use]
    pub fn racks(&self, cluster: &Cluster) -> Vec<RackIndex> {
        let mut racks: Vec<_> =
            self.ranks.iter().chain(&self.ps).map(|&server| cluster.server(server).rack).collect();
        racks.sort_unstable();
        racks.dedup();
        racks
    }

    /// Racks whose switch may have something to sum, in order: those with several workers, and the
    /// parameter server's.
    ///
    /// A rack with one worker sends one flow in any case. If it is told to aggregate, it still
    /// takes its share of the switch's memory (NetPack, algorithm 1, line 26).
    #[must_use]
    pub fn summing_racks(&self, cluster: &Cluster) -> Vec<RackIndex> {
        let rack = |server: ServerIndex| cluster.server(server).rack;
        let mut workers: Vec<_> =
            self.workers().into_iter().map(|(server, _)| rack(server)).collect();
        workers.sort_unstable();
        let several = workers.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        let mut racks: Vec<_> = several.map(|same| same[0]).chain(self.ps.map(rack)).collect();
        racks.sort_unstable();
        racks.dedup();
        racks
    }
}
