//! Shared resources: links, and the memory of racks' switches.

use super::Link;
use crate::topology::{Cluster, PodIndex, RackIndex, ServerIndex};

/// A link, or the memory of a rack's switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Resource(pub(super) u32);

impl Resource {
    pub(super) const fn at(self) -> usize {
        self.0 as usize
    }

    /// A server's link. These come first, by the number of the server.
    pub(super) const fn server(server: ServerIndex) -> Self {
        Self(server.0)
    }
}

/// The capacity of each resource, and their numbering: servers' links, racks' uplinks, pods'
/// uplinks, racks' memory.
#[derive(Clone, Debug)]
pub(super) struct Resources {
    servers: u32,
    racks: u32,
    links: u32,
    pub(super) capacity_gbps: Vec<f64>,
}

impl Resources {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let (servers, racks, pods) = (cluster.servers(), cluster.racks(), cluster.pods());
        let links = servers.iter().map(|server| server.link_gbps);
        let uplinks = racks.iter().map(|rack| rack.uplink_gbps);
        let pod_uplinks = pods.iter().map(|pod| pod.uplink_gbps);
        let memory = racks.iter().map(|rack| rack.pat_gbps);
        Self {
            servers: servers.len() as u32,
            racks: racks.len() as u32,
            links: (servers.len() + racks.len() + pods.len()) as u32,
            capacity_gbps: links.chain(uplinks).chain(pod_uplinks).chain(memory).collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.capacity_gbps.len()
    }

    pub(super) fn racks(&self) -> usize {
        self.racks as usize
    }

    /// All uplinks of a rack's switch.
    pub(super) const fn uplink(&self, rack: RackIndex) -> Resource {
        Resource(self.servers + rack.0)
    }

    const fn pod_uplink(&self, pod: PodIndex) -> Resource {
        Resource(self.servers + self.racks + pod.0)
    }

    /// The memory of a rack's switch, as throughput.
    pub(super) const fn memory(&self, rack: RackIndex) -> Resource {
        Resource(self.links + rack.0)
    }

    /// The rack, if the resource is the memory of its switch.
    pub(super) fn as_memory(&self, resource: Resource) -> Option<RackIndex> {
        resource.0.checked_sub(self.links).map(RackIndex)
    }

    /// The server's link or the rack's uplinks, if the resource is one of these.
    pub(super) fn as_link(&self, resource: Resource) -> Option<Link> {
        match resource.0.checked_sub(self.servers) {
            None => Some(Link::Server(ServerIndex(resource.0))),
            Some(rack) => (rack < self.racks).then_some(Link::Uplinks(RackIndex(rack))),
        }
    }

    /// The links from one rack's switch to another's, up and down again.
    pub(super) fn between(
        &self,
        cluster: &Cluster,
        from: RackIndex,
        to: RackIndex,
    ) -> Vec<Resource> {
        let mut path = vec![self.uplink(from)];
        if let (Some(up), Some(down)) = (cluster.rack(from).pod, cluster.rack(to).pod)
            && up != down
        {
            path.extend([self.pod_uplink(up), self.pod_uplink(down)]);
        }
        path.push(self.uplink(to));
        path
    }
}
