//! Processes in network namespaces, over raw sockets: one process per switch, per worker, and per
//! host with parameter servers. All are this executable with other arguments, except for BMv2
//! switches.

mod bmv2;
mod cross_connect;
mod interfaces;
mod scratch;
mod servers;
mod sniffers;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::testbed::{self as testbed, Output, Process, Stream, Testbed};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tributary_base::restarts::is_death;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::programs::Compiled;
use tributary_controller::targets::Kind as TargetKind;
use tributary_embedded::device_id;
use tributary_metrics::Guest;
use tributary_model::{
    Deployment, Duty, End, HostId, OnDeath, Protocol, Scenario, SwitchId, Topology, circuits::Port,
};
use tributary_netio::FrameCount;
use tributary_netio::device::Kind as Io;
use tributary_p4runtime::p4::v1::Entity;
use tributary_sim::Taps;
use tributary_wire::Host as Address;
use tributary_worker::rounds;

use super::crossing::Tally;
use super::live::Live;
use super::{
    Counted, Crossings, Fabric, Note, PortCount, QueueReport, Removed, Stopped, SwitchEnd, waits,
};
use crate::Options;
use crate::cores::Pins;

pub use bmv2::Bmv2;
pub use cross_connect::CROSS_CONNECT;
use cross_connect::link_part;
pub use scratch::Scratch;
use servers::{Count, Servers};
use sniffers::Sniffers;

/// Prefix length of all hosts' addresses: 10.0.0.0/8 unless the job file differs.
const PREFIX: u8 = 8;

/// File descriptors of this process beside those of the parts of a run: standard streams, the runtime, signals,
/// and what it takes to start a process.
const OWN_DESCRIPTORS: u64 = 24;

/// Time limit for a switch to start listening.
const START_TIME: Duration = Duration::from_secs(30);

/// Most frames on a link at a time: those of some windows, in the buffers of the sockets at its ends. Most of them have
/// arrived when the receiver reports, which is later.
const UNDER_WAY: u64 = 1024;

/// Frames for a worker that has its sums, and has ended, at most.
const LEFT: u64 = 256;

/// Time for a process to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The namespace fabric.
pub struct Netns {
    deployment: Arc<Deployment>,
    live: Live,
    options: Options,
    /// The job file's absolute path.
    job_file: PathBuf,
    /// This executable.
    program: PathBuf,
    /// The cores of its processes, if they are chosen.
    pins: Option<Pins>,
    switches: Vec<Switch>,
    /// Processes in links, for switches that cannot inject faults.
    cables: Vec<Process>,
    workers: Vec<Process>,
    servers: Servers,
    /// Frames at the ends of links, as their processes report them.
    tally: Tally,
    /// Processor time that the servers used before the end of the warm-up.
    servers_before: Duration,
    /// Processor time that they used afterwards.
    servers_cpu: Option<Duration>,
    /// What captures frames.
    sniffers: Option<Sniffers>,
    /// The processes that serve their metrics to this one.
    guests: Mutex<Vec<Guest>>,
    testbed: Testbed,
    /// Sockets. The last field, so that they outlive the processes.
    sockets: Scratch,
}

/// Tells the hosts' kernels the Ethernet addresses of the hosts that they send to. The kernel repeats an ARP
/// request only once per second, and holds back what a host sends meanwhile. Where links lose bursts of frames, a job
/// waited up to 20 s for its first packet.
fn add_neighbours(testbed: &Testbed, scenario: &Scenario, io: Io) -> Result<()> {
    let topology = &scenario.network.topology;
    for job in &scenario.jobs {
        // No host answers ARP requests for the address that stands for the switch.
        let service = io.is_routed().then(|| Address::service(job.id));
        let servers: BTreeSet<HostId> = job.ps.into_iter().chain(job.agent).collect();
        let workers: BTreeSet<HostId> = job.workers.iter().copied().collect();
        for &host in workers.union(&servers) {
            let to = |&other: &HostId| topology.host(other).address;
            let peers = if servers.contains(&host) { &workers | &servers } else { servers.clone() };
            let others = peers.iter().filter(|&&other| other != host).map(to);
            let switch = service.filter(|_| workers.contains(&host));
            for Address { ip, mac } in others.chain(switch) {
                testbed.add_neighbour(&topology.host(host).name, "eth0", ip, mac.0)?;
            }
        }
    }
    Ok(())
}

