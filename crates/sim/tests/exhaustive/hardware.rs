//! The switches: the P4 program in the dataplane, pass by pass.
//!
//! One instance of each switch does all the work: before a packet's pass the registers are set to
//! what the state of the search says they are, and afterwards they are read. What a packet keeps over
//! a resubmit is in its storage, which stays with the packet, so that other packets can come between
//! its passes.

use std::collections::BTreeMap;

use tributary_controller::entries::{self, JobSlot};
use tributary_controller::outcomes::Outcomes;
use tributary_controller::programs::{self, Source};
use tributary_controller::{Catalogue, plan, sweep};
use tributary_dataplane::{EgressInput, IngressInput, Instance, Packet, Value, Verdict};
use tributary_jobfile::{Scenario, SwitchId};
use tributary_p4::ir::ExternId;
use tributary_p4runtime_proto::p4::config::v1::P4Info;
use tributary_p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use tributary_protocol::Assignment;
use tributary_switch::{Forwarding, Switch, SwitchConfig};
use tributary_wire::{JobId, Sequence};

const CPU_PORT: u16 = 510;
/// The time in all switches, always: the program does nothing with it.
const NOW_US: u64 = 1_000_000;

/// All registers of a switch, in the program's order.
pub(crate) type Registers = Vec<Value>;

/// A packet that waits for another pass.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) frame: Vec<u8>,
    packet: Packet,
}

impl Waiting {
    /// Two with the same name are the same: parser and ingress start anew with the frame and what was
    /// preserved.
    pub(crate) fn name(&self) -> String {
        let debug = format!("{:?}", self.packet);
        let preserved = debug.split("preserved: ").nth(1).expect("the storage's text has it");
        format!("{:?} {preserved}", self.frame)
    }
}

/// What came of a pass.
#[derive(Clone, Debug)]
pub(crate) enum Passed {
    /// Out of these ports.
    Out(Vec<(u16, Vec<u8>)>),
    /// It asks for another pass.
    Again(Box<Waiting>),
}

/// A switch with the entries of all jobs.
#[derive(Debug)]
struct Device {
    switch: Switch,
    groups: BTreeMap<u16, Vec<u16>>,
}

/// All switches.
#[derive(Debug)]
pub(crate) struct Hardware {
    devices: Vec<Device>,
    catalogue: Catalogue,
    /// Every register: its number in the program.
    registers: Vec<ExternId>,
    /// Which of them is the identity.
    identity: usize,
}

impl Hardware {
    pub(crate) fn new(source: &Source, scenario: &Scenario) -> Self {
        let compiled = programs::compile(source, &programs::defines(&scenario.switch))
            .unwrap_or_else(|error| panic!("{error}"));
        let program = &compiled.program;
        let catalogue = Catalogue::new(&compiled.pipeline.p4info).unwrap();
        let externs = program.externs.iter().enumerate();
        let registers: Vec<(usize, &str)> = externs
            .filter(|(_, instance)| instance.type_name == "register")
            .map(|(number, instance)| (number, instance.name.as_str()))
            .collect();
        let identity = registers.iter().position(|(_, name)| name.ends_with("identity.tasks"));
        let devices = scenario
            .topology
            .switch_ids()
            .map(|id| {
                let info: P4Info = compiled.pipeline.p4info.clone();
                let config = ForwardingPipelineConfig {
                    p4info: Some(info),
                    p4_device_config: compiled.pipeline.device_config.clone(),
                    cookie: None,
                };
                Device::new(
                    Forwarding::load(program.clone(), config).unwrap(),
                    &catalogue,
                    scenario,
                    id,
                )
            })
            .collect();
        Self {
            devices,
            catalogue,
            registers: registers
                .iter()
                .map(|(number, _)| ExternId(u32::try_from(*number).unwrap()))
                .collect(),
            identity: identity.expect("the program keeps identities"),
        }
    }

    pub(crate) fn switches(&self) -> usize {
        self.devices.len()
    }

