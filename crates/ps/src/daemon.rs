//! The parameter servers of a host, as a daemon.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result, ensure};
use tributary_endpoint::claim::claim;
use tributary_endpoint::membership::{Host, Serving, Setup};
use tributary_endpoint::schedule::Scheduler;
use tributary_endpoint::{Args, channel, numbers, open_interface, open_server_ports};
use tributary_metrics::{Board, Metrics};
use tributary_model::{JobSpec, Protocol};
use tributary_netio::device::Device;
use tributary_netio::faults::Faulty;
use tributary_netio::{FrameIo, Waker};

use crate::numbers::{Backends, Numbers};
use crate::report::Event;
use crate::{Channels, Servers, channels, scheduled, serve, servers};

/// Serves the jobs that have their parameter server on a host until `stop` is raised. `tell` gets
/// each event with the name of the host's switch, and `metrics` what the servers count.
///
/// # Errors
/// One line that describes the problem.
pub fn run(
    args: &Args,
    host: Option<&str>,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    tell: &(dyn Fn(&Event, &str) + Sync),
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

/// Serves the jobs that the host has now, until it has others.
fn serve_jobs(
    args: &Args,
    host: Option<&str>,
    stop: &Arc<AtomicBool>,
    metrics: &Metrics,
    board: &Board<Numbers>,
    tell: &(dyn Fn(&Event, &str) + Sync),
) -> Result<()> {
    let serves = |job: &JobSpec, host| job.ps == Some(host);
    let (mut serving, setup, id) = Serving::new(args, host, Host::Servers, serves, stop)?;
    let Setup { deployment: loaded, tokens, .. } = setup;
    let scenario = loaded.scenario().clone();
    let own = |job: &&JobSpec| job.ps == Some(id);
    if serving.is_idle() {
        let name = &scenario.network.topology.host(id).name;
        ensure!(
            args.job_file.is_none(),
            "no job of the file has its parameter server on host `{name}`"
        );
        tracing::info!("no job has its parameter server on host {name} yet");
        serving.idle(stop);
        return Ok(());
    }
    let (switch, _) = scenario.network.topology.attachment(id);
    let switch = &scenario.network.topology.switch(switch).name;
    let tell = |event: &Event| tell(event, switch);
    let _claim = claim(&args.interface, "parameter server", scenario.jobs.iter().filter(own))?;
    metrics.add(numbers::Jobs::new(scenario.jobs.iter().filter(own)));
    if let Some(address) = &args.scheduler {
        let io = Box::new(open_interface(&scenario, id, &args.interface, args.io)?);
        let scheduler = Scheduler::at(&args.keys.remote("--scheduler", address)?)?;
        return scheduled::serve(loaded, id, io, &scheduler, stop, board, &tell);
    }
    let waker = Waker::new();
    while !stop.load(Ordering::Relaxed) && !serving.is_outdated() {
        let ports = open_server_ports(&scenario, id, args)?;
        let mut deployment = loaded.clone();
        serving.join(args, &mut deployment, stop)?;
        let scenario = deployment.scenario();
        let servers = servers(&deployment, id, ports.len())?;
        let at = |agent| channel::agent_address(scenario, agent);
        let hub = channel::hub(scenario, id, &tokens, at(id), waker.clone())?;
        let mut channels = channels(scenario, id, &tokens, hub, &waker, at)?;
        // Other servers detect a new run by its packets, because it has the same workers.
        let follows = |job: &JobSpec| job.protocol == Protocol::Esa || job.on_death.goes_on();
        let over = serving.over(&deployment, follows, stop);
        tell(&Event::Ready);
        let serve = |(servers, io): (Servers, Faulty<Device>), channels: &mut Channels, waker| {
            let mut report = |job, event| tell(&Event::of(job, &event));
            let io = Box::new(io) as Box<dyn FrameIo>;
            let ended = serve(servers, channels, io, waker, &over, board, &mut report);
            // The other threads end, too, after an error.
            let servers = ended.inspect_err(|_| over.store(true, Ordering::Relaxed))?;
            tell(&Event::done(&servers));
            anyhow::Ok(())
        };
        let mut threads = servers.into_iter().zip(ports);
        let first = threads.next().context("a host has a port")?;
        thread::scope(|scope| {
            let start = |thread| {
                let serve = || serve(thread, &mut Channels::default(), Waker::new());
                thread::Builder::new().name("ps".into()).spawn_scoped(scope, serve)
            };
            let others = threads.map(start).collect::<io::Result<Vec<_>>>();
            let others = others.context("cannot start a thread");
            if others.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            let first = serve(first, &mut channels, waker.clone());
            let join = |other: ScopedJoinHandle<'_, Result<()>>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            others?.into_iter().map(join).fold(first, Result::and)
        })?;
        if let Some(hub) = channels.hub() {
            tracing::info!("peers: {:?}", hub.stats());
        }
    }
    Ok(())
}
