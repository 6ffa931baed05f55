//! The two switches behind one trait.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tributary_controller::client::{self, Client, Stream, SwitchConfig};
use tributary_controller::p4c;
use tributary_controller::programs::{Pipeline, Source};
use tributary_netio::packet::{Config, PacketSocket};
use tributary_netio::{FrameIo, Watch};
use tributary_p4::Sources;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{Entity, Update};
use tributary_run::testbed::{self as testbed, Link, LinkEnd, Output, Process, Testbed, Topology};
use tributary_switch::{Forwarding, Switch, SwitchConfig as EmbeddedConfig};

use crate::programs::{DIRECTORY, Program};

/// Ports with a link.
pub(crate) const PORTS: [u16; 4] = [1, 2, 3, 4];

/// EtherType of the markers, as in `common.p4`.
const MARKER: u16 = 0x88b5;

/// Time limit for BMv2 to start, or to pass a marker on.
const PATIENCE: Duration = Duration::from_secs(60);

/// Step limit of a packet in the embedded switch.
const STEPS: usize = 1 << 12;

/// The output for a packet: ports and frames, sorted, because the order of copies is unspecified.
pub(crate) type Outputs = Vec<(u16, Vec<u8>)>;

/// A switch that runs a program.
pub(crate) trait Target {
    /// Name in messages.
    fn name(&self) -> &'static str;
    /// Makes updates, or returns the refusal.
    fn write(&mut self, updates: &[Update]) -> Result<(), String>;
    /// Sends a frame into a port, and waits for all of its output.
    fn pass(&mut self, port: u16, frame: &[u8]) -> Outputs;
    /// Reads entities.
    fn read(&mut self, which: &[Entity]) -> Vec<Entity>;
}

fn path(program: &Program) -> String {
    format!("{DIRECTORY}/{}.p4", program.name)
}

/// The embedded switch, in virtual time.
pub(crate) struct Embedded {
    switch: Switch,
}

impl Embedded {
    pub(crate) fn start(program: &Program) -> (Self, P4Info) {
        let text = tributary_p4::preprocess(&Sources::disk(), &path(program), &[]);
        let text = text.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let forwarding = Forwarding::from_source(&text).unwrap_or_else(|error| panic!("{error}"));
        let info = forwarding.p4info().clone();
        let ports = PORTS.to_vec();
        let mut switch = Switch::new(EmbeddedConfig { ports, ..EmbeddedConfig::default() });
        switch.commit(forwarding);
        (Self { switch }, info)
    }
}

impl Target for Embedded {
    fn name(&self) -> &'static str {
        "the embedded switch"
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), String> {
        let results = self.switch.write(updates).expect("a pipeline is set");
        for (result, update) in results.into_iter().zip(updates) {
            result.map_err(|refusal| format!("{refusal}: {update:?}"))?;
        }
        Ok(())
    }

    fn pass(&mut self, port: u16, frame: &[u8]) -> Outputs {
        self.switch.receive(0, port, frame);
        assert!(!self.switch.run_pending(0, STEPS), "a packet walks for ever");
        let mut outputs = Vec::new();
        let mut frame = Vec::new();
        // A packet that egress recirculates is queued again, perhaps at a checked port.
        while PORTS.iter().any(|&port| self.switch.queue_depth(port) > 0) {
            for port in PORTS {
                while self.switch.transmit(0, port, &mut frame) {
                    outputs.push((port, frame.clone()));
                }
                assert!(!self.switch.run_pending(0, STEPS), "a packet walks for ever");
            }
        }
        outputs.sort();
        outputs
    }

    fn read(&mut self, which: &[Entity]) -> Vec<Entity> {
        self.switch.read(which).expect("the counters can be read")
    }
}

const SWITCH: &str = "switch";
const HOSTS: &str = "hosts";

/// BMv2 in a network namespace, with a link from each port to a second one.
///
/// It does not report when it has finished a packet. So each frame is followed by markers: plain
/// frames, one for each port. A port's packets leave in order, so when the markers are out, all
/// earlier packets in the queues are, too. After as many rounds of markers as a packet can make
/// passes, the packet has left.
pub(crate) struct Bmv2 {
    cables: Vec<(u16, PacketSocket)>,
    marker: u32,
    passes: usize,
    client: Client,
    /// Held open, because it makes this client the primary controller.
    _stream: Stream,
    runtime: Runtime,
    process: Process,
    _testbed: Testbed,
    _directory: TempDir,
}

