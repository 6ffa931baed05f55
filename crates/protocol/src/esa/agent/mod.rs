//! The reminder agent: completes tasks that switches could not finish (ESA §5.1, figure 4).
//!
//! | file | concern |
//! | --- | --- |
//! | `watch` | state of one watched entry of a server's dictionary |
//! | `rounds` | start and contents of a round |
//! | `receive` | messages of workers and servers, and answers of switches |
//!
//! # A round
//!
//! An incomplete entry is *watched*. The agent begins a round for it when
//!
//! - its timer fires: RFC 6298 over the time from set-up to completion of entries that needed no
//!   round (ESA §6), doubled each time that it fires;
//! - three contributions to later tasks have reached the server ("dupACK"), at most once between
//!   two firings of the timer;
//! - a worker sends a reminder for it, or the server dropped an overlapping partial sum.
//!
//! With [`Recovery::Rack`](crate::Recovery::Rack) the agent also *polls* before the first timer: after the
//! time that an answer takes, and then at doubling intervals, it fetches what switches hold of the task.
//! Most entries exist because a packet found no aggregator; the switches soon have the rest, and no
//! packet of a worker will bring it.
//!
//! In a round the agent sends a reminder packet to every switch that may hold values of missing
//! workers. The packet returns with the partial sum, or as absent. When all switches have answered,
//! values that are still missing are in no switch, and the agent asks the workers. Rounds that only
//! a "dupACK" began ask no workers, because a dupACK mostly means that one worker is ahead of
//! another. A worker's reminder begins another round as soon as the last one's reminders are
//! answered. If answers are lost, the timer's next round asks the workers at once.
//!
//! An agent serves many jobs, including servers in other processes. A server can restore all of the
//! agent's state.

mod receive;
mod rounds;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::channel::{ToServer, ToWorker};
use tributary_wire::{
    Audience, Bitmap, Ecn, Envelope, Flags, Host, JobId, Kind, Protocol, Rack, Sequence,
    WorkerIndex, WorkerSet, emit_frame,
};

use crate::addressing::Tasks;
use crate::rtt::RttEstimator;
use crate::stats::{Rejected, add_counters};
use crate::{ConfigError, Endpoint, JobConfig, Time, Timing, Waits};
use watch::Watch;

/// A switch that aggregates for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The rack whose workers' packets this switch sums; [`Rack::NONE`]: it sums positions.
    pub rack: Rack,
    /// Those workers or positions. A reminder identifies the switch by this set and the rack.
    pub members: Bitmap,
    /// One of those workers. A reminder is addressed to it, so that it passes the switch.
    pub via: Host,
}

/// An agent's configuration for a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentJob {
    /// Configuration on which all endpoints of the job agree.
    pub job: JobConfig,
    /// The agent's own addresses.
    pub host: Host,
    /// The switches that aggregate on the job's path.
    pub switches: Vec<Target>,
    /// Timeouts of the job's entries.
    pub timing: Timing,
}

/// A message of the agent, with its receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToPeer {
    /// To a worker.
    Worker {
        /// Its job.
        job: JobId,
        /// Which of the job's workers.
        worker: WorkerIndex,
        /// The message.
        message: ToWorker,
    },
    /// To the server of a job.
    Server {
        /// The job.
        job: JobId,
        /// The message.
        message: ToServer,
    },
}

/// An agent's counters for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Reminders from workers.
    pub reminded: u64,
    /// Entries watched.
    pub watched: u64,
    /// Times that switches were polled for an entry, before its timer.
    #[serde(default)]
    pub polls: u64,
    /// Rounds begun by the entry's timer.
    pub timeouts: u64,
    /// Rounds begun by three contributions to later tasks.
    pub dup_acks: u64,
    /// Rounds begun by a worker's reminder or a dropped partial sum.
    pub urgent: u64,
    /// Reminder packets sent.
    pub reminders: u64,
    /// Reminder packets answered with a partial sum.
    pub fetched: u64,
    /// Reminder packets answered as absent.
    pub absent: u64,
    /// Answers of switches, and values and results of workers, for entries that are closed or
    /// unknown.
    pub stale: u64,
    /// Queries to workers.
    pub queries: u64,
    /// Answers of workers: their values.
    pub values: u64,
    /// Answers of workers: the result.
    pub results: u64,
    /// Answers of workers: not sent yet.
    pub not_sent: u64,
    /// Answers of workers: all workers have the result.
    pub over: u64,
    /// Times from the first round of an entry to its completion.
    #[serde(default)]
    pub repairs: Waits,
    /// Times from the first query about a fragment to the values or the result of a worker.
    #[serde(default)]
    pub answers: Waits,
    /// Messages dropped because their content is invalid.
    pub rejected: u64,
}

