//! The numbers of running parameter servers and reminder agents, for metrics and live views.

use std::fmt;
use std::time::Duration;

use tributary_metrics::{Board, Entry, Page, Schedule, Source};
use tributary_protocol::Time;
use tributary_protocol::esa::Backend;
use tributary_protocol::esa::agent::Stats as AgentStats;
use tributary_wire::JobId;

use crate::Servers;
use crate::report::Stats;

/// The servers and agents of a thread, by job.
pub type Numbers = Vec<JobNumbers>;

/// What the server and the agent of a job have counted so far.
#[derive(Clone, Debug)]
pub struct JobNumbers {
    /// The job.
    pub job: JobId,
    /// Its server, if that is here.
    pub server: Option<ServerNumbers>,
    /// Its reminder agent (ESA), if that is here.
    pub agent: Option<AgentStats>,
}

/// What the server of a job has counted so far.
#[derive(Clone, Debug)]
pub struct ServerNumbers {
    /// Its counters.
    pub stats: Stats,
    /// Fragments that have begun and are not complete.
    pub pending: usize,
    /// By worker, for how long a fragment has waited for it.
    pub gaps: Vec<Duration>,
}

/// Publishes the numbers of the servers and agents of a thread.
#[derive(Debug)]
pub struct Publisher {
    entry: Entry<Numbers>,
    schedule: Schedule,
}

impl Publisher {
    /// On a board.
    #[must_use]
    pub fn new(board: &Board<Numbers>) -> Self {
        Self { entry: board.post(Vec::new()), schedule: Schedule::default() }
    }

    /// In each turn: publishes what `numbers` returns if it is time to.
    #[inline]
    pub fn look(&mut self, now: Time, numbers: impl FnOnce() -> Numbers) {
        if self.schedule.is_due(Duration::from_nanos(now.as_nanos())) {
            let now = numbers();
            self.entry.update(|numbers| *numbers = now);
        }
    }
}

/// The servers and the agent of an ESA backend.
#[must_use]
pub fn of_backend(backend: &Backend, now: Time) -> Numbers {
    let numbers = backend.stats().map(|(job, stats, agent)| {
        let server = backend.server(job).zip(stats).map(|(server, stats)| ServerNumbers {
            stats: Stats::Esa(*stats),
            pending: server.pending_tasks(),
            gaps: server.gaps(now),
        });
        JobNumbers { job, server, agent: agent.copied() }
    });
    numbers.collect()
}

impl Servers {
    /// What its servers have counted so far.
    pub(crate) fn numbers(&self, now: Time) -> Numbers {
        let plain = self.plain().iter().map(|server| JobNumbers {
            job: server.config().job.job,
            server: Some(ServerNumbers {
                stats: Stats::Plain(*server.stats()),
                pending: server.pending_tasks(),
                gaps: server.gaps(now),
            }),
            agent: None,
        });
        plain.chain(of_backend(self.backend(), now)).collect()
    }
}

/// The metrics of all parameter servers and reminder agents on a board.
#[derive(Debug)]
pub struct Backends(pub Board<Numbers>);

impl Source for Backends {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let mut all: Vec<JobNumbers> = self.0.read().into_iter().flatten().collect();
        all.sort_by_key(|numbers| numbers.job);
        all.dedup_by_key(|numbers| numbers.job);
        write_servers(page, &all)?;
        write_agents(page, &all)
    }
}

