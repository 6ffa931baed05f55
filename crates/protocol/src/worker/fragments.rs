//! The window: which fragments are under way, and what is known of each.

use tributary_wire::{AggregatorIndex, Round};

use crate::addressing::Places;
use crate::bits::SlotSet;
use crate::{JobConfig, Time};

/// How many later results make a fragment lost (ESA §5.3, case 1).
const LATER_RESULTS: u8 = 3;

/// What is known of the fragment that a slot is at.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The rung of the scale ladder that it is at; the first one between two fragments.
    rung: u8,
    /// Its round was not sent yet: the one before came back with an overflow.
    unsent: bool,
    /// When it was last sent, or came to be at its rung.
    sent: Time,
    /// Results of later fragments since.
    later: u8,
    /// Its round was sent more than once, so its result tells no round-trip time.
    resent: bool,
    /// It was resent because of later results since the last timeout.
    fast: bool,
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
        later: 0,
        resent: false,
        fast: false,
        float: false,
        asked: None,
    };
}

/// What sending a fragment must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) round: Round,
    pub(super) index: AggregatorIndex,
    pub(super) float: bool,
    /// It was sent before, or is asked for: with ATP, go straight to the PS.
    pub(super) again: bool,
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
    /// Of these: timed out, to be sent again as the allowance permits.
    suspect: SlotSet,
    /// Of these: turned back by the switch until an earlier fragment is over.
    early: SlotSet,
}

impl Fragments {
    pub(super) fn new(job: &JobConfig) -> Self {
        Self {
            slots: vec![Slot::NEW; job.slots as usize].into(),
            places: Places::new(job),
            base: 0,
            next: 0,
            outstanding: SlotSet::new(job.slots),
            due: SlotSet::new(job.slots),
            suspect: SlotSet::new(job.slots),
            early: SlotSet::new(job.slots),
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

    /// The lowest fragment that timed out.
    pub(super) fn next_suspect(&self) -> Option<u32> {
        self.suspect.next(self.base, self.next)
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
            again: asked || !next && !slot.unsent,
        }
    }

    /// Notes that an outstanding fragment, or `next`, was sent.
    pub(super) fn sent(&mut self, now: Time, fragment: u32, again: bool, float: bool) {
        let next = fragment == self.next;
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.later = 0;
        slot.float = float;
        slot.asked = None;
        if next || slot.unsent {
            // A first packet that goes around the switch measures another way than the others.
            slot.resent = again;
            slot.fast = false;
            slot.unsent = false;
        } else {
            slot.resent = true;
        }
        if next {
            self.outstanding.insert(fragment);
            self.next += 1;
        }
        self.settle(fragment);
    }

    /// Notes that something was done about an outstanding fragment other than sending it: it is
    /// given the time of a round trip again.
    pub(super) fn pursued(&mut self, now: Time, fragment: u32) {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        slot.sent = now;
        slot.later = 0;
        slot.resent = true;
        self.settle(fragment);
    }

    /// Nothing is to be done about a fragment for now.
    fn settle(&mut self, fragment: u32) {
        self.due.remove(fragment);
        self.suspect.remove(fragment);
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

    /// Notes that the final result of an outstanding fragment is in. Returns when its round was sent,
    /// if that was only once: of one sent again nobody knows which sending was answered (Karn's
    /// rule).
    pub(super) fn done(&mut self, fragment: u32, collided: bool) -> Option<Time> {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        let sent_once = (!slot.resent).then_some(slot.sent);
        slot.rung = 0;
        slot.unsent = false;
        self.places.over(fragment, collided);
        self.outstanding.remove(fragment);
        self.settle(fragment);
        if let Some(after) = self.places.period().and_then(|period| fragment.checked_add(period))
            && self.is_outstanding(after)
            && self.early.contains(after)
        {
            self.early.remove(after);
            self.due.insert(after);
        }
        self.base = self.outstanding.next(self.base, self.next).unwrap_or(self.next);
        sent_once
    }

    /// Notes that an outstanding fragment is to be sent at the next rung. Returns as
    /// [`done`](Self::done).
    pub(super) fn coarser(&mut self, now: Time, fragment: u32) -> Option<Time> {
        let at = self.slot(fragment);
        let slot = &mut self.slots[at];
        let sent_once = (!slot.resent).then_some(slot.sent);
        slot.rung += 1;
        slot.unsent = true;
        slot.sent = now;
        slot.later = 0;
        self.places.over(fragment, false);
        self.settle(fragment);
        self.due.insert(fragment);
        sent_once
    }

    /// Counts a result for all outstanding fragments below it, and returns the lowest that is lost
    /// by that. In order, results cost nothing here.
    pub(super) fn count_later(&mut self, fragment: u32) -> LaterResults {
        let mut found = LaterResults::default();
        let mut from = self.base;
        while let Some(earlier) = self.outstanding.next(from, fragment) {
            from = earlier + 1;
            let at = self.slot(earlier);
            let slot = &mut self.slots[at];
            // What was turned back is not lost, and waits for something else.
            if slot.unsent || self.early.contains(earlier) {
                continue;
            }
            slot.later = slot.later.saturating_add(1);
            if slot.later >= LATER_RESULTS && !slot.fast {
                slot.fast = true;
                self.due.insert(earlier);
                found.lost += 1;
                found.lowest.get_or_insert(earlier);
            }
        }
        found
    }

    /// When the fragment sent longest ago was sent.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.iter_outstanding().map(|f| self.slots[self.slot(f)].sent).min()
    }

    /// Makes suspects of all fragments that were sent by `latest`, and lets later results count anew.
    pub(super) fn suspect_sent_by(&mut self, latest: Time) {
        let mut from = self.base;
        while let Some(fragment) = self.outstanding.next(from, self.next) {
            let at = self.slot(fragment);
            let slot = &mut self.slots[at];
            slot.fast = false;
            if slot.sent <= latest {
                self.suspect.insert(fragment);
            }
            from = fragment + 1;
        }
    }

    fn iter_outstanding(&self) -> impl Iterator<Item = u32> {
        let mut from = self.base;
        std::iter::from_fn(move || {
            let fragment = self.outstanding.next(from, self.next)?;
            from = fragment + 1;
            Some(fragment)
        })
    }

    fn slot(&self, fragment: u32) -> usize {
        fragment as usize & (self.slots.len() - 1)
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
