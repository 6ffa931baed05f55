//! The figures of NetPack's evaluation (§6): 6 to 13. (14 and 15 are about the switch alone.)
//!
//! Simulator figures are flow-level simulations. Testbed figures use packet-level timing of sums,
//! unless flow-level timing is selected.
//!
//! The paper specifies clusters, models and policies. It does not specify the arrival rate of the
//! trace's jobs, nor the means of its synthetic demands. [`LOAD`] and a mean of two servers are our
//! choices, and the last figure shows the effect of the load.

mod servers;
mod testbed;

use tributary_cluster::metrics::{Metric, Spread};
use tributary_cluster::placement::by_name;
use tributary_cluster::placement::speed::{self, Batch};
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Demand;
use tributary_cluster::{Cluster, Shape};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::RunError;
use crate::figures::sweep::{Experiment, Point, Results};
use crate::figures::table::{Cell, Table};
use crate::figures::workload::Workload;

use testbed::Runs;
pub use testbed::{Testbed, Timing};

/// NetPack and its baselines in most figures.
const POLICIES: [&str; 6] =
    ["netpack", "gpu-balance", "flow-balance", "least-fragmentation", "optimus", "tetris"];

/// The same, and the baseline of figure 13.
const WITH_COMB: [&str; 7] =
    ["netpack", "gpu-balance", "flow-balance", "least-fragmentation", "optimus", "tetris", "comb"];

/// GPU-time of the jobs divided by that of the cluster while they arrive.
pub const LOAD: f64 = 0.9;

/// §6.1: 16 racks of 16 servers of four GPUs.
fn simulated(oversubscription: f64) -> Cluster {
    Cluster::uniform(&Shape { oversubscription, ..Shape::default() })
}

/// The GPU demands of figures 7 and 8: the trace's, and Poisson and normal with a mean of two
/// servers.
fn demands(gpus_per_server: f64) -> [(&'static str, Option<Demand>); 3] {
    let mean = 2.0 * gpus_per_server;
    [
        ("real", None),
        ("Poisson", Some(Demand::Poisson { mean })),
        ("normal", Some(Demand::Normal { mean, deviation: mean / 2.0 })),
    ]
}

fn point(label: impl Into<String>, cluster: Cluster, jobs: usize, demand: Option<Demand>) -> Point {
    let workload = Workload { jobs, load: Some(LOAD), demand, compute: 1.0 };
    Point { label: label.into(), cluster, workload, loaded: None, packets: None }
}

fn of_simulator(jobs: usize) -> Vec<Point> {
    demands(4.0)
        .into_iter()
        .map(|(name, demand)| point(format!("simulated, {name}"), simulated(1.0), jobs, demand))
        .collect()
}

/// All figures by number. Each uses `simulated` jobs on the simulated cluster, except figure 9,
/// which uses four times as many. Figure 6 is only present with packet-level timing on the testbed.
///
/// # Errors
///
/// If a policy violates a rule of the cluster.
pub fn figures(
    experiment: &Experiment<'_>,
    simulated: usize,
    testbed: Testbed,
) -> Result<Vec<Figure>, RunError> {
    let options = Options::default();
    let large = experiment.run(&of_simulator(simulated), &WITH_COMB, options)?;
    let small = testbed.run(experiment, &WITH_COMB)?;
    let both = small.demands.clone().and(large);
    let mut figures: Vec<Figure> = small.agreement().into_iter().collect();
    let notes = [small.about(), set_up(experiment, simulated)];
    figures.extend(overall(&both.only(&POLICIES), &notes));
    figures.push(scale(experiment, simulated)?);
    figures.push(time(experiment.seeds)?);
    figures.push(memory(&small));
    figures.push(oversubscription(experiment, simulated)?);
    figures.push(comb(&both.only(&["netpack", "comb"]), &notes));
    figures.push(loads(experiment, simulated)?);
    figures.extend(servers::figures(experiment, testbed)?);
    Ok(figures)
}

/// Figures 7 and 8: completion time and distribution efficiency.
fn overall(results: &Results, set_up: &[String]) -> Vec<Figure> {
    let paper = "Paper: NetPack takes 13 to 45 % less than the others on the testbed with the real trace, and up \
                 to 78 % less in simulation.";
    let mut notes = vec![paper.to_owned()];
    notes.extend_from_slice(set_up);
    let jct =
        completion("netpack-7", "NetPack figure 7: average job completion time", results, &notes);
    let mut table = Table::new(["workload", "policy", "DE"]);
    for (point, label) in results.labels.iter().enumerate() {
        for (policy, name) in results.policies.iter().enumerate() {
            let spread = results.spread(point, policy, Metric::Efficiency);
            table.push(vec![Cell::text(label), Cell::text(*name), Cell::Spread(spread, 3)]);
        }
    }
    let mut notes = vec![
        "Paper: 13 to 46 % more than the others on the testbed, up to 2.4 times as much in simulation. 1 is the \
         speed of as many lone GPUs; waiting does not count."
            .to_owned(),
    ];
    notes.extend_from_slice(set_up);
    let de = Figure {
        id: "netpack-8".to_owned(),
        title: "NetPack figure 8: average distribution efficiency".to_owned(),
        notes,
        table,
        charts: vec![bars(results, "Distribution efficiency", "DE", |point, policy| {
            results.spread(point, policy, Metric::Efficiency)
        })],
    };
    vec![jct, de]
}

fn set_up(experiment: &Experiment<'_>, jobs: usize) -> String {
    format!(
        "Simulated: {jobs} jobs from {} places of {} on 16 racks of 16 servers of four GPUs, at the level of flows. \
         Arrivals are moved together or apart to a load of {LOAD}; synthetic demands have a mean of two \
         servers. ± is the standard deviation over the places.",
        experiment.seeds, experiment.trace.file
    )
}

/// Completion times as a table and a chart, relative to NetPack's.
fn completion(id: &str, title: &str, results: &Results, notes: &[String]) -> Figure {
    let mut table = Table::new([
        "workload",
        "policy",
        "JCT, min",
        "over NetPack's",
        "of that waiting, min",
        "DE",
    ]);
    for (point, label) in results.labels.iter().enumerate() {
        for (policy, name) in results.policies.iter().enumerate() {
            let minutes = |metric| {
                let Spread { runs, mean, deviation } = results.spread(point, policy, metric);
                Cell::Spread(Spread { runs, mean: mean / 60.0, deviation: deviation / 60.0 }, 1)
            };
            table.push(vec![
                Cell::text(label),
                Cell::text(*name),
                minutes(Metric::AverageJct),
                Cell::Spread(results.over_first(point, policy, Metric::AverageJct), 3),
                minutes(Metric::AverageWait),
                Cell::Spread(results.spread(point, policy, Metric::Efficiency), 3),
            ]);
        }
    }
    let mut notes = notes.to_vec();
    for (point, label) in results.labels.iter().enumerate() {
        if !results.all_finished(point) {
            notes.push(format!("{label}: not every policy finished every job."));
        }
    }
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        notes,
        table,
        charts: vec![bars(results, title, "JCT over NetPack's", |point, policy| {
            results.over_first(point, policy, Metric::AverageJct)
        })],
    }
}

