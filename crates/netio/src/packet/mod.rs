//! Frames over a Linux network interface, through AF_PACKET sockets.
//!
//! Each system call moves up to [`BATCH`] frames between the kernel and buffers that were allocated
//! when the socket was opened. There is no memory-mapped ring: with a version 3 ring a single frame
//! waits up to a millisecond for its block to retire, which is too long for a windowed protocol.
//!
//! Offloads that let the kernel pass on incomplete or merged frames (transmit checksums, GSO, GRO)
//! must be disabled on a switch's ports. The testbed does this for its links.

use std::io;
use std::time::Duration;

use socket2::Socket;

use crate::interface::{Interface, InterfaceError};
use crate::{ETHERNET_HEADER, FrameIo, Watch};

pub use crate::device::{Config, Statistics, Traffic};

mod filter;
mod sys;

/// Maximum number of frames per system call.
pub const BATCH: usize = 32;

/// Bytes of a VLAN tag, which the MTU does not include.
const TAG: usize = 4;

/// Bytes of the two Ethernet addresses, which precede a VLAN tag.
const ADDRESSES: usize = 12;

/// Time to wait before offering frames again to a device that was full. The kernel sends no event
/// for this.
const DEVICE_RETRY: Duration = Duration::from_micros(50);

/// After this many consecutive refusals a frame is dropped: the device is not full, but some rule
/// drops the frame.
const DEVICE_RETRIES: u32 = 100;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The interface does not exist, or a query fails.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The interface is down.
    #[error("network interface `{0}` is down; bring it up, for instance with `ip link set {0} up`")]
    Down(String),
    /// A capability is missing.
    #[error(
        "raw frames on `{0}` need the capability CAP_NET_RAW in the user namespace that owns this \
         network namespace; run as root, or give it to the program (`setcap cap_net_raw+ep \
         PROGRAM`), or run in a namespace of your own (`unshare --user --map-root-user --net`)"
    )]
    NotPermitted(String),
    /// Another program uses the UDP port exclusively.
    #[error("UDP port {port} of this host is in use by another program")]
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

/// The reason why queued frames are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    None,
    /// The socket's send buffer is full; poll(2) reports when it is not.
    Socket,
    /// The device's queue is full, for this number of consecutive attempts.
    Device(u32),
}

/// An AF_PACKET socket on one interface. It does not receive frames that this host sends.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
    interface: Interface,
    /// Whether VLAN tags are restored.
    tags: bool,
    /// Size in bytes of each of the [`BATCH`] buffers in `arrived` and in `queued`. The first
    /// [`TAG`] bytes of a receive buffer are reserved for the tag.
    stride: usize,
    arrived: Box<[u8]>,
    queued: Box<[u8]>,
    lengths: [usize; BATCH],
    /// The queued frames that have not been sent.
    first: usize,
    end: usize,
    obstacle: Obstacle,
    statistics: Statistics,
    /// Reserves the UDP port; receives nothing.
    _port: Option<Socket>,
}

