//! The AF_PACKET system calls, each behind a safe function.

#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::{Domain, SockFilter, Socket, Type};

use super::BATCH;
use super::filter::{Instruction, nothing};
use crate::sys::{address, check, get_option, set_option};

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

/// Excludes frames that this host sends.
pub(super) fn ignore_outgoing(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
}

/// Requests the VLAN tags that the kernel removes.
pub(super) fn request_tags(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)
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

/// Room for one control message with a `tpacket_auxdata`, aligned as `cmsghdr` must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

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
    let count = arrivals.len().min(BATCH).min(buffers.len() / stride);
    // SAFETY: both are integers and pointers, for which all zeroes are valid.
    let (mut vectors, mut headers) =
        unsafe { std::mem::zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH])>() };
    let mut controls = [const { Control([0; 64]) }; BATCH];
    let slots = vectors.iter_mut().zip(&mut headers).zip(&mut controls);
    for (((vector, header), control), buffer) in
        slots.zip(buffers.chunks_exact_mut(stride)).take(count)
    {
        let room = &mut buffer[gap..];
        vector.iov_base = room.as_mut_ptr().cast();
        vector.iov_len = room.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        if tags {
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = control.0.len() as _;
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: each of the first `count` headers points to an iovec and, if tags are wanted, to a
    // control buffer in the arrays above, and each iovec points to its own part of `buffers`. All
    // outlive the call and have the given lengths. No address and no time limit is requested.
    let received = check(unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            flags as _,
            ptr::null_mut(),
        )
    })?;
    let received = usize::try_from(received).expect("not negative");
    for (arrival, header) in arrivals.iter_mut().zip(&headers).take(received) {
        arrival.length = header.msg_len as usize;
        arrival.tag = if tags { tag_of(&header.msg_hdr) } else { None };
    }
    Ok(received)
}

/// The VLAN tag in the control message of a header that recvmmsg has filled.
fn tag_of(header: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the header's control pointer and length are those that the kernel left, over a live
    // and aligned buffer; CMSG_FIRSTHDR is null unless a whole `cmsghdr` is in it.
    let message = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    let needed = size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
    if message.cmsg_level != libc::SOL_PACKET
        || message.cmsg_type != libc::PACKET_AUXDATA
        || (message.cmsg_len as usize) < needed
    {
        return None;
    }
    // SAFETY: a message of this level and type carries a `tpacket_auxdata`, and its length says
    // that all of it is there. It is read unaligned, so its alignment does not matter.
    let data: libc::tpacket_auxdata =
        unsafe { ptr::read_unaligned(libc::CMSG_DATA(message).cast()) };
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_protocol = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    Some((if has_protocol { data.tp_vlan_tpid } else { 0x8100 }, data.tp_vlan_tci))
}

/// Sends frames, frame i being the first `lengths[i]` bytes of `buffers[i * stride..]`. Returns the
/// number of leading frames that were accepted; an error refers to the first frame.
pub(super) fn send_batch(
    socket: &Socket,
    buffers: &[u8],
    stride: usize,
    lengths: &[usize],
) -> io::Result<usize> {
    let count = lengths.len().min(BATCH);
    // SAFETY: both are integers and pointers, for which all zeroes are valid.
    let (mut vectors, mut headers) =
        unsafe { std::mem::zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH])>() };
    let frames =
        buffers.chunks_exact(stride).zip(lengths).map(|(buffer, length)| &buffer[..*length]);
    let mut filled = 0;
    for ((vector, header), frame) in vectors.iter_mut().zip(&mut headers).zip(frames).take(count) {
        vector.iov_base = frame.as_ptr().cast_mut().cast();
        vector.iov_len = frame.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        filled += 1;
    }
    // SAFETY: each of the first `filled` headers points to an iovec in the array above, and each
    // iovec to a part of `buffers`, which the kernel only reads; all outlive the call.
    let sent = check(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), filled, libc::MSG_DONTWAIT as _)
    })?;
    Ok(usize::try_from(sent).expect("not negative"))
}
