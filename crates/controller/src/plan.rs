//! From a topology to forwarding, and from a job's placement to its part in every switch. Nothing
//! here talks to a switch.
//!
//! # Levels of aggregation
//!
//! The paths from a job's workers to its parameter server (PS) form a tree. A switch adds where the
//! paths of two or more workers meet: first in the workers' rack, last in the PS's rack. A switch
//! whose packets all come from one port has nothing to add: its part has one unit, which is
//! complete, so the program passes it on at once. If several racks meet in a switch in between (a
//! spine above three racks, say), that switch adds too. From there on they are one unit, so every
//! port has one unit, which the program checks fresh packets against.
//!
//! # Racks
//!
//! A job of more than 32 workers has racks ([`Racks`]). The switch of a rack adds the contributions
//! of that rack, which packets name by the rack's number and a bitmap of its workers. A whole sum
//! becomes one contribution of the rack's position, which switches further on add with those of other
//! positions, as above. What else comes from the workers of a rack passes these switches: partial
//! sums, and packets that are sent again. A switch adds at one level only, so the switch of a rack
//! passes the sums of racks behind it.
//!
//! In ESA the lowest switch where all workers meet is the job's *top*, which sends the results. The
//! reminder agent may be on any host and must reach every switch that adds ([`targets`]).
//!
//! P4INC and SwitchML add at one level only, in the switches that workers are attached to; other
//! switches pass their sums unchanged. Their jobs have an [`Assignment`]: see [`services`].

use std::collections::{BTreeMap, BTreeSet};

use tributary_jobfile::{
    Aggregation, HostId, Job, Limits, LinkId, SwitchId, Topology, worker_index,
};
use tributary_protocol::{Assignment, Mode, Racks, Rate};
use tributary_wire::{Bitmap, Epoch, Host, JobId, Kind, Mac, Protocol, Rack, Run, WorkerIndex};

use crate::paths::Tree;
use crate::reminders::way_to;
pub use crate::reminders::{Target, targets};
use crate::services;

/// How a switch forwards plain frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forwarding {
    /// The port towards each host, by its MAC address.
    pub hosts: BTreeMap<Mac, u16>,
    /// Ports that flood frames for all hosts: those of a spanning tree, hosts included.
    pub flood: Vec<u16>,
    /// Ports of hosts whose plain frames are limited to a rate.
    pub limited: BTreeMap<u16, Rate>,
}

/// How each switch forwards, indexed by [`SwitchId`].
///
/// Frames for a host take the shortest path, which is the same in both directions. Flooded frames
/// follow a spanning tree of the network, so they do not loop. A switch has no entry for a host that
/// circuits do not reach.
#[must_use]
pub fn forwarding(topology: &Topology) -> Vec<Forwarding> {
    let mut plan = vec![Forwarding::default(); topology.switches.len()];
    let mut trees: BTreeMap<SwitchId, Tree> = BTreeMap::new();
    for host in topology.host_ids() {
        let (home, port) = topology.attachment(host);
        let mac = topology.host(host).address.mac;
        let tree = trees.entry(home).or_insert_with(|| Tree::towards(topology, home));
        for switch in topology.switch_ids().filter(|&switch| tree.reaches(switch)) {
            let out = tree.hop(switch).map_or(port, |hop| hop.out);
            plan[switch.0].hosts.insert(mac, out);
        }
        plan[home.0].flood.push(port);
        if let Some(rate) = topology.other_traffic {
            plan[home.0].limited.insert(port, rate);
        }
    }
    // One tree, unless circuits leave switches apart.
    let mut rest: Vec<SwitchId> = topology.switch_ids().collect();
    while let Some(&root) = rest.first() {
        let spanning = Tree::towards(topology, root);
        for switch in rest.extract_if(.., |switch| spanning.reaches(*switch)) {
            if let Some(hop) = spanning.hop(switch) {
                plan[switch.0].flood.push(hop.out);
                plan[hop.to.0].flood.push(hop.into);
            }
        }
    }
    for switch in &mut plan {
        switch.flood.sort_unstable();
    }
    plan
}

