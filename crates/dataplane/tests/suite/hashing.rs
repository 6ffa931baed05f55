//! Checksums and hashes over lists of fields.

use etherparse::{Ipv4Header, PacketBuilder};
use proptest::prelude::*;
use tributary_dataplane::{EgressInput, IngressInput, Pipeline, Verdict};
use tributary_p4::ir::*;

use super::common::{self, Builder, assign, bit, cast, function};

const IPV4: [u32; 15] = [4, 4, 6, 2, 16, 16, 1, 1, 1, 13, 8, 8, 16, 32, 32];
const CHECKSUM: usize = 12;

fn algorithm(name: &str) -> Arg {
    Arg::Symbol("HashAlgorithm".to_owned(), name.to_owned())
}

/// Ethernet and IPv4: the checksum is verified, the time to live decremented, the checksum updated.
/// Packets with a bad checksum leave by port 1.
fn router() -> Pipeline {
    let mut b = Builder::new();
    let ethernet = b.bits_header("ethernet", &[48, 48, 16]);
    let ipv4 = b.bits_header("ipv4", &IPV4);
    b.straight(&[ethernet, ipv4]);
    let list = || {
        let fields = (0..IPV4.len()).filter(|&i| i != CHECKSUM).map(|i| b.get(b.of(ipv4, i)));
        Arg::List(fields.collect())
    };
    let valid = || {
        let kind = ExprKind::Valid(HeaderRef::Fixed(ipv4));
        Arg::In(Expr { ty: Scalar::BOOL, kind })
    };
    let checksum = b.of(ipv4, CHECKSUM);
    let verify = vec![valid(), list(), Arg::In(b.get(checksum)), algorithm("csum16")];
    let place = Arg::Out(Place::Field(checksum), Scalar::bit(16));
    let update = vec![valid(), list(), place, algorithm("csum16")];
    b.verify.push(function("verify_checksum", verify));
    b.compute.push(function("update_checksum", update));
    let wrong = b.get(b.standard("checksum_error"));
    b.ingress.push(assign(b.standard("egress_spec"), cast(Scalar::bit(9), wrong)));
    let ttl = b.of(ipv4, 10);
    let less = common::binary(BinaryOp::Sub, Scalar::bit(8), b.get(ttl), bit(8, 1));
    b.egress.push(assign(ttl, less));
    b.load()
}

proptest! {
    #[test]
    fn the_checksum_of_ipv4_equals_that_of_etherparse(
        source: [u8; 4], destination: [u8; 4], ttl in 1u8.., payload: Vec<u8>, flip in 0usize..160,
    ) {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4(source, destination, ttl)
            .udp(21, 1234)
            .write(&mut frame, &payload)
            .unwrap();
        let mut pipeline = router();
        let mut packet = pipeline.new_packet();
        let verdict = pipeline.ingress(&mut packet, &frame, &IngressInput::default()).verdict;
        prop_assert_eq!(verdict, Verdict::Unicast(0));
        let mut out = Vec::new();
        pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
        let mut expected = frame.clone();
        expected[22] = ttl - 1;
        let (mut header, _) = Ipv4Header::from_slice(&expected[14..]).unwrap();
        header.header_checksum = header.calc_header_checksum();
        expected[14..34].copy_from_slice(&header.to_bytes());
        prop_assert_eq!(out, expected);

        // Any flipped bit of the header is detected.
        frame[14 + flip / 8] ^= 1 << (flip % 8);
        let verdict = pipeline.ingress(&mut packet, &frame, &IngressInput::default()).verdict;
        prop_assert_eq!(verdict, Verdict::Unicast(1));
    }
}

/// The Internet checksum as RFC 1071 defines it, byte by byte.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for (at, &byte) in bytes.iter().enumerate() {
        sum += u32::from(byte) << if at % 2 == 0 { 8 } else { 0 };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

