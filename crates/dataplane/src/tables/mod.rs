//! Match-action tables.

use crate::value::Value;

/// What one key of an entry matches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KeyMatch {
    /// Equal.
    Exact(Value),
    /// The highest `prefix_len` bits are equal. The value's other bits must be zero.
    Lpm {
        /// Value.
        value: Value,
        /// Bits of the prefix, 0 up to the key's width.
        prefix_len: u32,
    },
    /// Equal under a mask. The value's bits outside the mask must be zero.
    Ternary {
        /// Value.
        value: Value,
        /// Bits that count.
        mask: Value,
    },
    /// Within bounds, both included.
    Range {
        /// Least value that matches.
        low: Value,
        /// Greatest value that matches.
        high: Value,
    },
    /// Equal, or anything.
    Optional(Option<Value>),
}

/// An action with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionCall {
    /// Index into the table's list of actions ([`tributary_p4::ir::Table::actions`]).
    pub action: u32,
    /// One value for each of the action's run-time parameters, in order.
    pub args: Vec<Value>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// One match a key, in the order of the keys; a key left out in P4Runtime is written here as
    /// a match of anything (prefix length 0, mask 0, full range, `Optional(None)`).
    pub matches: Vec<KeyMatch>,
    /// Larger wins; at least 1 in a table with a ternary, range or optional key, otherwise 0.
    pub priority: i32,
    /// What happens on a match.
    pub call: ActionCall,
}
