//! Diagnostics for invalid programs: position, message, help.

use crate::common::{compile, compiles};
use tributary_p4::{Diagnostics, Sources, compile as compile_files, compile_text};

fn errors(declarations: &str, locals: &str, apply: &str) -> Diagnostics {
    match compile(declarations, locals, apply) {
        Ok(_) => panic!("compiled: {declarations} {locals} {apply}"),
        Err(d) => d,
    }
}

/// The only error of an apply block.
#[track_caller]
fn says(apply: &str, want: &str) {
    let found = errors("", "", apply);
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(list, [format!("apply:{want}")], "for `{apply}`");
}

#[test]
fn widths() {
    let found = errors("", "", "meta.x = hdr.h.c;");
    let d = found.iter().next().unwrap();
    assert_eq!(d.message, "bit<8> cannot be assigned to bit<32>");
    assert_eq!(d.help.as_deref(), Some("cast with (bit<32>)"));
    assert_eq!((d.line, d.column), (1, 10));
    assert_eq!(&d.source_line[d.underline.clone()], "hdr.h.c");

    says("meta.x = hdr.h.a + hdr.h.c;", "1:10: error: `+` cannot be applied to bit<32> and bit<8>");
    says("meta.z = hdr.h.a[15:0];", "1:10: error: bit<16> cannot be assigned to bit<8>");
    says("if (meta.z) {}", "1:5: error: bit<8> cannot be assigned to bool");
    says("meta.x = (bit<32>)(int<8>)hdr.h.c;", "1:10: error: int<8> cannot be cast to bit<32>");
    says("meta.z = hdr.h.c[8:1];", "1:10: error: [8:1] is not a slice of bit<8>");
    says("meta.z = hdr.h.c[1:2];", "1:10: error: [1:2] is not a slice of bit<8>");
    says("meta.z = 1 ++ hdr.h.c;", "1:10: error: `++` cannot be applied to int and bit<8>");
    says("meta.z = 4 |+| 5;", "1:10: error: `|+|` needs operands with a width");
    says("meta.z = hdr.h.c / 0;", "1:20: error: division by zero");
    says("meta.x = meta.x << (int<8>)1 - 2;", "1:20: error: the shift distance is negative");
}

#[test]
fn names() {
    says("meta.xx = 1;", "1:6: error: struct meta_t has no field `xx`");
    says("mata.x = 1;", "1:1: error: there is no `mata` here");
    says("hdr.h.isvalid();", "1:7: error: header h_t has no method `isvalid`");
    says("nothing();", "1:1: error: there is no `nothing` here");
    says("bit<8> v = 1; bit<8> v = 2;", "1:22: error: `v` is declared twice in this scope");
    let help = errors("", "", "mata.x = 1;").iter().next().unwrap().help.clone();
    assert_eq!(help.as_deref(), Some("did you mean `meta`?"));
}

#[test]
fn only_lvalues_can_be_assigned() {
    says("sm = sm; 5 = 6;", "1:10: error: this is a value: it cannot be changed");
    let found = errors("", "action a(bit<8> p) { p = 1; }", "a(1);");
    assert_eq!(found.to_string(), "locals:1:22: error: `p` cannot be changed");
    let found = errors("control S(in bit<8> p) { apply { p = 1; } }", "", "");
    assert_eq!(
        found.to_string(),
        "declarations:1000:34: error: `p` is an `in` parameter and cannot be changed"
    );
    let found =
        errors("control S(inout bit<8> p) { apply { p = 1; } }", "S() s;", "s.apply(hdr.h.c + 1);");
    assert_eq!(found.to_string(), "apply:1:9: error: this is a value: it cannot be changed");
}

#[test]
fn calls() {
    says("hdr.h.setValid(1);", "1:1: error: `setValid` takes 0 arguments, but 1 are given");
    says(
        "mark_to_drop(sm, sm);",
        "1:1: error: `mark_to_drop` takes 0 or 1 arguments, but 2 are given",
    );
    let found = errors("", "register<bit<32>>(4) r;", "r.read(meta.z, 0);");
    assert!(
        found.to_string().contains("bit<8> cannot be passed as `out` parameter `result`"),
        "{found}"
    );
    let found = errors("", "register<bit<32>>(4) r;", "r.raed(meta.x, 0);");
    assert_eq!(found.iter().next().unwrap().help.as_deref(), Some("did you mean `read`?"));
    let found = errors("", "counter(4) c;", "c.count(1);");
    assert_eq!(
        found.to_string(),
        "locals:1:1: error: `counter` takes 2 arguments, but 1 are given"
    );
}

