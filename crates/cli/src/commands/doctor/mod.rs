//! `tributary doctor`: checks for problems that prevent jobs from running here, with advice.
//!
//! Every part first gathers facts and then judges them; judging uses only the facts.
//!
//! | module | about |
//! | --- | --- |
//! | `host` | kernel, privileges, memory, processors |
//! | `nic` | an interface |
//! | `neighbours` | the other hosts behind it |
//! | `job` | requirements of the job file |
//! | `switches` | switches, over P4Runtime |
//! | `tools` | required programs on the `PATH` |

mod check;
mod host;
mod job;
mod neighbours;
mod nic;
mod switches;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tributary_base::program::print;
use tributary_controller::programs;
use tributary_controller::targets::{self, Given, Kind as Target};
use tributary_embedded::program;
use tributary_endpoint::names;
use tributary_model::Scenario;
use tributary_model::jobfile::Switches;
use tributary_netio::ethtool::Offloads;
use tributary_netio::interface::Interface;
use tributary_netio::{packet, xdp};
use tributary_wire::Mac;

use check::{Check, Verdict, text};

/// The command line arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job file to run, which is compared with the findings.
    #[arg(long, value_name = "FILE")]
    pub(crate) job_file: Option<PathBuf>,
    /// Name of this host in the job file; by default found by its MAC address.
    #[arg(long, value_name = "NAME", requires = "job_file")]
    pub(crate) host: Option<String>,
    /// Network interface to check; repeat for each interface.
    #[arg(long, value_name = "IFACE")]
    pub(crate) interface: Vec<String>,
    /// Address of P4Runtime of a switch: HOST:PORT, unix:PATH, or NAME= and either; repeat for each
    /// switch.
    #[arg(long = "switch", value_name = "ADDR")]
    pub(crate) switches: Vec<String>,
    /// Kind of the switches.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// Compiled program, as for `tributary controller`.
    #[arg(long, value_name = "PATH")]
    pub(crate) bundle: Option<PathBuf>,
    /// P4Runtime device ID of the switches.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Print the checks as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs all checks, and prints the results.
///
/// # Errors
/// If a check failed, or the job file is invalid.
pub(crate) fn run(args: &Args) -> Result<()> {
    let checks = look(args)?;
    if args.json {
        print(&serde_json::to_string_pretty(&checks).context("cannot write JSON")?)?;
    } else {
        print(&text(&checks))?;
    }
    match checks.iter().filter(|check| check.verdict == Verdict::Fail).count() {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        failed => bail!("{failed} checks failed"),
    }
}

/// Runs all checks.
///
/// # Errors
/// If the job file is invalid, or a switch's pipeline cannot be built.
fn look(args: &Args) -> Result<Vec<Check>> {
    let load = |path: &PathBuf| {
        let bmv2 = args.target == Target::Bmv2;
        tributary_model::jobfile::load_for(path, None, Switches { bmv2, tna: false })
    };
    let scenario = args.job_file.as_ref().map(load).transpose()?;
    gather(args, scenario.as_ref())
}

fn gather(args: &Args, scenario: Option<&Scenario>) -> Result<Vec<Check>> {
    let root = Path::new("/");
    let xdp_sockets = Some(xdp::supported().map_err(|error| error.to_string()));
    let super_frames = host::SuperFrames::of(packet::super_frames());
    let facts = host::Facts { xdp_sockets, super_frames, ..host::gather(root) };
    let mut checks = host::judge(&facts);
    if let (Some(path), Some(scenario)) = (&args.job_file, scenario) {
        checks.extend(job::judge(&path.display().to_string(), &job::Facts::of(scenario)));
    }
    let host = host_of(args, scenario)?;
    for interface in &args.interface {
        let found = Interface::find(interface).ok();
        let there = found.is_some();
        let facts = nic::gather(root, found, Offloads::of(interface));
        let packet = |scenario: &Scenario| {
            (
                scenario.network.switch.packet_bytes(),
                scenario.network.switch.values_per_packet.into(),
            )
        };
        let wanted = nic::Wanted {
            packet: scenario.map(packet),
            mac: host.zip(scenario).map(|(host, scenario)| mac(scenario, host)),
            tcp: scenario.is_some_and(|scenario| scenario.network.protocol.has_reminder_agent()),
        };
        checks.extend(nic::judge(interface, &facts, &wanted));
        if let (Some(host), Some(scenario), true) = (host, scenario, there) {
            let others = neighbours_of(scenario, host);
            let table = neighbours::gather(root, interface, &others);
            checks.extend(neighbours::judge(&table, interface, &others));
        }
    }
    if !args.switches.is_empty() {
        checks.extend(look_at_switches(args, scenario)?);
    }
    checks.extend(tools::judge(&tools::gather(), args.target, args.bundle.is_some()));
    Ok(checks)
}

/// This machine's host in the job file: the named one, or the one with an interface's MAC address.
fn host_of(args: &Args, scenario: Option<&Scenario>) -> Result<Option<tributary_model::HostId>> {
    let Some(scenario) = scenario else { return Ok(None) };
    if let Some(name) = &args.host {
        return names::host(scenario, name).map(Some);
    }
    let own = |interface: &String| Interface::find(interface).ok().map(|found| Mac(found.mac));
    let own: Vec<Mac> = args.interface.iter().filter_map(own).collect();
    Ok(scenario.network.topology.host_ids().find(|host| own.contains(&mac(scenario, *host))))
}

fn mac(scenario: &Scenario, host: tributary_model::HostId) -> Mac {
    scenario.network.topology.host(host).address.mac
}

fn neighbours_of(scenario: &Scenario, own: tributary_model::HostId) -> Vec<neighbours::Neighbour> {
    let others = scenario.network.topology.host_ids().filter(|host| *host != own);
    let neighbour = |host| neighbours::Neighbour {
        name: scenario.network.topology.host(host).name.clone(),
        ip: scenario.network.topology.host(host).address.ip,
        mac: mac(scenario, host).to_string(),
    };
    others.map(neighbour).collect()
}

fn look_at_switches(args: &Args, scenario: Option<&Scenario>) -> Result<Vec<Check>> {
    let wanted = match scenario {
        Some(scenario) => {
            let source = program::built_in(scenario)?;
            let given = Given { bundle: args.bundle.clone(), p4info: None };
            let defines = programs::defines(&scenario.network.switch);
            let pipeline = targets::build(args.target, &source, &defines, &given)?.pipeline;
            Some(switches::Wanted { protocol: scenario.network.protocol, pipeline })
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut checks = Vec::new();
    for address in &args.switches {
        let facts = runtime.block_on(switches::gather(address, args.device_id));
        checks.extend(switches::judge(&facts, wanted.as_ref()));
    }
    Ok(checks)
}