fn bars(results: &Results, title: &str, y: &str, of: impl Fn(usize, usize) -> Spread) -> Chart {
    let bars = results.policies.iter().enumerate().map(|(policy, name)| {
        let all = (0..results.labels.len()).map(|point| Some(of(point, policy)));
        ((*name).to_owned(), all.collect())
    });
    Chart {
        title: title.to_owned(),
        y: y.to_owned(),
        marks: Marks::Bars { groups: results.labels.clone(), bars: bars.collect() },
    }
}

/// Figure 9: the same jobs on clusters of all sizes.
fn scale(experiment: &Experiment<'_>, jobs: usize) -> Result<Figure, RunError> {
    let cluster =
        |servers_per_rack| Cluster::uniform(&Shape { servers_per_rack, ..Shape::default() });
    let points: Vec<Point> = [6, 63, 625]
        .into_iter()
        .map(|servers_per_rack| Point {
            loaded: Some(cluster(6)),
            ..point(
                format!("{} servers", 16 * servers_per_rack),
                cluster(servers_per_rack),
                4 * jobs,
                None,
            )
        })
        .collect();
    let results = experiment.run(&points, &POLICIES, Options::default())?;
    let notes = [
        "Paper: 31 % less than the others on average, with 4 000 jobs on 100 to 10 000 servers in 16 racks."
            .to_owned(),
        format!(
            "{} jobs; they arrive at a load of {LOAD} of the smallest cluster, so that the larger ones are \
             idle but for a part of {:.2} and {:.3}.",
            4 * jobs,
            LOAD * 6.0 / 63.0,
            LOAD * 6.0 / 625.0
        ),
    ];
    Ok(completion(
        "netpack-9",
        "NetPack figure 9: job completion time by size of the cluster",
        &results,
        &notes,
    ))
}

