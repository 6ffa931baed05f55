//! Port numbers of real switches.
//!
//! A job file counts a switch's ports from 1, in the order of its links. The embedded switch and
//! BMv2 are started with the same numbers. A Tofino has its own: P4Runtime's entries name *device
//! ports*, which follow from the board's wiring, and the front panel has connectors and channels. A
//! port map translates:
//!
//! ```toml
//! [[port]]
//! switch = "s1"
//! to = "a"              # the host or switch at the other end; or port = 1
//! device_port = 4
//! connector = 1
//! channel = 0           # 0, the default: all lanes of the connector
//! speed = "100G"        # the default
//! fec = true            # the default leaves both to Stratum
//! autoneg = true
//! ```
//!
//! A Tofino has one copy of each register per pipe, and a device port's pipe is its number divided
//! by 128. Gradients to be added must arrive in one pipe. That is pipe 0, whose recirculation port
//! the sweeps use (`p4src/include/tna/target.p4`).

use std::collections::BTreeMap;
use std::path::Path;

use tributary_base::document::{Document, Error, Item, Kind, Table, suggest};
use tributary_model::{SwitchId, Topology};

use tributary_model::plan::{Forwarding, JobAtSwitch};

const FILE: Kind = Kind { name: "port map", page: "docs/operate/tofino-deployment.md" };

/// Device ports per pipe.
const PIPE_PORTS: u16 = 128;

/// The recirculation port of pipe 0.
const RECIRCULATION: u16 = 68;

/// A port of a real switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panel {
    /// Its number in P4Runtime.
    pub device_port: u16,
    /// Its connector on the front panel, from 1.
    pub connector: u16,
    /// Its channel within the connector, from 1; 0 if it has all lanes.
    pub channel: u8,
    /// Bits per second.
    pub speed_bps: u64,
    /// Forward error correction; `None` leaves it to the switch.
    pub fec: Option<bool>,
    /// Autonegotiation; `None` leaves it to the switch.
    pub autoneg: Option<bool>,
}

/// Device ports of the job file's ports. Without entries, the numbers are the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortMap(BTreeMap<(SwitchId, u16), Panel>);

/// What a `[[port]]` may say.
const KEYS: [&str; 9] =
    ["switch", "port", "to", "device_port", "connector", "channel", "speed", "fec", "autoneg"];

/// The speeds of a Tofino's ports, in bits per second.
const SPEEDS: [(&str, u64); 6] = [
    ("100G", 100_000_000_000),
    ("50G", 50_000_000_000),
    ("40G", 40_000_000_000),
    ("25G", 25_000_000_000),
    ("10G", 10_000_000_000),
    ("1G", 1_000_000_000),
];

impl PortMap {
    /// Reads a port map.
    ///
    /// # Errors
    /// If it cannot be read or is invalid: it must have every port of the topology once, all in pipe 0.
    pub fn read(path: &Path, topology: &Topology) -> Result<Self, Error> {
        Self::parse(&FILE.read(path)?, &path.display().to_string(), topology)
    }

    fn parse(text: &str, file: &str, topology: &Topology) -> Result<Self, Error> {
        let document = Document::parse(FILE, text, file)?;
        let root = document.table(&["port"])?;
        let mut map = Self::default();
        for item in root.items("port")? {
            let table = item.table("[[port]]", &KEYS)?;
            let (switch, port) = place(&table, topology)?;
            let panel = Panel::read(&table)?;
            let name = &topology.switch(switch).name;
            let others = || map.0.iter().filter(|((at, _), _)| *at == switch).map(|(_, it)| it);
            let device = panel.device_port;
            if others().any(|other| other.device_port == device) {
                let problem = format!("device port {device} of switch {name} is used twice");
                return Err(table.place_of("device_port").fault(problem, "give each port its own"));
            }
            let Panel { connector, channel, .. } = panel;
            if others().any(|other| (other.connector, other.channel) == (connector, channel)) {
                let problem =
                    format!("connector {connector}/{channel} of switch {name} is used twice");
                return Err(table.place_of("connector").fault(problem, "give each port its own"));
            }
            if map.0.insert((switch, port), panel).is_some() {
                let problem = format!("port {port} of switch {name} has two entries");
                return Err(item.fault(problem, "remove one"));
            }
        }
        for switch in topology.switch_ids() {
            for (port, _, far) in topology.ports(switch) {
                if !map.0.contains_key(&(switch, port)) {
                    let (name, far) = (&topology.switch(switch).name, topology.end_name(far));
                    let problem =
                        format!("port {port} of switch {name}, towards {far}, is missing");
                    return Err(root.fault(problem, "add a [[port]]"));
                }
            }
        }
        Ok(map)
    }

