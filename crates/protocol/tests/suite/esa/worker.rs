//! Unit tests of the ESA worker.

use tributary_protocol::priority::Priority;
use tributary_protocol::worker::{Event, SubmitError};
use tributary_protocol::{Endpoint, JobConfig, Recovery, Tensor, Worker, WorkerConfig};
use tributary_wire::agg::{Repair, Repaired};
use tributary_wire::channel::{FromWorker, ToWorker};
use tributary_wire::{AggregatorIndex, Bitmap, Flags, Kind, Protocol, Sequence};

use crate::esa::setup::{floats, frame, integers, job, ms, papers, repr, sent, worker_config};

const EVERYONE: Bitmap = Bitmap(0b111);

/// Worker 1 of three, with an integer tensor 0, 1, 2… of `fragments` fragments.
fn loaded(fragments: i32) -> Worker {
    let mut worker = papers(job(3), 1);
    let priority = Priority::new(77).unwrap();
    worker.submit_with(Tensor::I32((0..2 * fragments).collect()), priority).unwrap();
    worker
}

fn result(worker: &mut Worker, at: u64, sequence: u32) {
    let repr = repr(&job(3), Kind::Parameter, sequence, EVERYONE, Flags::NONE);
    worker.handle_frame(ms(at), &frame(&repr, &[sequence.cast_signed(), 7]));
}

fn query(worker: &mut Worker, at: u64, sequence: u32, float: bool) {
    worker.handle_message(ms(at), ToWorker::Query { sequence: Sequence(sequence), float });
}

fn said(worker: &mut Worker) -> Vec<FromWorker> {
    std::iter::from_fn(|| worker.poll_message()).collect()
}

fn remind(sequence: u32) -> FromWorker {
    FromWorker::Remind { sequence: Sequence(sequence) }
}

#[test]
fn fragments_carry_their_priority_and_the_aggregator_of_their_task() {
    let mut worker = loaded(3);
    let all = sent(&mut worker, ms(0));
    assert_eq!(all.len(), 3);
    for (s, (header, words)) in (0..).zip(&all) {
        let mut expected = repr(&job(3), Kind::Gradient, s, Bitmap(0b010), Flags::NONE);
        expected.priority = 77;
        assert_eq!(*header, expected);
        assert_eq!(words[..], [2 * s.cast_signed(), 2 * s.cast_signed() + 1]);
    }
    // Each sequence has its own aggregator, independent of the slot.
    let mut aggregators: Vec<AggregatorIndex> =
        all.iter().map(|(header, _)| header.index).collect();
    aggregators.dedup();
    assert_eq!(aggregators.len(), 3);
    assert_eq!(said(&mut worker), []);
}

#[test]
fn three_later_results_make_it_remind_once_and_send_nothing_again() {
    let mut worker = loaded(8);
    sent(&mut worker, ms(0));
    result(&mut worker, 1, 1);
    result(&mut worker, 1, 2);
    assert_eq!(said(&mut worker), []);
    result(&mut worker, 1, 3);
    assert_eq!(said(&mut worker), [remind(0)]);
    result(&mut worker, 1, 4);
    assert_eq!(said(&mut worker), []);
    assert_eq!((sent(&mut worker, ms(1)), worker.stats().resent), (vec![], 0));
    assert_eq!(worker.window(), 8, "results of the switch overtake those of the server");
}

#[test]
fn a_timeout_reminds_of_the_lowest_and_each_result_releases_two_more() {
    let mut worker = loaded(8);
    sent(&mut worker, ms(0));
    worker.handle_timeout(ms(19));
    assert_eq!(said(&mut worker), []);
    worker.handle_timeout(ms(20));
    assert_eq!(said(&mut worker), [remind(0)]);
    assert_eq!(sent(&mut worker, ms(20)), []);
    let values = integers(&[0, 0]);
    worker.handle_message(ms(21), ToWorker::Result { sequence: Sequence(0), values });
    assert_eq!(said(&mut worker), [remind(1), remind(2)]);
    assert_eq!(worker.stats().delivered, 1);
}

#[test]
fn an_obsolete_reminder_is_not_sent() {
    let mut worker = loaded(8);
    sent(&mut worker, ms(0));
    worker.handle_timeout(ms(20));
    result(&mut worker, 21, 0);
    assert!(!said(&mut worker).contains(&remind(0)));
}

