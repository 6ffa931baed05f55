//! Statements and assignments.

use std::collections::HashSet;

use num_bigint::BigInt;

use super::store::{Loc, Store, scalar};
use super::{Binding, Lowerer, Value, build};
use crate::check::fold::limbs;
use crate::hir::{self, StmtKind};
use crate::ir::{self, BinaryOp, Expr, FieldId, HeaderRef, Place, Scalar, Stmt};
use crate::types::Type;

impl Lowerer<'_, '_> {
    pub(super) fn statements(&mut self, list: &[hir::Stmt]) {
        for s in list {
            self.statement(s);
        }
    }

    pub(super) fn statement(&mut self, s: &hir::Stmt) {
        self.reporter.step(s.span);
        if !matches!(s.kind, StmtKind::Block(_)) {
            self.mark_at(s.span);
        }
        match &s.kind {
            StmtKind::Var(v) => {
                let store = self.local(&v.name, &v.ty);
                // The initial value is evaluated before the variable is declared.
                self.initialise(&store, v);
                self.vars.insert(v.id, Binding::Loc(Loc::Store(store)));
            }
            StmtKind::Assign(to, value) => {
                let Value::Loc(loc) = self.value(to) else { return };
                let from = self.value(value);
                self.assign(&loc, from, &to.ty);
            }
            StmtKind::Update { to, old, value } => {
                let Value::Loc(loc) = self.value(to) else { return };
                let loc = self.fix(loc);
                self.vars.insert(*old, Binding::Loc(loc.clone()));
                let from = self.value(value);
                self.assign(&loc, from, &to.ty);
            }
            StmtKind::Call(e) => {
                self.value(e);
            }
            StmtKind::If(condition, then, otherwise) => {
                self.conditional(condition, then, otherwise)
            }
            StmtKind::Block(list) => self.statements(list),
            StmtKind::Switch(on, cases, default) => self.switch(on, cases, default),
            StmtKind::SwitchAction(table, cases, default) => {
                self.switch_action(table, cases, default)
            }
            StmtKind::Exit => {
                self.copy_out_all();
                self.emit(Stmt::Exit);
            }
            StmtKind::Return(value) => {
                if let (Some(value), Some(result)) = (value, self.result.clone()) {
                    let from = self.value(value);
                    self.assign(&Loc::Store(result), from, &value.ty);
                }
                self.emit(Stmt::Return);
            }
            StmtKind::For { init, condition, update, body } => {
                self.for_loop(init, condition, update, body, s.span);
            }
            StmtKind::ForIn { variable, through, body } => {
                self.for_in(variable, through, body, s.span);
            }
            StmtKind::Break | StmtKind::Continue => {
                if let Some(labels) = self.loops.last().copied() {
                    let out = matches!(s.kind, StmtKind::Break);
                    self.emit(Stmt::Leave(if out { labels.whole } else { labels.turn }));
                }
            }
        }
    }

    fn conditional(&mut self, condition: &hir::Expr, then: &[hir::Stmt], otherwise: &[hir::Stmt]) {
        let condition = self.scalar(condition);
        match build::truth(&condition) {
            Some(true) => self.statements(then),
            Some(false) => self.statements(otherwise),
            None => {
                let then = self.buffered(|l| l.statements(then));
                let otherwise = self.buffered(|l| l.statements(otherwise));
                self.emit(Stmt::If { condition, then, otherwise });
            }
        }
    }

    fn switch(
        &mut self,
        on: &hir::Expr,
        cases: &[(Vec<hir::Expr>, Vec<hir::Stmt>)],
        default: &[hir::Stmt],
    ) {
        let value = self.scalar(on);
        let mut list = Vec::new();
        for (labels, body) in cases {
            for label in labels {
                let Some(v) = self.constant(label) else { continue };
                // A body shared by several labels is duplicated.
                let body = self.buffered(|l| l.statements(body));
                list.push((limbs(&v, value.ty.width), body));
            }
        }
        if let Some(known) = build::value(&value) {
            let known = limbs(&known, value.ty.width);
            match list.into_iter().find(|(v, _)| *v == known) {
                Some((_, body)) => self.out.extend(body),
                None => self.statements(default),
            }
            return;
        }
        let default = self.buffered(|l| l.statements(default));
        self.emit(Stmt::Switch { on: value, cases: list, default });
    }

