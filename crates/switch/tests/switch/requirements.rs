//! Requirements of the P4Runtime specification on entities that the other tests do not show, in its
//! order. `docs/reference/p4runtime-matrix.md` lists all requirements with their tests.

use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, Index, P4Data, TableEntry, entity, p4_data, table_action,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::features::{
    FEATURES, answer, entity, entry, features, group_of, id_of, member, profile, refused, set_of,
};

const EXACT: &str = "TestIngress.exact_table";
const LPM: &str = "TestIngress.lpm_table";
const TERNARY: &str = "TestIngress.ternary_table";

fn tables() -> (Switch, Names) {
    let switch = switch(TABLES, SwitchConfig::default());
    let names = Names::of(&switch);
    (switch, names)
}

fn exact_entry(names: &Names, a: &[u8], b: &[u8], value: u8) -> TableEntry {
    names.entry(EXACT, 0, vec![exact(1, a), exact(2, b)], value)
}

fn of_table(names: &Names, table: &str) -> TableEntry {
    TableEntry { table_id: names.table(table), ..Default::default() }
}

/// The code of a refused query.
fn unread(switch: &Switch, template: Entity) -> Code {
    switch.read(std::slice::from_ref(&template)).expect_err(&format!("{template:?}")).code
}

// --- 8: message formats -------------------------------------------------------------------------

#[test]
fn zero_is_the_id_of_no_object_in_a_write() {
    use entity::Entity as E;
    let (mut switch, names) = features();
    let action = Some(answer(&names, 1));
    let data = Some(P4Data { data: Some(p4_data::Data::Bitstring(vec![1])) });
    let member = p4::ActionProfileMember { action_profile_id: 0, member_id: 1, action };
    let config = Some(p4::digest_entry::Config::default());
    let table_entry = Some(TableEntry::default());
    for update in [
        insert(entity(E::TableEntry(TableEntry::default()))),
        insert(entity(E::ActionProfileMember(member))),
        insert(entity(E::ActionProfileGroup(p4::ActionProfileGroup {
            group_id: 1,
            ..Default::default()
        }))),
        modify(entity(E::MeterEntry(Default::default()))),
        modify(entity(E::CounterEntry(Default::default()))),
        modify(entity(E::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: table_entry.clone(),
            ..Default::default()
        }))),
        modify(entity(E::DirectCounterEntry(p4::DirectCounterEntry { table_entry, data: None }))),
        modify(entity(E::ValueSetEntry(Default::default()))),
        modify(entity(E::RegisterEntry(p4::RegisterEntry { data, ..Default::default() }))),
        insert(entity(E::DigestEntry(p4::DigestEntry { digest_id: 0, config }))),
    ] {
        refused(&mut switch, update, Code::NotFound);
    }
}

#[test]
fn an_index_of_zero_is_not_an_unset_index() {
    let (switch, names) = tables();
    let counter = |index: Option<i64>| {
        entity(entity::Entity::CounterEntry(p4::CounterEntry {
            counter_id: names.counter("TestIngress.seen"),
            index: index.map(|index| Index { index }),
            data: None,
        }))
    };
    assert_eq!(read(&switch, counter(Some(0))).len(), 1);
    assert_eq!(read(&switch, counter(None)).len(), 8);
}

#[test]
fn padded_values_are_the_same_entry_and_are_read_back_in_the_shortest_form() {
    let (mut switch, names) = tables();
    let padded = exact_entry(&names, &[0, 0, 0, 0, 0, 1], &[0, 2], 5);
    write(&mut switch, insert(table_entry(padded.clone()))).unwrap();
    let shortest = exact_entry(&names, &[1], &[2], 5);
    let all = read(&switch, table_entry(of_table(&names, EXACT)));
    assert_eq!(all, [table_entry(shortest.clone())]);
    refused(&mut switch, insert(table_entry(shortest.clone())), Code::AlreadyExists);
    let by_key = TableEntry { action: None, ..padded };
    assert_eq!(read(&switch, table_entry(by_key)), [table_entry(shortest.clone())]);
    let zero = exact_entry(&names, &[0, 0], &[0], 0);
    write(&mut switch, insert(table_entry(zero))).unwrap();
    let canonical = exact_entry(&names, &[0], &[0], 0);
    assert!(
        read(&switch, table_entry(of_table(&names, EXACT))).contains(&table_entry(canonical)),
        "zero is one byte"
    );
}

// --- 9.1: table entries ---------------------------------------------------------------------------

