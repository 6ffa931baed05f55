//! Programs printed after each pass.

use std::path::{Path, PathBuf};

use tributary_p4::{Pass, Sources, dump};

use crate::common::program;

/// All programs of the packet tests, and ours.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["crates/switch/tests/stf/cases", "p4src/v1model", "p4src/tna"] {
        for entry in root.join(folder).read_dir().expect("the folder is part of the sources") {
            let path = entry.expect("it can be listed").path();
            if path.extension().is_some_and(|e| e == "p4") {
                all.push(path);
            }
        }
    }
    all.sort();
    assert!(all.len() > 40, "{} programs", all.len());
    all
}

fn printed(sources: &Sources, main: &str, pass: Pass) -> String {
    dump(sources, main, &[], pass).unwrap_or_else(|errors| panic!("{main}: {errors}"))
}

/// The text of a program around these parts, after a pass.
fn of(declarations: &str, locals: &str, apply: &str, pass: Pass) -> String {
    let sources = Sources::embedded().embed("main.p4", program(declarations, locals, apply));
    printed(&sources, "main.p4", pass)
}

fn has_lines(text: &str, wanted: &[&str]) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for line in wanted {
        assert!(lines.contains(line), "there is no line `{line}` in\n{text}");
    }
}

#[test]
fn every_pass_prints_every_program_in_the_same_way_each_time() {
    for path in programs() {
        let name = path.display().to_string();
        for pass in Pass::ALL {
            let text = printed(&Sources::disk(), &name, pass);
            assert!(text.lines().count() > 10, "{name}: {text}");
            assert!(text == printed(&Sources::disk(), &name, pass), "{name} after {}", pass.name());
        }
    }
}

#[test]
fn typed_programs_show_widths_and_conversions() {
    let locals = "
        action put(bit<8> by) { meta.z = by; }
        table t { key = { hdr.h.a: exact; } actions = { put; } }";
    let declarations = "bit<8> half(in bit<8> of) { return of >> 1; }";
    let text = of(declarations, locals, "t.apply(); meta.z = half(3) + 1;", Pass::Typed);
    has_lines(
        &text,
        &[
            "bit<8> half(in bit<8> of) {",
            "action put(bit<8> by) {",
            "key hdr.h.a = hdr.h.a: bit<32>, exact;",
            "t.apply();",
            "meta.z = half(8w3) + 8w1;",
        ],
    );
}

#[test]
fn the_ir_shows_storage_actions_and_statements_in_full() {
    let sum = (0..60).map(|i| format!("hdr.h.a + {i}")).collect::<Vec<_>>().join(" + ");
    let locals = "register<bit<32>>(8) r; action put(bit<8> by) { meta.z = by; }
        table t { key = { hdr.h.a: ternary; } actions = { put; } size = 9; }";
    let apply = format!("t.apply(); meta.x = {sum}; r.write(1, meta.x);");
    let text = of("", locals, &apply, Pass::Ir);
    has_lines(
        &text,
        &[
            "header hdr.h: h_t {",
            "extern register<bit<32>>(8) I.r;",
            "action I.put(bit<8> I.put.by) {",
            "key hdr.h.a = hdr.h.a: ternary;",
            "size = 9;",
            "I.t.apply();",
            "I.r.write(1, meta.x);",
        ],
    );
    assert!(text.contains("+ hdr.h.a + 59") || text.contains("+ 59;"), "{text}");
}

#[test]
fn errors_are_those_of_the_passes_before() {
    let wrong = program("", "", "meta.x = nothing;");
    let sources = Sources::embedded().embed("main.p4", wrong);
    for pass in Pass::ALL {
        assert!(dump(&sources, "main.p4", &[], pass).is_err(), "{}", pass.name());
    }
    assert!(Pass::named("typed").is_some() && Pass::named("list").is_none());
}