proptest! {
    /// Any fields of two headers, of which the second may be missing; whole words or not. The
    /// checksum is written only if a field of the packet says so.
    #[test]
    fn checksums_of_any_headers_are_those_of_their_bytes(
        widths in prop::collection::vec(prop::collection::vec(1u32..=40, 1..6), 2),
        wanted: bool,
        present: bool,
        extreme: bool,
        bytes: [u8; 64],
    ) {
        let padded: Vec<Vec<u32>> = widths.into_iter().map(|mut widths| {
            let odd = widths.iter().sum::<u32>() % 8;
            widths.extend((odd != 0).then_some(8 - odd));
            widths
        }).collect();
        let len = |header: usize| padded[header].iter().sum::<u32>() as usize / 8;
        let mut b = Builder::new();
        let out = b.bits_header("out", &[16, 8]);
        let [first, second] =
            [("first", 0), ("second", 1)].map(|(name, at)| b.bits_header(name, &padded[at]));
        b.straight(&[out, first, second]);
        let fields = [first, second].into_iter();
        let fields = fields.flat_map(|h| b.program.headers[h.index()].fields.clone());
        let list = Arg::List(fields.map(|field| b.get(field)).collect());
        let condition = cast(Scalar::bit(1), b.get(b.of(out, 1)));
        let condition = Arg::In(cast(Scalar::BOOL, condition));
        let place = Arg::Out(Place::Field(b.of(out, 0)), Scalar::bit(16));
        let update = vec![condition, list, place, algorithm("csum16")];
        b.compute.push(function("update_checksum", update));
        let mut pipeline = b.load();
        let mut packet = pipeline.new_packet();

        let end = len(0) + if present { len(1) } else { 0 };
        let data: Vec<u8> = bytes.into_iter().cycle().take(end).collect();
        let data = if extreme { data.iter().map(|byte| 0u8.wrapping_sub(byte & 1)).collect() } else { data };
        let frame = [&[0x12, 0x34, u8::from(wanted)][..], &data].concat();
        let sent = common::pass(&mut pipeline, &mut packet, &frame);
        let expected = if wanted { internet_checksum(&data) } else { 0x1234 };
        prop_assert_eq!(u16::from_be_bytes(*sent.first_chunk().unwrap()), expected);
        prop_assert_eq!(&sent[2..], &frame[2..]);
    }
}

/// A program that hashes fields of two headers, the second of which may be missing, into the first
/// field of the first.
fn hasher(name: &str, base: u64, max: u64, widths: [&[u32]; 2]) -> Pipeline {
    let mut b = Builder::new();
    let out = b.bits_header("out", &[64]);
    let first = b.bits_header("first", widths[0]);
    let second = b.bits_header("second", widths[1]);
    b.straight(&[out, first, second]);
    let place = Place::Field(b.of(out, 0));
    let fields = [first, second]
        .into_iter()
        .flat_map(|header| b.program.headers[header.index()].fields.clone())
        .map(|field| b.get(field))
        .collect();
    b.ingress.push(function(
        "hash",
        vec![
            Arg::Out(place, Scalar::bit(64)),
            algorithm(name),
            Arg::In(bit(64, base)),
            Arg::List(fields),
            Arg::In(bit(64, max)),
        ],
    ));
    b.load()
}

fn hash(pipeline: &mut Pipeline, data: &[u8]) -> u64 {
    let mut packet = pipeline.new_packet();
    let frame = [&[0; 8], data].concat();
    let out = common::pass(pipeline, &mut packet, &frame);
    u64::from_be_bytes(*out.first_chunk().unwrap())
}

#[test]
fn hashes_cover_the_fields_in_wire_format() {
    let data = b"123456789";
    let widths: [&[u32]; 2] = [&[4, 12, 40], &[1, 15]];
    for (name, digest) in [("crc16", 0xbb3d), ("crc32", 0xcbf4_3926u64)] {
        let mut all = hasher(name, 0, 1 << 40, widths);
        assert_eq!(hash(&mut all, data), digest);
        let mut within = hasher(name, 1000, 100, widths);
        assert_eq!(hash(&mut within, data), 1000 + digest % 100);
        // BMv2 treats a maximum of zero as one.
        assert_eq!(hash(&mut hasher(name, 7, 0, widths), data), 7);
    }
    let mut identity = hasher("identity", 0, u64::MAX, widths);
    assert_eq!(hash(&mut identity, data), 0x3132_3334_3536_3738);
}

