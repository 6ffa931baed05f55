//! The parameter server (PS): finishes the sums that switches could not, and sends them to all
//! workers.
//!
//! | file | concern |
//! | --- | --- |
//! | `config` | configuration |
//! | `slots` | the ring of slots, each with a task being collected and a result being kept |
//! | `receive` | gradients: merging, completing, asking for missing values |
//! | `transmit` | choosing and writing the next packet |
//! | `timers` | tasks that wait too long |
//!
//! # Two versions
//!
//! A slot holds the result of task `s` and at the same time the values received for task `s + W`. A
//! worker that sends `s + W` has the result of `s`, but other workers may lack it. Only when `s +
//! W` is complete have all workers sent it. Then all have the result of `s`, and its memory is free
//! for `s + 2W`. A third version is therefore never needed, and a packet for one is dropped.
//!
//! In P4INC the tasks are rounds. After a result with the overflow flag comes the next rung of the
//! same fragment, otherwise the fragment W further on. In either case a worker that sends the next
//! round has that result.
//!
//! # Integers and floats
//!
//! Integer sums wrap like the switch's. Workers ensure that they never do (I5), so wrapping only
//! prevents a panic on a forged packet. Once one worker has sent its fragment as floats, the PS
//! collects the task in floats from each worker. Partial sums from switches are then useless,
//! because they are integers. This applies to ATP only. P4INC has no floats: the PS copies the
//! overflow flag of any contribution into the result, and a coarser rung is due next.
//!
//! # Replacing a PS
//!
//! A PS may be replaced at any time by a [`successor`](ParameterServer::successor) that starts
//! without state. Workers have everything that it lacks:
//!
//! - *The due task of a slot.* The successor takes the highest task of the slot that it receives.
//!   Earlier tasks are complete, because a worker that sends a task has the results of all earlier
//!   tasks in the slot. The due task is never certain: the old PS may have completed later tasks
//!   whose packets are still in flight.
//! - *Results that some worker missed.* A worker that lacks the result of `s` keeps sending `s`. A
//!   successor without that result asks all workers for it. Each worker keeps the last result of
//!   every slot, and those that have the result hand it over. By the argument above no later result
//!   exists in the slot, or the worker would not lack that of `s`.
//! - *Values that the old PS had merged or received from switches.* Workers keep their values until
//!   the result arrives, and the successor queries them.
//! - *The indices of aggregators.* Gradients and results of ATP carry the slot's salt.
//!
//! A successor may complete a task a second time, from packets that were in flight when the old PS
//! completed it. Both results are equal, because both contain every worker's values once: as
//! integers if all values fit, else as floats, because the worker whose values do not fit never
//! sends integers (I2). The collision flags may differ, and so may the salts of workers that
//! received different results. Their next packets then use different aggregators. The workers
//! resend, the PS merges each worker's packet, and the result, which names one salt, makes all
//! agree again.
//!
//! # Runs
//!
//! Switches forward only packets of runs that the controller has admitted. So a packet of a later
//! run shows that the controller has admitted the job again. The current run is over, and the PS
//! discards its state and drops its late packets. A PS may therefore stay while the workers of a
//! job are restarted repeatedly, and no value of one run enters a sum of another.
//!
//! One `ParameterServer` serves one job. A process that serves several jobs dispatches packets by
//! [`Packet::job`].

mod config;
mod receive;
mod slots;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_wire::agg::Packet;
use tributary_wire::{Epoch, Protocol, Sequence, WorkerSet};

pub use config::PsConfig;

use crate::floats::FloatPool;
use crate::rtt::{Least, RttEstimator};
use crate::stats::{Rejected, add_counters};
use crate::timers::Timers;
use crate::{Assignment, ConfigError, Endpoint, Time};
use slots::Slots;
use timers::Timer;
use transmit::Outbox;

/// An event of a PS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A task has waited for longer than [`Timing::stall_timeout`](crate::Timing). Reported once
    /// per `sequence`; the PS keeps querying.
    Stalled {
        /// The lowest fragment that has waited so long.
        sequence: Sequence,
        /// The workers whose values are missing.
        missing: WorkerSet,
        /// Time since the first packet of that task arrived.
        waited: Duration,
        /// Whether no worker was heard from for half of the timeout. Waiting workers resend
        /// continually, so the path to the PS is broken rather than the missing workers.
        quiet: bool,
    },
}

