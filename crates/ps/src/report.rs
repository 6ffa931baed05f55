//! Events and reports of parameter servers and reminder agents.

use std::ops::Add;

use serde::{Deserialize, Serialize};
use tributary_netio::FrameCount;
use tributary_protocol::esa::Backend;
use tributary_protocol::esa::agent::Stats as AgentStats;
use tributary_protocol::{esa, server};
use tributary_wire::JobId;

/// An event of a host's servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The servers accept packets.
    Ready,
    /// The host has no job to serve.
    Idle,
    /// A client has admitted a job with iterations whose server is here, or has moved it.
    Serving {
        /// The job's ID.
        job: u16,
        /// Its run.
        epoch: u32,
        /// The service ID; 0 if switches only forward.
        service: u8,
    },
    /// A fragment has waited too long for some workers.
    Stalled {
        /// The job's ID.
        job: u16,
        /// Indices of the workers whose values are missing.
        missing: Vec<u16>,
        /// How long, in seconds.
        seconds: f64,
        /// Whether the values of all workers are missing: no packets come from the switch.
        quiet: bool,
    },
    /// Frames at the host's end of its link so far.
    Frames(FrameCount),
    /// The servers and agents have ended.
    Done {
        /// The report of each server, by job ID; it includes the agent's if they share a process.
        servers: Vec<(u16, ServerReport)>,
        /// The report of each agent on a host of its own, by job ID.
        agents: Vec<(u16, AgentStats)>,
    },
}

impl Event {
    /// Converts an event of a server.
    #[must_use]
    pub fn of(job: JobId, event: &server::Event) -> Self {
        let server::Event::Stalled { missing, waited, quiet, .. } = event;
        Self::Stalled {
            job: job.get(),
            missing: missing.iter().map(|worker| worker.get()).collect(),
            seconds: waited.as_secs_f64(),
            quiet: *quiet,
        }
    }

    /// The end of a host's [servers](crate::Servers), with their reports.
    #[must_use]
    pub fn done(reports: impl Iterator<Item = (JobId, ServerReport)>) -> Self {
        let servers = reports.map(|(job, report)| (job.get(), report)).collect();
        Self::Done { servers, agents: Vec::new() }
    }

    /// The reports of an ESA backend's servers and agent.
    #[must_use]
    pub fn backend(backend: &Backend) -> Self {
        let (mut servers, mut agents) = (Vec::new(), Vec::new());
        for (job, server, agent) in backend.stats() {
            let agent = agent.copied();
            match (server, agent) {
                (Some(stats), agent) => {
                    let stats = Stats::Esa(*stats);
                    servers.push((job.get(), ServerReport { stats, agent }));
                }
                (None, Some(agent)) => agents.push((job.get(), agent)),
                (None, None) => {}
            }
        }
        Self::Done { servers, agents }
    }
}

/// The report of a parameter server for a job.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its counters.
    #[serde(flatten)]
    pub stats: Stats,
    /// The counters of the job's reminder agent (ESA), wherever it ran.
    pub agent: Option<AgentStats>,
}

/// The counters of a parameter server. Readers tell the two kinds apart by their fields.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stats {
    /// A server of any protocol but ESA.
    Plain(server::Stats),
    /// An ESA server.
    Esa(esa::server::Stats),
}

impl Default for Stats {
    fn default() -> Self {
        Self::Plain(server::Stats::default())
    }
}

impl Stats {
    /// Fragments completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        match self {
            Self::Plain(stats) => stats.completed,
            Self::Esa(stats) => stats.completed,
        }
    }

    /// Fragments completed by one packet: the switches summed them alone. With ESA these do not
    /// come to the server.
    #[must_use]
    pub fn complete_on_arrival(&self) -> u64 {
        match self {
            Self::Plain(stats) => stats.complete_on_arrival,
            Self::Esa(_) => 0,
        }
    }

    /// Packets merged; with ESA also messages over TCP.
    #[must_use]
    pub fn merged(&self) -> u64 {
        match self {
            Self::Plain(stats) => stats.merged,
            Self::Esa(stats) => stats.merged,
        }
    }

    /// Fragments with a packet that collided with another task (ATP).
    #[must_use]
    pub fn collisions(&self) -> u64 {
        match self {
            Self::Plain(stats) => stats.collisions,
            Self::Esa(_) => 0,
        }
    }

    /// Fragments collected in floating point.
    #[must_use]
    pub fn overflow_tasks(&self) -> u64 {
        match self {
            Self::Plain(stats) => stats.overflow_tasks,
            Self::Esa(stats) => stats.overflow_tasks,
        }
    }
}

/// Combines the lanes of a job.
impl Add for ServerReport {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let stats = match (self.stats, other.stats) {
            (Stats::Plain(mut stats), Stats::Plain(other)) => {
                stats += other;
                Stats::Plain(stats)
            }
            (Stats::Esa(mut stats), Stats::Esa(other)) => {
                stats += other;
                Stats::Esa(stats)
            }
            _ => unreachable!("the lanes of a job have one protocol"),
        };
        let agent = match (self.agent, other.agent) {
            (Some(mut agent), Some(other)) => {
                agent += other;
                Some(agent)
            }
            (one, other) => one.or(other),
        };
        Self { stats, agent }
    }
}

impl ServerReport {
    /// Fraction of the additions for `fragments` fragments that switches performed. A fragment of n
    /// workers needs n − 1 additions. The parameter server performs one per merged packet, except
    /// for the first packet of each fragment that it completes. `None` if there was nothing to add.
    #[must_use]
    pub fn summed_in_network(&self, fragments: u64, workers: usize) -> Option<f64> {
        let needed = fragments * (workers as u64 - 1);
        let by_server = self.stats.merged().saturating_sub(self.stats.completed()).min(needed);
        (needed > 0).then(|| 1.0 - by_server as f64 / needed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_the_additions_made_in_the_network() {
        let server = |completed, merged| ServerReport {
            stats: Stats::Plain(server::Stats { completed, merged, ..server::Stats::default() }),
            agent: None,
        };
        // 10 fragments of 4 workers: 30 additions. 8 arrive complete; the parameter server merged 2
        // partial sums of the ninth and 4 packets of the tenth.
        let share = server(10, 14).summed_in_network(10, 4).unwrap();
        assert!((share - 26.0 / 30.0).abs() < 1e-12, "{share}");
        assert_eq!(server(10, 14).summed_in_network(10, 1), None);
        // With ESA the parameter server does not see the eight.
        assert_eq!(server(2, 6).summed_in_network(10, 4), Some(share));
        // It may merge packets of fragments that a switch also completes.
        assert_eq!(server(0, 31).summed_in_network(10, 4), Some(0.0));
    }
    /// The two kinds of counters are read back as what they were.
    #[test]
    fn reports_make_the_round_trip() {
        let plain = Stats::Plain(server::Stats { merged: 3, ..server::Stats::default() });
        let esa = Stats::Esa(esa::server::Stats { brought: 4, ..esa::server::Stats::default() });
        let agent = AgentStats { reminded: 5, ..AgentStats::default() };
        for (stats, agent) in [(plain, None), (esa, None), (esa, Some(agent))] {
            let report = ServerReport { stats, agent };
            let json = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<ServerReport>(&json).unwrap(), report);
        }
    }
}
