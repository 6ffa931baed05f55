//! Statements.

use super::{Failed, Parse, Parser};
use crate::ast::{Decl, DeclKind, ExprKind, Stmt, StmtKind, SwitchCase};
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
            Kind::Break | Kind::Continue => {
                let what =
                    if self.bump().kind == Kind::Break { "`break` is" } else { "`continue` is" };
                self.expect_semicolon("the statement")?;
                StmtKind::Unsupported(what)
            }
            Kind::For => {
                self.skip_for()?;
                StmtKind::Unsupported("`for` loops are")
            }
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

    /// Whether `type name`, or `type(args) name`, stands here and no expression.
    fn starts_declaration(&mut self) -> bool {
        if !self.at_type() {
            // An unknown type: `foo_t x;` can be nothing else.
            return self.kind() == Kind::ValueSet
                || (self.kind() == Kind::Ident && self.ahead(1) == Kind::Ident);
        }
        if self.kind() != Kind::Ident {
            return true;
        }
        match self.ahead(1) {
            Kind::Dot => false,
            // `Type(args) name` against the call of something that hides behind a type's name.
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
        if self.kind() == Kind::RParen || self.kind() == Kind::Else {
            return Err(self.unexpected("a statement"));
        }
        // No binary operators, so that `a |+|= b` reads well.
        let target = self.postfix()?;
        if self.eat(Kind::Assign) {
            let value = self.expression()?;
            self.expect_semicolon("the assignment")?;
            return Ok(StmtKind::Assign(target, value));
        }
        if let Some((op, tokens)) = self.compound() {
            for _ in 0..tokens {
                self.bump();
            }
            let value = self.expression()?;
            self.expect_semicolon("the assignment")?;
            return Ok(StmtKind::Update(op, target, value));
        }
        if matches!(target.kind, ExprKind::Call { .. } | ExprKind::Construct(..)) {
            self.expect_semicolon("the call")?;
            return Ok(StmtKind::Call(target));
        }
        if self.kind() == Kind::Semicolon {
            self.error(
                target.span,
                "this is no statement: nothing is done with the value".to_owned(),
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

    /// A whole `for` statement, unread.
    fn skip_for(&mut self) -> Parse<()> {
        self.bump();
        self.expect(Kind::LParen, "`(`")?;
        let mut depth = 1usize;
        while depth > 0 {
            match self.bump().kind {
                Kind::LParen => depth += 1,
                Kind::RParen => depth -= 1,
                Kind::End => return Err(self.unexpected("`)`")),
                _ => {}
            }
        }
        let mut braces = 0usize;
        loop {
            match self.bump().kind {
                Kind::LBrace => braces += 1,
                Kind::RBrace => {
                    braces = braces.saturating_sub(1);
                    if braces == 0 {
                        return Ok(());
                    }
                }
                Kind::Semicolon if braces == 0 => return Ok(()),
                Kind::End => return Err(self.unexpected("the loop's body")),
                _ => {}
            }
        }
    }
}
