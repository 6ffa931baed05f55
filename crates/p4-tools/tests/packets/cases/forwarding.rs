//! Plain traffic: bridged, flooded, routed. Aggregation packets are forwarded in the same way.

use super::cases;
use crate::entries::{Entry, Key};
use crate::frames::{ARP, CONGESTED, Frame, IPV6, NOT_CAPABLE, internet_checksum, ip, mac, plain};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{A, PS, rack, values};
use crate::target::Build;

cases!("forwarding":
    known_host, unknown_host_is_flooded, broadcast, other_ethertypes, other_udp_and_ip,
    options_and_fragments, routed, time_to_live, no_route, routed_sum, dropped_address,
    host_behind_its_own_port, address_of_the_switch_without_ip,
);

const ROUTER: u64 = 0x0200_0000_00fe;

fn dns(from: u16, to: u16) -> Frame {
    Frame::new(0, from, to).ecn(NOT_CAPABLE).with(|f| f.udp_destination = 53)
}

fn known_host() {
    let mut lab = rack(Build::PATIENT);
    for (from, to) in [(1, 2), (5, 6), (6, 1), (4, 3)] {
        let frame = dns(from, to);
        lab.check(from, &frame.bytes(), (NO_JOB, Forwarded), &[(to, frame.bytes())]);
    }
    // The source address is ignored.
    let frame = dns(1, 2).with(|f| f.source = mac(2));
    lab.check(5, &frame.bytes(), (NO_JOB, Forwarded), &[(2, frame.bytes())]);
}

fn unknown_host_is_flooded() {
    let mut lab = rack(Build::PATIENT);
    for from in [1, 4, 6] {
        let frame = dns(from, 99).bytes();
        let others = (1..=6).filter(|port| *port != from).map(|port| (port, frame.clone()));
        lab.check(from, &frame, (NO_JOB, Forwarded), &others.collect::<Vec<_>>());
    }
}

fn broadcast() {
    let mut lab = rack(Build::PATIENT);
    let arp = plain(0xffff_ffff_ffff, mac(3), 0x0806, &[7; 28]);
    let others = [1, 2, 4, 5, 6].map(|port| (port, arp.clone()));
    lab.check(3, &arp, (NO_JOB, Forwarded), &others);
}

fn other_ethertypes() {
    let mut lab = rack(Build::PATIENT);
    for payload in [&[][..], &[0x45; 46][..], &[9; 1000][..]] {
        for ethertype in [ARP, IPV6] {
            let frame = plain(mac(2), mac(1), ethertype, payload);
            lab.check(1, &frame, (NO_JOB, Forwarded), &[(2, frame.clone())]);
        }
        for ethertype in [0x0000, 0x0026, 0x0801, 0x8809, 0x88cc, 0xffff] {
            let frame = plain(mac(2), mac(1), ethertype, payload);
            lab.check_gone(1, &frame, (NO_JOB, Barred));
        }
    }
}

/// Other UDP ports, other transports, and a UDP header alone.
fn other_udp_and_ip() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let whole = || A.gradient(0, 7, 3, &x);
    let mut frames = vec![
        whole().with(|f| f.udp_destination = 29809),
        whole().with(|f| f.udp_destination = 29811),
        whole().with(|f| (f.udp_source, f.udp_destination) = (29810, 1)),
    ];
    for protocol in [0, 1, 6, 16, 18, 50, 132, 255] {
        frames.push(whole().with(|f| f.ip_protocol = protocol));
    }
    for frame in frames {
        lab.check(1, &frame.bytes(), (NO_JOB, Forwarded), &[(PS, frame.bytes())]);
    }
    // The source port is ignored.
    let frame = whole().with(|f| f.udp_source = 5);
    lab.check_gone(1, &frame.bytes(), (A.slot, Absorbed));
}

/// A host removes options and reassembles fragments: UDP packets with either do not pass.
fn options_and_fragments() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let whole = || A.gradient(0, 7, 3, &x);
    let options = |words: u8| {
        whole().with(|f| {
            f.version = 0x45 + words;
            f.options = vec![1; usize::from(words) * 4];
        })
    };
    let frames = [
        options(1),
        options(10),
        // The header's length field is too small.
        whole().with(|f| f.version = 0x44),
        whole().with(|f| f.version = 0x40),
        // The first fragment, one in the middle, the last one.
        whole().with(|f| f.fragment = 0x2000),
        whole().with(|f| f.fragment = 0x2001),
        whole().with(|f| f.fragment = 0x0001),
        whole().with(|f| f.fragment = 0x1fff),
        // IPv6 in an IPv4 frame.
        whole().with(|f| f.version = 0x65),
    ];
    for frame in frames {
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Barred));
        // Packets other than UDP pass.
        let frame = frame.with(|f| f.ip_protocol = 1);
        if frame.version >> 4 == 4 {
            lab.check(1, &frame.bytes(), (NO_JOB, Forwarded), &[(PS, frame.bytes())]);
        }
    }
    // With options, the switch does not verify the checksum.
    let frame = options(2).with(|f| (f.checksum, f.ip_protocol) = (Some(0x1234), 2));
    lab.check(1, &frame.bytes(), (NO_JOB, Forwarded), &[(PS, frame.bytes())]);
    // "Do not fragment" and the reserved bit do not make a fragment.
    for fragment in [0, 0x4000, 0x8000, 0xc000] {
        let frame = A.gradient(0, 7, fragment / 0x4000, &x).with(|f| f.fragment = fragment as u16);
        lab.check_gone(1, &frame.bytes(), (A.slot, Absorbed));
    }
}

