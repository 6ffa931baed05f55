//! The description of a testbed: hosts, switches and links.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;

/// A network to build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Machines with an address; each has at most one link, on port 0.
    pub hosts: Vec<Host>,
    /// Machines with many ports and no address.
    pub switches: Vec<SwitchNode>,
    /// The links.
    pub links: Vec<Link>,
}

/// A host. Its interface is called `eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique among all nodes.
    pub name: String,
    /// Ethernet address, unicast.
    pub mac: [u8; 6],
    /// IPv4 address; see also [`NO_ADDRESS`](Self::NO_ADDRESS).
    pub ip: Ipv4Addr,
    /// Prefix length of the address.
    pub prefix: u8,
}

impl Host {
    /// Address and prefix length of a host without an address.
    pub const NO_ADDRESS: (Ipv4Addr, u8) = (Ipv4Addr::UNSPECIFIED, 0);
}

/// A switch. Its interfaces are called `port0`, `port1`, …, after their port numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchNode {
    /// Unique among all nodes.
    pub name: String,
}

/// A link between two ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: LinkEnd,
    /// The other.
    pub b: LinkEnd,
    /// Maximum payload of an Ethernet frame, in bytes.
    pub mtu: u32,
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnd {
    /// The name of a host or switch.
    pub node: String,
    /// The port number there; 0 at a host.
    pub port: u16,
}

impl LinkEnd {
    /// Port `port` of `node`.
    pub fn new(node: impl Into<String>, port: u16) -> Self {
        Self { node: node.into(), port }
    }
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}–{}", self.a, self.b)
    }
}

/// The range of MTUs that virtual Ethernet accepts with IPv4.
const MTU: std::ops::RangeInclusive<u32> = 68..=65_535;

/// Why a topology cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopology {
    /// Two nodes have the same name.
    #[error("two nodes are called `{0}`")]
    DuplicateName(String),
    /// A node has no name.
    #[error("a node has no name")]
    NoName,
    /// A link ends at an unknown node.
    #[error("{link}: there is no node `{node}`")]
    UnknownNode {
        /// The link.
        link: String,
        /// The node's name.
        node: String,
    },
    /// Two links end at this port.
    #[error("port {0} has two links")]
    PortTaken(LinkEnd),
    /// A link ends at a host's port other than 0.
    #[error("port {0}: a host has only port 0")]
    HostPort(LinkEnd),
    /// The MTU is too small or too large.
    #[error("{link}: an MTU of {mtu} is not between 68 and 65535")]
    Mtu {
        /// The link.
        link: String,
        /// The MTU.
        mtu: u32,
    },
    /// The address is invalid.
    #[error("host `{host}`: {what}")]
    Address {
        /// The host.
        host: String,
        /// The problem.
        what: &'static str,
    },
}

/// One end of a link, as the kernel needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) interface: String,
    pub(crate) mac: [u8; 6],
    pub(crate) address: Option<(Ipv4Addr, u8)>,
}

impl Topology {
    /// The name of the interface at a port.
    #[must_use]
    pub fn interface(&self, port: &LinkEnd) -> String {
        self.end(port).interface
    }

    /// The names of a node's interfaces, in the order of its links.
    pub(crate) fn interfaces(&self, node: &str) -> Vec<String> {
        let ports = self.links.iter().flat_map(|link| [&link.a, &link.b]);
        ports.filter(|port| port.node == node).map(|port| self.interface(port)).collect()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        let hosts = self.hosts.iter().map(|host| &host.name[..]);
        hosts.chain(self.switches.iter().map(|switch| &switch.name[..]))
    }

    pub(crate) fn end(&self, port: &LinkEnd) -> End {
        if let Some(host) = self.hosts.iter().find(|host| host.name == port.node) {
            return End {
                interface: format!("eth{}", port.port),
                mac: host.mac,
                address: Some((host.ip, host.prefix)).filter(|own| *own != Host::NO_ADDRESS),
            };
        }
        // Locally administered. Unused as a destination, but it must be unique.
        let switch = self.switches.iter().position(|switch| switch.name == port.node).unwrap_or(0);
        let [switch_high, switch_low] = u16::try_from(switch).unwrap_or(u16::MAX).to_be_bytes();
        let [port_high, port_low] = port.port.to_be_bytes();
        End {
            interface: format!("port{}", port.port),
            mac: [0x0a, 0x54, switch_high, switch_low, port_high, port_low],
            address: None,
        }
    }

