//! All state that controllers have written, for another program to take over.

use std::collections::HashSet;

use tributary_dataplane::Owner;
use tributary_p4runtime::p4::v1::{
    self as p4, DirectMeterEntry, Entity, TableEntry, entity,
    packet_replication_engine_entry as engine, update,
};

use super::meters::meter_to;
use super::objects::Table;
use super::read::{parts_of, read_all};
use super::tables;
use crate::forwarding::Forwarding;

/// Updates that bring a program from its initial state to that of `from`, in a valid order.
/// Counters and registers written by packets are not included.
pub(crate) fn everything_written(from: &Forwarding) -> Vec<(update::Type, Entity)> {
    use entity::Entity as E;
    let session = engine::Type::CloneSessionEntry(Default::default());
    let group = engine::Type::MulticastGroupEntry(Default::default());
    let replication = |kind| {
        E::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    let mut all = Vec::new();
    for template in [
        E::ActionProfileMember(Default::default()),
        E::ActionProfileGroup(Default::default()),
        replication(group),
        replication(session),
        E::DigestEntry(Default::default()),
    ] {
        all.extend(found(from, template).map(|entity| (update::Type::Insert, entity)));
    }
    all.extend(from.objects().tables().flat_map(|table| table_state(from, table)));
    let configured = |entity: &Entity| match &entity.entity {
        Some(E::MeterEntry(meter)) => meter.config.is_some(),
        Some(E::ValueSetEntry(set)) => !set.members.is_empty(),
        _ => false,
    };
    for template in [E::MeterEntry(Default::default()), E::ValueSetEntry(Default::default())] {
        let chosen = found(from, template).filter(configured);
        all.extend(chosen.map(|entity| (update::Type::Modify, entity)));
    }
    all
}

fn found(from: &Forwarding, template: entity::Entity) -> impl Iterator<Item = Entity> {
    let template = Entity { entity: Some(template) };
    let mut found = Vec::new();
    for part in parts_of(from, &template).unwrap_or_default() {
        // Reading all objects of a kind is never refused.
        drop(read_all(from, part, &mut found));
    }
    found.into_iter()
}

/// The entries of a table and, if the controller has set one, its default action; the default entry's
/// meter in any case.
fn table_state(from: &Forwarding, table: &Table) -> Vec<(update::Type, Entity)> {
    let mut state = Vec::new();
    for entry in from.pipeline().entries(table.at) {
        let Ok(entry) = tables::full_entry(from, table, entry) else { continue };
        let resources = entry.counter_data.is_some() || entry.meter_config.is_some();
        if !entry.is_const {
            state.push((update::Type::Insert, entity(entry)));
        } else if resources {
            let entry = TableEntry { action: None, is_const: false, ..entry };
            state.push((update::Type::Modify, entity(entry)));
        }
    }
    let key = TableEntry { table_id: table.id, is_default_action: true, ..Default::default() };
    let default = tables::restorable(from, &key).and_then(|default| default.entity);
    if let Some(entity::Entity::TableEntry(default)) = default
        && from.annotations().has_default(table.at)
    {
        // Its counter is taken over even if no controller has set the action.
        let default = TableEntry { counter_data: None, ..default };
        state.push((update::Type::Modify, entity(default)));
    }
    let meter = from.pipeline().direct_meter_config(table.at, Owner::Default).ok().flatten();
    if let Some(config) = meter {
        let (table_entry, config) = (Some(key), Some(meter_to(config)));
        let entry = DirectMeterEntry { table_entry, config, counter_data: None };
        let entity = Entity { entity: Some(entity::Entity::DirectMeterEntry(entry)) };
        state.push((update::Type::Modify, entity));
    }
    state
}

/// The removable initial entries of `new` in tables that `old` also has.
pub(crate) fn initial_entries(old: &Forwarding, new: &Forwarding) -> Vec<Entity> {
    let tables = new.objects().tables().filter(|table| old.objects().table(table.id).is_ok());
    let entries = tables.flat_map(|table| {
        let entries = new.pipeline().entries(table.at);
        entries.filter_map(|entry| tables::full_entry(new, table, entry).ok())
    });
    entries.filter(|entry| !entry.is_const).map(entity).collect()
}

/// All entries of a program, constant ones and default actions too.
pub(crate) fn initial_state(from: &Forwarding) -> impl Iterator<Item = Entity> {
    from.objects().tables().flat_map(move |table| {
        let entries = from.pipeline().entries(table.at);
        let entries = entries.filter_map(move |entry| tables::full_entry(from, table, entry).ok());
        let key = TableEntry { table_id: table.id, is_default_action: true, ..Default::default() };
        entries.map(entity).chain(found(from, entity::Entity::TableEntry(key)))
    })
}

/// The numbers of names that a program's entities have, and these, by type.
pub(crate) fn numbers_used(
    from: &Forwarding,
    more: impl Iterator<Item = Entity>,
) -> HashSet<(usize, u64)> {
    let written = everything_written(from).into_iter().map(|(_, entity)| entity);
    from.objects().places().numbers(written.chain(more))
}

fn entity(entry: TableEntry) -> Entity {
    Entity { entity: Some(entity::Entity::TableEntry(entry)) }
}
