//! Keeps the steady state up to date while jobs start and end.
//!
//! A resource that is never exhausted has no effect on rates. The use of a resource only grows
//! while rates rise, so a resource with capacity left at the end had some all along. Jobs that
//! share only such resources do not affect each other. When a job starts or ends, new rates are due
//! for the jobs that the change reaches over *full* resources, from job to job. These jobs are
//! filled again, with the capacity that the others leave them on the remaining resources. If one of
//! those resources is exhausted in the process, its other users are reached, too, and the filling
//! starts again. Otherwise the result equals that of filling everything again.

use super::fill::{Filler, Filling};
use super::members::{Members, Use};
use super::resources::Resource;
use super::{SteadyNetwork, left_gbps};
use crate::job::JobId;
use crate::plan::Plan;
use crate::topology::{Cluster, RackIndex};

/// A network that is kept up to date.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    network: SteadyNetwork,
    members: Members,
    /// By resource: whether it is exhausted.
    full: Vec<bool>,
    /// Jobs that started since the network last settled.
    came: Vec<JobId>,
    /// Resources used by jobs that ended since then.
    left: Vec<Resource>,
    reach: Reach,
    filler: Filler,
    /// By rack: the level at which its switch ran out of memory when the network last settled.
    settled_level_gbps: Vec<f64>,
    /// By resource: use of the current job.
    own: Vec<Use>,
    /// By resource: use of all jobs.
    taken: Vec<Use>,
    /// Places of jobs whose rates may differ from those at the last call of
    /// [`Steady::take_rerated`].
    rerated: Vec<u32>,
}

impl Steady {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let network = SteadyNetwork::new(cluster);
        let count = network.resources.count();
        Self {
            members: Members::new(&network.resources),
            full: vec![false; count],
            came: Vec::new(),
            left: Vec::new(),
            reach: Reach::new(count),
            filler: Filler::new(&network.resources),
            settled_level_gbps: network.level_gbps.clone(),
            own: vec![Use::default(); count],
            taken: vec![Use::default(); count],
            rerated: Vec::new(),
            network,
        }
    }

    pub(crate) fn insert(&mut self, cluster: &Cluster, job: JobId, plan: &Plan) {
        if let Some(at) = self.network.insert(cluster, job, plan) {
            for &resource in &self.network.flowing[at as usize].resources {
                self.members.insert(resource, job, at);
            }
            self.came.push(job);
        }
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        if let Some(at) = self.network.remove(job) {
            let flowing = &mut self.network.flowing[at as usize];
            flowing.rerated = false;
            for &resource in &flowing.resources {
                self.members.remove(resource, job);
                self.left.push(resource);
            }
        }
    }

    /// The network, which must have settled.
    pub(crate) fn network(&self) -> &SteadyNetwork {
        debug_assert!(self.came.is_empty() && self.left.is_empty(), "it has settled");
        &self.network
    }

    /// Jobs whose rates have changed since the last call, in order.
    pub(crate) fn take_rerated(&mut self) -> Vec<JobId> {
        self.settle();
        let mut jobs = Vec::new();
        for at in self.rerated.drain(..) {
            let flowing = &mut self.network.flowing[at as usize];
            if std::mem::take(&mut flowing.rerated) {
                jobs.push(flowing.job);
            }
        }
        jobs.sort_unstable();
        jobs
    }

    /// Accounts for the jobs that started and ended.
    pub(crate) fn settle(&mut self) {
        if self.came.is_empty() && self.left.is_empty() {
            return;
        }
        self.reach.begin(self.network.flowing.len());
        for resource in self.left.drain(..) {
            self.reach.add_resource(resource, &self.members, &self.full);
            self.reach.touch(resource);
        }
        for job in self.came.drain(..) {
            if let Some(&Some(at)) = self.network.jobs.get(&job) {
                self.reach.add_job(at);
            }
        }
        loop {
            self.reach.follow(&self.network, &self.members, &self.full);
            self.fill();
            if !self.spread() {
                break;
            }
        }
        self.publish();
    }

    /// Fills the jobs that were reached, and updates the use of all resources.
    fn fill(&mut self) {
        let Self { network, members, reach, filler, .. } = self;
        let capacity_gbps = &network.resources.capacity_gbps;
        let left_gbps: Vec<_> = reach
            .resources
            .iter()
            .map(|&resource| {
                let others = if reach.has_all(resource, members) {
                    0.0
                } else {
                    members.sum(resource, |at| !reach.has_job[at as usize]).load_gbps
                };
                (resource, capacity_gbps[resource.at()] - others)
            })
            .collect();
        filler.fill(&mut Filling {
            resources: &network.resources,
            members,
            flowing: &mut network.flowing,
            level_gbps: &mut network.level_gbps,
            jobs: &reach.jobs,
            left_gbps: &left_gbps,
        });
        self.count();
    }

    /// Updates the use of the jobs that have changed.
    fn count(&mut self) {
        let Self { network, members, reach, own, taken, .. } = self;
        let level = |rack: RackIndex| network.level_gbps[rack.at()];
        for index in 0..reach.jobs.len() {
            let flowing = &mut network.flowing[reach.jobs[index] as usize];
            let (tree, rate_gbps) = (&flowing.tree, flowing.rate_gbps);
            let same = rate_gbps == flowing.counted_gbps
                && tree.is_same(rate_gbps, &self.settled_level_gbps, &network.level_gbps);
            if same {
                continue;
            }
            // If the filling starts again, the job must be counted again.
            flowing.counted_gbps = f64::NAN;
            tree.uses_at(rate_gbps, level, |which, flows| own[which.at()].flows += flows);
            tree.loads_gbps(rate_gbps, level, |which, load| own[which.at()].load_gbps += load);
            for &resource in &flowing.resources {
                members.set(resource, flowing.job, std::mem::take(&mut own[resource.at()]));
                reach.touch(resource);
            }
        }
        for &resource in &reach.touched {
            taken[resource.at()] = members.sum(resource, |_| true);
        }
    }

    /// Reaches the users of shared resources that were exhausted in the process. Returns whether
    /// there are any.
    fn spread(&mut self) -> bool {
        let mut spreads = false;
        for index in 0..self.reach.resources.len() {
            let resource = self.reach.resources[index];
            if self.reach.has_all(resource, &self.members) {
                continue;
            }
            if self.ran_out(resource) {
                spreads = true;
                self.reach.add_members(resource, &self.members);
            }
        }
        spreads
    }

    fn ran_out(&self, resource: Resource) -> bool {
        let capacity_gbps = self.network.resources.capacity_gbps[resource.at()];
        left_gbps(capacity_gbps, self.taken[resource.at()].load_gbps) == 0.0
    }

    fn publish(&mut self) {
        for index in 0..self.reach.touched.len() {
            let resource = self.reach.touched[index];
            self.full[resource.at()] = self.ran_out(resource);
            let capacity_gbps = self.network.resources.capacity_gbps[resource.at()];
            let taken = self.taken[resource.at()];
            self.network.available_gbps[resource.at()] = left_gbps(capacity_gbps, taken.load_gbps);
            self.network.flows[resource.at()] = taken.flows;
        }
        for resource in &self.reach.resources {
            if let Some(rack) = self.network.resources.as_memory(*resource) {
                self.settled_level_gbps[rack.at()] = self.network.level_gbps[rack.at()];
            }
        }
        for &at in &self.reach.jobs {
            let flowing = &mut self.network.flowing[at as usize];
            flowing.counted_gbps = flowing.rate_gbps;
            if flowing.rate_gbps != flowing.settled_gbps {
                flowing.settled_gbps = flowing.rate_gbps;
                if !std::mem::replace(&mut flowing.rerated, true) {
                    self.rerated.push(at);
                }
            }
        }
        self.reach.end();
    }
}

