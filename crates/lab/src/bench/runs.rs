//! Measured runs of job files, for `bench esa` and `bench protocols`.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use serde::Serialize;
use tributary_base::OutputFile;
use tributary_run::Options;

use super::Spread;
use crate::bench::Args;
use crate::figures::{self, Chart, Marks, Series};
use tributary_controller::targets::Kind as Target;
use tributary_model::Protocol;
use tributary_netio::device::Kind as Io;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::RunReport;

/// Workers per job.
pub(super) const WORKERS: u32 = 2;
/// Tensors per run, one after the other.
const TENSORS: u32 = 3;
/// Maximum number of jobs, and SwitchML's partitions.
pub(super) const MAX_JOBS: u32 = 8;

/// Equal jobs at one switch. With ATP and ESA, two hosts have the parameter servers of the odd and
/// the even jobs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) jobs: u32,
    pub(super) tensor_bytes: u64,
    pub(super) pool: u32,
    pub(super) jitter_us: u32,
}

impl Setting {
    /// The job file of a run.
    pub(super) fn job_file(&self, protocol: Protocol, seed: u64) -> String {
        let Self { jobs, tensor_bytes, pool, jitter_us } = *self;
        let only_if = |has: bool, line: String| if has { line } else { String::new() };
        let servers = only_if(protocol.needs_server(), format!("ps_hosts = {}\n", jobs.min(2)));
        let partitions = only_if(protocol.has_partitions(), format!("partitions = {MAX_JOBS}\n"));
        let job = format!(
            "[[job]]\nworkers = {WORKERS}\njitter = \"{jitter_us}us\"\n\
             workload = {{ kind = \"random\", tensors = {TENSORS}, elements = {} }}\n",
            tensor_bytes / 4
        );
        format!(
            "seed = {seed}\nprotocol = \"{}\"\n[topology]\nkind = \"star\"\nworkers = {}\n\
             {servers}[switch]\npool = {pool}\n{partitions}{}",
            protocol.name(),
            WORKERS * jobs,
            job.repeat(jobs as usize)
        )
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) seed: u64,
    /// Whether it was the first run of the seed.
    pub(super) first: bool,
    /// MB/s of each job.
    pub(super) throughput: Vec<f64>,
    /// Fraction of the additions that the switch performed, by job, if there were any.
    pub(super) in_network: Vec<Option<f64>>,
    /// Bytes of gradients of all jobs that entered the switch and did not leave it.
    pub(super) kept_bytes: u64,
    /// Bytes of the switch's memory that jobs can use: their segments, or the shared pool.
    pub(super) memory_bytes: u64,
}

impl Measured {
    pub(super) fn new(seed: u64, first: bool, report: &RunReport) -> Self {
        Self {
            seed,
            first,
            throughput: report.jobs.iter().map(|job| job.goodput_gbps * 1e3 / 8.0).collect(),
            in_network: report.jobs.iter().map(|job| job.summed_in_network).collect(),
            kept_bytes: report.jobs.iter().map(|job| job.kept_bytes).sum(),
            memory_bytes: memory(report),
        }
    }

    /// Mean of the jobs, in MB/s.
    fn mean(&self) -> f64 {
        mean(self.throughput.iter().copied())
    }

    fn mean_in_network(&self) -> f64 {
        mean(self.in_network.iter().map(|share| share.unwrap_or(1.0)))
    }
}

pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Bytes of the switches' memory that jobs can use.
fn memory(report: &RunReport) -> u64 {
    let segments = report.jobs.iter().filter_map(|job| job.segment.as_ref());
    let own: Vec<u64> =
        segments.map(|segment| segment.memory_bytes * segment.switches as u64).collect();
    if own.is_empty() {
        report.switches.iter().map(|switch| switch.memory_bytes).sum()
    } else {
        own.iter().sum()
    }
}

/// Place of a protocol's colour in charts.
pub(super) const fn color(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Esa => 0,
        Protocol::Atp => 1,
        Protocol::P4inc => 2,
        Protocol::SwitchMl => 4,
    }
}

/// A protocol's line in a chart of throughputs: MB/s in each setting.
pub(super) fn line(
    protocol: Protocol,
    spreads: impl Iterator<Item = Spread>,
) -> Series<figures::Measured> {
    let measured =
        |Spread { median, least, greatest }| figures::Measured { median, least, greatest };
    Series {
        name: protocol.title().to_owned(),
        color: color(protocol),
        points: spreads.map(measured).collect(),
    }
}

/// A chart of throughputs in several settings.
pub(super) fn throughput_chart(
    title: &str,
    x: &str,
    settings: Vec<String>,
    lines: Vec<Series<figures::Measured>>,
) -> Chart {
    Chart {
        title: title.to_owned(),
        y: "sums a worker receives, MB/s".to_owned(),
        marks: Marks::Settings { x: x.to_owned(), settings, lines },
    }
}

