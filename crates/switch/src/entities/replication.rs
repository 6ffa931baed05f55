//! The packet replication engine: multicast groups and clone (in TNA: mirror) sessions.

use std::collections::BTreeSet;

use tributary_dataplane::Value;
use tributary_p4::Architecture;
use tributary_p4runtime::p4::v1::{
    self as p4, CloneSessionEntry, Entity, MulticastGroupEntry, entity, replica,
};

use super::ports::encode_port;
use super::{Change, Refusal};
use crate::config::SwitchConfig;
use crate::forwarding::Forwarding;
use crate::multicast::{Group, Replica, Session};

use p4::packet_replication_engine_entry::Type;

pub(super) fn write(
    to: &mut Forwarding,
    config: &SwitchConfig,
    change: Change,
    entry: &p4::PacketReplicationEngineEntry,
) -> Result<(), Refusal> {
    let entry = match &entry.r#type {
        Some(Type::MulticastGroupEntry(entry)) => entry,
        Some(Type::CloneSessionEntry(session)) => {
            return write_session(to, config, change, session);
        }
        None => return Err(unnamed()),
    };
    let id = group_id(entry)?;
    let exists = to.groups().get(id).is_some();
    match change {
        Change::Insert if exists => {
            return Err(Refusal::already_exists(format!("multicast group {id} exists already")));
        }
        Change::Modify | Change::Delete if !exists => {
            return Err(Refusal::not_found(format!("there is no multicast group {id}")));
        }
        Change::Delete => {
            to.groups_mut().remove(id);
            return Ok(());
        }
        Change::Insert | Change::Modify => {}
    }
    let architecture = to.architecture();
    let port_of = |number| config.port_of(architecture, number);
    let replicas =
        replicas(&port_of, &entry.replicas).map_err(|r| r.of(&format!("multicast group {id}")))?;
    to.groups_mut().set(id, Group::new(replicas, entry.metadata.clone()));
    Ok(())
}

pub(super) fn read(
    from: &Forwarding,
    template: &p4::PacketReplicationEngineEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let template = match &template.r#type {
        Some(Type::MulticastGroupEntry(entry)) => entry,
        Some(Type::CloneSessionEntry(session)) => return read_sessions(from, session, out),
        None => return Err(unnamed()),
    };
    if template.multicast_group_id != 0 {
        let id = group_id(template)?;
        let group = from.groups().get(id);
        let group =
            group.ok_or_else(|| Refusal::not_found(format!("there is no multicast group {id}")))?;
        out.push(to_entity(from.architecture(), id, group));
    } else {
        let groups = from.groups().iter();
        out.extend(groups.map(|(id, group)| to_entity(from.architecture(), id, group)));
    }
    Ok(())
}

fn unnamed() -> Refusal {
    Refusal::invalid("the entry names neither a multicast group nor a clone session")
}

fn group_id(entry: &MulticastGroupEntry) -> Result<u16, Refusal> {
    match entry.multicast_group_id {
        0 => Err(Refusal::invalid("multicast groups are numbered from 1")),
        id => u16::try_from(id).map_err(|_| {
            Refusal::out_of_range(format!("multicast group {id} does not fit into 16 bits"))
        }),
    }
}