    fn switch_action(
        &mut self,
        table: &std::rc::Rc<hir::Table>,
        cases: &[(Vec<usize>, Vec<hir::Stmt>)],
        default: &[hir::Stmt],
    ) {
        let ty = Scalar::bit(32);
        let ran = self.temp("action", ty);
        self.apply_table(table, None, Some(ran));
        let mut list = Vec::new();
        for (positions, body) in cases {
            for position in positions {
                let body = self.buffered(|l| l.statements(body));
                list.push((limbs(&BigInt::from(*position), ty.width), body));
            }
        }
        let default = self.buffered(|l| l.statements(default));
        self.emit(Stmt::Switch {
            on: Expr { ty, kind: ir::ExprKind::Field(ran) },
            cases: list,
            default,
        });
    }

    /// Stores a value of the location's type.
    pub(super) fn assign(&mut self, to: &Loc, from: Value, ty: &Type) {
        if ty.is_empty() {
            return;
        }
        if scalar(ty).is_some() {
            let value = match from {
                Value::Scalar(e) | Value::Symbol { code: e, .. } => Some(e),
                Value::Loc(loc) => self.read(&loc),
                _ => None,
            };
            if let Some(value) = value {
                self.assign_scalar(to, value);
            }
            return;
        }
        match (to, &from) {
            (_, Value::Loc(Loc::Choice(choice))) => return self.copy_chosen(to, choice, ty),
            (Loc::Choice(choice), _) => {
                let from = self.keep(from, ty);
                return self.for_chosen(choice, |l, to| l.assign(to, from.clone(), ty));
            }
            _ => {}
        }
        if let Type::Varbit(_) = ty {
            let Value::Loc(from) = from else { return };
            if let (Some((value, length)), Some(from)) = (self.varbit(to), self.varbit(&from)) {
                for (to, from) in [(value, from.0), (length, from.1)] {
                    if let Some(from) = self.read(&from) {
                        self.assign_scalar(&to, from);
                    }
                }
            }
            return;
        }
        match (to, from) {
            (Loc::Store(to), Value::Loc(Loc::Store(from)))
                if self.next_index(to).is_some() && self.next_index(&from).is_some() =>
            {
                self.copy_stack(to, &from);
            }
            (to, Value::Loc(from)) => match (self.header_ref(to), self.header_ref(&from)) {
                (Some(HeaderRef::Fixed(a)), Some(HeaderRef::Fixed(b))) if a == b => {}
                (Some(a), Some(b)) => self.copy_header(a, b),
                _ => {
                    // An index may be one of the parts.
                    let (to, from) = (self.fix(to.clone()), self.fix(from));
                    self.assign_parts(&to, ty, |l, i| Value::Loc(l.member(from.clone(), ty, i)));
                }
            },
            (to, Value::Invalid) => match self.header_ref(to) {
                Some(header) => self.emit(Stmt::SetInvalid(header)),
                None => self.assign_parts(to, ty, |_, _| Value::Invalid),
            },
            (to, Value::List(items)) => {
                // All values are read before the first one is stored: `{a, b} = {b, a}`. The index of
                // the target may be one of its own fields.
                let to = self.fix(to.clone());
                let written = self.may_write(&to);
                let header = self.header_ref(&to);
                let items = if items.len() > 1 || header.is_some() {
                    self.detach(items, &written, ty)
                } else {
                    items
                };
                if let Some(header) = header {
                    self.set_valid(header);
                }
                self.assign_parts(&to, ty, |_, i| items.get(i).cloned().unwrap_or(Value::Void));
            }
            _ => {}
        }
    }

    fn copy_stack(&mut self, to: &Store, from: &Store) {
        let (Some(a), Some(b)) = (self.next_index(to), self.next_index(from)) else { return };
        if a == b {
            return;
        }
        let (mut targets, mut sources) = (Vec::new(), Vec::new());
        to.headers(&mut targets);
        from.headers(&mut sources);
        for (to, from) in targets.into_iter().zip(sources) {
            let (to, from) = (HeaderRef::Fixed(to), HeaderRef::Fixed(from));
            self.emit(Stmt::CopyHeader { to, from });
        }
        let next = Expr { ty: Scalar::bit(32), kind: ir::ExprKind::Field(b) };
        self.emit(Stmt::Assign(Place::Field(a), next));
    }

