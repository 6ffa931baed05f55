//! Undoing updates.

use tributary_p4runtime::p4::v1::{
    DirectCounterEntry, DirectMeterEntry, Entity, TableEntry, Update, entity, update,
};

use super::read::{parts_of, read_all};
use super::{Change, tables};
use crate::forwarding::Forwarding;

/// The updates that undo `update`, computed before it is made. Empty for an update that will be
/// refused.
pub(crate) fn undo(before: &Forwarding, update: &Update) -> Vec<Update> {
    let Ok(change) = Change::of(update) else { return Vec::new() };
    let Some(entity) = &update.entity else { return Vec::new() };
    let back = match change {
        Change::Insert => return vec![updating(update::Type::Delete, entity.clone())],
        Change::Modify => update::Type::Modify,
        Change::Delete => update::Type::Insert,
    };
    let found = match &entity.entity {
        Some(entity::Entity::TableEntry(entry)) => {
            tables::restorable(before, entry).into_iter().collect()
        }
        Some(entity::Entity::DirectCounterEntry(entry)) => {
            let table_entry = entry.table_entry.as_ref().map(bare);
            let key = DirectCounterEntry { table_entry, data: None };
            found(before, &Entity { entity: Some(entity::Entity::DirectCounterEntry(key)) })
        }
        Some(entity::Entity::DirectMeterEntry(entry)) => {
            let table_entry = entry.table_entry.as_ref().map(bare);
            let key = DirectMeterEntry { table_entry, ..DirectMeterEntry::default() };
            found(before, &Entity { entity: Some(entity::Entity::DirectMeterEntry(key)) })
        }
        _ => found(before, entity),
    };
    found.into_iter().map(|entity| updating(back, entity)).collect()
}

/// The key of an entry alone. A write of its resources looks at nothing else, and a read would select by
/// action and metadata, too.
fn bare(entry: &TableEntry) -> TableEntry {
    TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        ..TableEntry::default()
    }
}

fn updating(kind: update::Type, entity: Entity) -> Update {
    Update { r#type: kind.into(), entity: Some(entity) }
}

/// The entities with the key of the given one.
fn found(from: &Forwarding, key: &Entity) -> Vec<Entity> {
    let mut found = Vec::new();
    let parts = parts_of(from, key).unwrap_or_default();
    match parts.into_iter().try_for_each(|part| read_all(from, part, &mut found)) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}
