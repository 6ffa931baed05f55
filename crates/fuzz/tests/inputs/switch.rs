//! What switches receive: frames on their ports, and requests of P4Runtime.

use std::sync::LazyLock;

use prost::Message as _;
use tributary_controller::ports::PortMap;
use tributary_controller::programs::{self, Compiled, Source};
use tributary_controller::{Catalogue, entries};
use tributary_dataplane::EngineKind;
use tributary_model::{Deployment, plan::Placement};
use tributary_p4::{Compilation, compile_text};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{ForwardingPipelineConfig, ReadRequest, Update, WriteRequest};
use tributary_switch::{Forwarding, Switch, SwitchConfig};
use tributary_wire::{JobId, golden};

use crate::bounds::{MIB, Turn};
use crate::reader::Reader;
use crate::sources::PROGRAM;

/// Ports of a switch with hosts.
const PORTS: u16 = 4;

/// Most memory for one input: the program with its registers and tables, and full queues.
const MEMORY: usize = 128 * MIB;

/// Passes through a switch after each frame.
const PASSES: usize = 1000;

/// A program, and a network with a job for it.
struct Network {
    compiled: Compiled,
    updates: Vec<Update>,
}

impl Network {
    /// The job has the number and the epoch of the golden frames.
    fn new(protocol: &str) -> Self {
        let text = format!(
            "protocol = \"{protocol}\"\n[switch]\npool = 64\n[topology]\nkind = \"star\"\nworkers = 3\n[[job]]\n"
        );
        let scenario = tributary_model::jobfile::parse(&text, "fuzz")
            .unwrap_or_else(|error| panic!("{error}"));
        let source = Source::built_in(protocol).expect("a program of ours");
        let compiled = programs::compile(&source, &programs::defines(&scenario.network.switch));
        let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
        let catalogue = Catalogue::new(&compiled.pipeline.p4info).expect("a program of ours");
        let deployment = Deployment::new(scenario).expect("the pool is large enough");
        let job = JobId::new(263).expect("not zero");
        let placement = Placement { job, epoch: golden::EPOCH, ..deployment.placement(0) };
        let slot = entries::JobSlot::new(1).expect("not zero");
        let topology = &deployment.scenario().network.topology;
        let entities =
            entries::network(&catalogue, topology, &PortMap::default(), [(&placement, slot)]);
        Self { updates: entries::insert(entities.concat()), compiled }
    }

    fn switch(&self) -> Switch {
        let pipeline = &self.compiled.pipeline;
        let mut switch = empty(&self.compiled.program, &pipeline.p4info);
        for outcome in switch.write(&self.updates).expect("the switch has a program") {
            outcome.expect("entries of ours");
        }
        switch
    }
}

fn empty(program: &tributary_p4::ir::Program, p4info: &P4Info) -> Switch {
    let config = ForwardingPipelineConfig { p4info: Some(p4info.clone()), ..Default::default() };
    let mut switch = Switch::new(SwitchConfig {
        ports: (1..=PORTS).collect(),
        queue_limit: 64,
        recirculation_limit: 64,
        engine: EngineKind::Interpreter,
        ..SwitchConfig::default()
    });
    switch.commit(Forwarding::load(program.clone(), config).expect("it was compiled"));
    switch
}

/// Frames through a switch; those that it sends may come back.
struct Traffic {
    switch: Switch,
    now_us: u64,
    sent: Vec<Vec<u8>>,
}

impl Traffic {
    fn new(switch: Switch) -> Self {
        Self { switch, now_us: 0, sent: Vec::new() }
    }

    fn receive(&mut self, port: u16, frame: &[u8]) {
        self.switch.receive(self.now_us, port, frame);
        // Copies may go round for ever; what is left waits for the next frame.
        self.switch.run_pending(self.now_us, PASSES);
        let mut frame = Vec::new();
        for port in 1..=PORTS {
            while self.switch.transmit(self.now_us, port, &mut frame) {
                self.sent.push(frame.clone());
            }
        }
        self.sent.truncate(64);
        while self.switch.poll_packet_in().is_some() {}
        while self.switch.poll_digest().is_some() {}
    }
}

static NETWORKS: LazyLock<[Network; 4]> =
    LazyLock::new(|| ["atp", "esa", "p4inc", "switchml"].map(Network::new));

/// Frames for our programs: golden ones, some that the switch has sent, and any bytes, all with changes.
#[test]
fn frames() {
    let turn = Turn::wait();
    LazyLock::force(&NETWORKS);
    bolero::check!()
        .for_each(|input: &[u8]| turn.bounded(MEMORY, || frames_of(Reader::new(input))));
}

fn frames_of(mut input: Reader<'_>) {
    let mut traffic = Traffic::new(NETWORKS[input.index(NETWORKS.len())].switch());
    while !input.is_empty() {
        let mut frame = match input.index(4) {
            0 => input.string().to_vec(),
            1 if !traffic.sent.is_empty() => traffic.sent[input.index(traffic.sent.len())].clone(),
            _ => golden::VECTORS[input.index(golden::VECTORS.len())].bytes(),
        };
        for _ in 0..input.index(6) {
            // The header of aggregation more often than what is around it.
            let at = match input.byte() {
                at if at < 200 => 42 + usize::from(at) % 28,
                at => usize::from(at) % 64,
            };
            let byte = input.byte();
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        let port = 1 + u16::from(input.byte()) % PORTS;
        traffic.receive(port, &frame);
        traffic.now_us += u64::from(input.byte()) * 10_000;
    }
}

static PLAIN: LazyLock<Compilation> = LazyLock::new(|| {
    compile_text("program.p4", PROGRAM, &[]).unwrap_or_else(|errors| panic!("{errors}"))
});

/// Requests of a controller, encoded, between frames.
#[test]
fn p4runtime() {
    let turn = Turn::wait();
    LazyLock::force(&PLAIN);
    bolero::check!().for_each(|input: &[u8]| turn.bounded(MEMORY, || requests(Reader::new(input))));
}

fn requests(mut input: Reader<'_>) {
    let mut traffic = Traffic::new(empty(&PLAIN.program, &PLAIN.p4info));
    while !input.is_empty() {
        let kind = input.index(4);
        let bytes = input.string();
        match kind {
            0 | 1 => {
                if let Ok(request) = WriteRequest::decode(bytes) {
                    // Refusals have the text of an error for an operator.
                    drop(traffic.switch.write_batch(&request.updates, request.atomicity()));
                }
            }
            2 => {
                if let Ok(request) = ReadRequest::decode(bytes) {
                    drop(traffic.switch.read(&request.entities));
                }
            }
            _ => {
                traffic.receive(1, bytes);
                traffic.now_us += 1000;
            }
        }
        drop(traffic.switch.poll_idle(traffic.now_us));
    }
}

/// The P4Info that a controller sends with a program.
#[test]
fn p4info() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| {
        turn.bounded(MEMORY, || {
            let Ok(p4info) = P4Info::decode(input) else { return };
            let config = ForwardingPipelineConfig {
                p4info: Some(p4info),
                p4_device_config: PROGRAM.into(),
                cookie: None,
            };
            drop(Forwarding::compile(config));
        });
    });
}
