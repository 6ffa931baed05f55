//! Exact and longest-prefix matching with hash maps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// A fast hash of words: multiply and fold. Entries come from the control plane, so packets cannot
/// provoke collisions.
#[derive(Clone, Copy, Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3)
            * u128::from(0x9e37_79b9_7f4a_7c15u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

type Map<K> = HashMap<K, u32, BuildHasherDefault<Mix>>;

/// No entry.
const NONE: u32 = u32::MAX;

/// An array of entry numbers by key.
#[derive(Clone, Debug)]
pub(super) struct Direct(Box<[u32]>);

impl Direct {
    pub(super) fn new(bits: u32) -> Self {
        Self(vec![NONE; 1 << bits].into())
    }

    pub(super) fn insert(&mut self, key: u64, number: u32) {
        self.0[key as usize] = number;
    }

    pub(super) fn remove(&mut self, key: u64) {
        self.0[key as usize] = NONE;
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.0.get(key as usize).copied().filter(|&number| number != NONE)
    }
}

/// Entry numbers by key; only one of the maps is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Exact {
    one: Map<u64>,
    two: Map<[u64; 2]>,
    many: Map<Box<[u64]>>,
    /// The last key that a packet had, and what was found: the next packet often has the same. One word or
    /// several, as the table has. None after a change.
    recent_one: Option<(u64, Option<u32>)>,
    recent: Vec<u64>,
    recent_number: Option<u32>,
}

impl Exact {
    pub(super) fn insert(&mut self, key: &[u64], number: u32) {
        self.forget();
        match key {
            [word] => self.one.insert(*word, number),
            &[first, second] => self.two.insert([first, second], number),
            words => self.many.insert(words.into(), number),
        };
    }

    pub(super) fn remove(&mut self, key: &[u64]) {
        self.forget();
        match key {
            [word] => self.one.remove(word),
            &[first, second] => self.two.remove(&[first, second]),
            words => self.many.remove(words),
        };
    }

    #[inline]
    pub(super) fn find_one(&self, key: u64) -> Option<u32> {
        self.one.get(&key).copied()
    }

    /// [`find_one`](Self::find_one) for a packet.
    #[inline]
    pub(super) fn find_one_again(&mut self, key: u64) -> Option<u32> {
        match self.recent_one {
            Some((same, number)) if same == key => number,
            _ => {
                let number = self.find_one(key);
                self.recent_one = Some((key, number));
                number
            }
        }
    }

    fn forget(&mut self) {
        self.recent_one = None;
        self.recent.clear();
    }

    /// [`find`](Self::find) for a packet. Keys are never empty.
    #[inline]
    pub(super) fn find_again(&mut self, key: &[u64]) -> Option<u32> {
        // Word by word: keys are too short for a call.
        let is_same = self.recent.len() == key.len() && self.recent.iter().eq(key);
        if !is_same {
            self.recent_number = self.find(key);
            self.recent.clear();
            self.recent.extend_from_slice(key);
        }
        self.recent_number
    }

    #[inline]
    pub(super) fn find(&self, key: &[u64]) -> Option<u32> {
        match key {
            &[first, second] => self.two.get(&[first, second]).copied(),
            words => self.many.get(words).copied(),
        }
    }

    fn is_empty(&self) -> bool {
        self.one.is_empty() && self.two.is_empty() && self.many.is_empty()
    }
}

/// Entries by prefix length, longest first.
///
/// For keys of one word, the lengths that exist under each beginning of [`BEGINNING`] bits are also
/// known, so a lookup tries only those: a few, although a routing table has 30.
#[derive(Clone, Debug, Default)]
pub(super) struct Lpm {
    lengths: Vec<Length>,
    beginnings: Beginnings,
}

/// Prefix bits that classify entries.
pub(super) const BEGINNING: u32 = 16;

/// The entries of one prefix length.
#[derive(Clone, Debug)]
struct Length {
    prefix_len: u32,
    masks: Box<[u64]>,
    entries: Exact,
}

