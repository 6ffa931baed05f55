//! Unit tests of the ESA server.

use tributary_protocol::Endpoint;
use tributary_protocol::esa::Server;
use tributary_protocol::esa::server::Stats;
use tributary_protocol::server::Event;
use tributary_wire::agg::{Repair, Repaired, Repr};
use tributary_wire::channel::{FromServer, ToServer};
use tributary_wire::{
    AggregatorIndex, Bitmap, Epoch, Flags, JobId, Kind, Protocol, Sequence, WorkerSet,
};

use crate::esa::setup::{floats, frame, integers, job, ms, repr, sent, server};

/// Selects a counter.
type Counter = fn(&Stats) -> u64;

fn gradient(server: &mut Server, sequence: u32, bitmap: u32, words: [i32; 2]) {
    let flags = Flags::COLLISION;
    let header = repr(&job(3), Kind::Gradient, sequence, Bitmap(bitmap), flags);
    server.handle_frame(ms(1), &frame(&header, &words));
}

fn told(server: &mut Server) -> Vec<FromServer> {
    std::iter::from_fn(|| server.poll_message()).collect()
}

fn entry(sequence: u32, merged: u32, float: bool, urgent: bool) -> FromServer {
    let (sequence, merged) = (Sequence(sequence), WorkerSet::from_low_bits(merged));
    FromServer::Entry { sequence, merged, float, urgent }
}

fn closed(sequence: u32) -> FromServer {
    FromServer::Closed { sequence: Sequence(sequence) }
}

fn missing(server: &mut Server, sequence: u32, workers: u32) {
    let (sequence, workers) = (Sequence(sequence), WorkerSet::from_low_bits(workers));
    server.handle_message(ms(2), ToServer::Missing { sequence, workers });
}

fn brought(
    server: &mut Server,
    sequence: u32,
    workers: u32,
    values: tributary_wire::channel::Values,
) {
    let (sequence, workers) = (Sequence(sequence), WorkerSet::from_low_bits(workers));
    let partial = ToServer::Partial { sequence, workers, marked: false, values };
    server.handle_message(ms(2), partial);
}

#[test]
fn disjoint_parts_complete_a_task_and_the_result_is_multicast() {
    let mut server = server(job(3));
    gradient(&mut server, 4, 0b011, [10, 20]);
    assert_eq!(told(&mut server), [entry(4, 0b011, false, false)]);
    brought(&mut server, 4, 0b100, integers(&[1, 2]));
    assert_eq!(told(&mut server), [closed(4)]);
    let expected = repr(&job(3), Kind::Parameter, 4, Bitmap(0b111), Flags::NONE);
    assert_eq!(sent(&mut server, ms(2)), [(expected, vec![11, 22])]);
    assert_eq!(sent(&mut server, ms(2)), []);
    assert_eq!(server.pending_tasks(), 0);
}

#[test]
fn an_overlapping_part_is_dropped_and_makes_the_entry_urgent() {
    let mut server = server(job(3));
    gradient(&mut server, 0, 0b001, [1, 1]);
    gradient(&mut server, 0, 0b011, [5, 5]);
    let entries = [entry(0, 1, false, false), entry(0, 1, false, true)];
    assert_eq!((told(&mut server), server.stats().overlaps), (entries.to_vec(), 1));
    // Everything in a duplicate was merged before, so dropping it loses nothing.
    gradient(&mut server, 0, 0b001, [1, 1]);
    assert_eq!((told(&mut server), server.stats().duplicates), (vec![], 1));
    gradient(&mut server, 0, 0b110, [2, 3]);
    assert_eq!(sent(&mut server, ms(2))[0].1, [3, 4]);
    // After completion every packet is a duplicate.
    gradient(&mut server, 0, 0b001, [1, 1]);
    assert_eq!((sent(&mut server, ms(2)), server.stats().duplicates), (vec![], 2));
}

#[test]
fn a_worker_that_lacks_a_result_gets_the_kept_one() {
    let mut server = server(job(3));
    gradient(&mut server, 0, 0b111, [1, 2]);
    told(&mut server);
    missing(&mut server, 0, 0b010);
    let (workers, values) = (WorkerSet::from_low_bits(0b010), integers(&[1, 2]));
    let expected = FromServer::Deliver { sequence: Sequence(0), workers, values };
    assert_eq!(told(&mut server), [expected]);
}

