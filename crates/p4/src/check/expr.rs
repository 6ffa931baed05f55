//! Expressions other than calls.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::convert::integer;
use super::operators::plain;
use super::{Checker, Entry, Place, VarKind, closest, convert, fold};
use crate::ast::{self, Direction, Ident, Str};
use crate::hir::{ApplyPart, Expr, ExprKind};
use crate::ir::BinaryOp;
use crate::source::Span;
use crate::types::{Aggregate, StructType, Type};
use crate::walk;

impl Checker<'_, '_> {
    pub(super) fn expr(&mut self, e: &ast::Expr) -> Expr {
        let span = e.span;
        self.reporter.step(span);
        match &e.kind {
            ast::ExprKind::Int(value, width) => {
                let (ty, width) = match *width {
                    None => (Type::Int, None),
                    Some((false, w)) => (Type::Bit(w), Some((w, false))),
                    Some((true, w)) => (Type::Signed(w), Some((w, true))),
                };
                Expr { span, ty, kind: ExprKind::Int(fold::wrap(value.clone(), width)) }
            }
            ast::ExprKind::Bool(b) => Expr { span, ty: Type::Bool, kind: ExprKind::Bool(*b) },
            ast::ExprKind::Text(t) => {
                Expr { span, ty: Type::Text, kind: ExprKind::Text(t.clone()) }
            }
            ast::ExprKind::Name(name) => {
                let entry = self.lookup(&name.name).cloned();
                self.named_value(name, entry)
            }
            ast::ExprKind::Global(name) => {
                let entry = self.lookup_global(&name.name).cloned();
                self.named_value(name, entry)
            }
            ast::ExprKind::This => {
                self.unsupported(span, "`this` is");
                Expr::error(span)
            }
            ast::ExprKind::TypeMember(ty, member) => self.type_member(ty, member, span),
            ast::ExprKind::Member(base, member) => self.member(base, member, span),
            ast::ExprKind::Index(base, index) => self.index(base, index, span),
            ast::ExprKind::Slice(base, hi, lo) => self.slice(base, hi, lo, span),
            ast::ExprKind::Part(base, low, width) => self.part(base, low, width, span),
            ast::ExprKind::Unary(op, e) => {
                let e = self.expr(e);
                self.unary(*op, e, span)
            }
            ast::ExprKind::Binary(op, a, b) => {
                let a = self.expr(a);
                let b = self.expr(b);
                self.binary(*op, a, b, span)
            }
            ast::ExprKind::Mux(c, a, b) => {
                let (c, a, b) = (self.expr(c), self.expr(a), self.expr(b));
                self.mux(c, a, b, span)
            }
            ast::ExprKind::Cast(ty, e) => {
                let ty = self.resolve(ty);
                let e = self.expr(e);
                self.cast(e, &ty, span)
            }
            ast::ExprKind::Call { callee, type_args, args } => {
                self.call(callee, type_args, args, span)
            }
            ast::ExprKind::Construct(ty, args) => self.construct_expr(ty, args, span),
            ast::ExprKind::List(items) => {
                let items: Vec<Expr> = items.iter().map(|e| self.expr(e)).collect();
                let ty = Type::Tuple(items.iter().map(|e| e.ty.clone()).collect());
                self.bounded_list(&ty, span);
                Expr { span, ty, kind: ExprKind::List(items) }
            }
            ast::ExprKind::Record(items) => {
                let items: Vec<(Str, Expr)> =
                    items.iter().map(|(n, e)| (n.name.clone(), self.expr(e))).collect();
                let ty =
                    Type::Record(items.iter().map(|(n, e)| (n.clone(), e.ty.clone())).collect());
                self.bounded_list(&ty, span);
                Expr { span, ty, kind: ExprKind::Record(items) }
            }
            ast::ExprKind::Invalid => Expr { span, ty: Type::Invalid, kind: ExprKind::Invalid },
            ast::ExprKind::Ellipsis => Expr { span, ty: Type::Rest, kind: ExprKind::Rest },
            ast::ExprKind::Mask(..) | ast::ExprKind::Range(..) => {
                self.error(span, "`&&&` and `..` make sets, which stand in `select` cases and table entries only");
                Expr::error(span)
            }
            ast::ExprKind::Any => {
                self.error(span, "`_` has no value");
                Expr::error(span)
            }
            ast::ExprKind::Error => Expr::error(span),
        }
    }

