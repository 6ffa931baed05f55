//! Placement policies: where the jobs of a batch run, and for which of them a switch aggregates.
//!
//! Each policy is a [`tributary_cluster::Policy`] in its own file. NetPack and the baselines of its
//! paper place workers and a parameter server, for jobs whose gradients switches aggregate. Titan
//! and the baselines of its paper place the ranks of an all-reduce.

pub mod comb;
mod deal;
mod elasticflow;
pub mod flow_balance;
pub mod gpu_balance;
mod hived;
pub mod least_fragmentation;
mod machines;
pub mod netpack;
pub mod optimus;
mod ranked;
mod regions;
pub mod speed;
#[cfg(test)]
mod testing;
pub mod tetris;
mod tiresias;
pub mod titan;

pub use comb::Comb;
pub use elasticflow::Elasticflow;
pub use flow_balance::FlowBalance;
pub use gpu_balance::GpuBalance;
pub use hived::HiveD;
pub use least_fragmentation::LeastFragmentation;
pub use machines::Machine;
pub use netpack::NetPack;
pub use optimus::Optimus;
pub use ranked::{Queue, Ranked};
pub use tetris::Tetris;
pub use tiresias::{PROFILES, TensorProfile, Tiresias};
pub use titan::Titan;
use tributary_cluster::{Collective, Policy};

/// The names of the policies for jobs that are aggregated in the network.
///
/// [`by_name`] also knows `netpack-plain`, the reference that `netpack` must agree with, and
/// `netpack-printed`, the paper's algorithm as close to its letter as it can be run.
pub const NAMES: &[&str] =
    &["netpack", "gpu-balance", "flow-balance", "least-fragmentation", "optimus", "tetris", "comb"];

/// The names of the policies for jobs that sum their gradients by all-reduce. Their plans have no
/// parameter server.
pub const ALL_REDUCE_NAMES: &[&str] = &["titan", "elasticflow", "hived", "tiresias"];

/// Creates a policy by its name. A policy for all-reduce gets the default collective.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    with_queue(name, Queue::default())
}

/// Creates a policy by its name. A policy without its own rule selects the jobs to place by the
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
        _ => return all_reduce(name, Collective::default()),
    })
}

/// Creates a policy of [`ALL_REDUCE_NAMES`] for this collective.
#[must_use]
pub fn all_reduce(name: &str, collective: Collective) -> Option<Box<dyn Policy>> {
    Some(match name {
        "titan" => Box::new(Titan { collective, ..Titan::default() }),
        "elasticflow" => Box::new(Elasticflow::new(collective)),
        "hived" => Box::new(HiveD::new(collective)),
        "tiresias" => Box::new(Tiresias::new(collective)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_policy() {
        for name in NAMES.iter().chain(ALL_REDUCE_NAMES) {
            assert!(by_name(name).is_some(), "{name}");
        }
        assert!(by_name("best").is_none());
        assert!(all_reduce("netpack", Collective::Ring).is_none());
    }
}
