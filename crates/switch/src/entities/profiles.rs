//! Action profiles: their members and, for selectors, groups.

use tributary_dataplane::{Action, GroupMember, ProfileGroup};
use tributary_p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, Entity, action_profile_group, entity,
};

use super::actions::{call, check_size, to_call};
use super::objects::Profile;
use super::ports::{PortOf, encode_port, watched};
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

pub(super) fn write_member(
    to: &mut Forwarding,
    change: Change,
    entry: &ActionProfileMember,
) -> Result<(), Refusal> {
    let profile = to.objects().profile(entry.action_profile_id)?;
    let what = format!("action profile `{}`, member {}", profile.name, entry.member_id);
    change_member(to, change, entry).map_err(|refusal| refusal.of(&what))
}

fn change_member(
    to: &mut Forwarding,
    change: Change,
    entry: &ActionProfileMember,
) -> Result<(), Refusal> {
    let id = entry.member_id;
    if id == 0 {
        return Err(Refusal::invalid("members are numbered from 1"));
    }
    no_sets(to, to.objects().profile(entry.action_profile_id)?)?;
    let (objects, pipeline) = to.parts_mut();
    let profile = objects.profile(entry.action_profile_id)?;
    let stored = pipeline.profile_mut(profile.at)?;
    if change == Change::Delete {
        return Ok(stored.member_delete(id)?);
    }
    let action = entry.action.as_ref();
    let action = action.ok_or_else(|| Refusal::invalid("the member has no action"))?;
    let call = call(&profile.actions, action)?;
    if change == Change::Insert {
        stored.member_insert(id, call)?;
    } else {
        stored.member_modify(id, call)?;
    }
    Ok(())
}

pub(super) fn read_members(
    from: &Forwarding,
    template: &ActionProfileMember,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    for profile in chosen(from, template.action_profile_id, template.member_id)? {
        let mut push = |id, call| {
            let entry = ActionProfileMember {
                action_profile_id: profile.id,
                member_id: id,
                action: to_call(&profile.actions, call),
            };
            out.push(Entity { entity: Some(entity::Entity::ActionProfileMember(entry)) });
        };
        let stored = from.pipeline().profile(profile.at)?;
        match template.member_id {
            0 => stored.members().for_each(|(id, call)| push(id, call)),
            id => push(id, stored.member(id)?),
        }
    }
    Ok(())
}

pub(super) fn write_group(
    to: &mut Forwarding,
    port_of: PortOf<'_>,
    change: Change,
    entry: &ActionProfileGroup,
) -> Result<(), Refusal> {
    let profile = to.objects().profile(entry.action_profile_id)?;
    let what = format!("action selector `{}`, group {}", profile.name, entry.group_id);
    change_group(to, port_of, change, entry).map_err(|refusal| refusal.of(&what))
}

fn change_group(
    to: &mut Forwarding,
    port_of: PortOf<'_>,
    change: Change,
    entry: &ActionProfileGroup,
) -> Result<(), Refusal> {
    let id = entry.group_id;
    let profile = to.objects().profile(entry.action_profile_id)?;
    if !profile.with_selector {
        return Err(Refusal::invalid("it has no selector, and so no groups"));
    }
    if id == 0 {
        return Err(Refusal::invalid("groups are numbered from 1"));
    }
    no_sets(to, profile)?;
    let name = (profile.id, id);
    if change == Change::Delete {
        let at = profile.at;
        to.pipeline_mut().profile_mut(at)?.group_delete(id)?;
        to.group_sizes_mut().remove(&name);
        return Ok(());
    }
    let members = members_from(profile, entry, port_of)?;
    let weights: Vec<u32> = members.iter().map(|member| member.weight).collect();
    let known = to.group_sizes().get(&name).copied();
    match (change, known) {
        (Change::Modify, Some(known)) if known != entry.max_size => {
            return Err(Refusal::invalid(format!("`max_size` was {known} and cannot change")));
        }
        _ => check_max_size(profile, entry.max_size)?,
    }
    check_size(profile.counts_members, &weights, entry.max_size)?;
    let (at, content) = (profile.at, ProfileGroup { members, max_size: 0 });
    if change == Change::Insert {
        to.pipeline_mut().profile_mut(at)?.group_insert(id, content)?;
        to.group_sizes_mut().insert(name, entry.max_size);
    } else {
        to.pipeline_mut().profile_mut(at)?.group_modify(id, content)?;
    }
    Ok(())
}

