//! Why jobs are where they are.

use proptest::prelude::*;
use tributary_cluster::placement::by_name;
use tributary_cluster::placement::explain::{Distance, distance, share};
use tributary_cluster::{
    Cluster, JobId, Link, Plan, Round, ServerIndex, Shape, State, WEIGHED_MAX,
};

use crate::common::{any_batches, any_cluster, job, waiting};

proptest! {
    #[test]
    fn a_job_is_where_the_first_plan_that_was_weighed_puts_it(
        cluster in any_cluster(),
        batches in any_batches(),
        name in prop_oneof![Just("netpack"), Just("netpack:apart"), Just("netpack+")],
    ) {
        let mut state = State::new(&cluster);
        let mut policy = by_name(name).unwrap();
        let mut ids = 0..;
        for batch in batches {
            let jobs = batch.into_iter().zip(&mut ids).map(|((gpus, value), id)| {
                tributary_cluster::Job { value, ..job(id, gpus) }
            });
            let mut round = Round::new(&mut state);
            round.keep_weighed();
            policy.place(&mut round, &waiting(jobs));
            for job in round.started().to_vec() {
                let weighed = round.take_weighed(job);
                let plan = &round.running()[&job].plan;
                prop_assert_eq!(weighed.is_empty(), !plan.is_distributed());
                prop_assert!(weighed.len() <= WEIGHED_MAX);
                let best = weighed.first().map(|best| (best.plan.workers(), best.plan.ps));
                prop_assert_eq!(best, plan.is_distributed().then(|| (plan.workers(), plan.ps)));
                for pair in weighed.windows(2) {
                    prop_assert!(pair[0].worth_gbps >= pair[1].worth_gbps);
                }
                for plan in weighed {
                    let terms = plan.workers_gbps + plan.ps_gbps + plan.hot_spot_gbps;
                    prop_assert!((plan.worth_gbps - terms).abs() < 1e-6);
                }
            }
        }
    }
}

/// A rack of four servers of two GPUs, with links of 100 Gb/s.
fn rack() -> Cluster {
    let shape = Shape {
        racks: 1,
        servers_per_rack: 4,
        gpus_per_server: 2,
        pat_gbps: 80.0,
        ..Shape::default()
    };
    Cluster::uniform(&shape)
}

#[test]
fn a_jobs_share_of_links_and_switches_is_that_of_the_steady_state() {
    let cluster = rack();
    let mut state = State::new(&cluster);
    let workers = [(ServerIndex(0), 2), (ServerIndex(1), 2)];
    state.start(&job(1, 4), Plan::spread(&cluster, &workers, ServerIndex(2))).unwrap();
    let share = share(&mut state, JobId(1)).unwrap();
    // The switch adds up to 80 Gb/s; above that, both workers' packets go on to the parameter server.
    assert!((share.rate_gbps - 90.0).abs() < 1e-9, "{share:?}");
    let at = &share.switches[0];
    assert_eq!((at.aggregated_gbps, at.left_gbps, at.pat_gbps), (80.0, 0.0, 80.0));
    let links: Vec<_> = share.links.iter().map(|at| (at.link, at.flows, at.all_flows)).collect();
    let server = |at| Link::Server(ServerIndex(at));
    assert_eq!(links, [(server(0), 1, 1), (server(1), 1, 1), (server(2), 2, 2)]);
    assert!((share.links[0].left_gbps - 10.0).abs() < 1e-9, "{share:?}");
    assert_eq!(share.links[2].left_gbps, 0.0);
    assert!(tributary_cluster::placement::explain::share(&mut state, JobId(2)).is_none());
}

#[test]
fn the_best_place_is_found_where_there_are_few() {
    let cluster = rack();
    let mut state = State::new(&cluster);
    let workers = [(ServerIndex(0), 2), (ServerIndex(1), 2)];
    // Beside a worker, it takes as much of the link as that worker.
    state.start(&job(1, 4), Plan::spread(&cluster, &workers, ServerIndex(1))).unwrap();
    let Some(Distance::Known { cost_s, least_s, best }) = distance(&state, JobId(1)) else {
        panic!("there are few places");
    };
    assert!(
        least_s < cost_s && !best.ranks.contains(&best.ps.unwrap()),
        "{cost_s} {least_s} {best:?}"
    );
    // There, nothing is better.
    state.end(JobId(1));
    state.start(&job(1, 4), best.clone()).unwrap();
    let again = distance(&state, JobId(1));
    assert_eq!(again, Some(Distance::Known { cost_s: least_s, least_s, best }));
    assert_eq!(distance(&state, JobId(2)), None);

    let cluster = Cluster::uniform(&Shape::default());
    let mut state = State::new(&cluster);
    state
        .start(
            &job(1, 8),
            Plan::spread(&cluster, &[(ServerIndex(0), 4), (ServerIndex(1), 4)], ServerIndex(2)),
        )
        .unwrap();
    assert!(
        matches!(distance(&state, JobId(1)), Some(Distance::Skipped(places)) if places > 5_000)
    );
}
