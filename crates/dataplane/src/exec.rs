//! The interpreter.

mod externs;
pub(crate) mod watch;

use self::watch::Watch;
use crate::bits::{get_bits, mask, put_bits, signed};
use crate::code::{Code, DEEPEST_CALL, HeaderCode, List, MOST_WORK, Op, Pc, RunKind, Varbit};
use crate::externs::checksum::gather;
use crate::externs::profile::Profile;
use crate::externs::random::Random;
use crate::slot::{NO_SLOT, Slot};
use crate::store::Store;
use crate::tables::{Arrival, Match, Outcome};

/// The end of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// Normal end, or `exit`.
    Done,
    /// A parser stopped with an error, or a control's loop did not end.
    Error(u64),
    /// Not at the end: a single operation was executed.
    Next,
}

/// The bytes that a pass reads and writes, and the packet's lengths.
#[derive(Debug)]
pub(crate) struct Io<'a> {
    /// The received frame.
    pub(crate) frame: &'a [u8],
    /// Number of its bytes that the parser has consumed.
    pub(crate) at: usize,
    /// Bytes after the headers, for checksums.
    pub(crate) payload: &'a [u8],
    /// The outgoing frame.
    pub(crate) out: &'a mut Vec<u8>,
    /// See [`crate::Packet::length`].
    pub(crate) length: u32,
    pub(crate) ingress_length: u32,
    /// Work that remains for loops.
    pub(crate) work: u32,
}

impl<'a> Io<'a> {
    /// The state at the start of a parser: a frame, and the packet's length. `out` is not written
    /// before a deparser runs.
    pub(crate) fn arriving(frame: &'a [u8], length: u32, out: &'a mut Vec<u8>) -> Self {
        Self { frame, at: 0, payload: &[], out, length, ingress_length: length, work: MOST_WORK }
    }
}

