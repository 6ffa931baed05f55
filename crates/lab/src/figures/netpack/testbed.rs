//! NetPack's testbed, where sums are timed by packets or by the steady state, and figure 6, which
//! compares the two.

use std::sync::Arc;

use crate::studies::testbed::{BDP, Effort, Packets, VALUES};
use tributary_cluster::metrics::{Metric, Spread};
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Demand;
use tributary_cluster::{Cluster, Shape};

use super::{POLICIES, demands, point};
use crate::figures::agreement::Agreement;
use crate::figures::chart::{Chart, Marks};
use crate::figures::page::Figure;
use crate::figures::runs::RunError;
use crate::figures::sweep::{Experiment, Point, Results};
use crate::figures::table::{Cell, Table};

/// Memory of the switch in figure 11 in Gb/s.
const MEMORY_GBPS: [f64; 6] = [0.0, 25.0, 50.0, 100.0, 200.0, 1_000.0];

/// Timing of the sums of the testbed's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Packet level: the P4 program of ATP, in virtual time.
    Packets,
    /// Flow level: the steady state, as in simulations.
    Flows,
}

/// Parameters of the testbed's figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Testbed {
    /// Number of jobs per run.
    pub jobs: usize,
    /// Number of repetitions, each with different jobs of the trace and different models.
    pub seeds: u64,
    /// Timing of sums.
    pub timing: Timing,
}

/// §6.1: five servers of two GPUs at one switch.
pub(super) fn cluster(pat_gbps: f64) -> Cluster {
    let (racks, servers_per_rack, gpus_per_server) = (1, 5, 2);
    Cluster::uniform(&Shape {
        racks,
        servers_per_rack,
        gpus_per_server,
        pat_gbps,
        ..Shape::default()
    })
}

/// All runs on the testbed.
pub(super) struct Runs {
    about: Testbed,
    /// For the three demands and all policies.
    pub(super) demands: Results,
    /// By switch memory.
    pub(super) memory: Results,
    /// The same at flow level if those are at packet level: demands, and memory.
    by_flows: Option<[Results; 2]>,
    effort: Vec<Effort>,
}

impl Testbed {
    /// Performs all runs for the figures.
    pub(super) fn run(
        self,
        experiment: &Experiment<'_>,
        policies: &[&'static str],
    ) -> Result<Runs, RunError> {
        let experiment = experiment.repeated(self.seeds);
        let mut points = [self.of_demands(), self.of_memory()];
        let run = |[demands, memory]: &[Vec<Point>; 2]| -> Result<[Results; 2], RunError> {
            let options = Options::default();
            Ok([
                experiment.run(demands, policies, options)?,
                experiment.run(memory, &POLICIES, options)?,
            ])
        };
        let mut effort = Vec::new();
        let by_flows = run(&points)?;
        let ([demands, memory], by_flows) = match self.timing {
            Timing::Flows => (by_flows, None),
            Timing::Packets => {
                let testbeds = with_packets(points.iter_mut().flatten())?;
                let measured = run(&points)?;
                effort.extend(testbeds.iter().map(|packets| packets.effort()));
                (measured, Some(by_flows))
            }
        };
        Ok(Runs { about: self, demands, memory, by_flows, effort })
    }

    /// A description of the runs.
    pub(super) fn about(self) -> String {
        let Self { jobs, seeds, timing } = self;
        match timing {
            Timing::Flows => format!(
                "Testbed: {jobs} jobs from {seeds} places of the trace on five servers of two GPUs, sums timed by \
                 the steady state."
            ),
            Timing::Packets => format!(
                "Testbed: {jobs} jobs from {seeds} places of the trace on five servers of two GPUs; sums timed by \
                 packets: ATP's workers, parameter servers and `atp.p4` on the embedded switch, in virtual time."
            ),
        }
    }

    fn of_demands(self) -> Vec<Point> {
        let pat_gbps = Shape::default().pat_gbps;
        let one = |(name, demand): (&str, Option<Demand>)| {
            point(format!("testbed, {name}"), cluster(pat_gbps), self.jobs, demand)
        };
        demands(2.0).into_iter().map(one).collect()
    }

    fn of_memory(self) -> Vec<Point> {
        let demand = demands(2.0)[1].1;
        MEMORY_GBPS
            .into_iter()
            .map(|pat| point(format!("{pat} Gb/s"), cluster(pat), self.jobs, demand))
            .collect()
    }
}

/// Gives points packet-level timing, and returns the packet simulators. Points with the same memory
/// share one.
pub(super) fn with_packets<'p>(
    points: impl IntoIterator<Item = &'p mut Point>,
) -> Result<Vec<Arc<Packets>>, RunError> {
    let mut testbeds: Vec<(f64, Arc<Packets>)> = Vec::new();
    for point in points {
        let pat_gbps = point.cluster.racks()[0].pat_gbps;
        let known = testbeds.iter().find(|(pat, _)| *pat == pat_gbps);
        let packets = match known {
            Some((_, packets)) => Arc::clone(packets),
            None => {
                let packets = Arc::new(Packets::of(&point.cluster)?);
                testbeds.push((pat_gbps, Arc::clone(&packets)));
                packets
            }
        };
        point.packets = Some(packets);
    }
    Ok(testbeds.into_iter().map(|(_, packets)| packets).collect())
}

