//! Turns the interpreter's steps into events.

use tributary_p4::ir::{FieldId, HeaderId, Program, TableId};

use super::{Choice, ChoiceOf, Event, Lookup, Note, Observer, Traced};
use crate::code::{Cell, Code, ExternOp, Op, Pc};
use crate::effects::written;
use crate::engine::{Engine, Runner};
use crate::exec::watch::Watch;
use crate::exec::{Flow, Io};
use crate::externs::checksum::gather;
use crate::externs::profile::Profile;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::store::Store;
use crate::tables::{ActionCall, Match, Outcome, Resolved, Table};
use crate::value::Value;

/// An engine whose packets are observed: it interprets the code with notes.
pub(crate) struct Observed<'p> {
    pub(crate) engine: &'p mut Engine,
    watcher: Watcher<'p>,
}

impl<'p> Observed<'p> {
    /// Observes a packet whose state is this one.
    pub(crate) fn new(
        engine: &'p mut Engine,
        program: &'p Program,
        traced: &'p Traced,
        observer: &'p mut dyn Observer,
        state: &[u64],
    ) -> Self {
        let watcher = Watcher {
            program,
            traced,
            observer,
            shadow: state[..traced.words.len()].to_vec(),
            at: 0,
            out: 0,
            index: 0,
            old: None,
            keys: Vec::new(),
            selector: Vec::new(),
            data: Vec::new(),
            hash: None,
            assumed: false,
        };
        Self { engine, watcher }
    }
}

impl Runner for Observed<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    fn run(&mut self, entry: Pc, state: &mut [u64], io: &mut Io<'_>) -> Flow {
        let Self { engine, watcher } = self;
        let traced = watcher.traced;
        let block = traced.block(&engine.code, entry).expect("passes start at blocks only");
        // What the architecture has set since the last block.
        watcher.changes(state);
        let (role, name) = traced.blocks[block].clone();
        watcher.observer.event(Event::Block { role, name });
        let entry = traced.code.blocks[block];
        let flow = engine.store.interpret::<false, _>(&traced.code, entry, state, io, watcher);
        watcher.changes(state);
        let error = match flow {
            Flow::Error(error) => Some(error),
            Flow::Done | Flow::Next => None,
        };
        watcher.observer.event(Event::BlockEnd { error });
        flow
    }
}

struct Watcher<'p> {
    program: &'p Program,
    traced: &'p Traced,
    observer: &'p mut dyn Observer,
    /// The live words, as of the last event.
    shadow: Vec<u64>,
    /// Position in the frame, and length of the outgoing frame, before the operation.
    at: usize,
    out: usize,
    /// Index of an array, a cell's value, keys and data before the operation.
    index: u64,
    old: Option<Value>,
    keys: Vec<Value>,
    selector: Vec<Value>,
    data: Vec<u8>,
    /// The hash of the current lookup.
    hash: Option<u64>,
    assumed: bool,
}

fn value(item: Item, state: &[u64]) -> Value {
    let first = item.slot as usize;
    Value::from_limbs(&state[first..first + item.width.div_ceil(64) as usize])
}

