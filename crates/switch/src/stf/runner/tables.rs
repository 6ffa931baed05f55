//! Entries and default actions.

use tributary_dataplane::{ActionCall, KeyMatch, TableEntry, Value};
use tributary_p4::ir::{self, MatchKind, TableId};

use super::{EntryId, Run, names};
use crate::stf::error::{Failure, Place};
use crate::stf::script::{EntryKey, Match, Name, Target};

impl Run<'_> {
    pub(super) fn add(&mut self, entry: &EntryKey, target: &Target) -> Result<EntryId, Failure> {
        let id = self.entry_id(entry)?;
        let call = self.call(id.table, target)?;
        let new = TableEntry::new(id.matches.clone(), id.priority, call);
        let inserted = self.pipeline_mut().insert(id.table, new);
        inserted.map_err(|error| self.refused(&entry.table, id.table, &error))?;
        Ok(id)
    }

    pub(super) fn remove(&mut self, entry: &EntryKey) -> Result<(), Failure> {
        let id = self.entry_id(entry)?;
        let deleted = self.pipeline_mut().delete(id.table, &id.matches, id.priority);
        deleted.map_err(|error| self.refused(&entry.table, id.table, &error))
    }

    /// Removes all entries except those that the program declares constant.
    pub(super) fn remove_all(&mut self, place: Place) -> Result<(), Failure> {
        let tables = self.program().tables.iter().enumerate();
        let changeable = tables.filter(|(_, table)| !table.const_entries);
        let ids: Vec<TableId> = changeable.map(|(at, _)| TableId(at as u32)).collect();
        for id in ids {
            for entry in self.entries(id) {
                let deleted = self.pipeline_mut().delete(id, &entry.matches, entry.priority);
                deleted.map_err(|error| place.failure(error))?;
            }
        }
        Ok(())
    }

    pub(super) fn entries(&self, table: TableId) -> Vec<EntryId> {
        let entries = self.pipeline().entries(table);
        let id = |entry: &TableEntry| EntryId {
            table,
            matches: entry.matches.clone(),
            priority: entry.priority,
        };
        entries.map(id).collect()
    }

    pub(super) fn set_default(&mut self, table: &Name, target: &Target) -> Result<(), Failure> {
        let id = self.table(table)?;
        let call = self.call(id, target)?;
        let set = self.pipeline_mut().set_default(id, Some(call.into()));
        set.map_err(|error| self.refused(table, id, &error))
    }

    pub(super) fn table(&self, name: &Name) -> Result<TableId, Failure> {
        let tables = self.program().tables.iter().map(|table| table.name.as_str());
        names::find("table", name, tables).map(|at| TableId(at as u32))
    }

    pub(super) fn refused(
        &self,
        name: &Name,
        table: TableId,
        error: &dyn std::fmt::Display,
    ) -> Failure {
        let table = &self.program().tables[table.index()].name;
        name.place.failure(format!("table `{table}`: {error}"))
    }

    /// The entry's keys in the table's order. A key that the script omits matches anything, or zero
    /// if it is exact.
    pub(super) fn entry_id(&self, entry: &EntryKey) -> Result<EntryId, Failure> {
        let id = self.table(&entry.table)?;
        let table = &self.program().tables[id.index()];
        let keys: Vec<&ir::Key> =
            table.keys.iter().filter(|key| key.kind != MatchKind::Selector).collect();
        let mut matches: Vec<Option<KeyMatch>> = vec![None; keys.len()];
        for (name, given) in &entry.keys {
            let names = keys.iter().map(|key| key.name.as_str());
            let at = names::find_key(name, &table.name, names)?;
            let width = keys[at].value.ty.width;
            let found = key_match(keys[at].kind, width, given).map_err(|reason| {
                name.place.failure(format!("key `{}` ({width} bits): {reason}", keys[at].name))
            })?;
            if matches[at].replace(found).is_some() {
                let reason = format!("key `{}` is there twice", keys[at].name);
                return Err(name.place.failure(reason));
            }
        }
        let matches = matches.into_iter().zip(&keys);
        let matches = matches.map(|(found, key)| found.unwrap_or_else(|| anything(key)));
        let ranked = |key: &&ir::Key| {
            matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
        };
        // Of two entries that match, the one with the higher number wins, in scripts as in the
        // engine. The engine's numbers start at 1.
        let priority = if keys.iter().any(ranked) {
            i32::try_from(entry.priority.unwrap_or(0)).ok().and_then(|p| p.checked_add(1))
        } else {
            Some(0)
        };
        let priority = priority
            .ok_or_else(|| entry.table.place.failure("the priority of the entry is too large"))?;
        Ok(EntryId { table: id, matches: matches.collect(), priority })
    }

    pub(super) fn call(&self, table: TableId, target: &Target) -> Result<ActionCall, Failure> {
        let program = self.program();
        let table = &program.tables[table.index()];
        let action_names =
            table.actions.iter().map(|a| program.actions[a.action.index()].name.as_str());
        let kind = format!("action in table `{}`:", table.name);
        let index = names::find(&kind, &target.action, action_names)?;
        let action = &program.actions[table.actions[index].action.index()];
        let params = self.params(action);
        let mut args: Vec<Option<Value>> = vec![None; params.len()];
        for (name, value) in &target.args {
            let Some(at) = params.iter().position(|param| *param == name.text) else {
                return Err(name.place.failure(format!(
                    "action `{}` has no parameter `{}` (its parameters: {})",
                    action.name,
                    name.text,
                    if params.is_empty() { "none".to_owned() } else { params.join(", ") }
                )));
            };
            let value = value.zero_filled();
            let width = program.fields[action.params[at].index()].ty.width;
            if !value.fits(width) {
                let reason = format!("{value} does not fit into {width} bits of `{}`", name.text);
                return Err(name.place.failure(reason));
            }
            args[at] = Some(value);
        }
        if let Some(missing) = args.iter().position(Option::is_none) {
            let reason = format!("action `{}` needs `{}`", action.name, params[missing]);
            return Err(target.action.place.failure(reason));
        }
        Ok(ActionCall { action: index as u32, args: args.into_iter().flatten().collect() })
    }

    /// Names of an action's parameters from P4Info, which annotations may have changed.
    fn params(&self, action: &ir::Action) -> Vec<&str> {
        let known = self.forwarding().p4info().actions.iter();
        let mut same = known.filter(|known| {
            known.preamble.as_ref().is_some_and(|preamble| preamble.name == action.name)
        });
        match same.find(|known| known.params.len() == action.params.len()) {
            Some(known) => known.params.iter().map(|param| param.name.as_str()).collect(),
            None => {
                let name = |param: &ir::FieldId| &*self.program().fields[param.index()].name;
                action.params.iter().map(|param| last_part(name(param))).collect()
            }
        }
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The match of a key that the script does not name.
fn anything(key: &ir::Key) -> KeyMatch {
    let ones = || Value::ones(key.value.ty.width);
    match key.kind {
        MatchKind::Lpm => KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        MatchKind::Ternary => KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() },
        MatchKind::Range => KeyMatch::Range { low: Value::zero(), high: ones() },
        MatchKind::Optional => KeyMatch::Optional(None),
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(Value::zero()),
    }
}

