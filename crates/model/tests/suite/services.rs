//! Parts of switches in jobs with segments.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use tributary_model::circuits::{Circuits, Port};
use tributary_model::plan::{JobAtSwitch, Membership, Part, Placement, forwarding, job};
use tributary_model::services::{ServiceAtSwitch, mode, next, units};
use tributary_model::{Aggregation, End, Error, Scenario, SwitchId};
use tributary_protocol::{Assignment, Mode};
use tributary_wire::{AggregatorIndex, Bitmap, Kind, Protocol, Segment, Service};

use crate::plan::{network, scenario};

const SEGMENT: Segment = Segment { offset: AggregatorIndex(32), size: 16 };

fn assignment(mode: Mode) -> Assignment {
    match mode {
        Mode::Forwarded => Assignment::NONE,
        mode => Assignment { service: Service::new(7), segment: SEGMENT, mode },
    }
}

fn parts(scenario: &Scenario, mode: Mode) -> Vec<JobAtSwitch> {
    let placement = Placement::unassigned(&scenario.jobs[0]).assigned(assignment(mode));
    job(&scenario.network.topology, &placement)
}

/// Port, kind and part of each membership, abbreviated.
fn listed(part: &JobAtSwitch) -> Vec<String> {
    let entries = part.memberships(Protocol::P4inc).into_iter();
    let text = entries.map(|entry| match entry.part {
        Part::Contribute { unit, members, top, .. } => {
            let to = if top { "all" } else { "server" };
            format!("{} {:?}: {unit} of {members} for {to}", entry.port, entry.kind)
        }
        other => format!("{} {:?}: {other:?}", entry.port, entry.kind),
    });
    text.collect()
}

fn aggregate(workers: u8) -> ServiceAtSwitch {
    let everyone = Bitmap::first(workers);
    ServiceAtSwitch::Aggregate { segment: SEGMENT, everyone, total: everyone }
}

