//! BMv2: `simple_switch_grpc` in a network namespace, with a link from each port to a second one.
//!
//! It does not report when it has finished a packet. So each frame is followed by markers on the
//! same port: plain frames, one for each port. BMv2 keeps the order of packets between two ports,
//! so when the markers are out, all earlier packets are, too. Markers are removed from the reported
//! frames.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tributary_netio::packet::{Config, PacketSocket};
use tributary_netio::{FrameIo, Watch};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{Update, update};
use tributary_run::testbed::{
    Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

use crate::controller::{Controller, to_counts, to_evictions};
use crate::entries::{Entry, eviction_counters, outcome_counters};
use crate::frames::plain;
use crate::target::{Build, Counts, Evictions, Outputs, PORTS, Target};
use crate::tools::{Bmv2Tools, compile};

/// Time limit to start, or to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for an answer to a frame from the controller.
const SILENCE: Duration = Duration::from_millis(400);

/// The port of the controller.
const CPU_PORT: u16 = 510;

/// The address of P4Runtime, inside the namespace.
const ADDRESS: &str = "127.0.0.1:9559";

/// A local experimental EtherType (IEEE 802).
const MARKER: u16 = 0x0806;

const SWITCH: &str = "switch";
const HOSTS: &str = "hosts";

/// The destination of a marker for a port.
fn marker_mac(port: u16) -> u64 {
    0x026d_6b72_0000 + u64::from(port)
}

pub(crate) struct Bmv2 {
    // Dropped before its switch.
    controller: Controller,
    packets_in: Receiver<Vec<u8>>,
    cables: BTreeMap<u16, PacketSocket>,
    process: Process,
    p4info: P4Info,
    arrived: Outputs,
    /// The port of the last frame.
    last: u16,
    /// Whether a frame of the controller may still be answered.
    asked: bool,
    /// Markers sent.
    markers: u32,
    marker_bytes: i64,
    _testbed: Testbed,
}

impl Bmv2 {
    pub(crate) fn start(tools: &Bmv2Tools, build: &Build) -> Self {
        let compiled = compile(tools, build);
        let node = |name: &str| SwitchNode { name: name.to_owned() };
        let cable =
            |port| Link { a: LinkEnd::new(SWITCH, port), b: LinkEnd::new(HOSTS, port), mtu: 9_000 };
        let topology = Topology {
            hosts: Vec::new(),
            switches: vec![node(SWITCH), node(HOSTS)],
            links: PORTS.map(cable).collect(),
        };
        let interface = |port| topology.interface(&LinkEnd::new(SWITCH, port));
        let testbed = Testbed::build(&topology).expect("namespaces can be made");

        let mut command = Command::new(&tools.switch);
        command.args(["--no-p4", "--device-id", "1", "-L", "off"]);
        for port in PORTS {
            command.arg("-i").arg(format!("{port}@{}", interface(port)));
        }
        command.args(["--", "--grpc-server-addr", ADDRESS, "--cpu-port", &CPU_PORT.to_string()]);
        let process = testbed.spawn(SWITCH, command, Output::Keep).expect("BMv2 can be started");

        let (mut controller, packets_in) = Controller::connect(&testbed, SWITCH, ADDRESS);
        let p4info = controller.set_pipeline(&compiled);
        let cables = PORTS.map(|port| {
            let interface = topology.interface(&LinkEnd::new(HOSTS, port));
            let open = || PacketSocket::open(&Config::switch_port(interface));
            let socket = testbed.run_in(HOSTS, open).expect("the namespace is there");
            (port, socket.expect("a raw socket can be opened"))
        });
        let mut bmv2 = Self {
            controller,
            packets_in,
            cables: cables.collect(),
            process,
            p4info,
            arrived: Outputs::default(),
            last: *PORTS.start(),
            asked: false,
            markers: 0,
            marker_bytes: 0,
            _testbed: testbed,
        };
        let ways = PORTS.map(|port| Entry::host(marker_mac(port), port));
        let ways = ways.map(|way| way.update(&bmv2.p4info, update::Type::Insert));
        bmv2.write(&ways.collect::<Vec<_>>());
        bmv2
    }

    fn cable(&mut self, port: u16) -> &mut PacketSocket {
        self.cables.get_mut(&port).unwrap_or_else(|| panic!("no port {port}"))
    }

    /// Collects frames that have arrived, and removes their markers from `wanted`.
    fn take_arrived(&mut self, wanted: &mut BTreeSet<u16>) {
        let current = self.markers;
        for (&port, cable) in &mut self.cables {
            let mut take = |frame: &[u8]| {
                let (address, rest) = frame.split_at(12);
                if rest[..2] == MARKER.to_be_bytes()
                    && address[..6] == marker_mac(port).to_be_bytes()[2..]
                {
                    if rest[2..6] == current.to_be_bytes() {
                        wanted.remove(&port);
                    }
                } else {
                    self.arrived.frames.push((port, frame.to_vec()));
                }
            };
            while cable.receive(64, &mut take).expect("the cable works") > 0 {}
        }
    }

    fn send_markers(&mut self) {
        self.markers += 1;
        for port in PORTS {
            let payload = [&self.markers.to_be_bytes()[..], &[0; 42]].concat();
            let frame = plain(marker_mac(port), marker_mac(0), MARKER, &payload);
            self.marker_bytes += frame.len() as i64;
            self.send(self.last, &frame);
        }
    }

    fn send(&mut self, port: u16, frame: &[u8]) {
        let cable = self.cable(port);
        assert!(cable.send(frame).expect("the cable carries it"), "the cable has no room");
        cable.flush().expect("the cable works");
    }

    fn complain(&self, what: &str) -> ! {
        let status = self.process.wait(Some(Duration::ZERO));
        let output = self.process.output(Stream::Err);
        panic!(
            "BMv2 {what} within {PATIENCE:?}; its status is {status:?}, its errors are {output:?}"
        );
    }
}

impl Target for Bmv2 {
    fn name(&self) -> &'static str {
        "BMv2"
    }

    fn p4info(&self) -> &P4Info {
        &self.p4info
    }

    fn write(&mut self, updates: &[Update]) {
        self.controller.write(updates);
    }

    fn inject(&mut self, port: u16, frame: &[u8]) {
        // There is no order between ports.
        if port != self.last {
            let before = self.settle();
            self.arrived = before;
        }
        self.last = port;
        self.send(port, frame);
    }

    fn packet_out(&mut self, frame: &[u8]) {
        let before = self.settle();
        self.arrived = before;
        self.controller.packet_out(frame);
        self.asked = true;
    }

    fn settle(&mut self) -> Outputs {
        while self.asked {
            match self.packets_in.recv_timeout(SILENCE) {
                Ok(frame) => self.arrived.packets_in.push(frame),
                Err(RecvTimeoutError::Timeout) => self.asked = false,
                Err(RecvTimeoutError::Disconnected) => self.complain("has closed the stream"),
            }
        }
        self.send_markers();
        let mut wanted: BTreeSet<u16> = PORTS.collect();
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.take_arrived(&mut wanted);
            if wanted.is_empty() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.complain("has not passed all markers on");
            }
            let mut watch = Watch::new();
            for cable in self.cables.values_mut() {
                cable.watch(&mut watch).expect("the cable can be watched");
            }
            watch.sleep(Some(left)).expect("threads can sleep");
        }
        let mut outputs = std::mem::take(&mut self.arrived);
        outputs.frames.sort_by_key(|(port, _)| *port);
        outputs
    }

    fn advance(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn counters(&mut self) -> Counts {
        let mut counts = to_counts(&self.controller.read(vec![outcome_counters(&self.p4info)]));
        // Markers are plain traffic, which is counted under no job.
        if let Some(plain) = counts.get_mut(&0) {
            plain.packets -= i64::from(self.markers) * PORTS.count() as i64;
            plain.bytes -= self.marker_bytes;
        }
        counts.retain(|_, count| *count != Default::default());
        counts
    }

    fn evictions(&mut self) -> Evictions {
        to_evictions(&self.controller.read(eviction_counters(&self.p4info)))
    }
}
