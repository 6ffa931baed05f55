//! Property tests of encoding and decoding, and tests of what the check rejects.

use std::net::Ipv4Addr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use tributary_wire::agg::{self, Packet, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Error, Flags, HEADERS_LEN, Host,
    JobId, Kind, Mac, Protocol, Rack, Sequence, VALUES_MAX, emit_frame, golden, ipv4, values,
};

fn host() -> impl Strategy<Value = Host> {
    any::<([u8; 6], [u8; 4])>().prop_map(|(mac, ip)| Host { mac: Mac(mac), ip: Ipv4Addr::from(ip) })
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (host(), host(), any::<u8>()).prop_map(|(source, destination, tos)| Envelope {
        source,
        destination,
        ecn: Ecn::from_tos(tos),
    })
}

fn repr() -> impl Strategy<Value = Repr> {
    let protocol = prop::sample::select(vec![
        Protocol::Atp,
        Protocol::Esa,
        Protocol::P4inc,
        Protocol::SwitchMl,
    ]);
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let numbers = any::<(u8, u32, u32, u32)>();
    let runs = (1u16.., 1u32..);
    let values = prop_oneof![1u16..=300, Just(VALUES_MAX)];
    let audience = prop_oneof![Just(0), 1..=32u8, 0x81..=0xa0u8];
    (protocol, kind, 0u8..16, runs, (values, audience, any::<bool>()), numbers).prop_map(
        |(protocol, kind, flags, (job, epoch), (values, audience, bare), numbers)| {
            let (priority, sequence, bitmap, index) = numbers;
            let has_audience = protocol.has_rounds() && kind.may_have_audience();
            let audience = if has_audience { audience } else { 0 };
            let audience = Audience::from_byte(audience).unwrap();
            let is_bare = bare && audience != Audience::ALL && kind.may_lack_values();
            Repr {
                protocol,
                kind,
                flags: Flags::from_bits(flags).unwrap(),
                priority,
                job: JobId::new(job).unwrap(),
                epoch: Epoch::new(epoch).unwrap(),
                values: if kind.has_values() && !is_bare { values } else { 0 },
                sequence: Sequence(sequence),
                bitmap: Bitmap(bitmap),
                rack: Rack::NONE,
                audience,
                index: AggregatorIndex(index),
            }
        },
    )
}

fn emit(envelope: &Envelope, repr: &Repr, words: &[i32]) -> Vec<u8> {
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, envelope, repr), words);
    frame
}

