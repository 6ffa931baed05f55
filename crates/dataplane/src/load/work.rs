//! Costs of packets: the work of each loop iteration.
//!
//! A packet has a budget of work for its loops, and [`Op::Tick`] subtracts an iteration's share.
//! The shares are computed here, once, so that neither the interpreter nor machine code counts
//! operations. A unit of work is about a nanosecond: a simple operation, or a word or a byte of a
//! larger one.

use tributary_p4::Architecture;

use super::{Context, Loader};
use crate::code::{Code, ExternOp, List, MOST_TICKS, MOST_TURNS, MOST_WORK, Op};
use crate::control_flow::target;
use crate::error::LoadError;
use crate::externs::checksum::most_bytes;
use crate::externs::hash::Algorithm;
use crate::externs::tna_hash::TnaHash;
use crate::store::Store;

/// Frame bytes that a checksum may cover.
const PAYLOAD: u64 = 9000;

/// Work of a lookup and of copying the arguments, without the key.
const LOOKUP: u64 = 32;

impl Loader<'_> {
    /// Compiles the tick of an iteration with the minimum work.
    pub(super) fn tick(&mut self) {
        let parser =
            self.context == Context::Parser || self.intrinsics.architecture() == Architecture::Tna;
        let turns = if parser { MOST_TICKS } else { MOST_TURNS };
        self.jump(Op::Tick(MOST_WORK / turns));
    }
}

/// Sets the work of each iteration. The code for observed packets gets the `known` work of the other code, so that
/// all packets have the same number of iterations.
///
/// # Errors
/// If a path through a block takes too much work before any loop iterates.
pub(super) fn set_ticks(
    code: &mut Code,
    store: &Store,
    known: Option<&[u32]>,
) -> Result<(), LoadError> {
    match known {
        None => {
            for (tick, work) in (Costs { code, store }).ticks()? {
                code.ops[tick] = Op::Tick(work);
            }
        }
        Some(known) => {
            let own = code.ops.iter_mut().filter(|op| matches!(op, Op::Tick(_)));
            own.zip(known).for_each(|(tick, work)| *tick = Op::Tick(*work));
        }
    }
    Ok(())
}

/// A program's operations, and what their costs depend on.
struct Costs<'c> {
    code: &'c Code,
    store: &'c Store,
}