    /// Checks that the topology can be built.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), InvalidTopology> {
        let mut names = BTreeSet::new();
        for name in self.nodes() {
            if name.is_empty() {
                return Err(InvalidTopology::NoName);
            }
            if !names.insert(name) {
                return Err(InvalidTopology::DuplicateName(name.to_owned()));
            }
        }
        for host in &self.hosts {
            let wrong = |what| Err(InvalidTopology::Address { host: host.name.clone(), what });
            if host.mac == [0; 6] || host.mac[0] & 1 == 1 {
                return wrong("the Ethernet address is not that of one machine");
            }
            let given = (host.ip, host.prefix) != Host::NO_ADDRESS;
            if given && host.ip.is_unspecified() || host.ip.is_multicast() || host.ip.is_broadcast()
            {
                return wrong("the IP address is not that of one machine");
            }
            if host.prefix > 32 {
                return wrong("the prefix of the IP address is longer than 32 bits");
            }
        }
        let mut taken = BTreeSet::new();
        for link in &self.links {
            for port in [&link.a, &link.b] {
                if !names.contains(&port.node[..]) {
                    let (link, node) = (link.to_string(), port.node.clone());
                    return Err(InvalidTopology::UnknownNode { link, node });
                }
                if port.port != 0 && self.hosts.iter().any(|host| host.name == port.node) {
                    return Err(InvalidTopology::HostPort(port.clone()));
                }
                if !taken.insert(port) {
                    return Err(InvalidTopology::PortTaken(port.clone()));
                }
            }
            if !MTU.contains(&link.mtu) {
                return Err(InvalidTopology::Mtu { link: link.to_string(), mtu: link.mtu });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, number: u8) -> Host {
        let mac = [2, 0, 0, 0, 0, number];
        Host { name: name.to_owned(), mac, ip: Ipv4Addr::new(10, 0, 0, number), prefix: 24 }
    }

    fn star() -> Topology {
        let link = |host: &str, port| Link {
            a: LinkEnd::new(host, 0),
            b: LinkEnd::new("s", port),
            mtu: 1_500,
        };
        Topology {
            hosts: vec![host("a", 1), host("b", 2)],
            switches: vec![SwitchNode { name: "s".to_owned() }],
            links: vec![link("a", 0), link("b", 7)],
        }
    }

    #[test]
    fn interfaces_are_named_after_ports() {
        let star = star();
        assert_eq!(star.check(), Ok(()));
        assert_eq!(star.interface(&LinkEnd::new("a", 0)), "eth0");
        assert_eq!(star.interface(&LinkEnd::new("s", 7)), "port7");
        let macs: BTreeSet<[u8; 6]> = star
            .links
            .iter()
            .flat_map(|link| [star.end(&link.a).mac, star.end(&link.b).mac])
            .collect();
        assert_eq!(macs.len(), 4);
        assert!(star.interface(&LinkEnd::new("s", u16::MAX)).len() < 16, "the kernel's limit");
    }

    #[test]
    fn a_host_may_have_no_address() {
        let mut star = star();
        (star.hosts[0].ip, star.hosts[0].prefix) = Host::NO_ADDRESS;
        assert_eq!(star.check(), Ok(()));
        assert_eq!(star.end(&LinkEnd::new("a", 0)).address, None);
        star.hosts[0].prefix = 8;
        assert!(star.check().is_err());
    }

    /// A change that makes a valid topology invalid, and the resulting error.
    type Case = (&'static str, fn(&mut Topology));

    #[test]
    fn invalid_topologies_are_reported() {
        let cases: [Case; 10] = [
            ("two nodes are called `a`", |star| star.switches[0].name = "a".to_owned()),
            ("a node has no name", |star| star.hosts[0].name.clear()),
            ("link a:0–x:0: there is no node `x`", |star| star.links[0].b = LinkEnd::new("x", 0)),
            ("port s:0 has two links", |star| star.links[1].b.port = 0),
            ("port b:1: a host has only port 0", |star| star.links[1].a.port = 1),
            ("link a:0–s:0: an MTU of 67 is not", |star| star.links[0].mtu = 67),
            ("link a:0–s:0: an MTU of 65536 is not", |star| star.links[0].mtu = 65_536),
            ("host `a`: the Ethernet address", |star| star.hosts[0].mac[0] = 1),
            ("host `b`: the IP address", |star| star.hosts[1].ip = Ipv4Addr::new(239, 0, 0, 1)),
            ("host `b`: the prefix", |star| star.hosts[1].prefix = 33),
        ];
        for (complaint, spoil) in cases {
            let mut star = star();
            spoil(&mut star);
            let error = star.check().expect_err(complaint).to_string();
            assert!(error.starts_with(complaint), "{error}");
        }
    }
}
