//! A plan as P4Runtime entities, and as the updates that install or remove them.
//!
//! Nothing here needs a connection: a driver can also apply the updates directly.

use tributary_model::{Limits, Topology};
use tributary_p4runtime::p4::v1::{
    self as p4, Action, CloneSessionEntry, CounterData, CounterEntry, Entity, FieldMatch, Index,
    MeterConfig, MulticastGroupEntry, PacketReplicationEngineEntry, Replica, TableAction,
    TableEntry, Update, action, entity, field_match, packet_replication_engine_entry, replica,
    table_action, update,
};
use tributary_wire::agg::Repair;
use tributary_wire::{AggregatorIndex, Epoch, HEADERS_LEN, JobId, Run, Segment, Service};

use crate::catalogue::{ActionIds, Catalogue, SLOT_COUNTERS, TableIds};
use crate::ports::PortMap;
use tributary_model::plan::{self, Forwarding, JobAtSwitch, Part, Placement};
use tributary_model::services::ServiceAtSwitch;

/// The counter slot of a job in a switch. Never zero: slot 0 counts packets that belong to no job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobSlot(u8);

impl JobSlot {
    /// `None` for zero.
    #[must_use]
    pub const fn new(slot: u8) -> Option<Self> {
        if slot == 0 { None } else { Some(Self(slot)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The multicast group of the job's workers. Group 1 floods.
    #[must_use]
    pub const fn group(self) -> u32 {
        FLOOD_GROUP + self.0 as u32
    }
}

/// The multicast group that floods, as in the programs.
pub const FLOOD_GROUP: u32 = 1;

/// All entities of each switch, by [`SwitchId`](tributary_model::SwitchId): those for forwarding, and
/// for these jobs.
#[must_use]
pub fn network<'j>(
    catalogue: &Catalogue,
    topology: &Topology,
    ports: &PortMap,
    jobs: impl IntoIterator<Item = (&'j Placement, JobSlot)>,
) -> Vec<Vec<Entity>> {
    let plan = topology.switch_ids().zip(plan::forwarding(topology));
    let mut all: Vec<Vec<Entity>> =
        plan.map(|(at, plan)| forwarding(catalogue, &ports.forwarding(at, plan))).collect();
    for (placement, slot) in jobs {
        for part in plan::job(topology, placement) {
            let part = ports.part(part);
            all[part.switch.0].extend(job(catalogue, &part, placement.run(), slot));
        }
    }
    all
}

/// The entities for forwarding plain frames.
#[must_use]
pub fn forwarding(catalogue: &Catalogue, plan: &Forwarding) -> Vec<Entity> {
    let group = group(FLOOD_GROUP, plan.flood.iter().map(|&port| (port, 0)));
    let hosts = plan.hosts.iter().map(|(mac, &port)| {
        let keys = [exact(&mac.0)];
        entry(&catalogue.hosts, keys, &catalogue.to_port, [bytes(port.into())])
    });
    // Job 0: traffic of no job.
    let limits = plan.limited.iter().map(|(&port, rate)| {
        let bytes = rate.get() / 8;
        limit(catalogue, 0, port, [bytes; 2])
    });
    let mirrors = plan.flood.iter().filter(|_| catalogue.mirrors).map(|&port| session(port));
    std::iter::once(group).chain(mirrors).chain(hosts).chain(limits).collect()
}

/// The entry that limits what a port may send for a job, in bytes per second: with the priority that packets
/// name, and at all.
fn limit(catalogue: &Catalogue, job: u16, port: u16, bytes: [u64; 2]) -> Entity {
    let keys = [exact(&job.to_be_bytes()), exact(&port.to_be_bytes())];
    let mut entity = entry(&catalogue.limits, keys, &catalogue.limit, []);
    if let Some(entity::Entity::TableEntry(entry)) = &mut entity.entity {
        let [cir, pir] = bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX).max(1));
        let burst = |rate: i64| (rate / BURSTS_PER_SECOND).clamp(LEAST_BURST, MOST_BURST);
        let (cburst, pburst) = (burst(cir), burst(pir));
        entry.meter_config = Some(MeterConfig { cir, cburst, pir, pburst, eburst: 0 });
    }
    entity
}

/// A port may send at once what it may send in 10 ms, so that a worker that waited for a processor can make
/// up for it ([`tributary_protocol::pacing::DEPTH`]).
const BURSTS_PER_SECOND: i64 = 100;

/// Or as many bytes, if that is more: some super-frames.
const LEAST_BURST: i64 = 1 << 17;

/// Bytes per second that no port reaches.
const UNLIMITED: u64 = 1 << 40;

/// BMv2 keeps bursts in 32 bits.
const MOST_BURST: i64 = u32::MAX as i64;

/// The entities for a job's part in a switch: its [`service`] and its [`memberships`].
#[must_use]
pub fn job(catalogue: &Catalogue, plan: &JobAtSwitch, run: Run, slot: JobSlot) -> Vec<Entity> {
    let service = service(catalogue, plan, run.job).into_iter();
    service.chain(memberships(catalogue, plan, run, slot)).collect()
}

/// The entry that says how a switch serves a job of P4INC or SwitchML. It is installed first and
/// removed last, because the sweep of the job's segment needs it.
#[must_use]
pub fn service(catalogue: &Catalogue, plan: &JobAtSwitch, job: JobId) -> Option<Entity> {
    serve(catalogue, job, plan.assignment.service, plan.service())
}

/// The entry for those packets of a job that name a service.
pub(crate) fn serve(
    catalogue: &Catalogue,
    job: JobId,
    service: Service,
    at: ServiceAtSwitch,
) -> Option<Entity> {
    let services = catalogue.services.as_ref()?;
    let keys = [exact(&job.get().to_be_bytes()), exact(&[service.get()])];
    Some(match at {
        ServiceAtSwitch::Aggregate { segment, everyone, total } => {
            let params = [segment.offset.0, segment.size, everyone.0, total.0];
            let params = params.map(|n| bytes(n.into()));
            entry(&services.table, keys, &services.aggregate, params)
        }
        ServiceAtSwitch::Forward => entry(&services.table, keys, &services.forward, []),
    })
}

/// The entries that admit packets of a job's run: from which ports, and where they are sent.
#[must_use]
pub fn memberships(
    catalogue: &Catalogue,
    plan: &JobAtSwitch,
    run: Run,
    slot: JobSlot,
) -> Vec<Entity> {
    let job = exact(&run.job.get().to_be_bytes());
    let epoch = exact(&run.epoch.get().to_be_bytes());
    let groups = (!plan.units.is_empty()).then(|| group(slot.group(), plan.group()));
    let slot_bytes = bytes(slot.get().into());
    let memberships = plan.memberships(catalogue.protocol()).into_iter().map(|membership| {
        let keys = [
            job.clone(),
            epoch.clone(),
            exact(&membership.port.to_be_bytes()),
            exact(&[membership.kind as u8]),
            exact(&[membership.rack.0]),
        ];
        let table = &catalogue.memberships;
        match membership.part {
            Part::Contribute { unit, members, upward, top } => {
                let group = if top { slot.group() } else { 0 };
                let [unit, members, upward] =
                    [unit, members, upward].map(|bitmap| bytes(bitmap.0.into()));
                let params = [unit, members, upward, bytes(group.into()), slot_bytes.clone()];
                let mut entity = entry(table, keys, &catalogue.contribute, params);
                if let Some(ceiling) = catalogue.ceiling {
                    let priority = plan.limits.priority.get().max(Repair::LARGEST_CODE);
                    add_param(&mut entity, param(ceiling, bytes(priority.into())));
                }
                entity
            }
            Part::Distribute => {
                let params = [bytes(slot.group().into()), slot_bytes.clone()];
                entry(table, keys, &catalogue.distribute, params)
            }
            Part::Remind { members } => {
                let params = [bytes(members.0.into()), slot_bytes.clone()];
                entry(table, keys, &catalogue.remind, params)
            }
            Part::Answer => entry(table, keys, &catalogue.answer, [slot_bytes.clone()]),
            Part::Pass => entry(table, keys, &catalogue.pass, [slot_bytes.clone()]),
        }
    });
    // Only a switch that adds holds partial sums that could be evicted.
    let evicts = catalogue.servers.iter().zip(plan.server).filter(|_| plan.aggregates());
    let servers = evicts.map(|(servers, server)| {
        let (mac, ip) = (canonical(&server.mac.0), canonical(&server.ip.octets()));
        let to = [job.value.clone(), bytes(plan.rack.0.into()), mac, ip];
        entry(&servers.table, [epoch.clone()], &servers.to_server, to)
    });
    // Headers and what is sent again are not counted in the rates of a worker.
    let Limits { rate, preemption, .. } = plan.limits;
    let most = rate.map_or(UNLIMITED, |rate| rate.get().saturating_mul(2) / 8);
    let preempting = preemption.map_or(most, |rate| (rate.get().saturating_mul(2) / 8).min(most));
    let is_limited = rate.is_some() || preemption.is_some();
    let limits = plan.senders.iter().filter(|_| is_limited).map(|(&port, &workers)| {
        let bytes = [preempting, most].map(|bytes| bytes.saturating_mul(workers.into()));
        limit(catalogue, run.job.get(), port, bytes)
    });
    let circuits = catalogue.circuits.iter().flat_map(|circuits| {
        plan.circuits.iter().map(|(port, &circuit)| {
            let keys = [job.clone(), exact(&port.to_be_bytes())];
            entry(&circuits.table, keys, &circuits.take, [bytes(circuit.into())])
        })
    });
    groups.into_iter().chain(servers).chain(limits).chain(circuits).chain(memberships).collect()
}

/// Updates that set a job's outcome counters to zero: the slot may have counted another job before.
#[must_use]
pub fn reset_counters(catalogue: &Catalogue, slot: JobSlot) -> Vec<Update> {
    let first = i64::from(slot.get()) * SLOT_COUNTERS as i64;
    (first..first + SLOT_COUNTERS as i64)
        .map(|index| {
            let counter = CounterEntry {
                counter_id: catalogue.outcomes,
                index: Some(Index { index }),
                data: Some(CounterData::default()),
            };
            update(update::Type::Modify, entity(entity::Entity::CounterEntry(counter)))
        })
        .collect()
}

/// Updates that install entities, referenced entities before those that refer to them.
#[must_use]
pub fn insert(entities: Vec<Entity>) -> Vec<Update> {
    entities.into_iter().map(|entity| update(update::Type::Insert, entity)).collect()
}

/// Updates that remove entities, referring entities before those that they refer to.
#[must_use]
pub fn delete(entities: Vec<Entity>) -> Vec<Update> {
    entities.into_iter().rev().map(|entity| update(update::Type::Delete, entity)).collect()
}

pub(crate) fn update(kind: update::Type, entity: Entity) -> Update {
    Update { r#type: kind.into(), entity: Some(entity) }
}

pub(crate) fn entity(entity: entity::Entity) -> Entity {
    Entity { entity: Some(entity) }
}

/// All clone sessions, or one.
pub(crate) fn session_entity(session: CloneSessionEntry) -> Entity {
    entity(entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(packet_replication_engine_entry::Type::CloneSessionEntry(session)),
    }))
}

