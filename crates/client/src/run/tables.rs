//! Tables and their entries.

use serde_json::{Value, json};
use tributary_p4runtime::p4::config::v1::{ActionProfile, Table};
use tributary_p4runtime::p4::v1::{self as p4, Entity, TableEntry, entity, table_action, update};

use super::{arrays, documents, done, profiles, replication, usage, value_sets, wrap, wrote};
use crate::names::{Field, Names, Object};
use crate::output::Rows;
use crate::{Error, Report, Session, entry, text};

/// `add`, `change`, `delete`.
pub(super) async fn write(
    session: &mut Session,
    kind: update::Type,
    words: &[String],
) -> Result<Report, Error> {
    let names = session.names();
    let one = match kind {
        update::Type::Delete => entry::parse_keys(names, words)?,
        _ => entry::parse(names, words)?,
    };
    let said = format!("{}: {}", done(kind), entry::show(names, &one));
    let written = session.write(kind, vec![wrap(entity::Entity::TableEntry(one))]).await?;
    Ok(wrote(written, said))
}

/// The tables that words name, or all.
fn named<'n>(names: &'n Names, words: &[String]) -> Result<Vec<&'n Table>, Error> {
    match words {
        [all] if all == "all" && names.look::<Table>("all")?.is_none() => {
            Ok(names.all::<Table>().iter().collect())
        }
        words => words.iter().map(|word| names.find::<Table>(word)).collect(),
    }
}

/// The entries of a table, and its default entry at the end.
async fn entries(session: &Session, table: &Table) -> Result<Vec<TableEntry>, Error> {
    let names = session.names();
    let template = TableEntry {
        table_id: table.id(),
        counter_data: names.counter_of(table).map(|_| p4::CounterData::default()),
        meter_config: names.meter_of(table).map(|_| p4::MeterConfig::default()),
        ..TableEntry::default()
    };
    let default = TableEntry { is_default_action: true, ..template.clone() };
    let found = session.read(wrap(entity::Entity::TableEntry(template))).await?;
    let mut found: Vec<TableEntry> = found.into_iter().filter_map(entry_of).collect();
    found.retain(|one| !one.is_default_action);
    found.sort_by_key(|one| std::cmp::Reverse(one.priority));
    // Some switches cannot read it, if the table has an action profile.
    if let Ok(default) = session.read(wrap(entity::Entity::TableEntry(default))).await {
        found.extend(default.into_iter().filter_map(entry_of).take(1));
    }
    Ok(found)
}

fn entry_of(entity: Entity) -> Option<TableEntry> {
    match entity.entity {
        Some(entity::Entity::TableEntry(entry)) => Some(entry),
        _ => None,
    }
}

/// `dump`.
pub(super) async fn dump(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let keyed = words.iter().skip(1).any(|word| word.contains('='));
    let names = session.names().clone();
    let (tables, wanted) = match words {
        [] => return Err(usage("dump")),
        [table, keys @ ..] if keyed => {
            let table = names.find::<Table>(table)?;
            (vec![table], some_keys(&names, table, keys)?)
        }
        words => (named(&names, words)?, Vec::new()),
    };
    let mut report = Report::default();
    let mut all = Vec::new();
    let several = tables.len() > 1;
    for table in tables {
        let mut found = entries(session, table).await?;
        found.retain(|one| wanted.iter().all(|key| one.r#match.contains(key)));
        let rows = rows(&names, table, &found, several);
        report = match rows.is_empty() {
            true if several => report,
            true => report.line(format!("table {} has no such entry", table.alias())),
            false => report.rows(rows),
        };
        all.extend(found.iter().map(|one| documents::entry(&names, table, one)));
    }
    Ok(report.with_json(Value::Array(all)))
}

/// Reads keys, of which some may be missing.
fn some_keys(names: &Names, table: &Table, words: &[String]) -> Result<Vec<p4::FieldMatch>, Error> {
    let fields = names.keys(table);
    let lacks = format!("table `{}` has no key", table.alias());
    let mut keys = Vec::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| usage("dump"))?;
        let field = crate::names::field(&fields, &lacks, name)?;
        keys.extend(crate::matches::parse(field, value)?);
    }
    Ok(keys)
}

fn rows(names: &Names, table: &Table, found: &[TableEntry], titled: bool) -> Rows {
    let fields = names.keys(table);
    let counter = names.counter_of(table).is_some();
    let meter = names.meter_of(table).is_some();
    let ranked = fields.iter().any(|field| field.kind.is_ranked());
    let others = |one: &TableEntry| !options(&fields, one).is_empty();
    let others = found.iter().any(others);
    let mut header: Vec<&str> = fields.iter().map(|field| field.shown.as_str()).collect();
    header.extend(ranked.then_some("#priority"));
    header.push("action");
    header.extend(counter.then_some(["#packets", "#bytes"]).into_iter().flatten());
    header.extend(meter.then_some("meter"));
    header.extend(others.then_some("options"));
    let mut rows = Rows::new(if titled { table.alias() } else { "" }, header);
    for one in found {
        let mut row: Vec<String> = fields.iter().map(|field| key(field, one)).collect();
        if let Some(first) = row.first_mut().filter(|_| one.is_default_action) {
            "default".clone_into(first);
        }
        if ranked {
            row.push(if one.priority == 0 { String::new() } else { one.priority.to_string() });
        }
        let action = one.action.as_ref().map(|action| entry::show_action(names, action));
        row.push(action.unwrap_or_else(|| "–".to_owned()));
        if counter {
            let data = one.counter_data.unwrap_or_default();
            row.extend([data.packet_count.to_string(), data.byte_count.to_string()]);
        }
        if meter {
            row.push(text::rates(one.meter_config.as_ref()));
        }
        if others {
            row.push(options(&fields, one).join(" "));
        }
        rows.push(row);
    }
    rows
}

