//! Builders of IR expressions that fold constants. Constructor parameters are known only at this
//! stage, and expressions that depend on them should cost nothing per packet.

use num_bigint::BigInt;

use crate::check::fold::{arithmetic, compare, from_limbs, limbs};
use crate::ir::{BinaryOp, Expr, ExprKind, Scalar, UnaryOp};

/// A constant.
pub(super) fn constant(value: &BigInt, ty: Scalar) -> Expr {
    Expr { ty, kind: ExprKind::Const(limbs(value, ty.width)) }
}

pub(super) fn boolean(value: bool) -> Expr {
    Expr { ty: Scalar::BOOL, kind: ExprKind::Const(Box::new([u64::from(value)])) }
}

/// The value of a constant expression.
pub(super) fn value(e: &Expr) -> Option<BigInt> {
    match &e.kind {
        ExprKind::Const(l) => Some(from_limbs(l, e.ty.width, e.ty.signed)),
        _ => None,
    }
}

/// The value of a constant condition.
pub(super) fn truth(e: &Expr) -> Option<bool> {
    match &e.kind {
        ExprKind::Const(l) => Some(l.iter().any(|l| *l != 0)),
        _ => None,
    }
}

pub(super) fn unary(op: UnaryOp, e: Expr) -> Expr {
    let ty = e.ty;
    if let Some(v) = value(&e) {
        return match op {
            UnaryOp::Not => boolean(v == BigInt::from(0)),
            UnaryOp::BitNot => constant(&(-v - 1), ty),
            UnaryOp::Neg => constant(&-v, ty),
        };
    }
    if let (UnaryOp::Not, ExprKind::Unary(UnaryOp::Not, inner)) = (op, &e.kind) {
        return (**inner).clone();
    }
    Expr { ty, kind: ExprKind::Unary(op, Box::new(e)) }
}

pub(super) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let ty = match op {
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            Scalar::BOOL
        }
        BinaryOp::Concat => Scalar { width: a.ty.width + b.ty.width, signed: a.ty.signed },
        _ => a.ty,
    };
    match op {
        BinaryOp::And => match (truth(&a), truth(&b)) {
            (Some(false), _) => return boolean(false),
            (Some(true), _) => return b,
            (None, Some(true)) => return a,
            _ => {}
        },
        BinaryOp::Or => match (truth(&a), truth(&b)) {
            (Some(true), _) => return boolean(true),
            (Some(false), _) => return b,
            (None, Some(false)) => return a,
            _ => {}
        },
        _ => {
            if let (Some(x), Some(y)) = (value(&a), value(&b)) {
                if let Some(holds) = compare(op, &x, &y) {
                    return boolean(holds);
                }
                let folded = if op == BinaryOp::Concat {
                    let low = from_limbs(&limbs(&y, b.ty.width), b.ty.width, false);
                    Some((x << b.ty.width) + low)
                } else {
                    arithmetic(op, &x, &y, Some((ty.width, ty.signed)))
                };
                if let Some(v) = folded {
                    return constant(&v, ty);
                }
            }
        }
    }
    Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
}

pub(super) fn cast(e: Expr, ty: Scalar) -> Expr {
    if e.ty == ty {
        return e;
    }
    match value(&e) {
        Some(v) => constant(&v, ty),
        None => Expr { ty, kind: ExprKind::Cast(Box::new(e)) },
    }
}

pub(super) fn slice(e: Expr, hi: u32, lo: u32) -> Expr {
    let ty = Scalar::bit(hi - lo + 1);
    if lo == 0 && hi + 1 == e.ty.width && !e.ty.signed {
        return e;
    }
    match (value(&e), e.kind) {
        (Some(v), _) => constant(&(v >> lo), ty),
        (None, ExprKind::Slice { value, lo: inner, .. }) => {
            Expr { ty, kind: ExprKind::Slice { value, hi: hi + inner, lo: lo + inner } }
        }
        (None, kind) => {
            Expr { ty, kind: ExprKind::Slice { value: Box::new(Expr { ty: e.ty, kind }), hi, lo } }
        }
    }
}

pub(super) fn mux(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    match truth(&condition) {
        Some(true) => then,
        Some(false) => otherwise,
        None => {
            let ty = then.ty;
            Expr {
                ty,
                kind: ExprKind::Mux(Box::new(condition), Box::new(then), Box::new(otherwise)),
            }
        }
    }
}
