//! Testbeds, AF_PACKET and AF_XDP sockets, in real network namespaces.
//!
//! Needs no root: the program enters a user namespace if necessary. That has to happen before any
//! thread is started, so it has its own `main`. As root it also runs itself as an ordinary user.
//! AF_XDP needs root: where it is refused, its tests are skipped with a line that gives the reason.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use libtest_mimic::{Arguments, Trial};
use tributary_netio::FrameIo;
use tributary_netio::device::{Config, Device, Kind};
use tributary_netio::packet::PacketSocket;
use tributary_netio::xdp::{self, XdpSocket};
use tributary_run::testbed::{
    Host, Link, LinkEnd, SwitchNode, Testbed, Topology, enter_user_namespace_if_needed,
};

mod frames;
mod life;
mod outages;
mod roles;
mod sockets;
mod strangers;
mod udp;

/// A test and its name.
type Test = (&'static str, fn());
/// A test for all kinds of sockets, and its name.
type TestOfKind = (&'static str, fn(Kind));

fn main() -> ExitCode {
    if let Some(code) = roles::play() {
        return code;
    }
    let entered = enter_user_namespace_if_needed();
    let no_xdp = match &entered {
        Err(reason) => {
            eprintln!("skipped: {reason}");
            true
        }
        Ok(_) => match xdp_is_refused() {
            Some(reason) => {
                eprintln!("AF_XDP skipped: {reason}");
                true
            }
            None => false,
        },
    };
    let mut trials = Vec::new();
    for (name, test) in [life::TESTS, strangers::TESTS].concat() {
        trials.push(trial(name.to_owned(), test, entered.is_err()));
    }
    for (name, test) in sockets::TESTS {
        trials.push(trial(format!("xdp::{name}"), *test, no_xdp));
    }
    for &(name, test) in frames::TESTS.iter().chain(outages::TESTS) {
        let no_packet = entered.is_err();
        let kinds = [(Kind::Packet, no_packet), (Kind::Gso, no_packet), (Kind::Xdp, no_xdp)];
        for (kind, skipped) in kinds {
            trials.push(trial(format!("{kind}::{name}"), move || test(kind), skipped));
        }
    }
    for &(name, test) in udp::TESTS.iter().chain(outages::TESTS) {
        for kind in [Kind::Udp, Kind::UdpGso] {
            trials.push(trial(format!("{kind}::{name}"), move || test(kind), entered.is_err()));
        }
    }
    for kind in [Kind::Packet, Kind::Gso, Kind::Udp, Kind::UdpGso] {
        let name = format!("{kind}::sockets_share_a_port_by_job");
        let test = move || udp::sockets_share_a_port_by_job(kind);
        trials.push(trial(name, test, entered.is_err()));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: String, test: impl FnOnce() + Send + 'static, skipped: bool) -> Trial {
    let run = || {
        test();
        Ok(())
    };
    Trial::test(name, run).with_ignored_flag(skipped)
}

/// Why AF_XDP is unavailable, if it is.
fn xdp_is_refused() -> Option<String> {
    let testbed = two_hosts(1_500);
    let opened = testbed.run_in("h1", || XdpSocket::open(&Config::endpoint("eth0", PORT))).unwrap();
    match opened {
        Err(error @ (xdp::OpenError::NotPermitted(_) | xdp::OpenError::Unsupported)) => {
            Some(error.to_string())
        }
        // Tests report other problems.
        _ => None,
    }
}

/// The UDP port of the endpoints under test.
const PORT: u16 = 29_810;
/// Longer than any step of these tests.
const LONG: Duration = Duration::from_secs(20);
/// How long to wait for a frame that must not arrive.
const SHORT: Duration = Duration::from_millis(200);

fn host(name: &str, number: u8) -> Host {
    Host { name: name.to_owned(), mac: mac(number), ip: ip(number), prefix: 24 }
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 84, 0, number)
}

/// Hosts `h1` and `h2`, joined by one link.
fn two_hosts(mtu: u32) -> Testbed {
    two_hosts_for(Kind::Packet, mtu)
}

/// Hosts `h1` and `h2` with a link for sockets of a kind.
fn two_hosts_for(kind: Kind, mtu: u32) -> Testbed {
    let topology = Topology {
        hosts: vec![host("h1", 1), host("h2", 2)],
        switches: Vec::new(),
        links: vec![Link { a: LinkEnd::new("h1", 0), b: LinkEnd::new("h2", 0), mtu }],
    };
    Testbed::build_for(kind, &topology).unwrap()
}

/// Hosts `h1` to `h<count>` at ports 0.. of switch `s`.
fn star(count: u8) -> Topology {
    let link = |number: u8| Link {
        a: LinkEnd::new(format!("h{number}"), 0),
        b: LinkEnd::new("s", u16::from(number) - 1),
        mtu: 1_500,
    };
    Topology {
        hosts: (1..=count).map(|number| host(&format!("h{number}"), number)).collect(),
        switches: vec![SwitchNode { name: "s".to_owned() }],
        links: (1..=count).map(link).collect(),
    }
}

fn open(testbed: &Testbed, kind: Kind, node: &str, config: Config) -> Device {
    testbed.run_in(node, || Device::open(kind, &config)).unwrap().unwrap()
}

fn endpoint(testbed: &Testbed, kind: Kind, node: &str) -> Device {
    open(testbed, kind, node, Config::endpoint("eth0", PORT))
}

/// Ports 0 to `count` - 1 of a switch.
fn ports(testbed: &Testbed, kind: Kind, node: &str, count: u16) -> Vec<Device> {
    let configs: Vec<Config> =
        (0..count).map(|port| Config::switch_port(format!("port{port}"))).collect();
    testbed.run_in(node, || Device::open_all(kind, &configs)).unwrap().unwrap()
}

/// A frame from host `from` to host `to` with `payload`.
fn datagram(from: u8, to: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(mac(from), mac(to))
        .ipv4(ip(from).octets(), ip(to).octets(), 64)
        .udp(PORT, port);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn send(port: &mut impl FrameIo, frame: &[u8]) {
    assert!(port.send(frame).unwrap());
    port.flush().unwrap();
}

/// Receives `count` frames, or as many as arrive within `limit`.
fn receive(port: &mut impl FrameIo, count: usize, limit: Duration) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let mut frames = Vec::new();
    while frames.len() < count && Instant::now() < deadline {
        let wanted = count - frames.len();
        if port.receive(wanted, &mut |frame| frames.push(frame.to_vec())).unwrap() == 0 {
            port.wait(Some(deadline.saturating_duration_since(Instant::now()))).unwrap();
        }
    }
    frames
}
