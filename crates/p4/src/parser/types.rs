//! Types and parameters.

use super::{Failed, Parse, Parser};
use crate::ast::{Direction, Expr, Ident, Param, TypeKind, TypeRef};
use crate::lexer::Kind;
use crate::source::Span;

impl Parser<'_, '_> {
    /// Whether a type starts here.
    pub(super) fn at_type(&self) -> bool {
        match self.kind() {
            Kind::Bit | Kind::Int | Kind::Varbit | Kind::Bool | Kind::Void | Kind::String => true,
            Kind::Error => self.ahead(1) != Kind::LBrace,
            Kind::MatchKeyword => self.ahead(1) != Kind::LBrace,
            Kind::Tuple => true,
            Kind::Dot => self.tokens.get(self.at + 1).is_some_and(|next| {
                let name = self.slice(next.span);
                next.kind == Kind::Ident && self.scopes[0].get(name).copied().unwrap_or(false)
            }),
            Kind::Ident => {
                self.at_type_name() || (self.word() == "list" && self.ahead(1) == Kind::Less)
            }
            _ => false,
        }
    }

    pub(super) fn type_ref(&mut self) -> Parse<TypeRef> {
        self.nested(|p| {
            let start = p.span();
            let kind = p.base_type()?;
            let mut ty = TypeRef { span: start.to(p.previous()), kind };
            while p.kind() == Kind::LBracket {
                p.bump();
                p.higher();
                let size = p.expression()?;
                p.expect(Kind::RBracket, "`]` after the size of the stack")?;
                ty = TypeRef {
                    span: start.to(p.previous()),
                    kind: TypeKind::Stack(Box::new(ty), Box::new(size)),
                };
            }
            Ok(ty)
        })
    }

    /// `bit<8> name[4]`: array sizes after the name, which p4c also accepts.
    pub(super) fn sizes_behind(&mut self, of: TypeRef) -> Parse<TypeRef> {
        let start = of.span;
        let mut sizes = Vec::new();
        while self.eat(Kind::LBracket) {
            self.higher();
            sizes.push(self.expression()?);
            self.expect(Kind::RBracket, "`]` after the size of the array")?;
        }
        let span = start.to(self.previous());
        let array = |of, size| {
            let kind = TypeKind::Stack(Box::new(of), Box::new(size));
            TypeRef { span, kind }
        };
        Ok(sizes.into_iter().rev().fold(of, array))
    }

    fn base_type(&mut self) -> Parse<TypeKind> {
        let token = self.bump();
        Ok(match token.kind {
            Kind::Void => TypeKind::Void,
            Kind::Bool => TypeKind::Bool,
            Kind::Error => TypeKind::Error,
            Kind::String => TypeKind::String,
            Kind::MatchKeyword => TypeKind::MatchKind,
            Kind::Underscore => TypeKind::DontCare,
            Kind::Bit => TypeKind::Bit(self.width()?),
            Kind::Int => match self.width()? {
                Some(width) => TypeKind::Signed(width),
                None => TypeKind::Int,
            },
            Kind::Varbit => match self.width()? {
                Some(width) => TypeKind::Varbit(width),
                None => return Err(self.unexpected("`<` and the greatest width of the varbit")),
            },
            Kind::Tuple => {
                self.expect(Kind::Less, "`<` after `tuple`")?;
                TypeKind::Tuple(self.type_args()?)
            }
            Kind::Ident => {
                let text = self.slice(token.span);
                let name = Ident { name: self.intern(text), span: token.span };
                if self.kind() == Kind::Less && text == "list" && !self.is_type(text) {
                    self.bump();
                    let mut args = self.type_args()?;
                    match args.pop() {
                        Some(of) if args.is_empty() => TypeKind::List(Box::new(of)),
                        _ => {
                            self.error(token.span, "`list` takes one type argument".to_owned());
                            return Err(Failed);
                        }
                    }
                } else if self.eat(Kind::Less) {
                    TypeKind::Specialised(name, self.type_args()?)
                } else {
                    TypeKind::Name(name)
                }
            }
            Kind::Dot => TypeKind::Name(self.name("a type's name after `.`")?),
            _ => {
                self.at = self.at.saturating_sub(usize::from(token.kind != Kind::End));
                return Err(self.unexpected("a type"));
            }
        })
    }

    /// `<8>`, `<(N + 1)>` or `<N>`.
    fn width(&mut self) -> Parse<Option<Box<Expr>>> {
        if !self.eat(Kind::Less) {
            return Ok(None);
        }
        // Without parentheses, `>` closes the width and is not a comparison.
        let width = self.width_expression()?;
        self.expect(Kind::Greater, "`>` after the width")?;
        Ok(Some(Box::new(width)))
    }

    /// The rest of `<A, B>` after `<`.
    pub(super) fn type_args(&mut self) -> Parse<Vec<TypeRef>> {
        self.comma_list(Kind::Greater, "`,` or `>` between type arguments", Self::type_ref)
    }

    /// `<A, B>`, which declares names, if present.
    pub(super) fn type_params(&mut self) -> Parse<Vec<Ident>> {
        if !self.eat(Kind::Less) {
            return Ok(Vec::new());
        }
        let params = self.comma_list(Kind::Greater, "`,` or `>` between type parameters", |p| {
            p.name("a type parameter")
        })?;
        for param in &params {
            self.declare(&param.name, true);
        }
        Ok(params)
    }

    /// `(params)`, declared in the current scope.
    pub(super) fn params(&mut self) -> Parse<Vec<Param>> {
        self.expect(Kind::LParen, "`(` before the parameters")?;
        let params = self.comma_list(Kind::RParen, "`,` or `)` between parameters", Self::param)?;
        for param in &params {
            self.declare(&param.name.name, false);
        }
        Ok(params)
    }

    fn param(&mut self) -> Parse<Param> {
        let annotations = self.annotations()?;
        let direction = match self.kind() {
            Kind::In => Direction::In,
            Kind::Out => Direction::Out,
            Kind::Inout => Direction::Inout,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.bump();
        }
        let ty = self.type_ref()?;
        let name = self.name("the parameter's name")?;
        let default = if self.eat(Kind::Assign) { Some(self.expression()?) } else { None };
        Ok(Param { annotations, direction, ty, name, default })
    }

    /// A span that covers all from `start` to the token just taken.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.previous())
    }
}
