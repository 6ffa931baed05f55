//! Compiles expressions to straight-line operations, because none has side effects.

use tributary_p4::ir::{BinaryOp, Expr, ExprKind, HeaderRef, Scalar, UnaryOp};

use super::Loader;
use crate::code::Op;
use crate::error::LoadError;
use crate::slot::{Item, Slot};
use crate::wide::{WideKind, WideOp};

impl Loader<'_> {
    /// Computes a value and returns its slot. Fields, constants and casts without effect are free.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Slot, LoadError> {
        match &expr.kind {
            ExprKind::Const(limbs) => Ok(self.slots.wide_constant(limbs, expr.ty.limbs())),
            ExprKind::Field(field) => Ok(self.slots.field(*field)),
            ExprKind::Valid(HeaderRef::Fixed(header)) => Ok(self.header(*header).valid),
            ExprKind::Cast(inner) if same_words(inner.ty, expr.ty) => self.expr(inner),
            _ => {
                let dst = self.slots.temporary(expr.ty);
                self.expr_to(expr, dst)?;
                Ok(dst)
            }
        }
    }

    /// Like [`Self::expr`], for a value that must fit into one word.
    pub(super) fn word(&mut self, expr: &Expr) -> Result<Slot, LoadError> {
        if expr.ty.width > 64 {
            return Err(LoadError::Limit(format!("an index or a length of type {}", expr.ty)));
        }
        self.expr(expr)
    }

    /// Computes a value into `dst`.
    pub(super) fn expr_to(&mut self, expr: &Expr, dst: Slot) -> Result<(), LoadError> {
        let ty = expr.ty;
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Field(_) | ExprKind::Valid(HeaderRef::Fixed(_)) => {
                let src = self.expr(expr)?;
                self.copy(dst, src, ty.limbs());
            }
            ExprKind::Valid(header) => {
                let (stack, index) = self.stack_index(header)?;
                let element = self.element(stack, None)?;
                self.op(Op::LoadElement { dst, index, element });
            }
            ExprKind::Element(stack, index, position) => {
                let index = self.word(index)?;
                let element = self.element(*stack, Some(*position))?;
                self.op(Op::LoadElement { dst, index, element });
            }
            ExprKind::Unary(op, a) => self.unary(*op, a, ty, dst)?,
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, ty, dst)?,
            ExprKind::Slice { value, lo, .. } => {
                let src = self.expr(value)?;
                if value.ty.width <= 64 {
                    self.op(Op::Slice { dst, src, lo: *lo as u8, width: ty.width as u8 });
                } else {
                    let a = Item { slot: src, width: value.ty.width };
                    self.wide(WideKind::Slice { lo: *lo }, dst, ty, a, a, false);
                }
            }
            ExprKind::Cast(inner) => self.cast(inner, ty, dst)?,
            ExprKind::Mux(condition, then, otherwise) => {
                let c = self.expr(condition)?;
                let (a, b) = (self.expr(then)?, self.expr(otherwise)?);
                if ty.width <= 64 {
                    self.op(Op::Select { dst, c, a, b });
                } else {
                    let (a, b) = (item(a, ty), item(b, ty));
                    self.wide(WideKind::Select { c }, dst, ty, a, b, false);
                }
            }
        }
        Ok(())
    }

    /// Copies the words of a value.
    pub(super) fn copy(&mut self, dst: Slot, src: Slot, words: usize) {
        if dst == src {
        } else if words == 1 {
            self.op(Op::Move { dst, src });
        } else {
            self.op(Op::Copy { dst, src, words: words as u32 });
        }
    }

    fn unary(&mut self, op: UnaryOp, a: &Expr, ty: Scalar, dst: Slot) -> Result<(), LoadError> {
        let src = self.expr(a)?;
        let width = ty.width as u8;
        if ty.width <= 64 {
            match op {
                UnaryOp::Not | UnaryOp::BitNot => self.op(Op::Not { dst, a: src, width }),
                UnaryOp::Neg => {
                    let zero = self.slots.constant(0);
                    self.op(Op::Sub { dst, a: zero, b: src, width });
                }
            }
        } else {
            let kind = match op {
                UnaryOp::Not | UnaryOp::BitNot => WideKind::Not,
                UnaryOp::Neg => WideKind::Neg,
            };
            let a = item(src, a.ty);
            self.wide(kind, dst, ty, a, a, false);
        }
        Ok(())
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        ty: Scalar,
        dst: Slot,
    ) -> Result<(), LoadError> {
        let (a, b) = (self.expr(left)?, self.expr(right)?);
        let narrow = left.ty.width <= 64 && right.ty.width <= 64 && ty.width <= 64;
        let signed = left.ty.signed;
        let width = ty.width as u8;
        let of = left.ty.width as u8;
        let op = match op {
            BinaryOp::Add if narrow => Op::Add { dst, a, b, width },
            BinaryOp::Sub if narrow => Op::Sub { dst, a, b, width },
            BinaryOp::Mul if narrow => Op::Mul { dst, a, b, width },
            BinaryOp::BitAnd | BinaryOp::And if narrow => Op::And { dst, a, b },
            BinaryOp::BitOr | BinaryOp::Or if narrow => Op::Or { dst, a, b },
            BinaryOp::BitXor if narrow => Op::Xor { dst, a, b },
            BinaryOp::Concat if narrow => Op::Concat { dst, a, b, low: right.ty.width as u8 },
            BinaryOp::Shl if narrow => Op::Shl { dst, a, b, width },
            BinaryOp::Shr if narrow && !signed => Op::Shr { dst, a, b },
            BinaryOp::Eq if narrow => Op::Eq { dst, a, b },
            BinaryOp::Ne if narrow => Op::Ne { dst, a, b },
            BinaryOp::Lt if narrow && signed => Op::SignedLt { dst, a, b, width: of },
            BinaryOp::Le if narrow && signed => Op::SignedLe { dst, a, b, width: of },
            BinaryOp::Gt if narrow && signed => Op::SignedLt { dst, a: b, b: a, width: of },
            BinaryOp::Ge if narrow && signed => Op::SignedLe { dst, a: b, b: a, width: of },
            BinaryOp::Lt if narrow => Op::Lt { dst, a, b },
            BinaryOp::Le if narrow => Op::Le { dst, a, b },
            BinaryOp::Gt if narrow => Op::Lt { dst, a: b, b: a },
            BinaryOp::Ge if narrow => Op::Le { dst, a: b, b: a },
            _ => {
                let (a, b) = (item(a, left.ty), item(b, right.ty));
                let (kind, a, b) = match op {
                    BinaryOp::Add => (WideKind::Add, a, b),
                    BinaryOp::Sub => (WideKind::Sub, a, b),
                    BinaryOp::Mul => (WideKind::Mul, a, b),
                    BinaryOp::Div => (WideKind::Div, a, b),
                    BinaryOp::Mod => (WideKind::Mod, a, b),
                    BinaryOp::AddSat => (WideKind::AddSat, a, b),
                    BinaryOp::SubSat => (WideKind::SubSat, a, b),
                    BinaryOp::BitAnd | BinaryOp::And => (WideKind::And, a, b),
                    BinaryOp::BitOr | BinaryOp::Or => (WideKind::Or, a, b),
                    BinaryOp::BitXor => (WideKind::Xor, a, b),
                    BinaryOp::Concat => (WideKind::Concat, a, b),
                    BinaryOp::Shl => (WideKind::Shl, a, b),
                    BinaryOp::Shr => (WideKind::Shr, a, b),
                    BinaryOp::Eq => (WideKind::Eq, a, b),
                    BinaryOp::Ne => (WideKind::Ne, a, b),
                    BinaryOp::Lt => (WideKind::Lt, a, b),
                    BinaryOp::Le => (WideKind::Le, a, b),
                    BinaryOp::Gt => (WideKind::Lt, b, a),
                    BinaryOp::Ge => (WideKind::Le, b, a),
                };
                self.wide(kind, dst, ty, a, b, signed);
                return Ok(());
            }
        };
        self.op(op);
        Ok(())
    }

    fn cast(&mut self, inner: &Expr, ty: Scalar, dst: Slot) -> Result<(), LoadError> {
        let src = self.expr(inner)?;
        if same_words(inner.ty, ty) {
            self.copy(dst, src, ty.limbs());
        } else if ty.width > 64 || inner.ty.width > 64 {
            let a = item(src, inner.ty);
            self.wide(WideKind::Cast, dst, ty, a, a, inner.ty.signed);
        } else if ty.width < inner.ty.width {
            self.op(Op::Truncate { dst, src, width: ty.width as u8 });
        } else {
            self.op(Op::SignExtend { dst, src, from: inner.ty.width as u8, to: ty.width as u8 });
        }
        Ok(())
    }

    pub(super) fn wide(
        &mut self,
        kind: WideKind,
        dst: Slot,
        ty: Scalar,
        a: Item,
        b: Item,
        signed: bool,
    ) {
        let number = self.wides.len() as u32;
        self.wides.push(WideOp { kind, dst: item(dst, ty), a, b, signed });
        self.op(Op::Wide(number));
    }
}

/// Whether a cast leaves all words unchanged.
fn same_words(from: Scalar, to: Scalar) -> bool {
    from.width == to.width || !from.signed && from.width < to.width && from.limbs() == to.limbs()
}

fn item(slot: Slot, ty: Scalar) -> Item {
    Item { slot, width: ty.width }
}
