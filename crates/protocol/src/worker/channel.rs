//! ESA: the worker's messages on the reliable channel, and the messages that it receives there (ESA
//! §5.1, §5.3).
//!
//! With the papers' rules, this is how a lost fragment is repaired, and how the job ends. With the other
//! rules a worker sends the fragment to the PS in packets, which do not wait for earlier losses of a
//! connection, reminds the agent only after several of those were not answered, and says farewell in
//! packets, too. The channel is the last resort.
//!
//! The state only records *which* messages are due. Values and results are looked up when the
//! channel has room for them. A slow or broken channel therefore costs no memory, and messages that
//! have become pointless by then are not sent.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tributary_wire::agg::{Repair, Repr};
use tributary_wire::channel::{FromWorker, ToWorker, Values};
use tributary_wire::{Audience, Flags, Kind, Round, Sequence, emit_frame};

use super::codec::{Encoding, Form, KindMismatch};
use super::receive::Completion;
use super::{Failure, Timer, Worker};
use crate::bits::SlotSet;
use crate::{JobConfig, Recovery, Time};

/// Bound on the pending answers, in windows. The PS asks about at most two windows of fragments.
const ANSWERS: usize = 4;

/// Number of unanswered repair packets after which the agent is reminded.
const REPAIRS: u8 = 4;

/// Time between the first two reminders of a fragment, or farewells. It doubles with each further one, up to
/// 64-fold: the channel retransmits on its own, which takes time, and must not be flooded meanwhile,
/// and other workers may need longer.
const REST: Duration = Duration::from_millis(1);
const REST_DOUBLES: u32 = 6;

/// A fragment of which the agent was reminded.
#[derive(Clone, Copy, Debug, Default)]
struct Reminded {
    fragment: u32,
    times: u32,
    /// No reminder is sent before this time.
    rests_until: Time,
}

/// State of the reliable channel.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// Outstanding fragments for which a reminder is due.
    reminders: SlotSet,
    /// Per slot, the last fragment for which a reminder was sent.
    reminded: Box<[Reminded]>,
    /// Queried fragments, and whether in floats.
    answers: BTreeMap<u32, bool>,
    answers_max: usize,
    /// Fragments that were queried before they were sent, and whether in floats.
    early: BTreeMap<u32, bool>,
    leaving: bool,
    /// Whether `Finished` was sent on this connection.
    said_finished: bool,
    /// Number of farewells that were sent in packets.
    farewells: u32,
    dismissed: bool,
}

impl Channel {
    pub(super) fn new(job: &JobConfig) -> Self {
        Self {
            reminders: SlotSet::new(job.slots),
            reminded: vec![Reminded::default(); job.slots as usize].into(),
            answers: BTreeMap::new(),
            answers_max: ANSWERS * job.slots as usize,
            early: BTreeMap::new(),
            leaving: false,
            said_finished: false,
            farewells: 0,
            dismissed: false,
        }
    }
}

impl Channel {
    /// Whether the agent may be reminded of a fragment now. If so, records the reminder as sent.
    fn may_remind(&mut self, now: Time, fragment: u32) -> bool {
        let slot = fragment as usize & (self.reminded.len() - 1);
        let reminded = &mut self.reminded[slot];
        if reminded.fragment != fragment {
            *reminded = Reminded { fragment, ..Reminded::default() };
        }
        if now < reminded.rests_until {
            return false;
        }
        reminded.rests_until = now + REST * (1 << reminded.times.min(REST_DOUBLES));
        reminded.times += 1;
        true
    }

    fn was_reminded(&self, fragment: u32) -> bool {
        let reminded = &self.reminded[fragment as usize & (self.reminded.len() - 1)];
        reminded.fragment == fragment && reminded.times > 0
    }
}

impl Worker {
    /// Handles a message of the reminder agent. An ATP worker has no agent and ignores it.
    pub fn handle_message(&mut self, now: Time, message: ToWorker) {
        if self.failed.is_some() || self.channel.is_none() {
            return;
        }
        match message {
            ToWorker::Query { sequence, float } => self.on_question(sequence.0, float),
            ToWorker::Result { sequence, values } => self.on_delivery(now, sequence.0, &values),
            ToWorker::Dismissed => self.dismiss(now, true),
        }
        self.pursue(now);
    }