    /// A switch in which nothing has happened.
    pub(crate) fn empty(&self) -> Registers {
        vec![Value::from(0_u64); self.registers.len()]
    }

    /// Whose the cell is: zero if nobody's.
    pub(crate) fn holder(&self, registers: &Registers) -> u64 {
        registers[self.identity].to_u64().expect("an identity is 64 bits")
    }

    /// One pass of a packet that came in through a port.
    pub(crate) fn arrive(
        &mut self,
        switch: usize,
        registers: &Registers,
        port: u16,
        frame: &[u8],
    ) -> (Registers, Passed) {
        let input =
            IngressInput { port, time_us: NOW_US, instance: Instance::Normal, preserved: false };
        let packet = self.pipeline(switch).new_packet();
        self.twice(switch, registers, packet, frame, &input)
    }

    /// Another pass.
    pub(crate) fn again(
        &mut self,
        switch: usize,
        registers: &Registers,
        waiting: &Waiting,
    ) -> (Registers, Passed) {
        let input = IngressInput {
            port: 0,
            time_us: NOW_US,
            instance: Instance::Resubmitted,
            preserved: true,
        };
        self.twice(switch, registers, waiting.packet.clone(), &waiting.frame, &input)
    }

    /// A free cell's other registers must have no effect, so their contents are no part of the state:
    /// with a free cell a pass is taken once with zeros in them and once with ones, and nothing may
    /// differ.
    fn twice(
        &mut self,
        switch: usize,
        registers: &Registers,
        packet: Packet,
        frame: &[u8],
        input: &IngressInput,
    ) -> (Registers, Passed) {
        let (after, passed) = self.pass(switch, registers, packet.clone(), frame, input);
        if self.holder(registers) == 0 {
            let (after_ones, passed_ones) = self.pass(switch, &self.dirty(), packet, frame, input);
            assert_eq!(after, after_ones, "a free cell's registers have an effect on the cell");
            let (a, b) = (format!("{passed:?}"), format!("{passed_ones:?}"));
            let same = match (&passed, &passed_ones) {
                (Passed::Out(a), Passed::Out(b)) => a == b,
                (Passed::Again(a), Passed::Again(b)) => a.name() == b.name(),
                _ => false,
            };
            assert!(same, "a free cell's registers have an effect on the packet: {a} or {b}");
        }
        (after, passed)
    }

    /// A free cell with rubbish in its other registers.
    fn dirty(&self) -> Registers {
        let externs = &self.devices[0].switch.forwarding().unwrap().pipeline().program().externs;
        let width = |id: &ExternId| match externs[id.0 as usize].type_args.first() {
            Some(scalar) => scalar.width,
            None => 1,
        };
        let ones = self.registers.iter().map(|id| Value::ones(width(id)));
        let mut dirty: Registers = ones.collect();
        dirty[self.identity] = Value::from(0_u64);
        dirty
    }

    fn pass(
        &mut self,
        switch: usize,
        registers: &Registers,
        mut packet: Packet,
        frame: &[u8],
        input: &IngressInput,
    ) -> (Registers, Passed) {
        self.load(switch, registers);
        let device = &mut self.devices[switch];
        let pipeline = device.switch.forwarding_mut().expect("it has a program").pipeline_mut();
        let ingress = pipeline.ingress(&mut packet, frame, input);
        let passed = if let Some(list) = ingress.resubmit {
            packet.preserve(list);
            Passed::Again(Box::new(Waiting { frame: frame.to_vec(), packet }))
        } else {
            let ports = match ingress.verdict {
                Verdict::Drop => Vec::new(),
                Verdict::Unicast(port) => vec![port],
                Verdict::Multicast(group) => {
                    device.groups.get(&group).cloned().expect("a group of a job")
                }
            };
            let multicast = matches!(ingress.verdict, Verdict::Multicast(_));
            let instance = if multicast { Instance::Replication } else { Instance::Normal };
            let mut out = Vec::new();
            for port in ports {
                let mut copy = pipeline.new_packet();
                copy.copy_from(&packet);
                let input = EgressInput { port, instance, ..EgressInput::default() };
                let mut frame = Vec::new();
                let egress = pipeline.egress(&mut copy, &input, &mut frame);
                assert_eq!(egress.recirculate, None, "one cell needs no walk");
                if !egress.drop {
                    out.push((port, frame));
                }
            }
            Passed::Out(out)
        };
        (self.save(switch), passed)
    }

