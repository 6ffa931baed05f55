//! Keeps the steady state up to date while jobs start and end.
//!
//! A resource that is never exhausted has no effect on rates. The use of a resource only grows
//! while rates rise, so a resource with capacity left at the end had some all along. Jobs that
//! share only such resources do not affect each other. When a job starts or ends, new rates are due
//! for the jobs that the change reaches over *full* resources, from job to job. These jobs are
//! filled again, with the capacity that the others leave them on the remaining resources. If one of
//! those resources is exhausted in the process, its other users are reached, too, and the filling
//! starts again. Otherwise the result equals that of filling everything again.
//!
//! The memory of switches needs less. A job that rises beyond the level at which a switch ran out
//! of memory takes as much of it as all others that do, whatever its rate. So the level stays where
//! it is, and the switch's other jobs keep their rates, if none starts or ends there and those that
//! were reached over other resources stay beyond the level. The filling assumes that. Where it does
//! not hold, all users of the switch are reached, and the filling starts again.

use super::fill::{Filler, Filling};
use super::members::{Members, Use};
use super::resources::Resource;
use super::{Flowing, Link, SteadyNetwork, left_gbps};
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
        self.recompute();
        self.publish();
    }

    /// Computes the rates of the jobs that the changes reach.
    fn recompute(&mut self) {
        self.reach.begin(self.network.flowing.len());
        let Self { network, members, reach, full, .. } = self;
        for resource in self.left.drain(..) {
            reach.change(resource, members, full);
            reach.touch(resource);
        }
        for job in self.came.drain(..) {
            if let Some(&Some(at)) = network.jobs.get(&job) {
                reach.add_job(at);
                for &resource in &network.flowing[at as usize].resources {
                    reach.change(resource, members, full);
                }
            }
        }
        loop {
            self.reach.follow(&self.network, &self.members, &self.full);
            self.fill();
            if !self.spread() {
                break;
            }
        }
    }

    /// Fills the jobs that were reached, and updates the use of all resources.
    fn fill(&mut self) {
        let Self { network, members, reach, filler, .. } = self;
        let capacity_gbps = &network.resources.capacity_gbps;
        let (mut left_gbps, mut held_gbps) = (Vec::new(), Vec::new());
        for &resource in &reach.resources {
            let has_all = reach.has_all(resource, members);
            let memory = network.resources.as_memory(resource);
            if let Some(rack) = memory.filter(|_| !has_all && self.full[resource.at()]) {
                held_gbps.push((resource, self.settled_level_gbps[rack.at()]));
                continue;
            }
            let others = if has_all {
                0.0
            } else {
                members.sum(resource, |at| !reach.has_job[at as usize]).load_gbps
            };
            left_gbps.push((resource, capacity_gbps[resource.at()] - others));
        }
        filler.fill(&mut Filling {
            resources: &network.resources,
            members,
            flowing: &mut network.flowing,
            level_gbps: &mut network.level_gbps,
            jobs: &reach.jobs,
            left_gbps: &left_gbps,
            held_gbps: &held_gbps,
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

    /// Reaches the users of shared resources that were exhausted in the process, and of switches
    /// whose level moves. Returns whether there are any.
    fn spread(&mut self) -> bool {
        let mut spreads = false;
        for index in 0..self.reach.resources.len() {
            let resource = self.reach.resources[index];
            if self.reach.has_all(resource, &self.members) {
                continue;
            }
            let memory = self.network.resources.as_memory(resource);
            let spreads_here = match memory.filter(|_| self.full[resource.at()]) {
                Some(rack) => self.moves(resource, self.settled_level_gbps[rack.at()]),
                None => self.ran_out(resource),
            };
            if spreads_here {
                spreads = true;
                self.reach.add_members(resource, &self.members);
            }
        }
        spreads
    }

    /// Whether jobs that were reached take more or less of a switch's memory than before, which ran
    /// out at a level.
    fn moves(&self, memory: Resource, level_gbps: f64) -> bool {
        let reached = |at: usize| self.reach.has_job[at];
        self.members.of(memory).iter().any(|member| {
            let Flowing { rate_gbps, settled_gbps, .. } = self.network.flowing[member.at as usize];
            reached(member.at as usize)
                && rate_gbps != settled_gbps
                && rate_gbps.min(settled_gbps) <= level_gbps
        })
    }

    fn ran_out(&self, resource: Resource) -> bool {
        let capacity_gbps = self.network.resources.capacity_gbps[resource.at()];
        left_gbps(capacity_gbps, self.taken[resource.at()].load_gbps) == 0.0
    }

    fn publish(&mut self) {
        let network = &mut self.network;
        network.settlements += 1;
        network.changed.clear();
        for &resource in &self.reach.touched {
            let at = resource.at();
            let taken = self.taken[at];
            let available_gbps = left_gbps(network.resources.capacity_gbps[at], taken.load_gbps);
            self.full[at] = available_gbps == 0.0;
            let before = (network.available_gbps[at].to_bits(), network.flows[at]);
            if before == (available_gbps.to_bits(), taken.flows) {
                continue;
            }
            network.available_gbps[at] = available_gbps;
            network.flows[at] = taken.flows;
            if let Some(Link::Server(server)) = network.resources.as_link(resource) {
                network.changed.push(server);
            }
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

    /// Adds a resource.
    fn add_resource(&mut self, resource: Resource) -> bool {
        let is_new = self.users[resource.at()].is_none();
        if is_new {
            self.users[resource.at()] = Some(0);
            self.resources.push(resource);
        }
        is_new
    }

    /// Adds a resource where a job starts or ends and, if it is full, all its users.
    fn change(&mut self, resource: Resource, members: &Members, full: &[bool]) {
        self.add_resource(resource);
        if full[resource.at()] {
            self.add_members(resource, members);
        }
    }

    /// Adds the resources of the jobs, and the jobs that they reach.
    fn follow(&mut self, network: &SteadyNetwork, members: &Members, full: &[bool]) {
        while let Some(&at) = self.jobs.get(self.followed) {
            self.followed += 1;
            for &resource in &network.flowing[at as usize].resources {
                let is_link = network.resources.as_memory(resource).is_none();
                if self.add_resource(resource) && is_link && full[resource.at()] {
                    self.add_members(resource, members);
                }
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

#[cfg(test)]
mod tests {
    use crate::topology::{ServerIndex, Shape};

    use super::*;

    /// Two racks of six servers, with memory for less than one job each.
    fn steady(plans: &[(&[u32], u32)]) -> (Cluster, Steady) {
        let shape = Shape { racks: 2, servers_per_rack: 6, pat_gbps: 30.0, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let mut steady = Steady::new(&cluster);
        for (id, (servers, ps)) in (0..).zip(plans) {
            start(&cluster, &mut steady, id, servers, *ps);
        }
        steady.settle();
        (cluster, steady)
    }

    fn start(cluster: &Cluster, steady: &mut Steady, id: u32, servers: &[u32], ps: u32) {
        let shares: Vec<_> = servers.iter().map(|server| (ServerIndex(*server), 1)).collect();
        steady.insert(cluster, JobId(id), &Plan::spread(cluster, &shares, ServerIndex(ps)));
    }

    /// The jobs that are filled again after the last change.
    fn reached(mut steady: Steady) -> Vec<u32> {
        steady.recompute();
        let jobs = steady.reach.jobs.iter();
        let mut jobs: Vec<_> = jobs.map(|at| steady.network.flowing[*at as usize].job.0).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Job 2 sends from the first rack to the second and uses the memory of both.
    #[test]
    fn a_job_beyond_the_level_of_another_switch_does_not_move_it() {
        let (cluster, mut steady) = steady(&[(&[0, 1], 2), (&[6, 7], 8), (&[3, 4, 9, 10], 11)]);
        start(&cluster, &mut steady, 3, &[0, 1], 5);
        assert_eq!(reached(steady), [0, 2, 3], "job 1 keeps its rate");
    }

    /// Job 1 uses the memory of both racks. It shares a link with ten others, and so rises less than
    /// job 0 before these end, and more than it afterwards.
    #[test]
    fn a_job_that_rises_to_the_level_of_another_switch_moves_it() {
        let mut plans: Vec<(&[u32], u32)> = vec![(&[6, 7], 8), (&[3, 4, 9, 10], 11)];
        plans.resize(12, (&[3, 5], 3));
        let (_, mut steady) = steady(&plans);
        for id in 2..12 {
            steady.remove(JobId(id));
        }
        assert_eq!(reached(steady), [0, 1]);
    }
}
