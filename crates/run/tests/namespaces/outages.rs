//! Interfaces that are down for a while, at a host.

use std::io::ErrorKind;

use super::*;

pub(crate) const TESTS: &[TestOfKind] = &[
    ("an_interface_that_is_down_loses_frames", an_interface_that_is_down_loses_frames),
    ("an_interface_that_stays_down_is_an_error", an_interface_that_stays_down_is_an_error),
];

fn host_and_port(kind: Kind, outage: Duration) -> (Testbed, Device, Device) {
    let testbed = two_hosts_for(kind, 1_500);
    let config = Config { outage, ..Config::endpoint("eth0", PORT) };
    let host = open(&testbed, kind, "h1", config);
    let port = open(&testbed, kind.of_ports(), "h2", Config::switch_port("eth0"));
    (testbed, host, port)
}

fn there(payload: &[u8]) -> Vec<u8> {
    let mut frame = datagram(1, 2, PORT, payload);
    // UDP sockets leave checksums out.
    frame[40..42].fill(0);
    frame
}

fn an_interface_that_is_down_loses_frames(kind: Kind) {
    let (testbed, mut host, mut port) = host_and_port(kind, LONG);
    for _ in 0..2 {
        testbed.set_link("h1", "eth0", false).unwrap();
        // More than any queue holds.
        for _ in 0..3_000 {
            assert!(host.send(&there(b"lost")).unwrap());
            host.flush().unwrap();
        }
        assert_eq!(host.receive(1, &mut |_| {}).unwrap(), 0);
        let begin = Instant::now();
        host.wait(Some(SHORT)).unwrap();
        assert!(begin.elapsed() < LONG);
        testbed.set_link("h1", "eth0", true).unwrap();
        if kind.is_routed() {
            // The kernel has forgotten it.
            testbed.add_neighbour("h1", "eth0", ip(2), mac(2)).unwrap();
        }
        let deadline = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < deadline, "the link does not come back");
            send(&mut host, &there(b"again"));
            // What it had queued, and the kernel's own, may come first.
            let arrived = receive(&mut port, 4_000, SHORT);
            if arrived.iter().any(|frame| frame.get(42..47) == Some(b"again")) {
                break;
            }
        }
        send(&mut port, &datagram(2, 1, PORT, b"back"));
        assert_eq!(receive(&mut host, 1, LONG).len(), 1);
    }
}

/// Also for an endpoint that only receives.
fn an_interface_that_stays_down_is_an_error(kind: Kind) {
    for sends in [true, false] {
        let patience = Duration::from_millis(300);
        let (testbed, mut host, _port) = host_and_port(kind, patience);
        let begin = Instant::now();
        testbed.set_link("h1", "eth0", false).unwrap();
        let error = loop {
            if begin.elapsed() > 3 * patience && (kind.is_routed() || kind == Kind::Xdp && !sends) {
                // The kernel tells UDP sockets that there is no route, and AF_XDP sockets only what
                // becomes of sent frames.
                break None;
            }
            assert!(begin.elapsed() < LONG, "no error");
            let sent = if sends { host.send(&there(b"lost")).map(drop) } else { Ok(()) };
            let done = sent.and_then(|()| host.flush()).and_then(|()| host.receive(1, &mut |_| {}));
            if let Err(error) = done {
                break Some(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if let Some(error) = error {
            assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
            assert!(error.to_string().contains("`eth0`"), "{error}");
            assert!(begin.elapsed() >= patience, "{:?}", begin.elapsed());
        }
    }
}
