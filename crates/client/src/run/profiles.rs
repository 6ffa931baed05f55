//! Members and groups of action profiles.

use serde_json::{Value, json};
use tributary_p4runtime::p4::config::v1::{Action, ActionProfile, Table};
use tributary_p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, action_profile_group, entity, update,
};

use super::{documents, done, listed, usage, verb, wrap, wrote};
use crate::entry::{self, parse_id};
use crate::names::{Names, Object};
use crate::output::Rows;
use crate::{Error, Report, Session, text};

/// The profile that a word names, or all.
fn named<'n>(
    names: &'n Names,
    command: &str,
    words: &[String],
) -> Result<Vec<&'n ActionProfile>, Error> {
    match words {
        [] => Ok(names.all::<ActionProfile>().iter().collect()),
        [name] => Ok(vec![names.find(name)?]),
        _ => Err(usage(command)),
    }
}

async fn members(session: &Session, profile: u32) -> Result<Vec<ActionProfileMember>, Error> {
    let wanted = ActionProfileMember { action_profile_id: profile, ..Default::default() };
    let found = session.read(wrap(entity::Entity::ActionProfileMember(wanted))).await?;
    let mut members: Vec<ActionProfileMember> = found
        .into_iter()
        .filter_map(|one| match one.entity {
            Some(entity::Entity::ActionProfileMember(member)) => Some(member),
            _ => None,
        })
        .collect();
    members.sort_by_key(|member| member.member_id);
    Ok(members)
}

async fn groups(session: &Session, profile: u32) -> Result<Vec<ActionProfileGroup>, Error> {
    let wanted = ActionProfileGroup { action_profile_id: profile, ..Default::default() };
    let found = session.read(wrap(entity::Entity::ActionProfileGroup(wanted))).await?;
    let mut groups: Vec<ActionProfileGroup> = found
        .into_iter()
        .filter_map(|one| match one.entity {
            Some(entity::Entity::ActionProfileGroup(group)) => Some(group),
            _ => None,
        })
        .collect();
    groups.sort_by_key(|group| group.group_id);
    Ok(groups)
}

/// `member`.
pub(super) async fn member(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let Some((kind, rest)) = words.split_first().and_then(|(word, rest)| Some((verb(word)?, rest)))
    else {
        let mut rows = Rows::new("", ["profile", "#member", "action"]);
        let mut json = Vec::new();
        for profile in named(&names, "member", words)? {
            for one in members(session, profile.id()).await? {
                let action = one.action.as_ref().map(|action| entry::show_call(&names, action));
                let action = action.unwrap_or_else(|| "–".to_owned());
                rows.push([profile.alias().to_owned(), one.member_id.to_string(), action]);
                let action = one.action.as_ref().map(|action| documents::call(&names, action));
                json.push(json!({
                    "profile": profile.name(), "member": one.member_id, "action": action,
                }));
            }
        }
        return Ok(listed(json, rows, "no members"));
    };
    let [profile, id, call @ ..] = rest else { return Err(usage("member")) };
    let profile = names.find::<ActionProfile>(profile)?;
    let mut one = ActionProfileMember {
        action_profile_id: profile.id(),
        member_id: parse_id("member", id)?,
        action: None,
    };
    match (kind, call) {
        (update::Type::Delete, []) => {}
        (update::Type::Delete, _) | (_, []) => return Err(usage("member")),
        (_, [name, params @ ..]) => {
            let action = action_of(&names, profile, name)?;
            one.action = Some(entry::arguments(&names, action, params)?);
        }
    }
    let said = format!("{}: member {}", done(kind), text::member(&names, &one));
    let one = wrap(entity::Entity::ActionProfileMember(one));
    Ok(wrote(session.write(kind, vec![one]).await?, said))
}