#[test]
fn a_reminder_makes_an_entry_and_a_workers_result_closes_it() {
    let mut server = server(job(3));
    missing(&mut server, 0, 0b001);
    missing(&mut server, 0, 0b100);
    assert_eq!(told(&mut server), [entry(0, 0, false, true), entry(0, 0, false, true)]);
    let (sequence, values) = (Sequence(0), integers(&[8, 9]));
    server.handle_message(ms(3), ToServer::Known { sequence, values: values.clone() });
    let workers = WorkerSet::from_low_bits(0b101);
    let expected = FromServer::Deliver { sequence, workers, values: values.clone() };
    assert_eq!(told(&mut server), [closed(0), expected]);
    // A second worker's result is redundant. A later request for the result is answered from
    // memory.
    server.handle_message(ms(3), ToServer::Known { sequence, values: values.clone() });
    assert_eq!(told(&mut server), []);
    missing(&mut server, 0, 0b010);
    let expected =
        FromServer::Deliver { sequence, workers: WorkerSet::from_low_bits(0b010), values };
    assert_eq!(told(&mut server), [expected]);
    // A switch multicast the result, so the server does not.
    assert_eq!(sent(&mut server, ms(3)), []);
}

#[test]
fn entries_of_completed_tasks_are_dropped() {
    let mut server = server(job(3));
    gradient(&mut server, 0, 0b001, [1, 1]);
    server.handle_message(ms(2), ToServer::Over { sequence: Sequence(0) });
    assert_eq!(told(&mut server)[1..], [closed(0)]);
    assert_eq!((server.pending_tasks(), server.stats().over), (0, 1));
}

#[test]
fn a_worker_that_sends_a_window_later_has_the_result() {
    let mut server = server(job(3));
    gradient(&mut server, 3, 0b001, [1, 1]);
    gradient(&mut server, 11, 0b011, [1, 1]);
    told(&mut server);
    // The third worker may still lack 3, until it has sent 11, which is 3 + W.
    assert_eq!(server.pending_tasks(), 2);
    missing(&mut server, 12, 0b100);
    assert_eq!(told(&mut server), [closed(3), entry(12, 0, false, true)]);
    gradient(&mut server, 3, 0b001, [1, 1]);
    assert_eq!((told(&mut server), server.stats().stale), (vec![], 1));
    // A worker's report that it lacks a result overrides what was recorded for it.
    missing(&mut server, 2, 0b001);
    assert_eq!(told(&mut server), [entry(2, 0, false, true)]);
}

/// A repair packet of worker `worker`.
fn repair(server: &mut Server, sequence: u32, worker: u8, what: Repaired, words: [i32; 2]) {
    let bitmap = Bitmap(1 << worker);
    let mut header = repr(&job(3), Kind::Gradient, sequence, bitmap, Flags::REPAIR);
    header.priority = Repair { what, float: false }.code();
    server.handle_frame(ms(5), &frame(&header, &words));
}

/// A question to a worker.
fn question(sequence: u32, worker: u8) -> (Repr, Vec<i32>) {
    let bitmap = Bitmap(1 << worker);
    let mut header = repr(&job(3), Kind::Parameter, sequence, bitmap, Flags::REPAIR);
    header.priority = Repair { what: Repaired::Question, float: false }.code();
    (header, vec![0, 0])
}

#[test]
fn a_repair_packet_makes_the_server_ask_another_worker() {
    let mut server = server(job(3));
    repair(&mut server, 4, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(5)), [question(4, 0)]);
    // The time to an answer is unknown, so the answer may be late already: the server asks the next
    // worker in turn.
    repair(&mut server, 4, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(6)), [question(4, 2)]);
    repair(&mut server, 4, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(7)), [question(4, 0)]);
    // That worker lacks it, too; the last worker has it.
    repair(&mut server, 4, 0, Repaired::Contribution, [2, 2]);
    assert_eq!(sent(&mut server, ms(8)), [question(4, 2)]);
    repair(&mut server, 4, 2, Repaired::Result, [7, 8]);
    let result = repr(&job(3), Kind::Parameter, 4, Bitmap(0b111), Flags::NONE);
    assert_eq!(sent(&mut server, ms(9)), [(result, vec![7, 8])]);
    assert_eq!((server.pending_tasks(), server.stats().known, server.stats().questions), (0, 1, 4));
}

#[test]
fn the_answer_of_a_near_worker_makes_the_server_ask_the_next_one() {
    let mut server = server(job(3));
    // The shortest time to an answer so far is 5 ms.
    repair(&mut server, 4, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(0)), [question(4, 0)]);
    repair(&mut server, 4, 0, Repaired::Result, [7, 8]);
    sent(&mut server, ms(5));
    // The first worker lacks this fragment, too, and answers sooner.
    repair(&mut server, 5, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(4)), [question(5, 0)]);
    repair(&mut server, 5, 1, Repaired::Contribution, [1, 1]);
    assert_eq!(sent(&mut server, ms(5)), []);
    repair(&mut server, 5, 0, Repaired::Contribution, [2, 2]);
    assert_eq!(sent(&mut server, ms(5)), [question(5, 2)]);
}

