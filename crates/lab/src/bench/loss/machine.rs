//! The same jobs on threads or processes of this machine, optionally with other load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{PROTOCOLS, Point, Run};
use crate::bench::Args;
use crate::bench::Spread;
use crate::bench::runs::once;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{RunReport, table};

/// All protocols at all rates of loss, on one fabric.
#[derive(Debug, Serialize)]
pub(super) struct Sweep {
    fabric: String,
    /// Title for people.
    pub(super) title: String,
    /// Number of busy loops during the measurement.
    busy: u32,
    points: Vec<Point>,
}

impl From<&RunReport> for Run {
    fn from(report: &RunReport) -> Self {
        let workers = report.jobs.iter().flat_map(|job| &job.workers);
        let (sent, resent) = workers.fold((0, 0), |(sent, resent), worker| {
            (sent + worker.stats.sent, resent + worker.stats.resent)
        });
        let goodput = report.jobs.iter().map(|job| job.goodput_gbps).fold(0.0, f64::max);
        Self {
            goodput_bps: 1e9 * goodput,
            resent: resent as f64 / sent as f64,
            seconds: report.seconds,
        }
    }
}

impl Sweep {
    pub(super) fn measure(args: &Args, fabric: Fabric) -> Result<Self> {
        beside(args.busy, || {
            let name = format!("{fabric:?}").to_lowercase();
            let mut points = Vec::new();
            for mut point in Point::all(args) {
                let Point { loss, tensor_bytes, .. } = point;
                for seed in 1..=args.repeat {
                    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
                        let its_name = protocol.title();
                        eprint!("\r{name}, {its_name}, {}, seed {seed}          ", point.label);
                        let text = job_file(protocol.name(), loss, tensor_bytes, seed);
                        let report = once(fabric, &text)
                            .with_context(|| format!("{its_name} at {loss}, seed {seed}"))?;
                        point.runs[at].push(Run::from(&report));
                    }
                }
                points.push(point);
            }
            eprintln!();
            let beside = match args.busy {
                0 => String::new(),
                loops => format!(", beside {loops} busy loops"),
            };
            let title = format!(
                "4 workers around one switch, two tensors each, {name} fabric{beside}; Mb/s, and \
                 packets sent again"
            );
            Ok(Self { fabric: name, title, busy: args.busy, points })
        })
    }

    pub(super) fn goodput(&self) -> comfy_table::Table {
        let mut heads = vec!["loss, tensor".to_owned()];
        heads.extend(PROTOCOLS.map(|protocol| format!("{} Mb/s", protocol.title())));
        heads.extend(PROTOCOLS.map(|protocol| format!("{} resent", protocol.title())));
        let mut rows = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
        for point in &self.points {
            let spread =
                |runs: &[Run], of: fn(&Run) -> f64| Spread::of(runs.iter().map(of).collect());
            let mut row = vec![point.label.clone()];
            row.extend(point.runs.iter().map(|runs| {
                let goodput = spread(runs, |run| run.goodput_bps / 1e6);
                goodput.text(usize::from(goodput.median < 10.0))
            }));
            row.extend(point.runs.iter().map(|runs| {
                let resent = spread(runs, |run| 100.0 * run.resent);
                format!("{} %", resent.text(if resent.median < 1.0 { 3 } else { 1 }))
            }));
            rows.add_row(row);
        }
        rows
    }
}

fn job_file(protocol: &str, loss: f64, tensor_bytes: u64, seed: u32) -> String {
    format!(
        "seed = {seed}\ntimeout = \"5min\"\n\
         [topology]\nkind = \"star\"\nworkers = 4\n\
         [protocol]\nkind = \"{protocol}\"\nvalues_per_packet = 64\n\
         [faults]\nloss = {loss}\n\
         [[job]]\nname = \"job\"\n\
         workload = {{ kind = \"random\", tensors = 2, bytes = \"{} KB\" }}\n",
        tensor_bytes / 1000
    )
}

/// Runs `work` while `loops` busy loops keep processors busy.
pub(crate) fn beside<T>(loops: u32, work: impl FnOnce() -> T) -> T {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Stops the loops, also on a panic, which would otherwise wait for them forever.
        let _stop = Stop(&done);
        work()
    })
}
