//! Frames between nodes, over both kinds of sockets.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use tributary_netio::faults::{Delay, FaultInjector, Faults, Faulty, Reorder};
use tributary_netio::packet::Share;
use tributary_netio::{FrameIo, Poller, Waker, memory};

use super::*;

pub(crate) const TESTS: &[TestOfKind] = &[
    ("frames_go_both_ways_unchanged", frames_go_both_ways_unchanged),
    ("frames_of_9000_bytes_pass_and_longer_ones_are_refused", jumbo),
    ("batches_keep_their_order", batches_keep_their_order),
    ("an_endpoint_sees_only_its_own_traffic", an_endpoint_sees_only_its_own_traffic),
    ("own_frames_do_not_come_back", own_frames_do_not_come_back),
    ("a_host_does_not_answer_that_the_port_is_unreachable", the_port_is_held),
    ("multicast_groups_are_joined_and_left", multicast_groups_are_joined_and_left),
    ("vlan_tags_stay_in_the_frame", vlan_tags_stay_in_the_frame),
    ("an_endpoint_takes_nothing_that_had_a_tag", an_endpoint_takes_nothing_that_had_a_tag),
    (
        "checksums_of_the_kernel_are_completed_or_removed",
        checksums_of_the_kernel_are_completed_or_removed,
    ),
    ("a_new_network_is_silent", a_new_network_is_silent),
    ("one_thread_serves_all_ports_of_a_switch", one_thread_serves_all_ports_of_a_switch),
    ("faults_are_injected_between_namespaces", faults_are_injected_between_namespaces),
    ("threads_share_the_frames_of_a_port", threads_share_the_frames_of_a_port),
];

fn frames_go_both_ways_unchanged(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let (mut first, mut second) = (endpoint(&testbed, kind, "h1"), endpoint(&testbed, kind, "h2"));
    assert_eq!(first.interface().mac, mac(1));
    assert_eq!(first.interface().mtu, 1_500);
    for round in 0..200_usize {
        let payload: Vec<u8> = (0..round * 7).map(|at| (at * 31 + round) as u8).collect();
        let there = datagram(1, 2, PORT, &payload);
        send(&mut first, &there);
        assert_eq!(receive(&mut second, 1, LONG), [there]);
        let back = datagram(2, 1, PORT, &payload);
        send(&mut second, &back);
        assert_eq!(receive(&mut first, 1, LONG), [back]);
    }
    let statistics = first.statistics().unwrap();
    assert_eq!((statistics.sent, statistics.received, statistics.overrun), (200, 200, 0));
}

fn jumbo(kind: Kind) {
    let testbed = two_hosts_for(kind, 9_500);
    let (mut first, mut second) = (endpoint(&testbed, kind, "h1"), endpoint(&testbed, kind, "h2"));
    for length in [8_000, 9_000, 9_500 - 28] {
        let payload: Vec<u8> = (0..length).map(|at| (at * 31) as u8).collect();
        let frame = datagram(1, 2, PORT, &payload);
        send(&mut first, &frame);
        assert_eq!(receive(&mut second, 1, LONG), [frame]);
    }
    let error = first.send(&datagram(1, 2, PORT, &[0; 9_500])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("MTU is 9500"), "{error}");
    // Room for a VLAN tag is not room for payload: the frame is refused, and others pass.
    let too_long = first.send(&datagram(1, 2, PORT, &[0; 9_501 - 28]));
    match kind {
        // Dropped by the kernel later.
        Kind::Packet | Kind::Gso => assert!(too_long.unwrap()),
        _ => assert_eq!(too_long.unwrap_err().kind(), std::io::ErrorKind::InvalidInput),
    }
    send(&mut first, &datagram(1, 2, PORT, &[1]));
    assert_eq!(receive(&mut second, 1, LONG), [datagram(1, 2, PORT, &[1])]);
    assert_eq!(first.statistics().unwrap().unsendable, u64::from(kind != Kind::Xdp));
}

