//! A search over what the paper leaves open, for a regime in which all that it states of figure 8 holds.
//!
//! Each regime of a grid is tried with one workload. For each load and capacity of a switch, the nearest regime
//! is then run with other workloads and all numbers of jobs of the figure.

use tributary_optical::{Case, Error, Fcfs, Load, Run, Setting, Take, Tw, simulate};

use super::claims::{RATIOS, Ratio};
use super::evidence::{Evidence, Measured, change};
use super::{Effort, JOBS, Schedulers};
use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::{Finding, Sample};

/// What FCFS may take, whether jobs keep their order, and what that adds to its name.
const READINGS: [(Take, bool, &str); 4] = [
    (Take::All, false, ""),
    (Take::All, true, ", in order"),
    (Take::Enough, false, ", what it needs"),
    (Take::Enough, true, ", what it needs, in order"),
];

/// The first seed of the grid. The figures have other ones.
const SEED: u64 = 1_000;

/// Arrivals that are all in the first slot.
const AT_ONCE: f64 = 1e9;

/// What is searched.
pub(super) struct Search {
    grid: Vec<Case<'static>>,
    /// Numbers of jobs with which the nearest regimes are run.
    jobs: Vec<usize>,
    /// Loads and capacities: one row of the table for each.
    rows: usize,
}

/// A point of the grid, one way to read FCFS, and how near it is.
struct Regime {
    case: usize,
    reading: usize,
    /// By [`RATIOS`]: ours minus the paper's in percentage points; above 0 where it is missed.
    off: Vec<f64>,
}

