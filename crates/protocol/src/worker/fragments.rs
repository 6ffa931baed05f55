//! The window: which fragments are under way, and what is known of each.

use tributary_wire::{AggregatorIndex, Round};

use crate::addressing::Places;
use crate::bits::SlotSet;
use crate::{JobConfig, Time};

use super::loss::{Answered, SendOrder};

/// What is known of the fragment that a slot is at.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The rung of the scale ladder that it is at; the first one between two fragments.
    rung: u8,
    /// Its round was not sent yet: the one before came back with an overflow.
    unsent: bool,
    /// When it was last sent, or came to be at its rung.
    sent: Time,
    /// The number of that sending, among all.
    serial: u64,
    /// How often its round was sent.
    sendings: u8,
    /// Its round was sent more than once, so its result tells no round-trip time.
    resent: bool,
    /// It must go as floats.
    float: bool,
    /// The fragment of this slot that the PS asked for before it was sent.
    asked: Option<u32>,
}

impl Slot {
    const NEW: Self = Self {
        rung: 0,
        unsent: false,
        sent: Time::ZERO,
        serial: 0,
        sendings: 0,
        resent: false,
        float: false,
        asked: None,
    };
}

impl Slot {
    fn answered(&self) -> Answered {
        Answered { sent: self.sent, serial: self.serial, resent: self.resent }
    }
}

/// What sending a fragment must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) round: Round,
    pub(super) index: AggregatorIndex,
    pub(super) float: bool,
    /// It was sent before.
    pub(super) repeated: bool,
    /// It is to go around the switch, or was asked for.
    pub(super) again: bool,
}

/// The last sending of a fragment that waits for its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    /// The number of that sending, among all.
    pub(super) serial: u64,
    /// It went around the switches.
    pub(super) around: bool,
}

/// What becomes of a fragment that waits for its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Walk {
    /// It goes on waiting.
    Keep,
    /// It is lost.
    Lose,
    /// It goes on waiting, and so do all that were sent after it.
    End,
}

/// What a round is to a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Its result is in.
    Over,
    /// It is under way.
    Due,
    /// It was never sent.
    Unsent,
}

/// Fragments from `base` (the lowest without its final result) to `next` (the lowest that was never
/// sent). No more than the slots are in between.
#[derive(Clone, Debug)]
pub(super) struct Fragments {
    slots: Box<[Slot]>,
    places: Places,
    base: u32,
    next: u32,
    /// Sent, without a final result.
    outstanding: SlotSet,
    /// Of these: to be sent at once.
    due: SlotSet,
    /// Of these: turned back by the switch until an earlier fragment is over.
    early: SlotSet,
    /// Slots whose fragments wait for a result, by when they were sent: of the outstanding ones, all
    /// but those that are lost or at a round that was not sent yet.
    order: SendOrder,
    /// Sendings so far.
    sendings: u64,
    /// How often a round is sent through the switches before it is sent around them.
    through: u8,
}

impl Fragments {
    /// A round that is sent more than `through` times is resent with the resend flag.
    pub(super) fn new(job: &JobConfig, through: u8) -> Self {
        Self {
            slots: vec![Slot::NEW; job.slots as usize].into(),
            places: Places::new(job),
            base: 0,
            next: 0,
            outstanding: SlotSet::new(job.slots),
            due: SlotSet::new(job.slots),
            early: SlotSet::new(job.slots),
            order: SendOrder::new(job.slots),
            sendings: 0,
            through,
        }
    }

