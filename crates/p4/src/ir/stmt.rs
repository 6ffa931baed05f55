//! Statements, and calls of externs.

use super::{
    ActionId, Expr, ExternId, FieldId, HeaderRef, LabelId, Place, Scalar, StackId, TableId,
};

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Stores a value of the place's type.
    Assign(Place, Expr),
    /// Copies a header of the same type, including its validity.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    CopyHeader { to: HeaderRef, from: HeaderRef },
    /// `setValid()`.
    SetValid(HeaderRef),
    /// `setInvalid()`.
    SetInvalid(HeaderRef),
    /// Invalidates a header because another header of its union became valid. The packet's length
    /// does not change, as in BMv2.
    Displace(HeaderRef),
    /// `push_front(count)`.
    PushFront(StackId, u32),
    /// `pop_front(count)`.
    PopFront(StackId, u32),
    /// Branch.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    If { condition: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// Branch on an integer value.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Switch { on: Expr, cases: Vec<(Box<[u64]>, Vec<Stmt>)>, default: Vec<Stmt> },
    /// Applies a table. `hit` (one bit) and `action` (32 bits: index into the table's
    /// [`actions`](super::Table::actions)) receive the outcome if the program uses it.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Apply { table: TableId, hit: Option<FieldId>, action: Option<FieldId> },
    /// Runs an action's body, after its parameters have been assigned.
    Action(ActionId),
    /// Calls an extern's method or an extern function.
    Call(ExternCall),
    /// `packet.extract(header)`; `varbit_bits` for the two-argument form.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Extract { header: HeaderRef, varbit_bits: Option<Expr> },
    /// `packet.lookahead`: splits the next bits of the packet, without consuming them, into these
    /// fields in wire order.
    Lookahead(Vec<FieldId>),
    /// `packet.advance(bits)`.
    Advance(Expr),
    /// `verify(condition, error)`: the parser stops with the error if the condition is false.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Verify { condition: Expr, error: Expr },
    /// `packet.emit(header)`: appended if valid.
    Emit(HeaderRef),
    /// Ends the block for this packet, at any nesting depth.
    Exit,
    /// Leaves the enclosing [`Stmt::Block`] (an inlined control or function) or action body.
    Return,
    /// A scope that [`Stmt::Return`] leaves.
    Block(Vec<Stmt>),
    /// Statements that are repeated until [`Stmt::Leave`] or a statement that leaves an outer
    /// scope.
    Loop(LabelId, Vec<Stmt>),
    /// Statements that [`Stmt::Leave`] can leave early.
    Labelled(LabelId, Vec<Stmt>),
    /// Continues after the enclosing [`Stmt::Loop`] or [`Stmt::Labelled`] with this label.
    Leave(LabelId),
    /// Where the statements that follow come from.
    Mark(Mark),
}

/// The origin of statements. It has no effect on packets, and is there only if the program was
/// compiled with marks ([`crate::Options::marks`]). Without its marks, such a program is equal to
/// the one that is compiled without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The statements that follow come from this position. Copies of a statement have the same number,
    /// different statements on a line have different ones.
    At(Position, u32),
    /// The statements up to the corresponding [`Mark::Leave`] are those of a function, an action or
    /// a control that is inlined here. `exit` and errors leave it without.
    Enter(Inlined, String),
    /// The end of what [`Mark::Enter`] started.
    Leave,
}

/// The kind of an inlined part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "by name")]
pub enum Inlined {
    Function,
    Action,
    Control,
}

/// A position in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// Index into [`files`](super::Program::files).
    pub file: u32,
    /// The line, from 1 on.
    pub line: u32,
}

/// A call of an extern's method, or of an extern function.
#[derive(Clone, Debug)]
pub struct ExternCall {
    /// The instance, or `None` for a function.
    pub instance: Option<ExternId>,
    /// Method or function name: `read`, `count`, `mark_to_drop`, `update_checksum`, …
    pub method: String,
    /// Arguments in the order of the formal parameters. If the extern returns a value, an
    /// additional [`Arg::Out`] at the end receives it.
    pub args: Vec<Arg>,
}

/// An argument of an extern call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An input value.
    In(Expr),
    /// A place that receives a value (`out`), or that is read and then written (`inout`).
    Out(Place, Scalar),
    /// A list or tuple expression, flattened.
    List(Vec<Expr>),
    /// A header argument.
    Header(HeaderRef),
    /// A struct or header passed whole to an extern that accesses it directly, such as
    /// `standard_metadata` of `mark_to_drop`.
    Opaque,
    /// A copy of such a struct: its fields by name.
    Copy(Vec<(String, FieldId)>),
    /// A string literal.
    Text(String),
    /// A member of an extern enum such as `HashAlgorithm.crc16`: type and member.
    Symbol(String, String),
}