    fn assign_parts(
        &mut self,
        to: &Loc,
        ty: &Type,
        mut from: impl FnMut(&mut Self, usize) -> Value,
    ) {
        let parts = ty.parts();
        // Parts without scalars cost steps, too.
        self.reporter.work(1 + parts.len() as u64 / 16);
        for (i, part) in parts.iter().enumerate() {
            let target = self.element_part(to.clone(), ty, i);
            let value = from(self, i);
            self.assign(&target, value, part);
        }
    }

    /// The fields that storing at a location may change: of an element that an index chooses, those
    /// of all elements.
    fn may_write(&mut self, to: &Loc) -> HashSet<FieldId> {
        let mut written = Vec::new();
        match to {
            Loc::Store(store) => store.fields(&self.program.headers, &mut written),
            Loc::Element(HeaderRef::Index(stack, _), _)
            | Loc::Element(HeaderRef::Next(stack) | HeaderRef::Last(stack), _)
            | Loc::Part { stack, .. } => {
                for element in &self.program.stacks[stack.index()].elements {
                    let header = &self.program.headers[element.index()];
                    written.extend(&header.fields);
                    written.extend(header.varbit.map(|(_, length)| length));
                    written.push(header.valid);
                }
            }
            _ => {}
        }
        self.reporter.work(written.len() as u64 / 8);
        written.into_iter().collect()
    }

    /// Copies the values that read the fields to be written.
    fn detach(&mut self, items: Vec<Value>, written: &HashSet<FieldId>, ty: &Type) -> Vec<Value> {
        items
            .into_iter()
            .zip(ty.parts())
            .map(|(item, ty)| {
                let reads = match &item {
                    Value::Scalar(e) => reads_any(e, written),
                    Value::Loc(Loc::Store(store)) => {
                        let mut fields = Vec::new();
                        store.fields(&self.program.headers, &mut fields);
                        fields.iter().any(|f| written.contains(f))
                    }
                    Value::Loc(_) => true,
                    _ => false,
                };
                match item {
                    Value::List(inner) => Value::List(self.detach(inner, written, &ty)),
                    item if reads => self.keep(item, &ty),
                    item => item,
                }
            })
            .collect()
    }

    pub(super) fn assign_scalar(&mut self, to: &Loc, value: Expr) {
        if let Loc::Choice(choice) = to {
            let value = self.keep_index(value);
            return self.for_chosen(choice, |l, to| l.assign_scalar(to, value.clone()));
        }
        if let Some((place, ty)) = self.place(to) {
            let value = if value.ty.signed == ty.signed { value } else { build::cast(value, ty) };
            self.emit(Stmt::Assign(place, value));
            return;
        }
        // For bits of a field of a stack element: read, modify, write.
        let Loc::Slice(whole, hi, lo) = to else { return };
        let (hi, lo) = (*hi, *lo);
        let Some(old) = self.read(whole) else { return };
        let ty = old.ty;
        let mut parts = vec![build::slice(value.clone(), hi - lo, 0)];
        if hi + 1 < ty.width {
            parts.insert(0, build::slice(old.clone(), ty.width - 1, hi + 1));
        }
        if lo > 0 {
            parts.push(build::slice(old, lo - 1, 0));
        }
        let joined = parts.into_iter().reduce(|a, b| build::binary(BinaryOp::Concat, a, b));
        if let Some(joined) = joined {
            let joined = build::cast(joined, ty);
            self.assign_scalar(whole, joined);
        }
    }
}

/// Whether an expression reads any of the fields.
fn reads_any(e: &Expr, fields: &HashSet<FieldId>) -> bool {
    match &e.kind {
        ir::ExprKind::Const(_) => false,
        ir::ExprKind::Field(f) => fields.contains(f),
        ir::ExprKind::Valid(_) | ir::ExprKind::Element(..) => true,
        ir::ExprKind::Unary(_, a) | ir::ExprKind::Cast(a) => reads_any(a, fields),
        ir::ExprKind::Slice { value, .. } => reads_any(value, fields),
        ir::ExprKind::Binary(_, a, b) => reads_any(a, fields) || reads_any(b, fields),
        ir::ExprKind::Mux(a, b, c) => [a, b, c].iter().any(|e| reads_any(e, fields)),
    }
}
