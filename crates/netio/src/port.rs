//! What all sockets of a network interface have in common: how they are configured, and their counters.

use std::net::Ipv4Addr;
use std::time::Duration;

/// Bytes of a VLAN tag, which the MTU does not include.
pub(crate) const TAG: usize = 4;

/// Time to wait before offering frames again to a device that was full. The kernel sends no event
/// for this.
pub(crate) const DEVICE_RETRY: Duration = Duration::from_micros(50);

/// The frames to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Every frame, as a switch port needs. VLAN tags are in the frame, as on the wire.
    ///
    /// An AF_XDP socket takes the frames from the kernel; an AF_PACKET socket copies them.
    All,
    /// UDP over IPv4 to this port, addressed to this host or a multicast group. The UDP port is
    /// reserved, so that the kernel does not answer its datagrams with "port unreachable". The
    /// kernel processes all other frames as usual.
    Udp(u16),
}

/// Configuration of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the interface, in the calling thread's network namespace.
    pub interface: String,
    /// The frames to receive.
    pub traffic: Traffic,
    /// Whether to receive frames to all Ethernet addresses.
    pub promiscuous: bool,
    /// Multicast groups to join.
    pub groups: Vec<Ipv4Addr>,
    /// The only jobs whose datagrams to receive, by the number in bytes 4 and 5 of the payload; all if
    /// empty.
    pub jobs: Vec<u16>,
    /// Size of the receive buffer in bytes. For an ordinary user, AF_PACKET reduces it to the
    /// system's limit (`net.core.rmem_max`). AF_XDP keeps one frame per 2 KiB.
    pub receive_buffer: usize,
    /// How long the interface may be down. Meanwhile frames are lost, as on a cable that is unplugged.
    /// Afterwards, and at once if this is zero, operations fail with [`std::io::ErrorKind::NetworkDown`].
    pub outage: Duration,
}

impl Config {
    /// For a host that communicates over UDP port `port`, through an interface that may not be down.
    pub fn endpoint(interface: impl Into<String>, port: u16) -> Self {
        Self {
            interface: interface.into(),
            traffic: Traffic::Udp(port),
            promiscuous: false,
            groups: Vec::new(),
            jobs: Vec::new(),
            receive_buffer: 4 << 20,
            outage: Duration::ZERO,
        }
    }

    /// For a switch port: every frame, to any address.
    pub fn switch_port(interface: impl Into<String>) -> Self {
        Self { traffic: Traffic::All, promiscuous: true, ..Self::endpoint(interface, 0) }
    }
}

/// Counters of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames passed to the caller.
    pub received: u64,
    /// Frames accepted by the kernel.
    pub sent: u64,
    /// Frames that the kernel dropped because the receive buffer was full.
    pub overrun: u64,
    /// Frames dropped because they were longer than the interface's MTU at the time of opening,
    /// most likely merged by receive offload; with super-frames, because the sender's description of
    /// them cannot be used, or they would become too many frames for their length.
    pub oversized: u64,
    /// Frames that the kernel refused to send.
    pub unsendable: u64,
}

/// The Ethernet address of an IPv4 group (RFC 1112 §6.4).
pub(crate) fn ethernet_group(group: Ipv4Addr) -> [u8; 6] {
    let [_, a, b, c] = group.octets();
    [0x01, 0x00, 0x5e, a & 0x7f, b, c]
}