#[test]
fn tables() {
    let cases = [
        (
            "table t { key = { hdr.h.a : exct; } actions = { NoAction; } }",
            "there is no match kind `exct`",
        ),
        ("table t { actions = { NoAction; } default_action = b(); }", "there is no action `b`"),
        (
            "action b() {} table t { actions = { NoAction; } default_action = b(); }",
            "`b` is not among the table's actions",
        ),
        (
            "table t { key = { hdr.h : exact; } actions = { NoAction; } }",
            "header h_t cannot be a table's key",
        ),
        (
            "table t { key = { hdr.h.a + 1 : exact; } actions = { NoAction; } }",
            "this key has no name for the control plane",
        ),
        ("table t { key = { hdr.h.a : exact; } }", "table `t` has no `actions`"),
        ("table t { actions = { NoAction; NoAction; } }", "action `NoAction` is listed twice"),
        (
            "table t { actions = { NoAction; } size = 1; size = 2; }",
            "property `size` is given twice",
        ),
        (
            "table t { key = { hdr.h.a : lpm; } actions = { NoAction; } const entries = { 5 &&& 5 : NoAction(); } }",
            "the mask is not a prefix: its ones do not all come first",
        ),
        (
            "table t { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 1 .. 2 : NoAction(); } }",
            "key `hdr.h.a` is not matched that way",
        ),
    ];
    for (locals, want) in cases {
        let found = errors("", locals, "t.apply();");
        let messages: Vec<&str> = found.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(messages, [want], "for `{locals}`");
    }
}

#[test]
fn parsers_and_packages() {
    let parser = |states: &str| {
        let text = format!(
            "#include <v1model.p4>\nstruct h {{}}\nparser P(packet_in p, out h hdr) {{ {states} }}"
        );
        compile_text("p.p4", &text, &[]).unwrap_err().to_string()
    };
    assert!(
        parser("state start { transition nowhere; }")
            .contains("3:61: error: there is no state `nowhere`")
    );
    assert!(
        parser("state begin { transition accept; }").contains("parser `P` has no state `start`")
    );
    assert!(
        parser("state start { transition accept; } state start {}")
            .contains("state `start` is declared twice")
    );

    let library = compile_text("p.p4", "#include <v1model.p4>\n", &[]).unwrap();
    assert!(library.warnings.to_string().contains("the program has no `main`"));
    assert!(library.program.blocks.is_empty());
    let text =
        crate::common::program("", "", "").replace("V1Switch(P(), V(),", "V1Switch(P(), I(),");
    let found = compile_text("p.p4", &text, &[]).unwrap_err();
    assert!(found.to_string().contains("control I does not fit the argument `vr`"), "{found}");
    assert!(found.iter().next().unwrap().help.as_ref().unwrap().contains("the package wants"));
}

#[test]
fn all_errors_are_found_at_once() {
    let found = errors(
        "const bit<8> K = true;",
        "action a() { meta.q = 1; }\n action b() { meta.x = hdr.h.c; }",
        "a();\nmeta.z = nope;\nb();",
    );
    let places: Vec<String> = found.iter().map(|d| format!("{}:{}", d.file, d.line)).collect();
    assert_eq!(places, ["declarations:1000", "locals:1", "locals:2", "apply:2"]);
}

#[test]
fn the_parser_recovers_at_semicolons_and_braces() {
    let found = errors(
        "struct s { bit<8> a bit<8> b; bit<8> c; }",
        "action a() { meta.x = ; meta.y = 1 }",
        "x y z;\n meta.x == 1;",
    );
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        list,
        [
            "declarations:1000:19: error: expected `;` after the field, found `bit`",
            "locals:1:23: error: expected an expression, found `;`",
            "locals:1:34: error: expected `;` after the assignment, found `}`",
            "apply:1:1: error: there is no type `x`",
            "apply:2:9: error: expected `=`, or `(` for a call, found `==`",
        ]
    );
}

#[test]
fn warnings_do_not_stop() {
    let done = compile("", "", "meta.z = 300;").unwrap();
    assert_eq!(
        done.warnings.to_string(),
        "apply:1:10: warning: 300 does not fit bit<8>: its high bits are cut off"
    );
}

