//! Ternary, range and optional matching: of the entries that match, the one of the highest priority
//! wins.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::hashed::Mix;

/// Which of two entries wins: the larger priority, then the one that was there first.
type Rank = (i32, Reverse<u64>);

/// Entries whose keys fit into one word.
///
/// A few are tested one after the other. More are looked up by value, once for each mask that
/// entries have: programs and controllers use few masks, however many entries there are. Masks are
/// tried by the best entry under each, until none can win any more.
#[derive(Debug, Default)]
pub(super) struct PackedScan {
    rows: Vec<PackedRow>,
    /// What was inserted before counts as first.
    inserted: u64,
    /// By mask, the best first; in use with more than [`FEW`] entries, for good.
    groups: Option<Vec<Group>>,
}

/// So many entries are quick to test one after the other.
const FEW: usize = 32;

#[derive(Clone, Copy, Debug)]
struct PackedRow {
    value: u64,
    mask: u64,
    rank: Rank,
    number: u32,
}

/// Entries with one mask.
#[derive(Debug)]
struct Group {
    mask: u64,
    best: Rank,
    /// The best first, by value.
    entries: HashMap<u64, Vec<(Rank, u32)>, BuildHasherDefault<Mix>>,
}

impl PackedScan {
    pub(super) fn insert(&mut self, value: u64, mask: u64, priority: i32, number: u32) {
        let row = PackedRow { value, mask, rank: (priority, Reverse(self.inserted)), number };
        self.inserted += 1;
        if let Some(groups) = &mut self.groups {
            insert(groups, &row);
            return;
        }
        let at = self.rows.partition_point(|other| other.rank > row.rank);
        self.rows.insert(at, row);
        if self.rows.len() > FEW {
            let mut groups = Vec::new();
            self.rows.drain(..).for_each(|row| insert(&mut groups, &row));
            self.groups = Some(groups);
        }
    }

    pub(super) fn remove(&mut self, value: u64, mask: u64, number: u32) {
        let Some(groups) = &mut self.groups else {
            self.rows.retain(|row| row.number != number);
            return;
        };
        let Some(at) = groups.iter().position(|group| group.mask == mask) else { return };
        let group = &mut groups[at];
        if let Some(entries) = group.entries.get_mut(&value) {
            entries.retain(|&(_, other)| other != number);
            if entries.is_empty() {
                group.entries.remove(&value);
            }
        }
        // What was the best stays noted as such: a look-up then tries a mask in vain, no more.
        if group.entries.is_empty() {
            groups.remove(at);
        }
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let Some(groups) = &self.groups else {
            let row = self.rows.iter().find(|row| key & row.mask == row.value);
            return row.map(|row| row.number);
        };
        let mut best: Option<(Rank, u32)> = None;
        for group in groups {
            if best.is_some_and(|(rank, _)| rank > group.best) {
                break;
            }
            if let Some(&found) = group.entries.get(&(key & group.mask)).and_then(|e| e.first())
                && best.is_none_or(|(rank, _)| found.0 > rank)
            {
                best = Some(found);
            }
        }
        best.map(|(_, number)| number)
    }
}

fn insert(groups: &mut Vec<Group>, row: &PackedRow) {
    let at = groups.iter().position(|group| group.mask == row.mask);
    let mut group = match at {
        Some(at) if groups[at].best >= row.rank => {
            put(&mut groups[at], row);
            return;
        }
        Some(at) => groups.remove(at),
        None => Group { mask: row.mask, best: row.rank, entries: HashMap::default() },
    };
    group.best = row.rank;
    put(&mut group, row);
    let at = groups.partition_point(|other| other.best > group.best);
    groups.insert(at, group);
}

fn put(group: &mut Group, row: &PackedRow) {
    let entries = group.entries.entry(row.value).or_default();
    let at = entries.partition_point(|&(rank, _)| rank > row.rank);
    entries.insert(at, (row.rank, row.number));
}

/// Entries with keys of any width and ranges.
#[derive(Debug, Default)]
pub(super) struct WordScan {
    /// By priority, once [`Self::settle`] has sorted them.
    rows: Vec<Row>,
    unsorted: bool,
}

/// A range that a key must lie in.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The key's first word.
    pub(super) first: u32,
    pub(super) low: Box<[u64]>,
    pub(super) high: Box<[u64]>,
}

impl Bounds {
    fn contains(&self, key: &[u64]) -> bool {
        let value = key[self.first as usize..][..self.low.len()].iter().rev();
        value.clone().ge(self.low.iter().rev()) && value.le(self.high.iter().rev())
    }
}

#[derive(Debug)]
struct Row {
    values: Box<[u64]>,
    masks: Box<[u64]>,
    ranges: Vec<Bounds>,
    priority: i32,
    number: u32,
}

impl Row {
    fn matches(&self, key: &[u64]) -> bool {
        let equal = key
            .iter()
            .zip(self.values.iter().zip(&self.masks))
            .all(|(word, (value, mask))| word & mask == *value);
        equal && self.ranges.iter().all(|range| range.contains(key))
    }
}

impl WordScan {
    pub(super) fn insert(
        &mut self,
        values: &[u64],
        masks: &[u64],
        ranges: Vec<Bounds>,
        priority: i32,
        number: u32,
    ) {
        self.unsorted |= self.rows.last().is_some_and(|last| last.priority < priority);
        self.rows.push(Row {
            values: values.into(),
            masks: masks.into(),
            ranges,
            priority,
            number,
        });
    }

    /// Brings entries that were inserted into their order: once for many of them. Of the same
    /// priority, those that were there first stay first.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.unsorted {
            self.rows.sort_by_key(|row| Reverse(row.priority));
            self.unsorted = false;
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.rows.retain(|row| row.number != number);
    }

    pub(super) fn find(&self, key: &[u64]) -> Option<u32> {
        self.rows.iter().find(|row| row.matches(key)).map(|row| row.number)
    }
}
