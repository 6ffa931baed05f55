//! Small programs, one for each thing that a search must master.

use libtest_mimic::{Failed, Trial};
use tributary_p4::{Compilation, Sources};
use tributary_p4_tools::testgen::{Error, Generated, GoalKind, Subject, generate, mutants};
use tributary_switch::stf::Script;

use super::{options, scripts};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 14] = [
        ("a_wide_constant_is_found", wide_constant),
        ("what_no_packet_reaches_is_reported_with_its_line", unreachable),
        ("packets_in_sequence_fill_a_register", sequence),
        ("hashes_and_checksums_are_solved", hashes),
        ("conditions_that_assign_are_chosen_together", merged),
        ("the_seed_determines_the_tests", seeds),
        ("mutants_fail_a_test", mutation),
        ("an_entry_hits_with_the_action_of_the_miss", hit_like_miss),
        ("what_follows_a_hit_and_a_selector_is_reached", selector),
        ("a_colour_of_a_meter_is_set", colour),
        ("a_register_is_set_where_packets_do_not_lead", preset),
        ("constants_prove_what_is_unreachable", constants),
        ("later_entries_of_a_table_are_tried", later_entries),
        ("other_architectures_are_refused", architecture),
    ];
    let trial = |(name, test): (&str, Test)| Trial::test(format!("behaviour::{name}"), test);
    tests.into_iter().map(trial).collect()
}

/// A program around the body of its ingress: `hdr.h` has the fields a, b, c, d of 32, 32, 16 and 8
/// bits.
fn program(declarations: &str, body: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header h_t {{ bit<32> a; bit<32> b; bit<16> c; bit<8> d; }}\n\
         struct headers_t {{ h_t h; }}\nstruct meta_t {{ bit<8> x; bit<8> y; bit<8> z; }}\n\
         parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{\n\
         state start {{ p.extract(hdr.h); transition accept; }}\n}}\n\
         control V(inout headers_t hdr, inout meta_t m) {{ apply {{ }} }}\n\
         control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{\n\
         {declarations}\napply {{\n{body}\n}}\n}}\n\
         control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control U(inout headers_t hdr, inout meta_t m) {{ apply {{ }} }}\n\
         control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         V1Switch(P(), V(), I(), E(), U(), D()) main;\n"
    )
}

fn compile(text: &str) -> Result<(Subject, Compilation), String> {
    let sources = Sources::embedded().embed("test.p4", text);
    let marked = tributary_p4::compile(&sources, "test.p4", tributary_p4::Options::marked(&[]));
    let marked = marked.map_err(|errors| errors.render(false))?;
    let plain = tributary_p4::compile(&sources, "test.p4", &[]);
    let plain = plain.map_err(|errors| errors.render(false))?;
    Ok((Subject::new(marked).map_err(|error| error.to_string())?, plain))
}

fn search(text: &str, steps: usize) -> Result<(Subject, Compilation, Generated), String> {
    let (subject, plain) = compile(text)?;
    let generated = generate(&subject, &options(steps), &mut |_| {});
    scripts(&subject, &generated)?;
    Ok((subject, plain, generated))
}

/// Fails unless everything is reached.
fn reaches_all(text: &str, steps: usize) -> Result<Generated, Failed> {
    let (_, _, generated) = search(text, steps)?;
    let report = generated.report();
    if report.uncovered.is_empty() && report.total().of > 5 {
        Ok(generated)
    } else {
        Err(report.text(&|_| None).into())
    }
}

fn wide_constant() -> Result<(), Failed> {
    // One of 2^64 values, behind arithmetic: chance would not find it.
    let body = "if ((hdr.h.a ++ hdr.h.b) * 3 == 64w0x123456789abcdef0) { s.egress_spec = 1; }\n\
                else if (hdr.h.a - hdr.h.b == 32w77 && hdr.h.a[3:0] == 4w9) { s.egress_spec = 2; }";
    reaches_all(&program("", body), 100).map(drop)
}

