//! Registers, laid out so that the elements of one index are contiguous.
//!
//! In-network aggregation spreads a vector over as many registers as it has elements and accesses
//! all of them at one index. Registers of one size therefore share a *bank*: a matrix with one row
//! per index and one column per register. A packet then accesses one row, a few cache lines, where
//! separate arrays would cost a cache line per value.

use std::ops::Range;

use crate::bits::mask;

/// A register: a column of a bank.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    pub(crate) bank: u32,
    /// First 32-bit word within the row.
    pub(crate) column: u32,
    /// Words per element: 1 up to 32 bits, otherwise two for each limb of 64 bits.
    pub(crate) words: u32,
    /// Bits per element.
    pub(crate) width: u32,
}

/// The shape of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterShape {
    /// Number of elements.
    pub(crate) size: u64,
    /// Bits per element.
    pub(crate) width: u32,
    /// Initial value of the elements.
    pub(crate) initial: u64,
}

/// Registers of one size.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    /// Number of rows.
    pub(crate) size: u64,
    /// Words per row.
    stride: usize,
    words: Vec<u32>,
}

/// All registers of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) registers: Vec<Register>,
    pub(crate) banks: Vec<Bank>,
    /// What elements hold at first, of registers where that is not zero.
    initial: Vec<(u32, u64)>,
}

/// Where registers are, for machine code. It is the same for all that have the same registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RegisterMap {
    /// By register.
    pub(crate) places: Vec<RegisterPlace>,
}

/// The place of a register's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterPlace {
    /// Number of the bank.
    pub(crate) bank: u32,
    /// Bytes from the start of the bank to the first element.
    pub(crate) offset: usize,
    /// Number of elements.
    pub(crate) size: u64,
    /// Bytes from an element to the next.
    pub(crate) stride: usize,
    /// Number of 32-bit words per element.
    pub(crate) words: u32,
    /// Words of a row from the element on.
    rest: u32,
}

impl RegisterMap {
    /// Number of 64-bit words per element.
    pub(crate) fn limbs(&self, register: u32) -> Option<u32> {
        self.places.get(register as usize).map(|place| place.words.div_ceil(2))
    }

    /// Whether `count` words from a register on are in one row.
    pub(crate) fn has_row(&self, register: u32, count: u32) -> bool {
        self.places.get(register as usize).is_some_and(|place| count <= place.rest)
    }
}

impl Registers {
    /// The address of each bank, for machine code. Banks are never moved once they are made.
    pub(crate) fn bases(&mut self) -> Box<[usize]> {
        self.banks.iter_mut().map(|bank| bank.words.as_mut_ptr().expose_provenance()).collect()
    }

    /// The places of all registers.
    pub(crate) fn map(&self) -> RegisterMap {
        let places = self.registers.iter().map(|register| {
            let bank = &self.banks[register.bank as usize];
            RegisterPlace {
                bank: register.bank,
                offset: 4 * register.column as usize,
                size: bank.size,
                stride: 4 * bank.stride,
                words: register.words,
                rest: bank.stride as u32 - register.column,
            }
        });
        RegisterMap { places: places.collect() }
    }

    /// Lays out registers, in order. They have no memory yet.
    pub(crate) fn new(shapes: &[RegisterShape]) -> Self {
        let mut all = Self::default();
        for &RegisterShape { size, width, .. } in shapes {
            let bank = all.banks.iter().position(|bank| bank.size == size).unwrap_or_else(|| {
                all.banks.push(Bank { size, stride: 0, words: Vec::new() });
                all.banks.len() - 1
            });
            let words = if width <= 32 { 1 } else { 2 * width.div_ceil(64) };
            let stride = &mut all.banks[bank].stride;
            all.registers.push(Register {
                bank: bank as u32,
                column: *stride as u32,
                words,
                width,
            });
            *stride += words as usize;
        }
        let initial = (0..).zip(shapes).map(|(register, shape)| (register, shape.initial));
        all.initial = initial.filter(|(_, value)| *value != 0).collect();
        all
    }

    /// Gives the registers memory, with what they hold at first.
    pub(crate) fn allocate(&mut self) {
        for bank in &mut self.banks {
            bank.words = vec![0; bank.size as usize * bank.stride];
        }
        for (register, value) in std::mem::take(&mut self.initial) {
            let Register { width, bank, .. } = self.registers[register as usize];
            let mut limbs = vec![0; width.div_ceil(64) as usize];
            limbs[0] = value & mask(width.min(64));
            for index in 0..self.banks[bank as usize].size {
                self.write(register, index, &limbs);
            }
        }
    }

