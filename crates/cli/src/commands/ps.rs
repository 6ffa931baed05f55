//! `tributary ps`: the parameter servers that a job file places on this host.

use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tributary_jobfile::{Job, Protocol};
use tributary_netio::Waker;
use tributary_protocol::server;
use tributary_ps::{Servers, Stats};

use crate::args::PsArgs;
use crate::channel;
use crate::claim::claim;
use crate::report::ServerReport;
use crate::runs::{self, Follower};
use crate::settings;

/// What the servers of a host tell while they run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The servers take packets.
    Ready,
    /// A fragment has waited too long for some workers.
    Stalled {
        /// The job's ID.
        job: u16,
        /// Indices of the workers that were not heard of.
        missing: Vec<u8>,
        /// For how many seconds.
        seconds: f64,
        /// Whether no worker at all was heard of: nothing comes from the switch.
        quiet: bool,
    },
    /// The servers have ended.
    Done {
        /// What each did, by the job's ID.
        reports: Vec<(u16, ServerReport)>,
    },
}

impl Event {
    /// From what a server has to say.
    pub(crate) fn of(job: tributary_wire::JobId, event: &server::Event) -> Self {
        let server::Event::Stalled { missing, waited, quiet, .. } = event;
        Self::Stalled {
            job: job.get(),
            missing: missing.iter().map(|worker| worker.get()).collect(),
            seconds: waited.as_secs_f64(),
            quiet: *quiet,
        }
    }

    /// What a host's servers did.
    pub(crate) fn done(servers: &Servers) -> Self {
        let report = |stats: Stats<'_>| match stats {
            Stats::Plain(stats) => stats.into(),
            Stats::Esa(stats, agent) => {
                ServerReport { agent: agent.map(Into::into), ..stats.into() }
            }
        };
        let reports = servers.stats().map(|(job, stats)| (job.get(), report(stats)));
        Self::Done { reports: reports.collect() }
    }
}

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    let mut scenario = settings::load_endpoint(&args.endpoint)?;
    let host = settings::host(&scenario, &args.host)?;
    if !scenario.jobs.iter().any(|job| job.ps == Some(host)) {
        bail!("no job of the file has its parameter server on host `{}`", args.host);
    }
    let tokens = settings::tokens(&args.endpoint)?;
    let switch = settings::switch_of(&scenario, host).to_owned();
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
            Event::Done { reports } => {
                for (job, report) in reports {
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
        for job in scenario.jobs.iter_mut().filter(|job| job.ps == Some(host)) {
            job.epoch = runs::join(&args.endpoint, job, None, &stop, |_| {})?;
        }
        let servers = channel::servers(&scenario, host)?;
        let at = |agent| channel::agent_address(&scenario, agent);
        let hub = channel::hub(&scenario, host, &tokens, at(host), waker.clone())?;
        let mut channels = channel::channels(&scenario, host, &tokens, hub, &waker, at)?;
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
