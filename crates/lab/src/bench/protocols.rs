//! P4INC, ATP, ESA and SwitchML: one to eight jobs whose workers are all attached to one switch,
//! with the same bytes of switch memory for each protocol.
//!
//! Each protocol gets as many aggregators as its program fits into that memory: one of P4INC, which
//! keeps a copy of the last result, takes about twice as much as one of the others. ATP and ESA
//! share all of them among the jobs, P4INC divides them among the present jobs, SwitchML always
//! into eight parts. The protocols take turns with the same seed, in rotating order, so that the
//! machine's other load affects all.

use std::array;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::runs::{
    MAX_JOBS, Measured, Output, Setting, WORKERS, in_network, line, once, ratio, throughput,
    throughput_chart,
};
use crate::bench::Args;
use crate::figures::Chart;
use tributary_base::decimal_size;
use tributary_embedded::program;
use tributary_model::Protocol;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{aggregator_bits, table};

/// The protocols, in the order of the tables.
const PROTOCOLS: [Protocol; 4] =
    [Protocol::P4inc, Protocol::Atp, Protocol::Esa, Protocol::SwitchMl];
/// Index of the protocol that the others are compared with.
const P4INC: usize = 0;

pub(super) fn run(args: &Args) -> Result<()> {
    let output = Output::open(args)?;
    let mut sweeps = Vec::new();
    for &fabric in &args.fabric {
        let sweep = Sweep::measure(args, fabric)?;
        println!("\n{}\n{}\n{}", sweep.title, sweep.throughputs(), sweep.memories());
        output.draw(&format!("protocols-{}.svg", sweep.fabric), &sweep.chart())?;
        sweeps.push(sweep);
    }
    output.write(&sweeps)
}

/// Measurements over numbers of jobs.
#[derive(Debug, Serialize)]
struct Sweep {
    fabric: String,
    /// Title for people.
    title: String,
    tensor_bytes: u64,
    jitter_us: u32,
    /// Bytes of memory for aggregators.
    memory_bytes: u64,
    /// The resulting number of aggregators, by protocol.
    pools: [u32; 4],
    points: Vec<Point>,
}

/// All protocols with one number of jobs.
#[derive(Debug, Serialize)]
struct Point {
    jobs: String,
    /// By protocol, then by seed.
    runs: [Vec<Measured>; 4],
}

impl Sweep {
    fn measure(args: &Args, fabric: Fabric) -> Result<Self> {
        let (counts, tensor_bytes): (&[u32], u64) = if args.quick {
            (&[1, 2, 4, 8], 256 << 10)
        } else {
            (&[1, 2, 3, 4, 5, 6, 7, 8], 1 << 20)
        };
        let memory_bytes = u64::from(args.memory) << 10;
        let mut pools = [0; 4];
        for (pool, protocol) in pools.iter_mut().zip(PROTOCOLS) {
            *pool = aggregators(protocol, memory_bytes)?;
        }
        let name = format!("{fabric:?}").to_lowercase();
        let mut points = Vec::new();
        for &jobs in counts {
            let mut runs: [Vec<Measured>; 4] = array::from_fn(|_| Vec::new());
            for seed in 1..=u64::from(args.repeat) {
                for turn in 0..PROTOCOLS.len() {
                    let at = (seed as usize + turn) % PROTOCOLS.len();
                    let protocol = PROTOCOLS[at];
                    let own_name = protocol.title();
                    eprint!("\r{name}, {jobs} jobs, {own_name}, seed {seed}          ");
                    let (pool, jitter_us) = (pools[at], args.jitter);
                    let setting = Setting { jobs, tensor_bytes, pool, jitter_us };
                    let report = once(fabric, &setting.job_file(protocol, seed))
                        .with_context(|| format!("{own_name}, {jobs} jobs, seed {seed}"))?;
                    runs[at].push(Measured::new(seed, turn == 0, &report));
                }
            }
            points.push(Point { jobs: jobs.to_string(), runs });
        }
        eprintln!();
        let title = format!(
            "Local jobs, {WORKERS} workers each, tensors of {}, {} for aggregators, jitter up to {} \
             µs, {name} fabric",
            decimal_size(tensor_bytes),
            decimal_size(memory_bytes),
            args.jitter
        );
        let jitter_us = args.jitter;
        Ok(Self { fabric: name, title, tensor_bytes, jitter_us, memory_bytes, pools, points })
    }

