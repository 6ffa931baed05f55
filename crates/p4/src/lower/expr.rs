//! Expressions.

use std::rc::Rc;

use num_bigint::BigInt;

use super::store::{Loc, Store, Which, scalar};
use super::{Binding, Lowerer, Value, build, integers};
use crate::ast::UnaryOp;
use crate::hir::{self, ApplyPart, ExprKind};
use crate::ir::{self, BinaryOp, Expr, Place, Scalar, Stmt};
use crate::source::Span;
use crate::types::Type;
use crate::walk;

/// Whether evaluating an expression may have side effects: calls and tables.
pub(super) fn has_effects(e: &hir::Expr) -> bool {
    let mut found = false;
    walk::expr(e, &mut |e| found |= matches!(e.kind, ExprKind::Call(_) | ExprKind::Apply(..)));
    found
}

/// Number of nodes up to which an index is copied rather than stored.
const LONG_INDEX: usize = 16;

/// Number of nodes of an expression.
fn size(e: &Expr) -> usize {
    1 + match &e.kind {
        ir::ExprKind::Const(_) | ir::ExprKind::Field(_) | ir::ExprKind::Valid(_) => 0,
        ir::ExprKind::Unary(_, a) | ir::ExprKind::Cast(a) => size(a),
        ir::ExprKind::Slice { value, .. } => size(value),
        ir::ExprKind::Element(_, index, _) => size(index),
        ir::ExprKind::Binary(_, a, b) => size(a) + size(b),
        ir::ExprKind::Mux(a, b, c) => size(a) + size(b) + size(c),
    }
}

impl Lowerer<'_, '_> {
    /// A scalar expression.
    pub(super) fn scalar(&mut self, e: &hir::Expr) -> Expr {
        let value = self.value(e);
        self.value_scalar(value, e)
    }

    pub(super) fn value_scalar(&mut self, value: Value, e: &hir::Expr) -> Expr {
        if e.ty.is_empty() {
            return build::boolean(false);
        }
        match value {
            Value::Scalar(e) | Value::Symbol { code: e, .. } => e,
            Value::Loc(loc) => match self.read(&loc) {
                Some(e) => e,
                None => self.broken(e),
            },
            _ => self.broken(e),
        }
    }

    /// Placeholder for a value without a scalar form. The checker has reported such values.
    fn broken(&mut self, e: &hir::Expr) -> Expr {
        if !matches!(e.ty, Type::Unknown) {
            self.unsupported(e.span, &format!("a value of type {} here is", e.ty));
        }
        build::boolean(false)
    }

    /// A value that is known to be constant.
    pub(super) fn constant(&mut self, e: &hir::Expr) -> Option<BigInt> {
        let value = self.scalar(e);
        let known = build::value(&value);
        if known.is_none() {
            self.error(e.span, "this must be known at compile time");
        }
        known
    }

