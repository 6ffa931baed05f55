//! P4Runtime entities: what a controller reads and writes, by the ids of the P4Info.
//!
//! From below: [`values`] and [`data`] convert byte strings; [`objects`] contains the P4Info of each
//! object and its place in the engine; there is one file per kind of entity; [`read`], [`state`] and
//! [`batch`] go over all kinds.

mod actions;
mod annotations;
mod arrays;
mod batch;
mod counters;
mod cursor;
mod data;
mod digests;
mod direct;
mod matches;
mod meters;
mod names;
mod objects;
mod ports;
mod profiles;
mod read;
mod refusal;
mod registers;
mod replication;
mod state;
mod tables;
mod undo;
mod value_sets;
mod values;

use tributary_p4runtime::p4::v1::{DigestEntry, Entity, Update, entity, update};

pub(crate) use self::annotations::Annotations;
pub(crate) use self::batch::{ReadBatch, WriteBatch};
pub(crate) use self::digests::{Digests, digest_data};
pub(crate) use self::names::Names;
pub(crate) use self::objects::{MetadataField, Objects};
pub(crate) use self::read::PART_BYTES;
use self::read::read_part;
pub use self::refusal::Refusal;
pub(crate) use self::state::{everything_written, initial_entries, initial_state, numbers_used};
pub(crate) use self::tables::idle;
use self::undo::undo;
pub(crate) use self::values::{decode, encode};
use crate::config::SwitchConfig;
use crate::forwarding::Forwarding;

/// The kind of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Insert,
    Modify,
    Delete,
}

impl Change {
    fn of(update: &Update) -> Result<Self, Refusal> {
        match update.r#type() {
            update::Type::Insert => Ok(Self::Insert),
            update::Type::Modify => Ok(Self::Modify),
            update::Type::Delete => Ok(Self::Delete),
            update::Type::Unspecified => {
                Err(Refusal::invalid("the update has no type (insert, modify or delete)"))
            }
        }
    }
}

/// Makes one update. A refused update changes nothing.
pub(crate) fn write(
    to: &mut Forwarding,
    config: &SwitchConfig,
    update: &Update,
) -> Result<(), Refusal> {
    use entity::Entity as E;
    let change = Change::of(update)?;
    let architecture = to.architecture();
    let port_of = &|number| config.port_of(architecture, number);
    match entity_of(update.entity.as_ref())? {
        E::TableEntry(entry) => tables::write(to, port_of, change, entry),
        E::ActionProfileMember(entry) => profiles::write_member(to, change, entry),
        E::ActionProfileGroup(entry) => profiles::write_group(to, port_of, change, entry),
        E::MeterEntry(entry) => meters::write(to, change, entry),
        E::DirectMeterEntry(entry) => direct::write_meter(to, change, entry),
        E::CounterEntry(entry) => counters::write(to, change, entry),
        E::DirectCounterEntry(entry) => direct::write_counter(to, change, entry),
        E::PacketReplicationEngineEntry(entry) => replication::write(to, config, change, entry),
        E::ValueSetEntry(entry) => value_sets::write(to, change, entry),
        E::RegisterEntry(entry) => registers::write(to, change, entry),
        E::DigestEntry(entry) => write_digest(to, change, entry),
        E::ExternEntry(_) => Err(no_externs()),
    }
}

fn write_digest(to: &mut Forwarding, change: Change, entry: &DigestEntry) -> Result<(), Refusal> {
    let digest = to.objects().digest(entry.digest_id)?;
    if digest.form.is_none() {
        let name = &digest.name;
        return Err(Refusal::unimplemented(format!(
            "digest `{name}`: only numbers, structs and tuples are supported"
        )));
    }
    to.digests_mut().write(change, entry)
}

fn no_externs() -> Refusal {
    Refusal::unimplemented("externs of other architectures: not supported by this switch")
}

fn entity_of(entity: Option<&Entity>) -> Result<&entity::Entity, Refusal> {
    entity.and_then(|e| e.entity.as_ref()).ok_or_else(|| Refusal::invalid("the entity is not set"))
}
