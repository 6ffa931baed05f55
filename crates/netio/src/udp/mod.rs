//! Frames of one UDP port through an ordinary UDP socket, which needs no privileges.
//!
//! A host's packets are datagrams of one port, so the kernel can carry them: the socket sends the
//! payload of a frame to its IPv4 destination, and puts headers before what it receives. Routes and
//! Ethernet addresses are the kernel's business: the Ethernet source of a received frame is zero.
//!
//! | mode | datagrams are sent | for |
//! | --- | --- | --- |
//! | [`Mode::Plain`] | one by one, without checksums | all networks |
//! | [`Mode::Super`] | many in one buffer (GSO), with checksums that the kernel or the card completes | virtual links to a port that takes super-frames |
//!
//! Programs of switches change what they forward, so they accept no UDP checksums: the kernel cannot
//! cut a buffer without filling them in. In both modes, the kernel may join what it delivers (GRO).

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use socket2::Socket;

use crate::device::{Config, Statistics, Traffic};
use crate::interface::{Interface, InterfaceError};
use crate::segments::{self, Cut, HEADERS, IP, Joined, PROTOCOL_UDP, UDP, Unusable, VNET};
use crate::sys::set_receive_buffer;
use crate::{ETHERNET_HEADER, FrameIo, Watch};

mod sys;

/// Most buffers per system call.
const BATCH: usize = 32;

/// Buffers per system call if they hold many datagrams each.
const SUPER_BATCH: usize = 8;

/// Longest payload of UDP over IPv4.
const LONGEST: usize = 65_507;

/// Time to wait before offering datagrams again to a full device. The kernel sends no event for
/// this.
const DEVICE_RETRY: Duration = Duration::from_micros(50);

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
         the other (`ss -ulp` shows it), or use --io packet"
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
    /// Buffers that are used of those in `arrived` and `queued`.
    slots: usize,
    stride: usize,
    arrived: Box<[u8]>,
    arrivals: [sys::Arrival; BATCH],
    /// The arrivals that have not been passed on.
    next: usize,
    count: usize,
    /// The rest of the arrival at `next`.
    cut: Option<Cut>,
    queued: Box<[u8]>,
    joined: [Joined; BATCH],
    /// The queued buffers that have not been sent.
    first: usize,
    end: usize,
    obstacle: Obstacle,
    statistics: Statistics,
}

/// The reason why queued datagrams are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    None,
    /// The socket's send buffer is full; poll(2) reports when it is not.
    Socket,
    /// A device's queue is full.
    Device,
}

impl UdpPort {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(mode: Mode, config: &Config) -> Result<Self, OpenError> {
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
        let socket = sys::udp_socket().map_err(failed("open a UDP socket"))?;
        sys::bind(&socket, &config.interface, port).map_err(failed("bind a UDP socket"))?;
        sys::only_own_groups(&socket).map_err(failed("restrict multicast"))?;
        sys::describe_datagrams(&socket).map_err(failed("ask for destinations"))?;
        sys::never_fragment(&socket).map_err(failed("forbid fragments"))?;
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
            slots,
            stride,
            arrived: vec![0; stride * slots].into(),
            arrivals: [sys::Arrival::NONE; BATCH],
            next: 0,
            count: 0,
            cut: None,
            queued: vec![0; stride * slots].into(),
            joined: [Joined::NONE; BATCH],
            first: 0,
            end: 0,
            obstacle: Obstacle::None,
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

    /// Passes at most `max` frames of the next arrival to `sink`. Returns their number.
    fn deliver(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> usize {
        let mut cut = match self.cut.take() {
            Some(cut) => cut,
            None => match self.describe(&self.arrivals[self.next]) {
                Ok(cut) => cut,
                Err(Unusable) => {
                    self.statistics.oversized += 1;
                    self.next += 1;
                    return 0;
                }
            },
        };
        let buffer = &mut self.arrived[self.next * self.stride..][..self.stride];
        let mut delivered = 0;
        while delivered < max {
            let Some(frame) = cut.next(buffer) else {
                self.next += 1;
                self.statistics.received += delivered as u64;
                return delivered;
            };
            sink(&buffer[frame]);
            delivered += 1;
        }
        self.statistics.received += delivered as u64;
        self.cut = Some(cut);
        delivered
    }

    /// The frames of an arrival.
    fn describe(&self, arrival: &sys::Arrival) -> Result<Cut, Unusable> {
        let sys::Arrival { length, segment, source, destination, tos } = *arrival;
        if length > self.stride - HEADERS {
            return Err(Unusable);
        }
        let mut headers = [0; HEADERS];
        let mac = if destination.is_multicast() {
            ethernet_group(destination)
        } else {
            self.interface.mac
        };
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
        headers[UDP + 2..UDP + 4].copy_from_slice(&self.port.to_be_bytes());
        let size = segment.unwrap_or(length).min(length);
        Cut::datagrams(&headers, size, HEADERS..HEADERS + length)
    }

    /// Handles a refused first buffer: drop it, retry later, or return an error.
    fn refused(&mut self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            // An earlier datagram was refused by its receiver. Nothing was sent now.
            Some(libc::EINTR | libc::ECONNREFUSED) => Ok(()),
            Some(libc::EAGAIN) => {
                self.obstacle = Obstacle::Socket;
                Ok(())
            }
            Some(libc::ENOBUFS) => {
                self.obstacle = Obstacle::Device;
                Ok(())
            }
            // No route, a rule or an address that forbids it, or a lower MTU: as on a cable, it is
            // lost. The next may succeed.
            Some(
                libc::EMSGSIZE
                | libc::EACCES
                | libc::EPERM
                | libc::EINVAL
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH,
            ) => {
                self.statistics.unsendable += self.joined[self.first].frames();
                self.first += 1;
                Ok(())
            }
            _ => {
                let given_up = &self.joined[self.first..self.end];
                self.statistics.unsendable += given_up.iter().map(Joined::frames).sum::<u64>();
                self.first = self.end;
                let name = &self.interface.name;
                Err(io::Error::new(error.kind(), format!("network interface `{name}`: {error}")))
            }
        }
    }

