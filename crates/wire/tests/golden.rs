//! The golden vectors: decoded, compared with what their files say, re-encoded to the same bytes, and
//! read by another decoder of the headers.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::golden::{self, VECTORS, Vector};
use tributary_wire::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Flags, Host, JobId, Kind, Mac, Protocol, Sequence,
    emit_frame, values,
};

const RESEND: Flags = Flags::RESEND;
const COLLISION: Flags = Flags::COLLISION;
const OVERFLOW: Flags = Flags::OVERFLOW;
const NONE: Flags = Flags::NONE;

/// Name without the suffix for V (`esa_…` are packets of ESA, the rest of ATP), kind, flags, bitmap, destination (last byte of the address; none
/// for the group), first value as a word.
type Case = (&'static str, Kind, Flags, u32, Option<u8>, Option<u32>);

/// (2³¹ div 4) − 1: the greatest value that four workers can add.
const MAX: i32 = 0x1fff_ffff;

const fn word(value: i32) -> Option<u32> {
    Some(value.cast_unsigned())
}

const fn float(value: f32) -> Option<u32> {
    Some(value.to_bits())
}

fn cases() -> Vec<Case> {
    use Kind::{Absent, Gradient, Parameter, Query, Reminder, Reply, Sweep};
    let marked = Flags::ECN;
    vec![
        ("gradient", Gradient, NONE, 1, Some(100), word(MAX)),
        ("gradient_worker3", Gradient, NONE, 8, Some(100), word(MAX)),
        ("gradient_marked", Gradient, NONE, 2, Some(100), word(MAX)),
        ("gradient_resend", Gradient, RESEND, 4, Some(100), word(MAX)),
        ("gradient_collision", Gradient, COLLISION, 2, Some(100), word(MAX)),
        ("gradient_overflow", Gradient, OVERFLOW, 1, Some(100), float(3e38)),
        ("gradient_resend_overflow", Gradient, RESEND | OVERFLOW, 8, Some(100), float(1.0)),
        ("gradient_rack", Gradient, marked, 3, Some(100), word(2 * MAX)),
        ("gradient_partial", Gradient, RESEND, 11, Some(100), word(3 * MAX)),
        ("gradient_complete", Gradient, NONE, 15, Some(100), word(4 * MAX)),
        ("parameter", Parameter, NONE, 15, None, word(4 * MAX)),
        ("parameter_collision_ecn", Parameter, COLLISION | marked, 15, None, word(4 * MAX)),
        ("parameter_overflow", Parameter, OVERFLOW, 15, None, float(3e38)),
        ("reply", Reply, NONE, 15, Some(3), word(4 * MAX)),
        ("reply_collision_overflow", Reply, COLLISION | OVERFLOW, 15, Some(2), float(3e38)),
        ("esa_gradient", Gradient, NONE, 1, Some(100), word(MAX)),
        ("esa_evicted", Gradient, COLLISION | marked, 3, Some(100), word(2 * MAX)),
        ("esa_parameter", Parameter, NONE, 15, None, word(4 * MAX)),
        ("esa_reminder", Reminder, NONE, 11, Some(1), word(0)),
        ("esa_absent", Absent, NONE, 11, Some(101), word(0)),
        ("esa_fetched", Gradient, RESEND, 11, Some(101), word(3 * MAX)),
        ("query", Query, NONE, 2, Some(2), None),
        ("query_overflow", Query, OVERFLOW, 8, Some(4), None),
        ("sweep", Sweep, NONE, 0, Some(254), None),
        ("sweep_done", Sweep, NONE, 7, Some(254), None),
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
fn decode_to_what_their_files_say() {
    for vector in VECTORS {
        let (name, values) = stem(vector);
        let cases = cases();
        let (_, kind, flags, bitmap, to, first) = cases.iter().find(|case| case.0 == name).unwrap();
        let bytes = vector.bytes();
        let packet =
            Packet::new_checked(&bytes).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let sweep = *kind == Kind::Sweep;
        let esa = name.starts_with("esa_");
        let expected = Repr {
            protocol: if esa { Protocol::Esa } else { Protocol::Atp },
            kind: *kind,
            flags: *flags,
            priority: if name == "esa_gradient" { 200 } else { 0 },
            job: JobId::new(263).unwrap(),
            values,
            sequence: Sequence(if sweep { 0x5eed_0001 } else { 74565 }),
            bitmap: Bitmap(*bitmap),
            index: AggregatorIndex(match name {
                "sweep" => 0,
                "sweep_done" => 4096,
                _ => 42,
            }),
        };
        assert_eq!(*packet.repr(), expected, "{}", vector.name);
        let envelope = packet.envelope();
        let destination = match to {
            None => Host::group(expected.job),
            Some(last) => {
                Host { mac: Mac([2, 0, 0, 0, 0, *last]), ip: Ipv4Addr::new(10, 0, 0, *last) }
            }
        };
        assert_eq!(envelope.destination, destination, "{}", vector.name);
        assert_eq!(envelope.source.mac.0[5], envelope.source.ip.octets()[3]);
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
    // What the P4 tests rely on when they feed these frames one after the other.
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
        assert_eq!(udp.payload().len(), 20 + 4 * usize::from(packet.values()));
        assert_eq!(
            ecn == Ecn::Ect0,
            !matches!(stem(vector).0, "gradient_marked" | "sweep" | "sweep_done")
        );
    }
}
