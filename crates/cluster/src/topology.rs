//! Topology: servers with GPUs, racks with a switch that aggregates, and the fabric above them.

use std::ops::Range;

/// The number of a server in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerIndex(pub u32);

/// The number of a rack in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RackIndex(pub u32);

/// The number of a pod of a fat tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PodIndex(pub u32);

macro_rules! index {
    ($($index:ident),*) => {$(
        impl $index {
            /// As an index into a slice.
            #[must_use]
            pub const fn at(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index!(ServerIndex, RackIndex, PodIndex);

/// A server.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// Its rack.
    pub rack: RackIndex,
    /// Number of GPUs.
    pub gpus: u32,
    /// Bandwidth of its link to the rack's switch, in Gb/s per direction.
    pub link_gbps: f64,
}

/// A rack: servers below one switch. Only racks' switches aggregate gradients (NetPack §4.1).
#[derive(Clone, PartialEq, Debug)]
pub struct Rack {
    /// Its servers, which are consecutive.
    pub servers: Range<u32>,
    /// Its pod; `None` if the fabric is one big switch.
    pub pod: Option<PodIndex>,
    /// Total bandwidth of the uplinks of the rack's switch, in Gb/s per direction.
    pub uplink_gbps: f64,
    /// Peak aggregation throughput of the rack's switch in Gb/s: its memory divided by the
    /// round-trip time (NetPack §4.1).
    pub pat_gbps: f64,
}

/// A pod of a fat tree: racks below the same aggregation switches.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    /// Its racks, which are consecutive.
    pub racks: Range<u32>,
    /// Total bandwidth of the links from the pod to the core, in Gb/s per direction.
    pub uplink_gbps: f64,
}

/// Servers, racks and the fabric above them.
///
/// The fabric is a tree of capacities: traffic between racks is spread over all links of a layer,
/// so that only their total matters. Without pods it is one big switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    racks: Vec<Rack>,
    pods: Vec<Pod>,
}

/// The shape of a cluster with identical racks.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    /// Number of racks.
    pub racks: u32,
    /// Number of servers per rack.
    pub servers_per_rack: u32,
    /// Number of GPUs per server.
    pub gpus_per_server: u32,
    /// Bandwidth of a server's link in Gb/s.
    pub link_gbps: f64,
    /// Total bandwidth of the links of a rack's servers divided by that of the rack's uplinks; 1 is
    /// full bisection bandwidth.
    pub oversubscription: f64,
    /// Peak aggregation throughput of each rack's switch in Gb/s.
    pub pat_gbps: f64,
    /// Number of racks per pod of the fat tree. A pod's uplinks have the bandwidth of its racks'
    /// uplinks. `None` for one big switch.
    pub racks_per_pod: Option<u32>,
}

impl Default for Shape {
    /// NetPack §6.1: 16 racks of 16 servers of 4 GPUs, 100 Gb/s, full bisection bandwidth, 1 Tb/s
    /// of PAT.
    fn default() -> Self {
        Self {
            racks: 16,
            servers_per_rack: 16,
            gpus_per_server: 4,
            link_gbps: 100.0,
            oversubscription: 1.0,
            pat_gbps: 1000.0,
            racks_per_pod: None,
        }
    }
}

impl Cluster {
    /// A cluster of identical racks.
    ///
    /// # Panics
    ///
    /// If `racks_per_pod` is zero.
    #[must_use]
    pub fn uniform(shape: &Shape) -> Self {
        let uplink_gbps =
            f64::from(shape.servers_per_rack) * shape.link_gbps / shape.oversubscription;
        let pods = shape.racks_per_pod.map_or_else(Vec::new, |size| {
            (0..shape.racks)
                .step_by(size as usize)
                .map(|first| {
                    let racks = first..(first + size).min(shape.racks);
                    let uplink_gbps = uplink_gbps * f64::from(racks.end - racks.start);
                    Pod { racks, uplink_gbps }
                })
                .collect()
        });
        let racks = (0..shape.racks)
            .map(|rack| Rack {
                servers: rack * shape.servers_per_rack..(rack + 1) * shape.servers_per_rack,
                pod: shape.racks_per_pod.map(|size| PodIndex(rack / size)),
                uplink_gbps,
                pat_gbps: shape.pat_gbps,
            })
            .collect();
        let servers = (0..shape.racks * shape.servers_per_rack)
            .map(|server| Server {
                rack: RackIndex(server / shape.servers_per_rack),
                gpus: shape.gpus_per_server,
                link_gbps: shape.link_gbps,
            })
            .collect();
        Self::new(servers, racks, pods)
    }

    /// A cluster of the given parts.
    ///
    /// # Panics
    ///
    /// If racks and pods do not cover all servers and racks, each once and in order, or if a server
    /// or a rack names another rack or pod than the one that contains it.
    #[must_use]
    pub fn new(servers: Vec<Server>, racks: Vec<Rack>, pods: Vec<Pod>) -> Self {
        let mut next = 0;
        for (rack, index) in racks.iter().zip(0..) {
            assert_eq!(rack.servers.start, next, "racks follow one another");
            next = rack.servers.end;
            for server in &servers[rack.servers.start as usize..rack.servers.end as usize] {
                assert_eq!(server.rack, RackIndex(index), "a server names its rack");
            }
            if pods.is_empty() {
                assert_eq!(rack.pod, None, "no rack has a pod where there is none");
            }
        }
        assert_eq!(next as usize, servers.len(), "racks cover all servers");
        let mut next = 0;
        for (pod, index) in pods.iter().zip(0..) {
            assert_eq!(pod.racks.start, next, "pods follow one another");
            next = pod.racks.end;
            for rack in &racks[pod.racks.start as usize..pod.racks.end as usize] {
                assert_eq!(rack.pod, Some(PodIndex(index)), "a rack names its pod");
            }
        }
        assert!(pods.is_empty() || next as usize == racks.len(), "pods cover all racks");
        Self { servers, racks, pods }
    }

    /// All servers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// All racks.
    #[must_use]
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// All pods; empty if the fabric is one big switch.
    #[must_use]
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// A server.
    #[must_use]
    pub fn server(&self, server: ServerIndex) -> &Server {
        &self.servers[server.at()]
    }

    /// A rack.
    #[must_use]
    pub fn rack(&self, rack: RackIndex) -> &Rack {
        &self.racks[rack.at()]
    }

    /// The indices of all servers.
    pub fn server_indices(&self) -> impl ExactSizeIterator<Item = ServerIndex> + use<> {
        (0..self.servers.len() as u32).map(ServerIndex)
    }

    /// Total number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.servers.iter().map(|server| server.gpus).sum()
    }
}
