//! A grid over what the paper leaves open: how near each of its regimes is to ratios that the paper states.

use std::fmt;

use tributary_optical::{Fcfs, Take};

use super::evidence::change;
use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::{Finding, Rule, Sample};

/// A way to read FCFS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// How much a job takes.
    take: Take,
    /// Whether no job passes one that gets nothing.
    ordered: bool,
}

/// All of them.
pub(super) const READINGS: [Reading; 4] = [
    Reading { take: Take::All, ordered: false },
    Reading { take: Take::All, ordered: true },
    Reading { take: Take::Enough, ordered: false },
    Reading { take: Take::Enough, ordered: true },
];

impl Reading {
    pub(super) fn fcfs(self, inc: bool) -> Fcfs {
        Fcfs { inc, take: self.take, ordered: self.ordered }
    }

    /// The name of a scheduler of the paper in this reading.
    pub(super) fn name(self, scheduler: &str) -> String {
        let what = match self.take {
            Take::Enough if scheduler.ends_with("FCFS") => ", what it needs",
            _ => "",
        };
        let order = if self.ordered && scheduler.ends_with("FCFS") { ", in order" } else { "" };
        format!("{scheduler}{what}{order}")
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.take {
            Take::All => "everything",
            Take::Enough => "what it needs",
        })?;
        f.write_str(if self.ordered { ", in order" } else { "" })
    }
}

/// A ratio that the paper states.
pub(super) struct Stated {
    /// For the head of a column.
    pub(super) name: String,
    /// The paper's, in percent less.
    pub(super) less: f64,
}

impl Stated {
    /// At least the paper's reduction.
    fn rule(&self) -> Rule {
        Rule::EachBelow(1.0 - self.less / 100.0)
    }

    /// Ours minus the paper's in percentage points. Without a ratio, nothing reaches the paper's.
    fn off_by(&self, samples: &[Sample]) -> f64 {
        let known = samples.first().filter(|sample| !sample.values.is_empty());
        known.map_or(f64::INFINITY, |sample| {
            100.0 * (Interval::of(&sample.values).mean - 1.0) + self.less
        })
    }
}

