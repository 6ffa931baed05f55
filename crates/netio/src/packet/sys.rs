//! The AF_PACKET system calls, each behind a safe function.

#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ptr;
use std::time::Duration;

use socket2::{Domain, SockFilter, Socket, Type};

use crate::filter::{Instruction, nothing};
use crate::messages::{self, Message, Wanted};
use crate::sys::{address, get_option, set_option};

/// An unbound raw packet socket, which receives nothing yet.
pub(super) fn packet_socket() -> io::Result<Socket> {
    Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)
}

/// Binds to one interface. From now on frames of all EtherTypes arrive.
pub(super) fn bind_packet(socket: &Socket, index: u32) -> io::Result<()> {
    let all = u16::try_from(libc::ETH_P_ALL).expect("EtherTypes have 16 bits");
    socket.bind(&address(libc::sockaddr_ll {
        sll_family: libc::sa_family_t::try_from(libc::AF_PACKET).expect("a small constant"),
        sll_protocol: all.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }))
}

/// A socket that holds a UDP port on all addresses, and drops everything. Several sockets may hold
/// the same port.
pub(super) fn port_holder(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    attach_filter(&socket, &nothing())?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    Ok(socket)
}

/// Lets the kernel drop frames that `program` does not accept before they are queued.
pub(super) fn attach_filter(socket: &Socket, program: &[Instruction]) -> io::Result<()> {
    let code = program.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k));
    socket.attach_filter(&code.collect::<Vec<_>>())
}

/// Undoes [`attach_filter`].
pub(super) fn detach_filter(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
}

/// Makes a bound socket the first of a group: each frame for the interface goes to one socket of
/// the group, the one whose number is what the program returns, modulo their number. Returns the
/// group's number.
pub(super) fn found_group(socket: &Socket, program: &[Instruction]) -> io::Result<u16> {
    join(socket, 0, libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
    let filters: Vec<SockFilter> =
        program.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k)).collect();
    let length = u16::try_from(filters.len()).expect("programs are short");
    let program = libc::sock_fprog { len: length, filter: filters.as_ptr().cast_mut().cast() };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program)?;
    // The lower half of the answer is the number.
    let group = get_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, 0_u32)?;
    Ok((group & 0xffff) as u16)
}

/// Adds a bound socket to the end of a group.
pub(super) fn join_group(socket: &Socket, group: u16) -> io::Result<()> {
    join(socket, group, 0)
}

/// A group has its own setting for frames that this host sends.
fn join(socket: &Socket, group: u16, more: libc::c_uint) -> io::Result<()> {
    let flags = libc::PACKET_FANOUT_CBPF | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING | more;
    let argument = u32::from(group) | flags << 16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)
}

/// Excludes frames that this host sends.
pub(super) fn ignore_outgoing(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
}

/// Requests the VLAN tags that the kernel removes.
pub(super) fn request_tags(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)
}

/// Requests the time of each frame.
pub(super) fn request_times(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
}

/// Puts a `virtio_net_hdr` before each frame, in both directions.
pub(super) fn describe_frames(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
}

/// A membership of an interface, which lasts as long as the socket is open.
#[derive(Clone, Copy, Debug)]
pub(super) enum Membership {
    Promiscuous,
    Multicast([u8; 6]),
}

/// Joins or leaves.
pub(super) fn membership(
    socket: &Socket,
    index: u32,
    member: Membership,
    join: bool,
) -> io::Result<()> {
    let (kind, mac) = match member {
        Membership::Promiscuous => (libc::PACKET_MR_PROMISC, None),
        Membership::Multicast(mac) => (libc::PACKET_MR_MULTICAST, Some(mac)),
    };
    let mut request = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: u16::try_from(kind).expect("a small constant"),
        mr_alen: if mac.is_some() { 6 } else { 0 },
        mr_address: [0; 8],
    };
    request.mr_address[..6].copy_from_slice(&mac.unwrap_or_default());
    let option = if join { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
    set_option(socket, libc::SOL_PACKET, option, &request)
}

/// Number of frames that the kernel has dropped for lack of buffer space since the last call.
pub(super) fn take_drops(socket: &Socket) -> io::Result<u64> {
    let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let statistics = get_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, none)?;
    Ok(u64::from(statistics.tp_drops))
}

/// One received frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// Its length, which may exceed the buffer.
    pub(super) length: usize,
    /// The VLAN tag that the kernel removed: protocol and control information.
    pub(super) tag: Option<(u16, u16)>,
}

impl crate::queues::Arrival for Arrival {
    fn length(&self) -> usize {
        self.length
    }
}

/// Receives up to `arrivals.len()` frames without waiting, frame i to `buffers[i * stride +
/// gap..]`. Returns their number.
pub(super) fn receive_batch(
    socket: &Socket,
    buffers: &mut [u8],
    stride: usize,
    gap: usize,
    tags: bool,
    arrivals: &mut [Arrival],
) -> io::Result<usize> {
    let wanted = Wanted { source: false, controls: tags };
    messages::receive(socket, buffers, stride, gap, wanted, arrivals, |received| {
        let mut arrival = Arrival { length: received.length, tag: None };
        received.controls(|level, kind, data| {
            if (level, kind) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                arrival.tag = tag_of(data);
            }
        });
        arrival
    })
}

/// The same with the time of each frame since 1970.
pub(super) fn receive_timed(
    socket: &Socket,
    buffers: &mut [u8],
    stride: usize,
    gap: usize,
    arrivals: &mut [(Arrival, Duration)],
) -> io::Result<usize> {
    let wanted = Wanted { source: false, controls: true };
    messages::receive(socket, buffers, stride, gap, wanted, arrivals, |received| {
        let mut arrival = Arrival { length: received.length, tag: None };
        let mut time = Duration::ZERO;
        received.controls(|level, kind, data| match (level, kind) {
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => arrival.tag = tag_of(data),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => time = time_of(data),
            _ => {}
        });
        (arrival, time)
    })
}

/// The time in the data of a control message.
fn time_of(data: &[u8]) -> Duration {
    let Some(data) = data.first_chunk::<{ size_of::<libc::timespec>() }>() else {
        return Duration::ZERO;
    };
    // SAFETY: as many bytes, which are read unaligned, of a structure of integers.
    let time: libc::timespec = unsafe { ptr::read_unaligned(data.as_ptr().cast()) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The VLAN tag in the data of a control message.
fn tag_of(data: &[u8]) -> Option<(u16, u16)> {
    let data = data.first_chunk::<{ size_of::<libc::tpacket_auxdata>() }>()?;
    // SAFETY: as many bytes, which are read unaligned, of a structure of integers.
    let data: libc::tpacket_auxdata = unsafe { ptr::read_unaligned(data.as_ptr().cast()) };
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_protocol = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    Some((if has_protocol { data.tp_vlan_tpid } else { 0x8100 }, data.tp_vlan_tci))
}

/// Sends frames. Returns the number of leading ones that were accepted; an error refers to the
/// first.
pub(super) fn send_batch<'a>(
    socket: &Socket,
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    messages::send(socket, frames.map(|bytes| Message { bytes, to: None, controls: [None; 2] }))
}
