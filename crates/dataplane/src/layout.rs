//! The wire layout of fields, compiled into few wide moves.

use crate::bits::{get_bits, load_be, mask, put_bits, store_be};
use crate::slot::{Item, Slot};

/// Consecutive bit fields, most significant first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    parts: Vec<Part>,
    members: Vec<Member>,
    bits: u32,
}

/// A piece of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// `count` byte-aligned fields of 32 bits in neighbouring slots: the payload of aggregation.
    Run32 {
        byte: u32,
        slot: Slot,
        count: u32,
    },
    /// The same with 8, 16 or 64 bits.
    Run8 {
        byte: u32,
        slot: Slot,
        count: u32,
    },
    Run16 {
        byte: u32,
        slot: Slot,
        count: u32,
    },
    Run64 {
        byte: u32,
        slot: Slot,
        count: u32,
    },
    /// Fields that together fill up to eight whole bytes.
    Chunk {
        byte: u32,
        bytes: u32,
        first: u32,
        count: u32,
    },
    /// Anything else.
    Bits {
        bit: u32,
        width: u32,
        slot: Slot,
    },
}

/// A field within a [`Part::Chunk`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) slot: Slot,
    pub(crate) shift: u8,
    pub(crate) width: u8,
}

/// Shorter runs are equally fast as chunks.
const SHORTEST_RUN: usize = 4;

impl Layout {
    /// Compiles a sequence of fields.
    pub(crate) fn new(items: &[Item]) -> Self {
        let mut layout = Self::default();
        let mut rest = items;
        while let Some(first) = rest.first() {
            let taken = layout.run(rest).or_else(|| layout.chunk(rest)).unwrap_or_else(|| {
                layout.parts.push(Part::Bits {
                    bit: layout.bits,
                    width: first.width,
                    slot: first.slot,
                });
                1
            });
            layout.bits += rest[..taken].iter().map(|item| item.width).sum::<u32>();
            rest = &rest[taken..];
        }
        layout
    }

    /// Size in bits.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Size in bytes, rounded up.
    pub(crate) fn bytes(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// The pieces, in order.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The fields of a chunk.
    pub(crate) fn members(&self, part: &Part) -> &[Member] {
        match *part {
            Part::Chunk { first, count, .. } => &self.members[first as usize..][..count as usize],
            _ => &[],
        }
    }

    /// The first slot and number of slots of each field.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Slot, u32)> {
        let parts = self.parts.iter().filter_map(|part| match *part {
            Part::Run8 { slot, count, .. }
            | Part::Run16 { slot, count, .. }
            | Part::Run32 { slot, count, .. }
            | Part::Run64 { slot, count, .. } => Some((slot, count)),
            Part::Bits { slot, width, .. } => Some((slot, width.div_ceil(64))),
            Part::Chunk { .. } => None,
        });
        parts.chain(self.members.iter().map(|member| (member.slot, 1)))
    }

    fn run(&mut self, items: &[Item]) -> Option<usize> {
        let Item { slot, width } = items[0];
        let count = items
            .iter()
            .zip(slot..)
            .take_while(|&(item, slot)| item.slot == slot && item.width == width)
            .count();
        if count < SHORTEST_RUN || !self.bits.is_multiple_of(8) {
            return None;
        }
        let (byte, length) = (self.bits / 8, count as u32);
        self.parts.push(match width {
            8 => Part::Run8 { byte, slot, count: length },
            16 => Part::Run16 { byte, slot, count: length },
            32 => Part::Run32 { byte, slot, count: length },
            64 => Part::Run64 { byte, slot, count: length },
            _ => return None,
        });
        Some(count)
    }

