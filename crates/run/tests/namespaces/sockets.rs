//! Features of AF_XDP sockets only: programs on interfaces, queues, shared memory.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;

use etherparse::{IpHeaders, Ipv4Extensions, Ipv4Header, Ipv4Options, PacketBuilder, ip_number};
use futures_util::TryStreamExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtnetlink::packet_route::link::{LinkAttribute, LinkXdp, State};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth};
use tributary_run::testbed::{Output, Stream};

use super::*;
use crate::roles;

pub(crate) const TESTS: &[Test] = &[
    ("a_host_keeps_its_kernel", a_host_keeps_its_kernel),
    ("a_switch_port_takes_everything", a_switch_port_takes_everything),
    ("nothing_is_left_after_a_drop", nothing_is_left_after_a_drop),
    ("nothing_is_left_after_sigkill", || nothing_is_left_after(Signal::SIGKILL)),
    ("nothing_is_left_after_ctrl_c", || nothing_is_left_after(Signal::SIGINT)),
    ("nothing_is_left_after_sigterm", || nothing_is_left_after(Signal::SIGTERM)),
    ("a_failed_opening_leaves_nothing", a_failed_opening_leaves_nothing),
    ("every_queue_has_a_socket", every_queue_has_a_socket),
    ("ports_share_memory_and_lose_none_of_it", ports_share_memory_and_lose_none_of_it),
    ("frames_of_all_sizes_pass_on_all_mtus", frames_of_all_sizes_pass_on_all_mtus),
    ("a_full_receive_ring_is_counted", a_full_receive_ring_is_counted),
    ("no_chunk_is_lost_under_load", no_chunk_is_lost_under_load),
    ("a_driver_without_programs_gets_the_kernels", a_driver_without_programs_gets_the_kernels),
    ("an_interface_that_goes_down_is_named_and_comes_back", down_and_up),
    ("what_is_in_the_way_is_named", what_is_in_the_way_is_named),
];

/// Runs requests over a netlink socket of a node.
fn netlink<T: Send>(
    testbed: &Testbed,
    node: &str,
    requests: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error> + Send,
) -> T {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection().unwrap();
            let connection = tokio::spawn(connection);
            let result = requests(handle).await;
            connection.abort();
            result
        })
    };
    testbed.run_in(node, work).unwrap().unwrap()
}

/// The kernel's attributes of an interface.
fn attributes(testbed: &Testbed, node: &str, interface: &str) -> Vec<LinkAttribute> {
    netlink(testbed, node, async |netlink| {
        let mut links = netlink.link().get().match_name(interface.to_owned()).execute();
        Ok(links.try_next().await?.expect("the interface exists").attributes)
    })
}

/// Waits until frames pass: the kernel brings carriers and queueing disciplines up in the
/// background, and only then does a bridge forward to a port.
fn wait_until_up(testbed: &Testbed, node: &str, interface: &str) {
    let deadline = Instant::now() + LONG;
    let works = |attributes: &[LinkAttribute]| {
        let up = LinkAttribute::OperState(State::Up);
        let idle = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::Qdisc(name) if name == "noop");
        attributes.contains(&up) && !attributes.iter().any(idle)
    };
    while !works(&attributes(testbed, node, interface)) {
        assert!(Instant::now() < deadline, "{interface} does not come up");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The ID of the XDP program on an interface.
fn program_on(testbed: &Testbed, node: &str, interface: &str) -> Option<u32> {
    let attributes = attributes(testbed, node, interface);
    let xdp = attributes.into_iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(xdp) => Some(xdp),
        _ => None,
    });
    xdp.into_iter().flatten().find_map(|attribute| match attribute {
        LinkXdp::ProgId(number) => Some(number),
        _ => None,
    })
}

/// Whether a program still exists.
fn exists(program: u32) -> bool {
    const GET_DESCRIPTOR_BY_ID: libc::c_int = 13;
    let mut arguments = [program, 0, 0, 0];
    // SAFETY: the arguments begin with the ID, the rest is zero; their size is given.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_bpf, GET_DESCRIPTOR_BY_ID, arguments.as_mut_ptr(), 12_usize)
    };
    if descriptor >= 0 {
        // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
        unsafe { libc::close(descriptor as i32) };
        return true;
    }
    let error = io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
    false
}

fn wait_until_gone(testbed: &Testbed, program: u32) {
    let deadline = Instant::now() + LONG;
    while program_on(testbed, "h1", "eth0").is_some() || exists(program) {
        assert!(Instant::now() < deadline, "program {program} is left");
        thread::sleep(Duration::from_millis(5));
    }
}

