//! NetPack's testbed (§6.1) in virtual time: servers at one switch, whose jobs sum their gradients
//! with ATP's endpoints and P4 program.
//!
//! Training takes days, a packet nanoseconds, so a trace cannot be run packet by packet. Each of
//! three processes is simulated at its own time scale:
//!
//! 1. *Packets* (`rates`). Jobs that send at the same time share links, the switch's memory and the
//!    queues. [`Packets`] runs them without pauses, through the P4 program, until their rates are
//!    steady, and caches the rates for equal jobs on equivalent servers.
//! 2. *Turns* (`turns`). Jobs compute, then send, each in its own rhythm; the set of sending jobs
//!    changes many times per second. Iterations are simulated with the rates of step 1.
//! 3. *The trace*. Jobs arrive, are placed, and leave: the simulation of
//!    [`tributary_cluster::simulate`], which asks [`Packets`] after every change how long sums
//!    take.
//!
//! [`replay`] omits the shortcuts: every packet of every iteration of every job, in one run. It is
//! for small cases, to measure the error of the shortcuts.
//!
//! # Scale
//!
//! A link of the testbed carries [`BDP`] packets per round trip, instead of several hundred, and a
//! packet has [`VALUES`] values, instead of 64: only times relative to a packet's matter here. The
//! ratios that determine rates are kept: memory to packets in flight per round trip (the peak
//! aggregation throughput relative to the link's rate), the marking threshold and the window's
//! bounds to the same, and the retransmission timeout to the round-trip time. The marking threshold
//! equals the link's own packets, so that a halved window still fills the link.

mod bench;
mod packets;
mod rates;
mod replay;
mod rig;
mod shape;
mod turns;

pub use packets::{Effort, Packets};
pub use replay::replay;
pub use rig::{BDP, Unfit, VALUES};

/// Why a testbed cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be a testbed.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The endpoints or the switch refused something.
    #[error(transparent)]
    Run(#[from] tributary_sim::Error),
    /// A sum was wrong, which is a bug in this program.
    #[error("a job of {workers} workers got {sum} as the sum of ones")]
    Sum {
        /// Number of workers of the job.
        workers: usize,
        /// The sum.
        sum: i32,
    },
}
