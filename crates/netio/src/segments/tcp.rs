//! TCP super-frames: data that the kernel has not cut into segments yet (TSO), or has merged (GRO).

use super::{Unusable, complete, finish_ipv4, folded};

/// Offset of the checksum in a TCP header.
pub(super) const CHECKSUM: usize = 16;

/// Offset of the flags.
const FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The length of the TCP header at the start of `bytes`.
pub(super) fn header(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(bytes.get(12)? >> 4) * 4;
    (length >= 20).then_some(length)
}

/// The headers of a super-frame's segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Where the IP and TCP headers start.
    ip: usize,
    tcp: usize,
    is_ipv4: bool,
    /// The sum of the pseudo-header without the length.
    pseudo: u64,
    /// The flags of the super-frame that only its last segment has.
    last: u8,
}

impl Stream {
    /// Turns a super-frame's headers into those of its first segment, except for what
    /// [`finish`](Self::finish) writes. TCP has `covered` bytes in the super-frame, header included,
    /// and a segment at most `size` bytes of payload.
    pub(super) fn new(
        headers: &mut [u8],
        ip: usize,
        tcp: usize,
        covered: usize,
        size: usize,
    ) -> Result<Self, Unusable> {
        let covered = u16::try_from(covered).map_err(|_| Unusable)?;
        u16::try_from(headers.len() - ip + size).map_err(|_| Unusable)?;
        // The kernel has left the sum of the pseudo-header in the field, with the length of all.
        let field = u16::from_be_bytes([headers[tcp + CHECKSUM], headers[tcp + CHECKSUM + 1]]);
        let last = headers[tcp + FLAGS] & (FIN | PSH);
        headers[tcp + FLAGS] &= !(FIN | PSH);
        let is_ipv4 = headers[ip] >> 4 == 4;
        Ok(Self { ip, tcp, is_ipv4, pseudo: u64::from(field) + u64::from(!covered), last })
    }