/// ARP, ICMP, TCP and other UDP ports work beside our packets, which the kernel does not receive.
fn a_host_keeps_its_kernel() {
    let testbed = two_hosts(1_500);
    let mut first = endpoint(&testbed, Kind::Xdp, "h1");
    let mut second = endpoint(&testbed, Kind::Xdp, "h2");
    assert!(program_on(&testbed, "h1", "eth0").is_some());
    let listener = testbed.run_in("h2", || TcpListener::bind(("0.0.0.0", 7_000))).unwrap().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    // ARP resolves the address.
    let mut client = testbed.run_in("h1", || TcpStream::connect((ip(2), 7_000))).unwrap().unwrap();
    let text = "all of this goes through the kernel. ".repeat(10_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(text.as_bytes()).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
        });
        for number in 0..1_000_u32 {
            let frame = datagram(1, 2, PORT, &number.to_be_bytes());
            send(&mut first, &frame);
            assert_eq!(receive(&mut second, 1, LONG), [frame]);
        }
    });
    assert_eq!(server.join().unwrap(), text);
    let bind = |port| move || UdpSocket::bind(("0.0.0.0", port)).unwrap();
    let there = testbed.run_in("h2", bind(PORT + 1)).unwrap();
    let here = testbed.run_in("h1", bind(5_000)).unwrap();
    here.send_to(b"another port", (ip(2), PORT + 1)).unwrap();
    let mut buffer = [0; 64];
    there.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(there.recv(&mut buffer).unwrap(), 12);
    // Fragments and IP options are not ours. The kernel gets them, but does not answer, as the port
    // is in use.
    let mut answers = open(&testbed, Kind::Packet, "h1", Config::switch_port("eth0"));
    let mut header =
        Ipv4Header::new(20, 64, ip_number::UDP, ip(1).octets(), ip(2).octets()).unwrap();
    header.options = Ipv4Options::from([0; 4]);
    let mut with_options = Vec::new();
    PacketBuilder::ethernet2(mac(1), mac(2))
        .ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()))
        .udp(PORT, PORT)
        .write(&mut with_options, &[0; 12])
        .unwrap();
    send(&mut first, &with_options);
    assert_eq!(receive(&mut answers, 1, SHORT), [[0_u8; 0]; 0]);
    assert_eq!(receive(&mut second, 1, SHORT), [[0_u8; 0]; 0]);
}

fn a_switch_port_takes_everything() {
    let testbed = two_hosts(1_500);
    let mut port = open(&testbed, Kind::Xdp, "h2", Config::switch_port("eth0"));
    let mut kernel = open(&testbed, Kind::Packet, "h2", Config::switch_port("eth0"));
    let mut sender = open(&testbed, Kind::Packet, "h1", Config::switch_port("eth0"));
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let frames = [arp, datagram(1, 2, PORT, b"ours"), datagram(1, 3, 9, b"other"), vec![0xee; 14]];
    frames.iter().for_each(|frame| send(&mut sender, frame));
    assert_eq!(receive(&mut port, frames.len(), LONG), frames);
    assert_eq!(receive(&mut kernel, 1, SHORT), [[0_u8; 0]; 0], "the kernel gets nothing");
    drop(port);
    frames.iter().for_each(|frame| send(&mut sender, frame));
    // These include an answer to the host's own request.
    let mut seen = receive(&mut kernel, frames.len() + 1, SHORT);
    seen.retain(|frame| frames.contains(frame));
    assert_eq!(seen, frames, "and then everything again");
}

fn nothing_is_left_after_a_drop() {
    let testbed = two_hosts(1_500);
    for _ in 0..3 {
        let open = || XdpSocket::open(&Config::switch_port("eth0"));
        let socket = testbed.run_in("h1", open).unwrap().unwrap();
        assert!(socket.is_native(), "virtual Ethernet runs programs itself");
        assert!(!socket.is_zero_copy(), "and shares no memory");
        let program = socket.program_id().unwrap();
        assert_eq!(program_on(&testbed, "h1", "eth0"), Some(program));
        assert!(exists(program));
        drop(socket);
        wait_until_gone(&testbed, program);
    }
}

