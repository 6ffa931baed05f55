//! The reminder agent of a host, as a daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use tributary_endpoint::serving::{Host, Kind, Serving};
use tributary_endpoint::{Args, channel, open_interface};
use tributary_metrics::{Board, Metrics};
use tributary_netio::Waker;
use tributary_protocol::esa::Backend;
use tributary_ps::numbers::{Backends, Numbers};

use crate::{agent, serve};

const KIND: Kind = Kind {
    name: "reminder agent",
    host: Host::Agent,
    serves: |job, host| job.agent == Some(host) && job.ps != Some(host),
};

/// An event of the daemon.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The host has no job to serve.
    Idle,
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
    Serving::run(
        args,
        host,
        KIND,
        stop,
        metrics,
        || tell(Event::Idle),
        |serving| serve_jobs(args, serving, stop, &board, tell),
    )
}

/// Runs the agent of the jobs that the host has now, until it has others: one run after the other.
fn serve_jobs(
    args: &Args,
    serving: &mut Serving,
    stop: &Arc<AtomicBool>,
    board: &Board<Numbers>,
    tell: &dyn Fn(Event<'_>),
) -> Result<()> {
    let (id, waker) = (serving.id, Waker::new());
    while serving.goes_on(stop) {
        let io = open_interface(serving.scenario(), id, &args.interface, args.io)?;
        let Some(deployment) = serving.join(stop)? else { return Ok(()) };
        let scenario = deployment.scenario();
        let agent = agent(&deployment, id)?.context("a host serves a job")?;
        let address = channel::agent_address(scenario, id);
        let hub = channel::hub(scenario, id, &serving.setup.tokens, address, waker.clone())?;
        let mut hub = hub.context("an agent has jobs")?;
        let over = serving.over(&deployment, |_| true, stop);
        tell(Event::Ready);
        let agent = serve(agent, &mut hub, Box::new(io), waker.clone(), &over, board)?;
        tracing::info!("peers: {:?}", hub.stats());
        tell(Event::Done(&agent));
    }
    Ok(())
}