#[test]
fn answers_with_its_values_its_result_or_that_it_has_neither() {
    // With eight slots, the result of fragment 8 replaces that of fragment 0 in the cache.
    let mut worker = loaded(20);
    sent(&mut worker, ms(0));
    query(&mut worker, 1, 2, false);
    let values = integers(&[4, 5]);
    assert_eq!(said(&mut worker), [FromWorker::Values { sequence: Sequence(2), values }]);
    for sequence in 0..8 {
        result(&mut worker, 1, sequence);
    }
    query(&mut worker, 1, 0, false);
    let values = integers(&[0, 7]);
    assert_eq!(said(&mut worker), [FromWorker::Result { sequence: Sequence(0), values }]);
    sent(&mut worker, ms(1));
    result(&mut worker, 1, 8);
    query(&mut worker, 1, 0, false);
    assert_eq!(said(&mut worker), [FromWorker::Over { sequence: Sequence(0) }]);
    query(&mut worker, 1, 19, false);
    assert_eq!(said(&mut worker), [FromWorker::NotSent { sequence: Sequence(19) }]);
    assert_eq!((worker.stats().queries, worker.stats().lent, worker.stats().direct), (4, 1, 1));
}

#[test]
fn a_fragment_queried_early_goes_directly_to_the_server_when_due() {
    let mut worker = loaded(10);
    sent(&mut worker, ms(0));
    query(&mut worker, 1, 8, false);
    assert_eq!(said(&mut worker), [FromWorker::NotSent { sequence: Sequence(8) }]);
    result(&mut worker, 1, 0);
    result(&mut worker, 1, 1);
    let sequences: Vec<u32> = sent(&mut worker, ms(1)).iter().map(|(r, _)| r.sequence.0).collect();
    assert_eq!(sequences, [9]);
    let values = integers(&[16, 17]);
    assert_eq!(said(&mut worker), [FromWorker::Values { sequence: Sequence(8), values }]);
    // It is in flight like any other.
    assert_eq!(worker.outstanding(), Sequence(2)..Sequence(10));
}

#[test]
fn floats_are_asked_for_and_given() {
    let mut worker = papers(job(3), 1);
    worker.submit(Tensor::F32(vec![1.5, -2.0, 1e9, 0.0].into())).unwrap();
    // The second fragment does not fit integers at scale 1000 (I5), so it is sent as floats from
    // the start.
    let all = sent(&mut worker, ms(0));
    assert_eq!([all[0].0.flags, all[1].0.flags], [Flags::NONE, Flags::OVERFLOW]);
    query(&mut worker, 1, 0, true);
    query(&mut worker, 1, 1, false);
    assert_eq!(
        said(&mut worker),
        [
            FromWorker::Values { sequence: Sequence(0), values: floats(&[1.5, -2.0]) },
            FromWorker::Values { sequence: Sequence(1), values: floats(&[1e9, 0.0]) },
        ]
    );
    for (sequence, sums) in [(0, [2.5, 3.5]), (1, [3e9, 1.0])] {
        let values = floats(&sums);
        worker.handle_message(ms(2), ToWorker::Result { sequence: Sequence(sequence), values });
    }
    let Some(Event::TensorDone { tensor, .. }) = worker.poll_event() else { panic!("not done") };
    assert_eq!(tensor, Tensor::F32(vec![2.5, 3.5, 3e9, 1.0].into()));
}

/// The same worker with the default recovery rules.
fn repairing(fragments: i32) -> Worker {
    let mut worker = Worker::new(worker_config(job(3), 1)).unwrap();
    let priority = Priority::new(77).unwrap();
    worker.submit_with(Tensor::I32((0..2 * fragments).collect()), priority).unwrap();
    worker
}

/// What the worker sends now: sequence, flags, and the priority byte.
fn sends(worker: &mut Worker, at: u64) -> Vec<(u32, Flags, u8)> {
    let all = sent(worker, ms(at));
    all.iter().map(|(it, _)| (it.sequence.0, it.flags, it.priority)).collect()
}

#[test]
fn fragments_lost_twice_bypass_the_switches_and_finally_cause_a_reminder() {
    let mut worker = repairing(3);
    sends(&mut worker, 0);
    result(&mut worker, 10, 1);
    let own = Repair { what: Repaired::Contribution, float: false }.code();
    let mut packets = vec![];
    let mut reminders = vec![];
    while reminders.is_empty() {
        let at = worker.poll_timeout().unwrap();
        worker.handle_timeout(at);
        let lowest = sent(&mut worker, at).into_iter().filter(|(it, _)| it.sequence.0 == 0);
        packets.extend(lowest.map(|(it, words)| (it.flags, it.priority, words)));
        reminders = said(&mut worker);
    }
    assert_eq!(reminders, [remind(0)]);
    // The second transmission has the lowest priority: the task may be over, and the packet must
    // not displace another task.
    assert_eq!(packets[0], (Flags::NONE, 1, vec![0, 1]));
    assert!(packets[1..].iter().all(|it| *it == (Flags::REPAIR, own, vec![0, 1])), "{packets:?}");
    assert_eq!(packets.len(), 6);
}