/// A running switch.
struct Switch {
    config: SwitchConfig,
    process: Process,
    /// Its ports and their interfaces.
    interfaces: Vec<(u16, String)>,
    /// Processor time used before the endpoints were started, or before the end of the warm-up.
    before: Duration,
    /// Processor time used after that, while the endpoints ran.
    cpu: Option<Duration>,
}

impl Switch {
    /// Measures its processor time from now on.
    fn note_cpu(&mut self) {
        self.before = self.process.cpu_time().unwrap_or_default();
    }
}

/// A line that a switch prints again and again: endpoints' packets at its ports.
#[derive(Debug, Serialize, Deserialize)]
pub struct PortFrames {
    /// By port.
    pub frames: Vec<(u16, FrameCount)>,
}

/// The last line that a switch prints.
#[derive(Debug, Serialize, Deserialize)]
pub struct LastWords {
    /// Its counters.
    pub statistics: QueueReport,
}

impl Fabric for Netns {
    /// Builds the network and starts the switches.
    async fn start(
        deployment: &Arc<Deployment>,
        program: Compiled,
        options: &Options,
        taps: Option<&Taps>,
    ) -> Result<Self> {
        let scenario = deployment.scenario();
        let pins = options
            .pin
            .then(|| {
                Pins::new(scenario.network.topology.switches.len(), options.switch_threads.into())
            })
            .transpose()?;
        let job_file = options.job_file.canonicalize().context("cannot find the job file")?;
        let split = match (options.target, scenario.network.protocol) {
            (TargetKind::Bmv2, Protocol::Esa) => Split::All,
            (TargetKind::Bmv2, _) => Split::Inside,
            _ => Split::None,
        };
        let (topology, cables) = translate(&scenario.network.topology, split);
        tributary_base::descriptors(descriptors(scenario, &topology, taps.is_some()), "this run")?;
        let orchestrated = scenario.orchestration.is_some();
        let testbed = Testbed::build_for(options.io, &topology)?;
        add_neighbours(&testbed, scenario, options.io)?;
        let sniffers = taps
            .map(|taps| Sniffers::start(taps, &scenario.network.topology, &testbed, &topology))
            .transpose()?;
        let sockets = tributary_base::socket_parent().and_then(|parent| Scratch::new(&parent));
        let sockets = sockets.context("cannot make a directory for sockets")?;
        let mut netns = Self {
            deployment: Arc::clone(deployment),
            live: Live::new(),
            options: options.clone(),
            job_file,
            program: tributary_base::programs::path("tributary")?,
            pins,
            switches: Vec::new(),
            cables: Vec::new(),
            workers: Vec::new(),
            servers: Servers::default(),
            tally: Tally::new(&scenario.network.topology, UNDER_WAY),
            servers_before: Duration::ZERO,
            servers_cpu: None,
            sniffers,
            guests: Mutex::default(),
            testbed,
            sockets,
        };
        for cable in &cables {
            netns.start_cable(cable)?;
        }
        for id in scenario.network.topology.switch_ids() {
            netns.start_switch(id, &topology).await?;
        }
        let configs = netns.switches.iter().map(|switch| switch.config.clone()).collect();
        if orchestrated {
            let cross_connect = netns.start_cross_connect(&topology).await?;
            let socket = netns.runs();
            let live = &mut netns.live;
            live.orchestrate(deployment, configs, &program.pipeline, cross_connect, &socket)
                .await?;
        } else {
            netns.live.connect(deployment, configs, &program.pipeline).await?;
        }
        Ok(netns)
    }

