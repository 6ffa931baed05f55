//! Values that controllers call by names: `@p4runtime_translation("", string)`.

use tributary_netio::FrameIo as _;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, PacketMetadata, PacketOut, TableAction, TableEntry, entity,
    stream_message_request, stream_message_response, table_action,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::grpc::*;

const NAMES: &str = include_str!("programs/names.p4");

const ROUTE: u8 = 0;
const SPREAD: u8 = 1;
const TO_CONTROLLER: u8 = 2;
const ANSWER: u8 = 3;
const MULTICAST: u8 = 4;

fn named() -> (Switch, Names) {
    let switch = switch(NAMES, SwitchConfig::default());
    let names = Names::of(&switch);
    (switch, names)
}

fn request(kind: u8, vrf: u8, key: u16) -> Vec<u8> {
    let mut frame = vec![kind, vrf];
    frame.extend(key.to_be_bytes());
    frame.resize(14, 0);
    frame
}

fn entry(names: &Names, table: &str, m: Vec<p4::FieldMatch>, action: &str, arg: &[u8]) -> Entity {
    table_entry(TableEntry {
        table_id: names.table(&format!("TestIngress.{table}")),
        r#match: m,
        action: Some(names.call(&format!("TestIngress.{action}"), &[arg])),
        ..Default::default()
    })
}

fn vrf(names: &Names, key: u8, name: &[u8]) -> Entity {
    entry(names, "vrfs", vec![exact(1, &[key])], "set_vrf", name)
}

fn route(names: &Names, vrf: &[u8], key: u16, nexthop: &[u8]) -> Entity {
    let m = vec![exact(1, vrf), lpm(2, &key.to_be_bytes(), 16)];
    entry(names, "routes", m, "set_nexthop", nexthop)
}

fn nexthop(names: &Names, nexthop: &[u8], port: &[u8]) -> Entity {
    entry(names, "nexthops", vec![exact(1, nexthop)], "set_port", port)
}

fn all(names: &Names, table: &str) -> Entity {
    let table_id = names.table(&format!("TestIngress.{table}"));
    table_entry(TableEntry { table_id, ..Default::default() })
}

/// The ports at which a packet leaves.
fn leaves(switch: &mut Switch, from: u16, frame: &[u8]) -> Vec<u16> {
    switch.receive(0, from, frame);
    (1..=4).filter(|&port| transmit(switch, 0, port).is_some()).collect()
}

fn answered(switch: &mut Switch, key: u8) -> u16 {
    switch.receive(0, 2, &request(ANSWER, key, 0));
    let frame = transmit(switch, 0, 1).expect("the packet goes out");
    u16::from_be_bytes([frame[4], frame[5]])
}

fn code(switch: &mut Switch, update: p4::Update) -> Code {
    write(switch, update).unwrap_err().code
}

