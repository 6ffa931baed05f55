//! The steady state: the rates of all jobs once they have settled (NetPack §4).
//!
//! All jobs raise the rates of their workers together, until each reaches a saturated link. They
//! share the memory of switches on the path. Where the memory is exhausted, all flows that arrive
//! at a switch also leave it. That is algorithm 1 of the paper, implemented line by line in
//! `plain`. The simulator uses `fill`, which advances from event to event, on the few jobs that
//! `settle` selects.

mod fill;
mod members;
mod plain;
mod resources;
mod settle;
mod tree;

use std::collections::{BTreeMap, HashMap};

use self::resources::{Resource, Resources};
pub(crate) use self::settle::Steady;
use self::tree::Tree;
use crate::job::JobId;
use crate::plan::Plan;
use crate::topology::{Cluster, RackIndex, ServerIndex};

/// A link that jobs share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Link {
    /// A server's.
    Server(ServerIndex),
    /// All uplinks of a rack.
    Uplinks(RackIndex),
}

/// The rates of the jobs, and the remaining capacity of the network.
///
/// Links are undirected: results return on the path of the gradients (NetPack §3.2). A job's
/// gradients cross the link of each of its workers, the parameter server's link and, from racks
/// other than the parameter server's, the uplinks between the two. A job on one server, or without
/// a parameter server, does not use the network.
#[derive(Clone, Debug)]
pub struct SteadyNetwork {
    resources: Resources,
    /// A job's index in `flowing`; `None` if it does not use the network.
    jobs: HashMap<JobId, Option<u32>>,
    /// Jobs that use the network, and free places.
    flowing: Vec<Flowing>,
    vacant: Vec<u32>,
    /// By rack: rate of the jobs that were still rising when the switch ran out of memory.
    level_gbps: Vec<f64>,
    /// By resource: remaining capacity.
    available_gbps: Vec<f64>,
    /// By resource: number of flows.
    flows: Vec<u32>,
    /// Number of times that it has settled.
    settlements: u64,
    /// Servers whose links were used differently after the last of them.
    changed: Vec<ServerIndex>,
}

/// A job that uses the network.
#[derive(Clone, Debug)]
struct Flowing {
    job: JobId,
    tree: Tree,
    /// The shared resources that it uses, each once and in order.
    resources: Vec<Resource>,
    rate_gbps: f64,
    /// Its rate when the network last settled.
    settled_gbps: f64,
    /// Its rate when its use was last recorded, if that is still valid.
    counted_gbps: f64,
    /// Whether its rate has changed since the rates were last queried.
    rerated: bool,
}

impl SteadyNetwork {
    /// A network without jobs.
    fn new(cluster: &Cluster) -> Self {
        let resources = Resources::of(cluster);
        Self {
            jobs: HashMap::new(),
            flowing: Vec::new(),
            vacant: Vec::new(),
            level_gbps: vec![f64::INFINITY; resources.racks()],
            available_gbps: resources.capacity_gbps.clone(),
            flows: vec![0; resources.count()],
            settlements: 0,
            changed: Vec::new(),
            resources,
        }
    }

    /// Rate of each worker of a job in Gb/s; infinite if the job does not use the network.
    ///
    /// # Panics
    ///
    /// If the job does not run.
    #[must_use]
    pub fn rate_gbps(&self, job: JobId) -> f64 {
        self.flowing(job).map_or(f64::INFINITY, |flowing| flowing.rate_gbps)
    }

    /// Remaining capacity of a server's link in Gb/s: `server.bw` of algorithm 2.
    #[must_use]
    pub fn available_gbps(&self, server: ServerIndex) -> f64 {
        self.available_gbps[Resource::server(server).at()]
    }

    /// Number of flows on a server's link: one per worker, and at a parameter server as many as
    /// leave the rack's switch towards it (table 1).
    #[must_use]
    pub fn flows(&self, server: ServerIndex) -> u32 {
        self.flows[Resource::server(server).at()]
    }

    /// Remaining capacity of a rack's uplinks in Gb/s.
    #[must_use]
    pub fn rack_available_gbps(&self, rack: RackIndex) -> f64 {
        self.available_gbps[self.resources.uplink(rack).at()]
    }

    /// Number of flows on a rack's uplinks, in both directions: `FC_r` of NetPack §5.2.
    #[must_use]
    pub fn rack_flows(&self, rack: RackIndex) -> u32 {
        self.flows[self.resources.uplink(rack).at()]
    }

