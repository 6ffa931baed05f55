//! Entities by the names of a P4Info.

use tributary_p4runtime::p4::config::v1::{P4Info, Preamble, action::Param};
use tributary_p4runtime::p4::v1::{
    Action, CloneSessionEntry, CounterEntry, DirectCounterEntry, Entity, FieldMatch, MeterConfig,
    MulticastGroupEntry, PacketReplicationEngineEntry, Replica, TableAction, TableEntry, Update,
    action, entity, field_match, packet_replication_engine_entry, replica, table_action, update,
};

use crate::frames::epoch;

/// The group of all ports, which floods unknown destinations.
pub(crate) const FLOOD: u16 = 1;

/// A key of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Exact(u64),
    Prefix(u64, i32),
}

/// An entry of one of the program's tables, or a multicast group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Table {
        table: &'static str,
        keys: Vec<Key>,
        action: &'static str,
        params: Vec<u64>,
    },
    /// What a port may send for a job: bytes at once, with priorities and at all, and per second.
    Limit {
        job: u16,
        port: u16,
        bursts: [i64; 2],
        rate: i64,
    },
    /// A multicast group with a copy per port.
    Mirror {
        port: u16,
    },
    Group {
        group: u16,
        ports: Vec<u16>,
    },
}

impl Entry {
    fn membership(job: u16, port: u16, kind: u8, action: &'static str, params: Vec<u64>) -> Self {
        let keys = [job.into(), epoch(job).into(), u64::from(port), kind.into(), 0];
        let keys = keys.map(Key::Exact).to_vec();
        Self::Table { table: "membership.memberships", keys, action, params }
    }

    /// The same entry for another run of its job.
    pub(crate) fn of_run(mut self, epoch: u32) -> Self {
        if let Self::Table { table: "membership.memberships", keys, .. } = &mut self {
            keys[1] = Key::Exact(epoch.into());
        }
        self
    }

    /// The same entry for packets that name workers of a rack.
    pub(crate) fn of_rack(mut self, rack: u8) -> Self {
        if let Self::Table { table: "membership.memberships", keys, .. } = &mut self {
            keys[4] = Key::Exact(rack.into());
        }
        self
    }

    /// The same entry with other positions for the whole sum.
    pub(crate) fn upward(mut self, positions: u32) -> Self {
        if let Self::Table { action: "membership.contribute", params, .. } = &mut self {
            params[2] = positions.into();
        }
        self
    }

    /// Gradients from a port with the workers `unit` below it.
    pub(crate) fn contribute(job: u16, port: u16, unit: u32, members: u32, slot: u8) -> Self {
        Self::contribute_to(job, port, (unit, members), 0, slot)
    }

    /// The same with a multicast group for the sum.
    pub(crate) fn contribute_to(
        job: u16,
        port: u16,
        (unit, members): (u32, u32),
        group: u16,
        slot: u8,
    ) -> Self {
        let params = vec![unit.into(), members.into(), members.into(), group.into(), slot.into()];
        Self::membership(job, port, 1, "membership.contribute", params)
    }

    /// The same entry with a bound of priorities (ESA).
    pub(crate) fn ceiling(mut self, priority: u8) -> Self {
        if let Self::Table { action: "membership.contribute", params, .. } = &mut self {
            params.push(priority.into());
        }
        self
    }

    /// Reminders from a port.
    pub(crate) fn remind(job: u16, port: u16, members: u32, slot: u8) -> Self {
        Self::membership(job, port, 6, "membership.remind", vec![members.into(), slot.into()])
    }

    /// The destination of a job's evicted partial sums, which name positions.
    pub(crate) fn server(job: u16, mac: u64, ip: u32) -> Self {
        Self::server_of_rack(job, 0, mac, ip)
    }

    /// The same where they name workers of a rack.
    pub(crate) fn server_of_rack(job: u16, rack: u8, mac: u64, ip: u32) -> Self {
        let keys = vec![Key::Exact(epoch(job).into())];
        let params = vec![job.into(), rack.into(), mac, ip.into()];
        Self::Table { table: "servers.servers", keys, action: "servers.to_server", params }
    }

    /// The segment of a job whose workers are `everyone`.
    pub(crate) fn aggregate(job: u16, service: u8, segment: (u32, u32), everyone: u32) -> Self {
        Self::aggregate_for(job, service, segment, (everyone, everyone))
    }

