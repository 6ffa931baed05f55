//! Traffic and entities of a TNA program.

use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, RegisterEntry, entity, p4_data, packet_replication_engine_entry, replica,
};
use tributary_switch::{Application, Switch, SwitchConfig, TNA_CPU_PORT, TofinoConfig, Trigger};

use crate::allocations::forwards_without_allocating;
use crate::common::*;
use crate::grpc::*;

const TNA: &str = include_str!("programs/tna.p4");

/// A program that shows what egress learns of copies.
const COPIES: &str = include_str!("../stf/cases/tna_copies.p4");

const UNICAST: u8 = 0;
const GROUPS: u8 = 1;
const RESUBMIT: u8 = 2;
const RECIRCULATE: u8 = 3;
const MIRROR: u8 = 4;
const COPY_TO_CPU: u8 = 5;
const EGRESS_MIRROR: u8 = 6;

/// A packet of tna.p4.
fn probe(op: u8, left: u8, to: u16, second: u16, name: &[u8]) -> Vec<u8> {
    let mut frame = vec![op, left];
    frame.extend_from_slice(&to.to_be_bytes());
    frame.extend_from_slice(&second.to_be_bytes());
    frame.resize(24, 0);
    frame.extend_from_slice(name);
    frame
}

/// A packet of tna_copies.p4.
fn copy(op: u8, to: u16, then: u16) -> Vec<u8> {
    let mut frame = vec![op, 0];
    frame.extend_from_slice(&to.to_be_bytes());
    frame.extend_from_slice(&then.to_be_bytes());
    frame.resize(12, 0);
    frame
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    from: u16,
    passes: u32,
    enq: u32,
    deq: u32,
    rid: u16,
    mark: u16,
    name: Vec<u8>,
}

fn seen(frame: &[u8]) -> Seen {
    let long = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let short = |at: usize| u16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
    Seen {
        from: short(6),
        passes: long(8),
        enq: long(12),
        deq: long(16),
        rid: short(20),
        mark: short(22),
        name: frame[24..].to_vec(),
    }
}

/// A switch with ports 1 to 4, each reached by its number.
fn tna() -> Switch {
    let mut switch = switch(TNA, SwitchConfig::default());
    let names = Names::of(&switch);
    for port in 1..=4_u8 {
        let param = p4::action::Param { param_id: 1, value: vec![port] };
        let action = names.action("Ingress.send");
        let action = p4::Action { action_id: action, params: vec![param] };
        let entry = p4::TableEntry {
            table_id: names.table("Ingress.ports"),
            r#match: vec![exact(1, &[port])],
            action: Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) }),
            ..p4::TableEntry::default()
        };
        write(&mut switch, insert(whole(entity::Entity::TableEntry(entry)))).unwrap();
    }
    switch
}

fn whole(entity: entity::Entity) -> Entity {
    Entity { entity: Some(entity) }
}

fn settle(switch: &mut Switch) {
    for _ in 0..1000 {
        if !switch.run_pending(0, 1) {
            return;
        }
    }
    panic!("a packet walks for ever");
}

#[test]
fn queue_depths_are_cells_of_eighty_bytes() {
    let mut switch = tna();
    // 24 and 124 and 224 bytes: 1, 2 and 3 cells.
    for length in [0, 100, 200] {
        switch.receive(0, 1, &probe(UNICAST, 0, 2, 0, &vec![9; length]));
    }
    let depths: Vec<(u32, u32)> = (0..3)
        .map(|_| transmit(&mut switch, 0, 2).map(|frame| seen(&frame)).unwrap())
        .map(|seen| (seen.enq, seen.deq))
        .collect();
    assert_eq!(depths, [(0, 5), (1, 3), (3, 0)]);
}

