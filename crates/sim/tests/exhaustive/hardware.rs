//! The switches: the P4 program in the dataplane, pass by pass.
//!
//! One instance of each switch runs all passes: before a pass the registers are set to the values
//! in the searched state, and afterwards they are read. Data that a packet keeps over a resubmit is
//! stored with the packet, so that other packets can pass between its passes.

use std::collections::BTreeMap;
use std::ops::Range;

use tributary_controller::entries::{self, JobSlot};
use tributary_controller::outcomes::Outcomes;
use tributary_controller::programs::{self, Source};
use tributary_controller::{Catalogue, sweep};
use tributary_dataplane::{EgressInput, IngressInput, Instance, Packet, Value, Verdict};
use tributary_model::{Scenario, SwitchId, plan, plan::Placement};
use tributary_p4::ir::ExternId;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_protocol::Assignment;
use tributary_switch::{Forwarding, Switch, SwitchConfig};
use tributary_wire::agg::Packet as Header;
use tributary_wire::{Bitmap, JobId, Kind, Round, Run, Sequence};

const CPU_PORT: u16 = 510;
/// The constant time of all switches: the program does not use it.
const NOW_US: u64 = 1_000_000;

/// All registers of a switch: those of the first cell in the program's order, then those of the
/// next.
pub(crate) type Registers = Vec<Value>;

/// A packet that waits for another pass.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) frame: Vec<u8>,
    packet: Packet,
    /// Whether it was resubmitted or, in a sweep, recirculated.
    instance: Instance,
}

impl Waiting {
    /// Packets with the same name are equal: parser and ingress start again with the frame and the
    /// preserved data.
    pub(crate) fn name(&self) -> String {
        let debug = format!("{:?}", self.packet);
        let preserved = debug.split("preserved: ").nth(1).expect("the storage's text has it");
        format!("{:?} {preserved}", self.frame)
    }
}

/// The result of a pass.
#[derive(Clone, Debug)]
pub(crate) enum Passed {
    /// The packet left by these ports.
    Out(Vec<(u16, Vec<u8>)>),
    /// The packet needs another pass.
    Again(Box<Waiting>),
}

/// A switch with the entries of all jobs.
#[derive(Debug)]
struct Device {
    switch: Switch,
    groups: BTreeMap<u16, Vec<(u16, u8)>>,
}

/// All switches.
#[derive(Debug)]
pub(crate) struct Hardware {
    /// By stage, then by switch.
    devices: Vec<Device>,
    switches: usize,
    catalogue: Catalogue,
    /// The IDs of all registers in the program.
    registers: Vec<ExternId>,
    memory: Memory,
    cells: usize,
    /// The assignment of each job.
    assignments: BTreeMap<JobId, Assignment>,
}

/// The registers of a cell that determine which others have an effect, by index.
#[derive(Clone, Debug)]
enum Memory {
    /// ATP, ESA: the task that holds the cell; without one, no other register has an effect.
    Identity(usize),
    /// P4INC, SwitchML: the round, and the workers whose contributions it lacks.
    Rounds {
        rounds: usize,
        /// P4INC: the round of the copy; without one, the copy has no effect.
        copied: Option<usize>,
        /// The copy, and its flags.
        copies: Vec<usize>,
    },
}