/// What an entry has beside keys, priority and action.
fn options(fields: &[Field], one: &TableEntry) -> Vec<String> {
    let without = TableEntry { priority: 0, ..one.clone() };
    let mut options = entry::show_options(fields, &without);
    options.extend(one.is_const.then(|| "const".to_owned()));
    options
}

/// The text of a key in an entry.
fn key(field: &Field, one: &TableEntry) -> String {
    let found = one.r#match.iter().find(|key| key.field_id == field.id);
    match found {
        Some(found) => crate::matches::show(field, found),
        None if one.is_default_action => String::new(),
        None => "*".to_owned(),
    }
}

/// `save`.
pub(super) async fn save(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let whole = words.is_empty() || words == ["all"];
    let tables = match whole {
        true => names.all::<Table>().iter().collect(),
        false => named(&names, words)?,
    };
    let mut lines = Vec::new();
    if whole {
        for profile in names.all::<ActionProfile>() {
            lines.extend(profiles::save(session, profile).await?);
        }
    }
    for table in tables {
        for one in entries(session, table).await? {
            lines.extend(save_entry(&names, table, &one));
        }
    }
    if whole {
        lines.extend(arrays::save_meters(session).await?);
        lines.extend(value_sets::save(session).await?);
        lines.extend(replication::save(session).await?);
    }
    let report = Report::new(json!(lines));
    Ok(if lines.is_empty() { report } else { report.line(lines.join("\n")) })
}

/// The commands that make an entry.
fn save_entry(names: &Names, table: &Table, one: &TableEntry) -> Vec<String> {
    if one.is_default_action {
        let changed = one.action.as_ref().filter(|action| is_changed(names, table, action));
        let line =
            |action| format!("default {} {}", table.alias(), entry::show_action(names, action));
        let rates = one.meter_config.as_ref().map(|config| text::rates(Some(config)));
        let meter = rates.map(|rates| format!("meter {} default {rates}", table.alias()));
        return changed.map(line).into_iter().chain(meter).collect();
    }
    if one.is_const {
        return Vec::new();
    }
    let mut lines = vec![format!("add {}", entry::show(names, one))];
    lines.extend(one.meter_config.as_ref().map(|config| {
        let at = entry::show(names, &TableEntry { action: None, ..one.clone() });
        format!("meter {at} {}", text::rates(Some(config)))
    }));
    lines
}

/// Whether a default action is not the program's, as far as P4Info tells.
fn is_changed(names: &Names, table: &Table, action: &p4::TableAction) -> bool {
    let Some(table_action::Type::Action(call)) = &action.r#type else { return false };
    if table.const_default_action_id != 0 || names.profile_of(table).is_some() {
        return false;
    }
    table.initial_default_action.as_ref().is_none_or(|initial| {
        let argument = |param: &p4::action::Param| {
            let mut all = initial.arguments.iter();
            all.any(|one| one.param_id == param.param_id && one.value == param.value)
        };
        initial.action_id != call.action_id || !call.params.iter().all(argument)
    })
}

/// `default`.
pub(super) async fn default(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let Some((name, rest)) = words.split_first() else { return Err(usage("default")) };
    let names = session.names().clone();
    let table = names.find::<Table>(name)?;
    let mut one =
        TableEntry { table_id: table.id(), is_default_action: true, ..TableEntry::default() };
    if rest.is_empty() {
        let mut found = entries(session, table).await?;
        found.retain(|one| one.is_default_action);
        let found = found.first().cloned().unwrap_or(one);
        let action = found.action.as_ref().map(|action| entry::show_action(&names, action));
        let said = action.unwrap_or_else(|| "–".to_owned());
        return Ok(Report::new(documents::entry(&names, table, &found)).line(said));
    }
    let is_reset = rest == ["reset"] && names.action(table, "reset", true).is_err();
    if !is_reset {
        one.action = Some(entry::action(&names, table, rest, true)?);
    }
    let said = match &one.action {
        Some(action) => {
            format!("default of {}: {}", table.alias(), entry::show_action(&names, action))
        }
        None => format!("default of {}: reset", table.alias()),
    };
    let one = wrap(entity::Entity::TableEntry(one));
    Ok(wrote(session.write(update::Type::Modify, vec![one]).await?, said))
}

/// `clear`.
pub(super) async fn clear(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    if words.is_empty() {
        return Err(usage("clear"));
    }
    let names = session.names().clone();
    let mut old = Vec::new();
    for table in named(&names, words)? {
        if table.is_const_table {
            continue;
        }
        let own = entries(session, table).await?.into_iter();
        let own = own.filter(|one| !one.is_const && !one.is_default_action).map(|one| TableEntry {
            table_id: one.table_id,
            r#match: one.r#match,
            priority: one.priority,
            ..TableEntry::default()
        });
        old.extend(own.map(|one| wrap(entity::Entity::TableEntry(one))));
    }
    let deleted = session.write(update::Type::Delete, old).await?;
    let counted = if deleted == 1 { "1 entry".to_owned() } else { format!("{deleted} entries") };
    Ok(wrote(deleted, format!("deleted: {counted}")))
}
