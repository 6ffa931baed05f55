//! The path of a job's gradients: from its workers over the switches of their racks to the
//! parameter server.

use super::resources::{Resource, Resources};
use crate::plan::Plan;
use crate::topology::{Cluster, RackIndex, ServerIndex};

/// From this share of a job's rate on, the aggregation throughput counts as the whole rate, so that
/// rounding does not decide how many flows leave a switch.
const NEARLY_ALL: f64 = 1.0 - 1e-9;

/// The aggregation hierarchy of a job (NetPack §4.1): the parameter server's rack is the root, the
/// other racks with workers are the leaves.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Links of servers with workers, in order.
    workers: Vec<Resource>,
    leaves: Vec<Leaf>,
    root: Switch,
    /// The parameter server's link.
    ps: Resource,
}

/// A rack with workers and without the parameter server.
#[derive(Clone, Debug)]
struct Leaf {
    switch: Switch,
    /// Links from its switch to the root's.
    path: Vec<Resource>,
}

/// A rack's switch from the point of view of a job.
#[derive(Clone, Copy, Debug)]
struct Switch {
    rack: RackIndex,
    /// Number of workers of the job below it.
    workers: u32,
    /// Its memory, if it aggregates for the job and has any.
    memory: Option<Resource>,
}

impl Switch {
    /// Whether it aggregates. `sums` returns whether a switch has memory left.
    fn sums(&self, sums: impl Fn(RackIndex) -> bool) -> bool {
        self.memory.is_some() && sums(self.rack)
    }

    /// Number of flows that leave it if `arriving` flows arrive (algorithm 1, lines 15 and 16).
    fn flows(&self, arriving: u32, sums: impl Fn(RackIndex) -> bool) -> u32 {
        if self.sums(sums) { 1 } else { arriving }
    }

    /// The part of a job's rate that it aggregates, if it ran out of memory when jobs had reached
    /// `level_gbps`.
    fn share_gbps(&self, rate_gbps: f64, level_gbps: impl Fn(RackIndex) -> f64) -> f64 {
        self.memory.map_or(0.0, |_| level_gbps(self.rack).min(rate_gbps))
    }

    /// Its output if its workers send at `rate_gbps` and it aggregates up to `share_gbps` (table
    /// 1).
    fn output_gbps(&self, rate_gbps: f64, share_gbps: f64) -> f64 {
        share_gbps.min(rate_gbps) + f64::from(self.workers) * (rate_gbps - share_gbps).max(0.0)
    }
}

impl Tree {
    /// `None` if the job sends nothing to a parameter server over the network.
    pub(super) fn of(cluster: &Cluster, resources: &Resources, plan: &Plan) -> Option<Self> {
        let ps = plan.ps.filter(|_| plan.is_distributed())?;
        let servers: Vec<_> = plan.workers().into_iter().map(|(server, _)| server).collect();
        let rack_of = |server: ServerIndex| cluster.server(server).rack;
        let switch = |rack: RackIndex, workers| {
            let aggregates = plan.aggregating.contains(&rack) && cluster.rack(rack).pat_gbps > 0.0;
            Switch { rack, workers, memory: aggregates.then(|| resources.memory(rack)) }
        };
        let mut root = switch(rack_of(ps), 0);
        let mut leaves = Vec::new();
        // The servers of a rack are consecutive.
        for same in servers.chunk_by(|a, b| rack_of(*a) == rack_of(*b)) {
            let switch = switch(rack_of(same[0]), same.len() as u32);
            if switch.rack == root.rack {
                root = switch;
            } else {
                let path = resources.between(cluster, switch.rack, root.rack);
                leaves.push(Leaf { switch, path });
            }
        }
        let workers = servers.into_iter().map(Resource::server).collect();
        Some(Self { workers, leaves, root, ps: Resource::server(ps) })
    }

    fn switches(&self) -> impl Iterator<Item = &Switch> {
        self.leaves.iter().map(|leaf| &leaf.switch).chain([&self.root])
    }

    /// Racks whose switch aggregates for the job.
    fn aggregating(&self) -> impl Iterator<Item = RackIndex> {
        self.switches().filter(|switch| switch.memory.is_some()).map(|switch| switch.rack)
    }

