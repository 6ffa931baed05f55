//! A topology under construction: sizes, addresses, connectedness.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use tributary_base::document::{Error, Place, Table, suggest};
use tributary_wire::{Host as Address, Mac};

use crate::circuits::Circuits;
use crate::{
    End, Host, HostId, HostRole, Link, LinkFaults, LinkId, Optical, Switch, SwitchId, Topology,
};

/// Default MTU of a link, if the packets fit.
const DEFAULT_MTU: u32 = 1500;
/// MTU of a link for packets that do not fit the default: the size of jumbo frames on most
/// hardware.
const JUMBO_MTU: u32 = 9000;
/// Maximum number of hosts per switch: the last byte of the IP address numbers them.
pub(super) const MAX_HOSTS_PER_SWITCH: u32 = 254;
/// Maximum number of ports per switch: in the embedded switch and BMv2 the controller's port
/// is 510.
const MAX_PORTS: usize = 509;
/// Maximum number of switches per file: sufficient for any test on one machine.
const MAX_SWITCHES: u32 = 1024;
/// Maximum number of hosts per file: the switch program has this many forwarding entries.
pub(super) const MAX_HOSTS: u32 = 2048;
/// Maximum delay of a frame; a longer one would be an outage.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(10);

/// Rates of links in bits per second: from a slow modem to more than any Ethernet.
pub(super) const RATES: RangeInclusive<u64> = 1_000..=10_000_000_000_000;

pub(super) const LINK_KEYS: [&str; 4] = ["between", "mtu", "rate", "latency"];

/// Requirements of the jobs, from which the short forms choose sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Number of workers that jobs request by number.
    pub(super) workers: u32,
    /// Number of jobs that need a parameter server.
    pub(super) servers: Servers,
    /// Length of the largest packet in bytes, from the IP header on.
    pub(super) packet_bytes: u32,
}

/// Number of jobs that need a parameter server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers {
    /// If all workers are attached to one switch.
    pub(super) at_one_switch: u32,
    /// If they may be attached to several switches.
    pub(super) at_several: u32,
    /// The minimum for any network.
    pub(super) least: u32,
}

/// A host or switch under construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    Host(usize),
    Switch(usize),
}

/// A host. It is given the addresses that it lacks.
pub(super) struct DraftHost<'a> {
    pub(super) name: String,
    pub(super) role: HostRole,
    pub(super) mac: Option<Mac>,
    pub(super) ip: Option<Ipv4Addr>,
    pub(super) place: Place<'a>,
}

/// Settings of a link.
#[derive(Clone, Copy)]
pub(super) struct Cable {
    pub(super) mtu: u32,
    pub(super) rate: Option<u64>,
    pub(super) latency: Option<Duration>,
}

/// A link between nodes.
pub(super) struct DraftLink<'a> {
    pub(super) nodes: [Node; 2],
    pub(super) cable: Cable,
    pub(super) place: Place<'a>,
    pub(super) mtu_place: Place<'a>,
}

/// What `[topology]` says so far.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) switches: Vec<(String, Place<'a>)>,
    pub(super) hosts: Vec<DraftHost<'a>>,
    pub(super) links: Vec<DraftLink<'a>>,
    /// The cross-connect and its first circuits.
    pub(super) optical: Option<(Optical, Circuits)>,
}

impl Cable {
    /// Settings of links without settings of their own.
    pub(super) fn of_all(topology: &Table<'_>, demand: Demand) -> Result<Self, Error> {
        let fits = demand.packet_bytes <= DEFAULT_MTU;
        let mtu = if fits { DEFAULT_MTU } else { JUMBO_MTU };
        Self { mtu, rate: None, latency: None }.with(topology)
    }

    /// Replaces what the table sets.
    pub(super) fn with(self, table: &Table<'_>) -> Result<Self, Error> {
        let latencies = Duration::ZERO..=MAX_DELAY;
        Ok(Self {
            mtu: table.or("mtu", self.mtu, |m| m.integer32(68..=65_535))?,
            rate: table.or("rate", self.rate, |rate| rate.rate(RATES).map(Some))?,
            latency: table.or("latency", self.latency, |l| l.duration(latencies).map(Some))?,
        })
    }
}

