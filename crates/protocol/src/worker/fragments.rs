//! The window: which fragments are under way, and what is known of each.

use std::num::NonZeroU32;

use tributary_wire::{AggregatorIndex, JobId, Protocol, Sequence};

use crate::addressing::{self, Address};
use crate::bits::SlotSet;
use crate::{JobConfig, Time};

/// How many later results make a fragment lost (ESA §5.3, case 1).
const LATER_RESULTS: u8 = 3;

/// What is known of the fragment that a slot is at.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// In ATP, where a slot keeps its aggregator.
    address: Address,
    /// When it was last sent.
    sent: Time,
    /// Results of later fragments since.
    later: u8,
    /// It was sent more than once, so its result tells no round-trip time.
    resent: bool,
    /// It was resent because of later results since the last timeout.
    fast: bool,
    /// It must go as floats.
    float: bool,
    /// The fragment of this slot that the PS asked for before it was sent.
    asked: Option<Sequence>,
}

/// What sending a fragment must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) index: AggregatorIndex,
    pub(super) float: bool,
    /// Go straight to the PS.
    pub(super) direct: bool,
}

/// Fragments from `base` (the lowest without a result) to `next` (the lowest that was never sent).
/// No more than the slots are in between.
#[derive(Clone, Debug)]
pub(super) struct Fragments {
    slots: Box<[Slot]>,
    protocol: Protocol,
    job: JobId,
    pool: NonZeroU32,
    base: u32,
    next: u32,
    /// Sent, without a result.
    outstanding: SlotSet,
    /// Of these: to be sent again at once.
    due: SlotSet,
    /// Of these: timed out, to be sent again as the allowance permits.
    suspect: SlotSet,
}