#[test]
fn deleting_looks_at_the_key_alone() {
    let (mut switch, names) = tables();
    let good = exact_entry(&names, &[1], &[2], 5);
    write(&mut switch, insert(table_entry(good.clone()))).unwrap();
    let nonsense = TableEntry {
        action: Some(p4::TableAction {
            r#type: Some(table_action::Type::ActionProfileGroupId(77)),
        }),
        idle_timeout_ns: -5,
        time_since_last_hit: Some(Default::default()),
        meter_config: Some(p4::MeterConfig { cir: -1, ..Default::default() }),
        counter_data: Some(p4::CounterData { byte_count: -1, packet_count: -1 }),
        metadata: b"other".to_vec(),
        ..good.clone()
    };
    // The one field that a deletion may not have.
    let constant = TableEntry { is_const: true, ..good };
    refused(&mut switch, delete(table_entry(constant)), Code::InvalidArgument);
    write(&mut switch, delete(table_entry(nonsense))).unwrap();
    assert_eq!(read(&switch, table_entry(of_table(&names, EXACT))), []);
}

#[test]
#[allow(deprecated, reason = "older controllers send it")]
fn modifying_replaces_everything_but_an_unset_action() {
    let (mut switch, names) = tables();
    let first = TableEntry {
        metadata: b"first".to_vec(),
        controller_metadata: 7,
        ..exact_entry(&names, &[1], &[2], 5)
    };
    write(&mut switch, insert(table_entry(first.clone()))).unwrap();
    assert_eq!(read(&switch, table_entry(of_table(&names, EXACT))), [table_entry(first.clone())]);
    let filter =
        |controller_metadata| TableEntry { controller_metadata, ..of_table(&names, EXACT) };
    assert_eq!(read(&switch, table_entry(filter(7))).len(), 1);
    assert_eq!(read(&switch, table_entry(filter(8))), []);
    let bare = exact_entry(&names, &[1], &[2], 5);
    let without_action = TableEntry { action: None, ..bare.clone() };
    write(&mut switch, modify(table_entry(without_action))).unwrap();
    assert_eq!(read(&switch, table_entry(of_table(&names, EXACT))), [table_entry(bare)]);
}

#[test]
fn the_order_of_matches_and_parameters_does_not_matter() {
    let (mut switch, names) = tables();
    let mut entry = TableEntry {
        action: Some(names.call("TestIngress.pair", &[&[1], &[8]])),
        ..exact_entry(&names, &[1], &[2], 0)
    };
    let sorted = entry.clone();
    entry.r#match.reverse();
    let Some(table_action::Type::Action(action)) = &mut entry.action.as_mut().unwrap().r#type
    else {
        panic!("{entry:?}")
    };
    action.params.reverse();
    write(&mut switch, insert(table_entry(entry.clone()))).unwrap();
    refused(&mut switch, insert(table_entry(sorted.clone())), Code::AlreadyExists);
    assert_eq!(read(&switch, table_entry(of_table(&names, EXACT))), [table_entry(sorted)]);
}

#[test]
fn a_table_without_a_key_has_no_entry_but_the_default_one() {
    let keyless = TABLES.replace("key = { hdr.key.b: optional; }", "");
    assert_ne!(keyless, TABLES);
    let mut switch = switch(&keyless, SwitchConfig::default());
    let names = Names::of(&switch);
    let entry = names.entry("TestIngress.optional_table", 0, vec![], 1);
    refused(&mut switch, insert(table_entry(entry.clone())), Code::InvalidArgument);
    let default = TableEntry { is_default_action: true, ..entry };
    write(&mut switch, modify(table_entry(default))).unwrap();
}

#[test]
fn entries_of_one_priority_may_overlap() {
    let (mut switch, names) = tables();
    let on = |mask: u8, value| {
        names.entry(TERNARY, 5, vec![ternary(1, &[mask], &[mask]), exact(2, &[1])], value)
    };
    for entry in [on(1, 1), on(2, 2)] {
        write(&mut switch, insert(table_entry(entry))).unwrap();
    }
    assert_eq!(read(&switch, table_entry(of_table(&names, TERNARY))).len(), 2);
}