fn members_from(
    profile: &Profile,
    entry: &ActionProfileGroup,
    port_of: PortOf<'_>,
) -> Result<Vec<GroupMember>, Refusal> {
    use action_profile_group::member::WatchKind;
    let mut members: Vec<GroupMember> = Vec::with_capacity(entry.members.len());
    for member in &entry.members {
        let id = member.member_id;
        let (watch, port) = match &member.watch_kind {
            #[allow(deprecated, reason = "older controllers send it")]
            Some(WatchKind::Watch(port)) => (*port, &[][..]),
            Some(WatchKind::WatchPort(port)) => (0, &port[..]),
            None => (0, &[][..]),
        };
        let watch = watched(watch, port, port_of).map_err(|r| r.of(&format!("member {id}")))?;
        let weight = profile.weight_from(member.weight);
        let weight = weight.map_err(|r| r.of(&format!("member {id}")))?;
        members.push(GroupMember { member: id, weight, watch });
    }
    Ok(members)
}

pub(super) fn read_groups(
    from: &Forwarding,
    template: &ActionProfileGroup,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    for profile in chosen(from, template.action_profile_id, template.group_id)? {
        let mut push = |id, group: &ProfileGroup| {
            let member = |member: &GroupMember| action_profile_group::Member {
                member_id: member.member,
                weight: profile.weight_to(member.weight),
                watch_kind: member.watch.map(|port| {
                    action_profile_group::member::WatchKind::WatchPort(encode_port(
                        from.architecture(),
                        port,
                    ))
                }),
            };
            let entry = ActionProfileGroup {
                action_profile_id: profile.id,
                group_id: id,
                members: group.members.iter().map(member).collect(),
                max_size: from.group_sizes().get(&(profile.id, id)).copied().unwrap_or_default(),
            };
            out.push(Entity { entity: Some(entity::Entity::ActionProfileGroup(entry)) });
        };
        let stored = from.pipeline().profile(profile.at)?;
        match template.group_id {
            0 => stored.groups().for_each(|(id, group)| push(id, group)),
            id => push(id, stored.group(id)?),
        }
    }
    Ok(())
}

/// The profiles selected by a template: one, or all if it names neither a profile nor part of one.
fn chosen(from: &Forwarding, id: u32, part: u32) -> Result<Vec<&Profile>, Refusal> {
    match (id, part) {
        (0, 0) => Ok(from.objects().profiles().collect()),
        (0, _) => Err(Refusal::invalid("a member or a group needs the id of an action profile")),
        (id, _) => Ok(vec![from.objects().profile(id)?]),
    }
}

/// A selector's tables use either action sets, or members and groups, but not both.
fn no_sets(from: &Forwarding, profile: &Profile) -> Result<(), Refusal> {
    match style(from, profile) {
        Some(Action::Set(_)) => Err(Refusal::invalid(
            "its tables have entries with action sets: these do not go with members and groups",
        )),
        _ => Ok(()),
    }
}

/// Refuses an action set where members are in use, and the reverse.
pub(super) fn check_style(
    from: &Forwarding,
    profile: &Profile,
    action: &Action,
) -> Result<(), Refusal> {
    let members = from.pipeline().profile(profile.at)?.members().next().is_some();
    match (action, style(from, profile)) {
        (Action::Set(_), _) if members => Err(Refusal::invalid(
            "its action profile has members: these do not go with action sets",
        )),
        (Action::Member(_) | Action::Group(_), Some(Action::Set(_))) => no_sets(from, profile),
        _ => Ok(()),
    }
}

/// An action of any entry in the profile's tables, which shows the style in use.
fn style<'a>(from: &'a Forwarding, profile: &Profile) -> Option<&'a Action> {
    let mut tables = profile.tables.iter();
    tables.find_map(|&table| from.pipeline().entries(table).next()).map(|entry| &entry.action)
}

/// Checks a group's own size limit against the program's.
fn check_max_size(profile: &Profile, max_size: i32) -> Result<(), Refusal> {
    match profile.max_group_size {
        _ if max_size < 0 => Err(Refusal::invalid("`max_size` is negative")),
        0 => Ok(()),
        most if (1..=most).contains(&max_size) => Ok(()),
        most => Err(Refusal::invalid(format!("`max_size` must be between 1 and {most}"))),
    }
}
