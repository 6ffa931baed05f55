//! The window: the fragments in flight, and the state of each.

use tributary_wire::{AggregatorIndex, Round};

use crate::addressing::Places;
use crate::bits::SlotSet;
use crate::{JobConfig, Time, prefetch};

use super::order::SendOrder;

/// State of a slot's current fragment.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The current rung of the scale ladder; the first one between two fragments.
    rung: u8,
    /// Whether the current round has not been sent yet, because the preceding round overflowed.
    unsent: bool,
    /// When it was last sent, or advanced to its rung.
    sent: Time,
    /// The serial number of the last transmission, counted over all fragments.
    serial: u64,
    /// Number of transmissions of the current round.
    sendings: u8,
    /// Whether the current round was sent more than once, so that its result gives no round-trip
    /// sample.
    resent: bool,
    /// Whether it must be sent as floats.
    float: bool,
    /// The fragment of this slot that the PS queried before it was sent.
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

/// The properties of the packet to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) round: Round,
    pub(super) index: AggregatorIndex,
    pub(super) float: bool,
    /// Whether it was sent before.
    pub(super) repeated: bool,
    /// Whether it carries the resend flag, because it bypasses the switch or was queried.
    pub(super) again: bool,
}

/// The last transmission of a fragment that waits for its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    /// Its serial number, counted over all fragments.
    pub(super) serial: u64,
    /// Whether it bypassed the switches.
    pub(super) around: bool,
}

/// The last transmission of a fragment before its result arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) sent: Time,
    /// Its serial number, counted over all fragments.
    pub(super) serial: u64,
    /// Whether it gives no round-trip sample. Either it was sent more than once, so the answered
    /// transmission is ambiguous (Karn's rule), or it bypassed the switch, which takes a different
    /// time.
    pub(super) resent: bool,
}

/// A verdict on a fragment that waits for its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Walk {
    /// The fragment keeps waiting.
    Keep,
    /// The fragment is lost.
    Lose,
    /// The fragment keeps waiting, and so do all that were sent after it.
    End,
}

/// The state of a round at a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoundState {
    /// Its result has arrived.
    Over,
    /// It is in flight.
    Due,
    /// It has not been sent.
    Unsent,
}

/// Fragments from `base` (the lowest without its final result) to `next` (the lowest that was never
/// sent). They are at most as many as there are slots.
#[derive(Clone, Debug)]
pub(super) struct Fragments {
    slots: Box<[Slot]>,
    places: Places,
    base: u32,
    next: u32,
    /// Fragments that were sent and have no final result.
    outstanding: SlotSet,
    /// Outstanding fragments to send at once.
    due: SlotSet,
    /// Outstanding fragments that the switch returned, until an earlier fragment is complete.
    early: SlotSet,
    /// Slots whose fragments wait for a result, in the order of transmission. These are the
    /// outstanding fragments except those that are lost or at an unsent round.
    order: SendOrder,
    /// Number of transmissions so far.
    sendings: u64,
    /// Number of times that a round is sent through the switches before it bypasses them.
    through: u8,
}

impl Fragments {
    /// Resends of a round after the first `through` transmissions carry the resend flag.
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

    /// Switches to another assignment, under which no round has been sent. Nothing may be
    /// outstanding.
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

    /// The exclusive upper bound of fragments that may be in flight together with `base`.
    pub(super) fn end(&self) -> u32 {
        self.base + self.slots.len() as u32
    }

    pub(super) fn nothing_outstanding(&self) -> bool {
        self.base == self.next
    }

    pub(super) fn is_outstanding(&self, fragment: u32) -> bool {
        (self.base..self.next).contains(&fragment) && self.outstanding.contains(fragment)
    }

    /// The current round of an outstanding fragment or of `next`.
    pub(super) fn round(&self, fragment: u32) -> Round {
        Round { fragment, rung: self.slots[self.slot(fragment)].rung }
    }

