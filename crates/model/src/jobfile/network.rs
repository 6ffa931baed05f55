//! Reads `[topology]` and `[faults]`: short forms, explicit form, addresses, connectedness.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{
    End, Host, HostId, HostRole, Link, LinkFaults, LinkId, Optical, Switch, SwitchId, Topology,
    circuits::Circuits,
};
use tributary_base::document::{Error, Item, Place, Table, suggest};
use tributary_wire::{Host as Address, Mac};

use crate::jobfile::units;

/// Default MTU of a link, if the packets fit.
const DEFAULT_MTU: u32 = 1500;
/// MTU of a link for packets that do not fit the default: the size of jumbo frames on most
/// hardware.
const JUMBO_MTU: u32 = 9000;
/// Maximum number of hosts per switch: the last byte of the IP address numbers them.
pub(crate) const MAX_HOSTS_PER_SWITCH: u32 = 254;
/// Maximum number of ports per switch: in the embedded switch and BMv2 the controller's port
/// is 510.
const MAX_PORTS: usize = 509;
/// Maximum number of switches per file: sufficient for any test on one machine.
const MAX_SWITCHES: u32 = 1024;
/// Maximum number of hosts per file: the switch program has this many forwarding entries.
pub(crate) const MAX_HOSTS: u32 = 2048;
/// Maximum delay of a frame; a longer one would be an outage.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Rates of links in bits per second: from a slow modem to more than any Ethernet.
pub(crate) const RATES: RangeInclusive<u64> = 1_000..=10_000_000_000_000;

const LINK_KEYS: [&str; 4] = ["between", "mtu", "rate", "latency"];

const FAULT_KEYS: [&str; 6] = ["loss", "burst", "duplicate", "reorder", "delay", "jitter"];

/// Maximum mean number of frames lost in a row.
const MAX_BURST: u32 = 10_000;

/// Requirements of the jobs, from which the short forms choose sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Number of workers that jobs request by number.
    pub(crate) workers: u32,
    /// Number of jobs that need a parameter server.
    pub(crate) servers: Servers,
    /// Length of the largest packet in bytes, from the IP header on.
    pub(crate) packet_bytes: u32,
}

/// Number of jobs that need a parameter server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Servers {
    /// If all workers are attached to one switch.
    pub(crate) at_one_switch: u32,
    /// If they may be attached to several switches.
    pub(crate) at_several: u32,
    /// The minimum for any network.
    pub(crate) least: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Star,
    Racks,
    Units,
    Explicit,
}

/// A host or switch under construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Node {
    Host(usize),
    Switch(usize),
}

pub(crate) struct DraftHost<'a> {
    name: String,
    role: HostRole,
    mac: Option<Mac>,
    ip: Option<Ipv4Addr>,
    place: Place<'a>,
}

/// Settings of a link.
#[derive(Clone, Copy)]
pub(crate) struct Cable {
    pub(crate) mtu: u32,
    pub(crate) rate: Option<u64>,
    pub(crate) latency: Option<Duration>,
}

struct DraftLink<'a> {
    nodes: [Node; 2],
    cable: Cable,
    place: Place<'a>,
    mtu_place: Place<'a>,
}

#[derive(Default)]
pub(crate) struct Draft<'a> {
    switches: Vec<(String, Place<'a>)>,
    hosts: Vec<DraftHost<'a>>,
    links: Vec<DraftLink<'a>>,
    /// The cross-connect and its first circuits.
    pub(crate) optical: Option<(Optical, Circuits)>,
}

