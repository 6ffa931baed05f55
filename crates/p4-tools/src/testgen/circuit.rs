//! Values as circuits of the test's inputs.
//!
//! A value is a [`Word`] of bits, least significant first. A bit is a [`Lit`]: an input, the
//! conjunction of two bits, or the complement of one of them. Equal circuits are the same bit, and
//! what is constant is folded. Each bit also has the value that it takes for the current inputs, so
//! that one execution yields both: what happens, and on what it depends.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A bit: the number of its gate, times two, plus one for the complement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Lit(u32);

pub(crate) const FALSE: Lit = Lit(0);
pub(crate) const TRUE: Lit = Lit(1);

impl Lit {
    pub(crate) fn gate(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// The value of a gate.
    pub(crate) fn of_gate(gate: usize) -> Self {
        Self((gate << 1) as u32)
    }

    pub(crate) fn is_complement(self) -> bool {
        self.0 & 1 == 1
    }

    pub(crate) fn is_constant(self) -> bool {
        self.0 < 2
    }
}

impl std::ops::Not for Lit {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl From<bool> for Lit {
    fn from(bit: bool) -> Self {
        Self(bit.into())
    }
}

/// The bits of a value, least significant first.
pub(crate) type Word = Vec<Lit>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    /// An input of the test, or the constant (gate 0).
    Input,
    And(Lit, Lit),
}

/// All gates of one execution.
#[derive(Debug)]
pub(crate) struct Circuit {
    gates: Vec<Gate>,
    values: Vec<bool>,
    known: HashMap<(Lit, Lit), Lit, BuildHasherDefault<Scramble>>,
}

/// Hashes pairs of bits. Their numbers are dense, and no input of others.
#[derive(Default)]
struct Scramble(u64);

impl Hasher for Scramble {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(26) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

impl Circuit {
    pub(crate) fn new() -> Self {
        Self { gates: vec![Gate::Input], values: vec![false], known: HashMap::default() }
    }

    /// Forgets which circuits are equal: no more are built.
    pub(crate) fn seal(&mut self) {
        self.known = HashMap::default();
    }

    pub(crate) fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// A new input with its current value.
    pub(crate) fn input(&mut self, value: bool) -> Lit {
        self.gate(Gate::Input, value)
    }

    fn gate(&mut self, gate: Gate, value: bool) -> Lit {
        let number = u32::try_from(self.gates.len()).expect("fewer gates than bits of memory");
        self.gates.push(gate);
        self.values.push(value);
        Lit(number << 1)
    }

    /// The current value.
    pub(crate) fn value(&self, lit: Lit) -> bool {
        self.values[lit.gate()] ^ lit.is_complement()
    }

    /// The current value of a gate.
    pub(crate) fn gate_value(&self, gate: usize) -> bool {
        self.values[gate]
    }

    pub(crate) fn values(&self, word: &[Lit]) -> Vec<bool> {
        word.iter().map(|&lit| self.value(lit)).collect()
    }

    pub(crate) fn and(&mut self, a: Lit, b: Lit) -> Lit {
        let (a, b) = (a.min(b), a.max(b));
        if a == FALSE || a == !b {
            return FALSE;
        }
        if a == TRUE || a == b {
            return b;
        }
        if let Some(&known) = self.known.get(&(a, b)) {
            return known;
        }
        let value = self.value(a) && self.value(b);
        let new = self.gate(Gate::And(a, b), value);
        self.known.insert((a, b), new);
        new
    }

    pub(crate) fn or(&mut self, a: Lit, b: Lit) -> Lit {
        !self.and(!a, !b)
    }

    pub(crate) fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let (left, right) = (self.and(a, !b), self.and(!a, b));
        self.or(left, right)
    }

    pub(crate) fn choose(&mut self, condition: Lit, then: Lit, otherwise: Lit) -> Lit {
        if then == otherwise {
            return then;
        }
        let (then, otherwise) = (self.and(condition, then), self.and(!condition, otherwise));
        self.or(then, otherwise)
    }

