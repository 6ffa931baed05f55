//! Hosts, switches, the links between them, and circuits of a cross-connect.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_protocol::{Racks, Rate};
use tributary_wire::{Host as Address, POSITIONS_MAX, Protocol};

use crate::circuits::{Circuits, Invalid, Port};

/// Identifies a switch: index into [`Topology::switches`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct SwitchId(pub usize);

/// Identifies a host: index into [`Topology::hosts`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct HostId(pub usize);

/// Identifies a link: index into [`Topology::links`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct LinkId(pub usize);

/// A network. Each host has one link, to a switch. Switches may form any graph, which is connected
/// unless a cross-connect joins them.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Topology {
    /// Switches in the order of the file.
    pub switches: Vec<Switch>,
    /// Hosts in the order of the file.
    pub hosts: Vec<Host>,
    /// Links in the order of the file, and after them one for each circuit of the cross-connect.
    pub links: Vec<Link>,
    /// The cross-connect, if there is one.
    pub optical: Option<Optical>,
    /// Bits per second that each host may send besides the packets of jobs: its switch drops what is
    /// above. `None`: no limit.
    pub other_traffic: Option<Rate>,
}

/// A cross-connect that joins optical ports of the switches (P4INC-AOI §III). Every switch has equally
/// many, with the port numbers after those of its links. Port *k* of switch *s*, both from 0, is at
/// port *s* · [`ports`](Self::ports) + *k* + 1 of the cross-connect.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Optical {
    /// Optical ports of each switch.
    pub ports: u16,
    /// How long a port is dark while it is joined with another one: ε.
    pub outage: Duration,
    /// Properties of each circuit, as of a link. Its ends are those of no circuit.
    pub fibre: Fibre,
    circuits: Circuits,
}

/// Properties of a circuit.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Fibre {
    /// As [`Link::mtu`].
    pub mtu: u32,
    /// As [`Link::rate`].
    pub rate: Option<u64>,
    /// As [`Link::latency`].
    pub latency: Option<Duration>,
    /// As [`Link::faults`].
    pub faults: LinkFaults,
}

impl Optical {
    /// A cross-connect without circuits.
    #[must_use]
    pub fn dark(ports: u16, outage: Duration, fibre: Fibre) -> Self {
        Self { ports, outage, fibre, circuits: Circuits::DARK }
    }

    /// The circuits that exist.
    #[must_use]
    pub fn circuits(&self) -> &Circuits {
        &self.circuits
    }
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Switch {
    /// Unique among hosts and switches.
    pub name: String,
    /// Its links: `ports[0]` is port 1, and so on. Optical ports follow.
    pub ports: Vec<LinkId>,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Host {
    /// Unique among hosts and switches.
    pub name: String,
    /// MAC and IP address of its interface; both unique.
    pub address: Address,
    /// Whether jobs that do not name hosts place workers or parameter servers there.
    pub role: HostRole,
    /// Its only link.
    pub link: LinkId,
}

/// Use of a host by jobs that do not name hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum HostRole {
    /// Workers.
    Worker,
    /// Parameter servers.
    ParameterServer,
}

/// A cable. Both directions have the same properties.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Link {
    /// The two ends.
    pub ends: [End; 2],
    /// Maximum packet length in bytes, from the IP header on.
    pub mtu: u32,
    /// Bits per second; `None` if the file does not set it. Only a simulation can choose it.
    pub rate: Option<u64>,
    /// Propagation delay; `None` if the file does not set it. Only a simulation can choose it.
    pub latency: Option<Duration>,
    /// Its faults.
    pub faults: LinkFaults,
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum End {
    /// A host's only interface.
    Host(HostId),
    /// A switch's port; ports count from 1.
    Switch(SwitchId, u16),
}

/// Faults that a link applies to each frame, independently in each direction.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct LinkFaults {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Mean number of frames lost in a row. Up to 1, losses are independent.
    pub burst: u32,
    /// Probability that a frame arrives twice.
    pub duplicate: f64,
    /// Probability that a frame is held back until later frames overtake it.
    pub reorder: f64,
    /// Additional delay of every frame.
    pub delay: Duration,
    /// Maximum random additional delay, uniformly distributed from zero. It preserves the order of
    /// frames.
    pub jitter: Duration,
}

/// Losses are too frequent for bursts of their mean length.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("a loss of {loss} needs bursts of at least {least} frames, not of {burst}")]
pub struct ShortBursts {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// The mean number of frames lost in a row.
    pub burst: u32,
    /// Its least.
    pub least: f64,
}

impl LinkFaults {
    /// Whether the link has no faults.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that losses come in bursts of their mean length.
    ///
    /// # Errors
    /// [`ShortBursts`].
    pub fn check(&self) -> Result<(), ShortBursts> {
        let Self { loss, burst, .. } = *self;
        let least = (loss / (1.0 - loss)).ceil();
        let short = burst > 1 && loss < 1.0 && f64::from(burst) < least;
        if short { Err(ShortBursts { loss, burst, least }) } else { Ok(()) }
    }
}

