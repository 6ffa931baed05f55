//! Errors of loading a program and of accessing its state.

use tributary_p4::Diagnostic;
use tributary_p4::ir::{Origin, Program};

/// Why a program cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// Another error, with its position in the source.
    #[error("{0}")]
    At(Box<Located>),
    /// The program instantiates no package.
    #[error("the program has no `main`")]
    NoMain,
    /// The program is written for an unknown architecture.
    #[error("unknown architecture: package `{0}` (known: `V1Switch`, `PSA_Switch`, `Switch`)")]
    Package(String),
    /// The package lacks a block, or has a control in place of a parser.
    #[error("package `{package}`: no {kind} is bound to parameter `{role}`")]
    Block {
        /// The package.
        package: String,
        /// The formal parameter.
        role: &'static str,
        /// `parser` or `control`.
        kind: &'static str,
    },
    /// An extern, or a method of one, that the engine does not implement.
    #[error("extern `{0}` is not supported")]
    Extern(String),
    /// An extern was instantiated or called in an unsupported way.
    #[error("extern `{name}`: {reason}")]
    ExternUse {
        /// The extern, with its method if one was called.
        name: String,
        /// The problem.
        reason: String,
    },
    /// The program uses metadata of the architecture that the engine does not model.
    #[error("the program uses `{name}`: {what} is not supported")]
    Intrinsic {
        /// Role and member.
        name: String,
        /// The meaning of the metadata.
        what: &'static str,
    },
    /// A header has no valid wire format.
    #[error("header `{name}` has {bits} bits: not a whole number of bytes")]
    HeaderSize {
        /// Hierarchical name.
        name: String,
        /// Size without a varbit field.
        bits: u32,
    },
    /// No match structure supports the table.
    #[error("table `{name}`: {reason}")]
    Table {
        /// Hierarchical name.
        name: String,
        /// The problem.
        reason: String,
    },
    /// A table refuses an entry or a default action of the program.
    #[error("table `{name}`: entry {index} of the program: {error}")]
    Entry {
        /// Hierarchical name.
        name: String,
        /// Position in the program's entry list.
        index: usize,
        /// Why it was refused.
        error: TableError,
    },
    /// A language construct is in the wrong place, such as `extract` in a control.
    #[error("{0}")]
    Misplaced(String),
    /// Actions or values are nested too deeply, or the state is too large.
    #[error("{0} exceeds the engine's limit")]
    Limit(String),
    /// Registers, counters or meters take too much memory.
    #[error(
        "`{name}` and the instances before it take more than {mebibytes} MiB of memory: make it smaller"
    )]
    State {
        /// Hierarchical name.
        name: String,
        /// The limit.
        mebibytes: u128,
    },
    /// The intermediate representation is inconsistent, which is a bug in the front end.
    #[error("malformed program: {0}")]
    Malformed(String),
}

/// An error with its position in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Located {
    /// The error.
    pub error: LoadError,
    /// The error as the compiler would report it.
    pub diagnostic: Diagnostic,
}

impl std::fmt::Display for Located {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.error, f)
    }
}

impl LoadError {
    /// Adds the position, if it is known and the error has none yet.
    pub(crate) fn at(self, program: &Program, origin: Option<Origin>) -> Self {
        let diagnostic = match &self {
            Self::At(_) => None,
            error => origin.and_then(|at| program.origins.error(at, error.to_string())),
        };
        match diagnostic {
            Some(mut diagnostic) => {
                diagnostic.help = self.help().map(str::to_owned);
                Self::At(Box::new(Located { error: self, diagnostic }))
            }
            None => self,
        }
    }

    /// How to fix it, where the message does not say it.
    fn help(&self) -> Option<&'static str> {
        match self {
            Self::NoMain => Some("instantiate a package, as in `V1Switch(…) main;`"),
            Self::HeaderSize { .. } => Some(
                "add a field for the rest of the last byte; in a program for Tofino, `@flexible` on \
                 the header adds it",
            ),
            _ => None,
        }
    }

    /// The error without its position.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::At(located) => &located.error,
            error => error,
        }
    }

    /// The error as the compiler would report it, if its position is known.
    #[must_use]
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::At(located) => Some(&located.diagnostic),
            _ => None,
        }
    }
}

