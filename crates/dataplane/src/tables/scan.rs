//! Ternary, range and optional matching: the matching entry with the highest priority wins.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::iter;

use super::hashed::Mix;
use super::ranges::{Bounds, Stabs};

/// The rank of an entry: a larger priority wins, then the earlier insertion.
type Rank = (i32, Reverse<u64>);

/// The keys that an entry matches.
pub(super) trait Pattern {
    /// A packet's keys.
    type Key: ?Sized;
    /// Bits of keys.
    type Mask: PartialEq + Clone + std::fmt::Debug;

    /// The key bits that must be equal.
    fn mask(&self) -> &Self::Mask;

    /// The slot with all entries that match a key, and possibly others. `mask` is one of theirs, or
    /// has fewer bits.
    fn slot_of(key: &Self::Key, mask: &Self::Mask) -> u64;

    /// The slot of all keys that the entry matches.
    fn slot(&self, mask: &Self::Mask) -> u64;

    fn matches(&self, key: &Self::Key) -> bool;

    /// The keys that are matched by range.
    fn ranges(&self) -> &[Bounds];

    /// The position of the first entry whose ranges may contain a key's.
    fn first(stabs: &Stabs, key: &Self::Key) -> usize;

    /// The bits of both.
    fn common(a: &Self::Mask, b: &Self::Mask) -> Self::Mask;

    /// Number of bits.
    fn bits(mask: &Self::Mask) -> u32;
}

/// Up to this many entries are tested one after the other.
const FEW: usize = 32;

/// Up to this many masks have a group each; with more, entries of similar masks share groups.
const FEW_MASKS: usize = 8;

/// Number of groups that are asked to take an entry of another mask.
const TRIES: usize = 4;

/// Entries of other masks than the group's share slots of up to this many.
const SHARED: usize = 16;

/// The entries of a table.
///
/// A few are tested one after the other. More are looked up by value, once per group of entries that
/// have a mask in common (tuple space search). Programs and controllers mostly use few masks, however
/// many entries there are. Where they use many, a group takes entries whose masks have more bits than
/// its own, as long as its slots stay short (compare TupleMerge, Daly et al., IEEE/ACM ToN 2019).
/// Groups are tried in the order of their best entry, until no other can win.
#[derive(Clone, Debug)]
pub(super) struct Scan<P: Pattern> {
    /// Best first; empty if there are groups.
    rows: Vec<Row<P>>,
    /// Number of insertions so far, which orders entries.
    inserted: u64,
    /// Best first; used permanently once there are more than [`FEW`] entries.
    groups: Option<Vec<Group<P>>>,
    /// Entries that [`Self::settle`] will add to the groups in one batch.
    waiting: Vec<Row<P>>,
    /// Whether slots lack their index.
    stale: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Row<P> {
    pattern: P,
    rank: Rank,
    number: u32,
}

/// Entries whose masks have at least these bits.
#[derive(Clone, Debug)]
struct Group<P: Pattern> {
    mask: P::Mask,
    best: Rank,
    slots: Slots<P>,
}

type Slots<P> = HashMap<u64, Slot<P>, BuildHasherDefault<Mix>>;

/// Entries that are equal in the bits of their group.
#[derive(Clone, Debug)]
struct Slot<P> {
    /// Best first.
    rows: Vec<Row<P>>,
    /// For many rows with ranges.
    stabs: Option<Box<Stabs>>,
}

impl<P> Default for Slot<P> {
    fn default() -> Self {
        Self { rows: Vec::new(), stabs: None }
    }
}

impl<P: Pattern> Slot<P> {
    /// Puts the rows in order, after insertions.
    fn sort(&mut self) {
        self.rows.sort_by_key(|row| Reverse(row.rank));
        self.stabs = None;
    }

    /// Whether an index would help, and is not there.
    fn lacks_index(&self) -> bool {
        let ranged = |row: &Row<P>| !row.pattern.ranges().is_empty();
        self.stabs.is_none() && self.rows.len() > FEW && self.rows.first().is_some_and(ranged)
    }

