//! Constant tables, for the compiler.

use std::cmp::Reverse;

use super::matcher::{self, Words};
use super::{Outcome, Resolved, Stored, Table};

/// A constant table: matches and outcomes, with all keys in one word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FixedTable {
    /// The first match wins.
    pub(crate) rows: Vec<FixedRow>,
    pub(crate) default: Resolved,
}

/// Matches keys whose bits under the mask are the value's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FixedRow {
    pub(crate) value: u64,
    pub(crate) mask: u64,
    pub(crate) outcome: Resolved,
}

/// Larger tables are faster to look up than to test entry by entry.
const MOST_ROWS: usize = 64;

impl FixedTable {
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Resolved> {
        self.rows.iter().map(|row| &row.outcome).chain([&self.default])
    }
}

impl Table {
    /// The content of a table that is constant and keeps no state of packets; `None` for others.
    pub(crate) fn fixed(&self) -> Option<FixedTable> {
        let fixed = self.const_default && (self.const_entries || self.keys.is_empty());
        if !fixed
            || self.marked
            || self.stored.len() > MOST_ROWS
            || !Words::new(&self.keys).is_one()
        {
            return None;
        }
        let mut entries: Vec<&Stored> = self.stored.iter().flatten().collect();
        // Higher priorities and longer prefixes win; exact entries exclude each other.
        let prefix = |stored: &Stored| matcher::prefix_len(&stored.entry.matches);
        entries.sort_by_key(|stored| Reverse((stored.entry.priority, prefix(stored))));
        let row = |stored: &Stored| {
            let (value, mask) = matcher::packed(&self.keys, &stored.entry.matches);
            Some(FixedRow { value, mask, outcome: direct(&stored.outcome)? })
        };
        Some(FixedTable {
            rows: entries.into_iter().map(row).collect::<Option<_>>()?,
            default: direct(&self.default_outcome)?,
        })
    }
}

fn direct(outcome: &Outcome) -> Option<Resolved> {
    match outcome {
        Outcome::Direct(resolved) => Some(resolved.clone()),
        _ => None,
    }
}
