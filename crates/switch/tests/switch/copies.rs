//! Clones, digests, priorities: the use of the traffic manager by v1model programs, other than
//! forwarding. The expectations are BMv2's behaviour; the differential tests of `tributary-p4-tools`
//! compare both.

use tributary_dataplane::Value;
use tributary_p4runtime::p4::v1::{
    CloneSessionEntry, Entity, PacketReplicationEngineEntry, entity,
    packet_replication_engine_entry::Type,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::allocations::forwards_without_allocating;
use crate::common::*;

const COPIES: &str = include_str!("programs/copies.p4");

fn session(id: u32, copies: &[(u16, u32)], length: i32) -> Entity {
    let session = CloneSessionEntry {
        session_id: id,
        replicas: replicas(copies),
        packet_length_bytes: length,
        ..Default::default()
    };
    Entity {
        entity: Some(entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(Type::CloneSessionEntry(session)),
        })),
    }
}

/// Session 1 is for port 3, session 2 for ports 3 and 4, session 3 cuts to ten bytes.
fn copying() -> Switch {
    let mut switch = switch(COPIES, SwitchConfig::default());
    for session in
        [session(1, &[(3, 9)], 0), session(2, &[(3, 7), (4, 8)], 0), session(3, &[(3, 9)], 10)]
    {
        write(&mut switch, insert(session)).unwrap();
    }
    write(&mut switch, insert(group(1, &[(3, 5), (4, 6)]))).unwrap();
    switch
}

/// What egress reported in an outgoing frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    port: u16,
    seen: u8,
    instance: u32,
    length: u32,
    rid: u16,
    from: u16,
    kept: u8,
    lost: u8,
    time: u16,
}

fn wish(op: u8, session: u8) -> Vec<u8> {
    vec![op, session, 0x11, 0, b'p', b'a', b'y']
}

/// The frames that result from one frame, by port.
fn all(switch: &mut Switch, now_us: u64, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    switch.receive(now_us, 1, frame);
    let mut out = Vec::new();
    for _ in 0..3 {
        switch.run_pending(now_us, 8);
        for port in 1..=4 {
            out.extend(std::iter::from_fn(|| transmit(switch, now_us, port)).map(|f| (port, f)));
        }
    }
    out.sort();
    out
}

fn told(switch: &mut Switch, frame: &[u8]) -> Vec<Told> {
    let told = |(port, frame): &(u16, Vec<u8>)| {
        let long = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let short = |at: usize| u16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
        assert_eq!(&frame[20..], b"pay");
        Told {
            port: *port,
            seen: frame[2],
            instance: long(4),
            length: long(8),
            rid: short(12),
            from: short(14),
            kept: frame[16],
            lost: frame[17],
            time: short(18),
        }
    };
    all(switch, 100, frame).iter().map(told).collect()
}

/// The packet itself, as egress sees it by default.
const PLAIN: Told = Told {
    port: 2,
    seen: 0xee,
    instance: 0,
    length: 7,
    rid: 0,
    from: 1,
    kept: 2,
    lost: 1,
    time: 100,
};

/// A clone of the received frame: no metadata, and no changes of ingress.
const CLONE: Told = Told {
    port: 3,
    seen: 0x11,
    instance: 1,
    length: 7,
    rid: 9,
    from: 0,
    kept: 0,
    lost: 0,
    time: 0,
};

#[test]
fn a_clone_of_ingress_is_the_received_frame_with_the_metadata_of_its_list() {
    let mut switch = copying();
    assert_eq!(told(&mut switch, &wish(0, 1)), [PLAIN]);
    assert_eq!(told(&mut switch, &wish(1, 1)), [PLAIN, CLONE]);
    // The field list is read at the end of ingress.
    assert_eq!(told(&mut switch, &wish(2, 1)), [PLAIN, Told { kept: 2, ..CLONE }]);
    assert_eq!(told(&mut switch, &wish(3, 1)), [PLAIN, Told { kept: 2, from: 1, ..CLONE }]);
    let two = [(3, 7), (4, 8)].map(|(port, rid)| Told { port, rid, ..CLONE });
    assert_eq!(told(&mut switch, &wish(1, 2)), [PLAIN, two[0], two[1]]);
    // Dropping the packet does not drop the clone.
    assert_eq!(told(&mut switch, &wish(4, 1)), [CLONE]);
    assert_eq!(switch.statistics().no_such_session, 0);
    assert_eq!(told(&mut switch, &wish(1, 200)), [PLAIN]);
    assert_eq!(switch.statistics().no_such_session, 1);
}

#[test]
fn a_session_may_cut_its_copies() {
    let mut switch = copying();
    let frames = all(&mut switch, 0, &wish(1, 3));
    assert_eq!(
        frames.iter().map(|(port, f)| (*port, f.len())).collect::<Vec<_>>(),
        [(2, 23), (3, 10)]
    );
}