fn nothing_is_left_after(signal: Signal) {
    let testbed = two_hosts(1_500);
    let holder = testbed.spawn("h1", roles::command("hold xdp"), Output::Keep).unwrap();
    let deadline = Instant::now() + LONG;
    while !holder.output(Stream::Out).ends_with('\n') {
        assert!(Instant::now() < deadline, "{}", holder.output(Stream::Err));
        thread::sleep(Duration::from_millis(2));
    }
    let program = holder.output(Stream::Out).trim().parse().unwrap();
    assert_eq!(program_on(&testbed, "h1", "eth0"), Some(program));
    assert!(exists(program));
    kill(Pid::from_raw(holder.id().cast_signed()), signal).unwrap();
    assert!(!holder.wait(Some(LONG)).unwrap().unwrap().success());
    wait_until_gone(&testbed, program);
    // The interface is free again.
    let next = open(&testbed, Kind::Xdp, "h1", Config::switch_port("eth0"));
    assert_eq!(next.interface().name, "eth0");
}

fn refusal(testbed: &Testbed, node: &str, configs: &[Config]) -> String {
    let opened = testbed.run_in(node, || XdpSocket::open_all(configs)).unwrap();
    opened.unwrap_err().to_string()
}

fn a_failed_opening_leaves_nothing() {
    let testbed = Testbed::build(&star(2)).unwrap();
    let ports = ["port0", "port1", "port2"].map(Config::switch_port);
    let error = refusal(&testbed, "s", &ports);
    assert!(error.contains("no network interface `port2`"), "{error}");
    // The last interface is in use: those before it are released.
    let taken = open(&testbed, Kind::Xdp, "s", Config::switch_port("port1"));
    let error = refusal(&testbed, "s", &ports[..2]);
    assert!(error.contains("`port1`"), "{error}");
    assert_eq!(program_on(&testbed, "s", "port0"), None);
    drop(taken);
    testbed.run_in("s", || XdpSocket::open_all(&ports[..2])).unwrap().unwrap();
}

/// Interfaces `m0` and `m1`, joined, with `queues` queues each, in node `h1`.
fn make_pair(testbed: &Testbed, queues: u32) {
    netlink(testbed, "h1", async |netlink| {
        let pair = LinkVeth::new("m0", "m1")
            .append_extra_attribute(LinkAttribute::NumTxQueues(queues))
            .append_extra_attribute(LinkAttribute::NumRxQueues(queues))
            .build();
        netlink.link().add(pair).execute().await?;
        for name in ["m0", "m1"] {
            netlink.link().set(LinkUnspec::new_with_name(name).up().build()).execute().await?;
        }
        Ok(())
    });
    ["m0", "m1"].iter().for_each(|name| wait_until_up(testbed, "h1", name));
}

fn every_queue_has_a_socket() {
    let testbed = two_hosts(1_500);
    make_pair(&testbed, 3);
    let open_xdp = |name| testbed.run_in("h1", || XdpSocket::open(&Config::switch_port(name)));
    let mut m0 = open_xdp("m0").unwrap().unwrap();
    assert_eq!(m0.queues(), 3);
    let mut sender = open(&testbed, Kind::Packet, "h1", Config::switch_port("m1"));
    // The kernel spreads flows over the queues by address and port.
    let flow = |number: u32| datagram((number % 200) as u8, 2, PORT, &number.to_be_bytes());
    let count = 600;
    (0..count).for_each(|number| send(&mut sender, &flow(number)));
    let mut received = receive(&mut m0, count as usize, LONG);
    received.sort_by_key(|frame| u32::from_be_bytes(frame[42..46].try_into().unwrap()));
    let mut expected: Vec<Vec<u8>> = (0..count).map(flow).collect();
    expected.sort_by_key(|frame| u32::from_be_bytes(frame[42..46].try_into().unwrap()));
    assert_eq!(received, expected);
    // In the other direction frames keep their order, independent of the peer's queues.
    (0..100).for_each(|number| send(&mut m0, &flow(number)));
    assert_eq!(receive(&mut sender, 100, LONG), (0..100).map(flow).collect::<Vec<_>>());
}

/// Many more frames than fit into memory, of all sizes, between all ports.
fn ports_share_memory_and_lose_none_of_it() {
    let testbed = Testbed::build(&star(3)).unwrap();
    let mut ports = ports(&testbed, Kind::Xdp, "s", 3);
    let mut hosts: Vec<Device> =
        (1..=3).map(|number| endpoint(&testbed, Kind::Xdp, &format!("h{number}"))).collect();
    let payload = |round: usize| -> Vec<u8> {
        (0..(round * 37) % 1_400).map(|at| (at * 7 + round) as u8).collect()
    };
    for round in 0..20_000_usize {
        let (from, to) = (round % 3, (round + 1 + round % 2) % 3);
        let frame = datagram(from as u8 + 1, to as u8 + 1, PORT, &payload(round));
        send(&mut hosts[from], &frame);
        let mut seen = receive(&mut ports[from], 1, LONG);
        assert_eq!(seen, std::slice::from_ref(&frame));
        send(&mut ports[to], &seen.remove(0));
        assert_eq!(receive(&mut hosts[to], 1, LONG), [frame]);
    }
    for device in ports.iter_mut().chain(&mut hosts) {
        let statistics = device.statistics().unwrap();
        assert_eq!((statistics.overrun, statistics.unsendable, statistics.oversized), (0, 0, 0));
        assert!(statistics.received > 6_000 && statistics.sent > 6_000, "{statistics:?}");
    }
}

