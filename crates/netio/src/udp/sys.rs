//! The options and messages of UDP sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use crate::filter::Instruction;
use crate::messages::{self, Message, Value, Wanted};
use crate::sys::{get_option, set_option};

/// From linux/udp.h and asm-generic/socket.h.
pub(super) const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
const SO_MEMINFO: libc::c_int = 55;
const SO_ATTACH_REUSEPORT_CBPF: libc::c_int = 51;
/// Index of the dropped datagrams in what `SO_MEMINFO` returns.
const DROPS: usize = 8;

/// A socket that nothing has been asked of yet.
pub(super) fn udp_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
}

/// Binds to a port of an interface, on all its addresses.
pub(super) fn bind(socket: &Socket, interface: &str, port: u16) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())
}

/// Only groups that this socket has joined, and nothing from this host.
pub(super) fn only_own_groups(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0_i32)?;
    socket.set_multicast_loop_v4(false)
}

pub(super) fn join(socket: &Socket, group: Ipv4Addr, index: u32) -> io::Result<()> {
    socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
}

pub(super) fn leave(socket: &Socket, group: Ipv4Addr, index: u32) -> io::Result<()> {
    socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
}

/// Asks for the destination and the type of service of what arrives over IPv4.
pub(super) fn describe_datagrams(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &1_i32)?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32)
}

/// Asks for datagrams that the kernel has joined. An old kernel joins none.
pub(super) fn accept_joined(socket: &Socket) {
    drop(set_option(socket, libc::IPPROTO_UDP, UDP_GRO, &1_i32));
}

/// Forbids fragments, whatever routers say about the path.
pub(super) fn never_fragment(socket: &Socket, domain: Domain) -> io::Result<()> {
    match domain {
        Domain::IPV6 => set_option(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            &libc::IPV6_PMTUDISC_PROBE,
        ),
        _ => set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE),
    }
}

/// Sends datagrams without checksums.
pub(super) fn omit_checksums(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32)
}

/// Lets a program choose the socket for each datagram to one host, among the sockets that share the
/// port with this one, by its place in the order in which they were bound. Each of them gets what is
/// sent to a group that it has joined.
pub(super) fn share_by(socket: &Socket, program: &[Instruction]) -> io::Result<()> {
    let step = |step: &Instruction| libc::sock_filter {
        code: step.code,
        jt: step.jt,
        jf: step.jf,
        k: step.k,
    };
    let mut steps: Vec<_> = program.iter().map(step).collect();
    let len = libc::c_ushort::try_from(steps.len()).map_err(io::Error::other)?;
    // The kernel copies the steps, which live until then.
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Whether the kernel cuts a buffer into datagrams.
pub(super) fn cuts_buffers(socket: &Socket) -> bool {
    get_option(socket, libc::IPPROTO_UDP, UDP_SEGMENT, 0_i32).is_ok()
}

/// Number of datagrams that the kernel has dropped for lack of buffer space.
pub(super) fn drops(socket: &Socket) -> io::Result<u64> {
    let counters = get_option(socket, libc::SOL_SOCKET, SO_MEMINFO, [0_u32; DROPS + 1])?;
    Ok(counters[DROPS].into())
}

/// One received buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Its length, which may exceed the room for it.
    pub(super) length: usize,
    /// The payload of each datagram, if the kernel has joined several.
    pub(super) segment: Option<usize>,
    pub(super) source: SocketAddrV4,
    pub(super) destination: Ipv4Addr,
    pub(super) tos: u8,
}

impl crate::queues::Arrival for Arrival {
    fn length(&self) -> usize {
        self.length
    }
}

impl Arrival {
    pub(super) const NONE: Self = Self {
        length: 0,
        segment: None,
        source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        destination: Ipv4Addr::UNSPECIFIED,
        tos: 0,
    };
}

/// Receives up to `arrivals.len()` buffers without waiting, buffer i to `buffers[i * stride +
/// gap..]`. Returns their number. The source is told only if it is wanted, which must be of IPv4.
pub(super) fn receive_batch(
    socket: &Socket,
    buffers: &mut [u8],
    stride: usize,
    gap: usize,
    source: bool,
    arrivals: &mut [Arrival],
) -> io::Result<usize> {
    let wanted = Wanted { source, controls: true };
    messages::receive(socket, buffers, stride, gap, wanted, arrivals, |received| {
        let (length, source) = (received.length, received.source);
        let mut arrival = Arrival { length, source, ..Arrival::NONE };
        received.controls(|level, kind, data| match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // An `in_pktinfo`: interface, local address and destination, four bytes each.
                if let Some(&[_, _, _, _, _, _, _, _, a, b, c, d]) = data.first_chunk() {
                    arrival.destination = Ipv4Addr::new(a, b, c, d);
                }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                arrival.tos = data.first().copied().unwrap_or_default();
            }
            (libc::IPPROTO_UDP, UDP_GRO) => {
                let size = data.first_chunk().map(|size| libc::c_int::from_ne_bytes(*size));
                arrival.segment = size.and_then(|size| usize::try_from(size).ok());
            }
            _ => {}
        });
        arrival
    })
}

/// A buffer to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure<'a> {
    pub(super) payload: &'a [u8],
    /// The payload of each datagram, if there are several.
    pub(super) segment: Option<u16>,
    pub(super) destination: SocketAddrV4,
    pub(super) tos: u8,
}

/// Sends buffers. Returns the number of leading ones that were accepted; an error refers to the
/// first.
pub(super) fn send_batch<'a>(
    socket: &Socket,
    departures: impl Iterator<Item = Departure<'a>>,
) -> io::Result<usize> {
    let messages = departures.map(|departure| Message {
        bytes: departure.payload,
        to: Some(departure.destination),
        controls: [
            Some((libc::IPPROTO_IP, libc::IP_TOS, Value::Int(departure.tos.into()))),
            departure.segment.map(|size| (libc::IPPROTO_UDP, UDP_SEGMENT, Value::Half(size))),
        ],
    });
    messages::send(socket, messages)
}