/// A frame for the switch itself is routed: longest prefix first, addresses changed, time to live
/// decreased, checksum correct.
fn routed() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[
        Entry::own_address(ROUTER),
        Entry::route((0x0a00_0000, 8), 1, ROUTER, mac(1)),
        Entry::route((ip(2), 32), 2, ROUTER, mac(2)),
        Entry::route((0x0a00_8000, 17), 3, ROUTER, mac(3)),
        Entry::route((0, 0), 5, ROUTER, 0x0200_0000_0505),
    ]);
    for (to, port, next) in [
        (ip(2), 2, mac(2)),
        (ip(3), 1, mac(1)),
        (0x0a00_8001, 3, mac(3)),
        (0x0aff_0001, 1, mac(1)),
        (0x0b00_0001, 5, 0x0200_0000_0505),
        (0xffff_ffff, 5, 0x0200_0000_0505),
    ] {
        for ttl in [2, 64, 255] {
            let frame = dns(6, 0).with(|f| {
                f.destination = ROUTER;
                f.ip_destination = to;
                f.ttl = ttl;
            });
            let routed = frame.clone().with(|f| {
                (f.destination, f.source) = (next, ROUTER);
                f.ttl -= 1;
            });
            lab.check(6, &frame.bytes(), (NO_JOB, Forwarded), &[(port, routed.bytes())]);
            assert_eq!(
                internet_checksum(&routed.bytes()[14..34]),
                0,
                "a right header sums up to 0"
            );
        }
    }
}

fn time_to_live() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[Entry::own_address(ROUTER), Entry::route((ip(2), 32), 2, ROUTER, mac(2))]);
    for ttl in [0, 1] {
        let frame = dns(6, 2).with(|f| (f.destination, f.ttl) = (ROUTER, ttl));
        lab.check_gone(6, &frame.bytes(), (NO_JOB, Forwarded));
        // A bridge does not decrease the time to live.
        let frame = dns(6, 2).with(|f| f.ttl = ttl);
        lab.check(6, &frame.bytes(), (NO_JOB, Forwarded), &[(2, frame.bytes())]);
    }
}

fn no_route() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[Entry::own_address(ROUTER), Entry::route((ip(2), 32), 2, ROUTER, mac(2))]);
    let frame = dns(6, 3).with(|f| f.destination = ROUTER);
    lab.check_gone(6, &frame.bytes(), (NO_JOB, Forwarded));
    lab.delete(&[Entry::route((ip(2), 32), 2, ROUTER, mac(2))]);
    let frame = dns(6, 2).with(|f| f.destination = ROUTER);
    lab.check_gone(6, &frame.bytes(), (NO_JOB, Forwarded));
}

/// An aggregation packet for the switch's own address is also aggregated, and its output is routed.
fn routed_sum() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[Entry::own_address(ROUTER), Entry::route((ip(PS), 32), PS, ROUTER, mac(PS))]);
    let x = values(&lab, 1);
    let via = |frame: Frame| frame.with(|f| f.destination = ROUTER);
    let first = via(A.gradient(0, 7, 3, &x));
    lab.check_gone(1, &first.bytes(), (A.slot, Absorbed));
    let collided = via(A.gradient(1, 8, 3, &x)).ecn(CONGESTED);
    let routed = collided.clone().with(|f| {
        (f.destination, f.source) = (mac(PS), ROUTER);
        f.ttl -= 1;
        f.flags = crate::frames::COLLISION | crate::frames::MARKED;
    });
    lab.check(2, &collided.bytes(), (A.slot, Collided), &[(PS, routed.bytes())]);
}

fn dropped_address() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[
        Entry::forwarding("hosts", vec![Key::Exact(0x0200_0000_0077)], "forwarding.drop", vec![]),
        Entry::forwarding("hosts", vec![Key::Exact(0x0200_0000_0078)], "forwarding.flood", vec![]),
    ]);
    let frame = dns(1, 2).with(|f| f.destination = 0x0200_0000_0077);
    lab.check_gone(1, &frame.bytes(), (NO_JOB, Forwarded));
    let frame = dns(1, 2).with(|f| f.destination = 0x0200_0000_0078).bytes();
    let others = [2, 3, 4, 5, 6].map(|port| (port, frame.clone()));
    lab.check(1, &frame, (NO_JOB, Forwarded), &others);
}

/// Only floods exclude the arrival port.
fn host_behind_its_own_port() {
    let mut lab = rack(Build::PATIENT);
    let frame = dns(5, 5);
    lab.check(5, &frame.bytes(), (NO_JOB, Forwarded), &[(5, frame.bytes())]);
}

fn address_of_the_switch_without_ip() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[Entry::own_address(ROUTER)]);
    let frame = plain(ROUTER, mac(1), 0x0806, &[0; 46]);
    lab.check_gone(1, &frame, (NO_JOB, Forwarded));
}