    pub(super) fn value(&mut self, e: &hir::Expr) -> Value {
        self.reporter.step(e.span);
        match &e.kind {
            ExprKind::Int(v) => {
                self.reporter.work(v.bits() / 512);
                Value::Scalar(match scalar(&e.ty) {
                    Some(ty) => build::constant(v, ty),
                    None if e.ty == Type::Int => integers::constant(v),
                    None => build::boolean(false),
                })
            }
            ExprKind::Bool(b) => Value::Scalar(build::boolean(*b)),
            ExprKind::Text(t) => Value::Text(t.clone()),
            ExprKind::Member(i) => self.enum_member(&e.ty, *i),
            ExprKind::Var(id) => match self.vars.get(id) {
                Some(Binding::Loc(loc)) => Value::Loc(loc.clone()),
                Some(Binding::Value(value)) => value.clone(),
                Some(object) => Value::Object(Box::new(object.clone())),
                None => Value::Void,
            },
            ExprKind::Field(base, i) => match self.value(base) {
                Value::Loc(loc) => Value::Loc(self.member(loc, &base.ty, *i)),
                Value::List(mut items) if *i < items.len() => items.swap_remove(*i),
                _ => Value::Void,
            },
            ExprKind::Index(base, index) => self.index(base, index),
            ExprKind::Next(base) => self.stack_element(base, Which::Next),
            ExprKind::Last(base) => self.stack_element(base, Which::Last),
            ExprKind::LastIndex(base) => match self.value(base) {
                Value::Loc(loc) => self.last_index(&loc).map_or(Value::Void, Value::Scalar),
                _ => Value::Void,
            },
            ExprKind::Slice(base, hi, lo) => match self.value(base) {
                Value::Loc(loc) => Value::Loc(self.slice_of(loc, *hi, *lo)),
                value => {
                    let inner = self.value_scalar(value, base);
                    Value::Scalar(build::slice(inner, *hi, *lo))
                }
            },
            ExprKind::Unary(op, a) => Value::Scalar(self.unary(*op, a, e)),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b),
            ExprKind::Mux(c, a, b) => self.mux(c, a, b, &e.ty),
            ExprKind::Cast(inner) => {
                let value = self.scalar(inner);
                match scalar(&e.ty) {
                    Some(ty) => Value::Scalar(build::cast(value, ty)),
                    None if e.ty == Type::Int => Value::Scalar(integers::widened(value)),
                    None => Value::Scalar(value),
                }
            }
            ExprKind::List(items) => Value::List(self.operands(items)),
            ExprKind::Record(items) => {
                let items: Vec<hir::Expr> = items.iter().map(|(_, e)| e.clone()).collect();
                Value::List(self.operands(&items))
            }
            ExprKind::Invalid => Value::Invalid,
            ExprKind::IsValid(header) => match self.value(header) {
                Value::Loc(loc) => self.validity(&loc).map_or(Value::Void, Value::Scalar),
                Value::Invalid => Value::Scalar(build::boolean(false)),
                _ => Value::Scalar(build::boolean(true)),
            },
            ExprKind::Call(call) => self.call(call, &e.ty, e.span),
            ExprKind::Apply(table, part) => self.apply_value(table, *part),
            ExprKind::Construct(construct) => self.unnamed_instance(construct, e.span),
            ExprKind::Rest | ExprKind::Error => Value::Void,
        }
    }

    /// A member of an enum or of `error`.
    fn enum_member(&mut self, ty: &Type, position: usize) -> Value {
        let code = match ty {
            Type::ErrorCode => self.error_code(position),
            _ => position,
        };
        let code = build::constant(&BigInt::from(code), Scalar::bit(32));
        let Type::Enum(ty) = ty else { return Value::Scalar(code) };
        self.enum_index(ty);
        let (enum_name, member) = (ty.name.clone(), ty.members[position].clone());
        Value::Symbol { enum_name, member, code }
    }

    /// `e` is the whole expression.
    fn unary(&mut self, op: UnaryOp, operand: &hir::Expr, e: &hir::Expr) -> Expr {
        let value = self.scalar(operand);
        match op {
            UnaryOp::Neg if operand.ty == Type::Int => {
                let zero = integers::constant(&0.into());
                self.int_binary(BinaryOp::Sub, zero, value, e)
            }
            UnaryOp::Not => build::unary(ir::UnaryOp::Not, value),
            UnaryOp::BitNot => build::unary(ir::UnaryOp::BitNot, value),
            UnaryOp::Neg => build::unary(ir::UnaryOp::Neg, value),
            UnaryOp::Plus => value,
        }
    }

    /// An unnamed instance as a constructor's argument.
    fn unnamed_instance(&mut self, construct: &Rc<hir::Construct>, span: Span) -> Value {
        let instance = hir::Instance {
            id: 0,
            name: format!("anonymous{}", self.temps).into(),
            annotations: Vec::new(),
            construct: construct.clone(),
            methods: Vec::new(),
            span,
        };
        self.temps += 1;
        Value::Object(Box::new(self.instance(&instance)))
    }

    /// Values of several expressions, evaluated from left to right.
    pub(super) fn operands(&mut self, items: &[hir::Expr]) -> Vec<Value> {
        let last_effect = items.iter().rposition(has_effects);
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let mut value = self.value(item);
            if last_effect.is_some_and(|last| i < last) {
                value = self.keep(value, &item.ty);
            }
            values.push(value);
        }
        values
    }

    /// A value that later statements cannot change.
    pub(super) fn keep(&mut self, value: Value, ty: &Type) -> Value {
        match value {
            Value::Scalar(e) if !matches!(e.kind, ir::ExprKind::Const(_)) => {
                let temp = self.temp("t", e.ty);
                self.emit(Stmt::Assign(Place::Field(temp), e));
                Value::Loc(Loc::Store(Store::Scalar(temp)))
            }
            Value::Loc(loc) => {
                let store = self.local("$copy", ty);
                self.assign(&Loc::Store(store.clone()), Value::Loc(loc), ty);
                Value::Loc(Loc::Store(store))
            }
            other => other,
        }
    }

    fn index(&mut self, base: &hir::Expr, index: &hir::Expr) -> Value {
        let stack = self.value(base);
        let index = self.scalar(index);
        self.element(stack, base, index)
    }

    /// An element of a stack, an array or a list.
    fn element(&mut self, stack: Value, base: &hir::Expr, index: Expr) -> Value {
        let known = build::value(&index).and_then(|v| usize::try_from(v).ok());
        match (stack, known) {
            (Value::Loc(Loc::Choice(choice)), _) => {
                let index = self.keep_index(index);
                Value::Loc(self.chosen_parts(&choice, |l, part| {
                    match l.element(Value::Loc(part), base, index.clone()) {
                        Value::Loc(loc) => loc,
                        _ => Loc::Store(Store::Struct(Rc::default())),
                    }
                }))
            }
            (
                Value::Loc(Loc::Store(
                    Store::Stack(_, parts)
                    | Store::UnionStack(_, parts)
                    | Store::Array(_, parts)
                    | Store::Struct(parts),
                )),
                Some(i),
            ) if i < parts.len() => Value::Loc(Loc::Store(parts[i].clone())),
            (Value::Loc(loc @ Loc::Part { .. }), Some(i)) if i < base.ty.parts().len() => {
                Value::Loc(self.member(loc, &base.ty, i))
            }
            (Value::Loc(loc @ Loc::Part { .. }), None) => {
                let size = base.ty.parts().len();
                let member = |l: &mut Self, at| l.member(loc.clone(), &base.ty, at);
                let parts = (0..size).map(|at| member(self, at)).collect();
                Value::Loc(self.choice(index, parts))
            }
            (Value::Loc(Loc::Store(Store::Array(None, parts))), None) => {
                let parts = parts.iter().map(|part| Loc::Store(part.clone())).collect();
                Value::Loc(self.choice(index, parts))
            }
            (Value::Loc(Loc::Store(Store::Array(Some(stack), _))), None) => {
                let Type::Stack(of, _) = &base.ty else { return Value::Void };
                // The parts of the element are read one after another.
                let index = self.keep_index(index);
                Value::Loc(Loc::Part { stack, index, at: 0, ty: (**of).clone() })
            }
            (Value::List(mut items), Some(i)) if i < items.len() => items.swap_remove(i),
            (Value::Loc(Loc::Store(store)), None) => {
                // A long index would be copied to each place that refers to the element.
                let long = size(&index) > LONG_INDEX;
                let index = if long { self.keep_index(index) } else { index };
                self.chosen_element(&store, &base.ty, Which::Index(index))
            }
            _ => {
                self.error(base.span, "the index is beyond the stack's end");
                Value::Void
            }
        }
    }

    fn stack_element(&mut self, base: &hir::Expr, which: Which) -> Value {
        match self.value(base) {
            Value::Loc(Loc::Store(store)) => self.chosen_element(&store, &base.ty, which),
            Value::Loc(Loc::Choice(choice)) => Value::Loc(self.chosen_parts(&choice, |l, part| {
                let Loc::Store(store) = &part else { return part };
                match l.chosen_element(store, &base.ty, which.clone()) {
                    Value::Loc(loc) => loc,
                    _ => part,
                }
            })),
            _ => Value::Void,
        }
    }

    /// `lastIndex` of a stack.
    fn last_index(&mut self, loc: &Loc) -> Option<Expr> {
        match loc {
            Loc::Store(store) => {
                let field = self.next_index(store)?;
                let next = Expr { ty: Scalar::bit(32), kind: ir::ExprKind::Field(field) };
                let one = build::constant(&1.into(), Scalar::bit(32));
                Some(build::binary(BinaryOp::Sub, next, one))
            }
            Loc::Choice(choice) => Self::chosen_value(choice, &mut |part| self.last_index(part)),
            _ => None,
        }
    }

    /// An element of a stack with a run-time index.
    fn chosen_element(&mut self, stack: &Store, ty: &Type, which: Which) -> Value {
        let Type::Stack(of, _) = ty else { return Value::Void };
        let Type::Struct(s) = &**of else { return Value::Void };
        match stack {
            Store::Stack(id, _) => Value::Loc(Loc::Element(which.of(*id), s.clone())),
            Store::UnionStack(stack, _) => {
                Value::Loc(Loc::UnionElement(which, stack.clone(), s.clone()))
            }
            _ => Value::Void,
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &hir::Expr, b: &hir::Expr) -> Value {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return Value::Scalar(self.logical(op, a, b));
        }
        let mut left = self.value(a);
        if has_effects(b) {
            left = self.keep(left, &a.ty);
        }
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) && scalar(&a.ty).is_none() && a.ty != Type::Int
        {
            let right = self.value(b);
            let equal = self.equal(left, right, &a.ty, a);
            return Value::Scalar(if op == BinaryOp::Eq {
                equal
            } else {
                build::unary(ir::UnaryOp::Not, equal)
            });
        }
        let left = self.value_scalar(left, a);
        let right = self.scalar(b);
        if op == BinaryOp::Concat && b.ty.is_empty() {
            return Value::Scalar(left);
        }
        if op == BinaryOp::Concat && a.ty.is_empty() {
            let width = right.ty.width;
            return Value::Scalar(build::cast(right, Scalar::bit(width)));
        }
        let limbs = u64::from(left.ty.width / 64) * u64::from(right.ty.width / 64);
        self.reporter.work(limbs / 256);
        if a.ty == Type::Int {
            return Value::Scalar(self.int_binary(op, left, right, a));
        }
        Value::Scalar(build::binary(op, left, right))
    }

    fn logical(&mut self, op: BinaryOp, a: &hir::Expr, b: &hir::Expr) -> Expr {
        let left = self.scalar(a);
        if build::truth(&left).is_some_and(|t| t == (op == BinaryOp::Or)) {
            return left;
        }
        if !has_effects(b) {
            let right = self.scalar(b);
            return build::binary(op, left, right);
        }
        // The right side is evaluated only if the left one does not determine the result.
        let result = self.temp("cond", Scalar::BOOL);
        self.emit(Stmt::Assign(Place::Field(result), left));
        let rest = self.buffered(|l| {
            let right = l.scalar(b);
            l.emit(Stmt::Assign(Place::Field(result), right));
        });
        let condition = Expr { ty: Scalar::BOOL, kind: ir::ExprKind::Field(result) };
        let (then, otherwise) =
            if op == BinaryOp::And { (rest, Vec::new()) } else { (Vec::new(), rest) };
        self.emit(Stmt::If { condition: condition.clone(), then, otherwise });
        condition
    }

    fn mux(&mut self, c: &hir::Expr, a: &hir::Expr, b: &hir::Expr, ty: &Type) -> Value {
        let condition = self.scalar(c);
        match build::truth(&condition) {
            Some(true) => return self.value(a),
            Some(false) => return self.value(b),
            None => {}
        }
        if *ty == Type::Int {
            if has_effects(a) || has_effects(b) {
                let message = "a value without a width cannot come from a call in only one case";
                self.reporter.error_help(a.span, message, "cast both sides to bit<W>");
            }
            let (then, otherwise) = (self.scalar(a), self.scalar(b));
            let (then, otherwise) = integers::both(then, otherwise);
            return Value::Scalar(build::mux(condition, then, otherwise));
        }
        if scalar(ty).is_some() && !has_effects(a) && !has_effects(b) {
            let (then, otherwise) = (self.scalar(a), self.scalar(b));
            return Value::Scalar(build::mux(condition, then, otherwise));
        }
        let store = self.local("$mux", ty);
        let loc = Loc::Store(store);
        let then = self.buffered(|l| {
            let value = l.value(a);
            l.assign(&loc, value, ty);
        });
        let otherwise = self.buffered(|l| {
            let value = l.value(b);
            l.assign(&loc, value, ty);
        });
        self.emit(Stmt::If { condition, then, otherwise });
        Value::Loc(loc)
    }

    /// Whether two values of a composite type are equal. Headers are equal if both are invalid, or
    /// both are valid with equal fields.
    fn equal(&mut self, a: Value, b: Value, ty: &Type, at: &hir::Expr) -> Expr {
        self.reporter.work(1);
        let all = |list: Vec<Expr>| {
            list.into_iter()
                .reduce(|a, b| build::binary(BinaryOp::And, a, b))
                .unwrap_or_else(|| build::boolean(true))
        };
        if ty.is_empty() {
            return build::boolean(true);
        }
        let (a, b) = (self.settled(a, ty), self.settled(b, ty));
        if scalar(ty).is_some() {
            let (a, b) = (self.value_scalar(a, at), self.value_scalar(b, at));
            return build::binary(BinaryOp::Eq, a, b);
        }
        if let (Type::Varbit(_), Value::Loc(a), Value::Loc(b)) = (ty, &a, &b)
            && let (Some((a, _)), Some((b, _))) = (self.varbit(a), self.varbit(b))
            && let (Some(a), Some(b)) = (self.read(&a), self.read(&b))
        {
            // Compares the numbers independently of their lengths, as in BMv2.
            return build::binary(BinaryOp::Eq, a, b);
        }
        if !matches!(ty, Type::Struct(_) | Type::Tuple(_) | Type::Stack(..)) {
            return self.broken(at);
        }
        let part = |l: &mut Self, v: &Value, i: usize| match v {
            Value::List(items) => items.get(i).cloned().unwrap_or(Value::Void),
            Value::Loc(Loc::Store(Store::Stack(_, parts) | Store::UnionStack(_, parts))) => {
                Value::Loc(Loc::Store(parts[i].clone()))
            }
            Value::Loc(loc) => Value::Loc(l.member(loc.clone(), ty, i)),
            Value::Invalid => Value::Invalid,
            _ => Value::Void,
        };
        let header = ty.as_header().is_some();
        let valid = |l: &mut Self, v: &Value| match v {
            Value::Loc(loc) => match l.header_ref(loc) {
                Some(h) => Expr { ty: Scalar::BOOL, kind: ir::ExprKind::Valid(h) },
                None => build::boolean(true),
            },
            Value::Invalid => build::boolean(false),
            _ => build::boolean(true),
        };
        if header && (matches!(a, Value::Invalid) || matches!(b, Value::Invalid)) {
            let (x, y) = (valid(self, &a), valid(self, &b));
            return build::binary(BinaryOp::Eq, x, y);
        }
        let fields = ty
            .parts()
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let (x, y) = (part(self, &a, i), part(self, &b, i));
                self.equal(x, y, t, at)
            })
            .collect();
        let fields = all(fields);
        if !header {
            return fields;
        }
        let (x, y) = (valid(self, &a), valid(self, &b));
        let same = build::binary(BinaryOp::Eq, x.clone(), y);
        let either = build::binary(BinaryOp::Or, build::unary(ir::UnaryOp::Not, x), fields);
        build::binary(BinaryOp::And, same, either)
    }

    fn apply_value(&mut self, table: &std::rc::Rc<hir::Table>, part: ApplyPart) -> Value {
        match part {
            ApplyPart::Whole | ApplyPart::ActionRun => {
                self.apply_table(table, None, None);
                Value::Void
            }
            ApplyPart::Hit | ApplyPart::Miss => {
                let hit = self.temp("hit", Scalar::BOOL);
                self.apply_table(table, Some(hit), None);
                let value = Expr { ty: Scalar::BOOL, kind: ir::ExprKind::Field(hit) };
                Value::Scalar(if part == ApplyPart::Miss {
                    build::unary(ir::UnaryOp::Not, value)
                } else {
                    value
                })
            }
        }
    }
}
