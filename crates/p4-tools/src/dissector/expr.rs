//! Expressions of a parser in Lua.
//!
//! A value of at most 32 bits is a number, which Lua represents exactly in all versions. A wider value
//! is a string of binary digits, the highest first. Signed values are in two's complement.

use tributary_p4::ir::{BinaryOp, Expr, ExprKind, FieldId, HeaderRef, Program, Scalar, UnaryOp};

use crate::dissector::lua::{self, NUMBER_BITS};
use crate::dissector::plan::{Plan, candidates, elements};

/// Why something cannot be expressed, as the end of a sentence that begins with "depends on".
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gap(pub(crate) String);

/// Translates expressions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translator<'p> {
    pub(crate) program: &'p Program,
    pub(crate) plan: &'p Plan,
}

/// Whether a value of this type is a number.
fn is_number(ty: Scalar) -> bool {
    ty.width <= NUMBER_BITS
}

/// The number of values of a type that is represented by numbers.
fn modulus(width: u32) -> u64 {
    1 << width
}

impl Translator<'_> {
    /// A condition.
    pub(crate) fn condition(&self, value: &Expr) -> Result<String, Gap> {
        Ok(format!("{} ~= 0", self.value(value)?))
    }

    /// A value.
    pub(crate) fn value(&self, value: &Expr) -> Result<String, Gap> {
        let ty = value.ty;
        match &value.kind {
            ExprKind::Const(limbs) => Ok(lua::value(limbs, ty.width)),
            ExprKind::Field(field) => self.field(*field),
            ExprKind::Valid(HeaderRef::Fixed(id)) => {
                self.field(self.program.headers[id.index()].valid)
            }
            ExprKind::Valid(header) => {
                let headers = candidates(self.program, header).into_iter();
                let slots = headers.map(|id| self.program.headers[id.index()].valid);
                self.pick(slots.collect(), &self.index(header)?, Scalar::BOOL)
            }
            ExprKind::Element(stack, index, at) => {
                self.pick(elements(self.program, *stack, *at), &self.value(index)?, ty)
            }
            ExprKind::Unary(op, operand) => self.unary(*op, operand),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, ty),
            ExprKind::Slice { value, hi, lo } => {
                let from = value.ty;
                let value = self.value(value)?;
                Ok(match is_number(from) {
                    true => format!("part({value}, {hi}, {lo})"),
                    false => {
                        narrow(format!("{value}:sub({}, {})", from.width - hi, from.width - lo), ty)
                    }
                })
            }
            ExprKind::Cast(operand) => {
                let value = self.value(operand)?;
                Ok(convert(value, operand.ty, ty))
            }
            ExprKind::Mux(condition, then, otherwise) => {
                // A value is never false or nil.
                let condition = self.condition(condition)?;
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                Ok(format!("({condition} and {then} or {otherwise})"))
            }
        }
    }

    /// The index of a header in its stack.
    pub(crate) fn index(&self, header: &HeaderRef) -> Result<String, Gap> {
        let next = |stack: tributary_p4::ir::StackId| {
            self.field(self.program.stacks[stack.index()].next_index)
        };
        match header {
            HeaderRef::Fixed(_) => Ok("0".into()),
            HeaderRef::Next(stack) => next(*stack),
            HeaderRef::Last(stack) => Ok(format!("({} - 1)", next(*stack)?)),
            HeaderRef::Index(_, index) => self.value(index),
        }
    }

    /// The value of a field.
    fn field(&self, field: FieldId) -> Result<String, Gap> {
        if let Some(name) = self.plan.unknown(field) {
            return Err(Gap(format!("`{name}`, which is not in the packet")));
        }
        let slot = self.plan.slot(field).expect("fields of decisions have slots");
        Ok(format!("v[{slot}]"))
    }

    /// The field of a stack's element, zero beyond the end.
    fn pick(&self, fields: Vec<FieldId>, index: &str, ty: Scalar) -> Result<String, Gap> {
        let slot =
            |field| self.plan.slot(field).expect("fields of decisions have slots").to_string();
        let slots: Vec<_> = fields.into_iter().map(slot).collect();
        let zero = lua::value(&[], ty.width);
        Ok(format!("pick(v, {{ {} }}, {index}, {zero})", slots.join(", ")))
    }

    fn unary(&self, op: UnaryOp, operand: &Expr) -> Result<String, Gap> {
        let width = operand.ty.width;
        let value = self.value(operand)?;
        Ok(match (op, is_number(operand.ty)) {
            (UnaryOp::Not, _) => format!("(1 - {value})"),
            (UnaryOp::BitNot, true) => format!("({} - {value})", modulus(width) - 1),
            (UnaryOp::BitNot, false) => format!("flipped({value})"),
            (UnaryOp::Neg, true) => format!("(-{value} % {})", modulus(width)),
            (UnaryOp::Neg, false) => return Err(wide("-", width)),
        })
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, ty: Scalar) -> Result<String, Gap> {
        let (a, b) = (self.value(left)?, self.value(right)?);
        let of = left.ty;
        let truth = |test: String| Ok(format!("({test} and 1 or 0)"));
        match op {
            BinaryOp::And => return truth(format!("({a} ~= 0 and {b} ~= 0)")),
            BinaryOp::Or => return truth(format!("({a} ~= 0 or {b} ~= 0)")),
            BinaryOp::Eq => return truth(format!("{a} == {b}")),
            BinaryOp::Ne => return truth(format!("{a} ~= {b}")),
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                return truth(format!("{} {} {}", ordered(&a, of), op.sign(), ordered(&b, of)));
            }
            BinaryOp::Concat => {
                if is_number(ty) {
                    return Ok(format!("({a} * {} + {b})", modulus(right.ty.width)));
                }
                return Ok(format!("({} .. {})", digits(&a, of), digits(&b, right.ty)));
            }
            _ => {}
        }
        if !is_number(ty) {
            return match op {
                BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
                    Ok(format!("digitwise({}, {a}, {b})", bit_function(op)))
                }
                _ => Err(wide(op.sign(), ty.width)),
            };
        }
        let modulus = modulus(ty.width);
        let shift = |function: &str| match is_number(right.ty) {
            true => Ok(format!("{function}({a}, {b}, {})", ty.width)),
            false => Err(wide(op.sign(), right.ty.width)),
        };
        match op {
            BinaryOp::Add => Ok(format!("(({a} + {b}) % {modulus})")),
            BinaryOp::Sub => Ok(format!("(({a} - {b}) % {modulus})")),
            BinaryOp::Mul => Ok(format!("(product({a}, {b}) % {modulus})")),
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
                Ok(format!("{}({a}, {b})", bit_function(op)))
            }
            BinaryOp::Shl => shift("shifted_left"),
            BinaryOp::Shr if ty.signed => shift("shifted_right_signed"),
            BinaryOp::Shr => shift("shifted_right"),
            BinaryOp::AddSat if !ty.signed => Ok(format!("math.min({a} + {b}, {})", modulus - 1)),
            BinaryOp::SubSat if !ty.signed => Ok(format!("math.max({a} - {b}, 0)")),
            _ => Err(Gap(format!("the operator `{}` on {ty}, which is not translated", op.sign()))),
        }
    }
}

