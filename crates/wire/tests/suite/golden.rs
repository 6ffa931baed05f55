//! Checks the golden vectors: they decode to what their files describe, encode to the same bytes,
//! and an independent decoder reads the same headers.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::golden::{self, VECTORS, Vector};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, JobId, Kind, Mac, Protocol,
    Rack, Round, Sequence, Service, emit_frame, values,
};

const RESEND: Flags = Flags::RESEND;
const COLLISION: Flags = Flags::COLLISION;
const OVERFLOW: Flags = Flags::OVERFLOW;
const NONE: Flags = Flags::NONE;

/// The destination of a packet.
#[derive(Clone, Copy)]
enum To {
    /// The host whose addresses end in this byte.
    Host(u8),
    /// All workers of the job.
    Group,
    /// The switch.
    Service,
}

/// Name without the suffix for V (the protocol is [`protocol`]), kind, flags, bitmap, destination,
/// first value as a word.
type Case = (&'static str, Kind, Flags, u32, To, Option<u32>);

/// The protocol in a name's prefix; ATP if it has none.
fn protocol(name: &str) -> Protocol {
    match name.split_once('_') {
        Some(("esa", _)) => Protocol::Esa,
        Some(("p4inc", _)) => Protocol::P4inc,
        Some(("switchml", _)) => Protocol::SwitchMl,
        _ => Protocol::Atp,
    }
}

/// Priority or service ID.
fn priority(name: &str) -> u8 {
    match protocol(name) {
        Protocol::Atp => 0,
        Protocol::Esa => [0, 200][usize::from(name == "esa_gradient")],
        Protocol::P4inc | Protocol::SwitchMl => [17, 0][usize::from(name == "p4inc_forwarded")],
    }
}

/// (2³¹ div 4) − 1: the largest value that four workers can add without overflow.
const MAX: i32 = 0x1fff_ffff;

const fn word(value: i32) -> Option<u32> {
    Some(value.cast_unsigned())
}

const fn float(value: f32) -> Option<u32> {
    Some(value.to_bits())
}

fn cases() -> Vec<Case> {
    use Kind::{Absent, Asynchronous, Gradient, Parameter, Query, Reminder, Reply, Sweep};
    use To::{Group, Host, Service};
    let marked = Flags::ECN;
    vec![
        ("gradient", Gradient, NONE, 1, Host(100), word(MAX)),
        ("gradient_worker3", Gradient, NONE, 8, Host(100), word(MAX)),
        ("gradient_marked", Gradient, NONE, 2, Host(100), word(MAX)),
        ("gradient_resend", Gradient, RESEND, 4, Host(100), word(MAX)),
        ("gradient_collision", Gradient, COLLISION, 2, Host(100), word(MAX)),
        ("gradient_overflow", Gradient, OVERFLOW, 1, Host(100), float(3e38)),
        ("gradient_resend_overflow", Gradient, RESEND | OVERFLOW, 8, Host(100), float(1.0)),
        ("gradient_rack", Gradient, marked, 3, Host(100), word(2 * MAX)),
        ("gradient_partial", Gradient, RESEND, 11, Host(100), word(3 * MAX)),
        ("gradient_complete", Gradient, NONE, 15, Host(100), word(4 * MAX)),
        ("parameter", Parameter, NONE, 15, Group, word(4 * MAX)),
        ("parameter_collision_ecn", Parameter, COLLISION | marked, 15, Group, word(4 * MAX)),
        ("parameter_overflow", Parameter, OVERFLOW, 15, Group, float(3e38)),
        ("reply", Reply, NONE, 15, Host(3), word(4 * MAX)),
        ("reply_collision_overflow", Reply, COLLISION | OVERFLOW, 15, Host(2), float(3e38)),
        ("esa_gradient", Gradient, NONE, 1, Host(100), word(MAX)),
        ("esa_evicted", Gradient, COLLISION | marked, 3, Host(100), word(2 * MAX)),
        ("esa_parameter", Parameter, NONE, 15, Group, word(4 * MAX)),
        ("esa_reminder", Reminder, NONE, 11, Host(1), word(0)),
        ("esa_absent", Absent, NONE, 11, Host(101), word(0)),
        ("esa_fetched", Gradient, RESEND, 11, Host(101), word(3 * MAX)),
        ("p4inc_gradient", Gradient, NONE, 1, Service, word(MAX)),
        ("p4inc_overflow", Gradient, OVERFLOW, 8, Service, word(0)),
        ("p4inc_partial", Gradient, marked, 3, Host(100), word(2 * MAX)),
        ("p4inc_again", Gradient, RESEND | marked, 3, Host(100), word(2 * MAX)),
        ("p4inc_parameter", Parameter, NONE, 15, Group, word(4 * MAX)),
        ("p4inc_repeat", Parameter, OVERFLOW | marked, 15, Group, word(0)),
        ("p4inc_reply", Reply, NONE, 15, Host(1), word(4 * MAX)),
        ("p4inc_asynchronous", Asynchronous, marked, 1, Host(1), word(MAX)),
        ("p4inc_forwarded", Gradient, NONE, 2, Host(100), word(MAX)),
        ("switchml_gradient", Gradient, NONE, 1, Service, word(MAX)),
        ("switchml_reply", Reply, NONE, 15, Host(1), word(4 * MAX)),
        ("p4inc_query", Query, NONE, 2, Host(2), None),
        ("p4inc_sweep", Sweep, NONE, 0, Host(254), None),
        ("query", Query, NONE, 2, Host(2), None),
        ("query_overflow", Query, OVERFLOW, 8, Host(4), None),
        ("query_of_rack", Query, NONE, 2, Host(2), None),
        ("sweep", Sweep, NONE, 0, Host(254), None),
        ("sweep_done", Sweep, NONE, 7, Host(254), None),
    ]
}

fn stem(vector: &Vector) -> (&str, u16) {
    match vector.name.rsplit_once("_v") {
        Some((stem, values)) => (stem, values.parse().unwrap()),
        None => (vector.name, 0),
    }
}

#[test]
fn every_case_has_its_files_and_every_file_its_case() {
    let listed: BTreeSet<String> = VECTORS.iter().map(|v| v.name.to_owned()).collect();
    let on_disk: BTreeSet<String> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "hex"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
    assert_eq!(listed, on_disk);
    let expected: BTreeSet<String> = cases()
        .iter()
        .flat_map(|(name, kind, ..)| match kind.has_values() {
            true => vec![format!("{name}_v32"), format!("{name}_v64")],
            false => vec![(*name).to_owned()],
        })
        .collect();
    assert_eq!(listed, expected);
    assert!(golden::find("gradient_v64").is_some() && golden::find("gradient_v63").is_none());
}

#[test]
fn vectors_decode_to_the_described_packets() {
    for vector in VECTORS {
        let (name, values) = stem(vector);
        let cases = cases();
        let (_, kind, flags, bitmap, to, first) = cases.iter().find(|case| case.0 == name).unwrap();
        let bytes = vector.bytes();
        let packet =
            Packet::new_checked(&bytes).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let rounds = matches!(protocol(name), Protocol::P4inc | Protocol::SwitchMl);
        let expected = Repr {
            protocol: protocol(name),
            kind: *kind,
            flags: *flags,
            priority: priority(name),
            job: JobId::new(263).unwrap(),
            epoch: golden::EPOCH,
            values,
            sequence: match kind {
                Kind::Sweep => Sequence(0x5eed_0001),
                _ if rounds => Round { fragment: 74565, rung: 2 }.sequence(),
                _ => Sequence(74565),
            },
            bitmap: Bitmap(*bitmap),
            rack: if name == "query_of_rack" { Rack(3) } else { Rack::NONE },
            audience: Audience::ALL,
            index: AggregatorIndex(match name {
                "sweep" => 0,
                "sweep_done" => 4096,
                "p4inc_sweep" => 512,
                _ => 42,
            }),
        };
        assert_eq!(*packet.repr(), expected, "{}", vector.name);
        assert_eq!(packet.service(), Service::new(priority(name)));
        let envelope = packet.envelope();
        let destination = match to {
            To::Group => Host::group(expected.job),
            To::Service => Host::service(expected.job),
            To::Host(last) => {
                Host { mac: Mac([2, 0, 0, 0, 0, *last]), ip: Ipv4Addr::new(10, 0, 0, *last) }
            }
        };
        assert_eq!(envelope.destination, destination, "{}", vector.name);
        if envelope.source != Host::service(expected.job) {
            assert_eq!(envelope.source.mac.0[5], envelope.source.ip.octets()[3]);
        }
        assert_eq!(packet.is_marked(), name.ends_with("_marked") || flags.contains(Flags::ECN));
        let word = packet.values_i32().next().map(i32::cast_unsigned);
        assert_eq!(word, *first, "{}", vector.name);
        assert_eq!(packet.values_f32().next().map(f32::to_bits), *first);
        assert_eq!(packet.values_i32().len(), usize::from(values));
    }
}

#[test]
fn encode_to_the_same_bytes() {
    for vector in VECTORS {
        let bytes = vector.bytes();
        let packet = Packet::new_checked(&bytes).unwrap();
        let mut frame = vec![0xaa; 3];
        let room = emit_frame(&mut frame, &packet.envelope(), packet.repr());
        if packet.flags().contains(OVERFLOW) {
            values::write_f32(room, &packet.values_f32().collect::<Vec<_>>());
        } else {
            values::write_i32(room, &packet.values_i32().collect::<Vec<_>>());
        }
        assert_eq!(frame, bytes, "{}", vector.name);
    }
}

#[test]
fn sums_are_the_sums_of_the_workers_that_the_bitmap_names() {
    // The P4 tests feed these frames in sequence and rely on these relations.
    let read = |name: &str| -> Vec<i64> {
        let bytes = golden::find(name).unwrap().bytes();
        let packet = Packet::new_checked(&bytes).unwrap();
        packet.values_i32().map(i64::from).collect()
    };
    for v in ["v32", "v64"] {
        let workers = ["gradient", "gradient_marked", "gradient_resend", "gradient_worker3"];
        let workers = workers.map(|name| read(&format!("{name}_{v}")));
        for (name, of) in [
            ("gradient_rack", &[0, 1][..]),
            ("gradient_partial", &[0, 1, 3]),
            ("gradient_complete", &[0, 1, 2, 3]),
            ("parameter", &[0, 1, 2, 3]),
            ("reply", &[0, 1, 2, 3]),
            ("esa_evicted", &[0, 1]),
            ("esa_fetched", &[0, 1, 3]),
            ("esa_parameter", &[0, 1, 2, 3]),
            ("p4inc_gradient", &[0]),
            ("p4inc_forwarded", &[1]),
            ("p4inc_overflow", &[]),
            ("p4inc_partial", &[0, 1]),
            ("p4inc_again", &[0, 1]),
            ("p4inc_parameter", &[0, 1, 2, 3]),
            ("p4inc_repeat", &[]),
            ("p4inc_reply", &[0, 1, 2, 3]),
            ("p4inc_asynchronous", &[0]),
            ("switchml_gradient", &[0]),
            ("switchml_reply", &[0, 1, 2, 3]),
        ] {
            for (i, sum) in read(&format!("{name}_{v}")).into_iter().enumerate() {
                assert_eq!(sum, of.iter().map(|w| workers[*w][i]).sum::<i64>(), "{name} {i}");
            }
        }
    }
}

#[test]
fn another_decoder_reads_the_headers_alike() {
    for vector in VECTORS {
        let bytes = vector.bytes();
        let packet = Packet::new_checked(&bytes).unwrap();
        let Envelope { source, destination, ecn } = packet.envelope();
        let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
        let ethernet = sliced.link.as_ref().unwrap().to_header().unwrap().ethernet2().unwrap();
        assert_eq!((ethernet.source, ethernet.destination), (source.mac.0, destination.mac.0));
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else {
            panic!("{}: not IPv4", vector.name);
        };
        let ip = ip.header().to_header();
        assert_eq!(ip.header_checksum, ip.calc_header_checksum(), "{}", vector.name);
        assert_eq!((ip.source, ip.destination), (source.ip.octets(), destination.ip.octets()));
        assert_eq!(ip.ecn.value(), ecn as u8);
        assert!(ip.dont_fragment && !ip.is_fragmenting_payload() && ip.options.is_empty());
        assert_eq!(usize::from(ip.total_len) + 14, bytes.len());
        let Some(TransportSlice::Udp(udp)) = sliced.transport else {
            panic!("{}: not UDP", vector.name);
        };
        assert_eq!((udp.source_port(), udp.destination_port(), udp.checksum()), (29810, 29810, 0));
        assert_eq!(udp.payload().len(), 28 + 4 * usize::from(packet.values()));
        assert_eq!(
            ecn == Ecn::Ect0,
            !matches!(stem(vector).0, "gradient_marked" | "sweep" | "sweep_done" | "p4inc_sweep")
        );
    }
}
