//! Events and reports of parameter servers and reminder agents.

use serde::{Deserialize, Serialize};
use tributary_protocol::esa::Backend;
use tributary_protocol::{esa, server};

use crate::{Servers, Stats};

/// An event of a host's servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The servers accept packets.
    Ready,
    /// A fragment has waited too long for some workers.
    Stalled {
        /// The job's ID.
        job: u16,
        /// Indices of the workers whose values are missing.
        missing: Vec<u8>,
        /// How long, in seconds.
        seconds: f64,
        /// Whether the values of all workers are missing: no packets come from the switch.
        quiet: bool,
    },
    /// The servers and agents have ended.
    Done {
        /// The report of each server, by job ID; it includes the agent's if they share a process.
        servers: Vec<(u16, ServerReport)>,
        /// The report of each agent on a host of its own, by job ID.
        agents: Vec<(u16, AgentReport)>,
    },
}

impl Event {
    /// Converts an event of a server.
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

    /// The reports of a host's servers.
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

    /// The reports of an ESA backend's servers and agent.
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

/// The report of a parameter server for a job.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ServerReport {
    /// Fragments completed.
    pub completed: u64,
    /// Fragments completed by one packet: the switches summed them alone.
    pub complete_on_arrival: u64,
    /// Packets merged; with ESA also messages over TCP.
    pub merged: u64,
    /// Fragments with a packet that collided with another task (ATP).
    pub collisions: u64,
    /// Fragments collected in floating point.
    pub overflows: u64,
    /// Partial sums dropped because they overlapped with merged values.
    pub overlaps: u64,
    /// Results sent to one worker: repeated (ATP), or over TCP (ESA).
    pub replies: u64,
    /// Queries to workers for a fragment (ATP; with ESA the reminder agent asks).
    pub queries: u64,
    /// The report of the job's reminder agent (ESA), wherever it ran.
    pub agent: Option<AgentReport>,
}

/// The report of the reminder agent for a job (ESA).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct AgentReport {
    /// Reminders from workers.
    pub reminded: u64,
    /// Reminder packets sent to switches.
    pub reminders: u64,
    /// Reminder packets answered with a partial sum.
    pub fetched: u64,
    /// Reminder packets answered with "nothing here". The others, or their answers, were lost.
    pub absent: u64,
    /// Queries to workers for a fragment.
    pub queries: u64,
    /// Queries answered with the worker's values.
    pub values: u64,
    /// Queries answered with the result, which the worker had.
    pub results: u64,
}

impl From<&esa::agent::Stats> for AgentReport {
    fn from(stats: &esa::agent::Stats) -> Self {
        Self {
            reminded: stats.reminded,
            reminders: stats.reminders,
            fetched: stats.fetched,
            absent: stats.absent,
            queries: stats.queries,
            values: stats.values,
            results: stats.results,
        }
    }
}

impl From<&esa::server::Stats> for ServerReport {
    fn from(stats: &esa::server::Stats) -> Self {
        Self {
            completed: stats.completed,
            complete_on_arrival: 0,
            merged: stats.merged,
            collisions: 0,
            overflows: stats.overflow_tasks,
            overlaps: stats.overlaps,
            replies: stats.deliveries,
            queries: 0,
            agent: None,
        }
    }
}

impl From<&server::Stats> for ServerReport {
    fn from(stats: &server::Stats) -> Self {
        Self {
            completed: stats.completed,
            complete_on_arrival: stats.complete_on_arrival,
            merged: stats.merged,
            collisions: stats.collisions,
            overflows: stats.overflow_tasks,
            overlaps: stats.overlaps,
            replies: stats.replies,
            queries: stats.queries,
            agent: None,
        }
    }
}

impl ServerReport {
    /// Fraction of the additions for `fragments` fragments that switches performed. A fragment of n
    /// workers needs n − 1 additions. The parameter server performs one per merged packet, except
    /// for the first packet of each fragment that it completes. `None` if there was nothing to add.
    #[must_use]
    pub fn summed_in_network(&self, fragments: u64, workers: usize) -> Option<f64> {
        let needed = fragments * (workers as u64 - 1);
        let by_server = self.merged.saturating_sub(self.completed).min(needed);
        (needed > 0).then(|| 1.0 - by_server as f64 / needed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_the_additions_made_in_the_network() {
        // 10 fragments of 4 workers: 30 additions. 8 arrive complete; the parameter server merged 2
        // partial sums of the ninth and 4 packets of the tenth.
        let server = ServerReport { completed: 10, merged: 14, ..ServerReport::default() };
        let share = server.summed_in_network(10, 4).unwrap();
        assert!((share - 26.0 / 30.0).abs() < 1e-12, "{share}");
        assert_eq!(server.summed_in_network(10, 1), None);
        // With ESA the parameter server does not see the eight.
        let server = ServerReport { completed: 2, merged: 6, ..ServerReport::default() };
        assert_eq!(server.summed_in_network(10, 4), Some(share));
        // It may merge packets of fragments that a switch also completes.
        let server = ServerReport { completed: 0, merged: 31, ..ServerReport::default() };
        assert_eq!(server.summed_in_network(10, 4), Some(0.0));
    }
}
