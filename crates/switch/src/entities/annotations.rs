//! Data that controllers attach to table entries and read back unchanged.

use std::collections::HashMap;

use tributary_dataplane::{self as dataplane, KeyMatch};
use tributary_p4::ir::TableId;
use tributary_p4runtime::p4::v1::{TableEntry, table_action};

/// Data attached to one entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Annotation {
    pub(super) metadata: Vec<u8>,
    /// Deprecated in P4Runtime, but still sent by older controllers.
    pub(super) number: u64,
    /// The idle timeout in nanoseconds: the engine's is in microseconds.
    pub(super) idle_timeout_ns: i64,
    /// The requested selection mode of the entry's action set.
    pub(super) selection_mode: i32,
    pub(super) size_semantics: i32,
}

impl Annotation {
    #[allow(deprecated, reason = "older controllers send it")]
    pub(super) fn of(entry: &TableEntry) -> Self {
        let mut annotation = Self {
            metadata: entry.metadata.clone(),
            number: entry.controller_metadata,
            idle_timeout_ns: entry.idle_timeout_ns,
            ..Self::default()
        };
        let action = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
        if let Some(table_action::Type::ActionProfileActionSet(set)) = action {
            annotation.selection_mode = set.action_selection_mode;
            annotation.size_semantics = set.size_semantics;
        }
        annotation
    }

    /// The same for an entry that keeps its action, and so the action's modes.
    pub(super) fn with_modes_of(self, known: &Self) -> Self {
        let Self { selection_mode, size_semantics, .. } = *known;
        Self { selection_mode, size_semantics, ..self }
    }
}

/// The annotations of all entries that have one.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    entries: HashMap<(TableId, Vec<KeyMatch>, i32), Annotation>,
    /// Annotations of default actions that a controller has set.
    defaults: HashMap<TableId, Annotation>,
}

impl Annotations {
    pub(super) fn of(&self, table: TableId, entry: &dataplane::TableEntry) -> Annotation {
        if self.entries.is_empty() {
            return Annotation::default();
        }
        let name = (table, entry.matches.clone(), entry.priority);
        self.entries.get(&name).cloned().unwrap_or_default()
    }

    pub(super) fn set(
        &mut self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
        to: Annotation,
    ) {
        if to == Annotation::default() && self.entries.is_empty() {
            return;
        }
        let name = (table, matches.to_vec(), priority);
        if to == Annotation::default() {
            self.entries.remove(&name);
        } else {
            self.entries.insert(name, to);
        }
    }

    pub(super) fn of_default(&self, table: TableId) -> Annotation {
        self.defaults.get(&table).cloned().unwrap_or_default()
    }

    /// Records that the controller has set a default action, or restored the program's.
    pub(super) fn set_default(&mut self, table: TableId, to: Option<Annotation>) {
        match to {
            Some(annotation) => drop(self.defaults.insert(table, annotation)),
            None => drop(self.defaults.remove(&table)),
        }
    }

    /// Whether the controller has set a table's default action.
    pub(super) fn has_default(&self, table: TableId) -> bool {
        self.defaults.contains_key(&table)
    }
}
