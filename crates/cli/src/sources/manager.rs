//! The jobs and servers of a placement manager.

use std::fmt;

use tokio::sync::watch;
use tributary_manager::job::Phase;
use tributary_manager::shell::View;
use tributary_metrics::{Page, Source};

/// A placement manager.
#[derive(Debug)]
pub(crate) struct Managed(pub(crate) watch::Receiver<View>);

const PHASES: [&str; 6] = ["waiting", "running", "ending", "finished", "failed", "cancelled"];

fn phase(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Running(_) => "running",
        Phase::Ending(..) => "ending",
        Phase::Finished(_) => "finished",
        Phase::Failed(_) => "failed",
        Phase::Cancelled => "cancelled",
    }
}

impl Source for Managed {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let View { jobs, servers, .. } = self.0.borrow().clone();
        let count = |name| jobs.values().filter(|job| phase(&job.phase) == name).count() as f64;
        page.gauge(
            "tributary_manager_jobs",
            "Jobs by state; those that are over are kept up to a number (--keep)",
            PHASES.map(|name| ([("state", name.to_owned())], count(name))),
        )?;
        let held = jobs.values().filter_map(|job| job.phase.run());
        let used: u32 = held.flat_map(|run| &run.tasks).map(|task| task.gpus).sum();
        page.gauge(
            "tributary_manager_gpus_in_use",
            "GPUs that jobs hold",
            [([], f64::from(used))],
        )?;
        page.gauge(
            "tributary_manager_gpus",
            "GPUs of a server",
            servers.iter().map(|it| ([("server", it.name.clone())], f64::from(it.gpus))),
        )?;
        page.gauge(
            "tributary_manager_agent_up",
            "Whether the agent of a server is connected",
            servers.iter().map(|server| {
                ([("server", server.name.clone())], if server.present { 1.0 } else { 0.0 })
            }),
        )
    }
}
