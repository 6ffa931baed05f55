//! Statements.

use super::{Failed, Parse, Parser};
use crate::ast::{Decl, DeclKind, Expr, ExprKind, Stmt, StmtKind, SwitchCase};
use crate::ir::BinaryOp;
use crate::lexer::Kind;

impl Parser<'_, '_> {
    /// `{ statements }` in a scope of its own.
    pub(super) fn block(&mut self, what: &str) -> Parse<Vec<Stmt>> {
        self.annotations()?;
        self.expect(Kind::LBrace, &format!("`{{` and {what}"))?;
        self.scoped(|p| {
            let mut body = Vec::new();
            p.until_brace(|p| {
                body.push(p.statement()?);
                Ok(())
            })?;
            Ok(body)
        })
    }

    pub(super) fn statement(&mut self) -> Parse<Stmt> {
        self.nested(Self::statement_here)
    }

    fn statement_here(&mut self) -> Parse<Stmt> {
        let start = self.span();
        let annotations = self.annotations()?;
        let kind = match self.kind() {
            Kind::Semicolon => {
                self.bump();
                StmtKind::Empty
            }
            Kind::LBrace => StmtKind::Block(self.block("statements")?),
            Kind::If => {
                self.bump();
                self.expect(Kind::LParen, "`(` and the condition")?;
                let condition = self.expression()?;
                self.expect(Kind::RParen, "`)` after the condition")?;
                let then = Box::new(self.scoped(Self::statement)?);
                let otherwise = if self.eat(Kind::Else) {
                    Some(Box::new(self.scoped(Self::statement)?))
                } else {
                    None
                };
                StmtKind::If(condition, then, otherwise)
            }
            Kind::Switch => self.switch()?,
            Kind::Exit => {
                self.bump();
                self.expect_semicolon("`exit`")?;
                StmtKind::Exit
            }
            Kind::Return => {
                self.bump();
                let value =
                    if self.kind() == Kind::Semicolon { None } else { Some(self.expression()?) };
                self.expect_semicolon("`return`")?;
                StmtKind::Return(value)
            }
            Kind::Break => {
                self.bump();
                self.expect_semicolon("`break`")?;
                StmtKind::Break
            }
            Kind::Continue => {
                self.bump();
                self.expect_semicolon("`continue`")?;
                StmtKind::Continue
            }
            Kind::For => self.scoped(Self::for_loop)?,
            Kind::Const => StmtKind::Decl(Box::new(self.constant(start, annotations)?)),
            _ => {
                if self.starts_declaration() {
                    StmtKind::Decl(Box::new(self.local_declaration(start, annotations)?))
                } else {
                    self.assignment_or_call()?
                }
            }
        };
        Ok(Stmt { span: self.since(start), kind })
    }

    /// Whether the current tokens are `type name` or `type(args) name`, rather than an expression.
    fn starts_declaration(&mut self) -> bool {
        if !self.at_type() {
            // An unknown type: `foo_t x;` has no other meaning.
            return self.kind() == Kind::ValueSet
                || (self.kind() == Kind::Ident && self.ahead(1) == Kind::Ident);
        }
        if self.kind() != Kind::Ident {
            return true;
        }
        match self.ahead(1) {
            Kind::Dot => false,
            // Distinguishes `Type(args) name` from a call of an object that shadows a type.
            Kind::LParen => self
                .attempt(|p| {
                    let at = p.at;
                    p.bump();
                    p.args()?;
                    let named = p.kind() == Kind::Ident;
                    p.at = at;
                    if named { Ok(()) } else { Err(Failed) }
                })
                .is_some(),
            _ => true,
        }
    }

    fn local_declaration(
        &mut self,
        start: crate::source::Span,
        annotations: crate::ast::Annotations,
    ) -> Parse<Decl> {
        let decl = self.typed_declaration(start, annotations)?;
        if let DeclKind::Function(_) = decl.kind {
            self.error(decl.name.span, "functions are declared at the top level only".to_owned());
            return Err(Failed);
        }
        Ok(decl)
    }

    fn assignment_or_call(&mut self) -> Parse<StmtKind> {
        let kind = self.simple_statement()?;
        let what = if matches!(kind, StmtKind::Call(_)) { "the call" } else { "the assignment" };
        self.expect_semicolon(what)?;
        Ok(kind)
    }

    /// An assignment or a call, up to its terminator.
    fn simple_statement(&mut self) -> Parse<StmtKind> {
        if self.kind() == Kind::RParen || self.kind() == Kind::Else {
            return Err(self.unexpected("a statement"));
        }
        // Binary operators are not allowed, so that `a |+|= b` is parsed correctly.
        let target = self.postfix()?;
        if self.eat(Kind::Assign) {
            return Ok(StmtKind::Assign(target, self.expression()?));
        }
        if let Some((op, tokens)) = self.compound() {
            for _ in 0..tokens {
                self.bump();
            }
            return Ok(StmtKind::Update(op, target, self.expression()?));
        }
        if matches!(target.kind, ExprKind::Call { .. } | ExprKind::Construct(..)) {
            return Ok(StmtKind::Call(target));
        }
        if self.kind() == Kind::Semicolon {
            self.error(
                target.span,
                "this is not a statement: nothing is done with the value".to_owned(),
            );
            return Err(Failed);
        }
        Err(self.unexpected("`=`, or `(` for a call"))
    }

