//! Packet I/O over virtual Ethernet: AF_PACKET and AF_XDP.
//!
//! First between two hosts, as workers and parameter servers send and receive; then through a
//! switch with two ports, where the switch that runs ATP is compared with a loop that only forwards
//! frames, over the same sockets. Everything takes turns, so that the machine's other load affects
//! all equally.
//!
//! Processor time is that of the thread. The kernel delivers over virtual Ethernet within the
//! sending call, so the kernel's time for the receiver is the sender's.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tributary_controller::{Catalogue, entries};
use tributary_model::{
    Scenario,
    plan::{self, Placement},
};
use tributary_netio::device::{Config, Device, Kind};
use tributary_netio::xdp::{OpenError, XdpSocket};
use tributary_netio::{FrameIo, Poller};
use tributary_run::testbed::{self as testbed, Link, LinkEnd, Testbed, Topology};
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::{Forwarding, SwitchConfig};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, Mac, PORT, Rack, Sequence,
    emit_frame,
};

use super::Spread;
use crate::bench::Args;
use tributary_embedded::program;
use tributary_run::report::table;

/// Duration of a measurement, and of its warm-up.
const TIME: Duration = Duration::from_millis(700);
const WARM_UP: Duration = Duration::from_millis(150);

/// Frames between two flushes.
const BATCH: usize = 32;

/// Offset of the UDP header's destination port in a frame.
const UDP_DESTINATION: usize = 14 + 20 + 2;

/// An unused port.
const DISCARD: u16 = 9;

/// Lengths of frames, from the Ethernet header to the last payload byte.
const SIZES: [usize; 3] = [300, 1_500, 3_498];

/// Frames and processor time of a thread during a span of time.
#[derive(Clone, Copy, Debug)]
struct Work {
    frames: u64,
    busy: Duration,
    time: Duration,
}

impl Work {
    fn rate(&self) -> f64 {
        self.frames as f64 / self.time.as_secs_f64() / 1e6
    }