impl Costs<'_> {
    /// The work of each iteration: that of the longest path to the next tick or to the end of the
    /// block.
    ///
    /// # Errors
    /// If a path through a block takes too much work before any loop iterates.
    fn ticks(&self) -> Result<Vec<(usize, u32)>, LoadError> {
        let longest = self.longest();
        if self.code.blocks.iter().any(|&entry| longest[entry as usize] > MOST_WORK.into()) {
            return Err(LoadError::Limit("the program's work for one packet".to_owned()));
        }
        let ticks = self.code.ops.iter().enumerate().filter_map(|(pc, op)| match *op {
            Op::Tick(least) => {
                // Any value above the limit has the same effect.
                let most = MOST_WORK + 1;
                let work = u32::try_from(longest[pc + 1]).map_or(most, |work| work.min(most));
                Some((pc, work.max(least)))
            }
            _ => None,
        });
        Ok(ticks.collect())
    }

    /// For each operation, the work from there to the next tick or to the end of the block.
    fn longest(&self) -> Vec<u64> {
        let ops = &self.code.ops;
        let mut longest: Vec<Option<u64>> = vec![None; ops.len()];
        // For each table, the longest of its actions.
        let mut actions: Vec<Option<u64>> = vec![None; self.code.tables.len()];
        let mut next = Vec::new();
        let mut open = Vec::new();
        // Most operations depend only on later ones.
        for pc in (0..ops.len()).rev() {
            open.push(pc);
            while let Some(&pc) = open.last() {
                next.clear();
                self.next(pc, &actions, &mut next);
                let before = open.len();
                if longest[pc].is_none() {
                    // Ticks break all cycles; zero as a preliminary value ends any other.
                    longest[pc] = Some(0);
                    open.extend(next.iter().filter(|&&to| longest[to].is_none()));
                }
                if open.len() == before {
                    open.pop();
                    let on = next.pop().map_or(0, |to| longest[to].unwrap_or(0));
                    let others = next.iter().map(|&to| longest[to].unwrap_or(0)).max();
                    let others = others.unwrap_or(0);
                    let ahead = match ops[pc] {
                        Op::Call(_) => others.saturating_add(on),
                        Op::Apply { table, .. } | Op::ApplyPicked { table } => {
                            actions[table as usize].get_or_insert(others).saturating_add(on)
                        }
                        _ => others.max(on),
                    };
                    longest[pc] = Some(ahead.saturating_add(self.of(&ops[pc])));
                }
            }
        }
        longest.into_iter().map(|work| work.unwrap_or(0)).collect()
    }

    /// The successors of an operation before the next tick, with the operation after it last.
    /// Actions of tables whose longest path is known are omitted.
    fn next(&self, pc: usize, known: &[Option<u64>], to: &mut Vec<usize>) {
        match self.code.ops[pc] {
            Op::Tick(_) | Op::Return | Op::Exit | Op::Fail { .. } => return,
            Op::Jump(target) => {
                to.push(target as usize);
                return;
            }
            Op::Apply { table, .. } | Op::ApplyPicked { table }
                if known[table as usize].is_none() =>
            {
                let actions = &self.code.tables[table as usize].actions;
                to.extend(actions.iter().map(|action| action.entry as usize));
            }
            Op::Call(target) => to.push(target as usize),
            ref op => to.extend(target(op).map(|target| target as usize)),
        }
        to.push(pc + 1);
    }

    /// The work of one operation.
    fn of(&self, op: &Op) -> u64 {
        let code = self.code;
        let header = |header: u32| 4 + u64::from(code.headers[header as usize].words);
        let register =
            |register: u32| 4 + u64::from(self.store.registers.registers[register as usize].words);
        match *op {
            Op::Copy { words, .. } => 1 + u64::from(words) / 4,
            Op::Wide(number) => code.wides[number as usize].work(),
            Op::Apply { table, .. } => {
                let selected = code.tables[table as usize].selected;
                LOOKUP
                    + self.store.tables[table as usize].work()
                    + selected.map_or(0, |l| self.list(l))
            }
            Op::ApplyPicked { .. } => LOOKUP,
            Op::Extract(number)
            | Op::ExtractVarbit { header: number, .. }
            | Op::Emit(number)
            | Op::SetValid(number)
            | Op::CopyHeader { from: number, .. } => header(number),
            Op::Lookahead(number) => 4 + code.lookaheads[number as usize].bytes() as u64,
            Op::LoadElement { element, .. } | Op::StoreElement { element, .. } => {
                4 + u64::from(code.elements[element as usize].words)
            }
            Op::RegisterRead { register: number, .. }
            | Op::CellRead { register: number, .. }
            | Op::RegisterWrite { register: number, .. } => register(number),
            Op::RegisterRun(number) => 4 + u64::from(code.runs[number as usize].count),
            Op::Extern(number) => self.extern_op(&code.externs[number as usize]),
            Op::Note(_) => 0,
            _ => 1,
        }
    }

    /// The work of concatenating a list of values.
    fn list(&self, list: u32) -> u64 {
        let list: &List = &self.code.lists[list as usize];
        4 + list.groups.len() as u64 + most_bytes(list) as u64
    }

    #[rustfmt::skip]
    fn extern_op(&self, op: &ExternOp) -> u64 {
        let digest = |algorithm: &Algorithm, list: u32, payload: bool| {
            let bytes = self.list(list) + if payload { PAYLOAD } else { 0 };
            bytes + bytes * match algorithm {
                Algorithm::Csum16 | Algorithm::Identity => 0,
                Algorithm::Crc16 | Algorithm::Crc32 | Algorithm::Xor16 => 2,
                Algorithm::Random => 4,
            }
        };
        match op {
            ExternOp::Hash { algorithm, list, .. } | ExternOp::DigestAdd { algorithm, list, .. } => {
                digest(algorithm, *list, false)
            }
            ExternOp::VerifyChecksum { algorithm, list, payload, .. }
            | ExternOp::UpdateChecksum { algorithm, list, payload, .. } => {
                digest(algorithm, *list, *payload)
            }
            ExternOp::Digest { algorithm, list, .. } => {
                self.list(*list) * match **algorithm {
                    TnaHash::Identity | TnaHash::Xor(_) => 2,
                    TnaHash::Crc(_) => 3,
                    TnaHash::Random => 32,
                }
            }
            // Conversion to decimal takes quadratic time.
            ExternOp::Log { message, values } => {
                let words = values.iter().map(|item| u64::from(item.width.div_ceil(64)));
                message.len() as u64 + words.map(|words| 4 * words * words).sum::<u64>()
            }
            ExternOp::ChecksumAdd { list, .. } => self.list(*list),
            ExternOp::ChecksumRest { .. } => PAYLOAD,
            ExternOp::Resubmit { list, .. } | ExternOp::Mirror { list, .. } => {
                list.map_or(4, |list| self.list(list))
            }
            ExternOp::Contains { set, keys, .. } => {
                let words: u64 = keys.iter().map(|item| u64::from(item.width.div_ceil(64))).sum();
                4 + words.saturating_mul(self.store.value_sets[*set as usize].size())
            }
            ExternOp::Pack { digest } => {
                let items = self.code.digests[*digest as usize].iter();
                4 + items.map(|item| u64::from(item.width.div_ceil(64))).sum::<u64>()
            }
            ExternOp::Random { .. }
            | ExternOp::MathUnit { .. }
            | ExternOp::Truncate { .. }
            | ExternOp::Assert { .. }
            | ExternOp::ChecksumGet { .. }
            | ExternOp::Consumed { .. }
            | ExternOp::CountAt { .. }
            | ExternOp::MeterAt { .. }
            | ExternOp::Filter { .. }
            | ExternOp::CellLoad { .. }
            | ExternOp::CellStore { .. }
            | ExternOp::Meter { .. }
            | ExternOp::Learn { .. } => 16,
        }
    }
}
