//! Interpretations of algorithm 1 where its lines are ambiguous or cannot be meant literally: our
//! choice, and the outcome of the alternative. `docs/evaluation/steady-state.md` gives the reasons.

use tributary_cluster::aggregation::{RackSwitch, single};
use tributary_cluster::{
    Cluster, JobId, Plan, Rack, RackIndex, Server, ServerIndex, Shape, State, SteadyNetwork,
};

use crate::steady::near;
use crate::steady::random::job;

/// Racks of servers with one GPU each, links of 100 Gb/s and full-bisection uplinks.
fn cluster(racks: u32, servers_per_rack: u32, pat_gbps: f64) -> Cluster {
    Cluster::uniform(&Shape {
        racks,
        servers_per_rack,
        gpus_per_server: 1,
        pat_gbps,
        ..Shape::default()
    })
}

fn plan(cluster: &Cluster, workers: &[u32], ps: u32) -> Plan {
    let shares: Vec<_> = workers.iter().map(|&worker| (ServerIndex(worker), 1)).collect();
    Plan::spread(cluster, &shares, ServerIndex(ps))
}

/// Jobs 0, 1, … with these plans.
fn settled(cluster: &Cluster, plans: &[Plan]) -> SteadyNetwork {
    let mut state = State::new(cluster);
    for (id, plan) in (0..).zip(plans) {
        state.start(&job(id, plan.ranks.len() as u32), plan.clone()).expect("it fits");
    }
    state.network().clone()
}

fn with_link(cluster: &Cluster, server: usize, link_gbps: f64) -> Cluster {
    let mut servers = cluster.servers().to_vec();
    servers[server].link_gbps = link_gbps;
    Cluster::new(servers, cluster.racks().to_vec(), cluster.pods().to_vec())
}

/// Algorithm 1 to the letter, for links only: lines 6 and 23 test `l.bw = 0`. `jobs` lists the
/// links on which each job has a flow. It stops after `rounds`, because it may not terminate.
fn to_the_letter(links: &[f64], jobs: &[&[usize]], rounds: usize) -> (Vec<f64>, Vec<bool>) {
    let mut bandwidth = links.to_vec();
    let mut rate = vec![0.0; jobs.len()];
    let mut frozen = vec![false; jobs.len()];
    for _ in 0..rounds {
        let active: Vec<_> = (0..jobs.len()).filter(|&job| !frozen[job]).collect();
        let flows = |link| {
            let own = active.iter().flat_map(|&job| jobs[job]);
            own.filter(|&&other| other == link).count() as f64
        };
        let used = (0..links.len()).filter(|&link| bandwidth[link] != 0.0 && flows(link) > 0.0);
        let Some(share) = used.map(|link| bandwidth[link] / flows(link)).reduce(f64::min) else {
            break;
        };
        for (link, left) in bandwidth.iter_mut().enumerate() {
            *left -= share * flows(link);
        }
        for &job in &active {
            rate[job] += share;
        }
        for &job in &active {
            frozen[job] = jobs[job].iter().any(|&link| bandwidth[link] == 0.0);
        }
    }
    (rate, frozen)
}

/// Line 6 never considers a link without bandwidth. Here such a link is full from the start, and
/// the jobs that cross it get nothing. To the letter they get the rate of their other links, and
/// the link's capacity becomes negative.
#[test]
fn a_link_without_bandwidth() {
    let cluster = with_link(&cluster(1, 4, 1000.0), 0, 0.0);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 3), plan(&cluster, &[2], 2)]);
    assert_eq!(network.rate_gbps(JobId(0)), 0.0);
    assert_eq!(network.available_gbps(ServerIndex(1)), 100.0);
    let (rate, _) = to_the_letter(&[0.0, 100.0, 100.0], &[&[0, 1, 2]], 1);
    assert_eq!(rate, [100.0]);
}

