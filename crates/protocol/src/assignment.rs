//! How switches serve a job of P4INC or SwitchML, and why what they keep is enough.
//!
//! A job of these two protocols has aggregators of its own, its *segment*, so its tasks meet no other
//! job's. What the switch that has all workers below it completes needs no PS. There is then nobody
//! behind the switch who remembers: a result that a worker missed must come from the switch itself.
//!
//! # Rounds
//!
//! A fragment is sent in rounds, one a rung of the ladder of [scales](crate::fixed::Scale::at). A
//! worker whose values do not fit the rung sends the overflow flag, and zeros; the flag goes from any
//! contribution into the result; and a result with the flag makes every worker send the fragment
//! again at the next rung. So all workers climb alike, and a result without the flag is a sum of
//! values that fitted, all at the same scale (I5). It is *final*. A round has the number 8 ·
//! fragment + rung, a later round the greater one. More a switch need not know.
//!
//! # Why two copies are enough
//!
//! A cell of P4INC keeps the sum of the round that is under way and a copy of the last complete
//! result. Its rounds are those of the fragments *f*, *f* + size, *f* + 2·size and so on, rung by
//! rung as far as each climbs, in the order of their numbers.
//!
//! *Whoever sends a round of a cell has the results of all rounds before it in that cell.* A
//! coarser rung is only sent when the result of the one before says so. The first round of *f* +
//! size is sent only if *f* + size < base + W, where base is the lowest fragment without its final
//! result; and W ≤ size ([`validate`d](crate::ConfigError::Window)), so *f* < base. Two things
//! follow, for rounds *a*, *b*, *c* that follow each other in a cell:
//!
//! - When a packet of *b* arrives at the cell, *a* is complete. The cell is free, and nobody is
//!   turned back.
//! - When *b* is complete, every worker has sent it, so every worker has the result of *a*. This
//!   is when the result of *b* takes the place of *a*'s in the copy: nobody needs that any more.
//!
//! So while some worker lacks the result of *b*, *c* is not complete, and the copy is of *b*. The
//! worker sends *b* again. Whether the cell is still at *b* or has begun with *c*, it finds that
//! result. A packet for a round further back is a late duplicate, and is dropped. A third copy
//! would never be read. With a window of twice the segment the first sentence is false, and all
//! falls.
//!
//! SwitchML has no copy but two cells a slot, which the slot's rounds use in turn: *c* takes the cell
//! of *a*, for which it is enough that somebody sends *c*, as then *b* is complete. The argument
//! is the same with slots in the place of cells.
//!
//! # When the window is larger
//!
//! A job over several units has a PS, to which the same argument applies, with its
//! [W slots](crate::server#two-versions) in the place of cells. So its window may exceed the
//! segment. Then a round *c* may come to a cell that is busy with *b*. The switch turns it back,
//! marked (an *asynchronous error*); its sender halves the window, as for any congestion, and
//! sends it again when its result of the fragment before is in: that result came through the same
//! switch and has freed the cell. Nor does the switch's copy serve all then: what it has no more,
//! the PS has.
//!
//! It does not come to a halt either (I7). Let *f* be the lowest fragment whose final result some
//! worker lacks, and let that worker's packet get through to its switch. If its cell is at an earlier
//! round, every worker below has that round's result, which has freed the cell on its way; the packet
//! is taken. If it is at the same round, the packet is added, or answered with the unit's sum
//! going to the PS once more, or with the result. If it is at a later round, a resend goes on to
//! the PS by itself, as do those of all workers of the unit, for that round can no longer be added
//! up there. The PS asks for what it lacks, and answers from what it keeps.
//!
//! # When a worker may stop
//!
//! A worker of a local job that has all its final results owes nothing to the others, though there is
//! no PS. What any other lacks is a result of a round which is complete, as this worker has its
//! result; so no packet of this worker is missing anywhere. And the result stays in the copy,
//! because the next round of that cell is not complete without the worker that lacks it. It is the
//! segment that must stay until all workers are idle: the job scheduler gives it to nobody else
//! before.
//!
//! In the other modes the PS serves who missed a result, and must stay as with ATP.
//!
//! # Moving a job
//!
//! Between two iterations, when all workers are idle, the job scheduler may give the job another
//! assignment ([`Worker::reassign`](crate::Worker::reassign)). Packets of before may be under way
//! even then; they have another service ID. Forwarded jobs always have the same one, so a duplicate
//! of an earlier forwarded iteration may come to a later one. It is of a fragment that is over, for
//! which workers and PS have no use. What the PS does not know after iterations without it is which
//! fragments are due. It takes the highest that it hears of in a slot, until it has finished one
//! there: a worker that sends a fragment has the results of all before it in the slot.

use std::num::NonZeroU32;

use tributary_wire::{Protocol, Segment, Service};

use crate::ConfigError;

