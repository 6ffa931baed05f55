//! A search over what the paper leaves open of its testbed, for a regime in which all that it states of figure 7 holds.
//!
//! As in [`search`](super::search), each regime of a grid is tried with one workload, by the schedulers alone, and the
//! nearest ones are run with others.

use tributary_base::on_all_cores;
use tributary_optical::{Online, Testbed, Tw};

use super::claims::{TOTALS, Total};
use super::evidence::Evidence;
use super::grid::{self, READINGS, Regime, Stated};
use super::queues::{SUBJECTS, Subject};
use super::{Effort, FigureError};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::Sample;

/// The first seed of the grid. The figures have other ones.
const SEED: u64 = 1_000;

/// What varies. Figures 6 and 7 have the first value of each.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    /// Seconds of a slot. One job arrives in each, on average.
    slot: f64,
    /// Bits of each worker that a server sums in a second after the transfer.
    server: f64,
    /// Computing that does not overlap the transfer, as a part of both passes.
    computing: f64,
    /// Workers that share a GPU.
    share: u32,
    /// Optical ports of a rack.
    ports: u32,
    /// Iterations of a job.
    iterations: u32,
}

impl Point {
    fn testbed(&self, subject: Subject) -> Testbed {
        Testbed {
            slot: self.slot,
            arrivals: 1.0 / self.slot,
            update: 1.0 / self.server,
            computing: self.computing * subject.computing,
            share: self.share,
            ports: self.ports,
            iterations: self.iterations,
            ..Testbed::new(subject.bits)
        }
    }
}

/// A parameter: its name, and its value at a point.
type Parameter = (&'static str, fn(&Point) -> String);

const PARAMETERS: [Parameter; 6] = [
    ("slot, s", |point| point.slot.to_string()),
    ("the server sums", |point| match point.server {
        f64::INFINITY => "while packets arrive".to_owned(),
        rate => format!("afterwards, {} Gb/s", rate / 1e9),
    }),
    ("computing apart", |point| format!("{:.0} % of the passes", 100.0 * point.computing)),
    ("workers per GPU", |point| point.share.to_string()),
    ("ports", |point| point.ports.to_string()),
    ("iterations", |point| point.iterations.to_string()),
];

/// What is searched.
pub(super) struct Search {
    grid: Vec<Point>,
    /// Numbers of jobs.
    counts: Vec<usize>,
    /// Slots and servers: one row of the table for each.
    rows: usize,
}

/// The total JCT of a scheduler for each number of jobs.
type Totals = Vec<f64>;

impl Search {
    pub(super) fn new(quick: bool) -> Self {
        let slots: &[f64] = if quick { &[1.0] } else { &[1.0, 0.25, 0.1] };
        let servers: &[f64] = &[f64::INFINITY, 100e9, 20e9, 10e9, 5e9];
        let servers = if quick { &servers[..2] } else { servers };
        let computing: &[f64] = if quick { &[0.0] } else { &[0.0, 0.5, 1.0] };
        let shares: &[u32] = if quick { &[1] } else { &[1, 8] };
        let ports: &[u32] = if quick { &[8] } else { &[8, 4, 2] };
        let iterations: &[u32] = if quick { &[2] } else { &[10, 1] };
        let mut grid = Vec::new();
        for &slot in slots {
            for &server in servers {
                for &computing in computing {
                    for &share in shares {
                        for &ports in ports {
                            grid.extend(iterations.iter().map(|&iterations| Point {
                                slot,
                                server,
                                computing,
                                share,
                                ports,
                                iterations,
                            }));
                        }
                    }
                }
            }
        }
        let counts = if quick { vec![4, 8] } else { vec![10, 20, 40, 60] };
        Self { grid, counts, rows: slots.len() * servers.len() }
    }

    /// Number of steps: points with a model and a workload.
    pub(super) fn size(&self, seeds: u64) -> u64 {
        let models = SUBJECTS.len() as u64;
        models * (self.grid.len() as u64 + (self.rows as u64 + 1) * seeds)
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
    ) -> Result<Vec<Figure>, FigureError> {
        let total = self.size(effort.seeds);
        let models = SUBJECTS.len();
        let all = self.grid.len() * models;
        let runs = on_all_cores(all, &|done, _| progress(done, total), |at| {
            self.totals(&self.grid[at / models], SUBJECTS[at % models], SEED)
        })?;
        let mut regimes = Vec::new();
        for (case, runs) in runs.chunks(models).enumerate() {
            let by_model: Vec<&[Vec<Totals>]> = runs.iter().map(std::slice::from_ref).collect();
            for reading in 0..READINGS.len() {
                let off = grid::off(&stated(), &samples(&by_model, reading));
                regimes.push(Regime { case, reading, off });
            }
        }
        let mut table = Table::new(self.heads());
        let mut before = all as u64;
        for regime in grid::nearest(&regimes, self.rows) {
            let point = &self.grid[regime.case];
            let seeds = effort.seeds as usize;
            let runs =
                on_all_cores(models * seeds, &|done, _| progress(before + done, total), |at| {
                    self.totals(point, SUBJECTS[at / seeds], (at % seeds) as u64)
                })?;
            before += runs.len() as u64;
            let by_model: Vec<&[Vec<Totals>]> = runs.chunks(seeds).collect();
            let samples = samples(&by_model, regime.reading);
            let mut row: Vec<Cell> = self.named(regime).into_iter().map(Cell::Text).collect();
            row.extend(grid::cells(&stated(), &samples));
            table.push(row);
            let named = self.named(regime);
            evidence.testbeds.push((format!("slots of {} s, {}", named[0], named[1]), samples));
        }
        let title = "Figure 7: which parameters decide whether all claims hold";
        let names: Vec<&str> = names().collect();
        Ok(vec![
            self.nearest(regimes.len(), effort.seeds, table),
            grid::deciding("testbed-parameters", title, &names, &regimes, |it| self.named(it)),
        ])
    }

    fn nearest(&self, regimes: usize, seeds: u64, table: Table) -> Figure {
        let notes = vec![
            format!(
                "{regimes} regimes: the values of the parameters below in all combinations, with one workload, by the \
                 schedulers alone. For each slot and server, the regime that misses the paper's reductions of total JCT \
                 least; the last row is that whose numbers are nearest to the paper's, more or less. The numbers are \
                 from {seeds} other workloads: changes in percent, means over the numbers of jobs.",
            ),
            "A reduction is reached if the whole interval is at least as far as the paper's."
                .to_owned(),
        ];
        let title = "Figure 7: a search for a regime in which all claims hold".to_owned();
        Figure { id: "testbed-search".to_owned(), title, notes, table, charts: Vec::new() }
    }

    /// Of each of the [`schedulers`].
    fn totals(
        &self,
        point: &Point,
        subject: Subject,
        seed: u64,
    ) -> Result<Vec<Totals>, FigureError> {
        let testbed = point.testbed(subject);
        let mut all = vec![Totals::new(); schedulers().len()];
        for &jobs in &self.counts {
            let requests = testbed.requests(jobs, seed)?;
            for (scheduler, totals) in schedulers().iter().zip(&mut all) {
                let trained = testbed.train(&requests, &**scheduler)?;
                let jobs = requests.iter().zip(&trained.jobs);
                totals.push(jobs.map(|(request, job)| job.end - request.arrival).sum());
            }
        }
        Ok(all)
    }

    /// The values of the parameters.
    fn named(&self, regime: &Regime) -> Vec<String> {
        let point = &self.grid[regime.case];
        let values = PARAMETERS.iter().map(|(_, value)| value(point));
        values.chain([READINGS[regime.reading].to_string()]).collect()
    }

    fn heads(&self) -> Vec<String> {
        names().map(str::to_owned).chain(grid::heads(&stated())).collect()
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|(name, _)| *name).chain(["FCFS: a job takes"])
}

/// Both kinds of TW, and of FCFS in all readings.
fn schedulers() -> Vec<Box<dyn Online>> {
    let mut all: Vec<Box<dyn Online>> = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Tw::new(inc, true)));
        all.extend(READINGS.map(|reading| Box::new(reading.fcfs(inc)) as Box<dyn Online>));
    }
    all
}

