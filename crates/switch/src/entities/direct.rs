//! Counters and meters of table entries.

use tributary_dataplane::{KeyMatch, Owner};
use tributary_p4::ir::TableId;
use tributary_p4runtime::p4::v1::{
    DirectCounterEntry, DirectMeterEntry, Entity, TableEntry, entity,
};

use super::arrays::only_modify;
use super::counters::counter_from;
use super::cursor::Cursor;
use super::matches::{check_priority, matches};
use super::meters::{meter_from, no_counters};
use super::objects::Table;
use super::tables::{check_counted, check_default_key, check_metered, select};
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

pub(super) fn write_counter(
    to: &mut Forwarding,
    change: Change,
    entry: &DirectCounterEntry,
) -> Result<(), Refusal> {
    let (table, key) = owner(to, entry.table_entry.as_ref(), check_counted)?;
    only_modify(change, "direct counters")?;
    to.pipeline().direct_counter_read(table, key.owner())?;
    if let Some(data) = &entry.data {
        let data = counter_from(data)?;
        to.pipeline_mut().direct_counter_write(table, key.owner(), data)?;
    }
    Ok(())
}

pub(super) fn write_meter(
    to: &mut Forwarding,
    change: Change,
    entry: &DirectMeterEntry,
) -> Result<(), Refusal> {
    let (table, key) = owner(to, entry.table_entry.as_ref(), check_metered)?;
    only_modify(change, "direct meters")?;
    if entry.counter_data.is_some() {
        return Err(no_counters());
    }
    let id = entry.table_entry.as_ref().map_or(0, |entry| entry.table_id);
    let kind = to.objects().table(id)?.direct_meter.unwrap_or_default();
    let config = entry.config.as_ref().map(|config| meter_from(config, kind)).transpose()?;
    to.pipeline_mut().set_direct_meter_config(table, key.owner(), config)?;
    Ok(())
}

/// The key of the entry that a resource belongs to.
enum Key {
    Entry(Vec<KeyMatch>, i32),
    Default,
}

impl Key {
    fn owner(&self) -> Owner<'_> {
        match self {
            Self::Entry(matches, priority) => Owner::Entry(matches, *priority),
            Self::Default => Owner::Default,
        }
    }
}

/// The entry of a resource, validated.
fn owner(
    of: &Forwarding,
    entry: Option<&TableEntry>,
    check: fn(&Table) -> Result<(), Refusal>,
) -> Result<(TableId, Key), Refusal> {
    let entry = entry.ok_or_else(|| Refusal::invalid("it names no table entry"))?;
    let table = of.objects().table(entry.table_id)?;
    let found = || {
        check(table)?;
        if entry.is_default_action {
            check_default_key(entry)?;
            return Ok((table.at, Key::Default));
        }
        let matches = matches(&table.keys, &entry.r#match)?;
        check_priority(table, entry.priority)?;
        Ok((table.at, Key::Entry(matches, entry.priority)))
    };
    found().map_err(|refusal: Refusal| refusal.of(&format!("table `{}`", table.name)))
}

/// Templates for the tables with direct counters that a query selects.
pub(super) fn counted_tables(from: &Forwarding, template: Option<&TableEntry>) -> Vec<TableEntry> {
    tables(from, template, check_counted)
}

/// Templates for the tables with direct meters that a query selects.
pub(super) fn metered_tables(from: &Forwarding, template: Option<&TableEntry>) -> Vec<TableEntry> {
    tables(from, template, check_metered)
}

fn tables(
    from: &Forwarding,
    template: Option<&TableEntry>,
    check: fn(&Table) -> Result<(), Refusal>,
) -> Vec<TableEntry> {
    match template {
        Some(template) if template.table_id != 0 => vec![template.clone()],
        _ => {
            let is_default_action = template.is_some_and(|template| template.is_default_action);
            let all = |table: &Table| TableEntry {
                table_id: table.id,
                is_default_action,
                ..Default::default()
            };
            from.objects().tables().filter(|table| check(table).is_ok()).map(all).collect()
        }
    }
}

pub(super) fn read_counters(
    from: &Forwarding,
    template: Option<&TableEntry>,
    cursor: &mut Cursor,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let wanted = TableEntry { counter_data: Some(Default::default()), ..Default::default() };
    read(from, template, check_counted, &wanted, cursor, &mut |mut entry| {
        let data = entry.counter_data.take();
        let entry = DirectCounterEntry { table_entry: Some(entry), data };
        out.push(Entity { entity: Some(entity::Entity::DirectCounterEntry(entry)) });
    })
}

pub(super) fn read_meters(
    from: &Forwarding,
    template: Option<&TableEntry>,
    cursor: &mut Cursor,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let wanted = TableEntry { meter_config: Some(Default::default()), ..Default::default() };
    read(from, template, check_metered, &wanted, cursor, &mut |mut entry| {
        let config = entry.meter_config.take();
        let entry = DirectMeterEntry { table_entry: Some(entry), config, counter_data: None };
        out.push(Entity { entity: Some(entity::Entity::DirectMeterEntry(entry)) });
    })
}

/// The entries selected by a template, with the requested resource and their keys.
fn read(
    from: &Forwarding,
    template: Option<&TableEntry>,
    check: fn(&Table) -> Result<(), Refusal>,
    wanted: &TableEntry,
    cursor: &mut Cursor,
    push: &mut dyn FnMut(TableEntry),
) -> Result<(), Refusal> {
    let mut push = |entry| push(TableEntry { action: None, ..entry });
    let Some(template) = template else { return Ok(()) };
    let table = from.objects().table(template.table_id)?;
    let what = format!("table `{}`", table.name);
    if !template.r#match.is_empty() || template.is_default_action {
        let (at, key) = owner(from, Some(template), check)?;
        if let Key::Entry(matches, priority) = &key {
            from.pipeline()
                .entry(at, matches, *priority)
                .map_err(|e| Refusal::from(e).of(&what))?;
        }
    }
    let wanted = TableEntry {
        counter_data: wanted.counter_data,
        meter_config: wanted.meter_config,
        ..template.clone()
    };
    select(from, table, &wanted, cursor, &mut push).map_err(|refusal| refusal.of(&what))
}
