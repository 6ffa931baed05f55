//! The language features that TNA programs need, and their IR.

use super::{compile, compiles, program};
use tributary_p4::ir::{Arg, ExprKind, FieldRole, Place, Program, Scalar, Stmt};
use tributary_p4::{Architecture, Block};

fn lowered(locals: &str, apply: &str) -> Program {
    compiles(&program("", locals, apply)).program
}

fn ingress(program: &Program) -> &[Stmt] {
    match program.block("ingress") {
        Some(Block::Control(id)) => &program.controls[id.index()].body,
        other => panic!("{other:?}"),
    }
}

fn first_error(locals: &str, apply: &str) -> String {
    let error = compile(&program("", locals, apply)).unwrap_err();
    error.iter().next().unwrap().to_string()
}

#[test]
fn blocks_play_their_roles() {
    let program = lowered("", "");
    assert_eq!(program.architecture(), Some(Architecture::Tna));
    assert_eq!(program.pipeline.as_deref(), Some("pipe"));
    let roles: Vec<&str> = program.blocks.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(
        roles,
        [
            "ingress_parser",
            "ingress",
            "ingress_deparser",
            "egress_parser",
            "egress",
            "egress_deparser"
        ]
    );
}

#[test]
fn metadata_is_named_by_role() {
    let program = lowered("", "");
    let field = |name: &str| program.intrinsic_field(name).unwrap_or_else(|| panic!("{name}"));
    let port = field("ig_tm_md.ucast_egress_port");
    assert_eq!(program.fields[port.index()].ty, Scalar::bit(9));
    assert_eq!(program.fields[port.index()].role, FieldRole::Intrinsic);
    // The intrinsic headers are headers.
    let bits = |name: &str| -> u32 {
        let header = program.headers.iter().find(|h| h.name == name).expect(name);
        header.fields.iter().map(|f| program.fields[f.index()].ty.width).sum()
    };
    assert_eq!((bits("ig_intr_md"), bits("eg_intr_md")), (64, 216));
    let ingress_port = field("ig_intr_md.ingress_port");
    assert!(matches!(program.fields[ingress_port.index()].role, FieldRole::Header(_)));
    for name in [
        "ig_prsr_md.parser_err",
        "ig_dprsr_md.drop_ctl",
        "eg_dprsr_md.drop_ctl",
        "eg_oport_md.update_delay_on_tx",
    ] {
        field(name);
    }
    // Both gresses have a parser; only one extracts the program's header.
    assert!(program.intrinsic_field("ucast_egress_port").is_none());
}

#[test]
fn blocks_may_leave_optional_parameters_out() {
    let short = program("", "", "").replace(
        "inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {",
        "inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {",
    );
    let done = compiles(&short).program;
    assert!(done.intrinsic_field("eg_oport_md.update_delay_on_tx").is_none());
    let wrong = program("", "", "").replace(
        "in egress_intrinsic_metadata_t eg_intr_md,
               in egress",
        "in egress",
    );
    let error = compile(&wrong).unwrap_err();
    assert!(error.iter().any(|d| d.message.contains("does not fit the argument `egress`")));
}

#[test]
fn register_actions_are_statements_on_the_cell() {
    let program = lowered(
        "Register<pair_t, bit<16>>(1024, { 1, 2 }) reg;
RegisterAction<pair_t, _, bit<32>>(reg) act = {
    void apply(inout pair_t value, out bit<32> rv) {
        if (value.lo == hdr.d.a) { value.hi = value.hi + 1; }
        rv = value.hi;
    }
};",
        "hdr.d.r = act.execute(hdr.d.index);",
    );
    let register = program.externs.iter().find(|e| e.type_name == "Register").unwrap();
    assert_eq!(register.name, "Ingress.reg");
    assert_eq!(register.type_args, [Scalar::bit(32), Scalar::bit(32)]);
    assert_eq!(format!("{:?}", register.args), "[Int(1024), Int(1), Int(2)]");
    let [action] = program.stateful.as_slice() else { panic!("{:?}", program.stateful) };
    assert_eq!(program.externs[action.register.index()].name, "Ingress.reg");
    assert_eq!(program.externs[action.instance.index()].name, "Ingress.act");
    assert_eq!(action.value.len(), 2);
    assert!(action.result.is_some());
    assert!(matches!(action.body.as_slice(), [Stmt::If { .. }, Stmt::Assign(..)]));
    let call = ingress(&program).iter().find_map(|s| match s {
        Stmt::Call(call) => Some(call),
        _ => None,
    });
    let call = call.expect("a call");
    assert_eq!(call.instance, Some(action.instance));
    assert_eq!(call.method, "execute");
    assert!(matches!(call.args.as_slice(), [Arg::In(_), Arg::Out(Place::Field(_), _)]));
}