/// Why a control plane request for a table was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// No table has that id.
    #[error("no such table")]
    UnknownTable,
    /// The table has no such action.
    #[error("the table has no action {0}")]
    UnknownAction(u32),
    /// The action may not be used there (`@tableonly`, `@defaultonly`, `@groupaction`).
    #[error("the action may be used {0}")]
    ActionScope(&'static str),
    /// An entry with the same key (and priority) exists.
    #[error("the entry exists already")]
    AlreadyExists,
    /// No entry has that key (and priority).
    #[error("no such entry")]
    NotFound,
    /// The number of matches is wrong.
    #[error("the table has {expected} keys, the entry {got}")]
    KeyCount {
        /// Keys of the table.
        expected: usize,
        /// Matches in the entry.
        got: usize,
    },
    /// A match has another kind than the key.
    #[error("key {0}: the match is of another kind than the key")]
    MatchKind(usize),
    /// A value does not fit into the key.
    #[error("key {key}: the value needs more than {width} bits")]
    KeyWidth {
        /// Position of the key.
        key: usize,
        /// Its width in bits.
        width: u32,
    },
    /// A match is invalid: value bits outside the mask or prefix, or an empty range.
    #[error("key {key}: {reason}")]
    BadMatch {
        /// Position of the key.
        key: usize,
        /// The problem.
        reason: &'static str,
    },
    /// The number of action arguments is wrong.
    #[error("the action has {expected} parameters, the entry {got}")]
    ArgCount {
        /// Parameters of the action.
        expected: usize,
        /// Arguments given.
        got: usize,
    },
    /// An argument does not fit.
    #[error("argument {arg}: the value needs more than {width} bits")]
    ArgWidth {
        /// Position of the argument.
        arg: usize,
        /// Width of the parameter in bits.
        width: u32,
    },
    /// A priority is present where the table has none (it must be 0), or missing.
    #[error("{0}")]
    Priority(&'static str),
    /// The table has as many entries as its size allows.
    #[error("the table is full ({0} entries)")]
    Full(u64),
    /// The program declared the entries or the default action constant.
    #[error("{0} of this table are constant")]
    Constant(&'static str),
    /// The entry has an action instead of a member or a group, or the reverse.
    #[error("{0}")]
    ActionKind(&'static str),
    /// The table has no `support_timeout`.
    #[error("entries of this table have no idle time-out")]
    NoTimeout,
    /// The action profile refuses the member or group.
    #[error(transparent)]
    Profile(#[from] Box<ProfileError>),
}

impl From<ProfileError> for TableError {
    fn from(error: ProfileError) -> Self {
        Self::Profile(Box::new(error))
    }
}

/// Why an action profile refused a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// The id does not name an action profile or selector.
    #[error("no such action profile")]
    Unknown,
    /// A plain profile has members only.
    #[error("an action profile without a selector has no groups")]
    NoGroups,
    /// The object (`member`, `group`) with this id exists.
    #[error("{0} {1} exists already")]
    AlreadyExists(&'static str, u32),
    /// The object with this id does not exist.
    #[error("there is no {0} {1}")]
    NotFound(&'static str, u32),
    /// Entries or groups refer to the object.
    #[error("{0} {1} is in use")]
    InUse(&'static str, u32),
    /// The profile has as many members as its size allows.
    #[error("the action profile is full ({0} members)")]
    Full(u64),
    /// A group contains this member twice.
    #[error("member {0} is in the group twice")]
    Twice(u32),
    /// A weight is zero.
    #[error("a weight must be at least 1")]
    Weight,
    /// The weights of a group add up to more than its size, or the engine's.
    #[error("the weights of the group add up to more than {0}")]
    TooLarge(u64),
    /// The action of a member is invalid: see [`TableError`].
    #[error(transparent)]
    Action(#[from] TableError),
}

/// Why a register, a counter, a meter or a value set could not be accessed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The id does not name an extern instance of this kind.
    #[error("no such {0}")]
    Unknown(&'static str),
    /// The index is beyond the end of the array.
    #[error("index {index} is out of range: the array has {size} elements")]
    Index {
        /// The requested index.
        index: u64,
        /// Elements of the array.
        size: u64,
    },
    /// The value does not fit into an element.
    #[error("the value needs more than {0} bits")]
    Width(u32),
    /// A meter's committed rate is above its peak rate.
    #[error("the committed rate is above the peak rate")]
    Rates,
    /// The configuration is for another kind of filter, a random early drop's bounds are in the
    /// wrong order, or its probability is not one.
    #[error(
        "it is for another kind of filter, a lower bound is above an upper bound, or the probability is not between 0 and 1"
    )]
    Filter,
    /// The value set already has the member.
    #[error("the value set has this member already")]
    AlreadyExists,
    /// The value set does not have the member.
    #[error("the value set has no such member")]
    NotFound,
    /// The value set has as many members as its size allows.
    #[error("the value set is full ({0} members)")]
    Full(u64),
    /// An entry of a table, or a match, is invalid: see [`TableError`].
    #[error(transparent)]
    Table(#[from] TableError),
}
