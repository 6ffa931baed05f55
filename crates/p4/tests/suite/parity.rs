//! Programs that p4c accepts or refuses for reasons of detail, each beside its opposite; and what
//! production programs for PINS need of the front end.

use tributary_p4::{Diagnostics, compile_text};
use tributary_p4runtime::p4::config::v1::{p4_new_type_spec, p4_new_type_translation};

use crate::common::{compile, compiles, program};

#[track_caller]
fn refused(text: &str, words: &str) {
    let found = compile_text("t.p4", text, &[]).err().unwrap_or_else(|| panic!("accepted: {text}"));
    let has = |d: &Diagnostics| d.iter().any(|d| d.message.contains(words));
    assert!(has(&found), "{found}\nnot: {words}");
}

#[track_caller]
fn accepted(text: &str) {
    let compiled = compile_text("t.p4", text, &[]);
    drop(compiled.unwrap_or_else(|d| panic!("{}", d.render(false))));
}

/// A pair of programs that differ in one word: the first is refused.
#[track_caller]
fn unlike(text: &str, word: &str, instead: &str, words: &str) {
    assert!(text.contains(word), "{text}");
    refused(text, words);
    accepted(&text.replacen(word, instead, 1));
}

const CORE: &str = "#include <core.p4>\n";

/// As in p4c: in an assignment, a number without a width is a value of a type made by `type`, elsewhere
/// it needs a cast.
#[test]
fn numbers_without_a_width_are_assigned_to_new_types() {
    let types = "type bit<10> vrf_t; typedef vrf_t same_t; type same_t deep_t;
const vrf_t DEFAULT = 5; struct both_t { vrf_t a; deep_t b; }
vrf_t f(in vrf_t v) { return v; }";
    let program = compiles(
        types,
        "vrf_t v = 3; both_t both = { (vrf_t) 1, (deep_t) (vrf_t) 2 };
action set(vrf_t to) { v = to; }
table t { key = { v: exact; } actions = { set; } const entries = { (vrf_t) 7: set((vrf_t) 9); } default_action = set((vrf_t) 1023); }",
        "v = 4; v = DEFAULT; v = f((vrf_t) 6); v = meta.flag ? (vrf_t) 8 : v;
meta.x = (bit<32>) (bit<10>) (vrf_t) both.b; t.apply();",
    );
    assert_eq!(program.tables[0].entries[0].call.args[0][0], 9);
    assert_eq!(program.tables[0].default_action.args[0][0], 1023);
    for (wrong, words) in [
        ("v = 10w4;", "bit<10> cannot be assigned to vrf_t"),
        ("v = meta.x;", "bit<32> cannot be assigned to vrf_t"),
        ("if (v == 4) { }", "`==` cannot be applied to vrf_t and int"),
        ("v = v + 1;", "`+` cannot be applied to vrf_t and int"),
        ("b = 1;", "int cannot be assigned to flag_t"),
        ("v = f(6);", "int cannot be passed as parameter `v` of type vrf_t"),
        ("v = meta.flag ? 8 : v;", "`?:` cannot choose between int and vrf_t"),
        ("both_t both = { a = 1, b = (deep_t) v };", "int cannot be assigned to vrf_t"),
        ("deep_t d = 1;", "int cannot be assigned to deep_t"),
        ("v = v[1:0];", "vrf_t cannot be sliced"),
    ] {
        let types = format!("{types} type bool flag_t;");
        let found = compile(&types, "vrf_t v = 3; flag_t b;", wrong).expect_err(wrong);
        assert!(found.iter().any(|d| d.message.contains(words)), "{wrong}: {found}");
    }
}

#[test]
fn strings_of_several_lines_are_kept_as_written() {
    let table = "@entry_restriction(\"\n    // The mask: a `//` is no comment here.\n    x::mask != 0; /* nor this */\n\")
table t { key = { meta.x: ternary; } actions = { NoAction; } }";
    let text = program("", table, "t.apply();");
    let info = compile_text("t.p4", &text, &[]).unwrap_or_else(|d| panic!("{d}")).p4info;
    let annotations = &info.tables[0].preamble.as_ref().unwrap().annotations;
    let want = "@entry_restriction(\"\n    // The mask: a `//` is no comment here.\n    x::mask != 0; /* nor this */\n\")";
    assert_eq!(*annotations, [want]);
}

