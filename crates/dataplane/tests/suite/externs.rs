//! Externs of v1model that the control plane configures: meters, action profiles and selectors,
//! digests, timeouts. One small program each.

use tributary_dataplane::{
    Action, ActionCall, ActionSet, GroupMember, IngressInput, KeyMatch, LoadError, MeterConfig,
    Owner, Pipeline, ProfileError, ProfileGroup, StateError, TableEntry, TableError, Value,
    Verdict, WeightedCall,
};
use tributary_p4::ir::{ExternId, TableId};

use super::common;

const TABLE: TableId = TableId(0);

/// A program with fields `a`, `b` and `c` in its packets, and this ingress.
fn compile(locals: &str, apply: &str) -> tributary_p4::ir::Program {
    let source = format!(
        "
        #include <core.p4>
        #include <v1model.p4>
        header h_t {{ bit<8> a; bit<16> b; bit<8> c; }}
        struct headers_t {{ h_t h; }}
        struct meta_t {{ bit<8> color; bit<16> x; }}
        struct news_t {{ bit<16> b; bit<9> port; bit<70> wide; }}
        parser P(packet_in p, out headers_t hdr, inout meta_t meta,
                 inout standard_metadata_t sm) {{
            state start {{ p.extract(hdr.h); transition accept; }}
        }}
        control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
        control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
            {locals}
            apply {{ {apply} }}
        }}
        control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
            apply {{ }}
        }}
        control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
        control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.h); }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;
        "
    );
    match tributary_p4::compile_text("test.p4", &source, &[]) {
        Ok(compilation) => compilation.program,
        Err(errors) => panic!("{errors}"),
    }
}

fn load(locals: &str, apply: &str) -> Pipeline {
    common::load(compile(locals, apply)).unwrap_or_else(|error| panic!("{error}"))
}

/// The port that a packet with these fields is sent to.
fn port(pipeline: &mut Pipeline, a: u8, b: u16, c: u8, time_us: u64) -> u16 {
    let mut packet = pipeline.new_packet();
    let [high, low] = b.to_be_bytes();
    let input = IngressInput { time_us, ..IngressInput::default() };
    match pipeline.ingress(&mut packet, &[a, high, low, c], &input).verdict {
        Verdict::Unicast(port) => port,
        other => panic!("{other:?}"),
    }
}

fn exact(a: u64) -> Vec<KeyMatch> {
    vec![KeyMatch::Exact(a.into())]
}

fn call(port: u64) -> ActionCall {
    ActionCall { action: 0, args: vec![port.into()] }
}

fn instance(pipeline: &Pipeline, name: &str) -> ExternId {
    let at = pipeline.program().externs.iter().position(|e| e.name.ends_with(name));
    ExternId(at.unwrap_or_else(|| panic!("no {name}")) as u32)
}

#[test]
fn a_meter_array_colours_packets_by_index_and_time() {
    let mut pipeline = load(
        "meter(4, MeterType.packets) limits;",
        "meta.color = 9; limits.execute_meter((bit<32>) hdr.h.a, meta.color);
         sm.egress_spec = (bit<9>) meta.color;",
    );
    let meter = instance(&pipeline, "limits");
    assert_eq!(pipeline.array_size(meter), Some(4));
    assert_eq!(port(&mut pipeline, 1, 0, 0, 0), 0, "an unset meter is green");
    let config = MeterConfig { cir: 1_000, cburst: 1, pir: 1_000, pburst: 2 };
    pipeline.set_meter_config(meter, 1, Some(config)).unwrap();
    assert_eq!(pipeline.meter_config(meter, 1), Ok(Some(config)));
    let mut colours = |index, times: [u64; 5]| times.map(|t| port(&mut pipeline, index, 0, 0, t));
    assert_eq!(colours(1, [10, 10, 10, 500, 1_000]), [0, 1, 2, 2, 0]);
    assert_eq!(colours(2, [2_000; 5]), [0; 5], "each cell has its own");
    assert_eq!(colours(4, [2_000; 5]), [9; 5], "out of range the colour stays as it was");
    pipeline.set_meter_config(meter, 1, None).unwrap();
    assert_eq!(pipeline.meter_config(meter, 1), Ok(None));
    assert_eq!(port(&mut pipeline, 1, 0, 0, 2_000), 0);
    let above = MeterConfig { cir: 2, pir: 1, ..config };
    assert_eq!(pipeline.set_meter_config(meter, 1, Some(above)), Err(StateError::Rates));
    let beyond = Err(StateError::Index { index: 4, size: 4 });
    assert_eq!(pipeline.set_meter_config(meter, 4, None), beyond);
    assert_eq!(pipeline.counter_read(meter, 0), Err(StateError::Unknown("counter")));
}

