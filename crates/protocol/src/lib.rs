//! Sans-IO endpoints of in-network aggregation: worker, parameter server (PS), reminder agent.
//!
//! A [`Worker`] takes tensors and cuts them into fragments, one a packet; switches on the way add up
//! what they can; a [`ParameterServer`] finishes the sums and sends each to all workers. Both are
//! deterministic state machines behind one trait, [`Endpoint`]: frames and the time go in, frames,
//! timeouts and events come out. They open no socket, read no clock, spawn no task and draw no
//! random number, so the same code runs over raw sockets, in-memory links and virtual time.
//!
//! Four protocols are spoken. In ATP (first come, first served) every result passes the
//! [`ParameterServer`]. In ESA (preemption with priority) switches finish what they can by
//! themselves, and [`esa`] has what stands behind them. In P4INC a job has aggregators of its own,
//! and needs a PS only if no switch has all its workers below it; SwitchML, to compare with, never
//! has one. A [`Worker`] speaks all of them.
//!
//! | module | |
//! | --- | --- |
//! | [`worker`] | tensors in, sums out; one state machine for all protocols |
//! | [`server`] | the PS of ATP and P4INC |
//! | [`esa`] | the PS of ESA and the reminder agent |
//! | [`assignment`] | how switches serve a job of P4INC or SwitchML |
//! | [`addressing`], [`priority`] | which aggregator a task uses, and whom it rather serves |
//! | [`congestion`], [`rtt`], [`fixed`] | how fast, how long to wait, and what travels |
//!
//! The rest of this page is about ATP; [`esa`] and [`assignment`] say what is different elsewhere.
//!
//! # Terms
//!
//! A job has *n* workers; worker *w* owns bit *w* of a bitmap. A *fragment* is what fits one packet:
//! V values under one sequence number, the same for all workers. A *task* is the summing of one
//! fragment over all workers. A *slot* is a sequence number modulo W, the window limit: the task
//! `s + W` is the next in the slot of task `s`.
//!
//! # Why it is right
//!
//! Everything follows from four rules and does not depend on what the network does:
//!
//! 1. *Window.* A worker sends fragment `s` only if `s < base + W`, where `base` is the lowest
//!    sequence whose result it lacks. So whoever sends `s + W` has the result of `s`.
//! 2. *Disjoint or nothing.* The PS merges a packet into a task only if the two bitmaps are disjoint,
//!    and completes the task when the union is everyone.
//! 3. *Two versions.* The PS keeps the result of `s` until task `s + W` is complete; by the first
//!    rule all workers have it by then. Workers keep it as long, for a PS that takes its place.
//! 4. *Results are final.* A worker takes one result a sequence, and only if it names all workers.
//!
//! The invariants of the design, at the endpoints:
//!
//! - **I1** (exactly once). A packet's bitmap says whose values are in it, and a worker's values for
//!   a sequence never change, so a union of disjoint packets that names everyone holds everyone
//!   once. Duplicates and delayed partial sums overlap what is there already, or belong to a task
//!   that is complete, and are dropped whole: rules 2 and 3.
//! - **I2** (bit-identical). The PS decides values and flags once, when a task completes; every
//!   Parameter and Reply repeats them. Integer sums do not depend on their order, and float sums are
//!   taken in the order of the workers. Each worker rounds its values once, before they are sent:
//!   sums are exact in fixed point, and [`fixed::Rounding`] counts what that costs.
//! - **I3** (no aggregator lost), as far as endpoints go: every result names the aggregator, so that
//!   the switch frees it, and a resend takes a partial sum out. Workers and PS compute the same
//!   index because all workers see the results of one slot in the same order, and with it the same
//!   collisions: rule 1. Where two PSs gave the result of one task, the salt in the next one's makes
//!   them agree again.
//! - **I4** concerns the controller: endpoints keep nothing outside themselves.
//! - **I5** (no silent overflow). A worker sends integers only up to `(2³¹ − 1) / n`, so no sum of at
//!   most *n* of them can wrap, in the switch or here. A fragment with a greater value goes in `f32`;
//!   it makes the PS forget the integers of that task and ask all other workers for `f32`. As the
//!   integer bitmap can never be complete without that worker, no integer result exists by then.
//! - **I6** (isolation). Frames for another job or for another [run](tributary_wire::Epoch) of the job,
//!   from workers outside the job, with another V, with an aggregator other than the slot's, or for a
//!   sequence that is not due, change nothing but a counter. (A PS takes a later run for the one that it
//!   serves from then on: [`server`].) A [successor](server#a-ps-that-is-started-anew) does not know which
//!   aggregator is the slot's and what is due: it takes the packet's word, so a forging member can mislead it
//!   about its own job.
//! - **I7** (liveness under fair loss). Let `s` be the lowest sequence that some worker lacks. No
//!   worker is stopped from sending it, for the window is never below one, and each that has not got
//!   the result repeats it, at least with every probe, whose interval is capped. The first resend may go
//!   through the switch as the packet did, and even take an aggregator; no further one does, so
//!   after finitely many of them none is left in the way and the PS
//!   hears of each missing worker directly. If `s` is complete already, the PS has kept its result
//!   (rule 3) and answers the resend with a Reply. So `s` comes in, and the next is lower no more.
//!   The last fragments of a job are no exception: nobody waits for a later packet.
//!
//! # When an endpoint may stop
//!
//! An ATP worker that has all results ([`Worker::is_idle`]) owes nothing to the others as long as the
//! PS lives: that it has a result means that the task is complete at the PS, which then asks nobody
//! for it and serves those who missed the result. So a worker may leave at once, and the PS must stay
//! until the runtime knows that all workers are idle.
//!
//! A PS that may be [replaced](server#a-ps-that-is-started-anew) has its results from the workers
//! then, so these must stay too. They sum one more fragment, which each sends when it is idle: when
//! its result is in, all others were idle, and if one of them lacks that result it lacks nothing else.
//!
//! An ESA worker that is idle may be the only one to have a result that another lacks, as the PS does
//! not see what switches complete. It says [`leave`](Worker::leave) and stays until
//! [`is_dismissed`](Worker::is_dismissed).
//!
//! A worker of P4INC or SwitchML may leave when it is idle: [`assignment`] has the argument.

pub mod addressing;
pub mod assignment;
mod bits;
mod config;
pub mod congestion;
mod endpoint;
pub mod esa;
pub mod fixed;
mod floats;
mod numbering;
pub mod priority;
mod recovery;
pub mod rtt;
pub mod server;
mod stats;
mod time;
mod timers;
pub mod worker;

pub use assignment::{Assignment, Mode};
pub use config::{ConfigError, JobConfig, SLOTS_MAX, Timing};
pub use endpoint::Endpoint;
pub use recovery::Recovery;
pub use server::{ParameterServer, PsConfig};
pub use stats::Rejected;
pub use time::Time;
pub use worker::{ReassignError, SubmitError, Tensor, TensorId, Worker, WorkerConfig};
