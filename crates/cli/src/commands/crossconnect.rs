//! `tributary crossconnect`: an emulated cross-connect, and the circuits of cross-connects.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use tonic::service::Routes;
use tributary_access::args::{DoorArgs, IdentityArgs, KeyArgs};
use tributary_access::listen::standard;
use tributary_access::{Listen, Server};
use tributary_controller::server::LIMITS;
use tributary_metrics::Metrics;
use tributary_model::circuits::{Circuits, Port};
use tributary_netio::FrameIo;
use tributary_netio::device::{self as netio, Kind as Io};
use tributary_optical::crossconnect::CrossConnect;
use tributary_optical::crossconnect::emulated::{Mirrors, Plane, service};

use crate::options::ProcessArgs;
use crate::sources::Mirror;
use tributary_base::program::stop_flag;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CrossconnectArgs {
    /// What to do instead of emulating a cross-connect until Ctrl-C.
    #[command(subcommand)]
    command: Option<Task>,
    /// A port and its interface, such as 1@eth0; repeat for each port, from 1.
    #[arg(long = "port", value_name = "N@IFACE", required = true)]
    ports: Vec<String>,
    /// How to send and receive frames on the interfaces.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    /// How long a port that gets another circuit is dark.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = outage)]
    outage: Duration,
    /// Listening address for the controller: ADDRESS:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("cross-connect"))]
    listen: Listen,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    door: DoorArgs,
    /// Port that stays dark although changes report success, for tests; repeat for each port.
    #[arg(long, value_name = "N", hide = true)]
    stuck: Vec<u16>,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the ports and circuits of a cross-connect.
    #[command(after_help = "Example:\n  tributary crossconnect show emulated:127.0.0.1:9642")]
    Show(Device),
    /// Change the circuits of a cross-connect.
    #[command(after_help = "Example:\n\
        \x20 tributary crossconnect change emulated:127.0.0.1:9642 1-3 2-4")]
    Change {
        #[command(flatten)]
        device: Device,
        /// All circuits that shall exist, such as 1-3 2-4; without one, all ports go dark.
        #[arg(value_name = "A-B")]
        circuits: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Device {
    /// The cross-connect, such as emulated:127.0.0.1:9642 (docs/operate/cross-connects.md).
    address: String,
    /// Time limit for each answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    keys: KeyArgs,
}

/// The longest outage that is accepted.
const OUTAGE_MAX: Duration = Duration::from_secs(3600);

fn outage(text: &str) -> Result<Duration, String> {
    let outage = tributary_base::document::duration(text).filter(|outage| *outage <= OUTAGE_MAX);
    outage.ok_or_else(|| "write a time of at most one hour, such as 20ms or 1.5s".to_owned())
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &CrossconnectArgs, metrics: &Metrics) -> Result<()> {
    match &args.command {
        None => emulate(args, metrics),
        Some(Task::Show(device)) => device.with(async |device| {
            let ports = device.ports().await?;
            let circuits = device.circuits().await?;
            tributary_base::say!("{ports} ports, circuits {circuits}");
            Ok(())
        }),
        Some(Task::Change { device, circuits }) => {
            let next = parse_circuits(circuits)?;
            device.with(async |device| Ok(device.change(&next).await?))
        }
    }
}

impl Device {
    fn with(&self, work: impl AsyncFnOnce(&mut dyn CrossConnect) -> Result<()>) -> Result<()> {
        tributary_endpoint::runtime()?.block_on(async {
            let limit = Duration::from_secs(self.timeout);
            let mut device = tributary_optical::crossconnect::connect(
                &self.address,
                limit,
                self.keys.client_keys()?,
            )?;
            work(device.as_mut()).await
        })
    }
}

/// Forwards frames until Ctrl-C or SIGTERM.
fn emulate(args: &CrossconnectArgs, metrics: &Metrics) -> Result<()> {
    let stop = stop_flag()?;
    let door = args.door.door(&args.listen, args.identity.identity().as_ref(), false)?;
    let interfaces = parse_ports(&args.ports)?;
    let count =
        u16::try_from(interfaces.len()).context("a cross-connect has at most 65535 ports")?;
    let mut mirrors = Mirrors::new(count, args.outage);
    for &port in &args.stuck {
        mirrors.stick(Port(port));
    }
    let open = |interface: &&str| {
        let port = netio::Device::open(args.io, &netio::Config::switch_port(*interface))?;
        Ok(((*interface).to_owned(), Box::new(port) as Box<dyn FrameIo>))
    };
    let ports = interfaces.iter().map(open).collect::<Result<_>>()?;
    let (plane, control) = Plane::new(mirrors, ports);
    metrics.add(Mirror(control.clone()));
    let runtime = tributary_endpoint::runtime()?;
    let server = runtime
        .block_on(Server::start(Routes::new(service(control)), door, LIMITS))
        .with_context(|| format!("cannot listen at {}", args.listen))?;
    tributary_base::say!(
        "cross-connect with {count} ports at {}; end with Ctrl-C",
        server.address()
    );
    let lost = plane.run(&stop).context("cannot wait for frames")?;
    runtime.block_on(server.stop());
    if lost > 0 {
        tracing::warn!(
            "{lost} frames were lost because an interface was full or its MTU too small"
        );
    }
    Ok(())
}

/// The interfaces of ports 1, 2, ….
fn parse_ports(texts: &[String]) -> Result<Vec<&str>> {
    let mut ports = BTreeMap::new();
    for text in texts {
        let parsed = text.split_once('@').and_then(|(number, interface)| {
            let number = number.parse::<u16>().ok().filter(|number| *number > 0)?;
            (!interface.is_empty()).then_some((number, interface))
        });
        let (number, interface) = parsed
            .with_context(|| format!("--port {text}: write PORT@INTERFACE, such as 1@eth0"))?;
        if ports.contains_key(&number) || ports.values().any(|known| *known == interface) {
            bail!("--port {text}: the port or the interface is taken; give each port its own");
        }
        ports.insert(number, interface);
    }
    let missing = (1..).zip(ports.keys()).find(|(wanted, number)| wanted != *number);
    if let Some((missing, _)) = missing {
        bail!("--port: there is no port {missing}; number the ports from 1 without gaps");
    }
    Ok(ports.into_values().collect())
}

/// `A-B` each.
fn parse_circuits(texts: &[String]) -> Result<Circuits> {
    let mut circuits = Circuits::DARK;
    for text in texts {
        let ends = text.split_once('-').map(|(a, b)| (a.parse(), b.parse()));
        let Some((Ok(a), Ok(b))) = ends else {
            bail!("circuit {text}: write two ports, such as 1-3");
        };
        circuits.join(Port(a), Port(b)).with_context(|| format!("circuit {text}"))?;
    }
    Ok(circuits)
}
