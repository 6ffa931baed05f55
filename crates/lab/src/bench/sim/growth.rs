//! How the run time grows with the number of workers of one job.

use anyhow::{Result, ensure};
use tributary_controller::programs::Source;
use tributary_model::Protocol;
use tributary_model::jobfile::parse;
use tributary_p4::Architecture;
use tributary_protocol::Tensor;
use tributary_run::report::table;
use tributary_sim::{Options, Program, Run};

use crate::bench::{Args, Spread, processor_time};

/// Numbers of workers. More than 32 are in racks of 16.
const WORKERS: [u32; 6] = [8, 32, 64, 128, 256, 512];

/// Workers per rack.
const RACK: u32 = 16;

/// Values of the tensor.
const VALUES: usize = 64 * 512;

pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "\nGrowth with workers: one job that sums one tensor of {} KiB, above 32 workers over racks \
         of {RACK}. Processor time, median (range)",
        4 * VALUES / 1024
    );
    let mut rows = table(&["protocol", "workers", "hops", "seconds", "µs per hop"]);
    let mut exponents = Vec::new();
    let counts = if args.quick { &WORKERS[..3] } else { &WORKERS };
    for protocol in [Protocol::Atp, Protocol::Esa] {
        let mut points = Vec::new();
        for &workers in counts {
            let runs = (0..args.repeat).map(|seed| measure(protocol, workers, seed.into()));
            let runs: Vec<(u64, f64)> = runs.collect::<Result<_>>()?;
            let hops = runs[0].0;
            let seconds = Spread::of(runs.iter().map(|(_, seconds)| *seconds).collect());
            let per_hop = runs.iter().map(|(hops, seconds)| 1e6 * seconds / *hops as f64);
            points.push((f64::from(workers), seconds.median));
            rows.add_row([
                protocol.name().into(),
                workers.to_string(),
                hops.to_string(),
                seconds.text(3),
                Spread::of(per_hop.collect()).text(2),
            ]);
        }
        exponents.push(format!("workers^{:.2} ({})", exponent(&points), protocol.name()));
    }
    println!("{rows}\nThe time grows with {}", exponents.join(" and "));
    Ok(())
}

/// Hops, and processor seconds from the first submission to the last worker's leave.
fn measure(protocol: Protocol, workers: u32, seed: u64) -> Result<(u64, f64)> {
    let topology = match workers {
        0..=32 => format!("kind = \"star\"\nworkers = {workers}"),
        _ => format!("kind = \"racks\"\nracks = {}\nhosts_per_rack = {RACK}", workers / RACK),
    };
    let file = format!(
        "[topology]\n{topology}\n[protocol]\nkind = \"{}\"\n[[job]]\nworkers = {workers}\n",
        protocol.name()
    );
    let scenario = parse(&file, "growth.toml")?;
    let source = Source::built_in_for(Architecture::V1model, protocol.name())?;
    let program = Program::compile(&source, &scenario.network.switch)?;
    let tensor =
        |worker: u32| Tensor::I32((0..VALUES as i32).map(|at| at + worker as i32).collect());
    let inputs = vec![(0..workers).map(|worker| vec![tensor(worker)]).collect()];
    let mut run = Run::start(&scenario, &program, inputs, &Options::seeded(seed))?;
    let begun = processor_time();
    while run.step()? {}
    let seconds = (processor_time() - begun).as_secs_f64();
    let outcome = run.finish()?;
    ensure!(outcome.complete, "{} with {workers} workers did not complete", protocol.name());
    Ok((outcome.hops, seconds))
}

/// The slope of a least-squares line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let [x, y] = [logs.iter().map(|(x, _)| x).sum::<f64>(), logs.iter().map(|(_, y)| y).sum()];
    let products: f64 = logs.iter().map(|(at, of)| (at - x / count) * (of - y / count)).sum();
    let squares: f64 = logs.iter().map(|(at, _)| (at - x / count).powi(2)).sum();
    products / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        let points = [1.0, 4.0, 10.0, 25.0].map(|x: f64| (x, 7.0 * x.powf(1.5)));
        assert!((exponent(&points) - 1.5).abs() < 1e-9);
    }
}
