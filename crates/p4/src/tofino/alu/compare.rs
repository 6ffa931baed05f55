//! Conditions: assigns comparisons to the two units.

use super::super::COMPARISONS;
use super::super::sym::{ALWAYS, Guard, HOLDS, Kind, Op, Sym, Word};
use super::{Checked, Machine};
use crate::ir::{BinaryOp, Expr, ExprKind, Scalar, UnaryOp};

/// One comparison: the expression that is compared with zero, and the operator.
#[derive(Clone, PartialEq)]
pub(super) struct Comparison {
    op: BinaryOp,
    signed: bool,
    /// Word and sign.
    cell: Option<(Word, bool)>,
    input: Option<(String, bool)>,
    constant: i128,
    param: Option<(u32, bool)>,
}

impl Machine<'_, '_> {
    /// The outcomes of the comparisons for which a condition is true.
    pub(super) fn condition(&mut self, e: &Expr, guard: Guard) -> Checked<Guard> {
        Ok(match &e.kind {
            ExprKind::Const(limbs) => {
                if limbs.iter().any(|l| *l != 0) {
                    ALWAYS
                } else {
                    0
                }
            }
            ExprKind::Unary(UnaryOp::Not, a) => ALWAYS & !self.condition(a, guard)?,
            ExprKind::Binary(BinaryOp::And, a, b) => {
                self.condition(a, guard)? & self.condition(b, guard)?
            }
            ExprKind::Binary(BinaryOp::Or, a, b) => {
                self.condition(a, guard)? | self.condition(b, guard)?
            }
            ExprKind::Mux(c, a, b) => {
                let c = self.condition(c, guard)?;
                c & self.condition(a, guard)? | ALWAYS & !c & self.condition(b, guard)?
            }
            ExprKind::Cast(a) if a.ty == Scalar::BOOL => self.condition(a, guard)?,
            ExprKind::Binary(op, a, b) => match op {
                BinaryOp::Eq | BinaryOp::Ne if a.ty == Scalar::BOOL && self.compares(a) => {
                    let equal = self.condition(a, guard)? ^ self.condition(b, guard)? ^ ALWAYS;
                    if *op == BinaryOp::Eq { equal } else { ALWAYS & !equal }
                }
                _ => self.comparison(*op, a, b, guard)?,
            },
            ExprKind::Field(f) => match self.locals.get(f).map(|s| &s.kind) {
                Some(Kind::Truth(holds)) => *holds,
                _ => self.not_zero(e, guard)?,
            },
            _ => self.not_zero(e, guard)?,
        })
    }

    fn not_zero(&mut self, e: &Expr, guard: Guard) -> Checked<Guard> {
        let zero = Expr { ty: e.ty, kind: ExprKind::Const(vec![0; e.ty.limbs()].into()) };
        self.comparison(BinaryOp::Ne, e, &zero, guard)
    }

    fn comparison(&mut self, op: BinaryOp, a: &Expr, b: &Expr, guard: Guard) -> Checked<Guard> {
        let signed = a.ty.signed;
        let ordered = !matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        let mut comparison = Comparison {
            op,
            signed: signed && ordered,
            cell: None,
            input: None,
            constant: 0,
            param: None,
        };
        let (a, b) = (self.value(a, guard)?, self.value(b, guard)?);
        let width = a.ty.width;
        self.terms(&a, true, &mut comparison)?;
        self.terms(&b, false, &mut comparison)?;
        if width > self.width.max(8) {
            return self.refuse(
                format!("{width} bits are compared, but the register's words have {}", self.width),
                "compare words as wide as the register's",
            );
        }
        if comparison.constant != 0 && comparison.param.is_some() {
            return self.refuse(
                "a comparison of the stateful ALU has one constant or one parameter, not both",
                "let the control plane add the constant to the parameter",
            );
        }
        let range = i128::from(i32::MIN)..=i128::from(i32::MAX);
        if !range.contains(&comparison.constant) {
            return self.refuse(
                format!(
                    "the stateful ALU's constants are signed: {} is out of their range",
                    comparison.constant.unsigned_abs()
                ),
                "compare with a word of the metadata that holds the constant",
            );
        }
        for (i, known) in self.comparisons.iter().enumerate() {
            if *known == comparison {
                return Ok(HOLDS[i]);
            }
            let negated = Comparison { op: negate(comparison.op), ..comparison.clone() };
            if *known == negated {
                return Ok(ALWAYS & !HOLDS[i]);
            }
        }
        if self.comparisons.len() == COMPARISONS {
            return self.refuse(
                format!("this is one comparison more than the {COMPARISONS} that the stateful ALU has"),
                "compare words of the packet with each other before, in the control, and let the index or a field of the metadata carry the outcome",
            );
        }
        if comparison.constant != 0 {
            self.used.constants.push(comparison.constant);
        }
        if let Some((input, _)) = &comparison.input {
            self.note_input(&input.clone());
        }
        self.comparisons.push(comparison);
        Ok(HOLDS[self.comparisons.len() - 1])
    }

    /// Adds the terms of a sum to the operands of a comparison.
    fn terms(&self, value: &Sym, plus: bool, to: &mut Comparison) -> Checked<()> {
        let twice = |what: &str, help: &str| {
            self.refuse(format!("a comparison of the stateful ALU reads one {what}, not two"), help)
        };
        match &value.kind {
            Kind::Const(0) => {}
            Kind::Const(_) if to.constant != 0 => {
                return twice("constant", "write one constant on one side");
            }
            Kind::Const(c) => to.constant = if plus { *c } else { -c },
            Kind::Param(id) => {
                if to.param.replace((id.0, plus)).is_some() {
                    return twice("parameter", "keep the difference in one parameter");
                }
            }
            Kind::Old(word) => {
                if to.cell.replace((*word, plus)).is_some() {
                    return twice(
                        "word of the cell",
                        "compare each with a word of the packet or a constant",
                    );
                }
            }
            Kind::Input(name) => {
                if to.input.replace((name.clone(), plus)).is_some() {
                    return twice(
                        "word of the packet",
                        "compare them before, in the control, and keep the outcome in the metadata",
                    );
                }
            }
            Kind::Binary(Op::Plain(BinaryOp::Add), a, b) => {
                self.terms(a, plus, to)?;
                self.terms(b, plus, to)?;
            }
            Kind::Binary(Op::Plain(BinaryOp::Sub), a, b) => {
                self.terms(a, plus, to)?;
                self.terms(b, !plus, to)?;
            }
            Kind::New(_) => {
                return self.refuse(
                    "the stateful ALU compares the cell as it was, not its new value",
                    "compare before you assign, with the sum written out",
                );
            }
            Kind::Slice(inner, _) if inner.has_cell() => {
                return self.refuse(
                    "the stateful ALU compares words of the cell as a whole, not bits of them",
                    "make the cell a pair, or keep the bits in a register of their own",
                );
            }
            Kind::Binary(Op::Plain(BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor), ..)
                if value.has_cell() =>
            {
                return self.refuse(
                    "the stateful ALU of Tofino 1 compares without a mask",
                    "compare for equality with all values in question, or keep the bits in a register of their own",
                );
            }
            _ => {
                return self.refuse(
                    "this is too much for a comparison of the stateful ALU",
                    "a comparison is one word of the cell, one word of the packet and one constant, added or subtracted",
                );
            }
        }
        Ok(())
    }
}

fn negate(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        other => other,
    }
}