    fn chunk(&mut self, items: &[Item]) -> Option<usize> {
        if !self.bits.is_multiple_of(8) {
            return None;
        }
        let mut bits = 0;
        let mut best = None;
        for (i, item) in items.iter().enumerate() {
            bits += item.width;
            if bits > 64 {
                break;
            }
            // A list may end within a byte: then the chunk is padded with zeros.
            if bits % 8 == 0 || i + 1 == items.len() {
                best = Some((i + 1, bits));
            }
        }
        let (count, bits) = best?;
        let bytes = bits.div_ceil(8);
        self.parts.push(Part::Chunk {
            byte: self.bits / 8,
            bytes,
            first: self.members.len() as u32,
            count: count as u32,
        });
        let mut below = bytes * 8;
        for item in &items[..count] {
            below -= item.width;
            self.members.push(Member {
                slot: item.slot,
                shift: below as u8,
                width: item.width as u8,
            });
        }
        Some(count)
    }

    /// Reads all fields from `bytes`, which holds at least [`Self::bytes`].
    #[inline]
    pub(crate) fn extract(&self, bytes: &[u8], state: &mut [u64]) {
        for part in &self.parts {
            match *part {
                Part::Run32 { byte, slot, count } => {
                    let (from, to) = run(bytes, state, byte, slot, count, 4);
                    for (value, bytes) in to.iter_mut().zip(from.as_chunks::<4>().0) {
                        *value = u64::from(u32::from_be_bytes(*bytes));
                    }
                }
                Part::Run8 { byte, slot, count } => {
                    let (from, to) = run(bytes, state, byte, slot, count, 1);
                    for (value, byte) in to.iter_mut().zip(from) {
                        *value = u64::from(*byte);
                    }
                }
                Part::Run16 { byte, slot, count } => {
                    let (from, to) = run(bytes, state, byte, slot, count, 2);
                    for (value, bytes) in to.iter_mut().zip(from.as_chunks::<2>().0) {
                        *value = u64::from(u16::from_be_bytes(*bytes));
                    }
                }
                Part::Run64 { byte, slot, count } => {
                    let (from, to) = run(bytes, state, byte, slot, count, 8);
                    for (value, bytes) in to.iter_mut().zip(from.as_chunks::<8>().0) {
                        *value = u64::from_be_bytes(*bytes);
                    }
                }
                Part::Chunk { byte, bytes: length, first, count } => {
                    let chunk = load_be(&bytes[byte as usize..(byte + length) as usize]);
                    for member in &self.members[first as usize..(first + count) as usize] {
                        state[member.slot as usize] =
                            chunk >> member.shift & mask(u32::from(member.width));
                    }
                }
                Part::Bits { bit, width, slot } => {
                    let limbs = width.div_ceil(64) as usize;
                    let to = &mut state[slot as usize..slot as usize + limbs];
                    get_bits(bytes, bit as usize, width as usize, to);
                }
            }
        }
    }

    /// Writes all fields to `bytes`, which has [`Self::bytes`] zeros.
    #[inline]
    pub(crate) fn emit(&self, state: &[u64], bytes: &mut [u8]) {
        for part in &self.parts {
            match *part {
                Part::Run32 { byte, slot, count } => {
                    let (to, from) = run_mut(bytes, state, byte, slot, count, 4);
                    for (value, bytes) in from.iter().zip(to.as_chunks_mut::<4>().0) {
                        *bytes = (*value as u32).to_be_bytes();
                    }
                }
                Part::Run8 { byte, slot, count } => {
                    let (to, from) = run_mut(bytes, state, byte, slot, count, 1);
                    for (value, byte) in from.iter().zip(to) {
                        *byte = *value as u8;
                    }
                }
                Part::Run16 { byte, slot, count } => {
                    let (to, from) = run_mut(bytes, state, byte, slot, count, 2);
                    for (value, bytes) in from.iter().zip(to.as_chunks_mut::<2>().0) {
                        *bytes = (*value as u16).to_be_bytes();
                    }
                }
                Part::Run64 { byte, slot, count } => {
                    let (to, from) = run_mut(bytes, state, byte, slot, count, 8);
                    for (value, bytes) in from.iter().zip(to.as_chunks_mut::<8>().0) {
                        *bytes = value.to_be_bytes();
                    }
                }
                Part::Chunk { byte, bytes: length, first, count } => {
                    let chunk = self.members[first as usize..(first + count) as usize]
                        .iter()
                        .fold(0, |chunk, member| {
                            chunk | state[member.slot as usize] << member.shift
                        });
                    store_be(&mut bytes[byte as usize..(byte + length) as usize], chunk);
                }
                Part::Bits { bit, width, slot } => {
                    put_bits(bytes, bit as usize, width as usize, &state[slot as usize..]);
                }
            }
        }
    }
}