const METERED: &str = "
    direct_meter<bit<8>>(MeterType.bytes) limit;
    action read() { limit.read(meta.color); }
    action other() { }
    table t {
        key = { hdr.h.a: exact; }
        actions = { read; other; }
        meters = limit;
        default_action = other();
    }";

#[test]
fn a_direct_meter_belongs_to_an_entry_and_outlives_a_change_of_its_action() {
    let mut pipeline =
        load(METERED, "meta.color = 9; t.apply(); sm.egress_spec = (bit<9>) meta.color;");
    let does = |action| ActionCall { action, args: Vec::new() };
    for a in [1, 2] {
        pipeline.insert(TABLE, TableEntry::new(exact(a), 0, does(0))).unwrap();
    }
    let config = MeterConfig { cir: 0, cburst: 8, pir: 0, pburst: 12 };
    pipeline.set_direct_meter_config(TABLE, Owner::Entry(&exact(1), 0), Some(config)).unwrap();
    let mut colours = |a| [0; 2].map(|t| port(&mut pipeline, a, 0, 0, t));
    assert_eq!(colours(1), [0, 0]);
    assert_eq!(colours(2), [0, 0]);
    assert_eq!(colours(7), [9, 9], "a miss is not metered");
    // BMv2 meters every hit, whether the action reads the colour or not.
    pipeline.modify(TABLE, TableEntry::new(exact(1), 0, does(1))).unwrap();
    assert_eq!([0; 2].map(|t| port(&mut pipeline, 1, 0, 0, t)), [1, 2]);
    assert_eq!(pipeline.direct_meter_config(TABLE, Owner::Entry(&exact(1), 0)), Ok(Some(config)));
    assert_eq!(pipeline.direct_meter_config(TABLE, Owner::Entry(&exact(2), 0)), Ok(None));
    let none = pipeline.direct_meter_config(TABLE, Owner::Entry(&exact(3), 0));
    assert_eq!(none, Err(StateError::Table(TableError::NotFound)));
    let counter = pipeline.direct_counter_read(TABLE, Owner::Entry(&exact(1), 0));
    assert_eq!(counter, Err(StateError::Unknown("direct counter")));
}

#[test]
fn a_meter_of_the_default_entry_meters_misses_only() {
    let mut pipeline =
        load(METERED, "meta.color = 9; t.apply(); sm.egress_spec = (bit<9>) meta.color;");
    let call = ActionCall { action: 0, args: Vec::new() };
    pipeline.insert(TABLE, TableEntry::new(exact(1), 0, call)).unwrap();
    let config = MeterConfig { cir: 0, cburst: 8, pir: 0, pburst: 12 };
    pipeline.set_direct_meter_config(TABLE, Owner::Default, Some(config)).unwrap();
    assert_eq!(pipeline.direct_meter_config(TABLE, Owner::Default), Ok(Some(config)));
    let mut colours = |a| [0; 3].map(|t| port(&mut pipeline, a, 0, 0, t));
    assert_eq!((colours(1), colours(7), colours(8)), ([0; 3], [0, 0, 1], [2; 3]));
    pipeline.set_direct_meter_config(TABLE, Owner::Default, None).unwrap();
    assert_eq!(port(&mut pipeline, 7, 0, 0, 0), 9, "as before it was configured");
}

#[test]
fn the_colour_of_a_direct_meter_goes_to_one_field() {
    let two = METERED.replace("action other() { }", "action other() { limit.read(hdr.h.c); }");
    let error = Pipeline::load(compile(&two, "t.apply();")).unwrap_err();
    assert!(
        matches!(error.cause(), LoadError::ExternUse { name, .. } if name.contains("limit.read"))
    );
}

