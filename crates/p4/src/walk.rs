//! Visits every expression of checked code.

use crate::hir::{Callee, Expr, ExprKind, Stmt, StmtKind, Through};

/// Calls `f` with an expression and all of its subexpressions.
pub(crate) fn expr<'e>(e: &'e Expr, f: &mut impl FnMut(&'e Expr)) {
    f(e);
    match &e.kind {
        ExprKind::Field(a, _)
        | ExprKind::Next(a)
        | ExprKind::Last(a)
        | ExprKind::LastIndex(a)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a)
        | ExprKind::IsValid(a) => expr(a, f),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
            expr(a, f);
            expr(b, f);
        }
        ExprKind::Mux(a, b, c) => {
            expr(a, f);
            expr(b, f);
            expr(c, f);
        }
        ExprKind::List(items) => items.iter().for_each(|e| expr(e, f)),
        ExprKind::Record(items) => items.iter().for_each(|(_, e)| expr(e, f)),
        ExprKind::Construct(c) => c.args.iter().for_each(|e| expr(e, f)),
        ExprKind::Call(call) => {
            match &call.target {
                Callee::Extern { instance: Some((e, _)), .. }
                | Callee::SetValid(e)
                | Callee::SetInvalid(e)
                | Callee::PushFront(e, _)
                | Callee::PopFront(e, _) => expr(e, f),
                _ => {}
            }
            call.args.iter().flat_map(|a| &a.value).for_each(|e| expr(e, f));
        }
        _ => {}
    }
}

/// Calls `f` with all expressions in statements.
pub(crate) fn stmts<'e>(list: &'e [Stmt], f: &mut impl FnMut(&'e Expr)) {
    for s in list {
        match &s.kind {
            StmtKind::Var(v) => v.init.iter().for_each(|e| expr(e, f)),
            StmtKind::Assign(a, b) | StmtKind::Update { to: a, value: b, .. } => {
                expr(a, f);
                expr(b, f);
            }
            StmtKind::Call(e) | StmtKind::Return(Some(e)) => expr(e, f),
            StmtKind::If(c, a, b) => {
                expr(c, f);
                stmts(a, f);
                stmts(b, f);
            }
            StmtKind::Block(list) => stmts(list, f),
            StmtKind::Switch(on, cases, default) => {
                expr(on, f);
                for (labels, body) in cases {
                    labels.iter().for_each(|e| expr(e, f));
                    stmts(body, f);
                }
                stmts(default, f);
            }
            StmtKind::SwitchAction(_, cases, default) => {
                cases.iter().for_each(|(_, body)| stmts(body, f));
                stmts(default, f);
            }
            StmtKind::For { init, condition, update, body } => {
                stmts(init, f);
                expr(condition, f);
                stmts(update, f);
                stmts(body, f);
            }
            StmtKind::ForIn { through, body, .. } => {
                match through {
                    Through::Range(a, b) => {
                        expr(a, f);
                        expr(b, f);
                    }
                    Through::Stack(e) => expr(e, f),
                    Through::List(items) => items.iter().for_each(|e| expr(e, f)),
                }
                stmts(body, f);
            }
            StmtKind::Exit | StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
        }
    }
}