    /// Charges steps for copying a value this many times.
    pub(super) fn copied(&mut self, value: &Expr, times: u64) {
        let mut steps = 0u64;
        walk::expr(value, &mut |e| steps += 1 + e.int().map_or(0, |v| v.bits() / 1024));
        self.reporter.work(steps.saturating_mul(times));
    }

    /// An integer known at compile time.
    pub(super) fn constant_int(&mut self, e: &ast::Expr) -> Option<BigInt> {
        let e = self.expr(e);
        match &e.kind {
            ExprKind::Int(value) if integer(e.ty.operand()).is_some() => Some(value.clone()),
            ExprKind::Error => None,
            _ => {
                self.error(e.span, "this must be an integer known at compile time");
                None
            }
        }
    }

    fn named_value(&mut self, name: &Ident, entry: Option<Entry>) -> Expr {
        let span = name.span;
        match entry {
            Some(Entry::Const(value)) => {
                self.copied(&value, 1);
                Expr { span, ..value }
            }
            Some(Entry::Var(var)) => Expr { span, ty: var.ty, kind: ExprKind::Var(var.id) },
            Some(Entry::Broken) => Expr::error(span),
            Some(other) => {
                let what = match other {
                    Entry::Action(_) => "an action",
                    Entry::Table(_) => "a table",
                    Entry::Functions(_) | Entry::ExternFunctions(_) => "a function",
                    _ => "a type",
                };
                self.error(span, format!("`{}` is {what}, not a value", name.name));
                Expr::error(span)
            }
            None => {
                let message = format!("there is no `{}` here", name.name);
                self.unknown(span, message, &name.name);
                Expr::error(span)
            }
        }
    }

    fn type_member(&mut self, ty: &ast::TypeRef, member: &Ident, span: Span) -> Expr {
        let ty = self.resolve(ty);
        let found = match &ty {
            Type::Unknown => return Expr::error(span),
            Type::ErrorCode => {
                self.errors.iter().position(|e| *e == member.name).map(ExprKind::Member)
            }
            Type::Enum(e) => {
                self.reporter.work(e.members.len() as u64 / 16);
                e.members.iter().position(|m| *m == member.name).map(ExprKind::Member)
            }
            Type::SerEnum(e) => {
                self.reporter.work(e.members.len() as u64 / 16);
                e.members.iter().find(|m| m.0 == member.name).map(|m| ExprKind::Int(m.1.clone()))
            }
            _ => None,
        };
        if let Some(kind) = found {
            return Expr { span, ty, kind };
        }
        let names: Vec<Str> = match &ty {
            Type::ErrorCode => self.errors.clone(),
            Type::Enum(e) => e.members.clone(),
            Type::SerEnum(e) => e.members.iter().map(|m| m.0.clone()).collect(),
            _ => Vec::new(),
        };
        let message = format!("{ty} has no member `{}`", member.name);
        self.suggest(member.span, message, closest(&member.name, names.iter()));
        Expr::error(span)
    }

    fn member(&mut self, base: &ast::Expr, member: &Ident, span: Span) -> Expr {
        let base = self.expr(base);
        let name = &*member.name;
        let boxed = |e: Expr| Box::new(e);
        match base.ty.clone() {
            Type::Unknown => Expr::error(span),
            Type::Struct(s) => self.field(base, &s, member, span),
            Type::Stack(of, size) if !Self::is_header(&of) => {
                let message = format!("{of}[{size}] has no member `{name}`");
                let help = "only stacks of headers have members; elements are had by `[index]`";
                self.error_help(member.span, message, help);
                Expr::error(span)
            }
            Type::Stack(..)
                if matches!(name, "next" | "last" | "lastIndex")
                    && matches!(self.place, Place::Control | Place::Action) =>
            {
                self.error(member.span, format!("`{name}` is for parsers only"));
                Expr::error(span)
            }
            Type::Stack(of, size) => match name {
                "next" => Expr { span, ty: (*of).clone(), kind: ExprKind::Next(boxed(base)) },
                "last" => Expr { span, ty: (*of).clone(), kind: ExprKind::Last(boxed(base)) },
                "lastIndex" => {
                    Expr { span, ty: Type::Bit(32), kind: ExprKind::LastIndex(boxed(base)) }
                }
                "size" => Expr { span, ty: Type::Bit(32), kind: ExprKind::Int(BigInt::from(size)) },
                _ => {
                    let help = "a stack has `next`, `last`, `lastIndex` and `size`, and its elements by `[index]`";
                    self.error_help(
                        member.span,
                        format!("{} has no member `{name}`", base.ty),
                        help,
                    );
                    Expr::error(span)
                }
            },
            Type::ApplyResult => {
                let ExprKind::Apply(table, _) = base.kind else { return Expr::error(span) };
                let (part, ty) = match name {
                    "hit" => (ApplyPart::Hit, Type::Bool),
                    "miss" => (ApplyPart::Miss, Type::Bool),
                    "action_run" => (ApplyPart::ActionRun, Type::ActionRun),
                    _ => {
                        let help = "there are `hit`, `miss` and `action_run`";
                        self.error_help(
                            member.span,
                            format!("a table's result has no member `{name}`"),
                            help,
                        );
                        return Expr::error(span);
                    }
                };
                Expr { span, ty, kind: ExprKind::Apply(table, part) }
            }
            ty => {
                self.error(member.span, format!("{ty} has no member `{name}`"));
                Expr::error(span)
            }
        }
    }

