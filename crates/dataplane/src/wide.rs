//! Arithmetic on values of any width, and operators too rare for a separate operation.

use std::cmp::Ordering;

use crate::bits::mask;
use crate::slot::{Item, Slot};

/// An operation on values of any width. Shapes follow [`tributary_p4::ir::BinaryOp`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WideOp {
    pub(crate) kind: WideKind,
    pub(crate) dst: Item,
    pub(crate) a: Item,
    /// Second operand; the same as `a` if there is none.
    pub(crate) b: Item,
    /// Whether `a` (and `b`) are two's complement.
    pub(crate) signed: bool,
}

/// The operator of a [`WideOp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WideKind {
    /// `a` truncated or extended to the width of `dst`.
    Cast,
    Not,
    Neg,
    Add,
    Sub,
    Mul,
    /// Zero if the divisor is zero; signed division truncates towards zero.
    Div,
    /// `a` if the divisor is zero; the sign is that of `a`.
    Mod,
    AddSat,
    SubSat,
    And,
    Or,
    Xor,
    Concat,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    /// `a`'s bits from `lo` up, as many as `dst` has.
    Slice {
        lo: u32,
    },
    /// Stores `a` into `dst` from bit `lo` up; other bits are unchanged.
    Insert {
        lo: u32,
    },
    /// `c ? a : b`
    Select {
        c: Slot,
    },
}

/// Number of scratch words for operations on values of at most `limbs` words.
pub(crate) const fn scratch_words(limbs: usize) -> usize {
    6 * (limbs + 1)
}

impl WideOp {
    /// Number of words of the widest operand.
    fn limbs(&self) -> usize {
        self.dst.width.max(self.a.width).max(self.b.width).div_ceil(64) as usize
    }

    /// Approximate work: words that are read, combined or written.
    pub(crate) fn work(&self) -> u64 {
        let limbs = self.limbs() as u64;
        let each = match self.kind {
            WideKind::Mul => limbs / 2,
            WideKind::Div | WideKind::Mod => u64::from(self.a.width),
            WideKind::Insert { .. } | WideKind::AddSat | WideKind::SubSat => 64,
            _ => 0,
        };
        8 + limbs * (4 + each)
    }

