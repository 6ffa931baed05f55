//! Counter arrays.

use tributary_dataplane as dataplane;
use tributary_p4runtime::p4::v1::{CounterData, CounterEntry, Entity, entity};

use super::arrays::{Cells, index_of, only_modify, range};
use super::objects::Array;
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

/// The cells of counters.
pub(super) struct CounterCells;

impl Cells for CounterCells {
    fn arrays(from: &Forwarding) -> impl Iterator<Item = &Array> {
        from.objects().counters()
    }

    fn array(from: &Forwarding, id: u32) -> Result<&Array, Refusal> {
        from.objects().counter(id)
    }

    fn cell(from: &Forwarding, array: &Array, index: u64) -> Result<Entity, Refusal> {
        let data = from.pipeline().counter_read(array.at, index)?;
        let entry = CounterEntry {
            counter_id: array.id,
            index: index_of(index),
            data: Some(counter_to(data)),
        };
        Ok(Entity { entity: Some(entity::Entity::CounterEntry(entry)) })
    }
}

pub(super) fn write(
    to: &mut Forwarding,
    change: Change,
    entry: &CounterEntry,
) -> Result<(), Refusal> {
    only_modify(change, "counters")?;
    let (objects, pipeline) = to.parts_mut();
    let array = objects.counter(entry.counter_id)?;
    let range = range(array, entry.index.as_ref())?;
    let Some(data) = &entry.data else { return Ok(()) };
    let data = counter_from(data)?;
    for index in range {
        pipeline.counter_write(array.at, index, data)?;
    }
    Ok(())
}

/// Converts a counter's value from the wire form.
pub(super) fn counter_from(data: &CounterData) -> Result<dataplane::CounterData, Refusal> {
    let count =
        |n: i64| u64::try_from(n).map_err(|_| Refusal::invalid(format!("a counter cannot be {n}")));
    Ok(dataplane::CounterData {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

/// Converts a counter's value to the wire form.
pub(super) fn counter_to(data: dataplane::CounterData) -> CounterData {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    CounterData { byte_count: count(data.bytes), packet_count: count(data.packets) }
}
