//! Table I and figures 5 to 12 of P4INC-AOI's paper, and experiments on the causes of differences.

mod claims;
mod evidence;
mod grid;
mod queues;
mod search;
mod sunflow;
mod table1;
mod testbed;
mod throughput;
mod windows;

use std::time::Duration;

use tributary_cluster::metrics::Spread;
use tributary_optical::{
    Case, Error, Fcfs, Load, Run, Scheduler, Setting, Shuffle, Take, Tw, Unsolved, exponent,
    simulate,
};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

use evidence::{Evidence, Measured};

/// A table or figure of the paper, or an experiment of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Which {
    /// Table I.
    Table1,
    /// A figure of the paper: 5, 6 (with 7, which shows the same runs), and 8 to 12.
    Number(u8),
    /// Figure 8 with all jobs in the first slot.
    Batch,
    /// What the bandwidth that a job may take changes.
    Take,
    /// What more data changes.
    Load,
    /// What the time of a reconfiguration changes.
    Reconfiguration,
    /// What the time of an update changes.
    Update,
    /// MapReduce jobs in as few units as possible.
    Packed,
    /// One coflow at a time, beside Sunflow.
    Sunflow,
    /// How processor time grows with jobs and units.
    Growth,
    /// A regime in which all claims on figure 8 hold.
    Search,
    /// A regime in which all claims on figure 7 hold.
    Testbed,
    /// What windows change if FCFS and TW take the same.
    Windows,
}

impl Which {
    /// All.
    pub const ALL: [Self; 19] = [
        Self::Table1,
        Self::Number(5),
        Self::Number(6),
        Self::Number(8),
        Self::Number(9),
        Self::Number(10),
        Self::Number(11),
        Self::Number(12),
        Self::Batch,
        Self::Take,
        Self::Load,
        Self::Reconfiguration,
        Self::Update,
        Self::Packed,
        Self::Sunflow,
        Self::Growth,
        Self::Search,
        Self::Testbed,
        Self::Windows,
    ];

    /// Whether it needs a trace of MapReduce jobs.
    #[must_use]
    pub fn needs_trace(self) -> bool {
        matches!(self, Self::Number(9) | Self::Packed | Self::Sunflow)
    }
}

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Repetitions with other jobs.
    pub seeds: u64,
    /// Fewer jobs and points, as a quick test.
    pub quick: bool,
    /// Time for the exact model, for each instance of table I.
    pub limit: Duration,
}

/// Why figures could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// A workload cannot be scheduled, or a schedule is invalid.
    #[error(transparent)]
    Unsolved(#[from] Unsolved),
    /// Training by packets failed, which is a bug in this program.
    #[error(transparent)]
    Training(#[from] crate::studies::training::Error),
    /// The control loop failed on the testbed, which is a bug in this program.
    #[error("the control loop on the testbed: {0}")]
    Loop(String),
}

impl From<Error> for FigureError {
    fn from(error: Error) -> Self {
        Self::Unsolved(error.into())
    }
}

type Schedulers = Vec<Box<dyn Scheduler + Send + Sync>>;

/// Numbers of jobs in figure 8.
const JOBS: [usize; 4] = [800, 1_000, 1_200, 1_400];

/// Cases and schedulers, and how to show them.
struct Study<'a> {
    which: Which,
    id: &'static str,
    title: &'static str,
    x: &'static str,
    cases: Vec<Case<'a>>,
    schedulers: Schedulers,
    notes: Vec<String>,
}