impl Runs {
    /// A description of the runs.
    pub(super) fn about(&self) -> String {
        self.about.about()
    }

    /// Figure 6: the same runs at flow and packet level.
    pub(super) fn agreement(&self) -> Option<Figure> {
        // The point with the most memory is among the demands.
        self.agreement_of(MEMORY_GBPS.len() - 1)
    }

    /// Figure 6 with the first `short` points of the memory.
    fn agreement_of(&self, short: usize) -> Option<Figure> {
        let [demands, memory] = self.by_flows.as_ref()?;
        let mut table = Table::new([
            "runs",
            "measure",
            "number",
            "correlation",
            "R²",
            "slope",
            "testbed over simulator − 1",
            "absolute",
            "paper, correlation",
        ]);
        let mut charts = Vec::new();
        let measures =
            [("JCT", Metric::AverageJct, true), ("time of running", Metric::AverageRun, true)];
        for (name, metric, normalized) in measures {
            let of = |flows: &Results, packets: &Results, point| {
                pairs(flows, packets, point, metric, normalized)
            };
            let mut clouds: Vec<(String, Vec<(f64, f64)>)> = demands
                .labels
                .iter()
                .enumerate()
                .map(|(at, label)| (label.clone(), of(demands, &self.demands, at)))
                .collect();
            let all: Vec<(f64, f64)> = clouds.iter().flat_map(|(_, cloud)| cloud.clone()).collect();
            for (label, cloud) in &clouds {
                row(&mut table, label, &format!("{name}, normalized"), cloud, false);
            }
            row(&mut table, "all of these", &format!("{name}, normalized"), &all, name == "JCT");
            let raw: Vec<(f64, f64)> = (0..demands.labels.len())
                .flat_map(|at| pairs(demands, &self.demands, at, metric, false))
                .collect();
            row(&mut table, "all of these", &format!("{name}, seconds"), &raw, false);
            for at in 0..short {
                let label = format!("{} of memory, Poisson", memory.labels[at]);
                let cloud = of(memory, &self.memory, at);
                row(&mut table, &label, &format!("{name}, normalized"), &cloud, false);
            }
            clouds.retain(|(_, cloud)| !cloud.is_empty());
            charts.push(Chart {
                title: format!("NetPack figure 6: {name} of each run"),
                y: "testbed, packets".to_owned(),
                marks: Marks::Points {
                    x: "simulator, flows".to_owned(),
                    clouds,
                    fit: Some(Agreement::of(&all).fit).filter(|(slope, _)| slope.is_finite()),
                },
            });
        }
        let notes = vec![
            "Paper: a correlation of 98 % between the testbed's and the simulator's completion times.".to_owned(),
            "A run is a policy with a place of the trace. Times are over the simulated time of NetPack for the same \
             jobs, but where they are in seconds. The running time leaves waiting out, and with it what follows \
             from placing a job elsewhere because another ended a moment earlier."
                .to_owned(),
            self.about(),
            self.scale(),
        ];
        let title = "NetPack figure 6: the simulator against the testbed".to_owned();
        Some(Figure { id: "netpack-6".to_owned(), title, notes, table, charts })
    }

