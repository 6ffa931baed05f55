//! Entities as the commands that make them.

use tributary_p4runtime::p4::config::v1::{
    ActionProfile, Counter, Digest, Meter, Register, ValueSet,
};
use tributary_p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, Entity, MeterConfig,
    MulticastGroupEntry, Replica, ValueSetMember, action_profile_group, entity,
    packet_replication_engine_entry as engine, replica,
};

use crate::names::{Field, Names, Object};
use crate::value::{Format, Type};
use crate::words::quote;
use crate::{data, entry, value};

/// Writes an entity in one line: the command that made it, without its verb.
#[must_use]
pub fn show(names: &Names, entity: &Entity) -> String {
    use entity::Entity as E;
    match &entity.entity {
        Some(E::TableEntry(one)) if one.is_default_action => {
            format!("the default entry of {}", entry::show(names, one))
        }
        Some(E::TableEntry(one)) => entry::show(names, one),
        Some(E::DirectCounterEntry(one)) => {
            let at = one.table_entry.as_ref().map(|one| entry::show(names, one));
            format!("counter {}", at.unwrap_or_default())
        }
        Some(E::DirectMeterEntry(one)) => {
            let at = one.table_entry.as_ref().map(|one| entry::show(names, one));
            format!("meter {}", at.unwrap_or_default())
        }
        Some(E::CounterEntry(one)) => {
            format!("counter {}{}", name::<Counter>(names, one.counter_id), at(one.index))
        }
        Some(E::MeterEntry(one)) => {
            format!("meter {}{}", name::<Meter>(names, one.meter_id), at(one.index))
        }
        Some(E::RegisterEntry(one)) => {
            let register = names.by_id::<Register>(one.register_id);
            let spec = register.and_then(|register| register.type_spec.as_ref());
            let value = one.data.as_ref().map(|value| data::show(names.types(), spec, value));
            let (name, at) = (name::<Register>(names, one.register_id), at(one.index));
            format!("register {name}{at} {}", value.unwrap_or_default())
        }
        Some(E::ActionProfileMember(one)) => format!("member {}", member(names, one)),
        Some(E::ActionProfileGroup(one)) => format!("group {}", group(names, one)),
        Some(E::ValueSetEntry(one)) => {
            format!("valueset {}", name::<ValueSet>(names, one.value_set_id))
        }
        Some(E::DigestEntry(one)) => format!("digest {}", name::<Digest>(names, one.digest_id)),
        Some(E::PacketReplicationEngineEntry(one)) => match &one.r#type {
            Some(engine::Type::MulticastGroupEntry(group)) => {
                format!("multicast {}", multicast(names, group))
            }
            Some(engine::Type::CloneSessionEntry(session)) => {
                format!("clone {}", clone(names, session))
            }
            None => "an entity".to_owned(),
        },
        _ => "an entity".to_owned(),
    }
}

/// The short name of an object.
pub(crate) fn name<T: Object>(names: &Names, id: u32) -> String {
    names.by_id::<T>(id).map_or_else(|| format!("{id:#x}"), |object| object.alias().to_owned())
}

fn at(index: Option<tributary_p4runtime::p4::v1::Index>) -> String {
    index.map_or_else(String::new, |index| format!(" {}", index.index))
}

pub(crate) fn member(names: &Names, one: &ActionProfileMember) -> String {
    let call = one.action.as_ref().map(|action| format!(" {}", entry::show_call(names, action)));
    let profile = name::<ActionProfile>(names, one.action_profile_id);
    format!("{profile} {}{}", one.member_id, call.unwrap_or_default())
}

pub(crate) fn group(names: &Names, one: &ActionProfileGroup) -> String {
    let members = one.members.iter().map(|one| format!(" {}", group_member(names, one)));
    let members: String = members.collect();
    let size = if one.max_size > 0 { format!(" size={}", one.max_size) } else { String::new() };
    let profile = name::<ActionProfile>(names, one.action_profile_id);
    format!("{profile} {}{members}{size}", one.group_id)
}

/// A member of a group: `MEMBER`, `MEMBER:WEIGHT`, `MEMBER:WEIGHT@PORT`.
#[expect(deprecated, reason = "switches may use the older form of a watched port")]
pub(crate) fn group_member(names: &Names, one: &action_profile_group::Member) -> String {
    use action_profile_group::member::WatchKind;
    let weight = if one.weight == 1 { String::new() } else { format!(":{}", one.weight) };
    let watch = match &one.watch_kind {
        Some(WatchKind::WatchPort(port)) => format!("@{}", names.port().show(port)),
        Some(WatchKind::Watch(port)) => format!("@{port}"),
        None => String::new(),
    };
    format!("{}{weight}{watch}", one.member_id)
}

pub(crate) fn multicast(names: &Names, one: &MulticastGroupEntry) -> String {
    format!("{}{}", one.multicast_group_id, replicas(names, &one.replicas))
}

pub(crate) fn clone(names: &Names, one: &CloneSessionEntry) -> String {
    let bytes = match one.packet_length_bytes {
        0 => String::new(),
        bytes => format!(" bytes={bytes}"),
    };
    let class = match one.class_of_service {
        0 => String::new(),
        class => format!(" class={class}"),
    };
    format!("{}{}{bytes}{class}", one.session_id, replicas(names, &one.replicas))
}

/// Ports, with the instance behind a colon if it is not 0.
pub(crate) fn replicas(names: &Names, replicas: &[Replica]) -> String {
    replicas.iter().map(|replica| format!(" {}", one_replica(names, replica))).collect()
}

/// A replica: `PORT` or `PORT:INSTANCE`.
#[expect(deprecated, reason = "switches may use the older form of a port")]
pub(crate) fn one_replica(names: &Names, one: &Replica) -> String {
    let port = match &one.port_kind {
        Some(replica::PortKind::Port(port)) => quote(&names.port().show(port)),
        Some(replica::PortKind::EgressPort(port)) => {
            value::show(&port.to_be_bytes(), Type::Bits(32), Format::Number)
        }
        None => "?".to_owned(),
    };
    match one.instance {
        0 if !port.contains(':') => port,
        instance => format!("{port}:{instance}"),
    }
}

/// The rates of a meter, as the command `meter` takes them; nothing for a meter without rates.
pub(crate) fn rates(config: Option<&MeterConfig>) -> String {
    config.map_or_else(String::new, |config| {
        format!(
            "cir={} cburst={} pir={} pburst={}",
            config.cir, config.cburst, config.pir, config.pburst
        )
    })
}

/// A member of a value set.
pub(crate) fn set_member(fields: &[Field], one: &ValueSetMember) -> String {
    let words = entry::show_keys(fields, &one.r#match);
    let words: Vec<&str> = words.iter().map(|word| word.trim_start_matches('=')).collect();
    words.join(" ")
}