/// Calls every accessor of a packet. None may panic, and they must agree with each other.
fn read_everything(packet: &Packet<&[u8]>) {
    let repr = packet.repr();
    assert_eq!(packet.values_i32().len(), usize::from(repr.values));
    assert_eq!(packet.payload().len(), 4 * usize::from(repr.values));
    let bits: Vec<u32> = packet.values_f32().map(f32::to_bits).collect();
    assert!(packet.values_i32().map(i32::cast_unsigned).eq(bits));
    let may_lack = repr.audience != Audience::ALL && repr.kind.may_lack_values();
    assert!(repr.kind.has_values() == (repr.values > 0) || may_lack);
    assert_eq!(packet.round().sequence(), packet.sequence());
    assert_eq!(packet.service().get(), packet.priority());
    let _ = (packet.envelope(), packet.is_marked());
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(envelope in envelope(), repr in repr(), seed: u32, padding in 0usize..40) {
        let words: Vec<i32> = (0..u32::from(repr.values))
            .map(|i| (i + 1).wrapping_mul(seed | 1).cast_signed())
            .collect();
        let mut frame = emit(&envelope, &repr, &words);
        prop_assert_eq!(frame.len(), HEADERS_LEN + 4 * words.len());
        frame.resize(frame.len() + padding, 0x55);
        let packet = Packet::new_checked(frame.as_slice()).unwrap();
        prop_assert_eq!(*packet.repr(), repr);
        prop_assert_eq!(packet.envelope(), envelope);
        prop_assert!(packet.values_i32().eq(words.iter().copied()));
        prop_assert!(packet.values_f32().map(f32::to_bits).eq(words.iter().map(|w| w.cast_unsigned())));
        read_everything(&packet);
    }

    #[test]
    fn another_decoder_agrees(envelope in envelope(), repr in repr()) {
        let frame = emit(&envelope, &repr, &[]);
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("not IPv4") };
        let ip = ip.header().to_header();
        prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        prop_assert_eq!(ip.source, envelope.source.ip.octets());
        prop_assert_eq!(ip.destination, envelope.destination.ip.octets());
        prop_assert_eq!(ip.ecn.value(), envelope.ecn as u8);
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
        prop_assert_eq!(udp.payload().len(), agg::HEADER_LEN + 4 * usize::from(repr.values));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes: Vec<u8>) {
        if let Ok(packet) = Packet::new_checked(bytes.as_slice()) {
            read_everything(&packet);
        }
    }

    #[test]
    fn mutated_frames_do_no_harm(
        vector in prop::sample::select(golden::VECTORS.to_vec()),
        changes in prop::collection::vec((0usize..120, any::<u8>()), 0..6),
        cut in prop::option::of(0usize..400),
        fix_checksum: bool,
    ) {
        let mut frame = vector.bytes();
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at] = byte;
        }
        if fix_checksum {
            // Correct the checksum, so that the checks after it are reached.
            frame[24..26].fill(0);
            let sum = ipv4::checksum(frame[14..34].try_into().unwrap());
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(cut) = cut {
            frame.truncate(cut);
        }
        if let Ok(packet) = Packet::new_checked(frame.as_slice()) {
            read_everything(&packet);
            // An accepted packet equals one that the crate encodes, except for fields without
            // meaning.
            let words: Vec<i32> = packet.values_i32().collect();
            let again = emit(&packet.envelope(), packet.repr(), &words);
            let again = Packet::new_checked(again.as_slice()).unwrap();
            prop_assert_eq!(again.repr(), packet.repr());
            prop_assert_eq!(again.payload(), packet.payload());
        }
    }

    #[test]
    fn every_truncation_is_refused(vector in prop::sample::select(golden::VECTORS.to_vec())) {
        let frame = vector.bytes();
        for len in 0..frame.len() {
            let error = Packet::new_checked(&frame[..len]).unwrap_err();
            let truncated = matches!(error, Error::Truncated { need, have } if have == len && need > len);
            prop_assert!(truncated, "{} bytes: {}", len, error);
        }
    }

    #[test]
    fn every_bit_error_in_the_ipv4_header_is_refused(
        vector in prop::sample::select(golden::VECTORS.to_vec()),
        bit in 0usize..160,
    ) {
        let mut frame = vector.bytes();
        frame[14 + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Packet::new_checked(&frame).is_err());
    }
}

