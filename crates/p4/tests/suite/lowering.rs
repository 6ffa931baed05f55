//! The IR of programs.

use crate::common::{compiles, ingress};
use tributary_p4::ir::{
    Arg, BinaryOp, CtorArg, Expr, ExprKind, FieldRole, HeaderRef, Keyset, MatchKind, Place,
    Program, Scope, Stmt, Target, Transition,
};

fn name(program: &Program, place: &Place) -> String {
    match place {
        Place::Field(f) => program.fields[f.index()].name.clone(),
        Place::Slice(f, hi, lo) => format!("{}[{hi}:{lo}]", program.fields[f.index()].name),
        Place::Element(s, _, at) => format!("{}[?].{at}", program.stacks[s.index()].name),
    }
}

/// A short text for an expression.
fn show(program: &Program, e: &Expr) -> String {
    let op = |o: &BinaryOp| match o {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Concat => "++",
        BinaryOp::And => "&&",
        BinaryOp::Eq => "==",
        BinaryOp::AddSat => "|+|",
        _ => "op",
    };
    match &e.kind {
        ExprKind::Const(limbs) => limbs[0].to_string(),
        ExprKind::Field(f) => program.fields[f.index()].name.clone(),
        ExprKind::Binary(o, a, b) => {
            format!("({} {} {})", show(program, a), op(o), show(program, b))
        }
        ExprKind::Slice { value, hi, lo } => format!("{}[{hi}:{lo}]", show(program, value)),
        ExprKind::Cast(inner) => format!("({}){}", e.ty, show(program, inner)),
        ExprKind::Valid(HeaderRef::Fixed(h)) => {
            format!("valid({})", program.headers[h.index()].name)
        }
        other => format!("{other:?}"),
    }
}

/// Assignments in order, including those in branches.
fn assignments(program: &Program, body: &[Stmt]) -> Vec<String> {
    let mut list = Vec::new();
    for s in body {
        match s {
            Stmt::Assign(place, e) => {
                list.push(format!("{} = {}", name(program, place), show(program, e)))
            }
            Stmt::If { then, otherwise, .. } => {
                list.extend(assignments(program, then));
                list.extend(assignments(program, otherwise));
            }
            Stmt::Block(body) => list.extend(assignments(program, body)),
            _ => {}
        }
    }
    list
}

#[track_caller]
fn becomes(declarations: &str, locals: &str, apply: &str, want: &[&str]) {
    let program = compiles(declarations, locals, apply);
    assert_eq!(assignments(&program, ingress(&program)), want);
}

#[test]
fn constants_fold() {
    becomes(
        "const bit<8> A = 8w0xF0 | 3; const int B = 1 << 4;",
        "",
        "meta.z = A; meta.x = B - 1;",
        &["meta.z = 243", "meta.x = 15"],
    );
    becomes(
        "",
        "",
        "meta.x = 0x1234_5678; meta.z = 8w255 + 1; meta.z = 8w255 |+| 1;",
        &["meta.x = 305419896", "meta.z = 0", "meta.z = 255"],
    );
    becomes(
        "",
        "",
        "meta.z = (bit<8>)(-8s1); meta.z = ~8w1; meta.x = 16w0xab ++ 16w0xcd;",
        &["meta.z = 255", "meta.z = 254", "meta.x = 11206861"],
    );
    becomes(
        "",
        "",
        "meta.x = (bit<32>)hdr.h.minSizeInBits() + (bit<32>)h_t.minSizeInBytes();",
        &["meta.x = 81"],
    );
    becomes(
        "enum bit<8> K { A = 5, B = 7 }",
        "",
        "meta.z = K.B; if (K.A == K.B) { meta.x = 1; } else { meta.x = 2; }",
        &["meta.z = 7", "meta.x = 2"],
    );
}

#[test]
fn conditionals_group_to_the_left() {
    // As in p4c. Right-associative, as in C, it would be true.
    let declaration = "const bool A = true ? true : true ? false : true;";
    becomes(declaration, "", "meta.flag = A;", &["meta.flag = 0"]);
}

