//! The figures of Titan's evaluation (§V): 2 to 7 from traces, 8 to 11 on its testbed.

use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::placement::titan::testbed::{Row, Testbed, Unfit};
use tributary_cluster::simulate::{Communication, Options, Outcome, Sample};
use tributary_cluster::trace::{Generator, Trace};
use tributary_cluster::{Cluster, Collective, Job, Shape};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::{Run, RunError, run};
use crate::figures::sweep::Experiment;
use crate::figures::table::{Cell, Table};
use crate::figures::workload::Workload;

/// Titan and its baselines, with their names here and in the paper.
const POLICIES: [(&str, &str); 4] = [
    ("titan", "Titan"),
    ("elasticflow", "Elasticflow"),
    ("tiresias", "Tiresias"),
    ("hived", "HiveD"),
];

/// GPU-time of the jobs divided by that of the cluster while they arrive. It keeps about 1 200 of 4
/// 096 GPUs busy, which corresponds to the paper's 168 to 174 used machines of eight GPUs.
pub const LOAD: f64 = 0.3;

/// Approximate number of points of a series while jobs arrive.
const SAMPLES: f64 = 400.0;

/// Why a figure failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A simulation failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The jobs do not fit on the testbed.
    #[error(transparent)]
    Testbed(#[from] Unfit),
}

/// §V-B: 64 racks of 8 machines of 8 GPUs.
fn cluster() -> Cluster {
    Cluster::uniform(&Shape {
        racks: 64,
        servers_per_rack: 8,
        gpus_per_server: 8,
        racks_per_pod: Some(4),
        ..Shape::default()
    })
}

/// All figures by number, from `jobs` jobs of the trace and the same number of generated jobs.
///
/// # Errors
///
/// If a policy violates a rule of the cluster, or the jobs do not fit on the testbed.
pub fn figures(experiment: &Experiment<'_>, jobs: usize) -> Result<Vec<Figure>, Error> {
    let generated = Generator::trace(jobs, 0);
    let mut figures = over_time(experiment, experiment.trace, 'a', jobs)?;
    figures.extend(over_time(experiment, &generated, 'b', jobs)?);
    figures.push(readings(experiment, experiment.trace, jobs)?);
    figures.extend(of_testbed()?);
    Ok(figures)
}

/// The metric of a figure.
#[derive(Clone, Copy)]
enum Measure {
    /// Mean over time, drawn over time.
    Mean(fn(&Sample) -> f64),
    /// Mean over time, multiplied by the duration in hours.
    Hours(fn(&Sample) -> f64),
    /// A metric of the whole run.
    Whole(Metric),
}

impl Measure {
    fn of(self, outcome: &Outcome, last_s: f64) -> f64 {
        let mean = |of: fn(&Sample) -> f64| {
            let during = outcome.series.iter().filter(|at| at.time_s <= last_s).map(of);
            Spread::of(&during.collect::<Vec<_>>()).mean
        };
        match self {
            Self::Mean(of) => mean(of),
            Self::Hours(of) => mean(of) * last_s / 3_600.0,
            Self::Whole(metric) => Summary::of(outcome).get(metric),
        }
    }
}