/// The links that plain frames from one host to another take, in order.
#[must_use]
pub fn way(topology: &Topology, from: HostId, to: HostId) -> Vec<LinkId> {
    let mut way = vec![topology.host(from).link];
    let tree = Tree::towards(topology, topology.attachment(to).0);
    let mut at = topology.attachment(from).0;
    while let Some(hop) = tree.hop(at) {
        way.extend(topology.ports(at).find(|(port, ..)| *port == hop.out).map(|(_, link, _)| link));
        at = hop.to;
    }
    way.push(topology.host(to).link);
    way
}

/// The hosts of a job's endpoints, and how the job is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The job.
    pub job: JobId,
    /// The epoch of its run.
    pub epoch: Epoch,
    /// Host of each worker, by worker index: all different, and fit for [`racks`](Self::racks).
    pub workers: Vec<HostId>,
    /// Host of the parameter server; `None`: all workers are attached to one switch.
    pub ps: Option<HostId>,
    /// Host of the reminder agent, for ESA.
    pub agent: Option<HostId>,
    /// Whether switches add at all, with ATP. The assignment says so for P4INC and SwitchML; ESA
    /// always adds.
    pub aggregation: Aggregation,
    /// How switches serve a job of P4INC or SwitchML; [`Assignment::NONE`] with ATP and ESA.
    pub assignment: Assignment,
    /// Whether packets name workers by rack even if there are up to 32.
    pub two_levels: bool,
    /// What switches let the job take.
    pub limits: Limits,
}

impl Placement {
    /// The run that is placed.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.job.run(self.epoch)
    }

    /// The placement of a job file, without an assignment. If jobs have aggregators of their own,
    /// the assignment depends on all jobs of the file: see
    /// [`Deployment::placement`](crate::Deployment::placement).
    #[must_use]
    pub fn unassigned(job: &Job) -> Self {
        Self {
            job: job.id,
            epoch: job.epoch,
            workers: job.workers.clone(),
            ps: job.ps,
            agent: job.agent,
            aggregation: job.aggregation,
            assignment: Assignment::NONE,
            two_levels: job.two_levels,
            limits: job.limits,
        }
    }

    /// How packets name the workers.
    ///
    /// # Panics
    /// If the workers do not fit: see [`Topology::racks`].
    #[must_use]
    pub fn racks(&self, topology: &Topology) -> Racks {
        // How many workers a rack may have was checked when the job was read, with its protocol.
        let racks = topology.racks(&self.workers, self.ps, Protocol::Atp, self.two_levels);
        racks.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same placement with this assignment.
    #[must_use]
    pub fn assigned(self, assignment: Assignment) -> Self {
        Self { assignment, ..self }
    }
}

/// A job's part in one switch: on the tree from workers to parameter server, or on the path of
/// reminders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobAtSwitch {
    /// The switch.
    pub switch: SwitchId,
    /// The rack whose contributions the switch adds; [`Rack::NONE`] if it adds those of positions.
    pub rack: Rack,
    /// Workers of the rack, or positions, below each port, which a fresh packet from there must
    /// contain.
    pub units: BTreeMap<u16, Bitmap>,
    /// By port: what packets from there name that the switch does not add.
    pub relays: BTreeMap<u16, BTreeSet<Rack>>,
    /// Those ports that lead to other switches.
    pub lower: BTreeSet<u16>,
    /// All that meet in the switch: positions, or all workers of its rack.
    pub members: Bitmap,
    /// The positions of a whole sum of the switch.
    pub upward: Bitmap,
    /// All positions of the job.
    pub everyone: Bitmap,
    /// The port towards the parameter server; `None` if the switch is not on the tree or the job
    /// has no parameter server.
    pub uplink: Option<u16>,
    /// Whether this is the lowest switch where all workers of the job meet.
    pub top: bool,
    /// The parameter server, if there is one.
    pub server: Option<Host>,
    /// Ports on which reminders arrive, and for the switches of which racks.
    pub reminders: BTreeMap<u16, BTreeSet<Rack>>,
    /// Ports on which answers to reminders arrive: each leads to other switches.
    pub answers: BTreeMap<u16, BTreeSet<Rack>>,
    /// Whether the switch only forwards, with ATP.
    pub forwards: bool,
    /// How switches serve the job, with P4INC and SwitchML.
    pub assignment: Assignment,
    /// Ports of hosts that send for the job, and how many workers' rates each may use.
    pub senders: BTreeMap<u16, u32>,
    /// What the switch lets the job take.
    pub limits: Limits,
}

