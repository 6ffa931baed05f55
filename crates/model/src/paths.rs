//! Shortest paths between switches, the same in both directions.
//!
//! A result must return through the switches that its gradients passed, because they hold the
//! aggregators that it frees. So the choice among equally short paths may depend only on the links:
//! each link adds a tiny unique length to its hop, which makes the shortest path unique. That of a
//! circuit does not depend on the others, so switches on paths over circuits that stay do not change. Which of
//! several circuits between two switches a job's flow takes depends on their number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_base::SplitMix64;

use crate::{End, LinkId, SwitchId, Topology};

/// Hops in the upper bits, the sum of the links' unique lengths in the lower 96 bits. Sums of
/// 64-bit lengths over fewer than 2^32 links never reach the hops.
type Cost = u128;

const HOP: Cost = 1 << 96;

/// A link's unique length: a hash of its number, so that two sums are practically never equal.
fn own_length(topology: &Topology, link: LinkId) -> Cost {
    // The number of SplitMix64 at this position of its sequence.
    let position = (topology.lasting_number(link) as u64).wrapping_mul(SplitMix64::STEP);
    Cost::from(SplitMix64::new(position).next_u64())
}

/// The tree of shortest paths from every switch to one.
#[derive(Clone, Debug)]
pub struct Tree {
    root: SwitchId,
    /// For each switch but the root and those that circuits do not reach: the port towards the root, and the other end of its link.
    next: Vec<Option<Hop>>,
}

/// One step towards the root. Steps over circuits are in the order of the ports that they leave from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hop {
    /// The port towards the root.
    pub out: u16,
    /// The switch at the other end.
    pub to: SwitchId,
    /// The port there.
    pub into: u16,
}

impl Hop {
    /// The same step from a switch over each circuit that leads there; only this one if it takes none.
    #[must_use]
    pub fn circuits(self, topology: &Topology, from: SwitchId) -> Vec<Self> {
        if topology.fibre(from, self.out).is_none() {
            return vec![self];
        }
        let over = |(out, _, peer)| match peer {
            End::Switch(to, into) if to == self.to && topology.fibre(from, out).is_some() => {
                Some(Self { out, to, into })
            }
            _ => None,
        };
        let mut circuits: Vec<Self> = topology.ports(from).filter_map(over).collect();
        circuits.sort_unstable();
        circuits
    }
}

impl Tree {
    /// The tree of shortest paths towards `root`.
    #[must_use]
    pub fn towards(topology: &Topology, root: SwitchId) -> Self {
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
    #[must_use]
    pub fn reaches(&self, from: SwitchId) -> bool {
        from == self.root || self.next[from.0].is_some()
    }

    /// The next step from a switch; `None` at the root, and where there is no path.
    #[must_use]
    pub fn hop(&self, from: SwitchId) -> Option<Hop> {
        self.next[from.0]
    }
}
