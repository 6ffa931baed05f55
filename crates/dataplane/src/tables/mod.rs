//! Match-action tables: entries as the control plane sees them, and what packets are matched with.

mod hashed;
mod matcher;
mod scan;

use std::collections::HashMap;

use tributary_p4::ir::{self, MatchKind};

use self::matcher::{Matcher, Words};
use crate::code::TableCode;
use crate::error::{LoadError, TableError};
use crate::externs::counter::CounterData;
use crate::value::Value;

/// What one key of an entry matches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KeyMatch {
    /// Equal.
    Exact(Value),
    /// The highest `prefix_len` bits are equal. The value's other bits must be zero.
    Lpm {
        /// Value.
        value: Value,
        /// Bits of the prefix, 0 up to the key's width.
        prefix_len: u32,
    },
    /// Equal under a mask. The value's bits outside the mask must be zero.
    Ternary {
        /// Value.
        value: Value,
        /// Bits that count.
        mask: Value,
    },
    /// Within bounds, both included.
    Range {
        /// Least value that matches.
        low: Value,
        /// Greatest value that matches.
        high: Value,
    },
    /// Equal, or anything.
    Optional(Option<Value>),
}

/// An action with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionCall {
    /// Index into the table's list of actions ([`tributary_p4::ir::Table::actions`]).
    pub action: u32,
    /// One value for each of the action's run-time parameters, in order.
    pub args: Vec<Value>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// One match a key, in the order of the keys; a key left out in P4Runtime is written here as
    /// a match of anything (prefix length 0, mask 0, full range, `Optional(None)`).
    pub matches: Vec<KeyMatch>,
    /// Larger wins; at least 1 in a table with a ternary, range or optional key, otherwise 0.
    pub priority: i32,
    /// What happens on a match.
    pub call: ActionCall,
}

/// A key: its width in bits and how it is matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyShape {
    pub(crate) width: u32,
    pub(crate) kind: MatchKind,
}

/// An action that a table offers.
#[derive(Clone, Debug)]
struct ActionShape {
    /// Widths of its run-time parameters.
    params: Vec<u32>,
    table_only: bool,
    default_only: bool,
}

/// An action as a packet meets it.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Index into the table's actions.
    pub(crate) action: u32,
    /// The arguments' words, one argument after the other.
    pub(crate) data: Box<[u64]>,
}

/// An entry with what packets leave at it.
#[derive(Clone, Debug)]
struct Stored {
    entry: TableEntry,
    resolved: Resolved,
    counter: CounterData,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    keys: Vec<KeyShape>,
    actions: Vec<ActionShape>,
    /// At most so many entries.
    size: u64,
    const_entries: bool,
    const_default: bool,
    prioritised: bool,
    pub(crate) has_counter: bool,
    /// Each packet that meets an entry is counted there; otherwise those that an action counts.
    pub(crate) counts_itself: bool,
    /// The entry that matched last, where it may be counted at.
    last: Option<u32>,
    /// Entries by number; freed numbers are used again.
    stored: Vec<Option<Stored>>,
    free: Vec<u32>,
    /// Numbers by key and priority.
    numbers: HashMap<(Vec<KeyMatch>, i32), u32>,
    matcher: Matcher,
    /// Words of the keys as they are matched.
    words: usize,
    default: ActionCall,
    resolved_default: Resolved,
    program_default: ActionCall,
}

/// Entries of a table whose program states no size; BMv2's number.
const DEFAULT_SIZE: u64 = 1024;