    async fn admit(&mut self, job: usize) -> Result<()> {
        self.live.admit(&self.deployment, job).await?;
        let scenario = self.deployment.scenario();
        if job + 1 == scenario.jobs.len() && scenario.orchestration.is_none() {
            let socket = self.runs();
            self.live.serve_jobs(&self.deployment, &socket).await?;
        }
        Ok(())
    }

    fn start_endpoints(&mut self) -> Result<()> {
        let deployment = Arc::clone(&self.deployment);
        let scenario = deployment.scenario();
        self.live.begin();
        let notes = &self.live.notes.clone();
        for switch in &mut self.switches {
            switch.note_cpu();
            let what = format!("switch {} ({})", switch.config.name, switch.process.program());
            watch(&switch.process, notes, move |ending, _| {
                Note::Broken(format!("{what} {ending}"))
            });
        }
        for cable in &self.cables {
            let what = link_part(cable);
            watch(cable, notes, move |ending, _| Note::Broken(format!("{what} {ending}")));
        }
        for host in scenario.network.topology.host_ids() {
            let has = |wanted: Duty| scenario.duties(host).any(|(_, duty)| duty == wanted);
            for (duty, command, what) in [
                (Duty::ReminderAgent, "reminder", "reminder agent"),
                (Duty::ParameterServer, "ps", "parameter server"),
            ] {
                if has(duty) {
                    let name = &scenario.network.topology.host(host).name;
                    let mut line = self.endpoint(command, &format!("{command} on {name}"));
                    line.args(["--host", name]);
                    let tally = self.tally.clone();
                    let count: Count = Arc::new(move |count| tally.host(host, count, true));
                    self.servers.add(name, what, line, &self.testbed, notes, count)?;
                }
            }
        }
        for (job_index, job) in scenario.whole_jobs() {
            for (worker, &host) in job.workers.iter().enumerate() {
                let process = self.start_worker(job_index, &job.name, worker, host, notes)?;
                self.workers.push(process);
            }
        }
        Ok(())
    }

    async fn next_note(&mut self) -> Option<Note> {
        let news = self.servers.attend(&self.testbed, &self.live.notes);
        match news {
            Some(note) => Some(note),
            None => self.live.next_note().await,
        }
    }

    fn elapsed(&self) -> Duration {
        self.live.elapsed()
    }

    /// The stopped parts. Switches come first: if one is stopped, other parts also appear silent.
    fn stopped(&self) -> Vec<Stopped> {
        let jobs = self.deployment.scenario().whole_jobs();
        let names = jobs.flat_map(|(_, job)| (0..job.workers.len()).map(move |w| (&job.name, w)));
        let switches = self
            .switches
            .iter()
            .map(|Switch { config, process, .. }| (format!("switch {}", config.name), process));
        let cables = self.cables.iter().map(|cable| (link_part(cable), cable));
        let servers = self.servers.processes();
        let servers = servers.map(|(what, process)| (what.to_owned(), process));
        let workers = names.zip(&self.workers);
        let workers =
            workers.map(|((job, w), process)| (format!("job {job}: worker {w}"), process));
        let all = switches.chain(cables).chain(servers).chain(workers);
        all.filter(|(_, process)| process.is_stopped())
            .map(|(what, process)| Stopped { what, process: process.id() })
            .collect()
    }

    fn may_go_on(&self, job: usize) -> bool {
        let job = self.deployment.job(job);
        // Nobody would start again a worker that the others wait for.
        matches!(job.on_death, OnDeath::Continue { .. }) && self.live.has_begun(job.id)
    }

    fn end_warm_up(&mut self) {
        self.switches.iter_mut().for_each(Switch::note_cpu);
        self.servers_before = self.servers.cpu_time().unwrap_or_default();
    }

