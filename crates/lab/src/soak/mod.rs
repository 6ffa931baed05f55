//! `tributary-lab soak`: jobs come and go for hours, nothing fails, and nothing may grow.
//!
//! Two switches, a controller and a parameter server run in network namespaces all the time.
//! Meanwhile jobs are admitted, run by new workers, moved and released, one after the other (module `rounds`). Memory,
//! descriptors and threads of the processes and the entries of the switches are sampled (module `samples`), and at the end
//! module `trend` says what grew.
//!
//! Start reading at [`run`].

mod network;
mod rounds;
mod samples;
mod trend;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use network::RunningNetwork;
use rounds::Client;
use samples::Samples;
use trend::Trend;
use tributary_base::OutputFile;

/// The command line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long jobs come and go.
    #[arg(long, value_name = "N", default_value_t = 480, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: u32,
    /// Also write all samples as a table: seconds, process, measure, value.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Interval of samples.
const INTERVAL: Duration = Duration::from_secs(5);

/// Interval of lines that report progress.
const REPORT: Duration = Duration::from_secs(60);

/// Runs until the time is over or `stop` is raised. `say` gets the lines of the report.
///
/// # Errors
/// If there cannot be namespaces here, a sum is wrong, a process fails, or something grows.
pub fn run(args: &Args, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<()> {
    tributary_run::testbed::enter_user_namespace_if_needed()?;
    let csv = match &args.csv {
        Some(path) => Some(
            OutputFile::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        ),
        None => None,
    };
    let network = RunningNetwork::start()?;
    let mut client = Client::connect(&network)?;
    let mut samples = Samples::new();
    let duration = Duration::from_secs(60 * u64::from(args.minutes));
    let (start, mut rounds, mut reported) = (Instant::now(), 0_u64, Instant::now());
    let mut sampled = None::<Instant>;
    say(&format!("{} minutes of jobs; end early with Ctrl-C", args.minutes));
    while start.elapsed() < duration && !stop.load(Ordering::Relaxed) {
        rounds::run(&network, &mut client).with_context(|| format!("round {}", rounds + 1))?;
        rounds += 1;
        if sampled.is_none_or(|sampled| sampled.elapsed() >= INTERVAL) {
            sampled = Some(Instant::now());
            samples.take(start.elapsed(), network.processes())?;
            samples.take_entries(start.elapsed(), client.entries()?);
        }
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            say(&format!("{:>4} min  {rounds} rounds", start.elapsed().as_secs() / 60));
        }
    }
    let lived = start.elapsed();
    if let Some(mut csv) = csv {
        csv.write_all(samples.csv().as_bytes())
            .and_then(|()| csv.finish())
            .context("cannot write the samples")?;
    }
    network.check()?;
    report(lived, rounds, &samples, &mut say)
}

fn report(
    lived: Duration,
    rounds: u64,
    samples: &Samples,
    say: &mut impl FnMut(&str),
) -> Result<()> {
    say(&format!(
        "\n{rounds} rounds in {:.1} minutes: {} workers, {} sums of tensors, each compared\n",
        lived.as_secs_f64() / 60.0,
        rounds * rounds::WORKERS as u64,
        rounds * rounds::SUMS,
    ));
    say(&format!(
        "{:<12} {:<12} {:>9} {:>9} {:>9} {:>12}",
        "process", "measure", "first", "last", "most", "per hour"
    ));
    let (mut growing, mut measured) = (Vec::new(), false);
    for (process, measure, points) in samples.series() {
        let Some(trend) = Trend::of(points, measure.tolerance()) else { continue };
        measured = true;
        let verdict = if trend.grows { "  grows" } else { "" };
        say(&format!(
            "{process:<12} {:<12} {:>9} {:>9} {:>9} {:>+12.1}{verdict}",
            measure.name(),
            trend.first,
            trend.last,
            trend.most,
            trend.per_hour,
        ));
        if trend.grows {
            growing.push(format!("{} of {process}", measure.name()));
        }
    }
    if !growing.is_empty() {
        bail!(
            "this grows: {}; find out with a longer run and --csv whether it ends",
            growing.join(", ")
        );
    }
    if !measured {
        bail!("there are too few samples to tell whether something grows: take more minutes");
    }
    say("\nnothing grows");
    Ok(())
}
