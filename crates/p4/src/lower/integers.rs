//! `int` without a width, of values that are known at run time only: each operation has as many bits
//! as its result needs.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{Lowerer, build};
use crate::check::fold::{arithmetic, compare};
use crate::hir;
use crate::ir::{BinaryOp, Expr, Scalar};
use crate::limits::WIDTH;

/// A constant of type `int`, with its sign.
pub(super) fn constant(value: &BigInt) -> Expr {
    let width = (value.bits() as u32 + 1).max(32);
    build::constant(value, Scalar { width, signed: true })
}

/// A value as a signed one.
pub(super) fn widened(e: Expr) -> Expr {
    match build::value(&e) {
        Some(value) => constant(&value),
        None if e.ty.signed => e,
        None => {
            let ty = Scalar { width: e.ty.width + 1, signed: true };
            build::cast(e, ty)
        }
    }
}

/// Two values as signed ones of one width.
pub(super) fn both(a: Expr, b: Expr) -> (Expr, Expr) {
    let (a, b) = (widened(a), widened(b));
    let ty = Scalar { width: a.ty.width.max(b.ty.width), signed: true };
    (build::cast(a, ty), build::cast(b, ty))
}

impl Lowerer<'_, '_> {
    /// An operation on two values of type `int`.
    pub(super) fn int_binary(&mut self, op: BinaryOp, a: Expr, b: Expr, at: &hir::Expr) -> Expr {
        if let (Some(x), Some(y)) = (build::value(&a), build::value(&b)) {
            if let Some(holds) = compare(op, &x, &y) {
                return build::boolean(holds);
            }
            if let Some(value) = arithmetic(op, &x, &y, None) {
                return constant(&value);
            }
        }
        let distance = build::value(&b).and_then(|distance| distance.to_u32());
        let (a, b) = both(a, b);
        let width = a.ty.width;
        let width = match (op, distance) {
            (BinaryOp::Add | BinaryOp::Sub, _) => width + 1,
            (BinaryOp::Mul, _) => width.saturating_mul(2),
            (BinaryOp::Shl, Some(distance)) => width.saturating_add(distance),
            (BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor, _)
            | (BinaryOp::Shr, Some(_))
            | (
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge,
                _,
            ) => width,
            _ => {
                let message =
                    format!("`{}` needs a value that is known at compile time", op.sign());
                self.reporter.error_help(at.span, message, "cast the operands to bit<W>");
                return build::boolean(false);
            }
        };
        if width > WIDTH {
            let message = format!("a number of {width} bits: it may have {WIDTH}");
            self.reporter.error_help(at.span, message, "cast the operands to bit<W>");
            return build::boolean(false);
        }
        let ty = Scalar { width, signed: true };
        let (a, b) = (build::cast(a, ty), build::cast(b, ty));
        match (op, distance) {
            (BinaryOp::Shl | BinaryOp::Shr, Some(distance)) => {
                let distance = build::constant(&distance.into(), Scalar::bit(32));
                build::binary(op, a, distance)
            }
            _ => build::binary(op, a, b),
        }
    }
}
