//! A visitor of the statements, expressions and headers of a program.

use super::{Arg, Expr, ExprKind, HeaderRef, Place, Program, Stmt, Transition};

/// Visits statements, expressions and headers in the order of the program, each before its parts. A
/// method that is replaced visits the parts only if it calls the function `walk_…` of its name; for
/// `visit_body`, a loop over the statements. Actions and tables that a statement names are not parts of it.
#[expect(missing_docs, reason = "one method for each kind of part, by name")]
pub trait Visit<'p> {
    fn visit_body(&mut self, body: &'p [Stmt]) {
        body.iter().for_each(|stmt| self.visit_stmt(stmt));
    }

    fn visit_stmt(&mut self, stmt: &'p Stmt) {
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'p Expr) {
        walk_expr(self, expr);
    }

    fn visit_header(&mut self, header: &'p HeaderRef) {
        walk_header(self, header);
    }
}

/// Visits parsers, controls, actions, stateful actions, and keys and action lists of tables.
pub fn walk_program<'p>(visitor: &mut (impl Visit<'p> + ?Sized), program: &'p Program) {
    for state in program.parsers.iter().flat_map(|parser| &parser.states) {
        visitor.visit_body(&state.body);
        if let Transition::Select { on, .. } = &state.transition {
            on.iter().for_each(|value| visitor.visit_expr(value));
        }
    }
    program.controls.iter().for_each(|control| visitor.visit_body(&control.body));
    program.actions.iter().for_each(|action| visitor.visit_body(&action.body));
    program.stateful.iter().for_each(|action| visitor.visit_body(&action.body));
    for table in &program.tables {
        table.keys.iter().for_each(|key| visitor.visit_expr(&key.value));
        table.actions.iter().for_each(|action| visitor.visit_body(&action.prologue));
    }
}

/// Visits the parts of a statement.
pub fn walk_stmt<'p>(visitor: &mut (impl Visit<'p> + ?Sized), stmt: &'p Stmt) {
    match stmt {
        Stmt::Assign(to, value) => {
            walk_place(visitor, to);
            visitor.visit_expr(value);
        }
        Stmt::CopyHeader { to, from } => {
            visitor.visit_header(to);
            visitor.visit_header(from);
        }
        Stmt::SetValid(header)
        | Stmt::SetInvalid(header)
        | Stmt::Displace(header)
        | Stmt::Emit(header) => visitor.visit_header(header),
        Stmt::If { condition, then, otherwise } => {
            visitor.visit_expr(condition);
            visitor.visit_body(then);
            visitor.visit_body(otherwise);
        }
        Stmt::Switch { on, cases, default } => {
            visitor.visit_expr(on);
            cases.iter().for_each(|(_, body)| visitor.visit_body(body));
            visitor.visit_body(default);
        }
        Stmt::Call(call) => call.args.iter().for_each(|arg| walk_arg(visitor, arg)),
        Stmt::Extract { header, varbit_bits } => {
            visitor.visit_header(header);
            varbit_bits.iter().for_each(|bits| visitor.visit_expr(bits));
        }
        Stmt::Advance(bits) => visitor.visit_expr(bits),
        Stmt::Verify { condition, error } => {
            visitor.visit_expr(condition);
            visitor.visit_expr(error);
        }
        Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => {
            visitor.visit_body(body);
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

/// Visits the parts of an expression.
pub fn walk_expr<'p>(visitor: &mut (impl Visit<'p> + ?Sized), expr: &'p Expr) {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Field(_) => {}
        ExprKind::Valid(header) => visitor.visit_header(header),
        ExprKind::Element(_, value, _)
        | ExprKind::Unary(_, value)
        | ExprKind::Cast(value)
        | ExprKind::Slice { value, .. } => visitor.visit_expr(value),
        ExprKind::Binary(_, left, right) => {
            visitor.visit_expr(left);
            visitor.visit_expr(right);
        }
        ExprKind::Mux(condition, then, otherwise) => {
            visitor.visit_expr(condition);
            visitor.visit_expr(then);
            visitor.visit_expr(otherwise);
        }
    }
}

/// Visits the index of a header in its stack.
pub fn walk_header<'p>(visitor: &mut (impl Visit<'p> + ?Sized), header: &'p HeaderRef) {
    if let HeaderRef::Index(_, index) = header {
        visitor.visit_expr(index);
    }
}

fn walk_arg<'p>(visitor: &mut (impl Visit<'p> + ?Sized), arg: &'p Arg) {
    match arg {
        Arg::In(value) => visitor.visit_expr(value),
        Arg::Out(to, _) => walk_place(visitor, to),
        Arg::List(values) => values.iter().for_each(|value| visitor.visit_expr(value)),
        Arg::Header(header) => visitor.visit_header(header),
        Arg::Opaque | Arg::Copy(_) | Arg::Text(_) | Arg::Symbol(..) => {}
    }
}

fn walk_place<'p>(visitor: &mut (impl Visit<'p> + ?Sized), to: &'p Place) {
    if let Place::Element(_, index, _) = to {
        visitor.visit_expr(index);
    }
}
