//! Comparison of policies over one trace, as printed by `tributary-lab place`.

use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::model::Profile;
use tributary_cluster::simulate::{Reason, Record, Sample};
use tributary_cluster::{Job, Plan};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::digest::Digest;
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};

/// The results of a policy on a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The policy.
    pub policy: String,
    /// One run per seed.
    pub runs: Vec<Digest>,
}

impl Compared {
    fn spread(&self, metric: Metric) -> Spread {
        let summaries: Vec<Summary> = self.runs.iter().map(|run| run.summary).collect();
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
        .filter(|one| one.runs.iter().any(|run| !run.distribution.is_empty()))
        .collect();
    if finished.is_empty() {
        return Vec::new();
    }
    let first = |one: &Compared| one.runs.first().map_or(&[][..], |run| &run.series[..]).to_vec();
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
                    .map(|one| (one.policy.clone(), distribution(&one.runs[0])))
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
fn distribution(run: &Digest) -> Vec<(f64, Option<Spread>)> {
    // A logarithmic axis has no zero.
    let points = run.distribution.iter().filter(|&&(time_s, _)| time_s > 0.0);
    points.map(|&(time_s, part)| (time_s / 60.0, Some(Spread::of(&[part])))).collect()
}

/// Every job of every run whose results were kept, one line each in the order of submission, with its
/// work, its times and its servers: all that another run of it needs. The rows of one run are a
/// trace in our own format. Models are identified by their gradient size, and by their computing time
/// unless the trace tells it.
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
        "duration_s",
        "iterations",
        "gradient_bytes",
        "servers",
        "ps",
        "aggregating_racks",
        "outcome",
    ]);
    for one in compared {
        for (seed, run) in one.runs.iter().enumerate() {
            let mut unfinished = run.unfinished.iter().peekable();
            let row = |job: &Job, times: [Cell; 2], place: [Cell; 3], outcome: Cell| {
                let head = [Cell::text(&one.policy), Cell::text(seed.to_string())];
                let rest = place.into_iter().chain([outcome]);
                head.into_iter().chain(work(job, profiles, times)).chain(rest).collect()
            };
            let failed = |(job, reason): &(Job, Reason)| {
                let none = || Cell::None;
                row(job, [none(), none()], [none(), none(), none()], Cell::text(reason.to_string()))
            };
            for Record { job, plan, start_s, end_s, .. } in &run.records {
                while let Some(earlier) = unfinished.next_if(|(other, _)| other.id < job.id) {
                    table.push(failed(earlier));
                }
                let times = [*start_s, *end_s].map(exact);
                table.push(row(job, times, place(plan), Cell::text("finished")));
            }
            unfinished.for_each(|one| table.push(failed(one)));
        }
    }
    table
}

/// A number with all its digits.
fn exact(number: f64) -> Cell {
    Cell::text(number.to_string())
}

/// A job's number, model, times, GPUs, and work.
fn work(job: &Job, profiles: &[Profile], [start, end]: [Cell; 2]) -> [Cell; 9] {
    let large = |profile: &&Profile| profile.gradient_bytes() == job.gradient_bytes;
    let same = profiles.iter().filter(large).find(|profile| profile.compute_s == job.compute_s);
    let model = same.or_else(|| profiles.iter().find(large));
    [
        exact(job.id.0.into()),
        model.map_or(Cell::None, |model| Cell::text(&model.name)),
        exact(job.submit_s),
        start,
        end,
        exact(job.gpus.into()),
        exact(job.ideal_s()),
        exact(job.iterations),
        exact(job.gradient_bytes),
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
    use crate::figures::digest::{Trial, digest};
    use crate::figures::runs::{Run, run};
    use crate::figures::workload::factor;
    use tributary_cluster::model::Profiles;
    use tributary_cluster::placement::{ALL_REDUCE_NAMES, NAMES};
    use tributary_cluster::simulate::Options;
    use tributary_cluster::trace::Generator;
    use tributary_cluster::{Cluster, Shape};

    #[test]
    fn all_policies_run_the_same_jobs_and_no_plan_is_infeasible() {
        let mut trace = Generator::trace(300, 3);
        let shape = Shape { racks: 3, servers_per_rack: 4, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        trace.submissions.retain(|job| job.gpus <= cluster.gpus());
        let profiles = Profiles::netpack();
        let last_s = trace.submissions.last().unwrap().submit_s;
        let stream = trace.stream(profiles.all(), 1);
        let factor = factor(stream, [0.0, last_s], &cluster, 1.0).unwrap();
        trace.submissions.iter_mut().for_each(|job| job.submit_s *= factor);
        let jobs = trace.jobs(profiles.all(), 1);
        let options = Options { sample_s: Some(3_600.0), ..Options::default() };
        let names: Vec<&str> = NAMES.iter().chain(ALL_REDUCE_NAMES).copied().collect();
        let trial = |policy: &&'static str| Trial {
            cluster: &cluster,
            occupants: &[],
            trace: &trace,
            profiles: profiles.all(),
            seed: 1,
            policy,
            options,
            keep: true,
        };
        let trials: Vec<Trial<'_>> = names.iter().map(trial).collect();
        let told = std::sync::atomic::AtomicU64::new(0);
        let digests = digest(&trials, &|done, total| {
            assert!(done <= total && total == jobs.len() as u64 * names.len() as u64);
            told.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
        });
        let digests = digests.unwrap();
        assert_eq!(told.into_inner(), (jobs.len() * names.len()) as u64, "all of it was told");
        let compared: Vec<Compared> = names
            .iter()
            .zip(digests)
            .map(|(policy, digest)| {
                let ran: Vec<&Job> = digest.records.iter().map(|record| &record.job).collect();
                assert_eq!(ran, jobs.iter().collect::<Vec<_>>(), "{policy}");
                Compared { policy: (*policy).to_owned(), runs: vec![digest] }
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