/// Reads `[topology]` (or builds the default star) and `[faults]`.
pub(crate) fn read(document: &Table<'_>, demand: Demand) -> Result<Topology, Error> {
    let draft = match document.get("topology") {
        None => star(&document.table("topology", &[])?, demand)?,
        Some(item) => {
            let explicit = ["switch", "host"].iter().any(|key| item.has(key));
            let racks = ["racks", "hosts_per_rack", "ps_rack"].iter().any(|key| item.has(key));
            let of_star = ["workers", "ps_hosts"].iter().any(|key| item.has(key));
            // Links alone can belong to any kind.
            let units = item.has("units");
            let default = match (explicit, racks) {
                (true, _) => Kind::Explicit,
                (false, true) => Kind::Racks,
                (false, false) if units => Kind::Units,
                (false, false) if item.has("link") && !of_star => Kind::Explicit,
                (false, false) => Kind::Star,
            };
            let (kind, table) = item.table_by_kind(
                "[topology]",
                Some(default),
                &[
                    (
                        "star",
                        Kind::Star,
                        &["workers", "ps_hosts", "link", "mtu", "rate", "latency"],
                    ),
                    (
                        "racks",
                        Kind::Racks,
                        &[
                            "racks",
                            "hosts_per_rack",
                            "ps_hosts",
                            "ps_rack",
                            "link",
                            "mtu",
                            "rate",
                            "latency",
                        ],
                    ),
                    ("units", Kind::Units, &units::KEYS),
                    (
                        "explicit",
                        Kind::Explicit,
                        &["switch", "host", "link", "mtu", "rate", "latency"],
                    ),
                ],
            )?;
            match kind {
                Kind::Star => star(&table, demand)?,
                Kind::Racks => racks_of_hosts(&table, demand)?,
                Kind::Units => units::read(&table, demand)?,
                Kind::Explicit => explicit_network(&table, demand)?,
            }
        }
    };
    let mut topology = draft.finish(demand)?;
    read_faults(document, &mut topology)?;
    Ok(topology)
}

/// Hosts around one switch.
fn star<'a>(table: &Table<'a>, demand: Demand) -> Result<Draft<'a>, Error> {
    let limit = MAX_HOSTS_PER_SWITCH;
    let workers =
        table.or("workers", demand.workers.clamp(1, limit), |w| w.integer32(1..=limit))?;
    let servers = ps_hosts(table, demand.servers.at_one_switch, demand)?;
    check_rack_size(table, workers, servers, "workers")?;
    let mut draft = Draft::default();
    draft.add_switch(table, "s1".into());
    let cable = Cable::of_all(table, demand)?;
    draft.add_hosts(table, 0, "w", 1..=workers, HostRole::Worker, cable);
    draft.add_servers(table, 0, servers, cable);
    draft.adjust_links(table)?;
    Ok(draft)
}

/// Racks of hosts. Two racks are linked to each other, more are linked to a spine switch.
fn racks_of_hosts<'a>(table: &Table<'a>, demand: Demand) -> Result<Draft<'a>, Error> {
    let racks = table.or("racks", 2, |r| r.integer32(1..=256))?;
    let hosts = table.or("hosts_per_rack", 2, |h| h.integer32(1..=MAX_HOSTS_PER_SWITCH))?;
    let servers = ps_hosts(table, demand.servers.at_several, demand)?;
    if racks * hosts + servers > MAX_HOSTS {
        return Err(table.place_of("hosts_per_rack").fault(
            format!("{racks} racks of {hosts} hosts and {servers} for parameter servers are too many hosts"),
            format!("stay within {MAX_HOSTS}"),
        ));
    }
    check_rack_size(table, hosts, servers, "hosts_per_rack")?;
    let ps_rack = table.or("ps_rack", 1, |r| r.integer32(1..=racks))?;
    let cable = Cable::of_all(table, demand)?;

    let mut draft = Draft::default();
    for rack in 1..=racks {
        draft.add_switch(table, format!("rack{rack}"));
    }
    for rack in 0..racks {
        let first = rack * hosts + 1;
        let numbers = first..=first + hosts - 1;
        draft.add_hosts(table, rack as usize, "w", numbers, HostRole::Worker, cable);
    }
    draft.add_servers(table, ps_rack as usize - 1, servers, cable);
    let racks = racks as usize;
    match racks {
        1 => {}
        2 => draft.add_link(table, [Node::Switch(0), Node::Switch(1)], cable),
        _ => {
            draft.add_switch(table, "spine".into());
            for rack in 0..racks {
                draft.add_link(table, [Node::Switch(rack), Node::Switch(racks)], cable);
            }
        }
    }
    draft.adjust_links(table)?;
    Ok(draft)
}

fn ps_hosts(table: &Table<'_>, wanted: u32, demand: Demand) -> Result<u32, Error> {
    let (least, limit) = (demand.servers.least, MAX_HOSTS_PER_SWITCH);
    table.or("ps_hosts", wanted.clamp(least, limit), |p| p.integer32(least..=limit))
}

