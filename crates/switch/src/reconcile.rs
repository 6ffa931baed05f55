//! Transfers the state of one program to another (P4Runtime's `RECONCILE_AND_COMMIT`).

use std::collections::BTreeMap;
use std::iter;

use tributary_dataplane::{Owner, Value};
use tributary_p4::ir::ExternId;
use tributary_p4runtime::p4::config::v1::{P4Info, Preamble};
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{Entity, Update, update};

use crate::config::SwitchConfig;
use crate::entities::{self, Refusal, WriteBatch};
use crate::forwarding::Forwarding;

/// Writes into `new` what controllers wrote into `old`, and what packets left in its registers and
/// counters. Counters that the new program lacks are dropped, because they affect no packet.
///
/// # Errors
/// `INVALID_ARGUMENT` if the new program cannot hold some of the state; its own state is undefined
/// then.
pub(crate) fn take_over(
    old: &Forwarding,
    new: &mut Forwarding,
    config: &SwitchConfig,
) -> Result<(), Refusal> {
    same_ids(old.p4info(), new.p4info()).map_err(lost)?;
    let used = entities::numbers_used(old, iter::empty());
    new.take_names(old, &used).map_err(lost)?;
    remove_entries(old, new, config)?;
    for (kind, entity) in entities::everything_written(old) {
        write(new, config, kind, entity)?;
    }
    counters(old, new);
    registers(old, new)
}

fn lost(what: impl std::fmt::Display) -> Refusal {
    Refusal::invalid(format!("the state cannot be taken over: {what}"))
}

fn write(
    to: &mut Forwarding,
    config: &SwitchConfig,
    kind: update::Type,
    entity: Entity,
) -> Result<(), Refusal> {
    let update = Update { r#type: kind.into(), entity: Some(entity) };
    let mut batch = WriteBatch::new(vec![update], Atomicity::ContinueOnError);
    batch.step(to, config, 1);
    batch.finish().into_iter().collect::<Result<(), Refusal>>().map_err(lost)
}

/// Removes the new program's initial entries from tables that the old one also has: the old
/// contents replace them, even if the controller had removed the old program's entries.
fn remove_entries(
    old: &Forwarding,
    new: &mut Forwarding,
    config: &SwitchConfig,
) -> Result<(), Refusal> {
    for entity in entities::initial_entries(old, new) {
        write(new, config, update::Type::Delete, entity)?;
    }
    Ok(())
}

fn counters(old: &Forwarding, new: &mut Forwarding) {
    for array in old.objects().counters() {
        let Ok(at) = new.objects().counter(array.id).map(|array| array.at) else { continue };
        for index in 0..array.size {
            if let Ok(data) = old.pipeline().counter_read(array.at, index) {
                // Elements beyond the end of a shorter array are dropped.
                drop(new.pipeline_mut().counter_write(at, index, data));
            }
        }
    }
    for table in old.objects().tables() {
        let data = old.pipeline().direct_counter_read(table.at, Owner::Default);
        let at = new.objects().table(table.id).map(|table| table.at);
        if let (Ok(data), Ok(at)) = (data, at) {
            drop(new.pipeline_mut().direct_counter_write(at, Owner::Default, data));
        }
    }
}

fn registers(old: &Forwarding, new: &mut Forwarding) -> Result<(), Refusal> {
    for register in old.objects().registers() {
        let array = &register.array;
        let known = new.objects().register(array.id).ok();
        let types = |of: &Forwarding, at: ExternId| {
            of.pipeline().program().externs[at.index()].type_args.clone()
        };
        let known = known.filter(|known| match (&known.form, &register.form) {
            // Types that controllers cannot see are alike if the programs have the same.
            (None, None) => types(new, known.array.at) == types(old, array.at),
            (known, form) => known == form,
        });
        let known = known.map(|register| register.array.at);
        let name = format!("register `{}`", array.name);
        let scalars = old.pipeline().register_scalars(array.at)?;
        for (index, scalar) in (0..array.size).flat_map(|i| (0..scalars).map(move |s| (i, s))) {
            let value = old.pipeline().register_read_scalar(array.at, index, scalar)?;
            let kept = known.is_some_and(|at| {
                new.pipeline_mut().register_write_scalar(at, index, scalar, &value).is_ok()
            });
            if !kept && value != Value::zero() {
                return Err(lost(format!("{name} holds {value} at {index}")));
            }
        }
    }
    Ok(())
}

/// Refuses programs that give an id of the old one to another object.
fn same_ids(old: &P4Info, new: &P4Info) -> Result<(), String> {
    let (old, new) = (names(old), names(new));
    let changed = old.iter().find(|(id, name)| new.get(id).is_some_and(|new| new != *name));
    match changed {
        None => Ok(()),
        Some((id, name)) => Err(format!("{id:?} is `{name}`, and would be `{}`", new[id])),
    }
}

/// Names by id: of objects, and of the parts of tables and actions.
fn names(info: &P4Info) -> BTreeMap<(u32, u32), String> {
    let mut names = BTreeMap::new();
    let mut note = |preamble: Option<&Preamble>| {
        let (id, name) = preamble.map_or((0, ""), |p| (p.id, p.name.as_str()));
        names.insert((id, 0), name.to_owned());
        id
    };
    let mut parts = Vec::new();
    for table in &info.tables {
        let id = note(table.preamble.as_ref());
        parts.extend(table.match_fields.iter().map(|field| ((id, field.id), field.name.clone())));
    }
    for action in &info.actions {
        let id = note(action.preamble.as_ref());
        parts.extend(action.params.iter().map(|param| ((id, param.id), param.name.clone())));
    }
    let profiles = info.action_profiles.iter().map(|profile| profile.preamble.as_ref());
    let counters = info.counters.iter().map(|counter| counter.preamble.as_ref());
    let meters = info.meters.iter().map(|meter| meter.preamble.as_ref());
    let registers = info.registers.iter().map(|register| register.preamble.as_ref());
    let sets = info.value_sets.iter().map(|set| set.preamble.as_ref());
    let digests = info.digests.iter().map(|digest| digest.preamble.as_ref());
    for preamble in
        profiles.chain(counters).chain(meters).chain(registers).chain(sets).chain(digests)
    {
        note(preamble);
    }
    names.extend(parts);
    names
}
