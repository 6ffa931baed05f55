//! Plans of topologies.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tributary_model::jobfile::parse;
use tributary_model::plan::{
    Forwarding, JobAtSwitch, Membership, Part, Placement, forwarding, job,
};
use tributary_model::{Aggregation, End, HostId, Scenario, SwitchId, Topology, worker_index};
use tributary_wire::{Bitmap, Kind, Mac, Protocol, Rack, WorkerSet};

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

/// The plan of a scenario's job if only these switches add.
fn selective(scenario: &Scenario, names: &[&str]) -> BTreeMap<String, JobAtSwitch> {
    let topology = &scenario.network.topology;
    let adding = names.iter().map(|name| topology.switch_named(name).unwrap()).collect();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let parts = job(topology, &Placement { adding: Some(adding), ..placement });
    parts.into_iter().map(|part| (topology.switch(part.switch).name.clone(), part)).collect()
}

#[test]
fn what_a_switch_does_not_add_passes_those_above() {
    let racks = scenario("[topology]\nracks = 2\n[[job]]");
    let parts = selective(&racks, &["rack1"]);
    let passed = BTreeMap::from([(4, [Rack::NONE].into())]);
    let (top, rack) = (&parts["rack1"], &parts["rack2"]);
    assert!(rack.forwards && !top.forwards);
    assert_eq!(top.units, BTreeMap::from([(1, Bitmap(1)), (2, Bitmap(2))]));
    assert_eq!((top.members, top.upward, &top.relays), (Bitmap(3), Bitmap(3), &passed));
    assert_eq!(top.group().collect::<Vec<_>>(), [(1, 1), (2, 2), (4, 0)], "results go to all");
    // The other way round, the switch of the parameter server adds nothing.
    let parts = selective(&racks, &["rack2"]);
    assert!(parts["rack1"].forwards && parts["rack2"].aggregates());

    // A spine has nothing to add to what one rack has added, and its own packets are not one contribution.
    let parts = selective(&scenario("[topology]\nracks = 3\n[[job]]"), &["rack1", "rack2"]);
    let spine = &parts["spine"];
    assert_eq!((spine.units.len(), spine.relays.len(), spine.aggregates()), (1, 1, false));
    assert_eq!((parts["rack1"].members, &parts["rack1"].relays), (Bitmap(3), &passed));
}

/// Follows each worker's gradient up to the parameter server, by the entries of the switches alone. Returns the workers
/// in each packet that arrives, and how many switches are left with a part of a sum.
fn gradients(scenario: &Scenario, adding: &BTreeSet<SwitchId>) -> (Vec<WorkerSet>, usize) {
    let (topology, its) = (&scenario.network.topology, &scenario.jobs[0]);
    let placement = Placement::unassigned(its);
    let placement = Placement { adding: Some(adding.clone()), ..placement };
    let racks = placement.racks(topology);
    let parts = job(topology, &placement);
    let parts: BTreeMap<SwitchId, JobAtSwitch> =
        parts.into_iter().map(|part| (part.switch, part)).collect();
    let mut held: BTreeMap<SwitchId, Bitmap> = BTreeMap::new();
    let mut arrived = Vec::new();
    let mut packets: Vec<(SwitchId, u16, Rack, Bitmap)> = Vec::new();
    for (worker, &host) in its.workers.iter().enumerate() {
        let (switch, port) = topology.attachment(host);
        let (rack, bitmap) = racks.name(worker_index(worker));
        packets.push((switch, port, rack, bitmap));
    }
    while let Some((switch, port, rack, bitmap)) = packets.pop() {
        let part = &parts[&switch];
        let entries = part.memberships(Protocol::Atp);
        let is_it = |entry: &&Membership| {
            (entry.port, entry.kind, entry.rack) == (port, Kind::Gradient, rack)
        };
        let entry = entries.iter().find(is_it).expect("the switch knows the packet");
        let (rack, bitmap) = match entry.part {
            Part::Contribute { unit, members, upward, .. } if unit == bitmap => {
                let sum = held.entry(switch).or_default();
                assert!(sum.is_disjoint(bitmap));
                *sum |= bitmap;
                if *sum != members {
                    continue;
                }
                held.remove(&switch);
                (Rack::NONE, upward)
            }
            _ => (rack, bitmap),
        };
        let uplink = part.uplink.unwrap();
        match topology.ports(switch).find(|(port, ..)| *port == uplink).unwrap().2 {
            End::Host(host) => {
                assert_eq!(host, its.server());
                arrived.push(racks.members(rack, bitmap).expect("it names workers"));
            }
            End::Switch(next, into) => packets.push((next, into, rack, bitmap)),
        }
    }
    (arrived, held.len())
}

fn sums_arrive(scenario: &Scenario, adding: &BTreeSet<SwitchId>) -> Result<(), TestCaseError> {
    let (arrived, held) = gradients(scenario, adding);
    prop_assert_eq!(held, 0, "a switch waits in vain");
    let workers = scenario.jobs[0].workers.len();
    let counted: u32 = arrived.iter().map(|set| set.len()).sum();
    let all = arrived.iter().fold(WorkerSet::EMPTY, |all, one| all | *one);
    prop_assert_eq!((counted as usize, all.len() as usize), (workers, workers), "once each");
    Ok(())
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
    /// Whichever switches add, each worker's values arrive once, and no switch waits for what never comes.
    #[test]
    fn any_switches_may_add(text in network(), chosen in any::<u64>()) {
        let scenario = scenario(&text);
        let all = scenario.network.topology.switch_ids();
        sums_arrive(&scenario, &all.filter(|switch| chosen >> switch.0 & 1 == 1).collect())?;
    }

    /// The same where packets name workers by rack.
    #[test]
    fn any_switches_may_add_for_racks(
        racks in 1..6_usize,
        hosts in 1..5_usize,
        ps_rack in 1..6_usize,
        chosen in any::<u64>(),
    ) {
        let ps_rack = ps_rack.min(racks);
        let shape = format!("racks = {racks}\nhosts_per_rack = {hosts}\nps_rack = {ps_rack}\n");
        let workers = racks * hosts;
        let text = format!(
            "[topology]\nkind = \"racks\"\n{shape}[[job]]\nlevels = 2\nworkers = {workers}\n"
        );
        let scenario = scenario(&text);
        let all = scenario.network.topology.switch_ids();
        sums_arrive(&scenario, &all.filter(|switch| chosen >> switch.0 & 1 == 1).collect())?;
    }

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
            for (port, _) in parts[&switch].group() {
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
