//! Shortest paths between switches, the same in both directions.
//!
//! A result must return through the switches that its gradients passed, because they hold the
//! aggregators that it frees. So the choice among equally short paths may depend only on the links:
//! each link adds a tiny unique length to its hop, which makes the shortest path unique. That of a
//! circuit does not depend on the others, so paths over circuits that stay do not change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_jobfile::{End, LinkId, SwitchId, Topology};

/// Hops in the upper bits, the sum of the links' unique lengths in the lower 96 bits. Sums of
/// 64-bit lengths over fewer than 2^32 links never reach the hops.
type Cost = u128;

const HOP: Cost = 1 << 96;

/// A link's unique length: its number, hashed by the finaliser of SplitMix64 so that two sums are
/// practically never equal.
fn own_length(topology: &Topology, link: LinkId) -> Cost {
    let mut x =
        (topology.lasting_number(link) as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Cost::from(x ^ (x >> 31))
}

/// The tree of shortest paths from every switch to one.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: SwitchId,
    /// For each switch but the root and those that circuits do not reach: the port towards the root, and the other end of its link.
    next: Vec<Option<Hop>>,
}

/// One step towards the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The port towards the root.
    pub(crate) out: u16,
    /// The switch at the other end, and the port there.
    pub(crate) to: SwitchId,
    pub(crate) into: u16,
}

impl Tree {
    /// The tree of shortest paths towards `root`.
    pub(crate) fn towards(topology: &Topology, root: SwitchId) -> Self {
        let mut cost = vec![Cost::MAX; topology.switches.len()];
        let mut next = vec![None; topology.switches.len()];
        let mut queue = BinaryHeap::from([(Reverse(0), root)]);
        cost[root.0] = 0;
        while let Some((Reverse(at), switch)) = queue.pop() {
            if at > cost[switch.0] {
                continue;
            }
            for (port, link, peer) in topology.ports(switch) {
                let End::Switch(other, other_port) = peer else { continue };
                let total = at + HOP + own_length(topology, link);
                if total < cost[other.0] {
                    cost[other.0] = total;
                    next[other.0] = Some(Hop { out: other_port, to: switch, into: port });
                    queue.push((Reverse(total), other));
                }
            }
        }
        Self { root, next }
    }

    /// Whether there is a path from a switch. Without a cross-connect there always is.
    pub(crate) fn reaches(&self, from: SwitchId) -> bool {
        from == self.root || self.next[from.0].is_some()
    }

    /// The next step from a switch; `None` at the root, and where there is no path.
    pub(crate) fn hop(&self, from: SwitchId) -> Option<Hop> {
        self.next[from.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        tributary_jobfile::parse(&text, "ring").unwrap_or_else(|error| panic!("{error}")).topology
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
}
