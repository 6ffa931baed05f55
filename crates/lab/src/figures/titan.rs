//! The figures of Titan's evaluation (§V): 2 to 7 from a trace, 8 to 11 on its testbed, and the paper's
//! claims with verdicts. Not in the paper: whether fragmentation makes jobs wait, which is its
//! premise, and readings of Elasticflow.

mod evidence;

use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::placement::titan::testbed::{Row, Testbed, Unfit};
use tributary_cluster::simulate::{Communication, Options, Outcome, Record, Sample as Instant};
use tributary_cluster::{Cluster, Collective, Job, Shape};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::runs::{Run, RunError, run};
use crate::figures::sweep::Experiment;
use crate::figures::table::{Cell, Table};
use crate::figures::workload::{Drawn, Workload};

use evidence::Reading;

pub use evidence::{Evidence, claims};

/// Titan and its baselines, with their names here and in the paper.
const POLICIES: [(&str, &str); 4] = [
    ("titan", "Titan"),
    ("elasticflow", "Elasticflow"),
    ("tiresias", "Tiresias"),
    ("hived", "HiveD"),
];

/// [Load](crate::figures::load) while jobs are measured. It keeps about 1 200 of 4 096 GPUs busy, which
/// corresponds to the paper's 168 to 174 used machines of eight GPUs.
pub const LOAD: f64 = 0.3;

/// Loads at which waiting is measured.
const LOADS: [f64; 6] = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95];

/// GPUs from which on a job counts as large in the study of waiting: a machine.
const LARGE: u32 = 8;

/// Approximate number of points of a series while jobs are measured.
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

/// What is made together, in the order of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Figures 2 to 7.
    Trace,
    /// Figures 8 to 11.
    Testbed,
    /// Whether fragmentation makes jobs wait.
    Waiting,
    /// Readings of Elasticflow.
    Elasticflow,
}

