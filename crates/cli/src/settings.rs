//! What commands share in reading their arguments.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tributary_controller::programs::{self, Compiled, Pipeline, Source};
use tributary_controller::{Catalogue, p4c, segments};
use tributary_jobfile::{End, HostId, Job, LinkId, Scenario};
use tributary_netio::FrameIo;
use tributary_netio::device::{Config, Device};
use tributary_netio::faults::{FaultInjector, Faults, Faulty};
use tributary_netio::interface::Interface;
use tributary_p4::Architecture;
use tributary_p4runtime_proto::p4::config::v1::P4Info;
use tributary_protocol::Assignment;
use tributary_wire::{Host, Mac, PORT};

use crate::args::{EndpointArgs, SwitchKind};
use crate::tokens::Tokens;

/// Reads a job file.
///
/// # Errors
/// One line that names file, line and column.
pub(crate) fn load(path: &Path, seed: Option<u64>) -> Result<Scenario> {
    Ok(tributary_jobfile::load_with_seed(path, seed)?)
}

/// Most values of a packet with the programs for TNA: one pipe of a Tofino has stateful ALUs for no
/// more.
const TNA_VALUES: u16 = 32;

/// Reads a job file that is to run on switches of a kind, with programs for v1model.
///
/// # Errors
/// One line that names file, line and column.
pub(crate) fn load_for(path: &Path, seed: Option<u64>, switches: SwitchKind) -> Result<Scenario> {
    let mut scenario = load(path, seed)?;
    if switches == SwitchKind::Bmv2 {
        scenario.pace_for_bmv2();
    }
    Ok(scenario)
}

/// The same with programs for an architecture. All processes of a job file must agree on it.
///
/// # Errors
/// As [`load_for`].
pub(crate) fn load_with(
    path: &Path,
    seed: Option<u64>,
    switches: SwitchKind,
    architecture: Architecture,
) -> Result<Scenario> {
    let mut scenario = load_for(path, seed, switches)?;
    if architecture == Architecture::Tna {
        let values = &mut scenario.switch.values_per_packet;
        *values = TNA_VALUES.min(*values);
    }
    Ok(scenario)
}

/// Reads the job file of an endpoint.
///
/// # Errors
/// One line that names file, line and column.
pub(crate) fn load_endpoint(args: &EndpointArgs) -> Result<Scenario> {
    load_with(&args.job_file, args.seed, args.target, args.arch)
}

/// The job of a name, or the only one: its place among the scenario's.
///
/// # Errors
/// If there is none, or there are several and none was named.
pub(crate) fn job(scenario: &Scenario, name: Option<&str>) -> Result<usize> {
    let names = || {
        let names: Vec<_> = scenario.jobs.iter().map(|job| job.name.as_str()).collect();
        names.join(", ")
    };
    match name {
        Some(name) => {
            scenario.jobs.iter().position(|job| job.name == name).with_context(|| {
                format!("there is no job `{name}` in the file; it has {}", names())
            })
        }
        None => match &scenario.jobs[..] {
            [_] => Ok(0),
            _ => bail!("the file has several jobs ({}); name one with --job", names()),
        },
    }
}

/// The host of a name.
///
/// # Errors
/// If there is none.
pub(crate) fn host(scenario: &Scenario, name: &str) -> Result<HostId> {
    scenario.topology.host_named(name).with_context(|| {
        let names: Vec<_> = scenario.topology.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("there is no host `{name}` in the file; it has {}", names.join(", "))
    })
}

/// How switches serve a job. It follows from the job file, so that processes which were started by
/// hand agree.
///
/// # Errors
/// If the switches have no room for all jobs of the file.
pub(crate) fn assignment(scenario: &Scenario, job: &Job) -> Result<Assignment> {
    let assignments = segments::assignments(scenario)?;
    assignments.get(&job.id).copied().context("every job of a file has an assignment")
}

/// The tokens that an endpoint was given; none if it was given no file.
///
/// # Errors
/// If the file is no good.
pub(crate) fn tokens(args: &EndpointArgs) -> Result<Tokens> {
    args.tokens.as_deref().map_or(Ok(Tokens::default()), Tokens::read)
}

/// The protocol of all jobs: a switch runs one program.
///
/// # Errors
/// If they differ.
fn protocol(scenario: &Scenario) -> Result<&'static str> {
    let first = scenario.jobs.first().context("the job file has no job")?;
    if let Some(other) = scenario.jobs.iter().find(|job| job.protocol != first.protocol) {
        bail!(
            "jobs `{}` and `{}` use different protocols, and a switch runs one program; put them \
             into two job files",
            first.name,
            other.name
        );
    }
    Ok(first.protocol.name())
}

fn source(
    scenario: &Scenario,
    architecture: Architecture,
    replacement: Option<&Path>,
) -> Result<Source> {
    Ok(match replacement {
        Some(path) => Source::file(path)?,
        None => built_in_for(scenario, architecture)?,
    })
}

/// The program of the library that speaks the scenario's protocol, for v1model.
///
/// # Errors
/// If the jobs have different protocols.
pub(crate) fn built_in(scenario: &Scenario) -> Result<Source> {
    built_in_for(scenario, Architecture::V1model)
}

