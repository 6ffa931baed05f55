//! The network: its parts, and how they are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::programs::Pipeline;
use tributary_dataplane::EngineKind;
use tributary_endpoint::channel;
use tributary_endpoint::driver::executor::Executor;
use tributary_endpoint::driver::faults::Links;
use tributary_endpoint::tokens::Tokens;
use tributary_metrics::{Board, Metrics};
use tributary_model::{Deployment, End, HostId, LinkId, Scenario, SwitchId, worker_index};
use tributary_netio::memory::{self, MemoryPort};
use tributary_netio::{Counted, Fan, FrameCount, FrameIo, Frames, Waker};
use tributary_ps::numbers::{Backends, Numbers as ServerNumbers};
use tributary_ps::report::Event;
use tributary_switch::runtime::{Control, Report, Runtime, SwitchHandle};
use tributary_switch::server::Service;
use tributary_worker::live::LanePort;
use tributary_worker::numbers::{Numbers as WorkerNumbers, Workers};

use crate::lanes;
use crate::relay::Relay;
use crate::switches::{Reader, Switches};
use crate::threads::row;

/// Frames that a link holds in each direction, as in a network card's ring.
pub const LINK_CAPACITY: usize = 256;

/// Why a host's ports are there when its process starts.
const ONE_PROCESS: &str = "a host has one process";

/// Bytes that may wait between controller and switch.
const CONTROL_BUFFER: usize = 64 << 10;

/// The switches' ends of the links to hosts in other processes: by the switch's thread, and the lane of
/// the host's worker.
pub type Outside = BTreeMap<HostId, Vec<Vec<Box<dyn FrameIo>>>>;

/// A switch's end of a link, by the switch's threads.
type Parts = Vec<Box<dyn FrameIo>>;

/// The end of a host's thread of the links to its switch's threads.
type HostPort = Fan<MemoryPort>;

/// How endpoints reach their reminder agents (ESA).
pub struct Contacts {
    /// Those of the jobs.
    pub tokens: Tokens,
    /// The address of an agent, by `(client, agent)`.
    addresses: BTreeMap<(HostId, HostId), SocketAddr>,
}

impl Contacts {
    /// Where a client connects to reach an agent.
    ///
    /// # Panics
    /// If they have no job in common.
    pub fn from(&self, client: HostId) -> impl Fn(HostId) -> SocketAddr {
        move |agent| self.addresses[&(client, agent)]
    }
}

/// Receives the notes of servers and agents, in their threads.
pub type Tell = Arc<dyn Fn(Note) + Send + Sync>;

/// A note of a parameter server or a reminder agent.
#[derive(Clone, Debug)]
pub enum Note {
    /// An event of its jobs.
    Servers(Event),
    /// It ended with this error.
    Broken(String),
}

/// Wraps the port at an end of a link, for example to capture its frames.
pub type Tap = Arc<dyn Fn(End, Box<dyn FrameIo>) -> Box<dyn FrameIo> + Send + Sync>;

/// Settings of a network.
pub struct Options<'m> {
    /// Execution engine of the switches.
    pub engine: EngineKind,
    /// Threads of each switch, at least one.
    pub threads: u16,
    /// Hosts in other processes.
    pub outside: Outside,
    /// Wraps the ports at all ends of links in this process.
    pub tap: Option<Tap>,
    /// Publishes the counters of switches and endpoints.
    pub metrics: &'m Metrics,
}

/// A network in this process.
pub struct Embedded {
    deployment: Arc<Deployment>,
    /// Set while the switches run.
    controller: Option<Arc<Controller>>,
    switches: Vec<Running>,
    /// The hosts' ends of their links, until their endpoints start: one for each of their threads.
    ports: BTreeMap<HostId, Vec<(HostPort, Waker)>>,
    /// Those of these ports.
    frames: BTreeMap<HostId, Vec<Arc<Frames>>>,
    /// What runs the endpoint of each lane of a host's worker. Hosts share them.
    executors: BTreeMap<HostId, Vec<Arc<Executor>>>,
    servers: Vec<JoinHandle<()>>,
    stop_servers: Arc<AtomicBool>,
    /// Relays between ESA's endpoints while they run.
    relay: Option<Relay>,
    tap: Option<Tap>,
    boards: Boards,
}