#[test]
fn methods_must_fit_their_declaration() {
    let declare = |method: &str| {
        format!(
            "Register<bit<32>, bit<16>>(16) reg;\nRegisterAction<bit<32>, bit<16>, bit<32>>(reg) act{method};"
        )
    };
    assert_eq!(
        first_error(&declare(""), ""),
        "locals:2:48: error: `act` does not give the method `apply`"
    );
    assert_eq!(
        first_error(&declare(" = { void apply(inout bit<16> value) {} }"), ""),
        "locals:2:61: error: method `apply` takes (inout bit<16> value) here, but its declaration wants (inout bit<32> value, @optional out bit<32> rv)"
    );
    assert!(
        first_error(&declare(" = { void aply(inout bit<32> value) {} }"), "")
            .contains("no abstract method `aply`")
    );
    assert!(first_error(&declare(" = { bit<32> x; }"), "").contains("gives methods only"));
    assert!(
        first_error(
            "Register<bit<16>, bit<16>>(16) reg;
RegisterAction<bit<32>, bit<16>, bit<32>>(reg) act = { void apply(inout bit<32> value) {} };",
            ""
        )
        .contains("but `Ingress.reg` has cells of (bit<16>)")
    );
    assert!(
        first_error("Hash<bit<16>>(HashAlgorithm_t.CRC16) h = { void get() {} };", "")
            .contains("has no abstract method `get`")
    );
    assert!(
        first_error("", "this.predicate(true, true);")
            .contains("`this` stands in the methods of an instance only")
    );
}

#[test]
fn requests_wait_for_their_type() {
    let text = program("header h_t { bit<8> x; }", "", "ig_dprsr_md.mirror_type = 2;").replace(
        "    apply { pkt.emit(hdr); }",
        "    Mirror(2) mirror; Digest<h_t>() digest; Resubmit() again;
    apply {
        mirror.emit<h_t>(5, { hdr.d.e });
        if (ig_dprsr_md.digest_type == 1) { digest.pack({ hdr.d.f }); }
        if (ig_dprsr_md.resubmit_type == 1) { again.emit(hdr.d); }
        pkt.emit(hdr);
    }",
    );
    let done = compiles(&text);
    let program = &done.program;
    let Some(Block::Control(id)) = program.block("ingress_deparser") else { panic!() };
    let body = &program.controls[id.index()].body;
    let [Stmt::If { condition, then, .. }, ..] = body.as_slice() else { panic!("{body:?}") };
    assert!(matches!(condition.kind, ExprKind::Binary(..)));
    let [Stmt::Call(call)] = then.as_slice() else { panic!("{then:?}") };
    assert_eq!(call.method, "emit");
    let [Arg::In(session), Arg::List(list)] = call.args.as_slice() else { panic!("{call:?}") };
    assert_eq!((session.ty, list.len()), (Scalar::bit(10), 1));
    let names: Vec<&str> =
        done.p4info.digests.iter().map(|d| d.preamble.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(names, ["IngressDeparser.digest"]);
}

#[test]
fn functions_of_tna_are_expressions() {
    let program = lowered(
        "",
        "hdr.d.a = max(hdr.d.a, hdr.d.b); hdr.d.c = (bit<16>)sizeInBytes(hdr.d);
funnel_shift_right(hdr.d.r, hdr.d.a, hdr.d.b, 8); invalidate(ig_tm_md.ucast_egress_port); invalidate(hdr.d);",
    );
    let text = format!("{:?}", ingress(&program));
    // 20 bytes, and no call remains.
    assert!(text.contains("[20]") && !text.contains("Call"), "{text}");
    assert!(text.contains("SetInvalid") && text.contains("[511]"));
}

#[test]
fn port_metadata_is_skipped_as_a_whole() {
    let text = program("struct port_t { bit<16> x; bit<8> y; }", "", "").replace(
        "pkt.advance(PORT_METADATA_SIZE);",
        "port_t port = port_metadata_unpack<port_t>(pkt);",
    );
    let program = compiles(&text).program;
    let start = &program.parsers[0].states[0].body;
    let looked = start.iter().find_map(|s| match s {
        Stmt::Lookahead(fields) => Some(fields.len()),
        _ => None,
    });
    assert_eq!(looked, Some(2));
    assert!(
        format!("{start:?}")
            .contains("Advance(Expr { ty: Scalar { width: 32, signed: false }, kind: Const([64])")
    );
}

#[test]
fn an_index_type_left_open_is_the_registers_with_a_warning() {
    let with = |index: &str| {
        let locals = format!(
            "Register<bit<32>, bit<6>>(64) r;
            RegisterAction<bit<32>, {index}, bit<32>>(r) add = {{
                void apply(inout bit<32> value, out bit<32> rv) {{ value = value + 1; rv = value; }}
            }};"
        );
        compiles(&program("", &locals, "hdr.d.a = add.execute(3);"))
    };
    let (open, written) = (with("_"), with("bit<6>"));
    let warnings: Vec<String> = open.warnings.iter().map(ToString::to_string).collect();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("write `bit<6>`, the register's index type"), "{warning}");
    assert!(written.warnings.is_empty());
    assert_eq!(format!("{:?}", ingress(&open.program)), format!("{:?}", ingress(&written.program)));
}

