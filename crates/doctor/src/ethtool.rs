//! The kernel's data about an interface by ioctl: in this process's network namespace, even if
//! `/sys` shows another.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

// From linux/ethtool.h.
const GET_TX_CHECKSUM: u32 = 0x16;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Offloads that change frames. `None`: the driver does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offloads {
    /// Frames leave the kernel without their checksums.
    pub(super) tx_checksum: Option<bool>,
    /// The kernel merges segments of a TCP stream before they are delivered.
    pub(super) gro: Option<bool>,
    /// The network card does so.
    pub(super) lro: Option<bool>,
}

/// An interface in this process's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) mac: String,
    /// Link type: 1 for Ethernet, 772 for the loopback.
    pub(super) kind: u32,
    pub(super) mtu: u32,
    /// Whether it is up, and there is a carrier.
    pub(super) running: bool,
}

/// `None` if there is no such interface.
pub(super) fn live(interface: &str) -> Option<Live> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let ask = |request: libc::c_ulong| {
        let mut answer = named(interface)?;
        // SAFETY: these requests read the name, which ends with a zero byte, and write into the
        // union.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), request as _, ptr::from_mut(&mut answer)) };
        (result >= 0).then_some(answer)
    };
    let hardware = ask(libc::SIOCGIFHWADDR as _)?;
    // SAFETY: the request filled in this member of the union; so do the two below.
    let (kind, bytes) = unsafe {
        let address = hardware.ifr_ifru.ifru_hwaddr;
        (address.sa_family, address.sa_data)
    };
    let bytes: Vec<String> =
        bytes[..6].iter().map(|byte| format!("{:02x}", byte.cast_unsigned())).collect();
    // SAFETY: as above.
    let mtu = unsafe { ask(libc::SIOCGIFMTU as _)?.ifr_ifru.ifru_mtu };
    // SAFETY: as above.
    let flags = i32::from(unsafe { ask(libc::SIOCGIFFLAGS as _)?.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Some(Live {
        mac: bytes.join(":"),
        kind: kind.into(),
        mtu: u32::try_from(mtu).ok()?,
        running: flags & wanted == wanted,
    })
}

/// A request about an interface; `None` if the name is invalid.
fn named(interface: &str) -> Option<libc::ifreq> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return None;
    }
    // SAFETY: `ifreq` is integers and pointers, for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    Some(request)
}

/// Asks the driver.
pub(super) fn offloads(interface: &str) -> Offloads {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return Offloads::default() };
    let get = |command| get(&socket, interface, command).ok();
    Offloads {
        tx_checksum: get(GET_TX_CHECKSUM).map(|value| value != 0),
        gro: get(GET_GRO).map(|value| value != 0),
        lro: get(GET_FLAGS).map(|flags| flags & FLAG_LRO != 0),
    }
}

fn get(socket: &UdpSocket, interface: &str, command: u32) -> io::Result<u32> {
    let mut value = Value { command, data: 0 };
    let request = named(interface);
    let mut request = request.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
    // SAFETY: SIOCETHTOOL reads the name, which ends with a zero byte because it is shorter than
    // the field, and follows the data pointer to a live `ethtool_value`, which the "get" commands
    // used here fill in.
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, ptr::from_mut(&mut request))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

/// Checks whether an AF_XDP socket can be created.
pub(super) fn xdp_socket() -> Result<(), String> {
    // SAFETY: plain integers; the descriptor is closed at once.
    let result = unsafe {
        let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd >= 0 { libc::close(fd) } else { -1 }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_reported_and_missing_interfaces_are_not() {
        assert!(offloads("lo").gro.is_some());
        assert_eq!(offloads("no-such-if"), Offloads::default());
        assert_eq!(offloads("a-name-that-is-far-too-long"), Offloads::default());
        let loopback = live("lo").unwrap();
        assert_eq!((loopback.kind, loopback.mac.as_str()), (772, "00:00:00:00:00:00"));
        assert_eq!((live("no-such-if"), live("")), (None, None));
    }
}
