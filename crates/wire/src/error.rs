//! What can be wrong with a frame.

use crate::Kind;

/// What is wrong with a frame. Checks run in the order of the headers; the first failure is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The frame ends before the headers do, or before the length that they state.
    #[error("the frame has {have} bytes, its headers need {need}")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Not IPv4 behind Ethernet.
    #[error("ethertype {0:#06x} is not IPv4")]
    EtherType(u16),
    /// The version field of the IP header is not 4.
    #[error("IP version {0} under the ethertype of IPv4")]
    Version(u8),
    /// The IPv4 header has options, or less than its 20 bytes.
    #[error("IPv4 header of {0} words, only 5 are understood")]
    HeaderLength(u8),
    /// A fragment of an IPv4 packet. Ours are sent whole.
    #[error("IPv4 fragment")]
    Fragment,
    /// Not UDP behind IPv4.
    #[error("IP protocol {0} is not UDP")]
    NotUdp(u8),
    /// The IPv4 header does not sum up.
    #[error("the IPv4 header checksum is wrong")]
    HeaderChecksum,
    /// UDP for another port.
    #[error("UDP port {0} is not {port}", port = crate::PORT)]
    Port(u16),
    /// The UDP datagram does not fill the IPv4 packet.
    #[error("UDP length {udp} in an IPv4 payload of {ipv4} bytes")]
    UdpLength {
        /// Length in the UDP header, itself included.
        udp: usize,
        /// What IPv4 states to follow its header.
        ipv4: usize,
    },
    /// The sender set a UDP checksum, which a switch that adds values cannot keep right.
    #[error("UDP checksum {0:#06x}, expected none")]
    UdpChecksum(u16),
    /// The UDP payload is shorter than the aggregation header.
    #[error("{0} bytes of UDP payload hold no aggregation header")]
    ShortHeader(usize),
    /// No such aggregation protocol.
    #[error("unknown aggregation protocol {0}")]
    Protocol(u8),
    /// No such kind of packet.
    #[error("unknown packet kind {0}")]
    Kind(u8),
    /// A flag that means nothing yet.
    #[error("unknown flags in {0:#04x}")]
    Flags(u8),
    /// The job's number is zero.
    #[error("job 0 does not exist")]
    Job,
    /// The epoch is zero.
    #[error("epoch 0 does not exist")]
    Epoch,
    /// The reserved word is not zero.
    #[error("the reserved word is {0:#010x}, not zero")]
    Racks(u32),
    /// A kind that carries values has none, or the other way round.
    #[error("a {kind:?} packet with {values} values")]
    Values {
        /// Kind of the packet.
        kind: Kind,
        /// The number of values it states.
        values: u16,
    },
    /// The UDP payload is not what the number of values asks for.
    #[error("{values} values stated, {bytes} bytes behind the aggregation header")]
    PayloadLength {
        /// The number of values stated.
        values: u16,
        /// Bytes behind the aggregation header.
        bytes: usize,
    },
}

impl Error {
    /// Whether the frame is simply not for us, as ARP or another program's UDP, rather than a
    /// broken aggregation packet.
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::EtherType(_) | Self::Fragment | Self::NotUdp(_) | Self::Port(_))
    }
}