/// Prefix lengths of up to 64 bits by the beginnings of keys.
#[derive(Clone, Debug, Default)]
struct Beginnings {
    /// Mask of exact keys, and of the first [`BEGINNING`] bits of the prefix.
    mask: u64,
    /// Bit `n - 1` stands for prefixes of `n` bits. Only those longer than the beginning.
    lengths: HashMap<u64, u64, BuildHasherDefault<Mix>>,
    /// Number of entries by beginning and length.
    counts: HashMap<(u64, u32), u32, BuildHasherDefault<Mix>>,
    /// Index of each length in the list of lengths.
    places: Vec<u8>,
    /// Number of lengths that exceed the beginning; the others follow them.
    long: usize,
}

impl Lpm {
    /// An empty structure. `beginning` is the mask of a key's beginning, for keys of one word.
    pub(super) fn new(beginning: u64) -> Self {
        let beginnings = Beginnings { mask: beginning, ..Beginnings::default() };
        Self { lengths: Vec::new(), beginnings }
    }

    pub(super) fn insert(&mut self, prefix_len: u32, masks: &[u64], key: &[u64], number: u32) {
        let at = self.lengths.partition_point(|length| length.prefix_len > prefix_len);
        if self.lengths.get(at).is_none_or(|length| length.prefix_len != prefix_len) {
            let new = Length { prefix_len, masks: masks.into(), entries: Exact::default() };
            self.lengths.insert(at, new);
            self.beginnings.place(&self.lengths);
        }
        self.lengths[at].entries.insert(key, number);
        if let &[key] = key {
            self.beginnings.insert(prefix_len, key);
        }
    }

    pub(super) fn remove(&mut self, prefix_len: u32, key: &[u64]) {
        if let Some(at) = self.lengths.iter().position(|length| length.prefix_len == prefix_len) {
            self.lengths[at].entries.remove(key);
            if self.lengths[at].entries.is_empty() {
                self.lengths.remove(at);
                self.beginnings.place(&self.lengths);
            }
            if let &[key] = key {
                self.beginnings.remove(prefix_len, key);
            }
        }
    }

    #[inline]
    pub(super) fn find_one(&self, key: u64) -> Option<u32> {
        let beginnings = &self.beginnings;
        if beginnings.long > 0 {
            let found = beginnings.lengths.get(&(key & beginnings.mask));
            let mut left = found.copied().unwrap_or(0);
            while left != 0 {
                let longest = 63 - left.leading_zeros();
                let length = &self.lengths[usize::from(beginnings.places[longest as usize])];
                if let Some(number) = length.entries.find_one(key & length.masks[0]) {
                    return Some(number);
                }
                left ^= 1 << longest;
            }
        }
        let short = &self.lengths[beginnings.long..];
        short.iter().find_map(|length| length.entries.find_one(key & length.masks[0]))
    }

    /// Longest first, so that each mask has a subset of the previous one's bits and the key can be
    /// masked in place.
    pub(super) fn find(&self, key: &mut [u64]) -> Option<u32> {
        self.lengths.iter().find_map(|length| {
            key.iter_mut().zip(&length.masks).for_each(|(word, mask)| *word &= mask);
            length.entries.find(key)
        })
    }
}

impl Beginnings {
    /// Updates the indices of lengths.
    fn place(&mut self, lengths: &[Length]) {
        self.places = vec![0; 64];
        for (place, length) in (0..).zip(lengths) {
            if let 1..=64 = length.prefix_len {
                self.places[length.prefix_len as usize - 1] = place;
            }
        }
        self.long = lengths.partition_point(|length| length.prefix_len > BEGINNING);
    }

    fn insert(&mut self, prefix_len: u32, key: u64) {
        if prefix_len > BEGINNING {
            let beginning = key & self.mask;
            *self.counts.entry((beginning, prefix_len)).or_default() += 1;
            *self.lengths.entry(beginning).or_default() |= 1 << (prefix_len - 1);
        }
    }

    fn remove(&mut self, prefix_len: u32, key: u64) {
        let beginning = key & self.mask;
        let Entry::Occupied(mut count) = self.counts.entry((beginning, prefix_len)) else { return };
        *count.get_mut() -= 1;
        if *count.get() > 0 {
            return;
        }
        count.remove();
        if let Entry::Occupied(mut lengths) = self.lengths.entry(beginning) {
            *lengths.get_mut() &= !(1 << (prefix_len - 1));
            if *lengths.get() == 0 {
                lengths.remove();
            }
        }
    }
}
