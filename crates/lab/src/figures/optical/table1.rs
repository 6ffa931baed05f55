//! Table I: schedulers beside the exact optimum.

use tributary_cluster::metrics::Spread;
use tributary_optical::{Case, Comparison, Fcfs, Load, Refine, Setting, Tw, Unsolved, compare};

use super::evidence::{Evidence, Exact};
use super::{Effort, Schedulers};
use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

/// Instances with 8 units.
pub(super) struct SetUp {
    id: &'static str,
    name: &'static str,
    note: &'static str,
    pub(super) cases: Vec<Case<'static>>,
}

/// The paper's set-up as far as it is stated, and two in which the network is the bottleneck.
pub(super) fn set_ups(quick: bool) -> Vec<SetUp> {
    let jobs: &[usize] = if quick { &[40, 60] } else { &[40, 50, 60, 80, 100] };
    let set_up = |id, name, setting: Setting, note| {
        let case = |&jobs: &usize| Case {
            x: jobs as f64,
            setting: setting.clone(),
            jobs,
            load: Load::Training,
        };
        let cases = jobs.iter().map(case).collect();
        SetUp { id, name, note, cases }
    };
    let loaded = "Each unit has 16 servers, and each worker 40 times the data, so that CT-BTI is in the \
                  range of the paper's.";
    vec![
        set_up(
            "table1",
            "set-up of figures 8 to 12",
            Setting::small(),
            "The paper does not state the ports and switches of the 8 units; these are those of \
             figures 8 to 12.",
        ),
        set_up("table1-24", "loaded, 24 ports", Setting::loaded(24), loaded),
        set_up("table1-8", "loaded, 8 ports", Setting::loaded(8), loaded),
    ]
}

fn schedulers() -> Schedulers {
    vec![
        Box::new(Fcfs::new(true)),
        Box::new(Tw::new(true, true)),
        Box::new(Tw::new(true, false)),
        Box::new(Refine::default()),
    ]
}

/// The exact model in tables.
const EXACT: &str = "exact";

/// CT-BTI in seconds and new circuits of table I, by jobs and scheduler.
fn paper(jobs: f64, scheduler: &str) -> Option<(f64, f64)> {
    let row = [40.0, 50.0, 60.0, 80.0, 100.0].iter().position(|&row| row == jobs)?;
    let (ends, circuits): (&[f64], &[f64]) = match scheduler {
        EXACT => (&[3.4, 6.9, 14.8], &[1.0; 3]),
        "INC-FCFS" => (&[6.0, 11.2, 23.8, 29.9, 31.8], &[1.0, 1.0, 2.0, 5.0, 11.0]),
        "INC-TW" => (&[4.1, 8.2, 17.7, 19.8, 26.7], &[1.0, 1.0, 2.0, 4.0, 5.0]),
        "INC-TW-NoRecon" => (&[5.1, 9.8, 21.7, 21.7, 30.7], &[0.0; 5]),
        _ => return None,
    };
    Some((*ends.get(row)?, *circuits.get(row)?))
}

/// The values of a scheduler, or of the exact model, in some instances.
struct Row {
    name: String,
    /// Of the exact model: instances with a proven optimum, and all instances.
    proven: Option<(usize, usize)>,
    ct_bti: Spread,
    /// In percent of the optimum.
    above: Spread,
    most_above: f64,
    circuits: Spread,
    milliseconds: Spread,
    most_milliseconds: f64,
}

impl Row {
    fn all(schedulers: &Schedulers, instances: &[&Comparison]) -> Vec<Self> {
        let over = |value: &dyn Fn(&Comparison) -> f64| {
            Spread::of(&instances.iter().map(|instance| value(instance)).collect::<Vec<_>>())
        };
        let most = |value: &dyn Fn(&Comparison) -> f64| {
            instances.iter().map(|instance| value(instance)).fold(0.0, f64::max)
        };
        let row = |(at, name): (usize, &str)| Self {
            name: name.to_owned(),
            proven: None,
            ct_bti: over(&|instance| instance.runs[at].ct_bti),
            above: over(&|instance| 100.0 * instance.above(instance.runs[at].ct_bti)),
            most_above: most(&|instance| 100.0 * instance.above(instance.runs[at].ct_bti)),
            circuits: over(&|instance| f64::from(instance.runs[at].reconfigurations)),
            milliseconds: over(&|instance| 1e3 * instance.runs[at].seconds),
            most_milliseconds: most(&|instance| 1e3 * instance.runs[at].seconds),
        };
        let exact = Self {
            name: EXACT.to_owned(),
            proven: Some((instances.iter().filter(|one| one.is_proven()).count(), instances.len())),
            ct_bti: over(&|instance| instance.completion),
            above: over(&|instance| 100.0 * instance.above(instance.completion)),
            most_above: most(&|instance| 100.0 * instance.above(instance.completion)),
            circuits: over(&|instance| f64::from(instance.reconfigurations)),
            milliseconds: over(&|instance| 1e3 * instance.seconds),
            most_milliseconds: most(&|instance| 1e3 * instance.seconds),
        };
        let names = schedulers.iter().map(|scheduler| scheduler.name()).enumerate();
        std::iter::once(exact).chain(names.map(row)).collect()
    }
}