fn batches_keep_their_order(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let (mut first, mut second) = (endpoint(&testbed, kind, "h1"), endpoint(&testbed, kind, "h2"));
    for burst in [1_u32, 31, 32, 33, 200] {
        for number in 0..burst {
            assert!(first.send(&datagram(1, 2, PORT, &number.to_be_bytes())).unwrap());
        }
        first.flush().unwrap();
        let received = receive(&mut second, burst as usize, LONG);
        let expected: Vec<Vec<u8>> =
            (0..burst).map(|number| datagram(1, 2, PORT, &number.to_be_bytes())).collect();
        assert_eq!(received, expected);
    }
}

fn an_endpoint_sees_only_its_own_traffic(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut sender = endpoint(&testbed, kind, "h1");
    let for_another_port = datagram(1, 2, PORT + 1, b"other port");
    let for_another_host = datagram(1, 3, PORT, b"other host");
    let mut no_ip = datagram(1, 2, PORT, b"other protocol");
    no_ip[12..14].copy_from_slice(&[0x88, 0xb5]);
    let ours = datagram(1, 2, PORT, b"ours");
    let all = [&for_another_port, &for_another_host, &no_ip, &ours];
    for promiscuous in [false, true] {
        let config = Config { promiscuous, ..Config::endpoint("eth0", PORT) };
        let mut second = open(&testbed, kind, "h2", config);
        let mut everything = open(&testbed, Kind::Packet, "h2", Config::switch_port("eth0"));
        all.iter().for_each(|frame| send(&mut sender, frame));
        let expected: Vec<&[u8]> =
            if promiscuous { vec![&for_another_host, &ours] } else { vec![&ours] };
        assert_eq!(receive(&mut second, expected.len(), LONG), expected);
        assert_eq!(receive(&mut second, 1, SHORT), [[0_u8; 0]; 0]);
        // The kernel's share: with AF_XDP only frames that the endpoint does not take.
        let of_the_kernel: Vec<&[u8]> = all
            .iter()
            .map(|frame| &frame[..])
            .filter(|frame| kind != Kind::Xdp || !expected.contains(frame))
            .collect();
        // The host's kernel answers for the other port, after an ARP request for the sender.
        let mut seen = receive(&mut everything, of_the_kernel.len() + 1, SHORT);
        seen.retain(|frame| frame[12..14] != [8, 6]);
        assert_eq!(seen, of_the_kernel);
    }
}

fn own_frames_do_not_come_back(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut sender = open(&testbed, kind, "h1", Config::switch_port("eth0"));
    let mut beside = open(&testbed, Kind::Packet, "h1", Config::switch_port("eth0"));
    let mut peer = endpoint(&testbed, kind, "h2");
    let frame = datagram(1, 2, PORT, b"there");
    send(&mut sender, &frame);
    assert_eq!(receive(&mut peer, 1, LONG), [frame]);
    assert_eq!(receive(&mut sender, 1, SHORT), [[0_u8; 0]; 0]);
    assert_eq!(receive(&mut beside, 1, SHORT), [[0_u8; 0]; 0]);
}

fn the_port_is_held(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut sender = open(&testbed, kind, "h1", Config::switch_port("eth0"));
    // Without an endpoint the host's kernel answers, after an ARP request for the sender.
    send(&mut sender, &datagram(1, 2, PORT, b"nobody there"));
    let answer = receive(&mut sender, 1, LONG);
    assert_eq!(answer.len(), 1, "the kernel answers, or this test shows nothing");
    // The kernel may still be sending.
    while !receive(&mut sender, 1, SHORT).is_empty() {}

    let mut second = endpoint(&testbed, kind, "h2");
    // An AF_XDP socket is exclusive on its interface.
    let mut third = (kind != Kind::Xdp).then(|| endpoint(&testbed, kind, "h2"));
    send(&mut sender, &datagram(1, 2, PORT, b"somebody there"));
    assert_eq!(receive(&mut second, 1, LONG).len(), 1);
    assert!(third.as_mut().is_none_or(|third| receive(third, 1, LONG).len() == 1));
    assert_eq!(receive(&mut sender, 1, SHORT), [[0_u8; 0]; 0]);

    // A socket that does not share the port.
    let other = testbed.run_in("h1", || UdpSocket::bind(("0.0.0.0", PORT))).unwrap().unwrap();
    let refused = testbed
        .run_in("h1", || Device::open(kind, &Config::endpoint("eth0", PORT)))
        .unwrap()
        .unwrap_err();
    drop(other);
    assert_eq!(refused.to_string(), "UDP port 29810 of this host is in use by another program");
}