#[test]
fn rendered_without_colours() {
    let text = "#include <core.p4>\nconst bit<8> A = 1;\nconst bit<16> B = A;\n";
    let found = compile_text("x.p4", text, &[]).unwrap_err();
    let rendered = found.render(false);
    assert!(!rendered.contains('\u{1b}'));
    for part in [
        "bit<8> cannot be assigned to bit<16>",
        "x.p4:3:19",
        "3 │ const bit<16> B = A;",
        "cast with (bit<16>)",
    ] {
        assert!(rendered.contains(part), "no {part:?} in\n{rendered}");
    }
    assert!(found.render(true).contains('\u{1b}'));
}

#[test]
fn errors_in_macros_and_includes_point_at_the_source() {
    let sources = Sources::embedded()
        .embed("main.p4", "#include <core.p4>\n#include \"sub/types.p4\"\nFIELDS(D)\n")
        .embed("sub/types.p4", "#define FIELDS(X) X(1) X(2)\n#define D(i) const bit<8> c##i = true;\nconst bit<4> q = false;\n");
    let found = compile_files(&sources, "main.p4", &[]).unwrap_err();
    let places: Vec<String> = found.iter().map(|d| format!("{}:{}", d.file, d.line)).collect();
    assert_eq!(places, ["sub/types.p4:3", "main.p4:3"]);
    let in_macro = found.iter().nth(1).unwrap();
    assert_eq!(in_macro.source_line, "FIELDS(D)");
    assert!(in_macro.notes[0].starts_with("after macro expansion: "), "{:?}", in_macro.notes);
    // The same from the text that is sent to a switch.
    let text = tributary_p4::preprocess(&sources, "main.p4", &[]).unwrap();
    let found = compile_text("pushed", &text, &[]).unwrap_err();
    let places: Vec<String> = found.iter().map(|d| format!("{}:{}", d.file, d.line)).collect();
    assert_eq!(places, ["sub/types.p4:3", "main.p4:3", "main.p4:3"]);
    assert_eq!(
        found.iter().nth(1).unwrap().source_line,
        "const bit<8> c1 = true; const bit<8> c2 = true;"
    );
}

/// Unsupported constructs are reported by name.
#[test]
fn unsupported_constructs_are_named() {
    let several = "header v { varbit<32> a; varbit<8> b; }";
    let parser = "parser Q(packet_in p) { state start { transition accept; } }
parser R(packet_in p) { Q() q; state start { if (true) { q.apply(p); } transition accept; } }";
    let cases = [
        (several, "", "", "a header with several varbit fields is not supported yet"),
        (parser, "", "this.x();", "`this` stands in the methods of an instance only"),
    ];
    for (declarations, locals, apply, want) in cases {
        let found = errors(declarations, locals, apply);
        assert!(found.iter().any(|d| d.message == want), "{want:?} not in {found}");
    }
}

#[test]
fn the_parsed_part_is_checked_despite_syntax_errors() {
    let found = errors(
        "struct lost_t { bit<8> a; bit<8 b; }
const bit<8> N = 8s1;",
        "action a() { meta.x = ; meta.y = 1w1; } action b() { meta.x = hdr.h.c; lost = 1; }",
        "meta.y = true; nothing.apply(); hdr.h.setValid(3)",
    );
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    let want = [
        "declarations:1:33: error: expected `>` after the width, found `b`",
        "locals:1:23: error: expected an expression, found `;`",
        "apply:1:49: error: expected `;` after the call, found `}`",
        "declarations:2:18: error: int<8> cannot be assigned to bit<8>",
        "locals:1:34: error: bit<1> cannot be assigned to bit<32>",
        "locals:1:63: error: bit<8> cannot be assigned to bit<32>",
        "apply:1:10: error: bool cannot be assigned to bit<32>",
    ];
    let want = want.map(|line| {
        line.replace("declarations:1:", "declarations:1000:")
            .replace("declarations:2:", "declarations:1001:")
    });
    assert_eq!(list, want);
}

#[test]
fn arrays_of_types_other_than_headers() {
    let said = |apply: &str| errors("", "", apply).to_string();
    assert_eq!(
        said("bit<8>[4] a; meta.z = a.next;"),
        "apply:1:25: error: bit<8>[4] has no member `next`"
    );
    assert_eq!(
        said("bit<8>[4] a; a.push_front(1);"),
        "apply:1:16: error: bit<8>[4] has no method `push_front`"
    );
    assert_eq!(
        said("bit<8>[4] a; meta.z = a[4];"),
        "apply:1:25: error: the stack has 4 elements only"
    );
    assert_eq!(said("string[4] a;"), "apply:1:1: error: there are no arrays of string");
    assert_eq!(
        said("bit<8>[500][500] a;"),
        "apply:1:1: error: an array of more than 65536 values is not supported yet"
    );
    assert_eq!(
        said("int<0> a;"),
        "apply:1:5: error: an array of no elements, or a type of no bits other than bit<0>, is not \
         supported yet"
    );
}