    /// The next message for the reminder agent. Poll it after every call that can produce one, as
    /// for events.
    pub fn poll_message(&mut self) -> Option<FromWorker> {
        if self.failed.is_some() {
            return None;
        }
        self.poll_reminder().or_else(|| self.poll_answer()).or_else(|| self.poll_goodbye())
    }

    /// The channel to the reminder agent was opened, for the first time or again. Messages of an
    /// earlier channel may be lost: timers recover fragments, and `Finished` is sent again.
    pub fn channel_opened(&mut self) {
        if let Some(channel) = &mut self.channel {
            channel.said_finished = false;
        }
    }

    /// Announces that this worker will submit no more tensors. Once all workers of the job have all
    /// results and have announced the same, [`is_dismissed`](Self::is_dismissed) returns true.
    pub fn leave(&mut self) {
        if let Some(channel) = &mut self.channel {
            channel.leaving = true;
        }
    }

    /// Whether no other worker depends on this one any more. In ATP that is when it is idle.
    pub fn is_dismissed(&self) -> bool {
        match &self.channel {
            Some(channel) => channel.dismissed,
            None => self.is_idle(),
        }
    }

    /// All workers have all results and have announced that they leave.
    pub(super) fn dismiss(&mut self, now: Time, by_agent: bool) {
        if let Some(channel) = &mut self.channel
            && channel.leaving
            && !channel.dismissed
        {
            channel.dismissed = true;
            self.note_dismissal(now, by_agent);
        }
    }

