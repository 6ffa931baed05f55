//! The parameter server (PS): finishes what the switches could not, and tells all workers.
//!
//! | file | concern |
//! | --- | --- |
//! | `config` | what a PS must know |
//! | `slots` | the ring of slots: a task being collected and a result being kept in each |
//! | `receive` | gradients: merging, completing, asking for what is missing |
//! | `transmit` | which packet is next, and writing it |
//! | `timers` | tasks that wait too long |
//!
//! # Two versions
//!
//! A slot holds the result of task `s` and at the same time what has come in for task `s + W`. That
//! some worker sends `s + W` shows that this worker has the result of `s`, not that all have; only
//! when `s + W` is complete have all workers sent it, so all have `s`, and its memory is free for
//! `s + 2W`. A third version can therefore not be needed, and a packet for one is dropped.
//!
//! With P4INC the tasks are rounds. What follows a result that says overflow is the next rung of
//! the same fragment, else the fragment W further on; who sends what follows has that result in
//! either case.
//!
//! # Integers and floats
//!
//! Integer sums wrap like the switch's. Workers see to it that they never do (I5), so wrapping only
//! means that a forged packet cannot cause a panic. Once one worker has sent its fragment as floats,
//! the task is collected in floats from every worker by itself: partial sums of the switch are of
//! no use any more, because they are of integers. All that is ATP's. P4INC knows no floats: there the
//! PS hands the overflow flag of any contribution on to the result, and what is due then is a coarser
//! rung.
//!
//! # A PS that is started anew
//!
//! A PS may be replaced at any time, by a [`successor`](ParameterServer::successor) that knows
//! nothing. All that it lacks, workers have:
//!
//! - *What is due in a slot.* The highest task of the slot that it hears of. Those before it are over,
//!   as a worker that sends a task has the results of all tasks before it in the slot. That is never sure: the PS
//!   before it may have finished later ones, whose packets are still to come.
//! - *Results that some worker missed.* A worker that lacks the result of `s` keeps sending `s`. A successor
//!   that has not that result asks all workers for it, and those that have it hand it over: each keeps
//!   the last result of every slot. By the argument above no result after that of `s` exists in the
//!   slot, or the worker would not lack it.
//! - *Values that it has merged, or that switches had sent it.* Workers keep theirs until the result
//!   is in, and are asked for them.
//! - *Where aggregators are.* Packets say so: gradients and results of ATP carry the slot's salt.
//!
//! A successor may finish a task a second time, from packets that were on their way when the first one
//! did. Both results are the same numbers, for both hold every worker's values once: integers if all
//! values fit, else floats, as the worker whose values do not fit never sends integers (I2). They may
//! differ in the collision flag, and so may the salts of workers that took the one or the other.
//! Then their next packets do not meet in one aggregator; the workers resend, the PS merges what each
//! sent, and the result, which names one salt, makes all agree again.
//!
//! # Runs
//!
//! A packet of a later run than the one that is served shows that the controller has admitted the job
//! anew, since switches let no other packets of it through: the run before is over, and the PS
//! forgets it. What is late of it is dropped from then on. So a PS may go on while the workers of a job
//! are started again and again, and no value of one run comes into a sum of another.
//!
//! One `ParameterServer` serves one job. A process that serves several looks at
//! [`Packet::job`] and hands each packet to the right one.

mod config;
mod receive;
mod slots;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

use tributary_wire::agg::Packet;
use tributary_wire::{Bitmap, Epoch, Protocol, Sequence};

pub use config::PsConfig;

use crate::floats::FloatPool;
use crate::rtt::{Least, RttEstimator};
use crate::stats::Rejected;
use crate::timers::Timers;
use crate::{Assignment, ConfigError, Endpoint, Time};
use slots::Slots;
use timers::Timer;
use transmit::Outbox;

/// What a PS has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A task has waited for longer than [`Timing::stall_timeout`](crate::Timing). Said once for each
    /// `sequence`; the PS goes on asking.
    Stalled {
        /// The lowest fragment that waits so long.
        sequence: Sequence,
        /// The workers whose values it lacks: not heard of since it waits.
        missing: Bitmap,
        /// Since the first packet of that task came in.
        waited: Duration,
        /// No worker at all was heard of for half of the timeout. Those that wait send again all the
        /// time, so it is the way to the PS that is broken, and not the missing workers.
        quiet: bool,
    },
}