impl Hardware {
    /// Each stage has the entries of the jobs with these indices in the scenario.
    pub(crate) fn new(
        source: &Source,
        scenario: &Scenario,
        assignments: &BTreeMap<JobId, Assignment>,
        stages: &[Range<usize>],
    ) -> Self {
        let compiled = programs::compile(source, &programs::defines(&scenario.network.switch))
            .unwrap_or_else(|error| panic!("{error}"));
        let program = &compiled.program;
        let catalogue = Catalogue::new(&compiled.pipeline.p4info).unwrap();
        let externs = program.externs.iter().enumerate();
        let registers: Vec<(usize, &str)> = externs
            .filter(|(_, instance)| instance.type_name == "register")
            .map(|(number, instance)| (number, instance.name.as_str()))
            .collect();
        let at = |end: &str| registers.iter().position(|(_, name)| name.ends_with(end));
        let memory = match at("identity.tasks") {
            Some(identity) => Memory::Identity(identity),
            None => Memory::Rounds {
                rounds: at("rounds.rounds").expect("the program keeps tasks or rounds"),
                copied: at("copied.copied"),
                copies: (0..registers.len())
                    .filter(|&at| registers[at].1.contains(".copies."))
                    .collect(),
            },
        };
        let of_stage = |stage: &Range<usize>| {
            let stage = stage.clone();
            scenario.network.topology.switch_ids().map(move |id| (stage.clone(), id))
        };
        let devices = stages
            .iter()
            .flat_map(of_stage)
            .map(|(stage, id)| {
                let info: P4Info = compiled.pipeline.p4info.clone();
                let config = ForwardingPipelineConfig {
                    p4info: Some(info),
                    p4_device_config: compiled.pipeline.device_config.clone(),
                    cookie: None,
                };
                let forwarding = Forwarding::load(program.clone(), config).unwrap();
                Device::new(forwarding, &catalogue, scenario, assignments, (stage, id))
            })
            .collect();
        Self {
            devices,
            switches: scenario.network.topology.switches.len(),
            catalogue,
            registers: registers
                .iter()
                .map(|(number, _)| ExternId(u32::try_from(*number).unwrap()))
                .collect(),
            memory,
            cells: scenario.network.switch.pool as usize,
            assignments: assignments.clone(),
        }
    }

    pub(crate) fn switches(&self) -> usize {
        self.switches
    }

    /// The number of a switch in a stage, as the other methods take it.
    pub(crate) fn at(&self, stage: usize, switch: usize) -> usize {
        stage * self.switches + switch
    }

    /// The registers of an unused switch.
    pub(crate) fn empty(&self) -> Registers {
        vec![Value::from(0_u64); self.cells * self.registers.len()]
    }

    /// ESA: the holder of the cell; zero if it is free, and if cells have no holders.
    pub(crate) fn holder(&self, registers: &Registers) -> u64 {
        match self.memory {
            Memory::Identity(identity) => number(&registers[identity]),
            Memory::Rounds { .. } => 0,
        }
    }

    /// P4INC, SwitchML: a cell's round and the workers that it lacks, and the round of its copy.
    fn rounds(
        &self,
        registers: &Registers,
        cell: usize,
    ) -> Option<(Sequence, Bitmap, Option<Sequence>)> {
        let Memory::Rounds { rounds, copied, .. } = self.memory else { return None };
        let at = |register| number(&registers[cell * self.registers.len() + register]);
        // Plus one, because zero is a cell that was never used.
        let sequence = |number: u64| (number as u32).checked_sub(1).map(Sequence);
        let missing = Bitmap(at(rounds) as u32);
        let copied = copied.and_then(|copied| sequence(at(copied)));
        Some((sequence(at(rounds) >> 32)?, missing, copied))
    }

    /// P4INC, SwitchML: whether a packet is a gradient of a past round of its cell. If it has no
    /// effect now, it never will: cells and their copies only advance.
    pub(crate) fn is_behind(&self, registers: &Registers, frame: &[u8]) -> bool {
        let Ok(packet) = Header::new_checked(frame) else { return false };
        let cell = self.rounds(registers, packet.index().0 as usize);
        packet.kind() == Kind::Gradient && cell.is_some_and(|(at, ..)| packet.sequence() < at)
    }

    /// Describes all cells.
    pub(crate) fn words(&self, registers: &Registers) -> String {
        if let Memory::Identity(_) = self.memory {
            return match self.holder(registers) {
                0 => "[free]".into(),
                holder => format!("[run {} seq {}]", holder >> 32, holder as u32),
            };
        }
        let cell = |cell| match self.rounds(registers, cell) {
            None => "[new]".into(),
            Some((at, missing, copied)) => {
                let copied = copied.map(|copied| format!(", copy of {}", Round::of(copied)));
                let copied = copied.unwrap_or_default();
                format!("[{} without {:b}{copied}]", Round::of(at), missing.0)
            }
        };
        (0..self.cells).map(cell).collect()
    }

