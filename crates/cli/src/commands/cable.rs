//! `tributary cable`: a link between two interfaces, with the faults of a job file.
//!
//! For links that cannot inject faults themselves: between two BMv2 switches, or under Mininet
//! where the kernel has no `netem`.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tributary_endpoint::driver::faults::Links;
use tributary_model::{
    End, LinkId, Scenario, Topology,
    circuits::{Circuits, Port},
};
use tributary_netio::FrameIo;
use tributary_netio::packet::{Config, PacketSocket};
use tributary_optical::crossconnect::emulated::{Mirrors, Plane};

use super::switch::faults_of;
use crate::args::CableArgs;
use tributary_base::program::stop_flag;

/// Forwards frames until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &CableArgs) -> Result<()> {
    let [first, second] = &args.between[..] else { bail!("--between takes two interfaces") };
    if first == second {
        bail!("--between {first} {second}: a cable has two ends; name two interfaces");
    }
    let stop = stop_flag()?;
    let open = |interface: &String| PacketSocket::open(&Config::switch_port(interface.clone()));
    let (near, far) = (open(first)?, open(second)?);
    let near: Box<dyn FrameIo> = match &args.faults {
        None => Box::new(near),
        Some(spec) => {
            let (scenario, link) = read(spec, args.seed)?;
            let end = scenario.network.topology.link(link).ends[0];
            Box::new(Links::from(&scenario).faulty_in_network(link, end, near)?)
        }
    };
    // A cable is a circuit that never changes.
    let mut mirrors = Mirrors::new(2, Duration::ZERO);
    mirrors.change(Duration::ZERO, &Circuits::new([(Port(1), Port(2))])?)?;
    let ports = vec![(first.clone(), near), (second.clone(), Box::new(far) as _)];
    let (plane, _control) = Plane::new(mirrors, ports);
    let lost = plane.run(&stop).context("cannot wait for frames")?;
    if lost > 0 {
        tracing::warn!(
            "{lost} frames were lost because {first} or {second} was full or its MTU too small"
        );
    }
    Ok(())
}

/// Parses `JOB.toml:NAME:NAME`: the link, reversed if necessary to begin at the first name.
fn read(spec: &OsStr, seed: Option<u64>) -> Result<(Scenario, LinkId)> {
    let (file, [first, second]) = faults_of(spec).with_context(|| {
        let spec = spec.display();
        format!("--faults {spec}: write JOB.toml:NAME:NAME, with the names of the link's ends")
    })?;
    let mut scenario = tributary_model::jobfile::load_with_seed(file, seed)?;
    let topology = &mut scenario.network.topology;
    let ends = |link: LinkId| topology.link(link).ends.map(|end| name(topology, end));
    let found = (0..topology.links.len()).map(LinkId).find(|&link| {
        let [a, b] = ends(link);
        (a, b) == (first, second) || (b, a) == (first, second)
    });
    let link = found.with_context(|| {
        format!("there is no link between {first} and {second} in {}", file.display())
    })?;
    if ends(link)[0] != first {
        topology.links[link.0].ends.reverse();
    }
    Ok((scenario, link))
}

/// The name of the host or switch at an end of a link.
pub(crate) fn name(topology: &Topology, end: End) -> &str {
    match end {
        End::Host(host) => &topology.host(host).name,
        End::Switch(switch, _) => &topology.switch(switch).name,
    }
}