/// Where the endpoints of a fabric publish their numbers.
#[derive(Clone, Debug, Default)]
pub struct Boards {
    /// Workers.
    pub workers: Board<WorkerNumbers>,
    /// Parameter servers and reminder agents.
    pub servers: Board<ServerNumbers>,
}

/// A running switch and its connection to the controller.
struct Running {
    name: String,
    handle: Option<SwitchHandle>,
    channel: Channel,
    reader: Reader,
    /// Ends the P4Runtime server when it is dropped.
    _shutdown: oneshot::Sender<()>,
}

impl Embedded {
    /// Starts the switches and their controller, with the program and forwarding.
    ///
    /// # Errors
    /// If they cannot be started.
    ///
    /// # Panics
    /// If a host outside has no links to each of a switch's threads.
    pub async fn open(
        deployment: &Arc<Deployment>,
        program: &Pipeline,
        options: Options<'_>,
    ) -> Result<Self> {
        let Options { engine, threads, mut outside, tap, metrics } = options;
        let scenario = deployment.scenario();
        let topology = &scenario.network.topology;
        let mut runtimes: Vec<Runtime> = topology
            .switch_ids()
            .map(|id| {
                Runtime::new(tributary_switch::SwitchConfig {
                    device_id: device_id(id),
                    queue_limit: scenario.network.switch.queue_capacity as usize,
                    engine,
                    cores: threads,
                    ..tributary_switch::SwitchConfig::default()
                })
            })
            .collect();
        let switch_threads = topology.switches.len() * usize::from(threads);
        let executors = executors(scenario, switch_threads, &outside)?;
        let mut ports = BTreeMap::new();
        for (index, link) in topology.links.iter().enumerate() {
            let [first, second] = link.ends;
            match (first, second) {
                (End::Host(host), End::Switch(switch, port))
                | (End::Switch(switch, port), End::Host(host)) => {
                    let runtime = &mut runtimes[switch.0];
                    let parts: Parts = match outside.remove(&host) {
                        Some(parts) => {
                            parts.into_iter().map(|lanes| lanes::fan(scenario, lanes)).collect()
                        }
                        None => {
                            let wakers = wakers(scenario, host, &executors);
                            let (own, far) = host_ports(wakers, runtime.wakers());
                            ports.insert(host, own);
                            far.into_iter().map(|lanes| lanes::fan(scenario, lanes)).collect()
                        }
                    };
                    let end = End::Switch(switch, port);
                    let parts = parts.into_iter().map(|io| tapped(tap.as_ref(), end, io));
                    runtime.add_parts(port, parts.collect(), None);
                }
                (End::Switch(a, near_port), End::Switch(b, far_port)) => {
                    let wakers = runtimes[a.0].wakers().zip(runtimes[b.0].wakers());
                    let [near, far] = trunk(scenario, LinkId(index), tap.as_ref(), wakers)?;
                    runtimes[a.0].add_parts(near_port, near, None);
                    runtimes[b.0].add_parts(far_port, far, None);
                }
                (End::Host(_), End::Host(_)) => unreachable!("hosts are linked to switches"),
            }
        }
        let switches: Vec<Running> = runtimes
            .into_iter()
            .zip(topology.switch_ids())
            .map(|(runtime, id)| Running::start(&topology.switch(id).name, runtime))
            .collect::<Result<_>>()?;
        let configs = switches.iter().enumerate().map(|(index, running)| SwitchConfig {
            device_id: device_id(SwitchId(index)),
            ..SwitchConfig::new(&running.name, Target::Channel(running.channel.clone()))
        });
        let boards = Boards::default();
        let readers = switches.iter().map(|running| (running.name.clone(), running.reader.clone()));
        metrics.add(Switches::new(readers));
        metrics.add(Workers::new(boards.workers.clone()));
        metrics.add(Backends(boards.servers.clone()));
        let controller = Controller::connect(topology, configs.collect(), program).await?;
        Ok(Self {
            deployment: Arc::clone(deployment),
            controller: Some(Arc::new(controller)),
            switches,
            frames: counters(&ports),
            ports,
            executors,
            servers: Vec::new(),
            stop_servers: Arc::default(),
            relay: None,
            tap,
            boards,
        })
    }

