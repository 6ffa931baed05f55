//! Comparison of policies over one trace, as printed by `tributary-lab place`.

use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::model::Profile;
use tributary_cluster::simulate::{Outcome, Record, Sample};
use tributary_cluster::{Job, Plan};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};

/// Number of points of a curve.
const POINTS: usize = 200;

/// The results of a policy on a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The policy.
    pub policy: String,
    /// One run per seed.
    pub outcomes: Vec<Outcome>,
}

impl Compared {
    fn spread(&self, metric: Metric) -> Spread {
        let summaries: Vec<Summary> = self.outcomes.iter().map(Summary::of).collect();
        Spread::of_metric(&summaries, metric)
    }
}

/// Columns of the table: metric, heading, divisor, digits.
const COLUMNS: [(Metric, &str, f64, usize); 14] = [
    (Metric::Finished, "finished", 1.0, 0),
    (Metric::Unfinished, "stuck", 1.0, 0),
    (Metric::AverageJct, "JCT, min", 60.0, 1),
    (Metric::MedianJct, "median", 60.0, 1),
    (Metric::Jct99, "99th", 60.0, 0),
    (Metric::AverageWait, "wait, min", 60.0, 1),
    (Metric::Makespan, "makespan, h", 3_600.0, 1),
    (Metric::Efficiency, "DE", 1.0, 3),
    (Metric::UsedMachines, "machines", 1.0, 1),
    (Metric::Fragmentation, "fragmented, %", 0.01, 1),
    (Metric::MachineHours, "machine-hours", 1.0, 0),
    (Metric::TotalTraffic, "traffic, TB", 1e12, 1),
    (Metric::ProfitRate, "profit rate", 1.0, 3),
    (Metric::Rejected, "rejected", 1.0, 0),
];

/// Table and charts of a comparison.
#[must_use]
pub fn figure(title: &str, compared: &[Compared]) -> Figure {
    let mut table = Table::new(
        std::iter::once("policy").chain(COLUMNS.iter().map(|&(_, heading, _, _)| heading)),
    );
    for one in compared {
        let mut row = vec![Cell::text(&one.policy)];
        for (metric, _, unit, digits) in COLUMNS {
            let Spread { runs, mean, deviation } = one.spread(metric);
            let spread = Spread { runs, mean: mean / unit, deviation: deviation / unit };
            row.push(match (mean.is_nan(), runs) {
                (true, _) => Cell::None,
                (false, 1) => Cell::Number(spread.mean, digits),
                (false, _) => Cell::Spread(spread, digits),
            });
        }
        table.push(row);
    }
    Figure {
        id: "comparison".to_owned(),
        title: title.to_owned(),
        notes: Vec::new(),
        table,
        charts: charts(compared),
    }
}

fn charts(compared: &[Compared]) -> Vec<Chart> {
    let finished: Vec<&Compared> = compared
        .iter()
        .filter(|one| one.outcomes.iter().any(|run| !run.records.is_empty()))
        .collect();
    if finished.is_empty() {
        return Vec::new();
    }
    let first =
        |one: &Compared| one.outcomes.first().map_or(&[][..], |run| &run.series[..]).to_vec();
    let over_time = |title: &str, y: &str, of: &dyn Fn(&Sample) -> f64| Chart {
        title: title.to_owned(),
        y: y.to_owned(),
        marks: Marks::Lines {
            x: "time, h".to_owned(),
            scales: [Scale::Linear, Scale::Linear],
            lines: finished
                .iter()
                .map(|one| {
                    let series = first(one);
                    let points =
                        series.iter().map(|at| (at.time_s / 3_600.0, Some(Spread::of(&[of(at)]))));
                    (one.policy.clone(), points.collect())
                })
                .collect(),
        },
    };
    let mut charts = vec![
        Chart {
            title: "Average job completion time".to_owned(),
            y: "minutes".to_owned(),
            marks: Marks::Bars {
                groups: vec![String::new()],
                bars: finished
                    .iter()
                    .map(|one| {
                        let Spread { runs, mean, deviation } = one.spread(Metric::AverageJct);
                        let spread =
                            Spread { runs, mean: mean / 60.0, deviation: deviation / 60.0 };
                        (one.policy.clone(), vec![Some(spread)])
                    })
                    .collect(),
            },
        },
        Chart {
            title: "Jobs that complete within a time".to_owned(),
            y: "part of the jobs".to_owned(),
            marks: Marks::Lines {
                x: "job completion time, min".to_owned(),
                scales: [Scale::Logarithmic, Scale::Linear],
                lines: finished
                    .iter()
                    .map(|one| (one.policy.clone(), distribution(&one.outcomes[0].records)))
                    .collect(),
            },
        },
    ];
    if finished.iter().all(|one| !first(one).is_empty()) {
        charts.push(over_time("Used machines", "machines", &|at| f64::from(at.used_machines)));
        charts.push(over_time("Idle GPUs of used machines", "part", &|at| at.fragmentation));
        charts.push(over_time("Waiting jobs", "jobs", &|at| f64::from(at.waiting)));
    }
    charts
}

