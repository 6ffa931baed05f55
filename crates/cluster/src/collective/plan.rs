//! The cost of a collective for a plan.

use super::{Collective, Phase};
use crate::topology::{Cluster, ServerIndex};

impl Collective {
    /// Number of bytes that cross machines in one all-reduce of `bytes` per rank, with the ranks on
    /// these servers: Titan's communication overhead (§II-B, figure 5).
    ///
    /// As in the paper, data that two ranks exchange at the same time counts once, not once per
    /// direction.
    #[must_use]
    pub fn cross_machine_bytes(self, bytes: f64, ranks: &[ServerIndex]) -> f64 {
        if on_one(ranks) {
            return 0.0;
        }
        let server = |rank: u32| ranks[rank as usize];
        let shares: f64 = self
            .phases(ranks.len() as u32)
            .map(|phase| {
                let crossing = phase.pairs().filter(|&(a, b)| server(a) != server(b)).count();
                f64::from(phase.times) * phase.share * crossing as f64
            })
            .sum();
        shares * bytes
    }

    /// Time in seconds of one all-reduce of `bytes` per rank with the ranks on these servers.
    /// Infinite if a transfer crosses a link without bandwidth.
    ///
    /// Phases run one after the other. A phase lasts until its slowest link is done: a server's
    /// link, a rack's uplinks or a pod's uplinks, in either direction. Transfers within a machine
    /// take no time (Titan §III-B), and other jobs do not slow it down (§V-B adds a time that
    /// depends on the placement alone).
    #[must_use]
    pub fn time_s(self, cluster: &Cluster, bytes: f64, ranks: &[ServerIndex]) -> f64 {
        if on_one(ranks) {
            return 0.0;
        }
        let mut links = Links::new(cluster, ranks);
        let seconds_a_byte: f64 = self
            .phases(ranks.len() as u32)
            .map(|phase| f64::from(phase.times) * phase.share * links.slowest(phase))
            .sum();
        seconds_a_byte * bytes
    }
}

fn on_one(ranks: &[ServerIndex]) -> bool {
    ranks.windows(2).all(|pair| pair[0] == pair[1])
}

/// Bandwidth in Gb/s between two servers that have the fabric to themselves: P<sub>s,s'</sub> of
/// Titan §III-A. Infinite from a server to itself.
#[must_use]
pub fn path_gbps(cluster: &Cluster, from: ServerIndex, to: ServerIndex) -> f64 {
    if from == to {
        return f64::INFINITY;
    }
    let (a, b) = (cluster.server(from), cluster.server(to));
    let mut gbps = a.link_gbps.min(b.link_gbps);
    if a.rack != b.rack {
        let (a, b) = (cluster.rack(a.rack), cluster.rack(b.rack));
        gbps = gbps.min(a.uplink_gbps).min(b.uplink_gbps);
        if let (Some(a), Some(b)) = (a.pod, b.pod)
            && a != b
        {
            let uplink = |pod: crate::topology::PodIndex| cluster.pods()[pod.at()].uplink_gbps;
            gbps = gbps.min(uplink(a)).min(uplink(b));
        }
    }
    gbps
}

/// The links that a plan's ranks use: of servers, then racks, then pods.
struct Links {
    /// For each rank: its server's link, its rack's uplinks and its pod's uplinks.
    of_rank: Vec<[u32; 3]>,
    /// Seconds per byte.
    seconds_a_byte: Vec<f64>,
    /// Load of a phase on each link, upwards and downwards, in units of the amount that one rank
    /// sends.
    load: Vec<[u32; 2]>,
}

impl Links {
    fn new(cluster: &Cluster, ranks: &[ServerIndex]) -> Self {
        let mut gbps = Vec::new();
        let servers = numbered(ranks.iter().map(|server| server.0));
        gbps.extend(servers.iter().map(|&server| cluster.server(ServerIndex(server)).link_gbps));
        let rack_of = |server: &ServerIndex| cluster.server(*server).rack;
        let racks = numbered(ranks.iter().map(|server| rack_of(server).0));
        let first_rack = gbps.len();
        gbps.extend(racks.iter().map(|&rack| cluster.racks()[rack as usize].uplink_gbps));
        // Without pods, all racks count as one pod, whose uplinks carry nothing.
        let pod_of = |server: &ServerIndex| cluster.rack(rack_of(server)).pod.map_or(0, |p| p.0);
        let pods = numbered(ranks.iter().map(pod_of));
        let first_pod = gbps.len();
        let pod_gbps = |&pod: &u32| cluster.pods().get(pod as usize).map(|pod| pod.uplink_gbps);
        gbps.extend(pods.iter().map(|pod| pod_gbps(pod).unwrap_or(f64::INFINITY)));
        let at = |among: &[u32], index: u32| among.binary_search(&index).expect("numbered") as u32;
        let of_rank = ranks
            .iter()
            .map(|server| {
                [
                    at(&servers, server.0),
                    first_rack as u32 + at(&racks, rack_of(server).0),
                    first_pod as u32 + at(&pods, pod_of(server)),
                ]
            })
            .collect();
        let load = vec![[0, 0]; gbps.len()];
        Self { of_rank, seconds_a_byte: gbps.iter().map(|gbps| 8e-9 / gbps).collect(), load }
    }

    /// Seconds that the slowest link of a phase takes if every sender sends one byte.
    fn slowest(&mut self, phase: Phase) -> f64 {
        self.load.fill([0, 0]);
        for (from, to) in phase.transfers() {
            let (from, to) = (self.of_rank[from as usize], self.of_rank[to as usize]);
            for (up, down) in from.into_iter().zip(to) {
                if up != down {
                    self.load[up as usize][0] += 1;
                    self.load[down as usize][1] += 1;
                }
            }
        }
        self.load
            .iter()
            .zip(&self.seconds_a_byte)
            .map(|(&[up, down], seconds)| match up.max(down) {
                0 => 0.0,
                load => f64::from(load) * seconds,
            })
            .fold(0.0, f64::max)
    }
}

/// The distinct indices in order.
fn numbered(indices: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbered: Vec<_> = indices.collect();
    numbered.sort_unstable();
    numbered.dedup();
    numbered
}
