//! The system calls for sleeping and waking, for socket options and for requests about interfaces,
//! each behind a safe function.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};

/// One descriptor to poll, laid out as the kernel's `struct pollfd`.
pub(crate) type PollFd = libc::pollfd;

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(i32::try_from(duration.subsec_nanos()).unwrap_or(999_999_999)),
    }
}

/// Turns -1 into the last OS error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Asks the scheduler to let the calling thread run in turns of this length. From Linux 6.12 on, a thread with
/// shorter turns than others gets them sooner; older ones ignore it. The share of the core is the same.
pub(crate) fn ask_for_turns(of: Duration) -> io::Result<()> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all of its fields are integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes `size` bytes at most, the size of a live value.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    check(result as libc::c_int)?;
    // Threads with real-time policies need none.
    if attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the kernel reads the structure, which states its own size.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        check(result as libc::c_int)?;
    }
    Ok(())
}

/// Sets an option that `socket2` does not know.
pub(crate) fn set_option<T: Copy>(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: the kernel reads `length` bytes, the size of a live value. The callers pass the
    // documented type of the option.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length)
    };
    check(result).map(drop)
}

/// Sets the receive buffer, beyond the system's limit if this process is privileged.
pub(crate) fn set_receive_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(libc::c_int::MAX as usize);
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(bytes as libc::c_int))
        .or_else(|_| socket.set_recv_buffer_size(bytes))
}

/// Reads an option that `socket2` does not know, over `value`.
pub(crate) fn get_option<T: Copy>(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    let pointer = ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of a live value. The callers pass
    // the documented type of the option, which consists of integers.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, pointer, &raw mut length) })?;
    Ok(value)
}

/// An address of a family that `socket2` does not know.
pub(crate) fn address<T: Copy>(address: T) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("addresses are small");
    // SAFETY: the callers pass one of the system's socket addresses, which begins with its family;
    // `view_as` checks that it fits.
    unsafe {
        *storage.view_as() = address;
        SockAddr::new(storage, length)
    }
}

/// By default the kernel lets a thread's timers be up to 50 µs late, which is too much for frames
/// that are held back for 20 µs.
fn tighten_timers() {
    thread_local!(static DONE: Cell<bool> = const { Cell::new(false) });
    DONE.with(|done| {
        if !done.replace(true) {
            // SAFETY: PR_SET_TIMERSLACK takes an integer and accesses no memory.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong, 0, 0, 0) };
        }
    });
}

/// Polls with nanosecond resolution; a signal counts as an event.
pub(crate) fn ppoll(fds: &mut [PollFd], timeout: Option<Duration>) -> io::Result<()> {
    tighten_timers();
    let limit = timeout.map(timespec);
    let limit_pointer = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the pointer and length are those of a live slice of `pollfd`, the timeout is null or
    // outlives the call, and a null signal mask is allowed.
    let result = unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, limit_pointer, ptr::null())
    };
    match check(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            // The contents are unspecified after an error, so clear them.
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Sleeps while `word` holds `expected`, at most for `timeout`. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    tighten_timers();
    let limit = timeout.map(timespec);
    let limit_pointer = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: FUTEX_WAIT reads the aligned 32-bit word, which the borrow keeps alive, and the
    // timeout, which is null or outlives the call. Every result, including errors, means "check
    // again".
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            limit_pointer,
        )
    };
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address only as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// A non-blocking event counter.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes two integers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the kernel has just created this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the counter readable.
pub(crate) fn eventfd_signal(fd: BorrowedFd<'_>) {
    let one = 1_u64;
    // SAFETY: the kernel reads 8 bytes from a live u64. A write to a non-blocking counter fails
    // only if the counter is full, and then it is readable anyway.
    unsafe { libc::write(fd.as_raw_fd(), ptr::from_ref(&one).cast(), 8) };
}

/// Makes the counter unreadable again.
pub(crate) fn eventfd_drain(fd: BorrowedFd<'_>) {
    let mut count = 0_u64;
    // SAFETY: the kernel writes 8 bytes to a live u64. EAGAIN means that the counter was already
    // drained.
    unsafe { libc::read(fd.as_raw_fd(), ptr::from_mut(&mut count).cast(), 8) };
}

/// Sends a request about an interface of the calling thread's network namespace.
///
/// # Safety
///
/// If the request is SIOCETHTOOL, `data` points to the live structure of its command.
unsafe fn ask(
    name: &str,
    request: libc::c_ulong,
    data: *mut libc::c_void,
) -> io::Result<libc::__c_anonymous_ifr_ifru> {
    let own = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: as for this function.
    unsafe { ask_through(&own, name, request, data) }
}

/// [`ask`]s in the network namespace of a socket.
///
/// # Safety
///
/// As for [`ask`].
unsafe fn ask_through(
    socket: &Socket,
    name: &str,
    request: libc::c_ulong,
    data: *mut libc::c_void,
) -> io::Result<libc::__c_anonymous_ifr_ifru> {
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: data.cast() };
    let mut query = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in query.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the requests used here read the name, which ends with a zero byte because it is
    // shorter than the field, and write the union or, if it is SIOCETHTOOL, to `data`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, ptr::from_mut(&mut query)) })?;
    Ok(query.ifr_ifru)
}

/// Index of the interface with this name or alternative name.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    // SAFETY: SIOCGIFINDEX has filled this member.
    let index = unsafe { ask(name, libc::SIOCGIFINDEX, ptr::null_mut())?.ifru_ifindex };
    Ok(index.cast_unsigned())
}

/// Whether an interface in the network namespace of a socket is administratively up.
pub(crate) fn is_up(socket: &Socket, name: &str) -> bool {
    // SAFETY: the request is not SIOCETHTOOL.
    let answer = unsafe { ask_through(socket, name, libc::SIOCGIFFLAGS, ptr::null_mut()) };
    // SAFETY: SIOCGIFFLAGS has filled this member.
    answer.is_ok_and(|answer| i32::from(unsafe { answer.ifru_flags }) & libc::IFF_UP != 0)
}

pub(crate) fn interface_mtu(name: &str) -> io::Result<usize> {
    // SAFETY: SIOCGIFMTU has filled this member.
    let mtu = unsafe { ask(name, libc::SIOCGIFMTU, ptr::null_mut())?.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

pub(crate) fn interface_kind(name: &str) -> io::Result<u16> {
    // SAFETY: SIOCGIFHWADDR has filled this member.
    Ok(unsafe { ask(name, libc::SIOCGIFHWADDR, ptr::null_mut())?.ifru_hwaddr.sa_family })
}

/// Sends a request of linux/ethtool.h: a command, and as many words as its structure has.
pub(crate) fn ethtool<const N: usize>(name: &str, mut words: [u32; N]) -> io::Result<[u32; N]> {
    // SAFETY: the words are live, and all callers are in `ethtool`, where each command has at least the
    // length that the kernel reads and writes.
    unsafe { ask(name, libc::SIOCETHTOOL, words.as_mut_ptr().cast())? };
    Ok(words)
}