    /// The first pass of a packet that arrived on a port.
    pub(crate) fn arrive(
        &mut self,
        switch: usize,
        registers: &Registers,
        port: u16,
        frame: &[u8],
    ) -> (Registers, Passed) {
        let input = IngressInput { port, time_us: NOW_US, instance: Instance::Normal };
        let packet = self.pipeline(switch).new_packet();
        self.twice(switch, registers, packet, frame, &input)
    }

    /// A further pass.
    pub(crate) fn again(
        &mut self,
        switch: usize,
        registers: &Registers,
        waiting: &Waiting,
    ) -> (Registers, Passed) {
        let instance = waiting.instance;
        let input = IngressInput { port: 0, time_us: NOW_US, instance };
        self.twice(switch, registers, waiting.packet.clone(), &waiting.frame, &input)
    }

    /// Registers that are [`dead`](Self::dead) must have no effect: if there are any, a pass is
    /// repeated with ones in place of zeros, and the results must be equal.
    fn twice(
        &mut self,
        switch: usize,
        registers: &Registers,
        packet: Packet,
        frame: &[u8],
        input: &IngressInput,
    ) -> (Registers, Passed) {
        let (after, passed) = self.pass(switch, registers, packet.clone(), frame, input);
        let dirty = self.dirty(registers);
        if dirty != *registers {
            let (after_ones, passed_ones) = self.pass(switch, &dirty, packet, frame, input);
            assert_eq!(after, after_ones, "dead registers have an effect on the cell");
            let (a, b) = (format!("{passed:?}"), format!("{passed_ones:?}"));
            let same = match (&passed, &passed_ones) {
                (Passed::Out(a), Passed::Out(b)) => a == b,
                (Passed::Again(a), Passed::Again(b)) => a.name() == b.name(),
                _ => false,
            };
            assert!(same, "dead registers have an effect on the packet: {a} or {b}");
        }
        (after, passed)
    }

    /// Registers that have no effect, whatever they hold.
    ///
    /// With ESA, those of a free cell. With SwitchML, those of a cell that was never used. With
    /// P4INC, the sum of a finished round with a copy, and the copy if it is of no round.
    fn dead(&self, registers: &Registers) -> Vec<usize> {
        let per_cell = self.registers.len();
        let mut dead = Vec::new();
        for first in (0..self.cells).map(|cell| cell * per_cell) {
            let at = |register: usize| number(&registers[first + register]);
            let of_cell = 0..per_cell;
            match &self.memory {
                Memory::Identity(identity) if at(*identity) == 0 => {
                    dead.extend(of_cell.map(|register| first + register));
                }
                Memory::Identity(_) => {}
                Memory::Rounds { rounds, copied: None, .. } => {
                    let used = at(*rounds) != 0;
                    dead.extend(of_cell.filter(|_| !used).map(|register| first + register));
                }
                Memory::Rounds { rounds, copied: Some(copied), copies } => {
                    let (over, copy) = (at(*rounds) as u32 == 0, at(*copied) != 0);
                    let is_dead = |register: &usize| match copies.contains(register) {
                        true => !copy,
                        false => over && register != rounds && register != copied,
                    };
                    dead.extend(of_cell.filter(is_dead).map(|register| first + register));
                }
            }
        }
        dead
    }