    fn pipeline(&mut self, switch: usize) -> &mut tributary_dataplane::Pipeline {
        self.devices[switch].switch.forwarding_mut().expect("it has a program").pipeline_mut()
    }

    fn load(&mut self, switch: usize, registers: &Registers) {
        for (at, value) in registers.iter().enumerate() {
            let id = self.registers[at];
            self.pipeline(switch).register_write(id, 0, value).expect("one cell of that width");
        }
    }

    fn save(&mut self, switch: usize) -> Registers {
        let ids = self.registers.clone();
        let pipeline = self.pipeline(switch);
        let registers: Registers =
            ids.iter().map(|&id| pipeline.register_read(id, 0).expect("one cell")).collect();
        if self.holder(&registers) == 0 { self.empty() } else { registers }
    }

    /// Sends a packet through all its passes, with nothing in between.
    pub(crate) fn run(
        &mut self,
        switch: usize,
        registers: &Registers,
        port: u16,
        frame: &[u8],
    ) -> Registers {
        let (mut registers, mut passed) = self.arrive(switch, registers, port, frame);
        while let Passed::Again(waiting) = passed {
            (registers, passed) = self.again(switch, &registers, &waiting);
        }
        registers
    }

    /// Sweeps a job out of a switch.
    pub(crate) fn sweep(&mut self, switch: usize, registers: &Registers, job: JobId) -> Registers {
        let frame = sweep::frame(self.catalogue.protocol(), job, Assignment::NONE, Sequence(0));
        self.run(switch, registers, CPU_PORT, &frame)
    }

    /// What packets came to, in all passes that were taken.
    pub(crate) fn outcomes(&self, jobs: usize) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for slot in (0..jobs).map(Some).chain([None]) {
            let slot = slot.map(self::slot);
            for device in &self.devices {
                let request = Outcomes::request(&self.catalogue, slot);
                let answer = device.switch.read(&request).unwrap();
                for (outcome, count) in Outcomes::of(&self.catalogue, slot, &answer).iter() {
                    if count.packets > 0 {
                        *all.entry(outcome.name()).or_default() += count.packets;
                    }
                }
            }
        }
        all
    }
}

impl Device {
    fn new(
        forwarding: Forwarding,
        catalogue: &Catalogue,
        scenario: &Scenario,
        id: SwitchId,
    ) -> Self {
        let topology = &scenario.topology;
        let ports = topology.ports(id).map(|(port, ..)| port).collect();
        let config = SwitchConfig { device_id: id.0 as u64 + 1, ports, ..SwitchConfig::default() };
        let mut switch = Switch::new(config);
        switch.commit(forwarding);
        let mut groups = BTreeMap::new();
        let mut entities = entries::forwarding(catalogue, &plan::forwarding(topology)[id.0]);
        for (index, job) in scenario.jobs.iter().enumerate() {
            for part in plan::job(topology, &job.into()) {
                if part.switch == id {
                    entities.extend(entries::job(catalogue, &part, job.id, slot(index)));
                    let group = u16::try_from(slot(index).group()).unwrap();
                    groups.insert(group, part.group().collect());
                }
            }
        }
        for result in switch.write(&entries::insert(entities)).unwrap() {
            result.unwrap();
        }
        Self { switch, groups }
    }
}

fn slot(job: usize) -> JobSlot {
    u8::try_from(job + 1).ok().and_then(JobSlot::new).expect("a job")
}
