//! Random entries and packets from a seed.

use std::collections::BTreeMap;

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tributary_p4runtime::p4::config::v1::{
    Action, MatchField, P4Info, Table, action_ref, match_field::MatchType,
};
use tributary_p4runtime::p4::v1::{
    self as p4, CloneSessionEntry, Entity, FieldMatch, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry, Update, action, entity,
    field_match, packet_replication_engine_entry as engine, replica, table_action, update,
};

use crate::programs::Program;
use crate::resources::id;
use crate::switches::PORTS;

/// EtherType of the programs' packets.
const TEST: u16 = 0x1234;

/// Multicast groups: ports, and the instance of each copy.
const GROUPS: [(u32, &[(u16, u32)]); 3] = [
    (1, &[(1, 1), (2, 2)]),
    (2, &[(1, 5), (2, 6), (3, 7), (4, 2)]),
    (3, &[(3, 1), (3, 2), (3, 3)]),
];

/// Clone sessions: ports, and the instance of each copy.
const SESSIONS: [(u32, &[(u16, u32)]); 2] = [(1, &[(3, 9)]), (2, &[(1, 1), (2, 7)])];

/// Number of values per width, shared by packets and entries.
const VALUES: usize = 5;

/// Entries per table.
const ENTRIES: usize = 10;

