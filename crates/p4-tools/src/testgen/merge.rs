//! Executes both sides of a branch.
//!
//! If the sides of an `if` only assign values, both are executed, and each field gets the value of
//! the side that is taken. So the path does not depend on the condition, and what follows, such as
//! the key of a table, depends on the inputs directly: the solver can choose several such conditions
//! at once.

use std::collections::BTreeSet;

use tributary_p4::ir::{Expr, ExprKind, FieldId, HeaderRef, Place, Stmt};

use crate::testgen::circuit::Lit;
use crate::testgen::goals::counted;
use crate::testgen::machine::Machine;

impl Machine<'_> {
    /// Whether a statement only assigns values, and has no effect on what is executed next.
    pub(crate) fn is_plain(&mut self, statement: &Stmt) -> bool {
        let address: *const Stmt = statement;
        if let Some(&known) = self.plain.get(&address) {
            return known;
        }
        let program = self.program;
        let plain = match statement {
            Stmt::Assign(Place::Field(_) | Place::Slice(..), value) => is_direct(value),
            Stmt::SetValid(header) | Stmt::SetInvalid(header) | Stmt::Displace(header) => {
                matches!(header, HeaderRef::Fixed(_))
            }
            Stmt::If { condition, then, otherwise } => {
                is_direct(condition) && self.are_plain(then) && self.are_plain(otherwise)
            }
            Stmt::Action(id) => self.are_plain(&program.actions[id.index()].body),
            Stmt::Block(body) => self.are_plain(body),
            Stmt::Call(call) => {
                counted(statement, self.of.counter).is_some()
                    || call.instance.is_none() && call.method == "mark_to_drop"
            }
            _ => false,
        };
        self.plain.insert(address, plain);
        plain
    }

    fn are_plain(&mut self, body: &[Stmt]) -> bool {
        body.iter().all(|statement| self.is_plain(statement))
    }

    /// Executes both sides of a branch whose statements are plain.
    pub(crate) fn merge(
        &mut self,
        condition: Lit,
        bodies: [&[Stmt]; 2],
        goals: [Option<usize>; 2],
        site: u64,
    ) {
        let outer = self.guard;
        let mut written = BTreeSet::new();
        bodies.iter().for_each(|body| self.written(body, &mut written));
        let before: Vec<_> = written.iter().map(|field| self.field(*field).clone()).collect();
        let mut results = Vec::new();
        for (number, body) in bodies.into_iter().enumerate() {
            let taken = if number == 0 { condition } else { !condition };
            self.guard = self.trace.circuit.and(outer, taken);
            if !self.trace.circuit.value(self.guard) && !self.guard.is_constant() {
                self.branch(self.guard, goals[number], site << 1 | number as u64, false);
            }
            for (field, value) in written.iter().zip(&before) {
                self.fields[field.index()].clone_from(value);
            }
            self.statements(body);
            results
                .push(written.iter().map(|field| self.field(*field).clone()).collect::<Vec<_>>());
        }
        self.guard = outer;
        for (at, field) in written.iter().enumerate() {
            let value = self.trace.circuit.mux(condition, &results[0][at], &results[1][at]);
            self.fields[field.index()] = value;
        }
    }

    /// The fields that plain statements write.
    fn written(&self, body: &[Stmt], fields: &mut BTreeSet<FieldId>) {
        for statement in body {
            match statement {
                Stmt::Assign(Place::Field(field) | Place::Slice(field, ..), _) => {
                    fields.insert(*field);
                }
                Stmt::SetValid(HeaderRef::Fixed(header))
                | Stmt::SetInvalid(HeaderRef::Fixed(header))
                | Stmt::Displace(HeaderRef::Fixed(header)) => {
                    fields.insert(self.program.headers[header.index()].valid);
                    fields.extend(self.parts(*header));
                }
                Stmt::If { then, otherwise, .. } => {
                    self.written(then, fields);
                    self.written(otherwise, fields);
                }
                Stmt::Action(id) => self.written(&self.program.actions[id.index()].body, fields),
                Stmt::Block(body) => self.written(body, fields),
                Stmt::Call(call) if call.method == "mark_to_drop" => {
                    for name in ["egress_spec", "mcast_grp"] {
                        fields.extend(self.program.intrinsic_field(name));
                    }
                    if let Some(tributary_p4::ir::Arg::Copy(copied)) = call.args.first() {
                        fields.extend(copied.iter().map(|(_, field)| *field));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a value does not depend on a header that is chosen at run time.
fn is_direct(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Field(_) => true,
        ExprKind::Valid(header) => matches!(header, HeaderRef::Fixed(_)),
        ExprKind::Element(_, index, _) => is_direct(index),
        ExprKind::Unary(_, value) | ExprKind::Cast(value) | ExprKind::Slice { value, .. } => {
            is_direct(value)
        }
        ExprKind::Binary(_, left, right) => is_direct(left) && is_direct(right),
        ExprKind::Mux(condition, then, otherwise) => {
            [condition, then, otherwise].into_iter().all(|value| is_direct(value))
        }
    }
}