    /// Remaining peak aggregation throughput of a rack's switch in Gb/s.
    #[must_use]
    pub fn pat_left_gbps(&self, rack: RackIndex) -> f64 {
        self.available_gbps[self.resources.memory(rack).at()]
    }

    /// The part of a job's rate that a rack's switch aggregates, in Gb/s; zero if it does not
    /// aggregate for the job.
    ///
    /// # Panics
    ///
    /// If the job does not run.
    #[must_use]
    pub fn aggregated_gbps(&self, job: JobId, rack: RackIndex) -> f64 {
        self.flowing(job).map_or(0.0, |flowing| {
            flowing.tree.aggregated_gbps(rack, flowing.rate_gbps, |rack| self.level_gbps[rack.at()])
        })
    }

    /// The links that a running job uses below the pods' uplinks, each once, with the number of its
    /// flows there (table 1). Empty if the job does not use the network.
    ///
    /// # Panics
    ///
    /// If the job does not run.
    #[must_use]
    pub fn links(&self, job: JobId) -> Vec<(Link, u32)> {
        let Some(flowing) = self.flowing(job) else { return Vec::new() };
        let level = |rack: RackIndex| self.level_gbps[rack.at()];
        let mut links = BTreeMap::new();
        flowing.tree.uses_at(flowing.rate_gbps, level, |which, flows| {
            if let Some(link) = self.resources.as_link(which) {
                *links.entry(link).or_default() += flows;
            }
        });
        links.into_iter().collect()
    }

    /// Number of times that the network has settled.
    pub(crate) const fn settlements(&self) -> u64 {
        self.settlements
    }

    /// The servers whose links' use has changed since an earlier number of settlements. `None` if
    /// that was not recorded: only the last change is.
    pub(crate) fn changed_since(&self, settlements: u64) -> Option<&[ServerIndex]> {
        match self.settlements - settlements {
            0 => Some(&[]),
            1 => Some(&self.changed),
            _ => None,
        }
    }

    fn flowing(&self, job: JobId) -> Option<&Flowing> {
        let at = self.jobs.get(&job).expect("the job runs");
        at.map(|at| &self.flowing[at as usize])
    }

    /// Adds a job. Returns its place if it uses the network.
    fn insert(&mut self, cluster: &Cluster, job: JobId, plan: &Plan) -> Option<u32> {
        let at = Tree::of(cluster, &self.resources, plan).map(|tree| {
            let resources = tree.resources();
            let flowing = Flowing {
                job,
                tree,
                resources,
                rate_gbps: 0.0,
                settled_gbps: f64::NAN,
                counted_gbps: f64::NAN,
                rerated: false,
            };
            if let Some(at) = self.vacant.pop() {
                self.flowing[at as usize] = flowing;
                at
            } else {
                self.flowing.push(flowing);
                self.flowing.len() as u32 - 1
            }
        });
        self.jobs.insert(job, at);
        at
    }

    /// Removes a job. Returns its place if it used the network.
    fn remove(&mut self, job: JobId) -> Option<u32> {
        let at = self.jobs.remove(&job)?;
        self.vacant.extend(at);
        at
    }

    /// Stores the computed rates and updates the use of the resources.
    fn publish(&mut self, rate_gbps: &[f64], level_gbps: Vec<f64>) {
        let level = |rack: RackIndex| level_gbps[rack.at()];
        let mut load_gbps = vec![0.0; self.resources.count()];
        for (flowing, &rate_gbps) in self.flowing.iter_mut().zip(rate_gbps) {
            flowing.rate_gbps = rate_gbps;
            let tree = &flowing.tree;
            tree.uses_at(rate_gbps, level, |which, flows| self.flows[which.at()] += flows);
            tree.loads_gbps(rate_gbps, level, |which, load| load_gbps[which.at()] += load);
        }
        for (available, load) in self.available_gbps.iter_mut().zip(load_gbps) {
            *available = left_gbps(*available, load);
        }
        self.level_gbps = level_gbps;
    }
}

/// The remaining capacity. Differences within rounding errors count as zero.
fn left_gbps(capacity_gbps: f64, load_gbps: f64) -> f64 {
    let left = capacity_gbps - load_gbps;
    if left > capacity_gbps * 1e-9 { left } else { 0.0 }
}