fn built_in_for(scenario: &Scenario, architecture: Architecture) -> Result<Source> {
    Ok(Source::built_in_for(architecture, protocol(scenario)?)?)
}

/// The program of a scenario's switches for v1model: its protocol's, or the one in a file.
///
/// # Errors
/// If it cannot be read or has errors; they are shown, and the error is one line.
pub(crate) fn compile(scenario: &Scenario, replacement: Option<&Path>) -> Result<Compiled> {
    compile_for(scenario, Architecture::V1model, replacement)
}

/// The program of a scenario's switches for an architecture. One in a file says by itself which it is
/// for.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_for(
    scenario: &Scenario,
    architecture: Architecture,
    replacement: Option<&Path>,
) -> Result<Compiled> {
    let source = source(scenario, architecture, replacement)?;
    match programs::compile(&source, &programs::defines(&scenario.switch)) {
        Err(tributary_controller::Error::Compile(diagnostics)) => {
            eprint!("{diagnostics}");
            bail!("{} has errors", source.main)
        }
        other => {
            let compiled = other?;
            let found = compiled.program.architecture();
            ensure!(
                architecture == Architecture::V1model || found == Some(architecture),
                "--arch {architecture}: {} is for v1model; leave --arch out, or give another program",
                source.main
            );
            must_speak(scenario, &source.main, &compiled.pipeline.p4info)?;
            Ok(compiled)
        }
    }
}

/// Refuses a program that speaks another protocol than the scenario's jobs, before a switch sees it.
///
/// # Errors
/// If it does, or lacks what a controller uses.
pub(crate) fn must_speak(scenario: &Scenario, program: &str, p4info: &P4Info) -> Result<()> {
    let speaks = spoken(Catalogue::new(p4info)?.protocol());
    let wanted = scenario.protocol().name();
    ensure!(
        speaks == wanted,
        "{program} speaks {speaks}, and the jobs of the file use {wanted}; give another program, or \
         write another protocol into the file"
    );
    Ok(())
}

/// The word of job files for the protocol that a program speaks.
pub(crate) fn spoken(protocol: tributary_wire::Protocol) -> &'static str {
    use tributary_wire::Protocol;
    match protocol {
        Protocol::Atp => "atp",
        Protocol::Esa => "esa",
        Protocol::P4inc => "p4inc",
        Protocol::SwitchMl => "switchml",
    }
}

/// What switches of a kind take of a program that was compiled for the embedded switch.
///
/// # Errors
/// If they need another compiler, and it is missing or refuses the program; what it says is shown,
/// and the error is one line.
pub(crate) fn pipeline(
    scenario: &Scenario,
    replacement: Option<&Path>,
    compiled: Pipeline,
    switches: SwitchKind,
) -> Result<Pipeline> {
    if switches == SwitchKind::Embedded {
        return Ok(compiled);
    }
    let source = source(scenario, Architecture::V1model, replacement)?;
    match p4c::bmv2(&source, &programs::defines(&scenario.switch)) {
        Err(tributary_controller::Error::Compile(diagnostics)) => {
            eprint!("{diagnostics}");
            bail!("p4c cannot compile {} for BMv2", source.main)
        }
        other => Ok(other?),
    }
}

/// Puts the faults of a link around a port at one of its ends: on what the port sends, and on what
/// it receives.
///
/// # Errors
/// If the faults make no sense.
pub(crate) fn faulty<Io: FrameIo>(
    scenario: &Scenario,
    link: LinkId,
    end: End,
    seed: u64,
    io: Io,
) -> Result<Faulty<Io>> {
    faulty_from(0, scenario, link, end, seed, io)
}

/// The same at a port in the network: of a switch or a cable. On a host's link only plain frames
/// suffer there, such as the TCP segments of ESA's channels: the host's endpoint injects the faults
/// into its own packets.
///
/// # Errors
/// If the faults make no sense.
pub(crate) fn faulty_in_network<Io: FrameIo>(
    scenario: &Scenario,
    link: LinkId,
    end: End,
    seed: u64,
    io: Io,
) -> Result<Faulty<Io>> {
    let ends = scenario.topology.link(link).ends;
    if ends.iter().all(|end| matches!(end, End::Switch(..))) {
        return faulty(scenario, link, end, seed, io);
    }
    Ok(faulty_from(PLAIN, scenario, link, end, seed, io)?.only(is_plain))
}

/// The first stream of faults of plain frames on hosts' links.
const PLAIN: u64 = 1 << 33;

fn faulty_from<Io: FrameIo>(
    first_stream: u64,
    scenario: &Scenario,
    link: LinkId,
    end: End,
    seed: u64,
    io: Io,
) -> Result<Faulty<Io>> {
    let cable = scenario.topology.link(link);
    let injector = |sender: End| {
        if cable.faults.is_none() {
            return Ok(None);
        }
        let stream = first_stream + 2 * link.0 as u64 + u64::from(cable.ends[0] != sender);
        FaultInjector::new(Faults::from(&cable.faults), seed, stream).map(Some)
    };
    let [a, b] = cable.ends;
    let far = if a == end { b } else { a };
    Ok(Faulty::new(io, injector(end)?, injector(far)?))
}