    /// Where the endpoints publish their numbers.
    #[must_use]
    pub fn boards(&self) -> &Boards {
        &self.boards
    }

    /// The controller of the switches.
    ///
    /// # Panics
    /// If they have stopped.
    #[must_use]
    pub fn controller(&self) -> &Arc<Controller> {
        self.controller.as_ref().expect("the switches run")
    }

    /// A switch, while it runs.
    #[must_use]
    pub fn switch(&self, id: SwitchId) -> Option<&Control> {
        self.switches[id.0].handle.as_ref().map(SwitchHandle::control)
    }

    /// Starts the reminder agents, which listen for their peers at an address of this host, and the
    /// parameter servers. Their threads call `tell`, which must not block.
    ///
    /// # Errors
    /// If one of them cannot be started.
    pub fn start_servers(&mut self, address: IpAddr, tell: &Tell) -> Result<Contacts> {
        let deployment = Arc::clone(&self.deployment);
        let scenario = deployment.scenario();
        let tokens = Tokens::draw(scenario);
        // The agents listen before any endpoint connects.
        let mut hubs = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        for host in scenario.network.topology.host_ids() {
            let Some([(_, waker), ..]) = self.ports.get(&host).map(Vec::as_slice) else { continue };
            let any = (address, 0).into();
            if let Some(hub) = channel::hub(scenario, host, &tokens, any, waker.clone())? {
                addresses.insert(host, hub.address());
                hubs.insert(host, hub);
            }
        }
        let (relay, ways) = Relay::start(&deployment, &addresses)?;
        self.relay = Some(relay);
        let contacts = Contacts { tokens, addresses: ways };
        for host in scenario.network.topology.host_ids() {
            let name = &scenario.network.topology.host(host).name;
            let (stop, tell) = (Arc::clone(&self.stop_servers), Arc::clone(tell));
            if let Some(agent) = tributary_reminder::agent(&deployment, host)? {
                let (io, waker) = self.port(host)?;
                let board = self.boards.servers.clone();
                let mut hub = hubs.remove(&host).context("an agent has a hub")?;
                self.servers.push(spawn(format!("agent on {name}"), move || {
                    let ended =
                        tributary_reminder::serve(agent, &mut hub, io, waker, &stop, &board);
                    tell(match ended {
                        Ok(agent) => Note::Servers(Event::backend(&agent)),
                        Err(error) => Note::Broken(format!("reminder agent: {error}")),
                    });
                })?);
                continue;
            }
            if !scenario.jobs.iter().any(|job| job.ps == Some(host)) {
                continue;
            }
            let ports = self.ports.remove(&host).context(ONE_PROCESS)?;
            let servers = tributary_ps::servers(&deployment, host, ports.len(), &[])?;
            for (thread, (servers, (io, waker))) in servers.into_iter().zip(ports).enumerate() {
                let io = self.at_host(host, thread, io)?;
                // ESA's servers, which have channels, are in one thread.
                let hub = hubs.remove(&host);
                let (tokens, at) = (&contacts.tokens, contacts.from(host));
                let mut channels = tributary_ps::channels(scenario, host, tokens, hub, &waker, at)?;
                let (stop, tell) = (Arc::clone(&self.stop_servers), Arc::clone(&tell));
                let board = self.boards.servers.clone();
                self.servers.push(spawn(format!("ps on {name}"), move || {
                    let waker = (!channels.is_empty()).then_some(waker);
                    let mut hear = |job, event| tell(Note::Servers(Event::of(job, &event)));
                    let channels = &mut channels;
                    let ended =
                        tributary_ps::serve(servers, channels, io, waker, &stop, &board, &mut hear);
                    tell(match ended {
                        Ok(servers) => Note::Servers(Event::done(servers.reports())),
                        Err(error) => Note::Broken(format!("parameter server: {error}")),
                    });
                })?);
            }
        }
        Ok(contacts)
    }