fn replicas(
    port_of: &dyn Fn(u64) -> Option<u16>,
    wanted: &[p4::Replica],
) -> Result<Vec<Replica>, Refusal> {
    let mut seen = BTreeSet::new();
    let mut replicas = Vec::with_capacity(wanted.len());
    for replica in wanted {
        let replica = to_replica(port_of, replica)?;
        if !seen.insert(replica) {
            let Replica { port, instance } = replica;
            return Err(Refusal::invalid(format!(
                "port {port} with instance {instance} is there twice"
            )));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

fn to_replica(
    port_of: &dyn Fn(u64) -> Option<u16>,
    replica: &p4::Replica,
) -> Result<Replica, Refusal> {
    if !replica.backup_replicas.is_empty() {
        return Err(Refusal::unimplemented("backup replicas: not supported by this switch"));
    }
    #[allow(deprecated, reason = "older controllers send the port as a number")]
    let port = match &replica.port_kind {
        Some(replica::PortKind::Port(bytes)) if !bytes.is_empty() => {
            Value::from_be_bytes(bytes).to_u64()
        }
        Some(replica::PortKind::EgressPort(port)) => Some(u64::from(*port)),
        _ => return Err(Refusal::invalid("a replica has no port")),
    };
    let port = port.and_then(port_of);
    let port =
        port.ok_or_else(|| Refusal::invalid("a replica is for a port that this switch has not"))?;
    let instance = replica.instance;
    let instance = u16::try_from(instance)
        .map_err(|_| Refusal::invalid(format!("instance {instance} does not fit into 16 bits")))?;
    Ok(Replica { port, instance })
}

fn from_replica(architecture: Architecture, replica: &Replica) -> p4::Replica {
    p4::Replica {
        port_kind: Some(replica::PortKind::Port(encode_port(architecture, replica.port))),
        instance: u32::from(replica.instance),
        backup_replicas: Vec::new(),
    }
}

fn to_entity(architecture: Architecture, id: u16, group: &Group) -> Entity {
    let replicas = group.replicas.iter().map(|replica| from_replica(architecture, replica));
    let group = MulticastGroupEntry {
        multicast_group_id: u32::from(id),
        replicas: replicas.collect(),
        metadata: group.metadata.clone(),
    };
    Entity {
        entity: Some(entity::Entity::PacketReplicationEngineEntry(
            p4::PacketReplicationEngineEntry { r#type: Some(Type::MulticastGroupEntry(group)) },
        )),
    }
}

/// Upper bound of session ids: a Tofino's have 10 bits, simple_switch's 15.
fn sessions(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Tna => 1 << 10,
        Architecture::V1model | Architecture::Psa => 1 << 15,
    }
}

fn write_session(
    to: &mut Forwarding,
    config: &SwitchConfig,
    change: Change,
    entry: &CloneSessionEntry,
) -> Result<(), Refusal> {
    let architecture = to.architecture();
    let id = session_id(architecture, entry.session_id)?;
    let exists = to.sessions().contains_key(&id);
    match change {
        Change::Insert if exists => {
            return Err(Refusal::already_exists(format!("clone session {id} exists already")));
        }
        Change::Modify | Change::Delete if !exists => {
            return Err(Refusal::not_found(format!("there is no clone session {id}")));
        }
        Change::Delete => {
            to.sessions_mut().remove(&id);
            return Ok(());
        }
        Change::Insert | Change::Modify => {}
    }
    let port_of = |number| config.port_of(architecture, number);
    let replicas =
        replicas(&port_of, &entry.replicas).map_err(|r| r.of(&format!("clone session {id}")))?;
    let length = usize::try_from(entry.packet_length_bytes).map_err(|_| {
        Refusal::invalid(format!("clone session {id}: the packet length is negative"))
    })?;
    let length = Some(length).filter(|&length| length > 0);
    let class_of_service = entry.class_of_service;
    if architecture == Architecture::Psa && class_of_service > u32::from(u8::MAX) {
        return Err(Refusal::invalid(format!(
            "clone session {id}: class of service {class_of_service} does not fit into 8 bits"
        )));
    }
    to.sessions_mut().insert(id, Session { replicas, length, class_of_service });
    Ok(())
}

fn read_sessions(
    from: &Forwarding,
    template: &CloneSessionEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    if template.session_id == 0 {
        let sessions = from.sessions().iter();
        out.extend(sessions.map(|(&id, session)| session_entity(from.architecture(), id, session)));
        return Ok(());
    }
    let id = session_id(from.architecture(), template.session_id)?;
    let session = from.sessions().get(&id);
    let session =
        session.ok_or_else(|| Refusal::not_found(format!("there is no clone session {id}")))?;
    out.push(session_entity(from.architecture(), id, session));
    Ok(())
}

fn session_id(architecture: Architecture, id: u32) -> Result<u16, Refusal> {
    let most = sessions(architecture) - 1;
    match id {
        0 => Err(Refusal::invalid("clone sessions are numbered from 1")),
        _ if id <= most => Ok(id as u16),
        _ => Err(Refusal::out_of_range(format!(
            "clone session {id}: sessions are numbered from 1 to {most}"
        ))),
    }
}

fn session_entity(architecture: Architecture, id: u16, session: &Session) -> Entity {
    let replicas = session.replicas.iter().map(|replica| from_replica(architecture, replica));
    let session = CloneSessionEntry {
        session_id: u32::from(id),
        replicas: replicas.collect(),
        class_of_service: session.class_of_service,
        packet_length_bytes: session.length.map_or(0, |length| length as i32),
    };
    Entity {
        entity: Some(entity::Entity::PacketReplicationEngineEntry(
            p4::PacketReplicationEngineEntry { r#type: Some(Type::CloneSessionEntry(session)) },
        )),
    }
}