    /// Copies those of these rows that `take` selects from the registers of the same program.
    pub(crate) fn copy_rows(&mut self, from: &Self, rows: &Range<u64>, take: impl Fn(u64) -> bool) {
        for (to, from) in self.banks.iter_mut().zip(&from.banks) {
            for row in (rows.start..rows.end.min(to.size)).filter(|row| take(*row)) {
                let words = row as usize * to.stride..(row as usize + 1) * to.stride;
                to.words[words.clone()].copy_from_slice(&from.words[words]);
            }
        }
    }

    /// Number of elements of a register.
    pub(crate) fn size(&self, register: u32) -> u64 {
        self.banks[self.registers[register as usize].bank as usize].size
    }

    /// `count` words from a register's column on, at an index; `None` out of range.
    #[inline]
    pub(crate) fn row(&mut self, register: u32, index: u64, count: usize) -> Option<&mut [u32]> {
        let register = &self.registers[register as usize];
        let bank = &mut self.banks[register.bank as usize];
        if index >= bank.size {
            return None;
        }
        let at = index as usize * bank.stride + register.column as usize;
        Some(&mut bank.words[at..at + count])
    }

    /// Copies an element to words of 64 bits. Returns false out of range.
    #[inline]
    pub(crate) fn read(&self, register: u32, index: u64, to: &mut [u64]) -> bool {
        let register = &self.registers[register as usize];
        let bank = &self.banks[register.bank as usize];
        if index >= bank.size {
            return false;
        }
        let at = index as usize * bank.stride + register.column as usize;
        let from = &bank.words[at..at + register.words as usize];
        if let [word] = from {
            to[0] = u64::from(*word);
        } else {
            for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
                *to = u64::from(from[0]) | u64::from(from[1]) << 32;
            }
        }
        true
    }

    /// Like [`Self::read`], but reads zero out of range.
    #[inline]
    pub(crate) fn read_cell(&self, register: u32, index: u64, to: &mut [u64]) {
        if !self.read(register, index, to) {
            let width = self.registers[register as usize].width;
            to[..width.div_ceil(64) as usize].fill(0);
        }
    }

    /// Sets an element. Returns false out of range.
    #[inline]
    pub(crate) fn write(&mut self, register: u32, index: u64, from: &[u64]) -> bool {
        let words = self.registers[register as usize].words as usize;
        let Some(to) = self.row(register, index, words) else { return false };
        if let [word] = to {
            *word = from[0] as u32;
        } else {
            for (to, from) in to.as_chunks_mut::<2>().0.iter_mut().zip(from) {
                *to = [*from as u32, (*from >> 32) as u32];
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(shapes: &[(u64, u32)]) -> Registers {
        let shape = |&(size, width)| RegisterShape { size, width, initial: 0 };
        let mut registers = Registers::new(&shapes.iter().map(shape).collect::<Vec<_>>());
        registers.allocate();
        registers
    }

    #[test]
    fn elements_start_with_the_initial_value_in_their_width() {
        let shape = |width| RegisterShape { size: 3, width, initial: 0x1_ff05 };
        let mut registers = Registers::new(&[shape(8), shape(64)]);
        registers.allocate();
        let mut element = [0];
        assert!(registers.read(0, 2, &mut element));
        assert_eq!(element, [5]);
        assert!(registers.read(1, 0, &mut element));
        assert_eq!(element, [0x1_ff05]);
    }

    #[test]
    fn registers_of_one_size_share_rows_without_overlap() {
        let mut registers = registers(&[(8, 32), (8, 64), (4, 1), (8, 130), (8, 7)]);
        assert_eq!(registers.banks.len(), 2);
        for index in 0..8 {
            assert!(registers.write(0, index, &[index + 1]));
            assert!(registers.write(1, index, &[!index]));
            assert!(registers.write(3, index, &[index, !index, 3]));
            assert!(registers.write(4, index, &[index * 3]));
        }
        for index in 0..8 {
            let mut element = [0; 3];
            assert!(registers.read(0, index, &mut element[..1]));
            assert_eq!(element[0], index + 1);
            assert!(registers.read(1, index, &mut element[..1]));
            assert_eq!(element[0], !index);
            assert!(registers.read(3, index, &mut element));
            assert_eq!(element, [index, !index, 3]);
            assert!(registers.read(4, index, &mut element[..1]));
            assert_eq!(element[0], index * 3);
        }
    }

    #[test]
    fn an_index_out_of_range_has_no_effect() {
        let mut registers = registers(&[(4, 32)]);
        assert!(!registers.write(0, 4, &[9]));
        let mut element = [77];
        assert!(!registers.read(0, u64::MAX, &mut element));
        assert_eq!(element, [77]);
        assert_eq!(registers.row(0, 3, 1), Some(&mut [0][..]));
    }
}
