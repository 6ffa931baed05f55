//! The path of packets through v1model: parser, ingress, copies, egress, deparser.

use std::collections::{BTreeSet, VecDeque};

use tributary_p4::ir::{Block, FieldId, FieldRole, Stmt};

use crate::testgen::case::{COPY_RID, Case, DROP_PORT};
use crate::testgen::circuit::{FALSE, Word, of_number};
use crate::testgen::goals::Instrumented;
use crate::testgen::machine::{ALWAYS, Machine, Requests, Trace, mix};

/// Passes of one packet and its copies.
pub(crate) const MOST_PASSES: usize = 40;

/// The values of `instance_type`.
const INGRESS_CLONE: u64 = 1;
const EGRESS_CLONE: u64 = 2;
const RECIRCULATED: u64 = 4;
const REPLICATED: u64 = 5;
const RESUBMITTED: u64 = 6;

/// What waits for a pass.
enum Pass {
    Ingress { frame: Word, instance: u64, kept: Vec<(FieldId, Word)> },
    Egress(Box<Queued>),
}

/// A packet in a queue.
struct Queued {
    fields: Vec<Word>,
    payload: Word,
    port: Word,
    rid: u64,
    instance: u64,
    length: usize,
    /// What ingress requested for the end of egress.
    requests: Requests,
}

/// Executes a test. With `presets`, what registers hold at first, and the colours of meters, are inputs.
pub(crate) fn run(of: &Instrumented, case: &Case, presets: bool) -> Trace {
    let mut machine = Machine::new(of, case, presets);
    for number in 0..case.packets.len() {
        machine.packet = number;
        machine.trace.consumed.push(BTreeSet::new());
        machine.trace.outputs.push(Vec::new());
        machine.packet();
    }
    machine.trace.circuit.seal();
    machine.trace
}

