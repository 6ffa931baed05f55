//! Jobs moved between the network and their parameter server, with packets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tributary_controller::jobs::Controller;
use tributary_controller::outcomes::Outcome;
use tributary_model::jobfile::parse;
use tributary_model::{Aggregation, Scenario, SwitchId, plan::Placement};
use tributary_netio::FrameIo;
use tributary_netio::memory::MemoryPort;
use tributary_protocol::{Assignment, Mode};
use tributary_wire::agg::{OFFSET, Packet, field};
use tributary_wire::{Bitmap, Kind, Protocol, Round, Service};

use crate::embedded::running;
use crate::support::{self, Kit, free_port, gradient};

/// A gradient of the first job with P4INC, addressed to its parameter server.
fn p4inc_gradient(scenario: &Scenario, by: Assignment, worker: u8, fragment: u32) -> Vec<u8> {
    let index = by.segment.offset.0 + fragment % 8;
    let mut frame = gradient(scenario, worker, Round::first(fragment).sequence().0, index);
    let header = &mut frame[OFFSET..];
    header[field::PROTOCOL] = Protocol::P4inc as u8;
    header[field::PRIORITY] = by.service.get();
    frame
}

/// The next frame from a cable: kind, service, round, bitmap, and its values, which must be equal.
fn received(cable: &mut MemoryPort) -> (Kind, Service, Round, Bitmap, i32) {
    let start = Instant::now();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    while frames.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never comes");
        cable.wait(Some(Duration::from_millis(10))).unwrap();
        cable.receive(1, &mut |frame| frames.push(frame.to_vec())).unwrap();
    }
    let packet = Packet::new_checked(&frames[0]).unwrap();
    let first = packet.values_i32().next().unwrap();
    assert!(packet.values_i32().all(|value| value == first));
    (packet.kind(), packet.service(), packet.round(), packet.bitmap(), first)
}

fn is_silent(cable: &mut MemoryPort) -> bool {
    cable.wait(Some(Duration::from_millis(50))).unwrap();
    cable.receive(1, &mut |_| {}).unwrap() == 0
}

fn send(cable: &mut MemoryPort, frame: &[u8]) {
    assert!(cable.send(frame).unwrap());
    cable.flush().unwrap();
}

/// What a worker sends in addition to what is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    /// Packets of earlier services.
    Over,
    /// Any packet that it has ever sent.
    All,
}

/// Packets of an earlier service are refused and counted, and have no effect.
#[tokio::test(flavor = "multi_thread")]
async fn packets_of_a_service_that_is_over_are_refused() {
    no_sum_of_a_moved_job_holds_what_is_late(Late::Over).await;
}

/// Copies of packets arrive before, during and after a move, even for the server, and are never
/// added.
#[tokio::test(flavor = "multi_thread")]
async fn copies_around_a_move_are_summed_nowhere() {
    no_sum_of_a_moved_job_holds_what_is_late(Late::All).await;
}