/// Why a job cannot be aggregated in two levels.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// The workers of a switch are not listed one after another.
    #[error("the workers at switch {switch} are not listed one after another")]
    Scattered {
        /// The switch.
        switch: String,
    },
    /// A switch has too many of the workers.
    #[error("{workers} of the workers are at switch {switch}; a rack has at most {most}")]
    Wide {
        /// The switch.
        switch: String,
        /// Number of the job's workers there.
        workers: usize,
        /// The largest number.
        most: u8,
    },
    /// The workers are at more than 32 switches.
    #[error("the workers are at {switches} switches; a job has at most {POSITIONS_MAX} racks")]
    Many {
        /// Number of switches.
        switches: usize,
    },
}

impl Topology {
    /// A switch by its ID.
    #[must_use]
    pub fn switch(&self, id: SwitchId) -> &Switch {
        &self.switches[id.0]
    }

    /// A host by its ID.
    #[must_use]
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    /// A link by its ID.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0]
    }

    /// Whether a link sets its rate or latency.
    #[must_use]
    pub fn has_timing(&self) -> bool {
        let fibre = self.optical.as_ref().map(|optical| optical.fibre);
        fibre.is_some_and(|fibre| fibre.rate.is_some() || fibre.latency.is_some())
            || self.links.iter().any(|link| link.rate.is_some() || link.latency.is_some())
    }

    /// Removes the rates and latencies of all links.
    pub fn clear_timing(&mut self) {
        for link in &mut self.links {
            (link.rate, link.latency) = (None, None);
        }
        if let Some(Optical { fibre, .. }) = &mut self.optical {
            (fibre.rate, fibre.latency) = (None, None);
        }
    }

    /// Number of links that are not circuits.
    #[must_use]
    pub fn fixed_links(&self) -> usize {
        self.links.len() - self.optical.as_ref().map_or(0, |optical| optical.circuits.len())
    }

    /// A number of the link that does not depend on which circuits exist.
    #[must_use]
    pub fn lasting_number(&self, link: LinkId) -> usize {
        let fixed = self.fixed_links();
        match self.link(link).ends[0] {
            End::Switch(switch, port) if link.0 >= fixed => {
                fixed + self.fibre(switch, port).map_or(0, |port| usize::from(port.0))
            }
            _ => link.0,
        }
    }

    /// The ports that a cross-connect of this network has.
    #[must_use]
    pub fn cross_connect_ports(&self) -> u16 {
        let each = self.optical.as_ref().map_or(0, |optical| optical.ports);
        each * u16::try_from(self.switches.len()).unwrap_or(u16::MAX)
    }

    /// The cross-connect's port at a switch's port, if that is optical.
    #[must_use]
    pub fn fibre(&self, switch: SwitchId, port: u16) -> Option<Port> {
        let each = self.optical.as_ref()?.ports;
        let links = self.switch(switch).ports.len();
        let at = usize::from(port).checked_sub(links + 1)?;
        let own = usize::from(each) * switch.0 + at + 1;
        (at < usize::from(each)).then(|| Port(u16::try_from(own).unwrap_or(u16::MAX)))
    }

    /// The switch and its port at a port of the cross-connect.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn optical_end(&self, port: Port) -> (SwitchId, u16) {
        let each = usize::from(self.optical.as_ref().map_or(0, |optical| optical.ports));
        let at = usize::from(port.0).checked_sub(1).expect("ports count from 1");
        let switch = SwitchId(at / each);
        let number = self.switch(switch).ports.len() + at % each + 1;
        (switch, u16::try_from(number).expect("the reader checked"))
    }

    /// Joins the optical ports with these circuits instead of those that exist.
    ///
    /// # Errors
    /// [`Invalid::Unknown`] if the cross-connect has too few ports, or does not exist.
    pub fn patch(&mut self, circuits: &Circuits) -> Result<(), Invalid> {
        circuits.fit(self.cross_connect_ports())?;
        let fixed = self.fixed_links();
        self.links.truncate(fixed);
        let ends: Vec<[End; 2]> = circuits
            .pairs()
            .map(|(a, b)| {
                [a, b].map(|port| {
                    let (switch, port) = self.optical_end(port);
                    End::Switch(switch, port)
                })
            })
            .collect();
        if let Some(optical) = &mut self.optical {
            let Fibre { mtu, rate, latency, faults } = optical.fibre;
            let links = ends.into_iter().map(|ends| Link { ends, mtu, rate, latency, faults });
            self.links.extend(links);
            optical.circuits = circuits.clone();
        }
        Ok(())
    }

    /// The same network with other circuits.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub fn patched(&self, circuits: &Circuits) -> Result<Self, Invalid> {
        let mut patched = self.clone();
        patched.patch(circuits)?;
        Ok(patched)
    }

    /// All port numbers of a switch, also those of dark ports.
    pub fn port_numbers(&self, switch: SwitchId) -> impl Iterator<Item = u16> + use<> {
        let optical = self.optical.as_ref().map_or(0, |optical| usize::from(optical.ports));
        let ports = self.switch(switch).ports.len() + optical;
        1..=u16::try_from(ports).expect("the reader checked")
    }

    /// All switch IDs.
    pub fn switch_ids(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId)
    }

    /// All host IDs.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    /// The switch and port to which a host is attached.
    #[must_use]
    pub fn attachment(&self, host: HostId) -> (SwitchId, u16) {
        let ends = self.link(self.host(host).link).ends;
        let switch = ends.into_iter().find_map(|end| match end {
            End::Switch(switch, port) => Some((switch, port)),
            End::Host(_) => None,
        });
        switch.expect("a link has at least one end at a switch: the reader checked")
    }

    /// The switch to which all these hosts are attached, if there is one.
    #[must_use]
    pub fn common_switch(&self, hosts: &[HostId]) -> Option<SwitchId> {
        let mut switches = hosts.iter().map(|&host| self.attachment(host).0);
        let first = switches.next()?;
        switches.all(|switch| switch == first).then_some(first)
    }

    /// How packets name the workers of a job with this parameter server, if it has one.
    ///
    /// A job of up to 32 workers is flat, unless `two_levels` is set and they are at several switches.
    /// In other jobs the workers of a switch share a position;
    /// but those at the server's switch have one each if there are enough, because all sums meet in
    /// that switch anyway. A rack has at most 32 workers, in P4INC 31: the switches of its jobs need a
    /// bit for all others.
    ///
    /// # Errors
    /// If the workers do not fit.
    pub fn racks(
        &self,
        workers: &[HostId],
        server: Option<HostId>,
        protocol: Protocol,
        two_levels: bool,
    ) -> Result<Racks, Unfit> {
        let two_levels = two_levels && self.common_switch(workers).is_none();
        let few = u8::try_from(workers.len()).ok().filter(|&count| count <= POSITIONS_MAX);
        if let Some(count) = few.filter(|_| !two_levels) {
            return Ok(Racks::flat(count));
        }
        let switch = |worker: &HostId| self.attachment(*worker).0;
        let groups: Vec<&[HostId]> =
            workers.chunk_by(|one, next| switch(one) == switch(next)).collect();
        let most = if protocol == Protocol::P4inc { POSITIONS_MAX - 1 } else { POSITIONS_MAX };
        let mut seen = BTreeSet::new();
        for group in &groups {
            let name = || self.switch(switch(&group[0])).name.clone();
            if !seen.insert(switch(&group[0])) {
                return Err(Unfit::Scattered { switch: name() });
            }
            if group.len() > usize::from(most) {
                return Err(Unfit::Wide { switch: name(), workers: group.len(), most });
            }
        }
        let home = server.map(|server| self.attachment(server).0);
        let widths = |spread: bool| -> Vec<u8> {
            let width = |group: &&[HostId]| match group.len() {
                count if spread && Some(switch(&group[0])) == home => vec![1; count],
                count => vec![count as u8],
            };
            groups.iter().flat_map(width).collect()
        };
        let racks = Racks::new(&widths(true)).or_else(|| Racks::new(&widths(false)));
        racks.ok_or(Unfit::Many { switches: groups.len() })
    }

    /// The ports of a switch, each with its link and the opposite end; dark ports have none.
    pub fn ports(&self, switch: SwitchId) -> impl Iterator<Item = (u16, LinkId, End)> {
        let fixed = self.switch(switch).ports.iter().copied().zip(1_u16..);
        let circuits = (self.fixed_links()..self.links.len()).map(LinkId);
        // Few: one for each optical port at most.
        let lit = circuits.flat_map(move |link| {
            self.link(link).ends.into_iter().filter_map(move |end| match end {
                End::Switch(its, port) if its == switch => Some((link, port)),
                _ => None,
            })
        });
        fixed.chain(lit).map(move |(link, port)| {
            let [a, b] = self.link(link).ends;
            (port, link, if a == End::Switch(switch, port) { b } else { a })
        })
    }

    /// A host by its name.
    #[must_use]
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name).map(HostId)
    }

    /// A switch by its name.
    #[must_use]
    pub fn switch_named(&self, name: &str) -> Option<SwitchId> {
        self.switches.iter().position(|switch| switch.name == name).map(SwitchId)
    }

    /// Name of the host or switch at an end of a link.
    #[must_use]
    pub fn end_name(&self, end: End) -> &str {
        match end {
            End::Host(host) => &self.host(host).name,
            End::Switch(switch, _) => &self.switch(switch).name,
        }
    }
}
