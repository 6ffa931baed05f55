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

use serde::Deserialize;
use tributary_jobfile::{SwitchId, Topology};
use tributary_limits::FileLimit;

use crate::error::{Error, one_line};
use crate::plan::{Forwarding, JobAtSwitch};

/// Hundreds of times the size for the largest switch.
const FILE: FileLimit = FileLimit::new("port map", 4 << 20);

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    port: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    switch: String,
    port: Option<u16>,
    to: Option<String>,
    device_port: u16,
    connector: u16,
    #[serde(default)]
    channel: u8,
    speed: Option<String>,
    fec: Option<bool>,
    autoneg: Option<bool>,
}

impl PortMap {
    /// Reads a port map.
    ///
    /// # Errors
    /// [`Error::Ports`]: the map must have every port of the topology once, all in pipe 0.
    pub fn read(path: &Path, topology: &Topology) -> Result<Self, Error> {
        let failed = |reason: String| Error::Ports { file: path.display().to_string(), reason };
        let text =
            FILE.read_text(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
        Self::parse(&text, topology).map_err(failed)
    }

    fn parse(text: &str, topology: &Topology) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| one_line(&error.to_string()))?;
        let mut map = Self::default();
        for entry in &file.port {
            let (switch, port) = entry.place(topology)?;
            let name = &entry.switch;
            let panel = entry.panel()?;
            let same = |(_, other): (&(SwitchId, u16), &Panel)| {
                other.device_port == panel.device_port
                    || (other.connector, other.channel) == (panel.connector, panel.channel)
            };
            let mut others = map.0.iter().filter(|((at, _), _)| *at == switch);
            if others.any(same) {
                return Err(format!(
                    "switch {name}: two ports are device port {} or connector {}/{}; each can be one",
                    panel.device_port, panel.connector, panel.channel
                ));
            }
            if map.0.insert((switch, port), panel).is_some() {
                return Err(format!("switch {name}: port {port} is there twice"));
            }
        }
        for switch in topology.switch_ids() {
            map.check(topology, switch)?;
        }
        Ok(map)
    }

    fn check(&self, topology: &Topology, switch: SwitchId) -> Result<(), String> {
        let name = &topology.switch(switch).name;
        for (port, _, far) in topology.ports(switch) {
            let far = topology.end_name(far);
            let panel = self.0.get(&(switch, port)).ok_or_else(|| {
                format!("switch {name}: nothing about port {port}, towards {far}; add a [[port]]")
            })?;
            let pipe = panel.device_port / PIPE_PORTS;
            if pipe != 0 {
                return Err(format!(
                    "switch {name}: device port {} is of pipe {pipe}, whose registers are not those of \
                     pipe 0, where sums are made and swept; use device ports 0 to {}",
                    panel.device_port,
                    PIPE_PORTS - 1
                ));
            }
            if panel.device_port == RECIRCULATION {
                return Err(format!(
                    "switch {name}: device port {RECIRCULATION} leads packets back into the switch, and \
                     sweeps go by it; use another"
                ));
            }
        }
        Ok(())
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
            uplink: part.uplink.map(number),
            reminders: keys(part.reminders, number),
            answers: keys(part.answers, number),
            senders: keys(part.senders, number),
            ..part
        }
    }
}

impl Entry {
    fn place(&self, topology: &Topology) -> Result<(SwitchId, u16), String> {
        let name = &self.switch;
        let switch = topology
            .switch_named(name)
            .ok_or_else(|| format!("the job file has no switch `{name}`"))?;
        let mut ports = topology.ports(switch);
        match (self.port, &self.to) {
            (Some(port), None) => ports
                .find(|(number, ..)| *number == port)
                .map(|_| (switch, port))
                .ok_or_else(|| format!("switch {name} has no port {port} in the job file")),
            (None, Some(to)) => {
                let found: Vec<u16> = ports
                    .filter(|(_, _, far)| topology.end_name(*far) == to)
                    .map(|(number, ..)| number)
                    .collect();
                match found[..] {
                    [port] => Ok((switch, port)),
                    [] => Err(format!("in the job file, switch {name} has no link to `{to}`")),
                    _ => Err(format!(
                        "switch {name} has several links to `{to}`; say which with `port`"
                    )),
                }
            }
            _ => Err(format!(
                "switch {name}: device port {} wants either `to` or `port`",
                self.device_port
            )),
        }
    }

