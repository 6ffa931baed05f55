//! Undoing updates.

use tributary_p4runtime_proto::p4::v1::{Entity, Update, entity, update};

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
        _ => found(before, entity),
    };
    found.into_iter().map(|entity| updating(back, entity)).collect()
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
