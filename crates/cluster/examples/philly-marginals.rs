//! Derives the distributions of `trace::Generator` from the Philly trace and prints them as the
//! source of a module:
//!
//! ```sh
//! cargo run -p tributary-cluster --example philly-marginals -- philly.csv \
//!     > crates/cluster/src/trace/philly.rs
//! ```

use std::collections::BTreeMap;
use std::error::Error;

use tributary_cluster::trace::{PARTS, Trace, class};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of the Philly trace")?;
    let trace = Trace::open(path, None)?;
    let jobs = &trace.submissions;
    let hour = |submit_s: f64| ((submit_s + trace.time_of_day_s) / 3600.0) as usize % 24;
    let mut gaps = vec![Vec::new(); 24];
    let mut hours = [0; 24];
    for pair in jobs.windows(2) {
        gaps[hour(pair[0].submit_s)].push(pair[1].submit_s - pair[0].submit_s);
    }
    let mut durations = vec![Vec::new(); 3];
    let mut gpus = BTreeMap::<u32, u32>::new();
    for job in jobs {
        hours[hour(job.submit_s)] += 1;
        durations[class(job.gpus)].push(job.duration_s);
        *gpus.entry(job.gpus).or_default() += 1;
    }
    let gpus: Vec<_> = gpus.into_iter().collect();

    println!(
        "//! Distributions of the Philly trace ({} jobs of 2017), derived from it by",
        jobs.len()
    );
    println!("//! `cargo run -p tributary-cluster --example philly-marginals -- philly.csv`.");
    println!("\nuse super::generate::Marginal;\n");
    println!("/// Where distributions are cut: shares of the jobs.");
    println!("pub const PARTS: [f64; {}] = {PARTS:?};\n", PARTS.len());
    println!("/// Jobs of the trace.\npub const JOBS: usize = {};\n", jobs.len());
    println!("/// Jobs submitted in each hour of the day.");
    println!("pub const HOURS: [u32; 24] = {hours:?};\n");
    println!("/// Numbers of GPUs, and jobs that asked for them.");
    println!("pub const GPUS: [(u32, u32); {}] = {gpus:?};\n", gpus.len());
    println!("/// Time between two submissions, seconds.");
    println!("pub const GAPS: Marginal = {:?};\n", marginal(&mut gaps.concat()));
    println!("/// Time that jobs held their GPUs, seconds.");
    println!("pub const DURATIONS: Marginal = {:?};\n", marginal(&mut durations.concat()));
    println!("/// Time to the next submission by hour of day, seconds.");
    println!("pub(super) const GAPS_BY_HOUR: [Marginal; 24] = [");
    gaps.iter_mut().for_each(|gaps| println!("    {:?},", marginal(gaps)));
    println!("];\n\n/// Durations of the jobs of one GPU, of two to seven, and of more, seconds.");
    println!("pub(super) const DURATIONS_BY_GPUS: [Marginal; 3] = [");
    durations.iter_mut().for_each(|durations| println!("    {:?},", marginal(durations)));
    println!("];");
    Ok(())
}

/// Quantiles, and means between them, rounded to thousandths.
fn marginal(values: &mut [f64]) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let at = |part: f64| (part * values.len() as f64).round() as usize;
    let point = |pair: &[f64]| {
        let part = &values[at(pair[0])..at(pair[1])];
        let low = values[at(pair[0]).min(last)];
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        (low, if part.is_empty() { low } else { (mean * 1000.0).round() / 1000.0 })
    };
    let mut points: Vec<_> = PARTS.windows(2).map(point).collect();
    points.push((values[last], values[last]));
    points
}
