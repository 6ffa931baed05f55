//! Operators.

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::Checker;
use super::convert::{cast_help, integer, recast};
use super::fold;
use crate::ast::UnaryOp;
use crate::hir::{Expr, ExprKind};
use crate::ir::BinaryOp;
use crate::limits::{INTEGER_BITS, STRING_BYTES, WIDTH};
use crate::source::Span;
use crate::types::Type;

/// The representation of a serialisable enum; other expressions are unchanged.
pub(super) fn plain(e: Expr) -> Expr {
    let ty = e.ty.operand().clone();
    recast(e, &ty)
}

impl Checker<'_, '_> {
    pub(super) fn unary(&mut self, op: UnaryOp, e: Expr, span: Span) -> Expr {
        if matches!(e.ty, Type::Unknown) {
            return Expr::error(span);
        }
        if op == UnaryOp::Not {
            let e = self.coerce(e, &Type::Bool);
            let kind = match e.kind {
                ExprKind::Bool(b) => ExprKind::Bool(!b),
                _ => ExprKind::Unary(op, Box::new(e)),
            };
            return Expr { span, ty: Type::Bool, kind };
        }
        let e = plain(e);
        let Some(width) = integer(&e.ty) else {
            self.error(span, format!("this operator takes an integer, not {}", e.ty));
            return Expr::error(span);
        };
        if op == UnaryOp::BitNot && width.is_none() {
            self.error_help(
                span,
                "`~` needs an operand with a width",
                "write the width before the number, as in 8w1",
            );
            return Expr::error(span);
        }
        let ty = e.ty.clone();
        let kind = match (op, e.int()) {
            (UnaryOp::Plus, _) => return Expr { span, ..e },
            (UnaryOp::Neg, Some(v)) => ExprKind::Int(fold::wrap(-v, width)),
            (_, Some(v)) => ExprKind::Int(fold::wrap(-v - 1, width)),
            (_, None) => ExprKind::Unary(op, Box::new(e)),
        };
        Expr { span, ty, kind }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        if let Some(rest) = [&a, &b].into_iter().find(|side| side.ty == Type::Rest) {
            self.error(rest.span, format!("`...` is no operand of `{}`", op.sign()));
            return Expr::error(span);
        }
        if matches!(a.ty, Type::Unknown) || matches!(b.ty, Type::Unknown) {
            let ty = match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Eq | BinaryOp::Ne => Type::Bool,
                _ => Type::Unknown,
            };
            return Expr { span, ty, kind: ExprKind::Error };
        }
        match op {
            BinaryOp::And | BinaryOp::Or => self.logical(op, a, b, span),
            BinaryOp::Eq | BinaryOp::Ne => self.equality(op, a, b, span),
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                let Some((a, b)) = self.same_integers(op.sign(), plain(a), plain(b), span) else {
                    return Expr::error(span);
                };
                let kind = match (a.int(), b.int()) {
                    (Some(x), Some(y)) => ExprKind::Bool(fold::compare(op, x, y).unwrap_or(false)),
                    _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
                };
                Expr { span, ty: Type::Bool, kind }
            }
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, plain(a), plain(b), span),
            BinaryOp::Concat => self.concat(plain(a), plain(b), span),
            _ => self.arithmetic(op, plain(a), plain(b), span),
        }
    }

    fn logical(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let a = self.coerce(a, &Type::Bool);
        let b = self.coerce(b, &Type::Bool);
        let kind = match (&a.kind, &b.kind) {
            (ExprKind::Bool(x), ExprKind::Bool(y)) => {
                ExprKind::Bool(if op == BinaryOp::And { *x && *y } else { *x || *y })
            }
            _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { span, ty: Type::Bool, kind }
    }

    fn equality(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = match (&a.ty, &b.ty) {
            (x, y) if x == y => (a, b),
            // A list takes the type of the other side.
            (x, y) if is_untyped(&a) && is_composite(y) && takes(y, x) => {
                let to = y.clone();
                (self.coerce(a, &to), b)
            }
            (x, y) if is_untyped(&b) && is_composite(x) && takes(x, y) => {
                let to = x.clone();
                let b = self.coerce(b, &to);
                (a, b)
            }
            _ => match self.same_integers(op.sign(), plain(a), plain(b), span) {
                Some(pair) => pair,
                None => return Expr { span, ty: Type::Bool, kind: ExprKind::Error },
            },
        };
        self.charge(&a.ty);
        if !comparable(&a.ty) {
            self.error(span, format!("values of type {} cannot be compared", a.ty));
            return Expr { span, ty: Type::Bool, kind: ExprKind::Error };
        }
        let kind = match constants_equal(&a, &b) {
            Some(equal) => ExprKind::Bool(equal == (op == BinaryOp::Eq)),
            None => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { span, ty: Type::Bool, kind }
    }

    /// Converts two operands to one integer type.
    pub(super) fn same_integers(
        &mut self,
        sign: &str,
        a: Expr,
        b: Expr,
        span: Span,
    ) -> Option<(Expr, Expr)> {
        if a.ty == b.ty && integer(&a.ty).is_some() {
            return Some((a, b));
        }
        let sized = |t: &Type| matches!(t, Type::Bit(_) | Type::Signed(_));
        if a.ty == Type::Int && sized(&b.ty) {
            let ty = b.ty.clone();
            return Some((self.coerce(a, &ty), b));
        }
        if b.ty == Type::Int && sized(&a.ty) {
            let ty = a.ty.clone();
            let b = self.coerce(b, &ty);
            return Some((a, b));
        }
        let message = format!("`{sign}` cannot be applied to {} and {}", a.ty, b.ty);
        match (cast_help(&a.ty, &b.ty), &a.ty, &b.ty) {
            (_, Type::Bit(x), Type::Bit(y)) if x > y => {
                let help = cast_help(&b.ty, &a.ty).unwrap_or_default();
                self.error_help(span, message, format!("{help} the right operand"));
            }
            (Some(help), _, _) => {
                self.error_help(span, message, format!("{help} the left operand"))
            }
            _ => self.error(span, message),
        }
        None
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let both_bool = a.ty == Type::Bool && b.ty == Type::Bool;
        if both_bool && matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor) {
            let help = "use `&&`, `||` or `!=` with bool";
            self.error_help(span, format!("`{}` cannot be applied to bool", op.sign()), help);
            return Expr { span, ty: Type::Bool, kind: ExprKind::Error };
        }
        let negative = |e: &Expr| e.ty == Type::Int && e.int().is_some_and(Signed::is_negative);
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && (negative(&a) || negative(&b)) {
            self.error(span, format!("`{}` is not defined for negative numbers", op.sign()));
            return Expr::error(span);
        }
        let Some((a, b)) = self.same_integers(op.sign(), a, b, span) else {
            return Expr::error(span);
        };
        let ty = a.ty.clone();
        let width = integer(&ty).flatten();
        if width.is_none() && matches!(op, BinaryOp::AddSat | BinaryOp::SubSat) {
            self.error(span, format!("`{}` needs operands with a width", op.sign()));
            return Expr::error(span);
        }
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) {
            if b.int().is_some_and(Zero::is_zero) {
                self.error(b.span, "division by zero");
                return Expr { span, ty, kind: ExprKind::Error };
            }
            if matches!(ty, Type::Signed(_)) {
                self.error(span, format!("`{}` is not defined for {ty}", op.sign()));
                return Expr { span, ty, kind: ExprKind::Error };
            }
        }
        let folded = match (a.int(), b.int()) {
            (Some(x), Some(y)) => {
                self.reporter.work(x.bits() / 64 * (y.bits() / 64) / 256);
                fold::arithmetic(op, x, y, width)
            }
            _ => None,
        };
        self.bounded_int(folded.as_ref(), span);
        let kind = match folded {
            Some(v) => ExprKind::Int(v),
            None => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { span, ty, kind }
    }

    /// Ends the compilation if an integer is too large.
    fn bounded_int(&mut self, value: Option<&BigInt>, span: Span) {
        let bits = value.map_or(0, BigInt::bits);
        self.reporter.work(bits / 2048);
        if bits > INTEGER_BITS {
            let message = format!("a number of {bits} bits: it may have {INTEGER_BITS}");
            self.reporter.stop(
                span,
                message,
                "give the operands a width, as in 32w1, to stay within it",
            );
        }
    }

    fn shift(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (Some(width), Some(_)) = (integer(&a.ty), integer(&b.ty)) else {
            self.error(span, format!("`{}` cannot be applied to {} and {}", op.sign(), a.ty, b.ty));
            return Expr::error(span);
        };
        let ty = a.ty.clone();
        let failed = Expr { span, ty: ty.clone(), kind: ExprKind::Error };
        if b.int().is_some_and(Signed::is_negative) {
            self.error(b.span, "the shift distance is negative");
            return failed;
        }
        if matches!(b.ty, Type::Signed(_) | Type::Int) && b.int().is_none() {
            self.error_help(b.span, "the shift distance must be unsigned", "cast it to bit<W>");
            return failed;
        }
        let kind = match (a.int(), b.int()) {
            (Some(x), Some(y)) => match fold::arithmetic(op, x, y, width) {
                Some(v) => {
                    self.bounded_int(Some(&v), span);
                    ExprKind::Int(v)
                }
                None => {
                    self.error(span, "the shift distance is too great");
                    ExprKind::Error
                }
            },
            (_, None) if width.is_none() => {
                self.error_help(
                    a.span,
                    "the shifted value has no width",
                    "write the width before the number, as in 8w1",
                );
                ExprKind::Error
            }
            _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { span, ty, kind }
    }

    fn concat(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        if let (ExprKind::Text(x), ExprKind::Text(y)) = (&a.kind, &b.kind) {
            if x.len() + y.len() > STRING_BYTES {
                let message = format!("a string of more than {STRING_BYTES} bytes");
                self.reporter.stop(span, message, "shorten it");
            }
            self.reporter.work((x.len() + y.len()) as u64 / 256);
            let text = format!("{x}{y}");
            return Expr { span, ty: Type::Text, kind: ExprKind::Text(text.into()) };
        }
        let (Some(Some((x, signed))), Some(Some((y, _)))) = (integer(&a.ty), integer(&b.ty)) else {
            let message = format!("`++` cannot be applied to {} and {}", a.ty, b.ty);
            self.error_help(span, message, "both operands must have a width, as in 8w1");
            return Expr::error(span);
        };
        let ty = if signed { Type::Signed(x + y) } else { Type::Bit(x + y) };
        if x + y > WIDTH {
            self.error(span, format!("{ty} is too wide"));
            return Expr::error(span);
        }
        let kind = match (a.int(), b.int()) {
            (Some(v), Some(w)) => {
                let low: BigInt = fold::wrap(w.clone(), Some((y, false)));
                ExprKind::Int(fold::wrap((v << y) + low, Some((x + y, signed))))
            }
            _ => ExprKind::Binary(BinaryOp::Concat, Box::new(a), Box::new(b)),
        };
        Expr { span, ty, kind }
    }

    pub(super) fn mux(&mut self, condition: Expr, a: Expr, b: Expr, span: Span) -> Expr {
        let condition = self.coerce(condition, &Type::Bool);
        let (a, b) = match (&a.ty, &b.ty) {
            (Type::Unknown, _) | (_, Type::Unknown) => return Expr::error(span),
            (x, y) if x == y => (a, b),
            // Both take the type of the assignment's target.
            _ if is_untyped(&a) && is_untyped(&b) => (a, b),
            // A list or a number without a width takes the type of the other side.
            (x, y) if takes(y, x) => {
                let to = y.clone();
                (self.coerce(a, &to), b)
            }
            (x, y) if takes(x, y) => {
                let to = x.clone();
                let b = self.coerce(b, &to);
                (a, b)
            }
            (x, y) => {
                let message = format!("`?:` cannot choose between {x} and {y}");
                match cast_help(y, x) {
                    Some(help) => {
                        self.error_help(span, message, format!("{help} the last operand"))
                    }
                    None => self.error(span, message),
                }
                return Expr::error(span);
            }
        };
        if let ExprKind::Bool(c) = condition.kind {
            return if c { a } else { b };
        }
        if a.ty == Type::Int {
            self.error_help(
                span,
                "the width of this value is not known: the condition is decided at run time",
                "write a width before one of the numbers, as in 8w1",
            );
            return Expr::error(span);
        }
        let ty = a.ty.clone();
        Expr { span, ty, kind: ExprKind::Mux(Box::new(condition), Box::new(a), Box::new(b)) }
    }
}

/// Whether an expression takes its type from the context: a list, named values, `{#}` or `...`.
fn is_untyped(e: &Expr) -> bool {
    let open = matches!(e.kind, ExprKind::List(_) | ExprKind::Record(_));
    match &e.ty {
        Type::Tuple(_) | Type::Record(_) => open,
        Type::Invalid | Type::Rest => true,
        _ => false,
    }
}

/// Whether an untyped expression gets the type `to` where both sides of an operator must have one
/// type: its numbers get a width, but its enums do not convert.
pub(super) fn takes(to: &Type, from: &Type) -> bool {
    let all = |from: &[Type], to: &mut dyn Iterator<Item = &Type>| {
        from.iter().all(|from| *from == Type::Rest || to.next().is_some_and(|to| takes(to, from)))
    };
    match (from, to) {
        (Type::Int, to) => integer(to).is_some(),
        (Type::Tuple(from), Type::Tuple(to)) => all(from, &mut to.iter()),
        (Type::Tuple(from), Type::Struct(s)) => all(from, &mut s.fields.iter().map(|f| &f.ty)),
        (Type::Tuple(from), Type::Stack(of, size)) => {
            all(from, &mut std::iter::repeat_n(&**of, *size as usize))
        }
        (Type::Record(from), Type::Struct(s)) => from.iter().all(|(name, from)| {
            *from == Type::Rest || s.position(name).is_none_or(|at| takes(&s.fields[at].ty, from))
        }),
        (Type::Invalid, to) => Checker::is_header(to),
        (Type::Rest, _) => true,
        (from, to) => from == to || [from, to].into_iter().any(|ty| matches!(ty, Type::Unknown)),
    }
}

fn is_composite(ty: &Type) -> bool {
    matches!(ty, Type::Struct(_) | Type::Tuple(_) | Type::Stack(..))
}

/// Whether two constants are equal; `None` if one of the operands is not constant.
fn constants_equal(a: &Expr, b: &Expr) -> Option<bool> {
    match (&a.kind, &b.kind) {
        (ExprKind::Int(x), ExprKind::Int(y)) => Some(x == y),
        (ExprKind::Bool(x), ExprKind::Bool(y)) => Some(x == y),
        (ExprKind::Member(x), ExprKind::Member(y)) => Some(x == y),
        (ExprKind::Text(x), ExprKind::Text(y)) => Some(x == y),
        (ExprKind::List(x), ExprKind::List(y)) if x.len() == y.len() => {
            x.iter().zip(y).try_fold(true, |all, (x, y)| Some(all & constants_equal(x, y)?))
        }
        _ => None,
    }
}

/// Whether `==` is defined.
fn comparable(ty: &Type) -> bool {
    match ty {
        Type::Bool
        | Type::ErrorCode
        | Type::Int
        | Type::Bit(_)
        | Type::Signed(_)
        | Type::Enum(_)
        | Type::SerEnum(_) => true,
        Type::New(new) => !new.is_opaque(),
        Type::Varbit(_) | Type::Text => true,
        Type::Struct(s) => s.fields.iter().all(|f| comparable(&f.ty)),
        Type::Stack(of, _) => comparable(of),
        Type::Tuple(items) => items.iter().all(comparable),
        _ => false,
    }
}