const PROFILED: &str = "
    action to(bit<9> port) { sm.egress_spec = port; }
    action both(bit<9> port, bit<16> more) { sm.egress_spec = port + (bit<9>) more; }
    action_profile(3) shared;
    table t {
        key = { hdr.h.a: exact; }
        actions = { to; both; @defaultonly NoAction; }
        implementation = shared;
        default_action = NoAction();
    }";

#[test]
fn entries_share_the_members_of_an_action_profile() {
    let mut pipeline = load(PROFILED, "t.apply();");
    let profile = instance(&pipeline, "shared");
    let member = |a, member| TableEntry {
        matches: exact(a),
        priority: 0,
        action: Action::Member(member),
        idle_timeout_us: 0,
    };
    let refused = |error: ProfileError| Err(TableError::Profile(Box::new(error)));
    let missing = refused(ProfileError::NotFound("member", 7));
    assert_eq!(pipeline.insert(TABLE, member(1, 7)), missing);
    pipeline.profile_mut(profile).unwrap().member_insert(7, call(40)).unwrap();
    for a in [1, 2] {
        pipeline.insert(TABLE, member(a, 7)).unwrap();
    }
    assert_eq!([1, 2, 3].map(|a| port(&mut pipeline, a, 0, 0, 0)), [40, 40, 0]);
    let both = ActionCall { action: 1, args: vec![5u64.into(), 6u64.into()] };
    pipeline.profile_mut(profile).unwrap().member_modify(7, both.clone()).unwrap();
    assert_eq!([1, 2, 3].map(|a| port(&mut pipeline, a, 0, 0, 0)), [11, 11, 0]);
    assert_eq!(pipeline.profile(profile).unwrap().member(7), Ok(&both));

    pipeline.profile_mut(profile).unwrap().member_insert(1, call(1)).unwrap();
    pipeline.profile_mut(profile).unwrap().member_insert(2, call(2)).unwrap();
    assert_eq!(
        pipeline.profile(profile).unwrap().members().map(|(id, _)| id).collect::<Vec<_>>(),
        [1, 2, 7]
    );
    assert_eq!(
        pipeline.profile_mut(profile).unwrap().member_insert(3, call(3)),
        Err(ProfileError::Full(3))
    );
    let again = pipeline.profile_mut(profile).unwrap().member_insert(2, call(2));
    assert_eq!(again, Err(ProfileError::AlreadyExists("member", 2)));
    assert_eq!(
        pipeline.profile_mut(profile).unwrap().member_delete(7),
        Err(ProfileError::InUse("member", 7))
    );
    pipeline.modify(TABLE, member(1, 2)).unwrap();
    pipeline.delete(TABLE, &exact(2), 0).unwrap();
    pipeline.profile_mut(profile).unwrap().member_delete(7).unwrap();
    assert_eq!(
        pipeline.profile_mut(profile).unwrap().member_delete(7),
        Err(ProfileError::NotFound("member", 7))
    );
    assert_eq!(port(&mut pipeline, 1, 0, 0, 0), 2);

    pipeline.set_default(TABLE, Some(Action::Member(1))).unwrap();
    assert_eq!(port(&mut pipeline, 9, 0, 0, 0), 1);
    assert_eq!(
        pipeline.profile_mut(profile).unwrap().member_delete(1),
        Err(ProfileError::InUse("member", 1))
    );
    pipeline.set_default(TABLE, None).unwrap();
    pipeline.profile_mut(profile).unwrap().member_delete(1).unwrap();

    let direct = TableEntry::new(exact(5), 0, call(1));
    assert!(matches!(pipeline.insert(TABLE, direct), Err(TableError::ActionKind(_))));
    let group = TableEntry { action: Action::Group(1), ..member(5, 0) };
    assert_eq!(pipeline.insert(TABLE, group), refused(ProfileError::NoGroups));
    let nothing = ActionCall { action: 2, args: Vec::new() };
    let refusal = pipeline.profile_mut(profile).unwrap().member_insert(9, nothing);
    assert!(matches!(refusal, Err(ProfileError::Action(TableError::ActionScope(_)))));
    let wrong = ActionCall { action: 1, args: vec![Value::zero()] };
    let counts = TableError::ArgCount { expected: 2, got: 1 };
    assert_eq!(
        pipeline.profile_mut(profile).unwrap().member_insert(9, wrong),
        Err(ProfileError::Action(counts))
    );
}