    fn stop_endpoints(&mut self) {
        self.live.stop_loop();
        let servers = self.servers.cpu_time();
        self.servers_cpu = servers.map(|now| now.saturating_sub(self.servers_before));
        for switch in &mut self.switches {
            let now = switch.process.cpu_time().ok();
            switch.cpu = now.map(|now| now.saturating_sub(switch.before));
        }
        end(self.workers.drain(..));
        end(self.servers.finish(&self.testbed, &self.live.notes).into_iter());
    }

    fn servers_cpu(&self) -> Option<Duration> {
        self.servers_cpu
    }

    async fn remove(&mut self, job: usize) -> Result<Vec<Removed>> {
        let runs = |switch: &Switch| {
            let lives = matches!(switch.process.wait(Some(Duration::ZERO)), Ok(None));
            lives && !switch.process.is_stopped()
        };
        // There is nothing to clean, and no answer would come.
        ensure!(self.switches.iter().all(runs), "a switch has ended or is stopped");
        self.live.remove(&self.deployment, job).await
    }

    fn stop_switches(&mut self) -> Vec<SwitchEnd> {
        self.live.end();
        self.switches.iter().for_each(|switch| switch.process.ask_to_end());
        let queues = |process: &Process| {
            process.end(grace(process)).ok()?;
            let output = process.output(Stream::Out);
            let words: LastWords = serde_json::from_str(output.lines().last()?).ok()?;
            Some(words.statistics)
        };
        let end = |switch: &Switch| SwitchEnd { queues: queues(&switch.process), cpu: switch.cpu };
        self.switches.iter().map(end).collect()
    }

    async fn counts(&self, job: usize) -> Result<Vec<(SwitchId, Counted)>> {
        self.live.counts(&self.deployment, job).await
    }

    async fn read(&self, switch: SwitchId, request: Vec<Entity>) -> Result<Vec<Entity>> {
        self.live.read(switch, request).await
    }

    async fn ports(&self, switch: SwitchId) -> Vec<(u16, PortCount)> {
        let switch = &self.switches[switch.0];
        interfaces::count(switch.process.id(), &switch.interfaces)
    }

    async fn crossings(&self) -> Crossings {
        self.tally.crossings()
    }

    fn last_crossings(&mut self) -> Option<Crossings> {
        self.tally.settle(LEFT);
        Some(self.tally.crossings())
    }

    fn core_waits(&self) -> Option<(Duration, usize)> {
        let runs = self.workers.iter().filter(|process| !process.is_over());
        // The thread that waits longest is the one that sends and receives.
        let wait = |process: &Process| {
            waits::of_threads(&process.id().to_string(), |_| true).into_iter().max()
        };
        let waits: Vec<Duration> = runs.filter_map(wait).collect();
        (!waits.is_empty()).then(|| (waits.iter().sum(), waits.len()))
    }
}

impl Netns {
    /// Ends the capture, if there is one. Returns how many frames the kernel has dropped for lack of
    /// room.
    pub fn end_capture(&mut self) -> u64 {
        self.sniffers.take().map_or(0, Sniffers::end)
    }

