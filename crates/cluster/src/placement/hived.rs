//! HiveD's placement, as a baseline in Titan's paper (§II-B, §V-A).

use crate::{Collective, Job, Pending, Plan, Policy, Round, State};

use crate::placement::deal::plan_of;
use crate::placement::machines::{
    Machine, Shares, in_order, sort_by_most, with_idle_gpus, within_reach,
};

/// Uses scattered idle GPUs first, so that idle machines stay idle.
///
/// HiveD keeps GPUs in cells that split into two buddies, and splits the smallest sufficient cell.
/// According to Titan's paper (§II-B), scattered GPUs are used first, and machines are filled where
/// possible. Among machines partly in use, it takes the one with the most idle GPUs that the job
/// uses up. When the job fills no further machine, the one with the fewest idle GPUs takes the
/// rest. Then it applies the same two rules to idle machines.
#[derive(Clone, Copy, Debug)]
pub struct HiveD {
    collective: Collective,
}

impl HiveD {
    /// For ranks that use this collective.
    #[must_use]
    pub const fn new(collective: Collective) -> Self {
        Self { collective }
    }

    fn plan(&self, state: &State<'_>, job: &Job) -> Option<Plan> {
        let machines = with_idle_gpus(state).collect();
        let shares = within_reach(state.cluster(), machines, |of| scattered(of, job.gpus))?;
        Some(plan_of(&shares, self.collective))
    }
}

fn scattered(machines: Vec<Machine>, gpus: u32) -> Option<Shares> {
    let (mut whole, mut scattered): (Vec<_>, Vec<_>) =
        machines.into_iter().partition(|machine| machine.idle);
    let mut shares = Vec::new();
    let rest = fill(&mut scattered, gpus, &mut shares);
    let rest = fill(&mut whole, rest, &mut shares);
    (rest == 0).then_some(shares)
}

/// Takes GPUs of these machines until the request is met, and returns the number still missing.
fn fill(machines: &mut [Machine], gpus: u32, shares: &mut Shares) -> u32 {
    sort_by_most(machines);
    let mut rest = gpus;
    // Later machines have fewer idle GPUs, and the rest only shrinks. So the skipped machines are
    // too large, and the last of them is the tightest.
    let mut too_large = None;
    for machine in machines {
        if rest == 0 {
            return 0;
        }
        if machine.free <= rest {
            shares.push((machine.server, machine.free));
            rest -= machine.free;
        } else if too_large.is_none_or(|tightest: Machine| machine.free < tightest.free) {
            too_large = Some(*machine);
        }
    }
    match too_large {
        Some(tightest) if rest > 0 => {
            shares.push((tightest.server, rest));
            0
        }
        _ => rest,
    }
}

impl Policy for HiveD {
    fn name(&self) -> &'static str {
        "HiveD"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        in_order(round, waiting, |state, job| self.plan(state, job));
    }
}

#[cfg(test)]
mod tests {
    use crate::ServerIndex;

    use super::*;
    use crate::placement::testing::{cluster, occupied, place_one};

    fn hived() -> HiveD {
        HiveD::new(Collective::HalvingDoubling)
    }

    /// Titan §II-B, figure 1 (c): idle GPUs 4, 3, 2, 1 and 4 workers.
    #[test]
    fn the_example_of_section_2b_takes_scattered_gpus() {
        let cluster = cluster(4, 4);
        let mut state = occupied(&cluster, &[4, 3, 2, 1]);
        let plan = place_one(&mut hived(), &mut state, 4).unwrap();
        assert_eq!(plan.ranks, [1, 1, 1, 3].map(ServerIndex), "machines 2 and 4 are full");
        let crossing = Collective::HalvingDoubling.cross_machine_bytes(1.0, &plan.ranks);
        assert_eq!(crossing, 1.5, "3K/2");
    }

    #[test]
    fn a_job_is_split_to_fill_machines() {
        let cluster = cluster(4, 8);
        let mut state = occupied(&cluster, &[8, 6, 1, 1]);
        let plan = place_one(&mut hived(), &mut state, 2).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(2), 1), (ServerIndex(3), 1)]);
    }

    #[test]
    fn the_rest_breaks_the_tightest_machine() {
        let cluster = cluster(4, 8);
        let mut state = occupied(&cluster, &[8, 7, 5, 2]);
        let plan = place_one(&mut hived(), &mut state, 3).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(2), 1), (ServerIndex(3), 2)]);
    }

    #[test]
    fn idle_machines_come_last_and_whole() {
        let cluster = cluster(4, 8);
        let mut state = occupied(&cluster, &[8, 2, 8, 8]);
        let plan = place_one(&mut hived(), &mut state, 19).unwrap();
        let workers = [(0, 8), (1, 2), (2, 8), (3, 1)];
        assert_eq!(plan.workers(), workers.map(|(server, gpus)| (ServerIndex(server), gpus)));
    }
}