const SELECTED: &str = "
    action to(bit<9> port) { sm.egress_spec = port; }
    action_selector(HashAlgorithm.identity, 64, 16) paths;
    table t {
        key = { hdr.h.a: exact; hdr.h.b: selector; hdr.h.c: selector; }
        actions = { to; @defaultonly NoAction; }
        implementation = paths;
        default_action = NoAction();
    }";

/// A pipeline whose members 10, 20 and 30 forward to ports 1, 2 and 3, by the hash of `b` and `c`.
fn selected() -> (Pipeline, ExternId) {
    let mut pipeline = load(SELECTED, "if (t.apply().hit) { meta.x = 1; }");
    let paths = instance(&pipeline, "paths");
    // Not in the order of their ids: a hash counts in the order of creation.
    for (member, port) in [(30, 3), (10, 1), (20, 2)] {
        pipeline.profile_mut(paths).unwrap().member_insert(member, call(port)).unwrap();
    }
    (pipeline, paths)
}

fn of(members: &[(u32, u32)]) -> ProfileGroup {
    let member = |&(member, weight): &(u32, u32)| GroupMember { member, weight, watch: None };
    ProfileGroup { members: members.iter().map(member).collect(), max_size: 0 }
}

fn with(a: u64, action: Action) -> TableEntry {
    TableEntry { matches: exact(a), priority: 0, action, idle_timeout_us: 0 }
}

#[test]
fn a_selector_picks_a_member_by_the_hash_of_its_keys() {
    let (mut pipeline, paths) = selected();
    pipeline.profile_mut(paths).unwrap().group_insert(1, of(&[(10, 1), (20, 1), (30, 1)])).unwrap();
    pipeline.insert(TABLE, with(1, Action::Group(1))).unwrap();
    pipeline.insert(TABLE, with(2, Action::Member(20))).unwrap();
    for b in 0..40u16 {
        // The identity hash of 24 bits is the number itself.
        let hash = usize::from(b) << 8 | 5;
        assert_eq!(port(&mut pipeline, 1, b, 5, 0), [3, 1, 2][hash % 3]);
        assert_eq!(port(&mut pipeline, 2, b, 5, 0), 2);
    }
    pipeline.profile_mut(paths).unwrap().group_modify(1, of(&[(20, 1)])).unwrap();
    assert_eq!(port(&mut pipeline, 1, 77, 5, 0), 2);
    // Weights: all members once, then the copies, lowest id first.
    pipeline.profile_mut(paths).unwrap().group_modify(1, of(&[(10, 3), (30, 1)])).unwrap();
    let ports = [0, 1, 2, 3, 4].map(|c| port(&mut pipeline, 1, 0, c, 0));
    assert_eq!(ports, [3, 1, 1, 1, 3]);
    pipeline.profile_mut(paths).unwrap().group_modify(1, of(&[(30, 3), (10, 3)])).unwrap();
    let ports = [0, 1, 2, 3, 4, 5].map(|c| port(&mut pipeline, 1, 0, c, 0));
    assert_eq!(ports, [3, 1, 1, 1, 3, 3]);
    // An empty group does nothing.
    pipeline.profile_mut(paths).unwrap().group_modify(1, of(&[])).unwrap();
    assert_eq!(port(&mut pipeline, 1, 0, 0, 0), 0);
}

#[test]
fn an_entry_may_have_its_own_set_of_actions() {
    let (mut pipeline, _) = selected();
    let set = |weights: &[(u64, u32)]| {
        let weighted =
            |&(port, weight): &(u64, u32)| WeightedCall { call: call(port), weight, watch: None };
        let calls = weights.iter().map(weighted).collect();
        with(1, Action::Set(ActionSet { calls, ..ActionSet::default() }))
    };
    pipeline.insert(TABLE, set(&[(5, 1), (6, 2)])).unwrap();
    let ports = [0, 1, 2, 3].map(|c| port(&mut pipeline, 1, 0, c, 0));
    assert_eq!(ports, [5, 6, 6, 5]);
    assert_eq!(pipeline.entry(TABLE, &exact(1), 0), Ok(&set(&[(5, 1), (6, 2)])));
    let refused = |error: ProfileError| Err(TableError::Profile(Box::new(error)));
    assert_eq!(pipeline.modify(TABLE, set(&[(5, 0)])), refused(ProfileError::Weight));
    let most = 1 << 16;
    assert_eq!(
        pipeline.modify(TABLE, set(&[(5, u32::MAX)])),
        refused(ProfileError::TooLarge(most))
    );
    assert_eq!(port(&mut pipeline, 1, 0, 1, 0), 6);
}

