//! What commands share in reading their arguments.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tributary_controller::Deployment;
use tributary_job::tokens::Tokens;
use tributary_job::{faults, program};
use tributary_jobfile::{End, HostId, Scenario};
use tributary_netio::device::{Config, Device};
use tributary_netio::faults::Faulty;
use tributary_netio::interface::Interface;
use tributary_wire::{Host, Mac, PORT};

use crate::args::EndpointArgs;

/// Reads the job file of an endpoint, and computes what switches assign to its jobs.
///
/// # Errors
/// One line that names file, line and column; or the switches have no room for all jobs of the file.
pub(crate) fn load_endpoint(args: &EndpointArgs) -> Result<Deployment> {
    let scenario = program::load(&args.job_file, args.seed, args.target, args.arch)?;
    Ok(Deployment::new(scenario)?)
}

/// The tokens that an endpoint was given; none if it was given no file.
///
/// # Errors
/// If the file is no good.
pub(crate) fn tokens(args: &EndpointArgs) -> Result<Tokens> {
    args.tokens.as_deref().map_or(Ok(Tokens::default()), Tokens::read)
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
    let device = Device::open(args.io, &config)?;
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
    faults::faulty(scenario, link, End::Host(host), scenario.seed, device)
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
