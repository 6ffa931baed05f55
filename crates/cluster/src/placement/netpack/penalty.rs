//! The last term of equation 1: the cost of hot spots and of crossing racks.

use crate::{Cluster, RackIndex, ServerIndex};

use super::links::{FLOW, Links};
use super::offers::{Kbps, kbps};
use super::readings::HotSpot;

/// Whether some rack's uplinks are slower than the links of its servers together.
pub(crate) fn is_oversubscribed(cluster: &Cluster) -> bool {
    cluster.racks().iter().any(|rack| {
        let links: f64 =
            rack.servers.clone().map(|server| cluster.server(ServerIndex(server)).link_gbps).sum();
        rack.uplink_gbps < links * (1.0 - 1e-9)
    })
}

/// The effect of hot spots on the worth of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Penalty {
    /// `C`.
    pub(super) link: Kbps,
    /// The sign of the term.
    pub(super) reading: HotSpot,
}

impl Penalty {
    /// The term for a plan. The busiest server has `flows` flows, in units of [`FLOW`], before the
    /// job starts. If the plan crosses racks, `uplink` is the job's share of the busiest uplink.
    pub(super) fn term(&self, flows: u32, uplink: Option<Kbps>) -> Kbps {
        let share = self.share(flows);
        match self.reading {
            HotSpot::Share => uplink.map_or(share, |uplink| share.min(uplink)),
            HotSpot::Subtracted => -uplink.map_or(share, |uplink| share.max(uplink)),
        }
    }

    /// The job's share of a link with `flows` flows, in units of [`FLOW`].
    pub(super) const fn share(&self, flows: u32) -> Kbps {
        self.link * FLOW as Kbps / (flows + FLOW) as Kbps
    }
}

/// The uplinks that a set of workers crosses, depending on the rack of the parameter server.
#[derive(Clone, Debug)]
pub(super) struct Uplinks {
    /// Racks with workers, and the number of flows that leave each rack.
    racks: Vec<(RackIndex, u32)>,
    /// The total number of these flows.
    flows: u32,
    reading: HotSpot,
}

impl Uplinks {
    /// The uplinks for the given workers.
    pub(super) fn of(
        cluster: &Cluster,
        links: &Links<'_>,
        workers: impl Iterator<Item = ServerIndex>,
        reading: HotSpot,
    ) -> Self {
        let mut of_workers: Vec<_> = workers.map(|server| cluster.server(server).rack).collect();
        of_workers.sort_unstable();
        let racks: Vec<_> = of_workers
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let rack = same[0];
                (rack, if links.aggregates(rack) { 1 } else { same.len() as u32 })
            })
            .collect();
        let flows = racks.iter().map(|(_, flows)| flows).sum();
        Self { racks, flows, reading }
    }

    /// The job's share of the busiest uplink that it crosses, or as printed of the least busy one;
    /// `None` if it stays in one rack.
    pub(super) fn share(
        &self,
        cluster: &Cluster,
        links: &Links<'_>,
        ps: RackIndex,
    ) -> Option<Kbps> {
        let from_ps_rack =
            self.racks.iter().find(|(rack, _)| *rack == ps).map_or(0, |(_, flows)| *flows);
        let to_ps = self.flows - from_ps_rack;
        if to_ps == 0 {
            return None;
        }
        let others = self.racks.iter().filter(|(rack, _)| *rack != ps).copied();
        let shares = others.chain([(ps, to_ps)]).map(|(rack, flows)| {
            let uplink = kbps(cluster.rack(rack).uplink_gbps);
            uplink * Kbps::from(FLOW) / Kbps::from(links.rack_flows(rack) + flows * FLOW)
        });
        match self.reading {
            HotSpot::Share => shares.min(),
            HotSpot::Subtracted => shares.max(),
        }
    }
}