    fn nanos(&self) -> f64 {
        self.busy.as_secs_f64() * 1e9 / self.frames as f64
    }
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// If namespaces, sockets or the switch cannot be created.
pub(super) fn run(args: &Args) -> Result<()> {
    let sizes: &[usize] = if args.quick { &SIZES[..1] } else { &SIZES };
    println!(
        "\nPacket I/O over virtual Ethernet: millions a second and ns of processor time a packet, \
         median (range) of {} repetitions",
        args.repeat
    );
    let kinds = kinds()?;
    hosts(&kinds, sizes, args.repeat)?;
    switch(&kinds, sizes, args)
}

/// The kinds of sockets that this process may open.
fn kinds() -> Result<Vec<Kind>> {
    let testbed = two_hosts(Kind::Xdp, 1_500)?;
    let open = || XdpSocket::open(&Config::endpoint("eth0", PORT));
    match testbed.run_in("h1", open)? {
        Ok(_) => Ok(vec![Kind::Packet, Kind::Gso, Kind::Xdp]),
        Err(error @ (OpenError::NotPermitted(_) | OpenError::Unsupported)) => {
            println!("skipped: {error}");
            Ok(vec![Kind::Packet, Kind::Gso])
        }
        Err(error) => Err(error.into()),
    }
}

fn spread(works: &[Work], of: fn(&Work) -> f64, digits: usize) -> String {
    Spread::of(works.iter().map(of).collect()).text(digits)
}

// --- Hosts --------------------------------------------------------------------------------------

fn hosts(kinds: &[Kind], sizes: &[usize], repeat: u32) -> Result<()> {
    let mut rows = table(&[
        "frame",
        "sockets",
        "sent, M/s",
        "received, M/s",
        "ns a frame sent",
        "ns a frame received",
    ]);
    for &bytes in sizes {
        let mut measured = vec![(Vec::new(), Vec::new()); kinds.len()];
        for _ in 0..repeat {
            for (kind, (sent, received)) in kinds.iter().zip(&mut measured) {
                let (sender, receiver) = between_hosts(*kind, bytes)?;
                sent.push(sender);
                received.push(receiver);
            }
        }
        for (kind, (sent, received)) in kinds.iter().zip(&measured) {
            rows.add_row([
                bytes.to_string(),
                kind.to_string(),
                spread(sent, Work::rate, 2),
                spread(received, Work::rate, 2),
                spread(sent, Work::nanos, 0),
                spread(received, Work::nanos, 0),
            ]);
        }
    }
    println!("\nFrom host to host:\n{rows}");
    Ok(())
}

/// A host of the benchmarks' networks.
fn host(number: u8) -> Host {
    Host { mac: Mac([2, 0, 10, 0, 0, number]), ip: Ipv4Addr::new(10, 0, 0, number) }
}

fn node(name: &str, host: Host) -> testbed::Host {
    testbed::Host { name: name.to_owned(), mac: host.mac.0, ip: host.ip, prefix: 24 }
}

/// A datagram from `source` to `destination` in a frame of `bytes`.
fn datagram(source: Host, destination: Host, port: u16, bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let values = (bytes - tributary_wire::frame_len(0)) / 4;
    let repr = Repr { values: values as u16, ..gradient(0) };
    emit_frame(&mut frame, &Envelope { source, destination, ecn: Ecn::Ect0 }, &repr);
    frame[UDP_DESTINATION..UDP_DESTINATION + 2].copy_from_slice(&port.to_be_bytes());
    // The datagram may end up to three bytes before the frame does.
    frame.resize(bytes, 0);
    frame
}

/// Hosts `h1` and `h2`, joined by one link.
fn two_hosts(kind: Kind, mtu: u32) -> Result<Testbed> {
    let topology = Topology {
        hosts: vec![node("h1", host(1)), node("h2", host(2))],
        switches: Vec::new(),
        links: vec![Link { a: LinkEnd::new("h1", 0), b: LinkEnd::new("h2", 0), mtu }],
    };
    Ok(Testbed::build_for(kind, &topology)?)
}

fn between_hosts(kind: Kind, bytes: usize) -> Result<(Work, Work)> {
    let testbed = two_hosts(kind, mtu(bytes))?;
    let open = |name| testbed.run_in(name, || Device::open(kind, &Config::endpoint("eth0", PORT)));
    let (mut sender, mut receiver) = (open("h1")??, open("h2")??);
    let frame = datagram(host(1), host(2), PORT, bytes);
    let end = Instant::now() + TIME;
    let receiving = thread::spawn(move || -> Result<Work> {
        let clock = Clock::own()?;
        let mut frames = 0;
        while Instant::now() < end {
            let count = receiver.receive(BATCH, &mut |frame| _ = black_box(frame[0]))?;
            frames += count as u64;
            if count == 0 {
                receiver.wait(Some(Duration::from_millis(10)))?;
            }
        }
        clock.work(frames)
    });
    let clock = Clock::own()?;
    let mut frames = 0;
    while Instant::now() < end {
        frames += send_batch(&mut sender, std::iter::repeat_n(&frame, BATCH))?;
    }
    let sent = clock.work(frames)?;
    let received = receiving.join().map_err(|_| anyhow!("the receiver's thread has died"))??;
    Ok((sent, received))
}

/// The MTU for frames of `bytes` bytes.
fn mtu(bytes: usize) -> u32 {
    (bytes - 14).max(1_500) as u32
}

/// Returns how many frames were sent.
fn send_batch<'a>(io: &mut impl FrameIo, frames: impl Iterator<Item = &'a Vec<u8>>) -> Result<u64> {
    let mut sent = 0;
    for frame in frames {
        while !io.send(frame)? {
            io.wait(Some(Duration::from_millis(1)))?;
        }
        sent += 1;
    }
    io.flush()?;
    Ok(sent)
}

/// Reads a thread's processor time.
struct Clock {
    file: String,
    busy: Duration,
    start: Instant,
}

impl Clock {
    /// The clock of the calling thread.
    fn own() -> Result<Self> {
        let link = std::fs::read_link("/proc/thread-self").context("cannot find this thread")?;
        Self::of(format!("/proc/{}/schedstat", link.display()))
    }

    /// The clock of this process's thread with that name.
    fn named(name: &str) -> Result<Self> {
        for entry in std::fs::read_dir("/proc/self/task").context("cannot list threads")? {
            let path = entry.context("cannot list threads")?.path();
            if std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name) {
                return Self::of(path.join("schedstat").display().to_string());
            }
        }
        Err(anyhow!("there is no thread `{name}`"))
    }

    fn of(file: String) -> Result<Self> {
        let busy = Self::busy(&file)?;
        Ok(Self { file, busy, start: Instant::now() })
    }

    fn busy(file: &str) -> Result<Duration> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {file} (CONFIG_SCHED_INFO)"))?;
        let nanos = text.split_whitespace().next().and_then(|first| first.parse().ok());
        Ok(Duration::from_nanos(nanos.with_context(|| format!("{file} holds no time"))?))
    }

    fn work(&self, frames: u64) -> Result<Work> {
        let busy = Self::busy(&self.file)?.saturating_sub(self.busy);
        Ok(Work { frames, busy, time: self.start.elapsed() })
    }
}

// --- Switch -------------------------------------------------------------------------------------

/// The load of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Datagrams other than ours, in frames of this many bytes.
    Plain(usize),
    /// Gradients of this many values that the switch forwards to the parameter server.
    Gradients(u16),
}

