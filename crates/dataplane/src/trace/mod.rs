//! Observation of packets: what the program does to one, as it happens.
//!
//! An [`Observer`] gets an [`Event`] for each step of the packets that it is given to
//! ([`crate::Pipeline::ingress_observed`] and the others). The interpreter that runs these packets
//! is the one that runs all others: it is compiled a second time, with calls of a `Watch` that
//! costs nothing where there is no observer. Its code for observed packets has notes between the
//! operations (`Op::Note`), and is otherwise what the loader makes for all packets
//! before it fuses neighbouring operations. State, slots and externs are the same, so that each
//! packet of a pipeline may be observed or not.
//!
//! Positions ([`Event::At`]) and inlined parts are there if the program was compiled with marks
//! ([`tributary_p4::Options::marks`]).

mod notes;
mod watch;

use tributary_p4::ir::{
    ActionId, ExternId, FieldId, HeaderId, Inlined, ParserId, Position, StateId, TableId, Target,
};

pub(crate) use self::notes::{Names, Note, Traced};
pub(crate) use self::watch::Observed;
use crate::externs::counter::CounterData;
use crate::tables::{ActionCall, TableEntry};
use crate::value::Value;

/// Follows packets through the program.
pub trait Observer {
    /// The next step of the packet.
    fn event(&mut self, event: Event);

    /// Whether to assume that nothing is known about a table's entries. Its lookup then has the
    /// outcome that [`Self::choose`] picks, and changes no state of the table.
    fn is_unknown(&mut self, _table: TableId) -> bool {
        false
    }

    /// Picks one of several outcomes, by its index.
    fn choose(&mut self, choice: &Choice) -> usize {
        choice.actual
    }
}

/// A step whose outcome does not follow from the packet and the program alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The table.
    pub table: TableId,
    /// The reason for the choice.
    pub of: ChoiceOf,
    /// The possible outcomes: actions, each with whether the packet has matched an entry. `None`
    /// stands for a member of a group, which is the next choice.
    pub outcomes: Vec<(Option<ActionCall>, bool)>,
    /// The one that the packet takes if nobody decides.
    pub actual: usize,
}

/// The reason for a [`Choice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChoiceOf {
    /// The members of an action selector's group, one of which the packet's hash picks.
    Members,
    /// The actions of a table whose entries are unknown. Action data is zero.
    Entries,
}

/// What an observed packet matched in a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Lookup {
    /// This entry.
    Entry(TableEntry),
    /// No entry: the default action runs.
    Miss,
    /// An entry of a table whose entries are unknown.
    AssumedEntry,
    /// No entry of such a table.
    AssumedMiss,
}

/// A request of the program that takes effect at the end of the pass (v1model).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A clone for this session.
    Clone,
    /// The field list that the clone keeps.
    CloneList,
    /// Another ingress pass with this field list.
    Resubmit,
    /// Another pass after egress with this field list.
    Recirculate,
    /// A limit of the frame's length in bytes.
    Truncate,
    /// A digest with this number.
    Digest,
    /// The packet is dropped, because an assertion failed.
    Drop,
}

