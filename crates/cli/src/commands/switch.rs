//! `tributary switch`: a P4 program over network interfaces.

mod ports;
mod traces;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tributary_base::program::{self, Watchdog, stop_flag};
use tributary_embedded::switches::{Reader, Switches};
use tributary_endpoint::driver::faults;
use tributary_metrics::{Metrics, PERIOD};
use tributary_model::{End, Scenario, SwitchId};
use tributary_netio::device::Device;
use tributary_netio::interface::Interface;
use tributary_netio::{Counted, FrameIo, Frames};
use tributary_p4::Sources;
use tributary_run::fabric::{LastWords, PortFrames, QueueReport};
use tributary_switch::runtime::{Control, Runtime};
use tributary_switch::server::{Listen, ServerHandle, Service};
use tributary_switch::stf::{self, Script};
use tributary_switch::{Forwarding, SwitchConfig, SwitchStatistics, TofinoConfig};

use super::testbed::virtual_time::{placed_failure, read_script};
use crate::args::SwitchArgs;
use ports::Capture;
use traces::Traces;

/// Runs a switch until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &SwitchArgs, metrics: &Metrics) -> Result<()> {
    let stop = stop_flag()?;
    let program = args.program.as_ref().map(|path| load(path, args)).transpose()?;
    let entries = args.entries.as_deref().map(read_script).transpose()?;
    let faults = args.faults.as_ref().map(|spec| Injected::read(spec, args.seed)).transpose()?;
    let tls = args.identity.identity().map(|identity| identity.server(args.allow_anyone));
    let tls = tls.transpose()?.map(|keys| keys.only(args.client_name.iter().cloned()));
    let mut runtime = Runtime::new(SwitchConfig {
        device_id: args.device_id,
        queue_limit: args.queue_capacity as usize,
        priority_queues: usize::from(args.priority_queues),
        engine: args.engine,
        cores: args.threads,
        tofino: match &args.tofino {
            Some(path) => tofino(path)?,
            None => TofinoConfig::default(),
        },
        ..SwitchConfig::default()
    });
    let mut traces = Traces::new(args, program.as_ref())?;
    let ports = ports::parse(&args.ports)?;
    let (capture, frames) = attach(&mut runtime, args, &ports, faults.as_ref())?;
    let mut frames = args.json_statistics.then(|| Telling { frames, next: Instant::now() });
    let (handle, packets_in) = runtime.start().context("cannot start a thread")?;
    if let Some(forwarding) = program {
        start_program(handle.control(), forwarding, entries, args)?;
    }
    if let Some(traces) = &mut traces {
        traces.start(handle.control())?;
    }
    let service = Service::new(handle.control().clone(), packets_in);
    let name = args.name.clone().unwrap_or_else(|| args.device_id.to_string());
    let reader = Reader::new(handle.control().clone(), service.clone());
    metrics.add(Switches::new([(name, reader)]));
    let server = ServerHandle::start_with(service, listen(&args.p4runtime)?, tls)?;
    if !args.json_statistics {
        tributary_base::say!(
            "{} ports, P4Runtime device {} on {}; end with Ctrl-C",
            ports.len(),
            args.device_id,
            server.address()
        );
    }
    program::ready();
    let mut links = Links::of(&ports);
    let mut queues = MissingQueues::default();
    let (watchdog, mut fed) = (Watchdog::find(), Instant::now());
    while !stop.load(Ordering::Relaxed) && !handle.is_finished() {
        links.watch(handle.control());
        queues.watch(handle.control(), args.priority_queues);
        frames.iter_mut().for_each(Telling::look);
        std::thread::sleep(Duration::from_millis(20));
        if let Some(watchdog) = watchdog.filter(|watchdog| fed.elapsed() >= watchdog.pause()) {
            // The thread of the packets answers.
            if handle.control().call(|_, _| ()).is_ok() {
                watchdog.feed();
            }
            fed = Instant::now();
        }
        if let Some(Err(error)) = traces.as_mut().map(|traces| traces.look(handle.control())) {
            tracing::warn!("{error:#}; no more packets are traced");
            handle.control().call(|switch, _| switch.set_tracing(None)).ok();
            traces = None;
        }
    }
    if let Some(Err(error)) = traces.as_mut().map(|traces| traces.write(handle.control())) {
        tracing::warn!("{error:#}");
    }
    let stopped = server.stop();
    let report = handle.stop();
    let statistics = QueueReport::of(report.ports.iter().map(|(_, port)| port));
    frames.iter().for_each(Telling::tell);
    tell(args, statistics, &report.switch);
    if let Some(capture) = capture {
        let captured = capture.finish()?;
        if !args.json_statistics {
            tributary_base::say!("{captured}");
        }
    }
    Ok(stopped?)
}

/// What the parts of each port count.
type AllFrames = Vec<(u16, Vec<Arc<Frames>>)>;