/// Line 23 compares the rest of a link's capacity with zero. Rounding leaves a difference, and then
/// the round that filled the link freezes no job. Here the link with the least capacity per flow is
/// full, whatever is left.
#[test]
fn a_full_link_is_not_left_with_zero() {
    let links = |workers: usize| {
        let mut links = vec![100.0; workers];
        links.push(1.0);
        links
    };
    let jobs: Vec<Vec<usize>> = (0..49).map(|job| vec![job, 49]).collect();
    let jobs: Vec<&[usize]> = jobs.iter().map(Vec::as_slice).collect();
    let (_, frozen) = to_the_letter(&links(49), &jobs, 1);
    assert!(frozen.iter().all(|frozen| !frozen), "rounding leaves zero here");

    // 49 jobs, all of whose parameter servers are behind a link of 1 Gb/s.
    let cluster = with_link(&cluster(1, 99, 1e6), 98, 1.0);
    let plans: Vec<_> = (0..49).map(|job| plan(&cluster, &[2 * job, 2 * job + 1], 98)).collect();
    let network = settled(&cluster, &plans);
    assert!((0..49).all(|job| near(network.rate_gbps(JobId(job)), 1.0 / 49.0)));
    assert_eq!(network.available_gbps(ServerIndex(98)), 0.0);
}

/// Line 22 takes `bw × node.flows` off the link from a child to its parent, without saying whose
/// flows. They are the child's: with two workers and no memory, one flow leaves each worker, and
/// two leave the switch. With the parent's flows, each worker's link would lose two for each Gb/s.
#[test]
fn the_flows_of_the_child() {
    let cluster = with_link(&cluster(1, 3, 0.0), 2, 1000.0);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 2)]);
    assert_eq!(network.rate_gbps(JobId(0)), 100.0);
    assert_eq!([0, 2].map(|server| network.flows(ServerIndex(server))), [1, 2]);
    assert_eq!(network.available_gbps(ServerIndex(2)), 800.0);
}

/// Line 26 takes from a switch's memory, and lines 23 and 24 freeze no job for that. A job that
/// finds no memory continues, with as many flows as arrive.
#[test]
fn memory_freezes_nobody() {
    let cluster = cluster(1, 3, 40.0);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 2)]);
    // Of the link, 40 are used for the aggregated part; the other 60 are for two flows.
    assert_eq!(network.rate_gbps(JobId(0)), 70.0);
    assert_eq!(network.aggregated_gbps(JobId(0), RackIndex(0)), 40.0);
    assert_eq!(network.pat_left_gbps(RackIndex(0)), 0.0);
}

/// Line 5 counts jobs, not flows: two jobs share a switch's memory evenly, whatever their numbers
/// of workers.
#[test]
fn memory_is_shared_by_jobs() {
    let cluster = cluster(1, 12, 60.0);
    let few = plan(&cluster, &[0, 1], 10);
    let many = plan(&cluster, &[2, 3, 4, 5, 6, 7, 8, 9], 11);
    let network = settled(&cluster, &[few, many]);
    for job in [0, 1].map(JobId) {
        assert_eq!(network.aggregated_gbps(job, RackIndex(0)), 30.0);
    }
    assert_eq!(network.rate_gbps(JobId(0)), 65.0);
    assert_eq!(network.rate_gbps(JobId(1)), 38.75);
}

/// A switch with one worker of a job has nothing to sum, but by line 26 the job takes memory if the
/// switch is to aggregate. `Plan::spread` does not enable such switches.
#[test]
fn a_lone_worker_takes_memory_if_told() {
    let cluster = cluster(2, 3, 1000.0);
    let mut plan = plan(&cluster, &[0, 3], 4);
    assert_eq!(plan.aggregating, [RackIndex(1)]);
    assert_eq!(settled(&cluster, &[plan.clone()]).pat_left_gbps(RackIndex(0)), 1000.0);
    plan.aggregating.insert(0, RackIndex(0));
    let network = settled(&cluster, &[plan]);
    assert_eq!(network.rack_flows(RackIndex(0)), 1);
    assert_eq!(network.pat_left_gbps(RackIndex(0)), 900.0);
}