/// A group action that ends the block hides the action that was picked, from later packets too.
#[test]
fn a_group_action_may_end_the_control() {
    let mut pipeline = load(
        "action to(bit<9> port) { sm.egress_spec = sm.egress_spec + port; }
         action first(bit<9> port) { sm.egress_spec = port; if (hdr.h.c == 1) { exit; } }
         action_selector(HashAlgorithm.identity, 64, 16) paths;
         table t {
             key = { hdr.h.a: exact; hdr.h.b: selector; }
             actions = { to; @groupaction first; @defaultonly NoAction; }
             implementation = paths;
             default_action = NoAction();
         }",
        "switch (t.apply().action_run) { to: { sm.egress_spec = sm.egress_spec + 100; } }",
    );
    let weighted = |port| WeightedCall { call: call(port), weight: 1, watch: None };
    let first = ActionCall { action: 1, args: vec![10u64.into()] };
    let set = ActionSet {
        group_action: Some(first),
        calls: vec![weighted(1), weighted(2)],
        random: false,
    };
    pipeline.insert(TABLE, with(1, Action::Set(set))).unwrap();
    assert_eq!([0, 1].map(|b| port(&mut pipeline, 1, b, 0, 0)), [111, 112]);
    assert_eq!(port(&mut pipeline, 1, 0, 1, 0), 10);
    assert_eq!(port(&mut pipeline, 9, 0, 0, 0), 0, "a miss");
    let scope = |action| {
        let args = vec![10u64.into()];
        with(
            2,
            Action::Set(ActionSet {
                group_action: Some(ActionCall { action, args }),
                ..ActionSet::default()
            }),
        )
    };
    let refusal = pipeline.insert(TABLE, scope(0));
    assert!(matches!(refusal, Err(TableError::Profile(_))), "{refusal:?}");
    pipeline.insert(TABLE, scope(1)).unwrap();
    assert_eq!(port(&mut pipeline, 2, 0, 0, 0), 10, "without members");
}

#[test]
fn groups_and_members_in_use_cannot_be_removed() {
    let (mut pipeline, paths) = selected();
    pipeline.profile_mut(paths).unwrap().group_insert(4, of(&[(10, 1), (20, 2)])).unwrap();
    assert_eq!(pipeline.profile(paths).unwrap().group(4), Ok(&of(&[(10, 1), (20, 2)])));
    let refusals = [
        (of(&[(99, 1)]), ProfileError::NotFound("member", 99)),
        (of(&[(10, 1), (10, 1)]), ProfileError::Twice(10)),
        (of(&[(10, 0)]), ProfileError::Weight),
        (ProfileGroup { max_size: 2, ..of(&[(10, 1), (20, 2)]) }, ProfileError::TooLarge(2)),
    ];
    for (group, error) in refusals {
        assert_eq!(
            pipeline.profile_mut(paths).unwrap().group_insert(5, group.clone()),
            Err(error.clone())
        );
        assert_eq!(pipeline.profile_mut(paths).unwrap().group_modify(4, group), Err(error));
    }
    let exists = pipeline.profile_mut(paths).unwrap().group_insert(4, of(&[]));
    assert_eq!(exists, Err(ProfileError::AlreadyExists("group", 4)));
    assert_eq!(
        pipeline.profile_mut(paths).unwrap().member_delete(20),
        Err(ProfileError::InUse("member", 20))
    );
    pipeline.insert(TABLE, with(1, Action::Group(4))).unwrap();
    assert_eq!(
        pipeline.profile_mut(paths).unwrap().group_delete(4),
        Err(ProfileError::InUse("group", 4))
    );
    pipeline.delete(TABLE, &exact(1), 0).unwrap();
    pipeline.profile_mut(paths).unwrap().group_delete(4).unwrap();
    pipeline.profile_mut(paths).unwrap().member_delete(20).unwrap();
    assert_eq!(pipeline.profile(paths).unwrap().groups().count(), 0);
    assert_eq!(pipeline.profile(ExternId(99)).err(), Some(ProfileError::Unknown));
}