/// Jobs affected by a change, and the resources that they use.
#[derive(Clone, Debug, Default)]
struct Reach {
    /// Places of the jobs.
    jobs: Vec<u32>,
    /// By place.
    has_job: Vec<bool>,
    resources: Vec<Resource>,
    /// By resource: number of these jobs that use it; `None` if it is not one of the resources.
    users: Vec<Option<u32>>,
    /// Number of jobs whose resources have been added.
    followed: usize,
    /// Resources whose use may have changed.
    touched: Vec<Resource>,
    is_touched: Vec<bool>,
}

impl Reach {
    fn new(resources: usize) -> Self {
        Self { users: vec![None; resources], is_touched: vec![false; resources], ..Self::default() }
    }

    /// Starts with an empty set for `places` places.
    fn begin(&mut self, places: usize) {
        self.has_job.resize(places, false);
    }

    fn add_job(&mut self, at: u32) {
        if !std::mem::replace(&mut self.has_job[at as usize], true) {
            self.jobs.push(at);
        }
    }

    fn add_members(&mut self, resource: Resource, members: &Members) {
        members.of(resource).iter().for_each(|member| self.add_job(member.at));
    }

    /// Adds a resource and, if it is full, all its users.
    fn add_resource(&mut self, resource: Resource, members: &Members, full: &[bool]) {
        if self.users[resource.at()].is_none() {
            self.users[resource.at()] = Some(0);
            self.resources.push(resource);
            if full[resource.at()] {
                self.add_members(resource, members);
            }
        }
    }

    /// Adds the resources of the jobs, and the jobs that they reach.
    fn follow(&mut self, network: &SteadyNetwork, members: &Members, full: &[bool]) {
        while let Some(&at) = self.jobs.get(self.followed) {
            self.followed += 1;
            for &resource in &network.flowing[at as usize].resources {
                self.add_resource(resource, members, full);
                *self.users[resource.at()].get_or_insert(0) += 1;
            }
        }
    }

    fn touch(&mut self, resource: Resource) {
        if !std::mem::replace(&mut self.is_touched[resource.at()], true) {
            self.touched.push(resource);
        }
    }

    /// Whether all users of a resource are among the jobs.
    fn has_all(&self, resource: Resource, members: &Members) -> bool {
        self.users[resource.at()] == Some(members.of(resource).len() as u32)
    }

    /// Clears the set.
    fn end(&mut self) {
        self.jobs.drain(..).for_each(|at| self.has_job[at as usize] = false);
        self.resources.drain(..).for_each(|resource| self.users[resource.at()] = None);
        self.touched.drain(..).for_each(|resource| self.is_touched[resource.at()] = false);
        self.followed = 0;
    }
}
