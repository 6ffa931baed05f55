//! `[topology]` of units around a cross-connect (P4INC-AOI §III): the keys, and the first circuits.

use std::time::Duration;

use crate::{
    Fibre, HostRole, LinkFaults, Optical,
    circuits::{Circuits, Port},
};
use tributary_base::document::{Error, Table};

use crate::jobfile::draft::{
    Cable, Demand, Draft, MAX_HOSTS, MAX_HOSTS_PER_SWITCH, check_rack_size,
};

/// Keys of this kind of topology.
pub(crate) const KEYS: [&str; 9] = [
    "units",
    "hosts_per_unit",
    "ps_hosts",
    "optical_ports",
    "reconfiguration",
    "link",
    "mtu",
    "rate",
    "latency",
];

/// Most units: their optical ports have 16-bit numbers at the cross-connect.
const MAX_UNITS: u32 = 256;
const MAX_OPTICAL_PORTS: u32 = 128;

/// The paper's cross-connect takes "milliseconds"; ours as long as the schedules of
/// docs/evaluation/p4inc-evaluation.md assume.
const RECONFIGURATION: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);

/// Units with hosts for workers, hosts for parameter servers, and optical ports.
pub(crate) fn read<'a>(table: &Table<'a>, demand: Demand) -> Result<Draft<'a>, Error> {
    let units = table.or("units", 4, |units| units.integer32(2..=MAX_UNITS))?;
    let limit = MAX_HOSTS_PER_SWITCH;
    let hosts = table.or("hosts_per_unit", 2, |hosts| hosts.integer32(1..=limit))?;
    let servers = table.or("ps_hosts", 1, |hosts| hosts.integer32(0..=limit))?;
    check_rack_size(table, hosts, servers, "hosts_per_unit")?;
    if units * (hosts + servers) > MAX_HOSTS {
        return Err(table.place_of("units").fault(
            format!("{units} units of {hosts} hosts and {servers} for parameter servers are too many hosts"),
            format!("stay within {MAX_HOSTS}"),
        ));
    }
    let every_pair = (units - 1).min(MAX_OPTICAL_PORTS);
    let ports =
        table.or("optical_ports", every_pair, |ports| ports.integer32(1..=MAX_OPTICAL_PORTS))?;
    let outage = table
        .or("reconfiguration", RECONFIGURATION, |time| time.duration(Duration::ZERO..=LONGEST))?;
    let cable = Cable::of_all(table, demand)?;
    let mut draft = Draft::default();
    for unit in 0..units {
        draft.add_switch(table, format!("unit{}", unit + 1));
        let numbers = |each: u32| unit * each + 1..=(unit + 1) * each;
        draft.add_hosts(table, unit as usize, "w", numbers(hosts), HostRole::Worker, cable);
        let role = HostRole::ParameterServer;
        draft.add_hosts(table, unit as usize, "ps", numbers(servers), role, cable);
    }
    draft.adjust_links(table)?;
    let Cable { mtu, rate, latency } = cable;
    let fibre = Fibre { mtu, rate, latency, faults: LinkFaults::default() };
    // Both within 16 bits: see the limits.
    let (units, ports) = (units as u16, ports as u16);
    draft.optical = Some((Optical::dark(ports, outage, fibre), uniform(units, ports)));
    Ok(draft)
}

/// Circuits that join each pair of units equally often, or once more than others: port *k* of each unit
/// is in round *k* of a tournament of all units. If their number is odd, a unit has no partner in some
/// rounds, and its port stays dark.
fn uniform(units: u16, ports: u16) -> Circuits {
    let mut circuits = Circuits::DARK;
    // The last seat stays where it is, and all others move on by one after each round.
    let moving = units - 1 + units % 2;
    for k in 0..ports {
        let round = k % moving;
        let port = |unit: u16| Port(unit * ports + k + 1);
        let mut join = |a: u16, b: u16| {
            if a < units && b < units {
                circuits.join(port(a), port(b)).expect("everyone plays once in a round");
            }
        };
        join(round, moving);
        for step in 1..=moving / 2 {
            join((round + step) % moving, (round + moving - step) % moving);
        }
    }
    circuits
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn circuits_are_uniform() {
        for units in 2..=17 {
            for ports in [1, 2, 3, units - 1, units, 24] {
                let circuits = uniform(units, ports);
                circuits.fit(units * ports).unwrap();
                let unit = |port: Port| (port.0 - 1) / ports;
                let mut pairs = BTreeMap::<(u16, u16), u16>::new();
                for (a, b) in circuits.pairs() {
                    assert_ne!(unit(a), unit(b));
                    *pairs.entry((unit(a), unit(b))).or_default() += 1;
                }
                let all = units * (units - 1) / 2;
                let rounds = units - 1 + units % 2;
                let [least, most] = [ports / rounds, ports.div_ceil(rounds)];
                assert!(pairs.values().all(|count| (least.max(1)..=most).contains(count)));
                if least > 0 {
                    assert_eq!(pairs.len(), usize::from(all));
                }
            }
        }
    }
}
