//! `tributary-lab optical`: schedules of jobs, aggregation and light paths (P4INC-AOI).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use tributary_base::output_directory;
use tributary_lab::figures::gantt::gantt;
use tributary_lab::figures::optical::{Effort, Which, figures, single};
use tributary_lab::figures::{Cell, Figure, Table};
use tributary_optical::{
    Case, Circuits, Exact, Input, JOBS_MAX, Load, Open, Refine, SOLVER, Schedule, Scheduler,
    Setting, Shuffle, Solved, check, coflows, outcome, parse, quick_bound, read, schedulers,
};

use crate::commands::output::{present, show};
use tributary_base::program::{put, with_bar};

/// Limit of seeds, so that a typing error does not take months.
const SEEDS_MAX: u64 = 1_000;

/// The exact model in tables.
const EXACT: &str = "exact";

#[derive(Debug, Subcommand)]
pub(crate) enum OpticalCommand {
    /// Schedule the jobs of a file, or a random batch as in table I, with each scheduler.
    #[command(after_help = "Example:\n\
        \x20 tributary-lab optical schedule examples/optical/jobs.toml --gantt jobs.svg")]
    Schedule(ScheduleArgs),
    /// Schedule random batches in one setting, and print averages.
    #[command(after_help = "Example:\n  tributary-lab optical simulate --jobs 100 --units 16")]
    Simulate(SimulateArgs),
    /// Make table I and figures 5 to 12 of P4INC-AOI's paper, with the paper's numbers, and verdicts on its claims.
    #[command(after_help = "Example:\n\
        \x20 tributary-lab optical figures --figure table1 --quick --out figures")]
    Figures(FiguresArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// A network and its jobs (.toml, see docs/evaluation/optical.md), or else a trace of shuffles in the
    /// format of the coflow benchmark.
    #[arg(required_unless_present = "table1", conflicts_with = "table1")]
    file: Option<PathBuf>,
    /// Schedule this number of random training jobs on 8 units instead.
    #[arg(long, value_name = "JOBS")]
    table1: Option<usize>,
    /// Seed of the random jobs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Scheduler whose decisions are listed.
    #[arg(long, value_name = "NAME", default_value = "INC-TW")]
    scheduler: String,
    /// Search for the optimum, starting from INC-Refine's schedule, and list its decisions. Only for small
    /// instances.
    #[arg(long, conflicts_with = "scheduler")]
    exact: bool,
    /// Time for the search. The best schedule until then is listed.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "exact")]
    limit: f64,
    /// Print only that schedule, as JSON: circuits, rates and data by slot, and ends of jobs (see
    /// docs/evaluation/optical.md).
    #[arg(long)]
    json: bool,
    /// Draw that scheduler's slots, circuits, rates and jobs (SVG).
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    gantt: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Number of jobs.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    jobs: usize,
    /// Number of units.
    #[arg(long, value_name = "N", default_value_t = 64)]
    units: usize,
    /// Optical ports of each unit.
    #[arg(long, value_name = "N", default_value_t = 24)]
    ports: u32,
    /// Jobs that each switch can aggregate at once.
    #[arg(long, value_name = "N", default_value_t = 4)]
    inc: u32,
    /// Length of a slot.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    slot: f64,
    /// Time of a reconfiguration.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20.0)]
    reconfiguration: f64,
    /// Mean number of jobs that arrive in a second.
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    arrivals: f64,
    /// Also aggregate the part of a job's workers that is in one unit (§IV, not §VI.A).
    #[arg(long)]
    partial_inc: bool,
    /// Draw MapReduce jobs from this trace instead of training jobs.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Repetitions with other jobs.
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// Figures: table1; 5 to 12 (6 and 7 together); `batch`: 8 with all jobs at once; `take`: bandwidth that a job may take;
    /// `load`: more data; `reconfiguration` and `update`: their times; `packed`: shuffles in few units;
    /// `sunflow`: one coflow at a time; `growth`: processor time; `search`: a regime in which all claims on
    /// figure 8 hold; `testbed`: one for figure 7; `windows`: TW and FCFS with equal readings; or `all`.
    #[arg(long = "figure", value_name = "NAME", value_delimiter = ',', default_value = "all",
        value_parser = choice)]
    figures: Vec<Choice>,
    /// Trace of shuffles for figure 9, `packed` and `sunflow`, in the format of the coflow benchmark. Without
    /// one, `all` leaves them out.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Repetitions with other jobs. Default 5; with --quick, 2.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Use few jobs and few points, as a quick test.
    #[arg(long)]
    quick: bool,
    /// Time for the exact model, for each instance of table I. Default 10; with --quick, 1.
    #[arg(long, value_name = "SECONDS")]
    limit: Option<f64>,
    /// A directory for CSV files, plots (SVG) and a page (HTML).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A figure, or all.
