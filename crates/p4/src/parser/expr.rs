//! Expressions.

use num_bigint::BigInt;
use num_traits::Num;

use super::{Failed, Parse, Parser, unquote};
use crate::ast::{Arg, Expr, ExprKind, Ident, TypeKind, TypeRef, UnaryOp};
use crate::ir::BinaryOp;
use crate::lexer::Kind;
use crate::limits::{DIGITS, WIDTH, shown};
use crate::source::Span;

/// Precedence levels, loosest first. `?:` is below all of them.
mod level {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const EQUAL: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const BIT_OR: u8 = 5;
    pub(super) const BIT_XOR: u8 = 6;
    pub(super) const BIT_AND: u8 = 7;
    pub(super) const SHIFT: u8 = 8;
    pub(super) const ADD: u8 = 9;
    pub(super) const MUL: u8 = 10;
}

impl Parser<'_, '_> {
    pub(super) fn expression(&mut self) -> Parse<Expr> {
        self.nested(|p| {
            let mut expression = p.binary(0)?;
            // Left-associative, as in p4c and unlike C: in `a ? b : c ? d : e` the first three are
            // the condition of the last two.
            while p.eat(Kind::Question) {
                let then = p.expression()?;
                p.expect(Kind::Colon, "`:` of `?:`")?;
                let otherwise = p.nested(|p| p.binary(0))?;
                p.higher();
                let span = expression.span.to(otherwise.span);
                let [condition, then, otherwise] = [expression, then, otherwise].map(Box::new);
                expression = Expr { span, kind: ExprKind::Mux(condition, then, otherwise) };
            }
            Ok(expression)
        })
    }

    /// The width of a type: an expression in which `>` is not an operator.
    pub(super) fn width_expression(&mut self) -> Parse<Expr> {
        self.nested(|p| p.binary(level::ADD))
    }