/// A valid frame with some bytes replaced and the IPv4 checksum corrected.
fn broken(name: &str, changes: &[(usize, &[u8])]) -> Result<Repr, Error> {
    let mut frame = golden::find(name).unwrap().bytes();
    for (at, bytes) in changes {
        frame[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    frame[24..26].fill(0);
    let sum = ipv4::checksum(frame[14..34].try_into().unwrap());
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    Packet::new_checked(frame).map(|packet| *packet.repr())
}

#[test]
fn each_error_names_the_wrong_field() {
    let gradient = |at, bytes: &[u8]| broken("gradient_v64", &[(at, bytes)]).unwrap_err();
    assert_eq!(gradient(12, &[0x08, 0x06]), Error::EtherType(0x0806));
    assert_eq!(gradient(14, &[0x65]), Error::Version(6));
    assert_eq!(gradient(14, &[0x46]), Error::HeaderLength(6));
    assert_eq!(gradient(14, &[0x44]), Error::HeaderLength(4));
    assert_eq!(gradient(20, &[0x20, 0]), Error::Fragment);
    assert_eq!(gradient(20, &[0x40, 1]), Error::Fragment);
    assert_eq!(gradient(23, &[6]), Error::NotUdp(6));
    assert_eq!(gradient(36, &[0, 53]), Error::Port(53));
    // 8 + 28 + 256 = 292 bytes of UDP.
    assert_eq!(gradient(38, &[1, 35]), Error::UdpLength { udp: 291, ipv4: 292 });
    assert_eq!(gradient(38, &[1, 37]), Error::UdpLength { udp: 293, ipv4: 292 });
    assert_eq!(gradient(38, &[0, 7]), Error::UdpLength { udp: 7, ipv4: 292 });
    assert_eq!(gradient(40, &[0xab, 0xcd]), Error::UdpChecksum(0xabcd));
    assert_eq!(gradient(42, &[0]), Error::Protocol(0));
    assert_eq!(gradient(42, &[5]), Error::Protocol(5));
    assert_eq!(gradient(43, &[0]), Error::Kind(0));
    assert_eq!(gradient(43, &[9]), Error::Kind(9));
    assert_eq!(gradient(44, &[0x10]), Error::Flags(0x10));
    assert_eq!(gradient(46, &[0, 0]), Error::Job);
    assert_eq!(gradient(48, &[0, 63]), Error::PayloadLength { values: 63, bytes: 256 });
    assert_eq!(gradient(48, &[0xff, 0xff]), Error::PayloadLength { values: 0xffff, bytes: 256 });
    assert_eq!(gradient(50, &[0, 0, 0, 0]), Error::Epoch);
    assert_eq!(gradient(62, &[33]), Error::Rack(33));
    assert_eq!(gradient(62, &[32, 0, 1, 0]), Error::Reserved(256));
    let (kind, values) = (Kind::Gradient, 0);
    assert_eq!(gradient(48, &[0, 0]), Error::Values { kind, values });
    let error = broken("query", &[(48, &[0, 1])]).unwrap_err();
    assert_eq!(error, Error::Values { kind: Kind::Query, values: 1 });
    // A total length below the header's own length, and one too short for UDP.
    let short = broken("query", &[(16, &[0, 19])]).unwrap_err();
    assert_eq!(short, Error::Truncated { need: 20, have: 19 });
    let short = broken("query", &[(16, &[0, 27])]).unwrap_err();
    assert_eq!(short, Error::UdpLength { udp: 8, ipv4: 7 });
    // Lengths that agree with each other but leave no room for the aggregation header.
    let short = broken("query", &[(16, &[0, 55]), (38, &[0, 35])]).unwrap_err();
    assert_eq!(short, Error::ShortHeader(27));
    assert_eq!(broken("query", &[]).unwrap().kind, Kind::Query);
    let mut frame = golden::find("query").unwrap().bytes();
    frame[24] ^= 1;
    assert_eq!(Packet::new_checked(frame).unwrap_err(), Error::HeaderChecksum);
}

#[test]
fn foreign_frames_are_distinguished_from_malformed_ones() {
    assert!(Error::EtherType(0x0806).is_foreign() && Error::Port(53).is_foreign());
    assert!(!Error::HeaderChecksum.is_foreign() && !Error::Job.is_foreign());
}

#[test]
fn ignores_fields_without_meaning() {
    // DSCP, identification, DF, TTL, source port.
    for (at, bytes) in
        [(15, &[0xb8u8][..]), (18, &[1, 2]), (20, &[0, 0]), (22, &[1]), (34, &[4, 210])]
    {
        assert!(broken("gradient_v32", &[(at, bytes)]).is_ok(), "byte {at}");
    }
}

#[test]
fn emitting_again_into_the_same_buffer_does_not_allocate_or_leave_old_bytes() {
    let bytes = golden::find("gradient_v64").unwrap().bytes();
    let packet = Packet::new_checked(&bytes).unwrap();
    let mut frame = vec![0xff; bytes.len()];
    let (memory, capacity) = (frame.as_ptr(), frame.capacity());
    for _ in 0..3 {
        let room = emit_frame(&mut frame, &packet.envelope(), packet.repr());
        assert!(room.iter().all(|byte| *byte == 0));
        room.fill(0xee);
    }
    assert_eq!((frame.as_ptr(), frame.capacity()), (memory, capacity));
}

#[test]
#[should_panic(expected = "do not fit")]
fn too_many_values_are_a_mistake_of_the_caller() {
    let bytes = golden::find("gradient_v64").unwrap().bytes();
    let packet = Packet::new_checked(&bytes).unwrap();
    let repr = Repr { values: VALUES_MAX + 1, ..*packet.repr() };
    emit_frame(&mut Vec::new(), &packet.envelope(), &repr);
}
