//! Latency and throughput of AF_PACKET between two namespaces: `cargo bench -p tributary-testbed`.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use tributary_netio::FrameIo;
use tributary_netio::packet::{Config, PacketSocket};
use tributary_testbed::{Host, Link, Port, Testbed, Topology, enter_user_namespace_if_needed};

const ROUNDS: u32 = 50_000;
const STREAM_TIME: Duration = Duration::from_secs(1);

fn build() -> Testbed {
    let host = |number: u8| Host {
        name: format!("h{number}"),
        mac: [2, 0, 0, 0, 0, number],
        ip: Ipv4Addr::new(10, 84, 0, number),
        prefix: 24,
    };
    let link = Link { a: Port::new("h1", 0), b: Port::new("h2", 0), mtu: 9_500 };
    let topology =
        Topology { hosts: vec![host(1), host(2)], switches: Vec::new(), links: vec![link] };
    Testbed::build(&topology).expect("namespaces")
}

/// A frame of a private EtherType, so that the hosts' kernels ignore it.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    frame
}

fn send_one(port: &mut PacketSocket, frame: &[u8]) {
    assert!(port.send(frame).expect("veth"));
    port.flush().expect("veth");
}

fn receive_one(port: &mut PacketSocket) {
    while port.receive(1, &mut |frame| _ = black_box(frame[0])).expect("veth") == 0 {
        port.wait(None).expect("veth");
    }
}

fn ping_pong(left: &mut PacketSocket, right: &mut PacketSocket) -> Duration {
    let frame = frame(320);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                receive_one(right);
                send_one(right, &frame);
            }
        });
        for _ in 0..ROUNDS {
            send_one(left, &frame);
            receive_one(left);
        }
    });
    start.elapsed() / (2 * ROUNDS)
}

/// Frames per second sent and received.
fn stream(left: &mut PacketSocket, right: &mut PacketSocket, bytes: usize) -> (f64, f64) {
    let frame = frame(bytes);
    let end = Instant::now() + STREAM_TIME;
    let (mut sent, mut received) = (0_u64, 0_u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                for _ in 0..32 {
                    sent += u64::from(left.send(&frame).expect("veth"));
                }
                left.flush().expect("veth");
            }
        });
        while Instant::now() < end {
            let count = right.receive(32, &mut |frame| _ = black_box(frame[0])).expect("veth");
            received += count as u64;
            if count == 0 {
                right.wait(Some(Duration::from_millis(10))).expect("veth");
            }
        }
    });
    while right.receive(32, &mut |_| {}).expect("veth") > 0 {}
    let seconds = STREAM_TIME.as_secs_f64();
    (sent as f64 / seconds, received as f64 / seconds)
}

fn main() {
    if let Err(reason) = enter_user_namespace_if_needed() {
        println!("skipped: {reason}");
        return;
    }
    let testbed = build();
    let open = |node: &str| {
        let open = || PacketSocket::open(&Config::switch_port("eth0"));
        testbed.run_in(node, open).expect("a thread").expect("a socket")
    };
    let (mut left, mut right) = (open("h1"), open("h2"));
    println!("one way: {:?}", ping_pong(&mut left, &mut right));
    for bytes in [60, 320, 1_500, 3_498, 9_014] {
        let (sent, received) = stream(&mut left, &mut right, bytes);
        println!(
            "{bytes:4} byte frames: sent {:.2}, received {:.2} million/s",
            sent / 1e6,
            received / 1e6
        );
    }
}