#[test]
fn expressions() {
    becomes("", "", "meta.x = hdr.h.a + meta.y - 1;", &["meta.x = ((hdr.h.a + meta.y) - 1)"]);
    becomes("", "", "meta.x[7:0] = hdr.h.a[31:24];", &["meta.x[7:0] = hdr.h.a[31:24]"]);
    becomes("", "", "meta.x[15:8][3:0] = hdr.h.a[31:16][7:4];", &["meta.x[11:8] = hdr.h.a[23:20]"]);
    becomes(
        "",
        "",
        "meta.x = (bit<32>)hdr.h.c; meta.flag = hdr.h.isValid() && meta.x == 3;",
        &["meta.x = (bit<32>)hdr.h.c", "meta.flag = (valid(hdr.h) && (meta.x == 3))"],
    );
    becomes(
        "",
        "",
        "meta.x += 2; meta.z |+|= hdr.h.c;",
        &["meta.x = (meta.x + 2)", "meta.z = (meta.z |+| hdr.h.c)"],
    );
}

#[test]
fn swapping_by_a_list_reads_before_it_writes() {
    let program = compiles(
        "struct pair { bit<32> a; bit<32> b; }",
        "pair p;",
        "p = { meta.x, meta.y }; p = { p.b, p.a };",
    );
    let list = assignments(&program, ingress(&program));
    assert_eq!(&list[..2], ["I.p.a = meta.x", "I.p.b = meta.y"]);
    // Two copies, then two stores from the copies.
    assert_eq!(list.len(), 6);
    assert!(list[2].ends_with("= I.p.b") && list[3].ends_with("= I.p.a"), "{list:?}");
    assert!(list[4].starts_with("I.p.a = ") && !list[4].ends_with("I.p.b"), "{list:?}");
}

const ADDER: &str = "control Add(inout bit<32> acc, in bit<32> by) { apply { acc = acc + by; } }";

#[test]
fn a_control_applied_once_uses_its_arguments_storage() {
    becomes(
        ADDER,
        "Add() one; Add() two;",
        "one.apply(meta.x, hdr.h.a); two.apply(meta.y, 5);",
        &["meta.x = (meta.x + hdr.h.a)", "meta.y = (meta.y + 5)"],
    );
    becomes(ADDER, "", "Add.apply(meta.x, meta.y);", &["meta.x = (meta.x + meta.y)"]);
}

#[test]
fn overlapping_arguments_are_copied() {
    becomes(
        ADDER,
        "Add() one;",
        "one.apply(meta.x, meta.x);",
        &["I.one.by = meta.x", "meta.x = (meta.x + I.one.by)"],
    );
}

#[test]
fn a_control_applied_with_different_arguments_copies() {
    becomes(
        ADDER,
        "Add() one;",
        "one.apply(meta.x, 1); one.apply(meta.y, 2);",
        &[
            "I.one.acc = meta.x",
            "I.one.by = 1",
            "I.one.acc = (I.one.acc + I.one.by)",
            "meta.x = I.one.acc",
            "I.one.acc = meta.y",
            "I.one.by = 2",
            "I.one.acc = (I.one.acc + I.one.by)",
            "meta.y = I.one.acc",
        ],
    );
    // The same arguments everywhere need no copies.
    becomes(
        ADDER,
        "Add() one;",
        "one.apply(meta.x, 1); one.apply(meta.x, 1);",
        &["meta.x = (meta.x + 1)"; 2],
    );
}

#[test]
fn headers_and_metadata_pass_through_sub_controls_uncopied() {
    let declarations = "control Inner(inout headers_t hdr, inout meta_t m) { apply { m.x = hdr.h.a; } }
control Outer(inout headers_t h, inout meta_t meta, inout standard_metadata_t sm) { Inner() i; apply { i.apply(h, meta); sm.egress_spec = 3; } }";
    becomes(
        declarations,
        "Outer() o;",
        "o.apply(hdr, meta, sm);",
        &["meta.x = hdr.h.a", "sm.egress_spec = 3"],
    );
}