impl JobAtSwitch {
    /// Whether the switch adds for the job, instead of only passing its packets on.
    #[must_use]
    pub fn aggregates(&self) -> bool {
        self.units.len() > 1 && !self.forwards
    }

    fn off_the_tree(
        switch: SwitchId,
        server: Option<Host>,
        placement: &Placement,
        everyone: Bitmap,
    ) -> Self {
        Self {
            switch,
            rack: Rack::NONE,
            units: BTreeMap::new(),
            relays: BTreeMap::new(),
            lower: BTreeSet::new(),
            members: Bitmap::EMPTY,
            upward: Bitmap::EMPTY,
            everyone,
            forwards: placement.aggregation == Aggregation::Server,
            assignment: placement.assignment,
            uplink: None,
            top: false,
            server,
            reminders: BTreeMap::new(),
            answers: BTreeMap::new(),
            senders: BTreeMap::new(),
            limits: placement.limits,
        }
    }

    /// The ports that results are multicast to.
    pub fn group(&self) -> impl Iterator<Item = u16> {
        let ports: BTreeSet<u16> = self.units.keys().chain(self.relays.keys()).copied().collect();
        ports.into_iter()
    }

    /// What packets for workers below the switch name: positions, and racks.
    pub(crate) fn names(&self) -> BTreeSet<Rack> {
        let relayed = self.relays.values().flatten().copied();
        relayed.chain([Rack::NONE, self.rack]).collect()
    }

    /// The packets of the job that each port may send, and what the switch does with them.
    #[must_use]
    pub fn memberships(&self, protocol: Protocol) -> Vec<Membership> {
        if matches!(protocol, Protocol::P4inc | Protocol::SwitchMl) {
            return services::memberships(self);
        }
        let Self { members, upward, rack, .. } = *self;
        let esa = protocol == Protocol::Esa;
        let top = esa && self.top;
        let forwards = self.forwards && !esa;
        let gradients = self.units.iter().map(|(&port, &unit)| {
            let add = Part::Contribute { unit, members, upward, top };
            let part = if forwards { Part::Pass } else { add };
            Membership { port, kind: Kind::Gradient, rack, part }
        });
        let mut all: Vec<Membership> = gradients.collect();
        let mut add = |port, kind, rack, part| all.push(Membership { port, kind, rack, part });
        for (port, rack) in pairs(&self.relays) {
            add(port, Kind::Gradient, rack, Part::Pass);
        }
        if let Some(uplink) = self.uplink {
            if !esa {
                add(uplink, Kind::Reply, Rack::NONE, Part::Answer);
            }
            for rack in self.names() {
                // A question of an ESA server names a worker, and is for all, as a result is.
                if esa || rack == Rack::NONE {
                    add(uplink, Kind::Parameter, rack, Part::Distribute);
                }
                if !esa {
                    add(uplink, Kind::Query, rack, Part::Answer);
                }
            }
        }
        if esa {
            for (port, target) in pairs(&self.reminders) {
                let own = self.aggregates() && target == rack;
                let part = if own { Part::Remind { members } } else { Part::Answer };
                add(port, Kind::Reminder, target, part);
            }
            for (port, target) in pairs(&self.answers) {
                add(port, Kind::Absent, target, Part::Answer);
                // Ports with gradients admit partial sums anyway.
                let adds = target == rack && self.units.contains_key(&port);
                if !adds && !self.relays.get(&port).is_some_and(|racks| racks.contains(&target)) {
                    add(port, Kind::Gradient, target, Part::Pass);
                }
            }
        }
        all
    }
}

