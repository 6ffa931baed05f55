//! AF_XDP sockets: system calls and options.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicU64;

use super::memory::{Area, DescriptorCell, Offsets, Ring};
use crate::sys::{check, set_option};

/// Maximum number of frames per kick. Kernels before 6.17 do not have this option and send 32.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Creates an unbound socket.
pub(in crate::xdp) fn open() -> io::Result<OwnedFd> {
    // SAFETY: socket takes three integers.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just created this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn get_option<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: the kernel writes at most `length` bytes, the size of a live value. The callers pass
    // the documented type of the option, which consists of integers.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            name,
            ptr::from_mut(value).cast(),
            ptr::from_mut(&mut length),
        )
    })
    .map(drop)
}

/// Registers memory for frames. The kernel pins it, so it counts as locked memory.
pub(in crate::xdp) fn register(fd: BorrowedFd<'_>, area: &Area) -> io::Result<()> {
    // SAFETY: `xdp_umem_reg` is integers, for which all zeroes are valid.
    let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    registration.addr = area.start();
    registration.len = area.length() as u64;
    registration.chunk_size = u32::try_from(area.chunk_size()).expect("chunks are small");
    // The kernel references the pages, not the mapping. If the area is dropped before the socket,
    // the kernel does not write to memory that replaces it.
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
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
pub(in crate::xdp) fn make_rings(fd: BorrowedFd<'_>, sizes: Sizes) -> io::Result<Rings> {
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, sizes.receive),
        (libc::XDP_RX_RING, sizes.receive),
        (libc::XDP_TX_RING, sizes.transmit),
        (libc::XDP_UMEM_COMPLETION_RING, sizes.transmit),
    ] {
        set_option(fd, libc::SOL_XDP, option, &size)?;
    }
    // SAFETY: `xdp_mmap_offsets` is integers, for which all zeroes are valid.
    let mut found: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get_option(fd, libc::XDP_MMAP_OFFSETS, &mut found)?;
    let offsets = |ring: &libc::xdp_ring_offset| Offsets {
        produced: ring.producer,
        consumed: ring.consumer,
        flags: ring.flags,
        entries: ring.desc,
    };
    let page = |offset: libc::off_t| offset as u64;
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
    Shared(BorrowedFd<'a>),
}

/// Binds a socket to a queue of an interface. Frames arrive as soon as a program redirects them.
pub(in crate::xdp) fn bind(
    fd: BorrowedFd<'_>,
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
    let address = libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).expect("a small constant"),
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: owner,
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("addresses are small");
    // SAFETY: the kernel reads `length` bytes, the size of a live `sockaddr_xdp`.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).map(drop)
}

/// Sets the maximum number of frames per kick, if the kernel supports it.
pub(in crate::xdp) fn set_kick(fd: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Sets the maximum bytes of frames in flight in copy mode, beyond the system's limit if this
/// process is privileged.
pub(in crate::xdp) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
}

/// Whether the driver uses the memory directly (zero-copy), rather than the kernel copying frames.
pub(in crate::xdp) fn is_zero_copy(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut options = libc::xdp_options { flags: 0 };
    get_option(fd, libc::XDP_OPTIONS, &mut options)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The kernel's counters since the socket was opened.
pub(in crate::xdp) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: `xdp_statistics` is integers, for which all zeroes are valid.
    let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    get_option(fd, libc::XDP_STATISTICS, &mut statistics)?;
    Ok(statistics)
}

/// Notifies the kernel of entries in the transmit ring.
pub(in crate::xdp) fn kick_transmit(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: there is no buffer and no address; the frames are in the ring.
    let result =
        unsafe { libc::sendto(fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Notifies the driver of entries in the fill ring.
pub(in crate::xdp) fn kick_receive(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: there is no buffer and no address; the frames arrive in the ring.
    let result = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
