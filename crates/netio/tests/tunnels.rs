//! Sockets of one thread take turns with the same memory: what waits in one is safe from the others.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tributary_netio::FrameIo;
use tributary_netio::udp::Tunnel;

/// Cables of the test.
const CABLES: usize = 3;

fn end() -> Tunnel {
    Tunnel::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1 << 20).unwrap()
}

fn cable() -> (Tunnel, Tunnel) {
    let (mut near, mut far) = (end(), end());
    near.connect(far.address().unwrap()).unwrap();
    far.connect(near.address().unwrap()).unwrap();
    (near, far)
}

/// A frame that no other of the test is like.
fn frame(cable: usize, number: usize, length: usize) -> Vec<u8> {
    let seed = [cable as u8, number as u8, (number >> 8) as u8];
    (0..length).map(|at| seed[at % 3] ^ (at / 3) as u8).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// Of so many bytes.
    Send(usize),
    Flush,
    /// At most so many frames.
    Receive(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop::sample::select(vec![14, 60, 300, 300, 300, 1_500, 9_000]);
    prop_oneof![
        6 => length.prop_map(Step::Send),
        2 => Just(Step::Flush),
        3 => (1usize..5).prop_map(Step::Receive),
    ]
}

proptest! {
    #[test]
    fn frames_that_wait_in_one_socket_are_safe_from_others(
        steps in prop::collection::vec((0..CABLES, step()), 1..200),
    ) {
        let mut cables: Vec<(Tunnel, Tunnel)> = (0..CABLES).map(|_| cable()).collect();
        let mut sent = vec![Vec::new(); CABLES];
        let mut received = vec![Vec::new(); CABLES];
        for (at, step) in steps {
            let (near, far) = &mut cables[at];
            match step {
                Step::Send(length) => {
                    let frame = frame(at, sent[at].len(), length);
                    if near.send(&frame).unwrap() {
                        sent[at].push(frame);
                    }
                }
                Step::Flush => near.flush().unwrap(),
                Step::Receive(max) => {
                    far.receive(max, &mut |frame| received[at].push(frame.to_vec())).unwrap();
                }
            }
        }
        let end = Instant::now() + Duration::from_secs(20);
        while (0..CABLES).any(|at| received[at].len() < sent[at].len()) && Instant::now() < end {
            for (at, (near, far)) in cables.iter_mut().enumerate() {
                near.flush().unwrap();
                far.receive(3, &mut |frame| received[at].push(frame.to_vec())).unwrap();
            }
        }
        prop_assert!(received == sent);
    }
}
