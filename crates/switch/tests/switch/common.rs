//! Shared parts of the switch's tests.

use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, FieldMatch, TableEntry, Update, entity, field_match, table_action, update,
};
use tributary_switch::{Forwarding, Refusal, Switch, SwitchConfig};

pub(crate) const TRAFFIC: &str = include_str!("programs/traffic.p4");
pub(crate) const TABLES: &str = include_str!("programs/tables.p4");

/// A switch with ports 1 to 4 that runs a program.
pub(crate) fn switch(source: &str, config: SwitchConfig) -> Switch {
    let mut switch = Switch::new(SwitchConfig { ports: vec![1, 2, 3, 4], ..config });
    switch.commit(forwarding(source));
    switch
}

pub(crate) fn forwarding(source: &str) -> Forwarding {
    Forwarding::from_source(source).unwrap_or_else(|refusal| panic!("{refusal}"))
}

// --- Packets of traffic.p4 --------------------------------------------------------------------

pub(crate) const UNICAST: u8 = 0;
pub(crate) const MULTICAST: u8 = 1;
pub(crate) const RESUBMIT: u8 = 2;
pub(crate) const RECIRCULATE: u8 = 3;
pub(crate) const DROP: u8 = 4;

/// A packet of traffic.p4 with an identifying payload.
pub(crate) fn probe(op: u8, left: u8, to: u16, name: &[u8]) -> Vec<u8> {
    let mut frame = vec![op, left];
    frame.extend_from_slice(&to.to_be_bytes());
    frame.resize(32, 0);
    frame.extend_from_slice(name);
    frame
}

/// The content of a returned packet of traffic.p4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) enq_qdepth: u32,
    pub(crate) deq_qdepth: u32,
    pub(crate) deq_timedelta: u32,
    pub(crate) egress_instance: u32,
    pub(crate) rid: u16,
    pub(crate) ingress_port: u16,
    pub(crate) ingress_instance: u32,
    pub(crate) passes: u32,
    pub(crate) name: Vec<u8>,
}

pub(crate) fn seen(frame: &[u8]) -> Seen {
    let long = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let short = |at: usize| u16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
    Seen {
        enq_qdepth: long(4),
        deq_qdepth: long(8),
        deq_timedelta: long(12),
        egress_instance: long(16),
        rid: short(20),
        ingress_port: short(22),
        ingress_instance: long(24),
        passes: long(28),
        name: frame[32..].to_vec(),
    }
}

/// The next frame of a port.
pub(crate) fn transmit(switch: &mut Switch, now_us: u64, port: u16) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    switch.transmit(now_us, port, &mut frame).then_some(frame)
}

// --- Entities, by the names in the P4Info -------------------------------------------------------

/// Ids by name.
pub(crate) struct Names(pub(crate) P4Info);

impl Names {
    pub(crate) fn of(switch: &Switch) -> Self {
        Self(switch.forwarding().unwrap().p4info().clone())
    }

    pub(crate) fn table(&self, name: &str) -> u32 {
        id(self.0.tables.iter().map(|t| t.preamble.as_ref()), name)
    }

    pub(crate) fn action(&self, name: &str) -> u32 {
        id(self.0.actions.iter().map(|t| t.preamble.as_ref()), name)
    }

    pub(crate) fn counter(&self, name: &str) -> u32 {
        id(self.0.counters.iter().map(|t| t.preamble.as_ref()), name)
    }

    pub(crate) fn register(&self, name: &str) -> u32 {
        id(self.0.registers.iter().map(|t| t.preamble.as_ref()), name)
    }

    /// An entry of a table of tables.p4 whose action answers `answer`.
    pub(crate) fn entry(
        &self,
        table: &str,
        priority: i32,
        m: Vec<FieldMatch>,
        answer: u8,
    ) -> TableEntry {
        TableEntry {
            table_id: self.table(table),
            r#match: m,
            priority,
            action: Some(self.call("TestIngress.answer", &[&[answer]])),
            ..Default::default()
        }
    }

