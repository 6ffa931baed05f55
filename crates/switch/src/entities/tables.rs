//! Table entries, default actions and direct counters.

use std::collections::HashMap;

use tributary_dataplane::{self as dataplane, KeyMatch, Value};
use tributary_p4::ir::{MatchKind, TableId};
use tributary_p4runtime_proto::p4::v1::{
    self as p4, DirectCounterEntry, Entity, FieldMatch, TableEntry, entity, field_match,
    table_action,
};

use super::arrays::{counter_from, counter_to};
use super::objects::{Key, Table};
use super::{Change, Refusal, decode, encode};
use crate::forwarding::Forwarding;

/// What controllers attach to entries and want back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Annotation {
    metadata: Vec<u8>,
    /// Deprecated in P4Runtime, and still sent by older controllers.
    number: u64,
}

/// The annotations of all entries that have one.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    entries: HashMap<(TableId, Vec<KeyMatch>, i32), Annotation>,
    defaults: HashMap<TableId, Annotation>,
}

impl Annotations {
    fn of(&self, table: TableId, entry: &dataplane::TableEntry) -> Annotation {
        if self.entries.is_empty() {
            return Annotation::default();
        }
        let name = (table, entry.matches.clone(), entry.priority);
        self.entries.get(&name).cloned().unwrap_or_default()
    }

    fn set(&mut self, table: TableId, matches: &[KeyMatch], priority: i32, to: Annotation) {
        if to == Annotation::default() && self.entries.is_empty() {
            return;
        }
        let name = (table, matches.to_vec(), priority);
        if to == Annotation::default() {
            self.entries.remove(&name);
        } else {
            self.entries.insert(name, to);
        }
    }
}

#[allow(deprecated, reason = "older controllers send it")]
fn annotation(entry: &TableEntry) -> Annotation {
    Annotation { metadata: entry.metadata.clone(), number: entry.controller_metadata }
}

pub(super) fn write(
    to: &mut Forwarding,
    change: Change,
    entry: &TableEntry,
) -> Result<(), Refusal> {
    let table = to.objects().table(entry.table_id)?;
    let what = format!("table `{}`", table.name);
    if entry.is_default_action {
        write_default(to, change, entry)
    } else {
        write_entry(to, change, entry)
    }
    .map_err(|refusal| refusal.of(&what))
}

