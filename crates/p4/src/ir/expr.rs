//! Expressions, and the headers and places that they choose.

use super::{FieldId, HeaderId, Scalar, StackId};

/// A typed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Type of the value.
    pub ty: Scalar,
    /// The computation.
    pub kind: ExprKind,
}

/// The computation of a value.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant, with the number of limbs given by [`Scalar::limbs`].
    Const(Box<[u64]>),
    /// A field's value.
    Field(FieldId),
    /// Whether a header is valid (`BOOL`).
    Valid(HeaderRef),
    /// A field of a stack element with a run-time index: stack, index, index of the field in the
    /// header. The index after the last field refers to the varbit's length. Out of range reads as
    /// zero.
    Element(StackId, Box<Expr>, u32),
    /// An operation on one value of the same type.
    Unary(UnaryOp, Box<Expr>),
    /// An operation on two values. Both have the expression's type, with three exceptions:
    /// comparisons (two equal types, result `BOOL`), shifts (any unsigned type on the right),
    /// [`BinaryOp::Concat`].
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Bits `hi..=lo` of a value.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Slice { value: Box<Expr>, hi: u32, lo: u32 },
    /// A conversion to another type: truncation, or extension by the sign of the *operand's* type.
    Cast(Box<Expr>),
    /// `condition ? then : otherwise`; only the selected side is evaluated.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `!` on `bool`.
    Not,
    /// `~`.
    BitNot,
    /// `-`, modulo the width.
    Neg,
}

/// Binary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the specification's operators, by name")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    /// `|+|`: saturates within the (signed or unsigned) type.
    AddSat,
    /// `|-|`.
    SubSat,
    BitAnd,
    BitOr,
    BitXor,
    /// The left operand's bits above those of the right one.
    Concat,
    Shl,
    /// An arithmetic shift if the left type is signed.
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&`: the right side is evaluated only if needed.
    And,
    /// `||`: the right side is evaluated only if needed.
    Or,
}

impl BinaryOp {
    /// The operator in P4 syntax.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::AddSat => "|+|",
            Self::SubSat => "|-|",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::Concat => "++",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}

/// An lvalue.
#[derive(Clone, Debug)]
pub enum Place {
    /// A whole field.
    Field(FieldId),
    /// Bits `hi..=lo` of a field.
    Slice(FieldId, u32, u32),
    /// A field of a stack element with a run-time index: stack, index, index of the field in the
    /// header. Out of range stores nothing.
    Element(StackId, Box<Expr>, u32),
}

/// A reference to a header.
#[derive(Clone, Debug)]
pub enum HeaderRef {
    /// A known instance.
    Fixed(HeaderId),
    /// `stack.next`: extraction only.
    Next(StackId),
    /// `stack.last`.
    Last(StackId),
    /// `stack[index]` with an index that is not constant.
    Index(StackId, Box<Expr>),
}
