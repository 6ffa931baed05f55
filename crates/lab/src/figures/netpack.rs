//! The figures of NetPack's evaluation (§6): 6 to 13, and the paper's claims with verdicts. (14 and 15
//! are about the switch alone.)
//!
//! Simulator figures are flow-level simulations. Testbed figures use packet-level timing of sums,
//! unless flow-level timing is selected. Each policy other than NetPack has NetPack's queue and
//! parameter servers apart from workers, so that a figure compares placements; `parts` exchanges each
//! part of a policy alone.
//!
//! The paper specifies clusters, models and policies. It does not specify the arrival rate of the
//! trace's jobs, nor the means of its synthetic demands. [`LOAD`] and a mean of two servers are our
//! choices, and `loads` shows the effect of the load.

mod evidence;
mod parts;
mod servers;
mod testbed;

use std::time::Duration;

use tributary_cluster::metrics::{Metric, Spread};
use tributary_cluster::placement::by_name;
use tributary_cluster::placement::speed::{self, Batch};
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Demand;
use tributary_cluster::{Cluster, Shape};

use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::runs::RunError;
use crate::figures::sweep::{Experiment, Point, Results};
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::Sample;
use crate::figures::workload::Workload;

use testbed::Runs;

pub use evidence::{Deviation, Evidence, claims};
pub use testbed::{Testbed, Timing};

/// NetPack and its baselines in most figures.
const POLICIES: [&str; 6] = [
    "netpack",
    "gpu-balance:knapsack",
    "flow-balance:knapsack",
    "least-fragmentation:knapsack",
    "optimus:knapsack",
    "tetris:knapsack",
];

/// The same, and the baseline of figure 13.
const WITH_COMB: [&str; 7] =
    [POLICIES[0], POLICIES[1], POLICIES[2], POLICIES[3], POLICIES[4], POLICIES[5], "comb:knapsack"];

/// Figure 12: each policy with both rules of racks. NetPack's own is racks first.
const BY_RACKS: [&str; 12] = [
    POLICIES[0],
    "netpack:any-racks",
    POLICIES[1],
    "gpu-balance:knapsack:racks-first",
    POLICIES[2],
    "flow-balance:knapsack:racks-first",
    POLICIES[3],
    "least-fragmentation:knapsack:racks-first",
    POLICIES[4],
    "optimus:knapsack:racks-first",
    POLICIES[5],
    "tetris:knapsack:racks-first",
];

/// [Load](crate::figures::load) while jobs are measured, with the trace's demand.
pub const LOAD: f64 = 0.9;

/// The same with synthetic demands, whose jobs mostly need several servers: summing makes them about half as
/// fast, so that they keep about 0.8 of the GPUs busy.
pub const SPREAD_LOAD: f64 = 0.5;

/// The same where jobs come faster than the cluster can run them.
const SATURATED: f64 = 1.5;

/// How much to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Measured jobs of a run on the simulated cluster.
    pub simulated: usize,
    /// Servers of the largest cluster of figure 10.
    pub servers: u32,
    /// Most jobs of the runs of the whole trace; with fewer than it has, they are of a part of it.
    pub whole: usize,
    /// The testbed.
    pub testbed: Testbed,
}

impl Effort {
    fn about(&self) -> String {
        let Self { simulated, testbed, .. } = self;
        format!(
            "Simulated: {simulated} measured jobs of each section on 16 racks of 16 servers of four GPUs, at the \
             level of flows. {}",
            testbed.about()
        )
    }
}

/// What is made together, in the order of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Figures 6, 7, 8, 11 and 13 on the testbed.
    Testbed,
    /// Figures 7, 8 and 13 in simulation.
    Simulated,
    /// Figure 9.
    Sizes,
    /// Figure 10.
    Time,
    /// Figure 12.
    Racks,
    /// Which part of NetPack decides.
    Parts,
    /// The load, up to saturation.
    Loads,
    /// Ours: parameter servers, loads, demands and computing on the testbed.
    Servers,
}

