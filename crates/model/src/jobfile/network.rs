//! Reads `[topology]` and `[faults]`: short forms and explicit form.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tributary_base::document::{Error, Item, Table};
use tributary_wire::Mac;

use crate::jobfile::draft::{
    Cable, Demand, Draft, DraftHost, DraftLink, LINK_KEYS, MAX_DELAY, MAX_HOSTS,
    MAX_HOSTS_PER_SWITCH, Node, check_rack_size, ends, no_link,
};
use crate::jobfile::units;
use crate::{HostRole, LinkFaults, Topology};

const FAULT_KEYS: [&str; 6] = ["loss", "burst", "duplicate", "reorder", "delay", "jitter"];

/// Maximum mean number of frames lost in a row.
const MAX_BURST: u32 = 10_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Star,
    Racks,
    Units,
    Explicit,
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