#[test]
fn a_task_that_is_overtaken_does_not_halve_the_window_even_if_all_results_are_marked() {
    let job = JobConfig { slots: 16, ..job(3) };
    let config = WorkerConfig { initial_window: Some(8), ..worker_config(job, 1) };
    let mut worker = Worker::new(config).unwrap();
    worker.submit(Tensor::I32(vec![1; 64].into())).unwrap();
    sends(&mut worker, 0);
    // The server completes task 0, which collided. Its result is late, but no packet was lost.
    for sequence in 1..=8 {
        let repr = repr(&job, Kind::Parameter, sequence, EVERYONE, Flags::ECN);
        worker.handle_frame(ms(10 + u64::from(sequence) / 8), &frame(&repr, &[3, 3]));
        sends(&mut worker, 10);
    }
    assert!(worker.stats().fast_resends > 0);
    assert_eq!(worker.window(), 7, "marks alone reduce it");
}

#[test]
fn questions_are_answered_with_the_values_or_the_result() {
    let mut worker = repairing(20);
    assert_eq!(sends(&mut worker, 0).len(), 8);
    let ask = |worker: &mut Worker, sequence, bitmap, float| {
        let mut header = repr(&job(3), Kind::Parameter, sequence, Bitmap(bitmap), Flags::REPAIR);
        header.priority = Repair { what: Repaired::Question, float }.code();
        worker.handle_frame(ms(1), &frame(&header, &[0, 0]));
        sends(worker, 1)
    };
    let code = |what| Repair { what, float: false }.code();
    let (own, all) = (code(Repaired::Contribution), code(Repaired::Result));
    // The question addresses other workers.
    assert_eq!(ask(&mut worker, 2, 0b101, false), []);
    assert_eq!(ask(&mut worker, 2, 0b010, false), [(2, Flags::REPAIR, own)]);
    result(&mut worker, 1, 1);
    assert_eq!(ask(&mut worker, 1, 0b010, false), [(1, Flags::REPAIR, all)]);
    // Not sent yet: one in a later window, and the next one to send, which then goes to the PS at
    // once.
    assert_eq!(ask(&mut worker, 18, 0b010, false), []);
    result(&mut worker, 1, 0);
    let next = [(8, Flags::REPAIR, own), (9, Flags::NONE, 77)];
    assert_eq!(ask(&mut worker, 8, 0b010, false), next);
    let stats = worker.stats();
    assert_eq!((stats.queries, stats.handed_over, stats.rejected.total()), (3, 1, 0));
    // Not a valid question in any form.
    let mut header = repr(&job(3), Kind::Parameter, 2, Bitmap(0b010), Flags::REPAIR);
    for priority in [0, own, all, 255] {
        header.priority = priority;
        worker.handle_frame(ms(1), &frame(&header, &[0, 0]));
    }
    assert_eq!((worker.stats().rejected.wrong_kind, sends(&mut worker, 1)), (4, vec![]));
}

#[test]
fn stays_until_all_are_done() {
    let mut worker = loaded(1);
    sent(&mut worker, ms(0));
    worker.leave();
    assert_eq!(worker.submit(Tensor::I32(vec![1].into())), Err(SubmitError::Leaving));
    assert_eq!(said(&mut worker), []);
    // A message that does not apply, because no worker can be done yet.
    result(&mut worker, 1, 0);
    let finished = FromWorker::Finished { end: Sequence(1) };
    assert_eq!(said(&mut worker), std::slice::from_ref(&finished));
    assert!(worker.is_idle() && !worker.is_dismissed());
    // The worker still lends its results, and announces its departure again after the channel
    // broke.
    query(&mut worker, 2, 0, false);
    assert!(matches!(said(&mut worker)[..], [FromWorker::Result { .. }]));
    worker.channel_opened();
    assert_eq!(said(&mut worker), [finished]);
    worker.handle_message(ms(3), ToWorker::Dismissed);
    assert!(worker.is_dismissed());
}