fn unreachable() -> Result<(), Failed> {
    let body = "if (hdr.h.a == 5) {\nif (hdr.h.a == 6) {\ns.egress_spec = 1;\n}\n}";
    let text = program("", body);
    let (_, _, generated) = search(&text, 300)?;
    let report = generated.report();
    let line = text.lines().position(|line| line == "s.egress_spec = 1;").map(|at| at as u32 + 1);
    let found = report.uncovered.iter().any(|goal| {
        goal.kind == GoalKind::Statement
            && goal.line == line
            && goal.file.as_deref() == Some("test.p4")
    });
    let statements = report.share(GoalKind::Statement);
    if found && report.uncovered.len() == 2 && statements.covered + 1 == statements.of {
        Ok(())
    } else {
        Err(report.text(&|_| None).into())
    }
}

fn sequence() -> Result<(), Failed> {
    let declarations = "register<bit<32>>(8) sums;\nregister<bit<8>>(8) counts;";
    let body = "bit<8> n;\nbit<32> sum;\ncounts.read(n, (bit<32>) hdr.h.d[2:0]);\n\
                sums.read(sum, (bit<32>) hdr.h.d[2:0]);\n\
                counts.write((bit<32>) hdr.h.d[2:0], n + 1);\n\
                sums.write((bit<32>) hdr.h.d[2:0], sum + hdr.h.a);\n\
                if (n == 2) {\nif (sum + hdr.h.a == 0x600dcafe && hdr.h.a != 0x600dcafe) {\n\
                s.egress_spec = 3;\n}\n}";
    let generated = reaches_all(&program(declarations, body), 1500)?;
    let longest = generated.tests.iter().map(|t| t.text.matches("\npacket ").count()).max();
    if longest >= Some(2) { Ok(()) } else { Err("a sequence of packets was to be found".into()) }
}

fn hashes() -> Result<(), Failed> {
    let body = "bit<16> h;\nhash(h, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.c }, 32w0x10000);\n\
                if (h == 0xbeef) { s.egress_spec = 1; }\n\
                bit<16> sum;\nhash(sum, HashAlgorithm.csum16, 16w0, { hdr.h.a, hdr.h.b }, 32w0x10000);\n\
                if (sum == hdr.h.c) { s.egress_spec = 2; }\n\
                bit<32> long;\nhash(long, HashAlgorithm.crc32, 32w0, { hdr.h.b }, 33w0x100000000);\n\
                if (long == 0x01020304) { s.egress_spec = 3; }";
    reaches_all(&program("", body), 200).map(drop)
}

fn merged() -> Result<(), Failed> {
    // An entry that needs five earlier conditions at once.
    let declarations = "action to(bit<9> port) { s.egress_spec = port; }\naction other() { }\n\
                        table t {\nkey = { m.x: exact; m.y: exact; m.z: ternary; }\n\
                        actions = { to; other; }\nconst default_action = other();\n\
                        const entries = { (3, 7, 5 &&& 0xff): to(9); }\n}";
    let body = "if (hdr.h.a == 1) { m.x = 1; }\nif (hdr.h.b == 2) { m.x = m.x | 2; }\n\
                if (hdr.h.c == 3) { m.y = 7; } else { m.y = 1; }\n\
                if (hdr.h.d > 200) { m.z = 4; }\nif (hdr.h.d < 203) { m.z = m.z | 1; }\nt.apply();";
    reaches_all(&program(declarations, body), 100).map(drop)
}