impl Store {
    /// Interprets a block, or one operation of it.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of operation")]
    pub(crate) fn interpret<const STEP: bool, W: Watch>(
        &mut self,
        code: &Code,
        entry: Pc,
        state: &mut [u64],
        io: &mut Io<'_>,
        watch: &mut W,
    ) -> Flow {
        let store = self;
        let ops = code.ops.as_slice();
        let mut calls: [Pc; DEEPEST_CALL + 2] = [0; DEEPEST_CALL + 2];
        let mut depth = 0;
        let mut pc = entry as usize;
        macro_rules! at {
            ($slot:expr) => {
                state[$slot as usize]
            };
        }
        macro_rules! go_if {
            ($condition:expr, $to:expr) => {
                if $condition {
                    pc = $to as usize;
                }
            };
        }
        loop {
            let op = ops[pc];
            pc += 1;
            if W::ON {
                watch.before(store, code, &op, state, io);
            }
            match op {
                Op::Move { dst, src } => at!(dst) = at!(src),
                Op::Copy { dst, src, words } => {
                    let (src, words) = (src as usize, words as usize);
                    state.copy_within(src..src + words, dst as usize);
                }
                Op::Truncate { dst, src, width } => at!(dst) = at!(src) & mask(width.into()),
                Op::SignExtend { dst, src, from, to } => {
                    at!(dst) = signed(at!(src), from.into()) as u64 & mask(to.into());
                }
                Op::Add { dst, a, b, width } => {
                    at!(dst) = at!(a).wrapping_add(at!(b)) & mask(width.into());
                }
                Op::Sub { dst, a, b, width } => {
                    at!(dst) = at!(a).wrapping_sub(at!(b)) & mask(width.into());
                }
                Op::Mul { dst, a, b, width } => {
                    at!(dst) = at!(a).wrapping_mul(at!(b)) & mask(width.into());
                }
                Op::And { dst, a, b } => at!(dst) = at!(a) & at!(b),
                Op::Or { dst, a, b } => at!(dst) = at!(a) | at!(b),
                Op::Xor { dst, a, b } => at!(dst) = at!(a) ^ at!(b),
                Op::Not { dst, a, width } => at!(dst) = !at!(a) & mask(width.into()),
                Op::Shl { dst, a, b, width } => {
                    let by = at!(b);
                    at!(dst) = if by < 64 { at!(a) << by & mask(width.into()) } else { 0 };
                }
                Op::Shr { dst, a, b } => {
                    let by = at!(b);
                    at!(dst) = if by < 64 { at!(a) >> by } else { 0 };
                }
                Op::Eq { dst, a, b } => at!(dst) = u64::from(at!(a) == at!(b)),
                Op::Ne { dst, a, b } => at!(dst) = u64::from(at!(a) != at!(b)),
                Op::Lt { dst, a, b } => at!(dst) = u64::from(at!(a) < at!(b)),
                Op::Le { dst, a, b } => at!(dst) = u64::from(at!(a) <= at!(b)),
                Op::SignedLt { dst, a, b, width } => {
                    let width = width.into();
                    at!(dst) = u64::from(signed(at!(a), width) < signed(at!(b), width));
                }
                Op::SignedLe { dst, a, b, width } => {
                    let width = width.into();
                    at!(dst) = u64::from(signed(at!(a), width) <= signed(at!(b), width));
                }
                Op::Select { dst, c, a, b } => {
                    at!(dst) = if at!(c) != 0 { at!(a) } else { at!(b) };
                }
                Op::Slice { dst, src, lo, width } => {
                    at!(dst) = at!(src) >> lo & mask(width.into());
                }
                Op::Insert { dst, src, lo, width } => {
                    let bits = mask(width.into()) << lo;
                    at!(dst) = at!(dst) & !bits | at!(src) << lo & bits;
                }
                Op::Concat { dst, a, b, low } => at!(dst) = at!(a) << low | at!(b),
                Op::Wide(number) => {
                    code.wides[number as usize].run(state, &mut store.scratch);
                }
                Op::Jump(to) => pc = to as usize,
                Op::JumpIf { c, to } => go_if!(at!(c) != 0, to),
                Op::JumpUnless { c, to } => go_if!(at!(c) == 0, to),
                Op::JumpEq { a, b, to } => go_if!(at!(a) == at!(b), to),
                Op::JumpNe { a, b, to } => go_if!(at!(a) != at!(b), to),
                Op::JumpMaskedNe { a, mask, value, to } => {
                    go_if!(at!(a) & at!(mask) != at!(value), to);
                }
                Op::JumpOutside { a, low, high, to } => {
                    go_if!(!(at!(low)..=at!(high)).contains(&at!(a)), to);
                }
                Op::Call(to) => {
                    calls[depth] = pc as Pc;
                    depth += 1;
                    pc = to as usize;
                }
                Op::Return => {
                    if depth == 0 {
                        return Flow::Done;
                    }
                    depth -= 1;
                    pc = calls[depth] as usize;
                }
                Op::Exit => return Flow::Done,
                Op::Apply { table, hit, action } => {
                    let bytes = io.ingress_length;
                    let entry = store.apply(code, table, hit, action, state, bytes, watch);
                    calls[depth] = pc as Pc;
                    depth += 1;
                    pc = entry as usize;
                }
                Op::ApplyPicked { table } => {
                    calls[depth] = pc as Pc;
                    depth += 1;
                    pc = store.apply_picked(code, table, state) as usize;
                }
                Op::Extract(header) => {
                    let header = &code.headers[header as usize];
                    let end = io.at + header.layout.bytes();
                    let Some(bytes) = io.frame.get(io.at..end) else {
                        return Flow::Error(code.errors.packet_too_short);
                    };
                    header.layout.extract(bytes, state);
                    at!(header.valid) = 1;
                    io.at = end;
                }
                Op::ExtractVarbit { header, bits } => {
                    if let Err(error) = extract_varbit(code, header, at!(bits), state, io) {
                        return Flow::Error(error);
                    }
                }
                Op::Lookahead(number) => {
                    let layout = &code.lookaheads[number as usize];
                    let Some(bytes) = io.frame.get(io.at..io.at + layout.bytes()) else {
                        return Flow::Error(code.errors.packet_too_short);
                    };
                    layout.extract(bytes, state);
                }
                Op::Advance { bits } => {
                    let bits = at!(bits);
                    if !bits.is_multiple_of(8) {
                        return Flow::Error(code.errors.invalid_argument);
                    }
                    if bits / 8 > (io.frame.len() - io.at) as u64 {
                        return Flow::Error(code.errors.packet_too_short);
                    }
                    io.at += (bits / 8) as usize;
                }
                Op::Fail { error } => return Flow::Error(at!(error)),
                Op::Tick(work) => match io.work.checked_sub(work) {
                    Some(left) => io.work = left,
                    None => return Flow::Error(code.errors.timeout),
                },
                Op::Emit(header) => emit(code, header, state, io.out),
                Op::SetValid(header) => {
                    let header = &code.headers[header as usize];
                    if at!(header.valid) == 0 {
                        let first = header.first as usize;
                        state[first..first + header.cleared as usize].fill(0);
                        at!(header.valid) = 1;
                        io.length = io.length.wrapping_add(header_bytes(header, state));
                    }
                }
                Op::SetInvalid(header) => {
                    let header = &code.headers[header as usize];
                    if at!(header.valid) != 0 {
                        io.length = io.length.wrapping_sub(header_bytes(header, state));
                        at!(header.valid) = 0;
                    }
                }
                Op::CopyHeader { to, from } => {
                    let (to, from) = (&code.headers[to as usize], &code.headers[from as usize]);
                    at!(to.valid) = at!(from.valid);
                    if at!(from.valid) != 0 {
                        let first = from.first as usize;
                        state.copy_within(first..first + from.words as usize, to.first as usize);
                    }
                }
                Op::LoadElement { dst, index, element } => {
                    let element = &code.elements[element as usize];
                    let (dst, words) = (dst as usize, element.words as usize);
                    match usize::try_from(at!(index)).ok().and_then(|i| element.slots.get(i)) {
                        Some(&slot) => {
                            let slot = slot as usize;
                            state.copy_within(slot..slot + words, dst);
                        }
                        None => state[dst..dst + words].fill(0),
                    }
                }
                Op::StoreElement { src, index, element } => {
                    let element = &code.elements[element as usize];
                    let found = usize::try_from(at!(index)).ok().and_then(|i| element.slots.get(i));
                    if let Some(&slot) = found {
                        let (src, words) = (src as usize, element.words as usize);
                        state.copy_within(src..src + words, slot as usize);
                    }
                }
                Op::RegisterRead { dst, register, index } => {
                    let index = at!(index);
                    store.registers.read(register, index, &mut state[dst as usize..]);
                }
                Op::CellRead { dst, register, index } => {
                    let index = at!(index);
                    store.registers.read_cell(register, index, &mut state[dst as usize..]);
                }
                Op::RegisterWrite { src, register, index } => {
                    let index = at!(index);
                    store.registers.write(register, index, &state[src as usize..]);
                }
                Op::RegisterRun(number) => store.register_run(code, number, state),
                Op::Count { counter, index } => {
                    store.counters[counter as usize].count(at!(index), io.ingress_length);
                }
                Op::Extern(number) => {
                    if !store.call_extern(code, number, state, io) {
                        return Flow::Done;
                    }
                }
                Op::Note(number) => watch.note(number, state),
            }
            if W::ON {
                watch.after(store, code, &op, state, io);
            }
            if STEP {
                return Flow::Next;
            }
        }
    }

