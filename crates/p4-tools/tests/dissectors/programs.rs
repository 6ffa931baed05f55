//! Programs of the repository.

use std::path::{Path, PathBuf};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tributary_p4::ir::Program;
use tributary_p4::{Sources, compile, compile_text};
use tributary_p4_tools::dissector::{Error, Options, Place, generate};

use crate::agreement::Subject;
use crate::screen::Screen;

/// Random frames for each program.
const FRAMES: u64 = 200;

/// A path from the root of the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn program(file: &Path) -> Program {
    match compile(&Sources::disk(), &file.display().to_string(), &[]) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{}", errors.render(false)),
    }
}

/// A frame whose bytes are often small or equal to each other, so that it meets more of a parser's
/// cases than one with uniform bytes.
fn frame(random: &mut ChaCha8Rng) -> Vec<u8> {
    let length = random.random_range(0..80);
    let byte = |random: &mut ChaCha8Rng| match random.random_range(0..4) {
        0 => random.random(),
        1 => random.random_range(0..4) << random.random_range(0..7),
        _ => random.random_range(0..10),
    };
    (0..length).map(|_| byte(random)).collect()
}

/// The frames of the lines `packet PORT BYTES…` of a packet test.
fn packets(script: &Path) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(script).unwrap_or_default();
    let packets = text.lines().filter_map(|line| line.trim().strip_prefix("packet "));
    let bytes = packets.filter_map(|rest| {
        let digits: String = rest.split_whitespace().skip(1).collect();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        (0..digits.len()).step_by(2).map(byte).collect()
    });
    bytes.collect()
}

#[test]
fn dissectors_of_the_test_programs_show_what_the_switch_extracts() {
    let (mut programs, mut headers, mut early) = (0, 0, Vec::new());
    let folders = ["crates/switch/tests/stf/cases", "crates/p4-tools/tests/differential/programs"];
    let entries = folders.into_iter().flat_map(|folder| std::fs::read_dir(path(folder)).unwrap());
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // The last one is included by others. What those for TNA extract also depends on what a chip puts
    // in front of the frame; those for PSA have no registers as the comparison adds them.
    let is_program = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let other = name.starts_with("tna_") || name.starts_with("psa_");
        file.extension().is_some_and(|end| end == "p4") && name != "common.p4" && !other
    };
    for file in files.iter().filter(is_program) {
        let mut subject = Subject::new(program(file));
        let name = file.file_stem().unwrap().to_str().unwrap();
        if !subject.dissector.gaps.is_empty() {
            early.push(name.to_owned());
        }
        let mut random = ChaCha8Rng::seed_from_u64(programs);
        let frames = (0..FRAMES).map(|_| frame(&mut random));
        for frame in frames.chain(packets(&file.with_extension("stf"))) {
            headers += subject.compare(&frame);
        }
        programs += 1;
    }
    assert!(programs > 60 && headers > 10_000, "{programs} programs, {headers} headers");
    assert_eq!(early, EARLY);
}

/// The test programs whose parsers depend on something that is not in the packet.
const EARLY: [&str; 1] = ["value_sets"];

#[test]
fn dissectors_of_our_programs_hang_on_their_udp_port_and_name_what_is_in_the_header() {
    for architecture in ["v1model", "tna"] {
        for name in ["atp", "esa", "p4inc", "switchml"] {
            let file = path(&format!("p4src/{architecture}/{name}.p4"));
            let program = program(&file);
            let dissector = generate(&program, &Options::for_file(&program.source)).unwrap();
            assert_eq!(dissector.place, Place::Udp(vec![29810]));
            assert_eq!(dissector.gaps, [""; 0]);
            let screen = Screen::new(&dissector.text);
            assert_eq!(screen.registered(), ["udp.port 29810"]);
            let again = generate(&program, &Options::for_file(&program.source)).unwrap();
            assert!(again == dissector, "the same program makes the same dissector");
            for names in ["[4] = \"SWITCHML\"", "[8] = \"ASYNCHRONOUS\""] {
                assert!(dissector.text.contains(names), "{names}");
            }
            for field in ["congested", "overflow", "collided", "resend"] {
                assert!(dissector.text.contains(&format!("{{ \"{field}\", \"{field}\", 1 }}")));
            }
        }
    }
}

/// A small v1model program: headers, the states of the parser, and its declarations.
fn v1model(declarations: &str, headers: &str, states: &str) -> Program {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n{declarations}\nstruct headers_t {{ {headers} }}
         struct metadata_t {{}}
         parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t sm) {{ {states} }}
         control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
         control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
         control Update(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control Emit(packet_out packet, in headers_t hdr) {{ apply {{}} }}
         V1Switch(Parse(), Verify(), In(), Out(), Update(), Emit()) main;"
    );
    match compile_text("small.p4", &text, &[]) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{}", errors.render(false)),
    }
}

