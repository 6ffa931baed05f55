//! Goodput of all-reduce: bytes of a worker's tensor divided by the time until its sum is complete.

use anyhow::Result;

use super::{Spread, runs};
use crate::bench::Args;
use tributary_base::decimal_size;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{JobReport, table};

/// Tensors per measurement, which covers all of them.
const TENSORS: u32 = 3;

pub(super) fn run(args: &Args) -> Result<()> {
    let (workers, sizes, values): (&[u32], &[u64], &[u32]) = if args.quick {
        (&[2, 4], &[64 << 10, 4 << 20], &[64, 2048])
    } else {
        (&[2, 4, 8], &[64 << 10, 1 << 20, 4 << 20, 64 << 20], &[64, 2048])
    };
    for &fabric in &args.fabric {
        println!("\nAll-reduce, fabric `{fabric}`: Gb/s at the slowest worker, median (range)");
        let mut rows = table(&["values a packet", "workers", "tensor", "goodput", "in network"]);
        for &values in values {
            for &workers in workers {
                for &size in sizes {
                    let mut goodput = Vec::new();
                    let mut in_network = Vec::new();
                    for seed in 1..=args.repeat {
                        let report = once(fabric, values, workers, size, seed.into())?;
                        goodput.push(report.goodput_gbps);
                        in_network.push(100.0 * report.summed_in_network.unwrap_or(1.0));
                    }
                    rows.add_row([
                        values.to_string(),
                        workers.to_string(),
                        decimal_size(size),
                        Spread::of(goodput).text(3),
                        format!("{} %", Spread::of(in_network).text(1)),
                    ]);
                    eprint!("\r{values} values, {workers} workers, {}      ", decimal_size(size));
                }
            }
        }
        eprintln!();
        println!("{rows}");
    }
    Ok(())
}

fn once(fabric: Fabric, values: u32, workers: u32, size: u64, seed: u64) -> Result<JobReport> {
    // Several times as many aggregators as slots, to measure the path without collisions; fewer
    // with many values, to limit the memory.
    let pool = if values > 256 { 512 } else { 8192 };
    let slots = if values > 256 { 64 } else { 256 };
    let text = format!(
        "seed = {seed}\n[topology]\nkind = \"star\"\nworkers = {workers}\n\
         [protocol]\nvalues_per_packet = {values}\nslots = {slots}\n\
         [switch]\npool = {pool}\n[[job]]\nname = \"bench\"\n\
         workload = {{ kind = \"random\", tensors = {TENSORS}, elements = {} }}\n",
        size / 4
    );
    let report = runs::once(fabric, &text)?;
    Ok(report.jobs.into_iter().next().expect("the file has one job"))
}
