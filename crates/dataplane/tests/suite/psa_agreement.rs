//! Interpreter and machine code agree on random PSA programs with random packets and entries, pass by
//! pass; so do they if packets are observed.
//!
//! `TRIBUTARY_AGREEMENT_CASES` sets the number of programs; `TRIBUTARY_AGREEMENT_SEED` repeats one
//! program by the seed in a failure's message.

use std::collections::VecDeque;
use std::fmt::Write as _;

use tributary_dataplane::trace::{Event, Observer};
use tributary_dataplane::{
    Action, ActionCall, EgressInput, EngineKind, GroupMember, IngressInput, Instance, KeyMatch,
    MeterConfig, PSA_RECIRCULATION_PORT, Packet, Pipeline, ProfileGroup, TableEntry, Value,
    Verdict,
};
use tributary_p4::ir::{ExternId, Program};

use crate::agreement::{Random, number};
use crate::suite::common::atp::{call, table};
use crate::suite::psa::source;

const CASES: u64 = 40;
const FRAMES: usize = 60;
/// Passes of one frame and its copies.
const PASSES: usize = 24;

/// Statements of Ingress; `$` is a random byte.
const INGRESS: &[&str] = &[
    "route.apply();",
    "if (route.apply().hit) { hdr.h.a = hdr.h.a + 1; }",
    "spread.apply();",
    "switch (spread.apply().action_run) { empty: { hdr.h.b = $; } default: { hdr.h.a = 7; } }",
    "send_to_port(ostd, (PortId_t) ((bit<32>) hdr.h.a & 7));",
    "multicast(ostd, (MulticastGroup_t) ((bit<32>) hdr.h.b & 3));",
    "ingress_drop(ostd);",
    "if (hdr.h.a > $) { ingress_drop(ostd); }",
    "ostd.resubmit = passes.read(hdr.h.op) < 3; passes.write(hdr.h.op, passes.read(hdr.h.op) + 1);",
    "if (hdr.h.op[0:0] == 1) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }",
    "ostd.clone = hdr.h.b[1:1] == 1; ostd.clone_session_id = (CloneSessionId_t) hdr.h.b;",
    "ostd.class_of_service = (ClassOfService_t) hdr.h.a;",
    "cells.write(hdr.h.a & 31, cells.read(hdr.h.a & 31) + hdr.h.c);",
    "hdr.h.c = cells.read(hdr.h.a[3:0] ++ hdr.h.op[3:0]);",
    "counts.count(hdr.h.op & 15);",
    "hdr.h.b = hash.get_hash({ hdr.h.c, meta.x, hdr.h.op[2:0] });",
    "hdr.h.c = wide.get_hash(32w5, hdr.h, 32w$);",
    "color = rates.execute(hdr.h.a & 7);",
    "color = rates.execute(hdr.h.a & 3, color);",
    "if (color == PSA_MeterColor_t.RED) { hdr.h.b = hdr.h.b ^ $; }",
    "if (istd.parser_error != error.NoError) { hdr.h.a = $; }",
    "if (istd.packet_path == PSA_PacketPath_t.RECIRCULATE) { meta.y = meta.y + $; }",
    "meta.x = meta.x ^ (bit<32>) (PortIdUint_t) istd.ingress_port ^ (bit<32>) (TimestampUint_t) istd.ingress_timestamp;",
    "hdr.other.setValid(); hdr.other = { hdr.h.op, meta.y, $, meta.x };",
    "hdr.other.setInvalid();",
    "meta.learn = hdr.h.a < $;",
    "if (hdr.h.c == $) { exit; }",
    "assert(hdr.h.b != $);",
];