/// Where the gradients of a job are summed up (P4INC-AOI §VI.A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// In the one switch that has all workers below it. There is no PS.
    Local,
    /// In the switches of several units, each the part of its own workers, and at last in the PS.
    Partial,
    /// In the PS; switches only forward.
    Forwarded,
}

/// What the job scheduler has assigned to a job. All endpoints of the job have the same one, and
/// change it only [between iterations](crate::Worker::reassign).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Assignment {
    /// The number that tells this assignment from the ones before; zero exactly if switches forward.
    pub service: Service,
    /// The job's aggregators, in every switch that serves it; empty if switches forward.
    pub segment: Segment,
    /// Where sums are made.
    pub mode: Mode,
}

impl Assignment {
    /// No switch serves the job by assignment: that of ATP and ESA, whose jobs share one pool, and of
    /// jobs that are only forwarded.
    pub const NONE: Self =
        Self { service: Service::FORWARDED, segment: Segment::EMPTY, mode: Mode::Forwarded };

    /// Checks it for a job of that protocol and window, in a pool of that many aggregators.
    pub(crate) fn validate(
        &self,
        protocol: Protocol,
        slots: u32,
        pool: NonZeroU32,
    ) -> Result<(), ConfigError> {
        let suits = match protocol {
            Protocol::Atp | Protocol::Esa => *self == Self::NONE,
            Protocol::P4inc => {
                *self == Self::NONE || self.mode != Mode::Forwarded && self.service.is_aggregated()
            }
            Protocol::SwitchMl => self.mode == Mode::Local && self.service.is_aggregated(),
        };
        if !suits {
            let Self { service, mode, .. } = *self;
            return Err(ConfigError::Assignment { protocol, service, mode });
        }
        if *self == Self::NONE {
            return Ok(());
        }
        let segment = self.segment;
        let inside = segment.end().is_some_and(|end| end.0 <= pool.get());
        if segment.size == 0 || !inside {
            return Err(ConfigError::Segment { segment, pool });
        }
        // Otherwise a cell could be needed for a round while a worker still lacks the result of the
        // last but one, which nobody has any more.
        let needed = match (protocol, self.mode) {
            (Protocol::SwitchMl, _) => 2 * slots,
            (_, Mode::Local) => slots,
            _ => 1,
        };
        if segment.size < needed {
            return Err(ConfigError::Window { slots, needed, size: segment.size });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tributary_wire::AggregatorIndex;

    use super::*;

    const POOL: NonZeroU32 = NonZeroU32::new(1024).unwrap();

    fn check(protocol: Protocol, service: u8, size: u32, mode: Mode) -> Result<(), ConfigError> {
        let segment = Segment { offset: AggregatorIndex(512), size };
        Assignment { service: Service::new(service), segment, mode }.validate(protocol, 64, POOL)
    }

    #[test]
    fn a_window_larger_than_the_copies_can_repair_is_refused() {
        use Mode::{Local, Partial};
        assert_eq!(check(Protocol::P4inc, 1, 64, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 64, size: 63 };
        assert_eq!(check(Protocol::P4inc, 1, 63, Local), Err(error));
        assert_eq!(check(Protocol::SwitchMl, 1, 128, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 128, size: 127 };
        assert_eq!(check(Protocol::SwitchMl, 1, 127, Local), Err(error));
        // The PS keeps what the switch does not.
        assert_eq!(check(Protocol::P4inc, 1, 1, Partial), Ok(()));
    }

    #[test]
    fn segments_lie_in_the_pool() {
        assert_eq!(check(Protocol::P4inc, 1, 512, Mode::Local), Ok(()));
        for size in [0, 513, u32::MAX] {
            let error = check(Protocol::P4inc, 1, size, Mode::Partial).unwrap_err();
            assert!(matches!(error, ConfigError::Segment { pool: POOL, .. }), "{error}");
        }
    }

    #[test]
    fn service_and_mode_must_suit_the_protocol() {
        use Mode::{Forwarded, Local, Partial};
        for (protocol, service, mode) in [
            (Protocol::Atp, 1, Local),
            (Protocol::Esa, 0, Forwarded),
            (Protocol::P4inc, 0, Local),
            (Protocol::P4inc, 0, Partial),
            (Protocol::P4inc, 3, Forwarded),
            (Protocol::SwitchMl, 0, Local),
            (Protocol::SwitchMl, 3, Partial),
        ] {
            let error = check(protocol, service, 512, mode).unwrap_err();
            assert!(matches!(error, ConfigError::Assignment { .. }), "{error}");
        }
        let none = |protocol| Assignment::NONE.validate(protocol, 64, POOL);
        for protocol in [Protocol::Atp, Protocol::Esa, Protocol::P4inc] {
            assert_eq!(none(protocol), Ok(()));
        }
        assert!(none(Protocol::SwitchMl).is_err());
    }
}
