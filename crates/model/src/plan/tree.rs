//! A job's parts on the tree from its workers to its parameter server.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use tributary_protocol::Mode;
use tributary_wire::{Bitmap, JobId, Rack, WorkerIndex};

use super::{JobAtSwitch, Placement, count};
use crate::paths::{Hop, Tree};
use crate::{HostId, SwitchId, Topology, worker_index};

/// The parts by switch, that of the root first.
type Parts = BTreeMap<(bool, SwitchId), JobAtSwitch>;

/// The parts of [`job`](super::job) that are on the tree, without reminders.
pub(super) fn parts_in_tree(topology: &Topology, placement: &Placement) -> Vec<JobAtSwitch> {
    // If one switch computes the sums, no packet goes to the parameter server.
    let ps = placement.ps.filter(|_| placement.assignment.mode != Mode::Local);
    let server = ps.map(|ps| topology.host(ps).address);
    let (root, ps_port) = root(topology, placement, ps);
    let tree = Tree::towards(topology, root);
    let mut parts = Parts::new();
    let mut ways = Ways::default();
    let racks = placement.racks(topology);
    let everyone = racks.positions();
    let numbered: Vec<(HostId, WorkerIndex)> =
        placement.workers.iter().copied().zip((0..).map(worker_index)).collect();
    // The rack that each switch adds for.
    let adding: BTreeMap<SwitchId, Rack> = numbered
        .iter()
        .map(|&(host, worker)| (topology.attachment(host).0, racks.name(worker).0))
        .collect();
    for (host, worker) in numbered {
        let (rack, bit) = racks.name(worker);
        let position = Bitmap::of(racks.position(worker));
        let (mut switch, mut port) = topology.attachment(host);
        let home = switch;
        loop {
            let hop = ways.step(topology, &tree, placement.job, switch);
            let part = parts
                .entry((hop.is_some(), switch))
                .or_insert_with(|| JobAtSwitch::off_the_tree(switch, server, placement, everyone));
            part.uplink = hop.map(|hop| hop.out).or(ps_port.filter(|_| switch == root));
            part.rack = adding.get(&switch).copied().unwrap_or_default();
            let mut relays = BTreeSet::new();
            if switch == home || part.rack == Rack::NONE {
                let bit = if switch == home { bit } else { position };
                *part.units.entry(port).or_default() |= bit;
                if switch == home {
                    *part.senders.entry(port).or_default() += 1;
                }
                part.members |= bit;
                part.upward |= position;
            } else {
                relays.insert(Rack::NONE);
            }
            if switch != home && rack != Rack::NONE {
                relays.insert(rack);
            }
            if !relays.is_empty() {
                part.relays.entry(port).or_default().extend(relays);
            }
            let Some(hop) = hop else { break };
            (switch, port) = (hop.to, hop.into);
        }
    }
    for part in parts.values_mut() {
        ways.tell(part);
        if let Some(port) = ps_port.filter(|_| part.switch == root) {
            // It has an answer to each worker. With ATP, a worker of the job may be there, too.
            *part.senders.entry(port).or_default() += count(&placement.workers);
        }
    }
    if let Some(adding) = &placement.adding
        && !placement.assignment.service.is_aggregated()
    {
        leave_out(&mut parts, &tree, adding);
    }
    mark_top(topology, placement, &mut parts, &tree, everyone);
    parts.into_values().collect()
}

/// The steps of a job's tree.
#[derive(Default)]
struct Ways {
    /// By switch: the ports that lead to switches below.
    lower: BTreeMap<SwitchId, BTreeSet<u16>>,
    /// The circuits beside that of a port, by their ports.
    beside: BTreeMap<(SwitchId, u16), Vec<u16>>,
    /// By switch: the ports of several circuits to the next one, the first of which is the uplink.
    up: BTreeMap<SwitchId, Vec<u16>>,
}