impl PacketSocket {
    /// Opens a socket in the calling thread's network namespace. The socket stays in that namespace
    /// if the thread changes its own.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let interface = Interface::find(&config.interface)?;
        let failed = |what: &'static str| {
            let interface = config.interface.clone();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::PermissionDenied => OpenError::NotPermitted(interface),
                io::ErrorKind::NetworkDown => OpenError::Down(interface),
                _ => OpenError::System { interface, what, source },
            }
        };
        let socket = sys::packet_socket().map_err(failed("open a packet socket"))?;
        if !interface.up {
            return Err(OpenError::Down(config.interface.clone()));
        }
        let tags = config.traffic == Traffic::All;
        sys::ignore_outgoing(&socket).map_err(failed("ignore own frames"))?;
        sys::set_receive_buffer(&socket, config.receive_buffer)
            .map_err(failed("set the buffer"))?;
        let port = match config.traffic {
            Traffic::All => {
                sys::request_tags(&socket).map_err(failed("ask for VLAN tags"))?;
                None
            }
            Traffic::Udp(port) => {
                let program = filter::udp_to(port, config.promiscuous);
                sys::attach_filter(&socket, &program).map_err(failed("attach a filter"))?;
                Some(hold_port(port, &config.interface)?)
            }
        };
        if config.promiscuous {
            sys::membership(&socket, interface.index, sys::Membership::Promiscuous, true)
                .map_err(failed("take all addresses"))?;
        }
        // Endpoints also bind to all EtherTypes: before a frame reaches the sockets of its
        // EtherType, the kernel discards the fact that it had a tag of VLAN 0.
        sys::bind_packet(&socket, interface.index).map_err(failed("bind"))?;
        let stride = (interface.mtu + ETHERNET_HEADER + 2 * TAG).next_multiple_of(64);
        let mut socket = Self {
            socket,
            interface,
            tags,
            stride,
            arrived: vec![0; stride * BATCH].into(),
            queued: vec![0; stride * BATCH].into(),
            lengths: [0; BATCH],
            first: 0,
            end: 0,
            obstacle: Obstacle::None,
            statistics: Statistics::default(),
            _port: port,
        };
        for mac in &config.multicast {
            socket.join(*mac).map_err(failed("join a multicast group"))?;
        }
        Ok(socket)
    }

    /// The interface, as it was when the socket was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Joins a multicast address.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn join(&mut self, mac: [u8; 6]) -> io::Result<()> {
        let member = sys::Membership::Multicast(mac);
        sys::membership(&self.socket, self.interface.index, member, true)
    }

    /// Reverts a [`join`](Self::join); has no effect without one.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn leave(&mut self, mac: [u8; 6]) -> io::Result<()> {
        let member = sys::Membership::Multicast(mac);
        sys::membership(&self.socket, self.interface.index, member, false)
    }

    /// The counters.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn statistics(&mut self) -> io::Result<Statistics> {
        self.statistics.overrun += sys::take_drops(&self.socket)?;
        Ok(self.statistics)
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("network interface `{}`: {error}", self.interface.name),
        )
    }

    /// Passes frame `index` of the last batch to `sink`. Returns false if it is incomplete.
    fn deliver(
        &mut self,
        index: usize,
        arrival: sys::Arrival,
        sink: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let buffer = &mut self.arrived[index * self.stride..][..self.stride];
        let end = TAG + arrival.length;
        if end > buffer.len() {
            return false;
        }
        let Some((protocol, control)) = arrival.tag.filter(|_| arrival.length >= ADDRESSES) else {
            sink(&buffer[TAG..end]);
            return true;
        };
        // Move the addresses forward, and insert the tag after them.
        buffer.copy_within(TAG..TAG + ADDRESSES, 0);
        buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
        buffer[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&control.to_be_bytes());
        sink(&buffer[..end]);
        true
    }

    /// Handles a refused first frame: drop it, retry later, or return an error.
    fn refused(&mut self, error: &io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN) => {
                self.obstacle = Obstacle::Socket;
                Ok(())
            }
            Some(libc::ENOBUFS) => {
                self.obstacle = match self.obstacle {
                    Obstacle::Device(DEVICE_RETRIES) => {
                        self.give_up(1);
                        Obstacle::None
                    }
                    Obstacle::Device(times) => Obstacle::Device(times + 1),
                    _ => Obstacle::Device(1),
                };
                Ok(())
            }
            // The MTU was lowered, or a rule forbids this frame. The next frame may succeed.
            Some(libc::EMSGSIZE | libc::EPERM | libc::EINVAL) => {
                self.give_up(1);
                Ok(())
            }
            _ => {
                self.give_up(self.end - self.first);
                Err(self.named(error))
            }
        }
    }

    fn give_up(&mut self, frames: usize) {
        self.first += frames;
        self.statistics.unsendable += frames as u64;
    }
}

