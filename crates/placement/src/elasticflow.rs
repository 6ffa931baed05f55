//! Elasticflow's placement, as a baseline in Titan's paper (§II-A, §II-B, §V-A).

use std::collections::BTreeMap;

use tributary_cluster::{Collective, Job, JobId, Pending, Plan, Policy, Round, ServerIndex, State};

use crate::deal::plan_of;
use crate::machines::{Machine, consolidated, in_order, with_idle_gpus, within_reach};

/// Best fit: as few machines as possible, and among those with the fewest idle GPUs that suffice.
///
/// To avoid fragments it reserves a power of two of GPUs for each job (§II-A): a job that requests
/// 5 reserves 8. It runs on 5, and the other 3 stay idle until it ends. If the cluster is smaller
/// than the power of two, the job reserves the whole cluster.
#[derive(Clone, Debug)]
pub struct Elasticflow {
    collective: Collective,
    holds_powers_of_two: bool,
    /// Reserved but unused GPUs of running jobs.
    held: BTreeMap<JobId, Vec<(ServerIndex, u32)>>,
}

impl Elasticflow {
    /// Best fit that reserves powers of two of GPUs, for ranks that use this collective.
    #[must_use]
    pub const fn new(collective: Collective) -> Self {
        Self { collective, holds_powers_of_two: true, held: BTreeMap::new() }
    }

    /// Best fit alone (§V-A), without reserving more GPUs than requested.
    #[must_use]
    pub fn best_fit(collective: Collective) -> Self {
        Self { holds_powers_of_two: false, ..Self::new(collective) }
    }

    /// Number of GPUs that a job reserves without using them.
    #[must_use]
    pub fn held(&self, job: JobId) -> u32 {
        self.held.get(&job).map_or(0, |held| held.iter().map(|&(_, gpus)| gpus).sum())
    }

    /// Machines with GPUs that are neither used nor reserved.
    fn machines(&self, state: &State<'_>) -> Vec<Machine> {
        let mut machines: Vec<_> = with_idle_gpus(state).collect();
        for &(server, gpus) in self.held.values().flatten() {
            let at = machines.binary_search_by_key(&server, |machine| machine.server);
            if let Ok(at) = at {
                machines[at].free = machines[at].free.saturating_sub(gpus);
            }
        }
        machines.retain(|machine| machine.free > 0);
        machines
    }

    fn plan(&mut self, state: &State<'_>, job: &Job) -> Option<Plan> {
        let wanted = if self.holds_powers_of_two {
            job.gpus.next_power_of_two().min(state.cluster().gpus())
        } else {
            job.gpus
        };
        let best_fit = |machines| consolidated(machines, wanted);
        let mut shares = within_reach(state.cluster(), self.machines(state), best_fit)?;
        let held = cut(&mut shares, job.gpus);
        if !held.is_empty() {
            self.held.insert(job.id, held);
        }
        Some(plan_of(&shares, self.collective))
    }
}

/// Reduces the shares to their first `gpus` GPUs, and returns the rest.
fn cut(shares: &mut Vec<(ServerIndex, u32)>, gpus: u32) -> Vec<(ServerIndex, u32)> {
    let (mut left, mut rest) = (gpus, Vec::new());
    for (server, share) in &mut *shares {
        let kept = left.min(*share);
        if kept < *share {
            rest.push((*server, *share - kept));
        }
        left -= kept;
        *share = kept;
    }
    shares.retain(|&(_, share)| share > 0);
    rest
}

impl Policy for Elasticflow {
    fn name(&self) -> &'static str {
        "Elasticflow"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        self.held.retain(|job, _| round.running().contains_key(job));
        in_order(round, waiting, |state, job| self.plan(state, job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster, free, job, occupied, place_one};

    fn elasticflow() -> Elasticflow {
        Elasticflow::new(Collective::HalvingDoubling)
    }

    /// Titan §II-B, figure 1 (b): idle GPUs 4, 3, 2, 1 and 4 workers.
    #[test]
    fn the_example_of_section_2b_launches_the_idle_machine() {
        let cluster = cluster(4, 4);
        let mut state = occupied(&cluster, &[4, 3, 2, 1]);
        let plan = place_one(&mut elasticflow(), &mut state, 4).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(0), 4)]);
    }

    #[test]
    fn takes_the_tightest_fit() {
        let cluster = cluster(5, 8);
        let mut state = occupied(&cluster, &[8, 5, 4, 7, 3]);
        let plan = place_one(&mut elasticflow(), &mut state, 4).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(2), 4)]);
        // No machine has 16: the two with most, then the tightest for the last GPU.
        let plan = place_one(&mut elasticflow(), &mut state, 16).unwrap();
        let workers = [(ServerIndex(0), 8), (ServerIndex(3), 7), (ServerIndex(4), 1)];
        assert_eq!(plan.workers(), workers);
    }

    #[test]
    fn five_workers_hold_eight_gpus_until_they_end() {
        let cluster = cluster(1, 8);
        let mut state = State::new(&cluster);
        let mut policy = elasticflow();
        let five = job(1, 5);
        let pending = |job: &Job| Pending { job: job.clone(), value: 1.0 };
        policy.place(&mut Round::new(&mut state), &[pending(&five), pending(&job(2, 1))]);
        assert_eq!(free(&state), [3]);
        assert_eq!(policy.held(five.id), 3);
        assert!(!state.running().contains_key(&JobId(2)), "the idle GPUs are held");
        state.end(five.id);
        policy.place(&mut Round::new(&mut state), &[pending(&job(2, 1))]);
        assert!(state.running().contains_key(&JobId(2)));
        assert_eq!(policy.held(five.id), 0);
    }

    #[test]
    fn best_fit_alone_holds_nothing() {
        let cluster = cluster(1, 8);
        let mut state = State::new(&cluster);
        let mut policy = Elasticflow::best_fit(Collective::Ring);
        place_one(&mut policy, &mut state, 5).unwrap();
        assert!(place_one(&mut policy, &mut state, 3).is_some());
    }

    #[test]
    fn a_job_as_large_as_an_odd_cluster_gets_it() {
        let cluster = cluster(3, 4);
        let mut state = State::new(&cluster);
        assert!(place_one(&mut elasticflow(), &mut state, 9).is_some());
    }
}
