//! Super-frames of a host that describes them as it likes, at a port that cuts them.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::*;

pub(crate) const TESTS: &[Test] = &[("super_frames_are_cut_by_their_bytes", cut_by_their_bytes)];

/// A packet socket on the thread's `eth0`, through which a buffer follows its `virtio_net_hdr`.
fn described() -> io::Result<File> {
    let check = |result: libc::c_int| match result {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: a socket that is just made has no other owner, and the kernel reads an integer, an address
    // and a name that live, with their lengths.
    unsafe {
        let socket = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0))?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()) as libc::c_int;
        let length = size_of_val(&address) as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length))?;
        let (yes, length) = (1_i32, size_of::<i32>() as libc::socklen_t);
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_VNET_HDR);
        let set =
            libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const yes).cast(), length);
        check(set)?;
        Ok(File::from(socket))
    }
}

/// TCP or UDP with this payload, in segments of `size` bytes as its `virtio_net_hdr` claims.
fn super_frame(tcp: bool, size: u16, payload: usize) -> Vec<u8> {
    // To another address, so that the host's kernel does not answer.
    let packet = PacketBuilder::ethernet2(mac(1), mac(3));
    let packet = packet.ipv4(ip(1).octets(), ip(3).octets(), 64);
    let payload = vec![7; payload];
    let mut frame = Vec::new();
    if tcp {
        packet.tcp(9, 9, 1, 1_000).write(&mut frame, &payload).unwrap();
    } else {
        packet.udp(9, 9).write(&mut frame, &payload).unwrap();
    }
    let [kind, headers, checksum] = if tcp { [1, 54, 16] } else { [5, 42, 6] };
    let words = [headers, size, 34, checksum].into_iter().flat_map(u16::to_ne_bytes);
    [1, kind as u8].into_iter().chain(words).chain(frame).collect()
}

/// The frames that a port has received, and the buffers that it has dropped.
fn received(port: &mut Device) -> (u64, u64) {
    // As long as something arrives.
    while !receive(port, 10_000, SHORT).is_empty() {}
    let statistics = port.statistics().unwrap();
    (statistics.received, statistics.oversized)
}

/// Twenty buffers of 60 KB in a second are 10 Mb/s, and 1.2 million segments of one byte.
fn cut_by_their_bytes() {
    let testbed = two_hosts_for(Kind::Gso, 1_500);
    let mut stranger = testbed.run_in("h1", described).unwrap().unwrap();
    let mut port = open(&testbed, Kind::Gso, "h2", Config::switch_port("eth0"));
    let (mut frames, mut dropped) = received(&mut port);
    let mut send = |tcp, size, payload| {
        let buffer = super_frame(tcp, size, payload);
        let sent = (0..20).filter(|_| stranger.write(&buffer).is_ok()).count();
        let (frames_before, dropped_before) = (frames, dropped);
        (frames, dropped) = received(&mut port);
        (sent as u64, frames - frames_before, dropped - dropped_before)
    };
    for size in [1, 8, 59] {
        // The kernel itself may refuse tiny segments.
        let (sent, frames, dropped) = send(true, size, 60_000);
        assert_eq!((frames, dropped), (0, sent), "segments of {size} bytes");
    }
    let (sent, frames, dropped) = send(true, 60, 60_000);
    assert_eq!((sent, frames, dropped), (20, 20 * 1_000, 0));
    let (sent, frames, dropped) = send(true, 1_448, 60_000);
    assert_eq!((sent, frames, dropped), (20, 20 * 42, 0));
    // As many datagrams as kernels accept in one buffer.
    for (size, cut) in [(1, false), (8, false), (59, false), (60, true), (1_000, true)] {
        let (sent, frames, dropped) = send(false, size, 60 * usize::from(size));
        assert_eq!((frames, dropped), if cut { (60 * sent, 0) } else { (0, sent) }, "{size}");
    }
    // Segments that no frame of the link can carry.
    let (sent, frames, dropped) = send(true, 30_000, 60_000);
    assert_eq!((frames, dropped), (0, sent));
}