    /// The entry of a port.
    #[must_use]
    pub fn panel(&self, switch: SwitchId, port: u16) -> Option<&Panel> {
        self.0.get(&(switch, port))
    }

    /// The port's number in P4Runtime.
    #[must_use]
    pub fn device_port(&self, switch: SwitchId, port: u16) -> u16 {
        self.panel(switch, port).map_or(port, |panel| panel.device_port)
    }

    /// Translates a plan to the switch's port numbers.
    #[must_use]
    pub fn forwarding(&self, switch: SwitchId, plan: Forwarding) -> Forwarding {
        let number = |port| self.device_port(switch, port);
        let mut flood: Vec<u16> = plan.flood.into_iter().map(number).collect();
        flood.sort_unstable();
        Forwarding {
            hosts: plan.hosts.into_iter().map(|(mac, port)| (mac, number(port))).collect(),
            flood,
            limited: plan.limited.into_iter().map(|(port, rate)| (number(port), rate)).collect(),
        }
    }

    /// Translates a job's part to the switch's port numbers.
    #[must_use]
    pub fn part(&self, part: JobAtSwitch) -> JobAtSwitch {
        fn keys<T>(map: BTreeMap<u16, T>, number: impl Fn(u16) -> u16) -> BTreeMap<u16, T> {
            map.into_iter().map(|(port, of)| (number(port), of)).collect()
        }
        let number = |port| self.device_port(part.switch, port);
        JobAtSwitch {
            units: keys(part.units, number),
            relays: keys(part.relays, number),
            lower: part.lower.into_iter().map(number).collect(),
            circuits: keys(part.circuits, number)
                .into_iter()
                .map(|(port, circuit)| (port, number(circuit)))
                .collect(),
            beside: keys(part.beside, number)
                .into_iter()
                .map(|(port, others)| (port, others.into_iter().map(number).collect()))
                .collect(),
            uplink: part.uplink.map(number),
            reminders: keys(part.reminders, number),
            answers: keys(part.answers, number),
            senders: keys(part.senders, number),
            ..part
        }
    }
}

/// The port of the topology that an entry is about.
fn place(table: &Table<'_>, topology: &Topology) -> Result<(SwitchId, u16), Error> {
    let item = table.require("switch", "\"s1\"")?;
    let name = item.string("s1")?;
    let switch = topology.switch_named(name).ok_or_else(|| {
        item.fault(format!("the job file has no switch `{name}`"), "give one of its switches")
    })?;
    let mut ports = topology.ports(switch);
    let number = match (table.get("port"), table.get("to")) {
        (Some(item), None) => {
            let port = item.integer(1..=u16::MAX.into())?;
            let known = ports.find(|(number, ..)| u64::from(*number) == port);
            known.map(|(number, ..)| number).ok_or_else(|| {
                let problem = format!("switch {name} has no port {port} in the job file");
                item.fault(problem, "count its links from 1")
            })?
        }
        (None, Some(item)) => {
            let to = item.string("w1")?;
            let found: Vec<u16> = ports
                .filter(|(_, _, far)| topology.end_name(*far) == to)
                .map(|(number, ..)| number)
                .collect();
            match found[..] {
                [port] => port,
                [] => {
                    let problem = format!("in the job file, switch {name} has no link to `{to}`");
                    return Err(item.fault(problem, "name a host or switch that has a link to it"));
                }
                _ => {
                    let problem = format!("switch {name} has several links to `{to}`");
                    return Err(item.fault(problem, "select one with `port`"));
                }
            }
        }
        _ => {
            let problem = format!("it is not clear which port of switch {name} this is");
            return Err(table.fault(problem, "give either `to` or `port`"));
        }
    };
    Ok((switch, number))
}