impl Regime {
    /// By how much the worst ratio is missed; below 0 if none is.
    fn missed(&self) -> f64 {
        self.off.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The greatest difference from the paper, in either direction.
    fn apart(&self) -> f64 {
        self.off.iter().map(|off| off.abs()).fold(0.0, f64::max)
    }
}

/// A parameter: its name, and its value in a regime.
type Parameter = (&'static str, fn(&Setting, usize) -> String);

/// What varies.
const PARAMETERS: [Parameter; 7] = [
    ("jobs per second", |setting, _| match setting.arrivals {
        AT_ONCE => "all at once".to_owned(),
        rate => rate.to_string(),
    }),
    ("jobs per switch", |setting, _| setting.inc.to_string()),
    ("jobs with scattered workers", |setting, _| format!("{:.0} %", 100.0 * setting.scattered)),
    ("GPUs are kept", |setting, _| match setting.lifetime {
        f64::INFINITY => "to the end".to_owned(),
        seconds => format!("{seconds} s"),
    }),
    ("circuits at the start", |setting, _| match setting.uniform {
        true => "uniform".to_owned(),
        false => "none".to_owned(),
    }),
    ("ports", |setting, _| setting.ports.to_string()),
    ("FCFS: a job takes", |_, reading| {
        let (take, ordered, _) = READINGS[reading];
        let what = match take {
            Take::All => "everything",
            Take::Enough => "what it needs",
        };
        format!("{what}{}", if ordered { ", in order" } else { "" })
    }),
];

impl Search {
    pub(super) fn new(quick: bool) -> Self {
        let arrivals: &[f64] = if quick { &[20.0, AT_ONCE] } else { &[20.0, 80.0, 320.0, AT_ONCE] };
        let capacities: &[u32] = if quick { &[4] } else { &[4, 8, 16, 32] };
        let scattered: &[f64] = if quick { &[0.0] } else { &[0.0, 0.1, 0.25, 1.0] };
        let lifetimes: &[f64] = if quick { &[f64::INFINITY] } else { &[f64::INFINITY, 10.0] };
        let ports: &[u32] = if quick { &[24] } else { &[24, 16] };
        let jobs = if quick { 80 } else { 1_000 };
        let mut grid = Vec::new();
        for &arrivals in arrivals {
            for &inc in capacities {
                for &scattered in scattered {
                    for &lifetime in lifetimes {
                        for uniform in [true, false] {
                            grid.extend(ports.iter().map(|&ports| Setting {
                                arrivals,
                                inc,
                                scattered,
                                lifetime,
                                uniform,
                                ports,
                                ..Setting::default()
                            }));
                        }
                    }
                }
            }
        }
        Self {
            grid: grid.into_iter().map(|setting| case(setting, jobs)).collect(),
            jobs: if quick { vec![80] } else { JOBS.to_vec() },
            rows: arrivals.len() * capacities.len(),
        }
    }

    /// Number of runs.
    pub(super) fn size(&self, seeds: u64) -> u64 {
        let tried = self.grid.len() * readings().len();
        let repeated = (self.rows + 1) * self.jobs.len() * 4;
        tried as u64 + repeated as u64 * seeds
    }

    /// The nearest regimes, and which parameters decide.
    ///
    /// # Errors
    /// If a workload cannot be scheduled.
    pub(super) fn figures(
        &self,
        effort: Effort,
        progress: Progress<'_>,
        evidence: &mut Evidence,
    ) -> Result<Vec<Figure>, Error> {
        let total = self.size(effort.seeds);
        let schedulers = readings();
        let runs =
            simulate(&self.grid, &schedulers, SEED..SEED + 1, &|done, _| progress(done, total))?;
        let regimes = self.regimes(&schedulers, &runs);
        let mut before = runs.len() as u64;
        let mut table = Table::new(heads());
        for regime in self.nearest(&regimes) {
            let cases: Vec<Case<'_>> = (self.jobs.iter())
                .map(|&jobs| case(self.grid[regime.case].setting.clone(), jobs))
                .collect();
            let four = four(regime.reading);
            let runs = simulate(&cases, &four, 0..effort.seeds, &|more, _| {
                progress(before + more, total)
            })?;
            before += runs.len() as u64;
            let measured = Measured::new("search", &cases, &four, runs);
            let samples = samples(&measured, regime.reading);
            table.push(self.row(regime, &samples));
            let named = self.named(regime);
            evidence.regimes.push((format!("{}, {} per switch", named[0], named[1]), samples));
        }
        let notes = vec![
            format!(
                "{} regimes: the values of the parameters below in all combinations, with {} jobs each and one \
                 workload. For each load and capacity, the regime that misses the paper's reductions least; the \
                 last row is that whose numbers are nearest to the paper's, more or less. The numbers are from \
                 {} other workloads and all numbers of jobs of figure 8: changes in percent.",
                regimes.len(),
                self.grid[0].jobs,
                effort.seeds
            ),
            "A reduction is reached if the whole interval is at least as far as the paper's."
                .to_owned(),
        ];
        let title = "Figure 8: a search for a regime in which all claims hold".to_owned();
        let nearest = Figure { id: "search".to_owned(), title, notes, table, charts: Vec::new() };
        Ok(vec![nearest, self.deciding(&regimes)])
    }

    /// All regimes of the grid.
    fn regimes(&self, schedulers: &Schedulers, runs: &[Run]) -> Vec<Regime> {
        let mut regimes = Vec::new();
        for (case, runs) in runs.chunks(schedulers.len()).enumerate() {
            let runs = runs.iter().map(|run| Run { case: 0, ..*run }).collect();
            let measured = Measured::new("search", &self.grid[case..=case], schedulers, runs);
            for reading in 0..READINGS.len() {
                let off = samples(&measured, reading);
                let off = RATIOS.iter().zip(&off).map(|(ratio, samples)| off_by(ratio, samples));
                regimes.push(Regime { case, reading, off: off.collect() });
            }
        }
        regimes
    }

    /// For each load and capacity of a switch, the regime that misses least; then that with the nearest numbers.
    fn nearest<'r>(&self, regimes: &'r [Regime]) -> Vec<&'r Regime> {
        let least = |regimes: &'r [Regime], by: fn(&Regime) -> f64| {
            regimes.iter().min_by(|a, b| by(a).total_cmp(&by(b))).expect("a grid has regimes")
        };
        let rows = regimes.chunks(regimes.len() / self.rows);
        let rows = rows.map(|regimes| least(regimes, Regime::missed));
        rows.chain([least(regimes, Regime::apart)]).collect()
    }

    /// The values of the parameters.
    fn named(&self, regime: &Regime) -> Vec<String> {
        let setting = &self.grid[regime.case].setting;
        PARAMETERS.iter().map(|(_, value)| value(setting, regime.reading)).collect()
    }

    fn row(&self, regime: &Regime, samples: &[Vec<Sample>]) -> Vec<Cell> {
        let mut row: Vec<Cell> = self.named(regime).into_iter().map(Cell::Text).collect();
        let both = || RATIOS.iter().zip(samples);
        row.extend(samples.iter().map(|samples| change(samples.first())));
        let reached = |(ratio, samples): &(&Ratio, &Vec<Sample>)| {
            ratio.rule().judge(samples) == Finding::Holds
        };
        let count = both().filter(reached).count();
        row.push(Cell::text(format!("{count} of {}", RATIOS.len())));
        let off =
            |(at, (ratio, samples)): (usize, (&Ratio, &Vec<Sample>))| (off_by(ratio, samples), at);
        let worst = both().enumerate().filter(|(_, both)| !reached(both)).map(off);
        let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0));
        row.push(worst.map_or(Cell::None, |(off, at)| {
            let by = match off {
                f64::INFINITY => "no circuits".to_owned(),
                off if off <= 0.0 => "within the interval".to_owned(),
                off => format!("by {off:.1} points"),
            };
            Cell::text(format!("{}: {by}", RATIOS[at].short()))
        }));
        let fewest = both().filter(|(ratio, _)| ratio.circuits);
        let fewest = fewest.filter_map(|(_, samples)| samples.first()).map(|it| it.at.as_str());
        let few: Vec<&str> = fewest.filter(|at| at.ends_with("(few)")).collect();
        row.push(if few.is_empty() { Cell::None } else { Cell::text(few.join("; ")) });
        row
    }

    /// How many regimes with each value of each parameter reach everything, and how near the others come.
    fn deciding(&self, regimes: &[Regime]) -> Figure {
        let mut table =
            Table::new(["parameter", "value", "regimes", "reach all", "least missed, points"]);
        for (name, value) in PARAMETERS {
            let mut known: Vec<(String, Vec<&Regime>)> = Vec::new();
            for regime in regimes {
                let value = value(&self.grid[regime.case].setting, regime.reading);
                match known.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, those)) => those.push(regime),
                    None => known.push((value, vec![regime])),
                }
            }
            for (value, those) in known {
                let missed = those.iter().map(|regime| regime.missed());
                let least = missed.clone().fold(f64::INFINITY, f64::min);
                table.push(vec![
                    Cell::text(name),
                    Cell::text(value),
                    Cell::Number(those.len() as f64, 0),
                    Cell::Number(missed.filter(|missed| *missed <= 0.0).count() as f64, 0),
                    Cell::Number(least.max(0.0), 1),
                ]);
            }
        }
        Figure {
            id: "search-parameters".to_owned(),
            title: "Figure 8: which parameters decide whether all claims hold".to_owned(),
            notes: vec!["Of the same regimes, with the one workload of the search.".to_owned()],
            table,
            charts: Vec::new(),
        }
    }
}

