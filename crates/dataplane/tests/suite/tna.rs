//! TNA: the engine's behaviour for P4 programs, construct by construct.
//!
//! A test supplies the body of each control; the rest is always the same.

use tributary_dataplane::{
    Egress, EgressInput, Ingress, IngressInput, Instance, LoadError, Owner, Packet, Pipeline,
    Replication, Value, Verdict,
};
use tributary_p4::ir::ExternId;

use super::common;

/// The parts of the program that a test supplies.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) parser: &'a str,
    /// Statements after the intrinsic header was extracted; end in the state `headers`.
    pub(super) start: &'a str,
    pub(super) locals: &'a str,
    pub(super) ingress: &'a str,
    pub(super) deparser_locals: &'a str,
    pub(super) deparser: &'a str,
    pub(super) egress: &'a str,
    pub(super) egress_deparser: &'a str,
}

impl Parts<'_> {
    fn source(&self) -> String {
        let Self { parser, locals, ingress, deparser_locals, deparser, egress, .. } = self;
        let start = match self.start {
            "" => "packet.advance(PORT_METADATA_SIZE); transition headers;",
            start => start,
        };
        let egress_deparser = self.egress_deparser;
        format!(
            "#include <core.p4>
#include <tna.p4>
header h_t {{ bit<8> op; bit<8> a; bit<16> b; bit<32> c; bit<32> d; }}
header note_t {{ bit<64> words; }}
struct headers_t {{ note_t note; h_t h; }}
struct meta_t {{ bit<32> x; bit<16> y; bool z; }}
struct pair_t {{ bit<32> lo; bit<32> hi; }}

parser IngressParser(packet_in packet, out headers_t hdr, out meta_t meta,
                     out ingress_intrinsic_metadata_t ig) {{
    {parser}
    state start {{ packet.extract(ig); {start} }}
    state headers {{ packet.extract(hdr.h); transition accept; }}
}}
control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {{
    {locals}
    apply {{ {ingress} }}
}}
control IngressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {{
    {deparser_locals}
    apply {{ {deparser} packet.emit(hdr.h); }}
}}
parser EgressParser(packet_in packet, out headers_t hdr, out meta_t meta,
                    out egress_intrinsic_metadata_t eg) {{
    state start {{ packet.extract(eg); packet.extract(hdr.h); transition accept; }}
}}
control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {{
    apply {{ {egress} }}
}}
control EgressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {{
    Mirror() mirror;
    apply {{ {egress_deparser} packet.emit(hdr.h); }}
}}
Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
"
        )
    }

    pub(super) fn load(&self) -> Pipeline {
        self.try_load().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_load(&self) -> Result<Pipeline, LoadError> {
        let source = self.source();
        let compiled = tributary_p4::compile_text("test.p4", &source, &[]);
        let compiled = compiled.unwrap_or_else(|diagnostics| panic!("{diagnostics}\n{source}"));
        common::load(compiled.program)
    }
}

/// A frame with the test's header.
pub(super) fn frame(op: u8, a: u8, b: u16, c: u32, d: u32) -> Vec<u8> {
    let mut frame = vec![op, a];
    frame.extend_from_slice(&b.to_be_bytes());
    frame.extend_from_slice(&c.to_be_bytes());
    frame.extend_from_slice(&d.to_be_bytes());
    frame.extend_from_slice(b"tail");
    frame
}

pub(super) fn ingress(pipeline: &mut Pipeline, frame: &[u8]) -> (Ingress, Packet) {
    let mut packet = pipeline.new_packet();
    let input = IngressInput { port: 5, time_us: 7, instance: Instance::Normal };
    (pipeline.ingress(&mut packet, frame, &input), packet)
}

/// The outgoing frame of a packet to one port.
pub(super) fn through(pipeline: &mut Pipeline, frame: &[u8]) -> Vec<u8> {
    let (ingress, mut packet) = ingress(pipeline, frame);
    assert!(matches!(ingress.verdict, Verdict::Unicast(_)), "{ingress:?}");
    let mut out = vec![99];
    let egress = pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    assert_eq!(egress, Egress { drop: false, recirculate: false });
    out
}