fn multicast_groups_are_joined_and_left(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let group = Ipv4Addr::new(239, 84, 1, 2);
    let memberships = || {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap();
        testbed.run_in("h2", read).unwrap().matches("01005e540102").count()
    };
    let mut first = endpoint(&testbed, kind, "h1");
    let mut second = open(
        &testbed,
        kind,
        "h2",
        Config { groups: vec![group], ..Config::endpoint("eth0", PORT) },
    );
    assert_eq!(memberships(), 1);
    let mut frame = datagram(1, 2, PORT, b"to all");
    frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 0x54, 0x01, 0x02]);
    send(&mut first, &frame);
    assert_eq!(receive(&mut second, 1, LONG), [frame]);
    second.leave(group).unwrap();
    assert_eq!(memberships(), 0);
    second.join(group).unwrap();
    assert_eq!(memberships(), 1);
    drop(second);
    assert_eq!(memberships(), 0, "closing leaves");
}

fn vlan_tags_stay_in_the_frame(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut sender = open(&testbed, kind, "h1", Config::switch_port("eth0"));
    let mut receiver = open(&testbed, kind, "h2", Config::switch_port("eth0"));
    // The kernel sends a service tag only if it fits into the MTU.
    for (protocol, length) in [([0x81, 0x00], 1_500 - 28), ([0x88, 0xa8], 1_496 - 28)] {
        let payload = vec![7; length];
        // To another address, so that the host's kernel does not answer.
        let plain = datagram(1, 3, PORT, &payload[..]);
        let mut tagged = plain[..12].to_vec();
        tagged.extend(protocol);
        tagged.extend([0x60, 0x2a]);
        tagged.extend(&plain[12..]);
        send(&mut sender, &tagged);
        send(&mut sender, &plain);
        assert_eq!(receive(&mut receiver, 2, LONG), [tagged, plain]);
    }
}

/// A tag of VLAN 0 is only a priority: the kernel removes it and treats the frame as untagged.
fn an_endpoint_takes_nothing_that_had_a_tag(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut sender = open(&testbed, kind, "h1", Config::switch_port("eth0"));
    for promiscuous in [false, true] {
        let config = Config { promiscuous, ..Config::endpoint("eth0", PORT) };
        let mut receiver = open(&testbed, kind, "h2", config);
        let plain = datagram(1, 2, PORT, b"ours");
        let tags: [&[u8]; 6] = [
            &[0x81, 0x00, 0x00, 0x00],
            &[0x81, 0x00, 0xe0, 0x00],
            &[0x81, 0x00, 0x00, 0x2a],
            &[0x88, 0xa8, 0x00, 0x00],
            &[0x81, 0x00, 0x00, 0x00, 0x81, 0x00, 0x00, 0x00],
            &[0x88, 0xa8, 0x00, 0x00, 0x81, 0x00, 0x00, 0x00],
        ];
        for tag in tags {
            send(&mut sender, &[&plain[..12], tag, &plain[12..]].concat());
        }
        send(&mut sender, &plain);
        assert_eq!(receive(&mut receiver, 1, LONG), [plain]);
        assert_eq!(receive(&mut receiver, 1, SHORT), [[0_u8; 0]; 0]);
    }
}

