//! Walks all statements and expressions of a program.

use tributary_p4::ir::{Arg, Expr, ExprKind, HeaderRef, Place, Program, Stmt, Transition};

/// A visitor; parents are visited before children.
pub(super) trait Scan {
    fn statement(&mut self, _statement: &Stmt) {}
    fn expr(&mut self, _expr: &Expr) {}
}

/// Walks parsers, controls, actions, keys of tables and stateful actions.
pub(super) fn program<'s, S: Scan>(program: &Program, scan: &'s mut S) -> &'s S {
    for state in program.parsers.iter().flat_map(|parser| &parser.states) {
        body(&state.body, scan);
        if let Transition::Select { on, .. } = &state.transition {
            on.iter().for_each(|value| expr(value, scan));
        }
    }
    for control in &program.controls {
        body(&control.body, scan);
    }
    for action in &program.actions {
        body(&action.body, scan);
    }
    for action in &program.stateful {
        body(&action.body, scan);
    }
    for table in &program.tables {
        table.keys.iter().for_each(|key| expr(&key.value, scan));
        table.actions.iter().for_each(|action| body(&action.prologue, scan));
    }
    scan
}

/// Walks statements.
pub(super) fn body(statements: &[Stmt], scan: &mut impl Scan) {
    for statement in statements {
        scan.statement(statement);
        match statement {
            Stmt::Assign(to, value) => {
                place(to, scan);
                expr(value, scan);
            }
            Stmt::CopyHeader { to, from } => {
                header(to, scan);
                header(from, scan);
            }
            Stmt::SetValid(of) | Stmt::SetInvalid(of) | Stmt::Displace(of) | Stmt::Emit(of) => {
                header(of, scan);
            }
            Stmt::If { condition, then, otherwise } => {
                expr(condition, scan);
                body(then, scan);
                body(otherwise, scan);
            }
            Stmt::Switch { on, cases, default } => {
                expr(on, scan);
                cases.iter().for_each(|(_, case)| body(case, scan));
                body(default, scan);
            }
            Stmt::Call(call) => {
                for arg in &call.args {
                    match arg {
                        Arg::In(value) => expr(value, scan),
                        Arg::Out(to, _) => place(to, scan),
                        Arg::List(values) => values.iter().for_each(|value| expr(value, scan)),
                        Arg::Header(of) => header(of, scan),
                        Arg::Opaque | Arg::Copy(_) | Arg::Text(_) | Arg::Symbol(..) => {}
                    }
                }
            }
            Stmt::Extract { header: of, varbit_bits } => {
                header(of, scan);
                varbit_bits.iter().for_each(|bits| expr(bits, scan));
            }
            Stmt::Advance(bits) => expr(bits, scan),
            Stmt::Verify { condition, error } => {
                expr(condition, scan);
                expr(error, scan);
            }
            Stmt::Block(inner) | Stmt::Loop(_, inner) | Stmt::Labelled(_, inner) => {
                body(inner, scan);
            }
            Stmt::PushFront(..)
            | Stmt::PopFront(..)
            | Stmt::Apply { .. }
            | Stmt::Action(_)
            | Stmt::Lookahead(_)
            | Stmt::Leave(_)
            | Stmt::Mark(_)
            | Stmt::Exit
            | Stmt::Return => {}
        }
    }
}

fn expr(value: &Expr, scan: &mut impl Scan) {
    scan.expr(value);
    match &value.kind {
        ExprKind::Const(_) | ExprKind::Field(_) => {}
        ExprKind::Valid(of) => header(of, scan),
        ExprKind::Element(_, index, _) => expr(index, scan),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => expr(a, scan),
        ExprKind::Slice { value, .. } => expr(value, scan),
        ExprKind::Binary(_, a, b) => {
            expr(a, scan);
            expr(b, scan);
        }
        ExprKind::Mux(condition, a, b) => {
            expr(condition, scan);
            expr(a, scan);
            expr(b, scan);
        }
    }
}

fn place(to: &Place, scan: &mut impl Scan) {
    if let Place::Element(_, index, _) = to {
        expr(index, scan);
    }
}

fn header(of: &HeaderRef, scan: &mut impl Scan) {
    if let HeaderRef::Index(_, index) = of {
        expr(index, scan);
    }
}
