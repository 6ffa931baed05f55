//! Translates operations to Cranelift's instructions, one by one.
//!
//! A value that an operation has read or written stays known until the next jump target, so the
//! next operation need not load it. Every result is still stored, so called functions find the same
//! state as with the interpreter.

use std::collections::HashMap;
use std::rc::Rc;

use cranelift_codegen::Context as FunctionContext;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, SigRef, Signature, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::ahead::Ahead;
use super::context::{self, Call, at};
use super::{Plan, Refusal};
use crate::bits::mask;
use crate::code::{Op, Pc, RunKind};
use crate::control_flow::{Analysis, Region, may_stop};
use crate::externs::register::RegisterPlace;
use crate::slot::Slot;

/// Blocks of at most this many operations are inlined.
const INLINE: usize = 48;

/// Most operations that a function may inline.
const MOST_INLINED: usize = 4000;

/// Longer runs of words are copied and cleared by a function.
const UNROLLED: u32 = 16;

/// The functions of a program: declared ones, and those that remain to be translated.
pub(super) struct Functions<'p> {
    plan: &'p Plan,
    analysis: Analysis<'p>,
    pub(super) ahead: Ahead,
    known: HashMap<Pc, FuncId>,
    open: Vec<(Pc, FuncId)>,
}

impl<'p> Functions<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            analysis: Analysis::new(&plan.code),
            ahead: Ahead::new(plan),
            known: HashMap::new(),
            open: Vec::new(),
        }
    }

    /// The function of the block that starts there.
    pub(super) fn declare(&mut self, module: &mut JITModule, entry: Pc) -> Result<FuncId, Refusal> {
        if let Some(&known) = self.known.get(&entry) {
            return Ok(known);
        }
        let id = module.declare_anonymous_function(&signature(module, 0))?;
        self.known.insert(entry, id);
        self.open.push((entry, id));
        Ok(id)
    }

    /// The next function to translate.
    pub(super) fn next(&mut self) -> Option<(Pc, FuncId)> {
        self.open.pop()
    }

    /// Translates a function.
    pub(super) fn translate(
        &mut self,
        module: &mut JITModule,
        entry: Pc,
        context: &mut FunctionContext,
        builder: &mut FunctionBuilderContext,
    ) -> Result<(), Refusal> {
        context.func.signature = signature(module, 0);
        let callee = signature(module, 2);
        let mut b = FunctionBuilder::new(&mut context.func, builder);
        let first = b.create_block();
        b.append_block_params_for_function_params(first);
        b.switch_to_block(first);
        let &[context, state, io] = b.block_params(first) else {
            unreachable!("three are declared")
        };
        let callee = b.import_signature(callee);
        let mut translator = Translator {
            plan: self.plan,
            functions: self,
            module,
            b,
            context,
            state,
            io,
            callee,
            known: HashMap::new(),
            at: None,
            inlined: 0,
        };
        translator.region(entry, None)?;
        translator.b.seal_all_blocks();
        let config = translator.module.target_config();
        translator.b.finalize(config);
        Ok(())
    }
}

/// The signature: three pointers and some numbers, and the result.
fn signature(module: &JITModule, numbers: usize) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::I64); 3 + numbers];
    signature.returns.push(AbiParam::new(types::I64));
    signature
}

/// The blocks of a region's operations in the function.
pub(super) struct Places {
    blocks: HashMap<Pc, Block>,
    /// Target of a return; `None` if it ends the function.
    after: Option<Block>,
}

/// A function being translated.
pub(super) struct Translator<'t, 'p> {
    pub(super) plan: &'p Plan,
    pub(super) functions: &'t mut Functions<'p>,
    module: &'t mut JITModule,
    pub(super) b: FunctionBuilder<'t>,
    pub(super) context: Value,
    pub(super) state: Value,
    pub(super) io: Value,
    /// The signature of [`Call`]s.
    callee: SigRef,
    /// Known values of slots.
    pub(super) known: HashMap<Slot, Value>,
    /// Number of bytes that the parser has consumed.
    pub(super) at: Option<Value>,
    inlined: usize,
}