impl Part {
    /// All, with their names on the command line.
    pub const ALL: [(&'static str, Self); 8] = [
        ("testbed", Self::Testbed),
        ("simulated", Self::Simulated),
        ("sizes", Self::Sizes),
        ("time", Self::Time),
        ("racks", Self::Racks),
        ("parts", Self::Parts),
        ("loads", Self::Loads),
        ("servers", Self::Servers),
    ];

    /// Whether the paper has it, or the verdicts need it.
    #[must_use]
    pub fn is_usual(self) -> bool {
        self != Self::Servers
    }

    /// Makes its figures, and keeps what the claims need.
    ///
    /// # Errors
    ///
    /// If a policy violates a rule of the cluster.
    pub fn make(
        self,
        experiment: &Experiment<'_>,
        effort: &Effort,
        evidence: &mut Evidence,
    ) -> Result<Vec<Figure>, RunError> {
        let jobs = effort.simulated;
        let notes = [sections(experiment), effort.about()];
        Ok(match self {
            Self::Testbed => {
                let runs = effort.testbed.run(experiment, &WITH_COMB)?;
                let mut figures: Vec<Figure> = runs.agreement().into_iter().collect();
                figures.extend(overall("testbed", &runs.demands, &notes));
                figures.push(memory(&runs, &notes));
                evidence.testbed = Some([runs.demands, runs.memory]);
                figures
            }
            Self::Simulated => {
                let points = of_simulator(jobs);
                let results = experiment.run(&points, &WITH_COMB, Options::default())?;
                let figures = overall("simulated", &results, &notes);
                evidence.simulated = Some(results.only(&POLICIES));
                figures
            }
            Self::Sizes => {
                let results = experiment.run(&of_sizes(jobs), &POLICIES, Options::default())?;
                let figure = sizes(&results, &notes);
                evidence.sizes = Some(results);
                vec![figure]
            }
            Self::Time => {
                let (figure, samples) = time(experiment.seeds, effort.servers)?;
                evidence.placing_s = samples;
                vec![figure]
            }
            Self::Racks => {
                let results = experiment.run(&of_racks(jobs), &BY_RACKS, Options::default())?;
                let figure = racks(&results, &notes);
                evidence.racks = Some(results);
                vec![figure]
            }
            Self::Parts => {
                let results = parts_of(experiment, effort)?;
                let figure = parts::figure(&results, effort);
                evidence.parts = Some(results);
                vec![figure]
            }
            Self::Loads => vec![loads(experiment, jobs, &notes)?],
            Self::Servers => servers::figures(experiment, effort.testbed)?,
        })
    }
}

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
    let load = Some(if demand.is_some() { SPREAD_LOAD } else { LOAD });
    let workload = Workload { jobs, load, demand, compute: 1.0 };
    Point { label: label.into(), cluster, workload, loaded: None, packets: None }
}

fn of_simulator(jobs: usize) -> Vec<Point> {
    demands(4.0)
        .into_iter()
        .map(|(name, demand)| point(format!("simulated, {name}"), simulated(1.0), jobs, demand))
        .collect()
}

/// Figures 7, 8 and 13: completion time and distribution efficiency.
fn overall(on: &str, results: &Results, set_up: &[String]) -> Vec<Figure> {
    let notes = |paper: &str| -> Vec<String> {
        std::iter::once(paper.to_owned()).chain(set_up.iter().cloned()).collect()
    };
    let jct = completion(
        &format!("netpack-7-{on}"),
        &format!("NetPack figures 7 and 13, {on}: average job completion time"),
        results,
        &notes(
            "Paper: NetPack takes 13 to 45 % less than the others on the testbed with the real trace, up to 78 % less in \
             simulation, and up to 63 % less than Comb.",
        ),
    );
    let mut table = Table::new(["workload", "policy", "DE", "NetPack's over it"]);
    for (point, label) in results.labels.iter().enumerate() {
        for (policy, name) in results.policies.iter().enumerate() {
            let one = results.interval(point, policy, Metric::Efficiency);
            let over = results.turned_over_first(point, policy, Metric::Efficiency);
            table.push(vec![
                Cell::text(label),
                Cell::text(*name),
                Cell::Interval(one, 3),
                Cell::Interval(over, 2),
            ]);
        }
    }
    let de = Figure {
        id: format!("netpack-8-{on}"),
        title: format!("NetPack figure 8, {on}: average distribution efficiency"),
        notes: notes(
            "Paper: 13 to 46 % more than the others on the testbed, up to 2.4 times as much in simulation. 1 is the \
             speed of as many lone GPUs; waiting does not count.",
        ),
        table,
        charts: vec![bars(results, "Distribution efficiency", "DE", |point, policy| {
            results.spread(point, policy, Metric::Efficiency)
        })],
    };
    vec![jct, de]
}