#[test]
fn both_groups_get_copies_except_for_excluded_ports() {
    let mut switch = tna();
    write(&mut switch, insert(group(7, &[(1, 10), (2, 10), (3, 11)]))).unwrap();
    write(&mut switch, insert(group(8, &[(2, 12), (4, 10)]))).unwrap();
    let got = |switch: &mut Switch| {
        switch.receive(0, 1, &probe(GROUPS, 0, 7, 8, b"x"));
        let mut all = Vec::new();
        for port in 1..=4 {
            while let Some(frame) = transmit(switch, 0, port) {
                all.push((port, seen(&frame).rid));
            }
        }
        all
    };
    assert_eq!(got(&mut switch), [(1, 10), (2, 10), (2, 12), (3, 11), (4, 10)]);
    // Only copies with the packet's own replication id are excluded.
    switch.forwarding_mut().unwrap().set_exclusion(5, [2, 3, 4]);
    assert_eq!(got(&mut switch), [(1, 10), (2, 12), (3, 11)]);
    switch.receive(0, 1, &probe(GROUPS, 0, 7, 99, b"x"));
    assert_eq!(switch.statistics().no_such_group, 1);
}

#[test]
fn resubmitted_packets_come_from_the_same_port() {
    let mut switch = tna();
    switch.receive(0, 3, &probe(RESUBMIT, 4, 2, 0, b"again"));
    let seen = seen(&transmit(&mut switch, 0, 2).unwrap());
    assert_eq!((seen.from, seen.passes, &seen.name[..]), (3, 4, &b"again"[..]));
    assert_eq!(switch.statistics().resubmitted, 4);
    switch.receive(0, 3, &probe(RESUBMIT, 200, 2, 0, b"for ever"));
    assert_eq!(switch.statistics().resubmit_drops, 1);
}

#[test]
fn packets_recirculate_through_a_port() {
    let mut switch = tna();
    switch.receive(0, 3, &probe(RECIRCULATE, 5, 2, 0, b"round"));
    assert!(transmit(&mut switch, 0, 2).is_none());
    settle(&mut switch);
    let seen = seen(&transmit(&mut switch, 0, 2).unwrap());
    assert_eq!((seen.from, seen.passes), (68, 6));
    assert_eq!(switch.statistics().recirculated, 5);
    assert!(!switch.has_pending());
}

#[test]
fn ports_in_loopback_mode_have_no_cable_and_send_to_themselves() {
    let tofino = TofinoConfig { loopback: [9].into(), ..TofinoConfig::default() };
    let mut switch = switch(COPIES, SwitchConfig { tofino, ..SwitchConfig::default() });
    switch.set_loopback(10).unwrap();
    switch.receive(0, 1, &copy(0, 9, 3));
    assert!(switch.has_pending() && transmit(&mut switch, 0, 3).is_none());
    settle(&mut switch);
    // Two passes, the last from port 9.
    let left = transmit(&mut switch, 0, 3).unwrap();
    assert_eq!((left[1], &left[6..8]), (2, &[0, 9][..]));
    assert!(!switch.has_pending());
    // A packet that walks through port 9 for ever does not keep others from port 10.
    switch.receive(0, 1, &copy(0, 9, 9));
    switch.receive(0, 1, &copy(0, 10, 3));
    switch.run_pending(0, 3);
    assert_eq!(&transmit(&mut switch, 0, 3).unwrap()[6..8], [0, 10]);
    assert_eq!(switch.statistics().no_such_port, 0);
}

#[test]
fn a_loopback_port_is_neither_the_controllers_nor_one_with_a_cable() {
    let mut switch = switch(COPIES, SwitchConfig::default());
    assert!(switch.set_loopback(192).unwrap_err().contains("port 192 is the controller's"));
    assert!(switch.set_loopback(512).unwrap_err().contains("port 512 does not exist"));
    switch.set_loopback(9).unwrap();
    switch.check_ports().unwrap();
    switch.set_loopback(4).unwrap();
    let refusal = switch.check_ports().unwrap_err().to_string();
    assert!(refusal.contains("port 4 has a cable"), "{refusal}");
}

