//! UDP (RFC 768) without checksum.

use crate::{Error, PORT};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// Offsets of the fields, in bytes from the start of the header.
pub mod field {
    use std::ops::Range;

    /// Source port.
    pub const SOURCE_PORT: Range<usize> = 0..2;
    /// Destination port.
    pub const DESTINATION_PORT: Range<usize> = 2..4;
    /// Length of header and payload, in bytes.
    pub const LENGTH: Range<usize> = 4..6;
    /// Checksum; zero for none.
    pub const CHECKSUM: Range<usize> = 6..8;
}

/// Checks a header in an IPv4 payload of `available` bytes and returns the length of the UDP
/// payload in bytes.
///
/// Any source port is accepted.
#[inline]
pub(crate) fn check(header: &[u8; HEADER_LEN], available: usize) -> Result<usize, Error> {
    let port = u16::from_be_bytes([header[2], header[3]]);
    if port != PORT {
        return Err(Error::Port(port));
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length != available || length < HEADER_LEN {
        return Err(Error::UdpLength { udp: length, ipv4: available });
    }
    match u16::from_be_bytes([header[6], header[7]]) {
        0 => Ok(length - HEADER_LEN),
        sum => Err(Error::UdpChecksum(sum)),
    }
}

/// Writes the header of a datagram with `payload` bytes.
#[inline]
pub(crate) fn emit(header: &mut [u8; HEADER_LEN], payload: u16) {
    let length = HEADER_LEN as u16 + payload;
    header[field::SOURCE_PORT].copy_from_slice(&PORT.to_be_bytes());
    header[field::DESTINATION_PORT].copy_from_slice(&PORT.to_be_bytes());
    header[field::LENGTH].copy_from_slice(&length.to_be_bytes());
    header[field::CHECKSUM].fill(0);
}
