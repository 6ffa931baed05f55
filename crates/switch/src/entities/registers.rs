//! Registers.

use tributary_dataplane::Value;
use tributary_p4runtime::p4::v1::{Entity, P4Data, RegisterEntry, entity};

use super::arrays::{Cells, index_of, only_modify, range};
use super::data::{Form, decode_data, encode_data};
use super::objects::{Array, Register};
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
        let form = form(from.objects().register(array.id)?)?;
        let scalar = |at| from.pipeline().register_read_scalar(array.at, index, at);
        let values = (0..form.scalars()).map(scalar).collect::<Result<Vec<_>, _>>()?;
        let data = encode_data(&mut values.into_iter(), form);
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
    let mut values = Vec::new();
    decode_data(data, form(register)?, &mut values)?;
    Ok(values)
}

fn form(register: &Register) -> Result<&Form, Refusal> {
    register.form.as_ref().ok_or_else(|| {
        let name = &register.array.name;
        Refusal::unimplemented(format!(
            "register `{name}`: only bit<W>, int<W>, bool, serializable enums, structs and tuples are supported"
        ))
    })
}
