//! Table entries and actions as text.
//!
//! An entry is a table, its keys, options, and an action with its parameters:
//! `ipv4_lpm dst=10.0.0.0/8 forward port=1`. In tables with ternary, range or optional keys it has `priority=N`. In
//! tables with an action profile the action may also be `member=ID` or `group=ID`; several actions with `and` between
//! them are an action set. An option is written `@priority=N` if the table has a key of that name.

use std::time::Duration;

use tributary_base::document;
use tributary_p4runtime::p4::config::v1::{Action, Table};
use tributary_p4runtime::p4::v1::{
    self as p4, ActionProfileAction, ActionProfileActionSet, FieldMatch, TableAction, TableEntry,
    action_profile_action, table_action,
};

use crate::names::{self, Field, Names, Object};
use crate::words::quote;
use crate::{Error, matches};

/// Options of an entry.
pub const OPTIONS: [&str; 3] = ["priority", "timeout", "metadata"];
/// Options of an action in an action set.
pub const SET_OPTIONS: [&str; 2] = ["weight", "watch"];

/// Actions of entries in tables with an action profile.
const PROFILE_ACTIONS: [&str; 2] = ["member", "group"];

/// Reads a whole entry: table, keys, options and action.
///
/// # Errors
/// One line with the word that is wrong.
pub fn parse(names: &Names, words: &[String]) -> Result<TableEntry, Error> {
    let (table, mut entry, rest) = keys(names, words, &[])?;
    if rest.is_empty() {
        return Err(needs_action(names, table));
    }
    entry.action = Some(action(names, table, rest, false)?);
    Ok(entry)
}

/// Reads the keys of an entry, behind which nothing follows.
///
/// # Errors
/// One line with the word that is wrong.
pub fn parse_keys(names: &Names, words: &[String]) -> Result<TableEntry, Error> {
    let (_, entry, rest) = keys(names, words, &[])?;
    match rest.first() {
        None => Ok(entry),
        Some(word) => Err(Error::input(format!(
            "`{word}`: this command takes a table and keys only, as in KEY=VALUE"
        ))),
    }
}

/// Reads a table, and the keys and options of an entry. Returns the words behind them: the first word without `=`, or
/// one of these options.
///
/// # Errors
/// One line with the word that is wrong.
pub fn keys<'n, 'w>(
    names: &'n Names,
    words: &'w [String],
    until: &[&str],
) -> Result<(&'n Table, TableEntry, &'w [String]), Error> {
    let Some((first, mut rest)) = words.split_first() else {
        return Err(Error::input("the name of a table is missing; `tables` lists all"));
    };
    let table: &Table = names.find(first)?;
    let fields = names.keys(table);
    let mut entry = TableEntry { table_id: table.id(), ..TableEntry::default() };
    let mut given = Vec::new();
    while let Some((word, behind)) = rest.split_first() {
        let Some((name, value)) = word.split_once('=') else { break };
        let is_key = fields.iter().any(|field| is_named(field, name));
        if !is_key && (PROFILE_ACTIONS.contains(&name) || until.contains(&name)) {
            break;
        }
        rest = behind;
        if let Some(option) = option_name(name, &fields, &OPTIONS) {
            set_option(&mut entry, option, value)?;
            continue;
        }
        let lacks = format!("table `{}` has no key", table.alias());
        let field = names::field(&fields, &lacks, name)?;
        if given.contains(&field.id) {
            return Err(Error::input(format!("key `{name}` is given twice; leave one out")));
        }
        given.push(field.id);
        entry.r#match.extend(matches::parse(field, value)?);
    }
    // In the order of the table.
    let place = |one: &FieldMatch| fields.iter().position(|field| field.id == one.field_id);
    entry.r#match.sort_by_key(place);
    check(table, &fields, &given, &entry)?;
    Ok((table, entry, rest))
}