#[derive(Clone, Copy, Debug)]
enum Choice {
    One(Which),
    All,
}

fn choice(name: &str) -> Result<Choice, String> {
    Ok(Choice::One(match name {
        "all" => return Ok(Choice::All),
        "table1" => Which::Table1,
        "batch" => Which::Batch,
        "take" => Which::Take,
        "load" => Which::Load,
        "reconfiguration" => Which::Reconfiguration,
        "update" => Which::Update,
        "packed" => Which::Packed,
        "sunflow" => Which::Sunflow,
        "growth" => Which::Growth,
        "search" => Which::Search,
        "testbed" => Which::Testbed,
        "windows" => Which::Windows,
        _ => match name.parse() {
            // Both figures show the same runs.
            Ok(6 | 7) => Which::Number(6),
            Ok(number @ (5 | 8..=12)) => Which::Number(number),
            _ => {
                let names = "table1, 5 to 12, batch, take, load, reconfiguration, update, packed, \
                             sunflow, growth, search, testbed, windows or all";
                return Err(format!("write {names}"));
            }
        },
    }))
}

/// Runs a command.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(command: &OpticalCommand) -> Result<()> {
    match command {
        OpticalCommand::Schedule(args) => schedule(args),
        OpticalCommand::Simulate(args) => simulate(args),
        OpticalCommand::Figures(args) => make_figures(args),
    }
}

fn schedule(args: &ScheduleArgs) -> Result<()> {
    let input = match (&args.file, args.table1) {
        (Some(file), _) => input(file)?,
        (None, jobs) => {
            let jobs = jobs.unwrap_or_default();
            ensure!((1..=JOBS_MAX).contains(&jobs), "--table1 {jobs}: choose 1 to {JOBS_MAX}");
            let setting = Setting::small();
            Input { network: setting.network(), jobs: setting.training(jobs, args.seed)? }
        }
    };
    let Input { network, jobs } = &input;
    network.check()?;
    let limit = time_limit(args.limit)?;
    let mut all = schedulers();
    all.push(Box::new(Refine::default()));
    let names: Vec<&str> = all.iter().map(|scheduler| scheduler.name()).collect();
    let listed = all.iter().find(|scheduler| scheduler.name() == args.scheduler);
    let Some(listed) = listed else {
        anyhow::bail!(
            "no scheduler is called `{}`; there are {}",
            args.scheduler,
            names.join(", ")
        );
    };
    let solved = args.exact.then(|| exact(&input, limit)).transpose()?;
    if !args.json {
        compare(&input, &all, solved.as_ref())?;
    }
    let (name, schedule) = match solved {
        Some(solved) => (EXACT, solved.schedule),
        None => (listed.name(), listed.schedule(network, jobs)?),
    };
    if args.json {
        let open = Open::new(name, network, jobs, &schedule).with_context(|| name.to_owned())?;
        return tributary_base::program::print(&serde_json::to_string_pretty(&open)?);
    }
    list(&input, &schedule, name, args.gantt.as_deref())
}