/// A step of a packet. Fields, tables and the like are those of [`crate::Pipeline::program`].
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A block of the package starts: its role there (`p`, `ig`, `ingress_parser`, …), and its name.
    Block {
        /// Role in the package.
        role: String,
        /// Name of the declaration.
        name: String,
    },
    /// The block has ended: normally, or with a parser's error.
    BlockEnd {
        /// Code of the error.
        error: Option<u64>,
    },
    /// The steps that follow are of this line.
    At(Position),
    /// An inlined function, action or control starts.
    Enter {
        /// Its kind.
        kind: Inlined,
        /// Its name.
        name: String,
    },
    /// It has ended. `exit` and errors end all that have started without this event.
    Leave,
    /// A parser state starts.
    State {
        /// The parser.
        parser: ParserId,
        /// The state.
        state: StateId,
    },
    /// The parser goes on.
    Transition {
        /// The parser.
        parser: ParserId,
        /// The state that it leaves.
        state: StateId,
        /// The selected values; empty without a `select`.
        on: Vec<Value>,
        /// The index of the case that matched; `None` without a `select`, or if none did.
        case: Option<usize>,
        /// The next state.
        target: Target,
    },
    /// A header was extracted: [`Event::Write`] for its fields follow.
    Extract {
        /// The header.
        header: HeaderId,
        /// Bytes of the parser's input before it.
        offset: usize,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The parser has looked ahead, without consuming.
    Lookahead {
        /// Bytes of the parser's input before it.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The parser has skipped bytes.
    Advance {
        /// Number of bytes.
        bytes: usize,
    },
    /// A condition was evaluated.
    Condition {
        /// Number of the branch, unique in the program.
        branch: u32,
        /// The expression.
        text: String,
        /// The fields that it names, with their values.
        reads: Vec<(FieldId, Value)>,
        /// The result.
        holds: bool,
    },
    /// A `switch` statement.
    Switch {
        /// Number of the branch, unique in the program.
        branch: u32,
        /// The expression.
        text: String,
        /// Its value.
        on: Value,
        /// The index of the case; `None` for the default.
        case: Option<usize>,
        /// The case, as text.
        label: String,
    },
    /// A table was applied. Its action's events follow.
    Apply {
        /// The table.
        table: TableId,
        /// The values of all keys but those of the selector.
        keys: Vec<Value>,
        /// The values of the selector's keys.
        selector: Vec<Value>,
        /// What matched.
        lookup: Lookup,
        /// What runs before the action: the group action of an action set.
        group_action: Option<ActionCall>,
        /// The action; `None` if the entry's group is empty.
        action: Option<ActionCall>,
        /// If a group's or a set's member was picked: the hash.
        hash: Option<u64>,
    },
    /// An action starts.
    Action {
        /// The action.
        action: ActionId,
        /// Its run-time parameters.
        params: Vec<(FieldId, Value)>,
    },
    /// It has ended. `exit` ends all that have started without this event.
    ActionEnd,
    /// A field was assigned, or its value has changed otherwise.
    Write {
        /// The field.
        field: FieldId,
        /// Its value before.
        before: Value,
        /// Its value after.
        after: Value,
    },
    /// The program requests something for the end of the pass.
    Request {
        /// What.
        what: Request,
        /// Its number; `None` if the request was withdrawn.
        value: Option<u64>,
    },
    /// An extern is called; events for its effects follow.
    Call {
        /// The call, as text.
        text: String,
    },
    /// An element of a register was read. `value` is `None` if the index is out of range.
    RegisterRead {
        /// The register.
        register: ExternId,
        /// The scalar of the cell, for a register of pairs.
        scalar: u32,
        /// The index.
        index: u64,
        /// The element.
        value: Option<Value>,
    },
    /// An element of a register was written. The values are `None` if the index is out of range.
    RegisterWrite {
        /// The register.
        register: ExternId,
        /// The scalar of the cell, for a register of pairs.
        scalar: u32,
        /// The index.
        index: u64,
        /// The element before.
        before: Option<Value>,
        /// The element after.
        after: Option<Value>,
    },
    /// A counter counted the packet. `count` is `None` if the index is out of range.
    Count {
        /// The counter.
        counter: ExternId,
        /// The index.
        index: u64,
        /// The cell afterwards.
        count: Option<CounterData>,
    },
    /// The direct counter of the entry that matched last counted the packet.
    CountDirect {
        /// The table.
        table: TableId,
    },
    /// A meter returned a colour. `None` if the index is out of range: nothing is stored then.
    Meter {
        /// The meter.
        meter: ExternId,
        /// The index.
        index: u64,
        /// The colour: 0 for green, 1 for yellow, 2 for red.
        color: Option<u64>,
    },
    /// The direct meter of the entry that matched last returned a colour.
    MeterDirect {
        /// The table.
        table: TableId,
        /// The colour: 0 for green, 1 for yellow, 2 for red.
        color: u64,
    },
    /// A low-pass filter, or a random early drop, returned a value.
    Filter {
        /// The value that it was given.
        input: u64,
        /// The value that it returned.
        value: u64,
        /// For a random early drop: whether the packet is to be dropped.
        drops: Option<bool>,
    },
    /// An action changed the register of the entry that matched last.
    CellStore {
        /// The table.
        table: TableId,
        /// The words of the register.
        values: Vec<Value>,
    },
    /// A hash was computed.
    Hash {
        /// The bytes that were hashed.
        data: Vec<u8>,
        /// The result, as stored.
        value: u64,
    },
    /// A checksum was verified or updated, or would have been if its condition held.
    Checksum {
        /// Whether it was compared, and not stored.
        verify: bool,
        /// Whether its condition held.
        active: bool,
        /// The bytes of headers and metadata that are summed.
        data: Vec<u8>,
        /// Number of bytes of payload that are summed, too.
        payload: usize,
        /// The sum.
        value: u64,
        /// When verified: whether it is the one that the packet has.
        correct: Option<bool>,
    },
    /// A random number was drawn.
    Random {
        /// The number, as stored.
        value: u64,
    },
    /// Values were looked up in a parser's value set.
    ValueSet {
        /// Index of the set among the program's value sets.
        set: u32,
        /// The values.
        keys: Vec<Value>,
        /// Whether it has them.
        found: bool,
    },
    /// A header was passed to `emit`.
    Emit {
        /// The header.
        header: HeaderId,
        /// Its bytes; `None` if it is not valid.
        bytes: Option<Vec<u8>>,
    },
    /// A message of the program.
    Log {
        /// The message, with `{}` where values follow.
        message: String,
        /// The values.
        values: Vec<Value>,
    },
    /// An assertion or assumption was evaluated.
    Assert {
        /// Whether it holds. If not, the packet is dropped and the block ends.
        holds: bool,
    },
    /// A copy for a mirror session was requested (TNA).
    Mirror {
        /// The session.
        session: u64,
        /// The bytes in front of the copy.
        header: Vec<u8>,
    },
    /// Another ingress pass was requested, with these bytes (TNA).
    Resubmit {
        /// The data.
        data: [u8; 8],
    },
    /// A digest for the controller was packed (TNA).
    Pack {
        /// Its index in [`crate::Pipeline::digests`].
        digest: u32,
        /// The values.
        values: Vec<Value>,
    },
}