fn register(pipeline: &Pipeline, name: &str) -> ExternId {
    let found = pipeline
        .program()
        .externs
        .iter()
        .position(|e| e.type_name == "Register" && e.name.rsplit('.').next() == Some(name));
    ExternId(found.expect("a register of that name") as u32)
}

pub(super) fn words(frame: &[u8]) -> [u32; 2] {
    [4, 8].map(|at| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()))
}

#[test]
fn a_packet_goes_to_the_requested_destinations() {
    let mut pipeline = Parts {
        ingress: "
            if (hdr.h.op == 1) { tm.ucast_egress_port = 3; }
            if (hdr.h.op == 2) { tm.mcast_grp_a = 7; tm.mcast_grp_b = 8; tm.rid = 9;
                                 tm.level2_exclusion_id = 10; tm.ucast_egress_port = 0; }
            if (hdr.h.op == 3) { tm.ucast_egress_port = 3; dprsr.drop_ctl = 1; }
            if (hdr.h.op == 4) { tm.mcast_grp_b = 8; tm.copy_to_cpu = 1; }
            if (hdr.h.op == 5) { tm.ucast_egress_port = 3; tm.copy_to_cpu = 1; dprsr.drop_ctl = 1; }
            if (hdr.h.op == 6) { tm.ucast_egress_port = 3; tm.copy_to_cpu = 1; dprsr.drop_ctl = 3; }
            if (hdr.h.op == 7) { tm.ucast_egress_port = 3; tm.copy_to_cpu = 1; dprsr.drop_ctl = 2; }
        ",
        ..Parts::default()
    }
    .load();
    let both = Replication {
        unicast: Some(0),
        groups: [7, 8],
        rid: 9,
        exclusion: 10,
        ..Replication::default()
    };
    let cpu = Replication { to_cpu: true, ..Replication::default() };
    let expected = [
        // No port was set, not even to zero.
        Verdict::Drop,
        Verdict::Unicast(3),
        Verdict::Replicate(both),
        Verdict::Drop,
        Verdict::Replicate(Replication { groups: [0, 8], ..cpu }),
        Verdict::Replicate(cpu),
        Verdict::Drop,
        Verdict::Unicast(3),
    ];
    for (op, verdict) in (0..).zip(expected) {
        let (ingress, _) = ingress(&mut pipeline, &frame(op, 0, 0, 0, 0));
        assert_eq!(ingress, Ingress { verdict, resubmit: false }, "op {op}");
    }
}

#[test]
fn intrinsic_metadata_has_the_switchs_values() {
    let mut pipeline = Parts {
        ingress: "
            hdr.h.b = (bit<16>)ig.ingress_port;
            hdr.h.c = ig.ingress_mac_tstamp[31:0];
            hdr.h.d = prsr.global_tstamp[31:0];
            tm.ucast_egress_port = 1;
        ",
        egress: "
            hdr.h.a = (bit<8>)eg.egress_port;
            hdr.h.c = hdr.h.c + (bit<32>)eg.enq_qdepth;
            hdr.h.d = hdr.h.d + (bit<32>)eg.deq_qdepth + (bit<32>)eg.pkt_length
                + (bit<32>)eg.egress_rid + prsr.global_tstamp[31:0] + (bit<32>)eg.deq_timedelta
                + (bit<32>)eg.enq_tstamp;
        ",
        ..Parts::default()
    }
    .load();
    let (_, mut packet) = ingress(&mut pipeline, &frame(0, 0, 0, 0, 0));
    let input = EgressInput {
        port: 44,
        rid: 200_000_u32 as u16,
        instance: Instance::Replication,
        time_us: 30,
        enq_time_us: 20,
        enq_qdepth: 600_000,
        deq_qdepth: 2,
        deq_timedelta: 10,
        ..EgressInput::default()
    };
    let mut out = Vec::new();
    pipeline.egress(&mut packet, &input, &mut out);
    assert_eq!((out[1], &out[2..4]), (44, &[0, 5][..]));
    let rid = u32::from(200_000_u32 as u16);
    // A depth saturates at the field's maximum. The length has the check sequence.
    assert_eq!(
        words(&out),
        [7_000 + 0x7_ffff, 7_000 + 2 + 16 + 4 + rid + 30_000 + 10_000 + 20_000]
    );
    assert_eq!(out[12..], *b"tail");
    // Sixteen bytes take one cell of a queue, 81 take two.
    assert_eq!(packet.queue_units(), 1);
    let mut long = frame(0, 0, 0, 0, 0);
    long.resize(81, 0);
    assert_eq!(ingress(&mut pipeline, &long).1.queue_units(), 2);
}

