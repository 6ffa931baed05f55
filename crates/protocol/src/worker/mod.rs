//! The worker: sums tensors over all workers.
//!
//! | file | concern |
//! | --- | --- |
//! | `config` | configuration |
//! | `tensor` | a tensor, and how it is summed |
//! | `tensors` | the queue of tensors, and the position of each fragment in it |
//! | `codec` | the encoding of values |
//! | `fragments` | the window: the fragments in flight, and the state of each |
//! | `order` | the order of their transmissions |
//! | `transmit` | choosing and writing the next packet |
//! | `receive` | results, queries and returned packets |
//! | `loss` | timers, loss detection and retransmission |
//! | `report` | events, failures and counters |
//! | `delays` | what a worker waits for |
//! | `results` | the results of one window, kept for a PS that lacks them |
//! | `handover` | handing such results over |
//! | `channel` | ESA: the messages on the reliable channel |
//!
//! The protocols differ in four points only: the aggregator of a task, the byte for priority or
//! service, the recovery of lost fragments, and the handling of values that are too large. All
//! protocols resend a lost fragment through the switches. If that does not help, an ESA worker
//! sends the fragment past the switches, and finally reminds the agent; with the papers' rules it
//! reminds the agent at once. ATP and ESA send values that are too large as floats. P4INC and
//! SwitchML report them, and all workers send the fragment again at a coarser scale.
//!
//! # Retransmission
//!
//! A worker resends the fragments that the [rules in use](Recovery) mark as lost (`loss`), and
//! those that a Query names. In P4INC it also resends a fragment that the switch returned, when the
//! preceding fragment in the same aggregator is complete. Until then later results do not mark it
//! as lost.
//!
//! A Query for a fragment that was not sent yet means that the PS already holds a part of it. The
//! fragment is sent when the window allows, but with the resend flag, so that no switch holds it
//! back. In ATP it goes directly to the PS, in P4INC it does so if the aggregator has advanced to a
//! later round.

mod channel;
mod codec;
mod config;
mod delays;
mod fragments;
mod handover;
mod loss;
mod order;
mod receive;
mod report;
mod results;
mod tensor;
mod tensors;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Flags, HEADERS_LEN, Host, Kind,
    Protocol, Rack, Round, Sequence, emit_frame,
};

pub use config::WorkerConfig;
pub use delays::Delays;
pub use report::{Event, Failure, ReassignError, Stats, SubmitError};
pub use tensor::{Exchange, Parts, Point, Scales, Tensor, TensorId, Terms};

use crate::congestion::{Aimd, Controller, Dctcp, Room};
use crate::numbering::Numbering;
use crate::pacing::{Pacer, Rate};
use crate::priority::Priority;
use crate::timers::Timers;
use crate::{Assignment, ConfigError, Endpoint, Histogram, JobConfig, Mode, Recovery, Time};
use channel::Channel;
use delays::Stopwatch;
use fragments::Fragments;
use handover::Handover;
use loss::Rules;
use tensors::Tensors;

/// The worker's timers.
#[derive(Clone, Copy)]
enum Timer {
    /// No result has arrived for a long time.
    Resend,
    /// Time to detect losses, even if no further result arrives.
    Reorder,
    /// Time to report a stall.
    Stall,
    /// Time to send the next packet, at the worker's rate.
    Pace,
    /// Time to say farewell again.
    Farewell,
}

impl Timer {
    const COUNT: usize = 5;
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
    /// How packets name this worker.
    name: (Rack, Bitmap),
    numbering: Numbering,
    /// The headers of a gradient. The aggregation header differs between packets.
    headers: [u8; HEADERS_LEN],
    /// The headers of a gradient without values.
    headers_without_values: [u8; HEADERS_LEN],
    tensors: Tensors,
    fragments: Fragments,
    controller: Box<dyn Controller>,
    /// A bound for the sake of the switches' memory (ESA, with the default rules).
    room: Option<Room>,
    pacer: Pacer,
    /// State of ESA's reliable channel.
    channel: Option<Channel>,
    /// Results that a PS may lack; `None` in SwitchML.
    handover: Option<Handover>,
    rules: Rules,
    timers: Timers<{ Timer::COUNT }>,
    /// When the last result arrived, or the first packet after an idle period was sent.
    progress: Time,
    stall_reported: Option<Sequence>,
    failed: Option<Failure>,
    events: VecDeque<Event>,
    stats: Stats,
    stopwatch: Stopwatch,
    round_trips: Histogram,
}

