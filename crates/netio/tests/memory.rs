//! Memory links and sleeping: order, back-pressure, and no lost wake-ups.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use tributary_netio::faults::{Delay, FaultInjector, Faults, Faulty, Reorder};
use tributary_netio::memory::{self, MemoryPort};
use tributary_netio::{FrameIo, Poller, Waker, Watch};

/// Far longer than any regular sleep here: a sleep of this length was not woken.
const FOREVER: Duration = Duration::from_secs(20);

fn frame(number: u64, length: usize) -> Vec<u8> {
    let mut frame = vec![u8::try_from(number % 251).unwrap(); length.max(22)];
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[14..22].try_into().unwrap())
}

fn receive_all(port: &mut impl FrameIo) -> Vec<u64> {
    let mut numbers = Vec::new();
    port.receive(usize::MAX, &mut |frame| numbers.push(number(frame))).unwrap();
    numbers
}

fn wait_and_expect_a_reason(port: &mut impl FrameIo) {
    let start = Instant::now();
    port.wait(Some(FOREVER)).unwrap();
    assert!(start.elapsed() < FOREVER, "a wake-up was lost");
}

/// Sends frames `0..count` of different lengths, sleeping when there is no room.
fn send_numbers(port: &mut impl FrameIo, count: u64) {
    for number in 0..count {
        let length = usize::try_from(number * 7_919 % 9_000).unwrap();
        while !port.send(&frame(number, length)).unwrap() {
            wait_and_expect_a_reason(port);
        }
        if number % 5 == 0 {
            port.flush().unwrap();
        }
    }
    port.flush().unwrap();
}

fn expect_numbers(port: &mut impl FrameIo, count: u64) {
    let mut next = 0;
    while next < count {
        let received = port
            .receive(7, &mut |got| {
                let length = usize::try_from(next * 7_919 % 9_000).unwrap();
                assert!(got == frame(next, length), "frame {next} is not what was sent");
                next += 1;
            })
            .unwrap();
        if received == 0 {
            wait_and_expect_a_reason(port);
        }
    }
}

#[test]
fn frames_arrive_whole_and_in_order_both_ways_through_a_narrow_link() {
    for capacity in [1, 2, 3, 64] {
        let (mut left, mut right) = memory::link(capacity, &Waker::new(), &Waker::new());
        let (mut back_left, mut back_right) = memory::link(capacity, &Waker::new(), &Waker::new());
        thread::scope(|scope| {
            scope.spawn(|| send_numbers(&mut left, 20_000));
            scope.spawn(|| expect_numbers(&mut right, 20_000));
            scope.spawn(|| send_numbers(&mut back_right, 20_000));
            scope.spawn(|| expect_numbers(&mut back_left, 20_000));
        });
    }
}

#[test]
fn no_wake_up_is_lost_for_single_frames() {
    let (mut left, mut right) = memory::pair();
    let rounds = 20_000;
    let answer = |port: &mut MemoryPort| {
        let mut seen = 0;
        while seen < rounds {
            let mut got = None;
            port.receive(1, &mut |frame| got = Some(frame.to_vec())).unwrap();
            match got {
                Some(frame) => {
                    assert_eq!(number(&frame), seen);
                    seen += 1;
                    assert!(port.send(&frame).unwrap());
                    port.flush().unwrap();
                }
                None => wait_and_expect_a_reason(port),
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| answer(&mut right));
        for round in 0..rounds {
            assert!(left.send(&frame(round, 64)).unwrap());
            left.flush().unwrap();
            while receive_all(&mut left) != [round] {
                wait_and_expect_a_reason(&mut left);
            }
        }
    });
}

#[test]
fn a_full_link_refuses_frames_and_signals_room() {
    let (mut left, mut right) = memory::link(4, &Waker::new(), &Waker::new());
    for number in 0..4 {
        assert!(left.send(&frame(number, 60)).unwrap());
    }
    assert!(!left.send(&frame(4, 60)).unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_and_expect_a_reason(&mut left));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(right.receive(1, &mut |frame| assert_eq!(number(frame), 0)).unwrap(), 1);
        waiting.join().unwrap();
    });
    assert!(left.send(&frame(4, 60)).unwrap());
    assert!(!left.send(&frame(5, 60)).unwrap());
    assert_eq!(receive_all(&mut right), [1, 2, 3, 4]);
}

#[test]
fn a_refused_sender_does_not_spin() {
    let (mut left, mut right) = memory::link(1, &Waker::new(), &Waker::new());
    assert!(left.send(&frame(0, 60)).unwrap());
    assert!(!left.send(&frame(1, 60)).unwrap());
    assert_eq!(receive_all(&mut right), [0]);
    assert!(left.send(&frame(1, 60)).unwrap());
    // The wake-up for the room is consumed in one wait, or two if it also set the word.
    let start = Instant::now();
    for _ in 0..3 {
        left.wait(Some(Duration::from_millis(50))).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(50), "three waits ended for no reason");
}

