//! `tributary place figures`: the figures of the papers, each beside the paper's numbers.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tributary_figures::sweep::Experiment;
use tributary_figures::{Figure, netpack, titan};

use super::compare::{TraceArgs, show, with_bar, write};
use super::sharing;

/// Whose figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Paper {
    /// NetPack, figures 7 to 15.
    Netpack,
    /// Titan, figures 2 to 11.
    Titan,
}

#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// Whose figures.
    paper: Paper,
    #[command(flatten)]
    trace: TraceArgs,
    /// Repetitions, each with other jobs and other models. Without it, 10; with --quick, 2.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Few jobs and few repetitions: to see that it works.
    #[arg(long)]
    quick: bool,
    /// A directory for CSV files, plots (SVG) and a page (HTML).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the figures of a paper.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &FiguresArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 2 } else { 10 });
    ensure!(seeds > 0, "--seeds 0: run at least once");
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    }
    // A generated trace has as many jobs as the largest experiment wants.
    let trace = args.trace.read(args.trace.trace.is_none().then_some(80_000))?;
    let profiles = args.trace.profiles()?;
    let mut figures: Vec<Figure> = with_bar("jobs", |progress| {
        let experiment = Experiment { trace: &trace, profiles: profiles.all(), seeds, progress };
        match args.paper {
            Paper::Netpack => {
                let jobs = match args.quick {
                    true => netpack::Jobs { testbed: 40, simulated: 200 },
                    false => netpack::Jobs { testbed: 200, simulated: 1_000 },
                };
                netpack::figures(&experiment, jobs).map_err(anyhow::Error::from)
            }
            Paper::Titan => {
                let jobs = if args.quick { 4_000 } else { 80_000 };
                titan::figures(&experiment, jobs).map_err(anyhow::Error::from)
            }
        }
    })?;
    if args.paper == Paper::Netpack {
        figures.extend(sharing::figures()?);
    }
    for figure in &figures {
        show(figure)?;
    }
    if let Some(out) = &args.out {
        let title = match args.paper {
            Paper::Netpack => "NetPack's figures",
            Paper::Titan => "Titan's figures",
        };
        write(out, title, &figures)?;
        say!("{}: index.html, and a CSV file and plots for each figure", out.display());
    }
    Ok(())
}