/// The sentences of §VII.B on total JCT, for each model.
fn stated() -> Vec<Stated> {
    let of = |(model, subject): (usize, &'static Subject)| {
        TOTALS.iter().map(move |Total { one, other, less, .. }| Stated {
            name: format!("{}, {one} / {other}", subject.name),
            less: less[model],
        })
    };
    SUBJECTS.iter().enumerate().flat_map(of).collect()
}

/// By [`stated`] ratio, from the totals of each model and seed: the mean over numbers of jobs.
fn samples(by_model: &[&[Vec<Totals>]], reading: usize) -> Vec<Vec<Sample>> {
    let names: Vec<String> = schedulers().iter().map(|it| it.name().to_owned()).collect();
    let find = |name: &str| {
        let name = READINGS[reading].name(name);
        names.iter().position(|known| *known == name).expect("one of the schedulers")
    };
    let of = |runs: &&[Vec<Totals>]| {
        let ratio = |it: &Total| {
            let (one, other) = (find(it.one), find(it.other));
            let mean = |totals: &Vec<Totals>| {
                let both = totals[one].iter().zip(&totals[other]);
                both.map(|(one, other)| one / other).sum::<f64>() / totals[one].len() as f64
            };
            vec![Sample {
                at: "all numbers of jobs".to_owned(),
                values: runs.iter().map(mean).collect(),
            }]
        };
        TOTALS.iter().map(ratio).collect::<Vec<_>>()
    };
    by_model.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_point_is_that_of_figures_6_and_7() {
        let first = Search::new(false).grid[0];
        for subject in SUBJECTS {
            assert_eq!(first.testbed(subject), Testbed::new(subject.bits));
        }
    }

    #[test]
    fn ratios_are_those_of_the_named_schedulers() {
        let search = Search { grid: Search::new(true).grid, counts: vec![6], rows: 1 };
        let totals = search.totals(&search.grid[1], SUBJECTS[1], 4).unwrap();
        let alone = |scheduler: &dyn Online| {
            let testbed = search.grid[1].testbed(SUBJECTS[1]);
            let requests = testbed.requests(6, 4).unwrap();
            let trained = testbed.train(&requests, scheduler).unwrap();
            requests.iter().zip(&trained.jobs).map(|(it, job)| job.end - it.arrival).sum::<f64>()
        };
        let runs = [totals];
        let found = samples(&[&runs, &runs], 2);
        let fcfs = READINGS[2].fcfs(true);
        let expected = alone(&Tw::new(true, true)) / alone(&fcfs);
        assert_eq!(TOTALS[3].one, "INC-TW");
        assert!((found[3][0].values[0] - expected).abs() < 1e-12, "{found:?} {expected}");
    }
}