    /// Writes to the PS that this worker has all results, again and again until it learns that all workers have.
    pub(super) fn write_farewell(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        if !self.is_leaving() || !self.is_idle() {
            return false;
        }
        self.note_leaving(now);
        if self.only_reminds() || self.timers.is_set(Timer::Farewell) {
            return false;
        }
        let Some(channel) = &mut self.channel else { return false };
        if channel.dismissed {
            return false;
        }
        self.timers.set(Timer::Farewell, now + REST * (1 << channel.farewells.min(REST_DOUBLES)));
        channel.farewells += 1;
        let job = &self.config.job;
        let repr = Repr {
            protocol: job.protocol,
            kind: Kind::Gradient,
            flags: Flags::REPAIR,
            priority: Repair::FAREWELL.code(),
            job: job.job,
            epoch: job.epoch,
            values: job.values_per_packet,
            sequence: self.next_sequence(),
            bitmap: self.name.1,
            rack: self.name.0,
            audience: Audience::ALL,
            index: self.fragments.index(self.fragments.next()),
        };
        emit_frame(frame, &self.envelope(), &repr);
        self.stats.sent += 1;
        true
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.leaving)
    }

    /// Whether this worker recovers a fragment that was sent once through the agent only.
    pub(super) fn only_reminds(&self) -> bool {
        self.channel.is_some() && self.config.timing.recovery == Recovery::Papers
    }

    /// Whether the agent was reminded of a fragment that was repaired and whose slot has no later one.
    pub(super) fn was_reminded(&self, fragment: u32) -> bool {
        self.only_reminds()
            || self.channel.as_ref().is_some_and(|channel| channel.was_reminded(fragment))
    }

    /// Queues reminders for the fragments to be reported at once.
    pub(super) fn pursue(&mut self, now: Time) {
        if self.failed.is_some() || !self.only_reminds() {
            return;
        }
        while let Some(sequence) = self.next_to_pursue() {
            self.fragments.pursued(now, sequence);
            self.rules.on_sent(sequence, false);
            if let Some(channel) = &mut self.channel {
                channel.reminders.insert(sequence);
            }
        }
    }

    /// A fragment was sent past the switches once more. Queues a reminder if that happened too
    /// often.
    pub(super) fn consider_reminding(&mut self, now: Time, sequence: u32) {
        if self.fragments.sendings_around(sequence) > REPAIRS
            && let Some(channel) = &mut self.channel
            && channel.may_remind(now, sequence)
        {
            channel.reminders.insert(sequence);
        }
    }

    fn next_to_pursue(&mut self) -> Option<u32> {
        let due = self.fragments.next_due_if(true);
        due.or_else(|| self.rules.next_suspect(&self.fragments))
    }

    /// Whether the PS queried the next new fragment before it was sent. The PS then holds a part of
    /// that task, which no switch can complete, so the values go directly to the PS.
    pub(super) fn hand_over(&mut self, now: Time, sequence: u32) -> bool {
        let Some(channel) = &mut self.channel else {
            return false;
        };
        channel.early = channel.early.split_off(&sequence);
        let Some(float) = channel.early.remove(&sequence) else {
            return false;
        };
        channel.answers.insert(sequence, float);
        self.note_sent(now, sequence, true, float);
        true
    }

    fn on_question(&mut self, sequence: u32, float: bool) {
        // Values would fill a TCP connection that has lost segments.
        let round = Round::first(sequence);
        let in_packets = !self.only_reminds()
            && (self.fragments.ask(round, float) || self.hand_over_result(round));
        if in_packets {
            self.stats.queries += 1;
            return;
        }
        let Some(channel) = &mut self.channel else {
            return;
        };
        if channel.answers.len() >= channel.answers_max {
            self.stats.stale_queries += 1;
            return;
        }
        *channel.answers.entry(sequence).or_default() |= float;
        self.stats.queries += 1;
        if sequence >= self.fragments.next() && channel.early.len() < channel.answers_max {
            *channel.early.entry(sequence).or_default() |= float;
        }
    }

    fn on_delivery(&mut self, now: Time, sequence: u32, values: &Values) {
        if values.payload.len() != self.payload_len() {
            self.stats.rejected.wrong_values += 1;
        } else if self.is_due(Round::first(sequence)) {
            let form = if values.float { Form::Float } else { Form::Fixed { rung: 0 } };
            if self.take_result(sequence, form, &values.payload) {
                self.stats.delivered += 1;
                let how = Completion { collided: false, marked: false, delivered: true };
                self.complete(now, sequence, how);
            }
        }
    }

    fn poll_reminder(&mut self) -> Option<FromWorker> {
        let window = self.fragments.base()..self.fragments.end();
        let channel = self.channel.as_mut()?;
        // If the result of a recorded fragment has arrived, its bit now refers to a later fragment
        // in the same slot, or to none.
        while let Some(sequence) = channel.reminders.next(window.start, window.end) {
            channel.reminders.remove(sequence);
            if self.fragments.is_outstanding(sequence) {
                self.stats.reminders += 1;
                return Some(FromWorker::Remind { sequence: Sequence(sequence) });
            }
        }
        None
    }

    fn poll_answer(&mut self) -> Option<FromWorker> {
        let (sequence, float) = self.channel.as_mut()?.answers.pop_first()?;
        let number = Sequence(sequence);
        if sequence >= self.fragments.next() {
            return Some(FromWorker::NotSent { sequence: number });
        }
        if !self.fragments.is_outstanding(sequence) {
            let last = self.handover.as_ref()?.results.last(sequence);
            return Some(match last.filter(|(kept, _)| kept.sequence == number) {
                Some((kept, payload)) => {
                    self.stats.lent += 1;
                    let payload = Bytes::copy_from_slice(payload);
                    let values = Values { float: kept.overflow, payload };
                    FromWorker::Result { sequence: number, values }
                }
                None => FromWorker::Over { sequence: number },
            });
        }
        let mut payload = BytesMut::zeroed(self.payload_len());
        let float = float || self.fragments.sending(sequence).float;
        let form = if float { Form::Float } else { Form::Fixed { rung: 0 } };
        match self.tensors.encode(sequence, form, &mut payload) {
            Ok(encoding) => {
                self.stats.direct += 1;
                let float = encoding == Encoding::Float;
                self.stats.overflow_packets += u64::from(float);
                let payload: Bytes = payload.freeze();
                Some(FromWorker::Values { sequence: number, values: Values { float, payload } })
            }
            Err(KindMismatch) => {
                self.fail(Failure::KindMismatch { sequence: number });
                None
            }
        }
    }

    fn poll_goodbye(&mut self) -> Option<FromWorker> {
        let idle = self.is_idle();
        let end = Sequence(self.fragments.next());
        let channel = self.channel.as_mut()?;
        if !channel.leaving || !idle || channel.said_finished {
            return None;
        }
        channel.said_finished = true;
        Some(FromWorker::Finished { end })
    }

    fn payload_len(&self) -> usize {
        4 * usize::from(self.config.job.values_per_packet)
    }
}
