//! Statements.

use std::rc::Rc;

use super::{Checker, Entry, Place, VarKind};
use crate::ast::{self, Decl, DeclKind};
use crate::hir::{self, ApplyPart, Expr, ExprKind, Stmt, StmtKind};
use crate::source::Span;
use crate::types::Type;

impl Checker<'_, '_> {
    pub(super) fn statements(&mut self, list: &[ast::Stmt]) -> Vec<Stmt> {
        list.iter().filter_map(|s| self.statement(s)).collect()
    }

    fn nested(&mut self, s: &ast::Stmt) -> Vec<Stmt> {
        self.scoped(|c| match &s.kind {
            ast::StmtKind::Block(list) => c.statements(list),
            _ => c.statement(s).into_iter().collect(),
        })
    }

    fn statement(&mut self, s: &ast::Stmt) -> Option<Stmt> {
        let kind = match &s.kind {
            ast::StmtKind::Empty => return None,
            ast::StmtKind::Decl(decl) => return self.local(decl),
            ast::StmtKind::Assign(to, value) => {
                let to = self.expr(to);
                let writable = self.writable(&to);
                let value = self.expect(value, &to.ty);
                if !writable {
                    return None;
                }
                StmtKind::Assign(to, value)
            }
            ast::StmtKind::Update(op, to, value) => {
                let to = self.expr(to);
                let writable = self.writable(&to);
                let value = self.expr(value);
                let old = self.fresh();
                let read = Expr { span: to.span, ty: to.ty.clone(), kind: ExprKind::Var(old) };
                let result = self.binary(*op, read, value, s.span);
                let value = self.coerce(result, &to.ty);
                if !writable {
                    return None;
                }
                StmtKind::Update { to, old, value }
            }
            ast::StmtKind::Call(call) => StmtKind::Call(self.expr(call)),
            ast::StmtKind::If(condition, then, otherwise) => {
                let condition = self.expect(condition, &Type::Bool);
                let then = self.nested(then);
                let otherwise = otherwise.as_ref().map_or_else(Vec::new, |s| self.nested(s));
                StmtKind::If(condition, then, otherwise)
            }
            ast::StmtKind::Block(list) => StmtKind::Block(self.scoped(|c| c.statements(list))),
            ast::StmtKind::Switch(on, cases) => return self.switch(on, cases, s.span),
            ast::StmtKind::Exit => {
                if matches!(self.place, Place::Parser | Place::Function | Place::Method) {
                    self.error(s.span, "`exit` stands in controls and actions only");
                }
                StmtKind::Exit
            }
            ast::StmtKind::Return(value) => {
                if self.place == Place::Parser {
                    self.error(s.span, "a parser state has no `return`");
                }
                let ret = self.ret.clone();
                match (value, ret) {
                    (None, Type::Void | Type::Unknown) => StmtKind::Return(None),
                    (None, ret) => {
                        self.error(s.span, format!("`return` needs a value of type {ret}"));
                        return None;
                    }
                    (Some(value), Type::Void) => {
                        self.error(value.span, "nothing is returned here");
                        return None;
                    }
                    (Some(value), ret) => StmtKind::Return(Some(self.expect(value, &ret))),
                }
            }
            ast::StmtKind::Unsupported(what) => {
                self.unsupported(s.span, what);
                return None;
            }
        };
        Some(Stmt { span: s.span, kind })
    }

    fn local(&mut self, decl: &Decl) -> Option<Stmt> {
        match &decl.kind {
            DeclKind::Const { .. } => {
                self.constant(decl);
                None
            }
            DeclKind::Variable { .. } => {
                let variable = self.variable(decl)?;
                Some(Stmt { span: decl.span, kind: StmtKind::Var(variable) })
            }
            _ => {
                self.error_help(
                    decl.name.span,
                    "instances cannot be declared among statements",
                    "declare it before the `apply` block",
                );
                self.declare(&decl.name, Entry::Broken);
                None
            }
        }
    }

    /// `T x = e;` in a block.
    pub(super) fn variable(&mut self, decl: &Decl) -> Option<Rc<hir::Variable>> {
        let DeclKind::Variable { ty, init } = &decl.kind else { return None };
        let ty = self.resolve(ty);
        let init = init.as_ref().map(|e| self.expect(e, &ty));
        if matches!(
            ty,
            Type::Void
                | Type::Int
                | Type::Text
                | Type::MatchKind
                | Type::Extern(..)
                | Type::Block(_)
                | Type::Package(_)
        ) {
            self.error(decl.span, format!("there are no variables of type {ty}"));
            self.declare(&decl.name, Entry::Broken);
            return None;
        }
        let id = self.declare_var(&decl.name, ty.clone(), VarKind::Local);
        Some(Rc::new(hir::Variable { id, name: decl.name.name.clone(), ty, init }))
    }