/// What is run for some figures.
enum Work<'a> {
    Study(Study<'a>),
    Table1(table1::SetUp),
    Sunflow(&'a [Shuffle]),
    Throughput,
    Queues(queues::SetUp),
    Search(search::Search),
    Testbed(testbed::Search),
    Windows(windows::Windows),
}

impl<'a> Work<'a> {
    fn all(which: Which, quick: bool, trace: &'a [Shuffle]) -> Vec<Self> {
        match which {
            Which::Table1 => table1::set_ups(quick).into_iter().map(Self::Table1).collect(),
            Which::Sunflow => vec![Self::Sunflow(trace)],
            Which::Number(5) => vec![Self::Throughput],
            Which::Number(6 | 7) => vec![Self::Queues(queues::SetUp::new(quick))],
            Which::Search => vec![Self::Search(search::Search::new(quick))],
            Which::Testbed => vec![Self::Testbed(testbed::Search::new(quick))],
            Which::Windows => vec![Self::Windows(windows::Windows::new(quick))],
            which => studies(which, quick, trace).into_iter().map(Self::Study).collect(),
        }
    }

    /// Number of steps for the progress.
    fn size(&self, effort: Effort) -> u64 {
        let seeds = effort.seeds;
        match self {
            Self::Study(study) => study.cases.len() as u64 * study.schedulers.len() as u64 * seeds,
            Self::Table1(set_up) => set_up.cases.len() as u64 * seeds,
            Self::Sunflow(trace) => sunflow::SLOTS.len() as u64 * trace.len() as u64,
            Self::Throughput => throughput::size(effort),
            Self::Queues(set_up) => set_up.size(seeds),
            Self::Search(search) => search.size(seeds),
            Self::Testbed(search) => search.size(seeds),
            Self::Windows(windows) => windows.size(seeds),
        }
    }

    /// Makes its figures, and keeps what the claims need.
    fn run(
        &self,
        effort: Effort,
        progress: Progress<'_>,
        evidence: &mut Evidence,
    ) -> Result<Vec<Figure>, FigureError> {
        match self {
            Self::Study(study) => {
                let runs = simulate(&study.cases, &study.schedulers, 0..effort.seeds, progress)?;
                let shown = show(study, &runs);
                let measured = Measured::new(study.id, &study.cases, &study.schedulers, runs);
                let changes = claims::changes(&measured, study.title);
                evidence.studies.push(measured);
                Ok(std::iter::once(shown).chain(changes).collect())
            }
            Self::Table1(set_up) => Ok(vec![set_up.figure(effort, progress, evidence)?]),
            Self::Sunflow(trace) => Ok(sunflow::figures(trace, progress)?),
            Self::Throughput => Ok(throughput::figures(effort, progress, evidence)?),
            Self::Queues(set_up) => set_up.figures(effort, progress, evidence),
            Self::Search(search) => Ok(search.figures(effort, progress, evidence)?),
            Self::Testbed(search) => search.figures(effort, progress, evidence),
            Self::Windows(windows) => Ok(vec![windows.figure(effort, progress)?]),
        }
    }
}

/// Makes figures, after the verdicts on the paper's claims that they allow. A figure that needs a trace is
/// left out if there is none. `progress` gets the number of finished steps and of all steps.
///
/// # Errors
/// [`FigureError`].
pub fn figures(
    which: &[Which],
    effort: Effort,
    trace: Option<&[Shuffle]>,
    progress: Progress<'_>,
) -> Result<Vec<Figure>, FigureError> {
    let wanted = which.iter().filter(|which| trace.is_some() || !which.needs_trace());
    let works: Vec<Work<'_>> = wanted
        .flat_map(|&which| Work::all(which, effort.quick, trace.unwrap_or_default()))
        .collect();
    let total = works.iter().map(|work| work.size(effort)).sum();
    let mut before = 0;
    let mut evidence = Evidence::default();
    let mut figures = Vec::new();
    for work in &works {
        let progress = |done, _| progress(before + done, total);
        figures.extend(work.run(effort, &progress, &mut evidence)?);
        before += work.size(effort);
    }
    Ok(claims::claims(&evidence).into_iter().chain(figures).collect())
}

/// Runs the four schedulers of the figures on one setting, for `tributary-lab optical simulate`.
///
/// # Errors
/// If a workload cannot be scheduled.
pub fn single(case: Case<'_>, seeds: u64, progress: Progress<'_>) -> Result<Figure, Error> {
    let study = Study {
        which: Which::Number(8),
        id: "simulate",
        title: "One setting",
        x: "jobs",
        cases: vec![case],
        schedulers: four(),
        notes: Vec::new(),
    };
    let runs = simulate(&study.cases, &study.schedulers, 0..seeds, progress)?;
    Ok(show(&study, &runs))
}

fn four() -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs::new(inc)));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all
}

