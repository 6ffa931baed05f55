//! P4Info of TNA programs.

use super::{compiles, program};

/// A program with everything that P4Info describes, in two controls, one of which calls the other.
pub(super) fn everything() -> String {
    program(
        "header bridged_t { bit<8> x; bit<16> y; }
control Inner(inout headers_t hdr)(bit<32> size) {
    Counter<bit<32>, bit<16>>(size, CounterType_t.BYTES) bytes;
    action count(bit<16> index, @name(\"other\") bit<8> unused) { bytes.count(index); hdr.d.f = unused; }
    table inside { key = { hdr.d.e : exact @name(\"e\"); hdr.d.b : lpm; } actions = { count; NoAction; } const default_action = NoAction; }
    apply { inside.apply(); }
}",
        "Counter<bit<64>, bit<16>>(16, CounterType_t.PACKETS_AND_BYTES) seen;
DirectCounter<bit<64>>(CounterType_t.PACKETS) hits;
Register<pair_t, bit<16>>(1024) reg;
RegisterAction<pair_t, bit<16>, bit<32>>(reg) act = { void apply(inout pair_t value, out bit<32> rv) { value.lo = value.lo + 1; rv = value.lo; } };
Register<bit<8>, bit<16>>(64, 3) small;
RegisterAction<bit<8>, bit<16>, bit<8>>(small) small_act = { void apply(inout bit<8> value, out bit<8> rv) { rv = value; } };
Inner(32) first; Inner(64) second;
action count(bit<16> index) { hits.count(); hdr.d.r = act.execute(index); }
action keep() { hits.count(); }
@brief(\"Says no.\") action drop() { hits.count(); ig_dprsr_md.drop_ctl = 1; }
table t { key = { hdr.d.a : ternary; hdr.d.c : range; hdr.d.isValid() : exact; md.m[7:0] : ternary @name(\"low\"); } actions = { count; @defaultonly drop; @tableonly keep; } counters = hits; size = 64; default_action = drop; }
table u { key = { hdr.d.f : exact; } actions = { NoAction; } const entries = { 1 : NoAction(); } idle_timeout = true; size = 16; }",
        "t.apply(); u.apply(); seen.count(hdr.d.index); first.apply(hdr); second.apply(hdr); hdr.d.f = small_act.execute(hdr.d.index);",
    )
    .replace(
        "    apply { pkt.emit(hdr); }",
        "    Digest<bridged_t>() learn;
    apply {
        if (ig_dprsr_md.digest_type == 1) { learn.pack({ hdr.d.e, hdr.d.d }); }
        pkt.emit(hdr);
    }",
    )
}

#[test]
fn everything_is_described() {
    let info = compiles(&everything()).p4info;
    assert_eq!((info.tables.len(), info.counters.len(), info.direct_counters.len()), (4, 3, 1));
    assert_eq!((info.registers.len(), info.digests.len()), (2, 1));
    let sizes: Vec<i64> = info.tables.iter().map(|t| t.size).collect();
    assert_eq!(sizes, [64, 16, 512, 512]);
}

#[test]
fn a_selector_belongs_to_its_profile_and_value_sets_to_their_parser() {
    let text = program(
        "",
        "Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
ActionProfile(64) members;
ActionSelector(members, hash, SelectorMode_t.FAIR, 20, 3) choose;
ActionProfile(8) shared;
action a() {}
table t { key = { hdr.d.a : exact; hdr.d.b : selector; } actions = { a; } implementation = choose; }
table u { key = { hdr.d.a : exact; } actions = { a; } implementation = shared; }",
        "t.apply(); u.apply();",
    );
    let info = compiles(&text).p4info;
    let id = |name: &str| {
        let found = info
            .action_profiles
            .iter()
            .find(|p| p.preamble.as_ref().is_some_and(|preamble| preamble.name.ends_with(name)));
        found.map(|p| p.preamble.as_ref().unwrap().id)
    };
    let profiles: Vec<_> = info
        .action_profiles
        .iter()
        .map(|p| (p.size, p.with_selector, p.max_group_size, p.table_ids.len()))
        .collect();
    assert_eq!(profiles, [(64, true, 20, 1), (8, false, 0, 1)]);
    let used: Vec<_> = info.tables.iter().map(|table| Some(table.implementation_id)).collect();
    assert_eq!(used, [id(".members"), id(".shared")]);
    assert_eq!(info.tables[0].match_fields.len(), 1, "the selector's key is not matched");
}

#[test]
fn names_are_without_the_pipeline_and_identifiers_with_it() {
    let info = compiles(&program(
        "",
        "Counter<bit<64>, bit<16>>(16, CounterType_t.PACKETS_AND_BYTES) seen;
DirectCounter<bit<64>>(CounterType_t.PACKETS) hits;
Register<pair_t, bit<16>>(1024) reg;
RegisterAction<pair_t, bit<16>, bit<32>>(reg) act = { void apply(inout pair_t value, out bit<32> rv) { rv = value.lo; } };
action count(bit<16> index) { hits.count(); seen.count(index); hdr.d.r = act.execute(index); }
table t { key = { hdr.d.a : exact; } actions = { count; } counters = hits; size = 64; }",
        "t.apply();",
    ))
    .p4info;
    assert_eq!(info.pkg_info.as_ref().unwrap().arch, "tna");
    let name = |p: &Option<tributary_p4runtime::p4::config::v1::Preamble>| {
        let p = p.as_ref().unwrap();
        (p.name.clone(), p.id)
    };
    let (table, id) = name(&info.tables[0].preamble);
    // One-at-a-time hashes of `pipe.Ingress.t` and so on, computed independently.
    assert_eq!((table.as_str(), id), ("Ingress.t", 0x0200_0000 | one_at_a_time("pipe.Ingress.t")));
    let (action, id) = name(&info.actions[0].preamble);
    assert_eq!(
        (action.as_str(), id),
        ("Ingress.count", 0x0100_0000 | one_at_a_time("Ingress.count"))
    );
    assert_eq!(
        name(&info.counters[0].preamble),
        ("Ingress.seen".into(), 0x1200_0000 | one_at_a_time("pipe.Ingress.seen"))
    );
    assert_eq!(
        name(&info.direct_counters[0].preamble),
        ("Ingress.hits".into(), 0x1300_0000 | one_at_a_time("pipe.Ingress.hits"))
    );
    assert_eq!(info.direct_counters[0].direct_table_id, name(&info.tables[0].preamble).1);
    assert_eq!(
        name(&info.registers[0].preamble),
        ("Ingress.reg".into(), 0x1600_0000 | one_at_a_time("pipe.Ingress.reg"))
    );
    assert_eq!(info.registers[0].size, 1024);
    assert!(info.registers[0].index_type_name.is_none());
}

/// The low 24 bits of Bob Jenkins's hash.
fn one_at_a_time(name: &str) -> u32 {
    let hash = name.bytes().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(u32::from(byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    let hash = hash.wrapping_add(hash << 3);
    let hash = hash ^ (hash >> 11);
    hash.wrapping_add(hash << 15) & 0x00ff_ffff
}