    pub(crate) fn call(&self, action: &str, args: &[&[u8]]) -> p4::TableAction {
        let params = args
            .iter()
            .enumerate()
            .map(|(i, value)| p4::action::Param { param_id: i as u32 + 1, value: value.to_vec() });
        let action = p4::Action { action_id: self.action(action), params: params.collect() };
        p4::TableAction { r#type: Some(table_action::Type::Action(action)) }
    }
}

fn id<'a>(
    preambles: impl Iterator<Item = Option<&'a tributary_p4runtime::p4::config::v1::Preamble>>,
    name: &str,
) -> u32 {
    preambles.flatten().find(|p| p.name == name).unwrap_or_else(|| panic!("no {name}")).id
}

pub(crate) fn exact(field_id: u32, value: &[u8]) -> FieldMatch {
    let m = field_match::Exact { value: value.to_vec() };
    field(field_id, field_match::FieldMatchType::Exact(m))
}

pub(crate) fn lpm(field_id: u32, value: &[u8], prefix_len: i32) -> FieldMatch {
    let m = field_match::Lpm { value: value.to_vec(), prefix_len };
    field(field_id, field_match::FieldMatchType::Lpm(m))
}

pub(crate) fn ternary(field_id: u32, value: &[u8], mask: &[u8]) -> FieldMatch {
    let m = field_match::Ternary { value: value.to_vec(), mask: mask.to_vec() };
    field(field_id, field_match::FieldMatchType::Ternary(m))
}

pub(crate) fn range(field_id: u32, low: &[u8], high: &[u8]) -> FieldMatch {
    let m = field_match::Range { low: low.to_vec(), high: high.to_vec() };
    field(field_id, field_match::FieldMatchType::Range(m))
}

pub(crate) fn optional(field_id: u32, value: &[u8]) -> FieldMatch {
    let m = field_match::Optional { value: value.to_vec() };
    field(field_id, field_match::FieldMatchType::Optional(m))
}

fn field(field_id: u32, m: field_match::FieldMatchType) -> FieldMatch {
    FieldMatch { field_id, field_match_type: Some(m) }
}

pub(crate) fn table_entry(entry: TableEntry) -> Entity {
    Entity { entity: Some(entity::Entity::TableEntry(entry)) }
}

pub(crate) fn update(r#type: update::Type, entity: Entity) -> Update {
    Update { r#type: r#type.into(), entity: Some(entity) }
}

pub(crate) fn insert(entity: Entity) -> Update {
    update(update::Type::Insert, entity)
}

pub(crate) fn modify(entity: Entity) -> Update {
    update(update::Type::Modify, entity)
}

pub(crate) fn delete(entity: Entity) -> Update {
    update(update::Type::Delete, entity)
}

/// A multicast group of `(port, instance)`.
pub(crate) fn replicas(copies: &[(u16, u32)]) -> Vec<p4::Replica> {
    let replica = |&(port, instance): &(u16, u32)| p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(shortest(port.into()))),
        instance,
        backup_replicas: vec![],
    };
    copies.iter().map(replica).collect()
}

pub(crate) fn group(id: u32, copies: &[(u16, u32)]) -> Entity {
    let group = p4::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas(copies),
        metadata: vec![],
    };
    let entry = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(entry) };
    Entity { entity: Some(entity::Entity::PacketReplicationEngineEntry(entry)) }
}

/// P4Runtime's canonical byte string.
pub(crate) fn shortest(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    bytes[bytes.iter().position(|&b| b != 0).unwrap_or(7)..].to_vec()
}

/// One update.
pub(crate) fn write(switch: &mut Switch, update: Update) -> Result<(), Refusal> {
    switch.write(&[update]).unwrap().pop().unwrap()
}

/// The entities that one template selects.
pub(crate) fn read(switch: &Switch, template: Entity) -> Vec<Entity> {
    switch.read(&[template]).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Everything that can be read, to check that nothing has changed.
pub(crate) fn everything(switch: &Switch) -> Vec<Entity> {
    let group = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    let templates = [
        entity::Entity::TableEntry(TableEntry {
            counter_data: Some(Default::default()),
            ..Default::default()
        }),
        entity::Entity::TableEntry(TableEntry { is_default_action: true, ..Default::default() }),
        entity::Entity::CounterEntry(Default::default()),
        entity::Entity::RegisterEntry(Default::default()),
        entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
            r#type: Some(group),
        }),
    ];
    switch.read(&templates.map(|e| Entity { entity: Some(e) })).unwrap()
}
