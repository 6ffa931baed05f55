//! Unit tests of the worker.

use std::time::Duration;

use tributary_protocol::congestion::Controller;
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::{Event, Failure, Stats, SubmitError, Tensor, TensorId, Worker};
use tributary_protocol::{ConfigError, Endpoint, JobConfig, LaterResults, Rejected};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Bitmap, Ecn, Epoch, Flags, JobId, Kind, Protocol, Sequence, WorkerIndex,
};

use crate::network::frames::{Sent, float_words, frame, index, repr, sent, us};
use crate::network::net::{SERVER, Setup, host};

const NONE: Flags = Flags::NONE;
const RESEND: Flags = Flags::RESEND;
const OVERFLOW: Flags = Flags::OVERFLOW;
const EVERYONE: u32 = 0b111;

/// Selects a counter.
type Counter = fn(&Stats) -> u64;

/// Worker 1 of three, with two values per packet at scale 1000, and eight slots.
fn worker() -> (Worker, JobConfig) {
    let setup = Setup { values: 2, ..Setup::papers() };
    (Worker::new(setup.worker(0, 1)).unwrap(), setup.job(0))
}

/// The same, with an integer tensor 0, 1, 2… of `fragments` fragments submitted.
fn loaded(fragments: i32) -> (Worker, JobConfig) {
    let (mut worker, job) = worker();
    worker.submit(Tensor::I32((0..2 * fragments).collect())).unwrap();
    (worker, job)
}

fn sequences(sent: &[Sent]) -> Vec<(u32, Flags)> {
    sent.iter().map(|s| (s.repr.sequence.0, s.repr.flags)).collect()
}

fn result(worker: &mut Worker, micros: u64, sequence: u32, flags: Flags) {
    let repr = repr(&worker.config().job.clone(), Kind::Parameter, sequence, EVERYONE, flags);
    let value = 100 * sequence.cast_signed();
    worker.handle_frame(us(micros), &frame(&repr, &[value, value + 1]));
}

fn query(worker: &mut Worker, micros: u64, sequence: u32, flags: Flags) {
    let repr = repr(&worker.config().job.clone(), Kind::Query, sequence, 0b010, flags);
    worker.handle_frame(us(micros), &frame(&repr, &[]));
}

fn events(worker: &mut Worker) -> Vec<Event> {
    std::iter::from_fn(|| worker.poll_event()).collect()
}

#[test]
fn sends_its_own_bit_to_the_server_up_to_the_number_of_slots() {
    let (mut worker, job) = loaded(20);
    let all = sent(&mut worker, us(0));
    assert_eq!(sequences(&all), (0..8).map(|s| (s, NONE)).collect::<Vec<_>>());
    for (s, packet) in all.iter().enumerate() {
        let s = s as u32;
        assert_eq!(packet.repr, repr(&job, Kind::Gradient, s, 0b010, NONE));
        assert_eq!(packet.words, [2 * s.cast_signed(), 2 * s.cast_signed() + 1]);
        let (from, to) = (packet.envelope.source, packet.envelope.destination);
        assert_eq!((from, to, packet.envelope.ecn), (host(0, 1), host(0, SERVER), Ecn::Ect0));
    }
    // A result out of order does not move the window; the one in order moves it past both.
    result(&mut worker, 1, 1, NONE);
    assert!(sent(&mut worker, us(1)).is_empty());
    result(&mut worker, 2, 0, NONE);
    assert_eq!(sequences(&sent(&mut worker, us(2))), [(8, NONE), (9, NONE)]);
    assert_eq!(worker.outstanding(), Sequence(2)..Sequence(10));
}

/// A controller with a constant window.
#[derive(Clone, Debug)]
struct Always(u32);

impl Controller for Always {
    fn window(&self) -> u32 {
        self.0
    }

    fn on_result(&mut self) {}

    fn on_congestion(&mut self, _: Sequence, _: Sequence) {}

