//! Nodes of a tree.

use serde_json::Value as Json;

/// The kind of a node; its name in JSON is stable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "docs/reference/trace.md describes them by their names")]
pub enum Kind {
    Packet,
    Copy,
    Ingress,
    Egress,
    Parser,
    Control,
    State,
    Transition,
    Function,
    Action,
    Table,
    Key,
    Match,
    Condition,
    Switch,
    Call,
    Extract,
    Lookahead,
    Advance,
    Emit,
    Write,
    Metadata,
    Register,
    Counter,
    Meter,
    Hash,
    Checksum,
    Random,
    ValueSet,
    Request,
    Digest,
    Log,
    Error,
    Verdict,
    Drop,
    Sent,
    Again,
    Fork,
    Outcome,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 39] = [
        Self::Packet,
        Self::Copy,
        Self::Ingress,
        Self::Egress,
        Self::Parser,
        Self::Control,
        Self::State,
        Self::Transition,
        Self::Function,
        Self::Action,
        Self::Table,
        Self::Key,
        Self::Match,
        Self::Condition,
        Self::Switch,
        Self::Call,
        Self::Extract,
        Self::Lookahead,
        Self::Advance,
        Self::Emit,
        Self::Write,
        Self::Metadata,
        Self::Register,
        Self::Counter,
        Self::Meter,
        Self::Hash,
        Self::Checksum,
        Self::Random,
        Self::ValueSet,
        Self::Request,
        Self::Digest,
        Self::Log,
        Self::Error,
        Self::Verdict,
        Self::Drop,
        Self::Sent,
        Self::Again,
        Self::Fork,
        Self::Outcome,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Copy => "copy",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Parser => "parser",
            Self::Control => "control",
            Self::State => "state",
            Self::Transition => "transition",
            Self::Function => "function",
            Self::Action => "action",
            Self::Table => "table",
            Self::Key => "key",
            Self::Match => "match",
            Self::Condition => "condition",
            Self::Switch => "switch",
            Self::Call => "call",
            Self::Extract => "extract",
            Self::Lookahead => "lookahead",
            Self::Advance => "advance",
            Self::Emit => "emit",
            Self::Write => "write",
            Self::Metadata => "metadata",
            Self::Register => "register",
            Self::Counter => "counter",
            Self::Meter => "meter",
            Self::Hash => "hash",
            Self::Checksum => "checksum",
            Self::Random => "random",
            Self::ValueSet => "value-set",
            Self::Request => "request",
            Self::Digest => "digest",
            Self::Log => "log",
            Self::Error => "error",
            Self::Verdict => "verdict",
            Self::Drop => "drop",
            Self::Sent => "sent",
            Self::Again => "again",
            Self::Fork => "fork",
            Self::Outcome => "outcome",
        }
    }
}

/// A node of the tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: Kind,
    /// One line of text.
    pub text: String,
    /// `file:line` in the program's source.
    pub at: Option<String>,
    /// The details, by name. Names are stable.
    pub facts: Vec<(&'static str, Json)>,
    /// What happened within, in order.
    pub children: Vec<Self>,
}

impl Node {
    /// A detail.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&Json> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Itself and all nodes below, parents first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        let mut open = vec![self];
        std::iter::from_fn(move || {
            let next = open.pop()?;
            open.extend(next.children.iter().rev());
            Some(next)
        })
    }
}

/// Details of a node, by name.
pub(super) type Facts = Vec<(&'static str, Json)>;
