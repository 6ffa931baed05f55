//! Tables: constant ones become tests in the code, others a call.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::Refusal;
use super::context;
use super::translate::Translator;
use crate::code::Pc;
use crate::slot::{NO_SLOT, Slot};
use crate::tables::{FixedTable, Resolved};

impl Translator<'_, '_> {
    /// Applies a table and runs the action.
    pub(super) fn apply(
        &mut self,
        pc: Pc,
        table: u32,
        hit: Slot,
        action: Slot,
    ) -> Result<(), Refusal> {
        let plan = self.plan;
        match plan.fixed.get(table as usize) {
            Some(Some(fixed)) => self.apply_fixed(fixed, table, hit, action),
            _ => self.apply_by_call(pc, table),
        }
    }

    /// Calls the table's lookup, which copies the arguments; then dispatches on the action.
    fn apply_by_call(&mut self, pc: Pc, table: u32) -> Result<(), Refusal> {
        let (pc, zero) = (self.number(pc.into()), self.number(0));
        let chosen = self.call_out(context::apply, pc, zero);
        self.dispatch(chosen, table)
    }

    /// Runs the action that a selector picked, if a group action came before it.
    pub(super) fn apply_picked(&mut self, table: u32) -> Result<(), Refusal> {
        let (number, zero) = (self.number(table.into()), self.number(0));
        let chosen = self.call_out(context::apply_picked, number, zero);
        self.dispatch(chosen, table)
    }

    /// Runs the action of a table that has this entry.
    fn dispatch(&mut self, chosen: Value, table: u32) -> Result<(), Refusal> {
        let plan = self.plan;
        let code = &plan.code.tables[table as usize];
        let mut entries: Vec<Pc> = code.actions.iter().map(|action| action.entry).collect();
        if code.profile.is_some() {
            entries.push(plan.code.nothing);
        }
        entries.sort_unstable();
        entries.dedup();
        let after = self.b.create_block();
        let Some(last) = entries.pop() else {
            self.b.ins().jump(after, &[]);
            self.b.switch_to_block(after);
            return Ok(());
        };
        for entry in entries {
            let (this, others) = (self.b.create_block(), self.b.create_block());
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, chosen, i64::from(entry));
            self.b.ins().brif(found, this, &[], others, &[]);
            self.b.switch_to_block(this);
            self.act(entry, after)?;
            self.b.switch_to_block(others);
        }
        self.act(last, after)?;
        self.b.switch_to_block(after);
        self.forget();
        Ok(())
    }

    /// Runs an action in its own open block, and continues.
    fn act(&mut self, entry: Pc, after: Block) -> Result<(), Refusal> {
        self.forget();
        self.call(entry)?;
        self.b.ins().jump(after, &[]);
        Ok(())
    }

    /// Tests the entries in order. Entries with the same outcome share its code.
    fn apply_fixed(
        &mut self,
        fixed: &FixedTable,
        table: u32,
        hit: Slot,
        action: Slot,
    ) -> Result<(), Refusal> {
        let key = self.key(table);
        let mut outcomes: Vec<(&Resolved, Block)> = Vec::new();
        for row in &fixed.rows {
            let known = outcomes.iter().find(|(outcome, _)| *outcome == &row.outcome);
            let found = match known {
                Some(&(_, block)) => block,
                None => {
                    let block = self.b.create_block();
                    outcomes.push((&row.outcome, block));
                    block
                }
            };
            let next = self.b.create_block();
            let masked = match row.mask {
                u64::MAX => key,
                mask => self.b.ins().band_imm_s(key, mask as i64),
            };
            let value = self.number(row.value);
            let equal = self.b.ins().icmp(IntCC::Equal, masked, value);
            self.b.ins().brif(equal, found, &[], next, &[]);
            self.b.switch_to_block(next);
        }
        // Known values remain known at all outcomes.
        let (known, place) = (self.known.clone(), self.at);
        let after = self.b.create_block();
        self.outcome(&fixed.default, table, hit, action, false)?;
        self.b.ins().jump(after, &[]);
        for (outcome, block) in outcomes {
            self.b.switch_to_block(block);
            self.known.clone_from(&known);
            self.at = place;
            self.outcome(outcome, table, hit, action, true)?;
            self.b.ins().jump(after, &[]);
        }
        self.b.switch_to_block(after);
        self.forget();
        Ok(())
    }

    /// All keys in one word, the first in the highest bits.
    fn key(&mut self, table: u32) -> Value {
        let plan = self.plan;
        let mut all = None;
        for key in &plan.code.tables[table as usize].keys {
            let value = self.get(key.slot);
            all = Some(match all {
                None => value,
                Some(high) => {
                    let high = self.b.ins().ishl_imm_s(high, i64::from(key.width));
                    self.b.ins().bor(high, value)
                }
            });
        }
        all.unwrap_or_else(|| self.number(0))
    }

    /// Copies the arguments and runs the action.
    fn outcome(
        &mut self,
        outcome: &Resolved,
        table: u32,
        hit: Slot,
        action: Slot,
        matched: bool,
    ) -> Result<(), Refusal> {
        let plan = self.plan;
        let code = &plan.code.tables[table as usize].actions[outcome.action as usize];
        for (slot, &word) in (code.params..).zip(&outcome.data) {
            let word = self.number(word);
            self.set(slot, word);
        }
        if hit != NO_SLOT {
            let matched = self.number(matched.into());
            self.set(hit, matched);
        }
        if action != NO_SLOT {
            let number = self.number(outcome.action.into());
            self.set(action, number);
        }
        self.call(code.entry)
    }
}