pub(crate) fn check_rack_size(
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

impl Cable {
    /// Settings of links without settings of their own.
    pub(crate) fn of_all(topology: &Table<'_>, demand: Demand) -> Result<Self, Error> {
        let fits = demand.packet_bytes <= DEFAULT_MTU;
        let mtu = if fits { DEFAULT_MTU } else { JUMBO_MTU };
        Self { mtu, rate: None, latency: None }.with(topology)
    }

    /// Replaces what the table sets.
    fn with(self, table: &Table<'_>) -> Result<Self, Error> {
        let latencies = Duration::ZERO..=MAX_DELAY;
        Ok(Self {
            mtu: table.or("mtu", self.mtu, |m| m.integer32(68..=65_535))?,
            rate: table.or("rate", self.rate, |rate| rate.rate(RATES).map(Some))?,
            latency: table.or("latency", self.latency, |l| l.duration(latencies).map(Some))?,
        })
    }
}

/// `[[topology.switch]]`, `[[topology.host]]`, `[[topology.link]]`.
fn explicit_network<'a>(table: &Table<'a>, demand: Demand) -> Result<Draft<'a>, Error> {
    let mut draft = Draft::default();
    let mut names: HashMap<String, Node> = HashMap::new();
    let mut add_name =
        |item: &Item<'a>, name: &str, node: Node| match names.insert(name.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(item.fault(
                format!("there is another host or switch named `{name}`"),
                "give each its own name",
            )),
        };
    for item in table.items("switch")? {
        let switch = item.table("[[topology.switch]]", &["name"])?;
        let item = switch.require("name", "\"s1\"")?;
        let name = item.word("s1")?;
        add_name(&item, name, Node::Switch(draft.switches.len()))?;
        draft.switches.push((name.to_owned(), item.place()));
    }
    for item in table.items("host")? {
        let host = item.table("[[topology.host]]", &["name", "role", "mac", "ip"])?;
        let item = host.require("name", "\"w1\"")?;
        let name = item.word("w1")?;
        add_name(&item, name, Node::Host(draft.hosts.len()))?;
        let roles = [("worker", HostRole::Worker), ("ps", HostRole::ParameterServer)];
        draft.hosts.push(DraftHost {
            name: name.to_owned(),
            role: host.or("role", HostRole::Worker, |role| role.choice(&roles))?,
            mac: host.or("mac", None, |mac| read_mac(mac).map(Some))?,
            ip: host.or("ip", None, |ip| read_ip(ip).map(Some))?,
            place: item.place(),
        });
    }
    if draft.switches.is_empty() {
        return Err(
            table.fault("the topology has no switch", "add [[topology.switch]] name = \"s1\"")
        );
    }
    if draft.hosts.is_empty() {
        return Err(table.fault("the topology has no host", "add [[topology.host]] name = \"w1\""));
    }
    let everywhere = Cable::of_all(table, demand)?;
    for item in table.items("link")? {
        let link = item.table("[[topology.link]]", &LINK_KEYS)?;
        let nodes =
            ends(&link, |name| names.get(name).copied(), || names.keys().map(String::as_str))?;
        if let [Node::Host(_), Node::Host(_)] = nodes {
            return Err(link
                .place_of("between")
                .fault("this link connects two hosts", "connect each host to a switch instead"));
        }
        let cable = everywhere.with(&link)?;
        let mtu_place = match link.get("mtu") {
            Some(own) => own.place(),
            None => table.place_of("mtu"),
        };
        draft.links.push(DraftLink { nodes, cable, place: link.place_of("between"), mtu_place });
    }
    Ok(draft)
}

