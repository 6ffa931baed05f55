//! The system calls of UDP sockets, each behind a safe function.

#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::BATCH;
use crate::sys::{check, get_option, set_option};

/// From linux/udp.h and asm-generic/socket.h.
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
const SO_MEMINFO: libc::c_int = 55;
/// Index of the dropped datagrams in what `SO_MEMINFO` returns.
const DROPS: usize = 8;

/// Room for the control messages of one buffer, aligned as `cmsghdr` must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 128]);

/// A socket that nothing has been asked of yet.
pub(super) fn udp_socket() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
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

/// Asks for the destination and the type of service of what arrives, and for datagrams that the
/// kernel has joined. An old kernel joins none.
pub(super) fn describe_datagrams(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &1_i32)?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32)?;
    drop(set_option(socket, libc::IPPROTO_UDP, UDP_GRO, &1_i32));
    Ok(())
}

/// Forbids fragments, whatever routers say about the path.
pub(super) fn never_fragment(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE)
}

/// Sends datagrams without checksums.
pub(super) fn omit_checksums(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32)
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
/// gap..]`. Returns their number.
pub(super) fn receive_batch(
    socket: &Socket,
    buffers: &mut [u8],
    stride: usize,
    gap: usize,
    arrivals: &mut [Arrival],
) -> io::Result<usize> {
    let count = arrivals.len().min(BATCH).min(buffers.len() / stride);
    // SAFETY: all are integers and pointers, for which all zeroes are valid.
    let (mut vectors, mut headers, mut names) = unsafe {
        std::mem::zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH], [libc::sockaddr_in; BATCH])>(
        )
    };
    let mut controls = [const { Control([0; 128]) }; BATCH];
    let slots = vectors.iter_mut().zip(&mut headers).zip(&mut controls).zip(&mut names);
    let buffers = buffers.chunks_exact_mut(stride).take(count);
    for ((((vector, header), control), name), buffer) in slots.zip(buffers) {
        let room = &mut buffer[gap..];
        vector.iov_base = room.as_mut_ptr().cast();
        vector.iov_len = room.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = control.0.len() as _;
        header.msg_hdr.msg_name = ptr::from_mut(name).cast();
        header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: each of the first `count` headers points to an iovec, a name and a control buffer in
    // the arrays above, and each iovec points to its own part of `buffers`. All outlive the call and
    // have the given lengths. No time limit is requested.
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
    for ((arrival, header), name) in arrivals.iter_mut().zip(&headers).zip(&names).take(received) {
        let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
        *arrival = Arrival {
            length: header.msg_len as usize,
            source: SocketAddrV4::new(ip, u16::from_be(name.sin_port)),
            ..Arrival::NONE
        };
        describe(&header.msg_hdr, arrival);
    }
    Ok(received)
}

/// Reads the control messages of a header that recvmmsg has filled.
fn describe(header: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: the header's control pointer and length are those that the kernel left, over a live
    // and aligned buffer; CMSG_FIRSTHDR is null unless a whole `cmsghdr` is in it.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: `next` is null or points to a whole `cmsghdr` in the buffer.
    while let Some(message) = unsafe { next.as_ref() } {
        // SAFETY: CMSG_DATA only computes the address after the header.
        let data = unsafe { libc::CMSG_DATA(message) };
        let header_length = data.addr() - ptr::from_ref(message).addr();
        let whole: usize = message.cmsg_len as _;
        let length = whole.saturating_sub(header_length);
        match (message.cmsg_level, message.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if length >= size_of::<libc::in_pktinfo>() => {
                // SAFETY: the message has that many bytes of data; it is read unaligned.
                let info: libc::in_pktinfo = unsafe { ptr::read_unaligned(data.cast()) };
                arrival.destination = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
            }
            (libc::IPPROTO_IP, libc::IP_TOS) if length >= 1 => {
                // SAFETY: the message has a byte of data.
                arrival.tos = unsafe { *data };
            }
            (libc::IPPROTO_UDP, UDP_GRO) if length >= size_of::<libc::c_int>() => {
                // SAFETY: the message has an integer; it is read unaligned.
                let size: libc::c_int = unsafe { ptr::read_unaligned(data.cast()) };
                arrival.segment = usize::try_from(size).ok();
            }
            _ => {}
        }
        // SAFETY: both point into the buffer of the header, and CMSG_NXTHDR returns null at its end.
        next = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
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
    // SAFETY: all are integers and pointers, for which all zeroes are valid.
    let (mut vectors, mut headers, mut names) = unsafe {
        std::mem::zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH], [libc::sockaddr_in; BATCH])>(
        )
    };
    let mut controls = [const { Control([0; 128]) }; BATCH];
    let slots = vectors.iter_mut().zip(&mut headers).zip(&mut controls).zip(&mut names);
    let mut filled = 0;
    for ((((vector, header), control), name), departure) in slots.zip(departures) {
        let Departure { payload, segment, destination, tos } = departure;
        vector.iov_base = payload.as_ptr().cast_mut().cast();
        vector.iov_len = payload.len();
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_port = destination.port().to_be();
        name.sin_addr.s_addr = u32::from(*destination.ip()).to_be();
        let header = &mut header.msg_hdr;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_name = ptr::from_mut(name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        let mut used = put(header, 0, (libc::IPPROTO_IP, libc::IP_TOS), libc::c_int::from(tos));
        if let Some(segment) = segment {
            used = put(header, used, (libc::IPPROTO_UDP, UDP_SEGMENT), segment);
        }
        header.msg_controllen = used as _;
        filled += 1;
    }
    // SAFETY: each of the first `filled` headers points to an iovec, a name and a control buffer in
    // the arrays above, and each iovec to a live slice, which the kernel only reads; all outlive the
    // call.
    let sent = check(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), filled, libc::MSG_DONTWAIT as _)
    })?;
    Ok(usize::try_from(sent).expect("not negative"))
}

/// Writes a control message `used` bytes into the control buffer, which has room for it. Returns the
/// bytes used then.
fn put<T: Copy>(
    header: &mut libc::msghdr,
    used: usize,
    (level, kind): (libc::c_int, libc::c_int),
    value: T,
) -> usize {
    let length = size_of::<T>() as libc::c_uint;
    // SAFETY: both only compute sizes.
    let (space, whole) = unsafe { (libc::CMSG_SPACE(length), libc::CMSG_LEN(length)) };
    let end = used + space as usize;
    let room: usize = header.msg_controllen as _;
    assert!(end <= room, "two small messages fit");
    // SAFETY: `used..end` is inside the control buffer, which is aligned for a `cmsghdr`, and `used`
    // is a multiple of that alignment because every message takes CMSG_SPACE bytes. CMSG_DATA points
    // after the header, where there are `length` bytes.
    unsafe {
        let message = header.msg_control.byte_add(used).cast::<libc::cmsghdr>();
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = whole as _;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast(), value);
    }
    end
}