fn case(setting: Setting, jobs: usize) -> Case<'static> {
    Case { x: jobs as f64, setting, jobs, load: Load::Training }
}

/// Both kinds of TW, and of FCFS in one reading.
fn four(reading: usize) -> Schedulers {
    let (take, ordered, _) = READINGS[reading];
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs { inc, take, ordered }));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all
}

/// Both kinds of TW, and of FCFS in all readings.
fn readings() -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Tw::new(inc, true)));
        for (take, ordered, _) in READINGS {
            all.push(Box::new(Fcfs { inc, take, ordered }));
        }
    }
    all
}

/// By [`RATIOS`], with FCFS in one reading.
fn samples(measured: &Measured, reading: usize) -> Vec<Vec<Sample>> {
    let (_, _, suffix) = READINGS[reading];
    let read = |name: &str| match name.ends_with("FCFS") {
        true => format!("{name}{suffix}"),
        false => name.to_owned(),
    };
    let of = |ratio: &Ratio| ratio.between(measured, &read(ratio.one), &read(ratio.other));
    RATIOS.iter().map(of).collect()
}

/// Ours minus the paper's in percentage points. Without circuits on both sides there is no ratio, and so nothing
/// that reaches the paper's.
fn off_by(ratio: &Ratio, samples: &[Sample]) -> f64 {
    let known = samples.first().filter(|sample| !sample.values.is_empty());
    known.map_or(f64::INFINITY, |sample| {
        100.0 * (Interval::of(&sample.values).mean - 1.0) + ratio.less
    })
}

fn heads() -> Vec<String> {
    let parameters = PARAMETERS.iter().map(|(name, _)| (*name).to_owned());
    let ratios = RATIOS.iter().map(|ratio| format!("{} (paper: −{})", ratio.short(), ratio.less));
    let last = ["reached", "missed most", "ratios of few circuits"].map(str::to_owned);
    parameters.chain(ratios).chain(last).collect()
}
