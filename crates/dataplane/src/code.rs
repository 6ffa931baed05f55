//! The compact form of a program: flat operations on a packet's state.
//!
//! Every operand is a slot ([`crate::slot`]). Operations are straight-line except for jumps. An
//! interpreter executes them (`exec`). A compiler to machine code translates them one by one
//! (`compiled`), and lets the interpreter execute those that it does not know: a new operation needs
//! no translation unless it jumps.

use std::collections::HashMap;

use crate::externs::hash::Algorithm;
use crate::externs::math_unit::MathUnit;
use crate::externs::tna_hash::TnaHash;
use crate::layout::Layout;
use crate::slot::{Item, Slot};
use crate::tables::Resolved;
use crate::wide::WideOp;

/// Maximum nesting of action calls.
pub(crate) const DEEPEST_CALL: usize = 14;

/// Work limit of a block's loops; see [`crate::load`] for the work per iteration. It bounds the
/// time that one packet can delay others to some tenths of a second.
pub(crate) const MOST_WORK: u32 = 1 << 27;

/// Iteration limit of a parser's loops. A loop that consumes a byte per iteration ends before.
pub(crate) const MOST_TICKS: u32 = 1 << 16;

/// Iteration limit of a control's loops: more than a byte can count.
pub(crate) const MOST_TURNS: u32 = 1 << 20;

/// Index of an operation.
pub(crate) type Pc = u32;

/// One operation. Values have at most 64 bits, except for [`Op::Wide`] and [`Op::Copy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub(crate) enum Op {
    Move { dst: Slot, src: Slot },
    /// Copies neighbouring words.
    Copy { dst: Slot, src: Slot, words: u32 },
    /// Keeps the low `width` bits.
    Truncate { dst: Slot, src: Slot, width: u8 },
    SignExtend { dst: Slot, src: Slot, from: u8, to: u8 },
    Add { dst: Slot, a: Slot, b: Slot, width: u8 },
    Sub { dst: Slot, a: Slot, b: Slot, width: u8 },
    Mul { dst: Slot, a: Slot, b: Slot, width: u8 },
    And { dst: Slot, a: Slot, b: Slot },
    Or { dst: Slot, a: Slot, b: Slot },
    Xor { dst: Slot, a: Slot, b: Slot },
    Not { dst: Slot, a: Slot, width: u8 },
    Shl { dst: Slot, a: Slot, b: Slot, width: u8 },
    Shr { dst: Slot, a: Slot, b: Slot },
    Eq { dst: Slot, a: Slot, b: Slot },
    Ne { dst: Slot, a: Slot, b: Slot },
    Lt { dst: Slot, a: Slot, b: Slot },
    Le { dst: Slot, a: Slot, b: Slot },
    SignedLt { dst: Slot, a: Slot, b: Slot, width: u8 },
    SignedLe { dst: Slot, a: Slot, b: Slot, width: u8 },
    /// `dst = c ? a : b`
    Select { dst: Slot, c: Slot, a: Slot, b: Slot },
    /// `dst` gets `width` bits of `src` from bit `lo` up.
    Slice { dst: Slot, src: Slot, lo: u8, width: u8 },
    /// Stores `src` into bits of `dst`.
    Insert { dst: Slot, src: Slot, lo: u8, width: u8 },
    /// `dst` gets `a` above the `low` bits of `b`.
    Concat { dst: Slot, a: Slot, b: Slot, low: u8 },
    /// An operation of any width.
    Wide(u32),

    Jump(Pc),
    JumpIf { c: Slot, to: Pc },
    JumpUnless { c: Slot, to: Pc },
    JumpEq { a: Slot, b: Slot, to: Pc },
    JumpNe { a: Slot, b: Slot, to: Pc },
    /// Jumps if `a & mask != value`.
    JumpMaskedNe { a: Slot, mask: Slot, value: Slot, to: Pc },
    /// Jumps if `a` is outside `low..=high`.
    JumpOutside { a: Slot, low: Slot, high: Slot, to: Pc },
    Call(Pc),
    /// End of a block, an action or a parser.
    Return,
    /// End of the whole control.
    Exit,
    /// Applies a table whose keys are in place. The action returns to the next operation.
    Apply { table: u32, hit: Slot, action: Slot },
    /// After [`Op::Apply`] of a table with an action profile: if a group action has run, runs the action that
    /// was picked.
    ApplyPicked { table: u32 },

    Extract(u32),
    ExtractVarbit { header: u32, bits: Slot },
    Lookahead(u32),
    Advance { bits: Slot },
    /// Stops the parser with this error.
    Fail { error: Slot },
    /// Counts an iteration of a loop, which uses this much of the packet's work.
    Tick(u32),
    Emit(u32),
    SetValid(u32),
    SetInvalid(u32),
    CopyHeader { to: u32, from: u32 },
    /// Loads a field of a stack element chosen at run time.
    LoadElement { dst: Slot, index: Slot, element: u32 },
    StoreElement { src: Slot, index: Slot, element: u32 },

    RegisterRead { dst: Slot, register: u32, index: Slot },
    /// Like [`Op::RegisterRead`], but zero out of range.
    CellRead { dst: Slot, register: u32, index: Slot },
    RegisterWrite { src: Slot, register: u32, index: Slot },
    RegisterRun(u32),
    Count { counter: u32, index: Slot },
    Extern(u32),
    /// Tells an observer where the program is; only in code for observed packets ([`crate::trace`]).
    Note(u32),
}

