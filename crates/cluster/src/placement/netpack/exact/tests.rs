use crate::{Cluster, JobId, Rack, RackIndex, Server, ServerIndex};
use proptest::prelude::*;

use super::exhaustive::settled_cost_s;
use super::*;

/// Racks with the given servers (GPUs, Gb/s) and memory. Their uplinks are never limiting.
fn cluster(racks: &[(&[(u32, f64)], f64)]) -> Cluster {
    let mut servers = Vec::new();
    let mut all = Vec::new();
    for (&(of_rack, pat_gbps), rack) in racks.iter().zip((0..).map(RackIndex)) {
        let first = servers.len() as u32;
        servers.extend(of_rack.iter().map(|&(gpus, link_gbps)| Server { rack, gpus, link_gbps }));
        let uplink_gbps = 1e5;
        all.push(Rack { servers: first..servers.len() as u32, pod: None, uplink_gbps, pat_gbps });
    }
    Cluster::new(servers, all, Vec::new())
}

/// Jobs with these numbers of GPUs and gigabits.
fn jobs(jobs: &[(u32, f64)]) -> Vec<Job> {
    (0..)
        .zip(jobs)
        .map(|(id, &(gpus, gigabits))| Job {
            id: JobId(id),
            submit_s: 0.0,
            gpus,
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: gigabits / 8.0 * 1e9,
            value: 1.0,
        })
        .collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1e-9)
}

#[test]
fn a_job_that_fits_on_one_server_costs_nothing() {
    let cluster = cluster(&[(&[(1, 100.0), (2, 100.0)], 0.0)]);
    let instance = Instance { cluster, jobs: jobs(&[(2, 10.0)]) };
    let found = optimum(&instance, Memory::OnTheWay).unwrap();
    assert_eq!((found.cost_s, found.plans[0].ranks.len()), (0.0, 2));
    assert_eq!(found.plans[0].ps, None);
}

#[test]
fn the_parameter_server_goes_where_no_worker_is() {
    let cluster = cluster(&[(&[(1, 100.0), (1, 100.0), (0, 100.0)], 1000.0)]);
    let instance = Instance { cluster, jobs: jobs(&[(2, 10.0)]) };
    let found = optimum(&instance, Memory::OnTheWay).unwrap();
    assert_eq!(found.plans[0].ps, Some(ServerIndex(2)));
    assert!(close(found.cost_s, 0.1), "10 Gb at 100 Gb/s: {}", found.cost_s);
}

#[test]
fn unaggregated_flows_share_the_parameter_servers_link() {
    // 30 of the 100 Gb/s are aggregated, the other 70 are two flows of 35.
    let cluster = cluster(&[(&[(1, 100.0), (1, 100.0), (0, 100.0)], 30.0)]);
    let instance = Instance { cluster, jobs: jobs(&[(2, 10.0)]) };
    let found = optimum(&instance, Memory::OnTheWay).unwrap();
    assert!(close(found.rates_gbps[0], 65.0), "{found:?}");
}

#[test]
fn as_printed_memory_of_a_rack_that_no_gradient_passes_counts() {
    let cluster = cluster(&[(&[(1, 100.0), (1, 100.0), (0, 100.0)], 0.0), (&[(0, 0.0)], 1000.0)]);
    let instance = Instance { cluster, jobs: jobs(&[(2, 10.0)]) };
    let printed = optimum(&instance, Memory::Anywhere).unwrap();
    assert!(close(printed.cost_s, 0.1), "as if all were aggregated: {printed:?}");
    let found = optimum(&instance, Memory::OnTheWay).unwrap();
    assert!(close(found.cost_s, 0.2), "two flows on the parameter server's link: {found:?}");
    assert!(close(found.cost_s, exhaustive(&instance).unwrap().cost_s));
}

#[test]
fn unsolvable_cases_have_a_reason() {
    let too_many = Instance { cluster: cluster(&[(&[(1, 1.0)], 0.0)]), jobs: jobs(&[(2, 1.0)]) };
    let error = optimum(&too_many, Memory::OnTheWay).unwrap_err();
    assert_eq!(error, Unsolved::TooMany { wanted: 2, there: 1 });
    assert_eq!(exhaustive(&too_many).unwrap_err(), error);
    let cut =
        Instance { cluster: cluster(&[(&[(1, 0.0), (1, 1.0)], 0.0)]), jobs: jobs(&[(2, 1.0)]) };
    assert_eq!(optimum(&cut, Memory::OnTheWay).unwrap_err(), Unsolved::Disconnected);
    assert_eq!(exhaustive(&cut).unwrap_err(), Unsolved::Disconnected);
}

fn any_instance() -> impl Strategy<Value = Instance> {
    let server = (0_u32..3, prop_oneof![3 => Just(100.0), 1 => Just(40.0)]);
    let pat = prop_oneof![Just(1000.0), Just(60.0), Just(25.0), Just(0.0)];
    let rack = (prop::collection::vec(server, 1..3), pat);
    let job = (1_u32..4, prop_oneof![Just(1.0), Just(3.0), Just(8.0)]);
    (prop::collection::vec(rack, 1..3), prop::collection::vec(job, 1..3)).prop_map(
        |(racks, wanted)| {
            let racks: Vec<_> = racks.iter().map(|(servers, pat)| (&servers[..], *pat)).collect();
            Instance { cluster: cluster(&racks), jobs: jobs(&wanted) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_program_equals_the_exhaustive_search(instance in any_instance()) {
        match (optimum(&instance, Memory::OnTheWay), exhaustive(&instance)) {
            (Ok(found), Ok(best)) => {
                prop_assert!(close(found.cost_s, best.cost_s), "{found:?} and {best:?}");
                prop_assert!(found.bound_s <= found.cost_s * (1.0 + 1e-9));
            }
            (found, best) => prop_assert_eq!(found.unwrap_err(), best.unwrap_err()),
        }
    }

    #[test]
    fn no_placement_beats_the_bound_in_the_steady_state(instance in any_instance()) {
        let Ok(found) = optimum(&instance, Memory::OnTheWay) else { return Ok(()) };
        let fair = fairest(&instance).unwrap();
        prop_assert!(fair.cost_s >= found.bound_s * (1.0 - 1e-6), "{fair:?} and {found:?}");
        prop_assert!(close(settled_cost_s(&instance, &fair.plans), fair.cost_s));
    }
}
