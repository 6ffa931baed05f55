//! Frames over a Linux network interface, through AF_PACKET sockets.
//!
//! Each system call moves up to 32 frames between the kernel and buffers that were allocated
//! when the socket was opened, or up to eight super-frames: consecutive datagrams with the same
//! headers and size that the kernel carries as one frame
//! ([`PacketSocket::open_for_super_frames`]). There is no memory-mapped ring: with a version 3 ring a
//! single frame waits up to a millisecond for its block to retire, which is too long for a windowed
//! protocol.
//!
//! Offloads that let the kernel pass on incomplete or merged frames (transmit checksums, TSO, GSO,
//! GRO) must be disabled at both ends of a switch's links, unless the port takes super-frames: then
//! it completes checksums and cuts merged frames. The testbed does this for its links. Merging in the
//! network card (LRO) must always be disabled.

use std::io;
use std::net::Ipv4Addr;

use socket2::Socket;

use crate::filter;
use crate::interface::{Interface, InterfaceError};
use crate::messages::BATCH;
use crate::port::{TAG, ethernet_group};
use crate::queues::{self, Incoming, Outgoing, SUPER_BATCH};
use crate::segments::{self, Cut, Joined, Unusable, VNET};
use crate::sys::set_receive_buffer;
use crate::{ETHERNET_HEADER, FrameIo, Watch};

pub use crate::port::{Config, Statistics, Traffic};

mod group;
mod sniffer;
mod sys;

pub use group::Share;
pub use sniffer::{Passing, Sniffer, SnifferStatistics};