/// The properties of a header that operations need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeaderCode {
    pub(crate) name: String,
    pub(crate) valid: Slot,
    /// First word of the fields, which are contiguous.
    pub(crate) first: Slot,
    /// Number of words of the fields.
    pub(crate) words: u32,
    /// Number of them that are cleared when it becomes valid: all, or none in TNA, where a field keeps
    /// what was written before.
    pub(crate) cleared: u32,
    pub(crate) layout: Layout,
    pub(crate) varbit: Option<Box<Varbit>>,
}

/// A header with a varbit field. Its `layout` covers the fields before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Varbit {
    pub(crate) field: Item,
    /// Slot of the length in bits, among the header's words.
    pub(crate) length: Slot,
    pub(crate) rest: Vec<Item>,
    /// Total bits of all other fields.
    pub(crate) fixed_bits: u32,
}

/// Slots of one field in all elements of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    pub(crate) slots: Vec<Slot>,
    pub(crate) words: u32,
}

/// A list of values to hash; each group only takes part if its header is valid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct List {
    pub(crate) groups: Vec<Group>,
    /// Whether groups start within bytes, or after varbits, so that they must be joined bit by bit.
    pub(crate) ragged: bool,
}

/// Part of a [`List`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Validity bit of the group, or `NO_SLOT`.
    pub(crate) valid: Slot,
    /// Slot of the length in bits if the group is a varbit, or `NO_SLOT`.
    pub(crate) length: Slot,
    pub(crate) items: Vec<Item>,
    pub(crate) layout: Layout,
}

/// An operation on neighbouring registers of one bank at one index and on neighbouring slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterRun {
    pub(crate) kind: RunKind,
    /// The first register.
    pub(crate) register: u32,
    pub(crate) index: Slot,
    /// The first slot.
    pub(crate) slot: Slot,
    pub(crate) count: u32,
    /// Bits of each element and each slot, at most 32.
    pub(crate) width: u8,
}

/// The operation of a [`RegisterRun`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunKind {
    /// Registers to slots.
    Read,
    /// Slots to registers.
    Write,
    /// `sum = register; sum = sum + slot; register = sum; slot = sum` with one slot for all sums.
    Add { sum: Slot },
}

/// The place of state: in an array, or at the entry of a table that matched last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    Array { number: u32, index: Slot },
    Entry { table: u32 },
}

