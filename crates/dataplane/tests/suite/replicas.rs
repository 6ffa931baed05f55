//! Multicast replicas that share a packet leave what copies of it would leave.

use proptest::prelude::*;
use tributary_dataplane::{
    Egress, EgressInput, IngressInput, Instance, Memo, Packet, Pipeline, Value,
};
use tributary_p4::compile_text;
use tributary_p4::ir::ExternId;

use super::common;

/// A program with this egress. The deparser writes both headers.
fn source(egress: &str, compute: &str) -> String {
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header first_t {{ bit<8> op; bit<8> a; bit<16> b; bit<16> sum; }}
header second_t {{ bit<32> c; }}
struct headers_t {{ first_t first; second_t second; }}
struct meta_t {{ bit<16> x; @field_list(1) bit<16> kept; }}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{
        packet.extract(hdr.first);
        transition select(hdr.first.op) {{ 0: accept; default: more; }}
    }}
    state more {{ packet.extract(hdr.second); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    apply {{ meta.x = hdr.first.b; meta.kept = 7; std.mcast_grp = 1; }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    register<bit<16>>(64) seen;
    counter(64, CounterType.packets) counts;
    bit<16> found;
    apply {{ {egress} }}
}}
control U(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers_t hdr) {{
    apply {{ packet.emit(hdr.first); packet.emit(hdr.second); }}
}}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#
    )
}

fn load(egress: &str, compute: &str) -> Pipeline {
    let compiled = compile_text("replicas.p4", &source(egress, compute), &[]);
    let compiled = compiled.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    common::load(compiled.program).unwrap()
}

const CHECKSUM: &str = "update_checksum(true, { hdr.first.op, hdr.first.a, hdr.first.b },
    hdr.first.sum, HashAlgorithm.csum16);";

/// Egress controls, from ones that do nothing to ones that do everything.
const EGRESS: [&str; 14] = [
    "",
    "hdr.first.a = (bit<8>)std.egress_port;",
    "hdr.first.b = std.egress_rid; if (std.enq_qdepth > 3) { hdr.first.a = 255; }",
    "if (std.deq_qdepth > 2) { hdr.first.a = hdr.first.a + 1; }",
    "if (std.egress_port == 2) { mark_to_drop(std); }",
    "if (std.egress_port == 2) { hdr.second.setInvalid(); } else { hdr.second.setValid(); }",
    "hdr.second.setValid(); hdr.second.c = (bit<32>)std.egress_port;",
    "if (std.egress_port == 3) { clone_preserving_field_list(CloneType.E2E, 5, 1); hdr.first.a = 1; }",
    "if (std.egress_port == 1) { hdr.first.b = 77; recirculate_preserving_field_list(1); }",
    "if (std.egress_port == 3) { hdr.first.a = 9; truncate(7); }",
    "seen.read(found, (bit<32>)hdr.first.a & 63); seen.write((bit<32>)hdr.first.a & 63, found + 1);
     hdr.first.b = found;",
    "counts.count((bit<32>)std.egress_port); meta.x = meta.x + 1; hdr.first.b = meta.x;",
    "if (std.egress_rid == 1) { exit; } hdr.first.a = hdr.first.a ^ 85;",
    "random(meta.x, 16w0, 16w9); if (meta.x < 5) { hdr.first.a = 3; }",
];

/// A replica: its port, number, and depths of its queue.
fn replica() -> impl Strategy<Value = EgressInput> {
    (1_u16..4, 0_u16..3, 0_u32..6, 0_u32..6, 0_u64..9).prop_map(
        |(port, rid, enq_qdepth, deq_qdepth, time_us)| EgressInput {
            port,
            rid,
            instance: Instance::Replication,
            time_us,
            enq_time_us: time_us / 2,
            enq_qdepth,
            deq_qdepth,
            deq_timedelta: 1,
            ..EgressInput::default()
        },
    )
}

/// What a replica leaves behind.
#[derive(PartialEq, Debug)]
struct Left {
    outcome: Egress,
    frame: Vec<u8>,
    clone: Option<u16>,
    /// After another pass of a recirculated packet, with what it kept.
    again: Option<Vec<u8>>,
}

fn left(pipeline: &mut Pipeline, packet: &mut Packet, outcome: Egress, frame: Vec<u8>) -> Left {
    let clone = packet.clone_session();
    let again = outcome.recirculate.then(|| {
        let input = IngressInput { instance: Instance::Recirculated, ..IngressInput::default() };
        pipeline.ingress(packet, &frame, &input);
        let mut out = Vec::new();
        pipeline.egress(packet, &EgressInput { port: 9, ..EgressInput::default() }, &mut out);
        out
    });
    Left { outcome, frame: if outcome.drop { Vec::new() } else { frame }, clone, again }
}

fn state(pipeline: &Pipeline) -> Vec<(Value, u64)> {
    let element = |index| {
        let packets = pipeline.counter_read(ExternId(1), index).unwrap().packets;
        (pipeline.register_read(ExternId(0), index).unwrap(), packets)
    };
    (0..64).map(element).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn sharing_changes_nothing(
        egress in prop::sample::select(&EGRESS[..]),
        checksum: bool,
        frames in prop::collection::vec(
            (prop::collection::vec(0_u8..3, 10..30), prop::collection::vec(replica(), 0..8)), 1..6),
    ) {
        let compute = if checksum { CHECKSUM } else { "" };
        let (mut one, mut other) = (load(egress, compute), load(egress, compute));
        prop_assert!(one.shares_egress());
        let mut memo = Memo::default();
        let (mut packet, mut same) = (one.new_packet(), other.new_packet());
        for (frame, replicas) in frames {
            one.ingress(&mut packet, &frame, &IngressInput::default());
            other.ingress(&mut same, &frame, &IngressInput::default());
            same.become_shared();
            memo.clear();
            for input in replicas {
                let (mut copy, mut out) = (one.new_packet(), Vec::new());
                copy.copy_from(&packet);
                let outcome = one.egress(&mut copy, &input, &mut out);
                let expected = left(&mut one, &mut copy, outcome, out);
                let (mut own, mut out) = (other.new_packet(), Vec::new());
                let found = match other.egress_shared(&mut same, &mut memo, &input) {
                    Some(outcome) => {
                        prop_assert!(!outcome.recirculate);
                        let frame = if outcome.drop { &[] } else { memo.frame() };
                        let frame = frame.to_vec();
                        Left { outcome, frame, clone: None, again: None }
                    }
                    None => {
                        let outcome =
                            other.egress_apart(&mut same, &mut memo, &mut own, &mut out);
                        left(&mut other, &mut own, outcome, out)
                    }
                };
                prop_assert_eq!(found, expected);
            }
        }
        prop_assert_eq!(state(&one), state(&other));
    }
}

/// What runs after the egress control must be the same for all replicas.
#[test]
fn what_looks_at_replicas_after_egress_is_not_shared() {
    for compute in [
        "hdr.first.b = hdr.first.b + 1;",
        "update_checksum(hdr.first.isValid(), { hdr.first.op }, hdr.first.sum, HashAlgorithm.csum16);",
    ] {
        assert!(load("", compute).shares_egress(), "{compute}");
    }
    for compute in [
        "update_checksum_with_payload(true, { meta.x }, hdr.first.sum, HashAlgorithm.crc16);",
        "verify_checksum(true, { meta.x }, hdr.first.sum, HashAlgorithm.csum16);",
    ] {
        // The first is the same for all, the second does more than to write the frame.
        let first = compute.starts_with("update");
        assert_eq!(load("", compute).shares_egress(), first, "{compute}");
    }
}