    /// Looks up a packet, copies the arguments and returns the action's entry.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the operands of one operation")]
    pub(crate) fn apply<W: Watch>(
        &mut self,
        code: &Code,
        table: u32,
        hit: Slot,
        action: Slot,
        state: &mut [u64],
        bytes: u32,
        watch: &mut W,
    ) -> Pc {
        let table_code = &code.tables[table as usize];
        let arrival = Arrival { bytes, now_us: self.now_us };
        // An observer that does not know the entries assumes an outcome instead.
        let assumed = watch.assume(table, &self.tables[table as usize]);
        let (outcome, matched) = match &assumed {
            Some((outcome, hit)) => (outcome, if *hit { Match::Assumed } else { Match::Miss }),
            None => {
                let number = table as usize;
                let scratch = &mut self.scratch;
                let matched = self.tables[number].apply(table_code, state, scratch, arrival);
                (self.tables[number].outcome_of(matched), matched)
            }
        };
        if hit != NO_SLOT {
            state[hit as usize] = u64::from(matched != Match::Miss);
        }
        self.picked = None;
        let found = match outcome {
            Outcome::Direct(found) => Some(found),
            shared => {
                let list = table_code.selected.map(|list| &code.lists[list as usize]);
                let profile = table_code.profile.map(|profile| &self.profiles[profile as usize]);
                let random = &mut self.random;
                let hash = profile.map_or(0, |profile| {
                    let hash = hash_of(profile, shared, list, state, &mut self.buffer, random);
                    watch.pick(table, profile, shared, hash)
                });
                if shared.group_action().is_some() {
                    self.picked = Some((matched, hash));
                }
                let chosen = profile.and_then(|profile| profile.choose(shared, hash));
                chosen.or_else(|| self.tables[table as usize].empty_group())
            }
        };
        if W::ON {
            watch.applied(table, &self.tables[table as usize], matched, outcome, found);
        }
        if let Some(first) = outcome.group_action() {
            if action != NO_SLOT {
                let none = table_code.actions.len() as u64;
                state[action as usize] = found.map_or(none, |found| u64::from(found.action));
            }
            return table_code.enter(first, state);
        }
        let Some(found) = found else {
            if action != NO_SLOT {
                state[action as usize] = table_code.actions.len() as u64;
            }
            return code.nothing;
        };
        if action != NO_SLOT {
            state[action as usize] = u64::from(found.action);
        }
        table_code.enter(found, state)
    }

