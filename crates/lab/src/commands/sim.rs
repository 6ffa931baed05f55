//! `tributary-lab sim`: training jobs packet by packet.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use tributary_base::output_directory;
use tributary_lab::figures::esa::{Cost, Effort, Store, Which, cost, figures};

use crate::commands::output::present;
use tributary_base::program::with_bar;

/// Limit of seeds, so that a typing error does not take months.
const SEEDS_MAX: u64 = 1_000;

/// Limit of measured iterations, for the same reason.
const ITERATIONS_MAX: u32 = 10_000;

/// Name of the file with the results of single experiments.
const RESULTS: &str = "measured.jsonl";

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Make the figures of ESA's paper, with the paper's numbers and verdicts on its claims.
    #[command(after_help = "Example:\n  tributary-lab sim esa --figure 6,7 --quick --out figures")]
    Esa(EsaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EsaArgs {
    /// Figures: 6 to 11; `halving`: each rule of congestion in ATP and in ESA; `memory`: memory and
    /// windows with our default rules, `memory-paper` with the paper's, `memory-parts`: what each of ours gives;
    /// `repairs`: what a collision costs; `causes`: what each rule of ours changes; `search`: settings that could give the paper's gain over
    /// SwitchML; `sweeps`: what settings change that the paper leaves open; `cores`: processor time; or
    /// `all`. Verdicts come first; each needs the figures that it names.
    #[arg(long = "figure", value_name = "NAME", value_delimiter = ',', default_value = "all",
        value_parser = parse)]
    figures: Vec<Choice>,
    /// Repetitions with other start times and delays, from which the 95 % confidence intervals follow.
    /// Default 10; with --quick, 1. Studies of many settings use fewer, as their set-ups say.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Measured iterations of each job, after one that is not measured. Jobs go on until the last one has
    /// finished these. Default 10; with --quick, 1. Studies of many settings use fewer.
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// Use small models and few points, as a quick test.
    #[arg(long)]
    quick: bool,
    /// A directory for CSV files, plots (SVG and PNG) and a page (HTML). It also keeps the results
    /// of single experiments, so that an interrupted command goes on where it stopped.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A figure, or all.
#[derive(Clone, Copy, Debug)]
enum Choice {
    One(Which),
    All,
}

fn parse(name: &str) -> Result<Choice, String> {
    let number = name.parse().ok().filter(|number| (6..=11).contains(number));
    match (name, number) {
        ("all", _) => Ok(Choice::All),
        ("halving", _) => Ok(Choice::One(Which::Halving)),
        ("memory", _) => Ok(Choice::One(Which::Memory)),
        ("memory-paper", _) => Ok(Choice::One(Which::MemoryPaper)),
        ("memory-parts", _) => Ok(Choice::One(Which::MemoryParts)),
        ("repairs", _) => Ok(Choice::One(Which::Repairs)),
        ("causes", _) => Ok(Choice::One(Which::Causes)),
        ("search", _) => Ok(Choice::One(Which::Search)),
        ("sweeps", _) => Ok(Choice::One(Which::Sweeps)),
        ("cores", _) => Ok(Choice::One(Which::Cores)),
        (_, Some(number)) => Ok(Choice::One(Which::Number(number))),
        (_, None) => {
            let studies = "halving, memory, memory-paper, memory-parts, repairs, causes, search, sweeps, cores";
            Err(format!("write 6 to 11, {studies} or all"))
        }
    }
}

/// Makes the figures of ESA's paper.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn esa(args: &EsaArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 10 });
    ensure!((1..=SEEDS_MAX).contains(&seeds), "--seeds {seeds}: choose 1 to {SEEDS_MAX}");
    let iterations = args.iterations.unwrap_or(if args.quick { 1 } else { 10 });
    ensure!(
        (1..=ITERATIONS_MAX).contains(&iterations),
        "--iterations {iterations}: choose 1 to {ITERATIONS_MAX}"
    );
    let mut which: Vec<Which> = Vec::new();
    for choice in &args.figures {
        match choice {
            Choice::One(one) => which.push(*one),
            Choice::All => which.extend(Which::ALL),
        }
    }
    let mut store = match &args.out {
        None => Store::in_memory(),
        Some(out) => {
            let failed = || format!("cannot write to {}", out.display());
            output_directory(out).with_context(failed)?;
            Store::open(&out.join(RESULTS)).with_context(failed)?
        }
    };
    if !store.is_empty() {
        eprintln!("going on with {} results of an earlier run", store.len());
    }
    let effort = Effort { seeds, iterations, quick: args.quick };
    announce(cost(&which, effort, &store));
    let figures =
        with_bar("MB of gradients", |progress| figures(&which, effort, &mut store, progress))?;
    present(&figures, "ESA's figures", args.out.as_deref())
}

/// Says how long a run will take, if that is more than a moment.
fn announce(cost: Cost) {
    let minutes = cost.processor_time().as_secs_f64() / 60.0;
    if minutes < 1.0 {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let time = |minutes: f64| match minutes {
        short if short < 120.0 => format!("{short:.0} minutes"),
        long => format!("{:.1} hours", long / 60.0),
    };
    eprintln!(
        "{} experiments with {:.0} GB of gradients: roughly {} of processor time, {} on {cores} cores",
        cost.experiments,
        cost.megabytes as f64 / 1e3,
        time(minutes),
        time(minutes / cores),
    );
}
