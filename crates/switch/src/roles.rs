//! What a controller's role may do (P4Runtime 1.4, "Role Config").
//!
//! The specification leaves the form of a configuration open. This is the one of Stratum
//! (`stratum.P4RoleConfig`), so that its controllers need no change.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message as _;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::{
    Entity, PacketIn, TableEntry, entity, stream_message_response::Update,
};

use crate::entities::Refusal;

/// Name of the message in the `type_url` of a configuration.
const TYPE: &str = "stratum.P4RoleConfig";

/// Maximum number of ids of a configuration.
const MAX_IDS: usize = 4096;

/// Maximum bytes of a configuration: every controller of the role is told of it. [`MAX_IDS`] take 24 KiB.
const MAX_BYTES: usize = 32 << 10;

/// Stratum's message.
#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, repeated, tag = "1")]
    exclusive_p4_ids: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared_p4_ids: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    packet_in_filter: Option<PacketFilter>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

/// Selects packets with this value of a metadata field.
#[derive(Clone, PartialEq, prost::Message)]
struct PacketFilter {
    #[prost(uint32, tag = "1")]
    metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The configuration of a role.
#[derive(Debug)]
pub(crate) struct RoleConfig {
    /// Objects of P4Info that this role alone may write, besides the default role.
    exclusive: BTreeSet<u32>,
    /// Objects that other roles may write, too.
    shared: BTreeSet<u32>,
    /// Packets that the role is sent, if it is sent any; unset for all.
    packet_in_filter: Option<PacketFilter>,
    receives_packet_ins: bool,
    can_push_pipeline: bool,
}

impl RoleConfig {
    /// The configuration in a role's message.
    pub(crate) fn of(any: &prost_types::Any) -> Result<Self, Refusal> {
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        if name != TYPE {
            return Err(Refusal::invalid(format!(
                "a role's configuration is a `{TYPE}`, not a `{name}`"
            )));
        }
        if any.type_url.len() + any.value.len() > MAX_BYTES {
            let message = format!("the role's configuration has more than {MAX_BYTES} bytes");
            return Err(Refusal::new(Code::ResourceExhausted, message));
        }
        let message = Message::decode(&any.value[..])
            .map_err(|error| Refusal::invalid(format!("the role's configuration: {error}")))?;
        let Message { exclusive_p4_ids, shared_p4_ids, .. } = &message;
        let count = exclusive_p4_ids.len() + shared_p4_ids.len();
        if count > MAX_IDS {
            let message = format!("the role's configuration has {count} ids, more than {MAX_IDS}");
            return Err(Refusal::new(Code::ResourceExhausted, message));
        }
        let mut seen = BTreeSet::new();
        let mut ids = exclusive_p4_ids.iter().chain(shared_p4_ids);
        match ids.find(|&&id| id == 0 || !seen.insert(id)) {
            Some(0) => Err(Refusal::invalid("the role's configuration has the id 0")),
            Some(id) => Err(Refusal::invalid(format!(
                "the role's configuration has the id {id:#010x} twice"
            ))),
            None => Ok(Self {
                exclusive: exclusive_p4_ids.iter().copied().collect(),
                shared: shared_p4_ids.iter().copied().collect(),
                packet_in_filter: message.packet_in_filter,
                receives_packet_ins: message.receives_packet_ins,
                can_push_pipeline: message.can_push_pipeline,
            }),
        }
    }

    /// An id that one of two roles has for itself and the other has, too.
    pub(crate) fn conflict(&self, other: &Self) -> Option<u32> {
        let clash = |one: &Self, two: &Self| one.exclusive.iter().copied().find(|&id| two.has(id));
        clash(self, other).or_else(|| clash(other, self))
    }

    pub(crate) fn can_push_pipeline(&self) -> bool {
        self.can_push_pipeline
    }

    /// Whether an object of P4Info belongs to the role.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.exclusive.contains(&id) || self.shared.contains(&id)
    }

    /// The part of a notice or a packet that the role is sent.
    pub(crate) fn hears(&self, update: &Update) -> Option<Update> {
        match update {
            Update::Packet(packet) if !self.wants(packet) => None,
            Update::Digest(list) if !self.has(list.digest_id) => None,
            Update::IdleTimeoutNotification(idle) => {
                let mut idle = idle.clone();
                idle.table_entry.retain(|entry| self.has(entry.table_id));
                let some = !idle.table_entry.is_empty();
                some.then_some(Update::IdleTimeoutNotification(idle))
            }
            other => Some(other.clone()),
        }
    }

    fn wants(&self, packet: &PacketIn) -> bool {
        let Some(filter) = &self.packet_in_filter else { return self.receives_packet_ins };
        let number = |bytes: &[u8]| -> Vec<u8> {
            bytes.iter().copied().skip_while(|&byte| byte == 0).collect()
        };
        self.receives_packet_ins
            && packet.metadata.iter().any(|field| {
                field.metadata_id == filter.metadata_id
                    && number(&field.value) == number(&filter.value)
            })
    }
}

/// The entities that a controller may write and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The role's configuration; without one it has all objects but the exclusive ones of others.
    pub(crate) own: Option<Arc<RoleConfig>>,
    /// The configurations of other roles; none for the default role.
    pub(crate) others: Vec<Arc<RoleConfig>>,
}

impl Access {
    /// Refuses an update of an entity that does not belong to the role.
    pub(crate) fn check(&self, entity: Option<&Entity>) -> Result<(), Refusal> {
        let Some(id) = entity.and_then(id_of) else {
            return match self.own {
                Some(_) => Err(denied("the role's configuration")),
                None => Ok(()),
            };
        };
        match &self.own {
            Some(own) if own.has(id) => Ok(()),
            Some(_) => Err(denied("the role's configuration")),
            None if self.others.iter().any(|other| other.exclusive.contains(&id)) => {
                Err(denied("that of another role"))
            }
            None => Ok(()),
        }
    }

    /// Whether a read by the role returns an entity.
    pub(crate) fn reads(&self, entity: &Entity) -> bool {
        let Some(own) = &self.own else { return true };
        id_of(entity).is_some_and(|id| own.has(id))
    }
}

fn denied(by: &str) -> Refusal {
    Refusal::permission_denied(format!(
        "the controller's role may not write this: {by} excludes it"
    ))
}

/// The id of an entity's object in P4Info. Multicast groups and clone sessions have none.
fn id_of(entity: &Entity) -> Option<u32> {
    use entity::Entity as E;
    let owner = |entry: &Option<TableEntry>| entry.as_ref().map_or(0, |entry| entry.table_id);
    Some(match entity.entity.as_ref()? {
        E::ExternEntry(entry) => entry.extern_id,
        E::TableEntry(entry) => entry.table_id,
        E::ActionProfileMember(entry) => entry.action_profile_id,
        E::ActionProfileGroup(entry) => entry.action_profile_id,
        E::MeterEntry(entry) => entry.meter_id,
        E::DirectMeterEntry(entry) => owner(&entry.table_entry),
        E::CounterEntry(entry) => entry.counter_id,
        E::DirectCounterEntry(entry) => owner(&entry.table_entry),
        E::PacketReplicationEngineEntry(_) => return None,
        E::ValueSetEntry(entry) => entry.value_set_id,
        E::RegisterEntry(entry) => entry.register_id,
        E::DigestEntry(entry) => entry.digest_id,
    })
}