fn sections(experiment: &Experiment<'_>) -> String {
    format!(
        "{} sections of {}. ± is half of the 95 % confidence interval over the sections. Times of submission are scaled \
         until the jobs would keep {:.0} % of the GPUs busy while those that are measured arrive ({:.0} % with synthetic \
         demands, which have a mean of two servers), if none waited and summing took no time; as many jobs come before \
         the measured ones, and half as many after them. “Busy” is what was reached.",
        experiment.seeds,
        experiment.trace.file,
        100.0 * LOAD,
        100.0 * SPREAD_LOAD
    )
}

/// The columns of [`completion_cells`].
fn completion_columns() -> [&'static str; 7] {
    ["policy", "JCT, min", "over NetPack's", "waiting, min", "DE", "GPUs busy, %", "unfinished"]
}

fn completion_cells(results: &Results, point: usize, policy: usize) -> Vec<Cell> {
    let scaled = |metric, unit: f64, digits| {
        let Interval { mean, half } = results.interval(point, policy, metric);
        Cell::Interval(Interval { mean: mean / unit, half: half.map(|half| half / unit) }, digits)
    };
    vec![
        Cell::text(results.policies[policy]),
        scaled(Metric::AverageJct, 60.0, 1),
        Cell::Interval(results.over_first(point, policy, Metric::AverageJct), 3),
        scaled(Metric::AverageWait, 60.0, 1),
        scaled(Metric::Efficiency, 1.0, 3),
        scaled(Metric::Utilisation, 0.01, 1),
        Cell::Number(results.interval(point, policy, Metric::Unfinished).mean, 1),
    ]
}

