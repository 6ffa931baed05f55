//! How switches serve a job of P4INC or SwitchML, and why the state in a switch suffices.
//!
//! A job of these two protocols has its own aggregators, its *segment*, so its tasks collide with
//! no other job's. If one switch has all workers below it, the switch completes every task, and the
//! job has no PS. Results that a worker misses must then come from the switch itself.
//!
//! # Rounds
//!
//! A fragment is sent in rounds, one per rung of the ladder of [scales](crate::fixed::Scale::at). A
//! worker whose values do not fit the rung sends zeros with the overflow flag. The flag of any
//! contribution is copied into the result. A result with the flag makes every worker send the
//! fragment again at the next rung. So all workers climb in step, and a result without the flag is
//! a sum of values that fit, all at the same scale (I5). Such a result is *final*. A round has the
//! number 8 · fragment + rung, so a later round has a greater number. A switch needs no further
//! information.
//!
//! # Why two copies are enough
//!
//! A P4INC cell keeps the sum of the current round and a copy of the last complete result. Its
//! rounds are those of the fragments *f*, *f* + size, *f* + 2·size and so on, each with as many
//! rungs as it climbs, in the order of their numbers.
//!
//! *A worker that sends a round of a cell has the results of all earlier rounds in that cell.* A
//! coarser rung is sent only when the result of the rung before asks for it. The first round of
//! *f* + size is sent only if *f* + size < base + W, where base is the lowest fragment without its
//! final result. As W ≤ size ([`validate`d](crate::ConfigError::Window)), *f* < base. Two
//! statements follow for consecutive rounds *a*, *b*, *c* of a cell:
//!
//! - When a packet of *b* arrives at the cell, *a* is complete. The cell is free, and the packet is
//!   not returned.
//! - When *b* is complete, every worker has sent it, so every worker has the result of *a*. At this
//!   moment the result of *b* replaces that of *a* in the copy, and no worker needs the latter.
//!
//! So while some worker lacks the result of *b*, *c* is not complete, and the copy holds *b*. The
//! worker resends *b*. Whether the cell is still at *b* or has begun with *c*, the packet finds
//! that result. A packet for an older round is a late duplicate and is dropped. A third copy would
//! never be read. With a window of twice the segment the first statement is false, and so is the
//! rest.
//!
//! SwitchML has no copy but two cells per slot, which the slot's rounds use in turn. Round *c*
//! takes the cell of *a*; this is safe as soon as any worker sends *c*, because then *b* is
//! complete. The argument is the same with slots in place of cells.
//!
//! # When the window is larger
//!
//! A job over several units has a PS. The same argument applies to the PS, with its [W
//! slots](crate::server#two-versions) in place of cells. So the job's window may exceed the
//! segment, and a round *c* may arrive at a cell that is busy with *b*. The switch returns the
//! packet, marked as an *asynchronous error*. The worker halves the window, as for any congestion,
//! and resends the packet when it has its result of the preceding fragment in the cell: that result
//! passed the same switch and freed the cell. In this mode the switch's copy does not serve every
//! request. The PS answers the others.
//!
//! The job makes progress, too (I7). Let *f* be the lowest fragment whose final result some worker
//! lacks, and let that worker's packet reach its switch.
//!
//! - If its cell is at an earlier round, every worker below the switch has that round's result,
//!   which freed the cell on its way. The packet is accepted.
//! - If its cell is at the same round, the switch adds the packet, sends the unit's sum to the PS
//!   again, or answers with the result.
//! - If its cell is at a later round, the switch can no longer sum the packet's round. Resends of
//!   all workers of the unit go on to the PS individually. The PS queries the contributions that it
//!   lacks, and answers from the results that it keeps.
//!
//! # When a worker may stop
//!
//! A worker of a local job may stop when it has all its final results, although the job has no PS.
//! A result that another worker lacks belongs to a complete round, because this worker has its
//! result; so no packet of this worker is missing anywhere. The result stays in the copy, because
//! the next round of that cell cannot complete without the worker that lacks it. The segment must
//! stay until all workers are idle: the controller does not reassign it earlier.
//!
//! In the other modes the PS serves workers that missed a result, and must stay as in ATP.
//!
//! # Moving a job
//!
//! Between two iterations, when all workers are idle, the controller may give the job another
//! assignment ([`Worker::reassign`](crate::Worker::reassign)). Packets of the old assignment may
//! still be in flight; they carry another service ID. Forwarded jobs always have the same service
//! ID, so a duplicate from an earlier forwarded iteration may arrive in a later one. It belongs to
//! a completed fragment, and workers and PS drop it. After iterations without the PS, the PS does
//! not know which fragments are due. It takes the highest fragment that it receives in a slot,
//! until it has completed one there: a worker that sends a fragment has the results of all earlier
//! ones in the slot.

use tributary_wire::{Segment, Service};

/// Where the gradients of a job are summed (P4INC-AOI §VI.A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum Mode {
    /// In the one switch that has all workers below it. The job has no PS.
    Local,
    /// In the switches of several units, each for its own workers, and finally in the PS.
    Partial,
    /// In the PS. Switches only forward.
    Forwarded,
}

/// The controller's assignment to a job. All endpoints of the job have the same assignment, and
/// change it only [between iterations](crate::Worker::reassign).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Assignment {
    /// The number that distinguishes this assignment from earlier ones; zero if and only if
    /// switches only forward.
    pub service: Service,
    /// The job's aggregators in every switch that serves it; empty if switches only forward.
    pub segment: Segment,
    /// Where the sums are computed.
    pub mode: Mode,
}

impl Assignment {
    /// No assignment: for ATP and ESA, whose jobs share one pool, and for jobs that are only
    /// forwarded.
    pub const NONE: Self =
        Self { service: Service::FORWARDED, segment: Segment::EMPTY, mode: Mode::Forwarded };
}
