//! Where frames go: from which end of a link to which.

use tributary_model::{End, Link, Topology, circuits::Port};

/// The directions of a topology: two for each link that is not a circuit, and then one from each port
/// of the cross-connect, which the light leaves.
#[derive(Debug)]
pub(super) struct Wiring {
    /// Start and end of each direction. A dark port is its own end.
    pub(super) ends: Vec<(End, End)>,
    /// The direction that starts from each host.
    pub(super) from_host: Vec<usize>,
    /// The direction that starts from each port of each switch; ports count from 1.
    pub(super) from_port: Vec<Vec<usize>>,
}

impl Wiring {
    pub(super) fn new(topology: &Topology) -> Self {
        let of = |link: &Link| {
            let [a, b] = link.ends;
            [(a, b), (b, a)]
        };
        let links = &topology.links[..topology.fixed_links()];
        let dark = (1..=topology.cross_connect_ports()).map(|port| {
            let (switch, port) = topology.optical_end(Port(port));
            (End::Switch(switch, port), End::Switch(switch, port))
        });
        let ends: Vec<_> = links.iter().flat_map(of).chain(dark).collect();
        let from = |end| ends.iter().position(|(start, _)| *start == end).expect("it has a link");
        let ports = |switch| {
            topology.port_numbers(switch).map(|port| from(End::Switch(switch, port))).collect()
        };
        let from_host = topology.host_ids().map(|host| from(End::Host(host))).collect();
        let from_port = topology.switch_ids().map(ports).collect();
        Self { from_host, from_port, ends }
    }

    pub(super) fn from(&self, end: End) -> usize {
        match end {
            End::Host(host) => self.from_host[host.0],
            End::Switch(switch, port) => self.from_port[switch.0][usize::from(port) - 1],
        }
    }
}