/// The best schedule from uniform circuits, and a proven bound.
fn exact(input: &Input, limit: Duration) -> Result<Solved> {
    let Input { network, jobs } = input;
    let start = Scheduler::schedule(&Refine::default(), network, jobs)?;
    Exact::check_size(jobs, &start).context("--exact")?;
    Ok(Exact { initial: Some(Circuits::uniform(network)), limit }.solve(network, jobs, start)?)
}

/// Prints what each scheduler achieves, and checks each schedule.
fn compare(
    input: &Input,
    schedulers: &[Box<dyn Scheduler + Send + Sync>],
    solved: Option<&Solved>,
) -> Result<()> {
    let Input { network, jobs } = input;
    let bound = solved.map_or_else(|| quick_bound(network, jobs), |solved| Ok(solved.bound))?;
    let mut table =
        Table::new(["scheduler", "new circuits", "slots", "CT-BTI, s", "above the lower bound, %"]);
    let row = |name: &str, schedule: &Schedule| -> Result<Vec<Cell>> {
        let outcome = outcome(network, jobs, schedule);
        let violations = check(network, jobs, schedule).err().unwrap_or_default();
        ensure!(violations.is_empty(), "{name}: {}", violations[0]);
        // Without data, both are 0.
        let above = if bound > 0.0 { outcome.ct_bti / bound - 1.0 } else { 0.0 };
        Ok(vec![
            Cell::text(name),
            Cell::Number(outcome.reconfigurations.into(), 0),
            Cell::Number(outcome.slots as f64, 0),
            Cell::Number(outcome.ct_bti, 3),
            Cell::Number(100.0 * above, 1),
        ])
    };
    for scheduler in schedulers {
        match scheduler.schedule(network, jobs) {
            Ok(schedule) => table.push(row(scheduler.name(), &schedule)?),
            // Without changing circuits, some pairs of units may have none.
            Err(error) => {
                eprintln!("{}: {error}", scheduler.name());
                let mut row = vec![Cell::text(scheduler.name())];
                row.resize(5, Cell::None);
                table.push(row);
            }
        }
    }
    if let Some(solved) = solved {
        table.push(row(EXACT, &solved.schedule)?);
    }
    tributary_base::program::print(&table.to_terminal())?;
    if let Some(Solved { completion, bound, .. }) = solved {
        let answer = match completion <= bound {
            true => format!("the optimum is {completion:.3} s"),
            false => format!(
                "the optimum is from {bound:.3} to {completion:.3} s; give --limit more seconds"
            ),
        };
        tributary_base::program::print(&format!("{EXACT}, by {SOLVER}: {answer}"))?;
    }
    Ok(())
}

/// Prints the decisions for each job, and draws them.
fn list(input: &Input, schedule: &Schedule, name: &str, picture: Option<&Path>) -> Result<()> {
    let Input { network, jobs } = input;
    let outcome = outcome(network, jobs, schedule);
    let mut table =
        Table::new(["job", "arrival, slot", "switch", "first slot", "last slot", "end, s"]);
    for (at, job) in jobs.iter().enumerate() {
        let sends = |slot: &tributary_optical::Slot| slot.rates[at] > 0.0;
        let number = |slot: Option<usize>| slot.map_or(Cell::None, |at| Cell::Number(at as f64, 0));
        table.push(vec![
            Cell::Number(job.id.into(), 0),
            Cell::Number(job.arrival as f64, 0),
            number(job.ways[schedule.ways[at]].inc.map(|unit| unit.0)),
            number(schedule.slots.iter().position(sends)),
            number(schedule.slots.iter().rposition(sends)),
            Cell::Number(outcome.completion[at], 3),
        ]);
    }
    tributary_base::program::print(&format!("\n{name}\n{}", table.to_terminal()))?;
    if let Some(path) = picture {
        let title = format!("{name}: CT-BTI {:.3} s", outcome.ct_bti);
        put(path, gantt(&title, jobs, schedule))?;
        tributary_base::say!("{}: slots, circuits, rates and jobs", path.display());
    }
    Ok(())
}

