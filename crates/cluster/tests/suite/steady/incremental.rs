//! [`State::network`], which is updated incrementally, equals algorithm 1 from scratch.

use tributary_cluster::{Cluster, RackIndex, State, SteadyNetwork};

use crate::steady::random::{Random, Size, job};
use crate::steady::{near, seeds};

/// All numbers of a network for a cluster and its jobs, in a fixed order.
fn numbers(state: &State<'_>, network: &SteadyNetwork) -> Vec<(String, f64)> {
    let cluster = state.cluster();
    let mut all = Vec::new();
    let racks = || (0..cluster.racks().len() as u32).map(RackIndex);
    for &job in state.running().keys() {
        all.push((format!("rate of {job:?}"), network.rate_gbps(job)));
        for rack in racks() {
            let name = format!("what {rack:?} aggregates of {job:?}");
            all.push((name, network.aggregated_gbps(job, rack)));
        }
    }
    for server in cluster.server_indices() {
        all.push((format!("left at {server:?}"), network.available_gbps(server)));
        all.push((format!("flows at {server:?}"), network.flows(server).into()));
    }
    for rack in racks() {
        all.push((format!("left above {rack:?}"), network.rack_available_gbps(rack)));
        all.push((format!("flows above {rack:?}"), network.rack_flows(rack).into()));
        all.push((format!("memory left in {rack:?}"), network.pat_left_gbps(rack)));
    }
    all
}

/// The same state with all jobs started at once.
fn anew<'c>(cluster: &'c Cluster, state: &State<'_>) -> State<'c> {
    let mut other = State::new(cluster);
    for running in state.running().values() {
        other.start(&running.job, running.plan.clone()).expect("it fits");
    }
    other
}

fn check(seed: u64, cluster: &Cluster, state: &mut State<'_>) {
    let (view, network) = state.with_network();
    let fast = numbers(view, network);
    let plans = view.running().iter().map(|(job, running)| (*job, &running.plan));
    let plain = numbers(view, &SteadyNetwork::plain(cluster, plans));
    for ((name, fast), (_, plain)) in fast.iter().zip(&plain) {
        assert!(near(*fast, *plain), "seed {seed}: {name}: {fast}, by algorithm 1 {plain}");
    }
    // The order in which the jobs started does not change a single bit.
    let mut other = anew(cluster, view);
    let other = numbers(view, other.network());
    for ((name, kept), (_, anew)) in fast.iter().zip(&other) {
        let same = kept.to_bits() == anew.to_bits();
        assert!(same, "seed {seed}: {name}: {kept}, all at once {anew}");
    }
}

/// Jobs start, end and change their switches, one at a time or several at once.
fn come_and_go(seed: u64, size: Size, steps: u32) {
    let mut random = Random::new(seed, size);
    let cluster = random.cluster();
    let mut state = State::new(&cluster);
    let mut rates = std::collections::BTreeMap::new();
    for id in 0..steps {
        match random.upto(10) {
            1..=2 => {
                if let Some(job) = random.one(&state) {
                    state.end(job);
                }
            }
            3 => {
                if let Some(job) = random.one(&state) {
                    let racks = random.aggregating(&state.running()[&job].plan, &cluster);
                    state.aggregate_at(job, racks);
                }
            }
            _ => {
                let most = random.upto(10);
                if let Some(plan) = random.plan(&state, most) {
                    state.start(&job(id, plan.ranks.len() as u32), plan).expect("it fits");
                }
            }
        }
        if random.chance(0.7) {
            check(seed, &cluster, &mut state);
        }
        if random.chance(0.3) {
            tell(seed, &mut state, &mut rates);
        }
    }
    check(seed, &cluster, &mut state);
}

/// An observer that only receives changed rates knows all rates.
fn tell(
    seed: u64,
    state: &mut State<'_>,
    rates: &mut std::collections::BTreeMap<tributary_cluster::JobId, f64>,
) {
    let changed = state.take_rerated();
    let (view, network) = state.with_network();
    for job in changed {
        rates.insert(job, network.rate_gbps(job));
    }
    rates.retain(|job, _| view.running().contains_key(job));
    for &job in view.running().keys() {
        let rate = network.rate_gbps(job);
        let heard = rates.get(&job).copied().unwrap_or(f64::INFINITY);
        assert_eq!(heard, rate, "seed {seed}: rate of {job:?}");
    }
    assert!(state.take_rerated().is_empty(), "seed {seed}");
}

#[test]
fn in_small_clusters() {
    for seed in seeds(400) {
        come_and_go(seed, Size { racks: 4, servers_per_rack: 3 }, 30);
    }
}

#[test]
fn in_larger_clusters() {
    for seed in seeds(60) {
        come_and_go(seed, Size { racks: 8, servers_per_rack: 12 }, 60);
    }
}
