//! Unit tests of the PS.

use std::time::Duration;

use proptest::prelude::*;
use tributary_protocol::server::{Event, ParameterServer, Stats};
use tributary_protocol::{ConfigError, Endpoint, JobConfig, PsConfig, Racks, Rejected, Time};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Bitmap, Epoch, Flags, Host, JobId, Kind, Protocol, Sequence, WorkerSet,
};

use crate::network::frames::{Sent, float_words, frame, index, repr, sent, us};
use crate::network::net::{Setup, host};

const RESEND: Flags = Flags::RESEND;
const NONE: Flags = Flags::NONE;

fn server(workers: u8) -> (ParameterServer, JobConfig) {
    let setup = Setup { workers, values: 2, slots: 4, ..Setup::papers() };
    (ParameterServer::new(setup.server(0)).unwrap(), setup.job(0))
}

/// Selects a counter.
type Counter = fn(&Rejected) -> u64;

/// The contribution of worker `w` to a fragment.
fn words(worker: u8, sequence: u32) -> Vec<i32> {
    let value = 1 << worker;
    vec![value, -value - 1000 * sequence.cast_signed()]
}

fn sum(bitmap: u32, sequence: u32) -> Vec<i32> {
    let mut sums = vec![0i32; 2];
    for worker in Bitmap(bitmap).iter() {
        for (sum, word) in sums.iter_mut().zip(words(worker, sequence)) {
            *sum = sum.wrapping_add(word);
        }
    }
    sums
}

fn give(server: &mut ParameterServer, now: Time, sequence: u32, bitmap: u32, flags: Flags) {
    let job = server.config().job;
    let repr = repr(&job, Kind::Gradient, sequence, bitmap, flags);
    server.handle_frame(now, &frame(&repr, &sum(bitmap, sequence)));
}

fn kinds(sent: &[Sent]) -> Vec<(Kind, u32, u32)> {
    sent.iter().map(|s| (s.repr.kind, s.repr.sequence.0, s.repr.bitmap.0)).collect()
}

#[test]
fn completes_once_and_multicasts() {
    let (mut ps, job) = server(3);
    give(&mut ps, us(0), 0, 0b001, NONE);
    give(&mut ps, us(1), 0, 0b110, NONE);
    let all = sent(&mut ps, us(1));
    assert_eq!(kinds(&all), [(Kind::Parameter, 0, 0b111)]);
    assert_eq!(all[0].envelope.destination, Host::group(job.job));
    assert_eq!((all[0].words.clone(), all[0].repr.flags), (sum(0b111, 0), NONE));
    assert_eq!(all[0].repr.index, index(&job, 0, 0));
    assert_eq!(ps.pending_tasks(), 0);
}

#[test]
fn an_overlap_is_dropped_and_missing_workers_are_queried_once_per_timeout() {
    let (mut ps, _) = server(3);
    give(&mut ps, us(0), 0, 0b001, NONE);
    for _ in 0..5 {
        give(&mut ps, us(1), 0, 0b011, RESEND);
    }
    assert_eq!(ps.stats().overlaps, 5);
    assert_eq!(kinds(&sent(&mut ps, us(1))), [(Kind::Query, 0, 0b010), (Kind::Query, 0, 0b100)]);
    give(&mut ps, us(2), 0, 0b001, RESEND);
    assert_eq!(ps.stats().duplicates, 1);
    assert!(sent(&mut ps, us(2)).is_empty());
    // The initial timeout is 100 ms.
    give(&mut ps, us(100_001), 0, 0b001, RESEND);
    assert_eq!(sent(&mut ps, us(100_001)).len(), 2);
    give(&mut ps, us(100_002), 0, 0b110, RESEND);
    assert_eq!(sent(&mut ps, us(100_002))[0].words, sum(0b111, 0));
}

#[test]
fn no_query_for_values_that_have_arrived() {
    let (mut ps, _) = server(3);
    give(&mut ps, us(0), 0, 0b001, NONE);
    give(&mut ps, us(1), 0, 0b001, NONE);
    give(&mut ps, us(1), 0, 0b010, NONE);
    assert_eq!(kinds(&sent(&mut ps, us(1))), [(Kind::Query, 0, 0b100)]);
}

