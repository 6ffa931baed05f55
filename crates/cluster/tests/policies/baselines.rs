//! Preferences of NetPack's baselines.

use tributary_cluster::placement::{
    Comb, FlowBalance, GpuBalance, LeastFragmentation, NAMES, Optimus, Tetris, by_name,
};
use tributary_cluster::{
    Cluster, Job, JobId, Plan, Policy, Rack, RackIndex, Server, ServerIndex, Shape, State,
};

use crate::common::{job, place, waiting};

/// Two racks, the second with less memory, of three servers of four GPUs each.
fn cluster() -> Cluster {
    let server = |rack| Server { rack: RackIndex(rack), gpus: 4, link_gbps: 100.0 };
    let servers = (0..6).map(|at| server(at / 3)).collect();
    let rack = |first, pat_gbps| Rack {
        servers: first..first + 3,
        pod: None,
        uplink_gbps: 300.0,
        pat_gbps,
    };
    Cluster::new(servers, vec![rack(0, 500.0), rack(3, 1000.0)], Vec::new())
}

/// A state in which servers 0 to 5 have 3, 2, 4, 1, 4 and 3 free GPUs, and the links of 0, 1 and 3
/// carry flows of a job on 0 and 1 with its parameter server on 3.
fn state(cluster: &Cluster) -> State<'_> {
    let mut state = State::new(cluster);
    let on = |server, gpus| Plan::on_one(ServerIndex(server), gpus);
    let shares = [(ServerIndex(0), 1), (ServerIndex(1), 1)];
    state.start(&job(100, 2), Plan::spread(cluster, &shares, ServerIndex(3))).unwrap();
    state.start(&job(101, 1), on(1, 1)).unwrap();
    state.start(&job(102, 3), on(3, 3)).unwrap();
    state.start(&job(103, 1), on(5, 1)).unwrap();
    state
}

/// The workers and the parameter server that a policy assigns to a job of `gpus` GPUs.
fn placed(mut policy: impl Policy, gpus: u32) -> (Vec<(u32, u32)>, Option<u32>) {
    let cluster = cluster();
    let mut state = state(&cluster);
    place(&mut policy, &mut state, &waiting([job(0, gpus)]));
    let plan = &state.running()[&JobId(0)].plan;
    let workers = plan.workers().into_iter().map(|(server, gpus)| (server.0, gpus)).collect();
    (workers, plan.ps.map(|server| server.0))
}

#[test]
fn gpu_balance_takes_the_emptiest_servers() {
    assert_eq!(placed(GpuBalance::default(), 2), (vec![(2, 2)], None));
    assert_eq!(placed(GpuBalance::default(), 9), (vec![(0, 1), (2, 4), (4, 4)], Some(5)));
}

#[test]
fn flow_balance_takes_servers_without_flows() {
    assert_eq!(placed(FlowBalance::default(), 3), (vec![(2, 3)], None));
    assert_eq!(placed(FlowBalance::default(), 6), (vec![(2, 4), (4, 2)], Some(5)));
    // The parameter server's link also counts: 0, 1 and 3 have one flow each.
    assert_eq!(placed(FlowBalance::default(), 13).0, [(0, 2), (2, 4), (4, 4), (5, 3)]);
}

#[test]
fn least_fragmentation_uses_servers_up() {
    assert_eq!(placed(LeastFragmentation::default(), 2), (vec![(1, 2)], None));
    assert_eq!(
        placed(LeastFragmentation::default(), 6),
        (vec![(0, 3), (1, 2), (3, 1)], Some(5)),
        "idle servers stay idle"
    );
}

#[test]
fn optimus_deals_workers_out_evenly_and_the_parameter_server_with_them() {
    assert_eq!(placed(Optimus::default(), 4), (vec![(2, 4)], None));
    assert_eq!(placed(Optimus::default(), 6), (vec![(2, 3), (4, 3)], Some(2)));
    assert_eq!(placed(Optimus::default(), 10), (vec![(0, 3), (2, 4), (4, 3)], Some(0)));
}

#[test]
fn tetris_aligns_gpus_and_bandwidth() {
    assert_eq!(placed(Tetris::default(), 4), (vec![(2, 4)], None));
    // Server 0 has as many free GPUs as 5, but no remaining bandwidth.
    assert_eq!(placed(Tetris::default(), 9), (vec![(2, 4), (4, 4), (5, 1)], Some(0)));
}

#[test]
fn comb_looks_at_memory_and_bandwidth_where_gpus_tie() {
    // Servers 2 and 4 tie in GPUs; the switch of 4 has more memory left.
    assert_eq!(placed(Comb::default(), 2), (vec![(4, 2)], None));
    // Servers 0 and 5 tie as well.
    assert_eq!(placed(Comb::default(), 9), (vec![(2, 4), (4, 4), (5, 1)], Some(0)));
}