#[test]
fn math_units_store_in_the_first_word_and_a_register_has_one() {
    let with = |body: &str| {
        let locals = format!(
            "Register<pair_t, bit<6>>(64) r;
            MathUnit<bit<32>>(MathOp_t.SQR, 1) square;
            MathUnit<bit<32>>(MathOp_t.SQRT, 3, 2) root;
            RegisterAction<pair_t, bit<6>, bit<32>>(r) one = {{
                void apply(inout pair_t value, out bit<32> rv) {{ {body} }}
            }};
            RegisterAction<pair_t, bit<6>, bit<32>>(r) two = {{
                void apply(inout pair_t value, out bit<32> rv) {{
                    value.lo = root.execute(hdr.d.b);
                }}
            }};"
        );
        let calls =
            "if (hdr.d.f == 0) { hdr.d.r = one.execute(1); } else { hdr.d.r = two.execute(1); }";
        let done = compile(&program("", &locals, calls));
        done.map(drop).map_err(|errors| errors.iter().next().unwrap().message.clone())
    };
    assert_eq!(with("value.lo = value.lo + root.execute(hdr.d.a); rv = value.lo;"), Ok(()));
    let stored =
        "the math unit's result can only be stored in the cell, in the first word of a pair";
    assert_eq!(with("value.hi = root.execute(hdr.d.a);"), Err(stored.to_owned()));
    assert_eq!(with("value.lo = 1; rv = root.execute(hdr.d.a);"), Err(stored.to_owned()));
    assert_eq!(
        with("value.lo = square.execute(hdr.d.a);"),
        Err("the actions of register `r` use 2 math units, but there is one".to_owned())
    );
}

#[test]
fn unmodelled_externs_are_rejected_by_name() {
    let found = first_error(
        "Hash<bit<8>>(HashAlgorithm_t.CRC8) h;
            ActionProfile(8) p;
            ActionSelector(p, h, SelectorMode_t.FAIR, 4, 2) s;
            SelectorAction(s) c = { void apply(inout bit<1> value) { value = 0; } };",
        "",
    );
    let says = "the extern `SelectorAction` of TNA is not supported";
    assert_eq!(found.split(": error: ").nth(1), Some(says));
    let two = program("", "", "").replace("Switch(pipe) main;", "Switch(pipe, pipe) main;");
    assert!(compile(&two).unwrap_err().iter().any(|d| d.message.contains("a second pipeline")));
}

#[test]
fn pragmas_end_with_their_line() {
    let program = lowered(
        "action a() {}
@pragma stage 3
@pragma placement_priority 1
table t { key = { hdr.d.a : exact; } actions = { a; } size = 4; }
@stage(4) table u { key = { hdr.d.a : exact @name(\"a\"); } actions = { a; } size = 4; idle_timeout = true; }",
        "t.apply(); u.apply();",
    );
    let annotations: Vec<(&str, &str)> =
        program.tables[0].annotations.iter().map(|a| (a.name.as_str(), a.body.as_str())).collect();
    assert_eq!(annotations, [("stage", "3"), ("placement_priority", "1")]);
    assert!(program.tables[1].idle_timeout);
    // The architecture's default.
    let program = lowered(
        "action a() {} table t { key = { hdr.d.a : exact; } actions = { a; } }",
        "t.apply();",
    );
    assert_eq!(program.tables[0].size, 512);
}

#[test]
fn architectures_have_names() {
    for architecture in Architecture::ALL {
        assert_eq!(architecture.to_string().parse(), Ok(architecture));
        assert_eq!(Architecture::of_package(architecture.package()), Some(architecture));
    }
    let error = "pna".parse::<Architecture>().unwrap_err();
    assert_eq!(error.to_string(), "there is no architecture `pna`: it is v1model, tna or psa");
}