impl Worker {
    /// Creates an idle worker with the [`Dctcp`] controller, or with the papers' [`Aimd`] if their
    /// rules are configured.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: WorkerConfig) -> Result<Self, ConfigError> {
        let slots = config.job.slots;
        let aimd = Aimd::new(config.initial_window(), slots).with_threshold(config.threshold());
        match config.timing.recovery {
            Recovery::Rack => Self::with_controller(config, Box::new(Dctcp::new(aimd))),
            Recovery::Papers => Self::with_controller(config, Box::new(aimd)),
        }
    }

    /// Creates a worker with another congestion controller.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn with_controller(
        config: WorkerConfig,
        controller: Box<dyn Controller>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            numbering: Numbering::of(config.job.protocol),
            headers: headers(&config, config.job.values_per_packet),
            headers_without_values: headers(&config, 0),
            tensors: Tensors::new(&config),
            fragments: Fragments::new(&config.job, sendings_through(&config)),
            controller,
            room: config.room(),
            pacer: Pacer::new(config.rate),
            channel: config.job.protocol.has_reminder_agent().then(|| Channel::new(&config.job)),
            handover: Handover::of(&config.job),
            rules: Rules::new(&config.timing, &config.job),
            timers: Timers::new(),
            progress: Time::ZERO,
            stall_reported: None,
            failed: None,
            events: VecDeque::new(),
            stats: Stats::default(),
            stopwatch: Stopwatch::default(),
            round_trips: Histogram::default(),
            name: config.job.racks.name(config.index),
            config,
        })
    }

    /// Queues a tensor to be summed over all workers. All workers of a job must submit tensors of
    /// the same kind and length in the same order. The sums are returned in the same memory, in
    /// [`Event::TensorDone`]. An empty tensor is done as soon as all earlier tensors are.
    ///
    /// # Errors
    ///
    /// The tensor is dropped, and an error returned, in these cases:
    ///
    /// - A value cannot be summed: NaN, infinity, an integer that could overflow, or in P4INC and
    ///   SwitchML a number that is too large for the coarsest scale.
    /// - The job's sequence numbers are used up.
    /// - The worker has failed or is leaving.
    /// - The tensor has [parts](Parts), and the job cannot exchange them.
    pub fn submit(&mut self, tensor: Tensor) -> Result<TensorId, SubmitError> {
        self.submit_with(tensor, Priority::LOWEST)
    }

    /// [`submit`](Self::submit) on the given terms, such as a priority.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit).
    pub fn submit_with(
        &mut self,
        tensor: Tensor,
        terms: impl Into<Terms>,
    ) -> Result<TensorId, SubmitError> {
        if let Some(failure) = self.failed {
            return Err(SubmitError::Failed(failure));
        }
        if self.is_leaving() {
            return Err(SubmitError::Leaving);
        }
        let terms = terms.into();
        if terms.parts.is_some() && !self.config.job.exchanges_parts() {
            return Err(SubmitError::Parts);
        }
        let id = self.tensors.submit(tensor, terms)?;
        self.deliver();
        Ok(id)
    }

    /// Switches to another assignment from the next tensor on. The controller tells all
    /// endpoints of the job between two iterations, when all workers are [idle](Self::is_idle) and
    /// have submitted the same tensors. Late packets of the old assignment have another service ID
    /// and are dropped.
    ///
    /// # Errors
    ///
    /// If the worker is not idle, or if the assignment is not valid for this job. The worker is
    /// then unchanged.
    pub fn reassign(&mut self, assignment: Assignment) -> Result<(), ReassignError> {
        if !self.is_idle() {
            return Err(ReassignError::Busy);
        }
        let job = self.config.job;
        job.validate_assignment(assignment)?;
        if assignment == job.assignment {
            return Ok(());
        }
        self.config.job.assignment = assignment;
        self.write_headers();
        self.fragments.reassign(&self.config.job);
        Ok(())
    }

    /// Continues in a later run of the job, whose fragments are counted from zero, so that the job does not end
    /// with its sequence numbers ([`fragments`](crate::fragments)). The controller begins the run when
    /// all workers are [idle](Self::is_idle); late packets of the old one have another epoch and are
    /// dropped. The PS follows the first packet.
    ///
    /// # Errors
    ///
    /// If the worker is not idle, or has a reminder agent, which serves one run. The worker is then
    /// unchanged.
    pub fn renew(&mut self, epoch: Epoch) -> Result<(), ReassignError> {
        if !self.is_idle() {
            return Err(ReassignError::Busy);
        }
        if self.channel.is_some() {
            return Err(ReassignError::OneRun);
        }
        self.config.job.epoch = epoch;
        self.write_headers();
        self.tensors.count_from_zero();
        self.fragments = Fragments::new(&self.config.job, sendings_through(&self.config));
        self.handover = Handover::of(&self.config.job);
        self.rules = Rules::new(&self.config.timing, &self.config.job);
        self.timers.stop_all();
        self.stall_reported = None;
        Ok(())
    }

    /// Changes the rate at which values are sent, at once; `None` for no limit.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        if rate != self.pacer.rate() {
            self.pacer.set(now, rate);
            // The packet that waits may be sent sooner. It sets the timer again if it may not.
            if self.timers.is_set(Timer::Pace) {
                self.timers.set(Timer::Pace, now);
            }
        }
    }

    /// The rate at which values are sent, if it is limited.
    pub fn rate(&self) -> Option<Rate> {
        self.pacer.rate()
    }

    /// Whether the job has a PS that sees all results: in ATP, and in P4INC except in local jobs.
    pub fn has_server(&self) -> bool {
        let job = &self.config.job;
        match job.protocol {
            Protocol::Atp => true,
            Protocol::P4inc => job.assignment.mode != Mode::Local,
            Protocol::Esa | Protocol::SwitchMl => false,
        }
    }

    /// Whether the results of all tensors have arrived. An idle worker may be dropped, with two
    /// exceptions: if the PS may be replaced, and in ESA, where the worker first has to
    /// [`leave`](Self::leave). See [the crate's documentation](crate#when-an-endpoint-may-stop).
    pub fn is_idle(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Why the worker failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failed
    }

    /// The configuration.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The congestion window in packets.
    pub fn window(&self) -> u32 {
        self.controller.window()
    }

    /// The typical time from sending a fragment to its result.
    pub fn round_trip(&self) -> Option<Duration> {
        self.rules.round_trip()
    }

    /// The times from sending a fragment to its result, of fragments that were sent once.
    pub fn round_trips(&self) -> &Histogram {
        &self.round_trips
    }

    /// Number of fragments that were sent, of this run of the job. Workers are compared by it: the
    /// difference is what one is behind another.
    pub fn fragments_sent(&self) -> u32 {
        self.fragments.next()
    }

    /// From the lowest sequence without a result to the next one to be sent for the first time.
    pub fn outstanding(&self) -> std::ops::Range<Sequence> {
        self.sequence(self.fragments.base())..self.next_sequence()
    }

    /// [`Endpoint::handle_frame`] for a driver that has already validated the frame.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        if self.failed.is_none() {
            self.receive(now, packet);
            self.pursue(now);
        }
    }

    /// The sequence of the current round of an outstanding fragment.
    fn sequence(&self, fragment: u32) -> Sequence {
        self.numbering.sequence(self.fragments.round(fragment))
    }

    /// The next sequence to be sent for the first time.
    fn next_sequence(&self) -> Sequence {
        self.numbering.sequence(Round::first(self.fragments.next()))
    }

    fn write_headers(&mut self) {
        self.headers = headers(&self.config, self.config.job.values_per_packet);
        self.headers_without_values = headers(&self.config, 0);
    }

    fn envelope(&self) -> Envelope {
        envelope(&self.config)
    }

    /// Moves finished tensors from the queue to the events.
    fn deliver(&mut self) {
        while let Some((id, tensor, rounding)) = self.tensors.pop_done() {
            self.events.push_back(Event::TensorDone { id, tensor, rounding });
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        self.timers.stop_all();
        self.events.push_back(Event::Failed(failure));
    }
}