fn input(path: &Path) -> Result<Input> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(read(&text(path)?, &path.display().to_string())?);
    }
    let setting = Setting::default();
    let (units, ports) = (setting.units, setting.ports as usize);
    let jobs = coflows(&shuffles(path)?, units, ports, setting.slot)?;
    Ok(Input { network: setting.network(), jobs })
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn shuffles(path: &Path) -> Result<Vec<Shuffle>> {
    parse(&text(path)?).with_context(|| path.display().to_string())
}

fn simulate(args: &SimulateArgs) -> Result<()> {
    check_seeds(args.seeds)?;
    ensure!((1..=JOBS_MAX).contains(&args.jobs), "--jobs {}: choose 1 to {JOBS_MAX}", args.jobs);
    let positive = args.arrivals.is_finite() && args.arrivals > 0.0;
    ensure!(positive, "--arrivals {}: choose more than 0", args.arrivals);
    let setting = Setting {
        units: args.units,
        ports: args.ports,
        inc: args.inc,
        slot: args.slot,
        reconfiguration: args.reconfiguration / 1e3,
        arrivals: args.arrivals,
        local_inc_only: !args.partial_inc,
        ..Setting::default()
    };
    setting.check()?;
    let trace = args.trace.as_deref().map(shuffles).transpose()?;
    let load = trace.as_deref().map_or(Load::Training, Load::MapReduce);
    let case = Case { x: args.jobs as f64, setting, jobs: args.jobs, load };
    let figure = with_bar("schedules", |progress| single(case, args.seeds, progress))?;
    show(&figure)
}

fn check_seeds(seeds: u64) -> Result<()> {
    ensure!((1..=SEEDS_MAX).contains(&seeds), "--seeds {seeds}: choose 1 to {SEEDS_MAX}");
    Ok(())
}

fn time_limit(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .with_context(|| format!("--limit {seconds}: choose 0 seconds or more"))
}

fn make_figures(args: &FiguresArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 2 } else { 5 });
    check_seeds(seeds)?;
    let trace = args.trace.as_deref().map(shuffles).transpose()?;
    let mut which: Vec<Which> = Vec::new();
    for choice in &args.figures {
        match choice {
            Choice::One(one) => {
                let possible = trace.is_some() || !one.needs_trace();
                ensure!(possible, "shuffles come from a trace; name its file with --trace FILE");
                which.push(*one);
            }
            Choice::All => which.extend(Which::ALL),
        }
    }
    which.sort_unstable();
    which.dedup();
    if let Some(out) = &args.out {
        output_directory(out).with_context(|| format!("cannot write to {}", out.display()))?;
    }
    let limit = args.limit.unwrap_or(if args.quick { 1.0 } else { 10.0 });
    let effort = Effort { seeds, quick: args.quick, limit: time_limit(limit)? };
    let figures: Vec<Figure> =
        with_bar("steps", |progress| figures(&which, effort, trace.as_deref(), progress))?;
    present(&figures, "P4INC-AOI's table and figures", args.out.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_numbers_of_the_paper() {
        let which = |name| match choice(name) {
            Ok(Choice::One(which)) => Ok(which),
            Ok(Choice::All) => Err("all".to_owned()),
            Err(problem) => Err(problem),
        };
        assert_eq!(which("5"), Ok(Which::Number(5)));
        assert_eq!(which("6"), which("7"), "they show the same runs");
        assert_eq!(which("table1"), Ok(Which::Table1));
        for name in ["4", "13", "", "figure5"] {
            let problem = which(name).unwrap_err();
            assert!(problem.starts_with("write table1, 5 to 12, batch"), "{problem}");
        }
    }
}
