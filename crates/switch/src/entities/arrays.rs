//! Counter arrays and registers: state with an index.

use std::ops::Range;

use tributary_dataplane::{self as dataplane, Value};
use tributary_p4runtime_proto::p4::v1::{
    CounterData, CounterEntry, Entity, Index, P4Data, P4StructLike, RegisterEntry, entity, p4_data,
};

use super::objects::{Array, Element, Register};
use super::{Change, Refusal, decode, encode};
use crate::forwarding::Forwarding;

pub(super) fn write_counter(
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

pub(super) fn read_counters(
    from: &Forwarding,
    template: &CounterEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    if template.counter_id != 0 {
        return read_counter(from, from.objects().counter(template.counter_id)?, template, out);
    }
    no_index_for_all(template.index.as_ref())?;
    from.objects().counters().try_for_each(|array| read_counter(from, array, template, out))
}

fn read_counter(
    from: &Forwarding,
    array: &Array,
    template: &CounterEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    for index in range(array, template.index.as_ref())? {
        let data = from.pipeline().counter_read(array.at, index)?;
        let entry = CounterEntry {
            counter_id: array.id,
            index: Some(Index { index: index as i64 }),
            data: Some(counter_to(data)),
        };
        out.push(Entity { entity: Some(entity::Entity::CounterEntry(entry)) });
    }
    Ok(())
}

pub(super) fn write_register(
    to: &mut Forwarding,
    change: Change,
    entry: &RegisterEntry,
) -> Result<(), Refusal> {
    only_modify(change, "registers")?;
    let (objects, pipeline) = to.parts_mut();
    let register = objects.register(entry.register_id)?;
    let range = range(&register.array, entry.index.as_ref())?;
    let data = entry.data.as_ref().and_then(|d| d.data.as_ref());
    let data = data.ok_or_else(|| Refusal::invalid("the register entry has no data"))?;
    let name = &register.array.name;
    let other_type = || Refusal::invalid(format!("register `{name}`: data of another type"));
    let values = match (element(register)?, data) {
        (Element::Bits(width), p4_data::Data::Bitstring(bytes)) => {
            vec![decode(bytes, *width, name)?]
        }
        (Element::Bool, &p4_data::Data::Bool(value)) => vec![Value::from(u64::from(value))],
        (Element::Struct(widths), p4_data::Data::Struct(data))
            if widths.len() == data.members.len() =>
        {
            let member = |(width, member): (&u32, &P4Data)| match &member.data {
                Some(p4_data::Data::Bitstring(bytes)) => decode(bytes, *width, name),
                _ => Err(other_type()),
            };
            widths.iter().zip(&data.members).map(member).collect::<Result<_, _>>()?
        }
        _ => return Err(other_type()),
    };
    for index in range {
        for (scalar, value) in values.iter().enumerate() {
            pipeline.register_write_scalar(register.array.at, index, scalar, value)?;
        }
    }
    Ok(())
}

pub(super) fn read_registers(
    from: &Forwarding,
    template: &RegisterEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    if template.register_id != 0 {
        return read_register(from, from.objects().register(template.register_id)?, template, out);
    }
    no_index_for_all(template.index.as_ref())?;
    from.objects().registers().try_for_each(|register| read_register(from, register, template, out))
}

fn read_register(
    from: &Forwarding,
    register: &Register,
    template: &RegisterEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let element = element(register)?;
    for index in range(&register.array, template.index.as_ref())? {
        let scalar =
            |scalar| from.pipeline().register_read_scalar(register.array.at, index, scalar);
        let data = match element {
            Element::Bits(_) => p4_data::Data::Bitstring(encode(&scalar(0)?)),
            Element::Bool => p4_data::Data::Bool(scalar(0)? != Value::zero()),
            Element::Struct(widths) => {
                let member = |at| {
                    let data = Some(p4_data::Data::Bitstring(encode(&scalar(at)?)));
                    Ok(P4Data { data })
                };
                let members = (0..widths.len()).map(member).collect::<Result<_, Refusal>>()?;
                p4_data::Data::Struct(P4StructLike { members })
            }
        };
        let entry = RegisterEntry {
            register_id: register.array.id,
            index: Some(Index { index: index as i64 }),
            data: Some(P4Data { data: Some(data) }),
        };
        out.push(Entity { entity: Some(entity::Entity::RegisterEntry(entry)) });
    }
    Ok(())
}

fn element(register: &Register) -> Result<&Element, Refusal> {
    register.element.as_ref().ok_or_else(|| {
        let name = &register.array.name;
        Refusal::unimplemented(format!(
            "register `{name}`: only bit<W>, int<W>, bool and structs of the first two are supported"
        ))
    })
}

fn only_modify(change: Change, what: &str) -> Result<(), Refusal> {
    match change {
        Change::Modify => Ok(()),
        _ => Err(Refusal::invalid(format!("{what} can only be modified"))),
    }
}

/// The elements that an index means: one, or all where it is absent.
fn range(array: &Array, index: Option<&Index>) -> Result<Range<u64>, Refusal> {
    let Some(&Index { index }) = index else { return Ok(0..array.size) };
    let name = &array.name;
    let index = u64::try_from(index)
        .map_err(|_| Refusal::invalid(format!("`{name}`: index {index} is negative")))?;
    if index < array.size {
        Ok(index..index + 1)
    } else {
        let size = array.size;
        Err(Refusal::out_of_range(format!("`{name}`: index {index} is beyond its {size} elements")))
    }
}

fn no_index_for_all(index: Option<&Index>) -> Result<(), Refusal> {
    match index {
        None => Ok(()),
        Some(_) => Err(Refusal::invalid("an index needs the id of an array")),
    }
}

/// A counter's value from the wire.
pub(super) fn counter_from(data: &CounterData) -> Result<dataplane::CounterData, Refusal> {
    let count =
        |n: i64| u64::try_from(n).map_err(|_| Refusal::invalid(format!("a counter cannot be {n}")));
    Ok(dataplane::CounterData {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

/// A counter's value for the wire.
pub(super) fn counter_to(data: dataplane::CounterData) -> CounterData {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    CounterData { byte_count: count(data.bytes), packet_count: count(data.packets) }
}