impl Watcher<'_> {
    fn field(&self, field: FieldId, state: &[u64]) -> Value {
        value(self.traced.fields[field.index()], state)
    }

    /// Reports all words that have changed.
    fn changes(&mut self, state: &[u64]) {
        self.writes(state, |_| false);
    }

    /// Reports the fields that have changed, and those with a word that `assigned` names.
    fn writes(&mut self, state: &[u64], assigned: impl Fn(Slot) -> bool) {
        let mut at = 0;
        while at < self.shadow.len() {
            if self.shadow[at] == state[at] && !assigned(at as Slot) {
                at += 1;
                continue;
            }
            let Some(field) = self.traced.words[at] else {
                self.request(at, state);
                self.shadow[at] = state[at];
                at += 1;
                continue;
            };
            let item = self.traced.fields[field.index()];
            let words = item.slot as usize..item.slot as usize + item.width.div_ceil(64) as usize;
            let (before, after) = (value(item, &self.shadow), value(item, state));
            self.observer.event(Event::Write { field, before, after });
            self.shadow[words.clone()].copy_from_slice(&state[words.clone()]);
            at = words.end;
        }
    }

    /// Reports a request of the program, which is stored as a number plus one.
    fn request(&mut self, at: usize, state: &[u64]) {
        let known = self.traced.requests.iter().find(|(slot, _)| *slot as usize == at);
        if let Some(&(_, what)) = known {
            self.observer.event(Event::Request { what, value: state[at].checked_sub(1) });
        }
    }

    fn table(&self, table: u32, found: &Resolved) -> ActionCall {
        let widths = &self.traced.params[table as usize][found.action as usize];
        let mut data = &found.data[..];
        let arg = |width: &u32| {
            let (arg, rest) = data.split_at(width.div_ceil(64) as usize);
            data = rest;
            Value::from_limbs(arg)
        };
        ActionCall { action: found.action, args: widths.iter().map(arg).collect() }
    }

    fn choose(
        &mut self,
        table: u32,
        of: ChoiceOf,
        outcomes: Vec<(Option<ActionCall>, bool)>,
        actual: usize,
    ) -> usize {
        let most = outcomes.len().saturating_sub(1);
        let choice = Choice { table: TableId(table), of, outcomes, actual };
        self.observer.choose(&choice).min(most)
    }

    fn before_extern(&mut self, code: &Code, op: &ExternOp, state: &[u64]) {
        let list = match op {
            ExternOp::Hash { list, .. }
            | ExternOp::VerifyChecksum { list, .. }
            | ExternOp::UpdateChecksum { list, .. }
            | ExternOp::Digest { list, .. }
            | ExternOp::DigestAdd { list, .. }
            | ExternOp::ChecksumAdd { list, .. } => Some(*list),
            ExternOp::Mirror { list, .. } => *list,
            _ => None,
        };
        self.data.clear();
        if let Some(list) = list {
            gather(&code.lists[list as usize], state, &mut self.data);
        }
        match op {
            ExternOp::Meter { index, .. }
            | ExternOp::CountAt { at: Cell::Array { index, .. }, .. }
            | ExternOp::MeterAt { at: Cell::Array { index, .. }, .. }
            | ExternOp::Filter { value: index, .. } => self.index = state[*index as usize],
            ExternOp::Contains { keys, .. } => {
                self.keys = keys.iter().map(|key| value(*key, state)).collect();
            }
            ExternOp::Assert { condition, .. } => {
                let holds = state[*condition as usize] != 0;
                self.observer.event(Event::Assert { holds });
            }
            ExternOp::VerifyChecksum { condition, valid, .. } => {
                let present = *valid == NO_SLOT || state[*valid as usize] != 0;
                self.index = u64::from(present && state[*condition as usize] != 0);
            }
            ExternOp::UpdateChecksum { condition, .. } => self.index = state[*condition as usize],
            _ => {}
        }
    }

    fn extern_event(
        &self,
        store: &Store,
        code: &Code,
        op: &ExternOp,
        state: &[u64],
        io: &Io<'_>,
    ) -> Option<Event> {
        let at = |slot: Slot| state[slot as usize];
        let data = || self.data.clone();
        Some(match op {
            ExternOp::Hash { dst, .. }
            | ExternOp::Digest { dst, .. }
            | ExternOp::DigestAdd { digest: dst, .. } => {
                Event::Hash { data: data(), value: at(*dst) }
            }
            ExternOp::VerifyChecksum { checksum, algorithm, payload, .. } => {
                let tail = if *payload { io.payload } else { &[] };
                let (value, active) = (algorithm.digest(&self.data, tail), self.index != 0);
                let correct = active.then(|| value == at(*checksum));
                let payload = tail.len();
                Event::Checksum { verify: true, active, data: data(), payload, value, correct }
            }
            ExternOp::UpdateChecksum { algorithm, width, payload, .. } => {
                let tail = if *payload { io.payload } else { &[] };
                let value = algorithm.digest(&self.data, tail) & crate::bits::mask(*width);
                let (active, payload, correct) = (self.index != 0, tail.len(), None);
                Event::Checksum { verify: false, active, data: data(), payload, value, correct }
            }
            ExternOp::ChecksumAdd { sum, .. } => {
                let value = !at(*sum) & 0xffff;
                let (active, payload, correct) = (true, 0, None);
                Event::Checksum { verify: false, active, data: data(), payload, value, correct }
            }
            ExternOp::Random { dst, .. } => Event::Random { value: at(*dst) },
            ExternOp::Meter { dst, meter, .. } => self.metered(store, *meter, at(*dst)),
            ExternOp::Contains { dst, set, .. } => {
                let (keys, found) = (self.keys.clone(), at(*dst) != 0);
                Event::ValueSet { set: *set, keys, found }
            }
            ExternOp::CountAt { at: Cell::Array { number, .. }, .. } => {
                self.counted(store, *number)
            }
            ExternOp::CountAt { at: Cell::Entry { table }, .. } => {
                Event::CountDirect { table: TableId(*table) }
            }
            ExternOp::MeterAt { dst, at: place, colors, .. } => {
                let color = colors.iter().position(|&color| u64::from(color) == at(*dst));
                let color = color.unwrap_or(0) as u64;
                match *place {
                    Cell::Array { number, .. } => self.metered(store, number, color),
                    Cell::Entry { table } => Event::MeterDirect { table: TableId(table), color },
                }
            }
            ExternOp::Filter { dst, drops, .. } => {
                let drops = drops.map(|[drop, _]| at(*dst) == u64::from(drop));
                Event::Filter { input: self.index, value: at(*dst), drops }
            }
            ExternOp::CellStore { table, cells } => Event::CellStore {
                table: TableId(*table),
                values: cells.iter().map(|item| value(*item, state)).collect(),
            },
            ExternOp::Log { message, values } => Event::Log {
                message: message.clone(),
                values: values.iter().map(|item| value(*item, state)).collect(),
            },
            ExternOp::Resubmit { data, .. } => Event::Resubmit { data: at(*data).to_be_bytes() },
            ExternOp::Mirror { session, .. } => {
                Event::Mirror { session: at(*session), header: data() }
            }
            ExternOp::Pack { digest } => {
                let items = &code.digests[*digest as usize];
                let values = items.iter().map(|item| value(*item, state)).collect();
                Event::Pack { digest: *digest, values }
            }
            ExternOp::CellLoad { .. }
            | ExternOp::MathUnit { .. }
            | ExternOp::Truncate { .. }
            | ExternOp::Assert { .. }
            | ExternOp::ChecksumGet { .. }
            | ExternOp::ChecksumRest { .. }
            | ExternOp::Consumed { .. }
            | ExternOp::Learn { .. } => return None,
        })
    }

    /// A counter has counted at the index.
    fn counted(&self, store: &Store, counter: u32) -> Event {
        let cells = &store.counters[counter as usize].cells;
        let count = usize::try_from(self.index).ok().and_then(|i| cells.get(i)).copied();
        Event::Count { counter: self.traced.counters[counter as usize], index: self.index, count }
    }

    /// A meter has returned this colour, if it has the index.
    fn metered(&self, store: &Store, meter: u32, color: u64) -> Event {
        let size = store.meters[meter as usize].cells.len();
        let color = usize::try_from(self.index).is_ok_and(|i| i < size).then_some(color);
        Event::Meter { meter: self.traced.meters[meter as usize], index: self.index, color }
    }

    /// The element of one of the engine's registers.
    fn element(store: &Store, register: u32, index: u64) -> Option<Value> {
        let width = store.registers.registers[register as usize].width;
        let mut limbs = vec![0; width.div_ceil(64) as usize];
        store.registers.read(register, index, &mut limbs).then(|| Value::from_limbs(&limbs))
    }
}

