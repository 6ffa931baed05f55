//! Placement policies: where the jobs of a batch run, and for which of them a switch aggregates.
//!
//! Each policy is a [`crate::Policy`] in its own file. NetPack and the baselines of its
//! paper place workers and a parameter server, for jobs whose gradients switches aggregate. Titan
//! and the baselines of its paper place the ranks of an all-reduce.

pub mod comb;
mod deal;
pub mod elasticflow;
pub mod flow_balance;
pub mod gpu_balance;
mod hived;
pub mod least_fragmentation;
mod machines;
pub mod netpack;
pub mod optimus;
mod ranked;
mod regions;
mod sharing;
mod slurm;
pub mod speed;
#[cfg(test)]
mod testing;
pub mod tetris;
mod tiresias;
pub mod titan;

use crate::{Collective, Policy};
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
pub use sharing::Sharing;
pub use slurm::Slurm;
pub use tetris::Tetris;
pub use tiresias::{PROFILES, TensorProfile, Tiresias};
pub use titan::Titan;

/// The names of the policies for jobs that are aggregated in the network.
///
/// [`by_name`] also knows `netpack-plain`, the reference that `netpack` must agree with, and
/// `netpack-printed`, the paper's algorithm as close to its letter as it can be run. After any of
/// these names, `:shared` or `:apart` selects a rule of [`Sharing`], as in `tetris:shared`.
pub const NAMES: &[&str] = &[
    "netpack",
    "netpack+",
    "gpu-balance",
    "flow-balance",
    "least-fragmentation",
    "optimus",
    "tetris",
    "comb",
];

/// The names of the policies for jobs that sum their gradients by all-reduce. Their plans have no
/// parameter server.
///
/// [`by_name`] also knows the other [readings](elasticflow::Reading) of Elasticflow:
/// `elasticflow-best-fit`, `elasticflow-whole-machines`, `elasticflow-dedicated` and
/// `elasticflow-alone`, and `slurm`, the placement of Slurm itself.
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
    use netpack::{Plain, Readings};
    let (name, sharing) = match name.split_once(':') {
        None => (name, None),
        Some((name, suffix)) => (name, Some(Sharing::of_suffix(suffix)?)),
    };
    let netpack = |usual: NetPack| NetPack { sharing: sharing.unwrap_or(usual.sharing), ..usual };
    let plain = |usual: Readings| Plain {
        readings: Readings { sharing: sharing.unwrap_or(usual.sharing), ..usual },
    };
    Some(match name {
        "netpack" => Box::new(netpack(NetPack::default())),
        "netpack+" => Box::new(netpack(NetPack::plus())),
        "netpack-plain" => Box::new(plain(Readings::default())),
        "netpack-printed" => Box::new(plain(Readings::printed())),
        "gpu-balance" => Box::new(GpuBalance::new(queue, sharing)),
        "flow-balance" => Box::new(FlowBalance::new(queue, sharing)),
        "least-fragmentation" => Box::new(LeastFragmentation::new(queue, sharing)),
        "optimus" => Box::new(Optimus::new(queue, sharing)),
        "tetris" => Box::new(Tetris::new(queue, sharing)),
        "comb" => Box::new(Comb::new(queue, sharing)),
        _ if sharing.is_none() => return all_reduce(name, Collective::default()),
        _ => return None,
    })
}

/// Creates a policy of [`ALL_REDUCE_NAMES`] for this collective.
#[must_use]
pub fn all_reduce(name: &str, collective: Collective) -> Option<Box<dyn Policy>> {
    use elasticflow::Reading;
    let elasticflow = |reading| Box::new(Elasticflow::new(collective, reading));
    Some(match name {
        "titan" => Box::new(Titan { collective, ..Titan::default() }),
        "elasticflow" => elasticflow(Reading::PowersOfTwo),
        "elasticflow-best-fit" => elasticflow(Reading::BestFit),
        "elasticflow-whole-machines" => elasticflow(Reading::WholeMachines),
        "elasticflow-dedicated" => elasticflow(Reading::Dedicated),
        "elasticflow-alone" => elasticflow(Reading::Alone),
        "hived" => Box::new(HiveD::new(collective)),
        "tiresias" => Box::new(Tiresias::new(collective)),
        "slurm" => Box::new(Slurm),
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
        for name in NAMES {
            for suffix in ["shared", "apart"] {
                assert!(by_name(&format!("{name}:{suffix}")).is_some(), "{name}:{suffix}");
            }
        }
        for none in ["best", "netpack:", "netpack:beside", "titan:apart"] {
            assert!(by_name(none).is_none(), "{none}");
        }
        assert!(all_reduce("netpack", Collective::Ring).is_none());
    }
}
