//! Queries: the objects selected by a template, in parts of bounded size.

use std::ops::Range;

use tributary_dataplane::Changed;
use tributary_p4runtime::p4::v1::{DirectCounterEntry, DirectMeterEntry, Entity, entity};

use super::arrays::Cells;
use super::counters::CounterCells;
use super::cursor::{Cursor, size};
use super::meters::{MeterCells, no_counters};
use super::registers::RegisterCells;
use super::{Refusal, direct, entity_of, no_externs, profiles, replication, tables, value_sets};
use crate::forwarding::Forwarding;

/// Elements of an array, or entries of a table, examined per part.
const CELLS: usize = 1024;

/// Size in memory at which a part ends.
pub(crate) const PART_BYTES: usize = 128 << 10;

/// Elements of an array that are read between two checks of the size.
const FEW: u64 = 16;

/// A part of a query.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// The entries of one table, from a position on.
    Table(Box<entity::Entity>, usize),
    /// Another kind of object: all but the given number, which were already read.
    Whole(Box<entity::Entity>, usize),
    /// Elements of a counter array, by its id.
    Counters(u32, Range<u64>),
    /// Elements of a meter array, by its id.
    Meters(u32, Range<u64>),
    /// Elements of a register, by its id.
    Registers(u32, Range<u64>),
}

impl Part {
    /// Adds what packets change and one step reads of the part.
    pub(crate) fn add_to(&self, changed: &mut Changed) {
        match self {
            Self::Table(..) | Self::Counters(..) => changed.counts = true,
            Self::Registers(_, cells) => {
                let end = cells.end.min(cells.start.saturating_add(CELLS as u64));
                let rows = &mut changed.rows;
                *rows = match rows.is_empty() {
                    true => cells.start..end,
                    false => rows.start.min(cells.start)..rows.end.max(end),
                };
            }
            Self::Meters(..) | Self::Whole(..) => {}
        }
    }
}

/// The parts of a template.
pub(crate) fn parts_of(from: &Forwarding, template: &Entity) -> Result<Vec<Part>, Refusal> {
    use entity::Entity as E;
    let template = entity_of(Some(template))?;
    let table = |entity: entity::Entity| Part::Table(Box::new(entity), 0);
    Ok(match template {
        E::CounterEntry(entry) => {
            let cells = CounterCells::chosen(from, entry.counter_id, entry.index.as_ref())?;
            cells.into_iter().map(|(id, cells)| Part::Counters(id, cells)).collect()
        }
        E::MeterEntry(entry) => {
            if entry.counter_data.is_some() {
                return Err(no_counters());
            }
            let cells = MeterCells::chosen(from, entry.meter_id, entry.index.as_ref())?;
            cells.into_iter().map(|(id, cells)| Part::Meters(id, cells)).collect()
        }
        E::RegisterEntry(entry) => {
            let cells = RegisterCells::chosen(from, entry.register_id, entry.index.as_ref())?;
            cells.into_iter().map(|(id, cells)| Part::Registers(id, cells)).collect()
        }
        E::TableEntry(entry) => {
            let each = tables::of_each_table(from, entry)?;
            each.into_iter().map(|entry| table(E::TableEntry(entry))).collect()
        }
        E::DirectCounterEntry(entry) => {
            let each = direct::counted_tables(from, entry.table_entry.as_ref());
            let part = |entry| {
                let table_entry = Some(entry);
                table(E::DirectCounterEntry(DirectCounterEntry { table_entry, data: None }))
            };
            each.into_iter().map(part).collect()
        }
        E::DirectMeterEntry(entry) => {
            if entry.counter_data.is_some() {
                return Err(no_counters());
            }
            let each = direct::metered_tables(from, entry.table_entry.as_ref());
            let part = |entry| {
                let table_entry = Some(entry);
                let entry = DirectMeterEntry { table_entry, ..Default::default() };
                table(E::DirectMeterEntry(entry))
            };
            each.into_iter().map(part).collect()
        }
        other => vec![Part::Whole(Box::new(other.clone()), 0)],
    })
}

