//! The simulator beside real processes: the same job files in virtual time and on fabrics of this
//! machine.
//!
//! In virtual time, every frame takes a core of as many as this machine has for a fixed time, about
//! what `bench io` and `bench bmv2` measure. Absolute throughput depends on these times, so the
//! throughput of each file is compared as a multiple of the mean over all files on its fabric.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tributary_base::decimal_size;
use tributary_model::Protocol;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{RunReport, table};
use tributary_sim::Processing;

use super::runs::{Output, color, mean, run_text};
use crate::bench::Args;
use crate::figures::{Chart, Marks, Series};

/// Time for a frame that a host receives or sends over AF_PACKET.
const HOST: Duration = Duration::from_nanos(3_000);
/// Time for a frame that the embedded switch receives or sends.
const SWITCH: Duration = Duration::from_nanos(2_400);

/// Ways in which hosts and switches take turns in virtual time: the first two leave out, one by one,
/// what the third has in common with Linux.
const TURNS: usize = 3;
/// Index of the way that the tables and plots show.
const LIKE_LINUX: usize = 2;

type Turns = [(&'static str, Processing); TURNS];

fn turns(cores: usize) -> Turns {
    let linux = Processing::like_linux(cores, HOST, SWITCH);
    let no_slice = Processing { slice: Duration::ZERO, ..linux };
    [
        ("a turn is one frame", Processing { batch: 1, ..no_slice }),
        ("a turn sends all", no_slice),
        ("turns of 1 ms", linux),
    ]
}

/// Tensors per run, one after the other.
const TENSORS: u32 = 3;
/// Bytes of a tensor.
const TENSOR_BYTES: u32 = 256 << 10;

/// One job file, with equal jobs.
#[derive(Clone, Copy, Debug, Serialize)]
struct File {
    protocol: &'static str,
    jobs: u32,
    /// Of each job.
    workers: u32,
    racks: u32,
    pool: u32,
    /// Probability that a link loses a frame.
    loss: f64,
}

impl File {
    /// The files that are compared.
    fn all() -> Vec<Self> {
        let mut files = Vec::new();
        for protocol in [Protocol::Atp, Protocol::Esa] {
            let usual = Self {
                protocol: protocol.name(),
                jobs: 1,
                workers: 2,
                racks: 1,
                pool: 4096,
                loss: 0.0,
            };
            let pools = [(1, 4096), (1, 64), (2, 256), (4, 256), (8, 256), (4, 64), (8, 64)];
            files.extend(pools.map(|(jobs, pool)| Self { jobs, pool, ..usual }));
            files.push(Self { workers: 4, ..usual });
            files.push(Self { workers: 4, racks: 2, ..usual });
            files.push(Self { jobs: 2, loss: 0.01, ..usual });
        }
        for protocol in [Protocol::P4inc, Protocol::SwitchMl] {
            let usual = Self {
                protocol: protocol.name(),
                jobs: 1,
                workers: 2,
                racks: 1,
                pool: 256,
                loss: 0.0,
            };
            files.extend([1, 2, 4, 8].map(|jobs| Self { jobs, ..usual }));
            files.push(Self { workers: 4, ..usual });
        }
        files
    }

    /// The text of the file.
    fn text(&self, seed: u64, jitter_us: u32) -> String {
        let Self { protocol, jobs, workers, racks, pool, loss } = *self;
        let all = workers * jobs;
        let has_servers = protocol == Protocol::Atp.name() || protocol == Protocol::Esa.name();
        let servers =
            if has_servers { format!("ps_hosts = {}\n", jobs.min(2)) } else { String::new() };
        let topology = match racks {
            1 => format!("kind = \"star\"\nworkers = {all}\n{servers}"),
            _ => format!("kind = \"racks\"\nracks = {racks}\nhosts_per_rack = {}\n", all / racks),
        };
        let partitions =
            if protocol == Protocol::SwitchMl.name() { "partitions = 8\n" } else { "" };
        let job = format!(
            "[[job]]\nworkers = {workers}\njitter = \"{jitter_us}us\"\n\
             workload = {{ kind = \"random\", tensors = {TENSORS}, elements = {} }}\n",
            TENSOR_BYTES / 4
        );
        format!(
            "seed = {seed}\nprotocol = \"{protocol}\"\n[topology]\n{topology}[switch]\npool = {pool}\n\
             {partitions}[faults]\nloss = {loss}\n{}",
            job.repeat(jobs as usize)
        )
    }

    fn name(&self) -> String {
        let Self { protocol, jobs, workers, racks, pool, loss } = *self;
        let mut name = format!("{protocol}, {jobs} × {workers}, {pool}");
        if racks > 1 {
            name += &format!(", {racks} racks");
        }
        if loss > 0.0 {
            name += &format!(", {} % loss", 100.0 * loss);
        }
        name
    }
}

/// What a run, or the mean of several, shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Shown {
    /// Percentage of the additions that switches performed.
    in_network: f64,
    /// Preemptions per thousand fragments.
    preemptions: f64,
    /// MB/s of a job, mean of the jobs.
    throughput: f64,
}

impl Shown {
    fn of(report: &RunReport) -> Self {
        let jobs = &report.jobs;
        let fragments: u64 = jobs.iter().map(|job| job.fragments).sum();
        let preemptions: u64 =
            jobs.iter().filter_map(|job| job.esa.as_ref()).map(|esa| esa.preemptions).sum();
        Self {
            in_network: 100.0 * mean(jobs.iter().map(|job| job.summed_in_network.unwrap_or(1.0))),
            preemptions: 1e3 * preemptions as f64 / fragments.max(1) as f64,
            throughput: mean(jobs.iter().map(|job| job.goodput_gbps * 1e3 / 8.0)),
        }
    }

    fn mean(runs: &[Self]) -> Self {
        let of = |measure: fn(&Self) -> f64| mean(runs.iter().map(measure));
        Self {
            in_network: of(|run| run.in_network),
            preemptions: of(|run| run.preemptions),
            throughput: of(|run| run.throughput),
        }
    }
}

/// One file on the simulator and on a fabric of this machine, means over the seeds.
#[derive(Debug, Serialize)]
struct Pair {
    file: File,
    /// By how nodes take turns.
    sims: [Shown; TURNS],
    fabric: Shown,
}

/// A measure of [`Shown`], as it is compared.
struct Measure {
    name: &'static str,
    of: fn(&Shown) -> f64,
    /// Whether values are multiples of the geometric mean over all files, and are compared as
    /// logarithms.
    relative: bool,
}

const MEASURES: [Measure; 3] = [
    Measure { name: "in the network, %", of: |shown| shown.in_network, relative: false },
    Measure {
        name: "preemptions per 1000 fragments",
        of: |shown| shown.preemptions,
        relative: false,
    },
    Measure { name: "relative throughput", of: |shown| shown.throughput, relative: true },
];

/// A measure of all files: on the simulator with these turns, on the fabric.
fn columns(measure: &Measure, pairs: &[Pair], turns: usize) -> (Vec<f64>, Vec<f64>) {
    let column = |of: &dyn Fn(&Pair) -> &Shown| {
        let values: Vec<f64> = pairs.iter().map(|pair| (measure.of)(of(pair))).collect();
        if !measure.relative {
            return values;
        }
        let middle = mean(values.iter().map(|value| value.ln())).exp();
        values.into_iter().map(|value| value / middle).collect()
    };
    (column(&|pair| &pair.sims[turns]), column(&|pair| &pair.fabric))
}

/// Pearson's coefficient; not a number if one side does not vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a.iter().copied()), mean(b.iter().copied()));
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt()
}

