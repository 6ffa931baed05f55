//! A search over what the paper leaves open, for a regime in which all that it states of figure 8 holds.
//!
//! Each regime of a grid is tried with one workload. For each load and capacity of a switch, the nearest regime
//! is then run with other workloads and all numbers of jobs of the figure.

use tributary_optical::{Case, Error, Load, Run, Setting, Tw, simulate};

use super::claims::{RATIOS, Ratio};
use super::evidence::{Evidence, Measured};
use super::grid::{self, READINGS, Regime, Stated};
use super::{Effort, JOBS, Schedulers};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::Sample;

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
    ("FCFS: a job takes", |_, reading| READINGS[reading].to_string()),
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
        for regime in grid::nearest(&regimes, self.rows) {
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
        let title = "Figure 8: which parameters decide whether all claims hold";
        let names: Vec<&str> = PARAMETERS.iter().map(|(name, _)| *name).collect();
        let deciding = grid::deciding("search-parameters", title, &names, &regimes, |regime| {
            self.named(regime)
        });
        Ok(vec![nearest, deciding])
    }

    /// All regimes of the grid.
    fn regimes(&self, schedulers: &Schedulers, runs: &[Run]) -> Vec<Regime> {
        let mut regimes = Vec::new();
        for (case, runs) in runs.chunks(schedulers.len()).enumerate() {
            let runs = runs.iter().map(|run| Run { case: 0, ..*run }).collect();
            let measured = Measured::new("search", &self.grid[case..=case], schedulers, runs);
            for reading in 0..READINGS.len() {
                let off = grid::off(&stated(), &samples(&measured, reading));
                regimes.push(Regime { case, reading, off });
            }
        }
        regimes
    }

    /// The values of the parameters.
    fn named(&self, regime: &Regime) -> Vec<String> {
        let setting = &self.grid[regime.case].setting;
        PARAMETERS.iter().map(|(_, value)| value(setting, regime.reading)).collect()
    }

    fn row(&self, regime: &Regime, samples: &[Vec<Sample>]) -> Vec<Cell> {
        let mut row: Vec<Cell> = self.named(regime).into_iter().map(Cell::Text).collect();
        row.extend(grid::cells(&stated(), samples));
        let fewest = RATIOS.iter().zip(samples).filter(|(ratio, _)| ratio.circuits);
        let fewest = fewest.filter_map(|(_, samples)| samples.first()).map(|it| it.at.as_str());
        let few: Vec<&str> = fewest.filter(|at| at.ends_with("(few)")).collect();
        row.push(if few.is_empty() { Cell::None } else { Cell::text(few.join("; ")) });
        row
    }
}

fn case(setting: Setting, jobs: usize) -> Case<'static> {
    Case { x: jobs as f64, setting, jobs, load: Load::Training }
}

/// Both kinds of TW, and of FCFS in one reading.
fn four(reading: usize) -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(READINGS[reading].fcfs(inc)));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all
}

/// Both kinds of TW, and of FCFS in all readings.
fn readings() -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Tw::new(inc, true)));
        for reading in READINGS {
            all.push(Box::new(reading.fcfs(inc)));
        }
    }
    all
}

/// By [`RATIOS`], with FCFS in one reading.
fn samples(measured: &Measured, reading: usize) -> Vec<Vec<Sample>> {
    let read = |name: &str| READINGS[reading].name(name);
    let of = |ratio: &Ratio| ratio.between(measured, &read(ratio.one), &read(ratio.other));
    RATIOS.iter().map(of).collect()
}

/// The ratios as they stand in heads of columns.
fn stated() -> Vec<Stated> {
    RATIOS.iter().map(|ratio| Stated { name: ratio.short(), less: ratio.less }).collect()
}

fn heads() -> Vec<String> {
    let parameters = PARAMETERS.iter().map(|(name, _)| (*name).to_owned());
    let last = "ratios of few circuits".to_owned();
    parameters.chain(grid::heads(&stated())).chain([last]).collect()
}