fn envelope(config: &WorkerConfig) -> Envelope {
    let job = &config.job;
    let without_server = job.protocol.has_services() && job.assignment.mode == Mode::Local;
    let destination = if without_server { Host::service(job.job) } else { config.server };
    Envelope { source: config.host, destination, ecn: Ecn::Ect0 }
}

/// The headers of the worker's gradients, with an aggregation header to be overwritten.
fn headers(config: &WorkerConfig, values: u16) -> [u8; HEADERS_LEN] {
    let JobConfig { protocol, job, epoch, .. } = config.job;
    let repr = Repr {
        protocol,
        kind: Kind::Gradient,
        flags: Flags::NONE,
        priority: 0,
        job,
        epoch,
        values,
        sequence: Sequence(0),
        bitmap: Bitmap(0),
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: AggregatorIndex(0),
    };
    let mut frame = Vec::new();
    emit_frame(&mut frame, &envelope(config), &repr);
    *frame.first_chunk().expect("a frame has all headers")
}

/// Number of times that a fragment is sent through the switches before it bypasses them.
///
/// With the papers' rules it is one. With the others the first resend also goes through the
/// switches, even in protocols whose resends bypass them: the worker's own packet was most likely
/// lost, and then the switch completes the sum. Otherwise the switch drops the packet, which spares
/// the PS.
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
        if let Some(due) = self.pacer.wait(now) {
            self.timers.set(Timer::Pace, due);
            return false;
        }
        let sent = self.transmit(now, frame);
        if sent {
            let has_values = frame.len() > HEADERS_LEN;
            let values = if has_values { self.config.job.values_per_packet } else { 0 };
            self.pacer.charge(now, values);
        }
        sent
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timers.expire(Timer::Reorder, now).is_some() {
            self.on_reorder_timer(now);
        }
        if self.timers.expire(Timer::Resend, now).is_some() {
            self.on_resend_timer(now);
        }
        // The driver asks for packets after this.
        self.timers.expire(Timer::Pace, now);
        self.timers.expire(Timer::Farewell, now);
        if self.timers.expire(Timer::Stall, now).is_some() {
            self.on_stall_timer(now);
        }
        self.pursue(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
