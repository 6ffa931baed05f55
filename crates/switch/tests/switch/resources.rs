//! Counters and meters of default entries, from controllers' requests to packets.

use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Config;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{
    self as p4, CounterData, Entity, MeterConfig, TableEntry, Update, entity,
};
use tributary_switch::Switch;

use crate::common::*;
use crate::features::{BY_ENTRY, FEATURES, ask, entity, features, refused};
use crate::grpc::*;

const METERED: &str = "TestIngress.metered";
/// Two packets of 20 bytes.
const TWO: MeterConfig = MeterConfig { cir: 1, cburst: 40, pir: 1, pburst: 40, eburst: 0 };

fn default_of(names: &Names, table: &str) -> TableEntry {
    TableEntry { table_id: names.table(table), is_default_action: true, ..Default::default() }
}

fn counter(of: TableEntry, data: Option<CounterData>) -> Entity {
    let entry = p4::DirectCounterEntry { table_entry: Some(of), data };
    entity(entity::Entity::DirectCounterEntry(entry))
}

fn meter(of: TableEntry, config: Option<MeterConfig>) -> Entity {
    let entry = p4::DirectMeterEntry { table_entry: Some(of), config, counter_data: None };
    entity(entity::Entity::DirectMeterEntry(entry))
}

fn counted(packet_count: i64, byte_count: i64) -> Option<CounterData> {
    Some(CounterData { packet_count, byte_count })
}

