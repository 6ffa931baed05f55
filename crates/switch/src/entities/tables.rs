//! Table entries and default actions, with the counter, meter and timeout of an entry.

use tributary_dataplane::{self as dataplane, KeyMatch, Owner};
use tributary_p4runtime::p4::v1::{
    self as p4, CounterData, Entity, MeterConfig, TableEntry, entity, table_action,
};

use super::actions::{action_from, to_action};
use super::annotations::Annotation;
use super::counters::{counter_from, counter_to};
use super::cursor::{Cursor, size};
use super::matches::{check_priority, matches, to_field};
use super::meters::{meter_from, meter_to, no_counters};
use super::objects::Table;
use super::ports::PortOf;
use super::profiles::check_style;
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

pub(super) fn write(
    to: &mut Forwarding,
    port_of: PortOf<'_>,
    change: Change,
    entry: &TableEntry,
) -> Result<(), Refusal> {
    let table = to.objects().table(entry.table_id)?;
    let what = format!("table `{}`", table.name);
    match entry {
        TableEntry { is_const: true, .. } => Err(read_only("is_const")),
        TableEntry { is_default_action: true, .. } => write_default(to, port_of, change, entry),
        _ => write_entry(to, port_of, change, entry),
    }
    .map_err(|refusal| refusal.of(&what))
}

/// The part of an entry that a write changes: everything but the key.
struct Content {
    /// `None`: the action stays.
    action: Option<dataplane::Action>,
    counter: Option<dataplane::CounterData>,
    meter: Option<dataplane::MeterConfig>,
    idle_timeout_us: u64,
}