fn run<'a, 's>(
    bytes: &'a [u8],
    state: &'s mut [u64],
    byte: u32,
    slot: Slot,
    count: u32,
    size: u32,
) -> (&'a [u8], &'s mut [u64]) {
    (
        &bytes[byte as usize..(byte + count * size) as usize],
        &mut state[slot as usize..(slot + count) as usize],
    )
}

fn run_mut<'a, 's>(
    bytes: &'a mut [u8],
    state: &'s [u64],
    byte: u32,
    slot: Slot,
    count: u32,
    size: u32,
) -> (&'a mut [u8], &'s [u64]) {
    (
        &mut bytes[byte as usize..(byte + count * size) as usize],
        &state[slot as usize..(slot + count) as usize],
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Widths that produce every kind of part: runs, chunks, odd offsets, wide fields.
    fn widths() -> impl Strategy<Value = Vec<u32>> {
        let piece = prop_oneof![
            proptest::collection::vec(1u32..=64, 1..6),
            proptest::collection::vec(65u32..=200, 1..2),
            (prop_oneof![Just(8u32), Just(16), Just(32), Just(64)], 1usize..12)
                .prop_map(|(width, count)| vec![width; count]),
        ];
        proptest::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
    }

    fn items(widths: &[u32]) -> (Vec<Item>, usize) {
        let mut slot = 0;
        let items = widths
            .iter()
            .map(|&width| {
                let item = Item { slot, width };
                slot += width.div_ceil(64);
                item
            })
            .collect();
        (items, slot as usize)
    }

    proptest! {
        #[test]
        fn extraction_agrees_with_bit_by_bit_reading(widths in widths(), seed: u64) {
            let (items, slots) = items(&widths);
            let layout = Layout::new(&items);
            let bits: u32 = widths.iter().sum();
            prop_assert_eq!(layout.bits(), bits);
            let bytes: Vec<u8> = (0..layout.bytes() as u64)
                .map(|i| (seed.wrapping_mul(i * 2 + 1).wrapping_add(i) >> 17) as u8)
                .collect();
            let mut state = vec![u64::MAX; slots];
            layout.extract(&bytes, &mut state);
            let mut at = 0;
            for item in &items {
                let mut limbs = vec![0; item.width.div_ceil(64) as usize];
                get_bits(&bytes, at, item.width as usize, &mut limbs);
                prop_assert_eq!(&state[item.slot as usize..][..limbs.len()], &limbs[..]);
                at += item.width as usize;
            }
            // Emitting restores the bytes, with zero padding.
            let mut out = vec![0; layout.bytes()];
            layout.emit(&state, &mut out);
            let mut expected = bytes;
            if !bits.is_multiple_of(8) {
                *expected.last_mut().unwrap() &= !(mask(8 - bits % 8) as u8);
            }
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_block_of_values_is_one_run_and_ipv4_three_chunks() {
        let (values, _) = items(&[32; 64]);
        assert_eq!(Layout::new(&values).parts.len(), 1);
        let (ipv4, _) = items(&[4, 4, 6, 2, 16, 16, 1, 1, 1, 13, 8, 8, 16, 32, 32]);
        assert_eq!(Layout::new(&ipv4).parts.len(), 3);
    }
}
