//! Unit tests of the worker.

mod ladder;
mod parts;
mod turned_back;

use std::time::Duration;

use tributary_protocol::worker::{Event, ReassignError, Stats};
use tributary_protocol::{Assignment, ConfigError, Endpoint, Mode, Tensor, TensorId, Worker};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Bitmap, Ecn, Epoch, Flags, Host, Kind, Protocol, Round, Segment, Sequence,
    Service,
};

use crate::p4inc::setup::{
    FORWARDED, JOB, LOCAL, PARTIAL, POOL, SERVER, SWITCHML, Setup, frame, host, rounds, sent, us,
};

const NONE: Flags = Flags::NONE;
const RESEND: Flags = Flags::RESEND;
const OVERFLOW: Flags = Flags::OVERFLOW;
const EVERYONE: u32 = 0b111;

/// Worker 1 with an integer tensor 0, 1, 2… of `fragments` fragments.
fn loaded(setup: Setup, fragments: i32) -> Worker {
    let mut worker = Worker::new(setup.papers(1)).unwrap();
    worker.submit(Tensor::I32((0..2 * fragments).collect())).unwrap();
    worker
}

/// Worker 1 with one fragment of these floats.
fn floats(setup: Setup, values: [f32; 2]) -> Worker {
    let mut worker = Worker::new(setup.papers(1)).unwrap();
    worker.submit(Tensor::F32(values.to_vec().into())).unwrap();
    worker
}

fn result(worker: &mut Worker, setup: Setup, micros: u64, round: (u32, u8), flags: Flags) {
    let repr = Repr { flags, ..setup.repr(Kind::Parameter, round, EVERYONE) };
    worker.handle_frame(us(micros), &frame(&repr, &[500, -500]));
}

fn fresh(fragments: impl IntoIterator<Item = u32>) -> Vec<(u32, u8, Flags)> {
    fragments.into_iter().map(|f| (f, 0, NONE)).collect()
}