/// What a PS has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Gradients that passed all checks but those of their task.
    pub gradients: u64,
    /// Gradients merged into a task.
    pub merged: u64,
    /// Tasks that one packet completed, all summed up by the switches.
    pub complete_on_arrival: u64,
    /// Tasks completed.
    pub completed: u64,
    /// Tasks completed in `f32`; with P4INC those whose result tells all workers to send the
    /// fragment again at a coarser scale.
    pub overflow_tasks: u64,
    /// Tasks completed with the collision flag.
    pub collisions: u64,
    /// Tasks completed with a congestion mark.
    pub marked: u64,
    /// Gradients dropped because all they hold was there already.
    pub duplicates: u64,
    /// Gradients dropped because some, but not all, they hold was there already.
    pub overlaps: u64,
    /// Integer gradients dropped because their task is collected in `f32`.
    pub fixed_after_overflow: u64,
    /// Gradients dropped for a task below the one whose result is kept.
    pub stale: u64,
    /// Results taken that workers handed over, because the PS before this one had them.
    pub adopted: u64,
    /// Gradients dropped for a task above the one that is due in their slot.
    pub out_of_window: u64,
    /// Times a task was found to wait for longer than the timeout.
    pub timeouts: u64,
    /// Parameters sent.
    pub parameters: u64,
    /// Replies sent.
    pub replies: u64,
    /// Queries sent.
    pub queries: u64,
    /// Frames dropped because of what they are.
    pub rejected: Rejected,
}

/// The PS of one job.
#[derive(Clone, Debug)]
pub struct ParameterServer {
    config: PsConfig,
    slots: Slots,
    floats: FloatPool,
    outbox: Outbox,
    rtt: RttEstimator,
    /// The least time from asking a worker to its answer.
    answer: Least,
    timers: Timers<{ Timer::COUNT }>,
    /// When a worker was last heard of.
    last_heard: Time,
    stall_reported: Option<Sequence>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl ParameterServer {
    /// A PS that is there from the job's first packet on.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself.
    pub fn new(config: PsConfig) -> Result<Self, ConfigError> {
        Self::build(config, false)
    }

    /// A PS that may take the place of one that was lost, in the middle of the job.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself.
    pub fn successor(config: PsConfig) -> Result<Self, ConfigError> {
        Self::build(config, true)
    }

    fn build(config: PsConfig, successor: bool) -> Result<Self, ConfigError> {
        config.validate(&[Protocol::Atp, Protocol::P4inc])?;
        Ok(Self::idle(config, successor))
    }

    /// A server that has received nothing yet, with a validated configuration.
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

    /// Serves a later run of the job from now on: all that is known of the run so far is forgotten.
    fn begin(&mut self, epoch: Epoch) {
        let mut config = self.config.clone();
        config.job.epoch = epoch;
        let events = std::mem::take(&mut self.events);
        *self = Self { events, stats: self.stats, ..Self::idle(config, false) };
    }

    /// Serves the job in another way from now on. The job scheduler tells all endpoints of the job
    /// between two iterations, when all workers are idle; the PS cannot see that they are, and
    /// drops all that it has. What is late from before has another service ID and is dropped.
    ///
    /// # Errors
    ///
    /// If the assignment is not one for this job. Nothing has changed then.
    pub fn reassign(&mut self, assignment: Assignment) -> Result<(), ConfigError> {
        let job = &mut self.config.job;
        assignment.validate(job.protocol, job.slots, job.pool)?;
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

    /// What it was built with; run and assignment are the last ones.
    pub fn config(&self) -> &PsConfig {
        &self.config
    }

    /// What it has counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How many tasks have begun to come in and are not complete.
    pub fn pending_tasks(&self) -> usize {
        self.slots.tasks().count()
    }

    /// [`Endpoint::handle_frame`] for a driver that has checked the frame already.
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
