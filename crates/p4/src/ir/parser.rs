//! Parsers and controls.

use super::{Expr, Keyset, StateId, Stmt};

/// A parser.
#[derive(Clone, Debug)]
pub struct Parser {
    /// Name of its declaration.
    pub name: String,
    /// States; the first is `start`.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Hierarchical name.
    pub name: String,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The transition.
    pub transition: Transition,
}

/// A parser transition.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Unconditional.
    To(Target),
    /// The first case whose keysets all match. If none does, the packet is rejected: on Tofino with
    /// the error `NoMatch`, on BMv2 without an error.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Select { on: Vec<Expr>, cases: Vec<(Vec<Keyset>, Target)> },
}

/// The target of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The final state `accept`.
    Accept,
    /// The final state `reject`.
    Reject,
    /// Another state.
    State(StateId),
}

/// A control that the package names: a pipeline, a checksum block or a deparser.
#[derive(Clone, Debug)]
pub struct Control {
    /// Name of its declaration.
    pub name: String,
    /// The body.
    pub body: Vec<Stmt>,
}
