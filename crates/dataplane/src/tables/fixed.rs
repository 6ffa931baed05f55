//! Tables that nobody can change: what a compiler may rely on.

use std::cmp::Reverse;

use super::matcher::{self, Words};
use super::{Outcome, Resolved, Stored, Table};

/// A table that is the same for ever: what matches which key, all keys in one word.
#[derive(Clone, Debug)]
pub(crate) struct FixedTable {
    /// The first that matches wins.
    pub(crate) rows: Vec<FixedRow>,
    pub(crate) default: Resolved,
}

/// Matches keys whose bits under the mask are the value's.
#[derive(Clone, Debug)]
pub(crate) struct FixedRow {
    pub(crate) value: u64,
    pub(crate) mask: u64,
    pub(crate) outcome: Resolved,
}

/// More entries are quicker to look up than to test one after the other.
const MOST_ROWS: usize = 64;

impl FixedTable {
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Resolved> {
        self.rows.iter().map(|row| &row.outcome).chain([&self.default])
    }
}

impl Table {
    /// All there is to know of a table that nobody can change and that keeps nothing of packets;
    /// none of others.
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
        // Larger priorities win, longer prefixes do; exact entries exclude each other.
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
