//! Replacing the program under traffic: each packet is processed by one program only, and all
//! packets are accounted for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tributary_netio::{FrameIo, memory};
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;

use crate::grpc::*;

const VERSIONS: &str = include_str!("programs/versions.p4");

/// A program that writes a mark into packets.
fn version(mark: u8) -> String {
    VERSIONS.replace("VERSION", &mark.to_string())
}

/// Sends packets to a port, some that leave at once and some that recirculate, until told to stop.
fn send(
    mut port: memory::MemoryPort,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
) -> JoinHandle<memory::MemoryPort> {
    std::thread::spawn(move || {
        let mut number = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let left = if number.is_multiple_of(4) { 40 } else { 0 };
            let mut frame = vec![left, 0];
            frame.extend(number.to_be_bytes());
            frame.resize(60, 0);
            if port.send(&frame).unwrap() {
                sent.fetch_add(1, Ordering::Relaxed);
                number += 1;
            } else {
                port.wait(Some(Duration::from_millis(10))).unwrap();
            }
            port.flush().unwrap();
        }
        port
    })
}

/// Collects the marks of packets, until told to stop and no more packets arrive.
fn collect(mut port: memory::MemoryPort, stop: Arc<AtomicBool>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut marks = Vec::new();
        loop {
            let done = stop.load(Ordering::Relaxed);
            port.wait(Some(Duration::from_millis(10))).unwrap();
            let before = marks.len();
            while port.receive(64, &mut |frame| marks.push(frame[1])).unwrap() > 0 {}
            if done && marks.len() == before {
                return marks;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_packet_sees_two_programs_and_each_is_accounted_for() {
    let Device { service, mut ports, _switch: handle } = device();
    let mut client = connect(&service).await;
    let _primary = primary(&mut client).await;
    let programs = [1, 2].map(|mark| config(&version(mark)));
    push(&mut client, &version(1)).await;

    let (stop, drained) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let sent = Arc::new(AtomicU64::new(0));
    let receiver = collect(ports.pop().unwrap(), drained.clone());
    let sender = send(ports.pop().unwrap(), stop.clone(), sent.clone());
    let actions = [Action::VerifyAndCommit, Action::VerifyAndSave];
    for (round, action) in (0..60usize).zip(actions.into_iter().cycle()) {
        // Packets are in flight at each change of the program.
        let before = sent.load(Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(20);
        while sent.load(Ordering::Relaxed) < before + 50 {
            assert!(Instant::now() < deadline, "no packets go in");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let request = set(action, Some(programs[(round + 1) % 2].clone()));
        client.set_forwarding_pipeline_config(request).await.unwrap();
        if action == Action::VerifyAndSave {
            client.set_forwarding_pipeline_config(set(Action::Commit, None)).await.unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let report = tokio::task::spawn_blocking(move || {
        let _port = sender.join().unwrap();
        let count = |handle: &tributary_switch::runtime::SwitchHandle| {
            let (switch, ports) = handle.control().statistics().unwrap();
            let drops: u64 = ports.iter().map(|(_, port)| port.queue_drops).sum();
            let out = ports[1].1.sent;
            (ports[0].1.received, out, drops + switch.replaced + switch.recirculation_drops, switch)
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let (received, out, lost, switch) = count(&handle);
            if received == sent.load(Ordering::Relaxed) && received == out + lost {
                break (out, switch, receiver, handle);
            }
            assert!(Instant::now() < deadline, "{received} in, {out} out, {lost} lost: {switch:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (out, switch, receiver, _handle) = report.await.unwrap();
    drained.store(true, Ordering::Relaxed);
    let marks = tokio::task::spawn_blocking(|| receiver.join().unwrap()).await.unwrap();
    assert_eq!(marks.len() as u64, out);
    assert!(switch.replaced > 0, "no packet was under way when the program changed");
    for mark in [1, 2] {
        assert!(marks.contains(&mark), "no packet met program {mark}");
    }
    let mixed = marks.iter().filter(|&&mark| mark != 1 && mark != 2).count();
    assert_eq!(mixed, 0, "of {} packets", marks.len());
}