fn frames_of_all_sizes_pass_on_all_mtus() {
    // Sizes around a small chunk, a large chunk, and the driver's page.
    for mtu in [68, 1_500, 1_774, 1_775, 3_498, 3_506, 3_507, 3_822, 3_823, 9_000, 65_535] {
        let testbed = two_hosts(mtu);
        let mut first = endpoint(&testbed, Kind::Xdp, "h1");
        let mut second = endpoint(&testbed, Kind::Xdp, "h2");
        let mtu = mtu as usize;
        for length in [28, mtu / 2, mtu - 1, mtu] {
            let payload: Vec<u8> = (0..length.max(28) - 28).map(|at| (at * 31) as u8).collect();
            let frame = datagram(1, 2, PORT, &payload);
            send(&mut first, &frame);
            assert!(receive(&mut second, 1, LONG) == [frame], "{length} bytes, MTU {mtu}");
        }
        let error = first.send(&vec![0; 14 + mtu + 1]).unwrap_err();
        assert!(error.to_string().contains(&format!("MTU is {mtu}")), "{error}");
    }
}

fn a_full_receive_ring_is_counted() {
    let testbed = two_hosts(1_500);
    let mut sender = endpoint(&testbed, Kind::Packet, "h1");
    let config = Config { receive_buffer: 128 * 2_048, ..Config::endpoint("eth0", PORT) };
    let mut receiver = open(&testbed, Kind::Xdp, "h2", config);
    for number in 0..300_u32 {
        send(&mut sender, &datagram(1, 2, PORT, &number.to_be_bytes()));
    }
    let received = receive(&mut receiver, 300, SHORT);
    let first: Vec<Vec<u8>> =
        (0..128_u32).map(|number| datagram(1, 2, PORT, &number.to_be_bytes())).collect();
    assert_eq!(received, first, "the oldest are kept, in order");
    assert_eq!(receiver.statistics().unwrap().overrun, 300 - 128);
    // There is room again.
    send(&mut sender, &datagram(1, 2, PORT, b"next"));
    assert_eq!(receive(&mut receiver, 1, LONG), [datagram(1, 2, PORT, b"next")]);
}

/// The kernel makes frames visible before it frees their chunks' places: under load a ring seems
/// full that is not.
fn no_chunk_is_lost_under_load() {
    const RING: u32 = 128;
    let testbed = two_hosts(1_500);
    let config = Config { receive_buffer: RING as usize * 2_048, ..Config::endpoint("eth0", PORT) };
    let mut receiver = open(&testbed, Kind::Xdp, "h2", config);
    let mut sender = endpoint(&testbed, Kind::Xdp, "h1");
    let frame = |number: u32| datagram(1, 2, PORT, &number.to_be_bytes());
    let end = frame(u32::MAX);
    let sending = thread::spawn(move || {
        (0..200_000).for_each(|number| send(&mut sender, &frame(number)));
        sender
    });
    while !sending.is_finished() {
        receiver.receive(32, &mut |_| {}).unwrap();
    }
    let mut sender = sending.join().unwrap();
    while !receive(&mut receiver, RING as usize, SHORT).is_empty() {}
    // Every place of the ring has a chunk again: a ring full of frames can arrive before one is
    // removed.
    let before = receiver.statistics().unwrap().overrun;
    let full: Vec<Vec<u8>> = (1..RING).map(frame).chain([end]).collect();
    full.iter().for_each(|frame| send(&mut sender, frame));
    assert_eq!(receive(&mut receiver, full.len(), LONG), full);
    assert_eq!(receiver.statistics().unwrap().overrun, before);
}