    /// The connections of a worker in this process, once.
    ///
    /// # Errors
    /// If they were taken before, or a token is missing.
    pub fn worker(
        &mut self,
        job: usize,
        worker: usize,
        contacts: &Contacts,
    ) -> Result<Vec<LanePort>> {
        let scenario = self.deployment.scenario();
        let host = scenario.jobs[job].workers[worker];
        let ports = self.ports.remove(&host).context(ONE_PROCESS)?;
        let ports = scenario.lanes(job).zip(ports).zip(&self.executors[&host]);
        let connect = |((lane, (io, _)), executor): ((usize, _), _)| {
            let lane = &scenario.jobs[lane];
            let (tokens, at) = (&contacts.tokens, contacts.from(host));
            let link = channel::worker_link(scenario, lane, worker_index(worker), tokens, at)?;
            let io = self.at_host(host, lane.lane.index, io)?;
            Ok(LanePort { io, executor: Some(Arc::clone(executor)), link })
        };
        ports.map(connect).collect()
    }

    /// The host's end of its link, with the link's faults, and its waker.
    fn port(&mut self, host: HostId) -> Result<(Box<dyn FrameIo>, Waker)> {
        let ports = self.ports.remove(&host).context(ONE_PROCESS)?;
        let (io, waker) = ports.into_iter().next().context("a host has a port")?;
        Ok((self.at_host(host, 0, io)?, waker))
    }

    /// Frames that a host in this process has sent into its link, and received from it.
    #[must_use]
    pub fn frames(&self, host: HostId) -> Option<FrameCount> {
        self.frames.get(&host).map(|ports| ports.iter().map(|frames| frames.now()).sum())
    }

    /// Puts the faults of a host's link around the port of a lane, a tap around both, and counts its frames.
    fn at_host(&self, host: HostId, lane: usize, io: HostPort) -> Result<Box<dyn FrameIo>> {
        let scenario = self.deployment.scenario();
        let (link, end) = (scenario.network.topology.host(host).link, End::Host(host));
        let io = Links::from(scenario).faulty_lane(lane, link, end, io)?;
        let io = Counted::new(io, Arc::clone(&self.frames[&host][lane]));
        Ok(tapped(self.tap.as_ref(), end, Box::new(io)))
    }

    /// Ends the parameter servers and reminder agents, and the executors of workers, which have ended by then.
    pub fn stop_endpoints(&mut self) {
        self.executors.clear();
        self.stop_servers.store(true, Ordering::Relaxed);
        join(&mut self.servers);
        self.relay = None;
    }

    /// Stops the switches, and returns the counters of each. Drop all other references to the controller first: it would
    /// report the switches as lost.
    pub fn stop_switches(&mut self) -> Vec<Option<Report>> {
        self.controller = None;
        let stop = |running: &mut Running| running.handle.take().map(SwitchHandle::stop);
        self.switches.iter_mut().map(stop).collect()
    }
}

/// P4Runtime's device ID of a switch.
#[must_use]
pub fn device_id(switch: SwitchId) -> u64 {
    switch.0 as u64 + 1
}

fn tapped(tap: Option<&Tap>, end: End, io: Box<dyn FrameIo>) -> Box<dyn FrameIo> {
    match tap {
        Some(tap) => tap(end, io),
        None => io,
    }
}

/// What counts the frames of each of these ports.
fn counters<P>(ports: &BTreeMap<HostId, Vec<P>>) -> BTreeMap<HostId, Vec<Arc<Frames>>> {
    let of_host =
        |(host, ports): (&HostId, &Vec<P>)| (*host, ports.iter().map(|_| Arc::default()).collect());
    ports.iter().map(of_host).collect()
}

/// What wakes each thread of a host in this process.
fn wakers(
    scenario: &Scenario,
    host: HostId,
    executors: &BTreeMap<HostId, Vec<Arc<Executor>>>,
) -> Vec<Waker> {
    match executors.get(&host) {
        Some(lanes) => lanes.iter().map(|lane| lane.waker().clone()).collect(),
        None => (0..scenario.server_threads(host)).map(|_| Waker::new()).collect(),
    }
}

/// Both ends of a link between two switches: each thread of one has a link to one of the other's.
fn trunk<'w>(
    scenario: &Scenario,
    id: LinkId,
    tap: Option<&Tap>,
    wakers: impl Iterator<Item = (&'w Waker, &'w Waker)>,
) -> Result<[Parts; 2]> {
    let topology = &scenario.network.topology;
    let [first, second] = topology.links[id.0].ends;
    let (near, far): (Vec<_>, Vec<_>) =
        wakers.map(|(near, far)| memory::link(LINK_CAPACITY, near, far)).unzip();
    // Faults are injected once per link: at the host, or else at its first end.
    let faulty = |(part, io)| -> Result<Box<dyn FrameIo>> {
        let links = Links { topology, seed: scenario.seed.wrapping_add(part) };
        let io = Box::new(links.faulty(id, first, io)?);
        Ok(tapped(tap, first, io))
    };
    let near = (0..).zip(near).map(faulty).collect::<Result<_>>()?;
    let far = far.into_iter().map(|io| tapped(tap, second, Box::new(io))).collect();
    Ok([near, far])
}

