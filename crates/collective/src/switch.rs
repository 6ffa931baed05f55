//! The embedded switch of a group.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, Runtime};
use tributary_access::{Door, Limits, Listen, Policy, Server, Silence};
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Jobs, Known};
use tributary_dataplane::EngineKind;
use tributary_embedded::{Embedded, Options, Outside, Tell, program};
use tributary_endpoint::numbers;
use tributary_metrics::Board;
use tributary_model::Deployment;
use tributary_wire::JobId;
use tributary_worker::live::LanePort;
use tributary_worker::numbers::Numbers;

use crate::description::{self, Description, Fabric};
use crate::members::Members;
use crate::metrics::OfGroup;
use crate::settings::{JOB, Settings};
use crate::tunnels::{Tunnels, addresses, by_thread, check_number, endpoint};

/// How long the first rank waits for others that are still there when it is done.
const PATIENCE: Duration = Duration::from_secs(10);

/// A rank whose host is silent for this long is gone. One that is stopped is waited for: calls have their own timeout.
const SILENCE: Silence = Silence::OfHost(Duration::from_secs(10));

/// Pause between two looks whether they are.
const LOOK: Duration = Duration::from_millis(5);

/// A switch with its controller, and all else that a group needs, in this process.
pub struct GroupSwitch {
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
    network: Embedded,
    /// Those of the group's job.
    lanes: Vec<JobId>,
    job: JobId,
    jobs: Jobs,
    server: Server,
}

impl GroupSwitch {
    /// Starts a switch at an address of this host, for members whose tunnels end at these addresses, as
    /// many as [`Threads::tunnels`](crate::Threads::tunnels) demands. The first member's worker is in this
    /// process, and uses no tunnels.
    ///
    /// # Errors
    /// If the settings are invalid, or something cannot be started.
    pub fn start(
        settings: Settings,
        members: &Members,
        address: IpAddr,
        endpoints: &[Vec<SocketAddr>],
    ) -> Result<Self> {
        let threads = settings.threads()?;
        tracing::info!(threads.lanes, threads.switch, "starting the embedded switch");
        let deployment = Arc::new(Deployment::new(settings.scenario()?)?);
        let scenario = deployment.scenario();
        let job = deployment.job(JOB);
        ensure!(
            endpoints.len() == job.workers.len() && members.count() == endpoints.len(),
            "the settings are for {} members, not {}",
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
        let options = Options {
            engine: EngineKind::default(),
            threads: threads.switch,
            outside,
            tap: None,
            metrics: &of_group.metrics,
        };
        let mut network = runtime.block_on(async {
            let network = Embedded::open(&deployment, &pipeline, options).await?;
            for lane in scenario.lanes(JOB) {
                network.controller().admit(&deployment.placement(lane)).await?;
            }
            anyhow::Ok(network)
        })?;
        // Ranks report missing sums themselves.
        let nobody: Tell = Arc::new(|_| {});
        let contacts = network.start_servers(address, &nobody)?;
        let channels = job.workers.iter().map(|&host| job.agent.map(contacts.from(host))).collect();
        let own = Some(network.worker(JOB, 0, &contacts)?);
        let key = description::key();
        let known = Known {
            tokens: contacts.tokens.by_job(),
            own: true,
            key: key.clone(),
            // The connection of a rank breaks when its process ends, or its host is silent.
            patience: Duration::ZERO,
            ..Known::from((*deployment).clone())
        };
        let (jobs, server) = runtime.block_on(async {
            let jobs = Jobs::new(Arc::clone(network.controller()), known);
            let policy = Policy::all_may_observe();
            let door = Door { policy, ..Door::unlocked(Listen::Tcp((address, 0).into())) };
            let limits = Limits { silence: SILENCE, ..LIMITS };
            let server = Server::start(jobs.service(), door, limits).await;
            anyhow::Ok((jobs, server.with_context(|| format!("cannot listen on {address}"))?))
        })?;
        let Listen::Tcp(controller) = *server.address() else {
            unreachable!("it is at a TCP address")
        };
        let fabric =
            Fabric::Embedded { controller, tunnels: Tunnels { tunnels, channels, threads } };
        let (name, id) = (job.name.clone(), job.id);
        let (group, members) = (settings.group, members.clone());
        let description = Description { group, members, name, job: id.get(), key, fabric };
        let lanes = scenario.lanes(JOB).map(|lane| deployment.job(lane).id).collect();
        let board = network.boards().workers.clone();
        let inner = Some(Inner { runtime, network, lanes, job: id, jobs, server });
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
        let Inner { runtime, mut network, lanes, job, jobs, server } = inner;
        runtime.block_on(async {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while jobs.is_taken_part_in(job) && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
            server.stop().await;
            jobs.close().await;
        });
        drop(jobs);
        network.stop_endpoints();
        let removed = runtime.block_on(async {
            let mut freed = 0;
            for lane in lanes {
                let removed = network.controller().remove(lane).await?;
                freed += removed.values().sum::<u32>();
            }
            anyhow::Ok(freed)
        });
        network.stop_switches();
        drop(network);
        runtime.shutdown_timeout(Duration::from_secs(1));
        removed
    }
}

impl Drop for GroupSwitch {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("closing the embedded switch: {error:#}");
        }
    }
}