    /// Copies the arguments of the action that [`Self::apply`] has picked beside a group action;
    /// returns its entry.
    pub(crate) fn apply_picked(&mut self, code: &Code, table: u32, state: &mut [u64]) -> Pc {
        let Some((matched, hash)) = self.picked.take() else { return code.nothing };
        let table_code = &code.tables[table as usize];
        let outcome = self.tables[table as usize].outcome_of(matched);
        let profile = table_code.profile.map(|profile| &self.profiles[profile as usize]);
        let found = profile.and_then(|profile| profile.choose(outcome, hash));
        let found = found.or_else(|| self.tables[table as usize].empty_group());
        found.map_or(code.nothing, |found| table_code.enter(found, state))
    }

    #[inline]
    fn register_run(&mut self, code: &Code, number: u32, state: &mut [u64]) {
        let run = code.runs[number as usize];
        let count = run.count as usize;
        let index = state[run.index as usize];
        let row = self.registers.row(run.register, index, count);
        let slots = run.slot as usize..run.slot as usize + count;
        match (run.kind, row) {
            (RunKind::Read, Some(row)) => {
                for (slot, element) in state[slots].iter_mut().zip(row) {
                    *slot = u64::from(*element);
                }
            }
            (RunKind::Write, Some(row)) => {
                for (slot, element) in state[slots].iter().zip(row) {
                    *element = *slot as u32;
                }
            }
            (RunKind::Read | RunKind::Write, None) => {}
            (RunKind::Add { sum }, Some(row)) => {
                let mask = mask(run.width.into()) as u32;
                for (slot, element) in state[slots.clone()].iter_mut().zip(row) {
                    *element = element.wrapping_add(*slot as u32) & mask;
                    *slot = u64::from(*element);
                }
                state[sum as usize] = state[slots.end - 1];
            }
            (RunKind::Add { sum }, None) => {
                // Reads do not change the sum, so it carries over from value to value.
                let mut last = state[sum as usize];
                for slot in &mut state[slots] {
                    last = last.wrapping_add(*slot) & mask(run.width.into());
                    *slot = last;
                }
                state[sum as usize] = last;
            }
        }
    }
}

