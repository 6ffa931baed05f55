//! `tributary worker`: one worker of a job file on this host.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tributary_job::rounds::{Event, WorkerReport};
use tributary_job::worker::{self, Port};
use tributary_job::workload::{Verifier, need};
use tributary_job::{alone, channel, names};
use tributary_jobfile::Job;
use tributary_netio::Waker;
use tributary_wire::{Bitmap, WorkerIndex};

use crate::args::WorkerArgs;
use crate::claim::claim;
use crate::runs;
use crate::settings;

/// Runs the worker to its end.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &WorkerArgs) -> Result<()> {
    let tell = |event: &Event| {
        if args.endpoint.json_events {
            say!("{}", serde_json::to_string(event).expect("events are plain data"));
            return;
        }
        match event {
            Event::Waiting { missing } if missing.is_empty() => say!("all workers have joined"),
            Event::Waiting { missing } => say!("waiting for workers {missing:?} to join the run"),
            Event::Round { done, of, note } => {
                say!("round {done} of {of}  {}", note.as_deref().unwrap_or_default());
            }
            Event::Done(_) | Event::Failed { .. } => {}
        }
    };
    let outcome = work(args, &tell);
    match outcome {
        Ok(event) => {
            tell(&event);
            if let (Event::Done(report), false) = (&event, args.endpoint.json_events) {
                say!(
                    "{} values summed, {} of them compared with sums computed apart; {} packets, \
                     {} resends",
                    report.values,
                    report.verified,
                    report.packets,
                    report.resends
                );
                if let Some(rounding) = report.rounding.text() {
                    say!("{rounding}");
                }
            }
            Ok(())
        }
        Err(error) => {
            tell(&Event::Failed { reason: tributary_job::one_line(&error) });
            Err(error)
        }
    }
}

fn work(args: &WorkerArgs, tell: &dyn Fn(&Event)) -> Result<Event> {
    let mut deployment = settings::load_endpoint(&args.endpoint)?;
    let scenario = deployment.scenario().clone();
    let at = names::job(&scenario, args.job.as_deref())?;
    let job = &scenario.jobs[at];
    let Some(&host) = job.workers.get(usize::from(args.worker)) else {
        bail!("job {} has workers 0 to {}, not {}", job.name, job.workers.len() - 1, args.worker);
    };
    let index = WorkerIndex::new(args.worker).context("a job has at most 32 workers")?;
    need::check_worker(job)?;
    let stop = settings::stop_flag()?;
    let warn = |job: &Job, report: WorkerReport| {
        if !args.endpoint.json_events
            && let Some(complaint) = report.rounding.complaint(job, report.rounding.greatest)
        {
            tracing::warn!("job {}: {complaint}", job.name);
        }
        Ok(Event::Done(Box::new(report)))
    };
    let verifier = Verifier::new(job, scenario.switch.values_per_packet, 1);
    if args.alone {
        let report = alone::work(&Arc::new(deployment), at, verifier, &stop, |event| tell(&event))?;
        return warn(job, report);
    }
    let tokens = settings::tokens(&args.endpoint)?;
    let address = |agent| channel::agent_address(&scenario, agent);
    // What is wrong with its token is said before the worker takes its place in the run.
    channel::worker_link(&scenario, job, index, &tokens, address)?;
    let _claim = claim(&args.endpoint.interface, "worker", [job])?;
    let io = settings::open_interface(&scenario, host, &args.endpoint)?;
    let waiting = |missing: Bitmap| {
        tell(&Event::Waiting { missing: missing.iter().map(WorkerIndex::get).collect() });
    };
    let epoch = runs::join(&args.endpoint, job, Some(index), &stop, waiting)?;
    deployment.set_epoch(at, epoch);
    let job = deployment.job(at);
    let link = channel::worker_link(deployment.scenario(), job, index, &tokens, address)?;
    // Who reads events has started the parameter server, too, and sees whether it lives.
    let may_be_replaced = !args.endpoint.json_events;
    let port = Port { io, waker: Waker::new(), link, may_be_replaced };
    let deployment = Arc::new(deployment);
    let tell = |event| tell(&event);
    let report = worker::work(&deployment, at, index, port, verifier, &stop, tell)?;
    warn(deployment.job(at), report)
}
