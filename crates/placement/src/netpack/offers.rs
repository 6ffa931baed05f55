//! What each server has to offer a job (NetPack §5.2, step 2).
//!
//! Bandwidth is counted in whole kb/s from here on. Sums of whole numbers do not depend on the order
//! in which they are taken, so that two searches that visit servers in different orders agree on
//! which plan is best, and on which plans tie.

use std::cmp::Reverse;

use tributary_cluster::{Cluster, Network, ServerIndex, State};

/// Bandwidth, or what a plan is worth in it; kb/s.
pub(super) type Kbps = i64;

/// Gb/s as whole kb/s.
pub(super) fn kbps(gbps: f64) -> Kbps {
    (gbps * 1e6).round() as Kbps
}

/// A server as the searches see it.
///
/// Ordered as they visit servers: by flows, free GPUs, link, best first, then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Offer {
    /// What servers of a kind have in common.
    pub(super) kind: Kind,
    /// Bandwidth that its link has left.
    pub(super) available: Reverse<Kbps>,
    /// Which server.
    pub(super) server: ServerIndex,
}

/// What makes two servers interchangeable but for the bandwidth they have left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Kind {
    /// Flows on its link.
    pub(super) flows: u32,
    /// Free GPUs.
    pub(super) gpus: u32,
    /// Capacity of its link.
    pub(super) link: Kbps,
}

impl Offer {
    /// What a server offers now.
    pub(super) fn of(state: &State<'_>, network: &Network, server: ServerIndex) -> Self {
        let link = kbps(state.cluster().server(server).link_gbps);
        Self {
            kind: Kind { flows: network.flows(server), gpus: state.free(server), link },
            available: Reverse(kbps(network.available_gbps(server)).clamp(0, link)),
            server,
        }
    }

    /// What it is worth to have one more flow on the server's link, on which `more` flows of the same
    /// job arrive as well: the bandwidth that is left, less what the new flow takes from those that are
    /// there.
    pub(super) const fn value(&self, more: u32) -> Kbps {
        let available = self.available.0;
        available - (self.kind.link - available) / (self.kind.flows + more + 1) as Kbps
    }
}

/// The fastest server link of a cluster: `C` where the paper has one for all.
pub(super) fn fastest(cluster: &Cluster) -> Kbps {
    cluster.servers().iter().map(|server| kbps(server.link_gbps)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(flows: u32, link_gbps: f64, available_gbps: f64) -> Offer {
        let kind = Kind { flows, gpus: 1, link: kbps(link_gbps) };
        Offer { kind, available: Reverse(kbps(available_gbps)), server: ServerIndex(0) }
    }

    #[test]
    fn a_servers_value_is_what_is_left_less_what_others_lose() {
        assert_eq!(offer(0, 100.0, 100.0).value(0), kbps(100.0));
        assert_eq!(offer(1, 100.0, 40.0).value(0), kbps(40.0 - 60.0 / 2.0));
        assert_eq!(offer(3, 100.0, 0.0).value(0), kbps(-25.0));
        assert_eq!(offer(3, 100.0, 0.0).value(1), kbps(-20.0));
    }

    #[test]
    fn more_bandwidth_left_is_worth_strictly_more() {
        for flows in 0..5 {
            for available in 0..1000 {
                let at = |available| Offer {
                    kind: Kind { flows, gpus: 1, link: 1000 },
                    available: Reverse(available),
                    server: ServerIndex(0),
                };
                for more in 0..2 {
                    assert!(at(available).value(more) < at(available + 1).value(more));
                }
            }
        }
    }
}
