//! Actions of table entries: an action of their own, or one of an action profile.

use tributary_dataplane::{self as dataplane, ActionCall, ActionSet, WeightedCall};
use tributary_p4runtime::p4::v1::{
    self as p4, action_profile_action_set as action_set, table_action,
};

use super::annotations::Annotation;
use super::objects::{Action, Objects, Profile, Table};
use super::ports::{PortOf, encode_port, watched};
use super::{Refusal, decode, encode};
use crate::forwarding::Forwarding;

/// Converts an entry's action to the engine's form.
pub(super) fn action_from(
    objects: &Objects,
    table: &Table,
    action: &p4::TableAction,
    port_of: PortOf<'_>,
) -> Result<dataplane::Action, Refusal> {
    use table_action::Type;
    let Some(action) = &action.r#type else {
        return Err(Refusal::invalid("the action is not set"));
    };
    let Some(profile) = table.profile.map(|id| objects.profile(id)).transpose()? else {
        return match action {
            Type::Action(action) => Ok(call(&table.actions, action)?.into()),
            _ => Err(Refusal::invalid("it has no action profile: it needs an action")),
        };
    };
    match action {
        Type::Action(_) => Err(Refusal::invalid(
            "it has an action profile: it needs a member, a group or an action set",
        )),
        Type::ActionProfileMemberId(id) => Ok(dataplane::Action::Member(*id)),
        _ if !profile.with_selector => {
            Err(Refusal::invalid("it has an action profile without a selector: it needs a member"))
        }
        Type::ActionProfileGroupId(id) => Ok(dataplane::Action::Group(*id)),
        Type::ActionProfileActionSet(set) => set_from(profile, table, set, port_of),
    }
}

/// An action set: a group, with its members, that belongs to one entry.
fn set_from(
    profile: &Profile,
    table: &Table,
    set: &p4::ActionProfileActionSet,
    port_of: PortOf<'_>,
) -> Result<dataplane::Action, Refusal> {
    let group_action = set.group_action.as_ref();
    let group_action = group_action.map(|action| call(&table.actions, action)).transpose()?;
    let (random, counts_members) = modes(profile, set)?;
    let mut calls = Vec::with_capacity(set.action_profile_actions.len());
    let mut weights = Vec::with_capacity(calls.capacity());
    for one in &set.action_profile_actions {
        use p4::action_profile_action::WatchKind;
        let (watch, port) = match &one.watch_kind {
            #[allow(deprecated, reason = "older controllers send it")]
            Some(WatchKind::Watch(port)) => (*port, &[][..]),
            Some(WatchKind::WatchPort(port)) => (0, &port[..]),
            None => (0, &[][..]),
        };
        let watch = watched(watch, port, port_of)?;
        let action = one.action.as_ref();
        let action = action.ok_or_else(|| Refusal::invalid("an action of the set is not set"))?;
        let weight = profile.weight_from(one.weight)?;
        calls.push(WeightedCall { call: call(&table.actions, action)?, weight, watch });
        weights.push(weight);
    }
    check_size(counts_members, &weights, profile.max_group_size)?;
    Ok(dataplane::Action::Set(ActionSet { group_action, calls, random }))
}

/// Whether packets get actions at random, and whether the size of the set is the number of its
/// actions, instead of the sum of their weights.
fn modes(profile: &Profile, set: &p4::ActionProfileActionSet) -> Result<(bool, bool), Refusal> {
    use action_set::{ActionSelectionMode, SizeSemantics};
    let mode = ActionSelectionMode::try_from(set.action_selection_mode);
    let size = SizeSemantics::try_from(set.size_semantics);
    let (Ok(mode), Ok(size)) = (mode, size) else {
        return Err(Refusal::invalid("an unknown selection mode or size semantics"));
    };
    let counts_members = match size {
        SizeSemantics::DefaultSizeDeterminedByActionSelector => profile.counts_members,
        SizeSemantics::SumOfWeights => false,
        SizeSemantics::SumOfMembers => true,
    };
    Ok((mode == ActionSelectionMode::Random, counts_members))
}

/// Refuses a group, or an action set, that exceeds its size limit.
pub(super) fn check_size(counts_members: bool, weights: &[u32], most: i32) -> Result<(), Refusal> {
    let size = match counts_members {
        true => weights.len() as u64,
        false => weights.iter().map(|&weight| u64::from(weight)).sum(),
    };
    if most > 0 && size > most as u64 {
        return Err(Refusal::invalid(format!("its size is {size}, at most {most} is allowed")));
    }
    Ok(())
}

/// Converts an action and its arguments to the engine's form.
pub(super) fn call(actions: &[Action], action: &p4::Action) -> Result<ActionCall, Refusal> {
    let id = action.action_id;
    let known = actions.iter().find(|known| known.id == id);
    let known = known.ok_or_else(|| Refusal::invalid(format!("it has no action with id {id}")))?;
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
    let violated = known.restriction.as_ref().and_then(|known| known.violated_by_call(&args));
    if let Some(part) = violated {
        return refuse(format!("the arguments violate its @action_restriction: `{part}`"));
    }
    Ok(ActionCall { action: known.index, args })
}

/// Converts an action to the wire form; `None` if the P4Info lacks it.
pub(super) fn to_call(actions: &[Action], call: &ActionCall) -> Option<p4::Action> {
    let action = actions.iter().find(|action| action.index == call.action)?;
    let params = action.params.iter().zip(&call.args);
    let params =
        params.map(|(param, value)| p4::action::Param { param_id: param.id, value: encode(value) });
    Some(p4::Action { action_id: action.id, params: params.collect() })
}

/// Converts an entry's action to the wire form.
pub(super) fn to_action(
    from: &Forwarding,
    table: &Table,
    action: &dataplane::Action,
    annotation: &Annotation,
) -> Option<p4::TableAction> {
    use p4::action_profile_action::WatchKind;
    use table_action::Type;
    let action = match action {
        dataplane::Action::Direct(call) => Type::Action(to_call(&table.actions, call)?),
        dataplane::Action::Member(id) => Type::ActionProfileMemberId(*id),
        dataplane::Action::Group(id) => Type::ActionProfileGroupId(*id),
        dataplane::Action::Set(set) => {
            let profile = from.objects().profile(table.profile?).ok()?;
            let port = |port| WatchKind::WatchPort(encode_port(from.architecture(), port));
            let one = |weighted: &WeightedCall| p4::ActionProfileAction {
                action: to_call(&table.actions, &weighted.call),
                weight: profile.weight_to(weighted.weight),
                watch_kind: weighted.watch.map(port),
            };
            Type::ActionProfileActionSet(p4::ActionProfileActionSet {
                group_action: match &set.group_action {
                    Some(first) => Some(to_call(&table.actions, first)?),
                    None => None,
                },
                action_profile_actions: set.calls.iter().map(one).collect(),
                action_selection_mode: annotation.selection_mode,
                size_semantics: annotation.size_semantics,
            })
        }
    };
    Some(p4::TableAction { r#type: Some(action) })
}