    /// The job is served in another way, in which no round has been yet. Nothing may be outstanding.
    pub(super) fn reassign(&mut self, job: &JobConfig) {
        debug_assert!(self.nothing_outstanding());
        self.places = Places::new(job);
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// One beyond the last fragment that may ever be under way together with `base`.
    pub(super) fn end(&self) -> u32 {
        self.base + self.slots.len() as u32
    }

    pub(super) fn nothing_outstanding(&self) -> bool {
        self.base == self.next
    }

    pub(super) fn is_outstanding(&self, fragment: u32) -> bool {
        (self.base..self.next).contains(&fragment) && self.outstanding.contains(fragment)
    }

    /// The round that an outstanding fragment, or `next`, is at.
    pub(super) fn round(&self, fragment: u32) -> Round {
        Round { fragment, rung: self.slots[self.slot(fragment)].rung }
    }

    /// What a round is to this worker.
    pub(super) fn standing(&self, round: Round) -> Standing {
        let Round { fragment, rung } = round;
        if fragment >= self.next {
            return Standing::Unsent;
        }
        if !self.is_outstanding(fragment) {
            return Standing::Over;
        }
        let slot = &self.slots[self.slot(fragment)];
        match rung {
            rung if rung < slot.rung => Standing::Over,
            rung if rung > slot.rung || slot.unsent => Standing::Unsent,
            _ => Standing::Due,
        }
    }

    /// The aggregator of the round that a fragment's slot is at.
    pub(super) fn index(&self, fragment: u32) -> AggregatorIndex {
        self.places.index(fragment)
    }

    /// The salt that a fragment's slot is at.
    pub(super) fn salt(&self, fragment: u32) -> u8 {
        self.places.salt(fragment)
    }

    /// A result names an aggregator and the salt that it follows from. Returns whether it is one of the
    /// fragment. Where the sender has another salt than this worker, its salt holds.
    pub(super) fn agree(&mut self, fragment: u32, index: AggregatorIndex, salt: u8) -> bool {
        if index == self.places.index_at(fragment, salt) {
            self.places.set_salt(fragment, salt);
            return true;
        }
        index == self.places.index(fragment)
    }

    /// The lowest fragment to be sent at once.
    pub(super) fn next_due(&self) -> Option<u32> {
        self.due.next(self.base, self.next)
    }

    /// The lowest fragment to be sent at once that was sent through the switches as often as it may, or
    /// the lowest that was not.
    pub(super) fn next_due_if(&self, worn: bool) -> Option<u32> {
        let mut from = self.base;
        loop {
            let fragment = self.due.next(from, self.next)?;
            if (self.slots[self.slot(fragment)].sendings >= self.through) == worn {
                return Some(fragment);
            }
            from = fragment + 1;
        }
    }

    /// The lowest outstanding fragment from `from` up.
    pub(super) fn next_outstanding(&self, from: u32) -> Option<u32> {
        self.outstanding.next(from, self.next)
    }

    /// The lowest fragment from `from` up and below `to` that waits for its result: not for its turn
    /// to be sent, and not for an earlier fragment because the switch turned it back.
    pub(super) fn next_sent(&self, from: u32, to: u32) -> Option<u32> {
        let mut from = from;
        loop {
            let fragment = self.outstanding.next(from, to)?;
            if !self.slots[self.slot(fragment)].unsent && !self.early.contains(fragment) {
                return Some(fragment);
            }
            from = fragment + 1;
        }
    }

    /// Walks through the fragments that wait for their results, those sent longest ago first, and takes
    /// for lost which `judge` says. Those that the switch turned back wait for something else.
    pub(super) fn lose_of_sent(&mut self, mut judge: impl FnMut(u32, Sent) -> Walk) {
        let mut at = self.order.first();
        while let Some(number) = at {
            at = self.order.after(number);
            let fragment = self.fragment(number);
            if self.early.contains(fragment) {
                continue;
            }
            let slot = &self.slots[number];
            let sent =
                Sent { at: slot.sent, serial: slot.serial, around: slot.sendings > self.through };
            match judge(fragment, sent) {
                Walk::Keep => {}
                Walk::Lose => self.lose(fragment),
                Walk::End => return,
            }
        }
    }

    /// Takes the lowest and the highest outstanding fragment for lost, whether they were turned back or
    /// not.
    pub(super) fn lose_ends(&mut self) {
        let highest = (self.base..self.next).rev().find(|&it| self.outstanding.contains(it));
        self.lose(self.base);
        if let Some(highest) = highest {
            self.lose(highest);
        }
    }

    /// When an outstanding fragment was sent last.
    pub(super) fn sent_at(&self, fragment: u32) -> Time {
        self.slots[self.slot(fragment)].sent
    }

    /// An outstanding fragment is lost: it is to be sent at once.
    pub(super) fn lose(&mut self, fragment: u32) {
        self.order.remove(self.slot(fragment));
        self.early.remove(fragment);
        self.due.insert(fragment);
    }

    /// What to write into the packet of an outstanding fragment, or of `next`.
    pub(super) fn sending(&self, fragment: u32) -> Sending {
        let slot = &self.slots[self.slot(fragment)];
        let asked = slot.asked == Some(fragment);
        let next = fragment == self.next;
        Sending {
            round: self.round(fragment),
            index: self.index(fragment),
            // What a slot's last fragment was is nothing to a fresh one.
            float: slot.float && (!next || asked),
            repeated: !next && !slot.unsent,
            again: asked || !next && !slot.unsent && slot.sendings >= self.through,
        }
    }

    /// How often an outstanding fragment was sent around the switches.
    pub(super) fn sendings_around(&self, fragment: u32) -> u8 {
        self.slots[self.slot(fragment)].sendings.saturating_sub(self.through)
    }

    /// Whether sending an outstanding fragment, or `next`, begins a round.
    pub(super) fn is_first(&self, fragment: u32) -> bool {
        fragment == self.next || self.slots[self.slot(fragment)].unsent
    }

    /// Notes that an outstanding fragment, or `next`, was sent.
    pub(super) fn sent(&mut self, now: Time, fragment: u32, again: bool, float: bool) {
        let next = fragment == self.next;
        let first = self.is_first(fragment);
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.float = float;
        slot.asked = None;
        slot.sendings = if first { 1 } else { slot.sendings.saturating_add(1) };
        if first {
            // A first packet that goes around the switch measures another way than the others.
            slot.resent = again;
            slot.unsent = false;
        } else {
            slot.resent = true;
        }
        if next {
            self.outstanding.insert(fragment);
            self.next += 1;
        }
        self.waits(fragment);
    }

    /// Notes that something was done about an outstanding fragment other than sending it: it is
    /// given the time of a round trip again.
    pub(super) fn pursued(&mut self, now: Time, fragment: u32) {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.resent = true;
        self.waits(fragment);
    }

    /// A fragment waits for its result from now on.
    fn waits(&mut self, fragment: u32) {
        self.settle(fragment);
        let at = self.slot(fragment);
        self.sendings += 1;
        self.slots[at].serial = self.sendings;
        self.order.push(at);
    }

    /// Nothing is to be done about a fragment for now.
    fn settle(&mut self, fragment: u32) {
        self.due.remove(fragment);
        self.early.remove(fragment);
    }

    /// The PS asks for a round, as floats perhaps. Returns whether that changes anything: the
    /// fragment is outstanding, or may be sent before another result comes in.
    pub(super) fn ask(&mut self, round: Round, float: bool) -> bool {
        let Round { fragment, rung } = round;
        let outstanding = self.is_outstanding(fragment);
        let may_follow = (self.next..self.end()).contains(&fragment);
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        if outstanding {
            // A later rung than ours means that the result of ours was lost: sending again fetches
            // it.
            let needed = rung >= slot.rung;
            if needed {
                slot.float |= float;
                // No switch can complete what the PS has a part of.
                slot.sendings = slot.sendings.max(self.through);
                self.due.insert(fragment);
            }
            needed
        } else if may_follow {
            if slot.asked == Some(fragment) {
                slot.float |= float;
            } else {
                // The slot's fields still belong to an earlier fragment. That one has its result,
                // for it is below `base`.
                slot.asked = Some(fragment);
                slot.float = float;
            }
            true
        } else {
            false
        }
    }

    /// The switch turned back the round of an outstanding fragment, because its aggregator is
    /// busy. It goes again when the fragment before it in that aggregator is over; if that is over
    /// already, at once, but only once: then it is the timeout's turn, lest worker and switch play
    /// ball.
    pub(super) fn turned_back(&mut self, fragment: u32) {
        let before = self.places.period().and_then(|period| fragment.checked_sub(period));
        let busy = before.is_some_and(|before| self.is_outstanding(before));
        if busy || self.slots[self.slot(fragment)].resent {
            self.early.insert(fragment);
        } else {
            self.due.insert(fragment);
        }
    }

    /// Notes that the final result of an outstanding fragment is in. Returns what it answered.
    pub(super) fn done(&mut self, fragment: u32, collided: bool) -> Answered {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        let answered = slot.answered();
        slot.rung = 0;
        slot.unsent = false;
        self.places.over(fragment, collided);
        self.outstanding.remove(fragment);
        self.order.remove(at);
        self.settle(fragment);
        if let Some(after) = self.places.period().and_then(|period| fragment.checked_add(period))
            && self.is_outstanding(after)
            && self.early.contains(after)
        {
            self.early.remove(after);
            self.due.insert(after);
        }
        self.base = self.outstanding.next(self.base, self.next).unwrap_or(self.next);
        answered
    }

    /// Notes that an outstanding fragment is to be sent at the next rung. Returns as
    /// [`done`](Self::done).
    pub(super) fn coarser(&mut self, now: Time, fragment: u32) -> Answered {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        let answered = slot.answered();
        slot.rung += 1;
        slot.unsent = true;
        slot.sent = now;
        self.places.over(fragment, false);
        self.settle(fragment);
        self.lose(fragment);
        answered
    }

    /// When the fragment sent longest ago was sent.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.iter_outstanding().map(|f| self.slots[self.slot(f)].sent).min()
    }

    fn iter_outstanding(&self) -> impl Iterator<Item = u32> {
        let mut from = self.base;
        std::iter::from_fn(move || {
            let fragment = self.outstanding.next(from, self.next)?;
            from = fragment + 1;
            Some(fragment)
        })
    }

    /// How many fragments wait for their results, as far as is known: not those that are lost.
    pub(super) fn waiting(&self) -> u32 {
        self.order.len()
    }

    /// When a fragment was last sent.
    pub(super) fn last_sent(&self) -> Option<Time> {
        self.order.last().map(|number| self.slots[number].sent)
    }

    fn slot(&self, fragment: u32) -> usize {
        fragment as usize & (self.slots.len() - 1)
    }

    /// The fragment that is under way in a slot.
    fn fragment(&self, slot: usize) -> u32 {
        self.base + ((slot as u32).wrapping_sub(self.base) & (self.slots.len() as u32 - 1))
    }
}