    /// The state of a round at this worker.
    pub(super) fn state(&self, round: Round) -> RoundState {
        let Round { fragment, rung } = round;
        if fragment >= self.next {
            return RoundState::Unsent;
        }
        if !self.is_outstanding(fragment) {
            return RoundState::Over;
        }
        let slot = &self.slots[self.slot(fragment)];
        match rung {
            rung if rung < slot.rung => RoundState::Over,
            rung if rung > slot.rung || slot.unsent => RoundState::Unsent,
            _ => RoundState::Due,
        }
    }

    /// The aggregator of the current round of a fragment's slot.
    pub(super) fn index(&self, fragment: u32) -> AggregatorIndex {
        self.places.index(fragment)
    }

    /// The current salt of a fragment's slot.
    pub(super) fn salt(&self, fragment: u32) -> u8 {
        self.places.salt(fragment)
    }

    /// Checks the aggregator and the salt that a result names. Returns whether the aggregator
    /// belongs to the fragment. If the sender's salt differs from this worker's, adopts the
    /// sender's.
    pub(super) fn agree(&mut self, fragment: u32, index: AggregatorIndex, salt: u8) -> bool {
        if index == self.places.index_at(fragment, salt) {
            self.places.set_salt(fragment, salt);
            return true;
        }
        index == self.places.index(fragment)
    }

    /// The lowest fragment to send at once.
    pub(super) fn next_due(&self) -> Option<u32> {
        self.due.next(self.base, self.next)
    }

    /// The lowest fragment to send at once, among those that have (if `worn`) or have not used up
    /// their transmissions through the switches.
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

    /// The lowest outstanding fragment at or after `from`.
    pub(super) fn next_outstanding(&self, from: u32) -> Option<u32> {
        self.outstanding.next(from, self.next)
    }

    /// The lowest fragment in `from..to` that waits for its result. Excludes fragments that are due
    /// for sending and fragments that the switch returned.
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

    /// Visits the fragments that wait for their results in the order of transmission, and marks as
    /// lost those for which `judge` decides so. Skips fragments that the switch returned.
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

    /// Marks the `count` lowest outstanding fragments and the highest one as lost, even if the switch
    /// returned them.
    pub(super) fn lose_ends(&mut self, count: u32) {
        let highest = (self.base..self.next).rev().find(|&it| self.outstanding.contains(it));
        let mut from = self.base;
        for _ in 0..count {
            let Some(fragment) = self.next_outstanding(from) else { break };
            self.lose(fragment);
            from = fragment + 1;
        }
        if let Some(highest) = highest {
            self.lose(highest);
        }
    }

    /// When an outstanding fragment was last sent.
    pub(super) fn sent_at(&self, fragment: u32) -> Time {
        self.slots[self.slot(fragment)].sent
    }

    /// Marks an outstanding fragment as lost, so that it is sent at once.
    pub(super) fn lose(&mut self, fragment: u32) {
        self.order.remove(self.slot(fragment));
        self.early.remove(fragment);
        self.due.insert(fragment);
    }

    /// The properties of the next packet of an outstanding fragment or of `next`.
    pub(super) fn sending(&self, fragment: u32) -> Sending {
        let slot = &self.slots[self.slot(fragment)];
        let asked = slot.asked == Some(fragment);
        let next = fragment == self.next;
        Sending {
            round: self.round(fragment),
            index: self.index(fragment),
            // The slot's `float` belongs to an earlier fragment unless the new one was queried.
            float: slot.float && (!next || asked),
            repeated: !next && !slot.unsent,
            again: asked || !next && !slot.unsent && slot.sendings >= self.through,
        }
    }

    /// Number of times that an outstanding fragment was sent past the switches.
    pub(super) fn sendings_around(&self, fragment: u32) -> u8 {
        self.slots[self.slot(fragment)].sendings.saturating_sub(self.through)
    }

    /// Whether sending an outstanding fragment, or `next`, begins a round.
    pub(super) fn is_first(&self, fragment: u32) -> bool {
        fragment == self.next || self.slots[self.slot(fragment)].unsent
    }

