//! Frames of one UDP port through an ordinary UDP socket, which needs no privileges.
//!
//! A host's packets are datagrams of one port, so the kernel can carry them: the socket sends the
//! payload of a frame to its IPv4 destination, and puts headers before what it receives. Routes and
//! Ethernet addresses are the kernel's business: the Ethernet source of a received frame is zero.
//!
//! | mode | datagrams are sent | for |
//! | --- | --- | --- |
//! | [`Mode::Plain`] | one by one, without checksums | all networks |
//! | [`Mode::Super`] | many in one buffer (GSO), with checksums | virtual links to a port that takes super-frames |
//!
//! Programs of switches change what they forward, so they accept no UDP checksums: the kernel cannot
//! cut a buffer without filling them in. In both modes, the kernel may join what it delivers (GRO).
//!
//! A [`Tunnel`] carries whole frames instead, between two processes.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Socket};

use crate::filter::position_of_job;
use crate::interface::{Interface, InterfaceError};
use crate::messages::BATCH;
use crate::port::{Config, Statistics, Traffic, ethernet_group};
use crate::queues::{self, Incoming, Outgoing, SUPER_BATCH};
use crate::segments::{self, Cut, HEADERS, IP, PROTOCOL_UDP, UDP, Unusable, VNET};
use crate::sys::set_receive_buffer;
use crate::{ETHERNET_HEADER, FrameIo, Watch};

mod sys;
mod tunnel;

pub use tunnel::Tunnel;

/// Longest payload of UDP over IPv4.
const LONGEST: usize = 65_507;

/// How datagrams are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One by one, without checksums.
    Plain,
    /// Many in one buffer, where the kernel can.
    Super,
}

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The interface does not exist, or a query fails.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The interface is down.
    #[error("network interface `{0}` is down; bring it up, for instance with `ip link set {0} up`")]
    Down(String),
    /// Only hosts can use it.
    #[error(
        "a UDP socket receives only a host's own datagrams, and a switch port on `{0}` needs every \
         frame; use `packet`, `gso` or `xdp` there"
    )]
    SwitchPort(String),
    /// Another program uses the port.
    #[error(
        "UDP port {port} of this host is in use: with `udp`, one process of a host can have it; end \
         the other (`ss -ulp` shows it), or use `packet`, which needs the capability CAP_NET_RAW"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// Another error.
    #[error("cannot {what} on network interface `{interface}`: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A UDP socket of one interface.
#[derive(Debug)]
pub struct UdpPort {
    socket: Socket,
    interface: Interface,
    port: u16,
    /// Length of the longest frame to which others are joined; zero if none are.
    longest_joined: usize,
    incoming: Incoming<sys::Arrival>,
    outgoing: Outgoing,
    statistics: Statistics,
}

impl UdpPort {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(mode: Mode, config: &Config) -> Result<Self, OpenError> {
        Self::open_with(mode, config, false)
    }

    /// Opens sockets that share the port. Each receives the datagrams of its [`Config::jobs`]; the first
    /// one also those of no socket's.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_shared(mode: Mode, configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        // Sockets that share a port also share it with another process that wants to, so the port must
        // be free for a socket that does not.
        if let Some(first) = configs.first() {
            drop(Self::open(mode, &Config { groups: Vec::new(), ..first.clone() })?);
        }
        let open = |config| Self::open_with(mode, config, true);
        let sockets: Vec<Self> = configs.iter().map(open).collect::<Result<_, _>>()?;
        if let (Some(first), Some(config)) = (sockets.first(), configs.first()) {
            let jobs = configs.iter().map(|config| &*config.jobs);
            sys::share_by(&first.socket, &position_of_job(jobs)).map_err(|source| {
                let interface = config.interface.clone();
                OpenError::System { interface, what: "share a UDP port", source }
            })?;
        }
        Ok(sockets)
    }

    fn open_with(mode: Mode, config: &Config, shared: bool) -> Result<Self, OpenError> {
        let interface = Interface::find(&config.interface)?;
        let Traffic::Udp(port) = config.traffic else {
            return Err(OpenError::SwitchPort(interface.name));
        };
        if !interface.up {
            return Err(OpenError::Down(interface.name));
        }
        let failed = |what: &'static str| {
            let interface = config.interface.clone();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::AddrInUse => OpenError::PortInUse { port },
                _ => OpenError::System { interface, what, source },
            }
        };
        let socket = sys::udp_socket(Domain::IPV4).map_err(failed("open a UDP socket"))?;
        if shared {
            socket.set_reuse_port(true).map_err(failed("share a UDP port"))?;
        }
        sys::bind(&socket, &config.interface, port).map_err(failed("bind a UDP socket"))?;
        sys::only_own_groups(&socket).map_err(failed("restrict multicast"))?;
        sys::describe_datagrams(&socket).map_err(failed("ask for destinations"))?;
        sys::accept_joined(&socket);
        sys::never_fragment(&socket, Domain::IPV4).map_err(failed("forbid fragments"))?;
        let joins = mode == Mode::Super && sys::cuts_buffers(&socket);
        if mode == Mode::Plain {
            sys::omit_checksums(&socket).map_err(failed("omit checksums"))?;
        }
        set_receive_buffer(&socket, config.receive_buffer).map_err(failed("set the buffer"))?;
        for group in &config.groups {
            sys::join(&socket, *group, interface.index)
                .map_err(failed("join a multicast group"))?;
        }
        let longest_joined = if joins { interface.mtu + ETHERNET_HEADER } else { 0 };
        let slots = if joins { SUPER_BATCH } else { BATCH };
        let stride = (VNET + HEADERS + LONGEST).next_multiple_of(64);
        Ok(Self {
            socket,
            interface,
            port,
            longest_joined,
            incoming: Incoming::new(slots, stride, sys::Arrival::NONE),
            outgoing: Outgoing::new(slots, stride),
            statistics: Statistics::default(),
        })
    }

    /// The interface, as it was when the socket was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn join(&mut self, group: Ipv4Addr) -> io::Result<()> {
        sys::join(&self.socket, group, self.interface.index)
    }

    /// Reverts a [`join`](Self::join).
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn leave(&mut self, group: Ipv4Addr) -> io::Result<()> {
        sys::leave(&self.socket, group, self.interface.index)
    }

    /// The counters.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn statistics(&self) -> io::Result<Statistics> {
        Ok(Statistics { overrun: sys::drops(&self.socket)?, ..self.statistics })
    }
}

