//! `tributary ps`: the parameter servers that a job file places on this host.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tributary_jobfile::{HostId, Scenario};
use tributary_protocol::server;
use tributary_ps::Servers;

use crate::args::PsArgs;
use crate::report::ServerReport;
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
        let server::Event::Stalled { missing, waited, .. } = event;
        Self::Stalled {
            job: job.get(),
            missing: missing.iter().map(|worker| worker.get()).collect(),
            seconds: waited.as_secs_f64(),
        }
    }

    /// What a host's servers did.
    pub(crate) fn done(servers: &Servers) -> Self {
        let reports = servers.stats().map(|(job, stats)| (job.get(), stats.into()));
        Self::Done { reports: reports.collect() }
    }
}

/// The servers that a scenario places on a host.
///
/// # Errors
/// If their settings contradict each other.
pub(crate) fn servers(scenario: &Scenario, host: HostId) -> Result<Servers> {
    let jobs = scenario.jobs.iter().filter(|job| job.ps == host);
    Ok(Servers::new(jobs.map(|job| scenario.ps_config(job)))?)
}

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    let scenario = settings::load(&args.endpoint.job_file, args.endpoint.seed)?;
    let host = scenario.topology.host_named(&args.host).with_context(|| {
        let names: Vec<_> = scenario.topology.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("there is no host `{}` in the file; it has {}", args.host, names.join(", "))
    })?;
    let servers = servers(&scenario, host)?;
    if servers.is_empty() {
        bail!("no job of the file has its parameter server on host `{}`", args.host);
    }
    let tell = |event: &Event| {
        if args.endpoint.json_events {
            println!("{}", serde_json::to_string(event).expect("events are plain data"));
            return;
        }
        match event {
            Event::Ready => println!("serving on {}; end with Ctrl-C", args.endpoint.interface),
            Event::Stalled { job, missing, seconds } => {
                println!("job {job} waits for workers {missing:?} since {seconds:.1} s");
            }
            Event::Done { reports } => {
                for (job, report) in reports {
                    println!(
                        "job {job}: {} fragments, {} of them summed by switches alone",
                        report.completed, report.complete_on_arrival
                    );
                }
            }
        }
    };
    let stop = settings::stop_flag()?;
    let io = settings::open_interface(&scenario, host, &args.endpoint.interface)?;
    tell(&Event::Ready);
    let servers =
        tributary_ps::serve(servers, io, &stop, |job, event| tell(&Event::of(job, &event)))?;
    tell(&Event::done(&servers));
    Ok(())
}
