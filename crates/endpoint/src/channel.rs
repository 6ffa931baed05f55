//! The reliable channels of ESA's endpoints: hubs and links.

use std::net::SocketAddr;

use crate::driver::channel::{self, Hub, HubConfig, LinkConfig};
use anyhow::{Context, Result};
use tributary_model::{HostId, JobSpec, Scenario};
use tributary_netio::Waker;
use tributary_wire::WorkerIndex;
use tributary_wire::channel::{Hello, PORT, Role};

use crate::tokens::Tokens;

/// The listening address of a job's agent on a host of a real network.
pub fn agent_address(scenario: &Scenario, agent: HostId) -> SocketAddr {
    (scenario.network.topology.host(agent).address.ip, PORT).into()
}

/// The ESA jobs whose agent is on this host.
pub fn agent_jobs(scenario: &Scenario, host: HostId) -> impl Iterator<Item = &JobSpec> {
    scenario.jobs.iter().filter(move |job| job.agent == Some(host))
}

/// The hub of the agent on this host; `None` if there is no agent.
///
/// # Errors
/// If a token is missing or the address cannot be used.
pub fn hub(
    scenario: &Scenario,
    host: HostId,
    tokens: &Tokens,
    address: SocketAddr,
    waker: Waker,
) -> Result<Option<Hub>> {
    let jobs = agent_jobs(scenario, host).map(|job| {
        Ok(channel::HubJob {
            id: job.id,
            epoch: job.epoch,
            token: tokens.of(job)?,
            workers: u16::try_from(job.workers.len()).context("a job has at most 1024 workers")?,
            values: scenario.network.switch.values_per_packet,
            server: job.ps != Some(host),
        })
    });
    let jobs = jobs.collect::<Result<Vec<_>>>()?;
    if jobs.is_empty() {
        return Ok(None);
    }
    let hub = Hub::start(&HubConfig::new(address), jobs, waker);
    let hub = hub.with_context(|| {
        format!("the reminder agent cannot listen on {address}; has this host that address?")
    })?;
    Ok(Some(hub))
}

/// The link of a job's worker to the agent, if there is one; `at` returns the agent's address.
///
/// # Errors
/// If the job's token is missing.
pub fn worker_link(
    scenario: &Scenario,
    job: &JobSpec,
    index: WorkerIndex,
    tokens: &Tokens,
    at: impl Fn(HostId) -> SocketAddr,
) -> Result<Option<LinkConfig>> {
    let connect = |agent| link(scenario, job, Role::Worker(index), tokens, at(agent));
    job.agent.map(connect).transpose()
}

/// The link of a job's peer to its agent, which listens at `agent`.
///
/// # Errors
/// If the job's token is missing.
pub fn link(
    scenario: &Scenario,
    job: &JobSpec,
    role: Role,
    tokens: &Tokens,
    agent: SocketAddr,
) -> Result<LinkConfig> {
    let hello = Hello { job: job.id, epoch: job.epoch, role, token: tokens.of(job)? };
    Ok(LinkConfig::new(agent, hello, scenario.network.switch.values_per_packet))
}
