//! Jobs on NetPack's testbed: sums timed by packets against every packet of every iteration.

use tributary_cluster::model::Profiles;
use tributary_cluster::placement::by_name;
use tributary_cluster::simulate::{Options, Outcome, SteadyState, simulate_by};
use tributary_cluster::{Cluster, Job, JobId, Shape};
use tributary_lab::studies::testbed::{Error, Packets, Unfit, replay};

/// Divisor of the models' times and gradients, so that all their iterations can be run.
const PARTS: f64 = 100.0;

fn testbed(pat_gbps: f64) -> Cluster {
    let (racks, servers_per_rack, gpus_per_server) = (1, 5, 2);
    let shape = Shape { racks, servers_per_rack, gpus_per_server, pat_gbps, ..Shape::default() };
    Cluster::uniform(&shape)
}

/// Jobs of several models that arrive while others run, on two or three servers each.
fn jobs() -> Vec<Job> {
    let profiles = Profiles::netpack();
    let job = |number: u32| {
        let profile = &profiles.all()[number as usize];
        Job {
            id: JobId(number),
            submit_s: f64::from(number) * 2e-3,
            gpus: 3 + number * 7 % 4,
            iterations: 6.0,
            compute_s: profile.compute_s / PARTS,
            gradient_bytes: profile.gradient_bytes() / PARTS,
            value: 1.0,
        }
    };
    (0..5).map(job).collect()
}

/// Mean completion time with sums timed by packets relative to that with every packet, and the
/// greatest deviation of a job. Plans must be equal, otherwise the ratio would be arbitrary.
fn compared(pat_gbps: f64) -> (f64, f64) {
    let (cluster, jobs) = (testbed(pat_gbps), jobs());
    let options = Options { period_s: 5e-3, ..Options::default() };
    let policy = || by_name("netpack").expect("it is one of ours");
    let full = replay(&cluster, &jobs, &mut *policy(), options.period_s).unwrap();
    let packets = Packets::of(&cluster).unwrap();
    let sums = &mut &packets;
    let shortcut: Outcome =
        simulate_by(&cluster, &jobs, &mut *policy(), &options, &mut (), sums).unwrap();
    assert_eq!((full.len(), shortcut.records.len()), (jobs.len(), jobs.len()));
    let (mut sum_s, mut greatest) = ([0.0, 0.0], 0.0_f64);
    for (full, record) in full.iter().zip(&shortcut.records) {
        assert_eq!((&full.plan, full.start_s), (&record.plan, record.start_s), "{:?}", full.job);
        let jct_s = full.end_s - record.job.submit_s;
        sum_s[0] += jct_s;
        sum_s[1] += record.jct_s();
        greatest = greatest.max((record.jct_s() / jct_s - 1.0).abs());
    }
    (sum_s[1] / sum_s[0], greatest)
}

#[test]
fn sums_timed_by_packets_match_those_with_every_packet() {
    let (mean, greatest) = compared(1_000.0);
    assert!((mean - 1.0).abs() < 0.04 && greatest < 0.1, "{mean} {greatest}");
}

#[test]
fn they_also_match_without_memory() {
    let (mean, greatest) = compared(0.0);
    assert!((mean - 1.0).abs() < 0.04 && greatest < 0.1, "{mean} {greatest}");
}

/// Measurements depend only on the jobs, and not on earlier requests.
#[test]
fn answers_are_repeatable() {
    let (cluster, jobs) = (testbed(1_000.0), jobs());
    let packets = Packets::of(&cluster).unwrap();
    let options = Options { period_s: 5e-3, ..Options::default() };
    let run = |packets: &Packets| {
        let mut policy = by_name("gpu-balance").expect("it is one of ours");
        let sums = &mut { packets };
        simulate_by(&cluster, &jobs[..3], &mut *policy, &options, &mut (), sums).unwrap()
    };
    let first = run(&packets);
    let effort = packets.effort();
    assert!(effort.sets > 0 && effort.hops > 0 && effort.greatest_error < 0.05, "{effort:?}");
    assert_eq!(run(&packets), first);
    assert_eq!(packets.effort(), effort, "nothing is measured twice");
    assert_eq!(run(&Packets::of(&cluster).unwrap()), first);
    let Ok(steady) = simulate_by(
        &cluster,
        &jobs[..3],
        &mut *by_name("gpu-balance").expect("it is one of ours"),
        &options,
        &mut (),
        &mut SteadyState,
    );
    assert_ne!(steady, first, "packets are not fluid");
}

#[test]
fn other_clusters_are_refused() {
    let racks = Packets::of(&Cluster::uniform(&Shape::default())).unwrap_err();
    assert!(matches!(racks, Error::Unfit(Unfit::Racks(16))), "{racks}");
    let none = Shape { racks: 1, servers_per_rack: 0, ..Shape::default() };
    let none = Packets::of(&Cluster::uniform(&none)).unwrap_err();
    assert!(matches!(none, Error::Unfit(Unfit::Servers(0))), "{none}");
    let dead = Shape { racks: 1, link_gbps: 0.0, ..Shape::default() };
    let dead = Packets::of(&Cluster::uniform(&dead)).unwrap_err();
    assert!(matches!(dead, Error::Unfit(Unfit::Links)), "{dead}");
}
