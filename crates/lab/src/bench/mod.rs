//! `tributary-lab bench`: measures this machine, with the spread over repetitions.

mod allreduce;
mod args;
mod bmv2;
mod calibration;
mod engine;
mod esa;
mod fixed;
mod io;
mod load;
mod loss;
mod peers;
mod protocols;
mod runs;
mod sim;
mod switch;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use tributary_run::fabric::Kind as Fabric;

pub use args::{Args, Benchmark, Program};

/// Runs the benchmarks and prints their tables.
///
/// `stop_flag` makes the signals that ask a process to end raise a flag. It is called for benchmarks
/// that have something to clean up; the signals end the others at once.
///
/// # Errors
/// If a benchmark cannot run.
pub fn run(args: &Args, stop_flag: impl FnOnce() -> Result<Arc<AtomicBool>>) -> Result<()> {
    ensure!(args.repeat > 0, "--repeat 0: measure at least once");
    let all = [
        Benchmark::Engine,
        Benchmark::Switch,
        Benchmark::Fixed,
        Benchmark::Worker,
        Benchmark::Allreduce,
        Benchmark::Io,
        Benchmark::Esa,
        Benchmark::Protocols,
        Benchmark::Loss,
        Benchmark::Sim,
    ];
    let what = if args.what.is_empty() { &all[..] } else { &args.what[..] };
    ensure!(
        !args.peers.peers || what == [Benchmark::Allreduce],
        "--peers measures all-reduce; write `bench allreduce --peers`"
    );
    let writes = |benchmark: &&Benchmark| {
        matches!(
            benchmark,
            Benchmark::Calibration
                | Benchmark::Esa
                | Benchmark::Load
                | Benchmark::Loss
                | Benchmark::Protocols
                | Benchmark::Switch
        )
    };
    ensure!(
        args.json_out.is_none() || what.iter().filter(writes).count() < 2,
        "--json-out takes the measurements of one benchmark; name `calibration`, `esa`, `load`, `loss`, `protocols` or \
         `switch`"
    );
    let needs_namespaces =
        what.contains(&Benchmark::Io) || args.fabric.contains(&Fabric::Netns) || args.peers.peers;
    if needs_namespaces {
        // This must happen before there is a second thread.
        tributary_run::testbed::enter_user_namespace_if_needed()?;
    }
    println!("{}", machine());
    if args.peers.peers {
        return peers::run(args, &*stop_flag()?);
    }
    for benchmark in what {
        match benchmark {
            Benchmark::Engine => engine::run(args)?,
            Benchmark::Switch => switch::run(args)?,
            Benchmark::Bmv2 => bmv2::run(args)?,
            Benchmark::Calibration => calibration::run(args)?,
            Benchmark::Fixed => fixed::run(args),
            Benchmark::Worker => worker::run(args)?,
            Benchmark::Allreduce => allreduce::run(args)?,
            Benchmark::Esa => esa::run(args)?,
            Benchmark::Io => io::run(args)?,
            Benchmark::Load => load::run(args)?,
            Benchmark::Loss => loss::run(args)?,
            Benchmark::Protocols => protocols::run(args)?,
            Benchmark::Sim => sim::run(args)?,
        }
    }
    Ok(())
}

/// A one-line description of the machine.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    format!("{} cores, {}", cores(), model.trim_start_matches([' ', '\t', ':']))
}

/// Number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processor time of this thread, which is independent of the machine's other load.
fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("every Linux has this clock").into()
}

/// Median, minimum and maximum of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    /// The spread of at least one measurement.
    fn of(mut measured: Vec<f64>) -> Self {
        measured.sort_by(f64::total_cmp);
        Self {
            median: measured[measured.len() / 2],
            least: measured[0],
            greatest: measured[measured.len() - 1],
        }
    }

    fn text(&self, digits: usize) -> String {
        let Self { median, least, greatest } = self;
        format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})")
    }
}
