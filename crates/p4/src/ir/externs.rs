//! Extern instances.

use super::{Annotation, ExternId, FieldId, Scalar, Stmt};

/// An extern instance.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Hierarchical name.
    pub name: String,
    /// Its type: `register`, `counter`, `direct_counter`, `meter`, `action_profile`, `value_set`, …
    pub type_name: String,
    /// The scalars of its resolved type arguments, in order; a struct counts as its scalars. For
    /// `register`, `Register` and `DirectRegister` only those of the cell.
    pub type_args: Vec<Scalar>,
    /// Constructor arguments.
    pub args: Vec<CtorArg>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// The operation of a register action on one cell of its register (`RegisterAction`,
/// `DirectRegisterAction`).
///
/// `execute` does the following:
///
/// 1. It copies the cell's scalars into the fields of `value`.
/// 2. It sets the field of `result`, if any, to zero.
/// 3. It runs `body`.
/// 4. It copies the fields of `value` back into the cell.
///
/// The call's result is the field of `result`, or zero if there is none. An index beyond the
/// register's end reads zero and stores nothing. No other access to the register may happen in
/// between.
#[derive(Clone, Debug)]
pub struct StatefulAction {
    /// The `RegisterAction` or `DirectRegisterAction`.
    pub instance: ExternId,
    /// Its `Register` or `DirectRegister`. For the latter, the cell is that of the matching table
    /// entry, and the table has the register in [`attached`](super::Table::attached).
    pub register: ExternId,
    /// The cell: one field, or two (`lo`, then `hi`, in the order of the struct).
    pub value: Vec<FieldId>,
    /// The `out` parameter of `apply`.
    pub result: Option<FieldId>,
    /// The body of `apply`. Its `Return` leaves the body. It applies no table and calls no stateful
    /// extern.
    pub body: Vec<Stmt>,
}

/// A constructor argument.
#[derive(Clone, Debug)]
pub enum CtorArg {
    /// An integer or `bool`; negative integers in two's complement of the parameter's width. A
    /// struct becomes one argument per scalar (the initial value of a register of pairs).
    Int(u128),
    /// Another instance.
    Instance(ExternId),
    /// An enum member: type and member, such as `CounterType.packets`.
    Symbol(String, String),
    /// A string.
    Text(String),
}