type Label = (&'static str, String);

fn job(job: JobId) -> Label {
    ("job_id", job.get().to_string())
}

fn write_servers(page: &mut Page<'_>, all: &[JobNumbers]) -> fmt::Result {
    let servers: Vec<_> = all.iter().filter_map(|it| Some((it.job, it.server.as_ref()?))).collect();
    let outcomes = servers.iter().flat_map(|&(id, server)| {
        let arrived = server.stats.complete_on_arrival();
        let here = server.stats.completed() - arrived;
        [("arrived_complete", arrived), ("completed", here)]
            .map(|(outcome, count)| ([job(id), ("outcome", outcome.to_owned())], count))
    });
    page.counter(
        "tributary_server_fragments_total",
        "Fragments, by where they were completed: in switches, or by the parameter server. With ESA, those \
         of switches do not come to the server",
        outcomes,
    )?;
    for (name, help, what) in COUNTERS {
        let counts = servers.iter().map(|&(id, server)| ([job(id)], what(&server.stats)));
        page.counter(name, help, counts)?;
    }
    page.gauge(
        "tributary_server_pending_fragments",
        "Fragments that have begun and are not complete",
        servers.iter().map(|&(id, server)| ([job(id)], server.pending as f64)),
    )?;
    let gaps = servers.iter().flat_map(|&(id, server)| {
        server.gaps.iter().enumerate().map(move |(worker, gap)| {
            ([job(id), ("worker", worker.to_string())], gap.as_secs_f64())
        })
    });
    page.gauge(
        "tributary_server_straggler_gap_seconds",
        "For how long a fragment has waited for the worker, since the first values for it came",
        gaps,
    )
}

/// A counter: its name, what it counts, and where it is.
type Counter<S> = (&'static str, &'static str, fn(&S) -> u64);

const COUNTERS: [Counter<Stats>; 10] = [
    ("tributary_server_gradients_total", "Packets with values", |stats| match stats {
        Stats::Plain(stats) => stats.gradients,
        Stats::Esa(stats) => stats.gradients,
    }),
    (
        "tributary_server_merged_total",
        "Packets and messages whose values were added",
        Stats::merged,
    ),
    (
        "tributary_server_float_fragments_total",
        "Fragments collected in floating point",
        Stats::overflow_tasks,
    ),
    (
        "tributary_server_collided_fragments_total",
        "Fragments that met a collision in a switch (ATP)",
        Stats::collisions,
    ),
    ("tributary_server_marked_fragments_total", "Fragments with a congestion mark", |stats| {
        match stats {
            Stats::Plain(stats) => stats.marked,
            Stats::Esa(stats) => stats.marked,
        }
    }),
    (
        "tributary_server_duplicates_total",
        "Packets dropped because their values were added before",
        |stats| match stats {
            Stats::Plain(stats) => stats.duplicates + stats.overlaps,
            Stats::Esa(stats) => stats.duplicates + stats.overlaps,
        },
    ),
    ("tributary_server_results_sent_total", "Results sent to all workers", |stats| match stats {
        Stats::Plain(stats) => stats.parameters,
        Stats::Esa(stats) => stats.parameters,
    }),
    ("tributary_server_replies_total", "Results sent to single workers", |stats| match stats {
        Stats::Plain(stats) => stats.replies,
        Stats::Esa(stats) => stats.deliveries,
    }),
    ("tributary_server_queries_total", "Questions for missing values", |stats| match stats {
        Stats::Plain(stats) => stats.queries,
        Stats::Esa(stats) => stats.questions,
    }),
    (
        "tributary_server_frames_rejected_total",
        "Frames dropped as malformed, or as not for this server",
        |stats| match stats {
            Stats::Plain(stats) => stats.rejected.total(),
            Stats::Esa(stats) => stats.rejected.total(),
        },
    ),
];

fn write_agents(page: &mut Page<'_>, all: &[JobNumbers]) -> fmt::Result {
    let agents: Vec<_> = all.iter().filter_map(|it| Some((it.job, it.agent?))).collect();
    for (name, help, what) in AGENT_COUNTERS {
        page.counter(name, help, agents.iter().map(|(id, stats)| ([job(*id)], what(stats))))?;
    }
    Ok(())
}

const AGENT_COUNTERS: [Counter<AgentStats>; 6] = [
    ("tributary_agent_worker_reminders_total", "Reminders of workers", |it| it.reminded),
    ("tributary_agent_reminders_total", "Reminders sent to switches", |it| it.reminders),
    (
        "tributary_agent_partial_sums_fetched_total",
        "Reminders that were answered with a partial sum",
        |it| it.fetched,
    ),
    ("tributary_agent_partial_sums_absent_total", "Reminders that found no partial sum", |it| {
        it.absent
    }),
    ("tributary_agent_queries_total", "Questions to workers", |it| it.queries),
    ("tributary_agent_messages_rejected_total", "Messages dropped as invalid", |it| it.rejected),
];
