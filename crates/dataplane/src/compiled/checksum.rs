//! The Internet checksum of headers, without putting their bytes together.
//!
//! A one's complement sum of 16-bit words is the sum of all fields, each shifted by its distance
//! from the end of its word: carries come back around, since 2¹⁶ is 1 modulo 2¹⁶ − 1.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::translate::Translator;
use crate::bits::mask;
use crate::code::{ExternOp, List, Op};
use crate::externs::hash::Algorithm;
use crate::slot::{NO_SLOT, Slot};

/// Most fields of a list: their sum fits in 64 bits.
const MOST_FIELDS: usize = 1 << 16;

/// The lists that are summed here: whole words of fields of up to 32 bits.
pub(super) fn in_words(list: &List) -> bool {
    let fields: usize = list.groups.iter().map(|group| group.items.len()).sum();
    fields <= MOST_FIELDS
        && list.groups.iter().all(|group| {
            group.length == NO_SLOT
                && group.layout.bits().is_multiple_of(16)
                && group.items.iter().all(|item| item.width <= 32)
        })
}

impl Translator<'_, '_> {
    /// Translates checksums of headers; false for other operations.
    pub(super) fn checksum(&mut self, op: &Op) -> bool {
        let Op::Extern(number) = *op else { return false };
        let code = &self.plan.code;
        match code.externs[number as usize] {
            ExternOp::VerifyChecksum {
                condition,
                valid,
                checksum,
                algorithm: Algorithm::Csum16,
                list,
                payload: false,
                error,
            } if in_words(&code.lists[list as usize]) => {
                let (sum, sent) = (self.sum(&code.lists[list as usize]), self.get(checksum));
                let wrong = self.b.ins().icmp(IntCC::NotEqual, sum, sent);
                let wrong = self.if_set(condition, wrong);
                let wrong = if valid == NO_SLOT { wrong } else { self.if_set(valid, wrong) };
                let (one, before) = (self.number(1), self.get(error));
                let after = self.b.ins().select(wrong, one, before);
                self.set(error, after);
            }
            ExternOp::UpdateChecksum {
                condition,
                checksum,
                width,
                algorithm: Algorithm::Csum16,
                list,
                payload: false,
            } if in_words(&code.lists[list as usize]) => {
                let sum = self.sum(&code.lists[list as usize]);
                let sum = self.cut(sum, width);
                let (condition, before) = (self.get(condition), self.get(checksum));
                let after = self.b.ins().select(condition, sum, before);
                self.set(checksum, after);
            }
            _ => return false,
        }
        true
    }

    /// A comparison's result where a slot is not zero, false elsewhere.
    fn if_set(&mut self, slot: Slot, result: Value) -> Value {
        let value = self.get(slot);
        let set = self.b.ins().icmp_imm_s(IntCC::NotEqual, value, 0);
        self.b.ins().band(set, result)
    }

    /// The checksum of a list for which [`in_words`] holds.
    fn sum(&mut self, list: &List) -> Value {
        let mut all = self.number(0);
        for group in &list.groups {
            let mut sum = self.number(0);
            let mut below = group.layout.bits();
            for item in &group.items {
                below -= item.width;
                let value = self.get(item.slot);
                let value = self.b.ins().ishl_imm_s(value, i64::from(below % 16));
                sum = self.b.ins().iadd(sum, value);
            }
            if group.valid != NO_SLOT {
                let (valid, zero) = (self.get(group.valid), self.number(0));
                sum = self.b.ins().select(valid, sum, zero);
            }
            all = self.b.ins().iadd(all, sum);
        }
        // 64 bits to 33, to 18, to 17, to 16.
        for half in [32, 16, 16, 16] {
            let low = self.b.ins().band_imm_s(all, mask(half as u32) as i64);
            let high = self.b.ins().ushr_imm_s(all, half);
            all = self.b.ins().iadd(low, high);
        }
        self.b.ins().bxor_imm_s(all, 0xffff)
    }
}