#[test]
fn repair_packets_of_all_workers_complete_a_task() {
    let mut server = server(job(3));
    for worker in 0..3 {
        repair(&mut server, 4, worker, Repaired::Contribution, [1 << worker, 1]);
    }
    let result = repr(&job(3), Kind::Parameter, 4, Bitmap(0b111), Flags::NONE);
    assert_eq!(sent(&mut server, ms(5)), [(result, vec![7, 3])]);
    // A repeated request gets the result again.
    repair(&mut server, 4, 1, Repaired::Contribution, [2, 1]);
    assert_eq!(sent(&mut server, ms(6)), [(result, vec![7, 3])]);
}

#[test]
fn invalid_repairs_are_dropped_and_counted() {
    let mut server = server(job(3));
    let mut header = repr(&job(3), Kind::Gradient, 4, Bitmap(0b001), Flags::REPAIR);
    for (code, bitmap) in [(0, 1), (6, 1), (7, 1), (8, 1), (255, 1), (1, 3), (2, 3), (2, 0), (4, 3)]
    {
        (header.priority, header.bitmap) = (code, Bitmap(bitmap));
        server.handle_frame(ms(5), &frame(&header, &[1, 1]));
    }
    // A result that no worker lacks.
    repair(&mut server, 4, 1, Repaired::Result, [1, 1]);
    let rejected = server.stats().rejected;
    assert_eq!((rejected.wrong_kind, rejected.wrong_bitmap), (5, 4));
    assert_eq!((server.pending_tasks(), sent(&mut server, ms(5))), (0, vec![]));
}

#[test]
fn farewells_of_all_workers_close_all_entries_and_each_further_one_is_answered() {
    let mut server = server(job(3));
    gradient(&mut server, 3, 0b001, [1, 1]);
    told(&mut server);
    for worker in [0, 2, 2] {
        repair(&mut server, 4, worker, Repaired::Farewell, [0, 0]);
        assert_eq!((sent(&mut server, ms(5)), told(&mut server)), (vec![], vec![]));
    }
    let mut answer = repr(&job(3), Kind::Parameter, 0, Bitmap(0b111), Flags::REPAIR);
    answer.priority = Repair::FAREWELL.code();
    repair(&mut server, 4, 1, Repaired::Farewell, [0, 0]);
    assert_eq!(sent(&mut server, ms(5)), [(answer, vec![0, 0])]);
    assert_eq!((told(&mut server), server.pending_tasks()), (vec![closed(3)], 0));
    // Its answer was lost.
    repair(&mut server, 4, 2, Repaired::Farewell, [0, 0]);
    assert_eq!(sent(&mut server, ms(5)), [(answer, vec![0, 0])]);
    // Nobody is there who would complete what late copies begin.
    gradient(&mut server, 3, 0b001, [1, 1]);
    repair(&mut server, 3, 1, Repaired::Contribution, [1, 1]);
    assert_eq!((told(&mut server), server.pending_tasks(), server.stats().stale), (vec![], 0, 2));
}

#[test]
fn farewells_over_either_way_count_together() {
    let mut server = server(job(3));
    repair(&mut server, 4, 0, Repaired::Farewell, [0, 0]);
    for (worker, answers) in [(1, 0), (2, 1)] {
        let workers = WorkerSet::from_low_bits(1 << worker);
        server.handle_message(ms(5), ToServer::Finished { workers });
        assert_eq!(sent(&mut server, ms(5)).len(), answers);
    }
}

#[test]
fn floats_discard_integers_and_query_all_other_workers() {
    let mut server = server(job(3));
    gradient(&mut server, 0, 0b011, [1, 1]);
    brought(&mut server, 0, 0b100, floats(&[1e20, -0.5]));
    gradient(&mut server, 0, 0b011, [1, 1]);
    brought(&mut server, 0, 0b100, floats(&[1e20, -0.5]));
    assert_eq!(
        told(&mut server),
        [
            entry(0, 0b011, false, false),
            entry(0, 0b100, true, true),
            // Integers of a task that is collected in floats are dropped.
            entry(0, 0b100, true, true),
        ]
    );
    brought(&mut server, 0, 0b001, floats(&[1e20, 1.0]));
    brought(&mut server, 0, 0b010, floats(&[-2e20, 0.25]));
    let results = sent(&mut server, ms(3));
    let (header, words) = &results[0];
    assert_eq!(header.flags, Flags::OVERFLOW);
    let sums: Vec<f32> = words.iter().map(|w| f32::from_bits(w.cast_unsigned())).collect();
    assert_eq!(sums, [0.0, 0.75]);
    let stats = server.stats();
    assert_eq!((stats.fixed_after_overflow, stats.duplicates, stats.overflow_tasks), (1, 1, 1));
}

