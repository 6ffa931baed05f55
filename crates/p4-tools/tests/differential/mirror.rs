//! What controllers have written to the embedded switch, as P4Runtime's updates for another switch.

use std::collections::BTreeMap;

use prost::Message as _;
use tributary_p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, DirectMeterEntry, MeterEntry,
    MulticastGroupEntry, PacketReplicationEngineEntry, Replica, TableEntry, Update, ValueSetEntry,
    entity, packet_replication_engine_entry as engine, replica, table_action, update,
};
use tributary_switch::Switch;

use crate::draw::change;
use crate::resources::wrap;

/// The objects of a switch. Objects come after those to which they refer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct State {
    objects: BTreeMap<(u8, Vec<u8>), entity::Entity>,
}

impl State {
    /// Everything that controllers can write and read, but counters and registers, which packets
    /// change.
    pub(crate) fn of(switch: &Switch) -> Result<Self, String> {
        let session = engine::Type::CloneSessionEntry(CloneSessionEntry::default());
        let group = engine::Type::MulticastGroupEntry(MulticastGroupEntry::default());
        let copies = [group, session].map(|entry| {
            let entry = PacketReplicationEngineEntry { r#type: Some(entry) };
            entity::Entity::PacketReplicationEngineEntry(entry)
        });
        let default = TableEntry { is_default_action: true, ..TableEntry::default() };
        let meters = DirectMeterEntry {
            table_entry: Some(TableEntry::default()),
            ..DirectMeterEntry::default()
        };
        let mut which = vec![
            entity::Entity::ValueSetEntry(ValueSetEntry::default()),
            entity::Entity::ActionProfileMember(ActionProfileMember::default()),
            entity::Entity::ActionProfileGroup(ActionProfileGroup::default()),
            entity::Entity::TableEntry(TableEntry::default()),
            entity::Entity::TableEntry(default),
            entity::Entity::MeterEntry(MeterEntry::default()),
            entity::Entity::DirectMeterEntry(meters),
        ];
        which.extend(copies);
        let mut objects = BTreeMap::new();
        for template in which {
            let read = switch.read(&[wrap(template.clone())]);
            for entity in read.map_err(|refusal| format!("{refusal}: {template:?}"))? {
                let Some(mut entity) = entity.entity else { continue };
                let unset = match &entity {
                    entity::Entity::MeterEntry(meter) => meter.config.is_none(),
                    entity::Entity::DirectMeterEntry(meter) => meter.config.is_none(),
                    _ => false,
                };
                if unset {
                    continue;
                }
                normalize(&mut entity);
                objects.insert(key(&entity), entity);
            }
        }
        Ok(Self { objects })
    }

    /// With numbers from 1 for members and groups of action profiles: packet tests count from 0, which
    /// P4Runtime reserves.
    pub(crate) fn renumbered(self) -> Self {
        let mut objects = BTreeMap::new();
        for mut entity in self.objects.into_values() {
            match &mut entity {
                entity::Entity::ActionProfileMember(member) => member.member_id += 1,
                entity::Entity::ActionProfileGroup(group) => {
                    group.group_id += 1;
                    group.members.iter_mut().for_each(|member| member.member_id += 1);
                }
                entity::Entity::TableEntry(entry) => {
                    let action = entry.action.as_mut().and_then(|action| action.r#type.as_mut());
                    if let Some(
                        table_action::Type::ActionProfileMemberId(id)
                        | table_action::Type::ActionProfileGroupId(id),
                    ) = action
                    {
                        *id += 1;
                    }
                }
                _ => {}
            }
            objects.insert(key(&entity), entity);
        }
        Self { objects }
    }

    /// The updates that make another state of this one.
    pub(crate) fn updates_to(&self, other: &Self) -> Vec<Update> {
        let mut updates = Vec::new();
        for (key, entity) in &other.objects {
            match self.objects.get(key) {
                Some(known) if known == entity => {}
                Some(_) => updates.push(change(update::Type::Modify, entity.clone())),
                None => updates.push(change(first(entity), entity.clone())),
            }
        }
        for (key, entity) in self.objects.iter().rev() {
            if !other.objects.contains_key(key) {
                updates.extend(inverse(&change(first(entity), entity.clone())));
            }
        }
        updates
    }
}

/// The kind of the first update of an object: some exist from the start.
fn first(entity: &entity::Entity) -> update::Type {
    match entity {
        entity::Entity::MeterEntry(_)
        | entity::Entity::DirectMeterEntry(_)
        | entity::Entity::ValueSetEntry(_) => update::Type::Modify,
        entity::Entity::TableEntry(entry) if entry.is_default_action => update::Type::Modify,
        _ => update::Type::Insert,
    }
}

/// The update that takes another one back, if the objects were as they are at the start before it.
pub(crate) fn inverse(update: &Update) -> Option<Update> {
    let kind = update::Type::try_from(update.r#type).ok()?;
    let mut entity = update.entity.as_ref()?.entity.clone()?;
    let opposite = match kind {
        update::Type::Insert => update::Type::Delete,
        update::Type::Delete => update::Type::Insert,
        _ => {
            match &mut entity {
                entity::Entity::TableEntry(entry) if entry.is_default_action => entry.action = None,
                entity::Entity::ValueSetEntry(set) => set.members.clear(),
                entity::Entity::MeterEntry(meter) => meter.config = None,
                entity::Entity::DirectMeterEntry(meter) => meter.config = None,
                _ => return None,
            }
            update::Type::Modify
        }
    };
    Some(change(opposite, entity))
}

/// The rank of an object's kind, and what identifies the object.
fn key(entity: &entity::Entity) -> (u8, Vec<u8>) {
    let mut identity = entity.clone();
    let rank = match &mut identity {
        entity::Entity::PacketReplicationEngineEntry(entry) => {
            match &mut entry.r#type {
                Some(engine::Type::MulticastGroupEntry(group)) => group.replicas.clear(),
                Some(engine::Type::CloneSessionEntry(session)) => {
                    *session =
                        CloneSessionEntry { session_id: session.session_id, ..Default::default() };
                }
                None => {}
            }
            0
        }
        entity::Entity::ValueSetEntry(set) => {
            set.members.clear();
            1
        }
        entity::Entity::ActionProfileMember(member) => {
            member.action = None;
            2
        }
        entity::Entity::ActionProfileGroup(group) => {
            group.members.clear();
            group.max_size = 0;
            3
        }
        entity::Entity::TableEntry(entry) => {
            let rank = if entry.is_default_action { 5 } else { 4 };
            *entry = TableEntry { action: None, ..entry.clone() };
            rank
        }
        entity::Entity::MeterEntry(meter) => {
            meter.config = None;
            6
        }
        entity::Entity::DirectMeterEntry(meter) => {
            meter.config = None;
            if let Some(entry) = &mut meter.table_entry {
                entry.action = None;
            }
            7
        }
        _ => 8,
    };
    (rank, wrap(identity).encode_to_vec())
}

/// Gives an object the form that BMv2's server takes.
fn normalize(entity: &mut entity::Entity) {
    let entity::Entity::PacketReplicationEngineEntry(entry) = entity else { return };
    let replicas = match &mut entry.r#type {
        Some(engine::Type::MulticastGroupEntry(group)) => &mut group.replicas,
        Some(engine::Type::CloneSessionEntry(session)) => &mut session.replicas,
        None => return,
    };
    replicas.iter_mut().for_each(by_number);
}

#[expect(deprecated, reason = "BMv2's server knows only this form of a port")]
fn by_number(replica: &mut Replica) {
    if let Some(replica::PortKind::Port(bytes)) = &replica.port_kind {
        let port = bytes.iter().fold(0, |port, &byte| port << 8 | u32::from(byte));
        replica.port_kind = Some(replica::PortKind::EgressPort(port));
    }
}
