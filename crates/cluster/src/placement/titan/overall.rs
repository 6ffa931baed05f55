//! The overall algorithm (Titan algorithm 3): minimises idle machines, then all machines, then
//! traffic.

use std::cmp::Reverse;

use super::feasible::Deployment;
use super::instance::Instance;
use super::merge::merge;
use super::shares;
use crate::placement::deal::Dealer;

/// Places a job. Returns the machine of each rank, or `None` if no placement meets the constraints.
///
/// Algorithm 3 as printed merges over the machines in use together with the idle machines
/// Φ<sub>n</sub> of its first step. Idle machines have the largest feasible sets and would always
/// win, which contradicts its step 2 and figure 1 (d). Here the second step is offered the machines
/// in use and 0, 1, 2… idle ones, until these suffice: O<sub>1</sub> before O<sub>2</sub>.
/// Φ<sub>n</sub> bounds the number of idle machines tried, and is the answer if nothing better is
/// found.
#[must_use]
pub fn place(instance: &Instance<'_>) -> Option<Vec<usize>> {
    let search = Search::new(instance);
    let fewest_idle = search.fewest_idle()?;
    search.place(fewest_idle).or_else(|| search.step_by_step(fewest_idle))
}

/// Maximum number of choices in the backtracking search.
const CHOICES: u32 = 4_000;

/// The inputs of both steps.
struct Search<'i, 'c> {
    instance: &'i Instance<'c>,
    /// S<sub>n</sub> and S<sub>f</sub>, most idle GPUs first.
    idle: Vec<usize>,
    used: Vec<usize>,
    /// Ranks, ordered so that those that exchange the most are adjacent.
    order: Vec<u32>,
    dealer: Dealer,
    constrained: bool,
}

impl<'i, 'c> Search<'i, 'c> {
    fn new(instance: &'i Instance<'c>) -> Self {
        let mut machines: Vec<_> = (0..instance.machines.len()).collect();
        machines.sort_by_key(|&machine| Reverse(instance.machines[machine].free));
        let (idle, used) =
            machines.into_iter().partition(|&machine| instance.machines[machine].idle);
        Self {
            instance,
            idle,
            used,
            order: instance.collective.locality_order(instance.ranks),
            dealer: Dealer::new(instance.collective, instance.ranks),
            constrained: instance.can_congest(),
        }
    }

    /// Algorithm 3 with at least `fewest_idle` idle machines.
    fn place(&self, fewest_idle: usize) -> Option<Vec<usize>> {
        // Step 1: the idle machines alone. If bandwidth cannot be short, step 2 needs no bound.
        let alone = if self.constrained {
            let mut deployment = Deployment::new(self.instance);
            merge(&mut deployment, &self.idle, &self.order).and_then(|_| deployment.plan())
        } else {
            None
        };
        let most_idle = match &alone {
            Some(plan) => self.instance.objectives(plan).idle as usize,
            None => self.idle.len(),
        };
        (fewest_idle..=most_idle).find_map(|idle| self.with_idle(idle)).or(alone)
    }

    /// Backtracking search for cases in which merging fails: puts rank after rank on the first
    /// machine that accepts it, and reverts the last choice if none does. Titan §IV-B rejects such
    /// a depth-first search because of its cost, so this one is bounded.
    fn step_by_step(&self, fewest_idle: usize) -> Option<Vec<usize>> {
        let mut choices = CHOICES;
        (fewest_idle..=self.idle.len()).find_map(|idle| {
            let pool: Vec<_> = self.used.iter().chain(&self.idle[..idle]).copied().collect();
            let mut deployment = Deployment::new(self.instance);
            let mut held = vec![0; self.instance.machines.len()];
            self.descend(&mut deployment, &pool, &mut held, 0, &mut choices);
            deployment.plan()
        })
    }

    /// Places the ranks from index `turn` on. On failure these ranks are left without a machine.
    fn descend(
        &self,
        deployment: &mut Deployment<'_, '_>,
        pool: &[usize],
        held: &mut [u32],
        turn: usize,
        choices: &mut u32,
    ) -> bool {
        let Some(&rank) = self.order.get(turn) else { return true };
        for &machine in pool {
            if *choices == 0 {
                return false;
            }
            *choices -= 1;
            if held[machine] == self.free(machine) || !deployment.try_put(rank, machine) {
                continue;
            }
            held[machine] += 1;
            if self.descend(deployment, pool, held, turn + 1, choices) {
                return true;
            }
            held[machine] -= 1;
            deployment.take(rank);
        }
        false
    }