#[test]
fn memory_is_bounded_by_two_windows() {
    let mut server = server(job(3));
    for sequence in 0..1000 {
        // Only one worker sends. Otherwise the progress of the other workers would be known.
        gradient(&mut server, sequence, 0b001, [1, 1]);
    }
    assert_eq!((server.pending_tasks(), server.stats().full), (16, 1000 - 16));
    for sequence in 0..1000 {
        gradient(&mut server, sequence, 0b110, [1, 1]);
    }
    assert!(server.pending_tasks() <= 16);
    for sequence in 2000..3000 {
        gradient(&mut server, sequence, 0b111, [1, 1]);
    }
    assert_eq!(server.pending_tasks(), 0, "all are past what was left");
}

#[test]
fn a_full_dictionary_drops_its_highest_entry() {
    let mut server = server(job(3));
    for ahead in 0..16 {
        missing(&mut server, 1_000_000 + ahead, 0b001);
    }
    told(&mut server);
    gradient(&mut server, 3, 0b010, [1, 1]);
    assert_eq!(told(&mut server), [closed(1_000_015), entry(3, 0b010, false, false)]);
    missing(&mut server, 1_000_015, 0b001);
    assert_eq!(told(&mut server), []);
    assert_eq!((server.pending_tasks(), server.stats().full), (16, 2));
}

#[test]
fn a_new_agent_is_told_of_all_entries() {
    let mut server = server(job(3));
    gradient(&mut server, 0, 0b001, [1, 1]);
    gradient(&mut server, 1, 0b010, [1, 1]);
    server.channel_opened();
    assert_eq!(told(&mut server), [entry(0, 1, false, false), entry(1, 2, false, false)]);
}

#[test]
fn a_stall_is_reported_once() {
    let mut server = server(job(3));
    gradient(&mut server, 5, 0b001, [1, 1]);
    let at = server.poll_timeout().unwrap();
    server.handle_timeout(at);
    let expected = Event::Stalled {
        sequence: Sequence(5),
        missing: WorkerSet::from_low_bits(0b110),
        waited: at - ms(1),
        quiet: true,
    };
    assert_eq!(server.poll_event(), Some(expected));
    server.handle_timeout(server.poll_timeout().unwrap());
    assert_eq!(server.poll_event(), None);
}

#[test]
fn invalid_packets_are_dropped_and_counted() {
    let job = job(3);
    let good = repr(&job, Kind::Gradient, 0, Bitmap(1), Flags::COLLISION);
    let other_job = JobId::new(2).unwrap();
    let bad: [(Repr, Counter); 11] = [
        (Repr { job: other_job, ..good }, |s| s.rejected.other_job),
        (Repr { epoch: Epoch::new(4).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { epoch: Epoch::new(6).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { protocol: Protocol::Atp, ..good }, |s| s.rejected.other_protocol),
        (Repr { kind: Kind::Parameter, ..good }, |s| s.rejected.wrong_kind),
        (Repr { kind: Kind::Reminder, ..good }, |s| s.rejected.wrong_kind),
        (Repr { values: 3, ..good }, |s| s.rejected.wrong_values),
        (Repr { bitmap: Bitmap(0b1001), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: Bitmap::EMPTY, ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: Bitmap(3), flags: Flags::OVERFLOW, ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { index: AggregatorIndex(good.index.0 ^ 1), ..good }, |s| s.rejected.wrong_index),
    ];
    for (header, counter) in bad {
        let mut server = server(job);
        server.handle_frame(ms(0), &frame(&header, &[1; 3][..usize::from(header.values)]));
        assert_eq!(counter(server.stats()), 1, "{header:?}");
        assert_eq!((told(&mut server), server.stats().rejected.total()), (vec![], 1));
    }
    let mut server = server(job);
    brought(&mut server, 0, 0b1000, integers(&[1, 1]));
    brought(&mut server, 0, 0b001, integers(&[1]));
    missing(&mut server, 0, 0b1001);
    let values = integers(&[1, 1, 1]);
    server.handle_message(ms(0), ToServer::Known { sequence: Sequence(0), values });
    server.handle_message(ms(0), ToServer::Over { sequence: Sequence(0) });
    assert_eq!((told(&mut server), server.pending_tasks()), (vec![], 0));
    assert_eq!(server.stats().rejected.total(), 4);
}