impl Part {
    /// All, with their names on the command line.
    pub const ALL: [(&'static str, Self); 4] = [
        ("trace", Self::Trace),
        ("testbed", Self::Testbed),
        ("waiting", Self::Waiting),
        ("elasticflow", Self::Elasticflow),
    ];

    /// Makes its figures with this number of measured jobs, and keeps what the claims need.
    ///
    /// # Errors
    ///
    /// If a policy violates a rule of the cluster, or the jobs do not fit on the testbed.
    pub fn make(
        self,
        experiment: &Experiment<'_>,
        jobs: usize,
        evidence: &mut Evidence,
    ) -> Result<Vec<Figure>, Error> {
        Ok(match self {
            Self::Trace => over_time(experiment, jobs, evidence)?,
            Self::Testbed => of_testbed(evidence)?,
            Self::Waiting => vec![waiting(experiment, jobs, evidence)?],
            Self::Elasticflow => vec![readings(experiment, jobs, evidence)?],
        })
    }
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

/// A figure over time.
struct Shown {
    number: &'static str,
    title: &'static str,
    y: &'static str,
    digits: usize,
    metric: Metric,
    /// Divides the metric.
    unit: f64,
    /// What is drawn over time.
    curve: Option<fn(&Instant) -> f64>,
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
        metric: Metric::UsedMachines,
        unit: 1.0,
        curve: Some(|at| f64::from(at.used_machines)),
        paper: Some(([174.0, 334.0, 207.0, 168.0], "2a")),
    },
    Shown {
        number: "3",
        title: "machine hours",
        y: "hours",
        digits: 0,
        metric: Metric::MachineHours,
        unit: 1.0,
        curve: None,
        paper: None,
    },
    Shown {
        number: "4",
        title: "machine fragmentation rate",
        y: "%",
        digits: 1,
        metric: Metric::Fragmentation,
        unit: 0.01,
        curve: Some(|at| 100.0 * at.fragmentation),
        paper: Some(([11.7, 38.1, 19.4, 10.0], "4b")),
    },
    Shown {
        number: "5",
        title: "communication",
        y: "GB an iteration of all jobs",
        digits: 2,
        metric: Metric::Traffic,
        unit: 1e9,
        curve: Some(|at| at.traffic_bytes / 1e9),
        // Elasticflow's value is only in the figure.
        paper: Some(([1.65, f64::NAN, 2.78, 7.03], "5a")),
    },
    Shown {
        number: "6",
        title: "profit rate",
        y: "GPU-hours of computing an hour of a used machine",
        digits: 3,
        metric: Metric::ProfitRate,
        unit: 1.0,
        curve: Some(|at| at.profit_rate),
        paper: Some(([314.0, 256.0, 71.0, 24.0], "6b, in a unit of its own")),
    },
    Shown {
        number: "7",
        title: "total profit",
        y: "profit rates of all arrivals",
        digits: 0,
        metric: Metric::TotalProfit,
        unit: 1.0,
        curve: None,
        // 41.21 %, 316 % and 65 times more, relative to Titan's.
        paper: Some(([1.0, 1.0 / 1.4121, 1.0 / 4.16, 1.0 / 66.0], "7a, over Titan's")),
    },
];

/// Figures 2 to 7.
fn over_time(
    experiment: &Experiment<'_>,
    jobs: usize,
    evidence: &mut Evidence,
) -> Result<Vec<Figure>, RunError> {
    let cluster = cluster();
    let drawn = draw(experiment, jobs, &cluster, LOAD);
    let all: Vec<_> = POLICIES.iter().map(|&(policy, _)| (policy, drawn.as_slice())).collect();
    let outcomes = outcomes(experiment, &cluster, &all)?;
    let per_policy: Vec<&[Outcome]> = outcomes.chunks(drawn.len().max(1)).collect();
    let summaries =
        per_policy.iter().map(|runs| runs.iter().map(Summary::of).collect()).collect::<Vec<_>>();
    let about = about(experiment, jobs, "a load of 0.3");
    let window_s = drawn.first().map_or([0.0; 2], |drawn| drawn.window_s);
    let figures =
        SHOWN.iter().map(|shown| shown.figure(&about, &summaries, &per_policy, window_s)).collect();
    evidence.trace = summaries;
    Ok(figures)
}

fn about(experiment: &Experiment<'_>, jobs: usize, load: &str) -> String {
    format!(
        "{} sections of {}: {jobs} measured jobs each, after as many and before half as many others, on 64 racks of 8 \
         machines of 8 GPUs; halving-doubling, a round at every arrival and end. Times of submission are scaled to {load} \
         while the measured jobs arrive; measures over time are of that time. ± is half of the 95 % confidence interval over \
         the sections. Curves are of the first section.",
        experiment.seeds, experiment.trace.file
    )
}

/// The jobs of each repetition.
fn draw(experiment: &Experiment<'_>, jobs: usize, cluster: &Cluster, load: f64) -> Vec<Drawn> {
    let workload = Workload { jobs, load: Some(load), demand: None, compute: 1.0 };
    let draw = |seed| workload.draw(experiment.trace, cluster, experiment.profiles, seed);
    (0..experiment.seeds).map(draw).collect()
}

/// Runs policies, each with the jobs of all repetitions: the outcomes of the first, and so on.
fn outcomes(
    experiment: &Experiment<'_>,
    cluster: &Cluster,
    policies: &[(&str, &[Drawn])],
) -> Result<Vec<Outcome>, RunError> {
    let mut runs = Vec::new();
    for &(policy, drawn) in policies {
        for Drawn { jobs, window_s } in drawn {
            let options = Options {
                period_s: 0.0,
                communication: Communication::AllReduce(Collective::HalvingDoubling),
                sample_s: Some((window_s[1] - window_s[0]).max(1.0) / SAMPLES),
                window_s: Some(*window_s),
                ..Options::default()
            };
            runs.push(Run { cluster, jobs, policy, options, packets: None });
        }
    }
    run(&runs, experiment.progress)
}

/// Mean waiting time of the jobs of at least so many GPUs, in minutes; `None` if there are none.
fn wait_min(outcome: &Outcome, gpus: u32) -> Option<f64> {
    let large = outcome.records.iter().filter(|record| record.job.gpus >= gpus);
    let waits: Vec<f64> = large.map(Record::wait_s).collect();
    (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64 / 60.0)
}

/// Not in the paper: its premise, that fragmented GPUs make large jobs wait. A policy that never
/// spreads a job over more machines than it needs has all of that waiting; the others spread.
fn waiting(
    experiment: &Experiment<'_>,
    jobs: usize,
    evidence: &mut Evidence,
) -> Result<Figure, RunError> {
    let cluster = cluster();
    let policies =
        || POLICIES.iter().copied().chain([("elasticflow-strict", "strict consolidation")]);
    let mut table = Table::new([
        "load",
        "policy",
        "GPUs busy, %",
        "waiting, min",
        "waiting of jobs from 8 GPUs on, min",
        "fragmentation, %",
        "used machines",
        "JCT, min",
    ]);
    for load in LOADS {
        let drawn = draw(experiment, jobs, &cluster, load);
        let all: Vec<_> = policies().map(|(policy, _)| (policy, drawn.as_slice())).collect();
        let outcomes = outcomes(experiment, &cluster, &all)?;
        for ((_, name), runs) in policies().zip(outcomes.chunks(drawn.len().max(1))) {
            let of = |metric: Metric, unit: f64, digits| {
                let values: Vec<f64> = runs.iter().map(|run| metric.of(run) / unit).collect();
                Cell::Interval(Interval::of(&values), digits)
            };
            let large: Vec<f64> = runs.iter().filter_map(|run| wait_min(run, LARGE)).collect();
            evidence.waiting.push((load, name, large.clone()));
            table.push(vec![
                Cell::Number(load, 2),
                Cell::text(name),
                of(Metric::Utilisation, 0.01, 1),
                of(Metric::AverageWait, 60.0, 1),
                Cell::Interval(Interval::of(&large), 1),
                of(Metric::Fragmentation, 0.01, 1),
                of(Metric::UsedMachines, 1.0, 0),
                of(Metric::AverageJct, 60.0, 0),
            ]);
        }
    }
    Ok(Figure {
        id: "titan-waiting".to_owned(),
        title: "Whether fragmented GPUs make jobs wait".to_owned(),
        notes: vec![
            "§II-A: fragmentation makes large jobs wait. The paper's simulation does not show it: a policy that spreads \
             jobs starts each as soon as there are GPUs anywhere. Strict consolidation never uses more machines for a job \
             than it needs, and so has all the waiting that fragmentation causes; its difference from the others is that."
                .to_owned(),
            about(experiment, jobs, "the load of the first column"),
        ],
        table,
        charts: Vec::new(),
    })
}

/// Not in the paper: which reading of Elasticflow gives the paper's order of used machines.
fn readings(
    experiment: &Experiment<'_>,
    jobs: usize,
    evidence: &mut Evidence,
) -> Result<Figure, RunError> {
    let cluster = cluster();
    let drawn = draw(experiment, jobs, &cluster, LOAD);
    let scaled = |factor: fn(u32) -> u32| -> Vec<Drawn> {
        let scale = |job: &Job| {
            let gpus = factor(job.gpus).clamp(job.gpus, cluster.gpus().max(job.gpus));
            let iterations = job.iterations * f64::from(job.gpus) / f64::from(gpus);
            Job { gpus, iterations, ..job.clone() }
        };
        let scale_all = |drawn: &Drawn| Drawn {
            jobs: drawn.jobs.iter().map(scale).collect(),
            window_s: drawn.window_s,
        };
        drawn.iter().map(scale_all).collect()
    };
    let (rounded, doubled) = (scaled(u32::next_power_of_two), scaled(|gpus| 2 * gpus));
    let of = drawn.as_slice();
    let shown: [(&str, &str, &[Drawn]); 7] = [
        ("Titan", "titan", of),
        ("Elasticflow, best fit (§V-A)", "elasticflow-best-fit", of),
        ("Elasticflow, powers of two held (§II-A; the other figures)", "elasticflow", of),
        ("Elasticflow, powers of two, whole machines", "elasticflow-whole-machines", of),
        ("Elasticflow, powers of two at work: fewer iterations", "elasticflow-best-fit", &rounded),
        ("Elasticflow, twice the GPUs, half the iterations", "elasticflow-best-fit", &doubled),
        ("Elasticflow, own machines for jobs of several GPUs", "elasticflow-dedicated", of),
    ];
    let all: Vec<_> = shown.iter().map(|&(_, policy, drawn)| (policy, drawn)).collect();
    let outcomes = outcomes(experiment, &cluster, &all)?;
    let mut table = Table::new([
        "policy",
        "used machines",
        "over Titan's",
        "fragmentation, %",
        "traffic, GB",
        "waiting, s",
    ]);
    let per_policy: Vec<&[Outcome]> = outcomes.chunks(drawn.len().max(1)).collect();
    let values = |runs: &[Outcome], metric: Metric, unit: f64| -> Vec<f64> {
        runs.iter().map(|run| metric.of(run) / unit).collect()
    };
    let over_titan = |runs: &[Outcome], metric| -> Vec<f64> {
        let titan = per_policy[0].iter().map(|run| Metric::of(metric, run));
        runs.iter().zip(titan).map(|(run, titan)| Metric::of(metric, run) / titan).collect()
    };
    for ((label, ..), runs) in shown.iter().zip(&per_policy) {
        let used = values(runs, Metric::UsedMachines, 1.0);
        let ratios = over_titan(runs, Metric::UsedMachines);
        evidence.readings.push(Reading {
            name: label,
            machines: ratios.clone(),
            fragmentation: over_titan(runs, Metric::Fragmentation),
        });
        let cell = |values: &[f64], digits| Cell::Interval(Interval::of(values), digits);
        table.push(vec![
            Cell::text(*label),
            cell(&used, 1),
            cell(&ratios, 2),
            cell(&values(runs, Metric::Fragmentation, 0.01), 1),
            cell(&values(runs, Metric::Traffic, 1e9), 2),
            cell(&values(runs, Metric::AverageWait, 1.0), 0),
        ]);
    }
    let notes = vec![
        "Paper: Elasticflow uses 334 machines and Titan 174 (figure 2a), 1.92 times as many; fragmentation of 38.1 \
         and 11.7 % (4b)."
            .to_owned(),
        about(experiment, jobs, "a load of 0.3"),
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
    fn figure(
        &self,
        about: &str,
        summaries: &[Vec<Summary>],
        outcomes: &[&[Outcome]],
        [from_s, to_s]: [f64; 2],
    ) -> Figure {
        let Self { number, title, y, digits, metric, unit, .. } = *self;
        let values = |runs: &[Summary]| -> Vec<f64> {
            runs.iter().map(|run| run.get(metric) / unit).collect()
        };
        let first = values(&summaries[0]);
        let paper =
            self.paper.map_or("paper".to_owned(), |(_, which)| format!("paper, figure {which}"));
        let mut table =
            Table::new(["policy".to_owned(), y.to_owned(), "over Titan's".to_owned(), paper]);
        for (at, ((_, name), runs)) in POLICIES.iter().zip(summaries).enumerate() {
            let values = values(runs);
            let ratios: Vec<f64> =
                values.iter().zip(&first).map(|(one, first)| one / first).collect();
            let published =
                self.paper.map(|(values, _)| values[at]).filter(|value| !value.is_nan());
            table.push(vec![
                Cell::text(*name),
                Cell::Interval(Interval::of(&values), digits),
                Cell::Interval(Interval::of(&ratios), 3),
                published.map_or(Cell::None, |value| Cell::Number(value, 3)),
            ]);
        }
        let title = format!("Titan figure {number}: {title}");
        let mut charts = Vec::new();
        if let Some(of) = self.curve {
            let line = |runs: &[Outcome]| {
                let during = runs.first().map_or(&[][..], |run| &run.series[..]);
                let during = during.iter().filter(|at| (from_s..=to_s).contains(&at.time_s));
                let point =
                    |at: &Instant| ((at.time_s - from_s) / 3_600.0, Some(Spread::of(&[of(at)])));
                during.map(point).collect()
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
            id: format!("titan-{number}"),
            title,
            notes: vec![about.to_owned()],
            table,
            charts,
        }
    }
}

/// Figures 8 to 11: a testbed of eight servers of four GPUs.
fn of_testbed(evidence: &mut Evidence) -> Result<Vec<Figure>, Unfit> {
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
    let figures = vec![
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
    ];
    evidence.testbed = rows;
    Ok(figures)
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
