//! The reminder agent of a host, as a daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{Host, Serving, Setup};
use tributary_endpoint::{Args, channel, numbers, open_interface};
use tributary_metrics::{Board, Metrics};
use tributary_model::JobSpec;
use tributary_netio::Waker;
use tributary_protocol::esa::Backend;
use tributary_ps::numbers::{Backends, Numbers};

use crate::{agent, serve};

/// An event of the daemon.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The agent listens.
    Ready,
    /// The agent has ended; contains its counters.
    Done(&'a Backend),
}

/// Runs the agent of the jobs that have it on this host without their parameter server, until
/// `stop` is raised. `metrics` gets what it counts.
///
/// # Errors
/// One line that describes the problem.
pub fn run(
    args: &Args,
    host: Option<&str>,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    tell: &dyn Fn(Event<'_>),
) -> Result<()> {
    let board = Board::default();
    metrics.add(Backends(board.clone()));
    // The controller may have other jobs for this host one day.
    loop {
        serve_jobs(args, host, stop, metrics, &board, tell)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Runs the agent of the jobs that the host has now, until it has others.
fn serve_jobs(
    args: &Args,
    host: Option<&str>,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    board: &Board<Numbers>,
    tell: &dyn Fn(Event<'_>),
) -> Result<()> {
    let serves = |job: &JobSpec, host| job.agent == Some(host) && job.ps != Some(host);
    let (mut serving, setup, id) = Serving::new(args, host, Host::Agent, serves, stop)?;
    let Setup { deployment: loaded, tokens, .. } = setup;
    let scenario = loaded.scenario().clone();
    if serving.is_idle() {
        let host = &scenario.network.topology.host(id).name;
        ensure!(
            args.job_file.is_none(),
            "no job of the file has its reminder agent on host `{host}` alone; write `agent = \
             \"{host}\"` in a job, or leave the agent to `tributary ps`"
        );
        tracing::info!("no job has its reminder agent on host {host} yet");
        serving.idle(stop);
        return Ok(());
    }
    let own = |job: &&JobSpec| job.agent == Some(id);
    let _claim = claim(&args.interface, "reminder agent", scenario.jobs.iter().filter(own))?;
    metrics.add(numbers::Jobs::new(scenario.jobs.iter().filter(own)));
    let waker = Waker::new();
    let address = channel::agent_address(&scenario, id);
    while !stop.load(Ordering::Relaxed) && !serving.is_outdated() {
        let io = open_interface(&scenario, id, &args.interface, args.io)?;
        let mut deployment = loaded.clone();
        serving.join(args, &mut deployment, stop)?;
        let scenario = deployment.scenario();
        let agent = agent(&deployment, id)?.context("looked at above")?;
        let hub = channel::hub(scenario, id, &tokens, address, waker.clone())?;
        let mut hub = hub.context("an agent has jobs")?;
        let over = serving.over(&deployment, |_| true, stop);
        tell(Event::Ready);
        let agent = serve(agent, &mut hub, Box::new(io), waker.clone(), &over, board)?;
        tracing::info!("peers: {:?}", hub.stats());
        tell(Event::Done(&agent));
    }
    Ok(())
}
