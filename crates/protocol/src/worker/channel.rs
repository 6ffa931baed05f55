//! ESA: what a worker says over the reliable channel, and what it is told there (ESA §5.1, §5.3).
//!
//! With the papers' rules, that is how a lost fragment is repaired. With the others a worker sends it to the
//! PS in packets, which are not held up by what a connection lost before them, and reminds the agent if
//! several of those were of no avail.
//!
//! Nothing here is remembered but *what* is to be said. Values and results are looked up when the
//! channel has room for them, so a channel that is slow or broken costs no memory, and what has
//! become pointless by then is not said at all.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tributary_wire::channel::{FromWorker, ToWorker, Values};
use tributary_wire::{Round, Sequence};

use super::codec::{Encoding, Form, KindMismatch};
use super::{Failure, Worker};
use crate::bits::SlotSet;
use crate::{JobConfig, Recovery, Time};

/// Answers that may be due at a time, in windows: the PS asks about at most two windows of fragments.
const ANSWERS: usize = 4;

/// Packets around the switches that were of no avail before the agent is reminded.
const REPAIRS: u8 = 4;

/// Time between the first two reminders of a fragment. Each further one waits twice as long, up to 64 times:
/// the channel has its own repairs, which take their time, and is not to be flooded meanwhile.
const REST: Duration = Duration::from_millis(1);
const REST_DOUBLES: u32 = 6;

/// A fragment of which the agent was reminded.
#[derive(Clone, Copy, Debug, Default)]
struct Reminded {
    fragment: u32,
    times: u32,
    /// Before this it is not reminded again.
    rests_until: Time,
}

/// What the reliable channel needs.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// Outstanding fragments of which the agent is to be reminded.
    reminders: SlotSet,
    /// By slot, the fragment that the agent was last reminded of.
    reminded: Box<[Reminded]>,
    /// Fragments that were asked for, and whether in floats.
    answers: BTreeMap<u32, bool>,
    answers_max: usize,
    /// Fragments that were asked for before they were sent, and whether in floats.
    early: BTreeMap<u32, bool>,
    leaving: bool,
    /// That it is leaving was said on this connection.
    said_finished: bool,
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
            dismissed: false,
        }
    }
}

impl Channel {
    /// Whether the agent may be reminded of a fragment now; it is taken for done.
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
}

impl Worker {
    /// Takes a message of the reminder agent. An ATP worker has none and ignores it.
    pub fn handle_message(&mut self, now: Time, message: ToWorker) {
        if self.failed.is_some() || self.channel.is_none() {
            return;
        }
        match message {
            ToWorker::Query { sequence, float } => self.on_question(sequence.0, float),
            ToWorker::Result { sequence, values } => self.on_delivery(now, sequence.0, &values),
            ToWorker::Dismissed => {
                if let Some(channel) = &mut self.channel {
                    channel.dismissed = channel.leaving;
                }
            }
        }
        self.pursue(now);
    }

    /// The next message for the reminder agent: ask for it after every call that could bring one
    /// about, as for events.
    pub fn poll_message(&mut self) -> Option<FromWorker> {
        if self.failed.is_some() {
            return None;
        }
        self.poll_reminder().or_else(|| self.poll_answer()).or_else(|| self.poll_goodbye())
    }

    /// The channel to the reminder agent was opened, for the first time or again. What was under way
    /// on an earlier one may be lost: fragments are pursued by their timers anyway, and a goodbye is
    /// said again.
    pub fn channel_opened(&mut self) {
        if let Some(channel) = &mut self.channel {
            channel.said_finished = false;
        }
    }

    /// Tells the others that this worker will submit no more. Once all workers of the job have their
    /// results and have said so, [`is_dismissed`](Self::is_dismissed) turns true.
    pub fn leave(&mut self) {
        if let Some(channel) = &mut self.channel {
            channel.leaving = true;
        }
    }

    /// Whether nobody needs this worker any more. With ATP that is when it is idle.
    pub fn is_dismissed(&self) -> bool {
        match &self.channel {
            Some(channel) => channel.dismissed,
            None => self.is_idle(),
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.leaving)
    }

    /// Whether the agent is all that this worker turns to for a fragment that was sent once.
    pub(super) fn only_reminds(&self) -> bool {
        self.channel.is_some() && self.config.timing.recovery == Recovery::Papers
    }

    /// Notes the fragments of which the agent is to be reminded at once.
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

    /// A fragment went around the switches once more.
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

    /// Whether the PS asked for the next new fragment before it was sent, and so holds a part of that
    /// task, which no switch can complete any more. The values then go to the PS at once.
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
                self.complete(now, sequence, false, false);
            }
        }
    }

    fn poll_reminder(&mut self) -> Option<FromWorker> {
        let window = self.fragments.base()..self.fragments.end();
        let channel = self.channel.as_mut()?;
        // Bits of fragments whose results have come in since are those of later fragments of the
        // same slots now, or of none.
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