/// The place of each value in order, the mean place for equal values.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count();
    let equal = |value: f64| values.iter().filter(|other| **other == value).count();
    values.iter().map(|&value| below(value) as f64 + (equal(value) as f64 - 1.0) / 2.0).collect()
}

pub(super) fn run(args: &Args) -> Result<()> {
    ensure!(
        !args.fabric.contains(&Fabric::Sim),
        "--fabric sim: `calibration` compares the simulator with the fabrics `memory` and `netns`"
    );
    let output = Output::open(args)?;
    let cores = available_parallelism().map_or(1, usize::from);
    let turns = turns(cores);
    let mut measured = Vec::new();
    for &fabric in &args.fabric {
        let pairs = measure(args, fabric, &turns)?;
        println!(
            "\nSimulator and {fabric} fabric, {TENSORS} tensors of {}, jitter up to {} µs, {} seeds. \
             In virtual time {cores} cores, {HOST:?} for each frame at a host, {SWITCH:?} at a switch",
            decimal_size(TENSOR_BYTES.into()),
            args.jitter,
            args.repeat
        );
        println!("{}\n{}", files(&pairs), correlations(&pairs, &turns));
        let (sim, real) = columns(&MEASURES[2], &pairs, LIKE_LINUX);
        let clouds = PROTOCOLS.map(|protocol| {
            let of = pairs.iter().zip(sim.iter().zip(&real));
            let own = of.filter(|(pair, _)| pair.file.protocol == protocol.name());
            let points = own.map(|(_, (&sim, &real))| (sim, real)).collect();
            Series { name: protocol.title().to_owned(), color: color(protocol), points }
        });
        let chart = Chart {
            title: format!("Relative throughput, the simulator and the {fabric} fabric"),
            y: format!("{fabric} fabric"),
            marks: Marks::Agreement { x: "simulator".to_owned(), clouds: clouds.to_vec() },
        };
        output.draw(&format!("calibration-{fabric}.svg"), &chart)?;
        measured.push((fabric.to_string(), pairs));
    }
    output.write(&measured)
}

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl];