    fn index(&mut self) {
        self.stabs = Stabs::new(|| self.rows.iter().map(|row| row.pattern.ranges()));
    }

    /// The best matching row.
    #[inline]
    fn find(&self, key: &P::Key) -> Option<&Row<P>> {
        let first = self.stabs.as_ref().map_or(0, |stabs| P::first(stabs, key));
        self.rows[first..].iter().find(|row| row.pattern.matches(key))
    }
}

impl<P: Pattern> Group<P> {
    fn new(row: Row<P>) -> Self {
        let mask = row.pattern.mask().clone();
        let (best, slot) = (row.rank, row.pattern.slot(&mask));
        let slots = iter::once((slot, Slot { rows: vec![row], stabs: None })).collect();
        Self { mask, best, slots }
    }

    /// Whether an entry of another mask may join.
    fn has_room(&self, pattern: &P) -> bool {
        let slot = self.slots.get(&pattern.slot(&self.mask));
        slot.is_none_or(|slot| slot.rows.len() < SHARED)
            && P::common(&self.mask, pattern.mask()) == self.mask
    }

    /// Gives up bits, so that the entry may join, if slots stay short.
    fn widen(&mut self, pattern: &P) -> bool {
        let mask = P::common(&self.mask, pattern.mask());
        let mut counts: HashMap<u64, usize, BuildHasherDefault<Mix>> = HashMap::default();
        let rows = self.slots.values().flat_map(|slot| &slot.rows).map(|row| &row.pattern);
        for pattern in rows.chain(iter::once(pattern)) {
            let count = counts.entry(pattern.slot(&mask)).or_default();
            *count += 1;
            if *count > SHARED {
                return false;
            }
        }
        let rows = std::mem::take(&mut self.slots).into_values().flat_map(|slot| slot.rows);
        for row in rows {
            self.slots.entry(row.pattern.slot(&mask)).or_default().rows.push(row);
        }
        self.slots.values_mut().for_each(Slot::sort);
        self.mask = mask;
        true
    }
}

impl<P: Pattern> Default for Scan<P> {
    fn default() -> Self {
        Self { rows: Vec::new(), inserted: 0, groups: None, waiting: Vec::new(), stale: false }
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

    /// Removes an entry.
    pub(super) fn remove(&mut self, pattern: &P, number: u32) {
        self.sort_in();
        let Some(groups) = &mut self.groups else {
            self.rows.retain(|row| row.number != number);
            return;
        };
        // It is in one of the groups whose bits it has.
        for (at, group) in groups.iter_mut().enumerate() {
            let place = pattern.slot(&group.mask);
            let Some(slot) = group.slots.get_mut(&place) else { continue };
            let Some(row) = slot.rows.iter().position(|row| row.number == number) else { continue };
            slot.rows.remove(row);
            slot.stabs = None;
            self.stale |= slot.lacks_index();
            if slot.rows.is_empty() {
                group.slots.remove(&place);
            }
            // The recorded best rank may be outdated: at worst, a lookup tries a group in vain.
            if group.slots.is_empty() {
                groups.remove(at);
            }
            return;
        }
    }

    /// Prepares for look-ups after insertions and removals.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.stale || !self.waiting.is_empty() {
            self.sort_in();
            self.index();
        }
    }

    /// Makes the missing indexes of slots.
    fn index(&mut self) {
        if std::mem::take(&mut self.stale) {
            let slots = self.groups.iter_mut().flatten().flat_map(|group| group.slots.values_mut());
            slots.filter(|slot| slot.lacks_index()).for_each(Slot::index);
        }
    }