#[test]
fn the_default_entry_has_metadata_until_it_is_reset() {
    let (mut switch, names) = tables();
    let default = TableEntry { is_default_action: true, ..of_table(&names, LPM) };
    let original = read(&switch, table_entry(default.clone()));
    let set = TableEntry {
        action: Some(names.call("TestIngress.answer", &[&[9]])),
        metadata: b"mine".to_vec(),
        ..default.clone()
    };
    write(&mut switch, modify(table_entry(set.clone()))).unwrap();
    assert_eq!(read(&switch, table_entry(default.clone())), [table_entry(set.clone())]);
    for (what, wrong) in [
        ("priority", TableEntry { priority: 1, ..set.clone() }),
        ("time-out", TableEntry { idle_timeout_ns: 1, ..set.clone() }),
        ("last hit", TableEntry { time_since_last_hit: Some(Default::default()), ..set.clone() }),
        ("no such action", TableEntry { action: Some(Default::default()), ..set.clone() }),
    ] {
        let refusal = write(&mut switch, modify(table_entry(wrong))).expect_err(what);
        assert_eq!(refusal.code, Code::InvalidArgument, "{what}: {refusal}");
    }
    for wrong in [
        TableEntry { priority: 1, ..default.clone() },
        TableEntry { r#match: vec![lpm(1, &[10, 0, 0, 0], 8)], ..default.clone() },
        TableEntry { idle_timeout_ns: 1, ..default.clone() },
        TableEntry { time_since_last_hit: Some(Default::default()), ..default.clone() },
    ] {
        assert_eq!(unread(&switch, table_entry(wrong)), Code::InvalidArgument);
    }
    assert_eq!(read(&switch, table_entry(default.clone())), [table_entry(set)]);
    write(&mut switch, modify(table_entry(default.clone()))).unwrap();
    assert_eq!(read(&switch, table_entry(default)), original);
}

#[test]
fn the_default_action_of_an_indirect_table_is_the_programs() {
    let (mut switch, names) = features();
    for table in ["TestIngress.profiled", "TestIngress.selected"] {
        let default = TableEntry {
            is_default_action: true,
            action: Some(names.call("TestIngress.answer", &[&[1]])),
            ..of_table(&names, table)
        };
        refused(&mut switch, modify(table_entry(default)), Code::PermissionDenied);
    }
}

#[test]
fn only_resources_of_constant_entries_can_be_modified() {
    let counted = TABLES
        .replace("direct_counter(CounterType.packets_and_bytes) ternary_hits;", "")
        .replace("counters = ternary_hits;", "")
        .replace(
            "action answer",
            "direct_counter(CounterType.packets) const_hits;\n    action answer",
        )
        .replace("const entries = {", "counters = const_hits;\n        const entries = {");
    let mut switch = switch(&counted, SwitchConfig::default());
    let names = Names::of(&switch);
    let key = TableEntry {
        action: None,
        ..names.entry("TestIngress.const_table", 0, vec![exact(1, &[7])], 0)
    };
    let data = Some(p4::CounterData { packet_count: 5, byte_count: 6 });
    let with_action = TableEntry {
        counter_data: data,
        action: Some(names.call("TestIngress.answer", &[&[77]])),
        ..key.clone()
    };
    refused(&mut switch, modify(table_entry(with_action)), Code::PermissionDenied);
    let resource = TableEntry { counter_data: data, ..key.clone() };
    write(&mut switch, modify(table_entry(resource.clone()))).unwrap();
    let found = read(&switch, table_entry(resource));
    let Some(entity::Entity::TableEntry(found)) = &found[0].entity else { panic!("{found:?}") };
    assert_eq!((found.counter_data, found.is_const), (data, true));
    assert!(found.action.is_some());
}

#[test]
fn wildcards_select_tables_entries_and_default_entries() {
    let (mut switch, names) = tables();
    let pair = [exact_entry(&names, &[1], &[2], 5), names.entry(LPM, 0, vec![], 1)];
    for entry in &pair {
        write(&mut switch, insert(table_entry(entry.clone()))).unwrap();
    }
    let all = read(&switch, table_entry(TableEntry::default()));
    // Those written, and the constant one.
    assert_eq!(all.len(), 3);
    let defaults = TableEntry { is_default_action: true, ..Default::default() };
    assert_eq!(read(&switch, table_entry(defaults)).len(), names.0.tables.len());
    for filter in [
        TableEntry { priority: 1, ..Default::default() },
        TableEntry { metadata: b"m".to_vec(), ..Default::default() },
        TableEntry { r#match: vec![exact(1, &[1])], ..Default::default() },
        TableEntry { action: pair[0].action.clone(), ..Default::default() },
    ] {
        assert_eq!(unread(&switch, table_entry(filter)), Code::InvalidArgument);
    }
    // Without a match, the entry that matches anything cannot be told from all entries.
    let other = names.entry(LPM, 0, vec![lpm(1, &[10, 0, 0, 0], 8)], 2);
    write(&mut switch, insert(table_entry(other))).unwrap();
    assert_eq!(read(&switch, table_entry(of_table(&names, LPM))).len(), 2);
    let absent = exact_entry(&names, &[9], &[9], 0);
    let absent = TableEntry { action: None, ..absent };
    assert_eq!(read(&switch, table_entry(absent)), []);
    let unknown_action = TableEntry {
        action: Some(p4::TableAction {
            r#type: Some(table_action::Type::Action(p4::Action { action_id: 7, params: vec![] })),
        }),
        ..of_table(&names, LPM)
    };
    assert_eq!(unread(&switch, table_entry(unknown_action)), Code::InvalidArgument);
    let by_member = TableEntry {
        action: Some(p4::TableAction {
            r#type: Some(table_action::Type::ActionProfileMemberId(1)),
        }),
        ..of_table(&names, LPM)
    };
    assert_eq!(unread(&switch, table_entry(by_member)), Code::InvalidArgument);
}

#[test]
fn resources_are_returned_only_if_the_query_has_them() {
    let (mut switch, names) = tables();
    let entry = exact_entry(&names, &[1], &[2], 5);
    let counted = TableEntry {
        counter_data: Some(p4::CounterData { packet_count: 3, byte_count: 4 }),
        ..entry.clone()
    };
    write(&mut switch, insert(table_entry(counted.clone()))).unwrap();
    assert_eq!(read(&switch, table_entry(of_table(&names, EXACT))), [table_entry(entry.clone())]);
    let wanted = |table: &str| TableEntry {
        counter_data: Some(Default::default()),
        ..of_table(&names, table)
    };
    assert_eq!(read(&switch, table_entry(wanted(EXACT))), [table_entry(counted.clone())]);
    assert_eq!(unread(&switch, table_entry(wanted(LPM))), Code::InvalidArgument);
    // A modification without a count keeps it.
    write(&mut switch, modify(table_entry(entry))).unwrap();
    assert_eq!(read(&switch, table_entry(wanted(EXACT))), [table_entry(counted)]);
}

#[test]
fn only_tables_with_time_outs_tell_the_last_hit() {
    let (mut switch, names) = features();
    let wanted = |table: &str| {
        let time_since_last_hit = Some(Default::default());
        table_entry(TableEntry { time_since_last_hit, ..of_table(&names, table) })
    };
    assert_eq!(unread(&switch, wanted("TestIngress.initial")), Code::InvalidArgument);
    let entry = |idle_timeout_ns, time_since_last_hit| {
        table_entry(TableEntry {
            priority: 1,
            action: Some(names.call("NoAction", &[])),
            idle_timeout_ns,
            time_since_last_hit,
            ..of_table(&names, "TestIngress.aging")
        })
    };
    let told = Some(p4::table_entry::IdleTimeout { elapsed_ns: 1 });
    refused(&mut switch, insert(entry(0, told)), Code::InvalidArgument);
    write(&mut switch, insert(entry(0, None))).unwrap();
    // It is told for an entry without a time-out, too, and for none that was not asked for it.
    let told = read(&switch, wanted("TestIngress.aging"));
    let Some(entity::Entity::TableEntry(told)) = &told[0].entity else { panic!("{told:?}") };
    assert!(told.time_since_last_hit.is_some() && told.idle_timeout_ns == 0);
    assert_eq!(read(&switch, table_entry(of_table(&names, "TestIngress.aging"))), [entry(0, None)]);
}

// --- 9.2: action profiles -------------------------------------------------------------------------

#[test]
fn members_and_groups_are_checked() {
    use entity::Entity as E;
    let (mut switch, names) = features();
    let without_action = |change: &str, profile_name: &str| {
        entity(E::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: profile(&names, profile_name),
            member_id: if change == "insert" { 2 } else { 1 },
            action: None,
        }))
    };
    write(&mut switch, insert(member(&names, "spread", 1, 10))).unwrap();
    let other_action = match names.call("TestIngress.learn", &[]).r#type {
        Some(table_action::Type::Action(action)) => Some(action),
        other => panic!("{other:?}"),
    };
    let foreign = entity(E::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id: profile(&names, "spread"),
        member_id: 2,
        action: other_action,
    }));
    let on_profile = match group_of(&names, 1, &[(1, 1)], 3).entity {
        Some(E::ActionProfileGroup(group)) => {
            entity(E::ActionProfileGroup(p4::ActionProfileGroup {
                action_profile_id: profile(&names, "shared"),
                ..group
            }))
        }
        other => panic!("{other:?}"),
    };
    for (update, code) in [
        (insert(without_action("insert", "spread")), Code::InvalidArgument),
        (modify(without_action("modify", "spread")), Code::InvalidArgument),
        (insert(foreign), Code::InvalidArgument),
        (delete(member(&names, "spread", 9, 0)), Code::NotFound),
        (insert(on_profile), Code::InvalidArgument),
        (delete(group_of(&names, 9, &[], 0)), Code::NotFound),
    ] {
        refused(&mut switch, update, code);
    }
    // Members and groups are numbered separately.
    write(&mut switch, insert(group_of(&names, 1, &[(1, 1)], 3))).unwrap();
    refused(&mut switch, modify(group_of(&names, 1, &[(8, 1)], 3)), Code::NotFound);
    let uses = |key, action| insert(entry(&names, "selected", key, action));
    write(&mut switch, uses(1, table_action::Type::ActionProfileGroupId(1))).unwrap();
    write(&mut switch, uses(2, table_action::Type::ActionProfileMemberId(1))).unwrap();
    refused(&mut switch, uses(3, table_action::Type::ActionProfileGroupId(4)), Code::NotFound);
    // A member in use by an entry alone cannot be deleted, either.
    write(&mut switch, insert(member(&names, "spread", 5, 1))).unwrap();
    write(&mut switch, uses(4, table_action::Type::ActionProfileMemberId(5))).unwrap();
    refused(&mut switch, delete(member(&names, "spread", 5, 0)), Code::FailedPrecondition);
}