/// Flags of accesses to words at fixed offsets, all within bounds and aligned.
pub(super) fn word() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Flags of accesses to bytes, within bounds.
pub(super) fn byte() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Translator<'_, '_> {
    /// Translates a region. Leaves the builder without an open block.
    fn region(&mut self, entry: Pc, after: Option<Block>) -> Result<(), Refusal> {
        let region: Rc<Region> = self.functions.analysis.region(entry);
        let blocks: HashMap<Pc, Block> =
            region.targets.iter().map(|&target| (target, self.b.create_block())).collect();
        let places = Places { blocks, after };
        // The first operation in program order may not be the entry.
        let start = match places.blocks.get(&entry) {
            Some(&block) => block,
            None => self.b.create_block(),
        };
        self.b.ins().jump(start, &[]);
        let mut open = false;
        let mut done = 0;
        for (place, &pc) in region.ops.iter().enumerate() {
            if place < done {
                continue;
            }
            if pc == entry || places.blocks.contains_key(&pc) {
                let block = places.blocks.get(&pc).copied().unwrap_or(start);
                if open {
                    self.b.ins().jump(block, &[]);
                }
                self.b.switch_to_block(block);
                // Only the first operation is reached solely by entering the region.
                if places.blocks.contains_key(&pc) || pc != region.ops[0] {
                    self.forget();
                }
            }
            let together = self.neighbours(&region.ops[place..], &places);
            if together > 1 {
                self.extract_together(&region.ops[place..place + together]);
                done = place + together;
                open = true;
            } else {
                open = self.op(pc, &places)?;
            }
        }
        Ok(())
    }

    /// How many of these operations extract one run of values together.
    fn neighbours(&self, ops: &[Pc], places: &Places) -> usize {
        let mut end = None;
        ops.iter()
            .zip(ops[0]..)
            .take_while(|&(&pc, expected)| {
                let jumped_to = pc != ops[0] && places.blocks.contains_key(&pc);
                let run = self.values(pc).filter(|_| pc == expected && !jumped_to);
                let follows = run.is_some_and(|(slot, _)| end.is_none_or(|end| end == slot));
                end = run.map(|(slot, count)| slot + count);
                follows
            })
            .count()
    }

    /// Translates an operation. Returns false if it has no fall-through.
    fn op(&mut self, pc: Pc, places: &Places) -> Result<bool, Refusal> {
        let op = self.plan.code.ops[pc as usize];
        match op {
            Op::Jump(to) => {
                self.b.ins().jump(places.blocks[&to], &[]);
                return Ok(false);
            }
            Op::Return => {
                match places.after {
                    Some(after) => self.b.ins().jump(after, &[]),
                    None => self.leave(context::NEXT),
                };
                return Ok(false);
            }
            Op::Exit => {
                self.leave(context::EXIT);
                return Ok(false);
            }
            Op::Fail { error } => {
                let error = self.get(error);
                self.fail(error);
                return Ok(false);
            }
            Op::Call(to) => self.call(to)?,
            Op::Apply { table, hit, action } => self.apply(pc, table, hit, action)?,
            Op::ApplyPicked { table } => self.apply_picked(table)?,
            _ => {
                if let Some((condition, to)) = self.condition(&op) {
                    return Ok(self.branch(condition, to, pc, places));
                }
                let done = self.arithmetic(&op)
                    || self.on_headers(&op)
                    || self.on_registers(pc, &op)
                    || self.checksum(&op);
                if !done {
                    self.step(pc, &op);
                }
            }
        }
        Ok(true)
    }

    /// The condition of a jump, and its target.
    fn condition(&mut self, op: &Op) -> Option<(Value, Pc)> {
        let (condition, to) = match *op {
            Op::JumpIf { c, to } => (self.get(c), to),
            Op::JumpUnless { c, to } => {
                let c = self.get(c);
                (self.b.ins().icmp_imm_s(IntCC::Equal, c, 0), to)
            }
            Op::JumpEq { a, b, to } => (self.compare(IntCC::Equal, a, b), to),
            Op::JumpNe { a, b, to } => (self.compare(IntCC::NotEqual, a, b), to),
            Op::JumpMaskedNe { a, mask, value, to } => {
                let (a, mask, value) = (self.get(a), self.get(mask), self.get(value));
                let masked = self.b.ins().band(a, mask);
                (self.b.ins().icmp(IntCC::NotEqual, masked, value), to)
            }
            Op::JumpOutside { a, low, high, to } => {
                let below = self.compare(IntCC::UnsignedLessThan, a, low);
                let above = self.compare(IntCC::UnsignedGreaterThan, a, high);
                (self.b.ins().bor(below, above), to)
            }
            _ => return None,
        };
        Some((condition, to))
    }

    fn compare(&mut self, how: IntCC, a: Slot, b: Slot) -> Value {
        let (a, b) = (self.get(a), self.get(b));
        self.b.ins().icmp(how, a, b)
    }

    /// Translates a conditional jump. Returns whether the block stays open.
    fn branch(&mut self, condition: Value, to: Pc, pc: Pc, places: &Places) -> bool {
        let there = places.blocks[&to];
        if let Some(&next) = places.blocks.get(&(pc + 1)) {
            self.b.ins().brif(condition, there, &[], next, &[]);
            return false;
        }
        let next = self.b.create_block();
        self.b.ins().brif(condition, there, &[], next, &[]);
        self.b.switch_to_block(next);
        true
    }

    /// Translates straight-line operations on words; false for others.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of operation")]
    #[rustfmt::skip]
    fn arithmetic(&mut self, op: &Op) -> bool {
        match *op {
            Op::Move { dst, src } => {
                let value = self.get(src);
                self.set(dst, value);
            }
            Op::Copy { dst, src, words } if words <= UNROLLED => {
                let values: Vec<Value> = (src..src + words).map(|slot| self.get(slot)).collect();
                for (slot, value) in (dst..).zip(values) {
                    self.set(slot, value);
                }
            }
            Op::Copy { dst, src, words } => {
                let (places, words) = (context::places(dst, src), self.number(words.into()));
                let places = self.number(places);
                self.call_out(context::copy, places, words);
            }
            Op::Truncate { dst, src, width } => {
                let value = self.get(src);
                self.set_cut(dst, value, width);
            }
            Op::SignExtend { dst, src, from: from @ 1..=64, to } => {
                let value = self.signed(src, from);
                self.set_cut(dst, value, to);
            }
            Op::Add { dst, a, b, width } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().iadd(a, b);
                self.set_cut(dst, value, width);
            }
            Op::Sub { dst, a, b, width } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().isub(a, b);
                self.set_cut(dst, value, width);
            }
            Op::Mul { dst, a, b, width } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().imul(a, b);
                self.set_cut(dst, value, width);
            }
            Op::And { dst, a, b } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().band(a, b);
                self.set(dst, value);
            }
            Op::Or { dst, a, b } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().bor(a, b);
                self.set(dst, value);
            }
            Op::Xor { dst, a, b } => {
                let (a, b) = (self.get(a), self.get(b));
                let value = self.b.ins().bxor(a, b);
                self.set(dst, value);
            }
            Op::Not { dst, a, width } => {
                let a = self.get(a);
                let value = self.b.ins().bnot(a);
                self.set_cut(dst, value, width);
            }
            Op::Shl { dst, a, b, width } => {
                let (a, by) = (self.get(a), self.get(b));
                let shifted = self.b.ins().ishl(a, by);
                let value = self.unless_too_far(by, shifted);
                self.set_cut(dst, value, width);
            }
            Op::Shr { dst, a, b } => {
                let (a, by) = (self.get(a), self.get(b));
                let shifted = self.b.ins().ushr(a, by);
                let value = self.unless_too_far(by, shifted);
                self.set(dst, value);
            }
            Op::Eq { dst, a, b } => self.set_comparison(dst, IntCC::Equal, a, b),
            Op::Ne { dst, a, b } => self.set_comparison(dst, IntCC::NotEqual, a, b),
            Op::Lt { dst, a, b } => self.set_comparison(dst, IntCC::UnsignedLessThan, a, b),
            Op::Le { dst, a, b } => self.set_comparison(dst, IntCC::UnsignedLessThanOrEqual, a, b),
            Op::SignedLt { dst, a, b, width: width @ 1..=64 } => {
                let (a, b) = (self.signed(a, width), self.signed(b, width));
                let less = self.b.ins().icmp(IntCC::SignedLessThan, a, b);
                self.set_bool(dst, less);
            }
            Op::SignedLe { dst, a, b, width: width @ 1..=64 } => {
                let (a, b) = (self.signed(a, width), self.signed(b, width));
                let less = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, a, b);
                self.set_bool(dst, less);
            }
            Op::Select { dst, c, a, b } => {
                let (c, a, b) = (self.get(c), self.get(a), self.get(b));
                let value = self.b.ins().select(c, a, b);
                self.set(dst, value);
            }
            Op::Slice { dst, src, lo: lo @ 0..64, width } => {
                let src = self.get(src);
                let value = self.b.ins().ushr_imm_s(src, i64::from(lo));
                self.set_cut(dst, value, width);
            }
            Op::Insert { dst, src, lo: lo @ 0..64, width } => {
                let bits = mask(width.into()) << lo;
                let (old, src) = (self.get(dst), self.get(src));
                let kept = self.b.ins().band_imm_s(old, !bits as i64);
                let shifted = self.b.ins().ishl_imm_s(src, i64::from(lo));
                let new = self.b.ins().band_imm_s(shifted, bits as i64);
                let value = self.b.ins().bor(kept, new);
                self.set(dst, value);
            }
            Op::Concat { dst, a, b, low: low @ 0..64 } => {
                let (a, b) = (self.get(a), self.get(b));
                let high = self.b.ins().ishl_imm_s(a, i64::from(low));
                let value = self.b.ins().bor(high, b);
                self.set(dst, value);
            }
            _ => return false,
        }
        true
    }

    /// Translates operations on registers and counters; false for others.
    fn on_registers(&mut self, pc: Pc, op: &Op) -> bool {
        match *op {
            Op::RegisterRead { dst, register, index } => {
                let Some(place) = self.element(register) else { return false };
                let old = self.get(dst);
                let value = self.if_below(index, place.size, old, |this, index| {
                    this.load_element(place, index)
                });
                self.set(dst, value);
            }
            Op::CellRead { dst, register, index } => {
                let Some(place) = self.element(register) else { return false };
                let zero = self.number(0);
                let value = self.if_below(index, place.size, zero, |this, index| {
                    this.load_element(place, index)
                });
                self.set(dst, value);
            }
            Op::RegisterWrite { src, register, index } => {
                let Some(place) = self.element(register) else { return false };
                let value = self.get(src);
                self.if_below(index, place.size, value, |this, index| {
                    let address = this.address(place, index);
                    if place.words == 2 {
                        this.b.ins().store(byte(), value, address, 0);
                    } else {
                        this.b.ins().istore32(byte(), value, address, 0);
                    }
                    value
                });
            }
            Op::RegisterRun(number) => return self.run(pc, number),
            Op::Count { counter, index } => {
                let (counter, index) = (self.number(counter.into()), self.get(index));
                self.call_out(context::count, counter, index);
            }
            _ => return false,
        }
        true
    }

    /// The place of a register whose elements have one or two words.
    fn element(&self, register: u32) -> Option<RegisterPlace> {
        self.plan.registers.places.get(register as usize).copied().filter(|place| place.words <= 2)
    }

    /// Address of the element at an index, which must be in range. Machine code is for all engines
    /// with the same registers, so it finds the bank in the context.
    pub(super) fn address(&mut self, place: RegisterPlace, index: Value) -> Value {
        let constant = word().with_readonly().with_can_move();
        let bases = self.b.ins().load(types::I64, constant, self.context, at::BASES);
        let bank = i32::try_from(8 * u64::from(place.bank)).expect("a program has few banks");
        let base = self.b.ins().load(types::I64, constant, bases, bank);
        let offset = self.b.ins().imul_imm_s(index, place.stride as i64);
        let address = self.b.ins().iadd(base, offset);
        self.b.ins().iadd_imm_s(address, place.offset as i64)
    }

    fn load_element(&mut self, place: RegisterPlace, index: Value) -> Value {
        let address = self.address(place, index);
        if place.words == 2 {
            self.b.ins().load(types::I64, byte(), address, 0)
        } else {
            self.b.ins().uload32(byte(), address, 0)
        }
    }

    /// The value of `then` if an index is below `size`, otherwise another value.
    fn if_below(
        &mut self,
        index: Slot,
        size: u64,
        otherwise: Value,
        then: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Value {
        let index = self.get(index);
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        let result = self.b.append_block_param(after, types::I64);
        let size = self.number(size);
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, index, size);
        self.b.ins().brif(below, inside, &[], after, &[otherwise.into()]);
        self.b.switch_to_block(inside);
        let value = then(self, index);
        self.b.ins().jump(after, &[value.into()]);
        self.b.switch_to_block(after);
        result
    }

    fn run(&mut self, pc: Pc, number: u32) -> bool {
        let run = self.plan.code.runs[number as usize];
        let loops: Call = match run.kind {
            RunKind::Read => context::row_read,
            RunKind::Write => context::row_write,
            RunKind::Add { .. } if run.width == 32 => context::row_add,
            RunKind::Add { .. } => return false,
        };
        let Some(place) = self.element(run.register) else { return false };
        let (inside, outside, after) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let (index, size) = (self.get(run.index), self.number(place.size));
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, index, size);
        self.b.ins().brif(below, inside, &[], outside, &[]);
        self.b.switch_to_block(inside);
        let row = self.address(place, index);
        let places = self.number(context::places(run.slot, run.count));
        self.call_out(loops, row, places);
        if let RunKind::Add { sum } = run.kind {
            let last = self.get(run.slot + run.count - 1);
            self.set(sum, last);
        }
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(outside);
        self.b.set_cold_block(outside);
        if matches!(run.kind, RunKind::Add { .. }) {
            let (pc, zero) = (self.number(pc.into()), self.number(0));
            self.call_out(context::step, pc, zero);
        }
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.forget();
        true
    }

    /// Calls or inlines a block.
    pub(super) fn call(&mut self, to: Pc) -> Result<(), Refusal> {
        let region = self.functions.analysis.region(to);
        let size = region.ops.len();
        if size > INLINE || self.inlined + size > MOST_INLINED {
            return self.call_function(to);
        }
        self.inlined += size;
        if region.straight {
            // Known values remain known on both sides.
            let places = Places { blocks: HashMap::new(), after: None };
            for &pc in &region.ops[..size - 1] {
                self.op(pc, &places)?;
            }
            return Ok(());
        }
        let after = self.b.create_block();
        self.region(to, Some(after))?;
        self.b.switch_to_block(after);
        self.forget();
        Ok(())
    }

    fn call_function(&mut self, to: Pc) -> Result<(), Refusal> {
        let id = self.functions.declare(self.module, to)?;
        let function = self.module.declare_func_in_func(id, self.b.func);
        let call = self.b.ins().call(function, &[self.context, self.state, self.io]);
        let end = self.b.inst_results(call)[0];
        self.forget();
        if self.functions.analysis.stops(to) {
            self.go_on_if_next(end);
        }
        Ok(())
    }

    /// Lets the interpreter execute an operation.
    pub(super) fn step(&mut self, pc: Pc, op: &Op) {
        let (place, zero) = (self.number(pc.into()), self.number(0));
        let end = self.call_out(context::step, place, zero);
        if may_stop(op) {
            self.go_on_if_next(end);
        }
    }

    /// Leaves the function with the result of a call, unless that is a normal end.
    fn go_on_if_next(&mut self, end: Value) {
        let (out, next) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(end, out, &[], next, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[end]);
        self.b.switch_to_block(next);
    }

    /// Calls one of the functions in [`context`]. It may change any slot.
    pub(super) fn call_out(&mut self, function: Call, a: Value, b: Value) -> Value {
        let address = self.number((function as *const ()).expose_provenance() as u64);
        let call = self.b.ins().call_indirect(
            self.callee,
            address,
            &[self.context, self.state, self.io, a, b],
        );
        self.forget();
        self.b.inst_results(call)[0]
    }

    /// Like [`Self::call_out`], for a function that changes only slots that the caller forgets.
    pub(super) fn call_out_keeping(&mut self, function: Call, a: Value, b: Value) {
        let known = std::mem::take(&mut self.known);
        self.call_out(function, a, b);
        self.known = known;
    }

    /// Ends the function.
    fn leave(&mut self, end: u64) -> cranelift_codegen::ir::Inst {
        let end = self.number(end);
        self.b.ins().return_(&[end])
    }

    /// Ends the function with an error.
    pub(super) fn fail(&mut self, error: Value) {
        self.b.ins().store(word(), error, self.context, at::ERROR);
        self.leave(context::ERROR);
    }

    /// Ends the function with an error where a condition holds.
    pub(super) fn fail_if(&mut self, condition: Value, error: u64) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(condition, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        let error = self.number(error);
        self.fail(error);
        self.b.switch_to_block(good);
    }

    pub(super) fn number(&mut self, number: u64) -> Value {
        self.b.ins().iconst(types::I64, number as i64)
    }

    /// The value of a slot.
    pub(super) fn get(&mut self, slot: Slot) -> Value {
        if let Some(&constant) = self.plan.code.constants.get(&slot) {
            return self.number(constant);
        }
        if let Some(&known) = self.known.get(&slot) {
            return known;
        }
        let value = self.b.ins().load(types::I64, word(), self.state, offset(slot));
        self.known.insert(slot, value);
        value
    }

    /// Stores to a slot.
    pub(super) fn set(&mut self, slot: Slot, value: Value) {
        self.b.ins().store(word(), value, self.state, offset(slot));
        self.known.insert(slot, value);
    }

    fn set_cut(&mut self, slot: Slot, value: Value, width: u8) {
        let value = self.cut(value, width.into());
        self.set(slot, value);
    }

    /// The lowest bits of a value.
    pub(super) fn cut(&mut self, value: Value, width: u32) -> Value {
        if width >= 64 { value } else { self.b.ins().band_imm_s(value, mask(width) as i64) }
    }

    fn set_bool(&mut self, slot: Slot, value: Value) {
        let value = self.b.ins().uextend(types::I64, value);
        self.set(slot, value);
    }

    fn set_comparison(&mut self, dst: Slot, how: IntCC, a: Slot, b: Slot) {
        let value = self.compare(how, a, b);
        self.set_bool(dst, value);
    }

    fn signed(&mut self, slot: Slot, width: u8) -> Value {
        let value = self.get(slot);
        let unused = 64 - i64::from(width);
        let high = self.b.ins().ishl_imm_s(value, unused);
        self.b.ins().sshr_imm_s(high, unused)
    }

    /// A shifted value, or zero for shifts of a word and more.
    fn unless_too_far(&mut self, by: Value, shifted: Value) -> Value {
        let zero = self.number(0);
        let near = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, by, 64);
        self.b.ins().select(near, shifted, zero)
    }

    /// Forgets all values, because other code may have changed any slot.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.at = None;
    }

    /// Forgets slots that are written without [`Self::set`].
    pub(super) fn forget_slots(&mut self, first: Slot, count: u32) {
        self.known.retain(|slot, _| !(first..first + count).contains(slot));
    }
}

/// Byte offset of a slot.
pub(super) fn offset(slot: Slot) -> i32 {
    slot as i32 * 8
}