/// The action with that name of a table of a profile.
fn action_of<'n>(
    names: &'n Names,
    profile: &ActionProfile,
    name: &str,
) -> Result<&'n Action, Error> {
    let tables = profile.table_ids.iter().filter_map(|&id| names.by_id::<Table>(id));
    let mut error = Error::input(format!("no table has the action profile `{}`", profile.alias()));
    for table in tables {
        match names.action(table, name, false) {
            Ok(action) => return Ok(action),
            Err(unknown) => error = unknown,
        }
    }
    Err(error)
}

/// `group`.
pub(super) async fn group(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let Some((kind, rest)) = words.split_first().and_then(|(word, rest)| Some((verb(word)?, rest)))
    else {
        let mut rows = Rows::new("", ["profile", "#group", "members", "#size"]);
        let mut json = Vec::new();
        let profiles = named(&names, "group", words)?.into_iter();
        for profile in profiles.filter(|profile| profile.with_selector) {
            for one in groups(session, profile.id()).await? {
                let members = one.members.iter().map(|member| text::group_member(&names, member));
                let members = members.collect::<Vec<String>>().join(" ");
                let (id, size) = (one.group_id.to_string(), one.max_size.to_string());
                rows.push([profile.alias().to_owned(), id, members, size]);
                let members = one
                    .members
                    .iter()
                    .map(|member| json!({ "member": member.member_id, "weight": member.weight }));
                json.push(json!({
                    "profile": profile.name(), "group": one.group_id, "size": one.max_size,
                    "members": members.collect::<Vec<Value>>(),
                }));
            }
        }
        return Ok(listed(json, rows, "no groups"));
    };
    let [profile, id, rest @ ..] = rest else { return Err(usage("group")) };
    let profile = names.find::<ActionProfile>(profile)?;
    let mut one = ActionProfileGroup {
        action_profile_id: profile.id(),
        group_id: parse_id("group", id)?,
        ..ActionProfileGroup::default()
    };
    if kind == update::Type::Delete && !rest.is_empty() {
        return Err(usage("group"));
    }
    for word in rest {
        match word.strip_prefix("size=") {
            Some(size) => one.max_size = i32::try_from(parse_id("size", size)?).unwrap_or(i32::MAX),
            None => one.members.push(group_member(&names, word)?),
        }
    }
    // The size of a group cannot change.
    if kind == update::Type::Modify && one.max_size == 0 {
        let known = groups(session, profile.id()).await?;
        let known = known.iter().find(|known| known.group_id == one.group_id);
        one.max_size = known.map_or(0, |known| known.max_size);
    }
    let said = format!("{}: group {}", done(kind), text::group(&names, &one));
    let one = wrap(entity::Entity::ActionProfileGroup(one));
    Ok(wrote(session.write(kind, vec![one]).await?, said))
}

/// Reads `MEMBER`, `MEMBER:WEIGHT` or `MEMBER:WEIGHT@PORT`.
fn group_member(names: &Names, word: &str) -> Result<action_profile_group::Member, Error> {
    use action_profile_group::member::WatchKind;
    let (member, port) = match word.split_once('@') {
        Some((member, port)) => (member, Some(names.port().parse(port)?)),
        None => (word, None),
    };
    let (id, weight) = member.split_once(':').unwrap_or((member, "1"));
    let weight = weight
        .parse()
        .ok()
        .filter(|weight: &i32| *weight > 0)
        .ok_or_else(|| Error::input(format!("`{word}`: a weight is from 1 to {}", i32::MAX)))?;
    Ok(action_profile_group::Member {
        member_id: parse_id("member", id)?,
        weight,
        watch_kind: port.map(WatchKind::WatchPort),
    })
}

/// Members and groups as commands, for `save`.
pub(super) async fn save(session: &Session, profile: &ActionProfile) -> Result<Vec<String>, Error> {
    let names = session.names();
    let members = members(session, profile.id()).await?;
    let members = members.iter().map(|one| format!("member add {}", text::member(names, one)));
    let mut lines: Vec<String> = members.collect();
    if profile.with_selector {
        let groups = groups(session, profile.id()).await?;
        lines.extend(groups.iter().map(|one| format!("group add {}", text::group(names, one))));
    }
    Ok(lines)
}