pub(super) fn check_rack_size(
    table: &Table<'_>,
    hosts: u32,
    servers: u32,
    key: &str,
) -> Result<(), Error> {
    if hosts + servers <= MAX_HOSTS_PER_SWITCH {
        return Ok(());
    }
    Err(table.place_of(key).fault(
        format!("{hosts} hosts and {servers} parameter servers at one switch are too many"),
        format!("stay within {MAX_HOSTS_PER_SWITCH} together, or use more racks"),
    ))
}

/// The two different ends that `between` names.
pub(super) fn ends<'n, N: PartialEq, I: Iterator<Item = &'n str>>(
    table: &Table<'_>,
    find: impl Fn(&str) -> Option<N>,
    all: impl Fn() -> I,
) -> Result<[N; 2], Error> {
    let example = "[\"w1\", \"s1\"]";
    let item = table.require("between", example)?;
    let found = item
        .array("`between`")?
        .iter()
        .map(|end| {
            let name = end.string("w1")?;
            find(name).ok_or_else(|| {
                let fix = match suggest::nearest(name, all()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name a host or switch of the topology".to_owned(),
                };
                end.fault(format!("there is no host or switch `{name}`"), fix)
            })
        })
        .collect::<Result<Vec<N>, Error>>()?;
    let count = found.len();
    let ends: [N; 2] = found.try_into().map_err(|_| {
        item.fault(format!("`between` names {count} ends"), format!("name two: {example}"))
    })?;
    if ends[0] == ends[1] {
        return Err(
            item.fault("the link begins and ends at the same place", "name two different ends")
        );
    }
    Ok(ends)
}

pub(super) fn no_link(table: &Table<'_>, [a, b]: [&str; 2]) -> Error {
    table
        .place_of("between")
        .fault(format!("there is no link between `{a}` and `{b}`"), "name the two ends of one link")
}

impl<'a> Draft<'a> {
    pub(super) fn add_switch(&mut self, table: &Table<'a>, name: String) {
        self.switches.push((name, table.place()));
    }

    pub(super) fn add_hosts(
        &mut self,
        table: &Table<'a>,
        switch: usize,
        prefix: &str,
        numbers: impl Iterator<Item = u32>,
        role: HostRole,
        cable: Cable,
    ) {
        for number in numbers {
            self.add_host(table, switch, format!("{prefix}{number}"), role, cable);
        }
    }

    pub(super) fn add_servers(
        &mut self,
        table: &Table<'a>,
        switch: usize,
        servers: u32,
        cable: Cable,
    ) {
        let role = HostRole::ParameterServer;
        match servers {
            1 => self.add_host(table, switch, "ps".into(), role, cable),
            _ => self.add_hosts(table, switch, "ps", 1..=servers, role, cable),
        }
    }

    fn add_host(
        &mut self,
        table: &Table<'a>,
        switch: usize,
        name: String,
        role: HostRole,
        cable: Cable,
    ) {
        let host = self.hosts.len();
        self.hosts.push(DraftHost { name, role, mac: None, ip: None, place: table.place() });
        self.add_link(table, [Node::Host(host), Node::Switch(switch)], cable);
    }

    pub(super) fn add_link(&mut self, table: &Table<'a>, nodes: [Node; 2], cable: Cable) {
        let (place, mtu_place) = (table.place(), table.place_of("mtu"));
        self.links.push(DraftLink { nodes, cable, place, mtu_place });
    }

