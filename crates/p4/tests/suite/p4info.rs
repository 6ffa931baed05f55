//! P4Info, compared with p4c's for the same declarations (numbers copied from its output).

use tributary_p4::{P4Info, compile_text};
use tributary_p4runtime::p4::config::v1::match_field::{Match, MatchType};

const L2: &str = include_str!("../programs/l2.p4");

fn info(text: &str) -> P4Info {
    compile_text("t.p4", text, &[]).unwrap_or_else(|d| panic!("{}", d.render(false))).p4info
}

#[test]
fn a_forwarder() {
    let info = info(L2);
    assert_eq!(info.pkg_info.as_ref().unwrap().arch, "v1model");
    let table = &info.tables[0];
    let preamble = table.preamble.as_ref().unwrap();
    assert_eq!(
        (preamble.name.as_str(), preamble.alias.as_str()),
        ("L2Ingress.destination", "destination")
    );
    assert_eq!(preamble.id >> 24, 2);
    assert_eq!(table.size, 4096);
    let field = &table.match_fields[0];
    assert_eq!((field.id, field.name.as_str(), field.bitwidth), (1, "hdr.ethernet.dst", 48));
    assert_eq!(field.r#match, Some(Match::MatchType(MatchType::Exact.into())));
    let names: Vec<&str> =
        info.actions.iter().map(|a| a.preamble.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(names, ["L2Ingress.forward", "L2Ingress.drop"]);
    assert_eq!(
        (info.actions[0].params[0].name.as_str(), info.actions[0].params[0].bitwidth),
        ("port", 9)
    );
    let counter = &info.counters[0];
    assert_eq!((counter.size, counter.preamble.as_ref().unwrap().id >> 24), (512, 0x12));
    let ids: Vec<u32> = table.action_refs.iter().map(|a| a.id).collect();
    assert_eq!(table.initial_default_action.as_ref().unwrap().action_id, ids[1]);
}

#[test]
fn other_objects_in_p4info() {
    let declarations = "@controller_header(\"packet_in\") header in_t { @id(4) bit<9> port; bit<7> pad; }
@p4runtime_translation(\"uri\", 32) type bit<9> port_t;
enum bit<8> K { A = 1 }
struct note_t { bit<32> a; bit<8> b; }
control Sub(inout meta_t meta) { action a(port_t p, K k) { meta.z = 1; }
    @id(77) table t { key = { meta.x : optional; meta.y : range @brief(\"y\"); } actions = { a; } support_timeout = true; } apply { t.apply(); } }";
    let locals = "Sub() one; Sub() two; direct_counter(CounterType.packets) dc; direct_meter<bit<8>>(MeterType.bytes) dm;
register<bit<32>>(9) r; meter(3, MeterType.packets) m;
table d { key = { hdr.h.a : ternary; } actions = { NoAction; } counters = dc; meters = dm; }";
    let text = crate::common::program(declarations, locals, "one.apply(meta); d.apply(); digest<note_t>(1, { meta.x, meta.z });")
        .replace("struct headers_t { ", "@controller_header(\"packet_in\") header in_t { @id(4) bit<9> port; bit<7> pad; }\nstruct headers_t { in_t i; ")
        .replace("# 1000 \"declarations\"\n@controller_header(\"packet_in\") header in_t { @id(4) bit<9> port; bit<7> pad; }\n", "# 1000 \"declarations\"\n");
    let info = info(&text);
    // An instance that is not applied has no tables.
    let tables: Vec<(u32, &str)> = info
        .tables
        .iter()
        .map(|t| t.preamble.as_ref().unwrap())
        .map(|p| (p.id, p.name.as_str()))
        .collect();
    assert_eq!(tables[0], (0x0200_004d, "I.one.t"));
    assert_eq!(tables[1].1, "I.d");
    assert_eq!(tables.len(), 2);
    let t = &info.tables[0];
    assert_eq!(t.idle_timeout_behavior, 1);
    assert_eq!(t.match_fields[1].doc.as_ref().unwrap().brief, "y");
    let a = &info.actions[0];
    assert_eq!((a.params[0].bitwidth, a.params[1].bitwidth), (32, 8));
    assert_eq!(a.params[0].type_name.as_ref().unwrap().name, "port_t");
    let types = info.type_info.as_ref().unwrap();
    assert!(types.new_types.contains_key("port_t"));
    assert_eq!(types.serializable_enums["K"].members[0].value, [1]);
    assert_eq!(types.structs["note_t"].members.len(), 2);
    let d = &info.tables[1];
    assert_eq!(d.direct_resource_ids.iter().map(|i| i >> 24).collect::<Vec<_>>(), [0x13, 0x15]);
    assert_eq!(info.direct_counters[0].direct_table_id, tables[1].0);
    assert_eq!((info.registers[0].size, info.meters[0].size), (9, 3));
    assert_eq!(info.digests[0].preamble.as_ref().unwrap().id >> 24, 0x17);
    let header = &info.controller_packet_metadata[0];
    assert_eq!(header.preamble.as_ref().unwrap().name, "packet_in");
    let metadata: Vec<(u32, &str, i32)> =
        header.metadata.iter().map(|m| (m.id, m.name.as_str(), m.bitwidth)).collect();
    assert_eq!(metadata, [(4, "port", 9), (2, "pad", 7)]);
}

/// The identifiers are those of p4c (1.2.5) for this program.
#[test]
fn structured_annotations_are_constants() {
    use tributary_p4runtime::p4::config::v1::expression::Value;
    use tributary_p4runtime::p4::config::v1::structured_annotation::Body;
    let locals = "const bit<8> LIMIT = 9;
@mixed[1 + LIMIT, \"two\", 3 == 4] @named[unit = \"byte\", size = 2 * LIMIT] @mode(\"fair\") @bare
table t { actions = { @mark[1] NoAction; } }";
    let table = info(&crate::common::program("", locals, "t.apply();")).tables.remove(0);
    let preamble = table.preamble.unwrap();
    assert_eq!(preamble.annotations, ["@mode(\"fair\")", "@bare"]);
    let [mixed, named] = preamble.structured_annotations.try_into().unwrap();
    let Some(Body::ExpressionList(list)) = mixed.body else { panic!("{mixed:?}") };
    let values: Vec<_> = list.expressions.into_iter().filter_map(|one| one.value).collect();
    let two = Value::StringValue("two".into());
    assert_eq!(values, [Value::Int64Value(10), two, Value::BoolValue(false)]);
    let Some(Body::KvPairList(list)) = named.body else { panic!("{named:?}") };
    let pairs: Vec<_> = list
        .kv_pairs
        .into_iter()
        .map(|pair| (pair.key, pair.value.and_then(|value| value.value).unwrap()))
        .collect();
    let unit = ("unit".into(), Value::StringValue("byte".into()));
    assert_eq!(pairs, [unit, ("size".into(), Value::Int64Value(18))]);
    assert_eq!(table.action_refs[0].structured_annotations[0].name, "mark");

    let text = crate::common::program("", "@a[1, b = 2] table t { actions = {} }", "t.apply();");
    let errors = compile_text("t.p4", &text, &[]).unwrap_err().render(false);
    assert!(errors.contains("values that all have names, or none"), "{errors}");
    let text = crate::common::program("", "@a[hdr.h.a] table t { actions = {} }", "t.apply();");
    let errors = compile_text("t.p4", &text, &[]).unwrap_err().render(false);
    assert!(errors.contains("known at compile time"), "{errors}");
}

#[test]
fn the_package_describes_itself() {
    let text = crate::common::program("", "", "");
    let main = text.find("V1Switch(").unwrap();
    let (before, after) = text.split_at(main);
    let text = format!(
        "{before}@pkginfo(name = \"sums\", version = \"2\") @brief(\"adds\")
@platform_property(multicast_group_table_size = 10) @note(\"it\") {after}"
    );
    let package = info(&text).pkg_info.unwrap();
    assert_eq!((package.name.as_str(), package.version.as_str()), ("sums", "2"));
    assert_eq!(package.arch, "v1model");
    assert_eq!(package.doc.unwrap().brief, "adds");
    assert_eq!(package.platform_properties.unwrap().multicast_group_table_size, 10);
    assert_eq!(package.annotations, ["@note(\"it\")"]);
}

#[test]
fn a_selectors_groups_have_a_size() {
    use tributary_p4runtime::p4::config::v1::action_profile::SelectorSizeSemantics;
    let locals = "@max_group_size(7) @selector_size_semantics(\"sum_of_members\") @max_member_weight(40)
action_selector(HashAlgorithm.crc16, 32, 8) s;
table t { key = { hdr.h.a : exact; meta.x : selector; } actions = { NoAction; } implementation = s; }";
    let profile = info(&crate::common::program("", locals, "t.apply();")).action_profiles.remove(0);
    assert!(profile.with_selector && profile.preamble.unwrap().annotations.is_empty());
    assert_eq!((profile.size, profile.max_group_size), (32, 7));
    let Some(SelectorSizeSemantics::SumOfMembers(sum)) = profile.selector_size_semantics else {
        panic!("sizes are counted in members");
    };
    assert_eq!(sum.max_member_weight, 40);
}

#[test]
fn identifiers_of_p4c() {
    let info = info(L2);
    let ids: Vec<(String, u32)> = info
        .tables
        .iter()
        .map(|t| t.preamble.as_ref().unwrap())
        .chain(info.actions.iter().map(|a| a.preamble.as_ref().unwrap()))
        .chain(info.counters.iter().map(|c| c.preamble.as_ref().unwrap()))
        .map(|p| (p.alias.clone(), p.id))
        .collect();
    let want = [
        ("destination", 48_802_626),
        ("forward", 25_122_418),
        ("drop", 25_017_946),
        ("received", 307_064_419),
    ];
    assert_eq!(ids, want.map(|(n, i)| (n.to_owned(), i)));
}

fn action_ids(text: &str) -> Vec<(String, u32)> {
    let actions = info(text).actions.into_iter().map(|action| action.preamble.unwrap());
    let mut ids: Vec<(String, u32)> = actions.map(|p| (p.name, p.id)).collect();
    ids.sort();
    ids
}

const CALLS: &str = include_str!("../programs/calls.p4");

/// Actions that only actions call are part of the callers. The identifiers are those of p4c
/// (1.2.5).
#[test]
fn actions_called_only_by_actions_are_not_in_p4info() {
    let want = [
        ("I.both", 22_354_482),
        ("I.direct", 20_336_992),
        ("I.listed", 21_445_869),
        ("NoAction", 21_257_015),
    ];
    assert_eq!(action_ids(CALLS), want.map(|(n, i)| (n.to_owned(), i)));
}

/// An action that a block also calls is visible, whether the block or the action comes first.
#[test]
fn an_action_called_by_a_block_is_in_p4info() {
    for (call, name) in [("helper(4);", "I.helper"), ("deeper();", "I.deeper")] {
        for body in [format!("t.apply(); {call} direct();"), format!("{call} t.apply(); direct();")]
        {
            let text = CALLS.replace("t.apply(); direct();", &body);
            assert_ne!(text, CALLS);
            let ids = action_ids(&text);
            assert!(ids.len() == 5 && ids.iter().any(|(found, _)| found == name), "{ids:?}");
        }
    }
}
