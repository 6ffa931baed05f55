//! The embedded switch of a group, and how ranks reach it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tributary_controller::Deployment;
use tributary_dataplane::EngineKind;
use tributary_endpoint::channel;
use tributary_endpoint::tokens::Tokens;
use tributary_job::fabric::{Memory, Outside};
use tributary_job::{Fabric as _, program};
use tributary_jobfile::{End, HostId, Scenario, worker_index};
use tributary_netio::FrameIo;
use tributary_netio::udp::Tunnel;
use tributary_worker::live::LanePort;

use crate::description::{self, Description, Fabric};
use crate::membership::{Hub, SILENCE};
use crate::settings::{JOB, Settings, Span};

/// Receive buffer of a tunnel, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// How long the first rank waits for others that are still there when it is done.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How ranks reach an embedded switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tunnels {
    /// The switch's end of each rank's tunnel; `None` for the rank in the switch's process.
    tunnels: Vec<Option<SocketAddrV4>>,
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
}

struct Inner {
    runtime: Runtime,
    memory: Memory,
    hub: Hub,
}

/// A rank's end of its tunnel to the switch.
pub fn endpoint(address: Ipv4Addr) -> Result<Tunnel> {
    let tunnel = Tunnel::bind(SocketAddrV4::new(address, 0), RECEIVE_BUFFER);
    tunnel.with_context(|| {
        format!("cannot open a UDP socket at {address}; is it this host's address?")
    })
}

impl Switch {
    /// Starts a switch for ranks whose tunnels end at these addresses. The first is the rank in this
    /// process, which uses no tunnel. A rank may take `timeout` to begin a call.
    ///
    /// # Errors
    /// If the settings are invalid, or something cannot be started.
    pub fn start(settings: &str, endpoints: &[SocketAddrV4], timeout: Duration) -> Result<Self> {
        let own = *endpoints.first().context("a group has a rank")?.ip();
        let local = endpoints.iter().all(|endpoint| endpoint.ip().is_loopback());
        let span = if local { Span::Host } else { Span::Hosts };
        let settings = Settings::complete(settings, endpoints.len(), span, timeout)?;
        let deployment = Arc::new(Deployment::new(settings.scenario()?)?);
        let scenario = deployment.scenario();
        let job = deployment.job(JOB);
        let (mut outside, mut tunnels) = (Outside::new(), vec![None]);
        for (&host, &peer) in job.workers.iter().zip(endpoints).skip(1) {
            let tunnel = endpoint(own)?;
            tunnel.connect(peer).with_context(|| format!("cannot reach {peer}"))?;
            tunnels.push(Some(tunnel.address().context("a tunnel has no address")?));
            outside.insert(host, Box::new(tunnel) as Box<dyn FrameIo>);
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("cannot start threads")?;
        let compiled = program::compile(scenario, None)?;
        let engine = EngineKind::default();
        let secret = description::secret();
        let ranks = u16::try_from(endpoints.len()).context("a group has at most 1024 ranks")?;
        let (mut memory, hub) = runtime.block_on(async {
            let mut memory = Memory::open(&deployment, compiled, engine, 1, outside).await?;
            memory.admit(JOB).await?;
            let address = SocketAddr::from((own, 0));
            let hub = Hub::start(address, secret.clone(), ranks, timeout.max(SILENCE)).await?;
            anyhow::Ok((memory, hub))
        })?;
        let contacts = memory.start_servers(own.into())?;
        let channels = job.workers.iter().map(|&host| job.agent.map(contacts.from(host))).collect();
        let own = Some(memory.worker(JOB, 0, &contacts)?);
        let tokens = contacts.tokens.to_text();
        let hub_address = hub.address();
        let fabric = Fabric::Embedded(Tunnels { tunnels, channels, tokens });
        let description = Description { settings, secret, hub: hub_address, fabric };
        Ok(Self { inner: Some(Inner { runtime, memory, hub }), description, own })
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

    /// Waits until the other ranks have left, but not for long, and stops. Returns the number of
    /// aggregators that were in use: none after a group that left in order.
    ///
    /// # Errors
    /// If the switch cannot be asked.
    pub fn close(&mut self) -> Result<u32> {
        self.own = None;
        let Some(Inner { runtime, mut memory, mut hub }) = self.inner.take() else { return Ok(0) };
        runtime.block_on(hub.emptied(PATIENCE));
        memory.stop_endpoints();
        let removed = runtime.block_on(memory.remove(JOB));
        memory.stop_switches();
        drop(memory);
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(removed?.iter().map(|at_switch| at_switch.freed).sum())
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
    /// The connections of a rank in another process than the switch's.
    ///
    /// # Errors
    /// If the group has no such rank, or a socket fails.
    pub fn connect(&self, deployment: &Deployment, rank: u16, io: Tunnel) -> Result<LanePort> {
        let rank = usize::from(rank);
        ensure!(
            rank < self.tunnels.len(),
            "the group has {} ranks, not rank {rank}",
            self.tunnels.len()
        );
        let peer = self.tunnels[rank].with_context(|| format!("rank {rank} has no tunnel"))?;
        io.connect(peer).with_context(|| format!("cannot reach the switch at {peer}"))?;
        let scenario = deployment.scenario();
        let job = deployment.job(JOB);
        let host = job.workers[rank];
        let tokens = Tokens::parse(&self.tokens, "the group's tokens")?;
        let link = match self.channels[rank] {
            Some(agent) => {
                channel::worker_link(scenario, job, worker_index(rank), &tokens, |_| agent)?
            }
            None => None,
        };
        Ok(LanePort { io: faulty(scenario, host, io)?, executor: None, link })
    }
}

/// Puts the faults of a host's link around its tunnel.
fn faulty(scenario: &Scenario, host: HostId, io: Tunnel) -> Result<Box<dyn FrameIo>> {
    let link = scenario.topology.host(host).link;
    Ok(Box::new(scenario.faulty_lane(0, link, End::Host(host), scenario.seed, io)?))
}