/// Membership of an interface without receiving frames, for back ends that receive in another way.
#[derive(Debug)]
pub(crate) struct Requests {
    socket: Socket,
    index: u32,
}

impl Requests {
    /// The memberships last as long as this object.
    pub(crate) fn new(interface: &Interface) -> io::Result<Self> {
        Ok(Self { socket: sys::packet_socket()?, index: interface.index })
    }

    pub(crate) fn promiscuous(&self) -> io::Result<()> {
        self.ask(sys::Membership::Promiscuous, true)
    }

    pub(crate) fn join(&self, mac: [u8; 6]) -> io::Result<()> {
        self.ask(sys::Membership::Multicast(mac), true)
    }

    pub(crate) fn leave(&self, mac: [u8; 6]) -> io::Result<()> {
        self.ask(sys::Membership::Multicast(mac), false)
    }

    fn ask(&self, member: sys::Membership, join: bool) -> io::Result<()> {
        sys::membership(&self.socket, self.index, member, join)
    }
}

/// Binds a UDP socket that drops everything.
pub(crate) fn hold_port(port: u16, interface: &str) -> Result<Socket, OpenError> {
    sys::port_holder(port).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => OpenError::PortInUse { port },
        _ => {
            OpenError::System { interface: interface.to_owned(), what: "hold the UDP port", source }
        }
    })
}

impl FrameIo for PacketSocket {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let (mut looked_at, mut delivered) = (0, 0);
        while looked_at < max {
            let wanted = (max - looked_at).min(BATCH);
            let mut arrivals = [sys::Arrival::default(); BATCH];
            let batch = sys::receive_batch(
                &self.socket,
                &mut self.arrived,
                self.stride,
                TAG,
                self.tags,
                &mut arrivals[..wanted],
            );
            let count = match batch {
                Ok(count) => count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(self.named(&error)),
                },
            };
            // Oversized frames count, too, so that a flood of them does not block the thread.
            looked_at += count;
            for (index, arrival) in arrivals[..count].iter().enumerate() {
                if self.deliver(index, *arrival, sink) {
                    delivered += 1;
                    self.statistics.received += 1;
                } else {
                    self.statistics.oversized += 1;
                }
            }
            if count < wanted {
                break;
            }
        }
        Ok(delivered)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let most = self.interface.mtu + ETHERNET_HEADER + TAG;
        if frame.len() < ETHERNET_HEADER || frame.len() > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a frame of {} bytes does not fit network interface `{}`, whose MTU is {}",
                    frame.len(),
                    self.interface.name,
                    self.interface.mtu
                ),
            ));
        }
        if self.end == BATCH {
            self.flush()?;
            if self.end == BATCH {
                return Ok(false);
            }
        }
        self.queued[self.end * self.stride..][..frame.len()].copy_from_slice(frame);
        self.lengths[self.end] = frame.len();
        self.end += 1;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.first < self.end {
            let sent = sys::send_batch(
                &self.socket,
                &self.queued[self.first * self.stride..],
                self.stride,
                &self.lengths[self.first..self.end],
            );
            match sent {
                Ok(count) => {
                    self.first += count;
                    self.statistics.sent += count as u64;
                    self.obstacle = Obstacle::None;
                }
                Err(error) => {
                    let before = self.first;
                    let told = self.refused(&error);
                    let stuck = self.first == before && self.obstacle != Obstacle::None;
                    if told.is_err() || stuck {
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
                Obstacle::None | Obstacle::Device(_) => watch.due_in(DEVICE_RETRY),
            }
        }
        watch.descriptor(&self.socket, events);
        Ok(())
    }
}

impl PacketSocket {
    /// Frees the buffers of sent frames.
    fn rewind(&mut self) {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            self.obstacle = Obstacle::None;
        }
    }
}