fn write_entry(to: &mut Forwarding, change: Change, entry: &TableEntry) -> Result<(), Refusal> {
    let (objects, pipeline, annotations) = to.parts_with_annotations_mut();
    let table = objects.table(entry.table_id)?;
    check_supported(table, change, entry)?;
    if table.is_const && (change != Change::Modify || entry.action.is_some()) {
        return Err(Refusal::permission_denied("its entries are constant"));
    }
    if table.keys.is_empty() {
        return Err(Refusal::invalid("it has no key, and so no entries but the default one"));
    }
    let matches = matches(table, &entry.r#match)?;
    check_priority(table, entry.priority)?;

    if change == Change::Delete {
        pipeline.delete(table.at, &matches, entry.priority)?;
        annotations.set(table.at, &matches, entry.priority, Annotation::default());
        return Ok(());
    }
    let counter = entry.counter_data.as_ref().map(counter_from).transpose()?;
    let call = match &entry.action {
        Some(action) => Some(call(table, action)?),
        None if change == Change::Insert => {
            return Err(Refusal::invalid("the entry has no action"));
        }
        None => None,
    };
    match call {
        Some(call) => {
            let priority = entry.priority;
            let new = dataplane::TableEntry::new(matches.clone(), priority, call);
            if change == Change::Insert {
                pipeline.insert(table.at, new)?;
            } else {
                pipeline.modify(table.at, new)?;
            }
        }
        // The action stays; whether there is such an entry must be known all the same.
        None => drop(pipeline.entry(table.at, &matches, entry.priority)?),
    }
    if let Some(data) = counter {
        pipeline.direct_counter_write(table.at, &matches, entry.priority, data)?;
    }
    annotations.set(table.at, &matches, entry.priority, annotation(entry));
    Ok(())
}

fn write_default(to: &mut Forwarding, change: Change, entry: &TableEntry) -> Result<(), Refusal> {
    let (objects, pipeline, annotations) = to.parts_with_annotations_mut();
    let table = objects.table(entry.table_id)?;
    check_supported(table, change, entry)?;
    if change != Change::Modify {
        return Err(Refusal::invalid("the default entry can only be modified"));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(Refusal::invalid("the default entry has neither matches nor a priority"));
    }
    if entry.counter_data.is_some() {
        return Err(Refusal::unimplemented("the default entry has no counter on this switch"));
    }
    if table.const_default {
        return Err(Refusal::permission_denied("its default action is constant"));
    }
    let call = entry.action.as_ref().map(|action| call(table, action)).transpose()?;
    let kept = if call.is_some() { annotation(entry) } else { Annotation::default() };
    pipeline.set_default(table.at, call.map(Into::into))?;
    annotations.defaults.insert(table.at, kept);
    Ok(())
}

pub(super) fn write_counter(
    to: &mut Forwarding,
    change: Change,
    entry: &DirectCounterEntry,
) -> Result<(), Refusal> {
    let (table_entry, matches) = counted(to, entry)?;
    if change != Change::Modify {
        return Err(Refusal::invalid("direct counters can only be modified"));
    }
    let (objects, pipeline) = to.parts_mut();
    let table = objects.table(table_entry.table_id)?;
    pipeline.entry(table.at, &matches, table_entry.priority)?;
    if let Some(data) = &entry.data {
        let data = counter_from(data)?;
        pipeline.direct_counter_write(table.at, &matches, table_entry.priority, data)?;
    }
    Ok(())
}

/// The entry that a direct counter belongs to, checked.
fn counted<'a>(
    of: &Forwarding,
    entry: &'a DirectCounterEntry,
) -> Result<(&'a TableEntry, Vec<KeyMatch>), Refusal> {
    let entry = entry.table_entry.as_ref();
    let entry = entry.ok_or_else(|| Refusal::invalid("the direct counter names no table entry"))?;
    let table = of.objects().table(entry.table_id)?;
    let what = format!("table `{}`", table.name);
    check_counted(table).map_err(|r| r.of(&what))?;
    if entry.is_default_action {
        let refusal = Refusal::unimplemented("the default entry has no counter on this switch");
        return Err(refusal.of(&what));
    }
    let matches = matches(table, &entry.r#match).map_err(|r| r.of(&what))?;
    Ok((entry, matches))
}

fn check_counted(table: &Table) -> Result<(), Refusal> {
    if table.has_direct_counter {
        Ok(())
    } else {
        Err(Refusal::invalid("it has no direct counter"))
    }
}

/// Refuses what an entry may not say in a table, whatever its matches and action.
fn check_supported(table: &Table, change: Change, entry: &TableEntry) -> Result<(), Refusal> {
    if entry.is_const {
        return Err(Refusal::invalid("`is_const` is for reading only"));
    }
    if table.has_implementation {
        return Err(Refusal::unimplemented("action profiles are not supported by this switch"));
    }
    if change == Change::Delete {
        return Ok(()); // only the key counts
    }
    if entry.counter_data.is_some() {
        check_counted(table)?;
    }
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        return Err(if table.has_direct_meter {
            Refusal::unimplemented("direct meters are not supported by this switch")
        } else {
            Refusal::invalid("it has no direct meter")
        });
    }
    if entry.idle_timeout_ns != 0 {
        return Err(if table.idle_timeout {
            Refusal::unimplemented("idle time-outs are not supported by this switch")
        } else {
            Refusal::invalid("its entries have no idle time-out")
        });
    }
    Ok(())
}