#[test]
fn packets_without_room_go_to_another_queue_if_they_ask_for_it() {
    let config = |deflection| SwitchConfig {
        queue_limit: 2,
        tofino: TofinoConfig { deflection, ..TofinoConfig::default() },
        ..SwitchConfig::default()
    };
    let flags = |switch: &mut Switch, port| {
        let left = std::iter::from_fn(|| transmit(switch, 0, port));
        left.map(|frame| frame[11]).collect::<Vec<u8>>()
    };
    // Two find room, and two more in the other queue: the fifth is lost.
    let mut switch = switch(COPIES, config(Some(4)));
    for _ in 0..5 {
        switch.receive(0, 1, &copy(2, 2, 0));
    }
    assert_eq!((flags(&mut switch, 2), flags(&mut switch, 4)), (vec![0, 0], vec![1, 1]));
    assert_eq!(switch.port_statistics(2).unwrap().queue_drops, 3);
    assert_eq!(switch.port_statistics(4).unwrap().queue_drops, 0);
    // So do replicas, but not packets that do not ask, nor those for a port that is not there.
    write(&mut switch, insert(group(7, &[(2, 1), (3, 1)]))).unwrap();
    for op in [1, 0, 0, 0] {
        switch.receive(0, 1, &copy(op, if op == 1 { 7 } else { 2 }, 0));
    }
    switch.receive(0, 1, &copy(2, 77, 0));
    let left = [2, 3, 4].map(|port| flags(&mut switch, port));
    assert_eq!(left, [vec![0, 0], vec![0], vec![]]);
    let mut without = self::switch(COPIES, config(None));
    for _ in 0..5 {
        without.receive(0, 1, &copy(2, 2, 0));
    }
    assert_eq!((flags(&mut without, 2), flags(&mut without, 4)), (vec![0, 0], vec![]));
}

#[test]
fn the_controller_is_at_the_port_of_a_tofino() {
    let mut switch = tna();
    assert_eq!(switch.cpu_port(), TNA_CPU_PORT);
    let mut out = vec![0, 3];
    out.extend(probe(UNICAST, 0, 0, 0, b"out"));
    switch.packet_out(0, &out);
    assert_eq!(seen(&transmit(&mut switch, 0, 3).unwrap()).from, TNA_CPU_PORT);
    switch.receive(0, 2, &probe(UNICAST, 0, TNA_CPU_PORT, 0, b"in"));
    settle(&mut switch);
    let up = switch.poll_packet_in().unwrap();
    assert_eq!((&up[..2], &seen(&up[2..]).name[..]), (&[0, 2][..], &b"in"[..]));
    // A copy for the controller, in addition to the packet.
    switch.receive(0, 2, &probe(COPY_TO_CPU, 0, 3, 0, b"both"));
    settle(&mut switch);
    assert!(switch.poll_packet_in().is_some() && transmit(&mut switch, 0, 3).is_some());
    // Programs of the other architecture have another controller's port.
    switch.commit(forwarding(TRAFFIC));
    assert_eq!(switch.cpu_port(), tributary_switch::CPU_PORT);
    assert_eq!(switch.port_statistics(TNA_CPU_PORT), None);
}

#[test]
fn mirror_sessions_are_clone_sessions() {
    let session = |id: u32, ports: &[u16], length: i32| {
        let replicas = ports.iter().map(|&port| p4::Replica {
            port_kind: Some(replica::PortKind::Port(shortest(u64::from(port)))),
            instance: 6,
            ..p4::Replica::default()
        });
        let entry = p4::CloneSessionEntry {
            session_id: id,
            replicas: replicas.collect(),
            packet_length_bytes: length,
            ..p4::CloneSessionEntry::default()
        };
        whole(entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
            r#type: Some(packet_replication_engine_entry::Type::CloneSessionEntry(entry)),
        }))
    };
    let mut switch = tna();
    write(&mut switch, insert(session(33, &[4], 0))).unwrap();
    // The two bytes of the mirror's header count, too.
    write(&mut switch, insert(session(34, &[4], 28))).unwrap();
    for (op, wanted) in [(MIRROR, &b"name"[..]), (EGRESS_MIRROR, &b"na"[..])] {
        let id = if op == MIRROR { 33 } else { 34 };
        switch.receive(0, 1, &probe(op, 0, 2, id, b"name"));
        let original = seen(&transmit(&mut switch, 0, 2).unwrap());
        assert_eq!((original.mark, original.passes, &original.name[..]), (0, 1, &b"name"[..]));
        let copy = seen(&transmit(&mut switch, 0, 4).unwrap());
        // From ingress the received frame, from egress the outgoing one.
        let passes = u32::from(op == EGRESS_MIRROR);
        assert_eq!((copy.mark, copy.passes, &copy.name[..]), (0xabcd, passes, wanted));
        assert_eq!(copy.rid, 6);
    }
    switch.receive(0, 1, &probe(MIRROR, 0, 2, 35, b"lost"));
    assert_eq!(switch.statistics().no_such_session, 1);

    assert_eq!(read(&switch, session(0, &[], 0)).len(), 2);
    let mut refused = |entity| write(&mut switch, insert(entity)).unwrap_err().code;
    assert_eq!(refused(session(33, &[4], 0)), Code::AlreadyExists);
    assert_eq!(refused(session(36, &[99], 0)), Code::InvalidArgument);
    assert_eq!(refused(session(1024, &[1], 0)), Code::OutOfRange);
    // A session of several ports makes a copy for each.
    write(&mut switch, insert(session(36, &[1, 4], 0))).unwrap();
    assert_eq!(seen(&transmit(&mut switch, 0, 2).unwrap()).name, b"lost");
    switch.receive(0, 1, &probe(MIRROR, 0, 2, 36, b"both"));
    for port in [1, 2, 4] {
        let left = seen(&transmit(&mut switch, 0, port).unwrap());
        assert_eq!((left.mark, &left.name[..]), (if port == 2 { 0 } else { 0xabcd }, &b"both"[..]));
        assert_eq!(transmit(&mut switch, 0, port), None);
    }
}

