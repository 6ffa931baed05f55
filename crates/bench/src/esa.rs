//! ESA and ATP: jobs that share a pool which is too small for them (figure 7 of ESA's paper).
//!
//! Jobs of two workers, each worker on a host of its own, two hosts for the parameter servers of
//! the odd and the even jobs, one switch. Aggregation throughput is the bytes of sums that a worker
//! of a job receives, divided by its time in all-reduce; that of a run is the mean over its jobs.
//! ATP and ESA take turns with the same seed, in alternating order, so that the machine's other
//! load affects both.

use anyhow::{Context, Result};
use serde::Serialize;

use super::Spread;
use super::plot::{self, Chart, Line};
use super::runs::{Measured, Output, once, throughput};
use crate::{Args, Program};
use tributary_job::fabric::Kind as Fabric;
use tributary_job::report::{bytes, table};

/// Workers per job.
const WORKERS: u32 = 2;
/// Tensors per run, one after the other.
const TENSORS: u32 = 3;
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

#[derive(Clone, Copy, Debug, Serialize)]
struct Setting {
    jobs: u32,
    tensor_bytes: u64,
    pool: u32,
    jitter_us: u32,
}

impl Sweep {
    /// Four jobs, tensors of several sizes.
    fn over_sizes(args: &Args, fabric: Fabric) -> Result<Self> {
        let sizes: &[u64] = if args.quick {
            &[64 << 10, 256 << 10, 1 << 20]
        } else {
            &[64 << 10, 256 << 10, 1 << 20, 4 << 20]
        };
        let settings = sizes.iter().map(|&size| (bytes(size), setting(args, JOBS, size)));
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
            ("jobs", Some((_, first))) => format!("tensors of {}", bytes(first.tensor_bytes)),
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
                    [Program::Atp, Program::Esa]
                } else {
                    [Program::Esa, Program::Atp]
                };
                for program in turns {
                    eprint!("\r{fabric_name}, {axis} {label}, {program:?}, seed {seed}          ");
                    let report = once(fabric, &job_file(setting, program, seed))
                        .with_context(|| format!("{program:?}, {axis} {label}, seed {seed}"))?;
                    let measured = Measured::new(seed, program == turns[0], &report);
                    match program {
                        Program::Atp => atp.push(measured),
                        Program::Esa => esa.push(measured),
                    }
                }
            }
            points.push(Point { label, setting, atp, esa });
        }
        eprintln!();
        Ok(Self { name: format!("{name}-{fabric_name}"), title, axis, points })
    }

    fn chart(&self) -> Chart<'_> {
        let line = |name, color, of: fn(&Point) -> &[Measured]| Line {
            name,
            color,
            spreads: self.points.iter().map(|point| throughput(of(point))).collect(),
        };
        Chart {
            title: &self.title,
            axis: self.axis,
            labels: self.points.iter().map(|point| point.label.as_str()).collect(),
            lines: vec![
                line("ESA", plot::ESA, |point| &point.esa),
                line("ATP", plot::ATP, |point| &point.atp),
            ],
        }
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
            let percent = |measured: &[Measured]| {
                let shares = measured.iter().map(|run| 100.0 * run.mean_in_network());
                format!("{} %", Spread::of(shares.collect()).text(1))
            };
            rows.add_row([
                point.label.clone(),
                throughput(&point.atp).text(1),
                throughput(&point.esa).text(1),
                point.ratio().text(2),
                percent(&point.atp),
                percent(&point.esa),
            ]);
        }
        rows
    }
}

impl Point {
    /// ESA's throughput divided by ATP's with the same seed.
    fn ratio(&self) -> Spread {
        let pairs = self.esa.iter().zip(&self.atp);
        Spread::of(pairs.map(|(esa, atp)| esa.mean() / atp.mean()).collect())
    }
}

fn setting(args: &Args, jobs: u32, tensor_bytes: u64) -> Setting {
    Setting { jobs, tensor_bytes, pool: args.pool, jitter_us: args.jitter }
}

/// The job file of a run.
fn job_file(setting: Setting, program: Program, seed: u64) -> String {
    let Setting { jobs, tensor_bytes, pool, jitter_us } = setting;
    let protocol = match program {
        Program::Atp => "atp",
        Program::Esa => "esa",
    };
    let job = format!(
        "[[job]]\nworkers = {WORKERS}\njitter = \"{jitter_us}us\"\n\
         workload = {{ kind = \"random\", tensors = {TENSORS}, elements = {} }}\n",
        tensor_bytes / 4
    );
    format!(
        "seed = {seed}\nprotocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = {}\n\
         ps_hosts = {}\n[switch]\npool = {pool}\n{}",
        WORKERS * jobs,
        jobs.min(2),
        job.repeat(jobs as usize)
    )
}

#[cfg(test)]
mod tests {
    use tributary_jobfile::Protocol;

    use super::*;

    #[test]
    fn the_two_runs_of_a_seed_differ_only_in_the_protocol() {
        let setting = Setting { jobs: 8, tensor_bytes: 4 << 20, pool: 256, jitter_us: 300 };
        let read = |program| {
            let text = job_file(setting, program, 7);
            tributary_jobfile::parse(&text, "f").unwrap_or_else(|error| panic!("{error}"))
        };
        let (mut atp, esa) = (read(Program::Atp), read(Program::Esa));
        assert_eq!((atp.protocol(), esa.protocol()), (Protocol::Atp, Protocol::Esa));
        assert_eq!((atp.jobs.len(), atp.topology.hosts.len()), (8, 18));
        assert!(atp.jobs.iter().all(|job| job.jitter.as_micros() == 300));
        // Each worker has a host of its own.
        let mut hosts: Vec<_> = atp.jobs.iter().flat_map(|job| job.workers.clone()).collect();
        hosts.sort();
        hosts.dedup();
        assert_eq!(hosts.len(), 16);
        for job in &mut atp.jobs {
            job.protocol = Protocol::Esa;
            job.agent = job.ps;
        }
        assert_eq!(atp, esa);
    }

    #[test]
    fn ratios_pair_the_runs_of_a_seed() {
        let run = |seed, throughput: &[f64]| Measured {
            seed,
            first: true,
            throughput: throughput.to_vec(),
            in_network: vec![Some(0.5), None],
            kept_bytes: 0,
            memory_bytes: 0,
        };
        let setting = Setting { jobs: 2, tensor_bytes: 4, pool: 1, jitter_us: 0 };
        let point = Point {
            label: String::new(),
            setting,
            atp: vec![run(1, &[1.0, 3.0]), run(2, &[10.0, 10.0]), run(3, &[1.0, 1.0])],
            esa: vec![run(1, &[3.0, 3.0]), run(2, &[20.0, 30.0]), run(3, &[1.0, 1.0])],
        };
        let ratio = point.ratio();
        assert_eq!((ratio.least, ratio.median, ratio.greatest), (1.0, 1.5, 2.5));
        assert_eq!(throughput(&point.atp).median, 2.0);
        assert!((point.atp[0].mean_in_network() - 0.75).abs() < 1e-12);
    }
}