/// Calls of extern functions that are too rare or too large for a separate operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ExternOp {
    Hash {
        dst: Slot,
        width: u32,
        algorithm: Algorithm,
        base: Slot,
        /// Number of values, or `NO_SLOT` for all.
        max: Slot,
        list: u32,
    },
    VerifyChecksum {
        condition: Slot,
        /// Validity of the checksum field's header, or `NO_SLOT`.
        valid: Slot,
        checksum: Slot,
        algorithm: Algorithm,
        list: u32,
        payload: bool,
        error: Slot,
    },
    UpdateChecksum {
        condition: Slot,
        checksum: Slot,
        width: u32,
        algorithm: Algorithm,
        list: u32,
        payload: bool,
    },
    Random {
        dst: Slot,
        width: u32,
        low: Slot,
        high: Slot,
    },
    /// TNA's `MathUnit.execute`.
    MathUnit {
        dst: Slot,
        width: u32,
        unit: Box<MathUnit>,
        operand: Slot,
    },
    /// Limits the length of the outgoing frame; `limit` is the smallest request plus one.
    Truncate {
        length: Slot,
        limit: Slot,
    },
    Assert {
        condition: Slot,
        failed: Slot,
        what: &'static str,
    },
    Log {
        message: String,
        values: Vec<Item>,
    },
    /// TNA's `Hash.get`, without base and range.
    Digest {
        dst: Slot,
        width: u32,
        algorithm: Box<TnaHash>,
        list: u32,
    },
    /// Adds to, or subtracts from, a sum that [`ExternOp::ChecksumGet`] folds.
    ChecksumAdd {
        sum: Slot,
        list: u32,
        subtract: bool,
    },
    /// With `complement`, what makes the whole sum zero; otherwise the sum itself.
    ChecksumGet {
        dst: Slot,
        sum: Slot,
        complement: bool,
    },
    /// The number plus one of bytes that the parser has consumed.
    Consumed {
        dst: Slot,
    },
    /// A sum without the bytes that the parser has consumed since [`ExternOp::Consumed`].
    ChecksumRest {
        dst: Slot,
        sum: Slot,
        since: Slot,
    },
    /// Continues a digest: see [`Algorithm::resume`].
    DigestAdd {
        digest: Slot,
        algorithm: Algorithm,
        list: u32,
    },
    /// Counts a packet with `less` bytes than it has, unless that is `NO_SLOT` (TNA).
    CountAt {
        at: Cell,
        less: Slot,
    },
    /// Meters a packet, in the program's numbers for green, yellow and red (PSA, TNA). It had the
    /// colour `before`, and counts with `less` bytes than it has, unless they are `NO_SLOT`.
    MeterAt {
        dst: Slot,
        at: Cell,
        before: Slot,
        less: Slot,
        colors: [u8; 3],
        /// The architecture's numbers of the colours, in which `before` is.
        given: [u8; 3],
    },
    /// Filters a value; with `drops`, tells by one of two numbers whether to drop the packet.
    Filter {
        dst: Slot,
        width: u32,
        at: Cell,
        value: Slot,
        /// The numbers for "drop" and for "do not".
        drops: Option<[u8; 2]>,
    },
    /// Reads the register of the last matching entry.
    CellLoad {
        table: u32,
        cells: Vec<Item>,
    },
    /// Writes it.
    CellStore {
        table: u32,
        cells: Vec<Item>,
    },
    Resubmit {
        flag: Slot,
        data: Slot,
        list: Option<u32>,
    },
    Mirror {
        session: Slot,
        list: Option<u32>,
    },
    /// Meters a packet and stores its colour.
    Meter {
        dst: Slot,
        width: u32,
        meter: u32,
        index: Slot,
    },
    /// Tests whether values are in a parser value set.
    Contains {
        dst: Slot,
        set: u32,
        keys: Vec<Item>,
    },
    /// Makes a digest for the controller from the current values (TNA).
    Pack {
        digest: u32,
    },
    /// Requests a digest at the end of ingress; `request` is its number plus one.
    Learn {
        digest: u32,
        request: Slot,
    },
}

/// A table's properties for the interpreter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableCode {
    /// The key fields.
    pub(crate) keys: Vec<Item>,
    /// The list of values that an action selector hashes.
    pub(crate) selected: Option<u32>,
    /// The action profile of its entries.
    pub(crate) profile: Option<u32>,
    pub(crate) actions: Vec<ActionCode>,
}

impl TableCode {
    /// Copies an action's arguments to its parameters; returns its entry.
    #[inline]
    pub(crate) fn enter(&self, found: &Resolved, state: &mut [u64]) -> Pc {
        let action = &self.actions[found.action as usize];
        let params = action.params as usize;
        let to = &mut state[params..params + found.data.len()];
        // A call that copies a few words takes longer than copying them.
        match (&mut *to, &*found.data) {
            ([], []) => {}
            ([a], [x]) => *a = *x,
            ([a, b], [x, y]) => (*a, *b) = (*x, *y),
            ([a, b, c], [x, y, z]) => (*a, *b, *c) = (*x, *y, *z),
            ([a, b, c, d], [x, y, z, w]) => (*a, *b, *c, *d) = (*x, *y, *z, *w),
            _ => to.copy_from_slice(&found.data),
        }
        action.entry
    }
}

/// An action that a table can start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ActionCode {
    pub(crate) entry: Pc,
    /// First word of the parameters, which are contiguous.
    pub(crate) params: Slot,
    /// Number of their words.
    pub(crate) words: u32,
}

/// Codes of parser errors that the engine raises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errors {
    pub(crate) packet_too_short: u64,
    pub(crate) stack_out_of_bounds: u64,
    pub(crate) header_too_short: u64,
    pub(crate) timeout: u64,
    pub(crate) invalid_argument: u64,
    /// Of a parser counter (TNA).
    pub(crate) counter_range: u64,
}

/// A loaded program, immutable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) headers: Vec<HeaderCode>,
    pub(crate) lookaheads: Vec<Layout>,
    pub(crate) lists: Vec<List>,
    pub(crate) elements: Vec<Element>,
    pub(crate) runs: Vec<RegisterRun>,
    pub(crate) wides: Vec<WideOp>,
    pub(crate) externs: Vec<ExternOp>,
    pub(crate) tables: Vec<TableCode>,
    /// The value slots of each digest.
    pub(crate) digests: Vec<Vec<Item>>,
    /// An action that does nothing.
    pub(crate) nothing: Pc,
    pub(crate) errors: Errors,
    /// Start of each block of the architecture.
    pub(crate) blocks: Vec<Pc>,
    /// Number of words of a packet's state.
    pub(crate) words: usize,
    /// Words that are equal in every packet.
    pub(crate) constants: HashMap<Slot, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_at_most_twenty_bytes() {
        assert!(size_of::<Op>() <= 20);
    }
}
