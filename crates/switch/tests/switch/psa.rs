//! Traffic and entities of a PSA program, as a controller sees them.

use tributary_dataplane::Value;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type;
use tributary_p4runtime::p4::v1::{
    self as p4, CloneSessionEntry, Entity, PacketReplicationEngineEntry, entity, table_action,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::features::entity;

const PSA: &str = include_str!("programs/psa.p4");

/// `PSA_PORT_CPU`, as packets and the controller name it.
const CPU: u32 = 0xffff_fffd;

fn psa() -> (Switch, Names) {
    let mut switch = switch(PSA, SwitchConfig::default());
    let names = Names::of(&switch);
    for key in 1..=3 {
        write(&mut switch, insert(table_entry(to_port(&names, key)))).unwrap();
    }
    (switch, names)
}

/// The entry that sends packets with a key to the port of that number.
fn to_port(names: &Names, key: u8) -> p4::TableEntry {
    p4::TableEntry {
        table_id: names.table("IngressImpl.ports"),
        r#match: vec![exact(1, &[key])],
        action: Some(names.call("IngressImpl.send", &[&[key]])),
        ..Default::default()
    }
}

fn replication(entry: Type) -> Entity {
    entity(entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(entry),
    }))
}

fn probe(op: u8, key: u8) -> Vec<u8> {
    let mut frame = vec![op, key];
    frame.resize(9, 0xee);
    frame.extend_from_slice(b"tail");
    frame
}

/// A frame that left: from this port, with this note, instance and class.
fn sent(op: u8, key: u8, note: u8, from: u32, instance: u8, class: u8) -> Vec<u8> {
    let mut frame = vec![op, key, note];
    frame.extend(from.to_be_bytes());
    frame.extend([instance, class]);
    frame.extend_from_slice(b"tail");
    frame
}

/// The frames that result from one frame, by port.
fn all(switch: &mut Switch, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    switch.receive(1, 1, frame);
    settle(switch)
}

fn settle(switch: &mut Switch) -> Vec<(u16, Vec<u8>)> {
    let mut out = Vec::new();
    for _ in 0..3 {
        switch.run_pending(1, 8);
        for port in 1..=4 {
            out.extend(std::iter::from_fn(|| transmit(switch, 1, port)).map(|f| (port, f)));
        }
    }
    out
}

#[test]
fn entries_decide_and_their_actions_count() {
    let (mut switch, names) = psa();
    assert_eq!(all(&mut switch, &probe(0, 2)), [(2, sent(0, 2, 0, 1, 0, 0))]);
    assert_eq!(all(&mut switch, &probe(0, 9)), []);
    let table_entry = Some(to_port(&names, 2));
    let template = p4::DirectCounterEntry { table_entry, data: None };
    let read = read(&switch, entity(entity::Entity::DirectCounterEntry(template)));
    let [Entity { entity: Some(entity::Entity::DirectCounterEntry(found)) }] = &read[..] else {
        panic!("{read:?}")
    };
    assert_eq!(found.data.as_ref().unwrap().packet_count, 1);
}

#[test]
fn groups_and_sessions_are_the_controllers() {
    let (mut switch, _) = psa();
    write(&mut switch, insert(group(7, &[(2, 5), (3, 6)]))).unwrap();
    let expected = [(2, sent(1, 1, 0, 1, 5, 0)), (3, sent(1, 1, 0, 1, 6, 0))];
    assert_eq!(all(&mut switch, &probe(1, 1)), expected);
    // The replicas of the recirculation port and the controller's port have numbers of 32 bits.
    let replica = |port: u32, instance| p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(shortest(port.into()))),
        instance,
        backup_replicas: vec![],
    };
    let session = replication(Type::CloneSessionEntry(CloneSessionEntry {
        session_id: 9,
        replicas: vec![replica(3, 8), replica(CPU, 9)],
        class_of_service: 4,
        packet_length_bytes: 10,
    }));
    write(&mut switch, insert(session.clone())).unwrap();
    let template = CloneSessionEntry { session_id: 9, ..Default::default() };
    let template = replication(Type::CloneSessionEntry(template));
    assert_eq!(read(&switch, template), [session]);
    let out = all(&mut switch, &probe(2, 2));
    let mut clone = sent(2, 2, 0x55, 0xeeee_eeee, 8, 4);
    clone.truncate(10);
    assert_eq!(out, [(2, sent(2, 2, 0, 1, 0, 0)), (3, clone.clone())]);
    clone[7] = 9;
    assert_eq!(switch.poll_packet_in(), Some(clone));
    assert_eq!(switch.poll_packet_in(), None);
    // A port of that number does not exist otherwise.
    let wrong = p4::MulticastGroupEntry {
        multicast_group_id: 8,
        replicas: vec![replica(510, 1)],
        metadata: vec![],
    };
    assert!(write(&mut switch, insert(replication(Type::MulticastGroupEntry(wrong)))).is_err());
}