impl Load {
    fn bytes(self) -> usize {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Gradients(values) => tributary_wire::frame_len(values),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Plain(_) => "plain".to_owned(),
            Self::Gradients(values) => format!("{values} values"),
        }
    }
}

/// The forwarding program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    Forwarder,
    Switch,
}

fn switch(kinds: &[Kind], sizes: &[usize], args: &Args) -> Result<()> {
    let mut loads: Vec<Load> = sizes.iter().map(|&bytes| Load::Plain(bytes)).collect();
    let values: &[u16] = if args.quick { &[64] } else { &[64, 256] };
    loads.extend(values.iter().map(|&values| Load::Gradients(values)));
    let mut rows = table(&[
        "frame",
        "what",
        "sockets",
        "forwarder, M/s",
        "switch, M/s",
        "ratio",
        "forwarder, ns a frame",
        "switch, ns a frame",
        "ratio",
    ]);
    for load in loads {
        let mut measured = vec![(Vec::new(), Vec::new()); kinds.len()];
        for repetition in 0..args.repeat {
            for (kind, (forwarder, switch)) in kinds.iter().zip(&mut measured) {
                let mut turns = [Passing::Forwarder, Passing::Switch];
                turns.rotate_left(repetition as usize % 2);
                for turn in turns {
                    let work = through(*kind, turn, load)?;
                    match turn {
                        Passing::Forwarder => forwarder.push(work),
                        Passing::Switch => switch.push(work),
                    }
                }
            }
        }
        for (kind, (forwarder, switch)) in kinds.iter().zip(&measured) {
            let median = |works: &[Work], of: fn(&Work) -> f64| {
                Spread::of(works.iter().map(of).collect()).median
            };
            let rates = median(switch, Work::rate) / median(forwarder, Work::rate);
            let costs = median(forwarder, Work::nanos) / median(switch, Work::nanos);
            rows.add_row([
                load.bytes().to_string(),
                load.name(),
                kind.to_string(),
                spread(forwarder, Work::rate, 2),
                spread(switch, Work::rate, 2),
                format!("{rates:.2}"),
                spread(forwarder, Work::nanos, 0),
                spread(switch, Work::nanos, 0),
                format!("{costs:.2}"),
            ]);
        }
    }
    println!("\nThrough a switch with two ports, one way; `switch` runs ATP:\n{rows}");
    Ok(())
}

/// A job of two workers and their parameter server at one switch.
fn scenario(values: u16) -> Result<Scenario> {
    let text = format!(
        "[protocol]\nvalues_per_packet = {values}\nslots = 64\n[topology]\nkind = \"star\"\n\
         workers = 2\n[switch]\npool = 256\n[[job]]\nname = \"bench\"\n"
    );
    Ok(tributary_model::jobfile::parse(&text, "bench.toml")?)
}

fn gradient(sequence: u32) -> Repr {
    Repr {
        protocol: tributary_wire::Protocol::Atp,
        kind: tributary_wire::Kind::Gradient,
        // Another task had its aggregator, so the switch forwards it unchanged.
        flags: Flags::COLLISION,
        priority: 0,
        job: tributary_wire::JobId::new(1).expect("not zero"),
        epoch: tributary_wire::Epoch::FIRST,
        values: 0,
        sequence: Sequence(sequence),
        bitmap: Bitmap(1),
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: AggregatorIndex(sequence),
    }
}

fn through(kind: Kind, passing: Passing, load: Load) -> Result<Work> {
    let values = if let Load::Gradients(values) = load { values } else { 64 };
    let scenario = scenario(values)?;
    let job = &scenario.jobs[0];
    let (from, to) = (job.workers[0], job.server());
    let [(_, input), (_, output)] =
        [from, to].map(|host| scenario.network.topology.attachment(host));
    let [source, server] = [from, to].map(|host| scenario.network.topology.host(host).address);
    // The far host is not the frames' destination: its kernel drops them at once.
    let far = Host { mac: Mac([2, 0, 10, 0, 0, 99]), ip: Ipv4Addr::new(10, 0, 99, 99) };
    let topology = Topology {
        hosts: vec![node("near", source), node("far", far)],
        switches: vec![testbed::SwitchNode { name: "s".to_owned() }],
        links: [("near", input), ("far", output)]
            .map(|(host, port)| Link {
                a: LinkEnd::new(host, 0),
                b: LinkEnd::new("s", port),
                mtu: mtu(load.bytes()),
            })
            .into(),
    };
    let testbed = Testbed::build_for(kind, &topology)?;
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|sequence| match load {
            Load::Plain(bytes) => datagram(source, server, DISCARD, bytes),
            Load::Gradients(values) => {
                let mut frame = Vec::new();
                let repr = Repr { values, job: job.id, ..gradient(sequence) };
                let envelope = Envelope { source, destination: server, ecn: Ecn::Ect0 };
                emit_frame(&mut frame, &envelope, &repr);
                frame
            }
        })
        .collect();
    let configs = [input, output].map(|port| Config::switch_port(format!("port{port}")));
    let mut ports = testbed.run_in("s", || Device::open_all(kind, &configs))??;
    let (out, into) = (ports.pop().expect("two"), ports.pop().expect("two"));
    let config = Config::endpoint("eth0", PORT);
    let mut sender = testbed.run_in("near", || Device::open(kind, &config))??;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let load = thread::spawn(move || -> Result<()> {
        while !told.load(Ordering::Relaxed) {
            send_batch(&mut sender, frames.iter())?;
        }
        Ok(())
    });
    let work = match passing {
        Passing::Forwarder => Forwarder::start(into, out)?.measure(),
        Passing::Switch => AtpSwitch::start(&scenario, (input, into), (output, out))?.measure(),
    };
    stop.store(true, Ordering::Relaxed);
    load.join().map_err(|_| anyhow!("the sender's thread has died"))??;
    work
}

