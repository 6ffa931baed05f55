//! Loops.

use std::rc::Rc;

use super::store::{Loc, Store, scalar};
use super::{Binding, Lowerer, Value, build};
use crate::Architecture;
use crate::hir::{self, Through};
use crate::ir::{self, BinaryOp, Expr, LabelId, Place, Stmt, UnaryOp};
use crate::source::Span;
use crate::types::Type;

/// The targets of `break` and `continue`.
#[derive(Clone, Copy)]
pub(super) struct Labels {
    pub(super) whole: LabelId,
    pub(super) turn: LabelId,
}

impl Lowerer<'_, '_> {
    fn label(&mut self) -> LabelId {
        self.labels += 1;
        LabelId(self.labels - 1)
    }

    /// Whether the architecture supports loops. Reports an error if not.
    fn may_loop(&mut self, span: Span) -> bool {
        let tofino = self.program.architecture() == Some(Architecture::Tna);
        if tofino {
            self.unsupported(span, "`for` loops on Tofino are");
        }
        !tofino
    }

    pub(super) fn for_loop(
        &mut self,
        init: &[hir::Stmt],
        condition: &hir::Expr,
        update: &[hir::Stmt],
        body: &[hir::Stmt],
        span: Span,
    ) {
        if !self.may_loop(span) {
            return;
        }
        self.statements(init);
        let whole = self.label();
        let turns = self.buffered(|l| {
            let holds = l.scalar(condition);
            if build::truth(&holds) != Some(true) {
                let condition = build::unary(UnaryOp::Not, holds);
                let (then, otherwise) = (vec![Stmt::Leave(whole)], Vec::new());
                l.emit(Stmt::If { condition, then, otherwise });
            }
            l.turn(whole, body);
            l.statements(update);
        });
        self.emit(Stmt::Loop(whole, turns));
    }

    pub(super) fn for_in(
        &mut self,
        variable: &Rc<hir::Variable>,
        through: &Through,
        body: &[hir::Stmt],
        span: Span,
    ) {
        if !self.may_loop(span) {
            return;
        }
        let store = self.local(&variable.name, &variable.ty);
        let loc = Loc::Store(store);
        match through {
            Through::Range(low, high) => self.for_range(&loc, variable, (low, high), body),
            Through::Stack(stack) => {
                let Type::Stack(_, size) = stack.ty else { return };
                let Value::Loc(Loc::Store(
                    Store::Stack(_, parts) | Store::UnionStack(_, parts) | Store::Array(_, parts),
                )) = self.value(stack)
                else {
                    self.unsupported(
                        stack.span,
                        "a loop through an array that is not a variable is",
                    );
                    return;
                };
                let parts = parts.iter().take(size as usize);
                let values = parts.map(|part| Value::Loc(Loc::Store(part.clone()))).collect();
                self.for_each(&loc, variable, values, body);
            }
            Through::List(items) => {
                let values = self.operands(items);
                let values = values.into_iter().zip(items);
                let values = values.map(|(value, item)| self.keep(value, &item.ty)).collect();
                self.for_each(&loc, variable, values, body);
            }
        }
    }

    /// Unrolls a loop over a list of values.
    fn for_each(
        &mut self,
        loc: &Loc,
        variable: &hir::Variable,
        values: Vec<Value>,
        body: &[hir::Stmt],
    ) {
        let whole = self.label();
        let turns = self.buffered(|l| {
            for value in values {
                l.assign(loc, value, &variable.ty);
                l.vars.insert(variable.id, Binding::Loc(loc.clone()));
                l.turn(whole, body);
            }
        });
        self.emit(Stmt::Labelled(whole, turns));
    }

    /// A loop over a range. The ends are evaluated once, and the last value may be the type's
    /// maximum.
    fn for_range(
        &mut self,
        loc: &Loc,
        variable: &hir::Variable,
        (low, high): (&hir::Expr, &hir::Expr),
        body: &[hir::Stmt],
    ) {
        let low = self.scalar(low);
        let Some(ty) = scalar(&variable.ty) else {
            // `bit<0>` has one value.
            self.scalar(high);
            self.for_each(loc, variable, vec![Value::Void], body);
            return;
        };
        let (at, last) = (self.temp("at", ty), self.temp("last", ty));
        self.emit(Stmt::Assign(Place::Field(at), low));
        let high = self.scalar(high);
        self.emit(Stmt::Assign(Place::Field(last), high));
        let read = |field| Expr { ty, kind: ir::ExprKind::Field(field) };
        let whole = self.label();
        let turns = self.buffered(|l| {
            l.assign(loc, Value::Scalar(read(at)), &variable.ty);
            l.vars.insert(variable.id, Binding::Loc(loc.clone()));
            l.turn(whole, body);
            let condition = build::binary(BinaryOp::Eq, read(at), read(last));
            let (then, otherwise) = (vec![Stmt::Leave(whole)], Vec::new());
            l.emit(Stmt::If { condition, then, otherwise });
            let next = build::binary(BinaryOp::Add, read(at), build::constant(&1.into(), ty));
            l.emit(Stmt::Assign(Place::Field(at), next));
        });
        self.emit(Stmt::If {
            condition: build::binary(BinaryOp::Le, read(at), read(last)),
            then: vec![Stmt::Loop(whole, turns)],
            otherwise: Vec::new(),
        });
    }

    /// One iteration of a loop.
    fn turn(&mut self, whole: LabelId, body: &[hir::Stmt]) {
        let turn = self.label();
        self.loops.push(Labels { whole, turn });
        let body = self.buffered(|l| l.statements(body));
        self.loops.pop();
        if leaves(&body, turn) {
            self.emit(Stmt::Labelled(turn, body));
        } else {
            self.out.extend(body);
        }
    }
}

/// Whether a body leaves the scope of a label.
fn leaves(body: &[Stmt], label: LabelId) -> bool {
    body.iter().any(|s| match s {
        Stmt::Leave(to) => *to == label,
        Stmt::If { then, otherwise, .. } => leaves(then, label) || leaves(otherwise, label),
        Stmt::Switch { cases, default, .. } => {
            leaves(default, label) || cases.iter().any(|(_, body)| leaves(body, label))
        }
        Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => leaves(body, label),
        _ => false,
    })
}