#[test]
fn nothing_that_the_control_plane_sees_has_no_bits() {
    let said = |declarations: &str, locals: &str, apply: &str| {
        errors(declarations, locals, apply).to_string()
    };
    let table = "action a() {} table t { key = { meta.z[7:0] ++ n: exact @name(\"k\"); } actions = { a; } }";
    assert!(compile("", &format!("bit<0> n; {table}"), "t.apply();").is_ok());
    let table = "bit<0> n; action a() {} table t { key = { n: exact; } actions = { a; } }";
    assert_eq!(said("", table, "t.apply();"), "locals:1:43: error: bit<0> cannot be a table's key");
    let data = "action a(bit<0> n) {} table t { key = { meta.z: exact; } actions = { a; } }";
    assert_eq!(said("", data, "t.apply();"), "locals:1:17: error: bit<0> cannot be action data");
    assert_eq!(
        said("struct s_t { bit<0> a; }", "register<s_t>(4) r;", ""),
        "locals:1:18: error: a register cannot hold values of type struct s_t"
    );
    assert_eq!(
        said("", "", "bit<0> n = 0; meta.flag = n[0:0] == 1;"),
        "apply:1:27: error: [0:0] is not a slice of bit<0>"
    );
    assert!(said("", "", "meta.x = 0s0;").starts_with("apply:1:10: error: `0` is not a width"));
}

#[test]
fn numbers_without_a_width_need_one_in_the_end() {
    let said = |apply: &str| errors("", "", apply).to_string();
    assert!(said("meta.x = (bit<32>)((int)meta.x / 3);").contains("known at compile time"));
    assert!(said("meta.x = 1 << (int)meta.y;").contains("must be unsigned"));
    assert!(said("log_msg(\"{}\", {(int)meta.x});").contains("has no width"));
    assert!(said("int x = (int)meta.x;").contains("there are no variables of type int"));
    let square = "(int)meta.x".to_owned() + &" * (int)meta.x".repeat(12);
    let wide = said(&format!("meta.flag = {square} > 0;"));
    assert!(wide.contains("bits: it may have 65536"), "{wide}");
}

#[test]
fn parameters_without_a_width_take_constants() {
    let of = "bit<8> f(int n, bit<8> x) { return (bit<8>)(n + 1) + x; }
int five() { return 2 + 3; }
int more(bit<8> x) { return (int)x + 1; }
int other(bit<8> x) { if (x == 1) { return 5; } return 6; }
control Plus(inout bit<8> v, int n) { apply { v = v + (bit<8>)n; } }
control Twice(inout bit<8> v, int n)() { Plus() inner; apply { inner.apply(v, n); inner.apply(v, n); } }";
    let locals = "Plus() c; Plus() d; Twice() twice;";
    for good in [
        "meta.z = f(4, meta.z) + f(five(), 1);",
        "c.apply(meta.z, 4); d.apply(meta.z, 5); c.apply(meta.z, 4);",
        "twice.apply(meta.z, 4);",
    ] {
        compiles(of, locals, good);
    }
    let unknown = "`n` has the type int: its argument must be known at compile time";
    let result = "returns an int that is not known at compile time";
    for (wrong, words) in [
        ("meta.z = f((int)hdr.h.c, meta.z);", unknown),
        ("c.apply(meta.z, (int)hdr.h.c);", unknown),
        ("twice.apply(meta.z, (int)hdr.h.c);", unknown),
        ("c.apply(meta.z, 4); c.apply(meta.z, 5);", "it must be the same constant at all calls"),
        ("meta.z = (bit<8>)more(meta.z);", result),
        ("meta.z = (bit<8>)other(meta.z);", result),
    ] {
        let found = errors(of, locals, wrong);
        assert_eq!(found.iter().count(), 1, "{wrong}: {found}");
        let only = found.iter().next().unwrap();
        assert!(only.message.contains(words) && only.help.is_some(), "{wrong}: {found}");
    }
}