/// What picks a packet's action from a group: the hash of the selector, or a random number.
#[cold]
fn hash_of(
    profile: &Profile,
    outcome: &Outcome,
    selected: Option<&List>,
    state: &[u64],
    buffer: &mut Vec<u8>,
    random: &mut Random,
) -> u64 {
    match (&profile.selector, outcome) {
        (Some(_), Outcome::Set(set)) if set.random => random.within(0, u64::MAX).unwrap_or(0),
        (Some(selector), Outcome::Group(_) | Outcome::Set(_)) => {
            let data = selected.map_or(&[][..], |list| gather(list, state, buffer));
            selector.digest(data)
        }
        _ => 0,
    }
}

fn extract_varbit(
    code: &Code,
    header: u32,
    bits: u64,
    state: &mut [u64],
    io: &mut Io<'_>,
) -> Result<(), u64> {
    let header = &code.headers[header as usize];
    let Some(varbit) = &header.varbit else { return Ok(()) };
    let errors = &code.errors;
    if !bits.is_multiple_of(8) {
        return Err(errors.invalid_argument);
    }
    let rest = &io.frame[io.at..];
    if bits / 8 + u64::from(varbit.fixed_bits / 8) > rest.len() as u64 {
        return Err(errors.packet_too_short);
    }
    if bits > u64::from(varbit.field.width) {
        return Err(errors.header_too_short);
    }
    header.layout.extract(rest, state);
    let mut at = header.layout.bits() as usize;
    let mut take = |slot: Slot, limbs: u32, width: usize| {
        let to = &mut state[slot as usize..(slot + limbs) as usize];
        get_bits(rest, at, width, to);
        at += width;
    };
    take(varbit.field.slot, varbit.field.width.div_ceil(64), bits as usize);
    for item in &varbit.rest {
        take(item.slot, item.width.div_ceil(64), item.width as usize);
    }
    state[varbit.length as usize] = bits;
    state[header.valid as usize] = 1;
    io.at += at / 8;
    Ok(())
}

/// Appends a header if it is valid.
#[inline]
fn emit(code: &Code, header: u32, state: &[u64], out: &mut Vec<u8>) {
    let header = &code.headers[header as usize];
    if state[header.valid as usize] == 0 {
        return;
    }
    let start = out.len();
    match &header.varbit {
        None => {
            out.resize(start + header.layout.bytes(), 0);
            header.layout.emit(state, &mut out[start..]);
        }
        Some(varbit) => {
            let bits = varbit_bits(varbit, state);
            out.resize(start + (varbit.fixed_bits as usize + bits).div_ceil(8), 0);
            let out = &mut out[start..];
            header.layout.emit(state, out);
            let mut at = header.layout.bits() as usize;
            put_bits(out, at, bits, &state[varbit.field.slot as usize..]);
            at += bits;
            for item in &varbit.rest {
                put_bits(out, at, item.width as usize, &state[item.slot as usize..]);
                at += item.width as usize;
            }
        }
    }
}

/// Size of a header in bytes.
fn header_bytes(header: &HeaderCode, state: &[u64]) -> u32 {
    match &header.varbit {
        None => header.layout.bytes() as u32,
        Some(varbit) => (varbit.fixed_bits + varbit_bits(varbit, state) as u32) / 8,
    }
}

/// Bits of a varbit field, at most its maximum.
fn varbit_bits(varbit: &Varbit, state: &[u64]) -> usize {
    state[varbit.length as usize].min(u64::from(varbit.field.width)) as usize
}