    fn free(&self, machine: usize) -> u32 {
        self.instance.machines[machine].free
    }

    /// Minimum number of idle machines for enough GPUs.
    fn fewest_idle(&self) -> Option<usize> {
        let mut gpus: u32 = self.used.iter().map(|&machine| self.free(machine)).sum();
        let mut idle = 0;
        while gpus < self.instance.ranks {
            gpus += self.free(*self.idle.get(idle)?);
            idle += 1;
        }
        Some(idle)
    }

    /// The fewest machines with enough GPUs, from `idle` idle ones and those in use, most GPUs
    /// first.
    fn fewest_machines(&self, idle: usize) -> Vec<usize> {
        let mut left = self.instance.ranks;
        let mut machines = Vec::new();
        for &machine in self.idle[..idle].iter().chain(&self.used) {
            if left == 0 {
                break;
            }
            machines.push(machine);
            left = left.saturating_sub(self.free(machine));
        }
        machines
    }

    /// Step 2: the machines in use and `idle` idle ones.
    fn with_idle(&self, idle: usize) -> Option<Vec<usize>> {
        let mut deployment = Deployment::new(self.instance);
        let pool: Vec<_> = self.idle[..idle].iter().chain(&self.used).copied().collect();
        let merged = merge(&mut deployment, &pool, &self.order);
        let plan = merged.and_then(|_| deployment.plan());
        let fewest = self.fewest_machines(idle);
        // Other distributions of the ranks may need fewer machines than greedy merging, or cause
        // less traffic with as many.
        let most = merged.unwrap_or(fewest.len()).min(pool.len());
        for machines in fewest.len()..=most {
            let fixed = idle.min(machines);
            let machines: Vec<_> =
                self.idle[..fixed].iter().chain(&self.used).copied().take(machines).collect();
            let last = merged == Some(machines.len());
            let merged = plan.clone().filter(|_| last);
            if let Some(plan) = self.least_traffic(&machines, fixed, merged) {
                return Some(plan);
            }
        }
        plan
    }

    /// Step 3: the distribution with the least traffic over these machines, of which the first ones
    /// are idle, or the merged one if it has less.
    fn least_traffic(
        &self,
        machines: &[usize],
        idle: usize,
        merged: Option<Vec<usize>>,
    ) -> Option<Vec<usize>> {
        let traffic = |plan: &Vec<usize>| self.instance.cross_machine_bytes(plan);
        let mut best = merged.map(|plan| (traffic(&plan), plan));
        // The distribution needs the machines sorted by room, and idle ones may be smaller than
        // others.
        let mut sorted = machines.to_vec();
        sorted.sort_by_key(|&machine| Reverse(self.free(machine)));
        let room: Vec<_> = sorted.iter().map(|&machine| self.free(machine)).collect();
        for shares in shares::candidates(&room, self.instance.ranks) {
            let shares: Vec<_> = sorted.iter().copied().zip(shares).collect();
            let plan = self.dealer.deal(&shares);
            let traffic = traffic(&plan);
            if best.as_ref().is_some_and(|(least, _)| traffic >= *least * (1.0 - 1e-12)) {
                continue;
            }
            let tight = self.dealer.deal(&self.tighten(&shares, &machines[..idle]));
            if let Some(plan) = [tight, plan].into_iter().find(|plan| self.is_feasible(plan)) {
                best = Some((traffic, plan));
            }
        }
        best.map(|(_, plan)| plan)
    }

    /// Moves the shares to the machines in use on which they leave the fewest idle GPUs. Idle
    /// machines keep their shares.
    fn tighten(&self, shares: &[(usize, u32)], idle: &[usize]) -> Vec<(usize, u32)> {
        let mut shares = shares.to_vec();
        shares.sort_by_key(|&(machine, share)| (Reverse(share), machine));
        let mut left: Vec<_> = self.used.clone();
        left.sort_by_key(|&machine| (self.free(machine), machine));
        for (machine, share) in &mut shares {
            if idle.contains(machine) || *share == 0 {
                continue;
            }
            let at = left.partition_point(|&machine| self.free(machine) < *share);
            *machine = left.remove(at);
        }
        shares.sort_by_key(|&(machine, share)| (Reverse(share), machine));
        shares
    }

    fn is_feasible(&self, plan: &[usize]) -> bool {
        if !self.constrained {
            return true;
        }
        let mut deployment = Deployment::new(self.instance);
        plan.iter().zip(0..).all(|(&machine, rank)| deployment.try_put(rank, machine))
    }
}
