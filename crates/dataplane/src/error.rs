//! What can go wrong when a program is loaded or its state is accessed.

/// Why a program cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The program instantiates no package.
    #[error("the program has no `main`")]
    NoMain,
    /// The program is written for an architecture that the engine does not know.
    #[error("unknown architecture: package `{0}` (known: `V1Switch`, `Switch`)")]
    Package(String),
    /// The package lacks a block, or a control stands where a parser belongs.
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
    /// An extern was instantiated or called in a way that the engine does not understand.
    #[error("extern `{name}`: {reason}")]
    ExternUse {
        /// The extern, with its method where one was called.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Metadata of the architecture that the program uses and the engine does not model.
    #[error("the program uses `{name}`: {what} is not supported")]
    Intrinsic {
        /// Role and member.
        name: String,
        /// What it stands for.
        what: &'static str,
    },
    /// A header that cannot be put on the wire.
    #[error("header `{name}` has {bits} bits: not a whole number of bytes")]
    HeaderSize {
        /// Hierarchical name.
        name: String,
        /// Size without a varbit field.
        bits: u32,
    },
    /// A table that no match structure can serve.
    #[error("table `{name}`: {reason}")]
    Table {
        /// Hierarchical name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// An entry or a default action in the program that its table refuses.
    #[error("table `{name}`: entry {index} of the program: {error}")]
    Entry {
        /// Hierarchical name.
        name: String,
        /// Position in the program's entry list.
        index: usize,
        /// Why it was refused.
        error: TableError,
    },
    /// A construct of the language outside its place, such as `extract` in a control.
    #[error("{0}")]
    Misplaced(String),
    /// Actions or values nested deeper, or state larger, than the engine allows.
    #[error("{0} exceeds the engine's limit")]
    Limit(String),
    /// Registers, counters or meters that take too much memory.
    #[error(
        "`{name}` and the instances before it take more than {mebibytes} MiB of memory: make it smaller"
    )]
    State {
        /// Hierarchical name.
        name: String,
        /// What is allowed.
        mebibytes: u128,
    },
    /// The intermediate representation contradicts itself: a fault of the front end.
    #[error("malformed program: {0}")]
    Malformed(String),
}

/// Why the control plane's request for a table was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// No table has that id.
    #[error("no such table")]
    UnknownTable,
    /// The table has no such action.
    #[error("the table has no action {0}")]
    UnknownAction(u32),
    /// The action may not be used there (`@tableonly`, `@defaultonly`).
    #[error("the action may be used {0}")]
    ActionScope(&'static str),
    /// An entry with the same key (and priority) exists.
    #[error("the entry exists already")]
    AlreadyExists,
    /// No entry has that key (and priority).
    #[error("no such entry")]
    NotFound,
    /// A wrong number of matches.
    #[error("the table has {expected} keys, the entry {got}")]
    KeyCount {
        /// Keys of the table.
        expected: usize,
        /// Matches in the entry.
        got: usize,
    },
    /// A match of another kind than the key's.
    #[error("key {0}: the match is of another kind than the key")]
    MatchKind(usize),
    /// A value that does not fit into the key.
    #[error("key {key}: the value needs more than {width} bits")]
    KeyWidth {
        /// Position of the key.
        key: usize,
        /// Its width in bits.
        width: u32,
    },
    /// A match that says nothing sensible: value bits outside the mask or prefix, an empty range.
    #[error("key {key}: {reason}")]
    BadMatch {
        /// Position of the key.
        key: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A wrong number of action arguments.
    #[error("the action has {expected} parameters, the entry {got}")]
    ArgCount {
        /// Parameters of the action.
        expected: usize,
        /// Arguments given.
        got: usize,
    },
    /// An argument that does not fit.
    #[error("argument {arg}: the value needs more than {width} bits")]
    ArgWidth {
        /// Position of the argument.
        arg: usize,
        /// Width of the parameter in bits.
        width: u32,
    },
    /// A priority where the table has none (it must be 0), or none where it needs one.
    #[error("{0}")]
    Priority(&'static str),
    /// The table has as many entries as its size allows.
    #[error("the table is full ({0} entries)")]
    Full(u64),
    /// The program declared the entries or the default action constant.
    #[error("{0} of this table are constant")]
    Constant(&'static str),
    /// An action where a member or a group is wanted, or the other way round.
    #[error("{0}")]
    ActionKind(&'static str),
    /// A time-out in a table without `support_timeout`.
    #[error("entries of this table have no idle time-out")]
    NoTimeout,
    /// A member or a group that the action profile refuses.
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
    /// A plain profile, of which members only can be named.
    #[error("an action profile without a selector has no groups")]
    NoGroups,
    /// What is there (`member`, `group`), and its id.
    #[error("{0} {1} exists already")]
    AlreadyExists(&'static str, u32),
    /// What is missing, and its id.
    #[error("there is no {0} {1}")]
    NotFound(&'static str, u32),
    /// Entries or groups name it.
    #[error("{0} {1} is in use")]
    InUse(&'static str, u32),
    /// The profile has as many members as its size allows.
    #[error("the action profile is full ({0} members)")]
    Full(u64),
    /// A member that a group names twice.
    #[error("member {0} is in the group twice")]
    Twice(u32),
    /// A weight of zero.
    #[error("a weight must be at least 1")]
    Weight,
    /// The weights of a group add up to more than its size, or the engine's.
    #[error("the weights of the group add up to more than {0}")]
    TooLarge(u64),
    /// The action of a member: see [`TableError`].
    #[error(transparent)]
    Action(#[from] TableError),
}

/// Why a register, a counter, a meter or a value set could not be accessed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The id does not name an extern instance of the kind that was asked for.
    #[error("no such {0}")]
    Unknown(&'static str),
    /// The index is beyond the array's end.
    #[error("index {index} is out of range: the array has {size} elements")]
    Index {
        /// Index asked for.
        index: u64,
        /// Elements of the array.
        size: u64,
    },
    /// The value does not fit into an element.
    #[error("the value needs more than {0} bits")]
    Width(u32),
    /// A meter whose committed rate is above its peak rate.
    #[error("the committed rate is above the peak rate")]
    Rates,
    /// A member that the value set has.
    #[error("the value set has this member already")]
    AlreadyExists,
    /// A member that the value set has not.
    #[error("the value set has no such member")]
    NotFound,
    /// The value set has as many members as its size allows.
    #[error("the value set is full ({0} members)")]
    Full(u64),
    /// An entry of a table, or a match: see [`TableError`].
    #[error(transparent)]
    Table(#[from] TableError),
}