#[test]
fn a_resubmitted_packet_carries_eight_bytes() {
    let parts = Parts {
        start: "transition select(ig.resubmit_flag) { 1: again; default: first; }",
        parser: "
            state again { packet.extract(hdr.note); transition headers; }
            state first { packet.advance(PORT_METADATA_SIZE); transition headers; }
        ",
        ingress: "
            if (ig.resubmit_flag == 1) {
                hdr.h.c = hdr.note.words[63:32];
                hdr.h.d = hdr.note.words[31:0];
                hdr.h.b = (bit<16>)ig.ingress_port;
                tm.ucast_egress_port = 1;
            } else {
                dprsr.resubmit_type = 2;
                meta.x = 0x01020304;
                // Lost: the second pass starts from the frame as it came.
                hdr.h.a = 77;
                if (hdr.h.op == 1) { dprsr.drop_ctl = 1; }
            }
        ",
        deparser_locals: "Resubmit(2) resubmit; Resubmit(3) other;",
        deparser: "
            if (dprsr.resubmit_type == 2) { resubmit.emit<pair_t>({ meta.x, 5 }); }
            if (dprsr.resubmit_type == 3) { other.emit(); }
        ",
        ..Parts::default()
    };
    let mut pipeline = parts.load();
    let sent = frame(0, 1, 0, 8, 9);
    let (first, mut packet) = ingress(&mut pipeline, &sent);
    assert!(first.resubmit);
    let last = IngressInput { port: 5, time_us: 7, instance: Instance::Normal };
    let next = pipeline.next_pass(&last, Instance::Resubmitted);
    let second = pipeline.ingress(&mut packet, &sent, &next);
    assert_eq!(second, Ingress { verdict: Verdict::Unicast(1), resubmit: false });
    let mut out = Vec::new();
    pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    assert_eq!(out, frame(0, 1, 5, 0x0102_0304, 5));
    // A dropped packet is also not resubmitted.
    let (dropped, _) = ingress(&mut pipeline, &frame(1, 0, 0, 0, 0));
    assert_eq!(dropped, Ingress { verdict: Verdict::Drop, resubmit: false });
}

#[test]
fn egress_parses_ingress_output_drops_bypasses_and_recirculates() {
    let mut pipeline = Parts {
        ingress: "
            meta.x = 4;
            hdr.h.c = meta.x;
            tm.ucast_egress_port = 1;
            if (hdr.h.op == 2) { tm.bypass_egress = 1; }
            if (hdr.h.op == 3) { hdr.h.setInvalid(); }
        ",
        // The frame arrives here, but no metadata.
        egress: "
            hdr.h.d = hdr.h.d + 1 + meta.x;
            if (hdr.h.op == 1) { dprsr.drop_ctl = 1; }
        ",
        ..Parts::default()
    }
    .load();
    assert_eq!(through(&mut pipeline, &frame(0, 0, 0, 0, 9)), frame(0, 0, 0, 4, 10));
    assert_eq!(through(&mut pipeline, &frame(2, 0, 0, 0, 9)), frame(2, 0, 0, 4, 9));
    let (_, mut packet) = ingress(&mut pipeline, &frame(1, 0, 0, 0, 0));
    let mut out = vec![1];
    let egress = pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    // The frame is there for a mirrored copy.
    assert_eq!(egress, Egress { drop: true, recirculate: false });
    assert_eq!(out, frame(1, 0, 0, 4, 1));
    // A frame too short for egress leaves unchanged: its parser drops nothing.
    let (_, mut packet) = ingress(&mut pipeline, &frame(3, 0, 0, 0, 0));
    let input = EgressInput { port: 68, ..EgressInput::default() };
    let egress = pipeline.egress(&mut packet, &input, &mut out);
    assert_eq!(egress, Egress { drop: false, recirculate: true });
    assert_eq!(out, b"tail");
}

