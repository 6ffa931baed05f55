//! From a packet's keys to the number of the matching entry.

use tributary_p4::ir::MatchKind;

use super::hashed::{BEGINNING, Direct, Exact, Lpm};
use super::keys::{and, differing_bits};
use super::ranges::Bounds;
use super::scan::{ManyWords, OneWord, Scan};
use super::{KeyMatch, KeyShape, prefix_mask};
use crate::slot::Item;
use crate::value::Value;

/// A match structure, chosen by the kinds and widths of a table's keys.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    /// No keys: never matches.
    Nothing,
    /// Exact keys of few bits: an array.
    Direct(Direct),
    /// Exact keys.
    Exact(Exact),
    /// Exact keys and one lpm key.
    Lpm(Lpm),
    /// Values and masks in one word.
    Packed(Scan<OneWord>),
    /// Anything else.
    Words(Scan<ManyWords>),
}

/// Exact keys of up to this many bits are looked up in an array.
const DIRECT_BITS: u32 = 10;

impl Matcher {
    pub(super) fn new(keys: &[KeyShape]) -> Self {
        let bits: u32 = keys.iter().map(|key| key.width).sum();
        let any = |kind| keys.iter().any(|key| key.kind == kind);
        if keys.is_empty() {
            Self::Nothing
        } else if any(MatchKind::Range) {
            Self::Words(Scan::default())
        } else if any(MatchKind::Ternary) || any(MatchKind::Optional) {
            if bits <= 64 { Self::Packed(Scan::default()) } else { Self::Words(Scan::default()) }
        } else if any(MatchKind::Lpm) {
            Self::Lpm(Lpm::new(beginning(keys)))
        } else if bits <= DIRECT_BITS {
            Self::Direct(Direct::new(bits))
        } else {
            Self::Exact(Exact::default())
        }
    }

    /// Adds an entry with valid matches.
    pub(super) fn insert(
        &mut self,
        keys: &[KeyShape],
        matches: &[KeyMatch],
        priority: i32,
        number: u32,
    ) {
        let words = Words::new(keys);
        let (values, masks) = words.of_entry(keys, matches);
        match self {
            Self::Nothing => {}
            Self::Direct(direct) => direct.insert(values[0], number),
            Self::Exact(exact) => exact.insert(&values, number),
            Self::Lpm(lpm) => lpm.insert(prefix_len(matches), &masks, &values, number),
            Self::Packed(scan) => {
                scan.insert(OneWord { value: values[0], mask: masks[0] }, priority, number);
            }
            Self::Words(scan) => {
                let ranges = words.ranges(keys, matches);
                let (values, masks) = (values.into(), masks.into());
                scan.insert(ManyWords { values, masks, ranges }, priority, number);
            }
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, keys: &[KeyShape], matches: &[KeyMatch], number: u32) {
        let (values, masks) = Words::new(keys).of_entry(keys, matches);
        match self {
            Self::Nothing => {}
            Self::Direct(direct) => direct.remove(values[0]),
            Self::Exact(exact) => exact.remove(&values),
            Self::Lpm(lpm) => lpm.remove(prefix_len(matches), &values),
            Self::Packed(scan) => {
                scan.remove(&OneWord { value: values[0], mask: masks[0] }, number);
            }
            Self::Words(scan) => {
                let (values, masks) = (values.into(), masks.into());
                scan.remove(&ManyWords { values, masks, ranges: Vec::new() }, number);
            }
        }
    }

    /// The number of the matching entry. `scratch` has [`Words::count`] words.
    #[inline]
    pub(super) fn find(
        &mut self,
        keys: &[Item],
        state: &[u64],
        scratch: &mut [u64],
    ) -> Option<u32> {
        match self {
            Self::Nothing => None,
            Self::Direct(direct) => direct.find(pack(keys, state)),
            Self::Packed(scan) => {
                scan.settle();
                scan.find(&pack(keys, state))
            }
            Self::Exact(exact) if scratch.len() == 1 => exact.find_one_again(pack(keys, state)),
            Self::Lpm(lpm) if scratch.len() == 1 => lpm.find_one(pack(keys, state)),
            Self::Exact(exact) => exact.find_again(gather(keys, state, scratch)),
            Self::Lpm(lpm) => lpm.find(gather(keys, state, scratch)),
            Self::Words(scan) => {
                scan.settle();
                scan.find(gather(keys, state, scratch))
            }
        }
    }
}

/// All keys in one word, the first in the highest bits.
#[inline]
fn pack(keys: &[Item], state: &[u64]) -> u64 {
    // A shift by 64 happens only with a single key, where it would shift out zero.
    keys.iter().fold(0, |all, key| all.wrapping_shl(key.width) | state[key.slot as usize])
}

/// All words of all keys.
fn gather<'a>(keys: &[Item], state: &[u64], to: &'a mut [u64]) -> &'a mut [u64] {
    let mut at = 0;
    for key in keys {
        let limbs = key.width.div_ceil(64) as usize;
        let slot = key.slot as usize;
        to[at..at + limbs].copy_from_slice(&state[slot..slot + limbs]);
        at += limbs;
    }
    to
}

