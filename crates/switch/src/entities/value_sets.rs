//! Parser value sets, which are always written as a whole.

use tributary_dataplane::{KeyMatch, Pipeline};
use tributary_p4::ir::ExternId;
use tributary_p4runtime::p4::v1::{Entity, ValueSetEntry, ValueSetMember, entity};

use super::arrays::only_modify;
use super::matches::{matches, to_field};
use super::objects::ValueSet;
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

pub(super) fn write(
    to: &mut Forwarding,
    change: Change,
    entry: &ValueSetEntry,
) -> Result<(), Refusal> {
    only_modify(change, "value sets")?;
    let (objects, pipeline) = to.parts_mut();
    let set = objects.value_set(entry.value_set_id)?;
    replace(pipeline, set, entry).map_err(|r| r.of(&format!("value set `{}`", set.name)))
}

fn replace(pipeline: &mut Pipeline, set: &ValueSet, entry: &ValueSetEntry) -> Result<(), Refusal> {
    let members = entry.members.iter().map(|member| matches(&set.keys, &member.r#match));
    let members = members.collect::<Result<Vec<_>, Refusal>>()?;
    let before = pipeline.value_set_entries(set.at)?.to_vec();
    clear(pipeline, set.at)?;
    if let Err(refusal) = fill(pipeline, set.at, members) {
        clear(pipeline, set.at)?;
        fill(pipeline, set.at, before)?;
        return Err(refusal);
    }
    Ok(())
}

fn clear(pipeline: &mut Pipeline, set: ExternId) -> Result<(), Refusal> {
    for member in pipeline.value_set_entries(set)?.to_vec() {
        pipeline.value_set_delete(set, &member)?;
    }
    Ok(())
}

fn fill(
    pipeline: &mut Pipeline,
    set: ExternId,
    members: Vec<Vec<KeyMatch>>,
) -> Result<(), Refusal> {
    members.into_iter().try_for_each(|member| Ok(pipeline.value_set_insert(set, member)?))
}

pub(super) fn read(
    from: &Forwarding,
    template: &ValueSetEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    if template.value_set_id != 0 {
        return read_one(from, from.objects().value_set(template.value_set_id)?, out);
    }
    from.objects().value_sets().try_for_each(|set| read_one(from, set, out))
}

fn read_one(from: &Forwarding, set: &ValueSet, out: &mut Vec<Entity>) -> Result<(), Refusal> {
    let member = |member: &Vec<KeyMatch>| {
        let fields = set.keys.iter().zip(member);
        ValueSetMember { r#match: fields.filter_map(|(key, found)| to_field(key, found)).collect() }
    };
    let members = from.pipeline().value_set_entries(set.at)?.iter().map(member).collect();
    let entry = ValueSetEntry { value_set_id: set.id, members };
    out.push(Entity { entity: Some(entity::Entity::ValueSetEntry(entry)) });
    Ok(())
}
