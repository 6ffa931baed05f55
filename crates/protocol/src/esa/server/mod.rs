//! The PS of an ESA job: a dictionary of tasks that switches did not finish (ESA §5.1).
//!
//! | file | concern |
//! | --- | --- |
//! | `entries` | state of tasks: partial sums and results |
//! | `receive` | packets from switches and messages from the agent |
//!
//! Its only timer reports stalls. The [agent](super::Agent) decides when to query workers over the
//! reliable channel, and the server reports every change of an entry to it. The server itself
//! answers repair packets ([`Flags::REPAIR`]), which workers send past the switches when they lack
//! a result. It answers with the result if it has it, and otherwise asks one worker whose values
//! are missing. That worker answers with the result or with its values. If any of these packets is
//! lost, the worker that lacks the result sends again.

mod entries;
mod receive;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_wire::agg::{Packet, Repair, Repaired, Repr};
use tributary_wire::channel::FromServer;
use tributary_wire::{
    Audience, Bitmap, Ecn, Envelope, Flags, Host, Kind, Protocol, Rack, Sequence, WorkerSet,
    emit_frame,
};

use crate::addressing::Tasks;
use crate::rtt::Least;
use crate::server::{Event, PsConfig};
use crate::stats::{Rejected, add_counters};
use crate::{ConfigError, Endpoint, Time};
use entries::Entries;

/// Counters of an ESA PS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Partial sums from switches, and contributions that found no aggregator.
    pub gradients: u64,
    /// Contributions and partial sums that the agent delivered: fetched by reminders, or sent by
    /// workers over the reliable channel.
    pub brought: u64,
    /// Gradients and delivered parts that were merged into an entry.
    pub merged: u64,
    /// Entries set up.
    pub entries: u64,
    /// Tasks completed here.
    pub completed: u64,
    /// Tasks completed in `f32`.
    pub overflow_tasks: u64,
    /// Tasks completed with a congestion mark.
    pub marked: u64,
    /// Entries closed because a worker had the result.
    pub known: u64,
    /// Entries closed because all workers had the result.
    pub over: u64,
    /// Repair packets of workers.
    pub repairs: u64,
    /// Questions sent to workers in packets.
    pub questions: u64,
    /// Packets dropped because all their contributions were already merged.
    pub duplicates: u64,
    /// Packets dropped because some, but not all, of their contributions were already merged.
    pub overlaps: u64,
    /// Integer packets dropped because their task is collected in `f32`.
    pub fixed_after_overflow: u64,
    /// Packets and messages dropped because all workers are known to have the result of the task.
    pub stale: u64,
    /// Packets and messages that met a full dictionary. Either the highest entry was dropped in
    /// favour of theirs, or they were dropped.
    pub full: u64,
    /// Results multicast.
    pub parameters: u64,
    /// Results sent to single workers over the reliable channel.
    pub deliveries: u64,
    /// Dropped packets and messages, by reason.
    pub rejected: Rejected,
}

add_counters!(Stats: gradients, brought, merged, entries, completed, overflow_tasks, marked, known, over, repairs, questions, duplicates, overlaps, fixed_after_overflow, stale, full, parameters, deliveries, rejected);

