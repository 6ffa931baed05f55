//! Placement policies: where the jobs of a batch run, and for which of them a switch aggregates.
//!
//! Each policy is a [`crate::Policy`] in its own file. NetPack and the baselines of its
//! paper place workers and a parameter server, for jobs whose gradients switches aggregate. Titan
//! and the baselines of its paper place the ranks of an all-reduce.

pub mod comb;
mod deal;
pub mod elasticflow;
pub mod explain;
pub mod flow_balance;
pub mod gpu_balance;
mod hived;
pub mod least_fragmentation;
mod machines;
pub mod netpack;
pub mod optimus;
mod ranked;
mod regions;
pub mod rules;
mod sharing;
mod slurm;
pub mod speed;
#[cfg(test)]
mod testing;
pub mod tetris;
mod tiresias;
pub mod titan;
mod ways;

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
pub use ranked::Ranked;
pub use rules::{Queue, Racks, Rules, Spread};
pub use sharing::Sharing;
pub use slurm::Slurm;
pub use tetris::Tetris;
pub use tiresias::{PROFILES, TensorProfile, Tiresias};
pub use titan::Titan;

/// The names of the policies for jobs that are aggregated in the network.
///
/// [`by_name`] also knows `netpack-plain`, the reference that `netpack` must agree with, and
/// `netpack-printed`, the paper's algorithm as close to its letter as it can be run.
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
/// `elasticflow-best-fit`, `elasticflow-whole-machines`, `elasticflow-dedicated`
/// and `elasticflow-strict`, and `slurm`, the placement of Slurm itself.
pub const ALL_REDUCE_NAMES: &[&str] = &["titan", "elasticflow", "hived", "tiresias"];

/// Creates a policy by its name. A policy for all-reduce gets the default collective.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    create(name, Rules::default(), Collective::default()).ok()
}

/// Creates a policy by its name, with [`Rules`] in place of its own. After its name there may be
/// further rules, as in `tetris:knapsack:apart`; they come before the given ones. A policy for
/// all-reduce gets the collective.
///
/// # Errors
///
/// One line, if the policy or a rule is unknown, or if the policy has no such rule.
pub fn create(name: &str, rules: Rules, collective: Collective) -> Result<Box<dyn Policy>, String> {
    use netpack::{Oversubscribed, Plain, Readings};
    let (name, own) = match name.split_once(':') {
        None => (name, Rules::default()),
        Some((name, suffixes)) => (name, Rules::parse(suffixes)?),
    };
    let rules = own.or(rules);
    let oversubscribed = |usual| match rules.racks {
        None => usual,
        Some(Racks::Any) => Oversubscribed::Penalty,
        Some(Racks::First) => Oversubscribed::RacksFirst,
    };
    let queue = rules.queue.unwrap_or(Queue::Knapsack);
    let netpack = |usual: NetPack| {
        let sharing = rules.sharing.unwrap_or(usual.sharing);
        let oversubscribed = oversubscribed(usual.oversubscribed);
        (Box::new(NetPack { queue, sharing, oversubscribed, ..usual }) as _, sharing)
    };
    let plain = |usual: Readings| {
        let sharing = rules.sharing.unwrap_or(usual.sharing);
        let oversubscribed = oversubscribed(usual.oversubscribed);
        let readings = Readings { sharing, oversubscribed, ..usual };
        (Box::new(Plain { queue, readings }) as _, sharing)
    };
    let apart = Sharing::Forbidden;
    let (policy, sharing): (Box<dyn Policy>, Sharing) = match name {
        "netpack" => netpack(NetPack::default()),
        "netpack+" => netpack(NetPack::plus()),
        "netpack-plain" => plain(Readings::default()),
        "netpack-printed" => plain(Readings::printed()),
        "gpu-balance" => ranked::<gpu_balance::MoreGpus>(rules, apart),
        "flow-balance" => ranked::<flow_balance::FewerFlows>(rules, apart),
        "least-fragmentation" => ranked::<least_fragmentation::UsedUpFirst>(rules, apart),
        "optimus" => ranked::<optimus::Evenly>(rules, Sharing::Required),
        "tetris" => ranked::<tetris::Aligned>(rules, apart),
        "comb" => ranked::<comb::OneAfterTheOther>(rules, apart),
        _ => return ruled_all_reduce(name, rules, collective),
    };
    let servers = rules.spread.map(|spread| rules::Servers { sharing, spread });
    Ok(match servers {
        None => policy,
        Some(_) => Box::new(rules::Ruled { policy, queue: None, servers }),
    })
}

/// A policy that prefers servers in some order, and where it then has parameter servers: by its
/// `usual` rule if there is no other.
fn ranked<P: ranked::Preference + Default + 'static>(
    rules: Rules,
    usual: Sharing,
) -> (Box<dyn Policy>, Sharing) {
    let mut policy = Ranked::<P>::default();
    policy.queue = rules.queue.unwrap_or(policy.queue);
    policy.sharing = rules.sharing;
    policy.racks = rules.racks.unwrap_or(policy.racks);
    (Box::new(policy), rules.sharing.unwrap_or(usual))
}

/// A policy that places the ranks of an all-reduce. In the network its jobs get their parameter
/// servers beside a worker, if no rule says otherwise.
fn ruled_all_reduce(
    name: &str,
    rules: Rules,
    collective: Collective,
) -> Result<Box<dyn Policy>, String> {
    let policy = all_reduce(name, collective).ok_or_else(|| {
        let known = NAMES.iter().chain(ALL_REDUCE_NAMES).copied().collect::<Vec<_>>();
        format!("no policy is called `{name}`; there are {}", known.join(", "))
    })?;
    let Rules { queue, sharing, spread, racks } = rules;
    if racks.is_some() {
        return Err(format!(
            "`{name}` places ranks without regard to racks; leave out the rule of racks"
        ));
    }
    let sharing_or = sharing.unwrap_or(Sharing::Required);
    let servers = (sharing.is_some() || spread.is_some())
        .then(|| rules::Servers { sharing: sharing_or, spread: spread.unwrap_or(Spread::Count) });
    Ok(match (queue, servers) {
        (None, None) => policy,
        _ => Box::new(rules::Ruled { policy, queue, servers }),
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
        "elasticflow-strict" => elasticflow(Reading::Strict),
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
            for suffix in ["shared", "apart", "fifo:beside:by-count:racks-first"] {
                assert!(by_name(&format!("{name}:{suffix}")).is_some(), "{name}:{suffix}");
            }
        }
        for none in
            ["best", "netpack:", "netpack:near", "netpack:fifo:knapsack", "titan:racks-first"]
        {
            assert!(by_name(none).is_none(), "{none}");
        }
        assert!(all_reduce("netpack", Collective::Ring).is_none());
    }
}
