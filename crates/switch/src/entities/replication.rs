//! The packet replication engine: multicast groups.

use std::collections::BTreeSet;

use tributary_dataplane::Value;
use tributary_p4runtime_proto::p4::v1::{self as p4, Entity, MulticastGroupEntry, entity, replica};

use super::{Change, Refusal};
use crate::config::SwitchConfig;
use crate::forwarding::Forwarding;
use crate::multicast::{Group, Replica};

use p4::packet_replication_engine_entry::Type;

pub(super) fn write(
    to: &mut Forwarding,
    config: &SwitchConfig,
    change: Change,
    entry: &p4::PacketReplicationEngineEntry,
) -> Result<(), Refusal> {
    let entry = match &entry.r#type {
        Some(Type::MulticastGroupEntry(entry)) => entry,
        other => return Err(unsupported(other.as_ref())),
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
    let replicas = replicas(config, entry).map_err(|r| r.of(&format!("multicast group {id}")))?;
    to.groups_mut().set(id, Group { replicas, metadata: entry.metadata.clone() });
    Ok(())
}

pub(super) fn read(
    from: &Forwarding,
    template: &p4::PacketReplicationEngineEntry,
    out: &mut Vec<Entity>,
) -> Result<(), Refusal> {
    let template = match &template.r#type {
        Some(Type::MulticastGroupEntry(entry)) => entry,
        // All of none.
        Some(Type::CloneSessionEntry(session)) if session.session_id == 0 => return Ok(()),
        other => return Err(unsupported(other.as_ref())),
    };
    if template.multicast_group_id != 0 {
        let id = group_id(template)?;
        let group = from.groups().get(id);
        let group =
            group.ok_or_else(|| Refusal::not_found(format!("there is no multicast group {id}")))?;
        out.push(to_entity(id, group));
    } else {
        out.extend(from.groups().iter().map(|(id, group)| to_entity(id, group)));
    }
    Ok(())
}

fn unsupported(entry: Option<&Type>) -> Refusal {
    match entry {
        None => Refusal::invalid("the entry names neither a multicast group nor a clone session"),
        Some(_) => Refusal::unimplemented("clone sessions: not supported by this switch"),
    }
}

fn group_id(entry: &MulticastGroupEntry) -> Result<u16, Refusal> {
    match entry.multicast_group_id {
        0 => Err(Refusal::invalid("multicast groups are numbered from 1")),
        id => u16::try_from(id).map_err(|_| {
            Refusal::out_of_range(format!("multicast group {id} does not fit into 16 bits"))
        }),
    }
}

fn replicas(config: &SwitchConfig, entry: &MulticastGroupEntry) -> Result<Vec<Replica>, Refusal> {
    let mut seen = BTreeSet::new();
    let mut replicas = Vec::with_capacity(entry.replicas.len());
    for replica in &entry.replicas {
        let replica = to_replica(config, replica)?;
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

fn to_replica(config: &SwitchConfig, replica: &p4::Replica) -> Result<Replica, Refusal> {
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
    let port = port.and_then(|p| u16::try_from(p).ok()).filter(|&p| config.has_port(p));
    let port =
        port.ok_or_else(|| Refusal::invalid("a replica is for a port that this switch has not"))?;
    let instance = replica.instance;
    let instance = u16::try_from(instance)
        .map_err(|_| Refusal::invalid(format!("instance {instance} does not fit into 16 bits")))?;
    Ok(Replica { port, instance })
}

fn to_entity(id: u16, group: &Group) -> Entity {
    let replicas = group.replicas.iter().map(|replica| p4::Replica {
        port_kind: Some(replica::PortKind::Port(
            Value::from(u64::from(replica.port)).to_be_bytes(),
        )),
        instance: u32::from(replica.instance),
        backup_replicas: Vec::new(),
    });
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