#[test]
fn a_parameter_server_may_be_kept_apart_from_workers_or_not() {
    let beside = |name: &str| {
        let mut policy = by_name(name).unwrap();
        let cluster = cluster();
        let mut state = state(&cluster);
        place(&mut *policy, &mut state, &waiting([job(0, 9)]));
        let plan = &state.running()[&JobId(0)].plan;
        let ps = plan.ps.unwrap();
        plan.workers().iter().any(|worker| worker.0 == ps)
    };
    for name in NAMES {
        assert!(!beside(&format!("{name}:apart")), "{name}");
    }
    for name in ["gpu-balance", "least-fragmentation", "optimus", "comb"] {
        assert!(beside(&format!("{name}:shared")), "{name}");
    }
}

#[test]
fn on_the_last_servers_it_shares_one_all_the_same() {
    let cluster = cluster();
    for name in NAMES {
        let mut state = State::new(&cluster);
        let mut policy = by_name(&format!("{name}:apart")).unwrap();
        let placed = place(&mut *policy, &mut state, &waiting([job(0, 24)]));
        assert_eq!(placed, [JobId(0)], "{name}");
    }
}

#[test]
fn later_jobs_pass_a_job_that_does_not_fit() {
    let cluster = cluster();
    for (queue, started) in [("fifo", vec![0, 2]), ("knapsack", vec![1, 2])] {
        let mut state = State::new(&cluster);
        let jobs = waiting([job(0, 20), job(1, 16), job(2, 4)]);
        let placed =
            place(&mut *by_name(&format!("gpu-balance:{queue}")).unwrap(), &mut state, &jobs);
        let mut placed: Vec<_> = placed.iter().map(|job| job.0).collect();
        placed.sort_unstable();
        assert_eq!(placed, started, "{queue}");
    }
}

/// Where the parameter servers of three jobs go, each of which fills two idle servers. All other
/// servers are full but two, which have one free GPU each, before and after.
fn servers_of(policy: &str) -> Vec<u32> {
    let shape = Shape { racks: 1, servers_per_rack: 10, ..Shape::default() };
    let cluster = Cluster::uniform(&shape);
    let mut state = State::new(&cluster);
    for server in 0..10 {
        let gpus = if server % 5 == 0 { 3 } else { 4 };
        let plan = Plan::on_one(ServerIndex(server), gpus);
        state.start(&job(100 + server, gpus), plan).unwrap();
    }
    let mut policy = by_name(policy).unwrap();
    let of_pair = |first: u32| {
        state.end(JobId(100 + first));
        state.end(JobId(101 + first));
        place(&mut *policy, &mut state, &waiting([job(first, 8)]));
        state.running()[&JobId(first)].plan.ps.unwrap().0
    };
    [1, 3, 6].into_iter().map(of_pair).collect()
}

#[test]
fn parameter_servers_are_not_all_put_onto_one_server() {
    let by_rule = NAMES.iter().map(|name| format!("{name}:apart:by-count"));
    let own = ["gpu-balance", "comb", "gpu-balance:shared", "tetris"].map(str::to_owned);
    for name in by_rule.chain(own) {
        let mut servers = servers_of(&name);
        servers.sort_unstable();
        servers.dedup();
        assert_eq!(servers.len(), 3, "{name}: {servers:?}");
    }
}

#[test]
fn with_racks_first_a_job_stays_in_one_if_uplinks_are_slow() {
    let racks_of = |policy: &str, oversubscription: f64| {
        let shape = Shape { racks: 2, servers_per_rack: 3, oversubscription, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let mut state = State::new(&cluster);
        // Flow-balance and others prefer servers of both racks.
        for server in [0, 3] {
            state.start(&job(100 + server, 2), Plan::on_one(ServerIndex(server), 2)).unwrap();
        }
        place(&mut *by_name(policy).unwrap(), &mut state, &waiting([job(0, 10)]));
        state.running()[&JobId(0)].plan.racks(&cluster).len()
    };
    for name in NAMES {
        let (any, first) = (format!("{name}:any-racks"), format!("{name}:racks-first"));
        assert_eq!(racks_of(&first, 4.0), 1, "{name}");
        if *name != "netpack" && *name != "netpack+" && *name != "least-fragmentation" {
            assert_eq!(racks_of(&first, 1.0), racks_of(&any, 1.0), "{name}");
        }
    }
    assert!(["gpu-balance", "optimus", "flow-balance"].iter().any(|name| racks_of(name, 4.0) == 2));
}

#[test]
fn the_shortest_job_comes_first() {
    let cluster = cluster();
    let mut state = State::new(&cluster);
    let long = Job { iterations: 100.0, ..job(0, 20) };
    let jobs = waiting([long, Job { iterations: 1.0, ..job(1, 16) }]);
    let placed = place(&mut *by_name("netpack:shortest").unwrap(), &mut state, &jobs);
    assert_eq!(placed, [JobId(1)]);
}

#[test]
fn names_are_those_of_the_policies() {
    for name in NAMES {
        assert_eq!(by_name(name).unwrap().name(), *name);
    }
    assert!(by_name("netpacks").is_none());
}