    /// Records that an outstanding fragment, or `next`, was sent.
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
            // A first packet that bypasses the switch takes another path than other packets, so it
            // gives no round-trip sample.
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
        self.prefetch_after(fragment);
    }

    /// Records an action for an outstanding fragment other than sending it, and restarts its time
    /// to wait for a result.
    pub(super) fn pursued(&mut self, now: Time, fragment: u32) {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.resent = true;
        self.waits(fragment);
    }

    /// Records that a fragment now waits for its result.
    fn waits(&mut self, fragment: u32) {
        self.settle(fragment);
        let at = self.slot(fragment);
        self.sendings += 1;
        self.slots[at].serial = self.sendings;
        self.order.push(at);
    }

    /// Clears what is due for a fragment.
    fn settle(&mut self, fragment: u32) {
        self.due.remove(fragment);
        self.early.remove(fragment);
    }

    /// Handles the PS's query for a round, possibly as floats. Returns whether it changes anything:
    /// the fragment is outstanding, or may be sent before another result arrives.
    pub(super) fn ask(&mut self, round: Round, float: bool) -> bool {
        let Round { fragment, rung } = round;
        let outstanding = self.is_outstanding(fragment);
        let may_follow = (self.next..self.end()).contains(&fragment);
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        if outstanding {
            // A rung later than the current one means that the current rung's result was lost.
            // Sending again fetches it.
            let needed = rung >= slot.rung;
            if needed {
                slot.float |= float;
                // No switch can complete a task of which the PS holds a part.
                slot.sendings = slot.sendings.max(self.through);
                self.due.insert(fragment);
            }
            needed
        } else if may_follow {
            if slot.asked == Some(fragment) {
                slot.float |= float;
            } else {
                // The slot's fields still belong to an earlier fragment. It has its result, because
                // it is below `base`.
                slot.asked = Some(fragment);
                slot.float = float;
            }
            true
        } else {
            false
        }
    }

    /// The switch returned the round of an outstanding fragment, because its aggregator is busy.
    /// The round is sent again when the preceding fragment in that aggregator is complete. If that
    /// is already the case, it is sent at once, but only once. After that only the timeout resends
    /// it, so that worker and switch do not exchange it in a loop.
    pub(super) fn turned_back(&mut self, fragment: u32) {
        let before = self.places.period().and_then(|period| fragment.checked_sub(period));
        let busy = before.is_some_and(|before| self.is_outstanding(before));
        if busy || self.slots[self.slot(fragment)].resent {
            self.early.insert(fragment);
        } else {
            self.due.insert(fragment);
        }
    }

    /// Records the final result of an outstanding fragment. Returns the transmission that it
    /// answers.
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
        self.prefetch_after(fragment);
        answered
    }

    /// Prefetches the state of the fragments after this one, since most are sent and done in order. Where many
    /// workers share a core, as in a simulation, the others' state has displaced it.
    fn prefetch_after(&self, fragment: u32) {
        prefetch::to_read(&self.slots[self.slot(fragment.wrapping_add(3))]);
        self.order.prefetch(self.slot(fragment.wrapping_add(6)));
    }

    /// Moves an outstanding fragment to the next rung. Returns the same as [`done`](Self::done).
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

    /// The earliest last transmission of the outstanding fragments.
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

    /// Number of fragments that wait for their results, excluding those known to be lost.
    pub(super) fn waiting(&self) -> u32 {
        self.order.len()
    }

    /// Time of the last transmission.
    pub(super) fn last_sent(&self) -> Option<Time> {
        self.order.last().map(|number| self.slots[number].sent)
    }

    fn slot(&self, fragment: u32) -> usize {
        fragment as usize & (self.slots.len() - 1)
    }

    /// The fragment in flight in a slot.
    fn fragment(&self, slot: usize) -> u32 {
        self.base + ((slot as u32).wrapping_sub(self.base) & (self.slots.len() as u32 - 1))
    }
}
