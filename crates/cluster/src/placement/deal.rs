//! Distributes ranks over machines, given the number of ranks per machine.

use std::cmp::Reverse;

use crate::{Collective, Plan, ServerIndex};

/// Maximum number of ranks for which pairwise exchanges are tried. With more ranks only the order
/// of locality is used.
const LOOKED_AT: u32 = 64;

/// Distributes the ranks of one job.
///
/// The machine with the largest share gets the first ranks of the [order of
/// locality](Collective::locality_order). If shares are powers of two and ranks halve and double,
/// this minimises the traffic. Otherwise pairs of ranks on different machines are exchanged as long
/// as that reduces cross-machine traffic.
#[derive(Clone, Debug)]
pub(crate) struct Dealer {
    order: Vec<u32>,
    /// For each rank, the ranks with which it communicates, and the total share of the gradients.
    near: Vec<Vec<(u32, f64)>>,
}

impl Dealer {
    pub(crate) fn new(collective: Collective, ranks: u32) -> Self {
        let mut near = Vec::new();
        if ranks <= LOOKED_AT {
            near.resize(ranks as usize, Vec::new());
            for phase in collective.phases(ranks) {
                let weight = f64::from(phase.times) * phase.share;
                for (a, b) in phase.pairs() {
                    near[a as usize].push((b, weight));
                    near[b as usize].push((a, weight));
                }
            }
        }
        Self { order: collective.locality_order(ranks), near }
    }

    /// The machine of each rank. The shares add up to the number of ranks.
    pub(crate) fn deal<M: Copy + Eq>(&self, shares: &[(M, u32)]) -> Vec<M> {
        let mut shares = shares.to_vec();
        shares.sort_by_key(|&(_, share)| Reverse(share));
        let Some(&(first, _)) = shares.first() else { return Vec::new() };
        let mut at = vec![first; self.order.len()];
        let machines = shares
            .iter()
            .flat_map(|&(machine, share)| std::iter::repeat_n(machine, share as usize));
        for (&rank, machine) in self.order.iter().zip(machines) {
            at[rank as usize] = machine;
        }
        if shares.len() > 1 {
            self.exchange(&mut at);
        }
        at
    }

    /// Exchanges ranks as long as that reduces cross-machine traffic.
    fn exchange<M: Copy + Eq>(&self, at: &mut [M]) {
        let mut better = true;
        while better {
            better = false;
            for a in 0..self.near.len() {
                for b in a + 1..self.near.len() {
                    if at[a] != at[b] && self.saves(at, a, b) + self.saves(at, b, a) > 1e-9 {
                        at.swap(a, b);
                        better = true;
                    }
                }
            }
        }
    }

    /// Reduction of a rank's cross-machine traffic if it moves to the place of `other`. Traffic
    /// between the two is unchanged.
    fn saves<M: Eq>(&self, at: &[M], rank: usize, other: usize) -> f64 {
        self.near[rank]
            .iter()
            .filter(|&&(near, _)| near as usize != other)
            .map(|&(near, weight)| {
                let near = &at[near as usize];
                weight * (f64::from(*near == at[other]) - f64::from(*near == at[rank]))
            })
            .sum()
    }
}

/// A plan for one job whose ranks fill these shares.
pub(crate) fn plan_of(shares: &[(ServerIndex, u32)], collective: Collective) -> Plan {
    if let [(server, gpus)] = *shares {
        return Plan::on_one(server, gpus);
    }
    let ranks = shares.iter().map(|&(_, gpus)| gpus).sum();
    Plan { ranks: Dealer::new(collective, ranks).deal(shares), ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crossing(collective: Collective, at: &[u32]) -> f64 {
        let servers: Vec<_> = at.iter().copied().map(ServerIndex).collect();
        collective.cross_machine_bytes(1.0, &servers)
    }

    /// The minimum cross-machine traffic with these shares, over all distributions.
    fn least(collective: Collective, shares: &mut [(u32, u32)], at: &mut Vec<u32>) -> f64 {
        let mut best = f64::INFINITY;
        for index in 0..shares.len() {
            if shares[index].1 > 0 {
                shares[index].1 -= 1;
                at.push(shares[index].0);
                best = best.min(least(collective, shares, at));
                at.pop();
                shares[index].1 += 1;
            }
        }
        if shares.iter().all(|&(_, left)| left == 0) { crossing(collective, at) } else { best }
    }

    proptest! {
        #[test]
        fn everyone_gets_a_share(
            shares in proptest::collection::vec(1_u32..=8, 1..12),
            kind in 0_usize..3,
        ) {
            let shares: Vec<_> = (0_u32..).zip(shares).collect();
            let ranks = shares.iter().map(|&(_, share)| share).sum();
            let at = Dealer::new(Collective::ALL[kind], ranks).deal(&shares);
            for (machine, share) in shares {
                let got = at.iter().filter(|&&at| at == machine).count();
                prop_assert_eq!(got, share as usize);
            }
        }

        #[test]
        fn small_shares_of_rings_and_halvings_are_dealt_best(
            shares in prop_oneof![
                Just(vec![4, 4]), Just(vec![4, 2, 2]), Just(vec![4, 2, 1, 1]), Just(vec![2; 4]),
                Just(vec![3, 1]), Just(vec![3, 3]), Just(vec![4, 1]), Just(vec![5, 2]),
                Just(vec![5, 3]),
            ],
            kind in 0_usize..2,
        ) {
            let collective = Collective::ALL[kind];
            let mut shares: Vec<_> = (0_u32..).zip(shares).collect();
            let ranks = shares.iter().map(|&(_, share)| share).sum();
            let dealt = crossing(collective, &Dealer::new(collective, ranks).deal(&shares));
            let least = least(collective, &mut shares, &mut Vec::new());
            prop_assert!(dealt <= least + 1e-9, "{dealt}, but {least} is possible");
        }
    }

    /// The order alone separates a rank from its representative, for six ranks on machines of four
    /// and two.
    #[test]
    fn exchanges_improve_a_bad_order() {
        let collective = Collective::HalvingDoubling;
        let mut dealer = Dealer::new(collective, 6);
        let changed = crossing(collective, &dealer.deal(&[(0, 4), (1, 2)]));
        dealer.near.clear();
        let dealt = crossing(collective, &dealer.deal(&[(0, 4), (1, 2)]));
        assert!(changed < dealt, "{changed} and {dealt}");
    }
}