    pub(crate) fn mux(&mut self, condition: Lit, then: &[Lit], otherwise: &[Lit]) -> Word {
        then.iter().zip(otherwise).map(|(&a, &b)| self.choose(condition, a, b)).collect()
    }

    pub(crate) fn zip(
        &mut self,
        a: &[Lit],
        b: &[Lit],
        f: impl Fn(&mut Self, Lit, Lit) -> Lit,
    ) -> Word {
        a.iter().zip(b).map(|(&a, &b)| f(self, a, b)).collect()
    }

    /// The sum modulo the width, and the carry.
    pub(crate) fn add(&mut self, a: &[Lit], b: &[Lit], mut carry: Lit) -> (Word, Lit) {
        let sum = a.iter().zip(b).map(|(&a, &b)| {
            let half = self.xor(a, b);
            let sum = self.xor(half, carry);
            let (both, passed) = (self.and(a, b), self.and(half, carry));
            carry = self.or(both, passed);
            sum
        });
        let sum = sum.collect();
        (sum, carry)
    }

    /// The difference modulo the width, and whether `a >= b`.
    pub(crate) fn sub(&mut self, a: &[Lit], b: &[Lit]) -> (Word, Lit) {
        let b: Word = b.iter().map(|&bit| !bit).collect();
        self.add(a, &b, TRUE)
    }

    pub(crate) fn mul(&mut self, a: &[Lit], b: &[Lit]) -> Word {
        let width = a.len();
        let mut sum = vec![FALSE; width];
        for (shift, &bit) in b.iter().enumerate() {
            if bit == FALSE {
                continue;
            }
            let row: Word = (0..width)
                .map(|at| if at < shift { FALSE } else { self.and(a[at - shift], bit) })
                .collect();
            sum = self.add(&sum, &row, FALSE).0;
        }
        sum
    }

    /// Quotient and remainder of unsigned values; of a division by zero all ones and `a`.
    pub(crate) fn divide(&mut self, a: &[Lit], b: &[Lit]) -> (Word, Word) {
        let width = a.len();
        let divisor: Word = b.iter().copied().chain([FALSE]).collect();
        let mut rest = vec![FALSE; width + 1];
        let mut quotient = vec![FALSE; width];
        for at in (0..width).rev() {
            rest.rotate_right(1);
            rest[0] = a[at];
            let (difference, enough) = self.sub(&rest, &divisor);
            quotient[at] = enough;
            rest = self.mux(enough, &difference, &rest);
        }
        rest.truncate(width);
        (quotient, rest)
    }

    pub(crate) fn all(&mut self, bits: &[Lit]) -> Lit {
        bits.iter().fold(TRUE, |all, &bit| self.and(all, bit))
    }

    pub(crate) fn any(&mut self, bits: &[Lit]) -> Lit {
        bits.iter().fold(FALSE, |any, &bit| self.or(any, bit))
    }

    pub(crate) fn equal(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let different = self.zip(a, b, Self::xor);
        !self.any(&different)
    }

    /// Whether `a < b`.
    pub(crate) fn less(&mut self, a: &[Lit], b: &[Lit], signed: bool) -> Lit {
        let flip = |word: &[Lit]| {
            let mut word = word.to_vec();
            if let Some(sign) = word.last_mut().filter(|_| signed) {
                *sign = !*sign;
            }
            word
        };
        let (a, b) = (flip(a), flip(b));
        !self.sub(&a, &b).1
    }