fn sums(worker: &mut Worker) -> Vec<Tensor> {
    std::iter::from_fn(|| worker.poll_event())
        .map(|event| match event {
            Event::TensorDone { tensor, .. } => tensor,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn every_packet_names_service_round_and_a_place_in_the_segment() {
    for setup in [LOCAL, PARTIAL, FORWARDED] {
        let mut worker = loaded(setup, 3);
        let all = sent(&mut worker, us(0));
        for (f, packet) in (0..3).zip(&all) {
            assert_eq!(packet.repr, setup.repr(Kind::Gradient, (f, 0), 0b010));
            assert_eq!(packet.repr.service(), Service::new(setup.service));
            let inside = setup.assignment().segment.contains(packet.repr.index);
            assert_eq!(inside, setup.mode != Mode::Forwarded);
        }
        let to = match setup.mode {
            Mode::Local => Host::service(JOB),
            _ => host(SERVER),
        };
        let envelope = all[0].envelope;
        assert_eq!((envelope.source, envelope.destination, envelope.ecn), (host(1), to, Ecn::Ect0));
    }
}

#[test]
fn the_window_starts_at_the_lowest_fragment_without_a_final_result() {
    let mut worker = loaded(LOCAL, 20);
    assert_eq!(rounds(&mut worker, us(0)), fresh(0..8));
    result(&mut worker, LOCAL, 1, (1, 0), NONE);
    assert_eq!(rounds(&mut worker, us(1)), []);
    result(&mut worker, LOCAL, 2, (0, 0), NONE);
    assert_eq!(rounds(&mut worker, us(2)), fresh([8, 9]));
    let round = |fragment| Round::first(fragment).sequence();
    assert_eq!(worker.outstanding(), round(2)..round(10));
}

#[test]
fn lost_packets_are_resent_after_three_later_results_or_the_timeout() {
    let mut worker = loaded(LOCAL, 8);
    rounds(&mut worker, us(0));
    for fragment in 1..4 {
        assert_eq!(rounds(&mut worker, us(1)), []);
        result(&mut worker, LOCAL, 1, (fragment, 0), NONE);
    }
    assert_eq!(rounds(&mut worker, us(2)), [(0, 0, RESEND)]);
    assert_eq!((worker.window(), worker.stats().fast_resends), (4, 1));
    let reply = Repr { kind: Kind::Reply, ..LOCAL.repr(Kind::Reply, (0, 0), EVERYONE) };
    worker.handle_frame(us(3), &frame(&reply, &[7, 8]));
    assert_eq!(worker.stats().replies, 1);
    let at = worker.poll_timeout().unwrap();
    worker.handle_timeout(at);
    let at = worker.poll_timeout().unwrap_or(at);
    worker.handle_timeout(at);
    assert_eq!(rounds(&mut worker, at)[0], (4, 0, RESEND));
}

/// Sixteen slots on eight aggregators.
const WIDE: Setup = Setup { slots: 16, initial_window: Some(16), ..PARTIAL };

/// Selects a counter.
type Counter = fn(&Stats) -> u64;

#[test]
fn packets_that_are_not_the_jobs_or_not_due_change_nothing() {
    let good = WIDE.repr(Kind::Parameter, (0, 0), EVERYONE);
    let back = WIDE.repr(Kind::Asynchronous, (0, 0), 0b010);
    let bare = WIDE.repr(Kind::Query, (0, 0), 0b101);
    let elsewhere = AggregatorIndex(good.index.0 ^ 1);
    let wrong: Vec<(Repr, Counter)> = vec![
        (Repr { priority: 16, ..good }, |s| s.rejected.other_service),
        (Repr { priority: 0, ..good }, |s| s.rejected.other_service),
        (Repr { priority: 18, ..back }, |s| s.rejected.other_service),
        (Repr { epoch: Epoch::new(4).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { epoch: Epoch::new(6).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { protocol: Protocol::SwitchMl, ..good }, |s| s.rejected.other_protocol),
        (Repr { kind: Kind::Gradient, ..good }, |s| s.rejected.wrong_kind),
        (Repr { kind: Kind::Absent, ..good }, |s| s.rejected.wrong_kind),
        (Repr { values: 3, ..good }, |s| s.rejected.wrong_values),
        (Repr { values: 1, ..back }, |s| s.rejected.wrong_values),
        (Repr { bitmap: Bitmap(0b011), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: Bitmap(0b001), ..back }, |s| s.rejected.wrong_bitmap),
        (bare, |s| s.rejected.wrong_bitmap),
        (Repr { index: elsewhere, ..good }, |s| s.rejected.wrong_index),
        (Repr { index: elsewhere, ..back }, |s| s.rejected.wrong_index),
        (Repr { sequence: Sequence(1), ..good }, |s| s.unsent),
        (Repr { sequence: Sequence(1), ..back }, |s| s.unsent),
        (Repr { sequence: Sequence(u32::MAX), ..good }, |s| s.unsent),
        (Repr { sequence: Sequence(u32::MAX), ..back }, |s| s.unsent),
        (
            Repr {
                kind: Kind::Query,
                values: 0,
                bitmap: Bitmap(0b010),
                sequence: Sequence(u32::MAX),
                ..good
            },
            |s| s.stale_queries,
        ),
    ];
    let mut worker = loaded(WIDE, 3);
    rounds(&mut worker, us(0));
    for (repr, counter) in wrong {
        let before = counter(worker.stats());
        worker.handle_frame(us(1), &frame(&repr, &[1, 2]));
        assert_eq!(counter(worker.stats()), before + 1, "{repr:?}");
        assert_eq!(rounds(&mut worker, us(1)), [], "{repr:?}");
        assert_eq!(worker.window(), 16, "{repr:?}");
    }
    assert_eq!((worker.stats().results, worker.stats().asynchronous), (0, 0));
    // Kinds that do not exist in a mode.
    for (setup, kind) in [
        (LOCAL, Kind::Query),
        (SWITCHML, Kind::Query),
        (SWITCHML, Kind::Asynchronous),
        (FORWARDED, Kind::Asynchronous),
    ] {
        let mut worker = loaded(setup, 3);
        let first = sent(&mut worker, us(0))[0].repr;
        let values = if kind.has_values() { 2 } else { 0 };
        worker.handle_frame(us(1), &frame(&Repr { kind, values, ..first }, &[1, 2]));
        assert_eq!(worker.stats().rejected.wrong_kind, 1, "{setup:?} {kind:?}");
    }
}

#[test]
fn a_question_of_the_server_is_answered_by_a_resend() {
    let mut worker = floats(PARTIAL, [1.0; 2]);
    let ask = |worker: &mut Worker, round| {
        let repr = PARTIAL.repr(Kind::Query, round, 0b010);
        worker.handle_frame(us(1), &frame(&repr, &[]));
        rounds(worker, us(1))
    };
    rounds(&mut worker, us(0));
    assert_eq!(ask(&mut worker, (0, 0)), [(0, 0, RESEND)]);
    // The PS is at the next rung, so the result of this rung was lost.
    assert_eq!(ask(&mut worker, (0, 1)), [(0, 0, RESEND)]);
    result(&mut worker, PARTIAL, 2, (0, 0), OVERFLOW);
    assert_eq!(rounds(&mut worker, us(2)), [(0, 1, NONE)]);
    assert_eq!(ask(&mut worker, (0, 0)), []);
    // A future fragment: it will be marked as resent.
    assert_eq!(ask(&mut worker, (1, 0)), []);
    worker.submit(Tensor::I32(vec![5].into())).unwrap();
    assert_eq!(rounds(&mut worker, us(3)), [(1, 0, RESEND)]);
    assert_eq!((worker.stats().queries, worker.stats().stale_queries), (3, 1));
}

#[test]
fn switchml_rounds_of_a_slot_use_its_versions_in_turn() {
    let mut worker = Worker::new(SWITCHML.papers(1)).unwrap();
    worker.submit(Tensor::F32(vec![1.0; 40].into())).unwrap();
    let place = |all: Vec<crate::p4inc::setup::Sent>| -> Vec<(u32, u8, u32)> {
        all.iter().map(|s| (s.short().0, s.short().1, s.repr.index.0 - 16)).collect()
    };
    let first: Vec<_> = (0..8).map(|f| (f, 0, 2 * f)).collect();
    assert_eq!(place(sent(&mut worker, us(0))), first);
    let mut give = |round: (u32, u8), index: u32, flags| {
        let index = AggregatorIndex(16 + index);
        let repr = Repr { flags, index, ..LOCAL.repr(Kind::Parameter, round, EVERYONE) };
        let repr = Repr { protocol: Protocol::SwitchMl, ..repr };
        worker.handle_frame(us(1), &frame(&repr, &[1, 2]));
        place(sent(&mut worker, us(1)))
    };
    assert_eq!(give((0, 0), 0, NONE), [(8, 0, 1)]);
    // A repeat is an ordinary round.
    assert_eq!(give((1, 0), 2, OVERFLOW), [(1, 1, 3)]);
    assert_eq!(give((1, 1), 2, OVERFLOW), []);
    assert_eq!(give((1, 1), 3, OVERFLOW), [(1, 2, 2)]);
    assert_eq!(give((1, 2), 2, NONE), [(9, 0, 3)]);
    assert_eq!(worker.stats().rejected.wrong_index, 1);
}

#[test]
fn a_job_is_moved_while_it_is_idle() {
    let mut worker = loaded(LOCAL, 2);
    let forwarded = FORWARDED.assignment();
    assert_eq!(worker.reassign(forwarded), Err(ReassignError::Busy));
    rounds(&mut worker, us(0));
    for fragment in 0..2 {
        result(&mut worker, LOCAL, 1, (fragment, 0), NONE);
    }
    let mut bad = LOCAL.assignment();
    bad.segment.size = 7;
    let error = ConfigError::Window { slots: 8, needed: 8, size: 7 };
    assert_eq!(worker.reassign(bad), Err(error.into()));
    assert_eq!(worker.config().job.assignment, LOCAL.assignment());
    worker.reassign(forwarded).unwrap();
    worker.submit(Tensor::I32(vec![1, 2].into())).unwrap();
    let all = sent(&mut worker, us(2));
    let expected = FORWARDED.repr(Kind::Gradient, (2, 0), 0b010);
    assert_eq!((all[0].repr, all[0].envelope.destination), (expected, host(SERVER)));
    // A result of the old assignment has another service ID.
    result(&mut worker, LOCAL, 3, (2, 0), NONE);
    assert_eq!((worker.stats().rejected.other_service, worker.stats().results), (1, 2));
    result(&mut worker, FORWARDED, 3, (2, 0), NONE);
    assert!(worker.is_idle() && worker.is_dismissed());
    let elsewhere = Assignment {
        service: Service::new(200),
        segment: Segment { offset: AggregatorIndex(POOL - 8), size: 8 },
        mode: Mode::Local,
    };
    worker.reassign(elsewhere).unwrap();
    worker.submit(Tensor::I32(vec![3].into())).unwrap();
    let all = sent(&mut worker, us(4));
    assert!(elsewhere.segment.contains(all[0].repr.index));
    assert_eq!(all[0].envelope.destination, Host::service(JOB));
}

#[test]
fn a_job_continues_in_a_later_run_while_it_is_idle() {
    let mut worker = loaded(LOCAL, 2);
    let next = Epoch::new(LOCAL.job().epoch.get() + 1).unwrap();
    assert_eq!(worker.renew(next), Err(ReassignError::Busy));
    rounds(&mut worker, us(0));
    for fragment in 0..2 {
        result(&mut worker, LOCAL, 1, (fragment, 0), NONE);
    }
    worker.renew(next).unwrap();
    let id = worker.submit(Tensor::I32(vec![1, 2].into())).unwrap();
    // Only the count of fragments begins again.
    assert_eq!((id, worker.stats().results), (TensorId(1), 2));
    let all = sent(&mut worker, us(2));
    let expected = Repr { epoch: next, ..LOCAL.repr(Kind::Gradient, (0, 0), 0b010) };
    assert_eq!(all[0].repr, expected);
    // A result of the old run.
    result(&mut worker, LOCAL, 3, (0, 0), NONE);
    assert_eq!((worker.stats().rejected.other_run, worker.stats().results), (1, 2));
    let repr = Repr { epoch: next, ..LOCAL.repr(Kind::Parameter, (0, 0), EVERYONE) };
    worker.handle_frame(us(4), &frame(&repr, &[5, 6]));
    assert!(worker.is_idle());
    assert_eq!(sums(&mut worker).pop(), Some(vec![5, 6].into()));
}

#[test]
fn the_window_opens_quickly_up_to_the_aggregators_and_then_slowly() {
    let setup = Setup { slots: 64, size: 8, ..PARTIAL };
    let mut config = setup.papers(1);
    assert_eq!(Worker::new(config).unwrap().window(), 8);
    config.initial_window = Some(4);
    let mut worker = Worker::new(config).unwrap();
    worker.submit(Tensor::I32(vec![0; 200].into())).unwrap();
    let mut windows = vec![];
    for fragment in 0..12 {
        rounds(&mut worker, us(u64::from(fragment)));
        result(&mut worker, setup, u64::from(fragment), (fragment, 0), NONE);
        windows.push(worker.window());
    }
    assert_eq!(windows, [5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9]);
}

#[test]
fn a_stall_names_the_round() {
    let mut config = LOCAL.papers(1);
    config.timing.stall_timeout = Duration::from_millis(5);
    let mut worker = Worker::new(config).unwrap();
    worker.submit(Tensor::F32(vec![1.0].into())).unwrap();
    rounds(&mut worker, us(0));
    result(&mut worker, LOCAL, 1, (0, 0), OVERFLOW);
    rounds(&mut worker, us(1));
    worker.handle_timeout(us(6_000));
    let event = worker.poll_event().unwrap();
    let waited = Duration::from_micros(5_999);
    assert_eq!(event, Event::Stalled { sequence: Sequence(1), waited });
}

#[test]
fn tensors_keep_their_order_for_any_order_of_results() {
    let mut worker = Worker::new(LOCAL.papers(1)).unwrap();
    assert_eq!(worker.submit(Tensor::F32(vec![1.0; 2].into())), Ok(TensorId(0)));
    assert_eq!(worker.submit(Tensor::I32(vec![4].into())), Ok(TensorId(1)));
    rounds(&mut worker, us(0));
    result(&mut worker, LOCAL, 1, (1, 0), NONE);
    assert!(sums(&mut worker).is_empty());
    result(&mut worker, LOCAL, 1, (0, 0), NONE);
    let expected = [Tensor::F32(vec![0.5, -0.5].into()), Tensor::I32(vec![500].into())];
    assert_eq!(sums(&mut worker), expected);
}