#[test]
fn parser_errors_drop_unless_the_program_reads_them() {
    let forward = "tm.ucast_egress_port = 1;";
    let mut blind = Parts { ingress: forward, ..Parts::default() }.load();
    assert_eq!(ingress(&mut blind, &[1, 2, 3]).0.verdict, Verdict::Drop);
    assert_eq!(ingress(&mut blind, &frame(0, 0, 0, 0, 0)).0.verdict, Verdict::Unicast(1));
    let mut seeing = Parts {
        parser: "state odd { transition select(packet.lookahead<bit<8>>()) { 0: headers; 9: reject; } }",
        start: "packet.advance(PORT_METADATA_SIZE); transition odd;",
        ingress: "tm.ucast_egress_port = (bit<9>)prsr.parser_err;",
        ..Parts::default()
    }
    .load();
    // Too short; no match; rejected; valid.
    for (frame, port) in [(vec![0, 2, 3], 2), (vec![1; 20], 1), (vec![9; 20], 1), (vec![0; 20], 0)]
    {
        let (ingress, packet) = ingress(&mut seeing, &frame);
        assert_eq!(ingress.verdict, Verdict::Unicast(port), "{frame:?}");
        assert_eq!(packet.length(), frame.len() as u32, "{frame:?}");
    }
}

#[test]
fn stateful_actions_change_one_cell_and_give_one_result() {
    let mut pipeline = Parts {
        locals: "
            Register<bit<32>, bit<8>>(4, 100) sums;
            RegisterAction<bit<32>, bit<8>, bit<32>>(sums) add = {
                void apply(inout bit<32> value, out bit<32> result) {
                    value = value + hdr.h.c;
                    result = value;
                }
            };
            Register<pair_t, bit<8>>(4, {1, 2}) pairs;
            RegisterAction<pair_t, bit<8>, bit<32>>(pairs) swap = {
                void apply(inout pair_t value, out bit<32> result) {
                    if (value.hi == hdr.h.d) {
                        result = value.lo;
                    }
                    value.lo = value.hi;
                    value.hi = hdr.h.c;
                }
            };
            Register<bit<8>, bit<8>>(4) bytes;
            RegisterAction<bit<8>, bit<8>, bit<8>>(bytes) count = {
                void apply(inout bit<8> value) { value = value + 1; }
            };
        ",
        ingress: "
            tm.ucast_egress_port = 1;
            if (hdr.h.op == 0) { hdr.h.d = add.execute(hdr.h.a); }
            else if (hdr.h.op == 1) { hdr.h.d = swap.execute(hdr.h.a); }
            else { count.execute(hdr.h.a); }
        ",
        ..Parts::default()
    }
    .load();
    let mut send = |op, a, c, d| words(&through(&mut pipeline, &frame(op, a, 0, c, d)))[1];
    assert_eq!(send(0, 1, 5, 0), 105);
    assert_eq!(send(0, 1, u32::MAX, 0), 104);
    assert_eq!(send(0, 2, 1, 0), 101);
    // Beyond the end: a read gives zero, and a write has no effect.
    assert_eq!(send(0, 4, 7, 0), 7);
    assert_eq!(send(0, 255, 7, 0), 7);
    // The pair starts as (1, 2); the result is zero if the action sets none.
    assert_eq!(send(1, 3, 9, 2), 1);
    assert_eq!(send(1, 3, 8, 0), 0);
    assert_eq!(send(1, 3, 0, 8), 9);
    for _ in 0..300 {
        send(2, 3, 0, 0);
    }
    let read = |name: &str, index, scalar| {
        let register = register(&pipeline, name);
        pipeline.register_read_scalar(register, index, scalar).unwrap().to_u64().unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(|i| read("sums", i, 0)), [100, 104, 101, 100]);
    assert_eq!([0, 1].map(|s| read("pairs", 3, s)), [8, 0]);
    assert_eq!([0, 1].map(|s| read("pairs", 2, s)), [1, 2]);
    assert_eq!([2, 3].map(|i| read("bytes", i, 0)), [0, 300 % 256]);
    let pairs = register(&pipeline, "pairs");
    assert_eq!(pipeline.register_scalars(pairs), Ok(2));
    assert!(pipeline.register_read_scalar(pairs, 0, 2).is_err());
    pipeline.register_write_scalar(pairs, 0, 1, &Value::from(5_u64)).unwrap();
    assert_eq!(pipeline.register_read_scalar(pairs, 0, 1).unwrap(), Value::from(5_u64));
}