/// Bytes in front of what the mirror of the programs for Tofino sends.
const MIRROR_HEADER: usize = 3;

/// The sessions of all ports of a pipe are those from 1 to this.
pub(crate) const MOST_SESSIONS: u32 = 512;

/// The session that sends the headers of a result to a port.
#[expect(deprecated, reason = "a number is the form of a port that every switch understands")]
fn session(port: u16) -> Entity {
    let port_kind = Some(replica::PortKind::EgressPort(port.into()));
    session_entity(CloneSessionEntry {
        session_id: u32::from(port) + 1,
        replicas: vec![Replica { port_kind, instance: 0, ..Replica::default() }],
        packet_length_bytes: (HEADERS_LEN + MIRROR_HEADER) as i32,
        ..CloneSessionEntry::default()
    })
}

/// All groups, or one.
pub(crate) fn group_entity(multicast: MulticastGroupEntry) -> Entity {
    entity(entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(packet_replication_engine_entry::Type::MulticastGroupEntry(multicast)),
    }))
}

#[expect(deprecated, reason = "a number is the form of a port that every switch understands")]
fn group(id: u32, ports: impl Iterator<Item = (u16, u8)>) -> Entity {
    let replicas = ports.map(|(port, number)| {
        let port_kind = Some(replica::PortKind::EgressPort(port.into()));
        Replica { port_kind, instance: number.into(), ..Replica::default() }
    });
    group_entity(MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.collect(),
        ..MulticastGroupEntry::default()
    })
}

