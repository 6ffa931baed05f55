//! Places of values in a packet's state.
//!
//! The state is one array of 64-bit words. Each scalar of the program has a *slot* there: one word, or several for
//! values wider than 64 bits. Temporaries and constants also have slots, so every operand of an operation is a slot.
//! Bits of a value above its width are always zero.

/// Index of a value's first word in the packet's state.
pub(crate) type Slot = u32;

/// No slot: the result is unused.
pub(crate) const NO_SLOT: Slot = u32::MAX;

/// A value in the packet's state: its slot and its width in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    pub(crate) slot: Slot,
    pub(crate) width: u32,
}
