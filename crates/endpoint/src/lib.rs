//! The shared part of workers, parameter servers and reminder agents outside their protocol: the
//! command line, the interface, their part in jobs, tokens and channels.
//!
//! | module | content |
//! | --- | --- |
//! | [`Args`] | the command line |
//! | [`open_interface`] | the host's port, with the faults of its link |
//! | [`mod@claim`] | one process per part of a job on an interface |
//! | [`membership`] | a worker's part in its job |
//! | [`serving`] | the jobs that a host's parameter servers, or its agent, serve |
//! | [`admission`] | admits a job at a controller |
//! | [`tokens`], [`channel`] | ESA's reliable channels |
//! | [`names`] | hosts by their names |
//! | [`numbers`] | the names of jobs, for metrics |

pub mod admission;
pub mod channel;
pub mod claim;
pub mod driver;
pub mod membership;
pub mod names;
pub mod numbers;
pub mod serving;
mod stream;
pub mod tokens;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::driver::faults::Links;
use anyhow::{Context, Result, bail, ensure};
use tributary_model::{Deployment, End, HostId, JobSpec, Protocol, Scenario};
use tributary_netio::device::{Config, Device, Kind as Io};
use tributary_netio::faults::Faulty;
use tributary_netio::interface::{self, Interface};
use tributary_wire::{Host, Mac, PORT};

use tributary_access::Remote;
use tributary_access::args::KeyArgs;

/// The command line arguments of all endpoints.
#[derive(Debug)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Args {
    /// Network interface towards the switch.
    #[cfg_attr(feature = "clap", arg(long, value_name = "IFACE"))]
    pub interface: String,
    /// How to send and receive our packets on the interface. The kernel handles all others.
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t))]
    pub io: Io,
    /// Address of `tributary controller --listen`, which says what the process needs: HOST:PORT or unix:PATH.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDR", env = "TRIBUTARY_CONTROLLER"))]
    pub controller: String,
    /// How we show the controller who we are.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub keys: KeyArgs,
    /// Print events as JSON, one per line, instead of text.
    #[cfg_attr(feature = "clap", arg(long))]
    pub json_events: bool,
}

impl Args {
    /// The controller.
    ///
    /// # Errors
    /// If its address or our keys are unusable.
    pub fn controller(&self) -> Result<Remote> {
        self.keys.remote("--controller", &self.controller)
    }

    /// The name of this host, or else the address of its interface.
    ///
    /// # Errors
    /// If there is neither.
    pub fn host_name(&self, name: Option<&str>) -> Result<String> {
        if let Some(name) = name {
            return Ok(name.to_owned());
        }
        let own = interface::addresses().into_iter().find(|(name, _)| *name == self.interface);
        own.map(|(_, ip)| ip.to_string()).with_context(|| {
            format!(
                "network interface `{}` has no IP address by which the network knows this host; name the host \
                 with --host NAME",
                self.interface
            )
        })
    }
}

/// The jobs with a part on this host, and their indices in the file.
pub fn jobs_at(
    deployment: &Deployment,
    host: HostId,
    part: fn(&JobSpec) -> Option<HostId>,
) -> impl Iterator<Item = (usize, &JobSpec)> {
    let jobs = deployment.scenario().jobs.iter().enumerate();
    jobs.filter(move |(_, job)| part(job) == Some(host))
}

/// Opens a host's interface for packets to the host and to the jobs' groups.
///
/// # Errors
/// If it cannot be opened.
pub fn open_interface(
    scenario: &Scenario,
    host: HostId,
    interface: &str,
    io: Io,
) -> Result<Faulty<Device>> {
    let groups = scenario.jobs.iter().map(|job| Host::group(job.id).ip);
    let config = Config { groups: groups.collect(), ..config(scenario, interface) };
    let device = Device::open(io, &config)?;
    check_interface(scenario, host, device.interface(), io)?;
    let link = scenario.network.topology.host(host).link;
    Ok(Links::from(scenario).faulty(link, End::Host(host), device)?)
}

/// Opens a port on a host's interface for each lane of the job with this index in the file: one port
/// as [`open_interface`] does, several if each gets the packets of its lane.
///
/// # Errors
/// If they cannot be opened.
pub fn open_lanes(
    scenario: &Scenario,
    host: HostId,
    args: &Args,
    job: usize,
) -> Result<Vec<Faulty<Device>>> {
    let lanes = scenario.jobs[scenario.lanes(job)].iter();
    open_ports(scenario, host, args, lanes.map(|lane| vec![lane]).collect())
}

