//! What parameter servers and reminder agents report.

use serde::{Deserialize, Serialize};
use tributary_protocol::esa::Backend;
use tributary_protocol::server;
use tributary_ps::{Servers, Stats};

use crate::report::{AgentReport, ServerReport};

/// What the servers of a host tell while they run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
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
    /// The servers and agents have ended.
    Done {
        /// What each server did, by the job's ID; with what its agent did if they share a process.
        servers: Vec<(u16, ServerReport)>,
        /// What each agent on a host of its own did, by the job's ID.
        agents: Vec<(u16, AgentReport)>,
    },
}

impl Event {
    /// From an event of a server.
    #[must_use]
    pub fn of(job: tributary_wire::JobId, event: &server::Event) -> Self {
        let server::Event::Stalled { missing, waited, quiet, .. } = event;
        Self::Stalled {
            job: job.get(),
            missing: missing.iter().map(|worker| worker.get()).collect(),
            seconds: waited.as_secs_f64(),
            quiet: *quiet,
        }
    }

    /// What a host's servers did.
    #[must_use]
    pub fn done(servers: &Servers) -> Self {
        let report = |stats: Stats<'_>| match stats {
            Stats::Plain(stats) => stats.into(),
            Stats::Esa(stats, agent) => {
                ServerReport { agent: agent.map(Into::into), ..stats.into() }
            }
        };
        let reports = servers.stats().map(|(job, stats)| (job.get(), report(stats)));
        Self::Done { servers: reports.collect(), agents: Vec::new() }
    }

    /// What the servers and the agent of an ESA backend did.
    #[must_use]
    pub fn backend(backend: &Backend) -> Self {
        let (mut servers, mut agents) = (Vec::new(), Vec::new());
        for (job, server, agent) in backend.stats() {
            let agent = agent.map(AgentReport::from);
            match (server, agent) {
                (Some(stats), agent) => {
                    servers.push((job.get(), ServerReport { agent, ..stats.into() }));
                }
                (None, Some(agent)) => agents.push((job.get(), agent)),
                (None, None) => {}
            }
        }
        Self::Done { servers, agents }
    }
}