fn seeds() -> Result<(), Failed> {
    // With entries, several packets, registers and meters.
    let declarations = "register<bit<8>>(4) counts;\nmeter(4, MeterType.packets) rates;\nbit<8> n;\nbit<2> colour;\n\
                        action to(bit<9> port) { s.egress_spec = port; }\naction mark(bit<8> x) { m.x = x; }\n\
                        table t { key = { hdr.h.a: exact; } actions = { to; mark; } }";
    let body = "t.apply();\ncounts.read(n, 2);\ncounts.write(2, n + m.x);\n\
                rates.execute_meter(1, colour);\nif (n == 77) { hdr.h.c = 1; }\n\
                if (colour == 2) { hdr.h.c = 2; }\nif (n > 200 && hdr.h.b > 7) { hdr.h.c = 3; }\n\
                if (n == 5 && n == 6) { hdr.h.c = 4; }";
    let text = program(declarations, body);
    let (subject, _) = compile(&text)?;
    let texts = |seed| -> Vec<String> {
        let options = tributary_p4_tools::testgen::Options { seed, ..options(700) };
        generate(&subject, &options, &mut |_| {}).tests.into_iter().map(|test| test.text).collect()
    };
    assert_eq!(texts(1), texts(1), "the same seed gives the same tests");
    assert_ne!(texts(1), texts(2), "another seed gives others");
    Ok(())
}