/// Gives the switch its ports, with their rates and faults. Returns the capture of their frames, if there is to be one,
/// and what counts the endpoints' packets at each port, if that is told.
fn attach(
    runtime: &mut Runtime,
    args: &SwitchArgs,
    ports: &[(u16, &str)],
    faults: Option<&Injected>,
) -> Result<(Option<Capture>, AllFrames)> {
    let rates = ports::rates(&args.rates, ports)?;
    let devices = ports::open(args, ports)?;
    // Begun when all else is open, so that an error leaves no empty file.
    let capture = args.capture.as_ref().map(|path| Capture::start(path, ports)).transpose()?;
    let mut all = AllFrames::new();
    for (at, (&(number, _), parts)) in ports.iter().zip(devices).enumerate() {
        let mut frames = Vec::new();
        let part = |(part, device)| {
            let io = match faults {
                Some(faults) => faults.around(number, part, device)?,
                None => Box::new(device) as Box<dyn FrameIo>,
            };
            let io = match args.json_statistics {
                true => {
                    frames.push(Arc::default());
                    let frames = Arc::clone(&frames[frames.len() - 1]);
                    Box::new(Counted::new(io, frames).only(faults::is_packet)) as Box<dyn FrameIo>
                }
                false => io,
            };
            Ok(match &capture {
                Some(capture) => capture.tap(at, io),
                None => io,
            })
        };
        let parts = (0..).zip(parts).map(part).collect::<Result<_>>()?;
        runtime.add_parts(number, parts, rates.get(&number).copied());
        all.push((number, frames));
    }
    Ok((capture, all))
}

/// Tells the run that started this process what the ports have counted.
struct Telling {
    frames: AllFrames,
    next: Instant,
}

impl Telling {
    fn look(&mut self) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + PERIOD;
            self.tell();
        }
    }

    fn tell(&self) {
        let sum = |(port, parts): &(u16, Vec<Arc<Frames>>)| {
            (*port, parts.iter().map(|frames| frames.now()).sum())
        };
        let words = PortFrames { frames: self.frames.iter().map(sum).collect() };
        tributary_base::say!("{}", serde_json::to_string(&words).expect("counters are plain data"));
    }
}

/// Makes a program active, and fills its tables before the first packet.
fn start_program(
    control: &Control,
    forwarding: Forwarding,
    entries: Option<Script>,
    args: &SwitchArgs,
) -> Result<()> {
    let (filled, ports) = control.call(move |switch, now_us| {
        switch.commit(forwarding);
        let filled = entries.map_or(Ok(()), |entries| stf::configure(&entries, switch, now_us));
        (filled, switch.check_ports())
    })?;
    filled.map_err(|failure| placed_failure(args.entries.as_deref(), &failure))?;
    Ok(ports?)
}

/// Prints what the queues counted.
fn tell(args: &SwitchArgs, statistics: QueueReport, switch: &SwitchStatistics) {
    if args.json_statistics {
        let words = LastWords { statistics };
        tributary_base::say!(
            "{}",
            serde_json::to_string(&words).expect("statistics are plain data")
        );
    } else {
        tributary_base::say!(
            "longest egress queue {} packets, {} packets dropped at full queues",
            statistics.longest,
            statistics.drops
        );
        let lost = [
            (switch.no_such_port, "for a port that the switch does not have"),
            (switch.no_such_queue, "of a priority whose queue the ports do not have"),
            (switch.no_such_group, "for a multicast group that does not exist"),
            (switch.no_such_session, "for a clone session that does not exist"),
        ];
        for (packets, what) in lost.into_iter().filter(|(packets, _)| *packets > 0) {
            tributary_base::say!("{packets} packets or copies dropped {what}");
        }
    }
}

/// Interval of asking for packets that no queue takes.
const QUEUES: Duration = Duration::from_secs(1);

/// Warns, once, of packets with a priority whose queue the ports do not have.
#[derive(Default)]
struct MissingQueues {
    next: Option<Instant>,
    told: bool,
}

impl MissingQueues {
    fn watch(&mut self, control: &Control, queues: u8) {
        if self.told || self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        self.next = Some(Instant::now() + QUEUES);
        let lost = control.call(|switch, _| switch.statistics().no_such_queue).unwrap_or_default();
        if lost > 0 {
            self.told = true;
            tracing::warn!(
                packets = lost,
                queues,
                "packets have a priority whose queue the ports do not have, and are dropped: \
                 give their number as --priority-queues"
            );
        }
    }
}

/// Interval of looking at the links.
const LINKS: Duration = Duration::from_millis(200);

/// The links of the ports, for members of groups that watch them.
struct Links<'a> {
    /// Ports, their interfaces, and whether they had a link.
    ports: Vec<(u16, &'a str, bool)>,
    next: Instant,
}