/// Appends all entities of a part.
pub(crate) fn read_all(
    from: &Forwarding,
    part: Part,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let mut rest = Some(part);
    while let Some(part) = rest {
        rest = read_part(from, part, out)?;
    }
    Ok(())
}

/// Appends some of the entities of a part. Returns the rest of the part.
pub(crate) fn read_part(
    from: &Forwarding,
    part: Part,
    out: &mut Vec<Entity>,
) -> Result<Option<Part>, Refusal> {
    Ok(match part {
        Part::Counters(id, cells) => {
            let rest = read_cells::<CounterCells>(from, id, cells, out)?;
            rest.map(|cells| Part::Counters(id, cells))
        }
        Part::Meters(id, cells) => {
            let rest = read_cells::<MeterCells>(from, id, cells, out)?;
            rest.map(|cells| Part::Meters(id, cells))
        }
        Part::Registers(id, cells) => {
            let rest = read_cells::<RegisterCells>(from, id, cells, out)?;
            rest.map(|cells| Part::Registers(id, cells))
        }
        Part::Table(entity, place) => {
            let mut cursor = Cursor { place, left: CELLS, bytes: PART_BYTES, more: false };
            read_table(from, &entity, &mut cursor, out)?;
            cursor.more.then_some(Part::Table(entity, cursor.place))
        }
        Part::Whole(entity, known) => {
            let mut all = Vec::new();
            read_whole(from, &entity, &mut all)?;
            let count = all.len();
            let mut bytes = 0;
            let fits = |entity: &Entity| {
                let fits = bytes < PART_BYTES;
                bytes += size(entity);
                fits
            };
            let before = out.len();
            out.extend(all.into_iter().skip(known).take(CELLS).take_while(fits));
            let known = known + out.len() - before;
            (known < count).then_some(Part::Whole(entity, known))
        }
    })
}

/// Appends the first elements of an array. Returns the remaining ones.
fn read_cells<C: Cells>(
    from: &Forwarding,
    id: u32,
    cells: Range<u64>,
    out: &mut Vec<Entity>,
) -> Result<Option<Range<u64>>, Refusal> {
    let (mut at, mut bytes) = (cells.start, 0);
    while at < cells.end && at - cells.start < CELLS as u64 && bytes < PART_BYTES {
        let (known, end) = (out.len(), cells.end.min(at + FEW));
        C::read(from, id, at..end, out)?;
        bytes += out[known..].iter().map(size).sum::<usize>();
        at = end;
    }
    Ok((at < cells.end).then_some(at..cells.end))
}

fn read_table(
    from: &Forwarding,
    template: &entity::Entity,
    cursor: &mut Cursor,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    match template {
        E::TableEntry(entry) => tables::read(from, entry, cursor, out),
        E::DirectMeterEntry(entry) => {
            direct::read_meters(from, entry.table_entry.as_ref(), cursor, out)
        }
        E::DirectCounterEntry(entry) => {
            direct::read_counters(from, entry.table_entry.as_ref(), cursor, out)
        }
        _ => Ok(()),
    }
}

fn read_whole(
    from: &Forwarding,
    template: &entity::Entity,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    match template {
        E::ActionProfileMember(entry) => profiles::read_members(from, entry, out),
        E::ActionProfileGroup(entry) => profiles::read_groups(from, entry, out),
        E::PacketReplicationEngineEntry(entry) => replication::read(from, entry, out),
        E::ValueSetEntry(entry) => value_sets::read(from, entry, out),
        E::DigestEntry(entry) => {
            if entry.digest_id != 0 {
                from.objects().digest(entry.digest_id)?;
            }
            out.extend(from.digests().read(entry.digest_id));
            Ok(())
        }
        // Controllers query all kinds to see what exists; there are no externs.
        E::ExternEntry(entry) if entry.extern_type_id == 0 && entry.extern_id == 0 => Ok(()),
        E::ExternEntry(_) => Err(no_externs()),
        // Handled as cells and tables.
        E::CounterEntry(_)
        | E::MeterEntry(_)
        | E::RegisterEntry(_)
        | E::TableEntry(_)
        | E::DirectMeterEntry(_)
        | E::DirectCounterEntry(_) => Ok(()),
    }
}