/// Equation 3 of table 3: if a server has a worker and the parameter server, its link carries both.
/// Step 3 of algorithm 2 has ε = 0 there, as if the parameter server had no flow; then the job
/// would have 100 Gb/s.
#[test]
fn a_parameter_server_beside_a_worker() {
    let cluster = cluster(1, 3, 1000.0);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 1)]);
    assert_eq!(network.rate_gbps(JobId(0)), 50.0);
    assert_eq!([0, 1].map(|server| network.flows(ServerIndex(server))), [1, 2]);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 2)]);
    assert_eq!(network.rate_gbps(JobId(0)), 100.0);
}

/// §3.2: links are undirected. Two jobs whose gradients cross an uplink in opposite directions
/// share it. With one link per direction they would not affect each other.
#[test]
fn links_are_undirected() {
    let shape = Shape { racks: 2, servers_per_rack: 4, gpus_per_server: 1, ..Shape::default() };
    let cluster = Cluster::uniform(&Shape { oversubscription: 4.0, ..shape });
    let there = plan(&cluster, &[0, 4], 5);
    let back = plan(&cluster, &[6, 1], 2);
    let alone = settled(&cluster, std::slice::from_ref(&there));
    assert_eq!(alone.rate_gbps(JobId(0)), 100.0);
    let network = settled(&cluster, &[there, back]);
    assert_eq!([0, 1].map(|job| network.rate_gbps(JobId(job))), [50.0, 50.0]);
}

/// In the text of §4.1 a switch aggregates only in part from C = A on, in table 1 only beyond. At
/// the boundary we follow the table: everything is aggregated.
#[test]
fn a_rate_that_is_just_the_memory() {
    let cluster = cluster(1, 3, 100.0);
    let network = settled(&cluster, &[plan(&cluster, &[0, 1], 2)]);
    assert_eq!(network.rate_gbps(JobId(0)), 100.0);
    assert_eq!(network.flows(ServerIndex(2)), 1);
}

/// Table 1 counts all traffic that the root does not aggregate once for each flow that arrives at
/// full rate, even the part that a leaf still aggregated. Algorithm 1 fills slice by slice, and so
/// do we.
#[test]
fn what_a_leaf_still_aggregated() {
    let racks = [(0, 0..1, 20.0), (1, 1..3, 60.0)].map(|(_, servers, pat_gbps)| Rack {
        servers,
        pod: None,
        uplink_gbps: 1e6,
        pat_gbps,
    });
    let server = |rack, link_gbps| Server { rack: RackIndex(rack), gpus: 1, link_gbps };
    let servers = vec![server(0, 1e6), server(1, 100.0), server(1, 100.0)];
    let cluster = Cluster::new(servers, racks.to_vec(), Vec::new());
    let mut plan = plan(&cluster, &[1, 2], 0);
    plan.aggregating = vec![RackIndex(0), RackIndex(1)];
    let network = settled(&cluster, &[plan]);
    // 20 as one flow, then 40 as one flow that the leaf aggregates, then 40 as two.
    assert!(near(1e6 - network.available_gbps(ServerIndex(0)), 140.0));
    let switch = |workers, pat_gbps| RackSwitch { workers, pat_gbps };
    assert_eq!(single(switch(0, 20.0), &[switch(2, 60.0)], 100.0).root.gbps(), 180.0);
}

/// Jobs that do not use the network have no rate and take no capacity.
#[test]
fn what_sends_nothing() {
    let cluster = cluster(1, 3, 1000.0);
    let alone = Plan { ps: Some(ServerIndex(2)), ..Plan::on_one(ServerIndex(0), 1) };
    let without = Plan { ps: None, ..plan(&cluster, &[1, 2], 0) };
    let network = settled(&cluster, &[alone, without]);
    assert_eq!([0, 1].map(|job| network.rate_gbps(JobId(job))), [f64::INFINITY; 2]);
    assert!(cluster.server_indices().all(|server| network.flows(server) == 0));
}
