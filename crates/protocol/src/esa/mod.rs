//! ESA: what stands behind preemptive aggregators (ESA §5).
//!
//! With ESA the switches finish what they can and multicast it themselves. A PS hears only of tasks
//! that did not go well: that lost their aggregator to another task, found none, or lost a packet.
//! Three parts take care of those:
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Worker`](crate::Worker) | notices that a result does not come, and reminds; keeps the results of a window for those that miss them |
//! | [`Server`] | the dictionary: what came in of each task, merged if disjoint; the result when all is in |
//! | [`Agent`] | the reminder agent: fetches partial sums out of switches, then asks workers, until each entry of a dictionary is complete |
//!
//! Worker and agent, and agent and server if they are in different processes, talk over a reliable
//! channel ([`tributary_wire::channel`]; TCP in practice). A
//! [`Backend`] holds the servers and the agent of one process, usually both of each job.
//!
//! By default a worker also sends the PS what was lost twice, and the PS asks workers, in packets that no
//! aggregator takes part in ([`Flags::REPAIR`](tributary_wire::Flags::REPAIR)). What they bring is merged as
//! what comes over the channel is, so nothing below depends on which of the two it was.
//!
//! # Why it is right
//!
//! The invariants are those of [ATP](crate). Loss of a cell, a partial sum, a result, a message,
//! the whole dictionary or the agent costs time only, since each worker keeps its values until the
//! result is in:
//!
//! - **I1** (exactly once). A switch adds a packet to a cell only if it is of the cell's task and its
//!   worker is not in there yet; a server merges a packet only if it is disjoint from the entry. A
//!   task can have two results, one from a switch and one from the server. They are the same numbers,
//!   for each holds every worker's values once; a worker takes the first.
//! - **I2** (bit-identical). Integer sums do not depend on their order. A task with floats has no
//!   integer result, as the worker whose values do not fit never sends integers; float sums are taken
//!   by one server in the order of the workers. Should that server be replaced half-way, its successor
//!   takes the same sum of the same numbers.
//! - **I3**, **I4** (cells). A cell whose task is over is evicted by any other task after at most
//!   eight collisions, as each halves its priority and no packet's priority is zero; else the sweep
//!   finds it.
//! - **I7** (liveness under fair loss). Let `s` be the lowest sequence that some worker lacks. That
//!   worker sent it, or will, as its window is never below one; it reminds the agent, again and again
//!   at bounded intervals; a reminder gets through, so the server has an entry
//!   for `s` and the agent a watch, which does not rest: it asks each worker whose values are missing.
//!   One that has the result gives it; one that has not gives its values; one that has not sent `s`
//!   yet, and is not stopped from it, gives them as soon as it does. So the entry gets complete.
//!
//! **I5** (no silent overflow) and **I6** (isolation) hold as with ATP. On the channel a peer shows
//! its job's token, and what it says counts for that job and that worker only.
//!
//! # Entries of tasks that are over
//!
//! A packet that was duplicated or delayed may reach a cell or the server when its task is complete,
//! and the server cannot know: the task was completed by a switch. It keeps an entry then, the agent
//! asks, and the first worker that answers has the result, or says that everybody has it. That some
//! worker *sent* `s + W` shows that it has the result of `s`; once all have, the server drops
//! entries and results up to `s` by itself.

pub mod agent;
mod backend;
pub mod server;

pub use agent::{Agent, AgentJob, Target, ToPeer};
pub use backend::Backend;
pub use server::Server;