    /// The same where results name other positions.
    pub(crate) fn aggregate_for(
        job: u16,
        service: u8,
        (offset, size): (u32, u32),
        (everyone, total): (u32, u32),
    ) -> Self {
        let params = vec![offset.into(), size.into(), everyone.into(), total.into()];
        Self::service(job, service, "services.aggregate", params)
    }

    /// A job without a segment in the switch.
    pub(crate) fn forward(job: u16, service: u8) -> Self {
        Self::service(job, service, "services.forward", vec![])
    }

    fn service(job: u16, service: u8, action: &'static str, params: Vec<u64>) -> Self {
        let keys = vec![Key::Exact(job.into()), Key::Exact(service.into())];
        Self::Table { table: "services.services", keys, action, params }
    }

    /// Parameters from a port.
    pub(crate) fn distribute(job: u16, port: u16, group: u16, slot: u8) -> Self {
        let params = vec![group.into(), slot.into()];
        Self::membership(job, port, 2, "membership.distribute", params)
    }

    /// Replies or queries from a port.
    pub(crate) fn answer(job: u16, port: u16, kind: u8, slot: u8) -> Self {
        Self::membership(job, port, kind, "membership.answer", vec![slot.into()])
    }

    /// Any kind from a port, without aggregators.
    pub(crate) fn pass(job: u16, port: u16, kind: u8, slot: u8) -> Self {
        Self::membership(job, port, kind, "membership.pass", vec![slot.into()])
    }

    /// The port of a host.
    pub(crate) fn host(mac: u64, port: u16) -> Self {
        Self::forwarding("hosts", vec![Key::Exact(mac)], "forwarding.to_port", vec![port.into()])
    }

    /// One of the switch's own addresses.
    pub(crate) fn own_address(mac: u64) -> Self {
        Self::forwarding("own_address", vec![Key::Exact(mac)], "NoAction", vec![])
    }

    /// A next hop.
    pub(crate) fn route(to: (u32, i32), port: u16, source: u64, destination: u64) -> Self {
        let keys = vec![Key::Prefix(to.0.into(), to.1)];
        let params = vec![port.into(), source, destination];
        Self::forwarding("routes", keys, "forwarding.to_next_hop", params)
    }

    /// The circuit of what comes from a port for a job.
    pub(crate) fn circuit(job: u16, port: u16, circuit: u16) -> Self {
        let keys = [job, port].map(|key| Key::Exact(key.into())).to_vec();
        let (table, action) = ("circuits.circuits", "circuits.take");
        Self::Table { table, keys, action, params: vec![circuit.into()] }
    }

    /// An entry of a table of plain forwarding.
    pub(crate) fn forwarding(
        table: &'static str,
        keys: Vec<Key>,
        action: &'static str,
        params: Vec<u64>,
    ) -> Self {
        let table = match table {
            "hosts" => "forwarding.hosts",
            "own_address" => "forwarding.own_address",
            "routes" => "forwarding.routes",
            other => panic!("no table `{other}`"),
        };
        Self::Table { table, keys, action, params }
    }

    pub(crate) fn group(group: u16, ports: &[u16]) -> Self {
        Self::Group { group, ports: ports.to_vec() }
    }

    /// The session that sends the headers of results to a port, with the programs for Tofino: those are the first of a
    /// frame, after three bytes of the mirror's.
    pub(crate) fn mirror(port: u16) -> Self {
        Self::Mirror { port }
    }

    /// The update of this kind for the entry.
    pub(crate) fn update(&self, info: &P4Info, what: update::Type) -> Update {
        let entity = match self {
            Self::Table { table, keys, action, params } => {
                entity::Entity::TableEntry(table_entry(info, table, keys, action, params))
            }
            Self::Limit { job, port, bursts, rate } => {
                let keys = [Key::Exact((*job).into()), Key::Exact((*port).into())];
                let (cir, pir, [cburst, pburst]) = (*rate, *rate, *bursts);
                let config = MeterConfig { cir, cburst, pir, pburst, eburst: 0 };
                entity::Entity::TableEntry(TableEntry {
                    meter_config: Some(config),
                    ..table_entry(info, "limits.limits", &keys, "limits.limit", &[])
                })
            }
            Self::Mirror { port } => {
                #[allow(deprecated, reason = "BMv2 knows no other form")]
                let replica = Replica {
                    port_kind: Some(replica::PortKind::EgressPort(u32::from(*port))),
                    ..Replica::default()
                };
                let session = CloneSessionEntry {
                    session_id: u32::from(*port) + 1,
                    replicas: vec![replica],
                    packet_length_bytes: 73,
                    ..CloneSessionEntry::default()
                };
                entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                    r#type: Some(packet_replication_engine_entry::Type::CloneSessionEntry(session)),
                })
            }
            Self::Group { group, ports } => {
                #[allow(deprecated, reason = "BMv2 knows no other form")]
                let replicas = ports.iter().zip(1..).map(|(port, instance)| Replica {
                    port_kind: Some(replica::PortKind::EgressPort(u32::from(*port))),
                    instance,
                    ..Replica::default()
                });
                let entry = MulticastGroupEntry {
                    multicast_group_id: u32::from(*group),
                    replicas: replicas.collect(),
                    ..MulticastGroupEntry::default()
                };
                entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                    r#type: Some(packet_replication_engine_entry::Type::MulticastGroupEntry(entry)),
                })
            }
        };
        Update { r#type: what.into(), entity: Some(Entity { entity: Some(entity) }) }
    }
}