impl<'a> Links<'a> {
    fn of(ports: &[(u16, &'a str)]) -> Self {
        let ports = ports.iter().map(|&(port, interface)| (port, interface, true)).collect();
        Self { ports, next: Instant::now() }
    }

    /// Tells the switch which links have changed, if it is time to look at them.
    fn watch(&mut self, control: &Control) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + LINKS;
        for (port, interface, up) in &mut self.ports {
            let running = Interface::find(interface).is_ok_and(|found| found.running);
            if running != *up {
                *up = running;
                let port = *port;
                tracing::info!(port, interface = *interface, running, "link changed");
                // The outcome is not awaited: a switch that ends needs no links.
                drop(control.submit(move |switch, _| switch.set_link(port, running)));
            }
        }
    }
}

/// The program as one self-contained text. Errors of the preprocessor go to standard error.
fn preprocess(path: &Path, args: &SwitchArgs) -> Result<String> {
    // Before errors name a position in it.
    let opened = tributary_p4::SOURCE.open(path);
    opened.map(drop).with_context(|| format!("cannot read {}", path.display()))?;
    let defines = tributary_p4::defines(&args.defines).map_err(anyhow::Error::msg)?;
    let sources = args.include.iter().fold(Sources::disk(), |all, dir| all.search(dir));
    tributary_p4::preprocess(&sources, &path.display().to_string(), &defines).map_err(|errors| {
        if errors.failure().is_none() {
            eprint!("{}", errors.render(std::io::stderr().is_terminal()));
        }
        anyhow::anyhow!("{}: {}", path.display(), errors.summary())
    })
}

fn load(path: &Path, args: &SwitchArgs) -> Result<Forwarding> {
    let text = preprocess(path, args)?;
    Forwarding::from_source(&text).map_err(|refusal| anyhow::anyhow!("{refusal}"))
}

/// Reads the settings for TNA programs.
fn tofino(path: &Path) -> Result<TofinoConfig> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("--tofino {}", path.display()))?;
    let wrong = |what: String| anyhow::anyhow!("{}:{what}", path.display());
    let script = Script::parse(&text).map_err(|error| wrong(error.to_string()))?;
    script.tofino().map_err(|failure| wrong(failure.to_string()))
}

/// `HOST:PORT` or `unix:PATH`.
fn listen(text: &str) -> Result<Listen> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Listen::Unix(path.into()));
    }
    let address = text.parse().map_err(|_| {
        anyhow::anyhow!(
            "--p4runtime {text}: write ADDRESS:PORT, such as 127.0.0.1:9559, or unix:PATH"
        )
    })?;
    Ok(Listen::Tcp(address))
}

/// Splits FILE:NAME, or FILE:NAME:NAME, of `--faults`. A file's name may have colons, and need not be UTF-8.
pub(crate) fn faults_of<const N: usize>(spec: &OsStr) -> Option<(&Path, [&str; N])> {
    let mut parts = spec.as_bytes().rsplitn(N + 1, |byte| *byte == b':');
    let mut names = [""; N];
    for name in names.iter_mut().rev() {
        *name = std::str::from_utf8(parts.next()?).ok()?;
    }
    Some((Path::new(OsStr::from_bytes(parts.next()?)), names))
}

/// Faults of the links of this switch. The first end of a link between two switches injects its
/// faults; on links to hosts, the hosts' endpoints inject those of their own packets.
struct Injected {
    scenario: Scenario,
    switch: SwitchId,
}

impl Injected {
    fn read(spec: &OsStr, seed: Option<u64>) -> Result<Self> {
        let (file, [name]) = faults_of(spec)
            .with_context(|| format!("--faults {}: write JOB.toml:SWITCH", spec.display()))?;
        let scenario = tributary_model::jobfile::load_with_seed(file, seed)?;
        let switch = scenario.network.topology.switch_named(name);
        let switch =
            switch.with_context(|| format!("there is no switch `{name}` in {}", file.display()))?;
        Ok(Self { scenario, switch })
    }

    /// The port's part of one thread, with the port's faults.
    fn around(&self, port: u16, part: u64, io: Device) -> Result<Box<dyn FrameIo>> {
        let topology = &self.scenario.network.topology;
        let links = faults::Links { topology, seed: self.scenario.seed.wrapping_add(part) };
        let end = End::Switch(self.switch, port);
        if topology.fibre(self.switch, port).is_some() {
            // Frames of a circuit meet its faults where they leave its two units.
            return Ok(Box::new(links.faulty_fibre(end, io)?));
        }
        let link = topology.ports(self.switch).find(|(number, ..)| *number == port);
        let Some((_, link, far)) = link else { return Ok(Box::new(io)) };
        let first = topology.link(link).ends[0] == end;
        if first || matches!(far, End::Host(_)) {
            Ok(Box::new(links.faulty_in_network(link, end, io)?))
        } else {
            Ok(Box::new(io))
        }
    }
}