    async fn start_switch(&mut self, id: SwitchId, topology: &testbed::Topology) -> Result<()> {
        let deployment = Arc::clone(&self.deployment);
        let scenario = deployment.scenario();
        let name = &scenario.network.topology.switch(id).name;
        let socket = self.sockets.path().join(format!("{}.sock", id.0));
        let ports = scenario.network.topology.port_numbers(id).map(|port| {
            let interface = topology.interface(&testbed::LinkEnd::new(name, port));
            (port, interface)
        });
        let interfaces: Vec<_> = ports.collect();
        let ports = interfaces.iter().cloned();
        let command = match self.options.target {
            TargetKind::Bmv2 => Bmv2::find()?.command(device_id(id), ports, &socket),
            _ => self.embedded(id, ports, &socket),
        };
        let tally = self.tally.clone();
        let lines = Output::Lines(Arc::new(move |stream, line: &str| {
            if stream == Stream::Out
                && let Ok(words) = serde_json::from_str::<PortFrames>(line)
            {
                tally.switch(id, &words.frames);
            }
        }));
        let process = self.testbed.spawn(name, command, lines)?;
        wait_for(&socket, &process).await.with_context(|| format!("switch {name}"))?;
        let config = SwitchConfig {
            device_id: device_id(id),
            ..SwitchConfig::new(name, Target::Address(format!("unix:{}", socket.display())))
        };
        let before = Duration::ZERO;
        self.switches.push(Switch { config, process, interfaces, before, cpu: None });
        Ok(())
    }

    /// A command of this program, for a switch or for something else.
    fn command(&self, name: &str, switch: Option<SwitchId>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name);
        if let Some(pins) = &self.pins {
            let cores = switch.map_or(&pins.others, |id| &pins.switches[id.0]);
            command.args(["--cores", &cores.to_string()]);
        }
        command
    }

    /// An embedded switch with these ports and interfaces, with P4Runtime at a Unix socket.
    fn embedded(
        &self,
        id: SwitchId,
        ports: impl Iterator<Item = (u16, String)>,
        socket: &Path,
    ) -> Command {
        let scenario = self.deployment.scenario();
        let name = &scenario.network.topology.switch(id).name;
        let mut command = self.command("switch", Some(id));
        self.measure(&mut command, &format!("switch {name}"));
        command.args(["--name", name]);
        for (port, interface) in ports {
            command.arg("--port").arg(format!("{port}@{interface}"));
        }
        command.args(["--p4runtime", &format!("unix:{}", socket.display())]);
        command.args(["--device-id", &device_id(id).to_string()]);
        command.args(["--queue-capacity", &scenario.network.switch.queue_capacity.to_string()]);
        command.args(["--seed", &scenario.seed.to_string()]);
        command.arg("--faults").arg(self.faults_of(name));
        command.args(["--io", &self.options.io.of_ports().to_string()]);
        command.args(["--engine", &self.options.engine.to_string()]);
        command.args(["--threads", &self.options.switch_threads.to_string()]);
        command.arg("--json-statistics");
        command
    }

    fn start_cable(&mut self, cable: &Cable) -> Result<()> {
        let [first, second] = &cable.between;
        let mut command = self.command("cable", None);
        self.measure(&mut command, &format!("cable {first} {second}"));
        command.args(["--between", "port1", "port2"]);
        command.args(["--seed", &self.deployment.scenario().seed.to_string()]);
        command.arg("--faults").arg(self.faults_of(&format!("{first}:{second}")));
        let process = self.testbed.spawn(&cable.node, command, Output::Keep)?;
        self.cables.push(process);
        Ok(())
    }

    /// The faults of a switch or a link, in the job file.
    fn faults_of(&self, part: &str) -> OsString {
        let mut faults = self.job_file.clone().into_os_string();
        faults.push(format!(":{part}"));
        faults
    }

    /// Where endpoints take part in jobs.
    fn runs(&self) -> PathBuf {
        self.sockets.path().join("runs.sock")
    }

    /// Has a process serve its metrics to this one, if metrics are on.
    fn measure(&self, command: &mut Command, name: &str) {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = self.sockets.path().join(format!("metrics-{}.sock", guests.len()));
        let address = format!("unix:{}", socket.display());
        if let Some(guest) = self.options.metrics.add_process(name, socket) {
            command.args(["--metrics", &address]);
            guests.push(guest);
        }
    }

    /// The command line of workers and parameter servers. `name` is that of the process.
    fn endpoint(&self, command: &str, name: &str) -> Command {
        let mut process = self.command(command, None);
        self.measure(&mut process, name);
        process.args(["--interface", "eth0", "--json-events"]);
        process.args(["--io", &self.options.io.to_string()]);
        process.arg("--controller").arg(format!("unix:{}", self.runs().display()));
        process
    }

    fn start_worker(
        &self,
        job: usize,
        job_name: &str,
        worker: usize,
        host: HostId,
        notes: &UnboundedSender<Note>,
    ) -> Result<Process> {
        let name = &self.deployment.scenario().network.topology.host(host).name;
        let mut command = self.endpoint("worker", &format!("worker {worker} of {job_name}"));
        command.args(["--job", job_name, "--worker", &worker.to_string()]);
        let (sink, tally) = (notes.clone(), self.tally.clone());
        let lines = Output::Lines(Arc::new(move |stream, line: &str| {
            if stream == Stream::Out
                && let Ok(event) = serde_json::from_str::<rounds::Event>(line)
            {
                let counted = match &event {
                    rounds::Event::Round { measured, .. } => measured.frames.map(|it| (it, false)),
                    rounds::Event::Done(report) => report.frames.map(|it| (it, true)),
                    _ => None,
                };
                if let Some((frames, is_complete)) = counted {
                    tally.host(host, frames, is_complete);
                }
                drop(sink.send(Note::Worker { job, worker, event }));
            }
        }));
        let process = self.testbed.spawn(name, command, lines)?;
        watch(&process, notes, move |ending, died| {
            let reason = format!("its process {ending}");
            match died {
                true => Note::Lost { job, worker, how: reason },
                false => Note::Worker { job, worker, event: rounds::Event::Failed { reason } },
            }
        });
        Ok(process)
    }
}

