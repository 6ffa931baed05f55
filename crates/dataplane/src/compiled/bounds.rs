//! The check that makes machine code safe: all operands exist.

use super::{Plan, Refusal};
use crate::code::{ExternOp, Op, Pc, RunKind};
use crate::control_flow::{Next, next};
use crate::slot::{NO_SLOT, Slot};

/// Checks all operations that are translated. The interpreter checks its own at run time.
pub(super) fn check(plan: &Plan) -> Result<(), Refusal> {
    let code = &plan.code;
    let entries =
        code.tables.iter().flat_map(|table| table.actions.iter().map(|action| action.entry));
    for pc in code.blocks.iter().copied().chain([code.nothing]).chain(entries) {
        place(plan, pc, pc)?;
    }
    for (op, pc) in code.ops.iter().zip(0..) {
        match next(op) {
            Next::On => place(plan, pc, pc + 1)?,
            Next::Branch(to) => {
                place(plan, pc, pc + 1)?;
                place(plan, pc, to)?;
            }
            Next::Jump(to) => place(plan, pc, to)?,
            Next::Out => {}
        }
        operation(plan, pc, op)?;
    }
    Ok(())
}

fn place(plan: &Plan, pc: Pc, to: Pc) -> Result<(), Refusal> {
    if (to as usize) < plan.code.ops.len() { Ok(()) } else { Err(Refusal::Bounds(pc)) }
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of operation")]
#[rustfmt::skip]
fn operation(plan: &Plan, pc: Pc, op: &Op) -> Result<(), Refusal> {
    let refusal = || Refusal::Bounds(pc);
    let words = |first: Slot, count: u32| {
        let end = u64::from(first) + u64::from(count);
        if end <= plan.code.words as u64 { Ok(()) } else { Err(refusal()) }
    };
    let slots = |slots: &[Slot]| slots.iter().try_for_each(|&slot| words(slot, 1));
    let optional = |slot: Slot| if slot == NO_SLOT { Ok(()) } else { words(slot, 1) };
    let header = |number: u32| {
        let header = plan.code.headers.get(number as usize).ok_or_else(refusal)?;
        words(header.valid, 1)?;
        words(header.first, header.words)?;
        if header.layout.slots().all(|(slot, count)| words(slot, count).is_ok()) {
            Ok(())
        } else {
            Err(refusal())
        }
    };
    let register = |register: u32, slot: Slot| {
        let limbs = plan.registers.limbs(register).ok_or_else(refusal)?;
        words(slot, limbs)
    };
    match *op {
        Op::Move { dst, src } => slots(&[dst, src]),
        Op::Copy { dst, src, words: count } => words(dst, count).and(words(src, count)),
        Op::Truncate { dst, src, .. } | Op::SignExtend { dst, src, .. }
        | Op::Slice { dst, src, .. } | Op::Insert { dst, src, .. } => slots(&[dst, src]),
        Op::Not { dst, a, .. } => slots(&[dst, a]),
        Op::Add { dst, a, b, .. } | Op::Sub { dst, a, b, .. } | Op::Mul { dst, a, b, .. }
        | Op::And { dst, a, b } | Op::Or { dst, a, b } | Op::Xor { dst, a, b }
        | Op::Shl { dst, a, b, .. } | Op::Shr { dst, a, b }
        | Op::Eq { dst, a, b } | Op::Ne { dst, a, b } | Op::Lt { dst, a, b } | Op::Le { dst, a, b }
        | Op::SignedLt { dst, a, b, .. } | Op::SignedLe { dst, a, b, .. }
        | Op::Concat { dst, a, b, .. } => slots(&[dst, a, b]),
        Op::Select { dst, c, a, b } => slots(&[dst, c, a, b]),
        Op::JumpIf { c, .. } | Op::JumpUnless { c, .. } => slots(&[c]),
        Op::JumpEq { a, b, .. } | Op::JumpNe { a, b, .. } => slots(&[a, b]),
        Op::JumpMaskedNe { a, mask, value, .. } => slots(&[a, mask, value]),
        Op::JumpOutside { a, low, high, .. } => slots(&[a, low, high]),
        Op::Call(to) => place(plan, pc, to),
        Op::Apply { table, hit, action } => {
            let code = plan.code.tables.get(table as usize).ok_or_else(refusal)?;
            optional(hit)?;
            optional(action)?;
            code.keys.iter().try_for_each(|key| words(key.slot, key.width.div_ceil(64)))?;
            let Some(Some(fixed)) = plan.fixed.get(table as usize) else { return Ok(()) };
            fixed.outcomes().try_for_each(|outcome| {
                let action = code.actions.get(outcome.action as usize).ok_or_else(refusal)?;
                words(action.params, outcome.data.len() as u32)
            })
        }
        Op::ApplyPicked { table } => plan.code.tables.get(table as usize).map(drop).ok_or_else(refusal),
        Op::Extract(number) | Op::Emit(number) | Op::SetValid(number)
        | Op::SetInvalid(number) => header(number),
        Op::Lookahead(number) => {
            let layout = plan.code.lookaheads.get(number as usize).ok_or_else(refusal)?;
            layout.slots().try_for_each(|(slot, count)| words(slot, count))
        }
        Op::CopyHeader { to, from } => {
            header(to)?;
            header(from)?;
            let of = |number: u32| &plan.code.headers[number as usize];
            words(of(to).first, of(from).words)
        }
        Op::Advance { bits } => slots(&[bits]),
        Op::Fail { error } => slots(&[error]),
        Op::RegisterRead { dst, register: number, index } | Op::CellRead { dst, register: number, index } => {
            slots(&[index])?;
            register(number, dst)
        }
        Op::RegisterWrite { src, register: number, index } => {
            slots(&[index])?;
            register(number, src)
        }
        Op::RegisterRun(number) => {
            let run = plan.code.runs.get(number as usize).ok_or_else(refusal)?;
            slots(&[run.index])?;
            words(run.slot, run.count)?;
            if let RunKind::Add { sum } = run.kind {
                slots(&[sum])?;
            }
            if plan.registers.has_row(run.register, run.count) { Ok(()) } else { Err(refusal()) }
        }
        Op::Count { index, .. } => slots(&[index]),
        Op::Extern(number) => {
            let (list, used) = match *plan.code.externs.get(number as usize).ok_or_else(refusal)? {
                ExternOp::VerifyChecksum { condition, valid, checksum, list, error, .. } => {
                    optional(valid)?;
                    (list, [condition, checksum, error])
                }
                ExternOp::UpdateChecksum { condition, checksum, list, .. } => {
                    (list, [condition, checksum, checksum])
                }
                _ => return Ok(()),
            };
            slots(&used)?;
            let list = plan.code.lists.get(list as usize).ok_or_else(refusal)?;
            list.groups.iter().try_for_each(|group| {
                optional(group.valid)?;
                group.items.iter().try_for_each(|item| words(item.slot, item.width.div_ceil(64)))
            })
        }
        // Nothing to check, or executed by the interpreter.
        _ => Ok(()),
    }
}