fn write_entry(
    to: &mut Forwarding,
    port_of: PortOf<'_>,
    change: Change,
    entry: &TableEntry,
) -> Result<(), Refusal> {
    let table = to.objects().table(entry.table_id)?;
    if table.is_const && (change != Change::Modify || entry.action.is_some()) {
        return Err(Refusal::permission_denied("its entries are constant"));
    }
    if table.keys.is_empty() {
        return Err(Refusal::invalid("it has no key, and so no entries but the default one"));
    }
    let matches = matches(&table.keys, &entry.r#match)?;
    check_priority(table, entry.priority)?;
    let fixed = change != Change::Insert && table.fixes(&matches, entry.priority);
    if fixed && (change == Change::Delete || entry.action.is_some()) {
        return Err(Refusal::permission_denied("the entry is constant"));
    }
    if change == Change::Delete {
        return delete(to, entry, &matches);
    }
    let restriction = table.restriction.as_ref();
    if let Some(part) = restriction.and_then(|r| r.violated_by_entry(&matches, entry.priority)) {
        let message = format!("the entry violates its @entry_restriction: `{part}`");
        return Err(Refusal::invalid(message));
    }
    let content = content(to, port_of, table, entry)?;
    if change == Change::Insert && content.action.is_none() {
        return Err(Refusal::invalid("the entry has no action"));
    }
    put(to, change, entry, matches, content)
}

fn delete(to: &mut Forwarding, entry: &TableEntry, matches: &[KeyMatch]) -> Result<(), Refusal> {
    let (objects, pipeline, annotations) = to.parts_with_annotations_mut();
    let at = objects.table(entry.table_id)?.at;
    pipeline.delete(at, matches, entry.priority)?;
    annotations.set(at, matches, entry.priority, Annotation::default());
    Ok(())
}

/// An entry's content, validated as far as possible without other entries.
fn content(
    to: &Forwarding,
    port_of: PortOf<'_>,
    table: &Table,
    entry: &TableEntry,
) -> Result<Content, Refusal> {
    check_resources(table, entry)?;
    let action = entry.action.as_ref();
    let action = action.map(|action| action_from(to.objects(), table, action, port_of));
    let action = action.transpose()?;
    if let (Some(profile), Some(action)) = (table.profile, &action) {
        check_style(to, to.objects().profile(profile)?, action)?;
    }
    Ok(Content {
        action,
        counter: entry.counter_data.as_ref().map(counter_from).transpose()?,
        meter: meter(table, entry.meter_config.as_ref())?,
        idle_timeout_us: entry.idle_timeout_ns.unsigned_abs().div_ceil(1000),
    })
}

fn meter(
    table: &Table,
    config: Option<&MeterConfig>,
) -> Result<Option<dataplane::MeterConfig>, Refusal> {
    let kind = table.direct_meter.unwrap_or_default();
    config.map(|config| meter_from(config, kind)).transpose()
}

/// Inserts or modifies an entry. A refusal changes nothing.
fn put(
    to: &mut Forwarding,
    change: Change,
    entry: &TableEntry,
    matches: Vec<KeyMatch>,
    content: Content,
) -> Result<(), Refusal> {
    let (objects, pipeline, annotations) = to.parts_with_annotations_mut();
    let table = objects.table(entry.table_id)?;
    let priority = entry.priority;
    let action = match content.action {
        Some(action) => action,
        None => pipeline.entry(table.at, &matches, priority)?.action.clone(),
    };
    let mut annotation = Annotation::of(entry);
    if change == Change::Modify && entry.action.is_none() {
        let known = pipeline.entry(table.at, &matches, priority)?;
        annotation = annotation.with_modes_of(&annotations.of(table.at, known));
    }
    let new = dataplane::TableEntry {
        matches: matches.clone(),
        priority,
        action,
        idle_timeout_us: content.idle_timeout_us,
    };
    match change {
        Change::Insert => pipeline.insert(table.at, new)?,
        // Only the resources of constant entries can change.
        _ if table.fixes(&matches, priority) => {}
        _ => pipeline.modify(table.at, new)?,
    }
    if let Some(data) = content.counter {
        pipeline.direct_counter_write(table.at, Owner::Entry(&matches, priority), data)?;
    }
    if table.direct_meter.is_some() {
        let owner = Owner::Entry(&matches, priority);
        pipeline.set_direct_meter_config(table.at, owner, content.meter)?;
    }
    annotations.set(table.at, &matches, priority, annotation);
    Ok(())
}

fn write_default(
    to: &mut Forwarding,
    port_of: PortOf<'_>,
    change: Change,
    entry: &TableEntry,
) -> Result<(), Refusal> {
    let table = to.objects().table(entry.table_id)?;
    if change != Change::Modify {
        return Err(Refusal::invalid("the default entry can only be modified"));
    }
    check_default_key(entry)?;
    check_resources(table, entry)?;
    if table.const_default {
        return Err(Refusal::permission_denied("its default action is constant"));
    }
    if table.profile.is_some() {
        return Err(Refusal::permission_denied(
            "it has an action profile: its default action is the program's",
        ));
    }
    let action = entry.action.as_ref();
    let action = action.map(|action| action_from(to.objects(), table, action, port_of));
    let action = action.transpose()?;
    let counter = entry.counter_data.as_ref().map(counter_from).transpose()?;
    let config = meter(table, entry.meter_config.as_ref())?;
    let (at, metered) = (table.at, table.direct_meter.is_some());
    let kept = action.is_some().then(|| Annotation::of(entry));
    let (_, pipeline, annotations) = to.parts_with_annotations_mut();
    pipeline.set_default(at, action)?;
    if let Some(data) = counter {
        pipeline.direct_counter_write(at, Owner::Default, data)?;
    }
    if metered {
        pipeline.set_direct_meter_config(at, Owner::Default, config)?;
    }
    annotations.set_default(at, kept);
    Ok(())
}

/// Refuses keys and time-outs of default entries, in writes and in queries.
pub(super) fn check_default_key(entry: &TableEntry) -> Result<(), Refusal> {
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(Refusal::invalid("the default entry has neither matches nor a priority"));
    }
    if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid("the default entry has no idle time-out"));
    }
    Ok(())
}

fn read_only(field: &str) -> Refusal {
    Refusal::invalid(format!("`{field}` is for reading only"))
}

/// Refuses resources that a table's entries do not have.
fn check_resources(table: &Table, entry: &TableEntry) -> Result<(), Refusal> {
    if entry.counter_data.is_some() {
        check_counted(table)?;
    }
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        check_metered(table)?;
    }
    if entry.meter_counter_data.is_some() {
        return Err(no_counters());
    }
    if entry.time_since_last_hit.is_some() {
        return Err(read_only("time_since_last_hit"));
    }
    match entry.idle_timeout_ns {
        0 => Ok(()),
        ..0 => Err(Refusal::invalid("the idle time-out is negative")),
        _ if table.idle_timeout && !table.is_const => Ok(()),
        _ => Err(no_timeout()),
    }
}

fn no_timeout() -> Refusal {
    Refusal::invalid("its entries have no idle time-out")
}