#[test]
fn tables_with_one_profile_offer_the_same_actions() {
    let two = format!(
        "{SELECTED} table u {{
            key = {{ hdr.h.a: exact; hdr.h.b: selector; }}
            actions = {{ NoAction; }}
            implementation = paths;
        }}"
    );
    let error = Pipeline::load(compile(&two, "t.apply(); u.apply();")).unwrap_err();
    assert!(error.to_string().contains("shares an action profile"), "{error}");
}

#[test]
fn a_selector_key_without_a_selector_is_no_key() {
    let mut pipeline = load(&SELECTED.replace("implementation = paths;", ""), "t.apply();");
    pipeline.insert(TABLE, with(1, Action::Direct(call(6)))).unwrap();
    for b in 0..4 {
        assert_eq!(port(&mut pipeline, 1, b, 7, 0), 6, "whatever the selector keys are");
    }
    assert_eq!(port(&mut pipeline, 2, 0, 7, 0), 0, "the exact key counts");
}

#[test]
fn a_digest_has_the_values_of_the_end_of_ingress() {
    let mut pipeline = load(
        "news_t news;",
        "news.b = hdr.h.b; news.wide = 70w3 << 66;
         if (hdr.h.a == 1) { digest<news_t>(1, news); }
         if (hdr.h.a == 2) { digest<news_t>(1, { hdr.h.b + 1, 9w7, 70w1 }); }
         news.port = 5; hdr.h.b = 3; sm.egress_spec = 2;",
    );
    assert!(pipeline.digests().all(|name| name == "news_t"));
    let mut of = |a: u8| {
        let mut packet = pipeline.new_packet();
        pipeline.ingress(&mut packet, &[a, 0x12, 0x34, 0], &IngressInput::default());
        packet.digest().map(|(_, values)| values)
    };
    let wide = Value::from(3u128 << 66);
    assert_eq!(of(1), Some(vec![0x1234u64.into(), 5u64.into(), wide]));
    // A value that is not a field is computed at the call.
    assert_eq!(of(2), Some(vec![0x1235u64.into(), 7u64.into(), 1u64.into()]));
    assert_eq!(of(3), None);
}

#[test]
fn an_entry_that_no_packet_matches_is_reported_once_per_timeout() {
    let mut pipeline = load(
        "action to(bit<9> port) { sm.egress_spec = port; }
         table t {
            key = { hdr.h.a: exact; }
            actions = { to; NoAction; }
            support_timeout = true;
            default_action = NoAction();
         }",
        "t.apply();",
    );
    let entry = |a, idle_timeout_us| TableEntry {
        idle_timeout_us,
        ..TableEntry::new(exact(a), 0, call(1))
    };
    pipeline.set_time(1_000);
    pipeline.insert(TABLE, entry(1, 500)).unwrap();
    pipeline.insert(TABLE, entry(2, 0)).unwrap();
    pipeline.insert(TABLE, entry(3, 2_000)).unwrap();
    let idle = |pipeline: &mut Pipeline, now| {
        let mut idle = Vec::new();
        pipeline.poll_idle(now, |table, entry| {
            assert_eq!(table, TABLE);
            idle.push(entry.matches.clone());
        });
        idle
    };
    assert_eq!(idle(&mut pipeline, 1_499), Vec::<Vec<KeyMatch>>::new());
    assert_eq!(idle(&mut pipeline, 1_500), [exact(1)]);
    assert_eq!(idle(&mut pipeline, 1_999), Vec::<Vec<KeyMatch>>::new());
    assert_eq!(idle(&mut pipeline, 2_000), [exact(1)]);
    port(&mut pipeline, 1, 0, 0, 2_400);
    assert_eq!(pipeline.last_hit_us(TABLE, &exact(1), 0), Ok(2_400));
    assert_eq!(idle(&mut pipeline, 2_899), Vec::<Vec<KeyMatch>>::new());
    assert_eq!(idle(&mut pipeline, 3_000), [exact(1), exact(3)]);

    let mut plain = load(PROFILED, "t.apply();");
    assert_eq!(plain.insert(TABLE, entry(1, 1)), Err(TableError::NoTimeout));
}
