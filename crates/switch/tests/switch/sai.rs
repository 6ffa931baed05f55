//! SAI P4, the switch program of PINS, from a folder that `TRIBUTARY_SAI_P4` names: the folder
//! `sai_p4` of the repository sonic-pins. Entries are written as a PINS controller writes them, with
//! names for ports, VRFs, next hops and so on. The expected packets are computed here, from the
//! meaning of the tables.

use std::path::PathBuf;

use tributary_netio::FrameIo as _;
use tributary_p4::Sources;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, FieldMatch, PacketMetadata, PacketOut, TableAction, TableEntry, entity,
    field_match, packet_replication_engine_entry as engine, replica, stream_message_request,
    stream_message_response, table_action,
};
use tributary_switch::{Forwarding, Switch, SwitchConfig};

use crate::common::*;
use crate::grpc::*;

/// The instantiations with routing.
const ROUTERS: [&str; 3] = ["middleblock", "tor", "fabric_border_router"];

/// What follows does not need `assert`, but strings and the header of packets to the controller.
const PLATFORM: &str = "PLATFORM_P4SYMBOLIC";

/// The preprocessed text of an instantiation; `None`, and a line, without the sources.
fn sai(instantiation: &str, platform: Option<&str>) -> Option<String> {
    let Some(folder) = std::env::var_os("TRIBUTARY_SAI_P4").map(PathBuf::from) else {
        eprintln!("skipped: TRIBUTARY_SAI_P4 does not name the folder sai_p4 of sonic-pins");
        return None;
    };
    let main = folder.join("instantiations/google").join(format!("{instantiation}.p4"));
    let sources = Sources::disk().search(folder.parent().expect("it has a parent"));
    let defines: Vec<_> = platform.iter().map(|name| (name.to_string(), "1".to_owned())).collect();
    let text = tributary_p4::preprocess(&sources, &main.display().to_string(), &defines);
    Some(text.unwrap_or_else(|errors| panic!("{instantiation}: {errors}")))
}

/// Objects by their aliases.
struct Sai(Names);

impl Sai {
    fn table(&self, alias: &str) -> &tributary_p4runtime::p4::config::v1::Table {
        let is = |t: &&tributary_p4runtime::p4::config::v1::Table| {
            t.preamble.as_ref().is_some_and(|p| p.alias == alias)
        };
        self.0.0.tables.iter().find(is).unwrap_or_else(|| panic!("no table {alias}"))
    }

    /// A call with parameters by name.
    fn call(&self, alias: &str, params: &[(&str, &[u8])]) -> p4::Action {
        let actions = &self.0.0.actions;
        let named = |a: &&tributary_p4runtime::p4::config::v1::Action| {
            a.preamble.as_ref().is_some_and(|p| p.alias == alias)
        };
        let action = actions.iter().find(named).unwrap_or_else(|| panic!("no action {alias}"));
        let param = |(name, value): &(&str, &[u8])| {
            let param = action.params.iter().find(|p| p.name == *name);
            let id = param.unwrap_or_else(|| panic!("{alias} has no {name}")).id;
            p4::action::Param { param_id: id, value: value.to_vec() }
        };
        let action_id = action.preamble.as_ref().unwrap().id;
        p4::Action { action_id, params: params.iter().map(param).collect() }
    }

