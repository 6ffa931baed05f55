//! What Tofino 1 can do with a register: the checks of TNA programs that go beyond the language.
//!
//! # The stateful ALU
//!
//! A register lives in one stage, beside one stateful ALU. A packet comes by once; the ALU reads one
//! cell, computes, and writes it back before the next packet's turn. There is no second look, so a
//! packet touches each register at most once ([`access`]). What the ALU computes is one of at most
//! [`ACTIONS`] programs a register, each a `RegisterAction` ([`alu`]):
//!
//! - A cell is 1, 8, 16 or 32 bits, or a pair of two equal words of 8, 16 or 32 bits: `lo` and `hi`.
//! - Inputs: the cell, at most [`INPUTS`] words of the packet's headers and metadata (the same for all
//!   actions of the register), constants. Those that do not fit [`SMALL`] take one of [`ROWS`] rows,
//!   shared by all actions of the register.
//! - [`COMPARISONS`] comparison units. Each tests `± word of the cell ± input ± constant` against zero
//!   (`==`, `<`, …, signed or not; no masks, no slices of the cell). Everything else is under the
//!   condition of any Boolean function of the two results.
//! - For each of `lo` and `hi` [`OPERATIONS`] operations, each under a condition of its own: the word's
//!   new value is the bitwise or of those that run, or the old value where none does. An operation has
//!   at most two operands: a word of the cell or a constant, and an input or a constant. It is a copy,
//!   an addition, a subtraction (saturating or not), or a bitwise function.
//! - One output of at most 32 bits under one condition, zero otherwise: a word of the cell before or
//!   after the update, an input, the results of the comparisons. Where the cell is no pair, the
//!   operations of `hi` are free to compute another output.
//!
//! There is no multiplication, shift, or memory of a packet's own beyond that.

pub(crate) mod access;
pub(crate) mod alu;
mod limits;
mod sym;

use crate::ir::{Expr, Stmt};
use crate::source::Span;

/// Register actions of one register.
pub(crate) const ACTIONS: usize = 4;
/// Words from the packet that all actions of a register together may read.
pub(crate) const INPUTS: usize = 2;
/// Comparisons of one action.
pub(crate) const COMPARISONS: usize = 2;
/// Operations on each word of the cell.
pub(crate) const OPERATIONS: usize = 2;
/// Rows for constants that do not fit an instruction.
pub(crate) const ROWS: usize = 4;
/// Constants that an instruction itself holds.
pub(crate) const SMALL: std::ops::RangeInclusive<i128> = -8..=7;
/// Stages, and stateful ALUs in each.
pub(crate) const STAGES: usize = 12;
pub(crate) const ALUS: usize = 4;

pub(crate) use limits::{Use, check_registers};

/// A statement of a register action's body, and where it stands in the program.
#[derive(Debug)]
pub(crate) enum Step {
    /// A statement without statements in it.
    Leaf(Stmt, Span),
    /// A branch.
    If { condition: Expr, span: Span, then: Vec<Step>, otherwise: Vec<Step> },
    /// `rv = this.predicate(lo, hi)`, and the statement that computes it.
    Predicate { comparisons: Vec<Expr>, stmt: Stmt, span: Span },
}

impl Step {
    /// The statements alone.
    pub(crate) fn strip(steps: Vec<Step>) -> Vec<Stmt> {
        let one = |step| match step {
            Step::Leaf(stmt, _) | Step::Predicate { stmt, .. } => stmt,
            Step::If { condition, then, otherwise, .. } => {
                Stmt::If { condition, then: Step::strip(then), otherwise: Step::strip(otherwise) }
            }
        };
        steps.into_iter().map(one).collect()
    }
}

/// Why a program does not fit.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) help: String,
    /// Another place that matters, and what it is.
    pub(crate) other: Option<(&'static str, Span)>,
}

impl Refusal {
    pub(crate) fn new(span: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: help.into(), other: None }
    }
}