impl Fragments {
    pub(super) fn new(job: &JobConfig) -> Self {
        let slot = |number| Slot {
            address: Address::new(job.job, number, job.pool),
            sent: Time::ZERO,
            later: 0,
            resent: false,
            fast: false,
            float: false,
            asked: None,
        };
        Self {
            slots: (0..job.slots).map(slot).collect(),
            protocol: job.protocol,
            job: job.job,
            pool: job.pool,
            base: 0,
            next: 0,
            outstanding: SlotSet::new(job.slots),
            due: SlotSet::new(job.slots),
            suspect: SlotSet::new(job.slots),
        }
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// One beyond the last sequence that may ever be under way together with `base`.
    pub(super) fn end(&self) -> u32 {
        self.base + self.slots.len() as u32
    }

    pub(super) fn nothing_outstanding(&self) -> bool {
        self.base == self.next
    }

    pub(super) fn is_outstanding(&self, sequence: u32) -> bool {
        (self.base..self.next).contains(&sequence) && self.outstanding.contains(sequence)
    }

    /// The aggregator of the task that its slot is at.
    pub(super) fn index(&self, sequence: u32) -> AggregatorIndex {
        match self.protocol {
            Protocol::Esa => addressing::task_index(self.job, Sequence(sequence), self.pool),
            _ => self.slots[self.slot(sequence)].address.index(),
        }
    }

    /// The lowest fragment to be sent again at once.
    pub(super) fn next_due(&self) -> Option<u32> {
        self.due.next(self.base, self.next)
    }

    /// The lowest fragment that timed out.
    pub(super) fn next_suspect(&self) -> Option<u32> {
        self.suspect.next(self.base, self.next)
    }

    /// What to write into the packet of an outstanding fragment, or of `next`.
    pub(super) fn sending(&self, sequence: u32) -> Sending {
        let slot = &self.slots[self.slot(sequence)];
        let asked = slot.asked == Some(Sequence(sequence));
        let fresh = sequence == self.next;
        Sending {
            index: self.index(sequence),
            // What a slot's last fragment was is nothing to a fresh one.
            float: slot.float && (!fresh || asked),
            direct: !fresh || asked,
        }
    }

    /// Notes that an outstanding fragment, or `next`, was sent: straight to the PS if `direct`.
    pub(super) fn sent(&mut self, now: Time, sequence: u32, direct: bool, float: bool) {
        let fresh = sequence == self.next;
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.later = 0;
        slot.float = float;
        slot.asked = None;
        if fresh {
            // A first packet that goes around the switch measures another way than the others.
            slot.resent = direct;
            slot.fast = false;
            self.outstanding.insert(sequence);
            self.next += 1;
        } else {
            slot.resent = true;
        }
        self.due.remove(sequence);
        self.suspect.remove(sequence);
    }

    /// Notes that something was done about an outstanding fragment other than sending it: it is
    /// given the time of a round trip again.
    pub(super) fn pursued(&mut self, now: Time, sequence: u32) {
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.later = 0;
        slot.resent = true;
        self.due.remove(sequence);
        self.suspect.remove(sequence);
    }

    /// The PS asks for a fragment, as floats perhaps. Returns whether that changes anything: the
    /// fragment is outstanding, or may be sent before another result comes in.
    pub(super) fn ask(&mut self, sequence: u32, float: bool) -> bool {
        let at = self.slot(sequence);
        if self.is_outstanding(sequence) {
            self.slots[at].float |= float;
            self.due.insert(sequence);
            true
        } else if (self.next..self.end()).contains(&sequence) {
            let slot = &mut self.slots[at];
            if slot.asked == Some(Sequence(sequence)) {
                slot.float |= float;
            } else {
                // The slot's fields still belong to an earlier fragment. That one has its result,
                // for it is below `base`.
                slot.asked = Some(Sequence(sequence));
                slot.float = float;
            }
            true
        } else {
            false
        }
    }

    /// Notes that the result of an outstanding fragment is in. Returns when it was sent, if that was
    /// only once: of a fragment sent again nobody knows which sending was answered (Karn's rule).
    pub(super) fn done(&mut self, sequence: u32, collided: bool) -> Option<Time> {
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        let sent_once = (!slot.resent).then_some(slot.sent);
        if collided {
            slot.address.collided(self.job, at as u32, self.pool);
        }
        self.outstanding.remove(sequence);
        self.due.remove(sequence);
        self.suspect.remove(sequence);
        self.base = self.outstanding.next(self.base, self.next).unwrap_or(self.next);
        sent_once
    }

    /// Counts a result for all outstanding fragments below it, and returns the lowest that is lost
    /// by that. In order, results cost nothing here.
    pub(super) fn count_later(&mut self, sequence: u32) -> LaterResults {
        let mut found = LaterResults::default();
        let mut from = self.base;
        while let Some(earlier) = self.outstanding.next(from, sequence) {
            let at = self.slot(earlier);
            let slot = &mut self.slots[at];
            slot.later = slot.later.saturating_add(1);
            if slot.later >= LATER_RESULTS && !slot.fast {
                slot.fast = true;
                self.due.insert(earlier);
                found.lost += 1;
                found.lowest.get_or_insert(earlier);
            }
            from = earlier + 1;
        }
        found
    }

    /// When the fragment sent longest ago was sent.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.iter_outstanding().map(|s| self.slots[self.slot(s)].sent).min()
    }

    /// Makes suspects of all fragments that were sent by `latest`, and lets later results count anew.
    pub(super) fn suspect_sent_by(&mut self, latest: Time) {
        let mut from = self.base;
        while let Some(sequence) = self.outstanding.next(from, self.next) {
            let at = self.slot(sequence);
            let slot = &mut self.slots[at];
            slot.fast = false;
            if slot.sent <= latest {
                self.suspect.insert(sequence);
            }
            from = sequence + 1;
        }
    }

    fn iter_outstanding(&self) -> impl Iterator<Item = u32> {
        let mut from = self.base;
        std::iter::from_fn(move || {
            let sequence = self.outstanding.next(from, self.next)?;
            from = sequence + 1;
            Some(sequence)
        })
    }

    fn slot(&self, sequence: u32) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }
}

/// What later results made of earlier fragments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaterResults {
    /// How many are lost.
    pub(super) lost: u64,
    /// The lowest of them.
    pub(super) lowest: Option<u32>,
}