/// Opens a port on a host's interface for each thread of its parameter servers.
///
/// # Errors
/// If they cannot be opened.
pub fn open_server_ports(
    scenario: &Scenario,
    host: HostId,
    args: &Args,
) -> Result<Vec<Faulty<Device>>> {
    // One socket of an interface gets all packets through AF_XDP.
    let threads = if args.io == Io::Xdp { 1 } else { scenario.server_threads(host) };
    let own = || scenario.jobs.iter().filter(|job| job.ps == Some(host));
    let of_thread = |thread| own().filter(|job| job.lane.thread(threads) == thread).collect();
    open_ports(scenario, host, args, (0..threads).map(of_thread).collect())
}

/// Opens a port for each list of jobs. A single port gets the packets of all jobs.
fn open_ports(
    scenario: &Scenario,
    host: HostId,
    args: &Args,
    ports: Vec<Vec<&JobSpec>>,
) -> Result<Vec<Faulty<Device>>> {
    if ports.len() == 1 {
        return Ok(vec![open_interface(scenario, host, &args.interface, args.io)?]);
    }
    let of_port = |jobs: Vec<&JobSpec>| Config {
        groups: jobs.iter().map(|job| Host::group(job.id).ip).collect(),
        jobs: jobs.iter().map(|job| job.id.get()).collect(),
        ..config(scenario, &args.interface)
    };
    let configs: Vec<Config> = ports.into_iter().map(of_port).collect();
    let devices = Device::open_shared(args.io, &configs)?;
    if let Some(first) = devices.first() {
        check_interface(scenario, host, first.interface(), args.io)?;
    }
    let link = scenario.network.topology.host(host).link;
    let faulty = |(lane, device)| {
        Ok(Links::from(scenario).faulty_lane(lane, link, End::Host(host), device)?)
    };
    devices.into_iter().enumerate().map(faulty).collect()
}

/// The configuration of a host's interface. It may be down for as long as a worker may be silent.
fn config(scenario: &Scenario, interface: &str) -> Config {
    Config { outage: scenario.network.worker_timeout, ..Config::endpoint(interface, PORT) }
}

/// Refuses an interface that is not the host's, or whose packets are too short, and warns of one that loses sums.
fn check_interface(scenario: &Scenario, host: HostId, found: &Interface, io: Io) -> Result<()> {
    must_be(scenario, host, found, io.is_routed())?;
    let interface = &found.name;
    let needed = scenario.network.switch.packet_bytes() as usize;
    let mtu = found.mtu;
    if mtu < needed {
        bail!(
            "network interface `{interface}` has an MTU of {mtu}, and packets with {} values need \
             {needed}; raise it with `ip link set {interface} mtu {needed}`",
            scenario.network.switch.values_per_packet
        );
    }
    let sends = scenario.jobs.iter().any(|job| job.workers.contains(&host));
    let announced = sends && scenario.network.protocol == Protocol::Esa;
    if announced && io.is_routed() && interface::accepts_own("/".as_ref(), interface) == Some(false)
    {
        tracing::warn!(
            "a sum that a switch announces in a packet of this host is lost, and must be recovered: the kernel \
             drops packets from its own address; set `sysctl -w net.ipv4.conf.{interface}.accept_local=1`"
        );
    }
    Ok(())
}

/// Refuses an interface of another host: packets for this host would never reach it.
///
/// # Errors
/// If its addresses differ from those of the job file.
fn must_be(
    scenario: &Scenario,
    host: HostId,
    interface: &Interface,
    is_routed: bool,
) -> Result<()> {
    let tributary_model::Host { name: host_name, address, .. } =
        scenario.network.topology.host(host);
    let Interface { name, mac, .. } = interface;
    ensure!(
        *mac == address.mac.0,
        "network interface `{name}` has the MAC address {}, and the job file gives host `{host_name}` \
         {}; give another --interface, or correct the host's `mac` in the job file",
        Mac(*mac),
        address.mac
    );
    // The kernel needs the IP address only for its UDP and TCP: the channel of ESA.
    let channel = scenario.duties(host).any(|(job, _)| job.agent.is_some());
    if (is_routed || channel)
        && let Err(error) = UdpSocket::bind((address.ip, 0))
    {
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

/// Waits until a flag is raised.
pub async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A tokio runtime for gRPC, with one thread in addition to the calling one.
///
/// # Errors
/// If no more threads can be created.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")
}