/// File descriptors that this process needs at a time, for these nodes and a process in each duty.
fn descriptors(scenario: &Scenario, topology: &testbed::Topology, has_taps: bool) -> u64 {
    let testbed::Topology { hosts, switches, links } = topology;
    let workers: usize = scenario.whole_jobs().map(|(_, job)| job.workers.len()).sum();
    let serves = |host, wanted| scenario.duties(host).any(|(_, duty)| duty == wanted);
    let servers = [Duty::ReminderAgent, Duty::ParameterServer].map(|duty| {
        scenario.network.topology.host_ids().filter(|&host| serves(host, duty)).count()
    });
    let processes = switches.len() + workers + servers.iter().sum::<usize>();
    // A namespace for each node; of each process, its end and its two streams of output; of a switch also
    // a connection.
    let parts = hosts.len() + 3 * processes + 2 * switches.len();
    let taps = if has_taps { 2 * links.len() } else { 0 };
    OWN_DESCRIPTORS + (parts + taps) as u64
}

/// Asks processes to end, and waits until they have.
fn end(processes: impl Iterator<Item = Process>) {
    let processes: Vec<Process> = processes.collect();
    processes.iter().for_each(Process::ask_to_end);
    for process in processes {
        if let Err(error) = process.end(grace(&process)) {
            tracing::warn!(program = process.program(), %error, "cannot end a process");
        }
    }
}

/// How long a process has to end; none for a stopped process, which cannot.
fn grace(process: &Process) -> Duration {
    if process.is_stopped() { Duration::ZERO } else { GRACE }
}

/// Notes a process that ends unexpectedly: how, and whether it has died instead of ending with an error of its
/// own. Notes after the run's end are not read.
fn watch(
    process: &Process,
    notes: &UnboundedSender<Note>,
    note: impl FnOnce(String, bool) -> Note + Send + 'static,
) {
    let (process, notes) = (process.clone(), notes.clone());
    tokio::task::spawn_blocking(move || {
        if let Ok(Some(status)) = process.wait(None)
            && !status.success()
        {
            drop(notes.send(note(ending(&process, status), is_death(status))));
        }
    });
}