    /// Runs the operation; `scratch` has at least [`scratch_words`] of the widest operand.
    pub(crate) fn run(&self, state: &mut [u64], scratch: &mut [u64]) {
        let scratch = &mut scratch[..scratch_words(self.limbs())];
        let each = scratch.len() / 6;
        let (x, rest) = scratch.split_at_mut(each);
        let (y, rest) = rest.split_at_mut(each);
        let (z, work) = rest.split_at_mut(each);
        load(state, self.a, x);
        load(state, self.b, y);
        z.fill(0);
        let (width, signed) = (self.a.width, self.signed);
        match self.kind {
            WideKind::Cast => {
                z.copy_from_slice(x);
                if signed {
                    sign_extend(z, width);
                }
            }
            WideKind::Not => z.iter_mut().zip(&*x).for_each(|(z, x)| *z = !x),
            WideKind::Neg => subtract(z, x),
            WideKind::Add => {
                z.copy_from_slice(x);
                add(z, y);
            }
            WideKind::Sub => {
                z.copy_from_slice(x);
                subtract(z, y);
            }
            WideKind::Mul => multiply(z, x, y),
            WideKind::Div | WideKind::Mod => self.divide(x, y, z, work),
            WideKind::AddSat | WideKind::SubSat => self.saturate(x, y, z),
            WideKind::And => z.iter_mut().zip(x.iter().zip(y)).for_each(|(z, (x, y))| *z = *x & *y),
            WideKind::Or => z.iter_mut().zip(x.iter().zip(y)).for_each(|(z, (x, y))| *z = *x | *y),
            WideKind::Xor => z.iter_mut().zip(x.iter().zip(y)).for_each(|(z, (x, y))| *z = *x ^ *y),
            WideKind::Concat => {
                shift_left(z, x, self.b.width as usize);
                z.iter_mut().zip(y).for_each(|(z, y)| *z |= *y);
            }
            WideKind::Shl => shift_left(z, x, amount(y, each)),
            WideKind::Shr => {
                if signed {
                    sign_extend(x, width);
                }
                let fill = if signed && x[each - 1] >> 63 == 1 { u64::MAX } else { 0 };
                shift_right(z, x, amount(y, each), fill);
            }
            WideKind::Eq => z[0] = u64::from(x == y),
            WideKind::Ne => z[0] = u64::from(x != y),
            WideKind::Lt | WideKind::Le => {
                if signed {
                    // Maps the smallest value to zero and keeps the order.
                    flip_sign(x, width);
                    flip_sign(y, width);
                }
                let order = x.iter().rev().cmp(y.iter().rev());
                z[0] = u64::from(match self.kind {
                    WideKind::Lt => order == Ordering::Less,
                    _ => order != Ordering::Greater,
                });
            }
            WideKind::Slice { lo } => shift_right(z, x, lo as usize, 0),
            WideKind::Insert { lo } => {
                load(state, self.dst, z);
                for bit in 0..width {
                    let at = (lo + bit) as usize;
                    let value = x[bit as usize / 64] >> (bit % 64) & 1;
                    z[at / 64] = z[at / 64] & !(1 << (at % 64)) | value << (at % 64);
                }
            }
            WideKind::Select { c } => z.copy_from_slice(if state[c as usize] == 0 { y } else { x }),
        }
        cut(z, self.dst.width);
        let limbs = self.dst.width.div_ceil(64) as usize;
        let slot = self.dst.slot as usize;
        state[slot..slot + limbs].copy_from_slice(&z[..limbs]);
    }

    fn divide(&self, x: &mut [u64], y: &mut [u64], z: &mut [u64], work: &mut [u64]) {
        let width = self.a.width;
        let (negative_x, negative_y) =
            (self.signed && sign(x, width), self.signed && sign(y, width));
        let (scratch, rest) = work.split_at_mut(x.len());
        let (remainder, _) = rest.split_at_mut(x.len());
        if negative_x {
            negate(x, scratch, width);
        }
        if negative_y {
            negate(y, scratch, width);
        }
        remainder.fill(0);
        let divisor_is_zero = y.iter().all(|&limb| limb == 0);
        if divisor_is_zero {
            remainder.copy_from_slice(x);
        } else {
            // Bit by bit: division is rare in data planes, and most targets lack it.
            for bit in (0..width as usize).rev() {
                double(remainder);
                remainder[0] |= x[bit / 64] >> (bit % 64) & 1;
                if remainder.iter().rev().ge(y.iter().rev()) {
                    subtract(remainder, y);
                    z[bit / 64] |= 1 << (bit % 64);
                }
            }
        }
        if self.kind == WideKind::Mod {
            z.copy_from_slice(remainder);
            if negative_x {
                negate(z, scratch, width);
            }
        } else if negative_x != negative_y {
            negate(z, scratch, width);
        }
    }

    fn saturate(&self, x: &mut [u64], y: &mut [u64], z: &mut [u64]) {
        let width = self.a.width;
        // One additional limb, so that sums and differences cannot overflow.
        if self.signed {
            sign_extend(x, width);
            sign_extend(y, width);
        }
        z.copy_from_slice(x);
        if self.kind == WideKind::AddSat {
            add(z, y);
        } else {
            subtract(z, y);
        }
        let negative = z[z.len() - 1] >> 63 == 1;
        let value_bits = if self.signed { width - 1 } else { width };
        if negative && !self.signed {
            z.fill(0);
        } else if negative {
            // Below -2^(width-1) if any higher bit is clear.
            let low_enough = (value_bits as usize..z.len() * 64).all(|bit| test(z, bit));
            if !low_enough {
                z.fill(0);
                z[value_bits as usize / 64] = 1 << (value_bits % 64);
            }
        } else if (value_bits as usize..z.len() * 64).any(|bit| test(z, bit)) {
            z.fill(u64::MAX);
            cut(z, value_bits);
        }
    }
}

