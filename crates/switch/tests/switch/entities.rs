//! P4Runtime entities: every match kind, wildcards, refusals.

use proptest::prelude::*;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::{
    self as p4, CounterData, CounterEntry, DirectCounterEntry, Entity, Index, P4Data,
    RegisterEntry, TableEntry, Update, entity, p4_data,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;

const EXACT: &str = "TestIngress.exact_table";
const LPM: &str = "TestIngress.lpm_table";
const TERNARY: &str = "TestIngress.ternary_table";
const RANGE: &str = "TestIngress.range_table";
const OPTIONAL: &str = "TestIngress.optional_table";
const CONST: &str = "TestIngress.const_table";

fn tables() -> (Switch, Names) {
    let switch = switch(TABLES, SwitchConfig::default());
    let names = Names::of(&switch);
    (switch, names)
}

/// The answer of table number `which` to a packet; 0 means no answer.
fn ask(switch: &mut Switch, which: u8, a: u32, b: u16) -> u8 {
    let mut frame = vec![which, 0];
    frame.extend_from_slice(&a.to_be_bytes());
    frame.extend_from_slice(&b.to_be_bytes());
    frame.resize(20, 0);
    switch.receive(0, 2, &frame);
    transmit(switch, 0, 1).unwrap()[1]
}

fn add(switch: &mut Switch, entry: TableEntry) {
    write(switch, insert(table_entry(entry))).unwrap();
}

fn all_of(switch: &Switch, table_id: u32) -> Vec<Entity> {
    read(switch, table_entry(TableEntry { table_id, ..Default::default() }))
}

#[test]
fn exact_entries() {
    let (mut switch, names) = tables();
    let entry = names.entry(EXACT, 0, vec![exact(2, &[2]), exact(1, &[1, 0])], 5);
    add(&mut switch, entry.clone());
    assert_eq!(ask(&mut switch, 0, 256, 2), 5);
    assert_eq!(ask(&mut switch, 0, 256, 3), 0);

    // Reading returns keys in the table's order, everything else as written.
    let mut ordered = entry.clone();
    ordered.r#match.reverse();
    assert_eq!(all_of(&switch, entry.table_id), [table_entry(ordered)]);

    let other = TableEntry {
        action: Some(names.call("TestIngress.pair", &[&[1, 255], &[8]])),
        ..entry.clone()
    };
    write(&mut switch, modify(table_entry(other))).unwrap();
    assert_eq!(ask(&mut switch, 0, 256, 2), 9);

    // A delete ignores everything but the key.
    let key = TableEntry { action: None, ..entry.clone() };
    write(&mut switch, delete(table_entry(key))).unwrap();
    assert_eq!(ask(&mut switch, 0, 256, 2), 0);
    assert!(all_of(&switch, entry.table_id).is_empty());
}

#[test]
fn the_longest_prefix_wins() {
    let (mut switch, names) = tables();
    let entries = [
        names.entry(LPM, 0, vec![lpm(1, &[10, 0, 0, 0], 8)], 8),
        names.entry(LPM, 0, vec![lpm(1, &[10, 1, 0, 0], 16)], 16),
        names.entry(LPM, 0, vec![], 1),
    ];
    for entry in &entries {
        add(&mut switch, entry.clone());
    }
    let read_back: Vec<_> = all_of(&switch, names.table(LPM));
    for entry in entries {
        assert!(read_back.contains(&table_entry(entry)));
    }
    for (a, answer) in [(0x0a01_0203, 16), (0x0a02_0203, 8), (0x0b00_0000, 1)] {
        assert_eq!(ask(&mut switch, 1, a, 0), answer, "{a:x}");
    }
}

#[test]
fn the_highest_priority_wins() {
    let (mut switch, names) = tables();
    let low = names.entry(TERNARY, 1, vec![exact(2, &[7])], 1);
    let high = names.entry(TERNARY, 9, vec![ternary(1, &[0x12, 0], &[0xff, 0]), exact(2, &[7])], 9);
    for entry in [&high, &low] {
        add(&mut switch, entry.clone());
    }
    assert_eq!(ask(&mut switch, 2, 0x1234, 7), 9);
    assert_eq!(ask(&mut switch, 2, 0x1334, 7), 1);
    assert_eq!(ask(&mut switch, 2, 0x1234, 8), 0);
    let of_priority = TableEntry { table_id: low.table_id, priority: 9, ..Default::default() };
    assert_eq!(read(&switch, table_entry(of_priority)), [table_entry(high.clone())]);
    // The same match with another priority is another entry.
    add(&mut switch, TableEntry { priority: 10, ..high });
    assert_eq!(all_of(&switch, low.table_id).len(), 3);
}

#[test]
fn ranges_and_optional_keys() {
    let (mut switch, names) = tables();
    let entries = [
        names.entry(RANGE, 2, vec![range(1, &[10], &[20])], 1),
        names.entry(RANGE, 3, vec![range(1, &[15], &[1, 0])], 2),
        names.entry(OPTIONAL, 5, vec![optional(1, &[3])], 3),
        names.entry(OPTIONAL, 1, vec![], 4),
    ];
    for entry in &entries {
        add(&mut switch, entry.clone());
    }
    for (which, b, answer) in
        [(3, 9, 0), (3, 10, 1), (3, 15, 2), (3, 256, 2), (3, 257, 0), (4, 3, 3), (4, 4, 4)]
    {
        assert_eq!(ask(&mut switch, which, 0, b), answer, "table {which}, b = {b}");
    }
    let everything = read(&switch, table_entry(TableEntry::default()));
    for entry in entries {
        assert!(everything.contains(&table_entry(entry)));
    }
}

#[test]
fn default_actions() {
    let (mut switch, names) = tables();
    let default = |action| {
        let table_id = names.table(LPM);
        table_entry(TableEntry { table_id, action, is_default_action: true, ..Default::default() })
    };
    let original = default(Some(names.call("NoAction", &[])));
    assert_eq!(read(&switch, default(None)), std::slice::from_ref(&original));
    let set = default(Some(names.call("TestIngress.answer", &[&[42]])));
    write(&mut switch, modify(set.clone())).unwrap();
    assert_eq!(read(&switch, default(None)), [set]);
    assert_eq!(ask(&mut switch, 1, 0, 0), 42);
    write(&mut switch, modify(default(None))).unwrap();
    assert_eq!(read(&switch, default(None)), std::slice::from_ref(&original));
    for update in [insert(original.clone()), delete(original)] {
        assert_eq!(write(&mut switch, update).unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn attached_data_is_read_back_and_can_be_filtered_by() {
    let (mut switch, names) = tables();
    let with = |b: u8, metadata: &[u8]| TableEntry {
        metadata: metadata.to_vec(),
        ..names.entry(EXACT, 0, vec![exact(1, &[0]), exact(2, &[b])], b)
    };
    add(&mut switch, with(1, b"one"));
    add(&mut switch, with(2, b""));
    assert_eq!(
        all_of(&switch, names.table(EXACT)),
        [with(1, b"one"), with(2, b"")].map(table_entry)
    );
    let filter = TableEntry {
        table_id: names.table(EXACT),
        metadata: b"one".to_vec(),
        ..Default::default()
    };
    assert_eq!(read(&switch, table_entry(filter)), [table_entry(with(1, b"one"))]);
    // A deleted and inserted entry has no state of the earlier one.
    write(&mut switch, delete(table_entry(with(1, b"one")))).unwrap();
    add(&mut switch, with(1, b""));
    assert!(all_of(&switch, names.table(EXACT)).contains(&table_entry(with(1, b""))));
}

#[test]
fn entries_can_be_filtered_by_key_and_by_action() {
    let (mut switch, names) = tables();
    let answers = |b: u8| names.entry(EXACT, 0, vec![exact(1, &[0]), exact(2, &[b])], b);
    let pairs =
        TableEntry { action: Some(names.call("TestIngress.pair", &[&[0], &[1]])), ..answers(3) };
    for entry in [answers(1), answers(2), pairs.clone()] {
        add(&mut switch, entry);
    }
    let by_key = TableEntry { action: None, ..answers(2) };
    assert_eq!(read(&switch, table_entry(by_key)), [table_entry(answers(2))]);
    let by_action = TableEntry {
        table_id: pairs.table_id,
        action: Some(names.call("TestIngress.pair", &[])),
        ..Default::default()
    };
    assert_eq!(read(&switch, table_entry(by_action)), [table_entry(pairs)]);
}

#[test]
fn constant_tables_can_be_read_only() {
    let (mut switch, names) = tables();
    assert_eq!(ask(&mut switch, 5, 0, 7), 77);
    let constant = TableEntry { is_const: true, ..names.entry(CONST, 0, vec![exact(1, &[7])], 77) };
    assert_eq!(all_of(&switch, constant.table_id), [table_entry(constant.clone())]);
    let same = table_entry(TableEntry { is_const: false, ..constant.clone() });
    let other = table_entry(names.entry(CONST, 0, vec![exact(1, &[8])], 1));
    let default = table_entry(TableEntry {
        table_id: constant.table_id,
        is_default_action: true,
        action: Some(names.call("TestIngress.answer", &[&[1]])),
        ..Default::default()
    });
    for update in [insert(other), modify(same.clone()), delete(same), modify(default)] {
        assert_eq!(write(&mut switch, update).unwrap_err().code, Code::PermissionDenied);
    }
    assert_eq!(ask(&mut switch, 5, 0, 7), 77);
}

#[test]
fn single_entries_can_be_constant() {
    let constant = "const entries = {\n            7: answer(77);";
    let single = "entries = {\n            8: answer(78);\n            const 7: answer(77);";
    assert!(TABLES.contains(constant));
    let mut switch = switch(&TABLES.replace(constant, single), SwitchConfig::default());
    let names = Names::of(&switch);
    let entry = |key, value| names.entry(CONST, 0, vec![exact(1, &[key])], value);
    let fixed = TableEntry { is_const: true, ..entry(7, 77) };
    let all = all_of(&switch, fixed.table_id);
    assert_eq!(all.len(), 2);
    assert!(all.contains(&table_entry(fixed)) && all.contains(&table_entry(entry(8, 78))));
    for update in [modify(table_entry(entry(7, 1))), delete(table_entry(entry(7, 77)))] {
        assert_eq!(write(&mut switch, update).unwrap_err().code, Code::PermissionDenied);
    }
    let again = write(&mut switch, insert(table_entry(entry(7, 1)))).unwrap_err();
    assert_eq!(again.code, Code::AlreadyExists);
    write(&mut switch, modify(table_entry(entry(8, 1)))).unwrap();
    write(&mut switch, insert(table_entry(entry(9, 2)))).unwrap();
    write(&mut switch, delete(table_entry(entry(8, 1)))).unwrap();
    assert_eq!([7, 8, 9].map(|key| ask(&mut switch, 5, 0, key)), [77, 0, 2]);
}

#[test]
fn counters_count_and_can_be_set() {
    let (mut switch, names) = tables();
    let entry = |index: Option<i64>, data: Option<(i64, i64)>| Entity {
        entity: Some(entity::Entity::CounterEntry(CounterEntry {
            counter_id: names.counter("TestIngress.seen"),
            index: index.map(|index| Index { index }),
            data: data.map(|(packet_count, byte_count)| CounterData { byte_count, packet_count }),
        })),
    };
    for _ in 0..3 {
        ask(&mut switch, 1, 0, 0);
    }
    ask(&mut switch, 5, 0, 0);
    assert_eq!(read(&switch, entry(Some(1), None)), [entry(Some(1), Some((3, 60)))]);
    let all = read(&switch, entry(None, None));
    assert_eq!(all.len(), 8);
    assert_eq!(all[5], entry(Some(5), Some((1, 20))));
    let every_counter = Entity { entity: Some(entity::Entity::CounterEntry(Default::default())) };
    assert_eq!(read(&switch, every_counter), all);

    write(&mut switch, modify(entry(Some(1), Some((100, 7))))).unwrap();
    ask(&mut switch, 1, 0, 0);
    assert_eq!(read(&switch, entry(Some(1), None)), [entry(Some(1), Some((101, 27)))]);
    write(&mut switch, modify(entry(None, Some((0, 0))))).unwrap();
    assert!(
        read(&switch, entry(None, None))
            .iter()
            .enumerate()
            .all(|(i, e)| *e == entry(Some(i as i64), Some((0, 0))))
    );

    for (update, code) in [
        (modify(entry(Some(8), Some((0, 0)))), Code::OutOfRange),
        (modify(entry(Some(-1), Some((0, 0)))), Code::InvalidArgument),
        (modify(entry(Some(0), Some((-1, 0)))), Code::InvalidArgument),
        (insert(entry(Some(0), Some((1, 1)))), Code::InvalidArgument),
        (delete(entry(Some(0), None)), Code::InvalidArgument),
    ] {
        assert_eq!(write(&mut switch, update.clone()).unwrap_err().code, code, "{update:?}");
    }
    assert_eq!(switch.read(&[entry(Some(8), None)]).unwrap_err().code, Code::OutOfRange);
}

#[test]
fn direct_counters_belong_to_their_entry() {
    let (mut switch, names) = tables();
    let entry = names.entry(EXACT, 0, vec![exact(1, &[1]), exact(2, &[2])], 5);
    add(&mut switch, entry.clone());
    ask(&mut switch, 0, 1, 2);
    ask(&mut switch, 0, 1, 2);
    ask(&mut switch, 0, 9, 9);
    let key = TableEntry { action: None, ..entry.clone() };
    let direct = |data: Option<(i64, i64)>| Entity {
        entity: Some(entity::Entity::DirectCounterEntry(DirectCounterEntry {
            table_entry: Some(key.clone()),
            data: data.map(|(packet_count, byte_count)| CounterData { byte_count, packet_count }),
        })),
    };
    assert_eq!(read(&switch, direct(None)), [direct(Some((2, 40)))]);
    let all = Entity { entity: Some(entity::Entity::DirectCounterEntry(Default::default())) };
    assert_eq!(read(&switch, all), [direct(Some((2, 40)))]);

    // With the entry, if requested.
    let counted = TableEntry {
        counter_data: Some(CounterData { packet_count: 2, byte_count: 40 }),
        ..entry.clone()
    };
    let ask_counted = TableEntry { counter_data: Some(Default::default()), ..key.clone() };
    assert_eq!(read(&switch, table_entry(ask_counted)), [table_entry(counted)]);

    write(&mut switch, modify(direct(Some((10, 0))))).unwrap();
    ask(&mut switch, 0, 1, 2);
    assert_eq!(read(&switch, direct(None)), [direct(Some((11, 20)))]);
    // Modifying an entry keeps its counter, and can also set the counter alone.
    let reset = TableEntry { counter_data: Some(CounterData::default()), ..key.clone() };
    write(&mut switch, modify(table_entry(reset))).unwrap();
    assert_eq!(ask(&mut switch, 0, 1, 2), 5);
    assert_eq!(read(&switch, direct(None)), [direct(Some((1, 20)))]);

    write(&mut switch, delete(table_entry(key.clone()))).unwrap();
    assert_eq!(write(&mut switch, modify(direct(None))).unwrap_err().code, Code::NotFound);
    assert_eq!(switch.read(&[direct(None)]).unwrap_err().code, Code::NotFound);
}

#[test]
fn registers_can_be_read_and_written() {
    let (mut switch, names) = tables();
    let entry = |index: Option<i64>, value: Option<&[u8]>| Entity {
        entity: Some(entity::Entity::RegisterEntry(RegisterEntry {
            register_id: names.register("TestIngress.last"),
            index: index.map(|index| Index { index }),
            data: value.map(|v| P4Data { data: Some(p4_data::Data::Bitstring(v.to_vec())) }),
        })),
    };
    ask(&mut switch, 4, 0, 0x1234);
    assert_eq!(read(&switch, entry(Some(4), None)), [entry(Some(4), Some(&[0x12, 0x34]))]);
    assert_eq!(read(&switch, entry(None, None)).len(), 16);
    write(&mut switch, modify(entry(Some(3), Some(&[0, 0x0f, 0xff, 0xff])))).unwrap();
    assert_eq!(read(&switch, entry(Some(3), None)), [entry(Some(3), Some(&[0x0f, 0xff, 0xff]))]);
    write(&mut switch, modify(entry(None, Some(&[0])))).unwrap();
    assert_eq!(read(&switch, entry(Some(4), None)), [entry(Some(4), Some(&[0]))]);
    for (update, code) in [
        (modify(entry(Some(3), Some(&[0x10, 0, 0]))), Code::OutOfRange),
        (modify(entry(Some(16), Some(&[0]))), Code::OutOfRange),
        (modify(entry(Some(3), None)), Code::InvalidArgument),
        (insert(entry(Some(3), Some(&[1]))), Code::InvalidArgument),
    ] {
        assert_eq!(write(&mut switch, update).unwrap_err().code, code);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn wrong_updates_are_refused_by_kind_and_change_nothing() {
    let (mut switch, names) = tables();
    let good = names.entry(EXACT, 0, vec![exact(1, &[1]), exact(2, &[2])], 5);
    add(&mut switch, good.clone());
    let before = everything(&switch);
    let entry = |table, priority, m| table_entry(names.entry(table, priority, m, 1));
    let on_exact = |action| {
        table_entry(TableEntry {
            action,
            ..names.entry(EXACT, 0, vec![exact(1, &[9]), exact(2, &[9])], 0)
        })
    };
    let both = || vec![exact(1, &[1]), exact(2, &[3])];
    let cases: Vec<(&str, Update, Code)> = vec![
        ("exists", insert(table_entry(good.clone())), Code::AlreadyExists),
        ("absent", modify(entry(EXACT, 0, both())), Code::NotFound),
        ("absent", delete(entry(EXACT, 0, both())), Code::NotFound),
        (
            "unknown table",
            insert(table_entry(TableEntry { table_id: 99, ..good.clone() })),
            Code::NotFound,
        ),
        ("key missing", insert(entry(EXACT, 0, vec![exact(1, &[1])])), Code::InvalidArgument),
        (
            "unknown key",
            insert(entry(EXACT, 0, vec![exact(1, &[1]), exact(3, &[1])])),
            Code::InvalidArgument,
        ),
        (
            "key twice",
            insert(entry(EXACT, 0, vec![exact(1, &[1]), exact(1, &[1])])),
            Code::InvalidArgument,
        ),
        (
            "kind",
            insert(entry(EXACT, 0, vec![exact(1, &[1]), lpm(2, &[0], 1)])),
            Code::InvalidArgument,
        ),
        (
            "width",
            insert(entry(EXACT, 0, vec![exact(1, &[1]), exact(2, &[1, 0, 0])])),
            Code::OutOfRange,
        ),
        (
            "empty value",
            insert(entry(EXACT, 0, vec![exact(1, &[1]), exact(2, &[])])),
            Code::OutOfRange,
        ),
        ("priority", insert(entry(EXACT, 1, both())), Code::InvalidArgument),
        ("no priority", insert(entry(TERNARY, 0, vec![exact(2, &[1])])), Code::InvalidArgument),
        ("negative priority", insert(entry(RANGE, -1, vec![])), Code::InvalidArgument),
        (
            "unset match",
            insert(entry(
                EXACT,
                0,
                vec![exact(1, &[1]), p4::FieldMatch { field_id: 2, field_match_type: None }],
            )),
            Code::InvalidArgument,
        ),
        ("prefix 0", insert(entry(LPM, 0, vec![lpm(1, &[0], 0)])), Code::InvalidArgument),
        ("prefix 33", insert(entry(LPM, 0, vec![lpm(1, &[0], 33)])), Code::InvalidArgument),
        ("prefix -1", insert(entry(LPM, 0, vec![lpm(1, &[0], -1)])), Code::InvalidArgument),
        (
            "below prefix",
            insert(entry(LPM, 0, vec![lpm(1, &[10, 0, 0, 1], 8)])),
            Code::InvalidArgument,
        ),
        (
            "mask 0",
            insert(entry(TERNARY, 1, vec![ternary(1, &[0], &[0]), exact(2, &[1])])),
            Code::InvalidArgument,
        ),
        (
            "outside mask",
            insert(entry(TERNARY, 1, vec![ternary(1, &[3], &[1]), exact(2, &[1])])),
            Code::InvalidArgument,
        ),
        ("empty range", insert(entry(RANGE, 1, vec![range(1, &[2], &[1])])), Code::InvalidArgument),
        (
            "whole range",
            insert(entry(RANGE, 1, vec![range(1, &[0], &[255, 255])])),
            Code::InvalidArgument,
        ),
        ("no action", insert(on_exact(None)), Code::InvalidArgument),
        ("unset action", insert(on_exact(Some(p4::TableAction::default()))), Code::InvalidArgument),
        (
            "no such action",
            insert(on_exact(Some(p4::TableAction {
                r#type: Some(p4::table_action::Type::Action(p4::Action {
                    action_id: 7,
                    params: vec![],
                })),
            }))),
            Code::InvalidArgument,
        ),
        (
            "action profile",
            insert(on_exact(Some(p4::TableAction {
                r#type: Some(p4::table_action::Type::ActionProfileMemberId(1)),
            }))),
            Code::InvalidArgument,
        ),
        (
            "argument missing",
            insert(on_exact(Some(names.call("TestIngress.pair", &[&[1]])))),
            Code::InvalidArgument,
        ),
        (
            "argument too many",
            insert(on_exact(Some(names.call("TestIngress.answer", &[&[1], &[1]])))),
            Code::InvalidArgument,
        ),
        (
            "argument wide",
            insert(on_exact(Some(names.call("TestIngress.pair", &[&[2, 0], &[1]])))),
            Code::OutOfRange,
        ),
        (
            "default only",
            insert(on_exact(Some(names.call("TestIngress.miss", &[])))),
            Code::PermissionDenied,
        ),
        (
            "table only",
            modify(table_entry(TableEntry {
                table_id: good.table_id,
                is_default_action: true,
                action: Some(names.call("TestIngress.reserve", &[])),
                ..Default::default()
            })),
            Code::PermissionDenied,
        ),
        (
            "default with match",
            modify(table_entry(TableEntry { is_default_action: true, ..good.clone() })),
            Code::InvalidArgument,
        ),
        (
            "is_const",
            insert(table_entry(TableEntry { is_const: true, ..names.entry(EXACT, 0, both(), 1) })),
            Code::InvalidArgument,
        ),
        (
            "no counter",
            insert(table_entry(TableEntry {
                counter_data: Some(Default::default()),
                ..names.entry(LPM, 0, vec![], 1)
            })),
            Code::InvalidArgument,
        ),
        (
            "no meter",
            insert(table_entry(TableEntry {
                meter_config: Some(Default::default()),
                ..names.entry(EXACT, 0, both(), 1)
            })),
            Code::InvalidArgument,
        ),
        (
            "no idle time-out",
            insert(table_entry(TableEntry {
                idle_timeout_ns: 1,
                ..names.entry(EXACT, 0, both(), 1)
            })),
            Code::InvalidArgument,
        ),
        ("nothing", insert(Entity::default()), Code::InvalidArgument),
        (
            "digest",
            insert(Entity { entity: Some(entity::Entity::DigestEntry(Default::default())) }),
            Code::NotFound,
        ),
    ];
    for (what, update, code) in cases {
        let refusal = write(&mut switch, update).expect_err(what);
        assert_eq!(refusal.code, code, "{what}: {refusal}");
        assert_eq!(everything(&switch), before, "{what}");
    }
    // A batch continues after an error.
    let batch = [insert(table_entry(good)), insert(entry(EXACT, 0, both()))];
    let results = switch.write(&batch).unwrap();
    assert_eq!((results[0].is_err(), results[1].is_ok()), (true, true));
}

#[test]
fn a_full_table_is_reported() {
    let (mut switch, names) = tables();
    let entry = |b| names.entry(EXACT, 0, vec![exact(1, &[0]), exact(2, &[b])], 1);
    for b in 0..4 {
        add(&mut switch, entry(b));
    }
    let refusal = write(&mut switch, insert(table_entry(entry(4)))).unwrap_err();
    assert_eq!(refusal.code, Code::ResourceExhausted);
    assert!(refusal.message.contains("exact_table"), "{refusal}");
}

#[test]
fn wrong_templates_are_refused() {
    let (switch, names) = tables();
    let table = |t: TableEntry| table_entry(t);
    for (template, code) in [
        (Entity::default(), Code::InvalidArgument),
        (table(TableEntry { table_id: 99, ..Default::default() }), Code::NotFound),
        (
            table(TableEntry {
                table_id: names.table(EXACT),
                r#match: vec![exact(9, &[1])],
                ..Default::default()
            }),
            Code::InvalidArgument,
        ),
        (
            Entity {
                entity: Some(entity::Entity::CounterEntry(CounterEntry {
                    counter_id: 99,
                    ..Default::default()
                })),
            },
            Code::NotFound,
        ),
        (
            Entity {
                entity: Some(entity::Entity::MeterEntry(p4::MeterEntry {
                    meter_id: 1,
                    ..Default::default()
                })),
            },
            Code::NotFound,
        ),
    ] {
        assert_eq!(
            switch.read(std::slice::from_ref(&template)).unwrap_err().code,
            code,
            "{template:?}"
        );
    }
}

/// finsy reads everything before it deletes everything.
#[test]
fn reading_all_objects_of_a_missing_kind_returns_none() {
    use entity::Entity as E;
    let (switch, _) = tables();
    let sessions = |session_id| {
        let session = p4::CloneSessionEntry { session_id, ..Default::default() };
        let entry = p4::packet_replication_engine_entry::Type::CloneSessionEntry(session);
        E::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(entry) })
    };
    let all = [
        E::ActionProfileMember(Default::default()),
        E::ActionProfileGroup(Default::default()),
        E::MeterEntry(Default::default()),
        E::DirectMeterEntry(Default::default()),
        E::ValueSetEntry(Default::default()),
        E::DigestEntry(Default::default()),
        sessions(0),
    ];
    for entity in all {
        assert_eq!(read(&switch, Entity { entity: Some(entity) }), []);
    }
    let one = Entity { entity: Some(sessions(1)) };
    assert_eq!(switch.read(&[one]).unwrap_err().code, Code::NotFound);
}

proptest! {
    /// Whatever a hostile client writes, nothing panics, and a refused update changes nothing.
    #[test]
    fn random_updates_change_all_or_nothing(
        updates in proptest::collection::vec(
            (0i32..4, 0u32..8, -2i32..4,
             proptest::collection::vec((0u32..4, 0u8..6, proptest::collection::vec(any::<u8>(), 0..6), -1i32..40), 0..4),
             0u32..6, proptest::collection::vec((0u32..4, proptest::collection::vec(any::<u8>(), 0..3)), 0..3),
             any::<bool>()),
            1..20),
    ) {
        let (mut switch, names) = tables();
        let table_ids: Vec<u32> = names.0.tables.iter().map(|t| t.preamble.as_ref().unwrap().id).collect();
        let action_ids: Vec<u32> = names.0.actions.iter().map(|t| t.preamble.as_ref().unwrap().id).collect();
        for (change, table, priority, fields, action, params, default) in updates {
            let fields = fields.into_iter().map(|(id, kind, value, length)| match kind {
                0 => exact(id, &value),
                1 => lpm(id, &value, length),
                2 => ternary(id, &value, &value),
                3 => range(id, &[0], &value),
                4 => optional(id, &value),
                _ => p4::FieldMatch { field_id: id, field_match_type: None },
            });
            let params = params.into_iter().map(|(param_id, value)| p4::action::Param { param_id, value });
            let call = p4::Action {
                action_id: action_ids.get(action as usize).copied().unwrap_or(action),
                params: params.collect(),
            };
            let entry = TableEntry {
                table_id: table_ids.get(table as usize).copied().unwrap_or(table),
                r#match: fields.collect(),
                priority,
                action: Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(call)) }),
                is_default_action: default,
                ..Default::default()
            };
            let before = everything(&switch);
            let update = Update { r#type: change, entity: Some(table_entry(entry)) };
            if write(&mut switch, update).is_err() {
                prop_assert_eq!(everything(&switch), before);
            }
        }
    }
}