/// The ends of a host's links, one for each of its threads, and those of the switch by its threads:
/// each thread of one has a link to each of the other.
fn host_ports<'w>(
    wakers: Vec<Waker>,
    switch: impl Iterator<Item = &'w Waker>,
) -> (Vec<(HostPort, Waker)>, Vec<Vec<MemoryPort>>) {
    let mut own: Vec<_> = wakers.into_iter().map(|waker| (Vec::new(), waker)).collect();
    let link = |switch| {
        let link = |(near, waker): &mut (Vec<MemoryPort>, Waker)| {
            let (own, far) = memory::link(LINK_CAPACITY, waker, switch);
            near.push(own);
            far
        };
        own.iter_mut().map(link).collect()
    };
    let far = switch.map(link).collect();
    let fan = |(links, waker)| (Fan::new(links, row), waker);
    (own.into_iter().map(fan).collect(), far)
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop_endpoints();
    }
}

impl Running {
    fn start(name: &str, runtime: Runtime) -> Result<Self> {
        let (handle, packets_in) = runtime.start().context("cannot start a thread")?;
        let service = Service::new(handle.control().clone(), packets_in);
        let reader = Reader::new(handle.control().clone(), service.clone());
        let (connections, incoming) = mpsc::unbounded_channel::<DuplexStream>();
        let (shutdown, stopped) = oneshot::channel::<()>();
        let incoming = UnboundedReceiverStream::new(incoming).map(Ok::<_, io::Error>);
        let stopped = async { drop(stopped.await) };
        tokio::spawn(async move {
            if let Err(error) = service.serve(incoming, stopped).await {
                tracing::error!("{error}");
            }
        });
        let connector = service_fn(move |_: Uri| {
            let (near, far) = tokio::io::duplex(CONTROL_BUFFER);
            let sent = connections.send(far).map_err(|_| io::ErrorKind::ConnectionRefused);
            async move { sent.map(|()| TokioIo::new(near)).map_err(io::Error::from) }
        });
        // The address is never looked up.
        let channel = Endpoint::from_static("http://switch").connect_with_connector_lazy(connector);
        let (name, handle) = (name.into(), Some(handle));
        Ok(Self { name, handle, channel, reader, _shutdown: shutdown })
    }
}

/// Executors for the lanes of workers of this process, which take turns: one executor for each core that the switches
/// leave, at least one, and not more than there are lanes.
fn executors(
    scenario: &Scenario,
    switch_threads: usize,
    outside: &Outside,
) -> Result<BTreeMap<HostId, Vec<Arc<Executor>>>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = scenario.jobs.iter().flat_map(|job| &job.workers).copied();
    let hosts: BTreeSet<_> = workers.filter(|host| !outside.contains_key(host)).collect();
    let lanes = hosts.iter().map(|&host| lanes::of_worker(scenario, host)).sum::<usize>().max(1);
    let count = cores.saturating_sub(switch_threads).clamp(1, lanes);
    let start = |number| Executor::start(format!("workers {number}"), Waker::new()).map(Arc::new);
    let executors = (0..count).map(start).collect::<io::Result<Vec<_>>>();
    let executors = executors.context("cannot start a thread")?;
    let mut turn = executors.iter().cycle().cloned();
    let of_host = |host| (host, turn.by_ref().take(lanes::of_worker(scenario, host)).collect());
    Ok(hosts.into_iter().map(of_host).collect())
}

/// Starts a thread.
///
/// # Errors
/// If the system refuses another thread.
pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(work).context("cannot start a thread")
}

/// Waits for threads to end.
///
/// # Panics
/// If one has panicked, unless this thread panics already.
pub fn join(threads: &mut Vec<JoinHandle<()>>) {
    for thread in threads.drain(..) {
        if let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
