//! Dividing a program's packets between cores.

use tributary_dataplane::{IngressInput, Pipeline, ROW_BITS, Undivided, Verdict};
use tributary_p4::{Sources, compile, compile_text};

use super::common;

/// A program whose ingress, egress and declarations are given.
fn program(declarations: &str, ingress: &str, egress: &str) -> Pipeline {
    let start = "state start { packet.extract(hdr.row); transition accept; }";
    load(start, declarations, ingress, egress)
}

/// A program whose parser and ingress are given.
fn with_parser(states: &str, ingress: &str) -> Pipeline {
    load(states, "", ingress, "")
}

fn load(states: &str, declarations: &str, ingress: &str, egress: &str) -> Pipeline {
    let source = format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header row_t {{ bit<32> row; bit<32> other; bit<32> value; }}
struct headers_t {{ row_t row; row_t second; }}
struct meta_t {{ bit<32> at; bit<32> spare; }}
register<bit<32>>(1024) sums;
counter(4, CounterType.packets) received;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    {states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    register<bit<32>>(1024) counts;
    bit<32> found;
    action nothing() {{ }}
    action at(bit<32> place) {{ meta.at = place; }}
    action visit(in bit<32> place) {{ counts.read(found, place); counts.write(place, found + 1); }}
    {declarations}
    apply {{ {ingress} std.egress_spec = 1; }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    bit<32> found;
    apply {{ {egress} }}
}}
control U(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.row); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#
    );
    let compiled = compile_text("division.p4", &source, &[]);
    let compiled = compiled.unwrap_or_else(|errors| panic!("{}\n{source}", errors.render(false)));
    common::load(compiled.program).unwrap()
}

const SUM: &str = "sums.read(found, hdr.row.row); sums.write(hdr.row.row, found + hdr.row.value);";

/// The core to which a packet of row `row` belongs, of three. Its other field is another row.
fn owner(pipeline: &mut Pipeline, row: u32) -> u16 {
    let frame: Vec<u8> = [row, row ^ 64, 1].into_iter().flat_map(u32::to_be_bytes).collect();
    let mut packet = pipeline.new_packet();
    let mut owners = (0..3).filter(|&core| {
        pipeline.divide(core, 3).unwrap();
        let verdict = pipeline.ingress(&mut packet, &frame, &IngressInput::default()).verdict;
        verdict == Verdict::Unicast(1)
    });
    let owner = owners.next().expect("a core has it");
    assert_eq!(owners.next(), None, "no other core has it");
    owner
}

#[test]
fn a_packet_belongs_to_the_core_of_its_row_only() {
    let moved = "meta.at = hdr.row.row; meta.spare = meta.at;
        sums.read(found, meta.spare); sums.write(meta.at, found + 1);";
    let changed_afterwards = &format!("{SUM} hdr.row.row = hdr.row.row + 1;");
    let branches = &format!("if (hdr.row.value == 1) {{ {SUM} }} else {{ visit(hdr.row.row); }}");
    let behind_exit = &format!("if (hdr.row.value == 7) {{ exit; }} {SUM}");
    for ingress in [SUM, moved, changed_afterwards, branches, behind_exit, "visit(hdr.row.row);"] {
        let mut pipeline = program("", ingress, "");
        for row in [0, 1, 63, 64, 100, 128, 191, 192, 1023] {
            assert_eq!(u32::from(owner(&mut pipeline, row)), (row >> ROW_BITS) % 3, "{ingress}");
        }
    }
}

#[test]
fn without_registers_packets_are_processed_where_they_arrive() {
    let mut pipeline = program("", "meta.at = hdr.row.row;", "");
    for core in 0..3 {
        pipeline.divide(core, 3).unwrap();
        let mut packet = pipeline.new_packet();
        let verdict = pipeline.ingress(&mut packet, &[0xff; 12], &IngressInput::default()).verdict;
        assert_eq!(verdict, Verdict::Unicast(1));
    }
}