fn check_priority(table: &Table, priority: i32) -> Result<(), Refusal> {
    match (table.ranked(), priority) {
        (true, 1..) | (false, 0) => Ok(()),
        (true, _) => Err(Refusal::invalid(
            "it has a ternary, range or optional key: entries need a priority above zero",
        )),
        (false, _) => Err(Refusal::invalid(
            "it has no ternary, range or optional key: entries have no priority",
        )),
    }
}

/// The engine's form of an entry's matches: one a key, those left out match anything.
fn matches(table: &Table, fields: &[FieldMatch]) -> Result<Vec<KeyMatch>, Refusal> {
    for (i, field) in fields.iter().enumerate() {
        let id = field.field_id;
        if !table.keys.iter().any(|key| key.id == id) {
            return Err(Refusal::invalid(format!("there is no key with id {id}")));
        }
        if fields[..i].iter().any(|other| other.field_id == id) {
            return Err(Refusal::invalid(format!("the key with id {id} is matched twice")));
        }
    }
    let one = |key: &Key| {
        let what = || format!("key `{}`", key.name);
        match fields.iter().find(|field| field.field_id == key.id) {
            Some(field) => one_match(key, field).map_err(|r| r.of(&what())),
            None => anything(key)
                .ok_or_else(|| Refusal::invalid("an exact key cannot be left out").of(&what())),
        }
    };
    table.keys.iter().map(one).collect()
}

/// The match of anything; exact keys have none.
fn anything(key: &Key) -> Option<KeyMatch> {
    Some(match key.kind {
        MatchKind::Exact | MatchKind::Selector => return None,
        MatchKind::Lpm => KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        MatchKind::Ternary => KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() },
        MatchKind::Range => KeyMatch::Range { low: Value::zero(), high: Value::ones(key.width) },
        MatchKind::Optional => KeyMatch::Optional(None),
    })
}

fn one_match(key: &Key, field: &FieldMatch) -> Result<KeyMatch, Refusal> {
    use field_match::FieldMatchType as F;
    let value = |bytes: &[u8], what: &str| decode(bytes, key.width, what);
    let found = field.field_match_type.as_ref();
    let found = found.ok_or_else(|| Refusal::invalid("the match has no kind"))?;
    let new = match (key.kind, found) {
        (MatchKind::Exact, F::Exact(m)) => KeyMatch::Exact(value(&m.value, "value")?),
        (MatchKind::Lpm, F::Lpm(m)) => KeyMatch::Lpm {
            value: value(&m.value, "value")?,
            prefix_len: u32::try_from(m.prefix_len)
                .ok()
                .filter(|&len| len <= key.width)
                .ok_or_else(|| {
                    let (len, width) = (m.prefix_len, key.width);
                    Refusal::invalid(format!("a prefix of {len} bits in a key of {width}"))
                })?,
        },
        (MatchKind::Ternary, F::Ternary(m)) => {
            KeyMatch::Ternary { value: value(&m.value, "value")?, mask: value(&m.mask, "mask")? }
        }
        (MatchKind::Range, F::Range(m)) => {
            KeyMatch::Range { low: value(&m.low, "low end")?, high: value(&m.high, "high end")? }
        }
        (MatchKind::Optional, F::Optional(m)) => {
            KeyMatch::Optional(Some(value(&m.value, "value")?))
        }
        (kind, _) => {
            return Err(Refusal::invalid(format!("the match is not {}", kind_name(kind))));
        }
    };
    let matches_anything = match &new {
        KeyMatch::Lpm { prefix_len, .. } => *prefix_len == 0,
        KeyMatch::Ternary { mask, .. } => *mask == Value::zero(),
        KeyMatch::Range { low, high } => *low == Value::zero() && *high == Value::ones(key.width),
        KeyMatch::Exact(_) | KeyMatch::Optional(_) => false,
    };
    if matches_anything {
        return Err(Refusal::invalid("a match of anything must be left out"));
    }
    Ok(new)
}

fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
        MatchKind::Selector => "selector",
    }
}

/// The engine's form of an action and its arguments.
fn call(table: &Table, action: &p4::TableAction) -> Result<dataplane::ActionCall, Refusal> {
    let action = match &action.r#type {
        Some(table_action::Type::Action(action)) => action,
        Some(_) => return Err(Refusal::invalid("it has no action profile: it needs an action")),
        None => return Err(Refusal::invalid("the action is not set")),
    };
    let known = table.action(action.action_id)?;
    let what = format!("action `{}`", known.name);
    let refuse = |message: String| Err(Refusal::invalid(message).of(&what));
    for (i, param) in action.params.iter().enumerate() {
        let id = param.param_id;
        if !known.params.iter().any(|p| p.id == id) {
            return refuse(format!("there is no parameter with id {id}"));
        }
        if action.params[..i].iter().any(|other| other.param_id == id) {
            return refuse(format!("the parameter with id {id} is given twice"));
        }
    }
    let mut args = Vec::with_capacity(known.params.len());
    for param in &known.params {
        let Some(given) = action.params.iter().find(|p| p.param_id == param.id) else {
            return refuse(format!("parameter `{}` is missing", param.name));
        };
        let name = format!("parameter `{}`", param.name);
        args.push(decode(&given.value, param.width, &name).map_err(|r| r.of(&what))?);
    }
    Ok(dataplane::ActionCall { action: known.index, args })
}

pub(super) fn read(
    from: &Forwarding,
    template: &TableEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let mut push = |entry| out.push(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
    if template.table_id == 0 {
        // Every table, and no other filter but whether the default entries are meant.
        for table in from.objects().tables() {
            let all = TableEntry {
                is_default_action: template.is_default_action,
                counter_data: template.counter_data.filter(|_| table.has_direct_counter),
                ..Default::default()
            };
            select(from, table, &all, &mut push)?;
        }
        return Ok(());
    }
    let table = from.objects().table(template.table_id)?;
    select(from, table, template, &mut push).map_err(|r| r.of(&format!("table `{}`", table.name)))
}

/// The entries of one table that a template asks for.
fn select(
    from: &Forwarding,
    table: &Table,
    template: &TableEntry,
    push: &mut dyn FnMut(TableEntry),
) -> Result<(), Refusal> {
    if template.counter_data.is_some() && !template.is_default_action {
        check_counted(table)?;
    }
    if template.is_default_action {
        push(default_entry(from, table));
        return Ok(());
    }
    let wanted = match &template.r#match[..] {
        [] => None,
        fields => Some(matches(table, fields)?),
    };
    let action = match template.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        None => None,
        Some(table_action::Type::Action(action)) => Some(table.action(action.action_id)?.index),
        Some(_) => return Err(Refusal::invalid("entries can be filtered by action only")),
    };
    let of_template = annotation(template);
    for entry in from.pipeline().entries(table.at) {
        let annotation = from.annotations().of(table.at, entry);
        let chosen = wanted.as_ref().is_none_or(|wanted| *wanted == entry.matches)
            && (template.priority == 0 || template.priority == entry.priority)
            && action.is_none_or(|action| {
                entry.action.direct().is_some_and(|call| call.action == action)
            })
            && (of_template.metadata.is_empty() || of_template.metadata == annotation.metadata)
            && (of_template.number == 0 || of_template.number == annotation.number);
        if chosen {
            let mut entry_out = to_entry(table, entry, annotation);
            if template.counter_data.is_some() {
                let (matches, priority) = (&entry.matches, entry.priority);
                let data = from.pipeline().direct_counter_read(table.at, matches, priority)?;
                entry_out.counter_data = Some(counter_to(data));
            }
            push(entry_out);
        }
    }
    Ok(())
}