/// Counters of a PS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Gradients that passed all checks except those of their task.
    pub gradients: u64,
    /// Gradients merged into a task.
    pub merged: u64,
    /// Tasks that one packet completed, because the switches had summed all contributions.
    pub complete_on_arrival: u64,
    /// Tasks completed.
    pub completed: u64,
    /// Tasks completed in `f32`. In P4INC: tasks whose result tells all workers to send the
    /// fragment again at a coarser scale.
    pub overflow_tasks: u64,
    /// Tasks completed with the collision flag.
    pub collisions: u64,
    /// Tasks completed with a congestion mark.
    pub marked: u64,
    /// Gradients dropped because all their contributions were already merged.
    pub duplicates: u64,
    /// Gradients dropped because some, but not all, of their contributions were already merged.
    pub overlaps: u64,
    /// Integer gradients dropped because their task is collected in `f32`.
    pub fixed_after_overflow: u64,
    /// Gradients dropped for a task before the one whose result is kept.
    pub stale: u64,
    /// Results of the preceding PS that workers handed over.
    pub adopted: u64,
    /// Gradients dropped for a task after the one that is due in their slot.
    pub out_of_window: u64,
    /// Number of times that a task had waited for longer than the timeout.
    pub timeouts: u64,
    /// Parameters sent.
    pub parameters: u64,
    /// Replies sent.
    pub replies: u64,
    /// Queries sent.
    pub queries: u64,
    /// Dropped frames, by reason.
    pub rejected: Rejected,
}

add_counters!(Stats: gradients, merged, complete_on_arrival, completed, overflow_tasks, collisions, marked, duplicates, overlaps, fixed_after_overflow, stale, adopted, out_of_window, timeouts, parameters, replies, queries, rejected);

/// The PS of one job.
#[derive(Clone, Debug)]
pub struct ParameterServer {
    config: PsConfig,
    slots: Slots,
    floats: FloatPool,
    outbox: Outbox,
    rtt: RttEstimator,
    /// The shortest time from a query to its answer.
    answer: Least,
    timers: Timers<{ Timer::COUNT }>,
    /// When a packet of a worker last arrived.
    last_heard: Time,
    stall_reported: Option<Sequence>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl ParameterServer {
    /// Creates a PS that is present from the job's first packet on.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: PsConfig) -> Result<Self, ConfigError> {
        Self::build(config, false)
    }

    /// Creates a PS that replaces a lost one in the middle of the job.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn successor(config: PsConfig) -> Result<Self, ConfigError> {
        Self::build(config, true)
    }

    fn build(config: PsConfig, successor: bool) -> Result<Self, ConfigError> {
        config.validate(&[Protocol::Atp, Protocol::P4inc])?;
        Ok(Self::idle(config, successor))
    }

    /// Creates a server without state from a validated configuration.
    fn idle(config: PsConfig, successor: bool) -> Self {
        Self {
            slots: Slots::new(&config.job, successor),
            floats: FloatPool::new(&config.job),
            outbox: Outbox::new(config.job.slots),
            rtt: RttEstimator::new(config.timing.rtt),
            answer: Least::default(),
            timers: Timers::new(),
            last_heard: Time::ZERO,
            stall_reported: None,
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Switches to a later run of the job and discards the state of the current run.
    fn begin(&mut self, epoch: Epoch) {
        let mut config = self.config.clone();
        config.job.epoch = epoch;
        let events = std::mem::take(&mut self.events);
        *self = Self { events, stats: self.stats, ..Self::idle(config, false) };
    }

    /// Switches to another assignment. The controller tells all endpoints of the job between two
    /// iterations, when all workers are idle. The PS cannot check that they are, and discards its
    /// state. Late packets of the old assignment have another service ID and are dropped.
    ///
    /// # Errors
    ///
    /// If the assignment is not valid for this job. The PS is then unchanged.
    pub fn reassign(&mut self, assignment: Assignment) -> Result<(), ConfigError> {
        let job = &mut self.config.job;
        job.validate_assignment(assignment)?;
        if assignment == job.assignment {
            return Ok(());
        }
        job.assignment = assignment;
        self.slots.reassign(job);
        self.outbox = Outbox::new(job.slots);
        self.timers.stop_all();
        self.stall_reported = None;
        Ok(())
    }

    /// The configuration, with the current run and assignment.
    pub fn config(&self) -> &PsConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Number of tasks that have begun and are not complete.
    pub fn pending_tasks(&self) -> usize {
        self.slots.tasks().count()
    }

    /// For how long each worker has kept a task of this job waiting: the time since the task's first
    /// packet, of the task that has waited longest for the worker; zero if none does.
    pub fn gaps(&self, now: Time) -> Vec<Duration> {
        let tasks = self.slots.tasks().map(|(_, task)| (task.merged, task.since));
        crate::stats::gaps(&self.config.job, tasks, now)
    }

    /// [`Endpoint::handle_frame`] for a driver that has already validated the frame.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        self.receive(now, packet);
    }
}

impl Endpoint for ParameterServer {
    type Event = Event;

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        match Packet::new_checked(frame) {
            Ok(packet) => self.receive(now, &packet),
            Err(error) => self.stats.rejected.count(&error),
        }
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        self.transmit(now, frame)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timers.expire(Timer::Query, now).is_some() {
            self.on_query_timer(now);
        }
        if self.timers.expire(Timer::Stall, now).is_some() {
            self.on_stall_timer(now);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
