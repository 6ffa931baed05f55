//! Batches of messages through a socket, with recvmmsg(2) and sendmmsg(2).

#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::Socket;

use crate::sys::check;

/// Most messages per system call.
pub(crate) const BATCH: usize = 32;

/// Room for the control messages of one message, aligned as `cmsghdr` must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 128]);

/// What is wanted of a message besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The IPv4 address and port that it came from.
    pub(crate) source: bool,
    /// Control messages.
    pub(crate) controls: bool,
}

/// A received message.
pub(crate) struct Received<'a> {
    /// Its length, which may exceed the room for it.
    pub(crate) length: usize,
    /// Where it came from; unspecified if that was not wanted.
    pub(crate) source: SocketAddrV4,
    header: &'a libc::msghdr,
}

impl Received<'_> {
    /// Calls `look` with the level, type and data of each control message.
    pub(crate) fn controls(&self, mut look: impl FnMut(libc::c_int, libc::c_int, &[u8])) {
        // SAFETY: the header's control pointer and length are those that the kernel left, over a live
        // and aligned buffer, or null and zero. CMSG_FIRSTHDR is null unless a whole `cmsghdr` is in
        // it.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(self.header) };
        // SAFETY: `next` is null or points to a whole `cmsghdr` in the buffer.
        while let Some(message) = unsafe { next.as_ref() } {
            // SAFETY: CMSG_DATA only computes the address after the header.
            let data = unsafe { libc::CMSG_DATA(message) };
            let whole: usize = message.cmsg_len as _;
            let length = whole.saturating_sub(data.addr() - ptr::from_ref(message).addr());
            // SAFETY: the kernel has written a message of that length into the buffer.
            let data = unsafe { std::slice::from_raw_parts(data, length) };
            look(message.cmsg_level, message.cmsg_type, data);
            // SAFETY: both point into the header's buffer, and CMSG_NXTHDR is null at its end.
            next = unsafe { libc::CMSG_NXTHDR(self.header, message) };
        }
    }
}

/// Receives up to `arrivals.len()` messages without waiting, message i to `buffers[i * stride +
/// gap..]`, and describes each with `describe`. Returns their number.
pub(crate) fn receive<A>(
    socket: &Socket,
    buffers: &mut [u8],
    stride: usize,
    gap: usize,
    wanted: Wanted,
    arrivals: &mut [A],
    describe: impl Fn(&Received<'_>) -> A,
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
        let header = &mut header.msg_hdr;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        if wanted.controls {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len() as _;
        }
        if wanted.source {
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: each of the first `count` headers points to an iovec and, if they are wanted, to a name
    // and a control buffer in the arrays above, and each iovec to its own part of `buffers`. All
    // outlive the call and have the given lengths. No time limit is requested.
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
        *arrival = describe(&Received {
            length: header.msg_len as usize,
            source: SocketAddrV4::new(ip, u16::from_be(name.sin_port)),
            header: &header.msg_hdr,
        });
    }
    Ok(received)
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    /// Its destination, if the socket does not know it.
    pub(crate) to: Option<SocketAddrV4>,
    /// Up to two control messages with an integer each: level, type and value.
    pub(crate) controls: [Option<(libc::c_int, libc::c_int, Value)>; 2],
}

/// An integer in a control message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Half(u16),
    Int(libc::c_int),
}

/// Sends messages. Returns the number of leading ones that were accepted; an error refers to the
/// first.
pub(crate) fn send<'a>(
    socket: &Socket,
    messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    // SAFETY: all are integers and pointers, for which all zeroes are valid.
    let (mut vectors, mut headers, mut names) = unsafe {
        std::mem::zeroed::<([libc::iovec; BATCH], [libc::mmsghdr; BATCH], [libc::sockaddr_in; BATCH])>(
        )
    };
    let mut controls = [const { Control([0; 128]) }; BATCH];
    let slots = vectors.iter_mut().zip(&mut headers).zip(&mut controls).zip(&mut names);
    let mut filled = 0;
    for ((((vector, header), control), name), message) in slots.zip(messages) {
        vector.iov_base = message.bytes.as_ptr().cast_mut().cast();
        vector.iov_len = message.bytes.len();
        let header = &mut header.msg_hdr;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        if let Some(to) = message.to {
            name.sin_family = libc::AF_INET as libc::sa_family_t;
            name.sin_port = to.port().to_be();
            name.sin_addr.s_addr = u32::from(*to.ip()).to_be();
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        let mut used = 0;
        for (level, kind, value) in message.controls.into_iter().flatten() {
            used = match value {
                Value::Half(value) => put(control, used, level, kind, value),
                Value::Int(value) => put(control, used, level, kind, value),
            };
        }
        if used > 0 {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = used as _;
        }
        filled += 1;
    }
    // SAFETY: each of the first `filled` headers points to an iovec in the array above, and perhaps to
    // a name and a control buffer, and each iovec to a live slice, which the kernel only reads; all
    // outlive the call.
    let sent = check(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), filled, libc::MSG_DONTWAIT as _)
    })?;
    Ok(usize::try_from(sent).expect("not negative"))
}

/// Writes a control message after the first `used` bytes. Returns the bytes used then.
fn put<T: Copy>(
    control: &mut Control,
    used: usize,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) -> usize {
    let length = size_of::<T>() as libc::c_uint;
    // SAFETY: both only compute sizes.
    let (space, whole) = unsafe { (libc::CMSG_SPACE(length), libc::CMSG_LEN(length)) };
    let end = used + space as usize;
    assert!(end <= control.0.len(), "two small messages fit");
    // SAFETY: `used..end` is inside the buffer, which is aligned for a `cmsghdr`, and `used` is a
    // multiple of that alignment because every message takes CMSG_SPACE bytes. CMSG_DATA points after
    // the header, where there are `length` bytes.
    unsafe {
        let message = control.0.as_mut_ptr().add(used).cast::<libc::cmsghdr>();
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = whole as _;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast(), value);
    }
    end
}