    fn compound(&self) -> Option<(BinaryOp, usize)> {
        let op = match self.kind() {
            Kind::PlusEq => BinaryOp::Add,
            Kind::MinusEq => BinaryOp::Sub,
            Kind::StarEq => BinaryOp::Mul,
            Kind::SlashEq => BinaryOp::Div,
            Kind::PercentEq => BinaryOp::Mod,
            Kind::AmpEq => BinaryOp::BitAnd,
            Kind::PipeEq => BinaryOp::BitOr,
            Kind::CaretEq => BinaryOp::BitXor,
            Kind::AddSatEq => BinaryOp::AddSat,
            Kind::SubSatEq => BinaryOp::SubSat,
            Kind::PlusPlusEq => BinaryOp::Concat,
            Kind::ShlEq => BinaryOp::Shl,
            Kind::Greater if self.ahead(1) == Kind::GreaterEq => return Some((BinaryOp::Shr, 2)),
            _ => return None,
        };
        Some((op, 1))
    }

    fn switch(&mut self) -> Parse<StmtKind> {
        self.bump();
        self.expect(Kind::LParen, "`(` and what to switch on")?;
        let on = self.expression()?;
        self.expect(Kind::RParen, "`)`")?;
        self.expect(Kind::LBrace, "`{` and the cases")?;
        let mut cases = Vec::new();
        self.until_brace(|p| {
            let start = p.span();
            let label = if p.eat(Kind::Default) { None } else { Some(p.expression()?) };
            p.expect(Kind::Colon, "`:` after the case's label")?;
            let body =
                if p.kind() == Kind::LBrace { Some(p.block("the case's body")?) } else { None };
            cases.push(SwitchCase { span: p.since(start), label, body });
            Ok(())
        })?;
        Ok(StmtKind::Switch(on, cases))
    }

    /// `for (init; condition; update) body` or `for (T x in collection) body`.
    fn for_loop(&mut self) -> Parse<StmtKind> {
        self.bump();
        self.expect(Kind::LParen, "`(` after `for`")?;
        if let Some(variable) = self.attempt(Self::loop_variable) {
            let collection = self.collection()?;
            self.expect(Kind::RParen, "`)` after what the loop goes through")?;
            let body = Box::new(self.scoped(Self::statement)?);
            return Ok(StmtKind::ForIn { variable: Box::new(variable), collection, body });
        }
        let init = self.simple_statements(Kind::Semicolon, true)?;
        let condition = self.expression()?;
        self.expect(Kind::Semicolon, "`;` after the loop's condition")?;
        let update = self.simple_statements(Kind::RParen, false)?;
        let body = Box::new(self.scoped(Self::statement)?);
        Ok(StmtKind::For { init, condition, update, body })
    }

    /// `T x in`, the start of a loop over a collection.
    fn loop_variable(&mut self) -> Parse<Decl> {
        let start = self.span();
        let annotations = self.annotations()?;
        let ty = self.type_ref()?;
        let name = self.name("the loop's variable")?;
        self.expect(Kind::In, "`in`")?;
        self.declare(&name.name, false);
        Ok(self.decl(start, annotations, name, DeclKind::Variable { ty, init: None }))
    }

    /// A stack, a list, or `low .. high`.
    fn collection(&mut self) -> Parse<Expr> {
        let start = self.span();
        let first = self.expression()?;
        if !self.eat(Kind::DotDot) {
            return Ok(first);
        }
        let last = self.expression()?;
        let kind = ExprKind::Range(Box::new(first), Box::new(last));
        Ok(Expr { span: self.since(start), kind })
    }

    /// The statements between a loop's parentheses: assignments and calls separated by commas, and
    /// in the initialisation also declarations.
    fn simple_statements(&mut self, end: Kind, declarations: bool) -> Parse<Vec<Stmt>> {
        let mut list = Vec::new();
        if self.eat(end) {
            return Ok(list);
        }
        loop {
            let start = self.span();
            let annotations = self.annotations()?;
            let kind = if declarations && self.starts_declaration() {
                let ty = self.type_ref()?;
                let name = self.name("a variable's name")?;
                self.declare(&name.name, false);
                let init = if self.eat(Kind::Assign) { Some(self.expression()?) } else { None };
                let kind = DeclKind::Variable { ty, init };
                StmtKind::Decl(Box::new(self.decl(start, annotations, name, kind)))
            } else {
                self.simple_statement()?
            };
            list.push(Stmt { span: self.since(start), kind });
            if !self.eat(Kind::Comma) {
                self.expect(end, "`,` or the end of the loop's statements")?;
                return Ok(list);
            }
        }
    }
}
