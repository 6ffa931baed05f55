//! The numbers of an agent, for metrics.

use std::fmt;

use tributary_metrics::{Board, Page, Source};

/// What an agent has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Whether the manager has registered it.
    pub(super) connected: bool,
    /// Processes that run.
    pub(super) processes: usize,
    /// Processes that were started.
    pub(super) started: u64,
    /// Those of them that did not succeed.
    pub(super) failed: u64,
}

/// The metrics of an agent.
#[derive(Debug)]
pub(super) struct Agents(pub(super) Board<Numbers>);

impl Source for Agents {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.0.read();
        let gauge = |what: fn(&Numbers) -> f64| all.iter().map(move |it| ([], what(it)));
        page.gauge(
            "tributary_place_agent_connected",
            "Whether the agent is registered at the manager",
            gauge(|numbers| if numbers.connected { 1.0 } else { 0.0 }),
        )?;
        page.gauge(
            "tributary_place_agent_processes",
            "Processes of jobs that run",
            gauge(|numbers| numbers.processes as f64),
        )?;
        page.counter(
            "tributary_place_agent_processes_started_total",
            "Processes of jobs that were started",
            all.iter().map(|numbers| ([], numbers.started)),
        )?;
        page.counter(
            "tributary_place_agent_processes_failed_total",
            "Processes of jobs that ended without success",
            all.iter().map(|numbers| ([], numbers.failed)),
        )
    }
}
