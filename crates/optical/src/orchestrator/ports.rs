//! Schedulers count circuits between units; a cross-connect joins ports.

use crate::{Circuits, UnitId};
use tributary_model::{SwitchId, Topology, circuits::Circuits as Joined};

/// Number of circuits between each two units.
///
/// # Panics
/// If a circuit has a port that the topology's cross-connect does not have.
#[must_use]
pub fn counted(topology: &Topology, joined: &Joined) -> Circuits {
    let mut circuits = Circuits::none(topology.switches.len());
    for (a, b) in joined.pairs() {
        let [a, b] = [a, b].map(|port| UnitId(topology.optical_end(port).0.0));
        // A unit has no use for a circuit to itself, but someone may have made one.
        if a != b {
            circuits.set(a, b, circuits.between(a, b) + 1);
        }
    }
    circuits
}

/// Circuits between ports, so many between each two units as wanted. Those of `now` that can stay do.
///
/// # Panics
/// If a unit would need more ports than it has, which no scheduler decides.
#[must_use]
pub fn joined(topology: &Topology, now: &Joined, wanted: &Circuits) -> Joined {
    let mut next = Joined::DARK;
    let mut missing = wanted.clone();
    for (a, b) in now.pairs() {
        let [one, other] = [a, b].map(|port| UnitId(topology.optical_end(port).0.0));
        if one == other {
            continue;
        }
        if let Some(rest) = missing.between(one, other).checked_sub(1) {
            next.join(a, b).expect("ports of a circuit have no other");
            missing.set(one, other, rest);
        }
    }
    let free = |next: &Joined, unit: UnitId| {
        let fibres = topology.port_numbers(SwitchId(unit.0));
        let mut fibres = fibres.filter_map(|port| topology.fibre(SwitchId(unit.0), port));
        fibres.find(|port| next.peer(*port).is_none()).expect("schedulers respect the ports")
    };
    for (a, b, count) in missing.pairs() {
        for _ in 0..count {
            let [a, b] = [free(&next, a), free(&next, b)];
            next.join(a, b).expect("free ports of two units");
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topology(units: usize, ports: usize) -> Topology {
        let text = format!(
            "protocol = \"p4inc\"\n[topology]\nunits = {units}\noptical_ports = {ports}\n[[job]]\n\
             workers = [\"w1\"]\n"
        );
        tributary_model::jobfile::parse(&text, "units")
            .unwrap_or_else(|error| panic!("{error}"))
            .network
            .topology
    }

    proptest! {
        /// As many as wanted, and as many of the old ones as possible.
        #[test]
        fn circuits_are_as_wanted_and_stay_if_they_can(
            ports in 1..5usize,
            picks in prop::collection::vec((0..5usize, 0..5usize), 0..20),
        ) {
            let topology = topology(5, ports);
            let now = topology.optical.as_ref().unwrap().circuits();
            let mut wanted = Circuits::none(5);
            for (a, b) in picks {
                let full = |unit: usize| wanted.ports(UnitId(unit)) as usize == ports;
                if a != b && !full(a) && !full(b) {
                    wanted.set(UnitId(a), UnitId(b), wanted.between(UnitId(a), UnitId(b)) + 1);
                }
            }
            let next = joined(&topology, now, &wanted);
            prop_assert_eq!(&counted(&topology, &next), &wanted);
            let had = counted(&topology, now);
            let stay: u32 = had.pairs().map(|(a, b, count)| count.min(wanted.between(a, b))).sum();
            prop_assert_eq!(now.kept(&next).len(), stay as usize);
            prop_assert_eq!(joined(&topology, &next, &wanted), next);
        }
    }
}