/// Checks that an entry has the keys and the priority that it needs.
fn check(table: &Table, fields: &[Field], given: &[u32], entry: &TableEntry) -> Result<(), Error> {
    let exact = |field: &&Field| field.kind == names::Match::Exact && !given.contains(&field.id);
    if let Some(missing) = fields.iter().find(exact) {
        let (name, table) = (&missing.shown, table.alias());
        return Err(Error::input(format!(
            "table `{table}` needs the exact key `{name}`; add {name}=VALUE"
        )));
    }
    let ranked = fields.iter().any(|field| field.kind.is_ranked());
    match (ranked, entry.priority) {
        (true, 0) => Err(Error::input(format!(
            "table `{}` needs a priority; add priority=N, of which the highest wins",
            table.alias()
        ))),
        (false, priority) if priority != 0 => Err(Error::input(format!(
            "entries of table `{}` have no priority; leave it out",
            table.alias()
        ))),
        _ => Ok(()),
    }
}

/// The option that a word names: with an `@`, or without if it is not the name of a field.
fn option_name<'o>(name: &str, fields: &[Field], options: &[&'o str]) -> Option<&'o str> {
    let plain = name.strip_prefix('@');
    let is_field = plain.is_none() && fields.iter().any(|field| is_named(field, name));
    let wanted = plain.unwrap_or(name);
    options.iter().find(|option| **option == wanted && !is_field).copied()
}

fn is_named(field: &Field, name: &str) -> bool {
    field.shown == name || field.name == name
}

/// How an option is written beside these fields.
fn option_text(option: &str, fields: &[Field], value: impl std::fmt::Display) -> String {
    let mark = if fields.iter().any(|field| is_named(field, option)) { "@" } else { "" };
    format!("{mark}{option}={value}")
}

fn set_option(entry: &mut TableEntry, option: &str, value: &str) -> Result<(), Error> {
    match option {
        "priority" => {
            let number = value.parse().ok().filter(|priority: &i32| *priority > 0);
            entry.priority = number.ok_or_else(|| {
                Error::input(format!("priority={value}: a priority is from 1 to {}", i32::MAX))
            })?;
        }
        "timeout" => {
            let time =
                document::duration(value).and_then(|time| i64::try_from(time.as_nanos()).ok());
            entry.idle_timeout_ns = time.ok_or_else(|| {
                Error::input(format!("timeout={value}: write a time, such as 500ms or 30s"))
            })?;
        }
        _ => {
            entry.metadata = bytes(value).ok_or_else(|| {
                Error::input(format!(
                    "metadata={value}: write bytes as pairs of hexadecimal digits"
                ))
            })?;
        }
    }
    Ok(())
}

/// Bytes in hexadecimal digits, in pairs; `0x`, `:` and `_` are left out.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !matches!(c, ':' | '_' | ' '))
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Bytes as [`bytes`] reads them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error that shows the actions of a table.
pub(crate) fn needs_action(names: &Names, table: &Table) -> Error {
    let mut known: Vec<String> =
        names.actions(table, false).map(|action| usage(names, action)).collect();
    if names.profile_of(table).is_some() {
        known.extend(["member=ID".to_owned(), "group=ID".to_owned()]);
    }
    Error::input(format!(
        "an action is missing; table `{}` has: {}",
        table.alias(),
        if known.is_empty() { "none".to_owned() } else { known.join("; ") }
    ))
}

/// An action and its parameters, as help: `forward port=N mac=MAC`.
pub(crate) fn usage(names: &Names, action: &Action) -> String {
    let params = names.params(action).into_iter();
    let params: String =
        params.map(|param| format!(" {}={}", param.shown, param.format.example())).collect();
    format!("{}{params}", action.alias())
}

