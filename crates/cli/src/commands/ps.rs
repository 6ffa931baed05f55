//! `tributary ps`: the parameter servers of the jobs that have them on this host.

use anyhow::Result;
use tributary_metrics::Metrics;
use tributary_ps::report::{Event, ServerReport};
use tributary_wire::name_workers;

use crate::args::PsArgs;
use tributary_base::program::{self, stop_flag};

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &PsArgs, metrics: &Metrics) -> Result<()> {
    let tell = |event: &Event, switch: &str| {
        if matches!(event, Event::Idle | Event::Ready) {
            program::ready();
        }
        if args.endpoint.json_events {
            tributary_base::say!(
                "{}",
                serde_json::to_string(event).expect("events are plain data")
            );
            return;
        }
        match event {
            Event::Idle => {
                tributary_base::say!("no job has its parameter server here yet; end with Ctrl-C")
            }
            Event::Ready => {
                tributary_base::say!("serving on {}; end with Ctrl-C", args.endpoint.interface)
            }
            Event::Stalled { job, seconds, quiet: true, .. } => {
                tributary_base::say!(
                    "job {job}: nothing has come for {seconds:.1} s; is switch {switch} up?"
                );
            }
            Event::Stalled { job, missing, seconds, quiet: false } => {
                let workers = name_workers(missing.iter().copied());
                tributary_base::say!("job {job} waits for {workers} since {seconds:.1} s");
            }
            Event::Serving { job, epoch, service } => {
                tributary_base::say!("job {job}: serving run {epoch}, service {service}");
            }
            // For the run that started this process.
            Event::Frames(_) => {}
            Event::Done { servers, .. } => {
                servers.iter().for_each(|(job, report)| count(*job, report));
            }
        }
    };
    tributary_ps::daemon::run(&args.endpoint, args.host.as_deref(), &stop_flag()?, metrics, &tell)
}

fn count(job: u16, report: &ServerReport) {
    match &report.agent {
        None => tributary_base::say!(
            "job {job}: {} fragments, {} of them summed by switches alone",
            report.stats.completed(),
            report.stats.complete_on_arrival()
        ),
        Some(agent) => tributary_base::say!(
            "job {job}: {} fragments that switches did not finish, {} reminders",
            report.stats.completed(),
            agent.reminders
        ),
    }
}
