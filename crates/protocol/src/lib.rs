//! Sans-IO endpoints of in-network aggregation: worker, parameter server (PS), reminder agent.
//!
//! A [`Worker`] cuts tensors into fragments, one per packet. Switches on the path add what they
//! can. A [`ParameterServer`] finishes the sums and sends each sum to all workers. Both are
//! deterministic state machines that implement the trait [`Endpoint`]: frames and the time go in;
//! frames, timeouts and events come out. They open no sockets, read no clock, spawn no tasks and
//! use no random numbers, so the same code runs over raw sockets, in-memory links and virtual time.
//!
//! The crate implements four protocols. In ATP (first come, first served) every result passes the
//! [`ParameterServer`]. In ESA (preemption by priority) switches complete tasks themselves, and
//! [`esa`] has the endpoints behind them. In P4INC a job has its own aggregators, and needs a PS
//! only if no switch has all its workers below it. SwitchML, for comparison, never has a PS. A
//! [`Worker`] implements all four.
//!
//! | module | |
//! | --- | --- |
//! | [`worker`] | tensors in, sums out; one state machine for all protocols |
//! | [`server`] | the PS of ATP and P4INC |
//! | [`esa`] | the PS of ESA and the reminder agent |
//! | [`assignment`] | how switches serve a job of P4INC or SwitchML |
//! | [`addressing`], [`priority`] | the aggregator of a task, and its priority |
//! | [`buffer`] | memory of tensors, split and lent without copies |
//! | [`congestion`], [`rtt`], [`fixed`] | the window, the timeouts, and the encoding of values |
//!
//! The rest of this page is about ATP. [`esa`] and [`assignment`] describe how the others differ.
//!
//! # Terms
//!
//! A job has *n* workers; worker *w* owns bit *w* of a bitmap. A *fragment* is the content of one
//! packet: V values under one sequence number, the same for all workers. A *task* is the summing of
//! one fragment over all workers. A *slot* is a sequence number modulo W, the window limit: task
//! `s + W` follows task `s` in the same slot.
//!
//! # Correctness
//!
//! Everything follows from four rules and does not depend on the behaviour of the network:
//!
//! 1. *Window.* A worker sends fragment `s` only if `s < base + W`, where `base` is the lowest
//!    sequence whose result it lacks. So a worker that sends `s + W` has the result of `s`.
//! 2. *Disjoint or nothing.* The PS merges a packet into a task only if the two bitmaps are
//!    disjoint, and completes the task when the union contains all workers.
//! 3. *Two versions.* The PS keeps the result of `s` until task `s + W` is complete. By the first
//!    rule all workers have it by then. Workers keep it as long, for a replacement PS.
//! 4. *Results are final.* A worker takes one result per sequence, and only if it names all
//!    workers.
//!
//! The invariants of the design, at the endpoints:
//!
//! - **I1** (exactly once). A packet's bitmap names the workers whose values it contains, and a
//!   worker's values for a sequence never change. So a union of disjoint packets that names all
//!   workers contains each worker's values once. Duplicates and delayed partial sums overlap with
//!   merged values or belong to a complete task, and are dropped as a whole: rules 2 and 3.
//! - **I2** (bit-identical). The PS fixes values and flags once, when a task completes. Every
//!   Parameter and Reply repeats them. Integer sums do not depend on their order, and float sums
//!   are computed in the order of the workers. Each worker rounds its values once, before they are
//!   sent. Sums are exact in fixed point, and [`fixed::Rounding`] counts the cost.
//! - **I3** (no aggregator lost), for endpoints: every result names the aggregator, so that the
//!   switch frees it, and a resend takes a partial sum out. Workers and PS compute the same index,
//!   because all workers receive the results of one slot in the same order, and with them the same
//!   collisions: rule 1. If two PSs produced a result of one task, the salt in the next task's
//!   result makes them agree again.
//! - **I4** concerns the controller: endpoints keep no external state.
//! - **I5** (no silent overflow). A worker sends integers only up to `(2³¹ − 1) / n`, so no sum of
//!   at most *n* of them can wrap, in the switch or at an endpoint. A fragment with a larger value
//!   is sent as `f32`. On receiving it, the PS discards the integers of that task and asks all
//!   other workers for `f32`. The integer bitmap can never be complete without that worker, so no
//!   integer result exists by then.
//! - **I6** (isolation). A frame changes only a counter if it is for another job or another
//!   [run](tributary_wire::Epoch) of the job, from workers outside the job, with another V, with an
//!   aggregator other than the slot's, or for a sequence that is not due. (A later run is the
//!   exception at a PS, which serves that run from then on: [`server`].) A
//!   [successor](server#replacing-a-ps) does not know the slot's aggregator and due sequence and
//!   takes them from packets, so a forging member can mislead it about its own job.
//! - **I7** (liveness under fair loss). Let `s` be the lowest sequence whose result some worker
//!   lacks. Every worker can send it, because the window is never below one. Each worker that lacks
//!   the result repeats `s`, at least with every probe, whose interval is capped. Only the first
//!   resend may take the same path through the switch, and may even take an aggregator. Later
//!   resends do not, so after finitely many resends no aggregator is in the way, and the PS
//!   receives each missing worker's packet directly. If `s` is already complete, the PS has kept
//!   its result (rule 3) and answers the resend with a Reply. So `s` completes, and the lowest
//!   sequence advances. The last fragments of a job need no special case, because progress does not
//!   depend on later packets.
//!
//! # When an endpoint may stop
//!
//! An ATP worker that has all results ([`Worker::is_idle`]) may leave at once, as long as the PS
//! lives: if the worker has a result, the task is complete at the PS, which no longer queries
//! workers for it and itself serves workers that missed the result. The PS must stay until the
//! runtime knows that all workers are idle.
//!
//! A PS that may be [replaced](server#replacing-a-ps) gets results from the workers, so the workers
//! must stay, too. They sum one more fragment, which each worker sends when it is idle. When a
//! worker receives its result, all workers were idle. A worker that lacks that result lacks nothing
//! else.
//!
//! An idle ESA worker may be the only one with a result that another lacks, because the PS does not
//! see tasks that switches complete. It calls [`leave`](Worker::leave) and stays until
//! [`is_dismissed`](Worker::is_dismissed): all workers have said farewell to the PS, which answers. The
//! PS must stay, to answer a worker that lacks the answer.
//!
//! A worker of P4INC or SwitchML may leave when it is idle: see [`assignment`] for the argument.

#![deny(unsafe_code)]

pub mod addressing;
pub mod assignment;
mod bits;
pub mod buffer;
mod config;
pub mod congestion;
mod endpoint;
pub mod esa;
pub mod fixed;
mod floats;
mod histogram;
mod numbering;
pub mod pacing;
mod prefetch;
pub mod priority;
mod racks;
mod recovery;
pub mod rtt;
pub mod server;
mod stats;
mod time;
mod timers;
mod waits;
pub mod worker;

pub use addressing::Addressing;
pub use assignment::{Assignment, Mode};
pub use config::{ConfigError, JobConfig, LaterResults, Readings, SLOTS_MAX, Timing};
pub use endpoint::Endpoint;
pub use histogram::Histogram;
pub use numbering::fragments;
pub use pacing::Rate;
pub use racks::Racks;
pub use recovery::Recovery;
pub use server::{ParameterServer, PsConfig};
pub use stats::Rejected;
pub use time::Time;
pub use waits::Waits;
pub use worker::{
    Exchange, Parts, Point, ReassignError, Scales, SubmitError, Tensor, TensorId, Terms, Worker,
    WorkerConfig,
};