#[test]
fn keeps_a_result_until_the_next_task_of_its_slot_is_complete() {
    let (mut ps, _) = server(2);
    for sequence in 0..4 {
        give(&mut ps, us(0), sequence, 0b11, NONE);
    }
    assert_eq!(sent(&mut ps, us(0)).len(), 4);
    // Worker 0 has the result and continues; worker 1 lacks it.
    give(&mut ps, us(1), 4, 0b01, NONE);
    give(&mut ps, us(2), 0, 0b10, RESEND);
    let reply = sent(&mut ps, us(2));
    assert_eq!(kinds(&reply), [(Kind::Reply, 0, 0b11)]);
    assert_eq!(reply[0].envelope.destination, host(0, 1));
    assert_eq!(reply[0].words, sum(0b11, 0));
    give(&mut ps, us(3), 4, 0b10, NONE);
    assert_eq!(sent(&mut ps, us(3))[0].words, sum(0b11, 4));
    give(&mut ps, us(4), 0, 0b10, RESEND);
    assert!(sent(&mut ps, us(4)).is_empty());
    assert_eq!(ps.stats().stale, 1);
}

#[test]
fn replies_to_resends_only_and_to_each_worker_once() {
    let (mut ps, _) = server(3);
    give(&mut ps, us(0), 0, 0b111, NONE);
    // The Parameter is still due, so no Reply is needed.
    give(&mut ps, us(0), 0, 0b001, RESEND);
    assert_eq!(kinds(&sent(&mut ps, us(0))), [(Kind::Parameter, 0, 0b111)]);
    give(&mut ps, us(1), 0, 0b001, NONE);
    give(&mut ps, us(1), 0, 0b001, Flags::COLLISION);
    assert!(sent(&mut ps, us(1)).is_empty());
    for _ in 0..10 {
        give(&mut ps, us(2), 0, 0b101, RESEND);
    }
    let replies = sent(&mut ps, us(2));
    let to: Vec<Host> = replies.iter().map(|r| r.envelope.destination).collect();
    assert_eq!(to, [host(0, 0), host(0, 2)]);
    assert!(replies.iter().all(|r| r.words == sum(0b111, 0)));
}

#[test]
fn sequences_that_are_not_due_change_nothing() {
    let (mut ps, _) = server(2);
    // The second round cannot begin before the first is complete.
    for sequence in [4, 5, 8, 1 << 20, u32::MAX - 1, u32::MAX] {
        give(&mut ps, us(0), sequence, 0b01, NONE);
        give(&mut ps, us(0), sequence, 0b11, RESEND);
    }
    assert_eq!((ps.stats().out_of_window, ps.pending_tasks()), (12, 0));
    for round in 0..3 {
        give(&mut ps, us(1), 4 * round, 0b11, NONE);
    }
    for stale in [0, 4] {
        give(&mut ps, us(2), stale, 0b01, RESEND);
    }
    assert_eq!((ps.stats().stale, ps.stats().completed), (2, 3));
    // While a task is collected, the slot's next task is not due either.
    give(&mut ps, us(3), 12, 0b01, NONE);
    give(&mut ps, us(3), 16, 0b01, NONE);
    assert_eq!((ps.stats().out_of_window, ps.pending_tasks()), (13, 1));
}

#[test]
fn a_later_run_replaces_the_current_one_and_their_values_do_not_mix() {
    let (mut ps, first) = server(2);
    let later = JobConfig { epoch: first.epoch.next().unwrap(), ..first };
    let gradient = |job: &JobConfig, bitmap, values: [i32; 2]| {
        frame(&repr(job, Kind::Gradient, 0, bitmap, RESEND), &values)
    };
    ps.handle_frame(us(0), &gradient(&first, 0b01, [1000, 1000]));
    ps.handle_frame(us(1), &gradient(&later, 0b10, [2, 20]));
    // Late packets of the first run with any values, and then the other worker of the second run.
    ps.handle_frame(us(2), &gradient(&first, 0b10, [1000, 1000]));
    ps.handle_frame(us(3), &gradient(&first, 0b11, [1000, 1000]));
    assert_eq!((sent(&mut ps, us(3)).len(), ps.stats().rejected.other_run), (0, 2));
    ps.handle_frame(us(4), &gradient(&later, 0b01, [1, 10]));
    let result = sent(&mut ps, us(4));
    assert_eq!(kinds(&result), [(Kind::Parameter, 0, 0b11)]);
    assert_eq!((result[0].repr.epoch, &result[0].words[..]), (later.epoch, &[3, 30][..]));
}