    /// The shared resources of the job, each once and in order.
    pub(super) fn resources(&self) -> Vec<Resource> {
        let mut all = Vec::new();
        self.uses(|_| true, |resource, _| all.push(resource));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Calls `on` with the job's use of each resource per Gb/s of its rate: for a link, the number
    /// of its flows there (algorithm 1, lines 10 to 16); for the memory of a switch, one. `sums`
    /// returns whether a switch has memory left.
    ///
    /// A link is reported each time that the job crosses it: the uplink of the parameter server's
    /// rack once per other rack, the link of a server with both a worker and the parameter server
    /// twice.
    pub(super) fn uses(&self, sums: impl Fn(RackIndex) -> bool, mut on: impl FnMut(Resource, u32)) {
        self.workers.iter().for_each(|&link| on(link, 1));
        let mut arriving = self.root.workers;
        for leaf in &self.leaves {
            let flows = leaf.switch.flows(leaf.switch.workers, &sums);
            leaf.path.iter().for_each(|&link| on(link, flows));
            arriving += flows;
        }
        on(self.ps, self.root.flows(arriving, &sums));
        for switch in self.switches() {
            if let Some(memory) = switch.memory.filter(|_| sums(switch.rack)) {
                on(memory, 1);
            }
        }
    }

    /// [`uses`](Self::uses) if workers send at `rate_gbps` and each switch ran out of memory at its
    /// level. Numbers of flows are those of table 1.
    pub(super) fn uses_at(
        &self,
        rate_gbps: f64,
        level_gbps: impl Fn(RackIndex) -> f64,
        on: impl FnMut(Resource, u32),
    ) {
        self.uses(|rack| level_gbps(rack) >= rate_gbps * NEARLY_ALL, on);
    }

    /// Calls `on` with each link on which the job has more flows once the switch of `rack` runs out
    /// of memory, and the number of additional flows. `sums` describes the state after that.
    pub(super) fn growth(
        &self,
        rack: RackIndex,
        sums: impl Fn(RackIndex) -> bool,
        mut on: impl FnMut(Resource, u32),
    ) {
        if rack == self.root.rack {
            let leaves = self.leaves.iter().map(|leaf| &leaf.switch);
            let arriving: u32 = leaves.map(|leaf| leaf.flows(leaf.workers, &sums)).sum();
            on(self.ps, arriving + self.root.workers - 1);
        } else if let Some(leaf) = self.leaves.iter().find(|leaf| leaf.switch.rack == rack) {
            let more = leaf.switch.workers - 1;
            leaf.path.iter().for_each(|&link| on(link, more));
            if !self.root.sums(sums) {
                on(self.ps, more);
            }
        }
    }

    /// Calls `on` with the job's use of each resource in Gb/s, if its workers send at `rate_gbps`
    /// and each switch ran out of memory at its level. A link is reported each time that the job
    /// crosses it.
    pub(super) fn loads_gbps(
        &self,
        rate_gbps: f64,
        level_gbps: impl Fn(RackIndex) -> f64,
        mut on: impl FnMut(Resource, f64),
    ) {
        self.workers.iter().for_each(|&link| on(link, rate_gbps));
        // The root aggregates the part of the rate that was filled in first. It forwards all
        // arriving traffic of the rest.
        let root = self.root.share_gbps(rate_gbps, &level_gbps);
        let mut to_ps = root + f64::from(self.root.workers) * (rate_gbps - root);
        for Leaf { switch, path } in &self.leaves {
            let share = switch.share_gbps(rate_gbps, &level_gbps);
            let output = switch.output_gbps(rate_gbps, share);
            path.iter().for_each(|&link| on(link, output));
            to_ps += output - switch.output_gbps(root, share);
        }
        on(self.ps, to_ps);
        for switch in self.switches() {
            if let Some(memory) = switch.memory {
                on(memory, switch.share_gbps(rate_gbps, &level_gbps));
            }
        }
    }

    /// Whether the levels at which switches ran out of memory make no difference to the job at its
    /// rate.
    pub(super) fn is_same(&self, rate_gbps: f64, before_gbps: &[f64], now_gbps: &[f64]) -> bool {
        self.aggregating().all(|rack| {
            let (before, now) = (before_gbps[rack.at()], now_gbps[rack.at()]);
            before == now || before.min(now) >= rate_gbps
        })
    }

    /// The part of the job's rate that a rack's switch aggregates.
    pub(super) fn aggregated_gbps(
        &self,
        rack: RackIndex,
        rate_gbps: f64,
        level_gbps: impl Fn(RackIndex) -> f64,
    ) -> f64 {
        let switch = self.switches().find(|switch| switch.rack == rack);
        switch.map_or(0.0, |switch| switch.share_gbps(rate_gbps, level_gbps))
    }
}
