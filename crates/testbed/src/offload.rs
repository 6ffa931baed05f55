//! Interface offloads, by the ethtool ioctl.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

// From linux/ethtool.h, in an order that the kernel accepts.
const SET_GRO: u32 = 0x2c;
const SET_GSO: u32 = 0x24;
const SET_TSO: u32 = 0x1f;
const SET_SCATTER_GATHER: u32 = 0x19;
const SET_TX_CHECKSUM: u32 = 0x17;
const SET_RX_CHECKSUM: u32 = 0x15;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes the kernel send frames on an interface of the calling thread's namespace in their final
/// form: with checksums, and neither merged nor to be segmented.
pub(crate) fn disable(interface: &str) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    for command in [SET_GRO, SET_TSO, SET_GSO, SET_TX_CHECKSUM, SET_SCATTER_GATHER, SET_RX_CHECKSUM]
    {
        match set(&socket, interface, Value { command, data: 0 }) {
            // Unsupported features need not be turned off.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            other => other?,
        }
    }
    Ok(())
}

fn set(socket: &OwnedFd, interface: &str, mut value: Value) -> io::Result<()> {
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: `ifreq` is integers and pointers, for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
    // SAFETY: SIOCETHTOOL reads the name, which ends with a zero byte because it is shorter than
    // the field, and follows the data pointer to a live `ethtool_value`, which the "set" commands
    // used here expect.
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, ptr::from_mut(&mut request))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
