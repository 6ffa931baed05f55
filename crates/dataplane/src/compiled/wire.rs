//! Headers: from the frame to slots and back.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::ahead::Element;
use super::context::{self, Call, at};
use super::translate::{Translator, byte, offset, word};
use crate::code::{HeaderCode, Op, Pc};
use crate::layout::{Layout, Part};
use crate::slot::Slot;

/// Longer runs of words are cleared and copied by a function.
const UNROLLED: u32 = 16;

impl Translator<'_, '_> {
    /// Translates operations on headers and the parser's position; false for others.
    pub(super) fn on_headers(&mut self, op: &Op) -> bool {
        let plan = self.plan;
        let code = &plan.code;
        let errors = &code.errors;
        let header = |number: u32| &code.headers[number as usize];
        match *op {
            Op::Extract(number) if plain(header(number)) => {
                let header = header(number);
                let end = self.extract(&header.layout);
                self.b.ins().store(word(), end, self.io, at::AT);
                self.at = Some(end);
                let one = self.number(1);
                self.set(header.valid, one);
            }
            Op::Lookahead(number) if whole(&code.lookaheads[number as usize]) => {
                let before = self.at();
                self.extract(&code.lookaheads[number as usize]);
                self.at = Some(before);
            }
            Op::Advance { bits } => {
                let bits = self.get(bits);
                let odd = self.b.ins().band_imm_s(bits, 7);
                self.fail_if(odd, errors.invalid_argument);
                let bytes = self.b.ins().ushr_imm_s(bits, 3);
                let (before, length) = (self.at(), self.frame_len());
                let left = self.b.ins().isub(length, before);
                let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, bytes, left);
                self.fail_if(short, errors.packet_too_short);
                let end = self.b.ins().iadd(before, bytes);
                self.b.ins().store(word(), end, self.io, at::AT);
                self.at = Some(end);
            }
            Op::Tick(work) => {
                let before = self.b.ins().load(types::I32, word(), self.io, at::WORK);
                let work = self.b.ins().iconst(types::I32, i64::from(work));
                let none = self.b.ins().icmp(IntCC::UnsignedLessThan, before, work);
                self.fail_if(none, errors.timeout);
                let left = self.b.ins().isub(before, work);
                self.b.ins().store(word(), left, self.io, at::WORK);
            }
            Op::Emit(number) if plain(header(number)) => self.emit(header(number)),
            Op::SetValid(number) if header(number).varbit.is_none() => {
                self.set_valid(header(number));
            }
            Op::SetInvalid(number) if header(number).varbit.is_none() => {
                let header = header(number);
                let valid = self.get(header.valid);
                self.when(valid, |this| {
                    let zero = this.number(0);
                    this.set(header.valid, zero);
                    this.lengthen(-(header.layout.bytes() as i64));
                });
            }
            Op::CopyHeader { to, from } => {
                let (to, from) = (header(to), header(from));
                let valid = self.get(from.valid);
                self.set(to.valid, valid);
                self.when(valid, |this| {
                    if from.words <= UNROLLED {
                        let values: Vec<Value> =
                            (from.first..from.first + from.words).map(|s| this.get(s)).collect();
                        for (slot, value) in (to.first..).zip(values) {
                            this.set(slot, value);
                        }
                    } else {
                        let places = this.number(context::places(to.first, from.first));
                        let words = this.number(from.words.into());
                        this.call_out(context::copy, places, words);
                    }
                });
            }
            _ => return false,
        }
        true
    }

    fn at(&mut self) -> Value {
        if let Some(at) = self.at {
            return at;
        }
        let at = self.b.ins().load(types::I64, word(), self.io, at::AT);
        self.at = Some(at);
        at
    }

    fn frame_len(&mut self) -> Value {
        let constant = word().with_readonly().with_can_move();
        self.b.ins().load(types::I64, constant, self.context, at::FRAME_LEN)
    }

    /// Reads fields at the parser's position, if the frame is long enough. Returns the next one.
    fn extract(&mut self, layout: &Layout) -> Value {
        let (before, length) = (self.at(), self.frame_len());
        let end = self.b.ins().iadd_imm_s(before, layout.bytes() as i64);
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, length);
        self.fail_if(short, self.plan.code.errors.packet_too_short);
        let constant = word().with_readonly().with_can_move();
        let frame = self.b.ins().load(types::I64, constant, self.context, at::FRAME);
        let bytes = self.b.ins().iadd(frame, before);
        for part in layout.parts() {
            self.extract_part(layout, part, bytes);
        }
        end
    }

    fn extract_part(&mut self, layout: &Layout, part: &Part, bytes: Value) {
        match *part {
            Part::Run32 { byte, slot, count } => {
                let from = self.b.ins().iadd_imm_s(bytes, i64::from(byte));
                self.extract_values(from, slot, count);
            }
            Part::Run8 { byte, slot, count } => self.extract_each(bytes, byte, slot, count, 1),
            Part::Run16 { byte, slot, count } => self.extract_each(bytes, byte, slot, count, 2),
            Part::Run64 { byte, slot, count } => self.extract_each(bytes, byte, slot, count, 8),
            Part::Chunk { byte, bytes: length, .. } => {
                let chunk = self.load_be(bytes, byte as i32, length);
                for member in layout.members(part) {
                    let value = self.b.ins().ushr_imm_s(chunk, i64::from(member.shift));
                    let top = u32::from(member.shift) + u32::from(member.width) == 8 * length;
                    let value = if top { value } else { self.cut(value, member.width.into()) };
                    self.set(member.slot, value);
                }
            }
            Part::Bits { .. } => unreachable!("`whole` has no such part"),
        }
    }

    /// Reads neighbouring fields of 32 bits.
    fn extract_values(&mut self, from: Value, slot: Slot, count: u32) {
        let places = self.number(context::places(slot, count));
        let at = self.at;
        let extract: Call = match self.functions.ahead.row(slot, count) {
            Some(Element { place, index }) => {
                let (index, size) = (self.get(index), self.number(place.size));
                let zero = self.number(0);
                let below = self.b.ins().icmp(IntCC::UnsignedLessThan, index, size);
                let index = self.b.ins().select(below, index, zero);
                let row = self.address(place, index);
                self.b.ins().store(word(), row, self.context, at::ROW);
                context::extract_32_ahead
            }
            None => context::extract_32,
        };
        self.call_out_keeping(extract, from, places);
        self.at = at;
        self.forget_slots(slot, count);
    }

    /// The slots of a header extracted there, if it is a single run of values.
    pub(super) fn values(&self, pc: Pc) -> Option<(Slot, u32)> {
        let Op::Extract(number) = self.plan.code.ops[pc as usize] else { return None };
        let header = &self.plan.code.headers[number as usize];
        match *header.layout.parts() {
            [Part::Run32 { slot, count, .. }] if plain(header) => Some((slot, count)),
            _ => None,
        }
    }

    /// Extracts neighbours for which [`Self::values`] returns neighbouring slots. If the frame is
    /// too short for all, they are extracted one by one until its end.
    pub(super) fn extract_together(&mut self, ops: &[Pc]) {
        let runs: Vec<(Slot, u32)> = ops.iter().filter_map(|&pc| self.values(pc)).collect();
        let (slot, count) = (runs[0].0, runs.iter().map(|(_, count)| count).sum::<u32>());
        let (before, length) = (self.at(), self.frame_len());
        let end = self.b.ins().iadd_imm_s(before, 4 * i64::from(count));
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, length);
        let (some, all, after) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(some);
        self.b.ins().brif(short, some, &[], all, &[]);
        self.b.switch_to_block(all);
        let constant = word().with_readonly().with_can_move();
        let frame = self.b.ins().load(types::I64, constant, self.context, at::FRAME);
        let from = self.b.ins().iadd(frame, before);
        self.extract_values(from, slot, count);
        self.b.ins().store(word(), end, self.io, at::AT);
        let one = self.number(1);
        for &pc in ops {
            if let Op::Extract(number) = self.plan.code.ops[pc as usize] {
                let valid = self.plan.code.headers[number as usize].valid;
                self.set(valid, one);
            }
        }
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(some);
        self.forget();
        for &pc in ops {
            let op = self.plan.code.ops[pc as usize];
            self.step(pc, &op);
        }
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.forget();
    }

    fn extract_each(&mut self, bytes: Value, byte: u32, slot: u32, count: u32, size: u32) {
        for i in 0..count {
            let value = self.load_be(bytes, (byte + i * size) as i32, size);
            self.set(slot + i, value);
        }
    }

    /// Up to eight bytes as a big-endian number.
    fn load_be(&mut self, bytes: Value, at: i32, length: u32) -> Value {
        let ins = |this: &mut Self, ty, at| {
            let part = this.b.ins().load(ty, byte(), bytes, at);
            let part = if ty == types::I8 { part } else { this.b.ins().bswap(part) };
            if ty == types::I64 { part } else { this.b.ins().uextend(types::I64, part) }
        };
        let mut all = None;
        for (from, size) in pieces(length) {
            let part = ins(self, integer(size), at + from as i32);
            all = Some(match all {
                None => part,
                Some(high) => {
                    let high = self.b.ins().ishl_imm_s(high, i64::from(8 * size));
                    self.b.ins().bor(high, part)
                }
            });
        }
        all.unwrap_or_else(|| self.number(0))
    }

    fn emit(&mut self, header: &HeaderCode) {
        let valid = self.get(header.valid);
        self.when(valid, |this| {
            let bytes = header.layout.bytes() as i64;
            let before = this.b.ins().load(types::I64, word(), this.context, at::OUT_LEN);
            let after = this.b.ins().iadd_imm_s(before, bytes);
            let room = this.b.ins().load(types::I64, word(), this.context, at::OUT_ROOM);
            let narrow = this.b.ins().icmp(IntCC::UnsignedGreaterThan, after, room);
            this.when(narrow, |this| {
                let (bytes, zero) = (this.number(bytes as u64), this.number(0));
                this.call_out(context::reserve, bytes, zero);
            });
            let out = this.b.ins().load(types::I64, word(), this.context, at::OUT);
            let to = this.b.ins().iadd(out, before);
            for part in header.layout.parts() {
                this.emit_part(&header.layout, part, to);
            }
            this.b.ins().store(word(), after, this.context, at::OUT_LEN);
        });
    }

    fn emit_part(&mut self, layout: &Layout, part: &Part, to: Value) {
        match *part {
            Part::Run32 { byte, slot, count } => {
                let to = self.b.ins().iadd_imm_s(to, i64::from(byte));
                let places = self.number(context::places(slot, count));
                self.call_out_keeping(context::emit_32, to, places);
            }
            Part::Run8 { byte, slot, count } => self.emit_each(to, byte, slot, count, 1),
            Part::Run16 { byte, slot, count } => self.emit_each(to, byte, slot, count, 2),
            Part::Run64 { byte, slot, count } => self.emit_each(to, byte, slot, count, 8),
            Part::Chunk { byte, bytes, .. } => {
                let mut chunk = None;
                for member in layout.members(part) {
                    let value = self.get(member.slot);
                    let value = self.b.ins().ishl_imm_s(value, i64::from(member.shift));
                    chunk = Some(match chunk {
                        None => value,
                        Some(others) => self.b.ins().bor(others, value),
                    });
                }
                if let Some(chunk) = chunk {
                    self.store_be(chunk, to, byte as i32, bytes);
                }
            }
            Part::Bits { .. } => unreachable!("`whole` has no such part"),
        }
    }

    fn emit_each(&mut self, to: Value, byte: u32, slot: u32, count: u32, size: u32) {
        for i in 0..count {
            let value = self.get(slot + i);
            self.store_be(value, to, (byte + i * size) as i32, size);
        }
    }

    /// The low bytes of a number, most significant first.
    fn store_be(&mut self, value: Value, to: Value, at: i32, length: u32) {
        for (from, size) in pieces(length) {
            let below = 8 * (length - from - size);
            let part = self.b.ins().ushr_imm_s(value, i64::from(below));
            let part = match size {
                8 => part,
                _ => self.b.ins().ireduce(integer(size), part),
            };
            let part = if size == 1 { part } else { self.b.ins().bswap(part) };
            self.b.ins().store(byte(), part, to, at + from as i32);
        }
    }

    fn set_valid(&mut self, header: &HeaderCode) {
        let valid = self.get(header.valid);
        let invalid = self.b.ins().icmp_imm_s(IntCC::Equal, valid, 0);
        self.when(invalid, |this| {
            if header.cleared <= UNROLLED {
                let zero = this.number(0);
                for slot in header.first..header.first + header.cleared {
                    this.b.ins().store(word(), zero, this.state, offset(slot));
                }
            } else {
                let (first, words) = (this.number(header.first.into()), header.cleared.into());
                let words = this.number(words);
                this.call_out(context::clear, first, words);
            }
            let one = this.number(1);
            this.set(header.valid, one);
            this.lengthen(header.layout.bytes() as i64);
        });
    }

    /// Adds to the packet's length.
    fn lengthen(&mut self, by: i64) {
        let length = self.b.ins().load(types::I32, word(), self.io, at::LENGTH);
        let length = self.b.ins().iadd_imm_s(length, by);
        self.b.ins().store(word(), length, self.io, at::LENGTH);
    }

    /// Runs `body` under a condition, and forgets the values known there.
    fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) {
        let (yes, after) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, yes, &[], after, &[]);
        self.b.switch_to_block(yes);
        body(self);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.forget();
    }
}

/// Whether a header is translated.
fn plain(header: &HeaderCode) -> bool {
    header.varbit.is_none() && whole(&header.layout)
}

/// Whether all fields of a layout fill whole bytes, alone or together.
fn whole(layout: &Layout) -> bool {
    !layout.parts().iter().any(|part| matches!(part, Part::Bits { .. }))
}

/// Offsets and sizes of the loads for a number of bytes.
fn pieces(length: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = length - at;
        let size = [8, 4, 2, 1].into_iter().find(|&size| size <= left)?;
        at += size;
        Some((at - size, size))
    })
}

fn integer(bytes: u32) -> cranelift_codegen::ir::Type {
    match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}
