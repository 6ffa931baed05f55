//! A network interface as a port, by either of the kernel's ways to raw frames.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use crate::interface::Interface;
use crate::packet::{self, PacketSocket};
use crate::xdp::{self, XdpSocket};
use crate::{FrameIo, Watch};

/// Which frames arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Every frame, as a switch's port needs it. VLAN tags are in the frame, as on the wire.
    ///
    /// An AF_XDP socket takes the frames away from the kernel; an AF_PACKET socket copies them.
    All,
    /// UDP over IPv4 to this port, to this host's or a multicast address. The UDP port is held, so
    /// that the kernel does not answer its datagrams with "port unreachable". All other frames are
    /// the kernel's, as ever.
    Udp(u16),
}

/// How to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the interface, in the calling thread's network namespace.
    pub interface: String,
    /// Which frames arrive.
    pub traffic: Traffic,
    /// Take frames to all Ethernet addresses.
    pub promiscuous: bool,
    /// Ethernet multicast addresses to take.
    pub multicast: Vec<[u8; 6]>,
    /// Bytes of frames that the kernel keeps until they are received. AF_PACKET cuts it down to the
    /// system's limit (`net.core.rmem_max`) for an ordinary user; AF_XDP keeps one frame for every
    /// 2 KiB.
    pub receive_buffer: usize,
}

impl Config {
    /// For a host that talks over UDP port `port`.
    pub fn endpoint(interface: impl Into<String>, port: u16) -> Self {
        Self {
            interface: interface.into(),
            traffic: Traffic::Udp(port),
            promiscuous: false,
            multicast: Vec::new(),
            receive_buffer: 4 << 20,
        }
    }

    /// For a port of a switch: every frame, to any address.
    pub fn switch_port(interface: impl Into<String>) -> Self {
        Self { traffic: Traffic::All, promiscuous: true, ..Self::endpoint(interface, 0) }
    }
}

/// What a socket counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames handed to the caller.
    pub received: u64,
    /// Frames taken by the kernel.
    pub sent: u64,
    /// Frames that the kernel dropped because there was no room for them.
    pub overrun: u64,
    /// Frames dropped because they were longer than the interface's MTU allowed when the socket was
    /// opened; merged by receive offload, most likely.
    pub oversized: u64,
    /// Frames that the kernel refused to send.
    pub unsendable: u64,
}

/// A way to raw frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Kind {
    /// AF_PACKET sockets: works wherever raw sockets do.
    #[default]
    Packet,
    /// AF_XDP sockets, with an XDP program on the interface: needs root.
    Xdp,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        })
    }
}

/// Neither `packet` nor `xdp`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to raw frames; there are `packet` and `xdp`")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        [Self::Packet, Self::Xdp]
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// Why an interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// By AF_PACKET.
    #[error(transparent)]
    Packet(#[from] packet::OpenError),
    /// By AF_XDP.
    #[error(transparent)]
    Xdp(#[from] xdp::OpenError),
}

/// A network interface that is open.
#[derive(Debug)]
pub enum Device {
    /// By AF_PACKET.
    Packet(Box<PacketSocket>),
    /// By AF_XDP.
    Xdp(XdpSocket),
}

impl Device {
    /// Opens an interface in the calling thread's network namespace; it stays there, wherever the
    /// thread goes.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(kind: Kind, config: &Config) -> Result<Self, OpenError> {
        Ok(match kind {
            Kind::Packet => Self::Packet(Box::new(PacketSocket::open(config)?)),
            Kind::Xdp => Self::Xdp(XdpSocket::open(config)?),
        })
    }

    /// Opens all interfaces of a switch, in order. AF_XDP sockets share their memory.
    ///
    /// # Errors
    /// The first that there is; then none is open.
    pub fn open_all(kind: Kind, configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        match kind {
            Kind::Packet => configs.iter().map(|config| Self::open(kind, config)).collect(),
            Kind::Xdp => Ok(XdpSocket::open_all(configs)?.into_iter().map(Self::Xdp).collect()),
        }
    }

    /// The interface, as it was when it was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        match self {
            Self::Packet(socket) => socket.interface(),
            Self::Xdp(socket) => socket.interface(),
        }
    }

    /// Asks the interface to take frames to a multicast address.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn join(&mut self, mac: [u8; 6]) -> io::Result<()> {
        match self {
            Self::Packet(socket) => socket.join(mac),
            Self::Xdp(socket) => socket.join(mac),
        }
    }

    /// Takes back a [`join`](Self::join); without one it does nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn leave(&mut self, mac: [u8; 6]) -> io::Result<()> {
        match self {
            Self::Packet(socket) => socket.leave(mac),
            Self::Xdp(socket) => socket.leave(mac),
        }
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn statistics(&mut self) -> io::Result<Statistics> {
        match self {
            Self::Packet(socket) => socket.statistics(),
            Self::Xdp(socket) => socket.statistics(),
        }
    }

    fn io(&mut self) -> &mut dyn FrameIo {
        match self {
            Self::Packet(socket) => &mut **socket,
            Self::Xdp(socket) => socket,
        }
    }
}

impl FrameIo for Device {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.io().receive(max, sink)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.io().send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.io().flush()
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.io().watch(watch)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.io().wait(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        for kind in [Kind::Packet, Kind::Xdp] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "dpdk".parse::<Kind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`dpdk` is no way to raw frames; there are `packet` and `xdp`"
        );
    }
}