pub(super) fn check_counted(table: &Table) -> Result<(), Refusal> {
    if table.has_direct_counter {
        Ok(())
    } else {
        Err(Refusal::invalid("it has no direct counter"))
    }
}

pub(super) fn check_metered(table: &Table) -> Result<(), Refusal> {
    match table.direct_meter {
        Some(_) => Ok(()),
        None => Err(Refusal::invalid("it has no direct meter")),
    }
}

/// The present entry with the same key, with everything that undoing a write must restore; `None`
/// if there is none.
pub(super) fn restorable(from: &Forwarding, key: &TableEntry) -> Option<Entity> {
    let table = from.objects().table(key.table_id).ok()?;
    let entry = if key.is_default_action {
        let default = default_entry(from, table, &every_resource(table)).ok()?;
        // Without an action the program's own is restored.
        let set = from.annotations().has_default(table.at);
        TableEntry { action: default.action.filter(|_| set), ..default }
    } else {
        let matches = matches(&table.keys, &key.r#match).ok()?;
        let entry = from.pipeline().entry(table.at, &matches, key.priority).ok()?;
        full_entry(from, table, entry).ok()?
    };
    // Only the resources of a constant entry can have changed.
    let action = entry.action.filter(|_| !entry.is_const);
    let entry = TableEntry { action, is_const: false, ..entry };
    Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) })
}

/// An entry with all its writable resources.
pub(super) fn full_entry(
    from: &Forwarding,
    table: &Table,
    entry: &dataplane::TableEntry,
) -> Result<TableEntry, Refusal> {
    to_entry(from, table, entry, &every_resource(table))
}

/// A query for the writable resources of a table's entries.
fn every_resource(table: &Table) -> TableEntry {
    TableEntry {
        counter_data: table.has_direct_counter.then(Default::default),
        meter_config: table.direct_meter.map(|_| Default::default()),
        ..Default::default()
    }
}

/// Templates for the tables that a query selects.
pub(super) fn of_each_table(
    from: &Forwarding,
    template: &TableEntry,
) -> Result<Vec<TableEntry>, Refusal> {
    if template.table_id != 0 {
        return Ok(vec![template.clone()]);
    }
    // All tables, without a filter other than whether to include default entries.
    if filtered(template) {
        return Err(Refusal::invalid("a filter needs the id of a table"));
    }
    let all = |table: &Table| TableEntry {
        table_id: table.id,
        is_default_action: template.is_default_action,
        counter_data: template.counter_data.filter(|_| table.has_direct_counter),
        meter_config: template.meter_config.filter(|_| table.direct_meter.is_some()),
        time_since_last_hit: template.time_since_last_hit.filter(|_| table.idle_timeout),
        ..Default::default()
    };
    Ok(from.objects().tables().map(all).collect())
}

pub(super) fn read(
    from: &Forwarding,
    template: &TableEntry,
    cursor: &mut Cursor,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let mut push = |entry| out.push(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
    let table = from.objects().table(template.table_id)?;
    select(from, table, template, cursor, &mut push)
        .map_err(|r| r.of(&format!("table `{}`", table.name)))
}

/// Whether a template filters by more than its table.
fn filtered(template: &TableEntry) -> bool {
    let Annotation { metadata, number, .. } = Annotation::of(template);
    !template.r#match.is_empty()
        || template.action.is_some()
        || template.priority != 0
        || !metadata.is_empty()
        || number != 0
}

/// The entries of one table that a template selects.
pub(super) fn select(
    from: &Forwarding,
    table: &Table,
    template: &TableEntry,
    cursor: &mut Cursor,
    push: &mut dyn FnMut(TableEntry),
) -> Result<(), Refusal> {
    if template.is_default_action {
        check_default_key(template)?;
    }
    if template.counter_data.is_some() {
        check_counted(table)?;
    }
    if template.meter_config.is_some() {
        check_metered(table)?;
    }
    if template.meter_counter_data.is_some() {
        return Err(no_counters());
    }
    if template.time_since_last_hit.is_some() && !table.idle_timeout {
        return Err(no_timeout());
    }
    if template.is_default_action {
        push(default_entry(from, table, template)?);
        return Ok(());
    }
    let wanted = match &template.r#match[..] {
        [] => None,
        fields => Some(matches(&table.keys, fields)?),
    };
    let action = match template.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        None => None,
        Some(table_action::Type::Action(action)) => Some(table.action(action.action_id)?.index),
        Some(_) => return Err(Refusal::invalid("entries can be filtered by action only")),
    };
    let of_template = Annotation::of(template);
    for (place, entry) in from.pipeline().entries_from(table.at, cursor.place) {
        if cursor.left == 0 || cursor.bytes == 0 {
            (cursor.place, cursor.more) = (place, true);
            return Ok(());
        }
        cursor.left -= 1;
        let annotation = from.annotations().of(table.at, entry);
        let chosen = wanted.as_ref().is_none_or(|wanted| *wanted == entry.matches)
            && (template.priority == 0 || template.priority == entry.priority)
            && action.is_none_or(|action| {
                entry.action.direct().is_some_and(|call| call.action == action)
            })
            && (of_template.metadata.is_empty() || of_template.metadata == annotation.metadata)
            && (of_template.number == 0 || of_template.number == annotation.number);
        if chosen {
            let entry = to_entry(from, table, entry, template)?;
            cursor.bytes = cursor.bytes.saturating_sub(size(&entry));
            push(entry);
        }
    }
    Ok(())
}

