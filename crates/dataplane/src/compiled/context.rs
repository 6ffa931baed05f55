//! Calls into machine code and back: the engine's only unsafe code, together with `runs`.
//!
//! Machine code is called as [`Block`] and calls functions of type [`Call`]. Both pass on the same
//! three pointers, made by [`Compiled::run`] from exclusive references that outlive the call. While
//! the machine code runs, no other reference to their targets is in use. A function that is called
//! back creates its own references and drops them before it returns.

use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Mutex;

use cranelift_jit::JITModule;
use cranelift_module::FuncId;

use super::runs;
use crate::code::{Code, Op, Pc};
use crate::exec::watch::Unwatched;
use crate::exec::{Flow, Io};
use crate::slot::Slot;
use crate::store::Store;

/// Result of a block of machine code: ended normally.
pub(super) const NEXT: u64 = 0;
/// Ended by `exit`.
pub(super) const EXIT: u64 = 1;
/// Ended with an error, which is in the context.
pub(super) const ERROR: u64 = 2;

/// A block as machine code.
type Block = unsafe extern "C" fn(*mut Context, *mut u64, *mut Io<'static>) -> u64;

/// A function that machine code calls, with context, state, bytes and two arguments.
pub(super) type Call =
    unsafe extern "C" fn(*mut Context, *mut u64, *mut Io<'static>, u64, u64) -> u64;

/// Data that machine code needs in addition to the packet's state.
///
/// No two neighbours here are neighbours in [`Io`] or in a `Vec`. Otherwise the compiler copies both with
/// one load of 16 bytes, which waits until the two stores of 8 bytes just before it are in the cache: that
/// took a tenth of the switch's time.
#[repr(C)]
pub(super) struct Context {
    frame: *const u8,
    /// The outgoing frame: address, length, capacity.
    out: *mut u8,
    frame_len: usize,
    out_len: usize,
    code: *const Code,
    out_room: usize,
    /// The addresses of the banks of registers.
    bases: *const usize,
    error: u64,
    /// The row of registers that the next values will be combined with.
    row: *const u32,
    words: usize,
    store: *mut Store,
}

/// Offsets of fields that machine code accesses.
pub(super) mod at {
    use super::{Context, Io, offset_of};

    pub(in super::super) const FRAME: i32 = offset_of!(Context, frame) as i32;
    pub(in super::super) const FRAME_LEN: i32 = offset_of!(Context, frame_len) as i32;
    pub(in super::super) const OUT: i32 = offset_of!(Context, out) as i32;
    pub(in super::super) const OUT_LEN: i32 = offset_of!(Context, out_len) as i32;
    pub(in super::super) const OUT_ROOM: i32 = offset_of!(Context, out_room) as i32;
    pub(in super::super) const ERROR: i32 = offset_of!(Context, error) as i32;
    pub(in super::super) const BASES: i32 = offset_of!(Context, bases) as i32;
    pub(in super::super) const ROW: i32 = offset_of!(Context, row) as i32;
    /// Offset in the bytes' own structure.
    pub(in super::super) const AT: i32 = offset_of!(Io<'static>, at) as i32;
    pub(in super::super) const LENGTH: i32 = offset_of!(Io<'static>, length) as i32;
    pub(in super::super) const WORK: i32 = offset_of!(Io<'static>, work) as i32;
}

/// The machine code of a program.
pub(crate) struct Compiled {
    /// The blocks' entries and their code.
    blocks: Vec<(Pc, Block)>,
    /// Number of words of a packet's state.
    words: usize,
    /// Owns the code's memory.
    module: Mutex<Option<JITModule>>,
}

impl Compiled {
    pub(super) fn new(module: JITModule, blocks: &[(Pc, FuncId)], words: usize) -> Self {
        let function = |&(entry, id): &(Pc, FuncId)| {
            let code = module.get_finalized_function(id);
            // SAFETY: `translate` declares every block with this signature, and the code is final.
            (entry, unsafe { std::mem::transmute::<*const u8, Block>(code) })
        };
        Self {
            blocks: blocks.iter().map(function).collect(),
            words,
            module: Mutex::new(Some(module)),
        }
    }

    /// Runs a block. The code must be equal to that for which the machine code was made; store and
    /// `bases`, which are the addresses of its banks of registers, must be the code's.
    #[inline]
    pub(crate) fn run(
        &self,
        entry: Pc,
        code: &Code,
        bases: &[usize],
        store: &mut Store,
        state: &mut [u64],
        io: &mut Io<'_>,
    ) -> Flow {
        let block = self.blocks.iter().find(|(known, _)| *known == entry);
        let (Some(&(_, block)), true) = (block, state.len() >= self.words) else {
            return store.interpret::<false, _>(code, entry, state, io, &mut Unwatched);
        };
        let mut context = Context {
            frame: io.frame.as_ptr(),
            frame_len: io.frame.len(),
            out: io.out.as_mut_ptr(),
            out_len: io.out.len(),
            out_room: io.out.capacity(),
            bases: bases.as_ptr(),
            error: 0,
            row: std::ptr::null(),
            words: state.len(),
            code,
            store,
        };
        let io: *mut Io<'static> = std::ptr::from_mut(io).cast();
        // SAFETY: the three pointers come from exclusive references that live until the call is
        // over. The machine code stays within their bounds: `bounds` has checked each slot against
        // `words`, which is the length of the state; each access to the frame, to the outgoing
        // frame and to a register is behind a comparison with the length in `context` or the
        // register's size, in a bank whose address is in `bases`. The code does not depend on the lifetime of `Io`, because it keeps
        // nothing of it.
        let end = unsafe { block(&mut context, state.as_mut_ptr(), io) };
        // SAFETY: the same pointer; and `out_len` bytes have been written, within the capacity.
        unsafe { (*io).out.set_len(context.out_len) };
        match end {
            ERROR => Flow::Error(context.error),
            _ => Flow::Done,
        }
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let module = self.module.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(module) = module.take() {
            // SAFETY: the code is only reachable through `self`, and no thread runs it any more.
            unsafe { module.free_memory() };
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

/// The data that a called function works on.
struct Called<'a> {
    context: &'a mut Context,
    code: &'a Code,
    store: &'a mut Store,
    state: &'a mut [u64],
    io: &'a mut Io<'static>,
}

impl<'a> Called<'a> {
    /// # Safety
    /// The pointers are those that [`Compiled::run`] gave to the machine code, which waits.
    #[inline]
    unsafe fn new(context: *mut Context, state: *mut u64, io: *mut Io<'static>) -> Self {
        // SAFETY: they come from exclusive references whose owner waits (see above).
        unsafe {
            let context = &mut *context;
            Self {
                code: &*context.code,
                store: &mut *context.store,
                state: std::slice::from_raw_parts_mut(state, context.words),
                io: &mut *io,
                context,
            }
        }
    }

    /// Runs a closure that may write to the outgoing frame.
    #[inline]
    fn interpret(
        self,
        run: impl FnOnce(&Code, &mut Store, &mut [u64], &mut Io<'_>) -> Flow,
    ) -> u64 {
        let Self { context, code, store, state, io } = self;
        // SAFETY: machine code has written `out_len` bytes, within the capacity.
        unsafe { io.out.set_len(context.out_len) };
        let flow = run(code, store, state, io);
        context.out = io.out.as_mut_ptr();
        context.out_len = io.out.len();
        context.out_room = io.out.capacity();
        match flow {
            Flow::Next => NEXT,
            Flow::Done => EXIT,
            Flow::Error(error) => {
                context.error = error;
                ERROR
            }
        }
    }
}

/// Defines functions for machine code, all of type [`Call`], from a pattern for their data and two
/// arguments.
macro_rules! called {
    ($($(#[$doc:meta])* fn $name:ident($called:pat, $a:pat, $b:pat) $body:block)*) => {$(
        $(#[$doc])*
        pub(super) unsafe extern "C" fn $name(
            context: *mut Context,
            state: *mut u64,
            io: *mut Io<'static>,
            a: u64,
            b: u64,
        ) -> u64 {
            // SAFETY: called by machine code with its own pointers.
            let $called = unsafe { Called::new(context, state, io) };
            let ($a, $b) = (a, b);
            $body
        }
    )*};
}

called! {
    /// Interprets the operation at `pc`.
    fn step(called, pc, _) {
        called.interpret(|code, store, state, io| {
            store.interpret::<true, _>(code, pc as Pc, state, io, &mut Unwatched)
        })
    }

    /// Applies the table of the operation at `pc`; returns the entry of the action.
    fn apply(Called { code, store, state, io, .. }, pc, _) {
        match code.ops[pc as usize] {
            Op::Apply { table, hit, action } => {
                let bytes = io.ingress_length;
                store.apply(code, table, hit, action, state, bytes, &mut Unwatched).into()
            }
            _ => unreachable!("only these are translated to a call of this function"),
        }
    }

    /// Continues after a group action: returns the entry of the action that was picked.
    fn apply_picked(Called { code, store, state, .. }, table, _) {
        store.apply_picked(code, table as u32, state).into()
    }

    /// Counts at an index of a counter.
    fn count(Called { store, io, .. }, counter, index) {
        store.counters[counter as usize].count(index, io.ingress_length);
        NEXT
    }

    /// Makes room for more bytes of the outgoing frame.
    fn reserve(called, bytes, _) {
        called.interpret(|_, _, _, io| {
            io.out.reserve(bytes as usize);
            Flow::Next
        })
    }

    /// Copies neighbouring words: from the high half of the first argument to its low half.
    fn copy(Called { state, .. }, places, words) {
        let (to, from) = (places as u32 as usize, (places >> 32) as usize);
        state.copy_within(from..from + words as usize, to);
        NEXT
    }

    /// Clears neighbouring words.
    fn clear(Called { state, .. }, first, words) {
        state[first as usize..(first + words) as usize].fill(0);
        NEXT
    }

    /// Reads a run of registers (see [`crate::code::RegisterRun`]): `row` is its first register's
    /// element at the index, in range.
    fn row_read(Called { state, .. }, row, places) {
        let slots = slots(state, places);
        // SAFETY: see `row_of`.
        runs::read(unsafe { row_of(row, slots.len()) }, slots);
        NEXT
    }

    /// Like [`row_read`], but writes the registers.
    fn row_write(Called { state, .. }, row, places) {
        let slots = slots(state, places);
        // SAFETY: see `row_of`.
        runs::write(unsafe { row_of(row, slots.len()) }, slots);
        NEXT
    }

    /// Like [`row_read`], but adds the slots to the row and leaves the sums in both.
    fn row_add(Called { state, .. }, row, places) {
        let slots = slots(state, places);
        // SAFETY: see `row_of`.
        runs::add(unsafe { row_of(row, slots.len()) }, slots);
        NEXT
    }

    /// Reads neighbouring fields of 32 bits at address `bytes` in the frame.
    fn extract_32(Called { state, .. }, bytes, places) {
        let slots = slots(state, places);
        // SAFETY: see `fields_at`.
        runs::extract(unsafe { fields_at(bytes, slots.len()) }, slots);
        NEXT
    }

    /// Like [`extract_32`], for values that will be combined with the context's row.
    fn extract_32_ahead(Called { context, state, .. }, bytes, places) {
        let slots = slots(state, places);
        // SAFETY: see `fields_at`.
        runs::extract_ahead(unsafe { fields_at(bytes, slots.len()) }, slots, context.row);
        NEXT
    }

    /// Writes neighbouring fields of 32 bits to address `bytes` in the outgoing frame.
    fn emit_32(Called { state, .. }, bytes, places) {
        let slots = slots(state, places);
        let bytes = std::ptr::with_exposed_provenance_mut::<MaybeUninit<[u8; 4]>>(bytes as usize);
        // SAFETY: machine code has compared their end with the outgoing frame's capacity. The bytes
        // are only written, and no other reference to them exists.
        runs::emit(slots, unsafe { std::slice::from_raw_parts_mut(bytes, slots.len()) });
        NEXT
    }
}

/// The slots encoded by [`places`].
#[inline]
fn slots(state: &mut [u64], places: u64) -> &mut [u64] {
    let (slot, count) = (places as u32 as usize, (places >> 32) as usize);
    &mut state[slot..slot + count]
}

/// The registers at an address.
///
/// # Safety
/// `row` must be the address of `count` words within a bank of the store that machine code runs
/// for: it has compared the index with the number of rows, and `bounds` has checked that the
/// columns are within a row. The store must not be used meanwhile.
#[inline]
unsafe fn row_of<'a>(row: u64, count: usize) -> &'a mut [u32] {
    let row = std::ptr::with_exposed_provenance_mut::<u32>(row as usize);
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(row, count) }
}

/// The fields at an address.
///
/// # Safety
/// `bytes` must be the address of `count` fields within the received frame: machine code has
/// compared their end with its length.
#[inline]
unsafe fn fields_at<'a>(bytes: u64, count: usize) -> &'a [[u8; 4]] {
    let bytes = std::ptr::with_exposed_provenance::<[u8; 4]>(bytes as usize);
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(bytes, count) }
}

/// Encodes a slot and a number of neighbours as an argument of machine code.
pub(super) const fn places(slot: Slot, count: u32) -> u64 {
    slot as u64 | (count as u64) << 32
}