#[test]
fn action_data_and_registers_are_numbers() {
    let pair = "struct pair_t { bit<8> a; bit<8> b; }";
    let data = "action a(pair_t p) {} table t { key = { meta.z: exact; } actions = { a; } }";
    assert_eq!(
        errors(pair, data, "t.apply();").to_string(),
        "locals:1:17: error: struct pair_t cannot be action data"
    );
    assert_eq!(
        errors("", "register<h_t>(4) r;", "").to_string(),
        "locals:1:18: error: a register cannot hold values of type header h_t"
    );
}

#[test]
fn annotations_of_others_hold_any_text() {
    assert!(compile("@note(it's (\\) free) const bool B = true;", "", "").is_ok());
    let stray = errors("@name(\"b\" ') const bool B = true;", "", "").to_string();
    assert_eq!(stray, "declarations:1000:11: error: `'` is not a token of P4");
    let found = crate::common::compiles("", "@name(\"a\" ++ \"b\") action act() { }", "act();");
    assert!(found.actions.iter().any(|action| action.name == "I.ab"));
}

#[test]
fn field_lists_must_be_numbers() {
    let said = |list: &str| errors(&format!("struct s {{ {list} bit<8> f; }}"), "", "").to_string();
    let number = "a field list is a number that is known at compile time";
    assert_eq!(said("@field_list(1, true)"), format!("declarations:1000:27: error: {number}"));
    let range = "256 is not a field list: they are from 0 to 255";
    assert_eq!(said("@field_list(256)"), format!("declarations:1000:24: error: {range}"));
    let unknown = "there is no `unknown` here";
    assert_eq!(said("@field_list(unknown)"), format!("declarations:1000:24: error: {unknown}"));
    assert_eq!(said("@field_list"), "declarations:1000:13: error: `@field_list` names no lists");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn plausible_but_invalid_programs_are_rejected() {
    let cases = [
        (
            "extern X { X(); } control c(in X x) { apply { } }",
            "a parameter of type X has no direction",
        ),
        (
            "control c() { action a() { } table t { actions = { a; } entries = { _ : a(); } } apply { } }",
            "a table without keys has no entries",
        ),
        (
            "type bit<8> n_t; enum n_t e_t { A = 1 }",
            "an enum is represented by bit<W> or int<W>, not by n_t",
        ),
        (
            "extern void f<T>(in T x); control c() { apply { f(5); } }",
            "int cannot be the type of parameter `x`",
        ),
        (
            "extern void f(in bit<8> x); control c() { apply { f(_); } }",
            "`_` can only be given for an `out` parameter",
        ),
        (
            "control c(inout bit<8> x) { bit<8> y; action a(inout bit<8> b, bit<8> d) { b = d; } table t { actions = { a(x); } default_action = a(y, 0); } apply { } }",
            "the argument is another one in the table's list of actions",
        ),
        (
            "T f<T>(in T x) { return f(x); } control c() { apply { bit<8> y = f(8w1); } }",
            "function `f` calls itself",
        ),
        (
            "T f<T>() { T x; return x; } control c() { apply { bit<8> y = f(); } }",
            "what `T` of `f` stands for is not known",
        ),
        ("header_union u_t { bit<8> x; }", "a header union cannot have a field of type bit<8>"),
        (
            "control c<T>(in T x) { apply { } }",
            "a parser or control with a body has no type parameters",
        ),
        ("control c() { apply { break; } }", "`break` stands in loops only"),
        (
            "control c() { apply { for (bool b in true .. false) { } } }",
            "a range has no values of type bool",
        ),
        (
            "parser p() { state start { for (bit<8> i in 0 .. 1) { } transition accept; } }",
            "a parser state has no loops: let a state go to itself",
        ),
        (
            "header h_v { varbit<8> v; } parser p(packet_in b, out h_v h) { state start { b.extract(h); transition accept; } } control c() { apply { bit<8> z = h_v.nothing; } }",
            "header h_v has no member `nothing`",
        ),
        ("match_kind { own, own }", "match kind `own` is declared twice"),
        ("control C(); package two(C c, C c);", "`c` is declared twice"),
        ("extern X { void X(); }", "a constructor of `X` returns nothing"),
        ("extern X { void f(in bool b); void f(in bit<8> b); }", "`f` is declared twice"),
        ("extern void f(out bit<8> x = 0);", "`x` is written to: it has no default value"),
        (
            "extern void f(@optional in bit<8> x = 0);",
            "`x` has a default value: it needs no @optional",
        ),
        (
            "bit<8> f() { return 1; } void g(in bit<8> x = f()) { }",
            "a default value must be known at compile time",
        ),
        ("control c() { action a(int x) { } apply { } }", "an action has no parameter of type int"),
        ("void f(in int x) { }", "a parameter of type int has no direction"),
        (
            "control c() { apply { verify(true, error.NoError); } }",
            "`verify` is called in parsers only",
        ),
        ("const bit<8> N = 7 / -2;", "`/` is not defined for negative numbers"),
        (
            "extern X { X(); abstract bit<8> f(); } control c() { X() x = { bit<9> f() { return 1; } }; apply { } }",
            "method `f` returns bit<9> here, but its declaration wants bit<8>",
        ),
        ("package two(tuple<packet_in> t);", "packet_in cannot be part of a tuple"),
        ("struct s { @match(almost) bit<8> f; }", "there is no match kind `almost`"),
        ("@name(4) action a() { }", "this annotation takes a string"),
        ("@own[1] @own[2] const bool B = true;", "@own is given twice"),
        (
            "control c(in bit<8> k) { action a() { } table t { key = { k : exact; } default_action = a; actions = { a; } } apply { } }",
            "`default_action` stands before `actions`",
        ),
        (
            "control c() { action a() { } table t { actions = { a; } priority_delta = -1; } apply { } }",
            "`priority_delta` must be positive",
        ),
        (
            "header h_u { bit<8> x; } control c(inout h_u[2] s) { apply { s.last.x = 1; } }",
            "`last` is for parsers only",
        ),
        ("action a() { } control c() { apply { a<bool>(); } }", "an action has no type parameters"),
        (
            "control c(in bit<8> k) { action a() { } table t { key = { k : exact; } actions = { a; } entries = { priority = 3: 1 : a(); } } apply { } }",
            "entries of a table with exact and lpm keys only have no priority",
        ),
        (
            "control c(in bit<8> k) { action a() { } table t { key = { k : ternary; } actions = { a; } entries = { 1 : a(); priority = 3: 2 : a(); } } apply { } }",
            "the first entry has no priority, but a later one has",
        ),
        (
            "control i() { apply { } } i() g; control c() { apply { g.apply(); } }",
            "instances of the top level are arguments of packages only",
        ),
        (
            "header h_x { bit<8> x; } parser p(packet_in b, out h_x[2] s) { state start { b.extract(s); transition accept; } }",
            "only headers can be extracted, not header h_x[2]",
        ),
        ("type bit<8> n_x; n_x f(in bit<9> x) { return (n_x)x; }", "bit<9> cannot be cast to n_x"),
        (
            "extern void f<T>(in T x); control c() { apply { f({ x = 8w1 }); } }",
            "what struct these values are of is not known",
        ),
        (
            "enum bit<8> e_s { A = 1 } control c(in e_s v) { apply { switch (v) { e_s.B: default: { } } } }",
            "enum e_s has no member `B`",
        ),
    ];
    for (declarations, want) in cases {
        let found = errors(declarations, "", "");
        assert!(found.iter().any(|d| d.message == want), "{want:?} not in {found}");
    }
}

#[test]
fn control_characters_are_escaped() {
    for text in [
        "#error \x1b[2J\x1b[31mno\u{202e}\n",
        "#warning \x1b[2J\x07\nconst int a = b;",
        "const int \x1b[2J = 1;",
        "const int a = /* \x1b]0;title\x07 */ b;",
        "#include \"\x1b[2J\"\n",
        "#define \x1b[2J\n",
        "# 7 \"\x1b[2J\"\nconst int a = b;",
        "@name(\"\x1b[2J\") const bit<8> a = 256;\nconst bit<8> a = b;",
    ] {
        let found = compile_text("t.p4", text, &[]).unwrap_err();
        let shown = found.to_string() + &found.render(false);
        let acted_on = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(acted_on), "{shown:?}");
    }
    let found = compile_text("t.p4", "#error a\x1b[2Jb\n", &[]).unwrap_err();
    assert_eq!(found.to_string(), "t.p4:1:1: error: #error a\\u{1b}[2Jb");
    // The position is still correct.
    let text = "const int a = \x07 + b;";
    let found = compile_text("t.p4", text, &[]).unwrap_err();
    let d = found.iter().last().unwrap();
    assert!(d.underline.end <= d.source_line.len(), "{d:?}");
    let found = compile_text("t.p4", "const int a = /* \x07 */ b;", &[]).unwrap_err();
    let d = found.iter().next().unwrap();
    assert_eq!(&d.source_line[d.underline.clone()], "b");
}