#[test]
fn actions_see_their_controls_variables() {
    // `v` is copied, because the body changes its argument.
    becomes(
        "",
        "action a(in bit<32> v) { meta.x = 1; meta.y = v; }",
        "a(meta.x);",
        &["I.v = meta.x", "meta.x = 1", "meta.y = I.v"],
    );
    becomes(
        "",
        "action a(inout bit<32> v) { v = v + 1; }",
        "a(meta.x);",
        &["meta.x = (meta.x + 1)"],
    );
    becomes(
        "",
        "action a(inout bit<32> v) { v = meta.x; }",
        "a(meta.x);",
        &["I.v = meta.x", "I.v = meta.x", "meta.x = I.v"],
    );
}

#[test]
fn functions_return_by_value() {
    let program = compiles(
        "bit<32> f(in bit<32> v) { if (v == 0) { return 7; } return v + v; }",
        "",
        "meta.x = f(meta.y) + f(3);",
    );
    let body = ingress(&program);
    // Each call is a scope that `return` leaves, unless constants decide.
    assert!(matches!(body[0], Stmt::Block(_)), "{body:?}");
    let list = assignments(&program, body);
    assert!(
        list.contains(&"I.f.$result = 7".to_owned())
            && list.contains(&"I.f.$result = 6".to_owned()),
        "{list:?}"
    );
}

#[test]
fn evaluation_goes_from_left_to_right() {
    let declarations = "bit<32> bump(inout bit<32> v) { v = v + 1; return v; }";
    let program = compiles(declarations, "", "meta.y = meta.x + bump(meta.x);");
    let list = assignments(&program, ingress(&program));
    // The left operand is read before `bump` changes it.
    assert!(list[0].ends_with("= meta.x") && !list[0].starts_with("meta.x"), "{list:?}");
    assert_eq!(list[1], "meta.x = (meta.x + 1)");
}

#[test]
fn the_right_side_of_and_happens_only_if_needed() {
    let declarations = "bool touch(inout bit<32> v) { v = 9; return true; }";
    let program = compiles(declarations, "", "if (meta.flag && touch(meta.x)) { meta.y = 1; }");
    let body = ingress(&program);
    let Some(Stmt::If { then, .. }) = body.iter().find(|s| matches!(s, Stmt::If { .. })) else {
        panic!("{body:?}")
    };
    assert!(assignments(&program, then).contains(&"meta.x = 9".to_owned()));
}

#[test]
fn constructor_parameters_make_instances_differ() {
    let declarations =
        "control Cell(inout bit<32> v)(bit<32> size, bool adds) { register<bit<32>>(size) store;
        apply { if (adds) { v = v + 1; } else { v = v - 1; } store.write(0, v); } }";
    let program = compiles(
        declarations,
        "Cell(16, true) up; Cell(32, false) down;",
        "up.apply(meta.x); down.apply(meta.y);",
    );
    assert_eq!(
        assignments(&program, ingress(&program)),
        ["meta.x = (meta.x + 1)", "meta.y = (meta.y - 1)"]
    );
    let registers: Vec<(&str, &CtorArg)> =
        program.externs.iter().map(|e| (e.name.as_str(), &e.args[0])).collect();
    assert!(
        matches!(
            registers[..],
            [("I.up.store", CtorArg::Int(16)), ("I.down.store", CtorArg::Int(32))]
        ),
        "{registers:?}"
    );
}

