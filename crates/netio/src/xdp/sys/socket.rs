//! AF_XDP sockets: system calls and options.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;

use socket2::{Domain, Socket, Type};

use super::memory::{Area, DescriptorCell, Offsets, Ring};
use crate::sys::{address, get_option, set_option};

/// Maximum number of frames per kick. Kernels before 6.17 do not have this option and send 32.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Creates an unbound socket.
pub(in crate::xdp) fn open() -> io::Result<Socket> {
    Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None)
}

/// Registers memory for frames. The kernel pins it, so it counts as locked memory.
pub(in crate::xdp) fn register(socket: &Socket, area: &Area) -> io::Result<()> {
    // SAFETY: `xdp_umem_reg` is integers, for which all zeroes are valid.
    let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    registration.addr = area.start();
    registration.len = area.length() as u64;
    registration.chunk_size = u32::try_from(area.chunk_size()).expect("chunks are small");
    // The kernel references the pages, not the mapping. If the area is dropped before the socket,
    // the kernel does not write to memory that replaces it.
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// Numbers of entries of a socket's rings: powers of two.
#[derive(Clone, Copy, Debug)]
pub(in crate::xdp) struct Sizes {
    /// Of the fill and the receive ring.
    pub(in crate::xdp) receive: u32,
    /// Of the transmit and the completion ring.
    pub(in crate::xdp) transmit: u32,
}

/// The four rings of a socket.
#[derive(Debug)]
pub(in crate::xdp) struct Rings {
    /// Chunks for arriving frames: this process produces.
    pub(in crate::xdp) fill: Ring<AtomicU64>,
    /// Received frames: the kernel produces.
    pub(in crate::xdp) receive: Ring<DescriptorCell>,
    /// Frames to be sent: this process produces.
    pub(in crate::xdp) transmit: Ring<DescriptorCell>,
    /// Chunks of sent frames: the kernel produces.
    pub(in crate::xdp) completion: Ring<AtomicU64>,
}

/// Creates and maps a socket's rings.
pub(in crate::xdp) fn make_rings(socket: &Socket, sizes: Sizes) -> io::Result<Rings> {
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, sizes.receive),
        (libc::XDP_RX_RING, sizes.receive),
        (libc::XDP_TX_RING, sizes.transmit),
        (libc::XDP_UMEM_COMPLETION_RING, sizes.transmit),
    ] {
        set_option(socket, libc::SOL_XDP, option, &size)?;
    }
    // SAFETY: `xdp_mmap_offsets` is integers, for which all zeroes are valid.
    let zeroes: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let found = get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, zeroes)?;
    let offsets = |ring: &libc::xdp_ring_offset| Offsets {
        produced: ring.producer,
        consumed: ring.consumer,
        flags: ring.flags,
        entries: ring.desc,
    };
    let page = |offset: libc::off_t| offset as u64;
    let fd = socket.as_fd();
    Ok(Rings {
        fill: Ring::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, offsets(&found.fr), sizes.receive)?,
        receive: Ring::map(fd, page(libc::XDP_PGOFF_RX_RING), offsets(&found.rx), sizes.receive)?,
        transmit: Ring::map(fd, page(libc::XDP_PGOFF_TX_RING), offsets(&found.tx), sizes.transmit)?,
        completion: Ring::map(
            fd,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            offsets(&found.cr),
            sizes.transmit,
        )?,
    })
}

/// How a socket is bound to a queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::xdp) enum Binding<'a> {
    /// With its own memory.
    Own {
        /// Whether to bind in copy mode, without asking the driver for zero-copy.
        copy: bool,
        /// Whether frames may use several chunks.
        several_chunks: bool,
    },
    /// With the memory and all settings of another socket.
    Shared(&'a Socket),
}

/// Binds a socket to a queue of an interface. Frames arrive as soon as a program redirects them.
pub(in crate::xdp) fn bind(
    socket: &Socket,
    interface: u32,
    queue: u32,
    binding: Binding<'_>,
) -> io::Result<()> {
    let (flags, owner) = match binding {
        Binding::Own { copy, several_chunks } => {
            let copy = if copy { libc::XDP_COPY } else { 0 };
            let several = if several_chunks { libc::XDP_USE_SG } else { 0 };
            (libc::XDP_USE_NEED_WAKEUP | copy | several, 0)
        }
        Binding::Shared(owner) => (libc::XDP_SHARED_UMEM, owner.as_raw_fd().cast_unsigned()),
    };
    socket.bind(&address(libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).expect("a small constant"),
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: owner,
    }))
}

/// Sets the maximum number of frames per kick, if the kernel supports it.
pub(in crate::xdp) fn set_kick(socket: &Socket, frames: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Sets the maximum bytes of frames in flight in copy mode, beyond the system's limit if this
/// process is privileged.
pub(in crate::xdp) fn set_send_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(libc::c_int::MAX as usize);
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(bytes as libc::c_int))
        .or_else(|_| socket.set_send_buffer_size(bytes))
}

/// Whether the driver uses the memory directly (zero-copy), rather than the kernel copying frames.
pub(in crate::xdp) fn is_zero_copy(socket: &Socket) -> io::Result<bool> {
    let none = libc::xdp_options { flags: 0 };
    let options = get_option(socket, libc::SOL_XDP, libc::XDP_OPTIONS, none)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The kernel's counters since the socket was opened.
pub(in crate::xdp) fn statistics(socket: &Socket) -> io::Result<libc::xdp_statistics> {
    // SAFETY: `xdp_statistics` is integers, for which all zeroes are valid.
    let zeroes = unsafe { std::mem::zeroed() };
    get_option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, zeroes)
}

/// Notifies the kernel of entries in the transmit ring.
pub(in crate::xdp) fn kick_transmit(socket: &Socket) -> io::Result<()> {
    socket.send_with_flags(&[], libc::MSG_DONTWAIT).map(drop)
}

/// Notifies the driver of entries in the fill ring.
pub(in crate::xdp) fn kick_receive(socket: &Socket) -> io::Result<()> {
    socket.recv_with_flags(&mut [], libc::MSG_DONTWAIT).map(drop)
}
