//! The reliable channel of ESA's endpoints, out of a scenario: who listens, who connects, and what an
//! agent must know of its jobs.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tributary_controller::Deployment;
use tributary_driver::channel::{self, Hub, HubConfig, Link, LinkConfig};
use tributary_jobfile::{HostId, Job, Scenario};
use tributary_netio::Waker;
use tributary_protocol::Timing;
use tributary_protocol::esa::Backend;
use tributary_ps::{Channels, Servers};
use tributary_wire::WorkerIndex;
use tributary_wire::channel::{Hello, PORT, Role};

use crate::tokens::Tokens;

/// Where the agent of a job is told to listen when it is on a host of a real network.
pub fn agent_address(scenario: &Scenario, agent: HostId) -> SocketAddr {
    (scenario.topology.host(agent).address.ip, PORT).into()
}

/// The ESA jobs whose agent is on a host.
pub fn agent_jobs(scenario: &Scenario, host: HostId) -> impl Iterator<Item = &Job> {
    scenario.jobs.iter().filter(move |job| job.agent == Some(host))
}

/// The parameter servers of a host, and the agents of their jobs that are with them.
///
/// # Errors
/// If their settings contradict each other.
pub fn servers(deployment: &Deployment, host: HostId) -> Result<Servers> {
    let described = jobs_at(deployment, host, |job| job.ps).map(|(index, job)| {
        let server = deployment.server(index).context("a job at its server has one")?;
        let agent = if job.agent == Some(host) { deployment.agent(index)? } else { None };
        Ok(tributary_ps::Job { server, agent })
    });
    Ok(Servers::new(described.collect::<Result<Vec<_>>>()?)?)
}

/// The agent of the jobs that have it on a host without their parameter server; `None` if there are
/// none.
///
/// # Errors
/// If their settings contradict each other.
pub fn agent(deployment: &Deployment, host: HostId) -> Result<Option<Backend>> {
    let mut backend = Backend::new(Timing::default())?;
    for (index, _) in
        jobs_at(deployment, host, |job| job.agent).filter(|(_, job)| job.ps != Some(host))
    {
        if let Some(config) = deployment.agent(index)? {
            backend.add_agent(config)?;
        }
    }
    Ok((!backend.is_empty()).then_some(backend))
}

/// The jobs that have a part on a host, and their positions in the file.
fn jobs_at(
    deployment: &Deployment,
    host: HostId,
    part: fn(&Job) -> Option<HostId>,
) -> impl Iterator<Item = (usize, &Job)> {
    let jobs = deployment.scenario().jobs.iter().enumerate();
    jobs.filter(move |(_, job)| part(job) == Some(host))
}

/// The hub of the agent on a host; `None` if there is no agent.
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
        Ok(channel::Job {
            id: job.id,
            epoch: job.epoch,
            token: tokens.of(job)?,
            workers: u8::try_from(job.workers.len()).context("a job has at most 32 workers")?,
            values: scenario.switch.values_per_packet,
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

/// The channels of a host's servers: a hub if their agent is with them, and links to agents that are
/// elsewhere. `at` tells where.
///
/// # Errors
/// As of [`hub`].
pub fn channels(
    scenario: &Scenario,
    host: HostId,
    tokens: &Tokens,
    hub: Option<Hub>,
    waker: &Waker,
    at: impl Fn(HostId) -> SocketAddr,
) -> Result<Channels> {
    let here = scenario.jobs.iter().filter(|job| job.ps == Some(host));
    let apart = here.filter_map(|job| Some((job, job.agent.filter(|&agent| agent != host)?)));
    let links = apart.map(|(job, agent)| {
        let config = link(scenario, job, Role::Server, tokens, at(agent))?;
        let link = Link::start(config, waker.clone()).context("cannot start a thread")?;
        Ok((job.id, link))
    });
    Ok(Channels::new(hub, links.collect::<Result<Vec<_>>>()?))
}

/// The way of a job's worker to the agent, if there is one; `at` tells where it listens.
///
/// # Errors
/// If the job's token is missing.
pub fn worker_link(
    scenario: &Scenario,
    job: &Job,
    index: WorkerIndex,
    tokens: &Tokens,
    at: impl Fn(HostId) -> SocketAddr,
) -> Result<Option<LinkConfig>> {
    let connect = |agent| link(scenario, job, Role::Worker(index), tokens, at(agent));
    job.agent.map(connect).transpose()
}

fn link(
    scenario: &Scenario,
    job: &Job,
    role: Role,
    tokens: &Tokens,
    agent: SocketAddr,
) -> Result<LinkConfig> {
    let hello = Hello { job: job.id, epoch: job.epoch, role, token: tokens.of(job)? };
    Ok(LinkConfig::new(agent, hello, scenario.switch.values_per_packet))
}
