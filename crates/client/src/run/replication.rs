//! Multicast groups and clone sessions.

use serde_json::{Value, json};
use tributary_p4runtime::p4::v1::{
    CloneSessionEntry, Entity, MulticastGroupEntry, PacketReplicationEngineEntry, Replica, entity,
    packet_replication_engine_entry::Type, replica, update,
};

use super::{done, listed, usage, verb, wrap, wrote};
use crate::entry::parse_id;
use crate::names::Names;
use crate::output::Rows;
use crate::value::Type as ValueType;
use crate::{Error, Report, Session, text, value};

fn engine(one: Type) -> Entity {
    let one = PacketReplicationEngineEntry { r#type: Some(one) };
    wrap(entity::Entity::PacketReplicationEngineEntry(one))
}

/// Reads `PORT` or `PORT:INSTANCE`. Numbers of ports are written as other values.
#[expect(deprecated, reason = "all switches know the older form of numbered ports")]
fn replica(names: &Names, word: &str) -> Result<Replica, Error> {
    let instance =
        word.rsplit_once(':').and_then(|(port, digits)| Some((port, digits.parse().ok()?)));
    let (port, instance) = instance.unwrap_or((word, 0));
    let field = names.port();
    let port_kind = match field.ty {
        ValueType::Name => replica::PortKind::Port(field.parse(port)?),
        ValueType::Bits(width) => {
            let number = value::number(port, width).map_err(|reason| field.wrong(&reason))?;
            let number = u32::try_from(number).map_err(|_| field.wrong("a port has 32 bits"))?;
            replica::PortKind::EgressPort(number)
        }
    };
    Ok(Replica { port_kind: Some(port_kind), instance, ..Replica::default() })
}

fn replicas(names: &Names, words: &[String]) -> Result<Vec<Replica>, Error> {
    words.iter().map(|word| replica(names, word)).collect()
}

fn json_replicas(names: &Names, replicas: &[Replica]) -> Value {
    let one = |one: &Replica| {
        let port = text::one_replica(names, &Replica { instance: 0, ..one.clone() });
        let port = port.strip_suffix(":0").unwrap_or(&port);
        json!({ "port": port, "instance": one.instance })
    };
    replicas.iter().map(one).collect::<Vec<Value>>().into()
}

async fn groups(session: &Session, id: u32) -> Result<Vec<MulticastGroupEntry>, Error> {
    let wanted = MulticastGroupEntry { multicast_group_id: id, ..MulticastGroupEntry::default() };
    let found = session.read(engine(Type::MulticastGroupEntry(wanted))).await?;
    let groups = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::PacketReplicationEngineEntry(one)) => match one.r#type {
            Some(Type::MulticastGroupEntry(group)) => Some(group),
            _ => None,
        },
        _ => None,
    });
    Ok(groups.collect())
}

async fn sessions(session: &Session, id: u32) -> Result<Vec<CloneSessionEntry>, Error> {
    let wanted = CloneSessionEntry { session_id: id, ..CloneSessionEntry::default() };
    let found = session.read(engine(Type::CloneSessionEntry(wanted))).await?;
    let sessions = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::PacketReplicationEngineEntry(one)) => match one.r#type {
            Some(Type::CloneSessionEntry(session)) => Some(session),
            _ => None,
        },
        _ => None,
    });
    Ok(sessions.collect())
}

/// The id of a group or session that words name; 0 for all.
fn wanted(command: &str, what: &str, words: &[String]) -> Result<u32, Error> {
    match words {
        [] => Ok(0),
        [id] => parse_id(what, id),
        _ => Err(usage(command)),
    }
}

/// `multicast`.
pub(super) async fn multicast(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let Some((kind, rest)) = words.split_first().and_then(|(word, rest)| Some((verb(word)?, rest)))
    else {
        let mut found = groups(session, wanted("multicast", "multicast group", words)?).await?;
        found.sort_by_key(|group| group.multicast_group_id);
        let mut rows = Rows::new("", ["#group", "ports"]);
        let mut json = Vec::new();
        for group in &found {
            let ports = text::replicas(&names, &group.replicas);
            rows.push([group.multicast_group_id.to_string(), ports.trim_start().to_owned()]);
            json.push(json!({
                "group": group.multicast_group_id, "ports": json_replicas(&names, &group.replicas),
            }));
        }
        return Ok(listed(json, rows, "no multicast groups"));
    };
    let Some((id, ports)) = rest.split_first() else { return Err(usage("multicast")) };
    if kind == update::Type::Delete && !ports.is_empty() {
        return Err(usage("multicast"));
    }
    let group = MulticastGroupEntry {
        multicast_group_id: parse_id("multicast group", id)?,
        replicas: replicas(&names, ports)?,
        ..MulticastGroupEntry::default()
    };
    write(session, kind, engine(Type::MulticastGroupEntry(group))).await
}

/// `clone`.
pub(super) async fn clone(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let names = session.names().clone();
    let Some((kind, rest)) = words.split_first().and_then(|(word, rest)| Some((verb(word)?, rest)))
    else {
        let mut found = sessions(session, wanted("clone", "clone session", words)?).await?;
        found.sort_by_key(|one| one.session_id);
        let mut rows = Rows::new("", ["#session", "ports", "#bytes", "#class"]);
        let mut json = Vec::new();
        for one in &found {
            let bytes = match one.packet_length_bytes {
                0 => "all".to_owned(),
                bytes => bytes.to_string(),
            };
            let ports = text::replicas(&names, &one.replicas).trim_start().to_owned();
            rows.push([one.session_id.to_string(), ports, bytes, one.class_of_service.to_string()]);
            json.push(json!({
                "session": one.session_id, "ports": json_replicas(&names, &one.replicas),
                "bytes": one.packet_length_bytes, "class": one.class_of_service,
            }));
        }
        return Ok(listed(json, rows, "no clone sessions"));
    };
    let Some((id, rest)) = rest.split_first() else { return Err(usage("clone")) };
    let mut one =
        CloneSessionEntry { session_id: parse_id("clone session", id)?, ..Default::default() };
    for word in rest.iter().filter(|_| kind != update::Type::Delete) {
        match word.split_once('=') {
            Some(("bytes", bytes)) => {
                let bytes = parse_id("bytes", bytes)?;
                one.packet_length_bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            }
            Some(("class", class)) => one.class_of_service = parse_id("class", class)?,
            Some(_) => return Err(usage("clone")),
            None => one.replicas.push(replica(&names, word)?),
        }
    }
    write(session, kind, engine(Type::CloneSessionEntry(one))).await
}

async fn write(session: &mut Session, kind: update::Type, one: Entity) -> Result<Report, Error> {
    let said = format!("{}: {}", done(kind), text::show(session.names(), &one));
    Ok(wrote(session.write(kind, vec![one]).await?, said))
}

/// Groups and sessions as commands, for `save`.
pub(super) async fn save(session: &Session) -> Result<Vec<String>, Error> {
    let names = session.names();
    let groups = groups(session, 0).await?;
    let groups = groups.iter().map(|one| format!("multicast add {}", text::multicast(names, one)));
    let mut lines: Vec<String> = groups.collect();
    let sessions = sessions(session, 0).await?;
    lines.extend(sessions.iter().map(|one| format!("clone add {}", text::clone(names, one))));
    Ok(lines)
}
