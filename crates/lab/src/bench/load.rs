//! Recovery on a machine that others use: the time of an all-reduce beside busy loops, relative to the
//! same one without them.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tributary_base::decimal_size;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{RunReport, table};

use super::loss::{PROTOCOLS, beside};
use super::runs::{Output, once};
use super::{Spread, cores};
use crate::bench::Args;

/// Loss of each link in each direction.
const LOSSES: [f64; 3] = [0.0, 0.01, 0.1];

/// Numbers of busy loops; the first is the measure of the others.
const LOOPS: [u32; 3] = [0, 2, 8];

/// The part of the bound that does not depend on the loops: what waiting for a processor may cost beyond
/// the loops' share of it.
const MARGIN: f64 = 1.5;

/// All runs of a protocol at one rate of loss.
#[derive(Debug, Serialize)]
struct Row {
    fabric: &'static str,
    protocol: &'static str,
    loss: f64,
    /// By number of busy loops.
    beside: Vec<Beside>,
}

/// The runs beside some busy loops.
#[derive(Debug, Serialize)]
struct Beside {
    loops: u32,
    /// The slowest worker's time, by seed.
    seconds: Vec<f64>,
    /// Timeouts of all workers, by seed.
    timeouts: Vec<u64>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let output = Output::open(args)?;
    let (tensor, loops) =
        if args.quick { (1_000_000, &LOOPS[..2]) } else { (4_000_000, &LOOPS[..]) };
    let mut rows = Vec::new();
    for &fabric in &args.fabric {
        for protocol in PROTOCOLS {
            for loss in LOSSES {
                let row = Row::empty(fabric, protocol.title(), loss, loops);
                rows.push(row.measure(args, fabric, protocol.name(), tensor)?);
            }
        }
    }
    eprintln!();
    println!(
        "\nAll-reduce of {} by 4 workers beside busy loops: ms at the slowest worker, median (range); the \
         longest is compared with the median without loops",
        decimal_size(tensor)
    );
    let mut heads = table(&["fabric", "protocol", "loss", "loops", "ms", "longest", "bound", ""]);
    let mut above = 0;
    for row in &rows {
        for cells in row.cells() {
            above += u32::from(cells[7] == ABOVE);
            heads.add_row(cells);
        }
    }
    println!("{heads}");
    output.write(&rows)?;
    ensure!(
        above == 0,
        "{above} rows are above the bound; measure again on a machine without other work, or find out \
         what delays recovery"
    );
    Ok(())
}

/// The mark of a row that is above the bound.
const ABOVE: &str = "above";

impl Row {
    fn empty(fabric: Fabric, protocol: &'static str, loss: f64, loops: &[u32]) -> Self {
        let beside = |&loops| Beside { loops, seconds: Vec::new(), timeouts: Vec::new() };
        Self { fabric: fabric.name(), protocol, loss, beside: loops.iter().map(beside).collect() }
    }

    /// Takes turns between the numbers of loops, because the machine's other load changes.
    fn measure(mut self, args: &Args, fabric: Fabric, protocol: &str, tensor: u64) -> Result<Self> {
        // The first run of a program is slower: a thread translates it to machine code meanwhile.
        once(fabric, &job_file(protocol, self.loss, tensor, 1))?;
        for seed in 1..=args.repeat {
            for its in &mut self.beside {
                let (loss, loops) = (self.loss, its.loops);
                eprint!(
                    "\r{fabric}, {protocol}, loss {loss}, {loops} loops, seed {seed}          "
                );
                let text = job_file(protocol, loss, tensor, seed);
                let report = beside(loops, || once(fabric, &text)).with_context(|| {
                    format!("{protocol} on {fabric} at {loss} beside {loops} loops, seed {seed}")
                })?;
                its.add(&report);
            }
        }
        Ok(self)
    }

    fn cells(&self) -> impl Iterator<Item = [String; 8]> {
        let idle = Spread::of(self.beside[0].seconds.clone()).median;
        self.beside.iter().map(move |beside| {
            let Beside { loops, seconds, .. } = beside;
            let factor = Spread::of(seconds.clone()).greatest / idle;
            let bound = bound(*loops);
            [
                self.fabric.to_owned(),
                self.protocol.to_owned(),
                format!("{} %", 100.0 * self.loss),
                loops.to_string(),
                Spread::of(seconds.iter().map(|seconds| 1e3 * seconds).collect()).text(0),
                format!("{factor:.1} ×"),
                format!("{bound:.1} ×"),
                if factor > bound { ABOVE } else { "" }.to_owned(),
            ]
        })
    }
}

impl Beside {
    fn add(&mut self, report: &RunReport) {
        let workers = || report.jobs.iter().flat_map(|job| &job.workers);
        self.seconds.push(workers().map(|worker| worker.reduce_seconds).fold(0.0, f64::max));
        self.timeouts.push(workers().map(|worker| worker.stats.timeouts).sum());
    }
}

/// The longest time beside loops, relative to that without: as if each loop took the same share of the
/// cores as a thread of the job that uses one core.
fn bound(loops: u32) -> f64 {
    MARGIN * (1.0 + f64::from(loops) / cores() as f64)
}

fn job_file(protocol: &str, loss: f64, tensor: u64, seed: u32) -> String {
    format!(
        "seed = {seed}\ntimeout = \"5min\"\nworker_timeout = \"2min\"\nprotocol = \"{protocol}\"\n\
         [topology]\nkind = \"star\"\nworkers = 4\n[faults]\nloss = {loss}\n[[job]]\n\
         workload = {{ kind = \"random\", tensors = 1, elements = {} }}\n",
        tensor / 4
    )
}
