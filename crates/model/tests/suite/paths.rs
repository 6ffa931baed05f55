//! Shortest paths.

use tributary_model::paths::Tree;
use tributary_model::{End, SwitchId, Topology};

/// A ring of switches with one host each.
fn ring(switches: usize) -> Topology {
    let mut text = String::new();
    for s in 0..switches {
        let next = (s + 1) % switches;
        text += &format!(
            "[[topology.switch]]\nname=\"s{s}\"\n[[topology.host]]\nname=\"h{s}\"\n\
             [[topology.link]]\nbetween=[\"h{s}\",\"s{s}\"]\n\
             [[topology.link]]\nbetween=[\"s{s}\",\"s{next}\"]\n"
        );
    }
    text += "[[job]]\nworkers=[\"h1\"]\nps=\"h0\"\n";
    tributary_model::jobfile::parse(&text, "ring")
        .unwrap_or_else(|error| panic!("{error}"))
        .network
        .topology
}

fn path(topology: &Topology, from: SwitchId, to: SwitchId) -> Vec<SwitchId> {
    let tree = Tree::towards(topology, to);
    let mut path = vec![from];
    while let Some(hop) = tree.hop(*path.last().unwrap()) {
        path.push(hop.to);
    }
    path
}

#[test]
fn paths_are_shortest_and_the_same_both_ways() {
    for switches in [3, 4, 8, 9] {
        let topology = ring(switches);
        for a in topology.switch_ids() {
            for b in topology.switch_ids() {
                let there = path(&topology, a, b);
                let mut back = path(&topology, b, a);
                back.reverse();
                assert_eq!(there, back);
                let round = a.0.abs_diff(b.0);
                assert_eq!(there.len() - 1, round.min(switches - round));
                assert_eq!(*there.last().unwrap(), b);
            }
        }
    }
}

#[test]
fn hops_name_both_ends_of_a_link() {
    let topology = ring(4);
    let tree = Tree::towards(&topology, SwitchId(0));
    for switch in topology.switch_ids() {
        let Some(hop) = tree.hop(switch) else {
            assert_eq!(switch, SwitchId(0));
            continue;
        };
        let (_, _, peer) = topology.ports(switch).find(|(port, ..)| *port == hop.out).unwrap();
        assert_eq!(peer, End::Switch(hop.to, hop.into));
    }
}
