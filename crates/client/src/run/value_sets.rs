//! Parser value sets.

use serde_json::json;
use tributary_p4runtime::p4::config::v1::ValueSet;
use tributary_p4runtime::p4::v1::{ValueSetEntry, ValueSetMember, entity, update};

use super::{listed, usage, wrap, wrote};
use crate::names::{self, Field, Names, Object};
use crate::output::Rows;
use crate::{Error, Report, Session, matches, text};

/// The members of a value set that the switch has.
async fn members(session: &Session, set: &ValueSet) -> Result<Vec<ValueSetMember>, Error> {
    let wanted = ValueSetEntry { value_set_id: set.id(), members: Vec::new() };
    let found = session.read(wrap(entity::Entity::ValueSetEntry(wanted))).await?;
    let members = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::ValueSetEntry(one)) => Some(one.members),
        _ => None,
    });
    Ok(members.flatten().collect())
}

/// Reads a member: its keys by name, or values in their order.
fn member(names: &Names, set: &ValueSet, words: &[String]) -> Result<ValueSetMember, Error> {
    let fields = names.members(set);
    let lacks = format!("value set `{}` has no key", set.alias());
    let mut given: Vec<u32> = Vec::new();
    let mut member = ValueSetMember::default();
    for word in words {
        let (field, value): (&Field, &str) = match word.split_once('=') {
            Some((name, value)) => (names::field(&fields, &lacks, name)?, value),
            None => {
                let next = fields.iter().find(|field| !given.contains(&field.id));
                (next.ok_or_else(|| usage("valueset"))?, word)
            }
        };
        if given.contains(&field.id) {
            return Err(Error::input(format!("`{word}`: the key is given twice; leave one out")));
        }
        given.push(field.id);
        member.r#match.extend(matches::parse(field, value)?);
    }
    let exact = |field: &&Field| field.kind == names::Match::Exact && !given.contains(&field.id);
    if fields.iter().any(|field| exact(&field)) {
        let keys: Vec<&str> = fields.iter().map(|field| field.shown.as_str()).collect();
        let keys = keys.join(", ");
        return Err(Error::input(format!(
            "a key is missing; value set `{}` has: {keys}",
            set.alias()
        )));
    }
    let place = |one: &tributary_p4runtime::p4::v1::FieldMatch| {
        fields.iter().position(|field| field.id == one.field_id)
    };
    member.r#match.sort_by_key(place);
    Ok(member)
}

/// `valueset`.
pub(super) async fn run(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let (verb, name, rest) = match words {
        [] => return list(session, names.all::<ValueSet>()).await,
        [name] => return list(session, std::slice::from_ref(names.find::<ValueSet>(name)?)).await,
        [verb, name, rest @ ..] => (verb.as_str(), name, rest),
    };
    let set = names.find::<ValueSet>(name)?;
    let mut new = members(session, set).await?;
    match verb {
        "clear" if rest.is_empty() => new.clear(),
        "add" => {
            let one = member(&names, set, rest)?;
            if new.contains(&one) {
                return Err(Error::input("the value set has this member already"));
            }
            new.push(one);
        }
        "delete" => {
            let one = member(&names, set, rest)?;
            let at = new.iter().position(|known| *known == one);
            let at = at.ok_or_else(|| {
                Error::input(format!(
                    "the value set has no such member; `valueset {name}` lists all"
                ))
            })?;
            new.remove(at);
        }
        _ => return Err(usage("valueset")),
    }
    let count = new.len();
    let one = ValueSetEntry { value_set_id: set.id(), members: new };
    let one = wrap(entity::Entity::ValueSetEntry(one));
    let written = session.write(update::Type::Modify, vec![one]).await?;
    let counted = tributary_base::counted(count, "member");
    Ok(wrote(written, format!("changed: value set {} has {counted}", set.alias())))
}

/// Members as commands, for `save`.
pub(super) async fn save(session: &Session) -> Result<Vec<String>, Error> {
    let names = session.names();
    let mut lines = Vec::new();
    for set in names.all::<ValueSet>() {
        let fields = names.members(set);
        let members = members(session, set).await?;
        let line = |one| format!("valueset add {} {}", set.alias(), text::set_member(&fields, one));
        lines.extend(members.iter().map(line));
    }
    Ok(lines)
}

async fn list(session: &Session, sets: &[ValueSet]) -> Result<Report, Error> {
    let names = session.names();
    let mut rows = Rows::new("", ["value set", "member"]);
    let mut json = Vec::new();
    for set in sets {
        let fields = names.members(set);
        for one in members(session, set).await? {
            let text = text::set_member(&fields, &one);
            rows.push([set.alias().to_owned(), text.clone()]);
            json.push(json!({ "value_set": set.name(), "member": text }));
        }
    }
    Ok(listed(json, rows, "no members"))
}
