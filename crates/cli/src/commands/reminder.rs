//! `tributary reminder`: the reminder agent of the jobs whose `agent` is this host.

use anyhow::Result;
use tributary_metrics::Metrics;
use tributary_ps::report::Event;
use tributary_reminder::daemon::{self, Event as Told};

use crate::args::PsArgs;
use tributary_base::program::{self, stop_flag};

/// Runs the agent until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &PsArgs, metrics: &Metrics) -> Result<()> {
    let tell = |told: Told<'_>| {
        if matches!(told, Told::Idle | Told::Ready) {
            program::ready();
        }
        if args.endpoint.json_events {
            let event = match told {
                Told::Idle => Event::Idle,
                Told::Ready => Event::Ready,
                Told::Done(backend) => Event::backend(backend),
            };
            tributary_base::say!(
                "{}",
                serde_json::to_string(&event).expect("events are plain data")
            );
            return;
        }
        match told {
            Told::Idle => {
                tributary_base::say!("no job has its reminder agent here yet; end with Ctrl-C")
            }
            Told::Ready => tributary_base::say!("listening; end with Ctrl-C"),
            Told::Done(backend) => {
                for (job, stats) in backend.agent().stats() {
                    tributary_base::say!(
                        "job {job}: {} reminders of workers, {} reminders to switches, {} of them \
                         fetched a partial sum",
                        stats.reminded,
                        stats.reminders,
                        stats.fetched
                    );
                }
            }
        }
    };
    daemon::run(&args.endpoint, args.host.as_deref(), &stop_flag()?, metrics, &tell)
}
