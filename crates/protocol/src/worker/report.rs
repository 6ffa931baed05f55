//! Events, failures and counters of a worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_wire::Sequence;

use super::delays::Delays;
use super::tensor::{Tensor, TensorId};
use crate::ConfigError;
use crate::fixed::Rounding;
use crate::stats::{Rejected, add_counters};

/// An event of a worker.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The sums of a tensor are complete. Tensors finish in the order of their submission.
    TensorDone {
        /// The tensor's ID.
        id: TensorId,
        /// The sums, in the memory of the submitted tensor.
        tensor: Tensor,
        /// The rounding of the submitted values.
        rounding: Rounding,
    },
    /// For [`Timing::stall_timeout`](crate::Timing) no result has arrived although some are due.
    /// Reported once per `sequence`; the worker keeps trying.
    Stalled {
        /// The lowest fragment whose result is due.
        sequence: Sequence,
        /// Time since the last result, or since the first packet after an idle period.
        waited: Duration,
    },
    /// The worker has failed and neither sends nor receives any more.
    Failed(Failure),
}

/// Why a worker failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Another worker has values in this fragment that are too large for integers, but this
    /// worker's tensor is an integer tensor: the workers submitted different tensors.
    #[error("fragment {sequence} is of integers here, and of floats at another worker")]
    KindMismatch {
        /// The fragment, or round.
        sequence: Sequence,
    },
    /// Another worker has values in this fragment that are too large even for the coarsest scale:
    /// the workers have different scales.
    #[error(
        "round {sequence} is at the coarsest scale here, and too great for it at another worker"
    )]
    OffLadder {
        /// The round.
        sequence: Sequence,
    },
}

/// Why a tensor was rejected.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// An element is NaN or infinite.
    #[error("value {position} is {value}, which cannot be summed")]
    NotFinite {
        /// Index of the element in the tensor.
        position: usize,
        /// The value.
        value: f32,
    },
    /// The sum of such elements over all workers could overflow.
    #[error("value {position} is {value}; with that many workers at most {limit} can be summed")]
    TooGreat {
        /// Index of the element in the tensor.
        position: usize,
        /// The value.
        value: i32,
        /// The largest allowed magnitude.
        limit: i32,
    },
    /// P4INC and SwitchML: an element is too large for the coarsest scale.
    #[error("value {position} is {value}, which even the coarsest scale cannot sum")]
    OffLadder {
        /// Index of the element in the tensor.
        position: usize,
        /// The value.
        value: f32,
    },
    /// The job has used up its sequence numbers.
    #[error("the tensor needs {needed} sequence numbers, the job has {left} left")]
    SequencesExhausted {
        /// Number of fragments of the tensor.
        needed: u64,
        /// Number of sequence numbers left.
        left: u32,
    },
    /// The job is another one than [`exchanges_parts`](crate::JobConfig::exchanges_parts).
    #[error("parts of tensors need P4INC or SwitchML, and all workers at one switch")]
    Parts,
    /// Bits are gathered, and not numbers.
    #[error("floats cannot be gathered: give their bits, as integers")]
    GatheredFloats,
    /// The worker has failed.
    #[error("the worker has given up: {0}")]
    Failed(Failure),
    /// [`Worker::leave`](crate::Worker::leave) was called.
    #[error("the worker is leaving its job")]
    Leaving,
}

impl SubmitError {
    /// The error in a tensor of which a part was submitted that begins after `before` elements.
    #[must_use]
    pub fn after(mut self, before: usize) -> Self {
        if let Self::NotFinite { position, .. }
        | Self::TooGreat { position, .. }
        | Self::OffLadder { position, .. } = &mut self
        {
            *position += before;
        }
        self
    }
}

/// Why a job cannot switch to another assignment or run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReassignError {
    /// Fragments are in flight.
    #[error("the worker is in the middle of an iteration")]
    Busy,
    /// The assignment is not valid for this job.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The worker has a reminder agent (ESA).
    #[error("the worker's reminder agent serves one run")]
    OneRun,
}

/// Counters of a worker.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Packets sent, including resends.
    pub sent: u64,
    /// Packets resent, or sent with the resend flag because the PS queried them early.
    pub resent: u64,
    /// Fragments marked as lost because of later results.
    pub fast_resends: u64,
    /// Number of times that the retransmission timeout fired.
    pub timeouts: u64,
    /// Packets sent with the overflow flag. In ATP and ESA they hold `f32` values, because a value
    /// was too large or the PS asked for floats. In P4INC and SwitchML they hold no valid values,
    /// because one was too large.
    pub overflow_packets: u64,
    /// Final results received, by Parameter or Reply.
    pub results: u64,
    /// Results received by Reply.
    pub replies: u64,
    /// Results received in `f32`.
    pub overflow_results: u64,
    /// Results received with the collision flag.
    pub collisions: u64,
    /// Results received with a congestion mark.
    pub marked: u64,
    /// Results dropped as duplicates.
    pub duplicates: u64,
    /// Results dropped for a sequence that was never sent, although no result can be complete
    /// without this worker.
    pub unsent: u64,
    /// P4INC and SwitchML: results that require the fragment again at a coarser scale.
    pub coarser: u64,
    /// P4INC: own packets that a switch returned because their aggregator was busy.
    pub asynchronous: u64,
    /// Queries for a fragment in flight or about to be sent.
    pub queries: u64,
    /// Queries ignored, for a fragment with a result or far ahead of the window.
    pub stale_queries: u64,
    /// Results handed over to a PS that lacks them.
    pub handed_over: u64,
    /// ESA: reminders sent to the reminder agent.
    pub reminders: u64,
    /// ESA: values sent directly to the PS over the reliable channel.
    pub direct: u64,
    /// ESA: results received over the reliable channel.
    pub delivered: u64,
    /// ESA: cached results sent to the PS for workers that missed them.
    pub lent: u64,
    /// Rounding of the values whose results have arrived.
    pub rounding: Rounding,
    /// Where its time went.
    #[serde(default)]
    pub delays: Delays,
    /// Dropped frames, by reason.
    pub rejected: Rejected,
}

add_counters!(Stats: sent, resent, fast_resends, timeouts, overflow_packets, results, replies, overflow_results, collisions, marked, duplicates, unsent, coarser, asynchronous, queries, stale_queries, handed_over, reminders, direct, delivered, lent, rounding, delays, rejected);