/// Points of the distribution of completion times.
fn distribution(records: &[Record]) -> Vec<(f64, Option<Spread>)> {
    let mut times: Vec<f64> = records.iter().map(|job| job.jct_s() / 60.0).collect();
    times.sort_by(f64::total_cmp);
    let step = times.len().div_ceil(POINTS).max(1);
    let all = times.len() as f64;
    let points = times.iter().enumerate().filter(|(at, _)| at % step == 0 || at + 1 == times.len());
    points
        // A logarithmic axis has no zero.
        .filter(|(_, time)| **time > 0.0)
        .map(|(at, &time)| (time, Some(Spread::of(&[(at + 1) as f64 / all]))))
        .collect()
}

/// Every job of every run, one line each, with its times and servers. Models are identified by
/// their computing time and gradient size.
#[must_use]
pub fn jobs(compared: &[Compared], profiles: &[Profile]) -> Table {
    let mut table = Table::new([
        "policy",
        "seed",
        "job",
        "model",
        "submit_s",
        "start_s",
        "end_s",
        "gpus",
        "servers",
        "ps",
        "aggregating_racks",
        "outcome",
    ]);
    for one in compared {
        for (seed, run) in one.outcomes.iter().enumerate() {
            let head = |job: &Job, times: [Cell; 2]| head(&one.policy, seed, job, profiles, times);
            for Record { job, plan, start_s, end_s, .. } in &run.records {
                let mut row = head(job, [*start_s, *end_s].map(|at| Cell::Number(at, 1)));
                row.extend(place(plan));
                row.push(Cell::text("finished"));
                table.push(row);
            }
            for (job, reason) in &run.unfinished {
                let mut row = head(job, [Cell::None, Cell::None]);
                row.extend([Cell::None, Cell::None, Cell::None, Cell::text(reason.to_string())]);
                table.push(row);
            }
        }
    }
    table
}

fn head(
    policy: &str,
    seed: usize,
    job: &Job,
    profiles: &[Profile],
    [start, end]: [Cell; 2],
) -> Vec<Cell> {
    let model = profiles.iter().find(|profile| {
        profile.compute_s == job.compute_s && profile.gradient_bytes() == job.gradient_bytes
    });
    vec![
        Cell::text(policy),
        Cell::text(seed.to_string()),
        Cell::text(job.id.0.to_string()),
        model.map_or(Cell::None, |model| Cell::text(&model.name)),
        Cell::Number(job.submit_s, 1),
        start,
        end,
        Cell::text(job.gpus.to_string()),
    ]
}

/// Servers with their number of GPUs, the parameter server's server, and the aggregating racks.
fn place(plan: &Plan) -> [Cell; 3] {
    let listed = |items: Vec<String>| Cell::text(items.join(" "));
    let workers = plan.workers();
    [
        listed(workers.iter().map(|(server, gpus)| format!("{}:{gpus}", server.0)).collect()),
        plan.ps.map_or(Cell::None, |server| Cell::text(server.0.to_string())),
        listed(plan.aggregating.iter().map(|rack| rack.0.to_string()).collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::runs::{Run, run};
    use crate::figures::workload::Workload;
    use tributary_cluster::model::Profiles;
    use tributary_cluster::placement::{ALL_REDUCE_NAMES, NAMES};
    use tributary_cluster::simulate::Options;
    use tributary_cluster::trace::Generator;
    use tributary_cluster::{Cluster, Shape};

    #[test]
    fn all_policies_run_the_same_jobs_and_no_plan_is_infeasible() {
        let trace = Generator::trace(400, 3);
        let shape = Shape { racks: 3, servers_per_rack: 4, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let workload = Workload { jobs: 300, load: Some(1.0), demand: None, compute: 1.0 };
        let jobs = workload.draw(&trace, &cluster, Profiles::netpack().all(), 1).jobs;
        let options = Options { sample_s: Some(3_600.0), ..Options::default() };
        let names: Vec<&str> = NAMES.iter().chain(ALL_REDUCE_NAMES).copied().collect();
        let runs: Vec<Run<'_>> = names
            .iter()
            .map(|policy| Run { cluster: &cluster, jobs: &jobs, policy, options, packets: None })
            .collect();
        let told = std::sync::atomic::AtomicU64::new(0);
        let outcomes = run(&runs, &|done, total| {
            assert!(done <= total && total == jobs.len() as u64 * names.len() as u64);
            told.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
        });
        let outcomes = outcomes.unwrap();
        assert_eq!(told.into_inner(), (jobs.len() * names.len()) as u64, "all of it was told");
        let compared: Vec<Compared> = names
            .iter()
            .zip(outcomes)
            .map(|(policy, outcome)| {
                assert_eq!(outcome.records.len(), jobs.len(), "{policy}");
                Compared { policy: (*policy).to_owned(), outcomes: vec![outcome] }
            })
            .collect();
        let figure = figure("all", &compared);
        assert_eq!((figure.table.rows.len(), figure.charts.len()), (names.len(), 5));
        for chart in &figure.charts {
            chart.to_svg().unwrap();
        }
        let listed = super::jobs(&compared, Profiles::netpack().all());
        assert_eq!(listed.rows.len(), jobs.len() * names.len());
        assert!(listed.rows.iter().all(|row| matches!(row[3], Cell::Text(_))), "models are known");
    }

    #[test]
    fn an_unknown_policy_is_named_before_anything_runs() {
        let cluster = Cluster::uniform(&Shape::default());
        let options = Options::default();
        let one = Run { cluster: &cluster, jobs: &[], policy: "best", options, packets: None };
        let error = run(&[one], &|_, _| ()).unwrap_err().to_string();
        assert!(error.starts_with("no policy is called `best`; there are netpack, "), "{error}");
    }
}
