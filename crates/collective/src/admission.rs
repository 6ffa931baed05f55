//! A group at an external controller: its job is admitted there, and ranks use the ports of their hosts.
//!
//! The first rank has the [`Admission`]. It holds the lease of the job, so that the job ends with its
//! process. Each rank has a [`Station`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tributary_access::ClientKeys;
use tributary_endpoint::claim::claim;
use tributary_endpoint::lease::{Address, Controller, Leased, Request};
use tributary_endpoint::{names, open_interface};
use tributary_limits::FileLimit;
use tributary_model::{Deployment, HostId, Protocol, Scenario};
use tributary_netio::device::Kind as Io;
use tributary_netio::interface;
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::{AggregatorIndex, Epoch, Host, JobId, PORT, Segment, Service};
use tributary_worker::live::LanePort;

use crate::description::{self, Description, Fabric};
use crate::membership::{FIRST, Hub, SILENCE};
use crate::settings::{JOB, Settings};
use crate::switch::PATIENCE;

/// Environment variables, which all ranks read.
const NETWORK: &str = "TRIBUTARY_NETWORK";
const HOST: &str = "TRIBUTARY_HOST";
const INTERFACE: &str = "TRIBUTARY_INTERFACE";
const IO: &str = "TRIBUTARY_IO";
const CA: &str = "TRIBUTARY_CA";
const CERTIFICATE: &str = "TRIBUTARY_CERT";
const KEY: &str = "TRIBUTARY_KEY";
const CERTIFIED_NAME: &str = "TRIBUTARY_CERT_NAME";

/// How long the end of a group waits for another run that is just beginning.
const RENEWAL: Duration = Duration::from_secs(5);

/// As large as any job file may be.
const JOB_FILE: FileLimit = FileLimit::new("job file", 4 << 20);

/// An environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where a rank is in the network, and how it sends packets.
#[derive(Clone, Debug)]
pub struct Station {
    /// The text of the network's job file.
    network: String,
    host: String,
    interface: String,
    io: Io,
}

impl Station {
    /// Finds this process's host in the job file that `TRIBUTARY_NETWORK` names, and its interface, by
    /// `TRIBUTARY_HOST` and `TRIBUTARY_INTERFACE` or else by the IP addresses of this machine.
    ///
    /// # Errors
    /// If the file is invalid, or host or interface are not clear.
    pub fn find(variables: Variables<'_>) -> Result<Self> {
        let path = variables(NETWORK).map(PathBuf::from).with_context(|| {
            format!(
                "{NETWORK} is not set; with a controller, name the job file that describes the network, \
                 the same as the controller's"
            )
        })?;
        let network = JOB_FILE.read_text(&path);
        let network = network.with_context(|| format!("{NETWORK}={}", path.display()))?;
        let scenario = tributary_jobfile::parse(&network, &path.display().to_string())?;
        let io = match variables(IO) {
            Some(text) => text.parse().with_context(|| format!("{IO} is {text:?}"))?,
            None => Io::Udp,
        };
        let addresses = interface::addresses();
        let host = match variables(HOST) {
            Some(name) => names::host(&scenario, &name).context(HOST)?,
            None => own_host(&scenario, &path, &addresses)?,
        };
        let tributary_model::Host { name, address, .. } = scenario.network.topology.host(host);
        let interface = match variables(INTERFACE) {
            Some(interface) => interface,
            None => {
                let has = addresses.into_iter().find(|(_, ip)| *ip == address.ip);
                let found = has.map(|(interface, _)| interface);
                found.with_context(|| {
                    format!(
                        "no network interface here has the address {} of host `{name}`; set {INTERFACE} \
                         to the one towards the switch",
                        address.ip
                    )
                })?
            }
        };
        Ok(Self { network, host: name.clone(), interface, io })
    }