/// Both schedulers, with each amount that a job may take.
fn by_take() -> Schedulers {
    let mut all = four();
    for inc in [false, true] {
        all.push(Box::new(Fcfs { take: Take::Enough, ..Fcfs::new(inc) }));
        all.push(Box::new(Tw { inc, reconfigure: true, take: Take::All }));
    }
    all
}

fn without_inc() -> Schedulers {
    vec![Box::new(Fcfs::new(false)), Box::new(Tw::new(false, true))]
}

#[expect(clippy::too_many_lines, reason = "one arm for each figure")]
fn studies(which: Which, quick: bool, trace: &[Shuffle]) -> Vec<Study<'_>> {
    let some = |values: &[f64]| match values {
        [first, .., last] if quick => vec![*first, *last],
        all => all.to_vec(),
    };
    let thousand = if quick { 200 } else { 1_000 };
    let training =
        |x: f64, jobs: usize, setting: Setting| Case { x, setting, jobs, load: Load::Training };
    let by_jobs = |setting: Setting, values: &[f64]| -> Vec<Case<'_>> {
        some(values).into_iter().map(|x| training(x, x as usize, setting.clone())).collect()
    };
    // One parameter varies.
    let vary = |values: &[f64], set: &dyn Fn(&mut Setting, f64)| -> Vec<Case<'_>> {
        let case = |x| {
            let mut setting = Setting::default();
            set(&mut setting, x);
            training(x, thousand, setting)
        };
        some(values).into_iter().map(case).collect()
    };
    let map_reduce = |packed: bool, values: &[f64]| -> Vec<Case<'_>> {
        let setting = Setting { packed, ..Setting::default() };
        let case = |x: f64| {
            let jobs = if quick { x as usize / 10 } else { x as usize };
            Case { x: jobs as f64, setting: setting.clone(), jobs, load: Load::MapReduce(trace) }
        };
        some(values).into_iter().map(case).collect()
    };
    let study = |id, title, x, cases, schedulers, notes: &[&str]| Study {
        which,
        id,
        title,
        x,
        cases,
        schedulers,
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
    };
    // All jobs in the first slot.
    let batch = Setting { arrivals: 1e9, ..Setting::default() };
    let jobs: Vec<f64> =
        JOBS.iter().map(|&jobs| jobs as f64 / if quick { 10.0 } else { 1.0 }).collect();
    match which {
        Which::Number(9) => vec![study(
            "figure9",
            "Figure 9: number of MapReduce jobs",
            "MapReduce jobs",
            map_reduce(false, &[100.0, 200.0, 300.0, 400.0, 500.0]),
            without_inc(),
            &["No switch aggregates a shuffle, so INC-FCFS and INC-TW are the same as these."],
        )],
        Which::Number(10) => vec![study(
            "figure10",
            "Figure 10: number of units",
            "units",
            vary(&[16.0, 32.0, 48.0, 64.0], &|setting, x| setting.units = x as usize),
            four(),
            &[],
        )],
        Which::Number(11) => vec![study(
            "figure11",
            "Figure 11: INC capacity",
            "jobs per switch",
            vary(&[1.0, 2.0, 4.0, 8.0, 16.0], &|setting, x| setting.inc = x as u32),
            four(),
            &[],
        )],
        Which::Number(12) => vec![study(
            "figure12",
            "Figure 12: length of a slot",
            "seconds of a slot",
            vary(&[0.25, 0.5, 1.0, 2.0, 4.0], &|setting, x| setting.slot = x),
            four(),
            &[],
        )],
        Which::Number(_)
        | Which::Table1
        | Which::Sunflow
        | Which::Search
        | Which::Testbed
        | Which::Windows => {
            vec![study(
                "figure8",
                "Figure 8: number of training jobs",
                "training jobs",
                by_jobs(Setting::default(), &jobs),
                four(),
                &[],
            )]
        }
        Which::Batch => vec![study(
            "batch",
            "Figure 8 with all jobs in the first slot",
            "training jobs",
            by_jobs(batch, &jobs),
            four(),
            &[
                "The paper calls the jobs a batch of concurrent jobs, and lets 20 arrive in a second. \
               Without arrivals, CT-BTI is the time of the transfers.",
            ],
        )],
        Which::Take => vec![study(
            "take",
            "Bandwidth that a job may take",
            "training jobs",
            vec![training(thousand as f64, thousand, Setting::default())],
            by_take(),
            &["Each scheduler runs with both readings: a job takes what ends its transfer in the \
               slot, or everything that is free. TW does the first by default, and FCFS the second."],
        )],
        Which::Load => vec![study(
            "load",
            "Data of a worker, as a multiple of the paper's",
            "multiple",
            vary(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], &|setting, x| {
                setting.megabytes.0 *= x;
                setting.megabytes.1 *= x;
                // Update times stay.
                setting.sum_rate *= x;
            }),
            by_take(),
            &["With the paper's data, the batch ends with the last arrivals, whatever the \
               scheduler."],
        )],
        Which::Reconfiguration => vec![study(
            "reconfiguration",
            "Time of a reconfiguration",
            "milliseconds",
            vary(&[0.0, 1.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0], &|setting, x| {
                setting.reconfiguration = x / 1e3;
            }),
            four(),
            &["The paper gives no time; elsewhere we use 20 ms."],
        )],
        Which::Update => vec![study(
            "update",
            "Time of an update",
            "multiple",
            vary(&[0.0, 0.5, 1.0, 2.0, 4.0, 8.0], &|setting, x| setting.sum_rate /= x),
            four(),
            &["The paper gives no time; elsewhere a server sums 100 Gb/s of its workers' data."],
        )],
        Which::Packed => vec![study(
            "packed",
            "Figure 9 with shuffles in few units",
            "MapReduce jobs",
            map_reduce(true, &[100.0, 200.0, 300.0, 400.0, 500.0]),
            without_inc(),
            &["The paper places workers in as few units as possible. Here the trace gives only \
               numbers of mappers and reducers, and their data; in figure 9 also their racks."],
        )],
        Which::Growth => {
            let units = |x: f64| {
                training(x, 4 * thousand / 5, Setting { units: x as usize, ..batch.clone() })
            };
            let few: &[f64] = &[200.0, 400.0, 800.0, 1_600.0, 3_200.0];
            vec![
                study(
                    "growth-jobs",
                    "Processor time by the number of jobs",
                    "training jobs",
                    by_jobs(batch.clone(), if quick { &few[..2] } else { few }),
                    four(),
                    &["All jobs are there in the first slot."],
                ),
                study(
                    "growth-units",
                    "Processor time by the number of units",
                    "units",
                    some(&[8.0, 16.0, 32.0, 64.0]).into_iter().map(units).collect(),
                    four(),
                    &["All jobs are there in the first slot."],
                ),
            ]
        }
    }
}

