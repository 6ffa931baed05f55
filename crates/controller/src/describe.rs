//! Entities as readable text, with the names of the program.

use tributary_p4runtime::p4::config::v1::{Action, P4Info, Preamble, Table};
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, TableEntry, entity, field_match, packet_replication_engine_entry, replica,
    table_action,
};

/// Describes an entity in one line: `hosts hdr.ethernet.destination=0x2000a000101 → to_port
/// port=1`.
#[must_use]
pub fn describe(info: &P4Info, entity: &Entity) -> String {
    match &entity.entity {
        Some(entity::Entity::TableEntry(entry)) => table_entry(info, entry),
        Some(entity::Entity::PacketReplicationEngineEntry(engine)) => match &engine.r#type {
            Some(packet_replication_engine_entry::Type::MulticastGroupEntry(group)) => {
                multicast(group)
            }
            Some(packet_replication_engine_entry::Type::CloneSessionEntry(session)) => format!(
                "mirror session {} → ports {}, {} bytes",
                session.session_id,
                ports(&session.replicas),
                session.packet_length_bytes
            ),
            None => "an entity".into(),
        },
        _ => "an entity".into(),
    }
}

fn multicast(group: &p4::MulticastGroupEntry) -> String {
    format!("multicast group {} → ports {}", group.multicast_group_id, ports(&group.replicas))
}

#[expect(deprecated, reason = "that is the form in which the controller writes ports")]
fn ports(replicas: &[p4::Replica]) -> String {
    let ports = replicas.iter().map(|replica| match &replica.port_kind {
        Some(replica::PortKind::EgressPort(port)) => port.to_string(),
        Some(replica::PortKind::Port(port)) => number(port),
        None => "?".into(),
    });
    ports.collect::<Vec<String>>().join(" ")
}

fn table_entry(info: &P4Info, entry: &TableEntry) -> String {
    let has = |preamble: &Option<Preamble>, id| preamble.as_ref().is_some_and(|p| p.id == id);
    let Some(table) = info.tables.iter().find(|table| has(&table.preamble, entry.table_id)) else {
        return format!("an entry of table {}", entry.table_id);
    };
    let keys = entry.r#match.iter().map(|field| {
        let value = match &field.field_match_type {
            Some(field_match::FieldMatchType::Exact(exact)) => number(&exact.value),
            other => format!("{other:?}"),
        };
        format!(" {}={value}", key_name(table, field.field_id))
    });
    let keys: String = keys.collect();
    let action = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => {
            let known = info.actions.iter().find(|known| has(&known.preamble, action.action_id));
            let params = action.params.iter().map(|param| {
                let name = known.map_or("?", |known| param_name(known, param.param_id));
                format!(" {name}={}", number(&param.value))
            });
            let params: String = params.collect();
            let name = known.and_then(|known| known.preamble.as_ref()).map_or("?", short);
            format!("{name}{params}")
        }
        _ => "?".into(),
    };
    let name = table.preamble.as_ref().map_or("?", short);
    format!("{name}{keys} → {action}")
}

fn key_name(table: &Table, id: u32) -> &str {
    let mut fields = table.match_fields.iter();
    fields.find(|field| field.id == id).map_or("?", |field| field.name.as_str())
}

fn param_name(action: &Action, id: u32) -> &str {
    action.params.iter().find(|param| param.id == id).map_or("?", |param| param.name.as_str())
}

/// The last part of a hierarchical name.
fn short(preamble: &Preamble) -> &str {
    preamble.name.rsplit('.').next().unwrap_or_default()
}

/// Small numbers in decimal; addresses and bitmaps in hexadecimal.
fn number(bytes: &[u8]) -> String {
    let known = bytes.iter().try_fold(0_u128, |number, &byte| {
        number.checked_mul(256).map(|number| number | u128::from(byte))
    });
    match known {
        Some(number) if number < 1 << 16 => number.to_string(),
        Some(number) => format!("{number:#x}"),
        None => "…".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::tests::star;
    use crate::programs::{Source, compile};
    use crate::{Catalogue, entries};
    use tributary_model::plan::{self, Placement};

    #[test]
    fn entities_are_named_as_the_program_names_them() {
        let atp = compile(&Source::built_in("atp").unwrap(), &[]).unwrap_or_else(|e| panic!("{e}"));
        let info = &atp.pipeline.p4info;
        let catalogue = Catalogue::new(info).unwrap();
        let scenario = star();
        let forwarding = &plan::forwarding(&scenario.network.topology)[0];
        let said: Vec<String> = entries::forwarding(&catalogue, forwarding)
            .iter()
            .map(|entity| describe(info, entity))
            .collect();
        assert_eq!(said[0], "multicast group 1 → ports 1 2 3");
        assert_eq!(said[1], "hosts hdr.ethernet.destination=0x2000a000101 → to_port port=1");
        let placement = Placement::unassigned(&scenario.jobs[0]);
        let part = &plan::job(&scenario.network.topology, &placement)[0];
        let slot = entries::JobSlot::new(1).unwrap();
        let said: Vec<String> = entries::job(&catalogue, part, placement.run(), slot)
            .iter()
            .map(|entity| describe(info, entity))
            .collect();
        assert_eq!(said[0], "multicast group 2 → ports 1 2");
        assert_eq!(
            said[1],
            "memberships job=1 epoch=1 port=1 kind=1 rack=0 → contribute unit=1 members=3 upward=3 group=0 slot=1"
        );
        assert_eq!(describe(info, &Entity::default()), "an entity");
    }
}