/// Figure 10: time to place jobs.
fn time(seeds: u64) -> Result<Figure, RunError> {
    const POLICY: &str = "netpack";
    /// Servers, racks, and the paper's seconds per job if its text states them.
    const SIZES: [(u32, u32, Option<f64>); 3] =
        [(100, 10, Some(3.25e-4)), (1_000, 50, None), (10_000, 625, Some(1.36e-2))];
    let mut table = Table::new([
        "servers",
        "jobs",
        "demand",
        "placed",
        "distributed",
        "µs a job",
        "s in all",
        "paper, µs a job",
    ]);
    let mut lines = Vec::new();
    for demand in [speed::Demand::Trace, speed::Demand::Spread] {
        let name = match demand {
            speed::Demand::Trace => "as in traces",
            speed::Demand::Spread => "5 to 12 GPUs",
        };
        let mut points = Vec::new();
        for (servers, racks, paper) in SIZES {
            for jobs in [1_000, 4_000] {
                let mut took = Vec::new();
                let mut last = None;
                for seed in 0..seeds {
                    let batch = Batch { servers, racks, oversubscription: 1.0, jobs, demand, seed };
                    let mut policy = by_name(POLICY).expect("it is one of ours");
                    let placed = batch.place(&mut *policy);
                    took.push(placed);
                    last = Some(placed);
                }
                let Some(last) = last else { continue };
                let per_job: Vec<f64> = took.iter().map(|one| one.per_job_s() * 1e6).collect();
                let in_all: Vec<f64> = took.iter().map(|one| one.took.as_secs_f64()).collect();
                table.push(vec![
                    Cell::Number(f64::from(servers), 0),
                    Cell::Number(f64::from(jobs), 0),
                    Cell::text(name),
                    Cell::Number(f64::from(last.jobs), 0),
                    Cell::Number(f64::from(last.distributed), 0),
                    Cell::Spread(Spread::of(&per_job), 1),
                    Cell::Spread(Spread::of(&in_all), 3),
                    paper.map_or(Cell::None, |s| Cell::Number(s * 1e6, 0)),
                ]);
                if jobs == 4_000 {
                    points.push((f64::from(servers), Some(Spread::of(&per_job))));
                }
            }
        }
        lines.push((name.to_owned(), points));
    }
    Ok(Figure {
        id: "netpack-10".to_owned(),
        title: "NetPack figure 10: time that placing takes".to_owned(),
        notes: vec![
            "Batches on an idle cluster of servers with four GPUs, the steady state after each distributed job \
             included; `placed` is how many of the jobs the cluster had room for. The paper's implementation is in Python."
                .to_owned(),
        ],
        table,
        charts: vec![Chart {
            title: "Placing 4 000 jobs".to_owned(),
            y: "µs a job".to_owned(),
            marks: Marks::Lines {
                x: "servers".to_owned(),
                scales: [Scale::Logarithmic, Scale::Logarithmic],
                lines,
            },
        }],
    })
}

/// Figure 11: switch memory.
fn memory(testbed: &Runs) -> Figure {
    let notes = [
        "Paper: 30 to 92 % less than the others, more with less memory; 87 to 92 % less with none.".to_owned(),
        "Peak aggregation throughput of the testbed's switch, Poisson demand: with the real one, nearly all \
         jobs fit on a server and need no switch.".to_owned(),
        testbed.about(),
    ];
    completion(
        "netpack-11",
        "NetPack figure 11: job completion time by switch memory",
        &testbed.memory,
        &notes,
    )
}

/// Figure 12: oversubscribed fabrics.
fn oversubscription(experiment: &Experiment<'_>, jobs: usize) -> Result<Figure, RunError> {
    let demand = demands(4.0)[1].1;
    let points: Vec<Point> = [1.0, 2.0, 5.0, 10.0, 20.0]
        .into_iter()
        .map(|ratio| point(format!("{ratio}:1"), simulated(ratio), jobs, demand))
        .collect();
    let results = experiment.run(&points, &POLICIES, Options::default())?;
    let notes = [
        "Paper: 52 % less than the others with 1:1, 89 % less with 20:1.".to_owned(),
        "Links of a rack's servers over its uplinks; Poisson demand.".to_owned(),
    ];
    Ok(completion(
        "netpack-12",
        "NetPack figure 12: job completion time by oversubscription",
        &results,
        &notes,
    ))
}

/// Figure 13: resources compared one after the other instead of together.
fn comb(results: &Results, set_up: &[String]) -> Figure {
    let mut notes =
        vec!["Paper: NetPack takes up to 63 % less than Comb, on the testbed.".to_owned()];
    notes.extend_from_slice(set_up);
    let title = "NetPack figure 13: job completion time against Comb";
    completion("netpack-13", title, results, &notes)
}

/// Not in the paper: the effect of the load, which it does not specify.
fn loads(experiment: &Experiment<'_>, jobs: usize) -> Result<Figure, RunError> {
    let demand = demands(4.0)[1].1;
    let points: Vec<Point> = [0.3, 0.6, 0.9, 1.2, 2.0]
        .into_iter()
        .map(|load| {
            let mut point = point(format!("{load}"), simulated(1.0), jobs, demand);
            point.workload.load = Some(load);
            point
        })
        .collect();
    let results = experiment.run(&points, &POLICIES, Options::default())?;
    let notes = [format!(
        "The paper does not say how densely jobs arrive. Simulated cluster, Poisson demand; the other figures \
         are at a load of {LOAD}."
    )];
    Ok(completion("netpack-load", "Job completion time by load", &results, &notes))
}
