//! NetPack's step 4: for which jobs a switch aggregates if it cannot aggregate for all.

use tributary_cluster::placement::NetPack;
use tributary_cluster::{Cluster, JobId, RackIndex, Shape, State};

use crate::common::{job, place, waiting};

/// One rack of `servers` servers with one GPU each.
fn rack(servers: u32, pat_gbps: f64) -> Cluster {
    Cluster::uniform(&Shape {
        racks: 1,
        servers_per_rack: servers,
        gpus_per_server: 1,
        pat_gbps,
        ..Shape::default()
    })
}

/// Places jobs with these numbers of GPUs, and returns the racks that aggregate for each.
fn enabled<'c>(cluster: &'c Cluster, gpus: &[u32]) -> (State<'c>, Vec<Vec<RackIndex>>) {
    let mut state = State::new(cluster);
    let jobs = (0..).zip(gpus).map(|(id, &gpus)| job(id, gpus));
    place(&mut NetPack::default(), &mut state, &waiting(jobs));
    let racks = state.running().values().map(|running| running.plan.aggregating.clone()).collect();
    (state, racks)
}

#[test]
fn all_jobs_are_aggregated_where_memory_suffices() {
    let (_, racks) = enabled(&rack(12, 1000.0), &[2, 6]);
    assert_eq!(racks, [[RackIndex(0)], [RackIndex(0)]]);
}

#[test]
fn the_job_with_more_flows_to_aggregate_is_served_first() {
    // Sharing the switch evenly, they send at 56 and 27 Gb/s. Six flows of 27 are more than two of
    // 56, and use up the switch.
    let cluster = rack(12, 25.0);
    let (mut state, racks) = enabled(&cluster, &[2, 6]);
    assert_eq!(racks, [vec![], vec![RackIndex(0)]]);
    // Two flows of 50 for the first; 25 aggregated and six flows of 75/6 for the other.
    assert!((state.network().rate_gbps(JobId(0)) - 50.0).abs() < 1e-6);
    assert!((state.network().rate_gbps(JobId(1)) - 37.5).abs() < 1e-6);
}

#[test]
fn memory_is_used_by_rate_not_by_number_of_jobs() {
    // Sharing the switch evenly, three jobs send at 58 Gb/s, and two jobs use up 110 Gb/s. Of 130,
    // at 62 each, some is left for the third.
    let served = |pat_gbps| {
        let (_, racks) = enabled(&rack(12, pat_gbps), &[3, 3, 3]);
        racks.iter().filter(|racks| !racks.is_empty()).count()
    };
    assert_eq!((served(110.0), served(130.0)), (2, 3));
}

#[test]
fn jobs_of_earlier_rounds_keep_their_memory() {
    let cluster = rack(12, 80.0);
    let (mut state, racks) = enabled(&cluster, &[2]);
    assert_eq!(racks, [[RackIndex(0)]]);
    place(&mut NetPack::default(), &mut state, &waiting([job(7, 6)]));
    assert_eq!(state.running()[&JobId(0)].plan.aggregating, [RackIndex(0)]);
}