#[test]
fn a_register_at_any_other_index_makes_it_impossible() {
    let table = "table t { key = { hdr.row.value: exact; } actions = { at; nothing; } }";
    let visiting = "table t { key = { hdr.row.value: exact; } actions = { inc; nothing; } }";
    let inc = "action inc(bit<32> n) { sums.read(found, n); sums.write(n, found + 1); }";
    for (declarations, ingress, egress, register) in [
        ("", "sums.read(found, 5);", "", "sums"),
        ("", "sums.read(found, hdr.row.row + 1);", "", "sums"),
        ("", "sums.read(found, hdr.row.row & 1023);", "", "sums"),
        // Two fields, each of one register.
        ("", &format!("{SUM} visit(hdr.row.other);"), "", "I.counts"),
        // Changed before the last access, on one path of two.
        ("", &format!("{SUM} if (found == 3) {{ hdr.row.row = 9; }} {SUM}"), "", "sums"),
        (
            "",
            "meta.at = hdr.row.row; if (found == 0) { meta.at = 0; } sums.write(meta.at, 1);",
            "",
            "sums",
        ),
        // The index of an access is the result of another one.
        ("", "sums.read(found, hdr.row.row); sums.write(found, 1);", "", "sums"),
        (
            table,
            &format!("meta.at = hdr.row.row; t.apply(); {}", "sums.write(meta.at, 1);"),
            "",
            "sums",
        ),
        (&format!("{inc} {visiting}"), "t.apply();", "", "sums"),
        // Made valid, its fields are zero; copied from another header, they are that one's.
        ("", &format!("hdr.row.setValid(); {SUM}"), "", "sums"),
        ("", &format!("hdr.row = hdr.second; {SUM}"), "", "sums"),
        (
            "",
            &format!("hash(hdr.row.row, HashAlgorithm.crc16, 16w0, {{ found }}, 32w64); {SUM}"),
            "",
            "sums",
        ),
        // Egress may run when other packets have passed, but that is not the reason: the packet's
        // headers may be others by then.
        ("", "", SUM, "sums"),
    ] {
        let mut pipeline = program(declarations, ingress, egress);
        let refused = pipeline.divide(1, 2).unwrap_err();
        assert_eq!(refused, Undivided::Register(register.into()), "{ingress}");
        // Then all packets belong to the first core.
        let mut packet = pipeline.new_packet();
        let verdict = pipeline.ingress(&mut packet, &[0xff; 12], &IngressInput::default()).verdict;
        assert_eq!(verdict, Verdict::Elsewhere(0));
    }
}

#[test]
fn state_that_packets_of_all_cores_change_makes_it_impossible() {
    let metered = "meter(4, MeterType.packets) rate;";
    let refused = program(metered, "rate.execute_meter(32w1, found);", "").divide(0, 2);
    assert_eq!(refused, Err(Undivided::Meter("I.rate".into())));
    let refused = program("", "digest<meta_t>(1, meta);", "").divide(0, 2);
    assert!(matches!(refused, Err(Undivided::Digest(_))), "{refused:?}");
    let counting =
        "state start { packet.extract(hdr.row); received.count(32w0); transition accept; }";
    let reading =
        "state start { packet.extract(hdr.row); sums.read(meta.at, 0); transition accept; }";
    for parser in [counting, reading] {
        let mut pipeline = with_parser(parser, SUM);
        assert_eq!(pipeline.divide(0, 2), Err(Undivided::Parser), "{parser}");
    }
    let ages = "table t { key = { hdr.row.value: exact; } actions = { nothing; }
        support_timeout = true; }";
    let refused = program(ages, "t.apply();", "").divide(0, 2);
    assert_eq!(refused, Err(Undivided::Ages("I.t".into())));
}

/// Every program of this repository, for both architectures.
#[test]
fn our_programs_can_be_divided() {
    for architecture in ["v1model", "tna"] {
        for name in ["atp", "esa", "p4inc", "switchml"] {
            let path =
                format!("{}/../../p4src/{architecture}/{name}.p4", env!("CARGO_MANIFEST_DIR"));
            let compiled = compile(&Sources::disk(), &path, &[]).unwrap();
            let mut pipeline = Pipeline::load(compiled.program).unwrap();
            assert_eq!(pipeline.divide(1, 2), Ok(()), "{path}");
            let mut packet = pipeline.new_packet();
            for row in [0_u32, 63, 64, 127, 128] {
                let mut frame = common::atp::gradient(0, 7, row, &[1; 64]);
                frame.resize(1400, 0);
                let verdict =
                    pipeline.ingress(&mut packet, &frame, &IngressInput::default()).verdict;
                let elsewhere = verdict == Verdict::Elsewhere(0);
                assert_eq!(elsewhere, (row >> ROW_BITS).is_multiple_of(2), "{path}: row {row}");
            }
        }
    }
}