/// The later run may have a third worker, so both are not all.
#[test]
fn a_server_that_is_told_of_runs_follows_no_packet() {
    let setup = Setup { workers: 2, values: 2, slots: 4, ..Setup::papers() };
    let first = setup.job(0);
    let config = PsConfig { follows_runs: false, ..setup.server(0) };
    let mut ps = ParameterServer::new(config).unwrap();
    let later = JobConfig { epoch: first.epoch.next().unwrap(), ..first };
    let gradient = |job: &JobConfig, bitmap, values: [i32; 2]| {
        frame(&repr(job, Kind::Gradient, 0, bitmap, RESEND), &values)
    };
    ps.handle_frame(us(0), &gradient(&first, 0b01, [1, 10]));
    ps.handle_frame(us(1), &gradient(&later, 0b11, [1000, 1000]));
    assert_eq!((sent(&mut ps, us(1)).len(), ps.stats().rejected.other_run), (0, 1));
    ps.handle_frame(us(2), &gradient(&first, 0b10, [2, 20]));
    let result = sent(&mut ps, us(2));
    assert_eq!((result[0].repr.epoch, &result[0].words[..]), (first.epoch, &[3, 30][..]));
}

#[test]
fn what_is_not_the_jobs_is_counted_and_changes_nothing() {
    let (mut ps, job) = server(3);
    let good = repr(&job, Kind::Gradient, 0, 0b001, NONE);
    let bitmap = Bitmap;
    let wrong: Vec<(Repr, Counter)> = vec![
        (Repr { job: JobId::new(2).unwrap(), ..good }, |r| r.other_job),
        (Repr { epoch: Epoch::new(4).unwrap(), ..good }, |r| r.other_run),
        (Repr { protocol: Protocol::Esa, ..good }, |r| r.other_protocol),
        (Repr { kind: Kind::Parameter, ..good }, |r| r.wrong_kind),
        (Repr { kind: Kind::Reply, ..good }, |r| r.wrong_kind),
        (Repr { kind: Kind::Query, values: 0, ..good }, |r| r.wrong_kind),
        (Repr { kind: Kind::Sweep, values: 0, ..good }, |r| r.wrong_kind),
        (Repr { values: 1, ..good }, |r| r.wrong_values),
        (Repr { values: 3, ..good }, |r| r.wrong_values),
        (Repr { bitmap: bitmap(0), ..good }, |r| r.wrong_bitmap),
        (Repr { bitmap: bitmap(0b1000), ..good }, |r| r.wrong_bitmap),
        (Repr { bitmap: bitmap(0b1001), ..good }, |r| r.wrong_bitmap),
        (Repr { bitmap: bitmap(u32::MAX), ..good }, |r| r.wrong_bitmap),
        (Repr { bitmap: bitmap(0b011), flags: Flags::OVERFLOW, ..good }, |r| r.wrong_bitmap),
        (Repr { index: AggregatorIndex(good.index.0 ^ 1), ..good }, |r| r.wrong_index),
        (Repr { index: AggregatorIndex(u32::MAX), ..good }, |r| r.wrong_index),
    ];
    for (repr, counter) in wrong {
        let before = *ps.stats();
        ps.handle_frame(us(0), &frame(&repr, &[7, 7, 7]));
        assert_eq!(counter(&ps.stats().rejected), counter(&before.rejected) + 1, "{repr:?}");
        assert_eq!(ps.stats().rejected.total(), before.rejected.total() + 1, "{repr:?}");
        assert_eq!((ps.pending_tasks(), ps.poll_timeout()), (0, None), "{repr:?}");
    }
    ps.handle_frame(us(0), &[0; 60]);
    let mut broken = frame(&good, &[7, 7]);
    broken[30] ^= 1;
    ps.handle_frame(us(0), &broken);
    let rejected = ps.stats().rejected;
    assert_eq!((rejected.foreign, rejected.malformed), (1, 1));
    assert!(sent(&mut ps, us(0)).is_empty());
    assert_eq!((ps.stats().merged, ps.stats().completed), (0, 0));
}