fn mutation() -> Result<(), Failed> {
    let declarations = "action to(bit<9> port) { s.egress_spec = port; hdr.h.b = hdr.h.b + 1; }\n\
                        action drop() { mark_to_drop(s); }\n\
                        table t { key = { hdr.h.a: exact; } actions = { to; drop; }\n\
                        default_action = drop; }";
    let body = "if (hdr.h.c == 0x0800) { t.apply(); } else { hdr.h.d = 9; }";
    let (_, plain, generated) = search(&program(declarations, body), 200)?;
    let tests: Vec<Script> = generated
        .tests
        .iter()
        .map(|test| Script::parse(&test.text).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let score = mutants::score(&plain, &tests, 1000, 1, &mut |_, _| {})?;
    assert!(score.of >= 12, "{score:?}");
    assert_eq!(score.killed, score.of, "{score:?}");
    // Without tests, none is noticed: the score can be low.
    let none = mutants::score(&plain, &[], 1000, 1, &mut |_, _| {})?;
    assert_eq!((none.killed, none.of, none.survivors.len()), (0, score.of, score.of));
    // Tests that fail on the program itself prove nothing about mutants.
    let wrong = Script::parse("packet 0 00\nexpect 5 77 $\n").map_err(|error| error.to_string())?;
    assert!(mutants::score(&plain, &[wrong], 10, 1, &mut |_, _| {}).is_err());
    Ok(())
}

/// A table whose only action is also that of a miss, with other data: only a hit leads further, and only
/// with some data.
fn hit_like_miss() -> Result<(), Failed> {
    let declarations = "action side(bit<8> way) { m.x = way; }\n\
                        table known { key = { hdr.h.d: exact; } actions = { NoAction; } }\n\
                        table sides { key = { hdr.h.a: lpm; } actions = { side; }\n\
                        const default_action = side(0); }";
    let body = "if (!known.apply().hit) { return; }\nif (sides.apply().hit) {\n\
                if (m.x == 1) { s.egress_spec = 1; }\nelse if (m.x == 2) { s.egress_spec = 2; }\n\
                else { mark_to_drop(s); }\n}";
    reaches_all(&program(declarations, body), 100).map(drop)
}

/// A table with a selector behind hits of two others.
fn selector() -> Result<(), Failed> {
    let declarations = "action side(bit<8> way) { m.x = way; }\naction leave(bit<9> port) { s.egress_spec = port; }\n\
         table known { key = { hdr.h.d: exact; } actions = { NoAction; } }\n\
         table sides { key = { hdr.h.a: lpm; } actions = { side; } const default_action = side(0); }\n\
         table ways { key = { hdr.h.b: lpm; hdr.h.c: selector; } actions = { leave; }\n\
         @name(\"spread\") implementation = action_selector(HashAlgorithm.crc16, 32w64, 32w16); }";
    let body = "if (!known.apply().hit) { return; }\nif (sides.apply().hit) {\n\
                if (m.x == 7) { hdr.h.c = 1; }\n\
                if (ways.apply().hit) { hdr.h.d = 8; } else { hdr.h.d = 9; }\n}";
    reaches_all(&program(declarations, body), 400).map(drop)
}

fn colour() -> Result<(), Failed> {
    let declarations = "meter(8, MeterType.bytes) rates;\nbit<2> colour = 0;";
    let body = "rates.execute_meter((bit<32>) hdr.h.d[2:0], colour);\n\
                if (colour == 2) { mark_to_drop(s); }\nelse if (colour == 1) { s.egress_spec = 2; }";
    let generated = reaches_all(&program(declarations, body), 2000)?;
    assert!(generated.statistics.preset > 0, "rates were set");
    // Without them, every packet is green.
    let (subject, _) = compile(&program(declarations, body))?;
    let options = tributary_p4_tools::testgen::Options { presets: false, ..options(2000) };
    let generated = generate(&subject, &options, &mut |_| {});
    assert_eq!(generated.statistics.preset, 0);
    assert!(!generated.report().uncovered.is_empty());
    Ok(())
}

fn preset() -> Result<(), Failed> {
    // No packet changes the register by as much.
    let declarations = "register<bit<32>>(4) sums;\nbit<32> sum;";
    let body = "sums.read(sum, 3);\nif (sum == 0x12345678) { s.egress_spec = 1; }\n\
                sums.write(3, sum + 1);";
    let generated = reaches_all(&program(declarations, body), 2000)?;
    let set = generated
        .tests
        .iter()
        .any(|test| test.text.lines().any(|line| line == "register_write \"I.sums\" 3 305419896"));
    if set { Ok(()) } else { Err("a test was to write the register".into()) }
}

fn constants() -> Result<(), Failed> {
    let declarations = "action choose(bit<8> what) { m.x = what; }\naction port(bit<9> to) { s.egress_spec = to; }\n\
                        table choices { key = { hdr.h.a: exact; } actions = { choose; }\n\
                        const default_action = choose(1); const entries = { 5: choose(2); 6: choose(4); } }\n\
                        table deeds { key = { m.x: exact; } actions = { port; NoAction; }\n\
                        const default_action = NoAction; const entries = { 2: port(1); 3: port(2); } }";
    let body = "choices.apply();\nif (m.x == 3) { hdr.h.b = 1; }\nif (m.x == 4) { hdr.h.b = 2; }\n\
                deeds.apply();\nif (m.y != 0) { hdr.h.c = 3; }";
    let generated = reaches_all(&program(declarations, body), 100)?;
    // Two sides, and the statement in each.
    assert_eq!(generated.unreachable, 4);
    Ok(())
}

fn later_entries() -> Result<(), Failed> {
    let declarations = "register<bit<8>>(2) kinds;\nbit<8> kind;\n\
                        action one() { kinds.write(0, 1); }\naction two() { kinds.write(1, 2); }\n\
                        action three() { kinds.write(1, 3); }\n\
                        table t { key = { hdr.h.a: ternary; hdr.h.b: ternary; } actions = { one; two; three; }\n\
                        const default_action = three; const entries = {\n\
                        (0 &&& 0xff, _): one(); (_, 0 &&& 0xffff): one(); (77, 9): two(); } }";
    reaches_all(&program(declarations, "t.apply();"), 60).map(drop)
}

fn architecture() -> Result<(), Failed> {
    let program =
        std::path::Path::new(super::ROOT).join("crates/switch/tests/stf/cases/psa_clones.p4");
    let compiled = tributary_p4::compile(
        &Sources::disk(),
        &program.display().to_string(),
        tributary_p4::Options::marked(&[]),
    );
    let compiled = compiled.map_err(|errors| errors.render(false))?;
    match Subject::new(compiled) {
        Err(error @ Error::Architecture(_)) => {
            assert!(error.to_string().contains("v1model and TNA only"), "{error}");
            Ok(())
        }
        _ => Err("a program for PSA was to be refused".into()),
    }
}
