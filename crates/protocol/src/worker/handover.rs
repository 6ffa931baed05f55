//! Results for a PS that lacks them: in ATP and P4INC one that took the place of another, in ESA any.
//!
//! A successor lacks what the PS before it kept: results that some workers took and others missed. It
//! says so in its queries. The PS of ESA sees no result of a switch, and asks when a worker misses one.
//! Who has the result of the fragment that is asked for hands it over: in a gradient that passes all
//! switches as it is ([`Flags::RESULT`], in ESA [`Flags::REPAIR`]). Where a worker has a later
//! result of that slot by now, it hands over that one: the one that was asked for is of no use any more,
//! as everybody has it.

use tributary_wire::agg::{Repair, Repaired, Repr};
use tributary_wire::{Flags, Kind, Protocol, Round, emit_frame};

use super::Worker;
use super::results::Results;
use crate::JobConfig;
use crate::bits::SlotSet;

/// What may be handed over, and what is to be.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    pub(super) results: Results,
    /// Slots whose last result is to be handed over.
    due: SlotSet,
    slots: u32,
}

impl Handover {
    /// For the worker of a job; `None` if the protocol has no PS.
    pub(super) fn of(job: &JobConfig) -> Option<Self> {
        let slots = job.slots;
        (job.protocol != Protocol::SwitchMl).then(|| Self {
            results: Results::new(job),
            due: SlotSet::new(slots),
            slots,
        })
    }
}

impl Worker {
    /// The PS lacks the result of a round that is over here. Returns whether there is one to hand over.
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

    /// Writes the next result that is to be handed over.
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
            bitmap: self.bit(),
            // The next task's: where the slot has gone on to.
            index: self.fragments.index(fragment),
        };
        emit_frame(frame, &self.envelope(), &repr).copy_from_slice(payload);
        self.stats.sent += 1;
        self.stats.handed_over += 1;
        true
    }
}
