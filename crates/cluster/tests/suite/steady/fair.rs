//! A certificate of max-min fairness: a job's rate can only rise at the cost of a job with a rate
//! that is no higher.

use std::collections::BTreeMap;

use tributary_cluster::{Cluster, JobId, RackIndex, ServerIndex, State, SteadyNetwork};

use crate::steady::hierarchy::{Hierarchy, Link};
use crate::steady::random::{Random, Size, start};
use crate::steady::{near, seeds};

/// A job that uses the network, and its reported rates.
pub(crate) struct Given {
    pub(crate) job: JobId,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) rate_gbps: f64,
    /// The rate that each switch aggregates.
    pub(crate) shares_gbps: BTreeMap<RackIndex, f64>,
}

pub(crate) fn given(state: &State<'_>, network: &SteadyNetwork) -> Vec<Given> {
    let sends = |(&job, running): (&JobId, &tributary_cluster::Running)| {
        let hierarchy = Hierarchy::of(state.cluster(), &running.plan)?;
        let share = |&rack: &RackIndex| (rack, network.aggregated_gbps(job, rack));
        let shares_gbps = hierarchy.aggregating.iter().map(share).collect();
        Some(Given { job, rate_gbps: network.rate_gbps(job), hierarchy, shares_gbps })
    };
    state.running().iter().filter_map(sends).collect()
}

/// The load of each link, and the rate that each switch aggregates.
fn totals(cluster: &Cluster, all: &[Given]) -> (BTreeMap<Link, f64>, BTreeMap<RackIndex, f64>) {
    let (mut loads, mut aggregated) = (BTreeMap::new(), BTreeMap::new());
    for one in all {
        let own = one.hierarchy.loads_gbps(cluster, one.rate_gbps, &one.shares_gbps);
        own.into_iter().for_each(|(link, load)| *loads.entry(link).or_insert(0.0) += load);
        for (&rack, &share) in &one.shares_gbps {
            *aggregated.entry(rack).or_insert(0.0) += share;
        }
    }
    (loads, aggregated)
}

/// The remaining capacity is the unused one, and flows are those of table 1.
fn adds_up(seed: u64, cluster: &Cluster, network: &SteadyNetwork, all: &[Given]) {
    let (loads, aggregated) = totals(cluster, all);
    let mut flows = BTreeMap::new();
    for one in all {
        let whole = |(_, share): &(&RackIndex, &f64)| near(**share, one.rate_gbps);
        let summing: Vec<_> = one.shares_gbps.iter().filter(whole).map(|(rack, _)| *rack).collect();
        for (link, more) in one.hierarchy.flows(cluster, &summing) {
            *flows.entry(link).or_insert(0) += more;
        }
    }
    let left = |link: Link| link.gbps(cluster) - loads.get(&link).copied().unwrap_or(0.0);
    let flows = |link: Link| flows.get(&link).copied().unwrap_or(0);
    for server in cluster.server_indices() {
        let link = Link::Server(server.0);
        assert!(left(link) > -1e-6, "seed {seed}: {link:?} has too much");
        assert!(near(left(link), network.available_gbps(server)), "seed {seed}: {link:?}");
        assert_eq!(flows(link), network.flows(server), "seed {seed}: {link:?}");
    }
    for rack in (0..cluster.racks().len() as u32).map(RackIndex) {
        let link = Link::Rack(rack.0);
        assert!(left(link) > -1e-6, "seed {seed}: {link:?} has too much");
        assert!(near(left(link), network.rack_available_gbps(rack)), "seed {seed}: {link:?}");
        assert_eq!(flows(link), network.rack_flows(rack), "seed {seed}: {link:?}");
        let memory = cluster.rack(rack).pat_gbps - aggregated.get(&rack).unwrap_or(&0.0);
        assert!(memory > -1e-6, "seed {seed}: {rack:?} aggregates too much");
        assert!(near(memory, network.pat_left_gbps(rack)), "seed {seed}: {rack:?}");
    }
    for pod in 0..cluster.pods().len() as u32 {
        assert!(left(Link::Pod(pod)) > -1e-6, "seed {seed}: pod {pod} has too much");
    }
}

/// Every job crosses a full link on which no job has a higher rate. If a switch does not aggregate
/// a job completely, the switch has no memory left, and no job has a larger share of it.
fn is_fair(seed: u64, cluster: &Cluster, all: &[Given]) {
    let (loads, aggregated) = totals(cluster, all);
    for one in all {
        let own = one.hierarchy.flows(cluster, &[]);
        let bottleneck = own.keys().find(|link| {
            let on_it = |other: &&Given| other.hierarchy.flows(cluster, &[]).contains_key(link);
            let most = all.iter().filter(on_it).map(|other| other.rate_gbps).fold(0.0, f64::max);
            near(loads[link], link.gbps(cluster)) && near(most, one.rate_gbps)
        });
        assert!(bottleneck.is_some(), "seed {seed}: {:?} could have more", one.job);
        for (rack, &share) in &one.shares_gbps {
            if near(share, one.rate_gbps) {
                continue;
            }
            let others = all.iter().filter_map(|other| other.shares_gbps.get(rack));
            let most = others.copied().fold(0.0, f64::max);
            let pat_gbps = cluster.rack(*rack).pat_gbps;
            assert!(near(aggregated[rack], pat_gbps), "seed {seed}: {rack:?} has memory left");
            assert!(near(share, most), "seed {seed}: {:?} has less memory than others", one.job);
        }
    }
}

#[test]
fn every_job_has_a_bottleneck() {
    let sizes = [(1, 3), (2, 2), (4, 4), (6, 10)];
    for seed in seeds(400) {
        let (racks, servers_per_rack) = sizes[seed as usize % sizes.len()];
        let mut random = Random::new(seed, Size { racks, servers_per_rack });
        let cluster = random.cluster();
        let mut state = State::new(&cluster);
        start(&mut random, &mut state, 30, 8);
        let (view, network) = state.with_network();
        let all = given(view, network);
        adds_up(seed, &cluster, network, &all);
        is_fair(seed, &cluster, &all);
        let idle = |server: &ServerIndex| network.flows(*server) == 0;
        for server in cluster.server_indices().filter(idle) {
            assert_eq!(network.available_gbps(server), cluster.server(server).link_gbps);
        }
    }
}