/// Statements of the ingress deparser.
const DEPARSER: &[&str] = &[
    "normal.word = meta.x ^ hdr.h.c; normal.byte = meta.y; normal.flag = meta.learn;",
    "if (psa_normal(istd)) { normal.word = meta.x; normal.byte = $; }",
    "if (psa_clone_i2e(istd)) { i2e.word = hdr.h.c; i2e.byte = meta.y; i2e.flag = true; }",
    "if (psa_resubmit(istd)) { again.word = meta.x + 1; again.byte = meta.y + $; }",
    "if (meta.learn) { learned.pack({ hdr.h.b, istd.egress_port }); }",
    "sum.add({ hdr.h.b, hdr.h.c }); sum.subtract({ hdr.h.op, hdr.h.a }); hdr.h.b = sum.get();",
    "sum.set_state(hdr.h.b); sum.add(hdr.h.c); hdr.h.b = sum.get_state();",
    "crc.update(hdr.h.c); crc.update({ hdr.h.op, hdr.h.a }); hdr.h.c = crc.get();",
    "sum.clear(); crc.clear();",
];

/// Statements of Egress.
const EGRESS: &[&str] = &[
    "hdr.h.c = meta.x; hdr.h.a = meta.y;",
    "hdr.h.b = (bit<16>) (EgressInstanceUint_t) istd.instance ^ hdr.h.b;",
    "hdr.h.op = (bit<8>) (ClassOfServiceUint_t) istd.class_of_service;",
    "sent.count(hdr.h.a & 7);",
    "sums.write(hdr.h.a & 15, sums.read(hdr.h.a & 15) + meta.x);",
    "if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) { hdr.h.a = $; }",
    "if (istd.packet_path != PSA_PacketPath_t.CLONE_E2E && hdr.h.b[2:2] == 1) {
        ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 9; }",
    "if (hdr.h.a[1:0] == 3) { egress_drop(ostd); }",
    "if (istd.parser_error == error.PacketTooShort) { hdr.h.setValid(); hdr.h.a = $; }",
    "if (meta.learn) { hdr.h.c = hdr.h.c + 1; }",
];

/// Statements of the egress deparser.
const EGRESS_DEPARSER: &[&str] = &[
    "if (psa_clone_e2e(istd)) { e2e.word = hdr.h.c; e2e.byte = $; }",
    "if (psa_recirculate(istd, edstd)) { around.word = hdr.h.c; around.byte = hdr.h.a; around.flag = meta.learn; }",
    "if (hdr.h.a[3:3] == 1) { gone.pack({ hdr.h.b, edstd.egress_port }); }",
    "hdr.h.op = hdr.h.op + 1;",
];

fn body(random: &mut Random, from: &[&str], most: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most) {
        let statement = random.pick(from).replace('$', &random.below(200).to_string());
        let _ = match random.below(5) {
            0 => writeln!(text, "if (hdr.h.b > {}) {{ {statement} }}", random.below(65_536)),
            _ => writeln!(text, "{statement}"),
        };
    }
    text
}

/// An action selector or another extern, by the end of its name.
fn instance(program: &Program, name: &str) -> ExternId {
    let found = program.externs.iter().position(|e| e.name.ends_with(name));
    ExternId(found.unwrap_or_else(|| panic!("no extern {name}")) as u32)
}

