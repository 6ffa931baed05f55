//! A study: experiments that differ in one parameter and in the protocol.

use crate::studies::training::Setup;

use super::measure::{self, Labelled};
use super::measured::{Measured, Quantity};
use super::store::Store;
use crate::figures::verdict::Sample;

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

/// A number of the paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Published {
    /// It was measured here.
    Exactly(f64),
    /// The greatest of several; the paper does not say where it was measured.
    UpTo(f64),
    /// A bound.
    Below(f64),
}

impl Published {
    pub(crate) fn number(self) -> f64 {
        let (Self::Exactly(number) | Self::UpTo(number) | Self::Below(number)) = self;
        number
    }

    pub(crate) fn shown(self) -> String {
        match self {
            Self::Exactly(number) => number.to_string(),
            Self::UpTo(number) => format!("up to {number}"),
            Self::Below(number) => format!("below {number}"),
        }
    }
}

/// A ratio of two series: how much better the first is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ratio {
    /// Indices of the series.
    pub(crate) of: (usize, usize),
    /// Of which quantity; `None` for that of the panels.
    pub(crate) quantity: Option<Quantity>,
    /// The paper's number in each panel, or no numbers.
    pub(crate) paper: Vec<Option<Published>>,
}

impl Ratio {
    /// A ratio that the paper does not have.
    pub(crate) fn new(first: usize, second: usize) -> Self {
        Self { of: (first, second), quantity: None, paper: Vec::new() }
    }

    /// With the paper's number in each panel.
    pub(crate) fn published(self, paper: &[Published]) -> Self {
        Self { paper: paper.iter().copied().map(Some).collect(), ..self }
    }

    /// The paper's number in a panel.
    pub(crate) fn paper(&self, panel: usize) -> Option<Published> {
        self.paper.get(panel).copied().flatten()
    }
}

/// How a study is drawn.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum View {
    /// Lines over the parameter.
    Lines,
    /// A group of bars for each value.
    Bars,
    /// The table alone: the values have long names.
    Table,
    /// A heat map of the first ratio.
    Grid(Grid),
}

/// Two settings of a heat map. The values of each panel are those of the first row, from left to
/// right, then of the second, and so on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Grid {
    /// Label and values of the rows.
    pub(crate) row: &'static str,
    pub(crate) rows: Vec<String>,
    /// Label and values of the columns.
    pub(crate) column: &'static str,
    pub(crate) columns: Vec<String>,
    /// Number of panels side by side.
    pub(crate) across: usize,
}

/// Panels with the same series.
#[derive(Clone, Debug)]
pub(crate) struct Study {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// Names of the series. Each panel has a set-up for each.
    pub(crate) series: Vec<String>,
    pub(crate) ratios: Vec<Ratio>,
    /// What else the table shows of each series.
    pub(crate) columns: Vec<Quantity>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) notes: Vec<String>,
    pub(crate) view: View,
    /// Repetitions of each experiment.
    pub(crate) seeds: u64,
    /// Sentences that follow from the results.
    pub(crate) conclude: Option<fn(&Results<'_>) -> Vec<String>>,
}

impl Study {
    /// The same experiment with other seeds.
    fn repeated(&self, setup: &Setup) -> impl Iterator<Item = Setup> {
        (0..self.seeds).map(|seed| Setup { seed: setup.seed + seed, ..setup.clone() })
    }

    /// All experiments.
    pub(crate) fn experiments(&self) -> Vec<Labelled> {
        let mut all = Vec::new();
        for panel in &self.panels {
            for ((_, value), setups) in panel.values.iter().zip(&panel.setups) {
                for (series, setup) in self.series.iter().zip(setups) {
                    let label =
                        format!("{}, {}, {} {value}, {series}", self.id, panel.name, panel.x);
                    let label = |setup: Setup| (format!("{label}, seed {}", setup.seed), setup);
                    all.extend(self.repeated(setup).map(label));
                }
            }
        }
        all
    }

    /// The set-ups of all experiments with the first seed.
    pub(crate) fn setups(&self) -> impl Iterator<Item = &Setup> + Clone {
        self.panels.iter().flat_map(|panel| panel.setups.iter().flatten())
    }

    /// "ESA / ATP".
    pub(crate) fn label(&self, ratio: &Ratio) -> String {
        let (first, second) = ratio.of;
        let quantity = ratio.quantity.map(|quantity| format!("{}: ", quantity.label()));
        let [first, second] = [first, second].map(|at| &self.series[at]);
        format!("{}{first} / {second}", quantity.unwrap_or_default())
    }

    /// Whether all panels have the same values of the parameter.
    pub(crate) fn has_one_axis(&self) -> bool {
        self.panels.iter().all(|panel| panel.values == self.panels[0].values)
    }
}

/// A study whose experiments have been run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Results<'a> {
    pub(crate) study: &'a Study,
    pub(crate) store: &'a Store,
}

impl<'a> Results<'a> {
    /// Results of each seed.
    fn measured(&self, panel: usize, value: usize, series: usize) -> Vec<&'a Measured> {
        let get = |setup: Setup| self.store.get(&measure::key(&setup)).expect("all have been run");
        let setup = &self.study.panels[panel].setups[value][series];
        self.study.repeated(setup).map(get).collect()
    }

    /// A quantity for each seed.
    pub(crate) fn quantity(
        &self,
        quantity: Quantity,
        (panel, value, series): (usize, usize, usize),
    ) -> Vec<f64> {
        let jobs = self.study.panels[panel].jobs.as_deref();
        let measured = self.measured(panel, value, series);
        measured.into_iter().map(|one| quantity.of(one, jobs)).collect()
    }

    /// A ratio for each seed.
    pub(crate) fn ratio(&self, ratio: &Ratio, panel: usize, value: usize) -> Vec<f64> {
        let quantity = ratio.quantity.unwrap_or(self.study.panels[panel].quantity);
        let (first, second) = ratio.of;
        let [first, second] =
            [first, second].map(|series| self.quantity(quantity, (panel, value, series)));
        let over = |(first, second): (f64, f64)| {
            if quantity.is_turned() { second / first } else { first / second }
        };
        first.into_iter().zip(second).map(over).collect()
    }

    /// Where a value was measured.
    fn place(&self, panel: usize, value: usize) -> String {
        let Panel { name, x, values, .. } = &self.study.panels[panel];
        match self.study.panels[panel].values.len() {
            1 => name.clone(),
            _ => format!("{name}, {x}: {}", values[value].1),
        }
    }

    /// A ratio at all points, by panel and value of the parameter.
    pub(crate) fn samples(&self, ratio: &Ratio) -> Vec<Vec<Sample>> {
        let panels = self.study.panels.iter().enumerate();
        let of_panel = |(at, panel): (usize, &Panel)| {
            let sample =
                |value| Sample { at: self.place(at, value), values: self.ratio(ratio, at, value) };
            (0..panel.values.len()).map(sample).collect()
        };
        panels.map(of_panel).collect()
    }

    /// The ratio of two series of these names.
    pub(crate) fn ratio_of(&self, first: &str, second: &str) -> Ratio {
        let place = |wanted: &str| self.study.series.iter().position(|name| name == wanted);
        let place = |wanted| place(wanted).expect("a series of the study");
        Ratio::new(place(first), place(second))
    }
}