/// The default entry, with those of its resources that `wanted` contains.
fn default_entry(
    from: &Forwarding,
    table: &Table,
    wanted: &TableEntry,
) -> Result<TableEntry, Refusal> {
    let annotation = from.annotations().of_default(table.at);
    let action = from.pipeline().default_action(table.at);
    let (counter_data, meter_config) = resources(from, table, Owner::Default, wanted)?;
    #[allow(deprecated, reason = "older controllers want it back")]
    Ok(TableEntry {
        table_id: table.id,
        action: action.and_then(|action| to_action(from, table, action, &annotation)),
        is_default_action: true,
        metadata: annotation.metadata,
        controller_metadata: annotation.number,
        is_const: table.const_default,
        counter_data,
        meter_config,
        ..Default::default()
    })
}

/// The counter and the meter of an entry, as far as `wanted` contains them.
fn resources(
    from: &Forwarding,
    table: &Table,
    of: Owner<'_>,
    wanted: &TableEntry,
) -> Result<(Option<CounterData>, Option<MeterConfig>), Refusal> {
    let counter_data = match wanted.counter_data {
        Some(_) => Some(counter_to(from.pipeline().direct_counter_read(table.at, of)?)),
        None => None,
    };
    let meter_config = match wanted.meter_config {
        Some(_) => from.pipeline().direct_meter_config(table.at, of)?.map(meter_to),
        None => None,
    };
    Ok((counter_data, meter_config))
}

/// Converts an entry to the wire form, with those of its resources that `wanted` contains.
fn to_entry(
    from: &Forwarding,
    table: &Table,
    entry: &dataplane::TableEntry,
    wanted: &TableEntry,
) -> Result<TableEntry, Refusal> {
    let annotation = from.annotations().of(table.at, entry);
    let (pipeline, matches, priority) = (from.pipeline(), &entry.matches, entry.priority);
    let fields = table.keys.iter().zip(matches);
    let owner = Owner::Entry(matches, priority);
    let (counter_data, meter_config) = resources(from, table, owner, wanted)?;
    let time_since_last_hit = match wanted.time_since_last_hit {
        Some(_) => {
            let last = pipeline.last_hit_us(table.at, matches, priority)?;
            let elapsed = pipeline.time_us().saturating_sub(last).saturating_mul(1000);
            Some(p4::table_entry::IdleTimeout {
                elapsed_ns: i64::try_from(elapsed).unwrap_or(i64::MAX),
            })
        }
        None => None,
    };
    #[allow(deprecated, reason = "older controllers want it back")]
    Ok(TableEntry {
        table_id: table.id,
        r#match: fields.filter_map(|(key, found)| to_field(key, found)).collect(),
        action: to_action(from, table, &entry.action, &annotation),
        priority,
        idle_timeout_ns: annotation.idle_timeout_ns,
        controller_metadata: annotation.number,
        metadata: annotation.metadata,
        is_const: table.fixes(matches, priority),
        counter_data,
        meter_config,
        time_since_last_hit,
        ..Default::default()
    })
}

/// Converts an entry that no packet matched within its timeout to the wire form.
pub(crate) fn idle(
    from: &Forwarding,
    table: tributary_p4::ir::TableId,
    entry: &dataplane::TableEntry,
) -> Option<TableEntry> {
    let table = from.objects().tables().find(|known| known.at == table)?;
    to_entry(from, table, entry, &TableEntry::default()).ok()
}