impl Panel {
    fn read(table: &Table<'_>) -> Result<Self, Error> {
        let item = table.require("device_port", "4")?;
        let device_port = item.integer(0..=u64::from(4 * PIPE_PORTS) - 1)? as u16;
        check_device_port(&item, device_port)?;
        Ok(Self {
            device_port,
            connector: table.require("connector", "1")?.integer(1..=u16::MAX.into())? as u16,
            channel: table.or("channel", 0, channel)?,
            speed_bps: table.or("speed", SPEEDS[0].1, speed)?,
            fec: table.or("fec", None, |item| item.boolean().map(Some))?,
            autoneg: table.or("autoneg", None, |item| item.boolean().map(Some))?,
        })
    }
}

fn channel(item: &Item<'_>) -> Result<u8, Error> {
    item.integer(0..=4).map(|channel| channel as u8).map_err(|_| {
        item.fault(
            "`channel` is not one of a connector",
            "give 1 to 4, or 0 for the whole connector",
        )
    })
}

fn speed(item: &Item<'_>) -> Result<u64, Error> {
    item.choice(&SPEEDS).map_err(|_| {
        let words = SPEEDS.iter().rev().map(|(word, _)| *word);
        let fix = format!("choose one of {}", suggest::list(words));
        item.fault("`speed` is not one of a Tofino's ports", fix)
    })
}

