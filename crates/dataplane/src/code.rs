//! The compact form of a program: flat operations on a packet's state.
//!
//! A packet's state is one array of 64-bit words. Each scalar of the program has a *slot* there:
//! one word, or several for values wider than 64 bits. So have temporaries and constants, hence
//! every operand is a slot. Words of a value above its width are zero at all times.
//!
//! Operations are straight-line except for the jumps. An interpreter walks them (`exec`); a compiler
//! to machine code translates them one by one (`compiled`), and has the interpreter do those that it
//! does not know: a new operation needs nothing there, unless it jumps.

use std::collections::HashMap;

use crate::externs::hash::Algorithm;
use crate::externs::tna_hash::TnaHash;
use crate::layout::{Item, Layout};
use crate::wide::WideOp;

/// Index of a value's first word in the packet's state.
pub(crate) type Slot = u32;

/// No slot: a result that nobody wants.
pub(crate) const NO_SLOT: Slot = u32::MAX;

/// Index of an operation.
pub(crate) type Pc = u32;

/// One operation. Values have at most 64 bits unless [`Op::Wide`] or [`Op::Copy`] says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub(crate) enum Op {
    Move { dst: Slot, src: Slot },
    /// Neighbouring words.
    Copy { dst: Slot, src: Slot, words: u32 },
    /// Cut to `width`.
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
    /// `c ? a : b`
    Select { dst: Slot, c: Slot, a: Slot, b: Slot },
    /// `width` bits of `src` from bit `lo` up.
    Slice { dst: Slot, src: Slot, lo: u8, width: u8 },
    /// Stores into bits of `dst`.
    Insert { dst: Slot, src: Slot, lo: u8, width: u8 },
    /// `a` above the `low` bits of `b`.
    Concat { dst: Slot, a: Slot, b: Slot, low: u8 },
    /// Any width, any operator.
    Wide(u32),

    Jump(Pc),
    JumpIf { c: Slot, to: Pc },
    JumpUnless { c: Slot, to: Pc },
    JumpEq { a: Slot, b: Slot, to: Pc },
    JumpNe { a: Slot, b: Slot, to: Pc },
    /// Taken where `a & mask != value`.
    JumpMaskedNe { a: Slot, mask: Slot, value: Slot, to: Pc },
    /// Taken where `a` is not within `low..=high`.
    JumpOutside { a: Slot, low: Slot, high: Slot, to: Pc },
    Call(Pc),
    /// End of a block, an action or a parser.
    Return,
    /// End of the whole control.
    Exit,
    /// Applies a table: keys are in place. Goes on with the action, which returns to the next
    /// operation.
    Apply { table: u32, hit: Slot, action: Slot },

    Extract(u32),
    ExtractVarbit { header: u32, bits: Slot },
    Lookahead(u32),
    Advance { bits: Slot },
    /// The parser stops with that error.
    Fail { error: Slot },
    /// Counts a turn of a loop, which takes so much of the packet's work.
    Tick(u32),
    Emit(u32),
    SetValid(u32),
    SetInvalid(u32),
    CopyHeader { to: u32, from: u32 },
    /// A field of a stack element chosen at run time.
    LoadElement { dst: Slot, index: Slot, element: u32 },
    StoreElement { src: Slot, index: Slot, element: u32 },

    RegisterRead { dst: Slot, register: u32, index: Slot },
    /// Like [`Op::RegisterRead`], but zero out of range.
    CellRead { dst: Slot, register: u32, index: Slot },
    RegisterWrite { src: Slot, register: u32, index: Slot },
    RegisterRun(u32),
    Count { counter: u32, index: Slot },
    Extern(u32),
}

/// What a header's operations need.
#[derive(Clone, Debug)]
pub(crate) struct HeaderCode {
    pub(crate) name: String,
    pub(crate) valid: Slot,
    /// First word of the fields; all fields of a header are neighbours.
    pub(crate) first: Slot,
    /// Words of the fields.
    pub(crate) words: u32,
    pub(crate) layout: Layout,
    pub(crate) varbit: Option<Box<Varbit>>,
}

