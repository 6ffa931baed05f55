//! The difference between the present and the desired state of a switch.

use std::collections::BTreeMap;

use tributary_p4runtime::p4::v1::{
    Action, Entity, FieldMatch, MeterConfig, Replica, TableEntry, Update, entity, field_match,
    packet_replication_engine_entry as replication, replica, table_action, update,
};

use crate::entries::{MOST_SESSIONS, canonical, update};

/// The minimal updates that make a switch with the entities `before` have those `after`: first
/// deletions, then insertions and changes.
#[must_use]
pub fn changes(before: &[Entity], after: &[Entity]) -> Vec<Update> {
    let mut desired = Desired::default();
    desired.add(after);
    desired.difference(before)
}

/// Identifies an entity within a switch. Groups and sessions come before entries, which refer to them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Group(u32),
    Session(u32),
    Entry { table: u32, priority: i32, matches: Vec<(u32, Vec<u8>)> },
}

/// The effect of an entity, in a comparable form: two switches may encode it differently.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Body {
    Group(Vec<(u32, u32)>),
    Session { replicas: Vec<(u32, u32)>, length: i32 },
    Action { id: u32, params: Vec<(u32, Vec<u8>)>, meter: Option<MeterConfig> },
    Other,
}

/// Entities by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desired(BTreeMap<Key, Entity>);

impl Desired {
    pub(crate) fn add(&mut self, entities: &[Entity]) {
        for entity in entities {
            if let Some(key) = key(entity) {
                self.0.insert(key, entity.clone());
            }
        }
    }

    pub(crate) fn remove(&mut self, entities: &[Entity]) {
        for entity in entities {
            if let Some(key) = key(entity) {
                self.0.remove(&key);
            }
        }
    }

    /// The minimal updates from the present to the desired state: first deletions (entries before
    /// the groups that they refer to), then insertions and changes.
    pub(crate) fn difference(&self, present: &[Entity]) -> Vec<Update> {
        let present: BTreeMap<Key, &Entity> =
            present.iter().filter_map(|entity| Some((key(entity)?, entity))).collect();
        let mut updates: Vec<Update> = present
            .iter()
            .rev()
            .filter(|(key, _)| !self.0.contains_key(key))
            .map(|(_, &entity)| update(update::Type::Delete, entity.clone()))
            .collect();
        for (key, entity) in &self.0 {
            match present.get(key) {
                None => updates.push(update(update::Type::Insert, entity.clone())),
                Some(other) if !same(&body(other), &body(entity)) => {
                    updates.push(update(update::Type::Modify, entity.clone()));
                }
                Some(_) => {}
            }
        }
        updates
    }
}

/// Whether two entities have the same effect. BMv2 keeps the rates of meters as fractions, and may give a
/// number that is one less.
fn same(a: &Body, b: &Body) -> bool {
    let rates = |body: &Body| match body {
        Body::Action { meter: Some(meter), .. } => [meter.cir, meter.pir],
        _ => [0, 0],
    };
    let near = rates(a).iter().zip(rates(b)).all(|(a, b)| a.abs_diff(b) <= 1);
    near && a.clone().without_rates() == b.clone().without_rates()
}

impl Body {
    fn without_rates(mut self) -> Self {
        if let Self::Action { meter: Some(meter), .. } = &mut self {
            (meter.cir, meter.pir) = (0, 0);
        }
        self
    }
}

/// `None` for what the controller does not manage: counters, default actions, constant entries.
fn key(entity: &Entity) -> Option<Key> {
    match entity.entity.as_ref()? {
        entity::Entity::TableEntry(entry) if !entry.is_default_action && !entry.is_const => {
            let mut matches: Vec<(u32, Vec<u8>)> = entry.r#match.iter().map(key_field).collect();
            matches.sort();
            Some(Key::Entry { table: entry.table_id, priority: entry.priority, matches })
        }
        entity::Entity::PacketReplicationEngineEntry(engine) => match engine.r#type.as_ref()? {
            replication::Type::MulticastGroupEntry(group) => {
                Some(Key::Group(group.multicast_group_id))
            }
            replication::Type::CloneSessionEntry(session) => {
                // Others are somebody else's.
                let is_of_a_port = (1..=MOST_SESSIONS).contains(&session.session_id);
                is_of_a_port.then_some(Key::Session(session.session_id))
            }
        },
        _ => None,
    }
}

fn key_field(field: &FieldMatch) -> (u32, Vec<u8>) {
    use field_match::FieldMatchType;
    let value = match &field.field_match_type {
        Some(FieldMatchType::Exact(exact)) => canonical(&exact.value),
        // The controller installs no other kind; the text keeps those that are present distinct.
        other => format!("{other:?}").into_bytes(),
    };
    (field.field_id, value)
}

fn body(entity: &Entity) -> Body {
    match &entity.entity {
        Some(entity::Entity::TableEntry(TableEntry {
            action: Some(action), meter_config, ..
        })) => match &action.r#type {
            Some(table_action::Type::Action(action)) => action_body(action, *meter_config),
            _ => Body::Other,
        },
        Some(entity::Entity::PacketReplicationEngineEntry(engine)) => match &engine.r#type {
            Some(replication::Type::MulticastGroupEntry(group)) => {
                Body::Group(copies(&group.replicas))
            }
            Some(replication::Type::CloneSessionEntry(session)) => Body::Session {
                replicas: copies(&session.replicas),
                length: session.packet_length_bytes,
            },
            None => Body::Other,
        },
        _ => Body::Other,
    }
}

/// Ports and numbers.
fn copies(replicas: &[Replica]) -> Vec<(u32, u32)> {
    let copy = |replica: &Replica| (egress_port(replica.port_kind.as_ref()), replica.instance);
    let mut all: Vec<(u32, u32)> = replicas.iter().map(copy).collect();
    all.sort_unstable();
    all
}

fn action_body(action: &Action, meter: Option<MeterConfig>) -> Body {
    let mut params: Vec<(u32, Vec<u8>)> =
        action.params.iter().map(|param| (param.param_id, canonical(&param.value))).collect();
    params.sort();
    Body::Action { id: action.action_id, params, meter }
}

#[expect(deprecated, reason = "switches answer with either form of a port")]
fn egress_port(port: Option<&replica::PortKind>) -> u32 {
    match port {
        Some(replica::PortKind::EgressPort(port)) => *port,
        Some(replica::PortKind::Port(bytes)) => {
            bytes.iter().fold(0, |port: u32, &byte| (port << 8) | u32::from(byte))
        }
        None => 0,
    }
}

/// What an update changes, for messages: `inserting an entry of table 7`.
pub(crate) fn describe(update: &Update) -> String {
    let verb = match update.r#type() {
        update::Type::Insert => "inserting",
        update::Type::Modify => "changing",
        update::Type::Delete => "deleting",
        update::Type::Unspecified => "writing",
    };
    let what = match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(entity::Entity::TableEntry(entry)) => format!("an entry of table {}", entry.table_id),
        Some(entity::Entity::CounterEntry(_)) => "a counter".to_owned(),
        Some(entity::Entity::PacketReplicationEngineEntry(engine)) => match &engine.r#type {
            Some(replication::Type::MulticastGroupEntry(group)) => {
                format!("multicast group {}", group.multicast_group_id)
            }
            _ => "a clone session".to_owned(),
        },
        _ => "an entity".to_owned(),
    };
    format!("{verb} {what}")
}
