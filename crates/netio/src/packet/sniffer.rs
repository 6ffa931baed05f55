//! Sockets that see the frames of an interface as they pass, in both directions, with their times.

use std::io;
use std::time::Duration;

use socket2::Socket;

use super::{Interface, OpenError, VNET, open, segments, sys};
use crate::Watch;
use crate::filter;
use crate::port::TAG;
use crate::sys::set_receive_buffer;

/// Buffers for one system call. Each holds a super-frame.
const SLOTS: usize = 4;

/// Bytes of a buffer.
const STRIDE: usize = (segments::LONGEST_RECEIVED + VNET + TAG).next_multiple_of(64);

/// A frame that has passed an interface.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Since 1970, by the kernel's clock.
    pub time: Duration,
    /// Whether this host has sent it.
    pub outgoing: bool,
    /// The frame, with VLAN tags. A super-frame is cut into the frames that it stands for.
    pub frame: &'a [u8],
}

/// Counters of a sniffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnifferStatistics {
    /// Frames passed to the caller.
    pub received: u64,
    /// Buffers that the kernel dropped because there was no room; a super-frame is one of them.
    pub dropped: u64,
    /// Buffers that could not be understood.
    pub unusable: u64,
}

/// Sees the frames of an interface without taking them from anyone.
///
/// It has a socket for each direction. Between the two, the order of frames is that of their times only.
#[derive(Debug)]
pub struct Sniffer {
    /// For received frames, and for sent ones.
    sockets: [Socket; 2],
    interface: Interface,
    buffers: Box<[u8]>,
    statistics: SnifferStatistics,
}

impl Sniffer {
    /// Opens an interface in the calling thread's network namespace, in promiscuous mode. If there is a
    /// UDP port, only datagrams to it over IPv4 are seen, in frames without tags.
    ///
    /// In each direction, frames of `room` bytes may wait. For an ordinary user, the kernel reduces that
    /// to its limit.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(name: &str, port: Option<u16>, room: usize) -> Result<Self, OpenError> {
        let interface = Interface::find(name)?;
        let failed = |what: &'static str| {
            let interface = name.to_owned();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::PermissionDenied => OpenError::NotPermitted(interface),
                io::ErrorKind::NetworkDown => OpenError::Down(interface),
                _ => OpenError::System { interface, what, source },
            }
        };
        let socket = |outgoing: bool| -> Result<Socket, OpenError> {
            let socket = sys::packet_socket().map_err(failed("open a packet socket"))?;
            sys::describe_frames(&socket).map_err(failed("ask for super-frames"))?;
            sys::request_tags(&socket).map_err(failed("ask for VLAN tags"))?;
            sys::request_times(&socket).map_err(failed("ask for times"))?;
            set_receive_buffer(&socket, room).map_err(failed("set the buffer"))?;
            let program = filter::passing(outgoing, port);
            sys::attach_filter(&socket, &program).map_err(failed("attach a filter"))?;
            sys::bind_packet(&socket, interface.index).map_err(failed("bind"))?;
            Ok(socket)
        };
        if !interface.up {
            return Err(OpenError::Down(name.to_owned()));
        }
        let sockets = [socket(false)?, socket(true)?];
        sys::membership(&sockets[0], interface.index, sys::Membership::Promiscuous, true)
            .map_err(failed("take all addresses"))?;
        let buffers = vec![0; STRIDE * SLOTS].into();
        Ok(Self { sockets, interface, buffers, statistics: SnifferStatistics::default() })
    }

    /// Passes what has arrived to `sink`, at most a few buffers for each direction, without waiting.
    /// Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn receive(&mut self, sink: &mut dyn FnMut(Passing<'_>)) -> io::Result<bool> {
        let mut more = false;
        for outgoing in [false, true] {
            more |= self.receive_from(outgoing, sink)?;
        }
        Ok(more)
    }

    fn receive_from(
        &mut self,
        outgoing: bool,
        sink: &mut dyn FnMut(Passing<'_>),
    ) -> io::Result<bool> {
        let Self { sockets, interface, buffers, statistics } = self;
        let socket = &sockets[usize::from(outgoing)];
        let mut arrivals = [(sys::Arrival::default(), Duration::ZERO); SLOTS];
        let count = match sys::receive_timed(socket, buffers, STRIDE, TAG, &mut arrivals) {
            Ok(count) => count,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(false),
                io::ErrorKind::Interrupted => return Ok(true),
                // The kernel says so once. Both sockets work again when it is up.
                io::ErrorKind::NetworkDown => {
                    tracing::warn!(
                        "network interface `{}` is down: nothing passes",
                        interface.name
                    );
                    return Ok(false);
                }
                _ => return Err(interface.named(&error)),
            },
        };
        let buffers = buffers.chunks_exact_mut(STRIDE);
        for (buffer, (arrival, time)) in buffers.zip(arrivals).take(count) {
            let Ok(mut cut) = open(buffer, arrival, VNET, segments::LONGEST_RECEIVED) else {
                statistics.unusable += 1;
                continue;
            };
            while let Some(frame) = cut.next(buffer) {
                statistics.received += 1;
                sink(Passing { time, outgoing, frame: &buffer[frame] });
            }
        }
        Ok(count == SLOTS)
    }

    /// Adds to `watch` that a frame has passed.
    pub fn watch(&self, watch: &mut Watch) {
        self.sockets.iter().for_each(|socket| watch.descriptor(socket, libc::POLLIN));
    }

    /// The counters.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn statistics(&mut self) -> io::Result<SnifferStatistics> {
        for socket in &self.sockets {
            self.statistics.dropped += sys::take_drops(socket)?;
        }
        Ok(self.statistics)
    }

    /// The interface, as it was when it was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }
}
