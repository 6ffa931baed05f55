//! Small programs, one for each thing that a search must master.

use libtest_mimic::{Failed, Trial};
use tributary_p4::{Compilation, Sources};
use tributary_p4_tools::testgen::{Error, Generated, GoalKind, Subject, generate, mutants};
use tributary_switch::stf::Script;

use super::{options, scripts};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 8] = [
        ("a_wide_constant_is_found", wide_constant),
        ("what_no_packet_reaches_is_reported_with_its_line", unreachable),
        ("packets_in_sequence_fill_a_register", sequence),
        ("hashes_and_checksums_are_solved", hashes),
        ("conditions_that_assign_are_chosen_together", merged),
        ("the_seed_determines_the_tests", seeds),
        ("mutants_fail_a_test", mutation),
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
    let text =
        program("", "if (hdr.h.a == 1) { s.egress_spec = 1; }\nif (hdr.h.b > 7) { hdr.h.c = 1; }");
    let (subject, _) = compile(&text)?;
    let texts = |seed| -> Vec<String> {
        let options = tributary_p4_tools::testgen::Options { seed, ..options(200) };
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

fn architecture() -> Result<(), Failed> {
    let program = std::path::Path::new(super::ROOT).join("p4src/tna/atp.p4");
    let compiled = tributary_p4::compile(
        &Sources::disk(),
        &program.display().to_string(),
        tributary_p4::Options::marked(&[]),
    );
    let compiled = compiled.map_err(|errors| errors.render(false))?;
    match Subject::new(compiled) {
        Err(error @ Error::Architecture(_)) => {
            assert!(error.to_string().contains("v1model programs only"), "{error}");
            Ok(())
        }
        _ => Err("a program for TNA was to be refused".into()),
    }
}
