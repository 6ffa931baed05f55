//! The cost of loss: goodput of every protocol over links that lose packets, in virtual time,
//! compared with the optimum of resending only the lost packets.
//!
//! Virtual time makes the results independent of the machine: the same command prints the same
//! numbers everywhere. Each size is compared with its lossless run. [`machine`] runs the same jobs
//! on fabrics of this machine.

mod machine;

use crate::studies::loss::{Cost, Trial};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tributary_base::decimal_size;
use tributary_model::Protocol;
use tributary_protocol::Recovery;

pub(super) use machine::beside;

use super::Spread;
use super::runs::{Output, line, throughput_chart};
use crate::bench::Args;
use crate::figures::Chart;
use tributary_run::report::table;

/// Loss of each link in each direction, and bytes of each of the two tensors.
const POINTS: [(f64, u64); 6] = [
    (0.0, 4_000_000),
    (0.001, 4_000_000),
    (0.01, 4_000_000),
    (0.05, 1_000_000),
    (0.1, 500_000),
    (0.2, 200_000),
];

pub(super) const PROTOCOLS: [Protocol; 4] =
    [Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl];

pub(super) fn run(args: &Args) -> Result<()> {
    let output = Output::open(args)?;
    let mut sweeps = Vec::new();
    for recovery in Recovery::ALL {
        let sweep = Sweep::measure(args, recovery)?;
        println!("\n{}\n{}", sweep.title, sweep.shares());
        output.draw(&format!("loss-{}.svg", recovery.name()), &sweep.chart())?;
        sweeps.push(sweep);
    }
    let mut fabrics = Vec::new();
    for &fabric in &args.fabric {
        let sweep = machine::Sweep::measure(args, fabric)?;
        println!("\n{}\n{}", sweep.title, sweep.goodput());
        fabrics.push(sweep);
    }
    output.write(&Measurements { virtual_time: sweeps, fabrics })
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Measurements {
    virtual_time: Vec<Sweep>,
    fabrics: Vec<machine::Sweep>,
}

/// All protocols at all rates of loss.
#[derive(Debug, Serialize)]
struct Sweep {
    recovery: &'static str,
    /// Title for people.
    title: String,
    points: Vec<Compared>,
}

/// A point with the lossless runs of the same size.
#[derive(Debug, Serialize)]
struct Compared {
    #[serde(flatten)]
    point: Point,
    /// By protocol, in bits per second.
    lossless_bps: [f64; 4],
}

/// One rate of loss.
#[derive(Debug, Serialize)]
struct Point {
    loss: f64,
    tensor_bytes: u64,
    /// Title for people.
    label: String,
    /// By protocol, then by seed.
    runs: [Vec<Run>; 4],
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    goodput_bps: f64,
    /// Fraction of the packets that workers sent.
    resent: f64,
    seconds: f64,
}

impl From<Cost> for Run {
    fn from(cost: Cost) -> Self {
        Self {
            // Zero for a run that did not complete.
            goodput_bps: if cost.complete { cost.goodput_bps } else { 0.0 },
            resent: cost.resent as f64 / cost.sent as f64,
            seconds: cost.time.as_secs_f64(),
        }
    }
}

impl Sweep {
    fn measure(args: &Args, recovery: Recovery) -> Result<Self> {
        let mut points = Vec::new();
        for mut point in Point::all(args) {
            let mut lossless_bps = [0.0; 4];
            for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
                let name = protocol.title();
                eprint!("\r{}, {name}, {}          ", recovery.name(), point.label);
                let trial = Trial { recovery, bytes: point.tensor_bytes, ..Trial::new(protocol) };
                let lossless = trial.run(1).with_context(|| format!("{name} without loss"))?;
                ensure!(lossless.complete, "{name} does not end without loss");
                lossless_bps[at] = lossless.goodput_bps;
                let loss = point.loss;
                let trial = trial.with_loss(loss);
                for seed in 1..=u64::from(args.repeat) {
                    let cost = trial.run(seed);
                    let cost = cost.with_context(|| format!("{name} at {loss}, seed {seed}"))?;
                    point.runs[at].push(cost.into());
                }
            }
            points.push(Compared { point, lossless_bps });
        }
        eprintln!();
        let title = format!(
            "recovery = \"{}\", 4 workers around one switch, links of 10 Gb/s and 1 µs, two tensors each; \
             virtual time, % of the lossless goodput",
            recovery.name()
        );
        Ok(Self { recovery: recovery.name(), title, points })
    }

    fn shares(&self) -> comfy_table::Table {
        let mut heads = vec!["loss, tensor", "optimum"];
        let resent: Vec<String> =
            PROTOCOLS.iter().map(|protocol| format!("{} resent", protocol.title())).collect();
        heads.extend(PROTOCOLS.map(Protocol::title));
        heads.extend(resent.iter().map(String::as_str));
        let mut rows = table(&heads);
        for Compared { point, lossless_bps } in &self.points {
            let mut row =
                vec![point.label.clone(), format!("{:.0} %", 100.0 * optimum(point.loss))];
            for (runs, lossless) in point.runs.iter().zip(lossless_bps) {
                let share = |run: &Run| 100.0 * run.goodput_bps / lossless;
                let spread = Spread::of(runs.iter().map(share).collect());
                row.push(spread.text(if spread.median < 10.0 { 2 } else { 0 }));
            }
            row.extend(point.runs.iter().map(|runs| {
                let resent = runs.iter().map(|run| 100.0 * run.resent).collect();
                format!("{:.1} %", Spread::of(resent).median)
            }));
            rows.add_row(row);
        }
        rows
    }

    fn chart(&self) -> Chart {
        let settings = self.points.iter().map(|it| it.point.label.clone()).collect();
        let line =
            |(at, protocol)| line(protocol, self.points.iter().map(|it| it.point.throughput(at)));
        let lines = PROTOCOLS.into_iter().enumerate().map(line).collect();
        throughput_chart(
            &self.title,
            "loss of each link and direction, size of a tensor",
            settings,
            lines,
        )
    }
}

impl Point {
    /// All rates of loss, not measured yet.
    fn all(args: &Args) -> impl Iterator<Item = Self> {
        let divisor = if args.quick { 10 } else { 1 };
        POINTS.into_iter().map(move |(loss, tensor_bytes)| {
            let tensor_bytes = tensor_bytes / divisor;
            let label = format!("{} %, {}", 100.0 * loss, decimal_size(tensor_bytes));
            Self { loss, tensor_bytes, label, runs: Default::default() }
        })
    }

    /// Goodput of a protocol in MB/s.
    fn throughput(&self, protocol: usize) -> Spread {
        let runs = self.runs[protocol].iter();
        Spread::of(runs.map(|run| run.goodput_bps / 8e6).collect())
    }
}

/// The fraction of the goodput that remains if a worker resends exactly its own lost packets. A
/// packet needs 1/(1−p) transmissions to arrive. Of the results, p/(1−p) must be requested, with a
/// packet that can also be lost.
fn optimum(loss: f64) -> f64 {
    let arrives = 1.0 - loss;
    1.0 / (1.0 / arrives + loss / (arrives * arrives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimum_of_a_link_that_loses_half() {
        assert_eq!((optimum(0.0), optimum(0.5)), (1.0, 0.25));
    }
}