/// The values of one case and scheduler.
fn spread(runs: &[Run], case: usize, scheduler: usize, value: impl Fn(&Run) -> f64) -> Spread {
    let runs = runs.iter().filter(|run| run.case == case && run.scheduler == scheduler);
    Spread::of(&runs.map(value).collect::<Vec<_>>())
}

fn circuits(run: &Run) -> f64 {
    f64::from(run.reconfigurations)
}

fn ct_bti(run: &Run) -> f64 {
    run.ct_bti
}

/// Processor time of a schedule.
fn milliseconds(run: &Run) -> f64 {
    run.seconds * 1e3
}

fn milliseconds_per_slot(run: &Run) -> f64 {
    milliseconds(run) / run.slots.max(1) as f64
}

fn show(study: &Study<'_>, runs: &[Run]) -> Figure {
    let mut columns =
        vec![study.x, "scheduler", "new circuits", "CT-BTI, s", "processor time per slot, ms"];
    let growth = study.which == Which::Growth;
    if growth {
        columns.push("processor time, ms");
    }
    let mut table = Table::new(columns);
    for (at, case) in study.cases.iter().enumerate() {
        for (index, scheduler) in study.schedulers.iter().enumerate() {
            let digits = if case.x.fract() == 0.0 { 0 } else { 2 };
            let mut row = vec![
                Cell::Number(case.x, digits),
                Cell::text(scheduler.name()),
                Cell::Spread(spread(runs, at, index, circuits), 1),
                Cell::Spread(spread(runs, at, index, ct_bti), 2),
                Cell::Spread(spread(runs, at, index, milliseconds_per_slot), 3),
            ];
            if growth {
                row.push(Cell::Spread(spread(runs, at, index, milliseconds), 1));
            }
            table.push(row);
        }
    }
    let mut notes = study.notes.clone();
    if growth {
        for (index, scheduler) in study.schedulers.iter().enumerate() {
            let points: Vec<(f64, f64)> = (study.cases.iter().enumerate())
                .map(|(at, case)| (case.x, spread(runs, at, index, milliseconds).mean))
                .collect();
            if let Some(exponent) = exponent(&points) {
                let name = scheduler.name();
                notes.push(format!("{name}: processor time grows with the power {exponent:.2}."));
            }
        }
    }
    let chart = |y: &str, value: fn(&Run) -> f64, scale: Scale| {
        let title = format!("{}: {y}", study.title);
        let spread = |at, index| spread(runs, at, index, value);
        let names = study.schedulers.iter().map(|scheduler| scheduler.name().to_owned());
        // A single point is a bar.
        let marks = if study.cases.len() == 1 {
            let bar = |(index, name)| (name, vec![Some(spread(0, index))]);
            let bars = names.enumerate().map(bar).collect();
            Marks::Bars { groups: vec![study.cases[0].x.to_string()], bars }
        } else {
            let line = |(index, name)| {
                let points = study.cases.iter().enumerate();
                let points = points.map(|(at, case)| (case.x, Some(spread(at, index)))).collect();
                (name, points)
            };
            let lines = names.enumerate().map(line).collect();
            Marks::Lines { x: study.x.to_owned(), scales: [scale, scale], lines }
        };
        Chart { title, y: y.to_owned(), marks }
    };
    let charts = if growth {
        vec![chart("processor time, ms", milliseconds, Scale::Logarithmic)]
    } else {
        vec![
            chart("new circuits", circuits, Scale::Linear),
            chart("CT-BTI, s", ct_bti, Scale::Linear),
        ]
    };
    Figure { id: study.id.to_owned(), title: study.title.to_owned(), notes, table, charts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_can_be_made_and_drawn() {
        let trace = tributary_optical::parse("4 1\n1 0 2 0 1 2 2:80 3:8000\n").unwrap();
        let effort = Effort { seeds: 2, quick: true, limit: Duration::from_secs(1) };
        let figures = figures(&Which::ALL, effort, Some(&trace), &|_, _| ()).unwrap();
        for figure in &figures {
            assert!(!figure.table.rows.is_empty(), "{}", figure.id);
            for chart in &figure.charts {
                chart.to_svg().unwrap();
            }
        }
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert!(ids.contains(&"figure8-claims") && ids.contains(&"growth-units"), "{ids:?}");
        assert_eq!(ids[0], "optical-claims");
        let section = |row: &Vec<Cell>| match &row[0] {
            Cell::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let sections: std::collections::BTreeSet<_> =
            figures[0].table.rows.iter().map(section).collect();
        let all = (5..=12).map(|number| format!("fig. {number}")).chain(["table I".to_owned()]);
        let all: std::collections::BTreeSet<String> = all.collect();
        assert_eq!(sections, all, "each figure has claims");
    }

    #[test]
    fn figures_without_a_trace_are_left_out() {
        let effort = Effort { seeds: 1, quick: true, limit: Duration::ZERO };
        let which = [Which::Number(9), Which::Packed, Which::Sunflow];
        assert!(figures(&which, effort, None, &|_, _| ()).unwrap().is_empty());
    }
}
