//! Hands results over to a PS that lacks them: in ATP and P4INC a replacement PS, in ESA any.
//!
//! A successor lacks the results of the preceding PS that some workers received and others missed.
//! Its queries announce that. The PS of ESA does not see results from switches, and asks when a
//! worker misses one. A worker that has the result hands it over, in a gradient that switches
//! forward unchanged ([`Flags::RESULT`], in ESA [`Flags::REPAIR`]). If the worker has a later
//! result of that slot, it hands over the later one: all workers then have the requested result.

use tributary_wire::agg::{Repair, Repaired, Repr};
use tributary_wire::{Audience, Flags, Kind, Protocol, Round, emit_frame};

use super::Worker;
use super::results::Results;
use crate::JobConfig;
use crate::bits::SlotSet;

/// Results that may be handed over, and those that are due.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    pub(super) results: Results,
    /// Slots whose last result is due for handover.
    due: SlotSet,
    slots: u32,
}

impl Handover {
    /// For a worker of this job; `None` if the protocol has no PS.
    pub(super) fn of(job: &JobConfig) -> Option<Self> {
        let slots = job.slots;
        job.protocol.may_have_server().then(|| Self {
            results: Results::new(job),
            due: SlotSet::new(slots),
            slots,
        })
    }
}

impl Worker {
    /// The PS lacks the result of a round that is complete at this worker. Returns whether the
    /// worker has a result to hand over.
    pub(super) fn hand_over_result(&mut self, round: Round) -> bool {
        let sequence = self.numbering.sequence(round);
        let Some(handover) = &mut self.handover else { return false };
        let last = handover.results.last(round.fragment);
        let has = last.is_some_and(|(kept, _)| kept.sequence >= sequence);
        if has {
            handover.due.insert(round.fragment);
        }
        has
    }

    /// Writes the next result that is due for handover.
    pub(super) fn write_result(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(handover) = &mut self.handover else { return false };
        let Some(slot) = handover.due.next(0, handover.slots) else { return false };
        handover.due.remove(slot);
        let last = self.handover.as_ref().and_then(|handover| handover.results.last(slot));
        let Some((kept, payload)) = last else { return false };
        let fragment = self.numbering.round(kept.sequence).fragment;
        let (flags, priority) = if self.config.job.protocol == Protocol::Esa {
            let repair = Repair { what: Repaired::Result, float: kept.overflow };
            (Flags::REPAIR, repair.code())
        } else {
            let overflow = if kept.overflow { Flags::OVERFLOW } else { Flags::NONE };
            (Flags::RESULT | overflow, self.priority(fragment))
        };
        let repr = Repr {
            protocol: self.config.job.protocol,
            kind: Kind::Gradient,
            flags,
            priority,
            job: self.config.job.job,
            epoch: self.config.job.epoch,
            values: self.config.job.values_per_packet,
            sequence: kept.sequence,
            bitmap: self.name.1,
            rack: self.name.0,
            audience: Audience::ALL,
            // The aggregator and salt of the slot's next task, the current state of the slot.
            index: self.fragments.index(fragment),
        };
        emit_frame(frame, &self.envelope(), &repr).copy_from_slice(payload);
        self.stats.sent += 1;
        self.stats.handed_over += 1;
        true
    }
}