/// Converts a match to the key's match kind.
pub(super) fn key_match(kind: MatchKind, width: u32, given: &Match) -> Result<KeyMatch, String> {
    let fitting = |value: Value| {
        let fits = value.fits(width);
        if fits { Ok(value) } else { Err(format!("{value} does not fit")) }
    };
    let ternary = |value: Value, mask: Value| {
        let mask = and(&mask, &Value::ones(width));
        Ok(KeyMatch::Ternary { value: and(&fitting(value)?, &mask), mask })
    };
    let lpm = |value: Value, prefix_len: u32| {
        let mask = prefix_mask(width, prefix_len);
        Ok(KeyMatch::Lpm { value: and(&fitting(value)?, &mask), prefix_len })
    };
    match (kind, given) {
        (MatchKind::Ternary, Match::Any) => ternary(Value::zero(), Value::zero()),
        (MatchKind::Ternary, Match::Number(number)) => {
            ternary(number.zero_filled(), number.mask().unwrap_or_else(|| Value::ones(width)))
        }
        (MatchKind::Ternary, Match::Mask(value, mask)) => {
            ternary(value.zero_filled(), mask.zero_filled())
        }
        (MatchKind::Lpm, Match::Any) => lpm(Value::zero(), 0),
        (MatchKind::Lpm, Match::Number(number)) => {
            lpm(number.zero_filled(), number.prefix_bits().unwrap_or(width).min(width))
        }
        (MatchKind::Lpm, Match::Prefix(_, length)) if *length > width => {
            Err(format!("the prefix of {length} bits is longer than the key"))
        }
        (MatchKind::Lpm, Match::Prefix(value, length)) => lpm(value.zero_filled(), *length),
        (MatchKind::Optional, Match::Any) => Ok(KeyMatch::Optional(None)),
        (MatchKind::Range, Match::Any) => {
            Ok(KeyMatch::Range { low: Value::zero(), high: Value::ones(width) })
        }
        (MatchKind::Range, Match::Range(low, high)) => {
            Ok(KeyMatch::Range { low: low.zero_filled(), high: high.zero_filled() })
        }
        (_, Match::Number(number)) => {
            let value = number.value();
            let value = value.ok_or_else(|| format!("`*` does not go with {}", of_kind(kind)))?;
            let value = fitting(value)?;
            Ok(match kind {
                MatchKind::Range => KeyMatch::Range { low: value.clone(), high: value },
                MatchKind::Optional => KeyMatch::Optional(Some(value)),
                _ => KeyMatch::Exact(value),
            })
        }
        (_, Match::Any) => Err(format!("`*` does not go with {}", of_kind(kind))),
        (_, Match::Prefix(..)) => Err(format!("a prefix does not go with {}", of_kind(kind))),
        (_, Match::Mask(..)) => Err(format!("a mask does not go with {}", of_kind(kind))),
        (_, Match::Range(..)) => Err(format!("a range does not go with {}", of_kind(kind))),
    }
}

fn of_kind(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "an exact key",
        MatchKind::Lpm => "an lpm key",
        MatchKind::Ternary => "a ternary key",
        MatchKind::Range => "a range key",
        MatchKind::Optional => "an optional key",
        MatchKind::Selector => "a selector key",
    }
}

fn limbs(value: &Value) -> usize {
    value.bits().div_ceil(64) as usize
}

fn and(a: &Value, b: &Value) -> Value {
    let both: Vec<u64> = (0..limbs(a).min(limbs(b))).map(|i| a.limb(i) & b.limb(i)).collect();
    Value::from_limbs(&both)
}

/// A mask of the highest `length` of `width` bits.
fn prefix_mask(width: u32, length: u32) -> Value {
    let (all, low) = (Value::ones(width), Value::ones(width.saturating_sub(length)));
    let mask: Vec<u64> = (0..limbs(&all)).map(|i| all.limb(i) & !low.limb(i)).collect();
    Value::from_limbs(&mask)
}