#[test]
fn registers_of_pairs_and_counters_are_read() {
    let mut switch = tna();
    for _ in 0..3 {
        switch.receive(0, 1, &probe(UNICAST, 0, 2, 0, b"counted"));
    }
    let names = Names::of(&switch);
    let template = RegisterEntry {
        register_id: names.register("Ingress.seen"),
        index: Some(p4::Index { index: 0 }),
        data: None,
    };
    let pair = |entity: &Entity| -> Vec<Vec<u8>> {
        let Some(entity::Entity::RegisterEntry(entry)) = &entity.entity else {
            panic!("{entity:?}");
        };
        let Some(p4_data::Data::Struct(data)) = entry.data.as_ref().and_then(|d| d.data.as_ref())
        else {
            panic!("{entry:?}");
        };
        let bits = |member: &p4::P4Data| match &member.data {
            Some(p4_data::Data::Bitstring(bytes)) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        data.members.iter().map(bits).collect()
    };
    let cell = |switch: &Switch, index| {
        let index = Some(p4::Index { index });
        let entry = entity::Entity::RegisterEntry(RegisterEntry { index, ..template.clone() });
        pair(&read(switch, whole(entry))[0])
    };
    assert_eq!(cell(&switch, 0), [[3], [1]]);
    assert_eq!(cell(&switch, 1), [[0], [7]]);
    let member = |value| p4::P4Data { data: Some(p4_data::Data::Bitstring(shortest(value))) };
    let data = p4::P4StructLike { members: vec![member(500), member(2)] };
    let data = Some(p4::P4Data { data: Some(p4_data::Data::Struct(data)) });
    let entry = RegisterEntry { data, ..template.clone() };
    write(&mut switch, modify(whole(entity::Entity::RegisterEntry(entry)))).unwrap();
    assert_eq!(cell(&switch, 0), [vec![1, 244], vec![2]]);

    let counter = p4::CounterEntry {
        counter_id: names.counter("Ingress.ops"),
        index: Some(p4::Index { index: 0 }),
        data: None,
    };
    let answer = read(&switch, whole(entity::Entity::CounterEntry(counter)));
    let Some(entity::Entity::CounterEntry(entry)) = &answer[0].entity else {
        panic!("no counter");
    };
    let data = entry.data.unwrap();
    assert_eq!((data.packet_count, data.byte_count), (3, 3 * 31));
}

#[test]
fn steady_traffic_allocates_nothing() {
    let mut switch = tna();
    write(&mut switch, insert(group(5, &[(2, 10), (3, 11), (4, 12)]))).unwrap();
    let frames = [
        probe(UNICAST, 0, 2, 0, &[1; 300]),
        probe(GROUPS, 0, 5, 5, &[2; 300]),
        probe(RESUBMIT, 3, 2, 0, &[3; 300]),
        probe(RECIRCULATE, 5, 2, 0, &[4; 300]),
    ];
    forwards_without_allocating(&mut switch, &frames, 9);
}

/// The program of a packet test, with the file that it includes.
macro_rules! case {
    ($name:literal) => {
        include_str!(concat!("../stf/cases/", $name, ".p4"))
            .replace("#include \"tna/egress.p4\"", include_str!("../stf/cases/tna/egress.p4"))
    };
}

#[tokio::test]
async fn digests_are_sent_under_the_name_of_their_instance() {
    let program = case!("tna_digest");
    let Device { service, mut ports, _switch } = device();
    let mut client = connect(&service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, &program).await;
    let info = names(&program).0;
    let seen = info.digests.iter().map(|digest| digest.preamble.as_ref().unwrap());
    let digest_id = seen.clone().find(|it| it.name.ends_with(".seen")).unwrap().id;
    assert_eq!(seen.count(), 2);
    let config = p4::digest_entry::Config { max_list_size: 1, ..Default::default() };
    let entry = p4::DigestEntry { digest_id, config: Some(config) };
    let updates = vec![insert(whole(entity::Entity::DigestEntry(entry)))];
    client.write(writing(updates)).await.unwrap();

    let mut frame = vec![0x12, 0x34, 1];
    frame.resize(60, 0);
    ports[1].send(&frame).unwrap();
    ports[1].flush().unwrap();
    let list = match controller.hear().await.unwrap() {
        p4::stream_message_response::Update::Digest(list) => list,
        other => panic!("{other:?}"),
    };
    assert_eq!(list.digest_id, digest_id);
    let Some(p4_data::Data::Struct(members)) = &list.data[0].data else { panic!("{list:?}") };
    let members: Vec<_> = members.members.iter().map(|m| m.data.clone().unwrap()).collect();
    let bits = |bytes: &[u8]| p4_data::Data::Bitstring(bytes.to_vec());
    assert_eq!(members, [bits(&[0x12, 0x34]), bits(&[2])]);
}

#[test]
fn the_packet_generator_runs_by_the_switchs_time_and_a_driver_sets_ports() {
    let packet = |id, trigger| Application {
        id,
        trigger,
        packet: vec![0xab],
        packets: 2,
        packet_gap_us: 5,
        ..Application::default()
    };
    let tofino = TofinoConfig {
        generator: vec![packet(1, Trigger::Every(100)), packet(2, Trigger::PortDown)],
        ..TofinoConfig::default()
    };
    assert_eq!(tofino.check(), Ok(()));
    let ports = vec![1, 2, 3];
    let mut switch = Switch::new(SwitchConfig { ports, tofino, ..SwitchConfig::default() });
    switch.advance(1000);
    switch.commit(forwarding(&case!("tna_pktgen")));
    assert_eq!(switch.generator_due_us(), Some(1100));
    assert!(!switch.generate(1099, 9));
    assert_eq!(transmit(&mut switch, 1099, 1), None);
    // Both packets of the first interval, and the first of the next.
    assert!(switch.generate(1200, 2));
    assert!(!switch.generate(1200, 9));
    for packet in [0, 1, 0] {
        let frame = transmit(&mut switch, 1200, 1).unwrap();
        assert_eq!(frame, [1, 0, 0, 0, 0, packet, 0xab]);
    }
    assert_eq!((transmit(&mut switch, 1200, 1), switch.generator_due_us()), (None, Some(1205)));
    switch.set_link(3, false);
    switch.generate(1202, 9);
    assert_eq!(transmit(&mut switch, 1202, 2).unwrap(), [2, 0, 0, 3, 0, 0, 0xab]);
    assert_eq!(switch.statistics().generated, 4);
    // Applications are checked, and v1model has none.
    assert!(switch.add_application(packet(1, Trigger::PortDown)).unwrap_err().contains("twice"));
    assert!(switch.add_application(packet(8, Trigger::PortDown)).unwrap_err().contains("0 to 7"));
    assert!(switch.add_application(packet(3, Trigger::Every(0))).unwrap_err().contains("zero"));
    switch.commit(forwarding(TRAFFIC));
    assert_eq!(switch.generator_due_us(), None);
    assert!(switch.add_application(packet(3, Trigger::PortDown)).unwrap_err().contains("TNA"));
}