    /// A field of a struct or header.
    fn field(&mut self, base: Expr, ty: &StructType, member: &Ident, span: Span) -> Expr {
        let name = &*member.name;
        self.reporter.work(ty.fields.len() as u64 / 64);
        let Some(i) = ty.position(name) else {
            if !self.complete {
                return Expr::error(span);
            }
            let message = format!("{} has no field `{name}`", base.ty);
            let names: Vec<Str> = ty.fields.iter().map(|f| f.name.clone()).collect();
            self.suggest(member.span, message, closest(name, names.iter()));
            return Expr::error(span);
        };
        if let ExprKind::List(items) = &base.kind
            && let Some(item) = items.get(i)
        {
            self.copied(item, 1);
            return Expr { span, ..item.clone() };
        }
        let ty = ty.fields[i].ty.clone();
        Expr { span, ty, kind: ExprKind::Field(Box::new(base), i) }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let index = self.expr(index);
        match base.ty.clone() {
            Type::Unknown => Expr::error(span),
            Type::Stack(of, size) => {
                let index = match index.ty {
                    Type::Int => self.coerce(index, &Type::Bit(32)),
                    _ => plain(index),
                };
                if integer(&index.ty).is_none() {
                    if !matches!(index.ty, Type::Unknown) {
                        self.error(index.span, format!("an index is an integer, not {}", index.ty));
                    }
                    return Expr::error(span);
                }
                if index.int().is_some_and(|i| *i >= BigInt::from(size)) {
                    self.error(index.span, format!("the stack has {size} elements only"));
                    return Expr::error(span);
                }
                let ty = (*of).clone();
                Expr { span, ty, kind: ExprKind::Index(Box::new(base), Box::new(index)) }
            }
            Type::Tuple(items) => match index.int().and_then(ToPrimitive::to_usize) {
                Some(i) if i < items.len() => {
                    if let ExprKind::List(values) = &base.kind {
                        self.copied(&values[i], 1);
                        return Expr { span, ..values[i].clone() };
                    }
                    Expr {
                        span,
                        ty: items[i].clone(),
                        kind: ExprKind::Index(Box::new(base), Box::new(index)),
                    }
                }
                _ => {
                    self.error(
                        index.span,
                        format!("a tuple's index is a constant below {}", items.len()),
                    );
                    Expr::error(span)
                }
            },
            ty => {
                self.error(span, format!("{ty} cannot be indexed"));
                Expr::error(span)
            }
        }
    }

