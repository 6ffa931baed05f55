//! Slurm's own placement, for comparison with policies that name nodes to it
//! (docs/operate/slurm.md).
//!
//! Slurm's topology plugin for trees takes the lowest switch below which a job fits, and fills the
//! leaf switches and nodes below it by best fit. How its plugin for GPUs breaks ties is not
//! modelled. Jobs are tried in the order of submission, and a later one may start before an earlier
//! one that does not fit, as with backfill of jobs whose time limit is not known.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Cluster, Job, Pending, Plan, Policy, RackIndex, Round, State};

use crate::placement::machines::{
    Machine, Shares, consolidated, in_order, tightest, with_idle_gpus, within_reach,
};

/// The placement of Slurm with `topology/tree`. Plans have no parameter server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slurm;

impl Policy for Slurm {
    fn name(&self) -> &'static str {
        "Slurm"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        in_order(round, waiting, plan);
    }
}

fn plan(state: &State<'_>, job: &Job) -> Option<Plan> {
    let cluster = state.cluster();
    let machines = with_idle_gpus(state).collect();
    let shares = within_reach(cluster, machines, |of| best_fit(cluster, of, job.gpus))?;
    let ranks =
        shares.iter().flat_map(|&(server, gpus)| std::iter::repeat_n(server, gpus as usize));
    Some(Plan { ranks: ranks.collect(), ..Plan::default() })
}

/// One machine if possible, otherwise one rack, otherwise as few racks as possible.
fn best_fit(cluster: &Cluster, machines: Vec<Machine>, gpus: u32) -> Option<Shares> {
    if let Some(one) = tightest(machines.iter().copied(), gpus) {
        return Some(vec![(one.server, gpus)]);
    }
    let mut racks: BTreeMap<RackIndex, Vec<Machine>> = BTreeMap::new();
    for machine in machines {
        racks.entry(cluster.server(machine.server).rack).or_default().push(machine);
    }
    let (mut shares, mut rest) = (Vec::new(), gpus);
    while rest > 0 {
        let idle = |machines: &[Machine]| machines.iter().map(|machine| machine.free).sum::<u32>();
        // The tightest rack that has room for the rest, or else the one with the most idle GPUs.
        let order = |(_, machines): &(&RackIndex, &Vec<Machine>)| {
            let idle = idle(machines);
            if idle >= rest { (0, idle) } else { (1, u32::MAX - idle) }
        };
        let (&rack, _) = racks.iter().min_by_key(order)?;
        let machines = racks.remove(&rack)?;
        let taken = idle(&machines).min(rest);
        shares.extend(consolidated(machines, taken)?);
        rest -= taken;
    }
    shares.sort_unstable_by_key(|&(server, gpus)| (Reverse(gpus), server));
    Some(shares)
}

#[cfg(test)]
mod tests {
    use crate::Shape;

    use super::*;
    use crate::placement::testing::{occupied, place_one};

    /// Three racks of two servers of four GPUs, of which these are free.
    fn servers(free: [u32; 6], gpus: u32) -> Option<Vec<(u32, u32)>> {
        let shape = Shape { racks: 3, servers_per_rack: 2, gpus_per_server: 4, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let mut state = occupied(&cluster, &free);
        let plan = place_one(&mut Slurm, &mut state, gpus)?;
        Some(plan.workers().into_iter().map(|(server, gpus)| (server.0, gpus)).collect())
    }

    #[test]
    fn a_job_takes_the_lowest_switch_that_fits() {
        assert_eq!(servers([4, 4, 2, 4, 3, 4], 2), Some(vec![(2, 2)]), "the tightest server");
        assert_eq!(servers([4, 4, 2, 4, 3, 4], 6), Some(vec![(2, 2), (3, 4)]), "the tightest rack");
        let two = servers([4, 4, 2, 4, 3, 4], 10);
        assert_eq!(two, Some(vec![(0, 4), (1, 4), (2, 2)]), "a whole rack, and the tightest one");
        assert_eq!(servers([1, 1, 1, 0, 0, 0], 3), Some(vec![(0, 1), (1, 1), (2, 1)]));
        assert_eq!(servers([1, 1, 1, 0, 0, 0], 4), None);
    }
}
