//! PSA: what the engine hands to a switch. The features that packets show are in the cases of
//! `tributary-switch`.

use tributary_dataplane::{
    Egress, EgressInput, Ingress, IngressInput, Instance, LoadError, PSA_CPU_PORT,
    PSA_RECIRCULATION_PORT, Packet, Pipeline, Value, Verdict,
};

use super::common;

/// A program whose controls have these bodies.
#[expect(clippy::too_many_lines, reason = "one program")]
pub(crate) fn source(ingress: &str, deparser: &str, egress: &str, egress_deparser: &str) -> String {
    format!(
        "#include <core.p4>
#include <psa.p4>
header h_t {{ bit<8> op; bit<8> a; bit<16> b; bit<32> c; }}
struct headers_t {{ h_t h; h_t other; }}
struct meta_t {{ bit<32> x; bit<8> y; bool learn; }}
struct learned_t {{ bit<16> b; PortId_t port; }}
struct carried_t {{ bit<32> word; bit<8> byte; bool flag; }}

parser IngressParse(packet_in packet, out headers_t hdr, inout meta_t meta,
                    in psa_ingress_parser_input_metadata_t istd, in carried_t again, in carried_t around) {{
    state start {{
        packet.extract(hdr.h);
        meta.x = again.word ^ around.word;
        meta.y = again.byte ^ around.byte;
        transition select(hdr.h.op) {{
            0x80 &&& 0xc0: more;
            0xc0 &&& 0xc0: more;
            default: accept;
        }}
    }}
    state more {{
        packet.extract(hdr.other);
        verify(hdr.other.op != 3, error.NoMatch);
        transition select(hdr.other.op) {{ 1: accept; 2: reject; default: accept; }}
    }}
}}
control IngressImpl(inout headers_t hdr, inout meta_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {{
    Register<bit<32>, bit<8>>(16, 7) cells;
    Register<bit<8>, bit<8>>(16) passes;
    Counter<bit<32>, bit<8>>(8, PSA_CounterType_t.BYTES) counts;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) hash;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) wide;
    Meter<bit<8>>(4, PSA_MeterType_t.BYTES) rates;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS_AND_BYTES) hits;
    ActionSelector(PSA_HashAlgorithm_t.CRC16, 16, 16) members;
    PSA_MeterColor_t color;
    action forward(PortId_t port, bit<8> value) {{
        send_to_port(ostd, port);
        meta.y = meta.y + value;
        hits.count();
    }}
    action replicate(bit<32> group) {{ multicast(ostd, (MulticastGroup_t) group); }}
    action discard() {{ ingress_drop(ostd); }}
    action forward_plain(PortId_t port) {{ ostd.egress_port = port; }}
    action empty(bit<8> value) {{ meta.y = value; }}
    table route {{
        key = {{ hdr.h.a : ternary; hdr.h.b : ternary; }}
        actions = {{ forward; replicate; discard; }}
        default_action = discard();
        psa_direct_counter = hits;
    }}
    table spread {{
        key = {{ hdr.h.a : exact; hdr.h.c : selector; }}
        actions = {{ forward_plain; empty; NoAction; }}
        psa_implementation = members;
        psa_empty_group_action = empty(0x5a);
    }}
    apply {{ {ingress} }}
}}
control IngressDeparse(packet_out packet, out carried_t i2e, out carried_t again, out carried_t normal,
                       inout headers_t hdr, in meta_t meta, in psa_ingress_output_metadata_t istd) {{
    Digest<learned_t>() learned;
    InternetChecksum() sum;
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc;
    apply {{ {deparser} packet.emit(hdr); }}
}}
parser EgressParse(packet_in packet, out headers_t hdr, inout meta_t meta,
                   in psa_egress_parser_input_metadata_t istd,
                   in carried_t normal, in carried_t i2e, in carried_t e2e) {{
    state start {{
        packet.extract(hdr.h);
        transition select(istd.packet_path) {{
            PSA_PacketPath_t.CLONE_I2E: of_i2e;
            PSA_PacketPath_t.CLONE_E2E: of_e2e;
            default: of_normal;
        }}
    }}
    state of_i2e {{ meta.x = i2e.word; meta.y = i2e.byte; meta.learn = i2e.flag; transition accept; }}
    state of_e2e {{ meta.x = e2e.word; meta.y = e2e.byte; meta.learn = e2e.flag; transition accept; }}
    state of_normal {{ meta.x = normal.word; meta.y = normal.byte; meta.learn = normal.flag; transition accept; }}
}}
control EgressImpl(inout headers_t hdr, inout meta_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {{
    Counter<bit<32>, bit<8>>(8, PSA_CounterType_t.PACKETS) sent;
    Register<bit<32>, bit<8>>(16) sums;
    apply {{ {egress} }}
}}
control EgressDeparse(packet_out packet, out carried_t e2e, out carried_t around,
                      inout headers_t hdr, in meta_t meta,
                      in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {{
    Digest<learned_t>() gone;
    apply {{ {egress_deparser} packet.emit(hdr); }}
}}
IngressPipeline(IngressParse(), IngressImpl(), IngressDeparse()) ip;
EgressPipeline(EgressParse(), EgressImpl(), EgressDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
"
    )
}

fn try_load(source: &str) -> Result<Pipeline, LoadError> {
    let compiled = tributary_p4::compile_text("test.p4", source, &[]);
    common::load(compiled.unwrap_or_else(|errors| panic!("{errors}\n{source}")).program)
}

fn load(ingress: &str, deparser: &str, egress: &str, egress_deparser: &str) -> Pipeline {
    let source = source(ingress, deparser, egress, egress_deparser);
    try_load(&source).unwrap_or_else(|error| panic!("{error}"))
}

const FRAME: [u8; 10] = [1, 2, 0, 3, 0, 0, 0, 4, 0xaa, 0xbb];

fn ingress(pipeline: &mut Pipeline, frame: &[u8], instance: Instance) -> (Ingress, Packet) {
    let mut packet = pipeline.new_packet();
    let input = IngressInput { port: 5, time_us: 7, instance };
    (pipeline.ingress(&mut packet, frame, &input), packet)
}

fn egress(
    pipeline: &mut Pipeline,
    packet: &mut Packet,
    instance: Instance,
    port: u16,
) -> (Egress, Vec<u8>) {
    let mut out = vec![99];
    let input = EgressInput { port, instance, time_us: 9, ..EgressInput::default() };
    (pipeline.egress(packet, &input, &mut out), out)
}

#[test]
fn ports_and_groups_are_those_of_the_switch() {
    let mut pipeline = load(
        "if (hdr.h.op == 1) { send_to_port(ostd, (PortId_t) 3); }
         if (hdr.h.op == 2) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }
         if (hdr.h.op == 3) { send_to_port(ostd, PSA_PORT_CPU); }
         if (hdr.h.op == 4) { send_to_port(ostd, (PortId_t) 510); }
         if (hdr.h.op == 5) { multicast(ostd, (MulticastGroup_t) 9); }
         if (hdr.h.op == 6) { multicast(ostd, (MulticastGroup_t) 0x10009); }",
        "",
        "",
        "",
    );
    let mut verdict = |op| {
        let mut frame = FRAME;
        frame[0] = op;
        ingress(&mut pipeline, &frame, Instance::Normal).0.verdict
    };
    assert_eq!(verdict(0), Verdict::Drop);
    assert_eq!(verdict(1), Verdict::Unicast(3));
    assert_eq!(verdict(2), Verdict::Unicast(PSA_RECIRCULATION_PORT));
    assert_eq!(verdict(3), Verdict::Unicast(PSA_CPU_PORT));
    // Neither this port nor this group can exist.
    assert_eq!(verdict(4), Verdict::Unicast(u16::MAX));
    assert_eq!(verdict(5), Verdict::Multicast(9));
    assert_eq!(verdict(6), Verdict::Multicast(0));
}