#[test]
fn fields_of_an_invalid_header_are_omitted_even_within_a_byte() {
    // The frame ends before the second header.
    let mut pipeline = hasher("identity", 0, u64::MAX, [&[8, 8], &[16, 16]]);
    assert_eq!(hash(&mut pipeline, &[0xab, 0xcd, 0xee]), 0xabcd);
    assert_eq!(hash(&mut pipeline, &[0xab, 0xcd, 1, 2, 3, 4]), 0xabcd_0102_0304);

    // Groups that do not end at a byte are joined bit by bit.
    let mut b = Builder::new();
    let out = b.bits_header("out", &[64]);
    let first = b.bits_header("first", &[3, 5]);
    b.straight(&[out, first]);
    let tail = b.meta("tail", 12);
    b.ingress.push(b.set(tail, 0xabc));
    let list = vec![b.get(b.of(first, 0)), b.get(tail), b.get(b.of(first, 1)), bit(4, 0xf)];
    b.ingress.push(function(
        "hash",
        vec![
            Arg::Out(Place::Field(b.of(out, 0)), Scalar::bit(64)),
            algorithm("identity"),
            Arg::In(bit(64, 0)),
            Arg::List(list),
            Arg::In(bit(64, u64::MAX)),
        ],
    ));
    // 101, 101010111100, 00111, 1111: 24 bits.
    assert_eq!(hash(&mut b.load(), &[0b1010_0111]), 0b1011_0101_0111_1000_0111_1111);
}

#[test]
fn checksums_can_cover_the_payload() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[16, 8]);
    b.straight(&[header]);
    let list = Arg::List(vec![b.get(b.of(header, 1))]);
    let place = Arg::Out(Place::Field(b.of(header, 0)), Scalar::bit(16));
    let check = vec![
        Arg::In(bit(1, 1)),
        list.clone(),
        Arg::In(b.get(b.of(header, 0))),
        algorithm("csum16"),
    ];
    b.verify.push(function("verify_checksum_with_payload", check));
    let update = vec![Arg::In(bit(1, 1)), list, place, algorithm("csum16")];
    b.compute.push(function("update_checksum_with_payload", update));
    let wrong = b.get(b.standard("checksum_error"));
    b.ingress.push(assign(b.standard("egress_spec"), cast(Scalar::bit(9), wrong)));
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let out = common::pass(&mut pipeline, &mut packet, &[0, 0, 0x12, 0x34, 0x56, 0x78, 0x9a]);
    let sum = !(0x1234u16 + 0x5678);
    let sum = !((!sum as u32 + 0x9a00) as u16 + (((!sum) as u32 + 0x9a00) >> 16) as u16);
    assert_eq!(out[..2], sum.to_be_bytes());
    let ingress = pipeline.ingress(&mut packet, &out, &IngressInput::default());
    assert_eq!(ingress.verdict, Verdict::Unicast(0));
    let ingress = pipeline.ingress(&mut packet, &out[..out.len() - 1], &IngressInput::default());
    assert_eq!(ingress.verdict, Verdict::Unicast(1));
}

#[test]
fn random_numbers_repeat_from_run_to_run() {
    let draw = || {
        let mut b = Builder::new();
        let header = b.bits_header("h", &[16]);
        b.straight(&[header]);
        b.ingress.push(function(
            "random",
            vec![
                Arg::Out(Place::Field(b.of(header, 0)), Scalar::bit(16)),
                Arg::In(bit(16, 100)),
                Arg::In(bit(16, 199)),
            ],
        ));
        let mut pipeline = b.load();
        let mut packet = pipeline.new_packet();
        (0..50)
            .map(|_| {
                let out = common::pass(&mut pipeline, &mut packet, &[0, 0]);
                u16::from_be_bytes([out[0], out[1]])
            })
            .collect::<Vec<_>>()
    };
    let numbers = draw();
    assert_eq!(numbers, draw());
    assert!(numbers.iter().all(|number| (100..200).contains(number)));
    assert!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len() > 20);
}