/// Moves a job back and forth while late packets arrive. Every iteration's sums contain each worker
/// once, whether the network or the server adds.
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn no_sum_of_a_moved_job_holds_what_is_late(what: Late) {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 3\n", "test").unwrap();
    let kit = running("p4inc");
    let port = free_port();
    let (_switch, mut cables) = kit.start(port);
    let config = vec![support::config("s1", port)];
    let controller =
        Controller::connect(&scenario.network.topology, config, &kit.pipeline).await.unwrap();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let job = placement.job;
    let everyone = Bitmap::first(3);
    let first = controller.admit_sized(placement, Aggregation::Network, 8).await.unwrap();

    let mut server = cables.remove(3);
    let mut late_port = cables.remove(2);
    // One contribution stays in the switch: its worker stopped half-way.
    send(&mut cables[0], &p4inc_gradient(&scenario, first, 0, 5));

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let scene = scenario.clone();
    // The third worker sends current packets, interleaved with old ones.
    let (tell, told) = mpsc::channel::<(Assignment, u32)>();
    let straggler = std::thread::spawn(move || {
        let mut results = Vec::new();
        let mut late: Vec<Vec<u8>> = Vec::new();
        let mut current: Vec<Vec<u8>> = Vec::new();
        let mut by = first;
        let mut sent = 0;
        let mut hear = |port: &mut MemoryPort, patience| {
            port.wait(Some(patience)).unwrap();
            let note = &mut |frame: &[u8]| {
                let packet = Packet::new_checked(frame).unwrap();
                results.push((packet.service(), packet.round(), packet.values_i32().next()));
            };
            port.receive(8, note).unwrap() > 0
        };
        while !stopped.load(Ordering::Relaxed) {
            if let Ok((new, fragment)) = told.try_recv() {
                if new != by {
                    // Packets for the server all have the same service.
                    let over = std::mem::take(&mut current);
                    late.extend(over.into_iter().filter(|_| by.service.is_aggregated()));
                    by = new;
                }
                let due = p4inc_gradient(&scene, by, 2, fragment);
                send(&mut late_port, &due);
                match what {
                    Late::Over => current.push(due),
                    Late::All => late.push(due),
                }
            }
            if !late.is_empty() {
                // Prefer the latest packets.
                let at = if sent % 2 == 0 { late.len() - 1 } else { sent / 2 % late.len() };
                send(&mut late_port, &late[at]);
                sent += 1;
            }
            hear(&mut late_port, Duration::from_micros(200));
        }
        while hear(&mut late_port, Duration::from_millis(200)) {}
        (results, sent as u64)
    });

    let mut assignment = first;
    let mut expected = Vec::new();
    for iteration in 0..12_u32 {
        // Fragments with the same indices as the late packets.
        for fragment in 8 * iteration..8 * iteration + 8 {
            if iteration == 0 && fragment == 5 {
                continue;
            }
            let service = assignment.service;
            for worker in 0..2 {
                let frame = p4inc_gradient(&scenario, assignment, worker, fragment);
                send(&mut cables[usize::from(worker)], &frame);
            }
            tell.send((assignment, fragment)).unwrap();
            let round = Round::first(fragment);
            if assignment.mode == Mode::Local {
                for cable in &mut cables[..2] {
                    let result = (Kind::Parameter, service, round, everyone, 1 + 2 + 3);
                    assert_eq!(received(cable), result);
                }
                expected.push((service, round, Some(1 + 2 + 3)));
            } else {
                // The server adds all packets of this round.
                let mut sum = 0;
                let mut seen = Bitmap::EMPTY;
                while seen != everyone {
                    let (kind, from, at, bitmap, value) = received(&mut server);
                    assert_eq!((kind, from), (Kind::Gradient, service));
                    // As a real server does, drop old rounds and duplicates.
                    if what == Late::All && (at < round || !seen.is_disjoint(bitmap)) {
                        assert_eq!(bitmap, Bitmap(0b100));
                        continue;
                    }
                    assert_eq!(at, round);
                    assert!(seen.is_disjoint(bitmap), "nobody is counted twice");
                    seen |= bitmap;
                    sum += value;
                }
                assert_eq!(sum, 1 + 2 + 3);
            }
        }
        let (wish, size) = match assignment.mode {
            Mode::Local if iteration % 3 == 0 => {
                (Aggregation::Network, assignment.segment.size ^ 1)
            }
            Mode::Local => (Aggregation::Server, 0),
            _ => (Aggregation::Network, 8),
        };
        assignment = controller.relocate(job, wish, size).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let (mut results, sent) = straggler.join().unwrap();
    assert!(sent > 100, "{sent} late packets");
    if what == Late::All {
        // A repeated result, from the copy, is the same.
        results.sort();
        results.dedup();
    }
    assert_eq!(results, expected, "the third worker had each result");
    assert!(cables[..2].iter_mut().all(is_silent), "the others had each result once");
    let mut refused = 0;
    let start = Instant::now();
    while refused < if what == Late::Over { sent } else { 1 } {
        assert!(start.elapsed() < Duration::from_secs(10), "{refused} of {sent}");
        let outcomes = controller.outcomes(job).await.unwrap()[&SwitchId(0)];
        let traffic = controller.traffic().await.unwrap()[&SwitchId(0)];
        refused = outcomes[Outcome::Rejected].packets + traffic[Outcome::Rejected].packets;
    }
    if what == Late::Over {
        assert_eq!(refused, sent, "each is counted once");
        assert!(is_silent(&mut server));
    }
}
