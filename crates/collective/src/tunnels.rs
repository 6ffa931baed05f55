//! How ranks reach the embedded switch of their group.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tributary_embedded::row;
use tributary_endpoint::driver::faults::Links;
use tributary_model::{Deployment, End};
use tributary_netio::udp::Tunnel;
use tributary_netio::{Fan, FrameIo};
use tributary_worker::live::LanePort;

use crate::settings::{JOB, Threads};

/// Receive buffer of a tunnel, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// How ranks reach an embedded switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tunnels {
    /// The switch's ends of each rank's tunnels, lane by lane, with one for each of the switch's threads;
    /// none for the rank in the switch's process.
    pub(crate) tunnels: Vec<Vec<SocketAddr>>,
    /// Each rank's way to the reminder agent (ESA).
    pub(crate) channels: Vec<Option<SocketAddr>>,
    pub(crate) threads: Threads,
}

/// A rank's ends of this many tunnels to the switch.
///
/// # Errors
/// If `address` is not this host's, or a socket cannot be opened.
pub fn endpoint(address: IpAddr, tunnels: usize) -> Result<Vec<Tunnel>> {
    let open = |number| {
        let tunnel = Tunnel::bind((address, 0).into(), RECEIVE_BUFFER);
        tunnel.with_context(|| {
            format!(
                "cannot open UDP socket {} of {tunnels} at {address}; is it this host's address?",
                number + 1
            )
        })
    };
    (0..tunnels).map(open).collect()
}

/// The addresses of tunnels.
///
/// # Errors
/// Errors of the operating system.
pub fn addresses(tunnels: &[Tunnel]) -> Result<Vec<SocketAddr>> {
    let address = |tunnel: &Tunnel| tunnel.address().context("a tunnel has no address");
    tunnels.iter().map(address).collect()
}

impl Tunnels {
    /// Connects a rank's tunnels, in the order of its lanes. Its channel to the reminder agent is made with each run.
    pub(crate) fn connect(
        &self,
        deployment: &Deployment,
        rank: u16,
        mut tunnels: Vec<Tunnel>,
    ) -> Result<Vec<LanePort>> {
        let rank = usize::from(rank);
        ensure!(
            rank < self.tunnels.len(),
            "the group has {} ranks, not rank {rank}",
            self.tunnels.len()
        );
        let peers = &self.tunnels[rank];
        ensure!(!peers.is_empty(), "rank {rank} has no tunnels");
        check_number(rank, tunnels.len(), self.threads)?;
        for (tunnel, &peer) in tunnels.iter_mut().zip(peers) {
            tunnel.connect(peer).with_context(|| format!("cannot reach the switch at {peer}"))?;
        }
        let scenario = deployment.scenario();
        let host = deployment.job(JOB).workers[rank];
        let connect = |(job, tunnels)| {
            let link_number = scenario.network.topology.host(host).link;
            let (number, end) = (deployment.job(job).lane.index, End::Host(host));
            let io = Fan::new(tunnels, row);
            let io = Links::from(scenario).faulty_lane(number, link_number, end, io)?;
            Ok(LanePort { io: Box::new(io), executor: None, link: None })
        };
        scenario.lanes(JOB).zip(by_lane(tunnels, self.threads)).map(connect).collect()
    }

    /// The rank's way to the reminder agent (ESA).
    pub(crate) fn channel(&self, rank: u16) -> Option<SocketAddr> {
        self.channels.get(usize::from(rank)).copied().flatten()
    }
}

pub(crate) fn check_number(rank: usize, tunnels: usize, threads: Threads) -> Result<()> {
    let Threads { lanes, switch } = threads;
    ensure!(
        tunnels == threads.tunnels(),
        "rank {rank} has {tunnels} tunnels, and {lanes} lanes to {switch} threads of the switch need {}",
        threads.tunnels()
    );
    Ok(())
}

/// A rank's tunnels, which are in the order of its lanes, by lane.
fn by_lane(tunnels: Vec<Tunnel>, threads: Threads) -> Vec<Vec<Tunnel>> {
    let mut tunnels = tunnels.into_iter();
    (0..threads.lanes).map(|_| tunnels.by_ref().take(threads.switch.into()).collect()).collect()
}

/// The other ends of a rank's tunnels, which are in the order of its lanes, by the thread of the switch.
pub(crate) fn by_thread(tunnels: Vec<Tunnel>, threads: Threads) -> Vec<Vec<Box<dyn FrameIo>>> {
    let mut parts: Vec<Vec<Box<dyn FrameIo>>> = (0..threads.switch).map(|_| Vec::new()).collect();
    for lane in by_lane(tunnels, threads) {
        parts.iter_mut().zip(lane).for_each(|(part, tunnel)| part.push(Box::new(tunnel)));
    }
    parts
}
