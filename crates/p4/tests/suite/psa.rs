//! PSA programs: pipelines, metadata between them, P4Info, and what is refused.

use tributary_p4::ir::{Block, CtorArg, FieldRole};
use tributary_p4::{Architecture, Compilation, Diagnostics, compile_text};

/// A program with these declarations of Ingress, body of Ingress, and types of metadata: normal as the
/// ingress deparser makes it, and as the egress parser takes it.
fn program(locals: &str, apply: &str, [made, taken]: [&str; 2]) -> String {
    format!(
        "#include <psa.p4>
header h_t {{ bit<32> a; bit<8> b; }}
struct headers_t {{ h_t h; }}
struct meta_t {{ bit<32> x; }}
struct normal_t {{ h_t h; bool flag; }}
struct empty_t {{}}
parser IP(packet_in p, out headers_t hdr, inout meta_t meta, in psa_ingress_parser_input_metadata_t istd,
          in empty_t again, in empty_t around) {{
    state start {{ p.extract(hdr.h); transition accept; }}
}}
control IG(inout headers_t hdr, inout meta_t meta,
           in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {{
    {locals}
    apply {{ {apply} }}
}}
control ID(packet_out p, out empty_t i2e, out empty_t again, out {made} normal,
           inout headers_t hdr, in meta_t meta, in psa_ingress_output_metadata_t istd) {{
    apply {{ p.emit(hdr); }}
}}
parser EP(packet_in p, out headers_t hdr, inout meta_t meta, in psa_egress_parser_input_metadata_t istd,
          in {taken} normal, in empty_t i2e, in empty_t e2e) {{
    state start {{ p.extract(hdr.h); transition accept; }}
}}
control EG(inout headers_t hdr, inout meta_t meta,
           in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {{
    apply {{}}
}}
control ED(packet_out p, out empty_t e2e, out empty_t around, inout headers_t hdr, in meta_t meta,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {{
    apply {{ p.emit(hdr); }}
}}
IngressPipeline(IP(), IG(), ID()) ip;
EgressPipeline(EP(), EG(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
"
    )
}

fn compile(locals: &str, apply: &str) -> Result<Compilation, Diagnostics> {
    compile_text("t.p4", &program(locals, apply, ["normal_t"; 2]), &[])
}

#[track_caller]
fn compiled(locals: &str, apply: &str) -> Compilation {
    compile(locals, apply).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[track_caller]
fn refused(text: &str) -> String {
    let errors = compile_text("t.p4", text, &[]).expect_err("it compiles");
    let messages: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.concat()
}

#[test]
fn the_pipelines_share_nothing_but_the_bridge() {
    let program = compiled("", "").program;
    assert_eq!(program.architecture(), Some(Architecture::Psa));
    let roles: Vec<&str> = program.blocks.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["ip", "ig", "id", "ep", "eg", "ed"]);
    assert!(matches!(program.block("ep"), Some(Block::Parser(_))));
    assert_eq!(program.headers.iter().filter(|header| header.name == "hdr.h").count(), 2);
    let bridges: Vec<(&str, usize)> =
        program.bridges.iter().map(|bridge| (bridge.name.as_str(), bridge.from.len())).collect();
    let expected = [
        ("normal_meta", 4),
        ("clone_i2e_meta", 0),
        ("clone_e2e_meta", 0),
        ("resubmit_meta", 0),
        ("recirculate_meta", 0),
    ];
    assert_eq!(bridges, expected);
    // The header's validity, its fields, the flag; both sides in one order.
    let bridge = &program.bridges[0];
    for (from, to) in bridge.from.iter().zip(&bridge.to) {
        assert_ne!(from, to);
        let [from, to] = [from, to].map(|field| &program.fields[field.index()]);
        assert_eq!(from.ty, to.ty);
    }
    let validity = program.fields[bridge.from[0].index()].role;
    assert!(matches!(validity, FieldRole::Validity(_)), "{validity:?}");
    assert!(program.intrinsic_field("ingress_output.egress_port").is_some());
    assert!(program.intrinsic_field("egress_input.instance").is_some());
}

#[test]
fn metadata_must_have_one_type_on_both_sides() {
    let text = program("", "", ["normal_t", "empty_t"]);
    let message = refused(&text);
    assert_eq!(
        message,
        "`normal_meta` is struct normal_t in the deparser of one pass and struct empty_t in the parser of the next"
    );
}

#[test]
fn table_properties_of_psa() {
    let locals = "DirectCounter<bit<32>>(PSA_CounterType_t.BYTES) hits;
        DirectMeter(PSA_MeterType_t.BYTES) rate;
        ActionSelector(PSA_HashAlgorithm_t.CRC16, 9, 16) sel;
        action a(bit<8> v) { hdr.h.b = v; }
        table t { key = { hdr.h.a : exact; hdr.h.b : selector; } actions = { a; NoAction; }
            psa_implementation = sel; psa_empty_group_action = a(7);
            psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL; }
        table u { key = { hdr.h.a : exact; } actions = { a; }
            default_action = a(1);
            psa_direct_counter = hits; psa_direct_meter = rate;
            psa_idle_timeout = PSA_IdleTimeout_t.NO_TIMEOUT; }";
    let Compilation { program, p4info, warnings } = compiled(locals, "t.apply(); u.apply();");
    assert!(warnings.is_empty(), "{}", warnings.render(false));
    let [t, u] = &program.tables[..] else { panic!("two tables") };
    assert!(t.idle_timeout && !u.idle_timeout);
    let empty = t.empty_group.as_ref().unwrap();
    assert_eq!((empty.action, &*empty.args[0]), (0, &[7][..]));
    assert!(u.empty_group.is_none());
    assert_eq!(p4info.pkg_info.as_ref().unwrap().arch, "psa");
    let [profile] = &p4info.action_profiles[..] else { panic!("one profile") };
    assert!(profile.with_selector);
    assert_eq!(profile.size, 9);
    assert_eq!(p4info.tables[0].implementation_id, profile.preamble.as_ref().unwrap().id);
    assert_eq!(p4info.tables[1].direct_resource_ids.len(), 2);
    let message = refused(&program_text("psa_idle_timeout = true;"));
    assert_eq!(message, "`psa_idle_timeout` is a member of PSA_IdleTimeout_t, not bool");
}

fn program_text(property: &str) -> String {
    let locals =
        format!("table t {{ key = {{ hdr.h.a : exact; }} actions = {{ NoAction; }} {property} }}");
    program(&locals, "t.apply();", ["normal_t"; 2])
}

#[test]
fn types_of_the_architecture_are_in_p4info() {
    let locals = "Counter<bit<32>, PortId_t>(8, PSA_CounterType_t.PACKETS) counts;
        Register<bit<16>, PortId_t>(8) cells;
        Meter<PortId_t>(8, PSA_MeterType_t.BYTES) rates;
        action to(PortId_t port) { send_to_port(ostd, port); }
        table t { key = { istd.ingress_port : exact; } actions = { to; } default_action = to((PortId_t) 0); }";
    let apply = "t.apply(); counts.count(istd.ingress_port); rates.execute(istd.ingress_port);
        cells.write(istd.ingress_port, cells.read(istd.ingress_port));";
    let info = compiled(locals, apply).p4info;
    let port = |name: &Option<tributary_p4runtime::p4::config::v1::P4NamedType>| {
        assert_eq!(name.as_ref().map(|name| name.name.as_str()), Some("PortId_t"));
    };
    port(&info.counters[0].index_type_name);
    port(&info.registers[0].index_type_name);
    port(&info.meters[0].index_type_name);
    port(&info.tables[0].match_fields[0].type_name);
    let action = info.actions.iter().find(|a| a.preamble.as_ref().unwrap().alias == "to").unwrap();
    port(&action.params[0].type_name);
    assert_eq!(action.params[0].bitwidth, 32);
    assert!(info.type_info.unwrap().new_types.contains_key("PortId_t"));
}

#[test]
fn externs_keep_their_constructors() {
    let locals = "Random<bit<8>>(3, 9) dice; Register<bit<32>, bit<8>>(5, 77) cells;
        Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) hash;";
    let apply = "hdr.h.b = dice.read(); cells.write(1, (bit<32>) hash.get_hash({ hdr.h.a }));";
    let program = compiled(locals, apply).program;
    let args = |name: &str| {
        let found = program.externs.iter().find(|e| e.type_name == name).unwrap();
        found.args.iter().map(|arg| match arg {
            CtorArg::Int(value) => value.to_string(),
            CtorArg::Symbol(_, member) => member.clone(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(args("Random").collect::<Vec<_>>(), ["3", "9"]);
    assert_eq!(args("Register").collect::<Vec<_>>(), ["5", "77"]);
    assert_eq!(args("Hash").collect::<Vec<_>>(), ["CRC16"]);
}

#[test]
fn the_three_names_of_the_declarations() {
    for name in ["psa.p4", "bmv2/psa.p4", "dpdk/psa.p4"] {
        let text = program("", "", ["normal_t"; 2]).replace("<psa.p4>", &format!("<{name}>"));
        compile_text("t.p4", &text, &[])
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    }
    // The method is that of the back end for DPDK.
    let locals = "Counter<bit<32>, bit<8>>(8, PSA_CounterType_t.BYTES) counts;";
    assert!(compile(locals, "counts.count(hdr.h.b, 32w9);").is_err());
    let text = program(locals, "counts.count(hdr.h.b, 32w9);", ["normal_t"; 2]);
    assert!(compile_text("t.p4", &text.replace("<psa.p4>", "<dpdk/psa.p4>"), &[]).is_ok());
}
