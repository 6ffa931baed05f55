//! Every plan of every policy is feasible, on any cluster.

use proptest::prelude::*;
use tributary_cluster::placement::{NAMES, Rules, by_name, create};
use tributary_cluster::simulate::{Options, Reason, simulate};
use tributary_cluster::validate::Validator;
use tributary_cluster::{Cluster, Collective, Job, Running, State};

use crate::common::{any_batches, any_cluster, job, place, waiting};

/// Invariants of a running job, for any policy.
fn check(cluster: &Cluster, running: &Running) -> Result<(), TestCaseError> {
    let (job, plan) = (&running.job, &running.plan);
    prop_assert_eq!(plan.ranks.len(), job.gpus as usize);
    if !plan.is_distributed() {
        prop_assert_eq!(plan.ps, None, "a job on one server has no use for a parameter server");
        prop_assert!(plan.aggregating.is_empty());
        return Ok(());
    }
    prop_assert!(plan.ps.is_some(), "job {} has a parameter server", job.id.0);
    let racks = plan.racks(cluster);
    prop_assert!(plan.aggregating.iter().all(|rack| racks.contains(rack)));
    prop_assert!(plan.aggregating.is_sorted_by(|a, b| a < b));
    Ok(())
}

/// The numbers of used GPUs, counted from the plans.
fn check_gpus(cluster: &Cluster, state: &State<'_>) -> Result<(), TestCaseError> {
    let mut used = vec![0; cluster.servers().len()];
    for running in state.running().values() {
        for server in &running.plan.ranks {
            used[server.at()] += 1;
        }
    }
    for server in cluster.server_indices() {
        prop_assert!(used[server.at()] <= cluster.server(server).gpus);
        prop_assert_eq!(used[server.at()] + state.free(server), cluster.server(server).gpus);
    }
    Ok(())
}

/// A name of each kind of rule.
fn any_rules() -> impl Strategy<Value = Vec<&'static str>> {
    let kinds: [&[&str]; 4] = [
        &["fifo", "knapsack", "shortest"],
        &["beside", "apart", "shared"],
        &["by-count", "by-flows"],
        &["any-racks", "racks-first"],
    ];
    kinds.map(|kind| prop::sample::select(kind.to_vec())).to_vec()
}

proptest! {
    #[test]
    fn plans_are_feasible(
        cluster in any_cluster(),
        batches in any_batches(),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 8),
        rules in any_rules(),
    ) {
        let rules = Rules::parse(&rules.join(":")).expect("one of each kind");
        for name in NAMES.iter().chain(&["netpack-plain", "netpack-printed"]) {
            let mut policy = create(name, rules, Collective::default()).expect("a policy with any rules");
            let mut state = State::new(&cluster);
            let mut next = 0;
            for (batch, end) in batches.iter().zip(&ends) {
                let jobs: Vec<_> = batch.iter().map(|&(gpus, value)| {
                    next += 1;
                    Job { value, ..job(next, gpus) }
                }).collect();
                let started = place(&mut *policy, &mut state, &waiting(jobs));
                for id in &started {
                    check(&cluster, &state.running()[id])?;
                    let rate_gbps = state.network().rate_gbps(*id);
                    prop_assert!(rate_gbps > 0.0, "{name}: job {} would never end", id.0);
                }
                check_gpus(&cluster, &state)?;
                let running: Vec<_> = state.running().keys().copied().collect();
                if !running.is_empty() {
                    state.end(*end.get(&running));
                }
            }
        }
    }

    #[test]
    fn simulations_break_no_rule(
        cluster in any_cluster(),
        jobs in prop::collection::vec((0.0..300.0, 1_u32..16, 1.0..2000.0, 1e7..1e10), 1..25),
    ) {
        let jobs: Vec<_> = (0..)
            .zip(jobs)
            .map(|(id, (submit_s, gpus, iterations, gradient_bytes))| {
                Job { submit_s, iterations, gradient_bytes, ..job(id, gpus) }
            })
            .collect();
        for name in NAMES.iter().chain(&["netpack-printed", "titan:apart", "slurm:by-flows"]) {
            let mut policy = by_name(name).expect("a name that is listed");
            let mut validator = Validator::new(&cluster, true);
            let outcome =
                simulate(&cluster, &jobs, &mut *policy, &Options::default(), &mut validator);
            prop_assert_eq!(validator.violations(), &[], "{}", name);
            prop_assert_eq!(outcome.records.len() + outcome.unfinished.len(), jobs.len());
            for (job, reason) in &outcome.unfinished {
                prop_assert_ne!(*reason, Reason::Stalled, "{}: job {}", name, job.id.0);
            }
        }
    }

    #[test]
    fn a_connected_cluster_is_filled_by_jobs_that_fit(
        gpus in prop::collection::vec(1_u32..20, 1..30),
    ) {
        let cluster = Cluster::uniform(&tributary_cluster::Shape {
            racks: 3,
            servers_per_rack: 3,
            ..Default::default()
        });
        for name in NAMES {
            let mut policy = by_name(name).expect("a name that is listed");
            let mut state = State::new(&cluster);
            let jobs = (0..).zip(&gpus).map(|(id, &gpus)| job(id, gpus));
            let started = place(&mut *policy, &mut state, &waiting(jobs));
            let free = state.free_total();
            let passed_over = (0..).zip(&gpus).filter(|(id, _)| !started.iter().any(|job| job.0 == *id));
            for (id, &gpus) in passed_over {
                prop_assert!(gpus > free, "{name}: job {id} of {gpus} GPUs waits while {free} are free");
            }
        }
    }
}