/// A bridge's driver runs no XDP programs, so the kernel runs it for the bridge, beside a port that
/// shares the memory and runs its own.
fn a_driver_without_programs_gets_the_kernels() {
    let testbed = two_hosts(1_500);
    make_pair(&testbed, 1);
    netlink(&testbed, "h1", async |netlink| {
        netlink.link().add(LinkBridge::new("br0").build()).execute().await?;
        let number = async |name: &str| {
            let mut links = netlink.link().get().match_name(name.to_owned()).execute();
            let link = links.try_next().await?.expect("the interface exists");
            Ok::<_, rtnetlink::Error>(link.header.index)
        };
        let bridge = number("br0").await?;
        netlink.link().set(LinkUnspec::new_with_name("br0").up().build()).execute().await?;
        let port = LinkUnspec::new_with_name("m1").controller(bridge).build();
        netlink.link().set(port).execute().await
    });
    wait_until_up(&testbed, "h1", "br0");
    let ports = ["br0", "eth0"].map(Config::switch_port);
    let opened = testbed.run_in("h1", || XdpSocket::open_all(&ports)).unwrap().unwrap();
    let [mut bridge, mut port]: [XdpSocket; 2] = opened.try_into().unwrap();
    assert!(!bridge.is_native() && port.is_native());
    // Of the port only: the kernel announces multicast groups through the bridge.
    let mut host = open(&testbed, Kind::Xdp, "h1", Config::endpoint("m0", PORT));
    let mut other = endpoint(&testbed, Kind::Xdp, "h2");
    for length in [18_usize, 500, 1_472] {
        let mut frame = datagram(1, 2, PORT, &vec![length as u8; length]);
        frame[..6].fill(0xff);
        send(&mut host, &frame);
        let seen = receive(&mut bridge, 1, LONG);
        assert_eq!(seen, std::slice::from_ref(&frame), "by the kernel's hook");
        send(&mut port, &datagram(1, 2, PORT, &frame[42..]));
        assert_eq!(receive(&mut other, 1, LONG), [datagram(1, 2, PORT, &frame[42..])]);
        send(&mut bridge, &frame);
        assert_eq!(receive(&mut host, 1, LONG), [frame], "and out of the bridge");
    }
}

fn down_and_up() {
    let testbed = two_hosts(1_500);
    let mut first = endpoint(&testbed, Kind::Xdp, "h1");
    let mut second = endpoint(&testbed, Kind::Xdp, "h2");
    let set = |up: bool| {
        netlink(&testbed, "h1", async |netlink| {
            let link = LinkUnspec::new_with_name("eth0");
            let link = if up { link.up() } else { link.down() };
            netlink.link().set(link.build()).execute().await
        });
    };
    set(false);
    let error = refusal(&testbed, "h1", &[Config::endpoint("eth0", PORT)]);
    assert!(error.contains("`eth0` is down") && error.contains("ip link set eth0 up"), "{error}");
    assert!(first.send(&datagram(1, 2, PORT, b"lost")).unwrap());
    let error = first.flush().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NetworkDown);
    assert!(error.to_string().contains("`eth0`"), "{error}");
    set(true);
    // It takes a while until a link works.
    let deadline = Instant::now() + LONG;
    let frame = datagram(1, 2, PORT, b"again");
    loop {
        send(&mut first, &frame);
        if receive(&mut second, 2, SHORT).contains(&frame) {
            break;
        }
        assert!(Instant::now() < deadline, "the link does not come back");
    }
}

fn what_is_in_the_way_is_named() {
    let testbed = two_hosts(1_500);
    let endpoint = [Config::endpoint("eth0", PORT)];
    let held = open(&testbed, Kind::Xdp, "h1", Config::switch_port("eth0"));
    let error = refusal(&testbed, "h1", &endpoint);
    assert!(error.starts_with("another XDP program is on network interface `eth0` already"));
    assert!(error.contains("ip link set eth0 xdp off"), "{error}");
    drop(held);
    let error = refusal(&testbed, "h1", &[Config::endpoint("eth7", PORT)]);
    assert!(error.contains("there is no network interface `eth7` here"), "{error}");

    // Memory that may not be locked: a process with a small limit, and no capability to exceed it.
    let script = "ulimit -l 64; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \"$0\"";
    let mut command = Command::new("sh");
    let role = roles::command("hold xdp");
    command.arg("-c").arg(script).arg(role.get_program());
    command.envs(role.get_envs().map(|(name, value)| (name, value.unwrap())));
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: setpriv (util-linux) not found on the PATH");
    } else {
        let process = testbed.spawn("h1", command, Output::Keep).unwrap();
        process.wait(Some(LONG)).unwrap().expect("it cannot open the socket");
        let error = process.output(Stream::Err);
        assert!(error.contains("LockedMemory"), "{error}");
        assert_eq!(program_on(&testbed, "h1", "eth0"), None);
    }
}