impl Table {
    /// Sets a table up with the program's entries.
    pub(crate) fn new(program: &ir::Program, table: &ir::Table) -> Result<Self, LoadError> {
        let keys: Vec<KeyShape> = table
            .keys
            .iter()
            .map(|key| KeyShape { width: key.value.ty.width, kind: key.kind })
            .collect();
        let refuse = |reason: &str| {
            Err(LoadError::Table { name: table.name.clone(), reason: reason.to_owned() })
        };
        if keys.iter().any(|key| key.kind == MatchKind::Selector) {
            return refuse("action selectors are not supported");
        }
        let prioritised = keys.iter().any(|key| {
            matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
        });
        if !prioritised && keys.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            return refuse("more than one lpm key");
        }
        let actions = table
            .actions
            .iter()
            .map(|action| ActionShape {
                params: program.actions[action.action.index()]
                    .params
                    .iter()
                    .map(|param| program.fields[param.index()].ty.width)
                    .collect(),
                table_only: action.table_only,
                default_only: action.default_only,
            })
            .collect();
        let size = if table.size == 0 { DEFAULT_SIZE } else { table.size };
        let default = call(&table.default_action);
        let mut new = Self {
            matcher: Matcher::new(&keys),
            words: Words::new(&keys).count(),
            keys,
            actions,
            size: size.max(table.entries.len() as u64),
            const_entries: table.const_entries,
            const_default: table.const_default,
            prioritised,
            has_counter: false,
            counts_itself: false,
            last: None,
            stored: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::new(),
            resolved_default: Resolved { action: 0, data: Box::default() },
            program_default: default.clone(),
            default: default.clone(),
        };
        let failed = |index: usize, error: TableError| LoadError::Entry {
            name: table.name.clone(),
            index,
            error,
        };
        new.resolved_default = new.resolve(&default).map_err(|error| failed(0, error))?;
        for (index, entry) in table.entries.iter().enumerate() {
            let priority = if prioritised { (table.entries.len() - index) as i32 } else { 0 };
            new.program_entry(entry, priority).map_err(|error| failed(index, error))?;
        }
        Ok(new)
    }

    fn program_entry(&mut self, entry: &ir::Entry, priority: i32) -> Result<(), TableError> {
        if entry.keys.len() != self.keys.len() {
            return Err(TableError::KeyCount { expected: self.keys.len(), got: entry.keys.len() });
        }
        let matches = entry
            .keys
            .iter()
            .zip(&self.keys)
            .enumerate()
            .map(|(i, (keyset, shape))| program_match(i, keyset, *shape))
            .collect::<Result<_, _>>()?;
        self.add(TableEntry { matches, priority, call: call(&entry.call) })
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, entry: TableEntry) -> Result<(), TableError> {
        self.changeable()?;
        self.add(entry)
    }

    fn add(&mut self, entry: TableEntry) -> Result<(), TableError> {
        self.check_key(&entry.matches, entry.priority)?;
        self.check_scope(&entry.call, false)?;
        let resolved = self.resolve(&entry.call)?;
        let key = (entry.matches.clone(), entry.priority);
        if self.numbers.contains_key(&key) {
            return Err(TableError::AlreadyExists);
        }
        if self.numbers.len() as u64 >= self.size {
            return Err(TableError::Full(self.size));
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.stored.push(None);
            self.stored.len() as u32 - 1
        });
        self.matcher.insert(&self.keys, &entry.matches, entry.priority, number);
        self.stored[number as usize] =
            Some(Stored { entry, resolved, counter: CounterData::default() });
        self.numbers.insert(key, number);
        Ok(())
    }

    /// Gives an entry another action.
    pub(crate) fn modify(&mut self, entry: TableEntry) -> Result<(), TableError> {
        self.changeable()?;
        self.check_scope(&entry.call, false)?;
        let resolved = self.resolve(&entry.call)?;
        let number = self.number(&entry.matches, entry.priority)?;
        let stored = self.stored[number as usize].as_mut().ok_or(TableError::NotFound)?;
        stored.entry = entry;
        stored.resolved = resolved;
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn delete(&mut self, matches: &[KeyMatch], priority: i32) -> Result<(), TableError> {
        self.changeable()?;
        let number = self.number(matches, priority)?;
        self.matcher.remove(&self.keys, matches, number);
        self.numbers.remove(&(matches.to_vec(), priority));
        self.stored[number as usize] = None;
        self.free.push(number);
        Ok(())
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.stored.iter().flatten().map(|stored| &stored.entry)
    }

    /// The entry with that key and priority.
    pub(crate) fn entry(
        &self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<&TableEntry, TableError> {
        let number = self.number(matches, priority)?;
        Ok(&self.stored[number as usize].as_ref().ok_or(TableError::NotFound)?.entry)
    }

    /// The direct counter of the entry with that key and priority.
    pub(crate) fn counter(
        &mut self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<&mut CounterData, TableError> {
        let number = self.number(matches, priority)?;
        let stored = self.stored[number as usize].as_mut().ok_or(TableError::NotFound)?;
        Ok(&mut stored.counter)
    }

    /// The direct counter of the entry with that key and priority, to read.
    pub(crate) fn counter_value(
        &self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<CounterData, TableError> {
        let number = self.number(matches, priority)?;
        Ok(self.stored[number as usize].as_ref().ok_or(TableError::NotFound)?.counter)
    }

    /// Sets the default action; none stands for the program's.
    pub(crate) fn set_default(&mut self, call: Option<ActionCall>) -> Result<(), TableError> {
        if self.const_default {
            return Err(TableError::Constant("the default action"));
        }
        let call = call.unwrap_or_else(|| self.program_default.clone());
        self.check_scope(&call, true)?;
        self.resolved_default = self.resolve(&call)?;
        self.default = call;
        Ok(())
    }

    /// The default action.
    pub(crate) fn default_action(&self) -> &ActionCall {
        &self.default
    }

    /// What happens to a packet: the action, and whether an entry matched. Counts at the entry.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        code: &TableCode,
        state: &[u64],
        scratch: &mut [u64],
        bytes: u32,
    ) -> (&Resolved, bool) {
        let number = self.matcher.find(&code.keys, state, &mut scratch[..self.words]);
        match number.and_then(|number| self.stored[number as usize].as_mut()) {
            Some(stored) => {
                if self.has_counter {
                    if self.counts_itself {
                        stored.counter.count(bytes);
                    } else {
                        self.last = number;
                    }
                }
                (&stored.resolved, true)
            }
            None => {
                if self.has_counter {
                    self.last = None;
                }
                (&self.resolved_default, false)
            }
        }
    }

    /// Counts a packet at the entry that matched last, if one did.
    pub(crate) fn count_last(&mut self, bytes: u32) {
        let entry = self.last.and_then(|number| self.stored[number as usize].as_mut());
        if let Some(stored) = entry {
            stored.counter.count(bytes);
        }
    }

    /// Words that [`Self::apply`] needs as working space.
    pub(crate) fn scratch_words(&self) -> usize {
        self.words
    }

    fn changeable(&self) -> Result<(), TableError> {
        if self.const_entries { Err(TableError::Constant("the entries")) } else { Ok(()) }
    }

    fn number(&self, matches: &[KeyMatch], priority: i32) -> Result<u32, TableError> {
        self.check_key(matches, priority)?;
        self.numbers.get(&(matches.to_vec(), priority)).copied().ok_or(TableError::NotFound)
    }

    fn check_key(&self, matches: &[KeyMatch], priority: i32) -> Result<(), TableError> {
        if matches.len() != self.keys.len() {
            return Err(TableError::KeyCount { expected: self.keys.len(), got: matches.len() });
        }
        for (key, (found, shape)) in matches.iter().zip(&self.keys).enumerate() {
            check_match(key, found, *shape)?;
        }
        match (self.prioritised, priority) {
            (true, ..=0) => Err(TableError::Priority("the entry needs a priority of 1 or more")),
            (true, _) | (false, 0) => Ok(()),
            (false, _) => {
                Err(TableError::Priority("entries of this table have no priority: it must be 0"))
            }
        }
    }

    fn check_scope(&self, call: &ActionCall, as_default: bool) -> Result<(), TableError> {
        let action =
            self.actions.get(call.action as usize).ok_or(TableError::UnknownAction(call.action))?;
        if as_default && action.table_only {
            Err(TableError::ActionScope("in entries only"))
        } else if !as_default && action.default_only {
            Err(TableError::ActionScope("as the default action only"))
        } else {
            Ok(())
        }
    }

    fn resolve(&self, call: &ActionCall) -> Result<Resolved, TableError> {
        let params = &self
            .actions
            .get(call.action as usize)
            .ok_or(TableError::UnknownAction(call.action))?
            .params;
        if params.len() != call.args.len() {
            return Err(TableError::ArgCount { expected: params.len(), got: call.args.len() });
        }
        let mut data = Vec::new();
        for (arg, (value, &width)) in call.args.iter().zip(params).enumerate() {
            if !value.fits(width) {
                return Err(TableError::ArgWidth { arg, width });
            }
            data.extend(value.limbs(width.div_ceil(64) as usize));
        }
        Ok(Resolved { action: call.action, data: data.into() })
    }
}

fn call(call: &ir::ActionCall) -> ActionCall {
    ActionCall {
        action: call.action,
        args: call.args.iter().map(|limbs| Value::from_limbs(limbs)).collect(),
    }
}

/// A key of an entry in the program, as a match of the key's kind.
fn program_match(key: usize, keyset: &ir::Keyset, shape: KeyShape) -> Result<KeyMatch, TableError> {
    use ir::Keyset;
    let value = |limbs: &[u64]| Value::from_limbs(limbs);
    let ones = || Value::ones(shape.width);
    let bad = |reason| TableError::BadMatch { key, reason };
    Ok(match (shape.kind, keyset) {
        (MatchKind::Exact, Keyset::Value(v)) => KeyMatch::Exact(value(v)),
        (MatchKind::Lpm, Keyset::Any) => KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        (MatchKind::Lpm, Keyset::Value(v)) => {
            KeyMatch::Lpm { value: value(v), prefix_len: shape.width }
        }
        (MatchKind::Lpm, Keyset::Prefix { value: v, len }) => {
            KeyMatch::Lpm { value: value(v), prefix_len: *len }
        }
        (MatchKind::Lpm, Keyset::Masked { value: v, mask }) => {
            let mask = value(mask);
            let prefix_len = (0..=shape.width)
                .find(|&len| prefix_mask(shape.width, len) == mask)
                .ok_or(bad("the mask of an lpm key must be a prefix"))?;
            KeyMatch::Lpm { value: and(&value(v), &mask), prefix_len }
        }
        (MatchKind::Ternary, Keyset::Any) => {
            KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() }
        }
        (MatchKind::Ternary, Keyset::Value(v)) => {
            KeyMatch::Ternary { value: value(v), mask: ones() }
        }
        (MatchKind::Ternary, Keyset::Masked { value: v, mask }) => {
            let mask = value(mask);
            KeyMatch::Ternary { value: and(&value(v), &mask), mask }
        }
        (MatchKind::Range, Keyset::Any) => KeyMatch::Range { low: Value::zero(), high: ones() },
        (MatchKind::Range, Keyset::Value(v)) => KeyMatch::Range { low: value(v), high: value(v) },
        (MatchKind::Range, Keyset::Range { low, high }) => {
            KeyMatch::Range { low: value(low), high: value(high) }
        }
        (MatchKind::Optional, Keyset::Any) => KeyMatch::Optional(None),
        (MatchKind::Optional, Keyset::Value(v)) => KeyMatch::Optional(Some(value(v))),
        _ => return Err(TableError::MatchKind(key)),
    })
}

fn check_match(key: usize, found: &KeyMatch, shape: KeyShape) -> Result<(), TableError> {
    let width = shape.width;
    let fits = |value: &Value| {
        if value.fits(width) { Ok(()) } else { Err(TableError::KeyWidth { key, width }) }
    };
    let bad = |reason| Err(TableError::BadMatch { key, reason });
    match (shape.kind, found) {
        (MatchKind::Exact, KeyMatch::Exact(value)) => fits(value),
        (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
            fits(value)?;
            if *prefix_len > width {
                bad("the prefix is longer than the key")
            } else if and(value, &prefix_mask(width, *prefix_len)) != *value {
                bad("the value has bits outside the prefix")
            } else {
                Ok(())
            }
        }
        (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
            fits(value)?;
            fits(mask)?;
            if and(value, mask) == *value {
                Ok(())
            } else {
                bad("the value has bits outside the mask")
            }
        }
        (MatchKind::Range, KeyMatch::Range { low, high }) => {
            fits(low)?;
            fits(high)?;
            if low <= high { Ok(()) } else { bad("the range is empty") }
        }
        (MatchKind::Optional, KeyMatch::Optional(value)) => value.as_ref().map_or(Ok(()), fits),
        _ => Err(TableError::MatchKind(key)),
    }
}

/// The mask of a prefix.
fn prefix_mask(width: u32, len: u32) -> Value {
    let (ones, low) = (Value::ones(width), Value::ones(width - len.min(width)));
    let limbs = width.div_ceil(64) as usize;
    let mask: Vec<u64> = ones.limbs(limbs).zip(low.limbs(limbs)).map(|(a, b)| a & !b).collect();
    Value::from_limbs(&mask)
}

fn and(a: &Value, b: &Value) -> Value {
    let limbs = a.bits().div_ceil(64) as usize;
    let both: Vec<u64> = a.limbs(limbs).zip(b.limbs(limbs)).map(|(a, b)| a & b).collect();
    Value::from_limbs(&both)
}