/// A loop that only forwards frames.
struct Forwarder {
    passed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Forwarder {
    const NAME: &str = "forwarder";

    fn start(into: Device, out: Device) -> Result<Self> {
        let (passed, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, told) = (Arc::clone(&passed), Arc::clone(&stop));
        let work = move || Self::run(into, out, &count, &told);
        let thread = thread::Builder::new().name(Self::NAME.to_owned()).spawn(work)?;
        Ok(Self { passed, stop, thread })
    }

    fn run(mut into: Device, mut out: Device, passed: &AtomicU64, stop: &AtomicBool) -> Result<()> {
        let mut poller = Poller::new();
        let mut failed = None;
        while !stop.load(Ordering::Relaxed) {
            let mut pass = |frame: &[u8]| match out.send(frame) {
                Ok(taken) => drop(passed.fetch_add(u64::from(taken), Ordering::Relaxed)),
                Err(error) => failed = Some(error),
            };
            let received = into.receive(BATCH, &mut pass)?;
            if let Some(error) = failed.take() {
                return Err(error.into());
            }
            out.flush()?;
            // A forwarder polls both of its ports.
            let back = out.receive(BATCH, &mut |_| {})?;
            if received + back == 0 {
                poller.add(&mut into)?;
                poller.add(&mut out)?;
                poller.wait(Some(Duration::from_millis(10)))?;
            }
        }
        Ok(())
    }

    fn measure(self) -> Result<Work> {
        let passed = || Ok(self.passed.load(Ordering::Relaxed));
        let work = measure(Self::NAME, passed);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the forwarder's thread has died"))??;
        work
    }
}

/// The switch, as in `tributary switch`.
struct AtpSwitch {
    handle: SwitchHandle,
    output: u16,
}

impl AtpSwitch {
    fn start(
        scenario: &Scenario,
        (input, into): (u16, Device),
        (output, out): (u16, Device),
    ) -> Result<Self> {
        let pipeline = program::compile(scenario, None)?.pipeline;
        let text = String::from_utf8(pipeline.device_config)?;
        let forwarding = Forwarding::from_source(&text).map_err(|error| anyhow!("{error}"))?;
        let catalogue = Catalogue::new(&pipeline.p4info)?;
        let mut entities =
            entries::forwarding(&catalogue, &plan::forwarding(&scenario.network.topology)[0]);
        let slot = entries::JobSlot::new(1).context("there is a slot 1")?;
        for job in &scenario.jobs {
            for part in plan::job(&scenario.network.topology, &Placement::unassigned(job)) {
                entities.extend(entries::job(&catalogue, &part, job.run(), slot));
            }
        }
        let mut runtime = Runtime::new(SwitchConfig::default());
        runtime.add_port(input, Box::new(into), None);
        runtime.add_port(output, Box::new(out), None);
        let (handle, _packets_in) = runtime.start()?;
        let written = handle.control().call(move |switch, _| {
            switch.commit(forwarding);
            switch.write(&entries::insert(entities))
        })?;
        for result in written.map_err(|error| anyhow!("{error}"))? {
            // The third host of the job has no link here.
            drop(result);
        }
        Ok(Self { handle, output })
    }

    fn sent(&self) -> Result<u64> {
        let (_, ports) = self.handle.control().statistics()?;
        let port = ports.iter().find(|(number, _)| *number == self.output);
        Ok(port.context("the port exists")?.1.sent)
    }

    fn measure(self) -> Result<Work> {
        measure("switch", || self.sent())
    }
}

/// Measures the thread with this name from now on.
fn measure(thread: &str, passed: impl Fn() -> Result<u64>) -> Result<Work> {
    std::thread::sleep(WARM_UP);
    let (clock, before) = (Clock::named(thread)?, passed()?);
    std::thread::sleep(TIME);
    clock.work(passed()? - before)
}