#[test]
fn a_member_may_be_in_several_groups() {
    let (mut switch, names) = features();
    write(&mut switch, insert(member(&names, "spread", 1, 10))).unwrap();
    for id in [1, 2] {
        write(&mut switch, insert(group_of(&names, id, &[(1, 1)], 3))).unwrap();
        let action = table_action::Type::ActionProfileGroupId(id);
        write(&mut switch, insert(entry(&names, "selected", id as u8, action))).unwrap();
    }
    write(&mut switch, modify(member(&names, "spread", 1, 20))).unwrap();
    for key in [1, 2] {
        let selected = crate::features::SELECTED;
        assert_eq!(crate::features::ask(&mut switch, 0, selected, key, 0).1, 20);
    }
    // A group may become empty; its entries stay.
    write(&mut switch, modify(group_of(&names, 1, &[], 3))).unwrap();
    crate::features::ask(&mut switch, 0, crate::features::SELECTED, 1, 0);
}

#[test]
fn members_and_groups_are_read_by_profile() {
    use entity::Entity as E;
    let (mut switch, names) = features();
    for (profile_name, id) in [("shared", 1), ("spread", 1), ("spread", 2)] {
        write(&mut switch, insert(member(&names, profile_name, id, 1))).unwrap();
    }
    let members = |action_profile_id, member_id| {
        entity(E::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id,
            member_id,
            action: None,
        }))
    };
    let spread = profile(&names, "spread");
    assert_eq!(read(&switch, members(0, 0)).len(), 3);
    assert_eq!(read(&switch, members(spread, 0)).len(), 2);
    assert_eq!(read(&switch, members(spread, 2)), [member(&names, "spread", 2, 1)]);
    assert_eq!(unread(&switch, members(spread, 3)), Code::NotFound);
    assert_eq!(unread(&switch, members(99, 0)), Code::NotFound);
    assert_eq!(unread(&switch, members(0, 1)), Code::InvalidArgument);
    let groups = |action_profile_id, group_id| {
        entity(E::ActionProfileGroup(p4::ActionProfileGroup {
            action_profile_id,
            group_id,
            ..Default::default()
        }))
    };
    write(&mut switch, insert(group_of(&names, 7, &[(1, 1)], 2))).unwrap();
    assert_eq!(read(&switch, groups(spread, 0)), [group_of(&names, 7, &[(1, 1)], 2)]);
    assert_eq!(read(&switch, groups(spread, 7)).len(), 1);
    assert_eq!(unread(&switch, groups(spread, 8)), Code::NotFound);
}

