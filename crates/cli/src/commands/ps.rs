//! `tributary ps`: the parameter servers that a job file places on this host.

use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use tributary_job::servers::Event;
use tributary_job::{channel, names};
use tributary_jobfile::{Job, Protocol};
use tributary_netio::Waker;

use crate::args::PsArgs;
use crate::claim::claim;
use crate::runs::{self, Follower};
use crate::settings;

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    let mut deployment = settings::load_endpoint(&args.endpoint)?;
    let scenario = deployment.scenario().clone();
    let host = names::host(&scenario, &args.host)?;
    if !scenario.jobs.iter().any(|job| job.ps == Some(host)) {
        bail!("no job of the file has its parameter server on host `{}`", args.host);
    }
    let tokens = settings::tokens(&args.endpoint)?;
    let (switch, _) = scenario.topology.attachment(host);
    let switch = &scenario.topology.switch(switch).name;
    let tell = |event: &Event| {
        if args.endpoint.json_events {
            say!("{}", serde_json::to_string(event).expect("events are plain data"));
            return;
        }
        match event {
            Event::Ready => say!("serving on {}; end with Ctrl-C", args.endpoint.interface),
            Event::Stalled { job, seconds, quiet: true, .. } => {
                say!("job {job}: nothing has come for {seconds:.1} s; is switch {switch} up?");
            }
            Event::Stalled { job, missing, seconds, quiet: false } => {
                say!("job {job} waits for workers {missing:?} since {seconds:.1} s");
            }
            Event::Done { servers, .. } => {
                for (job, report) in servers {
                    match &report.agent {
                        None => say!(
                            "job {job}: {} fragments, {} of them summed by switches alone",
                            report.completed,
                            report.complete_on_arrival
                        ),
                        Some(agent) => say!(
                            "job {job}: {} fragments that switches did not finish, {} reminders",
                            report.completed,
                            agent.reminders
                        ),
                    }
                }
            }
        }
    };
    let stop = settings::stop_flag()?;
    let jobs = scenario.jobs.iter().filter(|job| job.ps == Some(host));
    let _claim = claim(&args.endpoint.interface, "parameter server", jobs)?;
    let waker = Waker::new();
    while !stop.load(Ordering::Relaxed) {
        let io = settings::open_interface(&scenario, host, &args.endpoint)?;
        let own = |job: &&Job| job.ps == Some(host);
        runs::join_all(&args.endpoint, &mut deployment, own, &stop)?;
        let scenario = deployment.scenario();
        let servers = channel::servers(&deployment, host)?;
        let at = |agent| channel::agent_address(scenario, agent);
        let hub = channel::hub(scenario, host, &tokens, at(host), waker.clone())?;
        let mut channels = channel::channels(scenario, host, &tokens, hub, &waker, at)?;
        // Servers of the other protocols detect a new run by its packets.
        let esa = |job: &&Job| job.ps == Some(host) && job.protocol == Protocol::Esa;
        let follower = Follower::start(&args.endpoint, scenario.jobs.iter().filter(esa), &stop)?;
        tell(&Event::Ready);
        let report = |job, event| tell(&Event::of(job, &event));
        let over = follower.over();
        let servers = tributary_ps::serve(servers, &mut channels, io, waker.clone(), over, report)?;
        if let Some(hub) = channels.hub() {
            tracing::info!("peers: {:?}", hub.stats());
        }
        tell(&Event::done(&servers));
    }
    Ok(())
}