#[test]
fn a_link_without_its_other_end_is_an_unplugged_cable() {
    let (mut left, right) = memory::link(2, &Waker::new(), &Waker::new());
    assert!(left.is_connected());
    assert!(left.send(&frame(0, 60)).unwrap());
    assert!(left.send(&frame(1, 60)).unwrap());
    assert!(!left.send(&frame(2, 60)).unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_and_expect_a_reason(&mut left));
        thread::sleep(Duration::from_millis(20));
        drop(right);
        waiting.join().unwrap();
    });
    assert!(!left.is_connected());
    for number in 0..10 {
        assert!(left.send(&frame(number, 60)).unwrap(), "vanishes");
    }
    assert_eq!(receive_all(&mut left), [0_u64; 0]);
}

#[test]
fn frames_sent_before_an_end_is_dropped_still_arrive() {
    let (mut left, mut right) = memory::pair();
    left.send(&frame(0, 60)).unwrap();
    left.send(&frame(1, 60)).unwrap();
    drop(left);
    assert_eq!(receive_all(&mut right), [0, 1]);
}

#[test]
fn invalid_frames_are_rejected() {
    let (mut left, mut right) = memory::pair();
    let error = left.send(&[0; 13]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let mut faulty = Faulty::new(left, Some(no_faults()), None);
    assert_eq!(faulty.send(&[0; 13]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(faulty.send(&[7; 14]).unwrap());
    faulty.flush().unwrap();
    assert_eq!(right.receive(9, &mut |frame| assert_eq!(frame, [7; 14])).unwrap(), 1);
}

#[test]
fn a_wake_up_before_the_sleep_ends_it_and_only_it() {
    let mut poller = Poller::new();
    poller.waker().wake();
    poller.waker().wake();
    let start = Instant::now();
    poller.wait(Some(FOREVER)).unwrap();
    assert!(start.elapsed() < FOREVER);
    let start = Instant::now();
    poller.wait(Some(Duration::from_millis(30))).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30), "the first wait used it up");
}

/// A port on a descriptor, like an AF_PACKET socket, that needs no privileges.
struct DatagramPort(UnixDatagram);

impl FrameIo for DatagramPort {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut buffer = [0; 9_100];
        for received in 0..max {
            match self.0.recv(&mut buffer) {
                Ok(length) => sink(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                Err(error) => return Err(error),
            }
        }
        Ok(max)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        match self.0.send(frame) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|_| true),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        watch.descriptor(&self.0, 1 /* POLLIN */);
        Ok(())
    }
}