#[test]
fn flags_of_merged_packets_are_in_the_result_and_a_collision_moves_the_slot() {
    let (mut ps, job) = server(2);
    give(&mut ps, us(0), 0, 0b01, Flags::COLLISION);
    give(&mut ps, us(0), 0, 0b10, RESEND | Flags::ECN);
    let parameter = sent(&mut ps, us(0));
    assert_eq!(parameter[0].repr.flags, Flags::COLLISION | Flags::ECN);
    assert_eq!(parameter[0].repr.index, index(&job, 0, 0));
    // The Reply still names the old aggregator, because that is the one to free.
    give(&mut ps, us(1), 0, 0b10, RESEND);
    let reply = &sent(&mut ps, us(1))[0].repr;
    assert_eq!((reply.flags, reply.index), (parameter[0].repr.flags, parameter[0].repr.index));
    give(&mut ps, us(2), 4, 0b11, NONE);
    assert_eq!(ps.stats().rejected.wrong_index, 1);
    let mut moved = repr(&job, Kind::Gradient, 4, 0b11, NONE);
    moved.index = index(&job, 4, 1);
    assert_ne!(moved.index, index(&job, 4, 0));
    ps.handle_frame(us(2), &frame(&moved, &sum(0b11, 4)));
    let parameter = &sent(&mut ps, us(2))[0];
    assert_eq!((parameter.repr.flags, parameter.repr.index), (NONE, moved.index));
    assert_eq!(parameter.words, sum(0b11, 4));
}

#[test]
fn one_float_makes_the_task_a_float_task() {
    let (mut ps, job) = server(3);
    let float = |ps: &mut ParameterServer, worker: u32, values: [f32; 2], flags| {
        let repr = repr(&job, Kind::Gradient, 0, 1 << worker, flags | Flags::OVERFLOW);
        ps.handle_frame(us(1), &frame(&repr, &float_words(&values)));
    };
    give(&mut ps, us(0), 0, 0b011, NONE);
    float(&mut ps, 2, [1e30, 0.25], NONE);
    // The integers are discarded: all other workers are queried for floats.
    let queries = sent(&mut ps, us(1));
    assert_eq!(kinds(&queries), [(Kind::Query, 0, 0b001), (Kind::Query, 0, 0b010)]);
    assert!(queries.iter().all(|q| q.repr.flags == Flags::OVERFLOW));
    give(&mut ps, us(1), 0, 0b011, RESEND);
    assert_eq!((ps.stats().fixed_after_overflow, ps.stats().completed), (1, 0));
    float(&mut ps, 2, [5.0, 5.0], RESEND);
    assert_eq!(ps.stats().duplicates, 1);
    float(&mut ps, 1, [-1e30, 0.5], RESEND);
    assert!(sent(&mut ps, us(1)).is_empty());
    float(&mut ps, 0, [3.0, 1.0], RESEND);
    let parameter = &sent(&mut ps, us(1))[0];
    assert_eq!((parameter.repr.kind, parameter.repr.flags), (Kind::Parameter, Flags::OVERFLOW));
    // (3 − 1e30) + 1e30 in f64 loses the 3.
    assert_eq!(parameter.floats(), [0.0, 1.75]);
    // The slot's next task uses integers again, in the same memory.
    give(&mut ps, us(2), 4, 0b111, NONE);
    assert_eq!(sent(&mut ps, us(2))[0].words, sum(0b111, 4));
    assert_eq!(ps.stats().overflow_tasks, 1);
}

