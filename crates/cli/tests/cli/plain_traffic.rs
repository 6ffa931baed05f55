//! The kernel's own ARP and TCP between hosts, through the switch that runs ATP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_netio::device::Kind as Io;
use tributary_run::testbed::{Host, Link, LinkEnd, Output, SwitchNode, Testbed, Topology};

use crate::command::{JobFile, namespaces, root};

fn host(number: u8, name: &str) -> Host {
    Host {
        name: name.into(),
        mac: [2, 0, 10, 0, 1, number],
        ip: Ipv4Addr::new(10, 0, 1, number),
        prefix: 8,
    }
}

#[test]
fn tcp_and_arp_pass_beside_the_aggregation() {
    if namespaces() {
        check_transfer(Io::Packet, 300_000);
    }
}

/// The kernel segments TCP later, and leaves checksums to others: the switch port does both.
#[test]
fn tcp_passes_with_all_offloads_on() {
    if namespaces() {
        check_transfer(Io::Gso, 12_000_000);
    }
}

/// Sends as many bytes through a switch with ports of a kind, and compares what arrives.
fn check_transfer(io: Io, bytes: usize) {
    let file = JobFile::new("[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n");
    let hosts = [host(1, "w1"), host(2, "w2"), host(3, "ps")];
    let cable = |(index, host): (usize, &Host)| Link {
        a: LinkEnd::new(&host.name, 0),
        b: LinkEnd::new("s1", u16::try_from(index).unwrap() + 1),
        mtu: 1500,
    };
    let topology = Topology {
        links: hosts.iter().enumerate().map(cable).collect(),
        hosts: hosts.to_vec(),
        switches: vec![SwitchNode { name: "s1".into() }],
    };
    let testbed = Testbed::build_for(io, &topology).unwrap();
    let socket = format!("unix:{}", file.path("s1.sock").display());
    let start = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(args).current_dir(root());
        testbed.spawn("s1", command, Output::Keep).unwrap()
    };
    let ports = ["--port", "1@port1", "--port", "2@port2", "--port", "3@port3"];
    let io = io.to_string();
    start(&[&["switch", "--io", &io, "--p4runtime", &socket], &ports[..]].concat());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !file.path("s1.sock").exists() {
        assert!(Instant::now() < deadline, "the switch does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let at = format!("s1={socket}");
    let controller = start(&["controller", &file.name(), "--switch", &at]);
    while !controller.output(tributary_run::testbed::Stream::Out).contains("admitted") {
        assert!(Instant::now() < deadline, "the controller admits no job");
        std::thread::sleep(Duration::from_millis(20));
    }

    let listener = testbed.run_in("w2", || TcpListener::bind("10.0.1.2:4000").unwrap()).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251 + at / 65_537) as u8).collect();
    let mut stream = testbed
        .run_in("w1", || {
            let address = "10.0.1.2:4000".parse().unwrap();
            TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap()
        })
        .unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert!(server.join().unwrap() == sent, "TCP carries the bytes through the switch");
}