#[test]
fn both_deparsers_make_digests() {
    let mut pipeline = load(
        "send_to_port(ostd, (PortId_t) 3);",
        "if (hdr.h.op == 1) { learned.pack({ hdr.h.b, istd.egress_port }); }",
        "",
        "gone.pack({ hdr.h.b + 1, edstd.egress_port });",
    );
    let names: Vec<String> = pipeline.digests().map(str::to_owned).collect();
    assert_eq!(names, ["IngressDeparse.learned", "EgressDeparse.gone"]);
    let (_, mut packet) = ingress(&mut pipeline, &FRAME, Instance::Normal);
    assert_eq!(packet.digest(), Some((0, vec![Value::from(3u64), Value::from(3u64)])));
    egress(&mut pipeline, &mut packet, Instance::Normal, 3);
    assert_eq!(packet.digest(), Some((1, vec![Value::from(4u64), Value::from(3u64)])));
    let mut frame = FRAME;
    frame[0] = 2;
    assert_eq!(ingress(&mut pipeline, &frame, Instance::Normal).1.digest(), None);
}

#[test]
fn a_deparser_runs_for_a_packet_or_a_clone_only() {
    let mut pipeline = load(
        "ostd.clone = hdr.h.op == 1; ostd.clone_session_id = (CloneSessionId_t) 17;",
        "learned.pack({ hdr.h.b, istd.egress_port });",
        "",
        "",
    );
    let (outcome, packet) = ingress(&mut pipeline, &FRAME, Instance::Normal);
    assert_eq!(outcome, Ingress { verdict: Verdict::Drop, resubmit: false });
    assert_eq!(packet.clone_session(), Some(17));
    assert!(packet.has_digest());
    let mut frame = FRAME;
    frame[0] = 2;
    let (outcome, packet) = ingress(&mut pipeline, &frame, Instance::Normal);
    assert_eq!(outcome, Ingress { verdict: Verdict::Drop, resubmit: false });
    assert_eq!((packet.clone_session(), packet.has_digest()), (None, false));
}

