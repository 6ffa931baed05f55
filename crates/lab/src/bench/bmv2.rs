//! BMv2 and the embedded switch: one all-reduce through each, in network namespaces, with the
//! switch's processor time.

use anyhow::{Context, Result};

use super::Spread;
use super::runs::once_on;
use crate::bench::Args;
use tributary_base::decimal_size;
use tributary_controller::targets::Kind as Target;
use tributary_run::fabric::Bmv2;
use tributary_run::fabric::Kind as Fabric;
use tributary_run::report::{RunReport, table};

const WORKERS: u64 = 4;

/// Slots of such a job on BMv2; the embedded switch also runs with them, for comparison.
const PACED_SLOTS: u32 = 16;

const SLOTS: u32 = 256;

/// One run.
struct Measured {
    /// Packets received by the switch per second of all-reduce.
    rate: f64,
    /// Mbit/s at the slowest worker.
    goodput: f64,
    /// Processor time of the switch per packet, in µs.
    cost: f64,
    /// Number of cores that the switch used.
    cores: f64,
}

pub(super) fn run(args: &Args) -> Result<()> {
    Bmv2::find()?;
    let (protocols, size): (&[&str], u64) = if args.quick {
        (&["atp"], 256 << 10)
    } else {
        (&["atp", "esa", "p4inc", "switchml"], 1 << 20)
    };
    println!(
        "\nOne all-reduce of {} by {WORKERS} workers, 64 values a packet, in network namespaces: \
         median (range)",
        decimal_size(size)
    );
    let mut rows = table(&[
        "protocol",
        "switch",
        "slots",
        "packets/s into it",
        "Mbit/s",
        "its CPU, µs a packet",
        "cores busy",
    ]);
    for protocol in protocols {
        for (name, switch, slots) in [
            ("embedded", Target::Embedded, SLOTS),
            ("embedded", Target::Embedded, PACED_SLOTS),
            ("BMv2", Target::Bmv2, PACED_SLOTS),
        ] {
            let mut all = Vec::new();
            for seed in 1..=args.repeat {
                let text = job_file(protocol, slots, size, seed);
                let report = once_on(Fabric::Netns, switch, &text)
                    .with_context(|| format!("{protocol} on the {name} switch"))?;
                all.push(measured(&report)?);
                eprint!("\r{protocol}, {name}, {slots} slots: {seed} of {}        ", args.repeat);
            }
            let spread = |of: fn(&Measured) -> f64| Spread::of(all.iter().map(of).collect());
            rows.add_row([
                (*protocol).to_owned(),
                name.to_owned(),
                slots.to_string(),
                spread(|run| run.rate).text(0),
                spread(|run| run.goodput).text(1),
                spread(|run| run.cost).text(1),
                spread(|run| run.cores).text(2),
            ]);
        }
    }
    eprintln!();
    println!("{rows}");
    Ok(())
}

fn job_file(protocol: &str, slots: u32, size: u64, seed: u32) -> String {
    format!(
        "seed = {seed}\n[topology]\nkind = \"star\"\nworkers = {WORKERS}\n\
         [protocol]\nkind = \"{protocol}\"\nslots = {slots}\n[[job]]\nname = \"bench\"\n\
         workload = {{ kind = \"random\", tensors = 1, elements = {} }}\n",
        size / 4
    )
}

fn measured(report: &RunReport) -> Result<Measured> {
    let job = report.jobs.first().context("the file has one job")?;
    let switch = report.switches.first().context("the network has one switch")?;
    let packets = switch.outcomes.values().sum::<u64>() as f64;
    let seconds = 8e-9 * job.bytes as f64 / job.goodput_gbps;
    let cpu = switch.cpu_seconds.context("the switch's processor time is not known")?;
    Ok(Measured {
        rate: packets / seconds,
        goodput: 1e3 * job.goodput_gbps,
        cost: 1e6 * cpu / packets,
        cores: cpu / report.seconds,
    })
}
