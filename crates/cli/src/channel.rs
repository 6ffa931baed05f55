//! The reliable channel of ESA's endpoints, out of a scenario: who listens, who connects, and what an
//! agent must know of its jobs.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tributary_controller::plan;
use tributary_jobfile::{HostId, Job, Protocol, Scenario};
use tributary_netio::Waker;
use tributary_protocol::Assignment;
use tributary_protocol::esa::{AgentJob, Target};
use tributary_ps::{Channels, Servers};
use tributary_reminder::{self as reminder, Hub, HubConfig, Link, LinkConfig};
use tributary_wire::WorkerIndex;
use tributary_wire::channel::{Hello, PORT, Role};

use crate::settings;
use crate::tokens::Tokens;

/// Where the agent of a job is told to listen when it is on a host of a real network.
pub(crate) fn agent_address(scenario: &Scenario, agent: HostId) -> SocketAddr {
    (scenario.topology.host(agent).address.ip, PORT).into()
}

/// The ESA jobs whose agent is on a host.
pub(crate) fn agent_jobs(scenario: &Scenario, host: HostId) -> impl Iterator<Item = &Job> {
    scenario.jobs.iter().filter(move |job| job.agent == Some(host))
}

/// What an agent must know of a job.
///
/// # Errors
/// If it cannot reach the switches that add for it.
pub(crate) fn agent_job(scenario: &Scenario, job: &Job) -> Result<AgentJob> {
    let address = |host: HostId| scenario.topology.host(host).address;
    let agent = job.agent.context("a job of ESA has an agent")?;
    let targets = plan::targets(&scenario.topology, &job.into())?;
    let target =
        |target: &plan::Target| Target { members: target.members, via: address(target.via) };
    Ok(AgentJob {
        job: scenario.job_config(job, Assignment::NONE),
        host: address(agent),
        switches: targets.iter().map(target).collect(),
    })
}

/// The parameter servers of a host, and the agent if it is with them.
///
/// # Errors
/// If their settings contradict each other.
pub(crate) fn servers(scenario: &Scenario, host: HostId) -> Result<Servers> {
    let jobs = scenario.jobs.iter().filter(|job| job.ps == Some(host));
    let described = jobs.map(|job| {
        let config = scenario.ps_config(job, settings::assignment(scenario, job)?);
        Ok(match job.protocol {
            Protocol::Esa if job.agent == Some(host) => {
                tributary_ps::Job::Together(config, agent_job(scenario, job)?)
            }
            Protocol::Esa => tributary_ps::Job::Apart(config),
            _ => tributary_ps::Job::Plain(config),
        })
    });
    Ok(Servers::new(described.collect::<Result<Vec<_>>>()?)?)
}

/// The hub of the agent on a host; `None` if there is no agent.
///
/// # Errors
/// If a token is missing or the address cannot be used.
pub(crate) fn hub(
    scenario: &Scenario,
    host: HostId,
    tokens: &Tokens,
    address: SocketAddr,
    waker: Waker,
) -> Result<Option<Hub>> {
    let jobs = agent_jobs(scenario, host).map(|job| {
        Ok(reminder::Job {
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
pub(crate) fn channels(
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
pub(crate) fn worker_link(
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
