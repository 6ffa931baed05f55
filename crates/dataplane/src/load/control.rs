//! Compiles statements.

use tributary_p4::ir::{
    BinaryOp, Expr, ExprKind, HeaderId, HeaderRef, LabelId, Place, Scalar, Stmt, TableId, UnaryOp,
};

use super::{Context, Loader};
use crate::code::Op;
use crate::error::LoadError;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::wide::WideKind;

impl Loader<'_> {
    /// Compiles statements in order.
    pub(super) fn statements(&mut self, statements: &[Stmt]) -> Result<(), LoadError> {
        statements.iter().try_for_each(|statement| {
            let mark = self.slots.mark();
            let done = self.statement(statement);
            self.slots.release(&mark);
            done
        })
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), LoadError> {
        match statement {
            Stmt::Assign(place, value) => self.assign(place, value)?,
            Stmt::CopyHeader { to, from } => self.on_header(to, &mut |this, to| {
                this.on_header(from, &mut |this, from| {
                    this.copy_header(to, from);
                    Ok(())
                })
            })?,
            Stmt::SetValid(header) => self.header_op(header, Op::SetValid)?,
            Stmt::SetInvalid(header) => self.header_op(header, Op::SetInvalid)?,
            Stmt::Displace(header) => self.on_header(header, &mut |this, header| {
                this.invalidate(&[header]);
                Ok(())
            })?,
            Stmt::PushFront(stack, count) => self.push_front(*stack, *count),
            Stmt::PopFront(stack, count) => self.pop_front(*stack, *count),
            Stmt::If { condition, then, otherwise } => self.if_else(condition, then, otherwise)?,
            Stmt::Switch { on, cases, default } => self.switch(on, cases, default)?,
            Stmt::Apply { table, hit, action } => self.apply(
                *table,
                hit.map_or(NO_SLOT, |field| self.slots.field(field)),
                action.map_or(NO_SLOT, |field| self.slots.field(field)),
            )?,
            Stmt::Action(action) => {
                let call = self.jump(Op::Call(0));
                self.calls.push((call, *action));
            }
            Stmt::Call(call) => {
                self.note_call(call);
                self.call(call)?;
            }
            Stmt::Mark(mark) => {
                if let Some(origin) = super::origin_of(self.program, statement) {
                    self.at.set(Some(origin));
                }
                self.note_mark(mark);
            }
            Stmt::Extract { .. } | Stmt::Lookahead(_) | Stmt::Advance(_) | Stmt::Verify { .. }
                if self.context != Context::Parser =>
            {
                return Err(LoadError::Misplaced("packet_in is for parsers only".to_owned()));
            }
            Stmt::Extract { header, varbit_bits } => self.extract(header, varbit_bits.as_ref())?,
            Stmt::Lookahead(fields) => self.lookahead(fields),
            Stmt::Advance(bits) => {
                let bits = self.word(bits)?;
                self.op(Op::Advance { bits });
            }
            Stmt::Verify { condition, error } => {
                let holds = self.branch(condition, true)?;
                let error = self.word(error)?;
                self.jump(Op::Fail { error });
                self.patch_here(&holds);
            }
            Stmt::Emit(_) if self.context != Context::Deparser => {
                return Err(LoadError::Misplaced("packet_out is for deparsers only".to_owned()));
            }
            Stmt::Emit(header) => self.header_op(header, Op::Emit)?,
            Stmt::Exit => {
                self.jump(Op::Exit);
            }
            Stmt::Return => self.return_from_scope(),
            Stmt::Block(body) => self.scope(body)?,
            Stmt::Labelled(label, body) => self.labelled(*label, |this| this.statements(body))?,
            Stmt::Loop(label, body) => self.labelled(*label, |this| {
                let start = this.here();
                this.statements(body)?;
                this.tick();
                this.jump(Op::Jump(start));
                Ok(())
            })?,
            Stmt::Leave(label) => self.leave(*label)?,
        }
        Ok(())
    }

    fn if_else(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), LoadError> {
        let branch = self.next_branch();
        let not = self.branch(condition, false)?;
        self.note_condition(branch, condition, true);
        self.statements(then)?;
        if otherwise.is_empty() && self.notes.is_none() {
            self.patch_here(&not);
        } else {
            let end = self.jump(Op::Jump(0));
            self.patch_here(&not);
            self.note_condition(branch, condition, false);
            self.statements(otherwise)?;
            self.patch_here(&[end]);
        }
        Ok(())
    }

    /// Compiles a `return`, which leaves the innermost scope or the block.
    fn return_from_scope(&mut self) {
        if self.returns.is_empty() {
            self.jump(Op::Return);
        } else {
            let jump = self.jump(Op::Jump(0));
            if let Some(scope) = self.returns.last_mut() {
                scope.push(jump);
            }
        }
    }

    /// Compiles a scope that `return` leaves.
    pub(super) fn scope(&mut self, body: &[Stmt]) -> Result<(), LoadError> {
        self.returns.push(Vec::new());
        let compiled = self.statements(body);
        let ends = self.returns.pop().unwrap_or_default();
        compiled?;
        self.patch_here(&ends);
        Ok(())
    }

    /// Compiles a scope that ends at the label.
    fn labelled(
        &mut self,
        label: LabelId,
        body: impl FnOnce(&mut Self) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.labels.push((label, Vec::new()));
        let compiled = body(self);
        let (_, ends) = self.labels.pop().unwrap_or((label, Vec::new()));
        compiled?;
        self.patch_here(&ends);
        Ok(())
    }

    /// Compiles a jump to the end of the innermost scope with the label.
    fn leave(&mut self, label: LabelId) -> Result<(), LoadError> {
        let jump = self.jump(Op::Jump(0));
        let scope = self.labels.iter_mut().rev().find(|(of, _)| *of == label);
        let missing = || LoadError::Malformed(format!("no label {}", label.0));
        scope.ok_or_else(missing)?.1.push(jump);
        Ok(())
    }

    fn header_op(&mut self, header: &HeaderRef, op: fn(u32) -> Op) -> Result<(), LoadError> {
        self.on_header(header, &mut |this, header| {
            this.op(op(header.0));
            Ok(())
        })
    }

    fn copy_header(&mut self, to: HeaderId, from: HeaderId) {
        if to != from {
            self.op(Op::CopyHeader { to: to.0, from: from.0 });
        }
    }

    fn assign(&mut self, place: &Place, value: &Expr) -> Result<(), LoadError> {
        match place {
            Place::Field(field) => self.expr_to(value, self.slots.field(*field)),
            _ => {
                let src = self.expr(value)?;
                self.store(place, src)
            }
        }
    }

    /// Stores a computed value of the place's type.
    pub(super) fn store(&mut self, place: &Place, src: Slot) -> Result<(), LoadError> {
        match place {
            Place::Field(field) => {
                let words = self.program.fields[field.index()].ty.limbs();
                self.copy(self.slots.field(*field), src, words);
            }
            Place::Slice(field, hi, lo) => {
                let dst = self.item(*field);
                let width = hi - lo + 1;
                if dst.width <= 64 {
                    let (lo, width) = (*lo as u8, width as u8);
                    self.op(Op::Insert { dst: dst.slot, src, lo, width });
                } else {
                    let a = Item { slot: src, width };
                    let ty = Scalar::bit(dst.width);
                    self.wide(WideKind::Insert { lo: *lo }, dst.slot, ty, a, a, false);
                }
            }
            Place::Element(stack, index, position) => {
                let index = self.word(index)?;
                let element = self.element(*stack, Some(*position))?;
                self.op(Op::StoreElement { src, index, element });
            }
        }
        Ok(())
    }

    /// Reads a place.
    pub(super) fn load(&mut self, place: &Place, ty: Scalar, dst: Slot) -> Result<(), LoadError> {
        let kind = match place {
            Place::Field(field) => ExprKind::Field(*field),
            Place::Slice(field, hi, lo) => {
                let whole = Expr {
                    ty: self.program.fields[field.index()].ty,
                    kind: ExprKind::Field(*field),
                };
                ExprKind::Slice { value: Box::new(whole), hi: *hi, lo: *lo }
            }
            Place::Element(stack, index, position) => {
                ExprKind::Element(*stack, index.clone(), *position)
            }
        };
        self.expr_to(&Expr { ty, kind }, dst)
    }

    /// Compiles jumps that are taken if the condition equals `when`, to be patched.
    pub(super) fn branch(&mut self, condition: &Expr, when: bool) -> Result<Vec<usize>, LoadError> {
        Ok(match &condition.kind {
            ExprKind::Const(limbs) => {
                let holds = limbs.first().is_some_and(|&limb| limb != 0);
                if holds == when { vec![self.jump(Op::Jump(0))] } else { Vec::new() }
            }
            ExprKind::Unary(UnaryOp::Not, inner) => self.branch(inner, !when)?,
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                // The left side alone determines `&&` when false and `||` when true.
                let decides = *op == BinaryOp::Or;
                if decides == when {
                    let mut jumps = self.branch(left, when)?;
                    jumps.extend(self.branch(right, when)?);
                    jumps
                } else {
                    let skip = self.branch(left, decides)?;
                    let jumps = self.branch(right, when)?;
                    self.patch_here(&skip);
                    jumps
                }
            }
            ExprKind::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), left, right)
                if left.ty.width <= 64 =>
            {
                let (a, b) = (self.expr(left)?, self.expr(right)?);
                vec![self.jump(if (*op == BinaryOp::Eq) == when {
                    Op::JumpEq { a, b, to: 0 }
                } else {
                    Op::JumpNe { a, b, to: 0 }
                })]
            }
            _ => {
                let c = self.expr(condition)?;
                vec![self.jump(if when {
                    Op::JumpIf { c, to: 0 }
                } else {
                    Op::JumpUnless { c, to: 0 }
                })]
            }
        })
    }

    fn switch(
        &mut self,
        on: &Expr,
        cases: &[(Box<[u64]>, Vec<Stmt>)],
        default: &[Stmt],
    ) -> Result<(), LoadError> {
        let branch = self.next_branch();
        let slot = self.expr(on)?;
        let item = Item { slot, width: on.ty.width };
        let mut ends = Vec::new();
        for (number, (value, body)) in cases.iter().enumerate() {
            let other = self.jump_unless_equal(item, value);
            self.note_switch(branch, on, item, Some((number, value)));
            self.statements(body)?;
            ends.push(self.jump(Op::Jump(0)));
            self.patch_here(&[other]);
        }
        self.note_switch(branch, on, item, None);
        self.statements(default)?;
        self.patch_here(&ends);
        Ok(())
    }

    /// Compiles a jump that is taken if a value differs from a constant.
    pub(super) fn jump_unless_equal(&mut self, a: Item, value: &[u64]) -> usize {
        let ty = Scalar::bit(a.width);
        let b = self.slots.wide_constant(value, ty.limbs());
        if a.width <= 64 {
            self.jump(Op::JumpNe { a: a.slot, b, to: 0 })
        } else {
            let c = self.slots.temporary(Scalar::BOOL);
            self.wide(WideKind::Eq, c, Scalar::BOOL, a, Item { slot: b, width: a.width }, false);
            self.jump(Op::JumpUnless { c, to: 0 })
        }
    }

    fn apply(&mut self, table: TableId, hit: Slot, action: Slot) -> Result<(), LoadError> {
        let keys = &self.program.tables[table.index()].keys;
        for (number, key) in keys.iter().enumerate() {
            let dst = self.key_slots[table.index()][number];
            self.expr_to(&key.value, dst)?;
        }
        self.jump(Op::Apply { table: table.0, hit, action });
        if self.tables[table.index()].profile.is_some() {
            self.jump(Op::ApplyPicked { table: table.0 });
        }
        Ok(())
    }
}