/// A point of the grid, one way to read FCFS, and how near it is.
pub(super) struct Regime {
    pub(super) case: usize,
    /// Which of the [`READINGS`].
    pub(super) reading: usize,
    /// By ratio: ours minus the paper's in percentage points; above 0 where it is missed.
    pub(super) off: Vec<f64>,
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

/// By ratio: ours minus the paper's in percentage points.
pub(super) fn off(stated: &[Stated], samples: &[Vec<Sample>]) -> Vec<f64> {
    stated.iter().zip(samples).map(|(stated, samples)| stated.off_by(samples)).collect()
}

/// For each of so many equal parts of the grid, the regime that misses least; then the one of all with the nearest
/// numbers.
pub(super) fn nearest(regimes: &[Regime], rows: usize) -> Vec<&Regime> {
    fn least(regimes: &[Regime], by: fn(&Regime) -> f64) -> &Regime {
        regimes.iter().min_by(|a, b| by(a).total_cmp(&by(b))).expect("a grid has regimes")
    }
    let rows = regimes.chunks(regimes.len() / rows);
    let rows = rows.map(|regimes| least(regimes, Regime::missed));
    rows.chain([least(regimes, Regime::apart)]).collect()
}

/// The heads of the columns of [`cells`].
pub(super) fn heads(stated: &[Stated]) -> impl Iterator<Item = String> {
    let ratios = stated.iter().map(|it| format!("{} (paper: −{})", it.name, it.less));
    ratios.chain(["reached", "missed most"].map(str::to_owned))
}

/// The change of each ratio, how many of the paper's are reached, and which is missed by most.
pub(super) fn cells(stated: &[Stated], samples: &[Vec<Sample>]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = samples.iter().map(|samples| change(samples.first())).collect();
    let both = || stated.iter().zip(samples);
    let reached = |(stated, samples): &(&Stated, &Vec<Sample>)| {
        stated.rule().judge(samples) == Finding::Holds
    };
    let count = both().filter(reached).count();
    cells.push(Cell::text(format!("{count} of {}", stated.len())));
    let missed = both().filter(|both| !reached(both));
    let missed = missed.map(|(stated, samples)| (stated.off_by(samples), &stated.name));
    let worst = missed.max_by(|a, b| a.0.total_cmp(&b.0));
    cells.push(worst.map_or(Cell::None, |(off, name)| {
        let by = match off {
            f64::INFINITY => "no circuits".to_owned(),
            off if off <= 0.0 => "within the interval".to_owned(),
            off => format!("by {off:.1} points"),
        };
        Cell::text(format!("{name}: {by}"))
    }));
    cells
}

/// How many regimes with each value of each parameter reach everything, and how near the others come. `values` are those
/// of a regime, by parameter.
pub(super) fn deciding(
    id: &str,
    title: &str,
    parameters: &[&str],
    regimes: &[Regime],
    values: impl Fn(&Regime) -> Vec<String>,
) -> Figure {
    let mut table =
        Table::new(["parameter", "value", "regimes", "reach all", "least missed, points"]);
    for (at, name) in parameters.iter().enumerate() {
        let mut known: Vec<(String, Vec<f64>)> = Vec::new();
        for regime in regimes {
            let value = values(regime).swap_remove(at);
            match known.iter_mut().find(|(known, _)| *known == value) {
                Some((_, missed)) => missed.push(regime.missed()),
                None => known.push((value, vec![regime.missed()])),
            }
        }
        for (value, missed) in known {
            let least = missed.iter().copied().fold(f64::INFINITY, f64::min);
            table.push(vec![
                Cell::text(*name),
                Cell::text(value),
                Cell::Number(missed.len() as f64, 0),
                Cell::Number(missed.iter().filter(|missed| **missed <= 0.0).count() as f64, 0),
                Cell::Number(least.max(0.0), 1),
            ]);
        }
    }
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        notes: vec!["Of the same regimes, with the one workload of the search.".to_owned()],
        table,
        charts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_optical::Scheduler as _;

    #[test]
    fn names_are_those_of_the_schedulers() {
        for reading in READINGS {
            for inc in [false, true] {
                let fcfs = reading.fcfs(inc);
                let paper = if inc { "INC-FCFS" } else { "noINC-FCFS" };
                assert_eq!(reading.name(paper), fcfs.name());
            }
            assert_eq!(reading.name("INC-TW"), "INC-TW");
        }
    }

    #[test]
    fn the_nearest_regimes_miss_least() {
        let regime = |case, off: [f64; 2]| Regime { case, reading: 0, off: off.to_vec() };
        let regimes = [
            regime(0, [5.0, -1.0]),
            regime(1, [-60.0, 3.0]),
            regime(2, [f64::INFINITY, 0.0]),
            regime(3, [4.0, 4.0]),
        ];
        let cases: Vec<usize> = nearest(&regimes, 2).iter().map(|regime| regime.case).collect();
        assert_eq!(cases, [1, 3, 3]);
    }

    #[test]
    fn a_reduction_is_reached_if_its_whole_interval_is() {
        let stated = [("a", 50.0), ("b", 10.0)];
        let stated = stated.map(|(name, less)| Stated { name: name.to_owned(), less });
        let of = |values: &[f64]| vec![Sample { at: String::new(), values: values.to_vec() }];
        let samples = [of(&[0.4, 0.41]), of(&[0.95, 0.96])];
        let last = &cells(&stated, &samples)[2..];
        assert_eq!(last, [Cell::text("1 of 2"), Cell::text("b: by 5.5 points")]);
        assert_eq!(off(&stated, &[of(&[]), of(&[0.9])])[0], f64::INFINITY);
    }
}
