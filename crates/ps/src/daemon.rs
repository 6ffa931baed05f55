//! The parameter servers of a host, as a daemon.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};
use tributary_endpoint::serving::{Host, Kind, Serving};
use tributary_endpoint::{Args, channel, open_server_ports};
use tributary_metrics::{Board, Metrics, PERIOD};
use tributary_model::JobSpec;
use tributary_netio::device::Device;
use tributary_netio::faults::Faulty;
use tributary_netio::{Counted, FrameCount, FrameIo, Frames, Waker};
use tributary_protocol::server;
use tributary_wire::JobId;

use crate::numbers::{Backends, Numbers};
use crate::report::Event;
use crate::steps::Steps;
use crate::{Attendant, Channels, Servers, channels, serve, servers};

const KIND: Kind = Kind {
    name: "parameter server",
    host: Host::Servers,
    serves: |job, host| job.ps == Some(host),
};

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
    Serving::run(
        args,
        host,
        KIND,
        stop,
        metrics,
        || tell(&Event::Idle, ""),
        |serving| {
            let topology = &serving.scenario().network.topology;
            let (switch, _) = topology.attachment(serving.id);
            let switch = topology.switch(switch).name.clone();
            serve_jobs(args, serving, stop, &board, &|event| tell(event, &switch))
        },
    )
}

/// Serves the jobs that the host has now, until it has others: one run after the other.
fn serve_jobs(
    args: &Args,
    serving: &mut Serving,
    stop: &Arc<AtomicBool>,
    board: &Board<Numbers>,
    tell: &(dyn Fn(&Event) + Sync),
) -> Result<()> {
    let (id, waker) = (serving.id, Waker::new());
    // Those of all ports so far.
    let mut frames: Vec<Arc<Frames>> = Vec::new();
    while serving.goes_on(stop) {
        let ports = open_server_ports(serving.scenario(), id, args)?;
        let Some(deployment) = serving.join(stop)? else { return Ok(()) };
        let scenario = deployment.scenario();
        let servers = servers(&deployment, id, ports.len(), &serving.setup.stepped)?;
        let mut steps = Steps::of(serving, &deployment);
        let at = |agent| channel::agent_address(scenario, agent);
        let tokens = &serving.setup.tokens;
        let hub = channel::hub(scenario, id, tokens, at(id), waker.clone())?;
        let mut channels = channels(scenario, id, tokens, hub, &waker, at)?;
        // Other servers detect a new run by its packets, because it has the same workers.
        let follows = |job: &JobSpec| job.protocol.has_reminder_agent() || job.on_death.goes_on();
        let over = serving.over(&deployment, follows, stop);
        tell(&Event::Ready);
        let ports = ports.into_iter().map(|io| {
            frames.push(Arc::default());
            Counted::new(io, Arc::clone(&frames[frames.len() - 1]))
        });
        let ports: Vec<Counted<Faulty<Device>>> = ports.collect();
        let count = || Event::Frames(frames.iter().map(|frames| frames.now()).sum::<FrameCount>());
        let serve = |(servers, io): (Servers, Counted<Faulty<Device>>),
                     channels: &mut Channels,
                     steps: &mut Option<Steps>| {
            let waker = match steps {
                Some(steps) => Some(steps.turns().waker().clone()),
                None => (!channels.is_empty()).then(|| waker.clone()),
            };
            let (next, count) = (Instant::now(), &count);
            let mut attendant = Telling { steps: steps.as_mut(), tell, count, next };
            let io = Box::new(io) as Box<dyn FrameIo>;
            let ended = serve(servers, channels, io, waker, &over, board, &mut attendant);
            // The other threads end, too, after an error.
            let servers = ended.inspect_err(|_| over.store(true, Ordering::Relaxed))?;
            tell(&count());
            tell(&Event::done(servers.reports()));
            anyhow::Ok(())
        };
        let mut threads = servers.into_iter().zip(ports);
        let first = threads.next().context("a host has a port")?;
        thread::scope(|scope| {
            let start = |thread| {
                let serve = || serve(thread, &mut Channels::default(), &mut None);
                thread::Builder::new().name("ps".into()).spawn_scoped(scope, serve)
            };
            let others = threads.map(start).collect::<io::Result<Vec<_>>>();
            let others = others.context("cannot start a thread");
            if others.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            let first = serve(first, &mut channels, &mut steps);
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

/// Tells what happens to the servers of a thread, and changes those of jobs with iterations.
struct Telling<'a> {
    steps: Option<&'a mut Steps>,
    tell: &'a (dyn Fn(&Event) + Sync),
    /// The frames of the host so far.
    count: &'a (dyn Fn() -> Event + Sync),
    /// When they are told next.
    next: Instant,
}

impl Attendant for Telling<'_> {
    fn look(&mut self, servers: &mut Servers) {
        if let Some(steps) = &mut self.steps {
            steps.look(servers, self.tell);
        }
        let now = Instant::now();
        if now >= self.next {
            self.next = now + PERIOD;
            (self.tell)(&(self.count)());
        }
    }

    fn hear(&mut self, job: JobId, event: server::Event) {
        (self.tell)(&Event::of(job, &event));
    }
}
