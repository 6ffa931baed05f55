//! Policies for all-reduce: every plan is feasible, and whole traces finish.

use proptest::prelude::*;
use tributary_cluster::model::Profiles;
use tributary_cluster::placement::{ALL_REDUCE_NAMES, all_reduce};
use tributary_cluster::simulate::{Communication, Observer, Options, simulate};
use tributary_cluster::trace::Generator;
use tributary_cluster::validate::Validator;
use tributary_cluster::{Cluster, Collective, Job, JobId, Plan, Shape, State};

use crate::common::{any_batches, any_cluster, job, place, waiting};

proptest! {
    #[test]
    fn plans_are_feasible(
        cluster in any_cluster(),
        batches in any_batches(),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 8),
        kind in 0_usize..3,
    ) {
        for name in ALL_REDUCE_NAMES {
            let collective = Collective::ALL[kind];
            let mut policy = all_reduce(name, collective).expect("a name that is listed");
            let mut state = State::new(&cluster);
            let mut next = 0;
            for (batch, end) in batches.iter().zip(&ends) {
                let jobs = batch.iter().map(|&(gpus, value)| {
                    next += 1;
                    Job { value, ..job(next, gpus) }
                });
                let jobs: Vec<_> = jobs.collect();
                for id in place(&mut *policy, &mut state, &waiting(jobs)) {
                    let running = &state.running()[&id];
                    prop_assert_eq!(running.plan.ranks.len(), running.job.gpus as usize);
                    prop_assert_eq!(running.plan.ps, None, "all-reduce needs none");
                    prop_assert!(running.plan.aggregating.is_empty());
                    let time_s = collective.time_s(&cluster, 1e8, &running.plan.ranks);
                    prop_assert!(time_s.is_finite(), "{name}: job {} would never end", id.0);
                }
                let mut used = vec![0; cluster.servers().len()];
                for server in state.running().values().flat_map(|running| &running.plan.ranks) {
                    used[server.at()] += 1;
                }
                for server in cluster.server_indices() {
                    prop_assert!(used[server.at()] <= cluster.server(server).gpus);
                }
                let running: Vec<_> = state.running().keys().copied().collect();
                if !running.is_empty() {
                    state.end(*end.get(&running));
                }
            }
        }
    }
}

/// Two racks that cannot reach each other: the GPUs of one rack must suffice.
#[test]
fn no_job_spans_racks_without_an_uplink() {
    let shape = Shape { racks: 2, servers_per_rack: 2, gpus_per_server: 4, ..Shape::default() };
    let joined = Cluster::uniform(&shape);
    let mut racks = joined.racks().to_vec();
    racks.iter_mut().for_each(|rack| rack.uplink_gbps = 0.0);
    let cluster = Cluster::new(joined.servers().to_vec(), racks, Vec::new());
    for name in ALL_REDUCE_NAMES {
        let mut policy = all_reduce(name, Collective::Ring).expect("a name that is listed");
        let mut state = State::new(&cluster);
        for (server, taken) in cluster.server_indices().zip([1, 2, 1, 3]) {
            let busy = job(100 + server.0, taken);
            state.start(&busy, Plan::on_one(server, taken)).expect("the server is idle");
        }
        let started = place(&mut *policy, &mut state, &waiting([job(1, 6), job(2, 4)]));
        assert_eq!(started, [JobId(2)], "{name}: no rack has six");
        let plan = &state.running()[&JobId(2)].plan;
        assert_eq!(plan.racks(&cluster).len(), 1, "{name}");
    }
}

struct Watch<'c>(Validator<'c>);

impl Observer for Watch<'_> {
    fn started(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        self.0.start(now_s, job, plan);
    }

    fn ended(&mut self, now_s: f64, job: JobId) {
        self.0.end(now_s, job);
    }
}

#[test]
fn traces_run_to_their_end_without_a_violation() {
    let shape = Shape { racks: 4, servers_per_rack: 4, gpus_per_server: 8, ..Shape::default() };
    let cluster = Cluster::uniform(&shape);
    let options = Options {
        period_s: 0.0,
        communication: Communication::AllReduce(Collective::HalvingDoubling),
        ..Options::default()
    };
    for seed in 0..2 {
        let mut trace = Generator::trace(2000, seed);
        trace.submissions.retain(|submission| submission.gpus <= cluster.gpus());
        let jobs = trace.jobs(Profiles::known().all(), seed);
        for name in ALL_REDUCE_NAMES {
            let mut policy = all_reduce(name, Collective::HalvingDoubling).expect("it is listed");
            let mut watch = Watch(Validator::new(&cluster, false));
            let outcome = simulate(&cluster, &jobs, policy.as_mut(), &options, &mut watch);
            assert_eq!(watch.0.violations(), [], "{name}");
            assert_eq!(outcome.unfinished, [], "{name}");
            assert_eq!(outcome.records.len(), jobs.len(), "{name}");
        }
    }
}