/// MB/s over the seeds.
pub(super) fn throughput(measured: &[Measured]) -> Spread {
    Spread::of(measured.iter().map(Measured::mean).collect())
}

/// The throughput of some runs divided by that of others with the same seed.
pub(super) fn ratio(runs: &[Measured], others: &[Measured]) -> Spread {
    Spread::of(runs.iter().zip(others).map(|(run, other)| run.mean() / other.mean()).collect())
}

/// Percentage of the additions that switches performed, over the seeds.
pub(super) fn in_network(measured: &[Measured]) -> Spread {
    Spread::of(measured.iter().map(|run| 100.0 * run.mean_in_network()).collect())
}

/// Runs the text of a job file on embedded switches.
///
/// # Errors
/// As `tributary run`.
pub(super) fn once(fabric: Fabric, text: &str) -> Result<RunReport> {
    once_on(fabric, Target::Embedded, text)
}

/// Runs the text of a job file.
///
/// # Errors
/// As `tributary run`.
pub(super) fn once_on(fabric: Fabric, target: Target, text: &str) -> Result<RunReport> {
    run_text(text, |options| (options.fabric, options.target) = (fabric, target))
}

/// Runs the text of a job file with options that `change` sets.
///
/// # Errors
/// As `tributary run`.
pub(super) fn run_text(text: &str, change: impl FnOnce(&mut Options)) -> Result<RunReport> {
    run_until(&AtomicBool::new(false), text, change)
}

/// Runs the text of a job file in network namespaces until it ends or `stop` is raised.
///
/// # Errors
/// As `tributary run`.
pub(super) fn in_namespaces(io: Io, pin: bool, text: &str, stop: &AtomicBool) -> Result<RunReport> {
    run_until(stop, text, |options| {
        (options.fabric, options.io, options.pin) = (Fabric::Netns, io, pin);
    })
}

fn run_until(
    stop: &AtomicBool,
    text: &str,
    change: impl FnOnce(&mut Options),
) -> Result<RunReport> {
    let mut job = tempfile::Builder::new().suffix(".toml").tempfile()?;
    job.write_all(text.as_bytes())?;
    let mut options = Options::new(job.path().to_owned());
    change(&mut options);
    tributary_run::run(&options, stop, &mut ())
}

/// Files for measurements in addition to the table.
pub(super) struct Output {
    json: Option<OutputFile>,
    plots: Option<PathBuf>,
}

impl Output {
    /// Opens the files before the work, so that an error does not waste it.
    ///
    /// # Errors
    /// If a file or directory cannot be created.
    pub(super) fn open(args: &Args) -> Result<Self> {
        let json = args.json_out.as_ref().map(|path| {
            OutputFile::create(path).with_context(|| format!("cannot write to {}", path.display()))
        });
        if let Some(directory) = &args.plots {
            tributary_base::output_directory(directory)
                .with_context(|| format!("cannot write to {}", directory.display()))?;
        }
        Ok(Self { json: json.transpose()?, plots: args.plots.clone() })
    }

    /// Draws a chart, if plots were requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn draw(&self, name: &str, chart: &Chart) -> Result<()> {
        let Some(directory) = &self.plots else { return Ok(()) };
        let path = directory.join(name);
        let cannot = || format!("cannot draw {}", path.display());
        let svg = chart.to_svg().with_context(cannot)?;
        tributary_base::write_whole(&path, svg).with_context(cannot)?;
        println!("Drawn in {}.", path.display());
        Ok(())
    }

    /// Writes all measurements, if requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(self, sweeps: &impl Serialize) -> Result<()> {
        let Some(mut file) = self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(sweeps).expect("measurements are plain data");
        writeln!(file, "{text}")
            .and_then(|()| file.finish())
            .context("cannot write the measurements")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_the_runs_of_a_seed() {
        let run = |throughput: &[f64]| Measured {
            seed: 1,
            first: true,
            throughput: throughput.to_vec(),
            in_network: vec![Some(0.5), None],
            kept_bytes: 0,
            memory_bytes: 0,
        };
        let atp = [run(&[1.0, 3.0]), run(&[10.0, 10.0]), run(&[1.0, 1.0])];
        let esa = [run(&[3.0, 3.0]), run(&[20.0, 30.0]), run(&[1.0, 1.0])];
        let ratio = ratio(&esa, &atp);
        assert_eq!((ratio.least, ratio.median, ratio.greatest), (1.0, 1.5, 2.5));
        assert_eq!(throughput(&atp).median, 2.0);
        assert!((in_network(&atp).median - 75.0).abs() < 1e-9);
    }
}