/// A random generator with a seed.
pub(crate) struct Draw {
    random: ChaCha8Rng,
    values: BTreeMap<u32, Vec<u128>>,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), values: BTreeMap::new() }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.random.random_ratio(1, times)
    }

    /// A value of a width: mostly one of a few, sometimes near them, or any.
    fn value(&mut self, width: u32) -> u128 {
        let all = ones(width);
        let random = &mut self.random;
        let values = self.values.entry(width).or_insert_with(|| {
            let mut values = vec![0, 1, all];
            values.resize_with(VALUES, || random.random::<u128>() & all);
            values
        });
        let value = values[random.random_range(0..values.len())];
        match random.random_range(0..10) {
            0 => random.random::<u128>() & all,
            1 => value ^ (1 << random.random_range(0..width)),
            _ => value,
        }
    }

    /// A packet, sometimes truncated, sometimes of another kind; and its arrival port.
    pub(crate) fn packet(&mut self, program: &Program) -> (u16, Vec<u8>) {
        let port = PORTS[self.below(PORTS.len())];
        let mut frame = Vec::new();
        frame.extend_from_slice(&self.value(48).to_be_bytes()[10..]);
        frame.extend_from_slice(&self.value(48).to_be_bytes()[10..]);
        let kind = if self.one_in(20) { 0x4321 } else { TEST };
        frame.extend_from_slice(&u16::to_be_bytes(kind));
        let mut bits = Vec::new();
        for &width in program.fields {
            let value = self.value(width);
            bits.extend((0..width).rev().map(|bit| value >> bit & 1 == 1));
        }
        frame.extend(
            bits.chunks(8)
                .map(|byte| byte.iter().fold(0_u8, |value, &bit| value << 1 | u8::from(bit))),
        );
        let payload = self.below(30);
        frame.extend((0..payload).map(|_| self.random.random::<u8>()));
        if self.one_in(12) {
            let kept = 14 + self.below(frame.len() - 13);
            frame.truncate(kept);
        }
        (port, frame)
    }

    /// Entries for all tables that accept some.
    pub(crate) fn entries(&mut self, info: &P4Info) -> Vec<TableEntry> {
        let mut entries = Vec::new();
        for table in info.tables.iter().filter(|table| !table.is_const_table) {
            let priorities = table.match_fields.iter().any(|field| {
                let ternary = [MatchType::Ternary, MatchType::Range, MatchType::Optional];
                ternary.contains(&kind(field))
            });
            let id = table.preamble.as_ref().expect("a table has a name").id;
            let metered = info.direct_meters.iter().any(|meter| meter.direct_table_id == id);
            let mut keys: Vec<Vec<FieldMatch>> = Vec::new();
            for index in 0..ENTRIES {
                let fields = table.match_fields.iter().filter_map(|field| self.key(field));
                let key: Vec<FieldMatch> = fields.collect();
                // Keys of exact or longest-prefix tables are unique.
                if keys.contains(&key) {
                    continue;
                }
                keys.push(key.clone());
                let Some(action) = self.entry_action(info, table) else { break };
                let priority = match priorities {
                    true => i32::try_from(10 * index).expect("few") + 1 + self.below(9) as i32,
                    false => 0,
                };
                entries.push(TableEntry {
                    table_id: id,
                    r#match: key,
                    action: Some(action),
                    priority,
                    meter_config: metered.then(|| self.burst()),
                    ..TableEntry::default()
                });
            }
        }
        // Older entries must not always have the lower priority.
        for index in (1..entries.len()).rev() {
            let other = self.below(index + 1);
            entries.swap(index, other);
        }
        entries
    }

    /// Entries for public programs: keys of entries that packets are known to match, with any action,
    /// and random ones.
    pub(crate) fn entries_near(&mut self, info: &P4Info, known: &[TableEntry]) -> Vec<TableEntry> {
        let mut keyed = info.clone();
        keyed.tables.retain(|table| !table.match_fields.is_empty());
        let mut entries = self.entries(&keyed);
        for entry in &mut entries {
            let alike: Vec<&TableEntry> =
                known.iter().filter(|known| known.table_id == entry.table_id).collect();
            if !alike.is_empty() && self.below(3) > 0 {
                entry.r#match = alike[self.below(alike.len())].r#match.clone();
            }
        }
        let mut keys = Vec::new();
        entries.retain(|entry| {
            let key = (entry.table_id, entry.r#match.clone());
            let is_new = !keys.contains(&key);
            keys.push(key);
            is_new
        });
        entries
    }

    /// Default actions for some tables of public programs.
    pub(crate) fn defaults(&mut self, info: &P4Info) -> Vec<TableEntry> {
        let mut defaults = Vec::new();
        for table in &info.tables {
            let fixed = table.const_default_action_id != 0 || table.implementation_id != 0;
            if fixed || !self.one_in(3) {
                continue;
            }
            let mut table = table.clone();
            table.action_refs.retain(|action| action.scope() == action_ref::Scope::TableAndDefault);
            if let Some(action) = self.call(info, &table) {
                let action = TableAction { r#type: Some(table_action::Type::Action(action)) };
                defaults.push(TableEntry {
                    table_id: id(table.preamble.as_ref()),
                    action: Some(action),
                    is_default_action: true,
                    ..TableEntry::default()
                });
            }
        }
        defaults
    }

    /// A packet for public programs: one of the known ones, mostly changed, or any bytes.
    pub(crate) fn packet_near(&mut self, known: &[(u16, Vec<u8>)]) -> (u16, Vec<u8>) {
        let (mut port, mut data) = match known.len() {
            0 => (1, (0..20 + self.below(60)).map(|_| self.random.random()).collect()),
            count => known[self.below(count)].clone(),
        };
        if self.one_in(2) {
            port = PORTS[self.below(PORTS.len())];
        }
        for _ in 0..self.below(4) {
            if data.is_empty() {
                break;
            }
            let at = self.below(data.len());
            match self.below(6) {
                0 | 1 => data[at] ^= 1 << self.below(8),
                2 => data[at] = self.random.random(),
                3 => data[at] = [0, 1, 0xff][self.below(3)],
                4 => {
                    let more = (0..self.below(20)).map(|_| self.random.random::<u8>());
                    data.extend(more.collect::<Vec<_>>());
                }
                _ => data.truncate(at),
            }
        }
        (port, data)
    }

    /// A key; `None` for one that matches anything.
    fn key(&mut self, field: &MatchField) -> Option<FieldMatch> {
        let width = field.bitwidth.unsigned_abs();
        let value = self.value(width);
        let value = match &field.name[..] {
            name if name.ends_with("ingress_port") => u128::from(PORTS[self.below(PORTS.len())]),
            _ => value,
        };
        use field_match::FieldMatchType as Key;
        let key = match kind(field) {
            MatchType::Exact => Key::Exact(field_match::Exact { value: bytes(value) }),
            MatchType::Lpm => {
                let length = self.below(width as usize + 1) as u32;
                if length == 0 {
                    return None;
                }
                let mask = ones(width) ^ ones(width - length);
                let prefix_len = length.cast_signed();
                Key::Lpm(field_match::Lpm { value: bytes(value & mask), prefix_len })
            }
            MatchType::Ternary => {
                let mask = match self.below(4) {
                    0 => return None,
                    1 => ones(width),
                    _ => self.random.random::<u128>() & ones(width),
                };
                if mask == 0 {
                    return None;
                }
                Key::Ternary(field_match::Ternary { value: bytes(value & mask), mask: bytes(mask) })
            }
            MatchType::Range => {
                let other = self.value(width);
                let (low, high) = (value.min(other), value.max(other));
                if low == 0 && high == ones(width) {
                    return None;
                }
                Key::Range(field_match::Range { low: bytes(low), high: bytes(high) })
            }
            MatchType::Optional if self.one_in(3) => return None,
            MatchType::Optional => Key::Optional(field_match::Optional { value: bytes(value) }),
            other => panic!("a key of kind {other:?}"),
        };
        Some(FieldMatch { field_id: field.id, field_match_type: Some(key) })
    }

    /// One of a table's actions, with parameters.
    pub(crate) fn call(&mut self, info: &P4Info, table: &Table) -> Option<p4::Action> {
        let allowed: Vec<u32> = table
            .action_refs
            .iter()
            .filter(|reference| reference.scope() != action_ref::Scope::DefaultOnly)
            .map(|reference| reference.id)
            .collect();
        if allowed.is_empty() {
            return None;
        }
        let id = allowed[self.below(allowed.len())];
        let named = |action: &&Action| action.preamble.as_ref().is_some_and(|p| p.id == id);
        let action = info.actions.iter().find(named).expect("the action is described");
        let params = action.params.iter().map(|param| {
            let value = match &param.name[..] {
                "port" => u128::from(PORTS[self.below(PORTS.len())]),
                "group" => u128::from(GROUPS[self.below(GROUPS.len())].0),
                // In public programs, nine bits are a port.
                _ if param.bitwidth == 9 => u128::from(PORTS[self.below(PORTS.len())]),
                _ => self.value(param.bitwidth.unsigned_abs()),
            };
            action::Param { param_id: param.id, value: bytes(value) }
        });
        Some(p4::Action { action_id: id, params: params.collect() })
    }
}

fn kind(field: &MatchField) -> MatchType {
    use tributary_p4runtime::p4::config::v1::match_field::Match;
    match field.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).expect("a kind of key"),
        _ => panic!("a key without a kind: {field:?}"),
    }
}