    /// The binary operator at the current token: its precedence and its number of tokens.
    fn operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let (op, level) = match self.kind() {
            Kind::PipePipe => (BinaryOp::Or, level::OR),
            Kind::AmpAmp => (BinaryOp::And, level::AND),
            Kind::EqEq => (BinaryOp::Eq, level::EQUAL),
            Kind::NotEq => (BinaryOp::Ne, level::EQUAL),
            Kind::Less => (BinaryOp::Lt, level::COMPARE),
            Kind::LessEq => (BinaryOp::Le, level::COMPARE),
            Kind::GreaterEq => (BinaryOp::Ge, level::COMPARE),
            Kind::Greater => {
                let (this, next) = (self.span(), self.tokens.get(self.at + 1));
                let adjacent =
                    |k: Kind| next.is_some_and(|t| t.kind == k && t.span.start == this.end);
                if adjacent(Kind::GreaterEq) {
                    return None;
                }
                if adjacent(Kind::Greater) {
                    return Some((BinaryOp::Shr, level::SHIFT, 2));
                }
                (BinaryOp::Gt, level::COMPARE)
            }
            Kind::Pipe => (BinaryOp::BitOr, level::BIT_OR),
            Kind::Caret => (BinaryOp::BitXor, level::BIT_XOR),
            Kind::Amp => (BinaryOp::BitAnd, level::BIT_AND),
            Kind::Shl => (BinaryOp::Shl, level::SHIFT),
            Kind::Plus => (BinaryOp::Add, level::ADD),
            Kind::Minus => (BinaryOp::Sub, level::ADD),
            Kind::AddSat => (BinaryOp::AddSat, level::ADD),
            Kind::SubSat => (BinaryOp::SubSat, level::ADD),
            Kind::PlusPlus => (BinaryOp::Concat, level::ADD),
            Kind::Star => (BinaryOp::Mul, level::MUL),
            Kind::Slash => (BinaryOp::Div, level::MUL),
            Kind::Percent => (BinaryOp::Mod, level::MUL),
            _ => return None,
        };
        Some((op, level, 1))
    }

    fn binary(&mut self, minimum: u8) -> Parse<Expr> {
        let mut left = self.unary()?;
        while let Some((op, level, tokens)) = self.operator() {
            if level < minimum {
                break;
            }
            for _ in 0..tokens {
                self.bump();
            }
            let right = self.nested(|p| p.binary(level + 1))?;
            self.higher();
            let span = left.span.to(right.span);
            left = Expr { span, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parse<Expr> {
        let start = self.span();
        let op = match self.kind() {
            Kind::Not => UnaryOp::Not,
            Kind::Tilde => UnaryOp::BitNot,
            Kind::Minus => UnaryOp::Neg,
            Kind::Plus => UnaryOp::Plus,
            Kind::LParen => {
                if let Some(ty) = self.cast_type() {
                    let value = self.nested(Self::unary)?;
                    let kind = ExprKind::Cast(Box::new(ty), Box::new(value));
                    return Ok(Expr { span: self.since(start), kind });
                }
                return self.postfix();
            }
            _ => return self.postfix(),
        };
        self.bump();
        let value = self.nested(Self::unary)?;
        Ok(Expr { span: self.since(start), kind: ExprKind::Unary(op, Box::new(value)) })
    }

    /// `(type)`, if the current tokens are a cast.
    fn cast_type(&mut self) -> Option<TypeRef> {
        let type_word = match self.ahead(1) {
            Kind::Ident => {
                let span = self.tokens[self.at + 1].span;
                self.is_type(self.slice(span)) || self.slice(span) == "list"
            }
            Kind::Bit
            | Kind::Int
            | Kind::Varbit
            | Kind::Bool
            | Kind::Tuple
            | Kind::Error
            | Kind::String => true,
            _ => false,
        };
        if !type_word {
            return None;
        }
        self.attempt(|p| {
            p.bump();
            let ty = p.type_ref()?;
            p.expect(Kind::RParen, "`)`")?;
            Ok(ty)
        })
    }

    pub(super) fn postfix(&mut self) -> Parse<Expr> {
        let mut e = self.primary()?;
        loop {
            self.higher();
            let start = e.span;
            match self.kind() {
                Kind::Dot => {
                    self.bump();
                    let member = self.name("a member's name")?;
                    e = Expr {
                        span: self.since(start),
                        kind: ExprKind::Member(Box::new(e), member),
                    };
                }
                Kind::LBracket => {
                    self.bump();
                    let hi = self.expression()?;
                    let kind = if self.eat(Kind::Colon) {
                        let lo = self.expression()?;
                        ExprKind::Slice(Box::new(e), Box::new(hi), Box::new(lo))
                    } else if self.eat(Kind::PlusColon) {
                        let width = self.expression()?;
                        ExprKind::Part(Box::new(e), Box::new(hi), Box::new(width))
                    } else {
                        ExprKind::Index(Box::new(e), Box::new(hi))
                    };
                    self.expect(Kind::RBracket, "`]`")?;
                    e = Expr { span: self.since(start), kind };
                }
                Kind::LParen => {
                    let args = self.args()?;
                    let kind = ExprKind::Call { callee: Box::new(e), type_args: Vec::new(), args };
                    e = Expr { span: self.since(start), kind };
                }
                Kind::Less
                    if matches!(
                        e.kind,
                        ExprKind::Name(_) | ExprKind::Global(_) | ExprKind::Member(..)
                    ) =>
                {
                    // `f<T>(x)` or a comparison: only the former has types followed by `(`.
                    let type_args = self.attempt(|p| {
                        p.bump();
                        let args = p.comma_list(Kind::Greater, "`>`", |p| {
                            if p.at_type() || p.kind() == Kind::Underscore {
                                p.type_ref()
                            } else {
                                Err(Failed)
                            }
                        })?;
                        if p.kind() == Kind::LParen { Ok(args) } else { Err(Failed) }
                    });
                    let Some(type_args) = type_args else { return Ok(e) };
                    let args = self.args()?;
                    let kind = ExprKind::Call { callee: Box::new(e), type_args, args };
                    e = Expr { span: self.since(start), kind };
                }
                _ => return Ok(e),
            }
        }
    }

    /// `(a, name = b, _)`.
    pub(super) fn args(&mut self) -> Parse<Vec<Arg>> {
        self.expect(Kind::LParen, "`(`")?;
        self.comma_list(Kind::RParen, "`,` or `)` between arguments", |p| {
            if p.kind() == Kind::Ident && p.ahead(1) == Kind::Assign {
                let name = p.name("the parameter's name")?;
                p.bump();
                return Ok(Arg { name: Some(name), value: p.argument()? });
            }
            Ok(Arg { name: None, value: p.argument()? })
        })
    }

    fn argument(&mut self) -> Parse<Expr> {
        if self.kind() == Kind::Underscore {
            let span = self.bump().span;
            return Ok(Expr { span, kind: ExprKind::Any });
        }
        self.expression()
    }

    fn primary(&mut self) -> Parse<Expr> {
        let start = self.span();
        let kind = match self.kind() {
            Kind::Number => {
                self.bump();
                self.number(start)
            }
            Kind::True | Kind::False => ExprKind::Bool(self.bump().kind == Kind::True),
            Kind::Text => {
                self.bump();
                let text = unquote(self.slice(start));
                ExprKind::Text(self.intern(&text))
            }
            Kind::This => {
                self.bump();
                ExprKind::This
            }
            Kind::Dot if !self.at_type() => {
                self.bump();
                ExprKind::Global(self.name("a name after `.`")?)
            }
            Kind::Ellipsis => {
                self.bump();
                ExprKind::Ellipsis
            }
            Kind::InvalidHeader => {
                self.bump();
                ExprKind::Invalid
            }
            Kind::LParen => {
                self.bump();
                let inner = self.expression()?;
                self.expect(Kind::RParen, "`)`")?;
                return Ok(Expr { span: self.since(start), kind: inner.kind });
            }
            Kind::LBrace => {
                self.bump();
                self.braces()?
            }
            Kind::Ident if !self.at_type() => ExprKind::Name(self.name("an expression")?),
            _ if self.at_type() => return self.type_expression(),
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(Expr { span: self.since(start), kind })
    }

    /// The rest of `{a, b}` or `{x = a, y = b}` after the brace.
    fn braces(&mut self) -> Parse<ExprKind> {
        if self.kind() == Kind::Ident && self.ahead(1) == Kind::Assign {
            return Ok(ExprKind::Record(self.comma_list(Kind::RBrace, "`,` or `}`", |p| {
                if p.kind() == Kind::Ellipsis {
                    let name = Ident { name: p.intern("..."), span: p.span() };
                    return Ok((name, p.expression()?));
                }
                let name = p.name("a field's name")?;
                p.expect(Kind::Assign, "`=` after the field's name")?;
                Ok((name, p.expression()?))
            })?));
        }
        Ok(ExprKind::List(self.comma_list(Kind::RBrace, "`,` or `}`", Self::expression)?))
    }

    /// `Type.member`, `Type(args)`.
    fn type_expression(&mut self) -> Parse<Expr> {
        let start = self.span();
        // An instance or an index follows; `[` does not start a stack type here.
        let ty = self.nested(|p| {
            let kind = if p.kind() == Kind::Ident && p.ahead(1) != Kind::Less {
                TypeKind::Name(p.name("a type")?)
            } else {
                return p.type_ref();
            };
            Ok(TypeRef { span: start, kind })
        })?;
        if self.kind() == Kind::LParen {
            let args = self.args()?;
            return Ok(Expr {
                span: self.since(start),
                kind: ExprKind::Construct(Box::new(ty), args),
            });
        }
        if self.kind() == Kind::Dot {
            self.bump();
            let member = self.name("a member's name")?;
            return Ok(Expr {
                span: self.since(start),
                kind: ExprKind::TypeMember(Box::new(ty), member),
            });
        }
        // The name of a type where a value is expected. The checker reports it, unless it finds a
        // field or action of this name.
        if let TypeKind::Name(name) = ty.kind {
            return Ok(Expr { span: start, kind: ExprKind::Name(name) });
        }
        Err(self.unexpected("`.` or `(` after the type"))
    }

    /// A keyset: an expression, a mask, a range, `_`, `default`, or a tuple of them.
    pub(super) fn keyset(&mut self) -> Parse<Expr> {
        let start = self.span();
        if self.kind() == Kind::LParen && self.cast_type_ahead().is_none() {
            let tuple = self.attempt(|p| {
                p.bump();
                let items =
                    p.comma_list(Kind::RParen, "`,` or `)` in the keyset", Self::simple_keyset)?;
                // `(a) + b`, `(a) &&& b`: the parenthesis belonged to an expression.
                match p.kind() {
                    Kind::Colon | Kind::Comma | Kind::RParen | Kind::Semicolon => Ok(items),
                    _ => Err(Failed),
                }
            });
            if let Some(mut items) = tuple {
                let span = self.since(start);
                return Ok(match items.pop() {
                    Some(only) if items.is_empty() => only,
                    last => {
                        items.extend(last);
                        Expr { span, kind: ExprKind::List(items) }
                    }
                });
            }
        }
        self.simple_keyset()
    }

    fn cast_type_ahead(&mut self) -> Option<TypeRef> {
        let at = self.at;
        let ty = self.cast_type();
        self.at = at;
        ty
    }

    fn simple_keyset(&mut self) -> Parse<Expr> {
        let start = self.span();
        if matches!(self.kind(), Kind::Underscore | Kind::Default) {
            self.bump();
            return Ok(Expr { span: start, kind: ExprKind::Any });
        }
        let first = self.expression()?;
        let kind = match self.kind() {
            Kind::Mask => {
                self.bump();
                ExprKind::Mask(Box::new(first), Box::new(self.expression()?))
            }
            Kind::DotDot => {
                self.bump();
                ExprKind::Range(Box::new(first), Box::new(self.expression()?))
            }
            _ => return Ok(first),
        };
        Ok(Expr { span: self.since(start), kind })
    }

    /// A number literal: `12`, `0xff`, `8w12`, `4s0b1100`, with underscores anywhere.
    fn number(&mut self, span: Span) -> ExprKind {
        let text = self.slice(span).replace('_', "");
        let (prefix, digits) = match text.find(['w', 's']) {
            Some(i) => (Some((&text[..i], text.as_bytes()[i] == b's')), &text[i + 1..]),
            None => (None, text.as_str()),
        };
        let (radix, digits) = match digits.get(..2) {
            Some("0x" | "0X") => (16, &digits[2..]),
            Some("0b" | "0B") => (2, &digits[2..]),
            Some("0o" | "0O") => (8, &digits[2..]),
            Some("0d" | "0D") => (10, &digits[2..]),
            _ => (10, digits),
        };
        if digits.len() > DIGITS {
            self.error(span, format!("a number of more than {DIGITS} digits"));
            return ExprKind::Error;
        }
        let Ok(value) = BigInt::from_str_radix(digits, radix) else {
            self.error(span, format!("`{text}` is not a number"));
            return ExprKind::Error;
        };
        let Some((width, signed)) = prefix else { return ExprKind::Int(value, None) };
        match width.parse::<u32>() {
            Ok(width) if width <= WIDTH && (!signed || width > 1) => {
                let limit = BigInt::from(1) << if signed { width - 1 } else { width };
                if value >= limit && !self.speculative {
                    let ty = if signed { "int" } else { "bit" };
                    let value = shown(&value);
                    let message =
                        format!("{value} does not fit {ty}<{width}>: its high bits are cut off");
                    self.reporter.warning(span, message);
                }
                ExprKind::Int(value, Some((signed, width)))
            }
            _ => {
                self.error(span, format!("`{width}` is not a width for a number"));
                ExprKind::Error
            }
        }
    }

    /// A name or call in an action list or an entry.
    pub(super) fn action_call(&mut self) -> Parse<Expr> {
        let start = self.span();
        let name = if self.eat(Kind::Dot) {
            let name = self.name("an action's name")?;
            Expr { span: self.since(start), kind: ExprKind::Global(name) }
        } else {
            let name: Ident = self.name("an action's name")?;
            let mut e = Expr { span: name.span, kind: ExprKind::Name(name) };
            while self.eat(Kind::Dot) {
                self.higher();
                let member = self.name("a member's name")?;
                e = Expr { span: self.since(start), kind: ExprKind::Member(Box::new(e), member) };
            }
            e
        };
        if self.kind() != Kind::LParen {
            return Ok(name);
        }
        let args = self.args()?;
        let kind = ExprKind::Call { callee: Box::new(name), type_args: Vec::new(), args };
        Ok(Expr { span: self.since(start), kind })
    }
}
