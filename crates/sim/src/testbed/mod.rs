//! NetPack's testbed (§6.1) in virtual time: servers at one switch, whose jobs sum their gradients with ATP's
//! endpoints and P4 program.
//!
//! Training takes days, a packet nanoseconds; so a trace cannot be run packet by packet. Three things
//! happen at scales that are far apart, and each is run at its own:
//!
//! 1. *Packets* (`rates`). Jobs that send at the same time share links, the switch's memory and the
//!    queues. [`Packets`] has them send without a pause, through the P4 program, until their rates no
//!    longer change, and remembers the rates for like jobs on like servers.
//! 2. *Turns* (`turns`). Jobs compute, then send, each in its own rhythm; who sends at the same time
//!    changes many times a second. Iterations are played with the rates of step 1.
//! 3. *The trace*. Jobs come, are placed, and go: the simulation of [`tributary_cluster::simulate`], which
//!    asks [`Packets`] at every change how long sums take now.
//!
//! [`replay`] leaves the shortcuts out: every packet of every iteration of every job, in one run. It
//! is for small cases, to see what the shortcuts cost.
//!
//! # Scale
//!
//! A link of the testbed carries [`BDP`] packets in a round trip, not several hundred, and a packet has
//! [`VALUES`] values, not 64: only times in units of a packet's matter here. What makes rates what they are is
//! kept: memory over what a link has under way in a round trip (that is the peak aggregation
//! throughput over the link's rate), the queue that marks congestion over the same, the window's bounds
//! over the same, and the retransmission timeout over the round-trip time. The queue before a mark is as long as
//! the link's own packets, so that a window that is halved still fills the link.

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

/// Why a testbed has nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be built.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The endpoints or the switch refused something.
    #[error(transparent)]
    Run(#[from] crate::Error),
    /// A sum was not what it should be: a fault of this program.
    #[error("a job of {workers} workers got {sum} as the sum of ones")]
    Sum {
        /// Workers of the job.
        workers: usize,
        /// What came.
        sum: i32,
    },
}