/// Bytes of the two Ethernet addresses, which precede a VLAN tag.
const ADDRESSES: usize = 12;

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
         PROGRAM`), or use a UDP socket on a host (`--io udp`), or run in a namespace of your own \
         (`unshare --user --map-root-user --net`)"
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

/// Checks whether the kernel takes super-frames from packet sockets, with one over the loopback that
/// nobody receives.
///
/// # Errors
///
/// The kernel's error; Linux before 6.2 has [`io::ErrorKind::InvalidInput`].
pub fn super_frames() -> io::Result<()> {
    let loopback = Interface::find("lo").map_err(io::Error::other)?;
    let socket = sys::packet_socket()?;
    sys::describe_frames(&socket)?;
    sys::bind_packet(&socket, loopback.index)?;
    let frame = segments::discarded();
    let mut buffer = vec![0; VNET + 2 * frame.len()];
    let mut joined = Joined::first(&frame, frame.len(), &mut buffer);
    let two = joined.append(&frame, &mut buffer);
    debug_assert!(two, "equal datagrams can be joined");
    joined.seal(&mut buffer);
    sys::send_batch(&socket, [&buffer[..joined.frame().end]].into_iter()).map(drop)
}

/// The buffers that a socket for super-frames would send for these frames, each with a
/// `virtio_net_hdr` before it, for tests of what receives them.
pub fn join(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut buffers: Vec<(Vec<u8>, Joined)> = Vec::new();
    for frame in frames {
        let last = buffers.last_mut();
        if last.is_some_and(|(buffer, joined)| joined.append(frame, buffer)) {
            continue;
        }
        let mut buffer = vec![0; VNET + frame.len().max(segments::LONGEST_RECEIVED)];
        let first = Joined::first(frame, usize::MAX, &mut buffer);
        buffers.push((buffer, first));
    }
    let seal = |(mut buffer, joined): (Vec<u8>, Joined)| {
        joined.seal(&mut buffer);
        buffer.truncate(joined.frame().end);
        buffer
    };
    buffers.into_iter().map(seal).collect()
}

/// Calls `sink` for each frame that a socket for super-frames would receive if the kernel delivered
/// this buffer, from which it has removed a VLAN tag (protocol and control information). Returns their
/// number, or `None` if the socket would drop the buffer. For tests of what handles the frames.
pub fn cut(buffer: &[u8], tag: Option<(u16, u16)>, sink: &mut dyn FnMut(&[u8])) -> Option<usize> {
    let mut room = [&[0; TAG], buffer].concat();
    let arrival = sys::Arrival { length: buffer.len(), tag };
    let mut cut = open(&mut room, arrival, VNET, segments::LONGEST_RECEIVED).ok()?;
    let mut frames = 0;
    while let Some(frame) = cut.next(&mut room) {
        sink(&room[frame]);
        frames += 1;
    }
    Some(frames)
}

/// An AF_PACKET socket on one interface. It does not receive frames that this host sends.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
    interface: Interface,
    /// Whether VLAN tags are restored.
    tags: bool,
    /// Bytes before a frame in which the kernel and this socket describe it to each other: [`VNET`]
    /// with super-frames, else none.
    vnet: usize,
    /// Length of the longest frame to receive.
    longest: usize,
    incoming: Incoming<sys::Arrival>,
    outgoing: Outgoing,
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
        Self::open_with(config, false, false)
    }

    /// [`open`](Self::open)s a socket that joins consecutive UDP datagrams over IPv4 with the same
    /// headers and size, and cuts such super-frames when it receives them, and those of TCP.
    ///
    /// The other end of the link must be open in this way, too, or be the kernel's UDP. Where the
    /// interface does not segment UDP, the kernel does, and fills in UDP checksums, which the
    /// datagrams did not have before.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_for_super_frames(config: &Config) -> Result<Self, OpenError> {
        Self::open_with(config, true, false)
    }

    /// Opens a socket. A `closed` one receives nothing until it is [opened](sys::detach_filter).
    fn open_with(config: &Config, super_frames: bool, closed: bool) -> Result<Self, OpenError> {
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
        if super_frames {
            sys::describe_frames(&socket).map_err(failed("ask for super-frames"))?;
        }
        sys::ignore_outgoing(&socket).map_err(failed("ignore own frames"))?;
        set_receive_buffer(&socket, config.receive_buffer).map_err(failed("set the buffer"))?;
        let port = match config.traffic {
            Traffic::All => {
                sys::request_tags(&socket).map_err(failed("ask for VLAN tags"))?;
                if closed {
                    sys::attach_filter(&socket, &filter::nothing())
                        .map_err(failed("attach a filter"))?;
                }
                None
            }
            Traffic::Udp(port) => {
                let mut program = filter::udp_to(port, config.promiscuous);
                if !config.jobs.is_empty() {
                    program = filter::of_jobs(program, &config.jobs);
                }
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
        // An outer tag and one that the kernel removes.
        let longest = interface.mtu + ETHERNET_HEADER + 2 * TAG;
        let (slots, vnet, room) = if super_frames {
            (SUPER_BATCH, VNET, segments::LONGEST_RECEIVED)
        } else {
            (BATCH, 0, longest - TAG)
        };
        let stride = (room + VNET + TAG).next_multiple_of(64);
        let mut socket = Self {
            socket,
            interface,
            tags,
            vnet,
            longest,
            incoming: Incoming::new(slots, stride, sys::Arrival::default()),
            outgoing: Outgoing::new(slots, stride),
            statistics: Statistics::default(),
            _port: port,
        };
        for group in &config.groups {
            socket.join(*group).map_err(failed("join a multicast group"))?;
        }
        Ok(socket)
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
        let member = sys::Membership::Multicast(ethernet_group(group));
        sys::membership(&self.socket, self.interface.index, member, true)
    }

    /// Reverts a [`join`](Self::join); has no effect without one.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn leave(&mut self, group: Ipv4Addr) -> io::Result<()> {
        let member = sys::Membership::Multicast(ethernet_group(group));
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
}

/// Finds the frames in a receive buffer, after the tag that the kernel removed is in its place. Those of
/// super-frames have at most `longest` bytes.
fn open(
    buffer: &mut [u8],
    arrival: sys::Arrival,
    vnet: usize,
    longest: usize,
) -> Result<Cut, Unusable> {
    let end = TAG + arrival.length;
    if end > buffer.len() || arrival.length < vnet {
        return Err(Unusable);
    }
    let mut frame = TAG + vnet..end;
    let described = *buffer[TAG..].first_chunk::<VNET>().ok_or(Unusable)?;
    let tag = arrival.tag.filter(|_| frame.len() >= ADDRESSES);
    if let Some((protocol, control)) = tag {
        // Move the addresses forward, and insert the tag after them.
        let start = frame.start - TAG;
        buffer.copy_within(frame.start..frame.start + ADDRESSES, start);
        let place = &mut buffer[start + ADDRESSES..start + ADDRESSES + TAG];
        place[..2].copy_from_slice(&protocol.to_be_bytes());
        place[2..].copy_from_slice(&control.to_be_bytes());
        frame.start = start;
    }
    if vnet == 0 {
        return Ok(Cut::whole(frame));
    }
    Cut::new(described, buffer, frame, if tag.is_some() { TAG } else { 0 }, longest)
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
        let Self { socket, incoming, statistics, tags, vnet, longest, .. } = self;
        let fetch = |buffers: &mut [u8], stride, arrivals: &mut [_]| {
            sys::receive_batch(socket, buffers, stride, TAG, *tags, arrivals)
        };
        let received = incoming.receive(max, statistics, sink, fetch, |buffer, arrival| {
            open(buffer, arrival, *vnet, *longest)
        });
        received.map_err(|error| self.interface.named(&error))
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let longest = self.interface.mtu + ETHERNET_HEADER;
        if frame.len() < ETHERNET_HEADER || frame.len() > longest + TAG {
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
        let longest_joined = if self.vnet > 0 { longest } else { 0 };
        if self.outgoing.push(frame, longest_joined) {
            return Ok(true);
        }
        self.flush()?;
        Ok(self.outgoing.push(frame, longest_joined))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { socket, outgoing, statistics, vnet, .. } = self;
        let sent = outgoing.flush(statistics, |queued| {
            let frames = queued.map(|(buffer, joined)| {
                if *vnet > 0 {
                    joined.seal(buffer);
                }
                &buffer[joined.frame().start - *vnet..joined.frame().end]
            });
            sys::send_batch(socket, frames)
        });
        sent.map_err(|error| self.interface.named(&error))
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        queues::watch(&self.socket, &self.incoming, &self.outgoing, watch);
        Ok(())
    }
}
