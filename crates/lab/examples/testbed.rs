//! A small trace on NetPack's testbed, run three ways: every packet of every iteration, sums timed
//! by packets, and the steady state.
//!
//! ```sh
//! cargo run --release -p tributary-lab --example testbed -- [JOBS] [ITERATIONS] [PARTS] [PAT]
//! ```
//!
//! Models are NetPack's with times and gradients divided by PARTS.

use std::time::Instant;

use tributary_cluster::model::Profiles;
use tributary_cluster::placement::by_name;
use tributary_cluster::simulate::{Options, Outcome, SteadyState, Sums, simulate_by};
use tributary_cluster::{Cluster, Job, JobId, Shape};
use tributary_lab::studies::testbed::{Error, Packets, replay};

fn main() -> Result<(), Error> {
    let mut given = std::env::args().skip(1).map(|word| word.parse::<f64>().expect("a number"));
    let mut next = |default| given.next().unwrap_or(default);
    let (jobs, iterations, parts, pat_gbps) =
        (next(12.0) as u32, next(20.0), next(100.0), next(1000.0));
    let cluster = Cluster::uniform(&Shape {
        racks: 1,
        servers_per_rack: 5,
        gpus_per_server: 2,
        pat_gbps,
        ..Shape::default()
    });
    let profiles = Profiles::netpack();
    let jobs: Vec<Job> = (0..jobs)
        .map(|number| {
            let profile = &profiles.all()[number as usize % profiles.all().len()];
            Job {
                id: JobId(number),
                submit_s: f64::from(number) * iterations * 0.04 / parts,
                gpus: 3 + number * 7 % 4,
                iterations: iterations * (1.0 + f64::from(number % 3)),
                compute_s: profile.compute_s / parts,
                gradient_bytes: profile.gradient_bytes() / parts,
                value: 1.0,
            }
        })
        .collect();
    let period_s = 0.5 / parts;
    let options = Options { period_s, ..Options::default() };
    let policy = || by_name("netpack").expect("it is one of ours");
    let start = Instant::now();
    let full = replay(&cluster, &jobs, &mut *policy(), period_s)?;
    let full_took = start.elapsed();
    let start = Instant::now();
    let packets = Packets::of(&cluster)?;
    let by_packets = run(&cluster, &jobs, &options, &mut &packets)?;
    let packets_took = start.elapsed();
    let Ok(steady) = run(&cluster, &jobs, &options, &mut SteadyState);
    println!(
        "every packet: {full_took:.1?}; sums by packets: {packets_took:.1?}, {:?}",
        packets.effort()
    );
    println!(
        "{:>4} {:>5} {:>12} {:>8} {:>8}  servers",
        "job", "GPUs", "packets, ms", "sums", "flows"
    );
    let mut means = [0.0; 3];
    for one in &full {
        let number = one.job.0 as usize;
        let jct_s = |outcome: &Outcome| outcome.records[number].jct_s();
        let all = [one.end_s - jobs[number].submit_s, jct_s(&by_packets), jct_s(&steady)];
        println!(
            "{number:>4} {:>5} {:>12.3} {:>8.3} {:>8.3}  {:?} {:?}",
            jobs[number].gpus,
            all[0] * 1e3,
            all[1] / all[0],
            all[2] / all[0],
            one.plan.workers().iter().map(|(server, _)| server.0).collect::<Vec<_>>(),
            one.plan.ps.map(|server| server.0),
        );
        means.iter_mut().zip(all).for_each(|(mean, jct_s)| *mean += jct_s / full.len() as f64);
    }
    println!(
        "mean       {:>12.3} {:>8.3} {:>8.3}",
        means[0] * 1e3,
        means[1] / means[0],
        means[2] / means[0]
    );
    Ok(())
}

fn run<S: Sums>(
    cluster: &Cluster,
    jobs: &[Job],
    options: &Options,
    sums: &mut S,
) -> Result<Outcome, S::Error> {
    let mut policy = by_name("netpack").expect("it is one of ours");
    simulate_by(cluster, jobs, &mut *policy, options, &mut (), sums)
}
