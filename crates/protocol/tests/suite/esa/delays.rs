//! Where the time of a worker goes.

use std::time::Duration;

use tributary_protocol::worker::Delays;
use tributary_protocol::{Endpoint, Tensor, Waits, Worker};
use tributary_wire::agg::Repair;
use tributary_wire::channel::{FromWorker, ToWorker};
use tributary_wire::{Bitmap, Flags, Kind, Protocol, Sequence};

use crate::esa::setup::{frame, integers, job, ms, papers, repr, sent, worker_config};

const EVERYONE: Bitmap = Bitmap(0b111);

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One wait of so many milliseconds.
fn once(ms: u64) -> Waits {
    Waits { count: 1, total: millis(ms), longest: millis(ms) }
}

fn submit(worker: &mut Worker, fragments: i32) {
    worker.submit(Tensor::I32((0..2 * fragments).collect())).unwrap();
}

/// Worker 1 of three with the papers' rules, which has sent so many fragments at 0 ms.
fn reminding(fragments: i32) -> Worker {
    let mut worker = papers(job(3), 1);
    submit(&mut worker, fragments);
    assert_eq!(sent(&mut worker, ms(0)).len(), fragments as usize);
    worker
}

/// The same with the default rules.
fn repairing(fragments: i32) -> Worker {
    let mut worker = Worker::new(worker_config(job(3), 1)).unwrap();
    submit(&mut worker, fragments);
    assert_eq!(sent(&mut worker, ms(0)).len(), fragments as usize);
    worker
}

fn result(worker: &mut Worker, at: u64, sequence: u32) {
    let repr = repr(&job(3), Kind::Parameter, sequence, EVERYONE, Flags::NONE);
    worker.handle_frame(ms(at), &frame(&repr, &[1, 2]));
}

fn said(worker: &mut Worker) -> Vec<FromWorker> {
    std::iter::from_fn(|| worker.poll_message()).collect()
}

fn remind(sequence: u32) -> FromWorker {
    FromWorker::Remind { sequence: Sequence(sequence) }
}

#[test]
fn without_a_repair_no_time_is_lost() {
    let mut worker = reminding(3);
    // However late: another worker may be slow.
    for (at, sequence) in [(1, 0), (5, 1), (6, 2)] {
        result(&mut worker, at, sequence);
    }
    submit(&mut worker, 1);
    sent(&mut worker, ms(100));
    result(&mut worker, 103, 3);
    let in_flight = millis(6 + 3);
    assert_eq!(worker.stats().delays, Delays { in_flight, ..Delays::default() });
}

#[test]
fn a_wait_for_a_reminder_is_told_from_one_for_a_result_over_the_channel() {
    let mut worker = reminding(4);
    result(&mut worker, 1, 2);
    result(&mut worker, 2, 3);
    worker.handle_timeout(ms(20));
    assert_eq!(said(&mut worker), [remind(0)]);
    result(&mut worker, 50, 0);
    assert_eq!(said(&mut worker), [remind(1)]);
    let values = integers(&[0, 0]);
    worker.handle_message(ms(120), ToWorker::Result { sequence: Sequence(1), values });
    let (reminded, delivered) = (once(48), once(70));
    let expected = Delays { in_flight: millis(120), reminded, delivered, ..Delays::default() };
    assert_eq!(worker.stats().delays, expected);
    assert_eq!(expected.repairs(), millis(118));
}

#[test]
fn a_repair_costs_no_time_while_others_have_results() {
    let mut worker = reminding(8);
    for (at, sequence) in [(1, 1), (2, 2), (3, 3)] {
        result(&mut worker, at, sequence);
    }
    assert_eq!(said(&mut worker), [remind(0)]);
    for (at, sequence) in [(4, 4), (5, 5), (6, 6), (7, 7), (8, 0)] {
        result(&mut worker, at, sequence);
    }
    assert_eq!(worker.stats().delays.reminded, once(1));
}

#[test]
fn the_wait_for_the_first_result_is_not_counted() {
    let mut worker = reminding(1);
    worker.handle_timeout(ms(20));
    assert_eq!(said(&mut worker), [remind(0)]);
    result(&mut worker, 50, 0);
    let in_flight = millis(50);
    assert_eq!(worker.stats().delays, Delays { in_flight, ..Delays::default() });
}

#[test]
fn a_wait_for_a_fragment_that_was_sent_again_ends_in_a_packet() {
    let mut worker = repairing(3);
    result(&mut worker, 1, 1);
    result(&mut worker, 2, 2);
    worker.handle_timeout(ms(4));
    assert_eq!(sent(&mut worker, ms(4)).len(), 1);
    result(&mut worker, 9, 0);
    let expected = Delays { in_flight: millis(9), resent: once(7), ..Delays::default() };
    assert_eq!(worker.stats().delays, expected);
}

#[test]
fn after_a_reminder_the_same_wait_counts_as_one_for_the_agent() {
    let mut worker = repairing(2);
    result(&mut worker, 10, 1);
    while said(&mut worker).is_empty() {
        let at = worker.poll_timeout().unwrap();
        worker.handle_timeout(at);
        sent(&mut worker, at);
    }
    result(&mut worker, 9000, 0);
    let Delays { resent, reminded, .. } = worker.stats().delays;
    assert_eq!((resent, reminded), (Waits::default(), once(8990)));
}

#[test]
fn the_farewell_is_measured_from_the_last_result_to_the_dismissal() {
    let mut worker = reminding(1);
    result(&mut worker, 1, 0);
    // The time before the worker leaves does not count.
    worker.leave();
    sent(&mut worker, ms(30));
    sent(&mut worker, ms(35));
    worker.handle_message(ms(75), ToWorker::Dismissed);
    worker.handle_message(ms(80), ToWorker::Dismissed);
    let Delays { dismissed, dismissed_by_agent, .. } = worker.stats().delays;
    assert_eq!((dismissed, dismissed_by_agent), (Waits::default(), once(45)));

    let mut worker = repairing(1);
    worker.leave();
    result(&mut worker, 1, 0);
    sent(&mut worker, ms(1));
    let mut header = repr(&job(3), Kind::Parameter, 0, EVERYONE, Flags::REPAIR);
    header.priority = Repair::FAREWELL.code();
    worker.handle_frame(ms(4), &frame(&header, &[0, 0]));
    worker.handle_message(ms(9), ToWorker::Dismissed);
    let delays = worker.stats().delays;
    assert_eq!((delays.dismissed, delays.dismissed_by_agent), (once(3), Waits::default()));
    assert_eq!(delays.farewell(), millis(3));
}

#[test]
fn workers_of_other_protocols_measure_their_resends() {
    let mut config = worker_config(job(3), 1);
    config.job.protocol = Protocol::Atp;
    let mut worker = Worker::new(config).unwrap();
    submit(&mut worker, 3);
    let packets = sent(&mut worker, ms(0));
    let arrives = |worker: &mut Worker, at, sequence: usize| {
        let mut header = packets[sequence].0;
        (header.kind, header.bitmap) = (Kind::Parameter, EVERYONE);
        worker.handle_frame(ms(at), &frame(&header, &[1, 2]));
    };
    arrives(&mut worker, 1, 1);
    arrives(&mut worker, 2, 2);
    worker.handle_timeout(ms(4));
    assert_eq!(sent(&mut worker, ms(4)).len(), 1);
    arrives(&mut worker, 9, 0);
    let expected = Delays { in_flight: millis(9), resent: once(7), ..Delays::default() };
    assert_eq!(worker.stats().delays, expected);
}