    /// Adds the inserted entries to their groups.
    fn sort_in(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let groups = self.groups.get_or_insert_default();
        let mut changed = HashSet::new();
        for row in self.waiting.drain(..) {
            let Some(at) = place(groups, &row.pattern) else {
                groups.push(Group::new(row));
                continue;
            };
            let group = &mut groups[at];
            group.best = group.best.max(row.rank);
            let slot = row.pattern.slot(&group.mask);
            changed.insert((at, slot));
            group.slots.entry(slot).or_default().rows.push(row);
        }
        for (at, slot) in changed {
            // It is not there if the group has fewer bits by now.
            if let Some(slot) = groups[at].slots.get_mut(&slot) {
                slot.sort();
                self.stale |= slot.lacks_index();
            }
        }
        groups.sort_by_key(|group| Reverse(group.best));
    }

    /// The number of the best matching entry. All changes must have been settled.
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
            if let Some(slot) = group.slots.get(&P::slot_of(key, &group.mask))
                && let Some(row) = slot.find(key)
                && !beaten(best, row.rank)
            {
                best = Some(row);
            }
        }
        best.map(|row| row.number)
    }
}

/// The group for an entry; none if it should have one of its own.
fn place<P: Pattern>(groups: &mut [Group<P>], pattern: &P) -> Option<usize> {
    let own = groups.iter().position(|group| group.mask == *pattern.mask());
    if own.is_some() || groups.len() < FEW_MASKS {
        return own;
    }
    let with_room = groups.iter().enumerate().filter(|(_, group)| group.has_room(pattern));
    if let Some((at, _)) = with_room.max_by_key(|(_, group)| P::bits(&group.mask)) {
        return Some(at);
    }
    let bits = P::bits(pattern.mask());
    let mut similar: Vec<(u32, usize)> = (groups.iter().zip(0..))
        .map(|(group, at)| (P::bits(&P::common(&group.mask, pattern.mask())), at))
        .filter(|&(common, at)| 2 * common >= bits.min(P::bits(&groups[at].mask)))
        .collect();
    similar.sort_by_key(|&(common, _)| Reverse(common));
    similar.into_iter().take(TRIES).map(|(_, at)| at).find(|&at| groups[at].widen(pattern))
}

/// Keys that fit into one word.
#[derive(Clone, Debug)]
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

    fn slot(&self, mask: &u64) -> u64 {
        self.value & mask
    }

    #[inline]
    fn matches(&self, key: &u64) -> bool {
        key & self.mask == self.value
    }

    fn ranges(&self) -> &[Bounds] {
        &[]
    }

    fn first(_: &Stabs, _: &u64) -> usize {
        0
    }

    fn common(a: &u64, b: &u64) -> u64 {
        a & b
    }

    fn bits(mask: &u64) -> u32 {
        mask.count_ones()
    }
}

/// Keys of any width, and ranges.
#[derive(Clone, Debug)]
pub(super) struct ManyWords {
    pub(super) values: Box<[u64]>,
    /// Of a key that is matched by range, the prefix that both bounds have.
    pub(super) masks: Box<[u64]>,
    pub(super) ranges: Vec<Bounds>,
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

    fn slot(&self, masks: &Box<[u64]>) -> u64 {
        Self::slot_of(&self.values, masks)
    }

    fn matches(&self, key: &[u64]) -> bool {
        let equal = key
            .iter()
            .zip(self.values.iter().zip(&self.masks))
            .all(|(word, (value, mask))| word & mask == *value);
        equal && self.ranges.iter().all(|range| range.contains(key))
    }

    fn ranges(&self) -> &[Bounds] {
        &self.ranges
    }

    fn first(stabs: &Stabs, key: &[u64]) -> usize {
        stabs.first(key)
    }

    fn common(a: &Box<[u64]>, b: &Box<[u64]>) -> Box<[u64]> {
        a.iter().zip(b).map(|(a, b)| a & b).collect()
    }

    fn bits(masks: &Box<[u64]>) -> u32 {
        masks.iter().map(|mask| mask.count_ones()).sum()
    }
}