#[test]
fn one_thread_waits_for_ports_of_all_kinds_and_for_other_threads() {
    let mut poller = Poller::new();
    let (near, mut shared) = memory::link(8, poller.waker(), &Waker::new());
    let (other, mut separate) = memory::link(8, &Waker::new(), &Waker::new());
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut descriptor = DatagramPort(theirs);
    let mut ports: Vec<Box<dyn FrameIo>> =
        vec![Box::new(near), Box::new(other), Box::new(DatagramPort(ours))];
    let waker = poller.waker().clone();
    let rounds = 3_000;
    thread::scope(|scope| {
        let (turn, turns) = std::sync::mpsc::channel();
        scope.spawn(move || {
            // One event at a time: if its wake-up is lost, no other event compensates.
            for round in 0..rounds {
                let frame = frame(round, 60);
                match round % 4 {
                    0 => assert!(shared.send(&frame).unwrap()),
                    1 => assert!(separate.send(&frame).unwrap()),
                    2 => assert!(descriptor.send(&frame).unwrap()),
                    _ => waker.wake(),
                }
                shared.flush().unwrap();
                separate.flush().unwrap();
                turns.recv().unwrap();
            }
        });
        for round in 0..rounds {
            let mut woken_by = None;
            while woken_by.is_none() {
                for port in &mut ports {
                    poller.add(port).unwrap();
                }
                let start = Instant::now();
                poller.wait(Some(FOREVER)).unwrap();
                assert!(start.elapsed() < FOREVER, "round {round}: a wake-up was lost");
                for (index, port) in ports.iter_mut().enumerate() {
                    port.receive(32, &mut |frame| {
                        assert_eq!(number(frame), round);
                        woken_by = Some(index);
                    })
                    .unwrap();
                }
                if round % 4 == 3 {
                    woken_by = Some(3);
                }
            }
            assert_eq!(woken_by, Some(usize::try_from(round % 4).unwrap()));
            turn.send(()).unwrap();
        }
    });
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedule.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn an_idle_thread_costs_nothing() {
    let (mut left, _right) = memory::pair();
    let mut poller = Poller::new();
    let before = processor_time();
    for _ in 0..20 {
        left.wait(Some(Duration::from_millis(5))).unwrap();
        poller.add(&mut left).unwrap();
        poller.wait(Some(Duration::from_millis(5))).unwrap();
    }
    let used = processor_time() - before;
    assert!(used < Duration::from_millis(60), "{used:?} of 200 ms");
}

#[test]
fn a_sleep_that_nothing_can_end_is_an_error() {
    assert_eq!(Watch::new().sleep(None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

fn no_faults() -> FaultInjector {
    FaultInjector::new(Faults::default(), 0, 0).unwrap()
}

fn bad_line(stream: u64) -> FaultInjector {
    let faults = Faults {
        loss: 0.1,
        burst: 0,
        duplicate: 0.05,
        reorder: Reorder { probability: 0.1, ..Reorder::default() },
        delay: Delay { fixed: Duration::from_micros(30), jitter: Duration::from_micros(30) },
        outages: Vec::new(),
    };
    FaultInjector::new(faults, 11, stream).unwrap()
}

#[test]
fn real_time_faults_are_those_of_the_seed() {
    let (left, right) = memory::link(16, &Waker::new(), &Waker::new());
    let mut left = Faulty::new(left, Some(bad_line(0)), None);
    let mut right = Faulty::new(right, None, Some(bad_line(1)));
    let count = 5_000;
    // The copies that survive both lines. Their numbers on the second line depend on the order
    // after the first.
    let mut first = bad_line(0);
    let expected: usize = (0..count).map(|number| first.decide(0, number).copies().len()).sum();

    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            send_numbers(&mut left, count);
            // Held-back frames continue while waiting.
            let end = Instant::now() + Duration::from_millis(50);
            while Instant::now() < end {
                left.wait(Some(Duration::from_millis(1))).unwrap();
            }
        });
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_millis(500) {
            right.wait(Some(Duration::from_millis(50))).unwrap();
            if right.receive(64, &mut |frame| received.push(number(frame))).unwrap() > 0 {
                last = Instant::now();
            }
        }
    });
    let (sent, got) = (left.send_statistics(), right.receive_statistics());
    assert_eq!(sent.frames, count);
    assert_eq!(sent.frames - sent.lost + sent.duplicated, expected as u64);
    assert_eq!(got.frames, expected as u64, "the memory link loses nothing");
    assert_eq!(received.len() as u64, got.frames - got.lost + got.duplicated);
    assert!(sent.lost > 0 && got.reordered > 0 && !received.is_sorted());
}

#[test]
fn a_frame_held_back_wakes_its_thread_when_it_is_due() {
    let (mut left, right) = memory::pair();
    let delay = Duration::from_millis(30);
    let straggler = FaultInjector::new(Faults::straggler(delay), 0, 0).unwrap();
    let mut right = Faulty::new(right, None, Some(straggler));
    left.send(&frame(0, 60)).unwrap();
    left.flush().unwrap();
    let start = Instant::now();
    let mut received = receive_all(&mut right);
    assert_eq!(received, [0_u64; 0], "not before its time");
    while received.is_empty() {
        wait_and_expect_a_reason(&mut right);
        received = receive_all(&mut right);
    }
    assert_eq!(received, [0]);
    assert!(start.elapsed() >= delay);
}

#[test]
fn back_pressure_passes_through_a_line_without_faults() {
    let (left, mut right) = memory::link(2, &Waker::new(), &Waker::new());
    let mut left = Faulty::new(left, Some(no_faults()), None);
    thread::scope(|scope| {
        scope.spawn(|| expect_numbers(&mut right, 3_000));
        send_numbers(&mut left, 3_000);
        while left.inner().is_connected() && left.send_statistics().frames < 3_000 {
            wait_and_expect_a_reason(&mut left);
        }
        // The last frames may still wait for room in the link.
        for _ in 0..200 {
            left.wait(Some(Duration::from_millis(1))).unwrap();
        }
    });
}

#[test]
fn frames_exempt_from_faults_pass_a_line_that_loses_everything() {
    let lossy = || {
        let faults = Faults { loss: 1.0, ..Faults::default() };
        Some(FaultInjector::new(faults, 1, 0).unwrap())
    };
    let even = |frame: &[u8]| number(frame).is_multiple_of(2);
    let (left, mut right) = memory::pair();
    let mut left = Faulty::new(left, lossy(), lossy()).only(even);
    for count in 0..6 {
        assert!(left.send(&frame(count, 60)).unwrap());
        assert!(right.send(&frame(count, 60)).unwrap());
    }
    left.flush().unwrap();
    right.flush().unwrap();
    assert_eq!(receive_all(&mut right), [1, 3, 5]);
    assert_eq!(receive_all(&mut left), [1, 3, 5]);
    assert_eq!((left.send_statistics().lost, left.receive_statistics().lost), (3, 3));
}