/// How a process has ended, in words.
fn ending(process: &Process, status: ExitStatus) -> String {
    let errors = process.output(Stream::Err);
    let reason = errors.lines().last().map_or(String::new(), |line| {
        format!(" ({})", line.strip_prefix("error: ").unwrap_or(line))
    });
    format!("ended with {status}{reason}")
}

/// Waits until a server accepts connections on a socket.
async fn wait_for(socket: &Path, process: &Process) -> Result<()> {
    let deadline = Instant::now() + START_TIME;
    while UnixStream::connect(socket).await.is_err() {
        if let Ok(Some(status)) = process.wait(Some(Duration::ZERO)) {
            let errors = process.output(Stream::Err);
            bail!("it ended with {status}: {}", errors.lines().last().unwrap_or_default());
        }
        if Instant::now() > deadline {
            bail!("it does not listen on {} after {START_TIME:?}", socket.display());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A process that injects a link's faults.
struct Cable {
    node: String,
    /// Names of its ends; the first one is at port 1 of the node.
    between: [String; 2],
}

/// Which links with faults get a node of their own, because switches do not inject faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Split {
    /// None: switches inject faults.
    None,
    /// Links between switches: endpoints inject the faults of their own packets.
    Inside,
    /// All links: hosts also send other frames (ESA's TCP).
    All,
}

/// The testbed's words for a topology whose switches inject the faults of links.
#[must_use]
pub fn testbed_topology(topology: &Topology) -> testbed::Topology {
    translate(topology, Split::None).0
}

/// Converts the topology to the testbed's.
fn translate(topology: &Topology, split: Split) -> (testbed::Topology, Vec<Cable>) {
    let port = |end: End| match end {
        End::Host(host) => testbed::LinkEnd::new(&topology.host(host).name, 0),
        End::Switch(switch, port) => testbed::LinkEnd::new(&topology.switch(switch).name, port),
    };
    let mut cables = Vec::new();
    let mut links = Vec::new();
    for link in &topology.links[..topology.fixed_links()] {
        let [a, b] = link.ends.map(port);
        let mtu = link.mtu;
        let inside = link.ends.iter().all(|end| matches!(end, End::Switch(..)));
        let cut = match split {
            Split::None => false,
            Split::Inside => inside,
            Split::All => true,
        };
        if cut && !link.faults.is_none() {
            // No host or switch has such a name.
            let node = format!("{a}={b}");
            let end = |number| testbed::LinkEnd::new(&node, number);
            cables.push(Cable { node: node.clone(), between: [a.node.clone(), b.node.clone()] });
            links.push(testbed::Link { a, b: end(1), mtu });
            links.push(testbed::Link { a: end(2), b, mtu });
        } else {
            links.push(testbed::Link { a, b, mtu });
        }
    }
    for number in 1..=topology.cross_connect_ports() {
        let (switch, port) = topology.optical_end(Port(number));
        let a = testbed::LinkEnd::new(&topology.switch(switch).name, port);
        let b = testbed::LinkEnd::new(CROSS_CONNECT, number);
        let mtu = topology.optical.as_ref().map_or(1500, |optical| optical.fibre.mtu);
        links.push(testbed::Link { a, b, mtu });
    }
    let cross_connect =
        topology.optical.iter().map(|_| testbed::SwitchNode { name: CROSS_CONNECT.into() });
    let between = cables.iter().map(|cable| testbed::SwitchNode { name: cable.node.clone() });
    let topology = testbed::Topology {
        hosts: topology
            .hosts
            .iter()
            .map(|host| testbed::Host {
                name: host.name.clone(),
                mac: host.address.mac.0,
                ip: host.address.ip,
                prefix: PREFIX,
            })
            .collect(),
        switches: topology
            .switches
            .iter()
            .map(|switch| testbed::SwitchNode { name: switch.name.clone() })
            .chain(between)
            .chain(cross_connect)
            .collect(),
        links,
    };
    (topology, cables)
}
