//! Executes both sides of a branch.
//!
//! If the sides of an `if` only assign values, both are executed, and each field gets the value of
//! the side that is taken. So the path does not depend on the condition, and what follows, such as
//! the key of a table, depends on the inputs directly: the solver can choose several such conditions
//! at once.

use std::collections::BTreeSet;

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{Arg, Expr, FieldId, HeaderRef, Place, Stmt};

use crate::testgen::circuit::Lit;
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
            Stmt::Call(call) => match call.instance {
                // Counters have no effect on packets.
                Some(id) => {
                    let counters = ["counter", "direct_counter", "Counter", "DirectCounter"];
                    counters.contains(&program.externs[id.index()].type_name.as_str())
                }
                None => match call.method.as_str() {
                    "mark_to_drop" => true,
                    "min" | "max" => call.args.iter().all(|arg| match arg {
                        Arg::In(value) => is_direct(value),
                        Arg::Out(place, _) => matches!(place, Place::Field(_)),
                        _ => false,
                    }),
                    _ => false,
                },
            },
            _ => false,
        };
        self.plain.insert(address, plain);
        plain
    }

    pub(crate) fn are_plain(&mut self, body: &[Stmt]) -> bool {
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
        let written = self.written(&bodies);
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
        self.trace.sides.push(if self.trace.circuit.value(condition) {
            condition
        } else {
            !condition
        });
        self.guard = outer;
        for (at, field) in written.iter().enumerate() {
            let value = self.trace.circuit.mux(condition, &results[0][at], &results[1][at]);
            self.fields[field.index()] = value;
        }
    }
}

impl Machine<'_> {
    /// The fields that plain statements write.
    pub(crate) fn written(&mut self, bodies: &[&[Stmt]]) -> BTreeSet<FieldId> {
        let mut written = Written { machine: self, fields: BTreeSet::new() };
        bodies.iter().for_each(|body| written.visit_body(body));
        written.fields
    }
}

/// Collects the fields that plain statements write.
struct Written<'m, 'p> {
    machine: &'m Machine<'p>,
    fields: BTreeSet<FieldId>,
}

impl Visit<'_> for Written<'_, '_> {
    fn visit_stmt(&mut self, statement: &Stmt) {
        let program = self.machine.program;
        match statement {
            Stmt::Assign(Place::Field(field) | Place::Slice(field, ..), _) => {
                self.fields.insert(*field);
            }
            Stmt::SetValid(HeaderRef::Fixed(header))
            | Stmt::SetInvalid(HeaderRef::Fixed(header))
            | Stmt::Displace(HeaderRef::Fixed(header)) => {
                self.fields.insert(program.headers[header.index()].valid);
                self.fields.extend(self.machine.parts(*header));
            }
            Stmt::Action(id) => self.visit_body(&program.actions[id.index()].body),
            Stmt::Call(call) if matches!(call.method.as_str(), "min" | "max") => {
                for arg in &call.args {
                    if let Arg::Out(Place::Field(field), _) = arg {
                        self.fields.insert(*field);
                    }
                }
            }
            Stmt::Call(call) if call.method == "mark_to_drop" => {
                for name in ["egress_spec", "mcast_grp"] {
                    self.fields.extend(program.intrinsic_field(name));
                }
                if let Some(Arg::Copy(copied)) = call.args.first() {
                    self.fields.extend(copied.iter().map(|(_, field)| *field));
                }
            }
            _ => visit::walk_stmt(self, statement),
        }
    }

    /// Only statements write.
    fn visit_expr(&mut self, _: &Expr) {}
}

/// Whether a value does not depend on a header that is chosen at run time.
fn is_direct(expr: &Expr) -> bool {
    struct Direct(bool);
    impl Visit<'_> for Direct {
        fn visit_header(&mut self, header: &HeaderRef) {
            self.0 &= matches!(header, HeaderRef::Fixed(_));
        }
    }
    let mut direct = Direct(true);
    direct.visit_expr(expr);
    direct.0
}