    /// Shifts to the left, or to the right; `fill` enters.
    pub(crate) fn shift(&mut self, a: &[Lit], by: &[Lit], left: bool, fill: Lit) -> Word {
        let width = a.len();
        let mut word = a.to_vec();
        for (power, &bit) in by.iter().enumerate() {
            let distance = if power < 31 { 1_usize << power } else { usize::MAX };
            let moved: Word = (0..width)
                .map(|at| {
                    let from = if left {
                        at.checked_sub(distance)
                    } else {
                        at.checked_add(distance).filter(|&from| from < width)
                    };
                    from.map_or(fill, |from| word[from])
                })
                .collect();
            word = self.mux(bit, &moved, &word);
        }
        word
    }
}

/// A word of a constant's bits.
pub(crate) fn constant(bits: &[bool]) -> Word {
    bits.iter().map(|&bit| bit.into()).collect()
}

/// A word of a number.
pub(crate) fn of_number(number: u64, width: usize) -> Word {
    constant(&to_bits(number, width))
}

/// The bits of limbs of 64 bits.
pub(crate) fn limb_bits(limbs: &[u64], width: usize) -> Vec<bool> {
    (0..width).map(|at| limbs.get(at / 64).is_some_and(|limb| limb >> (at % 64) & 1 == 1)).collect()
}

pub(crate) fn to_bits(number: u64, width: usize) -> Vec<bool> {
    limb_bits(&[number], width)
}

/// The number of these bits, if it fits.
pub(crate) fn number(bits: &[bool]) -> Option<u64> {
    let mut number = 0;
    for (at, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        number |= 1_u64.checked_shl(u32::try_from(at).ok()?)?;
    }
    Some(number)
}

/// Extends or shortens a word.
pub(crate) fn resize(word: &[Lit], width: usize, signed: bool) -> Word {
    let fill = if signed { word.last().copied().unwrap_or(FALSE) } else { FALSE };
    let mut word = word.to_vec();
    word.resize(width, fill);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation on all pairs of four-bit values, first with inputs, then with constants:
    /// folding must not change a value.
    #[test]
    fn operations_compute_what_integers_do() {
        for (a, b) in (0..256_u64).map(|pair| (pair >> 4, pair & 15)) {
            for inputs in [true, false] {
                let mut circuit = Circuit::new();
                let mut word = |number| -> Word {
                    let bits = to_bits(number, 4);
                    bits.into_iter()
                        .map(|bit| if inputs { circuit.input(bit) } else { bit.into() })
                        .collect()
                };
                let (x, y) = (word(a), word(b));
                let c = &mut circuit;
                let signed = |n: u64| (n as i64) << 60 >> 60;
                let zeros = [FALSE; 4];
                let cases: Vec<(&str, Word, u64)> = vec![
                    ("+", c.add(&x, &y, FALSE).0, (a + b) & 15),
                    ("-", c.sub(&x, &y).0, a.wrapping_sub(b) & 15),
                    ("*", c.mul(&x, &y), (a * b) & 15),
                    ("/", c.divide(&x, &y).0, a.checked_div(b).unwrap_or(15)),
                    ("%", c.divide(&x, &y).1, a.checked_rem(b).unwrap_or(a)),
                    ("==", vec![c.equal(&x, &y)], (a == b).into()),
                    ("<", vec![c.less(&x, &y, false)], (a < b).into()),
                    ("s<", vec![c.less(&x, &y, true)], (signed(a) < signed(b)).into()),
                    ("<<", c.shift(&x, &y, true, FALSE), a << b & 15),
                    (">>", c.shift(&x, &y, false, FALSE), a >> b),
                    ("s>>", c.shift(&x, &y, false, x[3]), (signed(a) >> b.min(3)) as u64 & 15),
                    ("?:", c.mux(x[0], &y, &zeros), if a & 1 == 1 { b } else { 0 }),
                    ("^", c.zip(&x, &y, Circuit::xor), a ^ b),
                    ("|", c.zip(&x, &y, Circuit::or), a | b),
                ];
                for (name, word, expected) in cases {
                    assert_eq!(number(&circuit.values(&word)), Some(expected), "{a} {name} {b}");
                    assert!(inputs || word.iter().all(|lit| lit.is_constant()), "{name} folds");
                }
            }
        }
    }
}
