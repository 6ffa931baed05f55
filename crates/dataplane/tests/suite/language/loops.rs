//! `for`, `break`, `continue`.

use std::time::{Duration, Instant};

use tributary_dataplane::{EngineKind, Pipeline};
use tributary_p4::compile_text;

use super::{Source, apply_gives};

#[test]
fn three_part_loops_count_break_and_continue() {
    apply_gives(
        "",
        "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) {
            if (i == 1) { continue; }
            if (i == 5) { break; }
            hdr.h.b = hdr.h.b + i;
            hdr.h.c += 1;
        }",
        &[
            (&[0, 9, 0, 0], &[0, 9, 0, 0]),
            (&[2, 0, 0, 0], &[2, 0, 1, 0]),
            (&[4, 0, 0, 0], &[4, 5, 3, 0]),
            (&[200, 0, 0, 0], &[200, 9, 4, 0]),
        ],
    );
}

#[test]
fn a_loop_may_have_several_variables_or_none() {
    apply_gives(
        "",
        "bit<8> n = 0;
        for (bit<8> i = 0, bit<8> bit_of = 1; i < 8; i = i + 1, bit_of = bit_of << 1) {
            if (hdr.h.a & bit_of != 0) { n = n + 1; }
        }
        for (; n < hdr.h.b;) { n = n * 2; hdr.h.c = hdr.h.c + 1; }
        hdr.h.d = n;",
        &[(&[0b1011, 20, 0, 0], &[0b1011, 20, 3, 24]), (&[1, 1, 7, 0], &[1, 1, 7, 1])],
    );
}

#[test]
fn ranges_include_both_ends_and_are_evaluated_once() {
    apply_gives(
        "",
        "for (bit<8> i in hdr.h.a .. hdr.h.b) {
            hdr.h.b = 0;
            hdr.h.c = hdr.h.c + 1;
            hdr.h.d = i;
            i = 200;
        }",
        &[
            (&[250, 255, 0, 0], &[250, 0, 6, 255]),
            (&[3, 3, 0, 0], &[3, 0, 1, 3]),
            (&[4, 3, 0, 9], &[4, 3, 0, 9]),
        ],
    );
}

#[test]
fn signed_ranges_go_from_negative_to_positive() {
    apply_gives(
        "",
        "int<8> sum = 0;
        for (int<8> i in (int<8>)hdr.h.a .. 2) { sum = sum + i; hdr.h.b = hdr.h.b + 1; }
        hdr.h.c = (bit<8>)sum;",
        &[(&[0xfd, 0, 0, 0], &[0xfd, 6, 0xfd, 0])],
    );
}

#[test]
fn lists_and_stacks_are_iterated_in_order() {
    let mut program = Source {
        types: "header e_t { bit<8> v; }",
        headers: "e_t[3] s;",
        states: "state next { p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; }",
        apply: "for (e_t e in hdr.s) {
                if (!e.isValid()) { hdr.h.b = 7; break; }
                if (e.v == 0) { continue; }
                hdr.h.a = hdr.h.a + e.v;
            }
            for (bit<8> v in (list<bit<8>>){ 1, hdr.h.c, 4 }) { hdr.h.c = v; hdr.h.d = hdr.h.d + v; }",
        ..Source::default()
    }
    .load();
    program.gives(&[1, 2, 3, 0, 10, 20], &[31, 7, 4, 8, 10, 20]);
    program.gives(&[1, 2, 3, 0, 0, 20, 9], &[21, 7, 4, 8, 0, 20, 9]);
}

