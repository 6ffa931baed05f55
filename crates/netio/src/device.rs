//! A network interface as a port, through one of the kernel's interfaces for packets.

use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::interface::Interface;
use crate::outage::Outage;
use crate::packet::{self, PacketSocket, Share};
use crate::udp::{self, Mode, UdpPort};
use crate::xdp::{self, XdpSocket};
use crate::{FrameIo, Watch};

pub use crate::port::{Config, Statistics, Traffic};

/// A kernel interface for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Kind {
    /// AF_PACKET sockets: works wherever raw sockets do.
    #[default]
    Packet,
    /// AF_PACKET sockets that carry many datagrams in one buffer: for virtual interfaces, with the
    /// same at both ends of a link.
    Gso,
    /// AF_XDP sockets, with an XDP program on the interface: needs root.
    Xdp,
    /// UDP sockets, for hosts only: need no privileges.
    Udp,
    /// UDP sockets that send many datagrams in one buffer: for virtual interfaces, towards a port
    /// with `gso`.
    UdpGso,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Packet, Self::Gso, Self::Xdp, Self::Udp, Self::UdpGso];

    /// The kind of the switch ports to which hosts of this kind connect in a testbed.
    #[must_use]
    pub fn of_ports(self) -> Self {
        match self {
            Self::Packet | Self::Gso | Self::Xdp => self,
            Self::Udp => Self::Packet,
            Self::UdpGso => Self::Gso,
        }
    }

    /// Whether the kernel finds the way to a destination, and gives packets their Ethernet headers.
    #[must_use]
    pub fn is_routed(self) -> bool {
        matches!(self, Self::Udp | Self::UdpGso)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packet => "packet",
            Self::Gso => "gso",
            Self::Xdp => "xdp",
            Self::Udp => "udp",
            Self::UdpGso => "udp-gso",
        })
    }
}