#[test]
fn a_local_job_gets_results_from_its_switch_and_none_from_a_server() {
    let scenario = scenario("[[job]]\nworkers = 3");
    let parts = parts(&scenario, Mode::Local);
    let [part] = &parts[..] else { panic!("one switch: {parts:?}") };
    assert_eq!(part.service(), aggregate(3));
    assert_eq!(part.segment(), Some(SEGMENT));
    assert_eq!(
        listed(part),
        [
            "1 Gradient: {0} of {0, 1, 2} for all",
            "2 Gradient: {1} of {0, 1, 2} for all",
            "3 Gradient: {2} of {0, 1, 2} for all",
        ]
    );
    assert_eq!(part.group().collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn two_units_add_their_own_workers_and_pass_the_others() {
    let scenario = scenario("[topology]\nracks = 2\n[[job]]");
    let parts = parts(&scenario, Mode::Partial);
    let [upper, lower] = &parts[..] else { panic!("two switches: {parts:?}") };
    assert_eq!((upper.service(), lower.service()), (aggregate(4), aggregate(4)));
    assert_eq!(
        listed(upper),
        [
            "1 Gradient: {0} of {0, 1} for server",
            "2 Gradient: {1} of {0, 1} for server",
            "4 Gradient: Pass",
            "3 Parameter: Distribute",
            "3 Reply: Answer",
            "3 Query: Answer",
        ]
    );
    // Results reach the other unit, too.
    assert_eq!(upper.group().collect::<Vec<_>>(), [(1, 1), (2, 2), (4, 0)]);
    assert_eq!(
        listed(lower),
        [
            "1 Gradient: {2} of {2, 3} for server",
            "2 Gradient: {3} of {2, 3} for server",
            "3 Parameter: Distribute",
            "3 Reply: Answer",
            "3 Query: Answer",
        ]
    );
}

#[test]
fn a_switch_without_workers_has_no_segment() {
    let scenario = scenario("[topology]\nracks = 3\n[[job]]\nworkers = [\"w1\", \"w3\", \"w5\"]");
    let parts = parts(&scenario, Mode::Partial);
    let spine = scenario.network.topology.switch_named("spine").unwrap();
    for part in &parts {
        let transit = part.switch == spine;
        assert_eq!(part.segment(), (!transit).then_some(SEGMENT));
        let forward = part.service() == ServiceAtSwitch::Forward;
        assert_eq!(forward, transit);
    }
    let spine = parts.iter().find(|part| part.switch == spine).unwrap();
    let passes = listed(spine).iter().filter(|line| line.ends_with("Gradient: Pass")).count();
    assert_eq!((passes, spine.memberships(Protocol::P4inc).len()), (2, 5));
}

#[test]
fn a_job_left_to_its_server_is_only_forwarded() {
    let scenario = scenario("[topology]\nracks = 2\n[[job]]");
    let (forwarded, partial) = (parts(&scenario, Mode::Forwarded), parts(&scenario, Mode::Partial));
    for (forwarded, partial) in forwarded.iter().zip(&partial) {
        assert_eq!(forwarded.service(), ServiceAtSwitch::Forward);
        assert_eq!(forwarded.segment(), None);
        // The ports of each worker's bit do not depend on who adds.
        assert_eq!(listed(forwarded), listed(partial));
    }
}

#[test]
fn modes_follow_from_where_the_workers_are() {
    let together = scenario("[topology]\nracks = 2\n[[job]]\nworkers = [\"w3\", \"w4\"]");
    let apart = scenario("[topology]\nracks = 2\n[[job]]");
    let mode = |scenario: &Scenario, protocol, aggregation, server: bool| {
        let mut placement = Placement::unassigned(&scenario.jobs[0]);
        placement.ps = placement.ps.filter(|_| server);
        mode(&scenario.network.topology, &placement, protocol, aggregation)
    };
    use Aggregation::{Network, Server};
    use Protocol::{P4inc, SwitchMl};
    let job = together.jobs[0].id;
    assert_eq!(mode(&together, P4inc, Network, true), Ok(Mode::Local));
    assert_eq!(mode(&together, SwitchMl, Network, false), Ok(Mode::Local));
    assert_eq!(mode(&apart, P4inc, Network, true), Ok(Mode::Partial));
    assert_eq!(mode(&together, P4inc, Server, true), Ok(Mode::Forwarded));
    assert_eq!(mode(&together, P4inc, Server, false), Err(Error::NoServer(job)));
    assert_eq!(mode(&apart, P4inc, Network, false), Err(Error::NoServer(job)));
    assert_eq!(mode(&apart, SwitchMl, Network, true), Err(Error::NotLocal(job)));
    assert_eq!(mode(&together, SwitchMl, Server, true), Err(Error::NotLocal(job)));
}

#[test]
fn service_numbers_wrap_around_without_zero() {
    let mut service = Service::FORWARDED;
    let numbers = std::iter::repeat_with(|| {
        service = next(service);
        service.get()
    });
    let numbers: Vec<u8> = numbers.take(256).collect();
    assert_eq!((numbers[0], numbers[254], numbers[255]), (1, 255, 1));
    assert!(numbers[..255].is_sorted());
}

proptest! {
    /// Follows a job's packets through the plan: every contribution is added or passed on once,
    /// by the switch of its worker; it then reaches the server unchanged; and a result of the
    /// server reaches each worker once.
    #[test]
    fn every_packet_finds_its_way(text in network(), in_network: bool) {
        let scenario = scenario(&text);
        let topology = &scenario.network.topology;
        let placement = Placement::unassigned(&scenario.jobs[0]);
        let wish = if in_network { Aggregation::Network } else { Aggregation::Server };
        let mode = mode(topology, &placement, Protocol::P4inc, wish).unwrap();
        let units = units(topology, &placement);
        let server = placement.ps.unwrap();
        let workers = placement.workers.clone();
        let parts: BTreeMap<SwitchId, JobAtSwitch> =
            parts(&scenario, mode).into_iter().map(|part| (part.switch, part)).collect();
        let peer = |switch, out| {
            topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2
        };
        let mut memberships = HashMap::new();
        for part in parts.values() {
            let adds = mode != Mode::Forwarded && units.contains(&part.switch);
            prop_assert_eq!(part.segment(), adds.then_some(SEGMENT));
            for Membership { port, kind, part: what, .. } in part.memberships(Protocol::P4inc) {
                let key = (part.switch, port, kind);
                prop_assert!(memberships.insert(key, what).is_none(), "twice: {:?}", key);
            }
        }
        let out = forwarding(topology);
        let server_mac = topology.host(server).address.mac;
        for (index, &worker) in workers.iter().enumerate() {
            let (home, port) = topology.attachment(worker);
            let Some(Part::Contribute { unit, members, top, .. }) =
                memberships.remove(&(home, port, Kind::Gradient)) else { panic!("no entry") };
            let bit = Bitmap::of(u8::try_from(index).unwrap());
            prop_assert_eq!(unit, bit);
            let here = workers.iter().filter(|&&other| topology.attachment(other).0 == home);
            prop_assert_eq!(members.len() as usize, here.count());
            prop_assert!(bit.is_subset(members));
            prop_assert_eq!(top, mode == Mode::Local);
            let mut switch = home;
            while let End::Switch(next, into) = peer(switch, out[switch.0].hosts[&server_mac]) {
                if mode == Mode::Local {
                    break;
                }
                prop_assert_eq!(memberships.get(&(next, into, Kind::Gradient)), Some(&Part::Pass));
                switch = next;
            }
        }
        let mut reached = BTreeSet::new();
        let mut frames = vec![(topology.attachment(server), mode != Mode::Local)];
        if mode == Mode::Local {
            let part = parts.values().next().unwrap();
            prop_assert_eq!(parts.len(), 1);
            prop_assert!(memberships.is_empty(), "nothing comes from elsewhere");
            frames = vec![((part.switch, 0), false)];
        }
        while let Some(((switch, port), from_above)) = frames.pop() {
            if from_above {
                let entry = memberships.get(&(switch, port, Kind::Parameter));
                prop_assert_eq!(entry, Some(&Part::Distribute));
            }
            for (out, _) in parts[&switch].group() {
                match peer(switch, out) {
                    End::Host(host) => prop_assert!(reached.insert(host), "twice"),
                    End::Switch(next, into) => frames.push(((next, into), true)),
                }
            }
        }
        prop_assert_eq!(reached, workers.into_iter().collect());
    }
}

/// Circuits between these pairs of ports, as far as both are free and of different units.
fn lit(ports: u16, pairs: &[(u16, u16)]) -> Circuits {
    let mut circuits = Circuits::DARK;
    let unit = |port: u16| (port - 1) / ports;
    for &(a, b) in pairs.iter().filter(|(a, b)| unit(*a) != unit(*b)) {
        // A port has one circuit.
        circuits.join(Port(a), Port(b)).ok();
    }
    circuits
}

proptest! {
    /// The same over circuits, of which there may be several between two units, with and without partial sums.
    #[test]
    fn every_packet_finds_its_way_over_circuits(
        ports in 1..=4_u16,
        id in 1..9_u16,
        pairs in prop::collection::vec((1..=12_u16, 1..=12_u16), 0..40),
        place in 0..5_usize,
    ) {
        let text = format!(
            "protocol = \"p4inc\"\n[topology]\nunits = 3\nhosts_per_unit = 3\noptical_ports = {ports}\n\
             [[job]]\nid = {id}\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\", \"w5\"]\nps = \"ps3\"\n"
        );
        let mut scenario = tributary_model::jobfile::parse(&text, "units").unwrap();
        let inside = pairs.into_iter().filter(|(a, b)| *a.max(b) <= 3 * ports);
        let circuits = lit(ports, &inside.collect::<Vec<_>>());
        scenario.network.topology.patch(&circuits).unwrap();
        let topology = &scenario.network.topology;
        let peer = |switch, out| topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2;
        let (mode, adding) = match place {
            0 => (Mode::Forwarded, None),
            1 => (Mode::Partial, None),
            at => (Mode::Partial, Some([SwitchId(at - 2)].into())),
        };
        let placement = Placement { adding, ..Placement::unassigned(&scenario.jobs[0]) };
        let placement = placement.assigned(assignment(mode));
        let parts: BTreeMap<SwitchId, JobAtSwitch> =
            job(topology, &placement).into_iter().map(|part| (part.switch, part)).collect();
        let mut memberships = HashMap::new();
        for part in parts.values() {
            let its = placement.adding.as_ref().is_none_or(|adding| adding.contains(&part.switch));
            let own = placement.workers.iter().any(|host| topology.attachment(*host).0 == part.switch);
            let adds = mode == Mode::Partial && its && own;
            prop_assert_eq!(part.segment(), adds.then_some(SEGMENT));
            for Membership { port, kind, part: what, .. } in part.memberships(Protocol::P4inc) {
                let key = (part.switch, port, kind);
                prop_assert!(memberships.insert(key, what).is_none(), "twice: {:?}", key);
            }
        }
        let out = forwarding(topology);
        let server = placement.ps.unwrap();
        let server_mac = topology.host(server).address.mac;
        let (root, server_port) = topology.attachment(server);
        // By the switch and the port that they leave by: the flows of gradients.
        let mut flows = BTreeMap::<(SwitchId, u16), usize>::new();
        let mut reaches = Vec::new();
        for &worker in &placement.workers {
            let (mut switch, mut port) = topology.attachment(worker);
            let contributes = memberships.get(&(switch, port, Kind::Gradient));
            prop_assert!(matches!(contributes, Some(Part::Contribute { .. })), "{contributes:?}");
            if !out[switch.0].hosts.contains_key(&server_mac) {
                continue;
            }
            reaches.push(worker);
            for step in 0.. {
                prop_assert!(step < 3, "in circles");
                let part = &parts[&switch];
                let hosts = out[switch.0].hosts[&server_mac];
                let to = part.circuits.get(&port).copied().unwrap_or(hosts);
                *flows.entry((switch, to)).or_default() += 1;
                let End::Switch(next, into) = peer(switch, to) else { break };
                prop_assert_eq!(memberships.get(&(next, into, Kind::Gradient)), Some(&Part::Pass));
                (switch, port) = (next, into);
            }
            prop_assert_eq!(switch, root);
            // What the server sends to the worker alone.
            let mac = topology.host(worker).address.mac;
            let (mut switch, mut port) = (root, server_port);
            while switch != topology.attachment(worker).0 {
                for kind in [Kind::Reply, Kind::Query] {
                    let answer = memberships.get(&(switch, port, kind));
                    prop_assert_eq!(answer, Some(&Part::Answer), "{:?} {} {:?}", switch, port, kind);
                }
                let End::Switch(next, into) = peer(switch, out[switch.0].hosts[&mac]) else {
                    panic!("another host");
                };
                (switch, port) = (next, into);
            }
        }
        // Flows that nobody adds are divided evenly.
        for part in parts.values().filter(|part| part.segment().is_none()) {
            let Some(up) = part.uplink.filter(|_| part.switch != root) else { continue };
            let circuits = std::iter::once(&up).chain(part.beside.get(&up).into_iter().flatten());
            let loads = circuits.map(|port| flows.get(&(part.switch, *port)).copied().unwrap_or(0));
            let loads: Vec<usize> = loads.collect();
            let own = part.lower.is_empty();
            let gap = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            prop_assert!(!own || gap <= 1, "{:?}", loads);
        }
        // A result reaches each worker once.
        if reaches.is_empty() {
            return Ok(());
        }
        let mut frames = vec![(root, server_port)];
        let mut reached = Vec::new();
        while let Some((switch, port)) = frames.pop() {
            let what = memberships.get(&(switch, port, Kind::Parameter));
            prop_assert_eq!(what, Some(&Part::Distribute), "{:?} {}", switch, port);
            for (to, _) in parts[&switch].group() {
                match peer(switch, to) {
                    End::Host(host) => reached.push(host),
                    End::Switch(next, into) => frames.push((next, into)),
                }
            }
        }
        reached.sort_unstable();
        prop_assert_eq!(reached, reaches);
    }
}
