//! Registers.

use tributary_dataplane::Value;
use tributary_p4runtime_proto::p4::v1::{
    Entity, P4Data, P4StructLike, RegisterEntry, entity, p4_data,
};

use super::arrays::{Cells, index_of, only_modify, range};
use super::objects::{Array, Register, Scalar, Scalars};
use super::values::{decode_scalar, encode_scalar};
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

/// The cells of registers.
pub(super) struct RegisterCells;

impl Cells for RegisterCells {
    fn arrays(from: &Forwarding) -> impl Iterator<Item = &Array> {
        from.objects().registers().map(|register| &register.array)
    }

    fn array(from: &Forwarding, id: u32) -> Result<&Array, Refusal> {
        from.objects().register(id).map(|register| &register.array)
    }

    fn cell(from: &Forwarding, array: &Array, index: u64) -> Result<Entity, Refusal> {
        let scalars = scalars(from.objects().register(array.id)?)?;
        let one = |(at, &scalar): (usize, &Scalar)| {
            let value = from.pipeline().register_read_scalar(array.at, index, at)?;
            Ok(P4Data { data: Some(encode_scalar(&value, scalar)) })
        };
        let members = scalars.list().iter().enumerate().map(one);
        let mut members = members.collect::<Result<Vec<_>, Refusal>>()?;
        let data = match scalars {
            Scalars::One(_) => members.pop(),
            Scalars::Struct(_) => {
                Some(P4Data { data: Some(p4_data::Data::Struct(P4StructLike { members })) })
            }
        };
        let entry = RegisterEntry { register_id: array.id, index: index_of(index), data };
        Ok(Entity { entity: Some(entity::Entity::RegisterEntry(entry)) })
    }
}

pub(super) fn write(
    to: &mut Forwarding,
    change: Change,
    entry: &RegisterEntry,
) -> Result<(), Refusal> {
    only_modify(change, "registers")?;
    let (objects, pipeline) = to.parts_mut();
    let register = objects.register(entry.register_id)?;
    let range = range(&register.array, entry.index.as_ref())?;
    let data = entry.data.as_ref();
    let data = data.ok_or_else(|| Refusal::invalid("the register entry has no data"))?;
    let values =
        values(register, data).map_err(|r| r.of(&format!("register `{}`", register.array.name)))?;
    for index in range {
        for (scalar, value) in values.iter().enumerate() {
            pipeline.register_write_scalar(register.array.at, index, scalar, value)?;
        }
    }
    Ok(())
}

/// The scalars of an element, from the wire form.
fn values(register: &Register, data: &P4Data) -> Result<Vec<Value>, Refusal> {
    match (scalars(register)?, &data.data) {
        (Scalars::One(scalar), Some(data)) => Ok(vec![decode_scalar(data, *scalar)?]),
        (Scalars::Struct(scalars), Some(p4_data::Data::Struct(given))) => {
            let (expected, got) = (scalars.len(), given.members.len());
            if expected != got {
                return Err(Refusal::invalid(format!("{got} members, not {expected}")));
            }
            let member = |(scalar, member): (&Scalar, &P4Data)| match &member.data {
                Some(data) => decode_scalar(data, *scalar),
                None => Err(Refusal::invalid("a member has no data")),
            };
            scalars.iter().zip(&given.members).map(member).collect()
        }
        (Scalars::Struct(_), Some(_)) => Err(Refusal::invalid("data of another type")),
        (_, None) => Err(Refusal::invalid("the data is not set")),
    }
}

fn scalars(register: &Register) -> Result<&Scalars, Refusal> {
    register.scalars.as_ref().ok_or_else(|| {
        let name = &register.array.name;
        Refusal::unimplemented(format!(
            "register `{name}`: only bit<W>, int<W>, bool and structs of these are supported"
        ))
    })
}
