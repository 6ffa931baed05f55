//! Latency and throughput of memory links: `cargo bench -p tributary-netio`.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use tributary_netio::memory::{self, MemoryPort};
use tributary_netio::{FrameIo, Poller, Waker};

const ROUNDS: u32 = 100_000;
const FRAMES: u32 = 2_000_000;

fn receive_one(port: &mut MemoryPort, mut sleep: impl FnMut(&mut MemoryPort)) {
    while port.receive(1, &mut |frame| _ = black_box(frame[0])).expect("memory") == 0 {
        sleep(port);
    }
}

fn send_one(port: &mut MemoryPort) {
    assert!(port.send(&[0; 320]).expect("memory"));
    port.flush().expect("memory");
}

/// Sends one frame back and forth. Returns the one-way time.
fn ping_pong(
    mut sleep_left: impl FnMut(&mut MemoryPort),
    sleep_right: impl FnMut(&mut MemoryPort) + Send,
) -> Duration {
    let (mut left, mut right) = memory::pair();
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sleep = sleep_right;
            for _ in 0..ROUNDS {
                receive_one(&mut right, &mut sleep);
                send_one(&mut right);
            }
        });
        for _ in 0..ROUNDS {
            send_one(&mut left);
            receive_one(&mut left, &mut sleep_left);
        }
    });
    start.elapsed() / (2 * ROUNDS)
}

/// One thread sends, one receives. Returns frames per second.
fn stream(bytes: usize) -> f64 {
    let (mut left, mut right) = memory::link(256, &Waker::new(), &Waker::new());
    let frame = vec![0; bytes];
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..FRAMES {
                while !left.send(&frame).expect("memory") {
                    left.wait(None).expect("memory");
                }
                if number % 32 == 31 {
                    left.flush().expect("memory");
                }
            }
            left.flush().expect("memory");
        });
        let mut left_over = FRAMES as usize;
        while left_over > 0 {
            match right.receive(32, &mut |frame| _ = black_box(frame[0])).expect("memory") {
                0 => right.wait(None).expect("memory"),
                received => left_over -= received,
            }
        }
    });
    f64::from(FRAMES) / start.elapsed().as_secs_f64()
}

fn main() {
    let wait = |port: &mut MemoryPort| port.wait(None).expect("memory");
    println!("one way, each end waits for its port alone:  {:?}", ping_pong(wait, wait));
    let (mut left, mut right) = (Poller::new(), Poller::new());
    let one_way = ping_pong(
        |port| {
            left.add(port).and_then(|()| left.wait(None)).expect("memory");
        },
        |port| {
            right.add(port).and_then(|()| right.wait(None)).expect("memory");
        },
    );
    println!("one way, each end polls two wakers:          {one_way:?}");
    for bytes in [60, 320, 1_500, 9_014] {
        println!("stream of {bytes:4} byte frames: {:8.2} million/s", stream(bytes) / 1e6);
    }
}
