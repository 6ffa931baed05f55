//! Capabilities of Tofino 1's registers: checks of TNA programs beyond the language.
//!
//! # The stateful ALU
//!
//! A register is in one stage, next to one stateful ALU. When a packet passes, the ALU reads one
//! cell, computes, and writes it back before the next packet. A packet cannot return to the stage,
//! so it accesses each register at most once ([`access`]). The ALU runs one of at most [`ACTIONS`]
//! programs per register, each of them a `RegisterAction` ([`alu`]):
//!
//! - A cell has 1, 8, 16 or 32 bits, or is a pair of two equal words of 8, 16 or 32 bits: `lo` and
//!   `hi`.
//! - Inputs: the cell, at most [`INPUTS`] words of the packet's headers and metadata (the same for
//!   all actions of the register), and constants. Constants outside [`SMALL`] each use one of
//!   [`ROWS`] rows, shared by all actions of the register.
//! - [`COMPARISONS`] comparison units. Each compares `± word of the cell ± input ± constant` with
//!   zero (`==`, `<`, …, signed or unsigned; no masks, no slices of the cell). Everything else is
//!   conditional on any Boolean function of the two results.
//! - [`OPERATIONS`] operations for each of `lo` and `hi`, each with its own condition. The word's
//!   new value is the bitwise OR of the operations that run, or the old value if none does. An
//!   operation has at most two operands: a word of the cell or a constant, and an input or a
//!   constant. It is a copy, an addition, a subtraction (saturating or not), or a bitwise function.
//! - One output of at most 32 bits under one condition, and zero otherwise: a word of the cell
//!   before or after the update, an input, or the results of the comparisons. If the cell is not a
//!   pair, the operations of `hi` can compute another output.
//!
//! There are no multiplications, no shifts, and no other memory per packet.

pub(crate) mod access;
pub(crate) mod alu;
mod limits;
mod sym;

use crate::ir::{Expr, Stmt};
use crate::source::Span;

/// Maximum number of register actions per register.
pub(crate) const ACTIONS: usize = 4;
/// Maximum number of words of the packet that all actions of a register read in total.
pub(crate) const INPUTS: usize = 2;
/// Maximum number of comparisons per action.
pub(crate) const COMPARISONS: usize = 2;
/// Maximum number of operations on each word of the cell.
pub(crate) const OPERATIONS: usize = 2;
/// Number of rows for constants that do not fit in an instruction.
pub(crate) const ROWS: usize = 4;
/// Constants that fit in an instruction.
pub(crate) const SMALL: std::ops::RangeInclusive<i128> = -8..=7;
/// Number of stages, and of stateful ALUs per stage.
pub(crate) const STAGES: usize = 12;
pub(crate) const ALUS: usize = 4;

pub(crate) use limits::{Use, check_registers};

/// A statement of a register action's body, with its position in the program.
#[derive(Debug)]
pub(crate) enum Step {
    /// A statement without nested statements.
    Leaf(Stmt, Span),
    /// A branch.
    If { condition: Expr, span: Span, then: Vec<Step>, otherwise: Vec<Step> },
    /// `rv = this.predicate(lo, hi)`, and the statement that computes it.
    Predicate { comparisons: Vec<Expr>, stmt: Stmt, span: Span },
}

impl Step {
    /// The statements, each after what `mark` returns for its position.
    pub(crate) fn strip(
        steps: Vec<Step>,
        mark: &mut dyn FnMut(Span) -> Option<Stmt>,
    ) -> Vec<Stmt> {
        let mut all = Vec::with_capacity(steps.len());
        for step in steps {
            all.extend(mark(step.span()));
            all.push(match step {
                Step::Leaf(stmt, _) | Step::Predicate { stmt, .. } => stmt,
                Step::If { condition, then, otherwise, .. } => {
                    let (then, otherwise) = (Self::strip(then, mark), Self::strip(otherwise, mark));
                    Stmt::If { condition, then, otherwise }
                }
            });
        }
        all
    }

    fn span(&self) -> Span {
        match self {
            Self::Leaf(_, span) | Self::If { span, .. } | Self::Predicate { span, .. } => *span,
        }
    }
}

/// Why a program does not fit.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) help: String,
    /// Another relevant position, with an explanation.
    pub(crate) other: Option<(&'static str, Span)>,
}

impl Refusal {
    pub(crate) fn new(span: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: help.into(), other: None }
    }
}
