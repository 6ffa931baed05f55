//! Plans of topologies.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tributary_jobfile::parse;
use tributary_model::plan::{Forwarding, JobAtSwitch, Part, Placement, forwarding, job};
use tributary_model::{Aggregation, End, HostId, Scenario, SwitchId, Topology};
use tributary_wire::{Bitmap, Kind, Mac, Protocol};

/// Follows a frame for a host hop by hop, and returns the host where it arrives.
fn follow(topology: &Topology, plan: &[Forwarding], from: SwitchId, mac: Mac) -> HostId {
    let mut switch = from;
    for _ in 0..=topology.switches.len() {
        let out = plan[switch.0].hosts[&mac];
        match topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2 {
            End::Host(host) => return host,
            End::Switch(next, _) => switch = next,
        }
    }
    panic!("the frame circles");
}

pub(crate) fn scenario(text: &str) -> Scenario {
    parse(text, "test").unwrap_or_else(|error| panic!("{error}"))
}

fn parts(scenario: &Scenario) -> Vec<JobAtSwitch> {
    job(&scenario.network.topology, &Placement::unassigned(&scenario.jobs[0]))
}

#[test]
fn a_star_adds_all_workers() {
    let parts = parts(&scenario("[[job]]"));
    let [part] = &parts[..] else { panic!("one switch: {parts:?}") };
    assert_eq!(part.members, Bitmap(0b1111));
    let units: Vec<(u16, u32)> = part.units.iter().map(|(&p, unit)| (p, unit.0)).collect();
    assert_eq!(units, [(1, 1), (2, 2), (3, 4), (4, 8)]);
    assert_eq!(part.uplink, Some(5));
    assert!(part.aggregates());
    let entries = part.memberships(Protocol::Atp);
    assert_eq!(entries.len(), 7);
    assert!(entries.iter().all(|entry| (entry.kind == Kind::Gradient) == (entry.port < 5)));
}

#[test]
fn switches_pass_on_a_job_summed_by_its_server() {
    let scenario = scenario("[topology]\nracks = 2\n[[job]]");
    let placement =
        Placement { aggregation: Aggregation::Server, ..Placement::unassigned(&scenario.jobs[0]) };
    for part in job(&scenario.network.topology, &placement) {
        assert!(!part.aggregates());
        let entries = part.memberships(Protocol::Atp).into_iter();
        let gradients: Vec<_> = entries.filter(|entry| entry.kind == Kind::Gradient).collect();
        assert_eq!(gradients.len(), part.units.len());
        assert!(gradients.iter().all(|entry| entry.part == Part::Pass));
    }
}

#[test]
fn two_racks_add_at_two_levels() {
    let scenario = scenario("[topology]\nracks = 2\n[[job]]");
    let parts = parts(&scenario);
    let [top, rack] = &parts[..] else { panic!("two switches: {parts:?}") };
    // The PS's rack: two local workers at ports 1 and 2, the other rack's mask at port 4.
    assert_eq!(top.switch, SwitchId(0));
    assert_eq!(top.units, BTreeMap::from([(1, Bitmap(1)), (2, Bitmap(2)), (4, Bitmap(12))]));
    assert_eq!((top.members, top.uplink), (Bitmap(15), Some(3)));
    assert_eq!(rack.units, BTreeMap::from([(1, Bitmap(4)), (2, Bitmap(8))]));
    assert_eq!((rack.members, rack.uplink), (Bitmap(12), Some(3)));
}

#[test]
fn a_lone_worker_passes_its_rack_as_a_whole_unit() {
    let scenario = scenario("[topology]\nracks = 2\n[[job]]\nworkers = [\"w1\", \"w3\"]");
    let parts = parts(&scenario);
    let rack = &parts[1];
    assert!(!rack.aggregates());
    assert_eq!(rack.units.values().next(), Some(&rack.members));
    assert_eq!(parts[0].units, BTreeMap::from([(1, Bitmap(1)), (4, Bitmap(2))]));
}

#[test]
fn racks_that_meet_in_a_spine_are_one_unit_below_it() {
    let scenario = scenario("[topology]\nracks = 3\n[[job]]");
    let spine = scenario.network.topology.switch_named("spine").unwrap();
    let parts = parts(&scenario);
    let spine = parts.iter().find(|part| part.switch == spine).unwrap();
    assert_eq!(spine.units.len(), 2, "the racks without the PS");
    assert_eq!(spine.members, Bitmap(0b11_1100));
    let top = &parts[0];
    assert_eq!(top.units[&4], Bitmap(0b11_1100));
    assert_eq!(top.members, Bitmap(0b11_1111));
}

#[test]
fn switches_off_the_tree_have_no_part() {
    let scenario = scenario("[topology]\nracks = 4\n[[job]]\nworkers = [\"w1\", \"w3\"]");
    let names: Vec<&str> = parts(&scenario)
        .iter()
        .map(|part| scenario.network.topology.switch(part.switch).name.as_str())
        .collect();
    assert_eq!(names, ["rack1", "rack2", "spine"]);
}

