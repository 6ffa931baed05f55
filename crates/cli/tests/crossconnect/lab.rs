//! Hosts in network namespaces, one behind each port of a cross-connect.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tributary_model::circuits::{Circuits, Port};
use tributary_netio::FrameIo;
use tributary_netio::packet::{Config, PacketSocket};
use tributary_run::testbed::{Host, Link, SwitchNode, Testbed, Topology};

/// Number of ports and hosts.
pub(crate) const PORTS: u16 = 5;

/// The node where the cross-connect runs; its interfaces are `port1` to `port5`.
pub(crate) const NODE: &str = "oxc";

/// The EtherType for local experiments.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// Time without a frame after which a receiver stops.
const SILENCE: Duration = Duration::from_millis(40);

/// The destinations of frames: a cross-connect does not look at them. The last is not forwarded by
/// switches that learn addresses.
const DESTINATIONS: [[u8; 6]; 3] =
    [[2, 0, 0, 0, 0, 77], [0xff; 6], [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]];

/// How many frames arrived, by the ports where they entered and left.
pub(crate) type Arrivals = BTreeMap<(u16, u16), usize>;

/// The hosts and their network.
pub(crate) struct Lab {
    pub(crate) testbed: Testbed,
    hosts: Vec<PacketSocket>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let name = |port: u16| format!("h{port}");
        let host = |port: u16| {
            let last = u8::try_from(port).unwrap();
            let (mac, ip) = ([2, 0, 0, 0, 0, last], Ipv4Addr::new(10, 0, 0, last));
            Host { name: name(port), mac, ip, prefix: 24 }
        };
        let link = |port| Link {
            a: tributary_run::testbed::LinkEnd::new(name(port), 0),
            b: tributary_run::testbed::LinkEnd::new(NODE, port),
            mtu: 1500,
        };
        let testbed = Testbed::build(&Topology {
            hosts: (1..=PORTS).map(host).collect(),
            switches: vec![SwitchNode { name: NODE.into() }],
            links: (1..=PORTS).map(link).collect(),
        })
        .unwrap();
        let open = |port: u16| {
            let open = || PacketSocket::open(&Config::switch_port("eth0")).unwrap();
            testbed.run_in(&name(port), open).unwrap()
        };
        let hosts = (1..=PORTS).map(open).collect();
        Self { testbed, hosts }
    }

    /// Sends frames from every host, and returns where they arrive.
    pub(crate) fn frames(&mut self) -> Arrivals {
        for host in &mut self.hosts {
            while host.receive(64, &mut |_| {}).unwrap() > 0 {}
        }
        for (port, host) in (1..).zip(&mut self.hosts) {
            for destination in DESTINATIONS {
                assert!(host.send(&frame(destination, port, 0, 1514)).unwrap());
            }
            host.flush().unwrap();
        }
        let mut arrivals = Arrivals::new();
        let mut last = Instant::now();
        while last.elapsed() < SILENCE {
            for (port, host) in (1..).zip(&mut self.hosts) {
                let received = host.receive(64, &mut |frame| {
                    if let Some((from, _)) = read(frame) {
                        assert_eq!(frame.len(), 1514);
                        *arrivals.entry((from, port)).or_default() += 1;
                    }
                });
                if received.unwrap() > 0 {
                    last = Instant::now();
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        arrivals
    }

    /// Checks that frames pass along these circuits and nowhere else, after `patience` at the latest.
    pub(crate) fn expect(&mut self, circuits: &Circuits, patience: Duration) {
        let ports = circuits.pairs().flat_map(|(a, b)| [(a.0, b.0), (b.0, a.0)]);
        let expected: Arrivals = ports.map(|ports| (ports, DESTINATIONS.len())).collect();
        let begun = Instant::now();
        loop {
            let arrivals = self.frames();
            if arrivals == expected {
                return;
            }
            assert!(begun.elapsed() < patience, "{circuits:?}: {arrivals:?}");
        }
    }

    /// Sends numbered frames from a host to another one without pause.
    pub(crate) fn stream(&self, from: Port, to: Port) -> Stream {
        let open = |port: Port| {
            let open = || PacketSocket::open(&Config::switch_port("eth0")).unwrap();
            self.testbed.run_in(&format!("h{port}"), open).unwrap()
        };
        let (mut sender, mut receiver) = (open(from), open(to));
        // Streams from one host have numbers far apart.
        let first = u32::from(to.0) << 24;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut sent = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let number = first + u32::try_from(sent.len()).unwrap();
                assert!(sender.send(&frame([0xff; 6], from.0, number, 200)).unwrap());
                sender.flush().unwrap();
                sent.push(Instant::now());
                thread::sleep(Duration::from_micros(500));
            }
            thread::sleep(SILENCE);
            let mut arrived = Vec::new();
            let mut note = |frame: &[u8]| arrived.extend(read(frame));
            while receiver.receive(64, &mut note).unwrap() > 0 {}
            let own = arrived.iter().filter(|(port, _)| *port == from.0);
            let numbers = own.filter_map(|(_, number)| number.checked_sub(first));
            let arrived = numbers.map(|number| number as usize).filter(|at| *at < sent.len());
            Streamed { arrived: arrived.collect(), sent }
        });
        Stream { stop, thread }
    }
}

/// Frames that are being sent.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Streamed>,
}

/// Frames that were sent, with the times after that, and the numbers of those that arrived.
pub(crate) struct Streamed {
    pub(crate) sent: Vec<Instant>,
    pub(crate) arrived: Vec<usize>,
}

impl Stream {
    pub(crate) fn end(self) -> Streamed {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn frame(destination: [u8; 6], from: u16, number: u32, length: usize) -> Vec<u8> {
    let source = [2, 0, 0, 0, 0, u8::try_from(from).unwrap()];
    let head = [&destination[..], &source, &ETHER_TYPE].concat();
    let mut frame = [&head[..], &from.to_be_bytes(), &number.to_be_bytes()].concat();
    frame.resize(length, 0x5a);
    frame
}

/// The port and number of a frame of ours.
fn read(frame: &[u8]) -> Option<(u16, u32)> {
    let from = u16::from_be_bytes(*frame.get(14..)?.first_chunk()?);
    let number = u32::from_be_bytes(*frame.get(16..)?.first_chunk()?);
    (frame[12..14] == ETHER_TYPE).then_some((from, number))
}