/// Completion times as a table and a chart, relative to NetPack's.
fn completion(id: &str, title: &str, results: &Results, notes: &[String]) -> Figure {
    let mut table = Table::new(std::iter::once("workload").chain(completion_columns()));
    for (point, label) in results.labels.iter().enumerate() {
        for policy in 0..results.policies.len() {
            let mut row = vec![Cell::text(label)];
            row.extend(completion_cells(results, point, policy));
            table.push(row);
        }
    }
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        notes: notes.to_vec(),
        table,
        charts: vec![bars(results, title, "JCT over NetPack's", |point, policy| {
            Spread::of(&results.ratios(point, policy, Metric::AverageJct))
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
fn of_sizes(jobs: usize) -> Vec<Point> {
    let cluster =
        |servers_per_rack| Cluster::uniform(&Shape { servers_per_rack, ..Shape::default() });
    let of = |servers_per_rack| Point {
        loaded: Some(cluster(6)),
        ..point(format!("{} servers", 16 * servers_per_rack), cluster(servers_per_rack), jobs, None)
    };
    [6, 63, 625].into_iter().map(of).collect()
}

fn sizes(results: &Results, set_up: &[String]) -> Figure {
    let mut notes = vec![
        "Paper: 31 % less than the others on average, with 4 000 jobs on 100 to 10 000 servers in 16 racks.".to_owned(),
        "The load is that of the smallest cluster, so that the larger ones are nearly idle.".to_owned(),
    ];
    notes.extend_from_slice(set_up);
    let title = "NetPack figure 9: job completion time by size of the cluster";
    completion("netpack-9", title, results, &notes)
}

/// Figure 10: time to place jobs.
fn time(seeds: u64, largest: u32) -> Result<(Figure, Vec<Sample>), RunError> {
    const POLICY: &str = "netpack";
    /// Servers, racks, and the paper's seconds per job if its text states them. The paper's cluster has
    /// 16 racks of any size; 625 are racks of 16.
    const SIZES: [(u32, u32, Option<f64>); 4] = [
        (96, 16, Some(3.25e-4)),
        (1_008, 16, None),
        (10_000, 16, Some(1.36e-2)),
        (10_000, 625, None),
    ];
    let mut table = Table::new([
        "servers",
        "racks",
        "oversubscription",
        "jobs",
        "demand",
        "placed",
        "distributed",
        "µs a job",
        "s in all",
        "paper, µs a job",
    ]);
    let mut samples = Vec::new();
    for demand in [speed::Demand::Trace, speed::Demand::Spread] {
        let name = match demand {
            speed::Demand::Trace => "as in traces",
            speed::Demand::Spread => "5 to 12 GPUs",
        };
        for (servers, racks, paper) in SIZES.into_iter().filter(|size| size.0 <= largest) {
            for (oversubscription, jobs) in [(1.0, 1_000), (1.0, 4_000), (4.0, 4_000)] {
                let place = |seed| {
                    let batch = Batch { servers, racks, oversubscription, jobs, demand, seed };
                    batch.place(&mut *by_name(POLICY).expect("it is one of ours"))
                };
                let took: Vec<_> = (0..seeds).map(place).collect();
                let Some(last) = took.last() else { continue };
                // Processor time, where the system tells it: others may use the machine.
                let time_s = |took: Duration| took.as_secs_f64();
                let in_all: Vec<f64> =
                    took.iter().map(|one| time_s(one.on_cpu.unwrap_or(one.took))).collect();
                let per_job: Vec<f64> = took
                    .iter()
                    .zip(&in_all)
                    .map(|(one, s)| s * 1e6 / f64::from(one.jobs.max(1)))
                    .collect();
                table.push(vec![
                    Cell::Number(f64::from(servers), 0),
                    Cell::Number(f64::from(racks), 0),
                    Cell::text(format!("{oversubscription}:1")),
                    Cell::Number(f64::from(jobs), 0),
                    Cell::text(name),
                    Cell::Number(f64::from(last.jobs), 0),
                    Cell::Number(f64::from(last.distributed), 0),
                    Cell::Interval(Interval::of(&per_job), 1),
                    Cell::Interval(Interval::of(&in_all), 3),
                    paper.map_or(Cell::None, |s| Cell::Number(s * 1e6, 0)),
                ]);
                if (servers, jobs) == (10_000, 4_000) {
                    let at = format!("{name}, {racks} racks, {oversubscription}:1");
                    samples.push(Sample { at, values: in_all });
                }
            }
        }
    }
    let figure = Figure {
        id: "netpack-10".to_owned(),
        title: "NetPack figure 10: time that placing takes".to_owned(),
        notes: vec![
            "Batches on an idle cluster of servers with four GPUs, the steady state after each distributed job \
             included, in processor time; `placed` is how many of the jobs the cluster had room for. The paper's \
             implementation is in Python."
                .to_owned(),
        ],
        table,
        charts: Vec::new(),
    };
    Ok((figure, samples))
}

/// Figure 11: switch memory.
fn memory(testbed: &Runs, set_up: &[String]) -> Figure {
    let mut notes = vec![
        "Paper: 30 to 92 % less than the others, more with less memory; 87 to 92 % less with none.".to_owned(),
        "Peak aggregation throughput of the testbed's switch, Poisson demand: with the real one, nearly all \
         jobs fit on a server and need no switch."
            .to_owned(),
    ];
    notes.extend_from_slice(set_up);
    let title = "NetPack figure 11: job completion time by switch memory";
    completion("netpack-11", title, &testbed.memory, &notes)
}

/// Figure 12: oversubscribed fabrics.
fn of_racks(jobs: usize) -> Vec<Point> {
    let demand = demands(4.0)[1].1;
    let of = |ratio: f64| point(format!("{ratio}:1"), simulated(ratio), jobs, demand);
    [1.0, 5.0, 20.0].into_iter().map(of).collect()
}

fn racks(results: &Results, set_up: &[String]) -> Figure {
    let mut notes = vec![
        "Paper: 52 % less than the others with 1:1, 89 % less with 20:1.".to_owned(),
        "Links of a rack's servers over its uplinks; Poisson demand. The paper's formula alone keeps hardly any job \
         in a rack (`any-racks`), so our NetPack tries single racks first. The others have both rules, too."
            .to_owned(),
    ];
    notes.extend_from_slice(set_up);
    let title = "NetPack figure 12: job completion time by oversubscription";
    completion("netpack-12", title, results, &notes)
}

/// The set-ups of [`parts`]: the testbed, the simulated cluster, and the whole trace.
fn parts_of(experiment: &Experiment<'_>, effort: &Effort) -> Result<Results, RunError> {
    let poisson = demands(2.0)[1].1;
    let pat_gbps = Shape::default().pat_gbps;
    let mut of_testbed =
        vec![point("testbed, Poisson", testbed::cluster(pat_gbps), effort.testbed.jobs, poisson)];
    if effort.testbed.timing == Timing::Packets {
        testbed::with_packets(&mut of_testbed)?;
    }
    let policies = parts::policies();
    let small = experiment.repeated(effort.testbed.seeds);
    let small = small.run(&of_testbed, &policies, Options::default())?;
    let demand = demands(4.0)[1].1;
    let of_simulator = [
        point("simulated, Poisson", simulated(1.0), effort.simulated, demand),
        point("simulated, Poisson, 5:1", simulated(5.0), effort.simulated, demand),
    ];
    let large = experiment.run(&of_simulator, &policies, Options::default())?;
    let all = experiment.trace.submissions.len();
    let name = if all <= effort.whole { "whole trace" } else { "part of the trace" };
    let of_all = |label: String, load| {
        let jobs = all.min(effort.whole) * 2 / 5;
        let workload = Workload { jobs, load, demand: None, compute: 1.0 };
        Point { workload, ..point(label, simulated(1.0), 0, None) }
    };
    let whole =
        [of_all(name.to_owned(), None), of_all(format!("{name}, saturated"), Some(SATURATED))];
    let whole = experiment.repeated(1).run(&whole, &policies, Options::default())?;
    Ok(small.and(large).and(whole))
}

/// Not in the paper: the effect of the load, which it does not specify.
fn loads(experiment: &Experiment<'_>, jobs: usize, set_up: &[String]) -> Result<Figure, RunError> {
    let demand = demands(4.0)[1].1;
    let of = |load: f64| {
        let mut point = point(format!("{load}"), simulated(1.0), jobs, demand);
        point.workload.load = Some(load);
        point
    };
    let points: Vec<Point> = [0.3, 0.4, 0.5, 0.6, 0.7, 0.9].into_iter().map(of).collect();
    let results = experiment.run(&points, &POLICIES, Options::default())?;
    let mut notes = vec![
        "The paper does not say how densely jobs arrive. Simulated cluster, Poisson demand; the first column is the \
         load in place of the one below."
            .to_owned(),
    ];
    notes.extend_from_slice(set_up);
    let title = "Completion time by load, up to saturation";
    let mut figure = completion("netpack-load", title, &results, &notes);
    // Ratios: completion times differ much more between sections than between policies.
    let lines = results.policies.iter().enumerate().map(|(policy, name)| {
        let at = |point: usize| {
            let busy = results.spread(point, 0, Metric::Utilisation).mean;
            let ratio = results.over_first(point, policy, Metric::AverageJct).mean;
            (100.0 * busy, Some(Spread::of(&[ratio])))
        };
        ((*name).to_owned(), (0..results.labels.len()).map(at).collect())
    });
    figure.charts = vec![Chart {
        title: title.to_owned(),
        y: "JCT over NetPack's".to_owned(),
        marks: Marks::Lines {
            x: "GPUs busy with NetPack, %".to_owned(),
            scales: [Scale::Linear, Scale::Linear],
            lines: lines.collect(),
        },
    }];
    Ok(figure)
}