#[test]
fn hashes_take_values_as_one_number() {
    let mut pipeline = Parts {
        locals: "
            Hash<bit<32>>(HashAlgorithm_t.CRC32) crc;
            Hash<bit<16>>(HashAlgorithm_t.XOR16) xor;
            Hash<bit<4>>(HashAlgorithm_t.IDENTITY) low;
            CRCPolynomial<bit<16>>(0x1021, false, false, false, 0, 0) polynomial;
            Hash<bit<16>>(HashAlgorithm_t.CUSTOM, polynomial) custom;
            Random<bit<16>>() random;
        ",
        ingress: "
            tm.ucast_egress_port = 1;
            bit<32> c = hdr.h.c;
            if (hdr.h.op == 0) { hdr.h.d = crc.get({ hdr.h.a, hdr.h.b, c }); }
            else if (hdr.h.op == 1) { hdr.h.d = (bit<32>)xor.get({ c }); }
            else if (hdr.h.op == 2) { hdr.h.d = (bit<32>)low.get({ hdr.h.a[2:0], c[5:0] }); }
            else if (hdr.h.op == 3) { hdr.h.d = (bit<32>)custom.get({ hdr.h.b, c }); }
            else { hdr.h.d = (bit<32>)random.get(); }
        ",
        ..Parts::default()
    }
    .load();
    let mut send = |op, a, b, c| words(&through(&mut pipeline, &frame(op, a, b, c, 0)))[1];
    // The checks of "1234567" and "123456", from another implementation.
    assert_eq!(send(0, 0x31, 0x3233, 0x3435_3637), 0x5003_699f);
    assert_eq!(send(1, 0, 0, 0x1234_00ff), 0x1234 ^ 0x00ff);
    assert_eq!(send(2, 0b101, 0, 0b10_1100), 0b1100);
    assert_eq!(send(3, 0, 0x3132, 0x3334_3536), 0x20e4);
    let numbers: Vec<u32> = (0..20).map(|_| send(4, 0, 0, 0)).collect();
    assert!(numbers.iter().all(|&n| n < 1 << 16) && numbers.iter().any(|n| *n != numbers[0]));
}