/// One entry of the program's membership table, without the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The port that the packets come from.
    pub port: u16,
    /// Their kind.
    pub kind: Kind,
    /// Their rack.
    pub rack: Rack,
    /// What the switch does with them.
    pub part: Part,
}

/// Each port with each of its racks.
fn pairs(racks: &BTreeMap<u16, BTreeSet<Rack>>) -> impl Iterator<Item = (u16, Rack)> {
    racks.iter().flat_map(|(&port, racks)| racks.iter().map(move |&rack| (port, rack)))
}

/// What a switch does with packets of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Add them: each contains the workers of `unit`, and `members` meet in the switch.
    Contribute {
        /// Workers or positions below the port.
        unit: Bitmap,
        /// Workers or positions below the switch.
        members: Bitmap,
        /// The positions of the sum.
        upward: Bitmap,
        /// Whether the sum is the result, which the switch multicasts to the job's group.
        top: bool,
    },
    /// Answer those for the switch in which `members` meet with its partial sums; forward others.
    Remind {
        /// Workers or positions below the switch.
        members: Bitmap,
    },
    /// Multicast them to the job's group.
    Distribute,
    /// Forward them to their destination host.
    Answer,
    /// Forward them regardless of content: answers to reminders, on a port without contributions.
    Pass,
}

/// A job's part in every switch: first the tree from its workers to its parameter server, starting
/// with the PS's rack and then by [`SwitchId`]; then the switches that only reminders pass. A
/// switch that the agent cannot reach gets no reminders: see [`targets`]. Where no circuit leads to
/// the parameter server, the workers' switch has a part without a way up.
///
/// # Panics
/// If the placement has workers that do not fit or names a host that the topology does not have; if
/// it has no parameter server, or an assignment that needs none, and its workers are attached to
/// several switches.
#[must_use]
pub fn job(topology: &Topology, placement: &Placement) -> Vec<JobAtSwitch> {
    let tree = parts_in_tree(topology, placement);
    let mut parts = tree.clone();
    for target in tree.iter().filter(|part| part.aggregates()) {
        let Some((_, steps)) = way_to(topology, placement, &tree, target) else { continue };
        for step in steps {
            let known = parts.iter().position(|part| part.switch == step.switch);
            let at = known.unwrap_or_else(|| {
                parts.push(JobAtSwitch::off_the_tree(
                    step.switch,
                    target.server,
                    placement,
                    target.everyone,
                ));
                parts.len() - 1
            });
            parts[at].reminders.entry(step.into).or_default().insert(target.rack);
            let agent = placement.agent.map(|agent| topology.attachment(agent));
            if agent == Some((step.switch, step.into)) {
                parts[at].senders.insert(step.into, count(&placement.workers));
            }
            if step.switch != target.switch {
                parts[at].answers.entry(step.out).or_default().insert(target.rack);
            }
        }
    }
    parts
}

fn count(workers: &[HostId]) -> u32 {
    u32::try_from(workers.len()).unwrap_or(u32::MAX)
}

