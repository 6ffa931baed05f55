//! A job's traffic, computed from its plan independently of the code under test.

use std::collections::BTreeMap;

use tributary_cluster::{Cluster, Plan, RackIndex, ServerIndex};

/// A link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Link {
    Server(u32),
    Rack(u32),
    Pod(u32),
}

impl Link {
    pub(crate) fn gbps(self, cluster: &Cluster) -> f64 {
        match self {
            Self::Server(server) => cluster.servers()[server as usize].link_gbps,
            Self::Rack(rack) => cluster.racks()[rack as usize].uplink_gbps,
            Self::Pod(pod) => cluster.pods()[pod as usize].uplink_gbps,
        }
    }
}

/// The senders and receivers of a job.
pub(crate) struct Hierarchy {
    /// Servers with workers.
    pub(crate) workers: Vec<ServerIndex>,
    pub(crate) ps: ServerIndex,
    pub(crate) root: RackIndex,
    /// Number of workers in the root's rack.
    pub(crate) beside: u32,
    /// Number of workers in each other rack.
    pub(crate) leaves: BTreeMap<RackIndex, u32>,
    /// Racks that are to aggregate and have memory.
    pub(crate) aggregating: Vec<RackIndex>,
}

impl Hierarchy {
    /// `None` if the job does not use the network.
    pub(crate) fn of(cluster: &Cluster, plan: &Plan) -> Option<Self> {
        let mut workers = plan.ranks.clone();
        workers.sort();
        workers.dedup();
        let ps = plan.ps.filter(|_| workers.len() > 1)?;
        let root = cluster.server(ps).rack;
        let mut leaves = BTreeMap::new();
        for worker in &workers {
            *leaves.entry(cluster.server(*worker).rack).or_insert(0) += 1;
        }
        let beside = leaves.remove(&root).unwrap_or(0);
        let mut aggregating = plan.aggregating.clone();
        aggregating.retain(|rack| {
            let serves = *rack == root || leaves.contains_key(rack);
            serves && cluster.rack(*rack).pat_gbps > 0.0
        });
        aggregating.sort();
        aggregating.dedup();
        Some(Self { workers, ps, root, beside, leaves, aggregating })
    }

    /// The links between a leaf's switch and the root's.
    pub(crate) fn path(&self, cluster: &Cluster, leaf: RackIndex) -> Vec<Link> {
        let mut path = vec![Link::Rack(leaf.0), Link::Rack(self.root.0)];
        let pods = [leaf, self.root].map(|rack| cluster.rack(rack).pod);
        if pods[0] != pods[1] {
            path.extend(pods.into_iter().flatten().map(|pod| Link::Pod(pod.0)));
        }
        path
    }

    /// Number of flows on each link if the switches in `summing` aggregate.
    pub(crate) fn flows(&self, cluster: &Cluster, summing: &[RackIndex]) -> BTreeMap<Link, u32> {
        let mut flows = BTreeMap::new();
        let mut add = |link, more| *flows.entry(link).or_insert(0) += more;
        self.workers.iter().for_each(|worker| add(Link::Server(worker.0), 1));
        let mut arriving = self.beside;
        for (&leaf, &workers) in &self.leaves {
            let up = if summing.contains(&leaf) { 1 } else { workers };
            self.path(cluster, leaf).into_iter().for_each(|link| add(link, up));
            arriving += up;
        }
        add(Link::Server(self.ps.0), if summing.contains(&self.root) { 1 } else { arriving });
        flows
    }

    /// The load of each link if workers send at `rate_gbps` and each switch aggregates the first
    /// `shares_gbps` of the rate. It is summed slice by slice, from one share to the next.
    pub(crate) fn loads_gbps(
        &self,
        cluster: &Cluster,
        rate_gbps: f64,
        shares_gbps: &BTreeMap<RackIndex, f64>,
    ) -> BTreeMap<Link, f64> {
        let mut edges: Vec<_> = shares_gbps.values().copied().chain([0.0, rate_gbps]).collect();
        edges.sort_by(f64::total_cmp);
        let mut loads = BTreeMap::new();
        for edge in edges.windows(2) {
            let middle = (edge[0] + edge[1]) / 2.0;
            let summing: Vec<_> =
                shares_gbps.iter().filter(|(_, share)| **share > middle).map(|(r, _)| *r).collect();
            for (link, flows) in self.flows(cluster, &summing) {
                *loads.entry(link).or_insert(0.0) += f64::from(flows) * (edge[1] - edge[0]);
            }
        }
        loads
    }
}
