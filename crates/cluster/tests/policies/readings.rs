//! The effect of each reading of NetPack's algorithm on plans: docs/evaluation/netpack.md.

use tributary_cluster::placement::Sharing;
use tributary_cluster::placement::netpack::{
    Epsilon, Fits, HotSpot, Oversubscribed, Plain, Readings, Servers, Surplus,
};
use tributary_cluster::{Cluster, JobId, Plan, Rack, RackIndex, Server, ServerIndex, State};

use crate::common::{job, place, waiting};

/// Servers (GPUs, Gb/s), uplink and memory of a rack.
type Shape<'a> = (&'a [(u32, f64)], f64, f64);

fn cluster(racks: &[Shape<'_>]) -> Cluster {
    let mut servers = Vec::new();
    let mut all = Vec::new();
    for (&(of_rack, uplink_gbps, pat_gbps), rack) in racks.iter().zip((0..).map(RackIndex)) {
        let first = servers.len() as u32;
        servers.extend(of_rack.iter().map(|&(gpus, link_gbps)| Server { rack, gpus, link_gbps }));
        all.push(Rack { servers: first..servers.len() as u32, pod: None, uplink_gbps, pat_gbps });
    }
    Cluster::new(servers, all, Vec::new())
}

/// Places job 0 of `gpus` GPUs beside the running jobs, and returns its plan and rate.
fn placed(mut state: State<'_>, gpus: u32, readings: Readings) -> (Plan, f64) {
    place(&mut Plain { readings, ..Plain::default() }, &mut state, &waiting([job(0, gpus)]));
    let rate_gbps = state.network().rate_gbps(JobId(0));
    (state.running()[&JobId(0)].plan.clone(), rate_gbps)
}

fn servers(plan: &Plan) -> Vec<(u32, u32)> {
    plan.workers().into_iter().map(|(server, gpus)| (server.0, gpus)).collect()
}

/// Starts a job with a given plan.
fn run(state: &mut State<'_>, id: u32, shares: &[(u32, u32)], ps: Option<u32>) {
    let shares: Vec<_> = shares.iter().map(|&(server, gpus)| (ServerIndex(server), gpus)).collect();
    let gpus = shares.iter().map(|(_, gpus)| gpus).sum();
    let plan = match ps {
        Some(ps) => Plan::spread(state.cluster(), &shares, ServerIndex(ps)),
        None => Plan::on_one(shares[0].0, gpus),
    };
    state.start(&job(id, gpus), plan).unwrap();
}

#[test]
fn line_4_as_printed_spreads_a_job_that_just_fits_on_one_server() {
    let cluster = cluster(&[(&[(2, 100.0), (1, 100.0), (1, 100.0), (0, 100.0)], 1e3, 1e3)]);
    let (plan, rate_gbps) = placed(State::new(&cluster), 2, Readings::default());
    assert_eq!((servers(&plan), rate_gbps), (vec![(0, 2)], f64::INFINITY));
    let printed = Readings { fits: Fits::WithRoom, ..Readings::default() };
    let (plan, rate_gbps) = placed(State::new(&cluster), 2, printed);
    assert_eq!((servers(&plan), rate_gbps), (vec![(1, 1), (2, 1)], 100.0));
}

#[test]
fn any_surplus_counts_a_server_whose_gpus_are_all_taken_back() {
    // Servers 1 and 2 have one flow of 20 Gb/s each.
    let servers_of = [(2, 100.0), (3, 100.0), (3, 100.0), (0, 20.0), (0, 100.0)];
    let cluster = cluster(&[(&servers_of, 1e3, 1e3)]);
    let mut state = State::new(&cluster);
    run(&mut state, 9, &[(1, 1), (2, 1)], Some(3));
    // Three servers are worth more than two, but the idle one, as the least loaded, gives back all
    // of its GPUs.
    let (plan, _) = placed(state.clone(), 4, Readings::default());
    assert_eq!(servers(&plan), [(1, 2), (2, 2)]);
    // Two servers suffice, and the idle one is worth more than the others.
    let least = Readings { surplus: Surplus::Least, ..Readings::default() };
    let (plan, _) = placed(state, 4, least);
    assert_eq!(servers(&plan), [(0, 2), (1, 2)]);
}

#[test]
fn epsilon_as_printed_has_the_parameter_server_share_a_workers_link() {
    let cluster = cluster(&[(&[(1, 100.0), (1, 100.0), (1, 100.0)], 1e3, 1e3)]);
    let read = Readings { surplus: Surplus::Least, ..Readings::default() };
    let (plan, rate_gbps) = placed(State::new(&cluster), 2, read);
    assert_eq!((plan.ps, rate_gbps), (Some(ServerIndex(2)), 100.0));
    let printed = Readings { epsilon: Epsilon::Elsewhere, ..read };
    let (plan, rate_gbps) = placed(State::new(&cluster), 2, printed);
    assert_eq!((plan.ps, rate_gbps), (Some(ServerIndex(0)), 50.0));
}

#[test]
fn the_sign_as_printed_seeks_hot_spots() {
    // Servers 2 and 3 could have the parameter server; 2 has two flows of 5 Gb/s each.
    let servers_of = [(1, 100.0), (1, 100.0), (0, 100.0), (0, 100.0), (1, 5.0), (1, 5.0)];
    let cluster = cluster(&[(&servers_of, 1e3, 0.0)]);
    let mut state = State::new(&cluster);
    run(&mut state, 9, &[(4, 1), (5, 1)], Some(2));
    let (plan, rate_gbps) = placed(state.clone(), 2, Readings::default());
    assert_eq!((plan.ps, rate_gbps), (Some(ServerIndex(3)), 50.0));
    let printed = Readings { hot_spot: HotSpot::Subtracted, ..Readings::default() };
    let (plan, rate_gbps) = placed(state, 2, printed);
    assert_eq!((plan.ps, rate_gbps), (Some(ServerIndex(2)), 45.0));
}

#[test]
fn the_penalty_alone_does_not_keep_a_job_in_its_rack() {
    // Rack 0 has room for the job; with rack 1 the job could have one server more.
    let cluster = cluster(&[
        (&[(2, 100.0), (2, 100.0), (0, 100.0)], 20.0, 1e3),
        (&[(1, 100.0), (1, 100.0)], 20.0, 1e3),
    ]);
    let (plan, rate_gbps) = placed(State::new(&cluster), 4, Readings::default());
    assert_eq!((servers(&plan), rate_gbps), (vec![(0, 2), (1, 2)], 100.0));
    let alone = Readings { oversubscribed: Oversubscribed::Penalty, ..Readings::default() };
    let (plan, rate_gbps) = placed(State::new(&cluster), 4, alone);
    assert_eq!((servers(&plan), rate_gbps), (vec![(1, 2), (3, 1), (4, 1)], 20.0));
}

#[test]
fn across_racks_the_busiest_uplink_counts() {
    // The job needs two racks. Its parameter server may go to server 1 or 3, in rack 0 or 1, or to
    // server 4 in rack 2, whose link is faster but whose uplink has two flows.
    let cluster = cluster(&[
        (&[(1, 100.0), (0, 100.0)], 60.0, 1e3),
        (&[(1, 100.0), (0, 100.0)], 60.0, 1e3),
        (&[(0, 110.0), (1, 100.0)], 60.0, 1e3),
        (&[(1, 1.0), (1, 1.0)], 60.0, 0.0),
    ]);
    let mut state = State::new(&cluster);
    run(&mut state, 8, &[(5, 1), (6, 1), (7, 1)], Some(5));
    let (plan, _) = placed(state, 2, Readings::default());
    assert_eq!(servers(&plan), [(0, 1), (2, 1)]);
    assert_eq!(plan.ps, Some(ServerIndex(1)), "not the faster server behind a busy uplink");
}

#[test]
fn gpus_beyond_the_jobs_are_released_on_the_least_loaded_server() {
    // Server 0 has one flow of 20 Gb/s.
    let servers_of = [(4, 100.0), (4, 20.0), (3, 100.0), (0, 100.0)];
    let cluster = cluster(&[(&servers_of, 1e3, 1e3)]);
    let mut state = State::new(&cluster);
    run(&mut state, 9, &[(0, 1), (1, 4)], Some(3));
    let (plan, _) = placed(state, 5, Readings::default());
    assert_eq!(servers(&plan), [(0, 3), (2, 2)]);
}

#[test]
fn a_job_on_one_server_takes_the_tightest_fit() {
    let cluster = cluster(&[(&[(4, 100.0), (3, 100.0), (2, 100.0)], 1e3, 1e3)]);
    let mut state = State::new(&cluster);
    run(&mut state, 9, &[(2, 1)], None);
    let (plan, _) = placed(state, 2, Readings::default());
    assert_eq!(servers(&plan), [(1, 2)]);
}

#[test]
fn reviewed_parameter_servers_leave_links_that_later_jobs_use() {
    // Two jobs of three GPUs take all GPUs. The last two servers can only have parameter servers.
    let servers_of: Vec<_> = [(1, 100.0); 6].into_iter().chain([(0, 60.0); 2]).collect();
    let cluster = cluster(&[(&servers_of, 1e3, 1e3)]);
    let placed = |readings| {
        let mut state = State::new(&cluster);
        let policy = &mut Plain { readings, ..Plain::default() };
        place(policy, &mut state, &waiting([job(0, 3), job(1, 3)]));
        let rates = [0, 1].map(|id| state.network().rate_gbps(JobId(id)).round());
        let plans = [0, 1].map(|id| state.running()[&JobId(id)].plan.clone());
        for server in cluster.server_indices() {
            let counted = plans.iter().filter(|plan| plan.ps == Some(server)).count();
            assert_eq!(state.parameter_servers(server), counted as u32, "{server:?}");
        }
        (plans.map(|plan| plan.ps.expect("it is distributed").0), rates)
    };
    let stay = Readings::default();
    let (servers, rates) = placed(stay);
    assert!(servers[0] < 6, "the fastest idle server, where job 1 then has a worker: {servers:?}");
    assert_eq!(rates, [50.0, 50.0]);
    let reviewed = Readings { servers: Servers::Reviewed, ..stay };
    assert_eq!(placed(reviewed), ([6, 7], [60.0, 60.0]));
    // Beside their workers, no server is better than another.
    let beside = |readings| Readings { sharing: Sharing::Required, ..readings };
    assert_eq!(placed(beside(reviewed)), placed(beside(stay)));
}