/// The frames in a buffer: puts headers before each payload.
fn open(
    interface: &Interface,
    port: u16,
    room: usize,
    arrival: sys::Arrival,
) -> Result<Cut, Unusable> {
    let sys::Arrival { length, segment, source, destination, tos } = arrival;
    if HEADERS + length > room {
        return Err(Unusable);
    }
    let multicast = destination.is_multicast();
    let mac = if multicast { ethernet_group(destination) } else { interface.mac };
    let mut headers = [0; HEADERS];
    headers[..6].copy_from_slice(&mac);
    headers[12..IP].copy_from_slice(&[8, 0]);
    headers[IP] = 0x45;
    headers[IP + 1] = tos;
    // Never fragmented, and the usual time to live, which a socket is not told.
    headers[IP + 6] = 0x40;
    headers[IP + 8] = 64;
    headers[IP + 9] = PROTOCOL_UDP;
    headers[IP + 12..IP + 16].copy_from_slice(&source.ip().octets());
    headers[IP + 16..UDP].copy_from_slice(&destination.octets());
    headers[UDP..UDP + 2].copy_from_slice(&source.port().to_be_bytes());
    headers[UDP + 2..UDP + 4].copy_from_slice(&port.to_be_bytes());
    let size = segment.unwrap_or(length).min(length);
    Cut::datagrams(&headers, size, HEADERS..HEADERS + length)
}

impl FrameIo for UdpPort {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Self { socket, interface, port, incoming, statistics, .. } = self;
        let fetch = |buffers: &mut [u8], stride, arrivals: &mut [_]| {
            sys::receive_batch(socket, buffers, stride, HEADERS, true, arrivals)
        };
        let received = incoming.receive(max, statistics, sink, fetch, |buffer, arrival| {
            open(interface, *port, buffer.len(), arrival)
        });
        received.map_err(|error| self.interface.named(&error))
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let longest = self.interface.mtu + ETHERNET_HEADER;
        let own = frame.get(UDP..UDP + 2) == Some(&self.port.to_be_bytes());
        if frame.len() <= HEADERS || frame.len() > longest || !own || !segments::joinable(frame) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a frame of {} bytes is not a datagram of port {} that fits network interface \
                     `{}`, whose MTU is {}",
                    frame.len(),
                    self.port,
                    self.interface.name,
                    self.interface.mtu
                ),
            ));
        }
        if self.outgoing.push(frame, self.longest_joined) {
            return Ok(true);
        }
        self.flush()?;
        Ok(self.outgoing.push(frame, self.longest_joined))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { socket, outgoing, statistics, .. } = self;
        let sent = outgoing.flush(statistics, |queued| {
            let departures = queued.map(|(buffer, joined)| {
                let headers = &buffer[joined.frame()];
                let ip: [u8; 4] = headers[IP + 16..UDP].try_into().expect("four bytes");
                let port = u16::from_be_bytes([headers[UDP + 2], headers[UDP + 3]]);
                sys::Departure {
                    payload: &headers[HEADERS..],
                    segment: joined.segment(),
                    destination: SocketAddrV4::new(ip.into(), port),
                    tos: headers[IP + 1],
                }
            });
            sys::send_batch(socket, departures)
        });
        sent.map_err(|error| self.interface.named(&error))
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        queues::watch(&self.socket, &self.incoming, &self.outgoing, watch);
        Ok(())
    }
}