    fn throughputs(&self) -> comfy_table::Table {
        let mut heads = vec!["jobs".to_owned()];
        heads.extend(PROTOCOLS.map(|protocol| format!("{} MB/s", protocol.title())));
        let others = PROTOCOLS.iter().enumerate().filter(|&(at, _)| at != P4INC);
        heads.extend(others.clone().map(|(_, other)| format!("P4INC / {}", other.title())));
        let mut rows = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
        for point in &self.points {
            let mut row = vec![point.jobs.clone()];
            row.extend(point.runs.iter().map(|runs| throughput(runs).text(1)));
            row.extend(
                others.clone().map(|(at, _)| ratio(&point.runs[P4INC], &point.runs[at]).text(2)),
            );
            rows.add_row(row);
        }
        rows
    }

    /// The jobs' share of the switch's memory, and the fraction of the additions that switches
    /// performed.
    fn memories(&self) -> comfy_table::Table {
        let mut heads = vec!["jobs".to_owned()];
        heads.extend(PROTOCOLS.map(|protocol| format!("{} memory", protocol.title())));
        heads.extend(PROTOCOLS.map(|protocol| format!("{} in network", protocol.title())));
        let mut rows = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
        for point in &self.points {
            let mut row = vec![point.jobs.clone()];
            // It follows from the job file, so it is the same for all seeds.
            let memory = |runs: &Vec<Measured>| runs.first().map_or(0, |run| run.memory_bytes);
            row.extend(point.runs.iter().map(|runs| decimal_size(memory(runs))));
            let shares = point.runs.iter().map(|runs| in_network(runs).median);
            row.extend(shares.map(|share| format!("{share:.1} %")));
            rows.add_row(row);
        }
        rows
    }

    fn chart(&self) -> Chart {
        let settings = self.points.iter().map(|point| point.jobs.clone()).collect();
        let line = |(at, protocol): (usize, Protocol)| {
            line(protocol, self.points.iter().map(|point| throughput(&point.runs[at])))
        };
        let lines = PROTOCOLS.into_iter().enumerate().map(line).collect();
        throughput_chart(&self.title, "jobs", settings, lines)
    }
}

/// Number of aggregators of a protocol's program that fit into `memory_bytes`.
fn aggregators(protocol: Protocol, memory_bytes: u64) -> Result<u32> {
    let protocol = protocol.name();
    let scenario =
        tributary_model::jobfile::parse(&format!("protocol = \"{protocol}\"\n[[job]]\n"), "f")?;
    let program = program::compile(&scenario, None)?.program;
    let bits = aggregator_bits(&program, scenario.network.switch.pool);
    let fit = u32::try_from(8 * memory_bytes / bits).unwrap_or(u32::MAX);
    ensure!(
        fit >= 2 * MAX_JOBS,
        "{} hold only {fit} aggregators of {protocol}; raise --memory",
        decimal_size(memory_bytes)
    );
    Ok(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocols_get_the_same_jobs_and_the_same_memory() {
        const MEMORY: u64 = 133 << 10;
        let mut workloads = Vec::new();
        for protocol in PROTOCOLS {
            let pool = aggregators(protocol, MEMORY).unwrap();
            let setting = Setting { jobs: 8, tensor_bytes: 1 << 20, pool, jitter_us: 300 };
            let text = setting.job_file(protocol, 7);
            let scenario =
                tributary_model::jobfile::parse(&text, "f").unwrap_or_else(|e| panic!("{e}"));
            let program = program::compile(&scenario, None).unwrap().program;
            let used = u64::from(pool) * aggregator_bits(&program, pool) / 8;
            assert!(used <= MEMORY && used > MEMORY - 600, "{protocol:?}: {used} bytes");
            assert_eq!(scenario.network.protocol, protocol);
            let jobs = scenario.jobs.iter();
            workloads.push(jobs.map(|job| (job.workload.clone(), job.jitter)).collect::<Vec<_>>());
            let segments: u32 = scenario.jobs.iter().map(|job| job.segment).sum();
            match protocol {
                Protocol::P4inc | Protocol::SwitchMl => {
                    assert!(scenario.jobs.iter().all(|job| job.ps.is_none() && job.slots == 32));
                    assert!(segments <= pool && segments > pool - 16, "{segments} of {pool}");
                }
                _ => assert!(segments == 0 && scenario.jobs.iter().all(|job| job.ps.is_some())),
            }
        }
        assert!(workloads.iter().all(|own| *own == workloads[0]));
    }
}