#[test]
fn action_sets_and_groups_exclude_each_other_in_all_tables_of_a_selector() {
    let (mut switch, names) = features();
    write(&mut switch, insert(entry(&names, "selected", 1, set_of(&names, &[(1, 1)])))).unwrap();
    let member_id = table_action::Type::ActionProfileMemberId(1);
    for update in [
        insert(member(&names, "spread", 1, 1)),
        insert(group_of(&names, 1, &[], 1)),
        insert(entry(&names, "selected", 2, member_id)),
    ] {
        refused(&mut switch, update, Code::InvalidArgument);
    }
    // In a table with a profile without a selector there are no sets.
    let set = entry(&names, "profiled", 1, set_of(&names, &[(1, 1)]));
    refused(&mut switch, insert(set), Code::InvalidArgument);
}

// --- 9.4 to 9.9: other entities -------------------------------------------------------------------

#[test]
fn clone_sessions_are_checked_and_read_back() {
    let (mut switch, _) = tables();
    let session = |session_id, copies: &[(u16, u32)], class_of_service, packet_length_bytes| {
        let session = p4::CloneSessionEntry {
            session_id,
            replicas: replicas(copies),
            class_of_service,
            packet_length_bytes,
        };
        let kind = p4::packet_replication_engine_entry::Type::CloneSessionEntry(session);
        entity(entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
            r#type: Some(kind),
        }))
    };
    let good = session(5, &[(1, 0), (2, 1)], 3, 100);
    for (update, code) in [
        (insert(session(0, &[(1, 0)], 0, 0)), Code::InvalidArgument),
        (insert(session(5, &[(1, 0), (1, 0)], 0, 0)), Code::InvalidArgument),
        (insert(session(5, &[(99, 0)], 0, 0)), Code::InvalidArgument),
        (insert(session(5, &[(1, 65536)], 0, 0)), Code::InvalidArgument),
        (insert(session(5, &[(1, 0)], 0, -1)), Code::InvalidArgument),
        (insert(session(1 << 15, &[(1, 0)], 0, 0)), Code::OutOfRange),
        (modify(good.clone()), Code::NotFound),
        (delete(good.clone()), Code::NotFound),
    ] {
        refused(&mut switch, update, code);
    }
    write(&mut switch, insert(good.clone())).unwrap();
    refused(&mut switch, insert(good.clone()), Code::AlreadyExists);
    assert_eq!(read(&switch, session(0, &[], 0, 0)), std::slice::from_ref(&good));
    assert_eq!(read(&switch, session(5, &[(3, 3)], 9, 9)), [good], "the id alone counts");
    let other = session(5, &[(3, 3)], 0, 0);
    write(&mut switch, modify(other.clone())).unwrap();
    assert_eq!(read(&switch, session(5, &[], 0, 0)), [other]);
    write(&mut switch, delete(session(5, &[], 0, 0))).unwrap();
    assert_eq!(read(&switch, session(0, &[], 0, 0)), []);
}