    /// Completes a segment, which has its payload and a copy of the headers.
    pub(super) fn finish(&self, segment: &mut [u8], is_last: bool) {
        let Self { ip, tcp, .. } = *self;
        // `new` has checked that a full segment has no longer lengths.
        let [total, covered] = [ip, tcp].map(|start| (segment.len() - start) as u16);
        if self.is_ipv4 {
            finish_ipv4(&mut segment[ip..tcp], total);
        } else {
            segment[ip + 4..ip + 6].copy_from_slice(&covered.to_be_bytes());
        }
        if is_last {
            segment[tcp + FLAGS] |= self.last;
        }
        let pseudo = folded(self.pseudo + u64::from(covered));
        segment[tcp + CHECKSUM..tcp + CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
        let completed = complete(segment, tcp, CHECKSUM);
        debug_assert!(completed.is_ok(), "a TCP header is longer");
    }

    /// Turns the headers into those of the next segment, after one with `payload` bytes.
    pub(super) fn advance(&self, headers: &mut [u8], payload: usize) {
        if self.is_ipv4 {
            let identification = &mut headers[self.ip + 4..self.ip + 6];
            let next = u16::from_be_bytes([identification[0], identification[1]]).wrapping_add(1);
            identification.copy_from_slice(&next.to_be_bytes());
        }
        let tcp = &mut headers[self.tcp..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        tcp[4..8].copy_from_slice(&sequence.wrapping_add(payload as u32).to_be_bytes());
        tcp[FLAGS] &= !CWR;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use etherparse::{
        IpHeaders, NetHeaders, PacketBuilder, PacketHeaders, TcpHeader, TcpOptionElement,
        TransportHeader,
    };
    use proptest::prelude::*;

    use crate::segments::tests::cut;
    use crate::segments::{GSO_ECN, GSO_TCP_V4, GSO_TCP_V6, NEEDS_CHECKSUM, VNET};

    use super::*;

    /// A super-frame as the kernel describes it.
    #[derive(Clone, Debug)]
    struct Whole {
        ipv6: bool,
        /// VLAN tags.
        tags: usize,
        /// Bytes of IPv4 options.
        options: usize,
        timestamps: bool,
        identification: u16,
        sequence: u32,
        /// FIN, PSH, CWR, ECE.
        flags: [bool; 4],
        size: usize,
        payload: Vec<u8>,
    }

    impl Whole {
        fn ip(&self) -> IpHeaders {
            if self.ipv6 {
                let header = etherparse::Ipv6Header {
                    hop_limit: 7,
                    source: [1; 16],
                    destination: [0xfe; 16],
                    ..Default::default()
                };
                return IpHeaders::Ipv6(header, Default::default());
            }
            let options = vec![1; self.options];
            let header = etherparse::Ipv4Header {
                identification: self.identification,
                dont_fragment: true,
                time_to_live: 7,
                source: [10, 0, 0, 1],
                destination: [250, 0, 0, 2],
                options: options.as_slice().try_into().unwrap(),
                ..Default::default()
            };
            IpHeaders::Ipv4(header, Default::default())
        }

        fn tcp(&self) -> TcpHeader {
            let mut tcp = TcpHeader::new(40_000, 5_001, self.sequence, 1_000);
            tcp.acknowledgment_number = 77;
            tcp.ack = true;
            [tcp.fin, tcp.psh, tcp.cwr, tcp.ece] = self.flags;
            if self.timestamps {
                tcp.set_options(&[TcpOptionElement::Timestamp(5, 6)]).unwrap();
            }
            tcp
        }

        /// A `virtio_net_hdr`, the headers and the payload.
        fn buffer(&self) -> Vec<u8> {
            let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let tag = |id: usize| (id as u16 + 5).try_into().unwrap();
            let mut frame = Vec::new();
            let payload = &self.payload;
            let (ip, tcp) = (self.ip(), self.tcp());
            match self.tags {
                0 => ethernet.ip(ip).tcp_header(tcp).write(&mut frame, payload),
                1 => ethernet.single_vlan(tag(0)).ip(ip).tcp_header(tcp).write(&mut frame, payload),
                _ => {
                    let tagged = ethernet.double_vlan(tag(0), tag(1));
                    tagged.ip(ip).tcp_header(tcp).write(&mut frame, payload)
                }
            }
            .unwrap();
            let network = if self.ipv6 { 40 } else { 20 + self.options };
            let start = 14 + 4 * self.tags + network;
            // The pseudo-header, without etherparse.
            let addresses = if self.ipv6 {
                start - 32..start
            } else {
                start - network + 12..start - network + 20
            };
            let mut pseudo: u64 = frame[addresses]
                .chunks(2)
                .map(|word| u64::from(word[0]) * 256 + u64::from(word[1]))
                .sum();
            pseudo += 6 + (frame.len() - start) as u64;
            frame[start + 16..start + 18].copy_from_slice(&folded(pseudo).to_be_bytes());
            let kind = if self.ipv6 { GSO_TCP_V6 } else { GSO_TCP_V4 };
            let ecn = if self.flags[2] { GSO_ECN } else { 0 };
            let [s0, s1] = (self.size as u16).to_ne_bytes();
            let [c0, c1] = (start as u16).to_ne_bytes();
            let [o0, o1] = (CHECKSUM as u16).to_ne_bytes();
            let vnet = [NEEDS_CHECKSUM, kind | ecn, 0, 0, s0, s1, c0, c1, o0, o1];
            [&vnet[..], &frame].concat()
        }
    }

    /// What a receiver makes of a segment: the distance of its sequence number, and its payload.
    /// Checks everything else.
    fn received(whole: &Whole, frame: &[u8], index: usize, segments: usize) -> (u32, Vec<u8>) {
        let headers = PacketHeaders::from_ethernet_slice(frame).unwrap();
        let payload = headers.payload.slice();
        let Some(TransportHeader::Tcp(tcp)) = headers.transport else { panic!("TCP") };
        let length = tcp.header_len() + payload.len();
        match (headers.net.unwrap(), whole.ip()) {
            (NetHeaders::Ipv4(ip, _), IpHeaders::Ipv4(sent, _)) => {
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                assert_eq!(usize::from(ip.total_len), ip.header_len() + length);
                assert_eq!(ip.identification, sent.identification.wrapping_add(index as u16));
                assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap());
                assert_eq!((ip.ttl_and_flags(), ip.options), (sent.ttl_and_flags(), sent.options));
            }
            (NetHeaders::Ipv6(ip, _), IpHeaders::Ipv6(sent, _)) => {
                assert_eq!(usize::from(ip.payload_length), length);
                assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, payload).unwrap());
                assert_eq!((ip.hop_limit, ip.source), (sent.hop_limit, sent.source));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(headers.link_exts.len(), whole.tags);
        let (first, last) = (index == 0, index + 1 == segments);
        let [fin, psh, cwr, ece] = whole.flags;
        let expected = TcpHeader {
            sequence_number: tcp.sequence_number,
            checksum: tcp.checksum,
            fin: fin && last,
            psh: psh && last,
            cwr: cwr && first,
            ece,
            ..whole.tcp()
        };
        assert_eq!(tcp, expected);
        (tcp.sequence_number.wrapping_sub(whole.sequence), payload.to_vec())
    }

    trait Kept {
        fn ttl_and_flags(&self) -> (u8, bool, [u8; 4], [u8; 4]);
    }

    impl Kept for etherparse::Ipv4Header {
        fn ttl_and_flags(&self) -> (u8, bool, [u8; 4], [u8; 4]) {
            (self.time_to_live, self.dont_fragment, self.source, self.destination)
        }
    }

    fn plain(payload: usize, size: usize) -> Whole {
        Whole {
            ipv6: false,
            tags: 0,
            options: 0,
            timestamps: true,
            identification: u16::MAX,
            sequence: u32::MAX - 1_000,
            flags: [true; 4],
            size,
            payload: (0..payload).map(|at| (at * 31 + at / 256) as u8).collect(),
        }
    }

    fn check(whole: &Whole) {
        let frames = cut(&mut whole.buffer()).unwrap();
        assert_eq!(frames.len(), whole.payload.len().div_ceil(whole.size));
        let mut data = BTreeMap::new();
        // From the last to the first: a receiver must not depend on the order.
        for (index, frame) in frames.iter().enumerate().rev() {
            let (at, payload) = received(whole, frame, index, frames.len());
            assert!(payload.len() == whole.size || index + 1 == frames.len());
            assert!(data.insert(at, payload).is_none());
        }
        let mut stream = Vec::new();
        for (at, payload) in data {
            assert_eq!(at as usize, stream.len(), "no gap and no overlap");
            stream.extend(payload);
        }
        assert_eq!(stream, whole.payload);
    }

    #[test]
    fn a_stream_is_cut_into_what_a_card_would_send() {
        for (payload, size) in
            [(64_000, 1_448), (2_896, 1_448), (100, 1_448), (121, 60), (1_449, 1_448)]
        {
            check(&plain(payload, size));
            check(&Whole { ipv6: true, ..plain(payload, size) });
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        let whole = plain(5_000, 1_448);
        let mut buffer = whole.buffer();
        buffer[VNET + 34 + CHECKSUM] ^= 0x40;
        for frame in cut(&mut buffer).unwrap() {
            let headers = PacketHeaders::from_ethernet_slice(&frame).unwrap();
            let (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Tcp(tcp))) =
                (headers.net, headers.transport)
            else {
                panic!("TCP over IPv4");
            };
            let right = tcp.calc_checksum_ipv4(&ip, headers.payload.slice()).unwrap();
            assert_ne!(tcp.checksum, right);
        }
    }

    #[test]
    fn what_is_not_a_stream_is_refused() {
        // Each changes one byte of a valid buffer.
        for (what, at, value) in [
            ("IPv6", 1, GSO_TCP_V6),
            ("UDP", 1, 5),
            ("a tunnel", 1, GSO_TCP_V4 | 0x20),
            ("a checksum that is complete", 0, 0),
            ("a checksum elsewhere", 8, 6),
            ("a checksum far away", 9, 1),
            ("a header elsewhere", 6, 38),
            ("a header behind the end", 7, 0xff),
            ("a fragment", VNET + 14 + 7, 1),
            ("more fragments", VNET + 14 + 6, 0x20),
            ("another protocol", VNET + 14 + 9, 17),
            ("IP options that are not there", VNET + 14, 0x46),
            ("a short TCP header", VNET + 34 + 12, 0x40),
            ("another EtherType", VNET + 12, 9),
        ] {
            let mut buffer = plain(3_000, 1_448).buffer();
            assert_ne!(buffer[at], value, "{what}");
            buffer[at] = value;
            assert!(cut(&mut buffer).is_err(), "{what}");
        }
        for size in [0, u16::MAX] {
            let whole = plain(3_000, usize::from(size));
            assert!(cut(&mut whole.buffer()).is_err(), "segments of {size} bytes");
        }
        let mut tagged = Whole { tags: 2, options: 40, ..plain(1_000, 100) }.buffer();
        assert!(cut(&mut tagged).is_ok(), "all headers that are possible");
        assert!(cut(&mut plain(0, 100).buffer()).is_err(), "no payload");
        let mut short = plain(1_000, 100).buffer();
        short.truncate(VNET + 34 + 20);
        assert!(cut(&mut short).is_err(), "the header does not end");
    }

    fn wholes() -> impl Strategy<Value = Whole> {
        let shape = (any::<bool>(), 0usize..3, 0usize..11, any::<bool>());
        let sizes = (
            prop_oneof![60usize..80, 60usize..9_000, Just(1_448)],
            prop_oneof![1usize..200, 1usize..20_000, 60_000usize..65_000],
        );
        let fields = (any::<u16>(), any::<u32>(), any::<[bool; 4]>(), any::<u64>());
        (shape, sizes, fields).prop_map(|(shape, (size, length), fields)| {
            let (ipv6, tags, options, timestamps) = shape;
            let (identification, sequence, flags, seed) = fields;
            let byte = |at: u64| (seed.wrapping_mul(at * 2 + 1) >> 32) as u8;
            Whole {
                ipv6,
                tags,
                options: 4 * options,
                timestamps,
                identification,
                sequence,
                flags,
                size,
                payload: (0..length as u64).map(byte).collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn every_stream_is_cut_into_itself(whole in wholes()) {
            check(&whole);
        }
    }
}
