//! The reminder agent: gets tasks completed that switches could not finish (ESA §5.1, figure 4).
//!
//! | file | concern |
//! | --- | --- |
//! | `watch` | what the agent knows of one entry of a server's dictionary |
//! | `rounds` | when it does something about an entry, and what |
//! | `receive` | messages of workers and servers, and answers of switches |
//!
//! # A round
//!
//! An entry that is not complete is *watched*. The agent begins a round for it when
//!
//! - its timer fires: RFC 6298 over the time from set-up to completion of entries that needed no
//!   reminder (ESA §6), doubled each time that it fires;
//! - three contributions to later tasks have reached the server since ("dupACK"), once between two
//!   firings of the timer;
//! - a worker reminds of it, or the server dropped a partial sum that overlapped.
//!
//! In a round a reminder packet goes to every switch in which values of missing workers can be. It
//! fetches the partial sum, or comes back as absent. When all switches have answered, what is still
//! missing is not in any switch: it is asked for at the workers, but not in rounds that only
//! "dupACK" began, for those mostly mean that one worker is ahead of another. Where answers are lost,
//! the timer's next round asks the workers at once.
//!
//! An agent serves many jobs, and servers in other processes too. It keeps nothing that a server
//! could not tell it again.

mod receive;
mod rounds;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_wire::agg::{Packet, Repr};
use tributary_wire::channel::{ToServer, ToWorker};
use tributary_wire::{
    Bitmap, Ecn, Envelope, Flags, Host, JobId, Kind, Protocol, Sequence, WorkerIndex, emit_frame,
};

use crate::addressing::Spread;
use crate::rtt::{RttConfig, RttEstimator};
use crate::stats::Rejected;
use crate::{ConfigError, Endpoint, JobConfig, Time, Timing};
use watch::Watch;

/// A switch that aggregates for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The workers whose packets meet in it: a reminder names the switch by them.
    pub members: Bitmap,
    /// One of those workers: a reminder is addressed to it, and so passes the switch.
    pub via: Host,
}

/// What an agent must know of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentJob {
    /// What all endpoints of the job agree on.
    pub job: JobConfig,
    /// The agent's own addresses.
    pub host: Host,
    /// The switches that aggregate on the job's path.
    pub switches: Vec<Target>,
}

/// A message of the agent, and who gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToPeer {
    /// A worker.
    Worker {
        /// Its job.
        job: JobId,
        /// Which of the job's workers.
        worker: WorkerIndex,
        /// What it is told.
        message: ToWorker,
    },
    /// The server of a job.
    Server {
        /// The job.
        job: JobId,
        /// What it is told.
        message: ToServer,
    },
}

/// What an agent has counted for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Times that a worker reminded.
    pub reminded: u64,
    /// Entries watched.
    pub watched: u64,
    /// Rounds, by what began them: the entry's timer.
    pub timeouts: u64,
    /// Three contributions to later tasks.
    pub dup_acks: u64,
    /// A worker's reminder, or a dropped partial sum.
    pub urgent: u64,
    /// Reminder packets sent.
    pub reminders: u64,
    /// Of them, answered with a partial sum.
    pub fetched: u64,
    /// Of them, answered with "nothing here".
    pub absent: u64,
    /// Answers of switches, and values and results of workers, for entries that were closed since, or
    /// never there.
    pub stale: u64,
    /// Questions to workers.
    pub queries: u64,
    /// Workers' answers: their values.
    pub values: u64,
    /// Workers' answers: the result.
    pub results: u64,
    /// Workers' answers: not sent yet.
    pub not_sent: u64,
    /// Workers' answers: everybody has the result.
    pub over: u64,
    /// Messages dropped because of what they say.
    pub rejected: u64,
}

/// A job of the agent.
#[derive(Clone, Debug)]
struct Served {
    config: AgentJob,
    spread: Spread,
    rtt: RttEstimator,
    watches: BTreeMap<u32, Watch>,
    /// Workers that have all results and are about to leave.
    finished: Bitmap,
    stats: Stats,
}

/// The reminder agent.
#[derive(Clone, Debug)]
pub struct Agent {
    rtt: RttConfig,
    jobs: BTreeMap<JobId, Served>,
    /// When which entry is due.
    due: BTreeSet<(Time, JobId, u32)>,
    /// Reminders to be sent: job, sequence, and the switch by its place in the list.
    reminders: VecDeque<(JobId, u32, usize)>,
    messages: VecDeque<ToPeer>,
    rejected: Rejected,
}

impl Agent {
    /// An agent without jobs.
    ///
    /// # Errors
    ///
    /// If the timing contradicts itself.
    pub fn new(timing: Timing) -> Result<Self, ConfigError> {
        timing.validate()?;
        Ok(Self {
            rtt: timing.rtt,
            jobs: BTreeMap::new(),
            due: BTreeSet::new(),
            reminders: VecDeque::new(),
            messages: VecDeque::new(),
            rejected: Rejected::default(),
        })
    }

    /// Takes a job on. If it was there before, all that was known of it is forgotten.
    ///
    /// # Errors
    ///
    /// If the job's configuration contradicts itself.
    pub fn add_job(&mut self, config: AgentJob) -> Result<(), ConfigError> {
        config.job.validate(&[Protocol::Esa])?;
        self.remove_job(config.job.job);
        let served = Served {
            rtt: RttEstimator::new(self.rtt),
            watches: BTreeMap::new(),
            finished: Bitmap::EMPTY,
            stats: Stats::default(),
            spread: Spread::new(config.job.job, config.job.pool),
            config,
        };
        self.jobs.insert(served.config.job.job, served);
        Ok(())
    }

    /// Gives a job up.
    pub fn remove_job(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.due.retain(|(_, its, _)| *its != job);
        self.reminders.retain(|(its, ..)| *its != job);
    }

    /// The jobs, and what was counted for each.
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

    /// Frames dropped because of what they are.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// Entries that are watched.
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
            // The entry may be closed since.
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
                index: served.spread.index(sequence),
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
    /// An agent has nothing to say that its counters do not.
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
