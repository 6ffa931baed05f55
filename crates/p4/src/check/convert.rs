//! Implicit and explicit conversions.

use num_bigint::BigInt;
use num_traits::Signed;

use super::Checker;
use super::fold::{Width, bounds, wrap};
use crate::ast;
use crate::hir::{Expr, ExprKind};
use crate::limits::shown;
use crate::source::Span;
use crate::types::{Aggregate, StructType, Type};

/// The width of an integer type; `Some(None)` for `int`.
pub(super) fn integer(ty: &Type) -> Option<Width> {
    match ty {
        Type::Int => Some(None),
        Type::Bit(w) => Some(Some((*w, false))),
        Type::Signed(w) => Some(Some((*w, true))),
        _ => None,
    }
}

impl Checker<'_, '_> {
    /// Checks an expression that must have a type, converting implicitly.
    pub(super) fn expect(&mut self, e: &ast::Expr, ty: &Type) -> Expr {
        let e = self.expr(e);
        self.coerce(e, ty)
    }

    /// Converts implicitly, or reports a type mismatch.
    pub(super) fn coerce(&mut self, e: Expr, ty: &Type) -> Expr {
        let span = e.span;
        self.try_coerce(e, ty).unwrap_or_else(|from| self.mismatch(&from, ty, span))
    }

    fn mismatch(&mut self, from: &Type, ty: &Type, span: Span) -> Expr {
        let message = format!("{from} cannot be assigned to {ty}");
        match cast_help(from, ty) {
            Some(help) => self.error_help(span, message, help),
            None => self.error(span, message),
        }
        Expr { span, ty: ty.clone(), kind: ExprKind::Error }
    }

    /// Converts the value of a field or element in a list: numbers get a width, but enums do not
    /// convert, and a type made by `type` needs a cast.
    fn element(&mut self, e: Expr, ty: &Type) -> Expr {
        match (&e.ty, ty) {
            (_, Type::Unknown) => e,
            (Type::SerEnum(_), _) | (Type::Int, Type::New(_)) if e.ty != *ty => {
                self.mismatch(&e.ty.clone(), ty, e.span)
            }
            _ => self.coerce(e, ty),
        }
    }

    /// Converts implicitly. On failure returns the expression's type.
    pub(super) fn try_coerce(&mut self, e: Expr, to: &Type) -> Result<Expr, Type> {
        self.charge(to);
        if matches!(e.ty, Type::Unknown) || matches!(to, Type::Unknown) || e.ty == *to {
            return Ok(e);
        }
        let e = match self.with_rest(e, to) {
            Ok(e) => e,
            Err(of) => {
                self.error(of.1, format!("{} has no default value", of.0));
                return Ok(Expr { span: of.1, ty: to.clone(), kind: ExprKind::Error });
            }
        };
        if e.ty == *to {
            return Ok(e);
        }
        match (&e.ty, to) {
            (Type::Int, Type::Bit(_) | Type::Signed(_)) => Ok(self.fit(e, to)),
            // A number without a width takes the width of a new type, too.
            (Type::Int, Type::New(new)) if integer(&new.repr).is_some() => {
                let fitted = self.fit(e, &new.repr.clone());
                Ok(Expr { ty: to.clone(), ..fitted })
            }
            (Type::Bit(_) | Type::Signed(_), Type::Int) if e.int().is_some() => Ok(recast(e, to)),
            (Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Rest, _)
                if matches!(e.kind, ExprKind::Mux(..)) =>
            {
                let ExprKind::Mux(condition, a, b) = e.kind else { return Err(e.ty) };
                let [a, b] = [*a, *b].map(|side| Box::new(self.coerce(side, to)));
                let kind = ExprKind::Mux(condition, a, b);
                Ok(Expr { span: e.span, ty: to.clone(), kind })
            }
            (Type::SerEnum(s), _)
                if s.repr == *to
                    || matches!(to, Type::Bit(_) | Type::Signed(_)) && s.repr.repr() == to =>
            {
                Ok(recast(e, to))
            }
            (Type::Tuple(items), Type::Tuple(wanted)) if items.len() == wanted.len() => {
                let ExprKind::List(values) = e.kind else { return Err(e.ty) };
                let pairs = values.into_iter().zip(wanted.iter());
                let values = pairs.map(|(value, ty)| self.coerce(value, ty)).collect();
                Ok(Expr { span: e.span, ty: to.clone(), kind: ExprKind::List(values) })
            }
            (Type::Tuple(_), Type::Struct(s)) if s.what != Aggregate::Union => {
                self.coerce_fields(e, to, s)
            }
            (Type::Tuple(items), Type::List(of)) => {
                let wanted = vec![(**of).clone(); items.len()];
                self.coerce_parts(e, to, &wanted)
            }
            (Type::Tuple(items), Type::Stack(of, size)) => {
                if items.len() != *size as usize {
                    return Err(e.ty);
                }
                let wanted = vec![(**of).clone(); items.len()];
                self.coerce_parts(e, to, &wanted)
            }
            (Type::Record(_), Type::Struct(_)) => Ok(self.record(e, to)),
            (Type::Invalid, Type::Struct(s)) if s.what != Aggregate::Struct => {
                Ok(Expr { ty: to.clone(), ..e })
            }
            // A block as an argument for a parser or control type: the signatures must agree.
            (Type::Block(found), Type::Block(wanted)) if found.kind == wanted.kind => {
                let same = found.params.len() == wanted.params.len()
                    && found
                        .params
                        .iter()
                        .zip(&wanted.params)
                        .all(|(f, w)| f.direction == w.direction && f.ty == w.ty);
                if same { Ok(e) } else { Err(e.ty) }
            }
            _ => Err(e.ty),
        }
    }

