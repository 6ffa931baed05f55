//! The embedded switch of a group, and how ranks reach it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tributary_dataplane::EngineKind;
use tributary_driver::faults::Links;
use tributary_endpoint::tokens::Tokens;
use tributary_endpoint::{channel, numbers};
use tributary_job::fabric::{Memory, Outside, row};
use tributary_job::{Fabric as _, program};
use tributary_metrics::Board;
use tributary_model::{Deployment, End, worker_index};
use tributary_netio::udp::Tunnel;
use tributary_netio::{Fan, FrameIo};
use tributary_wire::Epoch;
use tributary_worker::live::LanePort;
use tributary_worker::numbers::Numbers;

use crate::description::{self, Description, Fabric};
use crate::membership::{Hub, SILENCE};
use crate::metrics::OfGroup;
use crate::settings::{JOB, Settings, Threads};

/// Receive buffer of a tunnel, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// How long the first rank waits for others that are still there when it is done.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How ranks reach an embedded switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tunnels {
    /// The switch's ends of each rank's tunnels, lane by lane, with one for each of the switch's threads;
    /// none for the rank in the switch's process.
    tunnels: Vec<Vec<SocketAddrV4>>,
    /// Each rank's way to the reminder agent (ESA).
    channels: Vec<Option<SocketAddr>>,
    /// The tokens of the reminder agent.
    tokens: String,
}

/// A switch with its controller, and all else that a group needs, in this process.
pub struct Switch {
    /// `None` once it is closed.
    inner: Option<Inner>,
    description: Description,
    /// The connections of the rank in this process, until it takes them.
    own: Option<Vec<LanePort>>,
    /// Where that rank publishes its numbers.
    board: Board<Numbers>,
    _of_group: OfGroup,
}

struct Inner {
    runtime: Runtime,
    memory: Arc<Mutex<Memory>>,
    /// Those of the group's job.
    lanes: Range<usize>,
    hub: Hub,
}

