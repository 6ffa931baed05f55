//! `tributary reminder`: the reminder agent of the jobs whose `agent` is this host.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use tributary_job::servers::Event;
use tributary_job::{channel, names};
use tributary_jobfile::Job;
use tributary_netio::Waker;

use crate::args::PsArgs;
use crate::claim::claim;
use crate::runs::{self, Follower};
use crate::settings;

/// Runs the agent until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    let mut deployment = settings::load_endpoint(&args.endpoint)?;
    let scenario = deployment.scenario().clone();
    let host = names::host(&scenario, &args.host)?;
    if channel::agent(&deployment, host)?.is_none() {
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
            Event::Stalled { .. } => {}
            Event::Done { agents, .. } => {
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
    let own = |job: &&Job| job.agent == Some(host);
    let jobs = scenario.jobs.iter().filter(own);
    let _claim = claim(&args.endpoint.interface, "reminder agent", jobs)?;
    let waker = Waker::new();
    let address = channel::agent_address(&scenario, host);
    while !stop.load(Ordering::Relaxed) {
        let io = settings::open_interface(&scenario, host, &args.endpoint)?;
        runs::join_all(&args.endpoint, &mut deployment, own, &stop)?;
        let scenario = deployment.scenario();
        let agent = channel::agent(&deployment, host)?.context("looked at above")?;
        let hub = channel::hub(scenario, host, &tokens, address, waker.clone())?;
        let mut hub = hub.context("an agent has jobs")?;
        let jobs = scenario.jobs.iter().filter(own);
        let follower = Follower::start(&args.endpoint, jobs, &stop)?;
        tell(&Event::Ready);
        let over = follower.over();
        let agent = tributary_reminder::serve(agent, &mut hub, io, waker.clone(), over)?;
        tracing::info!("peers: {:?}", hub.stats());
        tell(&Event::backend(&agent));
    }
    Ok(())
}
