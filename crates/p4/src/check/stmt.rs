//! Statements.

use std::rc::Rc;

use super::{Checker, Entry, Place, VarKind};
use crate::ast::{self, Decl, DeclKind};
use crate::hir::{self, ApplyPart, Expr, ExprKind, Stmt, StmtKind, Through};
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
        self.reporter.step(s.span);
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
            ast::StmtKind::Return(value) => self.return_statement(value.as_ref(), s.span)?,
            ast::StmtKind::For { init, condition, update, body } => {
                return self.scoped(|c| {
                    let init = c.statements(init);
                    let condition = c.expect(condition, &Type::Bool);
                    let update = c.statements(update);
                    let body = c.loop_body(body);
                    let kind = StmtKind::For { init, condition, update, body };
                    Some(Stmt { span: s.span, kind })
                });
            }
            ast::StmtKind::ForIn { variable, collection, body } => {
                return self.scoped(|c| c.for_in(variable, collection, body, s.span));
            }
            ast::StmtKind::Break | ast::StmtKind::Continue => {
                let (kind, name) = match s.kind {
                    ast::StmtKind::Break => (StmtKind::Break, "break"),
                    _ => (StmtKind::Continue, "continue"),
                };
                if self.loops == 0 {
                    self.error(s.span, format!("`{name}` stands in loops only"));
                    return None;
                }
                kind
            }
        };
        Some(Stmt { span: s.span, kind })
    }

    fn return_statement(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        if self.place == Place::Parser {
            self.error(span, "a parser state has no `return`");
        }
        let value = match (value, self.ret.clone()) {
            (None, Type::Void | Type::Unknown) => None,
            (None, ret) => {
                self.error(span, format!("`return` needs a value of type {ret}"));
                return None;
            }
            (Some(value), Type::Void) => {
                self.error(value.span, "nothing is returned here");
                return None;
            }
            (Some(value), ret) => Some(self.expect(value, &ret)),
        };
        Some(StmtKind::Return(value))
    }

    fn loop_body(&mut self, body: &ast::Stmt) -> Vec<Stmt> {
        self.loops += 1;
        let body = self.nested(body);
        self.loops -= 1;
        body
    }

    /// `for (T x in collection) body`
    fn for_in(
        &mut self,
        variable: &Decl,
        collection: &ast::Expr,
        body: &ast::Stmt,
        span: Span,
    ) -> Option<Stmt> {
        let DeclKind::Variable { ty, .. } = &variable.kind else { return None };
        let ty = self.resolve(ty);
        let through = self.through(collection, &ty);
        let variable = self.variable(variable);
        let body = self.loop_body(body);
        let (through, variable) = (through?, variable?);
        Some(Stmt { span, kind: StmtKind::ForIn { variable, through, body } })
    }

    /// The collection over which a variable of this type iterates.
    fn through(&mut self, collection: &ast::Expr, ty: &Type) -> Option<Through> {
        if let ast::ExprKind::Range(low, high) = &collection.kind {
            let (low, high) = (self.expect(low, ty), self.expect(high, ty));
            if !matches!(ty.repr(), Type::Bit(_) | Type::Signed(_) | Type::Unknown) {
                self.error(collection.span, format!("a range has no values of type {ty}"));
                return None;
            }
            return Some(Through::Range(low, high));
        }
        let value = self.expr(collection);
        match (&value.ty, value.kind) {
            (Type::Unknown, _) => None,
            (Type::Stack(of, size), kind) => {
                let stack = Type::Stack(of.clone(), *size);
                if **of != *ty && !matches!(ty, Type::Unknown) {
                    let message = format!("the elements of {stack} are no {ty}");
                    self.error(collection.span, message);
                    return None;
                }
                Some(Through::Stack(Expr { span: value.span, ty: stack, kind }))
            }
            (_, ExprKind::List(items)) => {
                Some(Through::List(items.into_iter().map(|item| self.coerce(item, ty)).collect()))
            }
            (other, _) => {
                let message =
                    format!("a loop goes through a range, a stack or a list, not {other}");
                self.error(collection.span, message);
                None
            }
        }
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
                | Type::List(_)
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
        let mut bodies: Vec<(Vec<&ast::Expr>, Option<Vec<Stmt>>)> = Vec::new();
        let mut default = Vec::new();
        let (mut labels, mut falls_to_default) = (Vec::new(), false);
        for (i, case) in cases.iter().enumerate() {
            match &case.label {
                Some(label) => labels.push(label),
                None if i + 1 == cases.len() => falls_to_default = true,
                None => self.error(case.span, "`default` is the last case of a switch"),
            }
            let body = match &case.body {
                Some(body) => self.scoped(|c| c.statements(body)),
                // The last case cannot fall through.
                None if i + 1 == cases.len() => Vec::new(),
                None => continue,
            };
            let labels = std::mem::take(&mut labels);
            if falls_to_default {
                // Labels directly before `default` are checked like others, and have no other body.
                if !labels.is_empty() {
                    bodies.push((labels, None));
                }
                default = body;
            } else {
                bodies.push((labels, Some(body)));
            }
        }
        if let Some(table) = action_run {
            return self.switch_action(table, bodies, default, span);
        }
        match on.ty.operand() {
            Type::Unknown => return None,
            Type::Bit(_) | Type::Signed(_) | Type::Enum(_) | Type::ErrorCode => {}
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
                self.reporter.work(seen.len() as u64 / 16);
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
            checked.extend(body.map(|body| (values, body)));
        }
        Some(Stmt { span, kind: StmtKind::Switch(on, checked, default) })
    }

    fn switch_action(
        &mut self,
        table: Rc<hir::Table>,
        bodies: Vec<(Vec<&ast::Expr>, Option<Vec<Stmt>>)>,
        default: Vec<Stmt>,
        span: Span,
    ) -> Option<Stmt> {
        let mut seen = Vec::new();
        let mut checked = Vec::with_capacity(bodies.len());
        for (labels, body) in bodies {
            let mut positions = Vec::new();
            for label in labels {
                let (name, global) = match &label.kind {
                    ast::ExprKind::Name(name) => (name, false),
                    ast::ExprKind::Global(name) => (name, true),
                    _ => {
                        self.error(label.span, "a case of `action_run` is an action's name");
                        continue;
                    }
                };
                let is_meant = |action: &hir::Action| {
                    action.name == name.name && (!global || action.top_level)
                };
                self.reporter.work(table.actions.len() as u64 / 16);
                match table.actions.iter().position(|a| is_meant(&a.action)) {
                    Some(p) if seen.contains(&p) => {
                        self.error(name.span, "this action has two cases")
                    }
                    Some(p) => {
                        seen.push(p);
                        positions.push(p);
                    }
                    None if !self.complete => {}
                    None => {
                        self.error(
                            name.span,
                            format!("`{}` is not an action of table `{}`", name.name, table.name),
                        );
                    }
                }
            }
            checked.extend(body.map(|body| (positions, body)));
        }
        Some(Stmt { span, kind: StmtKind::SwitchAction(table, checked, default) })
    }

    /// Reports statements that a parser state must not contain.
    pub(super) fn parser_statement(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Switch(..) | StmtKind::SwitchAction(..) => {
                self.error(s.span, "a parser state has no `switch`: use `transition select`");
            }
            StmtKind::For { .. } | StmtKind::ForIn { .. } => {
                self.error(s.span, "a parser state has no loops: let a state go to itself");
            }
            StmtKind::If(_, then, otherwise) => {
                then.iter().chain(otherwise).for_each(|s| self.parser_statement(s));
            }
            StmtKind::Block(body) => body.iter().for_each(|s| self.parser_statement(s)),
            _ => {}
        }
    }

    /// Checks a list of expressions.
    pub(super) fn expect_all(&mut self, list: &[ast::Expr]) -> Vec<Expr> {
        list.iter().map(|e| self.expr(e)).collect()
    }
}