    fn slice(&mut self, base: &ast::Expr, hi: &ast::Expr, lo: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let (hi_value, lo_value) = (self.constant_int(hi), self.constant_int(lo));
        let (Some(h), Some(l)) = (hi_value, lo_value) else { return Expr::error(span) };
        if matches!(base.ty, Type::Unknown) {
            return Expr::error(span);
        }
        let Some(Some((width, _))) = integer(base.ty.operand()) else {
            self.error(span, format!("{} cannot be sliced", base.ty));
            return Expr::error(span);
        };
        let (Some(h), Some(l)) = (h.to_u32(), l.to_u32()) else {
            self.error(span, "the bounds of a slice are not negative");
            return Expr::error(span);
        };
        if h < l || h >= width {
            let message = format!("[{h}:{l}] is not a slice of {}", base.ty);
            match width.checked_sub(1) {
                Some(most) => {
                    let help = format!("write [high:low] with {most} >= high >= low >= 0");
                    self.error_help(span, message, help);
                }
                None => self.error(span, message),
            }
            return Expr::error(span);
        }
        let ty = Type::Bit(h - l + 1);
        let kind = match base.int() {
            Some(v) => ExprKind::Int(fold::wrap(v >> l, Some((h - l + 1, false)))),
            None => ExprKind::Slice(Box::new(base), h, l),
        };
        Expr { span, ty, kind }
    }

    /// `base[low +: width]`, where `low` need not be constant.
    fn part(&mut self, base: &ast::Expr, low: &ast::Expr, width: &ast::Expr, span: Span) -> Expr {
        let (base, low) = (self.expr(base), self.expr(low));
        let Some(width) = self.constant_int(width) else { return Expr::error(span) };
        if matches!(base.ty, Type::Unknown) || matches!(low.ty, Type::Unknown) {
            return Expr::error(span);
        }
        let Some(Some((of, _))) = integer(base.ty.operand()) else {
            self.error(span, format!("{} cannot be sliced", base.ty));
            return Expr::error(span);
        };
        let Some(width) = width.to_u32().filter(|width| (1..=of).contains(width)) else {
            self.error(span, format!("{width} bits are no part of {}", base.ty));
            return Expr::error(span);
        };
        let base = convert::recast(base, &Type::Bit(of));
        let shifted = match low.int().and_then(ToPrimitive::to_u32) {
            Some(low) if low <= of - width => {
                let kind = ExprKind::Slice(Box::new(base), low + width - 1, low);
                return Expr { span, ty: Type::Bit(width), kind };
            }
            Some(low) => {
                let message = format!("[{low} +: {width}] is not a slice of {}", base.ty);
                self.error(span, message);
                return Expr::error(span);
            }
            None => self.binary(BinaryOp::Shr, base, low, span),
        };
        Expr { span, ty: Type::Bit(width), kind: ExprKind::Slice(Box::new(shifted), width - 1, 0) }
    }

    /// Checks that an expression is an lvalue. Reports the reason if it is not.
    pub(super) fn writable(&mut self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Error => true,
            ExprKind::Field(base, _)
            | ExprKind::Slice(base, ..)
            | ExprKind::Next(base)
            | ExprKind::Last(base) => self.writable(base),
            ExprKind::Index(base, _) => self.writable(base),
            ExprKind::Var(id) => match self.vars.get(id).cloned() {
                Some((_, VarKind::Local | VarKind::Param(Direction::Out | Direction::Inout))) => {
                    true
                }
                Some((name, VarKind::Param(Direction::In))) => {
                    let help = format!("declare `{name}` with `inout`, or assign to a local copy");
                    self.error_help(
                        e.span,
                        format!("`{name}` is an `in` parameter and cannot be changed"),
                        help,
                    );
                    false
                }
                Some((name, _)) => {
                    self.error(e.span, format!("`{name}` cannot be changed"));
                    false
                }
                None => true,
            },
            _ => {
                self.error(e.span, "this is a value: it cannot be changed");
                false
            }
        }
    }

    /// The value of `minSizeInBits` and similar constants of a type.
    pub(super) fn size_constant(&mut self, ty: &Type, method: &Ident, span: Span) -> Option<Expr> {
        let (least, bytes) = match &*method.name {
            "minSizeInBits" => (true, false),
            "minSizeInBytes" => (true, true),
            "maxSizeInBits" => (false, false),
            "maxSizeInBytes" => (false, true),
            _ => return None,
        };
        let Some(bits) = ty.size_bits(least) else {
            self.error(span, format!("{ty} has no size in bits"));
            return Some(Expr::error(span));
        };
        let value = if bytes { bits.div_ceil(8) } else { bits };
        Some(Expr { span, ty: Type::Int, kind: ExprKind::Int(BigInt::from(value)) })
    }

    /// Whether an expression is a header or header union, which can be valid or invalid.
    pub(super) fn is_header(ty: &Type) -> bool {
        matches!(ty, Type::Struct(s) if s.what != Aggregate::Struct)
    }
}
