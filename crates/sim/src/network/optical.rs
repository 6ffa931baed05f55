//! The cross-connect: optical ports that are joined with each other, or dark.

use std::time::Duration;

use tributary_model::{
    End,
    circuits::{Circuits, Port},
};

use super::Network;
use crate::trace::{Fate, What};

impl Network {
    /// Makes a cross-connect join its ports as these circuits say. A port whose circuit changes is dark
    /// for the outage, and a port without circuit for good; what is on the way from or to such ports is
    /// lost.
    ///
    /// # Panics
    /// If the topology has not all ports of the circuits.
    pub fn patch(&mut self, circuits: &Circuits) {
        let optical = self.topology.optical.as_ref().expect("a cross-connect");
        let (kept, outage) = (optical.circuits().kept(circuits), optical.outage);
        for port in (1..=self.topology.cross_connect_ports()).map(Port) {
            if kept.peer(port).is_none() {
                self.darken(port, u64::MAX);
            }
        }
        let mut changed = circuits.clone();
        for (port, _) in kept.pairs() {
            changed.part(port);
        }
        let light = (self.now() + outage).as_nanos();
        self.connect_ports(&changed, light);
        self.topology.patch(circuits).expect("the ports of these circuits");
        self.disturbed_at = Some(self.now);
        if let Some(trace) = &mut self.trace {
            let at = self.topology.switches.first().map_or("", |switch| &switch.name);
            let text = format!("the cross-connect joins {circuits}");
            trace.push(self.now, at, at, What::Event(text), Fate::Arrived);
        }
    }

    /// The circuits of the cross-connect; those that do not carry light yet are included.
    ///
    /// # Panics
    /// If there is no cross-connect.
    pub fn circuits(&self) -> &Circuits {
        self.topology.optical.as_ref().expect("a cross-connect").circuits()
    }

    /// How long a port is dark when its circuit changes.
    pub fn outage(&self) -> Duration {
        self.topology.optical.as_ref().map_or(Duration::ZERO, |optical| optical.outage)
    }

    /// Joins the ports at the start, without an outage.
    pub(super) fn light(&mut self, circuits: &Circuits) {
        for port in 1..=self.topology.cross_connect_ports() {
            self.darken(Port(port), u64::MAX);
        }
        self.connect_ports(circuits, 0);
    }

    fn darken(&mut self, port: Port, until: u64) {
        let (switch, port) = self.topology.optical_end(port);
        let end = End::Switch(switch, port);
        let direction = self.wiring.from(end);
        self.wiring.ends[direction].1 = end;
        self.directions[direction].darken(self.now, until);
    }

    /// Joins dark ports, which have light from a time on.
    fn connect_ports(&mut self, circuits: &Circuits, light: u64) {
        for (a, b) in circuits.pairs() {
            let [a, b] = [a, b].map(|port| {
                let (switch, port) = self.topology.optical_end(port);
                End::Switch(switch, port)
            });
            for (from, to) in [(a, b), (b, a)] {
                let direction = self.wiring.from(from);
                self.wiring.ends[direction].1 = to;
                self.directions[direction].darken(self.now, light);
            }
        }
    }
}