fn entry<const K: usize, const P: usize>(
    table: &TableIds<K>,
    keys: [field_match::Exact; K],
    action: &ActionIds<P>,
    params: [Vec<u8>; P],
) -> Entity {
    let fields = table.fields.iter().zip(keys).map(|(&field_id, key)| FieldMatch {
        field_id,
        field_match_type: Some(field_match::FieldMatchType::Exact(key)),
    });
    let params = action.params.iter().zip(params).map(|(&id, value)| param(id, value)).collect();
    let action = Action { action_id: action.id, params };
    entity(entity::Entity::TableEntry(TableEntry {
        table_id: table.id,
        r#match: fields.collect(),
        action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
        ..TableEntry::default()
    }))
}

fn param(param_id: u32, value: Vec<u8>) -> action::Param {
    action::Param { param_id, value }
}

/// Adds a parameter to an entry's action.
fn add_param(entity: &mut Entity, param: action::Param) {
    if let Some(entity::Entity::TableEntry(entry)) = &mut entity.entity
        && let Some(table_action::Type::Action(action)) =
            entry.action.as_mut().and_then(|action| action.r#type.as_mut())
    {
        action.params.push(param);
    }
}

fn exact(value: &[u8]) -> field_match::Exact {
    field_match::Exact { value: canonical(value) }
}

fn bytes(value: u64) -> Vec<u8> {
    canonical(&value.to_be_bytes())
}

/// P4Runtime's canonical form of a number: big-endian, at least one byte, no leading zeros.
pub(crate) fn canonical(value: &[u8]) -> Vec<u8> {
    let start = value.iter().position(|&byte| byte != 0).unwrap_or(value.len());
    let rest = &value[start..];
    if rest.is_empty() { vec![0] } else { rest.to_vec() }
}

/// The run that a membership entry is for.
pub(crate) fn run_of(catalogue: &Catalogue, entry: &p4::TableEntry) -> Option<Run> {
    let table = &catalogue.memberships;
    let job = key(entry, table.id, table.fields[0]).and_then(|job| u16::try_from(job).ok());
    let epoch = key(entry, table.id, table.fields[1]);
    Some(JobId::new(job?)?.run(Epoch::new(epoch?)?))
}

/// The job and the segment that an entry of the table of services is for.
pub(crate) fn segment_of(
    catalogue: &Catalogue,
    entry: &p4::TableEntry,
) -> Option<(JobId, Segment)> {
    let services = catalogue.services.as_ref()?;
    let job = key(entry, services.table.id, services.table.fields[0])?;
    let action = entry.action.as_ref()?.r#type.as_ref()?;
    let table_action::Type::Action(action) = action else { return None };
    let param = |at: usize| {
        let id = services.aggregate.params[at];
        let given = action.params.iter().find(|param| param.param_id == id)?;
        number(&given.value).and_then(|number| u32::try_from(number).ok())
    };
    if action.action_id != services.aggregate.id {
        return None;
    }
    let segment = Segment { offset: AggregatorIndex(param(0)?), size: param(1)? };
    Some((JobId::new(u16::try_from(job).ok()?)?, segment))
}

/// The run whose server an entry names.
pub(crate) fn server_of(catalogue: &Catalogue, entry: &p4::TableEntry) -> Option<Epoch> {
    let table = catalogue.servers.as_ref()?.table;
    Epoch::new(key(entry, table.id, table.fields[0])?)
}

/// The value of one exact key field, if the entry is in that table.
pub(crate) fn key(entry: &p4::TableEntry, table: u32, field: u32) -> Option<u32> {
    if entry.table_id != table {
        return None;
    }
    let key = entry.r#match.iter().find(|key| key.field_id == field)?;
    let Some(field_match::FieldMatchType::Exact(exact)) = &key.field_match_type else {
        return None;
    };
    number(&exact.value).and_then(|number| u32::try_from(number).ok())
}

/// A number in P4Runtime's form; `None` if it has more than 64 bits.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |number, &byte| {
        number.checked_mul(256).and_then(|number| number.checked_add(byte.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical() {
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(255), [255]);
        assert_eq!(bytes(256), [1, 0]);
        assert_eq!(canonical(&[]), [0]);
        assert_eq!(canonical(&[0, 0, 0x0a, 0]), [0x0a, 0]);
    }

    fn catalogue(architecture: &str, protocol: &str) -> Catalogue {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src");
        let path = format!("{folder}/{architecture}/{protocol}.p4");
        let compiled = tributary_p4::compile(&tributary_p4::Sources::disk(), &path, &[]).unwrap();
        Catalogue::new(&compiled.p4info).unwrap()
    }

    /// Results lose their values by sessions on Tofino, and by the program elsewhere.
    #[test]
    fn each_port_has_a_session_if_the_program_needs_one() {
        let plan = Forwarding { flood: vec![1, 2, 9], ..Forwarding::default() };
        for (architecture, protocol, expected) in [
            ("tna", "p4inc", vec![2, 3, 10]),
            ("tna", "switchml", vec![2, 3, 10]),
            ("tna", "esa", vec![]),
            ("v1model", "p4inc", vec![]),
        ] {
            let all = forwarding(&catalogue(architecture, protocol), &plan);
            let sessions: Vec<_> = all.iter().filter_map(session_of).collect();
            let ids: Vec<u32> = sessions.iter().map(|session| session.session_id).collect();
            assert_eq!(ids, expected, "{architecture} {protocol}");
            assert!(sessions.iter().all(|session| session.packet_length_bytes == 73));
            // What is missing or another one is written, and what is somebody else's stays.
            let mut found = all.clone();
            found.push(session_entity(CloneSessionEntry { session_id: 900, ..Default::default() }));
            assert_eq!(crate::reconcile::changes(&found, &all), []);
            found.retain(|entity| session_of(entity).is_none_or(|session| session.session_id != 2));
            for entity in &mut found {
                if session_of(entity).is_some_and(|session| session.session_id == 3) {
                    let other = CloneSessionEntry { session_id: 3, ..Default::default() };
                    *entity = session_entity(other);
                }
            }
            let changes = crate::reconcile::changes(&found, &all);
            assert_eq!(changes.len(), expected.len().min(2), "{architecture} {protocol}");
        }
    }

    fn session_of(entity: &Entity) -> Option<CloneSessionEntry> {
        match entity.entity.as_ref()? {
            entity::Entity::PacketReplicationEngineEntry(engine) => match engine.r#type.as_ref()? {
                packet_replication_engine_entry::Type::CloneSessionEntry(session) => {
                    Some(session.clone())
                }
                packet_replication_engine_entry::Type::MulticastGroupEntry(_) => None,
            },
            _ => None,
        }
    }

    #[test]
    fn flows_have_circuits_if_the_program_knows_them() {
        let text = "[topology]\nunits = 2\nhosts_per_unit = 3\noptical_ports = 2\n\
                    [[job]]\nprotocol = \"p4inc\"\nworkers = 3\nps = \"ps2\"\naggregation = \"server\"\n";
        let scenario = tributary_model::jobfile::parse(text, "test").unwrap();
        let placement = Placement::unassigned(&scenario.jobs[0]);
        let slot = JobSlot::new(1).unwrap();
        for (protocol, expected) in [("p4inc", 3), ("switchml", 0)] {
            let catalogue = catalogue("v1model", protocol);
            let part = plan::job(&scenario.network.topology, &placement).pop().unwrap();
            let all = memberships(&catalogue, &part, placement.run(), slot);
            let table = catalogue.circuits.as_ref().map(|circuits| circuits.table.id);
            let those = all.iter().filter(|entity| match &entity.entity {
                Some(entity::Entity::TableEntry(entry)) => Some(entry.table_id) == table,
                _ => false,
            });
            assert_eq!(those.count(), expected, "{protocol}");
        }
    }

    #[test]
    fn groups_of_jobs_are_not_the_flood_group() {
        let groups: Vec<u32> = (0..=255).filter_map(JobSlot::new).map(JobSlot::group).collect();
        assert_eq!((groups.len(), groups[0], groups[254]), (255, 2, 256));
    }
}
