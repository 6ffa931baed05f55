//! A cable between two processes: UDP datagrams, over IPv4 or IPv6, that contain frames.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Socket};

use super::{LONGEST, sys};
use crate::device::Statistics;
use crate::messages::{self, Message, Value};
use crate::queues::{self, Incoming, Outgoing, SUPER_BATCH};
use crate::segments::{Cut, Unusable, VNET};
use crate::sys::set_receive_buffer;
use crate::{ETHERNET_HEADER, FrameIo, Watch};

/// One end of a cable that neither end needs privileges for. Many frames of the same length go to the
/// kernel in one buffer (GSO), and may come from it in one (GRO).
#[derive(Debug)]
pub struct Tunnel {
    socket: Socket,
    /// Length of the longest frame to which others are joined; zero if none are.
    longest_joined: usize,
    incoming: Incoming<sys::Arrival>,
    outgoing: Outgoing,
    statistics: Statistics,
}

impl Tunnel {
    /// Opens an end at an address of this host; with port 0, at any free port. `receive_buffer` is in
    /// bytes, and is reduced to the system's limit (`net.core.rmem_max`) for an ordinary user.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn bind(address: SocketAddr, receive_buffer: usize) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = sys::udp_socket(domain)?;
        socket.bind(&address.into())?;
        sys::accept_joined(&socket);
        sys::never_fragment(&socket, domain)?;
        set_receive_buffer(&socket, receive_buffer)?;
        let longest_joined = if sys::cuts_buffers(&socket) { LONGEST } else { 0 };
        let stride = (VNET + LONGEST).next_multiple_of(64);
        Ok(Self {
            socket,
            longest_joined,
            incoming: Incoming::new(SUPER_BATCH, stride, sys::Arrival::NONE),
            outgoing: Outgoing::containing(SUPER_BATCH, stride),
            statistics: Statistics::default(),
        })
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::Error::other("the socket has no IP address"))
    }

    /// Names the other end. From then on nothing else is received. What arrived before may be from
    /// anyone, and is dropped: the other end must send nothing until then.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn connect(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&peer.into())?;
        while self.receive(SUPER_BATCH, &mut |_| ())? > 0 || self.incoming.is_waiting() {}
        Ok(())
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

impl FrameIo for Tunnel {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Self { socket, incoming, statistics, .. } = self;
        let fetch = |buffers: &mut [u8], stride, arrivals: &mut [_]| {
            sys::receive_batch(socket, buffers, stride, 0, false, arrivals)
        };
        incoming.receive(max, statistics, sink, fetch, |buffer, arrival| {
            let sys::Arrival { length, segment, .. } = arrival;
            let size = segment.unwrap_or(length).min(length);
            if length > buffer.len() || size < ETHERNET_HEADER {
                return Err(Unusable);
            }
            Ok(Cut::frames(size, 0..length))
        })
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        if !(ETHERNET_HEADER..=LONGEST).contains(&frame.len()) {
            let message = format!("a frame of {} bytes does not fit a datagram", frame.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.outgoing.push(frame, self.longest_joined) {
            return Ok(true);
        }
        self.flush()?;
        Ok(self.outgoing.push(frame, self.longest_joined))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { socket, outgoing, statistics, .. } = self;
        outgoing.flush(statistics, |queued| {
            let messages = queued.map(|(buffer, joined)| {
                let size = |size| (libc::IPPROTO_UDP, sys::UDP_SEGMENT, Value::Half(size));
                let controls = [joined.segment().map(size), None];
                Message { bytes: &buffer[joined.frame()], to: None, controls }
            });
            messages::send(socket, messages)
        })
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        queues::watch(&self.socket, &self.incoming, &self.outgoing, watch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::{Duration, Instant};

    use super::*;

    const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn end(address: IpAddr) -> Tunnel {
        Tunnel::bind((address, 0).into(), 1 << 20).unwrap()
    }

    fn cable(address: IpAddr) -> (Tunnel, Tunnel) {
        let (mut near, mut far) = (end(address), end(address));
        near.connect(far.address().unwrap()).unwrap();
        far.connect(near.address().unwrap()).unwrap();
        (near, far)
    }

    fn receive(port: &mut Tunnel, count: usize) -> Vec<Vec<u8>> {
        let (begin, mut frames) = (Instant::now(), Vec::new());
        while frames.len() < count && begin.elapsed() < Duration::from_secs(5) {
            port.receive(8, &mut |frame| frames.push(frame.to_vec())).unwrap();
            port.wait(Some(Duration::from_millis(1))).unwrap();
        }
        frames
    }

    #[test]
    fn frames_of_any_length_arrive_whole_and_in_order() {
        for address in [IPV4, IPV6] {
            send_frames_of_any_length(cable(address));
        }
    }

    fn send_frames_of_any_length((mut near, mut far): (Tunnel, Tunnel)) {
        let lengths = [14, 60, 1514, 1514, 1514, 300, 1514, 8256, 8256, 8256, 8256, 8256, 8256];
        let frames: Vec<Vec<u8>> = (0..)
            .zip(lengths.iter().cycle())
            .take(300)
            .map(|(number, &length)| (0..length).map(|at| (at as u8) ^ number as u8).collect())
            .collect();
        let mut received = Vec::new();
        for some in frames.chunks(30) {
            for frame in some {
                assert!(near.send(frame).unwrap());
            }
            near.flush().unwrap();
            received.extend(receive(&mut far, some.len()));
        }
        assert!(received == frames);
        assert_eq!(far.statistics().unwrap().received, 300);
        assert_eq!(near.statistics().unwrap().sent, 300);
    }

    #[test]
    fn strangers_short_datagrams_and_a_missing_end_change_nothing() {
        let (mut near, mut far) = cable(IPV4);
        let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut early = end(IPV4);
        for _ in 0..20 {
            stranger.send_to(&[7; 100], early.address().unwrap()).unwrap();
        }
        early.connect(near.address().unwrap()).unwrap();
        early.receive(8, &mut |_| panic!("nothing is left")).unwrap();
        stranger.send_to(&[7; 100], far.address().unwrap()).unwrap();
        near.send(&[1; 100]).unwrap();
        near.flush().unwrap();
        assert_eq!(receive(&mut far, 1), [[1; 100]]);
        near.socket.send(&[2; 13]).unwrap();
        near.send(&[3; 100]).unwrap();
        near.flush().unwrap();
        assert_eq!(receive(&mut far, 1), [[3; 100]]);
        assert_eq!(far.statistics().unwrap().oversized, 1);
        for length in [13, LONGEST + 1] {
            let error = near.send(&vec![0; length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        drop(far);
        for _ in 0..10 {
            near.send(&[4; 100]).unwrap();
            near.flush().unwrap();
            near.receive(8, &mut |_| panic!("nothing comes")).unwrap();
        }
    }
}