#[test]
fn translated_types_are_known_to_the_control_plane() {
    let text = program(
        "@p4runtime_translation(\"\", string) @p4runtime_translation_mappings({ {\"\", 0}, {\"blue\", 7}, })
type bit<10> vrf_t;
@p4runtime_translation(\"uri\", bit<32>) type bit<9> wide_t;
@controller_header(\"packet_in\") header in_t { vrf_t vrf; bit<6> pad; }",
        "vrf_t v = 0; wide_t w = 1;
table t { key = { v: exact; w: exact; } actions = { NoAction; } }",
        "t.apply();",
    );
    let compiled = compile_text("t.p4", &text, &[]).unwrap_or_else(|d| panic!("{d}"));
    let [vrf] = &compiled.program.translated[..] else {
        panic!("{:?}", compiled.program.translated)
    };
    assert_eq!((vrf.name.as_str(), vrf.width), ("vrf_t", 10));
    assert_eq!(vrf.fixed, [(String::new(), 0), ("blue".to_owned(), 7)]);
    // No header has the type: packets to the controller have no bytes for it.
    assert!(compiled.program.controller_headers.is_empty());
    let info = compiled.p4info;
    assert_eq!(info.controller_packet_metadata.len(), 1);
    assert_eq!(info.tables[0].match_fields[0].bitwidth, 0);
    assert_eq!(info.tables[0].match_fields[1].bitwidth, 32);
    let types = &info.type_info.unwrap().new_types;
    let Some(p4_new_type_spec::Representation::TranslatedType(translation)) =
        &types["vrf_t"].representation
    else {
        panic!("{types:?}")
    };
    let string = p4_new_type_translation::SdnType::SdnString(Default::default());
    assert_eq!(translation.sdn_type, Some(string));

    for wrong in
        ["\"\", bool", "\"\", int<8>", "\"\", bit<5+3>", "string", "uri, string", "\"\", 0"]
    {
        let text = format!("@p4runtime_translation({wrong}) type bit<9> t;");
        refused(&text, "this annotation takes a URI");
    }
}

#[test]
fn the_width_of_a_type_on_a_translated_type_is_its_own() {
    let text = program(
        "@p4runtime_translation(\"uri\", 12) type bit<8> a_t; type a_t b_t;",
        "a_t a = 0; b_t b = (b_t) a; table t { key = { a: exact; b: exact; } actions = { NoAction; } }",
        "t.apply();",
    );
    let info = compile_text("t.p4", &text, &[]).unwrap_or_else(|d| panic!("{d}")).p4info;
    let widths: Vec<i32> = info.tables[0].match_fields.iter().map(|f| f.bitwidth).collect();
    assert_eq!(widths, [12, 8]);
}

#[test]
fn an_action_profile_in_a_property_has_the_annotations_of_the_property() {
    let table = "table t { key = { meta.x: exact; meta.y: selector; } actions = { NoAction; }
@name(\"ap\") @max_group_size(200) implementation = action_selector(HashAlgorithm.crc16, 32w1024, 32w10); }";
    let text = program("", table, "t.apply();");
    let info = compile_text("t.p4", &text, &[]).unwrap_or_else(|d| panic!("{d}")).p4info;
    let profile = &info.action_profiles[0];
    assert_eq!(profile.preamble.as_ref().unwrap().name, "ap");
    assert_eq!(profile.max_group_size, 200);
}

#[test]
fn bodies_do_not_hide_parameters() {
    let words = "`x` has the name of a parameter";
    for body in [
        "control c(inout bit<8> x) { apply { bit<8> x = 1; } }",
        "control c(inout bit<8> x) { apply { if (true) { bit<8> x = 1; } } }",
        "control c(inout bit<8> x) { action a() { bit<8> x = 1; } apply { a(); } }",
        "bit<8> f(in bit<8> x) { const bit<8> x = 1; return x; }",
        "control c(inout bit<8> y)(bit<8> x) { apply { bit<8> x = 1; } }",
    ] {
        unlike(body, "bit<8> x = 1", "bit<8> z = 1", words);
    }
    // Other parameters may, and the declarations of a control.
    accepted("control c(inout bit<8> x) { action a(bit<8> x) { } apply { a(1); } }");
    accepted("control c(inout bit<8> x) { bit<8> x = 0; apply { } }");
}

#[test]
fn generic_functions_are_checked_without_a_call() {
    for (body, words) in [
        ("void f<T>(inout T a) { } void g<T>(in T b) { f(b); }", "`b` is an `in` parameter"),
        ("T f<T>(in tuple<> x) { return x; }", "tuple<> cannot be assigned to T"),
        ("bool f<T>(in T a, in T b) { return a == b; }", "values of type T cannot be compared"),
        ("T f<T>(in T a) { return a + 1; }", "`+` cannot be applied to T and int"),
        ("void f<T>(in T a) { bit<8> b = (bit<8>) a; }", "T cannot be cast to bit<8>"),
    ] {
        refused(body, words);
    }
    accepted("T f<T>(in T a) { T b = a; return b; } U g<T, U>(in T a, in U b) { return f<U>(b); }");
    accepted("header h<T> { T x; } void e<T>(in h<T> p) { } void f<T>(in T a) { h<T> v; e(v); }");
    let extracts = "void f<H>(packet_in p, out H h) { p.extract(h); }";
    accepted(&format!("{CORE}{extracts}"));
}

#[test]
fn declarations_that_contain_themselves() {
    let words = "cannot be part of its own type arguments";
    unlike("extern e<T> { e(); } extern g<T> { g(); } e<e<bit<8>>>() x;", "e<e<", "e<g<", words);
    unlike("struct s<T> { T f; } struct r<T> { T f; } typedef s<s<bit>> t;", "s<s<", "s<r<", words);
    unlike(
        &format!(
            "{CORE}control c(bit<8> t) {{ table t {{ key = {{ t: exact; }} actions = {{ }} }} apply {{ }} }}"
        ),
        "table t",
        "table u",
        "table `t` is its own key",
    );
}

#[test]
fn what_p4c_refuses_is_refused() {
    refused("extern main { }", "`main` is not a package");
    accepted("void main() { }");
    unlike("@pkginfo const bit<8> x = 0;", "@pkginfo ", "", "the values of @pkginfo");
    unlike(
        "control A() { apply { } } control X(); control B()(A a) { apply { } }",
        "(A a)",
        "(X a)",
        "which has a body",
    );
    unlike(
        "extern e { e(); abstract int f(); }",
        "abstract int",
        "abstract bit<8>",
        "a method of an extern cannot return int",
    );
    refused(
        "control C() { apply { } } void f<T>(T t) { } control D() { C() c; apply { f(c); } }",
        "control C cannot be an argument of `f`",
    );
    unlike(
        "extern e { e(); void m<T>(in T a); void m<T>(in T b); } control c() { e() x; apply { x.m(8w1); } }",
        "m(8w1)",
        "m(a = 8w1)",
        "several `m` take these 1 arguments",
    );
    unlike(
        "header_union u<T> { tuple<T> t; }",
        "tuple<T> t",
        "T t",
        "a header union cannot have a field of type tuple<T>",
    );
    refused("control c() { apply { if ((...) && (...)) { } } }", "is no operand of `&&`");
    unlike(
        "parser p() { state start { transition a; } state a { transition b; } state b { transition a; } }",
        "transition b",
        "transition accept",
        "parser `p` never reaches `accept` or `reject`",
    );
    unlike(
        &format!(
            "{CORE}struct s {{ bit<8> b; }} parser p(in s x) {{ state start {{ transition select(x) {{ {{1}}: accept; }} }} }}"
        ),
        "select(x) { {1}",
        "select(x.b) { 1",
        "struct s cannot be selected on",
    );
    for (version, fits) in
        [("20000101", false), ("-5", false), ("20200408", true), ("20190101", true)]
    {
        let text = format!("#define V1MODEL_VERSION {version}\n#include <v1model.p4>\n");
        if fits { accepted(&text) } else { refused(&text, "no such version of v1model") }
    }
}

#[test]
fn tables_that_the_control_plane_cannot_use() {
    let twice = |name: &str| {
        program(
            &format!(
                "control Sub(inout meta_t meta) {{ @name(\"{name}\") table t {{ key = {{ meta.x: exact; }} actions = {{ NoAction; }} }} apply {{ t.apply(); }} }}"
            ),
            "Sub() a; Sub() b;",
            "a.apply(meta); b.apply(meta);",
        )
    };
    unlike(&twice(".t"), "\".t\"", "\"t\"", "two tables have the name `t`");
    let actions = "@name(\".same\") action one() { meta.x = 1; } @name(\".same\") action two() { meta.x = 2; }
table t { key = { meta.x: exact; } actions = { one; two; } }";
    let text = program("", actions, "t.apply();");
    unlike(&text, "\".same\"", "\".other\"", "two actions with the name `same`");
    let entries = "action a(bit<8> z) { meta.z = z; }
table t { key = { meta.x: exact; meta.y: exact; } actions = { a; } const entries = { (1, 2): a(1); (1, 3): a(2); (1, 2): a(3); } }";
    unlike(
        &program("", entries, "t.apply();"),
        "(1, 2): a(3)",
        "(2, 2): a(3)",
        "an earlier entry has the same key",
    );
    let priorities = "action a(bit<8> z) { meta.z = z; }
table t { key = { meta.x: ternary; } actions = { a; } priority_delta = 10; entries = { priority=12: 1: a(1); 2: a(2); 3: a(3); } }";
    let text = program("", priorities, "t.apply();");
    unlike(&text, "priority=12", "priority=120", "the priority of this entry is -8");
}
