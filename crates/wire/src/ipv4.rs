//! IPv4 without options (RFC 791), with ECN (RFC 3168).

use std::net::Ipv4Addr;

use crate::Error;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 20;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Time to live of sent packets.
pub const TTL: u8 = 64;

/// The "don't fragment" bit in the flags and fragment offset field.
pub const DONT_FRAGMENT: u16 = 0x4000;

/// The "more fragments" bit and the fragment offset: both zero in an unfragmented packet.
const FRAGMENT_MASK: u16 = 0x3fff;

/// Offsets of the fields, in bytes from the start of the header.
pub mod field {
    use std::ops::Range;

    /// Version (high four bits) and header length in words (low four).
    pub const VERSION_IHL: usize = 0;
    /// DSCP (high six bits) and ECN (low two).
    pub const TOS: usize = 1;
    /// Length of header and payload, in bytes.
    pub const TOTAL_LENGTH: Range<usize> = 2..4;
    /// Identification; zero, because the packets are never fragmented (RFC 6864 §4.1).
    pub const IDENTIFICATION: Range<usize> = 4..6;
    /// Three flags and the fragment offset.
    pub const FRAGMENT: Range<usize> = 6..8;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol of the payload.
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: Range<usize> = 10..12;
    /// Source address.
    pub const SOURCE: Range<usize> = 12..16;
    /// Destination address.
    pub const DESTINATION: Range<usize> = 16..20;
}

/// The ECN field: the low two bits of the second byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable: a full queue drops the packet.
    NotEct = 0,
    /// ECN-capable, codepoint 1.
    Ect1 = 1,
    /// ECN-capable, codepoint 0. Endpoints send this.
    #[default]
    Ect0 = 2,
    /// Congestion experienced: the packet passed a long queue.
    CongestionExperienced = 3,
}

impl Ecn {
    /// Decodes the low two bits of the type-of-service byte; the other bits are ignored.
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::CongestionExperienced,
        }
    }
}

/// The Internet checksum (RFC 1071) of a header. If the checksum field is zero, the result is the
/// value to store in it. If the field is correct, the result is zero.
#[inline]
pub fn checksum(header: &[u8; HEADER_LEN]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    // The sum of ten 16-bit words fits in 32 bits.
    let sum: u32 = words.iter().map(|w| u32::from(u16::from_be_bytes(*w))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !(folded as u16)
}

/// Checks a header and returns the stated length of the payload in bytes.
#[inline]
pub(crate) fn check(header: &[u8; HEADER_LEN]) -> Result<usize, Error> {
    let version_ihl = header[field::VERSION_IHL];
    if version_ihl >> 4 != 4 {
        return Err(Error::Version(version_ihl >> 4));
    }
    if version_ihl & 15 != 5 {
        return Err(Error::HeaderLength(version_ihl & 15));
    }
    if u16::from_be_bytes([header[6], header[7]]) & FRAGMENT_MASK != 0 {
        return Err(Error::Fragment);
    }
    if header[field::PROTOCOL] != PROTOCOL_UDP {
        return Err(Error::NotUdp(header[field::PROTOCOL]));
    }
    if checksum(header) != 0 {
        return Err(Error::HeaderChecksum);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    total.checked_sub(HEADER_LEN).ok_or(Error::Truncated { need: HEADER_LEN, have: total })
}

/// Writes the header of a UDP datagram of `payload` bytes, including the checksum.
#[inline]
pub(crate) fn emit(
    header: &mut [u8; HEADER_LEN],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ecn: Ecn,
    payload: u16,
) {
    let total = HEADER_LEN as u16 + payload;
    header[field::VERSION_IHL] = 0x45;
    header[field::TOS] = ecn as u8;
    header[field::TOTAL_LENGTH].copy_from_slice(&total.to_be_bytes());
    header[field::IDENTIFICATION].fill(0);
    header[field::FRAGMENT].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    header[field::TTL] = TTL;
    header[field::PROTOCOL] = PROTOCOL_UDP;
    header[field::CHECKSUM].fill(0);
    header[field::SOURCE].copy_from_slice(&source.octets());
    header[field::DESTINATION].copy_from_slice(&destination.octets());
    let sum = checksum(header);
    header[field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_known_header() {
        // The example header of textbooks and encyclopaedias.
        let mut header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
        header[field::CHECKSUM].copy_from_slice(&[0xb8, 0x61]);
        assert_eq!(checksum(&header), 0);
    }

    #[test]
    fn ecn_is_the_low_two_bits() {
        for tos in 0..=u8::MAX {
            assert_eq!(Ecn::from_tos(tos) as u8, tos & 3);
        }
    }
}