#[test]
fn a_clone_is_cut_before_egress_and_has_the_class_of_its_session() {
    let mut pipeline = load(
        "ostd.clone = true; hdr.h.b = 0x7777;
         ostd.class_of_service = (ClassOfService_t) 9;
         send_to_port(ostd, (PortId_t) 3);",
        "if (psa_clone_i2e(istd)) { i2e.word = 0x01020304; i2e.byte = 5; }",
        "hdr.h.c = meta.x; hdr.h.a = meta.y;
         hdr.h.b = (bit<16>) (ClassOfServiceUint_t) istd.class_of_service;",
        "",
    );
    let (_, mut packet) = ingress(&mut pipeline, &FRAME, Instance::Normal);
    let input = IngressInput { port: 5, time_us: 7, instance: Instance::Normal };
    let mut clone = pipeline.new_packet();
    pipeline.clone_of_ingress(&mut clone, &packet, &FRAME, &input);
    clone.set_limit(9);
    clone.set_class_of_service(4);
    let mut copy = pipeline.new_packet();
    copy.copy_from(&clone);
    let (_, frame) = egress(&mut pipeline, &mut copy, Instance::IngressClone, 3);
    assert_eq!(frame, [1, 5, 0, 4, 1, 2, 3, 4, 0xaa]);
    let (_, frame) = egress(&mut pipeline, &mut packet, Instance::Normal, 3);
    assert_eq!(frame, [1, 0, 0, 9, 0, 0, 0, 0, 0xaa, 0xbb]);
}

#[test]
fn recirculated_and_resubmitted_packets_take_only_their_own_metadata() {
    let mut pipeline = load(
        "hdr.h.c = meta.x; hdr.h.a = meta.y;
         send_to_port(ostd, (PortId_t) 3);
         ostd.resubmit = istd.packet_path == PSA_PacketPath_t.NORMAL;",
        "if (psa_resubmit(istd)) { again.word = 0x11111111; again.byte = 1; }",
        "hdr.h.b = hdr.h.b + 1;",
        "if (psa_recirculate(istd, edstd)) { around.word = 0x22222222; around.byte = 2; }",
    );
    let (first, mut packet) = ingress(&mut pipeline, &FRAME, Instance::Normal);
    assert!(first.resubmit);
    let input = IngressInput { port: 5, time_us: 8, instance: Instance::Resubmitted };
    let second = pipeline.ingress(&mut packet, &FRAME, &input);
    assert_eq!(second, Ingress { verdict: Verdict::Unicast(3), resubmit: false });
    let (outcome, frame) =
        egress(&mut pipeline, &mut packet, Instance::Normal, PSA_RECIRCULATION_PORT);
    assert_eq!(outcome, Egress { drop: false, recirculate: true });
    assert_eq!(frame, [1, 1, 0, 4, 0x11, 0x11, 0x11, 0x11, 0xaa, 0xbb]);
    let port = PSA_RECIRCULATION_PORT;
    let input = IngressInput { port, time_us: 9, instance: Instance::Recirculated };
    pipeline.ingress(&mut packet, &frame, &input);
    let (outcome, frame) = egress(&mut pipeline, &mut packet, Instance::Normal, 3);
    assert_eq!(outcome, Egress { drop: false, recirculate: false });
    assert_eq!(frame, [1, 2, 0, 5, 0x22, 0x22, 0x22, 0x22, 0xaa, 0xbb]);
}

#[test]
fn a_failed_assertion_leaves_nothing_behind() {
    let mut pipeline = load(
        "ostd.clone = true; send_to_port(ostd, (PortId_t) 3);",
        "learned.pack({ hdr.h.b, istd.egress_port }); assert(hdr.h.op == 1);",
        "",
        "",
    );
    let mut frame = FRAME;
    frame[0] = 2;
    let (outcome, packet) = ingress(&mut pipeline, &frame, Instance::Normal);
    assert_eq!(outcome.verdict, Verdict::Drop);
    assert_eq!((packet.clone_session(), packet.has_digest()), (None, false));
    assert_eq!(ingress(&mut pipeline, &FRAME, Instance::Normal).0.verdict, Verdict::Unicast(3));
}

#[test]
fn what_the_engine_does_not_model_is_refused() {
    let text = source("counts.count(hdr.h.a, 32w9);", "", "", "");
    let text = text.replace("<psa.p4>", "<dpdk/psa.p4>");
    let refused = try_load(&text).expect_err("it has a length of its own");
    assert_eq!(
        refused.to_string(),
        "extern `Counter IngressImpl.counts.count`: a packet length of its own is not supported"
    );
    let text = source("", "sum.add(hdr.h.a[3:0]);", "", "");
    let refused = try_load(&text).expect_err("half a byte");
    assert!(refused.to_string().contains("the values are not whole bytes"), "{refused}");
}