/// Whether a frame is none of the endpoints': not UDP to our port over IPv4 without options.
fn is_plain(frame: &[u8]) -> bool {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const UDP: [u8; 1] = [17];
    let is = |range: std::ops::Range<usize>, wanted: &[u8]| frame.get(range) == Some(wanted);
    !(is(12..14, &IPV4) && is(23..24, &UDP) && is(36..38, &PORT.to_be_bytes()))
}

/// Opens a host's interface for our packets: its own and the jobs' groups.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open_interface(
    scenario: &Scenario,
    host: HostId,
    args: &EndpointArgs,
) -> Result<Faulty<Device>> {
    let interface = &args.interface;
    let groups = scenario.jobs.iter().map(|job| Host::group(job.id).mac.0);
    let config = Config { multicast: groups.collect(), ..Config::endpoint(interface, PORT) };
    let device = Device::open(args.io.into(), &config)?;
    must_be(scenario, host, device.interface())?;
    let needed = scenario.switch.packet_bytes() as usize;
    let mtu = device.interface().mtu;
    if mtu < needed {
        bail!(
            "network interface `{interface}` has an MTU of {mtu}, and packets with {} values need \
             {needed}; raise it with `ip link set {interface} mtu {needed}`",
            scenario.switch.values_per_packet
        );
    }
    let link = scenario.topology.host(host).link;
    faulty(scenario, link, End::Host(host), scenario.seed, device)
}

/// Refuses an interface that is not the host's: what comes for the host would never reach it.
///
/// # Errors
/// If its addresses are not those of the job file.
fn must_be(scenario: &Scenario, host: HostId, interface: &Interface) -> Result<()> {
    let tributary_jobfile::Host { name: host_name, address, .. } = scenario.topology.host(host);
    let Interface { name, mac, .. } = interface;
    ensure!(
        *mac == address.mac.0,
        "network interface `{name}` has the MAC address {}, and the job file gives host `{host_name}` \
         {}; give another --interface, or correct the host's `mac` in the job file",
        Mac(*mac),
        address.mac
    );
    // The kernel knows the address where TCP is to use it: the channel of ESA.
    let channel = scenario.duties(host).any(|(job, _)| job.agent.is_some());
    if channel && let Err(error) = UdpSocket::bind((address.ip, 0)) {
        bail!(
            "this machine does not have the address {} that the job file gives host `{host_name}` \
             ({error}); add it with `ip address add {}/PREFIX dev {name}`, or correct the host's \
             `ip` in the job file",
            address.ip,
            address.ip
        );
    }
    Ok(())
}

/// The name of the switch that a host is at.
pub(crate) fn switch_of(scenario: &Scenario, host: HostId) -> &str {
    let (switch, _) = scenario.topology.attachment(host);
    &scenario.topology.switch(switch).name
}

/// A flag that the signals raise which ask a process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (the
/// terminal is closed) and SIGQUIT. A second signal ends the process at once. SIGHUP and SIGQUIT stay
/// ignored where they were at the start, as `nohup` has it.
///
/// # Errors
/// If the signals cannot be caught.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let ignored =
        ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let ignored = |signal: i32| ignored >> (signal - 1) & 1 == 1;
    let wanted = [SIGHUP, SIGQUIT].into_iter().filter(|&signal| !ignored(signal));
    for signal in [SIGINT, SIGTERM].into_iter().chain(wanted) {
        // In this order: the first signal finds the flag down, the second one finds it raised.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("cannot catch signals")?;
    }
    Ok(flag)
}

/// Waits for a signal to end.
pub(crate) async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The signals that a process ignores, one bit each from signal 1 up; `status` is its file in `/proc`.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tributary_wire::{Ecn, Envelope};

    use super::*;

    #[test]
    fn packets_of_endpoints_are_not_plain_and_tcp_is() {
        let job = tributary_wire::JobId::new(1).expect("a job");
        let envelope =
            Envelope { source: Host::service(job), destination: Host::group(job), ecn: Ecn::Ect0 };
        let repr = tributary_wire::agg::Repr {
            protocol: tributary_wire::Protocol::Esa,
            kind: tributary_wire::Kind::Gradient,
            flags: tributary_wire::Flags::NONE,
            priority: 1,
            job,
            epoch: tributary_wire::Epoch::FIRST,
            values: 32,
            sequence: tributary_wire::Sequence(0),
            bitmap: tributary_wire::Bitmap::EMPTY,
            index: tributary_wire::AggregatorIndex(0),
        };
        let mut frame = Vec::new();
        tributary_wire::emit_frame(&mut frame, &envelope, &repr);
        assert!(!is_plain(&frame));
        for (at, other) in [(23, 6), (12, 0x86), (37, 0)] {
            let mut frame = frame.clone();
            frame[at] = other;
            assert!(is_plain(&frame), "byte {at}");
        }
        assert!(is_plain(&frame[..37]) && is_plain(&[]));
    }
}