#[test]
fn the_metadata_of_a_group_is_read_back_and_a_deletion_needs_the_id_alone() {
    let (mut switch, _) = tables();
    let with = |metadata: &[u8]| {
        let mut entity = group(4, &[(1, 1)]);
        if let Some(entity::Entity::PacketReplicationEngineEntry(entry)) = &mut entity.entity
            && let Some(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) =
                &mut entry.r#type
        {
            group.metadata = metadata.to_vec();
        }
        entity
    };
    write(&mut switch, insert(with(b"cookie"))).unwrap();
    assert_eq!(read(&switch, group(4, &[(3, 3)])), [with(b"cookie")]);
    write(&mut switch, modify(with(b""))).unwrap();
    assert_eq!(read(&switch, group(4, &[])), [with(b"")]);
    write(&mut switch, delete(group(4, &[]))).unwrap();
    assert_eq!(read(&switch, group(0, &[])), []);
    let neither = entity(entity::Entity::PacketReplicationEngineEntry(Default::default()));
    refused(&mut switch, insert(neither.clone()), Code::InvalidArgument);
    assert_eq!(unread(&switch, neither), Code::InvalidArgument);
}

#[test]
fn members_of_value_sets_follow_the_rules_of_matches() {
    let (mut switch, names) = features();
    let value_set_id = id_of(names.0.value_sets.iter().map(|s| s.preamble.clone()), "special");
    let set = |fields: Vec<p4::FieldMatch>| {
        let members = vec![p4::ValueSetMember { r#match: fields }];
        modify(entity(entity::Entity::ValueSetEntry(p4::ValueSetEntry { value_set_id, members })))
    };
    for (fields, code) in [
        (vec![], Code::InvalidArgument),
        (vec![exact(2, &[1])], Code::InvalidArgument),
        (vec![ternary(1, &[1], &[1])], Code::InvalidArgument),
        (vec![exact(1, &[1, 0])], Code::OutOfRange),
        (vec![exact(1, &[1]), exact(1, &[2])], Code::InvalidArgument),
    ] {
        refused(&mut switch, set(fields), code);
    }
    let unknown = p4::ValueSetEntry { value_set_id: 7, members: vec![] };
    assert_eq!(unread(&switch, entity(entity::Entity::ValueSetEntry(unknown))), Code::NotFound);
}

#[test]
fn data_of_a_register_has_the_registers_type() {
    let (mut switch, names) = tables();
    let write_data = |index, data: Option<p4_data::Data>| {
        modify(entity(entity::Entity::RegisterEntry(p4::RegisterEntry {
            register_id: names.register("TestIngress.last"),
            index: Some(Index { index }),
            data: Some(P4Data { data }),
        })))
    };
    let bits = |bytes: &[u8]| Some(p4_data::Data::Bitstring(bytes.to_vec()));
    for (update, code) in [
        (write_data(0, None), Code::InvalidArgument),
        (write_data(0, Some(p4_data::Data::Bool(true))), Code::InvalidArgument),
        (write_data(0, Some(p4_data::Data::Struct(Default::default()))), Code::InvalidArgument),
        (write_data(0, bits(&[])), Code::OutOfRange),
        (write_data(-1, bits(&[1])), Code::InvalidArgument),
    ] {
        refused(&mut switch, update, code);
    }
    let negative = entity(entity::Entity::RegisterEntry(p4::RegisterEntry {
        register_id: names.register("TestIngress.last"),
        index: Some(Index { index: -1 }),
        data: None,
    }));
    assert_eq!(unread(&switch, negative), Code::InvalidArgument);
}

#[test]
fn there_are_no_externs_of_other_architectures() {
    let (mut switch, _) = tables();
    let extern_entry = |extern_type_id| {
        let entry = p4::ExternEntry { extern_type_id, ..Default::default() };
        entity(entity::Entity::ExternEntry(entry))
    };
    assert_eq!(read(&switch, extern_entry(0)), []);
    assert_eq!(unread(&switch, extern_entry(0x81)), Code::Unimplemented);
    for update in
        [insert(extern_entry(0x81)), modify(extern_entry(0x81)), delete(extern_entry(0x81))]
    {
        refused(&mut switch, update, Code::Unimplemented);
    }
}

#[test]
fn meters_accept_what_their_type_allows() {
    let (mut switch, names) = features();
    let meter_id = id_of(names.0.meters.iter().map(|m| m.preamble.clone()), "by_index");
    let meter = |meter_id, index: Option<i64>, config| {
        entity(entity::Entity::MeterEntry(p4::MeterEntry {
            meter_id,
            index: index.map(|index| Index { index }),
            config,
            counter_data: None,
        }))
    };
    let config = p4::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    write(&mut switch, modify(meter(meter_id, None, Some(config)))).unwrap();
    let all = read(&switch, meter(0, None, None));
    assert_eq!(all.len(), 4);
    assert_eq!(all[2], meter(meter_id, Some(2), Some(config)));
    // Back to the default, which is read as unset.
    write(&mut switch, modify(meter(meter_id, Some(2), None))).unwrap();
    assert_eq!(read(&switch, meter(meter_id, Some(2), None)), [meter(meter_id, Some(2), None)]);
    assert_eq!(unread(&switch, meter(0, Some(1), None)), Code::InvalidArgument);
    assert_eq!(unread(&switch, meter(meter_id, Some(4), None)), Code::OutOfRange);
    assert!(FEATURES.contains("meter(4,"));
}

#[test]
fn counts_of_colors_are_refused() {
    use entity::Entity as E;
    let (mut switch, names) = features();
    let counter_data = Some(p4::MeterCounterData::default());
    let meter_id = id_of(names.0.meters.iter().map(|m| m.preamble.clone()), "by_index");
    let table = TableEntry {
        r#match: vec![exact(1, &[1])],
        action: Some(names.call("NoAction", &[])),
        ..of_table(&names, "TestIngress.metered")
    };
    write(&mut switch, insert(table_entry(table.clone()))).unwrap();
    let key = TableEntry { action: None, ..table.clone() };
    for entity in [
        E::MeterEntry(p4::MeterEntry { meter_id, counter_data, ..Default::default() }),
        E::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(key.clone()),
            counter_data,
            ..Default::default()
        }),
        E::TableEntry(TableEntry { meter_counter_data: counter_data, ..key }),
    ] {
        let entity = Entity { entity: Some(entity) };
        refused(&mut switch, modify(entity.clone()), Code::Unimplemented);
        assert_eq!(unread(&switch, entity), Code::Unimplemented);
    }
}

