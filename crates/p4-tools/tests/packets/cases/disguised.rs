//! Disguised aggregation packets: frames that a host, its network card or a tunnel could convert to
//! one of our packets after the switch has forwarded them as plain traffic. None passes, for any
//! program, source and destination.

use super::cases;
use crate::frames::{Frame, PARAMETER, TUNNEL_PORTS, TUNNELS, mac, plain};
use crate::lab::{Lab, NO_JOB, Outcome::*};
use crate::scene::{OUTSIDER, hosts, values};
use crate::target::{Build, PORTS};

cases!("disguised":
    behind_tags, behind_other_ethertypes, with_options, in_fragments, in_tunnels, in_udp_tunnels,
);

const PROGRAMS: [Build; 4] = [Build::PATIENT, Build::ESA, Build::P4INC, Build::SWITCHML];

/// A forged result for a worker, as an attacker would send it.
fn forged(lab: &Lab) -> Frame {
    let protocol = lab.build().program.protocol();
    Frame::new(PARAMETER, OUTSIDER, 1).bitmap(0b111).values(&values(lab, 1)).with(|f| {
        (f.protocol, f.job) = (protocol, 1);
    })
}

/// No port of the switch forwards these frames to a host or floods them.
fn barred(disguises: impl Fn(&Lab) -> Vec<Vec<u8>>) {
    for build in PROGRAMS {
        let mut lab = Lab::new(build);
        lab.insert(&hosts());
        for frame in disguises(&lab) {
            for to in [mac(1), mac(4), 0xffff_ffff_ffff, 0x0100_5e54_0001] {
                let mut frame = frame.clone();
                frame[..6].copy_from_slice(&to.to_be_bytes()[2..]);
                lab.check_gone(OUTSIDER, &frame, (NO_JOB, Barred));
            }
            lab.check_gone(1, &frame, (NO_JOB, Barred));
        }
        // Plain traffic still passes.
        let arp = plain(0xffff_ffff_ffff, mac(OUTSIDER), 0x0806, &[7; 28]);
        let others = PORTS.filter(|port| *port != OUTSIDER).map(|port| (port, arp.clone()));
        lab.check(OUTSIDER, &arp, (NO_JOB, Forwarded), &others.collect::<Vec<_>>());
    }
}

/// The content of a frame after its addresses, moved behind another header.
fn behind(frame: &Frame, head: &[u8]) -> Vec<u8> {
    let bytes = frame.bytes();
    [&bytes[..12], head, &bytes[12..]].concat()
}

/// Tags of IEEE 802.1Q and 802.1ad and their older EtherTypes, with VLAN 0, priorities, and several
/// tags: kernels and network cards remove the outermost.
fn behind_tags() {
    barred(|lab| {
        let frame = forged(lab);
        let tags = [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00], [0x92, 0x00], [0x93, 0x00]];
        let controls = [[0x00, 0x00], [0xe0, 0x00], [0x10, 0x00], [0x00, 0x01], [0x0f, 0xff]];
        let tag = |tag: [u8; 2], control: [u8; 2]| [tag, control].concat();
        let one = tags.iter().flat_map(|t| controls.iter().map(|c| tag(*t, *c)));
        let two = tags.iter().map(|t| [tag(*t, [0, 0]), tag([0x81, 0], [0, 0])].concat());
        let three = [tag([0x81, 0], [0, 0]).repeat(3)];
        one.chain(two).chain(three).map(|head| behind(&frame, &head)).collect()
    });
}

/// MPLS, PPPoE, Ethernet in Ethernet, TRILL, HSR, MACsec, SNAP, and a length in place of a type.
fn behind_other_ethertypes() {
    barred(|lab| {
        let frame = forged(lab);
        let length = (frame.bytes().len() - 14 + 8) as u16;
        let heads: [&[u8]; 8] = [
            &[0x88, 0x47, 0, 0, 0x01, 64],
            &[0x88, 0x64, 0x11, 0, 0, 1, 1, 0, 0, 0x21],
            &[0x65, 0x58, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 6],
            &[0x22, 0xf3, 0, 0, 0, 0],
            &[0x89, 0x2f, 0, 0, 0, 0],
            &[0x88, 0xe5, 0, 0, 0, 0, 0, 0],
            &[0x88, 0xe7, 0, 0, 0, 0],
            &[(length >> 8) as u8, length as u8, 0xaa, 0xaa, 3, 0, 0, 0],
        ];
        heads.iter().map(|head| behind(&frame, head)).collect()
    });
}

fn with_options() {
    barred(|lab| {
        let with = |words: u8, option: u8| {
            let options = vec![option; usize::from(words) * 4];
            forged(lab).with(|f| (f.version, f.options) = (0x45 + words, options)).bytes()
        };
        vec![with(1, 1), with(1, 0), with(2, 1), with(10, 1)]
    });
}

/// Complete packets marked as fragments, and a packet cut in two.
fn in_fragments() {
    barred(|lab| {
        let fragment = |fragment: u16| forged(lab).with(|f| f.fragment = fragment).bytes();
        let whole = forged(lab).bytes();
        let part = |fragment: u16, payload: &[u8]| {
            forged(lab).with(|f| f.fragment = fragment).wrap(payload)
        };
        let halves = [part(0x2000, &whole[34..34 + 48]), part(6, &whole[34 + 48..])];
        [0x2000, 0x6000, 0x0001, 0x2001, 0x1fff].map(fragment).into_iter().chain(halves).collect()
    });
}

/// IP in IP, and other protocols that carry packets in IP.
fn in_tunnels() {
    barred(|lab| {
        let frame = forged(lab);
        let inner = frame.bytes()[14..].to_vec();
        let within = |protocol: u8, fragment: u16, options: u8| {
            let outer = forged(lab).with(|f| {
                (f.ip_protocol, f.fragment) = (protocol, fragment);
                (f.version, f.options) = (0x45 + options, vec![1; usize::from(options) * 4]);
            });
            outer.wrap(&inner)
        };
        let whole = TUNNELS.map(|protocol| within(protocol, 0x4000, 0));
        let fragments = TUNNELS.map(|protocol| within(protocol, 0x2000, 0));
        let options = TUNNELS.map(|protocol| within(protocol, 0x4000, 1));
        whole.into_iter().chain(fragments).chain(options).collect()
    });
}

fn in_udp_tunnels() {
    barred(|lab| {
        let to = |port: u16| forged(lab).with(|f| f.udp_destination = port).bytes();
        TUNNEL_PORTS.map(to).to_vec()
    });
}