/// The parts of [`job`] that are on the tree, without reminders.
pub(crate) fn parts_in_tree(topology: &Topology, placement: &Placement) -> Vec<JobAtSwitch> {
    // If one switch computes the sums, no packet goes to the parameter server.
    let ps = placement.ps.filter(|_| placement.assignment.mode != Mode::Local);
    let server = ps.map(|ps| topology.host(ps).address);
    let (root, ps_port) = match ps {
        Some(ps) => {
            let (switch, port) = topology.attachment(ps);
            (switch, Some(port))
        }
        None => {
            let mut homes = placement.workers.iter().map(|&worker| topology.attachment(worker).0);
            let home = homes.next().expect("a job has a worker");
            assert!(homes.all(|other| other == home), "sums of several switches need a PS");
            (home, None)
        }
    };
    let tree = Tree::towards(topology, root);
    let mut parts: BTreeMap<(bool, SwitchId), JobAtSwitch> = BTreeMap::new();
    let mut lower: BTreeMap<SwitchId, BTreeSet<u16>> = BTreeMap::new();
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
            let hop = tree.hop(switch);
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
            lower.entry(switch).or_default().insert(port);
        }
    }
    for part in parts.values_mut() {
        part.lower = lower.remove(&part.switch).unwrap_or_default();
        if let Some(port) = ps_port.filter(|_| part.switch == root) {
            // It has an answer to each worker. With ATP, a worker of the job may be there, too.
            *part.senders.entry(port).or_default() += count(&placement.workers);
        }
    }
    // The first switch where all workers meet is the same from every worker.
    let mut lowest = placement.workers.first().map(|&worker| topology.attachment(worker).0);
    while let Some(switch) = lowest {
        let hop = tree.hop(switch);
        if let Some(part) = parts.get_mut(&(hop.is_some(), switch))
            && part.rack == Rack::NONE
            && part.members == everyone
        {
            part.top = true;
            break;
        }
        lowest = hop.map(|hop| hop.to);
    }
    parts.into_values().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tributary_jobfile::{End, Scenario, parse};

    use super::*;

    /// Follows a frame for a host hop by hop, and returns the host where it arrives.
    fn follow(topology: &Topology, plan: &[Forwarding], from: SwitchId, mac: Mac) -> HostId {
        let mut switch = from;
        for _ in 0..=topology.switches.len() {
            let out = plan[switch.0].hosts[&mac];
            match topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2 {
                End::Host(host) => return host,
                End::Switch(next, _) => switch = next,
            }
        }
        panic!("the frame circles");
    }

    pub(crate) fn scenario(text: &str) -> Scenario {
        parse(text, "test").unwrap_or_else(|error| panic!("{error}"))
    }

    fn parts(scenario: &Scenario) -> Vec<JobAtSwitch> {
        job(&scenario.topology, &Placement::unassigned(&scenario.jobs[0]))
    }

    #[test]
    fn a_star_adds_all_workers() {
        let parts = parts(&scenario("[[job]]"));
        let [part] = &parts[..] else { panic!("one switch: {parts:?}") };
        assert_eq!(part.members, Bitmap(0b1111));
        let units: Vec<(u16, u32)> = part.units.iter().map(|(&p, unit)| (p, unit.0)).collect();
        assert_eq!(units, [(1, 1), (2, 2), (3, 4), (4, 8)]);
        assert_eq!(part.uplink, Some(5));
        assert!(part.aggregates());
        let entries = part.memberships(Protocol::Atp);
        assert_eq!(entries.len(), 7);
        assert!(entries.iter().all(|entry| (entry.kind == Kind::Gradient) == (entry.port < 5)));
    }

    #[test]
    fn switches_pass_on_a_job_summed_by_its_server() {
        let scenario = scenario("[topology]\nracks = 2\n[[job]]");
        let placement = Placement {
            aggregation: Aggregation::Server,
            ..Placement::unassigned(&scenario.jobs[0])
        };
        for part in job(&scenario.topology, &placement) {
            assert!(!part.aggregates());
            let entries = part.memberships(Protocol::Atp).into_iter();
            let gradients: Vec<_> = entries.filter(|entry| entry.kind == Kind::Gradient).collect();
            assert_eq!(gradients.len(), part.units.len());
            assert!(gradients.iter().all(|entry| entry.part == Part::Pass));
        }
    }

    #[test]
    fn two_racks_add_at_two_levels() {
        let scenario = scenario("[topology]\nracks = 2\n[[job]]");
        let parts = parts(&scenario);
        let [top, rack] = &parts[..] else { panic!("two switches: {parts:?}") };
        // The PS's rack: two local workers at ports 1 and 2, the other rack's mask at port 4.
        assert_eq!(top.switch, SwitchId(0));
        assert_eq!(top.units, BTreeMap::from([(1, Bitmap(1)), (2, Bitmap(2)), (4, Bitmap(12))]));
        assert_eq!((top.members, top.uplink), (Bitmap(15), Some(3)));
        assert_eq!(rack.units, BTreeMap::from([(1, Bitmap(4)), (2, Bitmap(8))]));
        assert_eq!((rack.members, rack.uplink), (Bitmap(12), Some(3)));
    }

    #[test]
    fn a_lone_worker_passes_its_rack_as_a_whole_unit() {
        let scenario = scenario("[topology]\nracks = 2\n[[job]]\nworkers = [\"w1\", \"w3\"]");
        let parts = parts(&scenario);
        let rack = &parts[1];
        assert!(!rack.aggregates());
        assert_eq!(rack.units.values().next(), Some(&rack.members));
        assert_eq!(parts[0].units, BTreeMap::from([(1, Bitmap(1)), (4, Bitmap(2))]));
    }

    #[test]
    fn racks_that_meet_in_a_spine_are_one_unit_below_it() {
        let scenario = scenario("[topology]\nracks = 3\n[[job]]");
        let spine = scenario.topology.switch_named("spine").unwrap();
        let parts = parts(&scenario);
        let spine = parts.iter().find(|part| part.switch == spine).unwrap();
        assert_eq!(spine.units.len(), 2, "the racks without the PS");
        assert_eq!(spine.members, Bitmap(0b11_1100));
        let top = &parts[0];
        assert_eq!(top.units[&4], Bitmap(0b11_1100));
        assert_eq!(top.members, Bitmap(0b11_1111));
    }

    #[test]
    fn switches_off_the_tree_have_no_part() {
        let scenario = scenario("[topology]\nracks = 4\n[[job]]\nworkers = [\"w1\", \"w3\"]");
        let names: Vec<&str> = parts(&scenario)
            .iter()
            .map(|part| scenario.topology.switch(part.switch).name.as_str())
            .collect();
        assert_eq!(names, ["rack1", "rack2", "spine"]);
    }

    /// A connected network with cycles, hosts spread over it, and a job.
    pub(crate) fn network() -> impl Strategy<Value = String> {
        (2..9_usize, 0..8_usize, 2..20_usize, any::<u64>()).prop_map(
            |(switches, extra, hosts, seed)| {
                let mut state = seed | 1;
                let mut below = |limit: usize| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as usize % limit
                };
                let mut text = String::new();
                let mut links = std::collections::BTreeSet::new();
                for s in 0..switches {
                    text += &format!("[[topology.switch]]\nname=\"s{s}\"\n");
                    if s > 0 {
                        links.insert((below(s), s));
                    }
                }
                for _ in 0..extra {
                    let (a, b) = (below(switches), below(switches));
                    if a != b {
                        links.insert((a.min(b), a.max(b)));
                    }
                }
                for (a, b) in links {
                    text += &format!("[[topology.link]]\nbetween=[\"s{a}\",\"s{b}\"]\n");
                }
                for h in 0..hosts {
                    let at = below(switches);
                    let role = if h == 0 { "ps" } else { "worker" };
                    text += &format!(
                        "[[topology.host]]\nname=\"h{h}\"\nrole=\"{role}\"\n\
                         [[topology.link]]\nbetween=[\"h{h}\",\"s{at}\"]\n"
                    );
                }
                text + "[[job]]\n"
            },
        )
    }

    proptest! {
        #[test]
        fn every_host_is_reached_from_everywhere(text in network()) {
            let topology = scenario(&text).topology;
            let plan = forwarding(&topology);
            for host in topology.host_ids() {
                for switch in topology.switch_ids() {
                    let mac = topology.host(host).address.mac;
                    prop_assert_eq!(follow(&topology, &plan, switch, mac), host);
                }
            }
        }

        /// A flooded frame leaves by all ports of the group but the one it came from, and reaches
        /// every host but its sender exactly once.
        #[test]
        fn a_flooded_frame_reaches_every_host_once(text in network()) {
            let topology = scenario(&text).topology;
            let plan = forwarding(&topology);
            let sender = HostId(0);
            let mut reached = vec![0; topology.hosts.len()];
            let mut frames = vec![topology.attachment(sender)];
            let mut steps = 0;
            while let Some((switch, came)) = frames.pop() {
                steps += 1;
                prop_assert!(steps < 1000, "the frame circles");
                for (port, _, peer) in topology.ports(switch) {
                    if port == came || !plan[switch.0].flood.contains(&port) {
                        continue;
                    }
                    match peer {
                        End::Host(host) => reached[host.0] += 1,
                        End::Switch(next, into) => frames.push((next, into)),
                    }
                }
            }
            prop_assert_eq!(reached[sender.0], 0);
            prop_assert!(reached[1..].iter().all(|&times| times == 1), "{:?}", reached);
        }

        /// Follows gradients up and results down by the plan alone.
        #[test]
        fn units_add_up_and_results_come_back_the_same_way(text in network()) {
            let scenario = scenario(&text);
            let (topology, workers) = (&scenario.topology, &scenario.jobs[0].workers);
            let parts: BTreeMap<SwitchId, JobAtSwitch> =
                parts(&scenario).into_iter().map(|part| (part.switch, part)).collect();
            let all = Bitmap::first(u8::try_from(workers.len()).unwrap());
            let peer = |switch, out| {
                topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2
            };
            for part in parts.values() {
                // Units are disjoint and together all members.
                let mut sum = Bitmap::EMPTY;
                for (&port, &unit) in &part.units {
                    prop_assert!(!unit.is_empty() && sum.is_disjoint(unit));
                    prop_assert_ne!(Some(port), part.uplink);
                    sum |= unit;
                }
                prop_assert_eq!(sum, part.members);
                // The next switch expects what leaves by the uplink.
                match peer(part.switch, part.uplink.unwrap()) {
                    End::Host(host) => {
                        prop_assert_eq!(host, scenario.jobs[0].server());
                        prop_assert_eq!(part.members, all);
                    }
                    End::Switch(next, into) => {
                        prop_assert_eq!(parts[&next].units[&into], part.members);
                    }
                }
                // A worker's port expects that worker.
                for (&port, &unit) in &part.units {
                    if let End::Host(host) = peer(part.switch, port) {
                        let index = workers.iter().position(|&worker| worker == host).unwrap();
                        prop_assert_eq!(unit.0, 1 << index);
                    }
                }
            }
            // A result reaches every worker exactly once and passes every switch of the tree.
            let mut reached = vec![0; workers.len()];
            let mut passed = 0;
            let mut frames = vec![topology.attachment(scenario.jobs[0].server()).0];
            while let Some(switch) = frames.pop() {
                passed += 1;
                for port in parts[&switch].group() {
                    match peer(switch, port) {
                        End::Host(host) => {
                            reached[workers.iter().position(|&w| w == host).unwrap()] += 1;
                        }
                        End::Switch(next, into) => {
                            prop_assert_eq!(parts[&next].uplink, Some(into));
                            frames.push(next);
                        }
                    }
                }
            }
            prop_assert_eq!(passed, parts.len());
            prop_assert!(reached.iter().all(|&times| times == 1));
            // A reply, forwarded by the worker's address, passes the same switches.
            let plan = forwarding(topology);
            for &worker in workers {
                let mac = topology.host(worker).address.mac;
                let mut switch = topology.attachment(scenario.jobs[0].server()).0;
                while let End::Switch(next, into) = peer(switch, plan[switch.0].hosts[&mac]) {
                    prop_assert_eq!(parts[&next].uplink, Some(into));
                    switch = next;
                }
            }
        }
    }
}