fn checksums_of_the_kernel_are_completed_or_removed(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let mut receiver = open(&testbed, kind, "h2", Config::switch_port("eth0"));
    let socket = testbed.run_in("h1", || UdpSocket::bind(("0.0.0.0", 5_000))).unwrap().unwrap();
    // Broadcast, so that there is no ARP request first.
    socket.set_broadcast(true).unwrap();
    let everybody = (ip(255), 6_000);
    socket.send_to(b"a datagram from the kernel's own stack", everybody).unwrap();
    let frames = receive(&mut receiver, 1, LONG);
    let headers = PacketHeaders::from_ethernet_slice(&frames[0]).unwrap();
    let (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Udp(udp))) =
        (headers.net, headers.transport)
    else {
        panic!("a datagram over IPv4");
    };
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    if kind == Kind::Gso {
        // The kernel left it to the card, and a datagram needs none.
        assert_eq!(udp.checksum, 0);
        return;
    }
    assert_ne!(udp.checksum, 0, "there is a checksum");
    assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv4(&ip, headers.payload.slice()));
}

fn a_new_network_is_silent(kind: Kind) {
    let testbed = Testbed::build_for(kind, &star(3)).unwrap();
    for (node, interface) in [("h1", "eth0"), ("h3", "eth0"), ("s", "port0"), ("s", "port2")] {
        let mut port = open(&testbed, kind, node, Config::switch_port(interface));
        assert_eq!(receive(&mut port, 1, SHORT), [[0_u8; 0]; 0], "at {node}");
    }
}

/// Floods frames from each port to all others until told to stop.
fn flood(mut ports: Vec<Box<dyn FrameIo>>, mut poller: Poller, stop: &AtomicBool) {
    let mut frames: Vec<(usize, Vec<u8>)> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        for port in &mut ports {
            poller.add(port).unwrap();
        }
        poller.wait(None).unwrap();
        for (index, port) in ports.iter_mut().enumerate() {
            port.receive(32, &mut |frame| frames.push((index, frame.to_vec()))).unwrap();
        }
        for (from, frame) in frames.drain(..) {
            for (index, port) in ports.iter_mut().enumerate() {
                if index != from {
                    assert!(port.send(&frame).unwrap());
                }
            }
        }
    }
}

fn one_thread_serves_all_ports_of_a_switch(kind: Kind) {
    let testbed = Testbed::build_for(kind, &star(3)).unwrap();
    let poller = Poller::new();
    let waker = poller.waker().clone();
    // A fourth port is a memory link: kinds can be mixed.
    let (near, mut inside) = memory::link(64, poller.waker(), &Waker::new());
    let mut ports: Vec<Box<dyn FrameIo>> = vec![Box::new(near)];
    for port in super::ports(&testbed, kind, "s", 3) {
        ports.push(Box::new(port));
    }
    let mut hosts: Vec<Device> =
        (1..=3).map(|number| endpoint(&testbed, kind, &format!("h{number}"))).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(ports, poller, &stop));
        let _stop = StopWhenDropped(&stop, waker);
        for round in 0..300_u32 {
            let (from, to) = ((round % 3) as usize, ((round + 1) % 3) as usize);
            let frame = datagram(from as u8 + 1, to as u8 + 1, PORT, &round.to_be_bytes());
            send(&mut hosts[from], &frame);
            assert_eq!(receive(&mut hosts[to], 1, LONG), std::slice::from_ref(&frame));
            assert_eq!(receive(&mut inside, 1, LONG), [frame]);
            let frame = datagram(9, to as u8 + 1, PORT, &round.to_be_bytes());
            send(&mut inside, &frame);
            assert_eq!(receive(&mut hosts[to], 1, LONG), [frame]);
        }
    });
}

/// Ends the switch's thread, even if a check fails: a scope waits for its threads.
struct StopWhenDropped<'a>(&'a AtomicBool, Waker);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.wake();
    }
}

