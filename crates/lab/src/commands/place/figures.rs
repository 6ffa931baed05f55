//! `tributary-lab place figures`: the figures of the papers, with the papers' numbers.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tributary_base::output_directory;
use tributary_cluster::trace::MAX_JOBS;
use tributary_lab::figures::sweep::Experiment;
use tributary_lab::figures::{Figure, netpack, titan};

use super::compare::TraceArgs;
use super::sharing;
use crate::commands::output::present;
use tributary_base::program::with_bar;

/// Limit of seeds: their runs stay in memory until they are drawn.
const SEEDS_MAX: u64 = 10_000;

/// The paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Paper {
    /// NetPack, figures 6 to 15.
    Netpack,
    /// Titan, figures 2 to 11.
    Titan,
}

/// The source of the durations of sums on NetPack's testbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Timing {
    /// ATP's endpoints and P4 program, in virtual time.
    Packets,
    /// The steady state, as in simulations: faster, and without figure 6.
    Flows,
}

#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// The paper.
    paper: Paper,
    #[command(flatten)]
    trace: TraceArgs,
    /// Repetitions, each with other jobs and other models. Default 10; with --quick, 2.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Source of the durations of sums on NetPack's testbed.
    #[arg(long, value_enum, default_value_t = Timing::Packets)]
    testbed: Timing,
    /// Repetitions on NetPack's testbed. Default with packets 2 (with --quick, 1), with flows as
    /// elsewhere.
    #[arg(long, value_name = "N")]
    testbed_seeds: Option<u64>,
    /// Jobs per run on NetPack's testbed. Default 100 with packets and 200 with flows; with
    /// --quick, 20 and 40.
    #[arg(long, value_name = "N")]
    testbed_jobs: Option<usize>,
    /// Use few jobs and few repetitions, as a quick test.
    #[arg(long)]
    quick: bool,
    /// A directory for CSV files, plots (SVG and PNG) and a page (HTML).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl FiguresArgs {
    /// Packets take longer than flows, so there are fewer jobs and repetitions.
    fn on_testbed(&self, seeds: u64) -> netpack::Testbed {
        let (timing, jobs, usual) = match self.testbed {
            Timing::Packets => (netpack::Timing::Packets, 100, if self.quick { 1 } else { 2 }),
            Timing::Flows => (netpack::Timing::Flows, 200, seeds),
        };
        netpack::Testbed {
            jobs: self.testbed_jobs.unwrap_or(if self.quick { jobs / 5 } else { jobs }),
            seeds: self.testbed_seeds.unwrap_or(usual.min(seeds)),
            timing,
        }
    }
}

/// Makes the figures of a paper.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &FiguresArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 2 } else { 10 });
    for (option, seeds) in [("--seeds", Some(seeds)), ("--testbed-seeds", args.testbed_seeds)] {
        let seeds = seeds.unwrap_or(1);
        ensure!((1..=SEEDS_MAX).contains(&seeds), "{option} {seeds}: choose 1 to {SEEDS_MAX}");
    }
    let jobs = args.testbed_jobs.unwrap_or(1);
    ensure!(
        (1..=MAX_JOBS).contains(&jobs),
        "--testbed-jobs {jobs}: place at least one, and at most {MAX_JOBS}"
    );
    if let Some(out) = &args.out {
        output_directory(out).with_context(|| format!("cannot write to {}", out.display()))?;
    }
    // A generated trace has as many jobs as the largest experiment needs.
    let trace = args.trace.read(args.trace.trace.is_none().then_some(80_000))?;
    let profiles = args.trace.profiles()?;
    let mut figures: Vec<Figure> = with_bar("jobs", |progress| {
        let experiment = Experiment { trace: &trace, profiles: profiles.all(), seeds, progress };
        match args.paper {
            Paper::Netpack => {
                let large = if args.quick { 200 } else { 1_000 };
                let testbed = args.on_testbed(seeds);
                netpack::figures(&experiment, large, testbed).map_err(anyhow::Error::from)
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
    let title = match args.paper {
        Paper::Netpack => "NetPack's figures",
        Paper::Titan => "Titan's figures",
    };
    present(&figures, title, args.out.as_deref())
}
