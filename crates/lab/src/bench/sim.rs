//! The simulator: packet hops per second of one core, beside ns-3; growth with workers; memory.

mod growth;
mod memory;
mod ns3;

use crate::studies::training::{Model, Setup, train};
use anyhow::Result;
use tributary_model::Protocol;
use tributary_run::report::table;

use super::{Spread, processor_time};
use crate::bench::Args;

/// Protocols of the comparison.
const PROTOCOLS: [Protocol; 3] = [Protocol::Atp, Protocol::Esa, Protocol::SwitchMl];

/// Numbers of jobs of eight workers.
const JOBS: [u32; 5] = [1, 2, 4, 8, 16];

pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "\nThe simulator: jobs of eight workers around one switch train ESA's model A. Million \
         arrivals of packets at hosts and switch per second of processor time, median (range)"
    );
    let mut rows = table(&["protocol", "hosts of workers", "62 values a packet", "timing only"]);
    let jobs = if args.quick { &JOBS[..2] } else { &JOBS };
    let mut beside = None;
    for protocol in PROTOCOLS {
        for &jobs in jobs.iter().filter(|jobs| protocol == Protocol::Atp || **jobs == 8) {
            let [full, timing] = rates(args, protocol, jobs)?;
            if protocol == Protocol::Atp && 8 * jobs == ns3::HOSTS {
                beside = Some([full, timing]);
            }
            let hosts = (8 * jobs).to_string();
            rows.add_row([protocol.name().into(), hosts, full.text(2), timing.text(2)]);
        }
    }
    println!("{rows}");
    let beside = beside.map_or_else(|| rates(args, Protocol::Atp, ns3::HOSTS / 8), Ok)?;
    ns3::run(args, beside)?;
    growth::run(args)?;
    memory::run(args)
}

/// With all values, and with timing only.
fn rates(args: &Args, protocol: Protocol, jobs: u32) -> Result<[Spread; 2]> {
    let models = vec![Model::a().scaled_down(8); jobs as usize];
    let setup = Setup { iterations: 1, ..Setup::esa(protocol, models, 8, 1) };
    let full = rate(args, &Setup { timing_only: false, ..setup.clone() })?;
    Ok([full, rate(args, &setup)?])
}

fn rate(args: &Args, setup: &Setup) -> Result<Spread> {
    let one = |_| {
        let begun = processor_time();
        let trained = train(setup)?;
        Ok(trained.hops as f64 / (processor_time() - begun).as_secs_f64() / 1e6)
    };
    Ok(Spread::of((0..args.repeat).map(one).collect::<Result<_>>()?))
}
