//! Errors in frames.

use crate::{Kind, POSITIONS_MAX};

/// Why a frame is invalid. Checks run in the order of the headers, and the first failure is
/// returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The frame ends before its headers, or before the length that they state.
    #[error("the frame has {have} bytes, its headers need {need}")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// The Ethernet payload is not IPv4.
    #[error("ethertype {0:#06x} is not IPv4")]
    EtherType(u16),
    /// The version field of the IP header is not 4.
    #[error("IP version {0} under the ethertype of IPv4")]
    Version(u8),
    /// The IPv4 header has options, or is shorter than 20 bytes.
    #[error("IPv4 header of {0} words, only 5 are understood")]
    HeaderLength(u8),
    /// A fragment of an IPv4 packet. Aggregation packets are never fragmented.
    #[error("IPv4 fragment")]
    Fragment,
    /// The IPv4 payload is not UDP.
    #[error("IP protocol {0} is not UDP")]
    NotUdp(u8),
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    HeaderChecksum,
    /// The UDP destination port is another one.
    #[error("UDP port {0} is not {port}", port = crate::PORT)]
    Port(u16),
    /// The UDP datagram does not fill the IPv4 packet.
    #[error("UDP length {udp} in an IPv4 payload of {ipv4} bytes")]
    UdpLength {
        /// Length in the UDP header, including the header.
        udp: usize,
        /// Length of the IPv4 payload.
        ipv4: usize,
    },
    /// The sender set a UDP checksum, which a switch that adds values cannot keep correct.
    #[error("UDP checksum {0:#06x}, expected none")]
    UdpChecksum(u16),
    /// The UDP payload is shorter than the aggregation header.
    #[error("{0} bytes of UDP payload hold no aggregation header")]
    ShortHeader(usize),
    /// The aggregation protocol is unknown.
    #[error("unknown aggregation protocol {0}")]
    Protocol(u8),
    /// The packet kind is unknown.
    #[error("unknown packet kind {0}")]
    Kind(u8),
    /// An unknown flag is set.
    #[error("unknown flags in {0:#04x}")]
    Flags(u8),
    /// The job number is zero.
    #[error("job 0 does not exist")]
    Job,
    /// The epoch is zero.
    #[error("epoch 0 does not exist")]
    Epoch,
    /// A job has at most 32 racks.
    #[error("rack {0}, but there are at most {POSITIONS_MAX}")]
    Rack(u8),
    /// The reserved bytes are not zero.
    #[error("the reserved bytes are {0:#06x}, not zero")]
    Reserved(u16),
    /// There is no such audience, or the protocol or the kind has none.
    #[error("audience {0:#04x} in a packet that cannot have it")]
    Audience(u8),
    /// A kind with values has none, or a kind without values has some.
    #[error("a {kind:?} packet with {values} values")]
    Values {
        /// Kind of the packet.
        kind: Kind,
        /// The stated number of values.
        values: u16,
    },
    /// The length of the UDP payload does not match the number of values.
    #[error("{values} values stated, {bytes} bytes behind the aggregation header")]
    PayloadLength {
        /// The stated number of values.
        values: u16,
        /// Bytes after the aggregation header.
        bytes: usize,
    },
}

impl Error {
    /// Whether the frame is other traffic, such as ARP or another program's UDP, rather than a
    /// malformed aggregation packet.
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::EtherType(_) | Self::Fragment | Self::NotUdp(_) | Self::Port(_))
    }
}