impl Machine<'_> {
    fn packet(&mut self) {
        let (port, frame) = self.trace.inputs.packets[self.packet].clone();
        let seed = self.packet as u64;
        self.history = self.trace.goals.iter().fold(seed, |hash, &goal| mix(hash ^ goal as u64));
        self.written_cells.extend(self.registers.keys().map(|(_, cell)| *cell));
        self.accessed.clear();
        let drop = self.trace.circuit.all(&port);
        self.fork(drop, [None, None], ALWAYS);
        if self.is_tna {
            return self.tna_packet(port, frame);
        }
        let mut waiting = VecDeque::new();
        waiting.push_back(Pass::Ingress { frame, instance: 0, kept: Vec::new() });
        let mut passes = 0;
        while let Some(pass) = waiting.pop_front() {
            passes += 1;
            if passes > MOST_PASSES || self.trace.endless {
                self.trace.endless = true;
                return;
            }
            match pass {
                Pass::Ingress { frame, instance, kept } => {
                    self.ingress(&port, frame, instance, kept, &mut waiting);
                }
                Pass::Egress(queued) => self.egress(*queued, &mut waiting),
            }
        }
    }

    pub(crate) fn control(&mut self, role: &str) {
        let program = self.program;
        let Some(Block::Control(id)) = program.block(role) else { return };
        let body: &[Stmt] = &program.controls[id.index()].body;
        self.statements(body);
    }

    /// Forgets everything about the packet before.
    pub(crate) fn reset(&mut self) {
        let fields = self.program.fields.iter();
        self.fields = fields.map(|field| vec![FALSE; field.ty.width as usize]).collect();
    }

    fn ingress(
        &mut self,
        port: &Word,
        frame: Word,
        instance: u64,
        kept: Vec<(FieldId, Word)>,
        waiting: &mut VecDeque<Pass>,
    ) {
        self.is_original = instance != RECIRCULATED;
        self.context = mix(self.history ^ instance << 32);
        self.requests = Requests::default();
        let length = frame.len() / 8;
        // The parser sees the metadata, so the order matters.
        self.reset();
        if instance == 0 {
            self.set_intrinsic("ingress_port", port);
            let time = self.time(48, 1);
            self.set_intrinsic("ingress_global_timestamp", &time);
        }
        for (field, value) in kept {
            self.set(field, &value);
        }
        self.set_intrinsic("instance_type", &of_number(instance, 32));
        self.set_intrinsic("packet_length", &of_number(length as u64, 32));
        self.run_parser(frame.clone());
        self.control("vr");
        self.control("ig");
        if self.requests.failed {
            return;
        }
        if let Some((session, list)) = self.requests.clone.take() {
            let kept = self.values(&list);
            let saved = (std::mem::take(&mut self.fields), self.payload.clone());
            self.reset();
            self.set_intrinsic("ingress_port", port);
            self.run_parser(frame.clone());
            self.clone_to(session, kept, INGRESS_CLONE, length, waiting);
            (self.fields, self.payload) = saved;
        }
        if let Some(list) = self.requests.resubmit.take() {
            let kept = self.values(&list);
            waiting.push_front(Pass::Ingress { frame, instance: RESUBMITTED, kept });
            return;
        }
        let group = self.intrinsic("mcast_grp", 16);
        let group_bits = self.trace.circuit.any(&group);
        if self.fork(group_bits, [None, None], 0x3ca5) {
            let group = self.pin_number(&group, 0x3ca6);
            self.trace.groups.insert(group);
            for port in Case::group_ports() {
                let port = of_number(port.into(), 9);
                self.queue(port, COPY_RID, REPLICATED, length, waiting);
            }
            return;
        }
        let spec = self.intrinsic("egress_spec", 9);
        let dropped = self.trace.circuit.all(&spec);
        if !self.fork(dropped, [None, None], 0xd20c) {
            self.queue(spec, 0, 0, length, waiting);
        }
    }

    fn run_parser(&mut self, frame: Word) {
        let program = self.program;
        self.frame = frame;
        self.at = 0;
        if let Some(Block::Parser(id)) = program.block("p")
            && let Some(error) = self.parse(&program.parsers[id.index()])
        {
            self.set_intrinsic("parser_error", &error);
        }
        self.payload = self.frame[self.at..].to_vec();
    }

    pub(crate) fn intrinsic(&self, name: &str, width: usize) -> Word {
        match self.program.intrinsic_field(name) {
            Some(field) => self.field(field).clone(),
            None => vec![FALSE; width],
        }
    }

    fn values(&self, list: &[FieldId]) -> Vec<(FieldId, Word)> {
        list.iter().map(|&field| (field, self.field(field).clone())).collect()
    }

    fn queue(
        &mut self,
        port: Word,
        rid: u64,
        instance: u64,
        length: usize,
        waiting: &mut VecDeque<Pass>,
    ) {
        let (fields, payload) = (self.fields.clone(), self.payload.clone());
        // Requests apply to the packet itself, not to copies.
        let requests =
            if instance == 0 { std::mem::take(&mut self.requests) } else { Requests::default() };
        let queued = Queued { fields, payload, port, rid, instance, length, requests };
        waiting.push_back(Pass::Egress(Box::new(queued)));
    }

    /// Queues a clone: the current headers with only the kept metadata.
    fn clone_to(
        &mut self,
        session: u64,
        kept: Vec<(FieldId, Word)>,
        instance: u64,
        length: usize,
        waiting: &mut VecDeque<Pass>,
    ) {
        self.trace.sessions.insert(session);
        for (field, value) in kept {
            self.set(field, &value);
        }
        let port = of_number(Case::session_port().into(), 9);
        self.queue(port, 0, instance, length, waiting);
    }

    fn egress(&mut self, queued: Queued, waiting: &mut VecDeque<Pass>) {
        let Queued { fields, payload, port, rid, instance, length, requests } = queued;
        (self.fields, self.payload, self.requests) = (fields, payload, requests);
        for (name, width) in [("enq_qdepth", 19), ("deq_qdepth", 19), ("deq_timedelta", 32)] {
            if self.program.intrinsic_field(name).is_some() {
                let value = self.unknown(width);
                self.set_intrinsic(name, &value);
            }
        }
        for (name, width) in [("egress_global_timestamp", 48), ("enq_timestamp", 32)] {
            if self.program.intrinsic_field(name).is_some() {
                let value = self.time(width, 1);
                self.set_intrinsic(name, &value);
            }
        }
        self.set_intrinsic("egress_port", &port);
        if instance != 0 {
            self.set_intrinsic("egress_rid", &of_number(rid, 16));
        }
        self.set_intrinsic("instance_type", &of_number(instance, 32));
        self.set_intrinsic("egress_spec", &of_number(DROP_PORT + 1, 9));
        self.set_intrinsic("packet_length", &of_number(length as u64, 32));
        self.control("eg");
        if self.requests.failed {
            return;
        }
        if let Some((session, list)) = self.requests.clone.take() {
            let kept = self.values(&list);
            let saved = self.fields.clone();
            let metadata = (0..).map(FieldId).zip(&self.program.fields).filter(|(_, field)| {
                !matches!(field.role, FieldRole::Header(_) | FieldRole::Validity(_))
            });
            for field in metadata.map(|(id, _)| id).collect::<Vec<_>>() {
                self.zero(field);
            }
            self.clone_to(session, kept, EGRESS_CLONE, length, waiting);
            self.fields = saved;
        }
        let spec = self.intrinsic("egress_spec", 9);
        let dropped = self.trace.circuit.all(&spec);
        if self.fork(dropped, [None, None], 0xd20d) {
            return;
        }
        self.control("ck");
        self.out.clear();
        self.control("dep");
        if self.requests.failed {
            return;
        }
        let mut frame = std::mem::take(&mut self.out);
        frame.extend_from_slice(&self.payload);
        if let Some(list) = self.requests.recirculate.take() {
            let kept = self.values(&list);
            waiting.push_back(Pass::Ingress { frame, instance: RECIRCULATED, kept });
            return;
        }
        if let Some(bytes) = self.requests.truncate {
            frame.truncate(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(8));
        }
        let port = self.pin_number(&port, mix(0x9027));
        self.trace.outputs[self.packet].push((port, frame));
    }
}
