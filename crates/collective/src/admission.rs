//! A group at an external controller: its job is admitted there, and ranks use the ports of their hosts.
//!
//! The first rank has the job [admitted](admit). The job lasts as long as some rank takes part. Each rank has a
//! [`Station`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tributary_access::{Identity, Remote};
use tributary_endpoint::admission::{self, Address, Request};
use tributary_endpoint::claim::claim;
use tributary_endpoint::open_interface;
use tributary_model::Deployment;
use tributary_netio::device::Kind as Io;
use tributary_netio::interface;
use tributary_wire::channel::Token;
use tributary_wire::{Host, JobId, PORT};
use tributary_worker::live::LanePort;

use crate::description::{self, Description, Fabric};
use crate::members::Members;
use crate::settings;

/// Environment variables of commands whose job was admitted for them.
const JOB: &str = "TRIBUTARY_JOB";
const JOB_KEY: &str = "TRIBUTARY_JOB_KEY";
const WORKERS: &str = "TRIBUTARY_WORKERS";

/// Environment variables, which all ranks read.
const CONTROLLER: &str = "TRIBUTARY_CONTROLLER";
const HOST: &str = "TRIBUTARY_HOST";
const INTERFACE: &str = "TRIBUTARY_INTERFACE";
const IO: &str = "TRIBUTARY_IO";
const IDENTITY: &str = "TRIBUTARY_IDENTITY";
const CERTIFIED_NAME: &str = "TRIBUTARY_CONTROLLER_NAME";

/// An environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where a rank is, and how it sends packets.
#[derive(Clone, Debug)]
pub struct Station {
    controller: Remote,
    host: String,
    interface: Option<String>,
    /// What the environment asks for.
    io: Option<Io>,
}

impl Station {
    /// The station of this process, with the controller that `TRIBUTARY_CONTROLLER` names. The controller finds the
    /// host by `TRIBUTARY_HOST`, or else by the IP addresses of this machine, or of `TRIBUTARY_INTERFACE`.
    ///
    /// # Errors
    /// If a variable is wrong, or the certificates are unusable.
    pub fn find(variables: Variables<'_>) -> Result<Self> {
        let address = variables(CONTROLLER).with_context(|| format!("{CONTROLLER} is not set"))?;
        let controller = controller(&address, variables)?;
        let io = match variables(IO) {
            Some(text) => Some(text.parse().with_context(|| format!("{IO} is {text:?}"))?),
            None => None,
        };
        let interface = variables(INTERFACE);
        let host = match variables(HOST) {
            Some(name) => name,
            None => {
                let own =
                    |name: &str| interface.as_deref().is_none_or(|interface| interface == name);
                let all = interface::addresses().into_iter().filter(|(name, _)| own(name));
                let all: Vec<_> = all.map(|(_, ip)| ip).filter(|ip| !ip.is_loopback()).collect();
                ensure!(
                    !all.is_empty(),
                    "this machine has no IP address, by which the controller could find its host; set {HOST}"
                );
                all.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(",")
            }
        };
        Ok(Self { controller, host, interface, io })
    }

    /// The name of its host, or the IP addresses of the machine, with commas in between.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &Remote {
        &self.controller
    }
}

/// The controller at an address, with the identity that the environment names.
///
/// # Errors
/// If the address or the identity is unusable.
pub fn controller(address: &str, variables: Variables<'_>) -> Result<Remote> {
    let address: Address = address.parse().context(CONTROLLER)?;
    let name = variables(CERTIFIED_NAME);
    let keys = match variables(IDENTITY) {
        Some(directory) => Some(Identity::new(Path::new(&directory)).client(name.as_deref())?),
        None => {
            ensure!(
                name.is_none(),
                "{CERTIFIED_NAME} needs {IDENTITY}, a directory with the root of the controller's certificate"
            );
            None
        }
    };
    admission::controller(&address, keys).with_context(|| format!("{CONTROLLER} and {IDENTITY}"))
}

/// A rank's port, which no other process may use for the job.
pub struct RankPort {
    /// Packets.
    pub lane: LanePort,
    /// Excludes other processes while it is there.
    pub claim: Vec<UnixListener>,
}

