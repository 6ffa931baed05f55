//! The shares of a switch's memory and links that ATP gives jobs, next to the estimates of
//! NetPack's algorithm 1: the paper's figures 14 and 15 in virtual time.
//!
//! ```sh
//! cargo run --release -p tributary-lab --example shares
//! ```

use std::time::Duration;

use tributary_lab::studies::sharing::Rack;
use tributary_sim::Error;

const MS: Duration = Duration::from_millis(1);

fn main() -> Result<(), Error> {
    println!("Figure 14: what the switch sums of each job's packets");
    println!("{:>5} {:>10} {:>10}  measured", "jobs", "PAT ratio", "model");
    for jobs in [1, 2] {
        for tenths in [1, 2, 4, 6, 8, 10, 12, 15, 20] {
            let pat_ratio = f64::from(tenths) / 10.0;
            let samples = Rack::figure_14(jobs, pat_ratio, 10.0).samples(MS, 4 * MS)?;
            let shares = samples.last().map(|sample| sample.shares.as_slice()).unwrap_or_default();
            let measured: Vec<_> =
                shares.iter().map(|share| format!("{:.3}", share.ratio())).collect();
            let model = (pat_ratio / f64::from(jobs)).min(1.0);
            println!("{jobs:>5} {pat_ratio:>10.2} {model:>10.3}  {}", measured.join(" "));
        }
    }
    println!("\nFigure 15: Gb/s of each job, and what the switch sums of it");
    timeline("memory for all", &Rack::figure_15(), 8)?;
    for pool in [16, 32, 64, 128] {
        timeline(&format!("{pool} aggregators"), &Rack::short_of_memory(pool), 4)?;
    }
    Ok(())
}

fn timeline(name: &str, rack: &Rack, until_ms: u32) -> Result<(), Error> {
    println!("{name}: PAT {:.1} Gb/s", rack.pat_gbps());
    let samples = rack.samples(MS / 2, until_ms * MS)?;
    for (sample, running) in samples.iter().zip(rack.running(&samples)) {
        print!("{:>8.1} ms", sample.until.as_secs_f64() * 1e3);
        for share in &sample.shares {
            print!("  {:>5.2} ({:.2})", share.rate_gbps, share.ratio());
        }
        match running {
            Some(running) => {
                print!("   estimate");
                for estimate in rack.estimate(&running) {
                    print!("  {:>5.2} ({:.2})", estimate.rate_gbps, estimate.ratio);
                }
                println!();
            }
            None => println!("   a job starts or ends"),
        }
    }
    Ok(())
}