    /// Frees the buffers of sent datagrams.
    fn rewind(&mut self) {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            self.obstacle = Obstacle::None;
        }
    }
}

/// The Ethernet address of an IPv4 group (RFC 1112 §6.4).
pub(crate) fn ethernet_group(group: Ipv4Addr) -> [u8; 6] {
    let [_, a, b, c] = group.octets();
    [0x01, 0x00, 0x5e, a & 0x7f, b, c]
}

impl FrameIo for UdpPort {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let (mut looked_at, mut delivered, mut drained) = (0, 0, false);
        while looked_at < max {
            if self.next == self.count {
                if drained {
                    break;
                }
                let wanted = (max - looked_at).min(self.slots);
                let batch = sys::receive_batch(
                    &self.socket,
                    &mut self.arrived,
                    self.stride,
                    HEADERS,
                    &mut self.arrivals[..wanted],
                );
                (self.next, self.count) = match batch {
                    Ok(count) => {
                        drained = count < wanted;
                        (0, count)
                    }
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EAGAIN) => break,
                        // The second tells of a datagram that its receiver refused.
                        Some(libc::EINTR | libc::ECONNREFUSED) => continue,
                        _ => return Err(error),
                    },
                };
            }
            let frames = self.deliver(max - looked_at, sink);
            delivered += frames;
            // Unusable buffers count, too, so that a flood of them does not block the thread.
            looked_at += frames.max(1);
        }
        Ok(delivered)
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
        if self.end > self.first {
            let last = &mut self.queued[(self.end - 1) * self.stride..][..self.stride];
            if self.joined[self.end - 1].append(frame, last) {
                return Ok(true);
            }
        }
        if self.end == self.slots {
            self.flush()?;
            if self.end == self.slots {
                return Ok(false);
            }
        }
        let place = &mut self.queued[self.end * self.stride..][..self.stride];
        self.joined[self.end] = Joined::first(frame, self.longest_joined, place);
        self.end += 1;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.first < self.end {
            let range = self.first..self.end;
            let buffers = self.queued.chunks_exact(self.stride).zip(&self.joined);
            let departures = buffers.take(range.end).skip(range.start).map(|(buffer, joined)| {
                let headers = &buffer[VNET..];
                let ip: [u8; 4] = headers[IP + 16..UDP].try_into().expect("four bytes");
                let port = u16::from_be_bytes([headers[UDP + 2], headers[UDP + 3]]);
                sys::Departure {
                    payload: &buffer[joined.payload()],
                    segment: joined.segment(),
                    destination: SocketAddrV4::new(ip.into(), port),
                    tos: headers[IP + 1],
                }
            });
            match sys::send_batch(&self.socket, departures) {
                Ok(count) => {
                    let sent = &self.joined[self.first..self.first + count];
                    self.statistics.sent += sent.iter().map(Joined::frames).sum::<u64>();
                    self.first += count;
                    self.obstacle = Obstacle::None;
                }
                Err(error) => {
                    let told = self.refused(error);
                    if told.is_err() || self.obstacle != Obstacle::None {
                        self.rewind();
                        return told;
                    }
                }
            }
        }
        self.rewind();
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        let mut events = libc::POLLIN;
        if self.first < self.end {
            match self.obstacle {
                Obstacle::Socket => events |= libc::POLLOUT,
                Obstacle::None | Obstacle::Device => watch.due_in(DEVICE_RETRY),
            }
        }
        if self.next < self.count {
            watch.ready();
        }
        watch.descriptor(&self.socket, events);
        Ok(())
    }
}