#[test]
fn timeouts_query_the_missing_workers_with_backoff() {
    let (mut ps, _) = server(4);
    give(&mut ps, us(0), 1, 0b0001, RESEND);
    give(&mut ps, us(50), 2, 0b0011, RESEND);
    let mut asked = vec![];
    let mut events = vec![];
    while let Some(at) = ps.poll_timeout().filter(|at| *at < us(25_000_000)) {
        ps.handle_timeout(at);
        for query in sent(&mut ps, at) {
            asked.push((query.repr.sequence.0, query.repr.bitmap.0, at));
        }
        events.extend(std::iter::from_fn(|| ps.poll_event()));
    }
    let times: Vec<u64> = asked
        .iter()
        .filter(|(sequence, bitmap, _)| (*sequence, *bitmap) == (1, 0b1000))
        .map(|(.., at)| at.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(times[..7], [20, 60, 140, 240, 340, 440, 540]);
    assert!(
        asked
            .iter()
            .all(|(sequence, bitmap, _)| bitmap & [0, 0b0001, 0b0011][*sequence as usize] == 0)
    );
    let stalled = Event::Stalled {
        sequence: Sequence(1),
        missing: WorkerSet::from_low_bits(0b1110),
        waited: Duration::from_secs(10),
        quiet: true,
    };
    assert_eq!(events, [stalled]);
}

#[test]
fn an_idle_server_has_no_timeout() {
    let (mut ps, _) = server(2);
    give(&mut ps, us(0), 0, 0b01, NONE);
    give(&mut ps, us(1), 0, 0b10, NONE);
    sent(&mut ps, us(1));
    while let Some(at) = ps.poll_timeout() {
        ps.handle_timeout(at);
        assert!(sent(&mut ps, at).is_empty());
    }
    assert_eq!((ps.poll_event(), ps.stats().timeouts), (None, 0));
}

#[test]
fn configurations_that_contradict_themselves_are_refused() {
    let setup = Setup::papers();
    let error = |change: fn(&mut tributary_protocol::PsConfig)| {
        let mut config = setup.server(0);
        change(&mut config);
        ParameterServer::new(config).err()
    };
    assert_eq!(error(|_| ()), None);
    assert_eq!(error(|c| c.job.racks = Racks::flat(0)), Some(ConfigError::NoWorkers));
    assert_eq!(error(|c| c.job.slots = 0), Some(ConfigError::Slots(0)));
    assert_eq!(error(|c| c.job.slots = 12), Some(ConfigError::Slots(12)));
    assert_eq!(error(|c| c.job.slots = 1 << 17), Some(ConfigError::Slots(1 << 17)));
    assert_eq!(error(|c| c.job.values_per_packet = 0), Some(ConfigError::Values(0)));
    assert!(matches!(error(|c| c.workers.truncate(2)), Some(ConfigError::Addresses { .. })));
    assert_eq!(error(|c| c.timing.stall_timeout = Duration::ZERO), Some(ConfigError::StallTimeout));
    assert!(matches!(
        error(|c| c.timing.rtt.min = Duration::ZERO),
        Some(ConfigError::Timeouts { .. })
    ));
}

proptest! {
    /// For partial sums of any workers in any order, with repetitions, every result contains each
    /// worker's values once.
    #[test]
    fn shuffled_and_overlapping_partial_sums_add_up(
        workers in 1u8..=10,
        packets in prop::collection::vec((0u32..12, any::<u32>(), 0u8..16), 0..300),
    ) {
        let (mut ps, job) = server(workers);
        let everyone = job.whole().0;
        let mut completed = [0u32; 4];
        for (sequence, bits, flags) in packets {
            // Half of the packets come from one worker.
            let bits = if bits & 0x8000_0000 == 0 { 1 << (bits % u32::from(workers)) } else { bits };
            let flags = Flags::from_bits(flags).unwrap().without(Flags::OVERFLOW | Flags::COLLISION);
            give(&mut ps, us(1), sequence, bits & everyone, flags);
            for sent in sent(&mut ps, us(1)) {
                let sequence = sent.repr.sequence.0;
                match sent.repr.kind {
                    Kind::Query => prop_assert!(sent.repr.bitmap.is_subset(job.whole())),
                    kind => {
                        prop_assert_eq!(sent.repr.bitmap.0, everyone);
                        prop_assert_eq!(&sent.words, &sum(everyone, sequence));
                        let slot = (sequence % 4) as usize;
                        if kind == Kind::Parameter {
                            prop_assert_eq!(sequence / 4, completed[slot]);
                            completed[slot] += 1;
                        } else {
                            prop_assert_eq!(sequence / 4 + 1, completed[slot]);
                        }
                    }
                }
            }
        }
        let Stats { completed: count, .. } = *ps.stats();
        prop_assert_eq!(count, u64::from(completed.iter().sum::<u32>()));
    }
}
