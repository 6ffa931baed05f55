//! The thread that moves frames, over memory links.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tributary_netio::{FrameIo, Watch, memory};
use tributary_switch::SwitchConfig;
use tributary_switch::runtime::{Runtime, Stopped, SwitchHandle};

use crate::common::*;

/// A running switch with traffic.p4 and ports 1 to `rates.len()`; the far ends of its links.
fn running(capacity: usize, rates: &[Option<u64>]) -> (SwitchHandle, Vec<memory::MemoryPort>) {
    let mut runtime = Runtime::new(SwitchConfig::default());
    let mut far_ends = Vec::new();
    for (port, &rate) in (1..).zip(rates) {
        let (near, far) = memory::link(capacity, runtime.waker(), &Default::default());
        runtime.add_port(port, Box::new(near), rate);
        far_ends.push(far);
    }
    let (handle, _) = runtime.start().unwrap();
    let program = forwarding(TRAFFIC);
    handle.control().call(|switch, _| switch.commit(program)).unwrap();
    (handle, far_ends)
}

fn receive(port: &mut memory::MemoryPort, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while frames.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} frames came", frames.len());
        port.wait(Some(Duration::from_millis(100))).unwrap();
        port.receive(count - frames.len(), &mut |frame| frames.push(frame.to_vec())).unwrap();
    }
    frames
}

fn send(port: &mut memory::MemoryPort, frame: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !port.send(frame).unwrap() {
        assert!(Instant::now() < deadline, "no room");
        port.wait(Some(Duration::from_millis(100))).unwrap();
    }
    port.flush().unwrap();
}

#[test]
fn frames_cross_in_order_and_none_is_lost() {
    let (handle, mut ports) = running(64, &[None, None]);
    let [first, second] = &mut ports[..] else { unreachable!() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..20_000u32 {
                // Never more in flight than queue and link hold, so that none is dropped.
                send(first, &probe(UNICAST, 0, 2, &i.to_be_bytes()));
                if i % 512 == 511 {
                    receive(first, 1);
                }
            }
        });
        for i in 0..20_000u32 {
            let frame = &receive(second, 1)[0];
            assert_eq!(seen(frame).name, i.to_be_bytes());
            if i % 512 == 511 {
                send(second, &probe(UNICAST, 0, 1, b"go on"));
            }
        }
    });
    let report = handle.stop();
    assert_eq!(report.ports[0].1.received, 20_000);
    assert_eq!((report.ports[1].1.sent, report.ports[1].1.queue_drops), (20_000, 0));
}

#[test]
fn a_port_without_room_keeps_its_packets_in_its_queue() {
    let (handle, mut ports) = running(4, &[None, None]);
    for i in 0..40u8 {
        send(&mut ports[0], &probe(UNICAST, 0, 2, &[i]));
    }
    // Four are in the link, one is held, the others are queued.
    let deadline = Instant::now() + Duration::from_secs(20);
    while handle.control().statistics().unwrap().1[0].1.received < 40 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (_, statistics) = handle.control().statistics().unwrap();
    assert_eq!((statistics[1].0, statistics[1].1.depth), (2, 35));
    let frames = receive(&mut ports[1], 40);
    let seen: Vec<Seen> = frames.iter().map(|f| seen(f)).collect();
    assert_eq!(seen.iter().map(|s| s.name[0]).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert!(seen.iter().map(|s| s.enq_qdepth).max() >= Some(34), "the program saw the queue grow");
    drop(handle);
}

#[test]
fn a_rate_is_kept_and_makes_a_queue() {
    // 40 frames of 1000 bytes and 24 of overhead at 8.192 Mbit/s: a millisecond each.
    let (handle, mut ports) = running(256, &[None, Some(8_192_000)]);
    let start = Instant::now();
    for _ in 0..40 {
        send(&mut ports[0], &probe(UNICAST, 0, 2, &[0; 968]));
    }
    let frames = receive(&mut ports[1], 40);
    assert!(start.elapsed() >= Duration::from_millis(38), "{:?}", start.elapsed());
    assert_eq!(frames[0].len(), 1000);
    assert!(frames.iter().map(|f| seen(f).enq_qdepth).max() > Some(5));
    drop(handle);
}

#[test]
fn a_cut_link_affects_no_other_port() {
    let (handle, mut ports) = running(16, &[None, None, None]);
    drop(ports.remove(1));
    for _ in 0..100 {
        send(&mut ports[0], &probe(UNICAST, 0, 2, b"lost"));
        send(&mut ports[0], &probe(UNICAST, 0, 3, b"fine"));
        assert_eq!(seen(&receive(&mut ports[1], 1)[0]).name, b"fine");
    }
    drop(handle);
}

#[test]
fn long_recirculation_does_not_delay_traffic() {
    let (handle, mut ports) = running(64, &[None, None]);
    // 200 sweeps of 255 rounds, over port 2 itself.
    for _ in 0..200 {
        send(&mut ports[0], &probe(RECIRCULATE, 255, 2, b"walk"));
    }
    send(&mut ports[1], &probe(UNICAST, 0, 1, b"fast"));
    assert_eq!(seen(&receive(&mut ports[0], 1)[0]).name, b"fast");
    assert!(receive(&mut ports[1], 200).iter().all(|f| seen(f).passes == 256));
    drop(handle);
}

/// The thread must not sleep while the only packet was just recirculated.
#[test]
fn a_single_recirculating_packet_finishes() {
    let (handle, mut ports) = running(64, &[None, None]);
    send(&mut ports[0], &probe(RECIRCULATE, 255, 2, b"walk"));
    assert_eq!(seen(&receive(&mut ports[1], 1)[0]).passes, 256);
    drop(handle);
}

/// What became of a frame that a port was to send.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Sent,
    NoRoom,
    Invalid,
    Broken,
}

