//! The interfaces of a capture of a network.

use tributary_model::{End, Topology, circuits::Port};
use tributary_netio::FrameIo;
use tributary_netio::capture::{Interface, Recorder, Tap};

/// The ends of all links of a network, as interfaces of a capture: the two ends of each link, then the
/// units' ends of the fibres to the cross-connect.
#[derive(Clone, Debug)]
pub struct Ends {
    ends: Vec<(End, Interface)>,
}

impl Ends {
    /// The ends in a network.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let links = topology.links[..topology.fixed_links()].iter();
        let links = links.flat_map(|link| {
            let [a, b] = link.ends;
            [(a, interface(topology, a, b)), (b, interface(topology, b, a))]
        });
        let fibres = (1..=topology.cross_connect_ports()).map(|port| {
            let (switch, number) = topology.optical_end(Port(port));
            let name = &topology.switch(switch).name;
            let end = format!("port {port} of the cross-connect");
            let interface = Interface {
                name: format!("{name}:{number}"),
                description: format!("switch {name}, port {number}, link to {end}"),
            };
            (End::Switch(switch, number), interface)
        });
        Self { ends: links.chain(fibres).collect() }
    }

    /// The number of an end's interface.
    ///
    /// # Panics
    /// If the network has no such end.
    #[must_use]
    pub fn number(&self, end: End) -> u32 {
        let at = self.ends.iter().position(|(own, _)| *own == end).expect("an end of the network");
        u32::try_from(at).expect("fewer links than 2^31")
    }

    /// The ends, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = End> {
        self.ends.iter().map(|(end, _)| *end)
    }

    /// The interfaces, in the order of their numbers.
    #[must_use]
    pub fn interfaces(&self) -> Vec<Interface> {
        self.ends.iter().map(|(_, interface)| interface.clone()).collect()
    }
}

/// The ends of a network's links, with the recorder that captures there.
#[derive(Clone, Debug)]
pub struct Taps {
    /// The recorder.
    pub recorder: Recorder,
    /// The ends.
    pub ends: Ends,
}

impl Taps {
    /// Captures the frames of the port at this end.
    ///
    /// # Panics
    /// If the network has no such end.
    pub fn tap<Io: FrameIo>(&self, end: End, io: Io) -> Tap<Io> {
        Tap::new(io, self.recorder.clone(), self.ends.number(end))
    }
}

/// The interface of an end. A host has one interface, which has its name; two switches have at most one
/// link, so a switch and its neighbour name a port.
fn interface(topology: &Topology, own: End, other: End) -> Interface {
    let (name, neighbour) = (topology.end_name(own), topology.end_name(other));
    match own {
        End::Host(_) => Interface {
            name: name.into(),
            description: format!("host {name}, link to {neighbour}"),
        },
        End::Switch(_, port) => Interface {
            name: format!("{name}:{neighbour}"),
            description: format!("switch {name}, port {port}, link to {neighbour}"),
        },
    }
}
