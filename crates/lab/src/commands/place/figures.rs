//! `tributary-lab place figures`: the figures of the papers, with the papers' numbers.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use tributary_base::output_directory;
use tributary_cluster::model::Profiles;
use tributary_cluster::trace::{MAX_JOBS, Trace};
use tributary_lab::figures::sweep::Experiment;
use tributary_lab::figures::{Figure, Progress, netpack, titan};

use super::compare::TraceArgs;
use super::sharing;
use crate::commands::output::{show, write};
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
    /// What to make: for NetPack `testbed`, `simulated`, `sizes`, `time`, `racks`, `parts`, `loads`,
    /// `switch` (figures 14 and 15), `servers`; for Titan `trace`, `testbed`, `waiting`,
    /// `elasticflow`. Default: all but `servers`. Verdicts are of what was made.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    figure: Vec<String>,
    /// Make NetPack's `servers`, too, which the paper does not have and the verdicts do not need.
    #[arg(long, conflicts_with = "figure")]
    ours: bool,
    /// Repetitions, each with another section of the trace and other models. Default 5; with --quick,
    /// 2.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Source of the durations of sums on NetPack's testbed.
    #[arg(long, value_enum, default_value_t = Timing::Packets)]
    testbed: Timing,
    /// Repetitions on NetPack's testbed. Default as elsewhere.
    #[arg(long, value_name = "N")]
    testbed_seeds: Option<u64>,
    /// Measured jobs of a run on NetPack's testbed. Default 40 with packets and 200 with flows; with
    /// --quick, a fifth of that.
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
    /// Packets take longer than flows, so there are fewer jobs.
    fn on_testbed(&self, seeds: u64) -> netpack::Testbed {
        let (timing, jobs) = match self.testbed {
            Timing::Packets => (netpack::Timing::Packets, 40),
            Timing::Flows => (netpack::Timing::Flows, 200),
        };
        netpack::Testbed {
            jobs: self.testbed_jobs.unwrap_or(if self.quick { jobs / 5 } else { jobs }),
            seeds: self.testbed_seeds.unwrap_or(seeds),
            timing,
        }
    }

    /// The parts to make, of those with these names, of which some are usual.
    fn chosen<P: Copy>(
        &self,
        all: &[(&'static str, P)],
        usual: impl Fn(P) -> bool,
    ) -> Result<Vec<P>> {
        if self.figure.is_empty() {
            let made = all.iter().filter(|(_, part)| self.ours || usual(*part));
            return Ok(made.map(|&(_, part)| part).collect());
        }
        let part = |name: &String| match all.iter().find(|(known, _)| known == name) {
            Some(&(_, part)) => Ok(part),
            None => {
                let known = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                bail!("--figure {name}: there are {known}")
            }
        };
        self.figure.iter().map(part).collect()
    }
}

/// What a paper's figures are made of, each shown when it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfNetPack {
    Part(netpack::Part),
    /// Figures 14 and 15.
    Switch,
}

/// Makes the figures of a paper.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &FiguresArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 2 } else { 5 });
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
    match args.paper {
        Paper::Netpack => of_netpack(args, seeds),
        Paper::Titan => of_titan(args, seeds),
    }
}

fn of_netpack(args: &FiguresArgs, seeds: u64) -> Result<()> {
    let parts = netpack::Part::ALL.map(|(name, part)| (name, OfNetPack::Part(part)));
    let all = [parts.as_slice(), &[("switch", OfNetPack::Switch)]].concat();
    let chosen = args.chosen(&all, |part| match part {
        OfNetPack::Part(part) => part.is_usual(),
        OfNetPack::Switch => true,
    })?;
    let effort = netpack::Effort {
        simulated: if args.quick { 500 } else { 1_000 },
        servers: if args.quick { 1_008 } else { 10_000 },
        whole: if args.quick { 10_000 } else { usize::MAX },
        testbed: args.on_testbed(seeds),
    };
    let mut evidence = netpack::Evidence::default();
    let mut shown = Shown::default();
    let source = Source::of(args)?;
    for part in chosen {
        let made = match part {
            OfNetPack::Switch => sharing::figures(&mut evidence)?,
            OfNetPack::Part(part) => with_bar("jobs", |progress| {
                part.make(&source.experiment(seeds, progress), &effort, &mut evidence)
            })?,
        };
        shown.add(made)?;
    }
    shown.finish(netpack::claims(&evidence), "NetPack's figures", args)
}

fn of_titan(args: &FiguresArgs, seeds: u64) -> Result<()> {
    let chosen = args.chosen(&titan::Part::ALL, |_| true)?;
    let jobs = if args.quick { 2_000 } else { 8_000 };
    let mut evidence = titan::Evidence::default();
    let mut shown = Shown::default();
    let source = Source::of(args)?;
    for part in chosen {
        shown.add(with_bar("jobs", |progress| {
            part.make(&source.experiment(seeds, progress), jobs, &mut evidence)
        })?)?;
    }
    shown.finish(titan::claims(&evidence), "Titan's figures", args)
}

/// The trace and the models.
struct Source {
    trace: Trace,
    profiles: Profiles,
}

impl Source {
    fn of(args: &FiguresArgs) -> Result<Self> {
        // A generated trace has as many jobs as the largest experiment needs.
        let trace = args.trace.read(args.trace.trace.is_none().then_some(80_000))?;
        Ok(Self { trace, profiles: args.trace.profiles()? })
    }

    fn experiment<'a>(&'a self, seeds: u64, progress: Progress<'a>) -> Experiment<'a> {
        Experiment { trace: &self.trace, profiles: self.profiles.all(), seeds, progress }
    }
}

/// The figures so far, each of which was printed.
#[derive(Default)]
struct Shown(Vec<Figure>);

impl Shown {
    fn add(&mut self, figures: Vec<Figure>) -> Result<()> {
        figures.iter().try_for_each(show)?;
        self.0.extend(figures);
        Ok(())
    }

    /// Prints the claims, and writes a page on which they come first.
    fn finish(self, claims: Option<Figure>, title: &str, args: &FiguresArgs) -> Result<()> {
        claims.iter().try_for_each(show)?;
        if let Some(out) = &args.out {
            let all: Vec<Figure> = claims.into_iter().chain(self.0).collect();
            write(out, title, &all)?;
            tributary_base::say!(
                "{}: index.html, and a CSV file and plots for each figure",
                out.display()
            );
        }
        Ok(())
    }
}