    /// Applies `[[topology.link]]` to links of a short form.
    pub(super) fn adjust_links(&mut self, table: &Table<'a>) -> Result<(), Error> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        let switches = self.switches.iter().map(|(name, _)| name.as_str());
        let nodes = (0..).map(Node::Host).zip(hosts).map(|(node, name)| (name, node));
        let nodes =
            nodes.chain((0..).map(Node::Switch).zip(switches).map(|(node, name)| (name, node)));
        let nodes: Vec<(&str, Node)> = nodes.collect();
        let find = |wanted: &str| nodes.iter().find(|(name, _)| *name == wanted).copied();
        let mut adjusted = HashSet::new();
        for item in table.items("link")? {
            let own = item.table("[[topology.link]]", &LINK_KEYS)?;
            let [(a, from), (b, to)] = ends(&own, find, || nodes.iter().map(|(name, _)| *name))?;
            let is_meant =
                |link: &DraftLink<'_>| link.nodes == [from, to] || link.nodes == [to, from];
            let Some(at) = self.links.iter().position(is_meant) else {
                return Err(no_link(&own, [a, b]));
            };
            if !adjusted.insert(at) {
                return Err(own.place_of("between").fault(
                    format!("the link between `{a}` and `{b}` is given twice"),
                    "keep one of the two [[topology.link]]",
                ));
            }
            let link = &mut self.links[at];
            link.cable = link.cable.with(&own)?;
            if let Some(mtu) = own.get("mtu") {
                link.mtu_place = mtu.place();
            }
        }
        Ok(())
    }

    fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(host) => &self.hosts[host].name,
            Node::Switch(switch) => &self.switches[switch].0,
        }
    }

    /// Numbers ports, assigns addresses and checks that the network is connected.
    pub(super) fn finish(self, demand: Demand) -> Result<Topology, Error> {
        self.check_sizes()?;
        self.check_links(demand)?;
        if self.optical.is_none() {
            self.check_connected()?;
        }
        let mut ports: Vec<Vec<LinkId>> = vec![Vec::new(); self.switches.len()];
        let mut neighbours = vec![(LinkId(0), 0_usize); self.hosts.len()];
        let mut links = Vec::with_capacity(self.links.len());
        for (index, link) in self.links.iter().enumerate() {
            let id = LinkId(index);
            let end = |node: Node, ports: &mut Vec<Vec<LinkId>>| match node {
                Node::Host(host) => End::Host(HostId(host)),
                Node::Switch(switch) => {
                    ports[switch].push(id);
                    // Checked above: at most MAX_PORTS.
                    End::Switch(SwitchId(switch), u16::try_from(ports[switch].len()).unwrap_or(0))
                }
            };
            let [a, b] = link.nodes;
            if let [Node::Host(host), Node::Switch(switch)]
            | [Node::Switch(switch), Node::Host(host)] = [a, b]
            {
                neighbours[host] = (id, switch);
            }
            let ends = [end(a, &mut ports), end(b, &mut ports)];
            let Cable { mtu, rate, latency } = link.cable;
            links.push(Link { ends, mtu, rate, latency, faults: LinkFaults::default() });
        }
        let hosts = self.addressed_hosts(&neighbours)?;
        let optical = self.optical;
        let switches = self
            .switches
            .into_iter()
            .zip(ports)
            .map(|((name, _), ports)| Switch { name, ports })
            .collect();
        let mut topology = Topology { switches, hosts, links, optical: None, other_traffic: None };
        if let Some((optical, circuits)) = optical {
            topology.optical = Some(optical);
            topology.patch(&circuits).expect("circuits between the ports of this cross-connect");
        }
        Ok(topology)
    }

    fn check_sizes(&self) -> Result<(), Error> {
        if self.switches.len() > MAX_SWITCHES as usize {
            let place = &self.switches[MAX_SWITCHES as usize].1;
            return Err(
                place.fault("there are too many switches", format!("stay within {MAX_SWITCHES}"))
            );
        }
        if self.hosts.len() > MAX_HOSTS as usize {
            let place = &self.hosts[MAX_HOSTS as usize].place;
            return Err(place.fault("there are too many hosts", format!("stay within {MAX_HOSTS}")));
        }
        Ok(())
    }

    fn check_links(&self, demand: Demand) -> Result<(), Error> {
        let mut seen = HashMap::new();
        let mut degree: HashMap<Node, usize> = HashMap::new();
        for link in &self.links {
            let [a, b] = link.nodes;
            if seen.insert([a, b], ()).is_some() || seen.contains_key(&[b, a]) {
                return Err(link.place.fault(
                    format!(
                        "there is another link between `{}` and `{}`",
                        self.name(a),
                        self.name(b)
                    ),
                    "keep one of them",
                ));
            }
            for node in [a, b] {
                let links = degree.entry(node).or_default();
                *links += 1;
                let name = self.name(node);
                if matches!(node, Node::Host(_)) && *links > 1 {
                    return Err(link.place.fault(
                        format!("host `{name}` has two links"),
                        "a host has one interface: remove one of its links",
                    ));
                }
                if *links > MAX_PORTS {
                    return Err(link.place.fault(
                        format!("switch `{name}` has more than {MAX_PORTS} ports"),
                        "spread the links over more switches",
                    ));
                }
            }
            if link.cable.mtu < demand.packet_bytes {
                return Err(link.mtu_place.fault(
                    format!(
                        "the MTU of {} bytes is too small for packets of {} bytes between `{}` and `{}`",
                        link.cable.mtu,
                        demand.packet_bytes,
                        self.name(a),
                        self.name(b),
                    ),
                    format!("set `mtu = {}` or lower values_per_packet", demand.packet_bytes.max(JUMBO_MTU)),
                ));
            }
        }
        Ok(())
    }

    fn check_connected(&self) -> Result<(), Error> {
        let mut neighbours: HashMap<Node, Vec<Node>> = HashMap::new();
        for &DraftLink { nodes: [a, b], .. } in &self.links {
            neighbours.entry(a).or_default().push(b);
            neighbours.entry(b).or_default().push(a);
        }
        let mut reached = HashSet::from([Node::Switch(0)]);
        let mut frontier = vec![Node::Switch(0)];
        while let Some(node) = frontier.pop() {
            for &next in neighbours.get(&node).into_iter().flatten() {
                if reached.insert(next) {
                    frontier.push(next);
                }
            }
        }
        let switches = (0..self.switches.len()).map(Node::Switch);
        let Some(lost) = switches
            .chain((0..self.hosts.len()).map(Node::Host))
            .find(|node| !reached.contains(node))
        else {
            return Ok(());
        };
        let (what, place) = match lost {
            Node::Host(host) => ("host", &self.hosts[host].place),
            Node::Switch(switch) => ("switch", &self.switches[switch].1),
        };
        let name = self.name(lost);
        let first = self.name(Node::Switch(0));
        Err(place.fault(
            format!("{what} `{name}` is not connected to switch `{first}`"),
            format!("add a link: [[topology.link]] between = [\"{name}\", \"{first}\"]"),
        ))
    }

    /// Assigns 10.t.r.h to hosts: t and r number the switch from 1, h numbers the host at its
    /// switch.
    fn addressed_hosts(&self, neighbours: &[(LinkId, usize)]) -> Result<Vec<Host>, Error> {
        let mut at_switch = vec![0_u32; self.switches.len()];
        let mut macs = HashMap::new();
        let mut ips = HashMap::new();
        let mut hosts = Vec::with_capacity(self.hosts.len());
        for (host, &(link, switch)) in self.hosts.iter().zip(neighbours) {
            at_switch[switch] += 1;
            let number = u8::try_from(at_switch[switch])
                .ok()
                .filter(|&n| u32::from(n) <= MAX_HOSTS_PER_SWITCH);
            let Some(h) = number else {
                return Err(host.place.fault(
                    format!(
                        "switch `{}` has more than {MAX_HOSTS_PER_SWITCH} hosts",
                        self.switches[switch].0
                    ),
                    "spread the hosts over more switches",
                ));
            };
            // Checked above: at most MAX_SWITCHES.
            let [t, r] = u16::try_from(switch + 1).unwrap_or(u16::MAX).to_be_bytes();
            let address = Address {
                mac: host.mac.unwrap_or(Mac([0x02, 0, 10, t, r, h])),
                ip: host.ip.unwrap_or(Ipv4Addr::new(10, t, r, h)),
            };
            for (what, other) in [
                (format!("MAC address {}", address.mac), macs.insert(address.mac, &host.name)),
                (format!("IP address {}", address.ip), ips.insert(address.ip, &host.name)),
            ] {
                if let Some(other) = other {
                    return Err(host.place.fault(
                        format!("hosts `{other}` and `{}` both have the {what}", host.name),
                        "give each host its own address",
                    ));
                }
            }
            hosts.push(Host { name: host.name.clone(), address, role: host.role, link });
        }
        Ok(hosts)
    }
}
