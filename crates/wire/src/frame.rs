//! Whole frames: the aggregation header with its lower-layer headers.

use crate::agg::{self, Repr};
use crate::{Ecn, Host, ethernet, ipv4, udp};

/// Length of all headers in bytes: the offset of the values in a frame.
pub const HEADERS_LEN: usize =
    ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN + agg::HEADER_LEN;

/// The largest number of values that fits in one IPv4 packet.
pub const VALUES_MAX: u16 = {
    let room = u16::MAX as usize - (ipv4::HEADER_LEN + udp::HEADER_LEN + agg::HEADER_LEN);
    (room / 4) as u16
};

/// Length in bytes of a frame with `values` values.
pub const fn frame_len(values: u16) -> usize {
    HEADERS_LEN + 4 * values as usize
}

/// Addresses and ECN field of the lower-layer headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The sender.
    pub source: Host,
    /// The receiver: a host, or [the group of a job](Host::group).
    pub destination: Host,
    /// The ECN field of the IPv4 header.
    pub ecn: Ecn,
}

/// Clears `frame`, writes all headers and returns the zeroed space of `repr.values` values. Fill it
/// with [`values::write_i32`](crate::values::write_i32) or
/// [`values::write_f32`](crate::values::write_f32).
///
/// Does not allocate if the capacity of `frame` suffices.
///
/// # Panics
///
/// If `repr.values` exceeds [`VALUES_MAX`].
pub fn emit_frame<'f>(frame: &'f mut Vec<u8>, envelope: &Envelope, repr: &Repr) -> &'f mut [u8] {
    assert!(repr.values <= VALUES_MAX, "{} values do not fit an IPv4 packet", repr.values);
    frame.clear();
    frame.resize(frame_len(repr.values), 0);
    let datagram = (agg::HEADER_LEN + 4 * usize::from(repr.values)) as u16;
    let rest = frame.as_mut_slice();
    let (header, rest) = split_header(rest);
    ethernet::emit(header, envelope.source.mac, envelope.destination.mac);
    let (header, rest) = split_header(rest);
    ipv4::emit(
        header,
        envelope.source.ip,
        envelope.destination.ip,
        envelope.ecn,
        udp::HEADER_LEN as u16 + datagram,
    );
    let (header, rest) = split_header(rest);
    udp::emit(header, datagram);
    let (header, rest) = split_header(rest);
    repr.emit(header);
    rest
}

fn split_header<const N: usize>(bytes: &mut [u8]) -> (&mut [u8; N], &mut [u8]) {
    bytes.split_first_chunk_mut().expect("the frame was sized for all headers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_the_contract() {
        assert_eq!(HEADERS_LEN, 70);
        assert_eq!(frame_len(64), 70 + 256);
        assert!(frame_len(VALUES_MAX) <= 65535 + ethernet::HEADER_LEN);
        assert!(frame_len(VALUES_MAX + 1) > 65535 + ethernet::HEADER_LEN);
    }
}