/// Adds random entries, members, groups and rates; the same for the same seed.
fn configure(pipeline: &mut Pipeline, mut random: Random) {
    let program = pipeline.program().clone();
    let used = |name: &str| program.tables.iter().any(|table| table.name.ends_with(name));
    if used(".route") {
        let route = table(&program, ".route");
        for priority in 1..8 {
            let ternary = |random: &mut Random, bits: u64| KeyMatch::Ternary {
                value: Value::from(0u64),
                mask: Value::from(random.next() & random.next() & bits),
            };
            let matches = vec![ternary(&mut random, 0xff), ternary(&mut random, 0xffff)];
            let action = match random.below(4) {
                0 => call(&program, route, ".replicate", &[random.next() & 3]),
                1 => call(&program, route, ".discard", &[]),
                _ => call(&program, route, ".forward", &[random.next() & 7, random.next() & 0xff]),
            };
            // Equal masks at equal priorities do not occur; equal entries do.
            let _ = pipeline.insert(route, TableEntry::new(matches, priority, action));
        }
    }
    if used(".spread") {
        let spread = table(&program, ".spread");
        let members = instance(&program, ".members");
        let profile = pipeline.profile_mut(members).expect("a selector");
        for id in 0..4 {
            let action: ActionCall = match random.below(3) {
                0 => call(&program, spread, ".empty", &[random.next() & 0xff]),
                _ => call(&program, spread, ".forward_plain", &[random.next() & 7]),
            };
            profile.member_insert(id, action).unwrap();
        }
        for id in 0..3 {
            let weight = |member| GroupMember { member, weight: 1 + member % 2, watch: None };
            let members = (0..random.below(4) as u32).map(weight).collect();
            profile.group_insert(id, ProfileGroup { members, max_size: 0 }).unwrap();
        }
        for key in 0..16u64 {
            let matches = vec![KeyMatch::Exact(Value::from(key))];
            let action = Action::Group(random.below(3) as u32);
            let entry = TableEntry { matches, priority: 0, action, idle_timeout_us: 0 };
            pipeline.insert(spread, entry).unwrap();
        }
    }
    let rates = instance(&program, ".rates");
    for index in 0..4 {
        let cir = random.next() % 1000;
        let pir = cir + random.next() % 2000;
        let config = MeterConfig { cir, cburst: 60, pir, pburst: 120 };
        pipeline.set_meter_config(rates, index, Some(config)).unwrap();
    }
}

/// An observer that changes nothing.
struct Silent(usize);

impl Observer for Silent {
    fn event(&mut self, _: Event) {
        self.0 += 1;
    }
}

/// A packet that waits for a pass.
enum Waiting {
    Ingress(Packet, Vec<u8>, IngressInput),
    Egress(Packet, EgressInput),
}

/// What becomes of a frame: all passes of the packet and its copies.
fn passes(pipeline: &mut Pipeline, frame: &[u8], time_us: u64, observed: bool) -> String {
    let mut text = String::new();
    let mut silent = Silent(0);
    let input = IngressInput { port: 3, time_us, instance: Instance::Normal };
    let mut waiting = VecDeque::new();
    waiting.push_back(Waiting::Ingress(pipeline.new_packet(), frame.to_vec(), input));
    for _ in 0..PASSES {
        let Some(next) = waiting.pop_front() else { break };
        match next {
            Waiting::Ingress(mut packet, frame, input) => {
                let outcome = match observed {
                    true => pipeline.ingress_observed(&mut packet, &frame, &input, &mut silent),
                    false => pipeline.ingress(&mut packet, &frame, &input),
                };
                let (clone, digest) = (packet.clone_session(), packet.digest());
                let _ = writeln!(text, "{outcome:?} {clone:?} {digest:?} {}", packet.length());
                if clone.is_some() {
                    let mut copy = pipeline.new_packet();
                    pipeline.clone_of_ingress(&mut copy, &packet, &frame, &input);
                    copy.set_class_of_service(5);
                    let instance = Instance::IngressClone;
                    let to =
                        EgressInput { port: 6, rid: 2, instance, time_us, ..Default::default() };
                    waiting.push_back(Waiting::Egress(copy, to));
                }
                if outcome.resubmit {
                    let input = pipeline.next_pass(&input, Instance::Resubmitted);
                    waiting.push_front(Waiting::Ingress(packet, frame, input));
                    continue;
                }
                match outcome.verdict {
                    Verdict::Unicast(port) => {
                        let to = EgressInput { port, time_us, ..Default::default() };
                        waiting.push_back(Waiting::Egress(packet, to));
                    }
                    Verdict::Multicast(group) => {
                        for rid in 0..2 {
                            let mut copy = pipeline.new_packet();
                            copy.copy_from(&packet);
                            let instance = Instance::Replication;
                            let port = group + rid;
                            let to =
                                EgressInput { port, rid, instance, time_us, ..Default::default() };
                            waiting.push_back(Waiting::Egress(copy, to));
                        }
                    }
                    _ => {}
                }
            }
            Waiting::Egress(mut packet, input) => {
                let mut out = Vec::new();
                let outcome = match observed {
                    true => pipeline.egress_observed(&mut packet, &input, &mut out, &mut silent),
                    false => pipeline.egress(&mut packet, &input, &mut out),
                };
                let (clone, digest) = (packet.clone_session(), packet.digest());
                let _ = writeln!(text, "{outcome:?} {clone:?} {digest:?} {out:x?}");
                if clone.is_some() {
                    let mut copy = pipeline.new_packet();
                    pipeline.clone_of_egress(&mut copy, &packet);
                    let instance = Instance::EgressClone;
                    let to =
                        EgressInput { port: 7, rid: 1, instance, time_us, ..Default::default() };
                    waiting.push_back(Waiting::Egress(copy, to));
                }
                if outcome.recirculate {
                    let port = PSA_RECIRCULATION_PORT;
                    let last = IngressInput { port, time_us, instance: Instance::Normal };
                    let input = pipeline.next_pass(&last, Instance::Recirculated);
                    waiting.push_back(Waiting::Ingress(packet, out, input));
                }
            }
        }
    }
    text
}

