//! The steady state: what the network gives each job once all of them have settled (NetPack §4).
//!
//! Jobs raise the rates of their workers together until each meets a full link. They share switches'
//! memory on the way: where it runs out, as many flows leave a switch as come to it. That is algorithm
//! 1 of the paper, kept line by line in `plain`. What runs is `fill`, which goes from event to event, on
//! as few of the jobs as `settle` can tell.

mod fill;
mod members;
mod plain;
mod resources;
mod settle;
mod tree;

use std::collections::HashMap;

use self::resources::{Resource, Resources};
pub(crate) use self::settle::Steady;
use self::tree::Tree;
use crate::job::JobId;
use crate::plan::Plan;
use crate::topology::{Cluster, RackIndex, ServerIndex};

/// What the network gives each job, and what it has left.
///
/// Links are undirected: results go back the way that gradients came (NetPack §3.2). A job's gradients
/// cross the link of each of its workers, from racks other than the parameter server's the uplinks
/// between the two, and the parameter server's link. A job on one server, or without a parameter
/// server, sends nothing.
#[derive(Clone, Debug)]
pub struct Network {
    resources: Resources,
    /// Where in `flowing` a job is; none if it sends nothing.
    jobs: HashMap<JobId, Option<u32>>,
    /// Jobs that send, and places of such that no longer run.
    flowing: Vec<Flowing>,
    vacant: Vec<u32>,
    /// By rack: rate of the jobs that were still rising when the switch ran out of memory.
    level_gbps: Vec<f64>,
    /// By resource.
    available_gbps: Vec<f64>,
    /// By resource.
    flows: Vec<u32>,
}

/// A job that sends.
#[derive(Clone, Debug)]
struct Flowing {
    job: JobId,
    tree: Tree,
    /// What it shares with others, each once and in order.
    resources: Vec<Resource>,
    rate_gbps: f64,
    /// Its rate when the network settled last.
    settled_gbps: f64,
    /// Its rate when it was last noted what it takes, if that still holds.
    counted_gbps: f64,
    /// Whether its rate has changed since someone wanted to know.
    rerated: bool,
}

impl Network {
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
            resources,
        }
    }

    /// Gb/s at which each worker of a job sends; infinite if the job sends nothing.
    ///
    /// # Panics
    ///
    /// If the job does not run.
    #[must_use]
    pub fn rate_gbps(&self, job: JobId) -> f64 {
        self.flowing(job).map_or(f64::INFINITY, |flowing| flowing.rate_gbps)
    }

    /// What is left of a server's link, Gb/s: `server.bw` of algorithm 2.
    #[must_use]
    pub fn available_gbps(&self, server: ServerIndex) -> f64 {
        self.available_gbps[Resource::server(server).at()]
    }

    /// Flows on a server's link: one for each worker, and at a parameter server as many as leave the
    /// rack's switch towards it (table 1).
    #[must_use]
    pub fn flows(&self, server: ServerIndex) -> u32 {
        self.flows[Resource::server(server).at()]
    }

    /// What is left of a rack's uplinks, Gb/s.
    #[must_use]
    pub fn rack_available_gbps(&self, rack: RackIndex) -> f64 {
        self.available_gbps[self.resources.uplink(rack).at()]
    }

    /// Flows on a rack's uplinks, to and from it: `FC_r` of NetPack §5.2.
    #[must_use]
    pub fn rack_flows(&self, rack: RackIndex) -> u32 {
        self.flows[self.resources.uplink(rack).at()]
    }

    /// What is left of the peak aggregation throughput of a rack's switch, Gb/s.
    #[must_use]
    pub fn pat_left_gbps(&self, rack: RackIndex) -> f64 {
        self.available_gbps[self.resources.memory(rack).at()]
    }

    /// How much of a job's rate a rack's switch aggregates, Gb/s; zero if it does not serve the job.
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

    fn flowing(&self, job: JobId) -> Option<&Flowing> {
        let at = self.jobs.get(&job).expect("the job runs");
        at.map(|at| &self.flowing[at as usize])
    }

    /// Adds a job; returns its place if it sends anything.
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

    /// Removes a job; returns its place if it sent anything.
    fn remove(&mut self, job: JobId) -> Option<u32> {
        let at = self.jobs.remove(&job)?;
        self.vacant.extend(at);
        at
    }

    /// Takes over what came out, and counts what that leaves.
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

/// What a capacity has left; nothing where that is only what rounding left.
fn left_gbps(capacity_gbps: f64, load_gbps: f64) -> f64 {
    let left = capacity_gbps - load_gbps;
    if left > capacity_gbps * 1e-9 { left } else { 0.0 }
}
