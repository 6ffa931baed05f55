//! The worker: tensors in, their sums over all workers out.
//!
//! | file | concern |
//! | --- | --- |
//! | `config` | what a worker must know |
//! | `tensors` | the queue of tensors, and where in it a fragment lies |
//! | `codec` | the form in which values travel |
//! | `fragments` | the window: which fragments are under way, and what is known of each |
//! | `transmit` | which packet is next, and writing it |
//! | `receive` | results, queries, and what was turned back |
//! | `loss` | timers, what is taken for lost, and when it is sent again |
//! | `report` | events, failures and counters |
//! | `results` | the results of one window, kept for a PS that lacks them |
//! | `handover` | handing such a result over |
//! | `channel` | ESA: reminders, answers and goodbye over the reliable channel |
//!
//! The protocols share everything but four things: which aggregator a task uses, the byte for
//! priority or service, what is done about a lost fragment, and what about values that are too
//! great. All send a lost fragment again through the switches. What that does not help an ESA worker
//! sends around them, and at last it reminds the reminder agent, which with the papers' rules it does at
//! once. ATP and ESA send what is too great as floats; P4INC and SwitchML say that it is, and then all workers send the fragment
//! again at a coarser scale.
//!
//! # What is sent again
//!
//! What the [rules in force](Recovery) take for lost (`loss`), what a Query names, and what the switch
//! turned back (P4INC): that is sent again when the fragment that was before it in its aggregator is over.
//! Until then later results say nothing about it.
//!
//! A Query for a fragment that was not sent yet means that the PS holds a part of it already. It will
//! be sent when the window allows, but as a resend, which no switch holds back: with ATP it goes
//! straight to the PS, with P4INC it does if the aggregator has gone on to a later round.

mod channel;
mod codec;
mod config;
mod fragments;
mod handover;
mod loss;
mod receive;
mod report;
mod results;
mod tensors;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

use tributary_wire::agg::Packet;
use tributary_wire::{Bitmap, Ecn, Envelope, Host, Protocol, Round, Sequence};

pub use config::WorkerConfig;
pub use report::{Event, Failure, ReassignError, Stats};
pub use tensors::{SubmitError, Tensor, TensorId};

use crate::congestion::{Aimd, Controller, Dctcp};
use crate::numbering::Numbering;
use crate::priority::Priority;
use crate::timers::Timers;
use crate::{Assignment, ConfigError, Endpoint, Mode, Recovery, Time};
use channel::Channel;
use fragments::Fragments;
use handover::Handover;
use loss::Rules;
use tensors::Tensors;

/// The worker's timers.
#[derive(Clone, Copy)]
enum Timer {
    /// No result has come for long.
    Resend,
    /// Time to look for what is lost, though no further result may come.
    Reorder,
    /// Time to say that nothing moves.
    Stall,
}

impl Timer {
    const COUNT: usize = 3;
}

impl From<Timer> for usize {
    fn from(timer: Timer) -> Self {
        timer as Self
    }
}

