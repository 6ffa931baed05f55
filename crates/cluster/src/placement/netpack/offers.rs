//! The resources that each server offers a job (NetPack §5.2, step 2).
//!
//! Bandwidth is an integer in kb/s here. Sums of integers do not depend on their order, so two
//! searches that visit servers in different orders agree on the best plan and on ties.

use std::cmp::Reverse;

use crate::{Cluster, ServerIndex, State};

use super::links::{FLOW, Links};

/// Bandwidth, or the worth of a plan as bandwidth, in kb/s.
pub(super) type Kbps = i64;

/// Converts Gb/s to integral kb/s.
pub(super) fn kbps(gbps: f64) -> Kbps {
    (gbps * 1e6).round() as Kbps
}

/// A server from the point of view of the searches.
///
/// The order is that of the searches: by flows, free GPUs and link, best first, then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Offer {
    /// The class of the server.
    pub(super) kind: Kind,
    /// Remaining bandwidth of its link.
    pub(super) available: Reverse<Kbps>,
    /// The server.
    pub(super) server: ServerIndex,
}

/// Properties that make two servers interchangeable apart from their remaining bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Kind {
    /// Number of flows on its link, in units of [`FLOW`].
    pub(super) flows: u32,
    /// Number of free GPUs.
    pub(super) gpus: u32,
    /// Capacity of its link.
    pub(super) link: Kbps,
}

impl Offer {
    /// The current offer of a server.
    pub(super) fn of(state: &State<'_>, links: &Links<'_>, server: ServerIndex) -> Self {
        let link_gbps = state.cluster().server(server).link_gbps;
        let link = kbps(link_gbps);
        Self {
            kind: Kind { flows: links.flows(server), gpus: state.free(server), link },
            available: Reverse(kbps(links.available_gbps(server, link_gbps)).clamp(0, link)),
            server,
        }
    }

    /// The value of one more flow on the server's link, if `more` other flows of the same job, in
    /// units of [`FLOW`], also arrive there: the remaining bandwidth, minus the bandwidth that the
    /// new flow takes from existing flows.
    pub(super) const fn value(&self, more: u32) -> Kbps {
        let available = self.available.0;
        let flows = (self.kind.flows + more + FLOW) as Kbps;
        available - (self.kind.link - available) * FLOW as Kbps / flows
    }
}

/// The fastest server link of a cluster: `C` in the paper, where all links are equal.
pub(super) fn fastest(cluster: &Cluster) -> Kbps {
    cluster.servers().iter().map(|server| kbps(server.link_gbps)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(flows: u32, link_gbps: f64, available_gbps: f64) -> Offer {
        let kind = Kind { flows: flows * FLOW, gpus: 1, link: kbps(link_gbps) };
        Offer { kind, available: Reverse(kbps(available_gbps)), server: ServerIndex(0) }
    }

    #[test]
    fn a_servers_value_is_its_rest_minus_the_loss_of_others() {
        assert_eq!(offer(0, 100.0, 100.0).value(0), kbps(100.0));
        assert_eq!(offer(1, 100.0, 40.0).value(0), kbps(40.0 - 60.0 / 2.0));
        assert_eq!(offer(3, 100.0, 0.0).value(0), kbps(-25.0));
        assert_eq!(offer(3, 100.0, 0.0).value(FLOW), kbps(-20.0));
    }

    #[test]
    fn more_bandwidth_left_is_worth_strictly_more() {
        for flows in 0..5 {
            for available in 0..1000 {
                let at = |available| Offer {
                    kind: Kind { flows: flows * FLOW, gpus: 1, link: 1000 },
                    available: Reverse(available),
                    server: ServerIndex(0),
                };
                for more in [0, FLOW] {
                    assert!(at(available).value(more) < at(available + 1).value(more));
                }
            }
        }
    }
}