/// Error: the text is not the name of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown packet I/O `{0}`; choose `packet`, `gso`, `xdp`, `udp` or `udp-gso`")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// Why an interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An AF_PACKET socket.
    #[error(transparent)]
    Packet(#[from] packet::OpenError),
    /// An AF_XDP socket.
    #[error(transparent)]
    Xdp(#[from] xdp::OpenError),
    /// A UDP socket.
    #[error(transparent)]
    Udp(#[from] udp::OpenError),
    /// Several sockets share the frames of an interface only where AF_PACKET opens them.
    #[error(
        "several threads share the frames of a port with `packet` or `gso` only, not with `{0}`"
    )]
    Shared(Kind),
    /// Several AF_XDP sockets cannot share the traffic of a queue.
    #[error(
        "several threads need a socket each, and with `xdp` one socket takes all our packets of an \
         interface; use `packet`, `gso`, `udp` or `udp-gso`, or leave `threads` out of the job"
    )]
    Unshared,
    /// There are no more file descriptors.
    #[error("cannot open a socket for network interface `{interface}`: {source}")]
    Socket {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// An open network interface.
#[derive(Debug)]
pub struct Device {
    socket: Socket,
    /// What to do while it is down, unless that is an error.
    outage: Option<Outage>,
}

#[derive(Debug)]
enum Socket {
    /// An AF_PACKET socket.
    Packet(Box<PacketSocket>),
    /// An AF_XDP socket.
    Xdp(XdpSocket),
    /// A UDP socket.
    Udp(Box<UdpPort>),
}

impl Device {
    /// Opens an interface in the calling thread's network namespace. The socket stays in that
    /// namespace if the thread changes its own.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(kind: Kind, config: &Config) -> Result<Self, OpenError> {
        let socket = match kind {
            Kind::Packet => PacketSocket::open(config)?.into(),
            Kind::Gso => PacketSocket::open_for_super_frames(config)?.into(),
            Kind::Xdp => XdpSocket::open(config)?.into(),
            Kind::Udp => UdpPort::open(Mode::Plain, config)?.into(),
            Kind::UdpGso => UdpPort::open(Mode::Super, config)?.into(),
        };
        Self::new(socket, config)
    }

    fn new(socket: Socket, config: &Config) -> Result<Self, OpenError> {
        let outage = (!config.outage.is_zero())
            .then(|| Outage::new(&config.interface, config.outage))
            .transpose()
            .map_err(|source| OpenError::Socket { interface: config.interface.clone(), source })?;
        Ok(Self { socket, outage })
    }

    /// Devices of these sockets, which have been opened in the order of `configs`.
    fn all<S: Into<Socket>>(sockets: Vec<S>, configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        let sockets = sockets.into_iter().map(Into::into).zip(configs);
        sockets.map(|(socket, config)| Self::new(socket, config)).collect()
    }

    /// Opens all interfaces of a switch, in order. AF_XDP sockets share their memory.
    ///
    /// # Errors
    ///
    /// The first error; then no interface is open.
    pub fn open_all(kind: Kind, configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        match kind {
            Kind::Packet | Kind::Gso | Kind::Udp | Kind::UdpGso => {
                configs.iter().map(|config| Self::open(kind, config)).collect()
            }
            Kind::Xdp => Self::all(XdpSocket::open_all(configs)?, configs),
        }
    }

    /// Opens a switch port `count` times, for as many threads that share its frames.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_group(
        kind: Kind,
        config: &Config,
        count: usize,
        share: Share,
    ) -> Result<Vec<Self>, OpenError> {
        let super_frames = match kind {
            Kind::Packet => false,
            Kind::Gso => true,
            Kind::Xdp | Kind::Udp | Kind::UdpGso => return Err(OpenError::Shared(kind)),
        };
        let sockets = PacketSocket::open_group(config, super_frames, count, share)?;
        sockets.into_iter().map(|socket| Self::new(socket.into(), config)).collect()
    }

    /// Opens several sockets that share the UDP port of one interface. Each receives the datagrams of
    /// its [`jobs`](Config::jobs), which must not be empty.
    ///
    /// # Errors
    ///
    /// The first error; then no socket is open.
    pub fn open_shared(kind: Kind, configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        let udp = |mode| Self::all(UdpPort::open_shared(mode, configs)?, configs);
        match kind {
            Kind::Packet | Kind::Gso => {
                configs.iter().map(|config| Self::open(kind, config)).collect()
            }
            Kind::Udp => udp(Mode::Plain),
            Kind::UdpGso => udp(Mode::Super),
            Kind::Xdp => Err(OpenError::Unshared),
        }
    }

    /// The interface, as it was when the socket was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        match &self.socket {
            Socket::Packet(socket) => socket.interface(),
            Socket::Xdp(socket) => socket.interface(),
            Socket::Udp(socket) => socket.interface(),
        }
    }

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn join(&mut self, group: Ipv4Addr) -> io::Result<()> {
        match &mut self.socket {
            Socket::Packet(socket) => socket.join(group),
            Socket::Xdp(socket) => socket.join(group),
            Socket::Udp(socket) => socket.join(group),
        }
    }

    /// Reverts a [`join`](Self::join); has no effect without one.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn leave(&mut self, group: Ipv4Addr) -> io::Result<()> {
        match &mut self.socket {
            Socket::Packet(socket) => socket.leave(group),
            Socket::Xdp(socket) => socket.leave(group),
            Socket::Udp(socket) => socket.leave(group),
        }
    }

    /// The counters.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn statistics(&mut self) -> io::Result<Statistics> {
        match &mut self.socket {
            Socket::Packet(socket) => socket.statistics(),
            Socket::Xdp(socket) => socket.statistics(),
            Socket::Udp(socket) => socket.statistics(),
        }
    }

    /// The result of an operation on the socket, or `lost` while the interface is down.
    fn on<T>(
        &mut self,
        lost: T,
        act: impl FnOnce(&mut dyn FrameIo) -> io::Result<T>,
    ) -> io::Result<T> {
        let result = act(match &mut self.socket {
            Socket::Packet(socket) => &mut **socket,
            Socket::Xdp(socket) => socket,
            Socket::Udp(socket) => &mut **socket,
        });
        match &mut self.outage {
            Some(outage) => outage.bear(result, lost),
            None => result,
        }
    }
}

impl From<PacketSocket> for Socket {
    fn from(socket: PacketSocket) -> Self {
        Self::Packet(Box::new(socket))
    }
}

impl From<XdpSocket> for Socket {
    fn from(socket: XdpSocket) -> Self {
        Self::Xdp(socket)
    }
}

impl From<UdpPort> for Socket {
    fn from(socket: UdpPort) -> Self {
        Self::Udp(Box::new(socket))
    }
}

impl FrameIo for Device {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.on(0, |io| io.receive(max, sink))
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.on(true, |io| io.send(frame))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.on((), |io| io.flush())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.on((), |io| io.watch(watch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "dpdk".parse::<Kind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown packet I/O `dpdk`; choose `packet`, `gso`, `xdp`, `udp` or `udp-gso`"
        );
    }
}