impl SetUp {
    pub(super) fn figure(
        &self,
        effort: Effort,
        progress: Progress<'_>,
        evidence: &mut Evidence,
    ) -> Result<Figure, Unsolved> {
        let schedulers = schedulers();
        let all = compare(&self.cases, &schedulers, effort.seeds, effort.limit, progress)?;
        let by_case: Vec<(f64, Vec<Row>)> = (self.cases.iter().enumerate())
            .map(|(at, case)| {
                let instances: Vec<&Comparison> =
                    all.iter().filter(|instance| instance.case == at).collect();
                (case.x, Row::all(&schedulers, &instances))
            })
            .collect();
        let notes = vec![
            self.note.to_owned(),
            format!(
                "The exact model runs on {}, starts from the best of the schedules, and has {} s for \
                 each instance. Where it proves no optimum, gaps are those to the proven bound, and \
                 so too large. It does not minimise new circuits.",
                tributary_optical::SOLVER,
                effort.limit.as_secs_f64(),
            ),
            "The paper's δ is relative to the heuristic's CT-BTI; here all gaps are relative to the \
             optimum, the paper's too."
                .to_owned(),
        ];
        let charts = vec![
            self.chart("CT-BTI, s", &by_case, |row| row.ct_bti),
            self.chart("above the optimum, %", &by_case, |row| row.above),
        ];
        let (id, title) = (self.id.to_owned(), self.title());
        let of = |(at, case): (usize, &Case<'_>)| {
            (case.x, all.iter().filter(|one| one.case == at).cloned().collect())
        };
        evidence.table1.push(Exact {
            name: self.name,
            schedulers: schedulers.iter().map(|scheduler| scheduler.name().to_owned()).collect(),
            cases: self.cases.iter().enumerate().map(of).collect(),
        });
        Ok(Figure { id, title, notes, table: table(self.name, &by_case), charts })
    }

    /// A value by the number of jobs, a line for each scheduler.
    fn chart(&self, y: &str, by_case: &[(f64, Vec<Row>)], value: fn(&Row) -> Spread) -> Chart {
        let line = |(at, row): (usize, &Row)| {
            let points = by_case.iter().map(|(x, rows)| (*x, Some(value(&rows[at])))).collect();
            (row.name.clone(), points)
        };
        let marks = Marks::Lines {
            x: "jobs".to_owned(),
            scales: [Scale::Linear; 2],
            lines: by_case[0].1.iter().enumerate().map(line).collect(),
        };
        Chart { title: format!("{}: {y}", self.title()), y: y.to_owned(), marks }
    }

    fn title(&self) -> String {
        format!("Table I: 8 units, {}", self.name)
    }
}

/// The values by the number of jobs, beside the paper's.
fn table(set_up: &str, by_case: &[(f64, Vec<Row>)]) -> Table {
    let mut table = Table::new([
        "set-up",
        "jobs",
        "scheduler",
        "optima proven",
        "CT-BTI, s",
        "above the optimum, %",
        "most, %",
        "new circuits",
        "processor time, ms",
        "most, ms",
        "paper: CT-BTI, s",
        "paper: above the optimum, %",
        "paper: new circuits",
    ]);
    let number =
        |value: Option<f64>, digits| value.map_or(Cell::None, |value| Cell::Number(value, digits));
    for (x, rows) in by_case {
        let optimum = paper(*x, EXACT);
        for row in rows {
            let stated = paper(*x, &row.name);
            let above = stated.zip(optimum).map(|((end, _), (best, _))| 100.0 * (end / best - 1.0));
            let proven = row.proven.map(|(proven, of)| Cell::text(format!("{proven} of {of}")));
            table.push(vec![
                Cell::text(set_up),
                Cell::Number(*x, 0),
                Cell::text(&row.name),
                proven.unwrap_or(Cell::None),
                Cell::Spread(row.ct_bti, 2),
                Cell::Spread(row.above, 1),
                Cell::Number(row.most_above, 1),
                Cell::Spread(row.circuits, 1),
                Cell::Spread(row.milliseconds, 1),
                Cell::Number(row.most_milliseconds, 1),
                number(stated.map(|(end, _)| end), 1),
                number(above, 1),
                number(stated.map(|(_, circuits)| circuits), 0),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_table_has_rows_that_the_paper_has_too() {
        for set_up in set_ups(true) {
            assert_eq!(set_up.cases.len(), 2, "{}", set_up.id);
            assert!(
                set_up.cases.iter().all(|case| paper(case.x, EXACT).is_some()),
                "{}",
                set_up.id
            );
        }
    }
}