/// All state that packets change.
fn state(pipeline: &Pipeline) -> String {
    let program = pipeline.program();
    let mut text = String::new();
    for (e, number) in program.externs.iter().zip(0..) {
        let id = ExternId(number);
        for index in 0..pipeline.array_size(id).unwrap_or(0) {
            let _ = match e.type_name.as_str() {
                "Register" => write!(text, "{:?} ", pipeline.register_read(id, index)),
                "Counter" => write!(text, "{:?} ", pipeline.counter_read(id, index)),
                _ => Ok(()),
            };
        }
    }
    text
}

/// Returns the number of frames that left.
fn agree(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let text = source(
        &body(&mut random, INGRESS, 14),
        &body(&mut random, DEPARSER, 6),
        &body(&mut random, EGRESS, 8),
        &body(&mut random, EGRESS_DEPARSER, 4),
    );
    let compiled = tributary_p4::compile_text("random.p4", &text, &[]);
    let program = compiled.unwrap_or_else(|errors| panic!("seed {seed}: {errors}\n{text}")).program;
    let load = |kind| {
        let loaded = Pipeline::load(program.clone());
        let mut pipeline = loaded.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        pipeline.use_engine(kind);
        configure(&mut pipeline, Random::new(!seed));
        pipeline
    };
    let [mut first, mut second, mut third] =
        [EngineKind::Interpreter, EngineKind::Compiled, EngineKind::Compiled].map(load);
    assert!(second.is_compiled() && !first.is_compiled(), "seed {seed}: the wrong engine runs");
    let mut sent = 0;
    for at in 0..FRAMES {
        let length = random.below(40);
        let small = random.below(2) == 0;
        let byte = |random: &mut Random| (random.next() & if small { 7 } else { 255 }) as u8;
        let frame: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
        let time = at as u64 * 1000;
        let expected = passes(&mut first, &frame, time, false) + &state(&first);
        for (pipeline, observed, what) in
            [(&mut second, false, "machine code"), (&mut third, at % 2 == 0, "some observed")]
        {
            let found = passes(pipeline, &frame, time, observed) + &state(pipeline);
            assert!(
                expected == found,
                "TRIBUTARY_AGREEMENT_SEED={seed}, frame {at} {frame:x?}\n\
                 interpreter: {expected}\n{what}: {found}\n{text}"
            );
        }
        sent += expected.matches("drop: false").count();
    }
    sent
}

#[test]
fn interpreter_and_machine_code_agree_on_random_psa_programs() {
    if let Some(seed) = number("TRIBUTARY_AGREEMENT_SEED") {
        agree(seed);
        return;
    }
    let cases = number("TRIBUTARY_AGREEMENT_CASES").unwrap_or(CASES);
    let sent: usize = (1..=cases).map(agree).sum();
    assert!(sent > 500, "hardly any packet left: {sent}");
}