    /// Replaces `...` in an expression with the default values of the type. On failure returns the
    /// type without a default value, and the position.
    fn with_rest(&mut self, e: Expr, to: &Type) -> Result<Expr, (Type, Span)> {
        let span = e.span;
        if e.ty == Type::Rest || matches!(&e.kind, ExprKind::List(_)) {
            self.reporter.work(to.extent().values / 32);
        }
        let default = |c: &mut Self, ty: &Type| {
            c.reporter.work(ty.extent().values);
            default_value(ty, span).ok_or((ty.clone(), span))
        };
        let mut items = match e.kind {
            // Each side is converted separately.
            ExprKind::Mux(..) => return Ok(e),
            _ if e.ty == Type::Rest => return default(self, to),
            ExprKind::List(items) if items.last().is_some_and(|i| i.ty == Type::Rest) => items,
            _ => return Ok(e),
        };
        let wanted: Vec<Type> = match to {
            Type::Struct(s) => s.fields.iter().map(|f| f.ty.clone()).collect(),
            Type::Tuple(items) => items.to_vec(),
            Type::Stack(of, size) => vec![(**of).clone(); *size as usize],
            _ => return Err((to.clone(), e.span)),
        };
        items.pop();
        for ty in wanted.iter().skip(items.len()) {
            items.push(default(self, ty)?);
        }
        let ty = Type::Tuple(items.iter().map(|item| item.ty.clone()).collect());
        Ok(Expr { span: e.span, ty, kind: ExprKind::List(items) })
    }

    /// A list as a struct or header.
    fn coerce_fields(&mut self, e: Expr, to: &Type, s: &StructType) -> Result<Expr, Type> {
        let ExprKind::List(items) = &e.kind else { return Err(e.ty) };
        let (given, fields) = (items.len(), s.fields.len());
        if given != fields {
            let message = format!("{to} has {fields} fields, but {given} values are given");
            self.error(e.span, message);
            return Ok(Expr { span: e.span, ty: to.clone(), kind: ExprKind::Error });
        }
        let wanted: Vec<Type> = s.fields.iter().map(|f| f.ty.clone()).collect();
        self.coerce_parts(e, to, &wanted)
    }

    fn coerce_parts(&mut self, e: Expr, to: &Type, wanted: &[Type]) -> Result<Expr, Type> {
        let ExprKind::List(items) = e.kind else { return Err(e.ty) };
        let items =
            items.into_iter().zip(wanted).map(|(item, ty)| self.element(item, ty)).collect();
        Ok(Expr { span: e.span, ty: to.clone(), kind: ExprKind::List(items) })
    }