/// Reads the action of an entry, or of the default entry.
///
/// # Errors
/// One line with the word that is wrong.
pub fn action(
    names: &Names,
    table: &Table,
    words: &[String],
    default: bool,
) -> Result<TableAction, Error> {
    let profile = names.profile_of(table).filter(|_| !default);
    if let [word] = words
        && let Some((name @ ("member" | "group"), id)) = word.split_once('=')
    {
        if profile.is_none() {
            let table = table.alias();
            return Err(Error::input(format!("{word}: table `{table}` has no action profile")));
        }
        let id = parse_id(name, id)?;
        return Ok(TableAction {
            r#type: Some(match name {
                "member" => table_action::Type::ActionProfileMemberId(id),
                _ => table_action::Type::ActionProfileGroupId(id),
            }),
        });
    }
    if profile.is_none() {
        let action = call(names, table, words, default)?;
        return Ok(TableAction { r#type: Some(table_action::Type::Action(action)) });
    }
    let parts = words.split(|word| word == "and");
    let actions: Result<Vec<_>, Error> = parts.map(|part| member(names, table, part)).collect();
    let set = ActionProfileActionSet {
        action_profile_actions: actions?,
        ..ActionProfileActionSet::default()
    };
    Ok(TableAction { r#type: Some(table_action::Type::ActionProfileActionSet(set)) })
}

/// Reads a number of 32 bits.
pub(crate) fn parse_id(what: &str, text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| {
        Error::input(format!("{what} `{text}`: write a number from 0 to {}", u32::MAX))
    })
}

/// Reads one action of an action set.
fn member(names: &Names, table: &Table, words: &[String]) -> Result<ActionProfileAction, Error> {
    let name = words.first().map_or("", String::as_str);
    let fields = names.params(names.action(table, name, false)?);
    let mut one = ActionProfileAction { weight: 1, ..ActionProfileAction::default() };
    let mut rest = Vec::new();
    for word in words {
        let option = word
            .split_once('=')
            .and_then(|(name, value)| Some((option_name(name, &fields, &SET_OPTIONS)?, value)));
        match option {
            Some(("weight", value)) => {
                let weight = value.parse().ok().filter(|weight: &i32| *weight > 0);
                one.weight = weight.ok_or_else(|| {
                    Error::input(format!("{word}: a weight is from 1 to {}", i32::MAX))
                })?;
            }
            Some((_, port)) => {
                let port = names.port().parse(port)?;
                one.watch_kind = Some(action_profile_action::WatchKind::WatchPort(port));
            }
            None => rest.push(word.clone()),
        }
    }
    one.action = Some(call(names, table, &rest, false)?);
    Ok(one)
}

/// Reads a call of one of a table's actions.
fn call(
    names: &Names,
    table: &Table,
    words: &[String],
    default: bool,
) -> Result<p4::Action, Error> {
    let Some((name, words)) = words.split_first() else { return Err(needs_action(names, table)) };
    arguments(names, names.action(table, name, default)?, words)
}

/// Reads the parameters of an action, by their names or in their order.
///
/// # Errors
/// One line with the parameter that is wrong or missing.
pub fn arguments(names: &Names, action: &Action, words: &[String]) -> Result<p4::Action, Error> {
    let fields = names.params(action);
    let lacks = format!("action `{}` has no parameter", action.alias());
    let mut params: Vec<p4::action::Param> = Vec::new();
    for word in words {
        let (field, value) = match word.split_once('=') {
            Some((name, value)) => (names::field(&fields, &lacks, name)?, value),
            None => {
                let unset = |field: &&Field| !params.iter().any(|param| param.param_id == field.id);
                let next = fields.iter().find(unset).ok_or_else(|| {
                    let usage = usage(names, action);
                    Error::input(format!("`{word}` is too much; the action is: {usage}"))
                })?;
                (next, &**word)
            }
        };
        if params.iter().any(|param| param.param_id == field.id) {
            let name = &field.shown;
            return Err(Error::input(format!("parameter `{name}` is given twice; leave one out")));
        }
        params.push(p4::action::Param { param_id: field.id, value: field.parse(value)? });
    }
    let missing = |field: &&Field| !params.iter().any(|param| param.param_id == field.id);
    if let Some(missing) = fields.iter().find(missing) {
        return Err(Error::input(format!(
            "parameter `{}` is missing; the action is: {}",
            missing.shown,
            usage(names, action)
        )));
    }
    params.sort_by_key(|param| fields.iter().position(|field| field.id == param.param_id));
    Ok(p4::Action { action_id: action.id(), params })
}

/// Writes an entry as [`parse`] reads it, without its counter and meter.
#[must_use]
pub fn show(names: &Names, entry: &TableEntry) -> String {
    let Some(table) = names.by_id::<Table>(entry.table_id) else {
        return format!("an entry of the unknown table {}", entry.table_id);
    };
    let mut words = vec![table.alias().to_owned()];
    let fields = names.keys(table);
    words.extend(show_keys(&fields, &entry.r#match));
    words.extend(show_options(&fields, entry));
    words.extend(entry.action.as_ref().map(|action| show_action(names, action)));
    words.join(" ")
}

/// The keys of an entry, without those that match all values.
#[must_use]
pub fn show_keys(fields: &[Field], found: &[FieldMatch]) -> Vec<String> {
    let text = |one: &FieldMatch| match fields.iter().find(|field| field.id == one.field_id) {
        Some(field) => format!("{}={}", field.shown, quote(&matches::show(field, one))),
        None => format!("{}=?", one.field_id),
    };
    found.iter().map(text).collect()
}

/// Priority, idle time-out and metadata of an entry, as far as it has them.
#[must_use]
pub fn show_options(fields: &[Field], entry: &TableEntry) -> Vec<String> {
    let mut words = Vec::new();
    if entry.priority != 0 {
        words.push(option_text("priority", fields, entry.priority));
    }
    if entry.idle_timeout_ns != 0 {
        words.push(option_text("timeout", fields, time(entry.idle_timeout_ns)));
    }
    if !entry.metadata.is_empty() {
        words.push(option_text("metadata", fields, hex(&entry.metadata)));
    }
    words
}

/// A time in its largest whole unit.
#[must_use]
pub fn time(nanoseconds: i64) -> String {
    let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    let nanos = time.as_nanos();
    match [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
        .iter()
        .find(|(u, _)| nanos.is_multiple_of(*u))
    {
        Some((unit, name)) => format!("{}{name}", nanos / unit),
        None => format!("{nanos}ns"),
    }
}

/// Writes the action of an entry as [`action`] reads it.
#[must_use]
pub fn show_action(names: &Names, action: &TableAction) -> String {
    match &action.r#type {
        Some(table_action::Type::Action(action)) => show_call(names, action),
        Some(table_action::Type::ActionProfileMemberId(id)) => format!("member={id}"),
        Some(table_action::Type::ActionProfileGroupId(id)) => format!("group={id}"),
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            let parts = set.action_profile_actions.iter().map(|one| show_member(names, one));
            parts.collect::<Vec<String>>().join(" and ")
        }
        None => "?".to_owned(),
    }
}

#[expect(deprecated, reason = "switches may use the older form of a watched port")]
fn show_member(names: &Names, one: &ActionProfileAction) -> String {
    let Some(action) = &one.action else { return "?".to_owned() };
    let mut words = vec![show_call(names, action)];
    let known = names.by_id::<Action>(action.action_id);
    let fields = known.map(|known| names.params(known)).unwrap_or_default();
    if one.weight != 1 {
        words.push(option_text("weight", &fields, one.weight));
    }
    let watch = match &one.watch_kind {
        Some(action_profile_action::WatchKind::WatchPort(port)) => Some(names.port().show(port)),
        Some(action_profile_action::WatchKind::Watch(port)) => Some(port.to_string()),
        None => None,
    };
    words.extend(watch.map(|port| option_text("watch", &fields, port)));
    words.join(" ")
}

/// Writes a call as [`arguments`] reads it, with the action's name in front.
#[must_use]
pub fn show_call(names: &Names, action: &p4::Action) -> String {
    let Some(known) = names.by_id::<Action>(action.action_id) else {
        return format!("unknown action {}", action.action_id);
    };
    let fields = names.params(known);
    let params = action.params.iter().map(|param| {
        match fields.iter().find(|field| field.id == param.param_id) {
            Some(field) => format!(" {}={}", field.shown, quote(&field.show(&param.value))),
            None => format!(" {}=?", param.param_id),
        }
    });
    let params: String = params.collect();
    format!("{}{params}", known.alias())
}