#[test]
fn resubmission_combines_with_a_clone_and_a_digest_and_precedes_a_drop() {
    let mut switch = copying();
    // Metadata is reset except for the list, including the port and the arrival time.
    let again = Told { from: 0, ..PLAIN };
    assert_eq!(
        told(&mut switch, &wish(5, 1)),
        [again, CLONE].map(|t| Told { time: if t.port == 2 { 200 } else { 0 }, ..t })
    );
    let digest = switch.poll_digest().unwrap();
    assert_eq!(digest.data, [5u64, 0xee].map(Value::from));
    assert_eq!(switch.poll_digest(), None);
    assert_eq!(switch.statistics().resubmitted, 1);
    assert_eq!(told(&mut switch, &wish(6, 1)), [Told { time: 0, ..again }]);
}

#[test]
fn a_clone_of_egress_is_the_packet_at_its_end_and_goes_through_egress_again() {
    let mut switch = copying();
    let clone = Told {
        port: 3,
        seen: 0x99,
        instance: 2,
        length: 23,
        rid: 9,
        from: 0,
        kept: 0x77,
        lost: 0,
        time: 0,
    };
    let original = Told { seen: 0x99, ..PLAIN };
    assert_eq!(told(&mut switch, &wish(11, 1)), [original, clone]);
    assert_eq!(told(&mut switch, &wish(12, 1)), [Told { seen: 0xee, kept: 0, ..clone }]);
}

#[test]
fn clones_and_drops_in_egress_without_end_leave_other_packets_their_turn() {
    let mut switch = copying();
    write(&mut switch, insert(session(4, &[(2, 0)], 0))).unwrap();
    switch.receive(0, 2, &wish(15, 4));
    let mut frame = Vec::new();
    for _ in 0..10 {
        assert!(!switch.transmit(0, 2, &mut frame));
        assert_eq!(switch.queue_depth(2), 1);
    }
    switch.receive(0, 2, &wish(0, 0));
    assert!(switch.transmit(0, 2, &mut frame));
    assert_eq!(switch.queue_depth(2), 1);
}

#[test]
fn truncation_applies_to_the_packet_itself_when_it_leaves() {
    let mut switch = copying();
    let lengths = |switch: &mut Switch, op| -> Vec<_> {
        all(switch, 0, &wish(op, 1)).iter().map(|(port, f)| (*port, f.len())).collect()
    };
    assert_eq!(lengths(&mut switch, 7), [(2, 6)]);
    // Replicas of a packet that requested truncation in ingress are complete, and so is a
    // recirculated packet.
    assert_eq!(lengths(&mut switch, 8), [(3, 23), (4, 23)]);
    assert_eq!(lengths(&mut switch, 13), [(2, 39)]);
    // Dropping has precedence over recirculation.
    assert_eq!(lengths(&mut switch, 14), []);
    assert_eq!(switch.statistics().recirculated, 1);
}

#[test]
fn copies_and_digests_wait_in_queues_of_limited_length() {
    let mut switch = switch(COPIES, SwitchConfig { queue_limit: 2, ..Default::default() });
    write(&mut switch, insert(session(1, &[(3, 9)], 0))).unwrap();
    for _ in 0..5 {
        switch.receive(0, 1, &wish(5, 1));
    }
    assert_eq!(switch.queue_depth(3), 2);
    assert_eq!(switch.port_statistics(3).unwrap().queue_drops, 3);
    assert_eq!(switch.statistics().digest_drops, 3);
}

#[test]
fn higher_priorities_leave_first_and_those_without_a_queue_are_dropped() {
    let mut switch = switch(COPIES, SwitchConfig { priority_queues: 3, ..Default::default() });
    let frame = |priority, name| vec![0, 1, 0x11, priority, name];
    for (priority, name) in [(0, b'a'), (2, b'b'), (1, b'c'), (2, b'd'), (3, b'e')] {
        switch.receive(0, 1, &frame(priority, name));
    }
    let names: Vec<u8> =
        std::iter::from_fn(|| transmit(&mut switch, 0, 2)).map(|f| f[f.len() - 1]).collect();
    assert_eq!(names, b"bdca");
    assert_eq!(switch.statistics().no_such_queue, 1);
    // With one queue, simple_switch's default, only priority zero exists.
    let mut plain = copying();
    plain.receive(0, 1, &frame(1, b'f'));
    assert_eq!(transmit(&mut plain, 0, 2), None);
    assert_eq!(plain.statistics().no_such_queue, 1);
}

#[test]
fn clones_allocate_nothing() {
    let mut switch = copying();
    let frames = [wish(2, 2), wish(3, 1), wish(4, 3), wish(6, 1), wish(11, 2), wish(12, 1)];
    forwards_without_allocating(&mut switch, &frames, 3 + 2 + 1 + 1 + 3 + 1);
}
