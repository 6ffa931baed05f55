//! The kernel's own ARP and TCP between hosts, through the switch that runs ATP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_testbed::{Host, Link, Output, Port, Switch, Testbed, Topology};

use crate::command::{JobFile, namespaces, root};

const BYTES: usize = 300_000;

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
    if !namespaces() {
        return;
    }
    let file = JobFile::new("[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n");
    let hosts = [host(1, "w1"), host(2, "w2"), host(3, "ps")];
    let cable = |(index, host): (usize, &Host)| Link {
        a: Port::new(&host.name, 0),
        b: Port::new("s1", u16::try_from(index).unwrap() + 1),
        mtu: 1500,
    };
    let testbed = Testbed::build(&Topology {
        links: hosts.iter().enumerate().map(cable).collect(),
        hosts: hosts.to_vec(),
        switches: vec![Switch { name: "s1".into() }],
    })
    .unwrap();
    let socket = format!("unix:{}", file.path("s1.sock").display());
    let start = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(args).current_dir(root());
        testbed.spawn("s1", command, Output::Keep).unwrap()
    };
    let ports = ["--port", "1@port1", "--port", "2@port2", "--port", "3@port3"];
    start(&[&["switch", "--p4runtime", &socket], &ports[..]].concat());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !file.path("s1.sock").exists() {
        assert!(Instant::now() < deadline, "the switch does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let at = format!("s1={socket}");
    let controller = start(&["controller", &file.name(), "--switch", &at]);
    while !controller.output(tributary_testbed::Stream::Out).contains("admitted") {
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
    let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
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
