//! Symbolic values in a register action, in terms of the stateful ALU.

use crate::ir::{BinaryOp, ExternId, Scalar};

/// A word of the cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Word {
    Lo,
    Hi,
}

/// A set of outcomes of the two comparisons: bit `lo + 2 * hi` for each of the four outcomes.
pub(super) type Guard = u8;
/// All outcomes.
pub(super) const ALWAYS: Guard = 0b1111;
/// The outcomes in which comparison 0 or 1 is true.
pub(super) const HOLDS: [Guard; 2] = [0b1010, 0b1100];

/// An operation on two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Plain(BinaryOp),
    Max,
    Min,
}

/// A symbolic value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Sym {
    pub(super) ty: Scalar,
    pub(super) kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    Const(i128),
    /// A `RegisterParam`.
    Param(ExternId),
    /// A word of the cell before the update.
    Old(Word),
    /// A word of the cell after the update.
    New(Word),
    /// A word of the packet, identified by a text.
    Input(String),
    /// Whether the comparisons have one of these outcomes.
    Truth(Guard),
    Not(Box<Sym>),
    Binary(Op, Box<Sym>, Box<Sym>),
    /// The first value under the condition, otherwise the second.
    Choice(Guard, Box<Sym>, Box<Sym>),
    /// The math unit's function of a value.
    Math(ExternId, Box<Sym>),
    /// Bits of the cell, from this one up.
    Slice(Box<Sym>, u32),
    /// The cell extended to more bits.
    Wide(Box<Sym>),
    /// A value that no ALU operation computes, with its name.
    Other(&'static str),
}

/// A single operation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Operation {
    /// `None` copies the operand.
    pub(super) op: Option<Op>,
    pub(super) signed: bool,
    /// Whether the result is complemented.
    pub(super) complement: bool,
    /// The operands, and whether each is complemented first.
    pub(super) operands: Vec<(Sym, bool)>,
}

/// The problem, and how to fix it.
pub(super) type Reason = (String, &'static str);

impl Sym {
    /// Whether it depends on the cell.
    pub(super) fn has_cell(&self) -> bool {
        match &self.kind {
            Kind::Old(_) | Kind::New(_) => true,
            Kind::Not(a) | Kind::Slice(a, _) | Kind::Wide(a) | Kind::Math(_, a) => a.has_cell(),
            Kind::Binary(_, a, b) | Kind::Choice(_, a, b) => a.has_cell() || b.has_cell(),
            _ => false,
        }
    }

    /// Whether it depends on the math unit.
    pub(super) fn has_math(&self) -> bool {
        match &self.kind {
            Kind::Math(..) => true,
            Kind::Not(a) | Kind::Slice(a, _) | Kind::Wide(a) => a.has_math(),
            Kind::Binary(_, a, b) | Kind::Choice(_, a, b) => a.has_math() || b.has_math(),
            _ => false,
        }
    }

    /// The operation that computes it, or why there is none and how to fix it.
    pub(super) fn operation(&self) -> Result<Operation, Reason> {
        let (complement, inner) = match &self.kind {
            Kind::Not(a) => (true, &**a),
            _ => (false, self),
        };
        let mut operands = Vec::with_capacity(2);
        let mut op = None;
        match &inner.kind {
            Kind::Binary(kind, a, b) => {
                op = Some(*kind);
                let bitwise = matches!(
                    kind,
                    Op::Plain(BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor)
                );
                if complement && !bitwise {
                    return Err(complex());
                }
                for side in [a, b] {
                    operands.push(match &side.kind {
                        Kind::Not(inner) if bitwise && !complement => ((**inner).clone(), true),
                        _ => ((**side).clone(), false),
                    });
                }
                if operands.iter().all(|(_, complement)| *complement) {
                    return Err(complex());
                }
            }
            _ => operands.push((inner.clone(), false)),
        }
        let (mut cells, mut inputs, mut constants) = (0, 0, 0);
        for (operand, _) in &operands {
            let operand = match &operand.kind {
                Kind::Math(_, inner) => inner,
                _ => operand,
            };
            match &operand.kind {
                Kind::Const(_) | Kind::Param(_) => constants += 1,
                Kind::Old(_) => cells += 1,
                Kind::Input(_) => inputs += 1,
                _ => return Err(operand.no_operand()),
            }
        }
        if cells > 1 {
            return Err((
                "an operation of the stateful ALU reads one word of the cell, not both".to_owned(),
                "keep one of the two words in a register of its own",
            ));
        }
        if inputs > 1 {
            return Err((
                "an operation of the stateful ALU reads one word of the packet, not two".to_owned(),
                "compute the two words' result into the metadata before, in the control",
            ));
        }
        if constants > 1 {
            return Err(complex());
        }
        Ok(Operation { op, signed: self.ty.signed, complement, operands })
    }

    /// Why it cannot be an operand.
    pub(super) fn no_operand(&self) -> Reason {
        match &self.kind {
            Kind::New(_) => (
                "the stateful ALU cannot go on computing with a new value of the cell".to_owned(),
                "read the cell before it is assigned",
            ),
            Kind::Truth(_) => (
                "a comparison cannot be stored in the cell".to_owned(),
                "write if (…) { value = 1; } else { value = 0; }",
            ),
            Kind::Slice(..) | Kind::Wide(_) => (
                "the stateful ALU takes a word of the cell as a whole".to_owned(),
                "cut or extend the result in the control, or make the cell a pair",
            ),
            Kind::Other(what) => (
                format!("the stateful ALU has no {what}"),
                "compute it before, in the control, into metadata that the register action reads",
            ),
            _ => complex(),
        }
    }
}

fn complex() -> Reason {
    (
        "this takes more than one operation of the stateful ALU".to_owned(),
        "compute what does not need the cell before, in the control, into metadata",
    )
}