    /// `{name = value}` as a struct.
    fn record(&mut self, e: Expr, to: &Type) -> Expr {
        let (Type::Struct(s), ExprKind::Record(values)) = (to, e.kind) else {
            return Expr::error(e.span);
        };
        let s = s.clone();
        self.reporter.work(to.extent().values);
        let mut slots: Vec<Option<Expr>> = s.fields.iter().map(|_| None).collect();
        let mut rest = None;
        for (name, value) in values {
            if value.ty == Type::Rest {
                rest = Some(value.span);
                continue;
            }
            match s.position(&name) {
                Some(i) if slots[i].is_some() => {
                    self.error(value.span, format!("field `{name}` is given twice"))
                }
                Some(i) => slots[i] = Some(self.element(value, &s.fields[i].ty)),
                None => self.error(value.span, format!("{to} has no field `{name}`")),
            }
        }
        let mut items = Vec::with_capacity(slots.len());
        for (slot, field) in slots.into_iter().zip(&s.fields) {
            let default = || rest.and_then(|span| default_value(&field.ty, span));
            items.push(slot.or_else(default).unwrap_or_else(|| {
                self.error(e.span, format!("field `{}` of {to} is given no value", field.name));
                Expr::error(e.span)
            }));
        }
        Expr { span: e.span, ty: to.clone(), kind: ExprKind::List(items) }
    }

    /// Converts an `int` to an integer type of fixed width. Warns if bits are lost.
    fn fit(&mut self, e: Expr, to: &Type) -> Expr {
        let Some(Some((bits, signed))) = integer(to) else { return e };
        let Some(value) = e.int() else { return recast(e, to) };
        self.reporter.work(u64::from(bits) / 1024);
        let (low, high) = bounds(bits, signed);
        // A signed type also accepts a bit pattern, and an unsigned type accepts `-1` for all ones.
        let pattern = (BigInt::from(1) << bits) - 1;
        if *value > high.max(pattern)
            || *value < low.min(-(BigInt::from(1) << bits.saturating_sub(1)))
        {
            let value = shown(value);
            let message = format!("{value} does not fit {to}: its high bits are cut off");
            self.reporter.warning(e.span, message);
        }
        let value = wrap(value.clone(), Some((bits, signed)));
        Expr { span: e.span, ty: to.clone(), kind: ExprKind::Int(value) }
    }

    /// `(to) e`.
    pub(super) fn cast(&mut self, e: Expr, to: &Type, span: Span) -> Expr {
        if matches!(to, Type::Unknown) || matches!(e.ty, Type::Unknown) {
            return Expr { span, ty: to.clone(), kind: ExprKind::Error };
        }
        if e.ty == *to {
            return Expr { span, ..e };
        }
        let composite =
            matches!(e.ty, Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Rest);
        if composite {
            return self.coerce(e, to);
        }
        if !castable(&e.ty, to, e.int()) {
            let message = format!("{} cannot be cast to {to}", e.ty);
            let help = match (e.ty.repr(), to.repr()) {
                (Type::Bit(a), Type::Signed(_)) => Some(format!(
                    "cast to int<{a}> first: the sign and the width change one at a time"
                )),
                (Type::Signed(a), Type::Bit(_)) => Some(format!(
                    "cast to bit<{a}> first: the sign and the width change one at a time"
                )),
                (Type::Bool, Type::Bit(_)) => Some("cast to bit<1> first".to_owned()),
                (Type::Bit(_), Type::Bool) => Some("compare with 0 instead".to_owned()),
                _ => None,
            };
            match help {
                Some(help) => self.error_help(span, message, help),
                None => self.error(span, message),
            }
            return Expr { span, ty: to.clone(), kind: ExprKind::Error };
        }
        Expr { span, ..recast(e, to) }
    }
}