pub(super) fn read_counters(
    from: &Forwarding,
    template: &DirectCounterEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let all = TableEntry::default();
    let template = template.table_entry.as_ref().unwrap_or(&all);
    let read_table = |table: &Table, template: &TableEntry, out: &mut Vec<Entity>| {
        let counted = TableEntry { counter_data: Some(Default::default()), ..template.clone() };
        select(from, table, &counted, &mut |mut entry| {
            let data = entry.counter_data.take();
            entry.action = None;
            let entry = DirectCounterEntry { table_entry: Some(entry), data };
            out.push(Entity { entity: Some(entity::Entity::DirectCounterEntry(entry)) });
        })
    };
    if template.table_id == 0 {
        let mut tables = from.objects().tables().filter(|table| table.has_direct_counter);
        return tables.try_for_each(|table| read_table(table, &all, out));
    }
    let table = from.objects().table(template.table_id)?;
    let what = format!("table `{}`", table.name);
    check_counted(table).map_err(|r| r.of(&what))?;
    if template.is_default_action {
        let refusal = Refusal::unimplemented("the default entry has no counter on this switch");
        return Err(refusal.of(&what));
    }
    if !template.r#match.is_empty() {
        let matches = matches(table, &template.r#match).map_err(|r| r.of(&what))?;
        from.pipeline().entry(table.at, &matches, template.priority)?;
    }
    read_table(table, template, out)
}

fn default_entry(from: &Forwarding, table: &Table) -> TableEntry {
    let annotation = from.annotations().defaults.get(&table.at).cloned().unwrap_or_default();
    #[allow(deprecated, reason = "older controllers want it back")]
    TableEntry {
        table_id: table.id,
        action: from
            .pipeline()
            .default_action(table.at)
            .and_then(|action| to_action(table, action.direct()?)),
        is_default_action: true,
        metadata: annotation.metadata,
        controller_metadata: annotation.number,
        is_const: table.const_default,
        ..Default::default()
    }
}

fn to_entry(table: &Table, entry: &dataplane::TableEntry, annotation: Annotation) -> TableEntry {
    let fields = table.keys.iter().zip(&entry.matches);
    #[allow(deprecated, reason = "older controllers want it back")]
    TableEntry {
        table_id: table.id,
        r#match: fields.filter_map(|(key, found)| to_field(key, found)).collect(),
        action: entry.action.direct().and_then(|call| to_action(table, call)),
        priority: entry.priority,
        metadata: annotation.metadata,
        controller_metadata: annotation.number,
        is_const: table.is_const,
        ..Default::default()
    }
}

/// A match for the wire; none where it matches anything.
fn to_field(key: &Key, found: &KeyMatch) -> Option<FieldMatch> {
    use field_match::FieldMatchType as F;
    if anything(key).as_ref() == Some(found) {
        return None;
    }
    let found = match found {
        KeyMatch::Exact(value) => F::Exact(field_match::Exact { value: encode(value) }),
        KeyMatch::Lpm { value, prefix_len } => {
            F::Lpm(field_match::Lpm { value: encode(value), prefix_len: *prefix_len as i32 })
        }
        KeyMatch::Ternary { value, mask } => {
            F::Ternary(field_match::Ternary { value: encode(value), mask: encode(mask) })
        }
        KeyMatch::Range { low, high } => {
            F::Range(field_match::Range { low: encode(low), high: encode(high) })
        }
        KeyMatch::Optional(value) => {
            F::Optional(field_match::Optional { value: encode(value.as_ref()?) })
        }
    };
    Some(FieldMatch { field_id: key.id, field_match_type: Some(found) })
}

fn to_action(table: &Table, call: &dataplane::ActionCall) -> Option<p4::TableAction> {
    let action = table.actions.iter().find(|action| action.index == call.action)?;
    let params = action.params.iter().zip(&call.args);
    let params =
        params.map(|(param, value)| p4::action::Param { param_id: param.id, value: encode(value) });
    let action = p4::Action { action_id: action.id, params: params.collect() };
    Some(p4::TableAction { r#type: Some(table_action::Type::Action(action)) })
}
