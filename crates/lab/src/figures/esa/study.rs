//! A study: experiments that differ in one parameter and in the protocol, as a table and charts.

use crate::studies::training::Setup;
use tributary_cluster::metrics::Spread;

use super::describe;
use super::measure::{self, Error, Labelled};
use super::measured::{Measured, Quantity};
use super::store::Store;
use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

/// Experiments over one parameter.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// Label of the parameter.
    pub(crate) x: &'static str,
    /// Its values, and how to show each.
    pub(crate) values: Vec<(f64, String)>,
    /// For each value and series.
    pub(crate) setups: Vec<Vec<Setup>>,
    /// The jobs to show; `None` for all.
    pub(crate) jobs: Option<Vec<usize>>,
    pub(crate) quantity: Quantity,
}

/// Panels with the same series.
#[derive(Clone, Debug)]
pub(crate) struct Study {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// Names of the series. Each panel has a set-up for each.
    pub(crate) series: Vec<String>,
    /// Pairs of series whose ratio is shown: how much better the first is.
    pub(crate) ratios: Vec<(usize, usize)>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) notes: Vec<String>,
    /// Whether values of the parameter are numbers on an axis, or names of bars.
    pub(crate) lines: bool,
}

impl Study {
    /// The same experiment with other seeds.
    fn repeated(setup: &Setup, seeds: u64) -> impl Iterator<Item = Setup> {
        (0..seeds).map(|seed| Setup { seed: setup.seed + seed, ..setup.clone() })
    }

    /// All experiments.
    pub(crate) fn experiments(&self, seeds: u64) -> Vec<Labelled> {
        let mut all = Vec::new();
        for panel in &self.panels {
            for ((_, value), setups) in panel.values.iter().zip(&panel.setups) {
                for (series, setup) in self.series.iter().zip(setups) {
                    let label =
                        format!("{}, {}, {} {value}, {series}", self.id, panel.name, panel.x);
                    let label = |setup: Setup| (format!("{label}, seed {}", setup.seed), setup);
                    all.extend(Self::repeated(setup, seeds).map(label));
                }
            }
        }
        all
    }

    /// The figure of experiments that have been run.
    pub(crate) fn figure(&self, seeds: u64, store: &Store) -> Figure {
        let mut columns = vec!["models".to_owned(), String::new()];
        let quantity = self.panels[0].quantity;
        columns[1] = self.panels[0].x.to_owned();
        columns.extend(self.series.iter().map(|name| format!("{name}: {}", quantity.label())));
        let ratio = |&(a, b): &(usize, usize)| format!("{} / {}", self.series[a], self.series[b]);
        columns.extend(self.ratios.iter().map(ratio));
        columns.extend(self.series.iter().map(|name| format!("{name}: by the switch, %")));
        let mut table = Table::new(columns);
        let mut charts = Vec::new();
        for panel in &self.panels {
            let rows = self.rows(panel, seeds, store);
            let mut spreads: Vec<Vec<Spread>> = Vec::new();
            for (row, (_, value)) in rows.iter().zip(&panel.values) {
                let of = |series: usize| -> Vec<f64> {
                    let jobs = panel.jobs.as_deref();
                    row[series].iter().map(|one| panel.quantity.of(one, jobs)).collect()
                };
                let shown: Vec<_> = (0..self.series.len()).map(|at| Spread::of(&of(at))).collect();
                let mut cells = vec![Cell::text(&panel.name), Cell::text(value)];
                cells.extend(shown.iter().map(|&one| Cell::Spread(one, panel.quantity.digits())));
                for &(a, b) in &self.ratios {
                    let gain =
                        |(a, b): (f64, f64)| if panel.quantity.is_gain() { a / b } else { b / a };
                    let pairs: Vec<f64> = of(a).into_iter().zip(of(b)).map(gain).collect();
                    cells.push(Cell::Spread(Spread::of(&pairs), 2));
                }
                for of_series in row {
                    let shares: Vec<f64> =
                        of_series.iter().map(|one| one.in_network * 100.0).collect();
                    cells.push(Cell::Number(Spread::of(&shares).mean, 1));
                }
                table.push(cells);
                spreads.push(shown);
            }
            charts.push(self.chart(panel, &spreads));
        }
        Figure {
            id: self.id.to_owned(),
            title: self.title.clone(),
            notes: self.notes.iter().cloned().chain([self.describe(seeds)]).collect(),
            table,
            charts,
        }
    }

    /// What was run.
    fn describe(&self, seeds: u64) -> String {
        let setups = self.panels.iter().flat_map(|panel| panel.setups.iter().flatten());
        format!("Set-up, with {seeds} seeds: {}", describe::describe(setups))
    }

    /// Results by value, series and seed.
    fn rows<'a>(&self, panel: &Panel, seeds: u64, store: &'a Store) -> Vec<Vec<Vec<&'a Measured>>> {
        let get = |setup: Setup| store.get(&measure::key(&setup)).expect("all have been run");
        let of = |setup: &Setup| Self::repeated(setup, seeds).map(get).collect();
        panel.setups.iter().map(|setups| setups.iter().map(of).collect()).collect()
    }

    fn chart(&self, panel: &Panel, spreads: &[Vec<Spread>]) -> Chart {
        let title = format!("{}: {}", self.title, panel.name);
        let marks = if self.lines {
            let line = |(series, name): (usize, &String)| {
                let points = panel.values.iter().zip(spreads);
                let points = points.map(|((x, _), row)| (*x, Some(row[series]))).collect();
                (name.clone(), points)
            };
            Marks::Lines {
                x: panel.x.to_owned(),
                scales: [Scale::Linear; 2],
                lines: self.series.iter().enumerate().map(line).collect(),
            }
        } else {
            let bar = |(series, name): (usize, &String)| {
                (name.clone(), spreads.iter().map(|row| Some(row[series])).collect())
            };
            Marks::Bars {
                groups: panel.values.iter().map(|(_, value)| value.clone()).collect(),
                bars: self.series.iter().enumerate().map(bar).collect(),
            }
        };
        Chart { title, y: panel.quantity.label().to_owned(), marks }
    }
}

/// Runs studies and makes their figures.
///
/// # Errors
/// [`Error`].
pub(crate) fn run(
    studies: &[Study],
    seeds: u64,
    store: &mut Store,
    progress: Progress<'_>,
) -> Result<Vec<Figure>, Error> {
    let all: Vec<_> = studies.iter().flat_map(|study| study.experiments(seeds)).collect();
    measure::run(&all, store, progress)?;
    Ok(studies.iter().map(|study| study.figure(seeds, store)).collect())
}
