//! Elasticflow's placement, as a baseline in Titan's paper (§II-A, §II-B, §V-A).

use std::collections::BTreeMap;

use crate::{Collective, Job, JobId, Pending, Plan, Policy, Round, ServerIndex, State};

use crate::placement::deal::plan_of;
use crate::placement::machines::{Machine, consolidated, in_order, with_idle_gpus, within_reach};

/// How Titan's paper may have meant Elasticflow. Its own jobs change their numbers of workers while
/// they run, which a trace's jobs do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reading {
    /// Best fit (§V-A), and nothing more than requested.
    BestFit,
    /// Best fit for a power of two of GPUs (§II-A): a job that requests 5 reserves 8. It runs on 5,
    /// and the other 3 stay idle until it ends. If the cluster is smaller than the power of two, the
    /// job reserves the whole cluster.
    #[default]
    PowersOfTwo,
    /// Powers of two of GPUs as nodes of a tree, as in Elasticflow's own paper: a job of more than
    /// one machine gets whole idle machines.
    WholeMachines,
    /// Jobs of several GPUs do not share machines: a job gets idle machines, and their other GPUs
    /// stay idle until it ends. Jobs of one GPU fill machines together.
    Dedicated,
    /// Best fit, but only on as few machines as would hold the job if they were idle: a job waits for
    /// them rather than be spread. It is not in the paper, whose premise it tests: that fragmented
    /// GPUs make jobs wait.
    Strict,
}

/// Best fit: as few machines as possible, and among those with the fewest idle GPUs that suffice,
/// in one of several [`Reading`]s.
#[derive(Clone, Debug)]
pub struct Elasticflow {
    collective: Collective,
    reading: Reading,
    /// Reserved but unused GPUs of running jobs.
    held: BTreeMap<JobId, Vec<(ServerIndex, u32)>>,
}

impl Elasticflow {
    /// A policy for ranks that use this collective.
    #[must_use]
    pub const fn new(collective: Collective, reading: Reading) -> Self {
        Self { collective, reading, held: BTreeMap::new() }
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
        let cluster = state.cluster();
        let size = |server: ServerIndex| cluster.server(server).gpus;
        let power_of_two = job.gpus.next_power_of_two().min(cluster.gpus());
        let largest = cluster.servers().iter().map(|server| server.gpus).max().unwrap_or(0);
        let (wanted, whole) = match self.reading {
            Reading::BestFit | Reading::Strict => (job.gpus, false),
            Reading::PowersOfTwo => (power_of_two, false),
            Reading::WholeMachines => (power_of_two, power_of_two > largest),
            Reading::Dedicated => (job.gpus, job.gpus > 1),
        };
        let mut machines = self.machines(state);
        machines.retain(|machine| !whole || machine.free == size(machine.server));
        let best_fit = |machines| consolidated(machines, wanted);
        let mut shares = within_reach(cluster, machines, best_fit)?;
        let fewest = job.gpus.div_ceil(largest.max(1)) as usize;
        if self.reading == Reading::Strict && shares.len() > fewest {
            return None;
        }
        if whole {
            shares.iter_mut().for_each(|(server, share)| *share = size(*server));
        }
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
    use crate::placement::testing::{cluster, free, job, occupied, place_one};

    fn elasticflow() -> Elasticflow {
        Elasticflow::new(Collective::HalvingDoubling, Reading::default())
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
        let mut policy = Elasticflow::new(Collective::Ring, Reading::BestFit);
        place_one(&mut policy, &mut state, 5).unwrap();
        assert!(place_one(&mut policy, &mut state, 3).is_some());
    }

    #[test]
    fn a_job_of_whole_machines_takes_no_part_of_another() {
        let cluster = cluster(4, 4);
        let mut policy = Elasticflow::new(Collective::Ring, Reading::WholeMachines);
        let mut state = occupied(&cluster, &[4, 3, 2, 4]);
        let plan = place_one(&mut policy, &mut state, 5).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(0), 4), (ServerIndex(3), 1)]);
        assert!(place_one(&mut policy, &mut state, 9).is_none());
        let plan = place_one(&mut policy, &mut state, 2).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(2), 2)]);
    }

    #[test]
    fn a_job_waits_for_as_few_machines_as_could_hold_it() {
        let cluster = cluster(4, 4);
        let mut policy = Elasticflow::new(Collective::Ring, Reading::Strict);
        let mut state = occupied(&cluster, &[4, 3, 3, 2]);
        assert!(place_one(&mut policy, &mut state, 8).is_none(), "three machines would do");
        let plan = place_one(&mut policy, &mut state, 7).unwrap();
        assert_eq!(plan.workers(), [(ServerIndex(0), 4), (ServerIndex(1), 3)]);
    }

    #[test]
    fn a_job_with_its_own_machine_keeps_others_out() {
        let cluster = cluster(2, 4);
        let pending = |id, gpus| Pending { job: job(id, gpus), value: 1.0 };
        let mut policy = Elasticflow::new(Collective::Ring, Reading::Dedicated);
        let mut state = State::new(&cluster);
        let jobs = [pending(1, 2), pending(2, 1), pending(3, 1), pending(4, 2)];
        policy.place(&mut Round::new(&mut state), &jobs);
        let runs = |id| state.running().contains_key(&JobId(id));
        assert_eq!([1, 2, 3, 4].map(runs), [true, true, true, false]);
        assert_eq!(policy.held(JobId(1)), 2);
    }

    #[test]
    fn a_job_as_large_as_an_odd_cluster_gets_it() {
        let cluster = cluster(3, 4);
        let mut state = State::new(&cluster);
        assert!(place_one(&mut elasticflow(), &mut state, 9).is_some());
    }
}