/// A query for all outcome counters.
pub(crate) fn outcome_counters(info: &P4Info) -> Entity {
    let name = "outcomes.outcomes";
    let counter = info.counters.iter().find(|c| named(&c.preamble, name));
    let counter_id = id(&counter.unwrap_or_else(|| panic!("no counter `{name}`")).preamble);
    Entity {
        entity: Some(entity::Entity::CounterEntry(CounterEntry {
            counter_id,
            ..CounterEntry::default()
        })),
    }
}

/// A query for all counters of evicted partial sums; empty if the program has none.
pub(crate) fn eviction_counters(info: &P4Info) -> Vec<Entity> {
    let servers = info.tables.iter().find(|t| named(&t.preamble, "servers.servers"));
    let counters = servers.map(|servers| DirectCounterEntry {
        table_entry: Some(TableEntry { table_id: id(&servers.preamble), ..TableEntry::default() }),
        data: None,
    });
    let entity = |counters| Entity { entity: Some(entity::Entity::DirectCounterEntry(counters)) };
    counters.map(entity).into_iter().collect()
}

/// Whether an object has this name, without the program's control: `AtpIngress.outcomes.outcomes`.
fn named(preamble: &Option<Preamble>, name: &str) -> bool {
    let own = preamble.as_ref().map_or("", |p| p.name.as_str());
    own.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn id(preamble: &Option<Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |p| p.id)
}

fn table_entry(
    info: &P4Info,
    table: &str,
    keys: &[Key],
    action: &str,
    params: &[u64],
) -> TableEntry {
    let table = info
        .tables
        .iter()
        .find(|t| named(&t.preamble, table))
        .unwrap_or_else(|| panic!("no table `{table}`"));
    let name = action;
    let action = info
        .actions
        .iter()
        .find(|a| named(&a.preamble, name))
        .unwrap_or_else(|| panic!("no action `{name}`"));
    assert_eq!(table.match_fields.len(), keys.len(), "keys of {:?}", table.preamble);
    // Without a bound of priorities: the highest.
    let unbounded = params.iter().copied().chain((name == "membership.contribute").then_some(255));
    let params: Vec<u64> = unbounded.take(action.params.len()).collect();
    assert_eq!(action.params.len(), params.len(), "parameters of `{name}`");
    let matches = table.match_fields.iter().zip(keys).filter_map(|(field, key)| {
        let field_match_type = match *key {
            Key::Exact(value) => {
                field_match::FieldMatchType::Exact(field_match::Exact { value: bytes(value) })
            }
            // P4Runtime omits matches of everything.
            Key::Prefix(_, 0) => return None,
            Key::Prefix(value, prefix_len) => field_match::FieldMatchType::Lpm(field_match::Lpm {
                value: bytes(value),
                prefix_len,
            }),
        };
        Some(FieldMatch { field_id: field.id, field_match_type: Some(field_match_type) })
    });
    let param =
        |(param, value): (&Param, u64)| action::Param { param_id: param.id, value: bytes(value) };
    let call = Action {
        action_id: id(&action.preamble),
        params: action.params.iter().zip(params).map(param).collect(),
    };
    TableEntry {
        table_id: id(&table.preamble),
        r#match: matches.collect(),
        action: Some(TableAction { r#type: Some(table_action::Type::Action(call)) }),
        ..TableEntry::default()
    }
}

/// P4Runtime's canonical form of a number: no leading zeros, but at least one byte.
fn bytes(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take(7).take_while(|&&byte| byte == 0).count();
    bytes[zeros..].to_vec()
}