fn wide(sign: &str, width: u32) -> Gap {
    Gap(format!("the operator `{sign}` on {width} bits, which is not translated"))
}

fn bit_function(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::BitAnd => "bit_and",
        BinaryOp::BitOr => "bit_or",
        _ => "bit_xor",
    }
}

/// A value as binary digits.
fn digits(value: &str, ty: Scalar) -> String {
    match is_number(ty) {
        true => format!("digits({value}, {})", ty.width),
        false => value.to_owned(),
    }
}

/// Binary digits of a value of this type as its representation.
fn narrow(digits: String, ty: Scalar) -> String {
    if is_number(ty) { format!("number({digits})") } else { digits }
}

/// A value in a form whose order in Lua is that of P4.
pub(crate) fn ordered(value: &str, ty: Scalar) -> String {
    match (ty.signed, is_number(ty)) {
        (false, _) => value.to_owned(),
        (true, true) => format!("signed({value}, {})", ty.width),
        // With the sign flipped, negative values come first.
        (true, false) => format!("(flipped({value}:sub(1, 1)) .. {value}:sub(2))"),
    }
}

/// A value of one type as a value of another.
fn convert(value: String, from: Scalar, to: Scalar) -> String {
    if is_number(from) && is_number(to) {
        return match (from.width.cmp(&to.width), from.signed) {
            (std::cmp::Ordering::Less, true) => {
                format!("(signed({value}, {}) % {})", from.width, modulus(to.width))
            }
            (std::cmp::Ordering::Greater, _) => format!("({value} % {})", modulus(to.width)),
            _ => value,
        };
    }
    let text = digits(&value, from);
    if from.width >= to.width {
        return narrow(format!("{text}:sub({})", from.width - to.width + 1), to);
    }
    let sign = if from.signed { format!("{text}:sub(1, 1)") } else { "(\"0\")".into() };
    narrow(format!("({sign}:rep({}) .. {text})", to.width - from.width), to)
}
