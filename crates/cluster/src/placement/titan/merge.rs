//! Merges workers onto few machines (Titan algorithm 2).

use std::cmp::Reverse;

use super::feasible::Deployment;

/// Places all ranks on as few machines of a pool as it can, and returns their number. `None` if the
/// bandwidth constraint or the number of GPUs prevents it.
///
/// `order` is all ranks in the order in which they are offered to a machine. `pool` is machines in
/// the order of preference.
///
/// Every worker starts on its own machine, instead of "randomly distributing workers". Merging a
/// set M onto one machine then saves |M| − 1 machines, and H(Φ ∪ {M}) − H(Φ) is largest for the
/// machine with the largest feasible set. (With the C of equation 2, which is 1 for any non-empty
/// set, H as printed is the same for all machines.) The loop ends when no worker is left, not after
/// K − 1 iterations. Among machines with equal savings, the one with the fewest idle GPUs is taken,
/// so the remaining workers go to the tightest machine, which need not be idle.
pub(super) fn merge(
    deployment: &mut Deployment<'_, '_>,
    pool: &[usize],
    order: &[u32],
) -> Option<usize> {
    let (mut left, mut pool) = (order.to_vec(), pool.to_vec());
    let mut machines = 0;
    while !left.is_empty() {
        let (machine, set) = best(deployment, &mut pool, &left)?;
        for &rank in &set {
            deployment.put(rank, machine);
        }
        left.retain(|rank| !set.contains(rank));
        pool.retain(|&other| other != machine);
        machines += 1;
    }
    Some(machines)
}

/// The machine with the largest feasible set, and the set.
fn best(
    deployment: &mut Deployment<'_, '_>,
    pool: &mut [usize],
    left: &[u32],
) -> Option<(usize, Vec<u32>)> {
    let free = |deployment: &Deployment<'_, '_>, machine: usize| {
        deployment.instance.machines[machine].free as usize
    };
    // An upper bound of the set's size. Once a set reaches it, no later machine has a larger one.
    let bound = |free: usize| free.min(left.len());
    pool.sort_by_key(|&machine| {
        let free = free(deployment, machine);
        (Reverse(bound(free)), free)
    });
    let mut best: Option<(usize, Vec<u32>)> = None;
    for &machine in &*pool {
        let found = best.as_ref().map_or(0, |(_, set)| set.len());
        if found >= bound(free(deployment, machine)) {
            break;
        }
        let set = deployment.feasible_set(machine, left);
        if set.len() > found {
            best = Some((machine, set));
        }
    }
    best
}
