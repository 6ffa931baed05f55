//! What windows are good for: TW beside FCFS where jobs of both take only what they need.

use tributary_optical::{Case, Error, Fcfs, Load, SIZES, Setting, Take, Tw, simulate};

use super::evidence::{Measured, change, rests_on};
use super::{Effort, Schedulers};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::{Finding, Rule};

/// A gain that counts: 20 % less.
const GAIN: Rule = Rule::EachBelow(0.8);

/// A loss that counts: 20 % more.
const LOSS: Rule = Rule::EachAbove(1.2);

/// What is compared.
pub(super) struct Windows {
    /// By case: arrivals, data, jobs, workers.
    names: Vec<[String; 4]>,
    cases: Vec<Case<'static>>,
}

impl Windows {
    pub(super) fn new(quick: bool) -> Self {
        let multiples: &[f64] = if quick { &[1.0] } else { &[1.0, 8.0, 32.0] };
        let jobs = if quick { 40 } else { 400 };
        // Mixes of jobs: numbers of workers with their weights, and megabytes of a worker.
        let mixes = [
            ("the paper's", SIZES.to_vec(), (102.0, 548.0)),
            ("few large", vec![(2, 9), (16, 1)], (10.0, 2_000.0)),
            ("all large", vec![(16, 1)], (102.0, 548.0)),
        ];
        let mut all = Self { names: Vec::new(), cases: Vec::new() };
        for (when, arrivals) in [("20 per second", 20.0), ("all at once", 1e9)] {
            for &multiple in multiples {
                for (mix, sizes, (low, high)) in &mixes {
                    for (places, scattered) in [("in one unit", 0.0), ("scattered", 1.0)] {
                        let base = Setting::default();
                        let setting = Setting {
                            arrivals,
                            scattered,
                            sizes: sizes.clone(),
                            megabytes: (multiple * low, multiple * high),
                            // Update times stay.
                            sum_rate: multiple * base.sum_rate,
                            ..base
                        };
                        let names = [when, &format!("{multiple}"), mix, places].map(str::to_owned);
                        all.names.push(names);
                        let x = all.cases.len() as f64;
                        all.cases.push(Case { x, setting, jobs, load: Load::Training });
                    }
                }
            }
        }
        all
    }

    /// Number of runs.
    pub(super) fn size(&self, seeds: u64) -> u64 {
        (self.cases.len() * schedulers().len()) as u64 * seeds
    }

    /// Circuits and CT-BTI of TW over those of FCFS.
    ///
    /// # Errors
    /// If a workload cannot be scheduled.
    pub(super) fn figure(&self, effort: Effort, progress: Progress<'_>) -> Result<Figure, Error> {
        let schedulers = schedulers();
        let runs = simulate(&self.cases, &schedulers, 0..effort.seeds, progress)?;
        let measured = Measured::new("windows", &self.cases, &schedulers, runs);
        let mut table = Table::new([
            "arrivals",
            "data, times the paper's",
            "jobs",
            "workers",
            "circuits, noINC, %",
            "circuits, INC, %",
            "with INC",
            "CT-BTI, noINC, %",
            "CT-BTI, INC, %",
            "20 % less",
            "20 % more",
        ]);
        let value = |kind: &str, circuits: bool| {
            let (tw, fcfs) = (format!("{kind}-TW"), format!("{kind}-FCFS, what it needs"));
            measured.each(
                &tw,
                &[fcfs.as_str()],
                match circuits {
                    true => |run| f64::from(run.reconfigurations),
                    false => |run| run.ct_bti,
                },
            )
        };
        let compared = [("noINC", true), ("INC", true), ("noINC", false), ("INC", false)];
        let all = compared.map(|(kind, circuits)| value(kind, circuits));
        for (at, names) in self.names.iter().enumerate() {
            let mut row: Vec<Cell> = names.iter().map(Cell::text).collect();
            row.extend(all.iter().map(|samples| change(samples.get(at))));
            let mean = |name| measured.mean(at, name, |run| f64::from(run.reconfigurations));
            row.insert(6, Cell::text(rests_on(mean("INC-TW"), mean("INC-FCFS, what it needs"))));
            for rule in [GAIN, LOSS] {
                let found = |index: &usize| {
                    rule.judge(std::slice::from_ref(&all[*index][at])) == Finding::Holds
                };
                let found = (0..compared.len()).filter(found).map(|index| {
                    let (kind, circuits) = compared[index];
                    format!("{} ({kind})", if circuits { "circuits" } else { "CT-BTI" })
                });
                let found: Vec<String> = found.collect();
                row.push(if found.is_empty() { Cell::None } else { Cell::text(found.join(", ")) });
            }
            table.push(row);
        }
        Ok(Figure {
            id: "windows".to_owned(),
            title: "TW beside FCFS with equal readings".to_owned(),
            notes: vec![
                format!(
                    "{} jobs on 64 units. Jobs of both schedulers take what they need. Changes of TW against FCFS \
                     in percent. “Few large” jobs: nine of ten have 2 workers and the tenth 16, with 10 to 2 000 MB \
                     each. “All large”: each job has 16.",
                    self.cases[0].jobs
                ),
                "The last columns list changes of at least 20 % over the whole interval."
                    .to_owned(),
            ],
            table,
            charts: Vec::new(),
        })
    }
}

fn schedulers() -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs { take: Take::Enough, ..Fcfs::new(inc) }));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all
}
