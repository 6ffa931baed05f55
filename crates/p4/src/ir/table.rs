//! Actions and tables.

use super::{ActionId, Annotation, Expr, ExternId, FieldId, Stmt};

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Hierarchical name in the control plane, for example `ingress.forwarding.to_port`.
    pub name: String,
    /// Run-time parameters, in order.
    pub params: Vec<FieldId>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Hierarchical name.
    pub name: String,
    /// The match keys.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<TableAction>,
    /// The action on a miss, with the values of its run-time parameters.
    pub default_action: ActionCall,
    /// Whether the control plane may not change the default action.
    pub const_default: bool,
    /// Entries from the program, in order of precedence.
    pub entries: Vec<Entry>,
    /// Whether the control plane may not change the entries.
    pub const_entries: bool,
    /// Number of entries that the program requests.
    pub size: u64,
    /// The attached extern instances: `implementation`, a direct counter, a direct meter.
    pub attached: Vec<ExternId>,
    /// Whether `support_timeout` is set.
    pub idle_timeout: bool,
    /// PSA's action for packets whose group has no members.
    pub empty_group: Option<ActionCall>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name in the control plane.
    pub name: String,
    /// The matched value.
    pub value: Expr,
    /// The match kind.
    pub kind: MatchKind,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// A match kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the match kinds of core.p4 and v1model.p4, by name")]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
    Selector,
}

/// Where the control plane may use an action of a table (`ActionRef.scope` in P4Info).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// In entries and as the default action.
    #[default]
    TableAndDefault,
    /// `@tableonly`: never as the default action.
    TableOnly,
    /// `@defaultonly`: never in an entry.
    DefaultOnly,
    /// `@groupaction`: as the group action of an action set only.
    GroupAction,
}

impl Scope {
    /// Whether entries, and members of action profiles, may have the action.
    #[must_use]
    pub const fn in_entries(self) -> bool {
        matches!(self, Self::TableAndDefault | Self::TableOnly)
    }

    /// Whether the action may be the default.
    #[must_use]
    pub const fn as_default(self) -> bool {
        matches!(self, Self::TableAndDefault | Self::DefaultOnly)
    }

    /// Its annotation; empty for none.
    #[must_use]
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::TableAndDefault => "",
            Self::TableOnly => "@tableonly",
            Self::DefaultOnly => "@defaultonly",
            Self::GroupAction => "@groupaction",
        }
    }
}

/// An action in a table's action list.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// Statements that assign the parameters bound in the table's action list. They run before the
    /// body.
    pub prologue: Vec<Stmt>,
    /// Where the control plane may use it.
    pub scope: Scope,
}

/// An action with the values of its run-time parameters (limbs according to the parameters' types).
#[derive(Clone, Debug)]
pub struct ActionCall {
    /// Index into [`Table::actions`].
    pub action: u32,
    /// Values.
    pub args: Vec<Box<[u64]>>,
}

/// An entry that the program installs.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One keyset per key.
    pub keys: Vec<Keyset>,
    /// The action.
    pub call: ActionCall,
    /// The priority as stated in the program, if any. Only the order of [`Table::entries`]
    /// determines which entry wins.
    pub priority: Option<u32>,
    /// Whether the control plane may not change it.
    pub is_const: bool,
}

/// A keyset, in `select` and in entries.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Keyset {
    /// `_` or `default`.
    Any,
    /// Equal.
    Value(Box<[u64]>),
    /// Equal under a mask.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Masked { value: Box<[u64]>, mask: Box<[u64]> },
    /// `value/prefix_len`, in entries of lpm keys.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Prefix { value: Box<[u64]>, len: u32 },
    /// An inclusive range.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Range { low: Box<[u64]>, high: Box<[u64]> },
    /// The parser value set of this extern instance. The instance has the type `value_set`. Its
    /// type arguments are the scalars of a value; its arguments are the size and, for each scalar,
    /// the symbol of its `match_kind`. A set of several scalars is the only keyset of its case, and
    /// covers all selected values. BMv2 matches all of them exactly.
    ValueSet(ExternId),
}