/// How keys are stored in words: all in one if they fit and none is a range, otherwise one after
/// the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    packed: bool,
    count: usize,
}

impl Words {
    pub(super) fn new(keys: &[KeyShape]) -> Self {
        let bits: u32 = keys.iter().map(|key| key.width).sum();
        if bits <= 64 && keys.iter().all(|key| key.kind != MatchKind::Range) {
            Self { packed: true, count: 1 }
        } else {
            let count = keys.iter().map(|key| key.width.div_ceil(64) as usize).sum();
            Self { packed: false, count }
        }
    }

    /// All keys are in one word.
    pub(super) fn is_one(self) -> bool {
        self.packed
    }

    /// Number of words.
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// The words of an entry: values, and masks of the bits that must be equal.
    fn of_entry(self, keys: &[KeyShape], matches: &[KeyMatch]) -> (Vec<u64>, Vec<u64>) {
        let mut values = Vec::with_capacity(self.count);
        let mut masks = Vec::with_capacity(self.count);
        let (mut packed_value, mut packed_mask) = (0u64, 0u64);
        for (key, found) in keys.iter().zip(matches) {
            let (value, mask) = match found {
                KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => {
                    (value.clone(), Value::ones(key.width))
                }
                KeyMatch::Lpm { value, prefix_len } => {
                    (value.clone(), prefix_mask(key.width, *prefix_len))
                }
                KeyMatch::Ternary { value, mask } => (value.clone(), mask.clone()),
                KeyMatch::Range { low, high } => {
                    let mask = prefix_mask(key.width, key.width - differing_bits(low, high));
                    (and(low, &mask), mask)
                }
                KeyMatch::Optional(None) => (Value::zero(), Value::zero()),
            };
            if self.packed {
                packed_value = packed_value.wrapping_shl(key.width) | value.limb(0);
                packed_mask = packed_mask.wrapping_shl(key.width) | mask.limb(0);
            } else {
                let limbs = key.width.div_ceil(64) as usize;
                values.extend(value.limbs(limbs));
                masks.extend(mask.limbs(limbs));
            }
        }
        if self.packed { (vec![packed_value], vec![packed_mask]) } else { (values, masks) }
    }

    /// The ranges of an entry.
    fn ranges(self, keys: &[KeyShape], matches: &[KeyMatch]) -> Vec<Bounds> {
        let mut at = 0;
        let mut ranges = Vec::new();
        for (key, found) in keys.iter().zip(matches) {
            let limbs = key.width.div_ceil(64) as usize;
            if let KeyMatch::Range { low, high } = found {
                ranges.push(Bounds {
                    first: at,
                    low: low.limbs(limbs).collect(),
                    high: high.limbs(limbs).collect(),
                });
            }
            at += limbs as u32;
        }
        ranges
    }
}

/// The prefix bits that classify entries in one word.
fn beginning(keys: &[KeyShape]) -> u64 {
    let of = |key: &KeyShape| match key.kind {
        MatchKind::Lpm => {
            KeyMatch::Lpm { value: Value::zero(), prefix_len: BEGINNING.min(key.width) }
        }
        _ => KeyMatch::Exact(Value::zero()),
    };
    packed(keys, &keys.iter().map(of).collect::<Vec<_>>()).1
}

/// Value and mask of an entry whose keys fit into one word.
pub(super) fn packed(keys: &[KeyShape], matches: &[KeyMatch]) -> (u64, u64) {
    let (values, masks) = Words::new(keys).of_entry(keys, matches);
    (values[0], masks[0])
}

/// Length of the prefix of an entry's lpm key; 0 without one.
pub(super) fn prefix_len(matches: &[KeyMatch]) -> u32 {
    matches
        .iter()
        .find_map(|found| match found {
            KeyMatch::Lpm { prefix_len, .. } => Some(*prefix_len),
            _ => None,
        })
        .unwrap_or(0)
}