/// A figure over time.
struct Shown {
    number: &'static str,
    title: &'static str,
    y: &'static str,
    digits: usize,
    measure: Measure,
    /// The paper's numbers in the order of [`POLICIES`], and the part of the figure that contains
    /// them.
    paper: Option<([f64; 4], &'static str)>,
}

const SHOWN: [Shown; 6] = [
    Shown {
        number: "2",
        title: "used machines",
        y: "machines",
        digits: 1,
        measure: Measure::Mean(|at| f64::from(at.used_machines)),
        paper: Some(([174.0, 334.0, 207.0, 168.0], "2a")),
    },
    Shown {
        number: "3",
        title: "machine hours",
        y: "hours",
        digits: 0,
        measure: Measure::Hours(|at| f64::from(at.used_machines)),
        paper: None,
    },
    Shown {
        number: "4",
        title: "machine fragmentation rate",
        y: "%",
        digits: 1,
        measure: Measure::Mean(|at| 100.0 * at.fragmentation),
        paper: Some(([11.7, 38.1, 19.4, 10.0], "4b")),
    },
    Shown {
        number: "5",
        title: "communication",
        y: "GB an iteration of all jobs",
        digits: 2,
        measure: Measure::Mean(|at| at.traffic_bytes / 1e9),
        // Elasticflow's value is only in the figure.
        paper: Some(([1.65, f64::NAN, 2.78, 7.03], "5a")),
    },
    Shown {
        number: "6",
        title: "profit rate",
        y: "GPU-hours of computing an hour of a used machine",
        digits: 3,
        measure: Measure::Mean(|at| at.profit_rate),
        paper: Some(([314.0, 256.0, 71.0, 24.0], "6b, in a unit of its own")),
    },
    Shown {
        number: "7",
        title: "total profit",
        y: "profit rates of all arrivals",
        digits: 0,
        measure: Measure::Whole(Metric::TotalProfit),
        // 41.21 %, 316 % and 65 times more, relative to Titan's.
        paper: Some(([1.0, 1.0 / 1.4121, 1.0 / 4.16, 1.0 / 66.0], "7a, over Titan's")),
    },
];

/// Figures 2 to 7 of one trace.
fn over_time(
    experiment: &Experiment<'_>,
    trace: &Trace,
    part: char,
    jobs: usize,
) -> Result<Vec<Figure>, Error> {
    let cluster = cluster();
    let drawn = draw(experiment, trace, jobs, &cluster);
    let all: Vec<_> = POLICIES.iter().map(|&(policy, _)| (policy, drawn.as_slice())).collect();
    let outcomes = outcomes(experiment, &cluster, &all)?;
    let per_policy: Vec<&[Outcome]> = outcomes.chunks(drawn.len().max(1)).collect();
    let about = format!(
        "{}: {} jobs, {} draws, on 64 racks of 8 machines of 8 GPUs, halving-doubling, a round at every arrival \
         and end; arrivals moved to a load of {LOAD}. All numbers are of the time in which jobs arrive: after \
         it, a few long jobs are left in an empty cluster. The curves are of the first draw.",
        trace.file,
        drawn.first().map_or(0, Vec::len),
        drawn.len()
    );
    let last_s: Vec<f64> = drawn.iter().map(|jobs| last_s(jobs)).collect();
    Ok(SHOWN.iter().map(|shown| shown.figure(part, &about, &per_policy, &last_s)).collect())
}

/// The jobs of each repetition.
fn draw(
    experiment: &Experiment<'_>,
    trace: &Trace,
    jobs: usize,
    cluster: &Cluster,
) -> Vec<Vec<Job>> {
    let workload = Workload { jobs, load: Some(LOAD), demand: None, compute: 1.0 };
    let draw = |seed| workload.draw(trace, cluster, experiment.profiles, seed);
    (0..experiment.seeds).map(draw).collect()
}

/// The time of the last submission.
fn last_s(jobs: &[Job]) -> f64 {
    jobs.last().map_or(0.0, |job| job.submit_s)
}

/// Runs policies, each with the jobs of all repetitions: the outcomes of the first, and so on.
fn outcomes(
    experiment: &Experiment<'_>,
    cluster: &Cluster,
    policies: &[(&str, &[Vec<Job>])],
) -> Result<Vec<Outcome>, RunError> {
    let mut runs = Vec::new();
    for &(policy, drawn) in policies {
        for jobs in drawn {
            let options = Options {
                period_s: 0.0,
                communication: Communication::AllReduce(Collective::HalvingDoubling),
                sample_s: Some(last_s(jobs).max(1.0) / SAMPLES),
                ..Options::default()
            };
            runs.push(Run { cluster, jobs, policy, options, packets: None });
        }
    }
    run(&runs, experiment.progress)
}

/// Not in the paper: which reading of Elasticflow gives the paper's order of used machines.
fn readings(experiment: &Experiment<'_>, trace: &Trace, jobs: usize) -> Result<Figure, RunError> {
    let cluster = cluster();
    let drawn = draw(experiment, trace, jobs, &cluster);
    let scaled = |factor: fn(u32) -> u32| -> Vec<Vec<Job>> {
        let scale = |job: &Job| {
            let gpus = factor(job.gpus).clamp(job.gpus, cluster.gpus().max(job.gpus));
            let iterations = job.iterations * f64::from(job.gpus) / f64::from(gpus);
            Job { gpus, iterations, ..job.clone() }
        };
        drawn.iter().map(|jobs| jobs.iter().map(scale).collect()).collect()
    };
    let (rounded, doubled) = (scaled(u32::next_power_of_two), scaled(|gpus| 2 * gpus));
    let of = drawn.as_slice();
    let shown: [(&str, &str, &[Vec<Job>]); 8] = [
        ("Titan", "titan", of),
        ("Elasticflow, best fit (§V-A)", "elasticflow-best-fit", of),
        ("Elasticflow, powers of two held (§II-A; the other figures)", "elasticflow", of),
        ("Elasticflow, powers of two, whole machines", "elasticflow-whole-machines", of),
        ("Elasticflow, powers of two at work: fewer iterations", "elasticflow-best-fit", &rounded),
        ("Elasticflow, twice the GPUs, half the iterations", "elasticflow-best-fit", &doubled),
        ("Elasticflow, own machines for jobs of several GPUs", "elasticflow-dedicated", of),
        ("Elasticflow, own machines for all jobs", "elasticflow-alone", of),
    ];
    let all: Vec<_> = shown.iter().map(|&(_, policy, jobs)| (policy, jobs)).collect();
    let outcomes = outcomes(experiment, &cluster, &all)?;
    let mut table = Table::new([
        "policy",
        "used machines",
        "over Titan's",
        "fragmentation, %",
        "traffic, GB",
        "waiting, s",
    ]);
    let ends: Vec<f64> = drawn.iter().map(|jobs| last_s(jobs)).collect();
    let per_policy: Vec<&[Outcome]> = outcomes.chunks(drawn.len().max(1)).collect();
    let values = |runs: &[Outcome], measure: Measure| -> Vec<f64> {
        runs.iter().zip(&ends).map(|(run, &last_s)| measure.of(run, last_s)).collect()
    };
    let machines = Measure::Mean(|at| f64::from(at.used_machines));
    let titan = values(per_policy[0], machines);
    for ((label, ..), runs) in shown.iter().zip(&per_policy) {
        let used = values(runs, machines);
        let ratios: Vec<f64> = used.iter().zip(&titan).map(|(one, titan)| one / titan).collect();
        let spread = |measure, digits| Cell::Spread(Spread::of(&values(runs, measure)), digits);
        table.push(vec![
            Cell::text(*label),
            Cell::Spread(Spread::of(&used), 1),
            Cell::Spread(Spread::of(&ratios), 2),
            spread(Measure::Mean(|at| 100.0 * at.fragmentation), 1),
            spread(Measure::Mean(|at| at.traffic_bytes / 1e9), 2),
            spread(Measure::Whole(Metric::AverageWait), 0),
        ]);
    }
    let notes = vec![
        "Paper: Elasticflow uses 334 machines and Titan 174 (figure 2a), 1.92 times as many; fragmentation of 38.1 \
         and 11.7 % (4b)."
            .to_owned(),
        format!(
            "{}: {} jobs, {} draws, at a load of {LOAD}, as in figures 2 to 7.",
            trace.file,
            drawn.first().map_or(0, Vec::len),
            drawn.len()
        ),
    ];
    Ok(Figure {
        id: "titan-elasticflow".to_owned(),
        title: "Used machines by the reading of Elasticflow".to_owned(),
        notes,
        table,
        charts: Vec::new(),
    })
}

impl Shown {
    fn figure(&self, part: char, about: &str, outcomes: &[&[Outcome]], last_s: &[f64]) -> Figure {
        let Self { number, title, y, digits, measure, .. } = *self;
        let values = |runs: &[Outcome]| -> Vec<f64> {
            runs.iter().zip(last_s).map(|(run, &last_s)| measure.of(run, last_s)).collect()
        };
        let first = values(outcomes[0]);
        let paper =
            self.paper.map_or("paper".to_owned(), |(_, which)| format!("paper, figure {which}"));
        let mut table =
            Table::new(["policy".to_owned(), y.to_owned(), "over Titan's".to_owned(), paper]);
        for (at, ((_, name), runs)) in POLICIES.iter().zip(outcomes).enumerate() {
            let values = values(runs);
            let ratios: Vec<f64> =
                values.iter().zip(&first).map(|(one, first)| one / first).collect();
            let published =
                self.paper.map(|(values, _)| values[at]).filter(|value| !value.is_nan());
            table.push(vec![
                Cell::text(*name),
                Cell::Spread(Spread::of(&values), digits),
                Cell::Spread(Spread::of(&ratios), 3),
                published.map_or(Cell::None, |value| Cell::Number(value, 3)),
            ]);
        }
        let title = format!("Titan figure {number}{part}: {title}");
        let mut charts = Vec::new();
        if let Measure::Mean(of) = measure {
            let line = |runs: &[Outcome]| {
                let during = runs[0].series.iter().filter(|at| at.time_s <= last_s[0]);
                during.map(|at| (at.time_s / 3_600.0, Some(Spread::of(&[of(at)])))).collect()
            };
            let lines = POLICIES.iter().zip(outcomes);
            charts.push(Chart {
                title: title.clone(),
                y: y.to_owned(),
                marks: Marks::Lines {
                    x: "time, h".to_owned(),
                    scales: [Scale::Linear, Scale::Linear],
                    lines: lines
                        .map(|((_, name), runs)| ((*name).to_owned(), line(runs)))
                        .collect(),
                },
            });
        }
        Figure {
            id: format!("titan-{number}{part}"),
            title,
            notes: vec![about.to_owned()],
            table,
            charts,
        }
    }
}

/// Figures 8 to 11: a testbed of eight servers of four GPUs.
fn of_testbed() -> Result<Vec<Figure>, Unfit> {
    let testbed = Testbed::default();
    let rows = testbed.rows()?;
    let mut placements =
        Table::new(["model", "workers", "policy", "GPUs by server", "machines in use"]);
    for row in &rows {
        let workers = row.plan.workers();
        let shares = workers.iter().map(|(server, gpus)| format!("s{}: {gpus}", server.0 + 1));
        placements.push(vec![
            Cell::text(row.model),
            Cell::Number(f64::from(row.workers), 0),
            Cell::text(row.policy),
            Cell::text(shares.collect::<Vec<_>>().join(", ")),
            Cell::Number(f64::from(row.machines), 0),
        ]);
    }
    let background: Vec<String> = testbed.background.iter().map(u32::to_string).collect();
    let about = format!(
        "Eight servers of {} GPUs at {} Gb/s with {} background jobs of one GPU; {} epochs of {} images in batches \
         of {}. The paper does not say which server has how many background jobs.",
        testbed.gpus_per_server,
        testbed.link_gbps,
        background.join(", "),
        testbed.epochs,
        testbed.images,
        testbed.batch
    );
    Ok(vec![
        Figure {
            id: "titan-8".to_owned(),
            title: "Titan figure 8: where workers go".to_owned(),
            notes: vec![about.clone()],
            table: placements,
            charts: Vec::new(),
        },
        by_workers("9", "machine hours of a job", "machine-hours", &about, &rows, |row| {
            (row.machine_hours, row.published.machine_hours)
        }),
        by_workers("10", "training throughput", "images/s", &about, &rows, |row| {
            (row.images_per_s, row.published.images_per_s)
        }),
        by_workers("11", "communication in an epoch", "s", &about, &rows, |row| {
            (row.communication_s, row.published.communication_s)
        }),
    ])
}

fn by_workers(
    number: &str,
    what: &str,
    y: &str,
    about: &str,
    rows: &[Row],
    of: impl Fn(&Row) -> (f64, Option<f64>),
) -> Figure {
    let title = format!("Titan figure {number}: {what}");
    let mut table = Table::new(["model", "workers", "policy", y, "paper"]);
    let mut models: Vec<&str> = Vec::new();
    for row in rows {
        let (value, paper) = of(row);
        table.push(vec![
            Cell::text(row.model),
            Cell::Number(f64::from(row.workers), 0),
            Cell::text(row.policy),
            Cell::Number(value, 2),
            paper.map_or(Cell::None, |value| Cell::Number(value, 2)),
        ]);
        if !models.contains(&row.model) {
            models.push(row.model);
        }
    }
    let chart = |model: &str| {
        let of_model = || rows.iter().filter(|row| row.model == model);
        let mut workers: Vec<u32> = of_model().map(|row| row.workers).collect();
        workers.sort_unstable();
        workers.dedup();
        let line = |name: &str| {
            let value = |workers: u32| {
                let row = of_model().find(|row| row.policy == name && row.workers == workers)?;
                Some(Spread::of(&[of(row).0]))
            };
            workers.iter().map(|&workers| (f64::from(workers), value(workers))).collect()
        };
        Chart {
            title: format!("{title}, {model}"),
            y: y.to_owned(),
            marks: Marks::Lines {
                x: "workers".to_owned(),
                scales: [Scale::Linear, Scale::Linear],
                lines: POLICIES.iter().map(|(_, name)| ((*name).to_owned(), line(name))).collect(),
            },
        }
    };
    let charts = models.into_iter().map(chart).collect();
    let notes = vec![about.to_owned()];
    Figure { id: format!("titan-{number}"), title, notes, table, charts }
}