    /// A description of the packets and of the measurements.
    fn scale(&self) -> String {
        let sets: u64 = self.effort.iter().map(|effort| effort.sets).sum();
        let hops: u64 = self.effort.iter().map(|effort| effort.hops).sum();
        let errors = self.effort.iter().map(|effort| effort.mean_error * effort.sets as f64);
        let greatest = self.effort.iter().map(|effort| effort.greatest_error).fold(0.0, f64::max);
        format!(
            "Scaled down: {BDP} packets on a link's way there and back, {VALUES} values in a packet. Kept: memory and \
             mark of congestion over what a link has under way, bounds of windows over the same, the \
             retransmission timeout over the round trip, and what jobs compute over what they send. {sets} sets of \
             senders were measured, {:.1} million frames; the standard error of a rate is {:.1} % of the link on \
             average, {:.1} % at most.",
            hops as f64 / 1e6,
            100.0 * errors.sum::<f64>() / sets.max(1) as f64,
            100.0 * greatest,
        )
    }
}

/// Pairs of flow-level and packet-level results, for all policies and seeds of a point.
fn pairs(
    flows: &Results,
    packets: &Results,
    point: usize,
    metric: Metric,
    normalized: bool,
) -> Vec<(f64, f64)> {
    let first = flows.at(point, 0);
    let of_policy = |policy| {
        let runs = flows.at(point, policy).iter().zip(packets.at(point, policy)).zip(first);
        runs.map(|((flows, packets), first)| {
            let unit = if normalized { first.get(metric) } else { 1.0 };
            (flows.get(metric) / unit, packets.get(metric) / unit)
        })
    };
    (0..flows.policies.len()).flat_map(of_policy).collect()
}

fn row(table: &mut Table, runs: &str, measure: &str, pairs: &[(f64, f64)], published: bool) {
    let Agreement { correlation, fit, bias, error } = Agreement::of(pairs);
    let known = |value: f64| if value.is_finite() { Cell::Number(value, 3) } else { Cell::None };
    let percent = |Spread { runs, mean, deviation }| {
        Cell::Spread(Spread { runs, mean: 100.0 * mean, deviation: 100.0 * deviation }, 1)
    };
    table.push(vec![
        Cell::text(runs),
        Cell::text(measure),
        Cell::Number(pairs.len() as f64, 0),
        known(correlation),
        known(correlation * correlation),
        known(fit.0),
        percent(bias),
        percent(error),
        if published { Cell::Number(0.98, 2) } else { Cell::None },
    ]);
}

#[cfg(test)]
mod tests {
    use tributary_cluster::model::Profiles;
    use tributary_cluster::trace::Generator;

    use super::*;

    /// A few jobs at flow and packet level: the same jobs, different times, and a figure of both.
    #[test]
    fn packets_and_flows_run_the_same_jobs() {
        let trace = Generator::trace(100, 5);
        let profiles = Profiles::netpack();
        let experiment =
            Experiment { trace: &trace, profiles: profiles.all(), seeds: 1, progress: &|_, _| () };
        let testbed = Testbed { jobs: 6, seeds: 1, timing: Timing::Packets };
        let poisson = || testbed.of_demands().drain(1..2).collect::<Vec<_>>();
        let mut points = [poisson(), Vec::new()];
        let packets = with_packets(points.iter_mut().flatten()).unwrap();
        let run = |points: &[Point]| {
            experiment.run(points, &["netpack", "tetris"], Options::default()).unwrap()
        };
        let (flows, measured) = (run(&poisson()), run(&points[0]));
        let unfinished = |results: &Results| results.interval(0, 0, Metric::Unfinished).mean;
        assert_eq!((unfinished(&flows), unfinished(&measured)), (0.0, 0.0));
        assert!(packets[0].effort().sets > 0, "some job was measured");
        let times = pairs(&flows, &measured, 0, Metric::AverageRun, false);
        assert!(times.iter().any(|(flows, packets)| flows != packets), "{times:?}");
        let runs = Runs {
            about: testbed,
            demands: measured.clone(),
            memory: measured.clone(),
            by_flows: Some([flows.clone(), flows]),
            effort: packets.iter().map(|packets| packets.effort()).collect(),
        };
        let figure = runs.agreement_of(0).expect("both are there");
        assert_eq!(figure.charts.len(), 2);
        for chart in &figure.charts {
            chart.to_svg().unwrap();
        }
    }
}