#[test]
fn tables_have_keys_entries_and_actions() {
    let locals = "action set(bit<32> v, bit<8> w) { meta.x = v; meta.z = w; }
action drop() { mark_to_drop(sm); }
direct_counter(CounterType.bytes) hits;
table t {
    key = { hdr.h.a : lpm; hdr.h.c : ternary @name(\"see\"); meta.y : range; hdr.h.isValid() : exact; }
    actions = { set; drop; @defaultonly NoAction; }
    const default_action = set(1, 2);
    const entries = {
        (0x0a000000 &&& 0xff000000, 4 &&& 6, 1 .. 5, true) : set(7, 8);
        (5, _, _, false) : drop();
    }
    size = 77; counters = hits;
}";
    let program = compiles("", locals, "t.apply();");
    let t = &program.tables[0];
    assert_eq!(
        (t.name.as_str(), t.size, t.const_default, t.const_entries),
        ("I.t", 77, true, true)
    );
    let keys: Vec<(&str, MatchKind)> = t.keys.iter().map(|k| (k.name.as_str(), k.kind)).collect();
    assert_eq!(
        keys,
        [
            ("hdr.h.a", MatchKind::Lpm),
            ("see", MatchKind::Ternary),
            ("meta.y", MatchKind::Range),
            ("hdr.h.$valid$", MatchKind::Exact)
        ]
    );
    let actions: Vec<&str> =
        t.actions.iter().map(|a| program.actions[a.action.index()].name.as_str()).collect();
    assert_eq!(actions, ["I.set", "I.drop", "NoAction"]);
    assert_eq!(t.actions[2].scope, Scope::DefaultOnly);
    assert_eq!(t.default_action.args.iter().map(|a| a[0]).collect::<Vec<_>>(), [1, 2]);
    assert!(matches!(&t.entries[0].keys[..], [
        Keyset::Prefix { len: 8, .. },
        Keyset::Masked { .. },
        Keyset::Range { .. },
        Keyset::Value(v),
    ] if v[0] == 1));
    assert!(matches!(
        &t.entries[1].keys[..],
        [Keyset::Prefix { len: 32, .. }, Keyset::Any, Keyset::Any, Keyset::Value(_)]
    ));
    assert_eq!(program.externs[t.attached[0].index()].name, "I.hits");
    let set = &program.actions[t.actions[0].action.index()];
    let roles: Vec<FieldRole> = set.params.iter().map(|p| program.fields[p.index()].role).collect();
    assert_eq!(roles, [FieldRole::ActionParam; 2]);
}

#[test]
fn tables_without_a_default_get_no_action() {
    let program = compiles(
        "",
        "action a() {} table t { key = { meta.x : exact; } actions = { a; } }",
        "t.apply();",
    );
    let t = &program.tables[0];
    assert_eq!(t.actions.len(), 2);
    assert_eq!(t.default_action.action, 1);
    assert_eq!(t.actions[1].scope, Scope::DefaultOnly);
}

#[test]
fn outcomes_of_tables() {
    let locals = "action a() {} action b() {} table t { key = { meta.x : exact; } actions = { a; b; } default_action = b; }";
    let program = compiles(
        "",
        locals,
        "if (t.apply().miss) { meta.z = 1; } switch (t.apply().action_run) { a: b: { meta.z = 2; } default: { meta.z = 3; } }",
    );
    let body = ingress(&program);
    assert!(matches!(body[0], Stmt::Apply { hit: Some(_), action: None, .. }));
    assert!(matches!(body[2], Stmt::Apply { hit: None, action: Some(_), .. }));
    let Stmt::Switch { cases, default, .. } = &body[3] else { panic!("{body:?}") };
    assert_eq!(cases.iter().map(|(v, _)| v[0]).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(assignments(&program, default), ["meta.z = 3"]);
}

#[test]
fn actions_with_bound_arguments_belong_to_their_table() {
    let locals = "action add(inout bit<32> to, bit<32> d) { to = to + d; }
table t { key = { hdr.h.c : exact; } actions = { add(meta.x); } }
table u { key = { hdr.h.c : exact; } actions = { add(meta.y); } }";
    let program = compiles("", locals, "t.apply(); u.apply();");
    let bodies: Vec<Vec<String>> = program
        .tables
        .iter()
        .map(|t| assignments(&program, &program.actions[t.actions[0].action.index()].body))
        .collect();
    assert_eq!(bodies, [["meta.x = (meta.x + I.add.d)"], ["meta.y = (meta.y + I.add.d)"]]);
}

#[test]
fn parsers_are_graphs_with_sub_parsers_inside() {
    let declarations = "parser Sub(packet_in p, inout headers_t h) {
    state start { p.extract(h.g); transition select(h.g.c, h.g.a) { (1, 5 .. 9): more; (2 &&& 0xfe, _): accept; default: reject; } }
    state more { p.extract(h.s.next); transition select(h.s.last.c) { 0: more; _: accept; } }
}";
    let text = crate::common::program(declarations, "", "")
        .replace("parser P(", &format!("{declarations}\nparser P("))
        .replace("# 1000 \"declarations\"\nparser Sub", "# 1000 \"declarations\"\nparser Unused")
        .replace("transition accept; }\n}\ncontrol V", "sub.apply(p, hdr); verify(hdr.h.c != 0, error.NoMatch); transition accept; }\n}\ncontrol V")
        .replace("    state start { p.extract(hdr.h);", "    Sub() sub;\n    state start { p.extract(hdr.h);");
    let program = tributary_p4::compile_text("p.p4", &text, &[])
        .unwrap_or_else(|d| panic!("{}", d.render(false)))
        .program;
    let states: Vec<&str> = program.parsers[0].states.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(states[0], "start");
    for wanted in ["start", "start.after", "sub.start", "sub.more"] {
        assert!(states.contains(&wanted), "{states:?}");
    }
    let find = |n: &str| &program.parsers[0].states[states.iter().position(|s| *s == n).unwrap()];
    let target = |t: &Target| match t {
        Target::State(id) => states[id.index()],
        Target::Accept => "accept",
        Target::Reject => "reject",
    };
    let Transition::To(t) = &find("start").transition else { panic!() };
    assert_eq!(target(t), "sub.start");
    let Transition::Select { cases, .. } = &find("sub.start").transition else { panic!() };
    // The sub-parser's `accept` is the state after it.
    assert_eq!(
        cases.iter().map(|(_, t)| target(t)).collect::<Vec<_>>(),
        ["sub.more", "start.after", "reject"]
    );
    assert!(matches!(find("sub.more").body[0], Stmt::Extract { header: HeaderRef::Next(_), .. }));
    assert!(matches!(find("start.after").body[..], [Stmt::Verify { .. }]));
}

#[test]
fn externs_get_typed_arguments() {
    let apply = "hash(meta.x, HashAlgorithm.crc16, 32w1, { hdr.h.a, hdr.h.c, 16w7 }, 32w8);
mark_to_drop(sm);
log_msg(\"x = {}\", { meta.x });
random(meta.z, 0, 9);
resubmit_preserving_field_list(3);";
    let program = compiles("", "", apply);
    let calls: Vec<_> = ingress(&program)
        .iter()
        .map(|s| match s {
            Stmt::Call(c) => (c.method.as_str(), &c.args[..]),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        matches!(calls[0], ("hash", [Arg::Out(..), Arg::Symbol(_, algo), Arg::In(_), Arg::List(l), Arg::In(_)])
        if algo == "crc16" && l.iter().map(|e| e.ty.width).collect::<Vec<_>>() == [32, 8, 16]),
        "{calls:?}"
    );
    assert!(matches!(calls[1], ("mark_to_drop", [Arg::Opaque])));
    assert!(matches!(calls[2], ("log_msg", [Arg::Text(t), Arg::List(_)]) if t == "x = {}"));
    assert!(
        matches!(calls[3], ("random", [Arg::Out(_, t), Arg::In(lo), Arg::In(_)]) if t.width == 8 && lo.ty.width == 8)
    );
    assert!(
        matches!(calls[4], ("resubmit_preserving_field_list", [Arg::In(e)]) if e.ty.width == 8)
    );
}

#[test]
fn field_lists_and_intrinsics() {
    let text = crate::common::program("", "", "")
        .replace("bit<32> x;", "@field_list(1, 2) bit<32> x;")
        .replace("bool flag", "@field_list(2) bool flag");
    let program =
        tributary_p4::compile_text("p.p4", &text, &[]).unwrap_or_else(|d| panic!("{d}")).program;
    let lists: Vec<(u32, Vec<&str>)> = program
        .field_lists
        .iter()
        .map(|(n, f)| (*n, f.iter().map(|f| program.fields[f.index()].name.as_str()).collect()))
        .collect();
    assert_eq!(lists, [(1, vec!["meta.x"]), (2, vec!["meta.x", "meta.flag"])]);
    for name in [
        "ingress_port",
        "egress_spec",
        "mcast_grp",
        "parser_error",
        "priority",
        "egress_rid",
        "deq_qdepth",
    ] {
        assert!(program.intrinsic_field(name).is_some(), "{name}");
    }
    assert_eq!(program.error_code("NoError"), Some(0));
    assert_eq!(program.error_code("PacketTooShort"), Some(1));
}

#[test]
fn exit_copies_out_all_active_calls() {
    let declarations = "control S(inout bit<32> v) { apply { v = 4; exit; } }";
    let program = compiles(
        declarations,
        "S() s;",
        "if (meta.flag) { s.apply(meta.x); } else { s.apply(meta.y); }",
    );
    let list = assignments(&program, ingress(&program));
    // In both branches the value is written back before the exit.
    assert!(list.iter().filter(|l| *l == "meta.x = I.s.v").count() >= 1, "{list:?}");
    assert!(list.iter().filter(|l| *l == "meta.y = I.s.v").count() >= 1, "{list:?}");
}

#[test]
fn thousands_of_registers_compile_in_no_time() {
    let mut locals = String::new();
    let mut apply = String::new();
    for i in 0..2048 {
        locals += &format!(
            "register<bit<32>>(1024) r{i};\naction a{i}() {{ bit<32> t; r{i}.read(t, hdr.h.a); t = t + meta.x; r{i}.write(hdr.h.a, t); }}\n"
        );
        apply += &format!("a{i}();\n");
    }
    let start = std::time::Instant::now();
    let program = compiles("", &locals, &apply);
    assert_eq!(program.externs.len(), 2048);
    // Without optimisation and on a busy machine; a release build takes some tens of milliseconds.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn sums_of_thousands_of_terms() {
    let sum: String = (0..2048).map(|_| " + meta.y").collect();
    let program = compiles("", "", &format!("meta.x = hdr.h.a{sum};"));
    assert_eq!(assignments(&program, ingress(&program))[0].matches('+').count(), 2048);
}

#[test]
fn entries_are_in_order_of_precedence() {
    let order = |properties: &str, entries: &str| {
        let locals = format!(
            "action a(bit<32> v) {{ meta.x = v; }} table t {{ key = {{ hdr.h.c : ternary; }} actions = {{ a; }} {properties} entries = {{ {entries} }} }}"
        );
        let program = compiles("", &locals, "t.apply();");
        program.tables[0].entries.iter().map(|e| e.call.args[0][0]).collect::<Vec<_>>()
    };
    assert_eq!(order("const", "1 : a(1); _ : a(2); 3 : a(3);"), [1, 2, 3]);
    assert_eq!(
        order("const", "1 : a(1) @priority(3); 2 : a(2); 3 : a(3) @priority(1);"),
        [3, 2, 1]
    );
    assert_eq!(order("", "priority = 5 : 1 : a(1); priority = 9 : 2 : a(2); 3 : a(3);"), [2, 3, 1]);
    assert_eq!(
        order(
            "largest_priority_wins = false; priority_delta = 10;",
            "priority = 15 : 1 : a(1); 2 : a(2); priority = 20 : 3 : a(3);"
        ),
        [1, 3, 2]
    );
}

#[test]
fn compound_assignment_evaluates_its_target_once() {
    let declarations = "bit<2> bump(inout bit<8> v) { v = v + 1; return v[1:0]; }";
    let program = compiles(declarations, "", "hdr.s[bump(meta.z)].a |= hdr.h.a;");
    let list = assignments(&program, ingress(&program));
    assert_eq!(list.iter().filter(|a| a.starts_with("meta.z = ")).count(), 1, "{list:?}");
}
