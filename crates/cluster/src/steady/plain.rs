//! Algorithm 1 of NetPack, line by line: slow, and the reference for tests of the fast one.
//!
//! `docs/evaluation/steady-state.md` describes the choices where the paper's lines are ambiguous.
//! In short:
//!
//! - Lines 6 and 23 compare the rest of a link's capacity with zero. Here the link that offers the
//!   least to each flow is full, whatever rounding leaves, so that the loop terminates. A link
//!   without bandwidth is full from the start; line 6 would never consider it.
//! - Line 7 likewise: the switch that offers the least to each job is out of memory.
//! - Line 22 uses `node.flows`: the flows that leave the child.

use super::SteadyNetwork;
use super::resources::{Resource, Resources};
use super::tree::Tree;
use crate::job::JobId;
use crate::plan::Plan;
use crate::topology::{Cluster, RackIndex};

impl SteadyNetwork {
    /// The rates of jobs by algorithm 1 as printed.
    ///
    /// [`State::network`](crate::State::network) returns the same, faster.
    #[must_use]
    pub fn plain<'p>(
        cluster: &Cluster,
        plans: impl IntoIterator<Item = (JobId, &'p Plan)>,
    ) -> Self {
        let mut network = Self::new(cluster);
        let mut plans: Vec<_> = plans.into_iter().collect();
        plans.sort_by_key(|(job, _)| *job);
        for (job, plan) in plans {
            network.insert(cluster, job, plan);
        }
        let trees = network.flowing.iter().map(|flowing| &flowing.tree).collect();
        let Filling { rate_gbps, level_gbps, .. } = water_filling(&network.resources, trees);
        network.publish(&rate_gbps, level_gbps);
        network
    }
}

/// Raises the rates of all jobs together until each reaches a full link.
fn water_filling<'n>(resources: &'n Resources, jobs: Vec<&'n Tree>) -> Filling<'n> {
    let mut filling = Filling {
        resources,
        frozen: vec![false; jobs.len()],
        rate_gbps: vec![0.0; jobs.len()],
        jobs,
        left_gbps: resources.capacity_gbps.clone(),
        level_gbps: vec![f64::INFINITY; resources.racks()],
        water_gbps: 0.0,
    };
    // Line 2.
    while filling.frozen.contains(&false) {
        filling.round();
    }
    filling
}

struct Filling<'n> {
    resources: &'n Resources,
    jobs: Vec<&'n Tree>,
    frozen: Vec<bool>,
    rate_gbps: Vec<f64>,
    /// `l.bw` of links, `r.PAT` of switches.
    left_gbps: Vec<f64>,
    /// Rate of the jobs that were not frozen when a switch's memory was exhausted.
    level_gbps: Vec<f64>,
    /// Rate of the jobs that are not frozen.
    water_gbps: f64,
}

impl Filling<'_> {
    /// Lines 3 to 9.
    fn round(&mut self) {
        let users = self.count();
        let (share_gbps, first) = self.least(&users);
        self.augment(share_gbps, &users);
        match self.resources.as_memory(first) {
            Some(rack) => self.level_gbps[rack.at()] = self.water_gbps,
            None => self.freeze(first),
        }
    }

    /// Line 15: whether a switch has memory left.
    fn sums(&self, rack: RackIndex) -> bool {
        self.level_gbps[rack.at()].is_infinite()
    }

    /// Lines 3 to 5: number of flows of each link, number of jobs of each switch with memory left.
    fn count(&self) -> Vec<u32> {
        let mut users = vec![0; self.resources.count()];
        for (tree, _) in self.jobs.iter().zip(&self.frozen).filter(|(_, frozen)| !**frozen) {
            tree.uses(|rack| self.sums(rack), |resource, times| users[resource.at()] += times);
        }
        users
    }

    /// Lines 6 to 8: the least capacity per flow or job, and its resource. Among equals, links come
    /// before memory and lower numbers before higher ones.
    fn least(&self, users: &[u32]) -> (f64, Resource) {
        let left = self.left_gbps.iter().zip(users).zip((0..).map(Resource));
        left.filter(|((_, users), _)| **users > 0)
            .map(|((left, users), which)| (left.max(0.0) / f64::from(*users), which))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
            .expect("a job that is not frozen crosses a link")
    }

    /// Lines 17 to 26 without 23 and 24.
    fn augment(&mut self, share_gbps: f64, users: &[u32]) {
        self.water_gbps += share_gbps;
        for (left, users) in self.left_gbps.iter_mut().zip(users) {
            *left -= share_gbps * f64::from(*users);
        }
    }

    /// Lines 23 and 24.
    fn freeze(&mut self, full: Resource) {
        let rates = self.frozen.iter_mut().zip(&mut self.rate_gbps);
        for (tree, (frozen, rate_gbps)) in self.jobs.iter().zip(rates) {
            let mut stops = false;
            tree.uses(|_| true, |resource, _| stops |= resource == full);
            if stops && !*frozen {
                *frozen = true;
                *rate_gbps = self.water_gbps;
            }
        }
    }
}
