//! The servers of a host and their channels, from a deployment.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tributary_endpoint::channel::link;
use tributary_endpoint::driver::channel::{Hub, Link};
use tributary_endpoint::jobs_at;
use tributary_endpoint::tokens::Tokens;
use tributary_model::{Deployment, HostId, Scenario};
use tributary_netio::Waker;
use tributary_wire::channel::Role;

use crate::{Channels, ServerJob, Servers};

/// The parameter servers of a host, for each of `threads` threads, with those of their jobs' agents that
/// run on the same host. Those of `later` jobs are added when it is known how they are summed.
///
/// # Errors
/// If their settings contradict each other.
pub fn servers(
    deployment: &Deployment,
    host: HostId,
    threads: usize,
    later: &[usize],
) -> Result<Vec<Servers>> {
    let of_thread = |thread| {
        let jobs = jobs_at(deployment, host, |job| job.ps);
        let jobs = jobs
            .filter(|(index, job)| job.lane.thread(threads) == thread && !later.contains(index));
        let described = jobs.map(|(index, job)| {
            let server = deployment.server(index).context("a job at its server has one")?;
            let agent = if job.agent == Some(host) { deployment.agent(index)? } else { None };
            Ok(ServerJob { server, agent })
        });
        Ok(Servers::new(described.collect::<Result<Vec<_>>>()?)?)
    };
    (0..threads).map(of_thread).collect()
}

/// The channels of a host's servers: a hub if their agent is in the same process, and links to
/// agents elsewhere, whose addresses `at` returns.
///
/// # Errors
/// As of [`tributary_endpoint::channel::hub`].
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
