//! `tributary reminder`: the reminder agent of the jobs whose `agent` is this host.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tributary_jobfile::{HostId, Job, Scenario};
use tributary_netio::Waker;
use tributary_protocol::Timing;
use tributary_protocol::esa::Agent;

use crate::args::PsArgs;
use crate::channel;
use crate::claim::claim;
use crate::report::AgentReport;
use crate::runs::{self, Follower};
use crate::settings;

/// What an agent tells while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The agent listens.
    Ready,
    /// The agent has ended.
    Done {
        /// What it did, by the job's ID.
        agents: Vec<(u16, AgentReport)>,
    },
}

impl Event {
    /// What an agent did.
    pub(crate) fn done(agent: &Agent) -> Self {
        let agents = agent.stats().map(|(job, stats)| (job.get(), stats.into()));
        Self::Done { agents: agents.collect() }
    }
}

/// The agent of the jobs that a scenario gives a host; `None` if there are none.
///
/// # Errors
/// If their settings contradict each other.
pub(crate) fn agent(scenario: &Scenario, host: HostId) -> Result<Option<Agent>> {
    let jobs: Vec<&Job> =
        channel::agent_jobs(scenario, host).filter(|job| job.ps != Some(host)).collect();
    if jobs.is_empty() {
        return Ok(None);
    }
    let mut agent = Agent::new(Timing::default())?;
    for job in jobs {
        agent.add_job(channel::agent_job(scenario, job)?)?;
    }
    Ok(Some(agent))
}

/// Runs the agent until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    let mut scenario = settings::load_endpoint(&args.endpoint)?;
    let host = settings::host(&scenario, &args.host)?;
    if agent(&scenario, host)?.is_none() {
        bail!(
            "no job of the file has its reminder agent on host `{}` alone; write `agent = \"{}\"` \
             in a job, or leave the agent to `tributary ps`",
            args.host,
            args.host
        );
    }
    let tokens = settings::tokens(&args.endpoint)?;
    let tell = |event: &Event| {
        if args.endpoint.json_events {
            say!("{}", serde_json::to_string(event).expect("events are plain data"));
            return;
        }
        match event {
            Event::Ready => say!("listening; end with Ctrl-C"),
            Event::Done { agents } => {
                for (job, report) in agents {
                    say!(
                        "job {job}: {} reminders of workers, {} reminders to switches, {} of them \
                         fetched a partial sum",
                        report.reminded,
                        report.reminders,
                        report.fetched
                    );
                }
            }
        }
    };
    let stop = settings::stop_flag()?;
    let jobs = channel::agent_jobs(&scenario, host);
    let _claim = claim(&args.endpoint.interface, "reminder agent", jobs)?;
    let waker = Waker::new();
    let address = channel::agent_address(&scenario, host);
    while !stop.load(Ordering::Relaxed) {
        let io = settings::open_interface(&scenario, host, &args.endpoint)?;
        for job in scenario.jobs.iter_mut().filter(|job| job.agent == Some(host)) {
            job.epoch = runs::join(&args.endpoint, job, None, &stop, |_| {})?;
        }
        let agent = agent(&scenario, host)?.context("looked at above")?;
        let hub = channel::hub(&scenario, host, &tokens, address, waker.clone())?;
        let mut hub = hub.context("an agent has jobs")?;
        let jobs = channel::agent_jobs(&scenario, host);
        let follower = Follower::start(&args.endpoint, jobs, &stop)?;
        tell(&Event::Ready);
        let over = follower.over();
        let agent = tributary_reminder::serve(agent, &mut hub, io, waker.clone(), over)?;
        tracing::info!("peers: {:?}", hub.stats());
        tell(&Event::done(&agent));
    }
    Ok(())
}