    fn limit(&mut self, _window: u32) {}

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn no_controller_opens_the_window_beyond_the_slots_or_shuts_it() {
    for (window, sends) in [(u32::MAX, 8), (3, 3), (0, 1)] {
        let config = Setup::papers().worker(0, 0);
        let mut worker = Worker::with_controller(config, Box::new(Always(window))).unwrap();
        worker.submit(Tensor::I32(vec![1; 400].into())).unwrap();
        assert_eq!(sent(&mut worker, us(0)).len(), sends);
    }
}

#[test]
fn a_congestion_window_of_one_still_sends() {
    let mut config = Setup::papers().worker(0, 0);
    config.initial_window = Some(1);
    let mut worker = Worker::new(config).unwrap();
    worker.submit(Tensor::I32(vec![1; 40].into())).unwrap();
    assert_eq!(sent(&mut worker, us(0)).len(), 1);
    result(&mut worker, 1, 0, Flags::ECN);
    assert_eq!((worker.window(), sent(&mut worker, us(1)).len()), (1, 1));
}

#[test]
fn the_initial_window_is_60_kb() {
    let setup = Setup { values: 64, slots: 4096, ..Setup::papers() };
    assert_eq!(Worker::new(setup.worker(0, 0)).unwrap().window(), 60 * 1024 / 256);
    let setup = Setup { values: 16000, ..setup };
    assert_eq!(Worker::new(setup.worker(0, 0)).unwrap().window(), 1);
}

#[test]
fn tensors_come_back_in_order_with_their_sums_and_in_their_own_memory() {
    let (mut worker, _) = worker();
    let first: Vec<f32> = vec![0.5, -0.25, 1.0];
    let memory = first.as_ptr();
    assert_eq!(worker.submit(Tensor::F32(first.into())), Ok(TensorId(0)));
    assert_eq!(worker.submit(Tensor::I32(vec![].into())), Ok(TensorId(1)));
    assert_eq!(worker.submit(Tensor::I32(vec![7].into())), Ok(TensorId(2)));
    let all = sent(&mut worker, us(0));
    let words: Vec<_> = all.iter().map(|s| s.words.clone()).collect();
    assert_eq!(words, [vec![500, -250], vec![1000, 0], vec![7, 0]]);
    result(&mut worker, 1, 2, NONE);
    result(&mut worker, 2, 0, NONE);
    assert!(events(&mut worker).is_empty() && !worker.is_idle());
    result(&mut worker, 3, 1, NONE);
    let events = events(&mut worker);
    let none = Rounding::default();
    let of_floats = Rounding { values: 3, greatest: 1.0, least: 0.25, ..none };
    let expected = [
        (0, Tensor::F32(vec![0.0, 0.001, 0.1].into()), of_floats),
        (1, Tensor::I32(vec![].into()), none),
        (2, Tensor::I32(vec![200].into()), none),
    ];
    let expected = expected.map(|(id, tensor, rounding)| Event::TensorDone {
        id: TensorId(id),
        tensor,
        rounding,
    });
    assert_eq!(events, expected);
    let Event::TensorDone { tensor: Tensor::F32(values), .. } = &events[0] else {
        panic!("not floats");
    };
    assert_eq!(values.as_ptr(), memory);
    assert!(worker.is_idle());
}

#[test]
fn an_empty_tensor_is_done_at_once() {
    let (mut worker, _) = worker();
    worker.submit(Tensor::F32(vec![].into())).unwrap();
    assert_eq!(events(&mut worker).len(), 1);
    assert!(worker.is_idle() && worker.poll_timeout().is_none());
}

#[test]
fn results_that_are_not_due_or_not_the_jobs_change_nothing() {
    let (mut worker, job) = loaded(3);
    sent(&mut worker, us(0));
    let good = repr(&job, Kind::Parameter, 0, EVERYONE, NONE);
    let bitmap = Bitmap;
    let wrong: Vec<(Repr, Counter)> = vec![
        (Repr { job: JobId::new(9).unwrap(), ..good }, |s| s.rejected.other_job),
        (Repr { epoch: Epoch::new(4).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { epoch: Epoch::new(6).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { protocol: Protocol::SwitchMl, ..good }, |s| s.rejected.other_protocol),
        (Repr { kind: Kind::Gradient, ..good }, |s| s.rejected.wrong_kind),
        (Repr { kind: Kind::Sweep, values: 0, ..good }, |s| s.rejected.wrong_kind),
        (Repr { values: 1, ..good }, |s| s.rejected.wrong_values),
        (Repr { bitmap: bitmap(0b011), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: bitmap(0b1111), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: bitmap(0), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { kind: Kind::Query, values: 0, bitmap: bitmap(0b101), ..good }, |s| {
            s.rejected.wrong_bitmap
        }),
        (Repr { index: AggregatorIndex(good.index.0 + 1), ..good }, |s| s.rejected.wrong_index),
        (Repr { sequence: Sequence(3), ..good }, |s| s.unsent),
        (Repr { sequence: Sequence(8), ..good }, |s| s.unsent),
        (Repr { sequence: Sequence(u32::MAX), ..good }, |s| s.unsent),
    ];
    for (repr, counter) in wrong {
        let before = counter(worker.stats());
        worker.handle_frame(us(1), &frame(&repr, &[1, 2]));
        assert_eq!(counter(worker.stats()), before + 1, "{repr:?}");
        assert_eq!(worker.outstanding(), Sequence(0)..Sequence(3), "{repr:?}");
        assert!(sent(&mut worker, us(1)).is_empty(), "{repr:?}");
    }
    worker.handle_frame(us(1), b"neither");
    assert_eq!(worker.stats().results, 0);
    assert_ne!(worker.stats().rejected, Rejected::default());
    // The first result of a sequence counts; a second one does not.
    for sequence in [1, 0, 2] {
        result(&mut worker, 2, sequence, NONE);
        let again = Repr { sequence: Sequence(sequence), index: index(&job, sequence, 0), ..good };
        worker.handle_frame(us(3), &frame(&again, &[-1, -1]));
    }
    assert_eq!(worker.stats().duplicates, 3);
    let tensor = Tensor::I32(vec![0, 1, 100, 101, 200, 201].into());
    let (id, rounding) = (TensorId(0), Rounding::default());
    assert_eq!(events(&mut worker), [Event::TensorDone { id, tensor, rounding }]);
}

#[test]
fn three_later_results_make_a_fragment_lost_once() {
    let (mut worker, _) = loaded(8);
    sent(&mut worker, us(0));
    result(&mut worker, 1, 1, NONE);
    result(&mut worker, 2, 2, NONE);
    assert!(sent(&mut worker, us(2)).is_empty());
    result(&mut worker, 3, 3, NONE);
    assert_eq!(sequences(&sent(&mut worker, us(3))), [(0, RESEND)]);
    for sequence in 4..8 {
        result(&mut worker, 4, sequence, NONE);
    }
    assert!(sent(&mut worker, us(4)).is_empty());
    assert_eq!(worker.stats().fast_resends, 1);
}

#[test]
fn three_later_results_halve_the_window_only_if_they_are_read_as_congestion() {
    let window = |later_results| {
        let mut config = Setup { values: 2, ..Setup::papers() }.worker(0, 1);
        config.timing.readings.later_results = later_results;
        let mut worker = Worker::new(config).unwrap();
        worker.submit(Tensor::I32((0..16).collect())).unwrap();
        sent(&mut worker, us(0));
        for sequence in 1..=3 {
            result(&mut worker, 1, sequence, NONE);
        }
        assert_eq!(worker.stats().fast_resends, 1);
        worker.window()
    };
    let rules = [LaterResults::ByProtocol, LaterResults::Halve, LaterResults::Ignore];
    assert_eq!(rules.map(window), [8, 4, 8]);
}

#[test]
fn a_timeout_resends_the_lowest_and_then_twice_as_many_each_time() {
    let (mut worker, _) = loaded(8);
    sent(&mut worker, us(0));
    let mut at = worker.poll_timeout().unwrap();
    assert_eq!(at, us(20_000));
    worker.handle_timeout(at);
    assert_eq!(sequences(&sent(&mut worker, at)), [(0, RESEND)]);
    // No result arrives: the same again, backed off.
    let again = worker.poll_timeout().unwrap();
    assert_eq!(again - at, Duration::from_millis(40));
    at = again;
    worker.handle_timeout(at);
    assert_eq!(sequences(&sent(&mut worker, at)), [(0, RESEND)]);
    result(&mut worker, 60_010, 0, NONE);
    assert_eq!(sequences(&sent(&mut worker, us(60_010))), [(1, RESEND), (2, RESEND)]);
    result(&mut worker, 60_020, 1, NONE);
    result(&mut worker, 60_020, 2, NONE);
    let four = [3, 4, 5, 6].map(|s| (s, RESEND));
    assert_eq!(sequences(&sent(&mut worker, us(60_020))), four);
    // A resent fragment gives no round-trip sample (Karn's rule); one that was sent once does.
    assert_eq!(worker.round_trip(), None);
    result(&mut worker, 60_030, 7, NONE);
    assert_eq!(worker.round_trip(), Some(Duration::from_micros(60_030)));
}

#[test]
fn the_timeout_of_an_idle_worker_does_nothing() {
    let (mut worker, _) = loaded(1);
    sent(&mut worker, us(0));
    result(&mut worker, 5, 0, NONE);
    while let Some(at) = worker.poll_timeout() {
        worker.handle_timeout(at);
        assert!(sent(&mut worker, at).is_empty());
    }
    assert_eq!(worker.stats().timeouts, 0);
}

#[test]
fn a_query_is_answered_at_once_unless_the_result_arrived() {
    let (mut worker, _) = loaded(20);
    sent(&mut worker, us(0));
    result(&mut worker, 1, 1, NONE);
    for sequence in [1, 3, 3] {
        query(&mut worker, 2, sequence, NONE);
    }
    assert_eq!(sequences(&sent(&mut worker, us(2))), [(3, RESEND)]);
    assert_eq!((worker.stats().queries, worker.stats().stale_queries), (2, 1));
    // Queries beyond the window are ignored.
    for sequence in [8, 100, u32::MAX] {
        query(&mut worker, 3, sequence, OVERFLOW);
    }
    assert_eq!(worker.stats().stale_queries, 4);
    assert!(sent(&mut worker, us(3)).is_empty());
}

#[test]
fn a_fragment_queried_early_goes_directly_to_the_server() {
    let setup = Setup { values: 2, initial_window: Some(2), ..Setup::papers() };
    let mut worker = Worker::new(setup.worker(0, 1)).unwrap();
    // Queried before a tensor is submitted.
    query(&mut worker, 0, 1, OVERFLOW);
    query(&mut worker, 0, 3, NONE);
    worker.submit(Tensor::F32(vec![0.5; 40].into())).unwrap();
    let first = sent(&mut worker, us(1));
    assert_eq!(sequences(&first), [(0, NONE), (1, RESEND | OVERFLOW)]);
    assert_eq!(first[1].floats(), [0.5, 0.5]);
    result(&mut worker, 2, 0, NONE);
    result(&mut worker, 2, 1, NONE);
    assert_eq!(
        sequences(&sent(&mut worker, us(2))),
        [(2, NONE), (3, RESEND), (4, NONE), (5, NONE)]
    );
    // Later fragments of the slots are unaffected.
    for sequence in 2..6 {
        result(&mut worker, 3, sequence, NONE);
    }
    let rest = sequences(&sent(&mut worker, us(3)));
    assert_eq!(rest, (6..14).map(|s| (s, NONE)).collect::<Vec<_>>());
}

#[test]
fn overflowing_fragments_are_sent_as_floats_and_stay_floats() {
    let (mut worker, job) = worker();
    // The limit is (2^31 − 1) / 3 = 715 827 882 at scale 1000.
    let values = vec![715_827.0, 1.0, -715_900.0, 2.0, 3.0, 4.0];
    worker.submit(Tensor::F32(values.clone().into())).unwrap();
    let all = sent(&mut worker, us(0));
    assert_eq!(sequences(&all), [(0, NONE), (1, OVERFLOW), (2, NONE)]);
    assert_eq!(all[0].words, [715_827_000, 1000]);
    assert_eq!(all[1].floats(), [-715_900.0, 2.0]);
    query(&mut worker, 1, 1, NONE);
    query(&mut worker, 1, 2, OVERFLOW);
    let again = sent(&mut worker, us(1));
    assert_eq!(sequences(&again), [(1, RESEND | OVERFLOW), (2, RESEND | OVERFLOW)]);
    assert_eq!(again[1].floats(), [3.0, 4.0]);
    // Integer and float results in one tensor.
    result(&mut worker, 2, 0, NONE);
    for (sequence, sums) in [(1, [f32::INFINITY, -0.5]), (2, [1e38, 7.25])] {
        let repr = repr(&job, Kind::Reply, sequence, EVERYONE, OVERFLOW);
        worker.handle_frame(us(3), &frame(&repr, &float_words(&sums)));
    }
    let tensor = Tensor::F32(vec![0.0, 0.001, f32::INFINITY, -0.5, 1e38, 7.25].into());
    // Of the floats, only the number counts.
    let rounding = Rounding { values: 6, greatest: 715_827.0, least: 1.0, ..Rounding::default() };
    let id = TensorId(0);
    assert_eq!(events(&mut worker), [Event::TensorDone { id, tensor, rounding }]);
    assert_eq!((worker.stats().overflow_results, worker.stats().replies), (2, 2));
}

#[test]
fn integers_are_never_made_floats() {
    for (kind, bitmap) in [(Kind::Query, 0b010), (Kind::Parameter, EVERYONE)] {
        let (mut worker, job) = loaded(2);
        sent(&mut worker, us(0));
        worker.handle_frame(us(1), &frame(&repr(&job, kind, 1, bitmap, OVERFLOW), &[]));
        assert!(sent(&mut worker, us(1)).is_empty());
        let failure = Failure::KindMismatch { sequence: Sequence(1) };
        assert_eq!(events(&mut worker), [Event::Failed(failure)]);
        // From now on the worker is silent.
        result(&mut worker, 2, 0, NONE);
        assert_eq!((worker.failure(), worker.poll_timeout()), (Some(failure), None));
        assert_eq!(worker.stats().results, 0);
        let error = worker.submit(Tensor::I32(vec![1].into()));
        assert_eq!(error, Err(SubmitError::Failed(failure)));
    }
}

#[test]
fn a_collision_moves_the_slot_and_only_that() {
    let (mut worker, job) = loaded(20);
    sent(&mut worker, us(0));
    for sequence in 0..8 {
        let flags = if sequence == 5 { Flags::COLLISION } else { NONE };
        result(&mut worker, 1, sequence, flags);
    }
    for packet in sent(&mut worker, us(2)) {
        let sequence = packet.repr.sequence.0;
        let salt = u32::from(sequence == 13);
        assert_eq!(packet.repr.index, index(&job, sequence, salt), "{sequence}");
    }
    assert_eq!(worker.stats().collisions, 1);
}

#[test]
fn a_mark_halves_the_window_once_per_window() {
    let (mut worker, _) = loaded(40);
    assert_eq!(worker.window(), 8);
    sent(&mut worker, us(0));
    for sequence in 0..8 {
        result(&mut worker, 1, sequence, Flags::ECN);
    }
    assert_eq!((worker.window(), worker.stats().marked), (4, 8));
    assert_eq!(sent(&mut worker, us(2)).len(), 4);
}

#[test]
fn a_stall_is_reported_once_per_fragment() {
    let (mut worker, _) = loaded(2);
    let start = us(3_000_000);
    sent(&mut worker, start);
    let mut seen = vec![];
    let mut run = |worker: &mut Worker, until| {
        while let Some(at) = worker.poll_timeout().filter(|at| *at < until) {
            worker.handle_timeout(at);
            sent(worker, at);
            seen.extend(events(worker).into_iter().map(|event| (at, event)));
        }
    };
    run(&mut worker, us(40_000_000));
    result(&mut worker, 40_000_000, 0, NONE);
    run(&mut worker, us(60_000_000));
    let seen: Vec<_> = seen
        .into_iter()
        .map(|(at, event)| match event {
            Event::Stalled { sequence, waited } => (at, sequence.0, waited.as_secs()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(us(13_000_000), 0, 10), (us(50_000_000), 1, 10)]);
}

#[test]
fn configurations_that_contradict_themselves_are_refused() {
    let error = |change: fn(&mut tributary_protocol::WorkerConfig)| {
        let mut config = Setup::papers().worker(0, 2);
        change(&mut config);
        Worker::new(config).err()
    };
    assert_eq!(error(|_| ()), None);
    let index = Some(ConfigError::Index { index: 3, workers: 3 });
    assert_eq!(error(|c| c.index = WorkerIndex::new(3).unwrap()), index);
    assert_eq!(error(|c| c.initial_window = Some(0)), Some(ConfigError::InitialWindow));
    assert_eq!(error(|c| c.job.slots = 3), Some(ConfigError::Slots(3)));
    assert!(matches!(
        error(|c| c.timing.rtt.max = Duration::ZERO),
        Some(ConfigError::Timeouts { .. })
    ));
}