impl Station {
    /// Opens the port of a member.
    ///
    /// # Errors
    /// If this machine is not the member's host, or the port cannot be opened.
    pub(crate) fn open(&self, deployment: &Deployment, member: u16) -> Result<RankPort> {
        let (scenario, job) = (deployment.scenario(), deployment.job(settings::JOB));
        let host = *job.workers.get(usize::from(member)).with_context(|| {
            format!("the job has {} workers, and this is worker {member}", job.workers.len())
        })?;
        let tributary_model::Host { name, address, .. } = scenario.network.topology.host(host);
        let interface = match &self.interface {
            Some(interface) => interface.clone(),
            None => {
                let mut all = interface::addresses().into_iter();
                let found = all.find(|(_, ip)| *ip == address.ip).map(|(interface, _)| interface);
                found.with_context(|| {
                    format!(
                        "worker {member} is on host `{name}`, and no network interface here has its address {}; set \
                         {INTERFACE} to the one towards the switch",
                        address.ip
                    )
                })?
            }
        };
        let claim = claim(&interface, "worker", [job])?;
        let open = |io| anyhow::Ok((io, open_interface(scenario, host, &interface, io)?));
        let (io, port) = match self.io {
            Some(io) => open(io)?,
            // Processes of a host can share packet sockets, but not a UDP port. They need a privilege.
            None => open(Io::Packet).or_else(|_| open(Io::Udp))?,
        };
        if io.is_routed() && job.ps.is_none() {
            check_route(&interface, address.ip)?;
        }
        let lane = LanePort { io: Box::new(port), executor: None, link: None };
        Ok(RankPort { lane, claim })
    }
}

/// Gradients of a job without a parameter server go to an address that stands for the switch. Without a
/// route, the kernel sends none.
fn check_route(interface: &str, own: Ipv4Addr) -> Result<()> {
    let switch = Host::service(JobId::new(1).expect("not zero"));
    let reached = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|probe| {
        // It sends nothing.
        probe.connect((switch.ip, PORT))?;
        probe.local_addr()
    });
    ensure!(
        reached.is_ok_and(|from| from.ip() == IpAddr::V4(own)),
        "the way to {ip}, which stands for the switch, does not lead through `{interface}`; set it with \
         `ip route add {ip}/32 dev {interface}` and `ip neighbour add {ip} lladdr {mac} dev {interface}`",
        ip = switch.ip,
        mac = switch.mac
    );
    Ok(())
}

/// The job that a placement manager or Slurm has admitted for the processes that it has started, if it has as many workers
/// as the group has members.
///
/// # Errors
/// If the variables or the settings contradict that.
pub fn given(
    variables: Variables<'_>,
    settings: &str,
    members: &Members,
) -> Result<Option<Description>> {
    let (Some(id), Some(workers)) = (variables(JOB), variables(WORKERS)) else { return Ok(None) };
    if workers.split(',').count() != members.count() {
        return Ok(None);
    }
    let job: Option<JobId> = id.parse().ok().and_then(JobId::new);
    let job = job.with_context(|| format!("{JOB} is {id:?}, which is not the ID of a job"))?;
    let (group, settings) = settings::within(settings)?;
    ensure!(
        settings.trim() == "[job]",
        "the settings have [job], and the job was admitted already ({JOB}={job}); remove it"
    );
    let key = match variables(JOB_KEY) {
        Some(key) => key.parse::<Token>().context(JOB_KEY)?.0.to_vec(),
        None => Vec::new(),
    };
    let (name, members) = (job.to_string(), members.clone());
    let fabric = Fabric::External;
    Ok(Some(Description { group, members, name, job: job.get(), key, fabric }))
}

/// Has a job admitted for members on these hosts. `name` is shown to people.
///
/// # Errors
/// If the settings are wrong, or the controller does not admit the job.
pub fn admit(
    station: &Station,
    settings: &str,
    name: &str,
    members: &Members,
    hosts: &[String],
) -> Result<Description> {
    check_different(members, hosts)?;
    let (group, settings) = settings::within(settings)?;
    let key = description::key();
    let request =
        Request { name: name.into(), workers: hosts.to_vec(), settings, key: key.clone() };
    let runtime = tributary_endpoint::runtime()?;
    let job = runtime.block_on(admission::admit(&station.controller, request))?;
    let (name, members, fabric) = (name.into(), members.clone(), Fabric::External);
    Ok(Description { group, members, name, job: job.get(), key, fabric })
}

/// A port of a switch stands for one worker.
fn check_different(members: &Members, hosts: &[String]) -> Result<()> {
    let mut found = BTreeMap::new();
    for (member, host) in hosts.iter().enumerate() {
        if let Some(other) = found.insert(host, member) {
            bail!(
                "{} are on host `{host}`, which is one worker of a network, and do not share memory: the settings \
                 have `group.switch = true`, or the ranks differ in their user, container or network namespace",
                members.names(&[other, member])
            );
        }
    }
    Ok(())
}