/// Sums are made and swept in pipe 0.
fn check_device_port(item: &Item<'_>, device_port: u16) -> Result<(), Error> {
    let pipe = device_port / PIPE_PORTS;
    if pipe != 0 {
        let problem =
            format!("device port {device_port} is in pipe {pipe}, but sums are computed in pipe 0");
        return Err(item.fault(problem, format!("use device ports 0 to {}", PIPE_PORTS - 1)));
    }
    if device_port == RECIRCULATION {
        let problem =
            format!("device port {RECIRCULATION} is the recirculation port, which the sweeps use");
        return Err(item.fault(problem, "use another"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use tributary_model::Scenario;
    use tributary_model::jobfile::parse;

    use super::*;
    use tributary_model::plan::{self, Placement};

    /// A star of two workers and a parameter server.
    pub(crate) fn star() -> Scenario {
        parse("[topology]\nkind = \"star\"\n[[job]]\nworkers = 2\n", "test").unwrap()
    }

    pub(crate) const FILE: &str = r#"
        [[port]]
        switch = "s1"
        to = "w1"
        device_port = 4
        connector = 1

        [[port]]
        switch = "s1"
        to = "w2"
        device_port = 12
        connector = 2
        speed = "40G"
        autoneg = true

        [[port]]
        switch = "s1"
        port = 3
        device_port = 20
        connector = 3
        channel = 1
        speed = "25G"
        fec = true
    "#;

    fn read(text: &str) -> Result<PortMap, Error> {
        PortMap::parse(text, "ports.toml", &star().network.topology)
    }

    #[test]
    fn plans_get_the_switchs_numbers() {
        let map = read(FILE).unwrap();
        let scenario = star();
        let switch = SwitchId(0);
        assert_eq!(map.device_port(switch, 3), 20);
        let forwarding = plan::forwarding(&scenario.network.topology).remove(0);
        let mapped = map.forwarding(switch, forwarding.clone());
        assert_eq!(mapped.flood, [4, 12, 20]);
        let ports: Vec<u16> = mapped.hosts.values().copied().collect();
        assert_eq!((ports.len(), mapped.hosts.keys().eq(forwarding.hosts.keys())), (3, true));
        assert!(ports.iter().all(|port| mapped.flood.contains(port)));

        let part = plan::job(&scenario.network.topology, &Placement::unassigned(&scenario.jobs[0]))
            .remove(0);
        let mapped = map.part(part.clone());
        assert_eq!(mapped.units.keys().copied().collect::<Vec<_>>(), [4, 12]);
        assert!(mapped.units.values().eq(part.units.values()));
        assert_eq!(mapped.uplink, Some(20));
        assert_eq!((mapped.members, mapped.lower), (part.members, BTreeSet::new()));
        // Without a map, nothing changes.
        let same = PortMap::default();
        assert_eq!(same.part(part.clone()), part);
        assert_eq!(same.forwarding(switch, forwarding.clone()), forwarding);
    }

    #[test]
    fn circuits_get_the_switchs_numbers() {
        let text = "protocol = \"p4inc\"\n[topology]\nunits = 2\nhosts_per_unit = 1\noptical_ports = 2\n\
                    [[job]]\nworkers = [\"w1\"]\nps = \"ps2\"\naggregation = \"server\"\n";
        let scenario = parse(text, "test").unwrap();
        let topology = &scenario.network.topology;
        let entry = |number: usize, (switch, port): (SwitchId, u16)| {
            let (name, device) = (&topology.switch(switch).name, 4 * port + 4);
            format!(
                "[[port]]\nswitch = \"{name}\"\nport = {port}\ndevice_port = {device}\nconnector = {number}\n"
            )
        };
        let ports = topology
            .switch_ids()
            .flat_map(|switch| topology.ports(switch).map(move |(port, ..)| (switch, port)));
        let file: String = (1..).zip(ports).map(|(number, port)| entry(number, port)).collect();
        let map = PortMap::parse(&file, "ports.toml", topology).unwrap();
        for part in plan::job(topology, &Placement::unassigned(&scenario.jobs[0])) {
            let number = |port: u16| 4 * port + 4;
            let (circuits, beside) = (part.circuits.clone(), part.beside.clone());
            assert_eq!((circuits.len(), beside.len()), (usize::from(part.switch.0 == 0), 1));
            let mapped = map.part(part);
            let expected = circuits.iter().map(|(port, to)| (number(*port), number(*to)));
            assert_eq!(mapped.circuits, expected.collect());
            let others = |ports: &Vec<u16>| ports.iter().copied().map(number).collect::<Vec<_>>();
            let expected = beside.iter().map(|(port, ports)| (number(*port), others(ports)));
            assert_eq!(mapped.beside, expected.collect());
        }
    }

    #[test]
    fn invalid_maps_are_reported() {
        let changed =
            |from: &str, to: &str| read(&FILE.replacen(from, to, 1)).unwrap_err().to_string();
        for (from, to, expected) in [
            ("\"s1\"", "\"s2\"", "3:18: the job file has no switch `s2`; give"),
            ("\"w1\"", "\"w9\"", "4:14: in the job file, switch s1 has no link to `w9`; name"),
            ("port = 3", "port = 4", "18:16: switch s1 has no port 4 in the job file; count"),
            ("port = 3", "port = 2", "16:9: port 2 of switch s1 has two entries; remove"),
            ("= 12", "= 4", "11:23: device port 4 of switch s1 is used twice; give"),
            (
                "connector = 2",
                "connector = 1",
                "12:21: connector 1/0 of switch s1 is used twice; give",
            ),
            (
                "= 20",
                "= 148",
                "19:23: device port 148 is in pipe 1, but sums are computed in pipe 0; use",
            ),
            (
                "= 12",
                "= 68",
                "11:23: device port 68 is the recirculation port, which the sweeps use; use",
            ),
            (
                "= 12",
                "= 600",
                "11:23: `device_port` is 600, out of range; choose a value from 0 to 511",
            ),
            (
                "40G",
                "400G",
                "13:17: `speed` is not one of a Tofino's ports; choose one of `1G`, `10G`",
            ),
            (
                "channel = 1",
                "channel = 5",
                "21:19: `channel` is not one of a connector; give 1 to 4, or 0",
            ),
            ("connector = 3", "connector = 0", "20:21: `connector` is 0, out of range"),
            (
                "to = \"w1\"",
                "to = \"w1\"\nport = 1",
                "2:9: it is not clear which port of switch s1",
            ),
            (
                "fec = true",
                "fek = true",
                "23:9: unknown key `fek` in [[port]]; did you mean `fec`?",
            ),
        ] {
            let error = changed(from, to);
            assert!(error.starts_with(&format!("ports.toml:{expected}")), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let missing = read(FILE.rsplit_once("[[port]]").unwrap().0).unwrap_err().to_string();
        assert_eq!(
            missing,
            "ports.toml:1:1: port 3 of switch s1, towards ps, is missing; add a [[port]]"
        );
    }
}