/// A connected network with cycles, hosts spread over it, and a job.
pub(crate) fn network() -> impl Strategy<Value = String> {
    (2..9_usize, 0..8_usize, 2..20_usize, any::<u64>()).prop_map(
        |(switches, extra, hosts, seed)| {
            let mut state = seed | 1;
            let mut below = |limit: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % limit
            };
            let mut text = String::new();
            let mut links = std::collections::BTreeSet::new();
            for s in 0..switches {
                text += &format!("[[topology.switch]]\nname=\"s{s}\"\n");
                if s > 0 {
                    links.insert((below(s), s));
                }
            }
            for _ in 0..extra {
                let (a, b) = (below(switches), below(switches));
                if a != b {
                    links.insert((a.min(b), a.max(b)));
                }
            }
            for (a, b) in links {
                text += &format!("[[topology.link]]\nbetween=[\"s{a}\",\"s{b}\"]\n");
            }
            for h in 0..hosts {
                let at = below(switches);
                let role = if h == 0 { "ps" } else { "worker" };
                text += &format!(
                    "[[topology.host]]\nname=\"h{h}\"\nrole=\"{role}\"\n\
                     [[topology.link]]\nbetween=[\"h{h}\",\"s{at}\"]\n"
                );
            }
            text + "[[job]]\n"
        },
    )
}

proptest! {
    #[test]
    fn every_host_is_reached_from_everywhere(text in network()) {
        let topology = scenario(&text).network.topology;
        let plan = forwarding(&topology);
        for host in topology.host_ids() {
            for switch in topology.switch_ids() {
                let mac = topology.host(host).address.mac;
                prop_assert_eq!(follow(&topology, &plan, switch, mac), host);
            }
        }
    }

    /// A flooded frame leaves by all ports of the group but the one it came from, and reaches
    /// every host but its sender exactly once.
    #[test]
    fn a_flooded_frame_reaches_every_host_once(text in network()) {
        let topology = scenario(&text).network.topology;
        let plan = forwarding(&topology);
        let sender = HostId(0);
        let mut reached = vec![0; topology.hosts.len()];
        let mut frames = vec![topology.attachment(sender)];
        let mut steps = 0;
        while let Some((switch, came)) = frames.pop() {
            steps += 1;
            prop_assert!(steps < 1000, "the frame circles");
            for (port, _, peer) in topology.ports(switch) {
                if port == came || !plan[switch.0].flood.contains(&port) {
                    continue;
                }
                match peer {
                    End::Host(host) => reached[host.0] += 1,
                    End::Switch(next, into) => frames.push((next, into)),
                }
            }
        }
        prop_assert_eq!(reached[sender.0], 0);
        prop_assert!(reached[1..].iter().all(|&times| times == 1), "{:?}", reached);
    }

    /// Follows gradients up and results down by the plan alone.
    #[test]
    fn units_add_up_and_results_come_back_the_same_way(text in network()) {
        let scenario = scenario(&text);
        let (topology, workers) = (&scenario.network.topology, &scenario.jobs[0].workers);
        let parts: BTreeMap<SwitchId, JobAtSwitch> =
            parts(&scenario).into_iter().map(|part| (part.switch, part)).collect();
        let all = Bitmap::first(u8::try_from(workers.len()).unwrap());
        let peer = |switch, out| {
            topology.ports(switch).find(|(port, ..)| *port == out).unwrap().2
        };
        for part in parts.values() {
            // Units are disjoint and together all members.
            let mut sum = Bitmap::EMPTY;
            for (&port, &unit) in &part.units {
                prop_assert!(!unit.is_empty() && sum.is_disjoint(unit));
                prop_assert_ne!(Some(port), part.uplink);
                sum |= unit;
            }
            prop_assert_eq!(sum, part.members);
            // The next switch expects what leaves by the uplink.
            match peer(part.switch, part.uplink.unwrap()) {
                End::Host(host) => {
                    prop_assert_eq!(host, scenario.jobs[0].server());
                    prop_assert_eq!(part.members, all);
                }
                End::Switch(next, into) => {
                    prop_assert_eq!(parts[&next].units[&into], part.members);
                }
            }
            // A worker's port expects that worker.
            for (&port, &unit) in &part.units {
                if let End::Host(host) = peer(part.switch, port) {
                    let index = workers.iter().position(|&worker| worker == host).unwrap();
                    prop_assert_eq!(unit.0, 1 << index);
                }
            }
        }
        // A result reaches every worker exactly once and passes every switch of the tree.
        let mut reached = vec![0; workers.len()];
        let mut passed = 0;
        let mut frames = vec![topology.attachment(scenario.jobs[0].server()).0];
        while let Some(switch) = frames.pop() {
            passed += 1;
            for port in parts[&switch].group() {
                match peer(switch, port) {
                    End::Host(host) => {
                        reached[workers.iter().position(|&w| w == host).unwrap()] += 1;
                    }
                    End::Switch(next, into) => {
                        prop_assert_eq!(parts[&next].uplink, Some(into));
                        frames.push(next);
                    }
                }
            }
        }
        prop_assert_eq!(passed, parts.len());
        prop_assert!(reached.iter().all(|&times| times == 1));
        // A reply, forwarded by the worker's address, passes the same switches.
        let plan = forwarding(topology);
        for &worker in workers {
            let mac = topology.host(worker).address.mac;
            let mut switch = topology.attachment(scenario.jobs[0].server()).0;
            while let End::Switch(next, into) = peer(switch, plan[switch.0].hosts[&mac]) {
                prop_assert_eq!(parts[&next].uplink, Some(into));
                switch = next;
            }
        }
    }
}
