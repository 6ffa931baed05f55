//! Prints the results of NetPack's interpretations and of its baselines on generated traces: `cargo
//! run --release -p tributary-cluster --example readings [JOBS [SEEDS]]`.
//!
//! The cluster has sixty-four servers in four racks. Submissions are compressed in time until
//! computing alone would keep the GPUs busy nine tenths of the time.

use std::process::ExitCode;

use tributary_cluster::metrics::Metric;
use tributary_cluster::model::Profiles;
use tributary_cluster::placement::netpack::{
    Epsilon, HotSpot, Oversubscribed, Plain, Readings, Surplus,
};
use tributary_cluster::placement::{NAMES, by_name};
use tributary_cluster::simulate::{Options, simulate};
use tributary_cluster::trace::Generator;
use tributary_cluster::{Cluster, Job, Policy, Shape};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let jobs = arguments.next().unwrap_or(Ok(400));
    let seeds = arguments.next().unwrap_or(Ok(3));
    let (Ok(jobs), Ok(seeds)) = (jobs, seeds) else {
        eprintln!("usage: readings [JOBS [SEEDS]]");
        return ExitCode::from(2);
    };
    println!(
        "oversubscription  PAT, Gb/s  policy                              mean JCT, s  mean run, s"
    );
    for (oversubscription, pat_gbps) in [(1.0, 1000.0), (1.0, 100.0), (4.0, 1000.0), (20.0, 1000.0)]
    {
        let cluster =
            Cluster::uniform(&Shape { racks: 4, oversubscription, pat_gbps, ..Shape::default() });
        for (name, make) in policies() {
            let outcomes: Vec<_> = (0..u64::from(seeds))
                .map(|seed| {
                    let jobs = trace(jobs as usize, seed, cluster.gpus());
                    simulate(&cluster, &jobs, &mut *make(), &Options::default(), &mut ())
                })
                .collect();
            let mean = |metric: Metric| {
                outcomes.iter().map(|outcome| metric.of(outcome)).sum::<f64>() / f64::from(seeds)
            };
            let (jct_s, run_s) = (mean(Metric::AverageJct), mean(Metric::AverageRun));
            println!("{oversubscription:14}:1 {pat_gbps:10}  {name:34} {jct_s:12.0} {run_s:12.0}");
        }
    }
    ExitCode::SUCCESS
}

type Make = Box<dyn Fn() -> Box<dyn Policy>>;

fn policies() -> Vec<(String, Make)> {
    let read = Readings::default();
    let readings = [
        ("netpack", read),
        ("netpack, ε as printed", Readings { epsilon: Epsilon::Elsewhere, ..read }),
        ("netpack, sign as printed", Readings { hot_spot: HotSpot::Subtracted, ..read }),
        ("netpack, least surplus", Readings { surplus: Surplus::Least, ..read }),
        ("netpack, penalty alone", Readings { oversubscribed: Oversubscribed::Penalty, ..read }),
        ("netpack, all as printed", Readings::printed()),
    ];
    let readings = readings.into_iter().map(|(name, readings)| {
        let make = move || Box::new(Plain { readings, ..Plain::default() }) as Box<dyn Policy>;
        (name.to_owned(), Box::new(make) as Make)
    });
    let others = NAMES[1..].iter().flat_map(|name| {
        ["", ":knapsack"].map(|rules| {
            let name = format!("{name}{rules}");
            let policy = name.clone();
            let make = move || by_name(&policy).expect("a name that is listed");
            (name, Box::new(make) as Make)
        })
    });
    readings.chain(others).collect()
}

/// The jobs of a generated trace that fit on the cluster, submitted in less time.
fn trace(jobs: usize, seed: u64, gpus: u32) -> Vec<Job> {
    let trace = Generator::trace(jobs, seed);
    let mut jobs = trace.jobs(Profiles::netpack().all(), seed);
    jobs.retain(|job| job.gpus <= gpus);
    let busy_s: f64 = jobs.iter().map(|job| job.ideal_s() * f64::from(job.gpus)).sum();
    let last_s = jobs.iter().map(|job| job.submit_s).fold(1.0, f64::max);
    let scale = busy_s / f64::from(gpus) / 0.9 / last_s;
    for job in &mut jobs {
        job.submit_s *= scale;
    }
    jobs
}