    /// The name of its host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// The only host of a file that has one of these addresses.
fn own_host(scenario: &Scenario, path: &Path, addresses: &[(String, Ipv4Addr)]) -> Result<HostId> {
    let hosts = scenario.network.topology.hosts.iter().enumerate();
    let own = |host: &tributary_model::Host| addresses.iter().any(|(_, ip)| *ip == host.address.ip);
    let own: Vec<_> = hosts.filter(|(_, host)| own(host)).collect();
    match own[..] {
        [(at, _)] => Ok(HostId(at)),
        [] => {
            let addresses: Vec<_> = addresses.iter().map(|(_, ip)| ip.to_string()).collect();
            bail!(
                "{}: no host of it has an address of this machine ({}); set {HOST} to the name of the host",
                path.display(),
                addresses.join(", ")
            )
        }
        [(_, first), (_, second), ..] => bail!(
            "{}: the hosts `{}` and `{}` both have an address of this machine; set {HOST} to one of them",
            path.display(),
            first.name,
            second.name
        ),
    }
}

/// The controller at an address, with the certificates that the environment names.
///
/// # Errors
/// If the address or the certificates are unusable.
pub fn controller(address: &str, variables: Variables<'_>) -> Result<Controller> {
    let address: Address = address.parse().context("TRIBUTARY_CONTROLLER")?;
    let file = |name| variables(name).map(PathBuf::from);
    let own = match (file(CERTIFICATE), file(KEY)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => bail!("only one of {CERTIFICATE} and {KEY} is set; set both, or none"),
    };
    let name = variables(CERTIFIED_NAME);
    let tls = match file(CA) {
        Some(roots) => {
            let own = own.as_ref().map(|(certificate, key)| (&**certificate, &**key));
            Some(Arc::new(ClientKeys::read(&roots, own, name.as_deref())?))
        }
        None => {
            ensure!(
                own.is_none() && name.is_none(),
                "{CERTIFICATE}, {KEY} and {CERTIFIED_NAME} need {CA}, the root of the controller's \
                 certificate"
            );
            None
        }
    };
    Controller::new(&address, tls).with_context(|| format!("TRIBUTARY_CONTROLLER and {CA}"))
}

/// A job that a controller has admitted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Admitted {
    job: u16,
    epoch: u32,
    service: u8,
    offset: u32,
    size: u32,
    /// Bits of values per second of each rank; 0: no limit.
    rate: u64,
}

impl Admitted {
    fn of(leased: &Leased) -> Self {
        let (run, Assignment { service, segment, .. }) = (leased.run(), leased.assignment());
        Self {
            job: run.job.get(),
            epoch: run.epoch.get(),
            service: service.get(),
            offset: segment.offset.0,
            size: segment.size,
            rate: leased.rate().map_or(0, Rate::get),
        }
    }

    /// The settings of the job's workers.
    ///
    /// # Errors
    /// If a number is impossible.
    pub fn deployment(&self, mut scenario: Scenario) -> Result<Deployment> {
        let (job, epoch) = (JobId::new(self.job), Epoch::new(self.epoch));
        let (job, epoch) = job.zip(epoch).context("the first rank describes no job")?;
        scenario.jobs[JOB].id = job;
        scenario.jobs[JOB].rate = Rate::new(self.rate);
        let segment = Segment { offset: AggregatorIndex(self.offset), size: self.size };
        let service = Service::new(self.service);
        let mut deployment = Deployment::unassigned(scenario);
        deployment.set_epoch(JOB, epoch);
        deployment.set_assignment(JOB, Assignment { service, segment, mode: Mode::Local });
        Ok(deployment)
    }
}

/// A rank's port, which no other process may use for the job.
pub struct Port {
    /// Packets.
    pub lane: LanePort,
    /// Excludes other processes while it is there.
    pub claim: Vec<UnixListener>,
}