/// A rank's ends of this many tunnels to the switch.
///
/// # Errors
/// If `address` is not this host's, or a socket cannot be opened.
pub fn endpoint(address: Ipv4Addr, tunnels: usize) -> Result<Vec<Tunnel>> {
    let open = |number| {
        let tunnel = Tunnel::bind(SocketAddrV4::new(address, 0), RECEIVE_BUFFER);
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
pub fn addresses(tunnels: &[Tunnel]) -> Result<Vec<SocketAddrV4>> {
    let address = |tunnel: &Tunnel| tunnel.address().context("a tunnel has no address");
    tunnels.iter().map(address).collect()
}

impl Switch {
    /// Starts a switch at an address of this host, for ranks whose tunnels end at these addresses, as
    /// many as [`Threads::tunnels`] demands. The first is the rank in this process, which uses no
    /// tunnels.
    ///
    /// # Errors
    /// If the settings are invalid, or something cannot be started.
    pub fn start(
        settings: Settings,
        address: Ipv4Addr,
        endpoints: &[Vec<SocketAddrV4>],
    ) -> Result<Self> {
        let threads = settings.threads()?;
        tracing::info!(threads.lanes, threads.switch, "starting the embedded switch");
        let deployment = Arc::new(Deployment::new(settings.scenario()?)?);
        let scenario = deployment.scenario();
        let job = deployment.job(JOB);
        ensure!(
            endpoints.len() == job.workers.len(),
            "the settings are for {} ranks, not {}",
            job.workers.len(),
            endpoints.len()
        );
        let (mut outside, mut tunnels) = (Outside::new(), vec![Vec::new()]);
        for (rank, (&host, peers)) in job.workers.iter().zip(endpoints).enumerate().skip(1) {
            check_number(rank, peers.len(), threads)?;
            let mut own = endpoint(address, peers.len())?;
            for (tunnel, &peer) in own.iter_mut().zip(peers) {
                tunnel.connect(peer).with_context(|| format!("cannot reach {peer}"))?;
            }
            tunnels.push(addresses(&own)?);
            outside.insert(host, by_thread(own, threads));
        }
        let of_group = OfGroup::new()?;
        of_group.metrics.add(numbers::Jobs::new(&scenario.jobs));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("cannot start threads")?;
        let pipeline = program::pipeline_once(scenario)?;
        let engine = EngineKind::default();
        let secret = description::secret();
        let ranks = u16::try_from(endpoints.len()).context("a group has at most 1024 ranks")?;
        let patience = scenario.network.worker_timeout.max(SILENCE);
        let (mut memory, hub) = runtime.block_on(async {
            let open = Memory::open(
                &deployment,
                &pipeline,
                engine,
                threads.switch,
                outside,
                None,
                &of_group.metrics,
            );
            let mut memory = open.await?;
            for lane in scenario.lanes(JOB) {
                memory.admit(lane).await?;
            }
            let hub = Hub::start((address, 0).into(), secret.clone(), ranks, patience).await?;
            anyhow::Ok((memory, hub))
        })?;
        let contacts = memory.start_servers(address.into())?;
        let channels = job.workers.iter().map(|&host| job.agent.map(contacts.from(host))).collect();
        let own = Some(memory.worker(JOB, 0, &contacts)?);
        let tokens = contacts.tokens.to_text();
        let hub_address = hub.address();
        let fabric = Fabric::Embedded(Tunnels { tunnels, channels, tokens });
        let description = Description { settings, secret, hub: hub_address, fabric };
        let lanes = scenario.lanes(JOB);
        let board = memory.boards().workers.clone();
        let memory = Arc::new(Mutex::new(memory));
        let entered = runtime.enter();
        hub.renew_with({
            let (memory, lanes) = (Arc::clone(&memory), lanes.clone());
            move || renew(Arc::clone(&memory), lanes.clone())
        });
        drop(entered);
        let inner = Some(Inner { runtime, memory, lanes, hub });
        Ok(Self { inner, description, own, board, _of_group: of_group })
    }

    /// How ranks reach it.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The connections of the rank in this process, once.
    pub fn take_own(&mut self) -> Option<Vec<LanePort>> {
        self.own.take()
    }

    /// Where the rank in this process publishes its numbers.
    pub(crate) fn board(&self) -> &Board<Numbers> {
        &self.board
    }

    /// Waits until the other ranks have left, but not for long, and stops. Returns the number of
    /// aggregators that were in use: none after a group that left in order.
    ///
    /// # Errors
    /// If the switch cannot be asked.
    pub fn close(&mut self) -> Result<u32> {
        self.own = None;
        let Some(inner) = self.inner.take() else { return Ok(0) };
        let Inner { runtime, memory, lanes, hub } = inner;
        runtime.block_on(hub.emptied(PATIENCE));
        let mut memory = memory.blocking_lock();
        memory.stop_endpoints();
        let removed = runtime.block_on(async {
            let mut freed = 0;
            for lane in lanes {
                let removed = memory.remove(lane).await?;
                freed += removed.iter().map(|at_switch| at_switch.freed).sum::<u32>();
            }
            anyhow::Ok(freed)
        });
        memory.stop_switches();
        drop(memory);
        runtime.shutdown_timeout(Duration::from_secs(1));
        removed
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("closing the embedded switch: {error:#}");
        }
    }
}

impl Tunnels {
    /// The connections of a rank in another process than the switch's: those of each lane.
    ///
    /// # Errors
    /// If the group has no such rank, or a socket fails.
    pub fn connect(
        &self,
        description: &Description,
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
        let threads = description.settings.threads()?;
        let peers = &self.tunnels[rank];
        ensure!(!peers.is_empty(), "rank {rank} has no tunnels");
        check_number(rank, tunnels.len(), threads)?;
        for (tunnel, &peer) in tunnels.iter_mut().zip(peers) {
            tunnel.connect(peer).with_context(|| format!("cannot reach the switch at {peer}"))?;
        }
        let scenario = deployment.scenario();
        let host = deployment.job(JOB).workers[rank];
        let tokens = Tokens::parse(&self.tokens, "the group's tokens")?;
        let connect = |(job, tunnels)| {
            let lane = deployment.job(job);
            let link = match self.channels[rank] {
                Some(agent) => {
                    channel::worker_link(scenario, lane, worker_index(rank), &tokens, |_| agent)?
                }
                None => None,
            };
            let link_number = scenario.network.topology.host(host).link;
            let (number, end) = (lane.lane.index, End::Host(host));
            let io = Fan::new(tunnels, row);
            let io = Links::from(scenario).faulty_lane(number, link_number, end, io)?;
            Ok(LanePort { io: Box::new(io), executor: None, link })
        };
        scenario.lanes(JOB).zip(by_lane(tunnels, threads)).map(connect).collect()
    }
}

/// Begins another run of each lane.
async fn renew(memory: Arc<Mutex<Memory>>, lanes: Range<usize>) -> Result<Vec<Epoch>, String> {
    let mut memory = memory.lock().await;
    let mut epochs = Vec::new();
    for lane in lanes {
        let renewed = memory.renew(lane).await;
        epochs.push(renewed.map_err(|error| format!("has the switch, which fails: {error:#}"))?);
    }
    Ok(epochs)
}

fn check_number(rank: usize, tunnels: usize, threads: Threads) -> Result<()> {
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
fn by_thread(tunnels: Vec<Tunnel>, threads: Threads) -> Vec<Vec<Box<dyn FrameIo>>> {
    let mut parts: Vec<Vec<Box<dyn FrameIo>>> = (0..threads.switch).map(|_| Vec::new()).collect();
    for lane in by_lane(tunnels, threads) {
        parts.iter_mut().zip(lane).for_each(|(part, tunnel)| part.push(Box::new(tunnel)));
    }
    parts
}
