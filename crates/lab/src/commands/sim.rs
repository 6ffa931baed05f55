//! `tributary-lab sim`: training jobs packet by packet.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use tributary_base::output_directory;
use tributary_lab::figures::esa::{Effort, Store, Which, figures};

use crate::commands::output::present;
use tributary_base::program::with_bar;

/// Limit of seeds, so that a typing error does not take months.
const SEEDS_MAX: u64 = 1_000;

/// Name of the file with the results of single experiments.
const RESULTS: &str = "measured.jsonl";

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Make the figures of ESA's paper, with the paper's numbers.
    #[command(after_help = "Example:\n  tributary-lab sim esa --figure 6,7 --quick --out figures")]
    Esa(EsaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EsaArgs {
    /// Figures: 6 to 11; `halving`: one rule of congestion for ATP and ESA; `causes`: what each rule of
    /// ours changes; `sweeps`: what settings change that the paper leaves open; `cores`: processor time; or
    /// `all`.
    #[arg(long = "figure", value_name = "NAME", value_delimiter = ',', default_value = "all",
        value_parser = parse)]
    figures: Vec<Choice>,
    /// Repetitions with other start times and delays. Default 3; with --quick, 1.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
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
        ("causes", _) => Ok(Choice::One(Which::Causes)),
        ("sweeps", _) => Ok(Choice::One(Which::Sweeps)),
        ("cores", _) => Ok(Choice::One(Which::Cores)),
        (_, Some(number)) => Ok(Choice::One(Which::Number(number))),
        (_, None) => Err("write 6 to 11, halving, causes, sweeps, cores or all".to_owned()),
    }
}

/// Makes the figures of ESA's paper.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn esa(args: &EsaArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 3 });
    ensure!((1..=SEEDS_MAX).contains(&seeds), "--seeds {seeds}: choose 1 to {SEEDS_MAX}");
    let mut which: Vec<Which> = Vec::new();
    for choice in &args.figures {
        match choice {
            Choice::One(one) => which.push(*one),
            Choice::All => which.extend(Which::ALL),
        }
    }
    which.sort_unstable();
    which.dedup();
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
    let effort = Effort { seeds, quick: args.quick };
    let figures =
        with_bar("MB of gradients", |progress| figures(&which, effort, &mut store, progress))?;
    present(&figures, "ESA's figures", args.out.as_deref())
}
