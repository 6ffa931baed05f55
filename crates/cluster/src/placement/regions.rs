//! Sets of servers that a distributed job can span.
//!
//! Uplinks and server links may have no bandwidth, for example a rack cut off from the rest or a
//! server with an unplugged cable. A job across such a link would wait forever for its first
//! gradient, so no policy distributes a job over one. Jobs on one server may run anywhere.

use crate::{Cluster, RackIndex, ServerIndex, State};

/// Racks that can reach each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// The racks, in order.
    pub(crate) racks: Vec<RackIndex>,
}

impl Region {
    /// The servers that a distributed job may use, in order.
    pub(crate) fn servers<'c>(
        &'c self,
        cluster: &'c Cluster,
    ) -> impl Iterator<Item = ServerIndex> + 'c {
        self.racks
            .iter()
            .flat_map(|&rack| cluster.rack(rack).servers.clone())
            .map(ServerIndex)
            .filter(|&server| cluster.server(server).link_gbps > 0.0)
    }

    /// Number of free GPUs of those servers.
    pub(crate) fn free(&self, state: &State<'_>) -> u32 {
        self.servers(state.cluster()).map(|server| state.free(server)).sum()
    }
}

/// The regions of a cluster: the racks connected by the core, then each pod and each rack without
/// an uplink.
pub(crate) fn of(cluster: &Cluster) -> Vec<Region> {
    let mut core = Vec::new();
    let mut pods = vec![Vec::new(); cluster.pods().len()];
    let mut alone = Vec::new();
    for (rack, index) in cluster.racks().iter().zip((0..).map(RackIndex)) {
        if rack.uplink_gbps <= 0.0 {
            alone.push(vec![index]);
            continue;
        }
        match rack.pod.filter(|pod| cluster.pods()[pod.at()].uplink_gbps <= 0.0) {
            Some(pod) => pods[pod.at()].push(index),
            None => core.push(index),
        }
    }
    [core]
        .into_iter()
        .chain(pods)
        .chain(alone)
        .filter(|racks| !racks.is_empty())
        .map(|racks| Region { racks })
        .collect()
}

/// Each rack as a separate region.
pub(crate) fn racks(cluster: &Cluster) -> Vec<Region> {
    (0..cluster.racks().len() as u32).map(|rack| Region { racks: vec![RackIndex(rack)] }).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Pod, PodIndex, Rack, Server};

    use super::*;

    /// Racks of one server, two per pod.
    fn cluster(rack_uplinks: &[f64], pod_uplinks: &[f64]) -> Cluster {
        let racks = (0..).zip(rack_uplinks).map(|(index, &uplink_gbps)| Rack {
            servers: index..index + 1,
            pod: Some(PodIndex(index / 2)),
            uplink_gbps,
            pat_gbps: 1000.0,
        });
        let servers = (0..rack_uplinks.len() as u32)
            .map(|rack| Server { rack: RackIndex(rack), gpus: 1, link_gbps: 100.0 })
            .collect();
        let pods = (0..)
            .zip(pod_uplinks)
            .map(|(index, &uplink_gbps)| Pod { racks: 2 * index..2 * index + 2, uplink_gbps })
            .collect();
        Cluster::new(servers, racks.collect(), pods)
    }

    #[test]
    fn racks_and_pods_without_an_uplink_are_regions_of_their_own() {
        let cluster = cluster(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0], &[1.0, 1.0, 0.0]);
        let regions: Vec<Vec<u32>> = of(&cluster)
            .into_iter()
            .map(|region| region.racks.iter().map(|rack| rack.0).collect())
            .collect();
        assert_eq!(regions, [vec![0, 1, 3], vec![4, 5], vec![2]]);
    }
}