/// The PS of one ESA job.
#[derive(Clone, Debug)]
pub struct Server {
    config: PsConfig,
    tasks: Tasks,
    entries: Entries,
    /// Tasks whose result is due for multicast.
    parameters: VecDeque<u32>,
    /// Tasks for which a question to a worker is due.
    questions: VecDeque<u32>,
    /// The workers that have said farewell.
    farewells: WorkerSet,
    /// Whether the answer to a farewell is due.
    dismissal: bool,
    /// The shortest time from a question to its answer.
    answer: Least,
    messages: VecDeque<FromServer>,
    /// When to check for entries that wait too long.
    stall_at: Option<Time>,
    /// When the server last received anything from a worker, through a switch or the agent.
    last_heard: Time,
    stall_reported: Option<Sequence>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Server {
    /// Creates a PS without state. It may replace a PS that was lost.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: PsConfig) -> Result<Self, ConfigError> {
        config.validate(&[Protocol::Esa])?;
        Ok(Self {
            tasks: config.job.tasks(),
            entries: Entries::new(&config.job),
            parameters: VecDeque::new(),
            questions: VecDeque::new(),
            farewells: WorkerSet::EMPTY,
            dismissal: false,
            answer: Least::default(),
            messages: VecDeque::new(),
            stall_at: None,
            last_heard: Time::ZERO,
            stall_reported: None,
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &PsConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Number of incomplete tasks with an entry.
    pub fn pending_tasks(&self) -> usize {
        self.entries.pending().count()
    }

    /// For how long each worker has kept an entry waiting, as
    /// [`ParameterServer::gaps`](crate::ParameterServer::gaps).
    pub fn gaps(&self, now: Time) -> Vec<Duration> {
        let entries = self.entries.pending().map(|entry| (entry.merged, entry.since));
        crate::stats::gaps(&self.config.job, entries, now)
    }

    /// The next message for the agent.
    pub fn poll_message(&mut self) -> Option<FromServer> {
        self.messages.pop_front()
    }

    /// The channel to an agent in another process was opened, for the first time or again. Reports
    /// all entries to it.
    pub fn channel_opened(&mut self) {
        self.messages.clear();
        for entry in self.entries.pending() {
            self.messages.push_back(FromServer::Entry {
                sequence: Sequence(entry.sequence),
                merged: entry.merged,
                float: entry.is_float(),
                urgent: false,
            });
        }
    }

    fn everyone(&self) -> WorkerSet {
        self.config.job.everyone()
    }

    fn on_stall_timer(&mut self, now: Time) {
        let timeout = self.config.timing.stall_timeout;
        let Some(oldest) = self.entries.pending().min_by_key(|entry| entry.since) else {
            self.stall_at = None;
            return;
        };
        if oldest.since + timeout > now {
            self.stall_at = Some(oldest.since + timeout);
            return;
        }
        self.stall_at = Some(now + timeout);
        let sequence = Sequence(oldest.sequence);
        if self.stall_reported != Some(sequence) {
            self.stall_reported = Some(sequence);
            let missing = self.everyone().without(oldest.merged);
            let waited = now - oldest.since;
            let quiet = now - self.last_heard >= timeout / 2;
            self.events.push_back(Event::Stalled { sequence, missing, waited, quiet });
        }
    }

    /// Writes the next result that is due for multicast.
    fn write_parameter(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        while let Some(sequence) = self.parameters.pop_front() {
            // The result may have been dropped because all workers have it.
            let Some(result) = self.entries.result(sequence) else {
                continue;
            };
            let flags = result.flags;
            self.emit(frame, sequence, (Rack::NONE, self.config.job.whole()), flags, 0)
                .copy_from_slice(&result.values.payload);
            if let Some(result) = self.entries.result_mut(sequence) {
                result.published = Some(now);
            }
            self.stats.parameters += 1;
            self.stats.marked += u64::from(flags.contains(Flags::ECN));
            return true;
        }
        false
    }

    /// Writes the next question. Like a result it is multicast to all workers, because switches
    /// pass only those.
    fn write_question(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        while let Some(sequence) = self.questions.pop_front() {
            let everyone = self.everyone();
            // The task may be complete by now.
            let Some(entry) = self.entries.get_mut(sequence) else {
                continue;
            };
            let Some(asked) = entry.next_asked(everyone) else {
                continue;
            };
            entry.asked = Some((asked, now));
            let question = Repair { what: Repaired::Question, float: entry.is_float() };
            let name = self.config.job.racks.name(asked);
            self.emit(frame, sequence, name, Flags::REPAIR, question.code());
            self.stats.questions += 1;
            return true;
        }
        false
    }

    /// Writes to all workers that all of them have said farewell.
    fn write_dismissal(&mut self, frame: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.dismissal) {
            return false;
        }
        let whole = (Rack::NONE, self.config.job.whole());
        self.emit(frame, 0, whole, Flags::REPAIR, Repair::FAREWELL.code());
        true
    }

    /// Writes a multicast packet with zero values.
    fn emit<'a>(
        &self,
        frame: &'a mut Vec<u8>,
        sequence: u32,
        (rack, bitmap): (Rack, Bitmap),
        flags: Flags,
        priority: u8,
    ) -> &'a mut [u8] {
        let job = &self.config.job;
        let sequence = Sequence(sequence);
        let repr = Repr {
            protocol: Protocol::Esa,
            kind: Kind::Parameter,
            flags,
            priority,
            job: job.job,
            epoch: job.epoch,
            values: job.values_per_packet,
            sequence,
            bitmap,
            rack,
            audience: Audience::ALL,
            index: self.tasks.index(sequence),
        };
        let destination = Host::group(job.job);
        let envelope = Envelope { source: self.config.host, destination, ecn: Ecn::Ect0 };
        emit_frame(frame, &envelope, &repr)
    }
}

impl Endpoint for Server {
    type Event = Event;

    fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        match Packet::new_checked(frame) {
            Ok(packet) => self.handle_packet(now, &packet),
            Err(error) => self.stats.rejected.count(&error),
        }
    }

    fn poll_transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        self.write_parameter(now, frame)
            || self.write_question(now, frame)
            || self.write_dismissal(frame)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.stall_at
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.stall_at.is_some_and(|at| at <= now) {
            self.on_stall_timer(now);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