    fn entry(
        &self,
        table: &str,
        keys: &[(&str, Match<'_>)],
        priority: i32,
        action: &str,
        params: &[(&str, &[u8])],
    ) -> Entity {
        let call = self.call(action, params);
        self.entry_with(table, keys, priority, table_action::Type::Action(call))
    }

    fn entry_with(
        &self,
        table: &str,
        keys: &[(&str, Match<'_>)],
        priority: i32,
        action: table_action::Type,
    ) -> Entity {
        let known = self.table(table);
        let field = |(name, value): &(&str, Match<'_>)| {
            let field = known.match_fields.iter().find(|f| f.name == *name);
            let field_id = field.unwrap_or_else(|| panic!("{table} has no {name}")).id;
            FieldMatch { field_id, field_match_type: Some(value.to_field()) }
        };
        table_entry(TableEntry {
            table_id: known.preamble.as_ref().unwrap().id,
            r#match: keys.iter().map(field).collect(),
            priority,
            action: Some(TableAction { r#type: Some(action) }),
            ..Default::default()
        })
    }
}

#[derive(Clone, Copy)]
enum Match<'a> {
    Exact(&'a [u8]),
    Lpm(&'a [u8], i32),
    Ternary(&'a [u8], &'a [u8]),
    Optional(&'a [u8]),
}

impl Match<'_> {
    fn to_field(self) -> field_match::FieldMatchType {
        use field_match::FieldMatchType as F;
        let bytes = |b: &[u8]| {
            let zeros = b.iter().take(b.len().saturating_sub(1)).take_while(|b| **b == 0).count();
            b[zeros..].to_vec()
        };
        match self {
            Self::Exact(value) => F::Exact(field_match::Exact { value: bytes(value) }),
            Self::Lpm(value, prefix_len) => {
                F::Lpm(field_match::Lpm { value: bytes(value), prefix_len })
            }
            Self::Ternary(value, mask) => {
                F::Ternary(field_match::Ternary { value: bytes(value), mask: bytes(mask) })
            }
            Self::Optional(value) => F::Optional(field_match::Optional { value: bytes(value) }),
        }
    }
}

use Match::{Exact, Lpm, Optional, Ternary};

const ROUTER_MAC: [u8; 6] = [0x00, 0x50, 0, 0, 0, 0xaa];
const HOST_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
/// Of the two interfaces, and of the neighbours behind them.
const RIF_MAC: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 1, 2], [0x02, 0, 0, 0, 1, 3]];
const NEIGHBOR_MAC: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 2, 2], [0x02, 0, 0, 0, 2, 3]];
const NEIGHBORS: [[u8; 16]; 2] = [
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
];
const V6_PREFIX: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Two next hops, at ports 2 and 3; 10.1.0.0/16 goes to the first, 10.2.0.0/16 to the second,
/// 2001:db8:1::/48 to a group of both; all in the VRF of port 1.
fn routes(sai: &Sai) -> Vec<Entity> {
    let mut all = vec![
        sai.entry("vrf_table", &[("vrf_id", Exact(b"vrf-blue"))], 0, "no_action", &[]),
        sai.entry(
            "acl_pre_ingress_table",
            &[("in_port", Optional(b"1"))],
            1,
            "set_vrf",
            &[("vrf_id", b"vrf-blue")],
        ),
        sai.entry(
            "l3_admit_table",
            &[("dst_mac", Ternary(&ROUTER_MAC, &[0xff; 6]))],
            1,
            "admit_to_l3",
            &[],
        ),
    ];
    for (i, port) in [b"2", b"3"].into_iter().enumerate() {
        let (rif, hop) = (format!("rif-{i}"), format!("nexthop-{i}"));
        let (rif, hop) = (rif.as_bytes(), hop.as_bytes());
        all.push(sai.entry(
            "router_interface_table",
            &[("router_interface_id", Exact(rif))],
            0,
            "unicast_set_port_and_src_mac",
            &[("port", port), ("src_mac", &RIF_MAC[i])],
        ));
        all.push(sai.entry(
            "neighbor_table",
            &[("router_interface_id", Exact(rif)), ("neighbor_id", Exact(&NEIGHBORS[i]))],
            0,
            "set_dst_mac",
            &[("dst_mac", &NEIGHBOR_MAC[i])],
        ));
        all.push(sai.entry(
            "nexthop_table",
            &[("nexthop_id", Exact(hop))],
            0,
            "set_ip_nexthop",
            &[("router_interface_id", rif), ("neighbor_id", &NEIGHBORS[i])],
        ));
        all.push(sai.entry(
            "ipv4_table",
            &[("vrf_id", Exact(b"vrf-blue")), ("ipv4_dst", Lpm(&[10, 1 + i as u8, 0, 0], 16))],
            0,
            "set_nexthop_id",
            &[("nexthop_id", hop)],
        ));
    }
    let one = |hop: &[u8], port: &str| p4::ActionProfileAction {
        action: Some(sai.call("set_nexthop_id", &[("nexthop_id", hop)])),
        weight: 1,
        watch_kind: Some(p4::action_profile_action::WatchKind::WatchPort(port.into())),
    };
    let set = p4::ActionProfileActionSet {
        action_profile_actions: vec![one(b"nexthop-0", "2"), one(b"nexthop-1", "3")],
        ..Default::default()
    };
    all.push(sai.entry_with(
        "wcmp_group_table",
        &[("wcmp_group_id", Exact(b"group-1"))],
        0,
        table_action::Type::ActionProfileActionSet(set),
    ));
    all.push(sai.entry(
        "ipv6_table",
        &[("vrf_id", Exact(b"vrf-blue")), ("ipv6_dst", Lpm(&V6_PREFIX, 48))],
        0,
        "set_wcmp_group_id",
        &[("wcmp_group_id", b"group-1")],
    ));
    all
}

fn ethernet(dst: [u8; 6], src: [u8; 6], ether_type: u16) -> Vec<u8> {
    [&dst[..], &src, &ether_type.to_be_bytes()].concat()
}

/// The checksum of a header: one's complement sum of its words.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

fn ipv4(dst: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 28, 0x12, 0x34, 0x40, 0, ttl, 17, 0, 0, 192, 0, 2, 1];
    header.extend(dst);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    // UDP without data.
    header.extend([0x04, 0xd2, 0x00, 0x35, 0, 8, 0, 0]);
    header
}

fn ipv6(last: u8, hops: u8) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 8, 17, hops];
    header.extend([0x20, 0x01, 0x0d, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    header.extend(&V6_PREFIX[..15]);
    header.extend([last, 0x04, 0xd2, 0x00, 0x35, 0, 8, 0, 0]);
    header
}

fn to_router(packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [ethernet(ROUTER_MAC, HOST_MAC, ether_type), packet.to_vec()].concat()
}

/// What the router makes of it: a hop less, the addresses of interface and neighbour.
fn routed(packet: &[u8], hop: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let ether_type = if packet[0] >> 4 == 4 {
        packet[8] -= 1;
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        0x0800
    } else {
        packet[7] -= 1;
        0x86dd
    };
    [ethernet(NEIGHBOR_MAC[hop], RIF_MAC[hop], ether_type), packet].concat()
}

/// All frames that leave, with their ports, in the order of the ports.
fn sent(switch: &mut Switch, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    switch.receive(0, port, frame);
    while switch.run_pending(0, 64) {}
    let mut all = Vec::new();
    for port in 1..=4 {
        while let Some(frame) = transmit(switch, 0, port) {
            all.push((port, frame));
        }
    }
    all
}

/// A session with these replicas: ports by their names, and instances.
fn session(session_id: u32, copies: &[(&str, u32)]) -> Entity {
    let replica = |&(port, instance): &(&str, u32)| p4::Replica {
        port_kind: Some(replica::PortKind::Port(port.into())),
        instance,
        backup_replicas: Vec::new(),
    };
    let session = p4::CloneSessionEntry {
        session_id,
        replicas: copies.iter().map(replica).collect(),
        ..Default::default()
    };
    let r#type = Some(engine::Type::CloneSessionEntry(session));
    let entry = p4::PacketReplicationEngineEntry { r#type };
    Entity { entity: Some(entity::Entity::PacketReplicationEngineEntry(entry)) }
}

fn router(instantiation: &str) -> Option<(Switch, Sai)> {
    let text = sai(instantiation, Some(PLATFORM))?;
    let switch = switch(&text, SwitchConfig::default());
    let names = Names::of(&switch);
    Some((switch, Sai(names)))
}

fn install(switch: &mut Switch, entities: &[Entity]) {
    for entity in entities {
        write(switch, insert(entity.clone())).unwrap_or_else(|r| panic!("{r}: {entity:?}"));
    }
}

#[test]
fn every_instantiation_loads_for_every_platform() {
    for instantiation in ["middleblock", "tor", "fabric_border_router", "wbb"] {
        for platform in [None, Some(PLATFORM), Some("PLATFORM_BMV2")] {
            let Some(text) = sai(instantiation, platform) else { return };
            let loaded = Forwarding::from_source(&text);
            loaded.unwrap_or_else(|r| panic!("{instantiation} for {platform:?}: {r}"));
        }
    }
}

#[test]
fn packets_are_routed_through_vrf_prefix_next_hop_interface_and_neighbour() {
    for instantiation in ROUTERS {
        let Some((mut switch, sai)) = router(instantiation) else { return };
        let routes = routes(&sai);
        install(&mut switch, &routes);
        for (dst, hop) in [([10, 1, 2, 3], 0), ([10, 2, 2, 3], 1)] {
            let packet = ipv4(dst, 64);
            let out = sent(&mut switch, 1, &to_router(&packet));
            assert_eq!(out, [(2 + hop as u16, routed(&packet, hop))], "{instantiation}");
        }
        // No route, the last hop, another VRF, a multicast address.
        assert!(sent(&mut switch, 1, &to_router(&ipv4([10, 3, 0, 1], 64))).is_empty());
        assert!(sent(&mut switch, 1, &to_router(&ipv4([10, 1, 0, 1], 1))).is_empty());
        assert!(sent(&mut switch, 4, &to_router(&ipv4([10, 1, 0, 1], 64))).is_empty());
        let mut other = to_router(&ipv4([10, 1, 0, 1], 64));
        other[0] |= 1;
        assert!(sent(&mut switch, 1, &other).is_empty());
        // What a controller reads is what it wrote.
        let mut read_back: Vec<Entity> =
            routes.iter().flat_map(|entity| read(&switch, key_of(entity))).collect();
        for entity in &mut read_back {
            if let Some(entity::Entity::TableEntry(entry)) = &mut entity.entity {
                entry.time_since_last_hit = None;
            }
        }
        assert_eq!(read_back, routes, "{instantiation}");
    }
}

/// A query for an entry.
fn key_of(entity: &Entity) -> Entity {
    let Some(entity::Entity::TableEntry(entry)) = &entity.entity else { panic!("{entity:?}") };
    table_entry(TableEntry { action: None, ..entry.clone() })
}

#[test]
fn a_group_avoids_the_member_whose_port_is_down() {
    for instantiation in ROUTERS {
        let Some((mut switch, sai)) = router(instantiation) else { return };
        install(&mut switch, &routes(&sai));
        let packet = ipv6(7, 64);
        let both = sent(&mut switch, 1, &to_router(&packet));
        let [(port, frame)] = &both[..] else { panic!("{instantiation}: {both:?}") };
        let hop = usize::from(*port) - 2;
        assert_eq!(*frame, routed(&packet, hop), "{instantiation}");
        switch.set_link(*port, false);
        let other = 1 - hop;
        let out = sent(&mut switch, 1, &to_router(&packet));
        assert_eq!(out, [(2 + other as u16, routed(&packet, other))], "{instantiation}");
        switch.set_link(*port, true);
        assert_eq!(sent(&mut switch, 1, &to_router(&packet)), both);
    }
}

/// The entry of the table that models the replication of packets by hardware.
fn cloning(sai: &Sai, copy: bool, mirror: Option<&[u8]>, session: u32) -> Entity {
    let mut keys = vec![
        ("marked_to_copy", Exact(if copy { &[1] } else { &[0] })),
        ("marked_to_mirror", Exact(if mirror.is_some() { &[1] } else { &[0] })),
    ];
    keys.extend(mirror.map(|port| ("mirror_egress_port", Optional(port))));
    let session = shortest(session.into());
    sai.entry("ingress_clone_table", &keys, 1, "ingress_clone", &[("clone_session", &session)])
}

/// A packet to the controller: the port at which it came, and the one it would leave by.
fn packet_in(from: u16, to: u16, frame: &[u8]) -> Vec<u8> {
    // Two ports of 9 bits, and 6 of filling.
    let header = u32::from(from) << 15 | u32::from(to) << 6;
    [&header.to_be_bytes()[1..], frame].concat()
}

#[test]
fn access_lists_drop_copy_and_trap() {
    for instantiation in ["middleblock", "tor", "fabric_border_router"] {
        let Some((mut switch, sai)) = router(instantiation) else { return };
        install(&mut switch, &routes(&sai));
        install(&mut switch, &[session(1, &[("510", 1)]), cloning(&sai, true, None, 1)]);
        let acl = |last: u8, action: &str, params: &[(&str, &[u8])]| {
            let keys =
                [("is_ipv4", Optional(&[1])), ("dst_ip", Ternary(&[10, 1, 0, last], &[0xff; 4]))];
            sai.entry("acl_ingress_table", &keys, 1, action, params)
        };
        install(
            &mut switch,
            &[
                acl(1, "acl_drop", &[]),
                acl(2, "acl_copy", &[("qos_queue", b"7")]),
                acl(3, "acl_trap", &[("qos_queue", b"7")]),
            ],
        );
        for (last, forwarded, told) in
            [(1, false, false), (2, true, true), (3, false, true), (4, true, false)]
        {
            let packet = ipv4([10, 1, 0, last], 9);
            let frame = to_router(&packet);
            let out = sent(&mut switch, 1, &frame);
            let expected = if forwarded { vec![(2, routed(&packet, 0))] } else { Vec::new() };
            assert_eq!(out, expected, "{instantiation}, {last}");
            let packets: Vec<Vec<u8>> = std::iter::from_fn(|| switch.poll_packet_in()).collect();
            // The clone is the packet as it came.
            let expected = if told { vec![packet_in(1, 2, &frame)] } else { Vec::new() };
            assert_eq!(packets, expected, "{instantiation}, {last}");
        }
    }
}

#[test]
fn access_lists_mirror() {
    for instantiation in ["middleblock", "tor"] {
        let Some((mut switch, sai)) = router(instantiation) else { return };
        install(&mut switch, &routes(&sai));
        let (source, target) = ([0xfd; 16], [0xfe; 16]);
        install(
            &mut switch,
            &[
                session(2, &[("4", 2)]),
                cloning(&sai, false, Some(b"4"), 2),
                sai.entry(
                    "mirror_session_table",
                    &[("mirror_session_id", Exact(b"mirror-1"))],
                    0,
                    "mirror_with_vlan_tag_and_ipfix_encapsulation",
                    &[
                        ("monitor_port", b"4"),
                        ("monitor_failover_port", b"3"),
                        ("mirror_encap_src_mac", &[2, 0, 0, 0, 9, 1]),
                        ("mirror_encap_dst_mac", &[2, 0, 0, 0, 9, 2]),
                        ("mirror_encap_vlan_id", &[0x12]),
                        ("mirror_encap_src_ip", &source),
                        ("mirror_encap_dst_ip", &target),
                        ("mirror_encap_udp_src_port", &[0x10, 0x01]),
                        ("mirror_encap_udp_dst_port", &[0x12, 0x83]),
                    ],
                ),
            ],
        );
        let keys =
            [("is_ipv6", Optional(&[1])), ("dst_ipv6", Ternary(&V6_PREFIX[..8], &[0xff; 8]))];
        let mirror = [("mirror_session_id", &b"mirror-1"[..])];
        install(&mut switch, &[sai.entry("acl_ingress_table", &keys, 1, "acl_mirror", &mirror)]);
        let packet = ipv6(7, 64);
        let frame = to_router(&packet);
        let out = sent(&mut switch, 1, &frame);
        assert_eq!(out.len(), 2, "{instantiation}: {out:?}");
        assert!([0, 1].map(|hop| (2 + hop as u16, routed(&packet, hop))).contains(&out[0]));
        // Ethernet and VLAN, IPv6, UDP, IPFIX and PSAMP, whose contents the program leaves open.
        let length = (frame.len() as u16 + 8 + 16 + 28).to_be_bytes();
        let mut around = ethernet([2, 0, 0, 0, 9, 2], [2, 0, 0, 0, 9, 1], 0x8100);
        around.extend([0, 0x12, 0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], 17, 0]);
        around.extend(source);
        around.extend(target);
        around.extend([0x10, 0x01, 0x12, 0x83, length[0], length[1], 0, 0]);
        let (port, copy) = &out[1];
        assert_eq!(*port, 4, "{instantiation}");
        assert_eq!(copy[..around.len()], around, "{instantiation}");
        assert_eq!(copy[around.len() + 16 + 28..], frame, "{instantiation}");
    }
}

#[tokio::test]
async fn a_controller_pushes_it_and_exchanges_packets() {
    let Some(text) = sai("middleblock", Some(PLATFORM)) else { return };
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, &text).await;
    let sai = Sai(names(&text));
    let mut entities = routes(&sai);
    // The device has ports 1 and 2 only.
    entities.retain(|entity| !format!("{entity:?}").contains(&format!("{:?}", b"3")));
    let updates = entities.iter().cloned().map(insert).collect();
    client.write(writing(updates)).await.unwrap();
    let more = [session(1, &[("510", 1)]), cloning(&sai, true, None, 1)];
    let acl = sai.entry(
        "acl_ingress_table",
        &[("is_ipv4", Optional(&[1]))],
        1,
        "acl_copy",
        &[("qos_queue", b"0x7")],
    );
    client.write(writing(more.into_iter().chain([acl]).map(insert).collect())).await.unwrap();

    let metadata = |id, value: &[u8]| PacketMetadata { metadata_id: id, value: value.to_vec() };
    let packet = ipv4([10, 1, 0, 9], 9);
    let frame = to_router(&packet);
    assert!(device.ports[0].send(&frame).unwrap());
    device.ports[0].flush().unwrap();
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Packet(told) => {
            assert_eq!(told.payload, frame);
            assert_eq!(told.metadata[..2], [metadata(1, b"1"), metadata(2, b"2")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(received(&mut device, 1).await, routed(&packet, 0));

    // Out of a port, past the tables; then through the tables.
    let out = |port: &[u8], submit: u8, payload: &[u8]| {
        let metadata = vec![metadata(1, port), metadata(2, &[submit]), metadata(3, &[0])];
        let payload = payload.to_vec();
        stream_message_request::Update::Packet(PacketOut { payload, metadata })
    };
    controller.say(out(b"2", 0, &frame)).await;
    assert_eq!(received(&mut device, 1).await, frame);
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