/// One worker of one job.
#[derive(Clone, Debug)]
pub struct Worker {
    config: WorkerConfig,
    numbering: Numbering,
    tensors: Tensors,
    fragments: Fragments,
    controller: Box<dyn Controller>,
    /// What goes over the reliable channel of ESA.
    channel: Option<Channel>,
    /// What a PS may lack; none with SwitchML.
    handover: Option<Handover>,
    rules: Rules,
    timers: Timers<{ Timer::COUNT }>,
    /// When the last result came in, or the first packet after an idle time went out.
    progress: Time,
    stall_reported: Option<Sequence>,
    failed: Option<Failure>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Worker {
    /// A worker that has nothing to do yet, with the [`Dctcp`] controller, or the papers'
    /// [`Aimd`] if their rules are in force.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself.
    pub fn new(config: WorkerConfig) -> Result<Self, ConfigError> {
        let slots = config.job.slots;
        let aimd = Aimd::new(config.initial_window(), slots).with_threshold(config.threshold());
        match config.timing.recovery {
            Recovery::Rack => Self::with_controller(config, Box::new(Dctcp::new(aimd))),
            Recovery::Papers => Self::with_controller(config, Box::new(aimd)),
        }
    }

    /// A worker with another congestion controller.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself.
    pub fn with_controller(
        config: WorkerConfig,
        controller: Box<dyn Controller>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            numbering: Numbering::of(config.job.protocol),
            tensors: Tensors::new(&config),
            fragments: Fragments::new(&config.job, sendings_through(&config)),
            controller,
            channel: (config.job.protocol == Protocol::Esa).then(|| Channel::new(&config.job)),
            handover: Handover::of(&config.job),
            rules: Rules::new(&config.timing, &config.job),
            timers: Timers::new(),
            progress: Time::ZERO,
            stall_reported: None,
            failed: None,
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        })
    }

    /// Queues a tensor to be summed over all workers. All workers of a job must submit tensors of
    /// the same kind and length in the same order. The sums come back in the same memory, in
    /// [`Event::TensorDone`]. An empty tensor is done as soon as those before it are.
    ///
    /// # Errors
    ///
    /// If a value cannot be summed (NaN, infinity, an integer that could overflow, or with P4INC and
    /// SwitchML a number that is too great for the coarsest scale), if the job's
    /// sequence numbers are used up, or if the worker has given up. The tensor is dropped then.
    pub fn submit(&mut self, tensor: Tensor) -> Result<TensorId, SubmitError> {
        self.submit_with(tensor, Priority::LOWEST)
    }

    /// [`submit`](Self::submit) with a priority for the aggregators (ESA §5.4); in ATP it has no
    /// effect. All workers give a tensor the same one: an aggregator goes by the last that it saw.
    ///
    /// # Errors
    ///
    /// As of [`submit`](Self::submit).
    pub fn submit_with(
        &mut self,
        tensor: Tensor,
        priority: Priority,
    ) -> Result<TensorId, SubmitError> {
        if let Some(failure) = self.failed {
            return Err(SubmitError::Failed(failure));
        }
        if self.is_leaving() {
            return Err(SubmitError::Leaving);
        }
        let id = self.tensors.submit(tensor, priority)?;
        self.deliver();
        Ok(id)
    }

    /// Serves the job in another way from the next tensor on. The job scheduler tells all
    /// endpoints of the job between two iterations, when all workers are [idle](Self::is_idle) and
    /// have submitted the same tensors; what is late from before has another service ID and is
    /// dropped.
    ///
    /// # Errors
    ///
    /// If the worker is not idle, or if the assignment is not one for this job. Nothing has
    /// changed then.
    pub fn reassign(&mut self, assignment: Assignment) -> Result<(), ReassignError> {
        if !self.is_idle() {
            return Err(ReassignError::Busy);
        }
        let job = self.config.job;
        assignment.validate(job.protocol, job.slots, job.pool)?;
        if assignment == job.assignment {
            return Ok(());
        }
        self.config.job.assignment = assignment;
        self.fragments.reassign(&self.config.job);
        Ok(())
    }

    /// Whether the job has a PS that sees all results: ATP, and P4INC but for local jobs.
    pub fn has_server(&self) -> bool {
        let job = &self.config.job;
        match job.protocol {
            Protocol::Atp => true,
            Protocol::P4inc => job.assignment.mode != Mode::Local,
            Protocol::Esa | Protocol::SwitchMl => false,
        }
    }

    /// Whether the results of all tensors are in. A worker then owes nothing to anybody and may be
    /// dropped, unless the PS may be replaced, and an ESA worker first takes its
    /// [`leave`](Self::leave): see
    /// [the crate's documentation](crate#when-an-endpoint-may-stop).
    pub fn is_idle(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Why the worker gave up, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failed
    }

    /// What it was built with.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// What it has counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The congestion window in packets.
    pub fn window(&self) -> u32 {
        self.controller.window()
    }

    /// The usual time from sending a fragment to its result.
    pub fn round_trip(&self) -> Option<Duration> {
        self.rules.round_trip()
    }

    /// The lowest sequence whose result is not in, and the one to be sent next for the first time.
    pub fn outstanding(&self) -> std::ops::Range<Sequence> {
        self.sequence(self.fragments.base())..self.next_sequence()
    }

    /// [`Endpoint::handle_frame`] for a driver that has checked the frame already.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        if self.failed.is_none() {
            self.receive(now, packet);
            self.pursue(now);
        }
    }

    fn bit(&self) -> Bitmap {
        Bitmap::of(self.config.index)
    }

    /// The sequence of the round that an outstanding fragment is at.
    fn sequence(&self, fragment: u32) -> Sequence {
        self.numbering.sequence(self.fragments.round(fragment))
    }

    /// The sequence to be sent next for the first time.
    fn next_sequence(&self) -> Sequence {
        self.numbering.sequence(Round::first(self.fragments.next()))
    }

    fn envelope(&self) -> Envelope {
        let job = &self.config.job;
        let without_server = job.protocol.has_services() && job.assignment.mode == Mode::Local;
        let destination = if without_server { Host::service(job.job) } else { self.config.server };
        Envelope { source: self.config.host, destination, ecn: Ecn::Ect0 }
    }

    /// Moves what is done from the queue of tensors to the events.
    fn deliver(&mut self) {
        while let Some((id, tensor)) = self.tensors.pop_done() {
            self.events.push_back(Event::TensorDone { id, tensor });
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        self.timers.stop_all();
        self.events.push_back(Event::Failed(failure));
    }
}

/// How often a fragment is sent through the switches before it is sent around them.
///
/// With the papers' rules once. Otherwise the first resend goes through, too, where the protocol would
/// have it go around: if the worker's packet was lost, as is most likely, the switch completes
/// the sum; if not, it drops the packet, and the PS is spared it.
fn sendings_through(config: &WorkerConfig) -> u8 {
    match (config.timing.recovery, config.job.protocol) {
        (Recovery::Rack, Protocol::Atp | Protocol::Esa) => 2,
        _ => 1,
    }
}

impl Endpoint for Worker {
    type Event = Event;

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        match Packet::new_checked(frame) {
            Ok(packet) => self.handle_packet(now, &packet),
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
        if self.timers.expire(Timer::Reorder, now).is_some() {
            self.on_reorder_timer(now);
        }
        if let Some(due) = self.timers.expire(Timer::Resend, now) {
            self.on_resend_timer(now, due);
        }
        if self.timers.expire(Timer::Stall, now).is_some() {
            self.on_stall_timer(now);
        }
        self.pursue(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
