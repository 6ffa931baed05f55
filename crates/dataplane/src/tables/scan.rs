//! Ternary, range and optional matching: the matching entry with the highest priority wins.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::hashed::Mix;

/// The rank of an entry: a larger priority wins, then the earlier insertion.
type Rank = (i32, Reverse<u64>);

/// The keys that an entry matches.
pub(super) trait Pattern {
    /// A packet's keys.
    type Key: ?Sized;
    /// The key bits that must be equal.
    type Mask: PartialEq + Clone + std::fmt::Debug;

    fn mask(&self) -> &Self::Mask;

    /// The slot with all entries of this mask that match a key, and possibly others.
    fn slot_of(key: &Self::Key, mask: &Self::Mask) -> u64;

    /// The slot of all keys that the entry matches.
    fn slot(&self) -> u64;

    fn matches(&self, key: &Self::Key) -> bool;
}

/// Up to this many entries are tested one after the other.
const FEW: usize = 32;

/// The entries of a table.
///
/// A few are tested one after the other. More are looked up by value, once per mask: programs and
/// controllers use few masks, however many entries there are. Masks are tried in the order of their
/// best entry, until no other can win.
#[derive(Debug)]
pub(super) struct Scan<P: Pattern> {
    /// Best first; empty if there are groups.
    rows: Vec<Row<P>>,
    /// Number of insertions so far, which orders entries.
    inserted: u64,
    /// By mask, best first; used permanently once there are more than [`FEW`] entries.
    groups: Option<Vec<Group<P>>>,
    /// Entries that [`Self::settle`] will add to the groups in one batch.
    waiting: Vec<Row<P>>,
}

#[derive(Debug)]
struct Row<P> {
    pattern: P,
    rank: Rank,
    number: u32,
}

/// Entries with one mask.
#[derive(Debug)]
struct Group<P: Pattern> {
    mask: P::Mask,
    best: Rank,
    /// By slot, best first.
    slots: HashMap<u64, Vec<Row<P>>, BuildHasherDefault<Mix>>,
}

impl<P: Pattern> Default for Scan<P> {
    fn default() -> Self {
        Self { rows: Vec::new(), inserted: 0, groups: None, waiting: Vec::new() }
    }
}

impl<P: Pattern> Scan<P> {
    pub(super) fn insert(&mut self, pattern: P, priority: i32, number: u32) {
        let row = Row { pattern, rank: (priority, Reverse(self.inserted)), number };
        self.inserted += 1;
        if self.groups.is_some() {
            self.waiting.push(row);
            return;
        }
        let at = self.rows.partition_point(|other| other.rank > row.rank);
        self.rows.insert(at, row);
        if self.rows.len() > FEW {
            self.waiting = std::mem::take(&mut self.rows);
            self.groups = Some(Vec::new());
        }
    }

    /// Removes an entry; ranges of its pattern are ignored.
    pub(super) fn remove(&mut self, pattern: &P, number: u32) {
        self.settle();
        let Some(groups) = &mut self.groups else {
            self.rows.retain(|row| row.number != number);
            return;
        };
        let Some(at) = groups.iter().position(|group| group.mask == *pattern.mask()) else {
            return;
        };
        let group = &mut groups[at];
        if let Some(rows) = group.slots.get_mut(&pattern.slot()) {
            rows.retain(|row| row.number != number);
            if rows.is_empty() {
                group.slots.remove(&pattern.slot());
            }
        }
        // The recorded best rank may be outdated: at worst, a lookup tries a mask in vain.
        if group.slots.is_empty() {
            groups.remove(at);
        }
    }

    /// Adds the inserted entries to their groups.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.waiting.is_empty() {
            self.sort_in();
        }
    }

    fn sort_in(&mut self) {
        let groups = self.groups.get_or_insert_default();
        let mut changed = HashSet::new();
        for row in self.waiting.drain(..) {
            let mask = row.pattern.mask();
            let at = groups.iter().position(|group| group.mask == *mask).unwrap_or_else(|| {
                let mask = mask.clone();
                groups.push(Group { mask, best: row.rank, slots: HashMap::default() });
                groups.len() - 1
            });
            let slot = row.pattern.slot();
            changed.insert((at, slot));
            groups[at].best = groups[at].best.max(row.rank);
            groups[at].slots.entry(slot).or_default().push(row);
        }
        for (at, slot) in changed {
            if let Some(rows) = groups[at].slots.get_mut(&slot) {
                rows.sort_by_key(|row| Reverse(row.rank));
            }
        }
        groups.sort_by_key(|group| Reverse(group.best));
    }

    /// The number of the best matching entry. All insertions must have been settled.
    #[inline]
    pub(super) fn find(&self, key: &P::Key) -> Option<u32> {
        let Some(groups) = &self.groups else {
            return self.rows.iter().find(|row| row.pattern.matches(key)).map(|row| row.number);
        };
        let mut best: Option<&Row<P>> = None;
        let beaten = |best: Option<&Row<P>>, rank: Rank| best.is_some_and(|best| best.rank > rank);
        for group in groups {
            if beaten(best, group.best) {
                break;
            }
            if let Some(rows) = group.slots.get(&P::slot_of(key, &group.mask))
                && let Some(row) = rows.iter().find(|row| row.pattern.matches(key))
                && !beaten(best, row.rank)
            {
                best = Some(row);
            }
        }
        best.map(|row| row.number)
    }
}

/// Keys that fit into one word.
#[derive(Debug)]
pub(super) struct OneWord {
    pub(super) value: u64,
    pub(super) mask: u64,
}

impl Pattern for OneWord {
    type Key = u64;
    type Mask = u64;

    fn mask(&self) -> &u64 {
        &self.mask
    }

    #[inline]
    fn slot_of(key: &u64, mask: &u64) -> u64 {
        key & mask
    }

    fn slot(&self) -> u64 {
        self.value
    }

    #[inline]
    fn matches(&self, key: &u64) -> bool {
        key & self.mask == self.value
    }
}

/// Keys of any width, and ranges.
#[derive(Debug)]
pub(super) struct ManyWords {
    pub(super) values: Box<[u64]>,
    /// Without the bits of keys that are matched by range.
    pub(super) masks: Box<[u64]>,
    pub(super) ranges: Vec<Bounds>,
}

/// A range for a key.
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

impl Pattern for ManyWords {
    type Key = [u64];
    type Mask = Box<[u64]>;

    fn mask(&self) -> &Box<[u64]> {
        &self.masks
    }

    fn slot_of(key: &[u64], masks: &Box<[u64]>) -> u64 {
        let mut slot = Mix::default();
        key.iter().zip(masks).for_each(|(word, mask)| slot.write_u64(word & mask));
        slot.finish()
    }

    fn slot(&self) -> u64 {
        Self::slot_of(&self.values, &self.masks)
    }

    fn matches(&self, key: &[u64]) -> bool {
        let equal = key
            .iter()
            .zip(self.values.iter().zip(&self.masks))
            .all(|(word, (value, mask))| word & mask == *value);
        equal && self.ranges.iter().all(|range| range.contains(key))
    }
}
