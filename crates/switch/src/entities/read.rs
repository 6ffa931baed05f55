//! Queries: which objects a template means, in parts of bounded size.

use std::ops::Range;

use tributary_p4runtime_proto::p4::v1::{Entity, entity};

use super::arrays::Cells as _;
use super::counters::CounterCells;
use super::meters::{MeterCells, no_counters};
use super::registers::RegisterCells;
use super::{Refusal, direct, entity_of, no_externs, profiles, replication, tables, value_sets};
use crate::forwarding::Forwarding;

/// Elements of an array that are read at once.
const CELLS: u64 = 1024;

/// A part of what a template asks for.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// All of it.
    Whole(Box<entity::Entity>),
    /// Elements of a counter array, by its id.
    Counters(u32, Range<u64>),
    /// Elements of a meter array, by its id.
    Meters(u32, Range<u64>),
    /// Elements of a register, by its id.
    Registers(u32, Range<u64>),
}

/// What is to be read for a template.
pub(crate) fn parts_of(from: &Forwarding, template: &Entity) -> Result<Vec<Part>, Refusal> {
    use entity::Entity as E;
    let template = entity_of(Some(template))?;
    match template {
        E::CounterEntry(entry) => {
            let cells = CounterCells::chosen(from, entry.counter_id, entry.index.as_ref())?;
            Ok(split(cells, Part::Counters))
        }
        E::MeterEntry(entry) => {
            if entry.counter_data.is_some() {
                return Err(no_counters());
            }
            let cells = MeterCells::chosen(from, entry.meter_id, entry.index.as_ref())?;
            Ok(split(cells, Part::Meters))
        }
        E::RegisterEntry(entry) => {
            let cells = RegisterCells::chosen(from, entry.register_id, entry.index.as_ref())?;
            Ok(split(cells, Part::Registers))
        }
        other => Ok(vec![Part::Whole(Box::new(other.clone()))]),
    }
}

fn split(arrays: Vec<(u32, Range<u64>)>, part: impl Fn(u32, Range<u64>) -> Part) -> Vec<Part> {
    let slices = |(id, cells): (u32, Range<u64>)| {
        let part = &part;
        let end = cells.end;
        cells.step_by(CELLS as usize).map(move |at| part(id, at..end.min(at + CELLS)))
    };
    arrays.into_iter().flat_map(slices).collect()
}

/// Appends the entities of a part.
pub(crate) fn read_part(
    from: &Forwarding,
    part: &Part,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    match part {
        Part::Counters(id, cells) => CounterCells::read(from, *id, cells.clone(), out),
        Part::Meters(id, cells) => MeterCells::read(from, *id, cells.clone(), out),
        Part::Registers(id, cells) => RegisterCells::read(from, *id, cells.clone(), out),
        Part::Whole(entity) => read_whole(from, entity, out),
    }
}

fn read_whole(
    from: &Forwarding,
    template: &entity::Entity,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    match template {
        E::TableEntry(entry) => tables::read(from, entry, out),
        E::ActionProfileMember(entry) => profiles::read_members(from, entry, out),
        E::ActionProfileGroup(entry) => profiles::read_groups(from, entry, out),
        E::DirectMeterEntry(entry) => direct::read_meters(from, entry, out),
        E::DirectCounterEntry(entry) => direct::read_counters(from, entry, out),
        E::PacketReplicationEngineEntry(entry) => replication::read(from, entry, out),
        E::ValueSetEntry(entry) => value_sets::read(from, entry, out),
        E::DigestEntry(entry) => {
            if entry.digest_id != 0 {
                from.objects().digest(entry.digest_id)?;
            }
            out.extend(from.digests().read(entry.digest_id));
            Ok(())
        }
        // Controllers ask for everything of every kind to see what is there: nothing is.
        E::ExternEntry(entry) if entry.extern_type_id == 0 && entry.extern_id == 0 => Ok(()),
        E::ExternEntry(_) => Err(no_externs()),
        // These are read by their cells.
        E::CounterEntry(_) | E::MeterEntry(_) | E::RegisterEntry(_) => Ok(()),
    }
}