fn load(state: &[u64], item: Item, to: &mut [u64]) {
    let (limbs, slot) = (item.width.div_ceil(64) as usize, item.slot as usize);
    to[..limbs].copy_from_slice(&state[slot..slot + limbs]);
    to[limbs..].fill(0);
}

fn test(x: &[u64], bit: usize) -> bool {
    x[bit / 64] >> (bit % 64) & 1 == 1
}

fn sign(x: &[u64], width: u32) -> bool {
    test(x, width as usize - 1)
}

fn flip_sign(x: &mut [u64], width: u32) {
    let bit = width as usize - 1;
    x[bit / 64] ^= 1 << (bit % 64);
}

/// Clears the bits from `width` up.
fn cut(x: &mut [u64], width: u32) {
    for (i, limb) in x.iter_mut().enumerate() {
        *limb &= mask(width.saturating_sub(64 * i as u32).min(64));
    }
}

fn sign_extend(x: &mut [u64], width: u32) {
    if sign(x, width) {
        for (i, limb) in x.iter_mut().enumerate() {
            *limb |= !mask(width.saturating_sub(64 * i as u32).min(64));
        }
    }
}

fn negate(x: &mut [u64], scratch: &mut [u64], width: u32) {
    scratch.copy_from_slice(x);
    x.fill(0);
    subtract(x, scratch);
    cut(x, width);
}

fn add(x: &mut [u64], y: &[u64]) {
    let mut carry = false;
    for (x, y) in x.iter_mut().zip(y) {
        let (sum, over) = x.overflowing_add(*y);
        let (sum, over_too) = sum.overflowing_add(u64::from(carry));
        (*x, carry) = (sum, over | over_too);
    }
}

fn subtract(x: &mut [u64], y: &[u64]) {
    let mut borrow = false;
    for (x, y) in x.iter_mut().zip(y) {
        let (difference, under) = x.overflowing_sub(*y);
        let (difference, under_too) = difference.overflowing_sub(u64::from(borrow));
        (*x, borrow) = (difference, under | under_too);
    }
}

fn multiply(z: &mut [u64], x: &[u64], y: &[u64]) {
    let limbs = z.len();
    for (i, x) in x.iter().enumerate() {
        let mut carry = 0;
        for (j, y) in y[..limbs - i].iter().enumerate() {
            let sum = u128::from(*x) * u128::from(*y) + u128::from(z[i + j]) + carry;
            z[i + j] = sum as u64;
            carry = sum >> 64;
        }
    }
}

fn double(x: &mut [u64]) {
    let mut carry = 0;
    for limb in x {
        (*limb, carry) = (*limb << 1 | carry, *limb >> 63);
    }
}

/// A shift amount, at most the size of the working space.
fn amount(y: &[u64], limbs: usize) -> usize {
    let most = limbs as u64 * 64;
    if y[1..].iter().any(|&limb| limb != 0) { most as usize } else { y[0].min(most) as usize }
}

fn shift_left(z: &mut [u64], x: &[u64], amount: usize) {
    let (limbs, bits) = (amount / 64, amount % 64);
    for i in limbs..z.len() {
        z[i] = x[i - limbs] << bits;
        if bits > 0 && i > limbs {
            z[i] |= x[i - limbs - 1] >> (64 - bits);
        }
    }
}

fn shift_right(z: &mut [u64], x: &[u64], amount: usize, fill: u64) {
    let (limbs, bits) = (amount / 64, amount % 64);
    for (i, z) in z.iter_mut().enumerate() {
        let limb = |at: usize| x.get(at).copied().unwrap_or(fill);
        *z = limb(i + limbs) >> bits;
        if bits > 0 {
            *z |= limb(i + limbs + 1) << (64 - bits);
        }
    }
}
