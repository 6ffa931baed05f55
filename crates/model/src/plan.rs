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
//! # Switches that do not add
//!
//! If only some switches are to add for a job of ATP or P4INC ([`Placement::adding`]), the others pass its packets
//! on. With ATP, what comes from a port by which several contributions arrive one by one passes the switches further
//! on, too: they add what comes from their other ports, and their sum is one contribution among several.
//!
//! In ESA the lowest switch where all workers meet is the job's *top*, which sends the results. The
//! reminder agent may be on any host and must reach every switch that adds ([`targets`]).
//!
//! P4INC and SwitchML add at one level only, in the switches that workers are attached to; other
//! switches pass their sums unchanged. Their jobs have an [`Assignment`]: see [`services`](crate::services).

mod memberships;
mod reminders;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tributary_protocol::{Assignment, Mode, Racks, Rate};
use tributary_wire::{Bitmap, Epoch, Host, JobId, Kind, Mac, Protocol, Rack, Run};

use crate::paths::Tree;
use crate::{Aggregation, HostId, JobSpec, Limits, LinkId, SummedAt, SwitchId, Topology};
use reminders::way_to;
pub use reminders::{Target, targets};
use tree::parts_in_tree;

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
    /// The switches that add, with ATP and P4INC; `None`: all in which contributions meet.
    pub adding: Option<BTreeSet<SwitchId>>,
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
    pub fn unassigned(job: &JobSpec) -> Self {
        Self {
            job: job.id,
            epoch: job.epoch,
            workers: job.workers.clone(),
            ps: job.ps,
            agent: job.agent,
            aggregation: job.aggregation,
            adding: job.adding.clone(),
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

    /// Where a job of P4INC or SwitchML is summed.
    #[must_use]
    pub fn place(&self) -> SummedAt {
        let only = self.adding.as_ref().filter(|adding| adding.len() == 1);
        match (self.assignment.mode, only.and_then(|adding| adding.first())) {
            (Mode::Forwarded, _) => SummedAt::Server,
            (Mode::Partial, Some(&switch)) => SummedAt::Switch(switch),
            (Mode::Local | Mode::Partial, _) => SummedAt::Network,
        }
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
    /// By port of a circuit: those of the other circuits to the same switch, which the job's packets may take, too.
    pub beside: BTreeMap<u16, Vec<u16>>,
    /// By port below: the circuit that gradients from there take towards the parameter server, where there are several.
    pub circuits: BTreeMap<u16, u16>,
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
    /// Whether the switch only forwards what it could add.
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
            beside: BTreeMap::new(),
            circuits: BTreeMap::new(),
            members: Bitmap::EMPTY,
            upward: Bitmap::EMPTY,
            everyone,
            forwards: match &placement.adding {
                // Others add for the job.
                Some(adding) if placement.assignment.service.is_aggregated() => {
                    !adding.contains(&switch)
                }
                _ => {
                    placement.aggregation == Aggregation::Server
                        && !placement.assignment.service.is_aggregated()
                }
            },
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

    /// The ports that results are multicast to, and the number of each one's replica: that of the only worker or
    /// position below it in an [`Audience`](tributary_wire::Audience), or zero.
    pub fn group(&self) -> impl Iterator<Item = (u16, u8)> {
        let ports: BTreeSet<u16> = self.units.keys().chain(self.relays.keys()).copied().collect();
        ports.into_iter().map(|port| {
            let below = self.units.get(&port).filter(|below| below.len() == 1);
            let alone =
                below.filter(|_| self.rack == Rack::NONE && !self.relays.contains_key(&port));
            (port, alone.and_then(|below| below.lowest()).map_or(0, |position| 1 + position))
        })
    }

    /// A port, and those of the other circuits to the same switch.
    pub(crate) fn with_beside(&self, port: u16) -> impl Iterator<Item = u16> {
        let others = self.beside.get(&port).into_iter().flatten().copied();
        std::iter::once(port).chain(others)
    }

    /// What packets for workers below the switch name: positions, and racks.
    pub(crate) fn names(&self) -> BTreeSet<Rack> {
        let relayed = self.relays.values().flatten().copied();
        relayed.chain([Rack::NONE, self.rack]).collect()
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
