//! The compiler's verdicts on register actions: it accepts those that fit a stateful ALU, and
//! reports for the others what does not fit and where.

use super::samples::{SAMPLES, Verdict};
use super::{compile, program};

#[test]
fn samples_fit_or_are_refused() {
    let mut wrong = Vec::new();
    for sample in SAMPLES {
        let found = compile(&sample.source());
        match (sample.verdict, found) {
            (Verdict::Fits, Ok(_)) => {}
            (Verdict::Fits, Err(d)) => {
                wrong.push(format!("{} is refused:\n{}", sample.name, d.render(false)));
            }
            (Verdict::Refused(why) | Verdict::Stricter(why), Ok(_)) => {
                wrong.push(format!("{} is accepted, not refused as {why}", sample.name));
            }
            (Verdict::Refused(why) | Verdict::Stricter(why), Err(d)) => {
                let fits = |d: &tributary_p4::Diagnostic| {
                    d.message.contains(why) && d.help.is_some() && d.file == "locals"
                };
                if !d.iter().all(fits) {
                    wrong.push(format!("{}, not {why}:\n{}", sample.name, d.render(false)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const COUNTERS: &str = "Register<bit<32>, bit<16>>(16) one;
RegisterAction<bit<32>, bit<16>, bit<32>>(one) up = { void apply(inout bit<32> value, out bit<32> rv) { value = value + 1; rv = value; } };
RegisterAction<bit<32>, bit<16>, bit<32>>(one) down = { void apply(inout bit<32> value, out bit<32> rv) { value = value - 1; rv = value; } };
Register<bit<32>, bit<16>>(16) two;
RegisterAction<bit<32>, bit<16>, bit<32>>(two) other = { void apply(inout bit<32> value, out bit<32> rv) { value = value + 1; rv = value; } };
action go_up() { hdr.d.r = up.execute(hdr.d.index); }
action go_down() { hdr.d.r = down.execute(hdr.d.index); }
action both() { hdr.d.r = up.execute(hdr.d.index); hdr.d.b = other.execute(hdr.d.index); }
action apart() { hdr.d.r = up.execute(hdr.d.index); hdr.d.b = other.execute(hdr.d.c); }
action second() { hdr.d.r = other.execute(hdr.d.index); }
table t { key = { hdr.d.a : exact; } actions = { go_up; go_down; NoAction; } size = 16; }
table u { key = { hdr.d.a : exact; } actions = { go_up; NoAction; } const default_action = NoAction; size = 16; }
";

/// The messages of rejected constructs, with positions.
fn messages(locals: &str, apply: &str) -> Vec<String> {
    match compile(&program("", &format!("{COUNTERS}{locals}"), apply)) {
        Ok(_) => Vec::new(),
        Err(d) => d.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn each_path_touches_a_register_once() {
    let twice = |line: &str| {
        vec![format!("apply:{line}: error: a packet touches register `one` a second time here")]
    };
    let fine = |apply: &str| assert_eq!(messages("", apply), [""; 0], "{apply}");
    fine("t.apply();");
    fine("if (hdr.d.e == 0) { up.execute(0); } else { down.execute(0); }");
    fine("if (!u.apply().hit) { down.execute(0); }");
    fine("switch (t.apply().action_run) { NoAction: { up.execute(0); } }");
    fine("if (hdr.d.e == 0) { up.execute(0); exit; } down.execute(0);");
    fine(
        "switch (hdr.d.e) { 0: { up.execute(0); } 1: { down.execute(0); } default: {} } other.execute(0);",
    );

    assert_eq!(messages("", "up.execute(0); down.execute(1);"), twice("1:16"));
    assert_eq!(
        messages("", "if (hdr.d.e == 0) { up.execute(0); } down.execute(0);"),
        twice("1:38")
    );
    assert_eq!(messages("", "t.apply(); up.execute(0);"), twice("1:12"));
    assert_eq!(messages("", "if (t.apply().miss) { up.execute(0); }").len(), 1);
    assert_eq!(
        messages("", "switch (t.apply().action_run) { go_up: { up.execute(0); } }"),
        twice("1:42")
    );
    // An action of a later table.
    let found = messages("", "t.apply(); u.apply();");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("locals:6:28"), "{found:?}");
    let error = compile(&program("", COUNTERS, "up.execute(0); down.execute(1);")).unwrap_err();
    assert_eq!(error.iter().next().unwrap().notes, ["touched first at apply:1"]);
}

#[test]
fn a_register_lives_in_one_gress() {
    let text = program(
        "Register<bit<32>, bit<16>>(16) shared;
RegisterAction<bit<32>, bit<16>, bit<32>>(shared) bump = { void apply(inout bit<32> value, out bit<32> rv) { value = value + 1; rv = value; } };",
        "",
        "hdr.d.r = bump.execute(0);",
    );
    assert!(compile(&text).is_ok());
    let text = text
        .replace("eg_oport_md) {\n    apply {}", "eg_oport_md) {\n    apply { bump.execute(1); }");
    let error = compile(&text).unwrap_err();
    let messages: Vec<&str> = error.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        messages,
        ["register `shared` is touched in egress, and in ingress too: it lives in one of the two"]
    );
}

#[test]
fn a_table_addresses_its_registers_alike() {
    let table = |actions: &str| {
        format!(
            "table v {{ key = {{ hdr.d.a : exact; }} actions = {{ {actions} NoAction; }} size = 16; }}"
        )
    };
    assert_eq!(messages(&table("go_up; go_down;"), "v.apply();"), [""; 0]);
    for action in ["both;", "apart;"] {
        let found = messages(&table(action), "v.apply();");
        assert!(found[0].contains("but a table's action has one stateful ALU"), "{found:?}");
    }
    let found = messages(&table("go_up; second;"), "v.apply();");
    assert!(found[0].contains("another one instead"), "{found:?}");
}

#[test]
fn registers_are_touched_by_their_actions_only() {
    let found = messages("", "hdr.d.r = one.read(0);");
    assert_eq!(found, ["apply:1:11: error: `Register.read` cannot be called here"]);
    let found = messages("", "one.write(0, 1);");
    assert_eq!(found, ["apply:1:1: error: `Register.write` cannot be called here"]);
    let found = messages("", "hdr.d.r = up.execute_log();");
    assert_eq!(found, ["apply:1:11: error: `RegisterAction.execute_log` cannot be called here"]);
    let found = messages("", "hdr.d.r = up.predicate();");
    assert_eq!(found, ["apply:1:11: error: `RegisterAction.predicate` cannot be called here"]);
}

#[test]
fn a_pipe_has_48_stateful_alus() {
    let declare = |n: usize| -> (String, String) {
        let (mut locals, mut apply) = (String::new(), String::new());
        for i in 0..n {
            locals += &format!(
                "Register<bit<32>, bit<16>>(16) r{i}; RegisterAction<bit<32>, bit<16>, bit<32>>(r{i}) a{i} = {{ void apply(inout bit<32> value, out bit<32> rv) {{ value = value + 1; rv = value; }} }};\n"
            );
            apply += &format!("hdr.d.r = a{i}.execute(hdr.d.index);\n");
        }
        (locals, apply)
    };
    let (locals, apply) = declare(48);
    assert!(compile(&program("", &locals, &apply)).is_ok());
    let (locals, apply) = declare(49);
    let error = compile(&program("", &locals, &apply)).unwrap_err();
    assert!(error.iter().any(|d| d.message.starts_with("49 registers need")), "{error:?}");
}