/// The frames that a port was given, in order.
type Attempts = Vec<(Vec<u8>, Fate)>;

/// A port that does not take all frames, and notes what it was given.
struct Moody {
    attempts: Arc<Mutex<Attempts>>,
    /// Every so many attempts there is no room.
    period: usize,
}

impl FrameIo for Moody {
    fn receive(&mut self, _: usize, _: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let mut attempts = self.attempts.lock().unwrap();
        let fate = match attempts.len() + 1 {
            57 => Fate::Broken,
            count if count % self.period == 0 => Fate::NoRoom,
            count if count % 13 == 0 => Fate::Invalid,
            _ => Fate::Sent,
        };
        attempts.push((frame.to_vec(), fate));
        match fate {
            Fate::Sent => Ok(true),
            Fate::NoRoom => Ok(false),
            Fate::Invalid => Err(io::ErrorKind::InvalidInput.into()),
            Fate::Broken => Err(io::ErrorKind::NetworkDown.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        watch.due_in(Duration::from_micros(100));
        Ok(())
    }
}

/// Replicas share a packet and its frame, and one that waits for room must not lose it to others.
#[test]
fn replicas_leave_by_ports_that_have_no_room_or_fail() {
    const FRAMES: u32 = 300;
    let mut runtime = Runtime::new(SwitchConfig::default());
    let (near, mut source) = memory::link(64, runtime.waker(), &Default::default());
    runtime.add_port(1, Box::new(near), None);
    let ports: Vec<_> = [(2, 2), (3, 3), (4, 7)]
        .into_iter()
        .map(|(port, period)| {
            let attempts = Arc::new(Mutex::new(Attempts::new()));
            let moody = Moody { attempts: Arc::clone(&attempts), period };
            runtime.add_port(port, Box::new(moody), None);
            attempts
        })
        .collect();
    let (handle, _) = runtime.start().unwrap();
    let program = forwarding(TRAFFIC);
    let members = group(5, &[(2, 10), (3, 11), (4, 12)]);
    handle
        .control()
        .call(|switch, _| {
            switch.commit(program);
            write(switch, insert(members)).unwrap();
        })
        .unwrap();
    for i in 0..FRAMES {
        send(&mut source, &probe(MULTICAST, 0, 5, &i.to_be_bytes()));
    }
    for (attempts, rid) in ports.iter().zip(10..) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let gone =
            |attempts: &Attempts| attempts.iter().filter(|(_, fate)| *fate != Fate::NoRoom).count();
        while gone(&attempts.lock().unwrap()) < FRAMES as usize {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        let attempts = attempts.lock().unwrap();
        let mut next = 0u32;
        for (place, (frame, fate)) in attempts.iter().enumerate() {
            assert_eq!((seen(frame).name, seen(frame).rid), (next.to_be_bytes().to_vec(), rid));
            match fate {
                Fate::NoRoom => assert_eq!(attempts[place + 1].0, *frame, "it is kept as it was"),
                _ => next += 1,
            }
        }
        assert_eq!(next, FRAMES, "each once");
        let fates = [Fate::NoRoom, Fate::Invalid, Fate::Broken];
        assert!(fates.into_iter().all(|fate| attempts.iter().any(|of| of.1 == fate)));
    }
    drop(handle);
}

#[test]
fn a_stopped_switch_is_reported() {
    let (handle, _ports) = running(4, &[None]);
    let control = handle.control().clone();
    assert!(!handle.is_finished());
    let start = Instant::now();
    let report = handle.stop();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(report.switch.no_pipeline, 0);
    assert_eq!(control.call(|_, _| ()), Err(Stopped));
}