#[test]
fn backup_replicas_are_refused() {
    let (mut switch, _) = tables();
    let mut entity = group(4, &[(1, 1)]);
    if let Some(entity::Entity::PacketReplicationEngineEntry(entry)) = &mut entity.entity
        && let Some(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) =
            &mut entry.r#type
    {
        group.replicas[0].backup_replicas = vec![p4::BackupReplica { port: vec![2], instance: 1 }];
    }
    refused(&mut switch, insert(entity), Code::Unimplemented);
    assert_eq!(read(&switch, group(0, &[])), []);
}

#[test]
fn digests_of_unknown_objects_and_with_wrong_configurations_are_refused() {
    let (mut switch, names) = features();
    let digest_id = names.0.digests[0].preamble.as_ref().unwrap().id;
    let digest = |digest_id, config| {
        entity(entity::Entity::DigestEntry(p4::DigestEntry { digest_id, config }))
    };
    let config = |max_timeout_ns, max_list_size, ack_timeout_ns| {
        Some(p4::digest_entry::Config { max_timeout_ns, max_list_size, ack_timeout_ns })
    };
    for (update, code) in [
        (insert(digest(7, config(0, 0, 0))), Code::NotFound),
        (insert(digest(digest_id, None)), Code::InvalidArgument),
        (insert(digest(digest_id, config(-1, 0, 0))), Code::InvalidArgument),
        (insert(digest(digest_id, config(0, -1, 0))), Code::InvalidArgument),
        (insert(digest(digest_id, config(0, 0, -1))), Code::InvalidArgument),
        (modify(digest(digest_id, config(0, 0, 0))), Code::NotFound),
    ] {
        refused(&mut switch, update, code);
    }
    assert_eq!(read(&switch, digest(0, None)), []);
    assert_eq!(unread(&switch, digest(7, None)), Code::NotFound);
    let first = digest(digest_id, config(1, 2, 3));
    write(&mut switch, insert(first.clone())).unwrap();
    assert_eq!(read(&switch, digest(digest_id, None)), std::slice::from_ref(&first));
    // A wrong configuration leaves the one that there is.
    refused(&mut switch, modify(digest(digest_id, config(-1, 0, 0))), Code::InvalidArgument);
    assert_eq!(read(&switch, digest(0, None)), [first]);
    let second = digest(digest_id, config(i64::MAX, i32::MAX, i64::MAX));
    write(&mut switch, modify(second.clone())).unwrap();
    assert_eq!(read(&switch, digest(0, None)), [second]);
}