#[test]
fn entries_with_names_are_joined_by_them_and_read_back_as_written() {
    let (mut switch, names) = named();
    let entries = [
        vrf(&names, 1, b"red"),
        vrf(&names, 2, b"blue"),
        route(&names, b"", 5, b"up"),
        route(&names, b"red", 5, b"up"),
        route(&names, b"blue", 5, b"down"),
        nexthop(&names, b"up", b"3"),
        nexthop(&names, b"down", b"4"),
    ];
    for entry in &entries {
        write(&mut switch, insert(entry.clone())).unwrap();
    }
    for (vrf, port) in [(0, 3), (1, 3), (2, 4)] {
        assert_eq!(leaves(&mut switch, 1, &request(ROUTE, vrf, 5)), [port], "VRF {vrf}");
    }
    let blocked = table_entry(TableEntry {
        table_id: names.table("TestIngress.blocked"),
        r#match: vec![optional(1, b"2")],
        action: Some(names.call("TestIngress.drop", &[])),
        priority: 1,
        ..Default::default()
    });
    write(&mut switch, insert(blocked.clone())).unwrap();
    assert!(leaves(&mut switch, 2, &request(ROUTE, 0, 5)).is_empty());
    assert_eq!(leaves(&mut switch, 1, &request(ROUTE, 0, 5)), [3]);
    assert_eq!(read(&switch, all(&names, "blocked")), [blocked]);
    assert_eq!(read(&switch, all(&names, "nexthops")), entries[5..]);
    assert_eq!(read(&switch, all(&names, "vrfs"))[1..], entries[..2]);

    // A query for a name that is not known selects nothing, and leaves it unknown.
    let unknown = |name: &[u8]| {
        let table_id = names.table("TestIngress.nexthops");
        let r#match = vec![exact(1, name)];
        table_entry(TableEntry { table_id, r#match, ..Default::default() })
    };
    assert!(read(&switch, unknown(b"sideways")).is_empty());
    assert_eq!(read(&switch, unknown(b"up")), entries[5..6]);
    assert_eq!(code(&mut switch, delete(unknown(b"sideways"))), Code::NotFound);
    write(&mut switch, delete(unknown(b"up"))).unwrap();
    assert!(leaves(&mut switch, 1, &request(ROUTE, 0, 5)).is_empty());
}

#[test]
fn numbers_stand_for_themselves_and_the_programs_own_belong_to_no_other_name() {
    let (mut switch, names) = named();
    write(&mut switch, insert(vrf(&names, 1, b"7"))).unwrap();
    assert_eq!(answered(&mut switch, 1), 7);
    write(&mut switch, insert(vrf(&names, 2, b""))).unwrap();
    assert_eq!(answered(&mut switch, 2), 0);
    assert_eq!(answered(&mut switch, 255), 1023);
    write(&mut switch, insert(vrf(&names, 3, b"x"))).unwrap();
    assert_eq!(answered(&mut switch, 3), 1022);
    assert_eq!(read(&switch, all(&names, "vrfs"))[0], {
        let mut own = vrf(&names, 255, b"1023");
        if let Some(entity::Entity::TableEntry(entry)) = &mut own.entity {
            entry.is_const = true;
        }
        own
    });
    assert_eq!(code(&mut switch, insert(vrf(&names, 4, b"1022"))), Code::AlreadyExists);
    assert_eq!(code(&mut switch, insert(vrf(&names, 4, b"0"))), Code::AlreadyExists);
    assert_eq!(code(&mut switch, insert(vrf(&names, 4, &[0xc0]))), Code::InvalidArgument);
    assert_eq!(code(&mut switch, insert(vrf(&names, 4, &[b'x'; 1025]))), Code::InvalidArgument);
    let port = nexthop(&names, b"up", b"Ethernet0");
    assert_eq!(code(&mut switch, insert(port)), Code::InvalidArgument);
    let masked = table_entry(TableEntry {
        table_id: names.table("TestIngress.by_mask"),
        r#match: vec![ternary(1, b"x", b"y")],
        priority: 1,
        action: Some(names.call("NoAction", &[])),
        ..Default::default()
    });
    assert_eq!(code(&mut switch, insert(masked)), Code::Unimplemented);
}

#[test]
fn names_that_no_entry_has_make_room_for_others() {
    let (mut switch, names) = named();
    // Two bits: four next hops at a time, of hundreds.
    for round in 0..200 {
        let name = format!("hop{round}").into_bytes();
        write(&mut switch, insert(nexthop(&names, &name, b"3"))).unwrap();
        write(&mut switch, insert(route(&names, b"", 5, &name))).unwrap();
        assert_eq!(leaves(&mut switch, 1, &request(ROUTE, 0, 5)), [3], "round {round}");
        assert_eq!(read(&switch, all(&names, "nexthops")), [nexthop(&names, &name, b"3")]);
        write(&mut switch, delete(nexthop(&names, &name, b"3"))).unwrap();
        write(&mut switch, delete(route(&names, b"", 5, &name))).unwrap();
    }
    // More in one batch than there are numbers: the last ones are refused, and the others stay.
    let hop = |i: u8| insert(nexthop(&names, format!("h{i}").as_bytes(), b"3"));
    let results = switch.write(&(0..6).map(hop).collect::<Vec<_>>()).unwrap();
    let refused: Vec<bool> = results.iter().map(Result::is_err).collect();
    // Zero is the value of the default action's argument in no entry: four numbers are free.
    assert_eq!(refused, [false, false, false, false, true, true]);
    assert_eq!(results[5].as_ref().unwrap_err().code, Code::ResourceExhausted);
    assert_eq!(read(&switch, all(&names, "nexthops")).len(), 4);
}

#[test]
fn a_batch_that_is_taken_back_leaves_the_names_of_before() {
    let (mut switch, names) = named();
    write(&mut switch, insert(vrf(&names, 1, b"red"))).unwrap();
    let before = read(&switch, all(&names, "vrfs"));
    let updates = [
        delete(vrf(&names, 1, b"red")),
        insert(vrf(&names, 2, b"blue")),
        insert(vrf(&names, 3, &[0xff])),
    ];
    let results = switch.write_batch(&updates, Atomicity::RollbackOnError).unwrap();
    let codes: Vec<Code> = results.into_iter().map(|r| r.unwrap_err().code).collect();
    assert_eq!(codes, [Code::Aborted, Code::Aborted, Code::InvalidArgument]);
    assert_eq!(read(&switch, all(&names, "vrfs")), before);
}

#[test]
fn a_reconciled_program_keeps_the_names() {
    let (mut switch, names) = named();
    write(&mut switch, insert(vrf(&names, 1, b"red"))).unwrap();
    write(&mut switch, insert(vrf(&names, 2, b"blue"))).unwrap();
    let before = read(&switch, all(&names, "vrfs"));
    let numbers = [answered(&mut switch, 1), answered(&mut switch, 2)];
    switch.reconcile(forwarding(NAMES)).unwrap();
    assert_eq!(read(&switch, all(&names, "vrfs")), before);
    assert_eq!([answered(&mut switch, 1), answered(&mut switch, 2)], numbers);
    write(&mut switch, insert(vrf(&names, 3, b"red"))).unwrap();
    assert_eq!(answered(&mut switch, 3), numbers[0]);
}

#[test]
fn a_program_with_other_mappings_keeps_the_names_in_use_or_is_refused() {
    let with = |mappings: &str| {
        let declared = "{\"\", 0},";
        assert!(NAMES.contains(declared));
        forwarding(&NAMES.replacen(declared, &format!("{declared} {mappings}"), 1))
    };
    let (mut switch, names) = named();
    write(&mut switch, insert(vrf(&names, 1, b"red"))).unwrap();
    let before = read(&switch, all(&names, "vrfs"));
    let red = answered(&mut switch, 1);
    switch.reconcile(with("{\"green\", 1},")).unwrap();
    assert_eq!(read(&switch, all(&names, "vrfs")), before);
    for (key, name) in [(2, "blue"), (3, "green"), (4, "red")] {
        write(&mut switch, insert(vrf(&names, key, name.as_bytes()))).unwrap();
    }
    assert_eq!(answered(&mut switch, 1), red);
    assert_ne!(answered(&mut switch, 2), red);
    assert_eq!(answered(&mut switch, 3), 1);
    assert_eq!(answered(&mut switch, 4), red);
    let before = read(&switch, all(&names, "vrfs"));
    for mappings in [format!("{{\"green\", {red}}},"), "{\"red\", 5},".to_owned()] {
        let refusal = switch.reconcile(with(&mappings)).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.to_string().contains("the name `"), "{refusal}");
    }
    assert_eq!(read(&switch, all(&names, "vrfs")), before);
    assert_eq!(answered(&mut switch, 1), red);
}

#[test]
fn replicas_and_watched_ports_are_called_as_the_program_calls_ports() {
    let (mut switch, names) = named();
    let mut copies = group(1, &[(2, 1), (3, 1)]);
    if let Some(entity::Entity::PacketReplicationEngineEntry(entry)) = &mut copies.entity
        && let Some(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) =
            &mut entry.r#type
    {
        for (replica, port) in group.replicas.iter_mut().zip(["2", "3"]) {
            replica.port_kind = Some(p4::replica::PortKind::Port(port.into()));
        }
    }
    write(&mut switch, insert(copies.clone())).unwrap();
    assert_eq!(leaves(&mut switch, 1, &request(MULTICAST, 0, 0)), [2, 3]);
    assert_eq!(read(&switch, copies.clone()), [copies]);

    let one = |port: &str| p4::ActionProfileAction {
        action: match names.call("TestIngress.set_port", &[port.as_bytes()]).r#type {
            Some(table_action::Type::Action(action)) => Some(action),
            other => panic!("{other:?}"),
        },
        weight: 1,
        watch_kind: Some(p4::action_profile_action::WatchKind::WatchPort(port.into())),
    };
    let set = table_action::Type::ActionProfileActionSet(p4::ActionProfileActionSet {
        action_profile_actions: vec![one("2"), one("3")],
        ..Default::default()
    });
    let spread = table_entry(TableEntry {
        table_id: names.table("TestIngress.spread"),
        r#match: vec![exact(1, b"")],
        action: Some(TableAction { r#type: Some(set) }),
        ..Default::default()
    });
    write(&mut switch, insert(spread.clone())).unwrap();
    assert_eq!(read(&switch, all(&names, "spread")), [spread]);
    let ports = |switch: &mut Switch| -> Vec<u16> {
        let mut all: Vec<u16> =
            (0..40).flat_map(|key| leaves(switch, 1, &request(SPREAD, 0, key))).collect();
        assert!(all.len() == 40 || all.is_empty(), "{all:?}");
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(ports(&mut switch), [2, 3]);
    switch.set_link(2, false);
    assert_eq!(ports(&mut switch), [3]);
    switch.set_link(3, false);
    assert!(ports(&mut switch).is_empty());
    switch.set_link(2, true);
    assert_eq!(ports(&mut switch), [2]);
    // A program that comes later knows it, too.
    switch.reconcile(forwarding(NAMES)).unwrap();
    assert_eq!(ports(&mut switch), [2]);
}

#[test]
fn p4info_has_headers_that_no_packet_has() {
    let (_, names) = named();
    let headers = &names.0.controller_packet_metadata;
    let all: Vec<&str> = headers.iter().flat_map(|h| &h.preamble).map(|p| &*p.name).collect();
    assert_eq!(all, ["packet_in", "packet_out", "packet_more"]);
    assert_eq!(headers[0].metadata[0].bitwidth, 0);
    assert_eq!(headers[0].metadata[0].type_name.as_ref().unwrap().name, "port_id_t");
}

#[tokio::test]
async fn packets_of_the_controller_call_ports_by_their_names() {
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, NAMES).await;
    let metadata = |value: &[u8]| {
        vec![
            PacketMetadata { metadata_id: 1, value: value.to_vec() },
            PacketMetadata { metadata_id: 2, value: vec![0] },
        ]
    };
    let out = |port: &[u8]| {
        let payload = b"a frame from the controller".to_vec();
        stream_message_request::Update::Packet(PacketOut { payload, metadata: metadata(port) })
    };
    controller.say(out(b"2")).await;
    let frame = received(&mut device, 1).await;
    assert_eq!(frame, b"a frame from the controller");
    controller.say(out(b"Ethernet0")).await;
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Error(error) => {
            assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
        }
        other => panic!("{other:?}"),
    }

    let frame = request(TO_CONTROLLER, 0, 0);
    assert!(device.ports[1].send(&frame).unwrap());
    device.ports[1].flush().unwrap();
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Packet(packet) => {
            assert_eq!((packet.payload, packet.metadata), (frame, metadata(b"2")));
        }
        other => panic!("{other:?}"),
    }
}

/// The next frame that leaves a port.
async fn received(device: &mut Device, port: usize) -> Vec<u8> {
    let mut frames = Vec::new();
    for _ in 0..1000 {
        device.ports[port].receive(1, &mut |frame| frames.push(frame.to_vec())).unwrap();
        if let Some(frame) = frames.pop() {
            return frame;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no frame");
}