fn faults_are_injected_between_namespaces(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let faults = Faults {
        loss: 0.1,
        burst: 0,
        duplicate: 0.05,
        reorder: Reorder { probability: 0.1, ..Reorder::default() },
        delay: Delay { fixed: Duration::from_micros(50), jitter: Duration::from_micros(50) },
        outages: Vec::new(),
    };
    let injector = || FaultInjector::new(faults.clone(), 7, 1).unwrap();
    let mut first = Faulty::new(endpoint(&testbed, kind, "h1"), Some(injector()), None);
    let mut second = endpoint(&testbed, kind, "h2");
    let count = 1_000_u32;
    let mut seed_alone = injector();
    let mut expected: Vec<u32> = (0..count)
        .flat_map(|number| vec![number; seed_alone.decide(0, u64::from(number)).copies().len()])
        .collect();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                assert!(first.send(&datagram(1, 2, PORT, &number.to_be_bytes())).unwrap());
                first.wait(Some(Duration::from_micros(20))).unwrap();
            }
            let end = Instant::now() + Duration::from_millis(20);
            while Instant::now() < end {
                first.wait(Some(Duration::from_millis(1))).unwrap();
            }
        });
        for frame in receive(&mut second, expected.len(), LONG) {
            received.push(u32::from_be_bytes(frame[42..46].try_into().unwrap()));
        }
    });
    assert_eq!(receive(&mut second, 1, SHORT), [[0_u8; 0]; 0]);
    assert!(!received.is_sorted(), "some were overtaken");
    received.sort_unstable();
    expected.sort_unstable();
    assert_eq!(received, expected, "the seed decides what arrives, also in real time");
}

fn threads_share_the_frames_of_a_port(kind: Kind) {
    // A switch's kernel answers nothing.
    let testbed = Testbed::build_for(kind, &star(1)).unwrap();
    // The first word of the payload.
    let share = Share { port: PORT, offset: 42, shift: 6 };
    let config = Config::switch_port("port0");
    let opened = testbed.run_in("s", || Device::open_group(kind, &config, 3, share)).unwrap();
    if kind == Kind::Xdp {
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("with `packet` or `gso` only, not with `xdp`"), "{error}");
        return;
    }
    let mut group = opened.unwrap();
    let mut sender = endpoint(&testbed, kind, "h1");
    let numbered = |word: u32| {
        let mut payload = word.to_be_bytes().to_vec();
        payload.extend([b'.'; 100]);
        datagram(1, 2, PORT, &payload)
    };
    let words = [0, 63, 64, 127, 128, 191, 192, 1 << 20, u32::MAX];
    let mut expected = [const { Vec::new() }; 3];
    let send_to =
        |sender: &mut Device, expected: &mut [Vec<Vec<u8>>; 3], at: u32, frame: Vec<u8>| {
            send(sender, &frame);
            expected[at as usize].push(frame);
        };
    for word in words {
        send_to(&mut sender, &mut expected, (word >> 6) % 3, numbered(word));
    }
    // All others go to the first one: another port, no UDP, options, a fragment, a short datagram.
    let mut others = vec![datagram(1, 2, PORT + 1, &[0xff; 12]), datagram(1, 2, PORT, &[0xff; 3])];
    for (at, value) in [(13, 1), (23, 200), (20, 0x20), (14, 0x44)] {
        let mut frame = numbered(64);
        frame[at] = value;
        others.push(frame);
    }
    for frame in others {
        send_to(&mut sender, &mut expected, 0, frame);
    }
    for (socket, expected) in group.iter_mut().zip(expected) {
        assert_eq!(receive(socket, expected.len(), LONG), expected);
        assert_eq!(receive(socket, 1, SHORT), Vec::<Vec<u8>>::new(), "each frame comes once");
    }
    // Datagrams that the kernel carries together go where the first one belongs.
    if kind == Kind::Gso {
        let without_checksum = |word| {
            let mut frame = numbered(word);
            frame[40..42].fill(0);
            frame
        };
        let frames: Vec<_> = (190..200).map(without_checksum).collect();
        for frame in &frames {
            assert!(sender.send(frame).unwrap());
        }
        sender.flush().unwrap();
        assert_eq!(receive(&mut group[2], 10, LONG), frames);
    }
    for (socket, number) in group.iter_mut().zip(0..) {
        let back = datagram(2, 1, PORT, &[number; 12]);
        send(socket, &back);
        assert_eq!(receive(&mut sender, 1, LONG), [back]);
    }
}
