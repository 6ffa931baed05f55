//! ESA: the endpoints behind preemptive aggregators (ESA §5).
//!
//! In ESA the switches complete tasks and multicast the results themselves. The PS receives only
//! the tasks that were evicted, found no aggregator, or lost a packet. Three parts complete those:
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Worker`](crate::Worker) | detects that a result is late, and sends a reminder; caches the results of one window for workers that miss them |
//! | [`Server`] | the dictionary: merges disjoint partial sums of each task, and sends the result when a task is complete |
//! | [`Agent`] | the reminder agent: fetches partial sums from switches, then queries workers, until each entry of a dictionary is complete |
//!
//! Worker and agent communicate over a reliable channel ([`tributary_wire::channel`]; TCP in
//! practice), as do agent and server in different processes. A [`Backend`] combines the servers and
//! the agent of one process, which usually holds both for each job.
//!
//! By default a worker also sends fragments that were lost twice to the PS, and the PS queries
//! workers, in packets that bypass the aggregators
//! ([`Flags::REPAIR`](tributary_wire::Flags::REPAIR)). The PS merges their contents like those of
//! channel messages, so the argument below covers both.
//!
//! # Correctness
//!
//! The invariants are those of [ATP](crate). Losing a cell, a partial sum, a result, a message, the
//! whole dictionary or the agent costs only time, because each worker keeps its values until it has
//! the result:
//!
//! - **I1** (exactly once). A switch adds a packet to a cell only if the packet belongs to the
//!   cell's task and its worker's bit is not set. A server merges a packet only if it is disjoint
//!   from the entry. A task can have two results, one from a switch and one from the server. They
//!   are equal, because each contains every worker's values once; a worker takes the first.
//! - **I2** (bit-identical). Integer sums do not depend on their order. A task with floats has no
//!   integer result, because the worker whose values do not fit never sends integers. Float sums
//!   are computed by one server in the order of the workers. A server that replaces it half-way
//!   computes the same sum of the same numbers.
//! - **I3**, **I4** (cells). After at most 43 collisions, any other task evicts a cell whose
//!   task is over: each collision lowers the cell's priority, and no packet has priority zero.
//!   Otherwise the sweep frees the cell.
//! - **I7** (liveness under fair loss). Let `s` be the lowest sequence whose result some worker
//!   lacks. That worker has sent `s`, or will, because its window is never below one. It reminds
//!   the agent repeatedly at bounded intervals, and a reminder gets through. So the server has an
//!   entry for `s`, and the agent has a watch, which asks each worker whose values are missing
//!   until the entry is complete. A worker that has the result returns it. A worker without it
//!   returns its values. A worker that has not sent `s` yet can send it, and returns its values
//!   when it does. So the entry completes.
//!
//! **I5** (no silent overflow) and **I6** (isolation) hold as in ATP. On the channel a peer
//! presents its job's token, and its messages count only for that job and that worker.
//!
//! # Entries of completed tasks
//!
//! A duplicated or delayed packet may reach a cell or the server when its task is complete. The
//! server cannot know this if a switch completed the task, and opens an entry. The agent queries
//! the workers, and the first worker that answers has the result, or reports that all workers have
//! it. A worker that *sent* `s + W` has the result of `s`. Once all workers have sent `s + W`, the
//! server itself drops entries and results up to `s`.

pub mod agent;
mod backend;
pub mod server;

pub use agent::{Agent, AgentJob, Target, ToPeer};
pub use backend::Backend;
pub use server::Server;
