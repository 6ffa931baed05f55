//! What a worker says, and what it has counted.

use std::time::Duration;

use tributary_wire::Sequence;

use super::tensors::{Tensor, TensorId};
use crate::ConfigError;
use crate::fixed::Rounding;
use crate::stats::Rejected;

/// What a worker has to say.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The sums of a tensor are in. Tensors finish in the order of their submission.
    TensorDone {
        /// Which.
        id: TensorId,
        /// The sums, in the memory that the tensor came in.
        tensor: Tensor,
    },
    /// For [`Timing::stall_timeout`](crate::Timing) no result has come in though some are due. Said
    /// once for each `sequence`; the worker goes on trying.
    Stalled {
        /// The lowest fragment whose result is due.
        sequence: Sequence,
        /// Since the last result, or since the first packet after an idle time.
        waited: Duration,
    },
    /// The worker has given up; it sends and takes nothing any more.
    Failed(Failure),
}

/// Why a worker gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Another worker has values in this fragment that are too great for integers, while this one's
    /// tensor is of integers: the workers did not submit the same tensors.
    #[error("fragment {sequence} is of integers here, and of floats at another worker")]
    KindMismatch {
        /// The fragment, or round.
        sequence: Sequence,
    },
    /// Another worker has values in this fragment that even the coarsest scale cannot sum: the
    /// workers do not have the same scale.
    #[error(
        "round {sequence} is at the coarsest scale here, and too great for it at another worker"
    )]
    OffLadder {
        /// The round.
        sequence: Sequence,
    },
}

/// Why a job cannot be served in another way now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReassignError {
    /// Fragments are under way.
    #[error("the worker is in the middle of an iteration")]
    Busy,
    /// The assignment is not one for this job.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What a worker has counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Packets sent, resends included.
    pub sent: u64,
    /// Packets sent again, or with the resend flag because the PS asked for them early.
    pub resent: u64,
    /// Fragments taken for lost because of later results.
    pub fast_resends: u64,
    /// Times the retransmission timeout fired.
    pub timeouts: u64,
    /// Packets sent with the overflow flag: in `f32`, because a value was too great or the PS
    /// asked for it; with P4INC and SwitchML without values, because one was too great.
    pub overflow_packets: u64,
    /// Final results taken, by Parameter or Reply.
    pub results: u64,
    /// Results taken that came in a Reply.
    pub replies: u64,
    /// Results taken in `f32`.
    pub overflow_results: u64,
    /// Results taken with the collision flag.
    pub collisions: u64,
    /// Results taken with a congestion mark.
    pub marked: u64,
    /// Results dropped, as they were in already.
    pub duplicates: u64,
    /// Results dropped for a sequence that was never sent, which no result can be complete without.
    pub unsent: u64,
    /// P4INC and SwitchML: results taken which said that the fragment must be repeated at a
    /// coarser scale.
    pub coarser: u64,
    /// P4INC: own packets that a switch turned back, because their aggregator was busy.
    pub asynchronous: u64,
    /// Queries for a fragment under way, or to be sent soon.
    pub queries: u64,
    /// Queries ignored: for a fragment whose result is in, or far ahead.
    pub stale_queries: u64,
    /// Results handed over to a PS that lacks them.
    pub handed_over: u64,
    /// ESA: reminders sent to the reminder agent.
    pub reminders: u64,
    /// ESA: times that own values went straight to the PS over the reliable channel.
    pub direct: u64,
    /// ESA: results that came over the reliable channel.
    pub delivered: u64,
    /// ESA: results given to the PS for workers that missed them.
    pub lent: u64,
    /// What fixed point did to the values whose results are in.
    pub rounding: Rounding,
    /// Frames dropped because of what they are.
    pub rejected: Rejected,
}