    /// The same registers with ones in all dead registers but those that determine which are dead.
    fn dirty(&self, registers: &Registers) -> Registers {
        let externs = &self.devices[0].switch.forwarding().unwrap().pipeline().program().externs;
        let width = |id: ExternId| match externs[id.0 as usize].type_args.first() {
            Some(scalar) => scalar.width,
            None => 1,
        };
        let mut dirty = registers.clone();
        for at in self.dead(registers) {
            let register = at % self.registers.len();
            let says = match self.memory {
                Memory::Identity(identity) => identity,
                Memory::Rounds { rounds, .. } => rounds,
            };
            if register != says {
                dirty[at] = Value::ones(width(self.registers[register]));
            }
        }
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
        let passed = if ingress.resubmit {
            let instance = Instance::Resubmitted;
            Passed::Again(Box::new(Waiting { frame: frame.to_vec(), packet, instance }))
        } else {
            let ports = match ingress.verdict {
                Verdict::Drop => Vec::new(),
                Verdict::Unicast(port) => vec![(port, 0)],
                Verdict::Multicast(group) => {
                    device.groups.get(&group).cloned().expect("a group of a job")
                }
                Verdict::Replicate(_) => unreachable!("the program is of v1model"),
                Verdict::Elsewhere(_) => unreachable!("the pipeline is not divided"),
            };
            let multicast = matches!(ingress.verdict, Verdict::Multicast(_));
            let instance = if multicast { Instance::Replication } else { Instance::Normal };
            let mut out = Vec::new();
            let mut around = None;
            for (port, number) in ports {
                let mut copy = pipeline.new_packet();
                copy.copy_from(&packet);
                let rid = number.into();
                let input = EgressInput { port, rid, instance, ..EgressInput::default() };
                let mut frame = Vec::new();
                let egress = pipeline.egress(&mut copy, &input, &mut frame);
                if egress.recirculate {
                    let instance = Instance::Recirculated;
                    around = Some(Waiting { frame, packet: copy, instance });
                } else if !egress.drop {
                    out.push((port, frame));
                }
            }
            match around {
                // Only sweeps recirculate, and without other packets.
                Some(waiting) => Passed::Again(Box::new(waiting)),
                None => Passed::Out(out),
            }
        };
        (self.save(switch), passed)
    }

    fn pipeline(&mut self, switch: usize) -> &mut tributary_dataplane::Pipeline {
        self.devices[switch].switch.forwarding_mut().expect("it has a program").pipeline_mut()
    }

    fn load(&mut self, switch: usize, registers: &Registers) {
        let ids = self.registers.clone();
        let pipeline = self.pipeline(switch);
        for (cell, values) in (0..).zip(registers.chunks(ids.len())) {
            for (id, value) in ids.iter().zip(values) {
                pipeline.register_write(*id, cell, value).expect("a cell of that width");
            }
        }
    }

    fn save(&mut self, switch: usize) -> Registers {
        let (ids, cells) = (self.registers.clone(), self.cells as u64);
        let pipeline = self.pipeline(switch);
        let cell = |cell| {
            let pipeline = &pipeline;
            ids.iter().map(move |&id| pipeline.register_read(id, cell).expect("it is there"))
        };
        let mut registers: Registers = (0..cells).flat_map(cell).collect();
        for dead in self.dead(&registers) {
            registers[dead] = Value::from(0_u64);
        }
        registers
    }

    /// Runs all passes of a packet without others in between.
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
    pub(crate) fn sweep(&mut self, switch: usize, registers: &Registers, run: Run) -> Registers {
        let assignment = self.assignments[&run.job];
        let frame = sweep::frame(self.catalogue.protocol(), run, assignment, Sequence(0));
        self.run(switch, registers, CPU_PORT, &frame)
    }

    /// Outcomes of packets in all passes so far.
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
        assignments: &BTreeMap<JobId, Assignment>,
        (stage, id): (Range<usize>, SwitchId),
    ) -> Self {
        let topology = &scenario.network.topology;
        let ports = topology.ports(id).map(|(port, ..)| port).collect();
        let config = SwitchConfig { device_id: id.0 as u64 + 1, ports, ..SwitchConfig::default() };
        let mut switch = Switch::new(config);
        switch.commit(forwarding);
        let mut groups = BTreeMap::new();
        let mut entities = entries::forwarding(catalogue, &plan::forwarding(topology)[id.0]);
        for (index, job) in scenario.jobs.iter().enumerate().filter(|(at, _)| stage.contains(at)) {
            for part in
                plan::job(topology, &Placement::unassigned(job).assigned(assignments[&job.id]))
            {
                if part.switch == id {
                    entities.extend(entries::job(catalogue, &part, job.run(), slot(index)));
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

fn number(value: &Value) -> u64 {
    value.to_u64().expect("at most 64 bits")
}

fn slot(job: usize) -> JobSlot {
    u8::try_from(job + 1).ok().and_then(JobSlot::new).expect("a job")
}