/// Whether the specification lists the cast. A type made by `type` and a serialisable enum convert
/// from and to their underlying types only.
fn castable(from: &Type, to: &Type, value: Option<&BigInt>) -> bool {
    match (from, to) {
        (Type::Int, Type::New(new)) => integer(&new.repr).is_some(),
        (Type::New(new), other) | (other, Type::New(new)) if new.repr == *other => true,
        (Type::New(_), _) | (_, Type::New(_)) => false,
        (Type::SerEnum(a), Type::SerEnum(b)) => a.repr == b.repr,
        (Type::SerEnum(e), other) | (other, Type::SerEnum(e)) if e.repr == *other => true,
        (Type::Int, Type::Bit(_) | Type::Signed(_) | Type::SerEnum(_)) => true,
        (Type::Int, Type::Bool) => value.is_some_and(|v| v.bits() <= 1 && !v.is_negative()),
        (Type::Bit(1), Type::Bool) | (Type::Bool, Type::Bit(1)) => true,
        (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) => true,
        (Type::Bit(a), Type::Signed(b)) | (Type::Signed(a), Type::Bit(b)) => a == b,
        // Without a known value, `int` is as wide as the value needs.
        (Type::Bit(_) | Type::Signed(_), Type::Int) => true,
        _ => false,
    }
}

/// The value of a variable of this type that is initialised with `...`.
fn default_value(ty: &Type, span: Span) -> Option<Expr> {
    let all = |types: &mut dyn Iterator<Item = &Type>| -> Option<ExprKind> {
        Some(ExprKind::List(types.map(|ty| default_value(ty, span)).collect::<Option<_>>()?))
    };
    let kind = match ty {
        Type::Bool => ExprKind::Bool(false),
        Type::Int | Type::Bit(_) | Type::Signed(_) | Type::SerEnum(_) => ExprKind::Int(0.into()),
        Type::New(new) => default_value(&new.repr, span)?.kind,
        Type::Enum(_) | Type::ErrorCode => ExprKind::Member(0),
        Type::Text => ExprKind::Text("".into()),
        Type::Struct(s) if s.what == Aggregate::Struct => all(&mut s.fields.iter().map(|f| &f.ty))?,
        Type::Struct(_) => ExprKind::Invalid,
        Type::Tuple(items) => all(&mut items.iter())?,
        Type::Stack(of, size) => all(&mut (0..*size).map(|_| &**of))?,
        _ => return None,
    };
    Some(Expr { span, ty: ty.clone(), kind })
}

/// Converts an expression to another type, and folds it if it is constant.
pub(super) fn recast(e: Expr, to: &Type) -> Expr {
    if e.ty == *to {
        return e;
    }
    let kind = match (e.kind, to.repr()) {
        (ExprKind::Int(v), Type::Bool) => ExprKind::Bool(v != BigInt::from(0)),
        (ExprKind::Int(v), repr) => ExprKind::Int(match integer(repr) {
            Some(width) => wrap(v, width),
            None => v,
        }),
        (ExprKind::Bool(b), Type::Bool) => ExprKind::Bool(b),
        (ExprKind::Bool(b), Type::Bit(_)) => ExprKind::Int(BigInt::from(u8::from(b))),
        (kind, _) => ExprKind::Cast(Box::new(Expr { span: e.span, ty: e.ty, kind })),
    };
    Expr { span: e.span, ty: to.clone(), kind }
}

/// How to fix a mismatch.
pub(super) fn cast_help(from: &Type, to: &Type) -> Option<String> {
    match (from, to) {
        (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) => {
            Some(format!("cast with ({to})"))
        }
        (Type::Bit(a), Type::Signed(b)) if a == b => Some(format!("cast with ({to})")),
        (Type::Signed(a), Type::Bit(b)) if a == b => Some(format!("cast with ({to})")),
        (Type::Bit(a), Type::Signed(_)) => Some(format!("cast with ({to})(int<{a}>)")),
        (Type::Signed(a), Type::Bit(_)) => Some(format!("cast with ({to})(bit<{a}>)")),
        (Type::Bool, Type::Bit(1)) => Some("cast with (bit<1>)".to_owned()),
        (Type::Bit(1), Type::Bool) => Some("cast with (bool), or compare with 1".to_owned()),
        (Type::Bit(_) | Type::Int, Type::Bool) => {
            Some("compare it, for example with `!= 0`".to_owned())
        }
        (Type::Int | Type::Bit(_), Type::SerEnum(_) | Type::New(_)) => {
            Some(format!("cast with ({})", name(to)))
        }
        (Type::SerEnum(_) | Type::New(_), Type::Bit(_)) => Some(format!("cast with ({to})")),
        _ => None,
    }
}

fn name(ty: &Type) -> String {
    match ty {
        Type::SerEnum(e) => e.name.to_string(),
        other => other.to_string(),
    }
}
