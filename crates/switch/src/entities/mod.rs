//! P4Runtime entities: what a controller reads and writes, by the ids of the P4Info.
//!
//! A file per kind of entity. [`objects`] holds what the P4Info says about each object and where the
//! engine keeps it; [`values`] are the byte strings.

mod arrays;
mod objects;
mod refusal;
mod replication;
mod tables;
mod values;

use tributary_p4runtime_proto::p4::v1::{Entity, Update, entity, update};

pub(crate) use self::objects::{MetadataField, Objects};
pub use self::refusal::Refusal;
pub(crate) use self::tables::Annotations;
pub(crate) use self::values::{decode, encode};
use crate::config::SwitchConfig;
use crate::forwarding::Forwarding;

/// What an update wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Insert,
    Modify,
    Delete,
}

/// Makes one update. A refused one has changed nothing.
pub(crate) fn write(
    to: &mut Forwarding,
    config: &SwitchConfig,
    update: &Update,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    let change = match update.r#type() {
        update::Type::Insert => Change::Insert,
        update::Type::Modify => Change::Modify,
        update::Type::Delete => Change::Delete,
        update::Type::Unspecified => {
            return Err(Refusal::invalid("the update has no type (insert, modify or delete)"));
        }
    };
    match entity_of(update.entity.as_ref())? {
        E::TableEntry(entry) => tables::write(to, change, entry),
        E::DirectCounterEntry(entry) => tables::write_counter(to, change, entry),
        E::CounterEntry(entry) => arrays::write_counter(to, change, entry),
        E::RegisterEntry(entry) => arrays::write_register(to, change, entry),
        E::PacketReplicationEngineEntry(entry) => replication::write(to, config, change, entry),
        other => Err(unsupported(other)),
    }
}

/// Appends the entities that a template asks for.
pub(crate) fn read(
    from: &Forwarding,
    template: &Entity,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    match entity_of(Some(template))? {
        E::TableEntry(entry) => tables::read(from, entry, out),
        E::DirectCounterEntry(entry) => tables::read_counters(from, entry, out),
        E::CounterEntry(entry) => arrays::read_counters(from, entry, out),
        E::RegisterEntry(entry) => arrays::read_registers(from, entry, out),
        E::PacketReplicationEngineEntry(entry) => replication::read(from, entry, out),
        // Controllers ask for everything of every kind to see what is there: nothing is.
        other if asks_for_all(other) => Ok(()),
        other => Err(unsupported(other)),
    }
}

/// Whether a template of a kind that is not supported names no object.
fn asks_for_all(template: &entity::Entity) -> bool {
    use entity::Entity as E;
    match template {
        E::ExternEntry(entry) => entry.extern_type_id == 0 && entry.extern_id == 0,
        E::ActionProfileMember(entry) => entry.action_profile_id == 0,
        E::ActionProfileGroup(entry) => entry.action_profile_id == 0,
        E::MeterEntry(entry) => entry.meter_id == 0,
        E::DirectMeterEntry(entry) => entry.table_entry.as_ref().is_none_or(|t| t.table_id == 0),
        E::ValueSetEntry(entry) => entry.value_set_id == 0,
        E::DigestEntry(entry) => entry.digest_id == 0,
        E::TableEntry(_)
        | E::CounterEntry(_)
        | E::DirectCounterEntry(_)
        | E::PacketReplicationEngineEntry(_)
        | E::RegisterEntry(_) => false,
    }
}

fn entity_of(entity: Option<&Entity>) -> Result<&entity::Entity, Refusal> {
    entity.and_then(|e| e.entity.as_ref()).ok_or_else(|| Refusal::invalid("the entity is not set"))
}

fn unsupported(entity: &entity::Entity) -> Refusal {
    use entity::Entity as E;
    let kind = match entity {
        E::ExternEntry(_) => "externs of other architectures",
        E::ActionProfileMember(_) => "action profile members",
        E::ActionProfileGroup(_) => "action profile groups",
        E::MeterEntry(_) => "meters",
        E::DirectMeterEntry(_) => "direct meters",
        E::ValueSetEntry(_) => "parser value sets",
        E::DigestEntry(_) => "digests",
        E::TableEntry(_)
        | E::CounterEntry(_)
        | E::DirectCounterEntry(_)
        | E::PacketReplicationEngineEntry(_)
        | E::RegisterEntry(_) => "this form of the entity",
    };
    Refusal::unimplemented(format!("{kind}: not supported by this switch"))
}
