//! `tributary worker`: one worker of a job on this host.

use anyhow::Result;
use tributary_metrics::Metrics;
use tributary_wire::name_workers;
use tributary_worker::daemon::{self, Which};
use tributary_worker::rounding;
use tributary_worker::rounds::Event;

use crate::args::WorkerArgs;
use tributary_base::program::stop_flag;

/// Runs the worker to its end.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &WorkerArgs, metrics: &Metrics) -> Result<()> {
    let tell = |event: &Event| {
        if args.endpoint.json_events {
            tributary_base::say!(
                "{}",
                serde_json::to_string(event).expect("events are plain data")
            );
            return;
        }
        match event {
            Event::Waiting { missing } if missing.is_empty() => {
                tributary_base::say!("all workers have joined")
            }
            Event::Waiting { missing } => {
                let workers = name_workers(missing.iter().copied());
                tributary_base::say!("waiting for {workers} to join the run");
            }
            Event::Unadmitted { reason } => {
                tributary_base::say!("waiting for the controller: {reason}");
            }
            Event::Iteration { number, mode, service, size } => {
                tributary_base::say!(
                    "iteration {number}: {mode}, service {service}, {size} aggregators"
                );
            }
            Event::Round { done, of, note, .. } => {
                tributary_base::say!(
                    "round {done} of {of}  {}",
                    note.as_deref().unwrap_or_default()
                );
            }
            Event::GoesOn(loss) => tributary_base::say!("the job {loss}"),
            Event::Done(_) | Event::Failed { .. } => {}
        }
    };
    let which = Which {
        job: &args.job,
        key: args.job_key.map_or_else(Vec::new, |key| key.0.to_vec()),
        worker: args.worker,
        host: args.host.as_deref(),
        seed: args.seed,
    };
    match daemon::run(&args.endpoint, which, &stop_flag()?, metrics, &tell) {
        Ok(report) => {
            if !args.endpoint.json_events {
                tributary_base::say!(
                    "{} values summed, {} of them compared with sums computed separately; {} packets, \
                     {} resends",
                    report.values,
                    report.verified,
                    report.stats.sent,
                    report.stats.resent
                );
                if let Some(digest) = &report.digest {
                    tributary_base::say!("digest of all sums: {digest}");
                }
                if let Some(rounding) = rounding::text(&report.stats.rounding) {
                    tributary_base::say!("{rounding}");
                }
            }
            tell(&Event::Done(Box::new(report)));
            Ok(())
        }
        Err(error) => {
            tell(&Event::Failed { reason: tributary_base::one_line(error.as_ref()) });
            Err(error)
        }
    }
}
