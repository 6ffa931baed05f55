//! Placement policies: where the jobs of a batch go, and which of them a switch aggregates for.
//!
//! A policy is a [`tributary_cluster::Policy`], a file each. NetPack and what its paper compares it
//! with place workers and a parameter server for jobs whose gradients switches aggregate; Titan and
//! what its paper compares it with place the ranks of an all-reduce.

pub mod comb;
pub mod flow_balance;
pub mod gpu_balance;
pub mod least_fragmentation;
pub mod netpack;
pub mod optimus;
mod ranked;
mod regions;
pub mod speed;
pub mod tetris;

pub use comb::Comb;
pub use flow_balance::FlowBalance;
pub use gpu_balance::GpuBalance;
pub use least_fragmentation::LeastFragmentation;
pub use netpack::NetPack;
pub use optimus::Optimus;
pub use ranked::{Queue, Ranked};
pub use tetris::Tetris;
use tributary_cluster::Policy;

/// The policies that are compared with one another, by what the field calls them.
///
/// [`by_name`] knows `netpack-plain` and `netpack-printed` besides: the reference that `netpack` must
/// agree with, and the paper's algorithm as near to its letter as it can be run.
pub const NAMES: &[&str] =
    &["netpack", "gpu-balance", "flow-balance", "least-fragmentation", "optimus", "tetris", "comb"];

/// A policy by its name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    with_queue(name, Queue::default())
}

/// A policy by its name; those that have no rule of their own for it choose the jobs to place by the
/// given queue.
#[must_use]
pub fn with_queue(name: &str, queue: Queue) -> Option<Box<dyn Policy>> {
    Some(match name {
        "netpack" => Box::new(NetPack),
        "netpack-plain" => Box::new(netpack::Plain::default()),
        "netpack-printed" => Box::new(netpack::Plain { readings: netpack::Readings::printed() }),
        "gpu-balance" => Box::new(GpuBalance::new(queue)),
        "flow-balance" => Box::new(FlowBalance::new(queue)),
        "least-fragmentation" => Box::new(LeastFragmentation::new(queue)),
        "optimus" => Box::new(Optimus::new(queue)),
        "tetris" => Box::new(Tetris::new(queue)),
        "comb" => Box::new(Comb::new(queue)),
        _ => return None,
    })
}