impl Watch for Watcher<'_> {
    const ON: bool = true;

    fn before(&mut self, store: &mut Store, code: &Code, op: &Op, state: &[u64], io: &Io<'_>) {
        (self.at, self.out) = (io.at, io.out.len());
        match *op {
            Op::RegisterRead { index, .. }
            | Op::CellRead { index, .. }
            | Op::Count { index, .. } => {
                self.index = state[index as usize];
            }
            Op::RegisterWrite { register, index, .. } => {
                self.index = state[index as usize];
                self.old = Self::element(store, register, self.index);
            }
            Op::Apply { table, .. } => {
                let table = &code.tables[table as usize];
                self.keys = table.keys.iter().map(|key| value(*key, state)).collect();
                let list = table.selected.map(|list| &code.lists[list as usize]);
                let groups = list.into_iter().flat_map(|list| &list.groups);
                let items = groups.flat_map(|group| &group.items);
                self.selector = items.map(|key| value(*key, state)).collect();
                self.hash = None;
            }
            Op::Extern(number) => self.before_extern(code, &code.externs[number as usize], state),
            _ => {}
        }
    }

    fn after(&mut self, store: &Store, code: &Code, op: &Op, state: &[u64], io: &Io<'_>) {
        let index = self.index;
        let event = match *op {
            Op::Extract(header) | Op::ExtractVarbit { header, .. } => Some(Event::Extract {
                header: HeaderId(header),
                offset: self.at,
                bytes: io.frame[self.at..io.at].to_vec(),
            }),
            Op::Lookahead(number) => {
                let end = self.at + code.lookaheads[number as usize].bytes();
                let bytes = io.frame[self.at..end].to_vec();
                Some(Event::Lookahead { offset: self.at, bytes })
            }
            Op::Advance { .. } => Some(Event::Advance { bytes: io.at - self.at }),
            Op::Emit(header) => {
                let valid = state[code.headers[header as usize].valid as usize] != 0;
                let bytes = valid.then(|| io.out[self.out..].to_vec());
                Some(Event::Emit { header: HeaderId(header), bytes })
            }
            Op::RegisterRead { register, .. } | Op::CellRead { register, .. } => {
                let value = Self::element(store, register, index);
                let (register, scalar) = self.traced.registers[register as usize];
                Some(Event::RegisterRead { register, scalar, index, value })
            }
            Op::RegisterWrite { register, .. } => {
                let (before, after) = (self.old.take(), Self::element(store, register, index));
                let (register, scalar) = self.traced.registers[register as usize];
                Some(Event::RegisterWrite { register, scalar, index, before, after })
            }
            Op::Count { counter, .. } => Some(self.counted(store, counter)),
            Op::Extern(number) => {
                self.extern_event(store, code, &code.externs[number as usize], state, io)
            }
            _ => None,
        };
        if let Some(event) = event {
            self.observer.event(event);
        }
        // Of an assignment, the value is of interest even if it is the same as before.
        let mut assigned = Vec::new();
        match op {
            Op::Apply { .. }
            | Op::ApplyPicked { .. }
            | Op::StoreElement { .. }
            | Op::CopyHeader { .. }
            | Op::SetValid(_)
            | Op::SetInvalid(_)
            | Op::Extern(_) => {}
            op => written(code, &store.registers, op, |slot, count| assigned.push((slot, count))),
        }
        self.writes(state, |slot| {
            assigned.iter().any(|&(first, count)| (first..first + count).contains(&slot))
        });
    }

    fn note(&mut self, number: u32, state: &[u64]) {
        let event = match &self.traced.notes[number as usize] {
            Note::Event(event) => event.clone(),
            Note::Transition { parser, state: from, on, case, target } => Event::Transition {
                parser: *parser,
                state: *from,
                on: on.iter().map(|item| value(*item, state)).collect(),
                case: *case,
                target: *target,
            },
            Note::Condition { branch, text, reads, holds } => Event::Condition {
                branch: *branch,
                text: text.clone(),
                reads: reads.iter().map(|&field| (field, self.field(field, state))).collect(),
                holds: *holds,
            },
            Note::Switch { branch, text, on, case, label } => Event::Switch {
                branch: *branch,
                text: text.clone(),
                on: value(*on, state),
                case: *case,
                label: label.clone(),
            },
            Note::Action(action) => {
                let params = &self.program.actions[action.index()].params;
                let params = params.iter().map(|&field| (field, self.field(field, state)));
                Event::Action { action: *action, params: params.collect() }
            }
        };
        self.observer.event(event);
    }

    fn assume(&mut self, table: u32, of: &Table) -> Option<(Outcome, bool)> {
        self.assumed = self.observer.is_unknown(TableId(table));
        if !self.assumed {
            return None;
        }
        let traced = self.traced;
        let zeros = |&width: &u32| width.div_ceil(64) as usize;
        let mut outcomes = Vec::new();
        for (params, action) in traced.params[table as usize].iter().zip(0..) {
            if traced.for_entries[table as usize][action as usize] {
                let data = vec![0; params.iter().map(zeros).sum()].into();
                outcomes.push((Outcome::Direct(Resolved { action, data }), true));
            }
        }
        outcomes.push((of.outcome_of(Match::Miss).clone(), false));
        let calls = outcomes.iter().map(|(outcome, hit)| match outcome {
            Outcome::Direct(found) => (Some(self.table(table, found)), *hit),
            _ => (None, *hit),
        });
        let calls: Vec<_> = calls.collect();
        let actual = calls.len() - 1;
        let picked = self.choose(table, ChoiceOf::Entries, calls, actual);
        Some(outcomes.swap_remove(picked))
    }

    fn pick(&mut self, table: u32, profile: &Profile, outcome: &Outcome, hash: u64) -> u64 {
        let options = profile.options(outcome);
        if options.is_empty() {
            return hash;
        }
        self.hash = Some(hash);
        let call = |&hash: &u64| {
            (profile.choose(outcome, hash).map(|found| self.table(table, found)), true)
        };
        let calls = options.iter().map(call).collect();
        let actual = profile.choose(outcome, hash);
        let actual = options.iter().position(|&at| profile.choose(outcome, at) == actual);
        let actual = actual.unwrap_or(0);
        match self.choose(table, ChoiceOf::Members, calls, actual) {
            picked if picked == actual => hash,
            picked => options[picked],
        }
    }

    fn applied(
        &mut self,
        table: u32,
        of: &Table,
        matched: Match,
        outcome: &Outcome,
        found: Option<&Resolved>,
    ) {
        let lookup = match (matched, self.assumed) {
            (Match::Entry(number), _) => {
                of.entry_at(number).map_or(Lookup::Miss, |entry| Lookup::Entry(entry.clone()))
            }
            (Match::Assumed, _) => Lookup::AssumedEntry,
            (Match::Miss, true) => Lookup::AssumedMiss,
            (Match::Miss, false) => Lookup::Miss,
        };
        let action = found.map(|found| self.table(table, found));
        let group_action = outcome.group_action().map(|first| self.table(table, first));
        let (keys, selector) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.selector));
        let (table, hash) = (TableId(table), self.hash);
        self.observer.event(Event::Apply {
            table,
            keys,
            selector,
            lookup,
            group_action,
            action,
            hash,
        });
    }
}