#[test]
fn checksums_add_subtract_verify_and_update() {
    let mut pipeline = Parts {
        parser: "
            Checksum() sum;
            Checksum() rest;
            state checked {
                packet.extract(hdr.h);
                sum.add(hdr.h);
                meta.z = sum.verify();
                rest.subtract({ hdr.h.b });
                meta.y = rest.get();
                transition accept;
            }
        ",
        start: "packet.advance(PORT_METADATA_SIZE); transition checked;",
        ingress: "
            tm.ucast_egress_port = 1;
            if (meta.z) { hdr.h.a = 0; } else { hdr.h.a = 1; }
            if (hdr.h.op == 0) { hdr.h.d[15:0] = meta.y; }
        ",
        deparser_locals: "Checksum() sum;",
        deparser: "
            if (hdr.h.op == 1) { hdr.h.b = sum.update({ hdr.h.c, hdr.h.d }); }
            if (hdr.h.op == 2) { hdr.h.b = sum.update({ hdr.h.c, hdr.h.d }, true); }
        ",
        ..Parts::default()
    }
    .load();
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let b = !fold(0x0100 + 0x1234 + 0x5678 + 0x9abc + 0xdef0) as u16;
    let sent = frame(1, 0, b, 0x1234_5678, 0x9abc_def0);
    let out = through(&mut pipeline, &sent);
    let updated = !fold(fold(0x1234 + 0x5678 + 0x9abc + 0xdef0)) as u16;
    assert_eq!(out, frame(1, 1, updated, 0x1234_5678, 0x9abc_def0));
    let wrong = frame(1, 0, b ^ 1, 0x1234_5678, 0x9abc_def0);
    assert_eq!(through(&mut pipeline, &wrong)[1], 0);
    // A sum of all ones gives zero, its complement, unless zero has another meaning.
    assert_eq!(through(&mut pipeline, &frame(1, 0, 9, 0xffff, 0))[2..4], [0, 0]);
    assert_eq!(through(&mut pipeline, &frame(2, 0, 9, 0xffff, 0))[2..4], [0xff, 0xff]);
    // Subtracting is adding the complement. What is left is the sum itself, so that an update with it
    // and with new values replaces the old ones.
    let out = through(&mut pipeline, &frame(0, 0, 0x1122, 0, 0));
    assert_eq!(words(&out)[1], 0xeedd);
}

#[test]
fn a_direct_counter_counts_when_an_action_calls_it() {
    use tributary_dataplane::{ActionCall, KeyMatch, TableEntry};
    let mut pipeline = Parts {
        locals: "
            DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) hits;
            Counter<bit<64>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) all;
            action loud() { hits.count(); }
            action quiet() { }
            table t {
                key = { hdr.h.a: exact; }
                actions = { loud; quiet; }
                default_action = quiet();
                counters = hits;
            }
        ",
        ingress: "tm.ucast_egress_port = 1; t.apply(); all.count(hdr.h.op);",
        ..Parts::default()
    }
    .load();
    let table = tributary_p4::ir::TableId(0);
    let key = |a: u64| vec![KeyMatch::Exact(Value::from(a))];
    for (a, action) in [(1, 0), (2, 1)] {
        let call = ActionCall { action, args: Vec::new() };
        pipeline.insert(table, TableEntry::new(key(a), 0, call)).unwrap();
    }
    for a in [1, 2, 3, 1] {
        through(&mut pipeline, &frame(3, a, 0, 0, 0));
    }
    let count = |a| pipeline.direct_counter_read(table, Owner::Entry(&key(a), 0)).unwrap();
    let (loud, quiet) = (count(1), count(2));
    assert_eq!((loud.packets, loud.bytes, quiet.packets), (2, 32, 0));
    let missed = pipeline.direct_counter_read(table, Owner::Default).unwrap();
    assert_eq!(missed.packets, 0, "the default action does not count");
    pipeline.set_default(table, Some(ActionCall { action: 0, args: Vec::new() }.into())).unwrap();
    through(&mut pipeline, &frame(3, 9, 0, 0, 0));
    let missed = pipeline.direct_counter_read(table, Owner::Default).unwrap();
    assert_eq!((missed.packets, missed.bytes), (1, 16));
    let all = pipeline.program().externs.iter().position(|e| e.type_name == "Counter").unwrap();
    let all = pipeline.counter_read(ExternId(all as u32), 3).unwrap();
    assert_eq!((all.packets, all.bytes), (5, 80));
}