/// A header with a varbit field. Its `layout` covers the fields before it.
#[derive(Clone, Debug)]
pub(crate) struct Varbit {
    pub(crate) field: Item,
    /// Where the length in bits lives; among the header's words.
    pub(crate) length: Slot,
    pub(crate) rest: Vec<Item>,
    /// Bits of all fields but the varbit one.
    pub(crate) fixed_bits: u32,
}

/// Slots of one field in all elements of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) slots: Vec<Slot>,
    pub(crate) words: u32,
}

/// A list of values whose bits are hashed, each group only if a header is valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) groups: Vec<Group>,
    /// Groups start within bytes, or where varbits end: they must be put together bit by bit.
    pub(crate) ragged: bool,
}

/// Part of a [`List`].
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Validity bit that decides, or [`NO_SLOT`].
    pub(crate) valid: Slot,
    /// Where the length in bits of the group's only item is: a varbit. Or [`NO_SLOT`].
    pub(crate) length: Slot,
    pub(crate) items: Vec<Item>,
    pub(crate) layout: Layout,
}

/// Neighbouring registers of one bank at one index against neighbouring slots.
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

/// What a [`RegisterRun`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunKind {
    /// Registers to slots.
    Read,
    /// Slots to registers.
    Write,
    /// `sum = register; sum = sum + slot; register = sum; slot = sum` with one slot for all sums.
    Add { sum: Slot },
}

/// Calls of extern functions that are too rare or too large for an operation of their own.
#[derive(Clone, Debug)]
pub(crate) enum ExternOp {
    Hash {
        dst: Slot,
        width: u32,
        algorithm: Algorithm,
        base: Slot,
        max: Slot,
        list: u32,
    },
    VerifyChecksum {
        condition: Slot,
        /// Validity of the checksum field's header, or [`NO_SLOT`].
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
    /// Shortens the frame that leaves; `limit` holds the least length asked for, plus one.
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
    /// Adds to a sum that [`ExternOp::ChecksumGet`] folds, or subtracts from it.
    ChecksumAdd {
        sum: Slot,
        list: u32,
        subtract: bool,
    },
    ChecksumGet {
        dst: Slot,
        sum: Slot,
    },
    /// Counts at the entry that matched last.
    CountDirect {
        table: u32,
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
    /// The colour of a packet at a meter.
    Meter {
        dst: Slot,
        width: u32,
        meter: u32,
        index: Slot,
    },
    /// Whether values are in a parser value set.
    Contains {
        dst: Slot,
        set: u32,
        keys: Vec<Item>,
    },
    /// A digest for the controller, with its values as they are now (TNA).
    Pack {
        digest: u32,
    },
    /// Asks for a digest at the end of ingress; `request` is its number plus one.
    Learn {
        digest: u32,
        request: Slot,
    },
}

/// A table as the interpreter applies it.
#[derive(Clone, Debug)]
pub(crate) struct TableCode {
    /// What entries are matched with.
    pub(crate) keys: Vec<Item>,
    /// The list of values that an action selector hashes.
    pub(crate) selected: Option<u32>,
    /// The action profile that entries refer to.
    pub(crate) profile: Option<u32>,
    pub(crate) actions: Vec<ActionCode>,
}

/// An action as a table starts it.
#[derive(Clone, Debug)]
pub(crate) struct ActionCode {
    pub(crate) entry: Pc,
    /// First word of the parameters; they are neighbours.
    pub(crate) params: Slot,
}

/// Codes of the parser errors that the engine raises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errors {
    pub(crate) packet_too_short: u64,
    pub(crate) stack_out_of_bounds: u64,
    pub(crate) header_too_short: u64,
    pub(crate) timeout: u64,
    pub(crate) invalid_argument: u64,
}

/// A loaded program, immutable.
#[derive(Clone, Debug)]
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
    /// Where the values of each digest are.
    pub(crate) digests: Vec<Vec<Item>>,
    /// An action that does nothing.
    pub(crate) nothing: Pc,
    pub(crate) errors: Errors,
    /// Where the blocks of the architecture start.
    pub(crate) blocks: Vec<Pc>,
    /// Words of a packet's state.
    pub(crate) words: usize,
    /// Words that hold the same in every packet.
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