#[test]
fn a_return_leaves_all_loops_and_loops_nest() {
    let mut program = Source {
        types: "bit<8> root(in bit<8> of) {
            for (bit<8> a in 0 .. 15) {
                for (bit<8> b in 0 .. 15) {
                    if (a != b) { continue; }
                    if (a * b == of) { return a; }
                    break;
                }
            }
            return 255;
        }",
        locals: "action twice() { for (bit<8> i = 0; i < 2; i = i + 1) { hdr.h.b = hdr.h.b + 1; } }
            action find() { hdr.h.c = root(hdr.h.a); }",
        apply: "twice(); find(); for (bit<8> i in 1 .. 3) { twice(); }",
        ..Source::default()
    }
    .load();
    program.gives(&[0, 0, 9, 1], &[0, 8, 0, 1]);
    program.gives(&[49, 0, 9, 1], &[49, 8, 7, 1]);
    program.gives(&[50, 0, 9, 1], &[50, 8, 255, 1]);
}

#[test]
fn an_endless_loop_drops_its_packet_and_affects_no_other() {
    let apply = "for (; hdr.h.a != 0;) { hdr.h.b = 1; }";
    let mut program = Source { apply, ..Source::default() }.load();
    assert_eq!(program.pass(&[1, 0, 0, 0]), None);
    program.gives(&[0, 0, 0, 0], &[0, 0, 0, 0]);
    let all = "for (bit<8> i in 0 .. 255) { for (bit<8> j in 0 .. 255) { hdr.h.a = i ^ j; } }";
    apply_gives("", all, &[(&[9, 9, 9, 9], &[0, 9, 9, 9])]);
}

/// Number of iterations of an expensive loop before its packet is dropped, in both engines.
fn turns_until_dropped(meta: &str, body: &str) -> u32 {
    let locals = "register<bit<32>>(1) turns;";
    let apply = format!(
        "bit<32> n;
        if (hdr.h.a == 0) {{
            turns.read(n, 0);
            hdr.h.a = n[31:24]; hdr.h.b = n[23:16]; hdr.h.c = n[15:8]; hdr.h.d = n[7:0];
        }} else {{
            for (bit<32> i in 1 .. 1000000) {{ turns.write(0, i); {body} }}
        }}"
    );
    let mut program = Source { meta, locals, apply: &apply, ..Source::default() }.load();
    let [interpreted, compiled] = [EngineKind::Interpreter, EngineKind::Compiled].map(|engine| {
        program.pipeline.use_engine(engine);
        let started = Instant::now();
        assert_eq!(program.pass(&[1, 0, 0, 0]), None, "{body}");
        println!("{engine:?}, {body}: {:?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let turns = program.pass(&[0, 0, 0, 0]).unwrap();
        u32::from_be_bytes(turns.try_into().unwrap())
    });
    assert_eq!(interpreted, compiled, "{body}");
    compiled
}

#[test]
fn an_expensive_loop_ends_early_at_the_same_iteration_in_both_engines() {
    let wide = "bit<65528> y; bit<64> z;";
    let multiplied = turns_until_dropped(wide, "meta.y = meta.y * meta.y + 3;");
    assert!((100..1000).contains(&multiplied), "{multiplied}");
    assert!(turns_until_dropped(wide, "meta.y = meta.y / 3;") < 10);
    let hash = "hash(meta.z, HashAlgorithm.crc32, 16w0, { meta.y, meta.y }, 16w100);";
    let hashed = turns_until_dropped(wide, hash);
    assert!((1000..10_000).contains(&hashed), "{hashed}");
    let both = turns_until_dropped(wide, &(hash.to_owned() + hash));
    assert!(both <= hashed / 2 + 1, "{both} {hashed}");
    // The work of called code and of inner loops counts for the outer loop.
    let inner = "for (bit<8> j in 1 .. 100) { meta.y = meta.y * meta.y; }";
    assert!(turns_until_dropped(wide, inner) < 10);
}

#[test]
fn more_work_than_a_packet_may_take_is_refused() {
    let apply = "meta.y = meta.y * meta.y;".repeat(500);
    let source = Source { meta: "bit<65528> y;", apply: &apply, ..Source::default() };
    let program = compile_text("t.p4", &source.text(), &[]).unwrap().program;
    let error = Pipeline::load(program).unwrap_err();
    assert_eq!(error.to_string(), "the program's work for one packet exceeds the engine's limit");
}