#[test]
fn a_direct_meter_meters_when_an_action_calls_it() {
    use tributary_dataplane::{ActionCall, KeyMatch, MeterConfig, TableEntry};
    let mut pipeline = Parts {
        locals: "
            DirectMeter(MeterType_t.PACKETS) rate;
            bit<8> color = 7;
            action loud() { color = rate.execute(); }
            action quiet() { }
            table t {
                key = { hdr.h.a: exact; }
                actions = { loud; quiet; }
                default_action = quiet();
                meters = rate;
            }
        ",
        ingress: "tm.ucast_egress_port = 1; t.apply(); hdr.h.op = color;",
        ..Parts::default()
    }
    .load();
    let table = tributary_p4::ir::TableId(0);
    let key = |a: u64| vec![KeyMatch::Exact(Value::from(a))];
    let config = MeterConfig { cir: 1, cburst: 2, pir: 1, pburst: 3 };
    for (a, action) in [(1, 0), (2, 1), (3, 0)] {
        let call = ActionCall { action, args: Vec::new() };
        pipeline.insert(table, TableEntry::new(key(a), 0, call)).unwrap();
    }
    for a in [1, 2] {
        pipeline.set_direct_meter_config(table, Owner::Entry(&key(a), 0), Some(config)).unwrap();
    }
    let mut color = |a| through(&mut pipeline, &frame(0, a, 0, 0, 0))[0];
    // Green, green, yellow, red: TNA's numbers.
    assert_eq!([1, 1, 1, 1, 1].map(&mut color), [0, 0, 1, 3, 3]);
    // Not called, not configured, no entry.
    assert_eq!([2, 2, 2, 2].map(&mut color), [7; 4]);
    assert_eq!([3, 3, 3, 3].map(&mut color), [0; 4]);
    assert_eq!(color(4), 7);
    pipeline.set_default(table, Some(ActionCall { action: 0, args: Vec::new() }.into())).unwrap();
    assert_eq!([4, 5].map(|a| through(&mut pipeline, &frame(0, a, 0, 0, 0))[0]), [0, 0]);
    pipeline.set_direct_meter_config(table, Owner::Default, Some(config)).unwrap();
    let colors = [4, 5, 6, 7].map(|a| through(&mut pipeline, &frame(0, a, 0, 0, 0))[0]);
    assert_eq!(colors, [0, 0, 1, 3], "all misses share it");
}

#[test]
fn the_lower_and_the_higher_of_two_numbers() {
    let mut pipeline = Parts {
        ingress: "
            tm.ucast_egress_port = 1;
            hdr.h.op = min(hdr.h.op, hdr.h.a);
            hdr.h.a = max(hdr.h.a, 8w100);
            hdr.h.c = (bit<32>)min((int<32>)hdr.h.c, (int<32>)hdr.h.d);
        ",
        ..Parts::default()
    }
    .load();
    let mut of = |op, a, c, d| {
        let out = through(&mut pipeline, &frame(op, a, 0, c, d));
        (out[0], out[1], u32::from_be_bytes(out[4..8].try_into().unwrap()))
    };
    assert_eq!(of(3, 5, 1, 2), (3, 100, 1));
    assert_eq!(of(200, 150, 1, u32::MAX), (150, 150, u32::MAX), "-1 is less");
    assert_eq!(of(7, 7, 2, 2), (7, 100, 2));
}