impl Ways {
    /// The next step from a switch towards the root.
    fn step(
        &mut self,
        topology: &Topology,
        tree: &Tree,
        job: JobId,
        switch: SwitchId,
    ) -> Option<Hop> {
        let mut circuits = tree.hop(switch)?.circuits(topology, switch);
        // Results, of which a unit gets one, take the first circuit. It is another one for the next job.
        let turn = usize::from(job.get()) % circuits.len();
        circuits.rotate_left(turn);
        let (&first, others) = circuits.split_first()?;
        if !others.is_empty() {
            let ports = |port: fn(&Hop) -> u16| others.iter().map(port).collect();
            self.beside.insert((switch, first.out), ports(|other| other.out));
            self.beside.insert((first.to, first.into), ports(|other| other.into));
            self.up.insert(switch, circuits.iter().map(|circuit| circuit.out).collect());
        }
        self.lower.entry(first.to).or_default().insert(first.into);
        Some(first)
    }

    fn tell(&mut self, part: &mut JobAtSwitch) {
        part.lower = self.lower.remove(&part.switch).unwrap_or_default();
        for port in part.lower.iter().chain(&part.uplink) {
            if let Some(others) = self.beside.remove(&(part.switch, *port)) {
                part.beside.insert(*port, others);
            }
        }
        if let Some(up) = self.up.get(&part.switch) {
            part.circuits = circuits(part, up);
        }
    }
}

/// The circuits of a job's flows: one for what comes from each port, in turns, and the first for all that the
/// switch adds.
fn circuits(part: &JobAtSwitch, up: &[u16]) -> BTreeMap<u16, u16> {
    let own = part.units.keys().filter(|port| !part.lower.contains(port)).copied();
    let lower = part.lower.iter().flat_map(|&port| part.with_beside(port));
    let adds = part.segment().is_some();
    let mut turns = up.iter().copied().cycle();
    let flows = own.map(|port| (port, adds)).chain(lower.map(|port| (port, false)));
    let flow = |(port, is_added)| {
        let circuit = if is_added { up.first().copied() } else { turns.next() };
        Some((port, circuit?))
    };
    flows.filter_map(flow).collect()
}

/// The root of the tree, and its port to the parameter server.
fn root(topology: &Topology, placement: &Placement, ps: Option<HostId>) -> (SwitchId, Option<u16>) {
    if let Some(ps) = ps {
        let (switch, port) = topology.attachment(ps);
        return (switch, Some(port));
    }
    let mut homes = placement.workers.iter().map(|&worker| topology.attachment(worker).0);
    let home = homes.next().expect("a job has a worker");
    assert!(homes.all(|other| other == home), "sums of several switches need a PS");
    (home, None)
}

/// Marks the first switch where all workers meet, which is the same from every worker.
fn mark_top(
    topology: &Topology,
    placement: &Placement,
    parts: &mut Parts,
    tree: &Tree,
    everyone: Bitmap,
) {
    let mut lowest = placement.workers.first().map(|&worker| topology.attachment(worker).0);
    while let Some(switch) = lowest {
        let hop = tree.hop(switch);
        if let Some(part) = parts.get_mut(&(hop.is_some(), switch))
            && part.rack == Rack::NONE
            && part.members == everyone
        {
            part.top = true;
            return;
        }
        lowest = hop.map(|hop| hop.to);
    }
}

/// Has switches that are not to add pass everything, and those above pass what is no longer one contribution.
fn leave_out(parts: &mut Parts, tree: &Tree, adding: &BTreeSet<SwitchId>) {
    let key = |switch: SwitchId| (tree.hop(switch).is_some(), switch);
    let depth =
        |switch: SwitchId| iter::successors(tree.hop(switch), |hop| tree.hop(hop.to)).count();
    let mut order: Vec<SwitchId> = parts.keys().map(|(_, switch)| *switch).collect();
    order.sort_by_key(|switch| Reverse(depth(*switch)));
    for switch in order {
        let Some(part) = parts.get_mut(&key(switch)) else { continue };
        // With one unit, there is nothing to add.
        part.forwards |= part.units.len() > 1 && !adding.contains(&switch);
        let passes = part.relays.values().any(|racks| racks.contains(&Rack::NONE));
        if !(part.forwards || passes) {
            continue;
        }
        let Some(hop) = tree.hop(switch) else { continue };
        let Some(upper) = parts.get_mut(&key(hop.to)) else { continue };
        if let Some(unit) = upper.units.remove(&hop.into) {
            upper.members = upper.members.without(unit);
            upper.upward = upper.upward.without(unit);
            upper.relays.entry(hop.into).or_default().insert(Rack::NONE);
        }
    }
}