#[test]
fn a_packet_and_a_modification_start_the_time_of_an_entry_anew() {
    use crate::features::{AGING, ask};
    let (mut switch, names) = features();
    let wanted = TableEntry {
        time_since_last_hit: Some(Default::default()),
        ..of_table(&names, "TestIngress.aging")
    };
    let elapsed = |switch: &Switch| {
        let found = read(switch, table_entry(wanted.clone()));
        let Some(entity::Entity::TableEntry(found)) = &found[0].entity else { panic!("{found:?}") };
        found.time_since_last_hit.unwrap().elapsed_ns
    };
    let entry = TableEntry {
        priority: 1,
        action: Some(names.call("NoAction", &[])),
        idle_timeout_ns: 1_000_000,
        ..of_table(&names, "TestIngress.aging")
    };
    write(&mut switch, insert(table_entry(entry.clone()))).unwrap();
    ask(&mut switch, 5_000, AGING, 1, 0);
    assert_eq!(elapsed(&switch), 0);
    // Packets for other tables leave it alone.
    ask(&mut switch, 7_000, crate::features::BY_INDEX, 1, 0);
    assert_eq!(elapsed(&switch), 2_000_000);
    write(&mut switch, modify(table_entry(entry))).unwrap();
    assert_eq!(elapsed(&switch), 0);
}