#[test]
fn mirrored_copies_and_messages_wait_for_the_switch() {
    let mut pipeline = Parts {
        ingress: "
            tm.ucast_egress_port = 1;
            if (hdr.h.op == 1) { dprsr.mirror_type = 1; meta.y = 0x0507; }
            if (hdr.h.op == 2) { dprsr.digest_type = 4; meta.x = 0x01020304; meta.y = 9; }
        ",
        deparser_locals: "Mirror(1) mirror; Digest<meta_t>(4) digest;",
        deparser: "
            if (dprsr.mirror_type == 1) { mirror.emit<pair_t>(10w33, { 5, (bit<32>)meta.y }); }
            if (dprsr.digest_type == 4) { digest.pack({ meta.x, meta.y, meta.z }); }
        ",
        egress: "if (hdr.h.op == 3) { dprsr.mirror_type = 1; }",
        egress_deparser: "if (dprsr.mirror_type == 1) { mirror.emit(10w34); }",
        ..Parts::default()
    }
    .load();
    let (_, mirrored) = ingress(&mut pipeline, &frame(1, 0, 0, 0, 0));
    assert_eq!(mirrored.mirror(), Some((33, &[0, 0, 0, 5, 0, 0, 5, 7][..])));
    assert_eq!(mirrored.digest(), None);
    let (_, packed) = ingress(&mut pipeline, &frame(2, 0, 0, 0, 0));
    let instances = pipeline.program().externs.iter().filter(|e| e.type_name == "Digest");
    assert!(pipeline.digests().eq(instances.map(|e| e.name.as_str())));
    assert_eq!(packed.digest(), Some((0, [0x0102_0304u64, 9, 0].map(Value::from).to_vec())));
    let (_, mut packet) = ingress(&mut pipeline, &frame(3, 0, 0, 0, 0));
    assert_eq!((packet.mirror(), packet.digest()), (None, None));
    let mut out = Vec::new();
    pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    assert_eq!(packet.mirror(), Some((34, &[][..])));
    // A copy is parsed by egress, with its data in front.
    let mut copy = pipeline.new_packet();
    copy.become_copy(&[3, 0, 0, 0], &out);
    let egress = pipeline.egress(&mut copy, &EgressInput::default(), &mut out);
    assert_eq!((egress.drop, out.len()), (false, 20));
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let refused = |parts: Parts<'_>| parts.try_load().unwrap_err().to_string();
    let error = refused(Parts { egress: "dprsr.coalesce_flush = 1;", ..Parts::default() });
    assert!(error.contains("`eg_dprsr_md.coalesce_flush`"), "{error}");
    let fine = Parts { egress: "dprsr.coalesce_flush = 0;", ..Parts::default() };
    assert!(fine.try_load().is_ok());
    let error = refused(Parts {
        locals: "
            Hash<bit<8>>(HashAlgorithm_t.CRC8) hash;
            ActionProfile(8) members;
            ActionSelector(members, hash, SelectorMode_t.FAIR, 4, 2) one;
            ActionSelector(members, hash, SelectorMode_t.FAIR, 4, 2) two;
            action a() {}
            table t { key = { hdr.h.a: selector; } actions = { a; } implementation = one; }
            table u { key = { hdr.h.b: selector; } actions = { a; } implementation = two; }
        ",
        ingress: "t.apply(); u.apply();",
        ..Parts::default()
    });
    assert!(error.contains("has another selector already"), "{error}");
    let error = refused(Parts {
        deparser_locals: "Resubmit(1) again;",
        deparser: "if (dprsr.resubmit_type == 1) { again.emit<h_t>(hdr.h); }",
        ..Parts::default()
    });
    assert!(error.contains("at most 64 bits"), "{error}");
}

#[test]
fn no_frame_makes_the_engine_panic() {
    let mut pipeline = Parts {
        parser: "Checksum() sum; state more { packet.extract(hdr.note); sum.add(hdr.note); transition headers; }",
        start: "packet.advance(PORT_METADATA_SIZE); transition select(packet.lookahead<bit<4>>()) { 1: more; default: headers; }",
        ingress: "tm.ucast_egress_port = prsr.parser_err[8:0]; tm.mcast_grp_a = hdr.h.b;",
        ..Parts::default()
    }
    .load();
    let mut packet = pipeline.new_packet();
    let mut out = Vec::new();
    for length in 0..40 {
        for first in [0x00, 0x10, 0xff] {
            for instance in [Instance::Normal, Instance::Resubmitted] {
                let frame = vec![first; length];
                let input = IngressInput { port: u16::MAX, time_us: u64::MAX, instance };
                pipeline.ingress(&mut packet, &frame, &input);
                let input = EgressInput { port: u16::MAX, time_us: u64::MAX, ..Default::default() };
                pipeline.egress(&mut packet, &input, &mut out);
                assert!(out.len() <= length + 12);
            }
        }
    }
}
