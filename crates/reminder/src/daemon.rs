//! The reminder agent of a host, as a daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{Host, Serving};
use tributary_endpoint::{Args, channel, names, numbers, open_interface};
use tributary_metrics::{Board, Metrics};
use tributary_model::JobSpec;
use tributary_netio::Waker;
use tributary_protocol::esa::Backend;
use tributary_ps::numbers::Backends;

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
    host: &str,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    tell: &dyn Fn(Event<'_>),
) -> Result<()> {
    let loaded = args.load()?;
    let scenario = loaded.scenario().clone();
    let id = names::host(&scenario, host)?;
    if agent(&loaded, id)?.is_none() {
        bail!(
            "no job of the file has its reminder agent on host `{host}` alone; write `agent = \
             \"{host}\"` in a job, or leave the agent to `tributary ps`"
        );
    }
    let tokens = args.tokens()?;
    let own = |job: &&JobSpec| job.agent == Some(id);
    let _claim = claim(&args.interface, "reminder agent", scenario.jobs.iter().filter(own))?;
    let board = Board::default();
    metrics.add(Backends(board.clone()));
    metrics.add(numbers::Jobs::new(scenario.jobs.iter().filter(own)));
    let apart = |job: &JobSpec| own(&job) && job.ps != Some(id);
    let jobs =
        scenario.whole_jobs().filter(|(_, job)| apart(job)).map(|(index, _)| index).collect();
    let mut serving = Serving::new(args, &loaded, jobs, Host::Agent(host.to_owned()))?;
    let waker = Waker::new();
    let address = channel::agent_address(&scenario, id);
    while !stop.load(Ordering::Relaxed) {
        let io = open_interface(&scenario, id, &args.interface, args.io)?;
        let mut deployment = loaded.clone();
        serving.join(args, &mut deployment, stop)?;
        let scenario = deployment.scenario();
        let agent = agent(&deployment, id)?.context("looked at above")?;
        let hub = channel::hub(scenario, id, &tokens, address, waker.clone())?;
        let mut hub = hub.context("an agent has jobs")?;
        let over = serving.over(&deployment, |_| true, stop);
        tell(Event::Ready);
        let agent = serve(agent, &mut hub, Box::new(io), waker.clone(), &over, &board)?;
        tracing::info!("peers: {:?}", hub.stats());
        tell(Event::Done(&agent));
    }
    Ok(())
}
