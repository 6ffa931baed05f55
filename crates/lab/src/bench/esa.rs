//! ESA and ATP: jobs that share a pool which is too small for them (figure 7 of ESA's paper).
//!
//! Jobs of two workers, each worker on a host of its own, two hosts for the parameter servers of
//! the odd and the even jobs, one switch. Aggregation throughput is the bytes of sums that a worker
//! of a job receives, divided by its time in all-reduce; that of a run is the mean over its jobs.
//! ATP and ESA take turns with the same seed, in alternating order, so that the machine's other
//! load affects both.

use anyhow::{Context, Result};
use serde::Serialize;

use super::runs::{
    Measured, Output, Setting, WORKERS, in_network, line, once, ratio, throughput, throughput_chart,
};
use crate::bench::Args;
use crate::figures::Chart;
use tributary_base::decimal_size;
use tributary_model::Protocol;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::table;

/// Number of jobs while the tensor size varies.
const JOBS: u32 = 4;

pub(super) fn run(args: &Args) -> Result<()> {
    let output = Output::open(args)?;
    let mut sweeps = Vec::new();
    for &fabric in &args.fabric {
        for sweep in [Sweep::over_sizes(args, fabric)?, Sweep::over_jobs(args, fabric)?] {
            println!("\n{}\n{}", sweep.title, sweep.table());
            output.draw(&format!("esa-{}.svg", sweep.name), &sweep.chart())?;
            sweeps.push(sweep);
        }
    }
    output.write(&sweeps)
}

/// Measurements along one axis.
#[derive(Debug, Serialize)]
struct Sweep {
    /// Name in files.
    name: String,
    /// Title for people.
    title: String,
    /// The varying quantity.
    axis: &'static str,
    points: Vec<Point>,
}

/// ATP and ESA in one setting.
#[derive(Debug, Serialize)]
struct Point {
    /// The value of the varying quantity.
    label: String,
    setting: Setting,
    /// By seed.
    atp: Vec<Measured>,
    /// By seed.
    esa: Vec<Measured>,
}

impl Sweep {
    /// Four jobs, tensors of several sizes.
    fn over_sizes(args: &Args, fabric: Fabric) -> Result<Self> {
        let sizes: &[u64] = if args.quick {
            &[64 << 10, 256 << 10, 1 << 20]
        } else {
            &[64 << 10, 256 << 10, 1 << 20, 4 << 20]
        };
        let settings = sizes.iter().map(|&size| (decimal_size(size), setting(args, JOBS, size)));
        Self::measure(args, fabric, "size of a tensor", "sizes", settings.collect())
    }

    /// Tensors of one size, one to eight jobs.
    fn over_jobs(args: &Args, fabric: Fabric) -> Result<Self> {
        let (counts, size): (&[u32], u64) = if args.quick {
            (&[1, 2, 4, 8], 256 << 10)
        } else {
            (&[1, 2, 3, 4, 5, 6, 7, 8], 4 << 20)
        };
        let settings = counts.iter().map(|&jobs| (jobs.to_string(), setting(args, jobs, size)));
        Self::measure(args, fabric, "jobs", "jobs", settings.collect())
    }

    fn measure(
        args: &Args,
        fabric: Fabric,
        axis: &'static str,
        name: &str,
        settings: Vec<(String, Setting)>,
    ) -> Result<Self> {
        let what = match (axis, settings.first()) {
            ("jobs", Some((_, first))) => {
                format!("tensors of {}", decimal_size(first.tensor_bytes))
            }
            _ => format!("{JOBS} jobs"),
        };
        let fabric_name = format!("{fabric:?}").to_lowercase();
        let title = format!(
            "ESA and ATP, {what}, {WORKERS} workers each, {} aggregators, jitter up to {} µs, \
             {fabric_name} fabric",
            args.pool, args.jitter
        );
        let mut points = Vec::new();
        for (label, setting) in settings {
            let (mut atp, mut esa) = (Vec::new(), Vec::new());
            for seed in 1..=u64::from(args.repeat) {
                let turns = if seed % 2 == 1 {
                    [Protocol::Atp, Protocol::Esa]
                } else {
                    [Protocol::Esa, Protocol::Atp]
                };
                for protocol in turns {
                    eprint!("\r{fabric_name}, {axis} {label}, {protocol:?}, seed {seed}          ");
                    let report = once(fabric, &setting.job_file(protocol, seed))
                        .with_context(|| format!("{protocol:?}, {axis} {label}, seed {seed}"))?;
                    let runs = if protocol == Protocol::Atp { &mut atp } else { &mut esa };
                    runs.push(Measured::new(seed, protocol == turns[0], &report));
                }
            }
            points.push(Point { label, setting, atp, esa });
        }
        eprintln!();
        Ok(Self { name: format!("{name}-{fabric_name}"), title, axis, points })
    }

    fn chart(&self) -> Chart {
        let settings = self.points.iter().map(|point| point.label.clone()).collect();
        let lines = vec![
            line(Protocol::Esa, self.points.iter().map(|point| throughput(&point.esa))),
            line(Protocol::Atp, self.points.iter().map(|point| throughput(&point.atp))),
        ];
        throughput_chart(&self.title, self.axis, settings, lines)
    }

    fn table(&self) -> comfy_table::Table {
        let mut rows = table(&[
            self.axis,
            "ATP MB/s",
            "ESA MB/s",
            "ESA / ATP",
            "ATP in network",
            "ESA in network",
        ]);
        for point in &self.points {
            let percent = |measured: &[Measured]| format!("{} %", in_network(measured).text(1));
            rows.add_row([
                point.label.clone(),
                throughput(&point.atp).text(1),
                throughput(&point.esa).text(1),
                ratio(&point.esa, &point.atp).text(2),
                percent(&point.atp),
                percent(&point.esa),
            ]);
        }
        rows
    }
}

fn setting(args: &Args, jobs: u32, tensor_bytes: u64) -> Setting {
    Setting { jobs, tensor_bytes, pool: args.pool, jitter_us: args.jitter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_runs_of_a_seed_differ_only_in_the_protocol() {
        let setting = Setting { jobs: 8, tensor_bytes: 4 << 20, pool: 256, jitter_us: 300 };
        let read = |protocol| {
            let text = setting.job_file(protocol, 7);
            tributary_model::jobfile::parse(&text, "f").unwrap_or_else(|error| panic!("{error}"))
        };
        let (mut atp, esa) = (read(Protocol::Atp), read(Protocol::Esa));
        assert_eq!((atp.network.protocol, esa.network.protocol), (Protocol::Atp, Protocol::Esa));
        assert_eq!((atp.jobs.len(), atp.network.topology.hosts.len()), (8, 18));
        assert!(atp.jobs.iter().all(|job| job.jitter.as_micros() == 300));
        // Each worker has a host of its own.
        let mut hosts: Vec<_> = atp.jobs.iter().flat_map(|job| job.workers.clone()).collect();
        hosts.sort();
        hosts.dedup();
        assert_eq!(hosts.len(), 16);
        atp.network.protocol = Protocol::Esa;
        for job in &mut atp.jobs {
            job.protocol = Protocol::Esa;
            job.agent = job.ps;
        }
        assert_eq!(atp, esa);
    }
}