impl Bmv2 {
    pub(crate) fn start(program: &Program) -> (Self, P4Info) {
        let source = Source { main: path(program), files: Vec::new() };
        let pipeline = p4c::bmv2(&source, &[]).unwrap_or_else(|error| panic!("{error}"));
        let node = |name: &str| testbed::SwitchNode { name: name.to_owned() };
        let topology = Topology {
            hosts: Vec::new(),
            switches: vec![node(SWITCH), node(HOSTS)],
            links: PORTS
                .map(|port| Link {
                    a: LinkEnd::new(SWITCH, port),
                    b: LinkEnd::new(HOSTS, port),
                    mtu: 1_500,
                })
                .to_vec(),
        };
        let interface = |port| topology.interface(&LinkEnd::new(SWITCH, port));
        let testbed = Testbed::build(&topology).expect("namespaces can be made");
        let directory = tempfile::tempdir().expect("a directory can be made");
        let address = format!("unix:{}", directory.path().join("switch.sock").display());
        let switch = p4c::find("simple_switch_grpc", "").expect("it was looked for before");
        let mut command = Command::new(switch);
        command.args(["--no-p4", "--device-id", "1", "--log-level", "off"]);
        for port in PORTS {
            command.arg("-i").arg(format!("{port}@{}", interface(port)));
        }
        command.args(["--", "--cpu-port", "510", "--grpc-server-addr", &address]);
        let process = testbed.spawn(SWITCH, command, Output::Keep).expect("BMv2 can be started");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let socket = directory.path().join("switch.sock");
        let (client, stream) = runtime.block_on(connect(&socket, address, &pipeline));
        let cables = PORTS.map(|port| {
            let interface = topology.interface(&LinkEnd::new(HOSTS, port));
            let open = || PacketSocket::open(&Config::switch_port(interface));
            let socket = testbed.run_in(HOSTS, open).expect("the namespace is there");
            (port, socket.expect("a raw socket can be opened"))
        });
        let bmv2 = Self {
            cables: cables.into(),
            marker: 0,
            passes: program.passes,
            client,
            _stream: stream,
            runtime,
            process,
            _testbed: testbed,
            _directory: directory,
        };
        (bmv2, pipeline.p4info)
    }

    fn send(&mut self, port: u16, frame: &[u8]) {
        let (_, cable) = self.cables.iter_mut().find(|(at, _)| *at == port).expect("a port");
        assert!(cable.send(frame).expect("the cable carries it"), "the cable has no room");
        cable.flush().expect("the cable works");
    }

    /// Sends a round of markers into a port and collects the frames that arrive before all of them.
    fn settle(&mut self, port: u16, outputs: &mut Outputs) {
        self.marker += 1;
        let payload = [&MARKER.to_be_bytes()[..], &self.marker.to_be_bytes(), &[0; 40]].concat();
        let to = |port: u16| [&[0, 0, 0, 0][..], &port.to_be_bytes()].concat();
        for at in PORTS {
            let frame = [&to(at)[..], &[2, 0, 0, 0, 0, 9], &payload].concat();
            self.send(port, &frame);
        }
        let mut wanted: BTreeSet<u16> = PORTS.into();
        let deadline = Instant::now() + PATIENCE;
        while !wanted.is_empty() {
            let mut watch = Watch::new();
            for (port, cable) in &mut self.cables {
                let mut take = |frame: &[u8]| {
                    let is_marker = frame[..6] == to(*port) && frame[12..] == payload;
                    if !(is_marker && wanted.remove(port)) {
                        outputs.push((*port, frame.to_vec()));
                    }
                };
                while cable.receive(64, &mut take).expect("the cable works") > 0 {}
                cable.watch(&mut watch).expect("the cable can be watched");
            }
            if wanted.is_empty() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "BMv2 has not passed all markers on within {PATIENCE:?}; its status is {:?}",
                self.process.wait(Some(Duration::ZERO)),
            );
            watch.sleep(Some(left)).expect("threads can sleep");
        }
    }
}

async fn connect(socket: &Path, address: String, pipeline: &Pipeline) -> (Client, Stream) {
    let deadline = Instant::now() + PATIENCE;
    while tokio::net::UnixStream::connect(socket).await.is_err() {
        assert!(Instant::now() < deadline, "BMv2 does not listen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let config = Arc::new(SwitchConfig {
        request_timeout: PATIENCE,
        ..SwitchConfig::new("BMv2", client::Target::Address(address))
    });
    let mut client = Client::connect(config).await.expect("BMv2 answers");
    let stream = client.arbitrate().await.expect("BMv2 takes us for its controller");
    client.set_pipeline(pipeline).await.expect("BMv2 takes the program");
    (client, stream)
}

impl Target for Bmv2 {
    fn name(&self) -> &'static str {
        "BMv2"
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), String> {
        // One by one, because a refusal of many does not always name the update.
        for update in updates {
            let write = self.client.write(std::slice::from_ref(update));
            self.runtime.block_on(write).map_err(|error| format!("{error}: {update:?}"))?;
        }
        Ok(())
    }

    fn pass(&mut self, port: u16, frame: &[u8]) -> Outputs {
        self.send(port, frame);
        let mut outputs = Vec::new();
        for _ in 0..self.passes {
            self.settle(port, &mut outputs);
        }
        outputs.sort();
        outputs
    }

    fn read(&mut self, which: &[Entity]) -> Vec<Entity> {
        let read = self.client.read(which.to_vec());
        self.runtime.block_on(read).expect("BMv2 tells what it has")
    }
}