impl Station {
    /// Opens the port of a rank.
    ///
    /// # Errors
    /// If the rank is on another host, or the port cannot be opened.
    pub(crate) fn open(&self, deployment: &Deployment, rank: u16) -> Result<Port> {
        let Self { interface, io, .. } = self;
        let (scenario, job) = (deployment.scenario(), deployment.job(JOB));
        let host = *job.workers.get(usize::from(rank)).with_context(|| {
            format!("the group has {} ranks, not rank {rank}", job.workers.len())
        })?;
        let name = &scenario.network.topology.host(host).name;
        ensure!(
            *name == self.host,
            "rank {rank} was admitted on host `{name}`, and its process is on host `{}`",
            self.host
        );
        let claim = claim(interface, "worker", [job])?;
        let port = open_interface(scenario, host, interface, *io)?;
        if io.is_routed() {
            check_route(interface, scenario.network.topology.host(host).address.ip)?;
        }
        let lane = LanePort { io: Box::new(port), executor: None, link: None };
        Ok(Port { lane, claim })
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

/// The job of a group at a controller, and its hub. The job ends with this, or with the process.
pub struct Admission {
    /// `None` once it is closed.
    inner: Option<Inner>,
    description: Description,
}

struct Inner {
    runtime: Runtime,
    hub: Hub,
    leased: Arc<Mutex<Leased>>,
}

impl Admission {
    /// Admits a job for ranks on these hosts. `name` is shown to people, and the hub listens at `own`, an
    /// address of this machine. A rank may take `timeout` to begin a call.
    ///
    /// # Errors
    /// If the settings do not suit the network, or the controller does not admit the job.
    pub fn request(
        controller: &Controller,
        station: &Station,
        settings: &str,
        name: &str,
        hosts: &[String],
        own: Ipv4Addr,
        timeout: Duration,
    ) -> Result<Self> {
        check_different(hosts)?;
        let settings = Settings::within(settings, &station.network, hosts, timeout)?;
        let scenario = settings.scenario()?;
        check_local(&scenario)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("cannot start threads")?;
        let secret = description::secret();
        let ranks = u16::try_from(hosts.len()).context("a group has at most 1024 ranks")?;
        let size = scenario.jobs[JOB].segment;
        let request = Request { name: name.into(), workers: hosts.to_vec(), size };
        let (hub, leased, fabric) = runtime.block_on(async {
            let address = SocketAddr::from((own, 0));
            let hub = Hub::start(address, secret.clone(), ranks, timeout.max(SILENCE)).await?;
            let loss = hub.loss(FIRST);
            let lost = |why| loss(format!("holds the group's job, and {why}"));
            let leased = Leased::admit(controller, request, lost).await?;
            let fabric = Fabric::External(Admitted::of(&leased));
            let leased = Arc::new(Mutex::new(leased));
            let own = Arc::clone(&leased);
            hub.renew_with(move || {
                let leased = Arc::clone(&own);
                async move {
                    let mut leased = leased.lock().await;
                    let epoch = leased.renew().await.map_err(|why| {
                        format!(
                            "holds the group's job, and the controller at {} {why}",
                            leased.address()
                        )
                    })?;
                    Ok(vec![epoch])
                }
            });
            anyhow::Ok((hub, leased, fabric))
        })?;
        let description = Description { settings, secret, hub: hub.address(), fabric };
        Ok(Self { inner: Some(Inner { runtime, hub, leased }), description })
    }

    /// How ranks take part.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Waits until the ranks have left, but not for long, and releases the job. Returns the number of
    /// aggregators that were in use: none after a group that left in order.
    ///
    /// # Errors
    /// If the controller does not answer. It then releases the job by itself.
    pub fn close(&mut self) -> Result<u32> {
        let Some(Inner { runtime, hub, leased }) = self.inner.take() else { return Ok(0) };
        runtime.block_on(hub.emptied(PATIENCE));
        let freed = runtime.block_on(async {
            // A renewal that is under way has no end while the controller is away.
            match tokio::time::timeout(RENEWAL, leased.lock()).await {
                Ok(mut leased) => leased.release().await,
                Err(_) => Err(anyhow!("the group's job was waiting for another run")),
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        freed
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("leaving the controller: {error:#}");
        }
    }
}

/// A port of a switch stands for one worker.
fn check_different(hosts: &[String]) -> Result<()> {
    let mut ranks = BTreeMap::new();
    for (rank, host) in hosts.iter().enumerate() {
        if let Some(other) = ranks.insert(host, rank) {
            bail!(
                "ranks {other} and {rank} are both on host `{host}`; with a controller, start one process \
                 per host"
            );
        }
    }
    Ok(())
}

/// Refuses jobs whose sums need more than one switch.
fn check_local(scenario: &Scenario) -> Result<()> {
    let (topology, job) = (&scenario.network.topology, &scenario.jobs[JOB]);
    ensure!(
        matches!(job.protocol, Protocol::P4inc | Protocol::SwitchMl),
        "the network's protocol is {}, whose jobs need a parameter server; a group at a controller uses \
         p4inc or switchml",
        job.protocol.name()
    );
    let switch = |host: &HostId| topology.switch(topology.attachment(*host).0).name.as_str();
    let first = job.workers.first().map(switch);
    if let Some(other) = job.workers.iter().map(switch).find(|other| Some(*other) != first) {
        bail!(
            "the ranks are at several switches ({} and {other}), so that their job needs a parameter \
             server; start them on hosts of one switch",
            first.unwrap_or_default()
        );
    }
    ensure!(
        job.ps.is_none() && job.agent.is_none(),
        "the job needs a parameter server; leave `aggregation` out of [job] in the settings"
    );
    Ok(())
}