fn ones(width: u32) -> u128 {
    if width == 0 { 0 } else { u128::MAX >> (128 - width) }
}

/// P4Runtime's shortest form.
fn bytes(value: u128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros.min(15)..].to_vec()
}

/// The multicast groups and clone sessions of all programs.
pub(crate) fn groups() -> Vec<Update> {
    let group = |(id, copies)| {
        engine::Type::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id: id,
            replicas: replicas(copies),
            ..MulticastGroupEntry::default()
        })
    };
    let session = |(id, copies)| {
        engine::Type::CloneSessionEntry(CloneSessionEntry {
            session_id: id,
            replicas: replicas(copies),
            ..CloneSessionEntry::default()
        })
    };
    let all = GROUPS.into_iter().map(group).chain(SESSIONS.into_iter().map(session));
    let entries = all.map(|entry| PacketReplicationEngineEntry { r#type: Some(entry) });
    let entities = entries.map(entity::Entity::PacketReplicationEngineEntry);
    entities.map(|entity| change(update::Type::Insert, entity)).collect()
}

#[expect(deprecated, reason = "BMv2's server knows only this form of a port")]
fn replicas(copies: &[(u16, u32)]) -> Vec<Replica> {
    let replica = |&(port, instance): &(u16, u32)| Replica {
        instance,
        port_kind: Some(replica::PortKind::EgressPort(port.into())),
        ..Replica::default()
    };
    copies.iter().map(replica).collect()
}

/// An update about an entity.
pub(crate) fn change(kind: update::Type, entity: entity::Entity) -> Update {
    Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) }
}