#[test]
fn recirculated_packets_come_from_the_recirculation_port() {
    let (mut switch, _) = psa();
    let expected = sent(3, 2, 0x66, 0xffff_fffa, 0, 0);
    assert_eq!(all(&mut switch, &probe(3, 2)), [(2, expected)]);
    assert_eq!(switch.statistics().recirculated, 1);
}

#[test]
fn packets_from_and_to_the_controller() {
    let (mut switch, _) = psa();
    let mut frame = 3u32.to_be_bytes().to_vec();
    frame.extend(probe(0, 9));
    switch.packet_out(1, &frame);
    assert_eq!(settle(&mut switch), [(3, sent(0, 9, 0, CPU, 0, 0))]);
    assert_eq!(all(&mut switch, &probe(6, 1)), []);
    assert_eq!(switch.poll_packet_in(), Some(sent(6, 1, 0, 1, 0, 0)));
}

#[test]
fn digests_counters_registers_and_meters() {
    let (mut switch, names) = psa();
    all(&mut switch, &probe(8, 2));
    let digest = switch.poll_digest().unwrap();
    assert_eq!(digest.data, [2u64, 2].map(Value::from));
    assert_eq!(names.0.digests[0].preamble.as_ref().unwrap().name, "Deparse.learned");
    all(&mut switch, &probe(4, 3));
    let counter = p4::CounterEntry {
        counter_id: names.counter("IngressImpl.counts"),
        index: Some(p4::Index { index: 3 }),
        data: None,
    };
    let found = read(&switch, entity(entity::Entity::CounterEntry(counter)));
    assert!(matches!(&found[..], [Entity { entity: Some(entity::Entity::CounterEntry(one)) }]
        if one.data.as_ref().is_some_and(|data| data.packet_count == 1)));
    let register = p4::RegisterEntry {
        register_id: names.register("IngressImpl.cells"),
        index: Some(p4::Index { index: 3 }),
        data: None,
    };
    let found = read(&switch, entity(entity::Entity::RegisterEntry(register)));
    let value = p4::p4_data::Data::Bitstring(vec![0x2a]);
    assert!(matches!(&found[..], [Entity { entity: Some(entity::Entity::RegisterEntry(one)) }]
        if one.data.as_ref().is_some_and(|data| data.data == Some(value))));
    let meter_id = names.0.meters[0].preamble.as_ref().unwrap().id;
    let config = p4::MeterConfig { cir: 0, cburst: 1, pir: 0, pburst: 2, ..Default::default() };
    let (index, config) = (Some(p4::Index { index: 1 }), Some(config));
    let meter = p4::MeterEntry { meter_id, index, config, counter_data: None };
    write(&mut switch, modify(entity(entity::Entity::MeterEntry(meter)))).unwrap();
    // Green, yellow, red.
    let sent = [(); 3].map(|()| all(&mut switch, &probe(7, 1)).len());
    assert_eq!(sent, [1, 1, 0]);
}

#[test]
fn groups_of_a_selector() {
    let (mut switch, names) = psa();
    let action_profile_id = names.0.action_profiles[0].preamble.as_ref().unwrap().id;
    let Some(table_action::Type::Action(action)) = names.call("IngressImpl.plain", &[&[3]]).r#type
    else {
        panic!("an action")
    };
    let member = p4::ActionProfileMember { action_profile_id, member_id: 1, action: Some(action) };
    write(&mut switch, insert(entity(entity::Entity::ActionProfileMember(member)))).unwrap();
    let mut group =
        p4::ActionProfileGroup { action_profile_id, group_id: 5, members: vec![], max_size: 4 };
    write(&mut switch, insert(entity(entity::Entity::ActionProfileGroup(group.clone())))).unwrap();
    let entry = p4::TableEntry {
        table_id: names.table("IngressImpl.spread"),
        r#match: vec![exact(1, &[1])],
        action: Some(p4::TableAction { r#type: Some(table_action::Type::ActionProfileGroupId(5)) }),
        ..Default::default()
    };
    write(&mut switch, insert(table_entry(entry))).unwrap();
    let ports = |switch: &mut Switch| -> Vec<u16> {
        all(switch, &probe(5, 1)).into_iter().map(|(port, _)| port).collect()
    };
    assert_eq!(ports(&mut switch), [4]);
    let member = p4::action_profile_group::Member { member_id: 1, weight: 1, watch_kind: None };
    group.members.push(member);
    write(&mut switch, modify(entity(entity::Entity::ActionProfileGroup(group)))).unwrap();
    assert_eq!(ports(&mut switch), [3]);
}