add_counters!(Stats: reminded, watched, polls, timeouts, dup_acks, urgent, reminders, fetched, absent, stale, queries, values, results, not_sent, over, repairs, answers, rejected);

/// A job of the agent.
#[derive(Clone, Debug)]
struct Served {
    config: AgentJob,
    tasks: Tasks,
    rtt: RttEstimator,
    /// The time from a round's reminders to their answers.
    answers: RttEstimator,
    watches: BTreeMap<u32, Watch>,
    /// The workers that each switch sums.
    below: Vec<WorkerSet>,
    /// Workers that have all results and are about to leave.
    finished: WorkerSet,
    stats: Stats,
}

/// The reminder agent. It begins without jobs.
#[derive(Clone, Debug, Default)]
pub struct Agent {
    jobs: BTreeMap<JobId, Served>,
    /// The times at which entries are due.
    due: BTreeSet<(Time, JobId, u32)>,
    /// Reminders to send: job, sequence, and the index of the switch in the list.
    reminders: VecDeque<(JobId, u32, usize)>,
    messages: VecDeque<ToPeer>,
    rejected: Rejected,
}

impl Agent {
    /// Adds a job, or resets the state of a job that the agent has already.
    ///
    /// # Errors
    ///
    /// If the job's configuration is invalid.
    pub fn add_job(&mut self, config: AgentJob) -> Result<(), ConfigError> {
        config.job.validate(&[Protocol::Esa])?;
        config.timing.validate()?;
        self.remove_job(config.job.job);
        let racks = &config.job.racks;
        let below = config.switches.iter().map(|target| racks.members(target.rack, target.members));
        let served = Served {
            rtt: RttEstimator::new(config.timing.rtt),
            answers: RttEstimator::new(config.timing.rtt),
            watches: BTreeMap::new(),
            below: below.collect::<Option<_>>().ok_or(ConfigError::Targets)?,
            finished: WorkerSet::EMPTY,
            stats: Stats::default(),
            tasks: config.job.tasks(),
            config,
        };
        self.jobs.insert(served.config.job.job, served);
        Ok(())
    }

    /// Removes a job.
    pub fn remove_job(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.due.retain(|(_, its, _)| *its != job);
        self.reminders.retain(|(its, ..)| *its != job);
    }

    /// The jobs with their counters.
    pub fn stats(&self) -> impl Iterator<Item = (JobId, &Stats)> {
        self.jobs.iter().map(|(job, served)| (*job, &served.stats))
    }

    /// What was counted for a job; `None` if it is not one of the agent's.
    pub fn stats_of(&self, job: JobId) -> Option<&Stats> {
        self.jobs.get(&job).map(|served| &served.stats)
    }

    /// Whether a job is one of the agent's.
    pub fn serves(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Dropped frames, by reason.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// Number of watched entries.
    pub fn watched(&self) -> usize {
        self.due.len()
    }

    /// The next message for a worker or a server.
    pub fn poll_message(&mut self) -> Option<ToPeer> {
        self.messages.pop_front()
    }

    fn tell_server(&mut self, job: JobId, message: ToServer) {
        self.messages.push_back(ToPeer::Server { job, message });
    }

    fn write_reminder(&mut self, frame: &mut Vec<u8>) -> bool {
        while let Some((id, sequence, switch)) = self.reminders.pop_front() {
            // The entry may have been closed in the meantime.
            let Some(served) = self.jobs.get_mut(&id) else { continue };
            let Some(target) = served.config.switches.get(switch) else { continue };
            if !served.watches.contains_key(&sequence) {
                continue;
            }
            let AgentJob { job, host, .. } = &served.config;
            let sequence = Sequence(sequence);
            let repr = Repr {
                protocol: Protocol::Esa,
                kind: Kind::Reminder,
                flags: Flags::NONE,
                priority: 0,
                job: id,
                epoch: job.epoch,
                values: job.values_per_packet,
                sequence,
                bitmap: target.members,
                rack: target.rack,
                audience: Audience::ALL,
                index: served.tasks.index(sequence),
            };
            let envelope = Envelope { source: *host, destination: target.via, ecn: Ecn::Ect0 };
            emit_frame(frame, &envelope, &repr);
            served.stats.reminders += 1;
            return true;
        }
        false
    }
}

impl Endpoint for Agent {
    /// The agent reports through its counters only.
    type Event = std::convert::Infallible;

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        match Packet::new_checked(frame) {
            Ok(packet) => self.handle_packet(now, &packet),
            Err(error) => self.rejected.count(&error),
        }
    }

    fn poll_transmit(&mut self, _now: Time, frame: &mut Vec<u8>) -> bool {
        self.write_reminder(frame)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.on_timers(now);
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        None
    }
}