fn measure(args: &Args, fabric: Fabric, turns: &Turns) -> Result<Vec<Pair>> {
    let files = File::all();
    let files = if args.quick { &files[..3] } else { &files[..] };
    let mut pairs = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let (mut sims, mut real) = ([const { Vec::new() }; TURNS], Vec::new());
        for seed in 1..=u64::from(args.repeat) {
            eprint!("\r{} of {}: {}, seed {seed}          ", at + 1, files.len(), file.name());
            let text = file.text(seed, args.jitter);
            let run = |fabric, processing| {
                run_text(&text, |options| {
                    options.fabric = fabric;
                    options.processing = processing;
                })
                .with_context(|| format!("{}, seed {seed}, {fabric} fabric", file.name()))
            };
            for (sim, (_, processing)) in sims.iter_mut().zip(turns) {
                sim.push(Shown::of(&run(Fabric::Sim, Some(*processing))?));
            }
            real.push(Shown::of(&run(fabric, None)?));
        }
        let sims = sims.map(|runs| Shown::mean(&runs));
        pairs.push(Pair { file: *file, sims, fabric: Shown::mean(&real) });
    }
    eprintln!();
    Ok(pairs)
}

/// Every file.
fn files(pairs: &[Pair]) -> comfy_table::Table {
    let mut rows = table(&[
        "protocol, jobs × workers, pool",
        "in the network, %: simulator",
        "fabric",
        "preemptions per 1000 fragments: simulator",
        "fabric",
        "relative throughput: simulator",
        "fabric",
    ]);
    let columns = MEASURES.each_ref().map(|measure| columns(measure, pairs, LIKE_LINUX));
    for (at, pair) in pairs.iter().enumerate() {
        let numbers = columns.iter().zip([1, 0, 2]).flat_map(|((sim, real), digits)| {
            [sim, real].map(|column| format!("{:.digits$}", column[at]))
        });
        rows.add_row(std::iter::once(pair.file.name()).chain(numbers));
    }
    rows
}

/// How well the two agree over all files.
fn correlations(pairs: &[Pair], turns: &Turns) -> comfy_table::Table {
    let mut rows = table(&["simulator", "measure", "correlation", "correlation of ranks"]);
    for (at, (name, _)) in turns.iter().enumerate() {
        for measure in &MEASURES {
            let (mut sim, mut real) = columns(measure, pairs, at);
            if measure.relative {
                [&mut sim, &mut real].into_iter().flatten().for_each(|value| *value = value.ln());
            }
            let ranks = correlation(&ranks(&sim), &ranks(&real));
            let text = |number: f64| format!("{number:.3}");
            let all = text(correlation(&sim, &real));
            rows.add_row([(*name).to_owned(), measure.name.to_owned(), all, text(ranks)]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_valid_and_different() {
        let files = File::all();
        let mut texts: Vec<String> = files.iter().map(|file| file.text(1, 300)).collect();
        for text in &texts {
            tributary_model::jobfile::parse(text, "f")
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
        texts.sort();
        texts.dedup();
        assert_eq!((texts.len(), files.len()), (30, 30));
    }

    #[test]
    fn correlations_of_known_columns() {
        let line = [1.0, 2.0, 4.0];
        assert!((correlation(&line, &[3.0, 5.0, 9.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&line, &[-1.0, -2.0, -4.0]) + 1.0).abs() < 1e-12);
        // (−4/3, −1/3, 5/3) · (−1/3, 2/3, −1/3) over the root of 42/9 · 6/9.
        assert!((correlation(&line, &[1.0, 2.0, 1.0]) + 1.0 / 28.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(ranks(&[7.0, 1.0, 7.0, 3.0]), [2.5, 0.0, 2.5, 1.0]);
    }
}
