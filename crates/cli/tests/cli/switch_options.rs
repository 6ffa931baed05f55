//! Queues, rates and captures of `tributary switch`.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

use crate::command::{fail, namespaces, root};

/// Sends what comes by port 1 to port 2, with a priority from the lowest bits of the UDP port: 4000 has 0, 4007 has 7.
const PROGRAM: &str = "#include <core.p4>
#include <v1model.p4>
header bytes_t { bit<288> head; bit<16> port; }
struct headers_t { bytes_t bytes; }
struct meta_t {}
parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.bytes); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) { apply {} }
control Rank(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 2; s.priority = (bit<3>) h.bytes.port; }
}
control Leave(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control Update(inout headers_t h, inout meta_t m) { apply {} }
control Emit(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(Parse(), Verify(), Rank(), Leave(), Update(), Emit()) main;
";

const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

/// Two hosts at a switch.
fn testbed() -> Testbed {
    let host = |number: u8| Host {
        name: format!("h{number}"),
        mac: [2, 0, 10, 0, 1, number],
        ip: Ipv4Addr::new(10, 0, 1, number),
        prefix: 8,
    };
    let cable = |number: u16| Link {
        a: LinkEnd::new(format!("h{number}"), 0),
        b: LinkEnd::new("s1", number),
        mtu: 1500,
    };
    let topology = Topology {
        links: vec![cable(1), cable(2)],
        hosts: vec![host(1), host(2)],
        switches: vec![SwitchNode { name: "s1".into() }],
    };
    let interface = topology.interface(&LinkEnd::new("h1", 0));
    let testbed = Testbed::build(&topology).unwrap();
    testbed.add_neighbour("h1", &interface, RECEIVER, [2, 0, 10, 0, 1, 2]).unwrap();
    testbed
}

/// A switch with these options that runs the program.
fn start(testbed: &Testbed, folder: &std::path::Path, options: &[&str]) -> Process {
    let (program, socket) = (folder.join("program.p4"), folder.join("s1.sock"));
    std::fs::write(&program, PROGRAM).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.arg("switch").arg(program).args(["--port", "1@port1", "--port", "2@port2"]);
    command.arg("--p4runtime").arg(format!("unix:{}", socket.display()));
    let switch = testbed.spawn(
        "s1",
        {
            command.args(options).current_dir(root());
            command
        },
        Output::Keep,
    );
    let switch = switch.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "it does not listen: {}", switch.output(Stream::Err));
        std::thread::sleep(Duration::from_millis(20));
    }
    switch
}

/// Sockets of the sender, and of the receiver at two ports, the second of the higher priority.
fn sockets(testbed: &Testbed) -> (UdpSocket, [UdpSocket; 2]) {
    let sender = testbed.run_in("h1", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap();
    let receivers = [4000, 4007]
        .map(|port| testbed.run_in("h2", || UdpSocket::bind((RECEIVER, port)).unwrap()).unwrap());
    for receiver in &receivers {
        receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (sender, receivers)
}

#[test]
fn the_higher_priority_leaves_first_at_the_ports_rate_and_all_is_captured() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("ports.pcapng");
    let testbed = testbed();
    let options = ["--priority-queues", "8", "--rate", "2=400kb/s", "--capture"];
    let switch =
        start(&testbed, folder.path(), &[&options[..], &[capture.to_str().unwrap()]].concat());
    let (sender, [low, high]) = sockets(&testbed);
    // Forty packets of 1000 bytes take 0.8 s and more. A later one of a higher priority passes most of them.
    low.set_nonblocking(true).unwrap();
    let began = Instant::now();
    for _ in 0..40 {
        sender.send_to(&[0; 958], (RECEIVER, 4000)).unwrap();
    }
    sender.send_to(b"first", (RECEIVER, 4007)).unwrap();
    let mut buffer = [0; 2000];
    high.recv_from(&mut buffer).unwrap();
    let before = std::iter::from_fn(|| low.recv_from(&mut buffer).ok()).count();
    low.set_nonblocking(false).unwrap();
    for _ in before..40 {
        low.recv_from(&mut buffer).unwrap();
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(720), "40 kB at 400 kb/s took {took:?}");
    assert!(before < 30, "it came after {before} of 40");
    switch.ask_to_end();
    assert!(switch.end(Duration::from_secs(20)).unwrap().success());
    let said = switch.output(Stream::Out);
    assert!(said.contains(" frames captured in"), "{said}");
    // It came in by one port and left by the other.
    let written = std::fs::read(&capture).unwrap();
    assert_eq!(written.windows(5).filter(|bytes| *bytes == b"first").count(), 2);
}

#[test]
fn packets_of_a_missing_queue_are_told() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let testbed = testbed();
    let switch = start(&testbed, folder.path(), &[]);
    let (sender, _) = sockets(&testbed);
    for _ in 0..3 {
        sender.send_to(b"lost", (RECEIVER, 4007)).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !switch.output(Stream::Err).contains("--priority-queues") {
        assert!(Instant::now() < deadline, "no warning: {}", switch.output(Stream::Err));
        std::thread::sleep(Duration::from_millis(50));
    }
    switch.ask_to_end();
    assert!(switch.end(Duration::from_secs(20)).unwrap().success());
    let said = switch.output(Stream::Out);
    assert!(said.contains("3 packets or copies dropped of a priority"), "{said}");
}

#[test]
fn wrong_rates_are_named() {
    let rate = |rate| fail(&["switch", "--port", "1@lo", "--rate", rate]);
    assert!(rate("1=fast").contains("write PORT=RATE, such as 2=10Mb/s"));
    assert!(rate("10Mb/s").contains("write PORT=RATE"));
    assert!(rate("1=0b/s").contains("write PORT=RATE"));
    assert!(rate("2=1Mb/s").contains("there is no port 2"));
    let line = fail(&["switch", "--port", "1@lo", "--rate", "1=1Mb/s", "--rate", "1=2Mb/s"]);
    assert!(line.contains("port 1 has a rate already"), "{line}");
}
