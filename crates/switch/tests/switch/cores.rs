//! A switch with a thread for each of several cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tributary_netio::memory::MemoryPort;
use tributary_netio::{Fan, FrameIo, Waker, memory};
use tributary_p4runtime::p4::v1::{RegisterEntry, entity, p4_data};
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;

const ROWS: &str = include_str!("programs/rows.p4");
const CORES: u16 = 3;
/// Packets under way: fewer than a queue or an inbox holds.
const WINDOW: u64 = 500;

/// A running switch, and the far ends of the links of ports 1 and 2, one for each core.
fn running(source: &str) -> (SwitchHandle, [Vec<MemoryPort>; 2]) {
    let mut runtime = Runtime::new(SwitchConfig { cores: CORES, ..SwitchConfig::default() });
    let far = [1, 2].map(|port| {
        let links = runtime.wakers().map(|waker| memory::link(64, waker, &Waker::new()));
        let (near, far): (Vec<_>, Vec<_>) = links.unzip();
        let near = near.into_iter().map(|io| Box::new(io) as Box<dyn FrameIo>).collect();
        runtime.add_parts(port, near, None);
        far
    });
    let (handle, _) = runtime.start().unwrap();
    let program = forwarding(source);
    handle.control().call(|switch, _| switch.commit(program)).unwrap();
    (handle, far)
}

fn frame(op: u8, left: u8, row: u32) -> Vec<u8> {
    let mut frame = vec![op, left, 0, 2];
    frame.extend(row.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(b"payload");
    frame
}

/// The sum of all rows, at all cores.
fn total(switch: &mut Switch) -> u64 {
    switch.gather();
    let template = entity::Entity::RegisterEntry(RegisterEntry::default());
    let cells = read(switch, tributary_p4runtime::p4::v1::Entity { entity: Some(template) });
    let value = |entity: tributary_p4runtime::p4::v1::Entity| match entity.entity {
        Some(entity::Entity::RegisterEntry(entry)) => match entry.data.and_then(|data| data.data) {
            Some(p4_data::Data::Bitstring(bytes)) => {
                bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
            _ => unreachable!(),
        },
        _ => unreachable!(),
    };
    cells.into_iter().map(value).sum()
}

/// Sends packets into all parts of port 1 at once, and takes what leaves port 2. Returns the number
/// of passes.
fn traffic(handle: &SwitchHandle, ports: [Vec<MemoryPort>; 2], each: u32) -> u64 {
    let [into, out] = ports;
    let (sent, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut out = Fan::new(out, |_| 0);
    let count = u64::from(each) * into.len() as u64;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut passes = 0;
    std::thread::scope(|scope| {
        for (number, mut port) in (1_u32..).zip(into) {
            let (sent, seen) = (&sent, &seen);
            scope.spawn(move || {
                for i in 0..each {
                    while sent.load(Ordering::Relaxed) > seen.load(Ordering::Relaxed) + WINDOW {
                        assert!(Instant::now() < deadline, "packets are lost");
                        std::thread::yield_now();
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                    // Every seventh goes on to other rows.
                    let left = if i % 7 == 0 { 3 } else { 0 };
                    let row = number.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 22;
                    while !port.send(&frame(3, left, row)).unwrap() {
                        std::thread::yield_now();
                    }
                    port.flush().unwrap();
                }
            });
        }
        let mut last = 0;
        while seen.load(Ordering::Relaxed) < count {
            assert!(Instant::now() < deadline, "packets are lost");
            out.wait(Some(Duration::from_millis(20))).unwrap();
            let taken = out.receive(64, &mut |frame| assert_eq!(&frame[12..], b"payload")).unwrap();
            seen.fetch_add(taken as u64, Ordering::Relaxed);
            // Commands in between find all cores' state, and delay packets, but lose none.
            let now = handle.control().call(|switch, _| total(switch)).unwrap();
            assert!(now >= last);
            last = now;
        }
        passes = u64::from((0..each).map(|i| if i % 7 == 0 { 4 } else { 1 }).sum::<u32>());
        passes *= u64::from(CORES);
    });
    passes
}

#[test]
fn threads_share_the_packets_and_lose_none() {
    let (handle, ports) = running(ROWS);
    let passes = traffic(&handle, ports, 3000);
    assert_eq!(handle.control().call(|switch, _| total(switch)).unwrap(), passes);
    let report = handle.stop();
    assert_eq!(report.ports[0].1.received, 9000);
    assert_eq!(report.ports[1].1.sent, 9000);
    assert_eq!(report.switch.handover_drops, 0);
    assert!(report.switch.handed_over > 3000, "most packets arrive at the wrong core");
}

#[test]
fn a_program_that_cannot_be_divided_runs_on_one_core() {
    let elsewhere = ROWS.replace(
        "sums.write(hdr.row.row, sum);",
        "sums.write(hdr.row.row, sum); \
         bit<32> first; sums.read(first, 0); sums.write(0, first + 1);",
    );
    let (handle, ports) = running(&elsewhere);
    let passes = traffic(&handle, ports, 1000);
    assert_eq!(handle.control().call(|switch, _| total(switch)).unwrap(), 2 * passes);
    let report = handle.stop();
    assert!(report.switch.handed_over >= 2000, "those of the other two threads");
}

/// Without commands, which wake all threads: after a burst that was handed over, and the buffers that
/// came back for it, a single packet for a core that sleeps arrives at once.
#[test]
fn a_packet_for_a_core_that_sleeps_wakes_it() {
    let (_handle, [mut into, out]) = running(ROWS);
    let mut out = Fan::new(out, |_| 0);
    let mut receive = |count: usize| {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut received = 0;
        while received < count {
            assert!(Instant::now() < deadline, "{received} of {count} packets came");
            out.wait(Some(Duration::from_millis(20))).unwrap();
            received += out.receive(count, &mut |_| ()).unwrap();
        }
    };
    for round in 0..5 {
        for burst in 0..20 {
            for i in 0..60 {
                // All to the port part of the first core, for rows of the second.
                assert!(into[0].send(&frame(0, 0, 64 + (burst + i) % 64)).unwrap());
            }
            into[0].flush().unwrap();
            receive(60);
        }
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        // For a row of the first core, to the part of the second.
        assert!(into[1].send(&frame(0, 0, round)).unwrap());
        into[1].flush().unwrap();
        receive(1);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_busy_switch_can_be_stopped() {
    let (handle, mut ports) = running(ROWS);
    for i in 0..200 {
        for port in &mut ports[0] {
            assert!(port.send(&frame(3, 255, i)).is_ok());
            port.flush().unwrap();
        }
    }
    let start = Instant::now();
    while handle.control().statistics().unwrap().1[0].1.received == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no packet goes in");
    }
    let start = Instant::now();
    drop(handle.stop());
    assert!(start.elapsed() < Duration::from_secs(5));
}
