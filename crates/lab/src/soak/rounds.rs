//! One job after the other: admitted, run by new workers in the switches, at the server, and in other memory of the
//! switches, and released.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::transport::Channel;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_controller::client::{Client as Switch, SwitchConfig, Target};
use tributary_p4runtime::p4::v1::{
    Entity, MulticastGroupEntry, PacketReplicationEngineEntry, TableEntry, entity,
    packet_replication_engine_entry,
};
use tributary_run::testbed::{Process, Stream};

use super::network::{self, ELEMENTS, ITERATIONS, PATIENCE, RunningNetwork, SWITCHES};

/// Workers of each job.
pub(crate) const WORKERS: usize = network::WORKERS.len();

/// Sums of tensors in a round, over all workers.
pub(crate) const SUMS: u64 = ITERATIONS * WORKERS as u64;

const JOB: u32 = 1;
const NETWORK: v1::Aggregation = v1::Aggregation::Network;
const SERVER: v1::Aggregation = v1::Aggregation::Server;

/// The client of the controller and of the switches.
pub(crate) struct Client {
    runtime: Runtime,
    jobs: JobsClient<Channel>,
    switches: Vec<(&'static str, Switch)>,
}

impl Client {
    pub(crate) fn connect(network: &RunningNetwork) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (jobs, switches) = runtime.block_on(async {
            let remote = Remote::new(&network.socket("controller"), None)?;
            let remote = remote.context("the controller has an address")?;
            let mut switches = Vec::new();
            for name in SWITCHES {
                let config = SwitchConfig::new(name, Target::Address(network.socket(name)));
                switches.push((name, Switch::connect(Arc::new(config)).await?));
            }
            anyhow::Ok((JobsClient::new(remote.connect_lazy()), switches))
        })?;
        Ok(Self { runtime, jobs, switches })
    }

    /// How many table entries and multicast groups each switch has.
    pub(crate) fn entries(&self) -> Result<Vec<(&'static str, usize)>> {
        let all = || {
            let tables = entity::Entity::TableEntry(TableEntry::default());
            let groups = packet_replication_engine_entry::Type::MulticastGroupEntry(
                MulticastGroupEntry::default(),
            );
            let groups =
                entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                    r#type: Some(groups),
                });
            [tables, groups].map(|entity| Entity { entity: Some(entity) }).into()
        };
        self.runtime.block_on(async {
            let mut entries = Vec::new();
            for (name, switch) in &self.switches {
                entries.push((*name, switch.read(all()).await?.len()));
            }
            Ok(entries)
        })
    }

    fn admit(&mut self, size: u32) -> Result<()> {
        let aggregation = NETWORK.into();
        let stepped = true;
        let request =
            v1::AdmitRequest { job_id: JOB, aggregation, size, stepped, ..Default::default() };
        self.runtime.block_on(self.jobs.admit(request)).context("the job is not admitted")?;
        Ok(())
    }

    fn move_to(&mut self, aggregation: v1::Aggregation, size: u32) -> Result<()> {
        let request = v1::MoveRequest { job_id: JOB, aggregation: aggregation.into(), size };
        self.runtime.block_on(self.jobs.r#move(request)).context("the job is not moved")?;
        Ok(())
    }

    /// Starts an iteration and waits for its end.
    fn iterate(&mut self, number: u64) -> Result<()> {
        let jobs = &mut self.jobs;
        let finished = async {
            let request = v1::StartIterationRequest { job_id: JOB, number };
            jobs.start_iteration(request).await?;
            let request = v1::WatchRequest { job_id: JOB, epoch: 0 };
            let mut told = jobs.watch(request).await?.into_inner();
            while let Some(state) = told.message().await? {
                let iteration = state.iteration.unwrap_or_default();
                if iteration.number == number && iteration.state() == v1::iteration::State::Finished
                {
                    return Ok(());
                }
            }
            bail!("the job was released")
        };
        let finished = self.runtime.block_on(async { timeout(PATIENCE, finished).await });
        finished
            .context("the time is over")
            .flatten()
            .with_context(|| format!("iteration {number}"))
    }

    fn release(&mut self) -> Result<()> {
        let request = v1::ReleaseRequest { job_id: JOB };
        let released = self.runtime.block_on(self.jobs.release(request));
        let freed = released.context("the job is not released")?.into_inner().freed;
        ensure!(freed == 0, "{freed} aggregators had unfinished sums");
        Ok(())
    }
}

/// Runs one job.
pub(crate) fn run(network: &RunningNetwork, client: &mut Client) -> Result<()> {
    client.admit(64)?;
    let workers = network.workers()?;
    let ran = iterations(client).and_then(|()| workers.iter().try_for_each(succeeds));
    if ran.is_err() {
        for worker in &workers {
            worker.kill()?;
        }
    }
    ran?;
    client.release()
}

fn iterations(client: &mut Client) -> Result<()> {
    client.iterate(1)?;
    client.move_to(SERVER, 0)?;
    client.iterate(2)?;
    client.move_to(NETWORK, 16)?;
    client.iterate(ITERATIONS)
}

/// Waits for a worker that has compared all of its sums.
fn succeeds(worker: &Process) -> Result<()> {
    let begin = Instant::now();
    let status = worker.wait(Some(PATIENCE))?;
    let values = ITERATIONS * ELEMENTS;
    let said = format!("{values} values summed, {values} of them compared");
    if status.is_some_and(|status| status.success()) && worker.output(Stream::Out).contains(&said) {
        return Ok(());
    }
    let errors = worker.output(Stream::Err);
    bail!("the worker on {} fails after {:?}: {}", worker.node(), begin.elapsed(), errors.trim())
}