/// The default entry of the table, with its resources.
fn whole(switch: &Switch, names: &Names) -> TableEntry {
    let wanted = TableEntry {
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..default_of(names, METERED)
    };
    match read(switch, table_entry(wanted)).pop().unwrap().entity {
        Some(entity::Entity::TableEntry(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn misses_count_at_the_default_entry() {
    let (mut switch, names) = features();
    let default = default_of(&names, METERED);
    let hit = TableEntry {
        table_id: default.table_id,
        r#match: vec![exact(1, &[1])],
        action: Some(names.call("NoAction", &[])),
        ..Default::default()
    };
    write(&mut switch, insert(table_entry(hit.clone()))).unwrap();
    for key in [1, 7, 8] {
        ask(&mut switch, 0, BY_ENTRY, key, 0);
    }
    let of_default = counter(default.clone(), None);
    assert_eq!(read(&switch, of_default.clone()), [counter(default.clone(), counted(2, 40))]);
    assert_eq!(whole(&switch, &names).counter_data, counted(2, 40));
    // Queries for all counters are for entries; those for default entries say so.
    let all = counter(TableEntry::default(), None);
    let of_hit = TableEntry { action: None, ..hit };
    assert_eq!(read(&switch, all), [counter(of_hit, counted(1, 20))]);
    let defaults = counter(TableEntry { is_default_action: true, ..Default::default() }, None);
    assert_eq!(read(&switch, defaults), [counter(default.clone(), counted(2, 40))]);

    write(&mut switch, modify(counter(default.clone(), counted(10, 0)))).unwrap();
    ask(&mut switch, 0, BY_ENTRY, 9, 0);
    assert_eq!(read(&switch, of_default.clone()), [counter(default.clone(), counted(11, 20))]);
    // No data: nothing changes.
    write(&mut switch, modify(of_default.clone())).unwrap();
    // With the entry: the count that is set, and a modification without one keeps it.
    let set = TableEntry { counter_data: counted(5, 5), ..default.clone() };
    write(&mut switch, modify(table_entry(set))).unwrap();
    write(&mut switch, modify(table_entry(default.clone()))).unwrap();
    assert_eq!(read(&switch, of_default), [counter(default, counted(5, 5))]);
}

#[test]
fn misses_are_metered_at_the_default_entry() {
    const GREEN: u8 = 0;
    const RED: u8 = 2;
    let (mut switch, names) = features();
    let default = default_of(&names, METERED);
    let color = |switch: &mut Switch, key| ask(switch, 0, BY_ENTRY, key, 0).0;
    assert!((0..9).all(|key| color(&mut switch, key) == GREEN));
    write(&mut switch, modify(meter(default.clone(), Some(TWO)))).unwrap();
    assert_eq!([5, 6, 7, 8].map(|key| color(&mut switch, key)), [GREEN, GREEN, RED, RED]);
    assert_eq!(read(&switch, meter(default.clone(), None)), [meter(default.clone(), Some(TWO))]);
    assert_eq!(whole(&switch, &names).meter_config, Some(TWO));
    // An unset action resets the default entry, its meter's configuration with it.
    write(&mut switch, modify(table_entry(default.clone()))).unwrap();
    assert_eq!(whole(&switch, &names).meter_config, None);
    assert!((0..9).all(|key| color(&mut switch, key) == GREEN));
    let action = Some(names.call("NoAction", &[]));
    let set = TableEntry { action, meter_config: Some(TWO), ..default.clone() };
    write(&mut switch, modify(table_entry(set))).unwrap();
    assert_eq!([5, 6, 7].map(|key| color(&mut switch, key)), [GREEN, GREEN, RED]);
    write(&mut switch, modify(meter(default.clone(), None))).unwrap();
    assert_eq!(read(&switch, meter(default.clone(), None)), [meter(default, None)]);
    assert_eq!(color(&mut switch, 5), GREEN);
}

#[test]
fn wrong_requests_for_resources_of_default_entries_are_refused() {
    let (mut switch, names) = features();
    let default = default_of(&names, METERED);
    let before = whole(&switch, &names);
    let without = default_of(&names, "TestIngress.initial");
    let with_match = TableEntry { r#match: vec![exact(1, &[1])], ..default.clone() };
    let with_priority = TableEntry { priority: 1, ..default.clone() };
    let cases: Vec<Update> = vec![
        insert(counter(default.clone(), counted(1, 1))),
        delete(counter(default.clone(), None)),
        insert(meter(default.clone(), Some(TWO))),
        delete(meter(default.clone(), None)),
        modify(counter(without.clone(), counted(1, 1))),
        modify(meter(without.clone(), Some(TWO))),
        modify(counter(with_match.clone(), counted(1, 1))),
        modify(meter(with_match, Some(TWO))),
        modify(counter(with_priority.clone(), counted(1, 1))),
        modify(counter(default.clone(), counted(-1, 1))),
        modify(meter(default.clone(), Some(MeterConfig { cir: -1, ..TWO }))),
        modify(meter(default.clone(), Some(MeterConfig { eburst: 1, ..TWO }))),
        modify(table_entry(TableEntry { counter_data: counted(-1, 0), ..default.clone() })),
        modify(table_entry(TableEntry { counter_data: counted(1, 0), ..without.clone() })),
        modify(table_entry(TableEntry { meter_config: Some(TWO), ..without.clone() })),
    ];
    for update in cases {
        refused(&mut switch, update, Code::InvalidArgument);
        assert_eq!(whole(&switch, &names), before);
    }
    for template in [
        counter(without.clone(), None),
        meter(without.clone(), None),
        counter(with_priority, None),
        table_entry(TableEntry { counter_data: Some(Default::default()), ..without }),
    ] {
        let refusal = switch.read(std::slice::from_ref(&template)).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument, "{template:?}");
    }
}

#[test]
fn batches_with_resources_of_default_entries_are_undone() {
    let (mut switch, names) = features();
    let default = default_of(&names, METERED);
    ask(&mut switch, 0, BY_ENTRY, 1, 0);
    write(&mut switch, modify(meter(default.clone(), Some(TWO)))).unwrap();
    let before = whole(&switch, &names);
    assert_eq!((before.counter_data, before.meter_config), (counted(1, 20), Some(TWO)));
    let other = MeterConfig { cburst: 1, pburst: 1, ..TWO };
    let batch = [
        modify(counter(default.clone(), counted(9, 9))),
        modify(meter(default.clone(), Some(other))),
        modify(table_entry(TableEntry { counter_data: counted(8, 8), ..default })),
        Update::default(),
    ];
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let results = switch.write_batch(&batch, atomicity).unwrap();
        assert!(results.iter().all(Result::is_err));
        assert_eq!(whole(&switch, &names), before);
    }
}

#[tokio::test]
async fn another_program_takes_resources_of_default_entries_over() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let names = names(FEATURES);
    let default = default_of(&names, METERED);
    let (count, config) =
        (counter(default.clone(), counted(3, 4)), meter(default.clone(), Some(TWO)));
    let updates = vec![modify(count.clone()), modify(config.clone())];
    client.write(writing(updates)).await.unwrap();
    let other = FEATURES.replace("hdr.request.answer = value;", "hdr.request.answer = value + 1;");
    let request = set(Config::ReconcileAndCommit, Some(crate::grpc::config(&other)));
    client.set_forwarding_pipeline_config(request).await.unwrap();
    let templates = vec![counter(default.clone(), None), meter(default, None)];
    assert_eq!(query(&mut client, templates).await.unwrap(), [count, config]);
}