#[test]
fn a_field_has_its_place_its_names_and_its_sign() {
    let program = v1model(
        "enum bit<4> colour_t { RED = 1, BLUE = 9 } const bit<16> MAGIC = 0xbeef;
         header h_t { colour_t colour; int<12> low; bit<16> tag; bit<1> a; bit<40> long; bit<7> b; }",
        "h_t h;",
        "state start { packet.extract(hdr.h); transition select(hdr.h.tag) { MAGIC: accept; } }",
    );
    let dissector = generate(&program, &Options::for_file("dir/My Program.p4")).unwrap();
    assert_eq!(dissector.place, Place::Frames);
    let screen = Screen::new(&dissector.text);
    assert_eq!(screen.registered(), ["wtap_encap 1"]);
    let frame = [0x9f, 0xff, 0xbe, 0xef, 0x80, 0, 0, 0, 0, 0x85, 0x77];
    let shown = screen.show(&frame, 0);
    let filters: Vec<_> = shown.lines.iter().map(|line| line.filter.as_str()).collect();
    let expected =
        ["colour", "low", "tag", "a", "long", "b"].map(|field| format!("p4_my_program.h.{field}"));
    assert_eq!(filters[..2], ["p4_my_program", "p4_my_program.h"]);
    assert_eq!(filters[2..], expected);
    let values: Vec<_> =
        shown.lines[2..].iter().map(|line| (line.start, line.length, line.bits.as_str())).collect();
    let long = format!("{}{}", "0".repeat(24), "0000000000000000000000000000000000000001");
    assert_eq!(
        values,
        [
            (0, 1, "1001"),
            (0, 2, "111111111111"),
            (2, 2, "1011111011101111"),
            (4, 1, "1"),
            (4, 6, long.as_str()),
            (9, 1, "0000101"),
        ]
    );
    assert_eq!((shown.used, shown.rest), (11, 1));
    assert_eq!(shown.info, "h: BLUE, low -1, MAGIC, a, b 5");
    assert_eq!(shown.stopped(), None);
    let other = screen.show(&[0; 10], 0);
    assert_eq!(other.stopped(), Some("no case of the parser's select matches"));
    let short = screen.show(&[0; 9], 0);
    assert_eq!((short.used, short.lines.len()), (0, 0));
}

#[test]
fn values_of_our_packets_are_shown_with_their_signs() {
    let program = v1model(
        "header values_t { bit<32> v0; bit<8> v1; } header h_t { bit<32> plain; }",
        "values_t values; h_t h;",
        "state start { packet.extract(hdr.h); packet.extract(hdr.values); transition accept; }",
    );
    let dissector = generate(&program, &Options::for_file("sign.p4")).unwrap();
    let is_signed = |field: &str| {
        let line = dissector.text.lines().find(|line| line.contains(&format!("\"{field}\", ")));
        line.unwrap_or_else(|| panic!("{field}: {}", dissector.text)).contains("signed = true")
    };
    assert_eq!(["v0", "v1", "plain"].map(is_signed), [true, true, false]);
    let frame = [0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xfe, 0x80];
    let shown = Screen::new(&dissector.text).show(&frame, 0);
    assert_eq!(shown.info, "values: v0 -2, v1 -128");
}

#[test]
fn what_is_not_in_the_packet_ends_the_dissection_with_the_reason() {
    let program = v1model(
        "header h_t { bit<8> kind; } header next_t { bit<8> x; }",
        "h_t h; next_t n;",
        "value_set<bit<8>>(4) known;
         state start { packet.extract(hdr.h);
           transition select(hdr.h.kind) { 1: port; 2: next; known: next; default: accept; } }
         state port { transition select(sm.ingress_port) { 1: next; default: accept; } }
         state next { packet.extract(hdr.n); transition accept; }",
    );
    let dissector = generate(&program, &Options::for_file("gap.p4")).unwrap();
    assert_eq!(
        dissector.gaps,
        [
            "state `start` depends on the value set `Parse.known`, which is not in the packet",
            "state `port` depends on `ingress_port`, which is not in the packet",
        ]
    );
    let screen = Screen::new(&dissector.text);
    let stopped = |kind| screen.show(&[kind, 7, 7], 0).stopped().map(str::to_owned);
    assert_eq!(stopped(1).unwrap(), dissector.gaps[1]);
    assert_eq!(stopped(2), None);
    assert_eq!(stopped(3).unwrap(), dissector.gaps[0]);
}

#[test]
fn payloads_are_shown_where_the_parser_gets_to_them() {
    let program = v1model(
        "header e_t { bit<96> addresses; bit<16> kind; } header own_t { bit<16> x; }",
        "e_t e; own_t own;",
        "state start { packet.extract(hdr.e);
           transition select(hdr.e.kind) { 0x88b5: own; default: accept; } }
         state own { packet.extract(hdr.own); transition accept; }",
    );
    let options = Options { place: Some(Place::EtherType(0x88b5)), ..Options::for_file("own.p4") };
    let dissector = generate(&program, &options).unwrap();
    let screen = Screen::new(&dissector.text);
    assert_eq!(screen.registered(), ["ethertype 34997"]);
    let mut frame = vec![0; 12];
    frame.extend([0x88, 0xb5, 1, 2, 3]);
    let shown = screen.show(&frame, 14);
    let filters: Vec<_> =
        shown.lines.iter().map(|line| (line.filter.as_str(), line.start)).collect();
    assert_eq!(filters, [("p4_own", 14), ("p4_own.own", 14), ("p4_own.own.x", 14)]);
    assert_eq!((shown.used, shown.rest), (3, 1));
    // The parser accepts this frame without the header, so it is not ours.
    frame[13] = 0;
    assert_eq!(screen.show(&frame, 14).used, 0);
}

#[test]
fn names_that_wireshark_refuses_are_refused() {
    let program = v1model("", "", "state start { transition accept; }");
    for name in ["", "P4", "4p", "a b", "a.b"] {
        let options = Options { name: name.into(), place: None };
        assert_eq!(generate(&program, &options), Err(Error::Name(name.into())));
    }
    assert_eq!(generate(&Program::default(), &Options::for_file("a.p4")), Err(Error::NoParser));
}
