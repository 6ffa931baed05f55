//! Carries out the commands.

mod arrays;
mod documents;
mod listing;
mod pipeline;
mod profiles;
mod replication;
mod stream;
mod tables;
mod value_sets;

use std::pin::pin;

use serde_json::{Value, json};
use tributary_p4runtime::p4::v1::{Entity, entity, update};

use crate::commands::{self, Command};
use crate::output::Rows;
use crate::{Error, Report, Session};

pub(crate) use listing::KINDS;

/// Carries out a command, and passes on what it prints. Commands that listen end when `stop` is ready; others go on, and
/// the caller can drop them.
///
/// # Errors
/// One line that says what is wrong, where, and how to fix it.
pub async fn run(
    session: &mut Session,
    words: &[String],
    stop: impl Future<Output = ()>,
    print: &mut dyn FnMut(&Report),
) -> Result<(), Error> {
    let Some((name, rest)) = words.split_first() else { return Ok(()) };
    let command = commands::named(name)?;
    session.refresh().await?;
    let outcome = dispatch(session, command, rest, pin!(stop), print).await;
    session.release();
    outcome
}

async fn dispatch(
    session: &mut Session,
    command: &Command,
    words: &[String],
    stop: stream::Stop<'_>,
    print: &mut dyn FnMut(&Report),
) -> Result<(), Error> {
    let report = match command.name {
        "list" => listing::list(session.names(), words)?,
        "tables" => listing::list(session.names(), &["tables".to_owned()])?,
        "describe" => listing::describe(session.names(), words)?,
        "dump" => tables::dump(session, words).await?,
        "save" => tables::save(session, words).await?,
        "add" => tables::write(session, update::Type::Insert, words).await?,
        "change" => tables::write(session, update::Type::Modify, words).await?,
        "delete" => tables::write(session, update::Type::Delete, words).await?,
        "default" => tables::default(session, words).await?,
        "clear" => tables::clear(session, words).await?,
        "counter" => arrays::counter(session, words).await?,
        "meter" => arrays::meter(session, words).await?,
        "register" => arrays::register(session, words).await?,
        "multicast" => replication::multicast(session, words).await?,
        "clone" => replication::clone(session, words).await?,
        "member" => profiles::member(session, words).await?,
        "group" => profiles::group(session, words).await?,
        "valueset" => value_sets::run(session, words).await?,
        "packet-out" => stream::packet_out(session, words).await?,
        "packets" => return stream::packets(session, words, stop, print).await,
        "digests" => return stream::digests(session, words, stop, print).await,
        "pipeline" => pipeline::run(session, words).await?,
        "info" => pipeline::info(session)?,
        "help" => commands::help(words)?,
        _ => Report::default(),
    };
    print(&report);
    Ok(())
}

/// An entity around one of its kinds.
pub(crate) fn wrap(one: entity::Entity) -> Entity {
    Entity { entity: Some(one) }
}

/// The report of a command that wrote.
pub(crate) fn wrote(updates: usize, text: impl Into<String>) -> Report {
    Report::new(json!({ "updates": updates })).line(text)
}

/// The report of a list, or that it is empty.
pub(crate) fn listed(json: Vec<Value>, rows: Rows, none: &str) -> Report {
    let report = Report::new(Value::Array(json));
    if rows.is_empty() { report.line(none) } else { report.rows(rows) }
}

/// The usage of a command, as an error.
pub(crate) fn usage(name: &str) -> Error {
    match commands::named(name) {
        Ok(command) => {
            let forms = command.usage.iter().map(|usage| format!("`{name} {usage}`"));
            Error::input(format!("write {}", forms.collect::<Vec<String>>().join(" or ")))
        }
        Err(error) => error,
    }
}

/// The kind of update that a word asks for.
pub(crate) fn verb(word: &str) -> Option<update::Type> {
    match word {
        "add" => Some(update::Type::Insert),
        "change" => Some(update::Type::Modify),
        "delete" => Some(update::Type::Delete),
        _ => None,
    }
}

/// What was done, for the report.
pub(crate) const fn done(kind: update::Type) -> &'static str {
    match kind {
        update::Type::Insert => "added",
        update::Type::Delete => "deleted",
        _ => "changed",
    }
}