#[test]
fn says_farewell_in_packets_until_all_have() {
    let mut worker = repairing(1);
    let mut header = repr(&job(3), Kind::Parameter, 0, Bitmap(0b111), Flags::REPAIR);
    header.priority = Repair::FAREWELL.code();
    let dismissal = frame(&header, &[0, 0]);
    sends(&mut worker, 0);
    worker.leave();
    // It lacks a result, so this cannot be of this run.
    assert_eq!(sends(&mut worker, 0), []);
    result(&mut worker, 1, 0);
    let farewell = (1, Flags::REPAIR, Repair::FAREWELL.code());
    assert_eq!((sends(&mut worker, 1), sends(&mut worker, 1)), (vec![farewell], vec![]));
    let mut times = vec![ms(1)];
    while times.len() < 5 {
        let at = worker.poll_timeout().unwrap();
        worker.handle_timeout(at);
        times.extend(sent(&mut worker, at).iter().map(|_| at));
    }
    assert_eq!(times, [1, 2, 4, 8, 16].map(ms));
    assert!(!worker.is_dismissed());
    worker.handle_frame(ms(20), &dismissal);
    assert!(worker.is_dismissed());
    worker.handle_timeout(ms(40));
    assert_eq!(sends(&mut worker, 40), []);
}

#[test]
fn queries_of_the_agent_are_answered_in_packets() {
    let mut worker = repairing(20);
    sends(&mut worker, 0);
    let code = |what| Repair { what, float: false }.code();
    query(&mut worker, 1, 2, false);
    assert_eq!(sends(&mut worker, 1), [(2, Flags::REPAIR, code(Repaired::Contribution))]);
    result(&mut worker, 1, 1);
    query(&mut worker, 1, 1, false);
    assert_eq!(sends(&mut worker, 1), [(1, Flags::REPAIR, code(Repaired::Result))]);
    assert_eq!(said(&mut worker), []);
    // What is far ahead cannot be sent.
    query(&mut worker, 1, 18, false);
    assert_eq!(said(&mut worker), [FromWorker::NotSent { sequence: Sequence(18) }]);
}

#[test]
fn an_early_dismissal_is_ignored() {
    let mut worker = loaded(1);
    worker.handle_message(ms(0), ToWorker::Dismissed);
    assert!(!worker.is_dismissed());
}

#[test]
fn results_that_are_not_due_or_not_right_are_dropped_and_counted() {
    let mut worker = loaded(8);
    sent(&mut worker, ms(0));
    let mut tell = |sequence, values| {
        worker.handle_message(ms(1), ToWorker::Result { sequence: Sequence(sequence), values });
    };
    tell(8, integers(&[1, 1]));
    tell(0, integers(&[1, 1, 1]));
    tell(0, integers(&[1, 1]));
    tell(0, integers(&[2, 2]));
    let stats = *worker.stats();
    assert_eq!((stats.unsent, stats.rejected.wrong_values, stats.duplicates), (1, 1, 1));
    assert_eq!((stats.results, stats.delivered), (1, 1));
    // ESA has no Reply and Query packets, and an ESA worker rejects ATP packets.
    for (kind, protocol) in [
        (Kind::Reply, Protocol::Esa),
        (Kind::Reminder, Protocol::Esa),
        (Kind::Absent, Protocol::Esa),
        (Kind::Parameter, Protocol::Atp),
    ] {
        let mut header = repr(&job(3), kind, 1, EVERYONE, Flags::NONE);
        header.protocol = protocol;
        worker.handle_frame(ms(1), &frame(&header, &[1, 1]));
    }
    let rejected = worker.stats().rejected;
    assert_eq!((rejected.wrong_kind, rejected.other_protocol), (3, 1));
    assert_eq!(worker.stats().results, 1);
}

#[test]
fn a_flood_of_questions_costs_no_memory() {
    let mut worker = loaded(8);
    sent(&mut worker, ms(0));
    for sequence in 0..100_000 {
        query(&mut worker, 1, sequence, false);
    }
    assert_eq!(said(&mut worker).len(), 32);
    assert_eq!(worker.stats().stale_queries, 100_000 - 32);
}

#[test]
fn an_atp_worker_has_no_channel() {
    let mut config = crate::esa::setup::worker_config(job(3), 1);
    config.timing.recovery = Recovery::Papers;
    config.job.protocol = Protocol::Atp;
    let mut worker = Worker::new(config).unwrap();
    assert!(worker.is_dismissed(), "nobody needs it as long as it is idle");
    worker.submit(Tensor::I32(vec![1; 16].into())).unwrap();
    sent(&mut worker, ms(0));
    query(&mut worker, 1, 0, false);
    worker.handle_timeout(ms(20));
    worker.leave();
    assert_eq!(said(&mut worker), []);
    assert_eq!(sent(&mut worker, ms(20)).len(), 1);
}