    fn panel(&self) -> Result<Panel, String> {
        let speed = self.speed.as_deref().unwrap_or("100G");
        let speed_bps = match speed.strip_suffix('G').and_then(|number| number.parse::<u64>().ok())
        {
            Some(gigabits @ (1 | 10 | 25 | 40 | 50 | 100)) => gigabits * 1_000_000_000,
            _ => {
                return Err(format!(
                    "speed = \"{speed}\": a Tofino's ports have 1G, 10G, 25G, 40G, 50G or 100G"
                ));
            }
        };
        if self.connector == 0 || self.channel > 4 {
            return Err(format!(
                "connector {}, channel {}: connectors count from 1, and channels from 1 to 4, or 0 for \
                 the whole connector",
                self.connector, self.channel
            ));
        }
        if self.device_port >= 4 * PIPE_PORTS {
            return Err(format!("device_port = {}: there are 0 to 511", self.device_port));
        }
        Ok(Panel {
            device_port: self.device_port,
            connector: self.connector,
            channel: self.channel,
            speed_bps,
            fec: self.fec,
            autoneg: self.autoneg,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use tributary_jobfile::{Scenario, parse};

    use super::*;
    use crate::plan::{self, Placement};

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

    fn read(text: &str) -> Result<PortMap, String> {
        PortMap::parse(text, &star().topology)
    }

    #[test]
    fn plans_get_the_switchs_numbers() {
        let map = read(FILE).unwrap();
        let scenario = star();
        let switch = SwitchId(0);
        assert_eq!(map.device_port(switch, 3), 20);
        let forwarding = plan::forwarding(&scenario.topology).remove(0);
        let mapped = map.forwarding(switch, forwarding.clone());
        assert_eq!(mapped.flood, [4, 12, 20]);
        let ports: Vec<u16> = mapped.hosts.values().copied().collect();
        assert_eq!((ports.len(), mapped.hosts.keys().eq(forwarding.hosts.keys())), (3, true));
        assert!(ports.iter().all(|port| mapped.flood.contains(port)));

        let part =
            plan::job(&scenario.topology, &Placement::unassigned(&scenario.jobs[0])).remove(0);
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
    fn invalid_maps_are_reported() {
        let changed = |from: &str, to: &str| read(&FILE.replacen(from, to, 1)).unwrap_err();
        for (from, to, expected) in [
            ("\"s1\"", "\"s2\"", "the job file has no switch `s2`"),
            ("\"w1\"", "\"w9\"", "in the job file, switch s1 has no link to `w9`"),
            ("port = 3", "port = 4", "switch s1 has no port 4 in the job file"),
            ("port = 3", "port = 2", "switch s1: port 2 is there twice"),
            ("= 12", "= 4", "switch s1: two ports are device port 4 or connector 2/0"),
            ("connector = 2", "connector = 1", "switch s1: two ports are device port 12 or"),
            (
                "= 20",
                "= 148",
                "switch s1: device port 148 is of pipe 1, whose registers are not those of pipe 0",
            ),
            ("= 12", "= 68", "switch s1: device port 68 leads packets back into the switch"),
            ("= 12", "= 600", "device_port = 600: there are 0 to 511"),
            ("40G", "400G", "speed = \"400G\": a Tofino's ports have"),
            ("channel = 1", "channel = 5", "connector 3, channel 5: connectors count from 1"),
            ("to = \"w1\"", "to = \"w1\"\nport = 1", "switch s1: device port 4 wants either"),
            ("fec = true", "fek = true", "TOML parse error"),
        ] {
            let error = changed(from, to);
            assert!(error.starts_with(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let missing = read(FILE.rsplit_once("[[port]]").unwrap().0).unwrap_err();
        assert_eq!(missing, "switch s1: nothing about port 3, towards ps; add a [[port]]");
    }
}