    fn switch(&mut self, on: &ast::Expr, cases: &[ast::SwitchCase], span: Span) -> Option<Stmt> {
        let on = self.expr(on);
        let action_run = match &on.kind {
            ExprKind::Apply(table, ApplyPart::ActionRun) => Some(table.clone()),
            _ => None,
        };
        let mut bodies: Vec<(Vec<&ast::Expr>, Vec<Stmt>)> = Vec::new();
        let mut default = Vec::new();
        let (mut labels, mut falls_to_default) = (Vec::new(), false);
        for (i, case) in cases.iter().enumerate() {
            match &case.label {
                Some(label) => labels.push(label),
                None if i + 1 == cases.len() => falls_to_default = true,
                None => self.error(case.span, "`default` is the last case of a switch"),
            }
            let Some(body) = &case.body else {
                if i + 1 == cases.len() {
                    self.error(case.span, "the last case of a switch needs a body");
                }
                continue;
            };
            let body = self.scoped(|c| c.statements(body));
            let labels = std::mem::take(&mut labels);
            if falls_to_default {
                default = body;
            } else {
                bodies.push((labels, body));
            }
        }
        if let Some(table) = action_run {
            return self.switch_action(table, bodies, default, span);
        }
        match on.ty.repr() {
            Type::Unknown => return None,
            Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Enum(_) | Type::ErrorCode => {}
            other => {
                self.error(on.span, format!("a switch needs an integer, an enum or `table.apply().action_run`, not {other}"));
                return None;
            }
        }
        let ty = on.ty.clone();
        let mut checked = Vec::with_capacity(bodies.len());
        let mut seen: Vec<ExprKind> = Vec::new();
        for (labels, body) in bodies {
            let mut values = Vec::new();
            for label in labels {
                let value = self.expect(label, &ty);
                if !super::decls::is_constant(&value) {
                    self.error(value.span, "a case's label must be known at compile time");
                    continue;
                }
                let twice = seen.iter().any(|s| match (s, &value.kind) {
                    (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
                    (ExprKind::Member(a), ExprKind::Member(b)) => a == b,
                    (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
                    _ => false,
                });
                if twice {
                    self.error(value.span, "this case occurs twice");
                }
                seen.push(value.kind.clone());
                values.push(value);
            }
            checked.push((values, body));
        }
        Some(Stmt { span, kind: StmtKind::Switch(on, checked, default) })
    }

    fn switch_action(
        &mut self,
        table: Rc<hir::Table>,
        bodies: Vec<(Vec<&ast::Expr>, Vec<Stmt>)>,
        default: Vec<Stmt>,
        span: Span,
    ) -> Option<Stmt> {
        let mut seen = Vec::new();
        let mut checked = Vec::with_capacity(bodies.len());
        for (labels, body) in bodies {
            let mut positions = Vec::new();
            for label in labels {
                let name = match &label.kind {
                    ast::ExprKind::Name(name) | ast::ExprKind::Global(name) => name,
                    _ => {
                        self.error(label.span, "a case of `action_run` is an action's name");
                        continue;
                    }
                };
                match table.actions.iter().position(|a| a.action.name == name.name) {
                    Some(p) if seen.contains(&p) => {
                        self.error(name.span, "this action has two cases")
                    }
                    Some(p) => {
                        seen.push(p);
                        positions.push(p);
                    }
                    None => {
                        self.error(
                            name.span,
                            format!("`{}` is no action of table `{}`", name.name, table.name),
                        );
                    }
                }
            }
            checked.push((positions, body));
        }
        Some(Stmt { span, kind: StmtKind::SwitchAction(table, checked, default) })
    }

    /// Whether a parser state may hold the statement.
    pub(super) fn parser_statement(&mut self, s: &Stmt) {
        if let StmtKind::Switch(..) | StmtKind::SwitchAction(..) = s.kind {
            self.error(s.span, "a parser state has no `switch`: use `transition select`");
        }
    }

    /// A value that is bool-like for verification by callers.
    pub(super) fn expect_all(&mut self, list: &[ast::Expr]) -> Vec<Expr> {
        list.iter().map(|e| self.expr(e)).collect()
    }
}