/// The two different ends that `between` names.
fn ends<'n, N: PartialEq, I: Iterator<Item = &'n str>>(
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

fn no_link(table: &Table<'_>, [a, b]: [&str; 2]) -> Error {
    table
        .place_of("between")
        .fault(format!("there is no link between `{a}` and `{b}`"), "name the two ends of one link")
}

fn read_mac(item: &Item<'_>) -> Result<Mac, Error> {
    let text = item.string("02:00:0a:00:01:01")?;
    match text.parse::<Mac>() {
        Ok(mac) if mac.is_multicast() || mac == Mac::default() => Err(item.fault(
            format!("`{text}` is not an address of a single host"),
            "choose one whose first byte is even, for example \"02:00:0a:00:01:01\"",
        )),
        Ok(mac) => Ok(mac),
        Err(_) => Err(item.fault(
            format!("`{text}` is not a MAC address"),
            "write six bytes, for example \"02:00:0a:00:01:01\"",
        )),
    }
}

fn read_ip(item: &Item<'_>) -> Result<Ipv4Addr, Error> {
    let text = item.string("10.0.1.1")?;
    match text.parse::<Ipv4Addr>() {
        Ok(ip) if ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified() => Err(item.fault(
            format!("{ip} is not an address of a single host"),
            "choose a unicast address, for example \"10.0.1.1\"",
        )),
        Ok(ip) => Ok(ip),
        Err(_) => Err(item.fault(
            format!("`{text}` is not an IPv4 address"),
            "write four numbers, for example \"10.0.1.1\"",
        )),
    }
}

impl<'a> Draft<'a> {
    pub(crate) fn add_switch(&mut self, table: &Table<'a>, name: String) {
        self.switches.push((name, table.place()));
    }

    pub(crate) fn add_hosts(
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

    fn add_servers(&mut self, table: &Table<'a>, switch: usize, servers: u32, cable: Cable) {
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

    fn add_link(&mut self, table: &Table<'a>, nodes: [Node; 2], cable: Cable) {
        let (place, mtu_place) = (table.place(), table.place_of("mtu"));
        self.links.push(DraftLink { nodes, cable, place, mtu_place });
    }

    /// Applies `[[topology.link]]` to links of a short form.
    pub(crate) fn adjust_links(&mut self, table: &Table<'a>) -> Result<(), Error> {
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
    fn finish(self, demand: Demand) -> Result<Topology, Error> {
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

/// Reads `[faults]` for all links and `[[faults.link]]` for single links.
fn read_faults(document: &Table<'_>, topology: &mut Topology) -> Result<(), Error> {
    let keys: Vec<&str> = FAULT_KEYS.into_iter().chain(["link"]).collect();
    let table = document.table("faults", &keys)?;
    let everywhere = link_faults(&table, LinkFaults::default())?;
    for link in &mut topology.links {
        link.faults = everywhere;
    }
    if let Some(optical) = &mut topology.optical {
        optical.fibre.faults = everywhere;
    }
    let keys: Vec<&str> = FAULT_KEYS.into_iter().chain(["between"]).collect();
    let mut seen = HashMap::new();
    for item in table.items("link")? {
        let own = item.table("[[faults.link]]", &keys)?;
        let between = {
            let names = || {
                let hosts = topology.hosts.iter().map(|host| host.name.as_str());
                hosts.chain(topology.switches.iter().map(|switch| switch.name.as_str()))
            };
            let find = |name: &str| names().find(|known| *known == name);
            ends(&own, find, names)?
        };
        let position = topology.links.iter().position(|link| {
            let [a, b] = link.ends.map(|end| topology.end_name(end));
            [a, b] == between || [b, a] == between
        });
        let Some(index) = position else {
            return Err(no_link(&own, between));
        };
        if seen.insert(index, ()).is_some() {
            return Err(own.place_of("between").fault(
                format!(
                    "the faults of the link between `{}` and `{}` are given twice",
                    between[0], between[1]
                ),
                "keep one of the two [[faults.link]]",
            ));
        }
        topology.links[index].faults = link_faults(&own, everywhere)?;
    }
    Ok(())
}

fn link_faults(table: &Table<'_>, default: LinkFaults) -> Result<LinkFaults, Error> {
    let delays = Duration::ZERO..=MAX_DELAY;
    let faults = LinkFaults {
        loss: table.or("loss", default.loss, Item::probability)?,
        burst: table.or("burst", default.burst, |item| item.integer32(1..=MAX_BURST))?,
        duplicate: table.or("duplicate", default.duplicate, Item::probability)?,
        reorder: table.or("reorder", default.reorder, Item::probability)?,
        delay: table.or("delay", default.delay, |d| d.duration(delays.clone()))?,
        jitter: table.or("jitter", default.jitter, |d| d.duration(delays))?,
    };
    faults.check().map_err(|error| {
        let key = if table.get("burst").is_some() { "burst" } else { "loss" };
        table.place_of(key).fault(error.to_string(), "make bursts longer, or loss rarer")
    })?;
    Ok(faults)
}
